/*
 * index_source.c
 *	  Rows of an index scan, fetched by heap page.
 *
 * An index scan fetches one row per call: it asks the index for a TID, pins and locks the
 * heap page, follows the HOT chain, tests whether the tuple is visible, and passes the row
 * up in a slot.  Where the table is more or less in the order of the index, the next row is
 * on the same page.  So an index source asks the index for the next TIDs first, and then
 * locks each heap page once for all successive TIDs of this page.  If all tuples of the page
 * are visible to all transactions, no tuple is tested.
 *
 * The child begins its scan itself, and returns the first rows itself, because a query with
 * a small LIMIT reads no more.  Then the source reads the child's scan.  The number of TIDs
 * that are read ahead grows with the number of rows.  Rows of TIDs that were read ahead are
 * counted when they are returned.
 *
 * Reading ahead is correct, because an MVCC snapshot sees the same rows at any time, and
 * their tuples stay where they are while their page is pinned.  A TID that was read before
 * its tuple was removed and replaced leads to a tuple that the snapshot does not see.  The
 * page is tested for visibility after its TIDs were read, under its lock: a tuple that is
 * newer than the snapshot keeps the page from being visible to all.
 *
 * An index scan tells the index which TIDs lead to dead tuples only, so that later scans skip
 * them.  The index takes this for the TID that it returned last.  If the source meets such a
 * TID, it therefore leaves all rows behind the TIDs that were read ahead to the child.
 *
 * Where the table has another order than the index, most rows are on another page than the
 * row before.  Their pages, line pointers and tuples are not in the CPU's caches, and the
 * scan waits for each of them in turn.  So the pages of the TIDs that were read ahead are
 * looked up at once, with a request to the operating system to read what is not in shared
 * buffers, and their lines are prefetched.
 *
 * The child's condition and target list are evaluated row by row, in the child's expression
 * context, as the child does.
 *
 * On error: the pin belongs to the resource owner, as that of a slot does.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/relscan.h"
#include "access/xact.h"
#include "catalog/pg_am.h"
#include "compat.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "scan/scan.h"
#include "storage/buf_internals.h"
#include "storage/bufmgr.h"
#include "utils/snapmgr.h"

/* Rows that the child returns before its TIDs are read ahead. */
#define ROWS_BEFORE_TIDS	32

/* Numbers of TIDs that are read ahead at first, and at most. */
#define FIRST_TIDS			16
#define MOST_TIDS			128

/* A tuple is prefetched this number of TIDs before it is looked at. */
#define TIDS_AHEAD			8

/* Successive TIDs of one page. */
typedef struct PageTids
{
	BlockNumber block;
	Buffer		recent;			/* buffer that had the page when it was looked up */
	int			first;
	int			n;
} PageTids;

/* TIDs that were read ahead, and tuples. */
typedef struct TidsAhead
{
	int			most;			/* number that is read at once */
	int			ntids;
	ItemPointerData tids[MOST_TIDS];
	const char *found[MOST_TIDS];	/* the TID's page, where it was looked up;
									 * or NULL */
	int			npages;
	int			next_page;
	PageTids	pages[MOST_TIDS];

	/* visible tuples of a page, which is pinned */
	int			ntuples;
	int			next_tuple;
	HeapTupleData tuples[MOST_TIDS];
} TidsAhead;

struct IndexSource
{
	PlanState  *plan;			/* the child */
	bool		active;			/* rows come from its scan, not from the child */
	bool		excluded;		/* rows come from the child until a rescan */
	int			single_rows;	/* rows that the child returned */

	/* the scan, while active */
	IndexScanDesc scan;
	ScanDirection direction;
	bool		at_end;			/* the index has no more TIDs */
	bool		dead;			/* a TID led to dead tuples only */
	Buffer		buffer;			/* the pinned page; or InvalidBuffer */
	BlockNumber block;			/* its number */

	/* allocated when TIDs are first read ahead */
	TupleTableSlot *slot;		/* a tuple of the table */
	TidsAhead  *ahead;
};

/* Can the child's scan be read by TIDs?  It has begun. */
static bool
scan_possible(PlanState *ps)
{
	IndexScanState *child = (IndexScanState *) ps;
	IndexScanDesc scan;

	if (!COMPAT_INDEX_HEAP || !IsA(ps, IndexScanState))
		return false;
	scan = child->iss_ScanDesc;
	return scan != NULL && scan->indexRelation->rd_rel->relam == BTREE_AM_OID &&
		!scan->xs_recheck && scan->numberOfOrderBys == 0 &&
		scan->heapRelation->rd_tableam == GetHeapamTableAmRoutine() &&
		IsMVCCSnapshot(scan->xs_snapshot) &&
	/* reading ahead would lock more than the rows that are returned */
		!IsolationIsSerializable() &&
		ps->state->es_epq_active == NULL && ScanDirectionIsForward(ps->state->es_direction);
}

/* Begins to read the child's scan, or excludes it. */
static void
begin_tids(IndexSource *source)
{
	PlanState  *ps = source->plan;

	source->excluded = true;
	if (!scan_possible(ps))
		return;
	source->scan = ((IndexScanState *) ps)->iss_ScanDesc;
	source->direction = ((IndexScan *) ps->plan)->indexorderdir;
	if (source->slot == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(ps->state->es_query_cxt);

		source->ahead = palloc(sizeof(TidsAhead));
		source->slot = MakeSingleTupleTableSlot(RelationGetDescr(source->scan->heapRelation), &TTSOpsHeapTuple);
		MemoryContextSwitchTo(old);
	}
	source->ahead->most = FIRST_TIDS;
	source->ahead->npages = source->ahead->next_page = 0;
	source->ahead->ntuples = source->ahead->next_tuple = 0;
	source->active = true;
}

/* Forgets TIDs and tuples, and releases the page. */
static void
end_tids(IndexSource *source)
{
	if (source->slot != NULL)
		ExecClearTuple(source->slot);
	if (BufferIsValid(source->buffer))
		ReleaseBuffer(source->buffer);
	source->buffer = InvalidBuffer;
	source->active = source->at_end = source->dead = false;
}

#if COMPAT_INDEX_HEAP

/*
 * Prefetches the tuple of a TID.  Another page may be in the buffer meanwhile, or the page may
 * change, so a wrong address may be prefetched, without effect.
 */
static inline void
prefetch_tuple(const TidsAhead *ahead, int i)
{
	const char *page = ahead->found[i];
	const char *tuple;

	if (page == NULL)
		return;
	tuple = page + ItemIdGetOffset(PageGetItemId((Page) page, ItemPointerGetOffsetNumber(&ahead->tids[i])));
	__builtin_prefetch(tuple);
	__builtin_prefetch(tuple + PG_CACHE_LINE_SIZE / 2);
}

/* Looks up a page of a TID, and prefetches what is read of it first. */
static void
look_up_page(Relation rel, const ItemPointerData *tid, PageTids *tids)
{
	Page		page;

	tids->recent = PrefetchBuffer(rel, MAIN_FORKNUM, tids->block).recent_buffer;
	if (!BufferIsValid(tids->recent))
		return;
	page = BufferGetPage(tids->recent);
	if (!BufferIsLocal(tids->recent))
		__builtin_prefetch(GetBufferDescriptor(tids->recent - 1), 1);
	__builtin_prefetch(page);
	__builtin_prefetch(PageGetItemId(page, ItemPointerGetOffsetNumber(tid)));
}

/* Divides the TIDs by pages, and looks up these pages. */
static void
find_pages(IndexSource *source)
{
	Relation	rel = source->scan->heapRelation;
	TidsAhead  *ahead = source->ahead;
	PageTids   *tids = ahead->pages;

	ahead->npages = ahead->next_page = 0;
	for (int i = 0; i < ahead->ntids; i++)
	{
		BlockNumber block = ItemPointerGetBlockNumber(&ahead->tids[i]);

		if (i == 0 || block != tids->block)
		{
			tids = &ahead->pages[ahead->npages++];
			tids->block = block;
			tids->first = i;
			tids->n = 0;
			tids->recent = source->buffer;
			if (!BufferIsValid(source->buffer) || block != source->block)
				look_up_page(rel, &ahead->tids[i], tids);
		}
		tids->n++;
		ahead->found[i] = BufferIsValid(tids->recent) ? (const char *) BufferGetBlock(tids->recent) : NULL;
	}
	for (int i = 0; i < Min(TIDS_AHEAD, ahead->ntids); i++)
		prefetch_tuple(ahead, i);
}

/* Reads TIDs from the index; false if there are none. */
static bool
read_tids(IndexSource *source)
{
	TidsAhead  *ahead = source->ahead;

	ahead->ntids = 0;
	while (!source->at_end && ahead->ntids < ahead->most)
	{
		ItemPointer tid = index_getnext_tid(source->scan, source->direction);

		if (tid == NULL)
			source->at_end = true;
		else
			ahead->tids[ahead->ntids++] = *tid;
	}
	ahead->most = Min(2 * ahead->most, MOST_TIDS);
	find_pages(source);
	return ahead->ntids > 0;
}

/* Sets a tuple of a page on which all tuples are visible to all; false if the TID has none. */
static inline bool
visible_tuple(Page page, const ItemPointerData *tid, HeapTuple tuple)
{
	OffsetNumber offset = ItemPointerGetOffsetNumber(tid);
	ItemId		item;

	if (unlikely(offset < FirstOffsetNumber || offset > PageGetMaxOffsetNumber(page)))
		return false;
	item = PageGetItemId(page, offset);
	if (unlikely(ItemIdIsRedirected(item)))
	{
		offset = ItemIdGetRedirect(item);
		item = PageGetItemId(page, offset);
		if (!ItemIdIsNormal(item))
			return false;
	}
	else if (unlikely(!ItemIdIsNormal(item) || HeapTupleHeaderIsHeapOnly((HeapTupleHeader) PageGetItem(page, item))))
		return false;
	tuple->t_data = (HeapTupleHeader) PageGetItem(page, item);
	tuple->t_len = ItemIdGetLength(item);
	ItemPointerSet(&tuple->t_self, ItemPointerGetBlockNumberNoCheck(tid), offset);
	return true;
}

/* Pins the page of the TIDs instead of the page before. */
static void
pin_page(IndexSource *source, const PageTids *tids)
{
	Relation	rel = source->scan->heapRelation;

	if (BufferIsValid(source->buffer))
	{
		if (tids->block == source->block)
			return;
		ReleaseBuffer(source->buffer);
		source->buffer = InvalidBuffer;
	}
	if (BufferIsValid(tids->recent) &&
		ReadRecentBuffer(compat_locator(rel), MAIN_FORKNUM, tids->block, tids->recent))
		source->buffer = tids->recent;
	else
		source->buffer = ReadBuffer(rel, tids->block);
	source->block = tids->block;
	heap_page_prune_opt(rel, source->buffer);
}

/* Finds the visible tuples of the next TIDs of one page. */
static void
take_tuples(IndexSource *source)
{
	Relation	rel = source->scan->heapRelation;
	Snapshot	snapshot = source->scan->xs_snapshot;
	TidsAhead  *ahead = source->ahead;
	const PageTids *tids = &ahead->pages[ahead->next_page];
	Page		page;
	bool		all_visible;
	int			n = 0;

	CHECK_FOR_INTERRUPTS();
	ahead->next_page++;
	pin_page(source, tids);
	page = BufferGetPage(source->buffer);
	LockBuffer(source->buffer, BUFFER_LOCK_SHARE);
	all_visible = PageIsAllVisible(page) && !snapshot->takenDuringRecovery;
	for (int i = tids->first; i < tids->first + tids->n; i++)
	{
		ItemPointerData tid = ahead->tids[i];
		HeapTuple	tuple = &ahead->tuples[n];

		if (i + TIDS_AHEAD < ahead->ntids)
			prefetch_tuple(ahead, i + TIDS_AHEAD);
		if (likely(all_visible))
			n += visible_tuple(page, &tid, tuple);
		else
		{
			bool		all_dead = false;

			n += heap_hot_search_buffer(&tid, rel, source->buffer, snapshot, tuple, &all_dead, true);
			source->dead |= all_dead;
		}
		tuple->t_tableOid = RelationGetRelid(rel);
	}
	LockBuffer(source->buffer, BUFFER_LOCK_UNLOCK);
	if (pgstat_should_count_relation(source->scan->indexRelation))
		compat_counter(source->scan->indexRelation, tuples_fetched) += n;
	ahead->ntuples = n;
	ahead->next_tuple = 0;
}

#else

static bool
read_tids(IndexSource *source)
{
	return false;
}

static void
take_tuples(IndexSource *source)
{
}

#endif							/* COMPAT_INDEX_HEAP */

/* Returns the row of a tuple as the child would; NULL if the child's condition is false. */
static TupleTableSlot *
compute_row(IndexSource *source)
{
	PlanState  *ps = source->plan;
	ExprContext *econtext = ps->ps_ExprContext;

	CHECK_FOR_INTERRUPTS();
	ResetExprContext(econtext);
	econtext->ecxt_scantuple = source->slot;
	if (ps->qual != NULL && !ExecQual(ps->qual, econtext))
	{
		InstrCountFiltered1(ps, 1);
		return NULL;
	}
	return ps->ps_ProjInfo != NULL ? ExecProject(ps->ps_ProjInfo) : source->slot;
}

/* The next row of the child's scan; NULL if TIDs are not read any more, or at the end. */
static TupleTableSlot *
next_of_tids(IndexSource *source)
{
	PlanState  *ps = source->plan;
	TidsAhead  *ahead = source->ahead;
	TupleTableSlot *row = source->slot;

	for (;;)
	{
		while (likely(ahead->next_tuple < ahead->ntuples))
		{
			ExecStoreHeapTuple(&ahead->tuples[ahead->next_tuple++], source->slot, false);
			if (ps->qual != NULL || ps->ps_ProjInfo != NULL)
			{
				row = compute_row(source);
				if (row == NULL)
					continue;
			}
			if (ps->instrument != NULL)
				ps->instrument->tuplecount++;
			return row;
		}
		if (ahead->next_page == ahead->npages && (source->dead || !read_tids(source)))
			return NULL;
		take_tuples(source);
	}
}

IndexSource *
index_source_create(PlanState *plan)
{
	IndexSource *source = palloc0(sizeof(IndexSource));

	source->plan = plan;
	source->excluded = !IsA(plan, IndexScanState);
	return source;
}

TupleTableSlot *
index_source_next(IndexSource *source)
{
	TupleTableSlot *row;

	if (likely(source->active))
	{
		row = next_of_tids(source);
		if (likely(row != NULL) || source->at_end)
			return row;
		/* the child continues behind the TIDs that were read */
		end_tids(source);
		source->excluded = true;
	}
	row = ExecProcNode(source->plan);
	if (TupIsNull(row))
		return NULL;
	if (!source->excluded && ++source->single_rows == ROWS_BEFORE_TIDS)
		begin_tids(source);
	return row;
}

void
index_source_rescan(IndexSource *source)
{
	end_tids(source);
	source->excluded = !IsA(source->plan, IndexScanState);
	source->single_rows = 0;
}

void
index_source_end(IndexSource *source)
{
	end_tids(source);
	if (source->slot != NULL)
	{
		ExecDropSingleTupleTableSlot(source->slot);
		pfree(source->ahead);
	}
	pfree(source);
}
