# query_list.pl: the tables and statements of bench/queries.
#
# Returns { tables, sizes, ordered, queries }:
#
#	tables	NAME => SELECT list of the table, over generate_series(1, rows) AS i
#	sizes	NAME => number of rows, for tables whose size does not depend on --rows
#	ordered	NAME => { of => source table, by => columns }: a sorted copy of the source, with an index
#	queries	[ query, ... ]
#
# Fields of a query:
#
#	group	shapes, types, memory, limits, compared, plans, grouping, incremental or short; --group=NAME runs one
#			group
#	name	first column of the result table
#	tables	tables that the query reads
#	set		settings; work_mem is --memory unless it is set here
#	sql		the statement
#	child	the statement without its sort; undef if there is no such statement
#	above	two statements that read a sorted table by its index, without a sort: with and without the work that sql
#			does above the sort and child lacks
#	loops	true for a short statement, which runs many times in the server
#	before	a statement that creates what sql needs
use strict;
use warnings;

my %tables = (
	# (k int4, v int8), 40 bytes a tuple
	t10 => "SELECT (random() * 4294967295 - 2147483648)::int4 AS k, (random() * 1e18)::int8 AS v",
	# a typical business table, 130 bytes a tuple
	w10 => "SELECT i::int8 AS id, random() * 1e6 - 5e5 AS k, md5(random()::text) AS a, 'customer#' || i % 1000 AS b, "
	  . "timestamptz '2020-01-01' + random() * interval '1000 days' AS c, (random() * 1e6)::numeric(12,2) AS m",
	pairs => "SELECT (random() * 1000)::int4 AS a, (random() * 4294967295 - 2147483648)::int4 AS b, "
	  . "timestamptz '2020-01-01' + floor(random() * 1000) * interval '1 day' AS z, (random() * 1e18)::int8 AS v",
	longs => "SELECT (random() * 1e18)::int8 - 500000000000000000 AS a, (random() * 1e18)::int8 AS b",
	grown => "SELECT i::int8 AS id, timestamptz '2020-01-01' + i * interval '1 second' AS at, random() AS v",
	small => "SELECT i AS id, (random() * 4294967295 - 2147483648)::int4 AS k, (random() * 1e18)::int8 AS v",
	# one key of each type
	types => "SELECT i::int8 AS id, md5(random()::text) AS t, 'common prefix' || lpad((random() * 1e7)::int::text, 8, "
		. "'0') AS p, "
	  . "(random() * 1e9)::numeric(12,2) AS n, gen_random_uuid() AS u, random() * interval '1000 days' AS s, "
	  . "('10.' || i % 256 || '.' || (random() * 255)::int || '.' || (random() * 255)::int)::inet AS h",
	# each g is in order, with groups of 1, 10, 1,000, 100,000 and 10,000,000 rows
	groups => "SELECT i::int4 AS g1, (i / 10)::int4 AS g10, (i / 1000)::int4 AS g1000, (i / 100000)::int4 AS g100000, "
	  . "(i / 10000001)::int4 AS g10000000, "
	  . "(random() * 4294967295 - 2147483648)::int4 AS v, (random() * 1e18)::int8 AS w",
	# a million groups in random order
	scattered => "SELECT (random() * 1e6)::int4 AS g, (random() * 4294967295 - 2147483648)::int4 AS v, "
	  . "(random() * 1e18)::int8 AS w",
	dim => "SELECT i - 1 AS id, 'name ' || i AS nm");

# tables whose size does not depend on --rows
my %sizes = (dim => 10000, small => 100);

# sorted copies, with an index
my %ordered = (
	t10_by_k => { of => 't10', by => 'k' },
	t10_by_v => { of => 't10', by => 'v' },
	t10_by_pv => { of => '(SELECT k % 1000 AS p, v FROM t10) x', by => 'p, v' },
	w10_by_k => { of => 'w10', by => 'k' });

sub query
{
	my ($group, $name, $tables, $sql, $child, %more) = @_;
	return { group => $group, name => $name, tables => [ split ' ', $tables ], sql => $sql, child => $child, %more };
}

my @queries = (
	query('shapes', '(int4 k, int8): all columns BY k', 't10', 'SELECT * FROM t10 ORDER BY k', 'SELECT * FROM t10'),
	query('shapes', 'wide: all columns BY float8 k', 'w10', 'SELECT * FROM w10 ORDER BY k', 'SELECT * FROM w10'),
	query('shapes', 'wide: id, k, a, b, c BY k', 'w10', 'SELECT id, k, a, b, c FROM w10 ORDER BY k',
		'SELECT id, k, a, b, c FROM w10'),
	query('shapes', 'wide: a, b BY k', 'w10 w10_by_k', 'SELECT a, b FROM w10 ORDER BY k', 'SELECT a, b FROM w10',
		above => [ 'SELECT a, b FROM w10_by_k ORDER BY k', 'SELECT a, b, k FROM w10_by_k ORDER BY k' ]),
	query('shapes', 'wide: id, c BY k', 'w10 w10_by_k', 'SELECT id, c FROM w10 ORDER BY k', 'SELECT id, c FROM w10',
		above => [ 'SELECT id, c FROM w10_by_k ORDER BY k', 'SELECT id, c, k FROM w10_by_k ORDER BY k' ]),
	query('shapes', 'wide: all columns BY c DESC, id', 'w10', 'SELECT * FROM w10 ORDER BY c DESC, id',
		'SELECT * FROM w10'),
	query('shapes', 'wide, expressions: id + 1, upper(b) BY k * 2', 'w10 w10_by_k',
		'SELECT id + 1, upper(b) FROM w10 ORDER BY k * 2',
		'SELECT id + 1, upper(b), k * 2 FROM w10',
		above => [ 'SELECT id, b FROM w10_by_k ORDER BY k', 'SELECT id, b, k FROM w10_by_k ORDER BY k' ]),
	query('shapes', 'hash join: w.id, d.nm, w.k BY w.k', 'w10 dim',
		'SELECT w.id, d.nm, w.k FROM w10 w JOIN dim d ON d.id = w.id % 10000 ORDER BY w.k',
		'SELECT w.id, d.nm, w.k FROM w10 w JOIN dim d ON d.id = w.id % 10000'),
	query('shapes', 'row_number() OVER (PARTITION BY k % 1000 ORDER BY v)', 't10 t10_by_pv',
		'SELECT row_number() OVER (PARTITION BY k % 1000 ORDER BY v) FROM t10', 'SELECT k % 1000, v FROM t10',
		above => [ 'SELECT row_number() OVER (PARTITION BY p ORDER BY v) FROM t10_by_pv',
			'SELECT p, v FROM t10_by_pv ORDER BY p, v' ]),
	query('shapes', 'GROUP BY int4', 't10 t10_by_k', 'SELECT k, count(*) FROM t10 GROUP BY k', 'SELECT k FROM t10',
		above => [ 'SELECT k, count(*) FROM t10_by_k GROUP BY k', 'SELECT k FROM t10_by_k ORDER BY k' ],
		set => 'enable_hashagg = off'),
	query('shapes', 'DISTINCT int8', 't10 t10_by_v', 'SELECT DISTINCT v FROM t10', 'SELECT v FROM t10',
		above => [ 'SELECT DISTINCT v FROM t10_by_v', 'SELECT v FROM t10_by_v ORDER BY v' ],
		set => 'enable_hashagg = off'),
	query('shapes', 'merge join with 10,000 rows: few rows have a match', 't10 dim',
		'SELECT count(*), sum(t10.v), min(nm) FROM t10 JOIN dim ON t10.k = dim.id', undef,
		set => 'enable_hashjoin = off, enable_nestloop = off, enable_material = off'),
	query('shapes', 'merge join of (int4 k, int8) with itself', 't10',
		'SELECT count(*) FROM t10 x JOIN t10 y ON x.k = y.k', undef,
		set => 'enable_hashjoin = off, enable_nestloop = off, enable_material = off'),
	query('shapes', 'UNION ALL of two filtered tables BY 1', 't10 pairs',
		'SELECT k, v FROM t10 WHERE v % 2 = 0 UNION ALL SELECT b, v FROM pairs WHERE v % 2 = 1 ORDER BY 1',
		'SELECT k, v FROM t10 WHERE v % 2 = 0 UNION ALL SELECT b, v FROM pairs WHERE v % 2 = 1'),
	query('shapes', 'int4, int4: all columns BY both', 'pairs', 'SELECT * FROM pairs ORDER BY a, b',
		'SELECT * FROM pairs'),
	query('shapes', 'timestamptz DESC, int8', 'pairs', 'SELECT * FROM pairs ORDER BY z DESC, v', 'SELECT * FROM pairs'),
	query('shapes', 'int8, int8', 'longs', 'SELECT * FROM longs ORDER BY a, b', 'SELECT * FROM longs'),
	query('shapes', 'int4 alone BY itself', 't10', 'SELECT k FROM t10 ORDER BY k', 'SELECT k FROM t10'),
	query('shapes', 'in order already: BY a timestamp that grows', 'grown', 'SELECT * FROM grown ORDER BY at',
		'SELECT * FROM grown'),
	query('shapes', 'in reverse: BY a timestamp that grows, DESC', 'grown', 'SELECT * FROM grown ORDER BY at DESC',
		'SELECT * FROM grown'),

	query('types', 'random text of 32: all columns', 'w10', 'SELECT * FROM w10 ORDER BY a', 'SELECT * FROM w10'),
	query('types', 'random text of 32: id, key', 'types', 'SELECT id, t FROM types ORDER BY t',
		'SELECT id, t FROM types'),
	query('types', 'random text of 32, COLLATE "C": id, key', 'types', 'SELECT id, t FROM types ORDER BY t COLLATE "C"',
		'SELECT id, t FROM types'),
	query('types', "'customer#n', 1,000 distinct: id, key", 'w10', 'SELECT id, b FROM w10 ORDER BY b',
		'SELECT id, b FROM w10'),
	query('types', 'text with a common prefix: id, key', 'types', 'SELECT id, p FROM types ORDER BY p',
		'SELECT id, p FROM types'),
	query('types', 'numeric(12,2): id, key', 'types', 'SELECT id, n FROM types ORDER BY n', 'SELECT id, n FROM types'),
	query('types', 'uuid: id, key', 'types', 'SELECT id, u FROM types ORDER BY u', 'SELECT id, u FROM types'),
	query('types', 'text, int8', 'w10', 'SELECT id, b FROM w10 ORDER BY b, id', 'SELECT id, b FROM w10'),
	query('types', 'interval: id, key', 'types', 'SELECT id, s FROM types ORDER BY s', 'SELECT id, s FROM types'),
	query('types', 'inet: id, key', 'types', 'SELECT id, h FROM types ORDER BY h', 'SELECT id, h FROM types'),
	query('types', 'text, ICU en_US: id, key', 'types', 'SELECT id, t FROM types ORDER BY t COLLATE "en-US-x-icu"',
		'SELECT id, t FROM types'),
	# if the machine has the locale
	(map { query('types', 'text, C library, en_US: id, key', 'types',
		qq(SELECT id, t FROM types ORDER BY t COLLATE "$_"), 'SELECT id, t FROM types')
	} split ' ', `locale -a | grep -x en_US.utf8`),
	query('types', 'text, nondeterministic ICU: id, key', 'types', 'SELECT id, t FROM types ORDER BY t COLLATE loose',
		'SELECT id, t FROM types', before => 'CREATE COLLATION IF NOT EXISTS loose (provider = icu, '
			. q{locale = 'und-u-ks-level2', deterministic = false)}),
	query('types', 'citext: id, key', 'types', 'SELECT id, t FROM types ORDER BY t::citext', 'SELECT id, t FROM types',
		before => 'CREATE EXTENSION IF NOT EXISTS citext'),
	query('types', 'text LIMIT 100', 'w10', 'SELECT * FROM w10 ORDER BY a LIMIT 100', 'SELECT * FROM w10'),
	query('types', 'rank() OVER (PARTITION BY text ORDER BY timestamptz)', 'w10',
		'SELECT rank() OVER (PARTITION BY b ORDER BY c) FROM w10', 'SELECT b, c FROM w10'),

	(map { query('windows', $_->[0], 'w10', "SELECT id, $_->[1] FROM w10" . ($_->[2] // ''),
		'SELECT id, b, c, m, k FROM w10') } (
		[ 'lag() OVER (ORDER BY float8)', 'lag(id) OVER (ORDER BY k)' ],
		[ 'lag() OVER (PARTITION BY text ORDER BY timestamptz)', 'm - lag(m) OVER (PARTITION BY b ORDER BY c)' ],
		[ 'lead() OVER (PARTITION BY text ORDER BY timestamptz)', 'lead(c) OVER (PARTITION BY b ORDER BY c) - c' ],
		[ 'first_value() OVER (PARTITION BY text ORDER BY timestamptz)',
			'first_value(m) OVER (PARTITION BY b ORDER BY c)' ],
		[ 'sum(numeric) OVER (PARTITION BY text ORDER BY timestamptz)', 'sum(m) OVER (PARTITION BY b ORDER BY c)' ],
		[ 'sum(float8) OVER (ORDER BY timestamptz)', 'sum(k) OVER (ORDER BY c)' ],
		[ 'the same, ROWS', 'sum(k) OVER (ORDER BY c ROWS UNBOUNDED PRECEDING)' ],
		[ 'avg(float8) OVER (PARTITION BY text)', 'k / avg(k) OVER (PARTITION BY b)' ],
		[ 'count(float8), max(timestamptz) OVER (ORDER BY text)', 'count(k) OVER w, max(c) OVER w',
			' WINDOW w AS (ORDER BY b)' ])),
	query('windows', 'lag() OVER (ORDER BY float8), by an index', 'w10 w10_by_k',
		'SELECT id, lag(id) OVER (ORDER BY k) FROM w10_by_k', 'SELECT id, k FROM w10_by_k ORDER BY k'),
	query('windows', 'sum(numeric) OVER (ORDER BY float8), by an index', 'w10 w10_by_k',
		'SELECT id, sum(m) OVER (ORDER BY k) FROM w10_by_k', 'SELECT id, k, m FROM w10_by_k ORDER BY k'),

	query('memory', '(int4 k, int8) BY k, work_mem 4 MB', 't10', 'SELECT * FROM t10 ORDER BY k', 'SELECT * FROM t10',
		set => "work_mem = '4MB'"),
	query('memory', 'wide BY k, work_mem 4 MB', 'w10', 'SELECT * FROM w10 ORDER BY k', 'SELECT * FROM w10',
		set => "work_mem = '4MB'"),
	query('memory', '(int4 k, int8) BY k, work_mem 64 MB', 't10', 'SELECT * FROM t10 ORDER BY k', 'SELECT * FROM t10',
		set => "work_mem = '64MB'"),
	query('memory', 'wide BY k, work_mem 64 MB', 'w10', 'SELECT * FROM w10 ORDER BY k', 'SELECT * FROM w10',
		set => "work_mem = '64MB'"),

	query('limits', '(int4 k, int8) BY k LIMIT 10', 't10', 'SELECT * FROM t10 ORDER BY k LIMIT 10',
		'SELECT * FROM t10'),
	query('limits', 'wide BY k LIMIT 10', 'w10', 'SELECT * FROM w10 ORDER BY k LIMIT 10', 'SELECT * FROM w10'),
	query('limits', 'wide BY c DESC, id LIMIT 10', 'w10', 'SELECT * FROM w10 ORDER BY c DESC, id LIMIT 10',
		'SELECT * FROM w10'),
	query('limits', 'wide BY k LIMIT 50 OFFSET 100,000', 'w10', 'SELECT * FROM w10 ORDER BY k LIMIT 50 OFFSET 100000',
		'SELECT * FROM w10'),
	query('limits', 'the latest 10: BY at DESC LIMIT 10', 'grown', 'SELECT * FROM grown ORDER BY at DESC LIMIT 10',
		'SELECT * FROM grown'),
	query('limits', 'the latest 10,000: BY at DESC, id LIMIT 10,000', 'grown',
		'SELECT * FROM grown ORDER BY at DESC, id LIMIT 10000', 'SELECT * FROM grown', set => "work_mem = '64MB'"),
	query('limits', 'the latest 50 behind 100,000', 'grown',
		'SELECT * FROM grown ORDER BY at DESC LIMIT 50 OFFSET 100000', 'SELECT * FROM grown',
		set => "work_mem = '64MB'"),
	query('limits', '(int4 k, int8) BY k LIMIT 100,000', 't10', 'SELECT * FROM t10 ORDER BY k LIMIT 100000',
		'SELECT * FROM t10', set => "work_mem = '64MB'"),

	# keys that only a comparator orders: many runs, and a LIMIT of half the rows
	(map { query('compared', "runs in a row: BY $_, work_mem 4 MB", 'grown',
		"SELECT *, repeat(md5(id::text), 14) FROM grown ORDER BY $_", 'SELECT *, repeat(md5(id::text), 14) FROM grown',
		set => "work_mem = '4MB'") }
	  'to_jsonb(id)', 'to_jsonb(id % 7)', q{lpad(id::text, 10, '0') COLLATE "en-US-x-icu"}),
	(map { query('compared', "BY to_jsonb(k) LIMIT of $_ of the rows", 't10',
		"SELECT * FROM t10 ORDER BY to_jsonb(k) LIMIT (SELECT (count(*) * $_)::int8 FROM t10)", 'SELECT * FROM t10') }
	  0.5, 0.9),

	query('short', 'prepared BY k over 100 rows', 'small', 'SELECT * FROM small ORDER BY k', undef, loops => 1,
		set => "work_mem = '4MB'"),
	query('short', 'prepared BY k over 10 rows', 'small', 'SELECT * FROM small WHERE id <= 10 ORDER BY k', undef,
		loops => 1, set => "work_mem = '4MB'"));

# Queries that PostgreSQL plans with hashing.  The planner hook may choose sorting instead.  In the last four of each
# list hashing is the better plan; their ratio must stay at 1.
for my $memory ('4MB', '1GB')
{
	my @all = (
		[ 'DISTINCT, 5M values', 't10', 'SELECT DISTINCT v % 5000000 FROM t10' ],
		[ 'DISTINCT int4', 't10', 'SELECT DISTINCT k FROM t10' ],
		[ 'GROUP BY, 1M groups', 't10', 'SELECT v % 1000000, count(*), sum(k) FROM t10 GROUP BY 1' ],
		[ 'GROUP BY text, all different', 'w10', 'SELECT a, count(*) FROM w10 GROUP BY a' ],
		[ 'UNION of two tables', 't10 longs', 'SELECT k FROM t10 UNION SELECT a FROM longs' ],
		[ 'join of a table with itself', 't10', 'SELECT count(*) FROM t10 x JOIN t10 y USING (k)' ],
		[ 'join of two tables, two aggregates', 'w10 t10',
			'SELECT count(*), sum(t10.k) FROM w10 JOIN t10 ON w10.id = t10.v' ],
		[ 'count(DISTINCT int4)', 't10', 'SELECT count(DISTINCT k) FROM t10' ],
		[ 'median of int4', 't10', 'SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY k) FROM t10' ],
		[ 'join with 10,000 rows', 't10 dim', 'SELECT count(*), min(nm) FROM t10 JOIN dim ON t10.k = dim.id' ],
		[ 'GROUP BY, 1,000 groups', 't10', 'SELECT v % 1000, count(*) FROM t10 GROUP BY 1' ],
		[ 'GROUP BY text, 1,000 groups', 'w10', 'SELECT b, count(*), sum(k) FROM w10 GROUP BY b' ],
		[ 'DISTINCT text, 1,000 values', 'w10', 'SELECT DISTINCT b FROM w10' ]);
	push @queries, map { query('grouping', "$_->[0], work_mem $memory", $_->[1], $_->[2], undef,
			set => "work_mem = '$memory', gpusort.plan_grouping = on") } @all;
}

# Rows behind an index on the first sort column: with that index, and with the plans that both planners choose.
for my $limit ('', ' LIMIT 100', ' LIMIT 1000000')
{
	my $forced = 'enable_sort = off, enable_seqscan = off, enable_bitmapscan = off';

	for my $size (1, 10, 1000, 100_000, 10_000_000)
	{
		my %index = (before => "CREATE INDEX IF NOT EXISTS groups_g$size ON groups (g$size)");
		my @sql = ('groups', "SELECT * FROM groups ORDER BY g$size, v$limit",
			"SELECT * FROM groups ORDER BY g$size$limit");

		push @queries, query('incremental', "groups of $size$limit", @sql, set => $forced, %index),
		  query('incremental', "groups of $size$limit, any plan", @sql, %index);
	}
	push @queries, map { query('incremental', "groups in random order$limit$_->[0]", 'scattered',
			"SELECT * FROM scattered ORDER BY g, v$limit", "SELECT * FROM scattered ORDER BY g$limit",
			before => 'CREATE INDEX IF NOT EXISTS scattered_g ON scattered (g)', @$_[ 1 .. $#$_ ]) }
	  [ '', set => $forced ], [ ', any plan' ];
}

# few rows, with row estimates from 10 to 1e9
for my $expected (10, 100_000, 10_000_000, 1_000_000_000)
{
	my $few = "few_of_$expected";

	for my $n (3, 10, 100)
	{
		for my $null ('i', 'NULLIF(i, 2)')
		{
			push @queries, query('short', "prepared, $n rows, $expected expected" . ($null eq 'i' ? '' : ', a NULL'),
				'small',
				"SELECT * FROM $few($n) f (i) ORDER BY " . $null, undef, loops => 1,
				before => "CREATE OR REPLACE FUNCTION $few(n int) RETURNS SETOF int LANGUAGE sql VOLATILE ROWS "
					. "$expected AS "
				  . "'SELECT i FROM generate_series(1, n) i'");
		}
	}
}

return { tables => \%tables, sizes => \%sizes, ordered => \%ordered, queries => \@queries };
