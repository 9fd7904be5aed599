/*
 * sort_count.h
 *	  Counts a sort for the view gpusort_stat.
 */
#ifndef GPUSORT_NODES_BASE_SORT_COUNT_H
#define GPUSORT_NODES_BASE_SORT_COUNT_H

#include "postgres.h"

#include "sort/sort.h"

extern void sort_node_count(const SortReport *report);

#endif							/* GPUSORT_NODES_BASE_SORT_COUNT_H */
