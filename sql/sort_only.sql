-- Columns that a statement sorts by under another collation and does not return: the value is stored once.
LOAD 'gpusort';
SET gpusort.min_rows = 0;
SET max_parallel_workers_per_gather = 0;
SET enable_mergejoin = off;

CREATE TABLE pair_t AS
SELECT i AS id, chr((65 + mix(i) % 26 + mix(i * 3) % 2 * 32)::int) || left(md5((mix(i) % 500)::text), 12) AS t,
	(CASE WHEN i % 7 > 0 THEN mix(i) % 90 END)::numeric(12,2) AS n, ('v' || mix(i) % 99)::varchar(20) AS v,
		repeat('x', 40) AS x
FROM generate_series(1, 3000) i;
ANALYZE pair_t;

-- The rows of a top-level statement, with the stock Sort and with GpuSort.
CREATE FUNCTION rows_of_top(query text) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
	r record;
	came text[] := '{}';
BEGIN
	FOR r IN EXECUTE query LOOP
		came := came || r::text;
	END LOOP;
	RETURN came;
END $$;
CREATE FUNCTION check_top(query text, OUT nodes text, OUT columns int, OUT result text) LANGUAGE plpgsql AS $$
DECLARE
	want text[];
	plan jsonb;
BEGIN
	PERFORM set_config('gpusort.enable', 'off', false);
	want := rows_of_top(query);
	PERFORM set_config('gpusort.enable', 'on', false);
	result := compare_rows(want, rows_of_top(query));
	nodes := sort_nodes(query);
	EXECUTE 'EXPLAIN (VERBOSE, FORMAT JSON) ' || query INTO plan;
	columns := jsonb_array_length(jsonb_path_query_first(plan, '$.**[*] ? (@."Node Type" == "Seq Scan").Output'));
END $$;

EXPLAIN (COSTS OFF, VERBOSE) SELECT id, t FROM pair_t ORDER BY t COLLATE "C", id;
EXPLAIN (COSTS OFF, VERBOSE) SELECT t, id FROM pair_t ORDER BY t COLLATE "POSIX" DESC, id LIMIT 5;
-- trailing sort columns that duplicate another column's bytes are removed
SELECT * FROM check_top('SELECT id, t FROM pair_t ORDER BY t COLLATE "C", id');
SELECT * FROM check_top('SELECT t, id FROM pair_t ORDER BY t COLLATE "C" DESC, id');
SELECT * FROM check_top('SELECT * FROM pair_t ORDER BY t COLLATE "C", v COLLATE "C" DESC NULLS FIRST, id');
SELECT * FROM check_top('SELECT * FROM pair_t ORDER BY v COLLATE "POSIX", t COLLATE "C", t, id');
SELECT * FROM check_top('SELECT id, t FROM pair_t ORDER BY t COLLATE "C", id LIMIT 10 OFFSET 5');
SELECT * FROM check_top('SELECT n, id FROM pair_t ORDER BY n::numeric DESC, id');
SELECT * FROM check_top('SELECT a.id, a.t, b.n FROM pair_t a JOIN pair_t b ON a.id = b.id + 1
	ORDER BY a.t COLLATE "C", a.id');
SELECT * FROM check_top('SELECT t, count(*) FROM pair_t GROUP BY t ORDER BY t COLLATE "C"');
-- not removed: another type, an expression, columns needed to resolve ties, locked rows, sorts below another node
SELECT * FROM check_top('SELECT id, v FROM pair_t ORDER BY v::text, id');
SELECT * FROM check_top('SELECT id, t FROM pair_t ORDER BY upper(t) COLLATE "C", id');
SELECT * FROM check_top('SELECT id, t FROM pair_t ORDER BY t COLLATE "C", upper(t), id');
SELECT * FROM check_top('SELECT id, v FROM pair_t ORDER BY t COLLATE "C", id');
SELECT * FROM check_top('SELECT t FROM pair_t ORDER BY t COLLATE "C" FETCH FIRST 3 ROWS WITH TIES');
SELECT * FROM check_top('SELECT id, t FROM pair_t ORDER BY t COLLATE "C", id FOR UPDATE');
SELECT * FROM check_top('SELECT id, t FROM (SELECT id, t FROM pair_t ORDER BY t COLLATE "C", id OFFSET 0) s');

-- past work_mem, backwards, and kept by a node above
SET work_mem = '64kB';
SELECT * FROM check_top('SELECT * FROM pair_t ORDER BY t COLLATE "C", id');
RESET work_mem;
BEGIN;
DECLARE pair_c SCROLL CURSOR WITH HOLD FOR SELECT id, t FROM pair_t ORDER BY t COLLATE "C" DESC, id;
FETCH 3 FROM pair_c;
FETCH BACKWARD 2 FROM pair_c;
COMMIT;
FETCH LAST FROM pair_c;
CLOSE pair_c;
CREATE TABLE pair_new AS SELECT t, id FROM pair_t ORDER BY t COLLATE "C", id;
\d pair_new
SELECT count(*), bool_and(t COLLATE "C" >= before) AS in_order
FROM (SELECT t, lag(t) OVER (ORDER BY ctid) AS before FROM pair_new) s;
CREATE FUNCTION pair_f(OUT t text, OUT id int) RETURNS SETOF record LANGUAGE sql AS
$$ SELECT t, id FROM pair_t ORDER BY t COLLATE "C" DESC, id LIMIT 3 $$;
SELECT * FROM pair_f();
PREPARE pair_p(int) AS SELECT t FROM pair_t WHERE id < $1 ORDER BY t COLLATE "C";
EXECUTE pair_p(4);
DEALLOCATE pair_p;
DROP FUNCTION pair_f, check_top, rows_of_top;
DROP TABLE pair_t, pair_new;
