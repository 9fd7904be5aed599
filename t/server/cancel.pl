# cancel.pl: query cancel and statement_timeout in each phase of a sort.
#
# Cancels are sent at times spread over the whole run of a query. The delay of each is printed; the test fails only
# above a bound far above the documented 100 ms, because the machine may be busy.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GpuSortTest;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $node = new_node('cancel', conf => "shared_buffers = 256MB\n");
$node->safe_psql('postgres', <<SQL);
CREATE TABLE t AS SELECT i AS id, mix(i) AS k, (i % 4 - 2)::int8 * 4611686018427387904 AS w
FROM generate_series(1, 1000000) i;
VACUUM ANALYZE t;
SQL

my $session = new_session($node);

# Runs a statement with a timeout; returns its time and its error.
sub timed_out
{
	my ($ms, $sql) = @_;

	$session->query("SET statement_timeout = $ms");
	$session->{stderr} = '';
	my $start = time;
	$session->query($sql);
	my $took = 1000 * (time - $start);
	my $err = $session->{stderr};
	no_timeout($session);
	return ($took, $err);
}

my @cases = (
	[ 'in memory', '512MB', 'SELECT count(*) FROM (SELECT * FROM t ORDER BY k OFFSET 0) s' ],
	[ 'ties by comparison', '512MB', 'SELECT count(*) FROM (SELECT * FROM t ORDER BY w, w + 1, w + 2, k OFFSET 0) s' ],
	[ 'runs on disk', '1MB', 'SELECT count(*) FROM (SELECT * FROM t ORDER BY k OFFSET 0) s' ],
	[ 'two threads', '512MB', 'SELECT count(*) FROM (SELECT * FROM t ORDER BY k DESC OFFSET 0) s' ],
	[ 'DISTINCT', '512MB', 'SELECT count(s) FROM (SELECT DISTINCT k % 300000 FROM t) s' ],
	[ 'DISTINCT on disk', '1MB', 'SELECT count(s) FROM (SELECT DISTINCT k, id FROM t) s' ],
	[ 'groups', '512MB', 'SELECT count(s) FROM (SELECT k % 300000, count(*), max(id) FROM t GROUP BY 1) s' ],
	[ 'medians of groups', '1MB',
		'SELECT count(s) FROM (SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY id) FROM t GROUP BY k % 2) s' ],
	[ 'numbered rows', '1MB', 'SELECT count(s) FROM (SELECT ntile(4) OVER (PARTITION BY k % 2 ORDER BY id) FROM t) s' ],
	[ 'merge join', '512MB', 'SELECT count(*) FROM t a JOIN t b USING (k)' ],
	[ 'INTERSECT', '1MB', 'SELECT count(s) FROM (SELECT k FROM t INTERSECT SELECT k FROM t) s' ]);

# the queries of groups and joins are sorted
$session->query('SET enable_hashagg = off; SET enable_hashjoin = off; SET enable_nestloop = off');
for my $case (@cases)
{
	my ($name, $mem, $sql) = @$case;
	my ($hit, $worst, $odd) = (0, 0, 0);

	$session->query("SET work_mem = '$mem'; SET gpusort.threads = " . ($name eq 'two threads' ? 2 : 1));
	like($session->query("EXPLAIN $sql"), qr/GpuSort/, "$name: a GpuSort is in the plan");
	my ($whole, $none) = timed_out(0, $sql);
	is($none, '', "$name: runs to its end");
	# repeated with shorter steps if the query runs much faster than at first
	for (my $span = $whole; $hit <= 5 && $span > 10; $span /= 3)
	{
		for my $step (1 .. 24)
		{
			my $ms = 1 + int($span * $step / 25);
			my ($took, $err) = timed_out($ms, $sql);
			if ($err =~ /canceling statement due to statement timeout/)
			{
				$hit++;
				$worst = $took - $ms if $took - $ms > $worst;
			}
			elsif ($err ne '')
			{
				$odd++;
				diag "$name, timeout $ms ms: $err";
			}
		}
	}
	note sprintf '%s: %.0f ms whole, %d timeouts hit, latest %.1f ms after its time', $name, $whole, $hit, $worst;
	cmp_ok($hit, '>', 5, "$name: timeouts end the query");
	is($odd, 0, "$name: no other error");
	cmp_ok($worst, '<', 30_000, "$name: the query ends soon after each timeout");
	is(scalar(temp_files($node)), 0, "$name: no file is left");
	session_ok($session, $name);
}

# cancel from another session, in each phase: name => query, phase of its sorts in gpusort_progress
my $pid = $session->query('SELECT pg_backend_pid()');
my %phase = (
	scan => [ 'SELECT count(*) FROM (SELECT a.k FROM t a, generate_series(1, 1000) ORDER BY a.k OFFSET 0) s',
		'ingest' ],
	# without its own OFFSET the planner would call pg_sleep() above the sort
	'slow child' => [ 'SELECT count(*) FROM (SELECT k FROM (SELECT pg_sleep(0.001 * (id % 2)), k FROM t OFFSET 0) c '
		. 'ORDER BY k OFFSET 0) s', 'ingest' ],
	emit => [ 'SELECT count(pg_sleep(0.001)) FROM (SELECT k FROM t ORDER BY k OFFSET 0) s', 'emit' ],
	join => [ 'SELECT count(*) FROM (SELECT k % 3 AS k FROM t ORDER BY 1 OFFSET 0) a JOIN (SELECT k % 3 AS k FROM t '
		. 'ORDER BY 1 OFFSET 0) b USING (k)', 'emit' ]);
$session->query("SET work_mem = '512MB'");
for my $name (sort keys %phase)
{
	my ($query, $phase) = @{ $phase{$name} };

	begin_query($session, $query);
	ok($node->poll_query_until('postgres', "SELECT count(*) > 0 AND bool_and(phase = '$phase' AND rows > 1000) "
			. "FROM gpusort_progress WHERE pid = $pid"),
		"$name: in phase $phase");
	my $start = time;
	is($node->safe_psql('postgres', "SELECT pg_cancel_backend($pid)"), 't', "$name: cancelled");
	$session->query('SELECT 1');
	note sprintf '%s: %.0f ms from cancel to the next statement', $name, 1000 * (time - $start);
	like($session->{stderr}, qr/canceling statement due to user request/, "$name: message");
	session_ok($session, $name);
}

$session->quit;
$node->stop;
done_testing();
