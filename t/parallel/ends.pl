# ends.pl: parallel sorts that end early or fail.
#
# Rows of all sizes and types; errors in a worker and above the sort, timeouts, terminated workers, LIMITs.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GpuSortTest;
use PostgreSQL::Test::Utils;
use Test::More;

seed_random();

my $node = new_node('parallel_ends', parallel => 1, conf => <<CONF);
min_parallel_index_scan_size = 0
shared_buffers = 64MB
CONF

# Tests that the query has a parallel GpuSort plan, and that its rows are those of the stock Sort.
sub parallel_same
{
	my ($sql, $query, $name) = @_;
	my $plan = $node->safe_psql('postgres', "$sql; EXPLAIN (COSTS OFF) $query");
	like($plan, qr/Custom Scan \(GpuSort\)\n.*->  Gather\n.*\(GpuSort Feed\)/s, "$name: plan");
	is($node->safe_psql('postgres', "$sql; SELECT result FROM check_sort(\$q\$$query\$q\$)"), 'same', "$name: rows");
}

# random tables: few and many rows, ranges, NULLs, texts with and without a common prefix
for my $round (1 .. ($ENV{GPUSORT_ROUNDS} || ($ENV{GPUSORT_QUICK} ? 4 : 12)))
{
	my $n = pick(1, 2, 50, 1000, 20000, 60000);
	my $range = pick(2, 1000, 2_000_000_000);
	my $prefix = pick('', 'customer#', 'a');
	my $part = pick(0, 1);

	$node->safe_psql('postgres', 'DROP TABLE IF EXISTS r; CREATE TABLE r (id int, a int, b bigint, f float8, s text '
		. 'COLLATE "C", p text) '
		  . ($part ? 'PARTITION BY HASH (id); '
		  	. join('', map { "CREATE TABLE r$_ PARTITION OF r FOR VALUES WITH (MODULUS 3, REMAINDER $_);" } 0 .. 2)
		  	: ''));
	$node->safe_psql('postgres', <<SQL);
INSERT INTO r SELECT i, (mix(i) % $range)::int, (mix(i * 3) << 24) # mix(i * 5), CASE mix(i) % 50 WHEN 0 THEN
	'NaN'::float8 WHEN 1 THEN '-0'::float8 ELSE (mix(i * 7) - 1e9::float8) / 1e3 END,
  '$prefix' || (mix(i * 11) % $range), repeat('x', (mix(i) % 60)::int) FROM generate_series(1, $n) i;
UPDATE r SET a = NULL WHERE id % 17 = 0; UPDATE r SET s = NULL WHERE id % 23 = 0; UPDATE r SET b = NULL WHERE id % 19
	= 0;
ANALYZE r;
SQL
	for (1 .. 4)
	{
		my @cols = ('a', 'b', 'f', 's', 'a % 10', 'a, b', 's, f', 'f, b, a', 'b, s');
		my $order = join ', ', map { $_ . pick('', ' DESC', ' NULLS FIRST', ' DESC NULLS LAST') } split /, /,
			pick(@cols);
		my $what = pick('*', 'id, a, b, f, s', 'id, s, a, b, f, length(p) AS l');
		my $where = pick('', '', 'WHERE a > 1000000', 'WHERE id % 3 = 1', 'WHERE false');
		my $limit = pick('', '', 'LIMIT 7', 'LIMIT 1000 OFFSET 20');
		my $workers = pick(1, 2, 4, 6);
		my $set = "SET work_mem = '" . pick('64kB', '1MB', '64MB')
			. "'; SET max_parallel_workers_per_gather = $workers; SET parallel_leader_participation = "
		  . pick('on', 'on', 'off') . '; SET max_parallel_workers = ' . pick(8, 8, 1, 0);
		my $query = "SELECT $what FROM r $where ORDER BY $order, id $limit";
		my $got = $node->safe_psql('postgres', "$set; SELECT nodes || ' ' || result FROM check_sort(\$q\$$query\$q\$)");
		is($got, 'GpuSort same', "round $round: $n rows, $set: $query");
	}
}

$node->safe_psql('postgres', <<'SQL');
CREATE TABLE t AS SELECT i AS id, mix(i) AS k, (mix(i) % 10)::int AS ten, 'customer#' || mix(i * 3) AS s FROM
	generate_series(1, 50000) i;
CREATE TABLE big AS SELECT i AS id, mix(i) AS k, CASE WHEN i % 100 = 0 THEN repeat(md5(i::text), 2000 + i % 8000) ELSE
	'x' || i END AS p FROM generate_series(1, 3000) i;
ALTER TABLE big ALTER p SET STORAGE EXTERNAL;
CREATE TABLE fat (id int, k bigint, p text);
ALTER TABLE fat ALTER p SET STORAGE PLAIN;
INSERT INTO fat SELECT i, mix(i), repeat('y', (7000 + i % 900)::int) FROM generate_series(1, 2000) i;
VACUUM ANALYZE;
SQL

# rows up to and above the size of a block; computed values are stored in the row, toasted values are not
for my $mem ('64kB', '64MB')
{
	parallel_same("SET work_mem = '$mem'", 'SELECT id, k, md5(p) FROM fat ORDER BY k', "fat rows, $mem");
	parallel_same("SET work_mem = '$mem'", 'SELECT id, p FROM fat ORDER BY k', "fat rows whole, $mem");
	parallel_same("SET work_mem = '$mem'", q(SELECT id, p || '' AS q FROM big ORDER BY k), "rows in pieces, $mem");
	parallel_same("SET work_mem = '$mem'; SET parallel_leader_participation = off",
		q(SELECT id, p || '' AS q FROM big ORDER BY k DESC), "rows in pieces without the leader, $mem");
}

# equal rows may come in any order, but each comes once
is($node->safe_psql('postgres', 'SELECT count(*), count(DISTINCT id), bool_and(ten >= last) FROM (SELECT id, ten, '
	. 'lag(ten, 1, 0) OVER () AS last FROM (SELECT * FROM t ORDER BY ten OFFSET 0) x) y'),
	'50000|50000|t', 'many ties');

# the Gather computes something above the sort
parallel_same('', 'SELECT id, k, id + 0 * pg_backend_pid() AS x FROM t ORDER BY k, id', 'a projection above');

# joins below and above, windows, merge joins
parallel_same('SET enable_mergejoin = off', 'SELECT a.id, b.s FROM t a JOIN t b ON a.k = b.k ORDER BY b.s, a.id',
	'a hash join below');
for my $query ('SELECT id, rank() OVER (PARTITION BY ten ORDER BY k, id) AS r FROM t ORDER BY id',
	'SELECT a.id, b.id AS bid FROM t a JOIN t b ON a.s = b.s ORDER BY a.s, 1, 2',
	'SELECT DISTINCT ON (ten) ten, id FROM t ORDER BY ten, k, id',
		'SELECT ten, string_agg(id::text, $$,$$ ORDER BY id) AS x FROM t WHERE id < 1000 GROUP BY ten ORDER BY ten',
	'SELECT id FROM t WHERE k > (SELECT avg(k) FROM t) ORDER BY s, id',
		'SELECT id, s FROM t ORDER BY s, id LIMIT (SELECT 5) OFFSET (SELECT 3)')
{
	parallel_same('SET enable_hashjoin = off', $query, $query);
}

# a sort that is scanned again before it was read to its end
is($node->safe_psql('postgres', <<'SQL'), 'same', 'rescans that stop early');
SET enable_material = off; SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_memoize = off;
SELECT result FROM check_sort('SELECT g, s.id FROM generate_series(1, 12) g LEFT JOIN LATERAL (
	SELECT id FROM (SELECT id, k FROM t ORDER BY k, id OFFSET 0) x
	WHERE x.id % 5 = g % 5 LIMIT 3) s ON true ORDER BY 1, 2');
SQL

# EXPLAIN: the Gather's row count is the number of returned rows, also if the query ends early
my $actual = qr/\(GpuSort\) \(actual rows=(\d+)(?:\.00)? loops=(\d+)\)\n/;
my $counted = qr/$actual[^>]*->  Gather \(actual rows=\1(?:\.00)? loops=\2\)/;
for my $case ([ 'all', '', '50000 1', 'SELECT id, k FROM t ORDER BY k' ],
	[ 'a LIMIT above', '', '1000 1', 'SELECT * FROM (SELECT id, k FROM t ORDER BY k OFFSET 0) x LIMIT 1000' ],
	[ 'a merge join that ends early', 'SET enable_hashjoin = off; SET enable_nestloop = off', '301 1',
		'SELECT * FROM (SELECT id, k FROM t ORDER BY id OFFSET 0) x JOIN generate_series(1, 300) g ON x.id = g' ],
	[ 'a loop', 'SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_material = off', '7 4',
		'SELECT * FROM generate_series(1, 4) g, LATERAL (SELECT id, g FROM (SELECT id, k FROM t ORDER BY k OFFSET 0) x '
			. 'LIMIT 7) y' ])
{
	my ($name, $set, $want, $query) = @$case;
	my $plan = $node->safe_psql('postgres', "$set; EXPLAIN (ANALYZE, BUFFERS OFF, COSTS OFF, TIMING OFF) $query");

	is($plan =~ $counted ? "$1 $2" : $plan, $want, "EXPLAIN: $name");
}

# a setting that is changed for the launch of workers is not visible to queries
$node->safe_psql('postgres', <<'SQL');
CREATE FUNCTION restricted() RETURNS text LANGUAGE plpgsql PARALLEL RESTRICTED AS
	$$ BEGIN RETURN current_setting('parallel_leader_participation'); END $$;
CREATE FUNCTION safe(int) RETURNS text LANGUAGE plpgsql PARALLEL SAFE AS
	$$ BEGIN RETURN current_setting('parallel_leader_participation'); END $$;
SQL
for my $leader ('on', 'off')
{
	my $set = "SET parallel_leader_participation = $leader";

	parallel_same($set, "SELECT id, k FROM t WHERE '$leader' = (SELECT restricted()) ORDER BY k, id",
		"an initplan, $leader");
	parallel_same($set, "SELECT id, k FROM t WHERE '$leader' = safe(id) ORDER BY k, id", "a filter, $leader");
}

# prepared plans, with parallelism and where it is not allowed
is($node->safe_psql('postgres', <<'SQL'), "2\n10\n50000\n50000\n10", 'prepared plans and cursors');
PREPARE p (int) AS SELECT id FROM t ORDER BY k, id LIMIT $1;
SET plan_cache_mode = force_generic_plan;
CREATE TEMP TABLE c2 AS EXECUTE p(2); SELECT count(*) FROM c2;
CREATE TEMP TABLE c10 AS EXECUTE p(10); SELECT count(*) FROM c10;
CREATE TEMP TABLE c AS EXECUTE p(NULL); SELECT count(*) FROM c;
CREATE TEMP TABLE cc AS EXECUTE p(1000000); SELECT count(*) FROM cc;
BEGIN; DECLARE d SCROLL CURSOR FOR SELECT id FROM t ORDER BY k, id; FETCH 10 FROM d \g /dev/null
FETCH BACKWARD 5 FROM d \g /dev/null
SELECT 10; COMMIT;
SQL
my $portal = $node->safe_psql('postgres', <<'SQL');
DO $$ DECLARE c CURSOR FOR SELECT id FROM t ORDER BY k, id; x int; n int := 0; BEGIN
OPEN c; FOR i IN 1 .. 7 LOOP FETCH c INTO x; n := n + 1; END LOOP; CLOSE c; RAISE NOTICE '%', n; END $$;
SELECT 'done';
SQL
is($portal, 'done', 'a cursor that is closed early');

# errors, timeouts and sorts that are not read to the end
my $session = new_session($node);
for my $mem ('64kB', '64MB')
{
	for my $leader ('on', 'off')
	{
		$session->query("SET work_mem = '$mem'; SET parallel_leader_participation = $leader");
		ends_early($session, "$mem, leader $leader", 's');
		times_out($session, "$mem, leader $leader", '20ms');
		session_ok($session, "$mem, leader $leader: timeout");
	}
}

# many short executions with few or many workers, with EXPLAIN, read whole or in part: none hangs
$session->query("SET statement_timeout = '100s'");
for (1 .. ($ENV{GPUSORT_STRESS} || 40))
{
	$session->query("SET work_mem = '" . pick('64kB', '64MB') . "'; SET max_parallel_workers_per_gather = "
		. pick(1 .. 8) . '; SET max_parallel_workers = ' . pick(8, 8, 3));
	$session->query(pick('EXPLAIN (ANALYZE, COSTS OFF) SELECT * FROM t ORDER BY k',
		'EXPLAIN SELECT * FROM t ORDER BY k', 'SELECT count(*) FROM (SELECT * FROM t ORDER BY s OFFSET 0) x',
			'SELECT count(*) FROM (SELECT 1 FROM (SELECT * FROM t ORDER BY k OFFSET 0) x LIMIT 3) y',
				'SELECT id FROM t ORDER BY s, id LIMIT 5', 'SELECT * FROM t WHERE id < 5 ORDER BY k'));
}
is($session->{stderr}, '', 'many short executions');
$session->query('RESET ALL');
no_timeout($session);

# A worker is terminated while it waits for free blocks.  The leader does not participate, because it might read all
# rows before the workers begin.
my $victim = new_session($node);
$victim->query('SET parallel_leader_participation = off');
worker_terminated($node, $victim, 'SELECT count(pg_sleep(0.002)) FROM (SELECT * FROM t ORDER BY k OFFSET 0) s',
	'SELECT 1');
$victim->quit;
$session->quit;

ok($node->poll_query_until('postgres',
	"SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'parallel worker'"), 'no worker remains');
is(scalar(temp_files($node)), 0, 'no temporary file remains');
$node->stop;

# a small /dev/shm, in a mount name space of the server: the query runs without workers and without an error
SKIP:
{
	skip 'no private name space', 2 unless start_in_small_shm($node, '3M');
	my ($rc, $out, $err) = $node->psql('postgres',
		'SET max_parallel_workers_per_gather = 4; EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) SELECT * FROM t ORDER BY k');
	like($out, qr/Workers Planned: 4\n *Workers Launched: 0\n.*Feed\) \(actual rows=50000/s,
		'a small /dev/shm: no workers') or diag $err;
	my $rows = 'SELECT count(*), md5(string_agg(id::text, $$,$$)) FROM (SELECT id FROM t ORDER BY k, id OFFSET 0) s';
	is($node->safe_psql('postgres', "SET max_parallel_workers_per_gather = 4; $rows"),
		$node->safe_psql('postgres', "SET max_parallel_workers_per_gather = 0; $rows"), 'a small /dev/shm: rows');
	stop_in_small_shm($node);
}
unlike(slurp_file($node->logfile), qr/TRAP|PANIC|was terminated by signal/, 'no crash in the log');
done_testing();
