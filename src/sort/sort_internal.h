/*
 * sort_internal.h
 *	  What the engine's modules share, and what a GPU path implements.
 *
 * Set when the sort begins; what changes after that is noted beside it.
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
#include "store/arena.h"
#include "store/memory.h"
#include "store/row.h"
#include "store/run.h"
#include "tiebreak/tiebreak.h"

/* Rows between two looks at interrupts where rows are written or read in bulk. */
#define ROWS_PER_INTERRUPT_CHECK	4096

/* Up to so many rows a sort reads no clock, which it could not afford, but for EXPLAIN. */
#define SORT_TIMED_ROWS	1000

/* Batches of up to this many rows keep their memory for the next execution of the node. */
#define SORT_SMALL_ROWS	4096

/* Memory counts as exhausted when less than 1/MEMORY_PARTS of it is free. */
#define MEMORY_PARTS	64

typedef struct SortEnv
{
	SortSpec	spec;
	MemoryContext cxt;			/* of all that lives as long as the sorter */
	BulkOwner  *bulk;
	KeyWriter	keys;			/* of the batch */
	RowWriter  *writer;
	TieBreak   *tiebreak;
	Progress	progress;		/* for others to see; counts the rows that came in */

	/* of the sort that is under way */
	Size		limit;			/* bytes that rows and keys may take */
	size_t		bound;			/* rows wanted; 0: all, also where the wanted ones are
								 * too many to be kept in memory */
	double		rows_expected;
	Size		beside;			/* bytes that a sink has beside the batch */
	bool		device_failed;	/* the GPU is not tried again */
	bool		timed;			/* the clock is read */

	/* records and kernels' scratch; a result may lie in either */
	BulkBuf		recs;
	BulkBuf		scratch;
	ByteDictionaries byte_dictionary;		/* key_layout_narrow() */

	TupleTableSlot *row_slot;	/* sort_env_slot() */
	DecodedKeys *decoded;		/* key_reader.c's */
	SortReport	report;
} SortEnv;

/* A slot for stored rows that pass through the sort. */
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

/* So many bytes are in use, the sort's own arrays, and what a sink has beside the batch. */
static inline void
sort_env_note_memory(SortEnv *env, Size bytes)
{
	Size		used = bytes + env->recs.requested + env->scratch.requested + env->beside;

	env->report.memory_peak = Max(env->report.memory_peak, used);
}

/* The time if phases are timed, otherwise nothing. */
static inline void
sort_env_clock(const SortEnv *env, instr_time *t)
{
	if (env->timed)
		INSTR_TIME_SET_CURRENT(*t);
	else
		INSTR_TIME_SET_ZERO(*t);
}

/* ------------------------------------------------------------------------
 * Rows and their staged keys: what one sort, or one run of it, is made of.
 *
 * A batch has one writer.  Rows are named by rids, keys by their place, and what
 * has been seen of the keys' ranges is noted with them, so that a batch means
 * something to whoever can map its memory.  Nothing points out of it: whose that memory is and
 * what images are made with its writer brings along (StageWriter).  Of a sort whose rows are
 * their keys it holds keys alone.
 *
 * Memory: what rows and the stage's arrays take, and what sorting will take, is counted
 * row by row (batch_taken); keeping it below a limit is the sink's business.
 * ------------------------------------------------------------------------
 */

typedef struct Batch
{
	Arena		arena;
	KeyBuffer	keybuf;			/* has the ranges, too */
	Size		limit;			/* bytes that it and sorting it may take */
	Size		sort_cost;		/* of them, per row, what is not staged */
	size_t		max_rows;		/* to stage and sort at once */
	size_t		expected;		/* to come; 0: a few */
} Batch;

extern void batch_init(Batch *batch, const KeyColumn *keys, int nkeys, bool keys_only);

/* Before the rows of a sort. */
extern void batch_begin(Batch *batch, Size limit, bool bounded, double rows_expected);

/*
 * Room in the stage for some more rows; false if the rows that are there have to
 * be sorted before.
 */
extern bool batch_key_room(Batch *batch, BulkOwner *owner, size_t rows);

/* Forgets the rows, keeps the memory. */
extern void batch_reset(Batch *batch, BulkOwner *owner);

/* Gives all memory back. */
extern void batch_free(Batch *batch, BulkOwner *owner);

/* Forgets the rows; keeps what a small sort needs, gives a large one's memory back. */
extern void batch_trim(Batch *batch, BulkOwner *owner);

/* Gives up the staged keys of a large sort. */
extern void batch_free_keys(Batch *batch, BulkOwner *owner);

/* Takes all rows of a direct page; false, and none, if they may go beyond the limit. */
extern bool batch_put_page(Batch *batch, const KeyWriter *keys, RowPage *page);

/* Takes row i of a direct page, whose keys lie there; false if there is no room. */
extern bool batch_put_page_row(Batch *batch, const KeyWriter *keys, RowPage *page, int i,
							   PageKeyPlaces where);

/* Takes the keys of the page's rows from first on; likewise. */
extern bool batch_put_page_keys(Batch *batch, const KeyWriter *keys, RowPage *page, int first);

/* The memory that is taken, and that sorting what is there will take. */
static inline Size
batch_taken(const Batch *batch)
{
	return arena_used(&batch->arena) + batch->keybuf.bytes + batch->keybuf.n * batch->sort_cost;
}

/* What rows and keys take now. */
static inline Size
batch_held(const Batch *batch)
{
	return arena_used(&batch->arena) + batch->keybuf.bytes;
}

/* Bytes per row to stage and sort its key. */
static inline Size
batch_key_cost(const Batch *batch)
{
	return batch->keybuf.row_bytes + batch->sort_cost;
}

/* Takes the slot's row, whose key columns are deformed; false if there is no room. */
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

/* Takes its keys alone; likewise. */
static inline bool
batch_put_key(Batch *batch, const KeyWriter *keys, TupleTableSlot *slot)
{
	KeyBuffer  *keybuf = &batch->keybuf;

	if (unlikely(keybuf->n == keybuf->capacity) && !batch_key_room(batch, keys->owner, 1))
		return false;
	keybuf_row(keybuf, keys, slot->tts_values, slot->tts_isnull, 0);
	return true;
}

/* ------------------------------------------------------------------------
 * A batch in order: pack, route, run a kernel or ask the device, break ties.
 * ------------------------------------------------------------------------
 */

/* What came of it; in env->recs or env->scratch. */
typedef struct Sorted
{
	size_t		n;
	const uint32 *rids;			/* NULL where keys are all there is: then */
	const void *keys;			/* these, SORT_REC_PACKED without rids or SORT_REC_128 */
	SortRecFormat format;
	KeyLayout	layout;
} Sorted;

struct OffloadJob;

/*
 * Sorts the rows of the batch.  early is an offload job that already has some of their
 * keys, or NULL; the function takes it over.
 *
 * may_stream: the caller reads the result forward from its beginning and leaves the
 * batch unchanged meanwhile.  Then the function may return a job: *sorted is the first
 * part of the result, and SortOffload.stream_keys completes it.
 */
extern struct OffloadJob *order_batch(SortEnv *env, Batch *batch, struct OffloadJob *early,
									  bool may_stream, Sorted *sorted);

/* order_batch()'s outcome as a result; keys are given up when they are not needed. */
extern SortResult *order_result(SortEnv *env, Batch *batch, struct OffloadJob *early,
							bool may_stream, ResultSpace *space);

/* ------------------------------------------------------------------------
 * Sorts larger than work_mem: runs on disk.
 * ------------------------------------------------------------------------
 */

typedef struct Runs
{
	MemoryContext cxt;			/* of the file and all that belongs to it */
	SpillFile  *file;			/* NULL: nothing has been written */
	SpillRun  **runs;			/* in the order of their rows' input */
	int			n;
	int			capacity;
	KeyRange	ranges[KEY_MAX_COLUMNS];	/* of all rows in them */
	bool		goes_on;		/* rows that come in order behind the last may be added to it: */
	uint64		last[KEY_MAX_COLUMNS];	/* its last row's images, */
	bool		last_null[KEY_MAX_COLUMNS];	/* or NULL */
	instr_time	opened;			/* the run that is being written */
	dlist_head	sources;		/* of runs that are not in the file */
	bool		failed;			/* one of them is */

	SortEnv    *env;
	KeyBuffer  *keybuf;			/* the batch's */
	KeyLayout	layout;			/* of the merge's keys */
} Runs;

/* Before the first run of a sort. */
extern void runs_begin(Runs *runs, SortEnv *env, KeyBuffer *keybuf);

/*
 * Writes what order_batch() made of the batch as the next run, or, where the input is in
 * order, behind the rows of the last.
 */
extern void runs_write(Runs *runs, const Batch *batch, const Sorted *sorted);

/*
 * A run of rows from elsewhere, or the last one once more; the caller adds their keys'
 * ranges, and keeps the old memory context.
 */
extern MemoryContext runs_open(Runs *runs, RunWriter *writer, bool last);
extern void runs_close(Runs *runs, RunWriter *writer, MemoryContext old);

/* A source's rows, of so many bytes, are the next run, and the source is ours; the ranges as above. */
extern void runs_add_source(Runs *runs, RunSource *source, uint64 bytes);

/* After each ROWS_PER_INTERRUPT_CHECK of a run's rows: may be interrupted, says how many. */
extern void runs_pause(Runs *runs, uint64 rows);

/* The merge of them all; its result may be lost at once. */
extern SortResult *runs_result(Runs *runs, ResultSpace *space);

/* Gives up file and memory. */
extern void runs_end(Runs *runs);

/* ------------------------------------------------------------------------
 * Bounded sorts by insertion: the wanted rows are kept in their order.
 * ------------------------------------------------------------------------
 */

/* Larger bounds are sorted in batches. */
#define TOP_ROWS_MAX	((size_t) 1 << 20)

/* Rows in a block of the order. */
#define TOP_BLOCK_ROWS	255

/* A row that is wanted. */
typedef struct TopRow
{
	uint64		key;			/* the first column's normalized key, if keys are used */
	Datum		value;			/* its value; of a type by reference, its offset in the row */
	uint32		rid;
	bool		null;			/* it is NULL */
} TopRow;

/* A part of the order: numbers of rows, one behind the other. */
typedef struct TopBlock
{
	uint32		n;				/* none of the order's blocks is empty */
	uint32		rows[TOP_BLOCK_ROWS];
} TopBlock;

/* A row that was stored, by its entry in TopRows.rows, which may have another row by now. */
typedef struct TopStored
{
	uint32		rid;
	uint32		row;
} TopStored;

typedef struct TopRows
{
	bool		on;				/* the sort's rows are here */
	SortEnv    *env;
	Batch	   *batch;			/* its arena has the rows; nothing is staged */
	size_t		bound;
	size_t		n;				/* rows, at most the bound */

	TopRow	   *rows;			/* in no order */
	size_t		capacity;		/* rows that arrays have room for; they grow up to the bound */
	TopBlock   *blocks;			/* of the order, and free ones */
	uint32	   *order;			/* numbers of blocks, from begin on in the sort's order */
	size_t		begin;
	size_t		nblocks;		/* in the order */
	uint32	   *free;			/* a stack of the other blocks' numbers */
	size_t		nfree;
	TopStored  *stored;			/* every row that the arena has, in the order of rids */
	size_t		nstored;
	Size		bytes;			/* of these arrays */

	bool		by_reference;	/* the first column's type is */
	bool		use_keys;		/* normalized keys of the first column are made */
	bool		keys_exact;		/* ... and equal ones are equal values */
	bool		at_front;		/* the last row became the first */
	size_t		at_ends;		/* rows that became the first or the last, while there were too few */
	bool		strings;		/* the first column's values are, and have a collation */
	uint32		compared;		/* keys, since use of them was last thought about, */
	uint32		tied;			/* and of them those that did not decide */
	int			useless;		/* how often in succession a better prefix was not found */
} TopRows;

/*
 * From so many bytes of rows on, a bounded sort gives up those that are not wanted when there are twice as
 * many as are wanted: memory costs more than that.
 */
#define BOUNDED_CUT_BYTES	((Size) 4 * 1024 * 1024)

typedef enum TopAnswer
{
	TOP_TAKEN,					/* the row is kept, or behind all that are wanted */
	TOP_FULL					/* the row is not taken: memory is full, or a batch does better */
} TopAnswer;

/* Begins a sort with a bound, if it is one that this is good for; otherwise top->on is false. */
extern void top_rows_begin(TopRows *top, SortEnv *env, Batch *batch);

/* A row in a slot whose key columns are deformed; or row i of a page, whose keys lie there. */
extern TopAnswer top_rows_put_slot(TopRows *top, TupleTableSlot *slot);
extern TopAnswer top_rows_put_page(TopRows *top, RowPage *page, int i, PageKeyPlaces where);

/* The last row's key, if there are as many rows as wanted and keys decide; otherwise false. */
extern bool top_rows_limit(const TopRows *top, uint64 *limit);

/* Stages the rows' keys.  Rows can be put no more, but top_rows_order() still has them. */
extern void top_rows_stage(TopRows *top);

/* The last row's rid. */
extern uint32 top_rows_last(const TopRows *top);

/* All rows in their order. */
extern void top_rows_order(TopRows *top, Sorted *sorted);

/* Ends the sort; the memory of a small one is kept. */
extern void top_rows_end(TopRows *top);

/* ------------------------------------------------------------------------
 * Where a sort's rows go.
 *
 * A sink takes rows until it cannot, and says so; it does not know what comes
 * after it.  What a sort does then, and with which sink it goes on, is decided in one
 * place (sorter.c).  A sink is chosen for a mode, so that a row costs no test for others.
 * ------------------------------------------------------------------------
 */

typedef enum SinkAnswer
{
	SINK_TAKEN,
	SINK_FULL,					/* it has no room for this row, which it has not taken */
	SINK_FAILED					/* what it had is gone */
} SinkAnswer;

typedef struct Sink Sink;

typedef struct SinkMethods
{
	/* A row, whose key columns are deformed. */
	SinkAnswer	(*put_slot) (Sink *sink, TupleTableSlot *slot);

	/* The page's rows from *done on; *done counts those taken. */
	SinkAnswer	(*put_page) (Sink *sink, RowPage *page, int *done);

	/*
	 * Makes a run of what is there; or of a device's rows, if there is no run yet and
	 * memory has room for them, the batch's first.  Not FULL.
	 */
	SinkAnswer	(*spill) (Sink *sink, Runs *runs);

	/* All rows are in, none in runs: the result. */
	SortResult *(*finish) (Sink *sink, bool may_pause, ResultSpace *space);

	/* Frees what the sink owns outside the batch; the sorter owns the batch. */
	void		(*end) (Sink *sink);

	/*
	 * Only of sinks that keep rows outside the batch.  next_part: the sink is FULL; makes
	 * room in another part.  FULL: the sorter must drain the sink to the host.
	 */
	SinkAnswer	(*next_part) (Sink *sink, Runs *runs);

	/*
	 * All rows are in: parts become sources of the last merge where they lie.  A single
	 * part without runs before it is left to finish().
	 */
	void		(*merge_parts) (Sink *sink, Runs *runs);

	/* Only of sinks that send keys ahead: has sending stopped?  The batch has all keys. */
	bool		(*stopped) (const Sink *sink);
} SinkMethods;

struct Sink
{
	const SinkMethods *methods;
	SortEnv    *env;
	Batch	   *batch;
};

/* sink_host.c, sink_keys.c: rows, or keys that are all there is, in memory. */
typedef struct HostSink
{
	Sink		base;
	size_t		ask_rows;		/* FULL at so many, that a device may be asked */
} HostSink;

extern void sink_host_init(HostSink *sink, SortEnv *env, Batch *batch);
extern void sink_keys_init(HostSink *sink, SortEnv *env, Batch *batch);

/* Is there no place for another row? */
static inline bool
sink_host_full(const HostSink *sink)
{
	const Batch *batch = sink->base.batch;

	return batch->keybuf.n >= sink->ask_rows || batch_taken(batch) > batch->limit;
}

/*
 * Takes all rows of the page with one check of memory; false if they may not fit, or
 * are not ordinary: such a page goes in row by row.
 */
extern bool sink_host_take_page(HostSink *sink, RowPage *page, int *done);
extern bool sink_keys_take_page(HostSink *sink, RowPage *page, int *done);

/* Writes the batch as a run; early as in order_batch(). */
extern void sink_spill_batch(Sink *sink, struct OffloadJob *early, Runs *runs);

/* The batch is a run now: forgets it. */
extern void sink_batch_spilled(Sink *sink);

/* put_page by put_slot. */
extern SinkAnswer sink_put_rows(Sink *sink, RowPage *page, int *done);

/* sink_bounded.c: no more rows than are wanted, about. */
typedef struct BoundedSink
{
	Sink		base;
	bool		have_threshold; /* no row is wanted that goes behind this one: */
	uint64		threshold[KEY_MAX_COLUMNS];
	bool		threshold_null[KEY_MAX_COLUMNS];
	bool		threshold_inexact[KEY_MAX_COLUMNS];	/* it may be */
	bool		threshold_dear[KEY_MAX_COLUMNS];	/* the column takes a comparator */
	BulkBuf		threshold_row;	/* if images do not tell all */
	BulkBuf		kept;			/* cut(): a bit for each rid that stays */
	pg_atomic_uint64 *others;	/* the least threshold[0] of any participant; NULL */
	TopRows		top;			/* if it is on, the rows are there */
} BoundedSink;

extern void sink_bounded_init(BoundedSink *sink, SortEnv *env, Batch *batch);

/* Begins a sort that has env->bound; others is what participants share, or NULL. */
extern void sink_bounded_begin(BoundedSink *sink, pg_atomic_uint64 *others);

/* All rows are in: stages the keys of those that are kept. */
extern void sink_bounded_stage(BoundedSink *sink);

/* Does the sink keep rows outside the batch? */
static inline bool
sink_is_offloaded(const Sink *sink)
{
	return sink->methods->next_part != NULL;
}

/* ------------------------------------------------------------------------
 * Offloading: how another room takes over part of a sort.
 *
 * The engine works without it.  The GPU room implements the interface and registers it
 * when the library is loaded, so that the engine includes nothing of the GPU.  An
 * offloaded sort that fails continues on the CPU: keys are still in the batch; rows
 * come again from the child (sorter_begin_again()).
 * ------------------------------------------------------------------------
 */

/* Why a sort was not offloaded. */
typedef struct OffloadRefusal
{
	DeviceState device;
	const char *why_not;
} OffloadRefusal;

typedef struct OffloadJob OffloadJob;

typedef struct SortOffload
{
	/* State of the devices, for the router's facts. */
	DeviceState (*state) (void);

	/* Buffered rows at which begin_keys() is first tried; SIZE_MAX: never. */
	size_t		(*keys_after) (const SortEnv *env, const KeyBuffer *keybuf);

	/* Buffered bytes at which begin_rows() is first tried. */
	Size		(*rows_after) (const SortEnv *env);

	/* A sink that sends keys ahead while rows are buffered in the batch; NULL: not now. */
	Sink	   *(*begin_keys) (SortEnv *env, Batch *batch);

	/*
	 * Moves the rows of the batch to a device; the sink takes the following rows there.
	 * NULL: not now; *allowed becomes false if there is no use in trying again.
	 */
	Sink	   *(*begin_rows) (SortEnv *env, Batch *batch, bool *allowed);

	/*
	 * As order_batch(), with the layout of the keys.  False, and *refusal, if the sort
	 * stays on the host; then early has been ended.
	 */
	bool		(*sort_keys) (SortEnv *env, Batch *batch, OffloadJob *early,
							  const KeyLayout *layout, bool may_stream, Sorted *sorted,
							  OffloadJob **streaming, OffloadRefusal *refusal);

	/* The job appends to the result, or replaces the part that was read. */
	void		(*stream_keys) (SortResult *result, OffloadJob *job);

	void		(*end_keys) (OffloadJob *job);
} SortOffload;

/* The registered implementation; before registration one that refuses all sorts. */
extern const SortOffload *sort_offload;

extern void sort_offload_register(const SortOffload *offload);

/* ------------------------------------------------------------------------
 * Batches that need no sort.
 * ------------------------------------------------------------------------
 */

/* ------------------------------------------------------------------------
 * The backend's team of sorting threads.
 * ------------------------------------------------------------------------
 */

/* How many of so many processes run at once, as costs have it: two processors at least. */
extern double sort_abreast(double processes);

/*
 * Threads that each of so many participants (0: the only one) may have: all together no
 * more than the machine has processors, and the server may have worker processes.
 */
extern int	sort_threads_most(int participants);

/* For _PG_init: what all backends share. */
extern void sort_threads_init(void);

/*
 * The team for a sort of n records, which is one of so many at the same time (0: the
 * only one); NULL: the backend alone.  Its threads count among those that may run until
 * sort_threads_ended(), or sort_threads_release() if there is no such sort.
 */
extern SortTeam *sort_threads(size_t n, int participants);

extern void sort_threads_release(void);

/*
 * SortProblem.interrupted for a problem whose team is given as its argument.  The
 * backend alone raises what is pending at once; while threads run, a cancel or
 * termination is answered with true, and raised by the caller afterwards.
 */
extern bool sort_threads_interrupted(void *team);

/* Raises what it was that a kernel did not end with SORT_OK for. */
extern void sort_threads_ended(SortStatus status, const char *algorithm);

/* ------------------------------------------------------------------------
 * gpusort.verify: is a kernel's result right?
 * ------------------------------------------------------------------------
 */

/* What a record, or a row, may be found to be. */
#define VERIFY_NOT_FROM_INPUT	"is not one of the input, or comes twice"

/* Raises an error if the rows' packed keys are not in the order in which they were seen to come. */
extern void verify_input_order(const KeyBuffer *keybuf, const KeyOrder *order);

/*
 * Raises an error that says what was found unless the problem's result is in order,
 * stable, and a permutation of the batch's rows, whose keys have this layout.
 */
extern void verify_problem(const Batch *batch, const KeyLayout *layout, const SortProblem *problem,
						   const char *kernel);

/*
 * The same for rids that a device has sorted, and settled ties; false, and the
 * reason in why[128], if they are wrong.
 */
extern bool verify_rids(SortEnv *env, const Batch *batch, const KeyLayout *layout,
						const uint32 *rids, size_t n, char *why);

#endif							/* GPUSORT_SORT_SORT_INTERNAL_H */
