# learning.pl: measurements and correction factors of the GPU's cost model.
#
# The fake device reports times of its own clock for copies and sorts, so that results do not depend on the machine.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GpuSortTest;
use PostgreSQL::Test::Utils;
use Test::More;

plan skip_all => "the fake device's clock is needed" if $ENV{GPUSORT_TEST_LIBRARY};

# Another program uses most of the memory until the first measurement is done.  The rest suffices to measure sorts of
# 2^14 and 2^17 rows.  With more memory larger sorts would be measured, too, unless the smaller ones took long.
my @memory = ('MEMORY=16384', 'OTHERS=16320');
fake_device_is('COPY_TIMES=100', 'SORT_TIMES=100', @memory);

my $node = new_node('device_learns', conf => <<CONF);
gpusort.device_library = '\$libdir/libgpusort_cpu_abi'
gpusort.device = 0
gpusort.device_learn = on
gpusort.staging_memory = 8MB
gpusort.device_memory = 16GB
gpusort.device_idle_blocks = 1s
shared_buffers = 64MB
log_min_messages = log
CONF
device_ready($node, 'start');

my $measured = "SELECT count(measured) >= 6 FROM gpusort_device_model()";
sub measured_is { my ($what, $times, $name) = @_; is($node->safe_psql('postgres',
	"SELECT string_agg(DISTINCT round(measured)::text, ' ') FROM gpusort_device_model() WHERE part ~ '$what'"),
		$times, $name) }
# The CPU's times are measured on this machine and vary with its load; the GPU's times are the fake device's. The test
# checks that the faster one is chosen, whichever it is.
sub choice
{
	my ($name, $least, $most) = @_;
	my ($ms, $chosen) = split /\|/, $node->safe_psql('postgres', <<'SQL');
SELECT min(predicted_ms) FILTER (WHERE algorithm ~ '^gpu'), bool_or(chosen AND algorithm ~ '^gpu') =
	(min(predicted_ms) FILTER (WHERE algorithm ~ '^gpu') < min(predicted_ms) FILTER (WHERE algorithm ~ '^cpu'))
FROM gpusort_route(100000000, 32)
SQL

	ok($ms >= $least && $ms <= $most, "$name: $ms ms are $least to $most");
	is($chosen, 't', "$name: the faster one is chosen");
}
sub reason { return $node->safe_psql('postgres',
	"SELECT reason FROM gpusort_route(100000000, 32) WHERE algorithm = 'gpu_bucket'") }
sub model { return $node->safe_psql('postgres',
	"SELECT string_agg(jobs || ' ' || round(factor::numeric, 2), ', ' ORDER BY part) FROM gpusort_device_model() WHERE "
	. "part IN ('up', 'down') OR (part, log2_rows) = ('sort_32', 17)") }

sub jobs { return $node->safe_psql('postgres',
	"SELECT jobs FROM gpusort_device_model() WHERE part = 'up'") }

# the service measures its devices before any job
ok($node->poll_query_until('postgres', $measured), 'the service has measured');
measured_is('up', '100', 'copies to the device');
measured_is('down', '100', 'copies to the host');
measured_is('^sort', '100', 'sorts');
is($node->safe_psql('postgres', "SELECT count(*) FROM gpusort_device_model() WHERE part ~ '^sort' AND log2_rows > 17 "
	. 'AND measured IS NOT NULL'), '0', 'sorts of 2^20 rows are not measured');
is($node->safe_psql('postgres', 'SELECT max(jobs) FROM gpusort_device_model()'), '0', 'no job has corrected a factor');
@memory = ('MEMORY=16384');
fake_device_is('COPY_TIMES=100', 'SORT_TIMES=100', @memory);
ok($node->poll_query_until('postgres', 'SELECT memory_budget >> 30 = 16 FROM gpusort_devices()'),
	'the other program frees its memory');
choice('such a GPU', 2000, 3000);
my $ms = qr/[\d.]+/;
like(reason(),
	qr/(?:^|; )hand-over $ms ms, up $ms, sort $ms, down $ms, host $ms: $ms times the library's costs, by 0 jobs$/,
	'the terms of the prediction');
ok($node->poll_query_until('postgres', 'SELECT memory_used = 0 AND memory_kept = 0 FROM gpusort_device_stat'),
	'a measurement frees its memory');

# the device's speed changes, and jobs correct the factors
fake_device_is('COPY_TIMES=3', 'SORT_TIMES=2', @memory);
$node->safe_psql('postgres', <<SQL);
CREATE TABLE t AS SELECT (mix(i) - 2147483648)::int4 AS k FROM generate_series(1, 150000) i;
VACUUM ANALYZE t;
SQL
my $sort = "SELECT result FROM check_sort('SELECT k FROM t ORDER BY k');";
my $force = "SET work_mem = '64MB'; SET gpusort.algorithm = gpu_bucket;";
is($node->safe_psql('postgres', $force
	. "SELECT string_agg(DISTINCT (check_sort('SELECT k FROM t ORDER BY k')).result, ' ') FROM generate_series(1, 40)"),
	'same', 'forty jobs');
my ($down_jobs, $down, $sort_jobs, $sort_factor, $up_jobs,
	$up) = model() =~ /(\d+) ([\d.]+), (\d+) ([\d.]+), (\d+) ([\d.]+)/;
cmp_ok($_, '>=', 40, 'at least 40 jobs corrected the factor') for $down_jobs, $up_jobs, $sort_jobs;
ok(abs($_ / 3 - 1) < 0.25, "the bus is three times slower, and $_ was learned") for $up, $down;
ok(abs($sort_factor / 2 - 1) < 0.25, "sorts are two times slower, and $sort_factor was learned");
measured_is('up|down', '100', 'the measured values are unchanged');
choice('a quicker GPU', 100, 200);
like(reason(), qr/(?:^|^gpu bucket: .*device ready; )hand-over .*by (4|8)\d jobs$/, 'the reason names factors');
like($node->safe_psql('postgres', 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) SELECT k FROM t ORDER BY k'),
	qr/Sort Route: \w+ \w+: 32-bit keys, 150000 rows, device ready, keys only$/m, 'EXPLAIN shows no factors');

# a restart begins anew: the device is measured, and no job has corrected a factor
$node->restart;
device_ready($node, 'restart');
ok($node->poll_query_until('postgres', 'SELECT max(jobs) = 0 AND bool_or(part = \'up\' AND round(measured) = 3) FROM '
	. 'gpusort_device_model()'), 'measured again');
choice('after a restart', 100, 200);

# a reload switches learning off: the costs that the library reports are used
reload_with($node, 'gpusort.device_learn', 'off');
like(reason(), qr/^gpu bucket: [^;]*device ready$/, 'off: the reason names no factors');
my $jobs = jobs();
$node->safe_psql('postgres', $force . $sort);
is(jobs(), $jobs, 'off: no job corrects a factor');
reload_with($node, 'gpusort.device_learn', 'on');
is($node->safe_psql('postgres', $force . $sort), 'same', 'on: a job');
is(jobs(), $jobs + 1, 'on: a job corrects factors');
is($node->safe_psql('postgres', "SELECT gpusort_array(array_agg(k), 'gpu_bucket') = array_agg(k ORDER BY k) FROM t"),
	't', 'gpusort_array() sorts');
# since PostgreSQL 16 the aggregate's own sort may be a second job
cmp_ok(jobs(), '>=', $jobs + 2, 'gpusort_array() corrects factors, too');
is($node->safe_psql('postgres', "SET work_mem = '1MB'; SET gpusort.algorithm = gpu_bucket; SELECT result FROM "
	. "check_sort('SELECT k, k + 1 AS l, k - 1 AS m FROM t ORDER BY k')"), 'same', 'row mode');
cmp_ok($node->safe_psql('postgres', "SELECT sum(jobs) FROM gpusort_device_model() WHERE part = 'sort_64'"), '>=', 1,
	'row mode corrects a factor');

# another device has the number of a known one
fake_device_is('COPY_TIMES=7', 'SORT_TIMES=7', 'MEMORY=32768');
my $process = kill_device_process($node, 'another device');
next_device_process($node, $process, 'another device');
ok($node->poll_query_until('postgres', 'SELECT count(measured) >= 6 AND max(jobs) = 0 AND bool_or(round(measured) = 7) '
	. 'FROM gpusort_device_model()'),
	'the factors of the previous device are dropped');
measured_is('up|down', '7', 'the new device is measured');

# A device that cannot run the measured algorithm, gpu_bucket.  The figures of the device before go at once: the new one
# has no sorts that would replace them.
reload_with($node, 'gpusort.device_learn', 'off');
fake_device_is('COPY_TIMES=5', 'LACKS=2', 'MEMORY=16384');
$process = kill_device_process($node, 'no gpu_bucket');
next_device_process($node, $process, 'no gpu_bucket');
is($node->safe_psql('postgres', 'SELECT count(measured) FROM gpusort_device_model()'), '0',
	'no gpu_bucket: nothing is measured yet');
reload_with($node, 'gpusort.device_learn', 'on');
ok($node->poll_query_until('postgres',
	"SELECT bool_or(part = 'up' AND round(measured) = 5) AND count(measured) FILTER (WHERE part ~ '^sort') = 0 "
	. 'FROM gpusort_device_model()'), 'no gpu_bucket: the bus, and no sort');
measured_is('up|down', '5', 'no gpu_bucket: both directions');
is($node->safe_psql('postgres', "SELECT count(measured) FROM gpusort_device_model() WHERE part ~ '^sort'"), '0',
	'no gpu_bucket: no sort is measured');
device_unused($node, 'end');

$node->stop;
done_testing();
