/*
 * gpu_absent.c
 *	  The empty list of GPU algorithms, for a build without nvcc.
 */
#include "bench_algorithm.h"

const BenchAlgorithm *const bench_gpu_algorithms[] = {NULL};
