# rerun.pl: a device fails after the first rows were returned.
#
# The node runs its child again and skips the rows that it returned. Only children that return the same rows in the
# same order may send rows to a device, whatever other sessions write meanwhile.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GpuSortTest;
use Test::More;

my $library = $ENV{GPUSORT_TEST_LIBRARY} || '$libdir/libgpusort_cpu_abi';
my $node = new_node('device_rerun', conf => <<CONF);
gpusort.device_library = '$library'
gpusort.device = 0
gpusort.staging_memory = 8MB
gpusort.algorithm = gpu_radix
work_mem = 256kB
CONF

# k has ties; p and id have indexes
$node->safe_psql('postgres', <<'SQL');
CREATE TABLE t (id int, k int, p point, r text);
INSERT INTO t SELECT i, mix(i) % 3, point(mix(i * 3) % 1000, mix(i * 7) % 1000), 'row ' || i FROM generate_series(1,
	40000) i;
CREATE INDEX t_gist ON t USING gist (p);
CREATE INDEX t_spgist ON t USING spgist (p);
CREATE INDEX t_btree ON t (id);
CREATE INDEX t_k ON t (k);
CREATE INDEX t_hash ON t USING hash (k);
CREATE INDEX t_brin ON t USING brin (id);
CREATE TABLE few AS SELECT i AS id FROM generate_series(1, 40000, 2) i;
CREATE TABLE parts (LIKE t) PARTITION BY RANGE (id);
CREATE TABLE parts1 PARTITION OF parts FOR VALUES FROM (0) TO (20000);
CREATE TABLE parts2 PARTITION OF parts FOR VALUES FROM (20000) TO (50000);
INSERT INTO parts SELECT * FROM t;
VACUUM ANALYZE t, few, parts;
CREATE FUNCTION stable_set(n int) RETURNS SETOF int LANGUAGE plpgsql STABLE ROWS 40000 AS
	$$ BEGIN RETURN QUERY SELECT x.id FROM t x ORDER BY random() LIMIT n; END $$;
CREATE FUNCTION child_and_mode(q text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE l text; child text; mode text;
BEGIN
	FOR l IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF) ' || q LOOP
		mode := coalesce(mode, substring(l FROM 'Sort Device: (\w+)'));
		child := coalesce(child, substring(l FROM '^ *->  ([A-Z]+[a-z]*( Heap| Only)? (Scan|Join|Loop)|Append)'));
	END LOOP;
	RETURN concat_ws(': ', child, coalesce(mode, 'host'));
END $$;
SQL
device_ready($node, 'start');

my %only = map { $_ => join ' ', map { "SET enable_$_ = off;" } @{ {
	seq => [qw(indexscan indexonlyscan bitmapscan)], index => [qw(seqscan bitmapscan indexonlyscan)],
		indexonly => [qw(seqscan bitmapscan)], bitmap => [qw(seqscan indexscan indexonlyscan)],
	hashjoin => [qw(nestloop mergejoin)], nestloop => [qw(hashjoin mergejoin seqscan bitmapscan)],
		mergejoin => [qw(hashjoin nestloop seqscan bitmapscan)] }->{$_} } }
	qw(seq index indexonly bitmap hashjoin nestloop mergejoin);
my $everywhere = "box '(0,0),(1000,1000)'";
for my $case ([ 'seq', 'SELECT * FROM t', 'Seq Scan: rows' ], [ 'seq', 'SELECT * FROM parts', 'Append: rows' ],
	[ 'seq', 'SELECT * FROM t WHERE id > 0 AND abs(k) < 5', 'Seq Scan: rows' ],
	[ 'index', 'SELECT * FROM t WHERE id > 0', 'Index Scan: rows', 'DROP INDEX t_gist, t_spgist, t_hash, t_brin' ],
	[ 'indexonly', 'SELECT id FROM t WHERE id > 0', 'Index Only Scan: rows', undef, 'id % 3' ],
	[ 'index', "SELECT * FROM t WHERE p <@ $everywhere", 'Index Scan: keys', 'DROP INDEX t_spgist' ],
	[ 'index', "SELECT * FROM t WHERE p <@ $everywhere", 'Index Scan: keys', 'DROP INDEX t_gist' ],
	[ 'index', 'SELECT * FROM t WHERE k = 1', 'Index Scan: keys', 'DROP INDEX t_k' ],
	[ 'bitmap', 'SELECT * FROM t WHERE id > 0', 'Bitmap Heap Scan: keys', 'DROP INDEX t_brin' ],
	[ 'bitmap', 'SELECT * FROM t WHERE id > 0', 'Bitmap Heap Scan: keys', 'DROP INDEX t_btree' ],
	[ 'hashjoin', 'SELECT t.* FROM t JOIN few USING (id)', 'Hash Join: rows',
		"SET work_mem = '500kB'; SET hash_mem_multiplier = 20" ],
	[ 'hashjoin', 'SELECT t.* FROM t JOIN few USING (id)', 'Hash Join: keys' ],
	[ 'nestloop', 'SELECT t.* FROM few JOIN t USING (id)', 'Nested Loop: rows',
		'SET enable_seqscan = on; SET enable_material = off; SET enable_memoize = off' ],
	[ 'seq', q(SELECT *, current_setting('work_mem') FROM t), 'Seq Scan: keys' ],
		[ 'seq', q(SELECT * FROM t WHERE id > coalesce(current_setting('my.n', true), '0')::int), 'Seq Scan: keys' ],
	[ 'seq', 'SELECT i FROM generate_series(1, 40000) i', 'Function Scan: rows', undef, 'i % 3' ],
		[ 'seq', 'SELECT i FROM stable_set(40000) i', 'Function Scan: rows', undef, 'i % 3' ])
{
	my ($scans, $q, $want, $first, $key) = @$case;
	$key //= 'k + 0';
	my $mode = "SELECT child_and_mode('" . ("$q ORDER BY $key" =~ s/'/''/gr) . "')";
	$first //= 'SELECT';
	is($node->safe_psql('postgres', "BEGIN; $only{$scans} $first; $mode; ROLLBACK") =~ s/^\n//r, $want,
		($scans eq 'seq' ? '' : "$scans, ") . "$q" . ($first eq 'SELECT' ? '' : " ($first)"));
}
device_unused($node, 'modes');

# The device fails while rows come in: rows computed from the current page must not come again in the new run.
for my $fault ('memory_start', 'error_up')
{
	device_ready($node, "computed rows, $fault");
	my $before = fallbacks($node);
	same_order($node, "computed rows, $fault", 'SELECT id, k, r || k AS r FROM t', 'k + 0',
		"SET gpusort.device_fault = '$fault';");
	cmp_ok(fallbacks($node), '>', $before, "computed rows, $fault: a sort fell back");
}

# The device process is killed half-way through the result. Before that another session inserts rows between the
# index entries that the scan reads.
gate_make($node);
for my $case ([ 'seq', 'id > 0' ], [ 'index', 'id > 0' ], [ 'index', "p <@ $everywhere", 'DROP INDEX t_spgist' ])
{
	my ($scans, $where, $first) = @$case;
	my $s = new_session($node);
	my $sum = q(md5(string_agg(r, ',' ORDER BY n)), count(DISTINCT r), count(*));
	my $q = "(SELECT r, row_number() OVER () AS n FROM (SELECT id, k, r FROM t WHERE $where ORDER BY k OFFSET 0) s)";

	device_ready($node, "$scans $where");
	my $n = $node->safe_psql('postgres', "SELECT count(*) FROM t WHERE $where");
	$node->safe_psql('postgres', $first) if $first;
	$s->query($only{$scans});
	my $want = $s->query("SELECT $sum FROM $q s");
	like($want, qr/\|$n\|$n$/, "$scans, $where: all rows");
	gate_shut();
	begin_query($s, "SELECT $sum FROM (SELECT r, gate(n, 25000) AS n FROM $q q OFFSET 0) s");
	gate_reached($node, "$scans, $where");
	# since PostgreSQL 16 the aggregate has a sort of its own, above this one
	is($node->safe_psql('postgres', 'SELECT phase, algorithm, runs, device_bytes > 1000000 FROM gpusort_progress ORDER '
		. 'BY node DESC LIMIT 1'), 'emit|gpu_radix|0|t', "$scans, $where: rows come from the device")
	  if $scans eq 'seq';
	$node->safe_psql('postgres', q(INSERT INTO t SELECT 20000 + i % 5, 1, point(mix(i * 3) % 1000, mix(i * 7) % 1000),
		'new ' || i FROM generate_series(1, 60000) i));
	my $pid = kill_device_process($node, "$scans, $where");
	ok(process_ends($pid), "$scans, $where: the process has ended");
	gate_open();
	is($s->query('SELECT 1'), "$want\n1", "$scans, $where: the same rows, without the inserted ones");
	is($s->{stderr}, '', "$scans, $where: no error");
	$s->quit;
	$node->safe_psql('postgres', q(DELETE FROM t WHERE r LIKE 'new%'; VACUUM t));
	next_device_process($node, $pid, "$scans, $where");
	device_unused($node, "$scans, $where");
}
$node->stop;
done_testing();
