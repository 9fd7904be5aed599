# Compare.pm: queries by the stock planner and Sort, and by gpusort, for bench/tpch, star, groups and statements.
#
#	compare_options()				what GetOptions() takes, and where it writes it
#	statements($file)				a file's statements, each of which ends with a semicolon at the end of a line,
#									without comments before them, which would hide a SELECT
#	compare_queries($session, @queries)		runs the queries and prints the tables; returns whether all results were
#									the same.  A query is [ name, [ statements ], rows in order? ].
#	compare_tables($name, $size, $table, $load, @queries)	the same in a private cluster with shared_buffers of this
#									size; $load->($session) loads the tables unless $table exists.  Exits.
#
# Each query runs with gpusort.enable off and on in turn, PAIRS times, in one session.  A time is the processor's, of
# the backend and of its workers, and the least of the PAIRS times: other work on the machine only adds to it.  With
# workers the clock's time is printed too.  The planner's time is the clock's.  The last column says what differs in
# the plans' nodes.  A query's SELECT is timed, its other statements are not.
#
# Options:
#	--pairs=3					alternating runs of each query
#	--memory=default,256MB		work_mem; a table for each
#	--workers=0					max_parallel_workers_per_gather: 0,2; a table for each
#	--median					prints medians: of the times, and of the pairs' ratios, which other work on the
#								machine changes less
#	--only=NAME,...				these queries
#	--plan						prints both plans of queries whose ratio is less than 0.95
#	--plans=FILE				writes both plans of each query, with EXPLAIN (ANALYZE)'s times
#	--csv=FILE					appends the figures
#	--set NAME=VALUE ...		more settings of both runs
#	--ours NAME=VALUE ...		settings of the runs by gpusort
#	--stock NAME=VALUE ...		settings of the runs by the stock planner; gpusort.enable=on: by gpusort, too
#	--changed					only queries for which PostgreSQL's planner has another plan in the two runs; that a
#								node of gpusort stands in the place of PostgreSQL's is no other plan
#	--keep						takes the server of the environment (PGHOST ...), and leaves all as it is
package Compare;

use strict;
use warnings;

use Bench;
use Exporter 'import';
use List::Util qw(min sum);
use Time::HiRes qw(sleep time);

our @EXPORT = qw(compare_options compare_queries compare_tables statements);

my %opt = (pairs => 3, memory => 'default,256MB', workers => '0', only => '', plans => '', csv => '', set => [],
	ours => [], stock => [], changed => 0, keep => 0);
my @ways = qw(stock ours);
my ($ask, $workers, $backend, $postmaster, %way);

sub compare_options
{
	return (\%opt, 'pairs=i', 'memory=s', 'workers=s', 'median', 'only=s', 'plan', 'plans=s', 'csv=s', 'set=s@',
		'ours=s@', 'stock=s@', 'changed', 'keep');
}

sub statements
{
	my ($file) = @_;

	return grep { /\S/ } map { s/\A(?:\s*--[^\n]*\n|\s+)+//r } split /;[ \t]*$/m, contents($file);
}

sub setting
{
	return $_[0] =~ /^([\w.]+)=(.*)$/ ? ($1, $2) : die "not NAME=VALUE: $_[0]\n";
}

# What the session's process and the postmaster's children that have ended have spent, in ms.
sub spent
{
	return cpu_ms($backend) + ($workers ? children_ms($postmaster) : 0);
}

# The milliseconds of the processor and of the clock, and the result or the plan.
sub run
{
	my ($way, $query, $prefix) = @_;
	my ($cpu, $clock, $answer) = (0, 0, '');

	$ask->($way{$way});
	for my $sql (@{ $query->[1] })
	{
		my $timed = $sql =~ /^\s*(select|with)\b/i;
		my $wait = $timed && $workers && !$prefix;
		sleep 0.05 if $wait;
		my ($before, $start) = (spent(), time);
		my $lines = $ask->(($timed ? $prefix : '') . $sql);
		$clock += 1000 * (time() - $start) if $timed;
		sleep 0.05 if $wait;
		$cpu += spent() - $before if $timed;
		$answer .= $lines if $timed;
	}
	return ($cpu, $clock, $answer);
}

# The planner's milliseconds, and the plan without costs.
sub plan
{
	my $plan = (run(@_, 'EXPLAIN (COSTS OFF, SUMMARY) '))[2];
	my $ms = 0;

	$ms += $1 while $plan =~ s/^Planning Time: ([\d.]+) ms\n//m;
	return ($ms, $plan);
}

my %replaced = (
	'GpuSort' => 'Sort', 'GpuSort Feed' => 'Sort', 'GpuSort Incremental' => 'Incremental Sort',
	'GpuSort Window' => 'WindowAgg', 'GpuSort Aggregate' => 'GroupAggregate', 'GpuSort Join' => 'Merge Join');

# The nodes of a plan.  A node of gpusort has the name of the node that it replaces.  Sort, Unique, Group, Materialize,
# Result and Gather nodes are left out: a sort of gpusort takes their place, or stands above a Gather.
sub nodes
{
	my ($plan) = @_;

	$plan =~ s/(?:Parallel )?Custom Scan \((GpuSort[^)]*)\)/$replaced{$1} \/\/ $1/ge;
	return join "\n", map { s/^ *(?:-> +)?//r =~ s/^Merge (Left|Right|Full|Semi|Anti) Join/Merge Join/r }
	  grep { !/:/ && !/^ *(?:-> +)?(?:Unique|Group|Sort|Materialize|Result|Gather|Gather Merge)$/ } split /\n/, $plan;
}

# The rows of a result as a text that does not depend on their order, unless the query gives one.
sub rows
{
	my ($query, $answer) = @_;

	return $query->[2] ? $answer : join "\n", sort split /\n/, $answer;
}

# Whether the two plans of a query differ, and how.
sub plans_differ
{
	my (%plan) = @_;

	return $plan{stock} eq $plan{ours} ? 'same' : nodes($plan{stock}) eq nodes($plan{ours}) ? 'our sorts' : 'other';
}

sub ratio { return $_[1] > 0 ? $_[0] / $_[1] : 1 }

sub columns
{
	my ($name, $times) = @_;

	return sprintf $name eq 'planning' ? '%.1f | %.1f | %.2f×' : '%.0f | %.0f | %.2f×', @$times{@ways},
	  $name eq 'planning' ? 1 / $times->{ratio} : $times->{ratio};
}

# A row of the table: the times of all kinds.
sub compare_query
{
	my ($query) = @_;
	my (%times, %rows, %plan);

	for my $pair (1 .. $opt{pairs})
	{
		for my $way ($pair % 2 ? @ways : reverse @ways)
		{
			my ($cpu, $clock, $answer) = run($way, $query, '');
			my $planning;

			($planning, $plan{$way}) = plan($way, $query);
			push @{ $times{cpu}{$way} }, $cpu;
			push @{ $times{clock}{$way} }, $clock;
			push @{ $times{planning}{$way} }, $planning;
			$rows{$way} = rows($query, $answer);
		}
	}
	for my $of (values %times)
	{
		my @pairs = map { ratio($of->{stock}[$_], $of->{ours}[$_]) } 0 .. $opt{pairs} - 1;

		$_ = $opt{median} ? median(@$_) : min(@$_) for values %$of;
		$of->{ratio} = $opt{median} ? median(@pairs) : ratio(@$of{@ways});
	}
	return (\%times, $rows{stock} eq $rows{ours}, plans_differ(%plan));
}

sub append
{
	my ($file, $text) = @_;

	open my $out, '>>', $file or die "$file: $!\n";
	print $out $text;
	close $out or die "$file: $!\n";
}

# One table: all queries with one work_mem and one number of workers.
sub compare_table
{
	my ($size, @queries) = @_;
	my (%all, @slow);
	my $same = 1;
	my @kinds = ('cpu', $workers ? 'clock' : (), 'planning');

	$ask->($size eq 'default' ? 'RESET work_mem' : "SET work_mem = '$size'");
	$ask->("SET max_parallel_workers_per_gather = $workers");
	printf "\nwork_mem %s, %d workers; processor time in ms, %s of %d runs\n\n", $size, $workers,
	  $opt{median} ? 'medians' : 'the least', $opt{pairs};
	print join(' | ', '| query', 'stock', 'ours', 'ratio', ($workers ? ('stock, clock', 'ours', 'ratio') : ()),
		'stock, planning', 'ours', 'ours / stock', 'plans'), " |\n|---|", '---:|' x (3 * @kinds), "---|\n";
	for my $query (@queries)
	{
		next if $opt{changed} && plans_differ(map { $_ => (plan($_, $query))[1] } @ways) ne 'other';
		my ($times, $equal, $plans) = compare_query($query);
		my @row = map { columns($_, $times->{$_}) } @kinds;

		$same &&= $equal;
		print join(' | ', "| $query->[0]", @row, $plans . ($equal ? '' : '; **results differ**')), " |\n";
		STDOUT->flush;
		push @{ $all{$_} }, $times->{$_} for @kinds;
		push @slow, $query if grep { $_ ne 'planning' && $times->{$_}{ratio} < 0.95 } @kinds;
		append($opt{csv}, join(',', $query->[0], $size, $workers,
				map { my $kind = $_; map { sprintf '%.3f', $times->{$kind}{$_} } @ways } qw(cpu clock planning)) . "\n")
		  if $opt{csv};
		next unless $opt{plans};
		append($opt{plans}, "== $query->[0], work_mem $size, $workers workers, $_\n"
			  . (run($_, $query, 'EXPLAIN (ANALYZE) '))[2]) for @ways;
	}
	if (!%all)
	{
		print "\nno plan differs\n";
		return $same;
	}
	for my $kind (@kinds)
	{
		my @way = $kind eq 'planning' ? reverse @ways : @ways;
		my @ratios = sort { $a <=> $b } map { $kind eq 'planning' ? 1 / $_->{ratio} : $_->{ratio} } @{ $all{$kind} };

		printf "\n%s: geometric mean %.3f×, of the sums %.3f×, least %.2f×, largest %.2f×\n", $kind,
		  geometric_mean(@ratios), ratio(map { my $w = $_; sum(map { $_->{$w} } @{ $all{$kind} }) } @way),
		  @ratios[ 0, -1 ];
	}
	print "\nless than 0.95: ", join(' ', map { $_->[0] } @slow) || 'none', "\n";
	return $same unless $opt{plan};
	for my $query (@slow)
	{
		print "\n== $query->[0], $_\n", (run($_, $query, 'EXPLAIN (ANALYZE) '))[2] for @ways;
	}
	return $same;
}

sub compare_queries
{
	($ask, my @queries) = @_;
	my %wanted = map { $_ => 1 } split /,/, $opt{only};
	my $same = 1;

	@queries = grep { $wanted{ $_->[0] } } @queries if %wanted;
	die "no such query\n" unless @queries;
	$ask->("SET client_min_messages = warning; CREATE EXTENSION IF NOT EXISTS gpusort");
	$backend = $ask->('SELECT pg_backend_pid()') + 0;
	($postmaster) = contents("/proc/$backend/status") =~ /^PPid:\s+(\d+)/m;
	for (@{ $opt{set} })
	{
		my ($name, $value) = setting($_);
		$ask->("SET $name = '$value'");
	}
	my %settings = map { $_ => [ map { [ setting($_) ] } @{ $opt{$_} } ] } @ways;
	my %enable = (stock => 'off', ours => 'on');
	for my $of (@ways)
	{
		my ($other) = grep { $_ ne $of } @ways;

		$way{$of} = join('', map { "RESET $_->[0]; " } @{ $settings{$other} }) . "SET gpusort.enable = $enable{$of}"
		  . join('', map { "; SET $_->[0] = '$_->[1]'" } @{ $settings{$of} });
	}
	for my $number (split /,/, $opt{workers})
	{
		$workers = $number;
		for my $size (split /,/, $opt{memory}) { $same = compare_table($size, @queries) && $same }
	}
	return $same;
}

sub compare_tables
{
	my ($name, $size, $table, $load, @queries) = @_;

	cluster($name, server_conf($size)) unless $opt{keep};
	my $session = session();
	$load->($session) if $session->("SELECT to_regclass('$table') IS NULL") eq "t\n";
	exit(compare_queries($session, @queries) ? 0 : 1);
}

1;
