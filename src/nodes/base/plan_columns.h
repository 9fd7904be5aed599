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

/* Does a node return the columns of its child as they are? */
extern bool plan_returns_input(const Plan *plan);

#endif							/* GPUSORT_NODES_BASE_PLAN_COLUMNS_H */
