# index_visibility.pl: an index has the rows that PostgreSQL's has.
#
# Rows of the same transaction, rows that an old snapshot sees, HOT chains that are broken, and rows that other sessions
# write while an index is built CONCURRENTLY.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GpuSortTest;
use IndexBuilds;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = index_node('index_visibility');
my $make = "DROP TABLE IF EXISTS t; CREATE TABLE t (id int, k int, s text) WITH (fillfactor = 60); INSERT INTO t "
  . "SELECT i, mix(i) % 500, 'n' || i % 77 FROM generate_series(1, 4000) i";
my @definitions = (
	'CREATE INDEX NAME ON t (k)',
	'CREATE INDEX NAME ON t (s, k DESC) INCLUDE (id)',
	'CREATE INDEX NAME ON t ((k % 10)) WHERE id % 2 = 0',
	'CREATE UNIQUE INDEX NAME ON t (id)');

# --- rows of the same transaction, of a transaction that was rolled back, and of savepoints
check_pairs($node, 'own transaction', "$make; BEGIN; DELETE FROM t WHERE id % 3 = 0; "
	. 'INSERT INTO t SELECT id + 10000, k, s FROM t WHERE id % 5 = 0; SAVEPOINT a; '
	. 'UPDATE t SET k = k + 1 WHERE id % 7 = 0; DELETE FROM t WHERE id % 11 = 0; ROLLBACK TO a; '
	. ' UPDATE t SET s = s || 1 WHERE id % 13 = 0; SAVEPOINT b; UPDATE t SET k = -k WHERE id % 17 = 0; '
	. 'RELEASE b', \@definitions);
check_pairs($node, 'rolled back', "$make; BEGIN; INSERT INTO t SELECT id + 10000, k, s FROM t; "
	. 'UPDATE t SET k = 0; DELETE FROM t; ROLLBACK; UPDATE t SET k = k + 1 WHERE id % 9 = 0', \@definitions);
check_pairs($node, 'truncated in the transaction', "$make; BEGIN; TRUNCATE t; INSERT INTO t SELECT i, i, i FROM "
	. 'generate_series(1, 500) i; UPDATE t SET k = k', \@definitions);

# --- an old snapshot: rows that only this snapshot sees have entries; a broken HOT chain sets indcheckxmin
my $old = new_session($node);
$node->safe_psql('postgres', $make);
$old->query('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM t');
check_pairs($node, 'an old snapshot', 'UPDATE t SET k = k + 1000 WHERE id % 3 = 0; '
	. 'DELETE FROM t WHERE id % 10 = 0; UPDATE t SET k = k + 1000 WHERE id % 6 = 0; VACUUM t', \@definitions);
is($node->safe_psql('postgres', "SELECT string_agg(indcheckxmin::text, ' ' ORDER BY indexrelid::regclass::text) FROM "
	. "pg_index WHERE indrelid = 't'::regclass"), join(' ', ('true') x 8), 'HOT chains were broken');
is($old->query("SET enable_seqscan = off; SELECT count(*), sum(k) FROM t WHERE k < 500; COMMIT"),
	$node->safe_psql('postgres', 'SELECT count(*), sum(mix(i) % 500) FROM generate_series(1, 4000) i'),
	'the old snapshot sees its rows');
is($node->safe_psql('postgres',
		'SELECT count(*) FROM t; SET enable_seqscan = off; SELECT count(*) FROM t WHERE k >= 0'),
	"3600\n3600", 'new snapshots see the current rows');
# rows that are deleted, and that only an old snapshot sees, are no duplicates
$node->safe_psql('postgres', $make);
$old->query('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM t');
check_pairs($node, 'dead rows are not duplicates', 'UPDATE t SET id = -id WHERE id <= 100; '
	. 'INSERT INTO t SELECT i, i FROM generate_series(1, 100) i; DELETE FROM t WHERE id = 200; '
	. 'INSERT INTO t VALUES (200, 1)', ['CREATE UNIQUE INDEX NAME ON t (id)']);
$old->query('COMMIT');

# --- another session writes while the build reads the table
gate_make($node);
$node->safe_psql('postgres', <<'SQL');
CREATE FUNCTION gated(n int, at int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$
BEGIN
	RETURN public.gate(n, at)::int;
END $$;
SQL
my $builder = new_session($node);
my $writer = new_session($node);
$builder->query('SET client_min_messages = debug1');
for my $case (
	[ 'CREATE INDEX CONCURRENTLY c1 ON t (gated(id, 2500))', qr/^c1 (?:compact|tuples)$/ ],
	[ 'CREATE UNIQUE INDEX CONCURRENTLY c2 ON t (gated(id, 2500), s)', qr/^c2 (?:compact|tuples)$/ ],
	[ 'REINDEX INDEX CONCURRENTLY c1', qr/^c1_ccnew (?:compact|tuples)$/ ])
{
	my ($statement, $pattern) = @$case;
	my ($name) = $statement =~ /\b(c\d)\b/;
	$node->safe_psql('postgres', $make) if $name eq 'c1' && $statement =~ /CREATE/;
	gate_shut();
	$builder->{stderr} = '';
	begin_query($builder, $statement);
	gate_reached($node, $statement);
	# rows of a transaction that ends while the build waits, and of one that continues
	$writer->query('INSERT INTO t SELECT i, i, i FROM generate_series(20000, 20500) i; '
		. 'DELETE FROM t WHERE id BETWEEN 2600 AND 2700; '
		. 'UPDATE t SET s = s || 1 WHERE id BETWEEN 3000 AND 3200; UPDATE t SET k = k WHERE id < 100');
	$writer->query('BEGIN; INSERT INTO t SELECT i, i, i FROM generate_series(30000, 30100) i; UPDATE t SET s = s || 2 '
		. 'WHERE id BETWEEN 3100 AND 3300; DELETE FROM t WHERE id BETWEEN 3900 AND 3950');
	gate_open();
	ok($node->poll_query_until('postgres', 'SELECT count(*) = 1 FROM pg_stat_progress_create_index WHERE '
		. "phase ~ 'waiting'"), "$statement: waits for the writer");
	$writer->query('COMMIT');
	$builder->query('SELECT 1');
	like(join(', ', map { "$_->[0] $_->[1]" } build_messages($builder->{stderr})), $pattern,
		"$statement: built by gpusort");
	is($node->safe_psql('postgres', "SELECT indisvalid, bt_index_parent_check('$name', true, true)::text FROM pg_index "
		. "WHERE indexrelid = '$name'::regclass"), 't|', "$statement: amcheck");
	$node->safe_psql('postgres', 'DELETE FROM t WHERE id >= 20000; UPDATE t SET k = k');
}

# --- a session that writes all the time
create_churn($node, 3000);
begin_query($writer, 'CALL churn()');
for my $round (1 .. 4)
{
	all_built($node, "round $round", "CREATE INDEX CONCURRENTLY w$round ON churned (k, s); "
		. "CREATE UNIQUE INDEX CONCURRENTLY u$round ON churned (id); REINDEX INDEX CONCURRENTLY w$round; "
		. 'VACUUM churned',
		"w$round", "u$round",
		"w${round}_ccnew");
	is($node->safe_psql('postgres', "SELECT count(bt_index_parent_check(i, true, true)::text) FROM "
		. "unnest('{w$round,u$round}'::regclass[]) i"), '2', "round $round: amcheck");
}
$node->safe_psql('postgres', 'INSERT INTO stop_churn VALUES (1)');
is($writer->query('SELECT 1'), '1', 'the writer ends');
is($writer->{stderr} =~ s/^.*(?:LOG|DEBUG):.*\n?//mgr =~ s/^;?\s*$//mgr, '', 'without an error');
is($node->safe_psql('postgres', "SELECT check_indexes('churned')"), '9', 'all indexes in the end');
is($node->safe_psql('postgres', 'SELECT count(*), sum(k) FROM churned'),
	$node->safe_psql('postgres', 'SET enable_seqscan = off; SELECT count(*), sum(k) FROM churned WHERE k >= 0'),
	'rows by an index');

$_->quit for $old, $builder, $writer;
$node->stop;
unlike(slurp_file($node->logfile), qr/WARNING|TRAP|PANIC|terminated by signal/, 'the log has no warning or crash');
done_testing();
