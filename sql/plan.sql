-- Which Sort nodes of a plan become GpuSort, and why other Sort nodes stay.  plan_versions has plans that differ
-- between versions of the server.
LOAD 'gpusort';
SET gpusort.min_rows = 0;
SET jit = off;
SET max_parallel_workers_per_gather = 0;
SET enable_hashagg = off;
SET enable_hashjoin = off;
SET enable_nestloop = off;
SET enable_material = off;

CREATE TABLE plan_t (a int, b int8, c float8, t text, n numeric);
INSERT INTO plan_t SELECT (mix(i) % 100)::int, mix(i * 3) % 50, mix(i) / 3.0, 'x' || i, i
FROM generate_series(1, 1000) i;
ANALYZE plan_t;

-- ORDER BY
EXPLAIN (COSTS OFF) SELECT * FROM plan_t ORDER BY a;
EXPLAIN (COSTS OFF) SELECT * FROM plan_t ORDER BY a DESC, b NULLS FIRST;
EXPLAIN (COSTS OFF, VERBOSE) SELECT a + 1 AS x FROM plan_t ORDER BY b, x;
-- merge join
EXPLAIN (COSTS OFF) SELECT * FROM plan_t x JOIN plan_t y ON x.a = y.b;
-- GroupAggregate, DISTINCT, Unique
EXPLAIN (COSTS OFF) SELECT a, count(*) FROM plan_t GROUP BY a;
EXPLAIN (COSTS OFF) SELECT DISTINCT a FROM plan_t;
-- subqueries
EXPLAIN (COSTS OFF) SELECT max(a) FROM (SELECT a FROM plan_t ORDER BY b OFFSET 3) s;
-- CTE
EXPLAIN (COSTS OFF) WITH s AS MATERIALIZED (SELECT a FROM plan_t ORDER BY a) SELECT count(*) FROM s;
-- CREATE TABLE AS, INSERT, UPDATE FROM, data-modifying CTE
EXPLAIN (COSTS OFF) CREATE TABLE plan_new AS SELECT * FROM plan_t ORDER BY c;
EXPLAIN (COSTS OFF) INSERT INTO plan_t SELECT * FROM plan_t ORDER BY c DESC;
EXPLAIN (COSTS OFF) UPDATE plan_t SET a = s.a FROM (SELECT a, b FROM plan_t ORDER BY a OFFSET 1) s WHERE s.b = plan_t.b;
EXPLAIN (COSTS OFF) WITH d AS (DELETE FROM plan_t RETURNING a) SELECT * FROM d ORDER BY a;
-- Append over partitions
CREATE TABLE plan_p (a int, b int) PARTITION BY RANGE (a);
CREATE TABLE plan_p1 PARTITION OF plan_p FOR VALUES FROM (0) TO (50);
CREATE TABLE plan_p2 PARTITION OF plan_p FOR VALUES FROM (50) TO (100);
INSERT INTO plan_p SELECT a, b FROM plan_t;
ANALYZE plan_p;
EXPLAIN (COSTS OFF) SELECT * FROM plan_p ORDER BY b;
-- FOR UPDATE: rows are locked above the sort
EXPLAIN (COSTS OFF) SELECT * FROM plan_t ORDER BY a FOR UPDATE;
-- a cursor and a prepared statement
EXPLAIN (COSTS OFF) DECLARE plan_c SCROLL CURSOR FOR SELECT * FROM plan_t ORDER BY a;
PREPARE plan_p1 (int) AS SELECT * FROM plan_t WHERE a > $1 ORDER BY b;
EXPLAIN (COSTS OFF) EXECUTE plan_p1 (5);
DEALLOCATE plan_p1;
-- a query in a function
CREATE FUNCTION plan_f() RETURNS SETOF int LANGUAGE plpgsql AS
$$ BEGIN RETURN QUERY SELECT a FROM plan_t ORDER BY a; END $$;
SELECT array_agg(f) = (SELECT array_agg(a ORDER BY a) FROM plan_t) AS same FROM plan_f() f;

-- an incremental sort, and an index saves a sort
CREATE INDEX plan_i ON plan_t (a);
SET enable_seqscan = off;
SET enable_bitmapscan = off;
EXPLAIN (COSTS OFF) SELECT * FROM plan_t ORDER BY a, b;
EXPLAIN (COSTS OFF) SELECT * FROM plan_t ORDER BY a;
RESET enable_seqscan;
RESET enable_bitmapscan;
DROP INDEX plan_i;

-- an operator class that is not the default of its type
CREATE FUNCTION backwards_cmp(int, int) RETURNS int LANGUAGE sql IMMUTABLE STRICT AS $$ SELECT btint4cmp($2, $1) $$;
CREATE FUNCTION backwards_lt(int, int) RETURNS bool LANGUAGE sql IMMUTABLE STRICT AS $$ SELECT $1 > $2 $$;
CREATE FUNCTION backwards_gt(int, int) RETURNS bool LANGUAGE sql IMMUTABLE STRICT AS $$ SELECT $1 < $2 $$;
CREATE OPERATOR <<< (LEFTARG = int, RIGHTARG = int, FUNCTION = backwards_lt);
CREATE OPERATOR >>> (LEFTARG = int, RIGHTARG = int, FUNCTION = backwards_gt);
CREATE OPERATOR CLASS backwards_ops FOR TYPE int USING btree AS
	OPERATOR 1 <<<, OPERATOR 3 =, OPERATOR 5 >>>, FUNCTION 1 backwards_cmp(int, int);
SELECT * FROM check_sort('SELECT a FROM plan_t ORDER BY a USING <<<');
SELECT * FROM check_sort('SELECT a FROM plan_t ORDER BY a USING >>>');

-- Sort nodes that stay; a debug message tells why
\set VERBOSITY terse
CREATE FUNCTION refusals(query text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	SET LOCAL client_min_messages = debug1;
	EXECUTE 'EXPLAIN ' || query;
	SET LOCAL client_min_messages = notice;
END $$;
-- fewer rows expected than gpusort.min_rows
SET gpusort.min_rows = 1000000;
SELECT refusals('SELECT * FROM plan_t ORDER BY a');
SELECT sort_nodes('SELECT * FROM plan_t ORDER BY a');
SET gpusort.min_rows = 0;
-- an operator class without a comparison function can be planned, but not run
CREATE OPERATOR <|< (LEFTARG = int, RIGHTARG = int, FUNCTION = backwards_lt);
CREATE OPERATOR >|> (LEFTARG = int, RIGHTARG = int, FUNCTION = backwards_gt);
CREATE OPERATOR CLASS bare_ops FOR TYPE int USING btree AS OPERATOR 1 <|<, OPERATOR 3 =, OPERATOR 5 >|>;
SELECT refusals('SELECT * FROM plan_t ORDER BY a USING <|<');
SELECT sort_nodes('SELECT * FROM plan_t ORDER BY a USING <|<');
-- gpusort.enable = off: no message
SET gpusort.enable = off;
SELECT refusals('SELECT * FROM plan_t ORDER BY a');
SELECT sort_nodes('SELECT * FROM plan_t ORDER BY a');
RESET gpusort.enable;

-- grouping sets sort within the aggregate; the Sort below becomes GpuSort
SELECT * FROM check_sort('SELECT a, b, count(*) FROM plan_t GROUP BY GROUPING SETS ((a, b), (a), (b), ())
	ORDER BY 1, 2, 3');
EXPLAIN (COSTS OFF) SELECT a, b, count(*) FROM plan_t GROUP BY ROLLUP (a, b);

-- instead of Gather Merge: the workers sort, and the node above Gather merges
SET max_parallel_workers_per_gather = 2;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET cpu_tuple_cost = 1;
SET min_parallel_table_scan_size = 0;
EXPLAIN (COSTS OFF) SELECT * FROM plan_t ORDER BY a;
SELECT * FROM check_sort('SELECT a, b FROM plan_t ORDER BY a, b');
-- instead of a Sort above Gather
SET enable_gathermerge = off;
EXPLAIN (COSTS OFF) SELECT * FROM plan_t ORDER BY a;
SELECT * FROM check_sort('SELECT a FROM plan_t ORDER BY a');
RESET enable_gathermerge;
SET max_parallel_workers_per_gather = 0;

-- results of the queries above
SELECT q, c.*
FROM unnest(ARRAY[
	'SELECT x.a, x.c, y.c AS d FROM plan_t x JOIN plan_t y ON x.a = y.b ORDER BY 1, 2, 3',
	'SELECT a, count(*) FROM plan_t GROUP BY a ORDER BY a',
	'SELECT DISTINCT a FROM plan_t ORDER BY a DESC',
	'SELECT DISTINCT ON (a) a, b, c FROM plan_t ORDER BY a, b DESC, c',
	'SELECT a, count(DISTINCT b), array_agg(b ORDER BY b DESC) FROM plan_t GROUP BY a ORDER BY a',
	'SELECT b, c, sum(a) OVER (PARTITION BY b ORDER BY c) FROM plan_t ORDER BY b, c',
	'WITH s AS MATERIALIZED (SELECT a, c FROM plan_t ORDER BY a, c) SELECT * FROM s',
	'SELECT * FROM plan_p ORDER BY b, a']) WITH ORDINALITY AS u (q, n), check_sort(q) c
ORDER BY n;
CREATE TABLE plan_new AS SELECT * FROM plan_t ORDER BY c DESC, a;
SELECT bool_and(c <= prev) FROM (SELECT c, lag(c, 1, c) OVER (ORDER BY ctid) AS prev FROM plan_new) s;

DROP TABLE plan_t, plan_p, plan_new;
DROP FUNCTION plan_f;
