# symbols.pl: the module exports what the server finds by name, and nothing else.
#
# The server loads all libraries into one space of names.  An exported function of ours could take the place of
# another extension's function of the same name, and the other way round.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GpuSortTest;
use PostgreSQL::Test::Utils;
use Test::More;

# the test module defines functions that have the names of ours (test/module/same_names.c), and is loaded first
my $node = new_node('symbols', preload => 0, conf => <<'CONF');
shared_preload_libraries = 'gpusort_test, gpusort'
gpusort.min_rows = 0
gpusort.index_builds_min_size = 0
CONF

# what the server finds by name: its entry points, those of our workers, and the SQL functions
my @expected = qw(Pg_magic_func _PG_init gpusort_device_supervisor gpusort_index_worker);
for my $function (split /\n/, $node->safe_psql('postgres',
		q(SELECT DISTINCT prosrc FROM pg_proc WHERE probin LIKE '%gpusort')))
{
	push @expected, $function, "pg_finfo_$function";
}
cmp_ok(scalar @expected, '>', 20, 'the extension has functions in C');

my ($library) = glob $node->config_data('--pkglibdir') . '/gpusort.{so,dylib}';
my ($stdout, $stderr) = run_command([ 'nm', '-D', '--defined-only', $library ]);
my @exported = map { /^\S+ \S (\w+)/ ? $1 : () } split /\n/, $stdout;
is_deeply([ sort @exported ], [ sort @expected ], 'exported: what the server finds by name') or diag $stderr;

# a library with the same names
is( $node->safe_psql('postgres', q(SELECT nodes || ' ' || rows || ' ' || result FROM
			check_sort('SELECT i % 7 AS k, repeat(''x'', i % 90) AS t, i FROM generate_series(1, 20000) i
				ORDER BY 1, 2, 3'))),
	'GpuSort 20000 same', 'a sort calls its own functions');
my ($rc, $out, $err) = $node->psql('postgres', <<'SQL');
CREATE TABLE t AS SELECT mix(i) AS k FROM generate_series(1, 20000) i;
SET client_min_messages = debug1;
CREATE INDEX t_k ON t (k);
SQL
is($rc, 0, 'an index build calls its own functions') or diag $err;
like($err, qr/gpusort built index "t_k"/, 'gpusort built the index');

$node->stop;
done_testing();
