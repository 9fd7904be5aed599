# index_limits.pl: memory and disk of index builds.
#
# maintenance_work_mem, temporary files and their settings, timeouts, memory that is kept between builds, a full disk.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GpuSortTest;
use IndexBuilds;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = index_node('index_limits', conf => "log_temp_files = 0\nfsync = off\n");
my $space = PostgreSQL::Test::Utils::tempdir();
$node->safe_psql('postgres', "CREATE TABLESPACE space LOCATION '$space'");
$node->safe_psql('postgres', <<'SQL');
CREATE TABLE t AS SELECT i AS id, mix(i) AS k, md5((i % 30000)::text) AS s FROM generate_series(1, 100000) i;
INSERT INTO t SELECT NULL, k, s FROM t WHERE id % 10 = 0;
VACUUM ANALYZE t;
SQL
my @definitions = (
	'CREATE INDEX NAME ON t (k)',
	'CREATE INDEX NAME ON t (s COLLATE "C", id DESC)',
	'CREATE UNIQUE INDEX NAME ON t (id) INCLUDE (s)',
	'CREATE INDEX NAME ON t (s) WITH (deduplicate_items = off)',
	'CREATE INDEX NAME ON t (((k % 50)::int))');

sub spills { return $node->safe_psql('postgres', 'SELECT coalesce(sum(spills), 0) FROM gpusort_index_builds') }

# --- rows that exceed maintenance_work_mem are written in runs, and merged into the same pages
my $least = $node->safe_psql('postgres', "SELECT min_val FROM pg_settings WHERE name = 'maintenance_work_mem'");
$node->safe_psql('postgres', 'SELECT gpusort_stat_reset()');
check_pairs($node, '64MB', "SET maintenance_work_mem = '64MB'", \@definitions);
is(spills(), '0', '64MB: in memory');
check_pairs($node, '1MB', "SET maintenance_work_mem = '1MB'", \@definitions);
is(spills(), '5', '1MB: spilled');
check_pairs($node, "$least kB", "SET maintenance_work_mem = $least", \@definitions);
is(spills(), '10', "$least kB: spilled");
check_pairs($node, 'many runs', 'SET gpusort.run_rows = 700', \@definitions);
check_pairs($node, 'spilled, two workers', "SET maintenance_work_mem = '1MB'; SET min_parallel_table_scan_size = 0; "
	. 'SET max_parallel_maintenance_workers = 2', [ $definitions[1] ]);
is(scalar(temp_files($node)), 0, 'no file is left');
is($node->safe_psql('postgres', 'SELECT bool_and(spilled_bytes > 1000000) FROM gpusort_index_builds WHERE spills > 0'),
	't', 'spilled bytes are counted');

# --- a build needs no more memory than PostgreSQL's, whose tuples have smaller headers from 16 on
$node->safe_psql('postgres', <<'SQL');
CREATE TABLE m AS SELECT i AS a, md5(i::text) AS s, mix(i)::numeric / 1000 AS n,
	date '2000-01-01' + (mix(i) % 9000)::int AS d, md5(mix(i)::text)::uuid AS u, mix(i) AS b,
	(i % 500) || ' some town' AS f, CASE WHEN i % 7 > 0 THEN mix(i)::text END AS x, md5((i % 3)::text)::uuid AS v
FROM generate_series(1, 60000) i;
VACUUM ANALYZE m;
SQL

sub spills_at
{
	my ($enable, $kb, $key) = @_;
	my $set = "SET client_min_messages = log; SET maintenance_work_mem = '${kb}kB'; SET gpusort.index_builds = $enable";
	my ($rc, $out, $err) = $node->psql('postgres', "$set; CREATE INDEX m1 ON m ($key); DROP INDEX m1");

	die $err if $rc != 0;
	return $err =~ /temporary file:/;
}
my $version = $node->safe_psql('postgres', 'SHOW server_version_num') / 10000;
my $smaller = $version < 16 ? 0 : $version < 17 ? 16 : 24;
for my $key ('a, s, n, d, u, b', 'n', 's', 'u', 'a', 'b', 'f, b', 'x, n DESC', 'v, b', 's COLLATE "en-x-icu"')
{
	my ($low, $high) = (1024, 32 * 1024);

	while ($high - $low > 16)
	{
		my $kb = int(($low + $high) / 2);
		if (spills_at('off', $kb, $key)) { $low = $kb }
		else { $high = $kb }
	}
	my $kb = int($high * 1.01 + 60 * $smaller);
	ok(!spills_at('on', $kb, $key), "no temporary file where PostgreSQL needs none: ($key), $kb kB");
	check_pairs($node, "the same pages: ($key)", "SET maintenance_work_mem = '${kb}kB'",
		["CREATE INDEX NAME ON m ($key)"]);
}

# --- settings of temporary files
my $at = -s $node->logfile;
is(routes_of($node, "SET maintenance_work_mem = '1MB'; SET temp_tablespaces = space; CREATE INDEX f1 ON t (s, k)")
	=~ s/compact|tuples/ours/r, 'f1 ours', 'temp_tablespaces');
like(substr(slurp_file($node->logfile), $at), qr{temporary file: path "pg_tblspc/\d+/PG_[^"]*/pgsql_tmp},
	'log_temp_files');
$node->safe_psql('postgres', 'DROP INDEX f1');
my $session = new_session($node);
sub build_fails
{
	my ($name, $set, $statement, $pattern) = @_;

	$session->query("SET client_min_messages = debug1; $set");
	$session->{stderr} = '';
	$session->query($statement);
	like($session->{stderr}, $pattern, "$name: error");
	unlike($session->{stderr}, qr/gpusort left/, "$name: gpusort ran the build") unless $name =~ /temp_file_limit/;
	is($node->safe_psql('postgres', "SELECT count(*) FROM pg_class WHERE relname = 'f1'"), '0', "$name: no index");
	is(scalar(temp_files($node)), 0, "$name: no file is left");
	$session->query('RESET ALL');
	session_ok($session, $name);
}
build_fails('temp_file_limit', "SET maintenance_work_mem = '1MB'; SET temp_file_limit = '2MB'",
	'CREATE INDEX f1 ON t (s, k)', qr/temporary file size exceeds "?temp_file_limit/);
# PostgreSQL builds an index whose runs would exceed the limit, before they do
for my $workers (0, 2)
{
	my $set = "SET max_parallel_maintenance_workers = $workers; SET min_parallel_table_scan_size = 0; "
	  . "SET maintenance_work_mem = '1MB'";

	# a run of keys is counted as rows before it is written, and takes less afterwards
	for ([ '(s, k)', '2MB' ], [ "((s || ''), k)", '2MB' ], [ '(k)', '512kB' ])
	{
		my ($key, $limit) = @$_;
		my ($rc, $out, $err, @built) =
		  built($node, "$set; SET temp_file_limit = '$limit'; CREATE INDEX f4 ON t $key");

		is("@{ $built[0] }", 'f4 stock: temporary files would exceed temp_file_limit',
			"temp_file_limit, $workers workers: $key is left to PostgreSQL");
		like($err, qr/temporary file size exceeds "?temp_file_limit/, "temp_file_limit: $key: PostgreSQL's error")
		  if $rc != 0;
		$node->safe_psql('postgres', 'DROP INDEX IF EXISTS f4');
	}
}
is(routes_of($node, "SET maintenance_work_mem = '1MB'; SET temp_file_limit = '100MB'; CREATE INDEX f4 ON t (s, k)"),
	'f4 tuples', 'temp_file_limit: no less than the runs');
$node->safe_psql('postgres', 'DROP INDEX f4');
build_fails('an expression', '', 'CREATE INDEX f1 ON t ((1 / (id - 50000)))', qr/division by zero/);

# --- timeouts at any moment: the index is there or not
for my $ms (map { 1 + 8 * $_ } 0 .. ($ENV{GPUSORT_QUICK} ? 5 : 20))
{
	$session->query("SET maintenance_work_mem = '" . pick('1MB', '64MB') . "'");
	build_times_out($session, 'f1', 'CREATE INDEX f1 ON t (s, k)', $ms);
}
is(scalar(temp_files($node)), 0, 'timeouts: no file is left');
session_ok($session, 'timeouts');

# --- memory that a session keeps for its next build, until another sort begins
SKIP:
{
	my $own = $node->background_psql('postgres');
	my $pid = $own->query_safe('SELECT pg_backend_pid()');
	skip 'no /proc', 5 unless -r "/proc/$pid/status";
	my $sort = "SET work_mem = '1MB'; SELECT count(*) FROM (SELECT s FROM t ORDER BY s || '' OFFSET 0) x";

	$own->query_safe("SET maintenance_work_mem = '64MB'; $sort");
	my $before = memory_of($pid, 'VmSize');
	$own->query_safe('CREATE INDEX kept1 ON t (s)');
	my $kept = memory_of($pid, 'VmSize') - $before;
	cmp_ok($kept, '>=', 16 * 1024, 'a build keeps memory');
	$own->query_safe("DROP INDEX kept1; $sort");
	cmp_ok(memory_of($pid, 'VmSize') - $before, '<', $kept / 2, 'another sort frees it');
	$own->query_safe('CREATE INDEX kept1 ON t (s)');
	cmp_ok(memory_of($pid, 'VmSize') - $before, '>=', 16 * 1024, 'the next build keeps memory');
	$own->query_safe('CREATE INDEX kept2 ON t (s)');
	cmp_ok(memory_of($pid, 'VmSize') - $before, '>=', 16 * 1024, 'a transaction with a build keeps it');
	$own->query_safe('DROP INDEX kept1, kept2');
	cmp_ok(memory_of($pid, 'VmSize') - $before, '<', $kept / 2, 'a transaction without a build frees it');
	$own->quit;
}

# --- a full disk: the process may write no file that is longer than a WAL segment
SKIP:
{
	my $limit = 16 * 1024 * 1024;
	my $pid = $session->query('SELECT pg_backend_pid()');
	skip 'no prlimit', 10 if system("prlimit --pid $pid >/dev/null 2>&1") != 0;
	$node->safe_psql('postgres', 'CREATE UNLOGGED TABLE wide AS SELECT id, s || s AS s FROM t, generate_series(1, 3)');
	system('prlimit', '--pid', $pid, "--fsize=$limit:$limit");
	my $create = 'CREATE INDEX f1 ON wide (s) WITH (deduplicate_items = off, fillfactor = 50)';
	build_fails('a full disk', "SET maintenance_work_mem = '512MB'", $create,
		qr/could not (?:extend|write) .*(?:File too large|No space)/);
	build_fails('a full disk, runs', "SET maintenance_work_mem = '1MB'", $create,
		qr/could not (?:extend|write) .*(?:File too large|No space)/);
}
$session->quit;
$node->stop;

# --- a small tablespace that is full: a tmpfs in a mount name space of the server
SKIP:
{
	my $small_space = PostgreSQL::Test::Utils::tempdir();
	my $small = qq(mount -t tmpfs -o size=12M tmpfs $small_space && )
	  . q(exec unshare -U --map-user=1000 --map-group=1000 "$@");

	skip 'no private name space', 30
	  if system('unshare', '-rm', 'sh', '-c', "$small >/dev/null 2>&1", '-', 'true') != 0;
	system_or_bail('unshare', '-rm', 'sh', '-c', $small, '-', 'pg_ctl', '-D', $node->data_dir, '-l', $node->logfile,
		'-w', 'start');
	$session = new_session($node);
	$session->query("CREATE TABLESPACE small LOCATION '$small_space'");
	# PostgreSQL's message for a write that ends early is another one
	my $full = qr/No space left on device/;
	my $used = "SELECT pg_tablespace_size('small') < 1000000";
	for my $workers (0, 2)
	{
		my $set = "SET max_parallel_maintenance_workers = $workers; SET min_parallel_table_scan_size = 0; "
		  . "SET maintenance_work_mem = '256MB'";

		build_fails("a small tablespace, $workers workers", $set,
			'CREATE INDEX f1 ON t (s, k) WITH (deduplicate_items = off, fillfactor = 30) TABLESPACE small', $full);
		is($session->query($used), 't', "a small tablespace, $workers workers: nothing is left");
		build_fails("a small tablespace for runs, $workers workers",
			"$set; SET maintenance_work_mem = '1MB'; SET temp_tablespaces = small",
			'CREATE INDEX f1 ON t ((s || s || s || s || s))', $full);
		is($session->query($used), 't', "a small tablespace for runs, $workers workers: nothing is left");
	}
	build_fails('REINDEX to a small tablespace', '', 'CREATE INDEX f2 ON t (s, k) WITH (deduplicate_items = off, '
		. 'fillfactor = 30); REINDEX (TABLESPACE small) INDEX f2', $full);
	$session->query('CREATE INDEX f3 ON t (k) WHERE id < 1000');
	$session->query('REINDEX (TABLESPACE small) INDEX f3');
	is($session->query("SELECT count(bt_index_parent_check(i, true, true)::text) FROM unnest(ARRAY['f2', "
		. "'f3']::regclass[]) i"), '2', 'both indexes are whole');
	$session->query('DROP INDEX f3');
	$session->query('DROP TABLESPACE small');
	$session->quit;
	system_or_bail('pg_ctl', '-D', $node->data_dir, '-m', 'fast', '-w', 'stop');
}
unlike(slurp_file($node->logfile), qr/TRAP|PANIC|terminated by signal/, 'the log has no crash');
done_testing();
