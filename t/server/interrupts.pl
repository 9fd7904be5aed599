# interrupts.pl: a sort checks for interrupts at least every 200 ms of CPU time.
#
# Also where one comparison of long values takes milliseconds: the checks go by comparisons, values and file blocks,
# not by rows. The test module measures the longest interval in CPU time of the backend (test/module/interrupts.c).
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GpuSortTest;
use Test::More;
use Time::HiRes qw(time);

# milliseconds of CPU time; one comparison of these values takes up to 10 ms
use constant LONGEST => 200;

my $node = new_node('interrupts', conf => "gpusort.device = off\nshared_buffers = 256MB\n");
$node->safe_psql('postgres', <<SQL);
CREATE FUNCTION interrupts_watch() RETURNS void AS 'gpusort_test' LANGUAGE C;
CREATE FUNCTION interrupts_longest() RETURNS float8 AS 'gpusort_test' LANGUAGE C;
-- strings that differ in their last characters, which pglz makes small
CREATE TABLE long AS SELECT i AS id, repeat('x', 299990) || lpad((mix(i) & 65535)::text, 10, '0') AS t
FROM generate_series(1, 120) i;
CREATE TABLE words AS SELECT i AS id, repeat('ab', 20) || md5(i::text) AS t, 'zz' || md5((i % 100)::text) AS few
FROM generate_series(1, 100000) i;
VACUUM ANALYZE long;
VACUUM ANALYZE words;
SQL

my @collations = grep { $_ ne 'nondeterministic' } create_collations($node);
my ($no_citext) = $node->psql('postgres', 'CREATE EXTENSION citext');

my $text = "SELECT t FROM long WHERE id %% %d = 0 ORDER BY t";
# computed values, which are not toasted
my $plain = "SELECT t FROM (SELECT t || 'y' AS t FROM long WHERE id %% %d = 0 OFFSET 0) s ORDER BY t";
my @cases = (
	[ 'toasted strings by bytes', '1GB', sprintf($text, 1) . ' COLLATE "C"' ],
	[ 'strings by bytes', '1GB', sprintf($plain, 1) . ' COLLATE "C"' ],
	[ 'strings by bytes, merged', '1MB', sprintf($plain, 1) . ' COLLATE "C"' ],
	[ 'the first strings by bytes', '4MB', sprintf($plain, 1) . ' COLLATE "C" LIMIT 5' ],
	[ 'blank-padded strings', '1GB', 'SELECT t FROM long ORDER BY t::bpchar COLLATE "C"' ],
	[ 'arrays', '1GB', 'SELECT t FROM (SELECT array_fill(id % 2, array[100000]) || id AS t FROM long OFFSET 0) s '
	  . 'ORDER BY t' ],
	[ 'arrays, merged', '1MB', 'SELECT t FROM (SELECT array_fill(id % 2, array[100000]) || id AS t FROM long '
	  . 'WHERE id % 5 = 0 OFFSET 0) s ORDER BY t' ],
	[ 'jsonb', '1GB', 'SELECT t FROM (SELECT (SELECT jsonb_agg(1) || to_jsonb(id) FROM generate_series(1, 10000)) AS t '
	  . 'FROM long OFFSET 0) s ORDER BY t' ],
	[ 'numerics', '1GB', q(SELECT t FROM (SELECT (repeat('9', 100000) || id)::numeric AS t FROM long OFFSET 0) s )
	  . 'ORDER BY t' ],
	[ 'records', '1GB', 'SELECT t FROM (SELECT row(t, id) AS t FROM long OFFSET 0) s ORDER BY t' ]);
for my $collation (@collations)
{
	push @cases, [ "$collation: toasted strings", '1GB', sprintf($text, 1) . qq( COLLATE "$collation") ],
	  [ "$collation: strings", '1GB', sprintf($plain, 4) . qq( COLLATE "$collation") ],
	  [ "$collation: merged", '1MB', sprintf($plain, 6) . qq( COLLATE "$collation") ],
	  [ "$collation: the first", '1GB', sprintf($text, 4) . qq( COLLATE "$collation" LIMIT 3) ],
	  [ "$collation: short strings", '256MB', qq(SELECT t FROM words ORDER BY t COLLATE "$collation") ],
	  [ "$collation: short strings, merged", '2MB', qq(SELECT t FROM words ORDER BY t COLLATE "$collation") ],
	  [ "$collation: a hundred strings", '256MB', qq(SELECT t FROM words ORDER BY few COLLATE "$collation") ];
	push @cases, [ "$collation: citext", '1GB', qq(SELECT t FROM long ORDER BY t::citext COLLATE "$collation") ]
	  unless $no_citext;
}

my $s = new_session($node);
$s->query('SET gpusort.threads = 1');
for my $verify ('off', 'on')
{
	$s->query("SET gpusort.verify = $verify");
	for my $case (@cases)
	{
		my ($name, $mem, $sql) = @$case;

		next if $verify eq 'on' && $name !~ /by bytes/;
		$s->query("SET work_mem = '$mem'; SELECT interrupts_watch()");
		is($s->query("SELECT sort_nodes('" . ($sql =~ s/'/''/gr) . "')"), 'GpuSort', "$name: GpuSort runs");
		my $start = time;
		$s->query("SELECT count(*) FROM ($sql OFFSET 0) s");
		my $longest = $s->query('SELECT interrupts_longest()');
		note sprintf('%s, verify %s: %.1f ms of %.1f s', $name, $verify, $longest, time - $start);
		cmp_ok($longest, '<', LONGEST, "$name, verify $verify: the longest time without a check for interrupts");
		is($s->{stderr}, '', "$name: no error");
		$s->{stderr} = '';
	}
}

# a timeout during the sort
for my $collation (@collations)
{
	my $start = time;

	$s->query('SET gpusort.verify = off; SET statement_timeout = 100');
	$s->query(qq(SELECT count(*) FROM (SELECT t FROM long ORDER BY t || 'y' COLLATE "$collation", id OFFSET 0) s));
	my $took = time - $start;
	note sprintf('%s: %.2f s', $collation, $took);
	cmp_ok($took, '<', 5, "$collation: a timeout of 100 ms is honoured");
	no_timeout($s);
}
$s->quit;
$node->stop;
done_testing();
