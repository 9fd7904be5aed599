# preload.pl: all ways to load the library.
#
# LOAD, session_, local_ and shared_preload_libraries, roles and databases, parallel workers, users without superuser
# rights; and dump and restore of the extension.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GpuSortTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $plan = 'EXPLAIN (COSTS OFF) SELECT i FROM generate_series(1, 10) i ORDER BY i';
my $node = new_node('preload', preload => 0);

# not loaded: the stock planner
unlike($node->safe_psql('postgres', $plan), qr/GpuSort/, 'not loaded: stock plans');
like($node->safe_psql('postgres', "LOAD 'gpusort'; SET gpusort.min_rows = 0; $plan"), qr/Custom Scan \(GpuSort\)/,
	'LOAD');
like($node->safe_psql('postgres', "SET gpusort.min_rows = 0; LOAD 'gpusort'; $plan"), qr/Custom Scan \(GpuSort\)/,
	'LOAD, settings first');
like( $node->safe_psql('postgres', "LOAD 'gpusort'; LOAD 'gpusort'; SET gpusort.min_rows = 0; $plan"),
	qr/Custom Scan \(GpuSort\)/, 'LOAD twice');
my ($rc, $out, $err) = $node->psql('postgres', "SET gpusort.min_rows = -5; LOAD 'gpusort'; SHOW gpusort.min_rows;");
like($err, qr/WARNING:.*-5 is outside the valid range for parameter "gpusort.min_rows"/,
	'a wrong setting before LOAD is reported');
is($out, '32', 'and replaced by the default') or diag $err;

{
	local $ENV{PGOPTIONS} = '-c session_preload_libraries=gpusort -c gpusort.min_rows=0';
	like($node->safe_psql('postgres', $plan), qr/Custom Scan \(GpuSort\)/, 'session_preload_libraries');
	is($node->safe_psql('postgres', "SELECT nodes || ' ' || result FROM check_sort('SELECT mix(i) AS k FROM "
		. "generate_series(1, 5000) i ORDER BY 1')"),
		'GpuSort same', 'session_preload_libraries: sorts');
	is($node->safe_psql('postgres', 'SELECT count(*) >= 0 FROM gpusort_stat'), 't',
		'gpusort_stat without shared memory');
	is($node->safe_psql('postgres', 'BEGIN; DECLARE c CURSOR FOR SELECT i FROM generate_series(1, 10) i ORDER BY i; '
		. 'MOVE 1 FROM c; SELECT phase, rows FROM gpusort_progress'),
		'emit|10', 'gpusort_progress without shared memory shows the session its own sorts');
}

# ALTER ROLE, and a superuser's settings for one database
$node->safe_psql('postgres', "ALTER ROLE CURRENT_USER SET session_preload_libraries = 'gpusort'; ALTER DATABASE "
	. "postgres SET gpusort.min_rows = 0");
like($node->safe_psql('postgres', $plan), qr/Custom Scan \(GpuSort\)/, 'ALTER ROLE ... SET session_preload_libraries');
$node->safe_psql('postgres', 'ALTER ROLE CURRENT_USER RESET session_preload_libraries');

# parallel workers load the library of the session that loaded it
is( $node->safe_psql('postgres', <<'SQL'), 'Feed, GpuSort, same', 'LOAD: parallel workers find the node');
CREATE TABLE par AS SELECT mix(i) AS k, i FROM generate_series(1, 20000) i;
ANALYZE par;
LOAD 'gpusort';
SET max_parallel_workers_per_gather = 2; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET cpu_tuple_cost
	= 1;
SET min_parallel_table_scan_size = 0; SET parallel_leader_participation = off;
CREATE FUNCTION feed_of(q text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE l text; BEGIN FOR l IN EXECUTE 'EXPLAIN ' || q LOOP IF l ~ 'GpuSort Feed' THEN RETURN 'Feed'; END IF; END
	LOOP; RETURN 'no Feed'; END $$;
SELECT feed_of('SELECT k, i FROM par ORDER BY k, i') || ', ' || nodes || ', ' || result FROM
	check_sort('SELECT k, i FROM par ORDER BY k, i');
SQL

# an ordinary user can load only libraries in plugins (make install-plugin)
{
	my $plugin = '$libdir/plugins/gpusort';

	$node->safe_psql('postgres', 'CREATE ROLE plain LOGIN; GRANT CREATE ON SCHEMA public TO plain');
	fails_like($node, "SET ROLE plain; LOAD 'gpusort'", qr/access to library "gpusort" is not allowed/,
		'LOAD as an ordinary user');
	is( $node->safe_psql('postgres', "LOAD '$plugin'; SET gpusort.min_rows = 0; SELECT current_user, nodes, result "
		. "FROM check_sort('SELECT mix(i) AS k FROM generate_series(1, 5000) i ORDER BY 1')",
			extra_params => [ '-U', 'plain' ]), 'plain|GpuSort|same', 'LOAD of the plugin as an ordinary user');
	my $parallel = "SET max_parallel_workers_per_gather = 2; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; "
		. "SET cpu_tuple_cost = 1; SET min_parallel_table_scan_size = 0; SET parallel_leader_participation = off;";
	$node->safe_psql('postgres', 'GRANT SELECT ON par TO plain');
	is( $node->safe_psql('postgres', "LOAD '$plugin'; $parallel SELECT feed_of('SELECT k, i FROM par ORDER BY k, "
		. "i'), nodes, result FROM check_sort('SELECT k, i FROM par ORDER BY k, i')",
			extra_params => [ '-U', 'plain' ]), 'Feed|GpuSort|same', 'the plugin in parallel workers');
	# one library under two names
	is($node->safe_psql('postgres', "LOAD '$plugin'; LOAD 'gpusort'; SELECT count(*) > 0 FROM gpusort_algorithms(); "
		. "$plan"), "t\n" . $node->safe_psql('postgres', "LOAD 'gpusort'; $plan"),
		'loaded by either name, it is loaded once');
	local $ENV{PGOPTIONS} = '-c local_preload_libraries=gpusort -c gpusort.min_rows=0';
	like($node->safe_psql('postgres', $plan, extra_params => [ '-U', 'plain' ]), qr/GpuSort/,
		'local_preload_libraries as an ordinary user');
}

# preloaded by the server
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'gpusort'");
$node->restart;
like($node->safe_psql('postgres', $plan), qr/Custom Scan \(GpuSort\)/, 'shared_preload_libraries');
# also in a database without the extension
$node->safe_psql('postgres', 'CREATE DATABASE bare; ALTER DATABASE bare SET gpusort.min_rows = 0');
like($node->safe_psql('bare', $plan), qr/Custom Scan \(GpuSort\)/, 'without CREATE EXTENSION');
# a setting in postgresql.conf reaches sessions
$node->append_conf('postgresql.conf', "gpusort.enable = off");
$node->reload;
ok($node->poll_query_until('postgres', "SELECT current_setting('gpusort.enable') = 'off'"),
	'a reload reaches new sessions');
unlike($node->safe_psql('postgres', $plan), qr/GpuSort/, 'off in postgresql.conf');
$node->append_conf('postgresql.conf', "gpusort.enable = on\ngpusort.algorithm = 'bogo'");
my $offset = -s $node->logfile;
$node->reload;
ok($node->poll_query_until('postgres', "SELECT current_setting('gpusort.enable') = 'on'"), 'on again');
ok($node->log_contains(qr/invalid value for parameter "gpusort.algorithm": "bogo"/, $offset),
	'an unknown algorithm in postgresql.conf is reported');
ok($node->log_contains(qr/HINT:  Available values: auto, cpu_radix/, $offset), 'with the list of algorithms');

# an earlier version's file of constants does no harm
{
	my $model = $node->data_dir . '/gpusort.model';

	$offset = -s $node->logfile;
	append_to_file($model, "gpusort model 1\nno such processor\n");
	$node->restart;
	is($node->safe_psql('postgres', 'SET gpusort.min_rows = 0; SELECT count(*) FROM (SELECT i FROM generate_series(1, '
		. '70000) i ORDER BY hashint4(i) OFFSET 0) s'), 70000, 'gpusort.model: a sort runs');
	unlike(slurp_file($node->logfile, $offset), qr/gpusort\.model/, 'gpusort.model: ignored');
	unlink $model;
}

# preloaded by an absolute path, where the server finds no library by its name: background workers and the workers of
# index builds load the same file
{
	my $dir = PostgreSQL::Test::Utils::tempdir();
	my $empty = PostgreSQL::Test::Utils::tempdir();
	my $suffix = -e $node->config_data('--pkglibdir') . '/gpusort.so' ? '.so' : '.dylib';

	symlink($node->config_data('--pkglibdir') . "/gpusort$suffix", "$dir/gpusort$suffix") or die "symlink: $!";
	$node->append_conf('postgresql.conf', <<CONF);
shared_preload_libraries = '$dir/gpusort'
dynamic_library_path = '$empty'
gpusort.algorithm = 'auto'
gpusort.device_library = '\$libdir/libgpusort_cpu_abi'
gpusort.device = 0
CONF
	$node->restart;
	device_ready($node, 'an absolute path');
	my ($rc, $out, $err) = $node->psql('postgres', <<'SQL');
SET client_min_messages = debug1;
SET max_parallel_maintenance_workers = 1;
SET min_parallel_table_scan_size = 0;
SET gpusort.index_builds_min_size = 0;
CREATE INDEX by_path ON par (k);
SQL
	is($rc, 0, 'an absolute path: CREATE INDEX');
	like($err, qr/gpusort built index "by_path": route \w+ by pages, 1 workers/, 'an absolute path: by a worker');
	$node->append_conf('postgresql.conf', <<'CONF');
shared_preload_libraries = 'gpusort'
dynamic_library_path = '$libdir'
gpusort.device = 'off'
CONF
	$node->restart;
}

# drop and create; dump and restore
$node->safe_psql('postgres', 'DROP EXTENSION gpusort CASCADE');
like($node->safe_psql('postgres', "SET gpusort.min_rows = 0; $plan"), qr/Custom Scan \(GpuSort\)/,
	'the node does not need the extension');
$node->safe_psql('postgres', 'CREATE EXTENSION gpusort');
is($node->safe_psql('postgres', "SELECT count(*) FROM gpusort_algorithms() WHERE algorithm = 'cpu_radix'"), '1',
	'created again');
my $dump = $node->basedir . '/dump.sql';
$node->command_ok([ 'pg_dump', '-f', $dump, 'postgres' ], 'pg_dump');
$node->safe_psql('postgres', 'CREATE DATABASE restored');
$node->command_ok([ 'psql', '-X', '-v', 'ON_ERROR_STOP=1', '-q', '-f', $dump, 'restored' ], 'restore');
is($node->safe_psql('restored', "SELECT extversion FROM pg_extension WHERE extname = 'gpusort'"), '1.2',
	'the extension is restored');

$node->stop;
done_testing();
