/*
 * alone.h
 *	  A plan that several processes were to share becomes one process's.
 */
#ifndef GPUSORT_ALONE_H
#define GPUSORT_ALONE_H

#include "postgres.h"

#include "nodes/plannodes.h"

/*
 * Makes a partial plan, which this is below a Gather of so many workers, one that gives all rows to
 * who runs it without a Gather.  False, and nothing was changed, if that cannot be.
 */
extern bool plan_make_alone(Plan *plan, int workers);

#endif							/* GPUSORT_ALONE_H */
