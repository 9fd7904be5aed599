/*
 * sort_cost.c
 *	  Cost model of sorts, for the planner.
 *
 * The kernel's time is the router's prediction.  The other costs of a row are a
 * few constants in nanoseconds; the costs that they are compared with (reading the
 * rows) are not known better.  docs/design/cost-model.md tells what they were
 * fitted to.
 *
 * Plans use a GPU's measured factors, but no factor of the CPU and none that sorts have
 * taught.  Taught factors include the load of the last minute or hour, and a plan should not
 * depend on the load of other sessions.  Factors of the CPU would also not apply to the costs
 * that the result is compared with: a scan or a stock Sort on the same slow CPU.
 */
#include "postgres.h"

#include <math.h>

#include "cost/cost.h"
#include "cost/store.h"
#include "key/key.h"
#include "miscadmin.h"
#include "optimizer/optimizer.h"
#include "parallel/parallel.h"
#include "port/pg_bitutils.h"
#include "service/service.h"
#include "settings.h"
#include "sort/sort.h"

/* Taking a row into a sort and returning it */
#define KEY_NS					3.0 /* reading a row's keys */
#define COMPUTED_KEY_NS			15.0	/* make a key by a function */
#define STORE_NS				5.0 /* storing a row */
#define STORE_BYTE_NS			0.1 /* copying a byte of it to new memory */
#define COMPARE_NS				50.0	/* compare values by the comparator */
#define RETURN_NS				15.0	/* return a row from random memory */
#define RETURN_KEYS_NS			5.0 /* make a row of its keys */

/* Further time per row below a grouping, whose keys are often equal, if the sort does not drop duplicates */
#define UNHELD_NS				70.0	/* the key buffer does not hold all columns */
#define RANGELESS_NS			15.0	/* each whole 64 bits of keys, as of float8
										 * and uuid, whose ranges save no bits */

/* Duplicates that the sort drops */
#define DROP_NS					1.0 /* compare a key with the one before */
#define DROP_COMPARE_NS			15.0	/* compare the values as well, if keys
										 * are inexact */
#define REBUFFER_NS				15.0	/* keep a row for the next batch */
#define DISTINCT_EARLY_SHARE	0.5 /* values per row of a batch that is
									 * sorted early */

/*
 * Memory for sorting a row: record and scratch.  sort_cost() in sort/batch.c counts 8 to 20 bytes more for a row with a
 * key of more than 64 bits, or an inexact one.  To count them here makes plans worse, because spilling costs less than
 * the model has.
 */
#define RECORD_BYTES			20.0	/* of a row, or of a key of up to 64 bits without a row */
#define WIDE_KEY_BYTES			48.0	/* of a wider key without a row */
#define RID_BYTES				4.0 /* row id, unless the rows are their keys */

/* External sort */
#define SPILL_KEYS_NS			25.0	/* further time per row, if the rows
										 * are their keys */
#define SPILL_CACHED_BYTES		(128.0 * 1024 * 1024)	/* runs that stay in the
														 * system's cache */
#define SPILL_CACHED_SHARE		0.5 /* of their time is not needed */
#define SPILL_DISK_BYTES		(1024.0 * 1024 * 1024)	/* runs that the system
														 * may write at once */
#define SPILL_IN_ORDER_BYTE_NS	0.25	/* the byte's time if the runs follow
										 * each other */
#define SPILL_CACHED_RUNS		10	/* runs whose merge stays in the CPU cache */
#define SPILL_DOUBLING_NS		2.0 /* per row and further doubling of runs */

/* Exchange between processes */
/* copying a row to a block and making its key again */
#define WRITE_NS				30.0
#define WRITE_BYTE_NS			0.7 /* a byte of it, in a worker's new memory */
#define MERGE_NS				12.0	/* a row of another process's block */
#define MERGE_BYTE_NS			0.1 /* a byte of it */
#define MERGE_COMPARE_NS		2.0 /* one comparison in the merge */

/* Shared sort: rows in files */
#define SHARE_NS				20.0	/* writing a row, merging it, writing it again */
#define SHARE_BYTE_NS			0.8 /* a byte of it */
#define SHARE_READ_NS			1.0 /* reading a row in one process */
#define SHARE_READ_BYTE_NS		0.1 /* a byte of it */
#define SHARE_FILE_US			100.0	/* files of a process that another one reads */

/* Rows of several processes on a device */
/* copying a row to a chunk and making its key */
#define SEND_NS					20.0
#define SEND_BYTE_NS			0.2 /* a byte of it */
#define STREAM_NS				4.0 /* return a row from the device */
#define STREAM_BYTE_NS			0.12	/* a byte of it */
#define RESOLVE_SENT_NS			16.0	/* compare a row's key with the next */
#define CHECK_GROUP_NS			10.0	/* check key and group of a row
										 * without duplicates */
#define COMPARE_COLUMN_NS		15.0	/* read a column and compare it with the
										 * row before: a merge's keys tell it */
#define DEVICE_SETUP_US			5000.0	/* job's memory, barrier */

/* Upper limit of the row count that the router is asked about */
#define ROUTER_MAX_ROWS			1e15

/* The sort keys of a row. */
typedef struct CostKeys
{
	int			bits;			/* width of a row's normalized key */
	int			rangeless_bits; /* of these, bits that a column's range hardly reduces */

	/*
	 * width of the key of rows that several processes send to a device: all
	 * columns, or those up to the first inexact one, and a word of that; 0:
	 * not possible
	 */
	int			device_bits;
	int			computed;		/* columns whose keys a function computes */
	bool		needs_comparator;	/* values are ordered by the comparator */
	bool		inexact;		/* equal keys may belong to different values */
	bool		unheld;			/* the key buffer does not hold all columns */
} CostKeys;

/* Adds up the sort columns. */
static void
sum_keys(const SortCostFacts *facts, CostKeys *sum)
{
	bool		same = true;	/* columns that device_bits counts */
	bool		all_same = true;

	memset(sum, 0, sizeof(*sum));
	for (int i = 0; i < facts->nkeys; i++)
	{
		KeyKind		kind = facts->keys[i].kind;
		int			word_bits = key_traits[kind].wide ? 64 : 32;

		/* as keybuf_init() */
		sum->unheld |= sum->bits + (key_traits[kind].words - 1) * word_bits >= KEYBUF_MAX_BITS;
		sum->bits += key_traits[kind].words * word_bits;
		if (!key_traits[kind].computed && !key_traits[kind].decodable)
			sum->rangeless_bits += key_traits[kind].words * word_bits;
		if (!sum->inexact)
		{
			sum->device_bits += (key_traits[kind].computed ? 1 : key_traits[kind].words) * word_bits;
			same &= key_traits[kind].same_in_processes;
		}
		all_same &= key_traits[kind].same_in_processes;
		sum->computed += key_traits[kind].computed ? 1 : 0;
		sum->needs_comparator |= key_traits[kind].needs_comparator;
		sum->inexact |= key_traits[kind].computed;
	}
	if (all_same && sum->bits <= 128)
		sum->device_bits = sum->bits;
	else if (!same || sum->device_bits > 128)
		sum->device_bits = 0;
}

/* Bytes of a row's key. */
static double
key_bytes(const CostKeys *keys)
{
	return keys->bits / 8;
}

/* Time to make a row's key. */
static double
key_ns(const CostKeys *keys)
{
	return KEY_NS + keys->computed * COMPUTED_KEY_NS;
}

/* Time to store a row and its key.  cached: in memory that is in use already. */
static double
store_ns(const SortCostFacts *sort, const CostKeys *keys, bool cached)
{
	double		bytes = key_bytes(keys) + (sort->keys_only ? 0 : sort->row_bytes);

	return (sort->keys_only ? 0 : STORE_NS) + (cached ? 0 : bytes * STORE_BYTE_NS);
}

/* Time to return a row. */
static double
return_ns(const SortCostFacts *sort)
{
	return sort->keys_only ? RETURN_KEYS_NS : RETURN_NS;
}

/* Describes a CPU sort of n rows in memory to the router. */
static void
cpu_facts(const SortCostFacts *sort, const CostKeys *keys, double n, int participants, RouteFacts *facts)
{
	double		rids = sort->keys_only ? 0 : Min(n * sort->row_bytes / 8, (double) UINT32_MAX);

	memset(facts, 0, sizeof(*facts));
	/* an estimate may exceed the range of size_t */
	facts->n = (size_t) Min(n, ROUTER_MAX_ROWS);
	facts->format = sort->keys_only && keys->bits > 64 ? SORT_REC_128 : SORT_REC_PACKED;
	facts->begin_bit = sort->keys_only ? 0 : 1 + pg_leftmost_one_pos64((uint64) rids | 1);
	facts->end_bit = Min(facts->begin_bit + keys->bits, facts->format == SORT_REC_128 ? 128 : 64);
	facts->order_known = sort->in_order;
	facts->ascents = sort->in_order ? facts->n - 1 : 0;
	facts->threads = sort_threads_most(participants);
	facts->device = DEVICE_STATE_NONE;
}

/* Expected number of rows that stay of n of the rows, if duplicates are dropped. */
static double
kept_of(const SortCostFacts *facts, double n)
{
	double		all = Max(facts->rows, n);
	double		groups = Min(facts->groups, all);

	return groups < 1 ? n : groups * (1 - pow(1 - n / all, all / groups));
}

/* How a CPU sort in one process divides its rows. */
typedef struct CpuBatches
{
	double		n;				/* number of batches */
	double		rows;			/* rows of a batch, which are sorted at a time */
	double		kept;			/* rows without duplicates, of all rows */
	double		rebuffered;		/* rows that stay in memory for a next batch,
								 * of all batches together */
	double		spilled;		/* rows that are written to runs */
	bool		early;			/* duplicates are dropped while the batch is
								 * in the cache */
} CpuBatches;

/* Memory of a row, its key, and for sorting it. */
static double
sorted_row_bytes(const SortCostFacts *sort, const CostKeys *keys)
{
	if (sort->keys_only)
		return key_bytes(keys) + (keys->bits > 64 ? WIDE_KEY_BYTES : RECORD_BYTES);
	return sort->row_bytes + key_bytes(keys) + RECORD_BYTES + RID_BYTES;
}

/* Bytes that all participants write to runs. */
static double
run_bytes(const SortCostFacts *sort, const CostKeys *keys, double spilled, int participants)
{
	return spilled * (key_bytes(keys) + (sort->keys_only ? 0 : sort->row_bytes)) * Max(participants, 1);
}

/*
 * Divides n of the rows as sort/distinct.c and sort/sorter.c do: a batch has what fits the
 * memory, and becomes a run without its duplicates.  If there are few values, a batch
 * has DISTINCT_EARLY_BYTES, and its remaining rows are the first of the next one.
 */
static void
cpu_batches(const SortCostFacts *sort, const CostKeys *keys, double n, CpuBatches *batches)
{
	double		row_bytes = sorted_row_bytes(sort, keys);
	double		memory = Max(1, work_mem * 1024.0 / row_bytes);
	double		early = Min(memory, DISTINCT_EARLY_BYTES / row_bytes);

	memset(batches, 0, sizeof(*batches));
	batches->kept = kept_of(sort, n);
	batches->early = n > early && batches->kept <= early * DISTINCT_EARLY_SHARE;
	if (batches->early)
	{
		batches->rows = Min(memory, Max(early, DISTINCT_GROWTH * batches->kept));
		batches->n = n / (batches->rows - batches->kept);
		batches->rebuffered = batches->n * batches->kept;
		return;
	}
	batches->rows = Min(n, memory);
	batches->n = n / batches->rows;
	if (n > memory)
		batches->spilled = batches->n * kept_of(sort, batches->rows);
}

/* Time to write and merge the batches' runs, in each participant.  *cached: the part that cached runs do not need. */
static double
spill_ns(const SortCostFacts *sort, const CostKeys *keys, const CpuBatches *batches, int participants,
		 double *cached)
{
	double		bytes = key_bytes(keys) + (sort->keys_only ? 0 : sort->row_bytes);
	double		run_row_ns = RUN_ROW_NS + bytes * RUN_BYTE_NS + (sort->keys_only ? SPILL_KEYS_NS : 0);

	*cached = 0;
	if (sort->in_order)
		return batches->spilled * bytes * SPILL_IN_ORDER_BYTE_NS;
	if (run_bytes(sort, keys, batches->spilled, participants) <= SPILL_CACHED_BYTES)
		*cached = batches->spilled * SPILL_CACHED_SHARE * run_row_ns;
	return batches->spilled * (run_row_ns + SPILL_DOUBLING_NS * Max(0, log2(batches->n / SPILL_CACHED_RUNS)));
}

/* Time to find and drop this number of duplicates. */
static double
drop_ns(const CostKeys *keys, double duplicates)
{
	return duplicates * (DROP_NS + (keys->inexact ? DROP_COMPARE_NS : 0));
}

/* SortCost.group_us of n rows.  Rows whose duplicates are dropped have the same bytes, and keys alone are compared. */
static double
group_us(const SortCostFacts *sort, const CostKeys *keys, double n)
{
	int			words;

	if (sort->keys_only || sort->groups > 0)
		return 0;
	words = Min(keys->rangeless_bits, KEYBUF_MAX_BITS) / 64;
	return n * ((keys->unheld ? UNHELD_NS : 0) + words * RANGELESS_NS) / 1000;
}

/*
 * Cost of sorting n of the rows on the CPU in one process, in these batches.  Returns the
 * kernel's part.
 *
 * With a bound only the keys of most rows are read.  In an unordered input the
 * first rows up to the bound are stored, and then a row with probability
 * bound / i: in all the sum of a harmonic series.
 */
static double
cost_on_cpu(const SortCostFacts *sort, const CostKeys *keys, double n, int participants,
			CpuBatches *batches, SortCost *cost)
{
	RouteFacts	facts;
	RouteDecision decision;
	double		bound = sort->bound;
	bool		bounded = bound > 0 && 2 * bound < n;
	double		stored = bounded ? bound * (1 + log(n / bound)) : n;
	double		kernel_us;
	double		spill;
	double		cached;

	cpu_batches(sort, keys, bounded ? 2 * bound : n, batches);
	spill = spill_ns(sort, keys, batches, participants, &cached);
	cpu_facts(sort, keys, bounded ? stored : batches->rows, participants, &facts);
	gpusort_route_decide(&facts, &decision);
	kernel_us = decision.predicted_us * (bounded ? 1 : batches->n);
	cost->sort_us = kernel_us +
		(n * key_ns(keys) + stored * store_ns(sort, keys, batches->early) + spill / 2 +
		 batches->rebuffered * REBUFFER_NS) / 1000;
	if (keys->needs_comparator)
		cost->sort_us += stored * log2(bounded ? stored : batches->rows) * COMPARE_NS / 1000;
	if (sort->groups > 0)
		cost->sort_us += drop_ns(keys, n - batches->kept) / 1000;
	cost->rows_us = (kept_of(sort, n) * return_ns(sort) + spill / 2) / 1000;
	cost->spills = batches->spilled > 0;
	cost->needs_disk = run_bytes(sort, keys, batches->spilled, participants) > SPILL_DISK_BYTES;
	cost->cached_us = cached / 1000;
	cost->group_us = group_us(sort, keys, n);
	return kernel_us;
}

/*
 * Describes a GPU sort of the keys of n rows to the router; false if there is no GPU.
 * Rows, or their row ids, come back, with the keys if these are compared there.  The
 * device's costs are those of the present, or those for a plan.
 */
static bool
gpu_facts(const SortCostFacts *sort, const CostKeys *keys, double n, bool present, RouteFacts *facts)
{
	DeviceState device = device_state();
	double		kept = kept_of(sort, n);

	if (device != DEVICE_STATE_READY && device != DEVICE_STATE_IDLE)
		return false;
	cpu_facts(sort, keys, n, 0, facts);
	facts->order_known = false;
	facts->ascents = 0;
	facts->device = DEVICE_STATE_READY;
	facts->gpu.key_width = device_key_width(keys->bits);
	facts->gpu.key_bits = Min(keys->bits, 128);
	facts->gpu.keys_back = keys->computed > 0;
	if (sort->groups > 0 && !keys->inexact && kept <= n * GPU_DROP_SHARE)
	{
		facts->gpu.drop = facts->gpu.keys_back = true;
		facts->gpu.rows_back = kept;
	}
	facts->gpu.algorithms = device_algorithms();
	if (present)
		device_learn_facts(facts, NULL, NULL);
	else
		device_plan_facts(facts);
	return true;
}

/* Time that a GPU is expected to save that sorts rows, or their keys alone; 0 if there is none. */
static double
gpu_saves_us(const SortCostFacts *sort, const CostKeys *keys, double n, const CpuBatches *batches,
			 double kernel_us)
{
	RouteFacts	facts;
	GpuRowsFacts gain = {0};

	if (!gpu_facts(sort, keys, n, false, &facts))
		return 0;
	facts.gpu.keys_only = sort->keys_only;
	facts.gpu.keys_back |= sort->keys_only;
	gpu_copy_ns(&facts, &gain.up_ns, &gain.down_ns);
	gain.gpu_sort_us = HUGE_VAL;
	if (gpu_choose(&facts, &gain.gpu_sort_us) == NULL)
		return 0;
	if (sort->keys_only)
		return batches->spilled > 0 ? 0 : Max(0, kernel_us - gain.gpu_sort_us);
	gain.rows = n;
	gain.rows_back = facts.gpu.rows_back;
	gain.run_rows_back = batches->spilled;
	gain.row_bytes = sort->row_bytes;
	gain.key_cost = key_bytes(keys) + RECORD_BYTES + RID_BYTES;
	gain.resolver = keys->computed > 0;
	gain.memory = work_mem * 1024.0;
	gain.cpu_sort_us = kernel_us;
	return Max(0, gpu_rows_gain_us(&gain));
}

void
sort_cost_participant(const SortCostFacts *facts, int participants, SortCost *cost)
{
	CostKeys	keys;
	CpuBatches	batches;

	sum_keys(facts, &keys);
	(void) cost_on_cpu(facts, &keys, Max(facts->rows, 2), participants, &batches, cost);
}

/* Cost if the workers sort and the leader merges, in two levels if there are many workers. */
static void
cost_of_merge(const SortCostFacts *facts, int workers, SortCost *cost)
{
	SortCostFacts share = *facts;
	double		n = Max(facts->rows, 2);
	CostKeys	keys;
	CpuBatches	batches;
	int			participants = exchange_participants(workers, facts->bound);
	bool		two_levels = workers >= EXCHANGE_TWO_LEVEL_WORKERS && participants == workers;
	double		concurrency = sort_abreast(participants);
	double		oversubscription = participants / concurrency;
	double		comparisons = two_levels ? 1 : log2(workers + 1);
	double		row_bytes;
	double		merge_ns = MERGE_NS + comparisons * MERGE_COMPARE_NS;
	double		write_ns = 0;
	bool		all_run = sort_abreast(workers + 1) >= workers + 1;
	double		sent = participants * kept_of(facts, n / participants);

	sum_keys(facts, &keys);
	share.keys_only = facts->keys_only && facts->bound == 0;
	row_bytes = share.keys_only ? key_bytes(&keys) : facts->row_bytes;
	(void) cost_on_cpu(&share, &keys, Max(n / participants, 2), participants, &batches, cost);
	/* keys are sent as a serial sort returns them, and the leader makes the rows */
	if (share.keys_only)
		merge_ns += RETURN_KEYS_NS;
	else
		write_ns = WRITE_NS + row_bytes * WRITE_BYTE_NS + keys.computed * COMPUTED_KEY_NS;
	merge_ns += row_bytes * MERGE_BYTE_NS;
	/* with two levels, rows are merged and copied once more */
	if (two_levels)
		write_ns += MERGE_NS + log2(workers / 2) * MERGE_COMPARE_NS + row_bytes * STORE_BYTE_NS;
	if (keys.needs_comparator)
		merge_ns += comparisons * COMPARE_NS;
	write_ns /= concurrency;
	cost->sort_us *= oversubscription;
	cost->cached_us *= oversubscription;
	cost->group_us *= oversubscription;
	/* with a CPU for each process, workers write while the leader merges */
	cost->rows_us = cost->rows_us * oversubscription +
		sent * (all_run ? Max(write_ns, merge_ns) : write_ns + merge_ns) / 1000;
}

/*
 * Cost if all participants send their rows to a device and the leader returns
 * them; false if that is not possible.  forced: even if participants would drop duplicates
 * that a device leaves.  present: at the device's present costs.
 */
static bool
cost_of_device(const SortCostFacts *facts, int workers, bool forced, bool present, SortCost *cost)
{
	SortCostFacts sent = *facts;
	double		n = Max(facts->rows, 2);
	double		concurrency = sort_abreast(workers + (workers == 0 || parallel_leader_participation ? 1 : 0));
	double		gpu_us = HUGE_VAL;
	double		up_ns;
	double		down_ns;
	double		bus_ns;
	double		row_ns = STREAM_NS + facts->row_bytes * STREAM_BYTE_NS;
	RouteFacts	gpu;
	CostKeys	keys;
	double		back;

	sum_keys(facts, &keys);
	keys.bits = keys.device_bits;
	sent.keys_only = false;
	if (facts->bound > 0 || keys.bits == 0 || !gpu_facts(&sent, &keys, n, present, &gpu))
		return false;
	/* participants drop what a device cannot drop */
	if (workers > 0 && facts->groups > 0 && !gpu.gpu.drop && !forced)
		return false;
	gpu.gpu.keys_back = gpu.gpu.drop;
	back = gpu.gpu.drop ? gpu.gpu.rows_back : n;
	if (gpu_choose(&gpu, &gpu_us) == NULL)
		return false;
	if (keys.inexact)
		row_ns += RESOLVE_SENT_NS;
	if (gpu.gpu.drop)
		row_ns += CHECK_GROUP_NS;
	if (facts->compares)
		row_ns += facts->nkeys * COMPARE_COLUMN_NS;
	gpu_copy_ns(&gpu, &up_ns, &down_ns);
	/* copies overlap with taking and returning rows: the slower one counts */
	bus_ns = facts->row_bytes * up_ns;
	cost->sort_us = DEVICE_SETUP_US + gpu_us +
		n * Max(bus_ns, (key_ns(&keys) + SEND_NS + facts->row_bytes * SEND_BYTE_NS) / concurrency) / 1000;
	cost->rows_us = back * Max(facts->row_bytes * down_ns, row_ns) / 1000;
	cost->spills = cost->needs_disk = false;
	cost->cached_us = 0;
	cost->group_us = group_us(facts, &keys, n) / concurrency;
	return true;
}

/* Time until all rows are returned. */
static double
total_us(const SortCost *cost)
{
	return cost->sort_us + cost->rows_us;
}

/*
 * In a serial sort a GPU saves sorting and spilling, not the time to store and to return
 * rows.  A sort that drops duplicates early has small batches, which stay on the CPU.
 */
void
sort_cost_serial(const SortCostFacts *facts, SortCost *cost)
{
	double		n = Max(facts->rows, 2);
	CostKeys	keys;
	CpuBatches	batches;
	SortCost	device;
	double		kernel_us;
	double		saves;
	double		saves_sort;
	double		least_us;

	sum_keys(facts, &keys);
	kernel_us = cost_on_cpu(facts, &keys, n, 0, &batches, cost);
	if (facts->bound > 0 || batches.early)
		return;
	least_us = n * (key_ns(&keys) + store_ns(facts, &keys, false)) / 1000;
	saves = gpu_saves_us(facts, &keys, n, &batches, kernel_us);
	if (saves > 0)
		cost->cached_us = 0;
	saves_sort = Max(0, Min(saves, cost->sort_us - least_us));
	cost->sort_us -= saves_sort;
	cost->rows_us = Max(cost->rows_us - (saves - saves_sort), batches.kept * return_ns(facts) / 1000);
	if (facts->keys_only && batches.spilled > 0 && cost_of_device(facts, 0, false, false, &device) &&
		total_us(&device) < total_us(cost))
		*cost = device;
}

void
sort_cost_parallel(const SortCostFacts *facts, int workers, SortCost *cost)
{
	SortCost	device;

	cost_of_merge(facts, workers, cost);
	if (cost_of_device(facts, workers, false, false, &device) && total_us(&device) < total_us(cost))
		*cost = device;
}

/*
 * The serial sort on the CPU sorts keys alone; if these fit work_mem, the GPU sorts keys as
 * well.
 */
bool
sort_cost_prefers_device(const SortCostFacts *facts, int workers, bool forced)
{
	SortCost	device;
	SortCost	cpu;

	if (!cost_of_device(facts, workers, forced, true, &device))
		return false;
	if (workers > 0)
		cost_of_merge(facts, workers, &cpu);
	else
	{
		SortCostFacts by_key = *facts;

		by_key.keys_only = true;
		sort_cost_participant(&by_key, 0, &cpu);
		if (!cpu.spills)
			return false;
	}
	ereport(DEBUG1,
			(errmsg_internal("gpusort: the rows are sorted in %.1f ms and returned in %.1f ms, "
							 "with a GPU in %.1f and %.1f ms",
							 cpu.sort_us / 1000, cpu.rows_us / 1000, device.sort_us / 1000,
							 device.rows_us / 1000)));
	return forced || total_us(&device) < total_us(&cpu);
}

double
sort_cost_share_us(double rows, double row_bytes, int processes, bool divided)
{
	double		bytes = sizeof(uint64) + (row_bytes > 0 ? row_bytes + sizeof(RowPlace) : 0);
	double		row_ns = SHARE_NS + SHARE_BYTE_NS * bytes;

	/* divided rows are not written again, but their ranges are read from all files */
	if (!divided)
		row_ns += processes * (SHARE_READ_NS + SHARE_READ_BYTE_NS * bytes);
	return rows * row_ns / 1000 + SHARE_FILE_US * processes * processes;
}
