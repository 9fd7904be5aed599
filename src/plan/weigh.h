/*
 * weigh.h
 *	  Gathers whose workers do not pay are to have none.
 */
#ifndef GPUSORT_WEIGH_H
#define GPUSORT_WEIGH_H

#include "postgres.h"

#include "key/type/keytype.h"
#include "nodes/plannodes.h"

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

/* A plan's children: outer and inner, or those of nodes that have others. */
extern List *plan_children(const Plan *plan);

#endif							/* GPUSORT_WEIGH_H */
