# spill.pl: temporary files of sorts on the CPU.
#
# gpusort limits, reports and removes temporary files as the stock Sort does, and keeps memory within work_mem.
# gpusort.device is off, because rows that go to a GPU are not written to runs; t/gpu/service.pl tests those.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GpuSortTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('spill', conf => <<CONF);
gpusort.device = off
log_temp_files = 0
restart_after_crash = on
CONF

$node->safe_psql('postgres', <<SQL);
CREATE TABLE t AS SELECT i AS id, mix(i) AS k, repeat('p', 50) AS p FROM generate_series(1, 300000) i;
VACUUM ANALYZE t;
SQL
my $query = 'SELECT k, id, p FROM t ORDER BY k, id';

# many runs
is( $node->safe_psql('postgres', "SET work_mem = '64kB'; SELECT nodes || ' ' || rows || ' ' || result FROM "
	. "check_sort('$query')"),
	'GpuSort 300000 same', 'hundreds of runs');
is(scalar(temp_files($node)), 0, 'no file is left');

# a merge of many runs reads them in small pieces, so that rows are not merged twice
my $plan = $node->safe_psql('postgres', "SET work_mem = '4MB'; SET gpusort.run_rows = 2000; "
	. "EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF) $query");
my ($runs) = $plan =~ /(\d+) runs merged/;
my ($disk) = $plan =~ /Disk: (\d+)kB/;
my ($read, $written) = $plan =~ /GpuSort.*?temp read=(\d+) written=(\d+)/s;
is($runs, 150, '150 runs');
cmp_ok($written, '<=', $disk / 8, 'rows are written once');
is($read, $written, 'and read once');
is( $node->safe_psql('postgres', "SET work_mem = '4MB'; SET gpusort.run_rows = 2000; SELECT nodes || ' ' || result "
	. "FROM check_sort('$query')"),
	'GpuSort same', '150 runs: right');

# rows of which no byte is equal to the row before are not coded after the first run
my $random = "SELECT decode(md5(a.i::text || 'x') || md5(b.i::text) || md5(a.i::text || b.i::text) || md5(a.i::text
	|| 'y' || b.i::text), 'hex') AS p FROM generate_series(1, 300) a(i), generate_series(1, 300) b(i) ORDER BY 1";
my %kb;
for my $coded ('off', 'auto', 'on')
{
	my $explain = $node->safe_psql('postgres', "SET work_mem = '1MB'; SET gpusort.compress_runs = $coded; "
		. "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) $random");
	($kb{$coded}) = $explain =~ /GpuSort.*?Disk: (\d+)kB/s;
}
cmp_ok($kb{auto}, '<=', $kb{off}, 'random bytes: files are not larger');
cmp_ok($kb{on}, '<', 1.13 * $kb{off}, 'random bytes: nor much larger if all runs are coded');
is( $node->safe_psql('postgres', "SET work_mem = '1MB'; SET gpusort.compress_runs = on; SELECT nodes || ' ' || result "
	. "FROM check_sort(\$q\$$random\$q\$)"),
	'GpuSort same', 'random bytes: right');

# runs of keys: written and read once, in half of the bytes of the keys
my $keys = 'SELECT k FROM t ORDER BY k';
$plan = $node->safe_psql('postgres', "SET work_mem = '4MB'; SET gpusort.run_rows = 2000; "
	. "EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF) $keys");
($runs) = $plan =~ /(\d+) runs of keys merged/;
($read, $written) = $plan =~ /GpuSort.*?temp read=(\d+) written=(\d+)/s;
is($runs, 150, '150 runs of keys');
is($written, $runs, 'each run of 2000 keys takes one block');
is($read, $written, 'and are read once');
for my $mem ('64kB', '1MB')
{
	is( $node->safe_psql('postgres',
			"SET work_mem = '$mem'; SELECT nodes || ' ' || rows || ' ' || result FROM check_sort('$keys')"),
		'GpuSort 300000 same', "runs of keys, $mem");
}
is( $node->safe_psql('postgres', "SET work_mem = '64kB'; SET gpusort.run_rows = 300; "
		. "SELECT nodes || ' ' || rows || ' ' || result FROM check_sort('$keys')"),
	'GpuSort 300000 same', 'more runs of keys than can be merged at once');

# a file that is no longer what was written; the merge has read the first keys of each run only
for my $damage ('overwritten', 'truncated')
{
	my $s = new_session($node);

	$s->query("SET work_mem = '1MB'; BEGIN; DECLARE c NO SCROLL CURSOR FOR SELECT k * 1000003 FROM t ORDER BY 1; "
		. "FETCH 1 FROM c;");
	for my $name (temp_files($node))
	{
		my $path = $node->data_dir . "/base/pgsql_tmp/$name";

		if ($damage eq 'truncated')
		{
			truncate($path, 8192) or die "$path: $!";
			next;
		}
		open(my $file, '+<:raw', $path) or die "$path: $!";
		print $file "\0" x -s $path;
		close($file);
	}
	$s->query('MOVE ALL FROM c');
	like($s->{stderr}, $damage eq 'truncated' ? qr/could not read file ".*": read only \d+ of \d+ bytes/ :
		qr/unexpected end of a sort's temporary file/, "keys in an $damage file: error");
	$s->query('ROLLBACK');
	is(scalar(temp_files($node)), 0, "keys in an $damage file: no file is left");
	session_ok($s, "keys in an $damage file");
	$s->quit;
}

# log_temp_files and the statistics see the files
my $offset = -s $node->logfile;
$node->safe_psql('postgres', "SET work_mem = '1MB'; SELECT count(*) FROM ($query OFFSET 0) s");
ok($node->log_contains(qr/LOG:  temporary file: path "base\/pgsql_tmp\/.*", size \d{7,}/, $offset),
	'log_temp_files reports the file');
ok( $node->poll_query_until('postgres',
	"SELECT temp_files > 0 AND temp_bytes > 10000000 FROM pg_stat_database WHERE datname = 'postgres'"),
	'pg_stat_database counts it');

# temp_file_limit: the message of the stock server
my %limit;
for my $enable ('off', 'on')
{
	my ($rc, $out, $err) = $node->psql('postgres',
		"SET gpusort.enable = $enable; SET work_mem = '1MB'; SET temp_file_limit = '2MB'; SELECT count(*) FROM "
			. "($query OFFSET 0) s");
	isnt($rc, 0, "temp_file_limit stops enable = $enable");
	$limit{$enable} = $err;
}
like($limit{on}, qr/temporary file size exceeds "?temp_file_limit"? \(2048kB\)/, 'temp_file_limit: message');
is($limit{on}, $limit{off}, 'temp_file_limit: same message as the stock server');
is(scalar(temp_files($node)), 0, 'temp_file_limit: no file is left');

# errors in the scan after runs were written, all in one session
my $session = new_session($node);
$session->query("SET work_mem = '64kB'");
$session->query("SELECT count(*) FROM (SELECT k / (id - 290000), p FROM t ORDER BY 1) s");
like($session->{stderr}, qr/division by zero/, 'error after runs were written');
is(scalar(temp_files($node)), 0, 'error: no file is left');
session_ok($session, 'error');

# cancel while files exist
my $pid = $session->query('SELECT pg_backend_pid()');
$session->query("SET statement_timeout = '60ms'");
$session->query("SELECT count(*) FROM (SELECT a.k FROM t a, generate_series(1, 50) ORDER BY a.k, a.id) s");
like($session->{stderr}, qr/canceling statement due to statement timeout/, 'timeout while runs are written');
is(scalar(temp_files($node)), 0, 'timeout: no file is left');
no_timeout($session);
session_ok($session, 'timeout');

# a cursor over a spilled result, left open until the transaction aborts
$session->query('BEGIN');
$session->query("DECLARE c SCROLL CURSOR FOR $query");
$session->query('FETCH 1 FROM c');
cmp_ok(scalar(temp_files($node)), '>', 0, 'an open cursor keeps its file');
$session->query('ROLLBACK');
is(scalar(temp_files($node)), 0, 'rollback: no file is left');
# a cursor that a subtransaction opened
$session->query("BEGIN; SAVEPOINT s; DECLARE c CURSOR FOR $query; FETCH 1 FROM c;");
cmp_ok(scalar(temp_files($node)), '>', 0, 'an open cursor of a subtransaction keeps its file');
$session->query('ROLLBACK TO s');
is(scalar(temp_files($node)), 0, 'rollback to savepoint: no file is left');
$session->query('ROLLBACK');

# a result that outlives its transaction
$session->query("BEGIN; DECLARE h SCROLL CURSOR WITH HOLD FOR $query; FETCH 1 FROM h; COMMIT;");
my $first = $session->query('SELECT min(k) FROM t');
like($session->query('FETCH FIRST FROM h'), qr/^$first\|/, 'a held cursor reads its result after commit');
$session->query('CLOSE h');
is(scalar(temp_files($node)), 0, 'held cursor: no file is left');

# temp_tablespaces
my $space = PostgreSQL::Test::Utils::tempdir();
$node->safe_psql('postgres', "CREATE TABLESPACE elsewhere LOCATION '$space'");
$session->query("SET temp_tablespaces = 'elsewhere'; BEGIN; DECLARE c CURSOR FOR $query; FETCH 1 FROM c;");
is(scalar(temp_files($node)), 0, 'temp_tablespaces: not in the default place');
is($node->safe_psql('postgres', "SELECT count(*) > 0 FROM pg_ls_tmpdir((SELECT oid FROM pg_tablespace WHERE spcname = "
	. "'elsewhere'))"), 't', 'temp_tablespaces: in the named place');
$session->query("ROLLBACK; RESET temp_tablespaces;");

# files of 1 GB, each in the next tablespace; their number and size are those of a stock Sort
$space = PostgreSQL::Test::Utils::tempdir();
$node->safe_psql('postgres', "CREATE TABLESPACE further LOCATION '$space'");
my %files;
for my $enable ('off', 'on')
{
	my $counted = "SELECT temp_files FROM pg_stat_database WHERE datname = 'postgres'";
	my $before = $node->safe_psql('postgres', $counted);
	my $s = new_session($node);
	my $where = q(SELECT string_agg(n::text, ' ' ORDER BY spcname) FROM (SELECT spcname, (SELECT count(*) FROM
		pg_ls_tmpdir(oid)) AS n FROM pg_tablespace WHERE spcname IN ('elsewhere', 'further')) s);

	$s->query("SET gpusort.enable = $enable; SET work_mem = '64MB'; SET temp_tablespaces = 'elsewhere', 'further'");
	$s->query("BEGIN; DECLARE c CURSOR FOR SELECT i, length(p) FROM (SELECT i, repeat('x', 7600) AS p FROM "
		. "generate_series(1, 150000) i ORDER BY -i OFFSET 0) s; FETCH 1 FROM c;");
	$files{$enable} = join ' ', sort split / /, $s->query($where);
	is($s->query("SAVEPOINT p; MOVE 99999 FROM c; RELEASE p; FETCH 1 FROM c; MOVE 49998 FROM c; FETCH 2 FROM c"),
		"50000|7600\n1|7600", "two segments, enable $enable: read");
	$s->query('COMMIT');
	$s->quit;
	ok($node->poll_query_until('postgres', "SELECT ($counted) >= $before + 2"),
		"two segments, enable $enable: counted");
}
is($files{on}, $files{off}, 'a sort of more than 1 GB is spread over temp_tablespaces as in the stock server');

# work_mem bounds the backend's memory as it does for the stock Sort
sub peak
{
	my ($enable, $mem, $sql) = @_;
	my $s = new_session($node);
	my $p = $s->query('SELECT pg_backend_pid()');
	# load catalogs, plan and buffers before the measurement
	$s->query("SET gpusort.enable = $enable; SET work_mem = '$mem'; SELECT count(*) FROM (SELECT * FROM t WHERE id > "
		. "0 OFFSET 0) s;");
	$s->query("SELECT count(*) FROM (SELECT * FROM t WHERE id < 1000 ORDER BY k OFFSET 0) s;");
	my $before = memory_of($p, 'VmHWM');
	$s->query($sql);
	my $after = memory_of($p, 'VmHWM');
	$s->quit;
	return $after - $before;
}
for my $mem ('1MB', '8MB', '16MB')
{
	for my $what ('*', 'k')
	{
		my $sql = "SELECT count(*) FROM (SELECT $what FROM t ORDER BY k OFFSET 0) s;";
		my $stock = peak('off', $mem, $sql);
		my $ours = peak('on', $mem, $sql);
		note "work_mem $mem, $what: stock grows by $stock kB, gpusort by $ours kB";
		cmp_ok($ours, '<=', $stock + 4096, "work_mem $mem, $what: bounds memory as for the stock Sort");
	}
}

# a backend that crashes
$session->query("BEGIN; DECLARE c CURSOR FOR $query; FETCH 1 FROM c;");
cmp_ok(scalar(temp_files($node)), '>', 0, 'a file before the crash');
backend_crashes($node, $pid, 'crash');
is(scalar(temp_files($node)), 0, 'crash: no file is left');
is( $node->safe_psql('postgres', "SELECT nodes || ' ' || result FROM check_sort('$query')"),
	'GpuSort same', 'crash: the server sorts');

eval { $session->quit };
$node->stop;
done_testing();
