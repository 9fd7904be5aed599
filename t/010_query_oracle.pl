# Random statements of every shape that sorts: joins, windows, cursors, loops, writes, rescans; by one process and by
# many, here and on a device (the stand-in, or GPUSORT_TEST_LIBRARY), to the end and cancelled.  Their output is the
# stock server's, row by row and message by message.  GPUSORT_SEED repeats a run, GPUSORT_ROUNDS makes it longer.
use strict;
use warnings;

use FindBin;
use List::Util qw(sum0);
use lib "$FindBin::RealBin/lib";
use GpuSortTest;
use IPC::Run;
use PostgreSQL::Test::Utils;
use QuerySettings;
use QueryShapes;
use ShapeTables;
use Test::More;

my $seed = $ENV{GPUSORT_SEED} || time();
my $rounds = $ENV{GPUSORT_ROUNDS} || ($ENV{GPUSORT_QUICK} ? 1 : 10);
my $cases = 40;
my $library = $ENV{GPUSORT_TEST_LIBRARY} || '$libdir/libgpusort_cpu_abi';
note "seed $seed";

my $node = new_node('query_oracle', conf => <<CONF);
shared_buffers = 64MB
synchronize_seqscans = off
log_temp_files = -1
max_worker_processes = 16
max_parallel_workers = 8
gpusort.device_library = '$library'
gpusort.staging_memory = 8MB
gpusort.device_memory = 64MB
gpusort.device_share = 100
CONF
device_ready($node, 'start');
my @algorithms = split /\n/, $node->safe_psql('postgres', 'SELECT algorithm FROM gpusort_algorithms()');
my $session = "RESET ALL; SET search_path = shapes, public; SET timezone = 'UTC';";
my %sorted;
my $gathered = 0;

# One case: its settings and statements, sorted by the stock server or by gpusort.
sub script
{
	my ($case, $enable) = @_;
	my ($c, $random, $settings, $statements) = @$case;
	my @sql = @$statements;

	# what gpusort promises, a stock Sort does not: equal rows in input order
	s{/\* in order \*/}{, t.tableoid, t.ctid} for $enable eq 'off' ? @sql : ();
	return join "\n", $session, @$settings, "SET gpusort.enable = $enable;",
	  "SELECT setseed($random) \\g /dev/null", "\\echo === $c $enable", @sql, '\echo === end';
}

sub plan_of
{
	my ($case) = @_;
	my ($query) = grep { /^(SELECT|WITH)/ } @{ $case->[3] };

	return defined $query ? join("\n", "\\echo === $case->[0] plan", "EXPLAIN (COSTS OFF) $query", '\echo === end')
		: '';
}

# What EXPLAIN (ANALYZE) says of both kinds of Sort.  Heap fetches become fewer from run to
# run, as index scans mark entries of dead rows.
sub plain_plan
{
	my ($plan) = @_;

	$plan =~ s/^ *(Sort (Method|Route)|Disabled|Worker \d|Workers|Buckets|Storage|Window|Heap Fetches).*\n//mg;
	$plan =~ s/Custom Scan \(GpuSort\)/Sort/g;
	return $plan =~ s/(Memory|Disk)( Usage)?: \d+kB//gr;
}

for my $round (1 .. $rounds)
{
	# a round is repeated by its own seed
	srand($seed * 1000 + $round);
	my ($tables, @make) = shape_tables($round % 6 == 0 ? 20_000 : 2000);
	my (@cases, %kinds);

	for my $c (1 .. $cases)
	{
		my ($kind, @statements) = shape_case($tables);
		push @cases, [ $c, sprintf('%.6f', rand), [ shape_settings(@algorithms) ], \@statements, $kind ];
	}
	my $sql = join "\n", '\set QUIET 1', '\pset format unaligned', '\pset tuples_only on', '\set VERBOSITY terse',
	  $session, 'SET client_min_messages = warning; DROP SCHEMA IF EXISTS shapes CASCADE; CREATE SCHEMA shapes;',
	  	sprintf('SELECT setseed(%.6f) \g /dev/null', rand), @make,
	  '\echo === 0 made', '\echo === end', map({ (script($_, 'off'), script($_, 'on'), plan_of($_)) } @cases), '';
	my $output = run_script($node, $sql);

	ok(exists $output->{'0 made'} && $output->{''} eq '', "round $round: its tables are made") or diag $output->{''};
	for my $case (@cases)
	{
		my ($c, undef, $settings, $statements, $kind) = @$case;
		my ($want, $got) = map { $output->{"$c $_"} // 'no output' } 'off', 'on';

		($want, $got) = map { plain_plan($_) } $want, $got if $kind eq 'explain';
		# which row a timeout strikes is chance
		s/^(ERROR|WARNING):.*\n//mg for $kind eq 'cancel' ? ($want, $got) : ();
		$sorted{$kind}++ if ($output->{"$c plan"} // '') =~ /GpuSort/;
		$gathered++ if ($output->{"$c plan"} // '') =~ /Gather.*GpuSort/s;
		next if $want eq $got && $want ne 'no output';
		$kinds{$kind}++;
		diag join "\n", "seed $seed, round $round, case $c: $kind", @make, @$settings, @$statements,
			first_difference($want, $got),
		  $output->{"$c plan"} // '';
	}
	is(join(' ', sort keys %kinds), '', "round $round: as the stock server");
}

# The output of a script by its sections; what lies between them is none's.
sub run_script
{
	my ($node, $sql) = @_;
	my $file = PostgreSQL::Test::Utils::tempdir_short() . '/shapes.sql';
	my %output = ('' => '');
	my $section = '';

	append_to_file($file, $sql);
	for my $line (split /^/, run_both('psql', '-X', '-d', $node->connstr('postgres'), '-f', $file))
	{
		$line =~ s/^psql:\S+ //;
		if ($line =~ /^=== (\d+ \w+)$/) { $output{ $section = $1 } = ''; }
		elsif ($line =~ /^=== end$/) { $section = ''; }
		else { $output{$section} .= $line; }
	}
	return \%output;
}

# Standard output and standard error of a command, as they came.
sub run_both
{
	my (@command) = @_;
	my $both = '';

	IPC::Run::run(\@command, '>&', \$both);
	return $both;
}

sub first_difference
{
	my @lines = map { [ split /\n/ ] } @_;
	my $n = 0;

	$n++ while ($lines[0][$n] // '') eq ($lines[1][$n] // '') && ($n < @{ $lines[0] } || $n < @{ $lines[1] });
	return (map { sprintf '%s, line %d of %d: %s', $_->[0], $n + 1, scalar @{ $_->[1] },
		substr($_->[1][$n] // '', 0, 300) }
		  [ 'want', $lines[0] ], [ 'got', $lines[1] ]);
}

my $on_device = $node->safe_psql('postgres', "SELECT sum(sorts) FROM gpusort_stat WHERE algorithm ~ '^gpu'");
cmp_ok($on_device, '>', 0, "$on_device sorts on a device");
device_unused($node, 'end');
note 'GpuSort ran in: ' . join ', ', map { "$_ $sorted{$_}" } sort keys %sorted;
cmp_ok(sum0(values %sorted), '>=', 5 * $rounds, 'GpuSort was in the plans');
cmp_ok($gathered, '>', 0, "workers' sorts in $gathered of them") if $rounds >= 10;
$node->stop('fast');

my $log = slurp_file($node->logfile);
unlike($log, qr/WARNING:(?!  there is no transaction)|TRAP|terminated by signal/, 'no warning in the log');
is(join(' ', temp_files($node)), '', 'no file is left');
done_testing();
