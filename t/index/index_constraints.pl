# index_constraints.pl: unique indexes and constraints, and keys that are too long.
#
# Errors have PostgreSQL's messages, and indexes without errors have the pages of PostgreSQL's.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GpuSortTest;
use IndexBuilds;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = index_node('index_constraints');
$node->safe_psql('postgres', <<'SQL');
CREATE TABLE t AS SELECT i AS id, nullif(i % 50, 0) AS few, CASE WHEN i % 3 > 0 THEN i END AS gaps,
	(i / 7.0)::numeric AS n, md5(i::text) AS s FROM generate_series(1, 5000) i;
CREATE TABLE same (i int, n numeric, f float8, s text, b bytea, v int[]);
INSERT INTO same SELECT i, i, i, 's' || i, 'b', ARRAY[i] FROM generate_series(1, 1000) i;
INSERT INTO same VALUES (-1, 1.1, 0, 'word', '', '{}'), (-2, 1.10, '-0', 'WORD', 'c', NULL);
CREATE TABLE nulls (a int, b int);
INSERT INTO nulls SELECT i, NULL FROM generate_series(1, 100) i;
INSERT INTO nulls VALUES (1, NULL), (NULL, NULL), (NULL, NULL);
SQL
my ($icu) = $node->psql('postgres', q(CREATE COLLATION nocase (provider = icu, locale = 'und-u-ks-level1',
	deterministic = false)));

# --- unique and no violation
check_pairs($node, 'unique', '', [
	'CREATE UNIQUE INDEX NAME ON t (id)',
	'CREATE UNIQUE INDEX NAME ON t (id DESC) INCLUDE (few, s)',
	'CREATE UNIQUE INDEX NAME ON t (few, s COLLATE "C")',
	'CREATE UNIQUE INDEX NAME ON t (s DESC NULLS LAST, n)',
	'CREATE UNIQUE INDEX NAME ON t (n)',
	'CREATE UNIQUE INDEX NAME ON t (gaps)',
	'CREATE UNIQUE INDEX NAME ON t (few, gaps, id) WITH (deduplicate_items = off, fillfactor = 40)',
	'CREATE UNIQUE INDEX NAME ON t (few) WHERE id <= 49',
	'CREATE UNIQUE INDEX NAME ON t (lower(s))',
	'CREATE UNIQUE INDEX NAME ON nulls (a, b)',
	'CREATE UNIQUE INDEX NAME ON nulls (b NULLS FIRST, a)',
	'CREATE UNIQUE INDEX NAME ON same (s)']);
check_pairs($node, 'unique nulls not distinct', '', [
	'CREATE UNIQUE INDEX NAME ON t (gaps, id) NULLS NOT DISTINCT',
	'CREATE UNIQUE INDEX NAME ON nulls (a, b) NULLS NOT DISTINCT WHERE a > 1']);
check_pairs($node, 'constraints', '', [
	'ALTER TABLE t ADD CONSTRAINT NAME UNIQUE (id)',
	'ALTER TABLE t ADD CONSTRAINT NAME UNIQUE (id, few) DEFERRABLE INITIALLY DEFERRED',
	'ALTER TABLE t ADD CONSTRAINT NAME UNIQUE NULLS NOT DISTINCT (gaps, id)',
	'ALTER TABLE t ADD CONSTRAINT NAME EXCLUDE (s WITH =, id WITH =)',
	'ALTER TABLE t ADD CONSTRAINT NAME EXCLUDE USING btree (id WITH =) WHERE (few = 1)']);

# --- A statement fails with the same error with gpusort.index_builds on and off, and leaves no index.  $route matches
# the build's message.
sub same_error
{
	my ($name, $statement, $pattern, $route) = @_;
	my %said;

	for my $on ('off', 'on')
	{
		my ($rc, $out, $err, @built) = built($node, "SET gpusort.index_builds = $on; $statement");

		isnt($rc, 0, "$name, $on: fails");
		$said{$on} = join "\n", grep { /^(?:psql.*(?:ERROR)|DETAIL|HINT|CONTEXT)/ } split /\n/, $err;
		like(join(', ', map { "$_->[0] $_->[1]" } @built), $on eq 'on' ? $route : qr/^$/,
			"$name, $on: the build's message");
	}
	like($said{on}, $pattern, "$name: message");
	is($said{on}, $said{off}, "$name: PostgreSQL's message");
	is($node->safe_psql('postgres', "SELECT count(*) FROM pg_class WHERE relname = 'v1' AND relkind = 'i'"), '0',
		"$name: nothing is left");
}
my $left = qr/^v1 stock: the keys are not unique$/;
same_error(@$_, $left) for (
	[ 'int', 'CREATE UNIQUE INDEX v1 ON t (few)', qr/could not create unique index "v1"\nDETAIL:.*is duplicated/ ],
	[ 'two columns', 'CREATE UNIQUE INDEX v1 ON t (few, (id % 100))', qr/is duplicated/ ],
	[ 'expression', 'CREATE UNIQUE INDEX v1 ON t ((id / 2))', qr/is duplicated/ ],
	[ 'partial', 'CREATE UNIQUE INDEX v1 ON t (few) WHERE id BETWEEN 20 AND 70', qr/is duplicated/ ],
	[ 'primary key', 'ALTER TABLE same ADD CONSTRAINT v1 PRIMARY KEY (b)', qr/is duplicated/ ],
	[ 'deferrable', 'ALTER TABLE same ADD CONSTRAINT v1 UNIQUE (b) DEFERRABLE INITIALLY DEFERRED', qr/is duplicated/ ],
	[ 'numeric scale', 'CREATE UNIQUE INDEX v1 ON same (n) WHERE i < 0', qr/is duplicated/ ],
	[ 'zeroes', 'CREATE UNIQUE INDEX v1 ON same (f)', qr/is duplicated/ ],
	[ 'nulls', 'CREATE UNIQUE INDEX v1 ON nulls (a, b) NULLS NOT DISTINCT', qr/is duplicated/ ],
	[ 'one column of nulls', 'CREATE UNIQUE INDEX v1 ON nulls (b) NULLS NOT DISTINCT', qr/is duplicated/ ]);
same_error('nondeterministic', 'CREATE UNIQUE INDEX v1 ON same (s COLLATE nocase)', qr/is duplicated/, $left)
  if $icu == 0;
same_error('exclude', 'ALTER TABLE same ADD CONSTRAINT v1 EXCLUDE (b WITH =)',
	qr/could not create exclusion constraint "v1"/, qr/^v1 (?:compact|tuples)$/);
for my $on ('off', 'on')
{
	my ($rc, $out, $err) = built($node,
		"SET gpusort.index_builds = $on; CREATE UNIQUE INDEX CONCURRENTLY v2 ON t (few)");
	like($err, qr/could not create unique index "v2"/, "concurrently, $on: message");
	is($node->safe_psql('postgres',
			"SELECT indisvalid, indisready FROM pg_index WHERE indexrelid = 'v2'::regclass; DROP INDEX v2"),
		'f|f', "concurrently, $on: the invalid index");
}
# many pages had been written
$node->safe_psql('postgres', 'CREATE TABLE late AS SELECT i AS id FROM generate_series(1, 200000) i; INSERT INTO late '
	. 'VALUES (200000)');
same_error('the last key', 'CREATE UNIQUE INDEX v1 ON late (id)', qr/\(id\)=\(200000\) is duplicated/, $left);

# --- keys that do not fit a page
$node->safe_psql('postgres', <<'SQL');
CREATE TABLE long (id int, s text, b bytea);
ALTER TABLE long ALTER s SET STORAGE EXTERNAL;
INSERT INTO long SELECT i, (SELECT string_agg(md5((i * 100 + g)::text), '') FROM generate_series(1, i) g),
	decode(repeat('ab', i * 40), 'hex') FROM generate_series(1, 90) i;
INSERT INTO long SELECT 1000 + i, (SELECT string_agg(md5((i * 1000 + g)::text), '') FROM generate_series(1, 300) g), 'x'
FROM generate_series(1, 2) i;
SQL
same_error(@$_, qr/^v1 (?:compact|tuples)$|^$/) for (
	[ 'a third of a page', 'CREATE INDEX v1 ON long (s) WHERE id <= 100',
		qr/index row size \d+ exceeds btree version 4 max/ ],
	[ 'a third of a page, included', 'CREATE INDEX v1 ON long (id) INCLUDE (s) WHERE id <= 100',
		qr/index row size \d+ exceeds/ ],
	[ 'longer than a tuple', 'CREATE INDEX v1 ON long (s)', qr/index row (?:requires|size) \d+/ ]);
check_pairs($node, 'long keys that fit', '', [
	'CREATE INDEX NAME ON long (s) WHERE id <= 80 AND length(s) < 2600',
	'CREATE INDEX NAME ON long (s DESC, b) WHERE length(s) < 2500',
	'CREATE INDEX NAME ON long (b, s) WITH (fillfactor = 100, deduplicate_items = off) WHERE length(s) < 2000',
	'CREATE UNIQUE INDEX NAME ON long (b) WHERE id < 1000',
	'CREATE INDEX NAME ON long (left(s, 2000) COLLATE "C") INCLUDE (id)']);

$node->stop;
unlike(slurp_file($node->logfile), qr/WARNING|TRAP|PANIC|terminated by signal/, 'the log has no warning or crash');
done_testing();
