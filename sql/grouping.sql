-- DISTINCT, GROUP BY, set operations and joins: sorted or hashed, by the cost of GpuSort
LOAD 'gpusort';
SET max_parallel_workers_per_gather = 0;
SET jit = off;
SET work_mem = '256MB';
CREATE TABLE grouped AS SELECT i AS id, mix(i) AS k, 'group ' || mix(i * 3) % 1000 AS s,
	CASE WHEN i % 7 > 0 THEN (mix(i * 5) % 50000)::int END AS n, (i % 10)::text::xid AS x
	FROM generate_series(1, 100000) i;
CREATE TABLE grouped_too AS SELECT i * 2 AS id, mix(i * 2) AS k, (mix(i * 11) % 50000)::int AS n
	FROM generate_series(1, 60000) i;
CREATE TABLE grouped_few AS SELECT id, k, s, n FROM grouped WHERE id <= 2000;
ANALYZE grouped, grouped_too, grouped_few;
-- The nodes that group, join, sort and gather, from the top.
CREATE FUNCTION who_groups(query text) RETURNS text LANGUAGE sql AS $$
SELECT plan_nodes(query, '(Partial |Finalize )?(Hash|Group|Mixed)Aggregate|HashSetOp|SetOp|Unique$|Group$|'
	'Parallel Hash Join|Hash (\w+ )?Join|Merge (\w+ )*Join|Gather Merge|Gather|Incremental Sort|Sort$|'
	'GpuSort( Feed| Aggregate| Join)?(?=\))') $$;

-- many groups are sorted, few groups of rows that exceed work_mem are hashed
SELECT who_groups('SELECT DISTINCT k FROM grouped');
SELECT who_groups('SELECT k, count(*), sum(n) FROM grouped GROUP BY k');
SELECT who_groups('SELECT k, n FROM grouped GROUP BY k, n');
SET work_mem = '4MB';
SELECT who_groups('SELECT s, count(*), sum(n), max(k), min(id) FROM grouped GROUP BY s');
-- without aggregates the sort drops duplicates before memory is full; a comparator takes longer than a hash table
SELECT who_groups('SELECT DISTINCT s FROM grouped');
SELECT who_groups('SELECT s FROM grouped GROUP BY s');
-- from 17 on each side may be sorted
SELECT replace(who_groups('SELECT s FROM grouped UNION SELECT s FROM grouped'), 'Unique, GpuSort, GpuSort', 'GpuSort')
	AS nodes;
SELECT who_groups('SELECT DISTINCT to_jsonb(s) FROM grouped');
-- a remainder has at most as many values as its divisor
SET work_mem = '4MB';
SELECT who_groups('SELECT id % 100, max(n), max(s) FROM grouped GROUP BY 1');
SELECT who_groups('SELECT id % 100000, max(n), max(s) FROM grouped GROUP BY 1');
-- above keys in memory a GpuSort Aggregate is cheaper than a hash table for few groups, too
SELECT who_groups('SELECT id % 100, count(*) FROM grouped GROUP BY 1');
SET work_mem = '256MB';
-- above rows in memory, few groups of text are sorted, too
SELECT who_groups('SELECT s, count(*), sum(n) FROM grouped GROUP BY s');
-- the sort for grouping also gives the order of the result
SELECT who_groups('SELECT k, count(*) FROM grouped GROUP BY k ORDER BY k');
SELECT who_groups('SELECT k, n, count(*) FROM grouped GROUP BY n, k ORDER BY k DESC, n');
SELECT who_groups('SELECT DISTINCT k, n FROM grouped ORDER BY n, k LIMIT 10');
-- set operations
SELECT who_groups('SELECT k FROM grouped UNION SELECT k FROM grouped_too');
SELECT result FROM check_sort('SELECT k FROM grouped UNION SELECT k FROM grouped_too ORDER BY 1');
SELECT result FROM check_sort('SELECT n FROM grouped INTERSECT SELECT n FROM grouped_too ORDER BY 1');
SELECT result FROM check_sort('SELECT n FROM grouped INTERSECT ALL SELECT n FROM grouped_too ORDER BY 1');
SELECT result FROM check_sort('SELECT n, k FROM grouped EXCEPT SELECT n, k FROM grouped_too ORDER BY 1, 2');
SELECT result FROM check_sort('SELECT n FROM grouped EXCEPT ALL SELECT n FROM grouped_too ORDER BY 1');
-- INTERSECT and EXCEPT above our sorts: of all rows up to 17, of each side from 18 on
SELECT replace(who_groups('SELECT k FROM grouped INTERSECT SELECT k FROM grouped_too'), 'GpuSort, GpuSort', 'GpuSort');
SELECT replace(who_groups('SELECT k FROM grouped EXCEPT ALL SELECT k FROM grouped_too'), 'GpuSort, GpuSort', 'GpuSort');
-- PostgreSQL estimates as many values as rows, but a remainder has few
SELECT who_groups('SELECT k % 10 FROM grouped INTERSECT SELECT k % 10 FROM grouped_too');
SELECT who_groups('SELECT s FROM grouped INTERSECT SELECT s FROM grouped_few');
-- joins
SELECT who_groups('SELECT count(*) FROM grouped x JOIN grouped y USING (k)');
SELECT who_groups('SELECT count(*) FROM grouped x LEFT JOIN grouped_too y USING (k, n)');
SELECT result FROM check_sort('SELECT x.id, y.id AS other FROM grouped x JOIN grouped_too y USING (n) WHERE n < 900
	ORDER BY 1, 2');
SELECT result FROM check_sort('SELECT x.id, y.id AS other FROM grouped x LEFT JOIN grouped_too y
	ON x.n = y.n AND y.id < 5000 ORDER BY 1, 2');
SELECT result FROM check_sort('SELECT x.id, y.id AS other FROM grouped x FULL JOIN grouped_too y USING (k)
	ORDER BY 1, 2');
SELECT result FROM check_sort('SELECT x.id, y.id AS other FROM grouped x RIGHT JOIN grouped_too y
	ON x.k = y.k AND x.id % 2 = 1 ORDER BY 1, 2');
SELECT result FROM check_sort('SELECT id FROM grouped x
	WHERE EXISTS (SELECT 1 FROM grouped_too y WHERE y.n = x.n)
	ORDER BY 1');
SELECT result FROM check_sort('SELECT id FROM grouped x
	WHERE NOT EXISTS (SELECT 1 FROM grouped_too y WHERE y.k = x.k)
	ORDER BY 1');
SELECT result FROM check_sort('SELECT id FROM grouped WHERE k IN (SELECT k FROM grouped_too WHERE n > 9) ORDER BY 1');
-- a merge join ends with the last row of the smaller side, so it reads a part of the larger one; a join whose hash
-- table fits the cache keeps the cost that PostgreSQL gives it
SELECT who_groups('SELECT count(*) FROM grouped x JOIN grouped_few y ON x.id = y.id');
SELECT who_groups('SELECT max(x.s) FROM grouped x JOIN grouped_few y ON x.k = y.k');
CREATE FUNCTION join_cost(query text, planned text) RETURNS float8 LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	PERFORM set_config('gpusort.plan_grouping', planned, true), set_config('enable_mergejoin', 'off', true);
	EXECUTE 'EXPLAIN (FORMAT json) ' || query INTO plan;
	PERFORM set_config('gpusort.plan_grouping', 'on', true), set_config('enable_mergejoin', 'on', true);
	RETURN plan->0->'Plan'->>'Total Cost';
END $$;
SELECT join_cost(query, 'on') = join_cost(query, 'off') AS postgres_cost
	FROM (VALUES ('SELECT max(x.s) FROM grouped x JOIN grouped_few y ON x.k = y.k'),
	('SELECT count(*) FROM grouped x JOIN grouped y ON x.k = y.k')) queries (query);
DROP FUNCTION join_cost;
-- groups above a merge join use its order
SELECT who_groups('SELECT k, count(*) FROM grouped x JOIN grouped_too y USING (k) GROUP BY k');

-- neither the order of the tables nor GEQO changes the cost of a plan: the largest cost divided by the least
CREATE FUNCTION join_costs(tail text, OUT plans bigint, OUT ratio numeric) LANGUAGE plpgsql AS $$
DECLARE
	names text[] := '{grouped x, grouped_too y, grouped z}';
	costs numeric[] := '{}';
	plan json;
	a text;
	b text;
	c text;
	threshold text;
BEGIN
	FOREACH a IN ARRAY names LOOP FOREACH b IN ARRAY names LOOP FOREACH c IN ARRAY names LOOP
		CONTINUE WHEN a = b OR b = c OR a = c;
		FOREACH threshold IN ARRAY ARRAY['12', '2'] LOOP
			PERFORM set_config('geqo_threshold', threshold, false);
			EXECUTE format('EXPLAIN (FORMAT JSON) SELECT count(*) FROM %s, %s, %s %s', a, b, c, tail) INTO plan;
			costs := costs || (plan->0->'Plan'->>'Total Cost')::numeric;
		END LOOP;
	END LOOP; END LOOP; END LOOP;
	RESET geqo_threshold;
	SELECT count(*), round(max(cost) / min(cost), 2) INTO plans, ratio FROM unnest(costs) cost;
END $$;
SELECT * FROM join_costs('WHERE x.k = y.k AND x.id = z.id');
SELECT * FROM join_costs('WHERE x.k = y.k AND x.id = z.id AND y.id <= 20000');
DROP FUNCTION join_costs;

-- grouping sets: leading columns of one order are sorted, other sets are hashed or sorted by the aggregate
SELECT who_groups('SELECT k, count(*) FROM grouped GROUP BY ROLLUP (k)');
SELECT who_groups('SELECT k, n, count(*) FROM grouped GROUP BY ROLLUP (n, k)');
SELECT who_groups('SELECT k, n, count(*) FROM grouped GROUP BY CUBE (n, k)');
SELECT who_groups('SELECT s, k, count(*) FROM grouped GROUP BY ROLLUP (1, 2)');
SELECT result FROM check_sort('SELECT n, k, count(*), grouping(n, k) FROM grouped GROUP BY ROLLUP (n, k)
	ORDER BY 1, 2, 4');
SELECT result FROM check_sort('SELECT n, k, s, count(*), sum(id), grouping(n, k, s) FROM grouped
	GROUP BY CUBE (n, k, s) HAVING count(*) > 1 ORDER BY 1, 2, 3, 6');
SELECT result FROM check_sort('SELECT k, n, min(id) FROM grouped GROUP BY GROUPING SETS ((n, k), (k), (k), (), ())
	ORDER BY 1, 2, 3');
SELECT result FROM check_sort('SELECT n, k, x::text, count(*) FROM grouped
	GROUP BY GROUPING SETS ((n, k), (n), (x, n)) ORDER BY 1, 2, 3');
SET work_mem = '64kB';
SELECT result FROM check_sort('SELECT n, k, count(*), grouping(n, k) FROM grouped GROUP BY CUBE (n, k)
	ORDER BY 1, 2, 4');
SET work_mem = '256MB';
-- the same rows as the stock server
SELECT result FROM check_sort('SELECT DISTINCT n FROM grouped ORDER BY n');
SELECT result FROM check_sort('SELECT DISTINCT ON (n) n, id FROM grouped ORDER BY n, id DESC');
SELECT result FROM check_sort('SELECT n, count(*), min(id), sum(k) FROM grouped GROUP BY n ORDER BY n');
SELECT result FROM check_sort('SELECT n, count(DISTINCT s), array_agg(id ORDER BY id) FROM grouped GROUP BY n
	HAVING count(*) > 2 ORDER BY n');
SELECT result FROM check_sort('SELECT n, s, count(*) FROM grouped GROUP BY GROUPING SETS ((n), (s), ())
	ORDER BY 1, 2, 3');
SELECT result FROM check_sort('SELECT DISTINCT s COLLATE "C" AS s, n % 3 AS m FROM grouped ORDER BY 1, 2');
SELECT count(*) > 90000 AS volatile FROM (SELECT DISTINCT random() FROM grouped) r;

-- a type without ordering operators is hashed, a type without a hash function is sorted
SELECT who_groups('SELECT x, count(*) FROM grouped GROUP BY x');
SELECT who_groups('SELECT k, x, count(*) FROM grouped GROUP BY k, x');
SELECT who_groups('SELECT DISTINCT (''a'' || k)::tsvector FROM grouped');
-- few rows, and plans that settings forbid
SELECT who_groups('SELECT DISTINCT k FROM grouped_few');
SELECT who_groups('SELECT count(*) FROM grouped_few x JOIN grouped_few y USING (k)');
SET gpusort.plan_grouping_min_rows = 0;
SELECT who_groups('SELECT DISTINCT k FROM grouped_few');
SET gpusort.plan_grouping_min_rows = 1000000;
SELECT who_groups('SELECT DISTINCT k FROM grouped');
RESET gpusort.plan_grouping_min_rows;
SET gpusort.plan_grouping = off;
SELECT who_groups('SELECT DISTINCT k FROM grouped');
SELECT who_groups('SELECT k, count(*) FROM grouped GROUP BY k');
SELECT who_groups('SELECT count(*) FROM grouped x JOIN grouped y USING (k)');
SELECT who_groups('SELECT k FROM grouped UNION SELECT k FROM grouped_too');
RESET gpusort.plan_grouping;
SET gpusort.enable = off;
SELECT who_groups('SELECT DISTINCT k FROM grouped');
SELECT who_groups('SELECT count(*) FROM grouped x JOIN grouped y USING (k)');
RESET gpusort.enable;
SET enable_sort = off;
SELECT who_groups('SELECT DISTINCT k FROM grouped');
SELECT who_groups('SELECT count(*) FROM grouped x JOIN grouped y USING (k)');
RESET enable_sort;
SET enable_mergejoin = off;
SELECT who_groups('SELECT count(*) FROM grouped x JOIN grouped y USING (k)');
RESET enable_mergejoin;
-- an index in order needs no sort
CREATE INDEX ON grouped (k);
SET enable_seqscan = off;
SET random_page_cost = 0.01;
SET seq_page_cost = 0.01;
VACUUM grouped;
SELECT who_groups('SELECT DISTINCT k FROM grouped');
RESET enable_seqscan;
RESET seq_page_cost;
-- windows: our sort, where its cost is less than that of an index whose rows lie apart
SET random_page_cost = 1.2;
SELECT who_groups('SELECT s, rank() OVER (ORDER BY k) FROM grouped');
SELECT who_groups('SELECT s, rank() OVER (ORDER BY k), sum(n) OVER (PARTITION BY s) FROM grouped');
SET gpusort.plan_grouping = off;
SELECT who_groups('SELECT s, rank() OVER (ORDER BY k) FROM grouped');
RESET gpusort.plan_grouping;
SELECT result FROM check_sort('SELECT id, rank() OVER (ORDER BY k) FROM grouped ORDER BY 1');
SELECT result FROM check_sort('SELECT id, rank() OVER (PARTITION BY s ORDER BY k), sum(id) OVER (PARTITION BY n)
	FROM grouped ORDER BY 1');
RESET random_page_cost;

-- JIT compilation is decided by PostgreSQL's costs, not by the raised costs of hash tables.  Without LLVM no plan is
-- compiled, and both checks hold in any case.
CREATE FUNCTION cost_and_jit(query text, OUT cost float8, OUT jit boolean) LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (FORMAT json) ' || query INTO plan;
	cost := plan->0->'Plan'->>'Total Cost';
	jit := plan->0->'JIT' IS NOT NULL;
END $$;
CREATE FUNCTION check_jit(query text, OUT raised boolean, OUT spared boolean, OUT compiled_alike boolean)
LANGUAGE plpgsql AS $$
DECLARE
	stock float8;
	ours float8;
	alike boolean;
BEGIN
	PERFORM set_config('jit', 'off', true), set_config('gpusort.plan_grouping', 'off', true);
	stock := (cost_and_jit(query)).cost;
	PERFORM set_config('gpusort.plan_grouping', 'on', true);
	ours := (cost_and_jit(query)).cost;
	raised := ours > stock * 1.05;
	PERFORM set_config('jit', 'on', true), set_config('jit_above_cost', ((stock + ours) / 2)::text, true);
	spared := NOT (cost_and_jit(query)).jit;
	PERFORM set_config('jit_above_cost', (stock * 0.99)::text, true), set_config('gpusort.plan_grouping', 'off', true);
	alike := (cost_and_jit(query)).jit;
	PERFORM set_config('gpusort.plan_grouping', 'on', true);
	compiled_alike := (cost_and_jit(query)).jit = alike;
	PERFORM set_config('jit', 'off', true);
END $$;
-- so little memory that these rows are not sorted
SET work_mem = '2MB';
SELECT * FROM check_jit('SELECT s, count(*), sum(n) FROM grouped GROUP BY s');
SELECT * FROM check_jit('SELECT upper(s), count(*) + 1 FROM grouped GROUP BY s');
SET work_mem = '256MB';
SELECT * FROM check_jit('SELECT x FROM grouped GROUP BY x LIMIT 1000');
SELECT * FROM check_jit('SELECT x FROM grouped UNION ALL SELECT DISTINCT x FROM grouped');
SET enable_mergejoin = off;
SELECT * FROM check_jit('SELECT x.s || y.s FROM grouped x JOIN grouped y ON x.s = y.s AND x.n = y.n');
SELECT * FROM check_jit('SELECT count(*) FROM grouped x JOIN grouped y ON x.s = y.s AND x.n = y.n');
-- a hash table that makes a subquery's rows unique for a semijoin
SELECT * FROM check_jit('SELECT count(*) FROM grouped x WHERE x.s IN (SELECT y.s FROM grouped y)');
RESET enable_mergejoin;
SELECT * FROM check_jit('SELECT (SELECT count(*) FROM grouped_few) FROM (SELECT x FROM grouped GROUP BY x) x');
DROP FUNCTION check_jit, cost_and_jit;

-- parallel plans: few groups are hashed by each worker, many groups are sorted by all workers
SET max_parallel_workers_per_gather = 2;
SET min_parallel_table_scan_size = 0;
SET parallel_setup_cost = 1;
SET parallel_tuple_cost = 0;
SET parallel_leader_participation = off;
SET work_mem = '2MB';
SELECT who_groups('SELECT s, count(*), sum(n), max(k), min(id) FROM grouped GROUP BY s')
	~ 'Gather.*Partial HashAggregate' AS few;
SET work_mem = '256MB';
SET parallel_setup_cost = 0;
SELECT who_groups('SELECT k, count(*), sum(n) FROM grouped GROUP BY k') ~ 'Gather' AS many;
SELECT result FROM check_sort('SELECT n, count(*), sum(id) FROM grouped GROUP BY n ORDER BY n');
SELECT who_groups('SELECT n, rank() OVER (ORDER BY n) FROM grouped');
SELECT result FROM check_sort('SELECT n, rank() OVER (ORDER BY n) FROM grouped');
SET parallel_setup_cost = 1;
SELECT result FROM check_sort('SELECT DISTINCT n, s FROM grouped ORDER BY n, s');
SELECT result FROM check_sort('SELECT k, min(n) FROM grouped GROUP BY k ORDER BY k');
SELECT result FROM check_sort('SELECT count(*), sum(x.id + y.id) FROM grouped x JOIN grouped_too y USING (k)');
SELECT result FROM check_sort('SELECT n FROM grouped UNION SELECT n FROM grouped_too ORDER BY 1');
SET work_mem = '64kB';
SELECT result FROM check_sort('SELECT n, count(*), sum(id) FROM grouped GROUP BY n ORDER BY n');
SELECT result FROM check_sort('SELECT count(*), sum(x.id + y.id) FROM grouped x JOIN grouped_too y USING (n)');

-- a merge join below a Gather: each participant sorts its share of the outer side
SET work_mem = '256MB';
SET parallel_leader_participation = on;
SET enable_hashjoin = off;
SET enable_nestloop = off;
SET max_parallel_workers_per_gather = 2;
SET parallel_setup_cost = 0;
SELECT result FROM check_sort('SELECT x.id, y.id AS other FROM grouped x JOIN grouped_few y USING (k) ORDER BY 1, 2');
SELECT result FROM check_sort('SELECT x.id, y.id AS other FROM grouped x LEFT JOIN grouped_few y ON x.n = y.n
	AND y.id < 500 ORDER BY 1, 2');
SELECT result FROM check_sort('SELECT id FROM grouped x WHERE NOT EXISTS (SELECT 1 FROM grouped_few y WHERE y.k = x.k)
	ORDER BY 1');
RESET enable_hashjoin;
RESET enable_nestloop;

DROP TABLE grouped, grouped_too, grouped_few;
DROP FUNCTION who_groups;
