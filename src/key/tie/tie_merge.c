/*
 * tie_merge.c
 *	  Values in the order of their comparator, and their ranks in it.
 *
 * Where only a comparator knows the order, and it may take a microsecond, what
 * counts is to ask it rarely: a merge sort is within a few per cent of the least
 * number of comparisons, and one for each pair of neighbouring runs more lets an
 * input in order pass with n of them.  The records hold the values, so that no row
 * is fetched for a comparison.
 */
#include "postgres.h"

#include "key/tie/tie_rows.h"

#define MERGE_FIRST_RUN		6

static inline int
compare(SortSupport ssup, const SortRec64 *a, const SortRec64 *b)
{
	return tie_compare(ssup, (Datum) a->key, (Datum) b->key);
}

static void
insertion_sort(SortSupport ssup, SortRec64 *recs, size_t n)
{
	for (size_t i = 1; i < n; i++)
	{
		SortRec64	rec = recs[i];
		size_t		j = i;

		for (; j > 0 && compare(ssup, &recs[j - 1], &rec) > 0; j--)
			recs[j] = recs[j - 1];
		recs[j] = rec;
	}
}

/* Merges a[0 .. na) and b[0 .. nb) into out; of equal ones a's come first. */
static void
merge_runs(SortSupport ssup, const SortRec64 *a, size_t na, const SortRec64 *b, size_t nb,
		   SortRec64 *out)
{
	if (nb == 0 || compare(ssup, &a[na - 1], &b[0]) <= 0)
	{
		memcpy(out, a, na * sizeof(SortRec64));
		memcpy(out + na, b, nb * sizeof(SortRec64));
		return;
	}
	while (na > 0 && nb > 0)
	{
		if (compare(ssup, a, b) <= 0)
		{
			*out++ = *a++;
			na--;
		}
		else
		{
			*out++ = *b++;
			nb--;
		}
	}
	memcpy(out, a, na * sizeof(SortRec64));
	memcpy(out + na, b, nb * sizeof(SortRec64));
}

void
tie_merge_sort(SortSupport ssup, SortRec64 *recs, SortRec64 *scratch, size_t n)
{
	SortRec64  *from = recs;
	SortRec64  *to = scratch;

	for (size_t start = 0; start < n; start += MERGE_FIRST_RUN)
		insertion_sort(ssup, recs + start, Min(MERGE_FIRST_RUN, n - start));
	for (size_t run = MERGE_FIRST_RUN; run < n; run *= 2)
	{
		SortRec64  *swap = from;

		for (size_t start = 0; start < n; start += 2 * run)
		{
			size_t		na = Min(run, n - start);
			size_t		nb = Min(run, n - start - na);

			merge_runs(ssup, from + start, na, from + start + na, nb, to + start);
		}
		from = to;
		to = swap;
	}
	if (from != recs)
		memcpy(recs, from, n * sizeof(SortRec64));
}

bool
tie_rank(SortSupport ssup, SortRec64 *recs, size_t n, bool ordered)
{
	uint32		rank = 0;

	recs[0].pad = 0;
	for (size_t i = 1; i < n; i++)
	{
		int			cmp;

		CHECK_FOR_INTERRUPTS();
		if (ordered || (i + TIE_PREFETCH < n && recs[i + TIE_PREFETCH].pad != TIE_BEHIND))
			tie_prefetch_value(recs, i, n);
		if (!ordered && recs[i].pad == TIE_BEHIND)
		{
			recs[i].pad = ++rank;
			continue;
		}
		cmp = compare(ssup, &recs[i - 1], &recs[i]);
		/* some contradict themselves */
		if (cmp > 0 && !ordered)
			return false;
		rank += cmp != 0;
		recs[i].pad = rank;
	}
	for (size_t i = 0; i < n; i++)
		recs[i].key = recs[i].pad;
	return true;
}
