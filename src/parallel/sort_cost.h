/*
 * sort_cost.h
 *	  Cost model of sorts, for the planner.
 */
#ifndef GPUSORT_PARALLEL_SORT_COST_H
#define GPUSORT_PARALLEL_SORT_COST_H

#include "postgres.h"

#include "key/type/keytype.h"

/* The sort whose cost is asked for. */
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
 * Number of participants of a parallel sort that the machine runs at once.
 * leader: the leader participates, if the workers are few.  It counts as a whole
 * participant, because it reads no tuple queues meanwhile.
 */
extern double sort_cost_concurrency(int workers, bool leader);

/*
 * A parallel sort by the faster of two ways: the workers sort and the leader merges;
 * or, if there is a GPU, all participants send their rows to it.
 */
extern void sort_cost_parallel(const SortCostFacts *facts, int workers, bool leader, SortCost *cost);

/*
 * Should the participants send their rows to a device?  forced: yes if that is
 * possible, even if it takes longer.
 */
extern bool sort_cost_prefers_device(const SortCostFacts *facts, int workers, bool leader,
									 bool forced);

#endif							/* GPUSORT_PARALLEL_SORT_COST_H */
