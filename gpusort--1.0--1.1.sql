/* gpusort--1.0--1.1.sql */

-- complain if script is sourced in psql, rather than via ALTER EXTENSION
\echo Use "ALTER EXTENSION gpusort UPDATE TO '1.1'" to load this file. \quit

-- Functions of 1.0 keep the rows that they return, and stay: what others have made of
-- them would hinder their replacement.  What is new in such a row is in a view, which a
-- later version can give more columns.

-- The GPUs in use, as gpusort_devices() has them, and more.
CREATE FUNCTION gpusort_device_counters(
	OUT device int,				-- CUDA's number; NULL: there is none
	OUT name text,
	OUT state text,				-- of the service: ready, idle, starting, leaving, down, none, off
	OUT memory_total bigint,	-- bytes of the device
	OUT memory_budget bigint,	-- ... that sorts may take
	OUT memory_used bigint,		-- ... and have taken
	OUT jobs int,				-- sorts on this device
	OUT free_jobs int,			-- sorts that could begin, on all devices
	OUT staging_total bigint,	-- bytes of pinned shared memory
	OUT staging_free bigint,
	OUT process_pid int,
	OUT restarts int,			-- of the device process
	OUT waiting int,			-- sorts that wait for room
	OUT memory_kept bigint)		-- bytes of the device that the next sorts will take
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'gpusort_devices'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

CREATE VIEW gpusort_device_stat AS SELECT * FROM gpusort_device_counters();
GRANT SELECT ON gpusort_device_stat TO PUBLIC;

-- What is known of each GPU beside what its library says: by part of a sort, how many times
-- longer it takes than the library's costs.
CREATE FUNCTION gpusort_device_model(
	OUT device int,				-- CUDA's number
	OUT part text,				-- hand_over, up, down (a byte each way), sort_32, _64, _128, load
	OUT log2_rows int,			-- of a sort; between these, straight
	OUT measured double precision,	-- by the service, at its start; load: NULL
	OUT factor double precision,	-- that predictions go by; load: of each other job under way
	OUT jobs bigint)			-- that have moved it
RETURNS SETOF record
AS 'MODULE_PATHNAME' LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;

-- Sorts that are under way.  Of other roles' sorts only process and database are
-- told, but to members of pg_read_all_stats.
CREATE FUNCTION gpusort_progress_get(
	OUT pid int,
	OUT datid oid,
	OUT leader_pid int,			-- of a parallel worker
	OUT node int,				-- the plan's number of it
	OUT phase text,				-- ingest, sort, spill, merge, emit
	OUT algorithm text,			-- NULL: not known yet
	OUT rows bigint,			-- that came in
	OUT rows_estimated bigint,	-- by the planner
	OUT rows_written bigint,	-- in the phases spill and merge: of this run
	OUT runs int,				-- written
	OUT memory_bytes bigint,
	OUT disk_bytes bigint,
	OUT device_bytes bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME' LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;

CREATE VIEW gpusort_progress AS
	SELECT p.pid, p.datid, d.datname, p.leader_pid, p.node, p.phase, p.algorithm, p.rows, p.rows_estimated,
		p.rows_written, p.runs, p.memory_bytes, p.disk_bytes, p.device_bytes
	FROM gpusort_progress_get() p LEFT JOIN pg_catalog.pg_database d ON d.oid = p.datid;
GRANT SELECT ON gpusort_progress TO PUBLIC;

-- The counters, now with times.
CREATE FUNCTION gpusort_stat_counters(
	OUT algorithm text,
	OUT sorts bigint,
	OUT rows bigint,
	OUT bytes bigint,
	OUT spills bigint,
	OUT fallbacks bigint,
	OUT timed_sorts bigint,				-- of which the times are
	OUT ingest_seconds double precision,	-- the plan below included
	OUT sort_seconds double precision,
	OUT spill_seconds double precision,	-- writing and merging runs
	OUT predicted_seconds double precision,	-- of the algorithm, where there was a prediction
	OUT measured_seconds double precision)	-- what that took
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'gpusort_stat_get'
LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;

CREATE OR REPLACE VIEW gpusort_stat AS SELECT * FROM gpusort_stat_counters();
