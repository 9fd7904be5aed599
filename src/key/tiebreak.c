/*
 * tiebreak.c
 *	  The authoritative order of two rows, by their types' own comparators.
 *
 * A key that had to be cut says "before" and "after" truly, but "equal" only as
 * far as it goes.  Rows with equal cut keys are compared here, all columns from
 * the first, with the SortSupport comparators that a stock Sort would use.
 * Equal rows keep their rids' order, which is the input's.
 *
 * Memory policy: comparators are looked up on the first use, for most sorts
 * never have a tie to break; short runs are sorted in place by insertion, long
 * ones by the server's qsort.  An ERROR in a comparator passes through: nothing
 * is held here.
 */
#include "postgres.h"

#include "executor/tuptable.h"
#include "key/tiebreak.h"
#include "miscadmin.h"
#include "store/row.h"
#include "utils/sortsupport.h"

#define TIE_INSERTION_MAX	8

struct TieBreak
{
	MemoryContext cxt;
	TupleDesc	desc;
	const KeyColumn *keys;
	int			nkeys;
	int			last_att;
	SortSupportData *ssup;		/* NULL until needed */
	TupleTableSlot *slot_a;
	TupleTableSlot *slot_b;
	const Arena *arena;			/* of the sort in progress */
};

TieBreak *
tiebreak_create(MemoryContext cxt, TupleDesc desc, const KeyColumn *keys, int nkeys)
{
	TieBreak   *tb = MemoryContextAllocZero(cxt, sizeof(TieBreak));

	tb->cxt = cxt;
	tb->desc = desc;
	tb->keys = keys;
	tb->nkeys = nkeys;
	return tb;
}

static void
tiebreak_prepare(TieBreak *tb)
{
	MemoryContext old = MemoryContextSwitchTo(tb->cxt);
	SortSupportData *ssup = palloc0(tb->nkeys * sizeof(SortSupportData));

	for (int k = 0; k < tb->nkeys; k++)
	{
		ssup[k].ssup_cxt = tb->cxt;
		ssup[k].ssup_collation = tb->keys[k].collation;
		ssup[k].ssup_nulls_first = tb->keys[k].nulls_first;
		ssup[k].ssup_attno = tb->keys[k].attno;
		ssup[k].abbreviate = false;
		PrepareSortSupportFromOrderingOp(tb->keys[k].sortop, &ssup[k]);
		tb->last_att = Max(tb->last_att, tb->keys[k].attno);
	}
	tb->slot_a = MakeSingleTupleTableSlot(tb->desc, &TTSOpsMinimalTuple);
	tb->slot_b = MakeSingleTupleTableSlot(tb->desc, &TTSOpsMinimalTuple);
	tb->ssup = ssup;
	MemoryContextSwitchTo(old);
}

int
tiebreak_compare_slot(TieBreak *tb, TupleTableSlot *sa, MinimalTuple b)
{
	TupleTableSlot *sb;

	if (tb->ssup == NULL)
		tiebreak_prepare(tb);
	sb = tb->slot_b;
	row_to_slot(sb, b);
	slot_getsomeattrs(sa, tb->last_att);
	slot_getsomeattrs(sb, tb->last_att);
	for (int k = 0; k < tb->nkeys; k++)
	{
		int			att = tb->keys[k].attno - 1;
		int			cmp = ApplySortComparator(sa->tts_values[att], sa->tts_isnull[att],
											  sb->tts_values[att], sb->tts_isnull[att],
											  &tb->ssup[k]);

		if (cmp != 0)
			return cmp;
	}
	return 0;
}

int
tiebreak_compare(TieBreak *tb, MinimalTuple a, MinimalTuple b)
{
	if (tb->ssup == NULL)
		tiebreak_prepare(tb);
	row_to_slot(tb->slot_a, a);
	return tiebreak_compare_slot(tb, tb->slot_a, b);
}

static inline int
compare_rids(TieBreak *tb, uint32 a, uint32 b)
{
	int			cmp = tiebreak_compare(tb, (MinimalTuple) arena_at(tb->arena, a),
									   (MinimalTuple) arena_at(tb->arena, b));

	return cmp != 0 ? cmp : (a > b) - (a < b);
}

static int
qsort_compare(const void *a, const void *b, void *arg)
{
	CHECK_FOR_INTERRUPTS();
	return compare_rids(arg, *(const uint32 *) a, *(const uint32 *) b);
}

void
tiebreak_sort(TieBreak *tb, const Arena *arena, uint32 *rids, size_t n)
{
	tb->arena = arena;
	if (n > TIE_INSERTION_MAX)
	{
		qsort_arg(rids, n, sizeof(uint32), qsort_compare, tb);
		return;
	}
	for (size_t i = 1; i < n; i++)
	{
		uint32		rid = rids[i];
		size_t		j = i;

		for (; j > 0 && compare_rids(tb, rids[j - 1], rid) > 0; j--)
			rids[j] = rids[j - 1];
		rids[j] = rid;
	}
}
