# ties.pl: row mode with keys that do not tell all rows apart.
#
# Keys of text, bytea, long numerics, arrays and ranges, alone or followed by other columns. The host resolves ties
# among the returned rows: groups of one, two and some hundred rows, groups larger than a chunk, and groups larger
# than memory. The rows come in the stock Sort's order, and EXPLAIN tells that the device sorted them.
# GPUSORT_TEST_LIBRARY names another GPU library than the fake device.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GpuSortTest;
use Test::More;

my $library = $ENV{GPUSORT_TEST_LIBRARY} || '$libdir/libgpusort_cpu_abi';
my $node = new_node('device_ties', conf => <<CONF);
gpusort.device_library = '$library'
gpusort.device = 0
gpusort.staging_memory = 8MB
gpusort.device_memory = 512MB
gpusort.algorithm = gpu_radix
work_mem = 256kB
CONF

sub value { return $node->safe_psql('postgres', @_) }

device_ready($node, 'start');
device_route_function($node);
device_lines_function($node);

# Keys leave out a prefix that all values share; so the first rows have none of the common prefixes.
my $rows = 24_000;
value(<<SQL);
CREATE TYPE mood AS ENUM ('sad', 'so so', 'glad', 'happy');
CREATE TABLE t AS SELECT i AS id, i AS seq, (i % 10)::int4 AS k,
	-- groups of one row, nearly all; of two rows; of hundreds
	md5(mix(i)::text) AS one, md5((mix(i / 2) % 100000)::text) || i % 2 AS two,
	chr(97 + (mix(i) % 26)::int) || 'bcdefghi' || mix(i * 3) % 300 AS many,
	-- one group larger than memory between rows without ties; three such groups
	CASE WHEN mix(i) % 3 = 0 THEN md5(mix(i)::text) ELSE '7a common beginning ' || mix(i * 5) % 4000 END AS most,
	CASE WHEN i = 1 THEN NULL WHEN mix(i) % 3 = 0 THEN '' ELSE repeat(chr(98 + i % 3), 12) || mix(i * 7) % 900
		END AS three,
	-- a short value fits the key, with the columns behind it
	'customer#' || mix(i) % 1000 AS c,
	(chr(97 + (mix(i) % 26)::int) || repeat(' ', (mix(i) % 3)::int) || 'longer than that' || mix(i) % 700)::char(30)
		AS p,
	('n' || mix(i) % 5 || 'ame of some letters ' || mix(i * 3) % 500)::name AS nm,
	decode(md5((mix(i) % 5000)::text), 'hex') || CASE WHEN i % 2 = 0 THEN '\\x00'::bytea ELSE '' END AS b,
	(enum_range(NULL::mood))[1 + mix(i) % 4] AS e,
	(mix(i) % 3000 - 1500) * 1e20 + (mix(i * 3) % 3) / 1e12 AS n,
	('fe80::' || to_hex((mix(i) % 90)::int) || ':0:0:' || to_hex((mix(i * 3) % 5)::int))::inet AS h,
	(mix(i) % 200)::bit(64) || (mix(i * 3) % 9)::bit(32) AS bits,
	ARRAY[mix(i) % 100, mix(i * 3) % 100] AS a, int8range(mix(i) % 300, 3000 + mix(i * 3) % 5) AS r,
	ARRAY['t' || mix(i) % 50, 'u' || mix(i * 3) % 9] AS ta,
	CASE WHEN i % 11 > 0 THEN 'null now and then ' || chr(97 + (mix(i) % 20)::int) || mix(i * 9) % 90000 END AS x,
	repeat('x', i % 30) AS pad
FROM generate_series(1, $rows) i;
VACUUM ANALYZE t;
SQL

my @collations = split /\n/, value("SELECT quote_ident(collname) FROM pg_collation WHERE collname IN ('C', 'C.utf8', "
	. "'pg_c_utf8', 'en_US.utf8', 'en-x-icu') AND collencoding IN (-1, pg_char_to_encoding('UTF8')) ORDER BY 1");
if (grep { /icu/ } @collations)
{
	value(q(CREATE COLLATION loose (provider = icu, locale = 'und-u-ks-level1', deterministic = false)));
	push @collations, 'loose';
}
note("collations: @collations");
my $by_bytes = qr/^"?(C|C\.utf8|pg_c_utf8)"?$/;

# Checks the rows of this order, and that the device sorted them in row mode.
my ($device_sorts, $ties) = (0, 0);
sub check
{
	my ($order, $set, $tab) = @_;
	$set //= '';
	$tab //= 't';
	is(value("$set SELECT nodes || ' ' || result FROM check_stable('$tab', '$order')"), 'GpuSort same', "$set$order");
	my $route = value("$set SELECT route('SELECT * FROM $tab ORDER BY $order')");
	like($route, qr/^rows: gpu radix: /, "$set$order: row mode");
	$device_sorts++;
	$ties += $1 if $route =~ /, (\d+) ties compared/;
	return $route;
}

for my $coll (grep { $_ =~ $by_bytes } @collations)
{
	my $c = "COLLATE $coll";
	for my $col ($coll eq '"C"' ? qw(one two many most three x) : qw(two most x))
	{
		check("$col $c");
		check("$col $c DESC NULLS LAST, id DESC");
	}
	check("many $c DESC, k, id DESC");
	check("p $c");
}
for my $coll (@collations)
{
	# collations without a key word: the values are compared where the columns before them are equal
	my $c = "COLLATE $coll";
	check("k, many $c, e DESC");
	check("e, many $c DESC, x $c NULLS FIRST");
}

check($_) for 'nm', 'nm DESC, id DESC', 'b', 'b DESC', 'n', 'n DESC, one COLLATE "C"', 'h', 'h DESC', 'bits',
	'bits DESC', 'a', 'a DESC, id DESC', 'r', 'r DESC', 'ta', 'k, a DESC, many COLLATE "C"', 'e DESC, b';
# short strings fit the key: no ties, and later columns are part of the key
for my $order ('c COLLATE "C"', 'c COLLATE "C" DESC, id DESC', 'c COLLATE "C", k')
{
	unlike(check($order), qr/ties compared/, "$order: nothing is compared");
}
cmp_ok($ties / $device_sorts, '>', 1000, "ties of $device_sorts sorts were resolved");
device_unused($node, 'orders');

# A group larger than memory has a sort of its own, in memory or on disk. The same under gpusort.verify, under a cursor,
# and where the device's rows are merged with other rows.
for my $mem ('64kB', '256kB', '1MB', '4MB')
{
	check("most COLLATE \"C\"", "SET work_mem = '$mem';");
	check("three COLLATE \"C\" DESC, id DESC", "SET work_mem = '$mem';");
	check("three COLLATE \"C\"", "SET gpusort.verify = on; SET work_mem = '$mem';");
}
like(value("SET work_mem = '64kB'; SELECT device_lines('SELECT * FROM t ORDER BY three COLLATE \"C\"')"),
	qr/Disk: /, 'a large group goes to disk');
unlike(value("SET work_mem = '64kB'; SELECT device_lines('SELECT * FROM t ORDER BY one COLLATE \"C\"')"),
	qr/Disk: /, 'rows without ties do not');
is(value(<<SQL), "$rows", 'a cursor: all rows come to the host first');
BEGIN;
DECLARE c CURSOR FOR SELECT * FROM t ORDER BY three COLLATE "C";
CREATE TABLE from_cursor (LIKE t, place serial);
DO \$\$
DECLARE r t; c refcursor := 'c';
BEGIN
	LOOP
		FETCH c INTO r;
		EXIT WHEN NOT FOUND;
		INSERT INTO from_cursor SELECT r.*;
	END LOOP;
END \$\$;
COMMIT;
SELECT count(*) FROM (SELECT id, row_number() OVER (ORDER BY place) AS n FROM from_cursor) a
	JOIN (SELECT id, row_number() OVER (ORDER BY three COLLATE "C", seq) AS n FROM t) b USING (id, n);
SQL
device_unused($node, 'memory');

# Rescans with other rows; and a LIMIT above, which ends early.
is(value(q(SELECT string_agg(s::text, ' ') FROM generate_series(0, 2) d, LATERAL (SELECT md5(string_agg(id::text, ','))
	= md5((SELECT string_agg(id::text, ',') FROM (SELECT id FROM t WHERE k <> d ORDER BY many COLLATE "C", seq) w)) AS s
	FROM (SELECT id FROM t WHERE k <> d ORDER BY many COLLATE "C" OFFSET 0) v) x)) =~ s/true/t/gr, 't t t', 'rescans');
is(value(q(SELECT count(*) FROM (SELECT 1 FROM (SELECT * FROM t ORDER BY most COLLATE "C" OFFSET 0) s LIMIT 9000) s)),
	'9000', 'not read to the end');
device_unused($node, 'rescans');

# Late values that do not fit the key end the device's part, which is merged with the remaining rows.
my $late = $rows - 3000;
value(<<SQL);
CREATE TABLE late AS SELECT i AS id, i AS seq, CASE WHEN i < $late THEN 'common ' ELSE 'other ' END || mix(i) % 3000
	|| ' and more' AS p, CASE WHEN i < $late THEN 'k' ELSE repeat('k', 12) END || mix(i) % 3000 AS more,
	CASE WHEN i <> $late THEN repeat('n', 1 + i % 5) || md5((mix(i) % 5000)::text) END AS x,
	CASE WHEN i >= $late THEN 'a long word ' || mix(i) % 70 END AS word, repeat('x', i % 40) AS pad, i / 9000 AS part
FROM generate_series(1, $rows) i;
CREATE TABLE sorted AS SELECT row_number() OVER () AS id, row_number() OVER () AS seq, p, more, x
	FROM (SELECT * FROM late ORDER BY p COLLATE "C", id) s;
VACUUM ANALYZE late, sorted;
SQL
for my $set ('', "SET work_mem = '64MB'; SET gpusort.verify = on;", "SET work_mem = '64kB';", "SET work_mem = '2MB';")
{
	for my $order ('p COLLATE "C"', 'p COLLATE "C" DESC, id DESC', 'more COLLATE "C"', 'x COLLATE "C"',
		'word COLLATE "C" NULLS FIRST, x COLLATE "C"', 'part, p COLLATE "C"')
	{
		is(value("$set SELECT nodes || ' ' || result FROM check_stable('late', '$order')"), 'GpuSort same',
			"late: $set$order");
	}
}
for my $order ('p COLLATE "C"', 'more COLLATE "C"', 'x COLLATE "C"')
{
	like(value("SELECT route('SELECT * FROM late WHERE id < $late ORDER BY $order')"), qr/^rows: gpu radix: /,
		"$order: row mode without the late rows");
	like(value("SELECT device_lines('SELECT * FROM late ORDER BY $order')"), qr/runs? merged.*Sort Device: rows/s,
		"late: $order: the device's part is merged");
}
check('p COLLATE "C"', '', 'sorted');
check('p COLLATE "C" DESC', '', 'sorted');
device_unused($node, 'late');

# The device fails after some rows were returned: the rerun skips them, also inside a group.
gate_make($node);
for my $case ([ 'one', 12000 ], [ 'many', 12000 ], [ 'three', 17000 ], [ 'three', 100 ])
{
	my ($col, $at) = @$case;
	my $q = "SELECT id, row_number() OVER () AS n FROM (SELECT * FROM t ORDER BY $col COLLATE \"C\" OFFSET 0) s";
	my $want = value("SET gpusort.enable = off; SELECT md5(string_agg(id::text, ',' ORDER BY n)) FROM "
		. "(SELECT id, row_number() OVER (ORDER BY $col COLLATE \"C\", seq) AS n FROM t) s");
	killed_at_gate($node, "$col, killed at row $at",
		"SELECT md5(string_agg(id::text, ',' ORDER BY n)) FROM (SELECT id, gate(n, $at) AS n FROM ($q) q OFFSET 0) s",
		$want);
}

# gpusort_progress counts the memory of a group's sort as the whole sort's.
{
	my $q = 'SELECT id, row_number() OVER () AS n FROM (SELECT * FROM t ORDER BY most COLLATE "C" OFFSET 0) s';
	my $sum = "SELECT md5(string_agg(id::text, ',' ORDER BY n)) FROM";

	killed_at_gate($node, 'a large group', "$sum (SELECT id, gate(n, 12000) AS n FROM ($q) q OFFSET 0) s",
		value("SET gpusort.enable = off; $sum (SELECT id, row_number() OVER (ORDER BY most COLLATE \"C\", seq) AS n "
			. 'FROM t) s'),
		'SELECT memory_bytes > 10000 FROM gpusort_progress ORDER BY node DESC LIMIT 1');
}

# An error above the sort, a timeout, and the next query.
{
	my $s = new_session($node);

	for my $col (qw(one three))
	{
		my $from = "FROM (SELECT * FROM t ORDER BY $col COLLATE \"C\" OFFSET 0) s";

		error_and_timeout($s, $col, "SELECT sum(1 / (n - 9000)) FROM (SELECT row_number() OVER () AS n $from) x",
			'300ms', "SELECT count(pg_sleep(0.01)) $from");
	}
	$s->quit;
	device_unused($node, 'errors');
}
is(scalar(temp_files($node)), 0, 'no temporary file is left');
$node->stop;
done_testing();
