-- Columns beside the keys: every kind of row is returned unchanged.
LOAD 'gpusort';
SET gpusort.min_rows = 0;
SET jit = off;
SET max_parallel_workers_per_gather = 0;

-- values stored out of line, compressed, NULL, dropped, generated
CREATE TABLE row_t (id int, gone text, k int, t text, b bytea, a int[], n numeric, j jsonb,
	g int GENERATED ALWAYS AS (id * 2) STORED, bits varbit, u uuid, i interval, p point);
ALTER TABLE row_t ALTER t SET STORAGE EXTERNAL;
INSERT INTO row_t (id, gone, k, t, b, a, n, j, bits, u, i, p)
SELECT i, 'x', (mix(i) % 50)::int,
	CASE WHEN i % 7 <> 0 THEN repeat(i::text, (mix(i) % 3000)::int) END,
	CASE WHEN i % 5 <> 0 THEN decode(repeat('00ff', (mix(i * 3) % 2000)::int), 'hex') END,
	CASE WHEN i % 3 <> 0 THEN ARRAY[i, NULL, -i] END,
	(mix(i) / 7.0)::numeric, jsonb_build_object('i', i, 'l', ARRAY[1, i]),
	repeat('10', i % 40)::varbit, md5(i::text)::uuid, i * interval '1 hour', point(i, -i)
FROM generate_series(1, 500) i;
ALTER TABLE row_t DROP COLUMN gone;
ALTER TABLE row_t ADD COLUMN late text DEFAULT 'late';
ANALYZE row_t;
SELECT mem, c.*
FROM unnest('{64kB,1MB,64MB}'::text[]) WITH ORDINALITY AS m (mem, n), set_config('work_mem', mem, false),
	check_sort('SELECT * FROM row_t ORDER BY k DESC, id') c
ORDER BY n;
RESET work_mem;
-- whole rows, records, nothing at all, system columns
SELECT * FROM check_sort('SELECT row_t FROM row_t ORDER BY k, id');
SELECT * FROM check_sort('SELECT (id, k, t) FROM row_t ORDER BY k, id');
SELECT count(*) FROM (SELECT FROM row_t ORDER BY k) s;
SELECT * FROM check_sort('SELECT ctid, tableoid, xmin FROM row_t ORDER BY k DESC, id');
SELECT * FROM check_sort('SELECT FROM row_t ORDER BY k');
-- no table
SELECT * FROM check_sort('SELECT * FROM (VALUES (3, ''c''), (1, ''a''), (2, NULL)) v (n, t) ORDER BY n DESC');
SELECT * FROM check_sort('SELECT i, i::text AS t FROM generate_series(1, 1000) i ORDER BY i % 10, i');
SELECT * FROM check_sort('SELECT (e).* FROM (SELECT row_t AS e FROM row_t ORDER BY k, id) s');
-- many columns, most of them NULL
DO $$ BEGIN
	EXECUTE 'CREATE TABLE columns_t (id int, ' || (SELECT string_agg(format('c%s int8', i), ', ')
		FROM generate_series(1, 800) i) || ')';
	EXECUTE 'INSERT INTO columns_t (id, c1, c77, c800) SELECT i, i % 5, i, -i FROM generate_series(1, 200) i';
END $$;
ANALYZE columns_t;
SELECT * FROM check_sort('SELECT * FROM columns_t ORDER BY c1, c800');
SELECT * FROM check_sort('SELECT * FROM columns_t ORDER BY c77 DESC, c500');
-- expanded arrays of PL/pgSQL
CREATE FUNCTION row_arrays() RETURNS TABLE (n int, a int[]) LANGUAGE plpgsql AS $$
BEGIN
	a := '{}';
	FOR n IN 1..100 LOOP
		a := a || n;
		row_arrays.n := n % 10;
		RETURN NEXT;
	END LOOP;
END $$;
SELECT * FROM check_sort('SELECT n, a, a[1:3] AS s FROM row_arrays() ORDER BY n DESC, cardinality(a)');
-- large and small rows, past work_mem
SET work_mem = '64kB';
SELECT * FROM check_sort('SELECT i, md5(p)
	FROM (SELECT i, repeat(chr(64 + i), CASE WHEN i % 4 = 0 THEN 20000000 ELSE 3 END) AS p FROM generate_series(1, 12) i
	ORDER BY -i) s');
RESET work_mem;
-- views
CREATE VIEW row_v AS SELECT k, id FROM row_t ORDER BY k, id;
SELECT * FROM check_sort('SELECT * FROM row_v');
CREATE MATERIALIZED VIEW row_m AS SELECT k, id FROM row_t ORDER BY k DESC, id;
SELECT * FROM check_sort('SELECT * FROM row_m');
SELECT bool_and((k, -id) <= (pk, -pid)) AS ordered
FROM (SELECT k, id, lag(k) OVER w AS pk, lag(id) OVER w AS pid FROM row_m WINDOW w AS (ORDER BY ctid)) s;

DROP VIEW row_v;
DROP MATERIALIZED VIEW row_m;
DROP TABLE row_t, columns_t;
DROP FUNCTION row_arrays;
