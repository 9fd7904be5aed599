-- PostgreSQL's merge joins (mark and restore) and window functions above GpuSort.
LOAD 'gpusort';
SET gpusort.min_rows = 0;
SET jit = off;
SET max_parallel_workers_per_gather = 0;
SET enable_hashjoin = off;
SET enable_nestloop = off;
SET enable_material = off;
SET enable_hashagg = off;
SET gpusort.merge_joins = off;

CREATE TABLE l AS SELECT i AS id, (mix(i) % 50)::int AS k, (mix(i * 3) % 5)::int8 AS j,
	(mix(i * 5) % 100 / 10.0)::float8 AS f
FROM generate_series(1, 800) i;
CREATE TABLE r AS SELECT i AS id, (mix(i * 7) % 60)::int AS k, (mix(i * 11) % 5)::int8 AS j,
	(mix(i * 13) % 100 / 10.0)::float8 AS f
FROM generate_series(1, 900) i;
INSERT INTO l VALUES (1001, NULL, 1, 'NaN'), (1002, NULL, NULL, '-0'), (1003, 1, NULL, '0');
INSERT INTO r VALUES (1001, NULL, 1, 'NaN'), (1002, 1, 1, '0'), (1003, NULL, 2, '-0');
ANALYZE l, r;

-- many duplicates on both sides: every group of equal keys is marked and restored
EXPLAIN (COSTS OFF) SELECT * FROM l JOIN r ON l.k = r.k;
SELECT * FROM check_sort('SELECT l.id, r.id AS rid FROM l JOIN r ON l.k = r.k ORDER BY 1, 2');
SELECT * FROM check_sort('SELECT l.id, r.id AS rid FROM l JOIN r ON l.k = r.k AND l.j = r.j ORDER BY 1, 2');
SELECT * FROM check_sort('SELECT l.id, r.id AS rid FROM l JOIN r ON l.f = r.f ORDER BY 1, 2');
SELECT * FROM check_sort('SELECT l.id, r.id AS rid FROM l JOIN r ON l.j = r.k ORDER BY 1, 2');
SELECT * FROM check_sort('SELECT l.id, r.id AS rid FROM l LEFT JOIN r ON l.k = r.k AND l.id < r.id ORDER BY 1, 2');
SELECT * FROM check_sort('SELECT l.id, r.id AS rid FROM l RIGHT JOIN r ON l.k = r.k ORDER BY 1, 2');
SELECT * FROM check_sort('SELECT l.id, r.id AS rid FROM l FULL JOIN r ON l.k = r.k ORDER BY 1, 2');
SELECT * FROM check_sort('SELECT id FROM l WHERE EXISTS (SELECT 1 FROM r WHERE r.k = l.k AND r.id > 1000) ORDER BY id');
SELECT * FROM check_sort('SELECT id FROM l WHERE NOT EXISTS (SELECT 1 FROM r WHERE r.k = l.k) ORDER BY id');
-- an inner side with Material above it
SET enable_material = on;
SELECT * FROM check_sort('SELECT l.id, r.id AS rid FROM l JOIN r ON l.k = r.k ORDER BY 1, 2');
SET enable_material = off;
-- a join in a rescanned plan
SELECT * FROM check_sort($$SELECT g, (SELECT count(*) FROM l JOIN r ON l.k = r.k
	WHERE l.id % 5 = g AND r.id % 3 = g % 3) AS n
	FROM generate_series(0, 4) g ORDER BY g$$);
-- past work_mem, with groups larger than it
SET work_mem = '64kB';
CREATE TABLE wide_l AS SELECT i AS id, i % 3 AS k, repeat('x', 100) AS p FROM generate_series(1, 3000) i;
CREATE TABLE wide_r AS SELECT i AS id, i % 4 AS k, repeat('y', 100) AS p FROM generate_series(1, 300) i;
ANALYZE wide_l, wide_r;
SELECT * FROM check_sort('SELECT count(*), sum(x.id::int8 * y.id) FROM wide_r x JOIN wide_l y ON x.k = y.k');
SELECT * FROM check_sort('SELECT count(*), sum(x.id::int8 * y.id) FROM wide_l x
	JOIN wide_r y ON x.k = y.k AND x.id < y.id');
RESET work_mem;

-- windows
SELECT q, c.nodes, c.rows, c.result
FROM unnest(ARRAY[
	'SELECT id, rank() OVER (ORDER BY k) FROM l ORDER BY id',
	'SELECT id, rank() OVER w, dense_rank() OVER w, percent_rank() OVER w, ntile(7) OVER (PARTITION BY j ORDER BY k, id)
		FROM l WINDOW w AS (PARTITION BY j ORDER BY k DESC) ORDER BY id',
	'SELECT id, sum(f) OVER (PARTITION BY k) IS NULL AS s, count(*) OVER (PARTITION BY k) FROM l ORDER BY id',
	'SELECT id, lag(k, 2) OVER w, lead(k) OVER w, first_value(id) OVER w, nth_value(id, 3) OVER w FROM l
		WINDOW w AS (ORDER BY k, id ROWS BETWEEN 3 PRECEDING AND 2 FOLLOWING) ORDER BY id',
	'SELECT id, count(*) OVER (ORDER BY f RANGE BETWEEN 0.5 PRECEDING AND 0.5 FOLLOWING) FROM l WHERE f <> ''NaN''
		ORDER BY id',
	'SELECT id, count(*) OVER (ORDER BY k GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW EXCLUDE TIES) FROM l ORDER BY id',
	'SELECT k, j, grouping(k, j), count(*), sum(id) FROM l GROUP BY CUBE (k, j) ORDER BY 1, 2, 3',
	'SELECT k, array_agg(id ORDER BY f DESC, id), percentile_disc(0.5) WITHIN GROUP (ORDER BY f) FROM l GROUP BY k
		ORDER BY k'])
	WITH ORDINALITY AS u (q, n), check_sort(q) c
ORDER BY n;

DROP TABLE l, r, wide_l, wide_r;
