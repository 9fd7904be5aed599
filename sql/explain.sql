-- EXPLAIN in every format.
LOAD 'gpusort';
SET gpusort.min_rows = 0;
SET jit = off;
SET max_parallel_workers_per_gather = 0;
SET gpusort.algorithm = 'cpu_radix';

CREATE TABLE ex AS SELECT i AS id, (mix(i) % 100)::int AS k, mix(i * 3) AS v FROM generate_series(1, 1000) i;
ANALYZE ex;

-- Sort Key as Sort prints it
EXPLAIN (COSTS OFF) SELECT * FROM ex ORDER BY k, v DESC, id DESC NULLS LAST, (k + id) NULLS FIRST;
EXPLAIN (COSTS OFF, VERBOSE) SELECT k, v FROM ex ORDER BY v;
CREATE FUNCTION sort_keys(query text, enable boolean) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	PERFORM set_config('gpusort.enable', enable::text, false);
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
		EXIT WHEN line ~ 'Sort Key';
	END LOOP;
	PERFORM set_config('gpusort.enable', 'on', false);
	RETURN trim(line);
END $$;
SELECT q, sort_keys(q, true) AS ours, sort_keys(q, true) = sort_keys(q, false) AS same
FROM unnest(ARRAY['SELECT * FROM ex ORDER BY k', 'SELECT * FROM ex x ORDER BY x.k + 1 DESC, x.id',
	'SELECT x.k FROM ex x, ex y WHERE x.id = y.v ORDER BY y.k, x.id NULLS FIRST',
	'SELECT k, count(*) FROM ex GROUP BY k ORDER BY count(*) DESC, k',
	'SELECT relname FROM pg_class ORDER BY relname DESC, reltype, relname COLLATE "POSIX"']) q;

-- ANALYZE
SELECT * FROM explain_analyze('SELECT * FROM ex ORDER BY v');
SELECT * FROM explain_analyze('SELECT * FROM ex ORDER BY v', 'COSTS OFF, SUMMARY OFF, BUFFERS OFF');
-- a sort that never runs
SELECT * FROM explain_analyze('SELECT * FROM (SELECT 1 WHERE false) n,
	LATERAL (SELECT * FROM ex ORDER BY v OFFSET 0) s');
-- a sort without rows
SELECT * FROM explain_analyze('SELECT * FROM ex WHERE id < 0 ORDER BY v');

-- the structured formats
SELECT * FROM explain_analyze('SELECT v FROM ex ORDER BY v DESC',
	'COSTS OFF, SUMMARY OFF, TIMING OFF, BUFFERS OFF, FORMAT yaml');
SELECT * FROM explain_analyze('SELECT v FROM ex ORDER BY v DESC',
	'COSTS OFF, SUMMARY OFF, TIMING OFF, BUFFERS OFF, FORMAT xml');
SELECT * FROM explain_analyze('SELECT v FROM ex ORDER BY v DESC',
	'COSTS OFF, SUMMARY OFF, TIMING OFF, BUFFERS OFF, FORMAT json');
SELECT * FROM explain_analyze('SELECT v FROM ex ORDER BY v', 'ANALYZE OFF, COSTS OFF, FORMAT json');

DROP TABLE ex;
DROP FUNCTION sort_keys;
