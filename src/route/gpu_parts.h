/*
 * gpu_parts.h
 *	  What a sort takes whose keys go to devices in parts.
 */
#ifndef GPUSORT_GPU_PARTS_H
#define GPUSORT_GPU_PARTS_H

#include "route/router.h"

/* Predicted microseconds in so many parts on so many devices; as gpu_predict_us() for one job. */
extern double gpu_parts_us(const Algorithm *algorithm, const RouteFacts *facts, int parts,
						   int devices);

#endif							/* GPUSORT_GPU_PARTS_H */
