/*
 * key_delta_test.c
 *	  Unit test of the delta coding of sorted keys (kernel/key_delta.h).
 *
 * Random sorted keys of 64 and 128 bits are coded and decoded, with differences of all
 * widths.  Blocks have exactly their bytes and KEY_DELTA_SLACK, so that the sanitizers
 * notice an access behind them.  A damaged head must be refused or decode within the
 * buffers.  GPUSORT_SEED repeats the random keys, GPUSORT_CASES sets the number of cases.
 */
#include "kernel/key_delta.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static uint64_t state;

static uint64_t
random64(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state * UINT64_C(2685821657736338717);
}

static unsigned
pick(unsigned n)
{
	return (unsigned) ((random64() >> 32) % n);
}

static void
fail(const char *what, int number)
{
	printf("not ok: %s (case %d)\n", what, number);
	exit(1);
}

/* A number of up to this number of bits. */
static SortKey
random_bits(unsigned bits)
{
	SortKey		number = (SortKey) random64() << 64 | random64();

	return bits == 0 ? 0 : number >> (128 - bits);
}

/* Bytes that a block of n differences of this width should take. */
static size_t
expected_size(unsigned width, size_t n)
{
	if (width > KEY_DELTA_BITS)
		width = (width + 7) / 8 * 8;
	return KEY_DELTA_HEAD + (n * width + 7) / 8;
}

/* Codes and decodes n keys whose largest difference has exactly this number of bits. */
static void
test_block(unsigned key_bytes, unsigned width, size_t n, int number)
{
	SortKey		keys[KEY_DELTA_BLOCK];
	uint64_t	words[KEY_DELTA_BLOCK];
	SortKey		before;
	SortKey		key;
	size_t		largest = pick((unsigned) n);
	SortKey		top = width == 0 ? 0 : (SortKey) 1 << (width - 1);
	size_t		room = KEY_DELTA_MAX(key_bytes) + KEY_DELTA_SLACK;
	char	   *out = malloc(room);
	char	   *in;
	char	   *end;
	size_t		size;
	size_t		count;

	/* the sum of the differences must fit the key */
	before = width + 7 < 8 * key_bytes ? random_bits(8 * key_bytes) >> 1 : 0;
	if (width + 7 < 8 * key_bytes)
		before &= ((SortKey) 1 << (8 * key_bytes - 2)) - 1;
	key = before;
	for (size_t i = 0; i < n; i++)
	{
		SortKey		difference = i == largest ? top | random_bits(width == 0 ? 0 : width - 1) :
			width + 7 < 8 * key_bytes ? random_bits(pick(width + 1)) : 0;

		key += difference;
		keys[i] = key;
		words[i] = (uint64_t) key;
	}
	end = key_bytes == 8 ? key_delta_encode64((uint64_t) before, words, n, out) :
		key_delta_encode128(before, keys, n, out);
	size = (size_t) (end - out);
	if (size != expected_size(width, n) || size != key_delta_size(out, key_bytes) || key_delta_count(out) != n)
		fail("size of a block", number);

	in = malloc(size + KEY_DELTA_SLACK);
	memcpy(in, out, size);
	memset(in + size, 0x55, KEY_DELTA_SLACK);
	if (key_bytes == 8)
	{
		uint64_t   *decoded = malloc(n * sizeof(uint64_t));

		count = key_delta_decode64((uint64_t) before, in, decoded);
		if (count != n || memcmp(decoded, words, n * sizeof(uint64_t)) != 0)
			fail("64-bit keys differ", number);
		free(decoded);
	}
	else
	{
		SortKey    *decoded = malloc(n * sizeof(SortKey));

		count = key_delta_decode128(before, in, decoded);
		if (count != n || memcmp(decoded, keys, n * sizeof(SortKey)) != 0)
			fail("128-bit keys differ", number);
		free(decoded);
	}
	free(in);
	free(out);
}

/* Any head either is refused, or tells a size within the limits, and that block is decoded. */
static void
test_damage(unsigned key_bytes)
{
	char		in[KEY_DELTA_MAX(sizeof(SortKey)) + KEY_DELTA_SLACK];
	SortKey		keys[KEY_DELTA_BLOCK];
	size_t		size;

	for (size_t i = 0; i < sizeof(in); i++)
		in[i] = (char) pick(256);
	size = key_delta_size(in, key_bytes);
	if (size == 0)
		return;
	if (size > KEY_DELTA_MAX(key_bytes))
		fail("size of a damaged block", 0);
	if (key_bytes == 8)
		(void) key_delta_decode64(random64(), in, (uint64_t *) keys);
	else
		(void) key_delta_decode128(random64(), in, keys);
}

int
main(void)
{
	const char *seed = getenv("GPUSORT_SEED");
	const char *cases = getenv("GPUSORT_CASES");
	int			ncases = cases && *cases ? atoi(cases) : 3000;

	state = seed && *seed ? strtoull(seed, NULL, 10) : (uint64_t) time(NULL);
	printf("key_delta: seed %llu\n", (unsigned long long) state);
	state = (state + 1) * UINT64_C(0x9E3779B97F4A7C15);

	/* all widths, with one key and with a whole block */
	for (unsigned width = 0; width <= 128; width++)
	{
		if (width <= 64)
		{
			test_block(8, width, 1, (int) width);
			test_block(8, width, KEY_DELTA_BLOCK, (int) width);
		}
		test_block(16, width, 1, (int) width);
		test_block(16, width, KEY_DELTA_BLOCK, (int) width);
	}
	for (int i = 0; i < ncases; i++)
	{
		unsigned	key_bytes = pick(2) == 0 ? 8 : 16;

		test_block(key_bytes, pick(8 * key_bytes + 1), 1 + pick(KEY_DELTA_BLOCK), i);
		test_damage(key_bytes);
	}
	printf("ok: %d cases\n", ncases);
	return 0;
}
