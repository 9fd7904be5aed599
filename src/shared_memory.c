/*
 * shared_memory.c
 *	  Shared memory that the library has when it is preloaded.
 *
 * What the parts of the library want is asked for, and made, in the order in which they
 * said so.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "shared_memory.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"

#define MAX_WANTED	16

static const SharedMemory *all_wanted[MAX_WANTED];
static int	nwanted = 0;

static shmem_request_hook_type prev_shmem_request_hook = NULL;
static shmem_startup_hook_type prev_shmem_startup_hook = NULL;

static void
request_all(void)
{
	if (prev_shmem_request_hook)
		prev_shmem_request_hook();
	for (int i = 0; i < nwanted; i++)
	{
		RequestAddinShmemSpace(MAXALIGN(all_wanted[i]->size()));
		if (all_wanted[i]->lock)
			RequestNamedLWLockTranche(all_wanted[i]->name, 1);
	}
}

static void
start_all(void)
{
	if (prev_shmem_startup_hook)
		prev_shmem_startup_hook();
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	for (int i = 0; i < nwanted; i++)
	{
		bool		found;
		void	   *memory = ShmemInitStruct(all_wanted[i]->name, all_wanted[i]->size(), &found);

		all_wanted[i]->start(memory, found);
	}
	LWLockRelease(AddinShmemInitLock);
}

bool
gpusort_shared_memory(const SharedMemory *wanted)
{
	if (!process_shared_preload_libraries_in_progress)
		return false;
	if (nwanted == 0)
	{
		prev_shmem_request_hook = shmem_request_hook;
		shmem_request_hook = request_all;
		prev_shmem_startup_hook = shmem_startup_hook;
		shmem_startup_hook = start_all;
	}
	if (nwanted == MAX_WANTED)
		elog(FATAL, "gpusort: too many parts of shared memory");
	all_wanted[nwanted++] = wanted;
	return true;
}
