# ShapeTables.pm: random tables for random statements.
#
# Tables may have dropped, added, generated, wide and NULL columns, dead and moved rows, and partitions or children
# whose columns have another order.
package ShapeTables;

use strict;
use warnings;

use Exporter 'import';
use GpuSortTest qw(pick);

our @EXPORT = qw(shape_tables chance shuffle own_aggregates);

sub chance { return rand() < $_[0] }

# Key columns: type => value, from a random whole number d.
my %key_types = (
	int2 => '((d * 7919) % 60000 - 30000)::int2',
	int4 => '((d * 48271) % 4000000000 - 2000000000)::int4',
	int8 => 'd * 1000000007 - 5000000000',
	float4 => q((CASE d WHEN 0 THEN 'NaN' WHEN 1 THEN '-0' WHEN 2 THEN '0' WHEN 3 THEN '-Infinity' ELSE (d - 20) / 3.0
		END)::float4),
	float8 => q((CASE d WHEN 0 THEN 'NaN' WHEN 1 THEN '-0' WHEN 2 THEN '0' WHEN 3 THEN 'Infinity' ELSE (d - 20) / 7.0
		END)::float8),
	bool => '(d % 2 = 1)',
	'"char"' => q(chr((33 + d % 90)::int)::"char"),
	oid => '((d * 65537) % 4294967296)::oid',
	money => '(d - 50)::int::money',
	date => q('2000-01-01'::date + (d % 100000)::int),
	time => q('00:00'::time + (d % 86400) * interval '1 second'),
	timestamp => q('2001-01-01'::timestamp + d * interval '17 minutes'),
	timestamptz => q('2001-01-01 00:00+00'::timestamptz + d * interval '1 hour'),
	regclass => '((d * 65537) % 4294967296)::oid::regclass',
	whole => '(d * 3 - 40)::whole',
	numeric => '((d * 7919) % 100000 / 8.0 - 5000)::numeric(12,3)',
	uuid => 'md5(d::text)::uuid',
	interval => q((d - 100) * interval '17 minutes'),
	timetz => q(('00:00'::time + (d % 86400) * interval '1 second')::timetz),
	inet => q('10.0.0.0'::inet + d * 1000),
	macaddr => q(lpad(to_hex(d), 12, '0')::macaddr),
	pg_lsn => q('0/0'::pg_lsn + d),
	xid8 => 'd::text::xid8',
	varbit => '(d % 100000)::int::bit(17)::varbit',
	shade => '(enum_range(NULL::shade))[(1 + d % 5)::int]',
	'int4[]' => 'ARRAY[(d % 7)::int4, (d % 1000)::int4]',
	text => q(substr('a common prefix of some, ', 1, (d % 3 * 12)::int) || chr((97 + d % 26)::int) || repeat('x',
		(d % 20)::int) || d % 1000),
	'text COLLATE "en-x-icu"' => q((CASE d % 3 WHEN 0 THEN 'Ab' WHEN 1 THEN 'aB' ELSE 'a-b' END) || d % 300),
	# strings that are equal have one spelling
	citext => q(((CASE d % 3 WHEN 0 THEN 'Ab' WHEN 1 THEN 'aC' ELSE 'a-B' END) || d % 300)),
	'varchar(30)' => q('customer#' || d % 700),
	'char(12)' => q(chr((97 + d % 26)::int) || repeat(' ', (d % 3)::int) || d % 50),
	name => q(('n' || d % 5000)::name),
	bytea => q(decode(md5((d % 3000)::text), 'hex')));

# Other columns: type => value, from the row's number i.
my %pad_types = (
	text => q(repeat('ab' || i % 10, (i % 9)::int)),
	numeric => '(i * 1.5)::numeric',
	uuid => q(md5(i::text)::uuid),
	interval => q(i * interval '1 minute'),
	'int4[]' => 'ARRAY[i, i + 1, NULL]::int4[]',
	jsonb => q(jsonb_build_object('i', i, 'x', repeat('y', (i % 50)::int))),
	'varbit' => q((i % 256)::int::bit(8)::varbit));

# Aggregates with transition functions of PostgreSQL, but with states of their own, which may not suit the function.
my @transitions = (
	{ sfunc => 'int4_avg_accum', stype => 'int8[]', arg => '((%s) %% 1000)::int4',
		init => [ '{0,0}', '{NULL,3}', '{}', '{0}', '{7,-100}', '{5,9223372036854775800}', '{1,2,3}' ] },
	{ sfunc => 'int2_avg_accum', stype => 'int8[]', arg => '((%s) %% 1000)::int2', final => 'int8_avg',
		init => [ '{0,0}', '{NULL,3}', '{}', '{3,1}' ] },
	{ sfunc => 'int8inc', stype => 'int8', arg => undef, init => [ 0, 5, 9223372036854775800 ] },
	# with a state of its own: otherwise the state begins as the first argument, and depends on the order of rows
	{ sfunc => 'int8inc_any', stype => 'int8', arg => '(%s)', type => 'int8',
		init => [ 0, -7, 9223372036854775800 ] },
	{ sfunc => 'int4_sum', stype => 'int8', arg => '((%s) %% 1000)::int4', init => [ undef, 9, 9223372036854775000 ] },
	{ sfunc => 'int4pl', stype => 'int4', arg => '((%s) %% 1000)::int4', init => [ undef, 0, 2147483000 ] },
	{ sfunc => 'int8pl', stype => 'int8', arg => '(%s)::int8', init => [ undef, 0, 17 ] },
	{ sfunc => 'int4larger', stype => 'int4', arg => '((%s) %% 1000)::int4', init => [ undef, 200 ] },
	{ sfunc => 'float8pl', stype => 'float8', arg => '((%s) %% 1000)::float8', init => [ undef, 0, 'Infinity' ] },
	{ sfunc => 'float8_accum', stype => 'float8[]', arg => '((%s) %% 2)::float8', final => 'float8_avg',
		init => [ '{0,0,0}', '{0}', '{NULL,0,0}', '{}', '{4,2,1}' ] },
	{ sfunc => 'numeric_add', stype => 'numeric', arg => '(%s)::numeric', init => [ undef, 0, 'NaN' ] },
	{ sfunc => 'text_larger', stype => 'text', arg => '(%s)::text', init => [ undef, '5' ] },
	{ sfunc => 'booland_statefunc', stype => 'bool', arg => '((%s) %% 3 = 0)', init => [ undef, 't', 'f' ] });

# The aggregates of the present tables: name, and the format of the argument from a whole number.
my @own_aggregates;

sub own_aggregates { return @own_aggregates }

sub make_aggregates
{
	my @sql;

	@own_aggregates = ();
	for my $t (@transitions)
	{
		my $init = pick(@{ $t->{init} });
		my $name = 'own_' . $t->{sfunc};
		my $type = $t->{type} // ($t->{arg} && $t->{arg} =~ /::(\w+)$/ ? $1 : 'bool');
		# the last digits of float8_accum's sum of squares depend on the order of rows; its mean is exact
		my $final = $t->{final} && ($t->{sfunc} eq 'float8_accum' || chance(0.5));

		$type = $t->{arg} ? "($type)" : '(*)';
		push @sql, "CREATE AGGREGATE $name $type (sfunc = $t->{sfunc}, stype = $t->{stype}"
		  . (defined $init ? ", initcond = '$init'" : '')
		  . ($final ? ", finalfunc = $t->{final}" : '') . ');';
		push @own_aggregates, { name => $name, arg => $t->{arg} };
	}
	return @sql;
}

sub key_value
{
	my ($type, $distinct, $nulls) = @_;
	my $d = "floor(random() * $distinct)::int8";
	my $value = $key_types{$type};


	# a value that names d twice means one number
	if ((() = $value =~ /\bd\b/g) > 1)
	{
		$value = "(SELECT $value FROM (SELECT $d AS d OFFSET 0 * i) s)";
	}
	else
	{
		$value =~ s/\bd\b/$d/;
	}
	return $nulls > 0 ? "CASE WHEN random() >= $nulls THEN $value END" : $value;
}

# Values for the TOAST table: compressed, or as they are.
my @wide_values = (
	"CASE WHEN i % 7 = 0 THEN repeat('long ' || i, 2000) ELSE 'w' || i END",
	"CASE WHEN i % 11 <> 0 THEN (SELECT string_agg(md5((i * 100 + g)::text), '') FROM generate_series(1, 80) g) END");

# Columns: name, type, value, and whether they may be keys.
sub make_columns
{
	my ($n) = @_;
	my @cols;

	# many keys that hardly tell rows apart are wider than any packed key
	my $many = chance(0.15);
	for my $c (1 .. ($many ? 14 : 2 + int rand 5))
	{
		my $type = pick(sort keys %key_types);
		my $distinct = $many ? pick(1, 2, 3) : pick(1, 2, 5, 30, 1000, 100 * $n + 1);
		push @cols, { name => "k$c", type => $type, key => 1,
			value => key_value($type, $distinct, pick(0, 0, 0, 0.05, 0.5, 1)) };
	}
	# whole numbers that are different, and equal as float8
	push @cols, { name => 'near', type => 'int8', key => 1, value => '9007199254740990 + floor(random() * '
		. pick(5, 5, 30) . ')::int8' } if chance(0.4);
	for my $c (1 .. (chance(0.5) ? 0 : int rand 4))
	{
		my $type = pick(sort keys %pad_types);
		my $value = $pad_types{$type};
		$value = "CASE WHEN i % 3 <> 0 THEN $value END" if chance(0.3);
		push @cols, { name => "v$c", type => $type, value => $value };
	}
	push @cols, { name => 'w', type => 'text', value => pick(@wide_values) }
	  if $n <= 3000 && chance(0.4);
	return @cols;
}

sub shuffle
{
	my @in = @_;
	my @out;
	push @out, splice(@in, int rand @in, 1) while @in;
	return @out;
}

sub definition { return join ', ', map { "$_->{name} $_->{type}" } @_ }
sub names { return join ', ', map { $_->{name} } @_ }

sub fill
{
	my ($table, $from, $to, @cols) = @_;

	return sprintf "INSERT INTO %s (%s) SELECT %s FROM generate_series(%d::int8, %d) i;",
	  $table, names(@cols), join(', ', map { $_->{value} } @cols), $from, $to;
}

# Estimates of rows and distinct values that are wrong by a factor of 1000, upwards or downwards, independently.
sub wrong_estimates
{
	my ($name) = @_;
	# other sessions change their tables at the same time
	my $which = "SELECT oid FROM pg_class WHERE relname ~ '^$name(_\\d)?\$' AND relkind = 'r' "
	  . 'AND relnamespace = current_schema()::regnamespace';
	my ($rows, $distinct) = map { pick(1000, 0.001, 1) } 1 .. 2;

	return "UPDATE pg_class SET reltuples = reltuples * $rows WHERE reltuples > 0 AND oid IN ($which);",
	  'UPDATE pg_statistic SET stadistinct = CASE WHEN stadistinct > 0 THEN greatest(1, least(1e9, stadistinct * '
	  . "$distinct)) ELSE greatest(-1, stadistinct * $distinct) END WHERE starelid IN ($which);";
}

# Statements that make a table, and what is known of it: name, rows, columns.
sub shape_table
{
	my ($name, $n) = @_;
	my $kind = pick(qw(plain plain plain altered altered temp unlogged sparse partitioned partitioned inherited));
	my $seq = { name => 'seq', type => pick(qw(int4 int8)), key => 1, value => 'i' };
	my @cols = shuffle($seq, make_columns($n));
	my @sql;
	my $half = int($n / 2);

	if ($kind eq 'partitioned')
	{
		my ($a, $b) = (int($n / 3), int($n * 2 / 3));
		my @other = shuffle(@cols);
		push @sql, "CREATE TABLE $name (" . definition(@cols) . ") PARTITION BY RANGE (seq);",
		  "CREATE TABLE ${name}_1 PARTITION OF $name FOR VALUES FROM (MINVALUE) TO ($a);",
		  "CREATE TABLE ${name}_2 (gone " . pick('text, ', 'int4, ') . definition(@other) . ");",
		  "ALTER TABLE ${name}_2 DROP COLUMN gone;",
		  "ALTER TABLE $name ATTACH PARTITION ${name}_2 FOR VALUES FROM ($a) TO ($b);",
		  "CREATE TABLE ${name}_3 PARTITION OF $name FOR VALUES FROM ($b) TO (MAXVALUE) PARTITION BY LIST (seq);",
		  "CREATE TABLE ${name}_4 PARTITION OF ${name}_3 DEFAULT;", fill($name, 1, $n, @cols);
	}
	elsif ($kind eq 'inherited')
	{
		push @sql, "CREATE TABLE $name (" . definition(@cols) . ");",
		  "CREATE TABLE ${name}_1 (extra text DEFAULT 'x', " . definition(shuffle(@cols)) . ") INHERITS ($name);",
		  fill($name, 1, $half, @cols), fill("${name}_1", $half + 1, $n, @cols);
	}
	elsif ($kind eq 'altered')
	{
		my @late = grep { $_->{name} ne 'seq' && chance(0.4) } @cols;
		my %late = map { $_->{name} => 1 } @late;
		my @early = grep { !$late{ $_->{name} } } @cols;
		push @sql, "CREATE TABLE $name (d1 int8 DEFAULT 1, " . definition(@early) . ', d2 '
			. pick("text DEFAULT 'gone'", 'int4 DEFAULT 3') . ');',
		  fill($name, 1, $half, @early), "ALTER TABLE $name DROP COLUMN d1;",
		  (map { "ALTER TABLE $name ADD COLUMN $_->{name} $_->{type}"
			  . ($_->{key} && chance(0.5) ? " DEFAULT (" . ($key_types{ $_->{type} } =~ s/\bd\b/5::int8/gr) . ")" : '')
			  	. ';' } @late),
		  fill($name, $half + 1, $n, @early, @late), "ALTER TABLE $name DROP COLUMN d2;";
		if (chance(0.5))
		{
			push @sql, "ALTER TABLE $name ADD COLUMN g int8 GENERATED ALWAYS AS (seq % 10) STORED;";
			push @late, { name => 'g', type => 'int8', key => 1 };
		}
		@cols = (@early, @late);
	}
	else
	{
		my %how = (plain => '', temp => 'TEMP', unlogged => 'UNLOGGED', sparse => '');
		push @sql, "CREATE $how{$kind} TABLE $name (" . definition(@cols) . ")"
		  . ($kind eq 'sparse' ? ' WITH (fillfactor = 10)' : '') . ';', fill($name, 1, $n, @cols);
	}
	# rows that are dead, moved, or gone with their pages
	my $churn = $kind eq 'sparse' ? 1 : rand;
	push @sql, "UPDATE $name SET seq = seq WHERE seq % 3 = 0;" if $churn > 0.5;
	push @sql, "DELETE FROM $name WHERE seq % 5 = 1;" if $churn > 0.6;
	push @sql, "DELETE FROM $name WHERE seq BETWEEN $half AND " . int($n * 0.7) . ';' if $churn > 0.8;
	push @sql, "VACUUM $name;" if $churn > 0.7 && $kind ne 'temp';
	push @sql, "CREATE INDEX ON $name (seq);" if chance(0.3);
	my @index = chance(0.6) ? splice @{ [ shuffle(grep { $_->{key} } @cols) ] }, 0, 1 + int rand 2 : ();
	push @sql, "CREATE INDEX ON $name (" . join(', ', map { $_->{name} } @index) . ');' if @index;
	push @sql, "ANALYZE $name;" if chance(0.9);
	push @sql, wrong_estimates($name) if $n <= 3000 && chance(0.3);
	return ({ name => $name, kind => $kind, n => $n, cols => \@cols, index => [ map { $_->{name} } @index ] }, @sql);
}

# The tables of a round, and the statements that make them.
sub shape_tables
{
	my ($most) = @_;
	my @tables;
	my @sql = (sprintf('SELECT setseed(%.6f) \g /dev/null', rand), 'CREATE DOMAIN whole AS int8 CHECK (VALUE > -100);',
		"CREATE TYPE shade AS ENUM ('red', 'orange', 'green', 'blue', 'violet');",
		'DO $$ BEGIN CREATE EXTENSION citext; EXCEPTION WHEN others THEN CREATE DOMAIN citext AS text; END $$;');

	# the third table is tiny
	for my $name (qw(ta tb tc))
	{
		my ($table, @make) = shape_table($name, $name eq 'tc' ? 6 + int rand 40 : int(40 * ($most / 40) ** rand));
		push @tables, $table;
		push @sql, @make;
	}
	push @sql, <<'SQL';
CREATE COLLATION loose (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
CREATE SEQUENCE calls;
CREATE VIEW vu AS SELECT seq::int8, 1 AS src FROM ta UNION ALL SELECT seq, 2 FROM tb;
CREATE FUNCTION costly(x int8) RETURNS bool LANGUAGE plpgsql COST 1000 AS 'BEGIN RETURN x % 3 <> 1; END';
CREATE FUNCTION sorts(x int8) RETURNS int8 LANGUAGE plpgsql SET jit = off AS
	'BEGIN RETURN (SELECT g FROM generate_series(1, 40) g ORDER BY (g * x) % 41, g LIMIT 1 OFFSET x % 30); END';
SQL
	return (\@tables, @sql, make_aggregates());
}

1;
