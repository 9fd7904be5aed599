# QuerySettings.pm: random settings that random statements run under.
package QuerySettings;

use strict;
use warnings;

use Exporter 'import';
use GpuSortTest qw(pick);
use ShapeTables qw(chance);

our @EXPORT = qw(shape_settings settings_of);

# The settings of gpusort and of PostgreSQL's planner that a session can change, as pg_settings has them.
sub settings_of
{
	my ($node) = @_;
	my @columns = qw(name vartype boot_val min_val max_val enumvals);

	# a device that is slow or dead has its own tests
	return map { my %setting; @setting{@columns} = split /\|/, $_, -1; \%setting }
	  split /\n/, $node->safe_psql('postgres', <<'SQL');
SELECT name, vartype, boot_val, min_val, max_val, array_to_string(enumvals, ',') FROM pg_settings
WHERE (name LIKE 'gpusort.%' AND context IN ('user', 'superuser') OR category LIKE 'Query Tuning%')
	AND name !~ '^(gpusort\.(enable$|device)|jit|gpusort\.threads)' AND vartype <> 'string' ORDER BY 1
SQL
}

# A value of any setting.
sub some_value
{
	my ($setting) = @_;
	my ($boot, $min, $max) = @{$setting}{qw(boot_val min_val max_val)};
	my $value;

	return pick(qw(on off)) if $setting->{vartype} eq 'bool';
	return pick(split /,/, $setting->{enumvals}) if $setting->{vartype} eq 'enum';
	$value = $boot == 0 ? pick(0, 1, 7, 100, 1000) : $boot * pick(0, 0.1, 1, 10);
	$value = int $value if $setting->{vartype} eq 'integer';
	return $value < $min ? $min : $value > $max ? $max : $value;
}

# SET statements of a case, for the algorithm, memory, threads and joins.  Options: parallel (the probability that plans
# may have workers), faults (faults of a device; one case in five has one), all (settings of settings_of(): one in six
# has any value).
sub shape_settings
{
	my ($algorithms, %opt) = @_;
	my @faults = @{ $opt{faults} // [qw(memory_start memory_sort)] };
	my %any = map { $_->{name} => some_value($_) } grep { chance(1 / 6) } @{ $opt{all} // [] };
	my %set = (
		work_mem => pick(qw(64kB 64kB 200kB 1MB 4MB 64MB)),
		'gpusort.algorithm' => pick('auto', 'auto', @$algorithms),
		'gpusort.threads' => pick(1, 1, 2, 3),
		'gpusort.verify' => pick(qw(on off off)),
		'gpusort.device_fault' => pick(('none') x (4 * @faults), @faults),
		'gpusort.plan_grouping' => pick(qw(on on on off)),
		'gpusort.plan_grouping_min_rows' => pick(0, 0, 0, 10000),
		# its default leaves tiny sides to the stock Sort
		'gpusort.min_rows' => pick(0, 0, map { $_->{boot_val} } grep { $_->{name} eq 'gpusort.min_rows' }
				@{ $opt{all} // [] }),
		'gpusort.windows' => pick(qw(on on on off)),
		'gpusort.aggregates' => pick(qw(on on on off)),
		enable_hashagg => pick(qw(on off off)),
		enable_hashjoin => pick(qw(on off off)),
		enable_nestloop => pick(qw(on off off)),
		enable_material => pick(qw(on off)),
		enable_indexscan => pick(qw(on off)),
		enable_incremental_sort => pick(qw(on off off)),
		plan_cache_mode => pick(qw(auto force_generic_plan force_custom_plan)),
		%any);

	# rows that come in the order of an index, or of a sort below
	@set{qw(enable_seqscan enable_bitmapscan enable_indexscan enable_incremental_sort enable_hashagg enable_hashjoin
		random_page_cost enable_sort)} = (qw(off off on on off off), 0.1, pick(qw(on off))) if $opt{all} && chance(0.3);
	# only gpusort.verify finds every corrupted result
	$set{'gpusort.verify'} = 'on' if $set{'gpusort.device_fault'} =~ /corrupt/;
	# a sort waits a third of a second for each part that lingers on a device
	delete $set{'gpusort.run_rows'} if $set{'gpusort.device_fault'} eq 'linger';
	parallel(\%set) if chance($opt{parallel} // 0.25);
	@set{qw(jit jit_above_cost jit_inline_above_cost jit_optimize_above_cost)} = ('on', 0, pick(0, -1), pick(0, -1))
	  if chance(0.03);
	return ((map { "SET $_ = '$set{$_}';" } sort keys %set), chance(0.06) ? in_worker() : ());
}

# Costs at which all plans that can use workers do.  max_parallel_workers may be too small for all of them, or 0.
# Where a row of a worker costs much, only our plans read rows from workers.
sub parallel
{
	my ($set) = @_;

	@$set{qw(parallel_setup_cost parallel_tuple_cost min_parallel_table_scan_size min_parallel_index_scan_size
		cpu_tuple_cost)} = (pick(0, 0, 100), pick(0, 0, 100), 0, 0, pick(1, 1, 0.1));
	$set->{max_parallel_workers_per_gather} = pick(1, 2, 2, 4);
	$set->{max_parallel_workers} = pick(0, 1, 8, 8, 8);
	$set->{$_} = pick(qw(on on off)) for qw(parallel_leader_participation enable_parallel_append);
	$set->{$_} = pick(qw(on off)) for qw(enable_partitionwise_join enable_partitionwise_aggregate);
}

# Runs the whole plan in a parallel worker.
sub in_worker
{
	return "SELECT set_config(name, '" . pick(qw(on regress)) . "', false) FROM pg_settings WHERE name IN "
		. "('force_parallel_mode', 'debug_parallel_query') \\g /dev/null";
}

1;
