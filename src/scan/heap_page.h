/*
 * heap_page.h
 *	  The rows of a heap page, which are read together.
 *
 * There are two readers.  heap_page_take() takes the visible rows that a heap
 * scan has collected on its current page.  heap_page_read() reads a page itself,
 * for its callers' rules of visibility.
 *
 * This file contains all of gpusort's assumptions about the internals of a heap
 * scan.  In page mode the scan has collected the line pointers of the page's
 * visible tuples in ascending order, holds a pin on the page, and has returned
 * the tuple of rs_cindex last.  PostgreSQL does not promise this.  So it is
 * checked before each use.  With versions of PostgreSQL whose heap scan was not
 * tested, rows come one by one (COMPAT_HEAP_PAGES).
 */
#ifndef GPUSORT_SCAN_HEAP_PAGE_H
#define GPUSORT_SCAN_HEAP_PAGE_H

#include "postgres.h"

#include "access/heapam.h"
#include "compat.h"
#include "sort/sort.h"
#include "storage/bufmgr.h"
#include "storage/bufpage.h"
#include "utils/rel.h"

/* The ring of buffers for a scan of the whole table; NULL if the table is small. */
extern BufferAccessStrategy heap_bulk_strategy(Relation heap);

/*
 * Finds page next if it is before page end and in shared buffers, so that the
 * sort can prefetch a part of it with each of the n rows of the current page.
 */
extern void heap_look_ahead(PageAhead *ahead, Relation heap, BlockNumber next, BlockNumber end, int n);

/*
 * Is the tuple known to be committed, perhaps frozen, and not deleted?  Most
 * tuples are.
 */
static inline bool
heap_tuple_known_live(const HeapTupleHeaderData *tuple)
{
	return (tuple->t_infomask & (HEAP_XMIN_COMMITTED | HEAP_XMAX_INVALID)) ==
		(HEAP_XMIN_COMMITTED | HEAP_XMAX_INVALID);
}

/*
 * Takes a tuple of a page, or passes over it.  The page is locked.  False if the
 * page is not to be read further.
 */
typedef bool (*HeapTupleTaker) (void *reader, HeapTuple tuple, Buffer buffer);

/*
 * Shows the tuples of a page, which is pinned, to take(), in the order of their
 * line pointers.  The pin keeps the tuples where they are afterwards.  False if
 * take() refused one.  Always inline, so that take() is inlined, too.
 *
 * hot_chains: the members of HOT chains are tuples as others.  Otherwise the
 * page is refused if it has any.
 */
static pg_attribute_always_inline bool
heap_page_read(Relation heap, Buffer buffer, bool hot_chains, HeapTupleTaker take, void *reader)
{
	Page		page = BufferGetPage(buffer);
	BlockNumber block = BufferGetBlockNumber(buffer);
	OffsetNumber max;
	bool		taken = true;

	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	max = PageGetMaxOffsetNumber(page);
	for (OffsetNumber offset = FirstOffsetNumber; offset <= max && taken; offset++)
	{
		ItemId		item = PageGetItemId(page, offset);
		HeapTupleData tuple;

		if (unlikely(!ItemIdIsNormal(item)))
		{
			taken = hot_chains || !ItemIdIsRedirected(item);
			continue;
		}
		tuple.t_data = (HeapTupleHeader) PageGetItem(page, item);
		tuple.t_len = ItemIdGetLength(item);
		tuple.t_tableOid = RelationGetRelid(heap);
		ItemPointerSet(&tuple.t_self, block, offset);
		if (!hot_chains && unlikely((tuple.t_data->t_infomask2 & (HEAP_HOT_UPDATED | HEAP_ONLY_TUPLE)) != 0))
			taken = false;
		else
			taken = take(reader, &tuple, buffer);
	}
	LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
	return taken;
}

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

#else

static inline int
heap_page_take(HeapScanDesc heap, HeapTupleHeader *tuples, uint16 *lens, OffsetNumber *offsets)
{
	return 0;
}

#endif							/* COMPAT_HEAP_PAGES */

#endif							/* GPUSORT_SCAN_HEAP_PAGE_H */
