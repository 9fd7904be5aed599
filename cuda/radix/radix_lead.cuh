/*
 * radix_lead.cuh
 *	  Sorts by the leading digits that tell keys apart: the choice of the digits, and the
 *	  fix-up pass after their passes.
 *
 * A pass costs the same whether or not its digit decides anything.  Of 2^24 keys whose leading
 * bits are even, 32 bits order all but one in some hundred, whatever the keys' width; of 16
 * values, 16 bits.  So a sample guesses how many are enough, the passes sort by those, and
 * then the keys are read once more: where leading bits are equal and keys are out of order
 * nevertheless, that run of neighbours is put in order.
 *
 * The guess (one block, before the count): neighbours in the sorted sample that differ share
 * some leading bits.  How many keys share b bits is extrapolated from the pairs of the sample that share b, and
 * how it falls with b is carried on to where, of all n keys, few are left: one in eight keys
 * that wants the fix-up pass costs less than another pass.  Values that the sample has but once
 * tell how many more there are in all; where there are none, the sample has seen
 * what there is, and its deepest pair decides.  Frequent values make long runs, which
 * cannot be fixed up, so the chance that another value falls into one has to be small.  So do many
 * values in one place: how many of the sample share their leading bits at most, and how that
 * falls, is carried on likewise, to where they are a run that can be fixed up.
 *
 * The fix-up pass (a block for each part of the keys, in place): the keys' part and a margin of
 * LEAD_RUN at both sides are taken into shared memory, where a bit tells of each whether it
 * begins a run, and whether it is less than the one before it in its run.  Those are few.  Of
 * a run with one, each key counts those before it, and goes there with its rid.  A run
 * belongs to the block in whose part it begins; another that reads its keys meanwhile looks at
 * nothing but leading bits, which the fix-up pass does not change.
 *
 * A run of more than LEAD_RUN keys that is not in order is left, and the host told: it then
 * sorts what it has by all digits.  That is still stable, for equal keys were never
 * exchanged, so a wrong guess costs time and nothing else.
 *
 * Memory: none but RadixState.  Errors: none.
 */
#ifndef GPUSORT_RADIX_LEAD_CUH
#define GPUSORT_RADIX_LEAD_CUH

#include "block/pair_sort.cuh"
#include "block/sample_position.cuh"
#include "launch_bounds.cuh"
#include "radix/radix_pass.cuh"

#define LEAD_THREADS		1024
#define LEAD_ITEMS			2
#define LEAD_SAMPLES		(LEAD_THREADS * LEAD_ITEMS)
#define LEAD_WARPS			(LEAD_THREADS / 32)

#define LEAD_RUN			256		/* keys of a run that can be fixed up, at most; whole words of bits */
#define LEAD_OFTEN			4		/* so often in the sample: a long run */
#define LEAD_SHARE			0.125f	/* of the keys to be fixed up, about, at most */
#define LEAD_RISK			0.1f	/* that a long run is not in order, about, at most */
#define LEAD_CLUSTER			16		/* values of the sample that share bits: a cluster, */
#define LEAD_CLUSTER_FALL		8		/* ... whose growth is followed from this multiple on, */
#define LEAD_CLUSTER_SPARE	1.5f	/* ... and more than it seems */
#define LEAD_SPARE_BITS		3		/* beyond those that would tell evenly spread keys apart */
#define LEAD_RARE_BITS		4		/* beyond those that tell all values apart that there seem to be */

/* Passes that must be saved, or the sample, the fix-up pass and the wait for it cost more. */
#define LEAD_LEAST_SAVED	2
#define LEAD_LEAST_DIGITS	4

/* n times a key's bytes squared, at least: a pass takes longer than asking. */
#ifndef LEAD_LEAST_SIZE
#define LEAD_LEAST_SIZE		(UINT64_C(1) << 26)
#endif

#define FIX_UP_THREADS		512

/* Keys of a block's own, and with the margins. */
template <class K> __host__ __device__ constexpr uint32_t
fix_up_part()
{
	return sizeof(K) == 16 ? 2048 : 4096;
}

template <class K> __host__ __device__ constexpr uint32_t
fix_up_area()
{
	return fix_up_part<K>() + 2 * LEAD_RUN;
}

/* Are leading digits worth asking for? */
template <class K> static bool
may_sort_by_lead(uint64_t n, int digits)
{
	return digits >= LEAD_LEAST_DIGITS && n >= 2 * LEAD_SAMPLES &&
		n * sizeof(K) * sizeof(K) >= LEAD_LEAST_SIZE;
}

/* What the sorted sample tells of its values. */
struct LeadValues
{
	int			distinct;
	int			once;			/* that it has once, */
	int			often;			/* and LEAD_OFTEN times or more */
};

/* Of neighbours with the same value, in place of the bits that they share. */
#define LEAD_SAME			0xff

/* The sample's entry at a place: a lane reads a stretch of them, and all lanes different words. */
__device__ __forceinline__ uint32_t
shared_bits_at(uint32_t at)
{
	return at % (LEAD_SAMPLES / 32) * 32 + at / (LEAD_SAMPLES / 32);
}

/*
 * Largest number of different values of the sorted sample that share bits leading bits.  One
 * warp; shared_bits: of each and the one before it.
 */
__device__ __forceinline__ uint32_t
largest_cluster(const uint8_t *shared_bits, uint32_t bits)
{
	uint32_t	lane = threadIdx.x % 32;
	uint32_t	before = 0,		/* neighbours that differ, from the stretch's begin on, */
				most = 0,
				since = 0;		/* ... and since the last that share too little */
	bool		parted = false;

	for (uint32_t i = 0; i < LEAD_SAMPLES / 32; i++)
	{
		uint32_t	shared = shared_bits[shared_bits_at(lane * (LEAD_SAMPLES / 32) + i)];

		if (shared >= bits)
			since += shared != LEAD_SAME;
		else
		{
			before = parted ? before : since;
			parted = true;
			most = max(most, since);
			since = 0;
		}
	}
	before = parted ? before : since;
	for (uint32_t l = 0, run = 0; l < 32; l++)
	{
		uint32_t	its_since = __shfl_sync(0xffffffffu, since, l);

		run += __shfl_sync(0xffffffffu, before, l);
		most = max(most, run);
		if (__shfl_sync(0xffffffffu, (uint32_t) parted, l))
			run = its_since;
	}
	/* every lane knows of all stretches' ends, but only its own inside */
	for (int step = 16; step > 0; step /= 2)
		most = max(most, __shfl_xor_sync(0xffffffffu, most, step));
	return most + 1;
}

/* Leading bits by which no cluster is too large; clusters: the largest by 1, 2, ... LEAD_WARPS parts of width bits. */
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
	/* in a run's measure */
	keys = LEAD_CLUSTER_SPARE / LEAD_RUN * clusters[deep - 1] * ((float) n / LEAD_SAMPLES);
	fall = log2f((float) (shallow > 0 ? clusters[shallow - 1] : distinct) / clusters[deep - 1]) /
		((deep - shallow) * part);
	return deep * part + max(log2f(keys), 0.0f) / min(max(fall, 0.05f), 1.0f);
}

/*
 * How many leading bits tell nearly all of n keys apart.  alike[b]: neighbours in the sample
 * that differ, but not in their first b bits; beyond(x): the first b where those are
 * x or fewer.
 */
template <class Beyond> __device__ __forceinline__ float
leading_bits(const LeadValues &values, uint32_t n, const uint32_t *alike, Beyond beyond)
{
	float		scale = (float) n / LEAD_SAMPLES;
	float		growth = 1 + (float) values.once / values.distinct * scale;	/* of distinct values, at most */
	float		pairs = (float) (values.distinct - 1);
	float		long_runs = 2.0f * values.often + (values.distinct - values.once - values.often) *
		max(1.0f, scale / LEAD_RUN);
	float		wanted = LEAD_SHARE * n;
	int			deep = beyond(pairs <= 64 ? 1.0f : 8.0f);
	float		deep_pairs = max((float) alike[deep], 1.0f);
	float		bits;

	/* pairs among all n that may be left, then in the sample's measure */
	if (long_runs > 0)
		wanted = min(wanted, LEAD_RISK / 2 * values.distinct * growth / long_runs);
	wanted /= growth * growth;
	if (values.once == 0)
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
	return max(bits, beyond(pairs / 2) + log2f(growth) + LEAD_SPARE_BITS);
}

/* Makes the guess: state->cut.  One block. */
template <class K>
__global__ void __launch_bounds__(LEAD_THREADS)
radix_lead_kernel(const K *keys, uint32_t n, KeyBits<K> bits, int width, RadixState *state)
{
	__shared__ __align__(16) unsigned char memory[pair_room_bytes<K>(LEAD_SAMPLES)];
	__shared__ uint32_t alike[LEAD_THREADS];	/* by bit, as far as width */
	__shared__ uint32_t room[LEAD_WARPS];
	__shared__ uint32_t differ;

	const PairRoom<K> sample(memory, LEAD_SAMPLES);
	uint8_t    *shared_bits = memory;	/* when the sample has been looked at */
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
		bool		once = first && (at + 1 >= LEAD_SAMPLES || sample.get(at + 1).value != v);
		bool		often = first && at + LEAD_OFTEN <= LEAD_SAMPLES &&
			sample.get(at + LEAD_OFTEN - 1).value == v;

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
		values.once += __syncthreads_count(once);
		values.often += __syncthreads_count(often);
	}

	/* from pairs that share exactly this many bits to pairs that share at least as many */
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

		if (values.once > 0)
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
		if (threadIdx.x == 0 && __popc(differ & ((1u << cut) - 1)) >= LEAD_LEAST_SAVED)
			state->cut = cut;
	}
}

/* The last bit at or before it, but no farther back than matters. */
__device__ __forceinline__ uint32_t
run_start(const uint32_t *starts, uint32_t at)
{
	uint32_t	word = at / 32;
	uint32_t	found = starts[word] & (~0u >> (31 - at % 32));

	while (found == 0 && word > at / 32 - LEAD_RUN / 32)
		found = starts[--word];
	return word * 32 + (found ? highest_bit(found) : 0);
}

/* The first behind it, likewise. */
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

template <class K> struct FixUpArgs
{
	K		   *keys;
	uint32_t   *rids;			/* NULL: none */
	K			all;			/* the bits that order, where they lie in a key, */
	K			lead;			/* ... and the leading ones, by which keys are sorted */
	uint32_t	n;
	RadixState *state;
	uint32_t   *readback;
	uint32_t	sequence_number;
};

/* Puts runs of equal leading bits in order. */
template <class K>
__global__ void __launch_bounds__(FIX_UP_THREADS, RESIDENT_BLOCKS(FIX_UP_THREADS, 3))
radix_fix_up_kernel(const FixUpArgs<K> args)
{
	constexpr uint32_t AREA = fix_up_area<K>();
	constexpr uint32_t END = LEAD_RUN + fix_up_part<K>();	/* of its own part */
	constexpr int ITEMS = AREA / FIX_UP_THREADS;

	static_assert(AREA % FIX_UP_THREADS == 0 && LEAD_RUN % 32 == 0, "no key is left over");

	__shared__ __align__(16) K area[AREA];
	__shared__ uint32_t starts[AREA / 32 + 1];	/* bits: a run begins */
	__shared__ uint32_t falls[AREA / 32];	/* less than the one before it in its run */
	__shared__ uint32_t moves[AREA / 32];	/* in a run that is to be put in order */

	int64_t		base = (int64_t) blockIdx.x * fix_up_part<K>() - LEAD_RUN;	/* of the area */
	uint32_t	first = base < 0 ? LEAD_RUN : 0;	/* key that is there; */
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
		uint32_t	fall_word = __ballot_sync(0xffffffffu, !start && (v & args.all) < (before & args.all));

		if (threadIdx.x % 32 == 0)
		{
			starts[at / 32] = start_word;
			falls[at / 32] = fall_word;
			moves[at / 32] = 0;
		}
	}
	__syncthreads();
#pragma unroll
	for (int i = 0; i < ITEMS; i++)
	{
		uint32_t	at = i * FIX_UP_THREADS + threadIdx.x;

		if (at >= LEAD_RUN && (falls[at / 32] >> at % 32 & 1))
		{
			uint32_t	start = run_start(starts, at);
			uint32_t	end = run_end(starts, at, AREA);

			/* of others' runs the others tell */
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
