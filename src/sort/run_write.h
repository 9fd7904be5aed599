/*
 * run_write.h
 *	  Writes a row to a run, for loops over rows.
 */
#ifndef GPUSORT_SORT_RUN_WRITE_H
#define GPUSORT_SORT_RUN_WRITE_H

#include "postgres.h"

#include "sort/run.h"

/* Writes a row. */
static inline void
run_writer_row(RunWriter *writer, MinimalTuple row)
{
	SpillRun   *run = writer->run;
	Size		size = MAXALIGN(row->t_len);

	if (run->coded)
	{
		const char *coded = (const char *) row;

		run_writer_coded_rows(writer, &coded, 1);
		return;
	}
	run->rows++;
	run->row_bytes += size;
	run->longest = Max(run->longest, size);
	if (likely(size < writer->file->write - writer->used))
	{
		memcpy(writer->buf + writer->used, row, size);
		writer->used += size;
	}
	else
		run_writer_bytes(writer, row, size);
}

#endif							/* GPUSORT_SORT_RUN_WRITE_H */
