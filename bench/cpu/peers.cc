/*
 * peers.cc
 *	  Other sort implementations in bench/kernels: std::sort, C's qsort and, if
 *	  Highway's sort library is installed (GPUSORT_HAVE_VQSORT), vqsort.
 *
 * Each gets its best layout, prepared outside the timed part: (32-bit key, 32-bit
 * rid) as one 64-bit word; (64-bit key, rid) as K64V64 for vqsort and as our
 * 16-byte record for the other peers; 128-bit keys without rids for vqsort,
 * which has no such pair, and as our 24-byte record for the other peers.  They
 * are not stable, so only the order of keys is checked.
 */
#include "bench_algorithm.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#ifdef GPUSORT_HAVE_VQSORT
#include <hwy/contrib/sort/vqsort.h>
#endif

static size_t
no_work_bytes(const BenchCase *)
{
	return 0;
}

static const char *
one_thread_only(const BenchCase *c)
{
	return c->threads > 1 ? "one thread only" : nullptr;
}

static bool
less64(const SortRec64 &a, const SortRec64 &b)
{
	return a.key < b.key;
}

static bool
less128(const SortRec128 &a, const SortRec128 &b)
{
	return a.hi != b.hi ? a.hi < b.hi : a.lo < b.lo;
}

static double
std_sort_run(BenchCase *c, const void **output)
{
	size_t		n = c->shape.n;
	double		start;

	memcpy(c->recs, c->input, n * sort_rec_size(c->shape.format));
	*output = c->recs;
	start = bench_now();
	switch (c->shape.format)
	{
		case SORT_REC_PACKED:
			std::sort((uint64_t *) c->recs, (uint64_t *) c->recs + n);
			break;
		case SORT_REC_64:
			std::sort((SortRec64 *) c->recs, (SortRec64 *) c->recs + n, less64);
			break;
		case SORT_REC_128:
			std::sort((SortRec128 *) c->recs, (SortRec128 *) c->recs + n, less128);
			break;
	}
	return bench_now() - start;
}

static int
compare_packed(const void *a, const void *b)
{
	uint64_t	x = *(const uint64_t *) a;
	uint64_t	y = *(const uint64_t *) b;

	return (x > y) - (x < y);
}

static int
compare64(const void *a, const void *b)
{
	const SortRec64 *x = (const SortRec64 *) a;
	const SortRec64 *y = (const SortRec64 *) b;

	return (x->key > y->key) - (x->key < y->key);
}

static int
compare128(const void *a, const void *b)
{
	const SortRec128 *x = (const SortRec128 *) a;
	const SortRec128 *y = (const SortRec128 *) b;

	if (x->hi != y->hi)
		return x->hi > y->hi ? 1 : -1;
	return (x->lo > y->lo) - (x->lo < y->lo);
}

static double
qsort_run(BenchCase *c, const void **output)
{
	size_t		size = sort_rec_size(c->shape.format);
	double		start;

	memcpy(c->recs, c->input, c->shape.n * size);
	*output = c->recs;
	start = bench_now();
	qsort(c->recs, c->shape.n, size,
		  c->shape.format == SORT_REC_PACKED ? compare_packed :
		  c->shape.format == SORT_REC_64 ? compare64 : compare128);
	return bench_now() - start;
}

static const BenchAlgorithm std_sort = {
	"std_sort", 32, CASE_ORDER, one_thread_only, no_work_bytes, std_sort_run
};
static const BenchAlgorithm qsort_ = {
	"qsort", 32, CASE_ORDER, one_thread_only, no_work_bytes, qsort_run
};

#ifdef GPUSORT_HAVE_VQSORT

static const char *
vqsort_pairs_refuses(const BenchCase *c)
{
	if (c->key_bits == 128)
		return "vqsort has no pair of that width; vqsort_keys sorts the keys alone";
	return one_thread_only(c);
}

static const char *
vqsort_keys_refuses(const BenchCase *c)
{
	if (c->key_bits != 128)
		return "only 128-bit keys are sorted without rids here";
	return one_thread_only(c);
}

/* Copies the sorted keys into records. */
static size_t
vqsort_work_bytes(const BenchCase *c)
{
	return c->shape.format == SORT_REC_PACKED ? 0 :
		c->shape.n * sort_rec_size(c->shape.format);
}

static double
vqsort_run(BenchCase *c, const void **output)
{
	size_t		n = c->shape.n;
	hwy::Sorter sorter;
	double		start;
	double		seconds;

	if (c->shape.format == SORT_REC_PACKED)
	{
		memcpy(c->recs, c->input, n * sizeof(uint64_t));
		start = bench_now();
		sorter((hwy::K32V32 *) c->recs, n, hwy::SortAscending());
		*output = c->recs;
		return bench_now() - start;
	}
	if (c->shape.format == SORT_REC_64)
	{
		const SortRec64 *input = (const SortRec64 *) c->input;
		hwy::K64V64 *pairs = (hwy::K64V64 *) c->recs;
		SortRec64  *out = (SortRec64 *) c->work;

		for (size_t i = 0; i < n; i++)
		{
			pairs[i].key = input[i].key;
			pairs[i].value = input[i].rid;
		}
		start = bench_now();
		sorter(pairs, n, hwy::SortAscending());
		seconds = bench_now() - start;
		for (size_t i = 0; i < n; i++)
		{
			out[i].key = pairs[i].key;
			out[i].rid = (uint32_t) pairs[i].value;
			out[i].pad = 0;
		}
		*output = out;
		return seconds;
	}

	const SortRec128 *input = (const SortRec128 *) c->input;
	hwy::uint128_t *keys = (hwy::uint128_t *) c->recs;
	SortRec128 *out = (SortRec128 *) c->work;

	for (size_t i = 0; i < n; i++)
	{
		keys[i].hi = input[i].hi;
		keys[i].lo = input[i].lo;
	}
	start = bench_now();
	sorter(keys, n, hwy::SortAscending());
	seconds = bench_now() - start;
	for (size_t i = 0; i < n; i++)
	{
		out[i].hi = keys[i].hi;
		out[i].lo = keys[i].lo;
		out[i].rid = 0;
		out[i].pad = 0;
	}
	*output = out;
	return seconds;
}

#else							/* no vqsort */

static const char *
vqsort_absent(const BenchCase *)
{
	return "absent: built without Highway's sort library (Debian: libhwy-dev)";
}
#define vqsort_pairs_refuses	vqsort_absent
#define vqsort_keys_refuses		vqsort_absent
#define vqsort_work_bytes		no_work_bytes
#define vqsort_run				std_sort_run

#endif

static const BenchAlgorithm vqsort = {
	"vqsort", 32, CASE_ORDER, vqsort_pairs_refuses, vqsort_work_bytes, vqsort_run
};
static const BenchAlgorithm vqsort_keys = {
	"vqsort_keys", 0, CASE_KEYS, vqsort_keys_refuses, vqsort_work_bytes, vqsort_run
};

extern "C" const BenchAlgorithm *const bench_peers[] = {
	&std_sort, &vqsort, &vqsort_keys, &qsort_, nullptr
};
