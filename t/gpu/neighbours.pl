# neighbours.pl: the GPU service beside other programs that use the GPU: the memory it holds, and when it frees it.
#
# The fake device's memory can be filled, and the device be made busy or free, while the server runs.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GpuSortTest;
use PostgreSQL::Test::Utils;
use Test::More;

fake_device_is();

my $node = new_node('neighbours', conf => <<CONF);
gpusort.device_library = '\$libdir/libgpusort_cpu_abi'
gpusort.staging_memory = 8MB
gpusort.device_memory = 256MB
shared_buffers = 64MB
log_min_messages = log
CONF
my $devices = 'FROM gpusort_device_stat';
my $set = "SET work_mem = '256kB'; SET gpusort.algorithm = gpu_radix;";
my $rows = 40_000;
my $sum = "count(*), sum(n * k)";
my $query = 'SELECT row_number() OVER () AS n, k FROM (SELECT id, k, pad FROM t ORDER BY k, id OFFSET 0) s';
my $sort = "SELECT sort_route('SELECT id, k, pad FROM t ORDER BY k')";
my $gpu = qr/^gpu radix: .*device ready/;

sub value { return $node->safe_psql('postgres', @_) }

device_ready($node, 'start');
$node->safe_psql('postgres', <<SQL);
CREATE TABLE t AS SELECT i AS id, (mix(i) % 5000)::int4 AS k, repeat('x', (i % 50)::int) AS pad FROM
	generate_series(1, $rows) i;
VACUUM ANALYZE t;
SQL
gate_make($node);
my $right = value("SET gpusort.enable = off; SELECT $sum FROM ($query) q");

# sessions that do not read their rows hold no memory of a device process that has ended
{
	my @unread = map { new_session($node) } 1 .. 3;

	gate_shut();
	begin_query($_, "$set SELECT $sum FROM (SELECT gate(n, 10) AS n, k FROM ($query) q0) q") for @unread;
	ok($node->poll_query_until('postgres',
		"SELECT count(*) = 3 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"),
		'three sorts whose rows are not read');
	cmp_ok(value("SELECT sum(memory_used) $devices"), '>', 3_000_000, 'the sorts hold memory');
	next_device_process($node, kill_device_process($node, 'unread'), 'unread');
	is(value("SELECT sum(memory_used), sum(jobs) $devices"), '0|0', 'no memory of the new process is used');
	is(value("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"), 3,
		'the sessions have read no more rows');
	gate_open();
	is($_->query('SELECT 1'), "$right\n1", 'a session reads on and gets all rows') for @unread;
	$_->quit for @unread;
	device_unused($node, 'unread');
}

# the postmaster is killed, and the backend that holds the service's lock
{
	my $s = new_session($node);
	my ($process, $keeper, $supervisor) = device_processes($node);
	my $pid = $s->query('SELECT pg_backend_pid()');

	$s->query("$set SET gpusort.device_fault = hold_lock");
	begin_query($s, 'SELECT count(*) FROM (SELECT * FROM t ORDER BY k OFFSET 0) s');
	ok($node->poll_query_until('postgres',
		"SELECT wait_event_type = 'Extension' FROM pg_stat_activity WHERE pid = $pid"), 'a backend holds the lock');
	my ($postmaster) = slurp_file($node->data_dir . '/postmaster.pid') =~ /^(\d+)/;
	is(kill('KILL', $postmaster, $pid), 2, 'both are killed');
	eval { $s->{run}->finish };
	ok(process_ends($supervisor), 'the supervisor ends');
	ok(process_ends($process), 'the device process ends');
	ok(process_ends($keeper), 'the keeper ends');
	# the postmaster must have exited, because its process id is in the lock file
	ok(wait_until(sub { return !kill 0, $postmaster }), 'the postmaster has exited');
	$node->{_pid} = undef;
	$node->start;
	device_ready($node, 'killed');
	gate_make($node);
	is(value("$set SELECT result FROM check_sort('SELECT * FROM t ORDER BY k, id')"), 'same',
		'the server starts and sorts');
	device_unused($node, 'killed');
}

# the memory of a job follows the rows that come, not the planner's estimate
{
	value("CREATE FUNCTION many() RETURNS TABLE (id bigint, k int8, pad text) ROWS 100000000 LANGUAGE sql STABLE AS "
		. "'SELECT i, mix(i) % 90000, repeat(''y'', (i % 40)::int) FROM generate_series(1, 150000) i'");
	value("CREATE TABLE m AS SELECT * FROM many(); ANALYZE m; UPDATE pg_class SET reltuples = 1e8 WHERE relname = 'm'");
	value("CREATE TABLE few AS SELECT * FROM many(); ANALYZE few");

	my $mem = "SET work_mem = '256kB'; SET gpusort.algorithm = gpu_radix; SET gpusort.verify = on;";
	my $same = sub { value("$mem SELECT nodes || ' ' || rows || ' ' || result FROM check_sort('$_[0]')") };

	# an estimate that is far too high, and one that is far too low
	for my $case ([ 'high', 'SELECT id, k, pad FROM m ORDER BY k, id' ],
		[ 'low', 'SELECT id, k, pad FROM few WHERE id % 1 = 0 AND k % 1 = 0 AND id % 3 < 5 ORDER BY k, id' ])
	{
		is($same->($case->[1]), 'GpuSort 150000 same', "estimate too $case->[0]: rows");
		like(value("$mem SET gpusort.verify = off; SELECT sort_route('$case->[1]')"), qr/$gpu(?!.*merged)/,
			"estimate too $case->[0]: it grows, and nothing is spilled");
	}
	is(value("$mem SELECT result FROM check_stable('(SELECT *, row_number() OVER () AS seq FROM few) f2', 'k')"),
		'same', 'equal rows keep their order');
	is(value("SET work_mem = '256MB'; SET gpusort.algorithm = gpu_radix; SET gpusort.verify = on; SELECT result FROM "
		. "check_sort('SELECT id, k, pad FROM few WHERE id % 1 = 0 AND k % 1 = 0 ORDER BY k, id')"), 'same',
		'a growing job of keys');

	my $s = new_session($node);
	gate_shut();
	begin_query($s, "$mem SET gpusort.verify = off; SELECT count(*) FROM (SELECT gate(row_number() OVER (), 10) FROM "
		. "(SELECT id, k, pad FROM m ORDER BY k, id OFFSET 0) q0) q");
	gate_reached($node, 'high');
	# 150,000 rows of 64 bytes, their offsets and scratch memory
	my $used = value("SELECT sum(memory_used) $devices");
	cmp_ok($used, '>', 8_000_000, 'the rows are on the device');
	cmp_ok($used, '<', 64_000_000, "an estimate of a hundred million rows holds $used bytes for them");
	gate_open();
	is($s->query('SELECT 1'), "150000\n1", 'all rows');
	$s->quit;

	# a session's share of the memory is exhausted: the rows on the device become a run
	is(value("$mem SET gpusort.device_share = 4; SELECT result FROM check_sort('SELECT id, k, pad FROM few ORDER BY "
		. "k, id')"), 'same', 'a small share: rows');
	like(value("$mem SET gpusort.verify = off; SET gpusort.device_share = 4; SELECT sort_route('SELECT id, k, pad "
		. "FROM few ORDER BY k')"), qr/merged/, 'a small share: runs');
	like(value("$mem SET gpusort.device_share = 1; SELECT sort_route('SELECT id, k, pad FROM few ORDER BY k')"),
		qr/^cpu .*device memory/, 'a share that is too small for a job');
	device_unused($node, 'shares');

	# an ordinary role cannot change an administrator's settings
	value("CREATE ROLE plain; ALTER ROLE plain SET gpusort.device_allowed = off");
	for my $setting ('device_allowed = on', 'device_share = 100')
	{
		fails_like($node, "SET ROLE plain; SET gpusort.$setting",
			qr/permission denied to set parameter "gpusort.device_/, "a role cannot set $setting");
	}
	value("ALTER ROLE plain LOGIN; GRANT SELECT ON t TO plain");
	my $plain = $node->safe_psql('postgres', "RESET ALL; SET gpusort.device = auto; $set $sort",
		extra_params => [ '-U', 'plain' ]);
	like($plain, qr/^cpu .*gpusort.device_allowed is off/, 'nor reset it');
}

# without sorts the service frees memory: the kept blocks first, then the device process ends
{
	my $process = device_process($node);

	$node->append_conf('postgresql.conf', "gpusort.device_idle_blocks = 1s\ngpusort.device_idle_context = 3s");
	like(value("$set $sort"), $gpu, 'a sort');
	ok($node->poll_query_until('postgres', "SELECT sum(memory_kept) > 1000000 $devices"), 'free blocks are kept');
	$node->reload;
	ok($node->poll_query_until('postgres', "SELECT sum(memory_kept) = 0 $devices"), 'the kept blocks are freed');
	is(device_process($node), $process, 'kept blocks are freed by the same process');
	ok($node->poll_query_until('postgres', "SELECT state = 'idle' AND process_pid IS NULL $devices"),
		'after a longer pause the device is released');
	ok(process_ends($process), 'the process has ended');
	is(value("SET work_mem = '64MB'; SELECT result FROM check_sort('SELECT * FROM t WHERE id < 100 ORDER BY k, id')"),
		'same', 'a small sort: rows');
	is(value("SELECT state $devices"), 'idle', 'a small sort does not start a process');
	unlike(value("SELECT string_agg(reason, ' ') FROM gpusort_route(10000000, 32)"), qr/no device/,
		'the router counts on the idle device');
	like(value("$set $sort"), $gpu, 'the next sort that needs it starts a process');
	isnt(device_process($node), $process, 'it is a new process');
	is(value("SELECT max(restarts) $devices"), 0, 'the start is not counted as a restart');

	# a sort whose algorithm is not forced; device_idle_context = 0 keeps the new process until it was seen
	ok($node->poll_query_until('postgres', "SELECT state = 'idle' $devices"), 'the device is idle again');
	$node->append_conf('postgresql.conf', "gpusort.device_idle_context = 0");
	$node->reload;
	is(value("SET work_mem = '64MB'; SELECT result FROM check_sort('SELECT * FROM (SELECT mix(i) AS k, i FROM "
		. "generate_series(1, 300000) i OFFSET 0) s ORDER BY k')"), 'same', 'a large sort');
	ok($node->poll_query_until('postgres', "SELECT bool_and(state = 'ready') $devices"),
		'a large sort starts a process');
	$node->append_conf('postgresql.conf', "gpusort.device_idle_context = 3s");
	$node->reload;

	# an open job keeps the process
	my $s = new_session($node);
	gate_shut();
	begin_query($s, "$set SELECT $sum FROM (SELECT gate(n, 10) AS n, k FROM ($query) q0) q");
	gate_reached($node, 'a sort is not read on');
	$process = device_process($node);
	sleep 5;
	is(device_process($node), $process, 'the process stays');
	gate_open();
	is($s->query('SELECT 1'), "$right\n1", 'the sort is read to its end');
	$s->quit;
	ok($node->poll_query_until('postgres', "SELECT state = 'idle' $devices"), 'the process ends after the job');
	$node->append_conf('postgresql.conf', "gpusort.device_idle_blocks = 10s\ngpusort.device_idle_context = 0");
	$node->reload;
}

# many sessions while the device process starts and ends
{
	my $script = $node->basedir . '/script.sql';
	append_to_file($script, <<SQL);
$set
SELECT must_be_same('SELECT * FROM t WHERE id <= 20000 ORDER BY k, id');
\\sleep 300 ms
SQL
	my ($out, $err) = ('', '');
	my $h = IPC::Run::start([ 'pgbench', '-n', '-c', '4', '-j', '2', '-T', '6', '-f', $script, '-h', $node->host, '-p',
		$node->port, 'postgres' ], '>', \$out, '2>', \$err);
	for (1 .. 12)
	{
		$node->append_conf('postgresql.conf', 'gpusort.device = ' . ($_ % 2 ? 'off' : 'auto'));
		$node->reload;
		select undef, undef, undef, 0.5;
	}
	ok($h->finish, 'no session fails while the device process starts and ends') or diag $err;
	unlike(slurp_file($node->logfile), qr/device process .PID \d+. exited/, 'the device process does not fail');
}

# a reload switches the device off: the process ends when its jobs have ended
{
	like(value("$set $sort"), $gpu, 'the device is in use');
	my $process = device_process($node);
	my $s = new_session($node);
	gate_shut();
	begin_query($s, "$set SELECT $sum FROM (SELECT gate(n, 10) AS n, k FROM ($query) q0) q");
	gate_reached($node, 'a sort is not read on');
	$node->append_conf('postgresql.conf', 'gpusort.device = off');
	$node->reload;
	ok($node->poll_query_until('postgres', "SELECT bool_and(state = 'leaving') $devices"),
		'off: the process lets its job end');
	like(value("$set SET gpusort.device = auto; $sort"), qr/^cpu/, 'off: the process accepts no other job');
	gate_open();
	is($s->query('SELECT 1'), "$right\n1", 'the sort of the ending process is read to its end');
	$s->quit;
	ok($node->poll_query_until('postgres', "SELECT state = 'off' AND process_pid IS NULL $devices"),
		'the device is off');
	ok(process_ends($process), 'the process has ended');
	like(value("$set SET gpusort.device = auto; $sort"), qr/^cpu .*gpusort.device is off/,
		'a session cannot switch it on');
	$node->append_conf('postgresql.conf', 'gpusort.device = auto');
	$node->reload;
	ok($node->poll_query_until('postgres', "SELECT state = 'idle' $devices"), 'the device is on again');
	like(value("$set $sort"), $gpu, 'on again: the next sort uses the device');
}

# other programs take memory, and free it
{
	$node->append_conf('postgresql.conf', "gpusort.device_memory = 0");
	$node->restart;
	device_ready($node, 'device_memory = 0: the budget is all free memory');
	is(value("SELECT memory_budget >> 20 $devices"), 1024, 'the budget is all memory');
	fake_device_is('OTHERS=1012');
	ok($node->poll_query_until('postgres', "SELECT memory_budget >> 20 = 12 $devices"),
		'another program takes most of it');
	like(value("SET work_mem = '64MB'; SET gpusort.algorithm = gpu_radix; SELECT sort_route('SELECT mix(i) AS k FROM "
		. "generate_series(1, 400000) i ORDER BY k')"),
		qr/^cpu .*it does not fit the device memory/, 'the remaining memory does not suffice');
	fake_device_is('OTHERS=200');
	ok($node->poll_query_until('postgres', "SELECT memory_budget >> 20 = 824 $devices"), 'the other program frees it');
	like(value("SET work_mem = '64MB'; SET gpusort.algorithm = gpu_radix; SELECT sort_route('SELECT mix(i) AS k FROM "
		. "generate_series(1, 400000) i ORDER BY k')"),
		$gpu, 'the freed memory suffices');
}

# a device that is full, or not there yet, at the server's start
for my $case ([ 'full', 'OTHERS=1020',
	qr/^none: no usable device: out of memory; tried again when a sort asks/ ],
	[ 'not there', 'DEVICES=0', qr/^none: no device: no device; tried again when a sort asks/ ])
{
	my ($name, $setting, $state) = @$case;

	fake_device_is($setting);
	my $offset = -s $node->logfile;
	$node->restart;
	ok($node->poll_query_until('postgres', "SELECT state ~ 'none' $devices"), "$name: no device");
	like(value("SELECT state $devices"), $state, "$name: the state says why");
	for my $try (1 .. 2)
	{
		ok($node->poll_query_until('postgres', "SELECT state ~ 'asks\$' $devices"), "$name: it may be tried again");
		# without a pause, because after a second or two the service may be asked again
		my ($asks, $then, $next) = split /\n/, value("$set $sort; SELECT state $devices; $sort");
		like($asks, qr/^cpu/, "$name: a sort asks without success");
		like($then, qr/asks in \d+ s or later$/, "$name: the state names the next attempt");
		like($next, qr/^cpu .*no device/, "$name: the next does not ask");
	}
	is(() = slurp_file($node->logfile, $offset) =~ /found no GPU/g, 1, "$name: logged once");
	fake_device_is();
	ok($node->poll_query_until('postgres', "SELECT state ~ 'asks\$' $devices"), "$name: it may be tried again");
	like(value("$set $sort"), $gpu, "$name: the device is used");
	device_unused($node, $name);
}

$node->stop;
done_testing();
