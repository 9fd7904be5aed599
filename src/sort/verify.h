/*
 * verify.h
 *	  gpusort.verify: is a kernel's result right?
 */
#ifndef GPUSORT_VERIFY_H
#define GPUSORT_VERIFY_H

#include "sort/sorter.h"

/*
 * Raises an error that says what was found unless the job's result is in order,
 * stable, and a permutation of the staged rows.
 */
extern void verify_result(Sorter *sorter, const SortJob *job, const char *kernel);

/*
 * The same for rids that a device has sorted, and settled ties; false, and the
 * reason in why[128], if they are wrong.
 */
extern bool verify_rids(Sorter *sorter, const KeyLayout *layout,
						const uint32 *rids, size_t n, char *why);

#endif							/* GPUSORT_VERIFY_H */
