# normalized_keys.pl: normalized keys of all types order as the types' comparators.
#
# For each type, check_normkeys() (test/module/normkeys.c) compares each pair of a set of values by key and by
# comparator: random values, edge values, and mutations of both (test/module/mutated.c).  The mutations run once, or for
# GPUSORT_FUZZ_SECONDS (make fuzz-server).  The last test sorts an enum type to which labels are added during the sort.
#
# Needs the test module; ICU's collations are tested if the server has them.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GpuSortTest;
use Test::More;

my $seed = seed_random();
my $values = $ENV{GPUSORT_QUICK} ? 700 : 2000;

my $node = new_node('normalized_keys');
$node->safe_psql('postgres', <<'SQL');
CREATE FUNCTION check_normkeys(anyarray, regoperator) RETURNS text AS 'gpusort_test' LANGUAGE C;
CREATE FUNCTION mutated(anyarray, int, bigint) RETURNS anyarray AS 'gpusort_test' LANGUAGE C;
CREATE TYPE mood AS ENUM ('b', 'd', 'f');
ALTER TYPE mood ADD VALUE 'a' BEFORE 'b';
ALTER TYPE mood ADD VALUE 'c' BEFORE 'd';
ALTER TYPE mood ADD VALUE 'e' AFTER 'd';
-- random digits; half of them are 0 or 9
CREATE FUNCTION digits(n int) RETURNS text VOLATILE LANGUAGE sql AS
$$ SELECT coalesce(string_agg(substr('0000999123456789', 1 + floor(random() * 16)::int, 1), ''), '') FROM
	generate_series(1, n) $$;
CREATE FUNCTION rnum(whole int, behind int) RETURNS numeric VOLATILE LANGUAGE sql AS
$$ SELECT ((ARRAY['', '-'])[1 + floor(random() * 2)] || '0' || digits(floor(random() * whole)::int) || '.' ||
	digits(floor(random() * behind)::int) || '0')::numeric $$;
CREATE FUNCTION rbits(n int) RETURNS varbit VOLATILE LANGUAGE sql AS
$$ SELECT coalesce(string_agg(substr('0001', 1 + floor(random() * 4)::int, 1), ''), '')::varbit FROM
	generate_series(1, floor(random() * n)::int) $$;
-- domains over arrays: array_agg() of a domain makes an array of arrays
CREATE DOMAIN ints AS int[];
CREATE DOMAIN texts AS text[] COLLATE "C";
CREATE DOMAIN numerics AS numeric[];
CREATE DOMAIN moods AS mood[];
CREATE TYPE pair AS (a int8, b text);
CREATE TYPE named AS (a text COLLATE "C", b int);
CREATE TYPE textrange AS RANGE (subtype = text, collation = "C");
CREATE TYPE backward AS RANGE (subtype = text, subtype_opclass = text_pattern_ops);
CREATE FUNCTION bounds() RETURNS text VOLATILE LANGUAGE sql AS $$ SELECT (ARRAY['()', '[]', '(]', '[)'])[1 +
	floor(random() * 4)] $$;
CREATE FUNCTION rrange() RETURNS int4range VOLATILE LANGUAGE sql AS
$$ SELECT CASE WHEN random() < 0.1 THEN 'empty' ELSE int4range(nullif(floor(random() * 5)::int * 1000000 - 2000000,
	0), nullif(5000000 + floor(random() * 3)::int, 5000001), bounds()) END $$;
-- strings, also empty, with trailing blanks, bytes above 127, and combining marks
CREATE FUNCTION rtext(n int) RETURNS text VOLATILE LANGUAGE sql AS
$$ SELECT coalesce(string_agg((ARRAY['a', 'A', 'b', 'é', E'e\u0301', E'\u0301', ' ', '  ', 'ÿ', 'ß', 'ss', '語',
	E'\U0001F600', E'\u0001', '-', 'same text '])[1 + floor(random() * 16)::int], ''), '')
	FROM generate_series(1, floor(random() * n)::int) $$;
-- random bytes in hexadecimal; six different bytes, so that values often agree in many of them
CREATE FUNCTION few(bytes int) RETURNS text VOLATILE LANGUAGE sql AS
$$ SELECT string_agg((ARRAY['00', '00', '00', '01', '7f', '80', 'ff', 'ff'])[1 + floor(random() * 8)], '') FROM
	generate_series(1, bytes) $$;
SQL

# type, SQL expression of a random value, whether the keys decide all pairs, and the operators' argument type if it is
# not the type
my @checks = (
	[ 'uuid', 'few(16)::uuid', 1 ],
	[ 'macaddr', 'few(6)::macaddr', 1 ],
	[ 'macaddr8', 'few(8)::macaddr8', 1 ],
	[ 'pg_lsn', q((left(few(4), 8) || '/' || few(4))::pg_lsn), 1 ],
	[ 'tid', q(format('(%s,%s)', floor(random() * 10 ^ (random() * 9)), floor(random() * 65536))::tid), 1 ],
	[ 'timetz', q((format('%s:%s:00', floor(random() * 24), floor(random() * 3)) || (ARRAY['+00', '+00:01', '-00:01',
		'+05', '-15:59', '+01'])[1 + floor(random() * 6)])::timetz), 1 ],
	[ 'interval', q(make_interval(months => floor((random() - 0.5) * 10 ^ (random() * 9))::int, days =>
		floor((random() - 0.5) * 10 ^ (random() * 9))::int,
		secs => (random() - 0.5) * 10 ^ (random() * 12))), 1 ],
	[ 'interval', q(make_interval(months => floor(random() * 3)::int, days => floor(random() * 61)::int - 30, hours =>
		24 * floor(random() * 61)::int - 720)), 1 ],
	[ 'mood', '(enum_range(NULL::mood))[1 + floor(random() * 6)]', 1 ],
	[ 'numeric', 'rnum(8, 4)', 1 ],
	[ 'numeric', 'rnum(3, 19)', 1 ],
	[ 'numeric', 'rnum(17, 6)', 0 ],
	[ 'numeric', 'rnum(40, 30)', 0 ],
	[ 'numeric', 'rnum(3, 26)', 0 ],
	[ 'numeric', q(((ARRAY['', '-'])[1 + floor(random() * 2)] || '1' || digits(floor(random() * 5)::int) || 'e' ||
		floor((random() - 0.5) * 10 ^ (random() * 4)))::numeric), 0 ],
	[ 'numeric', q((ARRAY['NaN', 'Infinity', '-Infinity', '0', '0.00', '1e131071', '-1e131071', '1e-16383',
		'-1e-16383', '399999999999999.9999', '400000000000000',
		'-399999999999999.9999', '-400000000000000', '1.1', '1.10', '-1.1', '-1.10', '9999', '10000', '-0.0001',
			'-0.00010000000000000001'])[1 + floor(random() * 21)]::numeric + floor(random() * 2)::numeric), 0 ],
	[ 'inet', q((format('%s.%s.%s.%s/%s', floor(random() * 2) * 255, floor(random() * 3) * 127, floor(random() * 2) *
		128, floor(random() * 3), floor(random() * 33)))::inet), 1 ],
	[ 'inet', q((floor(random() * 256) || '.' || floor(random() * 256) || '.' || floor(random() * 256) || '.' ||
		floor(random() * 256))::inet), 1 ],
	[ 'inet', q(set_masklen((SELECT string_agg(substr(f, 4 * g - 3, 4), ':') FROM generate_series(1, 8) g, few((16 + 0
		* i)::int) f)::inet, floor(random() * 129)::int)), 0 ],
	[ 'inet', q(CASE WHEN random() < 0.5 THEN ('::' || floor(random() * 3))::inet WHEN random() < 0.5 THEN
		'10.0.0.0'::inet + floor(random() * 3)::int
		ELSE (format('0:0:%s:%s::%s', (ARRAY['3f', '40', '41', '0'])[1 + floor(random() * 4)], (ARRAY['ffff', '0',
			'1', '2'])[1 + floor(random() * 4)], floor(random() * 2)))::inet END), 0 ],
	[ 'varbit', 'rbits(57)', 1 ],
	[ 'varbit', 'rbits(90)', 0 ],
	[ 'bit(64)', 'rbits(70)::bit(64)', 0 ],
	[ 'ints', q((ARRAY['{}', '{NULL}', '{NULL,1}', '{NULL,NULL}', '{0}', '{0,1}', '[0:1]={0,1}', '{{0,1},{2,3}}',
		'{{0},{1}}', '{-1}', '{-1,NULL}',
		'{2147483647}', '{-2147483648}', '{-2147483648,5}'])[1 + floor(random() * 14)::int]), 0, 'anyarray' ],
	[ 'ints', q(ARRAY[floor((random() - 0.5) * 4e9), random() * 3]::int[]), 0, 'anyarray' ],
	[ 'texts', q(ARRAY[(ARRAY['', 'a', 'aaaaaaaa', 'aaaaaaaab', 'aaaaaaaac', E'\u00ff', NULL])[1 + floor(random() *
		7)], 'b']), 0, 'anyarray' ],
	[ 'numerics', 'ARRAY[rnum(4, 3), 1]', 0, 'anyarray' ],
	[ 'moods', q(ARRAY[(enum_range(NULL::mood))[1 + floor(random() * 7)]]), 0, 'anyarray' ],
	[ 'int4range', 'rrange()', 0, 'anyrange' ],
	[ 'numrange', q(numrange(nullif(least(n, 5), 3), nullif(greatest(n, 5), 7), bounds()) FROM (SELECT rnum(2,
		2) n WHERE i > 0) x), 0, 'anyrange' ],
	[ 'textrange', q(textrange((ARRAY['', 'a', 'aaaaaaaa', 'aaaaaaaab', NULL])[1 + floor(random() * 5)], 'b',
		bounds())), 0, 'anyrange' ],
	[ 'backward', q(backward((ARRAY['', 'a', 'B', 'b', NULL])[1 + floor(random() * 5)], 'c', bounds())), 0,
		'anyrange' ],
	[ 'int4multirange', q((ARRAY[int4multirange(), int4multirange(rrange()), int4multirange(rrange(), rrange())])[1 +
		floor(random() * 3)::int]), 0, 'anymultirange' ],
	[ 'pair', q(ROW(nullif(floor((random() - 0.5) * 5), 0), 'x' || floor(random() * 2))::pair), 0, 'record' ],
	[ 'named', q(ROW((ARRAY['', 'a', 'aaaaaaaa', 'aaaaaaaab', NULL])[1 + floor(random() * 5)], floor(random() *
		3))::named), 0, 'record' ],
	[ 'record', q(ROW(nullif(floor(random() * 5), 2), 'a'::text)), 0, 'record' ]);

# strings in a collation of each provider that this server has
push @checks, [ 'bpchar COLLATE "C"', 'rtext(6)', 0, 'bpchar' ],
	[ 'name COLLATE "C"', 'left(rtext(6), 15)', 0, 'name' ],
  [ 'bytea', q(decode(few(1 + floor(random() * 12)::int), 'hex')), 0 ];
for my $collation (split /\n/, $node->safe_psql('postgres',
	q(SELECT collname FROM pg_collation WHERE collname IN ('C', 'C.utf8', 'pg_c_utf8', 'en-x-icu'))))
{
	push @checks, [ "text COLLATE \"$collation\"", 'rtext(6)', 0, 'text' ];
	next unless $collation =~ /icu/;
	$node->safe_psql('postgres', q(CREATE COLLATION loose (provider = icu, locale = 'und-u-ks-level1', deterministic =
		false)));
	push @checks, [ 'text COLLATE loose', 'rtext(6)', 0, 'text' ];
}

# Runs check_normkeys() on n random values of a check, and on this number of mutations of them, with an operator.
# Returns the numbers of pairs compared and of pairs that the keys do not decide, and what is wrong, or undef.
sub run_check
{
	my ($check, $op, $n, $mutated) = @_;
	my ($type, $value, $all, $base) = @$check;
	$base //= $type eq 'mood' ? 'anyenum' : $type =~ s/\(.*//r;
	# array_agg() of arrays returns an array of more dimensions: cast each value to the domain
	my $values = "array_agg((SELECT $value WHERE i > 0)" . ($base eq 'anyarray' ? "::text)::$type\[]" : "::$type)");
	$values = sprintf 'mutated(%s, %d, %d)', $values, $mutated, rand(1 << 31) if $mutated;
	my $sql = sprintf q(SELECT setseed(%.6f); SELECT check_normkeys(%s, '%s(%s,%s)') FROM generate_series(1, %d) i),
	  rand, $values, $op, $base, $base, $n;
	my ($rc, $out, $err) = $node->psql('postgres', $sql);
	my ($pairs, $undecided) = ($out // '') =~ /^(\d+) pairs, (\d+) undecided$/m;
	return ($pairs // 0, $undecided // 'unknown', $rc == 0 && defined $undecided ? undef
		: substr("seed $seed\n$sql\n$out\n$err", 0, 2000));
}

for my $check (@checks)
{
	for my $op ('<', '>')
	{
		my (undef, $undecided, $wrong) = run_check($check, $op, $values);
		ok(!defined $wrong && (!$check->[2] || $undecided == 0),
			"$check->[0] $op: keys order as the comparator; $undecided pairs undecided")
			or diag $wrong // "seed $seed";
	}
}

# Mutated values of the types above, of the types whose keys are their binary value, and of strings in random collations
# of this server.
my @plain = map { [ $_, q((random() * 1000 - 500)::int::) . $_, 1 ] } qw(int2 int4 int8 float4 float8 money);
push @plain, [ 'oid', 'i::oid', 1 ], [ 'bool', 'i % 2 = 0', 1 ], [ '"char"', q('x'::"char"), 1 ],
	[ 'xid8', 'i::text::xid8', 1 ],
  [ 'date', q(date '2020-01-01' + i), 1 ],
  	map { [ $_, "'2020-01-01'::$_ + i * interval '1 hour'", 1 ] } qw(timestamp timestamptz);
push @plain, [ 'time', q(time '00:00' + i * interval '1 hour'), 1 ];
my @collations = split /\n/, $node->safe_psql('postgres',
	q(SELECT format('%I.%I', collnamespace::regnamespace, collname) FROM pg_collation WHERE collprovider <> 'd' AND
		collencoding IN (-1, pg_char_to_encoding(getdatabaseencoding()))));
my $seconds = $ENV{GPUSORT_FUZZ_SECONDS} || 0;
my $until = time() + $seconds;
my ($rounds, $compared, @wrong) = (0, 0);
do
{
	my @strings = map { my $collation = pick(@collations);
		[ "text COLLATE $collation", 'rtext(6)', 0, 'text' ] } 1 .. ($seconds ? 24 : 6);
	for my $check (@checks, @plain, @strings)
	{
		my ($pairs, undef, $wrong) = run_check($check, pick('<', '>'), 60, 240);
		$compared += $pairs;
		push @wrong, $wrong if defined $wrong;
	}
	$rounds++;
} while (time() < $until && !@wrong);
ok(!@wrong, 'mutated values: keys order as the comparators') or diag join "\n", @wrong;
cmp_ok($compared, '>', 30_000 * $rounds * @plain, 'mutated values: most mutations are valid values');
note "$rounds rounds of mutated values, $compared pairs, " . @collations . ' collations to choose from';

# An enum type gets labels between two others while a sort reads its rows.  When the catalog runs out of numbers between
# two labels it renumbers all of them.
$node->safe_psql('postgres', <<'SQL');
CREATE TYPE growing AS ENUM ('b', 'z');
CREATE FUNCTION grown(i int, by text) RETURNS growing VOLATILE LANGUAGE plpgsql AS $$
BEGIN
	IF i % 100 = 0 AND i < 5000 THEN
		EXECUTE format('COPY (SELECT 1) TO PROGRAM %L', format(by, 'ALTER TYPE growing ADD VALUE ''b' || lpad((i /
			100)::text, 2, '0') || ''' BEFORE ''z'''));
	END IF;
	RETURN (enum_range(NULL::growing))[1 + (i * 7919) % cardinality(enum_range(NULL::growing))];
END $$;
SQL
my $by = sprintf(q(cat > /dev/null; psql -X -q -h '%s' -p %d -d postgres -c "%%s"), $node->host, $node->port);
$by =~ s/'/''/g;
is($node->safe_psql('postgres', qq(
	CREATE TABLE sorted AS SELECT row_number() OVER () AS n, seq, r FROM (SELECT seq, grown(seq, '$by') AS r FROM
		generate_series(1, 8000) seq ORDER BY r OFFSET 0) x;
	SELECT count(*), count(DISTINCT r), count(*) FILTER (WHERE (r, seq) < (before, before_seq))
	FROM (SELECT *, lag(r) OVER (ORDER BY n) AS before, lag(seq) OVER (ORDER BY n) AS before_seq FROM sorted) x)),
	'8000|51|0', 'enum with labels added during the sort: all rows, in order');
$node->stop;
done_testing();
