# slow_calls.pl: a driver call that blocks delays its own job only.
#
# Calls of the fake device block until its settings' file releases them. While one call blocks, sorts of other sessions
# begin and end. The test checks this order of events and measures no times.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GpuSortTest;
use PostgreSQL::Test::Utils;
use Test::More;

fake_device_is('DEVICES=2');

my $node = new_node('calls', conf => <<CONF);
gpusort.device_library = '\$libdir/libgpusort_cpu_abi'
gpusort.staging_memory = 32MB
gpusort.device_memory = 256MB
shared_buffers = 64MB
log_min_messages = log
CONF

device_ready($node, 'start');
$node->safe_psql('postgres', <<SQL);
CREATE TABLE t AS SELECT i AS id, (mix(i) - 2147483648)::int4 AS k FROM generate_series(1, 100000) i;
CREATE UNIQUE INDEX ON t (id);
VACUUM ANALYZE t;
ALTER DATABASE postgres SET gpusort.algorithm = 'gpu_radix';
SQL

my $gpu = qr/^gpu radix: .*device ready/;
my %modes = (keys => '64MB', rows => '256kB');

# On each device and in each mode a sort of 10,000 rows begins and ends.
sub others_sort
{
	my ($name) = @_;

	for my $device ('0', '1')
	{
		for my $mode (sort keys %modes)
		{
			my $set = "SET work_mem = '$modes{$mode}'; SET gpusort.device = '$device'; SET statement_timeout = '120s';";

			is($node->safe_psql('postgres',
				"$set SELECT result FROM check_sort('SELECT id, k FROM t WHERE id <= 10000 ORDER BY k, id')"), 'same',
				"$name: another sort on device $device, $mode");
			like($node->safe_psql('postgres',
				"$set SELECT sort_route('SELECT id, k FROM t WHERE id <= 10000 ORDER BY k, id')"), $gpu,
				"$name: device $device, $mode: the GPU sorts");
		}
	}
}

# calls that block: the start of a sort; the allocation for a new job and for a growing job
for my $case ([ 'a sort', 'STUCK_ROWS=90000' ], [ 'memory', 'STUCK_KB=350' ])
{
	my ($call, $stuck) = @$case;

	for my $mode (sort keys %modes)
	{
		my $name = "$call waits, $mode";
		my $s = new_session($node);

		fake_device_is('DEVICES=2', $stuck);
		$s->query("SET work_mem = '$modes{$mode}'; SET gpusort.device = '0'");
		begin_query($s, "SELECT result FROM check_sort('SELECT id, k FROM t ORDER BY k')");
		ok($node->poll_query_until('postgres', 'SELECT sum(jobs) = 1 FROM gpusort_devices()'), "$name: a job runs");
		if ($call eq 'memory')
		{
			# allocations that do not block, on the other device; on the same device they wait for the lock
			is($node->safe_psql('postgres',
				"SET work_mem = '64MB'; SET gpusort.device = '1'; SET statement_timeout = '120s'; SELECT result FROM "
				. "check_sort('SELECT id, k FROM t WHERE id <= 10000 ORDER BY k, id')"), 'same',
				"$name: another sort on device 1");
		}
		else
		{
			others_sort($name);
		}
		# jobs of other sorts may still be closing
		ok($node->poll_query_until('postgres', 'SELECT sum(jobs) = 1 FROM gpusort_devices()'),
			"$name: its job still runs");
		fake_device_is('DEVICES=2');
		is($s->query('SELECT 1'), "same\n1", "$name: it returns all rows when the call is released");
		$s->quit;
		device_unused($node, $name);
	}
}

# Jobs that wait for a device's lock, which another job's call holds, are not regarded as hanging: neither a job that
# ends nor one that begins. Only these jobs have a timeout of a second.
{
	my ($closes, $waits, $begins) = map { new_session($node) } 1 .. 3;
	my $offset = -s $node->logfile;
	my $pid = $closes->query('SELECT pg_backend_pid()');
	my $service = device_process($node);
	my $jobs = 'SELECT sum(jobs) = %d FROM gpusort_devices()';

	$_->query("SET gpusort.device = '0'") for $closes, $waits, $begins;
	$_->query('SET gpusort.device_timeout = 1000') for $closes, $begins;
	$closes->query("SET work_mem = '256kB'");
	begin_query($closes,
		'SELECT count(pg_sleep(0.1)) FROM (SELECT id, k FROM t WHERE id <= 20000 ORDER BY k OFFSET 0) s');
	ok($node->poll_query_until('postgres',
			"SELECT phase = 'emit' AND device_bytes > 0 FROM gpusort_progress WHERE pid = $pid"),
		'lock: rows are returned');
	fake_device_is('DEVICES=2', 'STUCK_KB=350');
	begin_query($waits, "SELECT result FROM check_sort('SELECT id, k FROM t ORDER BY k')");
	ok($node->poll_query_until('postgres', sprintf $jobs, 2), 'lock: another job begins');
	sleep 1;
	begin_query($begins, "SELECT result FROM check_sort('SELECT id, k FROM t WHERE id <= 10000 ORDER BY k, id')");
	ok($node->poll_query_until('postgres', sprintf $jobs, 3), 'lock: a third job begins');
	$node->safe_psql('postgres', "SELECT pg_cancel_backend($pid)");
	$closes->query('SELECT 1');
	sleep 4;
	is($node->safe_psql('postgres', 'SELECT sum(jobs) FROM gpusort_devices()'), '3', 'lock: all three jobs wait');
	fake_device_is('DEVICES=2');
	is($_->query('SELECT 1'), "same\n1", 'lock: the waiting sorts return all rows at last') for $waits, $begins;
	is(device_process($node), $service, 'lock: the device process is the same');
	unlike(slurp_file($node->logfile, $offset), qr/continues without the GPU|hangs/, 'lock: no fallback to the CPU');
	$_->quit for $closes, $waits, $begins;
	device_unused($node, 'lock');
}

# a call that holds the lock and does not return is regarded as hanging
{
	my $offset = -s $node->logfile;
	my $s = new_session($node);
	my $service = device_process($node);

	fake_device_is('DEVICES=2', 'STUCK_KB=350');
	is($node->safe_psql('postgres', "SET work_mem = '64MB'; SET gpusort.device_timeout = 1000; SELECT result FROM "
		. "check_sort('SELECT id, k FROM t ORDER BY k')"), 'same', 'a call that hangs');
	fake_device_is('DEVICES=2');
	ok($node->log_contains(qr/hangs and is killed\n.*device \d has made no progress with a sort for 1 s/, $offset),
		'a call that hangs: the log reports it');
	next_device_process($node, $service, 'a call that hangs');
	$s->quit;
	device_unused($node, 'a call that hangs');
}

# a waiting sort can be cancelled, and its resources are freed
{
	my $s = new_session($node);
	my $pid = $s->query('SELECT pg_backend_pid()');

	fake_device_is('DEVICES=2', 'STUCK_ROWS=90000');
	$s->query("SET work_mem = '64MB'");
	begin_query($s, 'SELECT count(*) FROM (SELECT id, k FROM t ORDER BY k OFFSET 0) s');
	ok($node->poll_query_until('postgres', 'SELECT sum(jobs) = 1 FROM gpusort_devices()'), 'cancel: a job runs');
	$node->safe_psql('postgres', "SELECT pg_cancel_backend($pid)");
	$s->query('SELECT 1');
	like($s->{stderr}, qr/canceling statement/, 'cancel: the statement ends');
	$s->quit;
	device_unused($node, 'cancel');
	fake_device_is('DEVICES=2');
	others_sort('after a cancel');
}

# many sorts at the same time
{
	my $script = $node->basedir . '/script.sql';

	append_to_file($script, "\\set n random(1000, 20000)\n\\set mem random(64, 3000)\nSET work_mem = :mem;\nSELECT "
		. "must_be_same('SELECT id, k FROM t WHERE id <= ' || :n || ' ORDER BY k, id');\n");
	$node->command_ok([ 'pgbench', '-n', '-c', 24, '-j', 2, '-t', 3, '-f', $script, 'postgres' ], 'many sessions');
	device_unused($node, 'many sessions');
}

$node->stop;
done_testing();
