/*
 * bytes.h
 *	  Order-preserving unsigned images of strings of bytes.
 *
 * An image is the next eight bytes behind a prefix that all strings so far have in
 * common, the first uppermost, zeros behind the string's end: numbers then compare
 * as memcmp() does.  It is exact if no byte is left behind it and a zero behind the
 * end cannot be mistaken for one of the string's own: no text has such a byte.
 *
 * A string that has not the prefix sorts before or behind all that have it, and
 * gets the smallest or the largest image, which is true, but inexact.  While images
 * are kept in memory the prefix is shortened instead; those that are there already
 * move their bytes down and take in the prefix's last ones, which is a shift of
 * numbers: no string is read again.
 *
 * Plain C: the unit test shares it.
 */
#ifndef GPUSORT_KEY_TYPE_BYTES_H
#define GPUSORT_KEY_TYPE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define BYTES_WORD			8	/* bytes of an image */
#define BYTES_PREFIX_MAX	64

typedef struct BytesPrefix
{
	int			len;			/* -1: no string has come yet */
	bool		frozen;			/* images are compared with ones that are not here */
	uint8_t		bytes[BYTES_PREFIX_MAX];	/* behind len: those given up */
} BytesPrefix;

/* Eight bytes as a number whose order is theirs. */
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

/* The first up to eight of len bytes, zeros behind them; nothing else is read. */
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

		/* two loads that overlap */
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

/* How many bytes two strings have in common at their front. */
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

/* The same of strings that are likely to have much in common. */
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
 * The image of a string.  Sets *inexact if the string has more bytes, or not the
 * prefix; the image then is 0 or UINT64_MAX.
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

/* What was an image behind a prefix of from bytes becomes one behind the first to of them. */
static inline uint64_t
bytes_shift(const BytesPrefix *prefix, int from, int to, uint64_t normkey)
{
	int			by = from - to;
	uint64_t	front = bytes_word((const char *) prefix->bytes + to, (size_t) by);

	return by >= BYTES_WORD ? front : front | normkey >> (8 * by);
}

/* Does that lose more than the zeros behind ends?  any: bytes that some image has. */
static inline bool
bytes_shift_loses(int from, int to, uint64_t any)
{
	int			by = from - to;

	if (by >= BYTES_WORD)
		return by > BYTES_WORD || any != 0;
	return by > 0 && any << (64 - 8 * by) != 0;
}

/* ------------------------------------------------------------------------
 * Numbers without the bits in which they are all alike
 * ------------------------------------------------------------------------
 */

/*
 * Leaving out bits that are the same in all numbers keeps their order: a letter
 * then costs five bits instead of eight.  The bits that stay move down together in
 * six steps, by 1, 2, 4, ... 32 places: step s moves the bits of moves[s].
 */
typedef struct BitCompaction
{
	uint64_t	mask;			/* the bits that stay; 0: nothing is squeezed */
	uint64_t	moves[6];
} BitCompaction;

static inline void
bit_compaction_init(BitCompaction *compaction, uint64_t mask)
{
	int			gone = 0;		/* places that the next bit goes down */

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
		/* the short moves first, and no bit meets another on its way */
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
