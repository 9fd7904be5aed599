# ShapeOracle.pm: runs the cases of QueryShapes with the stock Sort and with GpuSort, and compares the outputs.
#
# A case has a kind, settings, statements, and a seed.  One psql script creates the tables and runs all cases.  Its
# output has sections: "0 made" for the tables; for case c "c off" (stock Sort), "c on" (GpuSort), "c left" (resources
# not freed) and "c plan".
package ShapeOracle;

use strict;
use warnings;

use Exporter 'import';
use GpuSortTest qw(pick);
use IPC::Run;
use PostgreSQL::Test::Utils;
use QueryShapes;

our @EXPORT = qw(oracle_case oracle_script oracle_difference run_sections);

# A case over these tables; settings($all) returns statements that set all settings, or those that leave scans as they
# are.
sub oracle_case
{
	my ($tables, $settings) = @_;
	my %case = (random => sprintf('%.6f', rand));

	($case{kind}, @{ $case{statements} }) = shape_case($tables);
	# random() chooses other rows in another scan; if all scans are disabled, their costs do not tell which one is read
	my $one_scan = $case{kind} =~ /^(explain|traces)$/ || grep { /random\(\)/ } @{ $case{statements} };
	$case{settings} = [ $settings->(!$one_scan) ];
	return \%case;
}

sub section
{
	my ($name, @sql) = @_;
	return "\\echo === $name", @sql, '\echo === end';
}

# The script of one case with gpusort.enable = on or off.
sub run_of
{
	my ($c, $case, $session, $enable) = @_;
	my @sql = @{ $case->{statements} };

	# gpusort keeps the input order of equal rows; the stock Sort gets the row's place as last key
	s{/\* in order \*/}{, t.tableoid, t.ctid} for $enable eq 'off' ? @sql : ();
	return ($session, @{ $case->{settings} }, "SET gpusort.enable = $enable;",
		"SELECT setseed($case->{random}) \\g /dev/null", section("$c $enable", @sql));
}

# Lists memory contexts and progress entries that a case has not freed.
my $left = <<'SQL';
SELECT 'left: ' || name FROM pg_backend_memory_contexts WHERE name ~ 'GpuSort'
UNION ALL SELECT 'left: progress' FROM gpusort_progress WHERE pid = pg_backend_pid();
SQL

# The whole script: creates the tables in a schema, then runs the cases.
sub oracle_script
{
	my ($schema, $make, $cases) = @_;
	my $session = "RESET ALL; SET search_path = $schema, public; SET timezone = 'UTC';";
	my $c = 0;
	my @sql = ('\set QUIET 1', '\pset format unaligned', '\pset tuples_only on', '\set VERBOSITY verbose',
		'\set SHOW_CONTEXT never', $session,
		"SET client_min_messages = warning; DROP SCHEMA IF EXISTS $schema CASCADE; CREATE SCHEMA $schema;",
		@$make, section('0 made'));

	for my $case (@$cases)
	{
		my ($query) = grep { /^(SELECT|WITH)/ } @{ $case->{statements} };

		$c++;
		push @sql, (map { run_of($c, $case, $session, $_) } qw(off on)), section("$c left", $left),
		  defined $query ? section("$c plan", "EXPLAIN (COSTS OFF) $query") : ();
	}
	return join "\n", @sql, '';
}

# Runs a script and returns its output by sections; output outside the sections is in section ''.
sub run_sections
{
	my ($node, $sql, $seconds) = @_;
	my $file = PostgreSQL::Test::Utils::tempdir_short() . '/script.sql';
	my %output = ('' => '');
	my $section = '';
	my $both = '';

	append_to_file($file, $sql);
	# after a timeout the output so far is returned
	eval {
		IPC::Run::run([ 'psql', '-X', '-d', $node->connstr('postgres'), '-f', $file ], '>&', \$both,
			$seconds ? IPC::Run::timeout($seconds) : ());
	};
	$both .= "\nnot done after $seconds s\n" if $@;
	for my $line (split /^/, $both)
	{
		$line =~ s/^psql:\S+ //;
		# of a message only the code and the text
		next if $line =~ /^(LOCATION|DETAIL|HINT):  |^LINE \d+: |^ +\^$/;
		if ($line =~ /^=== (\d+ \w+)$/) { $output{ $section = $1 } = ''; }
		elsif ($line =~ /^=== end$/) { $section = ''; }
		else { $output{$section} .= $line; }
	}
	return \%output;
}

# A plan of EXPLAIN (ANALYZE) without the lines in which the stock Sort and GpuSort differ, and without Heap Fetches,
# which decrease from run to run because index scans mark entries of dead rows.
sub plain_plan
{
	my ($plan) = @_;

	$plan =~ s/^ *(Sort (Method|Route)|Disabled|Worker \d|Workers|Buckets|Storage|Window|Heap Fetches).*\n//mg;
	$plan =~ s/Custom Scan \(GpuSort\)/Sort/g;
	return $plan =~ s/(Memory|Disk)( Usage)?: \d+kB//gr;
}

sub first_difference
{
	my @lines = map { [ split /\n/ ] } @_;
	my $n = 0;

	$n++ while ($lines[0][$n] // '') eq ($lines[1][$n] // '') && ($n < @{ $lines[0] } || $n < @{ $lines[1] });
	return join "\n", map { sprintf '%s, line %d of %d: %s', $_->[0], $n + 1, scalar @{ $_->[1] },
		substr($_->[1][$n] // '', 0, 300) }
		  [ 'want', $lines[0] ], [ 'got', $lines[1] ];
}

# Errors by their codes: which row fails first depends on the plan.
sub coded { return $_[0] =~ s/^(ERROR:  \w{5}): .*/$1/mgr }

# The rows of a random query, in any order.  Equal numbers may have more or fewer zeros after the point.
sub unordered
{
	my ($rows) = @_;

	$rows =~ s/(\.\d*?)0+(?!\d)/$1/g;
	$rows =~ s/\.(?!\d)//g;
	# a row of one NULL is an empty line, also at the end
	return join '', sort split /^/, $rows;
}

# The first difference between a case's outputs, or the resources it has not freed; undef if there is neither.
sub oracle_difference
{
	my ($case, @output) = @_;
	my ($want, $got, $left) = map { $_ // 'no output' } @output;

	($want, $got) = map { plain_plan($_) } $want, $got if $case->{kind} eq 'explain';
	# a timeout ends a statement at a random row
	s/^(ERROR|WARNING):.*\n//mg for $case->{kind} eq 'cancel' ? ($want, $got) : ();
	if ($case->{kind} eq 'random')
	{
		return undef if "$want$got" =~ /^ERROR:  57014/m;
		($want, $got) = map { unordered($_) } $want, $got;
	}
	# the stock server may compute more than it returns
	$want = $got if $case->{kind} eq 'lazy' && $want =~ /^ERROR/ && $got !~ /^ERROR/;
	return first_difference($want, $got) if coded($want) ne coded($got) || $want eq 'no output';
	return $left eq '' ? undef : $left;
}

1;
