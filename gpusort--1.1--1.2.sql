/* gpusort--1.1--1.2.sql */

-- complain if script is sourced in psql, rather than via ALTER EXTENSION
\echo Use "ALTER EXTENSION gpusort UPDATE TO '1.2'" to load this file. \quit

-- Each GPU that was opened since the server's start. gpusort_device_counters() stays for those who use it.
CREATE FUNCTION gpusort_device_stat_get(
	OUT device int,				-- CUDA's number; NULL: there is none
	OUT name text,
	OUT state text,				-- of the service: ready, idle, starting, leaving, down, none, off
	OUT memory_total bigint,	-- bytes of the device; NULL, as what follows, where it is not open now
	OUT memory_budget bigint,	-- ... that sorts may take
	OUT memory_used bigint,		-- ... and have taken
	OUT jobs int,				-- sorts on this device
	OUT free_jobs int,			-- sorts that could begin, on all devices
	OUT staging_total bigint,	-- bytes of pinned shared memory
	OUT staging_free bigint,
	OUT process_pid int,
	OUT restarts int,			-- of the device process
	OUT waiting int,			-- sorts that wait for room
	OUT memory_kept bigint,		-- bytes of the device that the next sorts will take
	OUT jobs_done bigint,		-- since the server's start or gpusort_stat_reset(), as all that follow
	OUT jobs_failed bigint,
	OUT busy_seconds double precision,	-- time for which the device was at work for sorts
	OUT bytes_up bigint,		-- to the device
	OUT bytes_down bigint)		-- and from it
RETURNS SETOF record
AS 'MODULE_PATHNAME' LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;

CREATE OR REPLACE VIEW gpusort_device_stat AS SELECT * FROM gpusort_device_stat_get();

-- What has gone wrong on GPUs. Reasons that differ in their numbers alone are one.
CREATE FUNCTION gpusort_device_failures_get(
	OUT device int,				-- CUDA's number; NULL: not known, or no device
	OUT reason text,			-- of the last
	OUT failures bigint,
	OUT last_failure timestamptz)
RETURNS SETOF record
AS 'MODULE_PATHNAME' LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;

CREATE VIEW gpusort_device_failures AS SELECT * FROM gpusort_device_failures_get();
GRANT SELECT ON gpusort_device_failures TO PUBLIC;

-- Builds of btree indexes by route, and those that were left to PostgreSQL by reason.
CREATE FUNCTION gpusort_index_builds_get(
	OUT route text,				-- how it was built: compact, tuples, stock
	OUT reason text,			-- why it was left to PostgreSQL
	OUT builds bigint,
	OUT rows bigint,			-- index tuples
	OUT pages bigint,			-- of the indexes
	OUT workers bigint,			-- parallel workers of all builds; NULL, as other columns, where not known
	OUT gpu_builds bigint,		-- builds that a GPU sorted, or a part of them
	OUT spills bigint,			-- builds that wrote temporary files
	OUT spilled_bytes bigint,
	OUT seconds double precision,
	OUT scan_seconds double precision,	-- parts of seconds
	OUT sort_seconds double precision,
	OUT load_seconds double precision)
RETURNS SETOF record
AS 'MODULE_PATHNAME' LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;

CREATE VIEW gpusort_index_builds AS SELECT * FROM gpusort_index_builds_get();
GRANT SELECT ON gpusort_index_builds TO PUBLIC;
