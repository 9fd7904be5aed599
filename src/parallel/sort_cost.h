/*
 * sort_cost.h
 *	  What a sort is expected to take, for the planner.
 */
#ifndef GPUSORT_PARALLEL_SORT_COST_H
#define GPUSORT_PARALLEL_SORT_COST_H

#include "postgres.h"

#include "key/type/keytype.h"

typedef struct SortCostFacts
{
	double		rows;			/* of all participants */
	double		row_bytes;		/* as stored */
	double		bound;			/* so many are wanted; 0: all */
	bool		in_order;		/* they come in order already, or in reverse */
	const KeyColumn *keys;
	int			nkeys;
} SortCostFacts;

/* In microseconds, without the input's own cost. */
typedef struct SortCost
{
	double		sort_us;		/* until the first row */
	double		rows_us;		/* all rows given out, as if they were wanted */
} SortCost;

/* One process sorts, with a GPU if there is one that pays. */
extern void sort_cost_serial(const SortCostFacts *facts, SortCost *cost);

/* One of so many processes sorts, on its CPU; they all do. */
extern void sort_cost_beside(const SortCostFacts *facts, int participants, SortCost *cost);

/*
 * How many of a parallel sort's participants the machine runs at once; leader: it takes a share,
 * too, if the workers are few.  That is a whole one: it has no queues to read meanwhile.
 */
extern double sort_cost_abreast(int workers, bool leader);

/*
 * So many workers sort, and the leader merges what they have sorted.  Or they send their rows to a
 * device, if there is one and that takes less.
 */
extern void sort_cost_workers(const SortCostFacts *facts, int workers, bool leader, SortCost *cost);

/* Do all send their rows to a device?  If that can be, also where it takes longer: forced. */
extern bool sort_cost_producers(const SortCostFacts *facts, int workers, bool leader, bool forced);

#endif							/* GPUSORT_PARALLEL_SORT_COST_H */
