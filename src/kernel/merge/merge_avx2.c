/*
 * merge_avx2.c
 *	  Merging of 64-bit words with AVX2: vectors of four words.
 *
 * AVX2 compares 64-bit lanes only as signed numbers.  Loads and stores
 * therefore invert the top bit.
 */
#ifdef __x86_64__

#include "kernel/merge/merge_words.h"

#include <immintrin.h>
#include <string.h>

#include "kernel/rec.h"

/* functions from here on may use AVX2 */
#ifdef __clang__
#pragma clang attribute push (__attribute__((target("avx2"))), apply_to = function)
#else
#pragma GCC target("avx2")
#endif

#define LANES				4
#define vec					__m256i
#define INLINE				static inline __attribute__((always_inline))

INLINE vec
vload(const uint64_t *p)
{
	return _mm256_xor_si256(_mm256_loadu_si256((const __m256i *) p),
							_mm256_set1_epi64x(INT64_MIN));
}

INLINE void
vstore(uint64_t *p, vec v)
{
	_mm256_storeu_si256((__m256i *) p, _mm256_xor_si256(v, _mm256_set1_epi64x(INT64_MIN)));
}

INLINE vec
vmin(vec a, vec b)
{
	return _mm256_blendv_epi8(a, b, _mm256_cmpgt_epi64(a, b));
}

INLINE vec
vmax(vec a, vec b)
{
	return _mm256_blendv_epi8(b, a, _mm256_cmpgt_epi64(a, b));
}

INLINE vec
vreverse(vec v)
{
	return _mm256_permute4x64_epi64(v, 0x1b);
}

INLINE vec
vclean(vec v)
{
	vec			s = _mm256_permute4x64_epi64(v, 0x4e);

	v = _mm256_blend_epi32(vmin(v, s), vmax(v, s), 0xf0);
	s = _mm256_shuffle_epi32(v, 0x4e);
	return _mm256_blend_epi32(vmin(v, s), vmax(v, s), 0xcc);
}

#define ORDER(a, b) \
	do { \
		vec			low_ = vmin(a, b); \
		b = vmax(a, b); \
		a = low_; \
	} while (0)

INLINE void
vsort_columns(vec *r)
{
	vec			a;
	vec			b;
	vec			c;
	vec			d;

	ORDER(r[0], r[1]);
	ORDER(r[2], r[3]);
	ORDER(r[0], r[2]);
	ORDER(r[1], r[3]);
	ORDER(r[1], r[2]);
	a = _mm256_unpacklo_epi64(r[0], r[1]);
	b = _mm256_unpackhi_epi64(r[0], r[1]);
	c = _mm256_unpacklo_epi64(r[2], r[3]);
	d = _mm256_unpackhi_epi64(r[2], r[3]);
	r[0] = _mm256_permute2x128_si256(a, c, 0x20);
	r[1] = _mm256_permute2x128_si256(b, d, 0x20);
	r[2] = _mm256_permute2x128_si256(a, c, 0x31);
	r[3] = _mm256_permute2x128_si256(b, d, 0x31);
}

#include "kernel/merge/merge_template.h"

const MergeOps merge_ops_avx2 = {sort_chunk, tree_start, tree_next};

#ifdef __clang__
#pragma clang attribute pop
#endif

#endif							/* __x86_64__ */
