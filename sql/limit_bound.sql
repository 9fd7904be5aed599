-- Which LIMIT expressions bound a GpuSort: the sort evaluates the expression once more.
LOAD 'gpusort';
SET gpusort.min_rows = 0;
SET jit = off;
SET max_parallel_workers_per_gather = 0;
\set VERBOSITY terse

CREATE TABLE bound1 AS SELECT i AS id, mix(i) % 10 AS k FROM generate_series(1, 5000) i;
CREATE TABLE bound2 AS SELECT i + 5000 AS id, mix(i) % 10 AS k FROM generate_series(1, 5000) i;
ANALYZE bound1, bound2;

-- the setting changes while the cursor is open: PostgreSQL has already evaluated the LIMIT
BEGIN;
SET LOCAL my.n = '100';
DECLARE c CURSOR FOR SELECT id FROM ((SELECT id FROM bound1 WHERE id <= 50 ORDER BY k)
	UNION ALL (SELECT id FROM bound2 ORDER BY k)) u
	LIMIT current_setting('my.n')::int;
MOVE 1 FROM c;
\echo :ROW_COUNT
SET LOCAL my.n = '1';
MOVE ALL FROM c;
\echo :ROW_COUNT
COMMIT;
-- the setting changes within one statement
SET my.n = '100';
SELECT count(*), min(changed) FROM (
	SELECT id, set_config('my.n', '1', false) AS changed
	FROM ((SELECT id FROM bound1 WHERE id <= 50 ORDER BY k) UNION ALL (SELECT id FROM bound2 ORDER BY k)) u
	LIMIT current_setting('my.n')::int) s;

-- a function with a side effect is called once
CREATE FUNCTION bound_says(n int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS
$$ BEGIN RAISE NOTICE 'bound %', n; RETURN n; END $$;
SET plan_cache_mode = force_generic_plan;
PREPARE says (int) AS SELECT count(*) FROM (SELECT id FROM bound1 ORDER BY k
	LIMIT bound_says($1) OFFSET bound_says(1)) s;
EXECUTE says (5);
CREATE DOMAIN bound_domain AS int CHECK (bound_says(VALUE) > 0);
PREPARE domain_says (int) AS SELECT count(*) FROM (SELECT id FROM bound1 ORDER BY k LIMIT $1::bound_domain) s;
EXECUTE domain_says (5);

-- which expressions are used as a bound
CREATE FUNCTION bound_taken(expr text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	nodes text;
	got bigint[];
	want bigint[];
BEGIN
	EXECUTE format('PREPARE taken (int) AS SELECT array_agg(id) FROM (SELECT id FROM bound1 ORDER BY k, id LIMIT %s) s',
		expr);
	nodes := sort_nodes('EXECUTE taken (7)');
	EXECUTE 'EXECUTE taken (7)' INTO got;
	DEALLOCATE taken;
	SET gpusort.enable = off;
	EXECUTE format('PREPARE taken (int) AS SELECT array_agg(id) FROM (SELECT id FROM bound1 ORDER BY k, id LIMIT %s) s',
		expr);
	EXECUTE 'EXECUTE taken (7)' INTO want;
	DEALLOCATE taken;
	RESET gpusort.enable;
	RETURN format('%s, %s', nodes, CASE WHEN got IS NOT DISTINCT FROM want THEN 'same' ELSE 'DIFFERENT' END);
END $$;
SELECT expr, bound_taken(expr)
FROM unnest(ARRAY[
	'3', '$1', '$1 + 3', '$1::bigint * 2', 'abs(-$1)', 'coalesce($1, 10)', 'least($1, 4)', 'NULL',
	'CASE WHEN $1 > 5 THEN 2 ELSE $1 END', 'CASE $1 WHEN 7 THEN 1 END', 'CASE WHEN $1 IS NULL OR NOT $1 < 9 THEN 5 END',
		'(SELECT count(*) FROM bound2 WHERE id < 5009)',
	'current_setting(''my.n'')::int', '$1 + (random() * 0)::int', 'bound_says($1)', '$1::bound_domain',
	'extract(year FROM now())::int - 2000', 'length($1::text)']) WITH ORDINALITY AS u (expr, i)
ORDER BY i;
SET client_min_messages = debug1;
EXPLAIN (COSTS OFF) SELECT id FROM bound1 ORDER BY k LIMIT current_setting('my.n')::int;
RESET client_min_messages;
RESET plan_cache_mode;

DROP TABLE bound1, bound2;
DROP DOMAIN bound_domain;
DROP FUNCTION bound_says, bound_taken;
