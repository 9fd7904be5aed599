/*
 * gpusort_executor.h
 *	  The executor's nodes, for the planner and for start-up.
 */
#ifndef GPUSORT_EXECUTOR_GPUSORT_EXECUTOR_H
#define GPUSORT_EXECUTOR_GPUSORT_EXECUTOR_H

#include "postgres.h"

#include "compat.h"
#include "executor/executor_internal.h"
#include "key/type/keytype.h"
#include "nodes/execnodes.h"
#include "nodes/extensible.h"
#include "nodes/plannodes.h"
#include "sort/sort.h"

typedef struct GpuSortState
{
	CustomScanState css;
	KeyColumn  *keys;
	int			nkeys;
	bool		random_access;
	bool		keys_only;
	bool		sort_done;
	size_t		bound;			/* of the sort that is done; 0: none */
	ExprState  *limit_count;	/* of the Limit above, if one bounds this node */
	ExprState  *limit_offset;
	int			work_mem;		/* of the sort that was begun */
	double		hash_mem_multiplier;
	Sorter	   *sorter;			/* NULL until the first row is wanted */
	SortResult *result;			/* of the sort that is done */
	PageSource	pages;			/* of the child */
} GpuSortState;

/* The methods of the plan's node, which are to be registered when the module is loaded. */
extern const CustomScanMethods gpusort_scan_methods;

extern void gpusort_node_init(void);

/* explain.c */
extern void gpusort_explain(CustomScanState *css, List *ancestors, ExplainState *es);

/* ------------------------------------------------------------------------
 * A GpuSort in a finished plan: who makes one and who runs it agree here.
 * ------------------------------------------------------------------------
 */

/* Is it a GpuSort?  Also one above Feeds. */
extern bool gpusort_plan_is(const Plan *plan);

/* Fills in what the node will need to know; limit may be NULL. */
extern void gpusort_plan_fill(CustomScan *cscan, const KeyColumn *keys, int nkeys, Limit *limit);

/* The key columns, palloc'd, and how many there are. */
extern KeyColumn *gpusort_plan_keys(const CustomScan *cscan, int *nkeys);

/* Keys that are one column are another one. */
extern void gpusort_plan_move_key(CustomScan *cscan, AttrNumber from, AttrNumber to);

/* The LIMIT and OFFSET of the Limit above, to be evaluated by the node; NULL where there is none. */
extern void gpusort_plan_limit(const CustomScan *cscan, PlanState *parent, ExprState **count,
							   ExprState **offset);

/* ------------------------------------------------------------------------
 * Can a plan be run again with the same rows in the same order?
 * ------------------------------------------------------------------------
 */

/*
 * After ExecReScan(), under the same work_mem and hash_mem_multiplier, whatever other
 * sessions do meanwhile.
 */
extern bool plan_can_rerun(PlanState *ps);

/* The same rows in whatever order, and shared by workers in whatever way. */
extern bool plan_can_rerun_shared(PlanState *ps);

/* ------------------------------------------------------------------------
 * Runs of the executor that stop before their plan's end, and may never go on.
 * ------------------------------------------------------------------------
 */

/* Called while libraries are preloaded, where there is a device service. */
extern void device_pause_init(void);

/* May the run under way stop with rows still to come? */
extern bool device_may_pause(void);

#endif							/* GPUSORT_EXECUTOR_GPUSORT_EXECUTOR_H */
