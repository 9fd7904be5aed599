/*
 * bounded.c
 *	  Bounded sorts: only the first rows are wanted.
 *
 * Rows are collected until there are twice as many as wanted, or memory is full;
 * these are sorted, and the last row that is wanted becomes the threshold: what
 * sorts behind it is thrown away, and from then on a row that does is not even
 * stored.  In an input without order nearly every row falls to that one comparison
 * of images.  In the worst case, an input in reverse, every row is sorted once
 * among 2 * bound others, where a heap would sift it down.
 *
 * An equal row is behind the threshold too, because it came later: stability
 * comes for free.  Where images cannot tell that rows are equal, because not all key
 * columns are staged or a column's images are equal but may be inexact, what follows
 * decides nothing, and the row is compared with the threshold's row itself.  An inexact
 * image that is larger is that of a row strictly behind, so such rows fall as any.  An
 * image that takes longer than a comparison is made only for rows that stay.
 *
 * Of a heap page that has many more rows than are wanted, those are not taken that go behind as many
 * others of the page.  So an input in which each row goes before all rows so far (the newest rows of
 * a log) has few rows stored, too.
 *
 * Where a comparator may be asked, and not too many rows are wanted, they are kept in their order
 * instead (top_rows.c), until memory is full.
 *
 * Participants that sort together share the least of their thresholds' first images: a
 * row beyond it is strictly behind as many rows as are wanted, whoever has them.
 *
 * Memory policy: the rows that stay are moved together where they are, so a bound
 * whose rows fit work_mem writes no file.  If they do not fit, runs are written;
 * one that has as many rows as are wanted gives a threshold, too, and ends there.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "sort/sort_internal.h"

/* Staged rows at which, at the latest, what cannot be wanted is thrown away. */
static inline size_t
trigger(size_t bound)
{
	return Max(2 * bound, 1024);
}

/*
 * Column c of a row against the threshold's: > 0 if it goes behind it, whatever
 * follows.
 */
static inline int
compare_threshold(const BoundedSink *sink, int c, bool null, uint64 normkey)
{
	if (unlikely(null || sink->threshold_null[c]))
	{
		if (null && sink->threshold_null[c])
			return 0;
		return null != sink->base.batch->keybuf.cols[c].nulls_first ? 1 : -1;
	}
	if (normkey == sink->threshold[c])
		return 0;
	return normkey > sink->threshold[c] ? 1 : -1;
}

/* The staged row with this rid. */
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

/* Participants that sort together hear of the last wanted row's first image. */
static void
share_threshold(BoundedSink *sink, uint64 normkey)
{
	uint64		least = pg_atomic_read_u64(sink->shared_threshold);

	while (normkey < least && !pg_atomic_compare_exchange_u64(sink->shared_threshold, &least, normkey))
		;
}

/* A first column's image beyond this one is behind all rows that are wanted. */
static inline uint64
first_limit(const BoundedSink *sink)
{
	uint64		limit = PG_UINT64_MAX;

	if (sink->top.on)
		(void) top_rows_limit(&sink->top, &limit);
	else if (sink->have_threshold && !sink->threshold_null[0])
		limit = sink->threshold[0];
	if (sink->shared_threshold != NULL)
		limit = Min(limit, pg_atomic_read_u64(sink->shared_threshold));
	return limit;
}

/* The row with this rid, the last that is wanted, is the threshold. */
static void
set_threshold(BoundedSink *sink, uint32 last)
{
	SortEnv    *env = sink->base.env;
	KeyBuffer  *keybuf = &sink->base.batch->keybuf;
	size_t		i = find_rid(keybuf, last);

	/* images of rows to come are compared with these */
	keybuf_freeze(keybuf);
	for (int c = 0; c < keybuf->ncols; c++)
	{
		const KeyBufferColumn *col = &keybuf->cols[c];

		sink->threshold_compared[c] = key_needs_comparator(col->kind) || key_range_unplaced(col, &col->range);
		sink->threshold_inexact[c] = col->range.inexact;
		sink->threshold_null[c] = col->nulls != NULL && col->nulls[i];
		sink->threshold[c] = keybuf_normkey_at(col, i);
	}
	if (!keybuf->exact)
	{
		MinimalTuple row = (MinimalTuple) arena_at(&sink->base.batch->arena, last);

		bulk_reserve(env->bulk, &sink->threshold_row, row->t_len, 0);
		memcpy(sink->threshold_row.ptr, row, row->t_len);
		env->beside = sink->threshold_row.requested;
	}
	sink->have_threshold = true;
	if (sink->shared_threshold != NULL && !sink->threshold_null[0])
		share_threshold(sink, sink->threshold[0]);
}

/* A set of rids, as bits. */
static inline void
rid_set_add(uint64 *set, uint32 rid)
{
	set[rid / 64] |= UINT64CONST(1) << rid % 64;
}

static inline bool
rid_set_has(const uint64 *set, uint32 rid)
{
	return (set[rid / 64] >> rid % 64 & 1) != 0;
}

/*
 * Sorts the rows, of which there are more than wanted; keeps the first, and sets the threshold.
 * Rows are kept by their places: a comparator that is not transitive would tell another number
 * of rows if it were asked again.
 */
static void
cut(BoundedSink *sink)
{
	SortEnv    *env = sink->base.env;
	Batch	   *batch = sink->base.batch;
	KeyBuffer  *keybuf = &batch->keybuf;
	size_t		n = keybuf->n;
	size_t		kept = 0;
	Sorted		sorted;
	Arena		from;
	Size		set_size = (batch->arena.next_rid / 64 + 1) * sizeof(uint64);
	uint32		passed = 0;
	uint64	   *set;

	Assert(n > env->bound);
	(void) order_batch(env, batch, NULL, false, &sorted);
	set_threshold(sink, sorted.rids[env->bound - 1]);
	bulk_reserve(env->bulk, &sink->kept, set_size, 0);
	set = memset(sink->kept.ptr, 0, set_size);
	for (size_t i = 0; i < env->bound; i++)
		rid_set_add(set, sorted.rids[i]);

	arena_compact_begin(&batch->arena, env->bulk, &from);
	keybuf_keep_begin(keybuf);
	for (size_t i = 0; i < n; i++)
	{
		MinimalTuple row;
		uint32		rid;
		char	   *to;

		CHECK_FOR_INTERRUPTS();
		if (!rid_set_has(set, keybuf->rids[i]))
			continue;
		row = (MinimalTuple) arena_at(&from, keybuf->rids[i]);
		to = arena_alloc(&batch->arena, env->bulk, MAXALIGN(row->t_len), &rid);
		if (to == NULL)
			elog(ERROR, "a bounded sort's rows do not fit its arena");
		memmove(to, row, MAXALIGN(row->t_len));
		arena_compact_passed(&from, env->bulk, keybuf->rids[i], &passed);
		keybuf_keep(keybuf, i, kept++, rid);
	}
	keybuf_keep_end(keybuf, kept);
	arena_compact_end(&batch->arena, env->bulk, &from);
	if (sink->kept.mapped)
		bulk_free(env->bulk, &sink->kept);
	progress_phase(&env->progress, PROGRESS_INGEST);
	Assert(kept == env->bound);
}

/*
 * Does the row in the slot go behind all rows that are wanted, or its first column behind
 * all that some participant wants?
 */
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
		bool		inexact = sink->threshold_inexact[c];
		uint64		normkey;
		int			cmp;

		if (sink->threshold_compared[c])
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
		if (c == 0 && sink->shared_threshold != NULL && !null && normkey > pg_atomic_read_u64(sink->shared_threshold))
			return true;
		if (!sink->have_threshold)
			return false;
		cmp = compare_threshold(sink, c, null, normkey);
		if (cmp != 0)
			return cmp > 0;
		if (inexact && !null)
		{
			equal = false;
			break;
		}
	}
	if (!sink->have_threshold)
		return false;
	return equal ||
		tiebreak_compare_slot(sink->base.env->tiebreak, slot, sink->threshold_row.ptr) >= 0;
}

/*
 * Row i of a page, whose keys lie there: > 0 if it goes behind all rows that are wanted,
 * < 0 if not, 0 if staged columns do not tell.
 */
static inline int
compare_on_page(const BoundedSink *sink, const PageKeys *keys, PageKeyPlaces where, int i)
{
	const KeyBuffer *keybuf = &sink->base.batch->keybuf;

	for (int c = 0; c < keybuf->ncols; c++)
	{
		const KeyBufferColumn *col = &keybuf->cols[c];
		const char *p = where[c][i];
		bool		inexact = sink->threshold_inexact[c];
		uint64		normkey = 0;
		int			cmp;

		if (sink->threshold_compared[c])
			return 0;
		if (p != NULL)
		{
			normkey = normkey_at(col, sink->base.env->keys.makers[c], col->kind, col->flip, p,
								 keys->byval_len[c], &inexact);
			if (unlikely(key_normkey_unplaced(col, normkey)))
				return 0;
		}
		cmp = compare_threshold(sink, c, p == NULL, normkey);
		if (cmp != 0)
			return cmp;
		if (inexact && p != NULL)
			return 0;
	}
	return keybuf->complete ? 1 : 0;
}

/* Memory is full: throws rows away that cannot be wanted; false if that is too little. */
static pg_noinline bool
make_room(BoundedSink *sink)
{
	Batch	   *batch = sink->base.batch;
	KeyBuffer  *keybuf = &batch->keybuf;

	if (sink->base.env->bound == 0 || keybuf->n <= sink->base.env->bound)
		return false;
	cut(sink);
	/* too little, and every few rows would cost a sort of all */
	return batch_taken(batch) <= batch->limit - batch->limit / MEMORY_PARTS &&
		keybuf->capacity - keybuf->n > keybuf->n / MEMORY_PARTS;
}

/* Is there memory for another row? */
static inline bool
has_memory(BoundedSink *sink)
{
	return likely(batch_taken(sink->base.batch) <= sink->base.batch->limit) || make_room(sink);
}

/* Rows were taken: throws some away if there are many more than wanted. */
static inline void
cut_if_many(BoundedSink *sink)
{
	const Batch *batch = sink->base.batch;
	size_t		bound = sink->base.env->bound;

	if (unlikely(bound > 0 && (batch->keybuf.n >= trigger(bound) ||
							   (batch->keybuf.n >= 2 * bound && arena_used(&batch->arena) >= BOUNDED_CUT_BYTES))))
		cut(sink);
}

/* Rows were put in order: what others may hear. */
static inline void
share_top_limit(BoundedSink *sink)
{
	uint64		limit;

	if (unlikely(sink->shared_threshold != NULL) && top_rows_limit(&sink->top, &limit))
		share_threshold(sink, limit);
}

void
sink_bounded_buffer_keys(BoundedSink *sink)
{
	if (sink->top.on)
		top_rows_buffer_keys(&sink->top);
}

/* Memory is full of wanted rows: from here on they are in a batch, or in runs. */
static void
leave_top(BoundedSink *sink)
{
	TopRows    *top = &sink->top;

	top_rows_buffer_keys(top);
	if (top->n == top->bound)
		set_threshold(sink, top_rows_last(top));
	top_rows_end(top);
	if (!sink->have_threshold)
		sink->base.env->beside = 0;
}

static SinkAnswer
bounded_put_slot(Sink *sink, TupleTableSlot *slot)
{
	BoundedSink *bounded = (BoundedSink *) sink;
	Batch	   *batch = sink->batch;

	if (bounded->top.on)
	{
		if (unlikely(bounded->shared_threshold != NULL) && rejects(bounded, slot))
			return SINK_TAKEN;
		if (likely(top_rows_put_slot(&bounded->top, slot) == TOP_TAKEN))
		{
			share_top_limit(bounded);
			return SINK_TAKEN;
		}
		leave_top(bounded);
	}

	if ((bounded->have_threshold || bounded->shared_threshold != NULL) && rejects(bounded, slot))
		return SINK_TAKEN;
	if (!has_memory(bounded))
		return SINK_FULL;
	if (unlikely(!batch_put_row(batch, &sink->env->keys, sink->env->writer, slot)) &&
		!(make_room(bounded) && batch_put_row(batch, &sink->env->keys, sink->env->writer, slot)))
		return SINK_FULL;
	cut_if_many(bounded);
	return SINK_TAKEN;
}

static SinkAnswer
put_page_row(BoundedSink *sink, RowPage *page, int i, PageKeyPlaces where)
{
	Batch	   *batch = sink->base.batch;
	int			cmp;

	if (sink->top.on)
	{
		if (likely(top_rows_put_page(&sink->top, page, i, where) == TOP_TAKEN))
			return SINK_TAKEN;
		leave_top(sink);
	}
	cmp = sink->have_threshold ? compare_on_page(sink, &page->keys, where, i) : -1;
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
		!(make_room(sink) && batch_put_page_row(batch, &sink->base.env->keys, page, i, where)))
		return SINK_FULL;
	cut_if_many(sink);
	return SINK_TAKEN;
}

/* Are so many fewer wanted than a page has that it is worth knowing which of its rows are? */
static inline bool
page_has_many(const BoundedSink *sink, int n)
{
	size_t		bound = sink->base.env->bound;

	return bound > 0 && n / 2 > bound && !key_computed(sink->base.batch->keybuf.cols[0].kind);
}

/* Takes the page at once, if all of its rows may be wanted. */
static bool
take_page(BoundedSink *sink, RowPage *page)
{
	Batch	   *batch = sink->base.batch;
	size_t		bound = sink->base.env->bound;

	return !sink->have_threshold && !sink->top.on && page->direct && !page_has_many(sink, page->n) &&
		(bound == 0 || batch->keybuf.n + page->n < trigger(bound)) &&
		batch_put_page(batch, &sink->base.env->keys, page);
}

/* The k-th smallest of n numbers, k counted from 0; they change places. */
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
 * Of the page's rows that are left, those stay that may be wanted beside the others of the
 * page: where each row goes before all rows so far, most of a page's rows do not stay for long, and
 * their first images tell which.  Returns how many stay.
 */
static int
keep_page_first(const BoundedSink *sink, const RowPage *page, PageKeyPlaces where, uint16 *left, int nleft)
{
	const KeyBufferColumn *col = &sink->base.batch->keybuf.cols[0];
	const KeyMaker maker = sink->base.env->keys.makers[0];
	size_t		bound = sink->base.env->bound;
	int			byval_len = page->keys.byval_len[0];
	uint64		normkeys[MaxHeapTuplesPerPage];
	uint64		sorted[MaxHeapTuplesPerPage];
	int			n = 0;
	int			kept = 0;
	uint64		kth;
	bool		inexact;

	for (int k = 0; k < nleft; k++)
	{
		const char *p = where[0][left[k]];

		/* a NULL stays, and puts no row behind it */
		if (p == NULL)
		{
			normkeys[k] = 0;
			continue;
		}
		normkeys[k] = normkey_at(col, maker, col->kind, col->flip, p, byval_len, &inexact);
		sorted[n++] = normkeys[k];
	}
	if (n <= bound)
		return nleft;
	kth = select_kth(sorted, n, (int) bound - 1);
	for (int k = 0; k < nleft; k++)
	{
		if (normkeys[k] <= kth)
			left[kept++] = left[k];
	}
	return kept;
}

/*
 * Once there is a threshold most rows go no further than the comparison of their
 * first column's images, where they lie on the page.
 */
static SinkAnswer
bounded_put_page(Sink *sink, RowPage *page, int *done)
{
	BoundedSink *bounded = (BoundedSink *) sink;
	PageKeyPlaces where;
	uint16		left[MaxHeapTuplesPerPage];
	int			nleft = 0;
	uint64		limit = PG_UINT64_MAX;

	/* a row without an image must be compared */
	if (!key_needs_comparator(sink->batch->keybuf.cols[0].kind) &&
		!key_may_be_unplaced(sink->batch->keybuf.cols[0].kind))
		limit = first_limit(bounded);
	if (*done == 0 && limit == PG_UINT64_MAX && take_page(bounded, page))
	{
		*done = page->n;
		return SINK_TAKEN;
	}
	row_page_find_keys(page, *done, where);
	if (limit < PG_UINT64_MAX)
		nleft = page_keys_select(&page->keys, &sink->batch->keybuf, &sink->env->keys, limit,
									 where[0], *done, page->n, left);
	else
	{
		for (int i = *done; i < page->n; i++)
			left[nleft++] = i;
	}
	if (page_has_many(bounded, nleft))
		nleft = keep_page_first(bounded, page, where, left, nleft);
	for (int k = 0; k < nleft; k++)
	{
		SinkAnswer	answer = put_page_row(bounded, page, left[k], where);

		if (unlikely(answer != SINK_TAKEN))
		{
			*done = left[k];
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

	(void) order_batch(env, sink->batch, NULL, false, &sorted);
	if (env->bound > 0 && sorted.n >= env->bound)
	{
		set_threshold(bounded, sorted.rids[env->bound - 1]);
		sorted.n = env->bound;
	}
	runs_write(runs, sink->batch, &sorted);
	sink_batch_spilled(sink);
	/* rows of the front that do not fit the memory: all are as good as wanted */
	if (!bounded->have_threshold)
		env->bound = 0;
	return SINK_TAKEN;
}

static SortResult *
bounded_finish(Sink *sink, bool may_pause, ResultSpace *space)
{
	TopRows    *top = &((BoundedSink *) sink)->top;
	Sorted		sorted;

	if (top->on)
	{
		progress_phase(&sink->env->progress, PROGRESS_SORT);
		top_rows_order(top, &sorted);
		batch_free_keys(sink->batch, sink->env->bulk);
		return result_rows_begin(&space->memory, sink->env, &sink->batch->arena, &sorted);
	}
	return order_result(sink->env, sink->batch, NULL, false, space);
}

static void
bounded_end(Sink *sink)
{
	BoundedSink *bounded = (BoundedSink *) sink;

	bulk_free(sink->env->bulk, &bounded->threshold_row);
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
sink_bounded_init(BoundedSink *sink, SortEnv *env, Batch *batch)
{
	sink->base.methods = &bounded_methods;
	sink->base.env = env;
	sink->base.batch = batch;
}

void
sink_bounded_begin(BoundedSink *sink, pg_atomic_uint64 *shared_threshold)
{
	sink->have_threshold = false;
	for (int c = 0; c < sink->base.batch->keybuf.ncols; c++)
		sink->threshold_compared[c] = key_needs_comparator(sink->base.batch->keybuf.cols[c].kind);
	/* images that a function makes may mean another thing in another process */
	sink->shared_threshold = key_computed(sink->base.batch->keybuf.cols[0].kind) ? NULL : shared_threshold;
	top_rows_begin(&sink->top, sink->base.env, sink->base.batch);
}
