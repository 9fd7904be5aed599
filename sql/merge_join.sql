-- GpuSort Join: which merge joins it replaces, and that it returns the same rows in the same order.
LOAD 'gpusort';
SET gpusort.min_rows = 0;
SET jit = off;
SET max_parallel_workers_per_gather = 0;
SET enable_hashjoin = off;
SET enable_nestloop = off;
SET enable_hashagg = off;

-- check_sort() with gpusort.merge_joins on and off: the rows as the join returns them
CREATE FUNCTION check_join(query text, OUT nodes text, OUT "rows" int, OUT result text) LANGUAGE plpgsql AS $$
DECLARE
	want record := rows_of(query, false, 'gpusort.merge_joins');
	got record := rows_of(query, true, 'gpusort.merge_joins');
BEGIN
	IF want.nodes ~ 'GpuSort' THEN
		RAISE 'gpusort.merge_joins = off does not keep PostgreSQL''s node: %', want.nodes;
	END IF;
	nodes := got.nodes;
	"rows" := cardinality(got.r);
	result := compare_rows(want.r, got.r);
END $$;

CREATE TABLE jl AS SELECT i AS id, (mix(i) % 50)::int AS k, (mix(i * 3) % 5)::int8 AS j, (mix(i * 2) % 40)::int2 AS h,
	(mix(i * 5) % 100 / 10.0)::float8 AS f, 'name ' || mix(i * 7) % 30 AS t, (mix(i * 11) % 60)::numeric / 4 AS n,
	timestamp '2020-01-01' + mix(i * 13) % 40 * interval '1 day' AS ts,
	date '2020-01-01' + (mix(i * 17) % 40)::int AS d,
	repeat('x', (mix(i * 19) % 9)::int * 100) AS p
FROM generate_series(1, 800) i;
CREATE TABLE jr AS SELECT i AS id, (mix(i * 23) % 60)::int AS k, (mix(i * 29) % 5)::int8 AS j,
	(mix(i * 31) % 50)::int2 AS h, (mix(i * 37) % 100 / 10.0)::float8 AS f, 'name ' || mix(i * 41) % 40 AS t,
	(mix(i * 43) % 60)::numeric / 4 AS n, timestamp '2020-01-01' + mix(i * 47) % 50 * interval '1 day' AS ts,
	date '2020-01-01' + (mix(i * 53) % 50)::int AS d, repeat('y', (mix(i * 59) % 9)::int * 100) AS p
FROM generate_series(1, 900) i;
INSERT INTO jl (id, k, j, f) VALUES (1001, NULL, 1, 'NaN'), (1002, NULL, NULL, '-0'), (1003, 1, NULL, '0');
INSERT INTO jr (id, k, j, f) VALUES (1001, NULL, 1, 'NaN'), (1002, 1, 1, '0'), (1003, NULL, 2, '-0');
CREATE TABLE ju AS SELECT i AS id, 'name ' || i AS t FROM generate_series(0, 45) i;
ALTER TABLE ju ADD PRIMARY KEY (id);
ANALYZE jl, jr, ju;

EXPLAIN (VERBOSE, COSTS OFF)
	SELECT l.id, r.t || 'x' AS x FROM jl l JOIN jr r ON l.k = r.k AND l.j = r.j AND l.id < r.id;
CREATE FUNCTION join_plan_top(query text) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
	plan jsonb;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, FORMAT JSON) ' || query INTO plan;
	RETURN (plan->0->'Plan') - (SELECT array_agg(k) FROM jsonb_object_keys(plan->0->'Plan') k
		WHERE k !~ '^(Custom Plan Provider|Join Type|Merge Cond|Join Filter|Filter|Rows Removed by .*)$');
END $$;
SELECT join_plan_top('SELECT l.id FROM jl l LEFT JOIN jr r ON l.k = r.k AND l.id < r.id
	WHERE r.j IS DISTINCT FROM 3');

-- every join type that the node has, with many duplicates on both sides
SELECT c.nodes, c.rows, c.result, q
FROM unnest(ARRAY[
	'SELECT l.id, r.id AS rid FROM jl l JOIN jr r ON l.k = r.k',
	'SELECT l.id, r.id AS rid FROM jl l LEFT JOIN jr r ON l.k = r.k',
	'SELECT l.id, r.id AS rid FROM jl l LEFT JOIN jr r ON l.k = r.k AND l.id < r.id',
	'SELECT l.id, r.id AS rid FROM jl l LEFT JOIN jr r ON l.k = r.k AND l.id < r.id WHERE r.id IS NULL OR r.j = 2',
	'SELECT id FROM jl l WHERE EXISTS (SELECT 1 FROM jr r WHERE r.k = l.k AND r.h = l.h)',
	'SELECT id FROM jl l WHERE EXISTS (SELECT 1 FROM jr r WHERE r.k = l.k AND r.id < l.id)',
	'SELECT id FROM jl l WHERE NOT EXISTS (SELECT 1 FROM jr r WHERE r.k = l.k)',
	'SELECT id FROM jl l WHERE NOT EXISTS (SELECT 1 FROM jr r WHERE r.k = l.k AND r.id < l.id)',
	'SELECT l.id, u.id AS uid FROM jl l JOIN ju u ON l.k = u.id',
	'SELECT l.id, u.id AS uid FROM jl l LEFT JOIN ju u ON l.k = u.id',
	'SELECT l.id, u.id AS uid FROM jl l LEFT JOIN ju u ON l.k = u.id AND u.t < l.t',
	-- keys of other types, of two types, several keys, expressions
	'SELECT l.id, r.id AS rid FROM jl l JOIN jr r ON l.k = r.k AND l.j = r.j',
	'SELECT l.id, r.id AS rid FROM jl l JOIN jr r ON l.j = r.h AND l.k = r.id',
	'SELECT l.id, r.id AS rid FROM jl l JOIN jr r ON l.h = r.k',
	'SELECT l.id, r.id AS rid FROM jl l JOIN jr r ON l.f = r.f',
	'SELECT l.id, r.id AS rid FROM jl l JOIN jr r ON l.t = r.t',
	'SELECT l.id, r.id AS rid FROM jl l LEFT JOIN jr r ON l.t = r.t AND l.n = r.n',
	'SELECT l.id, r.id AS rid FROM jl l JOIN jr r ON l.n = r.n',
	'SELECT l.id, r.id AS rid FROM jl l JOIN jr r ON l.ts = r.d',
	'SELECT l.id, r.id AS rid FROM jl l JOIN jr r ON l.ts = r.ts AND l.d = r.d',
	'SELECT l.id, r.id AS rid FROM jl l JOIN jr r ON l.ts = r.ts',
	'SELECT l.id, r.id AS rid FROM jl l LEFT JOIN jr r ON l.d = r.d',
	'SELECT l.id, r.id AS rid FROM jl l JOIN jr r ON l.k + 1 = r.k - 1',
	'SELECT l.id, r.id AS rid FROM jl l JOIN jr r ON l.t::varchar = r.t',
	'SELECT l.p, r.p AS rp FROM jl l JOIN jr r ON l.p = replace(r.p, ''y'', ''x'') AND l.k = r.k',
	-- whole rows, and nothing
	'SELECT l, r FROM jl l LEFT JOIN jr r ON l.k = r.k AND l.j = r.j',
	'SELECT FROM jl l JOIN jr r ON l.k = r.k',
	-- the order of the join, descending
	'SELECT l.id, r.id AS rid FROM jl l JOIN jr r ON l.k = r.k ORDER BY l.k DESC',
	'SELECT l.id, r.id AS rid FROM jl l LEFT JOIN jr r ON l.k = r.k AND l.t = r.t ORDER BY l.k DESC, l.t DESC',
	-- empty sides
	'SELECT l.id, r.id AS rid FROM jl l JOIN jr r ON l.k = r.k WHERE l.id < 0',
	'SELECT id FROM jl l WHERE NOT EXISTS (SELECT 1 FROM jr r WHERE r.k = l.k AND r.id < 0)',
	-- joins of joins
	'SELECT l.id, r.id AS rid, u.id AS uid FROM jl l JOIN jr r ON l.k = r.k JOIN ju u ON u.id = r.h'])
	WITH ORDINALITY AS u (q, n), check_join(q) c
ORDER BY n;

-- these stay PostgreSQL's
SELECT c.nodes, c.rows, c.result, q
FROM unnest(ARRAY[
	'SELECT l.id, r.id AS rid FROM jl l FULL JOIN jr r ON l.k = r.k',
	'SELECT l.id, r.id AS rid FROM (SELECT * FROM jl ORDER BY id LIMIT 50) l RIGHT JOIN jr r ON l.k = r.k'])
	WITH ORDINALITY AS u (q, n), check_join(q) c
ORDER BY n;

-- an index in order on one side, unless a nested loop is chosen
CREATE INDEX jr_k ON jr (k);
CREATE INDEX jl_k ON jl (k);
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SELECT c.rows, c.result, q
FROM unnest(ARRAY[
	'SELECT l.id, r.id AS rid, r.p FROM jl l JOIN jr r ON l.h = r.k',
	'SELECT l.id, r.id AS rid, r.p FROM jr r LEFT JOIN jl l ON l.h = r.k',
	'SELECT l.id, r.id AS rid, l.p FROM jl l JOIN jr r ON l.k = r.h',
	'SELECT l.id, r.id AS rid, l.p FROM jr r LEFT JOIN jl l ON l.k = r.h AND l.id > r.id'])
	WITH ORDINALITY AS u (q, n), check_join(q) c
ORDER BY n;
RESET enable_seqscan;
RESET enable_bitmapscan;
DROP INDEX jr_k, jl_k;

-- rescanned, with and without a change below; a cursor
SELECT * FROM check_join('SELECT g, (SELECT count(*) FROM jl l JOIN jr r ON l.k = r.k
	WHERE l.id % 5 = g AND r.id % 3 = g % 3) AS n FROM generate_series(0, 4) g');
SELECT * FROM check_join('SELECT g, (SELECT sum(l.id * r.id % (g + 2)) FROM jl l LEFT JOIN jr r ON l.t = r.t) AS n
	FROM generate_series(0, 4) g');
SET enable_nestloop = on;
SET enable_material = off;
SELECT * FROM check_join('SELECT g, x.id, x.rid FROM generate_series(1, 3) g
	JOIN (SELECT l.id, r.id AS rid FROM jl l JOIN jr r ON l.k = r.k OFFSET 0) x ON x.id > g * 200');
RESET enable_material;
SET enable_nestloop = off;
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT l.id, r.id AS rid FROM jl l JOIN jr r ON l.k = r.k AND l.j = r.j ORDER BY l.k, l.j;
MOVE FORWARD 300 IN c;
MOVE BACKWARD 200 IN c;
CREATE TEMP TABLE fetched AS SELECT 1 AS id, 2 AS rid LIMIT 0;
DO $$
DECLARE
	c refcursor := 'c';
	r record;
BEGIN
	LOOP
		FETCH c INTO r;
		EXIT WHEN NOT FOUND;
		INSERT INTO fetched VALUES (r.id, r.rid);
	END LOOP;
END $$;
SELECT (SELECT array_agg(f::text) FROM fetched f) =
	(rows_of('SELECT l.id, r.id AS rid FROM jl l JOIN jr r ON l.k = r.k AND l.j = r.j ORDER BY l.k, l.j', false,
		'gpusort.merge_joins')).r[101:] AS same;
ROLLBACK;

-- runs on disk: groups are stored, and the inner sort is neither marked nor below a Materialize
SET work_mem = '64kB';
CREATE TABLE wide_l AS SELECT i AS id, i % 3 AS k, mix(i) % 3000 AS m, repeat('x', 100) AS p
FROM generate_series(1, 3000) i;
CREATE TABLE wide_r AS SELECT i AS id, i % 4 AS k, mix(i * 3) % 3000 AS m, repeat('y', (i % 3) * 100) AS p
FROM generate_series(1, 3000) i;
ANALYZE wide_l, wide_r;
SELECT c.nodes, c.rows, c.result, q
FROM unnest(ARRAY[
	-- groups larger than work_mem
	'SELECT count(*), sum(l.id::int8 * r.id), sum(length(r.p)) FROM wide_l l JOIN wide_r r ON l.k = r.k
		WHERE l.id % 9 < 3',
	'SELECT count(*), sum(l.id::int8 * r.id) FROM wide_l l LEFT JOIN wide_r r ON l.k = r.k AND l.id < r.id % 100',
	'SELECT id FROM wide_l l WHERE EXISTS (SELECT 1 FROM wide_r r WHERE l.k = r.k AND r.id > l.id * 2)',
	-- small groups, with rows and with keys alone
	'SELECT l.id, r.id AS rid, r.p FROM wide_l l JOIN wide_r r ON l.m = r.m',
	'SELECT l.m FROM wide_l l JOIN wide_r r ON l.m = r.m',
	'SELECT l.id, r.p FROM wide_l l LEFT JOIN wide_r r ON l.m = r.m AND l.k = r.k'])
	WITH ORDINALITY AS u (q, n), check_join(q) c
ORDER BY n;
RESET work_mem;

-- an inner side that PostgreSQL's Sort orders: a sort of one column passed by value returns slots without rows
SET gpusort.min_rows = 500;
CREATE TABLE few_ints AS SELECT i % 20 * 3 AS k, i::numeric AS n FROM generate_series(1, 60) i;
ANALYZE few_ints;
CREATE FUNCTION small_side(query text, OUT nodes text, OUT result text) LANGUAGE sql AS $$
SELECT plan_nodes(query, 'GpuSort(?: Join)?(?=\))|Sort$'), (check_join(query)).result $$;
-- which side is the inner one depends on the version
SELECT bool_or(c.nodes ~ '^GpuSort Join, GpuSort, Sort$') AS inner_side,
	bool_or(c.nodes ~ '^GpuSort Join, Sort, GpuSort$') AS outer_side, bool_and(c.result = 'same') AS same
FROM unnest(ARRAY[
	'SELECT l.id, s.k FROM jl l JOIN few_ints s ON l.k = s.k',
	'SELECT l.id, s.k FROM jl l LEFT JOIN few_ints s ON l.k = s.k',
	'SELECT l.id, s.k FROM jl l LEFT JOIN few_ints s ON l.k = s.k AND l.id % 7 < s.k % 5',
	'SELECT l.id, s.k FROM few_ints s LEFT JOIN jl l ON l.k = s.k',
	'SELECT id FROM jl l WHERE EXISTS (SELECT 1 FROM few_ints s WHERE l.k = s.k)',
	'SELECT id FROM jl l WHERE EXISTS (SELECT 1 FROM few_ints s WHERE l.k = s.k AND l.id % 7 < s.k % 5)',
	'SELECT id FROM jl l WHERE NOT EXISTS (SELECT 1 FROM few_ints s WHERE l.k = s.k AND l.id % 7 < s.k % 5)',
	'SELECT l.id, s.n FROM jl l JOIN few_ints s ON l.n = s.n']) q, small_side(q) c;

-- rows without a match are dropped before they are sorted
CREATE FUNCTION dropped(query text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
	plan jsonb;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, FORMAT JSON) ' || query INTO plan;
	RETURN jsonb_path_exists(plan,
		'$.** ? (@."Custom Plan Provider" == "GpuSort" && @."Rows Removed by Merge Cond" > 0)');
END $$;
CREATE TABLE many AS SELECT i AS id, CASE WHEN i % 97 > 0 THEN r::int - 5000000 END AS k, r % 4000 AS b,
	(r % 30000 - 15000)::int2 AS h, date '2020-01-01' + (r % 40000)::int AS d,
	timestamp '2020-01-01' + r * interval '1 min' AS ts,
	timestamptz '2020-01-01 00:00:00+00' + r * interval '1 s' AS tz,
	time '00:00' + r % 80000 * interval '1 s' AS tm, r::numeric AS n,
	CASE WHEN i % 5 > 0 THEN repeat('x', i % 40) END AS p
FROM (SELECT i, mix(i) % 10000000 AS r FROM generate_series(1, 6000) i) m;
CREATE TABLE parts (LIKE many) PARTITION BY RANGE (id);
CREATE TABLE parts1 PARTITION OF parts FOR VALUES FROM (0) TO (2500);
CREATE TABLE parts2 PARTITION OF parts FOR VALUES FROM (2500) TO (9000);
INSERT INTO parts SELECT * FROM many;
CREATE TABLE few AS SELECT i AS id, k, b, h, d, ts, tz, tm, n FROM many, generate_series(id, id + 1) i
	WHERE id % 100 IN (3, 77);
INSERT INTO few SELECT -i, mix(i) % 10000000, i, i, date '2000-01-01' + i, timestamp '2000-01-01' + i * interval '1 s',
	timestamptz '2000-01-01 00:00:00+00' + i * interval '1 s', time '23:00' + i * interval '1 s', i
FROM generate_series(1, 300) i;
UPDATE few SET k = NULL WHERE id % 31 = 0;
CREATE TABLE no_rows (LIKE few);
ANALYZE many, parts, few, no_rows;
SET gpusort.min_rows = 0;
SELECT dropped(q), c.nodes, c.rows, c.result, q
FROM unnest(ARRAY[
	'SELECT s.id, m.id AS mid, m.p FROM few s JOIN many m ON s.k = m.k',
	'SELECT s.id, m.id AS mid, m.p FROM few s JOIN many m ON s.k = m.k ORDER BY s.k DESC',
	'SELECT s.id, m.id AS mid, m.p FROM few s JOIN many m ON s.k = m.k AND s.id % 3 < m.id % 5',
	'SELECT s.id, m.id AS mid, m.p FROM few s LEFT JOIN many m ON s.k = m.k',
	'SELECT id, p FROM many m WHERE EXISTS (SELECT 1 FROM few s WHERE s.k = m.k)',
	'SELECT id FROM few s WHERE NOT EXISTS (SELECT 1 FROM many m WHERE s.k = m.k)',
	-- other integers, and two types
	'SELECT s.id, m.id AS mid FROM few s JOIN many m ON s.h = m.k',
	'SELECT s.id, m.id AS mid FROM few s JOIN many m ON s.k = m.b',
	'SELECT s.id, m.id AS mid FROM few s JOIN many m ON s.d = m.d',
	'SELECT s.id, m.id AS mid FROM few s JOIN many m ON s.ts = m.ts',
	'SELECT s.id, m.id AS mid FROM few s JOIN many m ON s.tz = m.tz',
	'SELECT s.id, m.id AS mid FROM few s JOIN many m ON s.tm = m.tm',
	-- two keys; keys alone; computed rows; conditions; partitions; duplicates that are dropped
	'SELECT s.id, m.id AS mid, m.p FROM few s JOIN many m ON s.k = m.k AND s.n = m.n',
	'SELECT s.k FROM few s JOIN many m ON s.k = m.k',
	'SELECT s.id, m.x, m.p FROM few s JOIN (SELECT k, p, id + 1 AS x FROM many OFFSET 0) m ON s.k = m.k',
	'SELECT s.id, m.id AS mid, m.p FROM few s JOIN many m ON s.k = m.k WHERE m.p > ''xx'' AND s.id > 100',
	'SELECT s.id, m.id AS mid, m.p FROM few s JOIN parts m ON s.k = m.k',
	'SELECT s.id, m.k FROM few s JOIN (SELECT DISTINCT k FROM many) m ON s.k = m.k',
	-- rescanned, with a parameter of either side
	'SELECT g, x.* FROM generate_series(1, 3) g, LATERAL (SELECT s.id, m.id AS mid
		FROM (SELECT * FROM few WHERE id % 3 < g OFFSET 0) s JOIN many m ON s.k = m.k) x',
	'SELECT g, x.* FROM generate_series(1, 3) g, LATERAL (SELECT s.id, m.id AS mid
		FROM few s JOIN (SELECT * FROM many WHERE id % 3 < g OFFSET 0) m ON s.k = m.k) x'])
	WITH ORDINALITY AS u (q, n), check_join(q) c
ORDER BY n;
-- nothing is dropped: a side returns all rows, its LIMIT counts rows, a key is no integer, most rows have a match, or
-- the side is not sorted again when the join is rescanned
SELECT dropped(q), c.rows, c.result, q
FROM unnest(ARRAY[
	'SELECT m.id AS mid, s.id FROM many m LEFT JOIN few s ON s.k = m.k ORDER BY m.k',
	'SELECT s.id, m.id AS mid FROM few s JOIN (SELECT * FROM many ORDER BY k LIMIT 3000) m ON s.k = m.k',
	'SELECT s.id, m.id AS mid FROM few s JOIN many m ON s.n = m.n',
	'SELECT l.id, m.id AS mid FROM many l JOIN many m ON l.k = m.k'])
	WITH ORDINALITY AS u (q, n), check_join(q) c
ORDER BY n;
SELECT dropped(q), c.rows, c.result FROM (VALUES ('SELECT s.id, m.id AS mid FROM no_rows s JOIN many m ON s.k = m.k'))
	v (q), check_join(q) c;
SET enable_nestloop = on;
SET enable_material = off;
SELECT dropped(q), c.rows, c.result
FROM (VALUES ('SELECT g, x.id, x.mid FROM generate_series(1, 3) g
	LEFT JOIN (SELECT s.id, m.id AS mid FROM few s JOIN many m ON s.k = m.k OFFSET 0) x ON x.id > g * 2000')) v (q),
	check_join(q) c;
RESET enable_material;
SET enable_nestloop = off;
-- runs on disk
SET work_mem = '64kB';
SELECT dropped(q), c.rows, c.result, q
FROM unnest(ARRAY[
	'SELECT s.id, m.id AS mid, m.p FROM few s JOIN many m ON s.k = m.k',
	'SELECT id, p FROM many m WHERE EXISTS (SELECT 1 FROM few s WHERE s.k = m.k)'])
	WITH ORDINALITY AS u (q, n), check_join(q) c
ORDER BY n;
RESET work_mem;

DROP TABLE jl, jr, ju, wide_l, wide_r, few_ints, many, parts, few, no_rows;
DROP FUNCTION check_join, join_plan_top, small_side, dropped;
