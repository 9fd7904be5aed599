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

/* Are keys equal only if the bytes of their index tuples are, TIDs aside? */
extern bool index_bytes_decide(const SortSpec *spec);

/*
 * Sets the times of the scan that fills a sorter, since *clock: runs are written during it.
 * Then the counters of the sort that is done.  *clock is set to now.
 */
extern void index_count_scan(IndexBuildCounters *counters, const Sorter *sorter, instr_time *clock);
extern void index_count_sort(IndexBuildCounters *counters, const Sorter *sorter, instr_time *clock);

/* ------------------------------------------------------------------------
 * Violations of uniqueness (unique.c)
 * ------------------------------------------------------------------------
 */

/* Has one of the row's first nkeys columns NULL? */
static inline bool
index_row_has_null_key(MinimalTuple row, int nkeys)
{
	if (likely((row->t_infomask & HEAP_HASNULL) == 0))
		return false;
	for (int k = 0; k < nkeys; k++)
	{
		if (att_isnull(k, row->t_bits))
			return true;
	}
	return false;
}

/*
 * Lets PostgreSQL's sort of index tuples find the two tuples with equal keys, and raise its
 * error.  Returns if its comparisons call them different.
 */
extern void index_raise_violation(Relation heap, Relation index, const IndexInfo *info, IndexTuple a, IndexTuple b);

/*
 * Lets the sort for a unique index raise PostgreSQL's error for two live rows with equal
 * keys.  The arguments must stay.
 */
extern void index_check_unique(SortSpec *spec, Relation heap, Relation index, const IndexInfo *info);

/* ------------------------------------------------------------------------
 * Reading the heap (scan.c)
 * ------------------------------------------------------------------------
 */

/* The blocks of a table that several processes read, in shared memory. */
typedef struct HeapBlocks
{
	BlockNumber nblocks;
	BlockNumber chunk;			/* blocks that a process takes at a time */
	pg_atomic_uint64 next;		/* first block that is not taken yet */
} HeapBlocks;

extern void heap_blocks_init(HeapBlocks *blocks, Relation heap, int participants);

/* Reports how many blocks have been taken as the progress of the statement. */
extern void heap_blocks_report(HeapBlocks *blocks);

/*
 * Reads the heap and puts a row for each index tuple into the sorter, which has begun.  A
 * row is a MinimalTuple of the index's columns with its TID (row.h).  Rows come in TID
 * order.  If the sort fails, not all rows are read.  shared not NULL: reads only this
 * process's share of the blocks.  snapshot: that of a concurrent build; NULL: takes a new
 * one.  counters: 0 before; gets the numbers of rows, and whether pages were read.
 */
extern void heap_read(Relation heap, Relation index, IndexInfo *info, HeapBlocks *shared, Snapshot snapshot,
					  Sorter *sorter, IndexBuildCounters *counters);

/* Reports the number of index tuples as the progress of the statement, which has read all blocks. */
extern void heap_read_report(double rows);

/* The number of rows that the planner expects in a table. */
extern double heap_rows_expected(Relation heap);

/* ------------------------------------------------------------------------
 * Workers (workers.c)
 * ------------------------------------------------------------------------
 */

typedef struct IndexWorkers IndexWorkers;

/*
 * Launches the workers that are planned for the build.  Returns NULL, without effect, if
 * none can be launched.  The statement is in parallel mode until index_workers_end().
 */
extern IndexWorkers *index_workers_launch(Relation heap, Relation index, IndexInfo *info, const SortSpec *spec,
										  double rows_expected);

/*
 * Scans and sorts together with the workers.  Returns the merge of all rows in the order of
 * (keys, TID), and adds the counters of scan and sort.  NULL: a participant's sort has
 * failed; the workers end with index_workers_end().
 */
extern MergeTree *index_workers_sort(IndexWorkers *workers, IndexBuildCounters *counters);

/* What the leader's page writer gives pages to. */
extern struct PageHandover *index_workers_handover(IndexWorkers *workers);

/* Ends the workers, also before all rows were read, and adds the remaining counters. */
extern void index_workers_end(IndexWorkers *workers, IndexBuildCounters *counters);

/* ------------------------------------------------------------------------
 * Writing pages (pages.c)
 * ------------------------------------------------------------------------
 */

typedef struct PageWriter PageWriter;
typedef struct PageHandover PageHandover;

/*
 * Begins an index in the current memory context.  Nothing is written before the first tuple.
 * handover: workers write pages, too; NULL: there are none.
 */
extern PageWriter *page_writer_begin(Relation heap, Relation index, PageHandover *handover);

/* Do equal key values always have equal bytes?  Then equal keys can be deduplicated. */
extern bool page_writer_bytes_decide(const PageWriter *writer);

/* Have the key columns of two index tuples the same bytes? */
extern bool page_writer_same_bytes(const PageWriter *writer, IndexTuple a, IndexTuple b);

/*
 * Adds the next tuple in the order of (keys, TID).  Does not keep a reference to it.  The
 * size in the tuple is MAXALIGN'ed.
 */
extern void page_writer_add(PageWriter *writer, IndexTuple itup);

/*
 * Adds the next tuple to an index that is deduplicated.  True: the tuple must stay until the
 * next call that returns true, or the end.
 */
extern bool page_writer_add_deduplicated(PageWriter *writer, IndexTuple itup);

/* No index tuple is larger. */
#define PAGE_WRITER_TUPLE	BLCKSZ

/* Writes the remaining pages and the metapage.  Returns the number of pages of the index. */
extern BlockNumber page_writer_finish(PageWriter *writer);

/* Ends a build without an index: the file is empty again. */
extern void page_writer_abandon(PageWriter *writer);

/* ------------------------------------------------------------------------
 * The file of the index (index_file.c)
 * ------------------------------------------------------------------------
 */

/* Pages logged and written together; a WAL record has room for no more. */
#define PAGE_BATCH	32

typedef struct IndexFile IndexFile;

/*
 * Opens the file in the current memory context, whose reset closes it.  In each process that
 * writes, before the first page.  alone: no other process writes.
 */
extern IndexFile *index_file_open(Relation index, bool alone);
extern void index_file_close(IndexFile *file);

/* Does the server write the pages of an index, which is empty, to its file as they are?  It stays empty. */
extern bool index_file_is_plain(Relation index);

/*
 * Logs and writes up to PAGE_BATCH pages, which lie in succession.  Sets their LSNs and
 * checksums.  New pages (PageIsNew()) are not logged; skip_new: nor written.
 */
extern void index_file_write(IndexFile *file, bool wal, int n, const BlockNumber *blocks, char *pages,
							 bool skip_new);

/* All pages are written: makes sure that they are on disk if they are needed after a crash. */
extern void index_file_sync(IndexFile *file, bool wal, BlockNumber nblocks);

/* ------------------------------------------------------------------------
 * Pages that workers write (page_handover.c)
 * ------------------------------------------------------------------------
 */

typedef struct PageHandoverShared PageHandoverShared;
struct Exchange;

extern Size page_handover_size(int workers);
extern void page_handover_init(PageHandoverShared *shared, int workers);

/* In each process; workers: in the leader their number. */
extern PageHandover *page_handover_attach(PageHandoverShared *shared, struct Exchange *ex, Relation index,
										  int workers);

/* Leader: takes memory of an extent, PAGE_BATCH pages; NULL if no worker has room. */
extern char *page_handover_take(PageHandover *handover);

/* Leader: gives the first n pages of an extent to its worker; false if they were not taken from one. */
extern bool page_handover_give(PageHandover *handover, bool wal, const char *pages, BlockNumber first, int n);

/* Leader: waits until all extents that were given are written. */
extern void page_handover_wait(PageHandover *handover);

/* Worker, an ExchangeServe callback: writes its extents; false if there is none. */
extern bool page_handover_serve(void *arg);

#endif							/* GPUSORT_INDEX_INDEX_INTERNAL_H */
