# keeper.pl: the device process and its keeper end without harm to the server.
#
# Also where the postmaster is process 1, as in a container, and so becomes the parent of every orphan.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GpuSortTest;
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $library = $ENV{GPUSORT_TEST_LIBRARY} || '$libdir/libgpusort_cpu_abi';
my $conf = <<CONF;
gpusort.device_library = '$library'
gpusort.device = 0
gpusort.staging_memory = 8MB
gpusort.device_memory = 64MB
shared_buffers = 64MB
log_min_messages = log
restart_after_crash = on
CONF

# ---------------------------------------------------------------------------
# An ordinary server
# ---------------------------------------------------------------------------
my $node = new_node('keeper', conf => $conf);
device_ready($node, 'start');

# the keeper is attached to nothing of the server
{
	my ($process, $keeper, $supervisor) = device_processes($node);
	my $maps = slurp_file("/proc/$keeper/maps");
	my %title = map { $_ => slurp_file("/proc/$_/cmdline") } $process, $keeper, $supervisor;

	like($title{$process}, qr/^postgres: (\S+: )?gpusort device process\s*\0*$/, "the device process's title");
	like($title{$keeper}, qr/^postgres: (\S+: )?gpusort device keeper\s*\0*$/, "the keeper's title");
	like($title{$supervisor}, qr/^postgres: (\S+: )?gpusort device supervisor\s*\0*$/, "the supervisor's title");
	unlike($maps, qr{SYSV|PostgreSQL\.\d|/dev/zero}, 'the keeper is attached to no shared memory');
	my @files = grep { !m{^(/dev/null|socket:.*)$} } map { readlink($_) // () } glob "/proc/$keeper/fd/*";
	is("@files", '', 'the keeper has no open file of the server');
	is(readlink("/proc/$keeper/cwd"), '/', 'the keeper does not hold the data directory');
	isnt(getpgrp($keeper), getpgrp($supervisor), 'the keeper is in a process group of its own');
	kill $_, $keeper for qw(TERM INT QUIT HUP USR1);
	select undef, undef, undef, 0.2;
	is(join(' ', device_processes($node)), "$process $keeper $supervisor", 'the keeper ignores signals to end');
}

# a device process that does not end holds the staging pool: the next supervisor waits for its end
{
	my ($process, $keeper, $supervisor) = device_processes($node);

	# a stopped keeper does not kill the device process, as if the driver kept the process from ending
	is(kill('STOP', $keeper), 1, 'the keeper is stopped');
	is(kill('TERM', $supervisor), 1, 'SIGTERM to the supervisor');
	ok(process_ends($supervisor), 'the supervisor ends');
	ok($node->poll_query_until('postgres',
		"SELECT state ~ 'down: the last device process .* has not ended yet' FROM gpusort_devices()"),
		'the next supervisor shows what it waits for');
	select undef, undef, undef, 2;
	is($node->safe_psql('postgres', 'SELECT process_pid IS NULL FROM gpusort_devices()'), 't',
		'it starts no second device process');
	is($node->safe_psql('postgres', "SET gpusort.algorithm = gpu_radix; SELECT result FROM "
		. "check_sort('SELECT mix(i) AS k FROM generate_series(1, 20000) i ORDER BY k')"), 'same', 'sorts go on');
	is(kill('CONT', $keeper), 1, 'the keeper continues');
	ok(process_ends($process), 'the device process ends');
	ok(process_ends($keeper), 'the keeper ends');
	device_ready($node, 'after it');
	like($node->safe_psql('postgres', "SET work_mem = '64MB'; SET gpusort.algorithm = gpu_radix; SELECT "
		. "sort_route('SELECT mix(i) AS k FROM generate_series(1, 20000) i ORDER BY k')"), qr/^gpu radix/,
		'the next device process sorts');
	device_unused($node, 'after it');
}

# if the keeper is killed, the device process ends, and the server goes on
{
	my ($process, $keeper, $supervisor) = device_processes($node);

	is(kill('KILL', $keeper), 1, 'the keeper is killed');
	ok(process_ends($process), 'the device process ends');
	device_ready($node, 'keeper killed');
	my @now = device_processes($node);
	is($now[2], $supervisor, 'keeper killed: the supervisor is the same');
	isnt($now[1], $keeper, 'keeper killed: a new keeper starts');
}
unlike(slurp_file($node->logfile), qr/reinitializing|terminating any other active server processes/,
	'the server did not restart');
$node->stop;

# ---------------------------------------------------------------------------
# The postmaster is process 1
# ---------------------------------------------------------------------------
my @unshare = qw(unshare --user --map-current-user --pid --fork --kill-child --mount-proc);
my ($out, $err) = ('', '');

unless (eval { IPC::Run::run([ @unshare, 'true' ], '>', \$out, '2>', \$err) })
{
	chomp $err;
	note("no process namespace: $err$@");
	SKIP: { skip 'this user may not make process namespaces, so the postmaster cannot be process 1', 1 }
	done_testing();
	exit 0;
}

my $log = $node->basedir . '/process1.log';
my $server = IPC::Run::start([ @unshare, 'postgres', '-D', $node->data_dir ], '>', $log, '2>', $log);

ok(server_answers($node), 'process 1: the server starts');
device_ready($node, 'process 1');

# PIDs as we see them, of processes in the namespace, by their title; the postmaster is 'postgres'.
sub pids_of
{
	my ($title) = @_;
	my @pids;

	for my $pid (map { m{^/proc/(\d+)$} } glob '/proc/*')
	{
		my $status = eval { slurp_file("/proc/$pid/status") } // next;
		next unless $status =~ /^NSpid:\t\d+\t(\d+)$/m;
		my $inner = $1;
		my $line = eval { slurp_file("/proc/$pid/cmdline") } // next;
		my $cwd = readlink("/proc/$pid/cwd") // next;
		# another test may run a server in a namespace at the same time
		next unless $cwd eq $node->data_dir || $title =~ /keeper/;
		push @pids, $pid if $title eq 'postgres' ? $inner == 1 : $line =~ /\Q$title\E/;
	}
	return @pids;
}

my ($postmaster) = pids_of('postgres');
ok(defined $postmaster, 'process 1: the postmaster has the number') or BAIL_OUT('no postmaster');

my $restarts = 0;

sub restarts_in_log { return scalar(() = slurp_file($log) =~ /all server processes terminated; reinitializing/g) }

sub restarts_are
{
	my ($name) = @_;

	is(restarts_in_log(), $restarts, "$name: the server restarted $restarts times in all");
}

# Kills processes, and expects $more restarts of the server.  With $held the keeper is stopped meanwhile, so that the
# device process does not end.
sub killed
{
	my ($name, $which, $more, $held) = @_;
	my ($process) = pids_of('gpusort device process');
	# the keeper is the parent of the device process
	my ($keeper) = slurp_file("/proc/$process/stat") =~ /.*\) \S (\d+)/;
	my ($supervisor) = pids_of('gpusort device supervisor');
	my $s = new_session($node);
	my %pid = (process => $process, keeper => $keeper, supervisor => $supervisor);

	$s->query('SELECT 1');
	($pid{session}) = pids_of('[local] idle');
	kill 'STOP', $keeper if $held;
	# An end of the keeper that the postmaster noticed after the supervisor's would be a second restart.  A stopped
	# supervisor does not wait for its child, so that the postmaster notices both ends together.
	if ("@$which" eq 'keeper supervisor')
	{
		kill 'STOP', $supervisor;
		kill 'KILL', $keeper;
		ok(process_ends($keeper), "$name: the keeper is a zombie");
	}
	# the second process may already end because of the first
	ok(kill('KILL', map { $pid{$_} } @$which) > 0, "$name: killed");
	ok(process_ends($pid{$_}), "$name: $_ ends") for @$which;
	# A killed process is a zombie until the postmaster notices its end and restarts the server.  A query before that
	# would be answered by the server that is about to end.
	$restarts += $more;
	wait_until(sub { return restarts_in_log() >= $restarts });
	if ($held)
	{
		ok(server_answers($node), "$name: the server restarts before the device process ends");
		ok(-e "/proc/$process/stat", "$name: the device process is still there");
		kill 'CONT', $keeper;
	}
	# orphaned processes end before restarts are counted
	for my $pid ($process, $keeper)
	{
		my $gone = wait_until(sub { return !-e "/proc/$pid/stat" });
		ok($gone, "$name: " . ($pid == $process ? 'the device process' : 'the keeper') . ' is gone')
		  if $name ne 'a session';
	}
	eval { $s->quit };
	ok(server_answers($node), "$name: the server is there");
	device_ready($node, $name);
	restarts_are($name);
}

killed('the device process', ['process'], 0);
killed('the keeper', ['keeper'], 0);
killed('the device process and the keeper', [ 'process', 'keeper' ], 0);
killed('a session', ['session'], 1);
killed('the supervisor', ['supervisor'], 1);
killed('the supervisor and the device process', [ 'supervisor', 'process' ], 1);
killed('the keeper and the supervisor', [ 'keeper', 'supervisor' ], 1);
killed('a device process that does not end', ['supervisor'], 1, 1);

# a device process that is stuck in a call is killed, and the server goes on
{
	my ($process) = pids_of('gpusort device process');
	is($node->safe_psql('postgres', "SET work_mem = '256kB'; SET gpusort.algorithm = gpu_radix; SET "
		. "gpusort.device_fault = freeze; SELECT count(*) FROM (SELECT mix(i) AS k, i FROM generate_series(1, 20000) i "
		. "ORDER BY k OFFSET 0) s"), 20000, 'stuck: the sort goes on');
	ok(process_ends($process), 'stuck: the process is killed');
	device_ready($node, 'stuck');
	restarts_are('stuck');
}

# the log has no message of an unknown child process
unlike(slurp_file($log), qr/untracked|interrupted while in recovery/, 'no process was unknown to the postmaster');
kill 'INT', $postmaster;
$server->finish;
like(slurp_file($log), qr/database system is shut down/, 'process 1: the server stops');

done_testing();
