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
-- few values are sorted, for the sort drops duplicates early, but not by a comparator
SELECT who_groups('SELECT DISTINCT s FROM grouped');
SELECT who_groups('SELECT s FROM grouped GROUP BY s');
-- from 17 on each side may be sorted
SELECT replace(who_groups('SELECT s, n FROM grouped UNION SELECT s, n FROM grouped'),
	'Unique, GpuSort, GpuSort', 'GpuSort') AS nodes;
SELECT who_groups('SELECT DISTINCT to_jsonb(s) FROM grouped');
-- a remainder has at most as many values as its divisor
SET work_mem = '4MB';
SELECT who_groups('SELECT id % 100, max(n), max(s) FROM (SELECT * FROM grouped OFFSET 0) g GROUP BY 1');
SELECT who_groups('SELECT id % 100000, max(n), max(s) FROM (SELECT * FROM grouped OFFSET 0) g GROUP BY 1');
-- a sort that might exceed temp_file_limit takes no hash table's place
SET work_mem = '1MB';
SELECT who_groups('SELECT k, n FROM grouped GROUP BY k, n');
SET temp_file_limit = '4MB';
SELECT who_groups('SELECT k, n FROM grouped GROUP BY k, n');
RESET temp_file_limit;
SET work_mem = '4MB';
-- above keys in memory a GpuSort Aggregate is cheaper than a hash table for few groups, too
SELECT who_groups('SELECT id % 100, count(*) FROM grouped GROUP BY 1');
SET work_mem = '256MB';
-- few groups of text are sorted above a scan of a table in one process, and hashed above other rows
SELECT who_groups('SELECT s, count(*), sum(n) FROM grouped GROUP BY s');
SELECT who_groups('SELECT s, count(*), sum(n) FROM (SELECT * FROM grouped OFFSET 0) g GROUP BY s');
-- two numerics, which the key buffer does not hold, and 128 bits of a value take longer to sort
CREATE TABLE grouped_numbers AS SELECT (id % 10)::numeric AS a, (id % 3)::numeric AS b, id % 10 AS x,
	md5((id % 10)::text)::uuid AS u FROM grouped;
ANALYZE grouped_numbers;
SELECT who_groups('SELECT a, sum(x) FROM grouped_numbers GROUP BY a');
SELECT who_groups('SELECT a, b, sum(x) FROM grouped_numbers GROUP BY a, b');
SET work_mem = '4MB';
SELECT who_groups('SELECT x, sum(a), count(*) FROM grouped_numbers GROUP BY x');
SELECT who_groups('SELECT u, sum(a), count(*) FROM grouped_numbers GROUP BY u');
-- two columns of few values, whose sort reads the table by page
SELECT who_groups('SELECT s, k % 3, count(*) FROM grouped GROUP BY s, k % 3');
SET work_mem = '256MB';
DROP TABLE grouped_numbers;
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
-- a sorted set operation below another one: casts and flags, which the hash table would compute for that one, are
-- computed above the sort
CREATE FUNCTION nested_setop(query text, OUT sorted boolean, OUT result text) LANGUAGE sql AS $$
SELECT who_groups(query) ~ 'GpuSort', r.result
FROM check_sort('SELECT count(*), sum(hashtext(q::text)) FROM (' || query || ') q') r $$;
SELECT s.* FROM unnest(ARRAY[
	'(SELECT n, k FROM grouped UNION SELECT n, k FROM grouped_too) UNION ALL SELECT 1::float8, 2',
	'(SELECT n, k FROM grouped UNION SELECT n, k FROM grouped_too) UNION ALL SELECT 1, 2::float8',
	'(SELECT n, k FROM grouped UNION SELECT n, k FROM grouped_too) UNION ALL SELECT 1.5, -2.5',
	'(SELECT n, s FROM grouped UNION SELECT n, k::text FROM grouped_too) UNION ALL SELECT 1::int8, ''x''::varchar',
	'((SELECT n, k FROM grouped UNION SELECT n, k FROM grouped_too) UNION ALL SELECT 1::float8, 2)
		UNION ALL SELECT 1, -2.5',
	'SELECT -1::int8, 1 UNION ALL (SELECT n, k FROM grouped UNION SELECT n, k FROM grouped_too)',
	'(SELECT n, k FROM grouped UNION SELECT n, k FROM grouped_too) INTERSECT SELECT n, k FROM grouped',
	'SELECT n, k FROM grouped EXCEPT (SELECT n, k FROM grouped_few UNION SELECT n, k FROM grouped_too)',
	'(SELECT n, k FROM grouped UNION SELECT n, k FROM grouped_too) EXCEPT (SELECT n, k FROM grouped_few UNION
		SELECT id, id FROM grouped_too)']) q,
	nested_setop(q) s;
SELECT s.result FROM unnest(ARRAY[
	'(SELECT n, k FROM grouped EXCEPT SELECT n, k FROM grouped_too) UNION ALL SELECT 1::float8, 2',
	'(SELECT n, k FROM grouped INTERSECT SELECT n, k FROM grouped_too) EXCEPT SELECT n, k::float8 FROM grouped_few']) q,
	nested_setop(q) s;
DROP FUNCTION nested_setop;
-- INTERSECT and EXCEPT stay as PostgreSQL plans them
SELECT who_groups('SELECT k FROM grouped INTERSECT SELECT k FROM grouped_too');
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
-- a hash table that fits the cache stays
SELECT who_groups('SELECT count(*) FROM grouped x JOIN grouped_few y ON x.id = y.id');
SELECT who_groups('SELECT max(x.s) FROM grouped x JOIN grouped_few y ON x.k = y.k');
CREATE FUNCTION plan_cost(query text, planned text) RETURNS float8 LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	PERFORM set_config('gpusort.plan_grouping', planned, true), set_config('enable_mergejoin', 'off', true);
	EXECUTE 'EXPLAIN (FORMAT json) ' || query INTO plan;
	PERFORM set_config('gpusort.plan_grouping', 'on', true), set_config('enable_mergejoin', 'on', true);
	RETURN plan->0->'Plan'->>'Total Cost';
END $$;
SELECT bool_and(plan_cost(query, 'on') <= plan_cost(query, 'off')) AS no_plan_costs_more
	FROM (VALUES ('SELECT max(x.s) FROM grouped x JOIN grouped_few y ON x.k = y.k'),
	('SELECT count(*) FROM grouped x JOIN grouped y ON x.k = y.k'), ('SELECT DISTINCT k FROM grouped'),
	('SELECT s, count(*), sum(n) FROM grouped GROUP BY s'), ('SELECT x FROM grouped GROUP BY x LIMIT 1000'),
	('SELECT x.s || y.s FROM grouped x JOIN grouped y ON x.s = y.s AND x.n = y.n'),
	('SELECT count(*) FROM grouped x WHERE x.s IN (SELECT y.s FROM grouped y)'),
	('SELECT k, n, count(*) FROM grouped GROUP BY ROLLUP (k, n)'),
	('SELECT k FROM grouped UNION SELECT k FROM grouped_too'),
	('SELECT s, rank() OVER (ORDER BY k) FROM grouped')) queries (query);
-- The cost of a sort whose rows are their keys counts memory as the sort does: 24 bytes for an int4, 60 for int4 and
-- int8.  165,000 and 65,000 of them fit 4 MB, so twice the memory changes nothing; 180,000 and 75,000 do not.  Hash
-- tables have 64 MB in both cases.
CREATE TABLE apart AS SELECT i::int4 AS k, mix(i) AS l FROM generate_series(1, 180000) i ORDER BY mix(i);
ANALYZE apart;
CREATE FUNCTION cost_with(query text, mem text) RETURNS float8 LANGUAGE plpgsql AS $$
BEGIN
	PERFORM set_config('work_mem', mem, true);
	PERFORM set_config('hash_mem_multiplier', (64 / rtrim(mem, 'MB')::int)::text, true);
	RETURN plan_cost(query, 'on');
END $$;
SELECT columns, n, cost_with(query, '4MB') = cost_with(query, '8MB') AS fits
FROM (VALUES ('k', 165000), ('k', 180000), ('k, l', 65000), ('k, l', 75000)) v (columns, n),
	format('SELECT DISTINCT %s FROM apart WHERE k <= %s', columns, n) query;
DROP FUNCTION cost_with;
DROP TABLE apart;
DROP FUNCTION plan_cost;
-- groups above a merge join use its order
SELECT who_groups('SELECT k, count(*) FROM grouped x JOIN grouped_too y USING (k) GROUP BY k');

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
SET gpusort.plan_grouping = on;
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
SET gpusort.plan_grouping = on;
SELECT result FROM check_sort('SELECT id, rank() OVER (ORDER BY k) FROM grouped ORDER BY 1');
SELECT result FROM check_sort('SELECT id, rank() OVER (PARTITION BY s ORDER BY k), sum(id) OVER (PARTITION BY n)
	FROM grouped ORDER BY 1');
RESET random_page_cost;

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

-- a table's rows in the order of an index, which is not the table's: they are sorted, unless few are wanted
BEGIN;
SET LOCAL max_parallel_workers_per_gather = 0;
SET LOCAL work_mem = '1MB';
CREATE TABLE apart (n int, k int, v numeric) PARTITION BY LIST (k);
CREATE TABLE apart_1 PARTITION OF apart FOR VALUES IN (0, 1, 2, 3);
CREATE TABLE apart_2 PARTITION OF apart FOR VALUES IN (4, 5, 6);
INSERT INTO apart
	SELECT mix(i) % 9000, mix(i * 3) % 7, (i % 1000)::numeric / 8 FROM generate_series(1, 60000) i;
CREATE TABLE random AS SELECT *, repeat('-', 50) AS pad FROM apart ORDER BY mix(n * 7 + k);
CREATE INDEX ON apart (n);
CREATE INDEX ON random (n);
ANALYZE apart, random;
SELECT format(q, t), who_groups(format(q, t)), result FROM unnest(ARRAY['random', 'apart']) t, unnest(ARRAY[
	'SELECT n, count(DISTINCT k) FROM %s GROUP BY n',
	'SELECT n, k, sum(v) FROM %s GROUP BY n, k HAVING count(*) > 1',
	'SELECT n, array_agg(v ORDER BY v) FROM %s GROUP BY n',
	'SELECT n, v, rank() OVER (PARTITION BY n ORDER BY v) FROM %s',
	'SELECT n, v, sum(v) OVER (PARTITION BY n), rank() OVER (ORDER BY v) FROM %s',
	'SELECT n, dense_rank() OVER (ORDER BY n DESC) FROM %s WHERE v > 3']) q,
	check_sort(format(q, t) || ' ORDER BY 1, 2');
SELECT format(q, t), who_groups(format(q, t)), result FROM unnest(ARRAY['random', 'apart']) t, unnest(ARRAY[
	'SELECT DISTINCT n, k FROM %s ORDER BY n, k',
	'SELECT DISTINCT ON (n) n, k, v FROM %s ORDER BY n, k, v',
	'SELECT DISTINCT ON (n) n, v FROM %s WHERE k < 5 ORDER BY n, v DESC']) q, check_sort(format(q, t));
SELECT q, sort_nodes(q), result FROM unnest(ARRAY['SELECT n, n / 2 AS half FROM random ORDER BY n',
	'SELECT n, k, v FROM random ORDER BY n, k DESC, v']) q, check_sort(q);
-- queries whose first rows alone may be read keep the index scan
SELECT q, sort_nodes(q) FROM unnest(ARRAY[
	'WITH x AS MATERIALIZED (SELECT n, k, v FROM random ORDER BY n, k DESC, v) SELECT sum(n) FROM x',
	'WITH x AS MATERIALIZED (SELECT n, k, v FROM random ORDER BY n, k DESC, v) SELECT * FROM x LIMIT 9',
	'WITH x AS MATERIALIZED (SELECT n, k, v FROM random ORDER BY n, k DESC, v) SELECT EXISTS (SELECT FROM x
		WHERE v > 3)',
	'WITH x AS MATERIALIZED (SELECT DISTINCT ON (n) n, k FROM random ORDER BY n) SELECT count(*) FROM
		(SELECT * FROM x LIMIT 9) y',
	'SELECT * FROM (SELECT n, k, v FROM random ORDER BY n, k DESC, v OFFSET 0) x, LATERAL (SELECT 1 WHERE v > 0) y
		LIMIT 9',
	'DECLARE c CURSOR FOR SELECT * FROM (SELECT DISTINCT ON (n) n, k FROM random ORDER BY n) x
		JOIN grouped_few y USING (k)']) q;
SET LOCAL max_parallel_workers_per_gather = 2;
SET LOCAL parallel_setup_cost = 10;
SELECT q, who_groups(q), result FROM unnest(ARRAY['SELECT n, k, v FROM random ORDER BY n, k DESC, v',
	'SELECT DISTINCT ON (n) n, v FROM random ORDER BY n, v']) q, check_sort(q);
SET LOCAL max_parallel_workers_per_gather = 0;
SET LOCAL random_page_cost = 1.1;
SELECT q, who_groups(q) FROM unnest(ARRAY['SELECT n, rank() OVER (PARTITION BY n ORDER BY v) FROM random LIMIT 5',
	'SELECT * FROM (SELECT n, row_number() OVER (ORDER BY n) AS r FROM apart) x WHERE r < 9',
	'SELECT * FROM (SELECT n, row_number() OVER (PARTITION BY n) AS r FROM apart) x WHERE r < 9',
	'SELECT * FROM (SELECT n, array_agg(v) FROM apart GROUP BY n OFFSET 0) x LIMIT 9']) q;
ROLLBACK;

-- operators without cost: all costs are numbers, and the genetic optimizer finds a plan
CREATE FUNCTION costs_are_numbers(query text) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
	line text;
	wrong bool := false;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN ' || query LOOP
		wrong := wrong OR line ~* 'cost=\S*(nan|inf)';
	END LOOP;
	RETURN NOT wrong;
END $$;
SET cpu_operator_cost = 0;
SET parallel_setup_cost = 0;
SET enable_gathermerge = off;
SET enable_nestloop = off;
SET geqo_threshold = 2;
SELECT costs_are_numbers('SELECT * FROM grouped ORDER BY n, k');
SELECT result FROM check_sort('SELECT x.id, y.s FROM (SELECT * FROM grouped ORDER BY n, k OFFSET 0) x
	JOIN grouped_few y USING (k) ORDER BY 1');
RESET enable_gathermerge;
RESET geqo_threshold;
RESET enable_nestloop;
RESET cpu_operator_cost;
DROP FUNCTION costs_are_numbers;

DROP TABLE grouped, grouped_too, grouped_few;
DROP FUNCTION who_groups;
