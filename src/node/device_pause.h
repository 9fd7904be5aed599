/*
 * device_pause.h
 *	  Runs of the executor that stop before their plan's end, and may never go on.
 */
#ifndef GPUSORT_DEVICE_PAUSE_H
#define GPUSORT_DEVICE_PAUSE_H

/* Called while libraries are preloaded, where there is a device service. */
extern void device_pause_init(void);

/* May the run under way stop with rows still to come? */
extern bool device_may_pause(void);

#endif							/* GPUSORT_DEVICE_PAUSE_H */
