/*
 * page_scan.c
 *	  A sequential scan's rows, a page at a time.
 *
 * Most large sorts have a plain scan of a table below them, and half of such a
 * sort's time goes into fetching its rows one by one: through the scan node, the
 * table's access method and a slot that is deformed, some 25 ns and a hundred
 * lines of C for each.  But a heap scan collects the visible tuples of a page when
 * it comes there, and keeps the page pinned until it leaves.  So the child is
 * asked, in the ordinary way, only for the first row of every page; the others
 * are then taken off the page where they lie, and the scan is told that they
 * have been given out.  Where the scan's insides are not what we expect
 * (heap_page.h), its rows come one by one.
 *
 * What the rest of the server sees is the same: the child opens, advances and
 * ends its scan itself, checks for interrupts and conflicts, and synchronises with
 * other scans; its rows are counted for EXPLAIN and for the table's statistics.
 * Only its time, where EXPLAIN measures that, contains less: the rows of a page
 * are fetched in our own.
 *
 * Only scans of columns alone: a row is then its tuple, or some of its columns.  Rows
 * that have expressions are computed one by one, by scan_rows.c.  A scan's conditions
 * are evaluated here as the scan node would, in the same order.
 * The scans may be those below an Append, the partitions of a table: it runs one
 * after the other and tells which.
 *
 * On error: nothing is held that the child does not hold.
 */
#include "postgres.h"

#include "access/heapam.h"
#include "compat.h"
#include "miscadmin.h"
#include "node/scan/heap_page.h"
#include "node/scan/page_scan.h"
#include "pgstat.h"

/* A scan of fewer rows is not worth the slots. */
#define ROWS_BEFORE_PAGES	64

/* The columns of the tuple that make the child's row; false if there is more to it. */
static bool
map_columns(const SeqScanState *child, AttrNumber *atts)
{
	Scan	   *plan = (Scan *) child->ss.ps.plan;
	int			natts = RelationGetDescr(child->ss.ss_currentRelation)->natts;
	int			i = 0;
	ListCell   *lc;

	foreach(lc, plan->plan.targetlist)
	{
		Var		   *var = (Var *) lfirst_node(TargetEntry, lc)->expr;

		/* another type's or collation's name for the same bytes */
		while (IsA(var, RelabelType))
			var = (Var *) ((RelabelType *) var)->arg;
		if (!IsA(var, Var) || var->varno != plan->scanrelid || var->varattno <= 0 ||
			var->varattno > natts)
			return false;
		atts[i++] = var->varattno - 1;
	}
	return true;
}

/* Row i's tuple, in tuple_slot. */
static void
tuple_to_slot(PageScan *scan, int i)
{
	HeapTupleTableSlot *slot = (HeapTupleTableSlot *) scan->tuple_slot;
	HeapTupleData tuple;

	tuple.t_len = scan->page.lens[i];
	tuple.t_data = scan->page.tuples[i];
	tuple.t_tableOid = RelationGetRelid(scan->child->ss.ss_currentRelation);
	/* conditions may ask for it */
	ItemPointerSet(&tuple.t_self, scan->block, scan->offsets[i]);
	slot->tupdata = tuple;
	ExecStoreHeapTuple(&slot->tupdata, scan->tuple_slot, false);
}

/* RowPage.row: row i as the child would give it out */
static TupleTableSlot *
page_row(RowPage *page, int i)
{
	PageScan   *scan = (PageScan *) page;
	TupleTableSlot *row = scan->row_slot;
	TupleTableSlot *tuple = scan->tuple_slot;

	tuple_to_slot(scan, i);
	if (page->whole)
		return row;
	slot_getallattrs(tuple);
	ExecClearTuple(row);
	for (int att = 0; att < row->tts_tupleDescriptor->natts; att++)
	{
		row->tts_values[att] = tuple->tts_values[scan->atts[att]];
		row->tts_isnull[att] = tuple->tts_isnull[scan->atts[att]];
	}
	return ExecStoreVirtualTuple(row);
}

/* For a scan of a heap that gives out columns; NULL for any other plan. */
static PageScan *
page_scan_create(PlanState *ps, const Stage *stage)
{
	SeqScanState *child = (SeqScanState *) ps;
	TupleDesc	desc;
	PageScan   *scan;

	if (!IsA(ps, SeqScanState) || ps->state->es_epq_active != NULL ||
		child->ss.ss_currentRelation->rd_tableam != GetHeapamTableAmRoutine())
		return NULL;

	desc = RelationGetDescr(child->ss.ss_currentRelation);
	scan = palloc0(sizeof(PageScan));
	scan->child = child;
	scan->page.row = page_row;
	scan->page.whole = (ps->ps_ProjInfo == NULL);
	scan->atts = palloc(Max(1, list_length(ps->plan->targetlist)) * sizeof(AttrNumber));
	if (map_columns(child, scan->atts))
	{
		page_keys_init(&scan->page.keys, stage, desc, scan->atts);
		scan->page.nkeys = stage->ncols;
		scan->page.key_walk = tuple_walk_create(desc, scan->page.keys.att, stage->ncols, false);
	}
	if (scan->page.key_walk == NULL)
	{
		pfree(scan->atts);
		pfree(scan);
		return NULL;
	}
	if (!scan->page.whole)
		scan->page.pick = row_pick_create(desc, ExecGetResultType(ps), scan->atts);
	scan->tuple_slot = MakeSingleTupleTableSlot(desc, &TTSOpsHeapTuple);
	scan->row_slot = scan->page.whole ? scan->tuple_slot :
		MakeSingleTupleTableSlot(ExecGetResultType(ps), &TTSOpsVirtual);
	return scan;
}

/* Leaves of the page the rows that the scan's conditions let pass. */
static void
filter_page(PageScan *scan)
{
	PlanState  *ps = &scan->child->ss.ps;
	ExprContext *econtext = ps->ps_ExprContext;
	int			kept = 1;		/* the first has passed in the child */

	econtext->ecxt_scantuple = scan->tuple_slot;
	for (int i = 1; i < scan->page.n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		ResetExprContext(econtext);
		tuple_to_slot(scan, i);
		if (!ExecQual(ps->qual, econtext))
			continue;
		scan->page.tuples[kept] = scan->page.tuples[i];
		scan->page.lens[kept] = scan->page.lens[i];
		scan->offsets[kept] = scan->offsets[i];
		kept++;
	}
	ExecClearTuple(scan->tuple_slot);
	InstrCountFiltered1(ps, scan->page.n - kept);
	scan->page.n = kept;
}

/* Whether the page's rows can be written directly, and the room that they need. */
static void
measure_page(PageScan *scan)
{
	scan->page.direct = scan->page.whole || scan->page.pick != NULL;
	scan->page.bytes = 0;
	for (int i = 0; i < scan->page.n && scan->page.direct; i++)
		scan->page.bytes += row_page_room(&scan->page, i);
}

/* The rows of the page where the scan is, from the one it gave out last. */
static bool
page_scan_take(PageScan *scan)
{
	HeapScanDesc heap = (HeapScanDesc) scan->child->ss.ss_currentScanDesc;
	Relation	rel = scan->child->ss.ss_currentRelation;
	int			n = heap_page_take(heap, scan->page.tuples, scan->page.lens, scan->offsets);

	if (n == 0)
		return false;
	scan->block = ItemPointerGetBlockNumber(&scan->child->ss.ss_ScanTupleSlot->tts_tid);
	scan->page.n = n;
	if (scan->child->ss.ps.qual != NULL)
		filter_page(scan);
	measure_page(scan);
	heap_page_look_ahead(heap, rel, scan->page.n, &scan->page.ahead);

	/* the first was counted when it was given out */
	compat_count_heap_rows(rel, n - 1);
	if (scan->child->ss.ps.instrument != NULL)
		InstrUpdateTupleCount(scan->child->ss.ps.instrument, scan->page.n - 1);
	return true;
}

static void
page_scan_end(PageScan *scan)
{
	if (!scan->page.whole)
		ExecDropSingleTupleTableSlot(scan->row_slot);
	if (scan->page.pick != NULL)
		row_pick_free(scan->page.pick);
	tuple_walk_free(scan->page.key_walk);
	ExecDropSingleTupleTableSlot(scan->tuple_slot);
	pfree(scan->atts);
	pfree(scan);
}

void
page_source_init(PageSource *source, PlanState *top)
{
	memset(source, 0, sizeof(*source));
	source->top = top;
	source->possible = IsA(top, SeqScanState) || IsA(top, AppendState);
}

void
page_source_begin(PageSource *source)
{
	if (source->computed != NULL)
		source->computed->n = source->computed->next = 0;
}

/* The plan that gave the last row, from under Appends. */
static PlanState *
row_giver(PlanState *ps)
{
	while (IsA(ps, AppendState))
	{
		AppendState *append = (AppendState *) ps;

		/* several may be under way at once, and none tells which gave the row */
		if (append->as_nasyncplans > 0 || append->as_whichplan < 0)
			return ps;
		ps = append->appendplans[append->as_whichplan];
	}
	return ps;
}

/* Rows that went past the Appends between the plan and the scan. */
static void
count_appended(PlanState *ps, int rows)
{
	while (IsA(ps, AppendState))
	{
		if (ps->instrument != NULL)
			InstrUpdateTupleCount(ps->instrument, rows);
		ps = ((AppendState *) ps)->appendplans[((AppendState *) ps)->as_whichplan];
	}
}

RowPage *
page_source_take(PageSource *source, const Stage *stage, MemoryContext cxt)
{
	PlanState  *giver = row_giver(source->top);

	if (unlikely(giver != source->current))
	{
		page_source_end(source);
		source->current = giver;
	}
	if (unlikely(!source->known))
	{
		MemoryContext old;

		if (++source->rows < ROWS_BEFORE_PAGES)
			return NULL;
		old = MemoryContextSwitchTo(cxt);
		source->scan = page_scan_create(giver, stage);
		if (source->scan == NULL)
			source->computed = scan_rows_create(giver);
		source->known = true;
		MemoryContextSwitchTo(old);
	}
	if (source->computed != NULL)
		scan_rows_take(source->computed);
	if (source->scan == NULL || !page_scan_take(source->scan))
		return NULL;
	count_appended(source->top, source->scan->page.n - 1);
	return &source->scan->page;
}

TupleTableSlot *
page_source_next_computed(PageSource *source)
{
	TupleTableSlot *row = scan_rows_next(source->computed);

	if (row != NULL)
		count_appended(source->top, 1);
	return row;
}

void
page_source_end(PageSource *source)
{
	if (source->scan != NULL)
		page_scan_end(source->scan);
	if (source->computed != NULL)
		scan_rows_end(source->computed);
	page_source_init(source, source->top);
}
