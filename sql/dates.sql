-- date, time, timestamp, timestamptz: infinities, BC, the ends of the ranges.
LOAD 'gpusort';
SET gpusort.min_rows = 0;
SET jit = off;
SET max_parallel_workers_per_gather = 0;
SET timezone = 'UTC';
SET datestyle = 'ISO, YMD';

CREATE TABLE dates AS
SELECT i::int AS seq,
	date '2000-01-01' + (mix(i) % 60000 - 30000)::int AS d,
	time '00:00' + (mix(i) % 86400) * interval '1 second' + (mix(i * 3) % 1000000) * interval '1 microsecond' AS t,
	timestamp '2000-01-01' + (mix(i) - 2147483646) * interval '1 second' AS ts,
	timestamptz '2000-01-01 00:00+00' + (mix(i * 5) - 2147483646) * interval '1 millisecond' AS tz
FROM generate_series(1, 4000) i;
INSERT INTO dates VALUES
	(4001, 'infinity', '00:00', 'infinity', 'infinity'),
	(4002, '-infinity', '24:00', '-infinity', '-infinity'),
	(4003, '4713-01-01 BC', '23:59:59.999999', '4713-01-01 BC', '4713-01-01 00:00+00 BC'),
	(4004, '5874897-12-31', '00:00:00.000001', '294276-12-31 23:59:59.999999', '294276-12-31 23:59:59.999999+00'),
	(4005, NULL, NULL, NULL, NULL),
	(4006, '2000-01-01', '12:00', '2000-01-01', '2000-01-01 00:00+00'),
	(4007, 'infinity', NULL, '-infinity', NULL);
ANALYZE dates;

SELECT col, dir, c.*
FROM unnest('{d,t,ts,tz}'::text[]) WITH ORDINALITY AS k (col, n),
	unnest('{ASC,DESC,ASC NULLS FIRST,DESC NULLS LAST}'::text[]) WITH ORDINALITY AS s (dir, m),
	check_sort(format('SELECT %1$s, seq FROM dates ORDER BY %1$s %2$s, seq', col, dir)) c
ORDER BY n, m;

-- the session's time zone does not change the order
SET timezone = 'Asia/Kathmandu';
SELECT * FROM check_sort('SELECT tz, seq FROM dates ORDER BY tz DESC, seq');
-- comparison between the types
SELECT * FROM check_sort('SELECT d::timestamp AS k, seq FROM dates WHERE d < ''294000-01-01'' OR d = ''infinity''
	ORDER BY k, seq');

DROP TABLE dates;
