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

extern void gpusort_settings_init(void);

/* The name of the forced algorithm, NULL for auto. */
extern const char *gpusort_forced_algorithm(void);

#endif							/* GPUSORT_SETTINGS_H */
