-- float4 and float8: zeros, infinities, NaNs, denormal numbers.
LOAD 'gpusort';
SET gpusort.min_rows = 0;
SET jit = off;
SET max_parallel_workers_per_gather = 0;
SET extra_float_digits = 1;

CREATE TABLE floats AS
SELECT i::int AS seq,
	((mix(i) - 2147483646) / 1024.0)::float4 AS f4,
	((mix(i) - 2147483646) * (mix(i * 13) % 1000003) / 7.0)::float8 AS f8
FROM generate_series(1, 4000) i;
INSERT INTO floats
SELECT 4000 + row_number() OVER (), v::float4, v::float8
FROM unnest('{0,-0,NaN,Infinity,-Infinity,1e-38,-1e-38,1.17549435e-38,-1.17549435e-38,3.4028235e38,-3.4028235e38,NaN,-0,
	0,1.4e-45,-1.4e-45,Infinity,-Infinity}'::text[]) v;
INSERT INTO floats (seq, f4, f8) VALUES
	(4101, NULL, NULL), (4102, 1, 1.7976931348623157e308),
	(4103, -1, -1.7976931348623157e308), (4104, 1, 4.9e-324),
	(4105, -1, -4.9e-324), (4106, 1, 2.2250738585072014e-308), (4107, NULL, NULL);
ANALYZE floats;

SELECT col, dir, c.*
FROM unnest('{f4,f8}'::text[]) col,
	unnest('{ASC,DESC,ASC NULLS FIRST,DESC NULLS LAST}'::text[]) WITH ORDINALITY AS d (dir, m),
	check_sort(format('SELECT %1$s, seq FROM floats ORDER BY %1$s %2$s, seq', col, dir)) c
ORDER BY col, m;

-- -0 equals +0 and all NaNs are equal: the next column decides
CREATE TABLE specials (seq int, f4 float4, f8 float8);
INSERT INTO specials
SELECT i, v::float4, v::float8
FROM generate_series(1, 60) i,
	LATERAL (SELECT ('{0,-0,NaN,-NaN,1,-1}'::text[])[1 + mix(i) % 6]) s (w),
	LATERAL (SELECT CASE w WHEN '-NaN' THEN '-0' ELSE w END) t (v);
SELECT * FROM check_sort('SELECT seq, f8 FROM specials ORDER BY f8, seq DESC');
SELECT * FROM check_sort('SELECT seq, f4 FROM specials ORDER BY f4 DESC, seq');
SELECT * FROM check_stable('specials', 'f8');
SELECT * FROM check_stable('specials', 'f4 DESC');
-- NaNs with other payloads and signs, as a client may send them
CREATE TABLE nans AS
SELECT i AS seq, CASE i % 3 WHEN 0 THEN 'NaN'::float8 WHEN 1 THEN -('NaN'::float8)
	ELSE 'Infinity'::float8 - 'Infinity'::float8 END AS f8 FROM generate_series(1, 30) i;
SELECT * FROM check_stable('nans', 'f8');

-- wide keys whose leading bits hardly differ
SELECT * FROM check_sort('SELECT seq, 1e300 + f8 AS k FROM floats WHERE f8 < 1e307 ORDER BY 2, 1');
SELECT * FROM check_sort('SELECT seq, 1 + seq * 1e-12 AS k FROM floats ORDER BY (1 + seq * 1e-12)::float8 DESC');

-- A float8 that does not fit is quantized linearly: the prefix tells all values of similar magnitude apart.  Leading
-- bits of the normalized key would leave pairs of equal prefixes.
CREATE TABLE quantized AS
SELECT seq, sign * (i / 2 * 29 + i % 2 / 1048576.0)::float8 AS f8,
	CASE WHEN i % 100 <> 0 THEN sign * (i / 2 * 29 + i % 2 / 1048576.0)::float8 END AS nullable,
	sign * exp(mix(i) % 1400 - 700)::float8 AS magnitudes,
	CASE i WHEN 777 THEN 'Infinity' WHEN 7777 THEN 'NaN' ELSE mix(i) / 7.0 END::float8 AS endless,
	CASE WHEN i % 20 = 0 THEN 0 ELSE mix(i) / 7.0 - 3e8 END::float8 AS zeros
FROM (SELECT g AS seq, g * 48271::int8 % 70001 AS i,
	1 - g * 48271::int8 % 70001 / 2 % 2 * 2 AS sign FROM generate_series(1, 70000) g) s;
SET work_mem = '64MB';
SELECT key, r ~ '\(prefix\)' AS prefix, coalesce(substring(r FROM '(\d+) ties'), '0') AS ties
FROM unnest('{f8,f8 DESC,nullable,nullable DESC,"seq % 3, f8"}'::text[]) key,
	sort_route(format('SELECT * FROM quantized ORDER BY %s', key)) r;
SELECT key, c.*
FROM unnest('{f8,f8 DESC,nullable,nullable DESC,nullable NULLS FIRST,magnitudes,magnitudes DESC,endless,zeros,
	zeros DESC,nullable IS NULL DESC,"seq % 3, zeros DESC, f8"}'::text[]) key,
	check_sort(format('SELECT * FROM quantized ORDER BY %s, seq', key)) c;
SET gpusort.verify = on;
SELECT key, c.* FROM unnest('{f8 DESC,nullable,zeros}'::text[]) key, check_stable('quantized', key) c;
RESET gpusort.verify;
RESET work_mem;

DROP TABLE floats, specials, nans, quantized;
