/*
 * verify.h
 *	  gpusort.verify: is a kernel's result right?
 */
#ifndef GPUSORT_VERIFY_H
#define GPUSORT_VERIFY_H

#include "key/pack.h"
#include "sort/batch.h"
#include "sort/sort_env.h"

/* What a record, or a row, may be found to be. */
#define VERIFY_NOT_FROM_INPUT	"is not one of the input, or comes twice"

/* Raises an error if the rows' packed keys are not in the order in which they were seen to come. */
extern void verify_arrival(const Stage *stage, const KeyOrder *order);

/*
 * Raises an error that says what was found unless the problem's result is in order,
 * stable, and a permutation of the batch's rows, whose keys have this layout.
 */
extern void verify_problem(const Batch *batch, const KeyLayout *layout, const SortProblem *problem,
						   const char *kernel);

/*
 * The same for rids that a device has sorted, and settled ties; false, and the
 * reason in why[128], if they are wrong.
 */
extern bool verify_rids(SortEnv *env, const Batch *batch, const KeyLayout *layout,
						const uint32 *rids, size_t n, char *why);

#endif							/* GPUSORT_VERIFY_H */
