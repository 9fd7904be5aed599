/*
 * sort_cost.c
 *	  Cost model of sorts, for the planner.
 *
 * The kernel's time is the router's prediction.  The other costs of a row are a
 * few constants in nanoseconds; the costs that they are compared with (reading the
 * rows) are not known better.  docs/design/cost-model.md tells what they were
 * fitted to.
 *
 * Correction factors of the CPU (cost/store.c) are not used here.  They include
 * the load of the last minute, and a plan should not depend on the load of other
 * sessions.  They would also not apply to the costs that the result is compared
 * with: a scan or a stock Sort on the same slow CPU.
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

/* External sort */
#define SPILL_BYTE_NS			0.9 /* write a byte to a run, read, merge */
#define SPILL_IN_ORDER_BYTE_NS	0.8 /* the same if the runs follow each other */
#define SPILL_CACHED_RUNS		10	/* runs whose merge stays in the CPU cache */
#define SPILL_DOUBLING_NS		8.0 /* per row and further doubling of runs */

/* Exchange between processes */
/* copying a row to a block and making its key again */
#define WRITE_NS				30.0
#define WRITE_BYTE_NS			0.7 /* a byte of it, in a worker's new memory */
#define MERGE_NS				12.0	/* a row of another process's block */
#define MERGE_BYTE_NS			0.1 /* a byte of it */
#define MERGE_COMPARE_NS		2.0 /* one comparison in the merge */

/* Rows of several processes on a device */
/* copying a row to a chunk and making its key */
#define SEND_NS					20.0
#define SEND_BYTE_NS			0.2 /* a byte of it */
#define STREAM_NS				4.0 /* return a row from the device */
#define STREAM_BYTE_NS			0.12	/* a byte of it */
#define RESOLVE_NS				5.0 /* compare a row's key with the next */
#define DEVICE_SETUP_US			5000.0	/* job's memory, barrier */

/* Upper limit of the row count that the router is asked about */
#define ROUTER_MAX_ROWS			1e15

/* The sort keys of a row. */
typedef struct CostKeys
{
	int			bits;			/* width of a row's normalized key */
	int			computed;		/* columns whose keys a function computes */
	bool		needs_comparator;	/* values are ordered by the comparator */
} CostKeys;

/* Adds up the sort columns. */
static void
sum_keys(const SortCostFacts *facts, CostKeys *sum)
{
	memset(sum, 0, sizeof(*sum));
	for (int i = 0; i < facts->nkeys; i++)
	{
		KeyKind		kind = facts->keys[i].kind;

		sum->bits += key_traits[kind].words * (key_traits[kind].wide ? 64 : 32);
		sum->computed += key_traits[kind].computed ? 1 : 0;
		sum->needs_comparator |= key_traits[kind].needs_comparator;
	}
}

/* Time to make a row's key. */
static double
key_ns(const CostKeys *keys)
{
	return KEY_NS + keys->computed * COMPUTED_KEY_NS;
}

/* Time to store a row and its key. */
static double
store_ns(const CostKeys *keys, double row_bytes)
{
	return STORE_NS + (row_bytes + keys->bits / 8) * STORE_BYTE_NS;
}

/* Describes a CPU sort of n rows in memory to the router. */
static void
cpu_facts(const CostKeys *keys, double n, double row_bytes, bool in_order, int participants,
		  RouteFacts *facts)
{
	double		rids = Min(n * row_bytes / 8, (double) UINT32_MAX);

	memset(facts, 0, sizeof(*facts));
	/* an estimate may exceed the range of size_t */
	facts->n = (size_t) Min(n, ROUTER_MAX_ROWS);
	facts->format = SORT_REC_PACKED;
	facts->begin_bit = 1 + pg_leftmost_one_pos64((uint64) rids | 1);
	facts->end_bit = Min(facts->begin_bit + keys->bits, 64);
	facts->rids_ascending = true;
	facts->order_known = in_order;
	facts->ascents = in_order ? facts->n - 1 : 0;
	facts->threads = sort_threads_most(participants);
	facts->device = DEVICE_STATE_NONE;
}

/* Time for runs of work_mem each, written and merged; 0 if the rows fit. */
static double
spill_ns(double n, double bytes, bool in_order)
{
	double		runs = bytes / (work_mem * 1024.0);

	if (runs <= 1)
		return 0;
	if (in_order)
		return bytes * SPILL_IN_ORDER_BYTE_NS;
	return bytes * SPILL_BYTE_NS + n * SPILL_DOUBLING_NS * Max(0, log2(runs / SPILL_CACHED_RUNS));
}

/* Expected number of rows that stay of n of the rows, if duplicates are dropped. */
static double
kept_of(const SortCostFacts *facts, double n)
{
	double		all = Max(facts->rows, n);
	double		groups = Min(facts->groups, all);

	return groups < 1 ? n : groups * (1 - pow(1 - n / all, all / groups));
}

/*
 * Cost of sorting n of the rows on the CPU in one process.  Returns the kernel's
 * part.
 *
 * With a bound only the keys of most rows are read.  In an unordered input the
 * first rows up to the bound are stored, and then a row with probability
 * bound / i: in all the sum of a harmonic series.
 */
static double
cost_on_cpu(const SortCostFacts *sort, const CostKeys *keys, double n, int participants,
			SortCost *cost)
{
	RouteFacts	facts;
	RouteDecision decision;
	double		row_bytes = sort->row_bytes;
	double		bound = sort->bound;
	bool		bounded = bound > 0 && 2 * bound < n;
	double		stored = bounded ? bound * (1 + log(n / bound)) : n;
	double		kept = bounded ? 2 * bound : n;
	double		spill = spill_ns(kept, kept * (row_bytes + keys->bits / 8), sort->in_order);

	cpu_facts(keys, stored, row_bytes, sort->in_order, participants, &facts);
	gpusort_model_refresh(facts.n);
	gpusort_route_decide(&facts, &decision);
	cost->sort_us = decision.predicted_us +
		(n * key_ns(keys) + stored * store_ns(keys, row_bytes) + spill / 2) / 1000;
	if (keys->needs_comparator)
		cost->sort_us += stored * log2(stored) * COMPARE_NS / 1000;
	cost->rows_us = (kept_of(sort, n) * RETURN_NS + spill / 2) / 1000;
	return decision.predicted_us;
}

/* Describes a GPU sort of n rows' keys to the router; false if there is no GPU. */
static bool
gpu_facts(const CostKeys *keys, double n, double row_bytes, RouteFacts *facts)
{
	DeviceState device = device_state();

	if (device != DEVICE_STATE_READY && device != DEVICE_STATE_IDLE)
		return false;
	cpu_facts(keys, n, row_bytes, false, 0, facts);
	facts->device = DEVICE_STATE_READY;
	facts->gpu.key_width = device_key_width(keys->bits);
	facts->gpu.key_bits = Min(keys->bits, 128);
	facts->gpu.keys_back = keys->computed > 0;
	facts->gpu.algorithms = device_algorithms();
	device_learn_facts(facts, NULL, NULL);
	return true;
}

/*
 * Time that a GPU is expected to save; 0 if there is none.  by_key: the CPU sorts keys
 * without rows.
 */
static double
gpu_saves_us(const CostKeys *keys, double n, double row_bytes, double kernel_us, bool by_key)
{
	RouteFacts	facts;
	GpuRowsFacts gain = {0};

	if (!gpu_facts(keys, n, row_bytes, &facts))
		return 0;
	gpu_copy_ns(&facts, &gain.up_ns, &gain.down_ns);
	gain.rows = n;
	gain.row_bytes = row_bytes;
	gain.key_cost = keys->bits / 8;
	gain.resolver = keys->computed > 0;
	/* keys come back from memory in order */
	gain.ordered = by_key;
	gain.memory = work_mem * 1024.0;
	gain.cpu_sort_us = kernel_us;
	gain.gpu_sort_us = HUGE_VAL;
	if (gpu_choose(&facts, &gain.gpu_sort_us) == NULL)
		return 0;
	return Max(0, gpu_rows_gain_us(&gain));
}

void
sort_cost_serial(const SortCostFacts *facts, SortCost *cost)
{
	double		n = Max(facts->rows, 2);
	CostKeys	keys;
	double		kernel_us;
	double		saves;
	double		saves_sort;
	double		least_us;

	sum_keys(facts, &keys);
	least_us = n * (key_ns(&keys) + store_ns(&keys, facts->row_bytes)) / 1000;
	kernel_us = cost_on_cpu(facts, &keys, n, 0, cost);
	if (facts->bound > 0)
		return;

	/* a GPU saves sorting and spilling, not the time to store and to return rows */
	saves = gpu_saves_us(&keys, n, facts->row_bytes, kernel_us, false);
	saves_sort = Max(0, Min(saves, cost->sort_us - least_us));
	cost->sort_us -= saves_sort;
	cost->rows_us = Max(cost->rows_us - (saves - saves_sort), n * RETURN_NS / 1000);
}

void
sort_cost_participant(const SortCostFacts *facts, int participants, SortCost *cost)
{
	CostKeys	keys;

	sum_keys(facts, &keys);
	(void) cost_on_cpu(facts, &keys, Max(facts->rows, 2), participants, cost);
}

/* Number of participants that sort rows. */
static int
sorting_participants(int workers, bool leader)
{
	return workers + (leader && workers < EXCHANGE_TWO_LEVEL_WORKERS ? 1 : 0);
}

double
sort_cost_concurrency(int workers, bool leader)
{
	return sort_abreast(sorting_participants(workers, leader));
}

/* Cost if the workers sort and the leader merges, in two levels if there are many workers. */
static void
cost_of_merge(const SortCostFacts *facts, int workers, bool leader, SortCost *cost)
{
	double		n = Max(facts->rows, 2);
	CostKeys	keys;
	bool		two_levels = workers >= EXCHANGE_TWO_LEVEL_WORKERS;
	int			participants = sorting_participants(workers, leader);
	double		concurrency = sort_abreast(participants);
	double		oversubscription = participants / concurrency;
	double		comparisons = two_levels ? 1 : log2(workers + 1);
	double		merge_ns = MERGE_NS + facts->row_bytes * MERGE_BYTE_NS + comparisons * MERGE_COMPARE_NS;
	double		write_ns = WRITE_NS + facts->row_bytes * WRITE_BYTE_NS;
	bool		all_run = sort_abreast(workers + 1) >= workers + 1;
	double		sent = participants * kept_of(facts, n / participants);

	sum_keys(facts, &keys);
	(void) cost_on_cpu(facts, &keys, Max(n / participants, 2), participants, cost);
	write_ns += keys.computed * COMPUTED_KEY_NS;
	/* with two levels, rows are merged and copied once more */
	if (two_levels)
		write_ns += MERGE_NS + log2(workers / 2) * MERGE_COMPARE_NS + facts->row_bytes * STORE_BYTE_NS;
	if (keys.needs_comparator)
		merge_ns += comparisons * COMPARE_NS;
	write_ns /= concurrency;
	cost->sort_us *= oversubscription;
	/* with a CPU for each process, workers write while the leader merges */
	cost->rows_us = cost->rows_us * oversubscription +
		sent * (all_run ? Max(write_ns, merge_ns) : write_ns + merge_ns) / 1000;
}

/* Width of the key of rows that several processes send to a device; 0: not possible. */
static int
device_key_bits(const SortCostFacts *facts, bool *resolver)
{
	int			bits = 0;

	*resolver = false;
	for (int i = 0; i < facts->nkeys && !*resolver; i++)
	{
		KeyKind		kind = facts->keys[i].kind;

		if (!key_traits[kind].same_in_processes)
			return 0;
		*resolver = !key_traits[kind].exact;
		bits += (*resolver ? 1 : key_traits[kind].words) * (key_traits[kind].wide ? 64 : 32);
	}
	return bits <= 128 ? bits : 0;
}

/*
 * Cost if all participants send their rows to a device and the leader returns
 * them; false if that is not possible.
 */
static bool
cost_of_device(const SortCostFacts *facts, int workers, bool leader, SortCost *cost)
{
	double		n = Max(facts->rows, 2);
	double		concurrency = sort_abreast(workers + (leader ? 1 : 0));
	double		gpu_us = HUGE_VAL;
	double		up_ns;
	double		down_ns;
	double		bus_ns;
	double		row_ns = STREAM_NS + facts->row_bytes * STREAM_BYTE_NS;
	RouteFacts	gpu;
	CostKeys	keys;
	double		back = kept_of(facts, n);
	bool		resolver;

	sum_keys(facts, &keys);
	keys.bits = device_key_bits(facts, &resolver);
	if (facts->bound > 0 || keys.bits == 0 || !gpu_facts(&keys, n, facts->row_bytes, &gpu))
		return false;
	gpu.gpu.keys_back = gpu.gpu.drop = facts->groups > 0;
	gpu.gpu.rows_back = back;
	if (gpu_choose(&gpu, &gpu_us) == NULL)
		return false;
	if (resolver)
		row_ns += RESOLVE_NS;
	gpu_copy_ns(&gpu, &up_ns, &down_ns);
	/* copies overlap with taking and returning rows: the slower one counts */
	bus_ns = facts->row_bytes * up_ns;
	cost->sort_us = DEVICE_SETUP_US + gpu_us +
		n * Max(bus_ns, (key_ns(&keys) + SEND_NS + facts->row_bytes * SEND_BYTE_NS) / concurrency) / 1000;
	cost->rows_us = back * Max(facts->row_bytes * down_ns, row_ns) / 1000;
	return true;
}

void
sort_cost_parallel(const SortCostFacts *facts, int workers, bool leader, SortCost *cost)
{
	SortCost	device;

	cost_of_merge(facts, workers, leader, cost);
	if (cost_of_device(facts, workers, leader, &device) &&
		device.sort_us + device.rows_us < cost->sort_us + cost->rows_us)
		*cost = device;
}

/*
 * Is it better that participants drop duplicates?  A device drops them by exact keys only,
 * and participants drop those of few values while they are in the cache.
 */
static bool
participants_drop_better(const SortCostFacts *facts)
{
	bool		resolver;
	int			bits = device_key_bits(facts, &resolver);

	return facts->groups > 0 &&
		(resolver || facts->groups * (facts->row_bytes + bits / 8) < DISTINCT_EARLY_BYTES / DISTINCT_GROWTH);
}

/* Do the keys of a serial sort exceed work_mem, and would a GPU save time that has their rows? */
static bool
rows_suit_gpu(const SortCostFacts *facts)
{
	double		n = Max(facts->rows, 2);
	CostKeys	keys;
	SortCost	cost;

	sum_keys(facts, &keys);
	/* a key takes its record and the kernel's scratch, too */
	if (kept_of(facts, n) * (keys.bits / 8 + 2 * sizeof(uint64)) <= work_mem * 1024.0)
		return false;
	return gpu_saves_us(&keys, n, facts->row_bytes, cost_on_cpu(facts, &keys, n, 0, &cost), true) > 0;
}

bool
sort_cost_prefers_device(const SortCostFacts *facts, int workers, bool leader, bool forced)
{
	SortCost	merge;
	SortCost	device;

	if (workers == 0)
		return rows_suit_gpu(facts);
	if (!cost_of_device(facts, workers, leader, &device) ||
		(!forced && participants_drop_better(facts)))
		return false;
	cost_of_merge(facts, workers, leader, &merge);
	return forced || device.sort_us + device.rows_us < merge.sort_us + merge.rows_us;
}
