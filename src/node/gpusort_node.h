/*
 * gpusort_node.h
 *	  The executor node "Custom Scan (GpuSort)".
 */
#ifndef GPUSORT_NODE_H
#define GPUSORT_NODE_H

#include "postgres.h"

#include "compat.h"
#include "key/type/keytype.h"
#include "node/scan/page_scan.h"
#include "nodes/execnodes.h"
#include "nodes/extensible.h"
#include "sort/sorter.h"

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

#endif							/* GPUSORT_NODE_H */
