-- GpuSort Aggregate: which aggregates it computes, and that it returns the same rows.
LOAD 'gpusort';
SET gpusort.min_rows = 0;
SET jit = off;
SET max_parallel_workers_per_gather = 0;
SET enable_hashagg = off;

CREATE TABLE agg AS SELECT i AS id, CASE WHEN mix(i) % 7 > 0 THEN (mix(i * 3) % 50)::int - 20 END AS k,
	CASE WHEN mix(i * 5) % 9 > 0 THEN 'name ' || mix(i * 7) % 30 END AS t, (mix(i * 11) % 30 / 4.0)::float8 AS f,
	(mix(i * 13) % 20)::numeric / 10 AS n, make_interval(mins => (mix(i * 17) % 100)::int) AS iv,
	(mix(i * 19) % 6)::int AS g, (mix(i * 23) % 1000)::int2 AS s, mix(i * 29) % 100000 - 50000 AS b,
	DATE '2020-01-01' + (mix(i * 31) % 100)::int AS d, (mix(i * 37) % 30)::float4 AS r,
	(chr(97 + (mix(i * 41) % 3)::int) || repeat(' ', (mix(i * 43) % 3)::int))::bpchar AS c
FROM generate_series(1, 2000) i;
INSERT INTO agg (id, k, f, r, g) VALUES (2001, NULL, 'NaN', 'NaN', 9), (2002, 1, '-0', '-0', 9),
	(2003, NULL, '0', '0', 9), (2004, NULL, 'Infinity', '-Infinity', NULL), (2005, NULL, NULL, NULL, 10);
ANALYZE agg;

CREATE FUNCTION check_aggregate(query text, OUT nodes text, OUT "rows" int, OUT result text) LANGUAGE sql AS $$
SELECT * FROM check_sort(query, 'gpusort.aggregates') $$;

-- EXPLAIN
EXPLAIN (COSTS OFF) SELECT g, percentile_cont(0.5) WITHIN GROUP (ORDER BY k), count(*) FROM agg
GROUP BY g HAVING count(*) > 1;
EXPLAIN (COSTS OFF) SELECT count(DISTINCT t) FROM agg;
EXPLAIN (COSTS OFF) SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY k + 1 DESC) FROM agg;
EXPLAIN (COSTS OFF, VERBOSE) SELECT g + 1, sum(k) FROM agg GROUP BY g;
CREATE FUNCTION aggregate_plan(query text) RETURNS TABLE (key text, value jsonb) LANGUAGE plpgsql AS $$
DECLARE
	plan jsonb;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, FORMAT JSON) ' || query INTO plan;
	RETURN QUERY SELECT * FROM jsonb_each(plan->0->'Plan') p
	WHERE p.key IN ('Custom Plan Provider', 'Group Key', 'Aggregates', 'Filter', 'Rows Removed by Filter') ORDER BY 1;
END $$;
SELECT * FROM aggregate_plan('SELECT g, count(*) FROM agg GROUP BY g HAVING count(*) > 3');
-- a place is read without the rows before it
CREATE FUNCTION sort_returns(query text) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
	plan jsonb;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, FORMAT JSON) ' || query INTO plan;
	RETURN jsonb_path_query_first(plan, '$.** ? (@."Custom Plan Provider" == "GpuSort")."Actual Rows"')::numeric;
END $$;
SELECT sort_returns('SELECT percentile_disc(0.9) WITHIN GROUP (ORDER BY id) FROM agg');
SELECT sort_returns('SELECT percentile_disc(0.9) WITHIN GROUP (ORDER BY t) FROM agg WHERE t IS NOT NULL');

CREATE TABLE query (n int GENERATED ALWAYS AS IDENTITY, q text);
-- ordered sets
INSERT INTO query (q) VALUES
	('SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY k) FROM agg'),
	('SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY k), percentile_cont(ARRAY[0, 0.25, NULL, 1]) WITHIN GROUP
		(ORDER BY k), mode() WITHIN GROUP (ORDER BY k), count(*), count(k) FROM agg'),
	('SELECT percentile_cont(0.3) WITHIN GROUP (ORDER BY f DESC), percentile_disc(0.3) WITHIN GROUP (ORDER BY f DESC)
		FROM agg'),
	('SELECT percentile_cont(0.3) WITHIN GROUP (ORDER BY k DESC), percentile_disc(0.3) WITHIN GROUP (ORDER BY
		k::float8 DESC) FROM agg'),
	('SELECT percentile_cont(0.37) WITHIN GROUP (ORDER BY iv), percentile_cont(ARRAY[0.1, 0.9]) WITHIN GROUP
		(ORDER BY iv) FROM agg'),
	('SELECT percentile_disc(ARRAY[[0.1, 0.2], [NULL, 0.4]]) WITHIN GROUP (ORDER BY t), mode() WITHIN GROUP (ORDER BY t)
		FROM agg'),
	('SELECT percentile_disc(''{}''::float8[]) WITHIN GROUP (ORDER BY t) FROM agg'),
	('SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY n) FROM agg'),
	('SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY s), max(s) FROM agg'),
	('SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY b), avg(b) FROM agg'),
	('SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY r), min(r), max(f) FROM agg'),
	('SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY d), percentile_disc(1) WITHIN GROUP (ORDER BY d) FROM agg'),
	('SELECT percentile_disc(NULL::float8) WITHIN GROUP (ORDER BY k), percentile_cont(NULL::float8[]) WITHIN GROUP
		(ORDER BY k) FROM agg'),
	('SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY upper(t)) FROM agg'),
	('SELECT g, percentile_cont(0.23) WITHIN GROUP (ORDER BY k), count(DISTINCT k), mode() WITHIN GROUP (ORDER BY k),
		sum(s), avg(s), avg(k), min(d), max(b) FROM agg GROUP BY g ORDER BY g'),
	('SELECT g, percentile_cont(0.5) WITHIN GROUP (ORDER BY s) FROM agg GROUP BY g HAVING
		percentile_cont(0.5) WITHIN GROUP (ORDER BY s) > 520 ORDER BY g'),
	('SELECT t, percentile_disc(0.5) WITHIN GROUP (ORDER BY k::int8) FROM agg GROUP BY t ORDER BY t'),
	('SELECT t, percentile_disc(ARRAY[0.5, 1]) WITHIN GROUP (ORDER BY t), mode() WITHIN GROUP (ORDER BY t) FROM agg
		GROUP BY t ORDER BY t'),
	('SELECT g, percentile_cont(g / 10.0) WITHIN GROUP (ORDER BY k) FROM agg WHERE g < 9 GROUP BY g ORDER BY g'),
	('SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY k), count(DISTINCT k), mode() WITHIN GROUP (ORDER BY k)
		FROM agg WHERE id < 0'),
	('SELECT g, percentile_cont(0.5) WITHIN GROUP (ORDER BY k) FROM agg WHERE id < 0 GROUP BY g'),
	('SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY k) FROM agg WHERE id > 2002');
-- DISTINCT and ORDER BY in calls
INSERT INTO query (q) VALUES
	('SELECT count(DISTINCT k), sum(DISTINCT k), count(*) FROM agg'),
	('SELECT count(DISTINCT t), max(t), count(t) FROM agg'),
	('SELECT count(DISTINCT f), min(f) FROM agg'),
	('SELECT count(DISTINCT c) FROM agg'),
	('SELECT count(DISTINCT n), max(n) FROM agg'),
	('SELECT count(DISTINCT k % 7) FROM agg'),
	('SELECT count(DISTINCT (g, t)) FROM agg'),
	('SELECT g, array_agg(DISTINCT t), string_agg(DISTINCT t, '','') FROM agg GROUP BY g ORDER BY g'),
	('SELECT array_agg(id ORDER BY f, id) FROM agg'),
	('SELECT g, array_agg(id ORDER BY t DESC, id) FROM agg GROUP BY g ORDER BY g'),
	('SELECT count(DISTINCT k) FILTER (WHERE id % 3 = 0), count(DISTINCT k) FROM agg'),
	('SELECT g, count(DISTINCT k) FILTER (WHERE id % 3 = 0), count(DISTINCT k), sum(DISTINCT k) FILTER (WHERE id > 50)
		FROM agg GROUP BY g ORDER BY g'),
	('SELECT array_agg(DISTINCT k ORDER BY k DESC) FROM agg');
-- sorted groups
INSERT INTO query (q) VALUES
	('SELECT g, sum(f), avg(f), stddev(f), array_agg(id), string_agg(t, ''-''), max(n), sum(n), sum(b), min(f), max(f),
		sum(k) FILTER (WHERE k > 0), count(k), bool_and(k > 0), min(t), max(s), min(s), max(d), min(d), max(k), min(b)
		FROM agg GROUP BY g ORDER BY g'),
	('SELECT t, k, count(*), sum(k + id), avg(k), avg(s), avg(b), avg(n) FROM agg GROUP BY t, k ORDER BY t, k'),
	('SELECT k, count(*), min(k + 1) FROM agg GROUP BY k HAVING count(*) > 35 ORDER BY k'),
	('SELECT f, count(*), count(f) FROM agg GROUP BY f ORDER BY f'),
	('SELECT n, sum(r), max(r), min(r) FROM agg GROUP BY n ORDER BY n'),
	('SELECT c, corr(f, k), regr_slope(f, k), json_agg(id) FROM agg WHERE g < 9 GROUP BY c ORDER BY c'),
	('SELECT id, count(*), sum(k), min(t) FROM agg GROUP BY id ORDER BY id'),
	('SELECT upper(t), k + 1, count(*) FROM agg GROUP BY upper(t), k + 1 ORDER BY 1, 2'),
	('SELECT b % 10, g, sum(x) FROM (SELECT b, g, max(k) AS x FROM agg GROUP BY b, g) a GROUP BY 1, 2 ORDER BY 1, 2');
CREATE FUNCTION check_aggregates(first int, last int, OUT n int, OUT nodes text, OUT "rows" int, OUT result text)
RETURNS SETOF record LANGUAGE sql AS $$
SELECT q.n, c.* FROM query q, check_aggregate(q.q) c WHERE q.n BETWEEN first AND last ORDER BY n $$;
SELECT * FROM check_aggregates(1, 99);
-- an aggregate that sorts by a constant, which stands in the target list, too, or takes the place of an unused column
SELECT c.result FROM unnest(ARRAY[
	'SELECT 7::int8, max(id), percentile_disc(0.5) WITHIN GROUP (ORDER BY 7::int8) FROM agg',
	'SELECT 7::int8, max(id), percentile_disc(0.5) WITHIN GROUP (ORDER BY 7::int8) FROM agg WHERE id < 0',
	'SELECT g, 7, mode() WITHIN GROUP (ORDER BY 7) FROM agg GROUP BY g ORDER BY g',
	'SELECT c1, c3 FROM (SELECT max(id) AS c1, mode() WITHIN GROUP (ORDER BY k) AS c2,
		percentile_disc(0) WITHIN GROUP (ORDER BY NULL::int) AS c3 FROM agg) q',
	'SELECT (SELECT 0.5::float8), percentile_cont(0.5) WITHIN GROUP (ORDER BY (SELECT 0.5::float8)) FROM agg']) q,
	check_aggregate(q) c;
-- an aggregate that takes rows in any order lets the sort carry its columns as keys, without rows
CREATE FUNCTION sort_keys(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	plan jsonb;
BEGIN
	EXECUTE 'EXPLAIN (COSTS OFF, FORMAT JSON) ' || query INTO plan;
	-- 19 sorts the inner side of a semijoin once where others sort it twice
	RETURN (SELECT jsonb_agg(DISTINCT keys) FROM jsonb_path_query(plan,
		'strict $.** ? (@."Custom Plan Provider" == "GpuSort")."Sort Key"') keys);
END $$;
CREATE TABLE carried (n int GENERATED ALWAYS AS IDENTITY, q text);
INSERT INTO carried (q) VALUES
	('SELECT g, sum(k), count(k), avg(k), min(k), max(k), count(*) FROM agg GROUP BY g ORDER BY g'),
	('SELECT k, sum(b), max(b), avg(b), sum(b) FILTER (WHERE b > 0) FROM agg GROUP BY k ORDER BY k'),
	('SELECT d, g, sum(k) FROM agg GROUP BY d, g ORDER BY d DESC, g NULLS FIRST'),
	('SELECT id % 10, bool_and(k > 3), sum(s) FROM agg GROUP BY id % 10 ORDER BY 1'),
	('SELECT g, count(DISTINCT k), max(s) FROM agg GROUP BY g ORDER BY g'),
	('SELECT percentile_disc(ARRAY[0.2, 0.7]) WITHIN GROUP (ORDER BY k), sum(g) FROM agg'),
	('SELECT sum(DISTINCT k), count(*), min(b) FROM agg'),
	('SELECT g, sum(c) FROM (SELECT g, k AS c FROM agg ORDER BY g OFFSET 0) a GROUP BY g ORDER BY g'),
	('SELECT a.g, sum(a.k), max(b.s) FROM agg a JOIN agg b ON a.id = b.id GROUP BY a.g ORDER BY a.g'),
	('SELECT count(*), sum(a.k), max(b.s) FROM agg a LEFT JOIN (SELECT * FROM agg WHERE id < 900) b ON a.id = b.k'),
	('SELECT count(*), sum(a.k) FROM agg a WHERE EXISTS (SELECT FROM agg b WHERE b.k = a.g)'),
	-- too wide, values that keys do not have, or results that depend on the order
	('SELECT b, sum(k), max(d), max(s) FROM agg GROUP BY b ORDER BY b'),
	('SELECT g, max(t), sum(k) FROM agg GROUP BY g ORDER BY g'),
	('SELECT g, max(f) FROM agg GROUP BY g ORDER BY g'),
	('SELECT g, array_agg(k) FROM agg GROUP BY g ORDER BY g'),
	('SELECT g, array_agg(s ORDER BY s), max(d) FROM agg GROUP BY g ORDER BY g'),
	('SELECT g, sum(k), count(*) FILTER (WHERE random() < 2) FROM agg GROUP BY g ORDER BY g'),
	('SELECT sum(k) FROM (SELECT g, k FROM agg ORDER BY g LIMIT 200) a'),
	('SELECT sum(k) FROM (SELECT DISTINCT ON (g) g, k FROM agg ORDER BY g) a'),
	('SELECT sum(r * k) FROM (SELECT k, row_number() OVER (ORDER BY g) AS r FROM agg) a'),
	('SELECT g, k FROM agg ORDER BY g');
SET enable_hashjoin = off;
SELECT n, sort_keys(q), c.nodes, c.rows, c.result FROM carried, check_aggregate(q) c ORDER BY n;
SET work_mem = '64kB';
SELECT n, c.nodes, c.rows, c.result FROM carried, check_aggregate(q) c WHERE c.result <> 'same' ORDER BY n;
RESET work_mem;
RESET enable_hashjoin;
DROP TABLE carried;
DROP FUNCTION sort_keys;
-- runs on disk; the values of a group exceed work_mem
SET work_mem = '64kB';
SELECT * FROM check_aggregates(1, 99) WHERE nodes !~ '^GpuSort Aggregate' OR result <> 'same';
CREATE TABLE longer AS SELECT a.id, i, a.k, a.t || i AS t, a.f, a.iv, 1 AS g FROM agg a, generate_series(1, 20) i;
ANALYZE longer;
SELECT c.* FROM unnest(ARRAY[
	'SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY k) FROM longer',
	'SELECT percentile_cont(ARRAY[0.1, 0.5, 0.9]) WITHIN GROUP (ORDER BY f), mode() WITHIN GROUP (ORDER BY f)
		FROM longer',
	'SELECT g, percentile_disc(ARRAY[0.9, 0.1, 0.5]) WITHIN GROUP (ORDER BY t), mode() WITHIN GROUP (ORDER BY t)
		FROM longer GROUP BY g',
	'SELECT id % 3, percentile_cont(0.5) WITHIN GROUP (ORDER BY k), mode() WITHIN GROUP (ORDER BY k) FROM longer
		GROUP BY 1 ORDER BY 1',
	'SELECT g, percentile_cont(0.7) WITHIN GROUP (ORDER BY iv) FROM longer GROUP BY g',
	'SELECT count(DISTINCT t), count(*) FROM longer']) q, check_aggregate(q) c;
DROP TABLE longer;
RESET work_mem;

-- different values that a cast makes equal: the same place in the order, but another mode
CREATE TABLE casts AS SELECT 9007199254740992 + i % 10 / 3 AS v, i % 3 AS g, (i % 10)::float4 AS r
	FROM generate_series(1, 900) i;
INSERT INTO casts SELECT 5, g, 5 FROM generate_series(0, 2) g, generate_series(1, 150);
ANALYZE casts;
SELECT mode() WITHIN GROUP (ORDER BY v) AS v, mode() WITHIN GROUP (ORDER BY v::float8) AS f FROM casts;
SELECT c.* FROM unnest(ARRAY['SELECT mode() WITHIN GROUP (ORDER BY v::float8) FROM casts',
	'SELECT mode() WITHIN GROUP (ORDER BY v::float8 DESC) FROM casts',
	'SELECT mode() WITHIN GROUP (ORDER BY v::float8), percentile_cont(0.5) WITHIN GROUP (ORDER BY v) FROM casts',
	'SELECT g, mode() WITHIN GROUP (ORDER BY v::float8), max(v) FROM casts GROUP BY g ORDER BY g',
	'SELECT g, count(DISTINCT v::float8), sum(DISTINCT v::float8) FROM casts GROUP BY g ORDER BY g',
	'SELECT mode() WITHIN GROUP (ORDER BY r::float8), percentile_cont(0.5) WITHIN GROUP (ORDER BY r) FROM casts'
	]) q, check_aggregate(q) c;
DROP TABLE casts;

-- an expression that may fail is not computed for groups that are not read
CREATE TABLE late AS SELECT i / 100 AS g, CASE WHEN i < 800 THEN i % 3 + 1 ELSE i % 3 END AS x
	FROM generate_series(1, 1000) i;
ANALYZE late;
SELECT g, percentile_disc(0.5) WITHIN GROUP (ORDER BY 10 / x) FROM late GROUP BY g ORDER BY g LIMIT 1;
SELECT g, mode() WITHIN GROUP (ORDER BY CASE WHEN g < 8 THEN x ELSE 10 / x END) FROM late GROUP BY g ORDER BY g LIMIT 1;
SELECT g, percentile_disc(0.5) WITHIN GROUP (ORDER BY 10 / x) FROM late GROUP BY g ORDER BY g;
SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY 10 / x) FROM late;
SELECT c.* FROM unnest(ARRAY['SELECT g, percentile_disc(0.5) WITHIN GROUP (ORDER BY x::int8) FROM late GROUP BY g
	ORDER BY g', 'SELECT g, mode() WITHIN GROUP (ORDER BY x = 1) FROM late GROUP BY g ORDER BY g',
	'SELECT g, percentile_disc(0.5) WITHIN GROUP (ORDER BY x % 2) FROM late GROUP BY g ORDER BY g',
	'SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY x % 2) FROM late']) q, check_aggregate(q) c;
DROP TABLE late;

-- errors
SELECT percentile_cont(1.5) WITHIN GROUP (ORDER BY k) FROM agg;
SELECT percentile_disc(ARRAY[0.5, -1]) WITHIN GROUP (ORDER BY t) FROM agg;
SELECT percentile_disc('NaN'::float8) WITHIN GROUP (ORDER BY t) FROM agg WHERE false;
-- the rows' own errors come first
SELECT percentile_cont(2) WITHIN GROUP (ORDER BY k), sum(1 / (id - 2002)) FROM agg;
SELECT percentile_cont(ARRAY[0, 2]) WITHIN GROUP (ORDER BY k), sum(1 / (id - 2002)) FROM agg;
SELECT percentile_disc(1 / abs(x)) WITHIN GROUP (ORDER BY k) FROM agg, (SELECT 0.0 AS x OFFSET 0) z GROUP BY x;
SELECT percentile_cont(2) WITHIN GROUP (ORDER BY k) FROM agg WHERE k = 100;
-- and those of the aggregates before
SELECT percentile_cont(2) WITHIN GROUP (ORDER BY k), percentile_cont(1 / x) WITHIN GROUP (ORDER BY k)
FROM agg, (SELECT 0 AS x OFFSET 0) z GROUP BY x;
SELECT percentile_cont(ARRAY[2]) WITHIN GROUP (ORDER BY k) FROM agg WHERE k = 100;

-- mode() returns the first of equal values
SELECT * FROM check_aggregate('SELECT mode() WITHIN GROUP (ORDER BY n) FROM (VALUES (1.00), (2.0), (2.00), (2), (NULL),
	(3.0)) v (n)');
SELECT * FROM check_aggregate('SELECT g, mode() WITHIN GROUP (ORDER BY n), count(DISTINCT n) FROM
	(VALUES (1, 1.00), (1, 2.0), (1, 2.00), (2, 1.0), (2, 1.00), (2, 0.0), (2, 0.00), (2, 0)) v (g, n) GROUP BY g');

-- the aggregate sorts by itself; up to 15, ordered and DISTINCT ones as well
SELECT nodes, result FROM unnest(ARRAY[
	'SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY k), percentile_cont(0.5) WITHIN GROUP (ORDER BY f) FROM agg',
	'SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY k) FILTER (WHERE g = 1) FROM agg',
	'SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY k), sum(f) FROM agg',
	'SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY k), array_agg(id) FROM (SELECT * FROM agg ORDER BY id) a',
	'SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY f + random() * 0) FROM agg',
	'SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY k), sum(id) FILTER (WHERE random() < 2) FROM agg',
	'SELECT percentile_cont(1 / abs(x)) WITHIN GROUP (ORDER BY k), count(*) FROM agg, (SELECT 1 AS x OFFSET 0) z
		GROUP BY x',
	'SELECT rank(3) WITHIN GROUP (ORDER BY k) FROM agg',
	'SELECT (SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY k + x) FROM agg) FROM generate_series(1, 3) x',
	'SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY k), min(t || t || t || t || c || c || n || iv || id || f || b)
		FROM agg',
	'SELECT g, percentile_disc(0.5) WITHIN GROUP (ORDER BY k) FROM agg GROUP BY ROLLUP (g) ORDER BY g',
	'SELECT t, percentile_disc(0.5) WITHIN GROUP (ORDER BY t || id) FROM agg GROUP BY t ORDER BY t',
	'SELECT g, percentile_cont(0.5) WITHIN GROUP (ORDER BY n) FROM agg GROUP BY g ORDER BY g']) q,
	check_aggregate(q);

-- rescans
SELECT * FROM check_aggregate('SELECT x, (SELECT count(DISTINCT k) FROM agg WHERE id < x * 100)
	FROM generate_series(1, 10) x');
SELECT * FROM check_aggregate('SELECT x, (SELECT percentile_disc(x / 10.0) WITHIN GROUP (ORDER BY k) FROM agg)
	FROM generate_series(1, 10) x');
SELECT * FROM check_aggregate('SELECT x, a.* FROM generate_series(1, 5) x, LATERAL (SELECT g, count(*), sum(k) FROM agg
	WHERE id < x * 300 GROUP BY g ORDER BY g OFFSET 0) a');
SET enable_material = off;
SET enable_hashjoin = off;
SELECT * FROM check_aggregate('SELECT x, a.* FROM generate_series(1, 5) x JOIN (SELECT g, count(*) AS c, max(t) FROM agg
	GROUP BY g) a ON x < a.g ORDER BY x, g');
RESET enable_material;
RESET enable_hashjoin;

-- aggregates of users, with transition functions of aggregates that are done in place
CREATE AGGREGATE count_from_five (*) (SFUNC = int8inc, STYPE = int8, INITCOND = '5');
CREATE AGGREGATE sum_from_one (int4) (SFUNC = int4_sum, STYPE = int8, INITCOND = '1');
CREATE AGGREGATE greatest_from_ten (int4) (SFUNC = int4larger, STYPE = int4, INITCOND = '10');
CREATE AGGREGATE strict_text (text) (SFUNC = textcat, STYPE = text);
SELECT * FROM check_aggregate('SELECT g, count_from_five(*), sum_from_one(k), greatest_from_ten(k), strict_text(t)
	FROM agg GROUP BY g ORDER BY g');
-- initial values that the transition functions refuse
CREATE AGGREGATE count_to_end (*) (SFUNC = int8inc, STYPE = int8, INITCOND = '9223372036854775806');
CREATE AGGREGATE count_values_to_end ("any") (SFUNC = int8inc_any, STYPE = int8, INITCOND = '9223372036854775806');
CREATE AGGREGATE avg_null (int4) (SFUNC = int4_avg_accum, STYPE = int8[], INITCOND = '{NULL,3}');
CREATE AGGREGATE avg_empty (int4) (SFUNC = int4_avg_accum, STYPE = int8[], INITCOND = '{}');
CREATE AGGREGATE avg_one (int4) (SFUNC = int4_avg_accum, STYPE = int8[], INITCOND = '{0}');
CREATE AGGREGATE avg_one_int2 (int2) (SFUNC = int2_avg_accum, STYPE = int8[], INITCOND = '{0}');
CREATE AGGREGATE avg_three (int4) (SFUNC = int4_avg_accum, STYPE = int8[], INITCOND = '{5,3,4}');
CREATE AGGREGATE avg_from_two (int4) (SFUNC = int4_avg_accum, STYPE = int8[], FINALFUNC = int8_avg,
	INITCOND = '{2,3}');
CREATE FUNCTION aggregate_error(query text, OUT nodes text, OUT stock text, OUT ours text) LANGUAGE plpgsql AS $$
BEGIN
	nodes := plan_nodes(query, 'GpuSort Aggregate(?=\))|(?:Group)?Aggregate$');
	BEGIN
		EXECUTE query;
	EXCEPTION WHEN OTHERS THEN
		ours := SQLSTATE || ' ' || SQLERRM;
	END;
	SET LOCAL gpusort.enable = off;
	BEGIN
		EXECUTE query;
	EXCEPTION WHEN OTHERS THEN
		stock := SQLSTATE || ' ' || SQLERRM;
	END;
	RESET gpusort.enable;
END $$;
SELECT call, e.* FROM unnest(ARRAY['count_to_end(*)', 'count_values_to_end(id)', 'avg_null(k)',
	'avg_empty(k)', 'avg_one(k)', 'avg_one_int2(s)', 'avg_three(k)']) WITH ORDINALITY AS u (call, n),
	aggregate_error(format('SELECT g, %s FROM agg WHERE g < 9 GROUP BY g', call)) e
ORDER BY n;
SELECT * FROM check_aggregate('SELECT g, avg_from_two(k), avg(k), sum(k), count(k), count(*), avg(s), sum(s)
	FROM agg GROUP BY g ORDER BY g');
-- a collation for which texts with different bytes are equal
DO $$ BEGIN
	IF EXISTS (SELECT 1 FROM pg_collation WHERE collname = 'en-x-icu') THEN
		CREATE COLLATION agg_ignores_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
	ELSE
		CREATE COLLATION agg_ignores_case FROM "C";
	END IF;
END $$;
SELECT * FROM check_aggregate('SELECT count(*), count(DISTINCT id), lower(s) COLLATE "C" FROM (SELECT id, (CASE WHEN
	id % 2 = 0 THEN upper(t) ELSE t END) COLLATE agg_ignores_case AS s FROM agg) q GROUP BY s ORDER BY s');
SELECT * FROM check_aggregate('SELECT count(DISTINCT s) FROM (SELECT (CASE WHEN id % 2 = 0 THEN upper(t) ELSE t END)
	COLLATE agg_ignores_case AS s FROM agg) q');
DROP COLLATION agg_ignores_case;
SET gpusort.enable = off;
SELECT plan_nodes('SELECT count(DISTINCT k) FROM agg', 'GpuSort Aggregate(?=\))|Aggregate');
RESET gpusort.enable;
DROP TABLE agg, query;
DROP FUNCTION check_aggregate, check_aggregates, aggregate_plan, sort_returns;
DROP FUNCTION aggregate_error;
DROP AGGREGATE count_from_five (*), sum_from_one (int4), greatest_from_ten (int4), strict_text (text),
	count_to_end (*), count_values_to_end ("any"), avg_null (int4), avg_empty (int4), avg_one (int4),
	avg_one_int2 (int2), avg_three (int4), avg_from_two (int4);
