/*
 * model_store.h
 *	  The file that keeps the model's measured constants.
 */
#ifndef GPUSORT_MODEL_STORE_H
#define GPUSORT_MODEL_STORE_H

#include "route/model.h"

/*
 * Replaces the stored constants; an error if that fails.  Every backend,
 * this one included, takes them up at its next gpusort_model_refresh().
 */
extern void gpusort_model_store(const RouteModel *model);

#endif							/* GPUSORT_MODEL_STORE_H */
