# index_phases.pl: builds that wait, are cancelled or are killed in each phase, and recovery.
#
# Each phase shows its row of pg_stat_progress_create_index.  A build that is cancelled or killed leaves no file and no
# index.  Then builds are killed at random moments, and finished builds are recovered from WAL.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GpuSortTest;
use IndexBuilds;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

seed_random();

my $node = index_node('index_phases', conf => "restart_after_crash = on\nwal_level = replica\nmax_wal_senders = 3\n");
make_phase_gate($node);
$node->safe_psql('postgres', <<'SQL');
CREATE TABLE t AS SELECT i::int AS id, (mix(i) % 100000)::int AS k FROM generate_series(1, 1500) i;
CREATE TABLE large AS SELECT i AS id, mix(i) AS k, md5(i::text) COLLATE "C" AS s FROM generate_series(1, 150000) i;
VACUUM ANALYZE;
SQL

# phase => a statement that waits in it, a condition on its progress, and its phase in gpusort_progress
my %phases = (
	scanning => [ 'CREATE INDEX g1 ON t (scan_gate(id))',
		"blocks_total = pg_relation_size('t') / current_setting('block_size')::int AND blocks_done < blocks_total",
		'ingest' ],
	sorting => [ 'CREATE INDEX g1 ON t (k gated_ops)', 'tuples_total = 1500 AND blocks_total = 0', 'sort' ],
	loading => [ 'CREATE UNIQUE INDEX g1 ON t (id gated_ops)',
		'tuples_total = 1500 AND tuples_done <= 1500 AND blocks_total = 0', 'emit' ]);
my $session;
sub start_session
{
	gate_make($node);
	$node->safe_psql('postgres', <<'SQL');
CREATE OR REPLACE FUNCTION scan_gate(n int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$
BEGIN
	RETURN public.gate(n, 700)::int;
END $$;
SQL
	$session = new_session($node);
	$session->query('SET client_min_messages = debug1');
}

sub nothing_left
{
	my ($name) = @_;

	is($node->safe_psql('postgres', "SELECT count(*) FROM pg_class WHERE relname = 'g1'"), '0', "$name: no index");
	is($node->safe_psql('postgres', 'SELECT (SELECT count(*) FROM pg_stat_progress_create_index), '
		. '(SELECT count(*) FROM gpusort_progress)'), '0|0', "$name: no progress");
	is(scalar(temp_files($node)), 0, "$name: no file");
}

# A build that waits in a phase; then it goes on to its end, is cancelled or is killed.
sub waits_in_phase
{
	my ($phase, $then) = @_;
	my ($statement, $seen, $sort_phase) = @{ $phases{$phase} };
	my $name = "$phase, $then";

	$node->safe_psql('postgres', "TRUNCATE phase_gate; INSERT INTO phase_gate VALUES ('$phase', 1)");
	gate_shut();
	my $pid = $session->query('SELECT pg_backend_pid()');
	$session->{stderr} = '';
	begin_query($session, $statement);
	gate_reached($node, $name);
	is($node->safe_psql('postgres', "SELECT phase ~ '$phase', $seen, command, relid::regclass FROM "
		. "pg_stat_progress_create_index WHERE pid = $pid"), 't|t|CREATE INDEX|t', "$name: progress");
	is($node->safe_psql('postgres', "SELECT phase, node IS NULL, leader_pid IS NULL, rows_estimated = 1500, "
		. "rows <= 1500, memory_bytes > 0 FROM gpusort_progress WHERE pid = $pid"), "$sort_phase|t|t|t|t|t",
		"$name: gpusort_progress");
	if ($then eq 'cancel')
	{
		$node->safe_psql('postgres', "SELECT pg_cancel_backend($pid)");
		$session->query('SELECT 1');
		like($session->{stderr}, qr/canceling statement due to user request/, "$name: cancelled");
		unlike($session->{stderr}, qr/gpusort left/, "$name: gpusort ran the build");
		gate_open();
		session_ok($session, $name);
	}
	elsif ($then eq 'end')
	{
		gate_open();
		$session->query('SELECT 1');
		like($session->{stderr}, qr/gpusort built index "g1": route/, "$name: built by gpusort");
		is($node->safe_psql('postgres', "SELECT check_indexes('t'); DROP INDEX g1"), '1', "$name: amcheck");
	}
	else
	{
		backend_crashes($node, $pid, $name);
		start_session();
	}
	nothing_left($name);
}

# Tests that a phase's progress is PostgreSQL's, at the same gate.
sub same_progress
{
	my ($phase, $set) = @_;
	my ($statement) = @{ $phases{$phase} };
	my %seen;

	$node->safe_psql('postgres', "TRUNCATE phase_gate; INSERT INTO phase_gate VALUES ('$phase', 1)");
	for my $builds ('on', 'off')
	{
		my $pid = $session->query("SET gpusort.index_builds = $builds; $set; SELECT pg_backend_pid()");

		gate_shut();
		begin_query($session, $statement);
		gate_reached($node, "$phase, $set, gpusort.index_builds = $builds");
		$seen{$builds} = $node->safe_psql('postgres', 'SELECT phase, command, lockers_total, lockers_done, '
			. 'current_locker_pid, blocks_total, blocks_done, tuples_total, tuples_done, partitions_total, '
			. "partitions_done FROM pg_stat_progress_create_index WHERE pid = $pid");
		gate_open();
		$session->query('DROP INDEX g1');
	}
	$session->query('RESET gpusort.index_builds; RESET max_parallel_maintenance_workers');
	is($seen{on}, $seen{off}, "$phase, $set: progress as PostgreSQL's");
}

start_session();
for my $phase (sort keys %phases)
{
	waits_in_phase($phase, $_) for 'end', 'cancel';
	# PostgreSQL does not compare keys while it loads
	same_progress($phase, 'SET max_parallel_maintenance_workers = 0') if $phase ne 'loading';
}
waits_in_phase($_, 'kill') for sort keys %phases;

# --- kills at random moments of a statement, and the indexes after recovery
$node->safe_psql('postgres', 'CREATE INDEX kept1 ON large (k); CREATE INDEX kept2 ON large (s, id)');
for my $round (1 .. ($ENV{GPUSORT_QUICK} ? 2 : 5))
{
	my $victim = new_session($node);
	my $pid = $victim->query('SELECT pg_backend_pid()');
	my $statement = pick('REINDEX TABLE large', 'CREATE INDEX g1 ON large (s)', 'REINDEX INDEX kept2',
		'CREATE INDEX CONCURRENTLY g1 ON large (k DESC)', 'VACUUM FULL large');

	begin_query($victim, $statement);
	usleep(1000 * int rand pick(20, 200, 600));
	backend_crashes($node, $pid, "round $round: $statement");
	like($node->safe_psql('postgres', "SELECT check_indexes('large'); DROP INDEX IF EXISTS g1"), qr/^[23]$/,
		"round $round: amcheck after recovery");
	is(scalar(temp_files($node)), 0, "round $round: no file");
}

# --- builds that were committed and not yet written to disk; a standby has them, too
$node->append_conf('pg_hba.conf', 'local replication all trust');
$node->reload;
$node->backup('copy');
my $standby = PostgreSQL::Test::Cluster->new('index_standby');
$standby->init_from_backup($node, 'copy', has_streaming => 1);
$standby->start;
all_built($node, 'before the crash', 'CREATE INDEX r1 ON large (k); CREATE UNIQUE INDEX r2 ON large (id); CREATE INDEX '
	. "CONCURRENTLY r3 ON large (s); REINDEX TABLE t; REINDEX INDEX kept1; SET maintenance_work_mem = '1MB'; "
	. 'CREATE INDEX r4 ON large (s DESC, k)', qw(r1 r2 r3 kept1 r4));
$node->wait_for_catchup($standby);
is($standby->safe_psql('postgres', "SELECT count(bt_index_check(i, true)::text) FROM "
	. "unnest('{kept1,kept2,r1,r2,r3,r4}'::regclass[]) i"), '6', 'standby: amcheck');
is($standby->safe_psql('postgres',
	'SET enable_seqscan = off; SELECT count(*) FROM large WHERE id BETWEEN 500 AND 600; '
	. 'SELECT count(*) FROM large WHERE s = md5($$77$$)'), "101\n1",
	'standby: read by an index');
$node->stop('immediate');
$node->start;
is($node->safe_psql('postgres', "SELECT check_indexes('large')"), '6', 'after the crash: amcheck');
$standby->promote;
all_built($standby, 'promoted', 'CREATE INDEX p1 ON large (s, k)', 'p1');
$standby->stop;

# --- wal_level = minimal: a table and its indexes of one transaction are not logged but written at its end
$node->append_conf('postgresql.conf', "wal_level = minimal\nmax_wal_senders = 0\nwal_skip_threshold = 0\n");
$node->restart;
all_built($node, 'wal_level = minimal', 'BEGIN; CREATE TABLE m AS SELECT * FROM large; CREATE INDEX m1 ON m (k); '
	. 'CREATE UNIQUE INDEX m2 ON m (s); COMMIT; BEGIN; TRUNCATE t; '
	. 'INSERT INTO t SELECT i, i FROM generate_series(1, 5000) i; '
	. 'CREATE INDEX m3 ON t (k); COMMIT', qw(m1 m2 m3));
$node->stop('immediate');
$node->start;
is($node->safe_psql('postgres', "SELECT check_indexes('m'), check_indexes('t'), count(*) FROM m"), '2|1|150000',
	'after the crash: amcheck');

$node->stop;
unlike(slurp_file($node->logfile), qr/TRAP|PANIC|terminated by signal (?!9)/, 'the log has no other crash');
done_testing();
