/*
 * merge_avx512.c
 *	  Merging of 64-bit words with AVX-512: vectors of eight words.
 */
#ifdef __x86_64__

#include "kernel/merge/merge_words.h"

#include <immintrin.h>
#include <string.h>

#include "kernel/rec.h"

/* functions from here on may use AVX-512 */
#ifdef __clang__
#pragma clang attribute push (__attribute__((target("avx512f"))), apply_to = function)
#else
#pragma GCC target("avx512f")
#endif

#define LANES				8
#define vec					__m512i
#define INLINE				static inline __attribute__((always_inline))

INLINE vec
vload(const uint64_t *p)
{
	return _mm512_loadu_si512(p);
}

INLINE void
vstore(uint64_t *p, vec v)
{
	_mm512_storeu_si512(p, v);
}

INLINE vec
vmin(vec a, vec b)
{
	return _mm512_min_epu64(a, b);
}

INLINE vec
vmax(vec a, vec b)
{
	return _mm512_max_epu64(a, b);
}

INLINE vec
vreverse(vec v)
{
	return _mm512_permutexvar_epi64(_mm512_setr_epi64(7, 6, 5, 4, 3, 2, 1, 0), v);
}

INLINE vec
vclean(vec v)
{
	vec			s = _mm512_shuffle_i64x2(v, v, 0x4e);

	v = _mm512_mask_max_epu64(_mm512_min_epu64(v, s), 0xf0, v, s);
	s = _mm512_permutex_epi64(v, 0x4e);
	v = _mm512_mask_max_epu64(_mm512_min_epu64(v, s), 0xcc, v, s);
	s = _mm512_permutex_epi64(v, 0xb1);
	return _mm512_mask_max_epu64(_mm512_min_epu64(v, s), 0xaa, v, s);
}

#define ORDER(i, j) \
	do { \
		vec			low_ = vmin(r[i], r[j]); \
		r[j] = vmax(r[i], r[j]); \
		r[i] = low_; \
	} while (0)

INLINE void
vsort_columns(vec *r)
{
	vec			t[8];

	/* Batcher's odd-even merge network for eight words: 19 comparators */
	ORDER(0, 1);
	ORDER(2, 3);
	ORDER(4, 5);
	ORDER(6, 7);
	ORDER(0, 2);
	ORDER(1, 3);
	ORDER(4, 6);
	ORDER(5, 7);
	ORDER(1, 2);
	ORDER(5, 6);
	ORDER(0, 4);
	ORDER(1, 5);
	ORDER(2, 6);
	ORDER(3, 7);
	ORDER(2, 4);
	ORDER(3, 5);
	ORDER(1, 2);
	ORDER(3, 4);
	ORDER(5, 6);

	/* transpose: pairs of words, then pairs of pairs, then halves */
	for (int i = 0; i < 8; i += 2)
	{
		t[i] = _mm512_unpacklo_epi64(r[i], r[i + 1]);
		t[i + 1] = _mm512_unpackhi_epi64(r[i], r[i + 1]);
	}
	for (int i = 0; i < 8; i += 4)
		for (int j = 0; j < 2; j++)
		{
			r[i + j] = _mm512_shuffle_i64x2(t[i + j], t[i + j + 2], 0x88);
			r[i + j + 2] = _mm512_shuffle_i64x2(t[i + j], t[i + j + 2], 0xdd);
		}
	for (int j = 0; j < 4; j++)
	{
		t[j] = _mm512_shuffle_i64x2(r[j], r[j + 4], 0x88);
		t[j + 4] = _mm512_shuffle_i64x2(r[j], r[j + 4], 0xdd);
	}
	for (int j = 0; j < 8; j++)
		r[j] = t[j];
}

#include "kernel/merge/merge_template.h"

const MergeOps merge_ops_avx512 = {sort_chunk, tree_start, tree_next};

#ifdef __clang__
#pragma clang attribute pop
#endif

#endif							/* __x86_64__ */
