# Another extension's planner hook, which hands out a plan of its own: it stays as it was.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GpuSortTest;
use Test::More;

my $node = new_node('other_hooks', preload => 0);
$node->safe_psql('postgres', 'CREATE TABLE t AS SELECT i AS id, mix(i) AS k FROM generate_series(1, 1000) i; ANALYZE '
	. 't');

my $load = "LOAD 'gpusort_test'; LOAD 'gpusort'; SET gpusort.min_rows = 0; SET gpusort_test.keep_plan = on;";
for my $q ('SELECT * FROM t ORDER BY k',
	'SELECT *, (SELECT sum(s.id) FROM (SELECT id FROM t x WHERE x.id < t.id ORDER BY k OFFSET 1) s) FROM t WHERE id < '
	. '5 ORDER BY k',
	'SELECT * FROM ((SELECT id FROM t ORDER BY k) UNION ALL (SELECT id FROM t ORDER BY k DESC)) u LIMIT 5')
{
	my $explain = "EXPLAIN (COSTS OFF) $q";
	my ($rc, $run, $notices) = $node->psql('postgres', "$load $explain; $explain; SET gpusort.enable = off; $explain;");
	my $ours = $node->safe_psql('postgres', "LOAD 'gpusort'; SET gpusort.min_rows = 0; $explain");
	my $stock = $node->safe_psql('postgres', $explain);

	like($ours, qr/GpuSort/, 'it is sorted here');
	is($run, "$ours\n$ours\n$stock", "the plan handed out again is the one that was kept: $q");
	is(scalar(() = $notices =~ /handed out again/g), 2, 'it was handed out again');
	is($node->safe_psql('postgres', "$load $q; $q"), $node->safe_psql('postgres', "$q; $q"), 'its rows');
}
$node->stop;
done_testing();
