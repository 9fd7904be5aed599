/*
 * merge_portable.c
 *	  Merging of 64-bit words in portable C: vectors are arrays of four words.
 */
#include "kernel/merge/merge_words.h"

#include <string.h>

#include "kernel/rec.h"

#define LANES	4

typedef struct vec
{
	uint64_t	w[LANES];
} vec;

#define INLINE static inline __attribute__((always_inline))

INLINE vec
vload(const uint64_t *p)
{
	vec			v;

	memcpy(&v, p, sizeof(v));
	return v;
}

INLINE void
vstore(uint64_t *p, vec v)
{
	memcpy(p, &v, sizeof(v));
}

/* Puts the lesser of two words into a. */
INLINE void
order(uint64_t *a, uint64_t *b)
{
	uint64_t	low = *a < *b ? *a : *b;

	*b = *a < *b ? *b : *a;
	*a = low;
}

INLINE vec
vmin(vec a, vec b)
{
	for (int i = 0; i < LANES; i++)
		a.w[i] = a.w[i] < b.w[i] ? a.w[i] : b.w[i];
	return a;
}

INLINE vec
vmax(vec a, vec b)
{
	for (int i = 0; i < LANES; i++)
		a.w[i] = a.w[i] < b.w[i] ? b.w[i] : a.w[i];
	return a;
}

INLINE vec
vreverse(vec v)
{
	vec			r = {{v.w[3], v.w[2], v.w[1], v.w[0]}};

	return r;
}

INLINE vec
vclean(vec v)
{
	order(&v.w[0], &v.w[2]);
	order(&v.w[1], &v.w[3]);
	order(&v.w[0], &v.w[1]);
	order(&v.w[2], &v.w[3]);
	return v;
}

INLINE void
vsort_columns(vec *r)
{
	vec			t[LANES];

	for (int c = 0; c < LANES; c++)
	{
		order(&r[0].w[c], &r[1].w[c]);
		order(&r[2].w[c], &r[3].w[c]);
		order(&r[0].w[c], &r[2].w[c]);
		order(&r[1].w[c], &r[3].w[c]);
		order(&r[1].w[c], &r[2].w[c]);
	}
	for (int i = 0; i < LANES; i++)
		for (int j = 0; j < LANES; j++)
			t[i].w[j] = r[j].w[i];
	memcpy(r, t, sizeof(t));
}

#include "kernel/merge/merge_template.h"

const MergeOps merge_ops_portable = {sort_chunk, tree_start, tree_next};
