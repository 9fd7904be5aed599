# Files of new indexes reach the disk: at the next checkpoint, which is told to flush them, or within the build if a
# checkpoint has begun meanwhile.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GpuSortTest;
use IndexBuilds;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = index_node('index_sync',
	conf => "fsync = on\nwal_level = replica\nlog_checkpoints = on\nlog_min_messages = debug1\n");
make_phase_gate($node);
gate_make($node);
$node->safe_psql('postgres', <<'SQL');
CREATE TABLE t AS SELECT i AS id, i * 7919 % 10007 AS k FROM generate_series(1, 20000) i;
CREATE UNLOGGED TABLE u AS SELECT * FROM t;
VACUUM ANALYZE;
CHECKPOINT;
SQL

# Does a checkpoint flush the file of an index?
sub flushed_by_checkpoint
{
	my ($index) = @_;
	my $path = $node->safe_psql('postgres', "SELECT pg_relation_filepath('$index')");
	my $log = -s $node->logfile;

	$node->safe_psql('postgres', 'CHECKPOINT');
	return scalar(slurp_file($node->logfile, $log) =~ /checkpoint sync: number=\d+ file=\Q$path\E /);
}

all_built($node, 'a logged index', 'CREATE INDEX s1 ON t (k)', 's1');
ok(flushed_by_checkpoint('s1'), 'the next checkpoint flushes a logged index');
ok(!flushed_by_checkpoint('s1'), 'the one after it does not');
all_built($node, 'an unlogged index', 'CREATE INDEX s2 ON u (k)', 's2');
ok(flushed_by_checkpoint('s2'), 'the next checkpoint flushes an unlogged index');

# a checkpoint while pages are laid out
my $session = new_session($node);
$session->query('SET client_min_messages = debug1');
$node->safe_psql('postgres', "INSERT INTO phase_gate VALUES ('loading', 1)");
gate_shut();
begin_query($session, 'CREATE UNIQUE INDEX s3 ON t (id gated_ops)');
gate_reached($node, 'loading');
$node->safe_psql('postgres', 'CHECKPOINT');
gate_open();
$session->query('SELECT 1');
like($session->{stderr}, qr/gpusort built index "s3": route/, 'built by gpusort');
ok(!flushed_by_checkpoint('s3'), 'a build flushes its index if a checkpoint has begun meanwhile');

# a larger file gets its space in advance; unused space is released
$node->safe_psql('postgres',
	'CREATE UNLOGGED TABLE wide AS SELECT repeat(md5(i::text), 8) AS s FROM generate_series(1, 40000) i');
all_built($node, 'an index of more than 8 MB', 'CREATE INDEX s4 ON wide (s)', 's4');
$node->safe_psql('postgres', 'CHECKPOINT');
my $file = $node->data_dir . '/' . $node->safe_psql('postgres', "SELECT pg_relation_filepath('s4')");
my ($size, $space) = ((stat $file)[7], (stat $file)[12] * 512);
cmp_ok($size, '>', 10 * 1024 * 1024, 'its size');
cmp_ok($space, '<', $size + 1024 * 1024, 'it has no more space than it needs');

$node->stop('immediate');
$node->start;
is($node->safe_psql('postgres', "SELECT check_indexes('t')"), '2', 'after the crash: amcheck');

# a server that does not store pages as they are builds its indexes by itself: here the page that a build tries is
# written with another byte
{
	local $ENV{LD_PRELOAD} = $node->config_data('--pkglibdir') . '/gpusort_server_calls.so';
	local $ENV{CHANGED_BYTE} = 0x5A;

	$node->restart;
}
my $left = 'stock: the server does not write pages as they are';
is(routes_of($node, 'CREATE INDEX s5 ON t (k, id); CREATE UNIQUE INDEX CONCURRENTLY s6 ON t (id); REINDEX INDEX s5'),
	"s5 $left, s6 $left, s5 $left", 'pages are stored in another form: left to PostgreSQL');
is($node->safe_psql('postgres', "SELECT check_indexes('t')"), '4', 'pages are stored in another form: amcheck');
$node->restart;
is(routes_of($node, 'REINDEX INDEX s5'), 's5 compact', 'pages are stored as they are');
$node->stop;
done_testing();
