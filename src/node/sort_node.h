/*
 * sort_node.h
 *	  What nodes that sort have in common: rows in, a LIMIT's bound, counters.
 */
#ifndef GPUSORT_SORT_NODE_H
#define GPUSORT_SORT_NODE_H

#include "postgres.h"

#include "node/scan/page_scan.h"
#include "nodes/execnodes.h"
#include "port/atomics.h"
#include "sort/sorter.h"

/*
 * Puts all rows of a plan into a sorter; pages is its source of pages.  Not to the end
 * if rows were lost with a device, or if *stop (NULL: never) is seen to be set.
 */
extern void sort_node_take_rows(Sorter *sorter, PlanState *outer, PageSource *pages,
								pg_atomic_uint32 *stop);

/* How many rows of the front are wanted by a LIMIT and OFFSET; 0: all. */
extern size_t sort_node_bound(ExprContext *econtext, ExprState *limit_count,
							  ExprState *limit_offset);

/* Counts a sort for the view gpusort_stat. */
extern void sort_node_count(const SortReport *report);

#endif							/* GPUSORT_SORT_NODE_H */
