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

/*
 * Called for i = 0 .. n - 1 in turn with key i, below 2^bits.
 */
typedef void (*DistEmit) (void *arg, size_t i, DistKey key);

/*
 * Produces n keys of 1 .. 128 bits in the named distribution; the same seed
 * gives the same keys.  Returns 0, or -1 if the name is unknown.
 *
 *	uniform			independent, all values equally likely
 *	gaussian		mean at the middle of the range, deviation 1/8 of it
 *	sorted			ascending, evenly spread over the range
 *	reversed		descending, likewise
 *	nearly_sorted	ascending but for 1 in 64 keys, swapped with one at most 32 away
 *	repeated70		70 % of the keys are one value, the rest uniform
 *	repeated100		all equal
 *	zipf			value ranks by Zipf's law with exponent about 1, values scattered
 *	fewvalues		16 values, scattered
 *	smallrange		uniform in [0, n/4 + 1) or the key's range
 *	tail			ascending but for the last 1 %, which are uniform
 *	sawtooth		8 ascending runs one after the other
 *	tworuns			2 of them
 *	entropyK		K = 1 .. 5: bitwise AND of K + 1 uniform keys (Thearling, Smith)
 *	clustered			as many keys share any number of leading bits with one key as any other
 */
extern int	distribution_generate(const char *name, unsigned bits, size_t n,
								  uint64_t seed, DistEmit emit, void *arg);

#ifdef __cplusplus
}
#endif
#endif							/* GPUSORT_DISTRIBUTIONS_H */
