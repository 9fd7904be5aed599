# The service as a neighbour: what it holds of a GPU, and gives back.  On the stand-in,
# whose device can be made fuller, busy or free while the server runs.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use GpuSortTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('neighbours', conf => <<CONF);
gpusort.device_library = '\$libdir/libgpusort_cpu_abi'
gpusort.staging_memory = 8MB
gpusort.device_memory = 64MB
shared_buffers = 64MB
log_min_messages = log
CONF
my $devices = 'FROM gpusort_devices()';
my $set = "SET work_mem = '256kB'; SET gpusort.algorithm = gpu_radix;";
my $rows = 40_000;
my $sum = "count(*), sum(n * k)";
my $query = 'SELECT row_number() OVER () AS n, k FROM (SELECT id, k, pad FROM t ORDER BY k, id OFFSET 0) s';

sub value { return $node->safe_psql('postgres', @_) }
sub process { return value("SELECT max(process_pid) $devices") }

device_ready($node, 'start');
$node->safe_psql('postgres', <<SQL);
CREATE TABLE t AS SELECT i AS id, (mix(i) % 5000)::int4 AS k, repeat('x', (i % 50)::int) AS pad FROM generate_series(1, $rows) i;
VACUUM ANALYZE t;
SQL
gate_make($node);
my $right = value("SET gpusort.enable = off; SELECT $sum FROM ($query) q");

# who does not read holds nothing of a process that has ended
{
	my @unread = map { new_session($node) } 1 .. 3;

	gate_shut();
	begin_query($_, "$set SELECT $sum FROM (SELECT gate(n, 10) AS n, k FROM ($query) q0) q") for @unread;
	ok($node->poll_query_until('postgres', "SELECT count(*) = 3 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"), 'three sorts are not read on');
	cmp_ok(value("SELECT sum(memory_used) $devices"), '>', 3_000_000, 'they hold memory');
	my $process = process();
	kill 'KILL', $process;
	ok($node->poll_query_until('postgres', "SELECT bool_and(state = 'ready' AND process_pid <> $process) $devices"), 'there is another process');
	is(value("SELECT sum(memory_used), sum(jobs) $devices"), '0|0', 'none of its memory is taken');
	is(value("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"), 3, 'and they have not read on');
	gate_open();
	is($_->query('SELECT 1'), "$right\n1", 'they read on, and get all rows') for @unread;
	$_->quit for @unread;
	device_unused($node, 'unread');
}

# the server is killed, and with it who has the service's lock
{
	my $s = new_session($node);
	my $process = process();
	my $pid = $s->query('SELECT pg_backend_pid()');
	my ($supervisor) = slurp_file("/proc/$process/stat") =~ /\) \S (\d+)/;

	$s->query("$set SET gpusort.device_fault = hold_lock");
	begin_query($s, 'SELECT count(*) FROM (SELECT * FROM t ORDER BY k OFFSET 0) s');
	ok($node->poll_query_until('postgres', "SELECT wait_event_type = 'Extension' FROM pg_stat_activity WHERE pid = $pid"), 'a backend has the lock');
	my ($postmaster) = slurp_file($node->data_dir . '/postmaster.pid') =~ /^(\d+)/;
	is(kill('KILL', $postmaster, $pid), 2, 'both are killed');
	eval { $s->{run}->finish };
	ok(process_ends($supervisor), 'the supervisor ends');
	ok(process_ends($process), 'the device process ends');
	for (1 .. 100)
	{
		last unless kill 0, $postmaster;
		select undef, undef, undef, 0.1;
	}
	$node->{_pid} = undef;
	$node->start;
	device_ready($node, 'killed');
	is(value("$set SELECT result FROM check_sort('SELECT * FROM t ORDER BY k, id')"), 'same', 'the next start finds nothing of it');
	device_unused($node, 'killed');
}

$node->stop;
done_testing();
