/*
 * bucket.cu
 *	  gpu_bucket: bucket sort.  Divides keys into buckets that fit shared
 *	  memory and sorts each there.
 *
 * Chen, Qin, Xie, Zhao, He, "A fast and flexible sorting algorithm with CUDA"
 * (2009): keys are counted by slices of equal width between the least and the
 * greatest key; neighbouring slices are joined to buckets that fit a
 * multiprocessor's shared memory; each bucket is sorted there; a bucket that is
 * too large is divided again.  Differences:
 *
 *	- If a sample shows that slices of equal width would get skewed counts,
 *	  quantiles of the sample divide the range, and frequent values are divided
 *	  by rid (quantile_map.cuh).
 *	- One pass counts the keys of up to 98304 buckets, so that none need be
 *	  joined.  Keys move to the buckets in one pass, or in two (coarse bucket,
 *	  fine bucket) where one pass would write short runs.
 *	- Small inputs are sorted by sample sort (sample_sort.cuh), in two or three
 *	  launches and with any distribution: up to 2^18 keys, and skewed ones of 64
 *	  and 128 bits up to 2^20.
 *	- A bucket that is too large is divided again by splitters from a sample of
 *	  its keys, not by slices (bucket_rounds.cuh).
 *	- A bucket is sorted by bins with about one key each, not by a bitonic
 *	  network (block_sort.cuh).
 *	- The rid decides between equal keys.  The result is therefore stable,
 *	  although the moves are not.  If the problem's rids do not ascend,
 *	  positions take their place, and the rids are looked up at the end.
 *	- Input in ascending or strictly descending order is detected while keys are
 *	  counted, and nearly sorted input is sorted in place (bucket_pieces.cuh).
 *	  Chen's remedy for the latter, another order of threads, is not necessary:
 *	  counters are in shared memory, and a warp adds to a common one once.
 *
 * A key of any width is read once to be counted, and read and written two or
 * three times.  A radix sort moves a 64-bit key eight times.
 *
 * Memory: scratch for one more copy of the keys and rids, for another copy of
 * the keys if they are not an output, and 14 bytes for each of at most 98304
 * buckets.  Later rounds may take about a twentieth of the input more.  Sample
 * sort takes 16 or 24 bytes per key if that is more.
 *
 * Errors: the status of a failed launch or of cancellation.
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
