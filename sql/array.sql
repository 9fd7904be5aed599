-- gpusort_array(): sorts an array with each kernel

-- every algorithm and element type gives the order of the stock Sort
CREATE FUNCTION array_check(algorithm text, n int, modulus bigint)
RETURNS TABLE (type text, ok bool) LANGUAGE plpgsql AS $$
DECLARE
	v bigint[];
BEGIN
	SELECT array_agg((hashint8extended(i, 7) & 9223372036854775807) % modulus
					 - modulus / 2 ORDER BY i)
	  INTO v FROM generate_series(1, n) i;
	type := 'int8';
	ok := gpusort_array(v, algorithm) = (SELECT array_agg(e ORDER BY e) FROM unnest(v) e);
	RETURN NEXT;
	type := 'float8';
	ok := gpusort_array(v::float8[], algorithm) =
		(SELECT array_agg(e::float8 ORDER BY e) FROM unnest(v) e);
	RETURN NEXT;
	IF modulus > 4294967296 THEN
		RETURN;
	END IF;
	type := 'int4';
	ok := gpusort_array(v::int4[], algorithm) =
		(SELECT array_agg(e::int4 ORDER BY e) FROM unnest(v) e);
	RETURN NEXT;
	type := 'float4';
	ok := gpusort_array(v::float4[], algorithm) =
		(SELECT array_agg(e::float4 ORDER BY e::float4) FROM unnest(v) e);
	RETURN NEXT;
	IF modulus > 65536 THEN
		RETURN;
	END IF;
	type := 'int2';
	ok := gpusort_array(v::int2[], algorithm) =
		(SELECT array_agg(e::int2 ORDER BY e) FROM unnest(v) e);
	RETURN NEXT;
END $$;

SELECT a.algorithm, n, modulus, string_agg(type, ' ' ORDER BY type) AS sorted
  FROM (VALUES ('auto'), ('cpu_radix'), ('cpu_merge')) a (algorithm),
	   (VALUES (2), (17), (1000), (20000)) s (n),
	   (VALUES (10), (65536), (4294967296), (4611686018427387904)) m (modulus),
	   array_check(a.algorithm, n, modulus) c
 WHERE c.ok
 GROUP BY 1, 2, 3 ORDER BY 1, 2, 3;
-- counting needs a small range; integers that differ by less than a value's width count as one range
SELECT gpusort_array(v, 'cpu_counting') = s AS int4,
	   gpusort_array(v::int2[], 'cpu_counting') = s::int2[] AS int2,
	   gpusort_array(v::int8[], 'cpu_counting') = s::int8[] AS int8
  FROM (SELECT array_agg(i * 7919 % 1009 - 500 ORDER BY i) v,
			   array_agg(i * 7919 % 1009 - 500 ORDER BY i * 7919 % 1009) s
		  FROM generate_series(1, 20000) i) t;

-- the default is auto; names are not case-sensitive
SELECT gpusort_array(ARRAY[3, 1, 2]), gpusort_array(ARRAY[3, 1, 2], 'AUTO'),
	   gpusort_array(ARRAY[3, 1, 2], 'Cpu_Radix');

-- extremes
SELECT gpusort_array(ARRAY[0, 32767, -1, -32768, 1]::int2[]);
SELECT gpusort_array(ARRAY[0, 2147483647, -1, -2147483648, 1]);
SELECT gpusort_array(ARRAY[0, 9223372036854775807, -1, -9223372036854775808, 1]);
SELECT gpusort_array(ARRAY['Infinity', 'NaN', 0, '-Infinity', 1.5, 'NaN', -1.5]::float4[]);
SELECT gpusort_array(ARRAY['Infinity', 'NaN', 0, '-Infinity', 5e-324, -5e-324, 'NaN',
						   1.7976931348623157e308, -1.7976931348623157e308]::float8[]);

-- both zeros are equal: each keeps its sign and its position among equals
SELECT gpusort_array(ARRAY[1, '-0', 0, '-0', -1]::float8[], a)
  FROM unnest(ARRAY['auto', 'cpu_radix', 'cpu_merge']) a;
SELECT gpusort_array(ARRAY[0, '-0', 0, '-0']::float4[]);

-- NULL elements come last, as in ORDER BY
SELECT gpusort_array(ARRAY[3, NULL, 1, NULL, 2]);
SELECT gpusort_array(ARRAY[NULL, NULL]::int8[]);
SELECT gpusort_array(ARRAY[NULL, 1.5]::float8[], 'cpu_merge');
SELECT gpusort_array(v) = (SELECT array_agg(e ORDER BY e) FROM unnest(v) e) AS ok,
	   array_position(gpusort_array(v), NULL) AS first_null
  FROM (SELECT array_agg(CASE WHEN i % 7 <> 0 THEN (i * 7919) % 1009 END ORDER BY i) v
		  FROM generate_series(1, 1000) i) t;

-- small and special arrays
SELECT gpusort_array('{}'::int[]), gpusort_array('{}'::float8[], 'cpu_merge'),
	   gpusort_array(ARRAY[7]), gpusort_array(ARRAY[5, 5, 5]);
SELECT gpusort_array('[0:2]={3,1,2}'::int[]);
SELECT gpusort_array(NULL::int[]) IS NULL AS null_array,
	   gpusort_array(ARRAY[2, 1], NULL) IS NULL AS null_algorithm;
SELECT gpusort_array('3 1 2'::int2vector);

-- an array of a domain keeps its type
CREATE DOMAIN positive AS int CHECK (VALUE > 0);
SELECT gpusort_array(ARRAY[3, 1, 2]::positive[]) AS v, pg_typeof(gpusort_array(ARRAY[3, 1]::positive[]));

-- presorted inputs, with every algorithm that accepts them
SELECT a.algorithm, gpusort_array(v, a.algorithm) = s AS ascending
  FROM (SELECT array_agg(i ORDER BY i) s, array_agg(i ORDER BY i) v FROM generate_series(1, 5000) i) t,
	   gpusort_algorithms() a
 WHERE a.runs_on = 'cpu'
 ORDER BY 1;
-- without a GPU (t/gpu/routing.pl has one)
SET gpusort.device = off;
SELECT gpusort_array(ARRAY[2, 1], 'gpu_radix');
RESET gpusort.device;
SELECT gpusort_array(r) = s AS reversed, gpusort_array(f) = f AS flat, gpusort_array(e) = s AS nearly
  FROM (SELECT array_agg(i ORDER BY i) s, array_agg(i ORDER BY i DESC) r,
			   array_agg(1) f, array_agg(i ORDER BY i / 4, -i) e
		  FROM generate_series(1, 5000) i) t;

-- errors
SELECT gpusort_array(ARRAY[2, 1], 'quicksort');
SELECT gpusort_array(ARRAY[[2, 1], [4, 3]]);
SELECT gpusort_array(ARRAY['b', 'a']);
SELECT gpusort_array(ARRAY[2.5, 1.5]::numeric[]);
SELECT gpusort_array(ARRAY[0, 9223372036854775807, -9223372036854775808], 'cpu_counting');

DROP FUNCTION array_check;
DROP DOMAIN positive;
