/*
 * executor_internal.h
 *	  Node states, and interfaces between the executor's modules.
 */
#ifndef GPUSORT_EXECUTOR_EXECUTOR_INTERNAL_H
#define GPUSORT_EXECUTOR_EXECUTOR_INTERNAL_H

#include "postgres.h"

#include "compat.h"
#include "executor/executor.h"
#include "executor/gpusort_executor.h"
#include "executor/tuptable.h"
#include "key/key.h"
#include "nodes/execnodes.h"
#include "parallel/parallel.h"
#include "port/atomics.h"
#include "sort/sort.h"

/* ------------------------------------------------------------------------
 * Input: rows of the child, by slot or by heap page
 * ------------------------------------------------------------------------
 */

/* State of the child's scans that are read page by page. */
typedef struct PageSource
{
	PlanState  *plan;			/* the child */
	bool		possible;		/* the child is a SeqScan or an Append */
	PlanState  *scan_plan;		/* the plan node that returned the last row */
	int			single_rows;	/* rows that scan_plan returned in slots */
	bool		examined;		/* scan and computed are set for scan_plan */

	/* set if the rows of scan_plan are columns of its tuples; or NULL */
	struct PageScan *scan;

	/* set if its rows have expressions; or NULL */
	struct ComputedScan *computed;
} PageSource;

extern void page_source_init(PageSource *source, PlanState *plan);

/* Frees the scans of the source, which may be used again. */
extern void page_source_end(PageSource *source);

/*
 * Puts all rows of a plan into a sorter.  Stops early if the sorter's device
 * failed or *stop is set (stop may be NULL).
 */
extern void sort_node_take_rows(Sorter *sorter, PlanState *outer, PageSource *pages,
								pg_atomic_uint32 *stop);

/* Returns LIMIT + OFFSET, the number of rows wanted; 0: all. */
extern size_t sort_node_bound(ExprContext *econtext, ExprState *limit_count,
							  ExprState *limit_offset);

/* Counts a sort for the view gpusort_stat. */
extern void sort_node_count(const SortReport *report);

/* ------------------------------------------------------------------------
 * Rows that are computed from heap tuples (row_program.c)
 * ------------------------------------------------------------------------
 */

typedef struct RowProgram RowProgram;

/*
 * Creates a program that computes the target list of a scan from tuples of desc, in the
 * current memory context.  NULL if the target list has other expressions than columns,
 * constants and function calls.
 */
extern RowProgram *row_program_create(const Scan *plan, TupleDesc desc);

/*
 * Computes the row of a tuple of len bytes.  The arrays have its columns until the next
 * call.  Values passed by reference lie in the tuple, or in the current memory context.
 */
extern void row_program_run(RowProgram *program, const HeapTupleHeaderData *tuple, Size len,
							const Datum **values, const bool **isnull);

/* ------------------------------------------------------------------------
 * Input of a GpuSort Incremental: rows of the child, of an index scan by heap page
 * (index_input.c)
 * ------------------------------------------------------------------------
 */

typedef struct IndexSource IndexSource;

/* Creates a source of the rows of any child, in the current memory context. */
extern IndexSource *index_source_create(PlanState *plan);

/* Returns the child's next row, valid until the next call; NULL at the end. */
extern TupleTableSlot *index_source_next(IndexSource *source);

/* The child begins again. */
extern void index_source_rescan(IndexSource *source);
extern void index_source_end(IndexSource *source);

/* ------------------------------------------------------------------------
 * Columns that divide ordered rows into groups (group_column.c)
 * ------------------------------------------------------------------------
 */

/* A column, with the value of an earlier row. */
typedef struct GroupColumn
{
	AttrNumber	attno;			/* column of the child, from 1 */
	int16		typlen;
	bool		typbyval;
	bool		bytes_decide;	/* values with different bytes are not equal */
	Oid			collation;
	FmgrInfo	equal;			/* the equality function */
	bool		isnull;			/* the kept value is NULL */
	Datum		value;			/* kept value; in copy if passed by reference */
	char	   *copy;
	Size		room;			/* bytes allocated for copy */
} GroupColumn;

extern void group_column_init(GroupColumn *column, AttrNumber attno, Oid equality, Oid collation,
							  TupleDesc desc);

/* Is the value equal to the kept one?  Neither is NULL.  Resets scratch if it is used. */
extern bool group_column_compare(GroupColumn *column, Datum value, MemoryContext scratch);

/* Copies a value, which is not NULL, to memory in cxt. */
extern void group_column_keep_by_reference(GroupColumn *column, Datum value, MemoryContext cxt);

/* Is the row's value the kept one?  The slot is deformed.  Resets scratch if it is used. */
static pg_attribute_always_inline bool
group_column_equals(GroupColumn *column, const TupleTableSlot *row, MemoryContext scratch)
{
	Datum		value = row->tts_values[column->attno - 1];

	if (unlikely(row->tts_isnull[column->attno - 1] || column->isnull))
		return row->tts_isnull[column->attno - 1] && column->isnull;
	if (likely(column->typbyval))
	{
		if (column->value == value)
			return true;
		if (column->bytes_decide)
			return false;
	}
	return group_column_compare(column, value, scratch);
}

/* Keeps the row's value, which its slot may forget.  The slot is deformed. */
static inline void
group_column_keep(GroupColumn *column, const TupleTableSlot *row, MemoryContext cxt)
{
	column->isnull = row->tts_isnull[column->attno - 1];
	if (column->isnull)
		return;
	if (column->typbyval)
		column->value = row->tts_values[column->attno - 1];
	else
		group_column_keep_by_reference(column, row->tts_values[column->attno - 1], cxt);
}

/*
 * Number of the first of n columns in which the row differs from the kept values; n if there
 * is none.  The slot is deformed.
 */
static pg_attribute_always_inline int
group_columns_first_difference(GroupColumn *columns, int n, const TupleTableSlot *row, MemoryContext scratch)
{
	int			first = 0;

	while (first < n && group_column_equals(&columns[first], row, scratch))
		first++;
	return first;
}

/*
 * Drops duplicates of rows that come in sort order, for results that have them
 * (SortResult.duplicates).
 */
typedef struct DistinctFilter
{
	uint64		dropped;		/* rows that did not pass */
	bool		begun;			/* the columns have the values of the last row
								 * that has passed */
	AttrNumber	last_attno;		/* greatest column number */
	MemoryContext cxt;
	MemoryContext scratch;
	int			ncolumns;
	GroupColumn columns[FLEXIBLE_ARRAY_MEMBER];
} DistinctFilter;

/* Creates a filter for rows that differ in the first "distinct" keys, in the current memory context. */
extern DistinctFilter *distinct_filter_create(TupleDesc desc, const KeyColumn *keys, int distinct);

/* Other rows follow, or the rows begin again. */
extern void distinct_filter_reset(DistinctFilter *filter);

/* Does the row differ from all rows before? */
extern bool distinct_filter_pass(DistinctFilter *filter, TupleTableSlot *row);

/* ------------------------------------------------------------------------
 * Ordered-set aggregates of values in order (ordered_set.c)
 * ------------------------------------------------------------------------
 */

typedef struct OrderedSet OrderedSet;

/*
 * Prepares the ordered-set aggregates of an Agg, which have the same sort column, column
 * attno of rows of desc.
 */
extern OrderedSet *ordered_set_create(AggState *agg, AttrNumber attno, TupleDesc desc);
extern void ordered_set_end(OrderedSet *set);

/* Is an aggregate mode()?  Does another aggregate need values by their position? */
extern bool ordered_set_has_mode(const OrderedSet *set);
extern bool ordered_set_has_places(const OrderedSet *set);

/*
 * Begins a group.  keep: all values are put, and kept until the places are known.  stable:
 * a value passed by reference stays where it is until the group's results are made.
 */
extern void ordered_set_begin_group(OrderedSet *set, bool keep, bool stable);

/* Takes the next value, which is not NULL.  changed: it differs from the one before. */
extern void ordered_set_put(OrderedSet *set, Datum value, bool changed);

/* The group's values that were put, or its count if that was known before. */
extern int64 ordered_set_count(const OrderedSet *set);

/*
 * The group has count values that are not NULL: evaluates the fractions, and determines the
 * places of the values that they need, in ascending order.
 */
extern void ordered_set_want(OrderedSet *set, int64 count, ExprContext *econtext);
extern int	ordered_set_wanted(const OrderedSet *set);
extern int64 ordered_set_place(const OrderedSet *set, int i);

/* The value at wanted place i. */
extern void ordered_set_give(OrderedSet *set, int i, Datum value);

/* Takes all wanted values from the kept values. */
extern void ordered_set_read(OrderedSet *set);

/* Writes the results to the aggregates' values in econtext. */
extern void ordered_set_results(OrderedSet *set, ExprContext *econtext);

/* ------------------------------------------------------------------------
 * Node "Custom Scan (GpuSort)", serial
 * ------------------------------------------------------------------------
 */

typedef struct GpuSortState
{
	CustomScanState css;
	KeyColumn  *keys;
	int			nkeys;
	int			distinct;		/* of gpusort_plan_distinct() */
	bool		random_access;	/* the parent rewinds, marks, reads backward */
	bool		keys_only;		/* returned rows are made from normalized keys */
	bool		sort_done;
	size_t		bound;			/* rows wanted of the last sort; 0: all */
	ExprState  *limit_count;	/* LIMIT of the parent; NULL: none */
	ExprState  *limit_offset;	/* OFFSET of the parent; NULL: none */
	int			work_mem;		/* setting when the last sort began */
	double		hash_mem_multiplier;	/* setting when the last sort began */
	Sorter	   *sorter;			/* NULL until the first row is asked for */
	SortResult *result;			/* result of the last sort */
	DistinctFilter *filter;		/* for results with duplicates; NULL until
								 * there is one */
	PageSource	pages;
} GpuSortState;

/*
 * The number of rows that a plan node returns, after it was asked for the first one.  False
 * if it is not known: the node is no serial GpuSort, or drops rows.
 */
extern bool gpusort_count_rows(PlanState *ps, uint64 *rows);

/* Skips at most this many following rows of such a node; returns how many. */
extern uint64 gpusort_skip_rows(PlanState *ps, uint64 rows);

/*
 * The number of following rows that gpusort_peek() can read; 0 for other nodes.  Sets *all if
 * no other rows follow them.
 */
extern uint64 gpusort_rows_ahead(PlanState *ps, bool *all);

/*
 * Puts following row i, one of those, into a slot of the kind that the node returns; 0 is the
 * next row.  The node's next row stays the same.
 */
extern void gpusort_peek(PlanState *ps, uint64 i, TupleTableSlot *slot);

/*
 * Returns at most RESULT_TAKE following rows of such a node at once: puts their addresses
 * into rows[] and returns their number.  They stay there until the next row is asked for.
 * 0: ask the node for the next row.  *more: later calls may return rows.
 */
extern int	gpusort_next_rows(PlanState *ps, MinimalTuple *rows, bool *more);

/* Do the rows of this node stay where they are until it is rescanned or ended? */
extern bool gpusort_rows_stay(PlanState *ps);

/*
 * The sorted rows of such a node, if all of them can be read in any order:
 * a row that was returned is at pos - 1, and the row at pos is returned next.  Otherwise NULL.
 * It stays until the node is rescanned or ended.
 */
extern ArrayResult *gpusort_array_result(PlanState *ps);

/* ------------------------------------------------------------------------
 * Node "Custom Scan (GpuSort Feed)": a participant of a parallel sort
 * ------------------------------------------------------------------------
 */

typedef struct PartialSortState
{
	CustomScanState css;
	KeyColumn  *keys;
	int			nkeys;
	bool		done;			/* all rows are taken and sorted */
	size_t		bound;			/* leader only: rows wanted; 0: all */
	Sorter	   *sorter;
	SortResult *result;			/* result of the last sort */
	PageSource	pages;
	SortSpec	spec;

	Exchange   *exchange;		/* NULL: no workers, or the node was shut down */
	int			ring;			/* ring of this worker; -1 in the leader */

	/* leader only */
	bool		leader_participation;	/* the setting at the launch */
	DeviceProducer producer;	/* the job to which all participants send rows */
	Sink	   *device_sink;	/* sink of that job in sorter; NULL: no job */
	Sorter	   *share_sorter;	/* sends the leader's own rows to that job */

	/* for EXPLAIN, after shutdown */
	int			nreports;		/* planned workers + 1; 0: no exchange */
	ParticipantReport *reports; /* by ring; the leader's is the last */
} PartialSortState;

/* Returns the partial sort below a parallel sort's Gather. */
extern PartialSortState *partial_sort_of_gather(GatherState *gather);

/*
 * ExecProcNode of the leader's partial sort while workers are launched: returns
 * an all-NULL row that the parent discards.
 */
extern TupleTableSlot *partial_sort_exec_dummy(PlanState *pstate);

/*
 * Leader, before workers are launched: opens a device job to which all
 * participants send their rows; false if that is not possible.  *returned notes
 * the rows that the parent returns.
 */
extern bool partial_sort_open_device_job(PartialSortState *partial, double rows, double row_bytes,
										 int participants, ReturnedRows *returned);

/* Leader: sends its own share of the rows to the job. */
extern void partial_sort_send_own_rows(PartialSortState *partial);

/* Leader: all rows are on the device; sorts them.  False if the device failed. */
extern bool partial_sort_device_sort(PartialSortState *partial);

/* Leader: ends the job.  Its report stays readable. */
extern void partial_sort_close_device_job(PartialSortState *partial);

/* Leader: stops the exchange, so that no participant waits any more. */
extern void partial_sort_stop(PartialSortState *partial);

/* ------------------------------------------------------------------------
 * Node "Custom Scan (GpuSort)" above a Gather of partial sorts
 * ------------------------------------------------------------------------
 */

typedef enum ParallelSortPhase
{
	PARALLEL_SORT_NEW,
	PARALLEL_SORT_SERIAL,		/* no worker has rows */
	PARALLEL_SORT_MERGE,		/* the participants' streams are merged */
	PARALLEL_SORT_DEVICE,		/* rows stream from the device */

	/*
	 * Second run, without the device that failed.  Rows that were returned
	 * before are skipped.
	 */
	PARALLEL_SORT_RESUME,
	PARALLEL_SORT_END
} ParallelSortPhase;

typedef struct ParallelSortState
{
	CustomScanState css;
	KeyColumn  *keys;
	int			nkeys;
	ExprState  *limit_count;	/* LIMIT of the parent; NULL: none */
	ExprState  *limit_offset;	/* OFFSET of the parent; NULL: none */
	GatherState *gather;
	PartialSortState *partial;
	ParallelSortPhase phase;
	ParallelSortPhase resume_phase; /* phase of the second run during RESUME */
	MemoryContext cxt;			/* memory of the merge */
	MergeTree  *merge;
	int			nstreams;		/* streams that are merged */
	bool		device_failed;	/* the device failed and is not tried again */
	bool		on_device;		/* rows came from the device last time */
	ReturnedRows returned;		/* rows returned before a device failed */
	int			distinct;		/* of gpusort_plan_distinct() */
	bool		filters;		/* this phase's rows pass the filter */
	DistinctFilter *filter;		/* NULL until it is needed */
	TupleTableSlot *row_slot;	/* a row before projection */
} ParallelSortState;

extern Node *parallel_sort_create_state(void);

/* ------------------------------------------------------------------------
 * Node "Custom Scan (GpuSort Incremental)"
 * ------------------------------------------------------------------------
 */

/* What EXPLAIN shows of the sorts of batches, or of groups. */
typedef struct SortGroups
{
	int64		n;				/* sorts */
	uint64		algorithms[2];	/* bit sets of algorithm ids: of full sorts,
								 * and of bounded sorts */
	bool		inserted;		/* there were bounded sorts by insertion */
	bool		batches;		/* batches of small groups */
	int64		memory_kb;		/* sum of the sorts in memory */
	int64		memory_peak_kb;
	int64		disk_kb;		/* sum of the sorts that wrote runs */
	int64		disk_peak_kb;
} SortGroups;

typedef struct IncrementalState
{
	CustomScanState css;
	KeyColumn  *keys;
	int			nkeys;
	ExprState  *limit_count;	/* LIMIT of the parent; NULL: none */
	ExprState  *limit_offset;	/* OFFSET of the parent; NULL: none */
	int			nprefix;		/* leading sort columns by which the child's
								 * rows are ordered */
	DistinctFilter *filter;		/* drops duplicates; NULL without distinct
								 * columns */
	GroupColumn *prefix;		/* values of these columns in the current group */
	AttrNumber	last_attno;		/* greatest column number of the prefix */
	AttrNumber	last_key_attno; /* greatest column number of the sort columns */

	IndexSource *source;		/* the child's rows */

	/* the current execution */
	bool		begun;
	size_t		bound;			/* rows wanted; 0: all */
	uint64		returned;		/* rows returned */
	TupleTableSlot *ahead;		/* the child's next row, which is not taken
								 * yet; NULL: none */
	bool		divided;		/* the batch's last group is large, and the
								 * child may have more rows of it */
	bool		after_large;	/* the last group was large */
	double		last_rows;		/* rows of the last large group */
	SortResult *result;			/* rows being returned; NULL: none */

	struct GroupBatch *batch;			/* rows of small groups; NULL until needed */
	Sorter	   *sorter;			/* sorts a large group; NULL until needed */
	bool		sorter_begun;	/* the sorter has rows */
	SortReport	batch_report;	/* of all batches that are not counted yet */
	SortGroups	batches;
	SortGroups	groups;
} IncrementalState;

/* ------------------------------------------------------------------------
 * EXPLAIN
 * ------------------------------------------------------------------------
 */

extern void gpusort_explain(CustomScanState *css, List *ancestors, ExplainState *es);
extern void partial_sort_explain(CustomScanState *css, List *ancestors, ExplainState *es);
extern void parallel_sort_explain(CustomScanState *css, List *ancestors, ExplainState *es);
extern void incremental_explain(CustomScanState *css, List *ancestors, ExplainState *es);

/* Fills the plain data that EXPLAIN shows of a sort. */
extern void participant_report_fill(ParticipantReport *to, const SortReport *report,
									bool keys_only);

/* ------------------------------------------------------------------------
 * Reruns and pauses (plan_format.c)
 * ------------------------------------------------------------------------
 */

/*
 * Does the plan return the same rows in the same order after ExecReScan(),
 * under the same work_mem and hash_mem_multiplier, whatever other sessions do?
 */
extern bool plan_can_rerun(PlanState *ps);

/* SortSpec.can_rerun of sorts whose child is never run again. */
extern bool sort_cannot_rerun(void *arg);

/* The same for plans shared by workers: the same rows, in any order. */
extern bool plan_can_rerun_shared(PlanState *ps);

/* May the current executor run stop before the end of its plan? */
extern bool device_may_pause(void);

#endif							/* GPUSORT_EXECUTOR_EXECUTOR_INTERNAL_H */
