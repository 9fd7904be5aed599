/*
 * aggregate.h
 *	  The node GpuSort Aggregate, for the planner.
 */
#ifndef GPUSORT_NODES_AGGREGATE_AGGREGATE_H
#define GPUSORT_NODES_AGGREGATE_AGGREGATE_H

#include "postgres.h"

#include "nodes/base/custom_node.h"
#include "nodes/plannodes.h"

/* Plan node "Custom Scan (GpuSort Aggregate)". */
extern const NodeType aggregate_node;

/*
 * Puts a Sort below an Agg whose aggregates sort by themselves, or gives the Sort there more
 * keys.  Call it before the Agg's child is replaced.
 */
extern void sort_below_aggregate(Agg *agg);

/*
 * Can one sort below an aggregate serve all its aggregates?  For the planner, before there is an
 * Agg.  width: bytes of the rows to sort; rows with many bytes besides the sorted columns are
 * refused.  0: rows of any width.
 */
extern bool aggregates_share_order(List *targetlist, List *qual, int width);

/* May rows that are equal in their groups, and in the order of aggregates that sort, come in any order? */
extern bool aggregates_take_any_order(List *targetlist, List *qual);

/* A GpuSort Aggregate in place of an Agg above a GpuSort; otherwise the Agg itself. */
extern Plan *replace_aggregate(Agg *agg);

/* ------------------------------------------------------------------------
 * Format of a GpuSort Aggregate in a finished plan
 *
 * INDEX_VAR i is column i of the Agg's target list.  custom_private has the Agg itself, without
 * child and initplans, which refers to the child's columns as OUTER_VAR; the columns by which the
 * child's rows of a group are ordered, if it matters, each a list of its number, equality operator
 * and collation; and a list that says whether NULLs of the first of these come first.
 * ------------------------------------------------------------------------
 */

/* The different aggregates of expressions. */
extern List *aggregates_of(List *targetlist, List *qual);

/*
 * The number of leading order columns that form the values of a DISTINCT aggregate; 0: it is
 * none.  Constants are no order columns.
 */
extern int	aggregate_distinct_columns(const Aggref *aggref);

/* Is this percentile_cont(), percentile_disc() or mode()? */
extern bool ordered_set_is_known(const Aggref *aggref);

/*
 * The column by which the input of such an aggregate is sorted: its argument, without a
 * cast that keeps the order, and for mode() also the equality.
 */
extern Expr *ordered_set_column(const Aggref *aggref);

#endif							/* GPUSORT_NODES_AGGREGATE_AGGREGATE_H */
