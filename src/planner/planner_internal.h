/*
 * planner_internal.h
 *	  What the planner's modules share.
 *
 * Costs are counted in pages and operators, ours are times.  By its own estimate of a
 * quicksort PostgreSQL takes the machine to do a cpu_operator_cost in about six
 * nanoseconds (10M rows: 23 levels, two operators each; 2.6 seconds), and scans agree.
 */
#ifndef GPUSORT_PLANNER_PLANNER_INTERNAL_H
#define GPUSORT_PLANNER_PLANNER_INTERNAL_H

#include "postgres.h"

#include "key/type/keytype.h"
#include "nodes/plannodes.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"

/* What one process does in a cpu_operator_cost. */
#define OPERATOR_US		0.00625

/* Of one process's time, that workers may take. */
#define WORKERS_MOST		0.9

/* What starts and ends workers, in parallel_setup_cost: 15 ms for two; what they wait for each other is in it. */
#define SETUP_ANY			4
#define SETUP_WORKER		1

/* A scan that we take page by page: parts of its costs that remain, if it is in memory. */
#define PAGES_ROW_PART	0.4		/* of cpu_tuple_cost */
#define PAGES_READ_PART	0.2		/* of seq_page_cost, */
#define PAGES_NEW_PART	0.6		/* in a process that has never seen them */

static inline Cost
cost_of_us(double us)
{
	return us / OPERATOR_US * cpu_operator_cost;
}

static inline Cost
cost_of_setup(int workers)
{
	return parallel_setup_cost * (SETUP_ANY + workers * SETUP_WORKER);
}

/* Among so many PostgreSQL divides the rows. */
static inline double
shares_of(int workers)
{
	return workers + (parallel_leader_participation ? Max(0, 1.0 - 0.3 * workers) : 0);
}

/* ------------------------------------------------------------------------
 * Columns that a statement sorts by and does not return.
 * ------------------------------------------------------------------------
 */

/* ------------------------------------------------------------------------
 * Sorts of parallel plans become one sort of many workers.
 * ------------------------------------------------------------------------
 */

/* ------------------------------------------------------------------------
 * A plan that several processes were to share becomes one process's.
 * ------------------------------------------------------------------------
 */

/*
 * Makes a partial plan, which this is below a Gather of so many workers, one that gives all rows to
 * who runs it without a Gather.  False, and nothing was changed, if that cannot be.
 */
extern bool plan_make_serial(Plan *plan, int workers);

/* ------------------------------------------------------------------------
 * Gathers whose workers do not pay are to have none.
 * ------------------------------------------------------------------------
 */

/*
 * Do the workers of a Gather or Gather Merge pay?  True if no sort of ours is below it: then it is not
 * for us to say.
 */
extern bool workers_pay(List *rtable, const Plan *gather, int workers);

/*
 * The same of a sort that they are to do together, of these columns and of what a Gather's child,
 * or a Gather Merge's sort, gets.  decided: they do, so far as the sort is concerned.
 */
extern bool sort_workers_pay(List *rtable, const Plan *partial, int workers, const KeyColumn *keys,
							 int nkeys, bool decided);

#endif							/* GPUSORT_PLANNER_PLANNER_INTERNAL_H */
