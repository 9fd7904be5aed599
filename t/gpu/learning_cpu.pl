# learning_cpu.pl: the correction factor of the CPU's cost model on a server with a GPU.
#
# How often sorts on the CPU correct it, and its bounds. Results do not depend on the time that sorts take;
# test/unit/route_learn_cpu_test.c tests the arithmetic.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GpuSortTest;
use PostgreSQL::Test::Utils;
use Test::More;

plan skip_all => "the fake device is needed" if $ENV{GPUSORT_TEST_LIBRARY};

my $node = new_node('device_learns_cpu', conf => <<CONF);
gpusort.device_library = '\$libdir/libgpusort_cpu_abi'
gpusort.device = 0
gpusort.device_learn = on
gpusort.staging_memory = 8MB
gpusort.device_memory = 512MB
shared_buffers = 64MB
log_min_messages = log
CONF
device_ready($node, 'start');
ok($node->poll_query_until('postgres', "SELECT count(measured) >= 6 FROM gpusort_device_model()"), 'measured');

# settings for a sort on the CPU
my $cpu = "SET gpusort.device = off; SET work_mem = '64MB';";
sub reason { my ($rows, $bits) = @_; return $node->safe_psql('postgres',
	"SELECT reason FROM gpusort_route($rows, $bits) WHERE algorithm = 'cpu_radix'") }
# Returns the number of sorts behind a factor; checks the bounds of the factor.
sub learned
{
	my ($rows, $bits) = @_;
	my ($times, $sorts) =
		reason($rows, $bits) =~ /(?:^|; )([\d.]+) times the model's [\d.]+ ms, by (\d+) sorts$/;
	ok(defined $times && $times >= 0.12 && $times <= 128.1, "a factor within bounds: " . ($times // 'none'));
	return $sorts;
}
sub sorts { return learned(100000, 32) }

# the service has measured the CPU
is(learned(100000, $_), 0, "$_ bits: measured, and no sort has corrected the factor") for 32, 64, 128;
unlike(reason(8191, 32), qr/times the model/, 'few rows have no factor');
is($node->safe_psql('postgres', <<SQL), 't', 'a prediction is the product');
SELECT bool_and(abs(predicted_ms / ((regexp_match(reason, '([0-9.]+) times'))[1]::float8
		* (regexp_match(reason, 's ([0-9.]+) ms'))[1]::float8) - 1) < 0.05)
FROM gpusort_route(50000000, 64) WHERE algorithm = 'cpu_radix'
SQL

# a sort corrects the factor if cpu_radix sorts it, and there are enough rows
$node->safe_psql('postgres', <<SQL);
CREATE TABLE t AS SELECT mix(i) AS k, i AS o, 1 AS one FROM generate_series(1, 20000) i;
CREATE TABLE few AS SELECT mix(i) AS k FROM generate_series(1, 8000) i;
VACUUM ANALYZE t, few;
SQL
sub sorted { my ($from, $by, $limit) = @_;
	return "SELECT count(*) FROM (SELECT $by FROM $from ORDER BY $by " . ($limit // 'OFFSET 0') . ") s;" }
my $before = sorts();
is($node->safe_psql('postgres', $cpu . sorted('t', 'k') x 3), "20000\n20000\n20000", 'sorts');
is(sorts(), $before + 3, 'each sort corrects the factor');
$node->safe_psql('postgres', $cpu . sorted('few', 'k') . sorted('t', 'o') . sorted('t', 'one')
	. sorted('t', 'k', 'LIMIT 10'));
is(sorts(), $before + 3, 'few rows, presorted rows and a LIMIT do not');
$node->safe_psql('postgres', "SET gpusort.algorithm = gpu_bucket; SET work_mem = '64MB';" . sorted('t', 'k'));
is(sorts(), $before + 3, 'sorts on a GPU do not');
$node->safe_psql('postgres', $cpu . "SET gpusort.run_rows = 10000;" . sorted('t', 'k'));
cmp_ok(sorts(), '>=', $before + 5, 'the runs of an external sort do');
like($node->safe_psql('postgres', $cpu . 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) SELECT k FROM t ORDER BY k'),
	qr/Sort Route: cpu \w+: \d+-bit keys, 20000 rows, device off, keys only$/m, 'EXPLAIN shows no factors');

# concurrent sorts: each one is counted
$before = sorts();
my @sessions = map { new_session($node) } 1 .. 8;
$_->query($cpu) for @sessions;
for my $round (1 .. 3)
{
	$_->{stdin} .= (sorted('t', 'k') x 10) . "\\echo done $round\n" for @sessions;
	for my $s (@sessions)
	{
		$s->{run}->pump_nb;
	}
	for my $s (@sessions)
	{
		$s->{run}->pump until $s->{stdout} =~ /done $round\n/;
	}
}
$_->quit for @sessions;
is(sorts(), $before + 8 * 3 * 10, 'concurrent sessions: each sort counts');

# switched off by a reload
$before = sorts();
reload_with($node, 'gpusort.device_learn', 'off');
unlike(reason(100000, 32), qr/times the model/, 'off: the reason names no factors');
$node->safe_psql('postgres', $cpu . sorted('t', 'k'));
reload_with($node, 'gpusort.device_learn', 'on');
is(sorts(), $before, 'off: no sort corrected the factor');

# a restart begins anew
$node->restart;
device_ready($node, 'restart');
ok($node->poll_query_until('postgres', "SELECT count(measured) >= 6 FROM gpusort_device_model()"), 'measured again');
is(sorts(), 0, 'no sort has corrected the factor');

$node->stop;
done_testing();
