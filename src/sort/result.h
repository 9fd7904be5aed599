/*
 * result.h
 *	  SortResult: returns the rows of a finished sort in order.
 *
 * There is a kind of result for each form of sorted rows: row ids of rows in memory, keys,
 * runs on disk, chunks that a device sends.  Each kind has methods.  Most kinds also have a
 * fast path in result_next() for the next row forward.  The executor chooses a function
 * with a constant kind once for a result, so that no row costs a test of the kind.
 */
#ifndef GPUSORT_SORT_RESULT_H
#define GPUSORT_SORT_RESULT_H

#include "postgres.h"

#include "executor/tuptable.h"
#include "sort/distinct_test.h"
#include "sort/key_reader.h"
#include "sort/run.h"
#include "store/store.h"

struct DeviceRows;
struct KeyMerge;
struct MergeState;
struct SortEnv;

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
	RESULT_MERGE,				/* Merge */
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
	 * addresses into rows[], the columns that each has in common with the row
	 * before into equal[], and returns their number.  They stay there until
	 * the next row is asked for.  0: the next row comes by next().  NULL: all
	 * rows do.
	 */
	int			(*take) (SortResult *result, MinimalTuple *rows, EqualColumns *equal);

	/*
	 * Returns following keys at once: sets *recs to their records, as
	 * KeysResult.reader describes them, and returns their number.  They stay
	 * there until the next call.  0: the end.  NULL: the result has rows, or
	 * keys that can be read in both directions.
	 */
	size_t		(*take_keys) (SortResult *result, const void **recs);

	/*
	 * Releases what the result holds; NULL: nothing.  The sorter frees the
	 * memory of the sort.
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

/* Base of results that read an array in memory; of a run on disk, n and pos count bytes. */
typedef struct ArrayResult
{
	SortResult	base;
	size_t		n;				/* rows in the array */
	size_t		pos;			/* the next row to return */
	bool		eof;
	size_t		mark_pos;
	bool		mark_eof;
} ArrayResult;

/* Rows in memory, by row id. */
typedef struct MemoryResult
{
	ArrayResult array;
	const uint32 *rids;			/* [0, n) in order */
	const EqualColumns *equal;	/* of each row and the row before; NULL: not known */
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

/* A merge of runs, whose array has the rows of a round; can be read once, forward. */
typedef struct Merge
{
	MemoryResult rows;			/* the arena is the buffers of the runs */
	bool		sources;		/* some runs are not in the file (RunSource) */
	struct MergeState *state;
} Merge;

/*
 * One run on disk; can be read in both directions.  Each row is followed by its padded
 * length, 8 bytes.
 */
typedef struct RunResult
{
	ArrayResult array;
	RunCursor	cursor;
	KeptRow		row;			/* the last row read */
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
	Merge		merge;
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

/* Puts the rows of the next round in order.  False at the end or if rows are lost. */
extern bool merge_round(Merge *merge);

/* rewind, mark and restore of results that can be read once: raises an error. */
extern void result_once(SortResult *result);

#endif							/* GPUSORT_SORT_RESULT_H */
