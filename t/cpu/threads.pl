# gpusort.threads, and the threads that all sessions together may have: gpusort.max_threads.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GpuSortTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('threads', conf => <<CONF);
gpusort.max_threads = 3
max_worker_processes = 8
shared_buffers = 64MB
work_mem = 64MB
CONF

sub value { return $node->safe_psql('postgres', @_) }

value('CREATE TABLE t AS SELECT mix(i) AS k, i AS id FROM generate_series(1, 150000) i');
value('VACUUM ANALYZE t');

my $set = 'SET log_min_messages = debug1; SET gpusort.threads = 4;';
my $sort = 'SELECT count(*) FROM (SELECT k, id FROM t ORDER BY k OFFSET 0) s;';

# What sorts were given since: [ here, of others ], ...
sub given
{
	my ($offset) = @_;
	my @given;
	my $log = slurp_file($node->logfile, $offset);
	push @given, [ $1, $2 ] while $log =~ /gpusort: (\d+) threads beside this process, (\d+) of others/g;
	return @given;
}

sub given_is
{
	my ($want, $name, $sql) = @_;
	my $offset = -s $node->logfile;

	value($sql // "$set $sort");
	my @given = given($offset);
	is(join(' ', map { "$_->[0]+$_->[1]" } @given), $want, $name);
}

# alone
given_is('3+0', 'a session alone has all that there are');
given_is('1+0', 'or as many as it wants', "$set SET gpusort.threads = 2; $sort");
is(value("$set SELECT result FROM check_sort('SELECT k, id FROM t ORDER BY k')"), 'same', 'the order');
given_is('3+0', 'in a subtransaction',
	"$set DO \$\$ BEGIN PERFORM * FROM t ORDER BY k; EXCEPTION WHEN division_by_zero THEN NULL; END \$\$");

# many sessions
{
	my $script = $node->basedir . '/script.sql';
	my $offset = -s $node->logfile;

	append_to_file($script, "$set\n$sort\n");
	$node->command_ok([ 'pgbench', '-n', '-c', 6, '-j', 2, '-t', 15, '-f', $script, 'postgres' ], 'six sessions');
	my @given = given($offset);
	is(scalar @given, 90, 'each sort asked');
	is(scalar(grep { $_->[0] + $_->[1] > 3 } @given), 0, 'never do more run than may');
	cmp_ok(scalar(grep { $_->[1] > 0 } @given), '>', 0, 'though sorts met');
	given_is('3+0', 'all are free again');
}

# sorts that end by an error give theirs back
{
	my $s = new_session($node);

	$s->query("$set SET work_mem = '1GB'");
	$s->query('CREATE TEMP TABLE large AS SELECT mix(i) AS k FROM generate_series(1, 2000000) i');
	for my $ms (map { 40 * $_ } 1 .. 12)
	{
		$s->query("SET statement_timeout = $ms");
		$s->query('SELECT count(*) FROM (SELECT k FROM large ORDER BY k OFFSET 0) s');
	}
	like($s->{stderr}, qr/canceling statement/, 'sorts were cancelled');
	given_is('3+0', 'cancelled: all are free again');
	$s->quit;
}

# by a reload
$node->append_conf('postgresql.conf', 'gpusort.max_threads = 0');
$node->reload;
ok($node->poll_query_until('postgres', "SELECT current_setting('gpusort.max_threads') = '0'"), 'a reload');
given_is('', 'none may run, and none does');
is(value("$set SELECT result FROM check_sort('SELECT k, id FROM t ORDER BY k')"), 'same', 'without threads');
$node->append_conf('postgresql.conf', 'gpusort.max_threads = -1');
$node->reload;
ok($node->poll_query_until('postgres', "SELECT current_setting('gpusort.max_threads') = '-1'"), 'another reload');
given_is('7+0', 'max_worker_processes', "$set SET gpusort.threads = 20; $sort");

# without shared memory the limit is the session's own
$node->append_conf('postgresql.conf', "shared_preload_libraries = ''\nsession_preload_libraries = 'gpusort'\n"
	. 'gpusort.max_threads = 1');
$node->restart;
is(value("$set SELECT result FROM check_sort('SELECT k, id FROM t ORDER BY k')"), 'same', 'not preloaded: the order');
{
	my $s = new_session($node);

	$s->query("$set $sort");
	my $pid = $s->query('SELECT pg_backend_pid()');
	is(threads_of($pid), 2, 'not preloaded: one thread beside the session');
	$s->quit;
}

sub threads_of
{
	my ($pid) = @_;
	return slurp_file("/proc/$pid/status") =~ /^Threads:\s+(\d+)/m ? $1 : die "no threads of $pid";
}

$node->stop;
done_testing();
