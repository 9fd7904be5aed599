# divided_groups.pl: partial groups that a shared sort divides among the processes, which combine them.
#
# The plan and the groups of several types of keys; fewer workers than planned and none; keys of few values, one key
# with half of the rows, long keys, no rows; HAVING; a LIMIT; what is not divided; EXPLAIN ANALYZE; errors
# and a cancel; no file remains.  Then random tables: GPUSORT_SEED repeats a run, GPUSORT_ROUNDS sets their number.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GpuSortTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('divided_groups', conf => <<CONF);
max_worker_processes = 16
max_parallel_workers = 8
max_parallel_workers_per_gather = 4
parallel_setup_cost = 0
min_parallel_table_scan_size = 0
work_mem = 4MB
CONF
my @collations = grep { $_ ne 'rules' } create_collations($node);
my $loose = @collations ? 'COLLATE nondeterministic' : '';

my $shared = qr/\n *->  Parallel Custom Scan \(GpuSort Shared\).*Rows Divided: by ranges of keys/s;
my $divided = qr/Gather.*Partial Mode: Finalize.*$shared.*Partial Mode: Partial.*\(GpuSort\).*Parallel Seq Scan/s;

# The query with a digest of its rows, in any order.
sub digest
{
	my ($query) = @_;
	return "SELECT count(*), sum(hashtextextended(r::text, 0)::numeric) FROM ($query) r";
}

sub plan_of { return $node->safe_psql('postgres', "$_[0] EXPLAIN (COSTS OFF) $_[1]") }

# Tests that the query's digest has such a plan, and that its rows are those of PostgreSQL's plan in one process.
my %stock;

sub groups_like
{
	my ($set, $query, $pattern, $name) = @_;
	my $sql = digest($query);

	$stock{$query} //= $node->safe_psql('postgres',
		"SET gpusort.enable = off; SET max_parallel_workers_per_gather = 0; $sql");
	like(plan_of($set, $sql), $pattern, "$name: plan");
	is($node->safe_psql('postgres', "$set $sql"), $stock{$query}, "$name: rows");
}

# The planner is told of many more rows than there are, and of many groups, so that it divides them.
sub tell_planner
{
	my ($table, $times, $groups, @columns) = @_;

	$node->safe_psql('postgres', join '', map { "ALTER TABLE $table ALTER $_ SET (n_distinct = $groups);" } @columns);
	$node->safe_psql('postgres', "ANALYZE $table; UPDATE pg_class SET reltuples = greatest(reltuples, 1) * $times, "
		  . "relpages = greatest(relpages, 1) WHERE relname = '$table'");
}

my @keys = qw(i2 i4 i8 t l f n d u long skew few);
$node->safe_psql('postgres', <<SQL);
CREATE TABLE facts (id int, i2 int2, i4 int, i8 int8, t text COLLATE "C", l text $loose, f float8, n numeric, d date,
	u uuid, long text, skew int, few int, v numeric, w int, s text);
INSERT INTO facts SELECT i, mix(i) % 6007, nullif(mix(i) % 6007, 7), (mix(i) % 6007 - 3000) * 4000000000,
	mix(i) % 50 || repeat('-', 30) || mix(i) % 6007, mix(i) % 6007 || 'x',
	CASE mix(i) % 6007 WHEN 1 THEN 'NaN' WHEN 2 THEN 'Infinity' ELSE (mix(i) % 6007 - 3000)::float8 / 7 END,
	(mix(i) % 6007)::numeric / 3, date '2000-01-01' + (mix(i) % 6007)::int, md5((mix(i) % 6007)::text)::uuid,
	CASE WHEN i % 97 = 0 THEN repeat(md5((i % 970)::text), 2500) ELSE 'x' || mix(i) % 3000 END,
	CASE WHEN i % 2 = 0 THEN 5 ELSE mix(i) % 6007 END, i % 3, mix(i * 3) % 100000 / 8.0, mix(i * 5) % 1000,
	'text ' || mix(i * 7) % 5000
	FROM generate_series(1, 40000) i;
ALTER TABLE facts ALTER long SET STORAGE EXTERNAL;
SQL
tell_planner('facts', 2000, 300000, @keys);

my $values = 'count(*), count(w), sum(w), sum(v), avg(v), min(s), max(d), sum(v) FILTER (WHERE w > 500)';

sub by
{
	my ($columns, $from) = @_;
	return "SELECT $columns, $values FROM " . ($from // 'facts') . " GROUP BY $columns";
}


my $sorted = 'SET enable_hashagg = off;';
groups_like('', by($_), $divided, "by $_") for grep { $_ !~ /^[lu]$/ } @keys;
groups_like($sorted, by('u'), $divided, 'by u');
# which spelling of equal texts a group has is not defined
groups_like($sorted,
	"SELECT lower(l), c, v FROM (SELECT l, count(*) AS c, sum(v) AS v FROM facts GROUP BY l OFFSET 0) x",
	$divided, 'by texts that may be equal without having the same bytes');
groups_like($sorted, by('few, i8, t'), $divided, 'by three columns');
groups_like('', by($_, 'facts WHERE abs(id) < 0'), $divided, "no rows, by $_") for qw(i4 t);
groups_like('', by('i8', 'facts WHERE abs(id) < 2'), $divided, 'one row');
groups_like("SET max_parallel_workers = $_;", by('i4'), $divided, "$_ workers launched") for 0, 1, 3;
groups_like("SET max_parallel_workers_per_gather = $_;", by('skew'), $divided, "$_ workers") for 2, 7;
groups_like('SET parallel_leader_participation = off;', by('t'), $divided, 'the leader takes no part');
groups_like("SET work_mem = '$_';", by('long'), $divided, "long keys, $_") for qw(64kB 256MB);
groups_like('SET gpusort.run_rows = 500;', by('i8'), $divided, 'many runs in each process');
groups_like("$sorted SET gpusort.aggregates = off;", by('i4'), qr/Gather.*Finalize GroupAggregate.*$shared/s,
	"PostgreSQL's Agg");
groups_like('', by('i4') . ' HAVING sum(w) > 3500 AND count(*) > 3', $divided, 'HAVING');
groups_like('', by('i4') . ' HAVING count(*) < 0', $divided, 'no group is left');
groups_like('', 'SELECT f1.i4, count(*), sum(f2.v) FROM facts f1 JOIN (SELECT id, v FROM facts OFFSET 0) f2 USING (id) '
	  . 'GROUP BY 1', qr/Aggregate/, 'above a join');

# the groups in the order of a query, and the first ones
my $ordered = by('i4') . ' ORDER BY i4 DESC NULLS LAST, 2';
is($node->safe_psql('postgres', $ordered), $node->safe_psql('postgres', "SET gpusort.enable = off; $ordered"),
	'ORDER BY');
is($node->safe_psql('postgres', "SELECT count(*) FROM (@{[by('i4')]} LIMIT 10) x"), 10, 'LIMIT');

# a subquery beside other tables has no Gather of ours
groups_like("$sorted SET enable_material = off;",
	'SELECT g, x.* FROM generate_series(1, 4) g LEFT JOIN (SELECT count(*) AS n, max(a), max(s), max(t) FROM '
	  . '(SELECT i4, avg(v) AS a, sum(v) AS s, max(s) AS t FROM facts GROUP BY i4) j OFFSET 0) x ON g > x.n % 2',
	qr/Nested Loop(?!.*Shared)/s, 'beside another table');

# what stays PostgreSQL's, or as it was
groups_like('SET gpusort.plan_grouping = off;', by('i4'), qr/^(?!.*Shared)/s, 'off');
groups_like("SET temp_file_limit = '1MB';", by('i4'), qr/^(?!.*Shared)/s, 'a limit of files');
$node->safe_psql('postgres', 'CREATE FUNCTION restricted(numeric) RETURNS bool PARALLEL RESTRICTED LANGUAGE sql '
	  . "IMMUTABLE COST 10000 AS 'SELECT set_config(''a.b'', ''c'', false) IS NOT NULL AND \$1 > 10'");
groups_like('', by('i4') . ' HAVING restricted(sum(v))', qr/^(?!.*Shared)/s, 'a function that workers must not call');

# EXPLAIN ANALYZE
my $analyzed = $node->safe_psql('postgres', 'SET track_io_timing = on; '
	  . "EXPLAIN (ANALYZE, VERBOSE, BUFFERS, COSTS OFF, TIMING OFF) @{[by('i4')]}");
like($analyzed, qr/Gather \(actual rows=6007(\.\d+)? loops=1\)/, 'EXPLAIN ANALYZE: the groups');
like($analyzed, qr/GpuSort Shared.*Worker \d:  Sort Method/s, 'EXPLAIN ANALYZE: the sorts of the workers');
like($node->safe_psql('postgres', "EXPLAIN (FORMAT JSON) @{[by('i4')]}"), qr/"Rows Divided": "by ranges of keys"/,
	'JSON');

# errors and a cancel, a cursor that is not read to its end
fails_like($node, digest('SELECT i4, sum(10 / (id - 39000)) FROM facts GROUP BY i4'), qr/division by zero/, 'an error');
fails_like($node, digest('SELECT i4, 1 / (sum(id) - (SELECT sum(id) FROM facts WHERE i4 = 77)) FROM facts GROUP BY i4'),
	qr/division by zero/, 'an error in a group');
fails_like($node, "SET statement_timeout = '20ms'; " . digest(by('long')), qr/statement timeout/, 'a cancel');
is($node->safe_psql('postgres', "BEGIN; DECLARE c CURSOR FOR SELECT 1 FROM (@{[by('i4')]}) x; FETCH 2 FROM c; COMMIT"),
	"1\n1", 'a cursor');
groups_like('', by('i4'), $divided, 'afterwards');
is(join(' ', glob($node->data_dir . '/base/pgsql_tmp/*')), '', 'no file remains');

# Random tables.
my $seed = seed_random();
my %types = (
	int4 => '(mix(i * M) % N)::int', int8 => '(mix(i * M) % N) * 3000000000',
	int2 => '(mix(i * M) % least(N, 30000))::int2', bool => 'mix(i * M) % 2 = 0',
	float8 => "CASE WHEN i % 501 = 0 THEN 'NaN' ELSE (mix(i * M) % N) / 7.0 END::float8",
	numeric => '(mix(i * M) % N)::numeric / 3', date => "date '2000-01-01' + (mix(i * M) % least(N, 100000))::int",
	text => "('key-of-the-row-' || mix(i * M) % N) COLLATE \"C\"", uuid => 'md5((mix(i * M) % N)::text)::uuid',
	jsonb => "jsonb_build_object('k', mix(i * M) % N)", array => 'ARRAY[1, (mix(i * M) % N)::int]',
	long => "CASE WHEN i % 499 = 0 THEN repeat(md5((i % 4990)::text), 3000) ELSE 'y' || mix(i * M) % N END");
my $in_divided = 0;
my @wrong;
for (1 .. $ENV{GPUSORT_ROUNDS} || 15)
{
	my @type = map { pick(sort keys %types) } 1, 2;
	my @key = map { my $n = pick(1, 7, 1000, 50000, 2000000);
		$types{$_} =~ s/\bM\b/pick(1, 3, 5)/er =~ s/\bN\b/$n/gr } @type;
	my $rows = pick(0, 1, 500, 5000, 60000);
	my @nulls = map { pick(2, 10, 1000) } 1, 2;

	$node->safe_psql('postgres', <<SQL);
DROP TABLE IF EXISTS random;
CREATE TABLE random AS
	SELECT CASE WHEN i % $nulls[0] > 0 THEN $key[0] END AS a, CASE WHEN i % $nulls[1] > 0 THEN $key[1] END AS b, i AS v
	FROM generate_series(1, $rows) i;
SQL
	tell_planner('random', int(80000000 / ($rows + 1)), 300000, 'a', 'b');
	for (1 .. 4)
	{
		my $by = pick('a', 'a', 'b', 'a, b', 'b, a');
		my $query = "SELECT $by, " . pick('count(*)', 'sum(v), count(*)', 'sum(v::numeric)', 'max(v), avg(v)',
			'string_agg(NULL::text, NULL), sum(v::int8)') . " FROM random GROUP BY $by"
		  . pick('', '', ' HAVING count(*) > 2');
		my $sql = digest($query);
		my $set = sprintf 'SET work_mem = %s; SET max_parallel_workers_per_gather = %d; '
		  . 'SET max_parallel_workers = %d; SET parallel_leader_participation = %s; SET gpusort.run_rows = %d; '
		  . 'SET gpusort.verify = %s;', pick("'64kB'", "'4MB'", "'1GB'"), pick(2, 4, 6), pick(0, 1, 8, 8, 8),
		  pick('on', 'on', 'off'), pick(0, 0, 0, 5000), pick('on', 'off');

		next if plan_of($set, $sql) !~ /Rows Divided/;
		$in_divided++;
		my $got = $node->safe_psql('postgres', "$set $sql");
		my $want = $node->safe_psql('postgres',
			"SET gpusort.enable = off; SET max_parallel_workers_per_gather = 0; $sql");
		push @wrong, "$set $query: $got instead of $want" if $got ne $want;
	}
}
is("@wrong", '', "random groups, seed $seed");
cmp_ok($in_divided, '>', 5, "$in_divided of them divided");
$node->stop;
done_testing();
