/*
 * model_store.h
 *	  The file that keeps the model's measured constants.
 */
#ifndef GPUSORT_MODEL_STORE_H
#define GPUSORT_MODEL_STORE_H

#include "route/model.h"

/* Hooks for shared memory; to be called while libraries are preloaded. */
extern void gpusort_model_store_init(void);

/*
 * Makes the model's constants those that gpusort_calibrate() stored last, if it
 * ever ran on this machine.  Called before routing n records: inputs too small
 * for the model return at once, others cost one stat() when nothing changed.
 */
extern void gpusort_model_refresh(size_t n);

/* Tells the constants that this process uses from others, also after a restart; never 0. */
extern uint64 gpusort_model_version(void);

/*
 * Replaces the stored constants; an error if that fails.  Every backend,
 * this one included, takes them up at its next gpusort_model_refresh().
 */
extern void gpusort_model_store(const RouteModel *model);

#endif							/* GPUSORT_MODEL_STORE_H */
