# tie_passes.pl: multikey passes over strings with long common prefixes.
#
# Thirteen kinds of strings, in several types and orders, come in the stock Sort's order.  The work of the passes over n
# rows is bounded: the passes of all rows sum up to at most 5 n log2(n), and the bytes they read to twice the bytes of
# the strings.  A debug message reports both numbers.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GpuSortTest;
use Test::More;

my $seed = seed_random();

my $node = new_node('tie_passes', conf => "work_mem = 1GB\n");
my $tables = <<'SQL';
SELECT setseed(SEED);
CREATE FUNCTION any_of(n int) RETURNS int VOLATILE LANGUAGE sql AS $$ SELECT floor(random() * n)::int $$;
CREATE FUNCTION fibonacci(n int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	a text := 'a';
	b text := 'ab';
BEGIN
	WHILE length(b) < n LOOP
		SELECT b || a, b INTO b, a;
	END LOOP;
	RETURN b;
END $$;
CREATE TABLE strings (kind text, i int, b bytea, t text COLLATE "C", c char(500) COLLATE "C", n name);
ALTER TABLE strings ALTER b SET STORAGE PLAIN;
ALTER TABLE strings ALTER t SET STORAGE PLAIN;
ALTER TABLE strings ALTER c SET STORAGE PLAIN;
INSERT INTO strings (kind, i, b)
-- prefixes of one string; prefixes of one string in each group; prefixes with different ends
SELECT 'prefixes', i, repeat('a', any_of(2000))::bytea FROM generate_series(1, 6000) i
UNION ALL SELECT 'groups', i, format('g%s', any_of(100))::bytea || repeat('x', any_of(2000))::bytea
	FROM generate_series(1, 4000) i
UNION ALL SELECT 'ends', i, (repeat('a', any_of(2000)) || 'b' || repeat('z', any_of(3)))::bytea
	FROM generate_series(1, 4000) i
UNION ALL SELECT 'paths', i, (repeat('/dir', any_of(300)) || '/f' || any_of(50))::bytea FROM generate_series(1, 4000) i
UNION ALL SELECT 'zeros', i, decode(repeat('00', any_of(600)) || repeat('01', any_of(2)) || repeat('00', any_of(600)),
	'hex') FROM generate_series(1, 4000) i
-- substrings of periodic, of self-similar and of random strings of two letters
UNION ALL SELECT 'periodic', i, substr(s, any_of(1000) + 1, any_of(1000))
	FROM (SELECT repeat('abcde', 400)::bytea AS s) x, generate_series(1, 4000) i
UNION ALL SELECT 'fibonacci', i, substr(s, any_of(1000) + 1, any_of(1000))
	FROM (SELECT fibonacci(2000)::bytea AS s) x, generate_series(1, 4000) i
UNION ALL SELECT 'random', i, substr(s, any_of(2000) + 1, 1000)
	FROM (SELECT string_agg((ARRAY['a', 'b'])[1 + any_of(2)], '')::bytea AS s FROM generate_series(1, 3000)) x,
		generate_series(1, 4000) i
-- a tree: two choices of twelve letters, eleven times
UNION ALL SELECT 'tree', i, (SELECT string_agg(CASE WHEN any_of(2) = 0 THEN 'oneoneoneone' ELSE 'twotwotwotwo' END,
	'')::bytea FROM generate_series(1, 11 + i * 0)) FROM generate_series(1, 4000) i
-- long strings: groups of equal strings that differ at their ends, one string, NULLs, toasted
UNION ALL SELECT 'equal', i, (repeat('long', 450) || i % 700)::bytea FROM generate_series(1, 4000) i
UNION ALL SELECT 'same', i, repeat('same', 450)::bytea FROM generate_series(1, 2000) i
UNION ALL SELECT 'NULLs', i, CASE WHEN any_of(4) > 0 THEN repeat('n', any_of(900))::bytea END
	FROM generate_series(1, 2000) i
UNION ALL SELECT 'toasted', i, repeat('n', 600 + any_of(900))::bytea FROM generate_series(1, 2000) i;
UPDATE strings SET t = encode(b, 'escape'), c = left(encode(b, 'escape'), 500), n = left(encode(b, 'escape'), 63)
WHERE kind <> 'zeros';
ALTER TABLE strings ALTER b SET STORAGE EXTENDED;
INSERT INTO strings SELECT 'toasted', 2000 + i, repeat('n', 9000 + i)::bytea FROM generate_series(1, 3) i;
VACUUM ANALYZE strings;
CREATE FUNCTION sorted(k text, keys text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
BEGIN
	EXECUTE format('SELECT md5(string_agg(i::text, %L)) FROM (SELECT i FROM (SELECT * FROM strings WHERE kind = %L '
		'ORDER BY i OFFSET 0) x ORDER BY %s OFFSET 0) x', ',', k, keys) INTO result;
	RETURN result;
END $$;
SQL
$tables =~ s/SEED/rand/e;
$node->safe_psql('postgres', $tables);

my @kinds = split /\n/, $node->safe_psql('postgres', 'SELECT DISTINCT kind FROM strings');
is(scalar @kinds, 13, 'the table has all kinds of strings');
for my $kind (@kinds)
{
	for my $keys ('t', 't DESC', 'b', 'b DESC NULLS LAST', 'c', 'n DESC', 'length(b) % 7, t DESC',
		't, length(b) % 3, b', 'n, b DESC')
	{
		# equal keys keep the order of i
		is($node->safe_psql('postgres', "SELECT sorted('$kind', '$keys')"),
			$node->safe_psql('postgres', "SET gpusort.enable = off; SELECT sorted('$kind', '$keys, i')"),
			"$kind by $keys: rows in the stock Sort's order")
		  or diag "seed $seed";
	}
}

# The work of the passes, which the debug message reports.
for my $case (@kinds, 'wide')
{
	my $from = $case ne 'wide' ? "strings WHERE kind = '$case'" :
	  "(SELECT repeat('a', any_of(50000)) COLLATE \"C\" AS b FROM generate_series(1, 4000) OFFSET 0) x";
	next if $case eq 'toasted';
	my ($rc, $out, $err) = $node->psql('postgres', "SET client_min_messages = debug1; SELECT sum(length(b)) FROM "
		. "(SELECT b FROM $from ORDER BY b OFFSET 0) x");
	my ($n, $rows, $bytes) = (0, 0, 0);
	while ($err =~ /(\d+) tied rows took part in passes (\d+) times, (\d+) bytes/g)
	{
		($n, $rows, $bytes) = ($n + $1, $rows + $2, $bytes + $3);
	}
	# kinds whose groups of ties may all be too small for passes
	cmp_ok($rows, '>', 0, "$case: passes resolve ties")
	  if $case !~ /same|groups|periodic|fibonacci|random|tree|NULLs/;
	is($rows, 0, 'rows of the same bytes take part in no pass') if $case eq 'same';
	next if $rows == 0;
	cmp_ok($rows, '<=', 5 * $n * log($n) / log(2), "$case: $n rows take part in passes $rows times");
	cmp_ok($bytes, '<=', 2 * $out, "$case: passes read $bytes bytes of $out");
}
$node->stop;
done_testing();
