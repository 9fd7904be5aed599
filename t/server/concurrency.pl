# concurrency.pl: many sessions that sort at the same time.
#
# Sorts of all sizes, with threads, with spills and with cancels, while sessions connect and disconnect.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GpuSortTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('concurrency', conf => "max_connections = 60\nshared_buffers = 64MB\n");
$node->safe_psql('postgres', <<SQL);
CREATE TABLE t AS SELECT i AS id, mix(i) AS k, (mix(i) % 50)::int AS h FROM generate_series(1, 50000) i;
VACUUM ANALYZE t;
SELECT gpusort_stat_reset();
SQL

my $script = $node->basedir . '/script.sql';
append_to_file($script, <<'SQL');
\set n random_exponential(1, 50000, 4)
\set mem random(64, 2000)
\set threads random(1, 3)
SET work_mem = :mem;
SET gpusort.threads = :threads;
SELECT must_be_same('SELECT * FROM t WHERE id <= ' || :n || ' ORDER BY k');
SELECT must_be_same('SELECT * FROM t WHERE id <= ' || :n || ' ORDER BY h DESC, id');
SELECT must_be_same('SELECT * FROM t WHERE id <= ' || :n || ' ORDER BY h, k, id LIMIT ' || :mem);
SQL
# -C: a session for each transaction
for my $how ('-M simple', '-M simple -C')
{
	$node->command_ok([ 'pgbench', '-n', split(/ /, $how), '-c', '12', '-j', '2', '-t', '15', '-f', $script,
		'postgres' ],
		"12 sessions, $how");
}
cmp_ok($node->safe_psql('postgres', 'SELECT sum(sorts) FROM gpusort_stat'), '>=', 3 * 2 * 12 * 15,
	'every sort is counted');

# sessions that are cancelled or terminated beside sessions that must not be affected
my @sessions = map { new_session($node) } 1 .. 4;
for my $i (1 .. 20)
{
	for my $s (@sessions)
	{
		my $ms = 1 + int rand 20;
		$s->query("SET work_mem = '" . (64 + int rand 3000) . "kB'; SET gpusort.threads = " . (1 + int rand 3)
			. "; SET statement_timeout = $ms");
		$s->query('SELECT count(*) FROM (SELECT * FROM t ORDER BY k OFFSET 0) s');
		no_timeout($s);
	}
}
session_ok($_, 'cancelled many times') for @sessions;
my $pid = $sessions[0]->query('SELECT pg_backend_pid()');
$sessions[0]->query('BEGIN; DECLARE c CURSOR FOR SELECT * FROM t ORDER BY k; FETCH 5 FROM c;');
is($node->safe_psql('postgres', "SELECT pg_terminate_backend($pid, 180000)"), 't',
	'a session with an open sort is terminated');
session_ok($_, 'after another was terminated') for @sessions[ 1 .. 3 ];
is(scalar(temp_files($node)), 0, 'no file is left');

$_->quit for @sessions[ 1 .. 3 ];
eval { $sessions[0]->quit };
$node->stop;
done_testing();
