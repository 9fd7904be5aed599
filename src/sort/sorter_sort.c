/*
 * sorter_sort.c
 *	  The staged rows' rids in sorted order: pack, route, run, break ties.
 *
 * Most keys, narrowed, fit one 64-bit word beside their rid; the word is then
 * the whole record.  A key that does not fit is cut to the word first: its
 * leading 36 bits or so tell nearly all rows apart if the keys are anywhere near
 * uniform, and the few equal ones are settled by comparison, which is far
 * cheaper than moving records of twice or three times the size.  If a sample of
 * the words, or a count after the sort, says that too many are equal, the rows
 * are sorted again with their whole key.
 *
 * 10M rows by random(), a float8: the 37 bits that fit leave 7805 of them tied.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "port/pg_bitutils.h"
#include "route/model_store.h"
#include "settings.h"
#include "sort/device_sort.h"
#include "sort/keys_only.h"
#include "sort/sorter.h"
#include "sort/threads.h"
#include "sort/verify.h"

/* A sample of this many cut keys, this many equal pairs: use the whole key. */
#define SAMPLE_SIZE			1024
#define SAMPLE_MAX_EQUAL	16
#define SAMPLE_MIN_ROWS		(SAMPLE_SIZE * 16)

/* More than one row in so many tied after the sort: use the whole key. */
#define TIES_MAX_FRACTION	16

static SortStatus
run_job(Sorter *sorter, const SortKernel *kernel, SortJob *job)
{
	Size		scratch = kernel->scratch_bytes(job);

	bulk_reserve(sorter->bulk, &sorter->scratch, scratch, 0);
	job->scratch = sorter->scratch.ptr;
	sorter_note_memory(sorter, 0);
	return kernel->run(job);
}

/* Is there memory for the scratch that an algorithm wants? */
static bool
scratch_fits(const Sorter *sorter, const SortKernel *kernel, const SortJob *job)
{
	return arena_used(&sorter->arena) + sorter->stage.bytes + sorter->recs.asked +
		kernel->scratch_bytes(job) <= sorter->limit;
}

void *
sorter_run_kernel(Sorter *sorter, size_t n, SortRecFormat format, int begin_bit, int end_bit,
				  uint64 key_range, const KeyOrder *order, bool exact)
{
	RouteFacts *facts = &sorter->report.facts;
	RouteDecision *decision = &sorter->report.decision;
	RouteDevice device = facts->device; /* as device_keys_sort() found it */
	const char *why_not = facts->gpu.why_not;
	SortTeam   *team = sort_threads(n);
	SortJob		job;
	SortStatus	status;

	memset(facts, 0, sizeof(*facts));
	facts->n = n;
	facts->format = format;
	facts->begin_bit = begin_bit;
	facts->end_bit = end_bit;
	facts->rids_ascending = true;
	facts->key_range = key_range;
	facts->order_known = true;
	facts->descents = order->descents;
	facts->ascents = order->ascents;
	facts->inexact = !exact;
	facts->bound = sorter->bound;
	facts->threads = sort_team_size(team);
	facts->device = device;
	facts->gpu.why_not = why_not;
	facts->forced = gpusort_forced_algorithm();
	gpusort_model_refresh(n);
	gpusort_route_sample(facts, sorter->recs.ptr);
	gpusort_route_decide(facts, decision);
	if (decision->algorithm == NULL)
		elog(ERROR, "no algorithm sorts %zu rows at once", n);
	sorter->report.sorted = true;
	sorter->report.key_bits = end_bit - begin_bit;

	gpusort_route_job(facts, &job);
	job.recs = sorter->recs.ptr;
	job.team = team;
	job.interrupted = sort_threads_interrupted;
	job.interrupted_arg = team;

	/* some want more than what rows were counted with; that much is kept for one */
	if (facts->forced == NULL && !scratch_fits(sorter, decision->algorithm->kernel, &job))
		decision->algorithm = &sort_algorithms[ALGORITHM_CPU_RADIX];
	status = run_job(sorter, decision->algorithm->kernel, &job);
	if (status == SORT_NOT_APPLICABLE)
	{
		/* it looked at the records and found them not to be what it needs */
		decision->algorithm = &sort_algorithms[ALGORITHM_CPU_RADIX];
		status = run_job(sorter, decision->algorithm->kernel, &job);
	}
	if (status == SORT_STOPPED)
	{
		CHECK_FOR_INTERRUPTS();
		ereport(ERROR,
				(errcode(ERRCODE_QUERY_CANCELED),
				 errmsg("canceling statement due to user request")));
	}
	if (status != SORT_OK)
		elog(ERROR, "algorithm \"%s\" cannot sort its input", decision->algorithm->name);
	if (gpusort_verify)
		verify_result(sorter, &job, decision->algorithm->name);
	return job.result;
}

static int
compare_words(const void *a, const void *b)
{
	uint64		x = *(const uint64 *) a;
	uint64		y = *(const uint64 *) b;

	return (x > y) - (x < y);
}

/* Do many of these cut keys look equal? */
static bool
sample_has_ties(const uint64 *words, size_t n, int rid_bits)
{
	uint64		sample[SAMPLE_SIZE];
	int			equal = 0;

	if (n < SAMPLE_MIN_ROWS)
		return false;
	for (size_t i = 0; i < SAMPLE_SIZE; i++)
		sample[i] = words[i * (n / SAMPLE_SIZE)] >> rid_bits;
	qsort(sample, SAMPLE_SIZE, sizeof(uint64), compare_words);
	for (int i = 1; i < SAMPLE_SIZE; i++)
		equal += (sample[i] == sample[i - 1]);
	return equal >= SAMPLE_MAX_EQUAL;
}

/*
 * Rids out of sorted records, in place at their front: a rid is at most half a
 * record, so writing never overtakes reading.  Unless exact, the rids of every
 * run of equal keys go to the tie-break.
 */
#define EXTRACT_RIDS(rec_t, rid_of, equal_keys) \
	do { \
		const rec_t *recs = result; \
		rec_t		prev = recs[0]; \
		size_t		start = 0; \
		if (exact) \
		{ \
			for (size_t i = 0; i < n; i++) \
				rids[i] = rid_of(recs[i]); \
			break; \
		} \
		rids[0] = rid_of(prev); \
		for (size_t i = 1; i < n; i++) \
		{ \
			rec_t		rec = recs[i]; \
			rids[i] = rid_of(rec); \
			if (!(equal_keys(rec, prev))) \
			{ \
				if (i - start > 1) \
					queue_ties(sorter, &queue, rids + start, i - start); \
				start = i; \
			} \
			prev = rec; \
		} \
		if (n - start > 1) \
			queue_ties(sorter, &queue, rids + start, n - start); \
		settle_ties(sorter, &queue); \
	} while (0)

/*
 * Ties wait in a queue while their rows are on the way from memory: two rows that
 * nobody has touched since they were stored cost half a microsecond otherwise.
 */
#define TIE_QUEUE_SIZE		32

typedef struct TieQueue
{
	int			n;
	struct
	{
		uint32	   *rids;
		size_t		n;
	}			runs[TIE_QUEUE_SIZE];
} TieQueue;

static void
settle_ties(Sorter *sorter, TieQueue *queue)
{
	CHECK_FOR_INTERRUPTS();
	for (int i = 0; i < queue->n; i++)
	{
		sorter->report.ties += queue->runs[i].n;
		tiebreak_sort(sorter->tiebreak, &sorter->arena, queue->runs[i].rids, queue->runs[i].n);
	}
	queue->n = 0;
}

static void
queue_ties(Sorter *sorter, TieQueue *queue, uint32 *rids, size_t n)
{
	for (size_t i = 0; i < Min(n, 4); i++)
		__builtin_prefetch(arena_at(&sorter->arena, rids[i]));
	queue->runs[queue->n].rids = rids;
	queue->runs[queue->n].n = n;
	if (++queue->n == TIE_QUEUE_SIZE)
		settle_ties(sorter, queue);
}

static void
extract_rids(Sorter *sorter, size_t n, SortRecFormat format, void *result, int rid_bits, bool exact)
{
	uint32	   *rids = result;
	const uint64 rid_mask = (UINT64CONST(1) << rid_bits) - 1;
	TieQueue	queue = {0};

#define WORD_RID(w)			((uint32) ((w) & rid_mask))
#define WORD_EQUAL(a, b)	((((a) ^ (b)) >> rid_bits) == 0)
#define REC_RID(r)			((r).rid)
#define REC64_EQUAL(a, b)	((a).key == (b).key)
#define REC128_EQUAL(a, b)	((a).hi == (b).hi && (a).lo == (b).lo)

	switch (format)
	{
		case SORT_REC_PACKED:
			EXTRACT_RIDS(uint64, WORD_RID, WORD_EQUAL);
			break;
		case SORT_REC_64:
			EXTRACT_RIDS(SortRec64, REC_RID, REC64_EQUAL);
			break;
		case SORT_REC_128:
			EXTRACT_RIDS(SortRec128, REC_RID, REC128_EQUAL);
			break;
	}
	sorter->rids = rids;
	sorter->n = n;

	sorter_free_other(sorter, rids);
}

void
sorter_free_other(Sorter *sorter, const void *result)
{
	if (result == sorter->recs.ptr)
	{
		if (sorter->scratch.mapped)
			bulk_free(sorter->bulk, &sorter->scratch);
	}
	else if (sorter->recs.mapped)
		bulk_free(sorter->bulk, &sorter->recs);
}

static size_t
count_ties(const uint64 *words, size_t n, int rid_bits)
{
	size_t		ties = 0;

	for (size_t i = 1; i < n; i++)
		ties += ((words[i] ^ words[i - 1]) >> rid_bits) == 0;
	return ties;
}

void
sorter_sort_staged(Sorter *sorter)
{
	Stage	   *stage = &sorter->stage;
	size_t		n = stage->n;
	KeyRange	ranges[STAGE_MAX_COLUMNS];
	KeyLayout	layout;
	KeyOrder	order;
	int			rid_bits;
	int			key_bits;
	bool		exact;
	SortRecFormat wide;

	if (sorter->spec.keys_only)
	{
		keys_only_sort(sorter);
		return;
	}

	sorter->rids = NULL;
	sorter->n = 0;
	if (n == 0)
		return;

	key_stage_ranges(stage, ranges);
	key_layout(&layout, stage, ranges);
	if (device_keys_sort(sorter, &layout, key_layout_range(stage, &layout)))
		return;
	arena_trim(&sorter->arena);
	rid_bits = stage->rids[n - 1] == 0 ? 0 :
		1 + pg_leftmost_one_pos32(stage->rids[n - 1]);
	key_bits = Min(layout.total_bits, 64 - rid_bits);
	exact = layout.exact && key_bits == layout.total_bits;

	bulk_reserve(sorter->bulk, &sorter->recs, n * sizeof(uint64), 0);
	pack_words(stage, &layout, key_bits, rid_bits, sorter->recs.ptr, &order);

	if (key_bits == layout.total_bits ||
		!sample_has_ties(sorter->recs.ptr, n, rid_bits))
	{
		uint64		range = key_bits == layout.total_bits ? key_layout_range(stage, &layout) : 0;
		uint64	   *words = sorter_run_kernel(sorter, n, SORT_REC_PACKED, rid_bits,
											  rid_bits + key_bits, range, &order, exact);

		if (key_bits == layout.total_bits ||
			count_ties(words, n, rid_bits) <= n / TIES_MAX_FRACTION)
		{
			extract_rids(sorter, n, SORT_REC_PACKED, words, rid_bits, exact);
			return;
		}
	}

	wide = layout.total_bits <= 64 ? SORT_REC_64 : SORT_REC_128;
	bulk_free(sorter->bulk, &sorter->scratch);
	bulk_reserve(sorter->bulk, &sorter->recs, n * sort_rec_size(wide), 0);
	pack_wide(stage, &layout, wide, sorter->recs.ptr, &order);
	sorter_note_memory(sorter, 0);
	if (sorter->bound == 0 && !gpusort_verify)
		sorter_free_stage(sorter);
	extract_rids(sorter, n, wide,
				 sorter_run_kernel(sorter, n, wide, 0, Min(layout.total_bits, 128), 0,
								   &order, layout.exact),
				 0, layout.exact);
}
