/*
 * index_internal.h
 *	  Interfaces inside the index builds: reading the heap, writing pages.
 */
#ifndef GPUSORT_INDEX_INDEX_INTERNAL_H
#define GPUSORT_INDEX_INDEX_INTERNAL_H

#include "postgres.h"

#include "access/itup.h"
#include "index/index_build.h"
#include "nodes/execnodes.h"
#include "port/atomics.h"
#include "portability/instr_time.h"
#include "sort/sort.h"
#include "utils/rel.h"

/* Milliseconds since *from, which is set to now. */
static inline double
index_elapsed_ms(instr_time *from)
{
	instr_time	now;
	instr_time	took;

	INSTR_TIME_SET_CURRENT(now);
	took = now;
	INSTR_TIME_SUBTRACT(took, *from);
	*from = now;
	return INSTR_TIME_GET_MILLISEC(took);
}

/* ------------------------------------------------------------------------
 * What is sorted (sort_spec.c)
 * ------------------------------------------------------------------------
 */

/*
 * Fills the spec of an index's sort, without its memory.  False, and a reason as of
 * index_build_sorted(), if a key column cannot be sorted.
 */
extern bool index_sort_spec(Relation index, SortSpec *spec, const char **reason);

/* ------------------------------------------------------------------------
 * Reading the heap (scan.c)
 * ------------------------------------------------------------------------
 */

/* What was read. */
typedef struct HeapRead
{
	double		live;			/* live heap tuples, for pg_class.reltuples */
	double		rows;			/* rows that were put to the sorter */
	bool		by_page;		/* pages were read directly */
} HeapRead;

/* The blocks of a table that several processes read, in shared memory. */
typedef struct HeapBlocks
{
	BlockNumber nblocks;
	BlockNumber chunk;			/* blocks that a process takes at a time */
	pg_atomic_uint64 next;		/* the first block that nobody has taken */
} HeapBlocks;

extern void heap_blocks_init(HeapBlocks *blocks, Relation heap, int participants);

/* Reports how many blocks have been taken as the progress of the statement. */
extern void heap_blocks_report(HeapBlocks *blocks);

/*
 * Reads the heap and puts a row for each index tuple to the sorter, which has begun.  A
 * row is a MinimalTuple of the index's columns with its TID (row.h).  Rows come in TID
 * order.  shared: reads this process's share of the blocks; NULL: all blocks.  snapshot:
 * of a concurrent build; NULL: a new one.
 */
extern void heap_read(Relation heap, Relation index, IndexInfo *info, HeapBlocks *shared, Snapshot snapshot,
					  Sorter *sorter, HeapRead *read);

/* ------------------------------------------------------------------------
 * Workers (workers.c)
 * ------------------------------------------------------------------------
 */

typedef struct IndexWorkers IndexWorkers;

/*
 * Launches the workers that are planned for the build.  NULL, and nothing has changed, if
 * there are none.  The statement is in parallel mode until index_workers_end().
 */
extern IndexWorkers *index_workers_launch(Relation heap, Relation index, IndexInfo *info, const SortSpec *spec,
										  double rows_expected);

/*
 * Scans and sorts together with the workers.  Returns the merge of all rows in the order of
 * (keys, TID), and adds to the counters what is known by then.
 */
extern MergeTree *index_workers_sort(IndexWorkers *workers, IndexBuildCounters *counters);

/* Ends the workers, also before all rows were read, and adds the remaining counters. */
extern void index_workers_end(IndexWorkers *workers, IndexBuildCounters *counters);

/* ------------------------------------------------------------------------
 * Writing pages (pages.c)
 * ------------------------------------------------------------------------
 */

typedef struct PageWriter PageWriter;

/* Begins an index in the current memory context.  Nothing is written before the first tuple. */
extern PageWriter *page_writer_begin(Relation heap, Relation index);

/* Do equal values of the key columns have equal bytes?  Then equal keys can be deduplicated. */
extern bool page_writer_bytes_decide(const PageWriter *writer);

/* Have two index tuples equal key columns, by their bytes? */
extern bool page_writer_same_bytes(const PageWriter *writer, IndexTuple a, IndexTuple b);

/*
 * Adds the next tuple in the order of (keys, TID).  Does not keep a reference to it.  The
 * size in the tuple is MAXALIGN'ed.
 */
extern void page_writer_add(PageWriter *writer, IndexTuple itup);

/* Space for the next tuple: PAGE_WRITER_TUPLE bytes. */
#define PAGE_WRITER_TUPLE	BLCKSZ
extern char *page_writer_space(PageWriter *writer);

/* Adds the tuple in page_writer_space() to an index that is deduplicated. */
extern void page_writer_add_deduplicated(PageWriter *writer);

/* Writes the remaining pages and the metapage.  Returns the number of pages of the index. */
extern BlockNumber page_writer_finish(PageWriter *writer);

/* Gives the build up: the index is empty again. */
extern void page_writer_abandon(PageWriter *writer);

#endif							/* GPUSORT_INDEX_INDEX_INTERNAL_H */
