# worker_joins.pl: merge joins of our sorts in the workers, beside PostgreSQL's hash joins there.
#
# The plan and the rows of each join type and of several keys; fewer workers than planned and none; private hash tables
# as peers; an inner side that spills, has long rows, few rows or none, or one key; a Gather that is scanned again;
# EXPLAIN ANALYZE; errors and a cancel; no file remains.  Then random joins: GPUSORT_SEED repeats a run, GPUSORT_ROUNDS
# sets the number of pairs of tables.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GpuSortTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('worker_joins', conf => <<CONF);
max_worker_processes = 16
max_parallel_workers = 8
max_parallel_workers_per_gather = 2
parallel_setup_cost = 0
min_parallel_table_scan_size = 0
work_mem = 256MB
cpu_operator_cost = 0.025
CONF
my @collations = grep { $_ ne 'rules' } create_collations($node);
my $loose = @collations ? 'COLLATE nondeterministic' : '';

# Many rows on the outer side.  Keys repeat on both sides, and some are NULL.
$node->safe_psql('postgres', <<SQL);
CREATE TABLE few AS SELECT i AS id, nullif(mix(i) % 270000, 7)::int AS k, mix(i * 3) % 270000 AS b, i % 7 AS g,
	('k' || mix(i * 7) % 270000) COLLATE "C" AS t, (array['a', 'A', 'b'])[1 + i % 3] || mix(i * 5) % 60000 AS l
	FROM generate_series(1, 300000) i;
CREATE TABLE many AS SELECT i AS id, nullif(mix(i * 11) % 400000, 7)::int AS k, mix(i * 13) % 400000 AS b, i % 5 AS g,
	('k' || mix(i * 17) % 400000) COLLATE "C" AS t, (array['a', 'A', 'b'])[1 + i % 3] || mix(i * 19) % 60000 AS l
	FROM generate_series(1, 1500000) i;
ALTER TABLE few ALTER l TYPE text $loose;
ALTER TABLE many ALTER l TYPE text $loose;
CREATE UNIQUE INDEX ON few (id);
ANALYZE few, many;
SQL

my $each = qr/Gather.*\(GpuSort Join\).*\(GpuSort\).*Parallel Seq Scan.*\(GpuSort\).*\n *->  Seq Scan/s;
my $shared = qr/Parallel Custom Scan \(GpuSort Shared\).*\n *->  Parallel Seq Scan/s;
my $in_workers = qr/Gather.*\(GpuSort Join\).*\(GpuSort\).*Parallel Seq Scan.*$shared/s;

# The query with a digest of its rows, in any order.
sub digest
{
	my ($query) = @_;
	return "SELECT count(*), sum(hashtextextended(r::text, 0)::numeric) FROM ($query) r";
}

sub plan_of { return $node->safe_psql('postgres', "$_[0] EXPLAIN (COSTS OFF) $_[1]") }

# Tests that the query's digest has such a plan, and that its rows are those of PostgreSQL's plan.
my %stock;

sub joins_like
{
	my ($set, $query, $pattern, $name) = @_;
	my $sql = digest($query);

	$stock{$query} //= $node->safe_psql('postgres', "SET gpusort.enable = off; $sql");
	like(plan_of($set, $sql), $pattern, "$name: plan");
	is($node->safe_psql('postgres', "$set $sql"), $stock{$query}, "$name: rows");
}

my $inner = 'SELECT m.id, f.id AS fid FROM many m JOIN few f ON m.k = f.k';
my %joins = (
	'inner' => $inner,
	'unique inner side' => 'SELECT m.id, f.t FROM many m JOIN few f ON m.k = f.id',
	'condition' => "$inner AND m.id > f.id",
	'left' => 'SELECT m.id, f.id AS fid FROM many m LEFT JOIN few f ON m.k = f.k',
	'left with a condition' => 'SELECT m.id, f.id AS fid FROM many m LEFT JOIN few f ON m.k = f.k AND f.g > m.g',
	'semi' => 'SELECT m.id FROM many m WHERE EXISTS (SELECT FROM few f WHERE f.k = m.k AND f.g <> m.g)',
	'anti' => 'SELECT m.id FROM many m WHERE NOT EXISTS (SELECT FROM few f WHERE f.k = m.k)',
	'int8' => 'SELECT m.id, f.id AS fid FROM many m JOIN few f ON m.b = f.b',
	'int4 = int8' => 'SELECT m.id, f.id AS fid FROM many m JOIN few f ON m.k = f.b',
	'two keys' => 'SELECT m.id, f.id AS fid FROM many m JOIN few f ON m.b = f.b AND m.g = f.g');

joins_like('', $joins{$_}, $in_workers, $_) for sort keys %joins;
joins_like('', $inner, qr/Sort Key: m\.k, m\.id\n.*\(GpuSort Shared\).*?Sort Key: f\.k, f\.id\n/s,
	'sorts carry columns');
# PostgreSQL plans these: each process sorts the whole inner side
joins_like('SET enable_hashjoin = off;', "SELECT m.id, f.id AS fid FROM many m JOIN few f ON m.$_ = f.$_", $each,
	"each process sorts texts, $_")
  for qw(t l);
joins_like("SET max_parallel_workers = $_;", $inner, $in_workers, "$_ workers launched") for 0, 1;
joins_like('SET max_parallel_workers_per_gather = 4;', $inner, qr/Planned: 4.*Join/s, '4 workers');
joins_like('SET parallel_leader_participation = off;', $inner, $in_workers, 'the leader takes no part');
joins_like('SET enable_parallel_hash = off;', $inner, $in_workers, 'beside private hash tables');

# what stays PostgreSQL's
joins_like('SET gpusort.plan_grouping = off;', $inner, qr/Parallel Hash Join/, 'off');
joins_like('SET enable_mergejoin = off;', $inner, qr/Parallel Hash Join/, 'without merge joins');
joins_like("SET temp_file_limit = '10MB';", $inner, qr/Parallel Hash Join/, 'a limit of files');
joins_like("SET temp_file_limit = '1GB';", $inner, $in_workers, 'a higher limit of files');
for my $limit (1000, 100)
{
	like(plan_of("SET max_parallel_workers_per_gather = 0; SET work_mem = '32MB'; SET temp_file_limit = '${limit}MB';",
			'SELECT m.id, f.id AS fid FROM many m JOIN many f ON m.k = f.id'),
		$limit == 100 ? qr/Hash Join/ : qr/GpuSort Join/, "in one process, $limit MB of files");
}
joins_like('', "SELECT m.id, f.id AS fid FROM many m JOIN few f ON m.k = f.k WHERE f.id < 5000", qr/Hash Join/,
	'a table in the cache');
joins_like('', "SELECT m.id, f.id AS fid FROM many m FULL JOIN few f ON m.k = f.k",
	qr/Join Type: Full|Full Join/, 'a full join');

like(plan_of('SET parallel_tuple_cost = 0;', "$inner LIMIT 10"), qr/Parallel Hash Join/, 'first rows');

# A merge join in one process, which takes more than half of the hash join's time, would end the workers' hash join
# below the groups.
SKIP:
{
	skip 'one processor', 2 if `nproc` < 2;
	$node->safe_psql('postgres', 'CREATE TABLE ids AS SELECT i AS id FROM generate_series(1, 200000) i; '
		. 'CREATE TABLE refs AS SELECT i, mix(i) % 200000 AS id FROM generate_series(1, 200000) i; ANALYZE ids, refs');
	joins_like("SET work_mem = '4MB'; SET cpu_operator_cost = 0.0025; SET parallel_setup_cost = 10; "
		  . 'SET parallel_tuple_cost = 0.01;', 'SELECT ids.id, count(i) FROM ids JOIN refs USING (id) GROUP BY 1',
		qr/Gather.*Parallel Hash Join/s, 'groups in workers');
}

# Rows that a shared sort must pass on unchanged, or divide.  The planner is told of many more rows and values than
# there are, so that it joins all of them in this way.
$node->safe_psql('postgres', <<SQL);
CREATE TABLE odd (kind text, id int, k int8, t text COLLATE "C", l text $loose, f float8, n numeric, s int2, d date,
	long text);
CREATE TABLE odd_inner (LIKE odd);
INSERT INTO odd SELECT 'values', i, nullif(i * 7 % 6007, 7)::int8 * 4000000000,
	i * 7 % 6007 % 50 || repeat('-', 30) || i * 7 % 6007,
	(array['a', 'A', 'b'])[1 + i % 3] || i * 7 % 6007,
	CASE WHEN i % 3000 = 0 THEN '-0' WHEN i % 2900 = 0 THEN 'NaN' ELSE (i * 7 % 6007)::float8 / 7 END,
	(i * 7 % 6007)::numeric / 3, i * 7 % 6007, date '2000-01-01' + i * 7 % 6007
	FROM generate_series(1, 6000) i;
INSERT INTO odd_inner SELECT 'values', i, nullif(i * 11 % 6007, 7)::int8 * 4000000000,
	i * 11 % 6007 % 50 || repeat('-', 30) || i * 11 % 6007,
	(array['a', 'A', 'b'])[1 + i % 3] || i * 11 % 6007,
	CASE WHEN i % 3000 = 0 THEN '0' WHEN i % 2900 = 0 THEN 'NaN' ELSE (i * 11 % 6007)::float8 / 7 END,
	(i * 11 % 6007)::numeric / 3, i * 11 % 6007, date '2000-01-01' + i * 11 % 6007,
	CASE WHEN i % 200 = 0 THEN repeat(md5(i::text), 100 + 40 * (i / 200)) ELSE 'x' END
	FROM generate_series(1, 9000) i;
-- one key has half of the inner rows
INSERT INTO odd_inner SELECT 'skew', i, CASE WHEN i % 2 = 0 THEN 5 ELSE i END, i FROM generate_series(1, 60000) i;
INSERT INTO odd SELECT 'skew', i, i, i FROM generate_series(1, 200) i;
ALTER TABLE odd_inner ALTER long SET STORAGE EXTERNAL;
@{[map { my $t = $_; map { "ALTER TABLE $t ALTER $_ SET (n_distinct = -0.9);" } qw(k t l f n s d) } qw(odd odd_inner)]}
ANALYZE odd, odd_inner;
UPDATE pg_class SET reltuples = reltuples * 2000 WHERE relname LIKE 'odd%';
SQL
my $told = 'SET cpu_operator_cost = 0.0025; SET enable_nestloop = off;';
my %odd = (
	int8 => 'o.k = i.k', text => 'o.t = i.t', float8 => 'o.f = i.f',
	numeric => 'o.n = i.n', int2 => 'o.s = i.s', date => 'o.d = i.d', 'int2 = int8' => 'o.s = i.k',
	'two keys' => 'o.t = i.t AND o.f = i.f', 'keys of 128 bits' => 'o.k = i.k AND o.f = i.f');
# compared with a plan for the rows that there are
sub odd_joins_like
{
	my ($set, $condition, $columns, $kind, $name) = @_;
	my $query = "SELECT o.id, $columns FROM odd o JOIN odd_inner i ON $condition "
	  . "WHERE o.kind = '$kind' AND i.kind = '$kind'";

	$stock{$query} //= $node->safe_psql('postgres', 'SET gpusort.enable = off; SET enable_hashjoin = off; '
		  . 'SET max_parallel_workers_per_gather = 0; ' . digest($query));
	joins_like("$told $set", $query, $in_workers, $name);
}
odd_joins_like('', $odd{$_}, 'i.id', 'values', "values: $_") for sort keys %odd;
odd_joins_like("SET work_mem = '$_';", 'o.k = i.k', 'i.long', 'values', "rows longer than a block, $_")
  for qw(64MB 1GB);
odd_joins_like('', 'o.k = i.k', 'o.k AS ok, i.k AS ik', 'values', 'keys alone');
odd_joins_like("SET max_parallel_workers_per_gather = $_;", 'o.k = i.k', 'i.id', 'skew',
	"one key has half of the rows, $_ workers")
  for 1, 2, 7;
odd_joins_like('', 'o.k = i.k AND abs(i.id) < 0', 'i.id', 'values', 'no inner rows');
odd_joins_like('', 'o.k = i.k AND abs(i.id) < 2', 'i.id', 'values', 'one inner row');
odd_joins_like('SET gpusort.run_rows = 500;', 'o.k = i.k', 'i.id', 'skew', 'many runs in each process');

# above and around it
joins_like('', "SELECT x.id, y.g FROM ($inner) x JOIN many y ON x.fid = y.id", qr/Gather.*\(GpuSort Join\)/s,
	'a join of the join');
joins_like('SET enable_material = off;',
	"SELECT g, x.n FROM generate_series(1, 3) g LEFT JOIN (SELECT count(*) AS n FROM ($inner) j OFFSET 0) x"
	. ' ON g > x.n % 2',
	qr/Nested Loop.*$in_workers/s, 'scanned again');
my $groups = 'SELECT f.k, count(*) FROM many m JOIN few f ON m.k = f.k GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 5';
is($node->safe_psql('postgres', $groups), $node->safe_psql('postgres', "SET gpusort.enable = off; $groups"),
	'groups above');
# A worker that starts late may have no rows to sort, so the leader leaves them to whichever worker comes first.
my $analyzed = $node->safe_psql('postgres', 'SET parallel_leader_participation = off; SET track_io_timing = on; '
	  . "EXPLAIN (ANALYZE, VERBOSE, BUFFERS, COSTS OFF, TIMING OFF) @{[digest($inner)]}");
like($analyzed, qr/\(GpuSort Join\) \(actual rows=\d+(\.\d+)? loops=2\)/, 'EXPLAIN ANALYZE: each worker joins');
like($analyzed, qr/Worker 0:  actual rows/, 'EXPLAIN ANALYZE: figures of workers');
like($analyzed, qr/GpuSort Shared.*Worker [01]:  Sort Method: cpu/s, 'EXPLAIN ANALYZE: the sorts of the workers');
like($analyzed, qr/temp read=\d+ written=\d+/, 'EXPLAIN ANALYZE: temporary files');
like($analyzed, qr/GpuSort Shared.*I\/O Timings:.* temp read=\d+\.\d+ write=\d+\.\d+/s, 'EXPLAIN ANALYZE: their time');

# few outer rows have a match: the keys of all processes' inner rows make the filter
my $filtered = 'SELECT m.id, f.t FROM many m JOIN few f ON m.k = f.id WHERE f.id < 90000';
joins_like('SET enable_indexscan = off; SET enable_bitmapscan = off;', $filtered, $in_workers, 'few rows have a match');
like($node->safe_psql('postgres', "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) @{[digest($filtered)]}"),
	qr/Rows Removed by Merge Cond: \d{5,}.*GpuSort Shared/s, 'rows without a match are dropped');

# the leader's join may be rewound, so the leader has no filter, but its workers could make one
joins_like('SET enable_material = off;',
	"SELECT g, x.n FROM generate_series(1, 3) g LEFT JOIN (SELECT count(*) AS n FROM ($filtered) j OFFSET 0) x"
	. ' ON g > x.n % 2',
	qr/Nested Loop.*Gather.*\(GpuSort Join\).*\(GpuSort Shared\)/s, 'a filter of the workers alone');

# an error in a worker or the leader, a cancel, a cursor that is not read to its end
my $matched = $node->safe_psql('postgres', 'SELECT max(m.id) FROM many m JOIN few f ON m.b = f.b');
fails_like($node, "SELECT sum(1 / (m.id - $matched)) FROM many m JOIN few f ON m.b = f.b", qr/division by zero/,
	'an error');
fails_like($node, "SELECT sum(f.z) FROM many m JOIN (SELECT k, 1 / (id - 299999) AS z FROM few) f ON m.k = f.k",
	qr/division by zero/, 'an error below the shared sort');
fails_like($node, "SET statement_timeout = '100ms'; " . digest($inner), qr/statement timeout/, 'a cancel');
is($node->safe_psql('postgres', 'BEGIN; DECLARE c CURSOR FOR SELECT 1 FROM many m JOIN few f ON m.k = f.k; '
		. 'FETCH 2 FROM c; COMMIT'), "1\n1", 'a cursor');
joins_like('', $inner, $in_workers, 'afterwards');
is(join(' ', glob($node->data_dir . '/base/pgsql_tmp/*')), '', 'no file remains');

# Random joins.  The rows are compared with those of a plan for as many rows as there are.
my $seed = seed_random();
my %values = (
	int4 => '(mix(i * M) % N)::int', int8 => '(mix(i * M) % N) * 3000000000',
	int2 => '(mix(i * M) % least(N, 30000))::int2',
	float8 => "CASE WHEN i % 501 = 0 THEN 'NaN' WHEN i % 301 = 0 THEN '-0' ELSE (mix(i * M) % N) / 7.0 END::float8",
	numeric => '(mix(i * M) % N)::numeric / 3', date => "date '2000-01-01' + (mix(i * M) % least(N, 100000))::int",
	text => "('key-of-the-row-' || mix(i * M) % N) COLLATE \"C\"", uuid => 'md5((mix(i * M) % N)::text)::uuid');
my @payloads = ('NULL::int', 'i', "repeat('x', i % 50)",
	"CASE WHEN i % 997 = 0 THEN repeat(md5(i::text), 3000) ELSE 'y' END");
my $in_shared_plans = 0;
my @wrong;
for (1 .. $ENV{GPUSORT_ROUNDS} || 12)
{
	my $type = pick(sort keys %values);
	my $n = pick(1, 7, 1000, 50000, 2000000);
	my @most = $n <= 7 ? (3000, 2000) : $n <= 1000 ? (60000, 20000) : (60000, 70000);

	for my $t (0, 1)
	{
		my $name = (qw(o i))[$t] . '_random';
		my $rows = pick(0, 1, 500, grep { $_ <= $most[$t] } 2000, 20000, 60000, 70000);
		my $key = $values{$type} =~ s/\bM\b/pick(1, 3, 5)/er =~ s/\bN\b/$n/gr;
		my $nulls = pick(2, 10, 1000);
		my $order = pick('', ' ORDER BY 1', ' ORDER BY 1 DESC');
		my $payload = pick(@payloads);
		my $told = pick(1000, 20000);

		$node->safe_psql('postgres', <<SQL);
DROP TABLE IF EXISTS $name;
CREATE TABLE $name AS
	SELECT CASE WHEN i % $nulls > 0 THEN $key END AS k, mix(i * 11) % 100000 AS b, i AS v, $payload AS p
	FROM generate_series(1, $rows) i$order;
ANALYZE $name;
UPDATE pg_class SET relpages = greatest(relpages, 1), reltuples = greatest(reltuples, 1000) * $told
	WHERE relname = '$name';
SQL
	}
	for (1 .. 10)
	{
		my $on = pick('o.k = i.k', 'o.k = i.k', 'o.k = i.k AND o.b = i.b', 'o.k = i.k AND o.v < i.v');
		my $query = pick(
			"SELECT o.k, o.v FROM o_random o WHERE EXISTS (SELECT FROM i_random i WHERE $on)",
			"SELECT o.v FROM o_random o WHERE NOT EXISTS (SELECT FROM i_random i WHERE $on)",
			map { my $join = $_; map { "SELECT $_ FROM o_random o $join i_random i ON $on" } 'o.k', 'o.v, i.v',
				'i.k, i.b, i.p, o.p' } 'JOIN', 'LEFT JOIN');
		my $sql = digest($query);
		my $set = sprintf 'SET enable_nestloop = off; SET work_mem = %s; SET max_parallel_workers_per_gather = %d; '
		  . 'SET max_parallel_workers = %d; SET parallel_leader_participation = %s; SET enable_parallel_hash = %s; '
		  . 'SET gpusort.run_rows = %d;', pick("'64kB'", "'4MB'", "'1GB'"), pick(1, 2, 2, 4, 6), pick(0, 1, 8, 8, 8),
		  pick('on', 'on', 'off'), pick('on', 'on', 'off'), pick(0, 0, 0, 5000);

		next if plan_of($set, $sql) !~ $shared;
		$in_shared_plans++;
		my $got = $node->safe_psql('postgres', "$set $sql");
		my $want = $node->safe_psql('postgres', 'SET gpusort.enable = off; SET enable_hashjoin = off; '
			  . "SET enable_nestloop = off; SET max_parallel_workers_per_gather = 0; $sql");
		push @wrong, "$set $query: $got instead of $want" if $got ne $want;
	}
}
is("@wrong", '', "random joins, seed $seed");
cmp_ok($in_shared_plans, '>', 10, "$in_shared_plans of them by a shared sort");
$node->stop;
done_testing();
