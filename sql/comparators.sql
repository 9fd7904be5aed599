-- Keys that only a comparator orders.  Its errors are raised only where two values are compared.  With an
-- inconsistent comparator every row is returned once, and a LIMIT returns no more rows than wanted.
LOAD 'gpusort';
SET gpusort.min_rows = 0;
SET jit = off;
SET max_parallel_workers_per_gather = 0;
\set VERBOSITY terse

CREATE TABLE odd AS SELECT i::int AS i, i % 2 = 0 AS e, repeat('x', 200) AS p FROM generate_series(1, 3000) i;
ANALYZE odd;

-- rows that PostgreSQL refuses to compare, behind a column that distinguishes them
CREATE FUNCTION check_behind(list text, rest text DEFAULT '') RETURNS SETOF text LANGUAGE sql AS $$
SELECT c.nodes || ', ' || c.rows || ' rows, ' || c.result
FROM unnest(ARRAY['i', 'i DESC', 'i % 7 DESC, -i', '-i, p']) k,
	check_sort(format('SELECT i, %s AS r FROM odd ORDER BY %s, r %s', list, k, rest)) c $$;
SELECT * FROM check_behind('CASE WHEN e THEN ROW(i) ELSE ROW(i::text) END');
SELECT * FROM check_behind('CASE WHEN e THEN ROW(NULL::int) ELSE ROW(NULL::text) END', 'DESC LIMIT 20');
SELECT * FROM check_behind('CASE WHEN e THEN ROW(''a''::text COLLATE "C", i)
	ELSE ROW(''b''::text COLLATE "POSIX", i) END');
SELECT * FROM check_behind('CASE WHEN e THEN ARRAY[ROW(i)] ELSE ARRAY[ROW(i::text)] END');
SELECT * FROM check_behind('CASE WHEN e THEN ROW(ROW(i)) ELSE ROW(ROW(i::text)) END');
SELECT * FROM check_behind('CASE i % 3 WHEN 0 THEN NULL WHEN 1 THEN ROW() ELSE ROW(i) END', 'NULLS FIRST');
SELECT * FROM check_behind('CASE WHEN i < 3000 THEN ROW(i) ELSE ROW(i::text) END');
SET work_mem = '64kB';
SELECT * FROM check_behind('p || i, CASE WHEN e THEN ROW(i) ELSE ROW(i::text) END');
RESET work_mem;
-- with parallel workers
SET max_parallel_workers_per_gather = 2;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SELECT * FROM check_behind('CASE WHEN e THEN ROW(i) ELSE ROW(i::text) END');
\set VERBOSITY sqlstate
SELECT count(*) FROM (SELECT CASE WHEN i < 1500 THEN ROW(i) ELSE ROW(i::text) END AS r
	FROM odd ORDER BY 1 OFFSET 0) x;
SET max_parallel_workers_per_gather = 0;
\set VERBOSITY terse
-- a row of such a type that is never compared
SELECT ROW(1) AS r UNION ALL SELECT NULL ORDER BY 1;
SELECT i, CASE WHEN e THEN ROW(i) ELSE ROW(i::text) END AS r FROM odd WHERE i = 5 ORDER BY r;

-- rows that are compared raise the error in every mode, wherever the row of the other type comes
\set VERBOSITY sqlstate
SELECT count(*) FROM (SELECT CASE WHEN e THEN ROW(i) ELSE ROW(i::text) END AS r FROM odd ORDER BY 1 OFFSET 0) x;
SELECT count(*) FROM (SELECT CASE WHEN i < 3000 THEN ROW(i) ELSE ROW(i::text) END AS r
	FROM odd ORDER BY 1 OFFSET 0) x;
SELECT count(*) FROM (SELECT CASE WHEN i < 3000 THEN ROW(i) ELSE ROW(i::text) END AS r
	FROM odd ORDER BY 1 DESC OFFSET 0) x;
SELECT count(*) FROM (SELECT CASE WHEN i < 3000 THEN ROW(i) ELSE ROW(i::text) END AS r FROM odd ORDER BY 1 LIMIT 5) x;
SELECT count(*) FROM (SELECT CASE WHEN i < 3000 THEN ROW(-i) ELSE ROW('0'::text) END AS r
	FROM odd ORDER BY 1 LIMIT 5) x;
SELECT count(*) FROM (SELECT CASE WHEN i < 3000 THEN ROW(-i) ELSE ROW('0'::text) END AS r
	FROM odd ORDER BY 1 DESC LIMIT 5) x;
SELECT count(*) FROM (SELECT CASE WHEN e THEN ROW('a'::text COLLATE "C", i)
	ELSE ROW('b'::text COLLATE "POSIX", i) END AS r
	FROM odd ORDER BY 1 OFFSET 0) x;
SET work_mem = '64kB';
SELECT count(*) FROM (SELECT p, CASE WHEN i < 3000 THEN ROW(i) ELSE ROW(i::text) END AS r
	FROM odd ORDER BY r OFFSET 0) x;
RESET work_mem;
\set VERBOSITY terse
-- the last row has no other row with its first column, so it is not compared
SELECT * FROM check_sort('SELECT i, CASE WHEN i < 3000 THEN ROW(i) ELSE ROW(i::text) END AS r
	FROM odd ORDER BY i / 3000, r');
SELECT * FROM check_sort('SELECT i, CASE WHEN i < 3000 THEN ROW(i) ELSE ROW(i::text) END AS r
	FROM odd ORDER BY i / 3000, r LIMIT 9');

-- enum values that are not in the catalog: ordered by their numbers, if those are even
CREATE TYPE colour AS ENUM ('red', 'green', 'blue', 'grey');
CREATE TABLE painted AS SELECT i::int AS i, (enum_range(NULL::colour))[1 + i % 4] AS c FROM generate_series(1, 400) i;
ANALYZE painted;
BEGIN;
DELETE FROM pg_enum WHERE enumtypid = 'colour'::regtype AND enumlabel = 'grey';
SELECT c.* FROM unnest('{i\, c,i DESC\, c DESC}'::text[]) k,
	check_sort(format('SELECT i FROM painted ORDER BY %s', k)) c;
ROLLBACK;
DROP TABLE painted;
DROP TYPE colour;

-- a comparator that is not transitive: stone, scissors, paper
CREATE FUNCTION beats_cmp(a int, b int) RETURNS int IMMUTABLE STRICT LANGUAGE sql AS
	$$ SELECT CASE (a - b + 3000000) % 3 WHEN 0 THEN 0 WHEN 1 THEN -1 ELSE 1 END $$;
CREATE FUNCTION beats_lt(a int, b int) RETURNS boolean IMMUTABLE STRICT
	LANGUAGE sql AS $$ SELECT beats_cmp(a, b) < 0 $$;
CREATE FUNCTION beats_gt(a int, b int) RETURNS boolean IMMUTABLE STRICT
	LANGUAGE sql AS $$ SELECT beats_cmp(a, b) > 0 $$;
CREATE OPERATOR <~~ (FUNCTION = beats_lt, LEFTARG = int, RIGHTARG = int, COMMUTATOR = ~~>);
CREATE OPERATOR ~~> (FUNCTION = beats_gt, LEFTARG = int, RIGHTARG = int, COMMUTATOR = <~~);
CREATE FUNCTION beats_eq(a int, b int) RETURNS boolean IMMUTABLE STRICT
	LANGUAGE sql AS $$ SELECT beats_cmp(a, b) = 0 $$;
CREATE OPERATOR =~~ (FUNCTION = beats_eq, LEFTARG = int, RIGHTARG = int, COMMUTATOR = =~~);
CREATE OPERATOR CLASS beats_ops FOR TYPE int USING btree AS
	OPERATOR 1 <~~, OPERATOR 3 =~~, OPERATOR 5 ~~>, FUNCTION 1 beats_cmp(int, int);
CREATE FUNCTION kept(query text, mem text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	n bigint;
	different bigint;
BEGIN
	PERFORM set_config('work_mem', mem, true);
	EXECUTE format('SELECT count(*), count(DISTINCT i) FROM (%s) q', query) INTO n, different;
	RETURN format('%s, %s rows, %s different', sort_nodes(query), n, different);
END $$;
SELECT k, mem, b, kept(format('SELECT i, p FROM odd ORDER BY %s USING <~~ LIMIT %s', k, b), mem)
FROM unnest('{i,(mix(i) % 1000)::int,i % 3,3000 - i}'::text[])
	WITH ORDINALITY o (k, n), unnest('{4MB,64kB}'::text[]) mem,
	unnest('{1,10,300,1400,2999}'::int[]) b ORDER BY n, mem, b;
SELECT kept('SELECT i, p FROM odd ORDER BY i USING <~~', mem) FROM unnest('{4MB,64kB}'::text[]) mem;

DROP TABLE odd;
DROP FUNCTION check_behind, kept;
DROP OPERATOR CLASS beats_ops USING btree;
DROP OPERATOR FAMILY IF EXISTS beats_ops USING btree;
DROP OPERATOR <~~ (int, int);
DROP OPERATOR ~~> (int, int);
DROP OPERATOR =~~ (int, int);
DROP FUNCTION beats_cmp, beats_lt, beats_gt, beats_eq;
