# value_dictionary.pl: the dictionary of distinct values for keys that need a comparator.
#
# A sort by such a key puts its values into a hash table and compares the distinct ones only.  For few values, many
# values, and strings chosen to collide in the hash table (test/module/dictionary.c), the rows come in the stock Sort's
# order and the number of probes is bounded.  The debug message of the dictionary tells both.
#
# Needs the test module.  ICU's and the C library's en_US are tested if the server has them.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GpuSortTest;
use Test::More;

my $node = new_node('value_dictionary');
counted_operators($node);
# $entries is the size of the hash table for $rows rows
my ($rows, $different, $entries) = (20000, 1200, 4096);
$node->safe_psql('postgres', <<SQL);
CREATE FUNCTION seed_random(bigint) RETURNS bool AS 'gpusort_test' LANGUAGE C VOLATILE STRICT;
CREATE FUNCTION colliding_strings(int, bigint, int) RETURNS text[] AS 'gpusort_test' LANGUAGE C VOLATILE STRICT;
CREATE TABLE chosen AS SELECT i, s[1 + mix(i) % $different] AS t
FROM colliding_strings($different, 42, $entries) s, generate_series(1, $rows) i;
CREATE TABLE random AS SELECT i, md5(mix(i)::text) AS t FROM generate_series(1, $rows) i;
CREATE TABLE few AS SELECT i, md5((mix(i) % $different)::text) AS t FROM generate_series(1, $rows) i;
SQL
is($node->safe_psql('postgres', 'SELECT count(DISTINCT t) FROM chosen'), $different, 'colliding strings are distinct');

# Sorts a table, compares the order with the stock Sort's, and returns what the dictionary reports: the numbers of
# values and rows, how it ended, and the number of probes.
sub dictionary
{
	my ($table, $by, $where) = @_;
	my $query = "SELECT md5(string_agg(i::text, ',')) FROM "
	  . "(SELECT i FROM (SELECT i, t FROM $table $where) y ORDER BY $by%s OFFSET 0) x";
	my $stock = $node->safe_psql('postgres', 'SET gpusort.enable = off; ' . sprintf $query, ', i');
	# The report is the second run's: the first also fills catalog caches, which may draw random numbers.
	my $ours = sprintf $query, '';
	my ($rc, $out, $err) = $node->psql('postgres', "$ours; SET client_min_messages = debug1; $ours");

	is($out, "$stock\n$stock", "$table by $by: rows in the stock Sort's order");
	my @report = $err =~ /dictionary of (\d+) values of (\d+) rows (complete|given up) after (\d+) probes/;
	is($report[1], $rows, "$table by $by: the dictionary gets all rows") or diag $err;
	note "$table by $by: $report[0] values, $report[2], $report[3] probes";
	return @report;
}

my @by = 't USING <#';
push @by, 't COLLATE "en-US-x-icu"'
  if $node->safe_psql('postgres', q(SELECT count(*) FROM pg_collation WHERE collname = 'en-US-x-icu'));
push @by, 't COLLATE "en_US.utf8"'
  if $node->safe_psql('postgres', q(SELECT count(*) FROM pg_collation WHERE collname = 'en_US.utf8'));
for my $by (@by)
{
	my ($values, undef, $how, $probes) = dictionary('few', $by, '');
	is($how, 'complete', "few by $by: the dictionary is completed");
	is($values, $different, "few by $by: the dictionary has all values");
	cmp_ok($probes, '<=', 3 * $rows, "few by $by: at most 3 probes a row");

	# without the seed the dictionary draws another hash key, under which the strings do not collide
	($values, undef, $how, $probes) = dictionary('chosen', $by, '');
	is($how, 'complete', "chosen by $by, another hash key: the dictionary is completed");
	cmp_ok($probes, '<=', 3 * $rows, "chosen by $by, another hash key: at most 3 probes a row");

	# with the seed all strings collide
	(undef, undef, $how, $probes) = dictionary('chosen', $by, 'WHERE seed_random(42)');
	is($how, 'given up', "chosen by $by, colliding: the dictionary is given up");
	cmp_ok($probes, '<=', 8 * $rows + 1024, "chosen by $by, colliding: at most 8 probes a row and 1024");

	(undef, undef, $how, $probes) = dictionary('random', $by, '');
	is($how, 'given up', "random by $by: the dictionary is given up");
	cmp_ok($probes, '<=', 3 * $rows, "random by $by: at most 3 probes a row");
}
$node->stop;
done_testing();
