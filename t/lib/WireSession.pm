# WireSession.pm: a client of PostgreSQL's wire protocol that reads portals in pieces.
#
#	my $s = WireSession->new($node)
#	$s->query($sql)				a statement by the simple protocol
#	$s->parse($name, $sql)		a prepared statement
#	$s->bind($portal, $name)	a portal of it
#	$s->execute($portal, $n)	the next n rows of the portal; 0: all remaining rows
#	my $answer = $s->sync		the answers since the last sync: { rows => [ ... ], ends => a letter for each Execute
#								(s: suspended, C: complete, E: error), error => messages }
#	$s->quit
package WireSession;

use strict;
use warnings;

use IO::Socket::UNIX;

sub new
{
	my ($class, $node) = @_;
	my $user = $node->safe_psql('postgres', 'SELECT current_user');
	my $socket = IO::Socket::UNIX->new(Peer => $node->host . '/.s.PGSQL.' . $node->port) or die "no connection: $!";
	my $self = bless { socket => $socket }, $class;
	my $start = pack('N', 196608) . "user\0$user\0database\0postgres\0\0";

	$socket->autoflush(1);
	print $socket pack('N', 4 + length $start), $start;
	$self->answer;
	return $self;
}

sub put
{
	my ($self, $type, $body) = @_;
	my $socket = $self->{socket};

	print $socket $type, pack('N', 4 + length $body), $body;
	return $self;
}

sub take
{
	my ($self, $n) = @_;
	my $bytes = '';

	while (length $bytes < $n)
	{
		sysread($self->{socket}, $bytes, $n - length $bytes, length $bytes) or die 'the session ended';
	}
	return $bytes;
}

# Reads messages up to ReadyForQuery.
sub answer
{
	my ($self) = @_;
	my %answer = (rows => [], ends => '', error => '');

	while (1)
	{
		my ($type, $length) = unpack 'aN', $self->take(5);
		my $body = $self->take($length - 4);

		return \%answer if $type eq 'Z';
		$answer{ends} .= $type if $type =~ /[sCE]/;
		$answer{error} .= $body =~ /\0M([^\0]*)/ ? $1 : $body if $type eq 'E';
		next unless $type eq 'D';
		my ($columns, @row) = unpack 'n', $body;
		my $at = 2;
		for (1 .. $columns)
		{
			my $size = unpack 'l>', substr($body, $at, 4);
			push @row, $size < 0 ? '' : substr($body, $at + 4, $size);
			$at += 4 + ($size < 0 ? 0 : $size);
		}
		push @{ $answer{rows} }, join '|', @row;
	}
}

sub query { my ($self, $sql) = @_; return $self->put('Q', "$sql\0")->answer }
sub parse { my ($self, $name, $sql) = @_; return $self->put('P', "$name\0$sql\0" . pack('n', 0)) }
sub bind { my ($self, $portal, $name) = @_; return $self->put('B', "$portal\0$name\0" . pack('nnn', 0, 0, 0)) }
sub execute { my ($self, $portal, $n) = @_; return $self->put('E', "$portal\0" . pack('N', $n)) }
sub sync { my ($self) = @_; return $self->put('S', '')->answer }
sub quit { my ($self) = @_; $self->put('X', ''); close $self->{socket} }

1;
