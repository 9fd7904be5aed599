# leaks.pl: memory contexts and process memory do not grow.
#
# Over 10,000 executions of a prepared statement, and over rescans, errors and spills.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GpuSortTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('leaks');
$node->safe_psql('postgres', <<SQL);
CREATE TABLE small AS SELECT i AS id, mix(i) AS k, i % 3 AS three FROM generate_series(1, 100) i;
CREATE TABLE large AS SELECT i AS id, mix(i) AS k, repeat('x', 30) AS p FROM generate_series(1, 20000) i;
VACUUM ANALYZE;
SQL

my %statements = (
	'prepared ORDER BY' => [ 10_000,
		'PREPARE p (int) AS SELECT count(*) FROM (SELECT * FROM small WHERE id > $1 ORDER BY k OFFSET 0) s',
		'EXECUTE p (0)' ],
	'ties' => [ 2000, 'PREPARE p AS SELECT count(*) FROM (SELECT * FROM small ORDER BY three::int8, (three + 1)::int8, '
		. '(three + 2)::int8, k OFFSET 0) s', 'EXECUTE p' ],
	'unprepared' => [ 2000, 'SELECT 1', 'SELECT count(*) FROM (SELECT * FROM small ORDER BY k, id DESC OFFSET 0) s' ],
	'rescans' => [ 200, 'PREPARE p AS SELECT count(*) FROM small o, LATERAL (SELECT k FROM small i WHERE i.three = '
		. 'o.three ORDER BY i.k OFFSET 0) s', 'EXECUTE p' ],
	'stopped early' => [ 2000, 'PREPARE p AS SELECT k FROM small ORDER BY k OFFSET 3 LIMIT 1', 'EXECUTE p' ],
	'errors' => [ 2000, 'PREPARE p AS SELECT sum(x) FROM (SELECT 1 / (id - 90) AS x FROM small ORDER BY k OFFSET 0) s',
		'EXECUTE p' ],
	'spills' => [ 200, "SET work_mem = '64kB'", 'SELECT count(*) FROM (SELECT * FROM large ORDER BY k OFFSET 0) s' ],
	'large' => [ 300, "SET work_mem = '64MB'", 'SELECT count(*) FROM (SELECT * FROM large ORDER BY k OFFSET 0) s' ],
	'merge joins' => [ 500, "SET enable_hashjoin = off; SET enable_nestloop = off",
		'SELECT count(*) FROM small a JOIN small b ON a.three = b.three' ]);

my $contexts = 'SELECT sum(total_bytes) FROM pg_backend_memory_contexts';

for my $name (sort keys %statements)
{
	my ($times, $setup, $sql) = @{ $statements{$name} };
	my $s = new_session($node);
	my $pid = $s->query('SELECT pg_backend_pid()');
	my $errors = 0;
	my $run = sub {
		my ($n) = @_;
		# many statements for each write to psql
		while ($n > 0)
		{
			my $block = $n < 500 ? $n : 500;
			$s->query("\\o /dev/null\n" . "$sql;\n" x $block . "\\o\n");
			$errors += () = $s->{stderr} =~ /division by zero/g;
			$s->{stderr} = '' if $name eq 'errors';
			$n -= $block;
		}
	};

	$s->query($setup);
	$s->query($contexts);
	$run->($times / 10);
	my ($bytes, $rss) = ($s->query($contexts), memory_of($pid, 'VmRSS'));
	$run->($times);
	my ($bytes2, $rss2) = ($s->query($contexts), memory_of($pid, 'VmRSS'));
	is($s->{stderr}, '', "$name: no error");
	is($errors, $name eq 'errors' ? 1.1 * $times : 0, "$name: every expected error is reported");
	note "$name: contexts $bytes to $bytes2 bytes, resident $rss to $rss2 kB";
	cmp_ok($bytes2, '<=', $bytes + 65536, "$name: $times times, contexts do not grow");
	cmp_ok($rss2, '<=', $rss + 2048, "$name: $times times, the process does not grow");
	$s->quit;
}

$node->stop;
done_testing();
