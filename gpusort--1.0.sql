/* gpusort--1.0.sql */

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION gpusort" to load this file. \quit

-- loads the library, so that this session sorts with it at once
LOAD 'MODULE_PATHNAME';

CREATE FUNCTION gpusort_stat_get(
	OUT algorithm text,
	OUT sorts bigint,
	OUT rows bigint,
	OUT bytes bigint,
	OUT spills bigint,
	OUT fallbacks bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;

CREATE VIEW gpusort_stat AS SELECT * FROM gpusort_stat_get();
GRANT SELECT ON gpusort_stat TO PUBLIC;

CREATE FUNCTION gpusort_stat_reset()
RETURNS void
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;
REVOKE ALL ON FUNCTION gpusort_stat_reset() FROM PUBLIC;

-- The algorithms that can be named in gpusort.algorithm and gpusort_array().
CREATE FUNCTION gpusort_algorithms(
	OUT algorithm text,			-- its name
	OUT runs_on text,			-- cpu or gpu
	OUT key_bits int[],			-- the key widths it takes
	OUT stable boolean,
	OUT needs text,				-- what the input must be like; empty: anything
	OUT paper text)
RETURNS SETOF record
AS 'MODULE_PATHNAME' LANGUAGE C STABLE STRICT PARALLEL SAFE;

-- What the router would choose, and each algorithm's predicted time.
CREATE FUNCTION gpusort_route(
	rows bigint,
	key_bits int,
	key_range numeric DEFAULT NULL,		-- largest key - smallest + 1, if known
	input_order text DEFAULT NULL,		-- random, sorted, nearly_sorted, reversed, flat
	threads int DEFAULT 1,
	OUT algorithm text,
	OUT chosen boolean,
	OUT predicted_ms double precision,	-- NULL: it cannot sort such an input
	OUT scratch_bytes bigint,
	OUT reason text)
RETURNS SETOF record
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL SAFE ROWS 12;

-- Measures this machine and stores the constants of the router's model.
CREATE FUNCTION gpusort_calibrate(
	OUT constant text,
	OUT log2_rows int,
	OUT built_in double precision,		-- nanoseconds per row
	OUT measured double precision)
RETURNS SETOF record
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
REVOKE ALL ON FUNCTION gpusort_calibrate() FROM PUBLIC;

-- The GPUs in use, and what sorts have of them at this moment.  One row without a
-- device number where there is none; state says why.
CREATE FUNCTION gpusort_devices(
	OUT device int,				-- CUDA's number
	OUT name text,
	OUT state text,				-- of the service: ready, starting, down, none, off
	OUT memory_total bigint,	-- bytes of the device
	OUT memory_budget bigint,	-- ... that sorts may take
	OUT memory_used bigint,		-- ... and have taken
	OUT jobs int,				-- sorts on this device
	OUT free_jobs int,			-- sorts that could begin, on all devices
	OUT staging_total bigint,	-- bytes of pinned shared memory
	OUT staging_free bigint,
	OUT process_pid int,
	OUT restarts int,			-- of the device process
	OUT waiting int)			-- sorts that wait for room
RETURNS SETOF record
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL RESTRICTED;

-- Sorts an array ascending, NULL elements last, with one named algorithm.
CREATE FUNCTION gpusort_array(anyarray, algorithm text DEFAULT 'auto')
RETURNS anyarray
AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1000;
