/*
 * bounded.c
 *	  Bounded sort (LIMIT): a sink that keeps only the first rows.
 *
 * Rows are collected until there are twice as many as wanted, or memory is full.  Then
 * they are sorted, the wanted rows are kept, and the last of them becomes the cutoff.
 * A row that does not sort before the cutoff is not stored.  In random input a
 * comparison of normalized keys rejects nearly every row.  In the worst case, descending
 * input, each row is sorted once among 2 * bound rows; a heap would sift it down.
 *
 * A row that equals the cutoff is rejected, because it came later.  This makes the sort
 * stable.  Unequal normalized keys decide, also inexact ones.  If keys are equal, but
 * inexact, or not all key columns are buffered, the comparator compares the row with the
 * cutoff row.  Keys that cost more than a comparison are made only for rows that are kept.
 *
 * Of a heap page that has many more rows than wanted, only the rows that are among the
 * first rows of the page are taken.  So ascending and descending input store few rows.
 *
 * If the comparator may be needed, the first batch with many more rows than wanted is the
 * last one.  From there on rows are inserted into their order (top_rows.c), until memory
 * is full.
 *
 * Where each row sorts before all earlier rows, nearly every row would be stored for a
 * while.  If the input can be read from its end, it gives an early cutoff: the last
 * wanted row among some rows that come again.  Rows that equal it are taken, because the
 * cutoff row itself comes again.
 *
 * Participants that sort together share the least first key of their cutoffs.  A row
 * with a larger key sorts behind the wanted number of rows of some participant.
 *
 * Memory policy: kept rows are compacted in place, so a sort whose wanted rows fit
 * work_mem writes no file.  If they do not fit, runs are written.  A run with the wanted
 * number of rows sets the cutoff, and is cut there.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "sort/sort_internal.h"

/*
 * Number of buffered rows at which unwanted rows are dropped, or insertion begins.  Until there
 * is a cutoff all rows are stored, so few rows suffice for the first one.
 */
static inline size_t
trigger(const BoundedSink *sink)
{
	return Max(2 * sink->wanted, sink->insert ? 0 : sink->have_cutoff ? 1024 : 128);
}

/* Compares column c of a row with the cutoff; > 0: the row sorts behind. */
static inline int
compare_cutoff(const BoundedSink *sink, int c, bool null, uint64 normkey)
{
	if (unlikely(null || sink->cutoff_null[c]))
	{
		if (null && sink->cutoff_null[c])
			return 0;
		return null != sink->base.batch->keybuf.cols[c].nulls_first ? 1 : -1;
	}
	if (normkey == sink->cutoff[c])
		return 0;
	return normkey > sink->cutoff[c] ? 1 : -1;
}

/* Finds the index of a row id in the key buffer, whose row ids ascend. */
static size_t
find_rid(const KeyBuffer *keybuf, uint32 rid)
{
	size_t		from = 0;
	size_t		to = keybuf->n;

	while (to - from > 1)
	{
		size_t		mid = from + (to - from) / 2;

		if (keybuf->rids[mid] <= rid)
			from = mid;
		else
			to = mid;
	}
	return from;
}

/* Lowers the shared cutoff to the first normalized key of the last wanted row. */
static void
share_cutoff(BoundedSink *sink, uint64 normkey)
{
	uint64		least = pg_atomic_read_u64(sink->shared_cutoff);

	while (normkey < least && !pg_atomic_compare_exchange_u64(sink->shared_cutoff, &least, normkey))
		;
}

/* A row whose first normalized key exceeds this limit is not wanted. */
static inline uint64
first_limit(const BoundedSink *sink)
{
	uint64		limit = PG_UINT64_MAX;

	if (sink->top.on)
		(void) top_rows_limit(&sink->top, &limit);
	else if (sink->have_cutoff && !sink->cutoff_null[0])
		limit = sink->cutoff[0];
	if (sink->shared_cutoff != NULL)
		limit = Min(limit, pg_atomic_read_u64(sink->shared_cutoff));
	return limit;
}

/* Makes the last wanted row, given by its row id, the cutoff. */
static void
set_cutoff(BoundedSink *sink, uint32 last)
{
	SortEnv    *env = sink->base.env;
	KeyBuffer  *keybuf = &sink->base.batch->keybuf;
	size_t		i = find_rid(keybuf, last);

	/* keys of later rows must be comparable with the cutoff */
	keybuf_freeze(keybuf);
	for (int c = 0; c < keybuf->ncols; c++)
	{
		const KeyBufferColumn *col = &keybuf->cols[c];

		sink->cutoff_compared[c] = key_traits[col->kind].needs_comparator || key_range_unplaced(col, &col->range);
		sink->cutoff_inexact[c] = col->range.inexact;
		sink->cutoff_null[c] = col->nulls != NULL && col->nulls[i];
		sink->cutoff[c] = keybuf_normkey_at(col, i);
	}
	if (!keybuf->exact)
	{
		MinimalTuple row = (MinimalTuple) arena_at(&sink->base.batch->arena, last);

		bulk_reserve(env->bulk, &sink->cutoff_row, row->t_len, 0);
		memcpy(sink->cutoff_row.ptr, row, row->t_len);
		env->sink_bytes = sink->cutoff_row.requested;
	}
	sink->have_cutoff = true;
	sink->early_cutoff = false;
	if (sink->shared_cutoff != NULL && !sink->cutoff_null[0])
		share_cutoff(sink, sink->cutoff[0]);
}

/*
 * Sorts the rows, keeps the wanted ones, and sets the cutoff.  There are more rows
 * than wanted.  The kept rows are found by row id, not by comparison with the cutoff:
 * a comparator that is not transitive would keep another number of rows.
 */
static void
cut(BoundedSink *sink)
{
	SortEnv    *env = sink->base.env;
	Batch	   *batch = sink->base.batch;
	Sorted		sorted;

	Assert(batch->keybuf.n > sink->wanted);
	order_batch(env, batch, NULL, ORDER_KEEP_KEYS, &sorted);
	set_cutoff(sink, sorted.rids[sink->wanted - 1]);
	batch_keep(batch, env->bulk, sorted.rids, sink->wanted, &sink->kept);
	progress_phase(&env->progress, PROGRESS_INGEST);
}

/* Is the row in the slot unwanted, by the cutoff or by the shared cutoff? */
static inline bool
rejects(const BoundedSink *sink, TupleTableSlot *slot)
{
	const KeyBuffer *keybuf = &sink->base.batch->keybuf;
	const KeyWriter *keys = &sink->base.env->keys;
	bool		equal = keybuf->complete;

	for (int c = 0; c < keybuf->ncols; c++)
	{
		const KeyBufferColumn *col = &keybuf->cols[c];
		bool		null = slot->tts_isnull[col->att];
		bool		inexact = sink->cutoff_inexact[c];
		uint64		normkey;
		int			cmp;

		if (sink->cutoff_compared[c])
		{
			equal = false;
			break;
		}
		normkey = null ? 0 : normkey_of_value(col, keys->makers[c], slot->tts_values[col->att], &inexact);
		if (!null && unlikely(key_normkey_unplaced(col, normkey)))
		{
			equal = false;
			break;
		}
		if (c == 0 && sink->shared_cutoff != NULL && !null && normkey > pg_atomic_read_u64(sink->shared_cutoff))
			return true;
		if (!sink->have_cutoff)
			return false;
		cmp = compare_cutoff(sink, c, null, normkey);
		if (cmp != 0)
			return cmp > 0;
		if (inexact && !null)
		{
			equal = false;
			break;
		}
	}
	if (!sink->have_cutoff)
		return false;
	if (equal)
		return !sink->early_cutoff;
	return tiebreak_compare_slot(sink->base.env->tiebreak, slot, sink->cutoff_row.ptr) >= (sink->early_cutoff ? 1 : 0);
}

/*
 * Compares row i of a page with the cutoff by normalized keys: > 0 if it is not
 * wanted, < 0 if it is wanted, 0 if the keys do not decide.
 */
static inline int
compare_on_page(const BoundedSink *sink, const PageKeys *keys, PageKeyPointers where, int i)
{
	const KeyBuffer *keybuf = &sink->base.batch->keybuf;

	for (int c = 0; c < keybuf->ncols; c++)
	{
		const KeyBufferColumn *col = &keybuf->cols[c];
		const char *p = where[c][i];
		bool		inexact = sink->cutoff_inexact[c];
		uint64		normkey = 0;
		int			cmp;

		if (sink->cutoff_compared[c])
			return 0;
		if (p != NULL)
		{
			normkey = normkey_at(col, sink->base.env->keys.makers[c], col->kind, col->flip, p,
								 keys->byval_len[c], &inexact);
			if (unlikely(key_normkey_unplaced(col, normkey)))
				return 0;
		}
		cmp = compare_cutoff(sink, c, p == NULL, normkey);
		if (cmp != 0)
			return cmp;
		if (inexact && p != NULL)
			return 0;
	}
	if (!keybuf->complete)
		return 0;
	return sink->early_cutoff ? -1 : 1;
}

/* Are there so many rows that unwanted ones are dropped? */
static inline bool
has_many(const BoundedSink *sink)
{
	const Batch *batch = sink->base.batch;
	size_t		bound = sink->wanted;

	return bound > 0 && (batch->keybuf.n >= trigger(sink) ||
						 (batch->keybuf.n >= 2 * bound && arena_used(&batch->arena) >= BOUNDED_CUT_BYTES));
}

/* Changes from the batch to insertion if it has many rows, or more than wanted and no memory. */
static inline void
begin_insertion(BoundedSink *sink)
{
	SortEnv    *env = sink->base.env;
	Batch	   *batch = sink->base.batch;
	Sorted		sorted;

	if (likely(!sink->insert || sink->top.on) ||
		!(has_many(sink) || (batch_taken(batch) > batch->limit && batch->keybuf.n > sink->wanted)))
		return;
	order_batch(env, batch, NULL, ORDER_KEEP_KEYS, &sorted);
	top_rows_begin(&sink->top, env, batch, sorted.rids);
	progress_phase(&env->progress, PROGRESS_INGEST);
}

/* Memory is full: drops unwanted rows.  False if that frees too little. */
static pg_noinline bool
cut_to_make_room(BoundedSink *sink)
{
	Batch	   *batch = sink->base.batch;
	KeyBuffer  *keybuf = &batch->keybuf;

	if (sink->wanted == 0 || keybuf->n <= sink->wanted)
		return false;
	cut(sink);
	/* with less free memory, each few rows would cost another sort */
	return batch_taken(batch) <= batch->limit - batch->limit / MEMORY_PARTS &&
		keybuf->capacity - keybuf->n > keybuf->n / MEMORY_PARTS;
}

/* Is there memory for another row? */
static inline bool
has_memory(BoundedSink *sink)
{
	return likely(batch_taken(sink->base.batch) <= sink->base.batch->limit) || cut_to_make_room(sink);
}

/* Drops unwanted rows if there are many more than wanted. */
static inline void
cut_if_many(BoundedSink *sink)
{
	if (unlikely(has_many(sink)) && !sink->insert)
		cut(sink);
}

/* Shares the limit of the inserted rows. */
static inline void
share_top_limit(BoundedSink *sink)
{
	uint64		limit;

	if (unlikely(sink->shared_cutoff != NULL) && top_rows_limit(&sink->top, &limit))
		share_cutoff(sink, limit);
}

void
sink_bounded_buffer_keys(BoundedSink *sink)
{
	if (sink->top.on)
		top_rows_buffer_keys(&sink->top);
}

/* Changes from insertion to a batch, which may be written as runs. */
static void
change_to_batch(BoundedSink *sink)
{
	TopRows    *top = &sink->top;

	sink->insert = false;
	top_rows_buffer_keys(top);
	if (top->n == top->bound)
		set_cutoff(sink, top_rows_last(top));
	top_rows_end(top);
	if (!sink->have_cutoff)
		sink->base.env->sink_bytes = 0;
}

bool
sink_bounded_early_cutoff(BoundedSink *sink)
{
	SortEnv    *env = sink->base.env;
	Batch	   *batch = sink->base.batch;
	Sorted		sorted;

	/*
	 * With a cutoff, rows are compared with it and not inserted: nearly all
	 * of them sort behind it.
	 */
	if (sink->top.on)
		change_to_batch(sink);
	else if (batch->keybuf.n >= sink->wanted)
	{
		order_batch(env, batch, NULL, ORDER_KEEP_KEYS, &sorted);
		set_cutoff(sink, sorted.rids[sink->wanted - 1]);
	}
	batch_reset(batch, env->bulk);
	progress_phase(&env->progress, PROGRESS_INGEST);
	if (!sink->have_cutoff)
	{
		keybuf_begin(&batch->keybuf);
		sink_bounded_begin(sink, sink->base.env, sink->base.batch, sink->shared_cutoff);
		return false;
	}
	sink->early_cutoff = true;
	return true;
}

static SinkAnswer
bounded_put_slot(Sink *sink, TupleTableSlot *slot)
{
	BoundedSink *bounded = (BoundedSink *) sink;
	Batch	   *batch = sink->batch;

	begin_insertion(bounded);
	if (bounded->top.on)
	{
		if (unlikely(bounded->shared_cutoff != NULL) && rejects(bounded, slot))
			return SINK_TAKEN;
		if (likely(top_rows_put_slot(&bounded->top, slot) == TOP_TAKEN))
		{
			share_top_limit(bounded);
			return SINK_TAKEN;
		}
		change_to_batch(bounded);
	}

	if ((bounded->have_cutoff || bounded->shared_cutoff != NULL) && rejects(bounded, slot))
		return SINK_TAKEN;
	if (!has_memory(bounded))
		return SINK_FULL;
	if (unlikely(!batch_put_row(batch, &sink->env->keys, sink->env->writer, slot)) &&
		!(cut_to_make_room(bounded) && batch_put_row(batch, &sink->env->keys, sink->env->writer, slot)))
		return SINK_FULL;
	cut_if_many(bounded);
	return SINK_TAKEN;
}

static SinkAnswer
put_page_row(BoundedSink *sink, RowPage *page, int i, PageKeyPointers where)
{
	Batch	   *batch = sink->base.batch;
	int			cmp;

	begin_insertion(sink);
	if (sink->top.on)
	{
		if (likely(top_rows_put_page(&sink->top, page, i, where) == TOP_TAKEN))
			return SINK_TAKEN;
		change_to_batch(sink);
	}
	cmp = sink->have_cutoff ? compare_on_page(sink, &page->keys, where, i) : -1;
	if (cmp > 0)
		return SINK_TAKEN;
	if (cmp == 0 || !page->direct)
	{
		TupleTableSlot *slot = page->row(page, i);

		slot_getsomeattrs(slot, batch->keybuf.last_att);
		return bounded_put_slot(&sink->base, slot);
	}
	if (!has_memory(sink))
		return SINK_FULL;
	if (unlikely(!batch_put_page_row(batch, &sink->base.env->keys, page, i, where)) &&
		!(cut_to_make_room(sink) && batch_put_page_row(batch, &sink->base.env->keys, page, i, where)))
		return SINK_FULL;
	cut_if_many(sink);
	return SINK_TAKEN;
}

/* Do n rows of a page exceed the bound so far that it pays to select among them first? */
static inline bool
page_has_many(const BoundedSink *sink, int n)
{
	size_t		bound = sink->wanted;

	return bound > 0 && n / 2 > bound && !key_traits[sink->base.batch->keybuf.cols[0].kind].computed;
}

/* Takes all rows of the page together if all may be wanted. */
static bool
take_page(BoundedSink *sink, RowPage *page)
{
	Batch	   *batch = sink->base.batch;
	size_t		bound = sink->wanted;

	return !sink->have_cutoff && !sink->top.on && page->direct && !page_has_many(sink, page->n) &&
		(bound == 0 || batch->keybuf.n + page->n < trigger(sink)) &&
		batch_put_page(batch, &sink->base.env->keys, page);
}

/* Hoare's selection: the k-th smallest of n numbers, from 0.  Reorders the numbers. */
static uint64
select_kth(uint64 *v, int n, int k)
{
	int			from = 0;
	int			to = n - 1;

	while (from < to)
	{
		uint64		pivot = v[from + (to - from) / 2];
		int			i = from;
		int			j = to;

		while (i <= j)
		{
			while (v[i] < pivot)
				i++;
			while (v[j] > pivot)
				j--;
			if (i <= j)
			{
				uint64		swap = v[i];

				v[i++] = v[j];
				v[j--] = swap;
			}
		}
		if (k <= j)
			to = j;
		else if (k >= i)
			from = i;
		else
			break;
	}
	return v[k];
}

/*
 * Of nrows rows of the page, keeps those that can be among its first bound rows, by their
 * first normalized keys.  If each row sorts before all earlier rows, the cutoff alone
 * would let all of them in.  Returns the number of rows kept.
 */
static int
keep_first_of_page(BoundedSink *sink, const RowPage *page, PageKeyPointers where, uint16 *rows, int nrows)
{
	const KeyBufferColumn *col = &sink->base.batch->keybuf.cols[0];
	const KeyMaker maker = sink->base.env->keys.makers[0];
	size_t		bound = sink->wanted;
	int			byval_len = page->keys.byval_len[0];
	uint64		normkeys[MaxHeapTuplesPerPage];
	uint64		sorted[MaxHeapTuplesPerPage];
	int			n = 0;
	int			kept = 0;
	uint64		kth;
	bool		inexact;

	for (int k = 0; k < nrows; k++)
	{
		const char *p = where[0][rows[k]];

		/* a NULL is kept and not counted */
		if (p == NULL)
		{
			normkeys[k] = 0;
			continue;
		}
		normkeys[k] = normkey_at(col, maker, col->kind, col->flip, p, byval_len, &inexact);
		sorted[n++] = normkeys[k];
	}
	if (n <= bound)
		return nrows;
	kth = select_kth(sorted, n, (int) bound - 1);

	/*
	 * the rows up to the k-th are kept, so that no participant wants a later
	 * row
	 */
	if (sink->shared_cutoff != NULL)
		share_cutoff(sink, kth);
	for (int k = 0; k < nrows; k++)
	{
		if (normkeys[k] <= kth)
			rows[kept++] = rows[k];
	}
	return kept;
}

/*
 * With a cutoff, most rows of a page are rejected by their first normalized keys,
 * which are made from the page without copying the rows.
 */
static SinkAnswer
bounded_put_page(Sink *sink, RowPage *page, int *done)
{
	BoundedSink *bounded = (BoundedSink *) sink;
	PageKeyPointers where;
	uint16		rows[MaxHeapTuplesPerPage];
	int			nrows = 0;
	uint64		limit = PG_UINT64_MAX;

	/* without normalized keys the comparator must decide */
	if (!key_traits[sink->batch->keybuf.cols[0].kind].needs_comparator &&
		!key_traits[sink->batch->keybuf.cols[0].kind].may_be_unplaced)
		limit = first_limit(bounded);
	if (*done == 0 && limit == PG_UINT64_MAX && take_page(bounded, page))
	{
		*done = page->n;
		return SINK_TAKEN;
	}
	row_page_find_keys(page, *done, where);
	if (limit < PG_UINT64_MAX)
		nrows = page_keys_select(&page->keys, &sink->batch->keybuf, &sink->env->keys, limit,
								 where[0], *done, page->n, rows);
	else
	{
		for (int i = *done; i < page->n; i++)
			rows[nrows++] = i;
	}
	if (page_has_many(bounded, nrows))
		nrows = keep_first_of_page(bounded, page, where, rows, nrows);
	for (int k = 0; k < nrows; k++)
	{
		SinkAnswer	answer = put_page_row(bounded, page, rows[k], where);

		if (unlikely(answer != SINK_TAKEN))
		{
			*done = rows[k];
			return answer;
		}
	}
	*done = page->n;
	if (bounded->top.on)
		share_top_limit(bounded);
	return SINK_TAKEN;
}

static SinkAnswer
bounded_spill(Sink *sink, Runs *runs)
{
	BoundedSink *bounded = (BoundedSink *) sink;
	SortEnv    *env = sink->env;
	Sorted		sorted;

	/* rows of runs and inserted rows would not be merged */
	bounded->insert = false;
	order_batch(env, sink->batch, NULL, bounded->wanted > 0 ? ORDER_KEEP_KEYS : ORDER_PLAIN, &sorted);
	if (bounded->wanted > 0 && sorted.n >= bounded->wanted)
	{
		set_cutoff(bounded, sorted.rids[bounded->wanted - 1]);
		sorted.n = bounded->wanted;
	}
	runs_write(runs, sink->batch, &sorted);
	sink_batch_spilled(sink);

	/* the wanted rows do not fit memory: without a cutoff, sort all rows */
	if (!bounded->have_cutoff)
		bounded->wanted = 0;
	return SINK_TAKEN;
}

static SortResult *
bounded_finish(Sink *sink, ResultSpace *space)
{
	TopRows    *top = &((BoundedSink *) sink)->top;
	Sorted		sorted;

	if (top->on)
	{
		progress_phase(&sink->env->progress, PROGRESS_SORT);
		top_rows_order(top, &sorted);
		batch_free_keys(sink->batch, sink->env->bulk);
		return result_rows_begin(&space->memory, sink->env, &sink->batch->arena, sorted.rids, sorted.n);
	}
	return order_result(sink->env, sink->batch, NULL, space);
}

static void
bounded_end(Sink *sink)
{
	BoundedSink *bounded = (BoundedSink *) sink;

	bulk_free(sink->env->bulk, &bounded->cutoff_row);
	bulk_free(sink->env->bulk, &bounded->kept);
	top_rows_end(&bounded->top);
}

static const SinkMethods bounded_methods = {
	.put_slot = bounded_put_slot,
	.put_page = bounded_put_page,
	.spill = bounded_spill,
	.finish = bounded_finish,
	.end = bounded_end
};

void
sink_bounded_begin(BoundedSink *sink, SortEnv *env, Batch *batch, pg_atomic_uint64 *shared_cutoff)
{
	sink->base.methods = &bounded_methods;
	sink->base.env = env;
	sink->base.batch = batch;
	sink->wanted = env->bound;
	sink->have_cutoff = false;
	sink->early_cutoff = false;
	for (int c = 0; c < sink->base.batch->keybuf.ncols; c++)
		sink->cutoff_compared[c] = key_traits[sink->base.batch->keybuf.cols[c].kind].needs_comparator;
	/* computed keys may differ between processes */
	sink->shared_cutoff = key_traits[sink->base.batch->keybuf.cols[0].kind].computed ? NULL : shared_cutoff;
	sink->insert = top_rows_suit(env, &batch->keybuf);
}
