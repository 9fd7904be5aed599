/*
 * shared_memory.h
 *	  Shared memory that the library has when it is preloaded.
 */
#ifndef GPUSORT_SHARED_MEMORY_H
#define GPUSORT_SHARED_MEMORY_H

#include "postgres.h"

typedef struct SharedMemory
{
	const char *name;
	Size		(*size) (void); /* asked when all settings are known */
	void		(*start) (void *memory, bool found);	/* found: it has been filled already */
	bool		lock;			/* with a lock: GetNamedLWLockTranche(name) */
} SharedMemory;

/*
 * For _PG_init: memory that is wanted.  False, and nothing is done, unless the server is
 * starting.
 */
extern bool gpusort_shared_memory(const SharedMemory *wanted);

#endif							/* GPUSORT_SHARED_MEMORY_H */
