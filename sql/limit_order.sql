-- Bounded sorts whose keys need a comparator: the wanted rows are kept in order.
LOAD 'gpusort';
SET gpusort.min_rows = 0;
SET jit = off;
SET max_parallel_workers_per_gather = 0;

CREATE TABLE ord AS SELECT i::int AS seq, (mix(i) % 1000)::int AS r, CASE WHEN i % 7 > 0 THEN i / 50 END AS few,
	repeat('x', (mix(i * 7) % 90)::int) AS p FROM generate_series(1, 5000) i;
ANALYZE ord;

-- sort keys made of a number v that ascends, descends, alternates, or stays equal
CREATE TABLE ord_key (k int, make text);
INSERT INTO ord_key VALUES
	(1, '(''customer number '' || lpad((%s)::text, 9, ''0'')) COLLATE "C"'),
	(2, 'convert_to(''customer number '' || lpad((%s)::text, 9, ''0''), ''UTF8'') || ''\x00'''),
	(3, '(repeat(''a'', (%s) %% 90)) COLLATE "C"'),
	(4, '(''1234567890123456789012345678901234567890'' || lpad((%s)::text, 9, ''0''))::numeric'),
	(5, 'ARRAY[(%1$s) / 100, (%1$s) %% 100, NULL]'),
	(6, 'jsonb_build_object(''a'', %s)'),
	(7, 'ROW(%s, p)'),
	(8, 'few, (lpad((%s)::text, 9, ''0'')) COLLATE "C"'),
	(9, 'int4range((%1$s) / 10, (%1$s) + 1)'),
	(10, '(lpad((%1$s)::text, 70, ''0'')) COLLATE "C", jsonb_build_object(''a'', %1$s)'),
	(11, 'NULLIF((''n'' || (%s) %% 40) COLLATE "C", ''n7'')');
CREATE TABLE ord_value (v int, number text);
INSERT INTO ord_value VALUES (1, 'seq'), (2, '10000 - seq'), (3, 'r'), (4, 'seq / 100'), (5, '5'),
	(6, 'abs(seq - 2500)'), (7, '3000 - abs(seq - 2500)'), (8, 'seq / 300 * 1000 + 300 - seq % 300'),
	(9, 'CASE WHEN seq % 2 = 0 THEN 10000 - seq ELSE seq END'), (10, 'seq # 255');

-- compares the first rows of the stock Sort, by keys and input position, with GpuSort's, by keys
CREATE FUNCTION first_rows(keys text, n int, mem text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	ours record;
BEGIN
	PERFORM set_config('work_mem', mem, true);
	ours := rows_of(format('SELECT seq, p FROM ord ORDER BY %s LIMIT %s', keys, n), true);
	RETURN ours.nodes || ', ' || compare_rows(
		(rows_of(format('SELECT seq, p FROM ord ORDER BY %s, seq LIMIT %s', keys, n), false)).r, ours.r);
END $$;
SELECT k, result, count(*), array_agg(DISTINCT n ORDER BY n) AS bounds
FROM (SELECT k, n, first_rows(format(make, number) || way, n, mem) AS result
	FROM ord_key, ord_value, unnest('{""," DESC"," NULLS FIRST"}'::text[]) way, unnest('{1,2,10,300,2500}'::int[]) n,
		unnest('{4MB,64kB}'::text[]) mem
	WHERE (k + v + n + length(way)) % 6 = 0 OR n = 10) s
GROUP BY k, result ORDER BY k, result;

-- many rescans with other bounds, and many participants
SELECT o.seq, s.a FROM (SELECT seq FROM ord WHERE seq % 1000 = 3) o,
	LATERAL (SELECT array_agg(seq) AS a FROM (SELECT i.seq FROM ord i WHERE i.seq >= o.seq
		ORDER BY jsonb_build_object('a', -i.seq) LIMIT o.seq / 1000 + 1) x) s ORDER BY 1;
SET max_parallel_workers_per_gather = 2;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SELECT check_sort(format('SELECT seq FROM ord ORDER BY %s, seq LIMIT %s', keys, n))
FROM unnest(ARRAY['jsonb_build_object(''a'', r)', 'few DESC, ROW(-seq)', '(''k'' || seq % 500) COLLATE "C" DESC']) keys,
	unnest('{1,20,1200}'::int[]) n;
SET max_parallel_workers_per_gather = 0;

-- number of comparisons: about one a row, and sorts of twice the wanted rows, which take one a row here
CREATE SEQUENCE asked;
CREATE FUNCTION ask_cmp(a int, b int) RETURNS int STRICT LANGUAGE plpgsql AS
	$$ BEGIN PERFORM nextval('asked'); RETURN btint4cmp(a, b); END $$;
CREATE FUNCTION ask_lt(a int, b int) RETURNS boolean STRICT LANGUAGE sql AS $$ SELECT ask_cmp(a, b) < 0 $$;
CREATE FUNCTION ask_gt(a int, b int) RETURNS boolean STRICT LANGUAGE sql AS $$ SELECT ask_cmp(a, b) > 0 $$;
CREATE FUNCTION ask_eq(a int, b int) RETURNS boolean STRICT LANGUAGE sql AS $$ SELECT ask_cmp(a, b) = 0 $$;
CREATE OPERATOR <?? (FUNCTION = ask_lt, LEFTARG = int, RIGHTARG = int, COMMUTATOR = ??>);
CREATE OPERATOR ??> (FUNCTION = ask_gt, LEFTARG = int, RIGHTARG = int, COMMUTATOR = <??);
CREATE OPERATOR =?? (FUNCTION = ask_eq, LEFTARG = int, RIGHTARG = int, COMMUTATOR = =??);
CREATE OPERATOR CLASS ask_ops FOR TYPE int USING btree AS
	OPERATOR 1 <??, OPERATOR 3 =??, OPERATOR 5 ??>, FUNCTION 1 ask_cmp(int, int);
CREATE FUNCTION comparisons(keys text, n int) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
	PERFORM setval('asked', 1);
	EXECUTE format('SELECT count(*) FROM (SELECT seq FROM ord ORDER BY %s LIMIT %s) s', keys, n);
	RETURN (SELECT last_value FROM asked);
END $$;
SELECT keys, n, comparisons(keys, n) < 5050 + 30 * n AS few_enough
FROM unnest('{seq USING ??>,seq USING <??}'::text[]) keys, unnest('{1,10,300,3000}'::int[]) n ORDER BY keys, n;
-- random input: one comparison a row, and two sorts of each row that is wanted when it arrives
SELECT n, comparisons('r USING <??', n) < 5500 + n * (1 + ln(5000.0 / n)) * 2 * (2 + log(2, n)) AS few_enough
FROM unnest('{1,10,300,3000}'::int[]) n;
-- most rows wanted: no more than a sort of all rows needs
SELECT n, comparisons('r USING <??', n) < 5000 * log(2, 5000) AS few_enough FROM unnest('{2600,4900}'::int[]) n;
-- runs that follow each other, and few values: the runs and their merge need one comparison a row each
CREATE TABLE ord_wide AS SELECT i AS seq, i % 3 AS few, repeat('x', 400) AS p FROM generate_series(1, 15000) i;
SET work_mem = '256kB';
SELECT setval('asked', 1);
SELECT count(p) FROM (SELECT p FROM ord_wide ORDER BY seq USING <?? OFFSET 0) s;
SELECT last_value < 15000 * 3 AS few_enough FROM asked;
SELECT setval('asked', 1);
SELECT count(p) FROM (SELECT p FROM ord_wide ORDER BY few USING <?? OFFSET 0) s;
SELECT last_value < 15000 * 6 AS few_enough FROM asked;
DROP TABLE ord_wide;
RESET work_mem;

-- fixed-width keys: of a page with many rows few are wanted, for any input order
CREATE TABLE ord_n AS SELECT seq::int8 AS at, NULLIF(r, 7) AS r, seq % 7 AS few FROM ord;
ANALYZE ord_n;
SELECT substring(sort_route('SELECT * FROM ord_n ORDER BY at DESC, few LIMIT 10')
	FROM '(\d+) rows')::int < 500 AS few_taken;
SELECT keys, bool_and((check_sort(format('SELECT * FROM ord_n ORDER BY %s LIMIT %s', keys, n))).result = 'same')
	AS same
FROM unnest('{at DESC,at,few DESC\, at DESC,few\, r DESC\, at,
	r DESC\, at DESC,r DESC NULLS LAST\, at,r NULLS FIRST\, at,
	few\, at DESC}'::text[]) keys, unnest('{1,2,3,10,40,70,90,120,1000}'::int[]) n GROUP BY keys ORDER BY keys;
DROP TABLE ord_n;

-- for some time all wanted rows are NULLs, which have no normalized key
CREATE TABLE ord_nulls AS SELECT seq, CASE WHEN seq > 200 THEN 5000 - seq END AS k, 'text ' || r AS t,
	CASE WHEN seq > 200 THEN 'text ' || 5000 - seq END AS tk FROM ord;
SELECT keys, bool_and((check_sort(format('SELECT * FROM ord_nulls ORDER BY %s LIMIT %s', keys, n))).result = 'same')
	AS same
FROM unnest(ARRAY['k, t, seq', 'k DESC NULLS LAST, t, seq', 'tk, t, seq', 'tk COLLATE "C", seq']) keys,
	unnest('{1,7,100,150,1000}'::int[]) n GROUP BY keys ORDER BY keys;
DROP TABLE ord_nulls;

DROP TABLE ord, ord_key, ord_value;
DROP FUNCTION first_rows, comparisons;
DROP OPERATOR CLASS ask_ops USING btree;
DROP OPERATOR FAMILY IF EXISTS ask_ops USING btree;
DROP OPERATOR <?? (int, int);
DROP OPERATOR ??> (int, int);
DROP OPERATOR =?? (int, int);
DROP FUNCTION ask_cmp, ask_lt, ask_gt, ask_eq;
DROP SEQUENCE asked;
