# index_statements.pl: which index builds gpusort runs.
#
# It runs those of all btree indexes of tables with rows, for any max_parallel_maintenance_workers.  PostgreSQL builds
# the indexes of catalogs and of empty tables, and all indexes while the setting is off.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GpuSortTest;
use IndexBuilds;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = index_node('index_statements', conf => "wal_level = minimal\nmax_wal_senders = 0\n");
$node->safe_psql('postgres', <<'SQL');
CREATE TABLE t AS SELECT i AS id, mix(i) AS k, 'n' || mix(i) AS s FROM generate_series(1, 3000) i;
CREATE TABLE parted (id int, k bigint) PARTITION BY RANGE (id);
CREATE TABLE parted_a PARTITION OF parted FOR VALUES FROM (1) TO (1000);
CREATE TABLE parted_b PARTITION OF parted FOR VALUES FROM (1000) TO (2000);
CREATE TABLE parted_c (id int NOT NULL, k bigint);
INSERT INTO parted SELECT id, k FROM t WHERE id < 2000;
INSERT INTO parted_c SELECT id, k FROM t WHERE id >= 2000;
CREATE TABLE empty (id int);
SQL

# each statement with the indexes that it builds
sub cases
{
	my ($set) = @_;

	all_built($node, "$set: $_->[0]", "$set; $_->[0]", @{ $_->[1] }) for (
		[ 'CREATE INDEX i1 ON t (k)', ['i1'] ],
		[ 'CREATE UNIQUE INDEX i2 ON t (id)', ['i2'] ],
		[ 'CREATE INDEX CONCURRENTLY i3 ON t (s)', ['i3'] ],
		[ 'CREATE UNIQUE INDEX CONCURRENTLY i4 ON t (id, k)', ['i4'] ],
		[ 'CREATE INDEX i5 ON t (k DESC NULLS LAST, s COLLATE "C") INCLUDE (id) WHERE id % 2 = 0', ['i5'] ],
		[ 'CREATE INDEX i6 ON t (lower(s))', ['i6'] ],
		[ 'ALTER TABLE t ADD CONSTRAINT i7 PRIMARY KEY (id)', ['i7'] ],
		[ 'ALTER TABLE t ADD CONSTRAINT i8 UNIQUE (k) DEFERRABLE', ['i8'] ],
		[ 'ALTER TABLE t ADD CONSTRAINT i9 EXCLUDE (id WITH =)', ['i9'] ],
		[ 'REINDEX INDEX i1', ['i1'] ],
		[ 'REINDEX INDEX CONCURRENTLY i1', ['i1_ccnew'] ],
		[ 'REINDEX TABLE t', [ map { "i$_" } 1 .. 9 ] ],
		[ 'CLUSTER t USING i1', [ map { "i$_" } 1 .. 9 ] ],
		[ 'VACUUM (FULL, ANALYZE) t', [ map { "i$_" } 1 .. 9 ] ],
		[ 'ALTER TABLE t ADD COLUMN more uuid DEFAULT gen_random_uuid()', [ map { "i$_" } 1 .. 9 ] ],
		[ 'ALTER TABLE t ALTER id TYPE bigint', [ map { "i$_" } 1 .. 9 ] ],
		[ 'ALTER TABLE t SET UNLOGGED', [ map { "i$_" } 1 .. 9 ] ],
		[ 'CREATE INDEX j1 ON parted (k)', [qw(parted_a_k_idx parted_b_k_idx)] ],
		[ 'ALTER TABLE parted ATTACH PARTITION parted_c FOR VALUES FROM (2000) TO (10000)', ['parted_c_k_idx'] ],
		[ 'ALTER TABLE parted ADD PRIMARY KEY (id)', [qw(parted_a_pkey parted_b_pkey parted_c_pkey)] ],
		[ 'REINDEX INDEX j1', [qw(parted_a_k_idx parted_b_k_idx parted_c_k_idx)] ],
		[ 'CREATE TEMP TABLE p AS SELECT * FROM t; CREATE INDEX p1 ON p (k); REINDEX TABLE p; DROP TABLE p',
			[qw(p1 p1)] ],
		[ 'BEGIN; CREATE TABLE m AS SELECT * FROM t; CREATE INDEX m1 ON m (k); COMMIT; DROP TABLE m', ['m1'] ],
		[ 'CREATE UNLOGGED TABLE u AS SELECT * FROM t; ALTER TABLE u ADD UNIQUE (id, k); DROP TABLE u',
			['u_id_k_key'] ],
		[ 'CREATE MATERIALIZED VIEW v AS SELECT id, k FROM t; CREATE UNIQUE INDEX v1 ON v (id); '
			  . 'REFRESH MATERIALIZED VIEW v; REFRESH MATERIALIZED VIEW CONCURRENTLY v; DROP MATERIALIZED VIEW v',
			[qw(v1 v1)] ],
		[ 'DO $$ BEGIN CREATE TABLE d AS SELECT k FROM t; CREATE INDEX d1 ON d (k); DROP TABLE d; END $$', ['d1'] ],
		[ 'CREATE TABLE w AS SELECT repeat(md5(i::text), 1000) AS x FROM generate_series(1, 3) i; '
			  . 'ALTER TABLE w ALTER x SET STORAGE EXTERNAL; INSERT INTO w SELECT repeat(md5(i::text), 1000) '
			  . 'FROM generate_series(1, 9) i; CREATE INDEX w1 ON w (left(x, 9)); REINDEX TABLE w; DROP TABLE w',
			['w1', 'w1', 'pg_toast_\d+_index'] ]);

	is($node->safe_psql('postgres', "SELECT check_indexes('t'), (SELECT sum(check_indexes(relid)) FROM "
		. "pg_partition_tree('parted') WHERE isleaf)"), '9|6', "$set: amcheck");
	is($node->safe_psql('postgres', "SET enable_seqscan = off; SELECT count(*) FROM t x JOIN t y USING (k) "
		. "WHERE x.id <= 100"), '100', "$set: an index is read");
	$node->safe_psql('postgres', 'ALTER TABLE parted DETACH PARTITION parted_c; DROP TABLE t, parted_c');
	$node->safe_psql('postgres', <<'SQL');
CREATE TABLE t AS SELECT i AS id, mix(i) AS k, 'n' || mix(i) AS s FROM generate_series(1, 3000) i;
DROP INDEX j1;
ALTER TABLE parted DROP CONSTRAINT parted_pkey;
CREATE TABLE parted_c (id int NOT NULL, k bigint);
INSERT INTO parted_c SELECT id, k FROM t WHERE id >= 2000;
SQL
}

cases('SET max_parallel_maintenance_workers = 0');
cases('SET max_parallel_maintenance_workers = 2; SET min_parallel_table_scan_size = 0');
is($node->safe_psql('postgres', 'CREATE TABLE s1 AS SELECT 1 AS x; CREATE INDEX ON s1 (x); '
	. 'SHOW max_parallel_maintenance_workers'), '0', 'the setting is as it was');

# --- builds that are left to PostgreSQL
is(routes_of($node, "SET gpusort.index_builds = off; CREATE INDEX o1 ON t (k); REINDEX TABLE t; VACUUM FULL t"), '',
	'gpusort.index_builds = off');
is(routes_of($node, 'CREATE TABLE five AS SELECT generate_series(1, 5) AS k; '
	. "SET gpusort.index_builds_min_size = '64kB'; CREATE INDEX five1 ON five (k)"), '',
	'a table below gpusort.index_builds_min_size');
like(routes_of($node, 'CREATE INDEX five2 ON five (k)'), qr/^five2 /, 'the same table without a minimum');
is(routes_of($node, "SET gpusort.enable = off; REINDEX TABLE t"), '', 'gpusort.enable = off');
is(routes_of($node, 'REINDEX TABLE pg_class; REINDEX SYSTEM postgres; VACUUM FULL pg_description'), '', 'catalogs');
is(routes_of($node, 'CREATE INDEX e1 ON empty (id); REINDEX TABLE empty; TRUNCATE empty; CREATE TABLE e2 (id int '
	. 'PRIMARY KEY)'), '', 'empty tables');
is(routes_of($node, 'CREATE INDEX h1 ON t USING hash (k); CREATE INDEX b1 ON t USING brin (k); REINDEX INDEX h1; '
	. 'REINDEX INDEX b1; DROP INDEX h1, b1'), '', 'other access methods');
all_built($node, 'beside a hash index', 'DROP INDEX o1; CREATE INDEX o1 ON t USING hash (k); CREATE INDEX o2 ON t (k)',
	'o2');
$node->stop;
{
	# single-user mode: PostgreSQL builds the indexes, and gpusort logs nothing
	my ($out, $err) = ('', '');
	my $in = "REINDEX TABLE t\nSELECT count(*) FROM t\n";

	IPC::Run::run([ 'postgres', '--single', '-D', $node->data_dir, '-c', 'log_min_messages=debug1', 'postgres' ],
		'<', \$in, '>', \$out, '2>', \$err);
	like($out, qr/count = "3000"/, 'single-user mode: the table is there');
	like($err, qr/building index "o2"/, 'single-user mode: an index is built');
	unlike($err, qr/gpusort built|gpusort left/, 'single-user mode: PostgreSQL builds the index');
}
$node->start;

# --- a statement that fails in the build, and the next builds of the session
my $session = new_session($node);
$session->query('SET client_min_messages = debug1; SET statement_timeout = 0;');
sub session_built
{
	my ($sql) = @_;

	$session->{stderr} = '';
	$session->query($sql);
	return join ', ', map { "$_->[0] " . ($_->[1] =~ s/^(?:compact|tuples)$/ours/r) }
	  build_messages($session->{stderr});
}

is(session_built('CREATE INDEX f1 ON t (k)'), 'f1 ours', 'an index');
session_built('CREATE INDEX f2 ON t ((1 / (id - 1500)))');
like($session->{stderr}, qr/division by zero/, 'an expression fails');
is($session->query('SHOW max_parallel_maintenance_workers'), '0', 'the setting is as it was after an error');
is($session->query("SELECT count(*) FROM pg_class WHERE relname = 'f2'"), '0', 'no index is left');
is(session_built('REINDEX INDEX f1'), 'f1 ours', 'gpusort builds the next index');
is(session_built('CREATE INDEX f3 ON t (s)'), 'f3 ours', 'gpusort builds another index');
$session->query('SET gpusort.index_builds = off');
is(session_built('REINDEX INDEX f1'), '', 'the first index, with the setting off: stock');
$session->query('SET gpusort.index_builds = on');
is(session_built('REINDEX INDEX f1'), 'f1 ours', 'setting on: gpusort');
$session->query(q(SET gpusort.index_builds = off; SET max_parallel_maintenance_workers = 2));
is(session_built('REINDEX INDEX f3'), '', 'setting off: stock');
$session->query('RESET ALL; SET client_min_messages = debug1');

# --- a function of an index expression that builds an index itself; an event trigger that changes the setting
$node->safe_psql('postgres', <<'SQL');
CREATE TABLE inner_t AS SELECT mix(i) AS k FROM generate_series(1, 1000) i;
CREATE INDEX inner_k ON inner_t (k);
CREATE FUNCTION rebuild() RETURNS void LANGUAGE plpgsql AS $$ BEGIN REINDEX INDEX public.inner_k; END $$;
CREATE FUNCTION nested(i int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$
BEGIN
	IF i = 10 THEN
		PERFORM public.rebuild();
	END IF;
	RETURN i;
END $$;
CREATE FUNCTION try_unique() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	CREATE UNIQUE INDEX inner_same ON public.inner_t ((k * 0));
EXCEPTION WHEN unique_violation THEN
	NULL;
END $$;
CREATE FUNCTION violates(i int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$
BEGIN
	IF i = 10 THEN
		PERFORM public.try_unique();
	END IF;
	RETURN i;
END $$;
CREATE FUNCTION sets() RETURNS event_trigger LANGUAGE plpgsql AS $$
BEGIN
	SET max_parallel_maintenance_workers = 2;
END $$;
SQL
is(session_built('CREATE INDEX n1 ON t (nested(id))'), 'inner_k ours, n1 ours', 'an index within an index');
like(session_built('CREATE INDEX n3 ON t (violates(id))'), qr/n3 ours/, 'an index within which a unique index fails');
is($session->query('SHOW max_parallel_maintenance_workers'), '0', 'the setting after that');
$session->query('CREATE EVENT TRIGGER sets ON ddl_command_end EXECUTE FUNCTION sets()');
is(session_built('CREATE INDEX n2 ON t (k, id)'), 'n2 ours', 'an event trigger sets the setting');
is($session->query('SHOW max_parallel_maintenance_workers'), '2', 'the value that the trigger set remains');
$session->query('DROP EVENT TRIGGER sets; RESET max_parallel_maintenance_workers');

# --- under debug_discard_caches, where the server has it
my ($rc) = $node->psql('postgres', 'SET debug_discard_caches = 1');
SKIP:
{
	skip 'no debug_discard_caches', 1 if $rc != 0;
	is(session_built('SET debug_discard_caches = 1; REINDEX INDEX inner_k; CREATE INDEX x1 ON inner_t (k DESC); RESET '
		. 'debug_discard_caches'), 'inner_k ours, x1 ours', 'debug_discard_caches');
}

# --- an event trigger, and a function that it calls, sees the setting of the session
$node->safe_psql('postgres', <<'SQL');
CREATE TABLE seen (event text, workers text);
CREATE FUNCTION see() RETURNS event_trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO seen VALUES (tg_event, current_setting('max_parallel_maintenance_workers'));
END $$;
CREATE FUNCTION set_workers() RETURNS event_trigger LANGUAGE plpgsql AS $$
BEGIN
	SET max_parallel_maintenance_workers = 1;
END $$;
CREATE TABLE triggered AS SELECT i FROM generate_series(1, 5000) i;
CREATE EVENT TRIGGER see_start ON ddl_command_start EXECUTE FUNCTION see();
CREATE EVENT TRIGGER see_end ON ddl_command_end EXECUTE FUNCTION see();
SQL
all_built($node, 'event triggers', 'SET max_parallel_maintenance_workers = 0; TRUNCATE seen; '
	. 'CREATE INDEX triggered_i ON triggered (i)', 'triggered_i');
is($node->safe_psql('postgres', "SELECT string_agg(event || ' ' || workers, ', ' ORDER BY event) FROM seen"),
	'ddl_command_end 0, ddl_command_start 0', 'event triggers see 0 workers');
is($node->safe_psql('postgres', 'DROP EVENT TRIGGER see_start; DROP EVENT TRIGGER see_end; '
	. 'CREATE EVENT TRIGGER set_end ON ddl_command_end WHEN tag IN (\'CREATE INDEX\') EXECUTE FUNCTION set_workers(); '
	. 'SET max_parallel_maintenance_workers = 0; CREATE INDEX triggered_i2 ON triggered (i); '
	. 'SHOW max_parallel_maintenance_workers; DROP EVENT TRIGGER set_end'), '1', 'what an event trigger sets stays');

# --- a build counts as one scan of the table, also if its rows have many HOT chains
like($node->safe_psql('postgres', <<'SQL'), qr/^\s*1$/, 'one scan');
CREATE TABLE chains (id int, k int) WITH (fillfactor = 50, autovacuum_enabled = off);
INSERT INTO chains SELECT i, i FROM generate_series(1, 20000) i;
UPDATE chains SET id = id WHERE k % 300 = 0;
SELECT pg_stat_force_next_flush();
CREATE TEMP TABLE before AS SELECT seq_scan FROM pg_stat_user_tables WHERE relname = 'chains';
CREATE INDEX chains_k ON chains (k);
SELECT pg_stat_force_next_flush();
SELECT a.seq_scan - b.seq_scan FROM pg_stat_user_tables a, before b WHERE relname = 'chains';
SQL

# --- a comparator builds another index meanwhile
$node->safe_psql('postgres', <<'SQL');
CREATE TABLE other AS SELECT i FROM generate_series(1, 777) i;
CREATE FUNCTION building_cmp(a int4, b int4) RETURNS int4 STRICT LANGUAGE plpgsql AS $$
BEGIN
	IF current_setting('test.build', true) = 'on' THEN
		PERFORM set_config('test.build', 'off', false);
		EXECUTE 'CREATE INDEX other_i ON public.other (i)';
	END IF;
	RETURN btint4cmp(a, b);
END $$;
CREATE OPERATOR <# (leftarg = int4, rightarg = int4, function = int4lt);
CREATE OPERATOR <=# (leftarg = int4, rightarg = int4, function = int4le);
CREATE OPERATOR =# (leftarg = int4, rightarg = int4, function = int4eq);
CREATE OPERATOR >=# (leftarg = int4, rightarg = int4, function = int4ge);
CREATE OPERATOR ># (leftarg = int4, rightarg = int4, function = int4gt);
CREATE OPERATOR CLASS building_ops FOR TYPE int4 USING btree AS OPERATOR 1 <#, OPERATOR 2 <=#, OPERATOR 3 =#,
	OPERATOR 4 >=#, OPERATOR 5 >#, FUNCTION 1 building_cmp(int4, int4);
SQL
all_built($node, 'a comparator that builds',
	"SET test.build = 'on'; CREATE INDEX outer_i ON triggered (i building_ops)", 'other_i', 'outer_i');
is($node->safe_psql('postgres', "SELECT string_agg(relname || ' ' || reltuples, ', ' ORDER BY relname) FROM pg_class "
	. "WHERE relname IN ('other', 'other_i', 'outer_i', 'triggered')"),
	'other 777, other_i 777, outer_i 5000, triggered 5000', 'each has its own number of rows');

# --- the counts of gpusort_index_builds
sub view { return $node->safe_psql('postgres', "SELECT $_[0] FROM gpusort_index_builds " . ($_[1] // '')) }
$node->safe_psql('postgres', 'SELECT gpusort_stat_reset()');
is(view('count(*)'), '0', 'the view after a reset');
is(session_built('REINDEX INDEX inner_k'), 'inner_k ours', 'one build');
is(view('builds, rows, pages, reason IS NULL, spills, spilled_bytes, seconds > 0, scan_seconds + sort_seconds + '
	. 'load_seconds <= seconds'), '1|1000|' . $node->safe_psql('postgres', "SELECT pg_relation_size('inner_k') / "
	. "current_setting('block_size')::int") . '|t|0|0|t|t', 'the build is counted');
$node->safe_psql('postgres', 'CREATE TABLE dup AS SELECT i % 10 AS x FROM generate_series(1, 1000) i; CREATE OPERATOR '
	. 'CLASS borrowing_ops FOR TYPE int4 USING btree AS OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, '
	. 'OPERATOR 5 >, FUNCTION 1 btint4cmp(int4, int4)');
like(session_built('CREATE UNIQUE INDEX dup1 ON dup (x borrowing_ops)'), qr/^dup1 stock: \w/,
	'a borrowed operator: PostgreSQL builds');
like($session->{stderr}, qr/could not create unique index "dup1"\n.*Key \(x\)=\(\d\) is duplicated/,
	'the violation has PostgreSQL\'s message');
is(view('builds, rows, pages, spills IS NULL, spilled_bytes IS NULL, scan_seconds IS NULL, sort_seconds IS NULL, '
	. 'load_seconds IS NULL', "WHERE route = 'stock'"), '1|0|0|t|t|t|t|t', 'the violation is counted with its reason');
like(view('reason', "WHERE route = 'stock'"), qr/\w/, 'the reason');
$session->query('CREATE ROLE gpusort_plain; GRANT CREATE ON SCHEMA public TO gpusort_plain; SET ROLE gpusort_plain');
is(session_built('CREATE TABLE mine AS SELECT i AS x FROM generate_series(1, 100) i; CREATE INDEX mine1 ON mine (x)'),
	'mine1 ours', 'an ordinary user');
is($session->query('SELECT sum(builds) FROM gpusort_index_builds'), '3', 'an ordinary user reads the view');
$session->quit;

# --- in a session that loads the library itself
$node->append_conf('postgresql.conf', "shared_preload_libraries = ''\n");
$node->restart;
is(routes_of($node, "REINDEX TABLE inner_t"), '', 'without the library');
is(routes_of($node, "LOAD 'gpusort'; REINDEX INDEX inner_k") =~ s/compact|tuples/ours/r, 'inner_k ours', 'LOAD');
is($node->safe_psql('postgres', "LOAD 'gpusort'; SET client_min_messages = warning; REINDEX INDEX inner_k; "
	. 'SELECT sum(builds) FROM gpusort_index_builds'), '1', 'the view of the session');

$node->stop;
unlike(slurp_file($node->logfile), qr/WARNING|TRAP|PANIC|terminated by signal/, 'the log has no warning or crash');
done_testing();
