# Random aggregate queries, with gpusort.aggregates on and off: the same rows, by GpuSort Aggregate, from sorts in
# memory and on disk, serial and parallel.  GPUSORT_SEED repeats a run, GPUSORT_ROUNDS makes it longer.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GpuSortTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $seed = $ENV{GPUSORT_SEED} || time();
my $rounds = $ENV{GPUSORT_ROUNDS} || ($ENV{GPUSORT_QUICK} ? 60 : 250);
note "seed $seed";
srand($seed);

my $node = new_node('aggregates', parallel => 1);
$node->safe_psql('postgres', <<'SQL');
CREATE COLLATION loose (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
SQL

# columns of few values; values that are equal have several representations.  one: a function that makes one of them.
my %columns = (
	i => { expr => "(CASE WHEN r % 11 > 0 THEN r % 90 END)::int", number => 1 },
	h => { expr => "(r % 70)::int2", number => 1 },
	b => { expr => "(r % 50 * 10000000000)::int8", number => 1 },
	f => { expr => "(ARRAY['0', '-0', 'NaN', '-NaN', '1', NULL])[1 + r % 6]::float8", one => '0 + ', number => 1 },
	q => { expr => "(ARRAY['0', '-0', '2.5', '1', NULL])[1 + r % 5]::float4", one => '0 + ', number => 1 },
	n => { expr => "(ARRAY[1.0, 1.00, 1.000, 'NaN', 0, NULL])[1 + r % 6]::numeric", one => 'trim_scale', number => 1 },
	t => { expr => "('key ' || r % 130)" },
	s => { expr => "(ARRAY['a', 'A', 'b', 'B', NULL])[1 + r % 5] COLLATE loose", one => 'lower' },
	c => { expr => "(ARRAY['x', 'x ', 'x  ', 'y'])[1 + r % 4]::bpchar", one => 'rtrim' },
	l => { expr => "(repeat((r % 4)::text, 3000 + (r % 4)::int))", wide => 1 },
	d => { expr => "(date '2020-01-01' + (r % 60)::int)" },
	v => { expr => "(interval '1 day' * (r % 2) + interval '24 hours' * (r / 2 % 2))", one => 'justify_hours',
		interval => 1 });
my @names = sort keys %columns;

sub make_table
{
	my ($rows) = @_;
	my @cols;

	for my $name (@names)
	{
		my $expr = $columns{$name}{expr};

		$expr =~ s/\br\b/(mix(i * 31 + @{[ord($name)]}) % 1000)/g;
		push @cols, "$expr AS $name";
	}

	return "DROP TABLE IF EXISTS w; CREATE TABLE w AS SELECT i AS id, " . join(', ', @cols)
	  . " FROM generate_series(1, $rows) i; ALTER TABLE w SET (parallel_workers = 2); ANALYZE w;\n";
}

sub direction { return pick('', '', ' DESC', ' NULLS FIRST', ' DESC NULLS LAST') }

# An aggregate with a result that does not depend on the order of equal values.
sub aggregate
{
	my ($name, $shared) = @_;
	my $column = $columns{$name};
	my $order = pick(1, 1, 0) ? $shared : direction();
	my $one = $column->{one} // '';
	my $filter = pick(0, 0, 0, 0, 1) ? ' FILTER (WHERE id % 3 > 0)' : '';
	my $fraction = pick(0, 0.1, 0.5, 0.77, 1, 'NULL::float8', 'ARRAY[0.5, NULL, 0, 0.93]::float8[]');
	my @all = ('count(*)', "count($name)", "count(DISTINCT $name)", "count(DISTINCT $name)", "$one(max($name))",
		"$one(min($name))", 'max(id)', 'min(d)', 'sum(i)', 'avg(i)', 'sum(b)', 'avg(h)', 'sum(h)', 'sum(DISTINCT i)',
		'sum(i + h)', 'bool_or(i > 80)', "array_agg(id ORDER BY $name$order, id)",
		"string_agg(DISTINCT t, ',')");

	push @all, ("percentile_cont($fraction) WITHIN GROUP (ORDER BY $name$order)") x 6
	  if $column->{number} && $one ne '0 + ';
	push @all, ("0 + (percentile_cont(0.4) WITHIN GROUP (ORDER BY $name$order))") x 6 if $one eq '0 + ';
	push @all, ("justify_hours(percentile_cont(0.4) WITHIN GROUP (ORDER BY $name$order))") x 6 if $column->{interval};
	push @all, ("$one(percentile_disc(0.4) WITHIN GROUP (ORDER BY $name$order))",
		"$one(mode() WITHIN GROUP (ORDER BY $name$order))") x 4;
	my $aggregate = pick(@all);
	# a call within another function has none
	$aggregate .= $filter if $aggregate =~ /^(?:count|max|min|sum|avg|bool_or|array_agg|string_agg|percentile_cont)\(/;
	return $aggregate;
}

sub statement
{
	my @groups = map { pick(@names) } 1 .. pick(0, 1, 1, 2);
	my @columns = (pick(@names)) x pick(2, 3);
	my $order = direction();

	push @columns, pick(@names) if pick(0, 0, 1);
	my @list = map { aggregate($_, $order) } @columns;
	my @keys = map { ($columns{$_}{one} // '') . "($_)" } @groups;
	my $sql = 'SELECT ' . join(', ', map({ "$keys[$_] AS g$_" } 0 .. $#keys), map { "$list[$_] AS a$_" } 0 .. $#list)
	  . ' FROM w' . pick('', '', ' WHERE id % 7 > 1', ' WHERE id < 0')
	  . (@groups ? ' GROUP BY ' . join(', ', @groups) : '') . pick('', '', ' HAVING count(*) > 2');

	return "SELECT z::text FROM ($sql) z ORDER BY z::text COLLATE \"C\"";
}

my (%seen, $failed);
for my $round (1 .. $rounds)
{
	my $sql = statement();
	my $work_mem = pick('64kB', '4MB');
	my $set = "SET work_mem = '$work_mem'; SET enable_hashagg = off; SET max_parallel_workers_per_gather = "
	  . pick(0, 0, 2) . ';';
	my $make = ($round % 25 == 1) ? make_table(pick(50, 3000, 3000)) : '';

	$node->safe_psql('postgres', $make) if $make;
	my %rows = map { $_ => $node->safe_psql('postgres', "$set SET gpusort.aggregates = $_; $sql") } qw(on off);
	my $plan = $node->safe_psql('postgres', "$set EXPLAIN (COSTS OFF) $sql");
	my $replaced = $plan =~ /GpuSort Aggregate/;

	$seen{replaced}++ if $replaced;
	$seen{ordered_set}++ if $replaced && $plan =~ /WITHIN GROUP/;
	$seen{distinct}++ if $replaced && $plan =~ /\(DISTINCT/;
	$seen{parallel}++ if $replaced && $plan =~ /GpuSort Feed/;
	next if $rows{on} eq $rows{off};
	$failed++;
	diag "seed $seed, round $round: $set $sql\n$plan";
}
ok(!$failed, "$rounds queries return the stock node's rows");
cmp_ok($seen{replaced} // 0, '>', $rounds / 3, 'many were computed by GpuSort Aggregate');
ok($seen{ordered_set}, 'some were ordered sets');
ok($seen{distinct}, 'some were DISTINCT');
ok($seen{parallel}, 'some stood above a parallel sort') if $rounds >= 60;

# a Datum whose upper half is 0, as LLVM's code of earlier releases deforms it
my $extremes = 'SELECT g, max(zero_extended(x)), min(zero_extended(x)), max(x) FILTER (WHERE y > 3) FROM '
  . '(SELECT r % 7 AS g, (r % 5 - 2)::int AS x, r % 11 AS y FROM generate_series(1, 500) r) q GROUP BY g ORDER BY g';
my $in_place = 'SET gpusort.min_rows = 0; SET enable_hashagg = off;';

$node->safe_psql('postgres', "CREATE FUNCTION zero_extended(int) RETURNS int AS 'gpusort_test' LANGUAGE C STRICT");
like($node->safe_psql('postgres', "$in_place EXPLAIN $extremes"), qr/GpuSort Aggregate/, 'extremes are taken in place');
is($node->safe_psql('postgres', "$in_place $extremes"), join("\n", map { "$_|2|-2|2" } 0 .. 6),
	'the extremes of negative and positive integers');

# errors above and within
fails_like($node, 'SELECT 1 / (count(*) - count(*)) FROM w GROUP BY id', qr/division by zero/, 'an error');
fails_like($node, 'SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY 1 / (id - 3)) FROM w', qr/division by zero/,
	'an error below');
is($node->safe_psql('postgres', 'BEGIN; SET enable_hashagg = off; DECLARE c CURSOR FOR SELECT count(*) FROM w '
	. 'GROUP BY id; FETCH 3 FROM c; COMMIT'), "1\n1\n1", 'a cursor');
$node->stop;
done_testing();
