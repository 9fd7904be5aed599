/*
 * common_range.h
 *	  Common key range: makes the keys of two sorts comparable.
 *
 * Normalized keys of two sorts of the same columns do not compare, because strings
 * follow different prefixes (bytes.h).  A common key range is made from the ranges and
 * prefixes of both sorts.  Each sort then makes its keys again, relative to it.
 *
 * Plain data without pointers, because it passes between processes.
 */
#ifndef GPUSORT_KEY_COMMON_RANGE_H
#define GPUSORT_KEY_COMMON_RANGE_H

#include "postgres.h"

#include "key/key_buffer.h"

typedef struct CommonKeyRange
{
	KeyRange	ranges[KEY_MAX_COLUMNS];
	BytesPrefix prefixes[KEY_MAX_COLUMNS];	/* of string columns */
} CommonKeyRange;

/* Completes a sort's own ranges, which common_range has, by its key buffer's prefixes. */
extern void common_range_of_keys(CommonKeyRange *common_range, const KeyBuffer *keybuf);

#endif							/* GPUSORT_KEY_COMMON_RANGE_H */
