/*
 * heap_page.c
 *	  What all readers of whole heap pages share: a ring of buffers, and a look at the next page.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "scan/heap_page.h"
#include "utils/rel.h"

/* After a page that is not in shared buffers, this number of pages is not prefetched. */
#define AHEAD_SKIP_PAGES	64

BufferAccessStrategy
heap_bulk_strategy(Relation heap)
{
	if (RelationUsesLocalBuffers(heap) || RelationGetNumberOfBlocks(heap) <= NBuffers / 4)
		return NULL;
	return GetAccessStrategy(BAS_BULKREAD);
}

/* A reader of the next page repeats the buffer lookup, with its hash entry in the CPU's cache by then. */
void
heap_look_ahead(PageAhead *ahead, Relation heap, BlockNumber next, BlockNumber end, int n)
{
	Buffer		buffer;

	ahead->page = NULL;
	ahead->step = 0;
	if (ahead->skip > 0)
	{
		ahead->skip--;
		return;
	}
	if (next >= end)
		return;
	buffer = PrefetchBuffer(heap, MAIN_FORKNUM, next).recent_buffer;
	if (!BufferIsValid(buffer))
		ahead->skip = AHEAD_SKIP_PAGES;
	else if (n > 0)
	{
		ahead->page = (const char *) BufferGetBlock(buffer);
		ahead->step = BLCKSZ / n;
	}
}
