-- Sorts below aggregates with ORDER BY or DISTINCT, which are plan nodes from 16 on; incremental sorts above and beside
-- GpuSort.
LOAD 'gpusort';
SET gpusort.min_rows = 0;
SET jit = off;
SET max_parallel_workers_per_gather = 0;
SET enable_hashagg = off;

CREATE TABLE pre (seq int, a int, b numeric, t text COLLATE "C");
INSERT INTO pre
SELECT i, (mix(i) % 40)::int, CASE WHEN mix(i * 3) % 10 > 0 THEN mix(i * 3) % 500 END, 'w' || mix(i * 7) % 300
FROM generate_series(1, 5000) i;
ANALYZE pre;

-- Whether the plan has the wanted sort nodes (from 16 on; 15 has none), and whether the rows are the stock server's.
CREATE FUNCTION presorted(query text, wanted text, OUT as_wanted boolean, OUT result text) LANGUAGE plpgsql AS $$
DECLARE
	r record := check_sort(query);
BEGIN
	as_wanted := r.nodes = wanted OR current_setting('server_version_num')::int < 160000;
	IF NOT as_wanted THEN result := r.nodes; ELSE result := r.result; END IF;
END $$;

CREATE TABLE query (n int, wanted text, q text);
INSERT INTO query VALUES
	(1, 'GpuSort', 'SELECT string_agg(t, '','' ORDER BY b DESC NULLS LAST, seq) FROM pre'),
	(2, 'GpuSort', 'SELECT array_agg(DISTINCT b) FROM pre'),
	(3, 'GpuSort', 'SELECT count(DISTINCT t), sum(DISTINCT a) FROM pre'),
	(4, 'GpuSort', 'SELECT a, string_agg(t, '','' ORDER BY t, seq), count(*) FROM pre GROUP BY a'),
	(5, 'GpuSort', 'SELECT a, array_agg(seq ORDER BY b, seq DESC) FILTER (WHERE seq % 3 = 0) FROM pre GROUP BY a'),
	-- two aggregates with different orders: the plan has one of the orders
	(6, 'GpuSort', 'SELECT array_agg(seq ORDER BY b, seq), array_agg(seq ORDER BY t, seq) FROM pre'),
	-- an ordered-set aggregate, in all versions
	(7, 'GpuSort', 'SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY seq) FROM pre'),
	(8, 'GpuSort', 'SELECT a, b, array_agg(seq ORDER BY seq DESC) FROM pre WHERE seq < 1000 GROUP BY ROLLUP (a, b)'),
	(9, 'GpuSort', 'SELECT x, (SELECT string_agg(t, '','' ORDER BY b, seq) FROM pre WHERE a = x)
		FROM generate_series(1, 20) x'),
	(10, 'GpuSort', 'SELECT string_agg(t, '','' ORDER BY b, seq) FROM pre WHERE false');
SELECT n, p.* FROM query, presorted(q, wanted) p ORDER BY n;

-- rows with equal keys keep their order, from 16 on
SELECT current_setting('server_version_num')::int < 160000
	OR (SELECT array_agg(seq ORDER BY b) FROM pre) = (SELECT array_agg(seq ORDER BY b, seq) FROM pre) AS stable;

-- past work_mem
SET work_mem = '64kB';
SELECT n, p.* FROM query, presorted(q, wanted) p WHERE n < 7 ORDER BY n;
RESET work_mem;

-- enable_presorted_aggregate = off: the aggregate sorts; 15 lacks this setting
DO $$
BEGIN
	IF current_setting('server_version_num')::int >= 160000 THEN SET enable_presorted_aggregate = off; END IF;
END $$;
SELECT nodes, result FROM check_sort('SELECT array_agg(DISTINCT b) FROM pre');
DO $$
BEGIN
	IF current_setting('server_version_num')::int >= 160000 THEN RESET enable_presorted_aggregate; END IF;
END $$;

-- incremental sorts read rows from GpuSort
SELECT c.*
FROM unnest(ARRAY[
	'SELECT a, b, seq, count(*) OVER (PARTITION BY a) FROM pre ORDER BY a, b, seq LIMIT 700',
	'SELECT x, y.* FROM generate_series(1, 3) x, LATERAL (SELECT a, seq, sum(seq) OVER (PARTITION BY a) + x FROM pre
		ORDER BY a, seq DESC LIMIT 200) y']) WITH ORDINALITY AS u (q, n), check_sort(q) c
ORDER BY n;
CREATE INDEX ON pre (a);
SET enable_seqscan = off;
SELECT *
FROM check_sort('SELECT * FROM (SELECT a, b, seq FROM pre ORDER BY a, b, seq LIMIT 2000) x ORDER BY b DESC, seq');
-- below an aggregate
SELECT p.*
FROM presorted('SELECT a, string_agg(t, '','' ORDER BY t, seq) FROM pre GROUP BY a', 'GpuSort Incremental') p;

DROP TABLE pre, query;
DROP FUNCTION presorted;
