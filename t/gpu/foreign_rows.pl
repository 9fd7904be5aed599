# foreign_rows.pl: rows and keys of other sessions never reach a client.
#
# A superuser sorts a table that a role must not read, then the role sorts its own table on a faulty device. The steps
# of the fake device write nothing, so that its memory holds the data of an earlier job, or return an earlier job's
# output.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GpuSortTest;
use PostgreSQL::Test::Utils;
use Test::More;

# What the steps of the device do: work, record their outputs, replay recorded ones, write nothing, or write the second
# element three times (test/fake_gpu/cpu_abi_stale.c).
my %stale = (none => 0, record => 1, replay => 2, nothing => 3, twice => 4);
sub device_does { fake_device_is("STALE=$stale{$_[0]}") }
device_does('record');

my $node = new_node('foreign', parallel => 1, conf => <<CONF);
gpusort.device_library = '\$libdir/libgpusort_cpu_abi'
gpusort.device = 0
gpusort.staging_memory = 8MB
gpusort.device_memory = 512MB
gpusort.algorithm = gpu_radix
shared_buffers = 64MB
restart_after_crash = off
CONF

device_ready($node, 'start');

# All tables have the same number of rows. The superuser's tables have the columns of the role's, or columns whose
# values are not printable as text.
my $rows = 60_000;
$node->safe_psql('postgres', <<SQL);
CREATE ROLE plain LOGIN;
CREATE TABLE secret AS SELECT i AS id, mix(i)::int8 AS k, 'secret' || md5(i::text) AS s
	FROM generate_series(1, $rows) i;
CREATE TABLE own AS SELECT i AS id, mix(i * 3)::int8 AS k, 'owned ' || md5(i::text) AS s
	FROM generate_series(1, $rows) i;
CREATE TABLE secret_numbers AS SELECT x'7ffffff07ffffff0'::int8 AS id, mix(i)::int8 AS k,
	x'7ffffff07ffffff0'::int8 AS a, x'7ffffff07ffffff0'::int8 AS b FROM generate_series(1, $rows) i;
CREATE TABLE own_texts AS SELECT 'owned ' || i AS s, mix(i * 3)::int8 AS k, 'owned ' || md5(i::text) AS t
	FROM generate_series(1, $rows) i;
CREATE TABLE secret_keys AS SELECT 7000000000 + mix(i)::int8 AS k, (mix(i) % 700 * 3)::int4 AS small
	FROM generate_series(1, $rows) i;
CREATE TABLE own_keys AS SELECT mix(i * 3)::int8 AS k, (mix(i) % 1000)::int4 AS small FROM generate_series(1, $rows) i;
GRANT SELECT ON own, own_texts, own_keys TO plain;
VACUUM ANALYZE;
SQL

my $serial = 'SET max_parallel_workers_per_gather = 0;';
my %modes = (
	rows => "$serial SET work_mem = '256kB';",
	feed => "SET work_mem = '64MB';",
	keys => "$serial SET work_mem = '64MB';",
	'keys only' => "$serial SET work_mem = '64MB';");
# EXPLAIN's lines of each mode
my %lines = (
	rows => qr/^Custom Scan \(GpuSort\).*?Sort Device: rows/s,
	feed => qr/^Custom Scan \(GpuSort\)(?:(?!->).)*Sort Device: rows.*-> +Gather/s,
	keys => qr/Sort Device: keys/,
	'keys only' => qr/keys only.*Sort Device: keys/s);

# The output and the error that a role's client receives.
sub received
{
	my ($mode, $role, $query) = @_;
	my ($out, $err) = ('', '');

	$node->psql('postgres', "$modes{$mode} COPY ($query) TO STDOUT", stdout => \$out, stderr => \$err,
		extra_params => [ '-U', $role ]);
	return ($out, $err);
}

# The superuser sorts on a device that works; then the role sorts on a faulty one.
sub foreign
{
	my ($name, $mode, $does, $theirs, $ours, %opt) = @_;
	my $start = -s $node->logfile;

	device_does('record');
	my ($want) = received($mode, 'plain', "SELECT * FROM ($ours) s");
	like($node->safe_psql('postgres', "$modes{$mode} EXPLAIN (ANALYZE, COSTS OFF) $theirs"), $lines{$mode},
		"$name: the superuser's sort goes to the device");
	like($node->safe_psql('postgres', "$modes{$mode} EXPLAIN (ANALYZE, COSTS OFF) $ours"), $lines{$mode},
		"$name: the role's sort goes to the device");
	received($mode, $node->safe_psql('postgres', 'SELECT current_user'), $theirs);
	my $before = fallbacks($node);

	device_does($does);
	my ($out, $err) = received($mode, 'plain', $ours);
	my %own = map { $_ => 1 } split /\n/, $want;
	my @foreign = grep { !$own{$_} } split /\n/, $out;

	is(scalar @foreign, 0, "$name: no foreign row reaches the client") or diag("the first: $foreign[0]");
	ok($out eq $want, "$name: all rows come, from the CPU");
	is(substr($err, 0, 300), '', "$name: no error");
	cmp_ok(fallbacks($node), '>', $before, "$name: a fallback is counted") unless $opt{unnoticed};
	device_does('none');
	is($node->safe_psql('postgres', 'SELECT 1'), '1', "$name: the server accepts queries");
	unlike(slurp_file($node->logfile, $start), qr/terminated by signal/, "$name: no backend crashed");
}

# foreign() sorts the superuser's rows last before the fault: so the device's memory holds them.
for my $does ('replay', 'nothing')
{
	for my $mode ('rows', 'feed')
	{
		foreign("$mode, $does", $mode, $does, 'SELECT * FROM secret ORDER BY k', 'SELECT * FROM own ORDER BY k');
		foreign("$mode, ties, $does", $mode, $does, 'SELECT * FROM secret ORDER BY s DESC',
			'SELECT * FROM own ORDER BY s DESC');
		foreign("$mode, another type, $does", $mode, $does, 'SELECT * FROM secret_numbers ORDER BY k',
			'SELECT * FROM own_texts ORDER BY k');
	}
	foreign("keys only, $does", 'keys only', $does, 'SELECT k FROM secret_keys ORDER BY k',
		'SELECT k FROM own_keys ORDER BY k');
	# in key mode the host finds rows by rids, which are checked
	foreign("keys, $does", 'keys', $does, 'SELECT * FROM secret ORDER BY k', 'SELECT * FROM own ORDER BY k',
		unnoticed => 1);
}

# gpusort_array()
for my $does ('replay', 'nothing')
{
	my $array = "SELECT gpusort_array(array_agg(small), 'gpu_hp') FROM";
	my ($out, $err) = ('', '');

	device_does('record');
	$node->safe_psql('postgres', "$serial $array secret_keys");
	device_does($does);
	$node->psql('postgres', "$serial $array own_keys", stdout => \$out, stderr => \$err,
		extra_params => [ '-U', 'plain' ]);
	is(length $out, 0, "array, $does: no foreign element reaches the client");
	like($err, qr/"gpu_hp" cannot sort this array.*\n.*not the array's/, "array, $does: the fault is reported");
}

# rows of the job that are returned twice in place of other rows, also if the sums of the columns stay the same
device_does('twice');
$node->safe_psql('postgres', "CREATE TABLE numbers AS SELECT i::int8 AS i FROM generate_series($rows, 1, -1) i");
fails_like($node, "$modes{rows} SELECT count(*), count(DISTINCT i) FROM (SELECT i, 2 * i AS j FROM numbers ORDER BY i "
	. "OFFSET 0) s", qr/GPU returned a wrong sort result after rows had been returned/, 'rows that are returned twice');
is($node->safe_psql('postgres', "$modes{'keys only'} SELECT count(*), count(DISTINCT i) FROM (SELECT i FROM numbers "
	. "ORDER BY i OFFSET 0) s"), "$rows|$rows", 'keys that are returned twice');
device_does('none');
device_unused($node, 'end');

$node->stop;
done_testing();
