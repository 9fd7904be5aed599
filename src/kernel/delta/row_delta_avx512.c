/*
 * row_delta_avx512.c
 *	  Delta coding of sorted rows with AVX-512: blocks of 64 bytes.
 *
 * One instruction compares a block with the row before, one moves the bytes that differ
 * together (VPCOMPRESSB), and one puts them back in their places (VPEXPANDB).
 */
#ifdef __x86_64__

#include "kernel/row_delta.h"

#include <immintrin.h>
#include <string.h>

/* functions from here on may use AVX-512 */
#ifdef __clang__
#pragma clang attribute push (__attribute__((target("avx512f,avx512bw,avx512vbmi2,bmi2,popcnt"))), apply_to = function)
#else
#pragma GCC target("avx512f,avx512bw,avx512vbmi2,bmi2,popcnt")
#endif

#define INLINE				static inline __attribute__((always_inline))
#define BLOCK				64	/* bytes */
#define WORDS				(BLOCK / 8)
#define unlikely(x)			__builtin_expect((x) != 0, 0)

/* The lowest n bits, n up to 64. */
INLINE uint64_t
low_bits(size_t n)
{
	return _bzhi_u64(~(uint64_t) 0, (unsigned) n);
}

INLINE uint64_t
load_mask(const char *p)
{
	uint64_t	mask;

	memcpy(&mask, p, sizeof(mask));
	return mask;
}

INLINE void
store_mask(char *p, uint64_t mask)
{
	memcpy(p, &mask, sizeof(mask));
}

/* The bits of those bytes of a block that are within the row's head; the block begins at this word. */
INLINE uint64_t
bytes_within(size_t words, size_t first)
{
	return low_bits(words - first < WORDS ? 8 * (words - first) : BLOCK);
}

/* Compares a block with the previous row's, *before, and stores it there; returns a bit for each byte that differs. */
INLINE uint64_t
compare_block(__m512i *before, __m512i block, uint64_t within)
{
	uint64_t	differ = _mm512_mask_cmpneq_epi8_mask(within, block, *before);

	*before = _mm512_mask_mov_epi8(*before, within, block);
	return differ;
}

/* Stores the bytes of the block that the mask has; returns their end. */
INLINE char *
store_bytes(char *stored, uint64_t mask, __m512i block)
{
	_mm512_storeu_si512(stored, _mm512_maskz_compress_epi8(mask, block));
	return stored + _mm_popcnt_u64(mask);
}

/*
 * Codes the blocks after the second one.  A mask's last bytes overwrite what follows it, so
 * the stored bytes of all blocks are written after all masks.
 */
static char *
encode_long(char *head, const char *row, size_t words, char *masks, uint64_t mask0, __m512i block0, uint64_t mask1,
			__m512i block1)
{
	uint64_t	mask[DELTA_HEAD / BLOCK];
	__m512i		block[DELTA_HEAD / BLOCK];
	char	   *stored = masks + words;

	for (size_t w = 2 * WORDS; w < words; w += WORDS)
	{
		uint64_t	within = bytes_within(words, w);
		__m512i		before = _mm512_loadu_si512(head + 8 * w);

		block[w / WORDS] = _mm512_maskz_loadu_epi8(within, row + 8 * w);
		mask[w / WORDS] = compare_block(&before, block[w / WORDS], within);
		_mm512_storeu_si512(head + 8 * w, before);
		store_mask(masks + w, mask[w / WORDS]);
	}
	stored = store_bytes(stored, mask0, block0);
	stored = store_bytes(stored, mask1, block1);
	for (size_t w = 2 * WORDS; w < words; w += WORDS)
		stored = store_bytes(stored, mask[w / WORDS], block[w / WORDS]);
	return stored;
}

static size_t
encode_avx512(char *head, const char *const *rows, size_t n, DeltaIgnored ignored, char *out, char **end)
{
	const uint64_t coded = ~ignored & ~DELTA_LENGTH_BITS;
	uint32_t	len_before = delta_length(head);
	__m512i		before0 = _mm512_loadu_si512(head);
	__m512i		before1 = _mm512_loadu_si512(head + BLOCK);
	size_t		i = 0;

	while (i < n)
	{
		const char *row = rows[i++];
		uint32_t	len = delta_length(row);
		size_t		words = delta_words(len);
		char	   *masks = out;
		uint64_t	within = bytes_within(words, 0);
		__m512i		block0 = _mm512_maskz_loadu_epi8(within, row);
		__m512i		block1;
		uint64_t	mask0 = compare_block(&before0, block0, within) & coded;
		uint64_t	mask1;

		if (len != len_before)
		{
			memcpy(out + 1, &len, sizeof(len));
			masks += sizeof(len);
			len_before = len;
		}
		/* the first byte of the mask stands before the length */
		store_mask(masks + 1, mask0 >> 8);
		*out = (char) (masks == out ? mask0 : mask0 | DELTA_LENGTH_BITS);
		if (words <= WORDS)
		{
			out = store_bytes(masks + words, mask0, block0);
			continue;
		}
		within = bytes_within(words, WORDS);
		block1 = _mm512_maskz_loadu_epi8(within, row + BLOCK);
		mask1 = compare_block(&before1, block1, within);
		store_mask(masks + WORDS, mask1);
		if (words <= 2 * WORDS)
		{
			out = store_bytes(masks + words, mask0, block0);
			out = store_bytes(out, mask1, block1);
			continue;
		}
		out = encode_long(head, row, words, masks, mask0, block0, mask1, block1);
		if (len > DELTA_HEAD)
			break;
	}
	_mm512_storeu_si512(head, before0);
	_mm512_storeu_si512(head + BLOCK, before1);
	*end = out;
	return i;
}

static DeltaStop
decode_avx512(DeltaDecoder *decoder)
{
	char	   *head = decoder->head;
	const char *in = decoder->in;
	char	   *out = decoder->out;
	uint32_t	len = delta_length(head);
	__m512i		block0 = _mm512_loadu_si512(head);
	__m512i		block1 = _mm512_loadu_si512(head + BLOCK);
	DeltaStop	stop;

	for (;;)
	{
		const char *masks = in;
		const char *stored;
		uint64_t	first;
		uint64_t	mask;
		uint32_t	next = len;
		size_t		size;
		size_t		words;

		if (unlikely(decoder->in_end - in < DELTA_RECORD_MAX) &&
			!delta_record_is_whole(in, decoder->in_end, len))
		{
			stop = DELTA_INPUT;
			break;
		}
		first = (uint8_t) *in;
		if ((first & DELTA_LENGTH_BITS) != 0)
		{
			next = delta_length(in + 1);
			masks += sizeof(next);
		}
		size = delta_padded(next);
		if (unlikely(next < DELTA_ROW_MIN || size > decoder->longest))
		{
			stop = DELTA_CORRUPT;
			break;
		}
		if (unlikely(size > (size_t) (decoder->out_end - out)))
		{
			decoder->need = size;
			stop = DELTA_ROOM;
			break;
		}
		len = next;
		words = delta_words(len);
		stored = masks + words;
		mask = ((load_mask(masks) & ~(uint64_t) 0xff) | (first & ~DELTA_LENGTH_BITS)) & bytes_within(words, 0);
		block0 = _mm512_mask_expand_epi8(block0, mask, _mm512_loadu_si512(stored));
		block0 = _mm512_mask_set1_epi32(block0, 1, (int) len);
		_mm512_storeu_si512(out, block0);
		stored += _mm_popcnt_u64(mask);
		if (words > WORDS)
		{
			mask = load_mask(masks + WORDS) & bytes_within(words, WORDS);
			block1 = _mm512_mask_expand_epi8(block1, mask, _mm512_loadu_si512(stored));
			_mm512_storeu_si512(out + BLOCK, block1);
			stored += _mm_popcnt_u64(mask);
		}
		for (size_t w = 2 * WORDS; w < words; w += WORDS)
		{
			__m512i		block = _mm512_loadu_si512(head + 8 * w);

			mask = load_mask(masks + w) & bytes_within(words, w);
			block = _mm512_mask_expand_epi8(block, mask, _mm512_loadu_si512(stored));
			_mm512_storeu_si512(head + 8 * w, block);
			_mm512_storeu_si512(out + 8 * w, block);
			stored += _mm_popcnt_u64(mask);
		}
		in = stored;
		out += 8 * words;
		if (unlikely(len > DELTA_HEAD))
		{
			stop = DELTA_LONG;
			break;
		}
	}
	_mm512_storeu_si512(head, block0);
	_mm512_storeu_si512(head + BLOCK, block1);
	decoder->in = in;
	decoder->out = out;
	return stop;
}

const DeltaOps delta_ops_avx512 = {encode_avx512, decode_avx512};

#ifdef __clang__
#pragma clang attribute pop
#endif

#endif							/* __x86_64__ */
