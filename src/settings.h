/*
 * settings.h
 *	  Every GUC of the extension.
 */
#ifndef GPUSORT_SETTINGS_H
#define GPUSORT_SETTINGS_H

#include "postgres.h"

extern bool gpusort_enable;
extern int	gpusort_algorithm;
extern int	gpusort_min_rows;
extern int	gpusort_threads;
extern bool gpusort_verify;

/* the device and its service */
extern char *gpusort_device;
extern uint64 gpusort_device_mask;	/* a bit per device that may be used */
extern int	gpusort_device_memory;	/* MB on each device; 0: what is free */
extern int	gpusort_staging_memory; /* MB; -1: the default where there is a driver */
extern char *gpusort_device_library;
extern int	gpusort_device_fault;	/* a DeviceFault */

/* Is gpusort.device_library not the library that we ship? */
extern bool gpusort_device_library_set(void);

extern void gpusort_settings_init(void);

/* The name of the forced algorithm, NULL for auto. */
extern const char *gpusort_forced_algorithm(void);

#endif							/* GPUSORT_SETTINGS_H */
