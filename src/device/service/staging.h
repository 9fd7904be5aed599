/*
 * staging.h
 *	  Shared memory of the device service: job slots and the staging pool.
 */
#ifndef GPUSORT_STAGING_H
#define GPUSORT_STAGING_H

#include "device/protocol.h"

/* Called while libraries are preloaded: is a service wanted, and are its parts there? */
extern bool device_staging_wanted(void);

/* Then: requests its shared memory. */
extern void device_staging_init(void);

/* Does this machine seem to have a GPU driver?  Asks the file system only. */
extern bool device_driver_present(void);

/* The file that gpusort.device_library means, and whether it is there. */
extern void device_library_path(char *path, size_t size);
extern bool device_library_present(void);

#endif							/* GPUSORT_STAGING_H */
