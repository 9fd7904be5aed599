# Values that only a comparator orders and that come again and again: a hash table finds the different ones.  Its work
# is bounded, also for strings that are chosen to have the same place in it.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GpuSortTest;
use Test::More;

my $node = new_node('value_dictionary');
# the table's size, which goes with the number of rows
my ($rows, $different, $entries) = (20000, 1200, 4096);
$node->safe_psql('postgres', <<SQL);
CREATE FUNCTION counted_compare(text, text) RETURNS int AS 'gpusort_test' LANGUAGE C IMMUTABLE STRICT;
CREATE FUNCTION counted_less(text, text) RETURNS bool AS 'gpusort_test' LANGUAGE C IMMUTABLE STRICT;
CREATE FUNCTION counted_equal(text, text) RETURNS bool AS 'gpusort_test' LANGUAGE C IMMUTABLE STRICT;
CREATE FUNCTION counted_greater(text, text) RETURNS bool AS 'gpusort_test' LANGUAGE C IMMUTABLE STRICT;
CREATE OPERATOR <# (LEFTARG = text, RIGHTARG = text, FUNCTION = counted_less, COMMUTATOR = ># );
CREATE OPERATOR =# (LEFTARG = text, RIGHTARG = text, FUNCTION = counted_equal, COMMUTATOR = =# );
CREATE OPERATOR ># (LEFTARG = text, RIGHTARG = text, FUNCTION = counted_greater, COMMUTATOR = <# );
CREATE OPERATOR CLASS counted_ops FOR TYPE text USING btree AS
	OPERATOR 1 <#, OPERATOR 3 =#, OPERATOR 5 >#, FUNCTION 1 counted_compare(text, text);
CREATE FUNCTION seed_random(bigint) RETURNS bool AS 'gpusort_test' LANGUAGE C VOLATILE STRICT;
CREATE FUNCTION colliding_strings(int, bigint, int) RETURNS text[] AS 'gpusort_test' LANGUAGE C VOLATILE STRICT;
CREATE TABLE chosen AS SELECT i, s[1 + mix(i) % $different] AS t
FROM colliding_strings($different, 42, $entries) s, generate_series(1, $rows) i;
CREATE TABLE random AS SELECT i, md5(mix(i)::text) AS t FROM generate_series(1, $rows) i;
CREATE TABLE few AS SELECT i, md5((mix(i) % $different)::text) AS t FROM generate_series(1, $rows) i;
SQL
is($node->safe_psql('postgres', 'SELECT count(DISTINCT t) FROM chosen'), $different, 'strings are chosen');

# what the dictionary says of itself, after the order has been compared with the stock Sort's
sub dictionary
{
	my ($table, $by, $where) = @_;
	my $query = "SELECT md5(string_agg(i::text, ',')) FROM "
	  . "(SELECT i FROM (SELECT i, t FROM $table $where) y ORDER BY $by%s OFFSET 0) x";
	my $stock = $node->safe_psql('postgres', 'SET gpusort.enable = off; ' . sprintf $query, ', i');
	# the second time nothing is looked up in catalogs, which may draw, too
	my $ours = sprintf $query, '';
	my ($rc, $out, $err) = $node->psql('postgres', "$ours; SET client_min_messages = debug1; $ours");

	is($out, "$stock\n$stock", "$table by $by: in order");
	my @said = $err =~ /dictionary of (\d+) values of (\d+) rows (complete|given up) after (\d+) probes/;
	is($said[1], $rows, "$table by $by: a dictionary is tried") or diag $err;
	note "$table by $by: $said[0] values, $said[2], $said[3] probes";
	return @said;
}

my @by = 't USING <#';
push @by, 't COLLATE "en-US-x-icu"'
  if $node->safe_psql('postgres', q(SELECT count(*) FROM pg_collation WHERE collname = 'en-US-x-icu'));
push @by, 't COLLATE "en_US.utf8"'
  if $node->safe_psql('postgres', q(SELECT count(*) FROM pg_collation WHERE collname = 'en_US.utf8'));
for my $by (@by)
{
	my ($values, undef, $how, $probes) = dictionary('few', $by, '');
	is($how, 'complete', "few by $by: ranked");
	is($values, $different, "few by $by: all values are found");
	cmp_ok($probes, '<=', 3 * $rows, "few by $by: probes");

	# strings that collide with one key do not with another
	($values, undef, $how, $probes) = dictionary('chosen', $by, '');
	is($how, 'complete', "chosen by $by: ranked");
	cmp_ok($probes, '<=', 3 * $rows, "chosen by $by: probes");

	# the key is known: each probe after the first few would pass all values before
	(undef, undef, $how, $probes) = dictionary('chosen', $by, 'WHERE seed_random(42)');
	is($how, 'given up', "chosen for this key by $by: given up");
	cmp_ok($probes, '<=', 8 * $rows + 1024, "chosen for this key by $by: probes");

	(undef, undef, $how, $probes) = dictionary('random', $by, '');
	is($how, 'given up', "random by $by: given up");
	cmp_ok($probes, '<=', 3 * $rows, "random by $by: probes");
}
$node->stop;
done_testing();
