# row_parts.pl: row mode with more rows than a device has room for.
#
# Rows go to the device in parts in the order in which they come, to one device or several, and are merged with the
# runs on disk. The rows of each query come in the stock Sort's order, and EXPLAIN tells which devices sorted them.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GpuSortTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $library = $ENV{GPUSORT_TEST_LIBRARY};
plan skip_all => 'needs the three devices of the fake device' if defined $library;

$ENV{GPUSORT_CPU_ABI_DEVICES} = 3;
my $node = new_node('rows_parts', conf => <<CONF);
gpusort.device_library = '\$libdir/libgpusort_cpu_abi'
gpusort.device = auto
gpusort.device_share = 100
gpusort.staging_memory = 8MB
gpusort.device_memory = 24MB
work_mem = 2MB
shared_buffers = 64MB
synchronize_seqscans = off
log_min_messages = log
CONF

# sorts can have 16 of 24 MB: room for about 70,000 rows with their keys and scratch memory
my $rows = 150_000;
my $many = 330_000;
device_ready($node, 'start');
device_lines_function($node);
$node->safe_psql('postgres', <<SQL);
CREATE TABLE many AS SELECT i AS id, (mix(i) - 2147483648)::int4 AS k, mix(i * 7) * 1000003 - 2000000000000000 AS w,
	CASE WHEN i % 11 = 0 THEN NULL ELSE i % 100 END AS nk, (mix(i * 3) - 2e9) / 7::float8 AS f,
	(mix(i) % 30000)::int4 AS dup, CASE WHEN i = $rows - 10 THEN NULL ELSE mix(i * 5)::int8 END AS late,
	'row ' || mix(i) % 50000 || repeat('x', i % 40) AS pad,
	(CASE WHEN i % 3 = 0 THEN 'all begin alike ' || mix(i) % 9000 ELSE md5(i::text) END)::bytea AS bytes
FROM generate_series(1, $many) i;
CREATE TABLE t AS SELECT * FROM many WHERE id <= $rows;
CREATE TABLE few AS SELECT * FROM many WHERE id <= 40000;
VACUUM ANALYZE many, t, few;
ALTER DATABASE postgres SET gpusort.algorithm = 'gpu_radix';
SQL

sub value { return $node->safe_psql('postgres', @_) }

sub same
{
	my ($name, $select, $order, $set) = @_;

	same_order($node, $name, $select, $order, $set);
}

# Sorts; returns the number of devices that had parts, of their rows, of parts and of runs.
sub device_parts
{
	my ($name, $query, $set) = @_;
	my $lines = value(($set // '') . "SELECT device_lines('" . ($query =~ s/'/''/gr) . "')");
	my %on = $lines =~ /Sort Device (\d): parts=\d+ rows=(\d+)/g;
	my $sum = 0;

	$sum += $_ for values %on;
	like($lines, qr/Sort Route: gpu radix: .*device ready, as set/, "$name: on a device") or diag($lines);
	like($lines, qr/Sort Device: rows /, "$name: with its rows") or diag($lines);
	my ($parts) = $lines =~ /, (\d+) parts/;
	my ($runs) = $lines =~ /, (\d+) runs? merged/;
	my ($peak) = $lines =~ /Sort Peak Memory: (\d+)/;
	cmp_ok($peak, '<', 6 * 1024, "$name: no more memory than work_mem, chunks and windows") or diag($lines);
	return { lines => $lines, devices => scalar(keys %on), rows => $sum, parts => $parts // 0, runs => $runs // 0 };
}

# three devices hold all rows: no run is written
for my $case ([ 'int4', 'k' ], [ 'int4 desc', 'k DESC' ], [ 'int8', 'w' ], [ 'float8', 'f DESC' ],
	[ 'text', 'pad COLLATE "C"' ], [ 'equal keys, more than memory', 'bytes DESC' ],
	[ 'NULLs first', 'nk NULLS FIRST' ], [ 'NULLs, 97 bits', 'nk DESC NULLS LAST, w' ], [ 'equal ones', 'dup' ])
{
	my ($name, $order) = @$case;
	my $w = device_parts($name, "SELECT * FROM t ORDER BY $order");

	is($w->{devices}, 3, "$name: on three devices") or diag($w->{lines});
	is($w->{rows}, $rows, "$name: all rows were on devices");
	if ($name =~ /equal keys/)
	{
		cmp_ok($w->{runs}, '>', 0, "$name: runs of parts") or diag($w->{lines});
	}
	else
	{
		is($w->{runs}, 0, "$name: none on disk") or diag($w->{lines});
		like($w->{lines}, qr/Sort Method: gpu radix  Memory:/, "$name: in memory") or diag($w->{lines});
	}
	same($name, 'SELECT * FROM t', $order);
	same("$name, verify", 'SELECT * FROM t', $order, 'SET gpusort.verify = on; ') if $name =~ /NULLs|equal keys/;
}
device_unused($node, 'orders');
same('nothing on disk', 'SELECT * FROM t', 'k', 'SET temp_file_limit = 0; ');

# more rows than the devices hold: the oldest parts become runs, the other parts stay on the devices
{
	my $w = device_parts('many', 'SELECT * FROM many ORDER BY dup');

	is($w->{devices}, 3, 'many: on three devices');
	is($w->{rows}, $many, 'many: all rows were on devices');
	cmp_ok($w->{runs}, '>', 0, 'many: runs') or diag($w->{lines});
	cmp_ok($w->{runs}, '<=', $w->{parts} - 3, 'many: a part of each device is merged from the device')
	  or diag($w->{lines});
	same('many', 'SELECT * FROM many', 'dup');
	same('many, by a column of 64 bits', 'SELECT * FROM many', 'w DESC');
	same('many, by text', 'SELECT * FROM many', 'pad COLLATE "C" DESC');
	same('many, by bytes', 'SELECT * FROM many', 'bytes');
	device_unused($node, 'many');
}

# one device: part after part
for my $mb (24, 64)
{
	my $set = 'SET gpusort.device = 1; SET gpusort.device_share = ' . ($mb == 24 ? 100 : 50) . '; ';
	if ($mb == 64)
	{
		$node->append_conf('postgresql.conf', 'gpusort.device_memory = 64MB');
		$node->restart;
		device_ready($node, 'one device, 64 MB');
	}
	my $w = device_parts("one device, $mb MB", 'SELECT * FROM many ORDER BY k', $set);
	is($w->{devices}, 1, "one device, $mb MB: on one");
	is($w->{rows}, $many, "one device, $mb MB: all rows were there");
	cmp_ok($w->{parts}, '>=', 3, "one device, $mb MB: parts") or diag($w->{lines});
	cmp_ok($w->{runs}, '<', $w->{parts}, "one device, $mb MB: the last part stays there") or diag($w->{lines});
	same("one device, $mb MB", 'SELECT * FROM many', 'dup', $set);
	device_unused($node, "one device, $mb MB");
}
$node->append_conf('postgresql.conf', 'gpusort.device_memory = 24MB');
$node->restart;
device_ready($node, '24 MB again');
like(value("EXPLAIN (ANALYZE, COSTS OFF, FORMAT JSON) SELECT * FROM t ORDER BY k"),
	qr/"Sort Devices": \[\s*\{\s*"Device Number": \d,\s*"Sort Parts": \d/, 'JSON');
unlike(value("SELECT device_lines('SELECT * FROM few ORDER BY k')"), qr/parts/, 'rows that fit are one job');

# rows that cannot go to a device: a late NULL, a row longer than a chunk
same('a late NULL', 'SELECT * FROM many', 'late');
same('a late NULL, first', 'SELECT * FROM t', 'late DESC');
same('wide rows', "SELECT *, repeat(pad, 20) FROM t WHERE id <= 60000", 'k');
same('a row longer than a chunk',
	"SELECT id, k, CASE WHEN id = 120000 THEN repeat('long', 100000) ELSE pad END FROM t", 'dup');
device_unused($node, 'after rows that do not fit');

# results that are read in part, twice, backward, and by cursors
{
	my $limit = "SELECT string_agg((s).id::text, ' ') FROM (SELECT s FROM (SELECT * FROM t ORDER BY k%s OFFSET 80000) s"
	  . ' LIMIT 30) r';
	is(value(sprintf($limit, '')), value('SET gpusort.enable = off; ' . sprintf($limit, ', id')), 'LIMIT');
}
device_unused($node, 'LIMIT');
for my $kind ('NO SCROLL', 'SCROLL')
{
	my $back = $kind eq 'SCROLL' ? ' FETCH BACKWARD 2 c; FETCH ABSOLUTE 7 c; FETCH LAST c;' : '';
	my $moves = "FETCH 3 c; MOVE 120000 c; FETCH 3 c;$back CLOSE c; COMMIT";
	my $declare = "BEGIN; DECLARE c $kind CURSOR FOR SELECT * FROM t ORDER BY k, id";

	is(value("$declare; $moves"), value("SET gpusort.enable = off; $declare; $moves"), "$kind cursor");
	device_unused($node, "$kind cursor");
}
{
	my $again = 'SELECT g, count(*), sum(n * (s).id) FROM generate_series(1, 3) g, LATERAL ('
	  . 'SELECT row_number() OVER () AS n, s FROM (SELECT * FROM t WHERE id % 20 <> g ORDER BY dup{} OFFSET 0) s) q'
	  . ' GROUP BY g ORDER BY g';
	is(value($again =~ s/{}//r), value('SET gpusort.enable = off; ' . $again =~ s/{}/, id/r),
		'a rescan with another parameter');
	device_unused($node, 'run again');
	is(value("SELECT count(*), sum((a).id::int8 * (b).id) FROM (SELECT * FROM t ORDER BY k OFFSET 0) a"
			  . " JOIN (SELECT * FROM t ORDER BY w OFFSET 0) b ON a.id = b.id"),
		value("SET gpusort.enable = off; SELECT count(*), sum(id::int8 * id) FROM t"), 'two sorts in a query');
	device_unused($node, 'two');
}

# faults in each part: the CPU sorts
for my $f (qw(memory_start memory_sort error_up error_sort error_down kill_up kill_sort kill_down corrupt corrupt_bit),
	'corrupt_count')
{
	device_ready($node, $f);
	value('SELECT count(s) FROM (SELECT * FROM few ORDER BY k OFFSET 0) s');
	my $before = fallbacks($node);

	same($f, 'SELECT * FROM t', 'dup', "SET gpusort.device_fault = $f; ");
	cmp_ok(fallbacks($node), '>', $before, "$f: is counted");
	device_ready($node, "after $f");
	device_unused($node, "after $f");
}

# The process is killed: while the second part comes in, and while rows of the merge are returned.
gate_make($node);
value('CREATE FUNCTION gate_below(n int8, at int8) RETURNS int8 LANGUAGE plpgsql IMMUTABLE AS '
	  . '$$ BEGIN RETURN gate(n, at); END $$');
my $several = 'SELECT count(*) FILTER (WHERE jobs > 0) > 1 FROM gpusort_devices()';
for my $case ([ 'from devices', 't', $rows ], [ 'from disk and devices', 'many', $many ])
{
	my ($name, $table, $n) = @$case;
	my $sum = "SELECT count(*), sum(n * (s).id) FROM ("
	  . "SELECT row_number() OVER () AS n, s FROM (SELECT * FROM $table ORDER BY dup%s OFFSET 0) s) q";
	my $want = value('SET gpusort.enable = off; ' . sprintf($sum, ', id'));

	killed_at_gate($node, "$name, killed at row $_", sprintf($sum, '') =~ s/n \* /gate(n, $_) * /r, $want, $several)
		for 10, $n / 2, $n - 10;
	killed_at_gate($node, "$name, killed as row $_ comes in",
		sprintf($sum, '') =~ s/FROM $table/FROM $table WHERE gate_below(id, $_) > 0/r, $want, $several) for $rows * 0.7;
}

# cancel, and errors above and below
for my $f ('hang_up', 'hang_sort', 'hang_down')
{
	fails_like($node, "SET gpusort.device_fault = $f; SET statement_timeout = '3s';"
		  . ' SELECT count(s) FROM (SELECT * FROM t ORDER BY k OFFSET 0) s',
		qr/canceling statement due to statement timeout/, "cancelled in $f");
	device_unused($node, "cancelled in $f");
}
fails_like($node, 'SELECT sum(1 / ((s).id - 500)) FROM (SELECT * FROM t ORDER BY k OFFSET 0) s',
	qr/division by zero/, 'error above');
device_unused($node, 'error above');
fails_like($node, 'SELECT count(s) FROM (SELECT *, 1 / (id - 120000) FROM t ORDER BY k OFFSET 0) s',
	qr/division by zero/, 'error below');
device_unused($node, 'error below');

# another session's job holds a device: the other devices sort. Concurrent sorts in parts do not deadlock.
{
	my $s = new_session($node);
	my $pid = $s->query('SELECT pg_backend_pid()');

	$s->query('SET gpusort.device = 1; SET gpusort.device_fault = hang_sort; SET work_mem = 64000');
	begin_query($s, 'SELECT count(*) FROM (SELECT k FROM t WHERE id <= 145000 ORDER BY k OFFSET 0) s');
	ok($node->poll_query_until('postgres', 'SELECT sum(jobs) = 1 FROM gpusort_devices()'), 'a device is taken');
	my $w = device_parts('a device is taken', 'SELECT * FROM t ORDER BY k');
	is($w->{devices}, 2, 'a device is taken: the others have the parts') or diag($w->{lines});
	same('a device is taken', 'SELECT * FROM t', 'dup');
	value("SELECT pg_cancel_backend($pid)");
	$s->query('SELECT 1');
	$s->quit;
	device_unused($node, 'a device is taken');

	my $script = $node->basedir . '/script.sql';
	append_to_file($script, "\\set n random(100000, 150000)\n"
		  . "SELECT must_be_same('SELECT * FROM t WHERE id <= ' || :n || ' ORDER BY k, id');\n");
	$node->command_ok([ 'pgbench', '-n', '-c', 4, '-t', 2, '-f', $script, 'postgres' ], 'many sessions');
	device_unused($node, 'many sessions');
}

$node->stop;
done_testing();
