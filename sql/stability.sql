-- Rows with equal keys keep their input order, in every mode.
LOAD 'gpusort';
SET gpusort.min_rows = 0;
SET jit = off;
SET max_parallel_workers_per_gather = 0;

CREATE TABLE ties AS
SELECT i::int AS seq,
	(mix(i) % 2)::int AS two,
	(mix(i) % 1000)::int AS thousand,
	0 AS zero,
	CASE WHEN i % 3 = 0 THEN NULL ELSE (mix(i) % 4)::int8 END AS n,
	CASE mix(i * 3) % 3 WHEN 0 THEN '-0' WHEN 1 THEN '0' ELSE 'NaN' END::float8 AS f,
	mix(i * 5) % 2 * 4611686018427387904 AS wide,
	repeat('x', (mix(i) % 40)::int) AS payload
FROM generate_series(1, 20000) i;
ANALYZE ties;

SELECT keys, c.*
FROM unnest(ARRAY['two', 'two DESC', 'thousand', 'thousand DESC', 'zero', 'zero DESC',
	'n', 'n DESC', 'n NULLS FIRST', 'f', 'f DESC', 'wide, two',
	'wide, wide DESC, two', 'wide, wide + 1, wide + 2, two DESC']) WITH ORDINALITY AS k (keys, n),
	check_stable('ties', keys) c
ORDER BY n;

-- small inputs have their own kernels: every size around powers of two
SELECT c.nodes, c.result, count(*)
FROM (SELECT DISTINCT greatest(0, 2 ^ p + d)::int AS n
	  FROM generate_series(0, 12) p, generate_series(-1, 1) d) s,
	check_stable(format('(SELECT * FROM ties LIMIT %s) t', n), 'two, n DESC') c
GROUP BY c.nodes, c.result ORDER BY 1, 2;

-- ascending, descending and nearly sorted input
SELECT * FROM check_stable('(SELECT seq, seq / 10 AS k FROM ties) t', 'k');
SELECT * FROM check_stable('(SELECT seq, -seq / 10 AS k FROM ties) t', 'k');
SELECT * FROM check_stable('(SELECT seq, seq / 10 AS k FROM ties) t', 'k DESC');
SELECT * FROM check_stable('(SELECT seq, CASE WHEN seq % 1000 = 0 THEN 0 ELSE seq / 10 END AS k FROM ties) t', 'k');

-- past work_mem
SET work_mem = '64kB';
SELECT keys, c.*
FROM unnest(ARRAY['two', 'thousand DESC', 'zero', 'n', 'f', 'wide, wide + 1, wide + 2, two DESC'])
	WITH ORDINALITY AS k (keys, n),
	check_stable('ties', keys) c
ORDER BY n;
RESET work_mem;

DROP TABLE ties;
