-- Sorts in one process or by parallel workers: the choice, and queries that are not offered workers
LOAD 'gpusort';
CREATE TABLE workers_t AS SELECT mix(i) AS k, (mix(i * 3) % 1000)::int AS a, i AS id, 'text ' || mix(i * 7) AS s
	FROM generate_series(1, 3000) i;
CREATE FUNCTION workers_unsafe(bigint) RETURNS bigint PARALLEL UNSAFE LANGUAGE sql AS 'SELECT $1';
ANALYZE workers_t;
-- The nodes that sort or merge, from the top.
CREATE FUNCTION who_sorts(query text) RETURNS text LANGUAGE sql AS $$
SELECT plan_nodes(query, 'GpuSort( Feed)?(?=\))|Gather Merge|Sort$') $$;
SET max_parallel_workers_per_gather = 2;
SET min_parallel_table_scan_size = 0;

-- few rows are not worth a worker
SELECT who_sorts('SELECT * FROM workers_t ORDER BY k');
-- also if PostgreSQL's cost of its own Sort says otherwise
SET parallel_setup_cost = 40;
SET parallel_tuple_cost = 0;
SELECT who_sorts('SELECT * FROM workers_t ORDER BY k');
SET gpusort.enable = off;
SELECT who_sorts('SELECT * FROM workers_t ORDER BY k');
RESET gpusort.enable;

-- rows that are costly to read are sorted by workers; the cost of passing a row to the leader does not count
SET cpu_tuple_cost = 1;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 10;
SELECT who_sorts('SELECT * FROM workers_t ORDER BY k');
SELECT who_sorts('SELECT id, s FROM workers_t ORDER BY s COLLATE "C" DESC, a');
-- a subquery gets no workers beyond PostgreSQL's if they would be taken from the query around it
SELECT plan_nodes('SELECT id FROM workers_t
	WHERE a < 10 AND id NOT IN (SELECT id FROM workers_t ORDER BY k LIMIT 2000)',
	'GpuSort( Feed)?(?=\))|Gather|(Parallel )?Seq Scan');
SELECT plan_nodes('SELECT count(*) FROM (SELECT * FROM workers_t ORDER BY k OFFSET 0) x JOIN workers_t y ON x.a = y.a
	WHERE y.k < 0', 'GpuSort( Feed)?(?=\))|Gather|(Parallel )?Seq Scan');
SELECT plan_nodes('SELECT * FROM (SELECT * FROM workers_t ORDER BY k OFFSET 0) x UNION ALL SELECT * FROM workers_t',
	'GpuSort( Feed)?(?=\))|Gather|(Parallel )?Seq Scan');
SELECT plan_nodes('SELECT count(a) FROM (SELECT * FROM workers_t ORDER BY k OFFSET 0) x',
	'GpuSort( Feed)?(?=\))|Gather|(Parallel )?Seq Scan');
SELECT result FROM check_sort('SELECT id FROM workers_t
	WHERE a < 10 AND id NOT IN (SELECT id FROM workers_t ORDER BY k LIMIT 2000) ORDER BY id');
-- As many workers as allowed, also if PostgreSQL would plan fewer for reading the table, but not more than the table's
-- parallel_workers.  Without a leader that takes part, two workers are two processes; every machine is assumed to have
-- processors for two.
CREATE FUNCTION workers_planned(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
		IF line ~ 'Workers Planned' THEN RETURN NEXT ltrim(line); END IF;
	END LOOP;
END $$;
SET parallel_leader_participation = off;
SELECT set_config('min_parallel_table_scan_size', pg_relation_size('workers_t') / 2 / 1024 || 'kB', false) <> '' AS set;
SELECT workers_planned('SELECT * FROM workers_t ORDER BY k');
SELECT workers_planned('SELECT id + 1, k FROM workers_t WHERE a > 3 ORDER BY k');
SELECT * FROM check_sort('SELECT id + 1 AS more, k FROM workers_t WHERE a > 3 ORDER BY k');
SET gpusort.enable = off;
SELECT workers_planned('SELECT * FROM workers_t ORDER BY k') AS stock;
RESET gpusort.enable;
ALTER TABLE workers_t SET (parallel_workers = 1);
SELECT workers_planned('SELECT * FROM workers_t ORDER BY k') AS wanted;
ALTER TABLE workers_t RESET (parallel_workers);
SET max_parallel_workers = 1;
SELECT workers_planned('SELECT * FROM workers_t ORDER BY k') AS allowed;
RESET max_parallel_workers;
RESET parallel_leader_participation;
SET min_parallel_table_scan_size = 0;
-- no workers that sort if workers can send unsorted rows at no cost
SET parallel_tuple_cost = 0;
SELECT who_sorts('SELECT count(a) FROM (SELECT * FROM workers_t ORDER BY k OFFSET 0) s');
SET parallel_tuple_cost = 10;
SET gpusort.enable = off;
SELECT who_sorts('SELECT * FROM workers_t ORDER BY k');
RESET gpusort.enable;

-- set operations have no target list
SELECT result FROM check_sort('SELECT id FROM workers_t UNION ALL SELECT a FROM workers_t ORDER BY id');
SELECT result FROM check_sort('SELECT id FROM workers_t EXCEPT SELECT a FROM workers_t ORDER BY id');

-- with equal costs the planner may have freed the path of the presorted scan
SET parallel_tuple_cost = 0;
SET enable_seqscan = off;
SELECT who_sorts('SELECT id, k FROM workers_t ORDER BY k');
SELECT * FROM check_sort('SELECT id, k FROM workers_t ORDER BY k');
RESET enable_seqscan;
SET parallel_tuple_cost = 10;

-- cached plans, views, subqueries, joins
SELECT * FROM check_sort('SELECT * FROM workers_t ORDER BY a, id');
SELECT * FROM check_sort('SELECT s.id, s.k FROM (SELECT * FROM workers_t ORDER BY k OFFSET 0) s WHERE s.a < 500');
SELECT * FROM check_sort('SELECT x.id, y.s FROM workers_t x JOIN workers_t y USING (id) ORDER BY y.s, x.id');
SELECT * FROM check_sort('SELECT id + 1 AS more, k FROM workers_t WHERE a > 10 ORDER BY k DESC');
PREPARE kept (int) AS SELECT array_agg(id) FROM (SELECT id FROM workers_t WHERE a < $1 ORDER BY k OFFSET 3) s;
SET plan_cache_mode = force_generic_plan;
SELECT who_sorts('EXECUTE kept (3)');
CREATE TABLE workers_kept AS EXECUTE kept (20);
SET gpusort.enable = off;
SELECT w.array_agg = (SELECT array_agg(id) FROM (SELECT id FROM workers_t WHERE a < 20 ORDER BY k OFFSET 3) s) AS same
	FROM workers_kept w;
RESET gpusort.enable;
RESET plan_cache_mode;
DEALLOCATE kept;

-- a LIMIT does not change the choice, an OFFSET does
SELECT who_sorts('SELECT * FROM workers_t ORDER BY k LIMIT 10');
SELECT who_sorts('SELECT * FROM workers_t ORDER BY k OFFSET 10');
-- strings of a participant that lack the common prefix of earlier strings, while most rows are dropped by a LIMIT
CREATE TABLE workers_late (part int, id int, s text) PARTITION BY LIST (part);
CREATE TABLE workers_late1 PARTITION OF workers_late FOR VALUES IN (1);
CREATE TABLE workers_late2 PARTITION OF workers_late FOR VALUES IN (2);
CREATE TABLE workers_late3 PARTITION OF workers_late FOR VALUES IN (3);
INSERT INTO workers_late SELECT p, i, CASE WHEN i <= 9000 THEN repeat(chr(103 + p), 2)
	WHEN i % 2 = 0 THEN 'aa' ELSE 'zz' END || mix(i) FROM generate_series(1, 3) p, generate_series(1, 9020) i;
ANALYZE workers_late;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = '1GB';
SET parallel_leader_participation = off;
SELECT who_sorts('SELECT * FROM workers_late ORDER BY s COLLATE "C", id, part LIMIT 70');
SELECT * FROM check_sort('SELECT * FROM workers_late ORDER BY s COLLATE "C", id, part LIMIT 70');
SELECT * FROM check_sort('SELECT * FROM workers_late ORDER BY s COLLATE "C" DESC, id, part LIMIT 70');
RESET parallel_leader_participation;
SET min_parallel_table_scan_size = 0;
SET parallel_tuple_cost = 10;
DROP TABLE workers_late;

-- no workers: cursors, parallel-unsafe functions, statements that write, locked rows
EXPLAIN (COSTS OFF) DECLARE c CURSOR FOR SELECT * FROM workers_t ORDER BY k;
SELECT who_sorts('SELECT workers_unsafe(id), k FROM workers_t ORDER BY k');
SELECT who_sorts('SELECT * FROM workers_t ORDER BY k FOR UPDATE');
-- plans that settings forbid
SET enable_sort = off;
SELECT who_sorts('SELECT * FROM workers_t ORDER BY k');
RESET enable_sort;
SET enable_gathermerge = off;
SELECT who_sorts('SELECT * FROM workers_t ORDER BY k') <> '' AS planned;
RESET enable_gathermerge;
SET gpusort.min_rows = 100000;
SELECT who_sorts('SELECT * FROM workers_t ORDER BY k');
RESET gpusort.min_rows;
-- an index in order needs no sort
CREATE INDEX ON workers_t (id);
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SELECT who_sorts('SELECT * FROM workers_t ORDER BY id');
RESET enable_seqscan;
RESET enable_bitmapscan;
-- columns computed above the sort
SELECT who_sorts('SELECT id, generate_series(1, 2) FROM workers_t ORDER BY k');
-- the same with presorted rows: their path may have been freed
CREATE FUNCTION workers_late_cost(bigint) RETURNS bigint LANGUAGE plpgsql STABLE PARALLEL SAFE COST 100000
	AS 'BEGIN RETURN $1; END';
CREATE INDEX ON workers_t (k);
VACUUM ANALYZE workers_t;
SET enable_hashjoin = off;
SET random_page_cost = 20;
SET cpu_tuple_cost = 0.01;
SET parallel_tuple_cost = 0;
SELECT who_sorts('SELECT workers_late_cost(x.a) FROM workers_t x JOIN workers_t y USING (id) ORDER BY id LIMIT 10');
SELECT who_sorts('SELECT workers_late_cost(a) FROM workers_t ORDER BY id LIMIT 10');
SELECT result FROM check_sort('SELECT workers_late_cost(a), k FROM workers_t ORDER BY k, id LIMIT 10');
SET parallel_tuple_cost = 10;
SET cpu_tuple_cost = 1;
RESET random_page_cost;
RESET enable_hashjoin;
DROP FUNCTION workers_late_cost;
DROP INDEX workers_t_k_idx;

-- Below and above other nodes the workers that PostgreSQL planned stay.  A few rows come through the tuple queues.
CREATE FUNCTION workers_costly(bigint) RETURNS bool PARALLEL SAFE COST 100000 LANGUAGE plpgsql
	AS 'BEGIN RETURN true; END';
-- The nodes that gather, sort and scan, and the number of workers, from the top.
CREATE FUNCTION gathers(query text) RETURNS text LANGUAGE sql AS $$
SELECT plan_nodes(query, 'Gather Merge|Gather|Workers Planned: \d+|GpuSort( Feed)?(?=\))|Sort$|'
	'(Parallel )?Seq Scan') $$;
RESET cpu_tuple_cost;
SET parallel_tuple_cost = 0;
SET parallel_setup_cost = 100;
SET enable_hashjoin = off;
SET enable_nestloop = off;
SET enable_hashagg = off;
SET enable_material = off;
SELECT gathers('SELECT count(*) FROM workers_t x JOIN workers_t y ON x.k = y.k');
SELECT * FROM check_sort('SELECT count(*), sum(x.id + y.a) FROM workers_t x JOIN workers_t y ON x.a = y.a');
SELECT gathers('SELECT x.id, y.s FROM workers_t x JOIN workers_t y ON x.k = y.k ORDER BY y.a');
SELECT * FROM check_sort('SELECT x.id, y.s FROM workers_t x JOIN workers_t y ON x.k = y.k ORDER BY y.a, x.id, y.s');
SELECT gathers('SELECT a, count(*), sum(id) FROM workers_t GROUP BY a');
SELECT gathers('SELECT DISTINCT ON (a) a, k FROM workers_t ORDER BY a, k');
SELECT gathers('SELECT id, rank() OVER (PARTITION BY a ORDER BY k) FROM workers_t');
SELECT * FROM check_sort('SELECT id, rank() OVER (PARTITION BY a ORDER BY k) FROM workers_t ORDER BY 2, 1');
SELECT * FROM check_sort('SELECT DISTINCT ON (a) a, k, (SELECT 1) AS one FROM workers_t ORDER BY a, k');
SET gpusort.enable = off;
SELECT gathers('SELECT id, rank() OVER (PARTITION BY a ORDER BY k) FROM workers_t');
RESET gpusort.enable;
-- the same with a costly child
SELECT gathers('SELECT a, count(*), sum(id) FROM workers_t WHERE workers_costly(id) GROUP BY a');
SELECT gathers('SELECT DISTINCT ON (a) a, k FROM workers_t WHERE workers_costly(id) ORDER BY a, k');
SELECT gathers('SELECT count(*) FROM workers_t x JOIN workers_t y ON x.k = y.k WHERE workers_costly(x.id)');
-- sorted blocks are exchanged if starting workers costs nothing
SET parallel_setup_cost = 0;
SELECT gathers('SELECT count(*) FROM workers_t x JOIN workers_t y ON x.k = y.k');
RESET enable_hashjoin;
RESET enable_nestloop;
RESET enable_hashagg;
RESET enable_material;

-- From four workers on the leader of an exchange only merges.  Rows that are costly to read and few are merged by a
-- Gather Merge, whose leader reads its share; many rows are exchanged.  Below a LIMIT of few rows the leader of an
-- exchange reads its share, too.
CREATE TABLE workers_many AS SELECT mix(i) AS k, i AS id FROM generate_series(1, 40000) i;
ALTER TABLE workers_many SET (parallel_workers = 4);
ANALYZE workers_many;
SET max_parallel_workers_per_gather = 4;
SET parallel_setup_cost = 10;
SET parallel_tuple_cost = 0.01;
RESET cpu_tuple_cost;
SELECT who_sorts('SELECT * FROM workers_many WHERE workers_costly(id) ORDER BY k');
SELECT who_sorts('SELECT * FROM workers_many WHERE workers_costly(id) ORDER BY k LIMIT 10');
SELECT who_sorts('SELECT * FROM workers_many WHERE workers_costly(id) ORDER BY k LIMIT 20000');
SELECT who_sorts('SELECT * FROM workers_many WHERE workers_costly(id) ORDER BY k LIMIT (SELECT 10)');
SELECT result FROM check_sort('SELECT * FROM workers_many WHERE workers_costly(id) ORDER BY k LIMIT 10');
SELECT who_sorts('SELECT * FROM workers_many ORDER BY k');
SET parallel_leader_participation = off;
SELECT who_sorts('SELECT * FROM workers_many WHERE workers_costly(id) ORDER BY k');
RESET parallel_leader_participation;

DROP TABLE workers_t, workers_kept, workers_many;
DROP FUNCTION workers_unsafe, workers_costly, who_sorts, gathers;
