-- Order of NULLs: first and last, in every column, from no NULL to all.
LOAD 'gpusort';
SET gpusort.min_rows = 0;
SET jit = off;
SET max_parallel_workers_per_gather = 0;

CREATE TABLE nulls AS
SELECT i::int AS seq,
	CASE WHEN mix(i) % 2 = 0 THEN (mix(i * 3) % 100)::int END AS half,
	CASE WHEN i % 1000 = 0 THEN (mix(i) % 10)::int8 END AS most,
	CASE WHEN i % 1000 <> 0 THEN (mix(i) - 2147483646)::int4 END AS few,
	NULL::int AS every,
	(mix(i) % 50)::int AS none
FROM generate_series(1, 3000) i;
ANALYZE nulls;

SELECT col, dir, c.*
FROM unnest('{half,most,few,every,none}'::text[]) WITH ORDINALITY AS k (col, n),
	unnest('{ASC NULLS LAST,ASC NULLS FIRST,DESC NULLS LAST,DESC NULLS FIRST}'::text[]) WITH ORDINALITY AS d (dir, m),
	check_sort(format('SELECT %1$s, seq FROM nulls ORDER BY %1$s %2$s, seq', col, dir)) c
ORDER BY n, m;

-- two columns with different orders
SELECT d1, d2, c.*
FROM unnest('{ASC NULLS LAST,ASC NULLS FIRST,DESC NULLS LAST,DESC NULLS FIRST}'::text[]) WITH ORDINALITY AS a (d1, n),
	unnest('{ASC NULLS LAST,ASC NULLS FIRST,DESC NULLS LAST,DESC NULLS FIRST}'::text[]) WITH ORDINALITY AS b (d2, m),
	check_sort(format('SELECT half, most, seq FROM nulls ORDER BY half %s, most %s, seq', d1, d2)) c
ORDER BY n, m;

-- a NULL is neither the least nor the greatest value of its type
SELECT * FROM check_sort($$SELECT x FROM (VALUES (NULL), (-2147483648), (2147483647), (0), (NULL)) v(x) ORDER BY x$$);
SELECT * FROM check_sort($$SELECT x FROM (VALUES (NULL), (-2147483648), (2147483647), (0), (NULL)) v(x)
	ORDER BY x NULLS FIRST$$);
SELECT * FROM check_sort($$SELECT x
	FROM (VALUES (NULL), ('-9223372036854775808'::int8), (9223372036854775807), (0), (NULL)) v(x) ORDER BY x DESC$$);
SELECT * FROM check_sort($$SELECT x
	FROM (VALUES (NULL), ('-9223372036854775808'::int8), (9223372036854775807), (0), (NULL)) v(x)
	ORDER BY x DESC NULLS LAST$$);
SELECT x FROM (VALUES (3), (NULL), (1), (2)) v(x) ORDER BY x DESC;
-- a range of nearly 64 bits: with NULLs it needs 64 bits, or 65
CREATE TABLE full_range AS
SELECT i::int AS seq,
	CASE WHEN i % 50 <> 7 THEN (mix(i) - 2147483646) * 4294967000 + mix(i * 3) END AS nearly,
	CASE WHEN i % 50 <> 7 THEN (mix(i) - 2147483646) * 4294967000 + mix(i * 3) END AS whole,
	CASE WHEN i % 50 <> 9 THEN (mix(i) - 2147483646)::float8 * 10.0 ^ (mix(i * 5) % 280 - 150) END AS f
FROM generate_series(1, 2000) i;
INSERT INTO full_range (seq, whole) VALUES (2001, '-9223372036854775808'), (2002, 9223372036854775807);
ANALYZE full_range;
SELECT col, dir, c.*
FROM unnest('{nearly,whole,f}'::text[]) col,
	unnest('{ASC NULLS LAST,ASC NULLS FIRST,DESC NULLS LAST,DESC NULLS FIRST}'::text[]) WITH ORDINALITY AS d (dir, m),
	check_stable('full_range', col || ' ' || dir) c
ORDER BY col, m;
-- columns declared NOT NULL have NULLs above an outer join
CREATE TABLE strict (k int NOT NULL, v int NOT NULL);
INSERT INTO strict SELECT i, i % 7 FROM generate_series(1, 100) i;
SELECT * FROM check_sort('SELECT n.seq, s.v FROM nulls n LEFT JOIN strict s ON s.k = n.seq ORDER BY s.v, n.seq');
SELECT * FROM check_sort('SELECT n.seq, s.v FROM nulls n LEFT JOIN strict s ON s.k = n.seq
	ORDER BY s.v NULLS FIRST, n.seq');

DROP TABLE nulls, strict, full_range;
