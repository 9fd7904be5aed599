/*
 * plan_columns.h
 *	  Columns of finished plans.
 */
#ifndef GPUSORT_NODES_BASE_PLAN_COLUMNS_H
#define GPUSORT_NODES_BASE_PLAN_COLUMNS_H

#include "postgres.h"

#include "nodes/extensible.h"
#include "nodes/makefuncs.h"
#include "nodes/plannodes.h"

/*
 * A CustomScan that returns its input rows, with the costs, rows, parameters and child
 * of the node "like".  The entries of input refer to the child's output.
 */
static inline CustomScan *
plan_scan_of_input(const Plan *like, List *input)
{
	CustomScan *cscan = makeNode(CustomScan);
	List	   *tlist = NIL;
	ListCell   *lc;

	cscan->scan.plan = *like;
	cscan->scan.plan.type = T_CustomScan;

	foreach(lc, input)
	{
		TargetEntry *tle = flatCopyTargetEntry(lfirst_node(TargetEntry, lc));

		tle->expr = (Expr *) makeVarFromTargetEntry(INDEX_VAR, tle);
		tlist = lappend(tlist, tle);
	}
	cscan->scan.plan.targetlist = tlist;
	cscan->custom_scan_tlist = input;
	return cscan;
}

/*
 * An expression of a plan, or the expression that it refers to, where it is computed.  Vars of
 * a table, a subquery or an Append are not followed.
 */
extern const Node *plan_expr_source(const Plan *plan, const Node *expr);

/* The output column of a GpuSort that has this column of its input; 0: none. */
extern AttrNumber sort_output_column(const CustomScan *sort, AttrNumber attno);

#ifdef USE_ASSERT_CHECKING

/* The columns that a node returns, and where they are computed. */
typedef struct PlanOutput
{
	List	   *columns;		/* TargetEntrys */
	List	   *sources;		/* expressions */
} PlanOutput;

extern PlanOutput plan_output(const Plan *plan);

/* Asserts that a node that takes another's place returns the same columns. */
extern void check_plan_output(const PlanOutput *output, const Plan *plan);

#endif

/* Does a Gather or Gather Merge return its input rows unchanged? */
extern bool plan_returns_input(const Plan *gather);

#endif							/* GPUSORT_NODES_BASE_PLAN_COLUMNS_H */
