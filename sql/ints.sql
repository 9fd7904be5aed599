-- Integer-like keys: every width, both directions, the ends of each range.
LOAD 'gpusort';
SET gpusort.min_rows = 0;
SET jit = off;
SET max_parallel_workers_per_gather = 0;

CREATE TABLE ints AS
SELECT i::int AS seq,
	(mix(i) % 65536 - 32768)::int2 AS i2,
	(mix(i * 3) - 2147483646)::int4 AS i4,
	(mix(i * 7) - 2147483646) * 2147483648 + mix(i * 11) AS i8,
	(mix(i) % 3 = 0) AS b,
	chr((mix(i) % 127 + 1)::int)::"char" AS c,
	(mix(i * 5))::oid AS o,
	((mix(i) - 2147483646) / 100.0)::numeric::money AS m
FROM generate_series(1, 5000) i;
INSERT INTO ints (seq, i2, i4, i8, b, c, o, m) VALUES
	(5001, -32768, -2147483648, -9223372036854775808, false, '', 0, '-92233720368547758.08'),
	(5002, 32767, 2147483647, 9223372036854775807, true, '\377', 4294967295, '92233720368547758.07'),
	(5003, 0, 0, 0, false, '\200', 2147483648, 0),
	(5004, -1, -1, -1, true, '\177', 2147483647, -1),
	(5005, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
	(5006, 1, 1, 1, NULL, 'a', 1, 1);
ANALYZE ints;

SELECT col, dir, c.*
FROM unnest('{i2,i4,i8,b,c,o,m}'::text[]) WITH ORDINALITY AS k (col, n),
	unnest('{ASC,DESC,ASC NULLS FIRST,DESC NULLS LAST}'::text[]) WITH ORDINALITY AS d (dir, m),
	check_sort(format('SELECT %1$s, seq FROM ints ORDER BY %1$s %2$s, seq', col, dir)) c
ORDER BY n, m;

-- the key alone
SELECT col, c.*
FROM unnest('{i2,i4,i8,b,c,o,m}'::text[]) WITH ORDINALITY AS k (col, n),
	check_sort(format('SELECT %1$s FROM ints ORDER BY %1$s', col)) c
ORDER BY n;

-- domains sort as their base types
CREATE DOMAIN positive AS int CHECK (VALUE > 0);
CREATE DOMAIN small_positive AS positive CHECK (VALUE < 1000);
SELECT * FROM check_sort('SELECT seq::positive AS k FROM ints ORDER BY k DESC');
SELECT * FROM check_sort('SELECT (seq % 999 + 1)::small_positive AS k FROM ints ORDER BY k');

-- any operator of the default family, also between types
SELECT * FROM check_sort('SELECT i4 FROM ints ORDER BY i4 USING >');
SELECT * FROM check_sort('SELECT i2 + i4::int8 AS k FROM ints ORDER BY 1');
SELECT * FROM check_sort('SELECT a.i2, b.seq FROM ints a JOIN ints b ON a.i2 = b.i4 ORDER BY 1, 2');

-- ranges from one value to all values of a type
SELECT w, c.*
FROM unnest('{1,2,3,7,255,256,257,65535,65536,65537,16777216}'::int[]) WITH ORDINALITY AS w (w, n),
	check_sort(format('SELECT abs(i4 %% %s) AS k FROM ints WHERE i4 IS NOT NULL AND i4 > -2147483648 ORDER BY k', w)) c
ORDER BY n;

-- no row, one row, two rows
SELECT * FROM check_sort('SELECT i4 FROM ints WHERE false ORDER BY i4');
SELECT * FROM check_sort('SELECT i4 FROM ints WHERE seq < 0 ORDER BY i4');
SELECT * FROM check_sort('SELECT i4 FROM ints WHERE seq = 7 ORDER BY i4');
SELECT * FROM check_sort('SELECT i4 FROM ints WHERE seq <= 2 ORDER BY i4');

DROP DOMAIN small_positive, positive;
DROP TABLE ints;
