-- The SQL functions and the views.
LOAD 'gpusort';
SET gpusort.min_rows = 0;
SET jit = off;

-- gpusort_array(): ascending, NULLs last, equal elements keep their order
SELECT gpusort_array(ARRAY[3, 1, 2]);
SELECT gpusort_array('{}'::int[]), gpusort_array(NULL::int[]) IS NULL AS nothing;
SELECT gpusort_array('{5,NULL,-32768,32767,NULL,0}'::int2[]);
SELECT gpusort_array('{-9223372036854775808,9223372036854775807,0,-1}'::int8[]);
SELECT gpusort_array('{NaN,-Infinity,0,-0,1.5,Infinity,-1e-45,NaN}'::float4[]);
SELECT gpusort_array('{NaN,-Infinity,-0,0,1.5,Infinity,-4.9e-324}'::float8[]);
SELECT gpusort_array('[5:7]={3,1,2}'::int[]);
-- every algorithm, at sizes around powers of two and above; an algorithm that cannot sort an array raises an error;
-- cpu_radix, cpu_merge and auto can sort all
CREATE FUNCTION try_array(a anyarray, alg text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	RETURN CASE WHEN gpusort_array(a, alg) IS NOT DISTINCT FROM (SELECT array_agg(x ORDER BY x) FROM unnest(a) x)
		THEN 'same' ELSE 'DIFFERENT' END;
EXCEPTION WHEN feature_not_supported OR invalid_parameter_value THEN
	RETURN CASE WHEN alg IN ('auto', 'cpu_radix', 'cpu_merge') THEN 'REFUSED' ELSE 'refused' END;
END $$;
SELECT r, count(*) >= 100 AS many FROM
	(SELECT n FROM (SELECT DISTINCT greatest(1, 2 ^ p + d)::int AS n
		FROM generate_series(0, 13) p, generate_series(-1, 1) d) s) s,
	(SELECT algorithm FROM gpusort_algorithms() UNION SELECT 'auto') a,
	LATERAL (VALUES
		(try_array((SELECT array_agg((mix(i) - 2147483646)::int4) FROM generate_series(1, n) i), algorithm)),
		(try_array((SELECT array_agg((mix(i) % 10)::int2) FROM generate_series(1, n) i), algorithm)),
		(try_array((SELECT array_agg((mix(i) - 2147483646) * 2147483648 + mix(i * 3)) FROM generate_series(1, n) i),
			algorithm)),
		(try_array((SELECT array_agg((mix(i) - 2147483646) / 7.0::float8) FROM generate_series(1, n) i), algorithm)))
			v (r)
GROUP BY r;
-- bad input
SELECT gpusort_array(ARRAY['b', 'a']);
SELECT gpusort_array(ARRAY[[1, 2], [3, 4]]);
\set VERBOSITY terse
SELECT gpusort_array(ARRAY[2, 1], 'bogo');
SELECT gpusort_array(ARRAY[2, 1], NULL);
\set VERBOSITY default

-- gpusort_algorithms(): the names that gpusort.algorithm takes
SELECT count(*) > 0 AS some, bool_and(algorithm = ANY (s.enumvals)) AS settable,
	bool_and(key_bits <@ '{32,64,128}') AS widths, bool_and(paper <> '') AS papers
FROM gpusort_algorithms(), (SELECT enumvals FROM pg_settings WHERE name = 'gpusort.algorithm') s;

-- gpusort_route(): exactly one algorithm is chosen, and it comes first
SELECT r, b, count(*) FILTER (WHERE chosen) AS chosen, (array_agg(chosen))[1] AS first,
	bool_and(predicted_ms IS NULL OR predicted_ms >= 0) AS times
FROM unnest('{0,1,1000,100000000}'::bigint[]) r, unnest('{1,32,64,128}'::int[]) b, gpusort_route(r, b)
GROUP BY r, b ORDER BY r, b;
SELECT gpusort_route(-1, 32);
SELECT gpusort_route(1000, 0);
SELECT gpusort_route(1000, 129);
SELECT gpusort_route(1000, 32, 0);
SELECT gpusort_route(1000, 32, input_order => 'sideways');
SELECT gpusort_route(1000, 32, threads => 0);

-- gpusort_stat counts sorts, rows, spills
SELECT gpusort_stat_reset();
CREATE TABLE stat_t AS SELECT i AS id, mix(i) AS k FROM generate_series(1, 5000) i;
ANALYZE stat_t;
SET gpusort.algorithm = 'cpu_radix';
SELECT count(*) FROM (SELECT * FROM stat_t ORDER BY k OFFSET 0) s;
SELECT count(*) FROM (SELECT * FROM stat_t WHERE id <= 100 ORDER BY k OFFSET 0) s;
SELECT sorts, rows, bytes > 0 AS bytes, spills FROM gpusort_stat WHERE algorithm = 'cpu_radix';
SET work_mem = '64kB';
SELECT count(*) FROM (SELECT * FROM stat_t ORDER BY k OFFSET 0) s;
SELECT sorts, rows, bytes > 0 AS bytes, spills FROM gpusort_stat WHERE algorithm = 'cpu_radix';
RESET work_mem;
-- times are measured for sorts that are expected to be large, and for the remaining rows of one that becomes large
SELECT timed_sorts, ingest_seconds > 0 AS ingest, sort_seconds > 0 AS sort, spill_seconds > 0 AS spill,
	predicted_seconds > 0 AS predicted, measured_seconds > 0 AS measured, measured_seconds <= sort_seconds AS part_of_it
FROM gpusort_stat WHERE algorithm = 'cpu_radix';
SELECT gpusort_stat_reset();
SELECT sum(timed_sorts), sum(ingest_seconds + sort_seconds + spill_seconds + predicted_seconds + measured_seconds)
	AS seconds FROM gpusort_stat;
SELECT count(*) FROM (SELECT * FROM stat_t WHERE id % 2 = 0 ORDER BY k OFFSET 0) s;
SELECT sorts, rows, timed_sorts, ingest_seconds > 0 AS ingest, sort_seconds > 0 AS sort, spill_seconds > 0 AS spill
FROM gpusort_stat WHERE algorithm = 'cpu_radix';
-- an algorithm that cannot run is counted as a fallback: the range of k is too wide for gpu_onehot
SET gpusort.algorithm = 'gpu_onehot';
SELECT count(*) FROM (SELECT * FROM stat_t ORDER BY k OFFSET 0) s;
SELECT sorts, fallbacks FROM gpusort_stat WHERE algorithm = 'gpu_onehot';
RESET gpusort.algorithm;

-- only superusers may reset the counters
CREATE ROLE gpusort_plain;
SET ROLE gpusort_plain;
SELECT count(*) > 0 AS readable FROM gpusort_stat;
SELECT gpusort_stat_reset();
RESET ROLE;
DROP ROLE gpusort_plain;

DROP TABLE stat_t;
DROP FUNCTION try_array;

-- gpusort_device_stat has at least one row, and counters if there is a device
SELECT count(*) > 0 AS has_rows,
	bool_and((device IS NULL) = (jobs_done IS NULL) AND (name IS NULL) = (bytes_up IS NULL)) AS complete,
	bool_and(state <> '') AS says_why FROM gpusort_device_stat;
SELECT bool_and(failures > 0 AND reason <> '') IS DISTINCT FROM false AS sound FROM gpusort_device_failures;
