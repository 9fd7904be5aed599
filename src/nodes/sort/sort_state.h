/*
 * sort_state.h
 *	  States of GpuSort, serial and above a Gather.
 */
#ifndef GPUSORT_NODES_SORT_SORT_STATE_H
#define GPUSORT_NODES_SORT_SORT_STATE_H

#include "postgres.h"

#include "nodes/base/distinct_filter.h"
#include "nodes/feed/feed.h"
#include "nodes/sort/sort_node.h"
#include "scan/scan.h"

typedef struct GpuSortState
{
	CustomScanState css;
	SortPlan	sort;
	SortSpec	spec;
	size_t		bound;			/* rows wanted of the last sort; 0: all */
	int			work_mem;		/* setting when the last sort began */
	double		hash_mem_multiplier;	/* setting when the last sort began */
	Sorter	   *sorter;			/* NULL until the first row is asked for */
	SortResult *result;			/* NULL until the rows are sorted */
	DistinctFilter *filter;		/* for results with duplicates; NULL until
								 * there is one */
	PageSource	pages;
} GpuSortState;

typedef enum ParallelSortPhase
{
	PARALLEL_SORT_NEW,
	PARALLEL_SORT_SERIAL,		/* no worker has rows */
	PARALLEL_SORT_MERGE,		/* the participants' streams are merged */
	PARALLEL_SORT_DEVICE,		/* rows stream from the device */
	PARALLEL_SORT_END
} ParallelSortPhase;

typedef struct ParallelSortState
{
	CustomScanState css;
	SortPlan	sort;
	GatherState *gather;
	PartialSortState *partial;
	ParallelSortPhase phase;
	MemoryContext cxt;			/* memory of the merge */
	MergeTree  *merge;
	int			nstreams;		/* streams that are merged */
	bool		device_failed;	/* the device failed and is not tried again */
	bool		on_device;		/* rows came from the device last time */
	ReturnedRows returned;		/* rows returned before a device failed */
	bool		resumes;		/* the sort runs again: rows that were returned
								 * before are skipped */
	bool		keys_only;		/* rows can be made of their keys */
	bool		compares;		/* TakenRows.equal is asked for */
	bool		filters;		/* this phase's rows pass the filter */
	DistinctFilter *filter;		/* NULL until it is needed */
	TupleTableSlot *row_slot;	/* a row before projection */
} ParallelSortState;

/* The node of a GpuSort above a Gather; sort_node is that of a serial GpuSort. */
extern const NodeType parallel_sort_node;

#endif							/* GPUSORT_NODES_SORT_SORT_STATE_H */
