# memory.pl: the memory of a backend that sorts.
#
# A sort reserves memory for the rows that come, not for the number that the planner expects. For later sorts the
# process keeps at most the current work_mem. A merge of long rows takes about the memory of a stock Sort. Measured by
# /proc/PID/status; page faults are counted where prctl can switch huge pages off.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GpuSortTest;
use PostgreSQL::Test::Utils;
use POSIX ();
use Test::More;

# page faults are counted with small pages: switches huge pages off for this process and its children
# (PR_SET_THP_DISABLE)
my %prctl = (x86_64 => 157, aarch64 => 167);
my $machine = (POSIX::uname())[4];
my $small_pages = defined $prctl{$machine} && syscall($prctl{$machine}, 41, 1, 0, 0, 0) == 0;

my $node = new_node('memory', conf => "gpusort.device = off\n");

# functions that return few rows where the planner expects many
for my $rows (10, 10_000, 1_000_000, 1_000_000_000)
{
	$node->safe_psql('postgres', <<SQL);
CREATE FUNCTION f$rows(n int, nulls bool) RETURNS TABLE (k int8, id int, t text) LANGUAGE plpgsql ROWS $rows AS
\$\$ BEGIN RETURN QUERY SELECT CASE WHEN nulls AND i % 2 = 0 THEN NULL ELSE mix(i) END, i, 'x' || i
	FROM generate_series(1, n) i; END \$\$;
SQL
}

# 20 MB of address space allow for memory that is not the sort's
my %query = (
	rows => "SELECT k, id, t FROM f%d(%d, %s) ORDER BY k NULLS FIRST, id",
	'keys only' => "SELECT k FROM (SELECT k FROM f%d(%d, %s) OFFSET 0) s ORDER BY k");
for my $rows (10, 10_000, 1_000_000, 1_000_000_000)
{
	for my $kind (sort keys %query)
	{
		my $s = new_session($node);
		my $pid = $s->query('SELECT pg_backend_pid()');
		$s->query("SET work_mem = '4GB'");
		$s->query('SELECT must_be_same($$' . sprintf($query{$kind}, 10, 3, 'true') . '$$)');
		my ($size, $rss) = (memory_of($pid, 'VmPeak'), memory_of($pid, 'VmHWM'));
		for my $n (1, 3, 100)
		{
			for my $nulls ('false', 'true')
			{
				$s->query('SELECT must_be_same($$' . sprintf($query{$kind}, $rows, $n, $nulls) . '$$)');
			}
		}
		is($s->{stderr}, '', "$kind, $rows rows expected, few come: right");
		my $grown = memory_of($pid, 'VmPeak') - $size;
		my $touched = memory_of($pid, 'VmHWM') - $rss;
		note "address space +$grown kB, resident +$touched kB";
		cmp_ok($grown, '<', 20_000, "$kind, $rows rows expected, few come: address space");
		cmp_ok($touched, '<', 4_000, "$kind, $rows rows expected, few come: memory");
		$s->quit;
	}
}

# under a limit of the address space
SKIP:
{
	skip 'no prlimit', 2 unless grep { -x "$_/prlimit" } split /:/, $ENV{PATH};

	my $s = new_session($node);
	my $pid = $s->query('SELECT pg_backend_pid()');
	$s->query("SET work_mem = '4GB'; SELECT must_be_same('SELECT k, id FROM f10(5, true) ORDER BY k, id')");
	my $limit = (memory_of($pid, 'VmSize') + 50_000) * 1024;
	system("prlimit --pid=$pid --as=$limit:unlimited") == 0 or die 'prlimit';
	is($s->query('SELECT count(*) FROM (SELECT k, id FROM f1000000000(3, true) ORDER BY k OFFSET 0) s'), '3',
		'a small sort in a small address space');
	is($s->{stderr}, '', 'a small sort in a small address space: no error');
	$s->quit;
}

# memory that is kept for later sorts is at most work_mem, also after work_mem was lowered
$node->safe_psql('postgres', "CREATE TABLE big AS SELECT i AS id, mix(i) AS k FROM generate_series(1, 700000) i; "
	. "ANALYZE big");
my $s = new_session($node);
my $pid = $s->query('SELECT pg_backend_pid()');
$s->query("SELECT count(*) FROM (SELECT * FROM big OFFSET 0) s; SELECT count(*) FROM (SELECT k FROM big WHERE id < 10 "
	. "ORDER BY k OFFSET 0) s");
my $before = memory_of($pid, 'VmSize');
$s->query("SET work_mem = '256MB'; SELECT count(*) FROM (SELECT * FROM big ORDER BY k OFFSET 0) s");
my $kept = memory_of($pid, 'VmSize') - $before;
cmp_ok($kept, '>', 20_000, "$kept kB are kept for the next sort");
cmp_ok($kept, '<', 262_144 + 20_000, 'no more than work_mem');
$s->query("SET work_mem = '8MB'; SELECT count(*) FROM (SELECT k FROM big WHERE id < 10 ORDER BY k OFFSET 0) s");
$kept = memory_of($pid, 'VmSize') - $before;
cmp_ok($kept, '<', 8192 + 4096, "work_mem is lowered: $kept kB after the next sort, however small");
$s->query("SELECT count(*) FROM (SELECT * FROM big ORDER BY k OFFSET 0) s");
$kept = memory_of($pid, 'VmSize') - $before;
cmp_ok($kept, '<', 8192 + 4096, "work_mem is lowered: $kept kB after a large sort");

# at the end of a transaction no more than the session's own work_mem, without another sort
my $sort = 'SELECT count(*) FROM (SELECT * FROM big ORDER BY k OFFSET 0) s';
for my $case (
	[ 'SET LOCAL', "BEGIN; SET LOCAL work_mem = '256MB'; $sort;", 'COMMIT' ],
	[ 'ROLLBACK', "BEGIN; SET work_mem = '256MB'; $sort;", 'ROLLBACK' ],
	[ 'an error', "BEGIN; SET LOCAL work_mem = '256MB'; $sort;", 'SELECT 1 / 0; ROLLBACK' ],
	[ 'RESET', "SET work_mem = '256MB'; $sort;", "SET work_mem = '8MB'" ],
	[ 'a function\'s setting', 'SELECT 1;', "SELECT sorts_much()" ],
	[ 'DISCARD ALL', "SET work_mem = '256MB'; $sort;", 'DISCARD ALL' ])
{
	my ($name, $sorts, $end) = @$case;

	$s->query("SET work_mem = '8MB'; CREATE OR REPLACE FUNCTION sorts_much() RETURNS bigint LANGUAGE sql "
		. "SET work_mem = '256MB' AS '$sort'");
	$s->query($sorts);
	cmp_ok(memory_of($pid, 'VmSize') - $before, '>', 20_000, "$name: memory is kept before") if $sorts =~ /FROM/;
	$s->query($end);
	$s->{stderr} = '';
	$kept = memory_of($pid, 'VmSize') - $before;
	cmp_ok($kept, '<', ($name eq 'DISCARD ALL' ? 0 : 8192) + 4096, "$name: $kept kB are kept after the transaction");
}
# DISCARD ALL keeps nothing, however large work_mem is
$s->query("ALTER ROLE CURRENT_USER SET work_mem = '256MB'");
$s->quit;
$s = new_session($node);
$pid = $s->query('SELECT pg_backend_pid()');
$s->query('SELECT count(*) FROM (SELECT * FROM big OFFSET 0) s');
$before = memory_of($pid, 'VmSize');
$s->query("$sort; SELECT 1");
cmp_ok(memory_of($pid, 'VmSize') - $before, '>', 20_000, 'memory is kept within the same work_mem');
$s->query('DISCARD ALL');
cmp_ok(memory_of($pid, 'VmSize') - $before, '<', 4096, 'DISCARD ALL: nothing is kept');
$s->query('ALTER ROLE CURRENT_USER RESET work_mem');
$s->quit;

# groups, joins and numbered rows: as much memory as PostgreSQL's nodes above a Sort take
for my $case (
	[ 'DISTINCT, all values differ', 'SELECT DISTINCT k, id FROM big', 'GpuSort' ],
	[ 'DISTINCT, few values', 'SELECT DISTINCT k % 100 FROM big', 'GpuSort' ],
	[ 'DISTINCT ON', 'SELECT DISTINCT ON (k / 4) k, id FROM big ORDER BY k / 4, id DESC', 'GpuSort' ],
	[ 'groups', 'SELECT k, count(*), max(id) FROM big GROUP BY k', 'GpuSort Aggregate,GpuSort' ],
	[ 'a median of each group', 'SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY id) FROM big GROUP BY k % 2',
		'GpuSort Aggregate,GpuSort' ],
	[ 'UNION', 'SELECT k FROM big UNION SELECT -k FROM big', 'GpuSort' ],
	[ 'ntile', 'SELECT ntile(4) OVER (PARTITION BY k % 2 ORDER BY id) FROM big', 'GpuSort Window,GpuSort' ],
	[ 'merge join', 'SELECT a.id, b.id FROM big a JOIN big b USING (k)', 'GpuSort Join,GpuSort,GpuSort' ])
{
	my ($name, $sql, $nodes) = @$case;
	my (%peak, %rows);

	for my $enable ('off', 'on')
	{
		my $s = new_session($node);
		my $pid = $s->query('SELECT pg_backend_pid()');
		$s->query("SET work_mem = '1MB'; SET gpusort.enable = $enable; SET enable_hashagg = off; "
			. 'SET enable_hashjoin = off; SET enable_nestloop = off; SET enable_material = off');
		my $plan = $s->query("EXPLAIN (COSTS OFF) $sql");
		my $found = join ',', $plan =~ /(Unique|GpuSort(?: Aggregate| Window| Join)?(?=\)))/g;
		is($found, $nodes, "$name: the nodes") if $enable eq 'on';
		unlike($plan, qr/GpuSort/, "$name: the stock plan") if $enable eq 'off';
		$rows{$enable} = $s->query("SELECT count(s) FROM ($sql OFFSET 0) s");
		$peak{$enable} = memory_of($pid, 'VmHWM');
		is($s->{stderr}, '', "$name, enable = $enable: no error");
		$s->quit;
	}
	is($rows{on}, $rows{off}, "$name: the number of rows");
	note "$name: $peak{on} kB, of stock nodes $peak{off} kB";
	cmp_ok($peak{on}, '<', $peak{off} + 6000, "$name: memory as stock nodes take");
}

# a sort reuses the memory of the previous one
SKIP:
{
	skip 'page faults of small pages cannot be counted', 1 unless $small_pages;

	$node->safe_psql('postgres', 'CREATE TABLE longs AS SELECT mix(i) << 30 AS a, mix(i * 3) AS b '
		  . 'FROM generate_series(1, 1000000) i; VACUUM ANALYZE longs');
	my $s = new_session($node);
	my $pid = $s->query('SELECT pg_backend_pid()');
	my $faults = sub { return (split ' ', slurp_file("/proc/$pid/stat"))[9] };
	my $least;
	$s->query("SET work_mem = '1GB'; SET gpusort.threads = 1");
	for my $run (1 .. 8)
	{
		my $start = $faults->();
		$s->query('SELECT count(*) FROM (SELECT * FROM longs ORDER BY a, b OFFSET 0) s');
		my $new = $faults->() - $start;
		# under memory pressure the kernel may have taken pages back
		$least = $new if $run > 3 && (!defined $least || $new < $least);
	}
	cmp_ok($least, '<', 1000, "a sort of 60 MB, once more: $least pages are new");
	$s->quit;
}

# each third execution has less work_mem than the other ones
is($node->safe_psql('postgres', <<SQL), 't', 'work_mem changes between the sorts of one node');
SET work_mem = '32MB';
SELECT bool_and(s.a = (SELECT array_agg(mix(j) ORDER BY mix(j)) FROM generate_series(1, 4000 + i) j))
FROM generate_series(1, 8) i, set_config('work_mem', CASE WHEN i % 3 = 0 THEN '64kB' ELSE '32MB' END, false),
	LATERAL (SELECT array_agg(k) AS a FROM (SELECT k, id FROM big WHERE id <= 4000 + i ORDER BY k OFFSET 0) x) s;
SQL

# Long rows: a merge takes about the memory of a stock Sort, which depends on the number of runs merged at once.
# The values use 20 characters in turn, because the planner would fold constant values.
my $long = "repeat(chr(64 + i %% 20), %s) AS t FROM generate_series(1, %d) i";
for my $case (
	[ 'rows of 20 MB', '4MB', sprintf("SELECT mix(i) AS k, $long ORDER BY k", '20000000', 30) ],
	[ 'rows of 5 MB', '4MB', sprintf("SELECT mix(i) AS k, $long ORDER BY k DESC", '5000000', 60) ],
	[ 'rows of 300 kB', '4MB', sprintf("SELECT mix(i) AS k, $long ORDER BY k", '300000', 600) ],
	[ 'a long row among many', '4MB', sprintf("SELECT mix(i) AS k, $long ORDER BY k",
		'CASE WHEN i % 500 = 0 THEN 8000000 ELSE 100 END', 10000) ],
	[ 'a row of ten times work_mem', '4MB', sprintf("SELECT mix(i) AS k, $long ORDER BY k", '40000000', 2) ],
	[ 'the first of rows of 8 MB', '4MB', sprintf("SELECT mix(i) AS k, $long ORDER BY k LIMIT 3", '8000000', 40) ],
	[ 'the first by a comparator', '1GB',
		sprintf("SELECT ARRAY[1, -i] AS k, $long ORDER BY k LIMIT 3", '5000000', 60) ],
	[ 'the first of rows of 20 MB', '256MB', sprintf("SELECT mix(i) AS k, $long ORDER BY k LIMIT 3", '20000000', 12) ])
{
	my ($name, $mem, $sql) = @$case;
	my %peak;

	for my $enable ('off', 'on')
	{
		my $s = new_session($node);
		my $pid = $s->query('SELECT pg_backend_pid()');
		$s->query("SET work_mem = '$mem'; SET gpusort.enable = $enable");
		is($s->query("SELECT sort_nodes('" . ($sql =~ s/'/''/gr) . "')"), $enable eq 'on' ? 'GpuSort' : 'Sort',
			"$name, enable = $enable: the node");
		my $order = $sql =~ /DESC/ ? '>=' : '<=';
		is($s->query("SELECT bool_and(before IS NULL OR before $order k) AND min(length(t)) > 99 FROM "
			. "(SELECT lag(k) OVER () AS before, k, t FROM ($sql) s) w"), 't', "$name, enable = $enable: the order");
		is($s->{stderr}, '', "$name, enable = $enable: no error");
		$peak{$enable} = memory_of($pid, 'VmHWM');
		$s->quit;
	}
	note "$name: $peak{on} kB, of a Sort $peak{off} kB";
	# a huge page may be touched in each of the runs that are merged
	cmp_ok($peak{on}, '<', $peak{off} * 1.2 + 16_000, "$name: memory as a Sort takes");
}

# the order of rows that are longer than a read buffer, and of equal rows
$node->safe_psql('postgres', <<'SQL');
CREATE TABLE plain (k int, c text COLLATE "C", t text);
ALTER TABLE plain ALTER c SET STORAGE PLAIN, ALTER t SET STORAGE PLAIN;
INSERT INTO plain SELECT CASE WHEN i % 11 <> 0 THEN mix(i) % 50 END, repeat('c', 300 + (mix(i * 7) % 4)::int),
	repeat('t', CASE WHEN i % 5 = 0 THEN 6000 ELSE (mix(i * 3) % 4000)::int END) FROM generate_series(1, 3000) i;
VACUUM ANALYZE plain;
-- ctid, because rows are not stored in the order of their insertion
CREATE VIEW lengths AS SELECT ctid AS seq, k, c, t FROM plain;
SQL
for my $mem ('64kB', '256kB', '1MB')
{
	for my $keys ('k', 'k DESC', 'c', 'c DESC NULLS FIRST, k', 'k NULLS FIRST, c DESC')
	{
		is($node->safe_psql('postgres', "SET work_mem = '$mem'; SELECT nodes, rows, result FROM "
			. "check_stable('lengths', '$keys')"), 'GpuSort|3000|same', "long rows by $keys with $mem");
	}
}
for my $size (3000, 30_000, 300_000)
{
	is($node->safe_psql('postgres', <<SQL), 'GpuSort|400|same', "rows of up to $size bytes");
SET work_mem = '64kB';
SELECT nodes, rows, result FROM check_sort('SELECT md5(t), k FROM (SELECT * FROM (SELECT mix(i) % 7 AS k,
	repeat(chr(64 + i % 20), (mix(i * 5) % $size)::int) || i AS t FROM generate_series(1, 400) i OFFSET 0) r
	ORDER BY k, t COLLATE "C" OFFSET 0) s')
SQL
}

# the set of the rows to keep has the last rows of a full arena, after which row ids begin at 0 again
$node->safe_psql('postgres', "CREATE FUNCTION last_rows_in_set(int) RETURNS bool AS 'gpusort_test' LANGUAGE C STRICT");
is($node->safe_psql('postgres', 'SELECT bool_and(last_rows_in_set(free)) FROM generate_series(0, 200) free'), 't',
	'row ids up to the last one');

$node->stop;
done_testing();
