-- gpusort_route(): predicted times differ between machines, so only their relations are tested.

SELECT algorithm, runs_on, key_bits, stable, needs <> '' AS has_needs, paper <> '' AS has_paper
  FROM gpusort_algorithms() ORDER BY 1;

-- without a GPU (t/gpu/routing.pl has one)
SET gpusort.device = off;

-- every algorithm is listed; the chosen one comes first, and none is predicted to be faster
SELECT rows, bits,
	   count(*) = (SELECT count(*) FROM gpusort_algorithms()) AS complete,
	   count(*) FILTER (WHERE chosen) AS chosen,
	   (array_agg(chosen ORDER BY place))[1] AS chosen_first,
	   bool_and(predicted_ms > 0 AND scratch_bytes >= 0) FILTER (WHERE predicted_ms IS NOT NULL) AS times,
	   min(predicted_ms) = min(predicted_ms) FILTER (WHERE chosen) AS chosen_least,
	   bool_and((predicted_ms IS NULL) = (scratch_bytes IS NULL)) AS nulls_agree
  FROM (VALUES (1000), (100000), (10000000)) r (rows), (VALUES (8), (32), (64), (128)) b (bits),
	   gpusort_route(rows, bits) WITH ORDINALITY g (algorithm, chosen, predicted_ms, scratch_bytes, reason, place)
 GROUP BY 1, 2 ORDER BY 1, 2;

-- more rows take longer
SELECT algorithm, bool_and(predicted_ms > before) AS longer
  FROM (SELECT algorithm, predicted_ms,
			   lag(predicted_ms) OVER (PARTITION BY algorithm ORDER BY rows) AS before
		  FROM unnest(ARRAY[200, 3000, 50000, 1000000, 30000000]) rows, gpusort_route(rows, 64)) t
 WHERE predicted_ms IS NOT NULL GROUP BY 1 ORDER BY 1;

-- the reason of the choice
SELECT algorithm, reason FROM gpusort_route(20, 32) WHERE chosen;
SELECT reason ~ ': 16-bit keys, 1000000 rows' AS narrowed FROM gpusort_route(1000000, 64, 65536) WHERE chosen;
SELECT reason ~ 'presorted' AS sorted FROM gpusort_route(1000000, 32, NULL, 'sorted') WHERE chosen;
SELECT o, count(*) FILTER (WHERE chosen) AS chosen
  FROM unnest(ARRAY['random', 'sorted', 'nearly_sorted', 'reversed', 'flat']) o,
	   gpusort_route(100000, 64, NULL, o) GROUP BY 1 ORDER BY 1;
SELECT count(*) FILTER (WHERE chosen) AS chosen FROM gpusort_route(0, 32);

-- GPU algorithms are listed with the reason why they cannot run
SELECT count(*) AS gpu, bool_and(NOT chosen AND predicted_ms IS NULL AND scratch_bytes IS NULL) AS out,
	   array_agg(DISTINCT reason) AS reasons
  FROM gpusort_route(100000000, 64) WHERE algorithm LIKE 'gpu%';

-- a wide range excludes counting, and the reason says so
SELECT predicted_ms IS NULL AS excluded, reason <> '' AS explained
  FROM gpusort_route(1000, 64, 1e15) WHERE algorithm = 'cpu_counting';

-- errors
SELECT * FROM gpusort_route(-1, 32);
SELECT * FROM gpusort_route(1000, 0);
SELECT * FROM gpusort_route(1000, 129);
SELECT * FROM gpusort_route(1000, 32, 0);
SELECT * FROM gpusort_route(1000, 32, 'NaN');
SELECT * FROM gpusort_route(1000, 32, NULL, 'chaotic');
SELECT * FROM gpusort_route(1000, 32, NULL, NULL, 0);
SELECT * FROM gpusort_route(NULL, 32);

-- a function of 1.0 that stays
SELECT count(*) FROM gpusort_calibrate();
