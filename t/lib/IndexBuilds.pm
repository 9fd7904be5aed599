# IndexBuilds.pm: what the tests of index builds share.
#
# The oracle is PostgreSQL: an index that it builds with gpusort.index_builds = off has the same pages, except
# the LSN and the checksum in a page's first ten bytes.
package IndexBuilds;

use strict;
use warnings;

use Exporter 'import';
use GpuSortTest;
use Test::More;

our @EXPORT = qw(index_node build_messages built routes_of all_built pair_sql check_pairs build_times_out create_churn
	create_lie make_phase_gate);

# A server that builds indexes by gpusort, with the functions below.  Options as those of new_node().
sub index_node
{
	my ($name, %opt) = @_;
	my $conf = "gpusort.index_builds = on\ngpusort.index_builds_min_size = 0\n"
	  . "max_parallel_maintenance_workers = 0\nmaintenance_work_mem = 64MB\n";
	my $node = new_node($name, %opt, conf => $conf . ($opt{conf} // ''));

	$node->safe_psql('postgres', <<'SQL');
CREATE EXTENSION pageinspect;
CREATE EXTENSION amcheck;

-- What two indexes of a table differ in: 'same', or the first difference.
CREATE FUNCTION index_diff(a regclass, b regclass) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	pages bigint := pg_relation_size(a) / current_setting('block_size')::int;
	other bigint := pg_relation_size(b) / current_setting('block_size')::int;
	page bigint;
	x record;
	y record;
BEGIN
	SELECT min(n) INTO page FROM generate_series(0, least(pages, other) - 1) n
	WHERE substr(get_raw_page(a::text, n), 11) <> substr(get_raw_page(b::text, n), 11);
	IF page IS NOT NULL OR pages <> other THEN
		RETURN format('page %s differs; %s and %s pages', page, pages, other);
	END IF;
	SELECT relpages, reltuples, indisunique, indisvalid, indisready, indcheckxmin INTO x
	FROM pg_class JOIN pg_index ON indexrelid = oid WHERE oid = a;
	SELECT relpages, reltuples, indisunique, indisvalid, indisready, indcheckxmin INTO y
	FROM pg_class JOIN pg_index ON indexrelid = oid WHERE oid = b;
	IF x IS DISTINCT FROM y THEN
		RETURN format('%s, not %s', x, y);
	END IF;
	RETURN 'same';
END $$;

-- Checks every valid btree index of a table; returns how many there are.
CREATE FUNCTION check_indexes(checked regclass) RETURNS bigint LANGUAGE sql AS $$
	SELECT count(bt_index_parent_check(indexrelid, true, true)::text)
	FROM pg_index JOIN pg_class c ON c.oid = indexrelid JOIN pg_am a ON a.oid = c.relam
	WHERE indrelid = checked AND indisvalid AND amname = 'btree' AND c.relkind = 'i'
$$;
SQL
	return $node;
}

# The builds of a session, from its messages of level DEBUG1: [ index, route, "stock: reason" or "equal keys" ], ...
sub build_messages
{
	my ($messages) = @_;
	my @built;

	while ($messages =~ /gpusort\ (?:built\ index\ "(.*?)":\ route\ (\w+)|left\ index\ "(.*?)"\ to\ PostgreSQL:\ (.*)
		|found\ (equal\ keys)\ of\ unique\ index\ "(.*?)")/gx)
	{
		push @built, defined $1 ? [ $1, $2 ] : defined $3 ? [ $3, "stock: $4" ] : [ $6, $5 ];
	}
	return @built;
}

# Runs a script; returns exit status, output, messages, and the result of build_messages().
sub built
{
	my ($node, $sql) = @_;
	my ($rc, $out, $err) = $node->psql('postgres', "SET client_min_messages = debug1;\n$sql", on_error_stop => 1);

	return ($rc, $out, $err, build_messages($err));
}

# The routes of a script's builds, in words: "a compact, b tuples".
sub routes_of
{
	my ($node, $sql) = @_;
	my ($rc, $out, $err, @built) = built($node, $sql);

	diag("$sql\n$err") if $rc != 0;
	return ($rc == 0 ? '' : 'failed: ') . join ', ', map { "$_->[0] $_->[1]" } @built;
}

# Tests that gpusort built all indexes of a script; @indexes are patterns of their names, in any order.
sub all_built
{
	my ($node, $name, $sql, @indexes) = @_;
	my $all = join ', ', map { "$_ (?:compact|tuples)" } sort @indexes;

	like(join(', ', sort split /, /, routes_of($node, $sql)), qr/^$all$/, "$name: built by gpusort");
}

# SQL that builds index NAME of a definition by gpusort and by PostgreSQL, prints differences, and checks gpusort's.
sub pair_sql
{
	my ($number, $definition) = @_;
	my ($ours, $stock) = ("ours$number", "stock$number");

	return "SET gpusort.index_builds = on;\n" . ($definition =~ s/\bNAME\b/$ours/gr) . ";\n"
	  . "SET gpusort.index_builds = off;\n" . ($definition =~ s/\bNAME\b/$stock/gr) . ";\n"
	  . "SELECT index_diff('$ours', '$stock');\nSELECT count(bt_index_parent_check('$ours', true, true)::text);\n"
	  . "SET gpusort.index_builds = on;\n";
}

# Pairs are numbered.
my $pairs = 0;

# Builds each definition by gpusort and by PostgreSQL, after a script of preparation.  Both indexes are equal, and the
# route matches the pattern, and the algorithm that sorted matches $sorted.
sub check_pairs
{
	my ($node, $name, $prepare, $definitions, $pattern, $sorted) = @_;
	my $first = $pairs + 1;
	my $sql = "$prepare;\n" . join '', map { pair_sql(++$pairs, $_) } @$definitions;
	my ($rc, $out, $err, @built) = built($node, $sql);
	my %route = map { $_->[0] => $_->[1] } @built;
	my %by = $err =~ /gpusort built index "(.*?)".*?, sorted by (.*?),/g;
	my @findings = grep { /^(?:same|.* differs; .*|\(.*\), not .*|1)$/ } split /\n/, $out;
	my $good = $rc == 0 && "@findings" eq join ' ', ('same 1') x @$definitions;

	$pattern //= qr/^(?:compact|tuples)$/;
	for my $i ($first .. $pairs)
	{
		$good = 0 unless defined $route{"ours$i"} && $route{"ours$i"} =~ $pattern && !defined $route{"stock$i"};
		$good = 0 unless !defined $sorted || ($by{"ours$i"} // '') =~ $sorted;
	}
	ok($good, $name);
	return 1 if $good;
	diag("$sql\nstatus $rc\n$out\n" . join("\n", map { "$_: $route{$_} " . ($by{$_} // '') } sort keys %route) . "\n"
		  . join "\n", grep { !/DEBUG:/ } split /\n/, $err);
	return 0;
}

# Tests that statement_timeout, of each of these numbers of milliseconds, ends a build with an error and without index
# $index, or that the build succeeds with a right index.
sub build_times_out
{
	my ($session, $index, $statement, @timeouts) = @_;

	for my $ms (@timeouts)
	{
		$session->query("SET statement_timeout = $ms");
		$session->{stderr} = '';
		$session->query($statement);
		my $error = $session->{stderr} =~ /canceling statement due to statement timeout/ ? 1 : 0;
		no_timeout($session);
		my $there = $session->query("SELECT count(*) FROM pg_class WHERE relname = '$index'");
		$session->query("SELECT bt_index_parent_check('$index', true, true); DROP INDEX $index") if $there;
		ok($there == 1 - $error && $session->{stderr} !~ /ERROR/, "timeout after $ms ms: an error, or a right index")
		  or diag "indexes: $there, timed out: $error, $session->{stderr}";
		$session->{stderr} = '';
	}
}

# Creates table churned (id, k, s) with this number of rows, and procedure churn(), which inserts, updates and deletes
# its rows until table stop_churn has a row.
sub create_churn
{
	my ($node, $rows) = @_;

	$node->safe_psql('postgres', <<SQL);
CREATE TABLE stop_churn (x int);
CREATE TABLE churned (id int PRIMARY KEY, k int, s text) WITH (fillfactor = 80);
INSERT INTO churned SELECT i, i % 100, 'n' || i FROM generate_series(1, $rows) i;
CREATE PROCEDURE churn() LANGUAGE plpgsql AS \$\$
DECLARE
	n int := $rows;
BEGIN
	WHILE NOT EXISTS (SELECT FROM stop_churn) LOOP
		n := n + 1;
		INSERT INTO churned VALUES (n, n % 100, 'n' || n);
		UPDATE churned SET k = (k + 1) % 100 WHERE id = n - $rows + (n * 7) % 2000;
		UPDATE churned SET s = s WHERE id = n - 500;
		DELETE FROM churned WHERE id = n - $rows;
		COMMIT;
	END LOOP;
END \$\$;
SQL
}

# A type lie, texts that are equal but for trailing blanks.  Its operator class claims that equal values have the same
# bytes, as that of bpchar does up to the releases of November 2026.
sub create_lie
{
	my ($node) = @_;
	my %operator = (lt => '<', le => '<=', eq => '=', ge => '>=', gt => '>');
	my @names = qw(lt le eq ge gt);
	my $sql = <<'SQL';
CREATE TYPE lie;
CREATE FUNCTION lie_in(cstring) RETURNS lie LANGUAGE internal IMMUTABLE STRICT AS 'textin';
CREATE FUNCTION lie_out(lie) RETURNS cstring LANGUAGE internal IMMUTABLE STRICT AS 'textout';
CREATE TYPE lie (INPUT = lie_in, OUTPUT = lie_out, LIKE = text, COLLATABLE = true);
CREATE FUNCTION lie_cmp(lie, lie) RETURNS int LANGUAGE internal IMMUTABLE STRICT AS 'bpcharcmp';
SQL

	$sql .= "CREATE FUNCTION lie_$_(lie, lie) RETURNS bool LANGUAGE internal IMMUTABLE STRICT AS 'bpchar$_'; "
	  . "CREATE OPERATOR $operator{$_} (leftarg = lie, rightarg = lie, function = lie_$_);\n" for @names;
	$sql .= 'CREATE OPERATOR CLASS lie_ops DEFAULT FOR TYPE lie USING btree AS '
	  . join('', map { 'OPERATOR ' . ($_ + 1) . " $operator{$names[$_]}, " } 0 .. $#names)
	  . 'FUNCTION 1 lie_cmp(lie, lie), FUNCTION 4 (lie, lie) btequalimage(oid); '
	  . 'CREATE CAST (text AS lie) WITHOUT FUNCTION;';
	$node->safe_psql('postgres', $sql);
}

# An operator class of int4 whose comparator waits for an advisory lock in a phase of an index build or of CLUSTER.  The
# table phase_gate has the phase, as a pattern of its name in the view of progress, and the lock's number.
sub make_phase_gate
{
	my ($node) = @_;

	$node->safe_psql('postgres', <<'SQL');
CREATE TABLE phase_gate (phase text, lock int);
CREATE FUNCTION gated_cmp(a int4, b int4) RETURNS int4 IMMUTABLE STRICT PARALLEL RESTRICTED LANGUAGE plpgsql AS $$
DECLARE
	g record;
BEGIN
	PERFORM pg_stat_clear_snapshot();
	FOR g IN SELECT lock FROM public.phase_gate w JOIN (SELECT pid, phase FROM pg_stat_progress_create_index
		UNION ALL SELECT pid, phase FROM pg_stat_progress_cluster) p ON p.phase ~ w.phase WHERE pid = pg_backend_pid()
	LOOP
		PERFORM pg_advisory_xact_lock_shared(g.lock);
	END LOOP;
	RETURN btint4cmp(a, b);
END $$;
CREATE OPERATOR <~ (leftarg = int4, rightarg = int4, function = int4lt);
CREATE OPERATOR <=~ (leftarg = int4, rightarg = int4, function = int4le);
CREATE OPERATOR =~ (leftarg = int4, rightarg = int4, function = int4eq);
CREATE OPERATOR >=~ (leftarg = int4, rightarg = int4, function = int4ge);
CREATE OPERATOR >~ (leftarg = int4, rightarg = int4, function = int4gt);
CREATE OPERATOR CLASS gated_ops FOR TYPE int4 USING btree AS
	OPERATOR 1 <~, OPERATOR 2 <=~, OPERATOR 3 =~, OPERATOR 4 >=~, OPERATOR 5 >~, FUNCTION 1 gated_cmp(int4, int4);
SQL
}

1;
