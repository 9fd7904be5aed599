# index_workers.pl: index builds by several processes.
#
# Pages equal PostgreSQL's with any number of workers.  Uniqueness across workers, concurrent writes, fewer workers than
# planned, and errors, cancels and ends of workers.  GPUSORT_SEED repeats a run.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GpuSortTest;
use IndexBuilds;
use PostgreSQL::Test::Utils;
use Test::More;

my $seed = seed_random();

my $node = index_node('index_workers', conf => "max_worker_processes = 24\nmax_parallel_workers = 16\n"
	. "min_parallel_table_scan_size = 0\nfsync = off\nmaintenance_work_mem = 256MB\n");
my $workers = 'SET max_parallel_maintenance_workers';

# Builds each definition by PostgreSQL, and by gpusort with exactly this number of workers, of $planned.
sub check_workers
{
	my ($n, $name, $prepare, $definitions, $planned) = @_;

	$planned //= $n;
	$node->safe_psql('postgres', 'SELECT gpusort_stat_reset()');
	check_pairs($node, "$n workers: $name", "$workers = $planned; $prepare", $definitions) or diag "seed $seed";
	is($node->safe_psql('postgres', "SELECT sum(workers) FROM gpusort_index_builds WHERE route <> 'stock'"),
		$n * @$definitions, "$n workers: $name: launched");
}

# --- every kind of key: duplicates across workers, NULLs, HOT chains, dead rows, toasted values
my ($icu) = $node->psql('postgres', 'CREATE COLLATION rules (provider = icu, locale = \'en-US\')');
my $rules = $icu == 0 ? 'rules' : '"C"';
$node->safe_psql('postgres', <<"SQL");
CREATE TABLE t (id int, k bigint, few int, s text, n numeric, u uuid, at timestamptz, f float8, v int[], wide text)
	WITH (fillfactor = 80, parallel_workers = 8);
INSERT INTO t SELECT i, mix(i), CASE WHEN i % 11 > 0 THEN mix(i) % 17 END, 'customer ' || mix(i) % 3000,
	(mix(i) % 100000) / 100.0, md5((mix(i) % 20000)::text)::uuid,
	'2020-01-01Z'::timestamptz + mix(i) % 1000 * '1 s'::interval,
	(ARRAY['NaN', '0', '-0', mix(i)::text])[1 + i % 4]::float8, ARRAY[i % 5, NULL, i % 7],
	CASE WHEN i % 500 = 0 THEN repeat('wide', 900) || i % 3 ELSE 'w' || i % 100 END
FROM generate_series(1, 40000) i;
UPDATE t SET at = at WHERE id % 9 = 0;
UPDATE t SET at = at WHERE id % 27 = 0;
DELETE FROM t WHERE id % 31 = 0;
BEGIN;
INSERT INTO t SELECT * FROM t WHERE id % 5 = 0;
ROLLBACK;
INSERT INTO t SELECT id + 50000, k, few, s, n, u, at, f, v, wide FROM t WHERE id % 7 = 0;
ANALYZE t;
SQL
my @definitions = (
	'CREATE INDEX NAME ON t (k)',
	'CREATE INDEX NAME ON t (few)',
	'CREATE INDEX NAME ON t (few DESC, k) WITH (deduplicate_items = off)',
	'CREATE INDEX NAME ON t (few NULLS FIRST) INCLUDE (id)',
	'CREATE INDEX NAME ON t (s COLLATE "C")',
	"CREATE INDEX NAME ON t (s COLLATE $rules DESC, few)",
	'CREATE INDEX NAME ON t (n) WITH (fillfactor = 50)',
	'CREATE INDEX NAME ON t (u)',
	'CREATE INDEX NAME ON t (at, f)',
	'CREATE INDEX NAME ON t (f)',
	'CREATE INDEX NAME ON t (v, few)',
	'CREATE INDEX NAME ON t (wide)',
	'CREATE INDEX NAME ON t (few, wide, s COLLATE "C") INCLUDE (n)',
	'CREATE INDEX NAME ON t ((k % 100), lower(s))',
	'CREATE INDEX NAME ON t (k) WHERE few = 3',
	'CREATE UNIQUE INDEX NAME ON t (id)',
	'CREATE UNIQUE INDEX NAME ON t (n, id DESC)',
	'CREATE UNIQUE INDEX NAME ON t ((id * 2))',
	'ALTER TABLE t ADD CONSTRAINT NAME UNIQUE (id, k)',
	'CREATE INDEX NAME ON t ((0))');
for my $n (1, 2, 4, 7)
{
	my @some = map { $definitions[ rand @definitions ] } 1 .. 6;

	@some = @definitions if $n == 2 && !$ENV{GPUSORT_QUICK};
	check_workers($n, 'in memory', '', \@some);
}
my @few = @definitions[ 0, 1, 4, 5, 13, 15 ];
check_workers($_, 'many runs', 'SET gpusort.run_rows = ' . (500 + int rand 2000), \@few) for 2, 4;
is($node->safe_psql('postgres', 'SELECT sum(spills) FROM gpusort_index_builds'), scalar @few, 'spilled');
is(scalar(temp_files($node)), 0, 'no file is left');
check_workers(2, 'threads', 'SET gpusort.threads = 4', [ $few[0], $few[2] ]);

# --- fewer workers than planned, none, and workers that begin when no block is left
check_workers(0, 'of 4', 'SET max_parallel_workers = 0', [ $few[1], $few[4] ], 4);
check_workers(1, 'of 4', 'SET max_parallel_workers = 1', [ $few[1], $few[4] ], 4);
check_workers(3, 'of 5', 'SET max_parallel_workers = 3', [ $few[1], $few[4] ], 5);
$node->safe_psql('postgres', 'CREATE TABLE small (id int, few int) WITH (parallel_workers = 4); '
	. 'INSERT INTO small SELECT i, i % 3 FROM generate_series(1, 300) i');
my @small = map { s/\bt\b/small/r } @definitions[ 1, 15 ];
check_workers(4, 'a small table', '', \@small);
check_workers(4, 'no live row', 'DELETE FROM small', \@small);

# --- rows of the same transaction; an old snapshot, for which HOT chains are broken
my $make = 'DROP TABLE IF EXISTS s; CREATE TABLE s (id int, few int, k int) WITH (fillfactor = 60, '
  . "parallel_workers = 4); INSERT INTO s SELECT i, mix(i) % 50, mix(i) % 1000 FROM generate_series(1, 8000) i";
my @visible = (
	'CREATE INDEX NAME ON s (few)',
	'CREATE INDEX NAME ON s ((few % 5), id)',
	'CREATE UNIQUE INDEX NAME ON s (id) WHERE id > 0');
for my $n (2, 4)
{
	check_workers($n, 'own transaction', "$make; BEGIN; DELETE FROM s WHERE id % 3 = 0; "
		. 'INSERT INTO s SELECT id + 10000, few FROM s WHERE id % 5 = 0; SAVEPOINT a; '
		. 'UPDATE s SET few = few + 1 WHERE id % 7 = 0; ROLLBACK TO a; '
		. 'UPDATE s SET few = -few WHERE id % 11 = 0', \@visible);
}
my $old = new_session($node);
$node->safe_psql('postgres', $make);
$old->query('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM s');
check_workers(2, 'an old snapshot', 'UPDATE s SET few = few + 100 WHERE id % 3 = 0; DELETE FROM s WHERE id % 10 = 0; '
	. 'VACUUM s', \@visible);
like($node->safe_psql('postgres', "SELECT string_agg(DISTINCT indcheckxmin::text, ' ') FROM pg_index WHERE indrelid = "
	. "'s'::regclass"), qr/^true$/, 'chains were broken');
$old->quit;

# --- statements, with the number of workers of each build
sub workers_of
{
	my ($sql) = @_;
	my ($rc, $out, $err) = built($node, "$workers = 2; $sql");

	return "$rc: " . join ' ', sort map { my ($i, $w) = @$_; "$i $w" }
	  map { [/gpusort built index "(.*?)": route .*?, (\d+) workers/] } grep { /gpusort built/ } split /\n/, $err;
}
$node->safe_psql('postgres', <<'SQL');
CREATE TABLE parted (id int, k bigint) PARTITION BY RANGE (id);
CREATE TABLE parted_a PARTITION OF parted FOR VALUES FROM (1) TO (20000) WITH (parallel_workers = 2);
CREATE TABLE parted_b PARTITION OF parted FOR VALUES FROM (20000) TO (50000) WITH (parallel_workers = 2);
INSERT INTO parted SELECT id, k FROM t WHERE id < 50000;
SQL
is(workers_of("$make; CREATE INDEX s1 ON s (k)"), '0: s1 2', 'CREATE INDEX');
is(workers_of('CREATE INDEX CONCURRENTLY s2 ON s (few, k)'), '0: s2 2', 'CREATE INDEX CONCURRENTLY');
is(workers_of('REINDEX TABLE s'), '0: s1 2 s2 2', 'REINDEX');
is(workers_of('REINDEX TABLE CONCURRENTLY s'), '0: s1_ccnew 2 s2_ccnew 2', 'REINDEX CONCURRENTLY');
is(workers_of('VACUUM FULL s'), '0: s1 2 s2 2', 'VACUUM FULL');
is(workers_of('CREATE INDEX parted_k ON parted (k)'), '0: parted_a_k_idx 2 parted_b_k_idx 2', 'partitions');
is(workers_of('ALTER TABLE parted ADD PRIMARY KEY (id)'), '0: parted_a_pkey 2 parted_b_pkey 2', 'primary key');
is(workers_of('CREATE TEMP TABLE p AS SELECT * FROM s; CREATE INDEX p1 ON p (k)'), '0: p1 0', 'a temporary table');
is($node->safe_psql('postgres', "SELECT check_indexes('s'), check_indexes('parted_a'), check_indexes('parted_b')"),
	'2|2|2', 'amcheck');

# --- uniqueness: both rows with one process, or with two
$node->safe_psql('postgres', "$make; INSERT INTO s SELECT 1, 0 FROM generate_series(1, 1)");
for my $case ([ 'id', '(1)' ], [ 'few', '(\d+)' ], [ '(few * 2)', '(\d+)' ])
{
	my ($key, $value) = @$case;

	for my $n (2, 4)
	{
		my ($rc, $out, $err, @built) = built($node, "$workers = $n; CREATE UNIQUE INDEX v1 ON s (($key))");

		like($err, qr/could not create unique index "v1"\nDETAIL:  Key .*=\($value\) is duplicated/,
			"unique $key, $n workers: message");
		is("@{ $built[0] }", 'v1 equal keys', "unique $key, $n workers: route");
	}
}

# the last rows violate it, when workers have written pages
for my $n (1, 4)
{
	my ($rc, $out, $err, @built) = built($node, "$workers = $n; BEGIN; CREATE TABLE late WITH (parallel_workers = 4) "
		. 'AS SELECT id FROM t; INSERT INTO late SELECT max(id) FROM t; CREATE UNIQUE INDEX v1 ON late (id)');

	like($err, qr/could not create unique index "v1"\nDETAIL:  Key \(id\)=\(\d+\) is duplicated/,
		"the last key, $n workers: message");
	is("@{ $built[0] }", 'v1 equal keys', "the last key, $n workers: route");
}

# --- another session writes while workers read the table
my $writer = new_session($node);
create_churn($node, 6000);
$node->safe_psql('postgres', 'ALTER TABLE churned SET (parallel_workers = 4)');
begin_query($writer, 'CALL churn()');
for my $n (2, 4, 2)
{
	like(workers_of("$workers = $n; CREATE INDEX CONCURRENTLY w$n ON churned (k, s); CREATE UNIQUE INDEX CONCURRENTLY "
		. "u$n ON churned ((id + 0)); REINDEX INDEX CONCURRENTLY w$n"), qr/^0: u$n $n w$n $n w${n}_ccnew $n$/,
		"$n workers: concurrently");
	is($node->safe_psql('postgres', "SELECT count(bt_index_parent_check(i, true, true)::text) FROM "
		. "unnest('{w$n,u$n}'::regclass[]) i; DROP INDEX w$n, u$n"), '2', "$n workers: amcheck");
}
$node->safe_psql('postgres', 'INSERT INTO stop_churn VALUES (1)');
is($writer->query('SELECT 1'), '1', 'the writer ends');
$writer->quit;

# --- errors, cancels and ends of participants.  All participants wait in stops(), or those of a kind fail there; so no
# process takes all blocks before others begin.
$node->safe_psql('postgres', <<'SQL');
CREATE TABLE shut (x int);
CREATE FUNCTION waits() RETURNS void VOLATILE PARALLEL SAFE LANGUAGE plpgsql AS $$
BEGIN
	WHILE EXISTS (SELECT FROM public.shut) LOOP
		PERFORM pg_sleep(0.01);
	END LOOP;
END $$;
CREATE FUNCTION stops(n int, whose text, how text) RETURNS int IMMUTABLE PARALLEL SAFE LANGUAGE plpgsql AS $$
BEGIN
	IF n % 50 = 0 THEN
		IF how = 'fails' AND (current_setting('my.pid') = pg_backend_pid()::text) = (whose = 'leader') THEN
			RAISE EXCEPTION 'an error in the %', whose;
		END IF;
		PERFORM public.waits();
	END IF;
	RETURN n;
END $$;
SQL
$node->safe_psql('postgres', $make);
my $session = new_session($node);
my $processes = "FROM pg_stat_activity WHERE backend_type = 'parallel worker'";

sub begin_session
{
	$session = new_session($node);
	$session->query("SET client_min_messages = debug1; SELECT set_config('my.pid', pg_backend_pid()::text, false)");
}

sub nothing_left
{
	my ($name) = @_;

	is($node->safe_psql('postgres', "SELECT count(*) FROM pg_class WHERE relname = 'g1'"), '0', "$name: no index");
	ok($node->poll_query_until('postgres', "SELECT count(*) = 0 $processes"), "$name: no worker");
	is(scalar(temp_files($node)), 0, "$name: no file");
}
begin_session();
for my $n (2, 4)
{
	$session->query("$workers = $n");
	$node->safe_psql('postgres', 'INSERT INTO shut VALUES (1)');
	for my $whose ($n < 4 ? ('leader', 'workers') : 'workers')
	{
		$session->{stderr} = '';
		$session->query("CREATE INDEX g1 ON s (stops(id, '$whose', 'fails'))");
		like($session->{stderr}, qr/ERROR:  an error in the $whose/, "$n workers: error in the $whose");
		unlike($session->{stderr}, qr/gpusort left/, "$n workers, error in the $whose: gpusort ran the build");
		session_ok($session, "$n workers: error in the $whose");
		nothing_left("$n workers: error in the $whose");
	}
	$node->safe_psql('postgres', 'TRUNCATE shut');
	for my $case ([ 'leader', 'cancel', 'backend_type = $$client backend$$ AND pid = PID' ],
		[ 'workers', 'cancel', 'pid = PID' ], [ 'workers', 'cancel', 'leader_pid = PID' ],
		[ 'workers', 'terminate', 'leader_pid = PID' ])
	{
		my ($whose, $how, $which) = @$case;
		my $name = "$n workers: the $whose wait, $how of $which";
		my $pid = $session->query('SELECT pg_backend_pid()');

		next if $n == 4 && $whose eq 'leader';
		$node->safe_psql('postgres', 'INSERT INTO shut VALUES (1)');
		$session->{stderr} = '';
		begin_query($session, "CREATE INDEX g1 ON s (stops(id, '$whose', 'waits'))");
		ok($node->poll_query_until('postgres', "SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event = 'PgSleep' "
			. "AND " . ($whose eq 'leader' ? 'pid' : 'leader_pid') . " = $pid"), "$name: reached");
		like($node->safe_psql('postgres', "SELECT phase ~ 'scanning', blocks_total = pg_relation_size('s') / "
			. "current_setting('block_size')::int, blocks_done <= blocks_total, (SELECT count(*) $processes) FROM "
			. "pg_stat_progress_create_index WHERE pid = $pid"), qr/^t\|t\|t\|[1-$n]$/, "$name: progress");
		$node->safe_psql('postgres', "SELECT pg_${how}_backend(pid) FROM pg_stat_activity WHERE "
			. ($which =~ s/PID/$pid/r) . ' ORDER BY pid LIMIT 1');
		$session->query('SELECT 1');
		like($session->{stderr}, qr/ERROR:  canceling statement|terminating|lost connection to parallel worker/,
			"$name: the statement ends");
		unlike($session->{stderr}, qr/gpusort (?:left|built)/, "$name: gpusort ran the build");
		$node->safe_psql('postgres', 'TRUNCATE shut');
		session_ok($session, $name);
		nothing_left($name);
	}
}
for my $ms (map { 1 + 7 * $_ } 0 .. ($ENV{GPUSORT_QUICK} ? 4 : 16))
{
	$session->query("$workers = " . pick(2, 4));
	build_times_out($session, 'g1', 'CREATE INDEX g1 ON t (s, k)', $ms);
}
nothing_left('timeouts');
# an error in a worker that a block of PL/pgSQL catches; the transaction goes on
$node->safe_psql('postgres', 'INSERT INTO shut VALUES (1)');
$session->{stderr} = '';
$session->query("DO \$\$ BEGIN BEGIN CREATE INDEX g1 ON s (stops(id, 'workers', 'fails')); "
	. "EXCEPTION WHEN OTHERS THEN NULL; END; CREATE INDEX g2 ON s (id, few); END \$\$");
like($session->{stderr}, qr/gpusort built index "g2": route \w+ by pages, [24] workers/, 'after a caught error');
is($node->safe_psql('postgres', "SELECT check_indexes('s'); DROP INDEX g2"), '1', 'after a caught error: amcheck');
nothing_left('a caught error');
$node->safe_psql('postgres', 'TRUNCATE shut');
$session->quit;
$node->stop;
unlike(slurp_file($node->logfile), qr/WARNING|TRAP|PANIC|terminated by signal/, 'the log has no warning or crash');

# --- workers that begin late, when the leader has taken all blocks; and one that is killed
$node->append_conf('postgresql.conf', "post_auth_delay = 1\nrestart_after_crash = on\n");
$node->start;
check_workers(2, 'late', '', [ $few[1], $few[3] ]);
$node->append_conf('postgresql.conf', "post_auth_delay = 0\n");
$node->restart;
begin_session();
$node->safe_psql('postgres', 'INSERT INTO shut VALUES (1)');
begin_query($session, "$workers = 2; CREATE INDEX g1 ON s (stops(id, 'workers', 'waits'))");
my $killed = 'SELECT pid ' . $processes . " AND wait_event = 'PgSleep' LIMIT 1";
ok($node->poll_query_until('postgres', "SELECT EXISTS ($killed)"), 'workers wait');
backend_crashes($node, $node->safe_psql('postgres', $killed), 'a killed worker');
nothing_left('a killed worker');
is(workers_of('CREATE INDEX g1 ON s (id)'), '0: g1 2', 'after the restart');
$node->stop;

# --- a small /dev/shm: fewer workers than planned or none, no error, and the same pages.  Below 3 MB there is no room
# for the server's own statistics.
for ([ '5M', 1, 4 * @few - 1 ], [ '3M', 0, scalar @few ])
{
	my ($size, $least, $most) = @$_;

  SKIP:
	{
		skip 'no private name space', 4 unless start_in_small_shm($node, $size);
		$node->safe_psql('postgres', 'SELECT gpusort_stat_reset()');
		check_pairs($node, "/dev/shm of $size: pages", "$workers = 4", \@few) or diag "seed $seed";
		my $launched = $node->safe_psql('postgres',
			"SELECT sum(workers) FROM gpusort_index_builds WHERE route <> 'stock'");
		cmp_ok($launched, '>=', $least, "/dev/shm of $size: workers of all builds, at least");
		cmp_ok($launched, '<=', $most, "/dev/shm of $size: workers of all builds, at most");
		my ($rc, $out, $err) = $node->psql('postgres', "$workers = 4; CREATE INDEX CONCURRENTLY g3 ON t (k, id); "
			. 'DROP INDEX g3');
		unlike($err, qr/ERROR/, "/dev/shm of $size: concurrently");
		stop_in_small_shm($node);
	}
}
done_testing();
