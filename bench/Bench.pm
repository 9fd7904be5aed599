# Bench.pm: a private cluster for query benchmarks, and its sessions.
#
#	help()							prints the comment at the head of the script, and exits.
#	cluster($root, $name, $conf)	starts a cluster with the extension of the tree $root and the settings $conf.  The
#									cluster is removed when the process ends.
#	session()						starts a psql.  Returns a function that sends statements and returns their output.
#	median(@values), geometric_mean(@values)
#	load_table($ask, $list, $table, $rows)	creates and fills a table of query_list.pl, unless it exists.  A table of
#									$list->{ordered} is a sorted copy of its source, which must exist, with an index.
package Bench;

use strict;
use warnings;

use Exporter 'import';
use IPC::Open2;

our @EXPORT = qw(help cluster session median geometric_mean load_table);

my ($keeper, $to);

sub help
{
	open my $self, '<', $0 or die;
	<$self>;
	while (<$self>) { last unless s/^# ?//; print }
	exit 0;
}

# A shell starts the cluster and removes it when its standard input is closed.
sub cluster
{
	my ($root, $name, $conf) = @_;
	my $from;

	$keeper = open2($from, $to, 'bash', '-c', <<'SH', $root, $name, $conf) or die;
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
