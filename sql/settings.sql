-- Settings: defaults, ranges, wrong values.
LOAD 'gpusort';
SELECT name, setting, unit, context, vartype, min_val, max_val
FROM pg_settings
WHERE name ~ '^gpusort.(enable|index_builds|windows|algorithm|compress_runs|min_rows|threads|verify)$' ORDER BY name;

SET gpusort.enable = maybe;
SET gpusort.index_builds = maybe;
SET gpusort.compress_runs = maybe;
SET gpusort.min_rows = -1;
SET gpusort.min_rows = 'many';
SET gpusort.algorithm = 'bogo';
SET gpusort.algorithm = '';
SET gpusort.no_such_setting = 1;

-- an algorithm by name; if it cannot run, EXPLAIN says so and auto is used
SET gpusort.min_rows = 0;
SET jit = off;
SET max_parallel_workers_per_gather = 0;
CREATE TABLE s AS SELECT i AS id, mix(i) AS v FROM generate_series(1, 1000) i;
ANALYZE s;
SET gpusort.algorithm = 'cpu_radix';
SELECT * FROM check_sort('SELECT v, id FROM s ORDER BY v, id');
SET gpusort.algorithm = 'gpu_radix';
SELECT * FROM check_sort('SELECT v, id FROM s ORDER BY v, id');
SELECT regexp_replace(line, '\d+kB', 'NkB') AS line
FROM explain_analyze('SELECT v FROM s ORDER BY v') line WHERE line ~ 'Sort';
RESET gpusort.algorithm;
-- every algorithm returns the same rows
SELECT count(*) > 0 AS some,
	bool_and((check_sort('SELECT v, id FROM s ORDER BY v, id')).result = 'same') AS same
FROM gpusort_algorithms() a, set_config('gpusort.algorithm', a.algorithm, false);
RESET gpusort.algorithm;
SET gpusort.verify = on;
SELECT * FROM check_sort('SELECT v, id FROM s ORDER BY v, id');
RESET gpusort.verify;

-- a cached plan keeps running after the setting changes
SET plan_cache_mode = force_generic_plan;
PREPARE p AS SELECT md5(string_agg(v::text, ',')) FROM (SELECT v FROM s ORDER BY v) x;
EXECUTE p \gset first_
SET gpusort.enable = off;
EXECUTE p \gset second_
SELECT :'first_md5' = :'second_md5' AS same;
DEALLOCATE p;
RESET plan_cache_mode;
RESET gpusort.enable;

-- views and functions
SELECT count(*) > 0 AS counts FROM gpusort_stat;
SELECT algorithm FROM gpusort_algorithms() WHERE algorithm = 'cpu_radix';

-- settings that an ordinary user may change
CREATE ROLE gpusort_plain;
SET ROLE gpusort_plain;
SET gpusort.enable = off;
SET gpusort.min_rows = 10;
SET gpusort.algorithm = 'cpu_radix';
RESET ROLE;
DROP ROLE gpusort_plain;

DROP TABLE s;
