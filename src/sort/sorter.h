/*
 * sorter.h
 *	  One sort: rows in, rows out in order.
 *
 * The node's half of what tuplesort is to a Sort: it joins the rooms.  Rows are
 * stored and their keys staged; at the end, or whenever work_mem is full, the
 * keys are packed, a kernel sorts them, ties are broken; the rows then come back
 * from memory or, if runs had to be written, from their merge.
 */
#ifndef GPUSORT_SORTER_H
#define GPUSORT_SORTER_H

#include "postgres.h"

#include "executor/tuptable.h"
#include "key/pack.h"
#include "key/stage.h"
#include "key/tiebreak.h"
#include "portability/instr_time.h"
#include "route/router.h"
#include "store/arena.h"
#include "store/bulk.h"
#include "store/merge.h"
#include "store/row.h"
#include "store/row_sum.h"
#include "store/run.h"

typedef enum SorterState
{
	SORTER_INGEST,				/* rows come in */
	SORTER_MEMORY,				/* the result is in memory */
	SORTER_KEYS,				/* the same, but keys are all it is: keys_only.h */
	SORTER_STREAM,				/* it comes from the device, once, forward */
	SORTER_MERGE,				/* it comes from a merge, once, forward */
	SORTER_RUN					/* it is one run on disk, both ways */
} SorterState;

/* What to sort; the arrays belong to the caller and live as long. */
typedef struct SortSpec
{
	TupleDesc	desc;
	const KeyColumn *keys;
	int			nkeys;
	bool		random_access;	/* rewind, mark or backward reading to come */

	/* Would the same rows come again, in the same order?  NULL: no. */
	bool		(*can_rerun) (void *arg);
	void	   *can_rerun_arg;
	bool		timing;			/* phases are timed */
	bool		keys_only;		/* rows are given out in a virtual slot */
} SortSpec;

/* What happened, for EXPLAIN and statistics. */
typedef struct SorterReport
{
	uint64		rows;			/* rows that came in */
	uint64		page_rows;		/* of them, straight from their pages */
	Size		memory_peak;	/* bytes */
	uint64		disk_bytes;		/* of the temporary file, peak */
	int			runs;			/* written; 0: sorted in memory */
	int			key_bits;		/* of the last kernel run, after narrowing */
	bool		bounded;
	uint64		ties;			/* rows whose order took a comparison */
	bool		device_failed;	/* the GPU was tried and failed */
	uint64		device_rows;	/* rows that were on the GPU themselves */
	uint64		early_rows;		/* whose keys went there while others came in */
	uint64		bytes_up;		/* to the GPU and back */
	uint64		bytes_down;
	double		device_sort_us; /* of its kernels */
	bool		sorted;			/* facts and decision are set */
	RouteFacts	facts;			/* of the last kernel run */
	RouteDecision decision;
	instr_time	ingest_time;	/* the child's time included */
	instr_time	sort_time;		/* kernels, ties, writing and merging runs */
} SorterReport;

/* Keys decoded at a time where keys are all there is. */
#define KEYS_BATCH	256

typedef struct KeysBatch
{
	Datum		values[STAGE_MAX_COLUMNS][KEYS_BATCH];
	bool		isnull[STAGE_MAX_COLUMNS][KEYS_BATCH];
} KeysBatch;

typedef struct Sorter
{
	SorterState state;

	/* the result in memory: rids[0 .. n), and the next row to give */
	const uint32 *rids;
	size_t		n;
	size_t		pos;
	bool		eof;
	size_t		mark_pos;
	bool		mark_eof;
	Arena		arena;

	/* the result on the device: the chunk that is being read */
	char	   *stream_next;
	char	   *stream_end;
	uint32		stream_left;
	uint64		stream_sum;		/* row_sum() of those given out */
	bool		lost;			/* the rows are gone: run the child again */
	struct DeviceRows *device_rows; /* NULL unless the rows are there */
	bool		device_rows_allowed;
	double		rows_expected;
	struct DeviceKeys *device_keys; /* NULL unless keys are there; then rows past n
									 * may come */
	size_t		send_at;		/* staged rows at which keys are sent */
	bool		result_streams; /* rows are given out as they arrive from there */

	SortSpec	spec;
	MemoryContext cxt;
	BulkOwner  *bulk;
	Stage		stage;
	RowWriter  *writer;
	TieBreak   *tiebreak;
	Size		limit;			/* bytes that rows and keys may take */
	Size		put_limit;		/* ... until something else is tried */
	Size		key_cost;		/* bytes per row to stage and sort its key */
	Size		sort_cost;		/* of them, beside what is staged */
	size_t		max_rows;		/* to stage and sort at once */
	size_t		expected;		/* to come; 0: a few */
	size_t		bound;			/* rows wanted; 0: all */
	bool		have_threshold; /* of a bounded sort: see limit.c */
	uint64		threshold[STAGE_MAX_COLUMNS];
	bool		threshold_null[STAGE_MAX_COLUMNS];
	bool		threshold_inexact[STAGE_MAX_COLUMNS];	/* it may be */
	BulkBuf		threshold_row;	/* if images do not tell all */

	/* a result of keys only; of them, [batch_start, batch_start + batch_n) decoded */
	KeysBatch  *keys_batch;
	size_t		batch_start;
	size_t		batch_n;
	const void *keys;
	SortRecFormat keys_format;
	KeyLayout	keys_layout;

	BulkBuf		recs;
	BulkBuf		scratch;

	/* spilled runs */
	SpillFile  *file;
	SpillRun  **runs;
	int			nruns;
	int			runs_capacity;
	KeyRange	ranges[STAGE_MAX_COLUMNS];	/* of all rows so far */
	KeyLayout	merge_layout;
	TupleTableSlot *merge_slot;
	Merge	   *merge;
	ResultRun	result;
	MemoryContext merge_cxt;

	SorterReport report;
} Sorter;

/*
 * A sorter for many sorts of one spec, in the current memory context; all its
 * memory goes with that context.
 */
extern Sorter *sorter_create(const SortSpec *spec);

/* Begins a sort; bound > 0 if only so many rows of the front are wanted. */
extern void sorter_begin(Sorter *sorter, size_t bound, double rows_expected);

/*
 * Begins it again after its rows were lost with a device (sorter->lost), on the
 * CPU.  Returns how many rows were given out before, whose row_sum() is in *sum.
 */
extern uint64 sorter_begin_again(Sorter *sorter, uint64 *sum);

extern void sorter_put(Sorter *sorter, TupleTableSlot *slot);

/* All rows are in: sorts them. */
extern void sorter_perform(Sorter *sorter);

/* The next row by way of everything but the fast path below. */
extern bool sorter_next_slow(Sorter *sorter, bool forward, TupleTableSlot *slot);

extern void sorter_rewind(Sorter *sorter);
extern void sorter_mark(Sorter *sorter);
extern void sorter_restore(Sorter *sorter);

/* Ends the sort, gives up files and memory; sorter_begin() may follow. */
extern void sorter_end(Sorter *sorter);

/* Gives up the staged keys of a large sort. */
extern void sorter_free_stage(Sorter *sorter);

/*
 * Room in the stage for some more rows; false if the rows that are there have to
 * be sorted before.
 */
extern bool sorter_stage_room(Sorter *sorter, size_t rows);

/* The memory that is taken, and that sorting what is there will take. */
static inline Size
sorter_taken(const Sorter *sorter)
{
	return arena_used(&sorter->arena) + sorter->stage.bytes +
		sorter->stage.n * sorter->sort_cost;
}

/* sorter_sort.c: the staged rows' rids, in order, into rids[0 .. n). */
extern void sorter_sort_staged(Sorter *sorter);

/* Lets a kernel sort the records in recs, and returns where they lie then. */
extern void *sorter_run_kernel(Sorter *sorter, size_t n, SortRecFormat format, int begin_bit,
							   int end_bit, uint64 key_range, const KeyOrder *order,
							   bool exact);

/* Of recs and scratch, frees that in which the result is not. */
extern void sorter_free_other(Sorter *sorter, const void *result);

/* A slot for rows that pass through the sorter. */
extern TupleTableSlot *sorter_merge_slot(Sorter *sorter);

/* sorter_spill.c: runs on disk. */
extern void sorter_write_run(Sorter *sorter);

/* A run of rows from elsewhere; the old memory context is the caller's to keep. */
extern MemoryContext sorter_begin_run(Sorter *sorter, RunWriter *writer);
extern void sorter_finish_run(Sorter *sorter, RunWriter *writer, MemoryContext old);
extern void sorter_merge_runs(Sorter *sorter);

/* Notes the memory that there is now, and so much more elsewhere. */
extern void sorter_note_memory(Sorter *sorter, Size more);

/* The time if phases are timed, otherwise nothing. */
static inline void
sorter_clock(const Sorter *sorter, instr_time *t)
{
	if (sorter->spec.timing)
		INSTR_TIME_SET_CURRENT(*t);
	else
		INSTR_TIME_SET_ZERO(*t);
}

/* Rows whose memory is asked for this far ahead of their turn. */
#define SORTER_PREFETCH		64

/* The columns of the i-th key, which is in the batch. */
static inline void
keys_batch_row(const Sorter *sorter, size_t i, Datum *values, bool *isnull)
{
	size_t		at = i - sorter->batch_start;

	for (int c = 0; c < sorter->stage.ncols; c++)
	{
		int			att = sorter->stage.cols[c].att;

		values[att] = sorter->keys_batch->values[c][at];
		isnull[att] = sorter->keys_batch->isnull[c][at];
	}
}

static inline void
keys_batch_to_slot(const Sorter *sorter, size_t i, TupleTableSlot *slot)
{
	/* somebody may have materialised the row before */
	if (unlikely(TTS_SHOULDFREE(slot)))
		ExecClearTuple(slot);
	keys_batch_row(sorter, i, slot->tts_values, slot->tts_isnull);
	slot->tts_nvalid = slot->tts_tupleDescriptor->natts;
	slot->tts_flags &= ~TTS_FLAG_EMPTY;
}

/*
 * The next row of the chunk that came from the device, which has one; NULL if what
 * came is none of the rows that went there.
 */
static inline MinimalTuple
sorter_stream_row(Sorter *sorter)
{
	MinimalTuple row = (MinimalTuple) sorter->stream_next;
	uint64		sum;

	if (unlikely(!row_is_whole(sorter->stream_next, sorter->stream_end - sorter->stream_next, &sum)))
		return NULL;
	sorter->stream_sum += sum;
	sorter->stream_next += MAXALIGN(row->t_len);
	sorter->stream_left--;
	return row;
}

/* Puts the next row into the slot; false at the end. */
static inline bool
sorter_next(Sorter *sorter, bool forward, TupleTableSlot *slot)
{
	if (likely(sorter->state == SORTER_MEMORY && forward && sorter->pos < sorter->n))
	{
		const uint32 *rid = sorter->rids + sorter->pos;

		if (likely(sorter->pos + SORTER_PREFETCH < sorter->n))
			__builtin_prefetch(arena_at(&sorter->arena, rid[SORTER_PREFETCH]));
		row_to_slot(slot, (MinimalTuple) arena_at(&sorter->arena, *rid));
		sorter->pos++;
		return true;
	}
	if (forward && sorter->state == SORTER_KEYS &&
		sorter->pos - sorter->batch_start < sorter->batch_n)
	{
		keys_batch_to_slot(sorter, sorter->pos, slot);
		sorter->pos++;
		return true;
	}
	if (sorter->stream_left > 0)
	{
		MinimalTuple row = sorter_stream_row(sorter);

		if (likely(row != NULL))
		{
			row_to_slot(slot, row);
			return true;
		}
	}
	return sorter_next_slow(sorter, forward, slot);
}

#endif							/* GPUSORT_SORTER_H */
