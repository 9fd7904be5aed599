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
 * Pages bypass shared buffers (index_file.c).  Leaves are laid out where they are written
 * from, in an extent of PAGE_BATCH consecutive blocks.  An extent is written when all its
 * leaves are complete.  A page above the leaves is complete much later than its number is
 * assigned: its place in the extent is zeroed, and it is written later as a single page.
 *
 * Memory policy: two extents, the late pages, one page for each level above the leaves, and
 * a list of TIDs.
 *
 * Errors: an ERROR leaves a file without a metapage, which the transaction removes.
 */
#include "postgres.h"

#include "access/nbtree.h"
#include "catalog/storage.h"
#include "compat.h"
#include "index/index_internal.h"
#include "miscadmin.h"
#include "storage/bufpage.h"

/* A posting list with its line pointer takes at most a tenth of a page. */
#define POSTING_MAX		(MAXALIGN_DOWN((BLCKSZ * 10 / 100)) - sizeof(ItemIdData))

/* Pages above the leaves that are kept for new ones; more than the levels of an index. */
#define MAX_FREE_PAGES	16

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
	IndexTuple	waiting;		/* the last tuple, in the caller's memory; NULL: none */
	BTDedupStateData *posting;	/* its TIDs, if nitems > 0 */

	/* the file */
	bool		wal;
	IndexFile  *file;
	PageHandover *handover;		/* NULL: this process alone writes pages */
	BlockNumber segment;		/* segments of the file before the last one */
	BlockNumber written;		/* extents that are written or handed over */
	char	   *extents[2];		/* extent e is extents[e % 2] */
	char	   *own_extents[2]; /* the same in memory of this process; NULL: not needed yet */
	int			nlate;			/* pages of extents that were written without them */
	BlockNumber late_blocks[PAGE_BATCH];
	char	   *late;			/* NULL: not needed yet */
	int			nfree;
	char	   *free[MAX_FREE_PAGES];	/* pages above the leaves */
};

/* ------------------------------------------------------------------------
 * The file
 * ------------------------------------------------------------------------
 */

/* A page's place in its extent, which is not written yet. */
static inline char *
extent_page(const PageWriter *writer, BlockNumber block)
{
	return writer->extents[block / PAGE_BATCH % 2] + (Size) (block % PAGE_BATCH) * BLCKSZ;
}

static void
begin_extent(PageWriter *writer, BlockNumber extent)
{
	int			i = extent % 2;

	/* all pages before the last leaf are complete */
	Assert(extent < writer->written + 2);
	writer->extents[i] = writer->handover != NULL ? page_handover_take(writer->handover) : NULL;
	if (writer->extents[i] != NULL)
		return;
	if (writer->own_extents[i] == NULL)
		writer->own_extents[i] = compat_pages_alloc(PAGE_BATCH);
	writer->extents[i] = writer->own_extents[i];
}

/* Assigns the number of a new page. */
static BlockNumber
assign_block(PageWriter *writer)
{
	BlockNumber block = writer->nblocks++;

	if (block % PAGE_BATCH == 0)
		begin_extent(writer, block / PAGE_BATCH);
	return block;
}

/*
 * Before the first blocks of a new segment of the file are written: all segments before are
 * complete, and nobody writes a block.
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
		{
			char	   *zeroes = palloc0(BLCKSZ);

			index_file_write(writer->file, false, 1, &last, zeroes, false);
			pfree(zeroes);
		}
	}
}

/* Writes the first n pages of the next extent, or gives them to a worker. */
static void
write_extent(PageWriter *writer, int n)
{
	char	   *pages = writer->extents[writer->written % 2];
	BlockNumber first = writer->written * PAGE_BATCH;
	BlockNumber blocks[PAGE_BATCH];

	CHECK_FOR_INTERRUPTS();
	writer->written++;
	if (writer->handover != NULL)
	{
		if (first / RELSEG_SIZE > writer->segment)
			begin_segment(writer, first / RELSEG_SIZE);
		if (page_handover_give(writer->handover, writer->wal, pages, first, n))
			return;
	}
	for (int i = 0; i < n; i++)
		blocks[i] = first + i;
	/* pages that come late leave holes if workers write, and otherwise zeroes, against fragmentation */
	index_file_write(writer->file, writer->wal, n, blocks, pages, writer->handover != NULL);
}

static void
write_late(PageWriter *writer)
{
	if (writer->nlate > 0)
		index_file_write(writer->file, writer->wal, writer->nlate, writer->late_blocks, writer->late, false);
	writer->nlate = 0;
}

/* Writes a page above the leaves, now or later. */
static void
write_upper_page(PageWriter *writer, Page page, BlockNumber block)
{
	if (block / PAGE_BATCH >= writer->written)
	{
		memcpy(extent_page(writer, block), page, BLCKSZ);
		return;
	}
	if (writer->late == NULL)
		writer->late = compat_pages_alloc(PAGE_BATCH);
	memcpy(writer->late + (Size) writer->nlate * BLCKSZ, page, BLCKSZ);
	writer->late_blocks[writer->nlate++] = block;
	if (writer->nlate == PAGE_BATCH)
		write_late(writer);
}

/* A page of the level is complete; the level's next page is open, if there is one. */
static void
complete_page(PageWriter *writer, const PageLevel *level, Page page, BlockNumber block)
{
	if (level->level == 0)
	{
		while (writer->written < level->block / PAGE_BATCH)
			write_extent(writer, PAGE_BATCH);
		return;
	}
	write_upper_page(writer, page, block);
	if (writer->nfree < MAX_FREE_PAGES)
		writer->free[writer->nfree++] = (char *) page;
	else
		pfree(page);
}

/* Writes the remaining pages; all are complete.  The file will be on disk after a crash. */
static void
finish_file(PageWriter *writer)
{
	while (writer->written * PAGE_BATCH < writer->nblocks)
		write_extent(writer, Min(PAGE_BATCH, writer->nblocks - writer->written * PAGE_BATCH));
	write_late(writer);
	if (writer->handover != NULL)
		page_handover_wait(writer->handover);
	index_file_close(writer->file);
	index_file_sync(writer->file, writer->wal, writer->nblocks);
}

/* ------------------------------------------------------------------------
 * Pages
 * ------------------------------------------------------------------------
 */

static void
open_page(PageWriter *writer, PageLevel *level)
{
	BTPageOpaque opaque;

	level->block = assign_block(writer);
	level->page = (Page) extent_page(writer, level->block);
	if (level->level > 0)
	{
		/* the place of a page that comes late */
		memset(level->page, 0, BLCKSZ);
		level->page = (Page) (writer->nfree > 0 ? writer->free[--writer->nfree] : palloc(BLCKSZ));
	}
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
	complete_page(writer, level, page, block);
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
	writer->posting = palloc0(sizeof(BTDedupStateData));
	writer->posting->deduplicate = true;
	writer->posting->maxpostingsize = POSTING_MAX;
	writer->posting->htids = palloc(POSTING_MAX);
	writer->wal = RelationNeedsWAL(index);
	writer->file = index_file_open(index, handover == NULL);
	writer->handover = handover;
	begin_extent(writer, 0);
	/* the place of the metapage */
	memset(extent_page(writer, BTREE_METAPAGE), 0, BLCKSZ);
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
 *
 * Most of them differ in a short varlena's first word, which is compared by an 8-byte load.
 * It lies within what one store has written when the tuple was made; the longer loads of
 * memcmp() would wait for several stores.  A tuple ends at a multiple of eight bytes, so the
 * word is part of it.
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
			if ((writer->first_len > sizeof(uint64) && memcmp(x, y, sizeof(uint64)) != 0) ||
				memcmp(x, y, writer->first_len) != 0)
				return false;
		}
		else if (writer->first_len == -1 && VARATT_IS_SHORT(x) && VARATT_IS_SHORT(y) &&
				 !VARATT_IS_EXTERNAL(x) && !VARATT_IS_EXTERNAL(y))
		{
			Size		len = VARSIZE_SHORT(x);

			if (len != VARSIZE_SHORT(y) ||
				(len >= sizeof(uint64) && memcmp(x, y, sizeof(uint64)) != 0) ||
				memcmp(x, y, len) != 0)
				return false;
		}
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

bool
page_writer_add_deduplicated(PageWriter *writer, IndexTuple itup)
{
	BTDedupStateData *posting = writer->posting;

	if (writer->waiting != NULL)
	{
		if (same_bytes(writer, writer->waiting, itup))
		{
			if (posting->nitems == 0)
				_bt_dedup_start_pending(posting, writer->waiting, InvalidOffsetNumber);
			if (_bt_dedup_save_htid(posting, itup))
				return false;
		}
		add_waiting(writer);
	}
	writer->waiting = itup;
	return true;
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
		complete_page(writer, level, level->page, level->block);
		level->page = NULL;
	}
	metapage = palloc(BLCKSZ);
	_bt_initmetapage(metapage, root, root_level, writer->key->allequalimage);
	write_upper_page(writer, metapage, BTREE_METAPAGE);
	finish_file(writer);
	return writer->nblocks;
}

void
page_writer_abandon(PageWriter *writer)
{
	index_file_close(writer->file);
	if (RelationGetNumberOfBlocks(writer->index) > 0)
		RelationTruncate(writer->index, 0);
}
