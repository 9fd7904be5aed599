-- Past work_mem: sorted runs in temporary files are merged.
LOAD 'gpusort';
SET gpusort.min_rows = 0;
SET jit = off;
SET max_parallel_workers_per_gather = 0;

CREATE TABLE spill AS
SELECT i AS seq, (mix(i) % 100000)::int AS k, mix(i * 3) - 2147483646 AS v,
	repeat(chr(97 + (i % 26)), (mix(i) % 60)::int) AS p
FROM generate_series(1, 60000) i;
ANALYZE spill;

SELECT mem, c.*
FROM unnest('{64kB,100kB,1MB,2MB,64MB}'::text[]) WITH ORDINALITY AS m (mem, n),
	set_config('work_mem', mem, false),
	check_sort('SELECT * FROM spill ORDER BY k, seq') c
ORDER BY n;
SET work_mem = '64kB';
SELECT * FROM check_sort('SELECT * FROM spill ORDER BY v DESC, k');
SELECT * FROM check_sort('SELECT * FROM spill ORDER BY k / 1000, v');
SELECT * FROM check_stable('spill', 'k / 1000');
SELECT * FROM check_stable('spill', 'k / 50000 DESC');
-- keys that do not fit 128 bits
SELECT * FROM check_sort('SELECT * FROM spill ORDER BY (k / 50000)::int8, (k % 7)::int8, (v % 3)::int8, seq');

-- EXPLAIN prints Disk if runs were written
SELECT regexp_replace(line, 'Sort Method: .*Disk: NkB', 'Sort Method: (any) Disk: NkB') AS line
FROM explain_analyze('SELECT * FROM spill ORDER BY k') line WHERE line ~ 'Disk|GpuSort';
-- and Memory otherwise
SET work_mem = '64MB';
SELECT line ~ 'Disk' AS disk FROM explain_analyze('SELECT * FROM spill ORDER BY k') line WHERE line ~ 'Sort Method';

-- rows larger than work_mem among small ones
SET work_mem = '64kB';
CREATE TABLE large AS
SELECT i AS seq, (mix(i) % 50)::int AS k, CASE WHEN i % 10 = 0 THEN 200000 ELSE 10 END AS len
	FROM generate_series(1, 200) i;
ANALYZE large;
SELECT * FROM check_sort($$SELECT k, seq, md5(p) FROM (SELECT k, seq, repeat(chr(65 + seq % 26), len) AS p FROM large
	ORDER BY k, seq) s$$);
SELECT * FROM check_sort($$SELECT k, seq, length(p)
	FROM (SELECT k, seq, repeat(chr(65 + seq % 26), len) AS p FROM large WHERE len > 10 ORDER BY k DESC, seq) s$$);

-- keys behind values of any length, also more than 64 kB, with NULLs, and a column added later
CREATE TABLE behind AS
SELECT repeat(chr(97 + (i % 26)), CASE WHEN i % 400 = 0 THEN 90000 ELSE (mix(i) % 90)::int END) AS p,
	NULLIF(mix(i) % 40, 3)::int AS k, mix(i * 5) % 3 AS b, i AS seq
FROM generate_series(1, 8000) i;
ALTER TABLE behind ADD COLUMN d date DEFAULT '2026-01-01';
INSERT INTO behind SELECT p, k, b, seq + 8000, date '2026-01-01' + (mix(seq) % 9)::int - 4 FROM behind;
ANALYZE behind;
SELECT keys, mem, check_sort(format('SELECT * FROM behind ORDER BY %s, seq', keys))
FROM unnest('{k,k DESC NULLS LAST\, b,d\, k,b DESC\, d DESC\, k,left(p\, 3),left(p\, 12) DESC\, k,
	b::numeric\, k}'::text[]) WITH ORDINALITY AS a (keys, i),
	unnest('{64kB,500kB}'::text[]) mem, set_config('work_mem', mem, false)
ORDER BY i, mem;
SET work_mem = '64kB';
SELECT check_sort($$SELECT seq, k, md5(p) FROM (SELECT p || '' AS p, k, d, seq FROM behind
	ORDER BY d DESC, k, seq) s$$);

-- ascending, descending and equal keys
SELECT keys, check_sort(format('SELECT * FROM spill ORDER BY %s', keys))
FROM unnest('{seq,seq DESC,seq / 5000\, seq}'::text[]) keys;
SELECT keys, check_stable('spill', keys)
FROM unnest('{(seq * 0),p,left(p\, 1) DESC\, k / 10000,left(p\, 20)\, left(p\, 30) DESC}'::text[]) keys;

-- reading runs backwards
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT k, seq FROM spill ORDER BY v;
MOVE 30000 FROM c;
FETCH BACKWARD 2 FROM c;
FETCH LAST FROM c;
FETCH FIRST FROM c;
ROLLBACK;

-- rows as differences to the row before: files are smaller, and the rows are the same
CREATE FUNCTION disk_kb(query text, coded text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	PERFORM set_config('gpusort.compress_runs', coded, true);
	FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) ' || query LOOP
		IF line ~ 'Disk: ' THEN
			RETURN substring(line FROM 'Disk: (\d+)kB');
		END IF;
	END LOOP;
	RETURN NULL;
END $$;
SET work_mem = '1MB';
SELECT disk_kb('SELECT k, seq, v FROM spill ORDER BY k, seq', 'on') < 0.7 *
	disk_kb('SELECT k, seq, v FROM spill ORDER BY k, seq', 'off') AS smaller;
SET work_mem = '64kB';

CREATE TABLE shapes (dropped int, seq int, n int, u uuid, nm name, p point, c char(3), s smallint, b bool, late text,
	t text, x numeric, f float8, arr int[], gone text);
ALTER TABLE shapes ALTER COLUMN late SET STORAGE EXTERNAL;
INSERT INTO shapes
SELECT i, i, NULLIF(mix(i) % 50, 7), md5((i % 97)::text)::uuid, 'n' || i % 20, point(i % 3, i), 'ab', i % 9, i % 2 = 0,
	CASE WHEN i % 300 = 0 THEN repeat(md5(i::text), 300) WHEN i % 11 = 0 THEN repeat('long', 90) END,
	CASE i % 4 WHEN 0 THEN NULL WHEN 1 THEN '' WHEN 2 THEN repeat('t', (mix(i) % 150)::int) ELSE md5(i::text) END,
	CASE WHEN i % 5 > 0 THEN mix(i)::numeric / (1 + i % 1000) END, CASE WHEN i % 13 > 0 THEN mix(i) / 7.0 END,
	CASE WHEN i % 17 = 0 THEN ARRAY[i, NULL, i % 3] END, 'gone'
FROM generate_series(1, 6000) i;
ALTER TABLE shapes DROP COLUMN dropped, DROP COLUMN gone;
ALTER TABLE shapes ADD COLUMN added int8 DEFAULT 77;
INSERT INTO shapes SELECT * FROM shapes WHERE seq % 50 = 0;
ANALYZE shapes;
SELECT coded, keys, check_sort(format('SELECT * FROM shapes ORDER BY %s', keys))
FROM unnest('{on,off,auto}'::text[]) WITH ORDINALITY AS m (coded, i), set_config('gpusort.compress_runs', coded, false),
	unnest('{n\, seq,u\, seq DESC,t\, seq,x DESC NULLS LAST\, seq,late\, seq}'::text[]) keys
ORDER BY i, keys;
SELECT coded, check_stable('(SELECT * FROM shapes WHERE seq % 50 > 0 ORDER BY seq OFFSET 0) s', 'n / 10')
FROM unnest('{on,off}'::text[]) coded,
	set_config('gpusort.compress_runs', coded, false);
SET gpusort.compress_runs = on;
-- some columns, one column that is the key, and many columns
SELECT check_sort('SELECT seq, nm, c FROM shapes ORDER BY nm, seq');
SELECT check_sort('SELECT v FROM spill ORDER BY v');
SELECT check_sort(format('SELECT %s, seq FROM spill WHERE seq < 700 ORDER BY k, seq', (SELECT string_agg('NULLIF(seq % '
	|| 2 + i % 7 || ', 1) AS c' || i, ', ') FROM generate_series(1, 300) i)));
-- runs that presorted rows extend, and runs that are merged into runs
SELECT keys, check_sort(format('SELECT * FROM spill ORDER BY %s', keys))
FROM unnest('{seq,seq / 7000\, k\, seq}'::text[]) keys;
SET gpusort.run_rows = 40;
SELECT check_sort('SELECT * FROM spill ORDER BY k, seq');
RESET gpusort.run_rows;
-- rows longer than a block
SELECT check_sort($$SELECT k, seq, md5(p), length(p)
	FROM (SELECT k, seq, repeat(chr(65 + seq % 26), 100 * seq) AS p FROM large ORDER BY k, seq) s$$);
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT seq, n, left(t, 5) AS t, c FROM shapes ORDER BY n NULLS FIRST, seq, f;
MOVE 3000 FROM c;
FETCH BACKWARD 2 FROM c;
FETCH LAST FROM c;
FETCH FIRST FROM c;
ROLLBACK;
RESET gpusort.compress_runs;

RESET work_mem;
DROP FUNCTION disk_kb;
DROP TABLE spill, large, behind, shapes;
