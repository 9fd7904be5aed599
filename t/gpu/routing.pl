# routing.pl: which sorts use a GPU, with which algorithm, and how their keys travel.
#
# While rows come in, and while rows are returned. GPUSORT_TEST_LIBRARY names another GPU library than the fake
# device.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GpuSortTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $library = $ENV{GPUSORT_TEST_LIBRARY} || '$libdir/libgpusort_cpu_abi';
my $node = new_node('device_routing', conf => <<CONF);
gpusort.device_library = '$library'
gpusort.device = 0
gpusort.staging_memory = 8MB
gpusort.device_memory = 512MB
shared_buffers = 128MB
work_mem = 512MB
log_min_messages = log
CONF

device_ready($node, 'start');
my $rows = 400_000;
$node->safe_psql('postgres', <<SQL);
CREATE TABLE t AS SELECT i AS id, (mix(i) - 2147483648)::int4 AS k, mix(i * 7) * 1000003 - 2000000000000000 AS w,
	(mix(i) % 200)::int4 AS few, (mix(i * 5) % 50000)::int4 AS vals, floor(100000 * exp(mix(i * 3) / 4294967296.0 *
		9))::int4 AS bent,
	CASE WHEN i = 395000 THEN NULL ELSE (mix(i) - 2147483648)::int4 END AS late
FROM generate_series(1, $rows) i;
CREATE TABLE long AS SELECT mix(i)::int8 AS k, repeat('x', 7000) AS pad FROM generate_series(1, 5000) i;
ALTER TABLE long ALTER pad SET STORAGE PLAIN;
TRUNCATE long;
INSERT INTO long SELECT mix(i)::int8, repeat('x', 7000) FROM generate_series(1, 5500) i;
VACUUM ANALYZE t;
VACUUM ANALYZE long;
CREATE FUNCTION route(q text) RETURNS text LANGUAGE plpgsql AS \$\$
DECLARE l text; r text; m text;
BEGIN
	FOR l IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF) ' || q LOOP
		r := coalesce(substring(l FROM 'Sort Route: (.*)'), r);
		m := coalesce(substring(l FROM 'Sort Device: (\\w+)'), m);
	END LOOP;
	RETURN coalesce(m, 'host') || ': ' || r;
END \$\$;
SQL

sub route { return $node->safe_psql('postgres', ($_[1] // '') . " SELECT route('$_[0]')") }
sub same
{
	my ($q, $name, $set) = @_;

	is($node->safe_psql('postgres', ($set // '') . " SELECT nodes || ' ' || result FROM check_sort('$q')"),
		'GpuSort same', "$name: rows");
}

#
# The choice of the algorithm
#
my %choice = (
	'even keys' => [ 'SELECT id FROM t ORDER BY k', qr/^keys: gpu bucket: 32-bit keys, $rows rows, device ready$/ ],
	'skewed keys' => [ 'SELECT bent, id / 2 FROM t ORDER BY bent', qr/^keys: gpu radix: / ],
	'some values, nothing else' => [ 'SELECT vals FROM t ORDER BY vals',
		qr/^keys: gpu (?:counting|bucket): .*keys only/ ],
	'97 bits' => [ 'SELECT id FROM t ORDER BY w, k', qr/^\w+: gpu bucket: (?:8|9)\d-bit keys/ ],
	'in order' => [ 'SELECT k FROM t ORDER BY id', qr/^host: presorted: .*device ready/ ],
	'few rows' => [ 'SELECT id FROM t WHERE id <= 5000 ORDER BY k', qr/^host: cpu \w+: .*device ready/ ],
	'the first few' => [ 'SELECT id FROM t ORDER BY k LIMIT 10', qr/^host: / ]);
for my $name (sort keys %choice)
{
	my ($q, $want) = @{ $choice{$name} };
	like(route($q), $want, $name);
	same($q, $name);
}
like(route('SELECT id FROM t ORDER BY k', 'SET gpusort.algorithm = gpu_hp;'),
	qr/device ready, not gpu hp: it sorts keys only/, 'gpu_hp cannot sort rows');
like(route('SELECT few FROM t ORDER BY few', 'SET gpusort.algorithm = gpu_hp;'), qr/^keys: gpu hp: .*as set/,
	'gpu_hp sorts keys only');
like(route('SELECT few FROM t ORDER BY few', 'SET gpusort.algorithm = gpu_hp1;'),
	qr/not gpu hp1: the keys are not known to be distinct/, 'gpu_hp1 needs distinct keys');
like(route('SELECT id FROM t ORDER BY k', 'SET gpusort.algorithm = gpu_onehot;'),
	qr/not gpu onehot: the keys.{1,3} range/, 'gpu_onehot');
same('SELECT few FROM t ORDER BY few', $_, "SET gpusort.algorithm = $_; SET gpusort.verify = on;")
	for ('gpu_counting', 'gpu_hp', 'gpu_hp0', 'gpu_hp1');

# a sort of rows that drops duplicates early asks the router for its last batch at most
my ($out, $err) = ('', '');
$node->psql('postgres', "SET enable_hashagg = off; SET client_min_messages = debug1; "
	. "EXPLAIN (ANALYZE, COSTS OFF) SELECT DISTINCT ON (few) few, id FROM t", stdout => \$out, stderr => \$err);
like($out, qr/Duplicates Dropped: batches=[1-9]/, 'duplicates are dropped early');
cmp_ok(scalar(() = $err =~ /gpusort: the keys of \d+ rows/g), '<', 2, 'the router is asked at most once');

# gpusort_route() makes the same choice
my $first = 'SELECT algorithm, chosen, predicted_ms > 0, reason FROM gpusort_route(%s) LIMIT 1';
for my $case ([ '400000, 32', qr/^gpu_bucket\|t\|t\|gpu bucket: 32-bit keys, 400000 rows, device ready$/ ],
	[ '4000000, 128', qr/^gpu_bucket\|t/ ], [ '8000000, 32, 200', qr/^gpu_counting\|t\|t\|gpu counting: 8-bit keys/ ],
	[ '1000, 32', qr/^cpu_\w+\|t/ ], [ q(10000000, 64, NULL, 'sorted'), qr/^presorted\|t/ ])
{
	my ($args, $want) = @$case;
	like($node->safe_psql('postgres', sprintf($first, $args)), $want, "gpusort_route($args)");
}
is($node->safe_psql('postgres', "SELECT count(*) FILTER (WHERE predicted_ms > 0.1 AND scratch_bytes > 5e7) FROM "
	. "gpusort_route(6000000, 64) WHERE algorithm ~ 'gpu_(radix|merge|bucket)'"), 3, 'predictions');
is($node->safe_psql('postgres', "SELECT reason FROM gpusort_route(6000000, 64) WHERE algorithm = 'gpu_hp'"),
	'it sorts keys only', 'gpusort_route(): the reason against gpu_hp');
# a session can have half of 512 MB
is($node->safe_psql('postgres', "SELECT count(*), count(predicted_ms), min(reason), max(reason), bool_or(chosen) FROM "
	. "gpusort_route(1000000000, 64) WHERE algorithm ~ '^gpu'"),
	$node->safe_psql('postgres', "SELECT count(*), 0, 'it does not fit the device memory', "
		. "'it does not fit the device memory', false FROM gpusort_algorithms() WHERE runs_on = 'gpu'"),
	'gpusort_route(): more rows than a device holds');
is($node->safe_psql('postgres', "SET gpusort.device_share = 1; SELECT max(reason) FROM gpusort_route(6000000, 64)"
	. " WHERE algorithm = 'gpu_radix'"),
	'it does not fit the device memory', '... or than the share of this session');
like($node->safe_psql('postgres', 'SET gpusort.device = off; ' . sprintf($first, '50000000, 64')),
	qr/^cpu_radix\|t\|t\|.*device off$/, 'gpusort_route() without a device');

# row mode is used where it pays: for long rows only if the CPU would spill them
like(route('SELECT * FROM long ORDER BY k'), qr/^host: cpu/, 'long rows that fit work_mem stay on the CPU');
like(route('SELECT * FROM long ORDER BY k', "SET work_mem = '4MB';"), qr/^rows: gpu/,
	'long rows that would be spilled go to the GPU');
like(route('SELECT id, k, w, few, vals, bent, pad FROM t, (SELECT repeat(chr(120), 60) AS pad) p ORDER BY k'),
	qr/^rows: gpu bucket/, 'many short rows go to the GPU');
like(route('SELECT id, k, w FROM t WHERE id <= 3000 ORDER BY k', "SET work_mem = '64kB';"), qr/^host: cpu .*merged$/,
	'a small sort that spills stays on the CPU');
like(route('SELECT id, k, w FROM t ORDER BY k', "SET work_mem = '64kB';"),
	qr/^rows: gpu bucket: .*$rows rows, device ready$/, 'a large sort goes to the GPU with its first rows');
device_unused($node, 'choice');

# batches of few rows need no jobs, even if a GPU algorithm is set: one or ten rows fill work_mem
{
	my $set = "SET work_mem = '64kB'; SET gpusort.algorithm = gpu_radix;";
	my $done = 'SELECT sum(jobs_done) FROM gpusort_device_stat';
	my $before = $node->safe_psql('postgres', $done);
	my $why = qr/^host: presorted: \d+-bit keys, 1 rows, .*device ready, not gpu radix: one row needs no sort/;

	for my $q ('SELECT w, repeat(chr(120 - few % 2), 70000) AS pad FROM t WHERE id <= 30 ORDER BY w LIMIT 3',
		'SELECT w, few FROM t WHERE id = 7 ORDER BY w')
	{
		like(route($q, $set), $why, "one row: $q");
		same($q, $q, "$set SET gpusort.verify = $_;") for 'off', 'on';
	}
	like(route('SELECT few FROM t WHERE id = 7 ORDER BY few', $set), qr/^host: .*not gpu radix: one row needs no sort/,
		'one key');

	# nor do batches of ten rows, of all rows, of a LIMIT, and of distinct rows; random() prevents row mode
	(my $more = $set) =~ s/64kB/256kB/;
	my $rows = '(SELECT w, few, repeat(chr(120 - few % 2), 20000 + id * 7919 % 97 * 100 + (random() * 0)::int) AS pad
		FROM t WHERE id <= 200) r';
	for my $q ("SELECT * FROM $rows ORDER BY w", "SELECT * FROM $rows ORDER BY w LIMIT 3",
		"SELECT DISTINCT w, pad FROM $rows ORDER BY w, pad")
	{
		like(route($q, $more), qr/^host: .*not gpu radix: /, "few rows: $q");
		same($q, $q, "$more SET gpusort.verify = $_;") for 'off', 'on';
	}
	is($node->safe_psql('postgres', $done), $before, 'few rows: no jobs');
}

#
# gpusort_array()
#
$node->safe_psql('postgres', <<SQL);
CREATE TABLE arrays AS SELECT n, d, (SELECT array_agg((mix(i) % d) - d / 2 ORDER BY i) FROM generate_series(1,
	n) i) AS a
FROM unnest('{2, 100, 4000, 50000}'::int[]) n, unnest('{7, 60000, 4000000000}'::int8[]) d;
CREATE FUNCTION try_array(a anyarray, alg text) RETURNS text LANGUAGE plpgsql AS \$\$
DECLARE why text;
BEGIN
	RETURN CASE WHEN gpusort_array(a, alg) = (SELECT array_agg(x ORDER BY x) FROM unnest(a) x) THEN 'same' ELSE
		'DIFFERENT' END;
EXCEPTION WHEN feature_not_supported THEN
	GET STACKED DIAGNOSTICS why = PG_EXCEPTION_DETAIL;
	RETURN substring(why FROM ': (.*)');
END \$\$;
SQL
is($node->safe_psql('postgres',
	<<SQL), "auto\ngpu_bucket\ngpu_merge\ngpu_radix", 'gpusort_array(): algorithms for any keys');
SELECT algorithm FROM arrays, (SELECT algorithm FROM gpusort_algorithms() WHERE runs_on = 'gpu' UNION SELECT 'auto') g
GROUP BY 1 HAVING bool_and(try_array(a, algorithm) = 'same' AND try_array(a::float8[], algorithm) = 'same' AND
	(d > 70000 OR try_array(a::int4[], algorithm) = 'same' AND try_array(a::float4[], algorithm) = 'same') AND (d >
		60000 OR try_array(a::int2[], algorithm) = 'same')) ORDER BY 1;
SQL
is($node->safe_psql('postgres', "SELECT string_agg(DISTINCT r, ' ') FROM (SELECT try_array(a::int4[], g) FROM arrays, "
	. "unnest('{gpu_hp,gpu_hp0,gpu_counting}'::text[]) g WHERE d < 70000) v (r)"), 'same', 'gpusort_array(): by value');
is($node->safe_psql('postgres', "SELECT try_array(a, 'gpu_hp1') FROM arrays WHERE n = 100 AND d = 7"),
	'the keys are not known to be distinct.', 'gpu_hp1: equal elements');
is($node->safe_psql('postgres', "SELECT try_array(array_agg(x), 'gpu_hp1') FROM (SELECT x FROM generate_series(-500, "
	. "20000, 3) x ORDER BY mix(x + 501)) v"), 'same', 'gpu_hp1: distinct ones');
like($node->safe_psql('postgres', "SELECT try_array(a::float8[], 'gpu_hp') FROM arrays WHERE n = 100 AND d = 7"),
	qr/^it sorts keys only, and a float cannot/, 'gpu_hp: floats');
like($node->safe_psql('postgres', "SELECT try_array(a, 'gpu_counting') FROM arrays WHERE n = 100 AND d = 4000000000"),
	qr/^the keys' range is/, 'gpu_counting: a wide range');
is($node->safe_psql('postgres', "SELECT gpusort_array(array[0, '-0', 'NaN', 1, '-Infinity', '-0', 0]::float8[], "
	. "'gpu_bucket')"), '{-Infinity,0,-0,-0,0,1,NaN}', 'gpusort_array(): stable');
for my $f ('error_sort', 'memory_start')
{
	device_ready($node, $f);
	$node->safe_psql('postgres', "SELECT gpusort_array(a, 'gpu_bucket') FROM arrays");
	my $restarts = $node->safe_psql('postgres', 'SELECT max(restarts) FROM gpusort_devices()');
	fails_like($node, "SET gpusort.device_fault = $f; SELECT gpusort_array(a, 'gpu_bucket') FROM arrays WHERE n = "
		. "50000", qr/"gpu_bucket" cannot sort this array/, "gpusort_array(): $f");
	$node->poll_query_until('postgres', "SELECT max(restarts) > $restarts FROM gpusort_devices()") if $f =~ /error/;
	device_ready($node, $f);
}
# the whole range of a type, and ranges without the least or the largest value
is($node->safe_psql('postgres', <<'SQL'), '', 'gpusort_array(): both extremes');
SELECT string_agg(concat_ws(' ', g, lo, hi, r), ', ') FROM (SELECT g, lo, hi, try_array(array[hi, 0, lo, 7, hi, -7,
	lo, hi], g) AS r
	FROM unnest('{gpu_radix,gpu_bucket,gpu_merge}'::text[]) g,
		unnest('{-9223372036854775808,-9223372036854775807}'::int8[]) lo,
			unnest('{9223372036854775807,9223372036854775806}'::int8[]) hi) v
WHERE r <> 'same';
SQL
is($node->safe_psql('postgres', <<'SQL'), '', 'gpusort_array(): both extremes, narrower types');
SELECT string_agg(concat_ws(' ', g, r), ', ') FROM unnest('{gpu_radix,gpu_bucket,gpu_merge}'::text[]) g,
	LATERAL (VALUES (try_array(array[2147483647, 0, -2147483648, 7, 2147483647], g)), (try_array(array[32767, 0,
		-32768, 7]::int2[], g)),
		(try_array(array['Infinity', 0, 'NaN', '-Infinity', 7]::float8[], g))) v (r)
WHERE r <> 'same';
SQL
# auto: the array is large enough for a GPU, which fails
is($node->safe_psql('postgres', "SET gpusort.device_fault = memory_sort; SELECT try_array(array_agg(k), 'auto') FROM "
	. "t"), 'same', 'gpusort_array(): auto sorts on the CPU');
device_unused($node, 'gpusort_array()');

#
# Keys alone go to the device.
#
my $force = 'SET gpusort.algorithm = gpu_bucket;';
# a CTE scan is not repeatable, so that row mode is not used
my $fixed = 'WITH c AS MATERIALIZED (SELECT *, w AS w2, -w AS w3, 7 * w AS w4 FROM t) SELECT * FROM c';
like(route("$fixed ORDER BY k", $force),
	qr/^keys: gpu bucket: \d+-bit keys, $rows rows, device ready, as set$/, 'keys');
like(route("$fixed ORDER BY w, k", $force), qr/^keys: gpu bucket: \d+-bit keys, $rows rows, .*as set$/, 'wide keys');
like(route("SELECT k FROM t ORDER BY k", $force), qr/^keys: gpu bucket: .*keys only$/, 'keys only');
like(route("$fixed ORDER BY late", $force), qr/^keys: gpu bucket: .*as set$/, 'a late NULL');
like(route("SELECT late FROM t ORDER BY late", $force), qr/^keys: gpu bucket: .*keys only$/, 'a late NULL, keys only');
# the planner expects few rows
like(route('WITH c AS MATERIALIZED (SELECT * FROM t WHERE id % 1 = 0 AND k % 1 = 0) SELECT * FROM c ORDER BY k',
	$force), qr/^keys: gpu bucket: .*$rows rows/, 'more rows than estimated');
like(route("$fixed ORDER BY w, k, id, few", $force), qr/^keys: gpu bucket: .*as set$/, 'a key that does not fit');
for my $verify ('off', 'on')
{
	my $set = "$force SET gpusort.verify = $verify;";
	# a late NULL first and last, ties, each width of keys
	same("$fixed ORDER BY $_", "$_, verify $verify", $set)
		for ($verify eq 'off' ? ('k, id', 'late NULLS FIRST, id', 'few, bent, vals, id')
		: ('w DESC, k', 'late DESC, id', 'w, k, few, id'));
	same("SELECT $_ FROM t ORDER BY $_", "$_ only, verify $verify", $set) for ('k', 'late', 'few', 'w', 'w, k');
	is($node->safe_psql('postgres', "$set SELECT result FROM check_stable('(SELECT few, id AS seq FROM t OFFSET 0) "
		. "s', 'few')"), 'same', "equal rows keep their order, verify $verify");
	is($node->safe_psql('postgres', "$set SET enable_hashjoin = off; SET enable_nestloop = off; SELECT result FROM "
		. "check_sort('SELECT count(*), sum(a.id) FROM t a JOIN t b ON a.k = b.k AND a.w = b.w')"), 'same',
		"merge join, verify $verify");
	# external sorts
	same("$fixed ORDER BY k, id", "runs, verify $verify", "$set SET work_mem = '6MB';");
	same("SELECT k FROM t ORDER BY k", "runs of keys, verify $verify", "$set SET work_mem = '2MB';");
}
like(route("$fixed ORDER BY k", "$force SET work_mem = '6MB';"), qr/^keys: gpu bucket: .*merged$/, 'keys of runs');
like(route('SELECT k FROM t ORDER BY k'), qr/^keys: gpu bucket: .*device ready, keys only$/,
	'algorithm auto: keys only');
device_unused($node, 'keys');

#
# The device fails while rows are returned. In row mode more rows remain than a job's chunks hold, so that some of them
# are still on the device. With keys the job has ended then, because the whole result is checked before its first row
# is returned.
#
gate_make($node);
for my $case ([ 'rows', 'SELECT * FROM t', 'k, id', "SET work_mem = '1MB';" ], [ 'keys', $fixed, 'k, id' ],
	[ 'keys only', 'SELECT w, k FROM t', 'w, k' ])
{
	my ($name, $select, $order, $set) = @$case;
	my $q = "SELECT *, row_number() OVER () AS n FROM ($select ORDER BY $order OFFSET 0) s";
	my $want = $node->safe_psql('postgres',
		"SET gpusort.enable = off; SELECT count(*), md5(string_agg(q::text, ',')) FROM ($q) q");
	for my $fails ($name eq 'rows' ? ('no', 'in time', 'and there is another') : 'in time')
	{
		device_ready($node, $name);
		my $s = new_session($node);
		my $offset = -s $node->logfile;

		$s->query($force . ($set // ''));
		gate_shut();
		begin_query($s, "SELECT count(gate(n, 77000)), md5(string_agg(q::text, ',')) FROM ($q) q");
		gate_reached($node, $name);
		is($node->safe_psql('postgres', 'SELECT jobs FROM gpusort_devices()'), $name eq 'rows' ? 1 : 0,
			"$name: rows are there, the job is " . ($name eq 'rows' ? 'still open' : 'over'));
		if ($fails ne 'no')
		{
			my $pid = $node->safe_psql('postgres', 'SELECT process_pid FROM gpusort_devices()');
			die "no process" unless $pid =~ /^\d\d+$/;
			kill 'KILL', $pid;
			ok($node->poll_query_until('postgres',
				"SELECT bool_and(process_pid IS DISTINCT FROM $pid) FROM gpusort_devices()"),
				"$name: the process has ended");
			device_ready($node, $name) if $fails =~ /another/;
		}
		gate_open();
		is($s->query('SELECT 1'), "$want\n1", "$name: the same rows");
		is($s->{stderr}, '', "$name: no error");
		is($node->log_contains(qr/continues without the GPU: the device process ended/, $offset) ? 1 : 0,
			$name eq 'rows' && $fails ne 'no' ? 1 : 0, "$name: the device failed in the sort, if it has a job");
		$s->quit;
		device_ready($node, $name);
		device_unused($node, $name);
	}
}
for my $f ('error_up', 'kill_up', 'error_sort', 'kill_sort', 'error_down', 'kill_down')
{
	# a few chunks suffice
	for my $q ($f =~ /error/ ? () : "$fixed WHERE id <= 100000 ORDER BY k, id",
		'SELECT w, k FROM t WHERE id <= 100000 ORDER BY w, k')
	{
		device_ready($node, $f);
		# after a successful job the next process starts without a pause
		$node->safe_psql('postgres', "$force SELECT count(*) FROM ($q OFFSET 0) s");
		my $restarts = $node->safe_psql('postgres', 'SELECT max(restarts) FROM gpusort_devices()');
		same($q, "$f", "$force SET gpusort.device_fault = $f;");
		ok($node->poll_query_until('postgres', "SELECT max(restarts) > $restarts FROM gpusort_devices()"),
			"$f: a new process starts");
		device_ready($node, $f);
		device_unused($node, $f);
	}
}

$node->stop;
done_testing();
