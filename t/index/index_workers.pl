# Index builds by several processes: pages are PostgreSQL's, byte by byte, with any number of workers; uniqueness
# across workers, concurrent writes, few or no workers, and errors, cancels and ends of workers.  GPUSORT_SEED repeats a
# run.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GpuSortTest;
use IndexBuilds;
use PostgreSQL::Test::Utils;
use Test::More;

my $seed = $ENV{GPUSORT_SEED} || time();
srand($seed);
note "seed $seed";

my $node = index_node('index_workers', conf => "max_worker_processes = 24\nmax_parallel_workers = 16\n"
	. "min_parallel_table_scan_size = 0\nfsync = off\nmaintenance_work_mem = 256MB\n");
my $workers = 'SET max_parallel_maintenance_workers';

# Builds each definition by ours and by stock; ours by exactly this number of workers.
sub check_workers
{
	my ($n, $name, $prepare, $definitions) = @_;

	$node->safe_psql('postgres', 'SELECT gpusort_stat_reset()');
	check_pairs($node, "$n workers: $name", "$workers = $n; $prepare", $definitions, qr/^tuples$/) or diag "seed $seed";
	is($node->safe_psql('postgres', "SELECT sum(workers) FROM gpusort_index_builds WHERE route = 'tuples'"),
		$n * @$definitions, "$n workers: $name: launched");
}

# --- every kind of key: duplicates across workers, NULLs, HOT chains, dead rows, toasted values
my ($icu) = $node->psql('postgres', 'CREATE COLLATION rules (provider = icu, locale = \'en-US\')');
my $rules = $icu == 0 ? 'rules' : '"C"';
$node->safe_psql('postgres', <<"SQL");
CREATE TABLE t (id int, k bigint, few int, s text, n numeric, u uuid, at timestamptz, f float8, v int[], wide text)
	WITH (fillfactor = 80, parallel_workers = 8);
INSERT INTO t SELECT i, mix(i), CASE WHEN i % 11 > 0 THEN mix(i) % 17 END, 'customer ' || mix(i) % 3000,
	(mix(i) % 100000) / 100.0, md5((mix(i) % 20000)::text)::uuid,
	'2020-01-01Z'::timestamptz + mix(i) % 1000 * '1 s'::interval,
	(ARRAY['NaN', '0', '-0', mix(i)::text])[1 + i % 4]::float8, ARRAY[i % 5, NULL, i % 7],
	CASE WHEN i % 500 = 0 THEN repeat('wide', 900) || i % 3 ELSE 'w' || i % 100 END
FROM generate_series(1, 40000) i;
UPDATE t SET at = at WHERE id % 9 = 0;
UPDATE t SET at = at WHERE id % 27 = 0;
DELETE FROM t WHERE id % 31 = 0;
BEGIN;
INSERT INTO t SELECT * FROM t WHERE id % 5 = 0;
ROLLBACK;
INSERT INTO t SELECT id + 50000, k, few, s, n, u, at, f, v, wide FROM t WHERE id % 7 = 0;
ANALYZE t;
SQL
my @definitions = (
	'CREATE INDEX NAME ON t (k)',
	'CREATE INDEX NAME ON t (few)',
	'CREATE INDEX NAME ON t (few DESC, k) WITH (deduplicate_items = off)',
	'CREATE INDEX NAME ON t (few NULLS FIRST) INCLUDE (id)',
	'CREATE INDEX NAME ON t (s COLLATE "C")',
	"CREATE INDEX NAME ON t (s COLLATE $rules DESC, few)",
	'CREATE INDEX NAME ON t (n) WITH (fillfactor = 50)',
	'CREATE INDEX NAME ON t (u)',
	'CREATE INDEX NAME ON t (at, f)',
	'CREATE INDEX NAME ON t (f)',
	'CREATE INDEX NAME ON t (v, few)',
	'CREATE INDEX NAME ON t (wide)',
	'CREATE INDEX NAME ON t (few, wide, s COLLATE "C") INCLUDE (n)',
	'CREATE INDEX NAME ON t ((k % 100), lower(s))',
	'CREATE INDEX NAME ON t (k) WHERE few = 3',
	'CREATE UNIQUE INDEX NAME ON t (id)',
	'CREATE UNIQUE INDEX NAME ON t (n, id DESC)',
	'CREATE UNIQUE INDEX NAME ON t ((id * 2))',
	'ALTER TABLE t ADD CONSTRAINT NAME UNIQUE (id, k)',
	'CREATE INDEX NAME ON t ((0))');
for my $n (1, 2, 4, 7)
{
	my @some = $ENV{GPUSORT_QUICK} ? map { $definitions[ rand @definitions ] } 1 .. 5 : @definitions;

	check_workers($n, 'in memory', '', \@some);
}
$node->stop;
unlike(slurp_file($node->logfile), qr/WARNING|TRAP|PANIC|terminated by signal/, 'nothing odd in the log');
done_testing();
