/*
 * sorted_input.h
 *	  Sorted input: what a node reads of a GpuSort below in other ways than row by row.
 *
 * A node reads its input with ExecProcNode(), whatever node that is.  Between two such calls it
 * may ask these functions.  They know more than that if the input is a GpuSort: how many rows
 * there are, which rows follow, and which of them stay in memory.  Of any other node they say
 * that nothing is known, so the caller goes on row by row.
 */
#ifndef GPUSORT_NODES_SORT_SORTED_INPUT_H
#define GPUSORT_NODES_SORT_SORTED_INPUT_H

#include "postgres.h"

#include "nodes/base/group_column.h"
#include "nodes/execnodes.h"
#include "sort/sort.h"

/*
 * The number of rows that a plan node returns, after it was asked for the first one.  False
 * if it is not known: the node is no serial GpuSort, or drops rows.
 */
extern bool sorted_input_count(PlanState *ps, uint64 *rows);

/* Skips at most this many following rows of such a node; returns how many. */
extern uint64 sorted_input_skip(PlanState *ps, uint64 rows);

/*
 * Skips following rows whose first key, an integer of this size in ascending order, is below a value.  The node is a
 * GpuSort that has its rows' keys in an array, or a GpuSort Shared; of others, none is skipped.
 */
extern void sorted_input_skip_below(PlanState *ps, AttrNumber attno, int bytes, int64 value);

/* Does sorted_input_skip_below() gain if only one row is skipped? */
extern bool sorted_input_skips_cheaply(const PlanState *ps);

/*
 * Skips following rows of a sort, serial or parallel, that keeps one row of each value of its
 * first key, which is column attno.  Returns their number, and sets *nulls to the number of those
 * with a NULL there.  0: ask the node for the next row.  The node's last row becomes invalid.
 */
extern uint64 sorted_input_skip_values(PlanState *ps, AttrNumber attno, uint64 *nulls);

/*
 * The number of following rows that sorted_input_peek() can read; 0 if the node is no serial GpuSort.
 * Sets *all if these are all following rows.
 */
extern uint64 sorted_input_ahead(PlanState *ps, bool *all);

/*
 * Puts following row i, of those that sorted_input_ahead() counts, into a slot of the kind that the
 * node returns; 0 is the next row.  The node's next row stays the same.
 */
extern void sorted_input_peek(PlanState *ps, uint64 i, TupleTableSlot *slot);

/* Rows that were taken from a sort at once. */
typedef struct TakenRows
{
	bool		more;			/* there may be rows to take */
	bool		compares;		/* asks for equal[] */
	int			next;			/* the first row that is not used yet */
	int			n;
	MinimalTuple rows[RESULT_TAKE];
	EqualColumns equal[RESULT_TAKE];	/* columns that a row has in common with the row before it */
} TakenRows;

/*
 * Takes following rows of such a node, or of a parallel GpuSort, after the node was asked for a row.  They stay
 * until the node is asked for the next row.  False: there are none, ask the node.  Sets more.
 */
extern bool sorted_input_take(PlanState *ps, TakenRows *taken);

/*
 * Are these columns the first ones by which the node sorts, with the same equality?  Then rows that are
 * taken from it are to have equal[].  Called before the node's first row.
 */
extern bool sorted_input_compares(PlanState *ps, const GroupColumns *columns);

/* Is the node a GpuSort whose rows that are equal in the first sort columns all follow each other? */
extern bool sorted_input_groups(PlanState *ps);

/* A side of a merge join, and its first key: a column of integers. */
typedef struct MergeSide
{
	PlanState  *ps;
	AttrNumber	attno;			/* the key's column, from 1 */
	int			bytes;			/* its size: 2, 4 or 8 */
} MergeSide;

/*
 * Estimates the gain of a filter, as a number of rows that a sort need not sort.  The sort below drops loses the rows
 * whose key is not a key of adds.  matched is the estimated number of rows that it keeps.  0: drops is no
 * serial GpuSort by its key, adds neither such a one nor a GpuSort Shared, or a filter costs more than it gains.
 */
extern double sorted_input_filter_saves(const MergeSide *adds, const MergeSide *drops, double matched);

/*
 * Makes the filter: drops loses rows whose key is not a key of adds.  Called before both sides' first rows, if
 * sorted_input_filter_saves() is above 0.  The caller asks adds for its first row before it asks drops, also after
 * a rescan.
 */
extern void sorted_input_filter(const MergeSide *adds, const MergeSide *drops);

/*
 * Has the GpuSort below rows?  Asked before its first row, also after a rescan.  It takes a row of its child, and
 * does not sort.
 */
extern bool sorted_input_has_rows(PlanState *ps);

/* Do the rows of this node stay where they are until it is rescanned or ended? */
extern bool sorted_input_stays(PlanState *ps);

/*
 * The sorted rows of a serial GpuSort, if all of them can be read in any order: the row that was
 * returned last is at pos - 1, and the row at pos is returned next.  Otherwise NULL.
 * The array stays until the node is rescanned or ended.
 */
extern ArrayResult *sorted_input_array(PlanState *ps);

#endif							/* GPUSORT_NODES_SORT_SORTED_INPUT_H */
