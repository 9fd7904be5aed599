# worker_joins.pl: merge joins of our sorts in the workers, beside PostgreSQL's hash joins there.
#
# The plan and the rows of each join type and of several keys; fewer workers than planned and none; private hash tables
# as peers; an inner side that would spill; a Gather that is scanned again; EXPLAIN ANALYZE; errors and a cancel.
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

my $in_workers = qr/Gather.*\(GpuSort Join\).*\(GpuSort\).*Parallel Seq Scan.*\(GpuSort\).*\n *->  Seq Scan/s;

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
joins_like('SET enable_hashjoin = off;', "SELECT m.id, f.id AS fid FROM many m JOIN few f ON m.$_ = f.$_", $in_workers,
	"texts in workers, $_")
  for qw(t l);
joins_like("SET max_parallel_workers = $_;", $inner, $in_workers, "$_ workers launched") for 0, 1;
joins_like('SET max_parallel_workers_per_gather = 4;', $inner, qr/Planned: 4.*Join/s, '4 workers');
joins_like('SET parallel_leader_participation = off;', $inner, $in_workers, 'the leader takes no part');
joins_like('SET enable_parallel_hash = off;', $inner, $in_workers, 'beside private hash tables');

# what stays PostgreSQL's
joins_like('SET gpusort.plan_grouping = off;', $inner, qr/Parallel Hash Join/, 'off');
joins_like('SET enable_mergejoin = off;', $inner, qr/Parallel Hash Join/, 'without merge joins');
joins_like("SET work_mem = '4MB';", $inner, qr/Hash Join/, 'an inner side that would spill in each process');
joins_like('', "SELECT m.id, f.id AS fid FROM many m JOIN few f ON m.k = f.k WHERE f.id < 5000", qr/Hash Join/,
	'a table in the cache');
joins_like('', "SELECT m.id, f.id AS fid FROM many m FULL JOIN few f ON m.k = f.k",
	qr/Join Type: Full|Full Join/, 'a full join');

like(plan_of('SET parallel_tuple_cost = 0;', "$inner LIMIT 10"), qr/Parallel Hash Join/, 'first rows');

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
my $analyzed = $node->safe_psql('postgres', "EXPLAIN (ANALYZE, VERBOSE, COSTS OFF, TIMING OFF) @{[digest($inner)]}");
like($analyzed, qr/\(GpuSort Join\) \(actual rows=\d+(\.\d+)? loops=3\)/, 'EXPLAIN ANALYZE: each process joins');
like($analyzed, qr/Worker 0:/, 'EXPLAIN ANALYZE: figures of workers');

# an error in a worker or the leader, a cancel, a cursor that is not read to its end
my $matched = $node->safe_psql('postgres', 'SELECT max(m.id) FROM many m JOIN few f ON m.b = f.b');
fails_like($node, "SELECT sum(1 / (m.id - $matched)) FROM many m JOIN few f ON m.b = f.b", qr/division by zero/,
	'an error');
fails_like($node, "SET statement_timeout = '100ms'; " . digest($inner), qr/statement timeout/, 'a cancel');
is($node->safe_psql('postgres', 'BEGIN; DECLARE c CURSOR FOR SELECT 1 FROM many m JOIN few f ON m.k = f.k; '
		. 'FETCH 2 FROM c; COMMIT'), "1\n1", 'a cursor');
joins_like('', $inner, $in_workers, 'afterwards');

# an inner side that an index returns in order
$node->safe_psql('postgres', 'CREATE INDEX ON many (k); VACUUM many');
my $indexed = $node->safe_psql('postgres', 'SET enable_nestloop = off; SET random_page_cost = 0.5; '
	. 'EXPLAIN SELECT count(*) FROM few f LEFT JOIN many m ON f.k = m.k');
like($indexed, qr/\(GpuSort Join\).*\(GpuSort\).*Index Only Scan/s, 'an index of the inner side');
unlike($indexed, qr/cost=-/, 'no cost is negative');
$node->stop;
done_testing();
