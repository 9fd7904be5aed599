/*
 * sqlapi.h
 *	  What the SQL-callable functions share.
 */
#ifndef GPUSORT_SQLAPI_H
#define GPUSORT_SQLAPI_H

#include "kernel/algorithm.h"

/*
 * The algorithm that a user names, in any case; NULL for "auto".  An unknown name
 * is an error that lists the known ones.
 */
extern const Algorithm *gpusort_algorithm_from_name(const char *name);

/* The state of the device service, with the reason where there is none. */
extern const char *gpusort_device_words(void);

#endif							/* GPUSORT_SQLAPI_H */
