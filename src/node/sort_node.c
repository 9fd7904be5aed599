/*
 * sort_node.c
 *	  What nodes that sort have in common: rows in, a LIMIT's bound, counters.
 */
#include "postgres.h"

#include "executor/executor.h"
#include "node/sort_node.h"
#include "stat.h"

/* Rows, or pages, between two looks at whether anybody still wants them. */
#define ROWS_PER_LOOK	256

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
		page = !pages->possible ? NULL : page_source_take(pages, sorter_stage(sorter), cxt);
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
