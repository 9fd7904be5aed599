# GpuSortTest.pm: functions that the TAP tests share: servers, sessions, the device service, comparisons with the stock
# Sort, and queries that end early.
package GpuSortTest;

use strict;
use warnings;

use Exporter 'import';
use File::Basename;
use IPC::Run;
use PostgreSQL::Test::BackgroundPsql;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

our @EXPORT = qw(new_node query_file reload_with seed_random pick wait_until process_ends server_answers
	backend_crashes new_session begin_query begin_sort no_timeout session_ok fails_like times_out error_and_timeout
	ends_early worker_terminated temp_files memory_of create_collations counted_operators device_ready device_unused
	device_process device_processes kill_device_process next_device_process device_awaited device_route_function
	device_lines_function fallbacks fake_device_is gate_make gate_shut gate_reached gate_open killed_at_gate
	same_order order_sum start_in_small_shm stop_in_small_shm);

# The first minor releases of 16 return the output of a session's query with its last newline; later ones do not.
{
	no warnings 'redefine';
	my $query = \&PostgreSQL::Test::BackgroundPsql::query;

	*PostgreSQL::Test::BackgroundPsql::query = sub {
		my @result = wantarray ? $query->(@_) : scalar $query->(@_);

		$result[0] =~ s/\n\z//;
		return wantarray ? @result : $result[0];
	};
}

# Seeds the random choices of a test with GPUSORT_SEED or the time; returns the seed.  A test that fails prints it.
my $seed;

sub seed_random
{
	$seed = $ENV{GPUSORT_SEED} || time % 1_000_000;
	srand $seed;
	note "GPUSORT_SEED=$seed";
	return $seed;
}

END { diag "seed $seed" if defined $seed && !Test::More->builder->is_passing }

# A random one of the arguments.
sub pick { return $_[ int rand @_ ] }

# Starts a server with the extension and the functions of sql/setup.sql.
# Options: preload (by shared_preload_libraries; default 1), parallel (costs at which all plans that can use workers
# do), conf (lines of postgresql.conf).  gpusort.device_learn is off, so that estimates for a GPU do not depend on the
# load of the machine.
sub new_node
{
	my ($name, %opt) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);

	$node->init;
	$node->append_conf('postgresql.conf', <<CONF);
jit = off
max_parallel_workers_per_gather = 0
autovacuum = off
CONF
	$node->append_conf('postgresql.conf', <<CONF) if $opt{parallel};
max_worker_processes = 16
max_parallel_workers = 8
max_parallel_workers_per_gather = 2
parallel_setup_cost = 0
parallel_tuple_cost = 0
cpu_tuple_cost = 1
min_parallel_table_scan_size = 0
CONF
	$node->append_conf('postgresql.conf', "shared_preload_libraries = 'gpusort, libgpusort_cpu_abi'\n"
		. "gpusort.min_rows = 0\ngpusort.device_learn = off\ngpusort.plan_grouping = on\n")
	  if $opt{preload} // 1;
	$node->append_conf('postgresql.conf', $ENV{GPUSORT_CONF}) if $ENV{GPUSORT_CONF} && ($opt{preload} // 1);
	$node->append_conf('postgresql.conf', $opt{conf}) if defined $opt{conf};
	$node->start;
	query_file($node, dirname(__FILE__) . '/../../sql/setup.sql');
	return $node;
}

sub query_file
{
	my ($node, $file) = @_;

	$node->safe_psql('postgres', slurp_file($file));
}

# Changes a setting in postgresql.conf, and tests that new sessions get this value, written as SHOW prints it.
sub reload_with
{
	my ($node, $setting, $value) = @_;

	$node->append_conf('postgresql.conf', "$setting = $value");
	$node->reload;
	ok($node->poll_query_until('postgres', "SELECT current_setting('$setting') = '$value'"),
		"$setting = $value after a reload");
}

# Two tests: a script of SQL fails, and its message matches.
sub fails_like
{
	my ($node, $sql, $pattern, $name) = @_;
	my ($rc, $out, $err) = $node->psql('postgres', $sql);

	isnt($rc, 0, "$name: fails") or diag($out);
	like($err, $pattern, "$name: message");
}

# Tests that a session (BackgroundPsql) sorts correctly, after an error for example.
sub session_ok
{
	my ($session, $name) = @_;
	my $got = $session->query(
		q(SELECT nodes || ' ' || rows || ' ' || result FROM
			check_sort('SELECT i % 7 AS k, i FROM generate_series(1, 1000) i ORDER BY 1, 2');));

	is($got, 'GpuSort 1000 same', "$name: the session goes on");
	$session->{stderr} = '';
}

# The temporary files of a server.
sub temp_files
{
	my ($node) = @_;
	my $dir = $node->data_dir . '/base/pgsql_tmp';

	return -d $dir ? grep { !/^\.\.?$/ } slurp_dir($dir) : ();
}

# A value of /proc/PID/status, in kB.
sub memory_of
{
	my ($pid, $what) = @_;

	return slurp_file("/proc/$pid/status") =~ /^$what:\s+(\d+) kB/m ? $1 : die "no $what of $pid";
}

# Creates the collations "nondeterministic" (ICU) and "rules" (a locale of the C library), if the server and the machine
# have such collations.  Returns the names of these two and of ICU's English one.
sub create_collations
{
	my ($node) = @_;
	my @names;

	if ($node->safe_psql('postgres', q(SELECT count(*) FROM pg_collation WHERE collname = 'en-x-icu')))
	{
		$node->safe_psql('postgres', q(CREATE COLLATION nondeterministic (provider = icu, locale = 'und-u-ks-level1',
			deterministic = false)));
		push @names, 'en-x-icu', 'nondeterministic';
	}
	for my $locale (qw(en_US.utf8 de_DE.utf8 en_GB.utf8))
	{
		my ($rc) = $node->psql('postgres', qq(CREATE COLLATION "rules" (provider = libc, locale = '$locale')));
		next if $rc != 0;
		push @names, 'rules';
		last;
	}
	return @names;
}

# Creates an operator class of text with operators <#, =# and >#, whose comparator counts its calls
# (test/module/comparisons.c).
sub counted_operators
{
	my ($node) = @_;

	$node->safe_psql('postgres', <<'SQL');
CREATE FUNCTION counted_compare(text, text) RETURNS int AS 'gpusort_test' LANGUAGE C IMMUTABLE STRICT;
CREATE FUNCTION counted_less(text, text) RETURNS bool AS 'gpusort_test' LANGUAGE C IMMUTABLE STRICT;
CREATE FUNCTION counted_equal(text, text) RETURNS bool AS 'gpusort_test' LANGUAGE C IMMUTABLE STRICT;
CREATE FUNCTION counted_greater(text, text) RETURNS bool AS 'gpusort_test' LANGUAGE C IMMUTABLE STRICT;
CREATE FUNCTION counted_comparisons() RETURNS bigint AS 'gpusort_test' LANGUAGE C VOLATILE;
CREATE OPERATOR <# (LEFTARG = text, RIGHTARG = text, FUNCTION = counted_less, COMMUTATOR = ># );
CREATE OPERATOR =# (LEFTARG = text, RIGHTARG = text, FUNCTION = counted_equal, COMMUTATOR = =# );
CREATE OPERATOR ># (LEFTARG = text, RIGHTARG = text, FUNCTION = counted_greater, COMMUTATOR = <# );
CREATE OPERATOR CLASS counted_ops FOR TYPE text USING btree AS
	OPERATOR 1 <#, OPERATOR 3 =#, OPERATOR 5 >#, FUNCTION 1 counted_compare(text, text);
SQL
}

# Replaces the settings of the fake device (test/fake_gpu/cpu_abi.c), given as NAME=VALUE.  They are in a file that the
# fake device reads at each use.  A test whose server already runs can change only settings that are read again.
my $fake_device_file;

sub fake_device_is
{
	if (!defined $fake_device_file)
	{
		$fake_device_file = PostgreSQL::Test::Utils::tempdir_short() . '/fake_device';
		$ENV{GPUSORT_CPU_ABI_FILE} = $fake_device_file;
	}
	# a reader finds the old settings or the new ones
	append_to_file("$fake_device_file.new", join '', map { "GPUSORT_CPU_ABI_$_\n" } @_);
	rename "$fake_device_file.new", $fake_device_file or die "$fake_device_file: $!";
}

# Waits until the device service is ready.
sub device_ready
{
	my ($node, $name) = @_;

	ok($node->poll_query_until('postgres', "SELECT bool_and(state = 'ready') FROM gpusort_devices()"),
		"$name: the service is ready");
}

# Process id of the device process.
sub device_process
{
	my ($node) = @_;
	my $pid = $node->safe_psql('postgres', 'SELECT max(process_pid) FROM gpusort_devices()');

	die "no device process: '$pid'" unless $pid =~ /^\d\d+$/;
	return $pid;
}

# Process ids of the device process, its keeper and the supervisor.
sub device_processes
{
	my ($node) = @_;
	my @pids = device_process($node);

	for (1 .. 2)
	{
		push @pids, slurp_file("/proc/$pids[-1]/stat") =~ /.*\) \S (\d+)/;
		die "no parent process: '$pids[-1]'" unless $pids[-1] =~ /^\d\d+$/;
	}
	return @pids;
}

# Kills the device process; returns its process id.
sub kill_device_process
{
	my ($node, $name) = @_;
	my $pid = device_process($node);

	is(kill('KILL', $pid), 1, "$name: the device process is killed");
	return $pid;
}

# Waits until another device process than this one is ready.
sub next_device_process
{
	my ($node, $pid, $name) = @_;

	ok($node->poll_query_until('postgres',
			"SELECT bool_and(state = 'ready' AND process_pid <> $pid) FROM gpusort_devices()"),
		"$name: a new device process is ready");
}

# The number of sorts that could not continue on a GPU.
sub fallbacks
{
	my ($node) = @_;

	return $node->safe_psql('postgres', 'SELECT sum(fallbacks) FROM gpusort_stat');
}

# SQL condition: a session of begin_sort() has sent all its rows and waits for the sorted result.  Before that moment
# the memory of its job can grow, and the job can be replaced by another if keys turn out to be wider than expected.
sub device_awaited
{
	my ($session) = @_;

	return "EXISTS (SELECT FROM pg_stat_activity JOIN gpusort_progress USING (pid) "
		. "WHERE pid = $session->{backend_pid} AND wait_event_type = 'Extension' AND phase = 'sort')";
}

# Creates the SQL function route(query): EXPLAIN's Sort Device (host without one) and Sort Route.
sub device_route_function
{
	my ($node) = @_;

	$node->safe_psql('postgres', <<SQL);
CREATE FUNCTION route(q text) RETURNS text LANGUAGE plpgsql AS \$\$
DECLARE l text; r text; m text;
BEGIN
	FOR l IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF) ' || q LOOP
		r := coalesce(substring(l FROM 'Sort Route: (.*)'), r);
		m := coalesce(substring(l FROM 'Sort Device: (\\w+)'), m);
	END LOOP;
	RETURN coalesce(m, 'host') || ': ' || r;
END \$\$;
SQL
}

# Creates the SQL function device_lines(query): EXPLAIN's lines Sort Method, Route, Peak and Device.
sub device_lines_function
{
	my ($node) = @_;

	$node->safe_psql('postgres', <<'SQL');
CREATE FUNCTION device_lines(q text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE l text; r text := '';
BEGIN
	FOR l IN EXECUTE 'EXPLAIN (ANALYZE, VERBOSE, COSTS OFF) ' || q LOOP
		r := r || coalesce(substring(l FROM 'Sort (?:Method|Route|Peak|Device).*:.*') || E'\n', '');
	END LOOP;
	RETURN r;
END $$;
SQL
}

# Waits until no job holds a slot, staging memory or device memory.
sub device_unused
{
	my ($node, $name) = @_;

	ok($node->poll_query_until('postgres', "SELECT bool_and(memory_used = 0 AND jobs = 0 AND free_jobs = 64 AND "
		. "staging_total = staging_free AND waiting = 0) FROM gpusort_devices()"),
		"$name: slots, staging and device memory are free");
}

# Starts a query in a session (BackgroundPsql) and does not wait for its end; the
# session's next query returns its output too.
sub begin_query
{
	my ($session, $query) = @_;

	$session->query_until(qr/begun/, "\\echo begun\n$query;\n");
}

# Starts a session with these settings that begins a query and does not wait for its end; the key backend_pid of the
# session has its process.
sub begin_sort
{
	my ($node, $settings, $query) = @_;
	my $session = new_session($node);

	$session->{backend_pid} = $session->query('SELECT pg_backend_pid()');
	$session->query($settings);
	begin_query($session, $query);
	return $session;
}

# Waits until a function returns true.  Returns false if it does not before the time limit of the tests.
sub wait_until
{
	my ($function) = @_;

	for (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
	{
		return 1 if $function->();
		select undef, undef, undef, 0.1;
	}
	return 0;
}

# Waits for the end of a process; a zombie has ended.
sub process_ends
{
	my ($pid) = @_;

	return wait_until(sub {
		my $stat = -e "/proc/$pid/stat" ? eval { slurp_file("/proc/$pid/stat") } : undef;
		return !defined $stat || $stat =~ /\) Z /;
	});
}

# Waits until the server accepts connections, for a server that is starting or restarting.  poll_query_until() does not
# serve here: it writes the query to psql's standard input, and dies with "ack Broken pipe" if psql could not connect
# and has ended by then.
sub server_answers
{
	my ($node) = @_;
	my @psql = ('psql', '-XAt', '-d', $node->connstr('postgres'), '-c', 'SELECT true');

	return wait_until(sub {
		my ($out, $err) = ('', '');
		return IPC::Run::run(\@psql, '<', '/dev/null', '>', \$out, '2>', \$err);
	});
}

# Kills a backend, and waits until the server has restarted.  A query that is sent earlier may be answered by the server
# that is about to end.  The server must have restart_after_crash = on.
sub backend_crashes
{
	my ($node, $pid, $name) = @_;
	my $offset = -s $node->logfile;

	is(kill('KILL', $pid), 1, "$name: the backend is killed");
	$node->wait_for_log(qr/all server processes terminated; reinitializing/, $offset);
	ok(server_answers($node), "$name: the server is back");
}

# A session that continues after errors.  The time limit holds for each query, not for the session.
sub new_session
{
	my ($node) = @_;
	my $session = $node->background_psql('postgres', on_error_stop => 0);

	$session->set_query_timer_restart();
	return $session;
}

# Resets a session's statement_timeout.  The resetting statement itself may time out, so it is repeated.
sub no_timeout
{
	my ($session) = @_;

	for (1 .. 1000)
	{
		$session->query('SET statement_timeout = 0');
		last if $session->query('SHOW statement_timeout') eq '0';
	}
	$session->{stderr} = '';
}

# A gate stops a query at a chosen row, so that a test can look at it there.  gate_make() creates the SQL function
# gate(n, at), which waits at n = at while the gate is shut.
my $gatekeeper;

sub gate_make
{
	my ($node) = @_;

	$node->safe_psql('postgres', <<'SQL');
CREATE OR REPLACE FUNCTION gate(n bigint, at bigint) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
	IF n = at THEN
		PERFORM pg_advisory_xact_lock_shared(1);
	END IF;
	RETURN n;
END $$;
SQL
	$gatekeeper = new_session($node);
}

sub gate_shut { $gatekeeper->query('SELECT pg_advisory_lock(1)') }

sub gate_reached
{
	my ($node, $name) = @_;

	ok($node->poll_query_until('postgres', "SELECT count(*) = 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT "
		. "granted"), "$name: at the gate");
}

sub gate_open { $gatekeeper->query('SELECT pg_advisory_unlock(1)') }

# Kills the device process while a query waits at the gate; the query must return what is wanted.  $at_gate is an SQL
# condition that must hold at the gate.
sub killed_at_gate
{
	my ($node, $name, $query, $want, $at_gate) = @_;
	my $s = new_session($node);

	gate_shut();
	begin_query($s, $query);
	gate_reached($node, $name);
	is($node->safe_psql('postgres', $at_gate), 't', "$name: $at_gate") if defined $at_gate;
	next_device_process($node, kill_device_process($node, $name), $name);
	gate_open();
	is($s->query('SELECT 1'), "$want\n1", "$name: all rows");
	is($s->{stderr}, '', "$name: no error");
	device_unused($node, $name);
	$s->quit;
}

# A query for the number of rows and a checksum of their order: over one column, or over whole rows.
sub order_sum
{
	my ($query, $column) = @_;
	my ($value, $number) = defined $column ? ($column, 'v::bigint') : ('s', 'hashtext(v::text)::bigint');

	return "SELECT count(*), sum(n * ($number % 1000003)) FROM ("
	  . "SELECT row_number() OVER () AS n, $value AS v FROM ($query OFFSET 0) s) q";
}

# Tests that a sort returns the stock Sort's rows in its order, and equal rows in input order.  The stock Sort gets id,
# the number of the row in the input, as last key.  Its checksum is kept: tables must not change between calls.
my %stock_sums;

sub same_order
{
	my ($node, $name, $select, $order, $set, $column) = @_;
	my $total = $order =~ /\bid\b/ ? $order : "$order, id";
	my $stock = "SET gpusort.enable = off; " . order_sum("$select ORDER BY $total", $column);

	$stock_sums{ $node->name . $stock } //= $node->safe_psql('postgres', $stock);
	is($node->safe_psql('postgres', ($set // '') . order_sum("$select ORDER BY $order", $column)),
		$stock_sums{ $node->name . $stock }, "$name: rows in the stock Sort's order, equal rows in input order");
}

# Tests parallel sorts of t (id, k, ...) that end early: by an error in a participant, by an error above the sort, and
# by a LIMIT.
sub ends_early
{
	my ($session, $name, $key) = @_;

	$session->query('SELECT sum(x) FROM (SELECT 1 / (id - 40000) AS x FROM t ORDER BY k OFFSET 0) s');
	like($session->{stderr}, qr/division by zero/, "$name: error in a participant");
	session_ok($session, "$name: error in a participant");
	$session->query('SELECT sum(1 / (n - 30000)) FROM (SELECT row_number() OVER () AS n FROM ('
		  . 'SELECT * FROM t ORDER BY k OFFSET 0) x) s');
	like($session->{stderr}, qr/division by zero/, "$name: error above");
	session_ok($session, "$name: error above");
	is($session->query("SELECT count(*) FROM (SELECT 1 FROM (SELECT * FROM t ORDER BY $key OFFSET 0) x LIMIT 100) s"),
		'100', "$name: stopped early");
}

# Tests that a query, by default a slow sort of t, ends by statement_timeout.
sub times_out
{
	my ($session, $name, $timeout, $query) = @_;

	$session->query("SET statement_timeout = '$timeout'");
	$session->query($query // 'SELECT count(pg_sleep(0.01)) FROM (SELECT * FROM t ORDER BY k OFFSET 0) s');
	like($session->{stderr}, qr/canceling statement due to statement timeout/, "$name: timeout");
	no_timeout($session);
}

# Tests a query that divides by zero and a query that times out; the session sorts after each.
sub error_and_timeout
{
	my ($session, $name, $fails, $timeout, $takes_long) = @_;

	$session->query($fails);
	like($session->{stderr}, qr/division by zero/, "$name: error");
	session_ok($session, "$name: error");
	times_out($session, $name, $timeout, $takes_long);
	session_ok($session, "$name: timeout");
}

# Starts a query, terminates one of its workers while workers wait, and runs another statement in the session.
sub worker_terminated
{
	my ($node, $session, $query, $then) = @_;
	my $workers = "FROM pg_stat_activity WHERE backend_type = 'parallel worker'";

	begin_query($session, $query);
	ok($node->poll_query_until('postgres', "SELECT count(*) > 0 $workers AND wait_event_type = 'Extension'"),
		'workers wait');
	$node->safe_psql('postgres', "SELECT pg_terminate_backend(pid) $workers LIMIT 1");
	$session->query($then);
	like($session->{stderr},
		qr/terminating (connection|background worker|parallel worker)|lost connection to parallel worker/,
		'a terminated worker ends the query');
	session_ok($session, 'a terminated worker');
}

# Starts a stopped node with a /dev/shm of this size, in a mount name space of its own; false if that is not allowed.
# Only stop_in_small_shm() stops it.
sub start_in_small_shm
{
	my ($node, $size) = @_;
	my $mount = "mount -t tmpfs -o size=$size tmpfs /dev/shm && "
	  . 'exec unshare -U --map-user=1000 --map-group=1000 "$@"';
	my @inside = ('unshare', '-rm', 'sh', '-c');

	return 0 if system(@inside, "$mount >/dev/null 2>&1", '-', 'true') != 0;
	PostgreSQL::Test::Utils::system_or_bail(@inside, $mount, '-', 'pg_ctl', '-D', $node->data_dir, '-l', $node->logfile,
		'-w', 'start');
	return 1;
}

sub stop_in_small_shm
{
	my ($node) = @_;

	PostgreSQL::Test::Utils::system_or_bail('pg_ctl', '-D', $node->data_dir, '-m', 'fast', '-w', 'stop');
}

1;
