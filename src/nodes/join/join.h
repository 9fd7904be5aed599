/*
 * join.h
 *	  The node GpuSort Join, for the planner.
 */
#ifndef GPUSORT_NODES_JOIN_JOIN_H
#define GPUSORT_NODES_JOIN_JOIN_H

#include "postgres.h"

#include "nodes/base/custom_node.h"
#include "nodes/plannodes.h"

/* Plan node "Custom Scan (GpuSort Join)". */
extern const NodeType join_node;

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
 * A GpuSort Join in a finished plan
 *
 * The target list, the qual and the expressions refer to the children as OUTER_VAR and
 * INNER_VAR.  custom_private has the Merge Join, without its target list, qual and children.
 * ------------------------------------------------------------------------
 */

/* One key: both children are ordered by these columns. */
typedef struct MergeKey
{
	AttrNumber	outer;			/* columns of the children, from 1 */
	AttrNumber	inner;
	bool		reverse;		/* in descending order */
	Oid			opfamily;		/* of the order; a btree */
	Oid			outer_type;		/* operand types of the equality operator */
	Oid			inner_type;
	Oid			collation;
} MergeKey;

/* Reads a key of a Merge Join.  False if it compares anything but columns of the children. */
extern bool merge_key_read(const MergeJoin *join, int i, MergeKey *key);

#endif							/* GPUSORT_NODES_JOIN_JOIN_H */
