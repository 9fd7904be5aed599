/*
 * spillfile.h
 *	  The temporary files of a sort, in extents that are used again.
 */
#ifndef GPUSORT_SPILLFILE_H
#define GPUSORT_SPILLFILE_H

#include "postgres.h"

#include "storage/fd.h"
#include "utils/resowner.h"

typedef struct SpillFile
{
	File	   *segments;
	uint32		nsegments;
	uint32		segment_extents;	/* extents of each */
	ResourceOwner resowner;		/* of all segments */
	Size		extent;			/* bytes, a multiple of BLCKSZ */
	uint32		nextents;		/* the size of all segments */
	uint32	   *free;			/* extents to use again */
	uint32		nfree;
	uint32		free_capacity;
} SpillFile;

struct RunSource;

/* A sequence of bytes in extents, or one that is not here yet. */
typedef struct SpillRun
{
	uint64		bytes;
	uint64		rows;			/* 0: not known, likewise the longest */
	Size		longest;		/* bytes of its longest row */
	struct RunSource *source;	/* where it comes from (run.h); NULL: extents */
	uint32	   *extents;
	uint32		nextents;
	uint32		capacity;
} SpillRun;

/*
 * Begins with no file yet, for a sort that may use so many bytes of memory; in the
 * current memory context and, all files that come, in the current resource owner.
 */
extern SpillFile *spill_open(Size memory);
extern void spill_close(SpillFile *file);

/* Appends size <= extent bytes to a run as an extent of its own. */
extern void spill_write(SpillFile *file, SpillRun *run, const char *data, Size size);

/* Reads the run's i-th extent into buf; returns its length. */
extern Size spill_read(SpillFile *file, const SpillRun *run, uint32 i, char *buf);

/* Takes the run's last extent off it, into buf. */
extern void spill_take_back(SpillFile *file, SpillRun *run, char *buf);

/* The run's i-th extent will not be read again. */
extern void spill_release(SpillFile *file, const SpillRun *run, uint32 i);

#endif							/* GPUSORT_SPILLFILE_H */
