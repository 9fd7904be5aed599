-- Early cutoffs: a bounded sort of a table that grows in the order of its key reads the table's last pages first.
LOAD 'gpusort';
SET gpusort.min_rows = 0;
SET jit = off;
SET max_parallel_workers_per_gather = 0;
SET work_mem = '16MB';

-- three rows for each value of at; below, rows of the last pages are deleted, moved and aborted
CREATE TABLE early AS SELECT i AS seq, (i / 3)::int8 AS at, (mix(i) % 1000)::int AS r, NULLIF(i % 5, 0) AS few,
	'customer ' || lpad((i / 2)::text, 8, '0') AS t, repeat('x', (mix(i * 7) % 90)::int) AS p
	FROM generate_series(1, 60000) i;
ANALYZE early;

-- whether the last pages gave a cutoff, and whether few rows were stored
CREATE FUNCTION early_route(query text, OUT early text, OUT few boolean) LANGUAGE plpgsql AS $$
DECLARE
	route text := sort_route(query);
	wanted int := substring(query FROM 'LIMIT (\d+)')::int;
BEGIN
	early := CASE WHEN route ~ 'cutoff from the last \d+ pages?' THEN 'early cutoff' ELSE 'none' END;
	few := substring(route FROM '(\d+) rows')::int < 2 * wanted + 10;
END $$;
SELECT keys, n, (early_route(format('SELECT seq, p FROM early ORDER BY %s LIMIT %s', keys, n))).*
FROM unnest(ARRAY['at DESC', 'at DESC, r', 't COLLATE "C" DESC', 't COLLATE "C" DESC, r']) keys,
	unnest('{1,10,500}'::int[]) n
ORDER BY keys, n;

-- none: the table is small for the bound, or its order is another one; a condition that may not run twice; a subquery;
-- keys that only a comparator orders
SELECT q, (early_route(q)).early FROM unnest(ARRAY[
	'SELECT seq FROM early ORDER BY at DESC LIMIT 30000',
	'SELECT seq FROM early ORDER BY r LIMIT 2000',
	'SELECT seq FROM early WHERE random() < 2 ORDER BY at DESC LIMIT 10',
	'SELECT seq FROM early WHERE seq NOT IN (SELECT 5) ORDER BY at DESC LIMIT 10',
	'SELECT seq FROM early WHERE seq <> (SELECT 5) ORDER BY at DESC LIMIT 10',
	'SELECT seq FROM early WHERE 100 / seq < 10 ORDER BY at DESC LIMIT 10',
	'SELECT seq FROM early WHERE seq + 1 > 10 ORDER BY at DESC LIMIT 10',
	'SELECT seq FROM early ORDER BY jsonb_build_object(1, at) DESC LIMIT 10',
	'SELECT seq FROM (SELECT * FROM early LIMIT 100) e ORDER BY at DESC LIMIT 10']) q;

-- a condition is evaluated early if nobody can notice that; otherwise its errors and effects are PostgreSQL's
SELECT q, (early_route(q)).early FROM unnest(ARRAY[
	'SELECT seq FROM early WHERE seq > 5 AND r <> ALL (''{1,2}'') AND (few IS NULL OR NOT few = 3) ORDER BY at DESC
		LIMIT 10',
	'SELECT seq FROM early WHERE t = ''customer 00029999'' OR p <> ''x'' ORDER BY at DESC LIMIT 10']) q;
SELECT seq FROM early WHERE 10 / (seq - 60000) < sqrt((seq - 5)::float8) ORDER BY at DESC LIMIT 1;
CREATE SEQUENCE early_calls;
CREATE FUNCTION early_call(seq int) RETURNS bool LANGUAGE plpgsql STABLE AS $$
BEGIN
	RETURN nextval('early_calls') > 0;
END $$;
SELECT seq FROM early WHERE early_call(seq) ORDER BY at DESC, seq DESC LIMIT 1;
SELECT currval('early_calls');
DROP FUNCTION early_call;
DROP SEQUENCE early_calls;

-- the rows and their order: ties at the bound, other orders, NULLs, conditions
CREATE FUNCTION early_same(source text) RETURNS TABLE (keys text, result text) LANGUAGE sql AS $$
SELECT keys, string_agg(DISTINCT s.nodes || ', ' || s.result, '; ')
FROM unnest(ARRAY['at DESC, seq', 'at DESC, seq DESC', 'at, seq', 'few DESC, at DESC, seq', 'few NULLS FIRST, seq DESC',
		't COLLATE "C" DESC, seq', 'r DESC, seq', 'seq::numeric DESC', 'NULLIF(at, 20000) DESC NULLS LAST, seq']) keys,
	unnest('{1,10,333,2000}'::int[]) n,
	check_sort(format('SELECT seq, at, p FROM %s ORDER BY %s LIMIT %s', source, keys, n)) s
GROUP BY keys ORDER BY keys $$;
SELECT * FROM early_same('early');
SELECT * FROM early_same('early WHERE seq % 3 = 0 AND p <> ''x''');
SELECT * FROM early_same('early WHERE r = 5');
SELECT * FROM early_same('early WHERE seq <> 59999 AND p <> ''x''');

-- equal keys keep their input order
SELECT keys, bool_and(compare_rows(
	(rows_of(format('SELECT seq, p FROM early ORDER BY %s, seq LIMIT %s', keys, n), false)).r,
	(rows_of(format('SELECT seq, p FROM early ORDER BY %s LIMIT %s', keys, n), true)).r) = 'same') AS stable
FROM unnest(ARRAY['at DESC', 't COLLATE "C" DESC', 'few DESC, at DESC']) keys, unnest('{1,2,3,4,5,100,400}'::int[]) n
GROUP BY keys ORDER BY keys;

-- rows at the end that are not visible, or are older versions; rows of this transaction
BEGIN;
DELETE FROM early WHERE seq > 59900 AND seq % 2 = 0;
UPDATE early SET p = 'moved' WHERE seq % 1000 = 1;
SAVEPOINT s;
INSERT INTO early SELECT seq + 100000, at + 100000, r, few, t || 'z', p FROM early WHERE seq > 50000;
ROLLBACK TO s;
INSERT INTO early SELECT 70000 + i, 20500, 1, 1, 'customer 99999999', 'new' FROM generate_series(1, 50) i;
SELECT (early_route('SELECT seq FROM early ORDER BY at DESC LIMIT 10')).early;
SELECT * FROM early_same('early');
DECLARE older CURSOR FOR SELECT seq, at FROM early ORDER BY at DESC, seq LIMIT 3;
INSERT INTO early SELECT 80000 + i, 30000, 1, 1, 'customer 99999999', 'later' FROM generate_series(1, 50) i;
FETCH ALL FROM older;
SELECT seq, at FROM early ORDER BY at DESC, seq LIMIT 2;
ROLLBACK;

-- many executions with other parameters and bounds
SELECT o.seq, s.a FROM (VALUES (1), (3), (20), (500)) o (seq),
	LATERAL (SELECT count(*) || ': ' || min(x.seq) || '-' || max(x.seq) AS a FROM (SELECT i.seq FROM early i
		WHERE i.seq % o.seq = 0 ORDER BY at DESC, seq LIMIT o.seq) x) s;
SELECT (SELECT array_agg(seq) FROM (SELECT seq FROM early WHERE at < o.at ORDER BY at DESC, seq LIMIT 2) x)
FROM (VALUES (10), (15000), (20001)) o (at);

-- the wanted rows do not fit memory
SET work_mem = '64kB';
SELECT check_sort('SELECT * FROM early ORDER BY at DESC, seq LIMIT 3000');
RESET work_mem;

-- partitions: the last one gives the cutoff, unless it may be left out while the query runs
CREATE TABLE early_parts (seq int, at int8, p text) PARTITION BY RANGE (at);
CREATE TABLE early_parts1 PARTITION OF early_parts FOR VALUES FROM (0) TO (10000);
CREATE TABLE early_parts2 PARTITION OF early_parts FOR VALUES FROM (10000) TO (30000);
INSERT INTO early_parts SELECT seq, at, p FROM early;
ANALYZE early_parts;
SELECT (early_route('SELECT * FROM early_parts ORDER BY at DESC, seq LIMIT 10')).*;
SELECT check_sort('SELECT * FROM early_parts ORDER BY at DESC, seq LIMIT 100');
PREPARE early_pruned AS SELECT seq, at FROM early_parts WHERE at < (SELECT $1::int) ORDER BY at DESC, seq LIMIT 2;
EXECUTE early_pruned(5000);
EXECUTE early_pruned(25000);
DEALLOCATE early_pruned;

-- participants of a parallel sort
VACUUM FULL early;
SET max_parallel_workers_per_gather = 2;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SELECT bool_or(line ~ 'GpuSort Feed') AS parallel, bool_or(line ~ 'cutoff from the last') AS early
FROM explain_analyze('SELECT * FROM early ORDER BY at DESC, seq LIMIT 10') line;
SELECT * FROM early_same('early');

DROP TABLE early, early_parts;
DROP FUNCTION early_route, early_same;
