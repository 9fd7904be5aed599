-- Memory of a sort, when it writes runs, and what a LIMIT saves.
LOAD 'gpusort';
SET gpusort.min_rows = 0;
SET jit = off;
SET max_parallel_workers_per_gather = 0;

CREATE TABLE mem AS
SELECT i::int AS seq, mix(i)::bigint - 2147483646 AS k, NULLIF(mix(i * 3) % 100, 7)::int AS few,
	repeat('p', (mix(i * 5) % 50)::int) AS p
FROM generate_series(1, 40000) i;
CREATE TABLE mem_fixed AS SELECT seq, k, few FROM mem;
ANALYZE mem, mem_fixed;

-- Memory and disk of the query's only GpuSort, from EXPLAIN.
CREATE FUNCTION sort_space(query text, OUT method text, OUT peak int, OUT disk int, OUT pages bool, OUT runs int,
	OUT ties int)
LANGUAGE plpgsql AS $$
DECLARE
	plan jsonb := executed_sort(query);
BEGIN
	method := plan ->> 'Sort Method';
	peak := plan ->> 'Sort Peak Memory';
	disk := CASE plan ->> 'Sort Space Type' WHEN 'Disk' THEN (plan ->> 'Sort Space Used')::int ELSE 0 END;
	IF disk = 0 AND peak <> (plan ->> 'Sort Space Used')::int THEN
		RAISE 'Sort Space Used is not the peak: %', plan;
	END IF;
	pages := (plan ->> 'Sort Rows by Page')::int > 30000;
	runs := coalesce(substring(plan ->> 'Sort Route' FROM '(\d+) runs? (?:of keys )?merged')::int, 0);
	ties := coalesce(substring(plan ->> 'Sort Route' FROM '(\d+) ties compared')::int, 0);
END $$;
CREATE FUNCTION sort_space(query text, setting text, value text) RETURNS record LANGUAGE plpgsql AS $$
DECLARE
	s record;
	saved text := current_setting(setting);
BEGIN
	PERFORM set_config(setting, value, false);
	s := sort_space(query);
	PERFORM set_config(setting, saved, false);
	RETURN s;
END $$;

-- Every mode, with rows that fit work_mem, nearly fit, and do not fit.  The peak is at most work_mem plus a page's rows
-- and a file buffer.  Before the first run is written, most of work_mem is used.
CREATE TABLE modes (name text, query text);
INSERT INTO modes VALUES
	('pages', 'SELECT * FROM mem_fixed ORDER BY k'),
	('pages, text', 'SELECT * FROM mem ORDER BY k DESC'),
	('rows', 'SELECT * FROM (SELECT * FROM mem OFFSET 0) m ORDER BY k'),
	('rows, nulls', 'SELECT * FROM (SELECT * FROM mem OFFSET 0) m ORDER BY few'),
	('rows, wide keys', 'SELECT * FROM (SELECT k / 1000000000 AS a, k % 3 AS b, seq, p FROM mem OFFSET 0) m
		ORDER BY a, b, seq'),
	('rows, inexact keys', 'SELECT * FROM (SELECT k % 5 AS b, k * 1000000000 AS a, seq, p FROM mem OFFSET 0) m
		ORDER BY b, a, seq'),
	('keys only', 'SELECT k FROM mem ORDER BY k'),
	('keys only, nulls', 'SELECT few FROM mem ORDER BY few DESC'),
	('keys only, 96 bits', 'SELECT seq, k FROM mem ORDER BY k, seq'),
	('in order', 'SELECT * FROM mem_fixed ORDER BY seq'),
	('nearly in order', 'SELECT * FROM mem_fixed ORDER BY seq - CASE WHEN seq % 100 = 0 THEN 5000 ELSE 0 END'),
	('top-N', 'SELECT * FROM mem ORDER BY k LIMIT 5000'),
	('top-N, fixed', 'SELECT * FROM mem_fixed ORDER BY k LIMIT 12000'),
	('top-N, four columns', 'SELECT * FROM mem ORDER BY k * 0, k * 0 + 1, few, seq DESC LIMIT 3000');
SELECT name, bool_and(s.peak BETWEEN 1 AND kb + 64) AS within,
	min(s.peak) FILTER (WHERE s.disk > 0 AND s.peak < kb / 3) AS too_little,
	bool_or(s.disk > 0) AS spilled, bool_or(s.disk = 0) AS fits
FROM modes, unnest('{512,800,1024,1400,1800,2048,2500,3000,3300,4096,6000}'::int[]) kb,
	sort_space(query, 'work_mem', kb || 'kB') s (method text, peak int, disk int, pages bool, runs int, ties int)
GROUP BY name ORDER BY name;
-- a result that is read twice
SET enable_hashjoin = off;
SET enable_nestloop = off;
SET enable_material = off;
SELECT kb, s.peak BETWEEN 1 AND kb + 64 AS within, s.disk > 0 AS spilled
FROM unnest('{256,512,4096,8192}'::int[]) kb,
	sort_space('SELECT count(*) FROM (SELECT few, seq, p FROM mem ORDER BY few) x
		JOIN (SELECT k / 1000000 AS few, seq, p FROM mem OFFSET 0) y USING (few)',
		'work_mem', kb || 'kB') s (method text, peak int, disk int, pages bool, runs int, ties int) ORDER BY kb;
RESET enable_hashjoin;
RESET enable_nestloop;
RESET enable_material;

-- a LIMIT whose rows fit work_mem writes no file, for any input order
SET work_mem = '1MB';
SET temp_file_limit = 0;
SELECT s.method ~ '^top-N' AS top, s.disk, s.peak <= 1024 + 64 AS within
FROM unnest('{mix(i),i,-i,i % 3,(i * 7) % 1000}'::text[]) k,
	sort_space(format('SELECT * FROM (SELECT %s AS k, repeat(''w'', 6000) AS p
		FROM generate_series(1, 5000) i OFFSET 0) s ORDER BY k LIMIT 10', k)) s;
SELECT n, q, s.method ~ '^top-N' AS top, s.disk
FROM unnest('{1,1000,9000}'::int[]) n, unnest('{k,-k,seq,-seq,few}'::text[]) q,
	sort_space(format('SELECT * FROM mem_fixed ORDER BY %s LIMIT %s', q, n)) s ORDER BY 1, 2;
RESET temp_file_limit;
SELECT n, q, c.rows, c.result
FROM unnest('{1,1000,9000}'::int[]) n, unnest('{k,-k,seq,-seq,few\, seq}'::text[]) q,
	check_sort(format('SELECT * FROM mem_fixed ORDER BY %s LIMIT %s', q, n)) c ORDER BY 1, 2;
-- rows of all lengths, also longer than an arena chunk, move together
SET work_mem = '64MB';
CREATE FUNCTION lengths(keys text, bound int, every int, longest int) RETURNS TABLE (top boolean, disk int, result text)
	LANGUAGE plpgsql AS $$
DECLARE
	q text := format('SELECT k, seq, length(p) AS l, md5(p) AS m
		FROM (SELECT * FROM (SELECT i AS seq, mix(i) %% 50 AS k,
		repeat(chr((65 + i %% 26)::int), (CASE WHEN i %% %s = 0 THEN %s ELSE mix(i * 3) %% 9000 END)::int) AS p
		FROM generate_series(1, 9000) i OFFSET 0) s ORDER BY %s LIMIT %s) t', every, longest, keys, bound);
	s record := sort_space(q);
BEGIN
	RETURN QUERY SELECT s.method ~ '^top-N', s.disk, (check_sort(q)).result;
END $$;
SELECT keys, bound, l.* FROM unnest('{k\, seq,-seq}'::text[]) keys, unnest('{10,1100,3000}'::int[]) bound,
	lengths(keys, bound, 97, 20000) l ORDER BY 1, 2;
SELECT keys, l.top, l.result FROM unnest('{k\, seq,-seq}'::text[]) keys, lengths(keys, 300, 2990, 17000000) l
	ORDER BY 1;
-- rows that nearly fill work_mem write no run; only rows that do not fit write runs
SET work_mem = '1MB';
CREATE FUNCTION nearly(expr text, bound int) RETURNS text LANGUAGE sql AS $$
	SELECT format('SELECT * FROM (SELECT i AS seq, %s AS k, repeat(''n'', 975) AS p
		FROM generate_series(1, 20000) i OFFSET 0) s ORDER BY k LIMIT %s', expr, bound) $$;
SELECT bound, s.disk > 0 AS spilled, s.peak <= 1024 + 64 AS within
FROM unnest('{800,900,960,1000,5000}'::int[]) bound, sort_space(nearly('-i', bound)) s ORDER BY 1;
SELECT bound, (check_sort(nearly(k, bound))).result FROM unnest('{800,960,975,980,985,990,1100}'::int[]) bound,
	unnest('{mix(i),-i,i}'::text[]) k;

-- keys wider than the key buffer's words: rows behind the cutoff are not stored
SELECT s.ties < 4000 AS few, s.method ~ '^top-N' AS top
FROM sort_space('SELECT * FROM (SELECT 1::int8 AS a, 2::int8 AS b, 3::int8 AS c, k, seq FROM mem OFFSET 0) s
	ORDER BY a, b, c, k LIMIT 10') s;
SELECT o, c.rows, c.result
FROM unnest('{a\, b\, c\, k,a\, b\, c\, k DESC\, seq,few\, b\, c\, k\, seq,few DESC NULLS LAST\, b\, c\, seq,
	a\, b\, c\, p\, seq}'::text[]) o,
	unnest('{1,10,5000}'::int[]) n,
	check_sort(format('SELECT * FROM (SELECT 1::int8 AS a, 2::int8 AS b, 3::int8 AS c, few::int8, k, seq, p
		FROM mem OFFSET 0) s ORDER BY %s LIMIT %s', o, n)) c
ORDER BY o, n;
-- of rows with equal keys the first ones of the input are returned
SELECT compare_rows(
	(rows_of(format('SELECT * FROM (SELECT 1::int8 AS a, 2::int8 AS b, 3::int8 AS c, few::int8 AS d, seq
		FROM mem OFFSET 0) s ORDER BY a, b, c, d, seq LIMIT %s', n), false)).r,
	(rows_of(format('SELECT * FROM (SELECT 1::int8 AS a, 2::int8 AS b, 3::int8 AS c, few::int8 AS d, seq
		FROM mem OFFSET 0) s ORDER BY a, b, c, d LIMIT %s', n), true)).r)
FROM unnest('{1,700,2000}'::int[]) n;

-- more rows than can be sorted at once
CREATE FUNCTION same_in_runs(query text, rows int) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	PERFORM set_config('gpusort.run_rows', rows::text, false);
	RETURN (check_sort(query)).result;
END $$;
SET work_mem = '64MB';
SELECT name, mem, s.runs, s.pages, same_in_runs(query, mem) AS result
FROM (VALUES ('keys only', 'SELECT k FROM mem ORDER BY k'),
	('rows', 'SELECT * FROM (SELECT * FROM mem OFFSET 0) m ORDER BY k, seq'),
	('pages', 'SELECT * FROM mem_fixed ORDER BY few, seq')) v (name, query),
	unnest('{0,1000,7777,40000}'::int[]) mem, sort_space(query, 'gpusort.run_rows', mem::text) s (method text, peak int,
		disk int, pages bool, runs int, ties int)
ORDER BY 1, 2;
SET gpusort.run_rows = 1000;
SELECT n, s.runs, (check_sort(format('SELECT * FROM mem ORDER BY few, seq LIMIT %s', n))).result
FROM unnest('{10,999,1000,5000}'::int[]) n, sort_space(format('SELECT * FROM mem ORDER BY few, seq LIMIT %s', n)) s
	ORDER BY n;
RESET gpusort.run_rows;

DROP TABLE mem, mem_fixed, modes;
DROP FUNCTION sort_space(text), sort_space(text, text, text), lengths, nearly, same_in_runs;
