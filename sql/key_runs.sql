-- Runs of keys: a sort whose rows consist of their keys writes sorted keys, as differences to the key before.
LOAD 'gpusort';
SET gpusort.min_rows = 0;
SET jit = off;
SET max_parallel_workers_per_gather = 0;
SET enable_hashagg = off;

CREATE TABLE key_runs AS
SELECT i AS seq, CASE WHEN i % 7 > 0 THEN (mix(i) % 5003)::int END AS a,
	CASE WHEN i % 11 > 0 THEN (mix(i * 3) % 1000003 - 500000) * 1000000007 END AS b, (mix(i * 5) % 100)::int2 AS c,
	i / 3 AS triples, CASE WHEN i < 4500 THEN i END AS gap, NULL::int AS nothing, 42 AS one
FROM generate_series(1, 6000) i;
INSERT INTO key_runs (seq, a, b) VALUES (6001, -2147483648, -9223372036854775808), (6002, 2147483647,
	9223372036854775807);
ANALYZE key_runs;

-- the runs of a sort, and whether they have keys
CREATE FUNCTION run_kind(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	line text;
	kind text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) ' || query LOOP
		kind := coalesce(kind, substring(line FROM 'Sort Route: .*, (\d+ runs? .*merged)'));
	END LOOP;
	RETURN kind;
END $$;
-- as check_sort(), with the runs, for some sizes of a run
CREATE FUNCTION check_runs(query text, OUT results text, OUT kinds text) LANGUAGE plpgsql AS $$
DECLARE
	most int;
BEGIN
	FOREACH most IN ARRAY '{0,1,64,65}'::int[] LOOP
		PERFORM set_config('gpusort.run_rows', most::text, true);
		results := concat_ws(', ', results, (SELECT result FROM check_sort(query)));
		kinds := concat_ws('; ', kinds, run_kind(query));
	END LOOP;
END $$;

-- NULLs, directions, columns; layouts that differ from run to run; constants; wide keys
SET work_mem = '64kB';
SELECT cols, keys, c.results, c.kinds ~ '^(\d+ runs? of keys merged(; )?){4}$' AS all_of_keys
FROM (VALUES ('a', 'a'), ('a', 'a DESC'), ('a', 'a NULLS FIRST'), ('a', 'a DESC NULLS LAST'), ('b', 'b'),
	('b', 'b DESC'), ('b', 'b NULLS FIRST'), ('a, c', 'a, c'), ('a, c', 'c DESC NULLS LAST, a NULLS FIRST'),
	('a, c, seq', 'a DESC, c, seq'), ('b, c', 'c, b DESC'), ('a, b', 'b NULLS FIRST, a DESC'), ('a, b', 'a, b'),
	('seq', 'seq'), ('seq', 'seq DESC'), ('seq, c', 'seq, c'), ('gap', 'gap'), ('gap', 'gap NULLS FIRST'),
	('triples', 'triples'), ('nothing', 'nothing'), ('nothing, a', 'nothing, a'), ('b, nothing', 'b, nothing'),
	('a % 2 AS few', 'a % 2'), ('c', 'c DESC'), ('seq / 2000 AS s, b', 'seq / 2000, b'),
	('DISTINCT a', 'a'), ('DISTINCT b', 'b NULLS FIRST'), ('DISTINCT a, c', 'a DESC, c'),
	('DISTINCT triples', 'triples'), ('DISTINCT a % 2 AS few', 'few'), ('DISTINCT ON (c) c, b', 'c, b DESC'),
	('DISTINCT ON (a) a, b', 'a, b'))
		v (cols, keys), check_runs(format('SELECT %s FROM key_runs ORDER BY %s', cols, keys)) c;

-- the number of runs: presorted input makes one
SET gpusort.run_rows = 100;
SELECT keys, run_kind('SELECT ' || cols || ' FROM key_runs ORDER BY ' || keys)
FROM (VALUES ('seq', 'seq'), ('seq', 'seq DESC'), ('triples', 'triples'), ('gap', 'gap NULLS FIRST'), ('c', 'c'),
	('a, c', 'a, c')) v (cols, keys);
-- rows that have more than their keys, or keys that cannot be decoded, make runs of rows
SELECT keys, run_kind('SELECT ' || cols || ' FROM key_runs ORDER BY ' || keys)
FROM (VALUES ('a, c', 'a'), ('a::float8 AS f', 'f'), ('b, seq::int8 AS s', 'b, s'), ('one, c', 'one, c'))
	v (cols, keys);
RESET gpusort.run_rows;

-- smaller than runs of rows
CREATE FUNCTION disk_kb(query text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) ' || query LOOP
		IF line ~ 'Disk: ' THEN
			RETURN substring(line FROM 'Disk: (\d+)kB');
		END IF;
	END LOOP;
	RETURN NULL;
END $$;
SET work_mem = '1MB';
SELECT disk_kb('SELECT i % 1000 AS k FROM generate_series(1, 60000) i ORDER BY 1') < 100 AS two_bytes,
	disk_kb('SELECT i AS k FROM generate_series(1, 60000) i ORDER BY 1') < 50 AS a_bit,
	disk_kb('SELECT mix(i) * 2000000000 AS k FROM generate_series(1, 60000) i ORDER BY 1') < 490 AS eight_bytes;
SET work_mem = '64kB';

-- results that are read backward, marked, and read more than once
BEGIN;
DECLARE n SCROLL CURSOR FOR SELECT a FROM key_runs ORDER BY a NULLS FIRST;
DECLARE w SCROLL CURSOR FOR SELECT a, b FROM key_runs ORDER BY b DESC, a;
FETCH ABSOLUTE 859 FROM n;
FETCH BACKWARD 2 FROM n;
FETCH 3 FROM n;
FETCH LAST FROM n;
FETCH NEXT FROM n;
FETCH PRIOR FROM n;
FETCH FIRST FROM n;
FETCH PRIOR FROM n;
FETCH NEXT FROM n;
FETCH ABSOLUTE 3000 FROM w;
FETCH BACKWARD 2 FROM w;
FETCH RELATIVE -2000 FROM w;
FETCH LAST FROM w;
FETCH FIRST FROM w;
COMMIT;
SET enable_hashjoin = off;
SET enable_nestloop = off;
SET enable_material = off;
SELECT c.result, run_kind(q) FROM (VALUES ('SELECT count(*), sum(x.c::int8 * y.triples)
	FROM (SELECT c FROM key_runs OFFSET 0) x JOIN (SELECT triples FROM key_runs OFFSET 0) y ON x.c = y.triples')) v (q),
	check_sort(q) c;
SELECT c.result, run_kind(q) FROM (VALUES ('SELECT x.c, count(*) FROM (SELECT c FROM key_runs OFFSET 0) x
	JOIN (SELECT c FROM key_runs WHERE seq % 20 = 0 OFFSET 0) y ON x.c = y.c GROUP BY 1 ORDER BY 1')) v (q),
	check_sort(q) c;
RESET enable_material;
RESET enable_nestloop;
RESET enable_hashjoin;
-- nodes that number rows ask for rows ahead
SELECT c.result, run_kind(q) FROM (VALUES ('SELECT c, cume_dist() OVER (ORDER BY c) FROM key_runs'),
	('SELECT * FROM (SELECT a, rank() OVER (ORDER BY a DESC) AS r FROM key_runs) s WHERE r < 2000'),
	('SELECT * FROM (SELECT c, row_number() OVER (PARTITION BY c) AS r FROM key_runs) s WHERE r <= 2')) v (q),
	check_sort(q) c;

DROP FUNCTION run_kind, check_runs, disk_kb;
DROP TABLE key_runs;
