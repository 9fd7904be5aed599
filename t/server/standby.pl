# standby.pl: sorts on a hot standby.
#
# Serial, parallel, spilled and on a device; while replayed changes cancel them, and after the standby was promoted.
# Needs no other machine: the primary runs beside the standby.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GpuSortTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $primary = new_node('primary', parallel => 1, conf => <<'CONF');
wal_level = replica
max_wal_senders = 3
hot_standby = on
max_standby_streaming_delay = 0
wal_receiver_status_interval = 1
gpusort.device_library = '$libdir/libgpusort_cpu_abi'
gpusort.staging_memory = 8MB
gpusort.device_memory = 64MB
CONF
$primary->append_conf('pg_hba.conf', 'local replication all trust');
$primary->reload;
device_lines_function($primary);
$primary->safe_psql('postgres', <<'SQL');
CREATE TABLE t AS SELECT i AS id, mix(i) AS k, (mix(i) % 10)::int AS ten, repeat('x', (i % 50)::int) AS p
FROM generate_series(1, 40000) i;
CREATE TABLE gone AS SELECT i AS id FROM generate_series(1, 1000) i;
VACUUM ANALYZE t;
CHECKPOINT;
SQL
$primary->backup('copy');

my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'copy', has_streaming => 1);
$standby->start;
is($standby->safe_psql('postgres', 'SELECT pg_is_in_recovery()'), 't', 'a standby');
device_ready($standby, 'standby');

# Serial, parallel, spilled and device sorts: EXPLAIN shows the kind, and rows come in the stock Sort's order.
sub sorts_of_all_kinds
{
	my ($name) = @_;
	my $serial = "SET work_mem = '64MB'; SET max_parallel_workers_per_gather = 0;";
	my %kinds = (
		memory => [ "$serial SET gpusort.device = off;", qr/Method: cpu .* Memory/ ],
		spill => [ "$serial SET gpusort.device = off; SET work_mem = '64kB';", qr/Method: .*Disk/ ],
		workers => [ 'SET gpusort.device = off;', qr/Method.*\n(.*\n)*.*Method/ ],
		device => [ "$serial SET gpusort.algorithm = gpu_radix;", qr/Method: gpu / ]);

	for my $kind (sort keys %kinds)
	{
		my ($set, $pattern) = @{ $kinds{$kind} };

		like($standby->safe_psql('postgres', "$set SELECT device_lines('SELECT * FROM t ORDER BY ten, k')"), $pattern,
			"$name: $kind");
		same_order($standby, "$name: $kind", 'SELECT * FROM t', 'ten, k', $set);
	}
	is(scalar(temp_files($standby)), 0, "$name: no file is left");
	device_unused($standby, $name);
}

sorts_of_all_kinds('standby');

# A sort of rows that the primary deletes and vacuums is cancelled, on the CPU and on the device.
for my $set ('gpusort.device = off', 'gpusort.algorithm = gpu_radix', q(work_mem = '64kB'))
{
	my $s = new_session($standby);

	$s->query("SET max_parallel_workers_per_gather = 0; SET $set");
	begin_query($s, 'SELECT count(pg_sleep(0.01)) FROM (SELECT * FROM t ORDER BY k OFFSET 0) s');
	ok($standby->poll_query_until('postgres',
		"SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep'"), "$set: returns rows");
	$primary->safe_psql('postgres', 'INSERT INTO gone VALUES (1); DELETE FROM gone; VACUUM gone;');
	$s->query('SELECT 1');
	like($s->{stderr}, qr/ERROR: .*conflict with recovery/, "$set: cancelled by the primary's VACUUM");
	session_ok($s, $set);
	$s->quit;
	is(scalar(temp_files($standby)), 0, "$set: no file is left");
	device_unused($standby, $set);
}

# The device process is killed on the standby, and a new one starts.
next_device_process($standby, kill_device_process($standby, 'standby'), 'standby');

# A cursor that is open during the promotion can be read on.
my $open = new_session($standby);
$open->query('SET max_parallel_workers_per_gather = 0; BEGIN; DECLARE c SCROLL CURSOR FOR SELECT id FROM t ORDER BY id;'
	. ' MOVE 10 FROM c;');
$standby->promote;
is($open->query('FETCH 1 FROM c'), '11', 'a cursor outlives the promotion');
$open->query('COMMIT');
$open->quit;
sorts_of_all_kinds('promoted');
is($standby->safe_psql('postgres', 'CREATE TABLE made AS SELECT * FROM t ORDER BY k, id; SELECT count(*) FROM made'),
	'40000', 'promoted: writes');
$standby->stop;
$primary->stop;
unlike(slurp_file($standby->logfile), qr/WARNING|TRAP|PANIC|terminated by signal(?! 9)/, 'no warning in the log');
done_testing();
