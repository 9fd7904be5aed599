/*
 * pages.c
 *	  Writes the pages of a btree index from its tuples in order.
 *
 * The pages equal those of nbtsort.c byte for byte, except LSN and checksum.  So an index
 * does not depend on its builder, and tests can compare files.  Even the free space of a
 * page has the same remains of moved tuples.
 *
 * Each level of the tree has one open page.  A leaf page is closed when it has reached
 * its fill factor or has no room.  Its last tuple then moves to the next page, and a
 * copy that is truncated to the columns that separate both pages becomes its high key.
 * The high key is also the key of the next page's downlink, which goes to the level
 * above.  Line pointer 1 is reserved for the high key.  The last page of a level has no
 * high key, so its line pointers move down by one at the end.
 *
 * Deduplication: tuples with equal bytes become one tuple with a list of TIDs, up to a
 * tenth of a page, which functions of nbtdedup.c form.  A tuple is held back until the
 * next one is known.  Most tuples have different keys, so the list begins only with the
 * second equal tuple.
 *
 * Pages bypass shared buffers.  From PostgreSQL 17 on they are logged and written by the
 * server's bulk writes.  Before 17, PAGE_BATCH are logged by one WAL record and written
 * in the order of their numbers.  A page above the leaves is complete much later than its
 * number is assigned, and the file may not have holes: zeroes are written first, and the
 * page at the end.
 *
 * Memory policy: one page for each level, the pending pages, and three tuples.
 *
 * Errors: an ERROR leaves a file without a metapage, which the transaction removes.
 */
#include "postgres.h"

#include "access/nbtree.h"
#include "catalog/storage.h"
#include "commands/progress.h"
#include "compat.h"
#include "index/index_internal.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/bufpage.h"
#include "utils/memutils.h"

/* A posting list with its line pointer takes at most a tenth of a page. */
#define POSTING_MAX		(MAXALIGN_DOWN((BLCKSZ * 10 / 100)) - sizeof(ItemIdData))

/* The open page of a level. */
typedef struct PageLevel
{
	Page		page;
	BlockNumber block;
	uint32		level;			/* 0: leaves */
	OffsetNumber last;			/* last tuple's line pointer; P_HIKEY: none */
	Size		full;			/* a page with less free space is closed */
	Size		last_posting;	/* bytes of the last tuple's TID list */
	IndexTuple	low_key;		/* key of the page's downlink */
	struct PageLevel *above;
} PageLevel;

struct PageWriter
{
	Relation	heap;
	Relation	index;
	BTScanInsert key;			/* describes the keys, for truncation */
	int			nkeys;
	bool		fixed_width;	/* no column has a variable width */
	int16		first_len;		/* attlen of the first column */
	PageLevel  *leaves;			/* NULL: no tuple yet */
	BlockNumber nblocks;		/* numbered so far; the metapage is block 0 */

	/* deduplication */
	IndexTuple	waiting;		/* the last tuple; NULL: none */
	char	   *space[2];		/* one has the waiting tuple */
	int			used;			/* index in space[] of the waiting tuple */
	BTDedupStateData *posting;	/* its TIDs, if nitems > 0 */

	/* the file */
#if COMPAT_BULK_WRITE
	BulkWriteState *bulk;
#else
	bool		wal;
	PageHandover *handover;		/* NULL: this process alone writes pages */
	BlockNumber segment;		/* segments of the file before the last one */
	BlockNumber extended;		/* blocks of the file, without handover */
	char	   *zeroes;			/* an empty page; NULL: not needed yet */
	int			npending;
	BlockNumber pending_blocks[PAGE_BATCH];
	char	   *pending[PAGE_BATCH];
	int			nfree;
	char	   *free[PAGE_BATCH];
#endif
};

/* ------------------------------------------------------------------------
 * The file
 * ------------------------------------------------------------------------
 */

#if COMPAT_BULK_WRITE

static Page
new_page(PageWriter *writer)
{
	if (writer->bulk == NULL)
		writer->bulk = smgr_bulk_start_rel(writer->index, MAIN_FORKNUM);
	return (Page) smgr_bulk_get_buf(writer->bulk);
}

/* Writes a page, now or later, and frees it. */
static void
write_page(PageWriter *writer, Page page, BlockNumber block)
{
	smgr_bulk_write(writer->bulk, block, (BulkWriteBuffer) page, true);
}

static void
finish_file(PageWriter *writer)
{
	if (writer->bulk != NULL)
		smgr_bulk_finish(writer->bulk);
	writer->bulk = NULL;
}

#else

static Page
new_page(PageWriter *writer)
{
	if (writer->nfree > 0)
		return (Page) writer->free[--writer->nfree];
	return (Page) compat_page_alloc();
}

static void
extend_file(PageWriter *writer, BlockNumber block, char *page)
{
	smgrextend(RelationGetSmgr(writer->index), MAIN_FORKNUM, block, page, true);
	writer->extended = block + 1;
}

/* The page is written or copied. */
static void
recycle_page(PageWriter *writer, char *page)
{
	if (writer->nfree < PAGE_BATCH)
		writer->free[writer->nfree++] = page;
	else
		pfree(page);
}

static char *
zero_page(PageWriter *writer)
{
	if (writer->zeroes == NULL)
		writer->zeroes = compat_page_alloc();
	return writer->zeroes;
}

/*
 * Before the first blocks of a new segment of the file: all segments before are complete,
 * and nobody writes a block.
 */
static void
begin_segment(PageWriter *writer, BlockNumber segment)
{
	page_handover_wait(writer->handover);
	for (; writer->segment < segment; writer->segment++)
	{
		BlockNumber last = (writer->segment + 1) * (BlockNumber) RELSEG_SIZE - 1;

		/* the last block may be a page of an upper level, which comes later */
		if (RelationGetNumberOfBlocks(writer->index) <= last)
			extend_file(writer, last, zero_page(writer));
	}
}

/* Writes the pending pages, which are in order, or gives them to a worker. */
static void
write_shared(PageWriter *writer)
{
	int			n = writer->npending;
	BlockNumber *blocks = writer->pending_blocks;
	int			first = 0;

	if (n == 0)
		return;
	if (blocks[n - 1] / RELSEG_SIZE > writer->segment)
	{
		/* the blocks of the old segment before those of the new one */
		while (blocks[first] / RELSEG_SIZE <= writer->segment)
			first++;
		page_batch_write(writer->index, writer->wal, first, blocks, writer->pending);
		begin_segment(writer, blocks[n - 1] / RELSEG_SIZE);
	}
	if (first == n ||
		!page_handover_put(writer->handover, writer->wal, n - first, blocks + first, writer->pending + first))
		page_batch_write(writer->index, writer->wal, n - first, blocks + first, writer->pending + first);
	for (int i = 0; i < n; i++)
		recycle_page(writer, writer->pending[i]);
	writer->npending = 0;
}

static void
write_pending(PageWriter *writer)
{
	int			n = writer->npending;

	/* pages of upper levels come late: insertion, as there are few of them */
	for (int i = 1; i < n; i++)
	{
		BlockNumber block = writer->pending_blocks[i];
		char	   *page = writer->pending[i];
		int			at = i;

		for (; at > 0 && writer->pending_blocks[at - 1] > block; at--)
		{
			writer->pending_blocks[at] = writer->pending_blocks[at - 1];
			writer->pending[at] = writer->pending[at - 1];
		}
		writer->pending_blocks[at] = block;
		writer->pending[at] = page;
	}
	if (writer->handover != NULL)
	{
		write_shared(writer);
		return;
	}
	if (writer->wal && n > 0)
		compat_log_newpages(writer->index, n, writer->pending_blocks, writer->pending);
	for (int i = 0; i < n; i++)
	{
		BlockNumber block = writer->pending_blocks[i];
		char	   *page = writer->pending[i];

		while (writer->extended < block)
			extend_file(writer, writer->extended, zero_page(writer));
		PageSetChecksumInplace((Page) page, block);
		if (block == writer->extended)
			extend_file(writer, block, page);
		else
			smgrwrite(RelationGetSmgr(writer->index), MAIN_FORKNUM, block, page, true);
		recycle_page(writer, page);
	}
	writer->npending = 0;
}

/* Writes a page, now or later, and frees it. */
static void
write_page(PageWriter *writer, Page page, BlockNumber block)
{
	writer->pending_blocks[writer->npending] = block;
	writer->pending[writer->npending++] = (char *) page;
	if (writer->npending == PAGE_BATCH)
		write_pending(writer);
}

/* Flushes the file: a checkpoint does not write pages that bypass shared buffers. */
static void
finish_file(PageWriter *writer)
{
	write_pending(writer);
	if (writer->handover != NULL)
		page_handover_wait(writer->handover);
	if (writer->wal)
		smgrimmedsync(RelationGetSmgr(writer->index), MAIN_FORKNUM);
}

#endif							/* !COMPAT_BULK_WRITE */

/* ------------------------------------------------------------------------
 * Pages
 * ------------------------------------------------------------------------
 */

static void
open_page(PageWriter *writer, PageLevel *level)
{
	BTPageOpaque opaque;

	level->page = new_page(writer);
	level->block = writer->nblocks++;
	level->last = P_HIKEY;
	_bt_pageinit(level->page, BLCKSZ);
	opaque = (BTPageOpaque) PageGetSpecialPointer(level->page);
	opaque->btpo_prev = P_NONE;
	opaque->btpo_next = P_NONE;
	opaque->btpo_level = level->level;
	opaque->btpo_flags = level->level > 0 ? 0 : BTP_LEAF;
	opaque->btpo_cycleid = 0;
	/* for the high key */
	((PageHeader) level->page)->pd_lower += sizeof(ItemIdData);
}

static PageLevel *
open_level(PageWriter *writer, uint32 level)
{
	PageLevel  *opened = palloc0(sizeof(PageLevel));

	opened->level = level;
	opened->full = level > 0 ? BLCKSZ * (100 - BTREE_NONLEAF_FILLFACTOR) / 100 :
		BTGetTargetPageFreeSpace(writer->index);
	open_page(writer, opened);
	return opened;
}

/* Tuples of up to this size are copied in words, without a call of memcpy(). */
#define COPY_WORDS_MAX	64

/* Copies a MAXALIGN'ed number of bytes. */
static inline void
copy_words(char *to, const char *from, Size size)
{
	if (unlikely(size > COPY_WORDS_MAX))
	{
		memcpy(to, from, size);
		return;
	}
	for (Size at = 0; at < size; at += sizeof(uint64))
	{
		memcpy(to + at, from + at, sizeof(uint64));
		/* keeps the compiler from making the loop a call of memcpy() */
		pg_compiler_barrier();
	}
}

/* Appends a tuple of this MAXALIGN'ed size to a page, which has room for it. */
static inline void
append_tuple(Page page, OffsetNumber offset, const void *tuple, Size size)
{
	PageHeader	header = (PageHeader) page;
	Size		upper = header->pd_upper - size;

	ItemIdSetNormal(PageGetItemId(page, offset), upper, size);
	copy_words((char *) page + upper, tuple, size);
	header->pd_lower += sizeof(ItemIdData);
	header->pd_upper = upper;
}

/* Appends the first tuple of an internal page: its downlink without a key. */
static void
append_first_downlink(Page page, IndexTuple tuple)
{
	IndexTupleData downlink = *tuple;

	downlink.t_info = sizeof(IndexTupleData);
	BTreeTupleSetNAtts(&downlink, 0, false);
	append_tuple(page, P_FIRSTKEY, &downlink, sizeof(IndexTupleData));
}

static void add_tuple(PageWriter *writer, PageLevel *level, IndexTuple itup, Size posting);

/* Adds the downlink of the level's page to the level above. */
static void
add_downlink(PageWriter *writer, PageLevel *level, BlockNumber block)
{
	BTreeTupleSetDownLink(level->low_key, block);
	add_tuple(writer, level->above, level->low_key, 0);
	pfree(level->low_key);
	level->low_key = NULL;
}

/* Closes the level's page, whose last tuple moves to the next page. */
static pg_noinline void
close_page(PageWriter *writer, PageLevel *level)
{
	Page		page = level->page;
	BlockNumber block = level->block;
	OffsetNumber last = level->last;
	ItemId		high = PageGetItemId(page, P_HIKEY);
	ItemId		item = PageGetItemId(page, last);
	IndexTuple	tuple = (IndexTuple) PageGetItem(page, item);

	CHECK_FOR_INTERRUPTS();
	open_page(writer, level);
	if (level->level > 0)
		append_first_downlink(level->page, tuple);
	else
		append_tuple(level->page, P_FIRSTKEY, tuple, ItemIdGetLength(item));

	/* the moved tuple is the high key */
	*high = *item;
	ItemIdSetUnused(item);
	((PageHeader) page)->pd_lower -= sizeof(ItemIdData);
	if (level->level == 0)
	{
		IndexTuple	before = (IndexTuple) PageGetItem(page, PageGetItemId(page, OffsetNumberPrev(last)));
		IndexTuple	truncated = _bt_truncate(writer->index, before, tuple, writer->key);

		if (!PageIndexTupleOverwrite(page, P_HIKEY, (void *) truncated, IndexTupleSize(truncated)))
			elog(ERROR, "failed to add high key to the index page");
		pfree(truncated);
		/* the high key is truncated in its place */
		high = PageGetItemId(page, P_HIKEY);
		tuple = (IndexTuple) PageGetItem(page, high);
	}

	if (level->above == NULL)
		level->above = open_level(writer, level->level + 1);
	add_downlink(writer, level, block);
	level->low_key = CopyIndexTuple(tuple);
	((BTPageOpaque) PageGetSpecialPointer(page))->btpo_next = level->block;
	((BTPageOpaque) PageGetSpecialPointer(level->page))->btpo_prev = block;
	write_page(writer, page, block);
	level->last = P_FIRSTKEY;
}

/* Adds a tuple to a level.  posting: bytes of its TID list, which a high key lacks. */
static inline void
add_to_level(PageWriter *writer, PageLevel *level, IndexTuple itup, Size posting)
{
	Size		size = MAXALIGN(IndexTupleSize(itup));
	Size		space = PageGetFreeSpace(level->page);
	Size		last_posting = level->last_posting;

	level->last_posting = posting;
	if (unlikely(size > compat_btree_max_item(level->page)))
		_bt_check_third_page(writer->index, writer->heap, level->level == 0, level->page, itup);

	/* a high key of a leaf may be larger than its tuple by a TID */
	if (space < size + (level->level == 0 ? MAXALIGN(sizeof(ItemPointerData)) : 0) ||
		(space + last_posting < level->full && level->last > P_FIRSTKEY))
		close_page(writer, level);

	if (unlikely(level->last == P_HIKEY))
	{
		/* the first page of a level has a downlink without a key */
		level->low_key = palloc0(sizeof(IndexTupleData));
		level->low_key->t_info = sizeof(IndexTupleData);
		BTreeTupleSetNAtts(level->low_key, 0, false);
	}
	level->last = OffsetNumberNext(level->last);
	if (level->level > 0 && level->last == P_FIRSTKEY)
		append_first_downlink(level->page, itup);
	else
		append_tuple(level->page, level->last, itup, size);
}

static void
add_tuple(PageWriter *writer, PageLevel *level, IndexTuple itup, Size posting)
{
	add_to_level(writer, level, itup, posting);
}

/* The last page of a level has no high key: its line pointers move down by one. */
static void
remove_high_key(Page page)
{
	OffsetNumber max = PageGetMaxOffsetNumber(page);

	for (OffsetNumber offset = P_FIRSTKEY; offset <= max; offset++)
		*PageGetItemId(page, offset - 1) = *PageGetItemId(page, offset);
	((PageHeader) page)->pd_lower -= sizeof(ItemIdData);
}

/* ------------------------------------------------------------------------
 * Tuples
 * ------------------------------------------------------------------------
 */

PageWriter *
page_writer_begin(Relation heap, Relation index, PageHandover *handover)
{
	PageWriter *writer = palloc0(sizeof(PageWriter));
	TupleDesc	desc = RelationGetDescr(index);

	writer->heap = heap;
	writer->index = index;
	writer->key = _bt_mkscankey(index, NULL);
	/* not from the metapage, which does not exist yet */
	writer->key->allequalimage = _bt_allequalimage(index, true);
	writer->nkeys = IndexRelationGetNumberOfKeyAttributes(index);
	writer->nblocks = BTREE_METAPAGE + 1;
	writer->fixed_width = true;
	for (int att = 0; att < desc->natts; att++)
		writer->fixed_width &= TupleDescAttr(desc, att)->attlen > 0;
	writer->first_len = TupleDescAttr(desc, 0)->attlen;
	writer->space[0] = palloc(PAGE_WRITER_TUPLE);
	writer->space[1] = palloc(PAGE_WRITER_TUPLE);
	writer->posting = palloc0(sizeof(BTDedupStateData));
	writer->posting->deduplicate = true;
	writer->posting->maxpostingsize = POSTING_MAX;
	writer->posting->htids = palloc(POSTING_MAX);
#if !COMPAT_BULK_WRITE
	writer->wal = RelationNeedsWAL(index);
	writer->handover = handover;
#endif
	return writer;
}

bool
page_writer_bytes_decide(const PageWriter *writer)
{
	return writer->key->allequalimage;
}

/*
 * Most neighbours differ in their first column, which is compared first because its offset
 * is known.  Varlenas are compared by their bytes only in the short format; others may be
 * compressed.
 */
static inline bool
same_bytes(const PageWriter *writer, IndexTuple a, IndexTuple b)
{
	Size		size = IndexTupleSize(a);
	const char *x = (const char *) a + IndexInfoFindDataOffset(a->t_info);
	const char *y = (const char *) b + IndexInfoFindDataOffset(b->t_info);

	if (!IndexTupleHasNulls(a) && !IndexTupleHasNulls(b))
	{
		if (writer->first_len == 8)
		{
			if (memcmp(x, y, 8) != 0)
				return false;
		}
		else if (writer->first_len > 0)
		{
			if (memcmp(x, y, writer->first_len) != 0)
				return false;
		}
		else if (writer->first_len == -1 && VARATT_IS_SHORT(x) && VARATT_IS_SHORT(y) &&
				 !VARATT_IS_EXTERNAL(x) && !VARATT_IS_EXTERNAL(y) &&
				 (VARSIZE_SHORT(x) != VARSIZE_SHORT(y) || memcmp(x, y, VARSIZE_SHORT(x)) != 0))
			return false;
	}
	if (a->t_info == b->t_info &&
		memcmp((const char *) a + sizeof(IndexTupleData), (const char *) b + sizeof(IndexTupleData),
			   size - sizeof(IndexTupleData)) == 0)
		return true;
	return !writer->fixed_width && _bt_keep_natts_fast(writer->index, a, b) > writer->nkeys;
}

bool
page_writer_same_bytes(const PageWriter *writer, IndexTuple a, IndexTuple b)
{
	return same_bytes(writer, a, b);
}

static inline void
add_leaf_tuple(PageWriter *writer, IndexTuple itup, Size posting)
{
	if (unlikely(writer->leaves == NULL))
		writer->leaves = open_level(writer, 0);
	add_to_level(writer, writer->leaves, itup, posting);
}

char *
page_writer_space(PageWriter *writer)
{
	return writer->space[1 - writer->used];
}

void
page_writer_add(PageWriter *writer, IndexTuple itup)
{
	add_leaf_tuple(writer, itup, 0);
}

/* Adds the waiting tuple, or the tuple with its TID list. */
static inline void
add_waiting(PageWriter *writer)
{
	BTDedupStateData *posting = writer->posting;
	IndexTuple	itup;

	if (likely(posting->nitems < 2))
		add_leaf_tuple(writer, writer->waiting, 0);
	else
	{
		itup = _bt_form_posting(posting->base, posting->htids, posting->nhtids);
		add_leaf_tuple(writer, itup, IndexTupleSize(itup) - BTreeTupleGetPostingOffset(itup));
		pfree(itup);
	}
	posting->nmaxitems = 0;
	posting->nhtids = 0;
	posting->nitems = 0;
	posting->phystupsize = 0;
}

void
page_writer_add_deduplicated(PageWriter *writer)
{
	BTDedupStateData *posting = writer->posting;
	IndexTuple	itup = (IndexTuple) writer->space[1 - writer->used];

	if (writer->waiting != NULL)
	{
		if (same_bytes(writer, writer->waiting, itup))
		{
			if (posting->nitems == 0)
				_bt_dedup_start_pending(posting, writer->waiting, InvalidOffsetNumber);
			if (_bt_dedup_save_htid(posting, itup))
				return;
		}
		add_waiting(writer);
	}
	writer->used = 1 - writer->used;
	writer->waiting = itup;
}

BlockNumber
page_writer_finish(PageWriter *writer)
{
	BlockNumber root = P_NONE;
	uint32		root_level = 0;
	Page		metapage;

	if (writer->waiting != NULL)
		add_waiting(writer);
	for (PageLevel *level = writer->leaves; level != NULL; level = level->above)
	{
		if (level->above == NULL)
		{
			((BTPageOpaque) PageGetSpecialPointer(level->page))->btpo_flags |= BTP_ROOT;
			root = level->block;
			root_level = level->level;
		}
		else
			add_downlink(writer, level, level->block);
		remove_high_key(level->page);
		write_page(writer, level->page, level->block);
		level->page = NULL;
	}
	metapage = new_page(writer);
	_bt_initmetapage(metapage, root, root_level, writer->key->allequalimage);
	write_page(writer, metapage, BTREE_METAPAGE);
	finish_file(writer);
	return writer->nblocks;
}

void
page_writer_abandon(PageWriter *writer)
{
#if COMPAT_BULK_WRITE
	finish_file(writer);
#endif
	if (RelationGetNumberOfBlocks(writer->index) > 0)
		RelationTruncate(writer->index, 0);
}
