/*
 * memory_sort.c
 *	  Sorts one batch in memory: packs keys, chooses and runs a kernel, resolves ties.
 *
 * Most narrowed keys fit a 64-bit packed record together with their row id.  A longer key is
 * truncated to the packed record first.  Its leading bits distinguish nearly all rows
 * unless the keys are skewed.  The few ties are resolved by comparison, which is much
 * cheaper than moving records of two or three times the size.  If a sample of the packed
 * records, or a count after the sort, shows many ties, the rows are sorted again with
 * their whole keys.
 *
 * A batch whose input was presorted needs no kernel.
 *
 * Memory policy: records and scratch lie in env->recs and env->scratch.  The batch counts
 * them for each row (Batch.sort_cost).  One of them is freed after the sort.  The other one
 * has the result: row ids, and behind them Sorted.equal.
 */
#include "postgres.h"

#include "cost/cost.h"
#include "cost/store.h"
#include "kernel/rec.h"
#include "miscadmin.h"
#include "settings.h"
#include "sort/sort_internal.h"

/*
 * Use the whole key if a sample of SAMPLE_SIZE truncated keys has SAMPLE_MAX_EQUAL equal
 * pairs.  Smaller inputs than SAMPLE_MIN_ROWS are not sampled.
 */
#define SAMPLE_SIZE			1024
#define SAMPLE_MAX_EQUAL	16
#define SAMPLE_MIN_ROWS		(SAMPLE_SIZE * 16)

/* Use the whole key if more than 1/TIES_MAX_FRACTION of the rows are tied. */
#define TIES_MAX_FRACTION	16

/* The records in env->recs that a kernel is to sort. */
typedef struct Records
{
	size_t		n;
	SortRecFormat format;
	int			begin_bit;		/* key bits [begin_bit, end_bit) */
	int			end_bit;
	uint64		key_range;		/* largest key less the smallest; 0: not known */
	KeyOrder	order;			/* ascents and descents of the input */
	bool		exact;			/* equal keys mean equal rows */
	const KeyLayout *layout;
} Records;

/* ------------------------------------------------------------------------
 * Running a kernel
 * ------------------------------------------------------------------------
 */

/* *took_us: the time by the clock; 0 if the clock is not read. */
static SortStatus
run_algorithm(SortEnv *env, const Batch *batch, const Algorithm *algorithm, double predicted_us,
			  SortProblem *problem, double *took_us)
{
	const SortKernel *kernel = algorithm->kernel;
	Size		scratch = kernel->scratch_bytes(problem);
	instr_time	start;
	instr_time	end;
	SortStatus	status;

	env->progress.now->algorithm = algorithm->id;
	bulk_reserve(env->bulk, &env->scratch, scratch, 0);
	problem->scratch = env->scratch.ptr;
	sort_env_note_memory(env, batch_held(batch));
	sort_env_clock(env, &start);
	status = kernel->run(problem);
	sort_env_clock(env, &end);
	if (predicted_us > 0)
		INSTR_TIME_ACCUM_DIFF(env->report.predicted_time, end, start);
	INSTR_TIME_SUBTRACT(end, start);
	*took_us = INSTR_TIME_GET_MICROSEC(end);
	return status;
}

/* Does the scratch of the kernel fit the sort's memory? */
static bool
scratch_fits(const SortEnv *env, const Batch *batch, const SortKernel *kernel,
			 const SortProblem *problem)
{
	return batch_held(batch) + env->recs.requested + kernel->scratch_bytes(problem) <= env->limit;
}

/*
 * Chooses a kernel and sorts the records.  Returns the sorted records.  refusal: why the
 * sort was not offloaded.
 */
static void *
run_kernel(SortEnv *env, Batch *batch, const Records *records, const OffloadRefusal *refusal)
{
	size_t		n = records->n;
	SortTeam   *team = sort_threads(n, env->spec.participants);
	RouteFacts	facts = {0};
	RouteDecision decision;
	SortProblem problem;
	SortStatus	status;
	double		took_us;

	facts.n = n;
	facts.format = records->format;
	facts.begin_bit = records->begin_bit;
	facts.end_bit = records->end_bit;
	facts.key_range = records->key_range;
	facts.order_known = true;
	facts.descents = records->order.descents;
	facts.ascents = records->order.ascents;
	facts.inexact = !records->exact;
	facts.bound = env->bound;
	facts.threads = sort_team_size(team);
	facts.device = refusal->device;
	facts.gpu.why_not = refusal->why_not;
	facts.forced = gpusort_forced_algorithm();
	device_learn_cpu_facts(&facts);
	gpusort_route_sample(&facts, env->recs.ptr);
	gpusort_route_decide(&facts, &decision);
	gpusort_route_problem(&facts, &problem);
	problem.recs = env->recs.ptr;
	problem.team = team;
	problem.interrupted = sort_threads_interrupted;
	problem.interrupted_arg = team;

	/*
	 * rows were counted with scratch for the radix sort; some kernels need
	 * more
	 */
	if (facts.forced == NULL && !scratch_fits(env, batch, decision.algorithm->kernel, &problem))
		decision.algorithm = &sort_algorithms[ALGORITHM_CPU_RADIX];
	if (env->timed)
		env->report.predicted_us += decision.predicted_us;
	status = run_algorithm(env, batch, decision.algorithm, decision.predicted_us, &problem, &took_us);
	if (status == SORT_NOT_APPLICABLE)
	{
		/* the kernel examined the records and cannot sort them */
		decision.algorithm = &sort_algorithms[ALGORITHM_CPU_RADIX];
		status = run_algorithm(env, batch, decision.algorithm, decision.predicted_us, &problem,
							   &took_us);
	}
	sort_threads_ended(status, decision.algorithm->name);
	device_learn_cpu_sort(&facts, decision.algorithm, took_us);
	if (gpusort_verify)
		verify_problem(batch, records->layout, &problem, decision.algorithm->name);

	env->report.facts = facts;
	env->report.decision = decision;
	env->report.sorted = true;
	env->report.key_bits = records->end_bit - records->begin_bit;
	return problem.result;
}

/* ------------------------------------------------------------------------
 * Ties
 * ------------------------------------------------------------------------
 */

/* Are many truncated keys of a sample equal? */
static bool
sample_has_ties(const uint64 *words, size_t n, int rid_bits)
{
	uint64		sample[SAMPLE_SIZE];
	int			equal = 0;

	if (n < SAMPLE_MIN_ROWS)
		return false;
	for (size_t i = 0; i < SAMPLE_SIZE; i++)
		sample[i] = words[i * (n / SAMPLE_SIZE)] >> rid_bits;
	qsort(sample, SAMPLE_SIZE, sizeof(uint64), compare_uint64);
	for (int i = 1; i < SAMPLE_SIZE; i++)
		equal += (sample[i] == sample[i - 1]);
	return equal >= SAMPLE_MAX_EQUAL;
}

/*
 * Extracts the row ids of n sorted records in place, at the front of the array.  A row id
 * takes at most half a record, so writing never overtakes reading.  Returns the number of row
 * ids.  distinct: keys that are equal in the bits of mask are those of duplicates.  exact keys
 * tell which rows are equal: duplicates are left out.  Otherwise adds the positions of possible
 * duplicates to the set, and finds the groups of equal keys.  The loop is compiled for each
 * format, distinct and exact.
 */
static pg_attribute_always_inline size_t
extract(void *recs, SortRecFormat format, int rid_bits, size_t n, bool distinct, bool exact, Key128 mask,
		uint64 *set, TieGroups *groups)
{
	uint32	   *rids = recs;
	uint32		rid;
	Key128		prev = sort_rec_get(recs, format, rid_bits, 0, &rid);
	size_t		kept = 1;

	rids[0] = rid;
	for (size_t i = 1; i < n; i++)
	{
		Key128		key = sort_rec_get(recs, format, rid_bits, i, &rid);
		bool		same = distinct && ((key ^ prev) & mask) == 0;

		rids[kept] = rid;
		kept += !(exact && same);
		if (!exact && same)
			position_set_add(set, i);
		if (!exact && key == prev)
			tie_groups_equal(groups, i);
		prev = key;
	}
	return kept;
}

static pg_attribute_always_inline size_t
extract_format(void *recs, SortRecFormat format, int rid_bits, size_t n, bool distinct, bool exact, Key128 mask,
			   uint64 *set, TieGroups *groups)
{
	if (distinct)
		return exact ? extract(recs, format, rid_bits, n, true, true, mask, NULL, NULL) :
			extract(recs, format, rid_bits, n, true, false, mask, set, groups);
	return exact ? extract(recs, format, rid_bits, n, false, true, 0, NULL, NULL) :
		extract(recs, format, rid_bits, n, false, false, 0, NULL, groups);
}

/* Recs or scratch, whichever does not have the result. */
static BulkBuf *
other_buffer(SortEnv *env, const void *result)
{
	return result == env->recs.ptr ? &env->scratch : &env->recs;
}

static void
free_other(SortEnv *env, const void *result)
{
	if (other_buffer(env, result)->mapped)
		bulk_free(env->bulk, other_buffer(env, result));
}

/* Compares each of n sorted records with the one before; format is a constant. */
static pg_attribute_always_inline void
compare_format(const void *recs, SortRecFormat format, int rid_bits, size_t n, const EqualColumnsTable table,
			   EqualColumns *equal)
{
	uint32		rid;
	Key128		prev = sort_rec_get(recs, format, rid_bits, 0, &rid);

	equal[0] = 0;
	for (size_t i = 1; i < n; i++)
	{
		Key128		key = sort_rec_get(recs, format, rid_bits, i, &rid);

		equal[i] = table[highest_bit(key ^ prev)];
		prev = key;
	}
}

/* Puts Sorted.equal of the sorted records into the buffer that does not have them. */
static pg_noinline EqualColumns *
compare_neighbours(SortEnv *env, const Batch *batch, const Records *records, const void *recs)
{
	int			rid_bits = records->begin_bit;
	BulkBuf    *buf = other_buffer(env, recs);
	EqualColumnsTable table;

	bulk_reserve(env->bulk, buf, records->n * sizeof(EqualColumns), 0);
	sort_env_note_memory(env, batch_held(batch));
	equal_columns_table(table, env->spec.keys, env->spec.nkeys, records->layout, records->end_bit - rid_bits);
	if (records->format == SORT_REC_PACKED)
		compare_format(recs, SORT_REC_PACKED, rid_bits, records->n, table, buf->ptr);
	else if (records->format == SORT_REC_64)
		compare_format(recs, SORT_REC_64, 0, records->n, table, buf->ptr);
	else
		compare_format(recs, SORT_REC_128, 0, records->n, table, buf->ptr);
	return buf->ptr;
}

/* Sets the result from sorted records: their row ids, with ties resolved, without duplicates if these are dropped. */
static void
take_result(SortEnv *env, const Batch *batch, const Records *records, void *result, int flags, Sorted *sorted)
{
	EqualColumns *equal = NULL;
	size_t		n = records->n;
	int			rid_bits = records->begin_bit;
	bool		distinct = env->drop_duplicates;
	/* equal rows are found among ties */
	bool		exact = records->exact && env->spec.on_equal == NULL;
	DistinctTest test = {0};
	Key128		mask = 0;
	uint64	   *set = NULL;
	TieGroups	groups;

	if ((flags & ORDER_COMPARE) != 0 && !distinct)
		equal = compare_neighbours(env, batch, records, result);
	if (distinct)
	{
		test = distinct_test(env->distinct_cols, records->layout, records->end_bit - rid_bits);
		mask = distinct_mask(test.cut);
		/* keys that are exact in all columns are so in the distinct ones */
		Assert(!exact || test.exact);
		if (!exact)
			set = MemoryContextAllocExtended(env->cxt, position_set_bytes(n), MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	}
	tiebreak_on_equal(env->tiebreak, env->spec.on_equal, env->spec.on_equal_arg);
	tie_groups_begin(&groups, env->tiebreak, &batch->arena, result);
	if (records->format == SORT_REC_PACKED)
		n = extract_format(result, SORT_REC_PACKED, rid_bits, n, distinct, exact, mask, set, &groups);
	else if (records->format == SORT_REC_64)
		n = extract_format(result, SORT_REC_64, 0, n, distinct, exact, mask, set, &groups);
	else
		n = extract_format(result, SORT_REC_128, 0, n, distinct, exact, mask, set, &groups);
	env->report.ties += tie_groups_end(&groups);
	/* merges have other rows */
	tiebreak_on_equal(env->tiebreak, NULL, NULL);
	if (set != NULL)
	{
		n = distinct_rids(env, &batch->arena, result, n, set, test.exact);
		pfree(set);
	}
	env->report.dropped_in_batches += records->n - n;
	sorted->rids = result;
	sorted->n = n;
	/* resolving ties has moved rows among equal keys only; a row id takes less than half a record */
	if (equal != NULL)
		sorted->equal = memcpy((uint32 *) result + n, equal, n * sizeof(EqualColumns));
	free_other(env, result);
}

static size_t
count_ties(const uint64 *words, size_t n, int rid_bits)
{
	size_t		ties = 0;

	for (size_t i = 1; i < n; i++)
		ties += ((words[i] ^ words[i - 1]) >> rid_bits) == 0;
	return ties;
}

/* ------------------------------------------------------------------------
 * Sorting on the CPU
 * ------------------------------------------------------------------------
 */

/* Is there room for records of whole keys?  Unless the batch economizes, sort_cost() has counted them. */
static bool
whole_keys_fit(const SortEnv *env, const Batch *batch, const KeyLayout *layout)
{
	Size		recs = batch->keybuf.n * sort_rec_size(layout->total_bits <= 64 ? SORT_REC_64 : SORT_REC_128);

	return batch->freed_cost == 0 ||
		arena_used(&batch->arena) + Max(batch->keybuf.bytes + recs, 2 * recs) <= env->limit;
}

/* Sorts rows by packed records, or by whole keys if those have many ties. */
static void
order_rows(SortEnv *env, Batch *batch, const KeyLayout *layout, const OffloadRefusal *refusal, int flags,
		   Sorted *sorted)
{
	KeyBuffer  *keybuf = &batch->keybuf;
	size_t		n = keybuf->n;
	int			rid_bits = keybuf_rid_bits(keybuf);
	int			key_bits = Min(layout->total_bits, 64 - rid_bits);
	bool		whole = (key_bits == layout->total_bits);
	bool		economizes = batch->freed_cost > 0 && !gpusort_verify;
	KeyLayout	quantized;
	Records		records = {0};
	void	   *result;

	arena_trim(&batch->arena, env->bulk);
	records.n = n;
	records.layout = whole || !quantized_layout(&quantized, layout, keybuf, key_bits) ? layout : &quantized;
	records.format = SORT_REC_PACKED;
	records.begin_bit = rid_bits;
	records.end_bit = rid_bits + key_bits;
	records.key_range = whole ? key_layout_range(keybuf, layout) : 0;
	records.exact = layout->exact && whole;
	bulk_reserve(env->bulk, &env->recs, n * sizeof(uint64), 0);
	pack_records(keybuf, records.layout, SORT_REC_PACKED, key_bits, rid_bits, env->recs.ptr, &records.order);
	if (gpusort_verify)
		verify_input_order(keybuf, &records.order);
	if (whole || !sample_has_ties(env->recs.ptr, n, rid_bits) || !whole_keys_fit(env, batch, layout))
	{
		/* no room for keys in addition to scratch: ties are left to the rows */
		if (economizes)
		{
			sort_env_note_memory(env, batch_held(batch));
			batch_free_keys(batch, env->bulk);
		}
		result = run_kernel(env, batch, &records, refusal);
		if (whole || economizes || count_ties(result, n, rid_bits) <= n / TIES_MAX_FRACTION)
		{
			take_result(env, batch, &records, result, flags, sorted);
			return;
		}
	}

	records.layout = layout;
	records.format = layout->total_bits <= 64 ? SORT_REC_64 : SORT_REC_128;
	records.begin_bit = 0;
	records.end_bit = Min(layout->total_bits, 128);
	records.key_range = 0;
	records.exact = layout->exact;
	bulk_free(env->bulk, &env->scratch);
	bulk_reserve(env->bulk, &env->recs, n * sort_rec_size(records.format), 0);
	pack_records(keybuf, layout, records.format, 0, 0, env->recs.ptr, &records.order);
	sort_env_note_memory(env, batch_held(batch));
	if ((flags & ORDER_KEEP_KEYS) == 0 && !gpusort_verify)
		batch_free_keys(batch, env->bulk);
	result = run_kernel(env, batch, &records, refusal);
	take_result(env, batch, &records, result, flags, sorted);
}

/* Calls on_equal for keys i and j. */
static void
found_equal_keys(const SortEnv *env, KeyReader *reader, size_t i, size_t j, size_t n)
{
	TidRow		rows[2];
	size_t		keys[2] = {i, j};

	for (int k = 0; k < 2; k++)
	{
		if (!key_reader_has(reader, keys[k]))
			key_reader_decode(reader, keys[k], n);
		key_reader_tid_row(reader, env->writer, keys[k], &rows[k]);
	}
	env->spec.on_equal(env->spec.on_equal_arg, &rows[0].row, &rows[1].row);
}

/* Calls on_equal for sorted keys with TIDs, of a constant format. */
static pg_attribute_always_inline void
find_equal_format(const SortEnv *env, KeyReader *reader, const Sorted *sorted, SortRecFormat format)
{
	const void *recs = sorted->keys;
	int			rid_bits = sorted->rid_bits;
	uint32		rid;
	Key128		prev = sort_rec_get(recs, format, rid_bits, 0, &rid);
	size_t		start = 0;		/* of the equal keys; rows before are dead */
	bool		called = false; /* for these keys */
	int			calls = 0;

	for (size_t i = 1; i < sorted->n; i++)
	{
		Key128		key = sort_rec_get(recs, format, rid_bits, i, &rid);

		if (likely(key != prev))
		{
			prev = key;
			start = i;
			called = false;
			continue;
		}
		if (called || (rid & TID_RID_DEAD) != 0)
			continue;
		for (; start < i; start++)
		{
			(void) sort_rec_get(recs, format, rid_bits, start, &rid);
			if ((rid & TID_RID_DEAD) == 0)
				break;
		}
		if (start == i)
			continue;
		found_equal_keys(env, reader, start, i, sorted->n);
		if (++calls == EQUAL_ROWS_MAX)
			break;
		called = true;
	}
}

static void
find_equal_keys(SortEnv *env, const KeyBuffer *keybuf, const Sorted *sorted)
{
	KeyReader	reader;

	key_reader_begin(&reader, env, keybuf, sorted);
	if (sorted->format == SORT_REC_PACKED)
		find_equal_format(env, &reader, sorted, SORT_REC_PACKED);
	else if (sorted->format == SORT_REC_64)
		find_equal_format(env, &reader, sorted, SORT_REC_64);
	else
		find_equal_format(env, &reader, sorted, SORT_REC_128);
}

/* Sorts keys without rows. */
static void
order_keys(SortEnv *env, Batch *batch, const KeyLayout *layout, const OffloadRefusal *refusal,
		   Sorted *sorted)
{
	KeyBuffer  *keybuf = &batch->keybuf;
	int			rid_bits = keybuf->keys_only ? 0 : keybuf_rid_bits(keybuf);
	Records		records = {0};

	records.n = keybuf->n;
	records.layout = layout;
	records.format = layout->total_bits + rid_bits <= 64 ? SORT_REC_PACKED :
		layout->total_bits <= 64 ? SORT_REC_64 : SORT_REC_128;
	records.begin_bit = records.format == SORT_REC_PACKED ? rid_bits : 0;
	records.end_bit = records.begin_bit + layout->total_bits;
	records.key_range = key_layout_range(keybuf, layout);
	records.exact = true;
	bulk_reserve(env->bulk, &env->recs, records.n * sort_rec_size(records.format), 0);
	pack_records(keybuf, layout, records.format, layout->total_bits, rid_bits, env->recs.ptr, &records.order);
	/* sort_cost() counts records and scratch, but not the keys of TIDs */
	if (!keybuf->keys_only && !gpusort_verify)
	{
		sort_env_note_memory(env, batch_held(batch));
		batch_free_keys(batch, env->bulk);
	}
	sorted->keys = run_kernel(env, batch, &records, refusal);
	sorted->format = records.format;
	sorted->rid_bits = rid_bits;
	sorted->layout = *layout;
	sorted->n = records.n;
	free_other(env, sorted->keys);
	if (env->spec.on_equal != NULL)
		find_equal_keys(env, keybuf, sorted);
}

/* ------------------------------------------------------------------------
 * Presorted input
 * ------------------------------------------------------------------------
 */

/* Sets what EXPLAIN and statistics show. */
static void
report_presorted(SortEnv *env, const KeyBuffer *keybuf)
{
	KeyRange	ranges[KEY_MAX_COLUMNS];
	KeyLayout	layout;
	RouteFacts	facts = {0};
	bool		up = (keybuf->input_order.possible & INPUT_ASCENDING) != 0;

	keybuf_ranges(keybuf, ranges);
	key_layout(&layout, keybuf, ranges);
	facts.n = keybuf->n;
	facts.format = layout.total_bits > 64 ? SORT_REC_128 : SORT_REC_64;
	facts.end_bit = Min(layout.total_bits, 128);
	facts.order_known = true;
	facts.descents = up ? 0 : keybuf->n - 1;
	facts.ascents = up && keybuf->input_order.varied ? keybuf->n - 1 : 0;
	facts.inexact = !layout.exact;
	facts.bound = env->bound;
	facts.device = env->device_failed ? DEVICE_STATE_FAILED : sort_offload->state();
	env->progress.now->algorithm = ALGORITHM_PRESORTED;
	env->report.facts = facts;
	memset(&env->report.decision, 0, sizeof(env->report.decision));
	env->report.decision.algorithm = &sort_algorithms[ALGORITHM_PRESORTED];
	env->report.sorted = true;
	env->report.key_bits = facts.end_bit;
}

/*
 * As order_batch(), for input that was presorted ascending or strictly descending: the
 * result is the buffered row ids, or these in reverse.  False if the input was not
 * presorted or an algorithm was set.  A sort of keys without rows needs packed keys for
 * its result and is not handled here.
 */
static bool
presorted_batch(SortEnv *env, Batch *batch, Sorted *sorted)
{
	KeyBuffer  *keybuf = &batch->keybuf;
	size_t		n = keybuf->n;
	uint32	   *rids;
	TieGroups	groups;

	input_order_check(keybuf);
	if (keybuf->input_order.possible == 0 || env->spec.keys_only || gpusort_verify ||
		gpusort_forced_algorithm() != NULL)
		return false;
	arena_trim(&batch->arena, env->bulk);
	bulk_reserve(env->bulk, &env->recs, n * sizeof(uint32), 0);
	sort_env_note_memory(env, batch_held(batch));
	rids = env->recs.ptr;
	if (keybuf->input_order.possible & INPUT_ASCENDING)
		memcpy(rids, keybuf->rids, n * sizeof(uint32));
	else
	{
		for (size_t i = 0; i < n; i++)
			rids[i] = keybuf->rids[n - 1 - i];
	}
	report_presorted(env, keybuf);
	if (env->spec.on_equal != NULL)
	{
		tiebreak_on_equal(env->tiebreak, env->spec.on_equal, env->spec.on_equal_arg);
		tie_groups_begin(&groups, env->tiebreak, &batch->arena, rids);
		for (size_t i = 1; i < n; i++)
		{
			if (same_normkeys(keybuf, keybuf->ncols, i, i - 1))
				tie_groups_equal(&groups, i);
		}
		(void) tie_groups_end(&groups);
		tiebreak_on_equal(env->tiebreak, NULL, NULL);
	}
	sorted->rids = rids;
	sorted->n = n;
	if (env->drop_duplicates)
	{
		sorted->n = distinct_presorted(env, batch, (keybuf->input_order.possible & INPUT_ASCENDING) == 0, rids);
		env->report.dropped_in_batches += n - sorted->n;
	}
	return true;
}

/* ------------------------------------------------------------------------
 * Entry points
 * ------------------------------------------------------------------------
 */
void
order_batch(SortEnv *env, Batch *batch, int flags, Sorted *sorted)
{
	KeyBuffer  *keybuf = &batch->keybuf;
	KeyRange	ranges[KEY_MAX_COLUMNS];
	KeyLayout	layout;
	OffloadRefusal refusal = {0};
	bool		too_few = keybuf->n == 1 ||
		((flags & ORDER_PART) != 0 && keybuf->n < ROUTE_TINY_ROWS);
	bool		on_host = too_few ||
		((flags & ORDER_IN_CACHE) != 0 && !env->spec.keys_only && gpusort_forced_algorithm() == NULL);

	sorted->n = 0;
	sorted->rids = NULL;
	sorted->equal = NULL;
	sorted->keys = NULL;
	sorted->duplicates = false;
	if (keybuf->n == 0)
		return;

	progress_phase(&env->progress, PROGRESS_SORT);
	if (presorted_batch(env, batch, sorted))
		return;
	keybuf_ranges(keybuf, ranges);
	key_layout(&layout, keybuf, ranges);
	/* narrow the keys to fit a packed record */
	if (!env->spec.keys_only)
		key_layout_narrow(&layout, keybuf, &env->byte_dictionary, env->cxt, 64 - keybuf_rid_bits(keybuf));
	refusal.device = env->device_failed ? DEVICE_STATE_FAILED : sort_offload->state();
	if (too_few)
		refusal.why_not = keybuf->n == 1 ? "one row needs no sort" : "its batches have few rows";
	if ((refusal.device == DEVICE_STATE_READY || refusal.device == DEVICE_STATE_IDLE) &&
		!on_host && sort_offload->sort_keys(env, batch, &layout, sorted, &refusal))
		;						/* sorted by a device */
	else if (env->spec.keys_only)
		order_keys(env, batch, &layout, &refusal, sorted);
	else
		order_rows(env, batch, &layout, &refusal, flags, sorted);
	if (env->spec.keys_only && env->drop_duplicates)
	{
		size_t		n = sorted->n;

		sorted->n = distinct_keys(env, &sorted->layout, sorted->format, unconstify(void *, sorted->keys), n);
		env->report.dropped_in_batches += n - sorted->n;
		sorted->duplicates = false;
	}
}

/* Buffers sorted keys again, which have no rows. */
static void
keep_keys(SortEnv *env, Batch *batch, const Sorted *sorted)
{
	KeyBuffer  *keybuf = &batch->keybuf;
	int			natts = env->spec.desc->natts;
	Datum	   *values = palloc(natts * sizeof(Datum));
	bool	   *isnull = palloc(natts * sizeof(bool));
	KeyReader	reader;

	key_reader_begin(&reader, env, keybuf, sorted);
	keybuf_reset(keybuf);
	for (size_t i = 0; i < sorted->n; i++)
	{
		if (!key_reader_has(&reader, i))
		{
			CHECK_FOR_INTERRUPTS();
			key_reader_decode(&reader, i, sorted->n);
		}
		key_reader_row(&reader, i, values, isnull);
		keybuf_row(keybuf, &env->keys, values, isnull, 0);
	}
	pfree(values);
	pfree(isnull);
}

size_t
distinct_batch(SortEnv *env, Batch *batch)
{
	size_t		n = batch->keybuf.n;
	Sorted		sorted;

	order_batch(env, batch, ORDER_KEEP_KEYS | ORDER_IN_CACHE | ORDER_PART, &sorted);
	if (sorted.n < n && env->spec.keys_only)
		keep_keys(env, batch, &sorted);
	else if (sorted.n < n)
		batch_keep(batch, env->bulk, sorted.rids, sorted.n);
	progress_phase(&env->progress, PROGRESS_INGEST);
	return n - sorted.n;
}
