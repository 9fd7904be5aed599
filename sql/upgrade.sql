-- What 1.0 has, brought up to date, is what a new installation has.
SELECT default_version FROM pg_available_extensions WHERE name = 'gpusort';

-- All that the extension owns, in words: how it is made and who may use it.
CREATE FUNCTION extension_objects(extension text) RETURNS SETOF text STABLE LANGUAGE sql AS $$
	SELECT concat_ws(' ', pg_describe_object(d.classid, d.objid, 0),
			pg_get_functiondef(p.oid), pg_get_viewdef(c.oid), p.proacl, c.relacl)
	FROM pg_extension e
		JOIN pg_depend d ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid AND d.deptype = 'e'
		LEFT JOIN pg_proc p ON d.classid = 'pg_proc'::regclass AND p.oid = d.objid
		LEFT JOIN pg_class c ON d.classid = 'pg_class'::regclass AND c.oid = d.objid
	WHERE e.extname = extension
$$;
CREATE TEMP TABLE fresh AS SELECT o FROM extension_objects('gpusort') o;

BEGIN;
DROP EXTENSION gpusort;
CREATE EXTENSION gpusort VERSION '1.0';
-- the library is newer than its SQL, and serves it
SELECT count(*) > 0 AS works FROM gpusort_stat;
SELECT count(*) > 0 AS works FROM gpusort_devices();
SELECT count(*) > 0 AS works FROM gpusort_algorithms();
CREATE VIEW uses_stat AS SELECT algorithm, sorts FROM gpusort_stat;
ALTER EXTENSION gpusort UPDATE;
SELECT extversion FROM pg_extension WHERE extname = 'gpusort';
SELECT count(*) > 0 AS still_works FROM uses_stat;
SELECT count(*) > 0 AS objects, count(*) - (SELECT count(*) FROM fresh) AS more FROM extension_objects('gpusort');
(SELECT 'updated: ' || o AS differs FROM (SELECT extension_objects('gpusort') o EXCEPT SELECT o FROM fresh) u)
UNION ALL
(SELECT 'fresh: ' || o FROM (SELECT o FROM fresh EXCEPT SELECT extension_objects('gpusort') o) f);
ROLLBACK;

DROP FUNCTION extension_objects;
