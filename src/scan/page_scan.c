/*
 * page_scan.c
 *	  Rows of a sequential scan that are tuples of the table, or some of their columns.
 *
 * The sorter takes a page's rows at once.  The scan's condition is evaluated for one tuple
 * before the next is looked at, as the scan does, so that volatile functions and errors
 * come in the same order.
 *
 * On error: nothing is held that the child does not hold.
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/htup_details.h"
#include "compat.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "scan/heap_page.h"
#include "scan/scan_internal.h"

bool
is_heap_scan(PlanState *ps)
{
	return IsA(ps, SeqScanState) && ps->state->es_epq_active == NULL &&
		((SeqScanState *) ps)->ss.ss_currentRelation->rd_tableam == GetHeapamTableAmRoutine();
}

/* Finds the table columns of the child's row; false if the row has expressions. */
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

		/* a binary-coercible type or another collation: the same bytes */
		while (IsA(var, RelabelType))
			var = (Var *) ((RelabelType *) var)->arg;
		if (!IsA(var, Var) || var->varno != plan->scanrelid || var->varattno <= 0 ||
			var->varattno > natts)
			return false;
		atts[i++] = var->varattno - 1;
	}
	return true;
}

static void
page_tuple_to_slot(PageScan *scan, int i)
{
	heap_tuple_to_slot(scan->tuple_slot, scan->child, scan->block, scan->offsets[i],
					   scan->page.tuples[i], scan->page.lens[i]);
}

/* RowPage.row: returns row i as the child would. */
static TupleTableSlot *
page_row(RowPage *page, int i)
{
	PageScan   *scan = (PageScan *) page;
	TupleTableSlot *row = scan->row_slot;
	TupleTableSlot *tuple = scan->tuple_slot;

	page_tuple_to_slot(scan, i);
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

PageScan *
page_scan_create(PlanState *ps, const KeyBuffer *keybuf)
{
	SeqScanState *child = (SeqScanState *) ps;
	TupleDesc	desc;
	PageScan   *scan;

	if (!is_heap_scan(ps))
		return NULL;

	desc = RelationGetDescr(child->ss.ss_currentRelation);
	scan = palloc0(sizeof(PageScan));
	scan->child = child;
	scan->page.row = page_row;
	scan->page.whole = (ps->ps_ProjInfo == NULL);
	scan->atts = palloc(Max(1, list_length(ps->plan->targetlist)) * sizeof(AttrNumber));
	if (map_columns(child, scan->atts))
		page_keys_init(&scan->page.keys, keybuf, desc, scan->atts);
	if (scan->page.keys.walk == NULL)
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

int
page_scan_filter(PageScan *scan, int first)
{
	PlanState  *ps = &scan->child->ss.ps;
	ExprContext *econtext = ps->ps_ExprContext;
	int			n = scan->page.n;
	int			kept = first;

	econtext->ecxt_scantuple = scan->tuple_slot;
	for (int i = first; i < n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		ResetExprContext(econtext);
		page_tuple_to_slot(scan, i);
		if (!ExecQual(ps->qual, econtext))
			continue;
		scan->page.tuples[kept] = scan->page.tuples[i];
		scan->page.lens[kept] = scan->page.lens[i];
		scan->offsets[kept] = scan->offsets[i];
		kept++;
	}
	ExecClearTuple(scan->tuple_slot);
	scan->page.n = kept;
	return n - kept;
}

void
page_scan_measure(PageScan *scan)
{
	scan->page.direct = scan->page.whole || scan->page.pick != NULL;
	scan->page.bytes = 0;
	for (int i = 0; i < scan->page.n && scan->page.direct; i++)
		scan->page.bytes += row_page_room(&scan->page, i);
}

bool
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
	{
		/* the child has checked the first row */
		int			removed = page_scan_filter(scan, 1);

		InstrCountFiltered1(&scan->child->ss.ps, removed);
	}
	heap_look_ahead(&scan->page.ahead, rel, scan->block + 1, heap->rs_nblocks, scan->page.n);

	/* the scan has counted the first row */
	compat_count_heap_rows(rel, n - 1);
	if (scan->child->ss.ps.instrument != NULL)
		InstrUpdateTupleCount(scan->child->ss.ps.instrument, scan->page.n - 1);
	return true;
}

void
page_scan_end(PageScan *scan)
{
	if (!scan->page.whole)
		ExecDropSingleTupleTableSlot(scan->row_slot);
	if (scan->page.pick != NULL)
		row_pick_free(scan->page.pick);
	tuple_walk_free(scan->page.keys.walk);
	ExecDropSingleTupleTableSlot(scan->tuple_slot);
	pfree(scan->atts);
	pfree(scan);
}
