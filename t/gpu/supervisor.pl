# supervisor.pl: the supervisor of the device process.
#
# What it shows and logs, how it starts the device process again, and what happens if a library cannot be loaded or no
# background worker is free.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GpuSortTest;
use PostgreSQL::Test::Utils;
use Test::More;

plan skip_all => 'the fake device is needed' if $ENV{GPUSORT_TEST_LIBRARY};

my $dir = PostgreSQL::Test::Utils::tempdir_short();
my $clock_file = "$dir/clock";
fake_device_is('DEVICES=2', 'COPY_TIMES=100');

my $node = new_node('device_service', conf => <<CONF);
gpusort.device_library = '\$libdir/libgpusort_cpu_abi'
gpusort.device_learn = off
gpusort.staging_memory = 8MB
gpusort.device_memory = 64MB
shared_buffers = 64MB
log_min_messages = log
log_line_prefix = '<%b> '
restart_after_crash = on
CONF
device_ready($node, 'start');
$node->safe_psql('postgres', 'CREATE TABLE t AS SELECT mix(i) AS k FROM generate_series(1, 100000) i');

sub value { return $node->safe_psql('postgres', @_) }

sub set
{
	$node->append_conf('postgresql.conf', join('', map { "$_\n" } @_));
	$node->reload;
}

# Kills the device process; the next one becomes ready.
sub process_restarts
{
	my ($name) = @_;

	# after a successful job the next process starts without a pause
	value("SET gpusort.algorithm = gpu_radix; SET work_mem = '64MB'; SELECT count(*) FROM (SELECT k FROM t ORDER BY k "
		. "OFFSET 0) s");
	next_device_process($node, kill_device_process($node, $name), $name);
}

# pg_stat_activity shows the supervisor
{
	my $event = value('SHOW server_version_num') >= 170000 ? 'GpuSortSupervisor' : 'Extension';
	ok($node->poll_query_until('postgres', "SELECT (wait_event_type, wait_event) = ('Extension', '$event') FROM "
		. "pg_stat_activity WHERE backend_type = 'gpusort device supervisor'"), 'the supervisor and its wait event');
	# the supervisor accepts procsignal barriers, which DROP DATABASE waits for
	value('CREATE DATABASE other');
	value('DROP DATABASE other');
	is(value("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'gpusort device supervisor'"), 1,
		'a database is dropped, and the supervisor still runs');
	value("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE backend_type = 'gpusort device supervisor'");
	is(value("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'gpusort device supervisor'"), 1,
		'a cancel does not end the supervisor');
}

# gpusort.device_learn takes effect by a reload: the process measures its devices
{
	my $process = device_process($node);

	is(value('SELECT count(measured) FROM gpusort_device_model()'), 0, 'devices are not measured');
	set('gpusort.device_learn = on');
	ok($node->poll_query_until('postgres', "SELECT count(DISTINCT device) = 2 FROM gpusort_device_model() WHERE part = "
		. "'up' AND round(measured) = 100"), 'gpusort.device_learn: both devices are measured after a reload');
	is(device_process($node), $process, 'gpusort.device_learn: the same process measures');
}

# a device does not get the measured values of the device that had its place before
{
	# the first device alone is measured again, so that it has another value than the second
	fake_device_is('DEVICES=2', 'COPY_TIMES=7');
	set("gpusort.device = '0'");
	ok($node->poll_query_until('postgres', "SELECT count(*) = 1 AND bool_and(round(measured) = 7) FROM "
		. "gpusort_device_model() WHERE part = 'up'"), 'the first device has 7');
	set('gpusort.device_learn = off', "gpusort.device = '1'");
	ok($node->poll_query_until('postgres', "SELECT bool_and(device = 1 AND state = 'ready') FROM "
		. "gpusort_devices()"), 'the second device alone');
	is(value("SELECT round(measured) FROM gpusort_device_model() WHERE part = 'up'"), 100,
		'the second device keeps its own value');
	set("gpusort.device = auto");
	ok($node->poll_query_until('postgres',
		"SELECT count(*) = 2 AND bool_and(state = 'ready') FROM gpusort_devices()"), 'both again');
}

# a process that is killed: the reason is shown until a new process is ready
{
	# the next process waits until the device can be opened
	fake_device_is('DEVICES=2', 'STUCK_OPEN=0');
	my $process = kill_device_process($node, 'signal');
	ok($node->poll_query_until('postgres', "SELECT bool_and(state ~ '^down: the device process was terminated by "
		. "signal 9') FROM gpusort_devices()"), 'signal: the reason is shown');
	fake_device_is('DEVICES=2');
	next_device_process($node, $process, 'signal');
}

# a device that cannot be opened is logged once, not by each process, in the server's log format
{
	my $offset = -s $node->logfile;

	fake_device_is('DEVICES=2', 'LOST=1');
	process_restarts("left out $_") for 1 .. 3;
	my @lines = slurp_file($node->logfile, $offset) =~ /^(.*device 1 is left out.*)$/mg;
	is(scalar @lines, 1, 'a device that is left out is logged once') or diag(@lines);
	is($lines[0], '<gpusort device supervisor> LOG:  gpusort: device 1 is left out: the device is lost',
		'the line has the prefix of the server log');
	fake_device_is('DEVICES=2');
	process_restarts('not left out');
	fake_device_is('DEVICES=2', 'LOST=1');
	process_restarts('left out again');
	@lines = slurp_file($node->logfile, $offset) =~ /device 1 is left out/g;
	is(scalar @lines, 2, 'a device is logged again if it was opened meanwhile');
	fake_device_is('DEVICES=2');
	process_restarts('not left out');
}

# the clock is set back by an hour: no wait becomes an hour longer
{
	local $ENV{LD_PRELOAD} = $node->config_data('--pkglibdir') . '/gpusort_server_calls.so';
	local $ENV{SET_CLOCK_FILE} = $clock_file;

	$node->restart;
	device_ready($node, 'clock');
	my $before = value('SELECT extract(epoch FROM now())');
	my $restarts = value('SELECT max(restarts) FROM gpusort_devices()');
	# no job was finished: the pause before the next start takes a second, after the second kill two
	next_device_process($node, kill_device_process($node, 'clock'), 'clock');
	my $process = kill_device_process($node, 'clock, once more');
	append_to_file($clock_file, "set\n");
	is(value('SELECT max(restarts) FROM gpusort_devices()'), $restarts + 1, 'clock: the pause is not over');
	cmp_ok(value('SELECT extract(epoch FROM now())'), '<', $before - 1800, 'clock: the time is set back');
	next_device_process($node, $process, 'clock, once more');
	is(value("SET gpusort.algorithm = gpu_radix; SELECT result FROM check_sort('SELECT k FROM t ORDER BY k')"), 'same',
		'clock: sorts run');
	unlink $clock_file;
}
# a library that cannot be loaded: its name is shown only to roles that may read the setting
{
	my $library = "$dir/hidden_name.so";

	append_to_file($library, "no library\n");
	value('CREATE ROLE plain; CREATE ROLE reader; GRANT pg_read_all_settings TO reader');
	$node->append_conf('postgresql.conf', "gpusort.device_library = '$library'\n");
	$node->restart;
	ok($node->poll_query_until('postgres', "SELECT state ~ '^none' FROM gpusort_devices()"), 'a bad library: none');
	for my $role ('plain', 'reader')
	{
		my $state = value("SET ROLE $role; SELECT state FROM gpusort_devices()");
		my $route = value("SET ROLE $role; SELECT reason FROM gpusort_route(1000000, 64) WHERE algorithm = "
			. "'gpu_radix'");

		for my $words ($state, $route)
		{
			like($words, qr/no device library/, "$role: the reason is shown");
			$role eq 'plain' ? unlike($words, qr/hidden_name/, "$role: the name is hidden") :
			  like($words, qr/hidden_name/, "$role: the name is shown");
		}
	}
	like(slurp_file($node->logfile), qr/DETAIL:  no device library: .*hidden_name/, 'the log has it');
	$node->append_conf('postgresql.conf', "gpusort.device_library = '\$libdir/libgpusort_cpu_abi'\n");
}

# without a background worker no shared memory is reserved, and the reason is shown
{
	my $reserved = "SELECT sum(size) FROM pg_shmem_allocations WHERE name = 'gpusort'";

	$node->restart;
	device_ready($node, 'with a worker');
	cmp_ok(value($reserved), '>', 8_000_000, 'the service has shared memory');
	is(value("SELECT count(*) FROM pg_shmem_allocations WHERE name ~ '^gpusort' AND name <> 'gpusort_test_faults'"), 1,
		'one segment');
	$node->append_conf('postgresql.conf', "max_worker_processes = 0\n");
	$node->restart;
	is(value('SELECT state FROM gpusort_devices()'), 'none: no background worker is free (max_worker_processes)',
		'no worker: the state says why');
	cmp_ok(value($reserved), '<', 1_000_000, 'no worker: no shared memory is reserved for the service');
	like(slurp_file($node->logfile), qr/gpusort cannot use GPUs, because no background worker is free/,
		'no worker: the log tells why');
	is(value("SELECT result FROM check_sort('SELECT k FROM t ORDER BY k')"), 'same', 'no worker: the CPU sorts');
}
$node->stop;
done_testing();
