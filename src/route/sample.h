/*
 * sample.h
 *	  Inputs of known shape, for measuring: calibration and the router's bench.
 */
#ifndef GPUSORT_SAMPLE_H
#define GPUSORT_SAMPLE_H

#include "route/router.h"

typedef enum SampleOrder
{
	SAMPLE_RANDOM,				/* uniform over all key bits */
	SAMPLE_UNIQUE,				/* shuffled, evenly spread, none twice if they fit */
	SAMPLE_REPEATED,			/* uniform over 100 values of all key bits */
	SAMPLE_SORTED,				/* ascending, gaps as the key bits allow */
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
 * Fills recs with n records whose keys have key_bits bits, in the format that
 * the node would choose for them (packed up to 32, 64 up to 64, then 128), rids
 * ascending from 0.  Sets every fact that describes them.  The same arguments
 * give the same records.
 */
extern void sample_fill(void *recs, size_t n, int key_bits, SampleOrder order,
						uint64_t seed, RouteFacts *facts);

/* The narrowest format that takes keys of so many bits beside a 32-bit rid. */
extern SortRecFormat sample_format(int key_bits);

/*
 * Checks what a kernel made of sample_fill()'s records, given the same
 * arguments: each record is one of them, and (key, rid) ascends strictly, so
 * all are there and the sort was stable.
 */
extern bool sample_verify(const void *recs, size_t n, int key_bits,
						  SampleOrder order, uint64_t seed);

#endif							/* GPUSORT_SAMPLE_H */
