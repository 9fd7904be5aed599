/*
 * merge.cu
 *	  gpu_merge: tiles sorted in shared memory, then merged pair by pair, stable.
 *
 * Satish et al., "Fast sort on CPUs and GPUs" (2010), section 5.3, sort tiles by
 * bitonic networks, merge in networks of 16, and share out the last levels by
 * quantiles; Chen et al., "A fast and flexible sorting algorithm with CUDA"
 * (2009), section V, cut one list in equal segments and search the cuts in the
 * other.  Here every level is shared out along the merge path
 * (merge_block.cuh), which gives equal shares of both lists at once, and threads
 * merge serially: a network does more comparisons, and is not stable.
 *
 * Keys are only compared, so the time does not depend on how they are
 * distributed, nor on their width by more than the bytes; but it grows
 * with the logarithm of n: one reading and writing per level.
 *
 * Input that is in order, or so nearly that no key has to move farther than a tile,
 * takes one reading and writing: where the sorted tiles overlap only
 * at their seams, the seams are merged where they are.
 *
 * The number of levels is made even (by tiles of half the size), so that the
 * tiles are sorted into the outputs and the last level ends there too.  Input that
 * one tile holds gets the smallest that does: a tile's time grows with its size.
 *
 * Memory: one more copy of keys and rids in scratch, another of the keys if they
 * are not wanted as output.
 *
 * Errors: nothing but a status; outputs are undefined then.
 */
#include "merge/merge_block.cuh"

/* Room for the kernels' static shared memory beside the dynamic. */
#define RESERVED_SHARED		1024

template <class K> struct MergeMemory
{
	K		   *keys[2];		/* 0: the output or what stands for it */
	uint32_t   *rids[2];
	uint32_t   *overlaps;		/* by tile: at the seam before it */
	SeamState  *state;
	uint64_t	bytes;
};

struct MergeShape
{
	int			threads;		/* that sort a tile */
	uint32_t	tile;
	uint32_t	tiles;
	int			levels;
};

template <class K> static MergeShape
merge_shape(const DeviceTraits *device, uint64_t n)
{
	MergeShape	shape;
	bool		full = merge_shared<K, TILE_THREADS>() + RESERVED_SHARED <=
		(size_t) device->max_shared;

	shape.threads = n <= LEAST_TILE_THREADS * merge_items<K>() ? LEAST_TILE_THREADS :
		n <= merge_share<K>() || !full ? MERGE_THREADS : TILE_THREADS;
	for (;; shape.threads /= 2)
	{
		shape.tile = shape.threads * merge_items<K>();
		shape.tiles = (uint32_t) div_up(n, shape.tile);
		shape.levels = 0;
		while (UINT64_C(1) << shape.levels < shape.tiles)
			shape.levels++;
		if (shape.levels % 2 == 0)
			return shape;
	}
}

template <class K> static MergeMemory<K>
cut_memory(const GpusortProblem *problem, const MergeShape &shape, void *scratch)
{
	MergeMemory<K> memory = {};
	ScratchCutter cutter(scratch);

	if (shape.levels > 0)
	{
		memory.keys[1] = cutter.take<K>(problem->n);
		memory.rids[1] = wants_rids(problem) ? cutter.take<uint32_t>(problem->n) : NULL;
	}
	memory.keys[0] = take_sorted_keys<K>(problem, &cutter);
	memory.rids[0] = wants_rids(problem) ? problem->rids_out : NULL;
	/* for the smallest tiles, so that fewer keys never need more */
	memory.overlaps = cutter.take<uint32_t>(problem->n / (LEAST_TILE_THREADS * merge_items<K>()) + 2);
	memory.state = cutter.take<SeamState>(1);
	memory.bytes = cutter.used;
	return memory;
}

static const char *
why_not(const DeviceTraits *device, const GpusortProblem *problem)
{
	if (problem->n > UINT32_MAX)
		return "more than 2^32 - 1 rows";
	if ((size_t) device->max_shared < merge_shared<uint64_t, MERGE_THREADS>() +
		RESERVED_SHARED)
		return "the device's shared memory is too small";
	return NULL;
}

template <class K> static uint64_t
scratch_for(const DeviceTraits *device, const GpusortProblem *problem)
{
	return cut_memory<K>(problem, merge_shape<K>(device, problem->n), NULL).bytes;
}

static uint64_t
scratch(const DeviceTraits *device, const GpusortProblem *problem)
{
	return for_key_width(problem->key_width, [&] (auto key)
						 {
							 return scratch_for<decltype(key)>(device, problem);
						 });
}

/* Tries to finish sorted tiles at their seams; *done says whether that was all. */
template <class K> static GpusortStatus
mend_seams(SortRun *run, const MergeMemory<K> &memory, const MergeShape &shape, bool *done)
{
	const GpusortProblem *problem = run->problem;
	const volatile uint32_t *mailbox = run->stream->mailbox;
	uint32_t	ticket = next_ticket(run);
	MergeArgs<K> merge = {};

	TRY(clear_device(run, memory.state, sizeof(SeamState)));
	LAUNCH(run, look_at_seams_kernel<K>, div_up(shape.tiles - 1, MERGE_THREADS),
		   MERGE_THREADS, 0, memory.keys[0], (uint32_t) problem->n, shape.tile, shape.tiles,
		   key_bits<K>(problem), memory.overlaps, memory.state, run->stream->mailbox, ticket);
	TRY(wait_for_mail(run, ticket));
	*done = mailbox[MERGE_MAIL_FAR] == 0;
	if (!*done || mailbox[MERGE_MAIL_OVERLAPS] == 0)
		return GPUSORT_OK;
	merge.keys = memory.keys[0];
	merge.rids = memory.rids[0];
	merge.keys_out = memory.keys[0];
	merge.rids_out = memory.rids[0];
	merge.bits = key_bits<K>(problem);
	merge.n = (uint32_t) problem->n;
	LAUNCH(run, mend_seam_kernel<K>, shape.tiles - 1, MERGE_THREADS,
		   (merge_shared<K, MERGE_THREADS>()), merge, shape.tile, memory.overlaps);
	return GPUSORT_OK;
}

template <class K, int THREADS> static GpusortStatus
sort_tiles(SortRun *run, const TileArgs<K> &args, uint32_t tiles)
{
	LAUNCH(run, (sort_tile_kernel<K, THREADS>), tiles, THREADS,
		   (merge_shared<K, THREADS>()), args);
	return GPUSORT_OK;
}

template <class K> static GpusortStatus
run_for(SortRun *run)
{
	const GpusortProblem *problem = run->problem;
	MergeShape	shape = merge_shape<K>(run->device, problem->n);
	MergeMemory<K> memory = cut_memory<K>(problem, shape, problem->scratch);
	TileArgs<K> tiles = {};
	MergeArgs<K> merge = {};
	bool		done = false;

	tiles.keys = static_cast<const K *>(problem->keys);
	tiles.rids = problem->rids;
	tiles.keys_out = memory.keys[0];
	tiles.rids_out = memory.rids[0];
	tiles.bits = key_bits<K>(problem);
	tiles.n = (uint32_t) problem->n;
	switch (shape.threads)
	{
		case TILE_THREADS:
			TRY((sort_tiles<K, TILE_THREADS>(run, tiles, shape.tiles)));
			break;
		case MERGE_THREADS:
			TRY((sort_tiles<K, MERGE_THREADS>(run, tiles, shape.tiles)));
			break;
		default:
			TRY((sort_tiles<K, LEAST_TILE_THREADS>(run, tiles, shape.tiles)));
			break;
	}
	run->result->passes = 1;
	if (shape.levels == 0)
		return GPUSORT_OK;
	TRY(mend_seams(run, memory, shape, &done));
	if (done)
		return GPUSORT_OK;
	merge.bits = tiles.bits;
	merge.n = tiles.n;
	merge.width = shape.tile;
	for (int level = 0; level < shape.levels; level++)
	{
		merge.keys = memory.keys[level % 2];
		merge.rids = memory.rids[level % 2];
		merge.keys_out = level < shape.levels - 1 || wants_keys(problem)
			? memory.keys[1 - level % 2] : NULL;
		merge.rids_out = memory.rids[1 - level % 2];
		LAUNCH(run, merge_runs_kernel<K>, div_up(problem->n, merge_share<K>()), MERGE_THREADS,
			   (merge_shared<K, MERGE_THREADS>()), merge);
		merge.width *= 2;
		run->result->passes++;
	}
	return GPUSORT_OK;
}

static GpusortStatus
run(SortRun *run)
{
	return for_key_width(run->problem->key_width, [&] (auto key)
						 {
							 return run_for<decltype(key)>(run);
						 });
}

const SortAlgorithm gpu_merge_algorithm = {
	{
		"gpu_merge",
		GPUSORT_KEYS_32 | GPUSORT_KEYS_64 | GPUSORT_KEYS_128,
		1,
		1
	},
	why_not,
	scratch,
	run
};
