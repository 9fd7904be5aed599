/*
 * join.h
 *	  The node GpuSort Join, for the planner.
 */
#ifndef GPUSORT_NODES_JOIN_JOIN_H
#define GPUSORT_NODES_JOIN_JOIN_H

#include "postgres.h"

#include "nodes/extensible.h"
#include "nodes/plannodes.h"

/* Plan node "Custom Scan (GpuSort Join)". */
extern const CustomScanMethods join_scan_methods;

/* Can a GpuSort Join join in this way? */
static inline bool
merge_join_has_node(JoinType jointype)
{
	return jointype == JOIN_INNER || jointype == JOIN_LEFT || jointype == JOIN_SEMI || jointype == JOIN_ANTI;
}

/*
 * A GpuSort Join in place of a Merge Join above a GpuSort; otherwise the Merge Join
 * itself.  rewind: the join may be rescanned.
 */
extern Plan *replace_merge_join(MergeJoin *join, bool rewind);

/* ------------------------------------------------------------------------
 * Format of a GpuSort Join in a finished plan
 *
 * The target list, the qual and the expressions refer to the children as OUTER_VAR and
 * INNER_VAR.
 * ------------------------------------------------------------------------
 */

/* One key: both children are ordered by these columns. */
typedef struct JoinKeyFormat
{
	AttrNumber	outer;			/* columns of the children, from 1 */
	AttrNumber	inner;
	bool		reverse;		/* in descending order */
	Oid			opfamily;		/* of the order; a btree */
	Oid			outer_type;		/* operand types of the equality operator */
	Oid			inner_type;
	Oid			collation;
} JoinKeyFormat;

typedef struct JoinFormat
{
	JoinType	jointype;		/* JOIN_INNER, JOIN_LEFT, JOIN_SEMI or JOIN_ANTI */
	bool		inner_unique;	/* an outer row has at most one match */
	int			nkeys;
	JoinKeyFormat *keys;
	List	   *clauses;		/* one for each key */
	List	   *condition;		/* join condition besides the keys, as a list of ANDs */
} JoinFormat;

/* Is this a GpuSort Join? */
extern bool join_plan_is(const Plan *plan);

/* Writes the format into the plan node's custom_private and custom_exprs. */
extern void join_plan_fill(CustomScan *cscan, const JoinFormat *format);

#endif							/* GPUSORT_NODES_JOIN_JOIN_H */
