/*
 * computed_scan.c
 *	  Rows of a sequential scan with expressions.
 *
 * Rows are computed one by one, by the scan's own compiled condition and target list in
 * the scan's expression context, or by a program (row_program.c).  The condition and the
 * row of one tuple are computed before the next tuple is looked at, as the scan does, so
 * that volatile functions and errors come in the same order.
 *
 * On error: nothing is held that the child does not hold.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "compat.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "scan/heap_page.h"
#include "scan/scan_internal.h"

/* Memory for the rows that are computed from one heap page. */
#define COMPUTED_BYTES		((Size) 64 * 1024)

ComputedScan *
computed_scan_create(PlanState *ps, const KeyBuffer *keybuf)
{
	SeqScanState *child = (SeqScanState *) ps;
	TupleDesc	desc = ExecGetResultType(ps);
	MemoryContext cxt;
	MemoryContext old;
	ComputedScan *scan;

	if (ps->ps_ProjInfo == NULL || !is_heap_scan(ps))
		return NULL;
	cxt = AllocSetContextCreate(CurrentMemoryContext, "GpuSort computed scan", ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(cxt);
	scan = palloc0(sizeof(ComputedScan));
	row_page_init_stored(&scan->page, desc, keybuf);
	if (scan->page.keys.walk == NULL)
	{
		MemoryContextSwitchTo(old);
		MemoryContextDelete(cxt);
		return NULL;
	}
	scan->child = child;
	scan->cxt = cxt;
	scan->slot = MakeSingleTupleTableSlot(RelationGetDescr(child->ss.ss_currentRelation), &TTSOpsHeapTuple);
	scan->program = row_program_create((const Scan *) ps->plan, RelationGetDescr(child->ss.ss_currentRelation));
	scan->memory = palloc(COMPUTED_BYTES);
	scan->writer = row_writer_create(desc);
	scan->page.stored_slot = MakeSingleTupleTableSlot(desc, &TTSOpsMinimalTuple);
	MemoryContextSwitchTo(old);
	return scan;
}

void
computed_scan_take(ComputedScan *scan)
{
	SeqScanState *child = scan->child;
	HeapScanDesc heap = (HeapScanDesc) child->ss.ss_currentScanDesc;

	scan->n = heap_page_take(heap, scan->tuples, scan->lens, scan->offsets);
	scan->next = 1;
	if (scan->n == 0)
		return;
	scan->block = ItemPointerGetBlockNumber(&child->ss.ss_ScanTupleSlot->tts_tid);
	heap_look_ahead(&scan->ahead, child->ss.ss_currentRelation, scan->block + 1, heap->rs_nblocks, scan->n);
	compat_count_heap_rows(child->ss.ss_currentRelation, scan->n - 1);
}

/* ResetExprContext() without a call if nothing was allocated. */
static inline void
reset_row_memory(ExprContext *econtext)
{
	MemoryContext cxt = econtext->ecxt_per_tuple_memory;

	if (unlikely(!cxt->isReset || cxt->firstchild != NULL))
		MemoryContextReset(cxt);
}

/* Does tuple i satisfy the scan's condition? */
static bool
computed_scan_accepts(ComputedScan *scan, int i)
{
	PlanState  *ps = &scan->child->ss.ps;

	heap_tuple_to_slot(scan->slot, scan->child, scan->block, scan->offsets[i], scan->tuples[i], scan->lens[i]);
	ps->ps_ExprContext->ecxt_scantuple = scan->slot;
	return ps->qual == NULL || ExecQual(ps->qual, ps->ps_ExprContext);
}

/*
 * Computes the page's next row, whose columns are in the arrays until the next call.  False
 * if there is none.
 */
static pg_attribute_always_inline bool
computed_scan_next(ComputedScan *scan, const Datum **values, const bool **isnull)
{
	PlanState  *ps = &scan->child->ss.ps;
	ExprContext *econtext = ps->ps_ExprContext;

	while (scan->next < scan->n)
	{
		int			i = scan->next++;

		CHECK_FOR_INTERRUPTS();
		reset_row_memory(econtext);
		page_ahead_ask(&scan->ahead, i);
		if ((scan->program == NULL || ps->qual != NULL) && !computed_scan_accepts(scan, i))
		{
			InstrCountFiltered1(ps, 1);
			continue;
		}
		if (scan->program != NULL)
		{
			MemoryContext old = MemoryContextSwitchTo(econtext->ecxt_per_tuple_memory);

			row_program_run(scan->program, scan->tuples[i], scan->lens[i], values, isnull);
			MemoryContextSwitchTo(old);
		}
		else
		{
			const TupleTableSlot *row = ExecProject(ps->ps_ProjInfo);

			*values = row->tts_values;
			*isnull = row->tts_isnull;
		}
		return true;
	}
	return false;
}

/* Returns the computed row in the child's slot. */
static TupleTableSlot *
computed_scan_slot(ComputedScan *scan, const Datum *values, const bool *isnull)
{
	TupleTableSlot *slot = scan->child->ss.ps.ps_ProjInfo->pi_state.resultslot;
	int			natts = slot->tts_tupleDescriptor->natts;

	if (values == slot->tts_values)
		return slot;
	ExecClearTuple(slot);
	memcpy(slot->tts_values, values, natts * sizeof(Datum));
	memcpy(slot->tts_isnull, isnull, natts * sizeof(bool));
	return ExecStoreVirtualTuple(slot);
}

int
computed_scan_rows(ComputedScan *scan, TupleTableSlot **single)
{
	RowPage    *page = &scan->page;
	char	   *at = scan->memory;
	const Datum *values;
	const bool *isnull;
	int			rows = 0;

	*single = NULL;
	page->n = 0;
	while (computed_scan_next(scan, &values, &isnull))
	{
		Size		size = row_writer_try(scan->writer, values, isnull, at, scan->memory + COMPUTED_BYTES - at);

		rows++;
		if (unlikely(size == 0 || !row_page_put_stored(page, (MinimalTuple) at)))
		{
			*single = computed_scan_slot(scan, values, isnull);
			break;
		}
		at += size;
	}
	page->bytes = at - scan->memory;
	if (scan->child->ss.ps.instrument != NULL)
		InstrUpdateTupleCount(scan->child->ss.ps.instrument, rows);
	return rows;
}

void
computed_scan_end(ComputedScan *scan)
{
	ExecDropSingleTupleTableSlot(scan->slot);
	ExecDropSingleTupleTableSlot(scan->page.stored_slot);
	MemoryContextDelete(scan->cxt);
}
