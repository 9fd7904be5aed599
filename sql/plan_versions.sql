-- Sort nodes in plans that differ between versions of the server: one expected file for each of 15 and 16, 17, 18, 19.
LOAD 'gpusort';
SET gpusort.min_rows = 0;
SET jit = off;
SET max_parallel_workers_per_gather = 0;
SET enable_hashagg = off;
SET enable_material = off;

CREATE TABLE plan_v (a int, b int8);
INSERT INTO plan_v SELECT (mix(i) % 100)::int, mix(i * 3) % 50 FROM generate_series(1, 1000) i;
ANALYZE plan_v;

-- WindowAgg: from 18 on EXPLAIN prints the window
EXPLAIN (COSTS OFF) SELECT array_agg(a) OVER (PARTITION BY b) FROM plan_v;
-- set operations: UNION sorts each side from 17 on, INTERSECT and EXCEPT from 18 on
EXPLAIN (COSTS OFF) SELECT a FROM plan_v INTERSECT SELECT b::int FROM plan_v;
EXPLAIN (COSTS OFF) SELECT a FROM plan_v UNION SELECT b::int FROM plan_v;
-- subplans, uncorrelated and correlated: 17 and 19 name them differently
EXPLAIN (COSTS OFF) SELECT ARRAY(SELECT a FROM plan_v ORDER BY a);
EXPLAIN (COSTS OFF) SELECT (SELECT array_agg(s.b) FROM (SELECT y.b FROM plan_v y WHERE y.a = x.a ORDER BY y.b) s)
	FROM plan_v x;

-- results; 18 has another sort of grouping sets
SELECT q, c.*
FROM unnest(ARRAY[
	'SELECT a FROM plan_v INTERSECT SELECT b::int FROM plan_v ORDER BY 1',
	'SELECT a FROM plan_v EXCEPT ALL SELECT b::int FROM plan_v ORDER BY 1',
	'SELECT b::int FROM plan_v UNION SELECT a FROM plan_v ORDER BY 1 DESC',
	'SELECT a, b, count(*) FROM plan_v GROUP BY ROLLUP (a, b) ORDER BY 1, 2'])
		WITH ORDINALITY AS u (q, n), check_sort(q) c
ORDER BY n;

-- from 18 on EXPLAIN marks disabled nodes, GpuSort like Sort
CREATE FUNCTION disabled(query text, enable boolean, OUT lines int) LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	PERFORM set_config('gpusort.enable', enable::text, true);
	lines := 0;
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
		lines := lines + (line ~ 'Disabled: true')::int;
	END LOOP;
END $$;
SET enable_sort = off;
SELECT sort_nodes('SELECT * FROM plan_v ORDER BY a'),
	disabled('SELECT * FROM plan_v ORDER BY a', true) = disabled('SELECT * FROM plan_v ORDER BY a', false) AS same,
	disabled('SELECT * FROM plan_v ORDER BY a', true) =
		(current_setting('server_version_num')::int >= 180000)::int AS one;
SET enable_seqscan = off;
SELECT disabled(q, true) = disabled(q, false) AS same
FROM unnest(ARRAY['SELECT * FROM plan_v ORDER BY a',
	'SELECT a, count(*) FROM (SELECT * FROM plan_v ORDER BY b OFFSET 0) x GROUP BY a',
	'SELECT * FROM plan_v x JOIN (SELECT * FROM plan_v ORDER BY b LIMIT 10) y USING (a) ORDER BY 1, 2']) q;
RESET enable_sort;
RESET enable_seqscan;

DROP TABLE plan_v;
DROP FUNCTION disabled;
