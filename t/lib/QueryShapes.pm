# QueryShapes.pm: random statements that sort the rows of ShapeTables.
#
# A case is a list of statements whose output does not depend on the sort that
# runs: each order is total, because it ends with seq, and the caller seeds all
# random numbers.  A case rolls its changes back.
package QueryShapes;

use strict;
use warnings;

use Exporter 'import';
use GpuSortTest qw(pick);
use QueryGrammar;
use ShapeTables;

our @EXPORT = qw(shape_case select_sorted);

# Random sort keys of the table with this alias.
sub order_keys
{
	my ($table, $alias, $count) = @_;
	my @keys = grep { $_->{key} } @{ $table->{cols} };
	my @order;

	for (1 .. $count // (chance(0.1) ? 10 + int rand 8 : 1 + int rand 5))
	{
		my $col = pick(@keys);
		my $c = "$alias.$col->{name}";
		my $type = $col->{type};
		my $expr = $c;

		$expr = pick("$c / 2", "$c % 7::$type", "-(($c) / 3)", "coalesce($c, 7::$type)")
			if $type =~ /^int\d$/ && chance(0.25);
		$expr = pick("$c + 1.0", "abs($c)") if $type =~ /^float/ && chance(0.2);
		$expr = pick("NOT $c", "$c IS NULL") if $type eq 'bool' && chance(0.3);
		$expr = pick("$c + 3", "$c\::timestamp") if $type eq 'date' && chance(0.2);
		$expr = pick("$c COLLATE \"C\"", "$c COLLATE \"POSIX\"", "upper($c)", "$c || 'x'")
			if $type =~ /char\(|text/ && chance(0.3);
		$expr = "CASE WHEN $c IS NULL THEN $alias.seq % 3 ELSE 5 END" if chance(0.05);
		push @order, $expr . pick('', '', ' DESC', ' NULLS FIRST', ' DESC NULLS LAST', ' ASC');
	}
	return @order;
}

# Random sort keys that end with seq, so that there are no ties.
sub total_order
{
	my ($table, $alias, $count) = @_;
	return join ', ', order_keys($table, $alias, $count), "$alias.seq" . pick('', ' DESC');
}

sub condition
{
	my ($table, $other, $alias) = @_;
	my $n = $table->{n};
	my $col = pick(@{ $table->{cols} });
	my $at = int rand($n + 1);
	my @all = (
		"$alias.seq % 3 = 1", "$alias.seq > $at", "$alias.$col->{name} IS NOT NULL",
			"$alias.$col->{name} IS NULL OR $alias.seq < $at",
		"$alias.$col->{name} = (SELECT $col->{name} FROM $table->{name} ORDER BY seq LIMIT 1 OFFSET $at)",
		"costly($alias.seq)", "costly($alias.seq) AND random() < 0.7", "random() < 0.5", "sorts($alias.seq) % 2 = 0",
		"($alias.seq % 2 = 0 OR EXISTS (SELECT 1 FROM $other->{name} x WHERE x.seq = $alias.seq))",
		"$alias.seq IN (SELECT x.seq FROM $other->{name} x ORDER BY x.seq LIMIT $at)",
		"$alias.seq = ANY (ARRAY(SELECT x.seq / 2 FROM $other->{name} x))",
		"$alias.ctid > '(0,3)'", "$alias.ctid::text LIKE '%2)'", "$alias.tableoid <> 0", "$alias.xmin::text <> '0'",
			"$alias IS NOT NULL OR $alias.seq % 2 = 0",
		"$alias\::text LIKE '%1%'", "$alias.seq < 0", 'false',
			"$alias.seq <= (SELECT max(seq) / 2 FROM $other->{name})",
		"octet_length($alias\::text) % 2 = 0");

	return pick(@all) . (chance(0.2) ? ' AND ' . pick(@all) : '');
}

sub where { return chance(0.5) ? ' WHERE ' . condition(@_) : '' }

sub outputs
{
	my ($table, $other, $alias) = @_;
	my @names = map { "$alias.$_->{name}" } @{ $table->{cols} };
	my $some = join ', ', "$alias.seq", grep { chance(0.5) } @names;

	return pick('*', '*', '*', '*', "$alias.*", $alias, $some, $some, $some, "$alias.seq", join(', ', shuffle(@names)),
		"$alias.ctid, $alias.seq", "$alias.tableoid::regclass, $some",
			"$some, (SELECT count(*) FROM $other->{name} x WHERE x.seq < $alias.seq)",
		"md5($alias\::text), $alias.seq + 1", "ROW($some)", "$some, $alias.seq AS again",
			"sorts($alias.seq), $alias.seq", "$some, NULL, 'const'");
}

sub limit
{
	my ($n) = @_;
	my $k = pick(0, 1, 2, 10, 40, 700, $n, int rand($n + 1));
	my $o = pick(0, 1, 5, int rand($n + 1));

	return pick('', '', " LIMIT $k", " LIMIT $k", " LIMIT $k OFFSET $o", " OFFSET $o", " LIMIT NULL",
		" LIMIT ALL OFFSET $o",
		" LIMIT (SELECT $k)", " LIMIT (SELECT $k) OFFSET (SELECT $o)", " FETCH FIRST $k ROWS WITH TIES",
		" LIMIT (random() * 0)::int + $k", " LIMIT abs(-$k)");
}

# A random SELECT with a total order.
sub select_sorted
{
	my ($table, $other, %opt) = @_;
	my $from = $table->{name} . ' t';

	$from = "$table->{name} AS t TABLESAMPLE BERNOULLI (60) REPEATABLE (7)" if chance(0.03) && !$opt{plain};
	return 'SELECT ' . ($opt{out} // outputs($table, $other, 't')) . " FROM $from" . where($table, $other, 't')
	  . ' ORDER BY ' . total_order($table, 't') . ($opt{limit} // limit($table->{n}));
}

sub join_of
{
	my ($a, $b) = @_;
	my $kind = pick('JOIN', 'LEFT JOIN', 'RIGHT JOIN', 'FULL JOIN');
	my $by = pick('x.seq = y.seq', 'x.seq % 10 = y.seq % 10', 'x.seq / 3 = y.seq / 3',
		'x.seq / 3 = y.seq / 3 AND x.seq % 2 = y.seq % 2');
	my @pairs;

	for my $p (grep { $_->{key} } @{ $a->{cols} })
	{
		push @pairs, map { "x.$p->{name} = y.$_->{name}" }
		  grep { $_->{key} && ($_->{type} eq $p->{type} || ($_->{type} =~ /^int\d$/ && $p->{type} =~ /^int\d$/)) } @{
		  	$b->{cols} };
	}
	$by = pick(@pairs) if @pairs && chance(0.4);
	return "(SELECT * FROM $a->{name} ORDER BY seq LIMIT 150) x $kind (SELECT * FROM $b->{name} ORDER BY seq DESC "
		. "LIMIT 150) y ON $by"
	  if chance(0.3);
	return "(SELECT * FROM $a->{name} WHERE seq % 4 <> 2 AND seq < 400) x $kind (SELECT * FROM $b->{name} WHERE seq < "
		. "300) y ON $by";
}

sub frame
{
	return pick('', ' ROWS BETWEEN 3 PRECEDING AND 2 FOLLOWING',
		' ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING',
		' RANGE UNBOUNDED PRECEDING', ' GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW',
			' ROWS BETWEEN CURRENT ROW AND 5 FOLLOWING EXCLUDE CURRENT ROW');
}

sub fetches
{
	my @how = ('FETCH 1', 'FETCH 7', 'FETCH ALL', 'FETCH 0', 'MOVE 11', 'FETCH FIRST', 'FETCH RELATIVE 2', 'FETCH NEXT',
		'FETCH FORWARD 300');
	my @back = ('FETCH BACKWARD 3', 'FETCH PRIOR', 'FETCH LAST', 'FETCH ABSOLUTE 5', 'FETCH ABSOLUTE -2',
		'FETCH BACKWARD ALL', 'MOVE BACKWARD 4', 'FETCH RELATIVE -3', 'MOVE LAST', 'FETCH ABSOLUTE 0');
	my ($scroll) = @_;

	@how = ('FETCH 1', 'FETCH 7', 'FETCH 60', 'MOVE 11', 'FETCH NEXT', 'FETCH FORWARD 300') if !$scroll;
	return map { pick(@how, $scroll ? @back : ()) . ' FROM c;' } 1 .. 2 + int rand 7;
}

# Values of a type that can only be hashed, and of types that can only be sorted.
my @one_sided = ('(%s.seq %% 40)::text::xid', '(%s.seq %% 40)::int::money', '(%s.seq %% 40)::int::bit(7)::varbit',
	q(('w' || %s.seq %% 40)::tsvector));

# A random query that groups: DISTINCT, GROUP BY, set operations, joins, or windows.  The output is in a total order.
# Keys whose equal values look different are not shown, because the one that is shown depends on the plan.
sub select_grouped
{
	my ($t, $o) = @_;
	my ($a, $b) = map { $_->{name} } $t, $o;
	my %seen;
	my @keys = grep { !$seen{$_}++ } map { s/ (ASC|DESC|NULLS).*//r }
	  order_keys({ cols => [ grep { $_->{type} !~ /float/ } @{ $t->{cols} } ] }, 't', 1 + int rand 3);
	my $list = join ', ', @keys;
	my $order = join ', ', map { $_ . pick('', '', ' DESC', ' NULLS FIRST') } @keys;
	my $where = where($t, $o, 't');
	my $limit = limit($t->{n});
	my $k = pick(0, 1, 3, 100, int rand($t->{n} + 1));
	my $e = pick('seq', 'seq % 50', 'seq / 3', '-seq', 'seq % 1000');
	my $by = pick('x.seq = y.seq', 'x.seq / 3 = y.seq / 3', 'x.seq % 997 = y.seq % 1009', 'x.seq = -y.seq');
	my $join = pick('JOIN', 'LEFT JOIN', 'RIGHT JOIN', 'FULL JOIN');
	my ($op, $op2) = map { pick('UNION', 'INTERSECT', 'EXCEPT') . pick('', '', ' ALL') } 1 .. 2;
	my ($part, $not) = (pick('', '% 50', '/ 3'), pick('', '', 'NOT '));
	my $one = pick(@one_sided, $one_sided[0]);
	my ($one_t, $one_o) = map { sprintf $one, $_ } qw(t o);

	# a plan may evaluate a condition for other rows, or in another order
	$where = '' if $where =~ /random/;
	return pick(
		# LIMIT above DISTINCT and groups
		"SELECT DISTINCT $list FROM $a t$where ORDER BY $order$limit",
		"SELECT count(*) FROM (SELECT DISTINCT $list FROM $a t$where LIMIT $k) s",
		"SELECT count(*) FROM (SELECT $list, count(*) FROM $a t$where GROUP BY $list OFFSET $k) s",
		"SELECT DISTINCT ON ($list) t.seq FROM $a t$where ORDER BY $order, t.seq DESC$limit",
		"SELECT $list, count(*), sum(t.seq), max(t.seq) FROM $a t$where GROUP BY $list ORDER BY $order$limit",
		"SELECT $list, count(*), grouping($list) FROM $a t$where GROUP BY " . pick('ROLLUP', 'CUBE')
		  . " ($list) ORDER BY $list, grouping($list)$limit",
		# set operations
		"SELECT $e AS e FROM $a $op SELECT $e FROM $b ORDER BY 1" . limit(50),
		"SELECT e, count(*) FROM (SELECT $e AS e FROM $a $op SELECT $e FROM $b) s GROUP BY e ORDER BY 1",
		"(SELECT $e AS e FROM $a $op SELECT $e FROM $b) $op2 SELECT seq FROM $a ORDER BY 1" . limit(50),
		# joins of whole tables
		"SELECT count(*), sum(x.seq), sum(y.seq * 3) FROM $a x $join $b y ON $by",
		"SELECT x.seq % 7, count(*), sum(y.seq) FROM $a x $join $b y ON $by GROUP BY 1 ORDER BY 1",
		"SELECT x.seq, y.seq FROM $a x $join $b y ON $by ORDER BY 1, 2" . limit(200),
		"SELECT count(*), sum(x.seq) FROM $a x WHERE x.seq $part ${not}IN (SELECT y.seq $part FROM $b y)",
		"SELECT e, n, m FROM (SELECT $e AS e, count(*) AS n FROM $a GROUP BY 1) x $join "
		  . "(SELECT $e AS e, count(*) AS m FROM $b GROUP BY 1) y USING (e) ORDER BY 1",
		# numbered rows
		"SELECT sum(r), count(*) FROM (SELECT " . pick('rank', 'dense_rank', 'row_number')
		  . "() OVER (PARTITION BY $keys[0] ORDER BY t.seq) r FROM $a t$where) s WHERE r <= $k",
		# types of one kind, and a collation in which different strings are equal
		"SELECT x::text, count(*) FROM (SELECT $one_t AS x FROM $a t) s GROUP BY x ORDER BY x::text",
		"SELECT x::text FROM (SELECT DISTINCT $one_t AS x, t.seq % 3 AS m FROM $a t) s ORDER BY x::text, m",
		"SELECT x::text FROM (SELECT $one_t AS x FROM $a t " . pick('UNION', 'INTERSECT', 'EXCEPT')
		  . " SELECT $one_o FROM $b o) s ORDER BY x::text",
		"SELECT count(*), sum(t.seq) FROM $a t $join $b o ON $one_t = $one_o AND t.seq / 3 = o.seq / 3",
		"SELECT lower(x), n FROM (SELECT x, count(*) AS n FROM (SELECT (CASE t.seq % 4 WHEN 0 THEN 'Key ' WHEN 1 THEN "
		  . "'key ' WHEN 2 THEN 'KEY ' END || t.seq % 9) COLLATE loose AS x FROM $a t) s GROUP BY x) s ORDER BY 1, 2",
		"SELECT count(DISTINCT x), count(*) FROM (SELECT ('K' || t.seq % 90) COLLATE loose AS x FROM $a t UNION ALL "
		  . "SELECT ('k' || o.seq % 90) COLLATE loose FROM $b o) s",
		# volatile expressions: all values differ, or all are equal
		"SELECT count(*) FROM (SELECT DISTINCT random(), $list FROM $a t) s",
		"SELECT $list, count(*) FROM $a t GROUP BY $list, random() < 2 ORDER BY $list",
		"SELECT count(*) FROM (SELECT random() AS r FROM $a UNION SELECT 2 + random() FROM $b) s");
}

# Groups and DISTINCTs by two to four columns, most of them of few values, of some 60,000 rows.  They exceed the memory,
# and their keys are wider than the words that are sorted first.
sub wide_groups
{
	my ($t) = @_;
	my $copies = 1 + int(60_000 / ($t->{n} + 1));
	my $few = pick(1, 2, 3, 7, 1000);
	my $many = pick(97, 9973, 100_003, 1_000_003);
	my @cols = shuffle("(i % $few) * " . pick(1, 1_000_000, 3_000_000_000_000_000_000 / ($few > 3 ? 1000 : 1))
		  . "::int8", "i % $few", "i * 7919::int8 % $many", "'prefix of all ' || i % $few", "md5((i % $many)::text)",
		"(i % $many)::numeric / 7", "(i % $few)::float8", "CASE i % 5 WHEN 0 THEN NULL ELSE i % $many END",
		"('2020-01-01'::date + (i % $few)::int)");
	my $n = 2 + int rand 3;
	my @names = map { "c$_" } 1 .. $n;
	my $list = join ', ', @names;
	my $from = "(SELECT " . join(', ', map { "$cols[$_] AS $names[$_]" } 0 .. $n - 1)
	  . ", i % 100 AS d FROM (SELECT t.seq * $copies + g AS i FROM $t->{name} t, generate_series(1, $copies) g) r) w";
	my $hash = "sum(hashtext(concat_ws('|', $list))::int8)";

	# run sizes and the rest are random otherwise
	return ('SET work_mem = ' . pick("'256kB'", "'1MB'", "'1MB'", "'4MB'") . '; RESET gpusort.run_rows; '
		  . 'SET enable_hashagg = ' . pick(qw(on off off)) . ';',
		pick("SELECT count(*), sum(n), $hash FROM (SELECT $list, " . pick('count(DISTINCT d)', 'count(*)', 'sum(d)',
				'count(DISTINCT d) FILTER (WHERE d > 9)') . " AS n FROM $from GROUP BY $list) s;",
			"SELECT count(*), $hash FROM (SELECT DISTINCT $list FROM $from) s;",
			"SELECT count(*), sum(d), $hash FROM (SELECT DISTINCT ON ($list) * FROM $from ORDER BY $list, d"
			  . pick('', ' DESC') . ') s;',
			"SELECT count(DISTINCT ($list)), count(DISTINCT c1), count(DISTINCT c2) FROM $from;",
			"SELECT count(*), $hash FROM (SELECT $list FROM $from " . pick('UNION', 'INTERSECT', 'EXCEPT')
			  . " SELECT $list FROM $from WHERE d < 50) s;",
			"SELECT sum(r), sum(d), $hash FROM (SELECT *, " . pick('rank', 'dense_rank')
			  . "() OVER (PARTITION BY c1 ORDER BY " . join(', ', @names[ 1 .. $n - 1 ]) . ") AS r FROM $from) s;"));
}

# The kinds of cases: name => statements.
my %cases = (
	grouped => sub { my ($t, $o) = @_; (select_grouped($t, $o) . ';') },
	lazy => sub { lazy_query($_[2]) },
	random => sub { random_query($_[2]) },
	plain => sub { my ($t, $o) = @_; (select_sorted($t, $o) . ';') },
	explain => sub {
		my ($t, $o) = @_;
		my $q;
		# a Sort below Unique drops the equal rows
		do { $q = select_sorted($t, $o) } while $q =~ / IN \(SELECT/;
		# the share of each worker varies between runs
		# an Incremental Sort may read a few rows more or less than ours
		# the choice between hash joins and merge joins differs
		('SET max_parallel_workers_per_gather = 0; SET jit = off; SET gpusort.device = off; '
				. 'SET enable_incremental_sort = off; SET gpusort.plan_grouping = off; SET gpusort.merge_joins = off;',
			"EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF) $q;");
	},
	stable => sub {
		my ($t, $o) = @_;
		my $order = join ', ', order_keys($t, 't');
		# the stock Sort is not stable: the caller adds a key that breaks ties
		# an index may not give the order in its place: it knows no order of equal rows
		('SET enable_seqscan = on; SET enable_sort = on; SET enable_indexscan = off; '
				. 'SET max_parallel_workers_per_gather = 0; SET gpusort.min_rows = 0;',
			"SELECT t.* FROM $t->{name} t" . pick('', ' WHERE t.seq % 3 = 1') . " ORDER BY $order/* in order */;");
	},
	keys => sub {
		my ($t) = @_;
		my %used;
		my @order = grep { !/[(%\/+:-]|CASE|NOT|IS/ } order_keys($t, 't');
		@order = ('t.seq') if !@order;
		/^(t\.\w+)/ and $used{$1} = 1 for @order;
		('SELECT ' . join(', ', shuffle(sort keys %used)) . " FROM $t->{name} t ORDER BY " . join(', ', @order)
			. limit($t->{n}) =~ s/FETCH.*//r . ';');
	},
	distinct => sub {
		my ($t, $o) = @_;
		my @order = map { s/ (ASC|DESC|NULLS).*//r } order_keys($t, 't', 1 + int rand 3);
		my %seen;
		@order = grep { !$seen{$_}++ } @order;
		my $list = join ', ', @order;
		(pick("SELECT DISTINCT $list FROM $t->{name} t ORDER BY $list;",
			"SELECT $list, count(*), min(seq), sum(seq) FROM $t->{name} t GROUP BY $list ORDER BY $list;",
				"SELECT DISTINCT ON ($list) t.seq, $list FROM $t->{name} t ORDER BY $list, t.seq DESC;",
				"SELECT count(*) FROM (SELECT DISTINCT $list FROM $t->{name} t" . where($t, $o, 't') . ") s;",
				"SELECT $list, count(*) FROM $t->{name} t GROUP BY GROUPING SETS (($list), ()) ORDER BY $list, "
					. "count(*);",
				"SELECT $list, array_agg(t.seq ORDER BY t.seq DESC) FROM $t->{name} t GROUP BY $list HAVING count(*) "
					. "> 1 ORDER BY $list;"));
	},
	window => sub {
		my ($t, $o) = @_;
		my $part = (order_keys($t, 't', 1))[0] =~ s/ (ASC|DESC|NULLS).*//r;
		my $w = '(' . (chance(0.6) ? "PARTITION BY $part " : '') . 'ORDER BY ' . total_order($t, 't', 1 + int rand 3)
			. frame() . ')';
		my $f = pick('row_number()', 'lag(t.seq, 2)', 'sum(t.seq)', 'first_value(t.seq)', 'nth_value(t.seq, 3)',
			'ntile(4)', 'count(*)', 'last_value(t)');
		("SELECT t.seq, $f OVER $w FROM $t->{name} t" . where($t, $o, 't')
			. pick('', ' ORDER BY t.seq', ' ORDER BY 2, 1') =~ s/^$/ ORDER BY 1/r
			. limit($t->{n}) =~ s/ WITH TIES/ ONLY/r . ';');
	},
	# rows up to a number, and expressions of rows that a WindowAgg projects and drops
	numbered => sub {
		my ($t) = @_;
		my ($p, $o) = map { s/ (ASC|DESC|NULLS).*//r } order_keys($t, 't', 2);
		my ($n, $most, $k) = (pick(map { "$_ OVER w" } 'row_number()', 'rank()', 'count(*)', 'ntile(3)'),
			map { pick(1, 2, 5, 40) } 1 .. 2);
		my $m = pick('rank() OVER w', 'dense_rank() OVER (PARTITION BY p ORDER BY o)', 'count(*) OVER (PARTITION BY p)',
			'count(*) OVER (PARTITION BY p ORDER BY o)', 'row_number() OVER (w ROWS UNBOUNDED PRECEDING)',
			'max(seq) OVER (PARTITION BY p)', 'count(*) OVER (w ROWS UNBOUNDED PRECEDING)',
			'rank() OVER (ORDER BY p, o, seq)');
		my $x = pick("nextval('calls')", "10 / (seq % 60 - $k)", "10 / ($n - $k - 1)", "coalesce($n, -1)", 'seq');
		my $where = pick("n <= $most", "n <= $most", "n <= $most AND m < 30", 'm < 3', "n = $k");

		$p = pick($p, 't.seq % 7', 't.seq / 9');
		('ALTER SEQUENCE calls RESTART;', "SELECT seq, n, m, x FROM (SELECT seq, $n AS n, $m AS m, $x AS x FROM "
			. "(SELECT t.seq, $p AS p, $o AS o FROM $t->{name} t) t WINDOW w AS (PARTITION BY p ORDER BY o, seq)) q "
			. "WHERE $where ORDER BY seq;", 'SELECT last_value FROM calls;');
	},
	joins => sub {
		my ($t, $o) = @_;
		my $j = join_of($t, $o);
		(pick("SELECT x.seq, y.seq FROM $j ORDER BY x.seq, y.seq" . limit(200) . ';',
				"SELECT count(*), sum(x.seq), sum(y.seq), min(x.seq), max(y.seq) FROM $j;",
				"SELECT x, y FROM $j ORDER BY x.seq DESC, y.seq NULLS FIRST LIMIT 300;"));
	},
	semi => sub {
		my ($t, $o) = @_;
		my $not = pick('', 'NOT ');
		my $by = pick('x.seq = t.seq', 'x.seq = t.seq / 2', 'x.seq % 50 = t.seq % 60',
			'x.seq / 3 = t.seq / 3 AND x.seq > 20');
		("SELECT t.seq FROM $t->{name} t WHERE ${not}EXISTS (SELECT 1 FROM $o->{name} x WHERE $by) ORDER BY "
			. total_order($t, 't') . limit($t->{n}) . ';');
	},
	lateral => sub {
		my ($t, $o) = @_;
		my $inner = pick("WHERE x.seq % 7 = t.seq % 7", 'WHERE x.seq > t.seq', '', 'WHERE x.seq <> t.seq');
		my $lim = pick('LIMIT 3', 'LIMIT t.seq % 4', 'LIMIT 2 OFFSET t.seq % 3', 'OFFSET 5 LIMIT 1',
			'LIMIT (SELECT t.seq % 5)', 'LIMIT coalesce(t.seq % 6, 2)');
		# a worker's sort keeps its first bound, as the stock Sort does
		("SET max_parallel_workers_per_gather = 0;",
			"SELECT t.seq, s.* FROM (SELECT * FROM $t->{name} ORDER BY seq LIMIT 60) t " . pick('JOIN', 'LEFT JOIN')
			  . " LATERAL (SELECT x.seq AS y FROM $o->{name} x $inner ORDER BY " . total_order($o, 'x', 2)
			  	. " $lim) s ON true ORDER BY 1, 2;");
	},
	correlated => sub {
		my ($t, $o) = @_;
		my $keys = total_order($o, 'x', 2);
		("SET max_parallel_workers_per_gather = 0;", "SELECT t.seq, "
			. pick("(SELECT x.seq FROM $o->{name} x WHERE x.seq >= t.seq ORDER BY $keys LIMIT 1)",
				"ARRAY(SELECT x.seq FROM $o->{name} x WHERE x.seq % 9 = t.seq % 9 ORDER BY $keys LIMIT 5)",
				"ARRAY(SELECT x.seq FROM $o->{name} x ORDER BY $keys LIMIT 4 OFFSET t.seq % 3)",
				"(SELECT sum(s.seq) FROM (SELECT x.seq FROM $o->{name} x ORDER BY $keys LIMIT t.seq % 8) s)",
				"(SELECT count(*) FROM (SELECT x.seq FROM $o->{name} x ORDER BY $keys OFFSET 2) s)")
			  . " FROM $t->{name} t ORDER BY t.seq LIMIT 40;");
	},
	setops => sub {
		my ($t, $o) = @_;
		my $op = pick('UNION', 'UNION ALL', 'INTERSECT', 'INTERSECT ALL', 'EXCEPT', 'EXCEPT ALL');
		my $e = pick('seq', 'seq % 50', 'seq / 3');
		("SELECT $e AS e FROM $t->{name} $op SELECT $e FROM $o->{name} ORDER BY 1" . limit(50) . ';');
	},
	view => sub { my ($t) = @_; ('SELECT ' . pick('seq, src', 'seq', 'v.*, v') . ' FROM vu v'
		. pick('', ' WHERE seq % 2 = 0') . ' ORDER BY seq' . pick('', ' DESC') . ', src' . limit($t->{n}) . ';') },
	cte => sub {
		my ($t, $o) = @_;
		my $q = select_sorted($t, $o, out => 't.seq', limit => pick('', ' LIMIT 50'));
		(pick("WITH c AS MATERIALIZED ($q) SELECT a.seq, b.seq FROM c a JOIN c b ON a.seq / 2 = b.seq / 2 ORDER BY 1, "
			. "2;",
				"WITH c AS MATERIALIZED ($q) SELECT seq FROM c UNION ALL SELECT -seq FROM c ORDER BY 1;",
				"WITH RECURSIVE r(s, d) AS (SELECT seq::int8, 0 FROM (SELECT seq FROM $t->{name} ORDER BY seq LIMIT "
					. "5) z UNION ALL "
				  . "SELECT y.seq, r.d + 1 FROM r CROSS JOIN LATERAL (SELECT x.seq::int8 FROM $o->{name} x WHERE "
				  . "x.seq > r.s ORDER BY "
				  . total_order($o, 'x', 1) . " LIMIT 2) y WHERE r.d < 4) SELECT * FROM r ORDER BY s, d;"));
	},
	cursor => sub {
		my ($t, $o) = @_;
		my $scroll = chance(0.6);
		my $kind = $scroll ? 'SCROLL' : pick('', 'NO SCROLL', 'NO SCROLL');
		my $q = chance(0.3) ? select_grouped($t, $o) : select_sorted($t, $o);
		my $hold = $kind ne '' && chance(0.2);
		$kind = 'NO SCROLL' if $kind eq '' && chance(0.5);
		my @steps = map { chance(0.25) ? ($_, 'SAVEPOINT s;', fetches($scroll), pick('ROLLBACK TO s;', 'RELEASE s;'))
			: $_ } fetches($scroll);
		('BEGIN;', "DECLARE c $kind CURSOR " . ($hold ? 'WITH HOLD ' : '') . "FOR $q;", @steps,
			(!$hold && chance(0.3) ? ("DELETE FROM $t->{name} WHERE seq % 2 = 0;",
				"UPDATE $t->{name} SET seq = seq WHERE seq % 3 = 0;", fetches($scroll)) : ()),
			$hold ? ('COMMIT;', fetches($scroll), pick('CLOSE c;', 'CLOSE ALL;'))
				: pick('ROLLBACK;', 'CLOSE c; ROLLBACK;', 'COMMIT;') =~ s/COMMIT/ROLLBACK/r);
	},
	prepared => sub {
		my ($t, $o) = @_;
		my $at = int rand $t->{n} + 1;
		my $q = "SELECT t.seq FROM $t->{name} t WHERE t.seq > \$1 ORDER BY " . total_order($t, 't')
			. ' LIMIT $2 OFFSET $3';
		("PREPARE p(int8, int8, int8) AS $q;",
			(map { "EXECUTE p(" . int(rand $t->{n}) . ', ' . pick(0, 1, 3, 'NULL', 50, 2000) . ', ' . pick(0, 2, 'NULL')
			. ');' } 1 .. 3 + int rand 5),
			'EXECUTE p(0, -1, 0);', 'DEALLOCATE p;');
	},
	plpgsql => sub {
		my ($t, $o) = @_;
		my $q = select_sorted($t, $o, out => 't.seq');
		my $exit = pick(0, 1, 3, 49, 50, 51, 100000);
		(<<SQL);
DO \$do\$
DECLARE r record; n int := 0; s int8 := 0;
BEGIN
	FOR r IN $q LOOP
		n := n + 1;
		BEGIN
			s := (s * 31 + r.seq) % 1000000007;
			IF n % 5 = 2 THEN RAISE EXCEPTION 'thrown'; END IF;
		EXCEPTION WHEN raise_exception THEN s := s + 1;
		END;
		EXIT WHEN n > $exit;
	END LOOP;
	RAISE NOTICE 'rows %, sum %', n, s;
END \$do\$;
SQL
	},
	write => sub {
		my ($t, $o) = @_;
		my $q = select_sorted($t, $o, out => 't.seq', limit => pick('', '', ' LIMIT 100'));
		my $name = $t->{name};
		('BEGIN;', pick("CREATE TEMP TABLE made AS $q; SELECT * FROM made;",
				"CREATE TEMP TABLE made (id serial, seq int8); INSERT INTO made (seq) $q RETURNING id, seq; SELECT * "
					. "FROM made ORDER BY id;",
				"UPDATE $name u SET seq = u.seq FROM (SELECT seq FROM $o->{name} ORDER BY seq LIMIT 300) y WHERE "
					. "u.seq = y.seq; SELECT count(*) FROM $name;",
				"DELETE FROM $name WHERE seq IN ($q); SELECT count(*), sum(seq) FROM $name;",
				"INSERT INTO $name (seq) $q; SELECT count(*), sum(seq) FROM $name;",
				"MERGE INTO $name u USING (SELECT DISTINCT seq FROM $o->{name}) s ON u.seq = s.seq WHEN MATCHED AND "
					. "s.seq % 2 = 0 THEN DELETE "
				  . "WHEN MATCHED THEN UPDATE SET seq = u.seq WHEN NOT MATCHED THEN INSERT (seq) VALUES (s.seq); "
				  . "SELECT count(*), sum(seq) FROM $name;",
				"WITH d AS (DELETE FROM $name WHERE seq % 4 = 0 RETURNING *) SELECT seq FROM d ORDER BY seq;"),
					'ROLLBACK;');
	},
	locks => sub {
		my ($t, $o) = @_;
		my $q = 'SELECT t.seq, t FROM ' . $t->{name} . ' t' . where($t, $o, 't') . ' ORDER BY ' . total_order($t, 't')
			. pick('', ' LIMIT 20', ' LIMIT 5 OFFSET 2');
		('BEGIN;', "$q FOR " . pick('UPDATE', 'SHARE', 'NO KEY UPDATE', 'KEY SHARE SKIP LOCKED', 'UPDATE NOWAIT') . ';',
			'ROLLBACK;');
	},
	# a cancel during a statement, a cursor or a block; then the rows are read to the end
	cancel => sub {
		my ($t, $o) = @_;
		my $q;
		# the number of random numbers drawn before the cancel varies
		do { $q = chance(0.4) ? select_grouped($t, $o) : select_sorted($t, $o) } while $q =~ /random/;
		my $set = 'SET LOCAL statement_timeout = ' . pick(1, 1, 2, 3, 5, 10) . ';';

		# the cancel may also hit the statement that resets it, and the next one
		(pick("BEGIN; $set $q \\g /dev/null\n",
				"BEGIN; DECLARE c CURSOR FOR $q; SAVEPOINT s; $set MOVE 3 FROM c; MOVE ALL FROM c; ROLLBACK TO s;",
				"BEGIN; SAVEPOINT s; $set DO \$do\$ DECLARE n int; r record; BEGIN FOR r IN $q LOOP BEGIN "
					. "SELECT count(*) INTO n FROM ($q) s; EXCEPTION WHEN query_canceled THEN EXIT; END; END LOOP; END "
					. "\$do\$; ROLLBACK TO s;"),
			'ROLLBACK; ' x 3, "$q;");
	},
	# a loop whose rows remain after a commit
	commits => sub {
		my ($t, $o) = @_;
		my $q = select_sorted($t, $o, out => 't.seq');
		my ($at, $end) = (pick(1, 2, 60), pick('COMMIT', 'ROLLBACK', 'COMMIT AND CHAIN'));

		"DO \$do\$ DECLARE r record; n int := 0; s int8 := 0; BEGIN FOR r IN $q LOOP n := n + 1; "
			. "s := (s * 31 + r.seq) % 1000000007; IF n % 100 = $at THEN $end; END IF; END LOOP; "
			. "RAISE NOTICE 'rows %, sum %', n, s; END \$do\$;";
	},
	functions => sub {
		my ($t, $o) = @_;
		my $q = select_sorted($t, $o, out => 't.seq::int8');
		my $inner = "SELECT x.seq::int8 FROM $o->{name} x WHERE x.seq % 5 = n % 5 ORDER BY " . total_order($o, 'x', 2)
			. pick('', ' LIMIT n');
		my $as = pick("sql AS 'SELECT * FROM ($inner) s'", "sql STABLE AS '$inner'",
			"plpgsql AS 'BEGIN RETURN QUERY $inner; END'",
			"plpgsql STABLE PARALLEL SAFE AS 'DECLARE r int8; BEGIN FOR r IN $inner LOOP "
			. "RETURN NEXT r; EXIT WHEN r % 17 = 0; END LOOP; END'");

		$as =~ s/'(?=.*')/\$f\$/;
		$as =~ s/'$/\$f\$/;
		('BEGIN;', "CREATE FUNCTION some(n int8) RETURNS SETOF int8 LANGUAGE $as;",
			pick("SELECT * FROM some(7);", "SELECT some(3) LIMIT 4;",
				"SELECT s.seq, x FROM ($q LIMIT 20) s(seq), some(seq) x ORDER BY 1, 2;",
				"SELECT seq, (SELECT sum(x) FROM some(seq) x) FROM ($q) s(seq) LIMIT 30;",
				"SELECT g, some(g) FROM generate_series(1, 9) g;"), 'ROLLBACK;');
	},
	aggregates => sub {
		my ($t, $o) = @_;
		my @k = map { s/ (ASC|DESC|NULLS).*//r } order_keys($t, 't', 3);
		my $order = total_order($t, 't', 2);
		my @agg = shuffle("array_agg(t.seq ORDER BY $order)", "string_agg(t.seq::text, '' ORDER BY $order)",
			"count(DISTINCT $k[1])", "array_agg(DISTINCT $k[2])",
			"percentile_disc(0.4) WITHIN GROUP (ORDER BY t.seq)", "rank(5) WITHIN GROUP (ORDER BY t.seq)",
			"array_agg(t.seq ORDER BY t.seq) FILTER (WHERE t.seq % 2 = 0)");

		"SELECT $k[0], " . join(', ', splice @agg, 0, 1 + int rand 3) . " FROM $t->{name} t" . where($t, $o, 't')
			. " GROUP BY " . pick('', '', 'ROLLUP') . "($k[0]) ORDER BY 1;";
	},
	# rows that a trigger sorts
	changes => sub {
		my ($t, $o) = @_;
		my $name = $t->{name};

		('BEGIN;', "CREATE TABLE seen (id serial, seq int8); CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS "
			. "'BEGIN INSERT INTO seen (seq) SELECT seq FROM changed ORDER BY seq % 10, seq DESC; RETURN NULL; END';",
			"CREATE TABLE copied (seq int8, x text);",
			(map { "CREATE TRIGGER t$_->[0] AFTER $_->[0] ON copied REFERENCING $_->[1] TABLE AS changed FOR EACH "
				. 'STATEMENT EXECUTE FUNCTION see();' } [ 'INSERT', 'NEW' ], [ 'DELETE', 'OLD' ]),
			"INSERT INTO copied SELECT seq, md5(t::text) FROM $name t ORDER BY seq;",
			"DELETE FROM copied WHERE seq % 3 = 0;", 'SELECT seq FROM seen ORDER BY id;', 'ROLLBACK;');
	},
	current => sub {
		my ($t, $o) = @_;

		('BEGIN;', "DECLARE c CURSOR FOR SELECT * FROM $t->{name} t ORDER BY " . total_order($t, 't')
				. pick('', ' FOR UPDATE', ' FOR UPDATE') . ';',
			(map { ('FETCH ' . pick(1, 2, 5) . ' FROM c;', pick("DELETE FROM $t->{name} WHERE CURRENT OF c;",
				"UPDATE $t->{name} SET seq = seq WHERE CURRENT OF c;")) } 1 .. 3),
			'ROLLBACK;');
	},
	copy => sub { my ($t, $o) = @_; ('COPY (' . select_sorted($t, $o) . ') TO STDOUT;') },
	# effects that other sessions and statistics see; not with device faults, which repeat the read, nor with another
	# scan of the table
	traces => sub {
		my ($t, $o) = @_;
		('SET max_parallel_workers_per_gather = 0; SET gpusort.device_fault = none; SET gpusort.plan_grouping = off; '
				. 'SELECT pg_stat_force_next_flush();',
			"BEGIN ISOLATION LEVEL " . pick('SERIALIZABLE', 'REPEATABLE READ') . ';',
			select_sorted($t, $o, limit => '', plain => 1) . ';',
			q(SELECT relname, seq_scan, seq_tup_read, idx_scan, idx_tup_fetch FROM pg_stat_xact_user_tables WHERE
				seq_tup_read > 0 ORDER BY 1;),
			q(SELECT locktype, relation::regclass, page, tuple FROM pg_locks WHERE mode = 'SIReadLock' AND pid =
				pg_backend_pid() ORDER BY locktype, relation, page, tuple;), 'ROLLBACK;');
	},
	# rows that do not come from a table
	sources => sub {
		my ($t, $o) = @_;
		my $n = $t->{n};
		my $from = pick("(SELECT i AS k, i % 7 AS m, i AS seq FROM generate_series(1, $n) i) s",
			"(SELECT seq % 9 AS k, seq, array_append(ARRAY[seq], seq + 1) AS m FROM $t->{name} OFFSET 0) s",
			"(SELECT seq % 9 AS k, seq, array_append(ARRAY[seq], seq + 1) AS m FROM $t->{name}) s",
			"(SELECT count(*) AS k, seq % 50 AS seq, array_agg(seq ORDER BY seq) AS m FROM $t->{name} GROUP BY 2) s",
			"(SELECT x % 3 AS k, x AS seq, y AS m FROM unnest(ARRAY(SELECT seq FROM $t->{name} ORDER BY seq), "
				. "ARRAY[1, 2, NULL]) u(x, y)) s",
			"(SELECT * FROM (VALUES (1, 2, 'a'), (3, 1, 'b'), (1, 1, NULL), (NULL, 9, 'c'), (2, 7, 'd')) v(k, seq, "
				. "m)) s",
			"(SELECT 1 AS k, seq, t AS m FROM $t->{name} t UNION ALL SELECT seq % 2, -seq, NULL FROM $t->{name}) s",
			"(SELECT seq % 5 AS k, seq, md5(seq::text) AS m FROM $t->{name} UNION ALL SELECT seq, -seq, NULL FROM "
				. "$o->{name} WHERE seq % 2 = 0) s",
			"(SELECT seq % 5 AS k, seq, generate_series(1, 3) AS m FROM $t->{name}) s",
			"(SELECT seq % 5 AS k, seq, lag(seq, 2) OVER (ORDER BY seq) AS m FROM $t->{name}) s");
		('SELECT ' . pick('*', 's', 'seq', 'm, seq, m') . " FROM $from WHERE " . pick('true', 'seq % 4 <> 1', 'k > 0')
			. ' ORDER BY k' . pick('', ' DESC', ' NULLS FIRST')
			  . ', seq' . pick('', ' DESC') . ($from =~ /generate_series\(1, 3/ ? ', m' : '') . limit($n) . ';');
	},
	# rows in the order of an index on the first sort columns
	incremental => sub {
		my ($t, $o) = @_;
		my @cols = grep { $_->{key} && $_->{name} ne 'seq' } @{ $t->{cols} };
		my @prefix = map { $_->{name} . pick('', '', ' DESC', ' DESC NULLS LAST', ' NULLS FIRST') }
			splice @{ [ shuffle(@cols) ] }, 0, 1 + int rand 2;
		my $order = join ', ', (map { "t.$_" } @prefix), total_order($t, 't', 1 + int rand 2);
		my $q = 'SELECT ' . outputs($t, $o, 't') . " FROM $t->{name} t" . where($t, $o, 't') . " ORDER BY $order"
			. limit($t->{n});

		('SET client_min_messages = warning; DROP INDEX IF EXISTS in_order; RESET client_min_messages; '
				. "CREATE INDEX in_order ON $t->{name} (" . join(', ', @prefix) . ');',
			'SET enable_sort = ' . pick(qw(on off)) . '; SET enable_seqscan = off; SET enable_bitmapscan = off; '
				. 'SET enable_indexscan = on; SET enable_incremental_sort = on;',
			pick("$q;", "$q;", "BEGIN; DECLARE c " . pick('NO SCROLL', 'SCROLL') . " CURSOR FOR $q; FETCH 3 FROM c; "
					. "FETCH 100 FROM c; MOVE 30 FROM c; FETCH ALL FROM c; ROLLBACK;",
				"SELECT x.seq, s.* FROM (SELECT seq FROM $o->{name} ORDER BY seq LIMIT 20) x, LATERAL (SELECT t.seq "
					. "AS y FROM $t->{name} t WHERE t.seq > x.seq ORDER BY $order LIMIT x.seq % 50) s ORDER BY 1, 2;"));
	},
	# several columns of more rows than work_mem holds
	wide => sub { my ($t) = @_; wide_groups($t) },
	nested => sub {
		my ($t, $o) = @_;
		my $q = select_sorted($t, $o, out => 't.seq', limit => pick(' LIMIT 200', ' OFFSET 3', ' LIMIT 30 OFFSET 30'));
		(pick("SELECT s.seq FROM ($q) s ORDER BY s.seq % 10, s.seq LIMIT 20;",
			"SELECT s.seq, row_number() OVER () FROM ($q) s;",
				"SELECT sum(s.seq), count(*) FROM ($q) s;", "SELECT * FROM ($q) s WHERE s.seq % 2 = 0 LIMIT 10;",
				"SELECT string_agg(s.seq::text, ',') FROM ($q) s;", "SELECT * FROM ($q) a, generate_series(1, 2) g;",
				"SELECT generate_series(1, 2), s.seq FROM ($q) s LIMIT 15;",
					"SELECT * FROM ($q) a FULL JOIN ($q) b USING (seq) ORDER BY 1;"));
	});

# A random case over these tables: its kind and statements.
sub shape_case
{
	my ($tables, $kind) = @_;
	my ($t, $o) = shuffle(@$tables);

	# half of the cases are random queries, and a quarter sorts the rows of a table without a join
	$kind //= pick(sort(keys %cases), ('plain') x 6, ('grouped') x 6, ('random') x 44, ('incremental') x 4,
		('numbered') x 3, 'wide', 'stable', 'cursor');
	return ($kind, $cases{$kind}->($t, $o, [ shuffle(@$tables) ]));
}

1;
