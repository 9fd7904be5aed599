# foreign_partitions.pl: ORDER BY over foreign partitions, sorted by their servers or by the coordinator.
#
# The foreign servers are this server itself, by postgres_fdw.  Every query has the rows of a local table in the same
# order.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GpuSortTest;
use Test::More;

my $servers = 3;
my $rows = 60_000;

my $node = new_node('foreign_partitions', conf => "gpusort.device = off\nwork_mem = 64MB\n");
if ($node->safe_psql('postgres', "SELECT count(*) FROM pg_available_extensions WHERE name = 'postgres_fdw'") eq '0')
{
	$node->stop;
	plan skip_all => 'postgres_fdw is not installed';
}

sub run_sql { $node->safe_psql('postgres', join ' ', @_) }

# The rows in one local table, and in partitions on the servers.  mixed has a local partition.
my $columns = 'id bigint, part int, k int, note text COLLATE "C", at timestamptz';
my ($host, $port) = ($node->host, $node->port);
run_sql(<<SQL);
CREATE EXTENSION postgres_fdw;
CREATE TABLE here ($columns);
INSERT INTO here SELECT i, i % $servers, nullif(i * 104729 % 1009, 77), 'event ' || i * 15485863 % 1000,
	'2026-01-01'::timestamptz + i * 618033 % 1000003 * interval '1 second' FROM generate_series(1::bigint, $rows) i;
CREATE TABLE events ($columns) PARTITION BY LIST (part);
CREATE TABLE others (LIKE events) PARTITION BY LIST (part);
CREATE TABLE mixed (LIKE events) PARTITION BY LIST (part);
SQL
for my $s (0 .. $servers - 1)
{
	run_sql(<<SQL);
CREATE SERVER server$s FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '$host', port '$port', dbname 'postgres',
	async_capable 'true', fetch_size '1000', fdw_tuple_cost '0.2');
CREATE USER MAPPING FOR CURRENT_USER SERVER server$s;
CREATE TABLE rows_$s AS SELECT * FROM here WHERE part = $s;
CREATE FOREIGN TABLE events_$s PARTITION OF events FOR VALUES IN ($s) SERVER server$s OPTIONS (table_name 'rows_$s');
CREATE FOREIGN TABLE others_$s PARTITION OF others FOR VALUES IN ($s) SERVER server$s OPTIONS (table_name 'rows_$s');
SQL
	run_sql($s > 0 ? "CREATE FOREIGN TABLE mixed_$s PARTITION OF mixed FOR VALUES IN ($s) SERVER server$s
			OPTIONS (table_name 'rows_$s')"
		: "CREATE TABLE mixed_$s AS SELECT * FROM rows_$s;
			ALTER TABLE mixed ATTACH PARTITION mixed_$s FOR VALUES IN ($s)");
}
run_sql("VACUUM ANALYZE; ANALYZE $_") for qw(events others mixed);

# The query's plan, whose rows are those of the query for the local table.
sub planned
{
	my ($name, $query, $set) = (@_, 'SELECT');
	my $plan = run_sql("$set; EXPLAIN (VERBOSE, COSTS OFF) $query");
	my $here = $query =~ s/\b(?:events|others|mixed)\b/here/gr;

	ok(run_sql("$set;", $query) eq run_sql('SET gpusort.enable = off;', $here), "$name: the rows in order");
	return $plan;
}

# The servers sort, each with GpuSort, and the coordinator merges.
sub sorted_by_servers
{
	my ($name, $query, $set) = @_;
	my $plan = planned($name, $query, $set // ());
	my @remote = $plan =~ /Remote SQL: (.* ORDER BY .*)/g;

	like($plan, qr/^(?:(?:Limit|LockRows|Result)\n[^>]*-> +)?Merge Append\n/, "$name: the coordinator merges");
	ok(@remote > 1, "$name: the order goes to the servers");
	like(run_sql("EXPLAIN (COSTS OFF) $_"), qr/^(?:LockRows\n *->  )?Custom Scan \(GpuSort\)\n/,
		"$name: a server sorts") for @remote;
}

# The coordinator sorts what asynchronous scans of all servers return.
sub sorted_here
{
	my ($name, $query, $set) = @_;
	my $plan = planned($name, $query, $set // ());

	like($plan, qr/^(?:\w+\n[^>]*-> +)?Custom Scan \(GpuSort\)\n[^>]*-> +(?:Subquery Scan[^>]*-> +)?Append\n/,
		"$name: the coordinator sorts");
	cmp_ok(scalar(() = $plan =~ /Async Foreign Scan/g), '>', 1, "$name: the servers send at the same time");
	unlike($plan, qr/Remote SQL: .* ORDER BY /, "$name: the servers do not sort");
}

my $all = 'SELECT * FROM events ORDER BY';
my $unordered = 'SELECT * FROM (SELECT * FROM events OFFSET 0) e ORDER BY';

sorted_by_servers('all rows', "$all note, id");
sorted_by_servers('descending with NULLs', "$all k DESC NULLS LAST, at, id");
sorted_by_servers('rows locked', "$all note, id FOR UPDATE");
sorted_by_servers('a local partition', 'SELECT * FROM mixed ORDER BY note, id');
sorted_by_servers('plan_grouping = off', "$all note, id", 'SET gpusort.plan_grouping = off');

sorted_here('all rows', "$unordered note, id");
sorted_here('descending with NULLs', "$unordered k DESC NULLS LAST, at, id");
sorted_here('expressions above',
	'SELECT id * 2, upper(note), k FROM (SELECT * FROM events OFFSET 0) e ORDER BY at, id');
sorted_here('an expression sorted', 'SELECT id, k FROM (SELECT * FROM events OFFSET 0) e ORDER BY k + 1, id');
sorted_here('runs', "$unordered note, id", "SET work_mem = '256kB'");
sorted_here('LIMIT', "$unordered note, id LIMIT 10 OFFSET 3");
sorted_here('a local partition', 'SELECT * FROM (SELECT * FROM mixed OFFSET 0) e ORDER BY note, id');

# whole rows of a foreign scan, which postgres_fdw forms as composite values; a LIMIT and ties read their columns
for my $query ('SELECT * FROM (SELECT * FROM events_0 OFFSET 0) s ORDER BY note, id LIMIT 10',
	'SELECT * FROM (SELECT * FROM events_0 OFFSET 0) s ORDER BY note, at, id')
{
	like(run_sql("EXPLAIN (COSTS OFF) $query"), qr/GpuSort/, 'rows of a foreign scan are sorted');
	ok(run_sql($query) eq run_sql('SET gpusort.enable = off;', $query =~ s/events_0/rows_0/r), '... in order');
}

# joins and groups by partition
my $join = 'SELECT e.id, o.note FROM events e JOIN others o USING (part, id) ORDER BY o.note, e.id';
for my $set ('SET enable_partitionwise_join = off',
	'SET enable_partitionwise_join = on; SET enable_partitionwise_aggregate = on')
{
	for my $query ($join, 'SELECT part, k, count(*), min(note) FROM events GROUP BY part, k ORDER BY 3 DESC, 1, 2',
		'SELECT part, note, sum(id) FROM events GROUP BY part, note ORDER BY part, note')
	{
		planned($set, $query, "$set; SET gpusort.plan_grouping = on");
	}
}

# scans that begin again
planned('a subquery that runs again', 'SELECT g, id FROM generate_series(1, 3) g, '
	. 'LATERAL (SELECT id FROM (SELECT * FROM events WHERE k = g OR g = 2 OFFSET 0) e ORDER BY note, id OFFSET 1) s');

# an error of one server, and the next query in the session
my ($rc, $out, $err) = $node->psql('postgres', "SELECT id, 1 / (id - 7) FROM events ORDER BY 1 / (id - 7), id;
	SELECT count(*) FROM events", on_error_stop => 0);
like($err, qr/division by zero/, 'an error of one server');
is($out, $rows, '... after which the session goes on');
$node->stop;
done_testing();
