/*
 * heap_page.h
 *	  The visible rows that a heap scan has collected on its current page.
 *
 * This file contains all of gpusort's assumptions about the internals of a heap
 * scan.  In page mode the scan has collected the line pointers of the page's
 * visible tuples in ascending order, holds a pin on the page, and has returned
 * the tuple of rs_cindex last.  PostgreSQL does not promise this.  So it is
 * checked before each use.  With versions of PostgreSQL whose heap scan was not
 * tested, rows come one by one (COMPAT_HEAP_PAGES).
 */
#ifndef GPUSORT_EXECUTOR_HEAP_PAGE_H
#define GPUSORT_EXECUTOR_HEAP_PAGE_H

#include "postgres.h"

#include "access/heapam.h"
#include "compat.h"
#include "sort/sort.h"
#include "storage/bufmgr.h"
#include "storage/bufpage.h"

/* After a page that is not in shared buffers, prefetching skips this number of pages. */
#define PREFETCH_SKIP_PAGES		64

#if COMPAT_HEAP_PAGES

/* Is the scan's state as expected, at a row of a page that it has pinned? */
static inline bool
heap_page_known(HeapScanDesc heap)
{
	return heap != NULL &&
		(heap->rs_base.rs_flags & SO_TYPE_SEQSCAN) != 0 &&
		(heap->rs_base.rs_flags & SO_ALLOW_PAGEMODE) != 0 &&
		heap->rs_base.rs_nkeys == 0 &&
		BufferIsValid(heap->rs_cbuf) &&
		BufferGetBlockNumber(heap->rs_cbuf) == heap->rs_cblock &&
		(int) heap->rs_cindex >= 0 &&
		(int) heap->rs_cindex < (int) heap->rs_ntuples &&
		(int) heap->rs_ntuples <= MaxHeapTuplesPerPage &&
		ItemPointerGetBlockNumberNoCheck(&heap->rs_ctup.t_self) == heap->rs_cblock &&
		ItemPointerGetOffsetNumberNoCheck(&heap->rs_ctup.t_self) ==
		heap->rs_vistuples[heap->rs_cindex];
}

/*
 * Takes the row that the scan returned last and those after it on its page, at
 * most MaxHeapTuplesPerPage; the scan continues with the next page.  Returns
 * their number.  If the scan's state is not as expected, returns 0 and changes
 * nothing.
 */
static inline int
heap_page_take(HeapScanDesc heap, HeapTupleHeader *tuples, uint16 *lens, OffsetNumber *offsets)
{
	Page		page;
	OffsetNumber max;
	OffsetNumber before = InvalidOffsetNumber;
	int			n;

	if (!heap_page_known(heap))
		return 0;
	page = BufferGetPage(heap->rs_cbuf);
	max = PageGetMaxOffsetNumber(page);
	n = (int) heap->rs_ntuples - (int) heap->rs_cindex;
	for (int i = 0; i < n; i++)
	{
		OffsetNumber offset = heap->rs_vistuples[heap->rs_cindex + i];
		ItemId		item;

		if (unlikely(offset <= before || offset > max))
			return 0;
		item = PageGetItemId(page, offset);
		if (unlikely(!ItemIdIsNormal(item) || ItemIdGetLength(item) < SizeofHeapTupleHeader))
			return 0;
		before = offset;
		offsets[i] = offset;
		tuples[i] = (HeapTupleHeader) PageGetItem(page, item);
		lens[i] = ItemIdGetLength(item);
		__builtin_prefetch(tuples[i]);
	}
	heap->rs_cindex = heap->rs_ntuples - 1;
	return n;
}

/*
 * Finds the next page if it is in shared buffers, so that the sort can prefetch
 * a part of it with each of the n rows of this page.  The scan will repeat the
 * buffer lookup, with its hash entry in the CPU's cache by then.
 */
static inline void
heap_page_prefetch_next(HeapScanDesc heap, Relation rel, int n, PageAhead *ahead)
{
	BlockNumber block = heap->rs_cblock + 1;

	ahead->page = NULL;
	ahead->step = 0;
	if (ahead->skip > 0)
		ahead->skip--;
	else if (block < heap->rs_nblocks)
	{
		Buffer		buffer = PrefetchBuffer(rel, MAIN_FORKNUM, block).recent_buffer;

		if (!BufferIsValid(buffer))
		{
			ahead->skip = PREFETCH_SKIP_PAGES;
			return;
		}
		ahead->page = (const char *) BufferGetBlock(buffer);
		ahead->step = BLCKSZ / n;
	}
}

#else

static inline int
heap_page_take(HeapScanDesc heap, HeapTupleHeader *tuples, uint16 *lens, OffsetNumber *offsets)
{
	return 0;
}

static inline void
heap_page_prefetch_next(HeapScanDesc heap, Relation rel, int n, PageAhead *ahead)
{
}

#endif							/* COMPAT_HEAP_PAGES */

#endif							/* GPUSORT_EXECUTOR_HEAP_PAGE_H */
