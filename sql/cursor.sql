-- Cursors: forwards, backwards, to a position, and held past their transaction.
LOAD 'gpusort';
SET gpusort.min_rows = 0;
SET jit = off;
SET max_parallel_workers_per_gather = 0;

CREATE TABLE cur AS SELECT i AS id, ((i * 37) % 101)::int AS k FROM generate_series(1, 100) i;
ANALYZE cur;

BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT k, id FROM cur ORDER BY k;
EXPLAIN (COSTS OFF) DECLARE d SCROLL CURSOR FOR SELECT k, id FROM cur ORDER BY k;
FETCH 3 FROM c;
FETCH BACKWARD 2 FROM c;
FETCH BACKWARD 5 FROM c;
FETCH NEXT FROM c;
FETCH LAST FROM c;
FETCH NEXT FROM c;
FETCH PRIOR FROM c;
FETCH FIRST FROM c;
FETCH ABSOLUTE 50 FROM c;
FETCH RELATIVE -10 FROM c;
FETCH RELATIVE 0 FROM c;
FETCH ABSOLUTE -1 FROM c;
FETCH ABSOLUTE 0 FROM c;
FETCH ABSOLUTE 1000 FROM c;
MOVE BACKWARD ALL FROM c;
FETCH 2 FROM c;
MOVE FORWARD ALL FROM c;
FETCH BACKWARD 2 FROM c;
CLOSE c;
-- backwards before the first fetch
DECLARE c SCROLL CURSOR FOR SELECT k FROM cur ORDER BY k DESC;
FETCH BACKWARD 1 FROM c;
FETCH 1 FROM c;
-- NO SCROLL: the same error as with the stock Sort
DECLARE n NO SCROLL CURSOR FOR SELECT k FROM cur ORDER BY k;
FETCH 1 FROM n;
SAVEPOINT s;
FETCH BACKWARD 1 FROM n;
ROLLBACK TO s;
FETCH 1 FROM n;
COMMIT;

-- WITH HOLD
BEGIN;
DECLARE h SCROLL CURSOR WITH HOLD FOR SELECT k, id FROM cur ORDER BY k DESC;
FETCH 2 FROM h;
COMMIT;
FETCH 2 FROM h;
FETCH BACKWARD 3 FROM h;
FETCH LAST FROM h;
CLOSE h;

-- an UPDATE through a cursor changes the table, not the rows of the cursor
BEGIN;
DECLARE c CURSOR FOR SELECT k, id FROM cur ORDER BY k;
FETCH 1 FROM c;
DELETE FROM cur;
FETCH 2 FROM c;
ROLLBACK;
BEGIN;
DECLARE c CURSOR FOR SELECT k, id FROM cur ORDER BY k FOR UPDATE;
FETCH 2 FROM c;
UPDATE cur SET k = k WHERE CURRENT OF c;
ROLLBACK;

-- an aborted subtransaction leaves an open cursor of the outer one
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT k FROM cur ORDER BY k;
FETCH 1 FROM c;
SAVEPOINT s;
DECLARE gone SCROLL CURSOR FOR SELECT k FROM cur ORDER BY k DESC;
FETCH 1 FROM gone;
ROLLBACK TO s;
FETCH 1 FROM c;
FETCH 1 FROM gone;
ROLLBACK;

-- the same fetches, in memory and past work_mem, with GpuSort and with the stock Sort
CREATE TABLE cur_big AS SELECT i AS id, mix(i) % 1000 AS k FROM generate_series(1, 30000) i;
ANALYZE cur_big;
CREATE FUNCTION walk(enable boolean, mem text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	c refcursor;
	x record;
	step int;
	seen text := '';
BEGIN
	PERFORM set_config('gpusort.enable', enable::text, true), set_config('work_mem', mem, true);
	-- EXECUTE plans each time: a cached plan would have the other setting
	OPEN c SCROLL FOR EXECUTE 'SELECT k, id FROM cur_big ORDER BY k, id DESC';
	FOR i IN 1..400 LOOP
		step := (mix(i) % 1001)::int - 400;
		CASE (mix(i * 3) % 4)::int
			WHEN 0 THEN MOVE RELATIVE step FROM c;
			WHEN 1 THEN MOVE FORWARD (mix(i * 5) % 500)::int FROM c;
			WHEN 2 THEN MOVE BACKWARD (mix(i * 5) % 300)::int FROM c;
			ELSE MOVE ABSOLUTE (mix(i * 7) % 31000)::int FROM c;
		END CASE;
		FETCH NEXT FROM c INTO x;
		seen := seen || format('%s/%s;', x.k, x.id);
		FETCH PRIOR FROM c INTO x;
		seen := seen || format('%s/%s;', x.k, x.id);
	END LOOP;
	CLOSE c;
	RETURN md5(seen);
END $$;
SELECT mem, walk(true, mem) = walk(false, '64MB') AS same FROM unnest('{64kB,1MB,64MB}'::text[]) mem;

DROP TABLE cur, cur_big;
DROP FUNCTION walk;
