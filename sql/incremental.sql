-- Rows that come ordered by the first sort columns: GpuSort Incremental.
LOAD 'gpusort';
SET gpusort.min_rows = 0;
SET jit = off;
SET max_parallel_workers_per_gather = 0;

-- groups of 1, 10, 1000 and all rows, of two columns, with NULLs, and by text
CREATE TABLE inc (
	id int, g1 int, g10 int, g1000 int, one int, n10 int, ga int, gb bigint, t10 text, c10 text COLLATE "C",
	v int, w numeric, s text);
INSERT INTO inc
SELECT i, i, i / 10, i / 1000, 7, CASE WHEN i / 10 % 50 <> 0 THEN i / 10 END, i / 1000, i / 20 % 50,
	'group ' || lpad((i / 10)::text, 5, '0'), 'group ' || lpad((i / 300)::text, 5, '0'),
	CASE WHEN mix(i) % 20 > 0 THEN (mix(i) % 1000)::int END, (mix(i * 3) % 300)::numeric / 7,
	CASE WHEN mix(i) % 17 > 0 THEN 's' || mix(i * 5) % 100 END
FROM generate_series(0, 9999) i;
CREATE INDEX inc_g1 ON inc (g1);
CREATE INDEX inc_g10 ON inc (g10);
CREATE INDEX inc_g1000 ON inc (g1000);
CREATE INDEX inc_one ON inc (one);
CREATE INDEX inc_n10 ON inc (n10);
CREATE INDEX inc_ab ON inc (ga, gb);
CREATE INDEX inc_t10 ON inc (t10);
CREATE INDEX inc_c10 ON inc (c10);
ANALYZE inc;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET enable_sort = off;

CREATE TABLE orders (n int, by text);
INSERT INTO orders VALUES
	(1, 'g1, v, id'), (2, 'g10, v, id'), (3, 'g1000, v, id'), (4, 'one, v, id'), (5, 'n10, v, id'),
	(6, 'ga, gb, v, id'), (7, 'ga, gb, s DESC NULLS LAST, w, id'), (8, 't10, v, id'), (9, 'c10, s, id'),
	(10, 'c10, s COLLATE "C" DESC, w, id'), (11, 'g10 DESC, v, id'), (12, 'g1000 DESC, w DESC, id'),
	(13, 'n10 DESC, s NULLS FIRST, id DESC'), (14, 't10 DESC, w, id'), (15, 'ga DESC, gb DESC, v DESC, id');

-- whole results, and what a LIMIT wants of them
SELECT n, c.* FROM orders, check_sort('SELECT * FROM inc ORDER BY ' || by) c ORDER BY n;
SELECT n, l, c.result
FROM orders, (VALUES ('1'), ('45'), ('300'), ('1500'), ('40 OFFSET 990'), ('0'), ('ALL'), ('(SELECT 2100)')) x (l),
	check_sort(format('SELECT * FROM inc ORDER BY %s LIMIT %s', by, l)) c
WHERE c.result <> 'same' OR c.nodes <> 'GpuSort Incremental' AND l <> '0' ORDER BY n, l;

-- checked row by row
SET gpusort.verify = on;
SELECT n, c.nodes, c.result FROM orders, check_sort('SELECT * FROM inc ORDER BY ' || by) c
WHERE c.result <> 'same' ORDER BY n;
RESET gpusort.verify;

-- equal rows stay in the order in which the index returns them, which is that of id
SELECT n, (a.r).nodes, compare_rows((b.r).r, (a.r).r) AS result
FROM (VALUES (1, 'g10, v'), (2, 'g1000, s'), (3, 'c10, v DESC')) x (n, by),
	LATERAL (SELECT rows_of('SELECT * FROM inc ORDER BY ' || by, true)) a (r),
	LATERAL (SELECT rows_of(format('SELECT * FROM inc ORDER BY %s, id', by), false)) b (r)
ORDER BY n;

-- it reads no more of the child than an Incremental Sort
CREATE FUNCTION rows_read(query text) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
	line text;
	n int;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) ' || query LOOP
		n := coalesce(substring(line FROM 'Index Scan.*actual rows=(\d+)')::int, n);
	END LOOP;
	RETURN n;
END $$;
SELECT rows_read('SELECT * FROM inc ORDER BY g1, v LIMIT 5') AS g1,
	rows_read('SELECT * FROM inc ORDER BY g10, v LIMIT 5') AS g10,
	rows_read('SELECT * FROM inc ORDER BY g10, v LIMIT 45') AS g10_45,
	rows_read('SELECT * FROM inc ORDER BY g1000, v LIMIT 5') AS g1000,
	rows_read('SELECT * FROM inc ORDER BY g1000, v LIMIT 1000') AS g1000_all,
	rows_read('SELECT * FROM inc ORDER BY g1000, v LIMIT 1001') AS g1000_more;

-- EXPLAIN
SELECT line FROM explain_analyze('SELECT * FROM inc ORDER BY g10, v') line WHERE line !~ 'Index';
SELECT line
FROM explain_analyze('SELECT * FROM inc ORDER BY ga, gb DESC NULLS LAST, s COLLATE "C" DESC LIMIT 1010') line
WHERE line !~ 'Index';
CREATE FUNCTION explain_json(query text) RETURNS json LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, FORMAT JSON) ' || query INTO plan;
	RETURN plan->0->'Plan';
END $$;
SELECT plan->'Sort Key' AS key, plan->'Presorted Key' AS presorted, groups->'Group Count' AS groups,
	json_array_length(groups->'Sort Methods Used') > 0 AS methods,
	(groups->'Sort Space Memory'->>'Peak Sort Space Used')::int
		>= (groups->'Sort Space Memory'->>'Average Sort Space Used')::int AS space
FROM explain_json('SELECT * FROM inc ORDER BY g1000, v') plan, LATERAL (SELECT plan->'Pre-sorted Groups') g (groups);
-- the sorts are counted
SELECT gpusort_stat_reset();
SELECT count(*) FROM (SELECT * FROM inc ORDER BY g10, v OFFSET 0) x;
SELECT count(*) FROM (SELECT * FROM inc ORDER BY g1000, v OFFSET 0) x;
SELECT algorithm = 'none' AS batches, sum(sorts) AS sorts, sum(rows) AS rows FROM gpusort_stat GROUP BY 1 ORDER BY 1;

-- large groups that do not fit work_mem are written as runs; long rows end a batch
SET work_mem = '64kB';
SELECT n, c.* FROM orders, check_sort('SELECT * FROM inc ORDER BY ' || by) c WHERE n IN (2, 3, 4, 9) ORDER BY n;
SELECT bool_or(line ~ 'Pre-sorted Groups: .*Peak Disk: ') AS spilled
FROM explain_analyze('SELECT * FROM inc ORDER BY one, v, id') line;
SELECT c.* FROM check_sort('SELECT g10, v, id, repeat(s, 3000) FROM inc WHERE id < 600 ORDER BY g10, v, id') c;
SELECT c.* FROM check_sort('SELECT ga, v, id, repeat(s, 3000) FROM inc WHERE id < 600 ORDER BY ga, v, id') c;
RESET work_mem;

-- rescans, with and without new parameters, that stop anywhere
SELECT c.*
FROM unnest(ARRAY[
	'SELECT x, y.* FROM generate_series(1, 40) x, LATERAL (SELECT * FROM inc WHERE g10 > x * 20 ORDER BY g10, v, id
		LIMIT x * 2) y',
	'SELECT x, y.* FROM generate_series(1, 5) x, LATERAL (SELECT *, x AS p FROM inc ORDER BY g1000, w, id
		LIMIT 1500 + x) y',
	'SELECT x, (SELECT array_agg(id) FROM (SELECT id FROM inc WHERE ga = x ORDER BY ga, gb, s, id LIMIT 70) y)
		FROM generate_series(0, 9) x']) WITH ORDINALITY AS u (q, n), check_sort(q) c
ORDER BY n;

-- cursors
BEGIN;
DECLARE c CURSOR FOR SELECT g10, v, id FROM inc ORDER BY g10, v, id;
FETCH 3 FROM c;
MOVE 2000 IN c;
FETCH 3 FROM c;
MOVE ALL IN c;
FETCH 1 FROM c;
CLOSE c;
-- backward: above it the planner puts a Materialize
DECLARE c SCROLL CURSOR FOR SELECT g1000, v, id FROM inc ORDER BY g1000, v, id;
MOVE 1500 IN c;
FETCH BACKWARD 2 FROM c;
FETCH FIRST FROM c;
FETCH LAST FROM c;
COMMIT;
SELECT bool_or(line ~ 'Materialize') AS materialized, bool_or(line ~ 'GpuSort Incremental') AS incremental
FROM explain_analyze('DECLARE c SCROLL CURSOR FOR SELECT g1000, v, id FROM inc ORDER BY g1000, v, id') line;

-- a merge join marks and restores the rows of its inner side: they are materialized
SET enable_hashjoin = off;
SET enable_nestloop = off;
SELECT c.* FROM check_sort('SELECT count(*), sum(a.id::bigint * b.id)
	FROM (SELECT * FROM inc ORDER BY g10, v OFFSET 0) a JOIN (SELECT * FROM inc ORDER BY g10, v OFFSET 0) b
	ON a.g10 = b.g10 AND a.v = b.v') c;
RESET enable_hashjoin;
RESET enable_nestloop;

-- in workers, below a Gather Merge
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET min_parallel_index_scan_size = 0;
SET max_parallel_workers_per_gather = 2;
SELECT c.* FROM check_sort('SELECT * FROM inc ORDER BY g10, v, id') c;
SELECT c.* FROM check_sort('SELECT * FROM inc ORDER BY c10, s, id') c;
SELECT substring(line FROM '\w+ \w+ (?:\(\w+ \w+\))?') AS node
FROM explain_analyze('SELECT * FROM inc ORDER BY g1000, v') line WHERE line ~ 'Gather|GpuSort';
-- with a LIMIT, which the workers compute as well
SELECT l, c.*
FROM unnest(ARRAY['45', '1500 OFFSET 20', '0', 'ALL']) WITH ORDINALITY x (l, n),
	check_sort('SELECT * FROM inc ORDER BY g10, v, id LIMIT ' || l) c
ORDER BY n;
CREATE FUNCTION rows_sorted(query text) RETURNS TABLE (node text, few bool) LANGUAGE sql AS $$
	SELECT substring(line FROM '-> +((?:Custom|Incremental) \w+(?: \(GpuSort Incremental\))?)'),
		substring(line FROM 'actual rows=(\d+)')::int < 3000
	FROM explain_analyze(query) line WHERE line ~ 'GpuSort|Incremental'
$$;
SELECT * FROM rows_sorted('SELECT * FROM inc ORDER BY g10, v LIMIT 1000');
SELECT * FROM rows_sorted('SELECT * FROM inc ORDER BY g1000, v LIMIT 10');
PREPARE first_rows (int) AS SELECT * FROM inc ORDER BY g10, v, id LIMIT $1;
SET plan_cache_mode = force_generic_plan;
SELECT node FROM rows_sorted('EXECUTE first_rows (70)');
CREATE TABLE got_rows AS EXECUTE first_rows (70);
SELECT compare_rows(r.r, (SELECT array_agg(x::text) FROM got_rows x))
FROM rows_of('SELECT * FROM inc ORDER BY g10, v, id LIMIT 70', false) r;
DROP TABLE got_rows;
DEALLOCATE first_rows;
RESET plan_cache_mode;
-- workers are not sent the result of a plan node
SELECT node FROM rows_sorted('SELECT * FROM inc ORDER BY g10, v LIMIT (SELECT 70)');
SELECT c.* FROM check_sort('SELECT * FROM inc ORDER BY g10, v, id LIMIT (SELECT 70)') c;
RESET max_parallel_workers_per_gather;

-- types whose equal values differ in their bytes are one group
CREATE TABLE inc_types (f float8, n numeric, v int);
INSERT INTO inc_types
SELECT CASE i / 8 WHEN 0 THEN '-Infinity' WHEN 6 THEN 'NaN' ELSE (i / 8 - 3) * (1.0 - i % 2 * 2) END,
	CASE WHEN i % 2 = 0 THEN (i / 8)::numeric(10, 2) ELSE (i / 8)::numeric END, (mix(i) % 1000)::int
FROM generate_series(0, 55) i WHERE i / 8 IN (0, 3, 6) OR i % 2 = 0;
CREATE INDEX ON inc_types (f);
CREATE INDEX ON inc_types (n);
ANALYZE inc_types;
SELECT c.* FROM check_sort('SELECT f::text, v FROM inc_types ORDER BY inc_types.f, v') c;
SELECT c.* FROM check_sort('SELECT n, v FROM inc_types ORDER BY n, v') c;

-- what stays: few rows expected
SET gpusort.min_rows = 100000;
SELECT sort_nodes('SELECT * FROM inc ORDER BY g10, v');
SET gpusort.min_rows = 0;

DROP TABLE inc_types;
DROP FUNCTION rows_sorted;

-- The index scan's TIDs are read ahead, and rows are fetched by page: the statistics of this transaction have more TIDs
-- than rows.  It is not done on PostgreSQL 19.  Workers have statistics of their own, so the plan is serial.
CREATE FUNCTION check_ahead(query text, expected bool) RETURNS bool LANGUAGE plpgsql
	SET max_parallel_workers_per_gather = 0 AS $$
DECLARE
	before bigint := pg_stat_get_xact_tuples_returned('inc_g10'::regclass);
	fetched int;
BEGIN
	fetched := rows_read(query);
	RETURN (pg_stat_get_xact_tuples_returned('inc_g10'::regclass) - before > fetched) = expected
		OR current_setting('server_version_num')::int >= 190000;
END $$;
CREATE VIEW some_orders AS
SELECT n, x.sql
FROM orders, LATERAL (VALUES (format('SELECT * FROM inc ORDER BY %s', by)),
	(format('SELECT id %% 7, v * 2 AS w2, id FROM inc WHERE v %% 3 = 0 AND id <> 77 ORDER BY %s', by)),
	(format('SELECT ctid, tableoid, id FROM inc WHERE v > 1 ORDER BY %s LIMIT 500', by))) x (sql)
WHERE n IN (1, 2, 3, 5, 10, 12);
SELECT check_ahead('SELECT * FROM inc ORDER BY g10, v LIMIT 60', true) AS ahead,
	check_ahead('SELECT id + 1 FROM inc WHERE v > 0 ORDER BY g10, v LIMIT 100', true) AS computed,
	check_ahead('SELECT * FROM inc ORDER BY g10, v LIMIT 15', false) AS few;
SELECT c.nodes, c.result, count(*) FROM some_orders, check_sort(sql) c GROUP BY 1, 2;
-- all pages visible to all, and no TID of a dead tuple, also on pages that another process has pinned
VACUUM (FREEZE, INDEX_CLEANUP ON) inc;
SELECT check_ahead('SELECT * FROM inc ORDER BY g10, v LIMIT 60', true);
SELECT c.nodes, c.result, count(*) FROM some_orders, check_sort(sql) c GROUP BY 1, 2;
-- an update of the transaction itself, with another order of the rows in the table; an open cursor sees none of it
BEGIN;
DECLARE c CURSOR FOR SELECT g10, v, id FROM inc ORDER BY g10, v, id;
MOVE 200 IN c;
UPDATE inc SET v = id % 13, s = NULL WHERE mix(id) % 3 = 0;
DELETE FROM inc WHERE id % 11 = 0;
FETCH 2 FROM c;
MOVE 8000 IN c;
FETCH 2 FROM c;
SELECT c.nodes, c.result, count(*) FROM some_orders, check_sort(sql) c GROUP BY 1, 2;
COMMIT;
SELECT c.nodes, c.result, count(*) FROM some_orders, check_sort(sql) c GROUP BY 1, 2;
-- HOT chains, and line pointers that lead to others
ALTER TABLE inc SET (fillfactor = 50);
VACUUM (FULL) inc;
UPDATE inc SET w = w + 1 WHERE id % 3 = 0;
UPDATE inc SET w = w + 1 WHERE id % 6 = 0;
SELECT c.nodes, c.result, count(*) FROM some_orders, check_sort(sql) c GROUP BY 1, 2;
VACUUM (FREEZE, INDEX_CLEANUP ON) inc;
SELECT check_ahead('SELECT * FROM inc ORDER BY g10, v LIMIT 60', true);
SELECT c.nodes, c.result, count(*) FROM some_orders, check_sort(sql) c GROUP BY 1, 2;
-- a serializable transaction locks no more than it reads
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT check_ahead('SELECT * FROM inc ORDER BY g10, v LIMIT 60', false);
SELECT c.nodes, c.result FROM check_sort('SELECT * FROM inc ORDER BY g10, v, id') c;
COMMIT;
-- TIDs that lead to dead tuples are marked in the index: the scan is left to the child
DELETE FROM inc WHERE id > 8000 AND id % 2 = 0;
SELECT c.nodes, c.result, count(*) FROM some_orders, check_sort(sql) c GROUP BY 1, 2;
-- a temporary table
CREATE TEMP TABLE inc_temp AS SELECT * FROM inc;
CREATE INDEX ON inc_temp (g10);
ANALYZE inc_temp;
SELECT c.* FROM check_sort('SELECT * FROM inc_temp ORDER BY g10, v, id') c;

-- the planner compares it with a sort of the whole table at the costs of GpuSort, in a serial plan, too
SET max_parallel_workers_per_gather = 0;
RESET enable_seqscan;
RESET enable_bitmapscan;
RESET enable_sort;
SET gpusort.plan_grouping = on;
CREATE TABLE shuffled AS SELECT (mix(i) % 10000)::int AS g, (mix(i * 7) % 1000)::int AS v, i AS id
FROM generate_series(1, 40000) i;
CREATE INDEX ON shuffled (g);
VACUUM ANALYZE shuffled;
SELECT sort_nodes('SELECT * FROM shuffled ORDER BY g, v LIMIT 20000') AS many,
	sort_nodes('SELECT * FROM shuffled ORDER BY g, v LIMIT 10') AS few,
	sort_nodes('SELECT * FROM shuffled ORDER BY g, v LIMIT (SELECT 20000)') AS not_known;
SET gpusort.enable = off;
SELECT sort_nodes('SELECT * FROM shuffled ORDER BY g, v LIMIT 20000') AS many;
RESET gpusort.enable;
SELECT c.* FROM unnest(ARRAY['', ' LIMIT 20000', ' LIMIT 10']) WITH ORDINALITY x (l, n),
	check_sort('SELECT * FROM shuffled ORDER BY g, v, id' || l) c
ORDER BY n;
SELECT c.* FROM check_sort('SELECT g, v, id, generate_series(1, 2) FROM shuffled ORDER BY g, v, id, 4') c;
SELECT c.* FROM check_sort('SELECT g + 1, v, id FROM shuffled WHERE v % 3 = 0 ORDER BY g + 1, v, id') c;
DROP TABLE shuffled;

DROP VIEW some_orders;
DROP TABLE inc, inc_temp, orders;
DROP FUNCTION rows_read, explain_json, check_ahead;
