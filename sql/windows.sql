-- GpuSort Window: which WindowAgg nodes it replaces, and that it returns the same rows.
LOAD 'gpusort';
SET gpusort.min_rows = 0;
SET jit = off;
SET max_parallel_workers_per_gather = 0;

-- check_sort() with gpusort.windows on and off.
CREATE FUNCTION check_window(query text, OUT nodes text, OUT "rows" int, OUT result text) LANGUAGE sql AS $$
SELECT * FROM check_sort(query, 'gpusort.windows') $$;

CREATE TABLE win AS SELECT i AS id, (mix(i) % 20)::int AS k, (mix(i * 3) % 7)::int8 AS j,
	(mix(i * 5) % 10 / 10.0)::float8 AS f, 'name ' || mix(i * 7) % 30 AS t,
	(mix(i * 11) % 5)::numeric / 2 AS n, repeat('x', (mix(i * 13) % 3)::int * 3000) || mix(i * 13) % 3 AS long,
	(chr(97 + (mix(i * 17) % 3)::int) || repeat(' ', (mix(i * 19) % 3)::int))::bpchar AS c,
	ARRAY[mix(i * 23) % 4, 1] AS a, ('00000000-0000-0000-0000-00000000000' || mix(i * 29) % 5)::uuid AS u
FROM generate_series(1, 1000) i;
INSERT INTO win (id, k, j, f, t, n) VALUES (1001, NULL, 1, 'NaN', NULL, 1.0), (1002, NULL, NULL, '-0', 'b', 1.000),
	(1003, 1, NULL, '0', 'b', 'NaN'), (1004, 1, 1, '-NaN', NULL, 'NaN'), (1005, NULL, NULL, NULL, NULL, NULL);
ANALYZE win;

-- EXPLAIN
EXPLAIN (COSTS OFF) SELECT id, rank() OVER (PARTITION BY k ORDER BY j DESC, id) FROM win;
-- columns of the order that nobody reads are not columns of the topmost node
CREATE FUNCTION window_columns(query text) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
	plan jsonb;
BEGIN
	EXECUTE 'EXPLAIN (VERBOSE, COSTS OFF, FORMAT JSON) ' || query INTO plan;
	RETURN jsonb_array_length(plan->0->'Plan'->'Output');
END $$;
SELECT window_columns(query), nodes, result
FROM (VALUES (1, 'SELECT rank() OVER (PARTITION BY k ORDER BY j) FROM win'),
	(2, 'SELECT id, rank() OVER (PARTITION BY k ORDER BY j) FROM win'),
	(3, 'SELECT id + 1, rank() OVER w, dense_rank() OVER w FROM win WINDOW w AS (PARTITION BY k ORDER BY j)')) q (n,
		query),
	check_window(query) ORDER BY n;
-- EXPLAIN without fields of PostgreSQL 18 and later
CREATE FUNCTION window_plan_lines(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
		IF line !~ '^ *Window:' THEN
			RETURN NEXT line;
		END IF;
	END LOOP;
END $$;
CREATE FUNCTION window_plan_top(query text) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
	plan jsonb;
BEGIN
	EXECUTE 'EXPLAIN (COSTS OFF, FORMAT JSON) ' || query INTO plan;
	RETURN (plan->0->'Plan') - '{Plans,Disabled}'::text[];
END $$;
SELECT window_plan_lines('SELECT row_number() OVER () FROM (SELECT * FROM win ORDER BY k) s');
SELECT window_plan_top('SELECT dense_rank() OVER (ORDER BY k) FROM win');

-- replaced: every function, within expressions, with columns of many types
SELECT c.nodes, c.rows, c.result, q
FROM unnest(ARRAY[
	'SELECT id, row_number() OVER (ORDER BY id DESC) FROM win',
	'SELECT row_number() OVER w, rank() OVER w, dense_rank() OVER w FROM win WINDOW w AS (ORDER BY k)',
	'SELECT id, rank() OVER w * 2 + dense_rank() OVER w, k FROM win WINDOW w AS (PARTITION BY j ORDER BY k, id)',
	'SELECT id, rank() OVER (PARTITION BY k) FROM win ORDER BY k, id',
	'SELECT id, count(*) OVER (PARTITION BY k ORDER BY id ROWS UNBOUNDED PRECEDING) FROM win',
	'SELECT id, f, dense_rank() OVER (PARTITION BY f ORDER BY id DESC), rank() OVER (PARTITION BY f ORDER BY id DESC)
		FROM win',
	'SELECT f = 0, rank() OVER (ORDER BY f DESC), dense_rank() OVER (ORDER BY f DESC) FROM win',
	'SELECT t, rank() OVER w, dense_rank() OVER w FROM win WINDOW w AS (PARTITION BY t ORDER BY j NULLS FIRST)',
	'SELECT trim_scale(n), rank() OVER w, dense_rank() OVER w FROM win WINDOW w AS (PARTITION BY n ORDER BY k)',
	'SELECT length(long), rank() OVER w, dense_rank() OVER w FROM win WINDOW w AS (PARTITION BY long ORDER BY k)',
	'SELECT rtrim(c), rank() OVER w, dense_rank() OVER w FROM win WINDOW w AS (PARTITION BY c ORDER BY k)',
	'SELECT a, rank() OVER w, dense_rank() OVER w FROM win WINDOW w AS (PARTITION BY a ORDER BY u)',
	'SELECT u, rank() OVER w, dense_rank() OVER w FROM win WINDOW w AS (PARTITION BY u ORDER BY t COLLATE "C")',
	'SELECT id, row_number() OVER (PARTITION BY k ORDER BY id), (SELECT max(id) FROM win v WHERE v.id
		<= win.id) FROM win',
	'SELECT id, CASE WHEN rank() OVER w > 3 THEN ''late'' ELSE t END FROM win WINDOW w AS (PARTITION
		BY k ORDER BY id)',
	-- an aggregate below
	'SELECT k, count(*), rank() OVER (ORDER BY count(*) DESC, k) FROM win GROUP BY k',
	-- empty input
	'SELECT rank() OVER (ORDER BY k) FROM win WHERE id < 0'])
	WITH ORDINALITY AS u (q, n), check_window(q) c
ORDER BY n;

-- run conditions, filters and LIMIT
SELECT c.nodes, c.rows, c.result, q
FROM unnest(ARRAY[
	'SELECT * FROM (SELECT id, k, row_number() OVER (PARTITION BY k ORDER BY id) rn FROM win) s WHERE rn <= 3',
	'SELECT * FROM (SELECT id, k, rank() OVER (PARTITION BY k ORDER BY j) r FROM win) s WHERE r < 3 ORDER BY k, id',
	'SELECT * FROM (SELECT id, dense_rank() OVER (ORDER BY id) r FROM win) s WHERE r <= 7',
	'SELECT * FROM (SELECT id, row_number() OVER (ORDER BY id) rn FROM win) s WHERE rn = 7',
	'SELECT * FROM (SELECT id, row_number() OVER (ORDER BY id) rn FROM win) s WHERE rn < 1',
	'SELECT * FROM (SELECT id, row_number() OVER (PARTITION BY j ORDER BY id) rn FROM win) s WHERE rn > 140',
	'SELECT * FROM (SELECT id, k, t, rank() OVER (PARTITION BY k ORDER BY id) r FROM win) s WHERE r <=
		5 AND t < ''name 2''',
	'SELECT * FROM (SELECT id, k, row_number() OVER (PARTITION BY k ORDER BY id) rn FROM win) s WHERE
		rn <= 3 AND k < 5',
	'SELECT id, rank() OVER (ORDER BY id) FROM win LIMIT 5 OFFSET 3',
	-- conditions of functions with arguments
	'SELECT * FROM (SELECT id, count(t) OVER (ORDER BY id) n FROM win) s WHERE n < 5',
	'SELECT * FROM (SELECT j, id, count(*) FILTER (WHERE k % 2 = 0) OVER (ORDER BY id DESC) n FROM win) s WHERE n < 5',
	'SELECT * FROM (SELECT t, id, count(f) FILTER (WHERE j > 2) OVER (PARTITION BY k ORDER BY id) n FROM win) s
		WHERE n <= 1',
	'SELECT * FROM (SELECT id, count(m.j) OVER (PARTITION BY w.k ORDER BY w.id) n FROM win w JOIN win m USING (id))
		s WHERE n <= 2'])
	WITH ORDINALITY AS u (q, n), check_window(q) c
ORDER BY n;
-- Without partitions the node ends when the run condition is false: the sort returns one row more than the query.
CREATE FUNCTION sort_returns(query text) RETURNS int LANGUAGE sql AS $$
SELECT (executed_sort(query)->>'Actual Rows')::numeric::int $$;
SELECT sort_returns('SELECT id FROM (SELECT id, row_number() OVER (ORDER BY id) rn FROM win) s WHERE rn <= 3');
SELECT sort_returns('SELECT id FROM (SELECT id, row_number() OVER (ORDER BY id) rn FROM win) s
		WHERE rn <= 3 OR rn > 9');

-- Functions that depend on following rows: the sort finds the end of a partition and of a peer group.  Where it cannot,
-- the rows are stored.
CREATE FUNCTION executed_window(query text) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
	plan jsonb;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, FORMAT JSON) ' || query INTO plan;
	RETURN jsonb_path_query_first(plan, '$.**?(@."Custom Plan Provider" == "GpuSort Window")');
END $$;
CREATE TABLE following (n serial, query text);
INSERT INTO following (query) VALUES
	('SELECT id, ntile(4) OVER (ORDER BY id), ntile(7) OVER (ORDER BY id), ntile(5000) OVER (ORDER BY id) FROM win'),
	('SELECT id, k, ntile(3) OVER (PARTITION BY k ORDER BY id), ntile(60) OVER (PARTITION BY k ORDER BY id) FROM win'),
	('SELECT k, percent_rank() OVER w, cume_dist() OVER w, rank() OVER w FROM win WINDOW w AS (ORDER BY k)'),
	('SELECT j, f, percent_rank() OVER w, cume_dist() OVER w FROM win WINDOW w AS (PARTITION BY j ORDER BY f DESC)'),
	('SELECT t, cume_dist() OVER w, count(*) OVER w, dense_rank() OVER w FROM win
		WINDOW w AS (PARTITION BY t COLLATE "C" ORDER BY k NULLS FIRST)'),
	('SELECT count(*) OVER (PARTITION BY k), k FROM win'),
	('SELECT count(1) OVER (PARTITION BY long), length(long) FROM win'),
	('SELECT id, k, count(*) OVER (PARTITION BY k ORDER BY j ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)
		FROM win ORDER BY k, j, id'),
	('SELECT k, j, count(*) OVER (PARTITION BY k ORDER BY j GROUPS UNBOUNDED PRECEDING) FROM win'),
	('SELECT rtrim(c), count(*) OVER (PARTITION BY c), rank() OVER (PARTITION BY c) FROM win'),
	-- a partition for each row, and one partition
	('SELECT id, percent_rank() OVER (PARTITION BY id), ntile(2) OVER (PARTITION BY id) FROM win'),
	('SELECT cume_dist() OVER (PARTITION BY k > 100), percent_rank() OVER (PARTITION BY k > 100) FROM win WHERE k > 0'),
	('SELECT count(*) OVER (ORDER BY k) FROM win WHERE k < 0'),
	('SELECT k, ntile(4) OVER (ORDER BY k) FROM win LIMIT 300'),
	-- run conditions
	('SELECT * FROM (SELECT id, k, count(*) OVER (PARTITION BY k ORDER BY id) n FROM win) s WHERE n <= 2'),
	('SELECT * FROM (SELECT id, k, count(*) OVER (PARTITION BY k) n, row_number() OVER (PARTITION BY k ORDER BY id) rn
		FROM win) s WHERE rn <= 3'),
	('SELECT * FROM (SELECT k, t, count(*) OVER (PARTITION BY k, t) n FROM win) s WHERE n < 2'),
	('SELECT * FROM (SELECT id, k, ntile(5) OVER (PARTITION BY k ORDER BY id) n FROM win) s WHERE n <= 1'),
	-- rescans
	('SELECT g, s.* FROM generate_series(0, 3) g, LATERAL (SELECT id, cume_dist() OVER (PARTITION BY j ORDER BY t)
		FROM win WHERE k = g ORDER BY j, t, id OFFSET 0) s');
SELECT c.nodes, c.rows, c.result, executed_window(query)->>'Following Rows' AS following, query
FROM following, check_window(query) c
ORDER BY n;
-- a merge of runs
SET work_mem = '64kB';
CREATE TABLE more AS SELECT win.* FROM win, generate_series(1, 20);
ANALYZE more;
SELECT c.nodes, c.rows, c.result, executed_window(query)->>'Following Rows' AS following, query
FROM (SELECT n, replace(query, 'FROM win', 'FROM more') FROM following WHERE query !~ 'id|generate_series')
	f (n, query), check_window(query) c
ORDER BY n;
RESET work_mem;
DROP TABLE following;

-- Values of other rows, and aggregates of the rows from the partition's first on.
CREATE TABLE of_rows (n serial, query text);
INSERT INTO of_rows (query) VALUES
	('SELECT id, lag(id) OVER w, lag(t, 2) OVER w, lag(n, 3, -1) OVER w, lag(long, 0) OVER w, lag(c, 64) OVER w FROM win
		WINDOW w AS (PARTITION BY k ORDER BY j)'),
	('SELECT id, lead(id) OVER w, lead(t, 2) OVER w, lead(n, 3, -1) OVER w, lead(long, 0) OVER w, lead(c, 64) OVER w
		FROM win WINDOW w AS (PARTITION BY k ORDER BY j)'),
	('SELECT lag(a, 5) OVER w, lead(u, 5) OVER w, lag(f, 2, NULL) OVER w, lead(j, 2, NULL) OVER w FROM win
		WINDOW w AS (ORDER BY t)'),
	('SELECT t, first_value(id) OVER w, first_value(t) OVER w, first_value(long) OVER w FROM win
		WINDOW w AS (PARTITION BY k ORDER BY t DESC)'),
	('SELECT t, last_value(id) OVER w, last_value(t) OVER w, last_value(long) OVER w, lag(t) OVER w FROM win
		WINDOW w AS (PARTITION BY k ORDER BY t DESC)'),
	('SELECT t, last_value(t) OVER w, last_value(a) OVER w, sum(k) OVER w FROM win WINDOW w AS (PARTITION BY k
		ORDER BY t ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)'),
	('SELECT t, last_value(j) OVER w, max(j) OVER w FROM win WINDOW w AS (ORDER BY t, j ROWS UNBOUNDED PRECEDING)'),
	('SELECT k, sum(k) OVER w, sum(n) OVER w, avg(f) OVER w, min(t) OVER w, max(c) OVER w, count(t) OVER w,
		bool_and(j > 0) OVER w, string_agg(t, t) OVER w FROM win WINDOW w AS (PARTITION BY j ORDER BY k)'),
	('SELECT k, avg(k) OVER w, sum(j) OVER w, max(k) OVER w, min(j) OVER w, min(f) OVER w, stddev(n) OVER w FROM win
		WINDOW w AS (PARTITION BY j ORDER BY k, t ROWS UNBOUNDED PRECEDING)'),
	('SELECT k, avg(k) OVER w, sum(f) OVER w, max(long) OVER w FROM win WINDOW w AS (PARTITION BY j ORDER BY k
		RANGE BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) ORDER BY j, k'),
	('SELECT k, sum(k * 2 + j) OVER w, count(*) FILTER (WHERE n > 1) OVER w, sum(k) FILTER (WHERE t > ''b'') OVER w FROM
		win WINDOW w AS (PARTITION BY j ORDER BY k GROUPS UNBOUNDED PRECEDING)'),
	('SELECT j, sum(k) OVER (PARTITION BY j), max(t) OVER (PARTITION BY j), avg(n) OVER (PARTITION BY j) FROM win'),
	('SELECT sum(k) OVER (ORDER BY t), count(f) OVER (ORDER BY t), lag(k) OVER (ORDER BY t) FROM win'),
	-- beside functions that need the partition or the peer group
	('SELECT k, sum(k) OVER w, cume_dist() OVER w, rank() OVER w, lag(t) OVER w, count(*) OVER w FROM win
		WINDOW w AS (PARTITION BY j ORDER BY k)'),
	('SELECT k, lead(t) OVER w, lead(t, 3) OVER w, max(t) OVER w, ntile(3) OVER w FROM win
		WINDOW w AS (PARTITION BY j ORDER BY k)'),
	('SELECT t, lead(t) OVER w, lead(k, 64, -1) OVER w, lag(t) OVER w, rank() OVER w, row_number() OVER w FROM win
		WINDOW w AS (PARTITION BY j ORDER BY k)'),
	('SELECT k, lead(k, 3) OVER w, lead(long) OVER w FROM win WINDOW w AS (ORDER BY k)'),
	-- keys without rows
	('SELECT k, j, lag(j) OVER w, lead(k) OVER w, first_value(j) OVER w, sum(j) OVER w FROM win
		WINDOW w AS (PARTITION BY k ORDER BY j)'),
	-- a partition for each row, and no row
	('SELECT id, sum(n) OVER (PARTITION BY id), lag(t) OVER (PARTITION BY id), lead(t, 1, ''none'')
		OVER (PARTITION BY id) FROM win'),
	('SELECT sum(n) OVER (PARTITION BY k), lead(t) OVER (PARTITION BY k) FROM win WHERE k < 0'),
	-- run conditions, LIMIT, several windows
	('SELECT * FROM (SELECT k, row_number() OVER w AS n, sum(k) OVER w, lag(t) OVER w, lead(t) OVER w FROM win
		WINDOW w AS (PARTITION BY k ORDER BY t, j)) s WHERE n <= 3'),
	('SELECT * FROM (SELECT k, row_number() OVER w AS n, max(t) OVER w, lag(t) OVER w, sum(k) OVER (PARTITION BY k) FROM
		win WINDOW w AS (PARTITION BY k ORDER BY t, j)) s WHERE n <= 3'),
	('SELECT k, sum(k) OVER (ORDER BY k), lag(k) OVER (ORDER BY k) FROM win LIMIT 300'),
	('SELECT k, sum(j) OVER (PARTITION BY k ORDER BY j), max(t) OVER (PARTITION BY k), lag(f) OVER (PARTITION BY k
		ORDER BY j, t) FROM win ORDER BY k, j, t'),
	-- rescans
	('SELECT g, s.* FROM generate_series(0, 3) g, LATERAL (SELECT id, sum(n) OVER w, lag(t) OVER w, lead(t) OVER w
		FROM win WHERE k = g WINDOW w AS (PARTITION BY j ORDER BY t) ORDER BY j, t, id OFFSET 0) s');
SELECT c.nodes, c.rows, c.result, executed_window(query)->>'Following Rows' AS following, query
FROM of_rows, check_window(query) c
ORDER BY n;
SET work_mem = '64kB';
SELECT c.nodes, c.rows, c.result, executed_window(query)->>'Following Rows' AS following, n
FROM (SELECT n, replace(query, 'win', 'more') FROM of_rows WHERE query !~ 'id|generate_series') f (n, query),
	check_window(query) c
ORDER BY n;
RESET work_mem;
DROP TABLE of_rows;
-- rows behind the last one that is returned are not aggregated, nor is their error raised
SELECT * FROM (SELECT id, sum(1 / (id - 9)) OVER (ORDER BY id) FROM win) s LIMIT 5;
SELECT * FROM (SELECT id, sum(1 / (id - 5)) OVER (ORDER BY id) FROM win) s LIMIT 5;
SELECT * FROM (SELECT id, sum(1e308::float8) OVER (ORDER BY id) FROM win) s LIMIT 1;
SELECT * FROM (SELECT id, sum(1e308::float8) OVER (ORDER BY id) FROM win) s LIMIT 2;

-- Rows that come in order from an index, and rows without an order.
CREATE INDEX win_k_j ON win (k, j);
CREATE INDEX win_id ON win (id);
SET enable_sort = off;
SET enable_seqscan = off;
CREATE FUNCTION window_child(query text) RETURNS text LANGUAGE sql AS $$
SELECT executed_window(query)->'Plans'->0->>'Node Type' $$;
SELECT window_child(query) AS child, c.nodes, c.rows, c.result, executed_window(query)->>'Following Rows' AS following,
	query
FROM unnest(ARRAY[
	'SELECT k, j, t, lag(t) OVER w, sum(j) OVER w, rank() OVER w FROM win WINDOW w AS (PARTITION BY k ORDER BY j)',
	'SELECT k, lead(t) OVER w, ntile(3) OVER w, first_value(long) OVER w FROM win
		WINDOW w AS (PARTITION BY k ORDER BY j)',
	'SELECT k, lead(t, 2) OVER w, lead(id, 3, 0) OVER w, first_value(j) OVER w FROM win
		WINDOW w AS (PARTITION BY k ORDER BY j)',
	'SELECT k, row_number() OVER w, lag(k) OVER w, sum(id) OVER (PARTITION BY k) FROM win
		WINDOW w AS (PARTITION BY k ORDER BY j)',
	'SELECT * FROM (SELECT id, t, row_number() OVER w AS n, lag(t) OVER w FROM win WINDOW w AS (ORDER BY id)) s
		WHERE n <= 3',
	'SELECT id, sum(k) OVER (), lag(id) OVER (), row_number() OVER () FROM win WHERE id BETWEEN 100 AND 400'])
	WITH ORDINALITY AS u (query, n), check_window(query) c
ORDER BY n;
RESET enable_sort;
RESET enable_seqscan;
DROP INDEX win_k_j, win_id;
DROP FUNCTION window_child;

-- A run condition: the rows of a partition behind the first ones are not read, in memory and in a merge.
CREATE FUNCTION sort_returns_less(query text) RETURNS bool LANGUAGE sql AS $$
SELECT (executed_sort(query)->>'Actual Rows')::numeric < 3000 $$;
SELECT executed_window(query)->>'Rows Skipped' AS skipped, sort_returns_less(query), c.result, query
FROM unnest(ARRAY[
	'SELECT * FROM (SELECT k, j, row_number() OVER (PARTITION BY k ORDER BY j) rn FROM more) s WHERE rn <= 3',
	'SELECT * FROM (SELECT t, n, k, row_number() OVER (PARTITION BY t ORDER BY n, k) rn FROM more) s WHERE rn <= 3',
	'SELECT * FROM (SELECT f, j, rank() OVER (PARTITION BY f ORDER BY j, k) r FROM more) s WHERE r < 2',
	'SELECT * FROM (SELECT id, dense_rank() OVER (PARTITION BY id ORDER BY k) r FROM more) s WHERE r < 2'])
	WITH ORDINALITY AS u (query, n), check_window(query) c
ORDER BY n;
SET work_mem = '256kB';
SELECT sort_returns_less(query), c.result, executed_window(query) ? 'Rows Skipped' AS skipped, query
FROM unnest(ARRAY[
	'SELECT * FROM (SELECT k, j, row_number() OVER (PARTITION BY k ORDER BY j) rn FROM more) s WHERE rn <= 3',
	'SELECT * FROM (SELECT t, n, k, row_number() OVER (PARTITION BY t ORDER BY n, k) rn FROM more) s WHERE rn <= 3'])
	WITH ORDINALITY AS u (query, n), check_window(query) c
ORDER BY n;
RESET work_mem;

-- several windows
SELECT c.nodes, c.rows, c.result, q
FROM unnest(ARRAY[
	'SELECT id, row_number() OVER (PARTITION BY k ORDER BY id), rank() OVER (PARTITION BY k) FROM win ORDER BY k, id',
	'SELECT id, row_number() OVER (PARTITION BY k ORDER BY id), sum(id) OVER (PARTITION BY k) FROM win
		ORDER BY k, id',
	'SELECT id, row_number() OVER (PARTITION BY k ORDER BY id), nth_value(id, 3) OVER (PARTITION BY k) FROM win
		ORDER BY k, id',
	'SELECT id, rank() OVER (ORDER BY j, id), rank() OVER (PARTITION BY k ORDER BY t, id) FROM win ORDER BY id',
	'SELECT * FROM (SELECT id, row_number() OVER (PARTITION BY k ORDER BY id) rn, dense_rank() OVER (PARTITION BY k
		ORDER BY id DESC) r FROM win) s WHERE rn <= 3 AND r <= 40 ORDER BY id'])
	WITH ORDINALITY AS u (q, n), check_window(q) c
ORDER BY n;

-- not replaced
CREATE AGGREGATE win_most (int) (sfunc = int4larger, stype = int);
SELECT c.nodes, c.rows, c.result, q
FROM unnest(ARRAY[
	'SELECT id, ntile(k + 1) OVER (ORDER BY id) FROM win WHERE k >= 0',
	'SELECT id, ntile(NULL) OVER (ORDER BY id) FROM win',
	'SELECT id, count(*) OVER (PARTITION BY k ORDER BY j RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)
		FROM win ORDER BY id',
	'SELECT id, count(*) OVER (PARTITION BY k ORDER BY j GROUPS UNBOUNDED PRECEDING EXCLUDE TIES) FROM win ORDER BY id',
	'SELECT id, count(*) OVER (ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW EXCLUDE
		CURRENT ROW) FROM win',
	'SELECT id, count(*) OVER (ORDER BY id ROWS 3 PRECEDING) FROM win',
	'SELECT id, lag(id + 1) OVER (ORDER BY id) FROM win',
	'SELECT id, lag(id, k) OVER (ORDER BY id) FROM win',
	'SELECT id, lag(id, NULL) OVER (ORDER BY id) FROM win',
	'SELECT id, lag(id, -1) OVER (ORDER BY id) FROM win',
	'SELECT id, lead(id, 65) OVER (ORDER BY id) FROM win',
	'SELECT id, lead(k, 1, id) OVER (ORDER BY id) FROM win',
	'SELECT id, nth_value(t, 2) OVER (ORDER BY id) FROM win',
	'SELECT id, last_value(t) OVER (ORDER BY id ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) FROM win',
	'SELECT id, first_value(t) OVER (ORDER BY id ROWS 2 PRECEDING) FROM win',
	'SELECT id, sum(n) OVER (ORDER BY id ROWS 2 PRECEDING) FROM win',
	'SELECT id, sum(n) OVER (PARTITION BY k ORDER BY id RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) FROM win
		ORDER BY id',
	'SELECT id, sum(n) OVER (ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW EXCLUDE TIES) FROM win',
	'SELECT id, array_agg(k) OVER (ORDER BY id), max(a) OVER (ORDER BY id) FROM win WHERE id < 50',
	'SELECT id, win_most(k) OVER (ORDER BY id) FROM win WHERE id < 20',
	'SELECT id, sum(id + (random() * 0)::int) OVER (ORDER BY id) FROM win',
	'SELECT id, sum((SELECT min(v.id) FROM win v WHERE v.k = win.k)) OVER (ORDER BY id) FROM win'])
	WITH ORDINALITY AS u (q, n), check_window(q) c
ORDER BY n;
-- EXPLAIN prints JSON_ARRAYAGG(), which PostgreSQL has from 16 on, with a WindowFunc alone
DO $$ BEGIN
	IF current_setting('server_version_num')::int >= 160000 THEN
		EXECUTE 'EXPLAIN (VERBOSE) SELECT JSON_ARRAYAGG(id) OVER (ORDER BY id) FROM win';
		EXECUTE 'EXPLAIN (VERBOSE) SELECT JSON_ARRAYAGG(id) OVER (ORDER BY k), rank() OVER (ORDER BY id) FROM win';
	END IF;
END $$;
SELECT ntile(0) OVER (ORDER BY id) FROM win;
SET gpusort.min_rows = 1000000;
SELECT window_nodes('SELECT rank() OVER (ORDER BY k) FROM win');
SET gpusort.min_rows = 0;
SET gpusort.enable = off;
SELECT window_nodes('SELECT rank() OVER (ORDER BY k) FROM win');
RESET gpusort.enable;

-- rescans
SET enable_memoize = off;
SELECT * FROM check_window('SELECT g, s.* FROM generate_series(0, 20) g, LATERAL (SELECT id, rank() OVER
	(PARTITION BY j ORDER BY id) r FROM win WHERE k = g OFFSET 0) s');
SELECT * FROM check_window('SELECT g, s.* FROM generate_series(0, 20) g, LATERAL (SELECT * FROM (SELECT id,
	row_number() OVER (ORDER BY id) r FROM win WHERE k = g) q WHERE r <= 2) s');
SELECT * FROM check_window('SELECT g, (SELECT max(r) FROM (SELECT rank() OVER (ORDER BY k) r FROM
		win) s WHERE r < g * 9)
	FROM generate_series(1, 40) g');
RESET enable_memoize;
-- a scrollable cursor
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT id, dense_rank() OVER (ORDER BY id DESC) FROM win;
FETCH 2 FROM c;
FETCH BACKWARD 1 FROM c;
FETCH ABSOLUTE 1000 FROM c;
COMMIT;
-- runs on disk
SET work_mem = '64kB';
SELECT * FROM check_window('SELECT id, rank() OVER w, dense_rank() OVER w FROM win WINDOW w AS
		(PARTITION BY long ORDER BY n, id)');
RESET work_mem;
-- nondeterministic collations: equal values with different bytes
DO $$ BEGIN
	IF EXISTS (SELECT 1 FROM pg_collation WHERE collname = 'en-x-icu') THEN
		CREATE COLLATION win_ignores_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
	ELSE
		CREATE COLLATION win_ignores_case FROM "C";
	END IF;
END $$;
SELECT * FROM check_window('SELECT lower(s) COLLATE "C", rank() OVER w, dense_rank() OVER w FROM (SELECT id,
	(CASE WHEN id % 2 = 0 THEN upper(t) ELSE t END) COLLATE win_ignores_case AS s FROM win) q
	WINDOW w AS (PARTITION BY s ORDER BY id % 7)');
DROP COLLATION win_ignores_case;
-- a row that fails the run condition or the filter is projected, with errors and effects
CREATE SEQUENCE win_calls;
SELECT q, window_nodes(q) FROM unnest(ARRAY[
	'SELECT * FROM (SELECT row_number() OVER (ORDER BY id) AS rn, nextval(''win_calls'') AS n FROM win) q WHERE rn < 5',
	'SELECT * FROM (SELECT count(*) OVER (PARTITION BY k ORDER BY id) AS rn, nextval(''win_calls'') AS n FROM win) q
		WHERE rn < 5',
	'SELECT * FROM (SELECT row_number() OVER (PARTITION BY k ORDER BY id) AS rn, nextval(''win_calls'') AS n FROM win) q
		WHERE rn % 5 = 1']) q;
SELECT * FROM (SELECT row_number() OVER (ORDER BY id) AS rn, nextval('win_calls') AS n FROM win) q WHERE rn < 5;
SELECT currval('win_calls');
SELECT count(*) FROM (SELECT row_number() OVER (ORDER BY id) AS rn, nextval('win_calls') AS n FROM win) q
WHERE rn % 5 = 1;
SELECT currval('win_calls');
SELECT * FROM (SELECT row_number() OVER (ORDER BY id) AS rn, 1 / (id - 5) AS x FROM win) q WHERE rn < 5;
SELECT * FROM (SELECT row_number() OVER (ORDER BY id) AS rn, 1 / (id - 6) AS x FROM win) q WHERE rn < 5;
-- a WindowAgg projects rows of the partition that it has read ahead
SELECT q, window_nodes(q), (check_window(q)).result FROM unnest(ARRAY[
	'SELECT * FROM (SELECT count(*) OVER (PARTITION BY k ORDER BY id) AS n, id + 1 AS x FROM win) q WHERE n < 2',
	'SELECT * FROM (SELECT count(*) OVER (PARTITION BY k ORDER BY id) AS n, id FROM win) q WHERE n < 2',
	'SELECT * FROM (SELECT row_number() OVER (PARTITION BY k ORDER BY id ROWS UNBOUNDED PRECEDING) AS n, id + 1 AS x
		FROM win) q WHERE n < 2']) q;
SELECT * FROM (SELECT count(*) OVER (PARTITION BY k ORDER BY id) AS n, 1 / (id - 3) AS x
	FROM (VALUES (1, 1), (1, 2), (1, 3)) v (k, id)) q WHERE n < 2;
SELECT * FROM (SELECT row_number() OVER (PARTITION BY k ORDER BY id ROWS UNBOUNDED PRECEDING) AS n, 1 / (id - 3) AS x
	FROM (VALUES (1, 1), (1, 2), (1, 3)) v (k, id)) q WHERE n < 2;
-- behind the row that fails the condition of a lower window, its functions are NULL
SELECT window_nodes('SELECT * FROM (SELECT row_number() OVER w AS n, count(*) OVER (PARTITION BY k) AS c FROM win
	WINDOW w AS (PARTITION BY k ORDER BY id)) q WHERE n < 3');
SELECT * FROM (SELECT k, row_number() OVER w AS n, count(*) OVER (PARTITION BY k) AS c,
	1 / (row_number() OVER w - 4) AS x FROM win WINDOW w AS (PARTITION BY k ORDER BY id)) q WHERE n < 3 AND k < 3;
SELECT * FROM (SELECT row_number() OVER w AS n, count(*) OVER (PARTITION BY k) AS c,
	1 / (row_number() OVER w - 3) AS x FROM win WINDOW w AS (PARTITION BY k ORDER BY id)) q WHERE n < 3;
DROP SEQUENCE win_calls;
DROP TABLE win, more;
DROP AGGREGATE win_most (int);
DROP FUNCTION check_window, sort_returns, sort_returns_less, executed_window;
