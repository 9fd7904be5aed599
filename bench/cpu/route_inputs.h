/*
 * route_inputs.h
 *	  Synthetic inputs of the router's kernels.
 */
#ifndef GPUSORT_BENCH_ROUTE_INPUTS_H
#define GPUSORT_BENCH_ROUTE_INPUTS_H

#include "cost/cost_internal.h"

typedef enum SampleOrder
{
	SAMPLE_RANDOM,				/* uniform over all key bits */

	/* equidistant and shuffled; distinct if the bits allow */
	SAMPLE_UNIQUE,
	SAMPLE_REPEATED,			/* uniform over 100 random values */
	SAMPLE_SORTED,				/* equidistant, ascending */
	SAMPLE_REVERSED,			/* descending */
	SAMPLE_SWAPPED,				/* ascending, 1 % of neighbours swapped */
	SAMPLE_DISPLACED,			/* ascending, 1 % of keys random */
	SAMPLE_SCATTERED,			/* ascending, 5 % of keys random */
	SAMPLE_RUNS,				/* two ascending runs */
	SAMPLE_FLAT,				/* all equal */
	SAMPLE_ORDERS
} SampleOrder;

extern const char *const sample_order_names[SAMPLE_ORDERS];

/*
 * Fills recs with n records of key_bits bits in sample_format(), rids ascending
 * from 0.  Sets the facts that describe the records.  Equal arguments make equal
 * records.
 */
extern void sample_fill(void *recs, size_t n, int key_bits, SampleOrder order,
						uint64_t seed, RouteFacts *facts);

/* The narrowest record format for keys of key_bits bits. */
extern SortRecFormat sample_format(int key_bits);

/*
 * Checks a sort of the records that sample_fill() makes from the same arguments: each
 * record is one of the input, and (key, rid) ascends strictly.  Then no record is
 * missing, and the sort was stable.
 */
extern bool sample_verify(const void *recs, size_t n, int key_bits,
						  SampleOrder order, uint64_t seed);

#endif							/* GPUSORT_BENCH_ROUTE_INPUTS_H */
