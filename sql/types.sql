-- All other key types: extreme values, equal values with different bytes, NULLs, on every route.
LOAD 'gpusort';
SET gpusort.min_rows = 0;
SET max_parallel_workers_per_gather = 0;

-- an enum with even value numbers, and values added later between them
CREATE TYPE size AS ENUM ('small', 'medium', 'large');
ALTER TYPE size ADD VALUE 'tiny' BEFORE 'small';
ALTER TYPE size ADD VALUE 'middling' AFTER 'medium';
ALTER TYPE size ADD VALUE 'huge';
ALTER TYPE size ADD VALUE 'larger' BEFORE 'huge';
CREATE TYPE pair AS (a int, b text);
CREATE DOMAIN amount AS numeric CHECK (VALUE IS NULL OR VALUE <> 12345678);

-- a user-defined operator class: order by the distance from 100
CREATE FUNCTION near_cmp(a int, b int) RETURNS int IMMUTABLE STRICT
	LANGUAGE sql AS 'SELECT btint4cmp(abs(a - 100), abs(b - 100))';
CREATE FUNCTION near_lt(a int, b int) RETURNS bool IMMUTABLE STRICT
	LANGUAGE sql AS 'SELECT abs(a - 100) < abs(b - 100)';
CREATE FUNCTION near_gt(a int, b int) RETURNS bool IMMUTABLE STRICT
	LANGUAGE sql AS 'SELECT abs(a - 100) > abs(b - 100)';
CREATE FUNCTION near_eq(a int, b int) RETURNS bool IMMUTABLE STRICT
	LANGUAGE sql AS 'SELECT abs(a - 100) = abs(b - 100)';
CREATE OPERATOR <@@ (FUNCTION = near_lt, LEFTARG = int, RIGHTARG = int, COMMUTATOR = @@>);
CREATE OPERATOR @@> (FUNCTION = near_gt, LEFTARG = int, RIGHTARG = int, COMMUTATOR = <@@);
CREATE OPERATOR =@@ (FUNCTION = near_eq, LEFTARG = int, RIGHTARG = int);
CREATE OPERATOR CLASS near_ops FOR TYPE int USING btree AS OPERATOR 1 <@@, OPERATOR 3 =@@, OPERATOR 5 @@>,
	FUNCTION 1 near_cmp(int, int);

-- Types: their extreme values, and an expression that makes a value of d.
CREATE TABLE kinds (t text, edges text[], value text);
INSERT INTO kinds VALUES
	('uuid', '{00000000-0000-0000-0000-000000000000,00000000-0000-0000-0000-000000000001,
		00000000-0000-0000-8000-000000000000,7fffffff-ffff-ffff-ffff-ffffffffffff,80000000-0000-0000-0000-000000000000,
		ffffffff-ffff-ffff-ffff-ffffffffffff,ffffffff-ffff-ffff-0000-000000000000}', 'md5((d % 400)::text)'),
	('macaddr', '{00:00:00:00:00:00,00:00:00:00:00:01,7f:ff:ff:ff:ff:ff,80:00:00:00:00:00,ff:ff:ff:ff:ff:ff}',
		'lpad(to_hex((d % 400)::int8 * 700000000000), 12, ''0'')'),
	('macaddr8', '{00:00:00:00:00:00:00:00,00:00:00:00:00:00:00:01,7f:ff:ff:ff:ff:ff:ff:ff,80:00:00:00:00:00:00:00,
		ff:ff:ff:ff:ff:ff:ff:ff}', 'left(md5((d % 400)::text), 16)'),
	('pg_lsn', '{0/0,0/1,7FFFFFFF/FFFFFFFF,80000000/0,FFFFFFFF/FFFFFFFF}', '''0/0''::pg_lsn + (d % 400) * 123456789'),
	('xid8', '{0,1,9223372036854775807,9223372036854775808,18446744073709551615}', '(d % 400) * 123456789'),
	('tid', '{"(0,0)","(0,1)","(0,65535)","(1,0)","(2147483648,1)","(4294967295,65535)"}',
		'format(''(%s,%s)'', d % 40, d % 7)'),
	('timetz', '{00:00+14,00:00-14,24:00+00,24:00-15:59,12:00+02,11:00+01,10:00+00,10:00:00.000001+00,09:30-00:30,
		10:00-00:00:01}',
		'''00:00''::time + (d % 24) * interval ''1 hour''
		|| (ARRAY[''+00'', ''+02'', ''-02'', ''+05:30''])[1 + d % 4]'),
	('interval', '{0,1 month,30 days,720 hours,29 days 24:00:00,1 month -1 day,-1 month,-30 days,-00:00:00.000001,
		00:00:00.000001,178000000 years,-178000000 years,2147483647 days 2562047788:00:54.775807,-2147483648 days,
		106751 days,106752 days,-106752 days,1 mon -30 days}',
		'make_interval(months => (d % 5)::int - 2, days => (d % 90)::int - 45, secs => d % 3)'),
	('size', '{tiny,small,medium,middling,large,larger,huge}', '(enum_range(NULL::size))[1 + d % 7]'),
	('numeric', '{0,0.0,-0,1.1,1.10,1.100,-1.1,-1.10,NaN,Infinity,-Infinity,9999,10000,-9999,-10000,0.0001,0.00001,
		-0.0001,-0.00001,399999999999999.9999,400000000000000,400000000000000.1,-399999999999999.9999,-400000000000000,
		-400000000000000.1,999999999999,1000000000000,1e20,1e28,10000000000000000000000000001,
		10000000000000000000000000000,-10000000000000000000000000001,-10000000000000000000000000000,1e-20,1e-21,2e-21,
		-1e-21,-2e-21,1.00000000000000000001,1.000000000000000000011,1.000000000000000000012,-1.000000000000000000011,
		-1.000000000000000000012,1e131071,1.5e131071,-1e131071,1e-16383,-1e-16383,123456789012345678901234567890.5,
		123456789012345678901234567890.6}', '((d % 500) - 250) / 100.0'),
	('amount', '{0,1,1.0,-1,NaN,Infinity}', '(d % 500) * 1.5 / 7'),
	('numeric(12,2)', '{0,9999999999.99,-9999999999.99,0.01,-0.01,NaN}', '(d % 500) * 7.77'),
	('inet', '{0.0.0.0,0.0.0.0/0,128.0.0.0/0,255.255.255.255,255.255.255.255/0,10.0.0.0/8,10.0.0.0/9,10.0.0.1/8,
		10.128.0.0/9,10.0.0.0/32,10.0.0.1,10.255.255.255/8,127.0.0.1/31,127.0.0.0/31,::,::1,::/0,ffff::/0,
		::ffff:10.0.0.1,::ffff:10.0.0.1/100,0:0:0:1::,0:0:40::,0:0:40:1::,0:0:3f:ffff::,0:0:40:2::,0:1::,2001:db8::,
		2001:db8::/32,2001:db8::1/32,2001:db8::/64,2001:db8::1/64,2001:db8::1,2001:db8::8000:0:0:0,
		2001:db8::8000:0:0:1/65,ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff,ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/1}',
		'''10.0.0.0''::inet + (d % 400) * 70000'),
	('cidr', '{0.0.0.0/0,10.0.0.0/8,10.0.0.0/9,10.128.0.0/9,10.0.0.0/32,::/0,2001:db8::/32,2001:db8::/64,
		2001:db8:0:0:8000::/65}', 'set_masklen((''10.0.0.0''::inet + (d % 400) * 70000)::cidr, (8 + d % 25)::int)'),
	('bit(9)', '{000000000,000000001,100000000,111111111,011111111}', '((d % 400)::int)::bit(9)'),
	('bit(70)', NULL, 'repeat(((d % 3)::int)::bit(2)::text, 29) || (d % 400)::int::bit(12)'),
	('varbit', '{"",0,00,000,1,10,100,11,11111111,111111110,0000000,00000000}',
		'repeat(''10011010'', (d % 11)::int) || left(''0000000000'', (d % 10)::int)'),
	('regclass', '{pg_class,pg_type,pg_operator}',
		'(ARRAY[''pg_proc'', ''pg_index'', ''pg_am'', ''pg_enum''])[1 + d % 4]'),
	('oidvector', '{"","1","1 2","2","2 1"}', 'format(''%s %s'', d % 20, d % 3)'),
	('int4[]', '{"{}","{1}","{1,2}","{2}","{NULL}","{1,NULL}","{{1,2}}","{{1},{2}}","[2:3]={1,2}"}',
		'ARRAY[d % 5, d % 3]'),
	('text[]', '{"{}","{a}","{a,b}","{B}","{\"\"}","{NULL}"}', 'ARRAY[''x'' || d % 5, ''y'' || d % 50]'),
	('int4range', '{empty,"(,)","[1,)","(,1)","[1,2)","[1,3)","[2,2]"}',
		'int4range((d % 10)::int, (d % 10 + d % 7)::int)'),
	('nummultirange', '{"{}","{(,)}","{[1,2),[3,4)}","{[1,2)}","{[1.0,2.00)}"}',
		'nummultirange(numrange(d % 10, 10 + d % 7))'),
	('pair', '{"(,)","(1,)","(1,a)","(1,B)","(2,a)"}', 'ROW(d % 10, ''b'' || d % 20)'),
	('tsvector', '{"","a","b","a b","a:1"}', 'format(''word%s word%s:%s'', d % 10, d % 7, 1 + d % 3)'),
	('tsquery', '{"a","b","a & b","a | b","!a"}', 'format(''w%s & !w%s'', d % 10, d % 7)'),
	('jsonb', '{"null","true","false","0","1","1.0","\"\"","\"a\"","[]","{}","[1]","[1, 2]","{\"a\": 1}","{\"b\": 1}",
		"{\"a\": 1, \"b\": 2}"}', 'jsonb_build_object(''k'', d % 20, ''m'', d % 3)');

-- Returns what is wrong with the order of a type.
CREATE FUNCTION check_kind(kind kinds) RETURNS TABLE (what text, result text) LANGUAGE plpgsql AS $$
DECLARE
	keys text;
	mem text;
	query text;
	queries text[];
	n int;
BEGIN
	EXECUTE format($sql$CREATE TABLE typed AS SELECT i::int AS seq, CASE WHEN i %% 9 = 4 THEN NULL
		WHEN i %% 3 = 0 AND %1$L::text IS NOT NULL THEN
			(%1$L::text[])[1 + d %% cardinality(%1$L::text[])]::%2$s
				ELSE (%3$s)::text::%2$s END AS v, (d %% 4)::int AS k
		FROM (SELECT i, mix(i * 3) AS d FROM generate_series(1, 1500) i) x$sql$, kind.edges, kind.t, kind.value);
	ANALYZE typed;
	FOREACH keys IN ARRAY ARRAY['v', 'v DESC', 'v NULLS FIRST', 'v DESC NULLS LAST'] LOOP
		FOREACH mem IN ARRAY ARRAY['64kB', '4MB'] LOOP
			PERFORM set_config('work_mem', mem, false);
			queries := ARRAY[format('check_stable(%L, %L)', 'typed', keys),
				format('check_sort(%L)', 'SELECT * FROM typed ORDER BY ' || keys || ', seq LIMIT 30 OFFSET 10')];
			IF keys ~ '^v( DESC)?$' THEN
				queries := queries || ARRAY[format('check_stable(%L, %L)', 'typed', 'k, ' || keys),
					format('check_stable(%L, %L)', 'typed', keys || ', k DESC'),
					-- rows from a slot
					format('check_sort(%L)',
						'SELECT * FROM (SELECT v, k, seq + 1 AS seq FROM typed WHERE seq < 700 OFFSET 0) x ORDER BY '
						|| keys || ', seq'),
					format('check_sort(%L)',
						'SELECT seq, rank() OVER (ORDER BY ' || keys || ') FROM typed ORDER BY 2, 1')];
			END IF;
			FOREACH query IN ARRAY queries LOOP
				EXECUTE 'SELECT nodes || '' '' || result FROM ' || query INTO result;
				IF result !~ '^GpuSort(, GpuSort)? same$' THEN
					what := kind.t || ': ' || query || ' in ' || mem;
					RETURN NEXT;
				END IF;
			END LOOP;
		END LOOP;
	END LOOP;
	-- sorts for other nodes: merge join, with mark and restore, and grouping
	FOREACH query IN ARRAY ARRAY['SELECT a.seq, b.seq FROM typed a JOIN typed b ON a.v = b.v WHERE a.seq < 500
		ORDER BY 1, 2',
		'SELECT count(*), min(seq) FROM typed GROUP BY v ORDER BY v',
			'SELECT DISTINCT ON (v) seq FROM typed ORDER BY v DESC, seq']
	LOOP
		EXECUTE 'SELECT nodes || '' '' || result FROM check_sort($1)' INTO result USING query;
		IF result !~ '^GpuSort(, GpuSort)* same$' THEN
			what := kind.t || ': ' || query;
			RETURN NEXT;
		END IF;
	END LOOP;
	DROP TABLE typed;
	RESET work_mem;
END $$;
SET enable_hashjoin = off;
SET enable_nestloop = off;
SET enable_material = off;
SET enable_hashagg = off;
SELECT c.* FROM kinds k, check_kind(k) c;
RESET enable_hashjoin;
RESET enable_nestloop;
RESET enable_material;
RESET enable_hashagg;

-- exact normalized keys: no comparator is called
CREATE TABLE exact AS SELECT i::int AS seq, (mix(i) % 100000000 / 100.0)::numeric(12,2) AS n,
	(mix(i) % 1000000000 / 7.0)::numeric AS long,
	md5((i % 1000)::text)::uuid AS u, (mix(i) % 5000000 - 2500000) * interval '1 second' + (i % 40) * interval '1 day'
		AS s, '10.0.0.0'::inet + mix(i) % 16000000 AS h,
	set_masklen('10.0.0.0'::inet + mix(i) % 16000000, (8 + i % 25)::int) AS net,
		'2001:db8::'::inet + mix(i) % 1000 AS h6,
	'00:00'::timetz + (i % 1000) * interval '1 minute' AS tz, (enum_range(NULL::size))[1 + i % 7] AS e,
		(i % 300)::int::bit(40) AS b
FROM generate_series(1, 2000) i;
ANALYZE exact;
SELECT col, sort_route(format('SELECT * FROM exact ORDER BY %I', col)) !~ 'ties' AS no_ties
FROM unnest('{n,long,u,s,h,net,h6,tz,e,b}'::text[]) WITH ORDINALITY k (col, n) ORDER BY n;
-- the number of key bits
SELECT col, substring(sort_route(format('SELECT * FROM exact ORDER BY %I', col)) FROM '\d+-bit')
FROM unnest('{n,s,h,net,tz,e,b}'::text[]) WITH ORDINALITY k (col, n) ORDER BY n;
DROP TABLE exact;

-- compressed values
CREATE TABLE toasted_kinds AS SELECT i::int AS seq, CASE WHEN i % 4 > 0
	THEN (repeat('1234', 2500 + (mix(i) % 2)::int) || '.' || mix(i) % 5)::numeric ELSE mix(i) % 5 END AS n,
	CASE WHEN i % 4 > 0 THEN repeat('1', 40000 + (mix(i) % 4)::int)::varbit ELSE repeat('1', (i % 60))::varbit END AS b
		FROM generate_series(1, 300) i;
ANALYZE toasted_kinds;
SELECT min(pg_column_size(n)) AS least, max(pg_column_size(n)) < 1000 AND max(pg_column_size(b)) < 1000 AS compressed
	FROM toasted_kinds;
SELECT * FROM check_stable('toasted_kinds', 'n, b DESC');
SELECT * FROM check_stable('toasted_kinds', 'b');
DROP TABLE toasted_kinds;

-- a user-defined operator class
CREATE TABLE near AS SELECT i::int AS seq, CASE WHEN i % 50 > 0 THEN (mix(i) % 200)::int END AS v
	FROM generate_series(1, 3000) i;
ANALYZE near;
SELECT * FROM check_stable('near', 'v USING <@@');
SELECT * FROM check_stable('near', 'v USING @@> NULLS LAST, seq % 3');
SELECT * FROM check_sort('SELECT * FROM near ORDER BY v USING <@@, seq LIMIT 5');

-- composite values of a named type and of type record
SELECT * FROM check_sort('SELECT seq, ROW(v, seq) AS r FROM near ORDER BY r');
SELECT * FROM check_sort('SELECT seq, ROW(v, seq) AS r FROM near ORDER BY r USING *<');

-- an error of a comparator ends the query and leaves no memory or files
SELECT count(*) FROM (SELECT CASE WHEN seq % 2 = 0 THEN ROW(v, seq) ELSE ROW(v::text, seq) END AS r FROM near
	ORDER BY 1 OFFSET 0) x;
SELECT * FROM check_stable('near', 'ROW(v)');
CREATE OR REPLACE FUNCTION near_cmp(a int, b int) RETURNS int IMMUTABLE STRICT LANGUAGE plpgsql AS
	$$ BEGIN IF a = 77 AND b = 78 OR a = 78 AND b = 77
		THEN RAISE EXCEPTION 'not comparable'; END IF; RETURN btint4cmp(a, b); END $$;
SELECT count(*) FROM (SELECT v FROM near ORDER BY v USING <@@ OFFSET 0) x;
SELECT * FROM check_stable('near', 'v');

DROP FUNCTION check_kind;
DROP TABLE near, kinds;
DROP OPERATOR CLASS near_ops USING btree;
DROP OPERATOR FAMILY IF EXISTS near_ops USING btree;
DROP OPERATOR <@@ (int, int);
DROP OPERATOR @@> (int, int);
DROP OPERATOR =@@ (int, int);
DROP FUNCTION near_cmp, near_lt, near_gt, near_eq;
DROP TYPE size, pair;
DROP DOMAIN amount;
