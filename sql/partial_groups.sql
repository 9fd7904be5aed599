-- GROUP BY in two steps: partial groups in the workers, combined in the leader
LOAD 'gpusort';
SET gpusort.plan_grouping = on;
SET gpusort.plan_grouping_min_rows = 0;
SET max_parallel_workers_per_gather = 2;
SET min_parallel_table_scan_size = 0;
-- PostgreSQL reads no rows from workers then, although it costs much to read the table
SET parallel_tuple_cost = 100;
SET parallel_setup_cost = 0;
SET cpu_tuple_cost = 0.1;
SET jit = off;
CREATE TABLE parts AS SELECT i AS id, (mix(i) % 1500)::int8 AS v,
	CASE WHEN i % 3 > 0 THEN 1 ELSE (mix(i * 7) % 5000)::int END AS skew, 'group ' || mix(i * 3) % 700 AS s,
	CASE WHEN i % 7 > 0 THEN (mix(i * 5) % 900)::int END AS n,
	(i % 1000)::numeric / 8 AS d, (mix(i * 11) % 100000)::float8 AS f, 'epoch'::timestamp + i * interval '1 s' AS ts
	FROM generate_series(1, 60000) i;
CREATE TABLE parts_empty (v int8, n int);
ANALYZE parts, parts_empty;
-- The nodes that group and sort, from the top, and what each GpuSort Aggregate does.
CREATE FUNCTION who_combines(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	line text;
	nodes text[] := '{}';
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
		nodes := nodes || coalesce((regexp_match(line, 'Custom Scan \((.*)\)'))[1],
			(regexp_match(line, 'Partial Mode: .*'))[1], (regexp_match(line, '(?:\w+ )?\w+Aggregate'))[1]);
	END LOOP;
	RETURN array_to_string(array_remove(nodes, NULL), ', ');
END $$;
SELECT who_combines('SELECT v, count(*), sum(n), max(ts) FROM parts GROUP BY v');

-- each kind of transition, in place and by functions, with states that are serialized, strict functions and NULLs
CREATE AGGREGATE strict_least(int) (sfunc = int4smaller, stype = int, combinefunc = int4smaller, parallel = safe);
CREATE FUNCTION add_if(int8, int) RETURNS int8 IMMUTABLE PARALLEL SAFE LANGUAGE sql AS 'SELECT $1 + coalesce($2, 1000)';
CREATE AGGREGATE not_strict(int) (sfunc = add_if, stype = int8, initcond = '0', combinefunc = int8pl, parallel = safe);
SELECT t.key, r.result FROM unnest(ARRAY['v', 'skew', 's', 'n', 's COLLATE "C"', 'n, v % 3', 'd', 'f, s'])
	AS k(key), LATERAL (SELECT k.key, format(
	'SELECT %s, count(*), count(n), sum(n), sum(id), sum(v), avg(n), avg(v), avg(d), '
	'min(n), max(n), min(v), max(ts), min(d), max(s), min(f), sum(f), avg(f), stddev(n), var_pop(d), bool_or(n > 5), '
	'strict_least(n), not_strict(n), sum(n) FILTER (WHERE v > 100), count(*) FILTER (WHERE n IS NULL) '
	'FROM parts GROUP BY %1$s ORDER BY %1$s', k.key) AS query) t, LATERAL check_sort(t.query) r;
-- HAVING, expressions of aggregates, groups that all fail
SELECT result FROM check_sort('SELECT v, sum(n) * 2 + count(*) FROM parts GROUP BY v
	HAVING count(*) > 20 AND max(n) > 5 ORDER BY v');
SELECT * FROM check_sort('SELECT v, sum(n), max(ts) FROM parts GROUP BY v HAVING count(*) < 0 ORDER BY v');
SELECT * FROM check_sort('SELECT v, count(*) FROM parts_empty GROUP BY v ORDER BY v');
-- the order of the groups serves ORDER BY and DISTINCT; LIMIT
SELECT who_combines('SELECT v, count(n), max(ts) FROM parts GROUP BY v ORDER BY v'), result
	FROM check_sort('SELECT v, count(n), max(ts) FROM parts GROUP BY v ORDER BY v LIMIT 17 OFFSET 5');
SELECT result FROM check_sort('SELECT v, count(*) FROM parts GROUP BY v ORDER BY v DESC');
-- joins below, and a subquery that is scanned again for each outer row
SELECT result FROM check_sort('SELECT a.v, count(*), sum(b.n) FROM parts a JOIN parts b USING (id)
	GROUP BY a.v ORDER BY a.v');
SELECT result FROM check_sort('SELECT o.i, q.c, q.m FROM generate_series(1, 3) o(i),
	LATERAL (SELECT count(*) AS c, max(g.v) AS m
		FROM (SELECT v, count(*) AS n FROM parts WHERE n % 3 = o.i % 3 GROUP BY v OFFSET 0) g) q ORDER BY 1');
-- a parallel sort below windows, which the leader computes, and below an aggregate that workers may not run
SELECT who_combines(q), result FROM unnest(ARRAY[
	'SELECT id, rank() OVER (PARTITION BY v ORDER BY n), count(*) OVER (PARTITION BY v) FROM parts',
	'SELECT id, row_number() OVER (ORDER BY s, id), sum(n) OVER (PARTITION BY v ORDER BY id) FROM parts',
	'SELECT * FROM (SELECT v, id, rank() OVER (PARTITION BY v ORDER BY ts) AS r FROM parts) q WHERE r < 3',
	'SELECT v, count(DISTINCT n) FROM parts GROUP BY v']) q, LATERAL check_sort(q || ' ORDER BY 1, 2') r;
-- aggregates that sort: a parallel sort below them, if one order of columns serves all.  From 16 on PostgreSQL counts
-- the cost of the sort, so that more sorts of numbers stay serial.
SELECT who_combines(q) FROM unnest(ARRAY['SELECT string_agg(s, '','' ORDER BY s), count(DISTINCT s) FROM parts']) q;
SELECT result FROM unnest(ARRAY[
	'SELECT count(DISTINCT n), count(*), sum(id) FROM parts',
	'SELECT percentile_cont(0.3) WITHIN GROUP (ORDER BY f), sum(DISTINCT f), mode() WITHIN GROUP (ORDER BY f)
		FROM parts',
	'SELECT md5(string_agg(s, '','' ORDER BY s)), count(DISTINCT s) FROM parts WHERE n < 700 HAVING count(*) > 2',
	'SELECT max(n), count(DISTINCT n) FROM parts WHERE f > 5']) q, LATERAL check_sort(q || ' ORDER BY 1') r;
SELECT who_combines(q) ~ 'Feed' AS parallel, result FROM unnest(ARRAY[
	'SELECT count(DISTINCT s) FROM parts WHERE n < 0',
	'SELECT count(DISTINCT n % 7) FROM parts',
	'SELECT count(DISTINCT n), count(DISTINCT v) FROM parts',
	'SELECT count(DISTINCT n) FILTER (WHERE v > 5) FROM parts',
	'SELECT count(DISTINCT n), sum(f) > 0 FROM parts']) q, LATERAL check_sort(q || ' ORDER BY 1') r;
-- keys that workers may not compute, or that equal another column; a plan whose exchange does not pay
CREATE TABLE parts_few AS SELECT i FROM generate_series(1, 3) i;
SELECT result FROM unnest(ARRAY[
	'SELECT v % 5, count(DISTINCT (n + pg_backend_pid()) % 1000) FROM parts GROUP BY 1',
	'SELECT v % 5, md5(string_agg(s, '','' ORDER BY s || pg_backend_pid())) FROM parts WHERE id < 9000 GROUP BY 1',
	'SELECT v, count(DISTINCT (SELECT max(i) FROM parts_few WHERE i < n)) FROM parts WHERE v < 30 GROUP BY v',
	'SELECT id, rank() OVER (PARTITION BY v ORDER BY n + pg_backend_pid()) FROM parts',
	'SELECT sum(p.n), count(DISTINCT o.n) FROM parts p JOIN parts o ON p.n = o.n AND o.id < 3000'])
	q, LATERAL check_sort(q || ' ORDER BY 1, 2') r;
SET parallel_setup_cost = 1;
SET max_parallel_workers_per_gather = 4;
CREATE TABLE parts_wide WITH (parallel_workers = 4) AS
	SELECT (i::int8 * 7919 % 9000)::int AS n, repeat('x', 400) AS pad FROM generate_series(1, 40000) i;
ANALYZE parts_wide;
SELECT who_combines(q), result
	FROM unnest(ARRAY['SELECT count(DISTINCT n) FROM parts_wide']) q, LATERAL check_sort(q || ' ORDER BY 1') r;
DROP TABLE parts_few, parts_wide;
SET max_parallel_workers_per_gather = 2;
-- few groups of the workers, for which an exchange does not pay, are not sorted again
SELECT who_combines(q), result FROM unnest(ARRAY['SELECT d, count(*) FROM parts GROUP BY d']) q,
	LATERAL check_sort(q || ' ORDER BY 1') r;
SET parallel_setup_cost = 0;
-- sorts that write runs
SET work_mem = '64kB';
SELECT result FROM check_sort('SELECT v, s, count(*), sum(n), avg(d) FROM parts GROUP BY v, s ORDER BY v, s');
RESET work_mem;
-- what the workers cannot do: aggregates that sort, or are not safe, or have no combine function
CREATE AGGREGATE no_combine(int) (sfunc = int4larger, stype = int, parallel = safe);
CREATE AGGREGATE unsafe_most(int) (sfunc = int4larger, stype = int, combinefunc = int4larger);
SELECT a AS aggregate, who_combines(format('SELECT v, %s FROM parts GROUP BY v', a)) ~ 'Partial' AS partial, result
	FROM unnest(ARRAY['count(DISTINCT n)', 'no_combine(n)', 'unsafe_most(n)']) a,
	LATERAL check_sort(format('SELECT v, %s FROM parts GROUP BY v ORDER BY v', a));
-- an error in the leader or a worker
\set SHOW_CONTEXT never
SELECT max(s) FROM (SELECT v, sum(10 / (id - 59998)) AS s FROM parts GROUP BY v OFFSET 0) q;
-- few rows a group: partial groups would not be fewer than rows
SELECT who_combines('SELECT id, count(*) FROM parts GROUP BY id') ~ 'Partial' AS partial;
-- PostgreSQL's plan of this kind has our nodes, too
SET gpusort.plan_grouping = off;
SET parallel_tuple_cost = 0;
SET enable_hashagg = off;
SELECT who_combines('SELECT v, count(*), sum(n) FROM parts GROUP BY v');
SELECT result FROM check_sort('SELECT v, count(*), sum(n), avg(d) FROM parts GROUP BY v ORDER BY v');
SET gpusort.aggregates = off;
SELECT who_combines('SELECT v, count(*), sum(n) FROM parts GROUP BY v') ~ 'GpuSort Aggregate' AS node;
SET gpusort.plan_grouping = on;
SET parallel_tuple_cost = 100;
RESET enable_hashagg;
SELECT who_combines('SELECT v, count(*), sum(n) FROM parts GROUP BY v');
SELECT result FROM check_sort('SELECT v, count(*), sum(n), avg(d) FROM parts GROUP BY v ORDER BY v');
-- sorted partial groups and a parallel DISTINCT, in place of PostgreSQL's hash table in each worker; not for few groups
-- of numerics
RESET gpusort.aggregates;
RESET parallel_tuple_cost;
RESET cpu_tuple_cost;
SELECT q, who_combines(q), result FROM unnest(ARRAY['SELECT n, count(*), sum(v) FROM parts GROUP BY n',
	'SELECT n, sum(d) FROM parts GROUP BY n', 'SELECT DISTINCT n FROM parts']) q,
	LATERAL check_sort(q || ' ORDER BY 1') r;
-- rows of texts and numerics are sorted where the hash tables exceed the CPU's caches
SET parallel_tuple_cost = 0.05;
CREATE TABLE parts_many AS SELECT 'group ' || mix(i) % 12000 AS s, mix(i) % 20 || ' few' AS few,
	'group ' || mix(i) % 24000 AS many, (mix(i * 7) % 24000)::int AS number, (mix(i * 11) % 60000)::int AS rare,
	i % 70 AS k, (i % 1000)::numeric / 8 AS d FROM generate_series(1, 200000) i;
ANALYZE parts_many;
SELECT q, who_combines(q), result FROM unnest(ARRAY['SELECT s, count(*), sum(d), max(k) FROM parts_many GROUP BY s',
	'SELECT few, count(*), sum(d) FROM parts_many GROUP BY few']) q,
	LATERAL check_sort(q || ' ORDER BY 1') r;
-- the leader groups where workers would serialize the transition values of many groups of few rows, also if a second
-- column may be the reason that groups have few rows; not if there is nothing to serialize, or if groups have many rows
-- or may have them, because an expression has no statistics.  Then all processes combine the workers' groups, if those
-- are many.
SET parallel_tuple_cost = 0.01;
SELECT q, who_combines(q), result FROM unnest(ARRAY['SELECT rare, sum(d) FROM parts_many GROUP BY rare',
	'SELECT rare, avg(d), count(*) FROM parts_many GROUP BY rare HAVING count(*) > 4',
	'SELECT number, avg(d), count(*) FROM parts_many GROUP BY number HAVING count(*) > 8',
	'SELECT number, max(k) FROM parts_many GROUP BY number', 'SELECT k, sum(d) FROM parts_many GROUP BY k',
	'SELECT length(many), sum(d) FROM parts_many GROUP BY length(many)',
	'SELECT number, few, sum(d) FROM parts_many GROUP BY number, few']) q,
	LATERAL check_sort(q || ' ORDER BY 1, 2') r;
SET parallel_tuple_cost = 0.05;
-- few groups are sorted where no values of varying length are aggregated, and the sorts stay in memory, also of a
-- process that has more rows than the others
SELECT who_combines('SELECT few, count(*), sum(k) FROM parts_many GROUP BY few');
SET work_mem = '64MB';
SELECT q, who_combines(q), result FROM unnest(ARRAY['SELECT few, count(*), sum(k) FROM parts_many GROUP BY few',
	'SELECT few, sum(d) FROM parts_many GROUP BY few', 'SELECT few, max(few) FROM parts_many GROUP BY few']) q,
	LATERAL check_sort(q || ' ORDER BY 1') r;
RESET work_mem;
SET max_parallel_workers_per_gather = 0;
-- groups by several columns, of which there may be many more than one column has values
SELECT who_combines(q), result FROM unnest(ARRAY['SELECT k, number % 1000, d, count(*), sum(d::float8), max(s),
	min(many) FROM parts_many GROUP BY 1, 2, 3']) q, LATERAL check_sort(q || ' ORDER BY 1, 2, 3') r;
-- other rows than those of a scan: random reads of a hash table beyond the caches
SET work_mem = '256MB';
SELECT q, who_combines(q) FROM unnest(ARRAY['SELECT many, sum(k), sum(d) FROM (SELECT * FROM parts_many OFFSET 0) x
	GROUP BY many']) q;
RESET work_mem;
SET max_parallel_workers_per_gather = 2;
DROP TABLE parts_many;
SET gpusort.plan_grouping = off;
SELECT who_combines(q) FROM unnest(ARRAY['SELECT n, count(*), sum(v) FROM parts GROUP BY n']) q;
