-- The coordinator: a table whose partitions are tables of other servers, and rows in it.
--
-- psql variables: host, the shards' host; ports, theirs ('{5433,5434,5435}'); rows.
CREATE EXTENSION gpusort;
CREATE EXTENSION postgres_fdw;
CREATE TABLE events (id bigint NOT NULL, at timestamptz NOT NULL, device int NOT NULL, value double precision,
	note text)
	PARTITION BY HASH (id);

SET shards.host = :'host';
SET shards.ports = :'ports';

-- use_remote_estimate: the planner asks the shard what a sort costs there.  async_capable: below an
-- Append all shards work at once.  fetch_size: rows in a message, 100 if nothing is said.
DO $$
DECLARE
	ports int[] := current_setting('shards.ports');
	s int;
BEGIN
	FOR s IN 1 .. cardinality(ports) LOOP
		EXECUTE format($f$
			CREATE SERVER shard%1$s FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host %2$L, port '%3$s',
				dbname %4$L, use_remote_estimate 'true', async_capable 'true', fetch_size '10000',
				batch_size '1000', options '-c gpusort.enable=on');
			CREATE USER MAPPING FOR CURRENT_USER SERVER shard%1$s OPTIONS (user %5$L);
			CREATE FOREIGN TABLE events_%1$s PARTITION OF events
				FOR VALUES WITH (MODULUS %6$s, REMAINDER %7$s) SERVER shard%1$s OPTIONS (table_name 'events')$f$,
			s, current_setting('shards.host'), ports[s], current_database(), current_user, cardinality(ports), s - 1);
	END LOOP;
END $$;

-- the same rows on one server, to compare with
CREATE TABLE events_here AS
SELECT i AS id, timestamptz '2026-01-01' + i * 618033 % 1000003 * interval '1 second' AS at,
	(i * 104729 % 1009)::int AS device,
	   (i * 15485863 % 1000003)::double precision / 7 AS value, 'event ' || i AS note
FROM generate_series(1, (:rows)::bigint) i;
INSERT INTO events SELECT * FROM events_here;
VACUUM ANALYZE events_here;
ANALYZE events;
