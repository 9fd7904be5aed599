# index_cluster.pl: tables that gpusort sorts for CLUSTER.
#
# The rows of the new table are in the order of the index, and the same rows as PostgreSQL's, for every kind of key and
# of tuple: dead rows, rows that old snapshots see, toasted, missing and dropped columns.  Progress, spills, cancels.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GpuSortTest;
use IndexBuilds;
use PostgreSQL::Test::Utils;
use Test::More;

seed_random();

my $node = index_node('index_cluster');
# PostgreSQL's choice is then a sort, also where keys need a comparator
my $sorts = 'SET random_page_cost = 10000';

# Makes tables "ours" and "stock" by the same statements, in which T is the table's name; lets gpusort and PostgreSQL
# cluster them by the index that the statements end with.  Returns the messages of both.
sub cluster_both
{
	my ($make, $set) = @_;
	my %messages;

	for my $who ('ours', 'stock')
	{
		my $builds = $who eq 'ours' ? 'on' : 'off';
		my ($rc, $out, $err) = $node->psql('postgres', "DROP TABLE IF EXISTS $who;\n" . ($make =~ s/\bT(?=\b|_)/$who/gr)
			. ";\nSET client_min_messages = debug1; $sorts; " . ($set // '') . '; '
			. "SET gpusort.index_builds = $builds;\nCLUSTER (VERBOSE) $who USING ${who}_key", on_error_stop => 1);

		is($rc, 0, "cluster $who") or diag $err;
		$messages{$who} = $err;
	}
	like($messages{ours}, qr/gpusort sorted table "ours"/, 'gpusort sorted');
	unlike($messages{stock}, qr/gpusort sorted/, 'PostgreSQL sorted');
	# PostgreSQL 19 calls it repacking
	like($messages{$_}, qr/(?:cluster|repack)ing "public.$_" using sequential scan and sort/, "$_: a sort")
	  for keys %messages;
	my %found = map { $_ => $messages{$_} =~ /found (.*) in \d+ pages\n.*?(\d+ dead row versions)/ ? "$1, $2" : '' }
	  keys %messages;
	like($found{ours}, qr/removable/, 'CLUSTER tells how many dead rows it found');
	is($found{ours}, $found{stock}, 'as many dead rows as PostgreSQL');
	return \%messages;
}

# Tests that both tables have the same rows, keys in the same order, and equal keys in the order of the column id;
# %opt: key (the index's keys), unordered (equal keys may have any order).
sub same_tables
{
	my ($name, %opt) = @_;
	my $sql = '';

	for my $t ('ours', 'stock')
	{
		$sql .= "SELECT count(*), md5(string_agg(x, ';' ORDER BY n)) FROM (SELECT row_number() OVER (ORDER BY ctid) "
		  . "AS n, (ROW($opt{key}))::text AS x FROM $t) s;\n"
		  . "SELECT md5(string_agg(t::text, ';' ORDER BY t::text COLLATE \"C\")) FROM $t t;\n";
	}
	my @lines = split /\n/, $node->safe_psql('postgres', $sql);
	is($lines[0], $lines[2], "$name: keys in the same order");
	is($lines[1], $lines[3], "$name: the same rows");
	is($node->safe_psql('postgres', "SELECT count(*) FROM (SELECT row_number() OVER (ORDER BY ctid) AS n, "
		. "row_number() OVER (ORDER BY $opt{key}, id) AS m FROM ours) s WHERE n <> m"), '0',
		"$name: equal keys in the order of their rows") unless $opt{unordered};
	is($node->safe_psql('postgres', "SELECT (SELECT count(*) FROM verify_heapam('ours', check_toast := true)), "
		. "(SELECT count(*) FROM pg_class a, pg_class b WHERE a.oid = 'ours'::regclass AND b.oid = 'stock'::regclass "
		. 'AND a.reltuples <> b.reltuples), '
		. "check_indexes('ours') > 0"), '0|0|t', "$name: amcheck, number of rows");
}

my $rows = <<'SQL';
CREATE TABLE T (id int, k bigint, few int, s text, n numeric, u uuid, at timestamptz, f float8, nm name, v int[],
	wide text) WITH (fillfactor = 80);
INSERT INTO T SELECT i, mix(i), CASE WHEN i % 11 > 0 THEN mix(i) % 17 END, 'customer ' || mix(i) % 3000,
	(mix(i) % 100000) / 100.0, md5((mix(i) % 2000)::text)::uuid,
	'2020-01-01Z'::timestamptz + mix(i) % 1000 * '1 s'::interval,
	(ARRAY['NaN', '0', '-0', mix(i)::text])[1 + i % 4]::float8, 'n' || i % 300, ARRAY[i % 5, NULL, i % 7],
	CASE WHEN i % 500 = 0 THEN repeat('wide', 900) || i % 3 ELSE 'w' || i % 100 END
FROM generate_series(1, 5000) i;
UPDATE T SET at = at WHERE id % 9 = 0;
UPDATE T SET at = at, s = s || '!' WHERE id % 27 = 0;
DELETE FROM T WHERE id % 31 = 0;
BEGIN;
INSERT INTO T SELECT * FROM T WHERE id % 5 = 0;
ROLLBACK;
CREATE INDEX T_other ON T (id);
SQL

# --- every kind of key, in memory and in runs
for my $set ('', 'SET gpusort.run_rows = 700')
{
	for my $key ('k', 'few', 'few DESC, k', 'few NULLS FIRST, s COLLATE "C" DESC', 's', 'n', 'u', 'at', 'f', 'nm', 'v',
		'wide COLLATE "C"', 'wide, n, few DESC, k')
	{
		# updated rows lie behind all other rows, so that the order of equal rows is not that of their ids
		cluster_both("$rows CREATE INDEX T_key ON T ($key)", $set);
		same_tables("$key; $set",
			# 0 and -0 are equal
			key => $key eq 'f' ? 'f + 0' : join(', ', map { s/ (?:DESC|NULLS.*|COLLATE .*)//gr } split /, /, $key),
			unordered => 1);
		last if $ENV{GPUSORT_QUICK} && $key eq 's';
	}
}
cluster_both('CREATE TABLE T AS SELECT i AS id, i % 10 AS k, mix(i) AS m FROM generate_series(1, 20000) i; '
	. 'CREATE INDEX T_key ON T (k)');
same_tables('equal keys', key => 'k');
cluster_both('CREATE TABLE T AS SELECT i AS id, i % 10 AS k, mix(i) AS m FROM generate_series(1, 20000) i; '
	. 'CREATE INDEX T_key ON T (k)', 'SET gpusort.run_rows = 3000');
same_tables('equal keys in runs', key => 'k');

# --- tuples that must be formed anew: missing and dropped columns; long values in the table's TOAST table
cluster_both('CREATE TABLE T AS SELECT i AS id, mix(i) AS k, i AS gone, 9 AS c FROM generate_series(1, 3000) i; '
	. 'ALTER TABLE T ADD late int DEFAULT 7; ALTER TABLE T ADD later text DEFAULT \'x\'; ALTER TABLE T DROP gone; '
	. 'UPDATE T SET late = 8 WHERE id % 3 = 0; CREATE UNIQUE INDEX T_key ON T (late, k, later)');
same_tables('missing and dropped columns', key => 'late, k, later');
cluster_both('CREATE TABLE T (id int, s text, e text); ALTER TABLE T ALTER e SET STORAGE EXTERNAL; INSERT INTO T '
	. 'SELECT i, md5(i::text), repeat(md5((i % 40)::text), 100) FROM generate_series(1, 400) i; '
	. 'UPDATE T SET s = s || 1 WHERE id % 3 = 0; DELETE FROM T WHERE id % 7 = 0; '
	. 'CREATE INDEX T_key ON T (s)');
same_tables('TOAST', key => 's');

# --- rows that only an old snapshot sees, with their chains; rows of the own transaction
my $old = new_session($node);
sub old_rows
{
	my ($name, $change, $key) = @_;

	for my $who ('stock', 'ours')
	{
		$node->safe_psql('postgres', "DROP TABLE IF EXISTS $who; CREATE TABLE $who AS SELECT i AS id, mix(i) % 500 AS "
			. "k, 'n' || i % 77 AS s FROM generate_series(1, 4000) i; CREATE INDEX ${who}_key ON $who ($key)");
	}
	$old->query('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
	my $before = $node->safe_psql('postgres', 'SELECT md5(string_agg(t::text, \';\' ORDER BY id)) FROM ours t');
	my %found;
	for my $who ('stock', 'ours')
	{
		my $builds = $who eq 'ours' ? 'on' : 'off';
		my ($rc, $out, $err) = $node->psql('postgres', ($change =~ s/\bT(?=\b|_)/$who/gr) . ";\n$sorts; "
			. "SET client_min_messages = debug1; SET gpusort.index_builds = $builds;\n"
			. "CLUSTER (VERBOSE) $who USING ${who}_key", on_error_stop => 1);
		is($rc, 0, "$name: $who") or diag $err;
		like($err, qr/gpusort sorted table "ours"/, "$name: gpusort sorted") if $who eq 'ours';
		$found{$who} = $err =~ /found (.*) in \d+ pages\n.*?(\d+ dead row versions)/ ? "$1, $2" : '';
	}
	like($found{ours}, qr/nonremovable.*[1-9]\d* dead/, "$name: CLUSTER keeps dead rows");
	is($found{ours}, $found{stock}, "$name: as many as PostgreSQL");
	is($old->query("SELECT md5(string_agg(t::text, ';' ORDER BY id)) FROM ours t; COMMIT"), $before,
		"$name: the old snapshot sees its rows");
	same_tables($name, key => $key, unordered => 1);
}
my $change = 'UPDATE T SET k = k + 1000 WHERE id % 3 = 0; DELETE FROM T WHERE id % 10 = 0; '
  . 'UPDATE T SET k = k + 1000 WHERE id % 6 = 0; UPDATE T SET s = s || 2 WHERE id % 12 = 0; BEGIN; DELETE FROM T; '
  . 'ROLLBACK; INSERT INTO T SELECT -id, k, s FROM T WHERE id % 4 = 0';
old_rows('an old snapshot', $change, 'k, s');
# rows that several transactions have locked
my $locker = new_session($node);
$locker->query("$sorts; CREATE TABLE ours_l AS SELECT i AS id, mix(i) AS k FROM generate_series(1, 500) i; "
	. 'CREATE INDEX ON ours_l (k)');
$locker->query('BEGIN; SELECT count(*) FROM (SELECT FROM ours_l WHERE id % 2 = 0 FOR KEY SHARE) x');
$node->safe_psql('postgres', 'BEGIN; SELECT count(*) FROM (SELECT FROM ours_l WHERE id % 4 = 0 FOR KEY SHARE) x; '
	. 'UPDATE ours_l SET id = -id WHERE id % 8 = 0; COMMIT');
$locker->query('COMMIT; CLUSTER ours_l USING ours_l_k_idx');
is($locker->{stderr}, '', 'locked rows: no error');
is($node->safe_psql('postgres', "SELECT count(*), sum(abs(id)), (SELECT count(*) FROM verify_heapam('ours_l')) FROM "
	. 'ours_l'), '500|125250|0', 'locked rows');
$locker->quit;
cluster_both('CREATE TABLE T AS SELECT i AS id, mix(i) % 100 AS k FROM generate_series(1, 2000) i; CREATE INDEX T_key '
	. 'ON T (k); BEGIN; DELETE FROM T WHERE id % 3 = 0; INSERT INTO T SELECT id + 10000, k FROM T WHERE id % 5 = 0; '
	. 'SAVEPOINT a; UPDATE T SET k = k + 1 WHERE id % 7 = 0; ROLLBACK TO a; UPDATE T SET k = -k WHERE id % 13 = 0');
# the transaction is rolled back, with the new table
is($node->safe_psql('postgres', 'SELECT count(*), sum(id) FROM ours'), '2000|2001000', 'own transaction: rolled back');

# --- which sorts are gpusort's

# Returns gpusort's messages about the sorts of a statement.
sub said
{
	my ($sql) = @_;
	my ($rc, $out, $err) = $node->psql('postgres', "SET client_min_messages = debug1; $sql", on_error_stop => 1);

	return "failed: $err" if $rc != 0;
	return join ', ', $err =~ /gpusort (sorted table "\w+"|left sort of table "\w+" to PostgreSQL: .*)/g;
}
$node->safe_psql('postgres', 'CREATE TABLE c AS SELECT i AS id, mix(i) AS k, int4range(i::int, NULL) AS v FROM '
	. 'generate_series(1, 9000) i; CREATE INDEX c_key ON c (k); CREATE INDEX c_range ON c (v); VACUUM ANALYZE c');
is(said('CLUSTER c USING c_key'), 'sorted table "c"', 'gpusort sorts where the rows fit memory');
is(said('CLUSTER c'), 'sorted table "c"', 'the table\'s index');
SKIP:
{
	skip 'no REPACK before 19', 2 if $node->safe_psql('postgres', 'SHOW server_version_num') < 190000;
	is(said('REPACK c USING INDEX c_key'), 'sorted table "c"', 'REPACK USING INDEX');
	is(said('REPACK c'), '', 'REPACK without an index does not sort');
}
is(said("SET maintenance_work_mem = '1MB'; SET random_page_cost = 1; CLUSTER c"), '', 'PostgreSQL scans the index');
is(said("SET cpu_operator_cost = 10; CLUSTER c USING c_range"), '',
	'keys with a comparator: PostgreSQL scans the index');
is(said("SET maintenance_work_mem = '1MB'; $sorts; CLUSTER c USING c_key"), 'sorted table "c"',
	'gpusort sorts where PostgreSQL would');
is(said("SET gpusort.index_builds = off; $sorts; CLUSTER c"), '', 'gpusort.index_builds = off');
is(said("SET gpusort.enable = off; $sorts; CLUSTER c"), '', 'gpusort.enable = off');
is(said("SET gpusort.index_builds_min_size = '10MB'; $sorts; CLUSTER c"), '', 'a table below the minimal size');
is(said("$sorts; VACUUM FULL c"), '', 'VACUUM FULL does not sort');
is(said("$sorts; CLUSTER pg_class USING pg_class_oid_index"), '', 'catalogs');
is(said('BEGIN; CREATE TEMP TABLE d AS SELECT * FROM c; CREATE INDEX d_key ON d (k); CLUSTER d USING d_key; COMMIT'),
	'sorted table "d"', 'a temporary table');
$node->safe_psql('postgres', <<'SQL');
CREATE FUNCTION backward_cmp(a int4, b int4) RETURNS int4 IMMUTABLE STRICT LANGUAGE sql AS 'SELECT btint4cmp(b, a)';
CREATE OPERATOR CLASS backward_ops FOR TYPE int4 USING btree AS
	OPERATOR 1 >, OPERATOR 2 >=, OPERATOR 3 =, OPERATOR 4 <=, OPERATOR 5 <, FUNCTION 1 backward_cmp(int4, int4);
CREATE INDEX c_backward ON c (id backward_ops);
SELECT gpusort_stat_reset();
SQL
is(said("$sorts; CLUSTER c USING c_backward"),
	'left sort of table "c" to PostgreSQL: the ordering operator of an operator class is not its own',
	'an operator class that the sort does not know');
is($node->safe_psql('postgres', 'SELECT bool_and(id < p) FROM (SELECT id, lag(id) OVER (ORDER BY ctid) p FROM c) s'),
	't', 'PostgreSQL sorted');
$node->safe_psql('postgres', 'CREATE INDEX c_expression ON c ((-k))');
is(said('CLUSTER c USING c_expression'), '', 'an expression: PostgreSQL scans the index');
is(said("$sorts; CLUSTER c USING c_expression"), 'left sort of table "c" to PostgreSQL: the index has an expression',
	'an expression: PostgreSQL sorts');
is($node->safe_psql('postgres', 'SELECT bool_and(k <= p) FROM (SELECT k, lag(k) OVER (ORDER BY ctid) p FROM c) s'),
	't', 'PostgreSQL sorted by it');
# a base type whose values are C strings, in a column before the key
$node->safe_psql('postgres', <<'SQL');
CREATE TYPE cs;
CREATE FUNCTION cs_in(cstring) RETURNS cs LANGUAGE internal IMMUTABLE STRICT AS 'cstring_in';
CREATE FUNCTION cs_out(cs) RETURNS cstring LANGUAGE internal IMMUTABLE STRICT AS 'cstring_out';
CREATE TYPE cs (input = cs_in, output = cs_out, internallength = -2, alignment = char);
CREATE TABLE z (a int, c cs, b int);
INSERT INTO z SELECT i, ('v' || i)::cstring::text::cs, mix(i) % 1000 FROM generate_series(1, 9000) i;
CREATE INDEX z_key ON z (b);
SQL
is(said("$sorts; CLUSTER z USING z_key"),
	'left sort of table "z" to PostgreSQL: the table has a column of strings that end with a zero byte', 'C strings');
is($node->safe_psql('postgres', "SELECT count(*), bool_and(c::text = 'v' || a) FROM z"), '9000|t', 'their values');
$node->safe_psql('postgres', 'DROP INDEX c_expression; CLUSTER c USING c_key');
is($node->safe_psql('postgres', "SELECT builds, rows, pages > 0, spills, seconds > 0 FROM gpusort_index_builds WHERE "
	. "route = 'cluster'"), '1|9000|t|0|t', 'the view counts the sort');

# --- progress in each phase, as PostgreSQL reports it
make_phase_gate($node);
gate_make($node);
$node->safe_psql('postgres', <<'SQL');
CREATE TABLE p AS SELECT i::int AS id, (mix(i) % 100000)::int AS k FROM generate_series(1, 1500) i;
CREATE INDEX p_key ON p (k gated_ops);
SQL
my $session = new_session($node);
my $pid = $session->query("$sorts; SET client_min_messages = debug1; SELECT pg_backend_pid()");
my %phases = (
	'seq scanning heap' => [ 'SET gpusort.run_rows = 400', 'sort' ],
	'sorting tuples' => [ '', 'sort' ],
	'writing new heap' => [ 'SET gpusort.run_rows = 400', 'emit' ]);
for my $phase (sort keys %phases)
{
	my ($set, $sort_phase) = @{ $phases{$phase} };

	for my $then ('end', 'cancel')
	{
		my $name = "$phase, $then";

		$node->safe_psql('postgres', "TRUNCATE phase_gate; INSERT INTO phase_gate VALUES ('$phase', 1)");
		$session->query("RESET gpusort.run_rows; $set");
		$session->{stderr} = '';
		my $facts = $node->safe_psql('postgres',
			"SELECT 'p'::regclass::oid, pg_relation_size('p') / current_setting('block_size')::int");
		gate_shut();
		begin_query($session, "CLUSTER p USING p_key");
		gate_reached($node, $name);
		my $scanned = $phase =~ /scan/ ? 'heap_blks_scanned < heap_blks_total AND heap_tuples_scanned < 700 AND '
		  . 'heap_tuples_written = 0' : 'heap_blks_scanned = heap_blks_total AND heap_tuples_scanned = 1500 AND '
		  . 'heap_tuples_written < 1500';
		is($node->safe_psql('postgres', "SELECT phase, command, relid, heap_blks_total, $scanned FROM "
			. "pg_stat_progress_cluster WHERE pid = $pid"), "$phase|CLUSTER|$facts|t", "$name: progress");
		is($node->safe_psql('postgres', "SELECT phase, node IS NULL FROM gpusort_progress WHERE pid = $pid"),
			"$sort_phase|t", "$name: gpusort_progress");
		if ($then eq 'cancel')
		{
			$node->safe_psql('postgres', "SELECT pg_cancel_backend($pid)");
			$session->query('SELECT 1');
			like($session->{stderr}, qr/canceling statement due to user request/, "$name: cancelled");
			gate_open();
			session_ok($session, $name);
		}
		else
		{
			gate_open();
			$session->query('SELECT 1');
			like($session->{stderr}, qr/gpusort sorted table "p"/, "$name: sorted");
		}
		is($node->safe_psql('postgres', 'SELECT count(*), sum(id) FROM p'), '1500|1125750', "$name: the rows");
		is(scalar(temp_files($node)), 0, "$name: no file is left");
	}
}
$node->safe_psql('postgres', 'TRUNCATE phase_gate');

# --- timeouts at any moment: the rows are there, in the old order or in the new one
$session->query('RESET ALL');
for my $ms (map { 1 + 5 * $_ } 0 .. ($ENV{GPUSORT_QUICK} ? 4 : 15))
{
	$session->query("SET maintenance_work_mem = '" . pick('1MB', '64MB') . "'; $sorts; SET statement_timeout = $ms");
	$session->query('CLUSTER c USING ' . pick('c_key', 'c_range'));
	no_timeout($session);
	my $count = $session->query('SELECT count(*), sum(id) FROM c');
	is($count, '9000|40504500', "timeout after $ms ms: the rows are there");
}
is(scalar(temp_files($node)), 0, 'timeouts: no file is left');
is($node->safe_psql('postgres', "SELECT count(*) FROM verify_heapam('c')"), '0', 'timeouts: amcheck');
session_ok($session, 'timeouts');
$session->quit;
$old->quit;
$node->stop;
unlike(slurp_file($node->logfile), qr/TRAP|PANIC|terminated by signal/, 'the log has no crash');
done_testing();
