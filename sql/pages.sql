-- Rows that a sort reads from a scan's pages, without going through the scan node.
LOAD 'gpusort';
SET gpusort.min_rows = 0;
SET jit = off;
SET max_parallel_workers_per_gather = 0;
SET work_mem = '64MB';

-- The child of the sort, the number of its rows, and how many the sort read from pages.
CREATE FUNCTION page_rows(query text, OUT child text, OUT scanned bigint, OUT by_page bigint)
LANGUAGE plpgsql AS $$
DECLARE
	plan jsonb := executed_sort(query);
BEGIN
	by_page := (plan ->> 'Sort Rows by Page')::bigint;
	plan := jsonb_path_query_first(plan, '$.Plans[*] ? (@."Parent Relationship" == "Outer")');
	child := plan ->> 'Node Type';
	scanned := (plan ->> 'Actual Rows')::numeric;
END $$;

-- Keys at fixed offsets and behind a text; NULLs before, in and behind the key; dropped columns, columns added later;
-- dead rows.
CREATE TABLE paged AS
SELECT i AS seq, (mix(i) % 1000)::int4 AS k, NULLIF(mix(i) % 7, 0)::int2 AS few,
	(mix(i * 3) % 100000 - 50000) / 7.0::float8 AS f,
	repeat('x', (mix(i) % 40)::int) AS t, (mix(i * 5) % 512)::int8 AS late, NULL::int4 AS nothing
FROM generate_series(1, 20000) i;
ALTER TABLE paged ADD COLUMN added int4 DEFAULT 42;
UPDATE paged SET added = seq % 5 WHERE seq % 3 = 0;
DELETE FROM paged WHERE seq % 11 = 0 OR seq BETWEEN 5000 AND 8000;
ANALYZE paged;
CREATE TABLE holed AS SELECT seq, few, k, late FROM paged;
ALTER TABLE holed DROP COLUMN few;
INSERT INTO holed SELECT seq + 100000, k, late FROM paged;
ANALYZE holed;
-- fixed-width columns only, some of which are returned
CREATE TABLE shaped AS SELECT seq, k::int2 AS small, f, chr(65 + k % 26)::"char" AS c, late, some_uuid, few
FROM paged, LATERAL (SELECT md5(seq::text)::uuid) u (some_uuid);
ANALYZE shaped;
SELECT count(*) FROM paged;

SELECT q, c.nodes, c.rows, c.result, p.child, p.scanned = c.rows AS all_scanned, p.scanned - p.by_page < 500 AS by_page
FROM unnest(ARRAY[
	'SELECT * FROM paged ORDER BY k, seq',
	'SELECT * FROM paged ORDER BY f DESC, seq',
	'SELECT * FROM paged ORDER BY few NULLS FIRST, seq',
	'SELECT * FROM paged ORDER BY late, nothing, added DESC, seq',
	'SELECT seq, added FROM paged ORDER BY added, seq',
	'SELECT k FROM paged ORDER BY k',
	'SELECT few, k FROM paged ORDER BY k, few DESC NULLS LAST',
	'SELECT late, nothing FROM paged ORDER BY nothing, late',
	'SELECT added FROM paged ORDER BY added',
	'SELECT t, late, seq FROM paged ORDER BY late, seq',
	'SELECT * FROM paged ORDER BY k, seq LIMIT 10',
	'SELECT * FROM paged ORDER BY few DESC NULLS LAST, seq LIMIT 100 OFFSET 50',
	'SELECT seq, t FROM paged ORDER BY late DESC, seq LIMIT 300',
	'SELECT * FROM holed ORDER BY late, seq',
	'SELECT k, late FROM holed ORDER BY late, k',
	'SELECT late, some_uuid, seq FROM shaped ORDER BY late DESC, seq',
	'SELECT c, small, c AS again, seq, f FROM shaped ORDER BY f, seq DESC',
	'SELECT few, c, seq FROM shaped ORDER BY c, seq']) q,
	check_sort(q) c, page_rows(q) p;

-- all of these past work_mem
SET work_mem = '64kB';
SELECT q, c.nodes, c.rows, c.result, p.scanned - p.by_page < 500 AS by_page
FROM unnest(ARRAY[
	'SELECT * FROM paged ORDER BY k, seq',
	'SELECT * FROM paged ORDER BY few NULLS FIRST, seq',
	'SELECT k FROM paged ORDER BY k',
	'SELECT seq, t FROM paged ORDER BY late DESC, seq LIMIT 3000']) q,
	check_sort(q) c, page_rows(q) p;
SET work_mem = '64MB';

-- rows with equal keys keep the order of the scan
CREATE TABLE scanned AS SELECT row_number() OVER () AS seq, k, few, late FROM paged;
SELECT c.* FROM unnest('{k,few DESC,late}'::text[]) keys, check_stable('scanned', keys) c;

-- filters
CREATE TEMP TABLE temporary AS SELECT seq, k, t FROM paged;
ANALYZE temporary;
SELECT q, c.nodes, c.rows, c.result, p.scanned = c.rows AND p.scanned - p.by_page < 300 AS by_page
FROM unnest(ARRAY[
	'SELECT * FROM paged WHERE k >= 0 ORDER BY k, seq',
	'SELECT seq, t FROM paged WHERE k % 3 = 1 AND length(t) > 5 ORDER BY late, seq',
	'SELECT small, f FROM shaped WHERE few IS NULL OR late = (SELECT max(late) FROM paged) ORDER BY small, f',
	'SELECT seq, k FROM paged WHERE ctid > ''(1,2)'' IS TRUE AND tableoid = ''paged''::regclass AND xmin::text <> ''0''
		ORDER BY k, seq',
	'SELECT * FROM temporary WHERE temporary::text ~ ''1'' ORDER BY k, seq',
	'SELECT k FROM paged WHERE seq > 20000 OR seq < 3 ORDER BY k',
	'SELECT * FROM paged WHERE t || ''x'' <> ''x'' ORDER BY late, seq LIMIT 20000']) q,
	check_sort(q) c, page_rows(q) p;
SELECT on_off, removed FROM unnest('{on,off}'::text[]) on_off, set_config('gpusort.enable', on_off, false),
	explain_analyze('SELECT * FROM paged WHERE k % 10 <> 3 ORDER BY f') removed WHERE removed ~ 'Removed';
SET gpusort.enable = on;
SELECT * FROM paged WHERE 1 / (seq - 9000) >= 0 ORDER BY k;

-- partitions with other column orders, other dropped columns, few rows, no rows
CREATE TABLE parts (seq int4, k int4, t text, late int8) PARTITION BY RANGE (seq);
CREATE TABLE part1 PARTITION OF parts FOR VALUES FROM (0) TO (9000);
CREATE TABLE part2 (late int8, t text, old int2, k int4, seq int4);
ALTER TABLE part2 DROP COLUMN old;
ALTER TABLE parts ATTACH PARTITION part2 FOR VALUES FROM (9000) TO (19000);
CREATE TABLE part3 PARTITION OF parts FOR VALUES FROM (19000) TO (19050);
CREATE TABLE part4 PARTITION OF parts FOR VALUES FROM (19050) TO (19060);
CREATE TABLE part5 PARTITION OF parts DEFAULT;
INSERT INTO parts SELECT seq, k, t, late FROM paged;
ANALYZE parts;
SELECT q, c.nodes, c.rows, c.result, p.child, p.scanned = c.rows AND p.scanned - p.by_page < 900 AS by_page
FROM unnest(ARRAY[
	'SELECT * FROM parts ORDER BY k, seq',
	'SELECT late, seq FROM parts WHERE late % 2 = 0 ORDER BY late DESC, seq',
	'SELECT k FROM parts ORDER BY k',
	'SELECT seq, t, k FROM parts WHERE seq > 8000 AND seq < 19055 ORDER BY late, k, seq',
	'SELECT * FROM (SELECT seq, k FROM paged UNION ALL SELECT k, seq FROM paged WHERE few = 3) u ORDER BY k, seq']) q,
	check_sort(q) c, page_rows(q) p;
SELECT count(*) AS plans, count(DISTINCT lines) AS differing, max(cardinality(lines)) AS lines
FROM (SELECT array_agg(line ORDER BY n) AS lines
	FROM unnest('{on,off}'::text[]) on_off, set_config('gpusort.enable', on_off, false),
		explain_analyze('SELECT * FROM parts WHERE k % 10 <> 3 ORDER BY k') WITH ORDINALITY AS e (line, n)
	WHERE line ~ 'Append|Scan on|Removed' GROUP BY on_off) p;
SET gpusort.enable = on;

-- computed columns: a volatile function in the filter is evaluated for a row before the next row is read
CREATE FUNCTION tick() RETURNS int LANGUAGE plpgsql COST 1000 AS $$
BEGIN
	PERFORM set_config('pages.tick', (current_setting('pages.tick')::int + 1)::text, false);
	RETURN current_setting('pages.tick');
END $$;
CREATE FUNCTION no_tick() RETURNS bool LANGUAGE sql AS $$SELECT set_config('pages.tick', '0', false) = '0'$$;
CREATE FUNCTION not_at(seq int, bad int, what text) RETURNS int LANGUAGE plpgsql COST 1000 AS $$
BEGIN
	IF seq >= bad THEN RAISE 'the % at %', what, seq; END IF;
	RETURN seq;
END $$;
SELECT q, c.nodes, c.rows, c.result, p.child, p.scanned = c.rows AND p.scanned - p.by_page < 900 AS by_page
FROM unnest(ARRAY[
	'SELECT k + 0 AS k, seq FROM paged ORDER BY k, seq',
	'SELECT k + 0 AS k FROM paged ORDER BY k',
	'SELECT seq, t || k AS t, ctid, late FROM paged WHERE k % 3 > 0 ORDER BY late, seq',
	'SELECT ctid, k FROM paged ORDER BY k, ctid',
	'SELECT seq, -f AS f FROM paged WHERE few > 1 ORDER BY f DESC, seq',
	'SELECT tick() AS tick, seq FROM paged WHERE seq > (SELECT -no_tick()::int) AND tick() % 3 > 0 ORDER BY tick DESC',
	'SELECT seq, t || late AS t, k FROM parts ORDER BY k, seq']) q,
	check_sort(q) c, page_rows(q) p;
SELECT count(*) AS plans, count(DISTINCT lines) AS differing, max(cardinality(lines)) AS lines
FROM (SELECT array_agg(line ORDER BY n) AS lines
	FROM unnest('{on,off}'::text[]) on_off, set_config('gpusort.enable', on_off, false),
		explain_analyze('SELECT seq, -k AS k FROM parts WHERE k % 10 <> 3 ORDER BY k') WITH ORDINALITY AS e (line, n)
	WHERE line ~ 'Append|Scan on|Removed' GROUP BY on_off) p;
SET gpusort.enable = on;
-- rows computed by a program: functions that are strict or not, of values of all formats, with and without NULLs, of
-- added columns; constants, one column several times; rows that exceed the memory of a page of rows
SELECT q, c.nodes, c.rows, c.result, p.scanned - p.by_page < 900 AS by_page
FROM unnest(ARRAY[
	'SELECT seq, few + k AS s, few, k, few AS again, added * 2 AS twice FROM paged ORDER BY s, seq',
	'SELECT upper(t || seq) AS u, md5(t) AS m, 7 AS seven, NULL::text AS n, seq FROM paged ORDER BY u, seq',
	'SELECT concat(few, t, added) AS c, seq, nothing + 1 AS n FROM paged ORDER BY c, seq',
	'SELECT seq, late::float8 / 3 AS x, f::numeric AS n, array_append(NULL::int[], k) AS a FROM paged ORDER BY x, seq',
	'SELECT late - late % 10 AS tens, abs(-late) AS l, c = ''A'' AS is_a, seq FROM shaped ORDER BY tens, seq',
	'SELECT seq, -added AS a FROM paged WHERE few > 2 AND t <> '''' ORDER BY a, seq',
	'SELECT seq, repeat(t, CASE WHEN seq % 500 = 0 THEN 2000 ELSE 1 END) AS r FROM paged ORDER BY r, seq',
	'SELECT seq, repeat(md5(t), few * 50) AS r FROM paged WHERE seq % 10 = 0 ORDER BY k, seq',
	'SELECT seq, late + 1 AS l FROM paged ORDER BY l DESC, seq LIMIT 300',
	'SELECT k + 1 AS k1, seq FROM holed ORDER BY k1, seq']) q,
	check_sort(q) c, page_rows(q) p;
SET track_functions = 'all';
SELECT c.result FROM check_sort('SELECT seq, abs(k) AS k FROM paged ORDER BY k, seq') c;
RESET track_functions;
SELECT seq, 1 / (seq - 9001) AS x FROM paged ORDER BY x;
SELECT not_at(seq, 9000, 'column'), k FROM paged WHERE not_at(seq, 9010, 'condition') > 0 ORDER BY 1;
SELECT not_at(seq, 9010, 'column'), k FROM paged WHERE not_at(seq, 9000, 'condition') > 0 ORDER BY 1;

-- children that are not read by page
SET gpusort.plan_grouping = off;
SELECT q, c.nodes, c.result, p.child, p.by_page
FROM unnest(ARRAY[
	'SELECT * FROM shaped WHERE seq IN (SELECT seq FROM holed WHERE k < 20) ORDER BY small, seq',
	'SELECT * FROM paged TABLESAMPLE system (100) ORDER BY k, seq',
	'SELECT * FROM (SELECT * FROM paged OFFSET 1) p ORDER BY k, seq',
	'SELECT * FROM generate_series(1, 1000) s ORDER BY s DESC',
	'SELECT * FROM (SELECT * FROM paged LIMIT 64) p ORDER BY k, seq']) q,
	check_sort(q) c, page_rows(q) p;
RESET gpusort.plan_grouping;
-- the table's statistics count every row, also in a rescan
BEGIN;
SELECT pg_stat_get_xact_tuples_returned('paged'::regclass) AS before \gset
SELECT count(*) AS total FROM (SELECT * FROM paged ORDER BY k OFFSET 0) p \gset
SELECT pg_stat_get_xact_tuples_returned('paged'::regclass) = :before + :total AS counted;
SELECT count(*) FROM (SELECT -k AS k FROM paged ORDER BY k OFFSET 0) p;
SELECT pg_stat_get_xact_tuples_returned('paged'::regclass) = :before + 2 * :total AS counted;
ROLLBACK;
SET enable_material = off;
SELECT c.* FROM check_sort('SELECT o, p.* FROM generate_series(1, 3) o,
	LATERAL (SELECT * FROM paged ORDER BY k, seq LIMIT 10000 + o) p ORDER BY o, k, seq') c;
SELECT c.* FROM check_sort('SELECT o, p.* FROM generate_series(1, 3) o,
	LATERAL (SELECT seq, k * o AS k FROM paged ORDER BY 2, seq LIMIT 10000 + o) p ORDER BY o, k, seq') c;
RESET enable_material;

-- an empty table; a page of dead rows
CREATE TABLE hollow (LIKE paged);
SELECT c.* FROM check_sort('SELECT * FROM hollow ORDER BY k') c;
INSERT INTO hollow SELECT * FROM paged LIMIT 2000;
DELETE FROM hollow WHERE ctid < '(5,1)' OR ctid BETWEEN '(8,1)' AND '(9,1000)';
SELECT c.result, p.child, p.scanned - p.by_page < 300 AS by_page
FROM (VALUES ('SELECT * FROM hollow ORDER BY k, seq')) v (q), check_sort(q) c, page_rows(q) p;

-- values that are stored out of line
CREATE TABLE wide AS SELECT seq, k, repeat(md5(seq::text), 1 + k % 80) AS t FROM paged WHERE seq < 3000;
SELECT c.result, p.scanned - p.by_page < 300 AS by_page
FROM (VALUES ('SELECT * FROM wide ORDER BY k, seq'), ('SELECT t, k FROM wide ORDER BY k, seq')) v (q),
	check_sort(q) c, page_rows(q) p;

-- strings of all formats as keys: first, behind an int4 (at a fixed offset) and behind an int2 (at none)
CREATE TABLE strung AS
SELECT CASE mix(seq) % 8 WHEN 0 THEN NULL WHEN 1 THEN '' WHEN 2 THEN repeat('a', k % 200)
	WHEN 3 THEN repeat('b', 5000 + k) WHEN 4 THEN repeat(md5(seq::text), 4)
	WHEN 5 THEN repeat(md5(seq::text), 200) ELSE 'prefix ' || mix(seq) END
	COLLATE "C" AS s, seq, few, k FROM paged WHERE seq < 5000;
ALTER TABLE strung ALTER s SET STORAGE external;
INSERT INTO strung SELECT s || seq, seq + 5000, few, k FROM strung;
ALTER TABLE strung ALTER s SET STORAGE plain;
INSERT INTO strung SELECT s || seq, seq + 10000, few, k FROM strung WHERE length(s) < 100;
CREATE TABLE strung_4 AS SELECT seq, s FROM strung;
CREATE TABLE strung_2 AS SELECT few, s, seq FROM strung;
CREATE TABLE strung_bytes AS SELECT seq, (s || E'\\000' || chr(65 + k % 3))::bytea AS b, 'x'::char(9) AS padded
	FROM strung WHERE length(s) < 100;
UPDATE strung_bytes SET b = b || '\x00', padded = 'x ' || seq % 100 WHERE seq % 3 = 0;
SELECT q, c.result, p.scanned - p.by_page < 500 AS by_page
FROM unnest(ARRAY[
	'SELECT s, seq FROM strung ORDER BY s, seq',
	'SELECT s, seq FROM strung WHERE s LIKE ''prefix%'' ORDER BY s DESC, seq',
	'SELECT seq, s FROM strung_4 ORDER BY s DESC NULLS LAST, seq',
	'SELECT seq, s FROM strung_4 WHERE s LIKE ''prefix%'' ORDER BY s, seq',
	'SELECT few, s, seq FROM strung_2 ORDER BY s, seq',
	'SELECT few, s, seq FROM strung_2 ORDER BY s, seq LIMIT 100',
	'SELECT seq, b FROM strung_bytes ORDER BY b, seq',
	'SELECT seq, padded FROM strung_bytes ORDER BY padded DESC, seq']) q,
	check_sort(q) c, page_rows(q) p;
DROP TABLE parts, paged, holed, shaped, scanned, hollow, wide, strung, strung_4, strung_2, strung_bytes;
DROP FUNCTION page_rows, tick, no_tick, not_at;
