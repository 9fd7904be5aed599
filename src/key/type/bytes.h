/*
 * bytes.h
 *	  Order-preserving normalized keys of byte strings, and bit compaction.
 *
 * All strings of a sort so far share a prefix.  The normalized key of a string is
 * the eight bytes that follow the prefix, most significant byte first, padded
 * with zeros.  Such numbers compare as memcmp() compares the strings.  A
 * normalized key is exact if the string has no further byte and a padding zero
 * cannot be confused with a zero byte of the string.  Text has no zero bytes.
 *
 * A string without the prefix sorts before or behind all strings that have it.
 * It gets the smallest or the largest normalized key, which is inexact.  As long
 * as all normalized keys are in memory, the prefix is shortened instead: each
 * existing normalized key is shifted right and takes in the last bytes of the old
 * prefix.  No string is read again.
 *
 * Plain C without PostgreSQL headers, because the unit test includes it.
 */
#ifndef GPUSORT_KEY_TYPE_BYTES_H
#define GPUSORT_KEY_TYPE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define BYTES_WORD			8	/* bytes in a normalized key */
#define BYTES_PREFIX_MAX	64

typedef struct BytesPrefix
{
	int			len;			/* bytes; -1: no string has been seen */

	/* len must not change: normalized keys elsewhere depend on it */
	bool		frozen;
	uint8_t		bytes[BYTES_PREFIX_MAX];	/* valid below len */
} BytesPrefix;

/* Loads eight bytes as a number that orders as memcmp() does. */
static inline uint64_t
bytes_load(const char *p)
{
	uint64_t	v;

	memcpy(&v, p, sizeof(v));
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	v = __builtin_bswap64(v);
#endif
	return v;
}

/* The first min(len, 8) bytes, padded with zeros.  Reads no byte beyond len. */
static inline uint64_t
bytes_word(const char *p, size_t len)
{
	uint64_t	v = 0;

	if (__builtin_expect(len >= BYTES_WORD, 1))
		return bytes_load(p);
	if (len == 0)
		return 0;
	if (len >= 4)
	{
		uint32_t	high;
		uint32_t	low;

		/* the two loads overlap */
		memcpy(&high, p, sizeof(high));
		memcpy(&low, p + len - 4, sizeof(low));
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
		high = __builtin_bswap32(high);
		low = __builtin_bswap32(low);
#endif
		return (uint64_t) high << 32 | (uint64_t) low << (8 * (8 - len));
	}
	v = (uint64_t) (uint8_t) p[0] << 56;
	v |= (uint64_t) (uint8_t) p[len / 2] << (56 - 8 * (len / 2));
	v |= (uint64_t) (uint8_t) p[len - 1] << (56 - 8 * (len - 1));
	return v;
}

/* Length of the common prefix of two strings. */
static inline size_t
bytes_common(const char *a, size_t alen, const char *b, size_t blen)
{
	size_t		len = alen < blen ? alen : blen;
	size_t		at = 0;

	for (; at + BYTES_WORD <= len; at += BYTES_WORD)
	{
		uint64_t	differ = bytes_load(a + at) ^ bytes_load(b + at);

		if (differ != 0)
			return at + __builtin_clzll(differ) / 8;
	}
	while (at < len && a[at] == b[at])
		at++;
	return at;
}

/* bytes_common() for strings that probably have a long common prefix. */
static inline size_t
bytes_common_long(const char *a, size_t alen, const char *b, size_t blen)
{
	size_t		len = alen < blen ? alen : blen;
	size_t		at = 0;

	for (; at + 4 * sizeof(uint64_t) <= len; at += 4 * sizeof(uint64_t))
	{
		uint64_t	x[4];
		uint64_t	y[4];

		memcpy(x, a + at, sizeof(x));
		memcpy(y, b + at, sizeof(y));
		if (((x[0] ^ y[0]) | (x[1] ^ y[1]) | (x[2] ^ y[2]) | (x[3] ^ y[3])) != 0)
			break;
	}
	return at + bytes_common(a + at, alen - at, b + at, blen - at);
}

/*
 * Normalized key of a string.  Sets *inexact if the string has more bytes than
 * the key holds, or lacks the prefix; the key is then 0 or UINT64_MAX.
 */
static inline uint64_t
bytes_normkey(const BytesPrefix *prefix, const char *p, size_t len, bool *inexact)
{
	size_t		skip = prefix->len < 0 ? 0 : (size_t) prefix->len;

	if (skip > 0)
	{
		size_t		common = bytes_common(p, len, (const char *) prefix->bytes, skip);

		if (__builtin_expect(common < skip, 0))
		{
			*inexact = true;
			return common < len && (uint8_t) p[common] > prefix->bytes[common] ? UINT64_MAX : 0;
		}
	}
	if (len - skip > BYTES_WORD)
		*inexact = true;
	return bytes_word(p + skip, len - skip);
}

/* Converts a normalized key behind a prefix of from bytes to one behind to <= from bytes. */
static inline uint64_t
bytes_shift(const BytesPrefix *prefix, int from, int to, uint64_t normkey)
{
	int			by = from - to;
	uint64_t	front = bytes_word((const char *) prefix->bytes + to, (size_t) by);

	return by >= BYTES_WORD ? front : front | normkey >> (8 * by);
}

/* Does bytes_shift() lose bytes other than padding?  any: union of the normalized keys. */
static inline bool
bytes_shift_loses(int from, int to, uint64_t any)
{
	int			by = from - to;

	if (by >= BYTES_WORD)
		return by > BYTES_WORD || any != 0;
	return by > 0 && any << (64 - 8 * by) != 0;
}

/* ------------------------------------------------------------------------
 * Bit compaction
 *
 * Bits that are equal in all normalized keys can be removed without changing
 * their order; a letter then takes five bits instead of eight.  The remaining
 * bits move down in six steps, by 1, 2, 4, ... 32 positions.  Step s moves the
 * bits of moves[s].
 * ------------------------------------------------------------------------
 */

typedef struct BitCompaction
{
	uint64_t	mask;			/* the remaining bits; 0: no compaction */
	uint64_t	moves[6];
} BitCompaction;

static inline void
bit_compaction_init(BitCompaction *compaction, uint64_t mask)
{
	int			gone = 0;		/* number of removed bits below this bit */

	compaction->mask = mask;
	memset(compaction->moves, 0, sizeof(compaction->moves));
	for (int bit = 0; bit < 64; bit++)
	{
		int			place = bit;

		if ((mask >> bit & 1) == 0)
		{
			gone++;
			continue;
		}
		/* shorter moves come first, so no two bits collide */
		for (int s = 0; s < 6; s++)
		{
			if ((gone >> s & 1) != 0)
			{
				compaction->moves[s] |= UINT64_C(1) << place;
				place -= 1 << s;
			}
		}
	}
}

static inline uint64_t
bit_compact(const BitCompaction *compaction, uint64_t v)
{
	v &= compaction->mask;
	for (int s = 0; s < 6; s++)
	{
		uint64_t	moved = v & compaction->moves[s];

		v = (v ^ moved) | moved >> (1 << s);
	}
	return v;
}

#endif							/* GPUSORT_KEY_TYPE_BYTES_H */
