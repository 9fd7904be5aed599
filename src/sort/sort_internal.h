/*
 * sort_internal.h
 *	  Interfaces inside the sort engine, and the interface that a GPU path implements.
 */
#ifndef GPUSORT_SORT_SORT_INTERNAL_H
#define GPUSORT_SORT_SORT_INTERNAL_H

#include "postgres.h"

#include "executor/tuptable.h"
#include "kernel/sort_kernel.h"
#include "kernel/team.h"
#include "key/key.h"
#include "monitor/progress.h"
#include "sort/sort.h"
#include "store/store.h"
#include "tiebreak/tiebreak.h"

/* Rows between two checks for interrupts where rows are written or read in bulk. */
#define ROWS_PER_INTERRUPT_CHECK	4096

/*
 * Sorts of up to this many rows read no clock, except for EXPLAIN: the clock would cost
 * too much beside them.
 */
#define SORT_TIMED_ROWS	1000

/* Batches of up to this many rows keep their memory for the next execution of the node. */
#define SORT_SMALL_ROWS	4096

/* Memory counts as exhausted when less than 1/MEMORY_PARTS of it is free. */
#define MEMORY_PARTS	64

/* State that all modules of one sorter share. */
typedef struct SortEnv
{
	/* set when the sorter is created */
	SortSpec	spec;
	MemoryContext cxt;			/* lives as long as the sorter */
	BulkOwner  *bulk;
	KeyWriter	keys;			/* writes the batch's key buffer */
	RowWriter  *writer;
	TieBreak   *tiebreak;
	Progress	progress;		/* for other backends; counts input rows */

	/* set when a sort begins */
	Size		limit;			/* bytes that rows and keys may take */

	/*
	 * Rows wanted; 0: all.  Becomes 0 if a bounded sort must write runs and
	 * has no threshold.
	 */
	size_t		bound;
	double		rows_expected;

	/*
	 * spec.distinct; 0 if duplicates were returned before a failure, and must
	 * come again.
	 */
	int			distinct;
	int			distinct_cols;	/* columns of the key buffer for those keys */
	bool		keep_keys;		/* order_batch() keeps the key buffer */
	Size		beside;			/* bytes that a sink holds beside the batch */
	bool		device_failed;	/* do not use a GPU; set when a GPU fails */
	bool		timed;			/* read the clock */

	/* records, and scratch of kernels; a result may lie in either buffer */
	BulkBuf		recs;
	BulkBuf		scratch;
	ByteDictionaries byte_dictionary;	/* for key_layout_narrow() */

	TupleTableSlot *row_slot;	/* see sort_env_slot() */
	DecodedKeys *decoded;		/* working memory of KeyReader */
	SortReport	report;
} SortEnv;

/* A slot to deform stored rows; created at the first call. */
static inline TupleTableSlot *
sort_env_slot(SortEnv *env)
{
	if (env->row_slot == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(env->cxt);

		env->row_slot = MakeSingleTupleTableSlot(env->spec.desc, &TTSOpsMinimalTuple);
		MemoryContextSwitchTo(old);
	}
	return env->row_slot;
}

/* Updates the memory peak: bytes, plus recs, scratch, and memory beside the batch. */
static inline void
sort_env_note_memory(SortEnv *env, Size bytes)
{
	Size		used = bytes + env->recs.requested + env->scratch.requested + env->beside;

	env->report.memory_peak = Max(env->report.memory_peak, used);
}

/* The current time if the clock is read, otherwise zero. */
static inline void
sort_env_clock(const SortEnv *env, instr_time *t)
{
	if (env->timed)
		INSTR_TIME_SET_CURRENT(*t);
	else
		INSTR_TIME_SET_ZERO(*t);
}

/* ------------------------------------------------------------------------
 * Batch: the rows of one in-memory sort or one run, and their key buffer.
 *
 * A batch has one writer.  Rows are named by row ids.  Memory and key functions belong to
 * the writer (KeyWriter), not to the batch.  In a sort of keys without rows the arena is
 * empty.
 *
 * The memory that rows and keys take, and that sorting them will take, is counted row by
 * row (batch_taken()).  The sink keeps it below the limit.
 * ------------------------------------------------------------------------
 */

typedef struct Batch
{
	Arena		arena;
	KeyBuffer	keybuf;
	Size		limit;			/* bytes for the batch and for sorting it */
	Size		sort_cost;		/* further bytes per row for sorting */
	Size		key_cost;		/* bytes per row to buffer and sort its key */
	size_t		max_rows;		/* most rows that one sort can take */
	size_t		expected;		/* rows expected; 0: up to SORT_SMALL_ROWS */
} Batch;

extern void batch_init(Batch *batch, const KeyColumn *keys, int nkeys, bool keys_only);

/*
 * Begins a sort.  keeps_keys: the key buffer is needed after the batch was sorted.
 */
extern void batch_begin(Batch *batch, Size limit, bool bounded, bool keeps_keys, double rows_expected);

/*
 * Keeps the n rows with these row ids, in their order in the arena, and drops all others.
 * set is working memory.
 */
extern void batch_keep(Batch *batch, BulkOwner *owner, const uint32 *rids, size_t n, BulkBuf *set);

/*
 * Makes room in the key buffer for further rows.  False if the limit is reached: the
 * buffered rows must be sorted first.
 */
extern bool batch_key_room(Batch *batch, BulkOwner *owner, size_t rows);

/* Forgets the rows, keeps the memory. */
extern void batch_reset(Batch *batch, BulkOwner *owner);

/* Frees all memory. */
extern void batch_free(Batch *batch, BulkOwner *owner);

/* Forgets the rows.  Frees the memory of a large batch; keeps that of a small one. */
extern void batch_trim(Batch *batch, BulkOwner *owner);

/* Frees the key buffer of a large batch. */
extern void batch_free_keys(Batch *batch, BulkOwner *owner);

/* Takes all rows of a direct page; false, without effect, if they may exceed the limit. */
extern bool batch_put_page(Batch *batch, const KeyWriter *keys, RowPage *page);

/* Takes the keys of the page's rows from first on.  False if they may exceed the limit. */
extern bool batch_put_page_keys(Batch *batch, const KeyWriter *keys, RowPage *page, int first);

/* Takes row i of a direct page; where has its keys.  False if there is no room. */
extern bool batch_put_page_row(Batch *batch, const KeyWriter *keys, RowPage *page, int i,
							   PageKeyPlaces where);

/* Finds the keys of rows [first, page->n). */
extern void row_page_find_keys(const RowPage *page, int first, PageKeyPlaces where);

/* Bytes that the batch takes, and that sorting its rows will take. */
static inline Size
batch_taken(const Batch *batch)
{
	return arena_used(&batch->arena) + batch->keybuf.bytes + batch->keybuf.n * batch->sort_cost;
}

/* Bytes that rows and keys take. */
static inline Size
batch_held(const Batch *batch)
{
	return arena_used(&batch->arena) + batch->keybuf.bytes;
}

/* Takes the row in the slot.  Its key columns are deformed.  False if there is no room. */
static inline bool
batch_put_row(Batch *batch, const KeyWriter *keys, RowWriter *writer, TupleTableSlot *slot)
{
	KeyBuffer  *keybuf = &batch->keybuf;
	uint32		rid;

	if (unlikely(keybuf->n == keybuf->capacity) && !batch_key_room(batch, keys->owner, 1))
		return false;
	if (unlikely(!row_store(writer, &batch->arena, keys->owner, slot, &rid)))
		return false;
	keybuf_row(keybuf, keys, slot->tts_values, slot->tts_isnull, rid);
	return true;
}

/*
 * Takes the keys of the row in the slot, which are deformed, and its TID if keys have row
 * ids.  False if there is no room.
 */
static inline bool
batch_put_key(Batch *batch, const KeyWriter *keys, TupleTableSlot *slot)
{
	KeyBuffer  *keybuf = &batch->keybuf;
	uint32		rid = 0;

	if (unlikely(keybuf->n == keybuf->capacity) && !batch_key_room(batch, keys->owner, 1))
		return false;
	if (!keybuf->keys_only)
	{
		const MinimalTupleData *row = ((MinimalTupleTableSlot *) slot)->mintuple;
		ItemPointerData tid;

		row_get_tid(row, &tid);
		rid = tid_rid(&tid, (row->t_infomask2 & ROW_DEAD) != 0);
	}
	keybuf_row(keybuf, keys, slot->tts_values, slot->tts_isnull, rid);
	return true;
}

/* ------------------------------------------------------------------------
 * Sorting a batch: pack keys, route, run a kernel or offload, resolve ties
 * ------------------------------------------------------------------------
 */

/* A sorted batch.  The arrays lie in env->recs or env->scratch. */
typedef struct Sorted
{
	size_t		n;
	const uint32 *rids;			/* row ids in order; NULL: keys only */
	const void *keys;			/* sorted keys; NULL: rows */
	SortRecFormat format;		/* of keys */
	int			rid_bits;		/* of keys as SORT_REC_PACKED */
	KeyLayout	layout;			/* of keys */
	bool		duplicates;		/* a device has left duplicates; only of rows */
} Sorted;

/* A job of an offloading implementation. */
typedef struct OffloadJob OffloadJob;

/*
 * Sorts the rows of the batch.  early is an offload job that already has some of their
 * keys, or NULL; the function takes ownership.
 *
 * may_stream: the caller reads the result forward from its beginning and leaves the
 * batch unchanged meanwhile.  Then the function may return a job: *sorted is the first
 * part of the result, and SortOffload.more_keys() gets the following ones.
 */
extern OffloadJob *order_batch(SortEnv *env, Batch *batch, OffloadJob *early, bool may_stream,
							   Sorted *sorted);

/*
 * Sorts records that the caller has made, with the radix sort and this process's threads.
 * held: bytes that the caller holds beside env->recs.  False if work_mem has no room for scratch.
 */
extern bool order_records(SortEnv *env, SortProblem *problem, Size held);

/* Sorts the batch and begins a result; frees the key buffer if it is not needed. */
extern SortResult *order_result(SortEnv *env, Batch *batch, OffloadJob *early, bool may_stream,
								ResultSpace *space);

/* ------------------------------------------------------------------------
 * Duplicates, which a sort with distinct columns drops (distinct.c)
 * ------------------------------------------------------------------------
 */

/* Columns of the key buffer that the first distinct keys take. */
extern int	distinct_columns(const KeyColumn *keys, int distinct);

/* The test for the uppermost key_bits of keys of this layout. */
extern DistinctTest distinct_test(int distinct_cols, const KeyLayout *layout, int key_bits);

/* All bits of a key but the lowest ones. */
static inline Key128
distinct_mask(int cut)
{
	return cut >= 128 ? 0 : ~(Key128) 0 << cut;
}

/* Keeps a copy of the row in place of the one before, in memory of cxt. */
extern void kept_row_set(KeptRow *kept, MemoryContext cxt, MinimalTuple row);
extern void kept_row_free(KeptRow *kept);

/* Positions of a sorted array at which a row may be equal to the row before. */
static inline Size
position_set_bytes(size_t n)
{
	return (n / 64 + 1) * sizeof(uint64);
}

static inline void
position_set_add(uint64 *set, size_t i)
{
	set[i / 64] |= UINT64CONST(1) << i % 64;
}

static inline bool
position_set_has(const uint64 *set, size_t i)
{
	return (set[i / 64] >> i % 64 & 1) != 0;
}

/*
 * Drops the rows at the positions of the set from n sorted rids, in place; unless exact,
 * only rows that are equal to the row before.  Without a set, all rows are compared.
 * Returns the number of remaining rids.
 */
extern size_t distinct_rids(const SortEnv *env, const Arena *arena, uint32 *rids, size_t n,
							const uint64 *set, bool exact);

/* Drops the duplicates of n sorted keys, in place.  Returns the number of remaining keys. */
extern size_t distinct_keys(const SortEnv *env, const KeyLayout *layout, SortRecFormat format, void *keys,
							size_t n);

/* Drops the duplicates of presorted rows: rids are those of the key buffer, or in reverse. */
extern size_t distinct_presorted(const SortEnv *env, const Batch *batch, bool reverse, uint32 *rids);

/*
 * Expected number of different values of the distinct columns among this number of rows, by
 * the planner's estimate and a sample of the buffered keys.
 */
extern double distinct_expected(const SortEnv *env, const KeyBuffer *keybuf, double rows);

/* Does a sample of the buffered keys have many duplicates? */
extern bool distinct_sample(const SortEnv *env, const KeyBuffer *keybuf);

/*
 * Sorts the batch and keeps one of its equal rows each.  Returns the number of rows that
 * were dropped.  set is working memory.
 */
extern size_t distinct_batch(SortEnv *env, Batch *batch, BulkBuf *set);

/* ------------------------------------------------------------------------
 * Results in memory
 * ------------------------------------------------------------------------
 */

/* Begins to decode the keys of a sort of keys without rows. */
extern void key_reader_begin(KeyReader *reader, SortEnv *env, const KeyBuffer *keybuf,
							 const Sorted *sorted);

/* Methods of results of sorted rows. */
extern bool result_rows_next(SortResult *result, bool forward, TupleTableSlot *slot);
extern int	result_rows_take(SortResult *result, MinimalTuple *rows);
extern bool result_keys_next(SortResult *result, bool forward, TupleTableSlot *slot);
extern void result_keys_peek(SortResult *result, uint64 i, TupleTableSlot *slot);
extern uint64 result_array_skip(SortResult *result, uint64 rows);
extern void result_array_rewind(SortResult *result);
extern void result_array_mark(SortResult *result);
extern void result_array_restore(SortResult *result);

/* Begins a result of sorted keys. */
extern SortResult *result_keys_begin(KeysResult *result, SortEnv *env, const KeyBuffer *keybuf,
									 const Sorted *sorted);

/* end of results that hold nothing. */
extern void result_holds_nothing(SortResult *result);

/* ------------------------------------------------------------------------
 * Runs on disk, for sorts larger than work_mem
 * ------------------------------------------------------------------------
 */

typedef struct Runs
{
	MemoryContext cxt;			/* file and arrays; NULL: no run yet */
	SpillFile  *file;			/* NULL: nothing has been written */
	SpillRun  **runs;			/* in input order */
	int			n;
	int			capacity;
	KeyRange	ranges[KEY_MAX_COLUMNS];	/* of all runs' rows */
	bool		extendable;		/* presorted rows may extend the last run */
	uint64		last_normkey[KEY_MAX_COLUMNS];	/* of its last row */
	bool		last_null[KEY_MAX_COLUMNS]; /* NULLs of its last row */
	instr_time	opened;			/* when writing the current run began */
	dlist_head	sources;		/* RunSources (runs not in the file); owned */
	bool		failed;			/* rows of a source are lost */
	bool		coded;			/* the next run will be coded */

	SortEnv    *env;
	KeyBuffer  *keybuf;			/* key buffer of the batch */
	KeyLayout	layout;			/* layout of the keys during merges */
} Runs;

/* Begins a sort. */
extern void runs_begin(Runs *runs, SortEnv *env, KeyBuffer *keybuf);

/*
 * Writes a sorted batch as the next run.  Presorted input that continues the last run is
 * appended to it.
 */
extern void runs_write(Runs *runs, const Batch *batch, const Sorted *sorted);

/*
 * Opens a new run, or the last run again, for a caller that writes rows itself.  The
 * caller adds the rows' key ranges to runs->ranges, and passes the returned memory
 * context to runs_close().
 */
extern MemoryContext runs_open(Runs *runs, RunWriter *writer, bool last);
extern void runs_close(Runs *runs, RunWriter *writer, MemoryContext old);

/*
 * Adds a run whose rows come from a source.  bytes is their size.  Takes ownership of the
 * source.  The caller adds the key ranges to runs->ranges.
 */
extern void runs_add_source(Runs *runs, RunSource *source, uint64 bytes);

/* Checks for interrupts and shows progress; call every ROWS_PER_INTERRUPT_CHECK rows. */
extern void runs_pause(Runs *runs, uint64 rows);

/* Merges all runs into a result, whose failed may already be set. */
extern SortResult *runs_result(Runs *runs, ResultSpace *space);

/* Closes the file and frees all memory. */
extern void runs_end(Runs *runs);

/*
 * Merges runs[0..nruns) of a file.  Among equal rows an earlier run comes first.  The
 * space of runs is freed as they are read.  The keys of the rows have the layout; keybuf
 * is working memory for making them.  The merge uses env->recs and env->scratch.
 */
extern void merge_begin(Merge *merge, SortEnv *env, KeyBuffer *keybuf, const KeyLayout *layout,
						SpillFile *file, SpillRun **runs, int nruns);

extern void merge_end(Merge *merge);

/*
 * How many of the runs can be merged at once in the sort's memory; at least 6.  The last
 * merge takes more runs, and reads them in smaller pieces, so that fewer rows are merged
 * before it.
 */
extern int	merge_fan_in(const SortEnv *env, const KeyLayout *layout, const SpillFile *file,
						 SpillRun *const *runs, int nruns, bool last);

/* ------------------------------------------------------------------------
 * Bounded sort by insertion (top_rows.c)
 * ------------------------------------------------------------------------
 */

/* Larger bounds are sorted in batches. */
#define TOP_ROWS_MAX	((size_t) 1 << 20)

/* Row numbers in a block of the order. */
#define TOP_BLOCK_ROWS	255

/* One of the first rows so far.  Its index in TopRows.rows is its number. */
typedef struct TopRow
{
	/* normalized key of the first column, if used */
	uint64		key;

	/*
	 * The first column.  If it is passed by reference: its offset in the row.
	 */
	Datum		value;
	uint32		rid;
	bool		null;			/* the first column is NULL */
} TopRow;

/* A block of the order: row numbers in sort order. */
typedef struct TopBlock
{
	uint32		n;				/* not 0 for a block of the order */
	uint32		rows[TOP_BLOCK_ROWS];
} TopBlock;

/* A row in the arena.  If rows[row].rid differs from rid, the row has been dropped. */
typedef struct TopStored
{
	uint32		rid;
	uint32		row;			/* number of the row when it was stored */
} TopStored;

typedef struct TopRows
{
	bool		on;				/* this sort uses insertion */
	SortEnv    *env;
	Batch	   *batch;			/* arena with the rows; empty key buffer */
	size_t		bound;
	size_t		n;				/* rows, at most bound */

	TopRow	   *rows;			/* in no order */
	size_t		capacity;		/* rows that fit the arrays; at most bound */
	TopBlock   *blocks;			/* blocks of the order, and free blocks */
	uint32	   *order;			/* block numbers at [begin, begin + nblocks) */
	size_t		begin;
	size_t		nblocks;
	uint32	   *free;			/* stack of the numbers of free blocks */
	size_t		nfree;
	TopStored  *stored;			/* all rows in the arena, ordered by row id */
	size_t		nstored;
	Size		bytes;			/* size of the arrays */

	bool		by_reference;	/* the first column is by reference */
	bool		use_keys;		/* compare normalized keys of the first column */
	bool		keys_exact;		/* equal normalized keys mean equal values */
	bool		at_front;		/* the previous row became the first */

	/* inserted as first or last, while n < bound */
	size_t		at_ends;
	bool		strings;		/* first column: string with collation */
	uint32		compared;		/* comparisons since decide_use_of_keys() */
	uint32		tied;			/* comparisons of equal keys among them */
	int			useless;		/* consecutive prefixes that did not help */
} TopRows;

/*
 * Bytes of rows from which on a bounded sort drops unwanted rows as soon as it has twice
 * the wanted number: touching more memory would cost more than dropping.
 */
#define BOUNDED_CUT_BYTES	((Size) 4 * 1024 * 1024)

typedef enum TopAnswer
{
	TOP_TAKEN,					/* stored, or dropped as not wanted */

	/* not taken: no memory, or batches are faster */
	TOP_FULL
} TopAnswer;

/* Begins a bounded sort.  Sets top->on if insertion suits it. */
extern void top_rows_begin(TopRows *top, SortEnv *env, Batch *batch);

/* Takes a row in a slot whose key columns are deformed, or row i of a page with its keys. */
extern TopAnswer top_rows_put_slot(TopRows *top, TupleTableSlot *slot);
extern TopAnswer top_rows_put_page(TopRows *top, RowPage *page, int i, PageKeyPlaces where);

/*
 * The normalized key of the last wanted row.  False while there are fewer rows than
 * wanted, if keys are not used, or if it is NULL.
 */
extern bool top_rows_limit(const TopRows *top, uint64 *limit);

/*
 * Writes the keys of the rows to the batch's key buffer.  No more rows can be put, but
 * top_rows_order() still works.
 */
extern void top_rows_buffer_keys(TopRows *top);

/* Row id of the last row in sort order. */
extern uint32 top_rows_last(const TopRows *top);

/* All rows in sort order. */
extern void top_rows_order(TopRows *top, Sorted *sorted);

/* Ends the sort; keeps the memory of a small one. */
extern void top_rows_end(TopRows *top);

/* ------------------------------------------------------------------------
 * Sinks: where the rows of a sort go
 *
 * A sink takes rows until it is full.  It does not know what follows: the sorter decides,
 * and chooses the next sink.  There is a sink for each mode of a sort, so that no row
 * costs a test of the mode.
 * ------------------------------------------------------------------------
 */

typedef enum SinkAnswer
{
	SINK_TAKEN,
	SINK_FULL,					/* the row was not taken */
	SINK_FAILED					/* rows that the sink had are lost */
} SinkAnswer;

typedef struct Sink Sink;

typedef struct SinkMethods
{
	/* Takes a row.  Its key columns are deformed. */
	SinkAnswer	(*put_slot) (Sink *sink, TupleTableSlot *slot);

	/*
	 * Takes the page's rows from *done on; advances *done by the rows taken.
	 * The sorter puts the rows that a sink has left one by one.
	 */
	SinkAnswer	(*put_page) (Sink *sink, RowPage *page, int *done);

	/*
	 * Writes all rows as a run.  A sink with rows on a device may instead
	 * move them into the batch, before the batch's rows, if there is no run
	 * yet and memory has room. Never SINK_FULL.
	 */
	SinkAnswer	(*spill) (Sink *sink, Runs *runs);

	/* All rows are in, and there is no run: makes the result. */
	SortResult *(*finish) (Sink *sink, bool may_pause, ResultSpace *space);

	/* Frees what the sink owns outside the batch; the sorter owns the batch. */
	void		(*end) (Sink *sink);

	/*
	 * Optional: only for sinks that keep rows outside the batch.  The sink is
	 * full; makes room in another part.  SINK_FULL: the sorter must drain the
	 * sink to the host.
	 */
	SinkAnswer	(*next_part) (Sink *sink, Runs *runs);

	/*
	 * Required with next_part.  All rows are in: parts become sources of the
	 * last merge where they lie.  A single part without runs before it is
	 * left to finish().
	 */
	void		(*merge_parts) (Sink *sink, Runs *runs);
} SinkMethods;

struct Sink
{
	const SinkMethods *methods;
	SortEnv    *env;
	Batch	   *batch;
};

/* Resets the batch after it was written as a run. */
extern void sink_batch_spilled(Sink *sink);

/*
 * The sink of a bounded sort.  The threshold is the last wanted row so far: a row that
 * does not sort before it is dropped.
 */
typedef struct BoundedSink
{
	Sink		base;
	bool		have_threshold;
	bool		early;			/* the threshold's row comes again: rows equal to
								 * it are taken */
	uint64		threshold[KEY_MAX_COLUMNS]; /* its normalized keys */
	bool		threshold_null[KEY_MAX_COLUMNS];
	bool		threshold_inexact[KEY_MAX_COLUMNS]; /* equal keys may differ */

	/* needs the comparator */
	bool		threshold_compared[KEY_MAX_COLUMNS];
	BulkBuf		threshold_row;	/* the row, unless its keys suffice */
	BulkBuf		kept;			/* working memory of batch_keep() */
	pg_atomic_uint64 *shared_threshold; /* least of all participants */
	TopRows		top;			/* has the rows if top.on */
} BoundedSink;

/* Begins a sort with env->bound.  shared_threshold is NULL if one process sorts. */
extern void sink_bounded_begin(BoundedSink *sink, SortEnv *env, Batch *batch, pg_atomic_uint64 *shared_threshold);

/* All rows are in: writes the keys of the kept rows to the key buffer. */
extern void sink_bounded_buffer_keys(BoundedSink *sink);

/*
 * The rows so far will come again: forgets them.  The last wanted row becomes the
 * threshold.  False if there were fewer rows than wanted.
 */
extern bool sink_bounded_early_threshold(BoundedSink *sink);

/* Does the sink keep rows outside the batch? */
static inline bool
sink_is_offloaded(const Sink *sink)
{
	return sink->methods->next_part != NULL;
}

/* ------------------------------------------------------------------------
 * Offloading: the interface to devices
 *
 * src/gpu implements it and registers it when the library is loaded, so that the engine
 * includes nothing of the GPU.  After a failure the sort continues on the CPU: keys are
 * still in the batch; rows come again from the child (sorter_begin_again()).
 * ------------------------------------------------------------------------
 */

/* Why a sort was not offloaded. */
typedef struct OffloadRefusal
{
	DeviceState device;
	const char *why_not;
} OffloadRefusal;

typedef struct SortOffload
{
	/* State of the devices, for RouteFacts. */
	DeviceState (*state) (void);

	/* Buffered rows at which begin_keys() is first tried; SIZE_MAX: never. */
	size_t		(*keys_after) (const SortEnv *env, const KeyBuffer *keybuf);

	/* Buffered bytes at which begin_rows() is first tried if a device is ready. */
	Size		rows_after;

	/*
	 * A job to which keys are sent ahead while rows are buffered in the
	 * batch; NULL: not now.
	 */
	OffloadJob *(*begin_keys) (SortEnv *env, Batch *batch);

	/*
	 * Sends the buffered keys as far as they fill whole chunks.  Sets
	 * *ask_rows to the number of rows that fill the next.  False if sending
	 * stops; the caller abandons the job.
	 */
	bool		(*send_keys) (OffloadJob *job, size_t *ask_rows);

	/*
	 * Copies the rows of the batch to a device; the sink takes the following
	 * rows there. NULL: not now.  *allowed becomes false if the caller should
	 * not try again.
	 */
	Sink	   *(*begin_rows) (SortEnv *env, Batch *batch, bool *allowed);

	/*
	 * As order_batch(), with the layout of the keys.  Called if a device is
	 * ready or idle, or with early.  False if the sort stays on the host:
	 * sets *refusal, and has ended early.
	 */
	bool		(*sort_keys) (SortEnv *env, Batch *batch, OffloadJob *early,
							  const KeyLayout *layout, bool may_stream, Sorted *sorted,
							  OffloadJob **streaming, OffloadRefusal *refusal);

	/*
	 * Gets further rows of a result that sort_keys() has begun: they follow
	 * the rows of the array, or replace them.  False at the end, or with
	 * *failed if the device failed; then array->pos counts all rows that were
	 * returned.
	 */
	bool		(*more_keys) (OffloadJob *job, ArrayResult *array, bool *failed);

	/*
	 * After that failure: an ERROR unless the first rows of the batch, which
	 * the engine has sorted, are those that were returned.
	 */
	void		(*check_returned) (OffloadJob *job, const Sorted *sorted, size_t returned);

	/* Abandons a job. */
	void		(*end_keys) (OffloadJob *job);
} SortOffload;

/* The implementation, which src/gpu sets; before, one that refuses all sorts. */
extern const SortOffload *sort_offload;

/* ------------------------------------------------------------------------
 * Sorting threads of the backend
 * ------------------------------------------------------------------------
 */

/*
 * The thread team for a sort of n records by one of participants processes; NULL: the
 * backend sorts alone.  The threads count against gpusort.max_threads until
 * sort_threads_ended() or sort_threads_release().
 */
extern SortTeam *sort_threads(size_t n, int participants);

extern void sort_threads_release(void);

/*
 * SortProblem.interrupted, with the team as its argument.  Without a team it processes
 * interrupts.  With a team it returns true on a cancel or termination, which
 * sort_threads_ended() raises when the threads have stopped.
 */
extern bool sort_threads_interrupted(void *team);

/* Releases the threads after a kernel; raises an error unless the status is SORT_OK. */
extern void sort_threads_ended(SortStatus status, const char *algorithm);

/* ------------------------------------------------------------------------
 * gpusort.verify: checks of results
 * ------------------------------------------------------------------------
 */

/* What can be wrong with a record or a row. */
#define VERIFY_NOT_FROM_INPUT	"is not one of the input, or comes twice"

/* Raises an error if the packed keys contradict keybuf->input_order. */
extern void verify_input_order(const KeyBuffer *keybuf, const KeyOrder *order);

/*
 * Raises an error unless the result of the problem is in order, stable, and a
 * permutation of the rows of the batch.  layout is the layout of its keys.
 */
extern void verify_problem(const Batch *batch, const KeyLayout *layout, const SortProblem *problem,
						   const char *kernel);

/*
 * The same for row ids that a device has sorted, with ties resolved.  equal_bit: the device
 * has dropped rows whose keys are equal from this bit on; -1: it has all rows.  False, and
 * the reason in why[128], if they are wrong.
 */
extern bool verify_rids(SortEnv *env, const Batch *batch, const KeyLayout *layout,
						const uint32 *rids, size_t n, int equal_bit, char *why);

#endif							/* GPUSORT_SORT_SORT_INTERNAL_H */
