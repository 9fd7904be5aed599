# gpu_job.pl: parallel sorts whose workers send their rows into one job of a device.
#
# The leader returns the result without a merge. GPUSORT_TEST_LIBRARY names another GPU library than the fake device.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GpuSortTest;
use PostgreSQL::Test::Utils;
use Test::More;

seed_random();

my $library = $ENV{GPUSORT_TEST_LIBRARY} || '$libdir/libgpusort_cpu_abi';
my $node = new_node('device_feed', parallel => 1, conf => <<CONF);
gpusort.device_library = '$library'
gpusort.device = 0
gpusort.staging_memory = 8MB
gpusort.device_memory = 512MB
gpusort.algorithm = gpu_radix
gpusort.device_learn = on
shared_buffers = 64MB
work_mem = 64MB
CONF

# t: k has many ties, n has NULLs, p and q have long common prefixes. few: the planner expects few rows, many come.
# long: one row is longer than a chunk.
$node->safe_psql('postgres', <<'SQL');
CREATE TABLE t AS SELECT i AS id, (mix(i) % 5000)::int AS k, (mix(i) % 3)::int AS three, (mix(i * 3) / 1e3)::float8 AS
	f, NULLIF(mix(i * 5) % 100, 7)::int8 AS n,
	repeat('x', (mix(i * 7) % 50)::int) AS p, 'customer#' || mix(i * 11) AS s,
	NULLIF((mix(i * 13) % 40)::numeric * 1e20 + (mix(i * 17) % 3) / 1e12, 7e20) AS m,
	('q' || mix(i) % 4 || ' goes on' || mix(i * 19) % 900)::char(20) AS q FROM generate_series(1, 60000) i;
CREATE TABLE few AS SELECT i AS id, mix(i)::int8 AS k, repeat('y', (i % 30)::int) AS p FROM generate_series(1, 100) i;
ANALYZE few;
INSERT INTO few SELECT i, mix(i)::int8, repeat('y', (i % 30)::int) FROM generate_series(101, 60000) i;
CREATE TABLE long AS SELECT i AS id, mix(i) AS k, repeat('z', CASE WHEN i = 19000 THEN 200000 ELSE 10 END) AS p FROM
	generate_series(1, 20000) i;
CREATE TABLE nine AS SELECT i AS id, mix(i)::int8 AS a, NULLIF(mix(i * 3)::int8, mix(57000)::int8) AS b FROM
	generate_series(1, 20000) i;
CREATE TABLE dozen AS SELECT i AS id, CASE WHEN i <> 9 THEN mix(i)::int8 END AS a, 'customer' || i AS s FROM
	generate_series(1, 12) i;
VACUUM ANALYZE t, long, nine, dozen;
CREATE FUNCTION same(x bigint) RETURNS bigint LANGUAGE sql STABLE PARALLEL SAFE AS
	'SELECT x + 0 * length(current_setting($$my.n$$, true))';
SQL
# Keeps the rows that the leader, or a worker, reads. The other kind of process is slow, so that it reads few rows. The
# function is declared immutable, because rows of volatile functions do not go to a device.
$node->safe_psql('postgres', <<'SQL');
CREATE FUNCTION shared_by(whose text, id int) RETURNS bool LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE COST 10 AS $$
BEGIN
	IF (current_setting('my.pid') = pg_backend_pid()::text) = (whose = 'leader') THEN RETURN true; END IF;
	PERFORM pg_sleep(0.001);
	RETURN NULL;
END $$;
SQL
device_ready($node, 'start');

my $explain = 'EXPLAIN (ANALYZE, BUFFERS OFF, COSTS OFF)';
sub by_device { return $node->safe_psql('postgres', ($_[1] // '')
	. "; $explain $_[0]") =~ /^Custom Scan \(GpuSort\).*?\n(?:  Sort.*\n)*  Sort Device: rows/ ? 1 : 0 }
sub same_rows
{
	my ($query, $name, $set) = @_;
	is($node->safe_psql('postgres', ($set // 'SELECT')
		. "; SELECT nodes || ' ' || result FROM check_sort(\$q\$$query\$q\$)") =~ s/^\n//r, 'GpuSort same',
		"$name: rows");
}

# a window reads its groups off the keys of a merge, which rows of a device do not have: 15 ns a row and column
sub device_rows_ms
{
	my ($rc, $out, $err) = $node->psql('postgres', "SET client_min_messages = debug1; SET gpusort.plan_grouping = on;
		$explain $_[0]");
	return $err =~ /with a GPU in [\d.]+ and ([\d.]+) ms/ ? $1 : diag("$out\n$err");
}
cmp_ok(device_rows_ms('SELECT rank() OVER (PARTITION BY k ORDER BY f) FROM t') -
	device_rows_ms('SELECT k, f FROM t ORDER BY k, f'), '>', 1.5, 'a window prefers a merge');

# EXPLAIN
my $plan = $node->safe_psql('postgres', "$explain SELECT * FROM t ORDER BY k");
my $how = qr/Sort Method: gpu radix  Memory: \d+kB\n  Sort Route: gpu radix: .*60000 rows.*\n  Sort Phases: .*\n/;
my $device = qr/Sort Device: rows .*up=\d+kB down=\d+kB\n/;
like($plan, qr/^Custom Scan \(GpuSort\) \(actual .*rows=60000.*\n  Sort Key: k\n  $how  $device  ->  Gather/,
	'EXPLAIN: the sort of all rows');
like($plan, qr/Worker 0:  Sort Method: gpu  .*\n.*Worker 0:  Sort Route: sent to one GPU with all participants' rows/,
	'EXPLAIN: a worker');
sub sent
{
	my ($plan, $who) = @_;
	my $sum = 0;
	$sum += $1 while $plan =~ /${who}Sort Phases: rows=(\d+)/g;
	return $sum;
}
is(sent($plan, qr/ /), 60000, 'EXPLAIN: workers and leader have sent all rows');
unlike($plan, qr/Sort Streams/, 'EXPLAIN: nothing is merged');
like($plan, qr/GpuSort Feed\) \(actual .*rows=20000(\.00)? loops=3\)/,
	"EXPLAIN: the Feed's rows, with the leader's share");
note $plan;
my $learned = q(SELECT string_agg(part || coalesce(log2_rows::text, ''), ' ' ORDER BY part, log2_rows) FROM
	gpusort_device_model() WHERE jobs > 0);
my $by_all = $node->safe_psql('postgres', $learned);
like($by_all, qr/\bsort_6417\b/, 'the job corrects the factor of its total number of rows');
unlike($by_all, qr/\bsort_641[0-6]\b/, '... and no factor of one participant\'s number of rows');
# row mode, because work_mem is small
$node->safe_psql('postgres', "SET max_parallel_workers_per_gather = 0; SET work_mem = '1MB'; $explain SELECT * FROM t "
	. "ORDER BY k");
like($node->safe_psql('postgres', $learned), qr/\bsort_6417\b/, '... as a serial sort of these rows does');
# learning is switched off, so that the following results do not depend on the load of this machine
reload_with($node, 'gpusort.device_learn', 'off');

# Rows, for kinds of keys, numbers of workers, with and without participation of the leader
for my $order ('k, id', 'f DESC, id', 'n NULLS FIRST, id', 'n DESC, id', 'three, k, id', 's, id', 's DESC', 'p, id',
	'p DESC, id DESC', 'three, p, k, id', 'm, id', 'm DESC NULLS LAST, q, id', 'q DESC, m, id')
{
	my $workers = pick(2, 3, 4, 7);
	my $set = "SET max_parallel_workers_per_gather = $workers; SET parallel_leader_participation = " . pick('on', 'off')
		. "; SET work_mem = '" . pick('64kB', '64MB') . "'";
	is(by_device("SELECT * FROM t ORDER BY $order", $set), 1, "$set: $order: on the device");
	same_rows("SELECT * FROM t ORDER BY $order", "$set: $order", $set);
	same_rows("SELECT id, k, three, f, n, p || '' AS p, s || '' AS s, m, q FROM t WHERE id % 3 = 0 "
		. "ORDER BY $order",
		"$set: some rows by $order", $set);
}
# keys leave out the common prefix of strings
unlike($node->safe_psql('postgres', "$explain SELECT $_ FROM t ORDER BY s"), qr/\d{4} ties compared/,
	"$_: a prefix is left out") for '*', 'id, s', "id, s || '' AS s";
# a key of all columns leaves no ties, if 128 bits hold it and all values: no long string, no NULL without a number
for my $case ([ "'c' || k", 'id', 0 ], [ "'c' || k", 'f', 0 ], [ "CASE WHEN id <> 54321 THEN 'c' || k END", 'id', 0 ],
	[ "CASE WHEN id <> 54321 THEN 'c' || k END", 'f', 1 ], [ "'c' || k", 'CASE WHEN id <> 54321 THEN f END', 1 ],
	[ "'c' || CASE WHEN id = 54321 THEN '1234, but longer' ELSE k::text END", 'f', 1 ],
	[ "'c' || CASE WHEN id = 54321 THEN '1234, but longer' ELSE k::text END", 'id', 1 ])
{
	my ($s, $second, $ties) = @$case;
	for my $dir ('', 'DESC NULLS LAST', 'NULLS FIRST')
	{
		my $query = "SELECT id, $s AS s, $second AS x FROM t ORDER BY s $dir, x $dir";
		my $of = $node->safe_psql('postgres', "$explain $query");
		my $none = qr/^  Sort Route: gpu radix: \d+-bit keys, 60000 rows/m;
		my $some = qr/^  Sort Route: gpu radix: .*\d{4} ties compared/m;

		like($of, $ties ? $some : $none, "$s, $second $dir: " . ($ties ? 'ties' : 'no ties'));
		same_rows($query, "$s, $second $dir");
	}
}
# 128 bits hold all columns, or those up to the text and NULLs: then the shorter key is used
{
	my $query = "SELECT id, CASE WHEN id <> 54321 THEN k END AS a, 'c' || k % 10 AS s FROM t ORDER BY a, s, id";
	is(by_device($query), 1, 'a NULL before a text, with a column behind it: on the device');
	same_rows($query, 'a NULL before a text, with a column behind it');
}
same_rows('SELECT * FROM t WHERE id < 0 ORDER BY k', 'no rows');
same_rows("SELECT * FROM t WHERE id % 6000 = $_ ORDER BY s, id", "few rows by s, $_") for 1, 2;
is(by_device('SELECT * FROM few ORDER BY k'), 1, 'more than expected: on the device');
same_rows('SELECT * FROM few ORDER BY k, id', 'more than expected');

# rows of the leader alone, which also enlarges the job for itself; then rows of the workers alone
for my $whose ('leader', 'workers')
{
	my $rows = $whose eq 'leader' ? 'few' : 't';
	my $query = "SELECT * FROM $rows WHERE shared_by('$whose', id) IS NOT NULL ORDER BY k";
	my $set = "SELECT set_config('my.pid', pg_backend_pid()::text, false)";
	my $all = $node->safe_psql('postgres', "$set; $explain $query");
	my ($leaders, $workers) = (sent($all, qr/^ +/m), sent($all, qr/Worker \d:  /));
	note $all;
	cmp_ok($whose eq 'leader' ? $leaders : $workers, '>', 1000, "all rows are read by the $whose");
	is($whose eq 'leader' ? $workers : $leaders, 0, '... and other processes read none');
	like($all, qr/^Custom Scan \(GpuSort\) \(.*rows=${\($leaders + $workers)}\b.*\n(?:  Sort.*\n)*  Sort Device: rows/m,
		'... on the device');
	is($node->safe_psql('postgres', "$set; SELECT bool_and(k >= last) IS NOT FALSE, count(*) = count(DISTINCT id) FROM "
		. "(SELECT id, k, lag(k) OVER () AS last FROM ($query OFFSET 0) x) y") =~ s/^\d+\n//r, 't|t', '... in order');
}
# The leader reads no rows and ends before the workers begin, which read all rows. A generic plan evaluates the function
# in each process.
$node->safe_psql('postgres', <<'SQL');
CREATE FUNCTION mine(whose text) RETURNS bool LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS
	$$ BEGIN RETURN (current_setting('my.pid') = pg_backend_pid()::text) = (whose = 'leader'); END $$;
SQL
my $begun = new_session($node);
$begun->query("SELECT set_config('my.pid', pg_backend_pid()::text, false); SET plan_cache_mode = force_generic_plan; "
	. 'PREPARE rows (text) AS SELECT * FROM t WHERE mine($1) ORDER BY k; PREPARE sums (text) AS SELECT count(*), '
	. 'count(DISTINCT id), bool_and(k >= last) FROM (SELECT id, k, lag(k) OVER () AS last FROM (SELECT * FROM t WHERE '
	. 'mine($1) ORDER BY k OFFSET 0) x) y');
reload_with($node, 'post_auth_delay', '1s');
for my $whose ('workers', 'leader')
{
	is($begun->query("EXECUTE sums('$whose')"), '60000|60000|t', "late workers, rows of the $whose");
	is($begun->{stderr}, '', '... without an error');
	like($begun->query("$explain EXECUTE rows('$whose')"),
		qr/^Custom Scan \(GpuSort\) \(.*rows=60000.*\n(?:  Sort.*\n)*  Sort Device: rows.*One-Time Filter: mine\(/s,
		'... on the device');
}
$begun->quit;
reload_with($node, 'post_auth_delay', '0');
is(sent($node->safe_psql('postgres', "SET parallel_leader_participation = off; $explain SELECT * FROM few ORDER BY k"),
	qr/^ +/m), 0, 'a leader that does not participate sends no rows');
like($node->safe_psql('postgres', "SET max_parallel_workers = 0; $explain SELECT * FROM t ORDER BY k"),
	qr/Workers Launched: 0\n.*Feed\) \(actual .*rows=60000/s, 'no worker: the leader sends all rows');
same_rows('SELECT * FROM t ORDER BY k, id', 'no worker', 'SET max_parallel_workers = 0');
same_rows('SELECT * FROM t ORDER BY k, id', 'fewer than planned',
	'SET max_parallel_workers = 1; SET max_parallel_workers_per_gather = 4');
# workers that end before the leader attaches to their queues
my $late = "SET gpusort.device_fault = 'late_leader'";
for my $order ('k, id', 's, id')
{
	is(by_device("SELECT * FROM t ORDER BY $order", $late), 1, "a late leader, $order: on the device");
	same_rows("SELECT * FROM t ORDER BY $order", "a late leader, $order", $late);
	same_rows("SELECT * FROM t ORDER BY $order", "a late leader without workers, $order",
		"$late; SET max_parallel_workers = 0");
}
is($node->safe_psql('postgres', <<'SQL'), 'same', 'rescans, read to the end and in part');
SET enable_material = off; SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_memoize = off;
SELECT result FROM check_sort('SELECT g, s.id FROM generate_series(1, 5) g LEFT JOIN LATERAL (
	SELECT id FROM (SELECT id, k FROM t ORDER BY k, id OFFSET 0) x
	WHERE x.id % 5 = g % 5 LIMIT 3) s ON true ORDER BY 1, 2');
SQL
is($node->safe_psql('postgres', <<'SQL'), "same\n0", 'rescans without workers');
SET enable_material = off; SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_memoize = off;
SET max_parallel_workers = 0;
SELECT result FROM check_sort('SELECT g, s.id FROM generate_series(1, 5) g LEFT JOIN LATERAL (
	SELECT id FROM (SELECT id, k FROM t ORDER BY k, id OFFSET 0) x
	WHERE x.id % 5 = g % 5 LIMIT 3) s ON true ORDER BY 1, 2');
SELECT count(*) FROM gpusort_progress;
SQL
# the planner may expect more rows than an integer holds
$node->safe_psql('postgres', 'CREATE FUNCTION many() RETURNS SETOF int LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE '
	. q(ROWS 1e9 AS 'BEGIN RETURN NEXT 1; END'));
same_rows('SELECT id FROM t, many() a, many() b ORDER BY k, a + b, id', 'far more expected');
# a function's rows: each worker would evaluate it once more if the device were lost
$node->safe_psql('postgres', "CREATE FUNCTION two_$_() RETURNS SETOF int LANGUAGE plpgsql $_ PARALLEL SAFE ROWS 2 AS "
	. q('BEGIN RETURN NEXT 1; RETURN NEXT 2; END')) for 'volatile', 'immutable';
is(by_device('SELECT id, k FROM t JOIN two_immutable() g ON three = g ORDER BY k'), 1,
	'rows of a function: on the device');
same_rows('SELECT id, k FROM t JOIN two_immutable() g ON three = g ORDER BY k, id', 'rows of a function');
device_unused($node, 'rows');

# The router's choice. If each worker has a CPU and memory, a merge of the workers' sorts is as fast.
my $auto = "SET gpusort.algorithm = auto; SET work_mem = '1MB'";
$node->safe_psql('postgres', 'CREATE TABLE more AS SELECT i AS id, mix(i) AS k FROM generate_series(1, 1000000) i; '
	. 'VACUUM ANALYZE more');
is(by_device('SELECT * FROM t ORDER BY k', 'SET gpusort.algorithm = auto'), 0, 't: too few rows');
is(by_device('SELECT * FROM more ORDER BY k', $auto), 1, 'more: enough rows');
# strings, if few ties are to be expected, as the leader would have to resolve them all
for my $case ([ 'md5(k::text)', 1 ], [ "'one of ten ' || k % 10", 1 ], [ "'one of ' || k % 10 || ' long ones'", 0 ],
	[ "'one of ten ' || k % 10 || CASE WHEN id = 990000 THEN ' and longer' ELSE '' END", 0 ],
	[ "'one of ' || hashint8(id) % 20000 || ' long ones'", 0 ], [ "'one of many ' || md5(k::text)", 1 ])
{
	my ($s, $on_device) = @$case;
	is(by_device("SELECT id, $s AS s FROM more ORDER BY s", $auto), $on_device,
		"$s: " . ($on_device ? 'few ties' : 'ties'));
	is($node->safe_psql('postgres', "$auto; SELECT count(*), count(DISTINCT id), "
		. "bool_and(s >= last) FROM (SELECT id, s, lag(s) OVER () AS last FROM (SELECT id, $s AS s FROM more "
		. 'ORDER BY s OFFSET 0) x) y'), '1000000|1000000|t', "$s: rows");
}

# Participants drop duplicates before they send anything; a device would return all of them
for my $case ([ 'more', $auto, 0 ], [ 't', 'SELECT', 1 ])
{
	my ($table, $set, $on_device) = @$case;
	my $of = $node->safe_psql('postgres', "$set; SET enable_hashagg = off; $explain SELECT DISTINCT k FROM $table");

	like($of, qr/Distinct Key: k\n.*GpuSort Feed/s, "DISTINCT of $table: a parallel sort");
	unlike($of, qr/Unique/, "DISTINCT of $table: without a Unique node");
	is($of =~ /Sort Device: rows/ ? 1 : 0, $on_device,
		"DISTINCT of $table: " . ($on_device ? 'forced' : 'not on the device'));
}

# Queries that do not use one job of all participants
for my $case ([ 'SELECT * FROM t ORDER BY k LIMIT 10', 'a LIMIT' ],
	[ 'SELECT *, ARRAY[k] AS a FROM t ORDER BY a', 'arrays' ],
	[ 'SELECT * FROM t ORDER BY k', 'verification', 'SET gpusort.verify = on' ],
	[ 'SELECT * FROM t ORDER BY k', "the CPU's algorithm", 'SET gpusort.algorithm = cpu_radix' ],
		[ 'SELECT * FROM t WHERE same(id) > 0 ORDER BY k', 'rows of a filter by a stable function' ],
		[ 'SELECT id, k FROM t JOIN two_volatile() g ON three = g ORDER BY k', 'rows of a volatile function' ])
{
	my ($query, $name, $set) = @$case;
	is(by_device($query, $set), 0, "$name: not on the device");
	same_rows($query =~ s/(BY \w+)/$1, id/r, $name, $set);
}
# jobs of the last statements may still be closing
$node->safe_psql('postgres', <<'SQL');
CREATE FUNCTION jobs_held() RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE n bigint;
BEGIN
	FOR i IN 1 .. 18000 LOOP
		n := (SELECT sum(jobs) FROM gpusort_devices());
		EXIT WHEN n = 0;
		PERFORM pg_sleep(0.01);
	END LOOP;
	RETURN n;
END $$;
SQL
is($node->safe_psql('postgres', 'BEGIN; DECLARE c CURSOR FOR SELECT id FROM t ORDER BY k, id; MOVE 10 FROM c; SELECT '
	. 'jobs_held(); COMMIT'), '0', 'a cursor holds nothing');

# A row that does not fit a chunk or a key: the sort is repeated without the device.  Of a dozen rows it is among the
# first ones, which a participant buffers.
for my $query (q(SELECT id, p || '' AS q FROM long ORDER BY k), 'SELECT * FROM nine ORDER BY a, b',
	'SELECT * FROM dozen ORDER BY a, s')
{
	is(by_device($query), 0, "$query: not on the device in the end");
	same_rows($query, $query);
}
device_unused($node, 'after rows that do not fit');

# Faults before and after the first returned row: each row is returned once, in order
my $sums = 'count(*), count(DISTINCT id), sum(id), bool_and(o >= last) FROM (SELECT *, lag(o) OVER () AS last FROM '
	. '(SELECT id, KEY AS o FROM t ORDER BY KEY OFFSET 0) x) y';
for my $fault ('memory_start', 'memory_sort', 'error_up', 'error_sort', 'error_down', 'kill_up', 'kill_sort',
	'kill_down', 'stall', 'freeze',
	'corrupt', 'corrupt_size', 'corrupt_bit', 'corrupt_place', 'corrupt_count')
{
	my $key = pick('k', 'three', 'id', 's', 'p', 'q');
	my $before = fallbacks($node);
	device_ready($node, $fault);
	# a successful job, because after a process without one the next process starts late
	$node->safe_psql('postgres', 'SELECT count(*) FROM (SELECT id FROM t ORDER BY k OFFSET 0) x');
	is($node->safe_psql('postgres', "SET gpusort.device_fault = $fault; SET max_parallel_workers_per_gather = "
		. pick(1, 2, 5) . '; SELECT ' . $sums =~ s/KEY/$key/gr), '60000|60000|1800030000|t', "$fault, by $key");
	cmp_ok(fallbacks($node), '>', $before, "$fault: counted");
	device_ready($node, "after $fault");
	device_unused($node, $fault);
}

# A wrong result that is found after all rows were returned
fails_like($node, 'SET gpusort.device_fault = corrupt_late; SELECT count(*) FROM (SELECT * FROM t ORDER BY k OFFSET 0) '
	. 'x', qr/GPU returned a wrong sort result after rows had been returned/, 'corrupt_late');
device_unused($node, 'corrupt_late');

# The device process is killed after some rows were returned: the remaining rows come, also ties with returned rows
gate_make($node);
for my $key ('k', 'three', '7', 'id', 's', 'p', 'q')
{
	my $s = new_session($node);
	my $at = int rand(50000) + 5000;
	my $q = 'SELECT count(*), count(DISTINCT id), sum(id), bool_and(o >= last) FROM (SELECT id, o, lag(o) OVER () AS '
		. 'last, gate(row_number() OVER (), ' . "$at) AS n "
	  . "FROM (SELECT id, KEY AS o, p FROM t ORDER BY KEY OFFSET 0) x OFFSET 0) y"
	  	=~ s/KEY/$key eq '7' ? 'id * 0' : $key/ger;

	# the record of returned equal rows may be larger than memory
	$s->query("SET work_mem = '" . pick('64kB', '64MB') . "'");
	gate_shut();
	begin_query($s, $q);
	gate_reached($node, "$key at $at");
	my $pid = kill_device_process($node, $key);
	ok(process_ends($pid), "$key: the process has ended");
	gate_open();
	is($s->query('SELECT 1'), "60000|60000|1800030000|t\n1", "killed at row $at by $key: the same rows");
	is($s->{stderr}, '', "$key: no error");
	$s->quit;
	next_device_process($node, $pid, $key);
	device_unused($node, $key);
}

# The same with distinct columns: the device returns duplicates, and so must the rerun; the node drops them
for my $key ('id / 3', "'v' || id % 9000")
{
	my $s = new_session($node);
	my $values = $node->safe_psql('postgres', "SELECT count(DISTINCT $key) FROM t");
	my $q = 'SELECT count(*), count(DISTINCT o), bool_and(o > last) IS NOT FALSE FROM (SELECT o, lag(o) OVER () AS '
		. 'last, gate(row_number() OVER (), 4000) AS n '
		. "FROM (SELECT DISTINCT $key AS o FROM t ORDER BY o OFFSET 0) x OFFSET 0) y";

	$s->query('SET enable_hashagg = off');
	like($s->query("EXPLAIN (COSTS OFF) SELECT DISTINCT $key AS o FROM t ORDER BY o"), qr/Distinct Key.*GpuSort Feed/s,
		"DISTINCT $key: a parallel sort drops duplicates");
	gate_shut();
	begin_query($s, $q);
	gate_reached($node, "DISTINCT $key");
	my $pid = kill_device_process($node, "DISTINCT $key");
	ok(process_ends($pid), "DISTINCT $key: the process has ended");
	gate_open();
	is($s->query('SELECT 1'), "$values|$values|t\n1", "DISTINCT $key: the same values");
	is($s->{stderr}, '', "DISTINCT $key: no error");
	$s->quit;
	next_device_process($node, $pid, "DISTINCT $key");
	device_unused($node, "DISTINCT $key");
}

# Early ends: errors in a worker and above the sort, and a timeout, with and without a job that hangs
my $session = new_session($node);
for my $fault ('none', 'hang_up', 'hang_sort', 'hang_down')
{
	$session->query("SET gpusort.device_fault = $fault");
	ends_early($session, $fault, 'k') if $fault eq 'none';
	times_out($session, $fault, '500ms');
	$session->query('SET gpusort.device_fault = none');
	session_ok($session, "$fault: timeout");
	device_unused($node, "$fault: timeout");
}

# A worker is terminated while it sends rows
$session->query('SET gpusort.device_fault = hang_up; SET gpusort.algorithm = gpu_radix');
worker_terminated($node, $session, 'SELECT count(*) FROM (SELECT * FROM t ORDER BY k OFFSET 0) s',
	'SET gpusort.device_fault = none');
device_unused($node, 'a terminated worker');
$session->quit;

# Many sorts at the same time, with a pool of 16 chunks. A sort whose rows are not read holds two chunks, a sort with
# two workers needs six.
$node->append_conf('postgresql.conf', "gpusort.staging_memory = 1MB\n");
$node->restart;
device_ready($node, 'a small pool');
gate_make($node);
gate_shut();
# Waits until there is this number of jobs.
sub jobs_are
{
	ok($node->poll_query_until('postgres', "SELECT free_jobs = 64 - $_[0] FROM gpusort_devices()"), $_[1]);
}
my @held;
my $no_leader = 'SET parallel_leader_participation = off';
for my $n (1 .. 6)
{
	my $s = new_session($node);
	my $q = 'SELECT count(*), count(DISTINCT id), sum(id), bool_and(o >= last) FROM (SELECT id, o, '
		. 'lag(o) OVER () AS last, gate(row_number() OVER (), 10) AS n '
		. 'FROM (SELECT id, k AS o, p FROM t ORDER BY k OFFSET 0) x OFFSET 0) y';

	# rows on the device, so that the job stays open while they are returned
	$s->query("SET work_mem = '256kB'");
	begin_query($s, $q);
	ok($node->poll_query_until('postgres',
		"SELECT count(*) = $n FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"),
		"sort $n returns rows");
	push @held, $s;
	jobs_are($n, '... and holds a job');
	is(by_device('SELECT * FROM t ORDER BY k', $no_leader), $n < 6 ? 1 : 0,
		"beside $n: " . ($n < 6 ? 'one more' : 'no room for two workers'));
	jobs_are($n, "... whose job has ended");
}
same_rows('SELECT * FROM t ORDER BY k, id', 'no room for two workers', $no_leader);
gate_open();
for my $s (@held)
{
	is($s->query('SELECT 1'), "60000|60000|1800030000|t\n1", 'a sort that had to wait');
	is($s->{stderr}, '', '... without an error');
	$s->quit;
}
device_unused($node, 'many at once');

ok($node->poll_query_until('postgres',
	"SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'parallel worker'"), 'no worker remains');
is(scalar(temp_files($node)), 0, 'no temporary file remains');
$node->stop;
unlike(slurp_file($node->logfile), qr/TRAP|PANIC|terminated by signal 11/, 'no crash in the log');
done_testing();
