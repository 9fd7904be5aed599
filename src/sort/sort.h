/*
 * sort.h
 *	  The sort engine: a sorter takes rows, a result returns them in order.
 *
 * Written by the engine, and never read by it.
 */
#ifndef GPUSORT_SORT_SORT_H
#define GPUSORT_SORT_SORT_H

#include "postgres.h"

#include "access/htup_details.h"
#include "cost/cost.h"
#include "executor/tuptable.h"
#include "key/key.h"
#include "monitor/progress.h"
#include "port/atomics.h"
#include "portability/instr_time.h"
#include "store/arena.h"
#include "store/row.h"
#include "store/run.h"

/* A device's share of a sort in parts. */
typedef struct ReportDevice
{
	int			index;			/* CUDA's */
	int			parts;
	uint64		rows;
	double		sort_us;
} ReportDevice;

#define REPORT_DEVICES	16		/* shown, at most */

typedef struct SortReport
{
	uint64		rows;			/* rows that came in */
	uint64		page_rows;		/* of them, straight from their pages */
	Size		memory_peak;	/* bytes */
	uint64		disk_bytes;		/* of the temporary file, peak */
	int			runs;			/* written; 0: sorted in memory */
	int			key_bits;		/* of the last kernel run, after narrowing */
	bool		bounded;
	bool		inserted;		/* each row went to its place in the order at once */
	uint64		ties;			/* rows whose order took a comparison */
	bool		device_failed;	/* the GPU was tried and failed */
	uint64		device_rows;	/* rows that were on the GPU themselves */
	bool		sent_to_device;			/* ... and sorted there with other participants' */
	uint64		early_rows;		/* whose keys went there while others came in */
	uint64		bytes_up;		/* to the GPU and back */
	uint64		bytes_down;
	double		device_sort_us; /* of its kernels */
	ReportDevice devices[REPORT_DEVICES];	/* of sorts in parts, in the order of their first */
	int			parts;			/* of keys, or rows, that went in parts */
	int			parts_here;		/* of them, those that the CPU sorted */
	bool		sorted;			/* facts and decision are set */
	RouteFacts	facts;			/* of the last kernel run */
	RouteDecision decision;
	instr_time	ingest_time;	/* the child's time included */
	instr_time	sort_time;		/* kernels, ties, writing and merging runs */
	instr_time	spill_time;		/* of it, writing and merging runs */
	double		predicted_us;	/* kernels' runs for which there was a prediction, */
	instr_time	predicted_time; /* and the time that they took */
	bool		timed;			/* these times are set */
} SortReport;

/* ------------------------------------------------------------------------
 * The rows of a heap page, as a sort takes them all at once.
 *
 * Filled by whoever has such pages (node/scan/page_scan.c).  The rows lie as tuples
 * on their page and stay there until the sort has taken them.
 * ------------------------------------------------------------------------
 */

typedef struct RowPage RowPage;

/* The page that comes after this one. */
typedef struct PageAhead
{
	const char *page;			/* not pinned, only to be asked for; NULL: not known */
	int			step;			/* bytes of it to ask for with each row of this one; 0 */
	int			skip;			/* so many pages that are not looked for */
} PageAhead;

struct RowPage
{
	/* of every page */
	bool		whole;			/* rows are the tuples as they lie */
	RowPick    *pick;			/* or made so; or NULL */
	PageKeys	keys;
	int			nkeys;
	TupleWalk  *key_walk;		/* to keys in other than fixed places */

	/* Row i in a slot, until the next call. */
	TupleTableSlot *(*row) (RowPage *page, int i);

	/* of this one */
	int			n;
	bool		direct;			/* row_page_write() can be used */
	Size		bytes;			/* for which there has to be room, if so */
	PageAhead	ahead;
	HeapTupleHeader tuples[MaxHeapTuplesPerPage];
	uint16		lens[MaxHeapTuplesPerPage];
};

/* Where the keys of a page's rows lie, by column; NULL is one. */
typedef const char *PageKeyPlaces[KEY_MAX_COLUMNS][MaxHeapTuplesPerPage];

/* Finds those of rows [first, page->n). */
extern void row_page_find_keys(const RowPage *page, int first, PageKeyPlaces where);

/*
 * Stages the keys of rows [first, page->n) as the stage's from place at on, for
 * which there is room, and does not count them.
 */
extern void row_page_keys_to_buffer(RowPage *page, int first, KeyBuffer *keybuf, const KeyWriter *writer, size_t at);

/*
 * Asks for the next page's memory, as much as is row i's share: all at once would wait.  Into
 * the second cache, which has more loads under way than the first.  Always inline, or it is
 * taken for a function that does nothing.
 */
static pg_attribute_always_inline void
page_ahead_ask(const PageAhead *ahead, int i)
{
	const char *from = ahead->page + i * ahead->step;

	for (int at = 0; at < ahead->step; at += 64)
		__builtin_prefetch(from + at, 0, 2);
}

/* Where a tuple's columns begin. */
static inline const char *
row_page_data(const RowPage *page, int i)
{
	return (const char *) page->tuples[i] + page->tuples[i]->t_hoff;
}

/* Room that row i of a direct page needs: at least what it will take. */
static inline Size
row_page_room(const RowPage *page, int i)
{
	return page->whole ? MAXALIGN(page->lens[i] - MINIMAL_TUPLE_OFFSET) :
		row_pick_room(page->pick, page->tuples[i], page->lens[i]);
}

/* Writes it as a MinimalTuple; returns how many bytes it takes, MAXALIGN'ed. */
static inline Size
row_page_write(const RowPage *page, int i, char *row)
{
	page_ahead_ask(&page->ahead, i);
	if (page->whole)
		return row_copy(row, (const char *) page->tuples[i] + MINIMAL_TUPLE_OFFSET,
						(Size) page->lens[i] - MINIMAL_TUPLE_OFFSET);
	return row_pick(page->pick, page->tuples[i], page->lens[i], row);
}

/* ------------------------------------------------------------------------
 * Sorted keys that are the rows, decoded as they are read.
 * ------------------------------------------------------------------------
 */

/* Keys decoded at a time. */
#define KEY_READER_ROWS		256

typedef struct DecodedKeys
{
	Datum		values[KEY_MAX_COLUMNS][KEY_READER_ROWS];
	bool		isnull[KEY_MAX_COLUMNS][KEY_READER_ROWS];
} DecodedKeys;

typedef struct KeyReader
{
	DecodedKeys *decoded;		/* keys [start, start + count) */
	size_t		start;
	size_t		count;
	const KeyBuffer *keybuf;
	const void *keys;
	SortRecFormat format;		/* SORT_REC_PACKED (without rids) or SORT_REC_128 */
	KeyLayout	layout;
} KeyReader;

struct SortEnv;
struct Sorted;

/* Can rows of this kind be made of their sort keys? */
extern bool keys_only_possible(TupleDesc desc, const KeyColumn *keys, int nkeys);

extern void key_reader_begin(KeyReader *reader, struct SortEnv *env, const KeyBuffer *keybuf,
							 const struct Sorted *sorted);

/* Decodes some of n keys, among them the i-th. */
extern void key_reader_decode(KeyReader *reader, size_t i, size_t n);

/* Is the i-th decoded? */
static inline bool
key_reader_has(const KeyReader *reader, size_t i)
{
	return i - reader->start < reader->count;
}

/* The columns of the i-th, which is. */
static inline void
key_reader_row(const KeyReader *reader, size_t i, Datum *values, bool *isnull)
{
	size_t		at = i - reader->start;

	for (int c = 0; c < reader->keybuf->ncols; c++)
	{
		int			att = reader->keybuf->cols[c].att;

		values[att] = reader->decoded->values[c][at];
		isnull[att] = reader->decoded->isnull[c][at];
	}
}

static inline void
key_reader_to_slot(const KeyReader *reader, size_t i, TupleTableSlot *slot)
{
	/* somebody may have materialised the row before */
	if (unlikely(TTS_SHOULDFREE(slot)))
		ExecClearTuple(slot);
	key_reader_row(reader, i, slot->tts_values, slot->tts_isnull);
	slot->tts_nvalid = slot->tts_tupleDescriptor->natts;
	slot->tts_flags &= ~TTS_FLAG_EMPTY;
}

/* ------------------------------------------------------------------------
 * Sorted runs read as one.
 * ------------------------------------------------------------------------
 */

/* Rows of a round whose memory is asked for this far ahead of their turn. */
#define MERGE_PREFETCH	8

struct SortEnv;
typedef struct MergeState MergeState;

typedef struct Merge
{
	const uint64 *rows;			/* addresses of this round's rows, in order */
	size_t		next;
	size_t		n;
	bool		sources;		/* of runs that are not in the file; */
	bool		failed;			/* rows of such a run are lost */
	MergeState *state;
} Merge;

/*
 * Merges runs[0..nruns) of a file, earlier runs' rows first among equals; they are
 * freed as they end.  stage has the key columns and no rows, and is used for the rows
 * that are read, whose keys are in the layout.  The sort's own arrays are used.
 */
extern void merge_begin(Merge *merge, struct SortEnv *env, KeyBuffer *keybuf, const KeyLayout *layout,
						SpillFile *file, SpillRun **runs, int nruns);

extern void merge_end(Merge *merge);

/* How many runs of a file can be merged at once in the sort's memory, at least 6. */
extern int	merge_fan_in(const struct SortEnv *env, const KeyLayout *layout, const SpillFile *file,
						 SpillRun *const *runs, int nruns);

/* Puts the next rows in order; false at the end, and if some are lost. */
extern bool merge_round(Merge *merge);

/* The next row, valid until the next call; NULL at the end, or if rows are lost. */
static inline MinimalTuple
merge_next(Merge *merge)
{
	if (unlikely(merge->next == merge->n) && !merge_round(merge))
		return NULL;
	if (likely(merge->next + MERGE_PREFETCH < merge->n))
		__builtin_prefetch((void *) merge->rows[merge->next + MERGE_PREFETCH]);
	return (MinimalTuple) merge->rows[merge->next++];
}

/* ------------------------------------------------------------------------
 * A finished sort's rows, given out in order.
 *
 * What there is differs: rids of rows in memory, sorted keys, runs on disk, chunks
 * that a device sends.  Each kind has its methods and, for the next row forward, a
 * fast path below that is compiled into the caller: whoever asks for many rows picks
 * the function for the result's kind once (gpusort_node.c), so that a row costs
 * no test for kinds that it is not of.  Everything that is not the ordinary next row
 * is the method's.
 * ------------------------------------------------------------------------
 */

/* Rows whose memory is asked for ahead of their turn, a block of so many at once, so much of each at most. */
#define RESULT_PREFETCH		64
#define RESULT_PREFETCH_MAX	256

/* The fast path that a result has. */
typedef enum ResultKind
{
	RESULT_ROWS,				/* MemoryResult */
	RESULT_KEYS,				/* KeysResult */
	RESULT_STREAM,				/* StreamResult */
	RESULT_MERGE,				/* MergeResult, of rows that are not their keys */
	RESULT_PLAIN,				/* none */
} ResultKind;

/* How much of a row to prefetch: an average one's bytes. */
static inline int
result_row_bytes(const Arena *arena, size_t rows)
{
	return (int) Min(arena_used(arena) / Max(rows, 1), RESULT_PREFETCH_MAX);
}

typedef struct SortResult SortResult;

typedef struct ResultMethods
{
	ResultKind	kind;

	/* The next row into the slot; false if there is none, or if rows were lost. */
	bool		(*next) (SortResult *result, bool forward, TupleTableSlot *slot);

	/* Of sorts that were told of random access. */
	void		(*rewind) (SortResult *result);
	void		(*mark) (SortResult *result);
	void		(*restore) (SortResult *result);

	/* Lets go of what the result holds; the sort's memory is the sorter's. */
	void		(*end) (SortResult *result);
} ResultMethods;

struct SortResult
{
	const ResultMethods *methods;
	struct SortEnv *env;
	bool		failed;			/* the rows to come went with a device */
	uint64		returned;			/* ... after so many, */
	uint64		returned_sum;		/* whose row_sum() is this */
};

/* A result that is an array in memory; from a device more may come (result_device_keys.c). */
typedef struct ArrayResult
{
	SortResult	base;
	size_t		n;
	size_t		pos;			/* the next row to give */
	bool		eof;
	size_t		mark_pos;
	bool		mark_eof;
	struct OffloadJob *more;	/* the job that returns the rest; NULL */
} ArrayResult;

/* Rows by their rids. */
typedef struct MemoryResult
{
	ArrayResult array;
	const uint32 *rids;			/* [0, n) */
	int			row_bytes;		/* of an average row, to be prefetched */
	Arena		arena;			/* a copy, to be read: one step less to each row */
} MemoryResult;

/* Sorted keys that are the rows. */
typedef struct KeysResult
{
	ArrayResult array;
	KeyReader	reader;
} KeysResult;

/* The chunk of rows that is being read. */
typedef struct RowStream
{
	char	   *next;
	char	   *end;
	const char *last;			/* the row that was read last */
	uint32		left;			/* rows to be given as they come */
	uint32		behind;			/* ... and behind them, which are to be looked at before */
	uint64		sum;			/* row_sum() of those that were read */
	JobSecret	secret;			/* of the job that the chunk is of */
} RowStream;

/* Rows from a device, once, forward. */
typedef struct StreamResult
{
	SortResult	base;
	RowStream	stream;
	struct DeviceRows *device_rows; /* NULL at the end */
} StreamResult;

/* A merge of runs, once, forward. */
typedef struct MergeResult
{
	SortResult	base;
	Merge		merge;
} MergeResult;

/* One run on disk, both ways. */
typedef struct RunResult
{
	SortResult	base;
	RunCursor	cursor;
	MemoryContext cxt;
} RunResult;

/* Room for any. */
typedef union ResultSpace
{
	MemoryResult memory;
	KeysResult	keys;
	StreamResult stream;
	MergeResult merge;
	RunResult	run;
} ResultSpace;

struct Sorted;
struct Runs;
struct DeviceRows;

/*
 * result_memory.c: begin a result of what was sorted; where a device has the rest of
 * it, with what has arrived.
 */
extern SortResult *result_rows_begin(MemoryResult *result, struct SortEnv *env, const Arena *arena,
								 const struct Sorted *sorted);
extern SortResult *result_keys_begin(KeysResult *result, struct SortEnv *env, const KeyBuffer *keybuf,
								 const struct Sorted *sorted);
extern bool result_rows_next(SortResult *result, bool forward, TupleTableSlot *slot);

/*
 * The first row of a block is given next: asks for the memory of the block behind it, and before the
 * first row for the first, too.  Together: one by one, with the work on a row between, each such miss (of
 * the TLB too, it seems) held up what followed by 20 ns, and 10M rows of 120 bytes took 1.4 times as long.
 */
extern void result_rows_ask(const MemoryResult *memory);
extern void result_array_rewind(SortResult *result);
extern void result_array_mark(SortResult *result);
extern void result_array_restore(SortResult *result);

/* Methods of results that are read once, and of those that hold nothing. */
extern void result_once(SortResult *result);
extern void result_holds_nothing(SortResult *result);

/*
 * The next row of the chunk that came from the device, which has one; NULL if what
 * came is none of the rows that went there.
 */
static inline MinimalTuple
row_stream_next(RowStream *stream)
{
	MinimalTuple row = (MinimalTuple) stream->next;
	uint64		sum;

	if (unlikely(!row_is_whole(stream->next, stream->end - stream->next, &stream->secret, &sum)))
		return NULL;
	stream->sum += sum;
	stream->last = stream->next;
	stream->next += MAXALIGN(row->t_len);
	stream->left--;
	return row;
}

/*
 * Puts the next row into the slot; false at the end, and if rows were lost.  kind is
 * the result's and a constant, but for RESULT_PLAIN, which serves all.
 */
static pg_attribute_always_inline bool
result_next(SortResult *result, ResultKind kind, bool forward, TupleTableSlot *slot)
{
	if (kind == RESULT_ROWS)
	{
		MemoryResult *memory = (MemoryResult *) result;
		ArrayResult *array = &memory->array;

		if (likely(forward && array->pos < array->n))
		{
			uint32		rid = memory->rids[array->pos];

			if (unlikely(array->pos % RESULT_PREFETCH == 0))
				result_rows_ask(memory);
			row_to_slot(slot, (MinimalTuple) arena_at(&memory->arena, rid));
			array->pos++;
			return true;
		}
	}
	if (kind == RESULT_KEYS)
	{
		KeysResult *keys = (KeysResult *) result;

		if (likely(forward && key_reader_has(&keys->reader, keys->array.pos)))
		{
			key_reader_to_slot(&keys->reader, keys->array.pos, slot);
			keys->array.pos++;
			return true;
		}
	}
	if (kind == RESULT_STREAM)
	{
		StreamResult *stream = (StreamResult *) result;

		if (likely(stream->stream.left > 0))
		{
			MinimalTuple row = row_stream_next(&stream->stream);

			if (likely(row != NULL))
			{
				row_to_slot(slot, row);
				return true;
			}
		}
	}
	if (kind == RESULT_MERGE)
	{
		Merge	   *merge = &((MergeResult *) result)->merge;

		if (likely(merge->next < merge->n))
		{
			row_to_slot(slot, merge_next(merge));
			return true;
		}
	}
	return result->methods->next(result, forward, slot);
}

/* ------------------------------------------------------------------------
 * One sort: rows in, rows out in order.
 *
 * To the executor's node what tuplesort is to a Sort: rows are put in by slot or
 * by page, and sorter_perform() answers with a result (result.h) that gives them
 * out.
 * ------------------------------------------------------------------------
 */

/* What to sort; the arrays belong to the caller and live as long. */
typedef struct SortSpec
{
	TupleDesc	desc;
	const KeyColumn *keys;
	int			nkeys;
	bool		random_access;	/* rewind, mark or backward reading to come */

	/* Would the same rows come again, in the same order? */
	bool		(*can_rerun) (void *arg);
	void	   *can_rerun_arg;
	int			node;			/* the plan node's number */
	int			participants;	/* processes that sort for it; 0 and 1: this one */
	bool		timing;			/* phases are timed, however few the rows */
	bool		keys_only;		/* rows are given out in a virtual slot */
	Size		memory;			/* a sort of another's rows, on the host and unseen: bytes that it
								 * may take; 0: work_mem */
	Progress   *within;			/* ... and the other's progress, which shows them */
} SortSpec;

typedef struct Sorter Sorter;

/* A sorter for many sorts of one spec, in the current memory context. */
extern Sorter *sorter_create(const SortSpec *spec);
extern void sorter_destroy(Sorter *sorter);

/* Begins a sort; bound > 0 if only so many rows of the front are wanted. */
extern void sorter_begin(Sorter *sorter, size_t bound, double rows_expected);

/*
 * The sort that has begun, and has a bound, is one of several: they share this, at first
 * PG_UINT64_MAX.
 */
extern void sorter_share_bound(Sorter *sorter, pg_atomic_uint64 *shared_threshold);

/*
 * The sort that has begun takes its rows to the sink that make() makes, if it makes one, and to no
 * other: NULL if not.
 */
struct Batch;
struct SortEnv;
typedef struct Sink *(*SinkMaker) (struct SortEnv *env, struct Batch *batch, void *arg);
extern struct Sink *sorter_use_sink(Sorter *sorter, SinkMaker make, void *arg);

/* Begins it again after its rows were lost with a device, on the CPU. */
extern void sorter_begin_again(Sorter *sorter);

/*
 * The sort that was begun again has its result: goes past the rows that had been given
 * out before, by way of a slot.  They are now the same, or it is an ERROR: the result
 * that was begun cannot be completed.
 */
extern void sorter_skip_returned(Sorter *sorter, TupleTableSlot *slot);

/* A row, or those of a page; or one of a page that has to come in a slot.  False: the rows are lost. */
extern bool sorter_put(Sorter *sorter, TupleTableSlot *slot);
extern bool sorter_put_page_row(Sorter *sorter, TupleTableSlot *slot);
extern bool sorter_put_page(Sorter *sorter, RowPage *page);

/* Are the rows gone with a device?  Then the child has to be run again. */
extern bool sorter_failed(const Sorter *sorter);

/*
 * All rows are in: sorts them.  NULL if they are lost.  may_pause: the reader may
 * stop with rows still to come.
 */
extern SortResult *sorter_perform(Sorter *sorter, bool may_pause);

/* Ends the sort, gives up files and memory; sorter_begin() may follow. */
extern void sorter_end(Sorter *sorter);

/* Raises the ERROR that rows were returned which do not begin the right result. */
pg_noreturn extern void sort_wrong_beginning(void);

extern const SortReport *sorter_report(const Sorter *sorter);

/* All rows are in, none of them is on a device: where their keys lie. */
extern void sorter_common_range(Sorter *sorter, CommonKeyRange *common_range);

/* The key columns, for pages to find them. */
extern const KeyBuffer *sorter_key_buffer(const Sorter *sorter);

#endif							/* GPUSORT_SORT_SORT_H */
