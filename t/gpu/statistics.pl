# statistics.pl: gpusort_device_stat and gpusort_device_failures.
#
# The views count the jobs and failures of each device.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GpuSortTest;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

plan skip_all => 'the fake device is needed' if $ENV{GPUSORT_TEST_LIBRARY};

fake_device_is();

my $node = new_node('statistics', conf => <<CONF);
gpusort.device_library = '\$libdir/libgpusort_cpu_abi'
gpusort.staging_memory = 8MB
gpusort.device_memory = 24MB
gpusort.device_share = 100
gpusort.device_patience = 1h
shared_buffers = 64MB
log_min_messages = log
CONF
my $started = time;
device_ready($node, 'start');
my $rows = 200_000;
$node->safe_psql('postgres', <<SQL);
CREATE TABLE t AS SELECT i AS id, (mix(i) - 2147483648)::int4 AS k FROM generate_series(1, $rows) i;
VACUUM ANALYZE t;
CREATE ROLE plain;
SQL

sub value { return $node->safe_psql('postgres', @_) }
sub stat_is { my ($columns, $want, $name) = @_; is(value("SELECT $columns FROM gpusort_device_stat"), $want, $name) }
sub failures { return value("SELECT coalesce(device::text, '-') || ' ' || reason || ' ' || failures FROM "
	. "gpusort_device_failures ORDER BY 1") }

my $set = "SET work_mem = '256MB'; SET gpusort.algorithm = gpu_radix;";
my $sort = "SELECT count(*) FROM (SELECT k FROM t ORDER BY k OFFSET 0) s;";
my $all = 'device, jobs_done, jobs_failed, busy_seconds, bytes_up, bytes_down';

# before the first job
stat_is($all, '0|0|0|0|0|0', 'no job yet');
is(failures(), '', 'no failure yet');

# keys of four bytes, to the device and back
value($set . $sort x 5);
device_unused($node, 'five sorts');
stat_is('jobs_done, jobs_failed', '5|0', 'five jobs');
for my $way ('up', 'down')
{
	my $bytes = value("SELECT bytes_$way FROM gpusort_device_stat");
	cmp_ok($bytes, '>=', 5 * 4 * $rows, "bytes $way: all keys");
	cmp_ok($bytes, '<=', 5.2 * 4 * $rows, "bytes $way: and little more");
}
my $busy = value('SELECT busy_seconds FROM gpusort_device_stat');
cmp_ok($busy, '>', 0, 'the device was busy');
cmp_ok($busy, '<=', time - $started, 'no longer than the elapsed time');
is(value('SET ROLE plain; SELECT jobs_done FROM gpusort_device_stat'), 5, 'any role can read the view');
fails_like($node, 'SET ROLE plain; SELECT gpusort_stat_reset()', qr/permission denied/, 'reset is not allowed');

# a job whose session does not read its rows does not count as busy time
{
	my $s = new_session($node);
	my $pid = $s->query('SELECT pg_backend_pid()');

	gate_make($node);
	gate_shut();
	$s->query("SET work_mem = '256kB'; SET gpusort.algorithm = gpu_radix");
	begin_query($s, 'SELECT count(*) FROM (SELECT gate(row_number() OVER (), 10) FROM '
		. '(SELECT k, id FROM t ORDER BY k OFFSET 0) q0) q');
	gate_reached($node, 'a job whose rows are not read');
	is(value('SELECT sum(jobs) FROM gpusort_devices()'), 1, 'the job holds the device');
	my $before = value('SELECT busy_seconds FROM gpusort_device_stat');
	select undef, undef, undef, 2;
	cmp_ok(value('SELECT busy_seconds FROM gpusort_device_stat') - $before, '<', 1, 'the device is not busy');
	value("SELECT pg_cancel_backend($pid)");
	gate_open();
	$s->quit;
	device_unused($node, 'rows that are not read');
}

# a job whose session does not go on
{
	my $done = value('SELECT jobs_done FROM gpusort_device_stat');
	my $s = begin_sort($node, "$set SET gpusort.device_fault = hang_sort", $sort);
	ok($node->poll_query_until('postgres',
		'SELECT sum(jobs) = 1 AND ' . device_awaited($s) . ' FROM gpusort_devices()'), 'a job hangs');

	# the job holds most of the memory: another sort waits
	my $w = begin_sort($node, $set, $sort);
	ok($node->poll_query_until('postgres', 'SELECT waiting = 1 FROM gpusort_device_stat'), 'another sort waits');
	value("SELECT pg_cancel_backend($s->{backend_pid})");
	is($w->query('SELECT 1'), "$rows\n1", 'the waiting sort is admitted');
	$_->quit for $s, $w;
	device_unused($node, 'waiting');
	stat_is('waiting', '0', 'no sort waits');
	stat_is("jobs_done - $done, jobs_failed", '1|0', 'a job that was cancelled is neither done nor failed');
}

# failures of jobs
value("$set SET gpusort.device_fault = memory_start; $sort") for 1 .. 3;
is(failures(), '0 fault injected by gpusort.device_fault 3', 'three sorts found no memory');
stat_is('jobs_failed', '3', 'failed jobs are counted');
value("$set SET gpusort.device_fault = corrupt_late; $sort");
like(failures(), qr/^0 .* 1\n0 fault injected by gpusort.device_fault 3$|^0 fault.* 3\n0 .* 1$/, 'a wrong result');

# failures of the process
value('SELECT gpusort_stat_reset()');
stat_is($all, '0|0|0|0|0|0', 'reset');
is(failures(), '', 'reset: failures');
for my $case ([ 'error_sort', qr/^0 CUDA error on device 0: fault injected by gpusort.device_fault .* 1$/m ],
	[ 'freeze', qr/^0 a call of the driver has not returned for \d+ s 1$/m ])
{
	my ($fault, $want) = @$case;

	value("$set SET gpusort.device_fault = $fault; $sort");
	like(failures(), $want, "$fault: the reason and its device");
	device_ready($node, $fault);
}
fake_device_is('CRASH_SORT=0');
value($set . $sort);
fake_device_is();
device_ready($node, 'crash');
like(failures(), qr/^0 the device process was terminated by signal 11: [\w ]+ 1$/m, 'crash: the reason and its device');
value($set . $sort);
# the next process waits until the device can be opened
fake_device_is('STUCK_OPEN=0');
kill_device_process($node, 'killed');
ok($node->poll_query_until('postgres', "SELECT state ~ '^down' FROM gpusort_devices()"), 'the state is down');
stat_is('device, name, jobs_done, memory_total IS NULL', '0|CPU fake device 0|1|t', 'the counts remain');
like(failures(), qr/^- the device process was terminated by signal 9: \w+ 1$/m, 'the reason is shown');
fake_device_is();
device_ready($node, 'killed');
like(failures(), qr/^- the device process was terminated by signal 9/m, 'the reason remains with a new process');
is(value('SELECT count(*) FROM gpusort_device_failures WHERE last_failure BETWEEN now() - interval \'10 min\' AND '
	. 'clock_timestamp()'), value('SELECT count(*) FROM gpusort_device_failures'), 'the time is shown');

# a device that cannot be opened
fake_device_is('DEVICES=2', 'LOST=1');
value($set . $sort);
next_device_process($node, kill_device_process($node, 'left out'), 'left out');
like(failures(), qr/^1 gpusort: device 1 is left out: the device is lost 1$/m, 'a device that is left out');
stat_is('device', '0', 'only the opened device has counts');

$node->stop;
done_testing();
