# several_devices.pl: sorts with several devices.
#
# The fake device imitates several devices. With GPUSORT_TEST_LIBRARY (service.pl) the first two GPUs of the machine are
# used.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GpuSortTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $library = $ENV{GPUSORT_TEST_LIBRARY};
my $fake = !defined $library;
$library //= '$libdir/libgpusort_cpu_abi';

$ENV{GPUSORT_CPU_ABI_DEVICES} = 3;
my $node = new_node('devices', conf => <<CONF);
gpusort.device_library = '$library'
gpusort.device = '0, 2'
gpusort.staging_memory = 8MB
gpusort.device_memory = 24MB
gpusort.device_share = 100
gpusort.device_patience = 1h
shared_buffers = 64MB
log_min_messages = log
CONF

my $devices = "SELECT string_agg(device || ' ' || state || ' ' || memory_budget / 1048576 || ' ' || memory_used, ', ' "
	. "ORDER BY device) FROM gpusort_devices()";

if ($fake)
{
	device_ready($node, 'list');
	is($node->safe_psql('postgres', $devices), '0 ready 24 0, 2 ready 24 0', "the server's own list of devices");
}
$node->append_conf('postgresql.conf', 'gpusort.device = ' . ($fake ? 'auto' : "'0, 1'"));
$ENV{GPUSORT_CPU_ABI_DEVICES} = 2;
$node->restart;
if (!$fake)
{
	$node->poll_query_until('postgres', "SELECT bool_and(state = 'ready') FROM gpusort_devices()");
	plan skip_all => 'there is one device' if $node->safe_psql('postgres',
		'SELECT count(*) FROM gpusort_devices()') < 2;
}
device_ready($node, 'two');
is($node->safe_psql('postgres', $devices), '0 ready 24 0, 1 ready 24 0', 'all devices');

$node->safe_psql('postgres', <<SQL);
CREATE TABLE t AS SELECT i AS id, (mix(i) - 2147483648)::int4 AS k FROM generate_series(1, 400000) i;
CREATE UNIQUE INDEX ON t (id);
VACUUM ANALYZE t;
SQL

# 24 bytes a row, and 8 MB: a device has room for one such sort
my $query = 'SELECT k FROM t WHERE id <= 350000 ORDER BY k';
my $set = "SET work_mem = '256MB'; SET gpusort.algorithm = gpu_radix;";
my $gpu = qr/gpu \w+: .*device ready/;

# Starts a session with a sort on these devices; a sort that hangs holds its memory.
sub session
{
	my ($list, $fault) = @_;
	return begin_sort($node, "$set SET gpusort.device = '$list'; SET gpusort.device_fault = " . ($fault // 'none'),
		"SELECT sort_route('$query')");
}

# Waits until there is this number of jobs on each device and of waiting sorts.
sub jobs_are
{
	my ($jobs, $waiting, $name) = @_;
	ok($node->poll_query_until('postgres',
			"SELECT (string_agg(jobs::text, ' ' ORDER BY device), max(waiting)) = ('$jobs', $waiting)"
			. ' FROM gpusort_devices()'), $name);
}

# Waits until the jobs of these sessions have all the memory that they need.
sub jobs_hold
{
	my ($jobs, $name, @holders) = @_;
	my $needs = 24 * 350_000 + 8 * 1024 * 1024;
	ok($node->poll_query_until('postgres',
			"SELECT string_agg(CASE WHEN jobs = 1 AND memory_used < $needs THEN 'grows' ELSE jobs::text END, ' ' "
				. "ORDER BY device)"
			. join(' AND ', " = '$jobs'", map { device_awaited($_) } @holders) . ' FROM gpusort_devices()'), $name);
}

sub cancel
{
	for my $s (@_)
	{
		$node->safe_psql('postgres', "SELECT pg_cancel_backend($s->{backend_pid})");
		$s->query('SELECT 1');
		$s->quit;
	}
}

sub finishes
{
	my ($s, $name) = @_;
	like($s->query('SELECT 1'), qr/^$gpu.*\n1$/s, $name);
	$s->quit;
}

# the choice of a device
for my $case ([ 'auto', '1 0' ], [ '0', '1 0' ], [ '1', '0 1' ], [ '1,0', '1 0' ])
{
	my ($list, $jobs) = @$case;
	my $s = session($list, 'hang_sort');
	jobs_are($jobs, 0, "gpusort.device = $list");
	cancel($s);
	jobs_are('0 0', 0, "gpusort.device = $list: over");
}

# jobs use different devices, and a sort waits for its only device, and other sorts use the other one
{
	my $first = session('auto', 'hang_sort');
	jobs_hold('1 0', 'the first job', $first);
	my $second = session('auto', 'hang_sort');
	jobs_hold('1 1', 'the second job is on the other device', $first, $second);
	my $waits = session('0');
	jobs_are('1 1', 1, 'a sort waits for the first');
	my @others = map { session('auto') } 1 .. 2;
	jobs_are('1 1', 3, 'sorts wait for any device');
	cancel($second);
	finishes($_, 'a sort for any device gets the second one') for @others;
	jobs_are('1 0', 1, 'the sort still waits for the first device');
	cancel($first);
	finishes($waits, 'the sort gets the first device');
	device_unused($node, 'spread');
}

# many sessions on both devices
{
	my $script = $node->basedir . '/script.sql';
	append_to_file($script, <<SQL);
\\set n random_exponential(1, 30000, 3)
\\set mem random(64, 3000)
$set
SET work_mem = :mem;
SELECT must_be_same('SELECT * FROM t WHERE id <= ' || :n || ' ORDER BY k');
SELECT must_be_same('SELECT k FROM t WHERE id <= ' || :n || ' ORDER BY k DESC');
SQL
	$node->command_ok([ 'pgbench', '-n', '-c', 12, '-j', 2, '-t', 12, '-f', $script, 'postgres' ], 'many sessions');
	device_unused($node, 'many sessions');
}

# a device that fails three times
for my $n (1 .. 3)
{
	device_ready($node, "failure $n");
	# after a successful job on the other device the next process starts without a pause
	like($node->safe_psql('postgres', "$set SET gpusort.device = '0'; SELECT sort_route('$query')"), $gpu,
		'the first device works');
	my $restarts = $node->safe_psql('postgres', 'SELECT max(restarts) FROM gpusort_devices()');
	is($node->safe_psql('postgres', "$set SET gpusort.device = '1'; SET gpusort.device_fault = "
		. ($n == 2 ? 'freeze' : 'error_sort') . "; SELECT result FROM check_sort('$query')"), 'same',
		"the second fails: $n");
	ok($node->poll_query_until('postgres', "SELECT max(restarts) > $restarts FROM gpusort_devices()"), 'a new process');
}
device_ready($node, 'one fails');
is($node->safe_psql('postgres', $devices), '0 ready 24 0', 'the failed device is left out');
ok($node->log_contains(qr/gpusort: device 1 failed 3 times in a row/), 'the log reports it');
like($node->safe_psql('postgres', "$set SELECT sort_route('$query')"), $gpu, 'the other device sorts');
like($node->safe_psql('postgres', "$set SET gpusort.device = '1'; SELECT sort_route('$query')"), qr/^cpu/,
	'no sort waits for the failed device');
# when the last device fails, too, all devices are tried again
for my $n (1 .. 3)
{
	device_ready($node, "last device, failure $n");
	my $restarts = $node->safe_psql('postgres', 'SELECT max(restarts) FROM gpusort_devices()');
	is($node->safe_psql('postgres', "$set SET gpusort.device_fault = error_sort; SELECT result FROM "
		. "check_sort('$query')"), 'same', "the last fails: $n");
	ok($node->poll_query_until('postgres', "SELECT max(restarts) > $restarts FROM gpusort_devices()"), 'a new process');
}
device_ready($node, 'all fail');
is($node->safe_psql('postgres', $devices), '0 ready 24 0, 1 ready 24 0', 'all devices are tried again');

# a device that cannot be opened
if ($fake)
{
	$ENV{GPUSORT_CPU_ABI_LOST} = 0;
	$node->restart;
	device_ready($node, 'lost');
	my $predicted = "SELECT round(predicted_ms) FROM gpusort_route(1000, 32) WHERE algorithm = 'gpu_bucket'";
	is($node->safe_psql('postgres', $predicted), '0', 'handing over a job costs little');
	is($node->safe_psql('postgres', $devices), '1 ready 24 0', 'a lost device leaves the other');
	like($node->safe_psql('postgres', "$set SELECT sort_route('$query')"), $gpu, 'the other device sorts after a loss');
	device_unused($node, 'lost');

	# predictions use the costs that the library reports
	$ENV{GPUSORT_CPU_ABI_JOB_TIMES} = 10000;
	$node->restart;
	device_ready($node, 'costs');
	is($node->safe_psql('postgres', $predicted), '3000', 'handing over a job costs much');
	delete $ENV{GPUSORT_CPU_ABI_JOB_TIMES};

	# blocks that take more memory than requested: kept blocks of half the budget leave too little for a large job
	$ENV{GPUSORT_CPU_ABI_WASTE} = 400;
	$node->restart;
	device_ready($node, 'waste');
	my $s = begin_sort($node, "$set SET gpusort.device_fault = hang_sort",
		"SELECT sort_route('SELECT k FROM t WHERE id <= 200000 ORDER BY k')");
	jobs_are('1', 0, 'waste: a job');
	ok($node->poll_query_until('postgres', 'SELECT memory_used > 16000000 FROM gpusort_devices()'),
		'the memory of the job is shown');
	cancel($s);
	device_unused($node, 'waste');
	like($node->safe_psql('postgres', "$set SELECT sort_route('$query')"), $gpu, 'a large job gets blocks of its own');
	device_unused($node, 'waste, large');
	delete $ENV{GPUSORT_CPU_ABI_WASTE};
	delete $ENV{GPUSORT_CPU_ABI_LOST};

	# the largest number of devices, their numbers, and the cache of code that a driver compiles
	$ENV{GPUSORT_CPU_ABI_DEVICES} = 64;
	$ENV{GPUSORT_CPU_ABI_COMPILES} = 1;
	my $cache = $node->data_dir . '/gpusort.cache';
	my $offset = -s $node->logfile;
	$node->append_conf('postgresql.conf', "gpusort.device = '9, 40, 63'");
	$node->restart;
	device_ready($node, 'high numbers');
	is($node->safe_psql('postgres', $devices), '9 ready 24 0, 40 ready 24 0, 63 ready 24 0', 'high numbers');
	is($node->safe_psql('postgres', "$set SET gpusort.device = '63'; SET gpusort.device_fault = memory_start; SELECT "
		. "result FROM check_sort('$query')"), 'same', 'the last one fails a sort');
	for my $device (40, 63)
	{
		my $on = session($device, 'hang_sort');
		jobs_are(join(' ', map { $_ == $device ? 1 : 0 } 9, 40, 63), 0, "a job on device $device");
		cancel($on);
		like($node->safe_psql('postgres', "$set SET gpusort.device = '$device'; SELECT sort_route('$query')"), $gpu,
			"device $device sorts");
	}
	like($node->safe_psql('postgres', "$set SET gpusort.device = '8'; SELECT sort_route('$query')"), qr/^cpu/,
		'a device that was not opened');
	fails_like($node, "SET gpusort.device = '64'", qr/invalid value for parameter "gpusort.device"/,
		'a device number above the limit');
	device_unused($node, 'high numbers');
	$node->append_conf('postgresql.conf', 'gpusort.device = auto');
	$node->restart;
	device_ready($node, '64 devices');
	is($node->safe_psql('postgres', 'SELECT count(*), min(device), max(device) FROM gpusort_devices()'), '64|0|63',
		'all of them');
	like($node->safe_psql('postgres', "$set SELECT sort_route('$query')"), $gpu, '64 devices sort');
	is(scalar(() = slurp_file($node->logfile,
		$offset) =~ /fake device: compiles; keeps at most 268435456 bytes in \Q$cache\E$/mg), 1,
		'compiled once, in all processes');
	is((stat $cache)[2] & 07777, 0700, 'only the server can read the compiled code');
	$ENV{CUDA_CACHE_PATH} = $node->basedir . '/elsewhere';
	$node->restart;
	device_ready($node, 'another place');
	like(slurp_file($node->logfile, $offset),
		qr/fake device: compiles; keeps at most \? bytes in \Q$ENV{CUDA_CACHE_PATH}\E$/m,
		'a cache path that is set is not changed');
	delete $ENV{CUDA_CACHE_PATH};
}

$node->stop;
done_testing();
