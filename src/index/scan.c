/*
 * scan.c
 *	  Reads the heap for an index build: a row for each index tuple, in TID order.
 *
 * The table access method's scan returns one tuple per call, through a slot and a
 * callback.  This takes three times as long as reading a whole page.  So pages are read
 * directly if the index has no expressions and no predicate.  A page is plain if it has no
 * HOT chain and each of its tuples is either live or visible to no transaction.  The rows
 * of a plain page are put together (RowPage), or one by one if they have long values.
 * Other pages are read by the access method's scan, which waits for transactions in
 * progress, finds roots of HOT chains, and notes broken chains.  Adjacent pages of this
 * kind are read by one scan.
 *
 * The sort is stable, and TID is the last key of a btree.  So rows must come in TID order.
 * The scan returns the members of HOT chains in the order of their line pointers, but with
 * the TIDs of the roots.  Rows of a page from the scan are therefore collected and ordered
 * before they are put into the sorter.
 *
 * Several processes may read a table: each takes chunks of blocks from a shared counter,
 * so its rows are in TID order, too.  With index expressions or a predicate, each chunk is
 * read by the access method's scan.
 *
 * Visibility: a concurrent build indexes the tuples that its snapshot sees.  The snapshot
 * is taken once, for all processes and for the scans of pages that are not plain.  Other
 * builds index all tuples that any transaction may see.
 *
 * Values are stored as index_form_tuple() stores them: fetched from TOAST tables, and
 * compressed if they are long.  index_form_tuple() forms rows that may have such values.
 *
 * Memory policy: the rows of one page.
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/heaptoast.h"
#include "access/nbtree.h"
#include "access/relscan.h"
#include "access/xact.h"
#include "catalog/index.h"
#include "commands/progress.h"
#include "compat.h"
#include "index/index_internal.h"
#include "miscadmin.h"
#include "optimizer/plancat.h"
#include "pgstat.h"
#include "scan/heap_page.h"
#include "storage/bufmgr.h"
#include "storage/procarray.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

/*
 * Participants of a parallel build take blocks in chunks.  A chunk is small, because at the
 * end the other participants wait for the last chunk, and large enough for the operating
 * system's read-ahead.
 */
#define CHUNKS_PER_PARTICIPANT	64
#define MIN_CHUNK_BLOCKS		((BlockNumber) 4)
#define MAX_CHUNK_BLOCKS		((BlockNumber) 1024)

/* A row that was collected. */
typedef struct CollectedRow
{
	OffsetNumber offset;		/* of its TID */
	Size		at;				/* place in HeapReader.space, in the order of arrival */
} CollectedRow;

typedef struct HeapReader
{
	Relation	heap;
	Relation	index;
	IndexInfo  *info;
	Sorter	   *sorter;
	TupleDesc	desc;			/* of the index */
	IndexBuildCounters *counters;
	HeapBlocks *shared;			/* blocks of all participants; or NULL */
	Snapshot	snapshot;		/* of a concurrent build; else SnapshotAny */
	TransactionId oldest_xmin;	/* for SnapshotAny */
	MemoryContext row_cxt;		/* reset with each page */

	/* rows of one page from a scan */
	RowWriter  *writer;
	TupleTableSlot *row_slot;	/* a MinimalTuple */
	BlockNumber block;
	bool		ordered;		/* their TIDs ascend */
	int			nrows;
	int			rows_capacity;
	CollectedRow *rows;
	char	   *space;
	Size		space_used;
	Size		space_size;

	/* pages that are read directly */
	RowPage		page;
	bool		may_be_long;	/* a column may need fetching or compression */
	bool		has_long;		/* a tuple of the page is so long that a value may be */
	TupleTableSlot *tuple_slot; /* a tuple of the heap */
	BufferAccessStrategy strategy;
	ItemPointerData tids[MaxHeapTuplesPerPage];
	char	   *picked;			/* a row of row_of_page() */
	Size		picked_size;
} HeapReader;

/* ------------------------------------------------------------------------
 * Rows from values
 * ------------------------------------------------------------------------
 */

static int
compare_collected(const void *a, const void *b)
{
	const CollectedRow *x = a;
	const CollectedRow *y = b;

	if (x->offset != y->offset)
		return x->offset < y->offset ? -1 : 1;
	return (x->at > y->at) - (x->at < y->at);
}

/* Puts the collected rows of a page into the sorter, in TID order. */
static void
put_collected(HeapReader *reader)
{
	if (!reader->ordered)
		qsort(reader->rows, reader->nrows, sizeof(CollectedRow), compare_collected);
	for (int i = 0; i < reader->nrows; i++)
	{
		row_to_slot(reader->row_slot, (MinimalTuple) (reader->space + reader->rows[i].at));
		if (!sorter_put(reader->sorter, reader->row_slot))
			break;
	}
	ExecClearTuple(reader->row_slot);
	reader->counters->rows += reader->nrows;
	reader->nrows = 0;
	reader->space_used = 0;
	reader->ordered = true;
	MemoryContextReset(reader->row_cxt);
}

/* Does an index tuple store this value in another form? */
static bool
value_is_long(Form_pg_attribute attr, Datum value)
{
	const char *p = DatumGetPointer(value);

	return attr->attlen == -1 &&
		(VARATT_IS_EXTERNAL(p) || (!VARATT_IS_EXTENDED(p) && VARSIZE(p) > TOAST_INDEX_TARGET));
}

/*
 * Replaces the values by those of their index tuple if that may differ.  Raises
 * index_form_tuple()'s error if the tuple is too large.
 */
static void
store_as_index_tuple(HeapReader *reader, Datum *values, bool *isnull)
{
	bool		needed = false;
	Size		size = sizeof(IndexTupleData) + sizeof(IndexAttributeBitMapData);

	for (int att = 0; att < reader->desc->natts; att++)
	{
		Form_pg_attribute attr = TupleDescAttr(reader->desc, att);

		if (isnull[att])
			continue;
		needed |= value_is_long(attr, values[att]);
		size = att_addlength_datum(size + MAXIMUM_ALIGNOF, attr->attlen, values[att]);
	}
	if (needed || size > INDEX_SIZE_MASK)
		index_deform_tuple(index_form_tuple(reader->desc, values, isnull), reader->desc, values, isnull);
}

/* IndexBuildCallback: collects a row.  The rows of a block are collected in succession. */
static void
collect_row(Relation index, ItemPointer tid, Datum *values, bool *isnull, bool live, void *arg)
{
	HeapReader *reader = arg;
	BlockNumber block = ItemPointerGetBlockNumber(tid);
	MemoryContext old = MemoryContextSwitchTo(reader->row_cxt);
	CollectedRow *row;
	Size		room;

	if (reader->nrows > 0 && block != reader->block)
		put_collected(reader);
	reader->block = block;
	store_as_index_tuple(reader, values, isnull);
	room = row_writer_room(reader->writer, values, isnull);
	if (reader->space_used + room > reader->space_size)
	{
		reader->space_size = Max(2 * reader->space_size, reader->space_used + room);
		reader->space = repalloc_huge(reader->space, reader->space_size);
	}
	if (reader->nrows == reader->rows_capacity)
	{
		reader->rows_capacity *= 2;
		reader->rows = repalloc(reader->rows, reader->rows_capacity * sizeof(CollectedRow));
	}
	row = &reader->rows[reader->nrows];
	row->offset = ItemPointerGetOffsetNumber(tid);
	row->at = reader->space_used;
	reader->space_used += row_writer_write(reader->writer, values, isnull, reader->space + row->at);
	row_set_tid(reader->space + row->at, tid);
	if (!live)
		((MinimalTuple) (reader->space + row->at))->t_infomask2 |= ROW_DEAD;
	reader->ordered &= reader->nrows == 0 || row[-1].offset < row->offset;
	reader->nrows++;
	MemoryContextSwitchTo(old);
}

/* Reads blocks [first, end) through the table access method. */
static void
read_through_scan(HeapReader *reader, BlockNumber first, BlockNumber end)
{
	bool		counted = pgstat_should_count_relation(reader->heap);
	PgStat_Counter scans = counted ? compat_counter(reader->heap, numscans) : 0;
	TableScanDesc scan = table_beginscan_strat(reader->heap, reader->snapshot, 0, NULL, true, false);

	/* a scan that is passed in is ended; its snapshot and its limits hold */
	heap_setscanlimits(scan, first, end - first);
	reader->counters->heap_rows += table_index_build_scan(reader->heap, reader->index, reader->info, true, false,
														  collect_row, reader, scan);
	/* a participant of a build counts as one scan of the table, as PostgreSQL's does */
	if (counted)
		compat_counter(reader->heap, numscans) = scans;
	put_collected(reader);
}

/* ------------------------------------------------------------------------
 * Pages that are read directly
 * ------------------------------------------------------------------------
 */

/* RowPage.row: row i as a MinimalTuple. */
static TupleTableSlot *
row_of_page(RowPage *page, int i)
{
	HeapReader *reader = (HeapReader *) ((char *) page - offsetof(HeapReader, page));
	Size		room = row_page_room(page, i);

	if (room > reader->picked_size)
	{
		reader->picked = repalloc(reader->picked, room);
		reader->picked_size = room;
	}
	(void) row_page_write(page, i, reader->picked);
	row_to_slot(reader->row_slot, (MinimalTuple) reader->picked);
	return reader->row_slot;
}

/*
 * Can pages be read directly?  Prepares it.  The index's columns must be stored columns of
 * the heap, of the same form.
 */
static bool
prepare_pages(HeapReader *reader)
{
	TupleDesc	heap_desc = RelationGetDescr(reader->heap);
	RowPage    *page = &reader->page;
	AttrNumber	atts[INDEX_MAX_KEYS];

	if (reader->info->ii_Predicate != NIL ||
		(reader->snapshot != SnapshotAny && IsolationIsSerializable()))
		return false;
	for (int i = 0; i < reader->desc->natts; i++)
	{
		AttrNumber	att = reader->info->ii_IndexAttrNumbers[i];
		Form_pg_attribute mine = TupleDescAttr(reader->desc, i);
		Form_pg_attribute theirs;

		if (att <= 0)
			return false;
		theirs = TupleDescAttr(heap_desc, att - 1);
		if (mine->attlen != theirs->attlen || mine->attbyval != theirs->attbyval ||
			mine->attalign != theirs->attalign ||
			(theirs->attgenerated != '\0' && theirs->attgenerated != ATTRIBUTE_GENERATED_STORED))
			return false;
		atts[i] = att - 1;
		reader->may_be_long |= mine->attlen == -1;
	}
	page->row = row_of_page;
	page->tids = reader->tids;
	page->direct = true;
	page_keys_init(&page->keys, reader->sorter->keybuf, heap_desc, atts);
	page->pick = row_pick_create(heap_desc, reader->desc, atts);
	if (page->keys.walk == NULL || page->pick == NULL)
		return false;
	reader->tuple_slot = MakeSingleTupleTableSlot(heap_desc, &TTSOpsHeapTuple);
	reader->picked_size = BLCKSZ;
	reader->picked = palloc(reader->picked_size);
	return true;
}

/* How a build treats a tuple without HOT flags. */
typedef enum TupleUse
{
	TUPLE_TAKEN,
	TUPLE_SKIPPED,				/* visible to no transaction */
	TUPLE_UNCLEAR				/* the access method's scan must decide */
} TupleUse;

static TupleUse
tuple_use(const HeapReader *reader, HeapTuple tuple, Buffer buffer)
{
	if (reader->snapshot != SnapshotAny)
		return HeapTupleSatisfiesVisibility(tuple, reader->snapshot, buffer) ? TUPLE_TAKEN : TUPLE_SKIPPED;
	switch (HeapTupleSatisfiesVacuum(tuple, reader->oldest_xmin, buffer))
	{
		case HEAPTUPLE_LIVE:
			return TUPLE_TAKEN;
		case HEAPTUPLE_DEAD:
			return TUPLE_SKIPPED;
		case HEAPTUPLE_INSERT_IN_PROGRESS:
			/* a row of this transaction */
			if (TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(tuple->t_data)))
				return TUPLE_TAKEN;
			return TUPLE_UNCLEAR;
		default:
			return TUPLE_UNCLEAR;
	}
}

/* HeapTupleTaker: takes the tuple if it is indexed; false if that is unclear. */
static bool
take_indexed(void *arg, HeapTuple tuple, Buffer buffer)
{
	HeapReader *reader = arg;
	RowPage    *rows = &reader->page;

	if (reader->snapshot != SnapshotAny || !heap_tuple_known_live(tuple->t_data))
	{
		/* a copy, so that the tuple itself stays in registers */
		HeapTupleData tested = *tuple;
		TupleUse	use = tuple_use(reader, &tested, buffer);

		if (use != TUPLE_TAKEN)
			return use == TUPLE_SKIPPED;
	}
	reader->has_long |= tuple->t_len > TOAST_INDEX_TARGET || (tuple->t_data->t_infomask & HEAP_HASEXTERNAL) != 0;
	rows->tuples[rows->n] = tuple->t_data;
	rows->lens[rows->n] = tuple->t_len;
	rows->bytes += row_page_room(rows, rows->n);
	reader->tids[rows->n] = tuple->t_self;
	rows->n++;
	return true;
}

/* Collects the rows of a page one by one. */
static void
collect_page(HeapReader *reader)
{
	for (int i = 0; i < reader->page.n; i++)
	{
		HeapTuple	tuple = &((HeapTupleTableSlot *) reader->tuple_slot)->tupdata;
		Datum		values[INDEX_MAX_KEYS];
		bool		isnull[INDEX_MAX_KEYS];

		tuple->t_data = reader->page.tuples[i];
		tuple->t_len = reader->page.lens[i];
		tuple->t_tableOid = RelationGetRelid(reader->heap);
		tuple->t_self = reader->tids[i];
		ExecStoreHeapTuple(tuple, reader->tuple_slot, false);
		for (int att = 0; att < reader->desc->natts; att++)
			values[att] = slot_getattr(reader->tuple_slot, reader->info->ii_IndexAttrNumbers[att], &isnull[att]);
		collect_row(reader->index, &reader->tids[i], values, isnull, true, reader);
	}
	ExecClearTuple(reader->tuple_slot);
	put_collected(reader);
}

/* Puts the rows of a plain page, which is pinned, into the sorter. */
static void
put_page(HeapReader *reader)
{
	reader->counters->heap_rows += reader->page.n;
	compat_count_heap_rows(reader->heap, reader->page.n);
	if (reader->has_long && reader->may_be_long)
		collect_page(reader);
	else if (reader->page.n > 0)
	{
		(void) sorter_put_page(reader->sorter, &reader->page);
		reader->counters->rows += reader->page.n;
	}
}

/* Reads blocks [first, end) page by page. */
static void
read_pages(HeapReader *reader, BlockNumber first, BlockNumber end)
{
	/* first of the pages that wait for a scan */
	BlockNumber unclear = InvalidBlockNumber;

	for (BlockNumber block = first; block < end && !sorter_failed(reader->sorter); block++)
	{
		Buffer		buffer;
		bool		plain;

		CHECK_FOR_INTERRUPTS();
		buffer = ReadBufferExtended(reader->heap, MAIN_FORKNUM, block, RBM_NORMAL, reader->strategy);
		reader->page.n = 0;
		reader->page.bytes = 0;
		reader->has_long = false;
		plain = heap_page_read(reader->heap, buffer, false, take_indexed, reader);
		if (!plain && unclear == InvalidBlockNumber)
			unclear = block;
		else if (plain && unclear != InvalidBlockNumber)
		{
			/*
			 * The rows of the waiting pages come first.  The scan may wait
			 * for locks, so this page is released and read again.
			 */
			ReleaseBuffer(buffer);
			read_through_scan(reader, unclear, block);
			unclear = InvalidBlockNumber;
			block--;
			continue;
		}
		if (plain)
		{
			heap_look_ahead(&reader->page.ahead, reader->heap, block + 1, end, reader->page.n);
			put_page(reader);
		}
		ReleaseBuffer(buffer);
		if (reader->shared == NULL)
			pgstat_progress_update_param(PROGRESS_SCAN_BLOCKS_DONE, block);
	}
	if (unclear != InvalidBlockNumber)
		read_through_scan(reader, unclear, end);
}

/* ------------------------------------------------------------------------
 * The whole table
 * ------------------------------------------------------------------------
 */

double
heap_rows_expected(Relation heap)
{
	BlockNumber pages;
	double		tuples;
	double		all_visible;

	estimate_rel_size(heap, NULL, &pages, &tuples, &all_visible);
	return tuples;
}

void
heap_blocks_init(HeapBlocks *blocks, Relation heap, int participants)
{
	blocks->nblocks = RelationGetNumberOfBlocks(heap);
	blocks->chunk = blocks->nblocks / ((BlockNumber) participants * CHUNKS_PER_PARTICIPANT);
	blocks->chunk = Max(MIN_CHUNK_BLOCKS, Min(blocks->chunk, MAX_CHUNK_BLOCKS));
	pg_atomic_init_u64(&blocks->next, 0);
}

void
heap_blocks_report(HeapBlocks *blocks)
{
	pgstat_progress_update_param(PROGRESS_SCAN_BLOCKS_DONE,
								 (int64) Min(pg_atomic_read_u64(&blocks->next), (uint64) blocks->nblocks));
}

void
heap_read_report(double rows)
{
	const int	params[] = {PROGRESS_CREATEIDX_TUPLES_TOTAL, PROGRESS_SCAN_BLOCKS_TOTAL, PROGRESS_SCAN_BLOCKS_DONE};
	const int64 values[] = {(int64) rows, 0, 0};

	pgstat_progress_update_multi_param(lengthof(params), params, values);
}

/* Reads the chunks of this participant, in ascending order. */
static void
read_shared_blocks(HeapReader *reader)
{
	HeapBlocks *shared = reader->shared;
	uint64		first;

	while (!sorter_failed(reader->sorter) &&
		   (first = pg_atomic_fetch_add_u64(&shared->next, shared->chunk)) < shared->nblocks)
	{
		BlockNumber end = (BlockNumber) Min(first + shared->chunk, (uint64) shared->nblocks);

		heap_blocks_report(shared);
		if (reader->counters->page_scan)
			read_pages(reader, (BlockNumber) first, end);
		else
			read_through_scan(reader, (BlockNumber) first, end);
	}
}

/* Reads all blocks, in a build without workers. */
static void
read_all_blocks(HeapReader *reader)
{
	BlockNumber nblocks = RelationGetNumberOfBlocks(reader->heap);

	if (reader->counters->page_scan)
	{
		pgstat_progress_update_param(PROGRESS_SCAN_BLOCKS_TOTAL, nblocks);
		read_pages(reader, 0, nblocks);
		pgstat_progress_update_param(PROGRESS_SCAN_BLOCKS_DONE, nblocks);
		return;
	}
	/* the scan begins with the first block, for TID order */
	reader->counters->heap_rows = table_index_build_scan(reader->heap, reader->index, reader->info, false, true,
														 collect_row, reader, NULL);
	put_collected(reader);
}

void
heap_read(Relation heap, Relation index, IndexInfo *info, HeapBlocks *shared, Snapshot snapshot,
		  Sorter *sorter, IndexBuildCounters *counters)
{
	HeapReader *reader = palloc0(sizeof(HeapReader));

	reader->heap = heap;
	reader->index = index;
	reader->info = info;
	reader->sorter = sorter;
	reader->desc = RelationGetDescr(index);
	reader->counters = counters;
	reader->row_cxt = AllocSetContextCreate(CurrentMemoryContext, "index rows", ALLOCSET_DEFAULT_SIZES);
	reader->writer = row_writer_create(reader->desc);
	reader->row_slot = MakeSingleTupleTableSlot(reader->desc, &TTSOpsMinimalTuple);
	reader->ordered = true;
	reader->rows_capacity = MaxHeapTuplesPerPage;
	reader->rows = palloc(reader->rows_capacity * sizeof(CollectedRow));
	reader->space_size = 2 * BLCKSZ;
	reader->space = palloc(reader->space_size);
	reader->shared = shared;
	if (info->ii_Concurrent)
		reader->snapshot = RegisterSnapshot(snapshot != NULL ? snapshot : GetTransactionSnapshot());
	else
	{
		reader->snapshot = SnapshotAny;
		reader->oldest_xmin = GetOldestNonRemovableTransactionId(heap);
	}

	counters->page_scan = prepare_pages(reader);
	if (counters->page_scan)
		reader->strategy = heap_bulk_strategy(heap);
	if (counters->page_scan || shared != NULL)
		pgstat_count_heap_scan(heap);
	if (shared != NULL)
		read_shared_blocks(reader);
	else
		read_all_blocks(reader);
	if (reader->tuple_slot != NULL)
		ExecDropSingleTupleTableSlot(reader->tuple_slot);
	FreeAccessStrategy(reader->strategy);
	if (info->ii_Concurrent)
		UnregisterSnapshot(reader->snapshot);
	ExecDropSingleTupleTableSlot(reader->row_slot);
	MemoryContextDelete(reader->row_cxt);
}
