/*
 * gpu_keys.h
 *	  The keys of gpu_sweep.  A key is a function of its number, so that gpu_sweep
 *	  makes keys on the device and gpu_choices makes the same keys on the host.
 *
 * The distributions are those of distributions.c.
 */
#ifndef GPUSORT_GPU_KEYS_H
#define GPUSORT_GPU_KEYS_H

#include <math.h>
#include <stdint.h>

#ifdef __CUDACC__
#define GPU_KEYS_FUNCTION	__host__ __device__ static inline
#else
#define GPU_KEYS_FUNCTION	static inline
#endif

typedef unsigned __int128 SweepKey;

enum SweepDistribution
{
	SWEEP_UNIFORM, SWEEP_GAUSSIAN, SWEEP_SORTED, SWEEP_REVERSED, SWEEP_NEARLY_SORTED, SWEEP_REPEATED70,
	SWEEP_REPEATED100, SWEEP_FEWVALUES, SWEEP_ZIPF, SWEEP_SMALLRANGE, SWEEP_SAWTOOTH, SWEEP_EXPONENTIAL,
	SWEEP_ENTROPY1, SWEEP_ENTROPY5, SWEEP_DISTRIBUTIONS
};

static inline const char *
distribution_name(int distribution)
{
	static const char *const names[SWEEP_DISTRIBUTIONS] = {
		"uniform", "gaussian", "sorted", "reversed", "nearly_sorted", "repeated70",
		"repeated100", "fewvalues", "zipf", "smallrange", "sawtooth", "exponential",
		"entropy1", "entropy5"
	};

	return names[distribution];
}

/* A hash: pseudo-random numbers from successive ones. */
GPU_KEYS_FUNCTION uint64_t
mix(uint64_t z)
{
	z += UINT64_C(0x9e3779b97f4a7c15);
	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

/* The i-th value of stream s, of 32, 64 or 128 bits. */
GPU_KEYS_FUNCTION SweepKey
random_key(int bits, uint64_t i, uint64_t s)
{
	uint64_t	a = mix(i * 64 + s);

	if (bits == 128)
		return (SweepKey) a << 64 | mix(a ^ i);
	return a >> (64 - bits);
}

/* The i-th of n values at equal distances over the range of keys. */
GPU_KEYS_FUNCTION SweepKey
even_key(int bits, uint64_t i, uint64_t n)
{
	if (bits == 32)
		return (uint32_t) ((i << 32) / n);
	return (SweepKey) (uint64_t) (((SweepKey) i << 64) / n) << (bits - 64);
}

GPU_KEYS_FUNCTION double
random_unit(uint64_t i)
{
	return ((mix(i) >> 11) + 1) * (1.0 / 9007199254740993.0);
}

/* Bits above the key are arbitrary. */
GPU_KEYS_FUNCTION SweepKey
sweep_key(int distribution, int bits, uint64_t i, uint64_t n)
{
	SweepKey	key = random_key(bits, i, 0);

	switch (distribution)
	{
		case SWEEP_GAUSSIAN:
			{
				double		sum = 0;

				for (int j = 1; j <= 12; j++)
					sum += random_unit(i * 64 + j);
				return even_key(bits, (uint64_t) ((int64_t) ((sum - 6) / 8 * 1073741824.0) +
												  536870912), 1073741824) + (key >> 30);
			}
		case SWEEP_SORTED:
			return even_key(bits, i, n);
		case SWEEP_REVERSED:
			return even_key(bits, n - 1 - i, n);
		case SWEEP_NEARLY_SORTED:
			{
				/* two keys of each 128, at most 32 apart, are swapped */
				uint64_t	a = mix(i / 128) % 64,
							b = a + 1 + mix(i / 128 + n) % 32;

				if (i / 128 * 128 + 128 <= n && (i % 128 == a || i % 128 == b))
					i = i / 128 * 128 + a + b - i % 128;
				return even_key(bits, i, n);
			}
		case SWEEP_REPEATED70:
			return mix(i + n) % 10 < 7 ? (SweepKey) 5 << (bits - 4) : key;
		case SWEEP_REPEATED100:
			return 12345;
		case SWEEP_FEWVALUES:
			return random_key(bits, mix(i) % 16, 1);
		case SWEEP_ZIPF:
			return random_key(bits, (uint64_t) pow((double) n, random_unit(i)), 1);
		case SWEEP_SMALLRANGE:
			return mix(i) % (n / 50 + 1);
		case SWEEP_SAWTOOTH:
			return even_key(bits, i % (n / 8 + 1) * 8, n + 8);
		case SWEEP_EXPONENTIAL:
			return key >> (mix(i + n) % (bits - 4));
		case SWEEP_ENTROPY5:
			for (int j = 2; j <= 5; j++)
				key &= random_key(bits, i, j);
			return key & random_key(bits, i, 1);
		case SWEEP_ENTROPY1:
			return key & random_key(bits, i, 1);
		default:
			return key;
	}
}

#endif							/* GPUSORT_GPU_KEYS_H */
