# index_neighbours.pl: another extension that uses the relation hook.
#
# It is loaded before gpusort or after it; a build calls both.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GpuSortTest;
use IndexBuilds;
use Test::More;

for my $libraries ('gpusort, gpusort_test', 'gpusort_test, gpusort')
{
	my $node = index_node('index_neighbours_' . ($libraries =~ /^gpusort,/ ? 'after' : 'before'),
		conf => "shared_preload_libraries = '$libraries'\n");

	$node->safe_psql('postgres', <<'SQL');
CREATE FUNCTION relation_calls() RETURNS bigint AS 'gpusort_test' LANGUAGE C;
CREATE TABLE t AS SELECT i AS id, md5(i::text) AS s FROM generate_series(1, 1000) i;
ANALYZE t;
SQL
	for my $workers (0, 2)
	{
		my ($rc, $out, $err, @built) = built($node, <<SQL);
SET max_parallel_maintenance_workers = $workers;
SELECT 'before', relation_calls() >= 0;
CREATE INDEX i ON t (id);
SELECT 'builds', relation_calls();
SELECT count(*) FROM t WHERE id = 5;
SELECT 'queries', relation_calls() > 0;
DROP INDEX i;
SQL
		is(join(', ', map { "@$_" } @built), 'i compact', "$libraries, $workers workers: built by gpusort");
		like($out, qr/^builds\|[1-9]/m, "$libraries, $workers workers: the other hook saw the build");
		like($out, qr/^1\nqueries\|t$/m, "$libraries, $workers workers: and a query");
	}
	# statements that build the index anew, and CLUSTER's sort of the table
	$node->safe_psql('postgres', 'CREATE INDEX i ON t (id)');
	for my $case (
		[ 'REINDEX TABLE t', 'i compact' ],
		[ 'CLUSTER t USING i', 'i compact' ],
		[ 'VACUUM FULL t', 'i compact' ],
		[ 'ALTER TABLE t ALTER id TYPE bigint', 'i compact' ],
		[ 'CREATE MATERIALIZED VIEW v AS SELECT * FROM t; CREATE UNIQUE INDEX v1 ON v (id); REFRESH MATERIALIZED VIEW '
			  . 'v; REFRESH MATERIALIZED VIEW CONCURRENTLY v', 'v1 compact, v1 compact' ])
	{
		my ($statement, $expected) = @$case;
		my ($rc, $out, $err, @built) = built($node, "SELECT relation_calls() >= 0; $statement; SELECT 'calls', "
			  . 'relation_calls() > 0');

		is(join(', ', map { "@$_" } @built), $expected, "$libraries: $statement: built by gpusort");
		like($out, qr/^calls\|t$/m, "$libraries: $statement: the other hook saw it");
		like($err, qr/gpusort sorted table "t"/, "$libraries: gpusort sorted the table") if $statement =~ /^CLUSTER/;
	}
	$node->safe_psql('postgres', 'DROP INDEX i');
	check_pairs($node, "$libraries: pages", '', [ 'CREATE INDEX NAME ON t (s)', 'CREATE UNIQUE INDEX NAME ON t (id)' ]);
	$node->stop;
}
done_testing();
