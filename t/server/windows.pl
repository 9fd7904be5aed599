# windows.pl: random window queries with gpusort.windows on and off.
#
# The rows are the same, in the same order, by GpuSort Window above sorts in memory and on disk, serial and parallel.
# GPUSORT_SEED repeats a run, GPUSORT_ROUNDS makes it longer.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GpuSortTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $rounds = $ENV{GPUSORT_ROUNDS} || ($ENV{GPUSORT_QUICK} ? 40 : 150);
my $seed = seed_random();

my $node = new_node('windows', parallel => 1);
$node->safe_psql('postgres', <<'SQL');
CREATE COLLATION loose (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
SQL

# columns of few values, so that there are peers; values that are equal have several representations
my %columns = (
	i => "(CASE WHEN r % 11 > 0 THEN r % 9 END)::int",
	b => "(r % 5 * 10000000000)::int8",
	f => "(ARRAY['0', '-0', 'NaN', '-NaN', '1', NULL])[1 + r % 6]::float8",
	q => "(r * 0.1)::float8",
	n => "(ARRAY[1.0, 1.00, 1.000, 'NaN', 0, NULL])[1 + r % 6]::numeric",
	t => "('key ' || r % 13)",
	s => "(ARRAY['a', 'A', 'b', 'B', NULL])[1 + r % 5] COLLATE loose",
	e => "((ARRAY['customer', 'CUSTOMER'])[1 + r % 2] || r % 20) COLLATE loose",
	c => "(ARRAY['x', 'x ', 'x  ', 'y'])[1 + r % 4]::bpchar",
	l => "(repeat((r % 4)::text, 3000 + (r % 4)::int))",
	d => "(date '2020-01-01' + (r % 6)::int)",
	v => "(interval '1 day' * (r % 2) + interval '24 hours' * (r / 2 % 2))",
	a => "(ARRAY[r % 3, NULL])",
	u => "md5((r % 7)::text)::uuid",
	p => "(repeat('p', (r % 20)::int) || r % 3)"
);
my @names = sort keys %columns;

sub make_table
{
	my ($rows) = @_;
	my @cols = map { my $e = $columns{$_}; $e =~ s/\br\b/(mix(i * 31 + @{[ord($_)]}) % 1000)/g; "$e AS $_" } @names;

	return "DROP TABLE IF EXISTS w; CREATE TABLE w AS SELECT i AS id, " . join(', ', @cols)
	  . " FROM generate_series(1, $rows) i; ALTER TABLE w SET (parallel_workers = 2); ANALYZE w;\n";
}

# $total: the order has no peers, so that every function's value of each row is determined
sub window
{
	my @by = map { pick(@names) } 1 .. pick(0, 1, 1, 2);
	my @order = map { pick(@names) . pick('', '', ' DESC', ' NULLS FIRST', ' DESC NULLS LAST') } 1 .. pick(0, 1, 1, 2);
	my $total = pick(0, 1);

	push @order, 'id' . pick('', ' DESC') if $total;
	return ($total, join ' ', (@by ? 'PARTITION BY ' . join(', ', @by) : ()),
		(@order ? 'ORDER BY ' . join(', ', @order) : ()),
		pick('', '', '', 'ROWS UNBOUNDED PRECEDING', 'GROUPS CURRENT ROW', 'GROUPS UNBOUNDED PRECEDING',
			'ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING'));
}

sub statement
{
	my ($total, $window) = window();
	# GROUPS needs an order
	$window =~ s/GROUPS.*// if $window !~ /ORDER/;
	my @functions = (qw(rank() dense_rank() percent_rank() cume_dist()),
		$window =~ /ROWS UNBOUNDED/ ? ()
		: ('count(*)', 'count(' . pick(@names) . ')', 'count(*) FILTER (WHERE id % 3 > 0)'),
		$total ? ('row_number()', 'row_number()', 'ntile(' . pick(1, 3, 50) . ')') : ());
	my @wanted = map { pick(@functions) . ' OVER w' } 1 .. pick(1, 1, 2, 3);
	my @columns = grep { pick(0, 0, 1) } ($total ? 'id' : (), map { "$_" } @names);
	my $list = join ', ', map({ "$_ AS x_$_" } @columns), map { $wanted[$_] . pick('', '', ' + 1') . " AS f$_" }
	  0 .. $#wanted;
	my $sql = "SELECT $list FROM w WINDOW w AS ($window)";

	$sql = "SELECT * FROM ($sql) q WHERE f0 " . pick('<= 3', '< 2', '= 4', '> 5', 'BETWEEN 2 AND 6')
	  . pick('', ' AND f0 < 40') if pick(0, 1);
	# rows without a total order are compared as a multiset
	return $total ? $sql : "SELECT * FROM ($sql) z ORDER BY z::text COLLATE \"C\"";
}

my (%seen, $failed);
for my $round (1 .. $rounds)
{
	my $sql = statement();
	my $work_mem = pick('64kB', '4MB', '256MB');
	my $set = "SET work_mem = '$work_mem'; SET max_parallel_workers_per_gather = " . pick(0, 2) . ';';
	my $make = ($round % 25 == 1) ? make_table(pick(50, 3000)) : '';

	$node->safe_psql('postgres', $make) if $make;
	my %rows = map { $_ => $node->safe_psql('postgres', "$set SET gpusort.windows = $_; $sql") } qw(on off);
	my $plan = $node->safe_psql('postgres', "$set EXPLAIN (COSTS OFF) $sql");
	my $replaced = $plan =~ /GpuSort Window/;

	$seen{replaced}++ if $replaced;
	$seen{condition}++ if $replaced && $plan =~ /Run Condition/;
	$seen{ahead}++ if $replaced && $plan =~ /Window Functions: .*(?:percent_rank|cume_dist|ntile|count)/;
	$seen{parallel}++ if $replaced && $plan =~ /GpuSort Feed/;
	$seen{left}++ if !$replaced && $plan =~ /GpuSort\)/;
	next if $rows{on} eq $rows{off};
	$failed++;
	diag "seed $seed, round $round: $set $sql\n$plan";
}
ok(!$failed, "$rounds queries return the stock node's rows");
cmp_ok($seen{replaced} // 0, '>', $rounds / 2, 'most were numbered by GpuSort Window');
ok($seen{condition}, 'some had a run condition');
ok($seen{ahead}, 'some functions depended on following rows');
ok($seen{parallel}, 'some were above a parallel sort');

# an error above, a cursor that is not read to its end
fails_like($node, 'SELECT 1 / (50 - row_number() OVER (ORDER BY id)) FROM w', qr/division by zero/, 'an error');
is($node->safe_psql('postgres', 'BEGIN; DECLARE c CURSOR FOR SELECT row_number() OVER (ORDER BY i, id) FROM w; '
	. 'FETCH 3 FROM c; COMMIT'), "1\n2\n3", 'a cursor');

# an order by bytes, whose operator class has the equality of a collation that ignores case
my $bytes = 'SELECT max(r), sum(r) FROM (SELECT rank() OVER (ORDER BY s USING ~<~) AS r FROM bytes) q';
$node->safe_psql('postgres', "CREATE TABLE bytes AS SELECT (ARRAY['A', 'a'])[1 + i % 2] COLLATE loose AS s "
	. 'FROM generate_series(1, 3000) i; ALTER TABLE bytes SET (parallel_workers = 2); ANALYZE bytes');
is($node->safe_psql('postgres', "SET max_parallel_workers_per_gather = $_; SET parallel_leader_participation = off; "
		  . $bytes), '1|3000', "an order finer than its equality, $_ workers") for 0, 2;

# Equal values that are not neighbours are no group, and a group's rows are sorted in each of its spellings.  Also
# citext, whose order is that of the collation, and whose equality is that of bytes.
$node->safe_psql('postgres', <<SQL);
CREATE EXTENSION citext;
CREATE COLLATION looser (provider = icu, locale = 'und-u-ks-level1', deterministic = false);
CREATE TABLE spelled AS SELECT (ARRAY['A', 'A', 'B', 'a', 'a', 'a', 'a', 'A', 'a', 'b'])[1 + i % 10] COLLATE loose AS s,
	(ARRAY['e', 'é', 'e', 'f'])[1 + i % 4]::citext COLLATE looser AS c, i, i / 10 % 5 AS v
	FROM generate_series(0, 9999) i WHERE i % 10 <> 2 OR i % 100 = 2;
ANALYZE spelled;
SQL
for my $query (
	'SELECT cume_dist() OVER (ORDER BY s USING ~<~), s FROM spelled',
	'SELECT * FROM (SELECT s, row_number() OVER (PARTITION BY s ORDER BY s USING ~<~) AS n FROM spelled) q WHERE n < 4',
	'SELECT s, count(DISTINCT v) FROM spelled WHERE i % 10 IN (0, 3) GROUP BY s ORDER BY s USING ~<~',
	'SELECT array_agg(DISTINCT s ORDER BY s USING ~<~) FROM spelled WHERE i % 10 IN (0, 3)',
	'SELECT mode() WITHIN GROUP (ORDER BY s USING ~<~) FROM spelled WHERE i % 10 IN (0, 3, 5)',
	'SELECT * FROM (SELECT s, i FROM spelled WHERE i < 20 AND i % 10 IN (0, 3) ORDER BY s USING ~<~ OFFSET 0) q '
	. 'ORDER BY s USING ~<~, i',
	'SELECT DISTINCT ON (c) c, i FROM spelled WHERE i < 20 ORDER BY c, i')
{
	my $order = $query =~ /OVER/ ? 'r COLLATE "C"' : 'n';
	my $sort = $query =~ /OFFSET/ ? 'off' : 'on';
	my $rows = "SET enable_hashagg = off; SET enable_sort = $sort; SET gpusort.min_rows = 0; "
	  . "SET max_parallel_workers_per_gather = 0; SELECT md5(string_agg(r, ' ' ORDER BY $order)) FROM "
	  . "(SELECT r::text, row_number() OVER () AS n FROM ($query) r) q";

	is($node->safe_psql('postgres', $rows), $node->safe_psql('postgres', "SET gpusort.enable = off; $rows"), $query);
}
my $hashed = "SET max_parallel_workers_per_gather = 0; SET gpusort.plan_grouping_min_rows = 0; SET work_mem = '64MB'; "
  . 'SELECT count(*) FROM (SELECT s, count(*) FROM hashed GROUP BY s ORDER BY s USING ~<~ OFFSET 0) q';
$node->safe_psql('postgres', "CREATE TABLE hashed AS SELECT ((ARRAY['k', 'K'])[1 + i % 2] || i / 2) COLLATE loose AS s "
	. 'FROM generate_series(0, 199999) i; ANALYZE hashed');
is($node->safe_psql('postgres', $hashed), '100000', 'no sort takes the place of a hash table that finds fewer groups');

# keys of the width of a record, of two words, quantized keys, and ties that are resolved by the rows
$node->safe_psql('postgres', 'CREATE TABLE keys AS SELECT i AS id, mix(i) % 1000 AS a, mix(i * 3) / 7.0::float8 AS f, '
	. "'a common prefix ' || mix(i * 5) % 900 AS t, (mix(i * 7) % 50)::numeric / 10 AS n, mix(i * 11) AS w "
	. 'FROM generate_series(1, 70000) i; ANALYZE keys');
for my $by ('a ORDER BY n DESC', 'f', 'n ORDER BY t', 'a, t ORDER BY n, f DESC', 'w, f ORDER BY t', 't ORDER BY w')
{
	my $sql = "SELECT md5(string_agg(r || ' ' || d, ',' ORDER BY id)) FROM (SELECT id, rank() OVER p AS r, "
	  . "dense_rank() OVER p AS d FROM keys WINDOW p AS (PARTITION BY $by)) q";
	my %sums = map {
		$_ => $node->safe_psql('postgres', "SET max_parallel_workers_per_gather = 0; SET work_mem = '64MB'; "
			. "SET gpusort.enable = $_; $sql") } qw(on off);

	is($sums{on}, $sums{off}, "keys by $by");
}
$node->stop;
done_testing();
