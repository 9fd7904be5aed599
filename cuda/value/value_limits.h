/*
 * value_limits.h
 *	  Limits of the algorithms that count values, which the GPU library and its
 *	  fake device share.  GpusortCosts reports them to the router.
 */
#ifndef GPUSORT_VALUE_LIMITS_H
#define GPUSORT_VALUE_LIMITS_H

/*
 * Number of possible key values that any problem may have, and multiple of n
 * that larger ones may have.
 */
#define GPUSORT_VALUES_ALWAYS	65536
#define GPUSORT_VALUES_PER_KEY	16

/* gpu_onehot: number of keys, and of words of its matrix in shared memory. */
#define GPUSORT_ONEHOT_KEYS		4096
#define GPUSORT_ONEHOT_WORDS	(1u << 15)

#endif							/* GPUSORT_VALUE_LIMITS_H */
