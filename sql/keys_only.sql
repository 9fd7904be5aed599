-- Keys-only sorts: all output columns are sort keys of types whose value can be
-- decoded from the normalized key, so the sort keeps keys and no rows.
LOAD 'gpusort';
SET gpusort.min_rows = 0;
SET jit = off;
SET max_parallel_workers_per_gather = 0;
SET timezone = 'UTC';
SET datestyle = 'ISO, YMD';

CREATE TABLE bare AS
SELECT i::int AS seq,
	(mix(i) % 65536 - 32768)::int2 AS i2,
	(mix(i * 3) - 2147483646)::int4 AS i4,
	(mix(i * 7) - 2147483646) * 2147483648 + mix(i * 11) AS i8,
	mix(i) % 3 = 0 AS b,
	((mix(i) % 256 - 128)::int)::"char" AS c,
	(mix(i * 5))::oid AS o,
	((mix(i) - 2147483646) / 100.0)::numeric::money AS m,
	date '2000-01-01' + (mix(i) % 60000 - 30000)::int AS d,
	time '00:00' + (mix(i) % 86400) * interval '1 second' AS t,
	timestamp '2000-01-01' + (mix(i) - 2147483646) * interval '1 second' AS ts,
	timestamptz '2000-01-01 00:00+00' + (mix(i * 5) - 2147483646) * interval '1 millisecond' AS tz,
	(ARRAY['0', '-0', 'NaN', '1.5', '-Infinity'])[1 + mix(i * 3) % 5]::float4 AS f4,
	(ARRAY['0', '-0', 'NaN', '1.5', '-Infinity'])[1 + mix(i * 7) % 5]::float8 AS f8,
	NULL::int4 AS nothing,
	7::int8 AS seven
FROM generate_series(1, 3000) i;
INSERT INTO bare (seq, i2, i4, i8, b, c, o, m, d, t, ts, tz) VALUES
	(3001, -32768, -2147483648, -9223372036854775808, false, '', 0, '-92233720368547758.08', '-infinity', '00:00',
		'-infinity', '-infinity'),
	(3002, 32767, 2147483647, 9223372036854775807, true, '\377', 4294967295, '92233720368547758.07', 'infinity',
		'24:00', 'infinity', 'infinity'),
	(3003, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
	(3004, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
ANALYZE bare;

-- every type whose keys can be decoded, in each order, in memory and past work_mem
SELECT col, dir, mem, c.*
FROM unnest('{i2,i4,i8,b,c,o,m,d,t,ts,tz,f4,f8,nothing,seven}'::text[]) WITH ORDINALITY AS k (col, n),
	unnest('{ASC,DESC,ASC NULLS FIRST,DESC NULLS LAST}'::text[]) WITH ORDINALITY AS s (dir, m),
	unnest('{64kB,64MB}'::text[]) mem, set_config('work_mem', mem, false),
	check_keys('bare', col, col || ' ' || dir) c
WHERE c.result <> 'same' OR c.nodes <> 'GpuSort';
-- several columns: returned in an order other than the keys', twice, with constants
SELECT cols, keys, mem, c.*
FROM (VALUES ('i2, i4', 'i2, i4'), ('i4, i2', 'i2 DESC, i4 NULLS FIRST'), ('b, c, i2', 'c, b DESC, i2'),
	('i8, o', 'o, i8'),
	('i8, tz', 'i8 DESC, tz'), ('i8, i8', 'i8'), ('b, b, c, c', 'c, b'), ('1 AS one, b', 'b'),
		('nothing, b', 'nothing, b'),
	('b, seven', 'seven, b DESC'), ('i8, tz, ts, m', 'i8, tz, ts, m'), ('i8, ts, b', 'b DESC, ts, i8'),
		('i4', 'i4, i4 DESC'),
	('f8, b', 'b, f8'), ('b, f4', 'f4 DESC, b'), ('b', 'b NULLS FIRST, f8'), ('i2 + i4 AS x', 'i2 + i4'),
		('i4', 'i2, i4'), ('d, t, b, c, i2', 'd, t, b, c, i2'),
	('d, t, ts, tz, b, c, i2, i4, i8, o', 'd, t, ts, tz, b, c, i2, i4, i8, o')) v (cols, keys),
	unnest('{64kB,64MB}'::text[]) mem, set_config('work_mem', mem, false),
	check_keys('bare WHERE i2 IS NULL OR abs(i2::int) < 32000', cols, keys) c
WHERE c.result <> 'same' OR c.nodes <> 'GpuSort';
RESET work_mem;
SELECT c.* FROM check_keys('bare', 'i4', 'i4') c;

SET enable_hashjoin = off;
SET enable_hashagg = off;
SET enable_material = off;
-- nodes above that read backwards, rescan, restore a mark, limit, or group
SELECT q, c.*
FROM unnest(ARRAY[
	'SELECT i4 FROM bare ORDER BY i4 LIMIT 20',
	'SELECT c, b FROM bare ORDER BY c DESC, b LIMIT 700 OFFSET 300',
	'SELECT DISTINCT c FROM bare ORDER BY c',
	'SELECT DISTINCT c, b, i2 % 3 FROM bare ORDER BY 1, 2, 3',
	'SELECT b, c, count(*) FROM bare GROUP BY b, c ORDER BY b, c',
	'SELECT count(*), sum(x.i2::int8 * y.i2) FROM (SELECT i2 FROM bare) x JOIN (SELECT i2 FROM bare) y ON x.i2 = y.i2',
	'SELECT x.c, y.b FROM (SELECT c FROM bare WHERE seq < 400) x
		JOIN (SELECT c, b FROM bare WHERE seq < 300) y ON x.c = y.c ORDER BY x.c, y.b',
	'SELECT g, s.i4 FROM generate_series(1, 4) g, LATERAL (SELECT i4 FROM bare WHERE i2 % 4 = g ORDER BY i4 OFFSET 1) s
		ORDER BY 1, 2',
	'SELECT g, s.b, s.c FROM generate_series(1, 4) g, (SELECT b, c FROM bare ORDER BY c, b OFFSET 2990) s
		ORDER BY 1, 3, 2',
	'SELECT c, row_number() OVER (ORDER BY c) FROM bare',
	'SELECT s.c::text || s.o::text AS x FROM (SELECT c, o FROM bare ORDER BY o, c OFFSET 0) s'])
		WITH ORDINALITY AS u (q, n),
	check_sort(q) c
ORDER BY n;
-- from PostgreSQL 18 on the planner puts a Sort on each side of it
SELECT c.result, c.nodes ~ '^GpuSort(, GpuSort)?$' AS ours
FROM check_sort('SELECT c FROM bare INTERSECT SELECT (i2 % 100)::int::"char" FROM bare ORDER BY 1') c;
BEGIN;
DECLARE k SCROLL CURSOR FOR SELECT c, b FROM bare ORDER BY c NULLS FIRST, b DESC;
FETCH 4 FROM k;
FETCH BACKWARD 2 FROM k;
FETCH LAST FROM k;
FETCH ABSOLUTE 1000 FROM k;
FETCH RELATIVE -999 FROM k;
ROLLBACK;
SET work_mem = '64kB';
BEGIN;
DECLARE k SCROLL CURSOR FOR SELECT i4, ts FROM bare ORDER BY ts NULLS FIRST, i4 DESC;
FETCH 4 FROM k;
FETCH BACKWARD 2 FROM k;
FETCH LAST FROM k;
FETCH ABSOLUTE 1000 FROM k;
FETCH RELATIVE -999 FROM k;
ROLLBACK;
RESET work_mem;
-- decoded values are the same bytes as the stored values
SELECT count(*), bool_and(record_image_eq(ROW(x.c, x.o, x.b), ROW(y.c, y.o, y.b))) AS same_bytes
FROM (SELECT c, o, b, row_number() OVER () AS n FROM (SELECT c, o, b FROM bare ORDER BY c, o, b OFFSET 0) s) x
JOIN (SELECT c, o, b, row_number() OVER (ORDER BY c, o, b) AS n FROM bare) y USING (n);

-- copies of decoded rows: stored in a table, kept by the node above, converted to a composite value
CREATE TABLE copied AS SELECT c, o, b FROM bare ORDER BY c, o, b;
SELECT count(*), bool_and(record_image_eq(ROW(x.c, x.o, x.b), ROW(y.c, y.o, y.b))) AS same_bytes,
	count(*) FILTER (WHERE x.c IS NULL OR x.o IS NULL OR x.b IS NULL) > 0 AS nulls
FROM (SELECT c, o, b, row_number() OVER () AS n FROM copied) x
JOIN (SELECT c, o, b, row_number() OVER (ORDER BY c, o, b) AS n FROM bare) y USING (n);
SET enable_hashagg = off;
SELECT q, c.*
FROM unnest(ARRAY[
	'SELECT DISTINCT c, o, b FROM bare ORDER BY c, o, b',
	'SELECT c, o, count(*), min(c), max(o) FROM bare GROUP BY c, o ORDER BY c, o',
	'SELECT c, lag(c, 3) OVER (ORDER BY c) FROM bare',
	'SELECT s, s::text FROM (SELECT c, b FROM bare ORDER BY c, b OFFSET 0) s']) WITH ORDINALITY AS x (q, i),
	check_sort(q) c
ORDER BY i;
RESET enable_hashagg;
DROP TABLE copied;

-- packed records of a keys-only sort have no row id, so equal keys are equal records; two threads divide the work
-- between equal records
SET gpusort.threads = 2;
SELECT algorithm, c.*
FROM unnest('{cpu_merge,cpu_radix,cpu_counting,presorted}'::text[]) WITH ORDINALITY AS a (algorithm, n),
	set_config('gpusort.algorithm', algorithm, false) AS s (setting),
	check_sort('SELECT c FROM (SELECT c FROM bare, generate_series(1, 25)) s ORDER BY c DESC /* ' || setting || ' */') c
ORDER BY n;
RESET gpusort.algorithm;
RESET gpusort.threads;

-- Participants of a parallel sort send keys alone: with two workers, and with five, of which two merge the streams of
-- the others; each has its own ranges of keys, and some have no rows.
CREATE TABLE many AS SELECT * FROM bare, generate_series(1, 6) copy ORDER BY copy, seq;
ANALYZE many;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET cpu_tuple_cost = 1;
SET gpusort.plan_grouping = on;
SET gpusort.plan_grouping_min_rows = 0;
ALTER TABLE many SET (parallel_workers = 5);
-- is the sort parallel, and does each participant that has rows send keys?
CREATE FUNCTION sends_keys(query text) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
	line text;
	participant bool := false;
	keys bool := true;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) ' || query LOOP
		participant := participant OR line ~ 'GpuSort Feed';
		IF participant AND line ~ 'Sort Route' AND line !~ ' 0 rows' THEN keys := keys AND line ~ 'keys only'; END IF;
	END LOOP;
	RETURN keys AND participant;
END $$;
SELECT cols, keys, mem, workers, c.*
FROM (VALUES ('i2', 'i2'), ('i4', 'i4 DESC'), ('i8', 'i8 NULLS FIRST'), ('b', 'b DESC NULLS LAST'),
	('c, d', 'd, c DESC'),
	('i4, i2', 'i2 DESC, i4 NULLS FIRST'), ('b, c, i2', 'c, b DESC, i2'), ('i8, o', 'o, i8'), ('nothing', 'nothing'),
	('nothing, b', 'nothing, b'), ('tz, m', 'm, tz'), ('ts', 'ts'), ('b, seven', 'seven, b DESC'), ('b, b, c', 'c, b'),
	('copy, i8', 'copy, i8'), ('copy, i2', 'copy DESC, i2 DESC'), ('copy', 'copy'), ('i8, f8', 'i8, f8'))
		v (cols, keys),
	unnest('{64kB,64MB}'::text[]) mem, unnest('{2,5}'::text[]) workers, set_config('work_mem', mem, false) s1,
	set_config('max_parallel_workers_per_gather', workers, false) s2, check_keys('many', cols, keys) c
WHERE c.result <> 'same' OR c.nodes <> 'GpuSort' OR
	sends_keys(format('SELECT %s FROM many ORDER BY %s', cols, keys)) <> (cols !~ 'f8|tz, m|b, b');
SELECT q, workers, c.result, sends_keys(q) FROM unnest(ARRAY[
	'SELECT DISTINCT i4 FROM many', 'SELECT DISTINCT c, b FROM many', 'SELECT count(DISTINCT i4) FROM many',
	'SELECT count(DISTINCT i4), count(DISTINCT i4) + 1 FROM many WHERE i4 IS NOT NULL',
	'SELECT count(DISTINCT nothing) FROM many', 'SELECT count(DISTINCT i2), sum(DISTINCT i2) FROM many',
	'SELECT count(DISTINCT i8) FROM many HAVING count(DISTINCT i8) > 5',
	'SELECT count(DISTINCT i8) FROM many WHERE i2 = 5',
	'SELECT x.i4 / 2 FROM (SELECT i4 FROM many ORDER BY i4 OFFSET 0) x'])
		WITH ORDINALITY AS u (q, n), unnest('{2,5}'::text[]) workers,
	set_config('max_parallel_workers_per_gather', workers, false), check_sort(q || ' ORDER BY 1') c
ORDER BY n, workers;
-- values counted by a sort in one process, with the NULL first, last, or not there
SET max_parallel_workers_per_gather = 0;
SELECT mem, q, c.result FROM unnest('{64kB,64MB}'::text[]) mem, set_config('work_mem', mem, false), unnest(ARRAY[
	'SELECT count(DISTINCT i4) FROM many', 'SELECT count(DISTINCT i4) FROM many WHERE i4 > 0',
	'SELECT count(DISTINCT nothing) FROM many', 'SELECT count(DISTINCT f8), count(DISTINCT f8) * 2 FROM many',
	'SELECT count(DISTINCT x) FROM (SELECT i4 AS x FROM many ORDER BY i4 DESC OFFSET 0) s',
	'SELECT count(DISTINCT i8::text) FROM many']) q, check_sort(q) c;
-- fewer workers than planned, or none: the leader sorts rows
SET max_parallel_workers_per_gather = 2;
PREPARE keys AS SELECT md5(string_agg(i4::text, ',')) FROM (SELECT i4 FROM many ORDER BY i4 OFFSET 0) x;
PREPARE numbers AS SELECT count(DISTINCT i4) FROM many;
CREATE FUNCTION run_keys(workers int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	sum text;
	number text;
BEGIN
	PERFORM set_config('max_parallel_workers', workers::text, false);
	EXECUTE 'EXECUTE keys' INTO sum;
	EXECUTE 'EXECUTE numbers' INTO number;
	RETURN sum || ' ' || number || ' ' || sends_keys('EXECUTE keys');
END $$;
SELECT run_keys(8) = run_keys(1) AS one, run_keys(8) = replace(run_keys(0), 'false', 'true') AS none,
	run_keys(0) ~ 'false' AS rows, run_keys(8) ~ 'true' AS keys;
SELECT result FROM check_sort(
	'SELECT md5(string_agg(i4::text, '','')) FROM (SELECT i4 FROM many ORDER BY i4 OFFSET 0) x');
RESET max_parallel_workers;
-- scanned again
SET enable_material = off;
SELECT result, sends_keys(q) FROM unnest(ARRAY['SELECT g, s.n FROM generate_series(1, 3) g,
	LATERAL (SELECT count(x.i4) FILTER (WHERE x.i4 > g) AS n FROM (SELECT i4 FROM many ORDER BY i4 OFFSET 0) x) s']) q,
	check_sort(q || ' ORDER BY 1');
RESET enable_material;
-- EXPLAIN counts the rows that an aggregate skips, also the NULL
SELECT (executed_sort(q) #>> '{Plans,0,Actual Rows}')::numeric::int AS "rows" FROM unnest(ARRAY[
	'SELECT count(DISTINCT i4) FROM many', 'SELECT count(DISTINCT i4) FROM many WHERE i4 IS NOT NULL']) q;
DROP FUNCTION sends_keys, run_keys;
DROP TABLE many;
DROP TABLE bare;
