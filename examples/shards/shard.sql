-- A shard: its part of the table.  The shards' indexes, statistics and settings are its own.
CREATE EXTENSION gpusort;
CREATE TABLE events (id bigint NOT NULL, at timestamptz NOT NULL, device int NOT NULL, value double precision,
	note text);
