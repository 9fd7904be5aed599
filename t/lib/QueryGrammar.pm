# QueryGrammar.pm: random queries that contain each other.
#
# A query is a SELECT or a set operation.  What it reads are tables of ShapeTables, a few constant rows, joins, and
# other queries.  So there are DISTINCTs above groups, joins of large and tiny relations, casts between set operations.
#
# A query has columns of known families of types.  Equal values of a family look the same, except for zeros after the
# point of a number (ShapeOracle ignores these).  So the rows do not depend on the plan.  Sums are exact: the order of
# addition does not matter.  What can fail is read to the end by any plan.
package QueryGrammar;

use strict;
use warnings;

use Exporter 'import';
use GpuSortTest qw(pick);
use ShapeTables qw(chance shuffle own_aggregates);

our @EXPORT = qw(random_query lazy_query);

my %family = ((map { $_ => 'int' } qw(int2 int4 int8 whole)), (map { $_ => 'float' } qw(float4 float8)),
	numeric => 'numeric', text => 'text', 'varchar(30)' => 'text', date => 'date', timestamp => 'timestamp',
	bool => 'bool');
my @numbers = qw(int numeric float);
# types whose values are as wanted by each family; a branch of a set operation has any of the group
my %group = (int => \@numbers, numeric => \@numbers, float => \@numbers, text => ['text'],
	date => [qw(date timestamp)], timestamp => [qw(date timestamp)], bool => ['bool']);
# products of joins have at most this many rows
my $most_pairs = 500_000;

# Of the query that is being made: its tables, the number of aliases, a row of an outer query that it may read, and
# whether something in it can fail.
my %now;

sub alias { return 'a' . ++$now{aliases} }

sub some_families { return map { pick(qw(int int int int numeric float text date bool)) } 1 .. 1 + int rand 3 }

# ------------------------------------------------------------------------
# Relations: { sql, n, cols => [ { e => expression, f => family } ], seq => expression to join by, unique => the same if
# it tells rows apart }
# ------------------------------------------------------------------------
sub table_columns
{
	my ($table, $alias) = @_;

	return map {
		my $f = $family{ $_->{type} } // $_->{type};
		# the negative zero equals zero, and looks different
		{ e => $f eq 'float' ? "(trunc($alias.$_->{name}::float8) + 0)" : "$alias.$_->{name}", f => $f,
			near => $_->{name} eq 'near' }
	} grep { $_->{key} } @{ $table->{cols} };
}

sub table_relation
{
	my ($most) = @_;
	my $table = pick(@{ $now{tables} });
	my $alias = alias();
	my ($n, $sql) = ($table->{n}, $table->{name});
	my @lead = @{ $table->{index} // [] };

	if (chance(0.15) || $n > $most)
	{
		my $part = pick(3, 10, 50);

		$part = 1 + int($n / $most) if $n / $part > $most;
		$n = 1 + int($n / $part);
		$sql = "(SELECT * FROM $sql WHERE seq % $part = 0)";
	}
	# rows in the order of these columns, by an index or by a sort
	if (chance(0.2))
	{
		@lead = map { $_->{name} } splice @{ [ shuffle(grep { $_->{key} } @{ $table->{cols} }) ] }, 0, 1 + int rand 2;
		$sql = "(SELECT * FROM $sql" . ($sql =~ /^\(/ ? ' s' : '') . ' ORDER BY ' . join(', ', @lead) . ' OFFSET 0)';
	}
	my @cols = table_columns($table, $alias);
	my %f = map { $_->{e} => $_->{f} } @cols;
	return { sql => "$sql $alias", n => $n, cols => \@cols, seq => "$alias.seq", unique => "$alias.seq",
		lead => [ map { { e => $_, f => $f{$_} } } grep { defined $f{$_} } map { "$alias.$_" } @lead ] };
}

sub values_relation
{
	my $alias = alias();
	my @rows = map { sprintf '(%s, %s, %s)', pick('NULL', int(rand 40), int(rand 40)), int(rand 40) * 0.5,
		pick("'customer#" . int(rand 20) . "'", "'a'", 'NULL') } 1 .. 1 + int rand 5;

	return { sql => '(VALUES (7, 1.5, NULL), ' . join(', ', @rows) . ") $alias (c1, c2, c3)", n => 6,
		cols => [ { e => "$alias.c1", f => 'int' }, { e => "$alias.c2", f => 'numeric' },
			{ e => "$alias.c3", f => 'text' } ] };
}

sub query_relation
{
	my ($depth) = @_;
	my $query = query_of($depth - 1);
	my $alias = alias();
	my $c = 0;

	return { sql => "($query->{sql}) $alias", n => $query->{n},
		cols => [ map { { e => "$alias.c" . ++$c, f => $_ } } @{ $query->{families} } ] };
}

sub relation
{
	my ($depth, $most) = @_;
	my $rel;

	return values_relation() if chance(0.05);
	if ($depth > 0 && chance(0.5))
	{
		$rel = query_relation($depth);
		return $rel if $rel->{n} <= $most;
	}
	return table_relation($most);
}

# ------------------------------------------------------------------------
# Expressions
# ------------------------------------------------------------------------
sub of_family
{
	my ($f, $cols) = @_;
	return map { $_->{e} } grep { $_->{f} eq $f } @$cols;
}

sub int_expr
{
	my ($cols) = @_;
	my @ints = of_family(int => $cols);
	my $c = @ints ? pick(@ints) : pick('7::int4', '0::int8', 'NULL::int4');

	return pick($c, $c, $c, $c, "$c % " . pick(2, 7, 100), "($c)::int8 * 2 + 1", "coalesce($c, 3)", "-($c)::int8",
		"CASE WHEN $c > 3 THEN 1 ELSE 2 END", "(($c) % 5)::int2", "abs(($c)::int8)");
}

# An expression of a family, from these columns.
sub expr
{
	my ($f, $cols) = @_;
	my @own = of_family($f => $cols);
	my $i = int_expr($cols);

	return $i if $f eq 'int';
	if (@own && chance(0.7))
	{
		my $c = pick(@own);

		return $c if chance(0.6);
		return pick("$c + 0.5", "$c * 1.50", "coalesce($c, 0)") if $f eq 'numeric';
		return pick("$c * 2", "coalesce($c, 0)") if $f eq 'float';
		return pick("upper($c)", "$c || 'x'", "substr($c, 1, 3)", "$c\::varchar(12)") if $f eq 'text';
		return pick("$c + 3", $c) if $f eq 'date';
		return pick("date_trunc('day', $c)", "$c + interval '1 hour'") if $f eq 'timestamp';
		return $f eq 'bool' ? "NOT $c" : $c;
	}
	return pick("($i)::numeric", "($i) * 0.50", "($i) + 0.0") if $f eq 'numeric';
	return pick("($i)::float8", "(($i) % 1000)::float8 * 0.25", "($i)::float4::float8") if $f eq 'float';
	return pick("($i)::text", "($i)::text", "('w' || ($i) % 20)") if $f eq 'text';
	return "('2000-01-01'::date + (($i) % 1000)::int)" . ($f eq 'date' ? '' : '::timestamp') if $f =~ /date|timestamp/;
	return pick("($i) % 2 = 0", "($i) IS NULL", "($i) > 20") if $f eq 'bool';
	# another type: only columns have it
	return pick(@own);
}

sub condition
{
	my ($rel) = @_;
	my $i = int_expr($rel->{cols});
	my $col = pick(@{ $rel->{cols} })->{e};

	return pick("($i) % 3 = " . pick(0, 1), "($i) > " . int(rand 60), "$col IS NOT NULL", "$col IS NULL OR ($i) < 9")
	  if !$now{outer} || chance(0.3);
	return "($i)::int8 % 10 " . pick('=', '<>', '>') . " $now{outer} % 10";
}

# FROM and WHERE of a SELECT.
sub from
{
	my ($rel) = @_;
	my @where = @{ $rel->{where} // [] };

	push @where, '(' . condition($rel) . ')' if chance($now{outer} ? 0.7 : 0.35);
	return " FROM $rel->{sql}" . (@where ? ' WHERE ' . join ' AND ', @where : '');
}

# ------------------------------------------------------------------------
# Joins
# ------------------------------------------------------------------------
# Pairs of columns of one group of families; numbers are compared with casts, so that both sides need keys of their own.
sub pairs
{
	my ($x, $y) = @_;
	my @pairs;

	for my $c (@{ $x->{cols} })
	{
		my %alike = map { $_ => 1 } @{ $group{ $c->{f} } // [ $c->{f} ] };
		push @pairs, map { "$c->{e} = $_->{e}" } grep { $alike{ $_->{f} } } @{ $y->{cols} };
	}
	return @pairs;
}

sub join_of
{
	my ($x, $depth) = @_;
	my $most = $x->{n} < $most_pairs ? int($most_pairs / (1 + $x->{n})) : 0;
	my $y = relation($depth, chance(0.5) ? 1e9 : $most < 20 ? 20 : $most);
	my @pairs = pairs($x, $y);
	my $n = $x->{n} * $y->{n};
	my @by;

	if (defined $x->{seq} && defined $y->{seq} && ($n > $most_pairs || chance(0.4)))
	{
		push @by, pick("$x->{seq} = $y->{seq}", "$x->{seq} / 3 = $y->{seq} / 3", "$x->{seq} = -$y->{seq}");
		$n = $x->{n} + 3 * $y->{n};
	}
	return $x if $n > $most_pairs;
	push @by, pick(@pairs) if @pairs && (!@by || chance(0.3));
	@by = (int_expr($x->{cols}) . ' = ' . int_expr($y->{cols})) if !@by;
	push @by, '(' . condition($y) . ')' if chance(0.15);
	my $by = join ' AND ', @by;

	if (chance(0.25))
	{
		my $not = pick('', '', 'NOT ');

		return { %$x, where => [ @{ $x->{where} // [] }, "${not}EXISTS (SELECT 1 FROM $y->{sql} WHERE $by)" ] };
	}
	my $kind = pick('JOIN', 'JOIN', 'LEFT JOIN', 'RIGHT JOIN', 'FULL JOIN');
	# a full join can only be merged or hashed
	$kind = 'LEFT JOIN' if $kind eq 'FULL JOIN' && $by =~ /[%>]| IS |::/;
	return { %$x, lead => undef, unique => undef, sql => "$x->{sql} $kind $y->{sql} ON $by", n => $n,
		cols => [ @{ $x->{cols} }, @{ $y->{cols} } ],
		seq => $kind eq 'JOIN' && $n < $most_pairs ? $x->{seq} : undef };
}

# ------------------------------------------------------------------------
# Aggregates
# ------------------------------------------------------------------------
# Casts of a sort key.  Several values may become one, so that these are orders, but other equalities.
sub cast_key
{
	my ($cols) = @_;
	my $i = int_expr($cols);
	my $n = expr('numeric', $cols);

	return ("($i)::float8", 'float') if chance(0.4);
	return @{ pick([ "($i)::float4::float8", 'float' ], [ "($n)::float8", 'float' ], [ "round($n)", 'numeric' ],
		[ '(' . expr('timestamp', $cols) . ')::date', 'date' ], [ '(' . expr('text', $cols) . ')::varchar(2)', 'text' ],
		[ "($i)::text", 'text' ], [ "(($i) % 30000)::int2::int8", 'int' ]) };
}

# An aggregate and its family.  At the top an aggregate may fail.
sub aggregate
{
	my ($cols, $top) = @_;
	my $f = pick(@numbers, 'text', 'date');
	my $e = expr($f, $cols);
	my $i = int_expr($cols);
	my $filter = chance(0.1) ? " FILTER (WHERE ($i) % 3 <> 1)" : '';
	my ($key, $key_family) = chance(0.5) ? cast_key($cols) : ($e, $f);

	if ($top && chance(0.3))
	{
		my $own = pick(own_aggregates());
		my $arg = sprintf $own->{arg} // '*', $i;

		$now{fails} = 1;
		return ("$own->{name}(*)$filter", 'state') if $arg eq '*';
		return ("$own->{name}(" . pick($arg, $arg, "DISTINCT $arg", "$arg ORDER BY $arg") . ")$filter", 'state');
	}
	if ($top && chance(0.02))
	{
		$now{fails} = 1;
		return ("count(DISTINCT 10 / (($i) % 97))", 'int');
	}
	my @near = map { $_->{e} } grep { $_->{near} } @$cols;

	return ('mode() WITHIN GROUP (ORDER BY ' . pick(@near) . '::float8)', 'float') if @near && chance(0.15);
	return @{ pick([ "count(*)$filter", 'int' ], [ "count($e)$filter", 'int' ], [ "count(DISTINCT $e)$filter", 'int' ],
		[ "min($e)$filter", $f ], [ "max($e)$filter", $f ], [ "sum(($i)::int8)$filter", 'numeric' ],
		[ "avg(($i) % 100)$filter", 'numeric' ], [ "sum((($i) % 1000)::float8)$filter", 'float' ],
		[ "sum(DISTINCT " . expr('numeric', $cols) . ")$filter", 'numeric' ],
		[ "mode() WITHIN GROUP (ORDER BY $key)$filter", $key_family ],
		([ "mode() WITHIN GROUP (ORDER BY $key)", $key_family ]) x 2,
		[ "percentile_disc(" . pick(0, 0.3, 1) . ") WITHIN GROUP (ORDER BY $key" . pick('', ' DESC') . ")$filter",
			$key_family ],
		[ "percentile_cont(0.5) WITHIN GROUP (ORDER BY ($i) % 1000)", 'float' ],
		[ "bool_or(($i) % 3 = 0)", 'bool' ], [ "string_agg(($i)::text, ',' ORDER BY ($i))", 'text' ]) };
}

# ------------------------------------------------------------------------
# SELECT
# ------------------------------------------------------------------------
sub direction { return pick('', '', ' DESC', ' NULLS FIRST', ' DESC NULLS LAST') }
sub named { my $c = 0; return join ', ', map { "$_ AS c" . ++$c } @_ }

# ORDER BY for all of n columns.
sub order_all
{
	my ($n, @first) = @_;
	my %first = map { $_ => 1 } @first;

	return ' ORDER BY ' . join ', ', map { $_ . direction() } @first, shuffle(grep { !$first{$_} } 1 .. $n);
}

# A window function and its family.
sub window
{
	my ($rel, @lead) = @_;
	my ($pf, $of) = map { pick('int', 'int', 'text', 'numeric') } 1 .. 2;
	my ($p, $o) = (expr($pf, $rel->{cols}), expr($of, $rel->{cols}));
	my $partition = join ', ', @lead ? @lead : $p;
	my $over = pick("PARTITION BY $partition ORDER BY $o", "PARTITION BY $partition ORDER BY $o" . direction(),
		"ORDER BY $o");
	my ($function, $f) = @{ pick([ 'rank()', 'int' ], [ 'dense_rank()', 'int' ], [ 'count(*)', 'int' ],
		[ "max($o)", $of ]) };

	$over .= pick('', '', '', ' RANGE BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING');
	# an order without ties
	($over, $function, $f) = ("PARTITION BY $partition ORDER BY $o, $rel->{unique}", @{ pick([ 'row_number()', 'int' ],
		[ "lag($p)", $pf ], [ 'ntile(3)', 'int' ], [ 'cume_dist()', 'float' ], [ 'sum(1)', 'int' ]) })
	  if defined $rel->{unique} && chance(0.5);
	return ("$function OVER ($over)", $f);
}

# Groups: returns the SELECT, and its families.
sub select_groups
{
	my ($rel, $from, $keys, $families, $top) = @_;
	my @keys = @$keys;
	my @aggregates = map { [ aggregate($rel->{cols}, $top) ] } 1 .. int rand 4;
	# keys need not be shown
	my @shown = grep { !@aggregates || chance(0.8) } 0 .. $#keys;
	my @e = ((map { $keys[$_] } @shown), map { $_->[0] } @aggregates);
	my @f = ((map { $families->[$_] } @shown), map { $_->[1] } @aggregates);
	my $group = join ', ', @keys;
	my $distinct = '';
	my $order = '';

	# the planner orders by no constant, although grouping sets make it NULL
	$group = pick("ROLLUP ($group)", "CUBE ($group)", "GROUPING SETS (($group), ())")
	  if chance(0.1) && !grep { !/\ba\d+\./ } @keys;
	$group .= ' HAVING ' . pick('count(*) > 1', 'count(*) % 2 = 0', 'min(' . int_expr($rel->{cols}) . ') > 3')
	  if chance(0.2);
	if (chance(0.4))
	{
		$distinct = 'DISTINCT ';
		if (chance(0.5) && !grep { $_ eq 'state' } @f)
		{
			my @on = shuffle(1 .. @e);

			splice @on, 1 + int rand 2;
			$distinct = 'DISTINCT ON (' . join(', ', map { $e[ $_ - 1 ] } @on) . ') ';
			$order = order_all(scalar @e, @on);
		}
	}
	return ("SELECT $distinct" . named(@e) . "$from GROUP BY $group$order", @f);
}

# A SELECT; the families of its columns are wanted, or are its own choice.
sub select_of
{
	my ($depth, $want, $top) = @_;
	my $rel = relation($depth, 1e9);

	$rel = join_of($rel, $depth) if chance(0.5);
	$rel = join_of($rel, 0) if chance(0.15);
	my $from = from($rel);
	my @want = $want ? @$want : some_families();
	my ($sql, @f);

	# other types are shown by their columns
	@want = map { my ($f) = grep { !$group{$_} && $_ ne 'state' } map { $_->{f} } shuffle(@{ $rel->{cols} });
		chance(0.15) && defined $f ? $f : $_ } @want if !$want;
	my @e = map { expr($_, $rel->{cols}) } @want;
	my $shape = rand;

	@f = @want;
	# the first columns are in order
	my @lead = !$want && chance(0.6) ? @{ $rel->{lead} // [] } : ();
	unshift @e, map { $_->{e} } @lead;
	unshift @f, map { $_->{f} } @lead;
	if (!$want && $shape < 0.4)
	{
		($sql, @f) = select_groups($rel, $from, [@e], [@f], $top);
	}
	elsif (!$want && $shape < 0.45)
	{
		my @aggregates = map { [ aggregate($rel->{cols}, $top) ] } 1 .. 1 + int rand 3;

		return { sql => 'SELECT ' . named(map { $_->[0] } @aggregates) . $from, n => 1,
			families => [ map { $_->[1] } @aggregates ] };
	}
	else
	{
		if (!$want && $shape < 0.55)
		{
			my ($e, $f) = window($rel, map { $_->{e} } @lead);

			$sql = 'SELECT ' . named(@e, $e) . $from;
			push @f, $f;
		}
		elsif ($shape < 0.75)
		{
			$sql = 'SELECT DISTINCT ' . named(@e) . $from;
		}
		elsif ($shape < 0.82)
		{
			$sql = "SELECT DISTINCT ON ($e[0]) " . named(@e) . $from . order_all(scalar @e, 1);
		}
		else
		{
			$sql = 'SELECT ' . named(@e) . $from;
		}
	}
	my $query = { sql => $sql, n => $rel->{n}, families => \@f, lead => scalar @lead };
	limited($query, 1) if !$top && chance(0.12) && $sql !~ / ORDER BY (?!.*\))/;
	return $query;
}

# ORDER BY and LIMIT.  All columns are sorted: equal rows are the same.
sub limited
{
	my ($query, $limit) = @_;
	my @columns = 1 .. @{ $query->{families} };

	@columns = shuffle(@columns) if chance($query->{lead} ? 0.1 : 0.5);
	$query->{sql} .= ' ORDER BY ' . join(', ', map { $_ . direction() } @columns);
	return if !$limit;
	$query->{sql} .= pick(' LIMIT ' . pick(0, 1, 5, 40, 1000), ' OFFSET 3 LIMIT 20', ' OFFSET 2',
		' FETCH FIRST 3 ROWS WITH TIES');
}

# ------------------------------------------------------------------------
# Set operations
# ------------------------------------------------------------------------
sub common_family
{
	my ($x, $y) = @_;

	return $x if $x eq $y;
	return 'timestamp' if "$x $y" =~ /timestamp/;
	return "$x $y" =~ /float/ ? 'float' : 'numeric';
}

sub constant_of
{
	my ($f) = @_;

	return { sql => 'SELECT ' . named(map {
			my $type = { int => pick(qw(int2 int4 int8)), float => 'float8', bool => 'bool' }->{$_} // $_;
			my $value = /int|numeric|float/ ? pick(1, 7, 12) : { text => 'a', date => '2000-02-01',
				timestamp => '2000-02-01', bool => 't' }->{$_};
			chance(0.1) ? "NULL::$type" : $_ eq 'numeric' ? "$value.5" : "'$value'::$type"
		} @$f), n => 1, families => $f };
}

sub branch
{
	my ($depth, $want) = @_;
	my @f = map { chance(0.5) ? $_ : pick(@{ $group{$_} }) } @$want;
	my $query = chance(0.15) ? constant_of(\@f)
	  : $depth > 0 && chance(0.5) ? set_operation($depth - 1, \@f) : select_of($depth - 1, \@f);

	$query->{sql} = "($query->{sql})";
	return $query;
}

sub set_operation
{
	my ($depth, $want) = @_;
	my @want = $want ? @$want : some_families();
	my ($x, $y) = map { branch($depth, \@want) } 1 .. 2;
	my $op = pick('UNION', 'UNION', 'UNION ALL', 'INTERSECT', 'EXCEPT', 'INTERSECT ALL', 'EXCEPT ALL');

	return { sql => "$x->{sql} $op $y->{sql}", n => $x->{n} + $y->{n},
		families => [ map { common_family($x->{families}[$_], $y->{families}[$_]) } 0 .. $#want ] };
}

sub query_of
{
	my ($depth, $top) = @_;
	return $depth > 0 && chance(0.3) ? set_operation($depth) : select_of($depth, undef, $top);
}

# ------------------------------------------------------------------------
# Statements
# ------------------------------------------------------------------------
# Statements of a random query over these tables.
sub random_query
{
	my ($tables) = @_;
	my ($query, $sql);

	%now = (tables => $tables, aliases => 0);
	$now{outer} = 'z.seq' if chance(0.08);
	$query = query_of($now{outer} ? 1 : 2, !$now{outer});
	if ($now{outer})
	{
		limited($query, 1) if chance(0.3) && $query->{sql} !~ / ORDER BY (?!.*\))/;
		$sql = "SELECT z.seq, q.* FROM (SELECT seq::int8 FROM $tables->[0]{name} ORDER BY seq LIMIT 20) z "
			. pick('CROSS JOIN', 'CROSS JOIN', 'LEFT JOIN');
		$sql .= " LATERAL ($query->{sql}) q" . ($sql =~ /LEFT JOIN/ ? ' ON true' : '');
	}
	elsif (chance(0.25))
	{
		my $c = 0;
		my @sums = map { $c++; /^(int|numeric|float)$/ ? "sum(q.c$c\::numeric)" : "count(q.c$c)" }
			@{ $query->{families} };

		$sql = 'SELECT count(*), ' . join(', ', @sums) . " FROM ($query->{sql}) q";
	}
	else
	{
		limited($query, !$now{fails} && chance(0.4))
		  if chance($query->{lead} ? 0.9 : 0.4) && $query->{sql} !~ / ORDER BY (?!.*\))/
		  && !grep { $_ eq 'state' } @{ $query->{families} };
		$sql = $query->{sql};
	}
	my @limits = ("SET statement_timeout = '10s';");
	return (@limits, "BEGIN; DECLARE c " . pick('NO SCROLL ', 'SCROLL ', '') . "CURSOR FOR $sql; FETCH 3 FROM c; "
		. 'FETCH 100 FROM c; FETCH ALL FROM c; ROLLBACK;') if chance(0.1);
	return (@limits, "PREPARE p AS $sql; EXECUTE p; EXECUTE p; DEALLOCATE p;") if chance(0.1);
	return (@limits, "$sql;");
}

# Groups, of which the last ones fail and are not read.
sub lazy_query
{
	my ($tables) = @_;
	my $table = pick(@$tables);
	my $groups = 2 + int rand 9;
	my $x = '10 / x';
	my @e = shuffle("count(DISTINCT $x)", "array_agg(DISTINCT $x)", "sum($x)", "array_agg($x ORDER BY $x, seq)",
		"percentile_disc(0.5) WITHIN GROUP (ORDER BY $x)", "string_agg(($x)::text, ',' ORDER BY seq)",
		"mode() WITHIN GROUP (ORDER BY $x)");

	return ('SET enable_hashagg = off; SET max_parallel_workers_per_gather = 0;',
		'SELECT g, ' . join(', ', splice @e, 0, 1 + int rand 2) . " FROM (SELECT seq::int8 % $groups AS g, seq, "
		  . "CASE WHEN seq::int8 % $groups = $groups - 1 THEN 0 ELSE seq::int8 % 3 + 1 END AS x FROM $table->{name}) s "
		  . 'GROUP BY g ORDER BY g LIMIT ' . (1 + int rand($groups - 1)) . ';');
}

1;
