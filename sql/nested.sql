-- Several sorts of one session at the same time: each has its own memory and files.
LOAD 'gpusort';
SET gpusort.min_rows = 0;
SET jit = off;
SET max_parallel_workers_per_gather = 0;

CREATE TABLE nest AS SELECT i AS id, mix(i) AS k, (mix(i * 3) % 100)::int AS h, repeat('p', (mix(i) % 30)::int) AS p
FROM generate_series(1, 20000) i;
ANALYZE nest;

-- cursors that are opened, read alternately, closed and opened again, in every order
CREATE FUNCTION in_turns(cursors int, mem text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	c refcursor;
	last int8[];
	n int8[];
	x record;
	j int;
BEGIN
	PERFORM set_config('work_mem', mem, true);
	FOR step IN 1..cursors * 30 LOOP
		j := (mix(step) % cursors)::int + 1;
		c := 'turns_' || j;
		IF n[j] IS NULL THEN
			-- the remainder distinguishes the cursors
			OPEN c SCROLL FOR EXECUTE format('SELECT k, id FROM nest WHERE id %% %s = %s ORDER BY k, id', cursors,
				j - 1);
			n[j] := 0;
			last[j] := -1;
		ELSIF mix(step * 3) % 17 = 0 THEN
			CLOSE c;
			n[j] := NULL;
		ELSE
			FOR f IN 1..mix(step * 5) % 60 LOOP
				FETCH c INTO x;
				EXIT WHEN x IS NULL;
				IF x.k <= last[j] OR x.id % cursors <> j - 1 THEN
					RETURN format('cursor %s: %s after %s', j, x, last[j]);
				END IF;
				last[j] := x.k;
				n[j] := n[j] + 1;
			END LOOP;
		END IF;
	END LOOP;
	-- read the remaining rows: none may be missing
	FOR i IN 1..cursors LOOP
		CONTINUE WHEN n[i] IS NULL;
		c := 'turns_' || i;
		LOOP
			FETCH c INTO x;
			EXIT WHEN x IS NULL;
			IF x.k <= last[i] THEN
				RETURN format('cursor %s: %s after %s at the end', i, x, last[i]);
			END IF;
			last[i] := x.k;
			n[i] := n[i] + 1;
		END LOOP;
		CLOSE c;
		IF n[i] <> (SELECT count(*) FROM nest WHERE id % cursors = i - 1) THEN
			RETURN format('cursor %s: %s rows', i, n[i]);
		END IF;
	END LOOP;
	RETURN 'in order, complete';
END $$;
SELECT n, mem, in_turns(n, mem) FROM unnest('{1,2,7,40}'::int[]) n, unnest('{64kB,1MB,64MB}'::text[]) mem
	ORDER BY n, mem COLLATE "C";

-- sorts in functions that are called by the rows and the keys of a sort
CREATE FUNCTION sorting(bucket int) RETURNS int8 LANGUAGE plpgsql AS $$
DECLARE
	x record;
	a int8 := 0;
	last int8 := -1;
BEGIN
	FOR x IN EXECUTE 'SELECT k FROM nest WHERE h = $1 ORDER BY k DESC' USING bucket LOOP
		IF last >= 0 AND x.k > last THEN
			RAISE 'out of order';
		END IF;
		last := x.k;
		a := a + 1;
	END LOOP;
	RETURN a * 1000000000000 + last;
END $$;
SELECT * FROM check_sort('SELECT id, sorting(h) AS s FROM nest WHERE id <= 150 ORDER BY s, id');
SELECT * FROM check_sort('SELECT id, h FROM nest WHERE id <= 150 ORDER BY sorting(h) DESC, sorting((h + 1) % 100), id');
SELECT * FROM check_sort('SELECT sorting(h) AS s FROM (SELECT h, id FROM nest WHERE id <= 150 ORDER BY id DESC) x');
-- sorts above sorts
SELECT * FROM check_sort('SELECT id FROM (SELECT id, h, row_number() OVER (ORDER BY k DESC) AS r
	FROM (SELECT *, rank() OVER (PARTITION BY h ORDER BY k) AS q FROM nest) a WHERE q < 20) b ORDER BY r % 10, h, id');
SET work_mem = '64kB';
SELECT * FROM check_sort('SELECT id FROM (SELECT id, h, row_number() OVER (ORDER BY k DESC) AS r
	FROM (SELECT *, rank() OVER (PARTITION BY h ORDER BY k) AS q FROM nest) a WHERE q < 20) b ORDER BY r % 10, h, id');
SELECT * FROM check_sort('SELECT id, sorting(h) AS s FROM nest WHERE id <= 150 ORDER BY s, id');
RESET work_mem;

-- a prepared statement whose table changes
SET plan_cache_mode = force_generic_plan;
CREATE TABLE changing (k int, v text);
INSERT INTO changing VALUES (3, 'c'), (1, 'a'), (20, 'b');
PREPARE changed AS SELECT v FROM changing ORDER BY k;
EXECUTE changed;
ALTER TABLE changing ALTER k TYPE text;
EXECUTE changed;
ALTER TABLE changing ALTER k TYPE float8 USING -k::float8;
EXECUTE changed;
ALTER TABLE changing ADD COLUMN x int DEFAULT 7;
EXECUTE changed;
DEALLOCATE changed;
RESET plan_cache_mode;

DROP TABLE nest, changing;
DROP FUNCTION in_turns, sorting;
