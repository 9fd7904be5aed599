/*
 * gpusort_node.h
 *	  The executor node "Custom Scan (GpuSort)".
 */
#ifndef GPUSORT_NODE_H
#define GPUSORT_NODE_H

#include "postgres.h"

#include "compat.h"
#include "key/keytype.h"
#include "node/page_scan.h"
#include "nodes/execnodes.h"
#include "nodes/extensible.h"
#include "nodes/plannodes.h"
#include "sort/sorter.h"

/* custom_private: lists with one element per key column. */
typedef enum GpuSortPrivate
{
	GPUSORT_PRIVATE_ATTNO,
	GPUSORT_PRIVATE_SORTOP,
	GPUSORT_PRIVATE_COLLATION,
	GPUSORT_PRIVATE_NULLS_FIRST,
	GPUSORT_PRIVATE_DESCENDING,
	GPUSORT_PRIVATE_KIND,
	GPUSORT_PRIVATE_COUNT
} GpuSortPrivate;

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
	PageSource	pages;			/* of the child */
} GpuSortState;

extern void gpusort_node_init(void);

/* Fills in what the node will need to know; limit may be NULL. */
extern void gpusort_node_fill_plan(CustomScan *cscan, const KeyColumn *keys,
								   int nkeys, Limit *limit);

/* explain.c */
extern void gpusort_explain(CustomScanState *css, List *ancestors, ExplainState *es);

#endif							/* GPUSORT_NODE_H */
