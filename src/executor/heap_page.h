/*
 * heap_page.h
 *	  The rows that a heap scan has found on its page.
 *
 * All that is known of a heap scan's insides is here: in page mode it has collected
 * the line pointers of the page's visible tuples, in ascending order, holds the
 * page pinned, and has given out the one that its index tells.  None of this is
 * promised by PostgreSQL.  So it is checked whenever it is used, and versions whose
 * heap scan we have not tested do without.
 */
#ifndef GPUSORT_EXECUTOR_HEAP_PAGE_H
#define GPUSORT_EXECUTOR_HEAP_PAGE_H

#include "postgres.h"

#include "access/heapam.h"
#include "compat.h"
#include "sort/sort.h"
#include "storage/bufmgr.h"
#include "storage/bufpage.h"

/* Where a page was not in memory, so many after it are not looked for. */
#define PAGES_NOT_AHEAD		64

#if COMPAT_HEAP_PAGES

/* Is the scan where we think, at a row of a page that it has pinned? */
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
 * Takes the row that was given out last and those after it on its page, at most
 * MaxHeapTuplesPerPage; the scan goes on with the next page.  Returns how many, or 0
 * if something is not as it should be: nothing is changed then.
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
 * Where the next page lies if it is in shared buffers, for n rows of this page to ask for
 * it: without that a sort spends a quarter of its time waiting for tuples.  The lookup is
 * one that the scan will repeat, by then in the cache.
 */
static inline void
heap_page_look_ahead(HeapScanDesc heap, Relation rel, int n, PageAhead *ahead)
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
			ahead->skip = PAGES_NOT_AHEAD;
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
heap_page_look_ahead(HeapScanDesc heap, Relation rel, int n, PageAhead *ahead)
{
}

#endif							/* COMPAT_HEAP_PAGES */

#endif							/* GPUSORT_EXECUTOR_HEAP_PAGE_H */
