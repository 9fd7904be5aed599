# key_parts.pl: key mode with more keys than a device's budget.
#
# The keys go to the device in parts: one device sorts them one after the other, or several devices at the same time.
# The rows of each query come in the stock Sort's order, and EXPLAIN tells which devices sorted them.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GpuSortTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $library = $ENV{GPUSORT_TEST_LIBRARY};
my $fake = !defined $library;
$library //= '$libdir/libgpusort_cpu_abi';

$ENV{GPUSORT_CPU_ABI_DEVICES} = 3;
my $node = new_node('parts', conf => <<CONF);
gpusort.device_library = '$library'
gpusort.device = 0
gpusort.staging_memory = 8MB
gpusort.device_memory = 24MB
work_mem = 512MB
shared_buffers = 64MB
log_min_messages = log
CONF

# A job has half of 24 MB, less 8 MB: room for 174,762 keys of 32 bits or 116,508 of 64 bits.
my $rows = 400_000;
device_ready($node, 'start');
device_lines_function($node);
$node->safe_psql('postgres', <<SQL);
CREATE TABLE t AS SELECT i AS id, (mix(i) - 2147483648)::int4 AS k, mix(i * 7) * 1000003 - 2000000000000000 AS w,
	CASE WHEN i % 11 = 0 THEN NULL ELSE i % 100 END AS nk, (mix(i * 3) - 2e9) / 7::float8 AS f,
	CASE WHEN i % 5 < 3 THEN 4242 ELSE (mix(i) % 1000000)::int4 END AS heavy,
	(mix(i) % 30000)::int4 AS dup, 'customer#' || mix(i) % 50000 AS s
FROM generate_series(1, $rows) i;
VACUUM ANALYZE t;
ALTER DATABASE postgres SET gpusort.algorithm = 'gpu_radix';
SQL

my $gpu = qr/Sort Route: gpu radix: .*device ready, as set/;

sub value { return $node->safe_psql('postgres', @_) }

# The first column identifies rows, or is the key.
sub same
{
	my ($name, $select, $order, $set) = @_;
	my ($first) = $select =~ /^SELECT (?:\* FROM \(SELECT )?(\w+)/;

	same_order($node, $name, $select, $order, $set, $first);
}

# Key mode; keys only where the query reads only key columns.
my %orders = (
	'int4' => [ 'SELECT id, k FROM t', 'k' ], 'int4 desc' => [ 'SELECT id, k FROM t', 'k DESC' ],
		'int8' => [ 'SELECT id, w FROM t', 'w' ],
	'float8' => [ 'SELECT id, f FROM t', 'f DESC' ],
		'NULLs, 97 bits' => [ 'SELECT id, nk, w FROM t', 'nk NULLS FIRST, w' ],
	'more than 128 bits' => [ 'SELECT id, w, f FROM t', 'w, f, k' ], 'equal ones' => [ 'SELECT id, dup FROM t', 'dup' ],
	'one value in most rows' => [ 'SELECT id, heavy FROM t', 'heavy' ],
		'few values' => [ 'SELECT id, nk, k FROM t', 'nk, dup' ],
	'keys only' => [ 'SELECT k FROM t', 'k' ], 'keys only, 64 bits' => [ 'SELECT w FROM t', 'w DESC' ],
		'keys only, one value in most rows' => [ 'SELECT heavy FROM t', 'heavy' ],
	'strings' => [ 'SELECT id, s FROM t', 's COLLATE "C"' ]);
for my $name (sort keys %orders)
{
	my ($select, $order) = @{ $orders{$name} };

	same("$name, verify $_", $select, $order, "SET gpusort.verify = $_; ") for 'off', 'on';
	my $lines = value("SELECT device_lines('$select ORDER BY $order')");
	my ($parts) = $lines =~ /$gpu.*?, (\d+) parts/;
	cmp_ok($parts // 0, '>', 1, "$name: in parts") or diag($lines);
	my ($sorted_there) = $lines =~ /Sort Device 0: parts=(\d+) rows=\d+/;
	cmp_ok($sorted_there // 0, '>', 0, "$name: on the device") or diag($lines);
}
device_unused($node, 'orders');

# the numbers of rows by device
{
	my $lines = value("SELECT device_lines('SELECT id, k FROM t ORDER BY k')");
	my ($on) = $lines =~ /Sort Device 0: parts=\d+ rows=(\d+)/;
	is($on, $rows, 'uniform keys: the device sorts all rows') or diag($lines);
	$lines = value("SELECT device_lines('SELECT id, heavy FROM t ORDER BY heavy')");
	($on) = $lines =~ /Sort Device 0: parts=\d+ rows=(\d+)/;
	cmp_ok($on, '<', $rows / 2, 'a value in most rows: these rows are not sent') or diag($lines);
	unlike(value("SELECT device_lines('SELECT id, nk FROM t WHERE id <= 100 ORDER BY nk')"), qr/parts/,
		'keys that fit are one job');
}
like(value("EXPLAIN (ANALYZE, COSTS OFF, FORMAT JSON) SELECT id, k FROM t ORDER BY k"),
	qr/"Sort Devices": \[\s*\{\s*"Device Number": 0,\s*"Sort Parts": \d/, 'JSON');

# results that are read in part, twice, backward, and by cursors
same('LIMIT behind an OFFSET', 'SELECT * FROM (SELECT id, k FROM t ORDER BY k OFFSET 0) q', 'k, id');
is(value("SELECT string_agg(id::text, ' ') FROM (SELECT id FROM (SELECT id, k FROM t ORDER BY k OFFSET 150000) q LIMIT "
	. "30) r"),
	value("SET gpusort.enable = off; SELECT string_agg(id::text, ' ') FROM (SELECT id FROM (SELECT id, k FROM t ORDER "
		. "BY k, id OFFSET 150000) q LIMIT 30) r"), 'LIMIT');
device_unused($node, 'LIMIT');
for my $kind ('NO SCROLL', 'SCROLL')
{
	my $moves = 'FETCH 3 c; MOVE 200000 c; FETCH 3 c;'
		. ($kind eq 'SCROLL' ? ' FETCH BACKWARD 2 c; FETCH ABSOLUTE 7 c; FETCH LAST c;' : '') . ' CLOSE c; COMMIT';
	my $declare = "BEGIN; DECLARE c $kind CURSOR FOR SELECT id, k FROM t ORDER BY k, id";

	is(value("$declare; $moves"), value("SET gpusort.enable = off; $declare; $moves"), "$kind cursor");
	device_unused($node, "$kind cursor");
}
is(value("SELECT count(*), sum(a.id::bigint * b.id) FROM (SELECT id, k FROM t ORDER BY k OFFSET 0) a JOIN (SELECT id, "
	. "w FROM t ORDER BY w OFFSET 0) b USING (id)"),
	value("SET gpusort.enable = off; SELECT count(*), sum(a.id::bigint * b.id) FROM (SELECT id, k FROM t ORDER BY k "
		. "OFFSET 0) a JOIN (SELECT id, w FROM t ORDER BY w OFFSET 0) b USING (id)"), 'two sorts in a query');
device_unused($node, 'two');

# more rows than work_mem holds: the keys of each run go in parts
same('runs', 'SELECT id, k FROM t', 'k', "SET work_mem = '16MB'; ");
like(value("SET work_mem = '16MB'; SELECT device_lines('SELECT id, k FROM t ORDER BY k')"), qr/parts, \d+ runs merged/,
	'runs, of parts');

# runs of keys without rows, of more rows than the planner expects, because a device takes rows rather than keys that
# exceed work_mem; the ranges of a device's keys may be wider than those of the merge
for my $keys ('k', 'w', 'nk', 'nk DESC NULLS LAST', 'heavy, dup')
{
	my ($select) = 'SELECT ' . $keys =~ s/ DESC.*//r . ' FROM t WHERE id % 1 = 0';

	same("runs of keys: $keys", $select, $keys, "SET work_mem = '3MB'; SET gpusort.run_rows = 90000; ");
	like(value("SET work_mem = '3MB'; SET gpusort.run_rows = 90000; SELECT device_lines('$select ORDER BY $keys')"),
		qr/gpu radix.*keys only.*, \d+ runs of keys merged.*Sort Device/s, "runs of keys by a device: $keys");
}

# faults: the CPU sorts all keys
for my $f ('memory_start', 'memory_sort', 'error_up', 'error_sort', 'error_down', 'kill_up', 'kill_sort', 'kill_down',
	'corrupt')
{
	device_ready($node, $f);
	value('SELECT count(*) FROM (SELECT k, id FROM t WHERE id < 5000 ORDER BY k OFFSET 0) s');
	my $before = fallbacks($node);
	my $restarts = value('SELECT max(restarts) FROM gpusort_devices()');
	my $set = $f eq 'corrupt' ? 'SET gpusort.verify = on; ' : '';

	same($f, 'SELECT id, k FROM t', 'k', "$set SET gpusort.device_fault = $f; ");
	cmp_ok(fallbacks($node), '>', $before, "$f: is counted");
	ok($node->poll_query_until('postgres', "SELECT max(restarts) > $restarts FROM gpusort_devices()"),
		"$f: a new process") if $f =~ /error|kill/;
	device_ready($node, "after $f");
	device_unused($node, "after $f");
}
like(value("SET gpusort.device_fault = memory_sort; SELECT device_lines('SELECT id, k FROM t ORDER BY k')"),
	qr/^Sort Route: cpu radix: (?!.* parts).*device failed/m, 'no device memory for a part: the CPU sorts');
device_ready($node, 'after no memory');
{
	my $before = fallbacks($node);

	value("SET gpusort.device_fault = error_sort; EXPLAIN (ANALYZE) SELECT id, k FROM t ORDER BY k");
	is(fallbacks($node), $before + 1, 'a sort in parts that fails is counted once');
	device_ready($node, 'counted once');
}

# the device process is killed when the first chunk of a part has come
for my $case ([ order_sum('SELECT id, k FROM t ORDER BY k', 'id') ],
	[ "SELECT device_lines('SELECT id, k FROM t ORDER BY k')",
		qr/^Sort Route: cpu radix: (?!.* parts).*device failed/m ])
{
	my ($q, $want) = @$case;
	my $bytes = value('SELECT sum(bytes_down) FROM gpusort_device_stat');
	my $s = begin_sort($node, 'SET gpusort.device_fault = hang_down', $q);

	ok($node->poll_query_until('postgres', "SELECT sum(bytes_down) > $bytes AND " . device_awaited($s)
		. ' FROM gpusort_device_stat'), 'a chunk has come');
	next_device_process($node, kill_device_process($node, 'a chunk has come'), 'a chunk has come');
	$want //= quotemeta(value('SET gpusort.enable = off; ' . $q =~ s/BY k/BY k, id/r));
	like($s->query('SELECT 1'), qr/$want.*\n1$/s, 'a chunk has come: the CPU sorts');
	$s->quit;
	device_unused($node, 'a chunk has come');
}

# cancel, and errors above
for my $f ('hang_up', 'hang_sort', 'hang_down')
{
	fails_like($node, "SET gpusort.device_fault = $f; SET statement_timeout = '3s'; EXPLAIN (ANALYZE, COSTS OFF) "
		. "SELECT id, k FROM t ORDER BY k",
		qr/canceling statement due to statement timeout/, "cancelled in $f");
	device_unused($node, "cancelled in $f");
}
fails_like($node, 'SELECT sum(1 / (id - 500)) FROM (SELECT id FROM t ORDER BY k OFFSET 0) s', qr/division by zero/,
	'error above');
device_unused($node, 'error above');

# many sessions whose sorts go in parts share the devices: none hangs
{
	my $script = $node->basedir . '/script.sql';

	append_to_file($script, "\\set n random(150000, 250000)\nSELECT must_be_same('SELECT k FROM t WHERE id <= ' || :n "
		. "|| ' ORDER BY k');\n");
	$node->command_ok([ 'pgbench', '-n', '-c', 4, '-t', 2, '-f', $script, 'postgres' ], 'many sessions');
	device_unused($node, 'many sessions');
}

# several devices at the same time
if ($fake)
{
	$node->append_conf('postgresql.conf', 'gpusort.device = auto');
	$node->restart;
	device_ready($node, 'three');
	for my $name ('int4', 'int8', 'keys only')
	{
		my $lines = value("SELECT device_lines('$orders{$name}[0] ORDER BY $orders{$name}[1]')");
		my %rows = $lines =~ /Sort Device (\d): parts=\d+ rows=(\d+)/g;

		cmp_ok(scalar(keys %rows), '>', 1, "$name: on several devices") or diag($lines);
		my $sum = 0;
		$sum += $_ for values %rows;
		is($sum, $rows, "$name: the devices have all keys");
		same("$name: several devices", $orders{$name}[0], $orders{$name}[1]) unless $name eq 'keys only';
	}
	device_unused($node, 'three');

	# one device has no free memory: the other devices sort
	my $s = new_session($node);
	my $pid = $s->query('SELECT pg_backend_pid()');
	$s->query('SET gpusort.device_share = 100; SET gpusort.device = 1; SET gpusort.device_fault = hang_sort');
	begin_query($s, 'SELECT count(*) FROM (SELECT id, k FROM t WHERE id <= 350000 ORDER BY k OFFSET 0) s');
	ok($node->poll_query_until('postgres', 'SELECT sum(jobs) = 1 FROM gpusort_devices()'), 'a device is taken');
	same('a device is taken', 'SELECT id, k FROM t', 'k');
	value("SELECT pg_cancel_backend($pid)");
	$s->query('SELECT 1');
	$s->quit;
	device_unused($node, 'a device is taken');
}

$node->stop;
done_testing();
