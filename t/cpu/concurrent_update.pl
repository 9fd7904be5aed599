# concurrent_update.pl: queries with a sort that wait for a row lock and then read the changed row (EvalPlanQual).
#
# A writer changes rows; a reader's statement waits for the writer, which commits.  The reader's output and the tables
# afterwards are the same with GpuSort as with the stock Sort.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GpuSortTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('concurrent_update');
my %waiting = (
	'FOR UPDATE above a sort' => 'SELECT id, k, v FROM t ORDER BY k DESC, id FOR UPDATE',
	'FOR UPDATE with LIMIT' => 'SELECT id, k, v FROM t ORDER BY k, id LIMIT 4 FOR UPDATE',
	'FOR UPDATE of a join' => 'SELECT t.id, t.k, u.w FROM t JOIN u ON t.k = u.k ORDER BY u.w, t.id FOR UPDATE OF t',
	'UPDATE FROM a sorted subquery' =>
	  'UPDATE t SET v = t.v + 100 FROM (SELECT k, max(w) AS w FROM u GROUP BY k ORDER BY w OFFSET 0) s WHERE s.k = t.k '
	  	. 'RETURNING t.id, t.k, t.v',
	'DELETE with a sorted subplan' => 'DELETE FROM t WHERE v < (SELECT w FROM u WHERE u.k <= t.k ORDER BY w DESC '
		. 'OFFSET 0 LIMIT 1) RETURNING id, k, v');

for my $name (sort keys %waiting)
{
	my %got;

	for my $enable ('off', 'on')
	{
		$node->safe_psql('postgres', <<SQL);
DROP TABLE IF EXISTS t, u;
CREATE TABLE t AS SELECT i AS id, (mix(i) % 5)::int AS k, i * 10 AS v FROM generate_series(1, 10) i;
CREATE TABLE u AS SELECT i AS id, (mix(i * 3) % 5)::int AS k, i * 7 AS w FROM generate_series(1, 20) i;
ANALYZE t, u;
SQL
		my $writer = new_session($node);
		my $reader = new_session($node);
		$reader->query("SET gpusort.enable = $enable; SET enable_hashjoin = off; SET enable_nestloop = off; SET "
			. "enable_hashagg = off;");
		my $plan = $reader->query("EXPLAIN (COSTS OFF) $waiting{$name}");
		like($plan, $enable eq 'on' ? qr/GpuSort/ : qr/Sort/, "$name: the plan's node, enable = $enable") or diag $plan;
		$writer->query('BEGIN; UPDATE t SET k = (k + 2) % 5, v = v + 1 WHERE id % 3 = 0; DELETE FROM t WHERE id = 4;');
		my $pid = $reader->query('SELECT pg_backend_pid()');
		$reader->query_until(qr/begun/, "\\echo begun\n$waiting{$name};\n\\echo finished\n");
		ok($node->poll_query_until('postgres',
				"SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = $pid"),
			"$name: the reader waits, enable = $enable");
		$writer->query('COMMIT');
		my $output = $reader->query('SELECT 0 WHERE false');
		# RETURNING without ORDER BY: any order of rows is right
		$output = join "\n", sort split /\n/, $output if $name =~ /^(UPDATE|DELETE)/;
		$got{$enable} = $output . $reader->query('SELECT id, k, v FROM t ORDER BY id');
		is($reader->{stderr}, '', "$name: no error, enable = $enable");
		$writer->quit;
		$reader->quit;
	}
	is($got{on}, $got{off}, "$name: same output and tables as with the stock Sort");
	like($got{on}, qr/finished/, "$name: the statement finished");
}

$node->stop;
done_testing();
