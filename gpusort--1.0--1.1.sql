/* gpusort--1.0--1.1.sql */

-- complain if script is sourced in psql, rather than via ALTER EXTENSION
\echo Use "ALTER EXTENSION gpusort UPDATE TO '1.1'" to load this file. \quit

-- The GPUs in use, and what sorts have of them at this moment.  One row without a
-- device number where there is none; state says why.
DROP FUNCTION gpusort_devices();
CREATE FUNCTION gpusort_devices(
	OUT device int,				-- CUDA's number
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
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL RESTRICTED;
