-- Creates the extension, and functions that the other files call.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS gpusort;
RESET client_min_messages;
SELECT extversion FROM pg_extension WHERE extname = 'gpusort';

-- The nodes of a plan whose names match a regular expression, from the top.
CREATE FUNCTION plan_nodes(query text, pattern text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	line text;
	nodes text[] := '{}';
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
		nodes := nodes ||
			(regexp_match(line, '^ *(?:->  )?(?:(?:Parallel )?Custom Scan \()?((?:' || pattern || '))'))[1];
	END LOOP;
	RETURN array_to_string(array_remove(nodes, NULL), ', ');
END $$;

-- The sort nodes of a plan, from the top.
CREATE FUNCTION sort_nodes(query text) RETURNS text LANGUAGE sql AS $$
SELECT coalesce(nullif(plan_nodes(query, 'GpuSort(?: Incremental)?(?=\))|Incremental Sort|Sort$'), ''), 'no sort') $$;

-- The nodes that compute window functions, from the top.
CREATE FUNCTION window_nodes(query text) RETURNS text LANGUAGE sql AS $$
SELECT plan_nodes(query, 'GpuSort Window(?=\))|WindowAgg') $$;

-- The rows of a query, as text, in the order in which they come, with a setting on or off.
CREATE FUNCTION rows_of(query text, enable boolean, OUT nodes text, OUT r text[], setting text DEFAULT 'gpusort.enable')
LANGUAGE plpgsql AS $$
DECLARE
	saved text := current_setting(setting);
BEGIN
	PERFORM set_config(setting, enable::text, false);
	nodes := CASE setting WHEN 'gpusort.windows' THEN window_nodes(query)
		WHEN 'gpusort.merge_joins' THEN plan_nodes(query, 'GpuSort Join(?=\))|Merge (?:\w+ )*Join$|Materialize')
		WHEN 'gpusort.aggregates' THEN plan_nodes(query, 'GpuSort Aggregate(?=\))|(?:Group)?Aggregate$')
		ELSE sort_nodes(query) END;
	EXECUTE 'SELECT array_agg(q::text) FROM (' || query || ') q' INTO r;
	r := COALESCE(r, '{}');
	PERFORM set_config(setting, saved, false);
END $$;

-- Compares two lists of rows, position by position.
CREATE FUNCTION compare_rows(want text[], got text[]) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
	bad record;
BEGIN
	-- comparing whole arrays is much faster than searching for a difference
	IF want = got THEN
		RETURN 'same';
	END IF;
	IF cardinality(want) <> cardinality(got) THEN
		RETURN format('DIFFERENT: %s rows, want %s', cardinality(got), cardinality(want));
	END IF;
	SELECT n, w, g INTO bad
	FROM unnest(want, got) WITH ORDINALITY AS u (w, g, n)
	WHERE w IS DISTINCT FROM g ORDER BY n LIMIT 1;
	IF FOUND THEN
		RETURN format('DIFFERENT at row %s: %s, want %s', bad.n, left(bad.g, 200), left(bad.w, 200));
	END IF;
	RETURN 'same';
END $$;

-- Compares the rows of a query, and their order, with the setting on and off.  The
-- order must be total, or all columns sort keys: the stock Sort is not stable.
CREATE FUNCTION check_sort(query text, OUT nodes text, OUT "rows" int, OUT result text,
	setting text DEFAULT 'gpusort.enable')
LANGUAGE plpgsql AS $$
DECLARE
	want record;
	got record;
BEGIN
	want := rows_of(query, false, setting);
	got := rows_of(query, true, setting);
	IF want.nodes ~ 'GpuSort' THEN
		RAISE '% = off does not turn gpusort off: %', setting, want.nodes;
	END IF;
	nodes := got.nodes;
	"rows" := cardinality(got.r);
	result := compare_rows(want.r, got.r);
END $$;

-- The same for pgbench and loops: raises an error if a row differs.
CREATE FUNCTION must_be_same(query text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	r record := check_sort(query);
BEGIN
	IF r.result <> 'same' OR r.nodes !~ '^GpuSort' THEN
		RAISE '%: %', query, r;
	END IF;
END $$;

-- The topmost GpuSort node of a query's plan, with the figures of its execution.
CREATE FUNCTION executed_sort(query text) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
	plan jsonb;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, VERBOSE, TIMING OFF, FORMAT JSON) ' || query INTO plan;
	RETURN jsonb_path_query_first(plan, '$.** ? (@."Custom Plan Provider" == "GpuSort")');
END $$;

-- The route of a query's last sort.
CREATE FUNCTION sort_route(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	line text;
	route text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF) ' || query LOOP
		route := coalesce(substring(line FROM 'Sort Route: (.*)'), route);
	END LOOP;
	RETURN route;
END $$;

-- Checks that rows with equal keys keep their input order.  Column seq of the table
-- numbers the rows as a sequential scan returns them.
CREATE FUNCTION check_stable(tab text, keys text, OUT nodes text, OUT "rows" int, OUT result text)
LANGUAGE plpgsql AS $$
DECLARE
	want record;
	got record;
BEGIN
	want := rows_of(format('SELECT * FROM %s ORDER BY %s, seq', tab, keys), false);
	got := rows_of(format('SELECT * FROM %s ORDER BY %s', tab, keys), true);
	nodes := got.nodes;
	"rows" := cardinality(got.r);
	result := compare_rows(want.r, got.r);
END $$;

-- The same with some columns of the table only, without seq.
CREATE FUNCTION check_keys(tab text, cols text, keys text, OUT nodes text, OUT "rows" int, OUT result text)
LANGUAGE plpgsql AS $$
DECLARE
	want record;
	got record;
BEGIN
	want := rows_of(format('SELECT %s FROM %s ORDER BY %s, seq', cols, tab, keys), false);
	got := rows_of(format('SELECT %s FROM %s ORDER BY %s', cols, tab, keys), true);
	nodes := got.nodes;
	"rows" := cardinality(got.r);
	result := compare_rows(want.r, got.r);
END $$;

-- EXPLAIN (ANALYZE) without times and sizes, which differ from run to run.
CREATE FUNCTION explain_analyze(query text, options text DEFAULT 'COSTS OFF, SUMMARY OFF, TIMING OFF, BUFFERS OFF')
RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE format('EXPLAIN (ANALYZE ON, %s) %s', options, query) LOOP
		-- fields of later versions
		line := regexp_replace(line, ',\n *"Disabled": false(?=\n *\})', '', 'g');
		line := regexp_replace(line, '\n *("?Disabled"?: false,?|<Disabled>false</Disabled>)(?=\n|$)', '', 'g');
		CONTINUE WHEN line ~ '^ *("?Disabled|Replaces: )';
		line := regexp_replace(line, '(Memory|Disk): \d+kB', '\1: NkB', 'g');
		line := regexp_replace(line, '("?Sort Space Used"?: *)\d+', '\1N');
		line := regexp_replace(line, '(<Sort-Space-Used>)\d+', '\1N');
		line := regexp_replace(line, '(time|ingest|sort|emit)=[\d.]+', '\1=N', 'g');
		line := regexp_replace(line, 'N\.\.\d+\.\d+', 'N..N', 'g');
		-- from 18 on the number of rows is an average over loops
		line := regexp_replace(line, '(rows=|Rows"?: |Rows>)(\d+)\.00', '\1\2', 'g');
		RETURN NEXT line;
	END LOOP;
END $$;

-- A hash: the same pseudo-random numbers on every machine and version.
CREATE FUNCTION mix(i bigint) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
$$ SELECT (i * 2654435761 + 40503) % 4294967291 $$;
