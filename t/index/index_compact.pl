# index_compact.pl: the compact route, in which index tuples are decoded from normalized keys.
#
# Each index is built with every form of the records that are sorted, in memory and from runs, and compared with
# PostgreSQL's index page by page.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GpuSortTest;
use IndexBuilds;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = index_node('index_compact', conf => "gpusort.verify = on\n");
my $random = "('x' || md5(i::text))::bit(64)::bigint";
my $compact = qr/^compact$/;

# n rows; a column of each type, half of them with NULLs and duplicates
sub table
{
	my ($n, $after) = @_;

	return <<SQL . ($after // '');
DROP TABLE IF EXISTS c;
CREATE TABLE c AS SELECT $random AS i8, i::bigint AS ascending, -i::bigint AS descending, 7::bigint AS same,
	($random % 1000)::int2 AS i2, CASE WHEN i % 3 > 0 THEN ($random % 100000)::int END AS i4, NULL::int4 AS nothing,
	'2000-01-01'::date + ($random % 10000)::int AS d, CASE WHEN i % 50 > 0 THEN i % 7 = 0 END AS b,
	($random % 128)::int::"char" AS ch, (i * 7919 % 4294967296)::oid AS o, i % 100 AS c100,
	'2000-01-01Z'::timestamptz + $random % 1000000000000 * interval '1 us' AS ts, ($random % 1000000)::money AS m,
	'0/0'::pg_lsn + i * 7919 AS lsn, repeat('x', (i % 40)::int) AS pad
FROM generate_series(1::bigint, $n) i;
SQL
}

my @definitions = map { "CREATE INDEX NAME ON c ($_)" } (
	qw(i8 ascending descending same i2 i4 nothing d b ch o c100 ts m lsn),
	'i8 DESC', 'i4 DESC', 'i4 NULLS FIRST', 'ts DESC NULLS LAST',
	'i4, i8', 'i8, i4', 'b, ch, i2', 'i4, b, ch', 'i2, d DESC, b', 'nothing, i8', 'same, i4', '(abs(i8))',
	'i8) WITH (fillfactor = 50', 'c100) WITH (deduplicate_items = off', 'i8) WHERE (c100 < 50');
push @definitions, 'CREATE UNIQUE INDEX NAME ON c (i8)', 'CREATE UNIQUE INDEX NAME ON c (nothing)',
  'CREATE UNIQUE INDEX NAME ON c (i4, ascending)', 'CREATE INDEX NAME ON c (i2) WHERE i2 IS NULL';
check_pairs($node, 'in memory', table(20_000), \@definitions, $compact);
check_pairs($node, 'one row', table(1), \@definitions, $compact);
check_pairs($node, 'from runs', table(20_000, 'SET gpusort.run_rows = 3000'), \@definitions, $compact);
check_pairs($node, 'HOT chains and dead rows',
	table(5_000, 'UPDATE c SET pad = pad WHERE ascending % 5 = 0; UPDATE c SET pad = pad WHERE ascending % 10 = 0; '
		  . 'DELETE FROM c WHERE ascending % 7 = 0; VACUUM c; '
		  . 'INSERT INTO c SELECT i8 + 1, ascending + 10000, descending, same, i2, i4, nothing, d, b, ch, o, c100, ts, '
		  . 'm, lsn, pad FROM c WHERE ascending % 9 = 0'),
	\@definitions, $compact);
# NULLs and values of every column
check_pairs($node, 'ends of the types', <<'SQL', [ map { "CREATE INDEX NAME ON c ($_)" } qw(i8 i4 ts d), 'i4, i8' ],
DROP TABLE IF EXISTS c;
CREATE TABLE c AS SELECT * FROM (VALUES (9223372036854775807, 2147483647, 'infinity'::timestamptz, 'infinity'::date),
	(-9223372036854775808, -2147483648, '-infinity', '-infinity'), (NULL, NULL, NULL, NULL), (0, 0, 'now', 'now'),
	(-1, -1, '4713-01-01 BC', '4713-01-01 BC')) v (i8, i4, ts, d), generate_series(1, 50)
SQL
	$compact);

# An index with a column that cannot be decoded from a key is built from rows.
check_pairs($node, 'other columns', table(500), [ map { "CREATE INDEX NAME ON c ($_)" } 'i8) INCLUDE (i4', 'pad',
	'i8, pad', '(i8::float8)', 'i8, ascending', 'b, i4, i8' ], qr/^tuples$/);

# An index stores a name as cstring.
my @names = map { "CREATE INDEX NAME ON n ($_)" } ('k', 'k DESC, i', 'i, k', 'same',
	'same) WITH (deduplicate_items = off', 'i) INCLUDE (k', 'k COLLATE "POSIX" NULLS FIRST');
for my $runs (0, 1000)
{
	check_pairs($node, "names, runs of $runs rows", <<SQL, \@names, qr/^tuples$/);
DROP TABLE IF EXISTS n;
CREATE TABLE n AS SELECT i, CASE WHEN i % 11 > 0 THEN repeat('n', i % 5 * 15) || i * 7919 % 700 END::name AS k,
	CASE i % 3 WHEN 0 THEN '' WHEN 1 THEN repeat('long', 30) ELSE 'a' END::name AS same FROM generate_series(1, 5000) i;
SET gpusort.run_rows = $runs
SQL
}

sub drop_indexes
{
	my ($table) = @_;

	$node->safe_psql('postgres', 'DROP INDEX ' . $node->safe_psql('postgres',
		"SELECT string_agg(indexrelid::regclass::text, ', ') FROM pg_index WHERE indrelid = '$table'::regclass"));
}

# Uniqueness counts live rows only, also if dead rows have the same key.
my $dead = $node->background_psql('postgres');
$node->safe_psql('postgres', 'CREATE TABLE u AS SELECT i::bigint AS k FROM generate_series(1, 1000) i');
$dead->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
$node->safe_psql('postgres',
	'DELETE FROM u WHERE k % 2 = 0; INSERT INTO u SELECT 2 * i FROM generate_series(1, 500) i');
for my $runs (0, 300)
{
	check_pairs($node, "recently dead rows, runs of $runs rows", "SET gpusort.run_rows = $runs",
		[ 'CREATE UNIQUE INDEX NAME ON u (k)' ], $compact);
	is($node->safe_psql('postgres', "SELECT count(*) FROM u"), 1000, 'the rows are still there');
	drop_indexes('u');
	$node->safe_psql('postgres', 'INSERT INTO u VALUES (1), (2)');
	my ($rc, $out, $err) = built($node, "SET gpusort.run_rows = $runs; CREATE UNIQUE INDEX two ON u (k)");
	like($err, qr/could not create unique index "two".*Key \(k\)=\([12]\) is duplicated/s, 'two live rows');
	$node->safe_psql('postgres', 'DELETE FROM u WHERE ctid IN (SELECT max(ctid) FROM u WHERE k IN (1, 2) GROUP BY k)');
}
$dead->query_safe('COMMIT');
$dead->quit;

$node->stop;
unlike(slurp_file($node->logfile), qr/WARNING|TRAP|PANIC|terminated by signal/, 'the log has no warning or crash');
done_testing();
