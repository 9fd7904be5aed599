/*
 * verify.h
 *	  gpusort.verify: checks of results.
 */
#ifndef GPUSORT_SORT_VERIFY_H
#define GPUSORT_SORT_VERIFY_H

#include "postgres.h"

#include "sort/batch.h"
#include "sort/sort_env.h"

/* What can be wrong with a record or a row. */
#define VERIFY_NOT_FROM_INPUT	"is not one of the input, or comes twice"

/* Raises an error if the packed keys contradict keybuf->input_order. */
extern void verify_input_order(const KeyBuffer *keybuf, const KeyOrder *order);

/*
 * Raises an error unless the result of the problem is in order, stable, and a
 * permutation of the rows of the batch.  layout is the layout of its keys.
 */
extern void verify_problem(const Batch *batch, const KeyLayout *layout, const SortProblem *problem,
						   const char *kernel);

/*
 * The same for row ids that a device has sorted, with ties resolved.  equal_bit: the device
 * has dropped rows whose keys are equal from this bit on; -1: it has all rows.  False, and
 * the reason in why[128], if they are wrong.
 */
extern bool verify_rids(SortEnv *env, const Batch *batch, const KeyLayout *layout,
						const uint32 *rids, size_t n, int equal_bit, char *why);

#endif							/* GPUSORT_SORT_VERIFY_H */
