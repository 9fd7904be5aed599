/*
 * scan_rows.c
 *	  A sequential scan's rows where it computes them from its tuples.
 *
 * What page_scan.c does for rows of columns alone, for those that have expressions:
 * the scan is asked for the first row of every page, and the others are computed here
 * from the page's tuples, by the scan's own compiled condition and target list in its
 * own expression context.  A tuple's condition and expressions are evaluated before
 * the next tuple's, as the scan does, so that volatile functions and errors come in
 * the same order.
 *
 * On error: nothing is held that the scan does not hold.
 */
#include "postgres.h"

#include "access/heapam.h"
#include "compat.h"
#include "miscadmin.h"
#include "node/scan/heap_page.h"
#include "node/scan/scan_rows.h"

ScanRows *
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

void
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
tuple_to_slot(ScanRows *rows, int i)
{
	HeapTuple	tuple = &((HeapTupleTableSlot *) rows->slot)->tupdata;

	tuple->t_len = rows->lens[i];
	tuple->t_data = rows->tuples[i];
	tuple->t_tableOid = RelationGetRelid(rows->child->ss.ss_currentRelation);
	ItemPointerSet(&tuple->t_self, rows->block, rows->offsets[i]);
	ExecStoreHeapTuple(tuple, rows->slot, false);
}

TupleTableSlot *
scan_rows_next(ScanRows *rows)
{
	PlanState  *ps = &rows->child->ss.ps;
	ExprContext *econtext = ps->ps_ExprContext;

	while (rows->next < rows->n)
	{
		CHECK_FOR_INTERRUPTS();
		ResetExprContext(econtext);
		page_ahead_ask(&rows->ahead, rows->next);
		tuple_to_slot(rows, rows->next++);
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

void
scan_rows_end(ScanRows *rows)
{
	ExecDropSingleTupleTableSlot(rows->slot);
	pfree(rows);
}
