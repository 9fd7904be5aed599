/*
 * sort.h
 *	  The sort engine: a sorter takes rows, a result returns them in order.
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
#include "sort/run.h"
#include "store/store.h"
#include "tiebreak/tiebreak.h"

struct Batch;
struct DeviceRows;
struct OffloadJob;
struct SortEnv;
struct Sorted;

/* What to sort.  The arrays belong to the caller and live as long as the sorter. */
typedef struct SortSpec
{
	TupleDesc	desc;
	const KeyColumn *keys;
	int			nkeys;
	bool		random_access;	/* rewound, marked or read backward */

	/* Would the child return the same rows again, in the same order? */
	bool		(*can_rerun) (void *arg);
	void	   *can_rerun_arg;
	int			node;			/* plan node id, or PROGRESS_NO_NODE */
	int			participants;	/* processes of the sort; 0 or 1: one */
	bool		timing;			/* time the phases of small sorts, too */
	bool		keys_only;		/* without rows; uses a virtual slot */

	/*
	 * With keys_only: row ids are TIDs (row.h), and runs return rows with
	 * TIDs.  Rows come in TID order, by slots of MinimalTuples or by pages
	 * with TIDs.
	 */
	bool		tids;

	/*
	 * Leading keys of which each value is wanted once: the first row in sort
	 * order stands for all rows that are equal in them.  A result that may
	 * have other rows says so (SortResult.duplicates).  0: all rows are
	 * wanted.
	 */
	int			distinct;
	double		groups;			/* planner's estimate of the values of these keys; 0: none */

	/*
	 * Memory limit of a nested sort or of one without a plan node; 0: use
	 * work_mem.  Such a sort uses no GPU unless proven is set.  A nested sort
	 * shows no progress.
	 */
	Size		memory;

	/*
	 * With memory: keys may go to a GPU.  They come back with their row ids,
	 * and the order of these pairs is checked before a row is returned.
	 */
	bool		proven;

	/*
	 * Rows have TIDs, and each participant puts its rows in TID order.  A
	 * merge of sorted shares then orders equal rows by TID.
	 */
	bool		by_tid;
	Progress   *within;			/* progress of the outer sort, or NULL */
} SortSpec;

/* Is it a sort of the rows of another sort? */
static inline bool
sort_is_nested(const SortSpec *spec)
{
	return spec->memory != 0 && spec->node != PROGRESS_NO_NODE;
}

/* One device's share of a sort in parts. */
typedef struct ReportDevice
{
	int			index;			/* CUDA device number */
	int			parts;
	uint64		rows;
	double		sort_us;
} ReportDevice;

/* Devices shown at most. */
#define REPORT_DEVICES	16

/* What EXPLAIN and statistics show of a sort.  The engine writes it and does not read it. */
typedef struct SortReport
{
	uint64		rows;			/* input rows */
	uint64		page_rows;		/* input rows taken from heap pages directly */
	Size		memory_peak;	/* bytes */
	uint64		disk_bytes;		/* peak size of the temporary file */
	int			runs;			/* runs written; 0: sorted in memory */
	bool		key_runs;		/* these have keys without rows */
	int			key_bits;		/* narrowed key width of the last kernel */
	bool		bounded;
	bool		inserted;		/* a bounded sort by insertion */
	int			early_pages;	/* last pages that gave a threshold */
	uint64		ties;			/* rows whose order took a comparison */
	bool		distinct;		/* duplicates were dropped */
	uint64		dropped_in_batches; /* duplicates within a batch */
	uint64		dropped_in_merges;	/* duplicates in runs that were merged */
	uint64		dropped_on_device;	/* duplicates that a GPU dropped */
	bool		device_failed;	/* a GPU was used and failed */
	int			device_batches; /* batches whose keys a GPU has sorted */
	uint64		device_rows;	/* rows that were moved to a GPU */
	bool		sent_to_device; /* sorted in one GPU job of all participants */
	uint64		early_rows;		/* rows whose keys were sent during ingest */
	uint64		bytes_up;		/* bytes sent to the GPU */
	uint64		bytes_down;		/* bytes received from the GPU */
	double		device_sort_us; /* time of the GPU kernels */
	ReportDevice devices[REPORT_DEVICES];	/* by first use; sorts in parts */
	int			parts;			/* parts of a sort in parts */
	int			parts_here;		/* parts that the CPU sorted */
	bool		sorted;			/* facts and decision are set */
	RouteFacts	facts;			/* facts of the last kernel run */
	RouteDecision decision;		/* decision for the last kernel run */
	instr_time	ingest_time;	/* taking rows in, including the child's time */
	instr_time	sort_time;		/* kernels, ties, writing and merging runs */
	instr_time	spill_time;		/* part of sort_time: writing and merging runs */
	double		predicted_us;	/* prediction for kernels that have one */
	instr_time	predicted_time; /* real time of the same kernel runs */
	bool		timed;			/* the times are set */
} SortReport;

/* ------------------------------------------------------------------------
 * RowPage: the rows of one heap page, which a sort takes together
 *
 * A scan by page fills it.  The rows are tuples on the page and stay there until the
 * sort has taken them.
 * ------------------------------------------------------------------------
 */

typedef struct RowPage RowPage;

/* The next page, whose memory is prefetched while rows of this page are taken. */
typedef struct PageAhead
{
	const char *page;			/* next page, not pinned; NULL: not known */
	int			step;			/* bytes to prefetch per row; 0: none */
	int			skip;			/* number of following pages without prefetch */
} PageAhead;

struct RowPage
{
	/* set once for all pages */
	bool		whole;			/* rows are the unchanged tuples */
	RowPick    *pick;			/* makes rows from some columns; or NULL */
	PageKeys	keys;
	int			nkeys;
	TupleWalk  *key_walk;		/* finds keys that have no fixed offset */

	/* Returns row i in a slot, valid until the next call. */
	TupleTableSlot *(*row) (RowPage *page, int i);

	/* set for each page */
	int			n;				/* rows */
	bool		direct;			/* row_page_write() can be used */
	Size		bytes;			/* space for all rows of a direct page */
	PageAhead	ahead;
	const ItemPointerData *tids;	/* the rows get these TIDs; NULL: no TIDs */
	HeapTupleHeader tuples[MaxHeapTuplesPerPage];
	uint16		lens[MaxHeapTuplesPerPage];
};

/* Addresses of the keys of a page's rows, by column; NULL for an SQL NULL. */
typedef const char *PageKeyPlaces[KEY_MAX_COLUMNS][MaxHeapTuplesPerPage];

/*
 * Writes the keys of rows [first, page->n) to the key buffer, from entry at on.  The
 * buffer has room.  Does not advance keybuf->n.
 */
extern void row_page_keys_to_buffer(RowPage *page, int first, KeyBuffer *keybuf, const KeyWriter *writer, size_t at);

/*
 * Makes the zeroed page one of stored rows, which cannot have a row if it has no key_walk.
 * Allocates in the current memory context.
 */
extern void row_page_init_stored(RowPage *page, TupleDesc desc, const KeyBuffer *keybuf);

extern void row_page_free_stored(RowPage *page);

/* Adds a row to a page of stored rows.  False if the page is full, or cannot have the row. */
static inline bool
row_page_put_stored(RowPage *page, MinimalTuple row)
{
	Size		len = row->t_len + MINIMAL_TUPLE_OFFSET;

	/* lens has 16 bits */
	if (unlikely(page->n == MaxHeapTuplesPerPage || len > PG_UINT16_MAX || page->key_walk == NULL))
		return false;
	page->tuples[page->n] = (HeapTupleHeader) ((char *) row - MINIMAL_TUPLE_OFFSET);
	page->lens[page->n++] = len;
	return true;
}

/*
 * Prefetches row i's share of the next page: prefetching the page at once would stall.
 * It goes to the second-level cache, which can have more loads in flight.  Always inline,
 * because the compiler takes a function of prefetches for one without effect.
 */
static pg_attribute_always_inline void
page_ahead_ask(const PageAhead *ahead, int i)
{
	const char *from = ahead->page + i * ahead->step;

	for (int at = 0; at < ahead->step; at += 64)
		__builtin_prefetch(from + at, 0, 2);
}

/* Address of the first column of row i. */
static inline const char *
row_page_data(const RowPage *page, int i)
{
	return (const char *) page->tuples[i] + page->tuples[i]->t_hoff;
}

/* Upper bound of the bytes that row i of a direct page takes. */
static inline Size
row_page_room(const RowPage *page, int i)
{
	return page->whole ? MAXALIGN(page->lens[i] - MINIMAL_TUPLE_OFFSET) :
		row_pick_room(page->pick, page->tuples[i], page->lens[i]);
}

/* Writes row i of a direct page as a MinimalTuple; returns its size, MAXALIGN'ed. */
static inline Size
row_page_write(const RowPage *page, int i, char *row)
{
	Size		size;

	page_ahead_ask(&page->ahead, i);
	if (page->whole)
		size = row_copy(row, (const char *) page->tuples[i] + MINIMAL_TUPLE_OFFSET,
						(Size) page->lens[i] - MINIMAL_TUPLE_OFFSET);
	else
		size = row_pick(page->pick, page->tuples[i], page->lens[i], row);
	if (unlikely(page->tids != NULL))
		row_set_tid(row, &page->tids[i]);
	return size;
}

/* ------------------------------------------------------------------------
 * KeyReader: decodes sorted keys of a sort of keys without rows
 * ------------------------------------------------------------------------
 */

/* Keys decoded at a time. */
#define KEY_READER_ROWS		256

typedef struct DecodedKeys
{
	Datum		values[KEY_MAX_COLUMNS][KEY_READER_ROWS];
	bool		isnull[KEY_MAX_COLUMNS][KEY_READER_ROWS];
	uint32		rids[KEY_READER_ROWS];	/* if the keys have row ids */
} DecodedKeys;

typedef struct KeyReader
{
	DecodedKeys *decoded;		/* has keys [start, start + count) */
	size_t		start;
	size_t		count;
	const KeyBuffer *keybuf;
	const void *keys;			/* the sorted keys, from the key first on */
	size_t		first;
	RunCursor  *cursor;			/* reads the keys from disk to block; NULL: they are in memory */
	void	   *block;			/* KEY_READER_ROWS records */
	SortRecFormat format;		/* _PACKED or _128; with rids also _64 */
	bool		rids;			/* the records have row ids */
	int			rid_bits;		/* of SORT_REC_PACKED */
	KeyLayout	layout;
} KeyReader;

/* Can rows of this type be decoded from their sort keys? */
extern bool keys_only_possible(TupleDesc desc, const KeyColumn *keys, int nkeys);

/* Decodes a block of the n keys that includes key i. */
extern void key_reader_decode(KeyReader *reader, size_t i, size_t n);

/* Is key i decoded? */
static inline bool
key_reader_has(const KeyReader *reader, size_t i)
{
	return i - reader->start < reader->count;
}

/* The columns of key i, which is decoded. */
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

/* Makes the slot a virtual row, whose values the caller sets. */
static inline void
values_slot_begin(TupleTableSlot *slot)
{
	/* the reader may have materialized the slot */
	if (unlikely(TTS_SHOULDFREE(slot)))
		ExecClearTuple(slot);
	slot->tts_nvalid = slot->tts_tupleDescriptor->natts;
	slot->tts_flags &= ~TTS_FLAG_EMPTY;
}

static inline void
key_reader_to_slot(const KeyReader *reader, size_t i, TupleTableSlot *slot)
{
	values_slot_begin(slot);
	key_reader_row(reader, i, slot->tts_values, slot->tts_isnull);
}

/* Adds the keys of a stored row to the key buffer.  The row is in the slot afterwards. */
static inline void
keybuf_stored_row(KeyBuffer *keybuf, const KeyWriter *keys, TupleTableSlot *slot, MinimalTuple row,
				  uint32 rid)
{
	row_to_slot(slot, row);
	slot_getsomeattrs(slot, keybuf->last_att);
	keybuf_row(keybuf, keys, slot->tts_values, slot->tts_isnull, rid);
}

/*
 * Adds the keys of a page of stored rows to the key buffer, which has room.  If the page
 * is empty, adds the keys of one row, which is deformed in the slot.
 */
extern void keybuf_stored_page(KeyBuffer *keybuf, const KeyWriter *keys, TupleTableSlot *slot, RowPage *page,
							   MinimalTuple row);

/*
 * Adds the keys of n rows that follow each other, MAXALIGN'ed.  The key buffer has room for
 * them.  page is working memory.
 */
extern void keybuf_stored_rows(KeyBuffer *keybuf, const KeyWriter *keys, TupleTableSlot *slot, RowPage *page,
							   const char *rows, size_t n);

/* ------------------------------------------------------------------------
 * Duplicates, which a sort with distinct columns drops (distinct.c)
 * ------------------------------------------------------------------------
 */

/*
 * A batch of this size is sorted in the cache to drop its duplicates.  Later ones have
 * DISTINCT_GROWTH times the size of the remaining rows, if that is more.
 */
#define DISTINCT_EARLY_BYTES	((Size) 4 * 1024 * 1024)
#define DISTINCT_GROWTH			4

/* How packed keys tell whether rows are equal in the distinct columns. */
typedef struct DistinctTest
{
	int			cut;			/* lowest bits of the key that do not count */
	bool		exact;			/* equal other bits mean equal rows */
} DistinctTest;

/* A copy of a row that may be overwritten before the next row is compared with it. */
typedef struct KeptRow
{
	char	   *row;			/* NULL: no row was kept */
	Size		size;			/* allocated bytes */
} KeptRow;

/* ------------------------------------------------------------------------
 * MergeTree: k-way merge of sorted streams of rows in memory
 * ------------------------------------------------------------------------
 */

/* Some rows of a stream in order, with their keys. */
typedef struct MergeRows
{
	const char *base;			/* address from which the places count */
	const RowPlace *places;		/* where the rows lie */
	const void *keys;			/* uint64 or uint128, of each row */
	uint32		n;
} MergeRows;

/* A sorted stream. */
typedef struct MergeSource
{
	/*
	 * Gets the stream's next rows; the source may release those before. False
	 * if no rows will come.
	 */
	bool		(*next) (struct MergeSource *source, MergeRows *rows);
} MergeSource;

/*
 * An item of the merge is a row's address followed by its key (uint64 or
 * uint128), so that the merge copies both at once.  Offset of the key:
 */
#define MERGE_KEY_AT	sizeof(MinimalTuple)

typedef struct MergeTree
{
	const char *next;			/* item of the next row */
	const char *end;			/* end of the merged items */
	uint32		item_bytes;		/* size of an item */
	uint32		batch;			/* rows that a node merges at a time */
	uint64		total;			/* rows merged up to end */

	bool		wide;			/* keys have 128 bits, otherwise 64 */
	bool		exact;			/* equal keys mean equal rows */

	bool		by_tid;			/* equal rows are ordered by their TIDs */
	TieBreak   *tiebreak;
	struct MergeNode *root;		/* NULL: there are no streams */

	/* to drop duplicates */
	int			distinct;		/* distinct columns; 0: no row is dropped */
	DistinctTest test;
	uint64		dropped;		/* duplicates */
	bool		have_last;		/* a row was merged */
	uint128		last_key;		/* key of the last one */
	KeptRow		last_row;		/* its bytes, unless keys are exact */
	MemoryContext cxt;
} MergeTree;

/*
 * Creates a merge of n streams, in the current memory context, for keys of this layout.
 * Among equal rows those of an earlier stream come first, or with spec->by_tid those with
 * the lesser TIDs.  tiebreak compares rows with equal keys; not used if keys are exact.
 * With spec->distinct it drops rows that are equal in the distinct columns to the row before.
 */
extern MergeTree *merge_tree_create(MergeSource **sources, int n, uint32 batch, const SortSpec *spec,
									const KeyLayout *layout, TieBreak *tiebreak);
extern void merge_tree_free(MergeTree *tree);

/* Merges more rows; false at the end.  Rows returned before become invalid. */
extern bool merge_tree_more(MergeTree *merge);

/* Returns the next row, valid until the next call; NULL at the end. */
static inline MinimalTuple
merge_tree_next(MergeTree *merge)
{
	MinimalTuple row;

	if (unlikely(merge->next == merge->end) && !merge_tree_more(merge))
		return NULL;
	row = *(const MinimalTuple *) merge->next;
	merge->next += merge->item_bytes;
	return row;
}

/* The key of the row that was returned last, uint64 or uint128. */
static inline const char *
merge_tree_key(const MergeTree *merge)
{
	return merge->next - merge->item_bytes + MERGE_KEY_AT;
}

/* ------------------------------------------------------------------------
 * Merge: k-way merge of sorted runs
 * ------------------------------------------------------------------------
 */

/* Rows are prefetched this many rows ahead. */
#define MERGE_PREFETCH	8

typedef struct MergeState MergeState;

typedef struct Merge
{
	const uint32 *rids;			/* row ids of this round, in order */
	Arena		windows;		/* buffers of the runs, addressed by rids */
	size_t		next;			/* next row to return */
	size_t		n;				/* rows of this round */
	bool		sources;		/* some runs are not in the file (RunSource) */
	bool		failed;			/* rows of such a run are lost */
	MergeState *state;
} Merge;

/* Puts the rows of the next round in order.  False at the end or if rows are lost. */
extern bool merge_round(Merge *merge);

/* The next row, valid until the next call.  NULL at the end or if rows are lost. */
static inline MinimalTuple
merge_next(Merge *merge)
{
	if (unlikely(merge->next == merge->n) && !merge_round(merge))
		return NULL;
	if (likely(merge->next + MERGE_PREFETCH < merge->n))
		__builtin_prefetch(arena_at(&merge->windows, merge->rids[merge->next + MERGE_PREFETCH]));
	return (MinimalTuple) arena_at(&merge->windows, merge->rids[merge->next++]);
}

/* ------------------------------------------------------------------------
 * SortResult: returns the rows of a finished sort in order
 *
 * There is a kind of result for each place of rows: row ids of rows in memory, sorted
 * keys, runs on disk, chunks that a device sends.  Each kind has methods.  Most kinds
 * also have a fast path in result_next() for the next row forward.  The executor chooses
 * a function with a constant kind once for a result, so that no row costs a test of the
 * kind.
 * ------------------------------------------------------------------------
 */

/* Rows are prefetched in blocks of this many rows. */
#define RESULT_PREFETCH		64

/* Rows that are taken at once at most. */
#define RESULT_TAKE			RESULT_PREFETCH

/* Bytes of a row that are prefetched at most. */
#define RESULT_PREFETCH_MAX	256

/* The fast path that a result has. */
typedef enum ResultKind
{
	RESULT_ROWS,				/* MemoryResult */
	RESULT_KEYS,				/* KeysResult */
	RESULT_STREAM,				/* StreamResult */
	RESULT_MERGE,				/* MergeResult with rows */
	RESULT_PLAIN,				/* no fast path: RunResult, merges of keys */
} ResultKind;

/* Bytes of a row to prefetch: the average size of a row, limited. */
static inline int
result_row_bytes(const Arena *arena, size_t rows)
{
	return (int) Min(arena_used(arena) / Max(rows, 1), RESULT_PREFETCH_MAX);
}

typedef struct SortResult SortResult;

typedef struct ResultMethods
{
	ResultKind	kind;

	/*
	 * Puts the next row into the slot.  False if there is none or if rows are
	 * lost.
	 */
	bool		(*next) (SortResult *result, bool forward, TupleTableSlot *slot);

	/* Only for sorts with random_access. */
	void		(*rewind) (SortResult *result);
	void		(*mark) (SortResult *result);
	void		(*restore) (SortResult *result);

	/*
	 * Skips at most this many following rows and returns how many: 0 if the
	 * next row has to be read.  NULL: each row has to be read.
	 */
	uint64		(*skip) (SortResult *result, uint64 rows);

	/*
	 * The number of following rows that lie in memory.  Sets *all if no other
	 * rows follow them.  NULL: no row can be read out of turn.
	 */
	uint64		(*ahead) (SortResult *result, bool *all);

	/*
	 * Puts following row i, one of those, into a slot of the result's kind; 0
	 * is the next row.  The next row stays the same.
	 */
	void		(*peek) (SortResult *result, uint64 i, TupleTableSlot *slot);

	/*
	 * Returns at most RESULT_TAKE following rows at once: puts their
	 * addresses into rows[] and returns their number.  They stay there until
	 * the next row is asked for.  0: the next row comes by next().  NULL: all
	 * rows do.
	 */
	int			(*take) (SortResult *result, MinimalTuple *rows);

	/*
	 * Releases what the result holds.  The sorter frees the memory of the
	 * sort.
	 */
	void		(*end) (SortResult *result);
} ResultMethods;

struct SortResult
{
	const ResultMethods *methods;
	struct SortEnv *env;
	bool		failed;			/* the device failed before the end */


	/*
	 * The spec has distinct columns, and rows may be equal to the row before
	 * in these.
	 */
	bool		duplicates;
	uint64		returned;		/* rows returned before the failure */
	uint64		returned_sum;	/* sum of row_sum() of the returned rows */
};

/* Base of results that read an array in memory. */
typedef struct ArrayResult
{
	SortResult	base;
	size_t		n;				/* rows in the array */
	size_t		pos;			/* the next row to return */
	bool		eof;
	size_t		mark_pos;
	bool		mark_eof;
	struct OffloadJob *more;	/* job with the following rows; NULL: none */
	struct Batch *batch;		/* ... and the batch that it sorts */
} ArrayResult;

/* Rows in memory, by row id. */
typedef struct MemoryResult
{
	ArrayResult array;
	const uint32 *rids;			/* [0, n) in order */
	int			row_bytes;		/* bytes of a row to prefetch */

	/* read-only copy: saves an indirection per row */
	Arena		arena;
} MemoryResult;

/* Sorted keys without rows. */
typedef struct KeysResult
{
	ArrayResult array;
	KeyReader	reader;
} KeysResult;

/* The chunk of rows from a device that is being read. */
typedef struct RowStream
{
	char	   *next;			/* the next row */
	char	   *end;			/* end of the chunk */
	const char *last;			/* the row that was read last */
	uint32		left;			/* rows to return without a check */
	uint32		behind;			/* rows after these, to be checked for ties */
	uint64		sum;			/* sum of row_sum() of the rows that were read */
	JobSecret	secret;			/* secret of the job, for checksums of rows */
} RowStream;

/* Rows from a device; can be read once, forward. */
typedef struct StreamResult
{
	SortResult	base;
	RowStream	stream;
	struct DeviceRows *device_rows; /* NULL at the end */
} StreamResult;

/* The last merge of runs; can be read once, forward. */
typedef struct MergeResult
{
	SortResult	base;
	Merge		merge;
} MergeResult;

/* One run on disk; can be read in both directions. */
typedef struct RunResult
{
	SortResult	base;
	RunCursor	cursor;
	MemoryContext cxt;
} RunResult;

/* The last merge of runs of keys, whose array has the keys of a round; can be read once, forward. */
typedef struct KeyMergeResult
{
	KeysResult	keys;
	struct KeyMerge *merge;
} KeyMergeResult;

/* Sorted keys on disk; can be read in both directions. */
typedef struct KeyRunResult
{
	KeysResult	keys;
	RunCursor	cursor;
} KeyRunResult;

/* Space for a result of any kind. */
typedef union ResultSpace
{
	MemoryResult memory;
	KeysResult	keys;
	StreamResult stream;
	MergeResult merge;
	RunResult	run;
	KeyMergeResult key_merge;
	KeyRunResult key_run;
} ResultSpace;

/*
 * Prefetches the block of rows after the current one; at the first row also the current
 * block.  Called at the first row of each block.  Prefetching a whole block overlaps the
 * misses of caches and TLB; prefetching row by row would stall at each of them.
 */
extern void result_rows_prefetch(const MemoryResult *memory);

/* Begins a result of n rows in the order of rids, which lie in the arena.  env may be NULL. */
extern SortResult *result_rows_begin(MemoryResult *result, struct SortEnv *env, const Arena *arena,
									 const uint32 *rids, size_t n);

/* rewind, mark and restore of results that can be read once: raises an error. */
extern void result_once(SortResult *result);

/*
 * The next row of the chunk, which has one.  NULL if its checksum shows that it is none
 * of the rows that were sent to the device.
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
 * Puts the next row into the slot.  False at the end or if rows are lost.  kind is a
 * constant: the kind of the result, or RESULT_PLAIN, which serves all kinds.
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
				result_rows_prefetch(memory);
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
 * Rows that a sort has returned before its device failed
 * ------------------------------------------------------------------------
 */

/*
 * The last group is the rows that are equal by their keys to the last returned row.  All
 * rows that sort before it have been returned; of the group, some have.
 */
typedef struct ReturnedRows
{
	MemoryContext cxt;

	/*
	 * Returned rows before the last group, and the sum of their row_sum().
	 * Where equal rows come in the same order again, these are all returned
	 * rows: set after returned_rows_reset().
	 */
	uint64		before;
	uint64		before_sum;
	uint64	   *last;			/* row_sum() of each of its returned rows */
	size_t		nlast;
	size_t		room;			/* capacity of last */
	SpillFile  *file;			/* part of last beyond work_mem; or NULL */
	SpillRun	run;			/* ... in the file */

	/*
	 * Duplicates were dropped, and another row of the same value may come
	 * again: only the number of rows counts.
	 */
	bool		by_number;

	/* the next chunk begins within the last group */
	bool		more;

	/*
	 * After returned_rows_begin(), last has each sum once, in ascending
	 * order.
	 */
	uint64	   *counts;			/* per element of last: rows still to come */
	uint64		pending;		/* sum of counts */
} ReturnedRows;

/* A chunk of the result, as far as its rows have been returned. */
typedef struct ReturnedChunk
{
	const char *rows;
	size_t		n;
	uint64		before;			/* rows of the chunks before this one */
	uint64		before_sum;		/* sum of their row_sum() */
} ReturnedChunk;

/* Makes the set empty.  The owner zeroes a new one, and sets its cxt. */
extern void returned_rows_reset(ReturnedRows *returned);

/*
 * Notes the rows of a chunk that were returned.  more: the next chunk begins with a row
 * equal to the chunk's last.  Called if more is true, or if no chunk follows because the
 * device failed; otherwise the caller sets returned->more to false.
 */
extern void returned_rows_note(ReturnedRows *returned, TieBreak *tiebreak, const ReturnedChunk *chunk,
							   bool more);

/* To be called before the rows come again, in order. */
extern void returned_rows_begin(ReturnedRows *returned);

/*
 * Is the row one that was returned?  Then it counts as having come again.  An ERROR if the
 * first rows are not those that were returned.
 */
extern bool returned_rows_skip(ReturnedRows *returned, MinimalTuple row);

/* Are there returned rows that have not come again? */
static inline bool
returned_rows_pending(const ReturnedRows *returned)
{
	return returned->before > 0 || returned->pending > 0;
}

/* Raises the error that the rows returned before a failure were wrong. */
pg_noreturn extern void sort_wrong_beginning(void);

/* ------------------------------------------------------------------------
 * Sorter: one sort
 *
 * The counterpart of Tuplesortstate: rows are put by slot or by page, and
 * sorter_perform() returns a result that returns them in order.
 * ------------------------------------------------------------------------
 */

typedef struct Sorter
{
	const SortReport *report;

	/* The key columns, which a scan by page needs to fill RowPage.keys. */
	const KeyBuffer *keybuf;
	size_t		early_bound;	/* see sorter_put_early() */
	/* followed by members of the engine's own */
} Sorter;

/* How a sort begins. */
typedef struct SortBegin
{
	size_t		bound;			/* number of first rows that are wanted; 0: all */
	double		rows_expected;
	bool		keep_duplicates;	/* the result has duplicates in spite of spec.distinct */

	/*
	 * Threshold of a bounded sort that participants share; begins as
	 * PG_UINT64_MAX.  NULL: this process sorts alone.
	 */
	pg_atomic_uint64 *shared_threshold;

	/*
	 * Makes the sink to which all rows of the sort go.  NULL, or returns
	 * NULL: they go to the usual ones.
	 */
	struct Sink *(*make_sink) (struct SortEnv *env, struct Batch *batch, void *arg);
	void	   *make_sink_arg;
} SortBegin;

/* Creates a sorter for any number of sorts of one spec, in the current memory context. */
extern Sorter *sorter_create(const SortSpec *spec);
extern void sorter_destroy(Sorter *sorter);

/* Begins a sort. */
extern void sorter_begin(Sorter *sorter, const SortBegin *begin);

/*
 * An early threshold of a bounded sort: rows that will come again are put first, and the
 * last wanted row among them lets the sort drop the rows behind it from the beginning.
 *
 * sorter->early_bound is the number of wanted rows; 0: the sort, which has begun and has no
 * rows, takes no early threshold.  sorter_put_early() is false if memory is full.
 * sorter_early_threshold() forgets the rows, and takes the threshold if they are as many
 * as wanted.  The rows came from that number of pages, which EXPLAIN shows.
 */
extern bool sorter_put_early(Sorter *sorter, RowPage *page);
extern void sorter_early_threshold(Sorter *sorter, int pages);

/* Begins a failed sort again, on the CPU. */
extern void sorter_begin_again(Sorter *sorter);

/*
 * After sorter_begin_again() and sorter_perform(): skips the rows that were returned
 * before the failure, using a slot.  Raises an error if they are other rows, because the
 * returned rows cannot be taken back.
 */
extern void sorter_skip_returned(Sorter *sorter, TupleTableSlot *slot);

/*
 * Put a row, a row of a page that comes in a slot, or all rows of a page.  False if the
 * sort has failed.
 */
extern bool sorter_put(Sorter *sorter, TupleTableSlot *slot);
extern bool sorter_put_page_row(Sorter *sorter, TupleTableSlot *slot);
extern bool sorter_put_page(Sorter *sorter, RowPage *page);

/* Did a device fail with rows?  Then the child must be run again. */
extern bool sorter_failed(const Sorter *sorter);

/*
 * Sorts the rows; all are in.  NULL if the sort has failed.  may_pause: the reader may
 * pause before the end of the result.
 */
extern SortResult *sorter_perform(Sorter *sorter, bool may_pause);

/* Ends the sort, frees files and memory.  sorter_begin() may follow. */
extern void sorter_end(Sorter *sorter);

/* The range of the keys.  All rows are in, and none is on a device. */
extern void sorter_common_range(Sorter *sorter, CommonKeyRange *common_range);

/* ------------------------------------------------------------------------
 * Threads and processors
 * ------------------------------------------------------------------------
 */

/* How many of the processes run at once, for cost estimates: at least two if there are two. */
extern double sort_abreast(double processes);

/*
 * Maximal number of threads, the backend itself included, for each of participants
 * processes (0 and 1: a single process) that sort together.
 */
extern int	sort_threads_most(int participants);

/* Requests the shared memory; called by _PG_init(). */
extern void sort_threads_init(void);

#endif							/* GPUSORT_SORT_SORT_H */
