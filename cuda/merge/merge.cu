/*
 * merge.cu
 *	  gpu_merge: merge sort of tiles that are sorted in shared memory; stable.
 *
 * Satish et al., "Fast sort on CPUs and GPUs" (2010), section 5.3, sort tiles
 * by bitonic networks, merge by networks of 16, and divide the work of the last
 * levels by quantiles.  Chen et al., "A fast and flexible sorting algorithm
 * with CUDA" (2009), section V, cut one list into equal segments and search the
 * cuts in the other.  Here every level is divided along the merge path
 * (merge_block.cuh), which gives all threads equal shares of the output.
 * Threads merge serially, because a network compares more often and is not
 * stable.
 *
 * Keys are only compared.  The time does not depend on their distribution, and
 * on their width only by the bytes moved.  It grows with log2(n): each level
 * reads and writes all keys once.
 *
 * If no key has to move farther than a tile, as in sorted and nearly sorted
 * input, the sorted tiles overlap only at their seams.  The seams are then
 * merged in place, and the levels are skipped.
 *
 * The number of levels is made even, if necessary by tiles of half the size:
 * tiles are sorted into the outputs, and the last level writes there, too.
 *
 * Small inputs do not fill a device; the number of launches and the time of
 * each matter.  Their tiles are smaller.  Up to RANK_MAX keys a launch merges
 * four runs by ranks (merge_rank.cuh); larger ones merge with smaller shares.
 * The host does not wait for seams.  Sorted input is detected by the tiles
 * before they are sorted.
 *
 * Memory: scratch for one more copy of the keys and rids, and for another copy
 * of the keys if they are not an output.
 *
 * Errors: the status of a failed launch or of cancellation.
 */
#include "merge/merge_rank.cuh"

/* Bytes of the kernels' static shared memory, beside the dynamic. */
#define RESERVED_SHARED		1024

/* The arrays of a run. */
template <class K> struct MergeMemory
{
	K		   *keys[2];		/* 0: sorted keys, may be the input; 1:
								 * scratch */
	uint32_t   *rids[2];		/* 0: rids_out; 1: scratch; NULL without rids */
	uint32_t   *overlaps;		/* by tile: overlap at the seam before it; in
								 * small inputs 1 if the tile was out of
								 * order */
	SeamState  *state;
	uint64_t	bytes;			/* size of the scratch memory */
};

/* Tiles and levels of a run; depends on n and the device. */
struct MergeShape
{
	int			threads;		/* threads that sort a tile */
	uint32_t	tile;			/* keys of a tile */
	uint32_t	tiles;			/* number of tiles */
	int			levels;			/* levels of merges of two runs */
};

/* Most keys of a small input. */
template <class K> static constexpr uint64_t
small_max()
{
	return sizeof(K) == 16 ? 1 << 18 : 1 << 19;
}

/* The shape for n keys. */
template <class K> static MergeShape
merge_shape(const DeviceTraits *device, uint64_t n)
{
	MergeShape	shape;
	bool		full = merge_shared<K, TILE_THREADS>() + RESERVED_SHARED <=
		(size_t) device->max_shared;

	if (n <= small_max<K>())
	{
		shape.threads = n <= RANK_MAX_SMALL ? RANK_SMALL_THREADS : RANK_TILE_THREADS;
		shape.tile = n <= RANK_MAX_SMALL ? RANK_SMALL_TILE : RANK_TILE;
		shape.tiles = (uint32_t) div_up(n, shape.tile);
		shape.levels = 0;
		while (UINT64_C(1) << shape.levels < shape.tiles)
			shape.levels++;
		return shape;
	}
	shape.threads = full ? TILE_THREADS : MERGE_THREADS;
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

/* Takes the arrays from scratch; with scratch NULL only computes their size. */
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
	/*
	 * sized for the smallest tiles, so that fewer keys never need more memory
	 */
	memory.overlaps = cutter.take<uint32_t>(problem->n / RANK_SMALL_TILE + 2);
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

/* Bytes of scratch for keys of type K. */
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

/*
 * Merges sorted tiles at their seams if that suffices: *done.  Blocks until the
 * host knows the overlaps.
 */
template <class K> static GpusortStatus
fix_up_seams(SortRun *run, const MergeMemory<K> &memory, const MergeShape &shape, bool *done)
{
	const GpusortProblem *problem = run->problem;
	const volatile uint32_t *readback = run->stream->readback;
	uint32_t	sequence_number = next_sequence_number(run);
	MergeArgs<K> merge = {};

	TRY(clear_device(run, memory.state, sizeof(SeamState)));
	LAUNCH(run, find_overlaps_kernel<K>, div_up(shape.tiles - 1, MERGE_THREADS),
		   MERGE_THREADS, 0, memory.keys[0], (uint32_t) problem->n, shape.tile, shape.tiles,
		   key_bits<K>(problem), memory.overlaps, memory.state, run->stream->readback, sequence_number);
	TRY(wait_for_readback(run, sequence_number));
	*done = readback[MERGE_READBACK_FAR] == 0;
	if (!*done || readback[MERGE_READBACK_OVERLAPS] == 0)
		return GPUSORT_OK;
	merge.keys = memory.keys[0];
	merge.rids = memory.rids[0];
	merge.keys_out = memory.keys[0];
	merge.rids_out = memory.rids[0];
	merge.bits = key_bits<K>(problem);
	merge.n = (uint32_t) problem->n;
	LAUNCH(run, fix_up_seam_kernel<K>, shape.tiles - 1, MERGE_THREADS,
		   (merge_shared<K, MERGE_THREADS>()), merge, shape.tile, memory.overlaps);
	return GPUSORT_OK;
}

/* Launches the sort of the tiles of a large input. */
template <class K, int THREADS> static GpusortStatus
sort_tiles(SortRun *run, const PassArgs<K> &args, uint32_t tiles)
{
	LAUNCH(run, (sort_tile_kernel<K, THREADS>), tiles, THREADS,
		   (merge_shared<K, THREADS>()), args);
	return GPUSORT_OK;
}

/* Launches a level: merges pairs of runs along the merge path. */
template <class K, int ITEMS> static GpusortStatus
merge_along_path(SortRun *run, MergeArgs<K> &args)
{
	uint64_t	pair = args.width * 2;

	args.blocks = (uint32_t) div_up(pair < args.n ? pair : args.n, MERGE_THREADS * ITEMS);
	LAUNCH(run, (merge_runs_kernel<K, ITEMS>), div_up(args.n, pair) * args.blocks,
		   MERGE_THREADS, MERGE_THREADS * ITEMS * (sizeof(K) + sizeof(uint16_t)), args);
	return GPUSORT_OK;
}

/* Launches a merge of WAYS runs each by ranks. */
template <class K, int WAYS> static GpusortStatus
merge_by_ranks(SortRun *run, const RankArgs<K> &args)
{
	LAUNCH(run, (rank_merge_kernel<K, WAYS>), div_up(args.n, RANK_THREADS), RANK_THREADS, 0,
		   args);
	return GPUSORT_OK;
}

/* Launches the sort of the tiles of a small input. */
template <class K, int THREADS, int ITEMS> static GpusortStatus
sort_few_tiles(SortRun *run, const MergeMemory<K> &memory, const PassArgs<K> &tiles)
{
	LAUNCH(run, (rank_tile_kernel<K, THREADS, ITEMS>), div_up(tiles.n, THREADS * ITEMS),
		   THREADS, 0, tiles, memory.overlaps);
	return GPUSORT_OK;
}

/*
 * Sorts a small input, of at most small_max() keys.  Does not wait for the
 * device.
 */
template <class K> static GpusortStatus
sort_few(SortRun *run, const MergeMemory<K> &memory, PassArgs<K> tiles,
		 const MergeShape &shape)
{
	bool		by_ranks = tiles.n <= RANK_MAX;
	int			launches = by_ranks ? (int) div_up(shape.levels, RANK_WAYS_BITS) : shape.levels;
	int			odd = launches % 2;
	RankArgs<K> ranks = {};
	MergeArgs<K> path = {};
	PassArgs<K> &pass = by_ranks ? static_cast<PassArgs<K> &>(ranks) : path;

	tiles.keys_out = launches > 0 || wants_keys(run->problem) ? memory.keys[odd] : NULL;
	tiles.rids_out = memory.rids[odd];
	if (shape.tile == RANK_SMALL_TILE)
		TRY((sort_few_tiles<K, RANK_SMALL_THREADS, RANK_SMALL_ITEMS>(run, memory, tiles)));
	else
		TRY((sort_few_tiles<K, RANK_TILE_THREADS, RANK_TILE_ITEMS>(run, memory, tiles)));
	run->result->passes = 1;
	pass.bits = tiles.bits;
	pass.n = tiles.n;
	path.unsorted = memory.overlaps;
	path.tiles = shape.tiles;
	path.width = shape.tile;
	while (1u << ranks.width_bits < shape.tile)
		ranks.width_bits++;
	for (int left = launches; left > 0; left--)
	{
		pass.keys = memory.keys[left % 2];
		pass.rids = memory.rids[left % 2];
		pass.keys_out = left > 1 || wants_keys(run->problem) ? memory.keys[1 - left % 2] : NULL;
		pass.rids_out = memory.rids[1 - left % 2];
		if (by_ranks)
		{
			/*
			 * the first launch merges 2 runs if the levels are odd, the others
			 * 4
			 */
			int			ways_bits = left == launches ?
				shape.levels - (launches - 1) * RANK_WAYS_BITS : RANK_WAYS_BITS;

			if (ways_bits == 1)
				TRY((merge_by_ranks<K, 2>(run, ranks)));
			else
				TRY((merge_by_ranks<K, 1 << RANK_WAYS_BITS>(run, ranks)));
			ranks.width_bits += ways_bits;
		}
		else
		{
			if (left == 1 && odd)
			{
				path.in_order = path.keys;
				path.rids_in_order = path.rids;
			}
			TRY((merge_along_path<K, few_merge_items<K>()>(run, path)));
			path.width *= 2;
		}
		run->result->passes++;
	}
	return GPUSORT_OK;
}

/* Sorts keys of type K. */
template <class K> static GpusortStatus
run_for(SortRun *run)
{
	const GpusortProblem *problem = run->problem;
	MergeShape	shape = merge_shape<K>(run->device, problem->n);
	MergeMemory<K> memory = cut_memory<K>(problem, shape, problem->scratch);
	PassArgs<K> tiles = {};
	MergeArgs<K> merge = {};
	bool		done = false;

	tiles.keys = static_cast<const K *>(problem->keys);
	tiles.rids = problem->rids;
	tiles.bits = key_bits<K>(problem);
	tiles.n = (uint32_t) problem->n;
	if (problem->n <= small_max<K>())
		return sort_few(run, memory, tiles, shape);
	tiles.keys_out = memory.keys[0];
	tiles.rids_out = memory.rids[0];
	switch (shape.threads)
	{
		case TILE_THREADS:
			TRY((sort_tiles<K, TILE_THREADS>(run, tiles, shape.tiles)));
			break;
		case MERGE_THREADS:
			TRY((sort_tiles<K, MERGE_THREADS>(run, tiles, shape.tiles)));
			break;
		default:
			TRY((sort_tiles<K, MIN_TILE_THREADS>(run, tiles, shape.tiles)));
			break;
	}
	run->result->passes = 1;
	if (shape.levels == 0)
		return GPUSORT_OK;
	TRY(fix_up_seams(run, memory, shape, &done));
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
		TRY((merge_along_path<K, merge_items<K>()>(run, merge)));
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
