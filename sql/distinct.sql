-- Duplicates that a sort drops in place of Unique and Group
LOAD 'gpusort';
SET max_parallel_workers_per_gather = 0;
SET enable_hashagg = off;
SET jit = off;
SET work_mem = '4MB';
CREATE TABLE twice AS SELECT i AS id, mix(i) % 100 AS few, (mix(i * 3) % 60000)::int AS many, i / 2 AS pairs,
	CASE WHEN i % 7 > 0 THEN mix(i * 5) % 300 END AS gaps, 'a common beginning ' || mix(i * 7) % 500 AS s,
	(mix(i * 11) % 40)::numeric / 4 AS n
	FROM generate_series(1, 120000) i;
ANALYZE twice;
-- the sorts of a query, with the Unique and Group nodes that stay, and the duplicates that the sorts drop: in batches
-- and in merges
CREATE FUNCTION dropped(query text, OUT nodes text, OUT in_batches bigint, OUT in_merges bigint, OUT disk boolean)
LANGUAGE plpgsql AS $$
DECLARE
	line text;
	found text[];
BEGIN
	nodes := plan_nodes(query, 'GpuSort(?: Incremental)?(?=\))|Incremental Sort|Sort$|Unique$|Group$');
	disk := false;
	FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) ' || query LOOP
		found := regexp_match(line, 'Duplicates Dropped: batches=(\d+) merges=(\d+)');
		IF found IS NOT NULL THEN
			in_batches := coalesce(in_batches, 0) + found[1]::bigint;
			in_merges := coalesce(in_merges, 0) + found[2]::bigint;
		END IF;
		disk := disk OR line ~ 'Sort Method:.*Disk';
	END LOOP;
END $$;
CREATE FUNCTION explain_duplicates(query text, format text DEFAULT 'text') RETURNS SETOF text LANGUAGE sql AS $$
	SELECT line FROM explain_analyze(query, 'COSTS OFF, SUMMARY OFF, TIMING OFF, BUFFERS OFF, FORMAT ' || format) a,
		regexp_split_to_table(a, '\n') line
	WHERE line !~ 'Sort (Method|Route)' AND (format = 'text' OR line ~ 'Distinct|Duplicates')
$$;
SELECT * FROM explain_duplicates('SELECT DISTINCT few FROM twice');
SELECT * FROM explain_duplicates('SELECT DISTINCT few FROM twice', 'json');
SELECT * FROM explain_duplicates('SELECT DISTINCT ON (few) few, id FROM twice ORDER BY few, id DESC');
SELECT * FROM explain_duplicates('SELECT s FROM twice GROUP BY s HAVING s < ''a common beginning 2''');

-- few values need little memory
SELECT * FROM dropped('SELECT DISTINCT few FROM generate_series(1, 300000) i, LATERAL (SELECT i % 100 AS few) f');
SELECT * FROM dropped('SELECT DISTINCT few, s || few AS more FROM twice');
SELECT * FROM dropped('SELECT DISTINCT ON (few) few, many, s FROM twice ORDER BY few, many, s');
SELECT few AS group, count(*) FROM (SELECT few FROM twice GROUP BY few ORDER BY few LIMIT 3) q GROUP BY 1 ORDER BY 1;
-- few values first leave memory free, which many values use afterwards
SELECT * FROM dropped('SELECT DISTINCT least(id, 100) FROM twice WHERE id < 100000 UNION ALL
	SELECT DISTINCT greatest(id, 60000) FROM twice');
-- all values differ, or come in pairs
SELECT * FROM dropped('SELECT DISTINCT id FROM twice');
SELECT * FROM dropped('SELECT DISTINCT pairs, s FROM twice');
SELECT * FROM dropped('SELECT DISTINCT ON (pairs) pairs, s FROM twice ORDER BY pairs, s');

-- in runs and in merges
SET work_mem = '64kB';
SELECT nodes, in_batches > 0 AS batches, in_merges > 0 AS merges, in_batches + in_merges AS dropped, disk
	FROM dropped('SELECT DISTINCT many FROM twice');
SELECT nodes, in_batches > 0 AS batches, in_merges > 0 AS merges, in_batches + in_merges AS dropped, disk
	FROM dropped('SELECT DISTINCT many, s FROM twice WHERE many < 20000');
SELECT nodes, in_merges > 0 AS merges, in_batches + in_merges AS dropped, disk
	FROM dropped('SELECT DISTINCT ON (many) many, id, s FROM twice ORDER BY many, s, id');
SELECT result FROM check_sort('SELECT DISTINCT many FROM twice ORDER BY many');
SELECT result FROM check_sort('SELECT DISTINCT many, s FROM twice ORDER BY many, s DESC');
SELECT result FROM check_sort('SELECT DISTINCT gaps, many FROM twice ORDER BY gaps NULLS FIRST, many DESC');
SELECT result FROM check_sort('SELECT DISTINCT ON (many) many, id, s FROM twice ORDER BY many, s, id');
SELECT result FROM check_sort('SELECT DISTINCT ON (s) s, many, id FROM twice ORDER BY s, many, id');
SELECT result FROM check_sort('SELECT DISTINCT ON (s, gaps) s, gaps, n, id FROM twice ORDER BY gaps, s, n, id');
-- NULLs among few values, whose keys are buffered again
SELECT result FROM check_sort('SELECT DISTINCT gaps FROM twice ORDER BY gaps NULLS FIRST');
SELECT result FROM check_sort('SELECT DISTINCT gaps FROM twice ORDER BY gaps');
SELECT result FROM check_sort('SELECT DISTINCT id % 3000 = 7, gaps FROM twice ORDER BY 1, 2 DESC');
-- a whole run of input that is presorted, with duplicates where a batch ends
SELECT nodes, in_batches + in_merges AS dropped FROM dropped('SELECT DISTINCT pairs FROM twice');
SELECT result FROM check_sort('SELECT DISTINCT pairs FROM twice ORDER BY pairs');
SELECT result FROM check_sort('SELECT DISTINCT -pairs AS p FROM twice ORDER BY p DESC');
SELECT result FROM check_sort('SELECT DISTINCT ON (pairs) pairs, id FROM twice ORDER BY pairs, id DESC');
-- a run that the reader may rewind
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT DISTINCT many FROM twice ORDER BY many;
FETCH 2 FROM c;
FETCH ABSOLUTE 40000 FROM c;
FETCH LAST FROM c;
FETCH BACKWARD 2 FROM c;
FETCH ABSOLUTE 3 FROM c;
COMMIT;
-- wide rows, which a merge reads one at a time
CREATE TABLE twice_wide AS SELECT id, many % 40 AS k, repeat(md5((many % 20)::text), 2000) AS w FROM twice
	WHERE id <= 300;
ALTER TABLE twice_wide ALTER w SET STORAGE EXTERNAL;
ANALYZE twice_wide;
SELECT nodes, in_batches + in_merges AS dropped FROM dropped('SELECT DISTINCT w || '''' FROM twice_wide');
SELECT nodes, in_merges > 0 AS merges, in_batches + in_merges AS dropped
	FROM dropped('SELECT DISTINCT ON (k) k, w || id FROM twice_wide ORDER BY k, id');
SELECT result FROM check_sort('SELECT DISTINCT k, md5(w) AS m FROM (SELECT DISTINCT k, w || '''' AS w FROM twice_wide) q
	ORDER BY 1, 2');
SELECT result FROM check_sort('SELECT DISTINCT ON (k) k, id, md5(w || '''') AS m FROM twice_wide ORDER BY k, id DESC');
RESET work_mem;

-- under gpusort.verify, and with each algorithm
SET gpusort.verify = on;
SELECT * FROM dropped('SELECT DISTINCT few, gaps FROM twice');
SELECT result FROM check_sort('SELECT DISTINCT n, s, gaps FROM twice ORDER BY gaps, s, n');
RESET gpusort.verify;
SET gpusort.algorithm = cpu_merge;
SELECT * FROM dropped('SELECT DISTINCT gaps, few FROM twice');
SELECT result FROM check_sort('SELECT DISTINCT gaps, few FROM twice ORDER BY gaps, few');
SET gpusort.algorithm = cpu_counting;
SELECT result FROM check_sort('SELECT DISTINCT gaps FROM twice ORDER BY gaps');
RESET gpusort.algorithm;

-- Values that are equal and look different: the first one stays, whatever comes later in the order.  A table of each
-- type; the row with the least id of each value is the first in the order of (value, id).
CREATE TABLE looks (id int, f float8, n numeric, c char(6), iv interval, b bytea, j jsonb, a numeric[], t text,
	tz timestamptz, r int4range, u uuid);
INSERT INTO looks SELECT i, (ARRAY['0', '-0', 'NaN', 'NaN', '1.5', 'Infinity'])[i % 6 + 1]::float8,
	(ARRAY['1', '1.0', '1.00', '0', '0.000', '2', 'NaN', '1e100', '100e98'])[i % 9 + 1]::numeric,
	(ARRAY['a', 'a ', 'b', 'b  '])[i % 4 + 1], (ARRAY['1 month', '30 days', '1 day', '24 hours'])[i % 4 + 1]::interval,
	(ARRAY['\x', '\x00', '\x0001'])[i % 3 + 1]::bytea, (ARRAY['1', '1.0', '{"a": 1}', 'null'])[i % 4 + 1]::jsonb,
	(ARRAY['{1,2}', '{1.0,2}', '{}', '{NULL}'])[i % 4 + 1]::numeric[], (ARRAY['x', 'X', 'long enough to be a prefix',
	'long enough to be another'])[i % 4 + 1], timestamptz '2026-01-01' + i % 3 * interval '1 day',
	int4range(i % 3, i % 3 + 2), md5((i % 5)::text)::uuid
	FROM generate_series(1, 3000) i;
INSERT INTO looks (id) SELECT i FROM generate_series(3001, 3100) i;
ANALYZE looks;
CREATE FUNCTION looks_same(OUT col name, OUT "one key" text, OUT "two keys" text, OUT "many values" text,
	OUT dropped bigint, OUT merged boolean)
RETURNS SETOF record LANGUAGE plpgsql AS $$
BEGIN
	FOR col IN SELECT attname FROM pg_attribute WHERE attrelid = 'looks'::regclass AND attnum > 1 ORDER BY attnum LOOP
		"one key" := (check_sort(format('SELECT DISTINCT ON (%1$I) %1$I::text AS looks, id FROM looks
			ORDER BY %1$I, id', col))).result;
		"two keys" := (check_sort(format('SELECT DISTINCT ON (%1$I, n) n::text, %1$I::text AS looks, id FROM looks
			ORDER BY %1$I DESC, n, id DESC', col))).result;
		"many values" := (check_sort(format('SELECT DISTINCT ON (%1$I, m) m, %1$I::text AS looks, id
			FROM (SELECT *, mix(id) %% 300 AS m FROM looks) q ORDER BY %1$I, m DESC, id', col))).result;
		dropped := (SELECT in_batches + in_merges FROM dropped(format('SELECT DISTINCT %I FROM looks', col)));
		merged := (SELECT in_merges > 0 FROM dropped(format('SELECT DISTINCT %I, mix(id) %% 300 FROM looks', col)));
		RETURN NEXT;
	END LOOP;
END $$;
SELECT * FROM looks_same();
-- without a second key the first row of the input stays
CREATE FUNCTION first_stays(col name) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	want text[];
	got text[];
BEGIN
	EXECUTE format('SELECT array_agg(%1$I::text ORDER BY %1$I, id) FROM (SELECT DISTINCT ON (%1$I) %1$I, id FROM looks
		ORDER BY %1$I, id) q', col) INTO want;
	EXECUTE format('SELECT array_agg(looks) FROM (SELECT %1$I::text AS looks FROM (SELECT DISTINCT %1$I
		FROM looks) q) q', col) INTO got;
	RETURN compare_rows(want, got);
END $$;
SELECT col, first_stays(col) FROM unnest(ARRAY['f', 'n', 'c', 'iv', 'j', 'a']::name[]) col;
SET gpusort.run_rows = 500;
SELECT * FROM looks_same();
SELECT col, first_stays(col) FROM unnest(ARRAY['f', 'n', 'c', 'iv', 'j', 'a']::name[]) col;
RESET gpusort.run_rows;
-- a collation in which different strings are equal
CREATE FUNCTION ignores_case() RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	BEGIN
		CREATE COLLATION twice_ignores_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
	EXCEPTION WHEN OTHERS THEN
		RETURN 'same';
	END;
	-- ~<~ orders such strings by their bytes, and finds them equal
	RETURN (SELECT string_agg(DISTINCT (check_sort(q)).result, ', ') FROM unnest(ARRAY[
		'SELECT DISTINCT ON (t COLLATE twice_ignores_case) t, id FROM looks ORDER BY t COLLATE twice_ignores_case, id',
		'SELECT DISTINCT ON (t COLLATE twice_ignores_case) t, id FROM looks WHERE length(t) = 1
			ORDER BY t COLLATE twice_ignores_case USING ~<~, id']) q);
END $$;
SELECT ignores_case();

-- which nodes, and where nothing is dropped
SELECT nodes, in_batches > 0 AS dropped FROM dropped('SELECT few FROM twice UNION SELECT many FROM twice');
SELECT result FROM check_sort('SELECT few FROM twice UNION SELECT many FROM twice ORDER BY 1');
-- NULLs come when duplicates have been dropped already
SELECT result FROM check_sort('SELECT few FROM twice UNION SELECT gaps FROM twice ORDER BY 1');
SELECT result FROM check_sort('SELECT gaps, few FROM (SELECT gaps, few FROM twice UNION ALL SELECT few, gaps
	FROM twice) q GROUP BY gaps, few ORDER BY few NULLS FIRST, gaps DESC');
SELECT * FROM dropped('SELECT few, gaps FROM twice GROUP BY few, gaps');
SELECT * FROM dropped('SELECT few, count(*) FROM twice GROUP BY few');
SELECT * FROM dropped('SELECT DISTINCT few FROM (SELECT few FROM twice ORDER BY few, id LIMIT 5000) q');
SELECT * FROM dropped('SELECT DISTINCT ON (few) few, many FROM (SELECT few, many FROM twice ORDER BY few, many) q');
-- the order of the columns is that of the sort
SELECT * FROM dropped('SELECT DISTINCT few, gaps FROM twice ORDER BY gaps DESC, few');
SELECT result FROM check_sort('SELECT DISTINCT few, gaps FROM twice ORDER BY gaps DESC, few');
-- above groups and windows, whose columns are not those of their input
SELECT nodes ~ '^GpuSort' AS sorted, result FROM unnest(ARRAY[
	'SELECT DISTINCT ON (min(few)) gaps, count(DISTINCT few), max(few), min(few) FROM twice GROUP BY gaps
		ORDER BY 4, 1',
	'SELECT DISTINCT n, few, max(many), min(many) % 2 = 0 AS even, sum(many) FROM twice GROUP BY few, n
		ORDER BY 5, 4, 3, 2, 1',
	'SELECT DISTINCT gaps, few, first, few + 1 AS next, rank() OVER (ORDER BY few) AS r FROM (SELECT gaps, few, id < 50
		AS first FROM twice) q ORDER BY 5, 4, 3, 2, 1',
	'SELECT DISTINCT dense_rank() OVER (PARTITION BY few ORDER BY gaps) AS r, few % 2 = 0 AS even FROM twice
		ORDER BY 2, 1']) q, check_sort(q);
-- LIMIT
SELECT result FROM check_sort('SELECT DISTINCT many FROM twice ORDER BY many LIMIT 7 OFFSET 3');
SELECT result FROM check_sort('SELECT DISTINCT ON (few) few, id FROM twice ORDER BY few, id LIMIT 5');
-- no rows, one row, one value
SELECT * FROM dropped('SELECT DISTINCT few FROM twice WHERE id < 0');
SELECT * FROM dropped('SELECT DISTINCT few FROM twice WHERE id = 1');
SELECT * FROM dropped('SELECT DISTINCT few - few AS zero FROM twice');
SELECT * FROM dropped('SELECT DISTINCT nullif(few, few) AS none FROM twice');
SELECT DISTINCT few - few AS zero, nullif(few, few) AS none FROM twice;

-- the sort in place of the node: constants, initplans, and nodes that stay
SELECT * FROM dropped('SELECT DISTINCT 1 AS one, few, NULL::text AS none FROM twice');
SELECT result FROM check_sort('SELECT DISTINCT few, 1 AS one, NULL::text AS none FROM twice ORDER BY few');
SELECT plan_nodes('SELECT DISTINCT few AS f, (SELECT 5 OFFSET 0) FROM twice WHERE id > (SELECT 7 OFFSET 0)',
	'Unique$|GpuSort(?=\))|InitPlan(?= \w)');
SELECT result FROM check_sort('SELECT DISTINCT few AS f, (SELECT max(id) FROM twice) FROM twice
	WHERE id > (SELECT min(many) FROM twice) ORDER BY few');
SELECT * FROM dropped('SELECT few + 1 FROM twice GROUP BY few');
SELECT result FROM check_sort('SELECT few + 1 AS f FROM twice GROUP BY few ORDER BY few');
SELECT * FROM dropped('SELECT few FROM twice GROUP BY few HAVING few > random() - 1');
-- one above the other
SELECT * FROM dropped('SELECT DISTINCT few FROM (SELECT DISTINCT few, gaps FROM twice) q');
SELECT * FROM dropped('SELECT DISTINCT few, id FROM (SELECT DISTINCT ON (few) few, id FROM twice ORDER BY few, id) q');
SELECT result FROM check_sort('SELECT DISTINCT few FROM (SELECT DISTINCT few, gaps FROM twice) q ORDER BY few');
SELECT result FROM check_sort('SELECT DISTINCT few, id FROM (SELECT DISTINCT ON (few) few, id FROM twice
	ORDER BY few, id) q ORDER BY few, id');
-- below other nodes
SELECT result FROM check_sort('SELECT few, count(*), sum(gaps) FROM (SELECT DISTINCT few, gaps FROM twice) q
	GROUP BY few ORDER BY few');
SELECT result FROM check_sort('SELECT count(DISTINCT few), count(*) FROM (SELECT DISTINCT few, gaps FROM twice) q');
SELECT result FROM check_sort('SELECT percentile_disc(0.3) WITHIN GROUP (ORDER BY few)
	FROM (SELECT DISTINCT few FROM twice) q');
SELECT result FROM check_sort('SELECT few, gaps, rank() OVER w, count(*) OVER w, cume_dist() OVER w
	FROM (SELECT DISTINCT few, gaps FROM twice) q WINDOW w AS (PARTITION BY few ORDER BY gaps)');
SELECT result FROM check_sort('SELECT * FROM (SELECT few, row_number() OVER (ORDER BY few) AS n
	FROM (SELECT DISTINCT few FROM twice) q) q WHERE n < 4');
SELECT result FROM check_sort('SELECT few FROM twice UNION SELECT gaps FROM twice
	EXCEPT SELECT DISTINCT few + 50 FROM twice ORDER BY 1');
CREATE TABLE twice_few (few bigint);
INSERT INTO twice_few SELECT DISTINCT few FROM twice;
SELECT count(*), count(DISTINCT few) FROM twice_few;
-- keys beyond 64 bits with many ties in their first bits: the key buffer is freed before the runs are written
CREATE TABLE distinct_ties AS SELECT (i % 3) * 3000000000000000000::int8 + 5 * (i % 2) AS a, i % 1000 AS f,
	i * 7919::int8 % 100003 AS b, i % 100 AS d FROM generate_series(1, 60000) i;
ANALYZE distinct_ties;
SET max_parallel_workers_per_gather = 0;
SET work_mem = '1MB';
SELECT count(*), sum(n) FROM (SELECT a, f, b, count(DISTINCT d) AS n FROM distinct_ties GROUP BY a, f, b) s;
SELECT count(*), sum(n) FROM (SELECT a, b, count(DISTINCT d) AS n FROM distinct_ties GROUP BY a, b) s;
SELECT count(*) FROM (SELECT DISTINCT ON (a, b) a, b, d, f FROM distinct_ties ORDER BY a, b, d, f) s;
DROP TABLE distinct_ties;

DROP TABLE twice_few;
-- prepared plans, and a plan that was made before gpusort is turned off
SET plan_cache_mode = force_generic_plan;
PREPARE of_few(int) AS SELECT DISTINCT few, gaps FROM twice WHERE few < $1 ORDER BY few DESC, gaps LIMIT $1;
EXECUTE of_few(3);
SET gpusort.enable = off;
EXECUTE of_few(2);
RESET gpusort.enable;
DEALLOCATE of_few;
RESET plan_cache_mode;

-- rescans, with the same rows and with others
SELECT result FROM check_sort('SELECT x.m, q.few FROM generate_series(1, 4) AS x (m),
	LATERAL (SELECT DISTINCT few FROM twice WHERE few % x.m = 0 ORDER BY few LIMIT 20) q ORDER BY 1, 2');
SET enable_material = off;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SELECT result FROM check_sort('SELECT x.m, q.few FROM generate_series(1, 4) AS x (m)
	LEFT JOIN (SELECT DISTINCT few FROM twice) q ON q.few > x.m * 24 ORDER BY 1, 2');
RESET enable_material;
RESET enable_hashjoin;
RESET enable_mergejoin;
-- a merge join marks and restores
SET enable_hashjoin = off;
SET enable_nestloop = off;
SELECT result FROM check_sort('SELECT x.few, y.gaps FROM (SELECT DISTINCT few FROM twice) x
	JOIN (SELECT DISTINCT gaps FROM twice) y ON x.few = y.gaps ORDER BY 1, 2');
RESET enable_hashjoin;
RESET enable_nestloop;
-- rows in the order of the first column: groups of two rows, and large ones
CREATE INDEX twice_pairs ON twice (pairs);
CREATE INDEX twice_few ON twice (few);
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET enable_sort = off;
SELECT plan_nodes('SELECT few, gaps FROM twice GROUP BY few, gaps', 'GpuSort Incremental(?=\))|Group$') AS nodes;
SELECT result FROM check_sort('SELECT few, gaps FROM twice GROUP BY few, gaps ORDER BY few, gaps');
SELECT result FROM check_sort('SELECT pairs, n FROM twice GROUP BY pairs, n ORDER BY pairs, n');
SELECT result FROM check_sort('SELECT x.m, q.* FROM generate_series(1, 3) AS x (m),
	LATERAL (SELECT few, s FROM twice WHERE few % x.m = 0 GROUP BY few, s ORDER BY few, s LIMIT 900) q
	ORDER BY 1, 2, 3');
RESET enable_seqscan;
RESET enable_bitmapscan;
RESET enable_sort;
DROP INDEX twice_pairs, twice_few;
-- cursors
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT DISTINCT few FROM twice ORDER BY few;
FETCH 3 FROM c;
FETCH BACKWARD 2 FROM c;
FETCH LAST FROM c;
FETCH ABSOLUTE 50 FROM c;
COMMIT;
BEGIN;
DECLARE c CURSOR FOR SELECT DISTINCT few FROM twice ORDER BY few;
FETCH 2 FROM c;
FETCH BACKWARD 1 FROM c;
ROLLBACK;

-- workers drop duplicates before they send rows; participants that merge drop duplicates of different workers
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 10;
SET cpu_tuple_cost = 1;
SET min_parallel_table_scan_size = 0;
SET max_parallel_workers_per_gather = 2;
SELECT nodes, in_batches + in_merges AS dropped, in_batches >= 119600 AS before_the_last_merge
	FROM dropped('SELECT DISTINCT few FROM twice ORDER BY few');
SELECT nodes, in_batches + in_merges AS dropped FROM dropped('SELECT DISTINCT s, few FROM twice');
SELECT result FROM check_sort('SELECT DISTINCT s, few FROM twice ORDER BY s, few');
SELECT result FROM check_sort('SELECT DISTINCT ON (s) s, many, id FROM twice ORDER BY s, many, id');
SELECT result FROM check_sort('SELECT DISTINCT many, gaps FROM twice ORDER BY many DESC, gaps');
-- two levels of merges
SET max_parallel_workers_per_gather = 4;
SET max_parallel_workers = 8;
ALTER TABLE twice SET (parallel_workers = 4);
SELECT nodes, in_batches + in_merges AS dropped FROM dropped('SELECT DISTINCT many FROM twice');
SELECT result FROM check_sort('SELECT DISTINCT ON (many) many, s, id FROM twice ORDER BY many, s, id DESC');
-- PostgreSQL's partial DISTINCT has a Unique node in each worker
SET gpusort.plan_grouping = off;
-- from 16 on in workers
SELECT replace(plan_nodes('SELECT DISTINCT few FROM twice', 'GpuSort(?: Feed)?(?=\))|Gather(?: Merge)?$|Unique$'),
	', Gather, GpuSort Feed', '') AS nodes;
SELECT nodes, in_batches + in_merges AS dropped FROM dropped('SELECT DISTINCT few FROM twice');
SELECT result FROM check_sort('SELECT DISTINCT few, gaps FROM twice ORDER BY few, gaps');
RESET gpusort.plan_grouping;
