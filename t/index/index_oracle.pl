# index_oracle.pl: random tables and indexes.
#
# The pages of an index equal those that PostgreSQL builds, and amcheck finds no error.  GPUSORT_SEED repeats a run,
# GPUSORT_ROUNDS sets the number of rounds.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GpuSortTest;
use IndexBuilds;
use PostgreSQL::Test::Utils;
use Test::More;

my $rounds = $ENV{GPUSORT_ROUNDS} || ($ENV{GPUSORT_QUICK} ? 6 : 24);
my $seed = seed_random();

# type => values; r stands for a random number in [0, 1)
my %types = (
	int2 => '(r * 65535 - 32768)::int2',
	int4 => '(r * 4294967295 - 2147483648)::int4',
	int8 => '(r * 1.8446744073709550e19 - 9.2233720368547750e18)::int8',
	float4 => "(ARRAY['NaN', 'Infinity', '-Infinity', '0', '-0', (r * 1e9)::text])[1 + floor(random() * 9)]::float4",
	float8 => '(r - 0.5) * 10 ^ (random() * 300 - 150)',
	bool => 'r < 0.5',
	'"char"' => '(r * 255 - 128)::int::"char"',
	oid => '(r * 4294967295)::int8::oid',
	money => '((r - 0.5) * 1e15)::numeric::money',
	date => "'2000-01-01'::date + (r * 2e6 - 7e5)::int",
	time => "'00:00'::time + r * interval '86399 s'",
	timestamp => "'2000-01-01'::timestamp + (r - 0.5) * interval '5000 years'",
	timestamptz => "'2000-01-01'::timestamptz + (r - 0.5) * interval '5000 years'",
	timetz => "('00:00'::time + r * interval '86399 s') AT TIME ZONE (ARRAY['UTC', 'Etc/GMT+12'])[1 + floor(random() "
		. '* 2)]',
	interval => "(ARRAY['1 month', '30 days', '720:00', (r * 1e6)::text || ' s'])[1 + floor(random() * 6)]::interval",
	numeric => "(ARRAY['NaN', '1.1', '1.10', '1e300', ((r - 0.5) * 10 ^ (random() * 60 - 25))::text])[1 + "
		. 'floor(random() * 9)]::numeric',
	'numeric(12,2)' => '((r - 0.5) * 1e10)::numeric(12,2)',
	uuid => 'md5((r * 1e9)::int8::text)::uuid',
	inet => "set_masklen('0.0.0.0'::inet + (r * 4294967295)::int8, floor(random() * 33)::int)",
	macaddr => "lpad(to_hex((r * 281474976710655)::int8), 12, '0')::macaddr",
	pg_lsn => "'0/0'::pg_lsn + (r * 1.8e19)::numeric",
	tid => "format('(%s,%s)', (r * 4294967295)::int8, floor(random() * 5))::tid",
	varbit => "(r * 9e18)::int8::bit(64)::varbit::text || left('0011', floor(random() * 5)::int)",
	shade => '(enum_range(NULL::shade))[1 + floor(r * 3)]',
	'int4[]' => 'ARRAY[floor(r * 9), NULL, (r * 1e9)]::int4[]',
	int4range => 'int4range((r * 100)::int, 100 + floor(random() * 4)::int)',
	tsvector => "('a' || floor(r * 50) || ' b')::tsvector",
	jsonb => 'jsonb_build_array(floor(r * 9), (r * 1e6)::int)',
	pair => "ROW(floor(r * 5), 'x' || floor(r * 1000))::pair");

# strings: type => value, from a string s of rstr() below
my %strings = (
	text => 's',
	'varchar(40)' => 'left(s, 40)',
	'char(12)' => 'left(s, 12)',
	name => 'left(s, 20)',
	bytea => q(convert_to(s, 'UTF8') || decode(repeat('00', floor(random() * 1.5)::int), 'hex')),
	citext => 's');
my @names = ((sort keys %types), (sort keys %strings) x 2, ('int4', 'int8', 'text') x 2);
my @collations = ('', '', '', '"C"', '"POSIX"');

# values of one distribution: whole range, few values, ascending, descending, one value
sub column
{
	my ($name, $type, $n) = @_;
	my $d = 1 + int(10 ** rand 4);
	my $r = pick('random()', 'random()', "(floor(random() * $d) / $d)", "(i::float8 / ($n + 1))",
		"(1 - i::float8 / ($n + 1))", rand);
	my $value;

	if ($strings{$type})
	{
		my $shape = pick(0 .. ($n < 3000 ? 7 : 5));
		$value = "(SELECT ($strings{$type}) FROM (SELECT rstr($shape, $r) AS s OFFSET 0 * i) s)";
	}
	else { $value = $types{$type} =~ s/\br\b/$r/gr }
	my $nulls = pick(0, 0, 0, 0.01, 0.5, 0.99, 1);
	$value = "($value)::$type";
	$value = "CASE WHEN random() >= $nulls THEN $value END" if $nulls > 0;
	return "$value AS $name";
}

my $node = index_node('index_oracle', conf => "shared_buffers = 64MB\n");
my ($citext) = $node->psql('postgres', 'CREATE EXTENSION citext');
if ($citext != 0)
{
	delete $strings{citext};
	@names = grep { $_ ne 'citext' } @names;
}
$node->safe_psql('postgres', <<'SQL');
CREATE TYPE pair AS (a int, b text);
CREATE TYPE shade AS ENUM ('red', 'green', 'blue');
-- a random string of some shape
CREATE FUNCTION rstr(shape int, r float8) RETURNS text VOLATILE LANGUAGE sql AS $$
SELECT CASE shape
	WHEN 0 THEN md5(r::text)
	WHEN 1 THEN 'customer ' || floor(r * 300)
	WHEN 2 THEN 'a common prefix, ' || left(md5(r::text), 8)
	WHEN 3 THEN repeat('x', floor(r * 40)::int)
	WHEN 4 THEN (ARRAY['', ' ', '  ', 'a', 'A', 'a ', 'b', 'ab', E'ab\t', 'á', 'Á', 'ä', 'a' || U&'\0301', 'é',
		'e' || U&'\0301', 'ß', 'ss', 'SS', '日本', U&'\+10FFFF', 'cote', 'coté', 'côte', 'co-op', 'coop'])[1 +
			floor(r * 25)]
	WHEN 5 THEN (SELECT coalesce(string_agg(chr(97 + floor(random() * 2)::int), ''), '') FROM generate_series(1,
		floor(random() * 20)::int))
	-- long: compressed, and stored outside of the row
	WHEN 6 THEN CASE WHEN r < 0.5 THEN repeat('long', 800) || floor(r * 20) ELSE 'long' || floor(r * 20) END
	ELSE (SELECT string_agg(md5(g::text || r::text), '') FROM generate_series(1, 70) g)
END $$;
SQL
push @collations, map { "\"$_\"" } create_collations($node);
note 'collations: ' . join ' ', @collations;

# a key: a column or an expression of it, its collation, order and place of NULLs
sub key
{
	my ($column, $type) = @_;
	my $key = "c$column";

	if ($type =~ /^(?:text|varchar)/)
	{
		$key = pick($key, $key, $key, "upper($key)", "left($key, 3)");
	}
	elsif ($type =~ /^int[48]$/) { $key = pick($key, $key, $key, "abs($key % 1000)", "($key IS NULL)") }
	$key = "($key)" if $key !~ /^\w+$/;
	$key .= " COLLATE $_" for grep { $_ ne '' } $strings{$type} && $type ne 'bytea' ? pick(@collations) : '';
	$key .= ' ' . pick('text_pattern_ops', '') if $type eq 'text' && $key !~ /nondeterministic/;
	return $key . pick('', '', '', ' DESC', ' NULLS FIRST', ' DESC NULLS LAST');
}

sub definition
{
	my (@cols) = @_;
	my @keys = map { my $c = 1 + int rand @cols; key($c, $cols[ $c - 1 ]) } 1 .. pick(1, 1, 1, 2, 3, 4);
	my @include = map { 'c' . (1 + int rand @cols) } 1 .. pick(0, 0, 0, 1, 2);
	my @with = (pick('', 'fillfactor = 30', 'fillfactor = 50', 'fillfactor = 100'),
		pick('', '', 'deduplicate_items = off'));
	my $with = join ', ', grep { $_ ne '' } @with;

	return 'CREATE INDEX NAME ON o (' . join(', ', @keys) . ')'
	  . (@include ? ' INCLUDE (' . join(', ', @include) . ')' : '')
	  . ($with eq '' ? '' : " WITH ($with)")
	  . pick('', '', '', ' WHERE seq % 3 <> 0', ' WHERE c1 IS NOT NULL');
}

for my $round (1 .. $rounds)
{
	my $n = $round % 8 == 0 ? 50_000 : int(10 ** (rand 4)) + 1;
	my @cols = map { pick(@names) } 1 .. 1 + int rand 5;
	my @after = (
		'',
		# HOT chains, dead rows, and unused line pointers left by VACUUM
		'UPDATE o SET pad = pad WHERE seq % 5 = 0; UPDATE o SET pad = pad WHERE seq % 10 = 0; DELETE FROM o WHERE '
			. 'seq % 7 = 0',
		'DELETE FROM o WHERE seq % 4 <> 0 AND seq > 1; VACUUM o; INSERT INTO o SELECT * FROM o WHERE seq % 8 = 0',
		'BEGIN; INSERT INTO o SELECT * FROM o; DELETE FROM o WHERE seq % 2 = 0; UPDATE o SET pad = pad; ROLLBACK');
	my $prepare = join ";\n", 'DROP TABLE IF EXISTS o', sprintf('SELECT setseed(%.6f)', rand),
	  "CREATE " . pick('', '', 'TEMP ', 'UNLOGGED ') . 'TABLE o (seq int, '
	  . join('', map { "c$_ $cols[$_ - 1], " } 1 .. @cols) . 'pad text) WITH (fillfactor = ' . pick(100, 100, 60) . ')',
	  'INSERT INTO o SELECT i, ' . join('', map { column("c$_", $cols[ $_ - 1 ], $n) . ', ' } 1 .. @cols)
	  . "repeat('x', " . pick(0, 0, 40) . ") FROM generate_series(1, $n) i", pick(@after), pick('', 'VACUUM ANALYZE o'),
	  "SET maintenance_work_mem = '" . pick('1MB', '1MB', '4MB', '64MB') . "'",
	  'SET max_parallel_maintenance_workers = ' . pick(0, 0, 2), "SET min_parallel_table_scan_size = 0",
	  'SET gpusort.run_rows = ' . pick(0, 0, 1 + int($n / 3));
	my @definitions = map { definition(@cols) } 1 .. 4;

	# index_constraints.pl tests indexes whose tuples may be too large for a page
	for (@definitions)
	{
		my $definition = $_;
		my @long = grep { $strings{ $cols[ $_ - 1 ] } && $definition =~ /\bc$_\b/ } 1 .. @cols;
		$definition =~ s/ WHERE .*//;
		$_ .= (/ WHERE / ? ' AND ' : ' WHERE ') . join ' AND ', map {
			$cols[ $_ - 1 ] eq 'bytea' ? "octet_length(c$_) < 400" : "octet_length(c$_\::text) < 400" } @long if @long;
	}
	check_pairs($node, "round $round: $n rows, " . join(', ', @cols), $prepare, \@definitions)
	  or diag "seed $seed";
}

$node->stop;
unlike(slurp_file($node->logfile), qr/WARNING|TRAP|PANIC|terminated by signal/, 'the log has no warning or crash');
done_testing();
