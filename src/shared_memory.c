/*
 * shared_memory.c
 *	  The extension's segment of shared memory.
 *
 * Modules add their parts while libraries are preloaded.  One hook requests the
 * segment, and one hook allocates it and hands out its parts in the order of their
 * addition.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "shared_memory.h"
#include "storage/ipc.h"
#include "storage/shmem.h"

#define SEGMENT_NAME	"gpusort"
#define MAX_PARTS		16

static const SharedPart *parts[MAX_PARTS];
static int	nparts = 0;

static shmem_request_hook_type prev_shmem_request_hook = NULL;
static shmem_startup_hook_type prev_shmem_startup_hook = NULL;

static Size
part_size(const SharedPart *part)
{
	return part->size > 0 ? part->size : part->size_later();
}

static Size
part_align(const SharedPart *part)
{
	return Max(part->align, PG_CACHE_LINE_SIZE);
}

static Size
segment_size(void)
{
	Size		size = 0;

	for (int i = 0; i < nparts; i++)
		size = add_size(size, add_size(part_size(parts[i]), part_align(parts[i])));
	return size;
}

static void
request_segment(void)
{
	if (prev_shmem_request_hook)
		prev_shmem_request_hook();
	RequestAddinShmemSpace(segment_size());
	for (int i = 0; i < nparts; i++)
	{
		if (parts[i]->lock != NULL)
			RequestNamedLWLockTranche(parts[i]->lock_name, 1);
	}
}

static void
start_segment(void)
{
	bool		found;
	char	   *next;

	if (prev_shmem_startup_hook)
		prev_shmem_startup_hook();
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	next = ShmemInitStruct(SEGMENT_NAME, segment_size(), &found);
	for (int i = 0; i < nparts; i++)
	{
		const SharedPart *part = parts[i];

		next = (char *) TYPEALIGN(part_align(part), next);
		*part->memory = next;
		next += part_size(part);
		if (part->lock != NULL)
			*part->lock = &GetNamedLWLockTranche(part->lock_name)->lock;
		if (found)
			continue;
		if (!part->untouched)
			memset(*part->memory, 0, part_size(part));
		if (part->init != NULL)
			part->init();
	}
	LWLockRelease(AddinShmemInitLock);
}

void
shared_memory_add(const SharedPart *part)
{
	if (!process_shared_preload_libraries_in_progress)
		return;
	if (nparts == 0)
	{
		prev_shmem_request_hook = shmem_request_hook;
		shmem_request_hook = request_segment;
		prev_shmem_startup_hook = shmem_startup_hook;
		shmem_startup_hook = start_segment;
	}
	if (nparts == MAX_PARTS)
		elog(FATAL, "gpusort: too many parts of shared memory");
	parts[nparts++] = part;
}
