# index_gpu.pl: index builds whose keys a GPU sorts.
#
# The pages equal PostgreSQL's, and each test asserts which algorithm sorted.  What a GPU returns is checked as pairs of
# keys and row ids, so an exchange of two rows is noticed, too; then the CPU sorts.  GPUSORT_TEST_LIBRARY names another
# GPU library than the fake device.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GpuSortTest;
use IndexBuilds;
use PostgreSQL::Test::Utils;
use Test::More;

my $library = $ENV{GPUSORT_TEST_LIBRARY} || '$libdir/libgpusort_cpu_abi';
my $node = index_node('index_gpu', conf => <<CONF);
gpusort.device_library = '$library'
gpusort.device = 0
gpusort.staging_memory = 8MB
gpusort.device_memory = 256MB
gpusort.algorithm = gpu_radix
shared_buffers = 128MB
maintenance_work_mem = 128MB
max_worker_processes = 16
max_parallel_workers = 8
min_parallel_table_scan_size = 0
fsync = off
log_min_messages = log
CONF

device_ready($node, 'start');
my $gpu = qr/^gpu radix$/;
my $failed = qr/^cpu \w+ after a GPU failed$/;
# memory for several runs; the rows of a run, too
my %memory = ('in memory' => '', 'runs' => 'SET gpusort.run_rows = 9000;');

$node->safe_psql('postgres', <<'SQL');
CREATE TABLE t (id int, k bigint, few int, d date, b bool, s text, n numeric, u uuid, f float8, v int[], wide text)
	WITH (fillfactor = 80);
INSERT INTO t SELECT i, mix(i) * 1000003 - 2000000000000000, CASE WHEN i % 11 > 0 THEN mix(i) % 17 END,
	'2000-01-01'::date + (mix(i) % 5000)::int, CASE WHEN i % 7 > 0 THEN i % 3 = 0 END, 'customer ' || mix(i) % 3000,
	(mix(i) % 100000) / 100.0, md5((mix(i) % 20000)::text)::uuid,
	(ARRAY['NaN', '0', '-0', mix(i)::text])[1 + i % 4]::float8, ARRAY[i % 5, NULL, i % 7],
	CASE WHEN i % 500 = 0 THEN repeat('wide', 900) || i % 3 ELSE 'w' || i % 100 END
FROM generate_series(1, 30000) i;
UPDATE t SET b = b WHERE id % 9 = 0;
UPDATE t SET b = b WHERE id % 27 = 0;
DELETE FROM t WHERE id % 31 = 0;
BEGIN;
INSERT INTO t SELECT * FROM t WHERE id % 5 = 0;
ROLLBACK;
INSERT INTO t SELECT id + 50000, k, few, d, b, s, n, u, f, v, wide FROM t WHERE id % 7 = 0;
ANALYZE t;
SQL
# records of each form: keys and TIDs in 64 bits, in 64 and 32, in 128 and 32
my @compact = map { "CREATE INDEX NAME ON t ($_)" } ('k', 'k DESC', 'few', 'few DESC', 'few NULLS FIRST', 'd', 'b, few',
	'few, k', 'k, few DESC', 'd, b DESC, few', 'few) WITH (deduplicate_items = off', 'k) WHERE (few < 9', '(k / 7)');
push @compact, 'CREATE UNIQUE INDEX NAME ON t (k, id)', 'CREATE UNIQUE INDEX NAME ON t (id)';
my @tuples = map { "CREATE INDEX NAME ON t ($_)" } ('s COLLATE "C"', 's COLLATE "C" DESC NULLS FIRST', 'n', 'u', 'f',
	'few, s COLLATE "C"', 's COLLATE "C", k', 'k, d, few, id', 'wide COLLATE "C"', 'few) INCLUDE (wide',
	's COLLATE "C") WHERE (few IS NULL', '(lower(s)) COLLATE "C"', 'n, few, s COLLATE "C"');
push @tuples, 'CREATE UNIQUE INDEX NAME ON t (s COLLATE "C", id)';
for my $name (sort keys %memory)
{
	check_pairs($node, "compact, $name", $memory{$name}, \@compact, qr/^compact$/, $gpu);
	check_pairs($node, "tuples, $name", $memory{$name}, \@tuples, qr/^tuples$/, $gpu);
}
device_unused($node, 'builds');
is($node->safe_psql('postgres', "SELECT string_agg(route || ' ' || (gpu_builds = builds), ', ' ORDER BY route) "
	. 'FROM gpusort_index_builds'), 'compact true, tuples true', 'gpu_builds counts them');

# a key that only a comparator orders
check_pairs($node, 'a comparator', '', [ 'CREATE INDEX NAME ON t (v)' ], qr/^tuples$/);
# rows in order, one row, no NULL, only NULLs
check_pairs($node, 'few and ordered rows', <<'SQL', [ map { "CREATE INDEX NAME ON o ($_)" } 'i', 'nothing',
CREATE TABLE o AS SELECT i, NULL::int AS nothing, 'a' || i AS s FROM generate_series(1, 3) i
SQL
	'nothing, i', 's COLLATE "C"' ]);

# uniqueness: two live rows with a key
for my $name (sort keys %memory)
{
	my ($rc, $out, $err) = built($node, "$memory{$name} CREATE UNIQUE INDEX u ON t (k)");

	like($err, qr/found equal keys of unique index "u".*could not create unique index "u"/s,
		"$name: a violation");
	($rc, $out, $err) = built($node, "$memory{$name} CREATE UNIQUE INDEX u ON t (s COLLATE \"C\")");
	like($err, qr/found equal keys of unique index "u".*could not create unique index "u"/s,
		"$name: a violation by texts");
}

# --- faults: the CPU builds the same pages
my @faulty = ('CREATE INDEX NAME ON t (k)', 'CREATE INDEX NAME ON t (few, k)', 'CREATE INDEX NAME ON t (few)',
	'CREATE INDEX NAME ON t (s COLLATE "C")', 'CREATE INDEX NAME ON t (n)');
for my $fault (qw(memory_sort error_up error_sort error_down kill_sort kill_down corrupt corrupt_bit corrupt_swap
	corrupt_place corrupt_count))
{
	my $before = fallbacks($node);

	# after a wrong result the device is used again at once
	if ($fault =~ /corrupt/)
	{
		check_pairs($node, $fault, "SET gpusort.device_fault = $fault", \@faulty, undef, $failed);
	}
	else
	{
		my ($first, $second) = $fault =~ /sort/ ? @faulty[ 0, 3 ] : @faulty[ 3, 0 ];

		check_pairs($node, $fault, "SET gpusort.device_fault = $fault", [$first], undef, $failed);
		device_ready($node, $fault);
		# a device that only fails would be left out
		check_pairs($node, "after $fault", '', [$second], undef, $gpu);
	}
	cmp_ok(fallbacks($node), '>', $before, "$fault: counted");
}
check_pairs($node, 'corrupt_late', 'SET gpusort.device_fault = corrupt_late', [ @faulty[ 0, 3 ] ], undef, $failed);
fails_like($node, "SET gpusort.device_fault = hang_sort; SET statement_timeout = '1s'; CREATE INDEX hangs ON t (k)",
	qr/canceling statement due to statement timeout/, 'a cancel while the device hangs');
device_unused($node, 'cancel');
check_pairs($node, 'not allowed', 'SET gpusort.device_allowed = off', \@faulty, undef, qr/^cpu /);
device_unused($node, 'faults');
like(slurp_file($node->logfile), qr/the result's keys are out of order, or not the input's/, 'logged');

# --- memory: keys, result and checks within maintenance_work_mem
for my $kb (1024, 2048, 4096)
{
	for my $definition (@faulty[ 0, 3 ])
	{
		my ($rc, $out, $err) = built($node,
			"SET maintenance_work_mem = $kb; " . ($definition =~ s/NAME/small/r) . '; DROP INDEX small');
		my ($runs, $used) = $err =~ /(\d+) runs, (\d+) kB of memory/;

		ok(defined $used && $used <= $kb, "$kb kB: used $used kB, $runs runs") or diag $err;
	}
}
check_pairs($node, 'small memory', 'SET maintenance_work_mem = 1024', \@faulty);

# --- keys that are sent while the table is read; the router chooses
$node->safe_psql('postgres', <<'SQL');
CREATE TABLE large AS SELECT i AS id, mix(i) * 1000003 - 2000000000000000 AS k, (mix(i) % 1000)::int AS few,
	md5(i::text) AS s, CASE WHEN i = 390000 THEN NULL ELSE mix(i)::int8 END AS late FROM generate_series(1, 400000) i;
VACUUM ANALYZE large;
SQL
my @large = map { "CREATE INDEX NAME ON large ($_)" } ('k', 'few, k', 's COLLATE "C"', 'late', 'late DESC');
check_pairs($node, 'sent early', '', \@large, undef, $gpu);
check_pairs($node, 'the router chooses', 'SET gpusort.algorithm = auto', \@large, undef, qr/^gpu /);
check_pairs($node, 'in order', 'SET gpusort.algorithm = auto', [ 'CREATE INDEX NAME ON large (id)' ], undef,
	qr/^presorted$/);
check_pairs($node, 'small', 'SET gpusort.algorithm = auto', [ 'CREATE INDEX NAME ON t (k)' ], undef, qr/^cpu /);

# --- several processes, each with a job of its own
check_pairs($node, 'workers', 'SET max_parallel_maintenance_workers = 3', [ @compact, @tuples ], undef, $gpu);
check_pairs($node, 'many workers', 'SET max_parallel_maintenance_workers = 6', \@large, undef, $gpu);
check_pairs($node, 'workers, corrupt_swap',
	'SET max_parallel_maintenance_workers = 3; SET gpusort.device_fault = corrupt_swap', \@faulty);

# --- CLUSTER
$node->safe_psql('postgres', 'CREATE INDEX clustered ON large (s COLLATE "C")');
my ($rc, $out, $err) = built($node, 'SET enable_indexscan = on; CLUSTER large USING clustered');
like($err, qr/gpusort sorted table "large", sorted by gpu radix, 400000 rows/, 'CLUSTER');
is($node->safe_psql('postgres', 'SELECT count(*) FROM (SELECT s COLLATE "C" < lag(s) OVER (ORDER BY ctid) AS less '
	. 'FROM large) x WHERE less'), '0', 'CLUSTER: the rows are in order');
device_unused($node, 'end');

$node->stop;
unlike(slurp_file($node->logfile), qr/WARNING:  (?!terminating)|TRAP|PANIC/, 'the log has no warning');
done_testing();
