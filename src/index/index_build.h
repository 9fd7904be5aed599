/*
 * index_build.h
 *	  Builds of btree indexes, and CLUSTER, through the sort engine.
 *
 * index_build_sorted() replaces btbuild(): it scans the heap, sorts index
 * tuples by the sort engine, and writes the pages that nbtsort.c would write,
 * byte for byte except LSN and checksum.  If it does not support an index, it
 * returns before it writes a page.
 */
#ifndef GPUSORT_INDEX_BUILD_H
#define GPUSORT_INDEX_BUILD_H

#include "postgres.h"

#include "access/genam.h"
#include "kernel/algorithm.h"
#include "nodes/execnodes.h"
#include "utils/relcache.h"

/* What a build did. */
typedef struct
{
	bool		compact;		/* keys and TIDs were sorted: values decoded from keys */
	int			workers;		/* parallel workers beside this process */
	bool		page_scan;		/* the heap was read page by page */
	double		heap_rows;		/* live heap tuples (IndexBuildResult) */
	double		rows;			/* index tuples, dead ones included */
	int64		runs;			/* runs written to temporary files */
	int64		spilled_bytes;	/* bytes of these runs */
	int64		memory;			/* most bytes of memory used for sorting */
	bool		sorted;			/* algorithm is set */
	AlgorithmId algorithm;		/* that sorted the last batch of rows */
	int			device_batches; /* batches that a GPU has sorted */
	bool		device_failed;	/* a GPU was used and failed */
	int64		pages;			/* pages of the index, its metapage included */
	double		scan_ms;		/* reading the heap and forming rows */
	double		sort_ms;		/* sorting, and writing runs */
	double		load_ms;		/* merging runs and writing pages */
} IndexBuildCounters;

/*
 * Builds a btree index, and sets the counters.  heap, index and info are what
 * ambuild gets.  Returns NULL, with *reason set to a static string, if nothing
 * was written and the caller is to run btbuild().
 */
extern IndexBuildResult *index_build_sorted(Relation heap, Relation index, IndexInfo *info,
											IndexBuildCounters *counters, const char **reason);

/* The arguments of a table access method's relation_copy_for_cluster() that sorts. */
typedef struct ClusterCopy
{
	Relation	old_heap;
	Relation	new_heap;
	Relation	index;
	TransactionId oldest_xmin;
	TransactionId xid_cutoff;
	MultiXactId multi_cutoff;
	double	   *num_tuples;
	double	   *tups_vacuumed;
	double	   *tups_recently_dead;
} ClusterCopy;

/*
 * Copies a heap in the order of an index, and sets the counters.  False, with *reason set
 * to a static string, if nothing was written and the access method is to copy.
 */
extern bool cluster_copy_sorted(const ClusterCopy *copy, IndexBuildCounters *counters, const char **reason);

/* Is the sort for a CLUSTER that has the heap and an index open surely faster than an index scan? */
extern bool cluster_prefers_sort(Relation heap);

/* Installs the hooks that replace btbuild(), and the sort of CLUSTER. */
extern void index_hooks_init(void);

#endif							/* GPUSORT_INDEX_BUILD_H */
