/*
 * radix_finish.h
 *	  The last step of a sort by leading key bits.
 */
#ifndef GPUSORT_RADIX_FINISH_H
#define GPUSORT_RADIX_FINISH_H

#include "kernel/member.h"

/*
 * Sorts n records that are in stable order by the problem's key bits from
 * low_bit upwards, by all key bits.  tmp has room for n records.  The time is
 * linear in n: a comparison per record if few records have equal upper bits.
 * False if stopped.
 */
extern bool radix_finish(Member *m, void *recs, void *tmp, size_t n, int low_bit);

#endif							/* GPUSORT_RADIX_FINISH_H */
