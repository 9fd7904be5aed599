/*
 * sort_count.c
 *	  Counts a sort for the view gpusort_stat.
 */
#include "postgres.h"

#include "monitor/stat.h"
#include "nodes/base/sort_count.h"

void
sort_node_count(const SortReport *report)
{
	SortStatCount count = {.sorts = 1,.rows = report->rows,.spills = report->runs > 0,.timed = report->timed};

	/* a device failure was counted when it happened */
	if (report->sorted && report->decision.forced_why_not != NULL && !report->device.failed)
		gpusort_stat_fallback(report->facts.forced);
	count.bytes = report->runs > 0 ? report->disk_bytes : report->memory_peak;
	if (report->timed)
	{
		count.ingest_us = INSTR_TIME_GET_MICROSEC(report->ingest_time);
		count.spill_us = INSTR_TIME_GET_MICROSEC(report->spill_time);
		count.sort_us = Max(INSTR_TIME_GET_MICROSEC(report->sort_time), count.spill_us) - count.spill_us;
		count.predicted_us = (uint64) report->predicted_us;
		count.measured_us = INSTR_TIME_GET_MICROSEC(report->predicted_time);
	}
	gpusort_stat_add(report->sorted ? report->decision.algorithm : NULL, &count);
}
