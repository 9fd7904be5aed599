-- LIMIT above a sort: right rows at every bound, on each route.
LOAD 'gpusort';
SET gpusort.min_rows = 0;
SET jit = off;
SET max_parallel_workers_per_gather = 0;

CREATE TABLE lim AS
SELECT i::int AS seq, (mix(i) % 500)::int AS k, mix(i * 3) AS u FROM generate_series(1, 5000) i;
ANALYZE lim;

-- only the rows are tested here: the planner may leave a small bound to the stock Sort
SELECT n, o, c.rows, c.result
FROM unnest('{0,1,2,10,100,4999,5000,5001,100000}'::int[]) n,
	unnest('{0,1,10,4990,6000}'::int[]) o,
	check_sort(format('SELECT k, seq FROM lim ORDER BY k DESC, seq LIMIT %s OFFSET %s', n, o)) c
ORDER BY n, o;
SELECT * FROM check_sort('SELECT k, seq FROM lim ORDER BY k, seq LIMIT ALL');
SELECT * FROM check_sort('SELECT k, seq FROM lim ORDER BY k, seq LIMIT NULL OFFSET 7');
-- WITH TIES returns more rows than its bound
SELECT n, c.rows, c.result
FROM unnest('{1,5,500,5000}'::int[]) n,
	check_sort(format('SELECT k FROM lim ORDER BY k FETCH FIRST %s ROWS WITH TIES', n)) c
ORDER BY n;
-- of rows with equal keys the first ones of the input are kept, in their order
CREATE FUNCTION first_of_ties(keys text, n int, mem text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	PERFORM set_config('work_mem', mem, false);
	RETURN compare_rows(
		(rows_of(format('SELECT * FROM lim ORDER BY %s, seq LIMIT %s', keys, n), false)).r,
		(rows_of(format('SELECT * FROM lim ORDER BY %s LIMIT %s', keys, n), true)).r);
END $$;
SELECT keys, n, mem, first_of_ties(keys, n, mem)
FROM unnest('{k,k DESC,k % 3,k / 100 DESC,seq * 0}'::text[])
	WITH ORDINALITY AS a (keys, i), unnest('{1,7,1000,4999}'::int[]) n,
	unnest('{64kB,4MB}'::text[]) mem
ORDER BY i, n, mem;
RESET work_mem;
-- sorted and reversed input, NULLs at either end
SELECT keys, n, c.rows, c.result
FROM unnest('{seq,seq DESC,NULLIF(k % 2\, 0)\, seq,NULLIF(k % 2\, 0) DESC\, seq,
	NULLIF(k % 2\, 0) NULLS FIRST\, seq DESC}'::text[]) WITH ORDINALITY AS a (keys, i),
	unnest('{3,2600}'::int[]) n, check_sort(format('SELECT seq, k FROM lim ORDER BY %s LIMIT %s', keys, n)) c
ORDER BY i, n;
-- keys behind columns of varying length, with NULLs, and a column added later
CREATE TABLE lim_v AS
SELECT repeat('x', (mix(i) % 150)::int) AS p, NULLIF(mix(i + 7) % 300, 5)::int AS k, CASE WHEN i % 9 > 0
	THEN (mix(i * 5) % 40) / 8.0 END::float8 AS f, i AS seq
FROM generate_series(1, 4000) i;
ALTER TABLE lim_v ADD COLUMN d date DEFAULT '2026-01-01';
INSERT INTO lim_v SELECT p, k, f, seq + 4000, date '2026-01-01' + (mix(seq) % 5)::int - 2 FROM lim_v;
ANALYZE lim_v;
SELECT keys, n, c.rows, c.result
FROM unnest('{k DESC\, f\, seq,k\, f DESC NULLS LAST\, seq,f NULLS FIRST\, k\, seq DESC,d DESC\, seq,d\, f\, seq,
	p DESC\, k\, seq}'::text[]) WITH ORDINALITY AS a (keys, i),
	unnest('{1,10,1500}'::int[]) n, check_sort(format('SELECT * FROM lim_v ORDER BY %s LIMIT %s', keys, n)) c
ORDER BY i, n;
SELECT check_sort('SELECT seq, p, k + 1 AS k1 FROM lim_v WHERE seq % 3 > 0 ORDER BY d, k DESC, seq LIMIT 20');
-- rows with equal keys keep the order of the input
SELECT compare_rows(
	(rows_of('SELECT * FROM lim_v ORDER BY d DESC, k, ctid LIMIT 900', false)).r,
	(rows_of('SELECT * FROM lim_v ORDER BY d DESC, k LIMIT 900', true)).r);
SELECT line ~ 'top-N' AS bounded
	FROM explain_analyze('SELECT * FROM lim_v ORDER BY d DESC, k LIMIT 9') line WHERE line ~ 'Sort Method';
-- a bound that the plan computes
SELECT * FROM check_sort('SELECT k, seq FROM lim ORDER BY k, seq LIMIT 2 + 3 OFFSET length(''ab'')');
SELECT * FROM check_sort('SELECT k, seq FROM lim ORDER BY k, seq LIMIT (SELECT 4)');
SELECT * FROM check_sort('SELECT k, seq FROM lim ORDER BY k, seq
	LIMIT (SELECT count(*) FROM lim WHERE k = 7) OFFSET (SELECT min(k) FROM lim)');
SELECT * FROM check_sort('SELECT k, seq FROM lim ORDER BY k, seq LIMIT (3 + random() * 0)::int');
-- nodes that pass a bound down, and nodes that do not
CREATE TABLE lim_p (seq int, k int, u int8) PARTITION BY RANGE (seq);
CREATE TABLE lim_p1 PARTITION OF lim_p FOR VALUES FROM (0) TO (2000);
CREATE TABLE lim_p2 PARTITION OF lim_p FOR VALUES FROM (2000) TO (9000);
INSERT INTO lim_p SELECT * FROM lim;
ANALYZE lim_p;
-- from 16 on a join keeps the order of its outer side
SET enable_incremental_sort = off;
SELECT q, c.*
FROM unnest(ARRAY[
	'SELECT * FROM ((SELECT u FROM lim_p1 ORDER BY u) UNION ALL (SELECT u FROM lim_p2 ORDER BY u)) s LIMIT 9',
	'SELECT u FROM lim_p1 UNION ALL SELECT u FROM lim_p2 ORDER BY u LIMIT 9',
	'SELECT u, seq FROM lim_p ORDER BY u LIMIT 9',
	'SELECT u FROM (SELECT u, seq FROM lim_p ORDER BY u DESC) s WHERE seq % 50 = 3 LIMIT 9',
	'SELECT u FROM (SELECT u, seq FROM lim_p ORDER BY u DESC LIMIT 100) s ORDER BY seq LIMIT 5',
	'SELECT u FROM (SELECT u, seq FROM lim_p ORDER BY u DESC LIMIT 20 OFFSET 15) s LIMIT 5',
	'SELECT u FROM (SELECT u FROM lim_p ORDER BY u LIMIT 3) s, generate_series(1, 3) g ORDER BY u, g LIMIT 5'])
		WITH ORDINALITY AS x (q, i),
	check_sort(q) c
ORDER BY i;
RESET enable_incremental_sort;
-- a bound over a parallel sort
SET max_parallel_workers_per_gather = 2;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SELECT * FROM check_sort('SELECT u, seq FROM lim ORDER BY u LIMIT 9');
SET max_parallel_workers_per_gather = 0;
-- a filter between the sort and the bound loses no rows
SELECT * FROM check_sort('SELECT k, seq FROM (SELECT k, seq FROM lim ORDER BY k, seq) s WHERE seq % 7 = 0 LIMIT 20');
SELECT * FROM check_sort('SELECT k, generate_series(1, 3) AS g FROM lim ORDER BY k, seq LIMIT 10');
SELECT * FROM check_sort('SELECT k, row_number() OVER (ORDER BY k, seq) AS n FROM lim LIMIT 15');
SELECT * FROM check_sort('SELECT DISTINCT k FROM lim ORDER BY k LIMIT 15');
SELECT * FROM check_sort('SELECT DISTINCT ON (k) k, seq FROM lim ORDER BY k, seq DESC LIMIT 15');

-- a bound that changes between executions of one plan
SET plan_cache_mode = force_generic_plan;
PREPARE bounded (bigint, bigint) AS
	SELECT array_agg(seq) FROM (SELECT seq FROM lim ORDER BY u DESC LIMIT $1 OFFSET $2) s;
EXECUTE bounded (3, 0);
EXECUTE bounded (5, 1);
EXECUTE bounded (1, 2);
EXECUTE bounded (0, 0);
EXECUTE bounded (NULL, 4995);
EXECUTE bounded (3, NULL);
-- a bound that changes between rescans: growing, shrinking, none
SELECT n, s.*
FROM (VALUES (1, 2), (2, 5), (3, 1), (4, NULL), (5, 3)) v (n, b),
	LATERAL (SELECT count(*), min(seq), sum(k) FROM (SELECT seq, k FROM lim ORDER BY u LIMIT b) x) s
ORDER BY n;
SET gpusort.enable = off;
SELECT n, s.*
FROM (VALUES (1, 2), (2, 5), (3, 1), (4, NULL), (5, 3)) v (n, b),
	LATERAL (SELECT count(*), min(seq), sum(k) FROM (SELECT seq, k FROM lim ORDER BY u LIMIT b) x) s
ORDER BY n;
EXECUTE bounded (3, 0);
RESET gpusort.enable;
RESET plan_cache_mode;

-- errors are those of the stock Sort
SELECT seq FROM lim ORDER BY k LIMIT -1;
SELECT seq FROM lim ORDER BY k OFFSET -1;

-- FETCH n from a cursor does not bound the sort
BEGIN;
DECLARE c CURSOR FOR SELECT seq FROM lim ORDER BY u;
FETCH 3 FROM c;
MOVE 4990 FROM c;
FETCH ALL FROM c;
COMMIT;

DROP TABLE lim, lim_p, lim_v;
DROP FUNCTION first_of_ties;

-- no row is compared with itself: these comparators raise an error for equal rows
SELECT array_agg(g) FROM (SELECT g FROM generate_series(1, 5000) g ORDER BY ROW(-g, point(1, 2)) LIMIT 3) s;
SET work_mem = '64kB';
SELECT array_agg(g), sum(length(p)) FROM (SELECT g, repeat('x', 500) AS p FROM generate_series(1, 5000) g
	ORDER BY ROW(-g, point(1, 2)) LIMIT 3) s;
RESET work_mem;
