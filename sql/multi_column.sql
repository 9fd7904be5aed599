-- Several columns: one key of 32, 64 or 128 bits, and keys that do not fit.
LOAD 'gpusort';
SET gpusort.min_rows = 0;
SET jit = off;
SET max_parallel_workers_per_gather = 0;
SET timezone = 'UTC';

CREATE TABLE multi AS
SELECT i::int AS seq,
	(mix(i) % 5)::int2 AS a2,
	(mix(i * 3) % 7)::int4 AS a4,
	(mix(i * 5) % 3 - 1) * 4611686018427387904 AS a8,
	(mix(i * 7) % 11 / 4.0 - 1)::float8 AS f8,
	(mix(i * 11) % 6 / 3.0)::float4 AS f4,
	mix(i * 13) % 2 = 0 AS b,
	timestamptz '2020-01-01 00:00+00' + (mix(i * 17) % 9) * interval '1 day' AS tz,
	date '2020-01-01' + (mix(i * 19) % 4)::int AS d,
	(mix(i * 23) % 100)::int8 - 50 AS s8
FROM generate_series(1, 6000) i;
UPDATE multi SET a4 = NULL WHERE seq % 13 = 0;
UPDATE multi SET f8 = NULL WHERE seq % 17 = 0;
UPDATE multi SET a8 = NULL WHERE seq % 19 = 0;
VACUUM ANALYZE multi;

SELECT keys, c.*
FROM unnest(ARRAY[
	'a2, a4', 'a2 DESC, a4', 'a4, a2 DESC', 'a4 DESC NULLS LAST, a2',
	'a8, a4', 'a8 DESC, a4 DESC', 'a4, a8', 'f8, a4', 'f8 DESC, f4', 'b, a8', 'b DESC, f4, a2',
	'tz DESC, s8', 'd, tz, b', 'd DESC, b, a2 DESC, a4 NULLS FIRST',
	-- 128 bits and more
	'a8, s8', 'a8 DESC, f8 DESC', 'f8, tz, a2', 'a8, s8, f8', 'a8, f8 DESC, tz, s8 DESC',
	'a2, a4, a8, f8, f4, b, tz, d, s8',
	's8 DESC, d DESC, tz, b DESC, f4 DESC, f8 NULLS FIRST, a8 DESC NULLS LAST, a4, a2 DESC'])
	WITH ORDINALITY AS k (keys, n),
	check_sort(format('SELECT * FROM multi ORDER BY %s, seq', keys)) c
ORDER BY n;

-- a constant first column, a column named twice, an expression
SELECT * FROM check_sort('SELECT 1 AS one, seq FROM multi ORDER BY b = b, seq DESC');
SELECT * FROM check_sort('SELECT a4, seq FROM multi ORDER BY a4, a4 DESC, seq');
SELECT * FROM check_sort('SELECT seq FROM multi ORDER BY (seq % 10) DESC, seq / 10');

-- all rows have equal prefixes: only columns past 128 bits decide
SELECT * FROM check_sort($$SELECT 7::int8 AS x, 8::int8 AS y, seq % 3 AS z, seq FROM multi
	ORDER BY (CASE WHEN b THEN 7 ELSE 7 END)::int8, (seq * 0)::int8, seq % 3, seq DESC$$);

-- 40 columns
SELECT c.* FROM
	(SELECT string_agg(format('(seq / %s) %% 2 %s', i, CASE WHEN i % 2 = 0 THEN 'DESC' ELSE '' END), ', ') AS keys
	 FROM generate_series(1, 40) i) k,
	check_sort(format('SELECT seq FROM multi ORDER BY %s, seq', keys)) c;

DROP TABLE multi;
