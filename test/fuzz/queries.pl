# queries.pl: the fuzzer that test/fuzz/queries runs.
#
# Each session of a round has its own schema and its own random numbers.  First it runs a script of cases (ShapeOracle),
# then it reads several portals in turn, some rows at a time.  After each round the device must hold no job and no
# memory, no temporary file may remain, and the log must have no unexpected line.
use strict;
use warnings;

use Getopt::Long;
use GpuSortTest qw(new_node pick temp_files);
use POSIX ();
use PostgreSQL::Test::Utils;
use QuerySettings;
use QueryShapes;
use ShapeOracle;
use ShapeTables;
use Test::More;
use Time::HiRes qw(time);
use WireSession;

my %opt = (seed => time() % 1_000_000, minutes => 10, sessions => 2);
GetOptions(\%opt, 'seed=i', 'minutes=f', 'sessions=i', 'round=i', 'preload=s@', 'late=i') or exit 2;
my $library = $ENV{GPUSORT_TEST_LIBRARY} || '$libdir/libgpusort_cpu_abi';
my $cases = 25;
# seconds after which a session counts as hanging
my $patience = 5 * $PostgreSQL::Test::Utils::timeout_default;
my @faults = qw(memory_start memory_sort corrupt corrupt_size corrupt_bit corrupt_place corrupt_count corrupt_late
	corrupt_groups no_groups linger late_leader);
# faults after which there is no device for a while
my @deaths = qw(error_up error_sort error_down kill_up kill_sort kill_down);

# standard output is redirected to a log
sub report { print { Test::More->builder->output } @_, "\n" }

# ------------------------------------------------------------------------
# The server
# ------------------------------------------------------------------------
my ($node, $log_read, @algorithms, @settings);

# The preloaded library of the server must not be loaded into this program.
sub with_preload
{
	my ($do) = @_;
	local $ENV{LD_PRELOAD} = join ':', @{ $opt{preload} // [] };

	return $do->();
}

sub start
{
	srand($opt{seed});
	my ($staging, $memory) = (pick(1, 2, 8), pick(16, 64, 256));
	# half of the smallest memory would suffice for no sort
	my $share = $memory > 16 ? pick(50, 100) : 100;
	@ENV{qw(GPUSORT_CPU_ABI_DEVICES GPUSORT_CPU_ABI_WASTE)} = (pick(1, 1, 2, 3), pick(0, 0, 60));

	report "# --seed=$opt{seed} --sessions=$opt{sessions}: $ENV{GPUSORT_CPU_ABI_DEVICES} devices of $memory MB, "
	  . "staging $staging MB";
	$node = with_preload(sub { new_node('fuzz', conf => <<CONF) });
gpusort.device_library = '$library'
gpusort.staging_memory = ${staging}MB
gpusort.device_memory = ${memory}MB
gpusort.device_share = $share
shared_buffers = 64MB
synchronize_seqscans = off
max_worker_processes = 24
max_parallel_workers = 8
CONF
	$log_read = 0;
	@algorithms = split /\n/, $node->safe_psql('postgres', 'SELECT algorithm FROM gpusort_algorithms()');
	push @algorithms, (grep { /^gpu/ } @algorithms) x 2;
	@settings = settings_of($node);
}

sub poll { return $node->poll_query_until('postgres', "SELECT $_[0] FROM gpusort_devices()") }

# The faults of the server's state between two rounds.
sub server_wrong
{
	my @wrong;
	my $log = slurp_file($node->logfile, $log_read);

	$log_read += length $log;
	push @wrong, grep {
		/WARNING:(?!  there is no transaction)|PANIC:|TRAP:|Sanitizer|runtime error|leak|was terminated by signal (?!9)/
	} split /\n/, $log;
	# a server that has crashed does not answer
	return @wrong if grep { /terminated by signal|PANIC|TRAP/ } @wrong;
	push @wrong, 'the device is not free' if !poll('bool_and(coalesce(memory_used, 0) = 0 AND coalesce(jobs, 0) = '
		. '0 AND free_jobs = 64 AND staging_total = staging_free AND waiting = 0)');
	push @wrong, 'a temporary file remains: ' . join ' ', temp_files($node) if temp_files($node);
	return @wrong;
}

# Waits for the service; the pause after killed processes may be long.
sub device_back
{
	return if $node->safe_psql('postgres', "SELECT bool_and(state = 'ready') FROM gpusort_devices()") eq 't';
	with_preload(sub { $node->restart });
	poll("bool_and(state = 'ready')") or die 'the service is not ready';
}

# ------------------------------------------------------------------------
# A session's part of a round
# ------------------------------------------------------------------------
sub settings
{
	my ($deadly, $all) = @_;
	return shape_settings(\@algorithms, parallel => 0.6, faults => [ @faults, $deadly ? @deaths : () ],
		all => $all ? \@settings : undef);
}

# Reports the cases whose output differs, with the statements that repeat them.
sub run_cases
{
	my ($schema, $make, $tables) = @_;
	my $deadly = chance(0.2);
	my @cases = map { oracle_case($tables, sub { settings($deadly, $_[0]) }) } 1 .. $cases;
	my $output = run_sections($node, oracle_script($schema, $make, \@cases), $patience);

	return join "\n", @$make, $output->{''}, $output->{'0 made'} // 'not made'
	  if $output->{''} . ($output->{'0 made'} // 'not made') ne '';
	for my $c (1 .. $cases)
	{
		my $case = $cases[ $c - 1 ];
		my $difference = oracle_difference($case, map { $output->{"$c $_"} } qw(off on left)) // next;

		return join "\n", "$case->{kind}, case $c:", @$make, @{ $case->{settings} },
		  "SELECT setseed($case->{random});", @{ $case->{statements} }, $difference, $output->{"$c plan"} // '';
	}
	return '';
}

# Returns the rows of a query, in order, and its error.
sub rows_of
{
	my ($session, $query) = @_;
	my $answer = $session->parse('', $query)->bind('', '')->execute('', 0)->sync;

	return [ @{ $answer->{rows} }, $answer->{error} ];
}

sub run_portals
{
	my ($schema, $make, $tables) = @_;
	my ($t, $o) = shuffle(@$tables);
	my @set = grep { /^SET/ } settings(0);
	my @queries;

	while (@queries < 3)
	{
		my $query = select_sorted($t, $o);
		push @queries, $query if $query !~ /random/;
	}
	my $s = WireSession->new($node);
	$s->query($_) for "SET search_path = $schema, public", "SET timezone = 'UTC'", 'SET gpusort.enable = off', @set;
	my @want = map { rows_of($s, $_) } @queries;
	$s->query('SET gpusort.enable = on');
	$s->query('BEGIN');

	my (@got, @steps);
	my @open = grep { $want[$_][-1] eq '' } 0 .. $#queries;
	$s->parse("q$_", $queries[$_])->bind("q$_", "q$_") for @open;
	$s->sync;
	while (@open && @steps < 40)
	{
		my $q = pick(@open);
		my $n = pick(1, 2, 50, 700, 0, 1 + int rand 3000);
		my $answer = $s->execute("q$q", $n)->sync;

		push @steps, "q$q $n";
		push @{ $got[$q] }, @{ $answer->{rows} };
		push @{ $got[$q] }, $answer->{error} if $answer->{ends} ne 's';
		@open = $answer->{ends} =~ /E/ ? () : grep { $_ != $q || $answer->{ends} eq 's' } @open;
	}
	$s->query('ROLLBACK');
	$s->quit;
	for my $q (grep { defined $got[$_] } 0 .. $#queries)
	{
		my ($want, $n) = ($want[$q], 0);

		$n++ while $n < @{ $got[$q] } && $got[$q][$n] eq ($want->[$n] // 'no more');
		return join "\n", 'portals:', @$make, @set, (map { "q$_: $queries[$_]" } 0 .. $#queries), 'read: ' . join(', ',
			@steps), "q$q, row $n: want", $want->[$n] // 'no more', 'got', $got[$q][$n] if $n < @{ $got[$q] };
	}
	return '';
}

sub run_session
{
	my ($round, $number) = @_;
	my $schema = "shapes_$number";

	srand(($opt{seed} * 1000 + $round) * 100 + $number);
	my ($tables, @make) = shape_tables(pick(300, 2000, 2000, 20_000));
	# temporary tables belong to their session
	my @lasting = grep { $_->{kind} ne 'temp' } @$tables;
	my $wrong = run_cases($schema, \@make, $tables);

	for (1 .. 4)
	{
		last if $wrong ne '' || @lasting < 2;
		$wrong = run_portals($schema, \@make, $tables);
	}
	return $wrong;
}

# ------------------------------------------------------------------------
# Rounds
# ------------------------------------------------------------------------
sub run_round
{
	my ($round) = @_;
	my @files = map { $node->basedir . "/session.$_" } 1 .. $opt{sessions};
	my @pids;

	unlink @files;
	for my $number (1 .. $opt{sessions})
	{
		my $pid = fork() // die "fork: $!";

		if ($pid == 0)
		{
			my $wrong = eval { run_session($round, $number) } // "$@";
			append_to_file($files[ $number - 1 ], $wrong eq '' ? 'right' : "session $number, $wrong");
			POSIX::_exit(0);
		}
		push @pids, $pid;
	}
	waitpid $_, 0 for @pids;
	return grep { $_ ne 'right' } map { -e $_ ? slurp_file($_) : "$_ is not there" } @files;
}

start();
my $end = time() + 60 * $opt{minutes};
my $round = $opt{round} // 1;
for (;; $round++)
{
	device_back();
	my @wrong = run_round($round);
	push @wrong, server_wrong();
	if (@wrong)
	{
		report join "\n\n", @wrong, "not ok: --seed=$opt{seed} --sessions=$opt{sessions} --round=$round";
		POSIX::_exit(1) if !eval { $node->stop('immediate', fail_ok => 1) };
		exit 1;
	}
	last if defined $opt{round} || time() > $end;
}
report "# $_" for split /\n/, $node->safe_psql('postgres',
	"SELECT algorithm || ': ' || sorts || ' sorts, ' || fallbacks || ' fallbacks' FROM gpusort_stat WHERE sorts > 0");
$node->stop;
report "ok: $round rounds";
