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
