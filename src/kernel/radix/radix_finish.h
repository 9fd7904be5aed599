/*
 * radix_finish.h
 *	  The last step of a sort on leading key bits.
 */
#ifndef GPUSORT_RADIX_FINISH_H
#define GPUSORT_RADIX_FINISH_H

#include "kernel/member.h"

/*
 * n records, in order on the problem's key bits from low_bit upwards and stably so:
 * puts them in order on all of them.  tmp is room for n records.  Linear in n,
 * and a comparison per record where few upper bits are equal.  False if the
 * member was stopped.
 */
extern bool radix_finish(Member *m, void *recs, void *tmp, size_t n, int low_bit);

#endif							/* GPUSORT_RADIX_FINISH_H */
