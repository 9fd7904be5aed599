# plan_invariants.pl: plans of random queries, and of those of bench/star, by the rules of PlanInvariants.pm.
#
# GPUSORT_SEED repeats a run, GPUSORT_ROUNDS sets the number of rounds of random queries.  GPUSORT_PLANS prints all
# plans that break a rule, in place of two for each rule.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GpuSortTest;
use PlanInvariants;
use PostgreSQL::Test::Utils;
use QuerySettings;
use ShapeOracle;
use ShapeTables;
use Test::More;

my $seed = seed_random();
my $rounds = $ENV{GPUSORT_ROUNDS} || ($ENV{GPUSORT_QUICK} ? 1 : 6);
my $cases = 60;
my $shown = $ENV{GPUSORT_PLANS} ? 1000 : 2;
# gpusort.plan_grouping_min_rows is at its default for the tables of bench/star, which have up to 50,000 rows
my $node = new_node('plan_invariants', conf => "max_worker_processes = 16\nmax_parallel_workers = 8\n");
my @ways = qw(stock in_place ours again);
my ($plans, $ours, $gathered, %broken) = (0, 0, 0);

# A script that prints the plans of queries [ name, settings, statement ].
sub plan_script
{
	my ($schema, @queries) = @_;
	my $q = 0;

	return join "\n", '\set QUIET 1', '\pset format unaligned', '\pset tuples_only on', map {
		my ($name, $settings, $sql) = @$_;
		$q++;
		("RESET ALL; SET search_path = $schema, public; SET client_min_messages = warning; $settings",
			map { ($plan_ways{$_}, "\\echo === $q $_", "EXPLAIN (FORMAT JSON) $sql;", '\echo === end') } @ways)
	} @queries;
}

sub check
{
	my ($schema, @queries) = @_;
	my $output = run_sections($node, plan_script($schema, @queries));
	my $q = 0;

	is($output->{''}, '', "$schema: settings");
	for (@queries)
	{
		my ($name, $settings, $sql) = @$_;
		$q++;
		my %plan = map { $_ => $output->{"$q $_"} // '' } @ways;

		# a statement that fails has no plan
		next if $plan{stock} !~ /^\[/ && $plan{ours} !~ /^\[/;
		$plans++;
		$ours++ if $plan{ours} =~ /GpuSort/;
		$gathered++ if $plan{stock} =~ /Gather/;
		for my $rule (broken_rules(\%plan))
		{
			my ($which, $way, $what) = @$rule;

			$broken{$which}++;
			next if $broken{$which} > $shown;
			diag join "\n", "$which, $way: $what", "$schema $name: $settings", $sql,
			  map { "$_:\n" . short_plan($plan{$_}) } 'stock', $which eq 'again' ? ('ours', 'again') : $way;
		}
	}
}

# the star schema, with statistics that are right, old, or wrong
my $list = do "$FindBin::RealBin/../../bench/star_list.pl" or die $@ || $!;
my $star = $list->{star}->($ENV{GPUSORT_QUICK} ? 0.004 : 0.02);
my %settings = (
	serial => '',
	'in 256MB' => "SET work_mem = '256MB';",
	parallel => 'SET max_parallel_workers_per_gather = 2; SET parallel_setup_cost = 100; '
	  . 'SET min_parallel_table_scan_size = 0;',
	small => "SET work_mem = '64kB'; SET gpusort.plan_grouping_min_rows = 0;",
	'no hashes' => 'SET enable_hashjoin = off; SET enable_hashagg = off; SET max_parallel_workers_per_gather = 2; '
	  . 'SET parallel_setup_cost = 0; SET min_parallel_table_scan_size = 0;');
for my $stale ('', qw(rows distinct))
{
	my $schema = 'star' . ($stale && "_$stale");
	my $output = run_sections($node, join "\n", '\set QUIET 1', '\o /dev/null', map { "$_;" }
		'SET client_min_messages = warning', "CREATE SCHEMA $schema", "SET search_path = $schema",
		$list->{statements}->($star, $stale));

	is($output->{''}, '', "$schema: the tables are created");
	check($schema, map { my ($name, $sql) = @$_; map { [ "$name, $_", $settings{$_}, $sql ] } sort keys %settings }
		@{ $star->{queries} });
}

for my $round (1 .. $rounds)
{
	srand($seed * 1000 + $round);
	my ($tables, @make) = shape_tables($round % 2 ? 20_000 : 2000);
	my @queries;

	while (@queries < $cases)
	{
		my $case = oracle_case($tables, sub { shape_settings([ 'auto' ], parallel => 0.4) });
		my ($sql) = grep { /^(SELECT|WITH)\b/ && !/;\s*\S|FOR (UPDATE|SHARE|NO KEY|KEY)/ } @{ $case->{statements} };

		push @queries, [ $case->{kind}, join(' ', @{ $case->{settings} }), $sql =~ s/;\s*\z//r ] if defined $sql;
	}
	run_sections($node, join "\n", 'SET client_min_messages = warning; SET search_path = shapes, public;',
		'DROP SCHEMA IF EXISTS shapes CASCADE; CREATE SCHEMA shapes;', @make);
	check('shapes', @queries);
}

cmp_ok($ours, '>', $plans / 4, "$plans plans, $ours with nodes of ours");
cmp_ok($gathered, '>', 0, "$gathered stock plans with workers");
is($broken{$_} // 0, 0, "rule: $_") for @plan_rules;
done_testing();
