# joins.pl: random joins with gpusort.merge_joins on and off.
#
# The rows are the same, in the same order where one process joins, by GpuSort Join above sorts in memory and on disk,
# and above an index on one side.  GPUSORT_SEED repeats a run, GPUSORT_ROUNDS makes it longer.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GpuSortTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $rounds = $ENV{GPUSORT_ROUNDS} || ($ENV{GPUSORT_QUICK} ? 40 : 200);
my $seed = seed_random();

my $node = new_node('joins', parallel => 1);
$node->safe_psql('postgres', <<'SQL');
CREATE COLLATION loose (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
SQL

# columns whose values are equal in groups of different sizes; equal values may have several representations
my %columns = (
	i => "(CASE WHEN r % 11 > 0 THEN r % 50 END)::int",
	j => "(r % 300)::int2",
	b => "(r % 40)::int8",
	f => "(ARRAY['0', '-0', 'NaN', '-NaN', '1', NULL])[1 + r % 6]::float8",
	n => "(CASE r % 3 WHEN 0 THEN 1.0 WHEN 1 THEN 1.00 ELSE r % 100 END)::numeric",
	t => "('key ' || r % 130)",
	s => "(ARRAY['a', 'A', 'b', 'B', NULL])[1 + r % 5] COLLATE loose",
	c => "(ARRAY['x', 'x ', 'x  ', 'y'])[1 + r % 4]::bpchar",
	l => "(repeat((r % 90)::text, 1000 + (r % 90)::int))",
	d => "(date '2020-01-01' + (r % 60)::int)",
	m => "(timestamp '2020-01-01' + (r % 70) * interval '1 day')",
	a => "(ARRAY[r % 30, NULL])",
	# few values are in both tables
	w => "(CASE WHEN i % 7 = 0 THEN i ELSE -1 - r * 1000 - i % 1000 END)::int"
);
my @names = sort keys %columns;
# pairs of columns of two types of one operator family
my @pairs = ([ 'i', 'j' ], [ 'i', 'b' ], [ 'j', 'b' ], [ 'b', 'i' ], [ 'd', 'm' ], [ 'm', 'd' ], [ 'w', 'b' ],
	[ 'w', 'w' ], [ 'w', 'w' ]);

sub make_table
{
	my ($name, $rows, $factor) = @_;
	my @cols = map {
		my $e = $columns{$_};
		$e =~ s/\br\b/(mix(i * 31 + @{[$factor * ord($_)]}) % 1000)/g;
		"$e AS $_"
	} @names;

	return "DROP TABLE IF EXISTS $name; CREATE TABLE $name AS SELECT i AS id, " . join(', ', @cols)
	  . " FROM generate_series(1, $rows) i; ALTER TABLE $name SET (parallel_workers = 2);"
	  . " CREATE INDEX ON $name (i); CREATE UNIQUE INDEX ON $name (id); ANALYZE $name;\n";
}

sub condition
{
	my @on;

	for (1 .. pick(1, 1, 1, 2, 3))
	{
		my ($x, $y) = pick(0, 0, 1) ? @{ pick(@pairs) } : (pick(@names)) x 2;
		push @on, "x.$x = y.$y";
	}
	push @on, pick('x.id < y.id', 'x.id % 7 <> y.id % 5', 'y.id > 100', 'x.id = y.id') if pick(0, 0, 1);
	return join ' AND ', @on;
}

sub statement
{
	my $on = condition();
	my @columns = grep { pick(0, 0, 0, 1) } @names;
	my $list = join ', ', 'x.id', map { "x.$_" } @columns;
	my $both = join ', ', $list, 'y.id AS yid', map { "y.$_ AS y$_" } @columns;
	my $from = pick('FROM p x', 'FROM q x');
	my $where = pick('', '', '', 'WHERE x.id % 3 = 0');
	my $kind = pick(qw(inner inner left semi anti keys));

	return $kind =~ /semi|anti/ ? "SELECT $list $from WHERE @{[$kind eq 'anti' ? 'NOT' : '']} EXISTS (SELECT FROM q y "
	  . "WHERE $on)" : $kind eq 'keys' ? "SELECT count(*) $from JOIN q y ON $on $where"
	  : $kind eq 'left' ? "SELECT $both $from LEFT JOIN q y ON $on @{[pick('', '', 'WHERE y.id IS DISTINCT FROM 5')]}"
	  : "SELECT $both $from JOIN q y ON $on $where";
}

my (%seen, $failed);
for my $round (1 .. $rounds)
{
	my $sql = statement();
	my $work_mem = pick('64kB', '1MB', '16MB');
	my $workers = pick(0, 0, 0, 2);
	my $set = "SET work_mem = '$work_mem'; SET max_parallel_workers_per_gather = $workers; SET enable_hashjoin = off;"
	  . ' SET enable_nestloop = off; SET enable_material = ' . pick('on', 'off') . ';';
	my $make = ($round % 25 == 1) ? make_table('p', pick(50, 1000), 1) . make_table('q', pick(50, 1000), 3) : '';

	$node->safe_psql('postgres', $make) if $make;
	my $plan = $node->safe_psql('postgres', "$set EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) $sql");
	# sums of the rows, in order unless workers return them
	my $digest = "SELECT count(*), md5(string_agg(md5(r), '|' ORDER BY @{[$plan =~ /Gather/ ? 'r' : 'n']}))"
	  . " FROM (SELECT z::text AS r, row_number() OVER () AS n FROM ($sql) z) o";
	my %rows = map { $_ => $node->safe_psql('postgres', "$set SET gpusort.merge_joins = $_; $digest") } qw(on off);
	my $replaced = $plan =~ /GpuSort Join/;

	$seen{replaced}++ if $replaced;
	$seen{$1}++ if $replaced && $plan =~ /Join Type: (\w+)/;
	$seen{parallel}++ if $replaced && $plan =~ /Gather/;
	$seen{index}++ if $replaced && $plan =~ /Index .*Scan/;
	$seen{dropped}++ if $plan =~ /Rows Removed by Merge Cond/;
	next if $rows{on} eq $rows{off};
	$failed++;
	diag "seed $seed, round $round: $set $sql\n$plan$rows{off}\n$rows{on}";
}
ok(!$failed, "$rounds queries return the stock node's rows");
cmp_ok($seen{replaced} // 0, '>', $rounds / 2, 'most were joined by GpuSort Join');
ok($seen{$_}, "some were $_ joins") for qw(Inner Left Semi Anti);
ok($seen{index}, 'some had an index on one side');
ok($seen{parallel}, 'some were above or below a parallel plan');
ok($seen{dropped}, 'some dropped rows without a match before they were sorted');
diag join ', ', map { "$_ $seen{$_}" } sort keys %seen;

# an error above, a cursor that is not read to its end, a cancel within a large group
my $sorted = 'SET enable_hashjoin = off; SET enable_nestloop = off;';
fails_like($node, "$sorted SELECT 1 / (x.id - 7) FROM p x JOIN q y ON x.i = y.i", qr/division by zero/, 'an error');
is($node->safe_psql('postgres', "$sorted BEGIN; DECLARE c CURSOR FOR SELECT 1 FROM p x JOIN q y USING (i); "
	. 'FETCH 2 FROM c; COMMIT'), "1\n1", 'a cursor');
fails_like($node, "$sorted SET statement_timeout = '300ms'; SELECT count(*) FROM generate_series(1, 100000) x "
	. 'JOIN (SELECT 0 AS g FROM generate_series(1, 100000)) y ON x * 0 = y.g', qr/statement timeout/, 'a cancel');

# Rows of the outer side are dropped, so the inner side is sorted first.  PostgreSQL reads no inner row if there is no
# outer row, and evaluates the outer side's volatile functions before the inner side's.
$node->safe_psql('postgres', <<'SQL');
CREATE TABLE many AS SELECT i AS id, (mix(i) % 1000000)::int AS k FROM generate_series(1, 6000) i;
CREATE TABLE few AS SELECT id, k FROM many WHERE id % 100 = 0;
CREATE TABLE gone (LIKE many) WITH (autovacuum_enabled = off);
INSERT INTO gone SELECT * FROM many;
ANALYZE many, few, gone;
DELETE FROM gone;
CREATE SEQUENCE numbers;
SQL
$sorted .= ' SET gpusort.min_rows = 0; SET max_parallel_workers_per_gather = 0;';
my $error = 'JOIN (SELECT k, 1 / (id - 100) AS q FROM few OFFSET 0) y ON x.k = y.k';
like($node->safe_psql('postgres', "$sorted EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) "
	. 'SELECT count(*) FROM many x JOIN (SELECT k, id AS q FROM few OFFSET 0) y ON x.k = y.k WHERE q > 0'),
	qr/Sort Key: x\.k\s+Rows Removed by Merge Cond/, 'outer rows are dropped');
fails_like($node, "$sorted SELECT sum(q) FROM many x $error", qr/division by zero/, 'an error of the inner side');
is($node->safe_psql('postgres', "$sorted SELECT count(q) FROM gone x $error"), '0', 'no outer row: no error');
is($node->safe_psql('postgres', "$sorted SELECT count(q) FROM generate_series(5999, 6002) g, LATERAL (SELECT * FROM "
	. '(SELECT * FROM many WHERE id > g OFFSET 0) x JOIN (SELECT k, id AS q FROM few OFFSET 0) y USING (k)) z'), '1',
	'rescans with and without outer rows');
is($node->safe_psql('postgres', "$sorted SELECT min(x.n), min(y.n) FROM (SELECT k, nextval('numbers') AS n FROM many "
	. "OFFSET 0) x JOIN (SELECT k, nextval('numbers') AS n FROM few OFFSET 0) y ON x.k = y.k"), '100|6001',
	'volatile functions of both sides');
$node->stop;
done_testing();
