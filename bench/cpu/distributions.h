/*
 * distributions.h
 *	  Named input distributions, shared by the benchmarks and the unit tests.
 */
#ifndef GPUSORT_DISTRIBUTIONS_H
#define GPUSORT_DISTRIBUTIONS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C"
{
#endif

/* A 128-bit number, most significant word first. */
typedef struct DistKey
{
	uint64_t	hi;
	uint64_t	lo;
} DistKey;

/* NULL-terminated. */
extern const char *const distribution_names[];

/* Called with key i, which is below 2^bits, for i = 0 .. n - 1. */
typedef void (*DistEmit) (void *arg, size_t i, DistKey key);

/*
 * Produces n keys of 1 .. 128 bits in the named distribution.  The same seed
 * gives the same keys.  Returns 0, or -1 if the name is unknown.
 *
 *	uniform			independent, all values equally likely
 *	gaussian		mean in the middle of the range, deviation 1/8 of the range
 *	sorted			ascending at equal distances over the range
 *	reversed		descending at equal distances over the range
 *	nearly_sorted	ascending, but one key of each 64 is swapped with a key at
 *					most 32 positions away
 *	repeated70		70 % of the keys have one value, 30 % are uniform
 *	repeated100		all equal
 *	zipf			frequencies by Zipf's law with exponent about 1; values
 *					scattered over the range
 *	fewvalues		16 values, scattered over the range
 *	smallrange		uniform in [0, n/4 + 1), or in the key's range if smaller
 *	tail			ascending, but the last 1 % are uniform
 *	sawtooth		8 ascending runs
 *	tworuns			2 ascending runs
 *	entropyK		K = 1 .. 5: bitwise AND of K + 1 uniform keys (Thearling,
 *					Smith)
 *	clustered		the number of leading bits that a key shares with one
 *					fixed key is uniform
 */
extern int	distribution_generate(const char *name, unsigned bits, size_t n,
								  uint64_t seed, DistEmit emit, void *arg);

#ifdef __cplusplus
}
#endif
#endif							/* GPUSORT_DISTRIBUTIONS_H */
