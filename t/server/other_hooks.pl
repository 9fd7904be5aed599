# other_hooks.pl: a plan that another extension's planner hook returns twice is not changed by gpusort.
#
# The hook of the test module (test/module/gpusort_test.c) keeps a plan, and returns it when the same statement is
# planned again.  gpusort must replace Sort nodes in a copy: the second plan is as the first, and with gpusort.enable =
# off it is the stock plan.
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

	like($ours, qr/GpuSort/, "the plan has a GpuSort: $q");
	is($run, "$ours\n$ours\n$stock", "the cached plan is not changed: $q");
	is(scalar(() = $notices =~ /returns the cached plan/g), 2, "the hook returned the cached plan twice: $q");
	is($node->safe_psql('postgres', "$load $q; $q"), $node->safe_psql('postgres', "$q; $q"),
		"the cached plan returns the rows of the stock plan: $q");
}
$node->stop;
done_testing();
