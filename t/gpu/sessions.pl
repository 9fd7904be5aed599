# sessions.pl: many sessions that sort on the device at the same time.
#
# Jobs run beside other jobs and beside cancelled ones, with too little memory, staging and slots, and while the
# device process is killed. GPUSORT_SEED repeats the random choices of a run.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GpuSortTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $seed = seed_random();

my $library = $ENV{GPUSORT_TEST_LIBRARY} || '$libdir/libgpusort_cpu_abi';
my $node = new_node('device_concurrency', conf => <<CONF);
gpusort.device_library = '$library'
gpusort.staging_memory = 4MB
gpusort.device_memory = 128MB
max_connections = 60
shared_buffers = 64MB
CONF

device_ready($node, 'start');
$node->safe_psql('postgres', <<SQL);
CREATE TABLE t AS SELECT i AS id, mix(i) AS k, (mix(i) % 50)::int AS h, (mix(i * 5) - 2e9) / 3::float8 AS f FROM
	generate_series(1, 30000) i;
VACUUM ANALYZE t;
ALTER DATABASE postgres SET gpusort.algorithm = 'gpu_radix';
SELECT gpusort_stat_reset();
SQL

my $script = $node->basedir . '/script.sql';
append_to_file($script, <<'SQL');
\set n random_exponential(1, 30000, 3)
\set mem random(64, 3000)
SET work_mem = :mem;
SELECT must_be_same('SELECT * FROM t WHERE id <= ' || :n || ' ORDER BY k');
SELECT must_be_same('SELECT * FROM t WHERE id <= ' || :n || ' ORDER BY h DESC, f, id');
SELECT must_be_same('SELECT id, h FROM t WHERE id <= ' || :n || ' ORDER BY f DESC');
SQL

# The service is ready, and holds nothing.
sub ready_and_unused
{
	device_ready($node, @_);
	device_unused($node, @_);
}

for my $clients (1, 8, 32)
{
	my $t = $clients == 32 ? 4 : 10;
	$node->command_ok([ 'pgbench', '-n', '-M', 'simple', "--random-seed=$seed", '-c', $clients, '-j', '2', '-t', $t,
		'-f', $script, 'postgres' ], "$clients sessions");
	ready_and_unused("$clients sessions");
}
cmp_ok($node->safe_psql('postgres', "SELECT sorts FROM gpusort_stat WHERE algorithm = 'gpu_radix'"), '>', 100,
	'the device was used');

# the device process is killed repeatedly while sessions sort
{
	my $killer = new_session($node);
	my ($out, $err) = ('', '');
	my $h = IPC::Run::start([ 'pgbench', '-n', '-M', 'simple', "--random-seed=$seed", '-c', '8', '-j', '2', '-T', '8',
		'-f', $script, '-h', $node->host, '-p', $node->port, 'postgres' ], '>', \$out, '2>', \$err);
	my $kills = 0;
	# on a busy machine the next process starts late
	for (my $i = 0; $i < 25 || $kills < 2 && $i < 4 * $PostgreSQL::Test::Utils::timeout_default; $i++)
	{
		my $pid = $killer->query('SELECT max(process_pid) FROM gpusort_devices()');
		$kills += kill 'KILL', $pid if $pid =~ /^\d\d+$/;
		select undef, undef, undef, 0.25;
	}
	ok($h->finish, 'no session fails when the device process is killed') or diag $err;
	like($out, qr/number of failed transactions: 0 /, 'no transaction fails');
	cmp_ok($kills, '>', 1, "killed $kills times");
	$killer->quit;
	# after a successful job the next process starts without a pause
	ready_and_unused('killed');
}

# sessions that are cancelled beside sessions that must not be affected
my @sessions = map { new_session($node) } 1 .. 6;
for my $i (1 .. 15)
{
	for my $s (@sessions)
	{
		my $ms = 1 + int rand 30;
		$s->query("SET work_mem = '" . (64 + int rand 3000) . "kB'; SET statement_timeout = $ms");
		$s->query('SELECT count(*) FROM (SELECT * FROM t ORDER BY k OFFSET 0) s');
		no_timeout($s);
	}
}
session_ok($_, 'cancelled many times') for @sessions;
# sessions that are terminated at random times
for my $i (1 .. 20)
{
	my @doomed = map { new_session($node) } 1 .. 3;
	my $pids = join ',', map { $_->query('SELECT pg_backend_pid()') } @doomed;
	for my $s (@doomed)
	{
		begin_query($s, "SET work_mem = '" . (64 + int rand 3000)
			. "kB'; SELECT count(must_be_same('SELECT * FROM t ORDER BY k')) FROM generate_series(1, 100)");
	}
	select undef, undef, undef, rand 0.3;
	$node->safe_psql('postgres', "SELECT pg_terminate_backend(p) FROM unnest('{$pids}'::int[]) p");
	$_->{run}->finish for @doomed;
}
ready_and_unused('ended at any point');
# open cursors: other sorts need not wait for them
for my $s (@sessions)
{
	$s->query("SET work_mem = '64kB'; BEGIN; DECLARE c NO SCROLL CURSOR FOR SELECT * FROM t ORDER BY k; FETCH 1 FROM "
		. "c");
}
ready_and_unused('open cursors');
is($node->safe_psql('postgres', "SET work_mem = '64kB'; SELECT result FROM check_sort('SELECT * FROM t ORDER BY k')"),
	'same', 'beside six open cursors');
for my $s (@sessions)
{
	is($s->query("SELECT count(*) FROM (SELECT 1) s; MOVE ALL c; COMMIT"), '1', 'a cursor is read on');
	is($s->{stderr}, '', 'a cursor is read on: no error');
	$s->quit;
}
ready_and_unused('cursors');

$node->stop;
done_testing();
