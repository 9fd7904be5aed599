# room.pl: sorts that find no room on a device.
#
# A sort takes the room that there is now, or runs on the CPU. A sort whose algorithm is forced waits for a limited
# time.
# GPUSORT_TEST_LIBRARY names another GPU library than the fake device.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GpuSortTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $library = $ENV{GPUSORT_TEST_LIBRARY} || '$libdir/libgpusort_cpu_abi';
my $node = new_node('device_room', conf => <<CONF);
gpusort.device_library = '$library'
gpusort.device = 0
gpusort.staging_memory = 8MB
gpusort.device_memory = 24MB
gpusort.device_share = 100
gpusort.device_patience = 1h
shared_buffers = 64MB
log_min_messages = log
CONF

device_ready($node, 'start');
$node->safe_psql('postgres', <<SQL);
CREATE TABLE t AS SELECT i AS id, (mix(i) - 2147483648)::int4 AS k FROM generate_series(1, 400000) i;
CREATE UNIQUE INDEX ON t (id);
VACUUM ANALYZE t;
SQL

# Keys-only sorts take 24 bytes a row on the device and 8 MB; a quarter more if keys are sent while the table is read.
my %rows = (holder => 200_000, large => 350_000, small => 40_000);
my %query = map { $_ => "SELECT k FROM t WHERE id <= $rows{$_} ORDER BY k" } keys %rows;
my $set = "SET work_mem = '256MB'; SET gpusort.algorithm = gpu_radix;";

# Starts a session with a sort of this kind; a sort that hangs holds its memory.
sub session
{
	my ($kind, $fault) = @_;
	return begin_sort($node, "$set SET gpusort.device_fault = " . ($fault // 'none'),
		"SELECT sort_route('$query{$kind}')");
}

# Waits until there is this number of jobs and of waiting sorts, and another condition holds.
sub wait_for
{
	my ($jobs, $waiting, $name, $and) = @_;
	$and //= 'true';
	ok($node->poll_query_until('postgres',
			"SELECT (sum(jobs), max(waiting)) = ($jobs, $waiting) AND $and FROM gpusort_devices()"), $name);
}

# Starts a job that holds memory: most of it, unless a kind is named.
sub holder
{
	my ($name, $kind) = (@_, 'holder');
	my $s = session($kind, 'hang_sort');
	my $needs = 24 * $rows{$kind} + 8 * 1024 * 1024;

	wait_for(1, 0, $name, "sum(memory_used) >= $needs AND " . device_awaited($s));
	return $s;
}

sub end_query { my ($s, $how) = @_; $node->safe_psql('postgres',
	'SELECT pg_' . ($how // 'cancel') . "_backend($s->{backend_pid})") }

sub finishes_with
{
	my ($s, $where, $name) = @_;
	like($s->query('SELECT 1'), qr/^$where.*\n1$/s, $name);
	$s->quit;
}

my $gpu = qr/gpu \w+: .*device ready/;

# a sort that waits for room does not keep it from others
{
	my $holder = holder('a job holds most of the memory');
	my $large = session('large', 'hang_sort');
	wait_for(1, 1, 'a large sort waits');
	# extensions can name their wait events since PostgreSQL 17
	my $named = $node->safe_psql('postgres', 'SHOW server_version_num') >= 170000;
	for my $w ([ $holder, 'GpuSortDevice' ], [ $large, 'GpuSortRoom' ])
	{
		my ($s, $event) = ($w->[0], $named ? $w->[1] : 'Extension');
		ok($node->poll_query_until('postgres', "SELECT wait_event_type = 'Extension' AND wait_event = '$event' FROM "
			. "pg_stat_activity WHERE pid = $s->{backend_pid}"),
			"the wait event of the sort: $w->[1]");
	}
	finishes_with(session('small'), $gpu, 'a small sort takes the room that there is');
	wait_for(1, 1, 'the large sort still waits');
	end_query($holder);
	wait_for(1, 0, 'the large sort gets the room', 'sum(memory_used) > 16000000');
	end_query($large);
	$_->quit for $holder, $large;
	device_unused($node, 'room');
}

# A sort whose job cannot grow drops the job and waits for a larger one. The memory that the old job still holds does
# not count against it.
{
	my $holder = holder('linger: a job holds most of the memory');
	my $large = session('large', 'linger');
	wait_for(1, 1, 'linger: a sort waits while its first job is closing');
	end_query($holder);
	finishes_with($large, $gpu, 'linger: the sort gets a larger job');
	$holder->quit;
	device_unused($node, 'linger');
}

# a sort that is cancelled while it waits
for my $how ('cancel', 'terminate')
{
	my $holder = holder("$how: a job holds most of the memory");
	my $large = session('large');
	my $other = session('large');
	wait_for(1, 2, "$how: two sorts wait");
	end_query($large, $how);
	wait_for(1, 1, "$how: one waits");
	end_query($holder);
	finishes_with($other, $gpu, "$how: the other one is admitted");
	$holder->quit;
	if ($how eq 'cancel')
	{
		$large->query('SELECT 1');
		like($large->{stderr}, qr/canceling statement due to user request/, 'cancelled while waiting');
		session_ok($large, 'cancelled while waiting');
		$large->quit;
	}
	else
	{
		$large->{run}->finish;
	}
	device_unused($node, $how);
}

# the device process ends: the waiting sorts go on
{
	my $holder = holder('killed: a job holds most of the memory');
	my @waiting = map { session('large') } 1 .. 3;
	wait_for(1, 3, 'killed: three sorts wait');
	kill_device_process($node, 'killed');
	# on the CPU; or with the next process, if it is ready in time
	finishes_with($_, qr/cpu .*no device, not gpu radix|$gpu/, 'killed: a waiting sort finishes') for @waiting;
	finishes_with($holder, qr/cpu .*device failed/, 'killed: the sort with a job goes on');
	device_ready($node, 'killed');
	device_unused($node, 'killed');
}

# a sort whose algorithm is not forced does not wait, and one that is forced waits for a limited time
{
	my $holder = holder('no room');
	my $full = qr/cpu .*device memory full/;
	my $q = "SELECT sort_route('$query{large}')";
	my $auto = "SET work_mem = '256MB'; SET gpusort.algorithm = auto; $q";

	like($node->safe_psql('postgres', $auto), $full, 'a sort that is not forced goes to the CPU');
	my $s = new_session($node);
	$s->query("$set SET gpusort.device_patience = '300ms'");
	like($s->query($q), $full, 'a sort that is forced waits in vain');
	end_query($holder);
	$holder->quit;
	device_unused($node, 'no room');
	like($node->safe_psql('postgres', $auto), $gpu, 'a sort that is not forced goes to the free device');
	like($s->query($q), $gpu, 'and so does the forced one');
	$s->quit;
}
# a sort that is larger than the device does not wait, and goes in parts
like($node->safe_psql('postgres', "$set SELECT sort_route('SELECT k, id FROM t t1 WHERE id > 0 UNION ALL SELECT k, id "
	. "FROM t ORDER BY k')"),
	qr/gpu radix: .*device ready, as set, \d+ parts/, 'larger than the device');

# many small sorts, and a large one at times, which may find room or not
{
	my $script = $node->basedir . '/small.sql';
	append_to_file($script, "$set\nSELECT must_be_same('$query{small}');\n");
	my ($out, $err) = ('', '');
	my $h = IPC::Run::start([ 'pgbench', '-n', '-c', '6', '-j', '2', '-T', '30', '-f', $script, '-h', $node->host, '-p',
		$node->port, 'postgres' ],
		'>', \$out, '2>', \$err);
	ok($node->poll_query_until('postgres', 'SELECT sum(jobs) > 0 FROM gpusort_devices()'), 'small sorts run');
	$node->safe_psql('postgres', "$set SET gpusort.device_patience = '300ms'; SELECT must_be_same('$query{large}')")
	  for 1 .. 5;
	$h->signal('INT');
	$h->finish;
	is($err, '', 'no error') or diag $out;
	device_unused($node, 'after small sorts');
}

# A session that has a job does not wait for a second one, but sorts on the CPU. The first sort of a merge join returns
# rows from the device, and keeps its job, while the second sort begins. The timeout is shorter than a sort with a
# forced algorithm waits.
{
	my $holder = holder('hold and wait: another session has a part of the memory', 'small');
	my $joins = 'SET enable_hashjoin = off; SET enable_nestloop = off; SET work_mem = "256kB";';
	my $both = 'SELECT count(*), sum(a.id * 7 + b.id) FROM (SELECT * FROM t WHERE id <= 40000) a JOIN (SELECT * FROM t '
	  . 'WHERE id <= 40000) b USING (k)';
	my $want = $node->safe_psql('postgres', "SET gpusort.enable = off; $both");

	is($node->safe_psql('postgres', "$set $joins SET statement_timeout = '8s'; $both"), $want,
		'hold and wait: the second sort does not wait');
	my $plan = $node->safe_psql('postgres',
		"$set $joins SET statement_timeout = '8s'; EXPLAIN (ANALYZE, COSTS OFF) $both");
	my @routes = $plan =~ /Sort Route: (.*)/g;
	like($routes[0], $gpu, 'hold and wait: the first has a job');
	like($routes[1], qr/^(?:cpu|presorted).*not gpu radix/, 'hold and wait: the CPU sorts the second');
	end_query($holder);
	$holder->quit;
	device_unused($node, 'hold and wait');

	my $script = $node->basedir . '/both.sql';
	append_to_file($script, "$set $joins\n$both;\n");
	$node->command_ok([ 'pgbench', '-n', '-c', 8, '-j', 2, '-t', 3, '-f', $script, 'postgres' ],
		'hold and wait: eight clients');
	device_unused($node, 'hold and wait: eight clients');
}

# the server is restarted while one sort holds the memory and others wait
{
	my $holder = holder('restart: a job holds most of the memory');
	my @waiting = map { session('large') } 1 .. 2;
	wait_for(1, 2, 'restart: two sorts wait');
	$node->restart;
	$_->{run}->finish for $holder, @waiting;
	device_ready($node, 'restart');
	device_unused($node, 'restart');
}

# far more jobs than there are slots and chunks
$node->append_conf('postgresql.conf', "gpusort.device_memory = 2GB\ngpusort.staging_memory = 32MB");
$node->restart;
device_ready($node, 'many jobs');
{
	my $s = new_session($node);
	my $n = 100;
	# a merge join reads all its inputs in step, so that all sorts in row mode hold jobs
	my $join = 'FROM (SELECT k, id FROM t WHERE id <= 3000) t1' . join '',
		map { " JOIN (SELECT k, id FROM t WHERE id <= 3000) t$_ ON t1.k = t$_.k AND t1.id + t$_.id > 0" } 2 .. $n;

	gate_make($node);
	gate_shut();
	$s->query("SET work_mem = '64kB'; SET gpusort.algorithm = gpu_radix; SET enable_hashjoin = off; SET "
		. "enable_nestloop = off; SET join_collapse_limit = 1; SET from_collapse_limit = 1");
	begin_query($s, "SELECT count(gate(n, 1000)), sum(k) FROM (SELECT row_number() OVER () AS n, t1.k $join) q");
	gate_reached($node, 'many jobs');
	my ($jobs, $free) = split /\|/, $node->safe_psql('postgres', 'SELECT jobs, staging_free FROM gpusort_devices()');
	cmp_ok($jobs, '>', 16, "$jobs of $n sorts have a job");
	cmp_ok($free, '<', 2 * 32 * 1024 * 1024 / 64, 'all chunks are in use');
	is($node->safe_psql('postgres', "SET gpusort.device_patience = '1s'; SET gpusort.algorithm = gpu_radix; "
		. "SET work_mem = '64kB'; SELECT result FROM check_sort('SELECT * FROM t WHERE id <= 3000 ORDER BY k')"),
		'same', 'one more sort has the same rows');
	gate_open();
	is($s->query('SELECT 1'), $node->safe_psql('postgres', 'SELECT count(*), sum(k) FROM t WHERE id <= 3000') . "\n1",
		'all sorts are read to the end');
	is($s->{stderr}, '', 'without an error');
	session_ok($s, 'many jobs');
	$s->quit;
	device_unused($node, 'many jobs');
}

# the smallest values of the settings
for my $case ([ 'gpusort.staging_memory = 1MB', qr/^gpu radix/ ],
	[ 'gpusort.device_memory = 1MB', qr/^cpu .*does not fit the device memory/ ])
{
	my ($conf, $where) = @$case;
	$node->append_conf('postgresql.conf', $conf);
	$node->restart;
	device_ready($node, $conf);
	for my $mem ('64kB', '256MB')
	{
		is($node->safe_psql('postgres', "SET work_mem = '$mem'; SET gpusort.algorithm = gpu_radix; SELECT result FROM "
			. "check_sort('SELECT * FROM t WHERE id <= 50000 ORDER BY k')"),
			'same', "$conf, $mem");
	}
	like($node->safe_psql('postgres', "$set SELECT sort_route('$query{large}')"), $where, "$conf: the route");
	device_unused($node, $conf);
}

$node->stop;
done_testing();
