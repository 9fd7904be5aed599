/*
 * plan_format.h
 *	  Sort columns, LIMIT and duplicates in the plan nodes of sorts.
 */
#ifndef GPUSORT_NODES_BASE_PLAN_FORMAT_H
#define GPUSORT_NODES_BASE_PLAN_FORMAT_H

#include "postgres.h"

#include "key/key.h"
#include "nodes/execnodes.h"
#include "nodes/extensible.h"
#include "nodes/plannodes.h"

/*
 * A parallel sort has one plan node more than the plan that it replaces.  The
 * id of a partial sort is the id of the Sort plus this offset; the planner
 * counts its own nodes from 0.  The id names the node's shared memory and its
 * instrumentation.
 */
#define PARTIAL_SORT_NODE_ID	(1 << 30)

/* Key column i of a Sort or GatherMerge, without what key_type_lookup() fills in. */
#define PLAN_KEY_COLUMN(node, i) \
	((KeyColumn) {.attno = (node)->sortColIdx[i],.sortop = (node)->sortOperators[i], \
			.collation = (node)->collations[i],.nulls_first = (node)->nullsFirst[i]})

/* Writes key columns and the Limit above (or NULL) into the plan node. */
extern void gpusort_plan_fill(CustomScan *cscan, const KeyColumn *keys, int nkeys, Limit *limit);

/* Returns the key columns as a palloc'd array of *nkeys. */
extern KeyColumn *gpusort_plan_keys(const CustomScan *cscan, int *nkeys);

/*
 * The number of leading key columns whose duplicates are not wanted; 0: all rows are
 * wanted.  The node leaves out rows that are equal to the row before in these columns.
 * groups: the planner's estimate of the number of their values; 0: unknown.  Has no effect
 * on a node that leaves out as many rows already, for a node that it has replaced.
 */
extern void gpusort_plan_set_distinct(CustomScan *cscan, int distinct, double groups);

/* Changes keys that are column "from" of the child to column "to". */
extern void gpusort_plan_move_key(CustomScan *cscan, AttrNumber from, AttrNumber to);

/* What the plan node of a sort says, for its execution. */
typedef struct SortPlan
{
	KeyColumn  *keys;
	int			nkeys;
	int			distinct;		/* as in gpusort_plan_set_distinct() */
	double		groups;
	ExprState  *limit_count;	/* LIMIT of the parent; NULL: none */
	ExprState  *limit_offset;	/* OFFSET of the parent; NULL: none */
} SortPlan;

extern void sort_plan_read(SortPlan *sort, CustomScanState *css);

/* LIMIT + OFFSET, the number of rows wanted; 0: all. */
extern size_t sort_plan_bound(const SortPlan *sort, const CustomScanState *css);

#endif							/* GPUSORT_NODES_BASE_PLAN_FORMAT_H */
