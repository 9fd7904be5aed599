/*
 * participant.h
 *	  What one participant of a parallel sort reports to the leader.
 *
 * Plain data without pointers, for it passes between processes.
 */
#ifndef GPUSORT_PARTICIPANT_H
#define GPUSORT_PARTICIPANT_H

#include "postgres.h"

#include "route/router.h"

typedef struct ParticipantReport
{
	bool		valid;			/* the rest is set */
	bool		spilled;
	uint64		rows;
	uint64		page_rows;
	int64		space_kb;		/* on disk if spilled, otherwise in memory */
	int64		peak_kb;		/* of memory */
	double		ingest_ms;
	double		sort_ms;
	char		method[64];
	char		route[ROUTE_REASON_SIZE + 128];
} ParticipantReport;

#endif							/* GPUSORT_PARTICIPANT_H */
