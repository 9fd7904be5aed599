# key_comparisons.pl: the number of comparator calls for keys that need a comparator.
#
# Sorts by an operator class that counts its calls (test/module/comparisons.c).  Presorted input takes at most one
# comparison a row, other input at most 5 % more than the stock Sort takes (10 % for two values, and for the many runs
# at 64 kB), and the rows come in the stock Sort's order.
#
# Needs the test module.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GpuSortTest;
use Test::More;

my $seed = seed_random();

my $rows = 30000;
my $node = new_node('key_comparisons');
my $sql = <<'SQL';
CREATE FUNCTION any_case(s text) RETURNS text VOLATILE LANGUAGE sql AS
$$ SELECT string_agg(CASE WHEN random() < 0.5 THEN upper(c) ELSE lower(c) END, '') FROM
	regexp_split_to_table(s, '') c $$;
SELECT setseed(SEED);
CREATE TABLE t AS SELECT i, lpad(i::text, 8, '0') AS up, lpad((ROWS - i)::text, 8, '0') AS down,
	lpad((i / 7)::text, 8, '0') AS up_equal, lpad(((ROWS - i) / 7)::text, 8, '0') AS down_equal,
	CASE WHEN i = ROWS THEN '0' ELSE lpad(i::text, 8, '0') END AS last_out,
	lpad((i % (ROWS / 2))::text, 8, '0') AS twice,
	any_case('all of them are equal') AS equal,
	any_case(CASE WHEN random() < 0.5 THEN 'some of them are equal' ELSE 'many of them are equal' END) AS two,
	any_case('one of a thousand ' || translate((random() * 1000)::int::text, '0123456789', 'abcdefghij')) AS thousand,
	md5(random()::text) AS random,
	repeat('common ', (1 + i % 40)) || random() AS long,
	CASE WHEN i % 10 > 0 THEN md5(random()::text) END AS nulls
FROM generate_series(1, ROWS) i;
CREATE TABLE toasted (LIKE t);
ALTER TABLE toasted ALTER random SET STORAGE external;
INSERT INTO toasted SELECT * FROM t LIMIT 3000;
UPDATE toasted SET random = random || repeat('x', 10000) WHERE i % 100 = 0;
SQL
counted_operators($node);
$sql =~ s/SEED/rand/e;
$sql =~ s/ROWS/$rows/g;
$node->safe_psql('postgres', $sql);

# Sorts a table; returns the number of comparisons and a checksum of the rows' order.
sub comparisons_and_rows
{
	my ($enable, $table, $order, $mem) = @_;
	my $answer = $node->safe_psql('postgres', <<SQL);
SET gpusort.enable = $enable;
SET work_mem = '$mem';
SELECT counted_comparisons() * 0;
SELECT md5(string_agg(i::text, ',')) FROM (SELECT i FROM $table ORDER BY $order OFFSET 0) x;
SELECT counted_comparisons();
SQL
	my ($zero, $md5, $comparisons) = split /\n/, $answer;
	return ($comparisons, $md5);
}

sub check
{
	my ($table, $by, $operator, %opt) = @_;
	my $mem = $opt{mem} // '4MB';
	my $what = "$table.$by $operator, $mem";
	# the stock Sort is not stable: count without i, compare the order with i as second key
	my ($stock) = comparisons_and_rows('off', $table, "$by USING $operator", $mem);
	my (undef, $stock_rows) = comparisons_and_rows('off', $table, "$by USING $operator, i", $mem);
	my ($ours, $our_rows) = comparisons_and_rows('on', $table, "$by USING $operator", $mem);

	is($our_rows, $stock_rows, "$what: rows in the stock Sort's order") or diag "seed $seed";
	note "$what: $ours comparisons, $stock of the stock Sort";
	cmp_ok($ours, '<=', $opt{most} // $stock * ($opt{factor} // 1.05), "$what: number of comparisons")
	  or diag "seed $seed";
}

like($node->safe_psql('postgres', 'EXPLAIN SELECT i FROM t ORDER BY random USING <#'), qr/GpuSort/,
	'the plan has a GpuSort');
for my $operator ('<#', '>#')
{
	check('t', $_, $operator, most => $rows - 1) for ('up', 'down', 'up_equal', 'down_equal', 'equal');
	check('t', $_, $operator) for ('last_out', 'twice', 'thousand', 'random', 'long', 'nulls');
	# a three-way partition, as the stock Sort has, needs fewer comparisons for two values than a merge sort
	check('t', 'two', $operator, factor => 1.1);
	check('toasted', 'random', $operator);
	# runs are merged by fewer comparisons than a sort of their rows takes
	for my $mem ('64kB', '128kB', '256kB', '1MB')
	{
		my $factor = $mem eq '64kB' ? 1.1 : 1.05;

		check('t', $_, $operator, mem => $mem, factor => $factor)
			for ('last_out', 'twice', 'thousand', 'random', 'nulls');
	}
}

$node->stop;
done_testing();
