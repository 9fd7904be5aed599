# query_oracle.pl: random statements against the stock Sort.
#
# Queries that contain each other, joins, windows, cursors, loops, writes and rescans; under any settings, with and
# without workers, on the CPU and on a device, run to the end or cancelled. Rows, messages and codes of errors are the
# same as with the stock Sort. GPUSORT_SEED repeats a run, GPUSORT_ROUNDS sets the number of rounds.
# GPUSORT_TEST_LIBRARY names another GPU library than the fake device.
use strict;
use warnings;

use FindBin;
use List::Util qw(sum0);
use lib "$FindBin::RealBin/../lib";
use GpuSortTest;
use PostgreSQL::Test::Utils;
use QuerySettings;
use ShapeOracle;
use ShapeTables;
use Test::More;

my $seed = seed_random();
my $rounds = $ENV{GPUSORT_ROUNDS} || ($ENV{GPUSORT_QUICK} ? 1 : 10);
my $cases = 40;
my $library = $ENV{GPUSORT_TEST_LIBRARY} || '$libdir/libgpusort_cpu_abi';

my $node = new_node('query_oracle', conf => <<CONF);
shared_buffers = 64MB
synchronize_seqscans = off
log_temp_files = -1
restart_after_crash = on
max_worker_processes = 16
max_parallel_workers = 8
gpusort.device_library = '$library'
gpusort.staging_memory = 8MB
gpusort.device_memory = 64MB
gpusort.device_share = 100
CONF
device_ready($node, 'start');
my @algorithms = split /\n/, $node->safe_psql('postgres', 'SELECT algorithm FROM gpusort_algorithms()');
my @settings = settings_of($node);
my %sorted;
my $gathered = 0;
my $incremental = 0;

for my $round (1 .. $rounds)
{
	# each round has a seed of its own, so that it can be repeated alone
	srand($seed * 1000 + $round);
	my ($tables, @make) = shape_tables($round % 6 == 0 ? 20_000 : 2000);
	my @cases = map {
		oracle_case($tables, sub { shape_settings(\@algorithms, all => $_[0] ? \@settings : undef) })
	} 1 .. $cases;
	my $output = run_sections($node, oracle_script('shapes', \@make, \@cases));
	my %kinds;

	is($output->{''} . ($output->{'0 made'} // 'not made'), '', "round $round: the tables are created");
	for my $c (1 .. $cases)
	{
		my $case = $cases[ $c - 1 ];
		my $plan = $output->{"$c plan"} // '';

		$sorted{ $case->{kind} }++ if $plan =~ /GpuSort/;
		$gathered++ if $plan =~ /Gather.*GpuSort/s;
		$incremental++ if $plan =~ /GpuSort Incremental/;
		my $difference = oracle_difference($case, map { $output->{"$c $_"} } qw(off on left)) // next;
		$kinds{ $case->{kind} }++;
		diag join "\n", "seed $seed, round $round, case $c: $case->{kind}", @make, @{ $case->{settings} },
			@{ $case->{statements} }, $difference, $plan;
		# after a crash the rest of the round has no output
		server_answers($node), last if !defined $output->{"$c left"};
	}
	is(join(' ', sort keys %kinds), '', "round $round: the stock server's output");
}

my $on_device = $node->safe_psql('postgres', "SELECT sum(sorts) FROM gpusort_stat WHERE algorithm ~ '^gpu'");
cmp_ok($on_device, '>', 0, "$on_device sorts on a device");
device_unused($node, 'end');
note 'GpuSort ran in: ' . join ', ', map { "$_ $sorted{$_}" } sort keys %sorted;
cmp_ok(sum0(values %sorted), '>=', 5 * $rounds, 'GpuSort was in the plans');
cmp_ok($gathered, '>', 0, "parallel sorts in $gathered cases") if $rounds >= 10;
cmp_ok($incremental, '>', 0, "incremental sorts in $incremental cases") if $rounds >= 10;
$node->stop('fast');

my $log = slurp_file($node->logfile);
unlike($log, qr/WARNING:(?!  there is no transaction)|TRAP|terminated by signal/, 'no warning in the log');
is(join(' ', temp_files($node)), '', 'no file is left');
done_testing();
