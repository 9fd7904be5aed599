# service.pl: the GPU service: jobs, chunks, budgets and faults.
#
# GPUSORT_TEST_LIBRARY names another GPU library than the fake device.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GpuSortTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $library = $ENV{GPUSORT_TEST_LIBRARY} || '$libdir/libgpusort_cpu_abi';
my $node = new_node('device', conf => <<CONF);
gpusort.device_library = '$library'
gpusort.device = 0
gpusort.staging_memory = 8MB
gpusort.device_memory = 512MB
shared_buffers = 64MB
log_min_messages = log
CONF

# the resources that jobs hold
my $use = "SELECT memory_used, jobs, free_jobs, staging_total - staging_free FROM gpusort_devices()";

device_ready($node, 'start');
is($node->safe_psql('postgres', $use), '0|0|64|0', 'nothing is used at the start');
SKIP: {
	skip 'other segments are of System V too', 1 if $node->safe_psql('postgres',
		'SHOW dynamic_shared_memory_type') eq 'sysv';
	unlike(slurp_file('/proc/' . device_process($node) . '/maps'),
		qr/SYSV/, 'the device process is not attached to System V memory');
}
is($node->safe_psql('postgres', "SELECT runs_on FROM gpusort_algorithms() WHERE algorithm = 'gpu_radix'"), 'gpu',
	'the algorithms of the GPU are listed');

device_route_function($node);
my $rows = 40_000;
$node->safe_psql('postgres', <<SQL);
CREATE TABLE t AS SELECT i AS id, (mix(i) - 2147483648)::int4 AS k, mix(i * 7) * 1000003 - 2000000000000000 AS w,
	CASE WHEN i % 11 = 0 THEN NULL ELSE i % 100 END AS nk, (mix(i * 3) - 2e9) / 7::float8 AS f, repeat('x',
		(i % 50)::int) AS pad,
	'customer#' || mix(i) % 500 AS s, CASE WHEN i % 9 > 0 THEN md5((i % 30000)::text) END AS h
FROM generate_series(1, $rows) i;
VACUUM ANALYZE t;
SQL

my %orders = (
	'int4' => 'k', 'int4 desc' => 'k DESC', 'int8' => 'w', 'float8' => 'f DESC', 'NULLs' => 'nk NULLS FIRST, k, id',
	'NULLs last, 97 bits' => 'nk, w', 'more than 128 bits' => 'w, f, k, id', 'few values' => 'nk DESC, id',
		'expression' => '-k, id',
	'strings' => 's COLLATE "C", id', 'long strings' => 'h COLLATE "C" DESC, s, id');
my %modes = (keys => '64MB', rows => '256kB');

# the stock Sort gives the expected rows
$node->safe_psql('postgres', "ALTER DATABASE postgres SET gpusort.algorithm = 'gpu_radix'");
for my $mode (sort keys %modes)
{
	my $set = "SET work_mem = '$modes{$mode}';";
	for my $name (sort keys %orders)
	{
		my $q = "SELECT id, k, w, nk, f FROM t ORDER BY $orders{$name}";
		for my $verify ('off', 'on')
		{
			is($node->safe_psql('postgres', "$set SET gpusort.verify = $verify; SELECT nodes || ' ' || rows || ' ' || "
				. "result FROM check_sort('$q')"),
				"GpuSort $rows same", "$mode: $name, verify $verify");
		}
		my $route = $node->safe_psql('postgres', "$set SELECT route('$q')");
		# a key that does not fit 128 bits needs the rows on the host to resolve ties
		my $want = $name =~ /more than 128 bits/ ? 'keys' : $mode;
		like($route, qr/^$want: gpu radix: .*device ready, as set/, "$mode: $name: on the GPU");
	}
	is($node->safe_psql('postgres', "$set SELECT result FROM check_stable('(SELECT *, row_number() OVER () AS seq "
		. "FROM t) t2', 'nk')"), 'same', "$mode: equal rows keep their order");
	is($node->safe_psql('postgres', "$set SELECT result FROM check_sort('SELECT count(*), max(k) FROM (SELECT k FROM "
		. "t ORDER BY k OFFSET 5) s')"), 'same', "$mode: read to the end");
	is($node->safe_psql('postgres', "$set SELECT result FROM check_sort('SELECT k FROM t ORDER BY k LIMIT 10 OFFSET "
		. "25000')"), 'same', "$mode: LIMIT");
	is($node->safe_psql('postgres', "$set SELECT result FROM check_sort('SELECT a.k, b.id FROM t a JOIN t b ON a.k = "
		. "b.k WHERE a.id % 2 = 0 ORDER BY a.k, b.id')"), 'same', "$mode: under a join");
	is($node->safe_psql('postgres', "$set SET enable_hashjoin = off; SET enable_nestloop = off; SELECT result FROM "
		. "check_sort('SELECT count(*), sum(a.id) FROM t a JOIN t b ON a.nk = b.nk AND a.k = b.k')"), 'same',
		"$mode: merge join with mark and restore");
	is($node->safe_psql('postgres', "$set SELECT result FROM check_sort('SELECT x, (SELECT max(k) FROM (SELECT k FROM "
		. "t WHERE id % 3 = x ORDER BY k OFFSET 1) s) FROM generate_series(0, 5) x ORDER BY x')"), 'same',
		"$mode: rescans");
	is($node->safe_psql('postgres', <<SQL), $node->safe_psql('postgres', <<SQL2), "$mode: cursor, both ways");
$set BEGIN; DECLARE c SCROLL CURSOR FOR SELECT id FROM t ORDER BY k, id;
MOVE 15000 c; FETCH 3 c; FETCH BACKWARD 5 c; MOVE ALL c; FETCH BACKWARD 2 c; FETCH ABSOLUTE 7 c; COMMIT;
SQL
SET gpusort.enable = off; BEGIN; DECLARE c SCROLL CURSOR FOR SELECT id FROM t ORDER BY k, id;
MOVE 15000 c; FETCH 3 c; FETCH BACKWARD 5 c; MOVE ALL c; FETCH BACKWARD 2 c; FETCH ABSOLUTE 7 c; COMMIT;
SQL2
	device_unused($node, $mode);
}

# rows that have only key columns
my %only = ('32 bits' => 'SELECT k FROM t ORDER BY k', '32 bits, NULLs' => 'SELECT nk FROM t ORDER BY nk DESC',
	'64 bits' => 'SELECT w FROM t ORDER BY w DESC',
	'two columns' => 'SELECT nk, k FROM t ORDER BY k, nk NULLS FIRST',
		'128 bits' => 'SELECT w, k FROM t ORDER BY w DESC, k');
for my $name (sort keys %only)
{
	for my $verify ('off', 'on')
	{
		is($node->safe_psql('postgres', "SET work_mem = '64MB'; SET gpusort.verify = $verify; SELECT nodes || ' ' || "
			. "rows || ' ' || result FROM check_sort('$only{$name}')"),
			"GpuSort $rows same", "keys only: $name, verify $verify");
	}
	like($node->safe_psql('postgres', "SET work_mem = '64MB'; SELECT route('$only{$name}')"),
		qr/^keys: gpu radix: .*keys only/, "keys only: $name: on the GPU");
	is($node->safe_psql('postgres', "SET work_mem = '64kB'; SELECT result FROM check_sort('$only{$name}')"), 'same',
		"keys only: $name, in runs");
}
device_unused($node, 'keys only');

# a query that may pause between rows, a cursor or a loop, holds no job meanwhile
$node->safe_psql('postgres', <<'SQL');
CREATE FUNCTION jobs_in_loop(q text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE r record; n int := 0; held bool;
BEGIN
	FOR r IN EXECUTE q LOOP
		n := n + 1;
		IF n IN (1, 20000) THEN
			-- the device process needs a moment to take them back
			FOR i IN 1 .. 3000 LOOP
				held := (SELECT sum(jobs) > 0 FROM gpusort_devices());
				EXIT WHEN NOT held;
				PERFORM pg_sleep(0.01);
			END LOOP;
			EXIT WHEN held;
		END IF;
	END LOOP;
	RETURN n || CASE WHEN held THEN ' held' ELSE ' free' END;
END $$;
SQL
for my $case ([ 'rows', '256kB', 'SELECT id, k, pad FROM t ORDER BY k' ],
	[ 'rows, back in memory', '33MB', 'SELECT t.id, k, pad, repeat(chr(65), 800) AS more FROM t ORDER BY k' ],
	[ 'keys', '64MB', 'SELECT id, k FROM t ORDER BY k' ], [ 'keys only', '64MB', 'SELECT k FROM t ORDER BY k' ])
{
	my ($name, $mem, $q) = @$case;

	for my $kind ('NO SCROLL', 'SCROLL')
	{
		my $moves = 'FETCH 3 c; MOVE 30000 c; FETCH 3 c;'
			. ($kind eq 'SCROLL' ? ' FETCH BACKWARD 2 c; FETCH ABSOLUTE 7 c; FETCH LAST c;' : ' MOVE ALL c; FETCH 1 c;')
			. ' COMMIT';
		my $declare = "BEGIN; DECLARE c $kind CURSOR FOR $q; FETCH 2 c";
		my $want = $node->safe_psql('postgres', "SET gpusort.enable = off; $declare; $moves");
		my $sorts = $node->safe_psql('postgres', "SELECT sorts FROM gpusort_stat WHERE algorithm = 'gpu_radix'");
		my $s = new_session($node);

		$s->query("SET work_mem = '$mem'");
		my $got = $s->query($declare);
		device_unused($node, "$name, $kind cursor that is open");
		is("$got\n" . $s->query($moves), $want, "$name, $kind cursor: rows");
		is($s->{stderr}, '', "$name, $kind cursor: no error");
		$s->quit;
		ok($node->poll_query_until('postgres', "SELECT sorts > $sorts FROM gpusort_stat WHERE algorithm = 'gpu_radix'"),
			"$name, $kind cursor: the GPU sorted");
	}
	is($node->safe_psql('postgres', "SET work_mem = '$mem'; SELECT jobs_in_loop('$q')"), "$rows free", "$name, loop");
}
# a cursor whose rows fit work_mem writes no file
is($node->safe_psql('postgres', "SET work_mem = '64MB'; SET temp_file_limit = '100kB'; BEGIN; DECLARE c NO SCROLL "
	. "CURSOR FOR SELECT t.id, k, pad, repeat(chr(65), 800) AS more FROM t ORDER BY k; MOVE 30000 c; SELECT 'ok'"),
	'ok', 'rows of a cursor, back in memory');
# a query that is read at once writes no file
is($node->safe_psql('postgres', "SET work_mem = '64kB'; SET temp_file_limit = '100kB'; SELECT count(*) FROM (SELECT * "
	. "FROM t ORDER BY k OFFSET 0) s"), $rows, 'rows on the device are not spilled');
device_unused($node, 'cursors');

# late rows that do not fit: longer than a chunk, a NULL outside the key, more than the budget
$node->safe_psql('postgres', <<SQL);
CREATE TABLE odd AS SELECT i AS id, (mix(i) - 2147483648) * 4294967296 + i AS w FROM generate_series(1, $rows) i;
CREATE TABLE late_null AS SELECT i AS id, CASE WHEN i IN (20000, 20001, 27500) THEN NULL ELSE (mix(i) - 2147483648) *
	4294967296 + i END AS w FROM generate_series(1, $rows) i;
CREATE TABLE many AS SELECT i AS id, (mix(i) - 2147483648)::int4 AS k FROM generate_series(1, 200000) i;
SQL
like($node->safe_psql('postgres', "SET work_mem = '256kB'; SELECT route('SELECT repeat(''y'', CASE WHEN id = 25000 "
	. "THEN 500000 ELSE 1 END), w FROM odd ORDER BY w')"),
	qr/merged/, 'a row longer than a chunk: the rows before it become a run');
is($node->safe_psql('postgres', "SET work_mem = '256kB'; SELECT result FROM check_sort('SELECT md5(r), w FROM (SELECT "
	. "repeat(''y'', CASE WHEN id = 25000 THEN 500000 ELSE 1 END) r, w FROM odd ORDER BY w OFFSET 0) s')"),
	'same', 'a row longer than a chunk');
like($node->safe_psql('postgres', "SET work_mem = '256kB'; SELECT route('SELECT * FROM late_null ORDER BY w')"),
	qr/merged/, 'a late NULL in 64 bits: the rows before it become a run');

# more rows than one sort can have: runs are written, on the host and on the device
for my $case ([ 'rows', '256kB', 'SELECT id, k, pad FROM t ORDER BY k, id' ],
	[ 'keys', '64MB', 'SELECT id, k, pad FROM t WHERE random() >= 0 ORDER BY k, id' ],
	[ 'keys', '64MB', 'SELECT k FROM t WHERE random() >= 0 ORDER BY k' ])
{
	my ($mode, $mem, $q) = @$case;
	my $few = "SET work_mem = '$mem'; SET gpusort.run_rows = 9000;";

	is($node->safe_psql('postgres', "$few SELECT nodes || ' ' || rows || ' ' || result FROM check_sort('$q')"),
		"GpuSort $rows same", "rows to be counted, $mode: $q");
	like($node->safe_psql('postgres', "$few SELECT route('$q')"), qr/^$mode: gpu radix: .*(?:merged|, \d+ parts)/,
		"rows to be counted, $mode: runs");
}
is($node->safe_psql('postgres', "SET work_mem = '256kB'; SELECT result FROM check_sort('SELECT * FROM late_null ORDER "
	. "BY w, id')"), 'same', 'a late NULL');
# the planner expects few rows
is($node->safe_psql('postgres', "SET work_mem = '256kB'; SELECT result FROM check_sort('SELECT id, k FROM many WHERE "
	. "id % 1 = 0 AND k % 1 = 0 ORDER BY k, id')"), 'same', 'far more rows than estimated');
device_unused($node, 'rows that do not fit');

# not repeatable: row mode is not used, because the rows would be lost with the device
for my $q ('SELECT k FROM t ORDER BY random()', 'WITH c AS MATERIALIZED (SELECT k FROM t) SELECT * FROM c ORDER BY k')
{
	unlike($node->safe_psql('postgres', "SET work_mem = '256kB'; SELECT route('$q')"), qr/^rows/,
		"not repeatable, not in row mode: $q");
}

# settings
like($node->safe_psql('postgres', "SET gpusort.device = off; SELECT route('SELECT k FROM t ORDER BY k')"),
	qr/^host: cpu .*device off, not gpu radix: gpusort.device is off/, 'gpusort.device = off');
like($node->safe_psql('postgres', "SET gpusort.device_allowed = off; SET work_mem = '64MB'; SELECT route('SELECT id, k "
	. "FROM t ORDER BY k')"),
	qr/^host: cpu .*device not allowed, not gpu radix: gpusort.device_allowed is off/, 'gpusort.device_allowed = off');
like($node->safe_psql('postgres', "SET gpusort.device = '5'; SELECT route('SELECT k FROM t ORDER BY k')"),
	qr/^host: cpu .*not gpu radix: there is no device/, 'a device that is not there');
like($node->safe_psql('postgres', "SET gpusort.device = '0'; SELECT route('SELECT k FROM t ORDER BY k')"),
	qr/^\w+: gpu/, 'a device by number');
fails_like($node, "SET gpusort.device = 'all'",
	qr/invalid value for parameter "gpusort.device".*\n.*list of device numbers/, 'a wrong list');
like($node->safe_psql('postgres', "SET gpusort.algorithm = auto; SELECT route('SELECT id FROM t WHERE id < 1000 ORDER "
	. "BY k')"), qr/^host: cpu/, 'small sorts stay');
like($node->safe_psql('postgres', "SET gpusort.algorithm = auto; SET work_mem = '1GB'; SELECT route('SELECT id FROM "
	. "many ORDER BY id')"), qr/^host: /, 'sorted input stays');

# faults: the same rows come, and all resources are freed
my $start = -s $node->logfile;
my %fault = (
	memory_start => qr/fault injected/, memory_sort => qr/fault injected/,
		error_up => qr/fault injected|the device process ended/,
	error_sort => qr/fault injected|the device process ended/,
		error_down => qr/fault injected|the device process ended/,
	kill_up => qr/the device process ended/, kill_sort => qr/the device process ended/,
		kill_down => qr/the device process ended/,
	stall => qr/the device process ended/, freeze => qr/the device process ended/,
	corrupt => qr/a row of the result is not|the result's keys are out of order, or not the input's/);
$modes{only} = '64MB';
for my $mode (sort keys %modes)
{
	my $q = $mode eq 'only' ? 'SELECT nk, k FROM t ORDER BY nk, k' : 'SELECT * FROM t ORDER BY nk, k, id';
	for my $f (sort keys %fault)
	{
		# after a successful job the next process starts without a pause
		device_ready($node, "$mode $f");
		my $set = "SET work_mem = '$modes{$mode}';" . ($f eq 'corrupt' ? ' SET gpusort.verify = on;' : '');
		$node->safe_psql('postgres', "$set SELECT count(*) FROM ($q OFFSET 0) s");
		my $restarts = $node->safe_psql('postgres', 'SELECT max(restarts) FROM gpusort_devices()');
		my $before = fallbacks($node);
		my $offset = -s $node->logfile;
		is($node->safe_psql('postgres',
			"$set SET gpusort.device_fault = $f; SELECT nodes || ' ' || rows || ' ' || result FROM check_sort('$q')"),
			"GpuSort $rows same", "$mode: $f");
		# a process does not log the same message again at once
		$offset = $start if $f =~ /memory|corrupt/;
		ok($node->log_contains(qr/continues without the GPU: $fault{$f}/, $offset), "$mode: $f is logged");
		cmp_ok(fallbacks($node), '>', $before, "$mode: $f is counted");
		# an error or a kill ends the process
		ok($node->poll_query_until('postgres', "SELECT max(restarts) > $restarts FROM gpusort_devices()"),
			"$mode: after $f: a new process starts")
		  if $f =~ /error|kill|stall|freeze/;
		# a process that hangs is killed
		my $how = $f eq 'stall' ? qr/device 0 has made no progress with a sort/
		  : qr/a call of the driver has not returned/;
		ok($node->log_contains(qr/hangs and is killed\n.*$how for 1 s/, $offset),
			"$mode: $f is logged as a hang")
		  if $f =~ /stall|freeze/;
		device_ready($node, "$mode: after $f");
		device_unused($node, "$mode: after $f");
	}
}

# many sorts that fail for one reason: each is counted, one is logged
{
	device_ready($node, 'one reason');
	next_device_process($node, kill_device_process($node, 'one reason'), 'one reason');
	my $before = fallbacks($node);
	my $offset = -s $node->logfile;
	my $script = $node->basedir . '/fail.sql';
	append_to_file($script, "SET gpusort.device_fault = memory_start;\nSET work_mem = '64MB';\nSELECT "
		. "must_be_same('SELECT k, id FROM t WHERE id < 5000 ORDER BY k, id');\n");
	$node->command_ok([ 'pgbench', '-n', '-c', 4, '-t', 10, '-f', $script, 'postgres' ], 'one reason: many sorts');
	is(fallbacks($node), $before + 40, 'one reason: each failure is counted');
	my @lines = slurp_file($node->logfile, $offset) =~ /continues without the GPU/g;
	is(scalar @lines, 1, 'one reason: one line');
}

# cancel and terminate while the device hangs at each point
for my $mode (sort keys %modes)
{
	for my $f ('hang_up', 'hang_sort', 'hang_down')
	{
		my $q = "SET work_mem = '$modes{$mode}'; SET gpusort.device_fault = $f; ";
		fails_like($node, "$q SET statement_timeout = '500ms'; SELECT count(*) FROM (SELECT k, w FROM t ORDER BY k "
			. "OFFSET 0) s",
			qr/canceling statement due to statement timeout/, "$mode: cancelled in $f");
		device_unused($node, "$mode: cancelled in $f");

		my $s = new_session($node);
		my $pid = $s->query('SELECT pg_backend_pid()');
		begin_query($s, "$q SELECT count(*) FROM (SELECT k, w FROM t ORDER BY k OFFSET 0) s");
		ok($node->poll_query_until('postgres', 'SELECT sum(jobs) = 1 FROM gpusort_devices()'), "$mode: $f has a job");
		$node->safe_psql('postgres', "SELECT pg_terminate_backend($pid)");
		$s->{run}->finish;
		device_unused($node, "$mode: terminated in $f");
	}
}
# the device process is killed while a job hangs: the sort goes on on the CPU
{
	my $s = new_session($node);
	$s->query("SET work_mem = '256kB'; SET gpusort.device_fault = hang_up");
	begin_query($s, 'SELECT count(*), sum(k) FROM (SELECT k FROM t ORDER BY k OFFSET 0) s');
	ok($node->poll_query_until('postgres', 'SELECT sum(jobs) = 1 FROM gpusort_devices()'), 'a job hangs');
	kill_device_process($node, 'killed');
	like($s->query('SELECT 1'), qr/^$rows\|.*\n1$/s, 'killed: the sort goes on');
	$s->quit;
	device_ready($node, 'killed');
	device_unused($node, 'killed');
}
# the supervisor gets SIGTERM while a job hangs: the sort goes on, and a new supervisor starts
{
	my $s = new_session($node);
	$s->query("SET work_mem = '256kB'; SET gpusort.device_fault = hang_up");
	begin_query($s, 'SELECT count(*), sum(k) FROM (SELECT k FROM t ORDER BY k OFFSET 0) s');
	ok($node->poll_query_until('postgres', 'SELECT sum(jobs) = 1 FROM gpusort_devices()'), 'a job hangs');
	my ($process, undef, $supervisor) = device_processes($node);
	is(kill('TERM', $supervisor), 1, 'SIGTERM to the supervisor');
	like($s->query('SELECT 1'), qr/^$rows\|.*\n1$/s, 'the supervisor ends: the sort goes on');
	$s->quit;
	device_ready($node, 'after the supervisor');
	isnt(device_process($node), $process, 'a new device process starts');
	device_unused($node, 'after the supervisor');
}
# errors above and below while a job is open
for my $mode (sort keys %modes)
{
	fails_like($node, "SET work_mem = '$modes{$mode}'; SELECT sum(1 / (id - 500)) FROM (SELECT id FROM t ORDER BY k "
		. "OFFSET 0) s", qr/division by zero/, "$mode: error above");
	fails_like($node, "SET work_mem = '$modes{$mode}'; SELECT sum(x) FROM (SELECT 1 / (id - $rows) AS x FROM t ORDER "
		. "BY k OFFSET 0) s", qr/division by zero/, "$mode: error below");
}
device_unused($node, 'errors');

# the device's budget: sorts that do not fit go to the CPU
$node->append_conf('postgresql.conf', "gpusort.device_memory = 10MB");
$node->restart;
device_ready($node, 'small budget');
like($node->safe_psql('postgres', "SET work_mem = '64MB'; SELECT route('SELECT * FROM many ORDER BY k')"),
	qr/^host: .*device memory full, not gpu radix: it does not fit the device memory/, 'over the budget');
is($node->safe_psql('postgres', "SET work_mem = '256kB'; SELECT result FROM check_sort('SELECT * FROM many ORDER BY k, "
	. "id')"), 'same', 'over the budget: rows');
device_unused($node, 'small budget');

# a backend crashes: the server and the service restart
$node->append_conf('postgresql.conf', "restart_after_crash = on");
$node->reload;
{
	my $s = new_session($node);
	backend_crashes($node, $s->query('SELECT pg_backend_pid()'), 'crash');
	eval { $s->{run}->finish };
}
device_ready($node, 'crash');
device_unused($node, 'crash');
# the server is stopped at once
my $process = device_process($node);
$node->stop('immediate');
ok(process_ends($process), 'the device process ends with the server');

# no usable library or device
for my $case ([ 'a missing library', "gpusort.device_library = '/nonexistent'", {}, qr/none: no device library/ ],
	[ 'no device', '', { GPUSORT_CPU_ABI_DEVICES => 0 }, qr/none: no device/ ],
	[ 'no staging', 'gpusort.staging_memory = 0', {}, qr/off/ ],
	[ 'off', "gpusort.staging_memory = 8MB\ngpusort.device = off", {}, qr/off/ ])
{
	my ($name, $conf, $env, $state) = @$case;
	next if $ENV{GPUSORT_TEST_LIBRARY} && %$env;
	local %ENV = (%ENV, %$env);
	$node->append_conf('postgresql.conf', $conf);
	$node->start;
	ok($node->poll_query_until('postgres', "SELECT state ~ 'none|off' FROM gpusort_devices()"), "$name: shown");
	like($node->safe_psql('postgres', 'SELECT state FROM gpusort_devices()'), $state, "$name: state");
	is($node->safe_psql('postgres', "SELECT result FROM check_sort('SELECT * FROM t ORDER BY k, id')"), 'same',
		"$name: the CPU sorts");
	$node->append_conf('postgresql.conf', "gpusort.device_library = '$library'") if $conf =~ /library/;
	$node->stop;
}
done_testing();
