/*
 * sqlapi.h
 *	  What the SQL-callable functions share.
 */
#ifndef GPUSORT_SQLAPI_H
#define GPUSORT_SQLAPI_H

#include "kernel/sort_kernel.h"

/*
 * The kernel that a user names, in any case; NULL for "auto".  An unknown name
 * is an error that lists the known ones.
 */
extern const SortKernel *gpusort_kernel_from_name(const char *name);

/* The state of the device service, with the reason where there is none. */
extern const char *gpusort_device_words(void);

#endif							/* GPUSORT_SQLAPI_H */
