/*
 * shared_memory.h
 *	  Registry of the extension's shared memory.
 */
#ifndef GPUSORT_SHARED_MEMORY_H
#define GPUSORT_SHARED_MEMORY_H

#include "postgres.h"

typedef struct SharedMemory
{
	const char *name;
	Size		(*size) (void); /* called after all settings are known */
	void		(*start) (void *memory, bool found);	/* found: already
														 * initialized */
	bool		lock;			/* also request the lock
								 * GetNamedLWLockTranche(name) */
} SharedMemory;

/*
 * Registers a part of shared memory; to be called from _PG_init().  *part must stay valid.
 * Does nothing and returns false unless libraries are being preloaded.
 */
extern bool gpusort_shared_memory(const SharedMemory *part);

#endif							/* GPUSORT_SHARED_MEMORY_H */
