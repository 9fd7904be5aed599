/*
 * settings.h
 *	  The configuration parameters of the extension.
 */
#ifndef GPUSORT_SETTINGS_H
#define GPUSORT_SETTINGS_H

#include "postgres.h"

/* gpusort.compress_runs */
typedef enum CompressRuns
{
	COMPRESS_AUTO,
	COMPRESS_ON,
	COMPRESS_OFF
} CompressRuns;

struct Algorithm;				/* kernel/algorithm.h */

extern bool gpusort_enable;
extern bool gpusort_index_builds;
extern int	gpusort_index_builds_min_size;	/* blocks of the table */
extern bool gpusort_plan_grouping;
extern int	gpusort_plan_grouping_min_rows;
extern bool gpusort_windows;
extern bool gpusort_aggregates;
extern bool gpusort_merge_joins;
extern int	gpusort_min_rows;
extern int	gpusort_threads;

/* of all sessions together; -1: max_worker_processes */
extern int	gpusort_max_threads;
extern bool gpusort_verify;
extern int	gpusort_compress_runs;	/* CompressRuns */
extern int	gpusort_run_rows;

/* GPUs and their service */
extern char *gpusort_device;
extern uint64 gpusort_device_mask;	/* a bit per device that may be used */
extern bool gpusort_device_allowed; /* superuser's permission to use GPUs */
extern int	gpusort_device_share;	/* percent of a device per backend */
extern int	gpusort_device_memory;	/* MB on each device; 0: the free memory */
extern bool gpusort_device_learn;
extern int	gpusort_device_idle_blocks; /* seconds; 0: never */
extern int	gpusort_device_idle_context;	/* seconds; 0: never */
extern int	gpusort_staging_memory; /* MB; -1: default if there is a driver */
extern char *gpusort_device_library;
extern int	gpusort_device_patience;	/* ms */
extern int	gpusort_device_timeout; /* ms */

/* Is gpusort.device_library set to another library than the default? */
extern bool gpusort_device_library_set(void);

extern void gpusort_settings_init(void);

/* The forced algorithm; NULL for auto. */
extern const struct Algorithm *gpusort_forced_algorithm(void);

#endif							/* GPUSORT_SETTINGS_H */
