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

my $node = index_node('index_constraints', conf => "wal_level = replica\n");
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
# the build's message.  If several keys are duplicated, the order of comparisons decides which one is reported.
sub same_error
{
	my ($name, $statement, $pattern, $route) = @_;
	my %said;

	for my $on ('off', 'on')
	{
		my ($rc, $out, $err, @built) = built($node, "SET gpusort.index_builds = $on; $statement");

		isnt($rc, 0, "$name, $on: fails");
		$said{$on} = join "\n", grep { /^(?:psql.*(?:ERROR)|DETAIL|HINT|CONTEXT)/ } split /\n/, $err;
		like($said{$on}, $pattern, "$name, $on: message");
		$said{$on} =~ s/=\(.*\) is duplicated/ is duplicated/;
		# a process that sorts both rows finds them
		$said{$on} =~ s/\nCONTEXT:  parallel worker$//;
		like(join(', ', map { "$_->[0] $_->[1]" } @built), $on eq 'on' ? $route : qr/^$/,
			"$name, $on: the build's message");
	}
	is($said{on}, $said{off}, "$name: PostgreSQL's message");
	is($node->safe_psql('postgres', "SELECT count(*) FROM pg_class WHERE relname = 'v1' AND relkind = 'i'"), '0',
		"$name: nothing is left");
}
my $left = qr/^v1 equal keys$/;
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
# --- duplicates in one batch are found when it is sorted: no page is logged, and the scan ends with the first run
$node->safe_psql('postgres', <<'SQL');
CREATE TABLE late AS SELECT i AS id, i::bigint * 3 AS k, 'name ' || lpad(i::text, 6, '0') AS s
	FROM generate_series(1, 200000) i ORDER BY mix(i);
INSERT INTO late SELECT * FROM late WHERE id = 200000;
CREATE TABLE ordered AS SELECT * FROM late ORDER BY id;
CREATE TABLE dead AS SELECT * FROM ordered WHERE id <= 3000;
UPDATE dead SET k = k WHERE id % 3 = 0;
INSERT INTO dead VALUES (NULL, 1, 'x'), (NULL, 1, 'x'), (3001, NULL, 'y'), (3002, NULL, 'y');
CREATE SEQUENCE scanned;
CREATE FUNCTION scanned(bigint) RETURNS bigint IMMUTABLE LANGUAGE plpgsql AS
	$$ BEGIN PERFORM nextval('public.scanned'); RETURN $1; END $$;
SQL
for my $table ('late', 'ordered')
{
	for my $keys ('id', 's', 'k, id', 's COLLATE "C", id', 'k) INCLUDE (s', "(s || '')")
	{
		my $lsn = $node->safe_psql('postgres', 'SELECT pg_current_wal_insert_lsn()');

		same_error("the last key, $table ($keys)", "CREATE UNIQUE INDEX v1 ON $table ($keys)", qr/ is duplicated/,
			$left);
		cmp_ok($node->safe_psql('postgres', "SELECT pg_current_wal_insert_lsn() - '$lsn'"), '<', 2000000,
			"the last key, $table ($keys): no page is logged");
	}
}
$node->safe_psql('postgres', 'INSERT INTO dead SELECT * FROM dead WHERE id = 7');
for my $run ('', 'SET gpusort.run_rows = 1000;')
{
	for my $keys ('id', 'k', 's, id', 'id, k, s')
	{
		same_error("dead rows, $run ($keys)", "$run CREATE UNIQUE INDEX v1 ON dead ($keys)", qr/ is duplicated/, $left);
	}
}
$node->safe_psql('postgres', 'DELETE FROM dead WHERE id = 7');
my $holder = new_session($node);
$holder->query('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM dead');
$node->safe_psql('postgres', 'UPDATE dead SET k = k WHERE id % 5 = 0; DELETE FROM dead WHERE id % 50 = 0; '
	. "INSERT INTO dead SELECT i, i * 3, 'name' || i FROM generate_series(50, 3000, 50) i");
check_pairs($node, 'unique beside dead rows', '', [ map { "CREATE UNIQUE INDEX NAME ON dead ($_)" }
		'id', 'id, k', 's, id, k', 'id, (k + 1)' ]);
$holder->quit;
$node->safe_psql('postgres', 'CREATE TABLE first AS (SELECT * FROM late LIMIT 1) UNION ALL (SELECT * FROM late LIMIT '
	. '50000)');
same_error('the first rows', 'SET gpusort.run_rows = 1000; CREATE UNIQUE INDEX v1 ON first (scanned(k))',
	qr/ is duplicated/, $left);
$node->safe_psql('postgres', 'ALTER SEQUENCE scanned RESTART');
(undef, undef, my $err) = built($node, 'SET gpusort.run_rows = 1000; CREATE UNIQUE INDEX v1 ON first (scanned(k))');
like($err, qr/ is duplicated/, 'the first rows: error');
cmp_ok($node->safe_psql('postgres', 'SELECT last_value FROM scanned'), '<', 5000, 'the first rows: the scan ends');

# --- equal values with other bytes, of types whose operator class claims that there are none
create_lie($node);
$node->safe_psql('postgres', <<'SQL');
CREATE TABLE lies (id int, v lie, b bpchar);
INSERT INTO lies SELECT i, ('k' || i)::lie, 'k' || i FROM generate_series(1, 3000) i;
INSERT INTO lies VALUES (3001, 'x7', 'x7'), (3002, 'x7 ', 'x7 ');
CREATE TABLE fewer_lies AS SELECT * FROM lies WHERE id < 3002;
SQL
for my $column ('v', 'b')
{
	same_error("lies, $column, $_->[0]", $_->[1] =~ s/COLUMN/$column/r, qr/\(x7 ?(?:, 0)?\) is duplicated/, $left) for (
		[ 'unique', 'CREATE UNIQUE INDEX v1 ON lies (COLUMN)' ],
		[ 'two columns', 'CREATE UNIQUE INDEX v1 ON lies (COLUMN, (id / 10000))' ],
		[ 'constraint', 'ALTER TABLE lies ADD CONSTRAINT v1 UNIQUE (COLUMN)' ],
		[ 'runs', "SET gpusort.run_rows = 700; CREATE UNIQUE INDEX v1 ON lies (COLUMN)" ],
		[ 'workers', 'SET max_parallel_maintenance_workers = 2; SET min_parallel_table_scan_size = 0; '
			. 'CREATE UNIQUE INDEX v1 ON lies (COLUMN)' ]);
	my ($rc, $out, $err) = built($node, "CREATE UNIQUE INDEX CONCURRENTLY v3 ON lies ($column)");
	like($err, qr/could not create unique index "v3"/, "lies, $column, concurrently: message");
	$node->safe_psql('postgres', 'DROP INDEX v3');
	# the planner's nodes that drop duplicates, divide groups and rank
	my $ours = "SET gpusort.min_rows = 0; SET enable_hashagg = off;";
	for my $query (
		"SELECT count(*) FROM (SELECT DISTINCT $column FROM lies) x",
		"SELECT count(*) FROM (SELECT $column, count(*) FROM lies GROUP BY $column) x",
		"SELECT count(*) FROM (SELECT DISTINCT ON ($column) id FROM lies ORDER BY $column, id) x",
		"SELECT max(r) FROM (SELECT dense_rank() OVER (ORDER BY $column) r FROM lies) x")
	{
		like($node->safe_psql('postgres', "$ours EXPLAIN $query"), qr/GpuSort/, "lies: $query: plan");
		is($node->safe_psql('postgres', "$ours $query"), '3001', "lies: $query");
	}
}
check_pairs($node, 'unique lies', '', [ map { "CREATE UNIQUE INDEX NAME ON fewer_lies ($_)" } 'v', 'b', 'v, id' ]);

# --- a failed concurrent build keeps its file, but no space behind the file's end
$node->safe_psql('postgres', <<'SQL');
CREATE TABLE space AS SELECT i AS id, md5(i::text) AS s FROM generate_series(1, 200000) i;
INSERT INTO space SELECT 0, 'z' || string_agg(md5(i::text), '') FROM generate_series(1, 150) i;
SQL
{
	my ($rc, $out, $err) = built($node, 'CREATE INDEX CONCURRENTLY v4 ON space (s COLLATE "C")');
	my $path = $node->data_dir . '/' . $node->safe_psql('postgres', "SELECT pg_relation_filepath('v4')");
	my @stat = stat $path;

	like($err, qr/index row size \d+ exceeds/, 'a key that is too long, concurrently');
	cmp_ok($stat[7], '>', 8 * 1024 * 1024, 'pages had been written');
	cmp_ok($stat[12] * 512, '<=', $stat[7] + 64 * 1024, 'the file has no space behind its end');
	$node->safe_psql('postgres', 'DROP INDEX v4');
}

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
