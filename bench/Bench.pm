# Bench.pm: a private cluster for query benchmarks, and its sessions.
#
#	help()							prints the comment at the head of the script, and exits.
#	contents($file)					a file's text
#	cluster($name, $conf)			starts a cluster with the extension of this tree and the settings $conf.  The
#									cluster is removed when the process ends.
#	server_conf($size, @lines)		lines of postgresql.conf: a server with shared_buffers of this size
#	session()						starts a psql.  Returns a function that sends statements and returns their output.
#	median(@values), geometric_mean(@values)
#	machine($ask)					the processor's name, number of cores, GiB of memory, the server's version
#	cpu_ms($pid), children_ms($pid)	ms of the processor that a process has used, or its children that ended
#	await_devices($ask, $seconds)	waits until the device service has started; returns the ready GPUs' names
#	csv($file, $head)				opens a CSV file, or none; returns a function that appends a record
#	query_list($only, $groups)		query_list.pl, and those of its queries that match the options
#	loop_procedure($ask)			creates run_many(statement, times)
#	load_table($ask, $list, $table, $rows)	creates and fills a table of query_list.pl, unless it exists.  A table of
#									$list->{ordered} is a sorted copy of its source, which must exist, with an index.
package Bench;

use strict;
use warnings;

use Exporter 'import';
use FindBin;
use IPC::Open2;
use POSIX ();

our @EXPORT = qw(help contents cluster server_conf session median geometric_mean machine cpu_ms children_ms
	await_devices csv query_list loop_procedure load_table);

my ($keeper, $to);

sub help
{
	open my $self, '<', $0 or die;
	<$self>;
	while (<$self>) { last unless s/^# ?//; print }
	exit 0;
}

sub contents
{
	my ($file) = @_;

	open my $in, '<', $file or die "$file: $!\n";
	local $/;
	return scalar <$in>;
}

sub server_conf
{
	my ($buffers, @lines) = @_;

	return join "\n", <<CONF, @lines, '';
shared_preload_libraries = 'gpusort'
shared_buffers = $buffers
huge_pages = try
max_wal_size = 32GB
wal_level = minimal
max_wal_senders = 0
checkpoint_timeout = 1h
autovacuum = off
jit = off
max_worker_processes = 64
max_parallel_workers = 64
timezone = 'UTC'
CONF
}

# A shell starts the cluster and removes it when its standard input is closed.
sub cluster
{
	my ($name, $conf) = @_;
	my $from;

	$keeper = open2($from, $to, 'bash', '-c', <<'SH', "$FindBin::RealBin/..", $name, $conf) or die;
cd "$0" && . test/private-cluster.sh
{ pc_begin "$1" && make -s all && pc_install && pc_start <<<"$2"; } >&2
echo "$PGHOST $PGPORT $PGUSER $PC_BIN"
cat >/dev/null
SH
	my $line = <$from> // '';
	my ($host, $port, $user, $bin) = split ' ', $line or die "no cluster\n";
	$ENV{PGHOST} = $host; $ENV{PGPORT} = $port; $ENV{PGUSER} = $user; $ENV{PGDATABASE} = 'postgres';
	$ENV{PATH} = "$bin:$ENV{PATH}";
	$SIG{INT} = $SIG{TERM} = sub { exit 1 };
}
END { if ($keeper) { my $rc = $?; close $to; waitpid $keeper, 0; $? = $rc } }

sub session
{
	my ($out, $in);

	open2($out, $in, 'psql', '-X', '-q', '-A', '-t', '-v', 'ON_ERROR_STOP=1');
	return sub {
		my ($sql) = @_;
		my $answer = '';
		$sql .= ';' unless $sql =~ /;\s*\z/;
		print $in "$sql\n\\echo :::\n";
		$in->flush;
		while (defined(my $l = <$out>))
		{
			return $answer if $l eq ":::\n";
			$answer .= $l;
		}
		die "the session ended at: $sql\n";
	};
}

sub median
{
	my @v = sort { $a <=> $b } @_;
	return @v % 2 ? $v[ $#v / 2 ] : ($v[ @v / 2 - 1 ] + $v[ @v / 2 ]) / 2;
}

sub geometric_mean
{
	my $sum = 0;
	$sum += log($_) for @_;
	return exp($sum / @_);
}

sub machine
{
	my ($ask) = @_;
	my $info = contents('/proc/cpuinfo');
	my ($cpu) = $info =~ /^model name\s*:\s*(.*)/m;
	my $cores = () = $info =~ /^processor/mg;
	my ($kilobytes) = contents('/proc/meminfo') =~ /^MemTotal:\s*(\d+)/m;

	return ($cpu // 'unknown', $cores, int($kilobytes / 1048576 + 0.5),
		$ask->("SELECT split_part(version(), ' on ', 1)") =~ s/\n//r);
}

sub cpu_ms { return (split ' ', contents("/proc/$_[0]/schedstat"))[0] / 1e6 }

# The system counts it in ticks.
sub children_ms
{
	my @stat = split ' ', contents("/proc/$_[0]/stat") =~ s/^.*\) //sr;

	return ($stat[13] + $stat[14]) * 1000 / POSIX::sysconf(POSIX::_SC_CLK_TCK());
}

sub await_devices
{
	my ($ask, $seconds) = @_;

	for (1 .. 5 * $seconds)
	{
		last if $ask->("SELECT bool_and(state !~ 'starting|down') FROM gpusort_devices()") =~ /t/;
		select undef, undef, undef, 0.2;
	}
	return $ask->("SELECT string_agg(name, ', ') FROM gpusort_devices() WHERE state = 'ready'") =~ s/\n//r;
}

sub csv
{
	my ($file, $head) = @_;

	return sub { } unless defined $file;
	open my $out, '>>', $file or die "$file: $!\n";
	print $out "$head\n" if -z $file;
	return sub {
		print $out join(',', map { my $f = ($_ // '') =~ s/"/""/gr; $f =~ /[",]/ ? qq("$f") : $f } @_), "\n";
		$out->flush;
	};
}

sub query_list
{
	my ($only, $groups) = @_;
	my $list = do "$FindBin::RealBin/query_list.pl" or die $@ || $!;
	my %wanted = map { $_ => 1 } split /,/, $groups;
	my @queries = grep { (!%wanted || $wanted{ $_->{group} }) && ($_->{name} =~ /$only/ || $_->{sql} =~ /$only/) }
	  @{ $list->{queries} };

	die "no such query\n" unless @queries;
	return ($list, @queries);
}

sub loop_procedure
{
	$_[0]->(<<'SQL');
CREATE PROCEDURE run_many(statement text, times int) LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1..times LOOP EXECUTE statement; END LOOP;
END $$;
SQL
}

my %built;
sub load_table
{
	my ($ask, $list, $table, $rows) = @_;
	return if $built{$table}++;
	if (my $ordered = $list->{ordered}{$table})
	{
		print STDERR "loading $table\n";
		$ask->("SET work_mem = '1GB'; CREATE TABLE $table AS SELECT * FROM $ordered->{of} ORDER BY $ordered->{by}; "
			  . "RESET work_mem; CREATE INDEX ON $table ($ordered->{by}); VACUUM (ANALYZE, FREEZE) $table; "
			  . "SELECT count(*) FROM $table;");
		return;
	}
	my $n = $list->{sizes}{$table} // $rows;
	print STDERR "loading $table, $n rows\n";
	$ask->("SELECT setseed(0.25); CREATE TABLE $table AS $list->{tables}{$table} FROM generate_series(1, $n) i; "
		  . "VACUUM (ANALYZE, FREEZE) $table; SELECT count(*) FROM $table;");
}

1;
