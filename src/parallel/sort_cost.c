/*
 * sort_cost.c
 *	  What a sort is expected to take, for the planner.
 *
 * The kernel's part is the router's prediction; what rows cost beside it are constants,
 * in nanoseconds, and few, for what they are compared with (the cost of reading the rows)
 * is known no better.  They come from 10M and 50M rows of 32 bytes and 10M of
 * 110 on the machines of bench/RESULTS.md: the query's time less its scan's and less the
 * kernel's; a participant's and the leader's from profiles of the same sorts with workers.
 * What sorts have taught of the CPU (cpu_learn.h) is not in it: it has the load of the last
 * minute, and a plan shall be the same whoever else sorts; nor is it compared with anything
 * that would have learned the same, a scan or a stock Sort on the same slow processor.
 * What a device costs workers and leader is fitted to whole queries, with six and five workers and a GPU
 * beside 16 processors, less the scan and without EXPLAIN, which counts each row: 50M rows of 40 bytes (640
 * to 710 ms with the scan), 10M of 96 (230); two processors and a stand-in take twice as long to feed a row.
 */
#include "postgres.h"

#include <math.h>

#include "cost/cost.h"
#include "cost/sort_feedback.h"
#include "cost/store.h"
#include "key/key.h"
#include "miscadmin.h"
#include "optimizer/optimizer.h"
#include "parallel/parallel.h"
#include "parallel/sort_cost.h"
#include "port/pg_bitutils.h"
#include "service/service.h"
#include "settings.h"
#include "sort/sort_internal.h"

#define LOOK_NS			3.0		/* a row's keys */
#define IN_NS			5.0		/* a row that comes in, besides */
#define IN_BYTE_NS		0.1		/* a byte of it: copied, to memory that is new */
#define CALL_NS			15.0	/* an image that a function makes */
#define COMPARE_NS		50.0	/* two values that have no image, or one that tells little */
#define OUT_NS			15.0	/* a row that is given out from wherever it lies */
#define SPILL_BYTE_NS	0.9		/* a byte written to a run, read and merged, */
#define FOLLOW_BYTE_NS	0.8		/* ... or read behind the run before */
#define SPILL_RUNS		10		/* so many are merged in the cache; */
#define SPILL_TWICE_NS	25.0	/* a row, for each time that there are twice as many */
#define WRITE_NS		30.0	/* a row copied to a block, and its key made once more */
#define WRITE_BYTE_NS	0.7		/* a byte of it; and a worker's memory is always new */
#define MERGE_NS		12.0	/* a row of a block in the reader's hands, */
#define MERGE_BYTE_NS	0.1		/* ... a byte of it */
#define MERGE_MATCH_NS	2.0		/* ... and each match that it plays */

#define ROWS_MOST		1e15	/* that the router is asked about */

#define PRODUCER_NS			20.0	/* a row copied to a chunk for a device, and its key made */
#define PRODUCER_BYTE_NS	0.2		/* a byte of it */
#define STREAM_NS		4.0		/* a row that came from there and is given out, */
#define STREAM_BYTE_NS	0.12	/* ... and a byte of it */
#define RESOLVE_NS		5.0		/* ... of which it is asked whether its key is that of the next */
#define PRODUCER_US			5000.0	/* for a job's memory, and for one another */

/* What the keys of a row are like. */
typedef struct CostKeys
{
	int			bits;
	int			called;			/* columns whose images a function makes */
	bool		needs_comparator;			/* values are compared */
} CostKeys;

static void
sum_keys(const SortCostFacts *facts, CostKeys *sum)
{
	memset(sum, 0, sizeof(*sum));
	for (int i = 0; i < facts->nkeys; i++)
	{
		KeyKind		kind = facts->keys[i].kind;

		sum->bits += key_words(kind) * (key_wide(kind) ? 64 : 32);
		sum->called += key_computed(kind) ? 1 : 0;
		sum->needs_comparator |= key_needs_comparator(kind);
	}
}

/* A look at a row's keys. */
static double
look_ns(const CostKeys *keys)
{
	return LOOK_NS + keys->called * CALL_NS;
}

/* What a row costs besides that comes in. */
static double
in_ns(const CostKeys *keys, double row_bytes)
{
	return IN_NS + (row_bytes + keys->bits / 8) * IN_BYTE_NS;
}

/* n rows in one process's memory, as the router would have its CPU sort them. */
static void
cpu_facts(const CostKeys *keys, double n, double row_bytes, bool in_order, int participants,
		  RouteFacts *facts)
{
	double		rids = Min(n * row_bytes / 8, (double) UINT32_MAX);

	memset(facts, 0, sizeof(*facts));
	/* an estimate may be of more rows than can be counted */
	facts->n = (size_t) Min(n, ROWS_MOST);
	facts->format = SORT_REC_PACKED;
	facts->begin_bit = 1 + pg_leftmost_one_pos64((uint64) rids | 1);
	facts->end_bit = Min(facts->begin_bit + keys->bits, 64);
	facts->rids_ascending = true;
	facts->order_known = in_order;
	facts->ascents = in_order ? facts->n - 1 : 0;
	facts->threads = sort_threads_most(participants);
	facts->device = DEVICE_STATE_NONE;
}

/* What is written to runs and merged: some memory's worth of bytes. */
static double
spill_ns(double n, double bytes, bool in_order)
{
	double		runs = bytes / (work_mem * 1024.0);

	if (runs <= 1)
		return 0;
	if (in_order)
		return bytes * FOLLOW_BYTE_NS;
	return bytes * SPILL_BYTE_NS + n * SPILL_TWICE_NS * Max(0, log2(runs / SPILL_RUNS));
}

/*
 * n of the rows in one process, on its CPU.  The kernel's part is returned as well.
 *
 * With a bound most rows are only looked at.  In an input without order as many stay,
 * for a while, as are wanted, and then every so many-th: the sum of a harmonic series.
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
	double		stay = bounded ? bound * (1 + log(n / bound)) : n;
	double		kept = bounded ? 2 * bound : n;
	double		spill = spill_ns(kept, kept * (row_bytes + keys->bits / 8), sort->in_order);

	cpu_facts(keys, stay, row_bytes, sort->in_order, participants, &facts);
	gpusort_model_refresh(facts.n);
	gpusort_route_decide(&facts, &decision);
	cost->sort_us = decision.predicted_us +
		(n * look_ns(keys) + stay * in_ns(keys, row_bytes) + spill / 2) / 1000;
	if (keys->needs_comparator)
		cost->sort_us += stay * log2(stay) * COMPARE_NS / 1000;
	cost->rows_us = (n * OUT_NS + spill / 2) / 1000;
	return decision.predicted_us;
}

/* n rows whose keys a GPU would sort; false if there is none. */
static bool
gpu_facts(const CostKeys *keys, double n, double row_bytes, RouteFacts *facts)
{
	DeviceState device = device_state();

	if (device != DEVICE_STATE_READY && device != DEVICE_STATE_IDLE)
		return false;
	cpu_facts(keys, n, row_bytes, false, 0, facts);
	facts->device = DEVICE_STATE_READY;
	facts->gpu.key_width = keys->bits <= 32 ? 32 : keys->bits <= 64 ? 64 : 128;
	facts->gpu.key_bits = Min(keys->bits, 128);
	facts->gpu.keys_back = keys->called > 0;
	facts->gpu.algorithms = device_algorithms();
	device_learn_facts(facts, NULL, NULL);
	return true;
}

/* What a GPU is expected to save of that; 0 if there is none, or nothing. */
static double
gpu_saves_us(const CostKeys *keys, double n, double row_bytes, double kernel_us)
{
	RouteFacts	facts;
	GpuRowsFacts gain = {0};

	if (!gpu_facts(keys, n, row_bytes, &facts))
		return 0;
	gpu_copy_ns(&facts, &gain.up_ns, &gain.down_ns);
	gain.rows = n;
	gain.row_bytes = row_bytes;
	gain.key_cost = keys->bits / 8;
	gain.resolver = keys->called > 0;
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
	least_us = n * (look_ns(&keys) + in_ns(&keys, facts->row_bytes)) / 1000;
	kernel_us = cost_on_cpu(facts, &keys, n, 0, cost);
	if (facts->bound > 0)
		return;
	/* whatever it is that it saves, rows come in and go out; what was spilled comes out, too */
	saves = gpu_saves_us(&keys, n, facts->row_bytes, kernel_us);
	saves_sort = Max(0, Min(saves, cost->sort_us - least_us));
	cost->sort_us -= saves_sort;
	cost->rows_us = Max(cost->rows_us - (saves - saves_sort), n * OUT_NS / 1000);
}

void
sort_cost_beside(const SortCostFacts *facts, int participants, SortCost *cost)
{
	CostKeys	keys;

	sum_keys(facts, &keys);
	(void) cost_on_cpu(facts, &keys, Max(facts->rows, 2), participants, cost);
}

/* Who sorts. */
static int
participants_of(int workers, bool leader)
{
	return workers + (leader && workers < EXCHANGE_MANY ? 1 : 0);
}

double
sort_cost_abreast(int workers, bool leader)
{
	return sort_abreast(participants_of(workers, leader));
}

/* Workers merge what they have sorted, and the leader what they have merged. */
static void
cost_of_merge(const SortCostFacts *facts, int workers, bool leader, SortCost *cost)
{
	double		n = Max(facts->rows, 2);
	CostKeys	keys;
	bool		many = workers >= EXCHANGE_MANY;
	int			participants = participants_of(workers, leader);
	double		abreast = sort_abreast(participants);
	double		cluster = participants / abreast;
	double		matches = many ? 1 : log2(workers + 1);
	double		merge_ns = MERGE_NS + facts->row_bytes * MERGE_BYTE_NS + matches * MERGE_MATCH_NS;
	double		write_ns = WRITE_NS + facts->row_bytes * WRITE_BYTE_NS;
	bool		all_run = sort_abreast(workers + 1) >= workers + 1;

	sum_keys(facts, &keys);
	(void) cost_on_cpu(facts, &keys, Max(n / participants, 2), participants, cost);
	write_ns += keys.called * CALL_NS;
	/* merged and copied twice */
	if (many)
		write_ns += MERGE_NS + log2(workers / 2) * MERGE_MATCH_NS + facts->row_bytes * IN_BYTE_NS;
	if (keys.needs_comparator)
		merge_ns += matches * COMPARE_NS;
	write_ns /= abreast;
	cost->sort_us *= cluster;
	/* where there are processors for all, workers write the next rows while the leader merges these */
	cost->rows_us = cost->rows_us * cluster +
		n * (all_run ? Max(write_ns, merge_ns) : write_ns + merge_ns) / 1000;
}

/* Bits of the key by which rows of several processes go to a device; 0: they do not. */
static int
producer_bits(const SortCostFacts *facts, bool *resolver)
{
	int			bits = 0;

	*resolver = false;
	for (int i = 0; i < facts->nkeys && !*resolver; i++)
	{
		KeyKind		kind = facts->keys[i].kind;

		if (!device_layout_shared(kind))
			return 0;
		*resolver = !key_exact(kind);
		bits += (*resolver ? 1 : key_words(kind)) * (key_wide(kind) ? 64 : 32);
	}
	return bits <= 128 ? bits : 0;
}

/* All send their rows to a device, and the leader gives out what comes back; false if that cannot be. */
static bool
cost_of_producer(const SortCostFacts *facts, int workers, bool leader, SortCost *cost)
{
	double		n = Max(facts->rows, 2);
	double		abreast = sort_abreast(workers + (leader ? 1 : 0));
	double		gpu_us = HUGE_VAL;
	double		up_ns;
	double		down_ns;
	double		bus_ns;
	double		row_ns = STREAM_NS + facts->row_bytes * STREAM_BYTE_NS;
	RouteFacts	gpu;
	CostKeys	keys;
	bool		resolver;

	sum_keys(facts, &keys);
	keys.bits = producer_bits(facts, &resolver);
	if (facts->bound > 0 || keys.bits == 0 || !gpu_facts(&keys, n, facts->row_bytes, &gpu))
		return false;
	gpu.gpu.keys_back = false;
	if (gpu_choose(&gpu, &gpu_us) == NULL)
		return false;
	if (resolver)
		row_ns += RESOLVE_NS;
	gpu_copy_ns(&gpu, &up_ns, &down_ns);
	/* copies go on while rows come in, and while they are given out, but take their time */
	bus_ns = facts->row_bytes * up_ns;
	cost->sort_us = PRODUCER_US + gpu_us +
		n * Max(bus_ns, (look_ns(&keys) + PRODUCER_NS + facts->row_bytes * PRODUCER_BYTE_NS) / abreast) / 1000;
	cost->rows_us = n * Max(facts->row_bytes * down_ns, row_ns) / 1000;
	return true;
}

void
sort_cost_workers(const SortCostFacts *facts, int workers, bool leader, SortCost *cost)
{
	SortCost	partial;

	cost_of_merge(facts, workers, leader, cost);
	if (cost_of_producer(facts, workers, leader, &partial) &&
		partial.sort_us + partial.rows_us < cost->sort_us + cost->rows_us)
		*cost = partial;
}

bool
sort_cost_producers(const SortCostFacts *facts, int workers, bool leader, bool forced)
{
	SortCost	merge;
	SortCost	partial;

	if (!cost_of_producer(facts, workers, leader, &partial))
		return false;
	cost_of_merge(facts, workers, leader, &merge);
	return forced || partial.sort_us + partial.rows_us < merge.sort_us + merge.rows_us;
}
