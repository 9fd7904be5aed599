# portals.pl: parallel sorts whose result is read in pieces.
#
# On the CPU and in one job of a device: portals with a row limit, pipelines, cursors of SQL and PL/pgSQL, loops with
# commits, and parallel plans that get no workers. The rows come in the stock Sort's order, and EXPLAIN shows the
# expected plan. GPUSORT_TEST_LIBRARY names another GPU library than the fake device.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GpuSortTest;
use Test::More;
use WireSession;

seed_random();

my $library = $ENV{GPUSORT_TEST_LIBRARY} || '$libdir/libgpusort_cpu_abi';
my $node = new_node('portals', parallel => 1, conf => <<CONF);
gpusort.device_library = '$library'
gpusort.device = 0
gpusort.staging_memory = 8MB
gpusort.device_memory = 256MB
shared_buffers = 64MB
CONF

my $n = 20000;
$node->safe_psql('postgres', <<SQL);
CREATE TABLE t AS SELECT i AS id, (mix(i) % 500)::int AS k, NULLIF(mix(i * 3) % 90, 7)::int8 AS v,
	repeat('x', (mix(i * 7) % 40)::int) AS p FROM generate_series(1, $n) i;
VACUUM ANALYZE t;
CREATE TABLE seen (nr serial, id bigint);
CREATE PROCEDURE with_commits(by int) LANGUAGE plpgsql AS \$\$
DECLARE r record; i int := 0;
BEGIN
	FOR r IN SELECT id, k FROM t ORDER BY k, id LOOP
		INSERT INTO seen (id) VALUES (r.id);
		i := i + 1;
		IF i % by = 0 THEN COMMIT; END IF;
	END LOOP;
END \$\$;
CREATE FUNCTION by_cursor(OUT had bigint[]) LANGUAGE plpgsql AS \$\$
DECLARE c CURSOR FOR SELECT id, k FROM t ORDER BY k, id; r record;
BEGIN
	OPEN c;
	LOOP
		FETCH c INTO r;
		EXIT WHEN NOT FOUND OR r.k > 40;
		had := had || r.id;
	END LOOP;
	CLOSE c;
END \$\$;
SQL
device_ready($node, 'start');

my $query = 'SELECT id, k, v, p FROM t ORDER BY k, id';
my @want = split /\n/, $node->safe_psql('postgres', "SET gpusort.enable = off; $query");
my @ids = map { /^(\d+)/ } @want;

# Compares rows; reports the number of rows and the first row that differs.
sub same
{
	my ($got, $want, $name) = @_;
	my ($first) = grep { ($got->[$_] // '') ne ($want->[$_] // '') } 0 .. (@$got > @$want ? $#$got : $#$want);

	is(@$got . ' rows, first difference: ' . ($first // 'none'), @$want . ' rows, first difference: none',
		$name);
}

for my $where ('off', 'device')
{
	my $set = $where eq 'off' ? "SET gpusort.device = off" : 'SET gpusort.algorithm = gpu_radix';
	my $leader = pick('on', 'off');
	my $memory = pick('64kB', '64MB');
	my $name = "device $where, leader $leader, $memory";
	my $settings = "$set; SET parallel_leader_participation = $leader; SET work_mem = '$memory'";
	my $s = WireSession->new($node);

	$s->query($_) for split /; /, $settings;
	my $plan = join "\n", @{ $s->query("EXPLAIN (ANALYZE, COSTS OFF) $query")->{rows} };
	like($plan, qr/^Custom Scan \(GpuSort\).*Gather.*\(GpuSort Feed\)/s, "$name: a parallel plan");
	like($plan, $where eq 'off' ? qr/Sort Streams/ : qr/Sort Device: rows/, "$name: the CPU or the device sorts");

	# a prepared plan, read at once and in pieces; then the same without available workers
	$s->query('SET plan_cache_mode = force_generic_plan');
	$s->parse('kept', $query);
	for my $workers (8, 0)
	{
		$s->query("SET max_parallel_workers = $workers");
		$s->bind('', 'kept')->execute('', 0);
		my $whole = $s->sync;
		same($whole->{rows}, \@want, "$name, $workers workers: a portal read at once");
		is($whole->{ends}, 'C', "$name, $workers workers: complete");

		$s->query('BEGIN');
		$s->bind('one', 'kept')->bind('other', 'kept');
		my (%rows, $ends);
		for my $piece (1, 10, pick(2 .. 3000), pick(1 .. 3000), 50)
		{
			for my $portal ('one', 'other')
			{
				my $answer = $s->execute($portal, $piece)->sync;
				push @{ $rows{$portal} }, @{ $answer->{rows} };
				$ends .= $answer->{ends};
			}
		}
		is($ends, 's' x 10, "$name, $workers workers: portals are suspended");
		my $rest = $s->execute('one', 0)->sync;
		same([ @{ $rows{one} }, @{ $rest->{rows} } ], \@want, "$name, $workers workers: a portal in pieces");
		same($rows{other}, [ @want[ 0 .. $#{ $rows{other} } ] ],
			"$name, $workers workers: a second portal, closed early");
		is($s->query('COMMIT')->{ends}, 'C', "$name, $workers workers: the transaction ends");
	}
	$s->query('RESET max_parallel_workers');

	# a pipeline: the second statement fails after it returned rows, the third is not run
	$s->parse('bad', 'SELECT id, 100 / (k - 250) AS x FROM t ORDER BY v, id');
	my $pipeline = $s->bind('', 'kept')->execute('', 0)->bind('', 'bad')->execute('', 0)->bind('', 'kept')
		->execute('', 0)->sync;
	is($pipeline->{ends}, 'CE', "$name: a pipeline with an error");
	like($pipeline->{error}, qr/division by zero/, "$name: ... which is reported");
	same($pipeline->{rows}, \@want, "$name: ... and the rows before it");
	same($s->bind('', 'kept')->execute('', 0)->sync->{rows}, \@want, "$name: the session sorts again");

	# a timeout between two pieces frees all resources
	$s->query('BEGIN');
	$s->bind('left', 'kept')->execute('left', 5)->sync;
	$s->query("SET LOCAL statement_timeout = '20ms'");
	like($s->query('SELECT pg_sleep(10)')->{error}, qr/statement timeout/, "$name: a timeout beside a portal");
	$s->query('ROLLBACK');

	# cursors
	my $cursor = $node->safe_psql('postgres', <<SQL);
$settings;
BEGIN;
DECLARE s SCROLL CURSOR FOR SELECT id FROM t ORDER BY k, id;
DECLARE h CURSOR WITH HOLD FOR SELECT id FROM t ORDER BY k, id;
FETCH 300 FROM s;
FETCH BACKWARD 100 FROM s;
FETCH 7 FROM h;
COMMIT;
FETCH ALL FROM h;
SQL
	same([ split /\n/, $cursor =~ s/^\n+//r ], [ @ids[ 0 .. 299 ], reverse(@ids[ 199 .. 298 ]), @ids ],
		"$name: cursors, backwards and held");
	my $had = $node->safe_psql('postgres', "$settings; SELECT array_to_string(by_cursor(), ',')") =~ s/^\n+//r;
	same([ split /,/, $had ],
		[ map { (split /\|/)[1] <= 40 ? /^(\d+)/ : () } @want ], "$name: a cursor of PL/pgSQL, closed early");
	for my $by (10, 3000)
	{
		same([ split /\n/, $node->safe_psql('postgres',
			"$settings; TRUNCATE seen RESTART IDENTITY; CALL with_commits($by); SELECT id FROM seen ORDER BY nr")
			=~ s/^\n+//r ], \@ids, "$name: a loop that commits after $by rows");
	}
	same([ split /\n/, $node->safe_psql('postgres', "$settings; COPY ($query) TO STDOUT (DELIMITER '|', NULL '')")
		=~ s/^\n+//r ], \@want, "$name: COPY");
	$s->quit;
	device_unused($node, $name);
}

ok($node->poll_query_until('postgres',
	"SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'parallel worker'"), 'no worker remains');
is(scalar(temp_files($node)), 0, 'no temporary file remains');
$node->stop;
done_testing();
