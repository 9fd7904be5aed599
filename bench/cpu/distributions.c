/*
 * distributions.c
 *	  Named input distributions, shared by the benchmarks and the unit tests.
 */
#include "distributions.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const distribution_names[] = {
	"uniform", "gaussian", "sorted", "reversed", "nearly_sorted",
	"repeated70", "repeated100", "zipf", "fewvalues", "smallrange",
	"range256", "range65536", "tail", "sawtooth", "tworuns",
	"entropy1", "entropy2", "entropy3", "entropy4", "entropy5",
	"clustered",
	NULL
};

/* splitmix64: the i-th value depends on the seed and i alone. */
static uint64_t
mix(uint64_t z)
{
	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

static uint64_t
next(uint64_t *state)
{
	return mix(*state += UINT64_C(0x9e3779b97f4a7c15));
}

static DistKey
narrow(DistKey k, unsigned bits)
{
	if (bits < 64)
	{
		k.hi = 0;
		k.lo &= (UINT64_C(1) << bits) - 1;
	}
	else if (bits < 128)
		k.hi &= (UINT64_C(1) << (bits - 64)) - 1;
	return k;
}

static DistKey
uniform(uint64_t *state, unsigned bits)
{
	DistKey		k;

	k.hi = bits > 64 ? next(state) : 0;
	k.lo = next(state);
	return narrow(k, bits);
}

static double
unit(uint64_t *state)
{
	return (double) (next(state) >> 11) * ldexp(1, -53);
}

/* The fraction f in [0, 1) of the range of keys; low bits are filled at random. */
static DistKey
fraction(double f, uint64_t *state, unsigned bits)
{
	DistKey		k = uniform(state, bits);
	uint64_t	top;
	unsigned	word = bits > 64 ? bits - 64 : bits;

	if (f < 0)
		f = 0;
	if (f >= 1)
		f = 1 - ldexp(1, -53);
	top = (uint64_t) ldexp(f, (int) word);
	if (word > 53)
		top |= next(state) & ((UINT64_C(1) << (word - 53)) - 1);
	if (bits > 64)
		k.hi = top;
	else
		k.lo = top;
	return k;
}

/* Key i of n ascending keys at equal distances.  All are different if 2^bits >= n. */
static DistKey
ascending(size_t i, size_t n, unsigned bits)
{
	DistKey		k = {0, 0};
	unsigned	word = bits > 64 ? bits - 64 : bits;
	unsigned __int128 range = (unsigned __int128) 1 << word;
	uint64_t	top = (uint64_t) (range * i / n);

	if (bits > 64)
	{
		k.hi = top;
		k.lo = mix(i);
		if (n > (uint64_t) (range - 1))
			k.lo = i;
	}
	else
		k.lo = top;
	return k;
}

int
distribution_generate(const char *name, unsigned bits, size_t n, uint64_t seed,
					  DistEmit emit, void *arg)
{
	uint64_t	s = mix(seed + 1);

	if (strcmp(name, "uniform") == 0)
		for (size_t i = 0; i < n; i++)
			emit(arg, i, uniform(&s, bits));
	else if (strcmp(name, "gaussian") == 0)
		for (size_t i = 0; i < n; i++)
		{
			double		u = 1 - unit(&s);
			double		v = unit(&s);
			double		g = sqrt(-2 * log(u)) * cos(6.283185307179586 * v);

			emit(arg, i, fraction(0.5 + g / 8, &s, bits));
		}
	else if (strcmp(name, "sorted") == 0)
		for (size_t i = 0; i < n; i++)
			emit(arg, i, ascending(i, n, bits));
	else if (strcmp(name, "reversed") == 0)
		for (size_t i = 0; i < n; i++)
			emit(arg, i, ascending(n - 1 - i, n, bits));
	else if (strcmp(name, "nearly_sorted") == 0)
	{
		/* one swap within each block of 64 keys */
		for (size_t i = 0; i < n;)
		{
			size_t		len = n - i < 64 ? n - i : 64;
			size_t		a = next(&s) % len;
			size_t		b = (a + 1 + next(&s) % 32) % len;

			for (size_t j = 0; j < len; j++)
				emit(arg, i + j,
					 ascending(i + (j == a ? b : j == b ? a : j), n, bits));
			i += len;
		}
	}
	else if (strcmp(name, "repeated70") == 0)
	{
		DistKey		common = uniform(&s, bits);

		for (size_t i = 0; i < n; i++)
		{
			DistKey		k = uniform(&s, bits);

			emit(arg, i, next(&s) % 10 < 7 ? common : k);
		}
	}
	else if (strcmp(name, "repeated100") == 0)
	{
		DistKey		common = uniform(&s, bits);

		for (size_t i = 0; i < n; i++)
			emit(arg, i, common);
	}
	else if (strcmp(name, "zipf") == 0)
		for (size_t i = 0; i < n; i++)
		{
			/*
			 * Rank r in 1 .. n has density 1/r, so its distribution function
			 * is log(r)/log(n + 1).  This is the inverse.
			 */
			uint64_t	rank = (uint64_t) exp(unit(&s) * log((double) n + 1));
			DistKey		k;

			k.hi = mix(rank);
			k.lo = mix(~rank);
			emit(arg, i, narrow(k, bits));
		}
	else if (strcmp(name, "fewvalues") == 0)
		for (size_t i = 0; i < n; i++)
		{
			uint64_t	value = next(&s) & 15;
			DistKey		k;

			k.hi = mix(value + 1);
			k.lo = mix(value + 17);
			emit(arg, i, narrow(k, bits));
		}
	else if (strcmp(name, "smallrange") == 0 || strncmp(name, "range", 5) == 0)
	{
		uint64_t	range = name[0] == 's' ? n / 4 + 1 : strtoul(name + 5, NULL, 10);

		if (range == 0)
			return -1;
		for (size_t i = 0; i < n; i++)
		{
			DistKey		k = {0, next(&s) % range};

			emit(arg, i, narrow(k, bits));
		}
	}
	else if (strcmp(name, "tail") == 0)
		for (size_t i = 0; i < n; i++)
			emit(arg, i, i < n - n / 100 ? ascending(i, n, bits) : uniform(&s, bits));
	else if (strcmp(name, "sawtooth") == 0 || strcmp(name, "tworuns") == 0)
	{
		size_t		tooth = n / (name[0] == 's' ? 8 : 2) + 1;

		for (size_t i = 0; i < n; i++)
			emit(arg, i, ascending(i % tooth, tooth, bits));
	}
	else if (strcmp(name, "clustered") == 0)
	{
		DistKey		middle = uniform(&s, bits);

		for (size_t i = 0; i < n; i++)
		{
			DistKey		k = uniform(&s, bits);
			unsigned	alike = uniform(&s, 64).lo % bits;

			if (alike >= 64)
			{
				k.lo = k.hi >> (alike - 64);
				k.hi = 0;
			}
			else if (alike > 0)
			{
				k.lo = k.lo >> alike | k.hi << (64 - alike);
				k.hi >>= alike;
			}
			k.hi ^= middle.hi;
			k.lo ^= middle.lo;
			emit(arg, i, k);
		}
	}
	else if (strncmp(name, "entropy", 7) == 0 && name[7] >= '1' &&
			 name[7] <= '5' && name[8] == '\0')
		for (size_t i = 0; i < n; i++)
		{
			DistKey		k = uniform(&s, bits);

			for (int j = 0; j < name[7] - '0'; j++)
			{
				DistKey		o = uniform(&s, bits);

				k.hi &= o.hi;
				k.lo &= o.lo;
			}
			emit(arg, i, k);
		}
	else
		return -1;
	return 0;
}
