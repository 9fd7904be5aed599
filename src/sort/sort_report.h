/*
 * sort_report.h
 *	  What EXPLAIN and statistics show of a sort.
 */
#ifndef GPUSORT_SORT_SORT_REPORT_H
#define GPUSORT_SORT_SORT_REPORT_H

#include "postgres.h"

#include "cost/cost.h"
#include "portability/instr_time.h"

/* One device's share of a sort in parts. */
typedef struct ReportDevice
{
	int			index;			/* CUDA device number */
	int			parts;
	uint64		rows;
	double		sort_us;
} ReportDevice;

/* Devices shown at most. */
#define REPORT_DEVICES	16

/* What EXPLAIN and statistics show of a sort.  The engine writes it and does not read it. */
typedef struct SortReport
{
	uint64		rows;			/* input rows */
	uint64		page_rows;		/* input rows taken from heap pages directly */
	Size		memory_peak;	/* bytes */
	uint64		disk_bytes;		/* peak size of the temporary file */
	int			runs;			/* runs written; 0: sorted in memory */
	bool		key_runs;		/* these have keys without rows */
	bool		over_limit;		/* a run would have exceeded temp_file_limit */
	int			key_bits;		/* narrowed key width of the last kernel */
	bool		bounded;
	int			cutoff_pages;	/* last pages that gave an early cutoff */
	uint64		ties;			/* rows whose order took a comparison */
	bool		distinct;		/* duplicates were dropped */
	uint64		dropped_in_batches; /* duplicates within a batch */
	uint64		dropped_in_merges;	/* duplicates in runs that were merged */
	uint64		dropped_on_device;	/* duplicates that a GPU dropped */
	struct
	{
		bool		failed;		/* a GPU was used and failed */
		int			batches;	/* batches whose keys a GPU has sorted */
		uint64		rows;		/* rows that were moved to a GPU */
		bool		one_job;	/* sorted in one GPU job of all participants */
		uint64		bytes_up;	/* bytes sent to the GPU */
		uint64		bytes_down; /* bytes received from the GPU */
		double		sort_us;	/* time of the GPU kernels */
		ReportDevice used[REPORT_DEVICES];	/* by first use; sorts in parts */
	}			device;
	int			parts;			/* parts of a sort in parts */
	bool		sorted;			/* facts and decision are set */
	RouteFacts	facts;			/* facts of the last kernel run */
	RouteDecision decision;		/* decision for the last kernel run */
	instr_time	ingest_time;	/* taking rows in, including the child's time */
	instr_time	sort_time;		/* kernels, ties, writing and merging runs */
	instr_time	spill_time;		/* part of sort_time: writing and merging runs */
	double		predicted_us;	/* prediction for kernels that have one */
	instr_time	predicted_time; /* real time of the same kernel runs */
	bool		timed;			/* the times are set */
} SortReport;

#endif							/* GPUSORT_SORT_SORT_REPORT_H */
