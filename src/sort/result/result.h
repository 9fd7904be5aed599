/*
 * result.h
 *	  A finished sort's rows, given out in order.
 *
 * What there is differs: rids of rows in memory, sorted keys, runs on disk, chunks
 * that a device sends.  Each kind has its methods and, for the next row forward, a
 * fast path below that is compiled into the caller: whoever asks for many rows picks
 * the function for the result's kind once (gpusort_node.c), so that a row costs
 * no test for kinds that it is not of.  Everything that is not the ordinary next row
 * is the method's.
 */
#ifndef GPUSORT_RESULT_H
#define GPUSORT_RESULT_H

#include "postgres.h"

#include "executor/tuptable.h"
#include "sort/result/key_reader.h"
#include "sort/runs/merge.h"
#include "store/arena.h"
#include "store/row.h"
#include "store/row_sum.h"

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
	bool		lost;			/* the rows to come went with a device */
	uint64		given;			/* ... after so many, */
	uint64		given_sum;		/* whose row_sum() is this */
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
	struct DeviceKeys *more;	/* the job that brings it; NULL */
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
extern SortResult *result_keys_begin(KeysResult *result, struct SortEnv *env, const Stage *stage,
								 const struct Sorted *sorted);
extern bool result_rows_next(SortResult *result, bool forward, TupleTableSlot *slot);

extern bool result_keys_next(SortResult *result, bool forward, TupleTableSlot *slot);

/*
 * The first row of a block is given next: asks for the memory of the block behind it, and before the
 * first row for the first, too.  Together: one by one, with the work on a row between, each such miss (of
 * the TLB too, it seems) held up what followed by 20 ns, and 10M rows of 120 bytes took 1.4 times as long.
 */
extern void result_rows_ask(const MemoryResult *memory);
extern void result_array_rewind(SortResult *result);
extern void result_array_mark(SortResult *result);
extern void result_array_restore(SortResult *result);

/* result_device_keys.c: the job adds to the result, or replaces what was read. */
extern void result_device_keys_begin(SortResult *result, struct DeviceKeys *dk);

/* result_device_rows.c: the job has been asked for the sort. */
extern SortResult *result_device_rows_begin(StreamResult *result, struct SortEnv *env,
										struct DeviceRows *dev);

/* No row: they went to another backend's result, or are lost. */
extern SortResult *result_device_rows_none(StreamResult *result, struct SortEnv *env, bool lost);

/*
 * result_runs.c: the file's runs are down to what can be merged at once; the caller begins
 * the merge.
 */
extern SortResult *result_merge_begin(MergeResult *result, struct SortEnv *env);
extern SortResult *result_run_begin(RunResult *result, struct SortEnv *env, SpillFile *file,
								SpillRun *run, MemoryContext cxt);

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

#endif							/* GPUSORT_RESULT_H */
