/*
 * shared_memory.h
 *	  The extension's segment of shared memory.
 */
#ifndef GPUSORT_SHARED_MEMORY_H
#define GPUSORT_SHARED_MEMORY_H

#include "postgres.h"

#include "storage/lwlock.h"

/*
 * A module's part of the segment.  The pointers are set in each process; they stay NULL
 * in a server that has not preloaded the library.
 */
typedef struct SharedPart
{
	void	  **memory;			/* is set to the part */
	Size		size;			/* 0: size_later() returns it */
	Size		(*size_later) (void);	/* called after all settings are known */
	Size		align;			/* 0: that of a cache line */
	bool		untouched;		/* new memory is not zeroed */
	void		(*init) (void); /* called once, after zeroing; may be NULL */
	LWLock	  **lock;			/* is set to a lock; NULL: none */
	const char *lock_name;		/* the lock's name in pg_stat_activity */
} SharedPart;

/*
 * Adds a part to the segment; to be called from _PG_init().  *part must stay valid.
 * Does nothing unless libraries are being preloaded.
 */
extern void shared_memory_add(const SharedPart *part);

#endif							/* GPUSORT_SHARED_MEMORY_H */
