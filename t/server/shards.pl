# shards.pl: a small copy of examples/shards.
#
# Each shard sorts with GpuSort; the coordinator merges.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GpuSortTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $dir = "$FindBin::RealBin/../../examples/shards";
my $shards = 3;
my $rows = 3000;

my $coordinator = new_node('coordinator');
if ($coordinator->safe_psql('postgres',
	"SELECT count(*) FROM pg_available_extensions WHERE name = 'postgres_fdw'") eq '0')
{
	$coordinator->stop;
	plan skip_all => 'postgres_fdw is not installed';
}
$coordinator->safe_psql('postgres', 'DROP EXTENSION gpusort');

my @shard;
for my $s (1 .. $shards)
{
	my $node = new_node("shard$s", conf => "gpusort.device = off");

	$node->safe_psql('postgres', 'DROP EXTENSION gpusort');
	query_file($node, "$dir/shard.sql");
	push @shard, $node;
}
$coordinator->psql('postgres', slurp_file("$dir/coordinator.sql"), on_error_die => 1,
	extra_params => [ '-v', 'host=' . $coordinator->host, '-v', 'ports={' . join(',', map { $_->port } @shard) . '}',
		'-v', "rows=$rows" ]);
$_->safe_psql('postgres', 'ANALYZE events') for @shard;

# The number of rows that a server has sorted.
sub rows_sorted { return map { $_->safe_psql('postgres', 'SELECT sum(rows) FROM gpusort_stat') } @_ }

my @part = map { $_->safe_psql('postgres', 'SELECT count(*) FROM events') } @shard;
cmp_ok($_, '>', $rows / $shards / 2, 'a shard has its part') for @part;

for my $by ('at, id', 'device DESC, id', 'note DESC', 'value, id')
{
	my $query = "SELECT * FROM events ORDER BY $by";
	my $want = $coordinator->safe_psql('postgres', "SET gpusort.enable = off; SELECT * FROM events_here ORDER BY $by");
	my $plan = $coordinator->safe_psql('postgres', "EXPLAIN (VERBOSE, COSTS OFF) $query");
	my @remote = $plan =~ /Remote SQL: (.*)/g;

	like($plan, qr/^Merge Append\n/, "$by: the coordinator merges");
	unlike($plan, qr/GpuSort|->  Sort/, "$by: ... and does not sort");
	is(scalar(grep { / ORDER BY / } @remote), $shards, "$by: the order goes to all shards");
	for my $s (0 .. $#shard)
	{
		like($shard[$s]->safe_psql('postgres', "EXPLAIN (COSTS OFF) $remote[$s]"), qr/^Custom Scan \(GpuSort\)\n/,
			"$by: a shard sorts");
	}

	my @before = rows_sorted($coordinator, @shard);
	my $got = $coordinator->safe_psql('postgres', $query);
	my @after = rows_sorted($coordinator, @shard);

	ok($got eq $want, "$by: the rows of one server in the same order");
	is(join(' ', map { $after[$_] - $before[$_] } 0 .. $shards), join(' ', 0, @part),
		"$by: each shard sorted its rows, the coordinator none");

	# a query that hides the order from the shards: they send rows unsorted, and the coordinator sorts
	my $gather = "SELECT * FROM (SELECT * FROM events OFFSET 0) e ORDER BY $by";

	$plan = $coordinator->safe_psql('postgres', "EXPLAIN (VERBOSE, COSTS OFF) $gather");
	like($plan, qr/^Custom Scan \(GpuSort\)\n(?:(?!->).*\n)*  ->  Append\n/, "$by: the coordinator sorts");
	is(scalar(() = $plan =~ /Async Foreign Scan/g), $shards, "$by: ... the rows of asynchronous foreign scans");
	unlike($plan, qr/ORDER BY/, "$by: ... and no shard has sorted");
	@before = @after;
	$got = $coordinator->safe_psql('postgres', $gather);
	@after = rows_sorted($coordinator, @shard);
	ok($got eq $want, "$by: the rows of one server in the same order, sorted by the coordinator");
	is(join(' ', map { $after[$_] - $before[$_] } 0 .. $shards), join(' ', $rows, (0) x $shards),
		"$by: the coordinator sorted all rows");
}

# whole rows of a foreign scan, which postgres_fdw forms as composite values; a LIMIT and ties read their columns
for my $by ('note, id LIMIT 10', 'left(note, 6), note, id')
{
	my $query = "SELECT * FROM (SELECT * FROM events_1 OFFSET 0) e ORDER BY $by";

	like($coordinator->safe_psql('postgres', "EXPLAIN (COSTS OFF) $query"), qr/GpuSort/, "$by: the coordinator sorts");
	ok($coordinator->safe_psql('postgres', $query) eq
		$coordinator->safe_psql('postgres', "SET gpusort.enable = off; $query"), "$by: ... in the same order");
}
$_->stop for $coordinator, @shard;
done_testing();
