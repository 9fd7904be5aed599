/*
 * input.c
 *	  How rows of the child reach the sorter: by slot, or by heap page.
 */
#include "postgres.h"

#include "access/heapam.h"
#include "compat.h"
#include "executor/executor.h"
#include "executor/executor_internal.h"
#include "executor/heap_page.h"
#include "miscadmin.h"
#include "monitor/stat.h"
#include "pgstat.h"

/* Rows, or pages, between two looks at whether anybody still wants them. */
#define ROWS_PER_LOOK	256

static void page_source_begin(PageSource *source);
static RowPage *page_source_take(PageSource *source, const KeyBuffer *keybuf, MemoryContext cxt);
static ScanRows *scan_rows_create(PlanState *ps);
static void scan_rows_take(ScanRows *rows);
static TupleTableSlot *scan_rows_next(ScanRows *rows);
static void scan_rows_end(ScanRows *rows);

void
sort_node_take_rows(Sorter *sorter, PlanState *outer, PageSource *pages, pg_atomic_uint32 *stop)
{
	MemoryContext cxt = outer->state->es_query_cxt;

	page_source_begin(pages);
	for (uint64 i = 1;; i++)
	{
		TupleTableSlot *slot = page_source_next(pages);
		RowPage    *page;
		bool		kept;

		if (slot != NULL)
		{
			if (unlikely(!sorter_put_page_row(sorter, slot)))
				break;
			continue;
		}
		slot = ExecProcNode(outer);
		if (TupIsNull(slot))
			break;
		page = !pages->possible ? NULL : page_source_take(pages, sorter_key_buffer(sorter), cxt);
		if (page != NULL)
			kept = sorter_put_page(sorter, page);
		else
			kept = sorter_put(sorter, slot);
		if (unlikely(!kept))
			break;
		if (i % ROWS_PER_LOOK == 0 && stop != NULL && pg_atomic_read_u32(stop) != 0)
			break;
	}
}

/* The Limit reports errors. */
size_t
sort_node_bound(ExprContext *econtext, ExprState *limit_count, ExprState *limit_offset)
{
	int64		count;
	int64		offset = 0;
	Datum		value;
	bool		isnull;

	if (limit_count == NULL)
		return 0;
	value = ExecEvalExprSwitchContext(limit_count, econtext, &isnull);
	if (isnull)
		return 0;
	count = DatumGetInt64(value);
	if (limit_offset != NULL)
	{
		value = ExecEvalExprSwitchContext(limit_offset, econtext, &isnull);
		offset = isnull ? 0 : DatumGetInt64(value);
	}
	if (count < 0 || offset < 0 || count > PG_INT32_MAX || offset > PG_INT32_MAX)
		return 0;
	/* a LIMIT 0 does not ask for rows at all; if it did, one would do */
	return Max(1, (size_t) (count + offset));
}

void
sort_node_count(const SortReport *report)
{
	SortCount	count = {0};

	if (report->sorted)
	{
		count.algorithm = report->decision.algorithm;
		/* a failure of the device has been counted when it happened */
		if (report->decision.forced_why_not != NULL && !report->device_failed)
			count.passed_over = report->facts.forced;
	}
	count.rows = report->rows;
	count.spilled = report->runs > 0;
	count.bytes = count.spilled ? report->disk_bytes : report->memory_peak;
	count.timed = report->timed;
	if (count.timed)
	{
		count.ingest_us = INSTR_TIME_GET_MICROSEC(report->ingest_time);
		count.spill_us = INSTR_TIME_GET_MICROSEC(report->spill_time);
		count.sort_us = INSTR_TIME_GET_MICROSEC(report->sort_time) - count.spill_us;
		count.predicted_us = report->predicted_us;
		count.measured_us = INSTR_TIME_GET_MICROSEC(report->predicted_time);
	}
	gpusort_stat_count(&count);
}

/* ------------------------------------------------------------------------
 * A sequential scan's rows, a page at a time.
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
 * ------------------------------------------------------------------------
 */

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
page_scan_create(PlanState *ps, const KeyBuffer *keybuf)
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
		page_keys_init(&scan->page.keys, keybuf, desc, scan->atts);
		scan->page.nkeys = keybuf->ncols;
		scan->page.key_walk = tuple_walk_create(desc, scan->page.keys.att, keybuf->ncols, false);
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

/* The plan is about to give its first row, perhaps once more: what is left of a page is of no use to this run. */
static void
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

/*
 * The plan has just given out a row: takes that row and those after it on its
 * page.  The plan's next row is the next page's first.  The rows stay where they
 * are until then.  NULL if the row has to be taken by itself.  Memory is taken
 * from cxt; stage has the sort's key columns.
 */
static RowPage *
page_source_take(PageSource *source, const KeyBuffer *keybuf, MemoryContext cxt)
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
		source->scan = page_scan_create(giver, keybuf);
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

/* ------------------------------------------------------------------------
 * A sequential scan's rows where it computes them from its tuples.
 *
 * What page_scan.c does for rows of columns alone, for those that have expressions:
 * the scan is asked for the first row of every page, and the others are computed here
 * from the page's tuples, by the scan's own compiled condition and target list in its
 * own expression context.  A tuple's condition and expressions are evaluated before
 * the next tuple's, as the scan does, so that volatile functions and errors come in
 * the same order.
 *
 * On error: nothing is held that the scan does not hold.
 * ------------------------------------------------------------------------
 */

/* For a scan of a heap that computes its rows; NULL for any other plan. */
static ScanRows *
scan_rows_create(PlanState *ps)
{
	SeqScanState *child = (SeqScanState *) ps;
	ScanRows   *rows;

	if (!IsA(ps, SeqScanState) || ps->ps_ProjInfo == NULL || ps->state->es_epq_active != NULL ||
		child->ss.ss_currentRelation->rd_tableam != GetHeapamTableAmRoutine())
		return NULL;
	rows = palloc0(sizeof(ScanRows));
	rows->child = child;
	rows->slot = MakeSingleTupleTableSlot(RelationGetDescr(child->ss.ss_currentRelation),
										  &TTSOpsHeapTuple);
	return rows;
}

/* The scan has just given out a row: takes the tuples after it on its page. */
static void
scan_rows_take(ScanRows *rows)
{
	SeqScanState *child = rows->child;

	rows->n = heap_page_take((HeapScanDesc) child->ss.ss_currentScanDesc, rows->tuples,
							 rows->lens, rows->offsets);
	rows->next = 1;
	if (rows->n == 0)
		return;
	rows->block = ItemPointerGetBlockNumber(&child->ss.ss_ScanTupleSlot->tts_tid);
	heap_page_look_ahead((HeapScanDesc) child->ss.ss_currentScanDesc, child->ss.ss_currentRelation,
						 rows->n, &rows->ahead);
	compat_count_heap_rows(child->ss.ss_currentRelation, rows->n - 1);
}

/* Tuple i, in rows->slot. */
static void
scan_tuple_to_slot(ScanRows *rows, int i)
{
	HeapTuple	tuple = &((HeapTupleTableSlot *) rows->slot)->tupdata;

	tuple->t_len = rows->lens[i];
	tuple->t_data = rows->tuples[i];
	tuple->t_tableOid = RelationGetRelid(rows->child->ss.ss_currentRelation);
	ItemPointerSet(&tuple->t_self, rows->block, rows->offsets[i]);
	ExecStoreHeapTuple(tuple, rows->slot, false);
}

/* The scan's next row, until the next call; NULL: it is not on that page. */
static TupleTableSlot *
scan_rows_next(ScanRows *rows)
{
	PlanState  *ps = &rows->child->ss.ps;
	ExprContext *econtext = ps->ps_ExprContext;

	while (rows->next < rows->n)
	{
		CHECK_FOR_INTERRUPTS();
		ResetExprContext(econtext);
		page_ahead_ask(&rows->ahead, rows->next);
		scan_tuple_to_slot(rows, rows->next++);
		econtext->ecxt_scantuple = rows->slot;
		if (ps->qual == NULL || ExecQual(ps->qual, econtext))
		{
			if (ps->instrument != NULL)
				InstrUpdateTupleCount(ps->instrument, 1);
			return ExecProject(ps->ps_ProjInfo);
		}
		InstrCountFiltered1(ps, 1);
	}
	return NULL;
}

static void
scan_rows_end(ScanRows *rows)
{
	ExecDropSingleTupleTableSlot(rows->slot);
	pfree(rows);
}
