/*
 * key_delta.c
 *	  Delta coding of sorted keys, in portable C.
 *
 * A difference is coded and decoded by one unaligned access of 64 bits, whatever its
 * width, and without a branch.
 */
#include "kernel/key_delta.h"

#include <string.h>

#define INLINE	static inline __attribute__((always_inline))

/* Bits of a difference whose bits are among those of all. */
INLINE unsigned
width_of(SortKey all)
{
	uint64_t	hi = (uint64_t) (all >> 64);
	uint64_t	lo = (uint64_t) all;
	unsigned	width = hi != 0 ? 128 - (unsigned) __builtin_clzll(hi) :
		lo != 0 ? 64 - (unsigned) __builtin_clzll(lo) : 0;

	return width <= KEY_DELTA_BITS ? width : (width + 7) / 8 * 8;
}

/* Packs differences of up to KEY_DELTA_BITS bits. */
#define PACK(keys, before, n, width, out) \
	do { \
		uint64_t	bits = 0;	/* those that fill no byte yet, and the next difference */ \
		unsigned	fill = 0; \
		for (size_t i = 0; i < (n); i++) \
		{ \
			uint64_t	difference = (uint64_t) ((keys)[i] - before); \
			before = (keys)[i]; \
			bits |= difference << fill; \
			fill += (width); \
			memcpy((out), &bits, sizeof(bits)); \
			(out) += fill / 8; \
			bits >>= fill / 8 * 8; \
			fill %= 8; \
		} \
		*(out) = (char) bits; \
		(out) += fill > 0; \
	} while (0)

/* The inverse of PACK. */
#define UNPACK(in, before, n, width, keys) \
	do { \
		const uint64_t mask = (UINT64_C(1) << (width)) - 1; \
		for (size_t i = 0, bit = 0; i < (n); i++, bit += (width)) \
		{ \
			uint64_t	bits; \
			memcpy(&bits, (in) + bit / 8, sizeof(bits)); \
			before += bits >> bit % 8 & mask; \
			(keys)[i] = before; \
		} \
	} while (0)

/* Codes a block of n keys of key_t; returns its end. */
#define ENCODE(key_t, before, keys, n, out) \
	do { \
		key_t		all = (keys)[0] - before; \
		unsigned	width; \
		for (size_t i = 1; i < (n); i++) \
			all |= (keys)[i] - (keys)[i - 1]; \
		width = width_of(all); \
		*(out)++ = (char) width; \
		*(out)++ = (char) (n); \
		if (width <= KEY_DELTA_BITS) \
			PACK(keys, before, n, width, out); \
		else \
		{ \
			for (size_t i = 0; i < (n); i++) \
			{ \
				key_t		difference = (keys)[i] - before; \
				before = (keys)[i]; \
				memcpy((out), &difference, sizeof(difference)); \
				(out) += width / 8; \
			} \
		} \
		return (out); \
	} while (0)

/* Decodes a block of keys of key_t; returns their number.  Differences that UNPACK does not read have whole bytes. */
#define DECODE(key_t, before, in, keys) \
	do { \
		const unsigned width = (uint8_t) (in)[0]; \
		const size_t n = key_delta_count(in); \
		(in) += KEY_DELTA_HEAD; \
		if (width <= KEY_DELTA_BITS) \
			UNPACK(in, before, n, width, keys); \
		else \
		{ \
			const key_t mask = ~(key_t) 0 >> (8 * sizeof(key_t) - width); \
			for (size_t i = 0; i < n; i++, (in) += width / 8) \
			{ \
				key_t		difference; \
				memcpy(&difference, (in), sizeof(difference)); \
				before += difference & mask; \
				(keys)[i] = before; \
			} \
		} \
		return n; \
	} while (0)

char *
key_delta_encode64(uint64_t before, const uint64_t *keys, size_t n, char *out)
{
	ENCODE(uint64_t, before, keys, n, out);
}

char *
key_delta_encode128(SortKey before, const SortKey *keys, size_t n, char *out)
{
	ENCODE(SortKey, before, keys, n, out);
}

size_t
key_delta_decode64(uint64_t before, const char *in, uint64_t *keys)
{
	DECODE(uint64_t, before, in, keys);
}

size_t
key_delta_decode128(SortKey before, const char *in, SortKey *keys)
{
	DECODE(SortKey, before, in, keys);
}
