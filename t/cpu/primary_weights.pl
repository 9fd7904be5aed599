# primary_weights.pl: sorts by collations with rules and of citext come in the stock Sort's order.
#
# gpusort orders such strings by primary weights of their letters first, and then compares them.  Tested are letters
# whose weights are right, letters whose weights mislead (contractions, ignored characters, numbers by value), and
# letters without weights; in one batch, and in runs of some hundred rows.
#
# Strings of citext and of nondeterministic collations may be equal though their letters, and weights, differ.
#
# Skipped if the server has no ICU.  A collation of the C library is tested if the machine has one.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GpuSortTest;
use Test::More;

my $seed = seed_random();

my $node = new_node('primary_weights');
plan skip_all => 'the server has no ICU' unless $node->safe_psql('postgres',
	q(SELECT count(*) FROM pg_collation WHERE collname = 'hu-x-icu'));

my $tables = <<'SQL';
CREATE COLLATION numbers (provider = icu, locale = 'en-u-kn-true');
CREATE COLLATION shifted (provider = icu, locale = 'en-u-ka-shifted');
CREATE COLLATION upper (provider = icu, locale = 'en-u-kf-upper');
CREATE COLLATION loose (provider = icu, locale = 'und-u-ks-level1', deterministic = false);
SELECT setseed(SEED);
CREATE FUNCTION word(letters text[], n int) RETURNS text VOLATILE LANGUAGE sql AS
$$ SELECT string_agg(letters[1 + floor(random() * cardinality(letters))::int], '') FROM generate_series(1, n) $$;
-- plain: weights give the order; odd: weights may mislead; far: letters without weights, behind: after a letter;
-- scripts: one script after the other
CREATE TABLE words AS SELECT i,
	(word('{a,b,c,d,e,E,f,A,é,ö,ß," ",-,1,9,x,y,z}', 4 + i % 9)) AS plain,
	(ARRAY['common, ', '', ''])[1 + i % 3] || word('{c,ch,C,cs,dz,dzs,é,E,æ,aa,å,ll,10,9,-,_,"  ",l,·,日,я,😀}', 1 + i %
		7) AS odd,
	(word('{日,本,語,一,二,三,a}', 1 + i % 5)) AS far,
	word('{a,b,c,D,E,F,g,1}', 1) || word('{日,本,語,一,二,三,四,五,六,七,八,九}', 4) AS behind,
	CASE i / 3000 WHEN 0 THEN word('{a,b,c,D,é,-}', 6 + i % 5) WHEN 1 THEN word('{а,б,В,г,д,Ё,ж,ъ," "}', 5 + i % 5)
		WHEN 2 THEN word('{ა,ბ,გ,დ,ე,ვ,ზ}', 6 + i % 3) ELSE word('{क,ख,ग,घ,い,ろ,ハ,α,ω,ά,™,“}', 4 + i % 5) END AS scripts,
	word('{a,b,B,ä}', 3)::char(8) AS few
FROM generate_series(1, 12000) i;
INSERT INTO words SELECT 12000 + i FROM generate_series(1, 100) i;
CREATE FUNCTION sorted(col text, coll text, by text, turned text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
BEGIN
	EXECUTE format(
		'SELECT md5(string_agg(i::text, %L)) FROM (SELECT i FROM words ORDER BY %I COLLATE %I %s OFFSET 0) x',
		',', col, coll, by || turned) INTO result;
	RETURN result;
END $$;
SQL
$tables =~ s/SEED/rand/e;
$node->safe_psql('postgres', $tables);

my ($rules) = grep { $_ eq 'rules' } create_collations($node);
for my $coll ('en-x-icu', 'hu-x-icu', 'numbers', 'shifted', 'upper', 'loose', $rules // ())
{
	for my $col ('plain', 'odd', 'far', 'behind', 'scripts', 'few')
	{
		for my $by ('', 'DESC', 'NULLS FIRST')
		{
			# equal keys keep the order of the table, which is that of i
			my $stock =
				$node->safe_psql('postgres', "SET gpusort.enable = off; SELECT sorted('$col', '$coll', '$by', ', i')");
			for my $mem ('4MB', '64kB')
			{
				is($node->safe_psql('postgres', "SET work_mem = '$mem'; SELECT sorted('$col', '$coll', '$by', '')"),
					$stock, "$col, $coll $by, $mem: rows in the stock Sort's order") or diag "seed $seed";
			}
		}
	}
}
like($node->safe_psql('postgres', 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) SELECT * FROM words ORDER BY '
	. 'plain COLLATE "en-x-icu"'),
	qr/GpuSort.*1-bit keys \(prefix\), 12100 rows.*, 12100 ties compared/s,
	'weights are no part of the normalized key: all rows are compared');

# runs and groups of fewer strings than it takes to learn weights: 12,100 rows reach that number twice
my $few = qr/weights presort a group of (\d{2,3}) strings/;
for (
	[ '64kB', 'plain', '' ],
	[ '4MB', 'plain', 'i % 20, ' ],
	[ '64kB', 'scripts', '' ],
	[ '64kB', 'far', '' ],
	[ '64kB', 'behind', '' ])
{
	my ($mem, $col, $first) = @$_;
	my ($rc, $out, $log) = $node->psql('postgres',
		"SET client_min_messages = debug1; SET work_mem = '$mem'; SELECT count(*) FROM (SELECT * FROM words WHERE "
		. qq{plain IS NOT NULL ORDER BY $first$col COLLATE "en-x-icu" OFFSET 0) x});
	my $how = $col =~ /far|behind/ ? 'badly' : 'well';
	my @samples = $log =~ /$few $how/g;
	cmp_ok(@samples, '>=', 2, "$first$col, $mem: strings of several calls teach weights, which presort them $how")
		or diag $log;
}

# the C library ignores spaces and punctuation, until all letters are equal
for (['plain', 'loose', 'well'], ['plain', 'shifted', 'well'], ['behind', 'loose', 'badly'],
	$rules ? ['plain', $rules, 'well'] : ())
{
	my ($col, $coll, $how) = @$_;
	my (undef, undef, $log) = $node->psql('postgres', 'SET client_min_messages = debug1; '
		. "SELECT count(*) FROM (SELECT i FROM words WHERE plain IS NOT NULL ORDER BY $col COLLATE $coll OFFSET 0) x");
	like($log, qr/weights presort a group of 12000 strings $how/, "$col, $coll: weights presort the strings $how");
}

# citext: some equal strings have other weights, as the sign of kelvin and k
SKIP:
{
	skip 'citext is not installed', 1 unless $node->safe_psql('postgres',
		q(SELECT count(*) FROM pg_available_extensions WHERE name = 'citext'));
	my $sql = <<'SQL';
CREATE EXTENSION citext;
SELECT setseed(SEED);
CREATE TABLE insensitive AS SELECT i, i % 40 AS few,
	(word('{a,B,b,c,k,K,@,.,-,é,É,9}', 3 + i % 4) || i % 3)::citext AS plain,
	word(U&'{k,K,\212A,å,Å,\212B,İ,i,I,ß,ẞ,ǅ,ǆ,Ω,ω,\2126}', 1 + i % 3)::citext AS odd,
	-- one string in 60 is out of place
	(word('{a,b,c,K}', 4) || CASE WHEN i % 60 = 0 THEN U&'\212A' ELSE 'k' END || i % 4)::citext AS kelvin,
	-- in place, but the last strings, which are equal, may not be in the order of their rids: few, and too many
	CASE WHEN i % 300 = 0 THEN 'zz' || (ARRAY['k', U&'\212A', 'K'])[1 + i / 300 % 3] ELSE 'a' || i * 7919 % 12000
		END::citext AS last,
	CASE WHEN i % 3 = 0 THEN 'zz' || (ARRAY['k', U&'\212A', 'K'])[1 + i / 3 % 3] ELSE 'a' || i * 7919 % 12000
		END::citext AS most
FROM generate_series(1, 12000) i;
INSERT INTO insensitive SELECT 12000 + i, i % 40 FROM generate_series(1, 100) i;
SQL
	$sql =~ s/SEED/rand/e;
	$node->safe_psql('postgres', $sql);
	for my $col ('plain', 'odd', 'kelvin', 'last', 'most', 'few, plain', 'few, odd')
	{
		for my $by ('', 'DESC', 'NULLS FIRST', 'LIMIT 300')
		{
			my ($turned, $limit) = $by =~ /LIMIT/ ? ('', $by) : ($by, 'OFFSET 0');
			my $query = sub {
				my ($settings, $more) = @_;
				return $node->safe_psql('postgres', "$settings; SELECT md5(string_agg(i::text, ',')) FROM "
					. "(SELECT i FROM insensitive ORDER BY $col $turned$more $limit) x");
			};
			my $stock = $query->('SET gpusort.enable = off', ', i');

			is($query->("SET work_mem = '$_'", ''), $stock, "citext $col $by, $_: rows in the stock Sort's order")
				or diag "seed $seed"
				for ('4MB', '64kB');
		}
	}
	my (undef, undef, $log) = $node->psql('postgres', 'SET client_min_messages = debug1; '
		. 'SELECT count(*) FROM (SELECT i FROM insensitive ORDER BY plain OFFSET 0) x');
	like($log, qr/weights presort a group of 12000 strings well/, 'citext: weights presort the strings');

	# the letters of a script are compared with each other, then each string with its neighbours: a merge sort would
	# compare a string a dozen times
	my $letters = 500 * 16;
	$node->safe_psql('postgres', 'CREATE SEQUENCE calls; CREATE OR REPLACE FUNCTION citext_cmp(citext, citext) '
		. 'RETURNS int LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$ BEGIN '
		. q(PERFORM nextval('calls'); RETURN bttextcmp(lower($1::text), lower($2::text)); END $$));
	my $cyrillic = q(word('{а,б,в,г,д,е,ж,з,и,й,к,л,м,н,о,п,р,с,т,у,ф,х,ц,ч,ш,щ,ы,ь,э,ю,я}', 8));
	for (['Cyrillic', $cyrillic], ['Georgian', q(word('{ა,ბ,გ,დ,ე,ვ,ზ,თ,ი,კ,ლ,მ,ნ,ო,პ,ჟ,რ,ს,ტ}', 8))],
		# a sample of equal distances would see one of the scripts only
		['alternating', "CASE i % 19 WHEN 1 THEN word('{a,b,c,d,e,f,g,h}', 8) ELSE $cyrillic END"])
	{
		my ($script, $string) = @$_;
		my $calls = $node->safe_psql('postgres', "SELECT setval('calls', 1); "
			. "CREATE TABLE letters AS SELECT ($string)::citext s FROM generate_series(1, 5000) i; "
			. "SELECT count(*) FROM (SELECT s FROM letters ORDER BY s OFFSET 0) x; DROP TABLE letters; "
			. "SELECT last_value FROM calls");
		$calls =~ s/.*\n//s;
		cmp_ok($calls, '<', 2 * 5000 + $letters, "citext: strings of $script letters are compared once or twice")
			or diag "seed $seed";
	}
}
$node->stop;
done_testing();
