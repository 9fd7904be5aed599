# device_oracle.pl: random queries on a device, with random faults, against the stock Sort.
#
# First one session runs them, then many sessions at the same time, which are cancelled and terminated at random. A
# query returns the stock server's rows, or the expected error; afterwards no memory, job or file remains. GPUSORT_SEED
# repeats the random choices, but not the times of events; GPUSORT_ROUNDS sets the number of scripts.
# GPUSORT_TEST_LIBRARY names another GPU library than the fake device.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GpuSortTest;
use PostgreSQL::Test::Utils;
use POSIX ();
use Test::More;
use Time::HiRes qw(sleep time);

my $seed = seed_random();
my $rounds = $ENV{GPUSORT_ROUNDS} || 60;
my $library = $ENV{GPUSORT_TEST_LIBRARY} || '$libdir/libgpusort_cpu_abi';

my $staging = pick(1, 2, 8);
my $memory = pick(16, 24, 256);
# several fake devices, on which blocks take more memory than requested
my $devices = pick(1, 1, 2, 3);
my $waste = pick(0, 0, 60);
@ENV{qw(GPUSORT_CPU_ABI_DEVICES GPUSORT_CPU_ABI_WASTE)} = ($devices, $waste);
my $node = new_node('device_oracle', conf => <<CONF);
gpusort.device_library = '$library'
gpusort.staging_memory = ${staging}MB
gpusort.device_memory = ${memory}MB
gpusort.device_share = 100
shared_buffers = 64MB
max_connections = 40
max_worker_processes = 24
max_parallel_workers = 16
parallel_setup_cost = 0
parallel_tuple_cost = 0
cpu_tuple_cost = 1
min_parallel_table_scan_size = 0
dynamic_shared_memory_type = mmap
restart_after_crash = on
log_min_messages = log
CONF
note "staging $staging MB, $devices devices, memory $memory MB, waste $waste %";
device_ready($node, 'start');

my $rows = 30_000;
$node->safe_psql('postgres', <<SQL);
CREATE TABLE t AS SELECT i::int AS id, (mix(i) - 2147483648)::int4 AS k, mix(i * 7) * 1000003 - 2000000000000000 AS w,
	CASE WHEN i % 11 = 0 THEN NULL ELSE (mix(i) % 100)::int4 END AS nk, (mix(i * 3) - 2e9) / 7::float8 AS f,
	(mix(i * 5) % 7)::int2 AS few, CASE WHEN i = 29000 THEN NULL ELSE mix(i * 11) * 2147483648 END AS late,
	repeat('x', (mix(i * 13) % 60)::int) AS pad, 'customer#' || mix(i * 17) % 900 AS s,
	CASE WHEN i % 13 > 0 THEN md5((mix(i) % 20000)::text) END AS h,
	CASE i WHEN 25000 THEN 'odd' WHEN 27000 THEN NULL ELSE repeat('z', 40) || mix(i * 19) % 3 END AS g
FROM generate_series(1, $rows) i;
CREATE UNIQUE INDEX ON t (id);
VACUUM ANALYZE t;
CREATE TABLE long AS SELECT i::int AS id, mix(i) AS k,
	repeat(md5(i::text), CASE WHEN i = 2500 THEN 9000 WHEN i % 50 = 0 THEN 200 ELSE 1 END) AS pad
FROM generate_series(1, 3000) i;
VACUUM ANALYZE long;
-- reads a cursor's worth at a time, with another sort in between
CREATE FUNCTION by_loop(n int) RETURNS text LANGUAGE plpgsql AS \$\$
DECLARE r record; s text := ''; i int := 0;
BEGIN
	FOR r IN SELECT * FROM t WHERE id <= n ORDER BY k LOOP
		i := i + 1;
		IF i % 1000 = 0 THEN
			s := md5(s || r::text || (SELECT string_agg(x::text, '')
				FROM (SELECT id FROM t WHERE id < 300 ORDER BY f) x));
		END IF;
		EXIT WHEN i > 9000;
	END LOOP;
	RETURN s;
END \$\$;
-- one row at a time
CREATE FUNCTION by_row(n int) RETURNS SETOF t LANGUAGE sql VOLATILE AS 'SELECT * FROM t WHERE id <= n ORDER BY w';
-- errors that are caught, with other sorts open
CREATE FUNCTION by_exception(n int) RETURNS text LANGUAGE plpgsql AS \$\$
DECLARE r record; s text := ''; x int;
BEGIN
	FOR r IN SELECT * FROM t WHERE id <= n ORDER BY w LIMIT 5 LOOP
		BEGIN
			SELECT q.id INTO x FROM (SELECT id, 1 / (id - 9000) FROM t WHERE id <= n ORDER BY f, id) q;
			s := s || x;
			PERFORM sum(1 / (q.id - 700 - x % 2)) FROM (SELECT id FROM t ORDER BY k OFFSET 0) q;
		EXCEPTION WHEN division_by_zero THEN
			s := s || 'caught';
		END;
	END LOOP;
	RETURN s;
END \$\$;
CREATE FUNCTION all_of(q text) RETURNS text LANGUAGE plpgsql AS \$\$
DECLARE s text;
BEGIN
	EXECUTE 'SELECT count(*) || md5(string_agg(q::text, chr(10))) FROM (' || q || ' OFFSET 0) q' INTO s;
	RETURN s;
END \$\$;
SQL

# ------------------------------------------------------------------------
# Queries
# ------------------------------------------------------------------------

# numbers of rows near the capacity of a chunk for each row width, and near powers of two
my $chunk = $staging * 1024 * 1024 / 64;
$chunk = 65536 if $chunk < 65536;

sub some_rows
{
	my $edge = pick(0, 1, 2, (map { int(($chunk - 256) / $_) } 4, 8, 12, 16, 20), map { 2**$_ } 8 .. 14);
	my $n = pick($edge, $edge, int(10**rand 4.48)) + pick(-1, 0, 0, 1);
	return $n < 0 ? 0 : $n > $rows ? $rows : $n;
}

# total orders, because the stock Sort is not stable
my @orders = ('k', 'k DESC', 'w', 'w DESC', 'f, id', 'nk NULLS FIRST, k', 'nk DESC, w', 'few, id DESC', 'few, nk, f, k',
	'w, f, k, id', 'late', 'late DESC NULLS LAST', '-k', 'few DESC, w', 's, id', 'h, few, id DESC',
	'few, h DESC, s, id', 's DESC, w', 'g, id', 'g DESC, w', 'few, g NULLS FIRST, id');
# rows that have only key columns
my @only = ('k', 'nk', 'w', 'few', 'late', 'nk, k', 'w, k', 'k, few', 'id');

sub simple
{
	my $n = some_rows();
	my $order = pick(@orders);

	return "SELECT * FROM long ORDER BY k" . pick('', ' DESC') if rand() < 0.07;
	if (rand() < 0.3)
	{
		my $cols = pick(@only);
		return "SELECT $cols FROM t WHERE id <= $n ORDER BY "
			. join(', ', map { $_ . pick('', ' DESC', ' NULLS FIRST') } split /, /, $cols);
	}
	return 'SELECT ' . pick('*', 'id, k, f', 'id, pad', 'id, h') . " FROM t WHERE id <= $n ORDER BY $order";
}

sub quoted { return "'" . ($_[0] =~ s/'/''/gr) . "'" }

sub cursor
{
	my $scroll = rand() < 0.5;
	my $hold = rand() < 0.25;
	my $savepoint = rand() < 0.3;
	my $q = simple();
	my @sql = ('BEGIN');

	push @sql, 'SAVEPOINT a' if $savepoint;
	push @sql, 'DECLARE c ' . ($scroll ? 'SCROLL' : 'NO SCROLL') . ' CURSOR ' . ($hold ? 'WITH HOLD ' : '') . "FOR $q";
	push @sql, 'DECLARE d CURSOR FOR ' . simple(), 'FETCH 2 d' if rand() < 0.3;
	push @sql, pick('FETCH 3 c', 'MOVE 5000 c', 'FETCH 1 c', 'MOVE 100 c',
		$scroll ? ('FETCH LAST c', 'FETCH BACKWARD 2 c', 'FETCH ABSOLUTE 77 c', 'MOVE BACKWARD 1000 c') : 'FETCH 20 c')
		for 1 .. int rand 6;
	push @sql, 'SET LOCAL work_mem = ' . quoted(pick('64kB', '4MB')) if rand() < 0.2;
	if ($savepoint)
	{
		push @sql, 'ROLLBACK TO a' if rand() < 0.5;
	}
	elsif ($hold && rand() < 0.7)
	{
		push @sql, 'COMMIT', 'FETCH 3 c', 'MOVE ALL c', 'CLOSE c', 'BEGIN';
	}
	else
	{
		push @sql, pick('MOVE ALL c', 'FETCH 2 c', 'CLOSE c');
	}
	push @sql, pick('COMMIT', 'ROLLBACK'), 'CLOSE ALL';
	return @sql;
}

# Statements whose output does not depend on the sort that runs.
sub script
{
	my $kind = int rand 13;
	my $n = some_rows();

	return 'SELECT all_of(' . quoted(simple()) . ')' if $kind <= 2;
	return 'SELECT all_of(' . quoted(simple() . ' LIMIT ' . pick(1, 10, 5000) . ' OFFSET ' . pick(0, 7, 9000)) . ')'
		if $kind == 3;
	return cursor() if $kind <= 5;
	return "SELECT count(*), sum(s.id), max(s.f) FROM generate_series(1, 7) g, LATERAL ("
	  . "SELECT * FROM t WHERE t.few = g % 7 AND id <= $n ORDER BY " . pick('k', 'f, id') . ' OFFSET g) s'
	  if $kind == 6;
	return ('SET enable_hashjoin = off', 'SET enable_nestloop = off', 'SET enable_material = ' . pick('on', 'off'),
		pick("SELECT count(*), sum(a.id::int8 * b.id) FROM t a JOIN t b ON a.nk = b.nk AND a.few = b.few "
			  . "AND b.id % 3 = 0 WHERE a.id <= $n / 2",
			"SELECT count(*), sum(a.id::int8 * b.id) FROM t a JOIN t b ON a.k = b.k WHERE a.id <= $n",
			"SELECT count(*), sum(a.id::int8 * b.id) FROM t a FULL JOIN t b ON a.w = b.w AND a.k = b.k")) if $kind == 7;
	# several sorts in one query
	return "SELECT md5(string_agg(a || ' ' || b || ' ' || c, '')) FROM (SELECT row_number() OVER (ORDER BY k) a, "
	  . "rank() OVER (PARTITION BY nk ORDER BY w) b, sum(few) OVER (ORDER BY f, id ROWS 3 PRECEDING) c "
	  . "FROM t WHERE id <= $n ORDER BY w DESC OFFSET 0) q" if $kind == 8;
	return "SELECT sum(x.id), sum(x.n) FROM (" . join(' UNION ALL ',
		map { '(SELECT id, row_number() OVER () AS n FROM (SELECT id FROM t WHERE id <= ' . some_rows() . ' ORDER BY '
		. pick(@orders) . ' OFFSET 0) s)' } 1 .. 5) . ') x' if $kind == 9;
	return pick("SELECT by_loop($n)", "SELECT by_exception($n)",
		"SELECT count(*), md5(string_agg(q::text, '')) FROM (SELECT by_row($n) AS q LIMIT " . pick(1, 700, 20000)
		. ') s') if $kind == 10;
	return ('SET max_parallel_workers_per_gather = ' . pick(1, 2, 4), 'SELECT all_of(' . quoted(simple()) . ')')
		if $kind == 11;
	return pick("SELECT md5(gpusort_array(array_agg(k ORDER BY id))::text) FROM t WHERE id <= $n AND id > 0",
		"SELECT sum(1 / (id - $rows)) FROM (SELECT id FROM t ORDER BY k OFFSET 0) s",
		'SELECT sum(x) FROM (SELECT 1 / (id - 25000) AS x FROM t ORDER BY k OFFSET 0) s',
			'CREATE TEMP TABLE tt AS ' . simple()
			. '; SELECT count(*) || md5(string_agg(tt::text, \'\')) FROM tt; DROP TABLE tt');
}

my @faults = qw(memory_start memory_sort error_up error_sort error_down kill_up kill_sort kill_down);
my @hangs = qw(hang_up hang_sort hang_down);
my @rare = qw(stall freeze);
my @wrong = qw(corrupt corrupt_size corrupt_bit corrupt_place corrupt_count corrupt_late);
my @algorithms = ('gpu_radix') x 5;
push @algorithms, 'auto', 'auto', 'gpu_merge', 'gpu_bucket', 'gpu_counting', 'gpu_hp', 'gpu_hp0', 'gpu_hp1',
	'cpu_radix';

sub settings
{
	my ($fault_rate) = @_;
	my $fault = 'none';
	my $verify = pick('on', 'off', 'off');
	my $timeout = 0;

	if (rand() < $fault_rate)
	{
		$fault = pick(@faults, @faults, @hangs, @wrong);
		$fault = pick(@rare) if rand() < 0.04;
		$verify = 'on' if $fault =~ /corrupt/;
		$timeout = 20 + int rand 300 if $fault =~ /hang/;
	}
	return ($timeout, join '', map { "SET $_;\n" } "gpusort.device_fault = $fault", "gpusort.verify = $verify",
		'gpusort.algorithm = ' . pick(@algorithms),
		'work_mem = ' . quoted(pick('64kB', '64kB', '256kB', '1MB', '4MB', '64MB')),
			'gpusort.threads = ' . pick(1, 1, 2), "statement_timeout = $timeout");
}

# ------------------------------------------------------------------------
# Sessions
# ------------------------------------------------------------------------

# The differences between a script's outcome and the stock server's; an empty list if it is right.
sub differences
{
	my ($case, $timeout, $disturbed, $rc, $out, $err) = @_;
	my @allowed;

	return () if $out eq $case->{out} && $err eq $case->{err};
	push @allowed, qr/canceling statement due to statement timeout/ if $timeout;
	push @allowed, qr/canceling statement due to user request/ if $disturbed;
	push @allowed, qr/terminating connection (?:due to|because of)|server closed the connection|connection to server/,
	  qr/could not (?:send|receive) data|the database system is|connection not open|terminating background worker/
	  if $disturbed;
	return () if index($case->{out}, $out) == 0 && grep { $err =~ $_ } @allowed;
	return "status $rc, wanted\n$case->{out}\n$case->{err}\ngot\n$out\n$err";
}

# psql reads a file: a write to a psql that cannot connect would end the test.
sub psql_file
{
	my ($app, $sql) = @_;
	my $file = $node->basedir . "/script.$$";
	my ($out, $err) = ('', '');

	open my $f, '>', $file or die "$file: $!";
	print $f $sql;
	close $f;
	IPC::Run::run([ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d',
		$node->connstr('postgres') . " application_name=$app", '-f', $file ], '<', '/dev/null', '>', \$out, '2>',
		\$err);
	$err =~ s/^psql:\S+?:\d+: //mg;
	$err =~ s/^(?:DETAIL|HINT|CONTEXT|LINE \d+|SQL statement|SQL function|PL\/pgSQL|parallel worker)\b.*\n?//mg;
	return ($? >> 8, $out, $err);
}

sub run_case
{
	my ($case, $timeout, $set, $disturbed) = @_;

	return differences($case, $timeout, $disturbed, psql_file($disturbed ? 'victim' : 'steady', "$set\n$case->{sql}"));
}

# The stock server's output.
sub new_case
{
	my $case = { sql => join(";\n", script()) . ";\n" };

	(undef, @$case{qw(out err)}) = psql_file('stock',
		"SET gpusort.enable = off; SET gpusort.device = off;\n$case->{sql}");
	return $case;
}

sub dsm_files { return grep { /^mmap\./ } slurp_dir($node->data_dir . '/pg_dynshmem') }

sub report_case
{
	my ($case, $set, @wrong) = @_;
	diag "seed $seed\n$set\n$case->{sql}\n@wrong";
}

# ------------------------------------------------------------------------
# One session
# ------------------------------------------------------------------------
my @cases;
my $bad = 0;
my ($gpu, $fallbacks) = (0, 0);

sub count_sorts
{
	my ($sorts, $failed) = split /\|/, $node->safe_psql('postgres',
		"SELECT coalesce(sum(sorts), 0), coalesce(sum(fallbacks), 0) FROM gpusort_stat WHERE algorithm ~ 'gpu'");
	$gpu += $sorts;
	$fallbacks += $failed;
}

# at least one fault, whatever the random choices are
{
	my $sum = 'SELECT all_of(' . quoted('SELECT id, k FROM t WHERE id <= 5000 ORDER BY k') . ')';

	is($node->safe_psql('postgres', "SET gpusort.algorithm = gpu_radix; SET gpusort.device_fault = memory_start; $sum"),
		$node->safe_psql('postgres', "SET gpusort.enable = off; $sum"), 'one session: a fault');
}
for my $round (1 .. $rounds)
{
	# faults end the device process, and the pause before the next one grows
	if ($round % 3 == 0 && $node->safe_psql('postgres',
		"SELECT bool_and(state = 'ready') FROM gpusort_devices()") ne 't')
	{
		count_sorts();
		$node->restart;
		device_ready($node, "round $round");
	}
	my $case = new_case();
	my ($timeout, $set) = settings(0.35);
	my @wrong = run_case($case, $timeout, $set, 0);

	push @cases, $case;
	next unless @wrong;
	$bad++;
	report_case($case, $set, @wrong);
}
is($bad, 0, "one session: $rounds random scripts are right");
count_sorts();
cmp_ok($gpu, '>', $rounds / 20, "one session: $gpu sorts on the device");
cmp_ok($fallbacks, '>', 0, "one session: $fallbacks faults");
is(scalar(temp_files($node)), 0, 'one session: no file is left');
# the pause before the next process may be long
$node->restart;
device_ready($node, 'one session');
device_unused($node, 'one session');
my $dsm_files = () = dsm_files();

# ------------------------------------------------------------------------
# Many sessions, and a process that disturbs them
# ------------------------------------------------------------------------

# Starts a process that runs cases until it is stopped, and writes faults to a file.
sub client
{
	my ($name, $until) = @_;
	my $random = int rand 2**31;
	my $pid = fork() // die "fork: $!";

	return $pid if $pid;
	srand($random);
	open my $log, '>', $node->basedir . "/client.$name" or POSIX::_exit(2);
	$log->autoflush(1);
	eval {
		my $done = 0;
		while (time() < $until)
		{
			my $case = pick(@cases);
			my ($timeout, $set) = settings(0.04);
			my @wrong = run_case($case, $timeout, $set, 1);

			print $log "WRONG $set\n$case->{sql}\n@wrong\n" if @wrong;
			$done++;
		}
		print $log "done $done\n";
	};
	print $log "WRONG $@\n" if $@;
	POSIX::_exit(0);
}

# Cancels, terminates or kills for a while; the rate is the number of disturbances a second.
sub disturb
{
	my ($until, $rate) = @_;
	my %count;

	while (time() < $until)
	{
		my $what = pick(('cancel') x 6, 'terminate', 'kill');

		sleep rand(2 / $rate);
		$count{$what}++;
		# several backends may be ending at the same time
		$node->psql('postgres', "SELECT pg_${what}_backend(pid) FROM (SELECT pid FROM pg_stat_activity "
			. "WHERE application_name = 'victim' ORDER BY random() LIMIT 1) s", timeout => 60) if $what ne 'kill';
		if ($what eq 'kill')
		{
			my ($rc, $out) = $node->psql('postgres', 'SELECT max(process_pid) FROM gpusort_devices()');
			kill 'KILL', $out if $out =~ /^\d\d+$/;
		}
	}
	note join ', ', map { "$_ $count{$_}" } sort keys %count;
}

my $seconds = $rounds / 10;
for my $how ('go on', 'stop fast', 'stop immediate', 'crash')
{
	my $until = time() + ($how eq 'go on' ? $seconds : $seconds / 4);
	my @pids = map { client("$how.$_", $until) } 1 .. ($how eq 'go on' ? 6 : 4);

	if ($how eq 'go on')
	{
		disturb($until, 4);
	}
	else
	{
		sleep(($until - time()) * rand);
		$node->restart if $how eq 'stop fast';
		if ($how eq 'stop immediate')
		{
			$node->stop('immediate');
			$node->start;
		}
		if ($how eq 'crash')
		{
			my $offset = -s $node->logfile;
			my $pid = $node->safe_psql('postgres',
				"SELECT pid FROM pg_stat_activity WHERE application_name = 'victim' LIMIT 1");

			# any of these processes; it may have ended already
			if ($pid =~ /^\d\d+$/ && (eval { slurp_file("/proc/$pid/cmdline") } // '') =~ /^postgres: / && kill 'KILL',
				$pid)
			{
				eval { $node->wait_for_log(qr/all server processes terminated; reinitializing|exited with/, $offset) };
				server_answers($node);
			}
		}
	}
	waitpid $_, 0 for @pids;
	my @logs = map { slurp_file($node->basedir . "/client.$how.$_") } 1 .. @pids;
	my @wrong = grep { /WRONG/ || !/^done/m } @logs;
	my $done = 0;
	$done += /^done (\d+)/m ? $1 : 0 for @logs;
	is(scalar(@wrong), 0, "many sessions, $how: $done scripts are right") or diag "seed $seed\n@wrong";
	ok($node->poll_query_until('postgres',
		"SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = 'victim' OR backend_type = 'parallel "
		. "worker'"), "$how: no session or worker is left");
	# the pause after processes that ended without a finished job may be long
	ok($node->poll_query_until('postgres',
		'SELECT bool_and(coalesce(memory_used, 0) = 0 AND coalesce(jobs, 0) = 0 AND free_jobs = 64 AND '
		. 'staging_total = staging_free AND waiting = 0) FROM gpusort_devices()'),
		"$how: slots, staging and device memory are free") if $how eq 'go on';
	is(scalar(temp_files($node)), 0, "$how: no file is left");
	is(scalar(dsm_files()), $dsm_files, "$how: no shared memory is left");
	$node->restart;
	device_ready($node, $how);
	device_unused($node, $how);
}

# lines that terminated sessions and a killed device process write are expected
my @odd = grep { /WARNING:(?!  terminating connection)|PANIC:|TRAP:|was terminated by signal (?!9)|leak/ } split /\n/,
	slurp_file($node->logfile);
is(scalar(@odd), 0, 'the log has no unexpected line') or diag join "\n", @odd[ 0 .. ($#odd < 20 ? $#odd : 20) ];
$node->stop;
done_testing();
