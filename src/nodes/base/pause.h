/*
 * pause.h
 *	  Executor runs that may stop before the end of their plan.
 */
#ifndef GPUSORT_NODES_BASE_PAUSE_H
#define GPUSORT_NODES_BASE_PAUSE_H

#include "postgres.h"


/* May the current executor run stop before the end of its plan? */
extern bool device_may_pause(void);

/* Installs the hook.  Only called where the library is preloaded. */
extern void device_pause_init(void);

#endif							/* GPUSORT_NODES_BASE_PAUSE_H */
