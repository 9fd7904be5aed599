/*
 * verify.h
 *	  gpusort.verify: is a kernel's result right?
 */
#ifndef GPUSORT_VERIFY_H
#define GPUSORT_VERIFY_H

#include "node/sorter.h"

/*
 * Raises an error that says what was found unless the job's result is in order,
 * stable, and a permutation of the staged rows.
 */
extern void verify_result(Sorter *sorter, const SortJob *job, const char *kernel);

#endif							/* GPUSORT_VERIFY_H */
