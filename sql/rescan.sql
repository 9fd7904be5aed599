-- Rescans with and without changed parameters; a rescan that need not sort again.
LOAD 'gpusort';
SET gpusort.min_rows = 0;
SET jit = off;
SET max_parallel_workers_per_gather = 0;
SET enable_memoize = off;
SET enable_material = off;

CREATE TABLE outer_t AS SELECT i AS id, (mix(i) % 10)::int AS k FROM generate_series(1, 50) i;
CREATE TABLE inner_t AS SELECT i AS id, (mix(i * 3) % 10)::int AS k, mix(i * 7) AS v FROM generate_series(1, 1000) i;
ANALYZE outer_t, inner_t;

-- LATERAL: other rows each time, any number, also none
SELECT * FROM check_sort($$SELECT o.id, s.v FROM outer_t o,
	LATERAL (SELECT v FROM inner_t i WHERE i.k = o.k ORDER BY v OFFSET 1) s ORDER BY o.id, s.v$$);
SELECT * FROM check_sort($$SELECT o.id, s.a FROM outer_t o,
	LATERAL (SELECT array_agg(v) AS a FROM (SELECT v FROM inner_t i WHERE i.id < (o.id - 20) * 5 ORDER BY v DESC) x) s
	ORDER BY o.id$$);
SELECT * FROM check_sort($$SELECT o.id, s.v, s.n FROM outer_t o LEFT JOIN
	LATERAL (SELECT v, row_number() OVER (ORDER BY v) AS n FROM inner_t i
		WHERE i.k = o.k AND i.id % 50 = o.id) s ON true
	ORDER BY 1, 2$$);
-- a parameter in the sort key itself
SELECT * FROM check_sort($$SELECT o.id, s.a FROM outer_t o,
	LATERAL (SELECT array_agg(id) AS a FROM (SELECT id FROM inner_t ORDER BY (id * o.id) % 997, id) x) s
	ORDER BY o.id$$);
-- correlated subplans
SELECT * FROM check_sort($$SELECT id, ARRAY(SELECT v FROM inner_t i WHERE i.k = o.k ORDER BY v DESC) AS a
	FROM outer_t o ORDER BY id$$);
SELECT * FROM check_sort($$SELECT id, (SELECT v FROM inner_t i WHERE i.k = o.k ORDER BY v DESC OFFSET 2 LIMIT 1) AS v
	FROM outer_t o ORDER BY id$$);
-- a sort that is read in part, then started again
SELECT * FROM check_sort($$SELECT id FROM outer_t o
	WHERE EXISTS (SELECT 1 FROM (SELECT v FROM inner_t i WHERE i.k <= o.k ORDER BY v OFFSET 3) s WHERE v % 3 = 0)
		ORDER BY id$$);
-- a recursive query
SELECT * FROM check_sort($$WITH RECURSIVE r (n, a) AS (
	SELECT 1, ARRAY(SELECT v FROM inner_t WHERE k = 1 ORDER BY v)
	UNION ALL
	SELECT n + 1, ARRAY(SELECT v FROM inner_t WHERE k = r.n ORDER BY v) FROM r WHERE n < 10)
	SELECT n, a FROM r ORDER BY n$$);

-- unchanged parameters: the result is rewound and not sorted again, so its input is read once
SET enable_hashjoin = off;
SET enable_mergejoin = off;
CREATE SEQUENCE scanned;
CREATE FUNCTION seen(i bigint) RETURNS bigint LANGUAGE plpgsql VOLATILE AS
$$ BEGIN PERFORM nextval('scanned'); RETURN i; END $$;
CREATE FUNCTION scans(query text, enable boolean) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
	PERFORM setval('scanned', 1, false);
	PERFORM rows_of(query, enable);
	RETURN nextval('scanned') - 1;
END $$;
SELECT sort_nodes(q), scans(q, true) AS ours, scans(q, false) AS stock, (check_sort(q)).result
FROM (VALUES ($$SELECT o.id, s.v FROM outer_t o, (SELECT seen(v) AS v FROM inner_t ORDER BY 1 OFFSET 0) s
	WHERE s.v % 50 = o.id ORDER BY o.id, s.v$$)) u (q);
SELECT sort_nodes(q), scans(q, true) AS ours, scans(q, false) AS stock, (check_sort(q)).result
FROM (VALUES ($$SELECT id, (SELECT count(*) FROM (SELECT seen(v) AS v FROM inner_t ORDER BY 1 OFFSET 990) s
	WHERE s.v > 0) FROM outer_t ORDER BY id$$)) u (q);

-- the same past work_mem
SET work_mem = '64kB';
CREATE TABLE big_t AS SELECT i AS id, (mix(i * 3) % 10)::int AS k, mix(i * 7) AS v FROM generate_series(1, 20000) i;
ANALYZE big_t;
SELECT * FROM check_sort($$SELECT o.id, s.c, s.m FROM outer_t o,
	LATERAL (SELECT count(*) AS c, md5(string_agg(v::text, ',')) AS m
		FROM (SELECT v FROM big_t i WHERE i.k = o.k ORDER BY v) x) s
	ORDER BY o.id$$);
SELECT * FROM check_sort($$SELECT o.id, s.v FROM outer_t o, (SELECT v FROM big_t ORDER BY 1 OFFSET 0) s
	WHERE s.v % 50000 = o.id ORDER BY o.id, s.v$$);
RESET work_mem;

DROP TABLE outer_t, inner_t, big_t;
DROP FUNCTION seen, scans;
DROP SEQUENCE scanned;
