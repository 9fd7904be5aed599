/*
 * value_limits.h
 *	  What the sorts by value take; for the library and its fake device.
 */
#ifndef GPUSORT_VALUE_LIMITS_H
#define GPUSORT_VALUE_LIMITS_H

/* Any input may have this many values; larger ones this many times n. */
#define GPUSORT_VALUES_ALWAYS	65536
#define GPUSORT_VALUES_PER_KEY	16

/* gpu_onehot: keys, and words of shared memory. */
#define GPUSORT_ONEHOT_KEYS		4096
#define GPUSORT_ONEHOT_WORDS	(1u << 15)

#endif							/* GPUSORT_VALUE_LIMITS_H */
