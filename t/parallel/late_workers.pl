# late_workers.pl: participants of a parallel sort that get their rows at different times.
#
# A participant that starts last may get all rows, because a participant may end without having read any of the shared
# scan.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GpuSortTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('parallel_late', parallel => 1);

# mine() is a one-time filter, which each process evaluates once: it is true in the leader, or in the workers.
$node->safe_psql('postgres', <<'SQL');
CREATE TABLE t AS SELECT i AS id, mix(i) AS k, (mix(i * 7) / 1e3)::float8 AS f, (mix(i) % 10)::int AS ten,
	'customer#' || mix(i * 3) AS s, repeat('x', (mix(i * 5) % 60)::int) AS p FROM generate_series(1, 30000) i;
CREATE TABLE s AS SELECT (mix(i) % 10)::int AS a FROM generate_series(1, 40) i;
VACUUM ANALYZE t, s;
CREATE FUNCTION mine(whose text) RETURNS bool LANGUAGE plpgsql STABLE PARALLEL SAFE AS
	$$ BEGIN RETURN (current_setting('my.pid') = pg_backend_pid()::text) = (whose = 'leader'); END $$;
SQL

# post_auth_delay delays the start of new workers; the session, which is connected already, is not delayed.
my $session = new_session($node);
$session->query("SELECT set_config('my.pid', pg_backend_pid()::text, false)");
reload_with($node, 'post_auth_delay', '1s');

my $query = "SELECT * FROM t WHERE mine('workers')";
like($session->query("EXPLAIN (COSTS OFF) $query ORDER BY k"),
	qr/^Custom Scan \(GpuSort\)\n.*->  Gather\n.*\(GpuSort Feed\)\n.*->  Result\n +One-Time Filter: mine\(/s,
	'the plan');
# leader participation, workers, the process that has the rows, orders; of four or more workers two merge blocks
for my $case ([ 'on', 1, 'workers', 's' ], [ 'on', 2, 'workers', 'f', 's', 'k LIMIT 10' ], [ 'on', 2, 'leader', 'f' ],
	[ 'on', 5, 'workers', 'f' ], [ 'off', 2, 'workers', 's' ])
{
	my ($leader, $workers, $whose, @orders) = @$case;

	$session->query("SET max_parallel_workers_per_gather = $workers; SET parallel_leader_participation = $leader");
	for my $order (@orders)
	{
		my ($key) = $order =~ /^(\w+)/;
		my $q = "SELECT id, $key AS o, p FROM t WHERE mine('$whose') ORDER BY $order";
		my $rows = $order =~ /LIMIT/ ? 10 : 30000;

		is($session->query('SELECT count(*), count(DISTINCT id), bool_and(o >= last) FROM (SELECT id, o, '
			. "lag(o) OVER () AS last FROM ($q" . ($rows == 10 ? '' : ' OFFSET 0') . ') x) y'), "$rows|$rows|t",
			"$workers workers, leader participates $leader, rows of the $whose by $order");
	}
}
is($session->{stderr}, '', 'no error');
$session->quit;
reload_with($node, 'post_auth_delay', '0');

# A join whose inner side differs between processes. Where it is empty, the process does not read the outer side. The
# rows of a run are random, but each run succeeds and is in order.
$session = new_session($node);
for my $from ('t JOIN s TABLESAMPLE BERNOULLI (0.4) ON t.ten = s.a',
	't JOIN (SELECT a FROM s WHERE gen_random_uuid()::text < $$06$$) s ON t.ten = s.a')
{
	$session->query('SET max_parallel_workers_per_gather = 3; SET enable_mergejoin = off; SET enable_nestloop = off; '
		. 'RESET parallel_leader_participation');
	my $rounds = $ENV{GPUSORT_ROUNDS} || 60;
	my @wrong;
	for (1 .. $rounds)
	{
		my $got = $session->query("SELECT bool_and(f >= last) IS NOT FALSE FROM (SELECT f, lag(f) OVER () AS last FROM "
			. "(SELECT t.f, t.id FROM $from ORDER BY t.f, t.id OFFSET 0) x) y");

		next if $got eq 't' && $session->{stderr} eq '';
		push @wrong, "$got: $session->{stderr}";
		$session->{stderr} = '';
	}
	is("@wrong", '', "$from: $rounds runs are in order");
	like($session->query("EXPLAIN (COSTS OFF) SELECT t.f, t.id FROM $from ORDER BY t.f, t.id"),
		qr/\(GpuSort Feed\)\n.*Hash Join/s, "$from: the plan");
}
$session->quit;

# Workers that never begin, because the server cannot start a process, or only one: the query does not wait for them,
# and ends as it does without gpusort. A name space limits the number of processes of this server alone.
SKIP:
{
	my @space = ('unshare', '-U', '--map-user=1000', '--map-group=1000');
	my @start = ('pg_ctl', '-D', $node->data_dir, '-l', $node->logfile, '-w', 'start');

	skip 'no private name space', 12 if system("@space true 2>/dev/null") != 0
		|| system('prlimit --version >/dev/null 2>&1') != 0;
	$node->stop;
	system_or_bail(@space, @start);
	my ($postmaster) = slurp_file($node->data_dir . '/postmaster.pid') =~ /^(\d+)/;
	my $processes = sub {
		return scalar grep { (readlink("$_/ns/user") // '') eq readlink("/proc/$postmaster/ns/user") }
			glob '/proc/[0-9]*';
	};
	my ($soft, $hard) = slurp_file("/proc/$postmaster/limits") =~ /^Max processes +(\w+) +(\w+)/m;
	my $starved = new_session($node);

	$starved->query("SET statement_timeout = '100s'");
	for my $case ([ 0, 2, 'on' ], [ 0, 5, 'on' ], [ 1, 2, 'on' ], [ 1, 2, 'off' ], [ 4, 5, 'on' ])
	{
		my ($more, $workers, $leader) = @$case;

		$starved->query("SET max_parallel_workers_per_gather = $workers; SET parallel_leader_participation = $leader");
		for my $enable ('off', 'on')
		{
			$starved->query("SET gpusort.enable = $enable");
			system_or_bail("prlimit --pid $postmaster --nproc=" . ($processes->() + $more) . ":$hard");
			$starved->query('SELECT count(*) FROM (SELECT id, k, p FROM t ORDER BY k OFFSET 0) x');
			like($starved->{stderr}, qr/parallel worker failed to initialize|lost connection to parallel worker/,
				"$more of $workers workers begin, leader participates $leader, gpusort $enable");
			$starved->{stderr} = '';
		}
	}
	system_or_bail("prlimit --pid $postmaster --nproc=$soft:$hard");
	is($starved->query('SELECT count(*) FROM (SELECT id, k, p FROM t ORDER BY k OFFSET 0) x'), '30000',
		'the session sorts again');
	is($starved->{stderr}, '', '... without an error');
	$starved->quit;
	system_or_bail('pg_ctl', '-D', $node->data_dir, '-m', 'fast', '-w', 'stop');
	$node->start;
}

$node->stop;
unlike(slurp_file($node->logfile), qr/TRAP|PANIC|was terminated by signal/, 'no crash in the log');
done_testing();
