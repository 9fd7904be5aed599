# foreign_partitions.pl: ORDER BY over foreign partitions, sorted by their servers or by the coordinator.
#
# The foreign servers are this server itself, by postgres_fdw.  Every query has the rows of a local table in the same
# order, whatever was chosen.
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

# The rows in one local table, and in partitions on the servers.  few has two thousand of them.  mixed has a local
# partition.  one has all its partitions on one server.
my $columns = 'id bigint, part int, k int, note text COLLATE "C", at timestamptz';
my ($host, $port) = ($node->host, $node->port);
run_sql(<<SQL);
CREATE EXTENSION postgres_fdw;
CREATE TABLE here ($columns);
INSERT INTO here SELECT i, i % $servers, nullif(i * 104729 % 1009, 77), 'event ' || i * 15485863 % 1000,
	'2026-01-01'::timestamptz + i * 618033 % 1000003 * interval '1 second' FROM generate_series(1::bigint, $rows) i;
CREATE TABLE few_here AS SELECT * FROM here WHERE id <= 2000;
CREATE TABLE events ($columns) PARTITION BY LIST (part);
CREATE TABLE others (LIKE events) PARTITION BY LIST (part);
CREATE TABLE few (LIKE events) PARTITION BY LIST (part);
CREATE TABLE mixed (LIKE events) PARTITION BY LIST (part);
CREATE TABLE one (LIKE events) PARTITION BY LIST (part);
SQL
for my $s (0 .. $servers - 1)
{
	run_sql(<<SQL);
CREATE SERVER server$s FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '$host', port '$port', dbname 'postgres',
	async_capable 'true', fetch_size '1000', fdw_tuple_cost '0.2',
	use_remote_estimate 'false');
CREATE USER MAPPING FOR CURRENT_USER SERVER server$s;
CREATE TABLE rows_$s AS SELECT * FROM here WHERE part = $s;
CREATE TABLE few_rows_$s AS SELECT * FROM few_here WHERE part = $s;
CREATE FOREIGN TABLE events_$s PARTITION OF events FOR VALUES IN ($s) SERVER server$s OPTIONS (table_name 'rows_$s');
CREATE FOREIGN TABLE others_$s PARTITION OF others FOR VALUES IN ($s) SERVER server$s OPTIONS (table_name 'rows_$s');
CREATE FOREIGN TABLE few_$s PARTITION OF few FOR VALUES IN ($s) SERVER server$s OPTIONS (table_name 'few_rows_$s');
CREATE FOREIGN TABLE one_$s PARTITION OF one FOR VALUES IN ($s) SERVER server0 OPTIONS (table_name 'rows_$s');
SQL
	run_sql($s > 0 ? "CREATE FOREIGN TABLE mixed_$s PARTITION OF mixed FOR VALUES IN ($s) SERVER server$s
			OPTIONS (table_name 'rows_$s')"
		: "CREATE TABLE mixed_$s AS SELECT * FROM rows_$s;
			ALTER TABLE mixed ATTACH PARTITION mixed_$s FOR VALUES IN ($s)");
}
run_sql("VACUUM ANALYZE; ANALYZE $_") for qw(events others few mixed one);

# Where a query's rows are sorted, by its plan, and what the planner logs.
sub route
{
	my ($query, $set) = @_;
	my ($rc, $plan, $log) = $node->psql('postgres',
		"$set; SET client_min_messages = debug1; EXPLAIN (VERBOSE, COSTS OFF) $query");
	my $sent = () = $plan =~ /Remote SQL: .* ORDER BY /g;
	my $async = () = $plan =~ /Async Foreign Scan/g;
	my ($top) = $plan =~
		/^(?:(?:Limit|LockRows|Result)\n[^>]*-> +)?(Merge Append|Custom Scan \(GpuSort\)\n[^>]*-> +Append)\n/;
	my $where = 'nowhere';

	$where = 'servers' if defined $top && $top eq 'Merge Append' && $sent > 0 && $async == 0;
	$where = 'here' if defined $top && $top ne 'Merge Append' && $sent == 0 && $async > 1;
	diag $plan if $where eq 'nowhere';
	return ($where, $log);
}

# The query's route, its message, and its rows in order: those of the query for the local table, unless reference is
# another query.
sub routed
{
	my ($name, $query, $want, $message, %opt) = @_;
	my $set = $opt{set} // 'SELECT';
	my ($where, $log) = route($query, $set);
	my $reference = $opt{reference} // $query =~ s/\b(?:events|others|mixed|one)\b/here/gr =~ s/\bfew\b/few_here/gr;

	is($where, $want, "$name: sorted by $want");
	like($log, $message, "$name: the planner says so") if defined $message;
	unlike($log, qr/foreign scans/, "$name: the planner does not compare") if !defined $message;
	ok(run_sql("$set;", $query) eq run_sql("SET gpusort.enable = off;", $reference), "$name: the rows in order")
		if !$opt{no_rows};
}

my $all_at_once = qr/foreign scans are faster all at once/;
my $by_servers = qr/foreign scans are faster sorted by their servers/;
my $all = 'SELECT * FROM events ORDER BY';

routed('all rows', "$all note, id", 'here', $all_at_once);
routed('descending with NULLs', "$all k DESC NULLS LAST, at, id", 'here', $all_at_once);
routed('expressions above', 'SELECT id * 2, upper(note), k FROM events ORDER BY at, id', 'here', $all_at_once);
routed('an expression sorted', 'SELECT id, k FROM events ORDER BY k + 1, id', 'here', $all_at_once);
routed('runs', "$all note, id", 'here', $all_at_once, set => "SET work_mem = '256kB'");
routed('rows locked', "$all note, id FOR UPDATE", 'here', $all_at_once);
routed('UNION ALL', 'SELECT id, note FROM events_0 UNION ALL SELECT id, note FROM events_1 ORDER BY 2, 1', 'here',
	$all_at_once, reference => 'SELECT id, note FROM here WHERE part < 2 ORDER BY 2, 1');
routed('a local partition', 'SELECT * FROM mixed ORDER BY note, id', 'here', $all_at_once);

# whole rows of a foreign scan, which postgres_fdw forms as composite values; a LIMIT and ties read their columns
for my $query ('SELECT * FROM (SELECT * FROM events_0 OFFSET 0) s ORDER BY note, id LIMIT 10',
	'SELECT * FROM (SELECT * FROM events_0 OFFSET 0) s ORDER BY note, at, id')
{
	like(run_sql("EXPLAIN (COSTS OFF) $query"), qr/GpuSort/, 'rows of a foreign scan are sorted');
	ok(run_sql($query) eq run_sql('SET gpusort.enable = off;', $query =~ s/events_0/rows_0/r), '... in order');
}

# what keeps the Merge Append
routed('plan_grouping = off', "$all note, id", 'servers', undef, set => 'SET gpusort.plan_grouping = off');
routed('enable = off', "$all note, id", 'servers', undef, set => 'SET gpusort.enable = off');
routed('enable_async_append = off', "$all note, id", 'servers', undef, set => 'SET enable_async_append = off');
routed('few rows', 'SELECT * FROM few ORDER BY note, id', 'servers', undef);
routed('few rows and LIMIT', 'SELECT * FROM few ORDER BY note, id LIMIT 10', 'servers', undef);
routed('one connection', 'SELECT * FROM one ORDER BY note, id', 'servers', $by_servers);
routed('LIMIT', "$all note, id LIMIT 10", 'servers', qr/a LIMIT or a cursor, and not all have use_remote_estimate/);

# a LIMIT is compared if the servers estimate
run_sql("ALTER SERVER server$_ OPTIONS (SET use_remote_estimate 'true')") for 0 .. $servers - 1;
routed('all rows, estimated', "$all note, id", 'here', $all_at_once);
routed('LIMIT, estimated', "$all note, id LIMIT 10 OFFSET 3", 'servers', $by_servers);
routed('LIMIT of nearly all rows', "$all note, id LIMIT " . ($rows - 1), 'here', $all_at_once);
routed('LIMIT of few filtered rows', "SELECT * FROM events WHERE k = 7 AND note LIKE '%9%' ORDER BY note, id LIMIT 10",
	'here', qr//);
routed('a cursor', "DECLARE c CURSOR FOR $all note, id", 'servers', $by_servers, no_rows => 1);
routed('a LIMIT that is not known', "$all note, id LIMIT (random() * 0)::int + 5", 'servers',
	qr/the LIMIT is not a constant/);
run_sql("CREATE INDEX ON rows_$_ (note, id); ANALYZE rows_$_") for 0 .. $servers - 1;
routed('LIMIT, with indexes', "SELECT id, note FROM events WHERE note > 'event 5' ORDER BY note, id LIMIT 10",
	'servers', $by_servers);
run_sql("DROP INDEX rows_${_}_note_id_idx") for 0 .. $servers - 1;
run_sql("ALTER SERVER server$_ OPTIONS (SET use_remote_estimate 'false')") for 0 .. $servers - 1;

# joins and groups by partition
my $join = 'SELECT e.id, o.note FROM events e JOIN others o USING (part, id) ORDER BY o.note, e.id';
for my $set ('SET enable_partitionwise_join = off',
	'SET enable_partitionwise_join = on; SET enable_partitionwise_aggregate = on')
{
	for my $query ($join, 'SELECT part, k, count(*), min(note) FROM events GROUP BY part, k ORDER BY 3 DESC, 1, 2',
		'SELECT part, note, sum(id) FROM events GROUP BY part, note ORDER BY part, note')
	{
		ok(run_sql("$set;", $query) eq run_sql('SET gpusort.enable = off;', $query =~ s/\b(?:events|others)\b/here/gr),
			"$set: $query");
	}
}

# scans that begin again
my $again = 'SELECT g, id FROM generate_series(1, 3) g, '
	. 'LATERAL (SELECT id FROM events WHERE k = g OR g = 2 ORDER BY note, id OFFSET 1) s';
ok(run_sql($again) eq run_sql('SET gpusort.enable = off;', $again =~ s/events/here/r), 'a subquery that runs again');

# an error of one server, and the next query in the session
my ($rc, $out, $err) = $node->psql('postgres', "SELECT id, 1 / (id - 7) FROM events ORDER BY 1 / (id - 7), id;
	SELECT count(*) FROM events", on_error_stop => 0);
like($err, qr/division by zero/, 'an error of one server');
is($out, $rows, '... after which the session goes on');

# a server that is not asynchronous
run_sql("ALTER SERVER server$_ OPTIONS (SET async_capable 'false')") for 0 .. $servers - 1;
routed('not async_capable', "$all note, id", 'servers', qr/none is async_capable/);
$node->stop;
done_testing();
