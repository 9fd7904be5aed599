/*
 * key_delta.h
 *	  Delta coding of sorted keys: blocks of differences of equal width.
 *
 * A block has up to KEY_DELTA_BLOCK keys.  Its head is two bytes: the width of a
 * difference in bits, and the number of keys.  The differences follow, each to the key
 * before, the first to the last key of the block before.  They lie bit by bit, the lowest
 * bits first, and the last byte is padded with zeros.  A width above KEY_DELTA_BITS is a
 * multiple of 8, so that one load at a byte's address has the whole difference.
 *
 * Keys have 64 or 128 bits.  Both are coded in the same way; a width of more than 64 bits
 * occurs with keys of 128 bits only.
 */
#ifndef GPUSORT_KEY_DELTA_H
#define GPUSORT_KEY_DELTA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernel/sort_kernel.h"

/* Most keys of a block. */
#define KEY_DELTA_BLOCK		64

/* Bytes of a block's head. */
#define KEY_DELTA_HEAD		2

/* Widest difference that may begin within a byte: with up to 7 bits before it, it fits 64 bits. */
#define KEY_DELTA_BITS		56

/* Bytes of the largest block of keys of this number of bytes, 8 or 16. */
#define KEY_DELTA_MAX(key_bytes)	(KEY_DELTA_HEAD + KEY_DELTA_BLOCK * (key_bytes))

/* Bytes after a block that may be overwritten when it is coded, and read when it is decoded. */
#define KEY_DELTA_SLACK		16

/*
 * Codes n keys, 1 to KEY_DELTA_BLOCK, that ascend from before on.  Returns the end of the
 * block.
 */
extern char *key_delta_encode64(uint64_t before, const uint64_t *keys, size_t n, char *out);
extern char *key_delta_encode128(SortKey before, const SortKey *keys, size_t n, char *out);

/* Decodes a block with a right head.  Returns the number of keys. */
extern size_t key_delta_decode64(uint64_t before, const char *in, uint64_t *keys);
extern size_t key_delta_decode128(SortKey before, const char *in, SortKey *keys);

/* Number of keys of a block, as its head tells. */
static inline size_t
key_delta_count(const char *in)
{
	return (uint8_t) in[1];
}

/* Bytes of the block with this head; 0 if no block of keys of key_bytes has it. */
static inline size_t
key_delta_size(const char *in, size_t key_bytes)
{
	size_t		width = (uint8_t) in[0];
	size_t		n = key_delta_count(in);

	if (n == 0 || n > KEY_DELTA_BLOCK || width > 8 * key_bytes || (width > KEY_DELTA_BITS && width % 8 != 0))
		return 0;
	return KEY_DELTA_HEAD + (n * width + 7) / 8;
}

#endif							/* GPUSORT_KEY_DELTA_H */
