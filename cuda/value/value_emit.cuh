/*
 * value_emit.cuh
 *	  Writes sorted keys from the prefix sums of their histogram.
 *
 * A thread finds the value of an output place by binary search in the prefix
 * sums.  Threads thus share the output equally, whatever the counts: all blocks
 * write a value that has all keys, and values without keys cost no time.  A
 * block first finds the values of its tile and copies their prefix sums to
 * shared memory; there each thread searches once for each 16 bytes that it
 * writes.
 */
#ifndef GPUSORT_VALUE_EMIT_CUH
#define GPUSORT_VALUE_EMIT_CUH

#include "key.cuh"

#define EMIT_THREADS		256
#define EMIT_VECTORS		8		/* most vectors of 16 bytes that a thread
									 * writes */
#define EMIT_BUFFERED		4096	/* prefix sums that fit the shared memory */

/* Number of keys that a block writes. */
template <class K> __host__ __device__ constexpr uint32_t
emit_tile(int vectors)
{
	return EMIT_THREADS * vectors * (16 / sizeof(K));
}

/*
 * Vectors per thread: as many as give each multiprocessor two blocks and leave
 * the expected number of values of a tile at half of EMIT_BUFFERED at most.
 */
template <class K> static int
emit_vectors(const DeviceTraits *device, uint64_t n, uint64_t range)
{
	int			vectors = EMIT_VECTORS;

	while (vectors > 1 &&
		   (div_up(n, emit_tile<K>(vectors)) < 2 * (uint64_t) device->multiprocessors ||
			emit_tile<K>(vectors) * range / n > EMIT_BUFFERED / 2))
		vectors /= 2;
	return vectors;
}

/*
 * The greatest v with starts[v] <= at.  Called by a warp; starts[0] is 0.  Each
 * step divides the interval by 32.
 */
__device__ __forceinline__ uint32_t
value_at(const uint32_t *starts, uint32_t range, uint32_t at)
{
	uint32_t	lo = 0;
	uint32_t	count = range;

	while (count > 1)
	{
		uint32_t	step = (count - 1) / 32 + 1;
		uint32_t	probe = threadIdx.x % 32 * step;
		bool		below = probe < count && starts[lo + probe] <= at;
		uint32_t	skip = (__popc(__ballot_sync(0xffffffffu, below)) - 1) * step;

		lo += skip;
		count = min(step, count - skip);
	}
	return lo;
}

/* out[i] = least + v, for the v with starts[v] <= i < starts[v + 1]. */
template <class K>
__global__ void __launch_bounds__(EMIT_THREADS)
emit_kernel(const uint32_t *starts, uint32_t range, uint32_t n, K least, K *out,
			int vectors)
{
	constexpr int VECTOR = 16 / sizeof(K);
	struct alignas(16) Keys
	{
		K			key[VECTOR];
	};

	__shared__ uint32_t buffered[EMIT_BUFFERED + 1];
	__shared__ uint32_t ends[2];	/* values of the tile's first and last
									 * key */

	uint32_t	first = blockIdx.x * emit_tile<K>(vectors);
	uint32_t	count = min(n - first, emit_tile<K>(vectors));

	if (threadIdx.x < 64)
	{
		int			warp = threadIdx.x / 32;
		uint32_t	v = value_at(starts, range, warp == 0 ? first : first + count - 1);

		if (threadIdx.x % 32 == 0)
			ends[warp] = v;
	}
	__syncthreads();

	const uint32_t lowest = ends[0];
	const uint32_t values = ends[1] - lowest + 1;
	const uint32_t *from = starts + lowest;

	if (values <= EMIT_BUFFERED)
	{
		for (uint32_t i = threadIdx.x; i < values; i += EMIT_THREADS)
			buffered[i] = from[i];
		from = buffered;
		__syncthreads();
	}
#pragma unroll 2
	for (int u = 0; u < vectors; u++)
	{
		uint32_t	place = (u * EMIT_THREADS + threadIdx.x) * VECTOR;
		uint32_t	at = first + place;
		uint32_t	v = 0;
		uint32_t	until = 0;	/* output place where value v + 1 starts */
		Keys		keys;

		if (place >= count)
			break;
#pragma unroll
		for (int i = 0; i < VECTOR; i++)
		{
			/*
			 * Usually the next value follows.  Testing that first avoids most
			 * searches, during which the other lanes of the warp wait.
			 */
			if (i > 0 && at + i >= until)
			{
				v++;
				until = v + 1 < values ? from[v + 1] : UINT32_MAX;
			}
			if (i == 0 || at + i >= until)
			{
				uint32_t	hi = values;

				while (hi - v > 1)
				{
					uint32_t	middle = v + (hi - v) / 2;

					if (from[middle] <= at + i)
						v = middle;
					else
						hi = middle;
				}
				until = v + 1 < values ? from[v + 1] : UINT32_MAX;
			}
			keys.key[i] = least + (lowest + v);
		}
		if (place + VECTOR <= count)
			*reinterpret_cast<Keys *>(out + at) = keys;
		else
			for (int i = 0; i < VECTOR; i++)
				if (place + i < count)
					out[at + i] = keys.key[i];
	}
}

#endif							/* GPUSORT_VALUE_EMIT_CUH */
