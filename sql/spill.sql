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

RESET work_mem;
DROP TABLE spill, large, behind;
