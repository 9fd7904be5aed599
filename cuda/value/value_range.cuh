/*
 * value_range.cuh
 *	  Keys as numbers 0 .. range - 1, for the sorts that index by them.
 *
 * The range is that of the caller's facts or, without them, that of the ordering
 * bits.  A key outside of a range that the caller vouched for is counted as the
 * range's last value: the result is wrong then, but memory stays whole.
 */
#ifndef GPUSORT_VALUE_RANGE_CUH
#define GPUSORT_VALUE_RANGE_CUH

#include "key.cuh"
#include "value/value_limits.h"

/* Number of values of the problem's keys; 0 if it is unknown, or over 2^32 - 1. */
static inline uint64_t
value_range(const GpusortProblem *problem)
{
	int			width = problem->end_bit - problem->begin_bit;

	if (problem->facts & GPUSORT_FACT_KEY_RANGE)
	{
		Key128		least = narrow_key<Key128>(problem->key_min);
		Key128		most = narrow_key<Key128>(problem->key_max);

		return most >= least && most - least < UINT32_MAX
			? (uint64_t) (most - least) + 1 : 0;
	}
	return width < 32 ? UINT64_C(1) << width : 0;
}

/* NULL if indexing by the keys' values makes sense, else why not. */
static inline const char *
why_not_by_value(const GpusortProblem *problem)
{
	uint64_t	range = value_range(problem);

	if (problem->n > UINT32_MAX)
		return "more than 2^32 - 1 rows";
	if (range == 0)
		return "the keys' range is unknown or too large";
	if (range > GPUSORT_VALUES_ALWAYS && range / GPUSORT_VALUES_PER_KEY > problem->n)
		return "the keys' range is too large for so few rows";
	return NULL;
}

/* Do the ordering bits make up the whole key, so that it can be made from them? */
static inline bool
keys_are_values(const GpusortProblem *problem)
{
	return problem->begin_bit == 0 && problem->end_bit == problem->key_width;
}

/* Keys to values. */
template <class K> struct ValueMap
{
	KeyBits<K>	bits;
	K			least;
	uint32_t	last;			/* range - 1 */

	__device__ __forceinline__ uint32_t operator() (K key) const
	{
		K			v = bits(key) - least;

		return v > last ? last : (uint32_t) v;
	}
};

template <class K> static ValueMap<K>
value_map(const GpusortProblem *problem)
{
	ValueMap<K> map;

	map.bits = key_bits<K>(problem);
	map.least = problem->facts & GPUSORT_FACT_KEY_RANGE ? narrow_key<K>(problem->key_min) : K(0);
	map.last = (uint32_t) (value_range(problem) - 1);
	return map;
}

#endif							/* GPUSORT_VALUE_RANGE_CUH */
