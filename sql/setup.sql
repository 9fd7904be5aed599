-- The extension, and what the other files check with.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS gpusort;
RESET client_min_messages;
SELECT extversion FROM pg_extension WHERE extname = 'gpusort';

-- The sort nodes of a plan, from the top.
CREATE FUNCTION sort_nodes(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	line text;
	nodes text[] := '{}';
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
		IF line ~ 'Custom Scan \(GpuSort\)' THEN
			nodes := nodes || 'GpuSort'::text;
		ELSIF line ~ '^( *->  )?Incremental Sort' THEN
			nodes := nodes || 'Incremental Sort'::text;
		ELSIF line ~ '^( *->  )?Sort$' THEN
			nodes := nodes || 'Sort'::text;
		END IF;
	END LOOP;
	RETURN COALESCE(NULLIF(array_to_string(nodes, ', '), ''), 'no sort');
END $$;

-- The rows of a query, as text, in the order in which they come.
CREATE FUNCTION rows_of(query text, enable boolean, OUT nodes text, OUT r text[])
LANGUAGE plpgsql AS $$
DECLARE
	saved text := current_setting('gpusort.enable');
BEGIN
	PERFORM set_config('gpusort.enable', enable::text, false);
	nodes := sort_nodes(query);
	EXECUTE 'SELECT array_agg(q::text) FROM (' || query || ') q' INTO r;
	r := COALESCE(r, '{}');
	PERFORM set_config('gpusort.enable', saved, false);
END $$;

-- Compare two lists of rows, position by position.
CREATE FUNCTION compare_rows(want text[], got text[]) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
	bad record;
BEGIN
	-- many times quicker than to look for what differs
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

-- Does gpusort return the rows of the stock server in the same order?  The
-- order must be total, or the rows no more than the keys: the stock Sort does
-- not keep equal rows in order.
CREATE FUNCTION check_sort(query text, OUT nodes text, OUT "rows" int, OUT result text)
LANGUAGE plpgsql AS $$
DECLARE
	want record;
	got record;
BEGIN
	want := rows_of(query, false);
	got := rows_of(query, true);
	IF want.nodes ~ 'GpuSort' THEN
		RAISE 'gpusort.enable = off does not turn gpusort off: %', want.nodes;
	END IF;
	nodes := got.nodes;
	"rows" := cardinality(got.r);
	result := compare_rows(want.r, got.r);
END $$;

-- The same for pgbench and for loops: an error if not.
CREATE FUNCTION must_be_same(query text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	r record := check_sort(query);
BEGIN
	IF r.result <> 'same' OR r.nodes !~ '^GpuSort' THEN
		RAISE '%: %', query, r;
	END IF;
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

-- Do equal rows keep their order?  The table has a column seq that numbers its
-- rows as a sequential scan returns them.
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

-- The same where the rows are no more than some columns, not seq.
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

-- EXPLAIN (ANALYZE) with what varies from run to run hidden.
CREATE FUNCTION explain_analyze(query text, options text DEFAULT 'COSTS OFF, SUMMARY OFF, TIMING OFF, BUFFERS OFF')
RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE format('EXPLAIN (ANALYZE ON, %s) %s', options, query) LOOP
		-- what later versions add
		line := regexp_replace(line, ',\n *"Disabled": false(?=\n *\})', '', 'g');
		line := regexp_replace(line, '\n *("?Disabled"?: false,?|<Disabled>false</Disabled>)(?=\n|$)', '', 'g');
		CONTINUE WHEN line ~ '^ *("?Disabled|Replaces: )';
		line := regexp_replace(line, '(Memory|Disk): \d+kB', '\1: NkB', 'g');
		line := regexp_replace(line, '("?Sort Space Used"?: *)\d+', '\1N');
		line := regexp_replace(line, '(<Sort-Space-Used>)\d+', '\1N');
		line := regexp_replace(line, '(time|ingest|sort|emit)=[\d.]+', '\1=N', 'g');
		line := regexp_replace(line, 'N\.\.\d+\.\d+', 'N..N', 'g');
		-- since 18 rows are averages of loops
		line := regexp_replace(line, '(rows=|Rows"?: |Rows>)(\d+)\.00', '\1\2', 'g');
		RETURN NEXT line;
	END LOOP;
END $$;

-- Small numbers as if at random: the same on every machine and version.
CREATE FUNCTION mix(i bigint) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
$$ SELECT (i * 2654435761 + 40503) % 4294967291 $$;
