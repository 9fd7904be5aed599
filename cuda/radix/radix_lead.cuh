/*
 * radix_lead.cuh
 *	  Radix sort by leading digits only: the choice of the digits from a
 *	  sample, and the fix-up pass that orders keys with equal leading digits.
 *
 * A radix pass moves every key whether or not its digit decides anything.
 * log2(n) + 8 leading bits distinguish nearly all of n uniform keys, however
 * wide the keys are.  So the kernel estimates from a sample how many leading
 * bits suffice, the passes sort by those digits, and the fix-up pass reads the
 * keys once more: it orders each run of neighbours with equal leading digits
 * whose keys are out of order.
 *
 * Estimate (radix_lead_kernel, one block, before the digits are counted).  The
 * sample is sorted.  A pair is two neighbours of the sorted sample that differ.
 *
 *	* Let f(b) be the number of pairs that agree in the first b bits.  f falls
 *	  about exponentially with b.  Extrapolate f from the sample to n keys, and
 *	  take the smallest b that leaves LEAD_SHARE of the keys to the fix-up pass.
 *	* Values that occur once in the sample tell how many more distinct values
 *	  n keys have.  If there are none, the sample has seen all values, and
 *	  the pair with the longest common prefix decides.
 *	* Frequent values make runs too long for the fix-up pass.  Such a run is
 *	  in order if it has no second value; b is chosen so that a second value
 *	  is improbable.
 *	* Clusters of many values make such runs, too.  The size of the largest
 *	  cluster with b common bits is extrapolated likewise, to the b where it
 *	  is short enough.
 *
 * Fix-up pass (radix_fix_up_kernel, in place, a block per part of the keys).  A
 * block loads its part and a margin of LEAD_RUN keys on both sides into shared
 * memory, as bitmaps of the keys that start a run and of the keys that are less
 * than their predecessor in the run (a descent).  In a run with a descent each
 * key counts the keys before it and moves there with its rid.  A run belongs to
 * the block in whose part it starts.  Another block may read keys of that run
 * meanwhile; it uses only their leading digits, which the fix-up pass does not
 * change.
 *
 * A run longer than LEAD_RUN with a descent is not changed but reported.  The
 * host then sorts by all digits.  That sort is still stable, since equal keys
 * were never exchanged: a wrong estimate costs only time.
 *
 * Memory: RadixState.  Errors: none; the result is a flag in the readback
 * words.
 */
#ifndef GPUSORT_RADIX_LEAD_CUH
#define GPUSORT_RADIX_LEAD_CUH

#include "block/pair_sort.cuh"
#include "launch_bounds.cuh"
#include "radix/radix_pass.cuh"

#define LEAD_THREADS		1024
#define LEAD_ITEMS			2	/* keys of the sample per thread */
#define LEAD_SAMPLES		(LEAD_THREADS * LEAD_ITEMS)
#define LEAD_WARPS			(LEAD_THREADS / 32)

/*
 * Maximal number of keys of a run that the fix-up pass orders; a multiple of
 * 32.
 */
#define LEAD_RUN			256

/*
 * A value that occurs LEAD_FREQUENT times in the sample makes a run over
 * LEAD_RUN.
 */
#define LEAD_FREQUENT			4

/*
 * Aims of the estimate: the share of keys that the fix-up pass may have to
 * move, and the probability that a long run contains a second value.  Moving
 * one key in eight takes less time than a further pass.
 */
#define LEAD_SHARE			0.125f
#define LEAD_RISK			0.1f

/*
 * Clusters: the least number of sampled values that counts as one; the growth
 * factor between the two cluster sizes from which the fall is computed; and a
 * safety factor on the extrapolated size.
 */
#define LEAD_CLUSTER		16
#define LEAD_CLUSTER_FALL	8
#define LEAD_CLUSTER_MARGIN	1.5f

/* Bits added to those that distinguish uniform keys, as a margin. */
#define LEAD_MARGIN_BITS		3

/*
 * Bits added where the sample has seen all values: rare values may be closer.
 */
#define LEAD_RARE_BITS		4

/*
 * Least number of passes saved, and of digits of the keys: the sample, the
 * fix-up pass and the wait for its result take about as long as two passes.
 */
#define LEAD_MIN_SAVED		2
#define LEAD_MIN_DIGITS		4

/* Least n * (bytes of a key)^2: below, a pass is faster than the estimate. */
#ifndef LEAD_MIN_SIZE
#define LEAD_MIN_SIZE		(UINT64_C(1) << 26)
#endif

/* Threads of the fix-up pass. */
#define FIX_UP_THREADS		512

/* Number of keys of a block's part. */
template <class K> __host__ __device__ constexpr uint32_t
fix_up_part()
{
	return sizeof(K) == 16 ? 2048 : 4096;
}

/* Number of keys that a block loads: its part and a margin on both sides. */
template <class K> __host__ __device__ constexpr uint32_t
fix_up_area()
{
	return fix_up_part<K>() + 2 * LEAD_RUN;
}

/* Can leading digits save time for n keys of that many digits? */
template <class K> static bool
may_sort_by_lead(uint64_t n, int digits)
{
	return digits >= LEAD_MIN_DIGITS && n >= 2 * LEAD_SAMPLES &&
		n * sizeof(K) * sizeof(K) >= LEAD_MIN_SIZE;
}

/* Numbers of values in the sample. */
struct LeadValues
{
	int			distinct;		/* distinct values */
	int			single;			/* values that occur once */
	int			frequent;		/* values that occur LEAD_FREQUENT times or
								 * more */
};

/* Entry of shared_bits[] for neighbours with the same value. */
#define LEAD_SAME			0xff

/*
 * Index of sample number at in shared_bits[].  Each lane reads LEAD_SAMPLES /
 * 32 successive samples; this layout puts them in different words for all
 * lanes.
 */
__device__ __forceinline__ uint32_t
shared_bits_at(uint32_t at)
{
	return at % (LEAD_SAMPLES / 32) * 32 + at / (LEAD_SAMPLES / 32);
}

/*
 * The largest number of distinct values in the sorted sample that have the
 * first bits bits in common.  Called by one warp; every lane gets it.
 * shared_bits: for each sample the number of leading bits in common with the
 * previous one.
 */
__device__ __forceinline__ uint32_t
largest_cluster(const uint8_t *shared_bits, uint32_t bits)
{
	uint32_t	lane = threadIdx.x % 32;
	uint32_t	before = 0,		/* pairs from the lane's first sample to the
								 * first cluster's end */
				most = 0,		/* pairs of the largest cluster */
				since = 0;		/* pairs of the cluster that is still open */
	bool		ended = false;	/* has a cluster ended in the lane's samples? */

	for (uint32_t i = 0; i < LEAD_SAMPLES / 32; i++)
	{
		uint32_t	shared = shared_bits[shared_bits_at(lane * (LEAD_SAMPLES / 32) + i)];

		if (shared >= bits)
			since += shared != LEAD_SAME;
		else
		{
			before = ended ? before : since;
			ended = true;
			most = max(most, since);
			since = 0;
		}
	}
	before = ended ? before : since;
	for (uint32_t l = 0, run = 0; l < 32; l++)
	{
		uint32_t	its_since = __shfl_sync(0xffffffffu, since, l);

		run += __shfl_sync(0xffffffffu, before, l);
		most = max(most, run);
		if (__shfl_sync(0xffffffffu, (uint32_t) ended, l))
			run = its_since;
	}
	/*
	 * most covers clusters across lanes in all lanes, those inside in one lane
	 */
	for (int step = 16; step > 0; step /= 2)
		most = max(most, __shfl_xor_sync(0xffffffffu, most, step));
	return most + 1;
}

/*
 * Number of leading bits by which no cluster makes a run longer than LEAD_RUN.
 * clusters[i]: largest number of sampled values with the first (i + 1) /
 * LEAD_WARPS of the width bits in common.
 */
__device__ __forceinline__ float
cluster_bits(const uint32_t *clusters, uint32_t distinct, uint32_t n, int width)
{
	float		part = (float) width / LEAD_WARPS;
	float		keys;
	float		fall;
	int			deep = LEAD_WARPS;
	int			shallow;

	while (deep > 0 && clusters[deep - 1] < LEAD_CLUSTER)
		deep--;
	if (deep == 0)
		return 0;
	shallow = deep - 1;
	while (shallow > 0 && clusters[shallow - 1] < LEAD_CLUSTER_FALL * clusters[deep - 1])
		shallow--;
	/* expected keys of the deepest cluster among n, in runs of LEAD_RUN */
	keys = LEAD_CLUSTER_MARGIN / LEAD_RUN * clusters[deep - 1] * ((float) n / LEAD_SAMPLES);
	fall = log2f((float) (shallow > 0 ? clusters[shallow - 1] : distinct) / clusters[deep - 1]) /
		((deep - shallow) * part);
	return deep * part + max(log2f(keys), 0.0f) / min(max(fall, 0.05f), 1.0f);
}

/*
 * Number of leading bits that distinguish nearly all of n keys.  alike[b]:
 * number of pairs in the sample that agree in their first b bits.  beyond(x):
 * the least b with alike[b] <= x; all threads of the block call it.
 */
template <class Beyond> __device__ __forceinline__ float
leading_bits(const LeadValues &values, uint32_t n, const uint32_t *alike, Beyond beyond)
{
	float		scale = (float) n / LEAD_SAMPLES;
	/* upper bound of (distinct values of all keys) / values.distinct */
	float		growth = 1 + (float) values.single / values.distinct * scale;
	float		pairs = (float) (values.distinct - 1);
	float		long_runs = 2.0f * values.frequent + (values.distinct - values.single - values.frequent) *
		max(1.0f, scale / LEAD_RUN);
	float		wanted = LEAD_SHARE * n;
	int			deep = beyond(pairs <= 64 ? 1.0f : 8.0f);
	float		deep_pairs = max((float) alike[deep], 1.0f);
	float		bits;

	/* pairs among all keys that the aims allow, then the same for the sample */
	if (long_runs > 0)
		wanted = min(wanted, LEAD_RISK / 2 * values.distinct * growth / long_runs);
	wanted /= growth * growth;
	if (values.single == 0)
		return (float) (beyond(0.0f) + LEAD_RARE_BITS);
	if (wanted >= deep_pairs)
		bits = (float) beyond(wanted);
	else
	{
		int			shallow = beyond(max(pairs / 16, 8 * deep_pairs));
		float		halvings = max(log2f(max((float) alike[shallow], 1.0f) / deep_pairs), 0.5f);
		float		slope = max((deep - shallow) / halvings, 1.0f);

		bits = deep + slope * log2f(deep_pairs / wanted);
	}
	return max(bits, beyond(pairs / 2) + log2f(growth) + LEAD_MARGIN_BITS);
}

/* Estimates the digits to sort by; sets state->cut.  One block. */
template <class K>
__global__ void __launch_bounds__(LEAD_THREADS)
radix_lead_kernel(const K *keys, uint32_t n, KeyBits<K> bits, int width, RadixState *state)
{
	__shared__ __align__(16) unsigned char memory[pair_room_bytes<K>(LEAD_SAMPLES)];
	__shared__ uint32_t alike[LEAD_THREADS];	/* by number of common bits */
	__shared__ uint32_t room[LEAD_WARPS];
	__shared__ uint32_t differ;

	const PairRoom<K> sample(memory, LEAD_SAMPLES);
	uint8_t    *shared_bits = memory;	/* reuses the sample's memory */
	uint8_t		mine_shared[LEAD_ITEMS];
	Pair<K>		mine[LEAD_ITEMS];
	LeadValues	values = {0, 0, 0};
	int			bit = width - 1 - (int) threadIdx.x;
	uint32_t	pairs,
				total;

#pragma unroll
	for (int i = 0; i < LEAD_ITEMS; i++)
		mine[i] = make_pair<K>(bits(keys[sample_position(i * LEAD_THREADS + threadIdx.x,
														 LEAD_SAMPLES, n)]), 0);
	alike[threadIdx.x] = 0;
	if (threadIdx.x == 0)
		differ = 0;
	block_sort_sample<K, LEAD_THREADS, LEAD_ITEMS>(mine, sample);
	__syncthreads();
#pragma unroll
	for (int i = 0; i < LEAD_ITEMS; i++)
		sample.put(threadIdx.x * LEAD_ITEMS + i, mine[i]);
	__syncthreads();
#pragma unroll
	for (int i = 0; i < LEAD_ITEMS; i++)
	{
		uint32_t	at = threadIdx.x * LEAD_ITEMS + i;
		K			v = mine[i].value;
		K			difference = at > 0 ? v ^ sample.get(at - 1).value : 0;
		bool		first = at == 0 || difference != 0;
		bool		single = first && (at + 1 >= LEAD_SAMPLES || sample.get(at + 1).value != v);
		bool		frequent = first && at + LEAD_FREQUENT <= LEAD_SAMPLES &&
			sample.get(at + LEAD_FREQUENT - 1).value == v;

		mine_shared[i] = at == 0 ? 0 : difference == 0 ? LEAD_SAME :
			(uint8_t) (width - 1 - highest_bit(difference));
		if (difference != 0)
		{
			uint32_t	digits = 0;

			for (int digit = 0; digit * RADIX_BITS < width; digit++)
				digits |= (uint32_t) (radix_digit(difference, digit * RADIX_BITS) != 0) << digit;
			if (digits & ~*(volatile uint32_t *) &differ)
				atomicOr(&differ, digits);
			atomicAdd(&alike[mine_shared[i]], 1);
		}
		values.distinct += __syncthreads_count(first);
		values.single += __syncthreads_count(single);
		values.frequent += __syncthreads_count(frequent);
	}

	/*
	 * pairs with exactly that many common bits become pairs with at least as
	 * many
	 */
	pairs = bit >= 0 ? alike[bit] : 0;
	pairs += block_exclusive_sum<LEAD_THREADS>(pairs, room, &total);
	__syncthreads();
	if (bit >= 0)
		alike[bit] = pairs;
	__syncthreads();

	auto		beyond = [&] (float most)
	{
		return __syncthreads_count(bit >= 0 && (float) pairs > most);
	};

	if (values.distinct > 1)
	{
		float		enough = leading_bits(values, n, alike, beyond);
		uint32_t	cut;

		if (values.single > 0)
		{
#pragma unroll
			for (int i = 0; i < LEAD_ITEMS; i++)
				shared_bits[shared_bits_at(threadIdx.x * LEAD_ITEMS + i)] = mine_shared[i];
			__syncthreads();
			total = largest_cluster(shared_bits, (threadIdx.x / 32 + 1) * width / LEAD_WARPS);
			if (threadIdx.x % 32 == 0)
				room[threadIdx.x / 32] = total;
			__syncthreads();
			enough = max(enough, cluster_bits(room, values.distinct, n, width));
		}
		cut = enough < width ? (uint32_t) (width - (int) ceilf(enough)) / RADIX_BITS : 0;
		if (threadIdx.x == 0 && __popc(differ & ((1u << cut) - 1)) >= LEAD_MIN_SAVED)
			state->cut = cut;
	}
}

/*
 * Index of the run's first key: the last bit set in starts[] at or before at.
 * Looks back by at least LEAD_RUN keys, at most to the start of that word.
 */
__device__ __forceinline__ uint32_t
run_start(const uint32_t *starts, uint32_t at)
{
	uint32_t	word = at / 32;
	uint32_t	found = starts[word] & (~0u >> (31 - at % 32));

	while (found == 0 && word > at / 32 - LEAD_RUN / 32)
		found = starts[--word];
	return word * 32 + (found ? highest_bit(found) : 0);
}

/*
 * Index behind the run's last key: the first bit set in starts[] behind at.
 * Looks ahead by at least LEAD_RUN keys, at most to the end of that word.
 */
__device__ __forceinline__ uint32_t
run_end(const uint32_t *starts, uint32_t at, uint32_t area)
{
	uint32_t	word = (at + 1) / 32;
	uint32_t	most = min((at + 1) / 32 + LEAD_RUN / 32, area / 32);
	uint32_t	found = starts[word] & (~0u << (at + 1) % 32);

	while (found == 0 && word < most)
		found = starts[++word];
	return word * 32 + (found ? __ffs(found) - 1 : 31);
}

/* Arguments of the fix-up pass. */
template <class K> struct FixUpArgs
{
	K		   *keys;			/* n keys, sorted by their leading digits */
	uint32_t   *rids;			/* their rids, or NULL */
	K			all;			/* mask of the ordering bits in a key */
	K			lead;			/* mask of the leading digits in a key */
	uint32_t	n;
	RadixState *state;
	uint32_t   *readback;		/* the stream's readback words */
	uint32_t	sequence_number;	/* written when all blocks are done */
};

/* Orders runs of equal leading digits; a block per part of the keys. */
template <class K>
__global__ void __launch_bounds__(FIX_UP_THREADS, RESIDENT_BLOCKS(FIX_UP_THREADS, 3))
radix_fix_up_kernel(const FixUpArgs<K> args)
{
	constexpr uint32_t AREA = fix_up_area<K>();
	/* end of the block's part */
	constexpr uint32_t END = LEAD_RUN + fix_up_part<K>();
	constexpr int ITEMS = AREA / FIX_UP_THREADS;

	static_assert(AREA % FIX_UP_THREADS == 0 && LEAD_RUN % 32 == 0, "no key is left over");

	__shared__ __align__(16) K area[AREA];
	__shared__ uint32_t starts[AREA / 32 + 1];	/* bit: the key starts a run */
	__shared__ uint32_t descents[AREA / 32];	/* bit: less than its
												 * predecessor */
	__shared__ uint32_t moves[AREA / 32];	/* bit: in a run with a descent */

	/* key number of area[0] */
	int64_t		base = (int64_t) blockIdx.x * fix_up_part<K>() - LEAD_RUN;
	uint32_t	first = base < 0 ? LEAD_RUN : 0;	/* first key in area[] */
	uint32_t	end_of_keys = (uint32_t) min((int64_t) AREA, args.n - base);
	K		   *keys = args.keys + base;
	uint32_t	to[ITEMS];
	uint32_t	rids[ITEMS];
	bool		any = false,
				too_long = false;

#pragma unroll
	for (int i = 0; i < ITEMS; i++)
	{
		uint32_t	at = i * FIX_UP_THREADS + threadIdx.x;

		area[at] = at >= first && at < end_of_keys ? keys[at] : 0;
	}
	if (threadIdx.x == 0)
		starts[AREA / 32] = ~0u;
	__syncthreads();
#pragma unroll
	for (int i = 0; i < ITEMS; i++)
	{
		uint32_t	at = i * FIX_UP_THREADS + threadIdx.x;
		K			v = area[at];
		K			before = at > 0 ? area[at - 1] : v;
		bool		start = at <= first || at >= end_of_keys || ((v ^ before) & args.lead) != 0;
		uint32_t	start_word = __ballot_sync(0xffffffffu, start);
		uint32_t	descent_word = __ballot_sync(0xffffffffu, !start && (v & args.all) < (before & args.all));

		if (threadIdx.x % 32 == 0)
		{
			starts[at / 32] = start_word;
			descents[at / 32] = descent_word;
			moves[at / 32] = 0;
		}
	}
	__syncthreads();
#pragma unroll
	for (int i = 0; i < ITEMS; i++)
	{
		uint32_t	at = i * FIX_UP_THREADS + threadIdx.x;

		if (at >= LEAD_RUN && (descents[at / 32] >> at % 32 & 1))
		{
			uint32_t	start = run_start(starts, at);
			uint32_t	end = run_end(starts, at, AREA);

			/*
			 * a run that starts in another block's part is reported by that
			 * block
			 */
			if (end - start > LEAD_RUN)
				too_long |= start < END && at < END;
			else if (start >= LEAD_RUN && start < END)
			{
				for (uint32_t word = start / 32; word <= (end - 1) / 32; word++)
					atomicOr(&moves[word],
							 ~0u << (word == start / 32 ? start % 32 : 0) &
							 ~0u >> (word == (end - 1) / 32 ? 31 - (end - 1) % 32 : 0));
				any = true;
			}
		}
	}
	too_long = __syncthreads_or(too_long);
	if (__syncthreads_or(any))
	{
#pragma unroll
		for (int i = 0; i < ITEMS; i++)
		{
			uint32_t	at = i * FIX_UP_THREADS + threadIdx.x;

			to[i] = at;
			if (moves[at / 32] >> at % 32 & 1)
			{
				uint32_t	end = run_end(starts, at, AREA);
				K			v = area[at] & args.all;

				to[i] = run_start(starts, at);
				for (uint32_t other = to[i]; other < end; other++)
				{
					K			w = area[other] & args.all;

					to[i] += w < v || (w == v && other < at);
				}
				if (args.rids)
					rids[i] = args.rids[base + at];
			}
		}
		__syncthreads();
#pragma unroll
		for (int i = 0; i < ITEMS; i++)
		{
			uint32_t	at = i * FIX_UP_THREADS + threadIdx.x;

			if (to[i] != at)
			{
				keys[to[i]] = area[at];
				if (args.rids)
					args.rids[base + to[i]] = rids[i];
			}
		}
	}
	__threadfence();
	__syncthreads();
	if (threadIdx.x == 0)
	{
		if (too_long)
			atomicOr(&args.state->too_long, 1);
		__threadfence();
		if (atomicAdd(&args.state->blocks_fixed_up, 1) == gridDim.x - 1)
		{
			volatile uint32_t *words = args.readback;

			__threadfence();
			words[RADIX_READBACK_LONG] = *(volatile uint32_t *) &args.state->too_long;
			__threadfence_system();
			words[RADIX_READBACK_SEQUENCE] = args.sequence_number;
		}
	}
}

#endif							/* GPUSORT_RADIX_LEAD_CUH */
