# sorts.pl: parallel sorts in place of Gather Merge.
#
# Plans, rows in the stock Sort's order, EXPLAIN, rescans, a shared LIMIT cutoff, errors and cancels.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GpuSortTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('parallel', parallel => 1, conf => 'shared_buffers = 64MB');
$node->safe_psql('postgres', <<SQL);
CREATE TABLE t AS SELECT i AS id, mix(i) AS k, (mix(i) % 10)::int AS ten, (mix(i * 3) / 1e3)::float8 AS f, repeat('x',
	(i % 50)::int) AS p
FROM generate_series(1, 100000) i;
UPDATE t SET k = NULL WHERE id % 100 = 0;
VACUUM ANALYZE t;
SQL

my $plan = $node->safe_psql('postgres', 'EXPLAIN (COSTS OFF) SELECT * FROM t ORDER BY k');
my $feed = qr/Parallel Custom Scan \(GpuSort Feed\)\n.*Parallel Seq Scan/s;
like($plan, qr/^Custom Scan \(GpuSort\)\n  Sort Key: k\n  ->  Gather\n.*$feed/s, 'a Feed in place of Gather Merge');

for my $leader ('on', 'off')
{
	for my $workers (1, 2, 4)
	{
		for my $mem ('64kB', '64MB')
		{
			for my $order ('k, id', 'ten DESC, f, id', 'f DESC, id', 'k DESC NULLS LAST, ten, id')
			{
				is( $node->safe_psql('postgres',
					<<SQL), 'GpuSort 100000 same', "leader $leader, $workers workers, work_mem $mem: $order");
SET parallel_leader_participation = $leader; SET max_parallel_workers_per_gather = $workers; SET work_mem = '$mem';
SELECT nodes || ' ' || rows || ' ' || result FROM check_sort('SELECT * FROM t ORDER BY $order');
SQL
			}
		}
	}
}

# many streams: keys of 64 and of 128 bits, long values with equal keys, streams of disjoint key ranges, and rows that
# are longer than a block
my $streams = 'SET parallel_leader_participation = off; SET max_parallel_workers_per_gather = 5;';
for my $query (
	'SELECT * FROM t ORDER BY k, f, id',
	"SELECT id, 'customer number ' || ten || p AS s FROM t ORDER BY 2, 1",
	'SELECT ten, id FROM t ORDER BY ten, -id',
	'SELECT id, (id / 20000) * mix(id)::int8 AS far, f FROM t ORDER BY 2, 1',
	"SELECT id, k, repeat(p || 'x', CASE WHEN id % 9999 = 0 THEN 9000 ELSE 1 END) AS l FROM t ORDER BY ten, 1")
{
	is( $node->safe_psql('postgres', "$streams SELECT nodes || ' ' || rows || ' ' || result FROM "
		. "check_sort(\$q\$$query\$q\$)") =~ s/^\n//r, 'GpuSort 100000 same', "many streams: $query");
}

# from four workers on the leader only merges, unless a LIMIT leaves it little to merge
for ([ 10, 5 ], [ '(SELECT 10000)', 5 ], [ 10001, 4 ])
{
	my ($limit, $readers) = @$_;
	my $analyzed = $node->safe_psql('postgres', "SET max_parallel_workers_per_gather = 4;"
		. "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) SELECT * FROM t ORDER BY k, id LIMIT $limit");
	like($analyzed, qr/Workers Launched: 4\n.*GpuSort Feed\) \(actual rows=[\d.]+ loops=$readers\)/s,
		"LIMIT $limit: $readers processes read rows");
	is( $node->safe_psql('postgres', "SET max_parallel_workers_per_gather = 4; SELECT nodes || ' ' || result "
		. "FROM check_sort('SELECT * FROM t ORDER BY k, id LIMIT $limit')"), 'GpuSort same', "LIMIT $limit: rows");
}

# other queries with a parallel sort
for my $query (
	'SELECT ten, count(*), count(DISTINCT f) AS x FROM t GROUP BY ten ORDER BY ten',
	'SELECT DISTINCT ten FROM t ORDER BY ten',
	'SELECT a.id, b.id AS bid FROM t a JOIN t b ON a.k = b.k ORDER BY 1, 2',
	'SELECT id, k FROM t ORDER BY k, id LIMIT 20',
	'SELECT id, k FROM t ORDER BY k, id OFFSET 99990',
	'SELECT o.ten, s.id FROM (SELECT DISTINCT ten FROM t) o, LATERAL (SELECT id FROM t WHERE t.ten = o.ten ORDER BY f, '
		. 'id LIMIT 3) s ORDER BY 1, 2')
{
	my $set = 'SET enable_hashjoin = off; SET enable_hashagg = off; SET enable_nestloop = on;';

	like($node->safe_psql('postgres', "$set EXPLAIN (COSTS OFF) $query"), qr/GpuSort Feed/, "$query: a parallel sort");
	is($node->safe_psql('postgres', "$set SELECT result FROM check_sort('$query')"), 'same', "$query: rows");
}

# a parallel sort that is scanned again
is( $node->safe_psql('postgres', <<'SQL'), 'same', 'rescans');
SET enable_material = off; SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_memoize = off;
SELECT result FROM check_sort('SELECT g, s.id FROM generate_series(1, 5) g
	LEFT JOIN (SELECT id, ten FROM t ORDER BY k, id OFFSET 0) s ON s.id = g * 7 ORDER BY 1');
SQL

# EXPLAIN shows each participant's sort
my $explain = 'EXPLAIN (ANALYZE, COSTS OFF) SELECT * FROM t ORDER BY k';
# without workers, because they may read all pages before the leader does
like($node->safe_psql('postgres', "SET max_parallel_workers = 0; $explain"), qr/^ *Sort Method: [cg]pu \w+  /m,
	'EXPLAIN ANALYZE with the leader');
my $none = $node->safe_psql('postgres', "SET parallel_leader_participation = off; $explain");
like($none, qr/Custom Scan \(GpuSort Feed\) \(actual .* rows=50000(?:\.00)? loops=2\)/,
	'EXPLAIN ANALYZE without the leader');
like($none, qr/^ *Worker $_:  Sort Method: /m, "EXPLAIN ANALYZE: worker $_") for 0, 1;
note $none;

# LIMIT: participants share their cutoff. The participant with the large keys waits until the other one has read all
# small keys. Then it keeps none of its rows, whether they are read by page or one by one.
$node->safe_psql('postgres', <<'SQL');
CREATE TABLE small_keys AS SELECT i AS k FROM generate_series(1, 20000) i;
CREATE TABLE large_keys AS SELECT 1000000 + i AS k FROM generate_series(1, 30000) i;
ALTER TABLE small_keys SET (parallel_workers = 0);
ALTER TABLE large_keys SET (parallel_workers = 0);
VACUUM ANALYZE small_keys, large_keys;
CREATE FUNCTION others_have_read(n bigint) RETURNS bool LANGUAGE plpgsql VOLATILE PARALLEL SAFE AS $$
BEGIN
	FOR i IN 1 .. 18000 LOOP
		PERFORM pg_stat_clear_snapshot();
		-- the other sort runs, or it has ended since the last iteration
		IF EXISTS (SELECT FROM gpusort_progress WHERE pid <> pg_backend_pid() AND "rows" >= n) OR
			(SELECT sum("rows") FROM gpusort_stat) >= n THEN RETURN true; END IF;
		PERFORM pg_sleep(0.01);
	END LOOP;
	RETURN NULL;
END $$;
SQL
for my $k ('k', 'k + 0 AS k')
{
	my $shared = $node->safe_psql('postgres', <<SQL);
SET parallel_leader_participation = off;
SELECT gpusort_stat_reset();
EXPLAIN (ANALYZE, COSTS OFF) SELECT k FROM (SELECT $k FROM small_keys UNION ALL SELECT $k FROM large_keys WHERE k >
	1000001 OR others_have_read(20000)) u ORDER BY k LIMIT 10
SQL
	my $top = qr/Worker (\d):  Sort Method: top-N.*\n *Worker \1: /;
	like($shared, qr/$top Sort Route: no rows\n *Worker \1:  Sort Phases: rows=30000 /,
		"$k: no row with a large key is kept");
	like($shared, qr/$top Sort Route: (?!no rows).*\n *Worker \1:  Sort Phases: rows=20000 /,
		"$k: rows with small keys are kept");
}

# an error in a worker, and a cancel
my $session = new_session($node);
for my $mem ('64kB', '64MB')
{
	$session->query("SET work_mem = '$mem'");
	error_and_timeout($session, "work_mem $mem, in a worker",
		'SELECT sum(x) FROM (SELECT 1 / (id - 70000) AS x FROM t ORDER BY k OFFSET 0) s', '30ms',
		'SELECT count(*) FROM (SELECT a.k FROM t a, generate_series(1, 100) g ORDER BY a.k OFFSET 0) s');
}
ok( $node->poll_query_until('postgres',
	"SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'parallel worker'"), 'no worker remains');
is(scalar(temp_files($node)), 0, 'no temporary file remains');
$session->quit;

# force_parallel_mode: the whole plan in a worker
my $force = $node->safe_psql('postgres', "SELECT count(*) FROM pg_settings WHERE name = 'debug_parallel_query'")
	? 'debug_parallel_query' : 'force_parallel_mode';
is( $node->safe_psql('postgres', "SET $force = on; SET max_parallel_workers_per_gather = 2; SELECT result FROM "
	. "check_sort('SELECT mix(i) AS k, i FROM generate_series(1, 3000) i ORDER BY 1, 2')"),
	'same', $force);

$node->stop;
done_testing();
