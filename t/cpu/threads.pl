# threads.pl: gpusort.threads limits the threads of a sort, gpusort.max_threads those of all sessions together.
#
# A debug message reports, for each sort, the threads it got beside its process and the threads that sorts of other
# sessions had at that moment.
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

# The reports in the log since offset: [ threads of the sort, threads of others ], ...
sub reports
{
	my ($offset) = @_;
	my @reports;
	my $log = slurp_file($node->logfile, $offset);
	push @reports, [ $1, $2 ] while $log =~ /gpusort: (\d+) threads beside this process, (\d+) of others/g;
	return @reports;
}

# Runs statements, by default a sort; their reports are as wanted: "own+others", one for each sort.
sub threads_are
{
	my ($want, $name, $sql) = @_;
	my $offset = -s $node->logfile;

	value($sql // "$set $sort");
	my @reports = reports($offset);
	is(join(' ', map { "$_->[0]+$_->[1]" } @reports), $want, $name);
}

# one session
threads_are('3+0', 'one session gets all of gpusort.max_threads');
threads_are('1+0', 'gpusort.threads = 2: one thread beside the process', "$set SET gpusort.threads = 2; $sort");
is(value("$set SELECT result FROM check_sort('SELECT k, id FROM t ORDER BY k')"), 'same',
	"with threads: rows in the stock Sort's order");
threads_are('3+0', 'a sort in a subtransaction gets threads',
	"$set DO \$\$ BEGIN PERFORM * FROM t ORDER BY k; EXCEPTION WHEN division_by_zero THEN NULL; END \$\$");

# many sessions
{
	my $script = $node->basedir . '/script.sql';
	my $offset = -s $node->logfile;

	append_to_file($script, "$set\n$sort\n");
	$node->command_ok([ 'pgbench', '-n', '-c', 6, '-j', 2, '-t', 15, '-f', $script, 'postgres' ], 'six sessions');
	my @reports = reports($offset);
	is(scalar @reports, 90, 'six sessions: each sort reports its threads');
	is(scalar(grep { $_->[0] + $_->[1] > 3 } @reports), 0, 'six sessions: never more threads than gpusort.max_threads');
	cmp_ok(scalar(grep { $_->[1] > 0 } @reports), '>', 0, 'six sessions: some sorts ran at the same time');
	threads_are('3+0', 'six sessions: all threads are free afterwards');
}

# cancelled sorts return their threads
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
	threads_are('3+0', 'cancelled sorts: all threads are free afterwards');
	$s->quit;
}

# gpusort.max_threads changed by a reload
reload_with($node, 'gpusort.max_threads', '0');
threads_are('', 'max_threads = 0: no sort gets threads');
is(value("$set SELECT result FROM check_sort('SELECT k, id FROM t ORDER BY k')"), 'same',
	"max_threads = 0: rows in the stock Sort's order");
reload_with($node, 'gpusort.max_threads', '-1');
threads_are('7+0', 'max_threads = -1: max_worker_processes limits threads', "$set SET gpusort.threads = 20; $sort");

# not preloaded by the server: there is no shared memory, and the limit holds for each session
$node->append_conf('postgresql.conf', "shared_preload_libraries = ''\nsession_preload_libraries = 'gpusort'\n"
	. 'gpusort.max_threads = 1');
$node->restart;
is(value("$set SELECT result FROM check_sort('SELECT k, id FROM t ORDER BY k')"), 'same',
	"not preloaded: rows in the stock Sort's order");
{
	my $s = new_session($node);

	$s->query("$set $sort");
	my $pid = $s->query('SELECT pg_backend_pid()');
	like(slurp_file("/proc/$pid/status"), qr/^Threads:\s+2$/m, 'not preloaded: one thread beside the session');
	$s->quit;
}

$node->stop;
done_testing();
