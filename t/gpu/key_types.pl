# key_types.pl: keys of all types on a device.
#
# In row mode and in key mode, with ties that the host resolves, and with keys sent ahead of rows that then differ
# from the rows before. GPUSORT_TEST_LIBRARY names another GPU library than the fake device.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GpuSortTest;
use Test::More;

my $library = $ENV{GPUSORT_TEST_LIBRARY} || '$libdir/libgpusort_cpu_abi';
my $node = new_node('device_types', conf => <<CONF);
gpusort.device_library = '$library'
gpusort.device = 0
gpusort.staging_memory = 8MB
gpusort.device_memory = 512MB
CONF
device_ready($node, 'start');

device_route_function($node);
my $rows = 20_000;
$node->safe_psql('postgres', <<SQL);
CREATE TYPE mood AS ENUM ('sad', 'so so', 'glad', 'happy');
CREATE TABLE t AS SELECT i AS id, md5((mix(i) % 9000)::text)::uuid AS u, right(md5((mix(i) % 9000)::text),
	16)::macaddr8 AS mac,
	make_interval(months => (mix(i) % 5)::int - 2, days => (mix(i * 3) % 61)::int, secs => mix(i * 5) % 3) AS s,
	(time '00:00' + (mix(i) % 86400) * interval '1 second')::text::timetz AS z, (mix(i) % 7000 || '/' || mix(i) %
		3)::pg_lsn AS lsn,
	repeat('long common prefix ', 4) || mix(i) % 5000 AS p, md5((mix(i) % 9000)::text) || mix(i * 3) % 2 AS x,
	decode(md5((mix(i) % 9000)::text), 'hex') || '\\x0000'::bytea AS b,
	CASE WHEN i % 9 > 0 THEN (mix(i) % 5000 - 2500)::numeric / 100 * CASE WHEN i % 7 = 0 THEN 1e30 + 1e-20 ELSE 1 END
		END AS n,
	CASE WHEN i % 3 = 0 THEN ('10.0.' || mix(i) % 9 || '.' || mix(i * 3) % 256)::inet ELSE ('fe80::' || mix(i) % 500
		|| '/' || 100 + i % 29)::inet END AS h,
	(enum_range(NULL::mood))[1 + i % 5] AS e, substr(md5((mix(i) % 9000)::text), 1, 4)::text COLLATE "C" AS few,
		(mix(i) % 3000)::bit(60) || mix(i * 3)::bit(32) AS bits,
	ARRAY[mix(i) % 100, mix(i * 3) % 100] AS a, int8range(mix(i) % 3000, 3000 + mix(i * 3) % 5) AS r, ROW(mix(i) % 50,
		mix(i * 3) % 2000)::text AS rec
FROM generate_series(1, $rows) i;
VACUUM ANALYZE t;
ALTER DATABASE postgres SET gpusort.algorithm = 'gpu_radix';
SQL

# Sorts in key mode, whose keys are sent before all rows are in: a merge join above them marks and restores, so that row
# mode is not used.
my $merge = 'SET gpusort.merge_joins = off; SET enable_hashjoin = off; SET enable_nestloop = off; '
	. 'SET enable_material = off;';
sub joined
{
	my ($tab, $order, $where) = @_;
	my ($col, $coll) = $order =~ /^(\w+)(.*)$/;

	return "SELECT count(*), sum(b.id) FROM $tab a JOIN $tab b ON a.$col$coll = b.$col$coll AND a.id = 77 WHERE $where";
}
# types whose normalized keys are exact
my %exact = map { $_ => 1 } qw(u mac s z lsn);
my %orders = ((map { $_ => $_ } qw(u mac s z lsn b n h e bits a r)),
	(map { $_ => "$_ COLLATE \"C\"" } qw(p x few rec)));
my %modes = (keys => '64MB', rows => '256kB');

for my $mode (sort keys %modes)
{
	for my $col (sort keys %orders)
	{
		my @queries = map { "SELECT id, $col, e FROM t ORDER BY $_" } ("$orders{$col}, id",
			"$orders{$col} DESC NULLS LAST, id", "e, $orders{$col}, id");
		# equal values are identical, so that their order does not matter
		push @queries, "SELECT $col FROM t ORDER BY $col", "SELECT $col FROM t ORDER BY $col DESC"
			if $exact{$col} && $col ne 's';
		for my $q (@queries)
		{
			is($node->safe_psql('postgres',
				"SET work_mem = '$modes{$mode}'; SELECT nodes || ' ' || rows || ' ' || result FROM check_sort('$q')"),
				"GpuSort $rows same", "$mode: $q");
		}
		my $route = $node->safe_psql('postgres',
			"SET work_mem = '$modes{$mode}'; SELECT route('SELECT id, $col FROM t ORDER BY $orders{$col}')");
		like($route, qr/^$mode: gpu radix: /, "$mode: $col: on the GPU");
		# many values share their first key word
		like($route, qr/\(prefix\).*[1-9]\d* ties compared/, "$mode: $col, ties")
			if $col =~ /^(p|x|b|bits|a|r)$/;
	}
	is($node->safe_psql('postgres', "SET work_mem = '$modes{$mode}'; SELECT result FROM check_stable('(SELECT *, "
		. "row_number() OVER () AS seq FROM t) t2', '$_')"),
		'same', "$mode: equal rows keep their order: $_") for qw(u s n x a);
	device_unused($node, $mode);
}

# The last rows differ from all rows before in five ways.  Strings have another prefix.  Other strings are longer than
# their normalized key.  Numbers have more decimals.  A value is NULL.  Addresses are of the other family.
my $late = $rows - 1000;
$node->safe_psql('postgres', <<SQL);
CREATE TABLE late AS SELECT i AS id, i >= $late AS of_late, CASE WHEN i < $late THEN 'common ' ELSE 'other ' END ||
	mix(i) % 3000 AS p,
	CASE WHEN i < $late THEN 'k' ELSE repeat('k', 12) END || mix(i) % 3000 AS more,
	(mix(i) % 3000)::numeric / CASE WHEN i < $late THEN 100 ELSE 1000003 END AS n, CASE WHEN i <> $late THEN
		md5(mix(i)::text) END AS x,
	CASE WHEN i < $late THEN inet '10.0.0.0' ELSE inet 'fe80::' END + mix(i) % 3000 AS h
FROM generate_series(1, $rows) i;
VACUUM ANALYZE late;
SQL
for my $col (map { $_ . (/^[nh]$/ ? '' : ' COLLATE "C"') } qw(p more n x h))
{
	for my $order ("$col, id", "$col DESC, id DESC")
	{
		is($node->safe_psql('postgres', "SET work_mem = '64MB'; SELECT nodes || ' ' || result FROM check_sort('SELECT "
			. "* FROM late ORDER BY $order')"),
			'GpuSort same', "late: $order");
	}
	is($node->safe_psql('postgres', "$merge SET work_mem = '64MB'; " . joined('late', $col, 'true')),
		$node->safe_psql('postgres', "$merge SET gpusort.enable = off; " . joined('late', $col, 'true')),
		"late: $col, joined");
	like($node->safe_psql('postgres', "SET work_mem = '64MB'; SELECT route('SELECT * FROM late ORDER BY $col')"),
		qr/^keys: gpu radix: /, "late: $col: on the GPU");
}
device_unused($node, 'late');

# Row mode with types whose keys can be inexact, and are exact here: amounts, addresses of one family, short bits.
$node->safe_psql('postgres', <<SQL);
CREATE TABLE exact_here AS SELECT i AS id,
	CASE WHEN i % 9 > 0 THEN (mix(i) % 5000 - 2500)::numeric(12,2) / 100 END AS n,
	(mix(i) % 70000)::numeric / 1024 AS fine, inet '10.0.0.0' + mix(i) % 7000 AS h, (mix(i) % 3000)::bit(40) AS bits,
	(enum_range(NULL::mood))[1 + i % 4] AS e, i AS seq, repeat('x', i % 30) AS pad
FROM generate_series(1, $rows) i;
VACUUM ANALYZE exact_here;
SQL
my $small = "SET work_mem = '256kB';";
for my $keys ('n', 'n DESC', 'n NULLS FIRST, id DESC', 'fine', 'h DESC', 'bits', 'n DESC, id', 'h, id', 'id, n')
{
	is($node->safe_psql('postgres', "$small SELECT nodes || ' ' || result FROM check_stable('exact_here', '$keys')"),
		'GpuSort same', "exact keys: $keys");
	like($node->safe_psql('postgres', "$small SELECT route('SELECT * FROM exact_here ORDER BY $keys')"),
		qr/^rows: gpu radix: /, "exact keys: rows by $keys on the GPU");
}
# a late row with an inexact key ends the device's part, which is merged; for rows read by page and one by one
for my $key ('n', 'h', 'n DESC', 'h DESC')
{
	for my $q ("SELECT * FROM late ORDER BY $key, id", "SELECT id + 0 AS id, n, h FROM late ORDER BY $key, id")
	{
		is($node->safe_psql('postgres', "$small SELECT nodes || ' ' || result FROM check_sort('$q')"), 'GpuSort same',
			"late rows: $q");
		is($node->safe_psql('postgres', "SET work_mem = '64MB'; SET gpusort.verify = on; SELECT nodes || ' ' || result "
			. "FROM check_sort('$q')"), 'GpuSort same', "late rows, verified: $q");
	}
	like($node->safe_psql('postgres', "$small SELECT route('SELECT * FROM late WHERE NOT of_late ORDER BY $key')"),
		qr/^rows: gpu radix: /, "rows by $key: on the GPU without the late rows");
	like($node->safe_psql('postgres', "$small SELECT route('SELECT * FROM late ORDER BY $key')"),
		qr/runs merged/, "late rows: $key: the device's part is merged");
}
device_unused($node, 'exact keys');
$node->stop;
done_testing();
