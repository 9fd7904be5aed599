# progress.pl: gpusort_progress shows a sort in each of its phases to other sessions.
#
# Its row is gone after the sort, however the sort ends.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GpuSortTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('progress', conf => <<CONF);
restart_after_crash = on
max_worker_processes = 8
max_parallel_workers = 4
CONF
$node->safe_psql('postgres', <<SQL);
CREATE TABLE t AS SELECT i AS id, mix(i) AS k FROM generate_series(1, 100000) i;
VACUUM ANALYZE t;
SQL

# two gates, so that one can be shut when the other opens
gate_make($node);
$node->safe_psql('postgres', <<'SQL');
CREATE FUNCTION second_gate(n bigint, at bigint) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
	IF n = at THEN
		PERFORM pg_advisory_xact_lock_shared(2);
	END IF;
	RETURN n;
END $$;
SQL
my $second = new_session($node);

# a sort whose rows pass the gates before they come in
sub gated
{
	my ($column, $rest) = @_;

	$rest //= '';
	return "SELECT g, k FROM (SELECT $column AS g, k FROM t $rest OFFSET 0) x ORDER BY k OFFSET 0";
}

my $session = new_session($node);
my $pid = $session->query('SELECT pg_backend_pid()');

sub seen { my ($what) = @_; return $node->safe_psql('postgres',
	"SELECT $what FROM gpusort_progress WHERE pid = $pid ORDER BY node") }
sub gone { my ($name) = @_; return is($node->safe_psql('postgres', 'SELECT count(*) FROM gpusort_progress'), 0,
	"$name: nothing is left") }

# --- rows come in; runs are written; rows are returned
$session->query("SET work_mem = '64MB'");
gate_shut();
$second->query('SELECT pg_advisory_lock(2)');
begin_query($session, 'SELECT count(g) FROM (' . gated('second_gate(gate(id, 20000), 70000)') . ') s');
gate_reached($node, 'ingest');
# rows that are computed by heap page are counted page by page
is(seen('datname, leader_pid IS NULL, node, phase, algorithm IS NULL, rows BETWEEN 19800 AND 19999, rows_estimated, '
	. 'rows_written IS NULL, '
	. 'runs, memory_bytes > 500000, disk_bytes, device_bytes'),
	'postgres|t|2|ingest|t|t|100000|t|0|t|0|0', 'rows come in');
my $memory = seen('memory_bytes');
gate_open();
gate_reached($node, 'more rows');
is(seen('phase, rows BETWEEN 69800 AND 69999'), 'ingest|t', 'more rows come in');
cmp_ok(seen('memory_bytes'), '>', $memory, 'memory grows');
$second->query('SELECT pg_advisory_unlock(2)');
$session->query('SELECT 1');
gone('a finished sort');

$session->query("SET work_mem = '64kB'");
gate_shut();
begin_query($session, 'SELECT count(g) FROM (' . gated('gate(id, 70000)') . ') s');
gate_reached($node, 'runs');
is(seen('phase, algorithm, rows BETWEEN 69800 AND 69999, runs > 5, disk_bytes > 1000000, memory_bytes < 20000000'),
	'ingest|cpu_radix|t|t|t|t', 'rows come in after runs');
gate_open();
$session->query('SELECT 1');
gone('a sort with runs');

for my $mem ('64kB', '64MB')
{
	$session->query("SET work_mem = '$mem'; BEGIN; DECLARE c CURSOR FOR SELECT * FROM t ORDER BY k");
	gone('a cursor that was not read');
	is($session->query('FETCH 3 FROM c') =~ tr/\n//, 2, "$mem: rows are returned");
	is(seen('phase, algorithm, rows, runs > 0, disk_bytes > 0'),
		'emit|cpu_radix|100000|' . ($mem eq '64kB' ? 't|t' : 'f|f'), "$mem: the view shows the sort");
	$session->query('FETCH ALL FROM c');
	is(seen('phase'), 'emit', "$mem: the view shows a cursor at its end");
	$session->query('CLOSE c');
	gone("$mem: a closed cursor");
	$session->query('COMMIT');
}

# --- every phase of a sort with many runs under a scrollable cursor
$node->safe_psql('postgres', <<'SQL');
CREATE TABLE stop (i int);
CREATE FUNCTION sort_until_stopped() RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
	c SCROLL CURSOR FOR SELECT * FROM t ORDER BY k;
	x record;
BEGIN
	SET LOCAL work_mem = '64kB';
	WHILE NOT EXISTS (SELECT FROM stop) LOOP
		OPEN c;
		FETCH c INTO x;
		CLOSE c;
	END LOOP;
	RETURN true;
END $$;
-- the phases of a process's sorts, and the most rows written that were seen in each
CREATE FUNCTION phases_of(process int, wanted text[]) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
	seen jsonb := '{}';
	x record;
BEGIN
	FOR i IN 1..10000000 LOOP
		FOR x IN SELECT * FROM gpusort_progress WHERE pid = process LOOP
			seen := seen || jsonb_build_object(x.phase, greatest(coalesce(x.rows_written, 0), (seen ->>
				x.phase)::bigint));
		END LOOP;
		EXIT WHEN seen ?& wanted AND (seen ->> 'spill')::bigint >= 0 AND (seen ->> 'merge')::bigint > 4096;
	END LOOP;
	RETURN seen;
END $$;
SQL
begin_query($session, 'SELECT sort_until_stopped()');
is($node->safe_psql('postgres', "SELECT phases_of($pid, '{ingest,sort,spill,merge,emit}') ?& "
	. "'{ingest,sort,spill,merge,emit}'"), 't', 'the view shows every phase, and the rows of merges');
$node->safe_psql('postgres', 'INSERT INTO stop VALUES (1)');
$session->query('SELECT 1');
gone('sorts that were watched');

# --- several sorts at the same time
$session->query("SET work_mem = '4MB'; SET enable_hashjoin = off; SET enable_nestloop = off; SET enable_material = "
	. "off");
gate_shut();
begin_query($session, 'SELECT count(*) FROM (SELECT k, id FROM t WHERE id < 1000 ORDER BY k OFFSET 0) a JOIN ('
	. gated('gate(id, 500)', 'WHERE id < 1000') . ') b USING (k)');
gate_reached($node, 'merge join');
is(seen('phase, rows'), "emit|999\ningest|499", 'both sorts of a merge join');
is($node->safe_psql('postgres', "SELECT count(DISTINCT node) FROM gpusort_progress WHERE pid = $pid"), 2,
	'are two nodes');
gate_open();
$session->query('SELECT 1');
gone('a merge join');

$session->query('BEGIN');
$session->query("DECLARE c$_ CURSOR FOR SELECT * FROM t WHERE id <= $_ * 100 ORDER BY k; FETCH c$_") for 1 .. 10;
is($node->safe_psql('postgres', "SELECT count(*), min(rows), max(rows) FROM gpusort_progress WHERE pid = $pid"),
	'8|100|800', 'eight sorts of a session are shown');
$session->query('CLOSE c1');
$session->query('FETCH ALL FROM c9; FETCH ALL FROM c10');
$session->query('DECLARE d CURSOR FOR SELECT * FROM t WHERE id <= 50 ORDER BY k; FETCH d');
is($node->safe_psql('postgres', "SELECT count(*), min(rows), max(rows) FROM gpusort_progress WHERE pid = $pid"),
	'8|50|800', 'a free entry is used again');
$session->query('ROLLBACK');
gone('many cursors');

# --- every way to end a sort
$session->query('BEGIN');
$session->query(gated('1 / (id - 50000)'));
like($session->{stderr}, qr/division by zero/, 'an error while rows come in');
gone('an error, within its transaction');
$session->query('ROLLBACK; BEGIN; SAVEPOINT s; DECLARE c CURSOR FOR SELECT * FROM t ORDER BY k; FETCH c');
is(seen('phase'), 'emit', 'a cursor of a subtransaction');
$session->query('ROLLBACK TO s');
gone('a subtransaction');
$session->query('COMMIT');
session_ok($session, 'after errors');

for my $end ('pg_cancel_backend', 'pg_terminate_backend')
{
	gate_shut();
	begin_query($session, 'SELECT count(g) FROM (' . gated('gate(id, 70000)') . ') s');
	gate_reached($node, $end);
	is(seen('phase'), 'ingest', "$end: the view shows the sort");
	is($node->safe_psql('postgres', "SELECT $end($pid)"), 't', "$end: sent");
	ok($node->poll_query_until('postgres', "SELECT count(*) = 0 FROM gpusort_progress"), "$end: nothing is left");
	gate_open();
	$session->query('SELECT 1') if $end eq 'pg_cancel_backend';
	$session->{stderr} = '';
}
$session = new_session($node);
$pid = $session->query('SELECT pg_backend_pid()');

# --- privileges
$node->safe_psql('postgres', 'CREATE ROLE plain; CREATE ROLE watcher; GRANT pg_read_all_stats TO watcher');
$session->query('BEGIN; DECLARE c CURSOR FOR SELECT * FROM t ORDER BY k; FETCH c');
my $others = "SELECT pid = $pid, datname, phase, rows FROM gpusort_progress WHERE pid = $pid";
is($node->safe_psql('postgres', $others), 't|postgres|emit|100000', 'a superuser sees all');
is($node->safe_psql('postgres', "SET ROLE watcher; $others"), 't|postgres|emit|100000', 'pg_read_all_stats sees all');
is($node->safe_psql('postgres', "SET ROLE plain; $others"), 't|postgres||', 'other roles see that a sort runs');
is($node->safe_psql('postgres', <<SQL), "emit|3", 'an ordinary role sees its own sorts');
SET SESSION AUTHORIZATION plain;
BEGIN;
DECLARE mine CURSOR FOR SELECT i FROM generate_series(1, 3) i ORDER BY -i;
MOVE 1 FROM mine;
SELECT phase, rows FROM gpusort_progress WHERE pid = pg_backend_pid();
SQL
$session->query('COMMIT');

# --- workers
$node->safe_psql('postgres', q(CREATE FUNCTION nap(n bigint) RETURNS bigint PARALLEL SAFE LANGUAGE plpgsql AS $$ BEGIN
	PERFORM pg_sleep(0.002); RETURN n; END $$));
$session->query('SET max_parallel_workers_per_gather = 2; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; '
	. 'SET min_parallel_table_scan_size = 0');
like($session->query('EXPLAIN (COSTS OFF) SELECT * FROM t WHERE nap(id) > 0 ORDER BY k'), qr/Gather.*GpuSort/s,
	'a parallel plan');
begin_query($session, 'SELECT * FROM t WHERE nap(id) > 0 ORDER BY k');
ok($node->poll_query_until('postgres', "SELECT count(*) > 0 AND bool_and(pid <> leader_pid AND phase = 'ingest') FROM "
	. "gpusort_progress WHERE leader_pid = $pid AND rows > 0"), 'workers have rows of their own');
is($node->safe_psql('postgres', "SELECT pg_cancel_backend($pid)"), 't', 'cancelled');
$session->query('SELECT 1');
ok($node->poll_query_until('postgres', 'SELECT count(*) = 0 FROM gpusort_progress'), 'workers: nothing is left');
$session->{stderr} = '';

# --- a crash
$session->query('BEGIN; DECLARE c CURSOR FOR SELECT * FROM t ORDER BY k; FETCH c');
is(seen('phase'), 'emit', 'before the crash');
backend_crashes($node, $pid, 'crash');
gone('crash');

$node->stop;
done_testing();
