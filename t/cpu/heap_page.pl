# What is read of a heap scan's insides is checked: if it is not what it should be, no
# row is taken off the page.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GpuSortTest;
use Test::More;

my $node = new_node('heap_page');
# its first page: 60 rows or so, the third line pointer unused
$node->safe_psql('postgres', <<'SQL');
CREATE FUNCTION forged_page(regclass, text) RETURNS int AS 'gpusort_test' LANGUAGE C;
CREATE TABLE t AS SELECT i AS id, repeat('x', 100) AS pad FROM generate_series(1, 1000) i;
DELETE FROM t WHERE id = 3;
VACUUM t;
SQL
my $rows = $node->safe_psql('postgres', "SELECT count(*) FROM t WHERE ctid < '(1,0)'");
cmp_ok($rows, '>', 10, 'rows of a page');
is($node->safe_psql('postgres', "SELECT forged_page('t', 'nothing')"), $rows, 'all are taken');
for my $what ('too many rows', 'no row left', 'behind the last row', 'before the first row', 'at another row',
	'offset 0', 'an offset twice',
	q(offset behind the page's last), 'another page', 'no page', 'another kind of scan', 'row by row', 'scan keys')
{
	(my $quoted = $what) =~ s/'/''/g;
	is($node->safe_psql('postgres', "SELECT forged_page('t', '$quoted')"), 0, "none: $what");
}
# rows 1, 2, 4, 5: the one at 4 is told to be at 3
$node->safe_psql('postgres', "CREATE TABLE gap AS SELECT * FROM t; DELETE FROM gap WHERE ctid = '(0,4)'; VACUUM gap");
is($node->safe_psql('postgres', "SELECT forged_page('gap', 'a line pointer without a row')"), 0,
	'none: a line pointer without a row');
$node->stop;
done_testing();
