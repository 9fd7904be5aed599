/*
 * process_cache.c
 *	  A place for what the driver compiles.
 *
 * The GPU library has machine code for the architectures that it was built for, and
 * code from which a driver makes that of any later one.  That takes up to a minute, so the
 * driver keeps what it has made, but by default below the home directory of the
 * server's user, which often is not there or cannot be written to: then each process
 * would compile anew.  So the place is a directory in the data directory, unless
 * who started the server has set another.  What lies there is the driver's; it may be
 * deleted at any time.
 *
 * On error: the process goes on without, and says so in the server's log.
 */
#include "postgres.h"

#include <stdlib.h>
#include <unistd.h>

#include "common/file_perm.h"
#include "device/service/service.h"
#include "miscadmin.h"
#include "storage/fd.h"

#define CACHE_DIRECTORY		"gpusort.cache"

/* All of our kernels for a few architectures; the driver drops what was used least lately. */
#define CACHE_MAX_BYTES		"268435456"

void
device_process_keep_code(void)
{
	char		path[MAXPGPATH];

	if (getenv("CUDA_CACHE_PATH") != NULL)
		return;
	/* the driver may look from elsewhere */
	snprintf(path, sizeof(path), "%s/" CACHE_DIRECTORY, DataDir);
	if ((MakePGDirectory(path) != 0 && errno != EEXIST) ||
		setenv("CUDA_CACHE_PATH", path, 1) != 0 ||
		setenv("CUDA_CACHE_MAXSIZE", CACHE_MAX_BYTES, 0) != 0)
		device_process_notes(-1, "gpusort: compiled GPU code is not kept in \"%s\": %s", path, strerror(errno));
}
