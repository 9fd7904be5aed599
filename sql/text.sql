-- Strings as keys: the order of every collation, with exact and inexact normalized keys.
LOAD 'gpusort';
SET gpusort.min_rows = 0;
SET max_parallel_workers_per_gather = 0;

-- strings that differ around the eighth and the sixteenth byte
CREATE TABLE edges AS
SELECT row_number() OVER () AS seq, s AS t, s::varchar(40) AS v, s::char(30) AS c, left(s, 40)::name AS n,
	convert_to(s, 'UTF8') || decode(repeat('00', (row_number() OVER () % 3)::int), 'hex') AS b,
		(mix(row_number() OVER ()) % 5)::int AS k
FROM (SELECT s FROM (
		SELECT repeat('a', l) || e AS s FROM generate_series(0, 20) l,
			unnest(ARRAY['', ' ', '  ', 'a', 'b', 'B', E'\x01', '~', 'á', '日', U&'\+10FFFF']) e
		UNION ALL SELECT e || repeat('z', l) FROM generate_series(0, 9) l,
			unnest(ARRAY['cote', 'côte', 'coté', 'co-op', 'coop', 'CO-OP', 'e' || U&'\0301', 'é', 'ss', 'ß',
				'a' || chr(127), ' a', NULL]) e
		UNION ALL SELECT NULL FROM generate_series(1, 7)) x, generate_series(1, 3)
	ORDER BY md5(coalesce(s, '')), 1) y;
ANALYZE edges;

-- Every string type in every collation, in both directions, in memory and past work_mem; returns the differences.
CREATE FUNCTION check_strings(tab text) RETURNS TABLE (what text, result text) LANGUAGE plpgsql AS $$
DECLARE
	r record;
BEGIN
	FOR r IN
		SELECT c.col || coalesce(' COLLATE ' || quote_ident(l.collname), '') || d.direction AS keys, m.mem, c.col
		FROM unnest(ARRAY['t', 'v', 'c', 'n', 'b']) c(col)
			JOIN (SELECT NULL UNION ALL SELECT collname FROM pg_collation
				WHERE collname IN ('C', 'C.utf8', 'en_US.utf8', 'en-x-icu', 'loose')) l(collname) ON c.col <> 'b'
					OR l.collname IS NULL,
			unnest(ARRAY['', ' DESC', ' DESC NULLS LAST']) d(direction), unnest(ARRAY['64kB', '4MB']) m(mem)
	LOOP
		PERFORM set_config('work_mem', r.mem, false);
		what := r.keys || ' in ' || r.mem;
		result := (SELECT nodes || ' ' || x.result FROM check_stable(tab, r.keys) x);
		IF result <> 'GpuSort same' THEN
			RETURN NEXT;
		END IF;
		-- rows with equal first columns are compared by the next column
		result := (SELECT nodes || ' ' || x.result FROM check_stable(tab, 'k, ' || r.keys || ', n DESC') x);
		IF result <> 'GpuSort same' THEN
			RETURN NEXT;
		END IF;
		result := (SELECT nodes || ' ' || x.result FROM check_stable(tab, r.keys || ', k DESC NULLS FIRST, b') x);
		IF result <> 'GpuSort same' THEN
			RETURN NEXT;
		END IF;
		result := (SELECT nodes || ' ' || x.result
			FROM check_sort('SELECT * FROM ' || tab || ' ORDER BY ' || r.keys || ', seq LIMIT 20 OFFSET 10') x);
		IF result <> 'GpuSort same' THEN
			RETURN NEXT;
		END IF;
	END LOOP;
	RESET work_mem;
END $$;

-- strings that are equal although their bytes differ, if the server supports them
DO $$
BEGIN
	IF EXISTS (SELECT 1 FROM pg_collation WHERE collname = 'en-x-icu') THEN
		CREATE COLLATION loose (provider = icu, locale = 'und-u-ks-level1', deterministic = false);
	END IF;
END $$;
SELECT * FROM check_strings('edges');

-- The prefix that all strings have in common is not part of the key; the key is exact if the remaining bytes fit.
CREATE TABLE prefixed AS SELECT i AS seq, 'customer#' || mix(i) % 1000 AS t, (mix(i) % 7)::int AS k
	FROM generate_series(1, 6000) i;
ANALYZE prefixed;
SELECT sort_route('SELECT * FROM prefixed ORDER BY t COLLATE "C"') ~ '\d+-bit keys, 6000 rows' AS exact;
SELECT * FROM check_stable('prefixed', 't COLLATE "C"');
SELECT sort_route('SELECT * FROM prefixed ORDER BY t COLLATE "C", k DESC') ~ '\d+-bit keys, 6000 rows' AS exact;
SELECT * FROM check_stable('prefixed', 't COLLATE "C", k DESC');
-- C.UTF-8 has the route of C
SELECT count(*) FILTER (WHERE sort_route(format('SELECT * FROM prefixed ORDER BY t COLLATE %I', collname)) <>
	sort_route('SELECT * FROM prefixed ORDER BY t COLLATE "C"')) AS different FROM pg_collation
		WHERE collname IN ('POSIX', 'C.utf8', 'C.UTF-8');
-- later rows have a shorter prefix in common, then none
INSERT INTO prefixed VALUES (6001, 'customer', 1), (6002, 'custom-made', 2), (6003, NULL, 3);
INSERT INTO prefixed SELECT i, 'customer#' || mix(i) % 1000, 4 FROM generate_series(6004, 9000) i;
INSERT INTO prefixed VALUES (9001, 'bustle', 1), (9002, 'dust', 2);
INSERT INTO prefixed SELECT i, 'customer#' || mix(i) % 1000, 4 FROM generate_series(9003, 12000) i;
INSERT INTO prefixed VALUES (12001, '', 1), (12002, 'customers', 1), (12003, E'\x01', 1);
ANALYZE prefixed;
SELECT * FROM check_stable('prefixed', 't COLLATE "C"');
SELECT * FROM check_stable('prefixed', 't COLLATE "C" DESC NULLS LAST, k');
SET work_mem = '64kB';
SELECT * FROM check_stable('prefixed', 't COLLATE "C"');
SELECT * FROM check_stable('prefixed', 't COLLATE "C" DESC, k DESC');
RESET work_mem;
-- few wanted rows: the cutoff is set before the common prefix changes
SELECT * FROM check_sort('SELECT * FROM prefixed ORDER BY t COLLATE "C", seq LIMIT 40');
SELECT * FROM check_sort('SELECT * FROM prefixed ORDER BY t COLLATE "C" DESC, seq LIMIT 40');
SELECT * FROM check_sort('SELECT * FROM prefixed ORDER BY t COLLATE "C" DESC NULLS LAST, k, seq LIMIT 1100');
SET work_mem = '64kB';
SELECT * FROM check_sort('SELECT * FROM prefixed ORDER BY t COLLATE "C" DESC NULLS LAST, k, seq LIMIT 2000');
RESET work_mem;

-- An inexact key of a string: the next column must not decide before the string.
CREATE TABLE long_common AS SELECT i AS seq, 'eight...eight and more ' || mix(i) % 40 AS t, (mix(i * 3) % 11)::int AS k,
	'x' || mix(i) % 3 AS u,
	CASE WHEN i % 5 > 0 THEN md5((i % 50)::text) END AS h FROM generate_series(1, 5000) i;
INSERT INTO long_common VALUES (5001, 'another', 1, 'y', '');
ANALYZE long_common;
SELECT sort_route('SELECT * FROM long_common ORDER BY t COLLATE "C", k') ~
	'keys \(prefix\), 5001 rows.* 5000 ties compared' AS inexact;
SELECT * FROM check_stable('long_common', 't COLLATE "C", k');
SELECT * FROM check_stable('long_common', 't COLLATE "C" DESC, k DESC');
SELECT * FROM check_stable('long_common', 'k, t COLLATE "C", h DESC');
SELECT * FROM check_stable('long_common', 'h COLLATE "C", t COLLATE "C" DESC, u');
SELECT * FROM check_stable('long_common', 'h COLLATE "C" NULLS FIRST, u COLLATE "C", k');
SELECT * FROM check_sort('SELECT h, t, k, seq FROM long_common ORDER BY h COLLATE "C" DESC, t COLLATE "C", k, seq
	LIMIT 100');

-- strings that are compressed, or stored out of line
CREATE TABLE toasted AS SELECT i AS seq, CASE i % 4 WHEN 0 THEN repeat('compressed ', 1000) || mix(i) % 5
	WHEN 1 THEN (SELECT string_agg(md5(g::text), '') FROM generate_series(1, 150) g) || mix(i) % 5
	WHEN 2 THEN repeat('compressed ', (mix(i) % 3)::int) ELSE 'c' || mix(i) % 9 END AS t, (mix(i) % 3)::int AS k
		FROM generate_series(1, 400) i;
ANALYZE toasted;
SELECT * FROM check_stable('toasted', 't COLLATE "C", k');
SELECT * FROM check_stable('toasted', 'k, t COLLATE "C" DESC');
SELECT * FROM check_stable('toasted', 'convert_to(t, ''UTF8'') DESC, k');
SELECT * FROM check_sort('SELECT * FROM toasted ORDER BY t COLLATE "C", seq LIMIT 7');

-- bytea values with zero bytes
CREATE TABLE zeros AS SELECT i AS seq, CASE WHEN i % 10 > 0
	THEN decode(repeat('61', (mix(i) % 10)::int) || repeat('00', (mix(i * 7) % 5)::int) ||
	(ARRAY['', '', '61', '0061', 'ff'])[1 + mix(i * 3) % 5], 'hex') END AS b, (mix(i) % 3)::int AS k
		FROM generate_series(1, 3000) i;
ANALYZE zeros;
SELECT * FROM check_stable('zeros', 'b, k');
SELECT * FROM check_stable('zeros', 'b DESC NULLS LAST, k');
SELECT * FROM check_stable('zeros', 'k, b DESC');

-- pattern operator classes order by bytes
SELECT * FROM check_stable('edges', 't USING ~<~');
SELECT * FROM check_stable('edges', 't USING ~>~, k');
SELECT * FROM check_stable('edges', 'c USING ~<~');

-- both directions, mark and restore, and keys behind columns of varying length on a page
SET enable_hashjoin = off;
SET enable_nestloop = off;
SET enable_material = off;
SELECT * FROM check_sort('SELECT a.seq, b.seq FROM prefixed a JOIN prefixed b ON a.t = b.t AND a.k = b.k
	WHERE a.seq < 2000 AND b.seq < 3000 ORDER BY 1, 2');
RESET enable_hashjoin;
RESET enable_nestloop;
RESET enable_material;
CREATE TABLE behind AS SELECT i AS seq, repeat('v', (mix(i) % 300)::int) AS v, CASE WHEN i % 6 > 0
	THEN i::numeric END AS m, md5(i::text) AS t,
	mix(i)::int8 AS k FROM generate_series(1, 3000) i;
ANALYZE behind;
SELECT * FROM check_stable('behind', 't COLLATE "C"');
SELECT * FROM check_stable('behind', 'v COLLATE "C" DESC, k');
SELECT * FROM check_stable('behind', 'k, t COLLATE "C"');
SELECT * FROM check_sort('SELECT t, v, seq FROM behind ORDER BY t COLLATE "C" LIMIT 9');
DROP TABLE edges, prefixed, long_common, toasted, zeros, behind;
DROP FUNCTION check_strings;
