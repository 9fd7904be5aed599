/*
 * report.h
 *	  What happened in a sort, for EXPLAIN and statistics.
 *
 * Written by the engine, and never read by it.
 */
#ifndef GPUSORT_REPORT_H
#define GPUSORT_REPORT_H

#include "postgres.h"

#include "portability/instr_time.h"
#include "route/router.h"

/* A device's share of a sort in parts. */
typedef struct ReportDevice
{
	int			index;			/* CUDA's */
	int			parts;
	uint64		rows;
	double		sort_us;
} ReportDevice;

#define REPORT_DEVICES	16		/* shown, at most */

typedef struct SortReport
{
	uint64		rows;			/* rows that came in */
	uint64		page_rows;		/* of them, straight from their pages */
	Size		memory_peak;	/* bytes */
	uint64		disk_bytes;		/* of the temporary file, peak */
	int			runs;			/* written; 0: sorted in memory */
	int			key_bits;		/* of the last kernel run, after narrowing */
	bool		bounded;
	bool		inserted;		/* each row went to its place in the order at once */
	uint64		ties;			/* rows whose order took a comparison */
	bool		device_failed;	/* the GPU was tried and failed */
	uint64		device_rows;	/* rows that were on the GPU themselves */
	bool		fed;			/* ... and sorted there with other participants' */
	uint64		early_rows;		/* whose keys went there while others came in */
	uint64		bytes_up;		/* to the GPU and back */
	uint64		bytes_down;
	double		device_sort_us; /* of its kernels */
	ReportDevice devices[REPORT_DEVICES];	/* of sorts in parts, in the order of their first */
	int			parts;			/* of keys, or rows, that went in parts */
	int			parts_here;		/* of them, those that the CPU sorted */
	bool		sorted;			/* facts and decision are set */
	RouteFacts	facts;			/* of the last kernel run */
	RouteDecision decision;
	instr_time	ingest_time;	/* the child's time included */
	instr_time	sort_time;		/* kernels, ties, writing and merging runs */
	instr_time	spill_time;		/* of it, writing and merging runs */
	double		predicted_us;	/* kernels' runs for which there was a prediction, */
	instr_time	predicted_time; /* and the time that they took */
	bool		timed;			/* these times are set */
} SortReport;

#endif							/* GPUSORT_REPORT_H */
