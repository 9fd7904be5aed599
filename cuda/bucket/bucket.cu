/*
 * bucket.cu
 *	  gpu_bucket: buckets until they fit shared memory, then a sort of each there.
 *
 * Chen, Qin, Xie, Zhao, He, "A fast and flexible sorting algorithm with CUDA"
 * (2009): slices of equal width between the least and the greatest key are
 * counted, joined to buckets that fit one multiprocessor's shared memory, and
 * sorted there; a bucket that is too large goes round again.  Differences:
 *
 *	- Where a sample falls in a skewed way into slices of equal width, the range is cut at
 *	  its quantiles first, and values that are frequent in it are sliced by rid
 *	  (quantile_map.cuh).
 *	- The counts of up to 98304 buckets come from one pass over the keys, so that
 *	  buckets need no joining; keys move to them in one pass, or in two
 *	  (coarse bucket, fine bucket) where one would write runs too short.
 *	- Up to a quarter million keys, or a million that are skewed, positions are scattered by the
 *	  splitters of a sample into buckets that are merged (bucket_flat.cuh): no launch but
 *	  two, and no distribution that is slow.
 *	- A bucket that is too large goes round again with splitters from a sample
 *	  of its own instead of slices (bucket_rounds.cuh).
 *	- Inside a bucket the same idea is applied once more, with a bin for every
 *	  key, instead of a bitonic network (block_sort.cuh).
 *	- The rid decides between equal keys, so the result is stable although no
 *	  move is.  Where rids are given that do not ascend, positions take their
 *	  place and the rids are looked up at the end.
 *	- Input in order, or in strictly falling order, is noticed while counting, and
 *	  input nearly in order is sorted where it lies (bucket_pieces.cuh).  Chen's
 *	  remedy for the latter, another order of threads, is not needed: counters are
 *	  in shared memory and a warp adds to a common one once.
 *
 * Whatever the width of the key, it is read once to count, and read and
 * written two or three times; an LSD radix sort moves a 64-bit key eight times.
 *
 * Memory: one more copy of keys and rids in scratch, another of the keys if
 * they are not wanted as output, and 14 bytes for each of at most 98304
 * buckets.  Later rounds may need about a twentieth of the input more.  Up to a million keys,
 * 16 or 24 bytes a key if that is more.
 *
 * Errors: nothing but a status; outputs are undefined then.
 */
#include "bucket/bucket.cuh"
#include "key.cuh"

static const char *
why_not(const DeviceTraits *device, const GpusortProblem *problem)
{
	bool		fits = for_key_width(problem->key_width, [&] (auto key)
									 {
										 return bucket_fits<decltype(key)>(device);
									 });

	if (problem->n > UINT32_MAX)
		return "more than 2^32 - 1 rows";
	return fits ? NULL : "the device's shared memory is too small";
}

static uint64_t
scratch(const DeviceTraits *device, const GpusortProblem *problem)
{
	return for_key_width(problem->key_width, [&] (auto key)
						 {
							 return bucket_scratch<decltype(key)>(device, problem);
						 });
}

static GpusortStatus
run(SortRun *run)
{
	return for_key_width(run->problem->key_width, [&] (auto key)
						 {
							 return bucket_run<decltype(key)>(run);
						 });
}

const SortAlgorithm gpu_bucket_algorithm = {
	{
		"gpu_bucket",
		GPUSORT_KEYS_32 | GPUSORT_KEYS_64 | GPUSORT_KEYS_128,
		1,
		1
	},
	why_not,
	scratch,
	run
};
