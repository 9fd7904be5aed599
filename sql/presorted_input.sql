-- Presorted input is not sorted, in either direction; nearly sorted input is.
LOAD 'gpusort';
SET gpusort.min_rows = 0;
SET jit = off;
SET max_parallel_workers_per_gather = 0;
SET work_mem = '64MB';

-- The route, and whether the rows are those of the stock Sort.  The order must be total; with stable, seq makes it so.
CREATE FUNCTION route_and_rows(tab text, keys text, stable bool DEFAULT false, OUT route text, OUT result text)
	LANGUAGE plpgsql AS $$
BEGIN
	route := regexp_replace(sort_route(format('SELECT * FROM %s ORDER BY %s', tab, keys)), ', (no device|device \w+)',
		'');
	result := CASE WHEN stable THEN (check_stable(tab, keys)).result
		ELSE (check_sort(format('SELECT * FROM %s ORDER BY %s', tab, keys))).result END;
END $$;

CREATE TABLE grown AS
SELECT i AS seq, timestamp '2026-01-01' + i * interval '1 second' AS at, i / 3 AS thirds, (i / 700)::int2 AS blocks,
	i % 700 AS within,
	NULLIF(i, 6000) AS last_null, CASE WHEN i > 5000 THEN i END AS first_null, CASE WHEN i > 5000 THEN NULL
		ELSE i END AS late_null,
	1 AS one, i::int8 * 4000000000 AS wide, ('serial ' || lpad(i::text, 8, '0')) COLLATE "C" AS serial,
	('name ' || lpad((i / 3)::text, 8, '0') || 'x') COLLATE "C" AS thrice, (i / 7.0)::numeric(12,3) AS n,
		(i / 700)::text COLLATE "C" AS digit,
	lpad(i::text, 9, '0') COLLATE "C" AS t
FROM generate_series(1, 6000) i;
ANALYZE grown;

-- normalized keys that are wider than a word beside a rid are exact here, and strings are not compared
SELECT keys, a.* FROM unnest('{at,seq,wide,at\, wide,serial,n\, seq,blocks\, within,thirds\, seq,one\, seq,
	blocks\, serial,
	last_null\, seq,first_null NULLS FIRST\, seq,late_null\, seq,one\, one\, one\, one\, wide\, at\, seq}'::text[])
		WITH ORDINALITY AS k (keys, n),
	route_and_rows('grown', keys) a ORDER BY k.n;
SELECT keys, a.* FROM unnest('{at DESC,seq DESC,wide DESC,at DESC\, wide,serial DESC,n DESC,blocks DESC\, within DESC,
	last_null DESC NULLS LAST,last_null DESC,first_null DESC NULLS LAST\, seq DESC,
		late_null DESC NULLS FIRST\, seq DESC}'::text[])
	WITH ORDINALITY AS k (keys, n), route_and_rows('grown', keys) a ORDER BY k.n;
-- equal rows keep their order: descending input is not simply read backwards
SELECT keys, a.* FROM unnest('{thirds,blocks,one,one DESC,thirds DESC,blocks DESC,first_null NULLS FIRST,thrice,
	thrice DESC,one\, thirds DESC}'::text[])
	WITH ORDINALITY AS k (keys, n), route_and_rows('grown', keys, true) a ORDER BY k.n;
-- rows from a slot
SELECT keys, a.* FROM unnest('{at,wide DESC,serial,thirds\, seq,first_null NULLS FIRST\, seq}'::text[])
	WITH ORDINALITY AS k (keys, n),
	route_and_rows('(SELECT * FROM grown OFFSET 0) g', keys) a ORDER BY k.n;
-- inexact normalized keys, and exact ones
SELECT keys, a.result FROM unnest('{(at\, seq),ARRAY[seq],digit\, t}'::text[]) WITH ORDINALITY AS k (keys, n),
	route_and_rows('grown', keys) a ORDER BY k.n;
-- some of the columns are returned
SELECT q, sort_route(q) ~ '^presorted' AS presorted, (check_sort(q)).result
	FROM unnest('{SELECT seq\, t FROM grown ORDER BY at,SELECT t\, late_null FROM grown ORDER BY wide DESC,
	SELECT seq FROM grown ORDER BY seq,SELECT seq FROM grown ORDER BY seq DESC,
		SELECT seq + 1\, t FROM grown ORDER BY at}'::text[]) q;

-- one row out of order, at every position
SELECT count(*) AS places, bool_and((check_sort(up)).result = 'same' AND (check_sort(down)).result = 'same') AS same,
	bool_and(sort_route(up) !~ 'in order' AND sort_route(down) !~ 'reversed') AS seen
FROM unnest('{2,3,63,64,65,66,127,128,129,1000,2999,3000}'::int[]) place,
	unnest('{grown,(SELECT * FROM grown OFFSET 0) g}'::text[]) tab,
	format('SELECT seq FROM (SELECT seq, CASE WHEN seq = %s THEN 0 ELSE seq END AS k FROM %s WHERE seq <= 3000) s
		ORDER BY k, seq', place, tab) up,
	format('SELECT seq FROM (SELECT seq, CASE WHEN seq = %s THEN 0 ELSE seq END AS k FROM %s WHERE seq <= 3000) s
		ORDER BY k DESC, seq', place, tab) down;
-- 1 to 70 rows
SELECT bool_and((check_sort(format('SELECT * FROM grown WHERE seq <= %s ORDER BY at', n))).result = 'same'
	AND (check_sort(format('SELECT * FROM grown WHERE seq <= %s ORDER BY at DESC', n))).result = 'same'
	AND (check_sort(format('SELECT * FROM grown WHERE seq <= %s ORDER BY thirds DESC, seq', n))).result = 'same')
		AS same
FROM generate_series(1, 70) n;

-- a LIMIT keeps the first rows, or the last
SELECT q, sort_route(q) ~ '^presorted' AS presorted, (check_sort(q)).result
FROM unnest('{at LIMIT 10,at DESC LIMIT 10,at DESC LIMIT 1500,thirds DESC\, seq LIMIT 1500,at LIMIT 3000 OFFSET 1000,
	serial LIMIT 1030,serial DESC LIMIT 1030}'::text[]) o,
	format('SELECT * FROM grown ORDER BY %s', o) q;

-- gpusort.algorithm forces a sort; gpusort.verify compares all keys
SET gpusort.algorithm = 'cpu_radix';
SELECT a.* FROM route_and_rows('grown', 'at') a;
RESET gpusort.algorithm;
SET gpusort.verify = on;
SELECT keys, a.* FROM unnest('{at,at DESC,thirds,serial,first_null NULLS FIRST\, seq}'::text[])
	WITH ORDINALITY AS k (keys, n), route_and_rows('grown', keys) a ORDER BY k.n;
RESET gpusort.verify;

-- past work_mem: consecutive ascending runs become one run, runs of descending input are merged
SET work_mem = '64kB';
SELECT keys, mem, coalesce(substring(sort_route(q) FROM '(\d+) runs? merged')::int, 0) = 1 AS one_run,
	(check_sort(q)).result
FROM unnest('{at,wide\, seq,thirds\, seq,first_null NULLS FIRST\, seq,at DESC,thirds DESC\, seq,serial,
	late_null\, seq}'::text[]) WITH ORDINALITY AS k (keys, n),
	unnest('{64kB,200kB}'::text[]) mem, set_config('work_mem', mem, false),
		format('SELECT * FROM grown ORDER BY %s', keys) q
ORDER BY k.n, mem;
SELECT keys, (check_stable('grown', keys)).result FROM unnest('{thirds,blocks,one,thirds DESC}'::text[]) keys;
-- input whose order ends within a run, or between two runs, and starts again
SELECT step, (check_sort(format('SELECT seq, t, at FROM (SELECT *, (seq + %s) %% 4000 AS k FROM grown OFFSET 0) s
	ORDER BY k, seq', step))).result
FROM unnest('{0,1,100,500,1000,2000}'::int[]) step;
-- keys only; a LIMIT; reading one run backwards
SELECT (check_sort('SELECT seq FROM grown ORDER BY seq')).result,
	(check_sort('SELECT * FROM grown ORDER BY at LIMIT 4000')).result;
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT seq, t FROM grown ORDER BY at;
MOVE 3000 FROM c;
FETCH BACKWARD 2 FROM c;
FETCH LAST FROM c;
FETCH FIRST FROM c;
ROLLBACK;
RESET work_mem;

DROP TABLE grown;
DROP FUNCTION route_and_rows;
