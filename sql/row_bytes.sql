-- Stored rows are byte for byte those of the stock server: tables made from sorted queries are compared by the tuples
-- in their files.
LOAD 'gpusort';
SET gpusort.min_rows = 0;
SET jit = off;
SET max_parallel_workers_per_gather = 0;
SET enable_indexscan = off;
SET work_mem = '64MB';

-- The tuples of a table without transaction fields: number of columns, flags for NULLs and varlenas, and all bytes from
-- t_hoff on.  A new table gets new toast pointers, so rows with toasted values are compared by their length only.
CREATE FUNCTION raw_rows(tab regclass) RETURNS bytea[] LANGUAGE plpgsql AS $$
DECLARE
	file bytea := pg_read_binary_file(pg_relation_filepath(tab));
	r bytea[] := '{}';
	page int := 0;
	item int;
	tup bytea;
	size int := current_setting('block_size');
BEGIN
	WHILE page < length(file) LOOP
		FOR i IN 0 .. (get_byte(file, page + 12) + get_byte(file, page + 13) * 256 - 24) / 4 - 1 LOOP
			item := page + 24 + i * 4;
			tup := substring(file FROM page + 1 + (get_byte(file, item) + get_byte(file, item + 1) * 256) % 32768
				FOR get_byte(file, item + 3) * 128 + get_byte(file, item + 2) / 2);
			r := r || (set_byte(set_byte(substring(tup FROM 19 FOR 3), 1, get_byte(tup, 19) & 7), 2,
				get_byte(tup, 20) & 7)
				|| CASE WHEN get_byte(tup, 20) & 4 > 0 THEN int4send(length(tup)) ELSE substring(tup FROM 23) END);
		END LOOP;
		page := page + size;
	END LOOP;
	RETURN r;
END $$;

-- A query's rows: how many come from pages, and how many differ.
CREATE FUNCTION check_bytes(query text, OUT nodes text, OUT "rows" bigint, OUT by_page boolean, OUT differ bigint,
	OUT first text)
LANGUAGE plpgsql AS $$
DECLARE
	plan jsonb := executed_sort(query);
	want bytea[];
	got bytea[];
	want_text text[];
	got_text text[];
BEGIN
	by_page := (plan ->> 'Sort Rows by Page')::bigint > (plan ->> 'Actual Rows')::numeric / 2;
	nodes := sort_nodes(query);
	PERFORM set_config('gpusort.enable', 'off', false);
	EXECUTE 'CREATE TABLE bytes_want AS ' || query;
	PERFORM set_config('gpusort.enable', 'on', false);
	EXECUTE 'CREATE TABLE bytes_got AS ' || query;
	CHECKPOINT;
	want := raw_rows('bytes_want');
	got := raw_rows('bytes_got');
	SELECT array_agg(t::text) INTO want_text FROM bytes_want t;
	SELECT array_agg(t::text) INTO got_text FROM bytes_got t;
	DROP TABLE bytes_want, bytes_got;
	"rows" := cardinality(want);
	SELECT count(*), min(format('%s: %s, want %s', n, left(g::text, 300), left(w::text, 300))) INTO differ, first
	FROM unnest(want, got, want_text, got_text) WITH ORDINALITY u (w, g, wt, gt, n)
	WHERE w IS DISTINCT FROM g OR wt IS DISTINCT FROM gt;
END $$;

-- every kind of column; short, long, compressed and toasted values; NULLs in every column
CREATE TYPE pair AS (x int2, y text);
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
CREATE TABLE kinds (id int4, b bool, s text, f float8, c "char", n numeric, u uuid, w name, r pair, a int4[], d date,
	k int2, v varchar, j jsonb, i interval, m mood, t time, by bytea, n2 int8, bits varbit, dd timestamptz, e text);
ALTER TABLE kinds ALTER COLUMN e SET STORAGE EXTERNAL;
CREATE FUNCTION some_text(i int4) RETURNS text LANGUAGE sql IMMUTABLE AS $$
	SELECT CASE i % 23
		WHEN 0 THEN '' WHEN 1 THEN repeat('x', 125) WHEN 2 THEN repeat('x', 126) WHEN 3 THEN repeat('x', 127)
		WHEN 4 THEN repeat('x', 128) WHEN 5 THEN repeat('long ' || i, 700) WHEN 6 THEN repeat('y', i % 2000)
		WHEN 7 THEN (SELECT string_agg(md5((i + g)::text), '') FROM generate_series(1, 90) g)
		ELSE repeat('ab', i % 11) END $$;
INSERT INTO kinds SELECT i, i % 2 = 1, some_text(i), i / 7.0, chr(65 + i % 26)::"char", i * 1.25, md5(i::text)::uuid,
	('n' || i)::name, ROW(i % 100, 'y' || i)::pair, ARRAY[i, NULL, i % 5], '2000-01-01'::date + i, mix(i) % 1000,
		'v' || i,
	jsonb_build_object('i', i, 's', some_text(i / 3)), i * interval '1 min',
		(ARRAY['sad', 'ok', 'happy'])[1 + i % 3]::mood,
	time '00:00' + i * interval '1 s', decode(md5(i::text), 'hex'), mix(i * 7), (i % 256)::bit(8)::varbit,
	timestamptz '2020-01-01 00:00+00' + i * interval '1 h', some_text(i + 3)
FROM generate_series(1, 1500) i;
INSERT INTO kinds SELECT i, CASE WHEN i % 2 > 0 THEN true END, CASE WHEN i % 3 > 0 THEN some_text(i) END, CASE
	WHEN i % 4 > 0 THEN i END,
	CASE WHEN i % 5 > 0 THEN 'c'::"char" END, CASE WHEN i % 6 > 0 THEN i END, CASE WHEN i % 7 > 0
		THEN md5(i::text)::uuid END,
	CASE WHEN i % 8 > 0 THEN 'n'::name END, CASE WHEN i % 9 > 0 THEN ROW(i % 9, NULL)::pair END, CASE WHEN i % 10 > 0
		THEN '{}'::int4[] END,
	CASE WHEN i % 11 > 0 THEN date '2000-01-01' + i END, CASE WHEN i % 12 > 0 THEN i END, CASE WHEN i % 13 > 0
		THEN 'v' END,
	CASE WHEN i % 14 > 0 THEN '{}'::jsonb END, CASE WHEN i % 15 > 0 THEN interval '1 s' END, CASE WHEN i % 16 > 0
		THEN 'ok'::mood END,
	CASE WHEN i % 17 > 0 THEN time '12:00' END, CASE WHEN i % 18 > 0 THEN '\x01'::bytea END, CASE WHEN i % 19 > 0
		THEN i END
FROM generate_series(2001, 2600) i;
INSERT INTO kinds (id) SELECT i FROM generate_series(3001, 3100) i;
ANALYZE kinds;

-- small values with 4-byte headers: stored with STORAGE PLAIN, which is changed later
CREATE TABLE plain_then (id int4, p text, k int4, q text);
ALTER TABLE plain_then ALTER COLUMN p SET STORAGE PLAIN, ALTER COLUMN q SET STORAGE PLAIN;
INSERT INTO plain_then SELECT i, repeat('p', i % 140), mix(i) % 50, 'q' || i FROM generate_series(1, 600) i;
ALTER TABLE plain_then ALTER COLUMN p SET STORAGE EXTENDED;
INSERT INTO plain_then SELECT i, repeat('p', i % 140), mix(i) % 50, 'q' || i FROM generate_series(601, 900) i;
ANALYZE plain_then;

-- columns added later, with and without a default, and dropped columns
CREATE TABLE late (gone text, id int4, gone2 int8, k int4, s text);
INSERT INTO late SELECT 'gone', i, i, mix(i) % 100, 's' || i FROM generate_series(1, 400) i;
ALTER TABLE late DROP COLUMN gone;
INSERT INTO late SELECT i, i, mix(i) % 100, 's' || i FROM generate_series(401, 800) i;
ALTER TABLE late ADD COLUMN l1 int8 DEFAULT 7, ADD COLUMN l2 text DEFAULT 'late', ADD COLUMN l3 text,
	ADD COLUMN l4 text DEFAULT repeat('z', 200),
	ADD COLUMN l5 bool DEFAULT true, ADD COLUMN l6 int4[] DEFAULT '{1,2}', ADD COLUMN l7 int2,
		ADD COLUMN l8 numeric DEFAULT 1.5;
ALTER TABLE late DROP COLUMN gone2;
INSERT INTO late SELECT i, mix(i) % 100, 's', i, NULL, 'l3', 'l4', NULL, NULL, 3, i FROM generate_series(801, 1200) i;
ANALYZE late;

-- few rows per page, and one row
CREATE TABLE large (id int4, s1 text, k int4, s2 text);
ALTER TABLE large ALTER COLUMN s1 SET STORAGE PLAIN, ALTER COLUMN s2 SET STORAGE PLAIN;
INSERT INTO large SELECT i, repeat('1', (mix(i) % 4000)::int), mix(i) % 40, repeat('2', (mix(i * 3) % 4000)::int)
	FROM generate_series(1, 300) i;
ANALYZE large;

CREATE TABLE checks (q text);
INSERT INTO checks VALUES
	('SELECT * FROM kinds ORDER BY k, id'),
	('SELECT id, b, s, f, c, n, u, w, r, a, d, k, v FROM kinds ORDER BY k, id'),
	('SELECT e, dd, bits, n2, by, t, m, i, j, v, k, d, a, r, w, u, n, c, f, s, b, id FROM kinds ORDER BY dd, id'),
	('SELECT s, id FROM kinds ORDER BY id'),
	('SELECT s, v, e, id FROM kinds ORDER BY id DESC'),
	('SELECT id, s, f, c FROM kinds ORDER BY f DESC, id'),
	('SELECT b, c, k, id, n2 FROM kinds ORDER BY n2 NULLS FIRST, id'),
	('SELECT c, id AS i1, c AS c1, s AS s1, id AS i2, s AS s2, k FROM kinds ORDER BY k, id'),
	('SELECT u, w, id FROM kinds WHERE b ORDER BY id'),
	('SELECT id, f, n, u FROM kinds ORDER BY f, id'),
	('SELECT j, a, r, id, e FROM kinds WHERE length(s) > 3 ORDER BY id'),
	('SELECT k, id FROM kinds ORDER BY k, id'),
	('SELECT p, id, q, k FROM plain_then ORDER BY k, id'),
	('SELECT q, p, id FROM plain_then ORDER BY id'),
	('SELECT * FROM plain_then ORDER BY k DESC, id'),
	('SELECT * FROM late ORDER BY k, id'),
	('SELECT l8, l7, l6, l5, l4, l3, l2, l1, s, k, id FROM late ORDER BY k, id'),
	('SELECT id, l1, l7 FROM late ORDER BY l1, id'),
	('SELECT l2, l7, l3, id FROM late ORDER BY l7, id'),
	('SELECT s, k, id FROM late ORDER BY k, id'),
	('SELECT s2, k, id, s1 FROM large ORDER BY k, id'),
	('SELECT s1, id FROM large ORDER BY id'),
	-- the same bytes under another type or collation
	('SELECT v::text AS vt, id, s COLLATE "C" AS sc, v FROM kinds ORDER BY s COLLATE "C", id'),
	-- computed rows
	('SELECT id, upper(s) AS s, f * 2 AS f, k + 1 AS k, r, a || 5 AS a FROM kinds ORDER BY k, id'),
	('SELECT kinds AS row, id, ctid AS at, tableoid AS tab FROM kinds ORDER BY id DESC'),
	('SELECT id % 7 AS key, s || v AS sv, NULL::text AS nothing, 5 AS five, id FROM kinds WHERE id % 3 > 0
		ORDER BY 1, id'),
	('SELECT l2 || id AS l2, l1, coalesce(l7, 3::int2) AS l7, id FROM late ORDER BY l7, id'),
	('SELECT (r).x, (r).y, id, (SELECT count(*) FROM plain_then p WHERE p.id < kinds.id % 10) AS n FROM kinds
		ORDER BY id');

SELECT q, c.nodes, c.rows, c.by_page, c.differ, c.first FROM checks, check_bytes(q) c;

-- rows of other nodes: joins, aggregates, functions, unions
CREATE FUNCTION some_rows() RETURNS TABLE (n int4, a int4[], s text) LANGUAGE plpgsql AS $$
BEGIN
	a := '{}';
	FOR i IN 1 .. 150 LOOP
		a := a || i;
		n := mix(i) % 20;
		s := CASE WHEN i % 4 > 0 THEN repeat('s', i) END;
		RETURN NEXT;
	END LOOP;
END $$;
CREATE TABLE checks_slot (q text);
INSERT INTO checks_slot VALUES
	('SELECT a.id, a.s, b.v, b.k, a.r, b.n FROM kinds a JOIN kinds b ON a.id = b.id ORDER BY b.k, a.id'),
	('SELECT a.id, a.p, b.q, b.e, b.b, b.c FROM plain_then a LEFT
		JOIN (SELECT k::int4 AS k, id, v AS q, e, b, c FROM kinds) b ON a.id = b.id ORDER BY a.id'),
	('SELECT k, count(*) AS n, max(s) AS s, bool_and(b) AS b, min(c::text)::"char" AS c FROM kinds GROUP BY k
		ORDER BY n, k'),
	('SELECT n, a, s FROM some_rows() ORDER BY n, cardinality(a)'),
	('SELECT id, s FROM kinds UNION ALL SELECT -id, p FROM plain_then UNION ALL SELECT n, s
		FROM (SELECT cardinality(a) + 5000 AS n, s FROM some_rows()) f ORDER BY 1'),
	('SELECT * FROM (SELECT id, p FROM plain_then UNION ALL SELECT i, ''v'' FROM generate_series(1000, 1100) i) u
		ORDER BY id'),
	('WITH c AS MATERIALIZED (SELECT id, s, u, b FROM kinds) SELECT * FROM c ORDER BY id DESC'),
	('SELECT i % 10 AS k, i, ''text''::cstring::text AS t, NULL::int4 AS x FROM generate_series(1, 500) i
		ORDER BY 1, 2');
SELECT q, c.nodes, c.rows, c.differ, c.first FROM checks_slot, check_bytes(q) c;

-- the same from runs on disk
SET work_mem = '64kB';
SELECT count(*), sum(c.rows) AS rows, sum(c.differ) AS differ, string_agg(c.first, ' ') AS first
FROM (SELECT * FROM checks UNION ALL SELECT * FROM checks_slot) q, check_bytes(q) c;
SET work_mem = '64MB';

-- many columns: NULLs in any of them, columns in reverse order; one column more than a byte of the null bitmap has bits
CREATE FUNCTION check_columns(n int, OUT columns int, OUT nodes text, OUT "rows" bigint, OUT by_page boolean,
	OUT differ bigint, OUT first text)
LANGUAGE plpgsql AS $$
DECLARE
	types text[] := CASE WHEN n > 200 THEN '{int2,text,bool,"char",int4,int2}'
		ELSE '{int4,text,int2,int8,"char",float8}' END;
	cols text;
	vals text;
	back text;
BEGIN
	columns := n;
	SELECT string_agg(format('c%s %s', i, types[1 + mix(i + n) % 6]), ', ' ORDER BY i),
		string_agg(format('CASE WHEN i %% %s > 0 THEN (i %% 2)::text::%s END', 2 + i % 7, types[1 + mix(i + n) % 6]),
			', ' ORDER BY i),
		string_agg('c' || i, ', ' ORDER BY -i)
	INTO cols, vals, back FROM generate_series(1, n - 1) i;
	EXECUTE format('CREATE TABLE many (id int4%s)', coalesce(', ' || cols, ''));
	EXECUTE format('INSERT INTO many SELECT i%s FROM generate_series(1, 300) i', coalesce(', ' || vals, ''));
	EXECUTE format('INSERT INTO many SELECT i%s FROM generate_series(301, 600) i',
		coalesce(', ' || regexp_replace(vals, 'CASE WHEN i % \d+ > 0', 'CASE WHEN true', 'g'), ''));
	ANALYZE many;
	SELECT c.* INTO nodes, "rows", by_page, differ, first
		FROM check_bytes(format('SELECT id%s FROM many ORDER BY id', coalesce(', ' || back, ''))) c;
	DROP TABLE many;
END $$;
SELECT c.* FROM unnest('{1,2,3,7,8,9,10,63,64,65,66,200,1600}'::int[]) n, check_columns(n) c;

DROP TABLE kinds, plain_then, late, large, checks, checks_slot;
DROP FUNCTION raw_rows, check_bytes, check_columns, some_text, some_rows;
DROP TYPE pair, mood;
