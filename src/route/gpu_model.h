/*
 * gpu_model.h
 *	  How long the GPU route of a sort will take, and the names of its algorithms.
 */
#ifndef GPUSORT_GPU_MODEL_H
#define GPUSORT_GPU_MODEL_H

#include "kernel/sort_kernel.h"

/* Inputs below this never go to a GPU unless forced; not worth the question. */
#define GPU_MIN_ROWS	50000

/*
 * Predicted microseconds of a key-mode sort: n keys of key_width bits (32, 64,
 * 128) and rids go up, rids (and keys, if they are wanted) come down.
 */
extern double gpu_predict_us(size_t n, int key_width, bool want_keys);

/*
 * A GPU algorithm as the router's decisions name it: name, needs and paper only,
 * it cannot be called.  NULL if the name is not that of a GPU algorithm.
 */
extern const SortKernel *gpu_route_kernel(const char *name);

/* All of them, ended by one without a name. */
extern const SortKernel *gpu_route_kernels(void);

#endif							/* GPUSORT_GPU_MODEL_H */
