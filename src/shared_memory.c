/*
 * shared_memory.c
 *	  Registry of the extension's shared memory.
 *
 * Each module registers its part while libraries are preloaded.  One hook requests the
 * memory of all parts, and one hook starts them, in the order of registration.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "shared_memory.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"

#define MAX_PARTS	16

static const SharedMemory *parts[MAX_PARTS];
static int	nparts = 0;

static shmem_request_hook_type prev_shmem_request_hook = NULL;
static shmem_startup_hook_type prev_shmem_startup_hook = NULL;

static void
request_all(void)
{
	if (prev_shmem_request_hook)
		prev_shmem_request_hook();
	for (int i = 0; i < nparts; i++)
	{
		RequestAddinShmemSpace(MAXALIGN(parts[i]->size()));
		if (parts[i]->lock)
			RequestNamedLWLockTranche(parts[i]->name, 1);
	}
}

static void
start_all(void)
{
	if (prev_shmem_startup_hook)
		prev_shmem_startup_hook();
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	for (int i = 0; i < nparts; i++)
	{
		bool		found;
		void	   *memory = ShmemInitStruct(parts[i]->name, parts[i]->size(), &found);

		parts[i]->start(memory, found);
	}
	LWLockRelease(AddinShmemInitLock);
}

bool
gpusort_shared_memory(const SharedMemory *part)
{
	if (!process_shared_preload_libraries_in_progress)
		return false;
	if (nparts == 0)
	{
		prev_shmem_request_hook = shmem_request_hook;
		shmem_request_hook = request_all;
		prev_shmem_startup_hook = shmem_startup_hook;
		shmem_startup_hook = start_all;
	}
	if (nparts == MAX_PARTS)
		elog(FATAL, "gpusort: too many parts of shared memory");
	parts[nparts++] = part;
	return true;
}
