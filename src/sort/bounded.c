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
 * cutoff row.  A column that only the comparator orders is compared by its value.  Keys that
 * cost more than a comparison are made only for rows that are kept.
 *
 * Of a heap page that has many more rows than wanted, only the rows that are among the
 * first rows of the page are taken.  So ascending and descending input store few rows.
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

#include "sort/sort_internal.h"

/*
 * Bytes of rows from which on unwanted rows are dropped as soon as there are twice the
 * wanted number: touching more memory would cost more than dropping.
 */
#define BOUNDED_CUT_BYTES	((Size) 4 * 1024 * 1024)

/*
 * Number of buffered rows at which unwanted rows are dropped.  Until there is a cutoff all
 * rows are stored, so few rows suffice for the first one.  Comparisons cost more than
 * sorting often.
 */
static inline size_t
trigger(const BoundedSink *sink)
{
	return Max(2 * sink->wanted, sink->cutoff_compared[0] ? 32 : sink->have_cutoff ? 1024 : 128);
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

	if (sink->have_cutoff && !sink->cutoff_null[0])
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
		sink->cutoff_value = tiebreak_first_value(env->tiebreak, sink->cutoff_row.ptr);
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
	order_batch(env, batch, ORDER_KEEP_KEYS | ORDER_PART, &sorted);
	set_cutoff(sink, sorted.rids[sink->wanted - 1]);
	batch_keep(batch, env->bulk, sorted.rids, sink->wanted);
	progress_phase(&env->progress, PROGRESS_INGEST);
}

/*
 * Compares a row with the cutoff: > 0 if it is not wanted, < 0 if it is wanted, 0 if whole
 * rows must be compared.  The row is in the slot, or row i of a page if slot is NULL.
 */
static pg_attribute_always_inline int
compare_cutoff(const BoundedSink *sink, TupleTableSlot *slot, const PageKeys *page, PageKeyPointers where, int i)
{
	const KeyBuffer *keybuf = &sink->base.batch->keybuf;
	const KeyWriter *keys = &sink->base.env->keys;

	for (int c = 0; c < keybuf->ncols; c++)
	{
		const KeyBufferColumn *col = &keybuf->cols[c];
		bool		null = slot != NULL ? slot->tts_isnull[col->att] : where[c][i] == NULL;
		bool		inexact = sink->cutoff_inexact[c];
		uint64		normkey;
		Datum		value;
		int			cmp;

		if (null || sink->cutoff_null[c])
		{
			if (!sink->have_cutoff)
				return -1;
			if (null != sink->cutoff_null[c])
				return null != col->nulls_first ? 1 : -1;
			continue;
		}
		value = slot != NULL ? slot->tts_values[col->att] : datum_at(where[c][i], page->byval_len[c]);
		if (sink->cutoff_compared[c])
		{
			if (!sink->have_cutoff)
				return -1;
			/* the comparator compares later columns in whole rows */
			if (c > 0)
				return 0;
			cmp = tiebreak_compare_first(sink->base.env->tiebreak, value, sink->cutoff_value);
			if (cmp != 0)
				return cmp;
			continue;
		}
		normkey = normkey_of_value(col, keys->makers[c], value, &inexact);
		if (unlikely(key_normkey_unplaced(col, normkey)))
			return sink->have_cutoff ? 0 : -1;
		if (c == 0 && sink->shared_cutoff != NULL && normkey > pg_atomic_read_u64(sink->shared_cutoff))
			return 1;
		if (!sink->have_cutoff)
			return -1;
		if (normkey != sink->cutoff[c])
			return normkey > sink->cutoff[c] ? 1 : -1;
		if (inexact)
			return 0;
	}
	if (!keybuf->complete)
		return 0;
	return sink->early_cutoff ? -1 : 1;
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

/* Another row comes: drops unwanted rows if there are many more than wanted.  Is there memory for the row? */
static inline bool
has_room(BoundedSink *sink)
{
	const Batch *batch = sink->base.batch;
	size_t		n = batch->keybuf.n;

	if (unlikely(sink->wanted > 0 &&
				 (n >= trigger(sink) || (n >= 2 * sink->wanted && arena_used(&batch->arena) >= BOUNDED_CUT_BYTES))))
		cut(sink);
	return likely(batch_taken(batch) <= batch->limit) || cut_to_make_room(sink);
}

bool
sink_bounded_early_cutoff(BoundedSink *sink)
{
	SortEnv    *env = sink->base.env;
	Batch	   *batch = sink->base.batch;
	Sorted		sorted;

	if (batch->keybuf.n >= sink->wanted)
	{
		order_batch(env, batch, ORDER_KEEP_KEYS | ORDER_PART, &sorted);
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

/* Takes the row in the slot unless it is unwanted.  cmp: its compare_cutoff(), < 0 or 0. */
static SinkAnswer
put_compared(BoundedSink *sink, TupleTableSlot *slot, int cmp)
{
	SortEnv    *env = sink->base.env;
	Batch	   *batch = sink->base.batch;

	if (cmp == 0)
	{
		cmp = tiebreak_compare_slot(env->tiebreak, slot, sink->cutoff_row.ptr);
		if (cmp > 0 || (cmp == 0 && !sink->early_cutoff))
			return SINK_TAKEN;
	}
	if (!has_room(sink))
		return SINK_FULL;
	if (unlikely(!batch_put_row(batch, &env->keys, env->writer, slot)) &&
		!(cut_to_make_room(sink) && batch_put_row(batch, &env->keys, env->writer, slot)))
		return SINK_FULL;
	return SINK_TAKEN;
}

static SinkAnswer
bounded_put_slot(Sink *sink, TupleTableSlot *slot)
{
	BoundedSink *bounded = (BoundedSink *) sink;
	bool		limited = bounded->have_cutoff || bounded->shared_cutoff != NULL;
	int			cmp = limited ? compare_cutoff(bounded, slot, NULL, NULL, 0) : -1;

	return cmp > 0 ? SINK_TAKEN : put_compared(bounded, slot, cmp);
}

static SinkAnswer
put_page_row(BoundedSink *sink, RowPage *page, int i, PageKeyPointers where)
{
	Batch	   *batch = sink->base.batch;
	/* page_keys_select() has applied a shared cutoff to the rows of a direct page */
	bool		limited = sink->have_cutoff || (sink->shared_cutoff != NULL && !page->direct);
	int			cmp = limited ? compare_cutoff(sink, NULL, &page->keys, where, i) : -1;

	if (cmp > 0)
		return SINK_TAKEN;
	if (cmp == 0 || !page->direct)
	{
		TupleTableSlot *slot = page->row(page, i);

		slot_getsomeattrs(slot, batch->keybuf.last_att);
		return put_compared(sink, slot, cmp);
	}
	if (!has_room(sink))
		return SINK_FULL;
	if (unlikely(!batch_put_page_row(batch, &sink->base.env->keys, page, i, where)) &&
		!(cut_to_make_room(sink) && batch_put_page_row(batch, &sink->base.env->keys, page, i, where)))
		return SINK_FULL;
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

	return !sink->have_cutoff && page->direct && !page_has_many(sink, page->n) &&
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
	return SINK_TAKEN;
}

static SinkAnswer
bounded_spill(Sink *sink, Runs *runs)
{
	BoundedSink *bounded = (BoundedSink *) sink;
	SortEnv    *env = sink->env;
	Sorted		sorted;

	order_batch(env, sink->batch, bounded->wanted > 0 ? ORDER_KEEP_KEYS | ORDER_PART : ORDER_PART, &sorted);
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

static void
bounded_end(Sink *sink)
{
	BoundedSink *bounded = (BoundedSink *) sink;

	bulk_free(sink->env->bulk, &bounded->cutoff_row);
}

static const SinkMethods bounded_methods = {
	.put_slot = bounded_put_slot,
	.put_page = bounded_put_page,
	.spill = bounded_spill,
	.finish = sink_batch_finish,
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
	memset(sink->cutoff_null, false, sizeof(sink->cutoff_null));
	for (int c = 0; c < sink->base.batch->keybuf.ncols; c++)
		sink->cutoff_compared[c] = key_traits[sink->base.batch->keybuf.cols[c].kind].needs_comparator;
	/* computed keys may differ between processes */
	sink->shared_cutoff = key_traits[sink->base.batch->keybuf.cols[0].kind].computed ? NULL : shared_cutoff;
}
