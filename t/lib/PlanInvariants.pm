# PlanInvariants.pm: rules that a plan with gpusort obeys, compared with PostgreSQL's own plan of the same query.
#
#	%plan_ways				NAME => settings of a plan: stock; in_place (gpusort.plan_grouping = off); ours; again
#							(ours, planned a second time)
#	broken_rules($plans)	the rules that the plans of a query break: [ rule, way, what is wrong ], ...  $plans has
#							the output of EXPLAIN (FORMAT JSON) by the names of %plan_ways.
#	short_plan($json)		a plan's nodes with costs, rows and workers
#
# Rules:
#
#	total		The plan costs no more than the stock plan, but for 2 %: PostgreSQL takes paths for equal whose costs
#				differ by less than 1 %, at each join and each step above.  With gpusort.plan_grouping = on 10 %: it
#				joins the cheapest inputs, and with cheaper inputs it can find a costlier join.
#	child		A node of ours costs no less than its input.  A merge join ends with its shorter input, and may cost
#				less than the other.
#	workers		A Gather plans as many workers as the stock plan's Gather of the same tables, and at least one.
#	shape		With gpusort.plan_grouping = off the plan differs from the stock plan only in the nodes that order and
#				group rows, and in workers that an ORDER BY has beyond those of the stock plan.  Its input in workers
#				is PostgreSQL's partial path of the same tables, which may have another shape than that of one process.
#	again		The same query has the same plan.
package PlanInvariants;

use strict;
use warnings;

use Exporter 'import';
use JSON::PP;
use List::Util qw(max);

our @EXPORT = qw(%plan_ways @plan_rules broken_rules short_plan);

our @plan_rules = qw(total child workers shape again);
our %plan_ways = (
	stock => 'SET gpusort.enable = off;',
	in_place => 'SET gpusort.enable = on; SET gpusort.plan_grouping = off;',
	ours => 'SET gpusort.enable = on; SET gpusort.plan_grouping = on;',
	again => 'SET gpusort.enable = on; SET gpusort.plan_grouping = on;');

sub root { return decode_json($_[0])->[0]{Plan} }

sub provider { return $_[0]{'Custom Plan Provider'} // '' }

sub is_ours { return provider($_[0]) =~ /^GpuSort/ }

# A node's inputs: not the plans of its subqueries, which are evaluated by expressions.
sub inputs { return grep { $_->{'Parent Relationship'} !~ /^(InitPlan|SubPlan)$/ } @{ $_[0]{Plans} // [] } }

sub nodes
{
	my ($node) = @_;

	return ($node, map { nodes($_) } @{ $node->{Plans} // [] });
}

sub name { return is_ours($_[0]) ? provider($_[0]) : $_[0]{'Node Type'} }

sub short_node
{
	my ($node, $depth) = @_;
	my $of = $node->{Alias} ? " $node->{Alias}" : '';
	my $workers = defined $node->{'Workers Planned'} ? " workers=$node->{'Workers Planned'}" : '';

	return sprintf("%s%s%s %.2f..%.2f rows=%d%s\n", '  ' x $depth, name($node), $of, $node->{'Startup Cost'},
		$node->{'Total Cost'}, $node->{'Plan Rows'}, $workers) . join '', map { short_node($_, $depth + 1) }
	  @{ $node->{Plans} // [] };
}

sub short_plan { return short_node(root($_[0]), 0) }

# A node and all below it, without the plans of subqueries.
sub input_nodes
{
	my ($node) = @_;

	return ($node, map { input_nodes($_) } inputs($node));
}

# The tables below a node.
sub tables { return join ' ', sort map { $_->{Alias} // () } input_nodes($_[0]) }

# A plan's Gathers: tables below => workers.  A subquery that the leader evaluates belongs to the Gather in one plan,
# and to a node of gpusort above the Gather in the other.
sub gathers
{
	my ($plan) = @_;
	my %workers;

	for my $node (grep { defined $_->{'Workers Planned'} } nodes($plan))
	{
		my $of = tables($node);

		$workers{$of} = max($workers{$of} // 0, $node->{'Workers Planned'});
	}
	return %workers;
}

# The tree of a node without the nodes that order rows, or group rows in an order, and without projections: these have
# one input.  Merge joins have one name.  Of a sort of the tables in %$loose it has these only.
sub tree
{
	my ($node, $loose) = @_;
	my $name = name($node);

	return tables($node) if $name =~ /^(Sort|Incremental Sort|GpuSort)$/ && $loose->{ tables($node) };
	my @below = map { tree($_, $loose) } inputs($node);

	# a parallel Append has its inputs by cost
	@below = sort @below if $name =~ /^(Parallel )?Append$/;
	my $below = join ' ', @below;

	return $below
	  if $name =~ /^(Sort|Incremental Sort|Unique|Group|Materialize|GpuSort( Feed| Incremental| Aggregate)?)$/
	  || ($name eq 'Aggregate' && $node->{Strategy} =~ /Sorted|Plain/) || ($name eq 'Result' && $below ne '');
	$name =~ s/GpuSort Window/WindowAgg/;
	$name =~ s/GpuSort Join/Merge Join/;
	return $below if $name =~ /^Gather/;
	$name =~ s/^Parallel //;

	# a sort of ours may have workers, which read no range of TIDs
	$name =~ s/^Tid Range Scan$/Seq Scan/;
	return join ' ', $name, $node->{'Index Name'} // (), $node->{Alias} // (), $below ne '' ? "($below)" : ();
}

# The trees of a plan and of its subqueries, whose places depend on the nodes that evaluate them.
sub shape
{
	my ($plan, $loose) = @_;
	my %inputs = map { $_ => 1 } map { inputs($_) } nodes($plan);

	return join '; ', sort map { tree($_, $loose) } grep { !$inputs{$_} } nodes($plan);
}

sub shape_rule
{
	my ($stock, $plan) = @_;
	my %of = gathers($stock);
	my %loose = map { $_ => 1 } grep { !$of{$_} } keys %{ { gathers($plan) } };
	my ($is, $should) = map { shape($_, \%loose) } $plan, $stock;

	return $is eq $should ? () : "$is\nstock $should";
}

sub child_rule
{
	my ($node) = @_;

	return provider($node) eq 'GpuSort Join'
	  ? map { $node->{'Total Cost'} < $_->{'Startup Cost'} ? "$node->{'Total Cost'} below a start" : () } inputs($node)
	  : map { $node->{'Total Cost'} < $_->{'Total Cost'} ? sprintf('%s of %.2f above %s of %.2f', name($node),
		  $node->{'Total Cost'}, name($_), $_->{'Total Cost'}) : () } inputs($node);
}

sub workers_rule
{
	my ($stock, $plan) = @_;
	my %of = gathers($stock);
	my %now = gathers($plan);

	return map { my $least = max(1, $of{$_} // 1); $now{$_} < $least ? "$now{$_} workers, not $least, for $_" : () }
	  sort keys %now;
}

# The tables whose Gather is gone.
sub lost
{
	my ($stock, $plan) = @_;
	my %now = gathers($plan);

	return map { $now{$_} ? () : "no Gather for $_" } sort keys %{ { gathers($stock) } };
}

sub broken_rules
{
	my ($plans) = @_;
	my $stock = root($plans->{stock});
	my @broken;

	for my $way (qw(in_place ours))
	{
		my $plan = root($plans->{$way});
		my ($cost, $least) = map { $_->{'Total Cost'} } $plan, $stock;

		push @broken, [ 'total', $way, "$cost, stock $least" ]
		  if $cost > ($way eq 'in_place' ? 1.02 : 1.1) * $least + 0.02;
		push @broken, map { [ 'child', $way, $_ ] } map { child_rule($_) } grep { is_ours($_) } nodes($plan);
		push @broken, map { [ 'workers', $way, $_ ] } workers_rule($stock, $plan),
		  $way eq 'in_place' ? lost($stock, $plan) : ();
		push @broken, map { [ 'shape', $way, $_ ] } shape_rule($stock, $plan) if $way eq 'in_place';
	}
	push @broken, [ 'again', 'ours', 'another plan' ] if $plans->{ours} ne $plans->{again};
	return @broken;
}

1;
