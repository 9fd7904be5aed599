# oracle.pl: random tables in random orders, against the stock Sort.
#
# GpuSort returns the stock Sort's rows in its order, and keeps the input order of equal rows; also in keys-only
# sorts. GPUSORT_SEED repeats a run, GPUSORT_ROUNDS sets the number of random tables.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GpuSortTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $rounds = $ENV{GPUSORT_ROUNDS} || ($ENV{GPUSORT_QUICK} ? 20 : 120);
my $seed = seed_random();

# type => [full range, its edges]; r stands for a random number in [0, 1)
my %types = (
	int2 => [ '(r * 65535 - 32768)::int2', [qw(-32768 32767 0 -1 1)] ],
	int4 => [ '(r * 4294967295 - 2147483648)::int4', [qw(-2147483648 2147483647 0 -1 1 255 256 65535 65536)] ],
	int8 => [ '(r * 1.8446744073709550e19 - 9.2233720368547750e18)::int8',
		[qw(-9223372036854775808 9223372036854775807 0 -1 1 4294967296 -4294967296)] ],
	float4 => [ '((r - 0.5) * 10 ^ (random() * 70 - 35))::float4',
		[qw(NaN Infinity -Infinity 0 -0 1e-45 -1e-45 3.4e38 -3.4e38)] ],
	float8 => [ '(r - 0.5) * 10 ^ (random() * 300 - 150)',
		[qw(NaN Infinity -Infinity 0 -0 4.9e-324 -4.9e-324 1.7e308 -1.7e308)] ],
	bool => [ 'r < 0.5', [qw(t f)] ],
	'"char"' => [ '(r * 255 - 128)::int::"char"', [ 'a', '\\377', '\\200', '\\001' ] ],
	oid => [ '(r * 4294967295)::int8::oid', [qw(0 1 4294967295 2147483648)] ],
	money => [ '((r - 0.5) * 1e15)::numeric::money', [qw(0 -0.01 0.01 92233720368547758.07 -92233720368547758.08)] ],
	date => [ "'2000-01-01'::date + (r * 2e6 - 7e5)::int",
		[qw(infinity -infinity 2000-01-01 5874897-12-31), '4713-01-01 BC'] ],
	time => [ "'00:00'::time + r * interval '86399 s'", [qw(00:00 24:00 23:59:59.999999)] ],
	timestamp => [ "'2000-01-01'::timestamp + (r - 0.5) * interval '5000 years'",
		[ qw(infinity -infinity 2000-01-01), '4713-01-01 BC', '294276-12-31 23:59:59.999999' ] ],
	timestamptz => [ "'2000-01-01'::timestamptz + (r - 0.5) * interval '5000 years'",
		[ qw(infinity -infinity 2000-01-01), '294276-12-31 23:59:59.999999+00' ] ],
	timetz => [ "('00:00'::time + r * interval '86399 s') AT TIME ZONE (ARRAY['UTC', 'Asia/Kolkata', 'Etc/GMT+12'])[1 "
		. "+ floor(random() * 3)]",
		[qw(00:00+14 24:00-15:59 12:00+02 11:00+01 10:00+00)] ],
	interval => [ "(r - 0.5) * 10 ^ (random() * 9) * interval '1 day' + (r - 0.5) * interval '60 month'",
		[ '0', '1 month', '30 days', '720:00', '29 days 24:00', '-1 month', '-30 days', '178000000 years',
			'-178000000 years', '106751 days', '106752 days', '-106752 days' ] ],
	numeric => [ '((r - 0.5) * 10 ^ (random() * 60 - 25))::numeric',
		[qw(NaN Infinity -Infinity 0 0.00 1.1 1.10 -1.1 -1.10 9999 10000 1e131071 -1e131071 1e-16383 400000000000000
			399999999999999.99999 100000000000000000000000000000001 1e32)] ],
	'numeric(12,2)' => [ '((r - 0.5) * 1e10)::numeric(12,2)', [qw(NaN 0 9999999999.99 -9999999999.99)] ],
	uuid => [ 'md5((r * 1e9)::int8::text)::uuid',
		[qw(00000000-0000-0000-0000-000000000000 80000000-0000-0000-0000-000000000000
			80000000-0000-0000-0000-000000000001 ffffffff-ffff-ffff-ffff-ffffffffffff)] ],
	inet => [ "set_masklen('0.0.0.0'::inet + (r * 4294967295)::int8, floor(random() * 33)::int)",
		[qw(0.0.0.0/0 128.0.0.0/0 10.0.0.0/8 10.0.0.1/8 10.0.0.0/9 10.0.0.0 255.255.255.255
			:: ::1 ::/0 2001:db8:: 2001:db8::/32 2001:db8::1/32 2001:db8::1 0:0:40::)] ],
	macaddr => [ "lpad(to_hex((r * 281474976710655)::int8), 12, '0')::macaddr",
		[qw(00:00:00:00:00:00 ff:ff:ff:ff:ff:ff)] ],
	pg_lsn => [ "'0/0'::pg_lsn + (r * 1.8e19)::numeric", [qw(0/0 FFFFFFFF/FFFFFFFF 7FFFFFFF/FFFFFFFF 80000000/0)] ],
	xid8 => [ '(r * 1.8e19)::numeric(20)::text::xid8', [qw(0 18446744073709551615 9223372036854775808)] ],
	tid => [ "format('(%s,%s)', (r * 4294967295)::int8, floor(random() * 5))::tid",
		[ '(0,0)', '(4294967295,65535)', '(1,1)' ] ],
	varbit => [ '(r * 9e18)::int8::bit(64)::varbit::text || left(\'0011\', floor(random() * 5)::int)',
		[ '', '0', '00', '1', '10', '11111111' ] ],
	shade => [ '(enum_range(NULL::shade))[1 + floor(r * 5)]', [qw(red green blue)] ],
	'int4[]' => [ 'ARRAY[floor(r * 9), NULL, (r * 1e9)]::int4[]', [ '{}', '{1}', '{1,2}', '{NULL}' ] ],
	jsonb => [ 'jsonb_build_array(floor(r * 9), (r * 1e6)::int)', [ '1', 'true', 'null', '[]', '{}' ] ],
	pair => [ "ROW(floor(r * 5), 'x' || floor(r * 1000))::pair", [ '(,)', '(1,)', '(,a)' ] ]);

# strings: type => value, from a string s of rstr() below
my %strings = (
	text => 's',
	'varchar(40)' => 'left(s, 40)',
	'char(12)' => 'left(s, 12)',
	name => 'left(s, 20)',
	bytea => q(convert_to(s, 'UTF8') || decode(repeat('00', floor(random() * 1.5)::int), 'hex')),
	citext => 's');
my @collations = ('', '', '', 'C', 'POSIX', 'default');

# how a column takes its values
my @shapes = (
	sub { $_[0] },                              # the full range
	sub { my ($full, $edges, $n) = @_;          # the edges; no long text with many rows
		$edges = [ grep { $n < 10000 || !/131071/ } @$edges ];
		"('{" . join(',', map { s/\\/\\\\\\\\/gr =~ s/^(.*)$/"$1"/r } @$edges) . "}'::text[])[1 + floor(random() * "
			. @$edges . ')]' },
	sub { my ($full) = @_; my $d = 1 + int(10 ** rand 4);
		my $f = $full =~ s/\br\b/(floor(random() * $d) \/ $d)/gr; $f =~ s/10 \^ \(random\(\)[^)]*\)/1/; $f },
			# few distinct values
	sub { my ($full, $edges, $n) = @_; my $f = $full =~ s/\br\b/(i::float8 \/ ($n + 1))/gr;
		$f =~ s/10 \^ \(random\(\)[^)]*\)/1e3/; $f },    # sorted
	sub { my ($full, $edges, $n) = @_; my $f = $full =~ s/\br\b/(1 - i::float8 \/ ($n + 1))/gr;
		$f =~ s/10 \^ \(random\(\)[^)]*\)/1e3/; $f },  # reversed
	sub { my ($full, $edges, $n) = @_;          # sorted except for one row in a hundred
		my $f = $full =~ s/\br\b/(CASE WHEN random() < 0.01 THEN random() ELSE i::float8 \/ ($n + 1) END)/gr;
		$f =~ s/10 \^ \(random\(\)[^)]*\)/1e3/; $f },
	sub { my ($full) = @_; my $v = rand; my $f = $full =~ s/\br\b/$v/gr; $f =~ s/10 \^ \(random\(\)[^)]*\)/1e3/; $f });
		  # one value

# the SQL expression of a column's values; i is the number of the row, n the number of rows
sub string_column
{
	my ($type, $n) = @_;
	my $shape = pick(0 .. ($n < 5000 ? 9 : 7));
	my $s = "rstr($shape, i::float8 / ($n + 1))";

	return "(SELECT ($strings{$type}) FROM (SELECT $s AS s OFFSET 0 * i) s)";
}

sub column
{
	my ($name, $type, $n) = @_;
	return nullable(string_column($type, $n), $type) . " AS $name" if $strings{$type};
	my ($full, $edges) = @{ $types{$type} };
	my $value = pick(@shapes)->($full, $edges, $n);

	$value =~ s/\br\b/random()/g;
	return nullable($value, $type) . " AS $name";
}

sub nullable
{
	my ($value, $type) = @_;
	my $nulls = pick(0, 0, 0, 0.01, 0.5, 0.99, 1);

	$value = "($value)::$type";
	return $nulls > 0 ? "CASE WHEN random() >= $nulls THEN $value END" : $value;
}

sub collate
{
	my ($type) = @_;
	my $collation = $strings{$type} && $type ne 'bytea' ? pick(@collations) : '';

	return $collation eq '' ? '' : " COLLATE \"$collation\"";
}

my $node = new_node('oracle', conf => "work_mem = 64MB\nshared_buffers = 64MB\n");

$node->safe_psql('postgres', <<'SQL');
CREATE TYPE pair AS (a int, b text);
CREATE TYPE shade AS ENUM ('red', 'green', 'blue');
ALTER TYPE shade ADD VALUE 'orange' AFTER 'red';
ALTER TYPE shade ADD VALUE 'violet' AFTER 'blue';
-- a random string of a random kind; r is the row's position, from 0 to 1
CREATE FUNCTION rstr(shape int, r float8) RETURNS text VOLATILE LANGUAGE sql AS $$
SELECT CASE shape
	WHEN 0 THEN (SELECT coalesce(string_agg(chr(97 + floor(random() * 2)::int), ''), '') FROM generate_series(1,
		floor(random() * 20)::int))
	WHEN 1 THEN md5(random()::text)
	WHEN 2 THEN 'customer#' || floor(random() * 300)
	WHEN 3 THEN 'common12byte' || left(md5(random()::text), 8)
	WHEN 4 THEN repeat('x', floor(random() * 40)::int)
	WHEN 5 THEN (ARRAY['', ' ', '  ', 'a', 'A', 'a ', 'a  ', 'b', 'ab', E'ab\t', 'ab ', 'á', 'Á', 'ä',
		'a' || U&'\0301', 'e', 'é', 'e' || U&'\0301', 'ß', 'ss', 'SS',
		U&'\FB01', 'fi', '日本', '日', E'\x7f', '~', U&'\+10FFFF', U&'\FFFD', 'cote', 'coté', 'côte', 'côté', 'co-op',
			'coop', 'CO-OP'])[1 + floor(random() * 36)]
		|| (ARRAY['', '', 'a', 'longer than a word'])[1 + floor(random() * 4)]
	WHEN 6 THEN CASE WHEN r > 0.95 THEN left('prefix of so', floor(random() * 13)::int) ELSE 'prefix of some length '
		|| floor(random() * 50) END
	WHEN 7 THEN substr('aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', 1, 7 + floor(random() * 3)::int * 8) ||
		left(md5(random()::text), floor(random() * 3)::int)
	WHEN 8 THEN CASE WHEN random() < 0.5 THEN repeat('long', 800) || floor(random() * 20) ELSE 'long' ||
		floor(random() * 20) END
	ELSE (SELECT string_agg(md5(g::text), '') FROM generate_series(1, 100) g) || floor(random() * 30)
END $$;
SQL
push @collations, create_collations($node);
my ($citext) = $node->psql('postgres', 'CREATE EXTENSION citext');
delete $strings{citext} if $citext != 0;
my @names = ((sort keys %types), (sort keys %strings) x 2);
note 'collations: ' . join ' ', @collations;
my @algorithms = split /\n/, $node->safe_psql('postgres',
	"SELECT algorithm FROM gpusort_algorithms() WHERE runs_on = 'cpu'");

for my $round (1 .. $rounds)
{
	my $n = $round % 40 == 0 ? 200_000 : int(10 ** (rand 4.5)) - 1;
	my $width = pick(0, 0, 20, 200, $n < 2000 ? 5000 : 50);
	my $ncols = 1 + int rand 5;
	my @cols = map { pick(@names) } 1 .. $ncols;
	my $table = "CREATE TABLE o AS SELECT i::int AS seq, "
	  . join(', ', map { column("c$_", $cols[ $_ - 1 ], $n) } 1 .. $ncols)
	  . ", repeat('x', (random() * $width)::int) AS pad FROM generate_series(1, $n) i";
	my @checks;

	for (1 .. 4)
	{
		my $mem = pick('64kB', '64kB', '200kB', '1MB', '4MB', '64MB');
		my @order = map { my $c = 1 + int rand $ncols; "c$c" . collate($cols[ $c - 1 ])
			. pick('', '', ' DESC', ' NULLS FIRST', ' DESC NULLS LAST', ' ASC') }
		  1 .. 1 + int rand 4;
		my $order = join ', ', @order;
		# the key columns only
		my %named = map { /^(c\d+)/ => 1 } @order;
		push @checks,
		  [ $mem, pick(
			"check_sort('SELECT * FROM o ORDER BY $order, seq" . pick('', ' DESC')
				. pick('', '', ' LIMIT ' . int(10 ** rand 4)) . "')",
			"check_stable('o', '$order')",
			"check_keys('o', '" . join(', ', sort keys %named) . "', '$order')") ];
	}
	# random algorithm, number of threads and gpusort.verify
	my $settings = sprintf "SET gpusort.algorithm = '%s'; SET gpusort.threads = %d; SET gpusort.verify = %s;\n",
	  pick('auto', @algorithms), $n >= 65536 ? pick(1, 2, 3, 5) : pick(1, 1, 2, 3), pick('on', 'off');
	my $sql = $settings . sprintf("SELECT setseed(%.6f);\n", rand) . "$table;\nANALYZE o;\n"
	  . join('', map { "SET work_mem = '$_->[0]';\nSELECT nodes || ' ' || rows || ' ' || result FROM $_->[1];\n" }
	  	@checks)
	  . "DROP TABLE o;\n";
	my ($rc, $out, $err) = $node->psql('postgres', $sql, on_error_stop => 1);
	$out =~ s/^\n//;
	my $want = join "\n", map { my ($limit) = $_->[1] =~ /LIMIT (\d+)/;
		'GpuSort ' . (defined $limit && $limit < $n ? $limit : $n) . ' same' } @checks;
	next if ok($rc == 0 && $out eq $want, "round $round: $n rows, " . join(', ', @cols));
	diag "seed $seed\n$sql\nstatus $rc\n$out\n$err";
	$node->psql('postgres', 'DROP TABLE IF EXISTS o');
}

$node->stop;
done_testing();
