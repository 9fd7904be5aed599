# wrong_answers.pl: wrong results of a device.
#
# The host checks a device's results: wrong rids, keys, rows, lengths, places and counts are found, counted and logged,
# and the CPU sorts the rows. In row mode, if wrong rows were returned before the fault was found, the query ends with
# an error.
# GPUSORT_TEST_LIBRARY names another GPU library than the fake device.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GpuSortTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $library = $ENV{GPUSORT_TEST_LIBRARY} || '$libdir/libgpusort_cpu_abi';
my $node = new_node('device_answers', conf => <<CONF);
gpusort.device_library = '$library'
gpusort.device = 0
gpusort.staging_memory = 8MB
gpusort.device_memory = 512MB
gpusort.algorithm = gpu_radix
shared_buffers = 64MB
log_min_messages = log
restart_after_crash = off
CONF

device_ready($node, 'start');
# several chunks of rids: the last row in descending order of id is the first of the input
my $rows = 80_000;
$node->safe_psql('postgres', <<SQL);
CREATE TABLE t AS SELECT i::int4 AS id, (mix(i) - 2147483648)::int4 AS k, mix(i * 7) * 1000003 - 2000000000000000 AS w,
	CASE WHEN i % 11 = 0 THEN NULL ELSE (i % 100)::int4 END AS nk, (mix(i * 3) - 2e9) / 7::float8 AS f, repeat('x',
		(i % 50)::int) AS pad, md5(i::text) AS t
FROM generate_series(1, $rows) i;
VACUUM ANALYZE t;
SQL

my %set = (keys => "SET work_mem = '256MB';", rows => "SET work_mem = '256kB';", only => "SET work_mem = '256MB';");
# the query of each mode, without its sort keys
my %from = (keys => 'SELECT * FROM t ORDER BY', rows => 'SELECT * FROM t ORDER BY',
	only => 'SELECT w, k FROM t ORDER BY');
# Tests a wrong result that is found before a wrong row is returned.
sub found_in_time
{
	my ($mode, $fault, $order, $name, $set) = @_;
	my $q = "$from{$mode} $order";
	my $before = fallbacks($node);

	$set = $set{$mode} . ($set // '') . "SET gpusort.device_fault = $fault;";
	is($node->safe_psql('postgres', "$set SELECT nodes || ' ' || rows || ' ' || result FROM check_sort('$q')"),
		"GpuSort $rows same", $name);
	cmp_ok(fallbacks($node), '>', $before, "$name: a fallback is counted");
	like($node->safe_psql('postgres', "$set SELECT sort_route('$q')"), qr/^(?:cpu|presorted).*device failed/,
		"$name: Sort Route reports it");
}

# log messages
my %wrong_result = (
	keys => qr/a row of the result is not one of the input, or comes twice/,
		rows => qr/a row of the result is not a row of the input/,
	only => qr/the result's keys are out of order, or not the input's/);
my $place = qr/the device sent an invalid chunk/;
my $count = qr/the device sent a chunk with a wrong number of rows/;
my $start = -s $node->logfile;

for my $mode (sort keys %set)
{
	# each setting selects its mode
	my $explain = $node->safe_psql('postgres', "$set{$mode} EXPLAIN (ANALYZE, COSTS OFF) $from{$mode} w, k");
	like($explain, $mode eq 'rows' ? qr/Sort Device: rows/ : qr/Sort Device: keys/, "$mode: rows or keys are sent");
	like($explain, $mode eq 'only' ? qr/keys only/ : qr/device ready/, "$mode: the route");
	for my $fault ('corrupt', 'corrupt_bit', 'corrupt_size', 'corrupt_place', 'corrupt_count')
	{
		# memory behind a chunk's last row may hold another row of the job: then only verify finds the wrong count in
		# time
		found_in_time($mode, $fault, 'w, k', "$mode: $fault") unless $mode eq 'rows' && $fault eq 'corrupt_count';
		found_in_time($mode, $fault, 'w, k', "$mode: $fault, verify", 'SET gpusort.verify = on;');
	}
	ok($node->log_contains(qr/continues without the GPU: $wrong_result{$mode}/, $start), "$mode: logged");
	device_unused($node, $mode);
}
ok($node->log_contains(qr/continues without the GPU: $_/, $start), "logged: $_") for $place, $count;
{
	my @lines = slurp_file($node->logfile, $start) =~ /continues without the GPU: $wrong_result{keys}/g;
	is(scalar @lines, 1, 'logged once');
}

# a fault in a later chunk: in key mode the whole result is checked before the first row is returned
found_in_time('keys', 'corrupt_late', $_, "keys: a row is returned twice, in a late chunk: $_") for 'id', 'id DESC';
found_in_time('keys', 'corrupt_late', 'w DESC, f, k DESC, id', 'keys: a row is returned twice, inexact keys');
found_in_time('keys', 'corrupt_bit', 'w, f, k, id', 'keys: a wrong rid, inexact keys');
found_in_time('only', 'corrupt_late', 'w, k', 'only: a key is returned twice, in a late chunk');
# rows: a fault that is found after wrong rows were returned: the query fails
{
	my $q = "$from{rows} w";
	my $fault = 'SET gpusort.device_fault = corrupt_late;';
	my $want = $node->safe_psql('postgres',
		"SET gpusort.enable = off; SELECT md5(string_agg(s::text, ',')) FROM ($q OFFSET 0) s");
	my $s = new_session($node);

	fails_like($node, "$set{rows} $fault SELECT count(*) FROM ($q OFFSET 0) s",
		qr/GPU returned a wrong sort result after rows had been returned/,
		"rows: an error after wrong rows were returned");
	# verify reads the whole result before it returns the first row
	is($node->safe_psql('postgres', "$set{rows} $fault SET gpusort.verify = on; SELECT md5(string_agg(s::text, ',')) "
		. "FROM ($q OFFSET 0) s"), $want, "rows: with verify all rows are right");
	$s->query("$set{rows} $fault");
	is($s->query("BEGIN; DECLARE c CURSOR FOR $q; FETCH 1 c; MOVE ALL c; COMMIT; SELECT 1") =~ s/.*\n//sr, '1',
		"rows: a cursor returns no wrong row");
	is($s->{stderr}, '', "rows: no error");
	$s->query('SET gpusort.device_fault = none');
	session_ok($s, "rows: after it");
	$s->quit;
	device_unused($node, "rows: wrong rows");
}

# gpusort_array()
for my $fault ('corrupt', 'corrupt_bit', 'corrupt_place', 'corrupt_count')
{
	for my $algorithm ('gpu_radix', 'gpu_counting')
	{
		my $before = fallbacks($node);

		fails_like($node, "SET gpusort.device_fault = $fault; SELECT gpusort_array(array_agg(k % 1000), '$algorithm') "
			. "FROM t", qr/"$algorithm" cannot sort this array/, "gpusort_array(), $algorithm: $fault");
		is(fallbacks($node), $before + 1, "gpusort_array(), $algorithm: $fault: counted");
	}
	# since PostgreSQL 16 the order of an aggregate is a Sort in the plan
	is($node->safe_psql('postgres', "SET gpusort.enable = off; SET gpusort.device_fault = $fault; SELECT "
		. "gpusort_array(array_agg(k), 'auto') = (SELECT array_agg(k ORDER BY k) FROM t) FROM t"), 't',
		"gpusort_array(), auto: $fault");
}
is($node->safe_psql('postgres', "SELECT gpusort_array(array_agg(k), 'gpu_radix') = (SELECT array_agg(k ORDER BY k) "
	. "FROM t) FROM t"), 't', 'gpusort_array()');
device_unused($node, 'arrays');

# rows of all lengths, with and without NULLs, and of one long column have right checksums
$node->safe_psql('postgres', <<SQL);
CREATE TABLE lengths AS SELECT mix(i) AS k, CASE WHEN i % 3 > 0 THEN i END AS a, repeat('y', (i % 700)::int) AS b,
	CASE WHEN i % 5 = 0 THEN NULL ELSE (i % 2)::int::bool END AS c
FROM generate_series(1, 8000) i;
SQL
for my $q ('SELECT * FROM lengths ORDER BY k', 'SELECT b, k FROM lengths ORDER BY k',
	'SELECT k, c FROM lengths ORDER BY k DESC', 'SELECT k, repeat(b, 20) FROM lengths ORDER BY k')
{
	is($node->safe_psql('postgres', "$set{rows} SELECT nodes || ' ' || result FROM check_sort('$q')"), 'GpuSort same',
		"lengths: $q");
	like($node->safe_psql('postgres', "$set{rows} SELECT sort_route('$q')"), qr/^gpu radix/, "lengths: $q: on the GPU");
}

$node->stop;
done_testing();
