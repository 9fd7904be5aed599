/*
 * sort_limit.h
 *	  The number of rows that the LIMIT above a sort wants.
 */
#ifndef GPUSORT_NODES_BASE_SORT_LIMIT_H
#define GPUSORT_NODES_BASE_SORT_LIMIT_H

#include "postgres.h"

#include "nodes/execnodes.h"

/* Returns LIMIT + OFFSET, the number of rows wanted; 0: all. */
extern size_t sort_node_bound(ExprContext *econtext, ExprState *limit_count,
							  ExprState *limit_offset);

#endif							/* GPUSORT_NODES_BASE_SORT_LIMIT_H */
