# heap_page.pl: heap_page_take() checks the state of a heap scan before it takes the rows of a page.
#
# forged_page() of the test module (test/module/gpusort_test.c) changes one field of a scan's state, and returns the
# number of rows taken: all rows of the page for a valid state, none for an invalid one.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GpuSortTest;
use Test::More;

my $node = new_node('heap_page');
# the first page has about 60 rows; its third line pointer is unused
$node->safe_psql('postgres', <<'SQL');
CREATE FUNCTION forged_page(regclass, text) RETURNS int AS 'gpusort_test' LANGUAGE C;
CREATE TABLE t AS SELECT i AS id, repeat('x', 100) AS pad FROM generate_series(1, 1000) i;
DELETE FROM t WHERE id = 3;
VACUUM t;
SQL
my $rows = $node->safe_psql('postgres', "SELECT count(*) FROM t WHERE ctid < '(1,0)'");
cmp_ok($rows, '>', 10, 'the first page has rows');
is($node->safe_psql('postgres', "SELECT forged_page('t', 'nothing')"), $rows, 'valid state: all rows are taken');
for my $what ('too many rows', 'no row left', 'behind the last row', 'before the first row', 'at another row',
	'offset 0', 'an offset twice',
	q(offset behind the page's last), 'another page', 'no page', 'another kind of scan', 'row by row', 'scan keys')
{
	(my $quoted = $what) =~ s/'/''/g;
	is($node->safe_psql('postgres', "SELECT forged_page('t', '$quoted')"), 0, "$what: no row is taken");
}
# line pointer 4 of this table is unused; the forged state names it
$node->safe_psql('postgres', "CREATE TABLE gap AS SELECT * FROM t; DELETE FROM gap WHERE ctid = '(0,4)'; VACUUM gap");
is($node->safe_psql('postgres', "SELECT forged_page('gap', 'a line pointer without a row')"), 0,
	'a line pointer without a row: no row is taken');
$node->stop;
done_testing();
