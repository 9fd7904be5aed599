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
	SortCount	count = {0};

	if (report->sorted)
	{
		count.algorithm = report->decision.algorithm;
		/* a device failure was counted when it happened */
		if (report->decision.forced_why_not != NULL && !report->device.failed)
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
