/*
 * sort_cost.h
 *	  Cost model of sorts, for the planner.
 */
#ifndef GPUSORT_PARALLEL_SORT_COST_H
#define GPUSORT_PARALLEL_SORT_COST_H

#include "postgres.h"

#include "key/type/keytype.h"

typedef struct SortCostFacts
{
	double		rows;			/* rows of all participants */
	double		row_bytes;		/* average size of a stored row */
	double		bound;			/* rows wanted; 0: all */
	bool		in_order;		/* the input is in order or in reverse order */
	const KeyColumn *keys;
	int			nkeys;
} SortCostFacts;

/* Times in microseconds, without the input's own cost. */
typedef struct SortCost
{
	double		sort_us;		/* time until the first row */
	double		rows_us;		/* time to return all rows */
} SortCost;

/* A serial sort, with a GPU if that is quicker. */
extern void sort_cost_serial(const SortCostFacts *facts, SortCost *cost);

/* One participant's sort on its CPU, while all participants sort. */
extern void sort_cost_participant(const SortCostFacts *facts, int participants, SortCost *cost);

/*
 * Returns how many participants of a parallel sort the machine runs at once.
 * leader: the leader takes a share if workers are few, and a whole one, because
 * it reads no tuple queues meanwhile.
 */
extern double sort_cost_concurrency(int workers, bool leader);

/*
 * A parallel sort: the workers sort and the leader merges, or all send their rows
 * to a device if there is one and that is quicker.
 */
extern void sort_cost_parallel(const SortCostFacts *facts, int workers, bool leader, SortCost *cost);

/*
 * Should the participants send their rows to a device?  forced: also where that
 * takes longer, if it is possible.
 */
extern bool sort_cost_prefers_device(const SortCostFacts *facts, int workers, bool leader,
									 bool forced);

#endif							/* GPUSORT_PARALLEL_SORT_COST_H */
