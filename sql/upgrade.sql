-- Version 1.0 with all upgrade scripts equals a new installation.
SELECT default_version FROM pg_available_extensions WHERE name = 'gpusort';

-- All objects of the extension: their definition and privileges.
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
-- the new library works with the SQL objects of 1.0
SELECT count(*) > 0 AS works FROM gpusort_stat;
SELECT count(*) > 0 AS works FROM gpusort_devices();
SELECT count(*) > 0 AS works FROM gpusort_algorithms();
-- user objects that depend on functions and views of 1.0 do not prevent the upgrade
CREATE VIEW uses_stat AS SELECT * FROM gpusort_stat;
CREATE VIEW uses_counters AS SELECT * FROM gpusort_stat_get();
CREATE VIEW uses_devices AS SELECT * FROM gpusort_devices();
CREATE VIEW uses_algorithms AS SELECT * FROM gpusort_algorithms();
CREATE VIEW uses_route AS SELECT * FROM gpusort_route(1000, 32);
CREATE VIEW uses_calibrate AS SELECT * FROM gpusort_calibrate() LIMIT 0;
CREATE VIEW uses_array AS SELECT gpusort_array(ARRAY[2, 1]);
ALTER EXTENSION gpusort UPDATE;
SELECT extversion FROM pg_extension WHERE extname = 'gpusort';
SELECT (SELECT count(*) > 0 FROM uses_stat) AS stat, (SELECT count(*) > 0 FROM uses_counters) AS counters,
	(SELECT count(*) > 0 FROM uses_devices) AS devices, (SELECT count(*) > 0 FROM uses_algorithms) AS algorithms,
	(SELECT count(*) > 0 FROM uses_route) AS route, (SELECT gpusort_array FROM uses_array) AS an_array;
-- columns of the view that the function lacks
SELECT d.attname FROM pg_attribute d
WHERE d.attrelid = 'gpusort_device_stat'::regclass AND d.attnum > 0
	AND d.attname NOT IN (SELECT u.attname FROM pg_attribute u WHERE u.attrelid = 'uses_devices'::regclass)
ORDER BY d.attnum;
SELECT count(*) AS differ FROM (SELECT device, name, memory_total, jobs FROM gpusort_device_stat
	EXCEPT SELECT device, name, memory_total, jobs FROM uses_devices) x;
SELECT count(*) > 0 AS objects, count(*) - (SELECT count(*) FROM fresh) AS more FROM extension_objects('gpusort');
(SELECT 'updated: ' || o AS differs FROM (SELECT extension_objects('gpusort') o EXCEPT SELECT o FROM fresh) u)
UNION ALL
(SELECT 'fresh: ' || o FROM (SELECT o FROM fresh EXCEPT SELECT extension_objects('gpusort') o) f);
ROLLBACK;

-- upgrade from 1.1
BEGIN;
DROP EXTENSION gpusort;
CREATE EXTENSION gpusort VERSION '1.1';
SELECT count(*) > 0 AS works FROM gpusort_device_stat;
CREATE VIEW uses_stat AS SELECT * FROM gpusort_device_stat;
CREATE VIEW uses_counters AS SELECT * FROM gpusort_device_counters();
ALTER EXTENSION gpusort UPDATE;
SELECT extversion FROM pg_extension WHERE extname = 'gpusort';
SELECT (SELECT count(*) > 0 FROM uses_stat) AS stat, (SELECT count(*) > 0 FROM uses_counters) AS counters;
-- columns added to the view
SELECT d.attname FROM pg_attribute d
WHERE d.attrelid = 'gpusort_device_stat'::regclass AND d.attnum > 0
	AND d.attname NOT IN (SELECT u.attname FROM pg_attribute u WHERE u.attrelid = 'uses_stat'::regclass)
ORDER BY d.attnum;
SELECT count(*) AS differ FROM (SELECT extension_objects('gpusort') o EXCEPT SELECT o FROM fresh) u;
ROLLBACK;

DROP FUNCTION extension_objects;
