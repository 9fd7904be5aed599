# duplicates.pl: duplicates that a device drops behind its sort, and those that the host drops when it returns rows.
#
# DISTINCT and DISTINCT ON with keys alone, keys with row ids, and rows, serial and parallel: no, half, nearly all and
# all rows are duplicates; NULLs, several columns, both directions, columns behind the distinct ones. EXPLAIN tells how
# many rows the device dropped, and the rows are those of the stock plan; of equal rows the first of the input stays.
# No plan has a Unique node. A device leaves duplicates if they are few, or if keys are inexact; the host drops them.
# Wrong results and failing devices lose and repeat no row. GPUSORT_TEST_LIBRARY names another GPU library than the
# fake device.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GpuSortTest;
use Test::More;

my $library = $ENV{GPUSORT_TEST_LIBRARY} || '$libdir/libgpusort_cpu_abi';
my $node = new_node('device_duplicates', conf => <<CONF);
gpusort.device_library = '$library'
gpusort.device = 0
gpusort.staging_memory = 8MB
gpusort.device_memory = 512MB
gpusort.algorithm = gpu_radix
enable_hashagg = off
max_worker_processes = 16
log_min_messages = log
CONF

sub value { return $node->safe_psql('postgres', @_) }

device_ready($node, 'start');
my $rows = 60_000;
value(<<SQL);
CREATE TABLE t AS SELECT i AS id, mix(i)::int8 AS none, mix(i % 30000)::int8 AS half,
	mix(i % 58000)::int8 AS rare, (mix(i % 60) - 2147483648)::int4 AS most, 7 AS one,
	CASE WHEN i % 5 > 0 THEN mix(i % 20000) END AS gaps,
	(mix(i) % 300)::int4 AS a, (mix(i * 3) % 100)::int8 AS b, (mix(i % 10000) / 7 - 3e8)::float8 AS f,
	mix(i % 15000)::int8 * 1000003 AS w, 'common ' || mix(i % 20000) AS s, repeat('x', i % 30) AS pad
FROM generate_series(1, $rows) i;
VACUUM ANALYZE t;
-- the sort's mode and the rows that it dropped: on the device, when it returned rows, and all
CREATE FUNCTION dropped(q text, OUT mode text, OUT on_device bigint, OUT at_emit bigint, OUT dropped bigint)
LANGUAGE plpgsql AS \$\$
DECLARE l text; m text[];
BEGIN
	mode := 'host';
	on_device := 0;
	at_emit := 0;
	FOR l IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF) ' || q LOOP
		mode := coalesce(substring(l FROM 'Sort Device: (\\w+)'), mode);
		m := regexp_match(l, 'Duplicates Dropped: batches=(\\d+) merges=(\\d+)(?: gpu=(\\d+))?(?: emit=(\\d+))?');
		IF m IS NOT NULL THEN
			on_device := on_device + coalesce(m[3]::bigint, 0);
			at_emit := at_emit + coalesce(m[4]::bigint, 0);
			dropped := coalesce(dropped, 0) + m[1]::bigint + m[2]::bigint + coalesce(m[3]::bigint, 0) +
				coalesce(m[4]::bigint, 0);
		END IF;
		IF l ~ 'Unique' THEN
			RAISE EXCEPTION 'the plan of % has a Unique node', q;
		END IF;
	END LOOP;
END \$\$;
SQL

my %set = (
	keys => "SET work_mem = '256MB'; ", only => "SET work_mem = '256MB'; ", rows => "SET work_mem = '256kB'; ",
	parallel => "SET work_mem = '64MB'; SET max_parallel_workers_per_gather = 3; SET parallel_setup_cost = 0; "
		. "SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0; SET cpu_tuple_cost = 1; ");

# The query of a mode.  DISTINCT ON returns the first row of the input, which the stock Sort finds by id.
sub query
{
	my ($mode, $on, $order, $stable) = @_;

	return "SELECT DISTINCT $on FROM t ORDER BY $order" if $mode eq 'only';
	$order .= ', id' if $stable;
	# which row a parallel sort keeps is open
	return "SELECT DISTINCT ON ($on) " . ($mode eq 'parallel' ? $on : '*') . " FROM t ORDER BY $order";
}

my %stock;
sub stock_sum
{
	my ($q) = @_;
	my $sum = "SELECT md5(string_agg(s::text, ',')) FROM ($q OFFSET 0) s";

	return $stock{$q} //= value("SET gpusort.enable = off; $sum");
}
sub same_as_stock
{
	my ($mode, $on, $order, $name, $set) = @_;
	my $q = query($mode, $on, $order, 0);

	is(value($set{$mode} . ($set // '') . "SELECT md5(string_agg(s::text, ',')) FROM ($q OFFSET 0) s"),
		stock_sum(query($mode, $on, $order, $mode ne 'only')), "$name: rows");
}

# distinct columns, order, and whether the device drops duplicates of rows in row mode: it never has many of few values
my @orders = ([ 'half', 'half', 1 ], [ 'half', 'half DESC', 1 ], [ 'most', 'most', 0 ], [ 'one', 'one', 0 ],
	[ 'gaps', 'gaps', 1 ], [ 'gaps', 'gaps DESC NULLS LAST', 1 ], [ 'gaps', 'gaps NULLS FIRST', 1 ],
	[ 'a, b', 'a, b', 1 ], [ 'a, b', 'a DESC, b', 1 ], [ 'f', 'f DESC', 1 ], [ 'w, f', 'w, f', 1 ],
	[ 'gaps, a', 'a, gaps DESC', 1 ], [ 'half, w', 'half, w', 1 ]);
for my $mode (qw(keys only rows parallel))
{
	for my $case (@orders, $mode eq 'only' ? () : ([ 'half', 'half, a DESC', 1 ], [ 'a', 'a, b', 0 ]))
	{
		my ($on, $order, $many) = @$case;
		my $name = "$mode: $on by $order";
		my $expected = $rows - value("SET gpusort.enable = off; SELECT count(*) FROM (SELECT DISTINCT $on FROM t) s");
		my ($how, $on_device, undef, $dropped) = split /\|/,
			value("$set{$mode} SELECT * FROM dropped('" . query($mode, $on, $order, 0) . "')");

		same_as_stock($mode, $on, $order, $name);
		same_as_stock($mode, $on, $order, "$name, verify", 'SET gpusort.verify = on; ') if $mode ne 'parallel';
		is($dropped, $expected, "$name: all duplicates are dropped");
		# few values: duplicates are dropped before rows are sent
		next if $mode eq 'rows' && !$many;
		is($how, $mode eq 'only' ? 'keys' : $mode eq 'parallel' ? 'rows' : $mode, "$name: what is sent");
		is($on_device, $expected, "$name: all by the device");
	}
	# nothing to drop; few duplicates; and keys that do not tell whether rows are equal, which the host compares
	for my $on ('none', 'rare', 'rare, a', 's COLLATE "C"')
	{
		my $name = "$mode: $on";
		my $expected = $rows - value("SET gpusort.enable = off; SELECT count(*) FROM (SELECT DISTINCT $on FROM t) s");

		next if $mode eq 'only' && $on =~ /^s /;
		same_as_stock($mode, $on, $on, $name);
		same_as_stock($mode, $on, $on, "$name, verify", 'SET gpusort.verify = on; ') if $mode ne 'parallel';
		my (undef, $on_device, $at_emit, $dropped) = split /\|/,
			value("$set{$mode} SELECT * FROM dropped('" . query($mode, $on, $on, 0) . "')");
		is("$on_device $dropped", "0 $expected", "$name: the host drops all duplicates");
		is($at_emit, $expected, "$name: when it returns rows") if $mode ne 'only' && $on =~ /^rare/;
	}
	device_unused($node, $mode);
}
# keys alone of a function's rows
my $made = 'SELECT DISTINCT mix(i % 150000) FROM generate_series(1, 300000) i';
like(value("$set{only} EXPLAIN (ANALYZE, COSTS OFF) $made"), qr/Dropped: .* gpu=150000\n/, 'keys alone');
is(value("$set{only} SELECT count(*) || ' ' || count(DISTINCT x) FROM ($made) s(x)"), '150000 150000',
	'keys alone: values');
# keys alone that exceed memory: their rows are sent; to a device that is not ready, runs have the keys
for my $allowed ('on', 'off')
{
	my $set = "SET work_mem = '256kB'; SET gpusort.device_allowed = $allowed; ";

	for my $q ('SELECT DISTINCT half FROM t', 'SELECT DISTINCT gaps, a FROM t')
	{
		my $dropped = $rows - value("SET gpusort.enable = off; SELECT count(*) FROM ($q) s");

		is(value("$set SELECT * FROM dropped('$q')"),
			$allowed eq 'on' ? "rows|$dropped|0|$dropped" : "host|0|0|$dropped",
			"little memory, device allowed $allowed: $q");
		is(value("$set SELECT md5(string_agg(s::text, ',')) FROM ($q OFFSET 0) s"), stock_sum($q), "$q: rows");
	}
}
# values whose text differs: the device's keys are equal
is(value("SELECT string_agg(x::text, ' ') FROM (SELECT DISTINCT x FROM (SELECT CASE WHEN i % 2 = 0 THEN 0 ELSE "
	. "'-0' END::float8 + i % 3 AS x FROM generate_series(1, 30000) i) s) d"), '0 1 2', 'zeros are equal');

# wrong results and failing devices
my %order = (keys => [ 'half', 'half' ], only => [ 'half', 'half' ], rows => [ 'half', 'half' ]);
for my $mode (sort keys %order)
{
	for my $fault (qw(corrupt corrupt_bit corrupt_size corrupt_place corrupt_count corrupt_group corrupt_groups
		no_groups error_sort error_down kill_sort))
	{
		my $before = fallbacks($node);

		same_as_stock($mode, @{ $order{$mode} }, "$mode: $fault", "SET gpusort.device_fault = $fault; ");
		cmp_ok(fallbacks($node), '>', $before, "$mode: $fault: a fallback is counted");
		ok($node->poll_query_until('postgres', "SELECT bool_and(state = 'ready') FROM gpusort_devices()"),
			"$mode: $fault: ready again") if $fault =~ /^(error|kill)/;
	}
	device_unused($node, "$mode: faults");
}

# rows that are made of their keys: a wrong bit behind the distinct columns
for my $fault (qw(corrupt corrupt_size))
{
	my $q = 'SELECT DISTINCT ON (half) half, a FROM t ORDER BY half, a';
	my $before = fallbacks($node);

	is(value("$set{only} SET gpusort.device_fault = $fault; SELECT md5(string_agg(s::text, ',')) FROM ($q OFFSET 0) s"),
		stock_sum($q), "a column that is only sorted by: $fault: rows");
	cmp_ok(fallbacks($node), '>', $before, "a column that is only sorted by: $fault: a fallback is counted");
}

# the device fails after rows were returned: the rerun skips these, and returns no duplicate
gate_make($node);
for my $case ([ 'rows', 'half' ], [ 'parallel', 'half' ], [ 'rows', 'rare' ],
	[ 'parallel', 'rare' ], [ 'rows', 's COLLATE "C"' ], [ 'parallel', 's COLLATE "C"' ])
{
	my ($mode, $on) = @$case;
	my $q = query($mode, $on, $on, 0);
	my $id = $mode ne 'parallel' ? 'id' : $on =~ s/ .*//r;
	my $want = value("SET gpusort.enable = off; SELECT md5(string_agg($id\::text, ',')) FROM ("
		. query($mode, $on, $on, $mode ne 'parallel') . ' OFFSET 0) s') =~ s/\s//gr;

	$q = "SELECT $id\::text AS id, row_number() OVER () AS n FROM ($q OFFSET 0) s";
	killed_at_gate($node, "$mode, $on: killed at row 9000",
		"$set{$mode} SELECT md5(string_agg(id, ',' ORDER BY n)) FROM "
			. "(SELECT id, gate(n, 9000) AS n FROM ($q) q OFFSET 0) s", $want);
}
$node->stop;
done_testing();
