/*
 * shared_state.c
 *	  Shared memory of the GPU service: job slots and the staging pool.
 *
 * Memory policy: a machine without a GPU must not pay for one.  With
 * gpusort.device = auto, nothing is reserved unless a GPU driver is present.
 * Nothing is reserved either if the GPU library is not installed.  The pool is
 * cut into chunks of equal size.  A chunk is large, so that the cost of starting
 * a copy is small beside the copy, but a small pool still serves several jobs.
 * Only the device process touches and pins the pool's pages.
 */
#include "postgres.h"

#include <unistd.h>

#include "../cuda/costs_h200.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "service/protocol.h"
#include "service/service.h"
#include "service/service_internal.h"
#include "settings.h"
#include "shared_memory.h"

#define STAGING_DEFAULT_MB	256
#define STAGING_MAX_CHUNK	((Size) 4 * 1024 * 1024)
#define STAGING_MIN_CHUNK	((Size) 64 * 1024)
#define STAGING_CHUNKS		64	/* number of chunks to aim at */
#define STAGING_ALIGN		((Size) 2 * 1024 * 1024)

/* Assumed start time of a device process, until one has reported its own. */
#define START_US			500000

DeviceShared *device_shared = NULL;
LWLock	   *device_lock = NULL;
char	   *device_staging = NULL;

static bool
driver_present(void)
{
	static const char *const signs[] = {
		"/dev/nvidiactl", "/dev/nvidia0", "/proc/driver/nvidia/version", "/dev/dxg"
	};

	for (int i = 0; i < (int) lengthof(signs); i++)
	{
		if (access(signs[i], F_OK) == 0)
			return true;
	}
	return false;
}

void
device_library_path(char *path, size_t size)
{
	const char *name = gpusort_device_library;
	const char *suffix = "";

	if (strlen(name) < strlen(DLSUFFIX) ||
		strcmp(name + strlen(name) - strlen(DLSUFFIX), DLSUFFIX) != 0)
		suffix = DLSUFFIX;
	if (strncmp(name, "$libdir", 7) == 0)
		snprintf(path, size, "%s%s%s", pkglib_path, name + 7, suffix);
	else
		snprintf(path, size, "%s%s", name, suffix);
}

/* Size of the staging pool. */
static Size
staging_bytes(void)
{
	int			mb = gpusort_staging_memory < 0 ? STAGING_DEFAULT_MB : gpusort_staging_memory;

	return (Size) mb * 1024 * 1024;
}

/* Size of a chunk, a multiple of STAGING_MIN_CHUNK. */
static Size
staging_chunk_size(void)
{
	Size		size = staging_bytes() / STAGING_CHUNKS;

	size = Max(STAGING_MIN_CHUNK, Min(size, STAGING_MAX_CHUNK));
	return size & ~(STAGING_MIN_CHUNK - 1);
}

/*
 * Initialises shared memory that is filled with zeros: all slots are free, the service is
 * down.  Zero is the initial value of every atomic word, too, on machines with GPUs.
 */
static void
init_shared(void)
{
	StaticAssertStmt(DEVICE_SLOT_FREE == 0 && DEVICE_SERVICE_DOWN == 0, "zeros are the initial states");
	device_shared->chunk_size = staging_chunk_size();
	device_shared->start_us = START_US;
	device_shared->staging_chunks = (int) (staging_bytes() / staging_chunk_size());
	Assert(device_shared->staging_chunks <= DEVICE_MAX_CHUNKS);
	if (sem_init(&device_shared->wakeup.semaphore, 1, 0) != 0)
		elog(FATAL, "could not create a semaphore: %m");
	for (int i = 0; i < DEVICE_MAX; i++)
		device_shared->devices[i].costs = gpusort_costs_h200;
}

const char *
device_service_lacks(void)
{
	char		path[MAXPGPATH];

	if (strcmp(gpusort_device, "off") == 0 || gpusort_staging_memory == 0)
		return "off";
	if (strcmp(gpusort_device, "auto") == 0 && !gpusort_device_library_set() && !driver_present())
		return "none: no driver";
	device_library_path(path, sizeof(path));
	return access(path, R_OK) == 0 ? NULL : "none: no device library";
}

void
device_shared_init(void)
{
	static const SharedPart shared = {
		.memory = (void **) &device_shared,
		.size = sizeof(DeviceShared),
		.init = init_shared,
		.lock = &device_lock,
		.lock_name = "gpusort_device"
	};
	static const SharedPart pool = {
		.memory = (void **) &device_staging,
		.size_later = staging_bytes,
		.align = STAGING_ALIGN,
		.untouched = true
	};
	static DeviceVariables variables = {&device_shared, &device_staging, &device_lock};

	*find_rendezvous_variable(DEVICE_VARIABLES) = &variables;
	shared_memory_add(&shared);
	shared_memory_add(&pool);
}
