/*
 * radix_split.c
 *	  Classifies words by splitters; see radix_split.h.
 *
 * SPLIT_LANES words descend the tree at once.  With AVX-512 the tree is in
 * registers; a level is looked up by permuting them, in a third of the time.
 */
#include "kernel/isa.h"
#include "kernel/radix/radix_split.h"
#include "kernel/rec.h"

/* SplitClasses in portable C, for a constant number of levels. */
static inline __attribute__((always_inline)) void
walk(const SplitDigit *s, const uint64_t *words, int n, uint8_t *classes, int levels)
{
	for (int k = 0; k < n; k += SPLIT_LANES)
	{
		uint64_t	node[SPLIT_LANES];
		uint64_t	w[SPLIT_LANES];

		for (int j = 0; j < SPLIT_LANES; j++)
		{
			w[j] = words[k + j] >> s->right << s->left;
			node[j] = 1;
		}
		for (int level = 0; level < levels; level++)
			for (int j = 0; j < SPLIT_LANES; j++)
				node[j] += node[j] + (s->tree[node[j]] < w[j]);
		for (int j = 0; j < SPLIT_LANES; j++)
		{
			uint64_t	leaf = node[j] - (1u << levels);

			classes[k + j] = 2 * leaf + (w[j] == s->sorted[leaf]);
		}
	}
}

/* Calls a function with the number of levels as a constant. */
#define BY_LEVELS(function) \
	do { \
		switch (s->levels) \
		{ \
			case 3: \
				function(s, words, n, classes, 3); \
				break; \
			case 5: \
				function(s, words, n, classes, 5); \
				break; \
			default: \
				function(s, words, n, classes, SPLIT_MAX_LEVELS); \
				break; \
		} \
	} while (0)

static void
classes_portable(const SplitDigit *s, const uint64_t *words, int n, uint8_t *classes)
{
	BY_LEVELS(walk);
}

#ifdef __x86_64__

#include <immintrin.h>

/* functions from here on may use AVX-512 */
#ifdef __clang__
#pragma clang attribute push (__attribute__((target("avx512f"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f")
#endif

/*
 * The splitters of nodes at a level; t is the tree in vectors of eight.
 * Permutations use only the low bits of a node's number.
 */
static inline __attribute__((always_inline)) __m512i
look_up(const __m512i *t, __m512i node, int level)
{
	__m512i		v[8];
	int			pairs = (1 << level) / 16;

	if (level < 3)
		return _mm512_permutexvar_epi64(node, t[0]);
	if (level == 3)
		return _mm512_permutexvar_epi64(node, t[1]);
	EACH (int i = 0; i < pairs; i++)
		v[i] = _mm512_permutex2var_epi64(t[2 * (pairs + i)], node, t[2 * (pairs + i) + 1]);
	EACH (int bit = 4; bit < level; bit++)
	{
		__mmask8	odd = _mm512_test_epi64_mask(node, _mm512_set1_epi64(1 << bit));

		pairs /= 2;
		EACH (int i = 0; i < pairs; i++)
			v[i] = _mm512_mask_mov_epi64(v[2 * i], odd, v[2 * i + 1]);
	}
	return v[0];
}

/* SplitClasses with AVX-512, for a constant number of levels. */
static inline __attribute__((always_inline)) void
walk_avx512(const SplitDigit *s, const uint64_t *words, int n, uint8_t *classes, int levels)
{
	__m512i		t[(SPLIT_MAX + 1) / 8];
	__m128i		right = _mm_cvtsi32_si128(s->right);
	__m128i		left = _mm_cvtsi32_si128(s->left);

	EACH (int i = 0; i < (SPLIT_MAX + 1) / 8; i++)
		if (i < 1 << (levels - 3))
			t[i] = _mm512_loadu_si512(s->tree + 8 * i);
	for (int k = 0; k < n; k += SPLIT_LANES)
	{
		__m512i		w = _mm512_sll_epi64(_mm512_srl_epi64(_mm512_loadu_si512(words + k), right), left);
		__m512i		node = _mm512_set1_epi64(1);
		__mmask8	equal = 0;

		EACH (int level = 0; level < levels; level++)
		{
			__m512i		v = look_up(t, node, level);
			__mmask8	above = _mm512_cmpgt_epu64_mask(w, v);

			equal |= _mm512_cmpeq_epu64_mask(w, v);
			node = _mm512_add_epi64(node, node);
			node = _mm512_mask_add_epi64(node, above, node, _mm512_set1_epi64(1));
		}
		node = _mm512_sub_epi64(node, _mm512_set1_epi64(1 << levels));
		node = _mm512_add_epi64(node, node);
		node = _mm512_mask_add_epi64(node, equal, node, _mm512_set1_epi64(1));
		_mm_storel_epi64((__m128i *) (classes + k), _mm512_cvtepi64_epi8(node));
	}
}

static void
classes_avx512(const SplitDigit *s, const uint64_t *words, int n, uint8_t *classes)
{
	BY_LEVELS(walk_avx512);
}

#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#endif							/* __x86_64__ */

SplitClasses
split_classes(void)
{
#ifdef __x86_64__
	if (sort_isa() == SORT_ISA_AVX512)
		return classes_avx512;
#endif
	return classes_portable;
}
