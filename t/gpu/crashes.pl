# crashes.pl: a driver that crashes the device process.
#
# A crash is counted against the device whose driver was called, in a thread or in the main loop. After three crashes in
# a row the device is left out, and sorts use the other device. Uses two fake devices.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GpuSortTest;
use PostgreSQL::Test::Utils;
use Test::More;

fake_device_is('DEVICES=2');

my $node = new_node('crashes', conf => <<CONF);
gpusort.device_library = '\$libdir/libgpusort_cpu_abi'
gpusort.staging_memory = 8MB
gpusort.device_memory = 256MB
shared_buffers = 64MB
CONF

device_ready($node, 'start');
$node->safe_psql('postgres', <<SQL);
CREATE TABLE t AS SELECT i AS id, (mix(i) - 2147483648)::int4 AS k, 'x' AS s FROM generate_series(1, 40000) i;
VACUUM ANALYZE t;
ALTER DATABASE postgres SET gpusort.algorithm = 'gpu_radix';
SQL

my $gpu = qr/^gpu radix: .*device ready/;
my $devices = "SELECT string_agg(device || ' ' || state, ', ' ORDER BY device) FROM gpusort_devices()";
my $restarts = 'SELECT max(restarts) FROM gpusort_devices()';
my %modes = (keys => '64MB', rows => '256kB');

# Sorts on one device, which crashes, until it is left out. A successful sort on the other device precedes each crash:
# so the next process starts without a long pause.
sub left_out
{
	my ($name, $crash, $device, $mode) = @_;
	my $other = 1 - $device;
	my $offset = -s $node->logfile;

	fake_device_is('DEVICES=2');
	$node->restart;
	device_ready($node, $name);
	is($node->safe_psql('postgres', $devices), '0 ready, 1 ready', "$name: both devices are ready");
	fake_device_is('DEVICES=2', "$crash=$device");
	for my $n (1 .. 3)
	{
		my $before = $node->safe_psql('postgres', $restarts);

		like($node->safe_psql('postgres', "SET gpusort.device = '$other'; SET work_mem = '$modes{$mode}'; SELECT "
			. "sort_route('SELECT * FROM t ORDER BY k')"), $gpu, "$name: the other device works");
		is($node->safe_psql('postgres', "SET gpusort.device = '$device'; SET work_mem = '$modes{$mode}'; SELECT result "
			. "FROM check_sort('SELECT * FROM t ORDER BY k, id')"), 'same', "$name: crash $n: all rows");
		ok($node->poll_query_until('postgres', "SELECT max(restarts) > $before FROM gpusort_devices()"),
			"$name: crash $n: a new process starts");
		device_ready($node, "$name: crash $n");
	}
	is($node->safe_psql('postgres', $devices), "$other ready", "$name: the device is left out");
	ok($node->log_contains(qr/gpusort: device $device failed 3 times in a row/, $offset), "$name: the log reports it");
	like($node->safe_psql('postgres',
		"SET work_mem = '$modes{$mode}'; SELECT sort_route('SELECT * FROM t ORDER BY k')"), $gpu,
		"$name: sorts go to the other device");
	device_unused($node, $name);
}

left_out('a call in a thread', 'CRASH_SORT', 0, 'keys');
left_out('a call in a thread, for the second device', 'CRASH_SORT', 1, 'rows');
left_out('a call in the main loop', 'CRASH_GATHER', 0, 'rows');
left_out('abort()', 'ABORT_SORT', 1, 'keys');

# a crash when the device is opened: it needs no job
fake_device_is('DEVICES=2', 'CRASH_CONTEXT=0');
$node->restart;
ok($node->poll_query_until('postgres', "$devices", '1 ready'), 'opening: the device is left out');
like($node->safe_psql('postgres', "SELECT sort_route('SELECT * FROM t ORDER BY k')"), $gpu,
	'opening: sorts go to the other device');

# a process that is killed by hand is not counted as a crash
fake_device_is('DEVICES=2');
$node->restart;
device_ready($node, 'killed');
for my $signal ('KILL', 'SEGV', 'KILL', 'SEGV')
{
	like($node->safe_psql('postgres', "SELECT sort_route('SELECT * FROM t ORDER BY k')"), $gpu, "SIG$signal: a sort");
	my $pid = device_process($node);
	my $s = new_session($node);

	$s->query('SET gpusort.device_fault = hang_sort');
	begin_query($s, "SELECT result FROM check_sort('SELECT * FROM t ORDER BY k, id')");
	ok($node->poll_query_until('postgres', 'SELECT sum(jobs) = 1 FROM gpusort_devices()'), "SIG$signal: a job runs");
	is(kill($signal, $pid), 1, "SIG$signal: the device process is killed");
	is($s->query('SELECT 1'), "same\n1", "SIG$signal: the sort returns all rows");
	$s->quit;
	next_device_process($node, $pid, "SIG$signal");
}
is($node->safe_psql('postgres', $devices), '0 ready, 1 ready', 'killed: both devices are ready');
device_unused($node, 'killed');

$node->stop;
done_testing();
