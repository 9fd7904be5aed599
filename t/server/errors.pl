# errors.pl: errors during a sort: in the child at any row, above the sort, and out of memory.
#
# After each error no memory or file remains, and the session sorts again.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GpuSortTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('errors', conf => "shared_buffers = 64MB\n");
my $rows = 100_000;
$node->safe_psql('postgres', <<SQL);
CREATE TABLE t AS SELECT i AS id, mix(i) AS k FROM generate_series(1, $rows) i;
VACUUM ANALYZE t;
SQL
my $session = new_session($node);

# the child fails at row i, with rows in memory and with runs written
for my $mem ('64kB', '64MB')
{
	$session->query("SET work_mem = '$mem'");
	for my $i (1, 2, 17, 1000, $rows / 2, $rows - 1, $rows)
	{
		$session->query("SELECT sum(x) FROM (SELECT 1 / (id - $i) AS x FROM t ORDER BY k OFFSET 0) s");
		like($session->{stderr}, qr/division by zero/, "work_mem $mem: error at row $i");
		session_ok($session, "work_mem $mem: row $i");
	}
	# an error in the key's expression
	$session->query("SELECT count(*) FROM (SELECT k FROM t ORDER BY 1 / (id - $rows) OFFSET 0) s");
	like($session->{stderr}, qr/division by zero/, "work_mem $mem: error in the key");
	session_ok($session, "work_mem $mem: key");
	# an error in the node above, while the sort returns rows
	$session->query("SELECT sum(1 / (id - 500)) FROM (SELECT id FROM t ORDER BY k OFFSET 0) s");
	like($session->{stderr}, qr/division by zero/, "work_mem $mem: error above the sort");
	session_ok($session, "work_mem $mem: above");
	is(scalar(temp_files($node)), 0, "work_mem $mem: no file is left");
}

# errors that subtransactions catch, many times, beside an open sort
$session->query("SET work_mem = '64kB'");
$session->query(<<'SQL');
CREATE FUNCTION stumble(times int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
	caught int := 0;
	x record;
	last bigint := -1;
	n int := 0;
BEGIN
	FOR x IN SELECT k FROM t ORDER BY k LOOP
		IF x.k < last THEN
			RAISE 'out of order';
		END IF;
		last := x.k;
		n := n + 1;
		IF n <= times THEN
			BEGIN
				PERFORM sum(y) FROM (SELECT 1 / (id - 3000) AS y FROM t WHERE id < 3500 ORDER BY k OFFSET 0) s;
			EXCEPTION WHEN division_by_zero THEN
				caught := caught + 1;
			END;
		END IF;
	END LOOP;
	IF n <> 100000 THEN
		RAISE 'lost rows: %', n;
	END IF;
	RETURN caught;
END $$;
SQL
is($session->query('SELECT stumble(300)'), '300', 'errors caught under an open sort');
is($session->{stderr}, '', 'the open sort returns all rows in order');

# memory: an address space too small for the sort
SKIP:
{
	skip 'no prlimit', 5 unless grep { -x "$_/prlimit" } split /:/, $ENV{PATH};

	for my $enable ('off', 'on')
	{
		my $s = new_session($node);
		my $pid = $s->query('SELECT pg_backend_pid()');
		$s->query("SET gpusort.enable = $enable; SET work_mem = '2GB'");
		$s->query("SELECT count(*) FROM (SELECT k FROM t WHERE id < 100 ORDER BY k OFFSET 0) s");
		my $limit = (memory_of($pid, 'VmSize') + 60_000) * 1024;
		system_or_bail('prlimit', "--pid=$pid", "--as=$limit:unlimited");
		my $got = $s->query("SELECT count(*) FROM (SELECT a.k, a.id, 'a row of some bytes' AS p FROM t a, "
			. "generate_series(1, 20) ORDER BY a.k OFFSET 0) s");
		if ($enable eq 'off')
		{
			like($s->{stderr}, qr/out of memory/, 'stock: out of memory');
		}
		else
		{
			# an error with a detail, or a sort that succeeded with less memory
			ok($s->{stderr} =~ /ERROR:  out of memory\nDETAIL/ || $got eq '2000000', 'gpusort: out of memory')
			  or diag $s->{stderr};
			note $s->{stderr};
			$s->{stderr} = '';
			session_ok($s, 'out of memory, limit still on');
		}
		system_or_bail('prlimit', "--pid=$pid", '--as=unlimited:unlimited');
		$s->{stderr} = '';
		is($s->query("SELECT count(*) FROM (SELECT k FROM t ORDER BY k OFFSET 0) s"), $rows,
			"enable = $enable: sorts again");
		$s->quit;
	}
}

$session->quit;
$node->stop;
done_testing();
