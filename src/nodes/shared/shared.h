/*
 * shared.h
 *	  The node GpuSort Shared: all processes sort a partial plan's rows together.  Each process returns all rows, or
 *	  the rows of some ranges of keys.
 */
#ifndef GPUSORT_NODES_SHARED_SHARED_H
#define GPUSORT_NODES_SHARED_SHARED_H

#include "postgres.h"

#include "nodes/base/custom_node.h"
#include "nodes/base/plan_format.h"
#include "nodes/pathnodes.h"
#include "scan/scan.h"
#include "share/share.h"
#include "sort/sort.h"

/* Plan node "Custom Scan (GpuSort Shared)". */
extern const NodeType shared_sort_node;

/*
 * The path of a shared sort.  sort: the Sort path of a partial path, whose costs are those of the shared sort;
 * rows: those that a process returns.  divided: no two processes return the same row, and rows with equal keys come
 * from one process.  Then the Gather above must be rescanned with the node.
 */
extern Path *shared_sort_path(Path *sort, double rows, bool divided);

/* Does a shared sort divide its rows?  Then its keys must stay as they are. */
extern bool shared_sort_divides(const CustomScan *cscan);

typedef struct SharedSortState
{
	CustomScanState css;
	SortPlan	sort;
	bool		divided;
	SortSpec	spec;
	PageSource	pages;
	Sorter	   *sorter;			/* NULL until the first row is asked for */
	SharedSort *shared;			/* NULL: this process is alone, or shut_down */
	bool		shut_down;		/* the shared memory is gone */
	MemoryContext cxt;			/* memory of the reader */
	BlockReader *reader;		/* returns the rows; NULL until the first row is asked for */
	BlockSource *stream;		/* the stream of a shared sort; NULL: none is open */

	/* for EXPLAIN, after shutdown */
	int			nreports;		/* planned workers + 1; 0: this process was alone */
	ParticipantReport *reports; /* the leader's is the first */
} SharedSortState;

#endif							/* GPUSORT_NODES_SHARED_SHARED_H */
