/*
 * tiebreak.c
 *	  The order of rows whose keys do not tell it.
 *
 * A key that had to be cut, or an inexact image, says "before" and "after" truly, but
 * "equal" only as far as it goes.  Rows with equal such keys are told apart here,
 * all columns from the first: by images where these are exact, by bytes where the
 * order is theirs, otherwise by the SortSupport comparators that a stock Sort would
 * use.  Equal rows keep their rids' order, which is the input's.
 *
 * A few rows are compared with each other, unless they are long; how many are ordered,
 * tie_rounds.c says.
 *
 * Memory policy: comparators are looked up on the first use, for most sorts never
 * need one; rounds take 16 bytes a row and as much scratch from the sort's own
 * memory.  An ERROR in a comparator passes through: nothing is held here.
 */
#include "postgres.h"

#include "key/key_internal.h"
#include "tiebreak/tiebreak_internal.h"

TieBreak *
tiebreak_create(MemoryContext cxt, BulkOwner *owner, TupleDesc desc,
				const KeyColumn *keys, int nkeys)
{
	TieBreak   *tb = MemoryContextAllocZero(cxt, offsetof(TieBreak, cols) +
											nkeys * sizeof(TieColumn));

	tb->cxt = cxt;
	tb->owner = owner;
	tb->desc = desc;
	tb->keys = keys;
	tb->nkeys = nkeys;
	for (int k = 0; k < nkeys; k++)
	{
		TieColumn  *col = &tb->cols[k];

		col->attno = keys[k].attno;
		col->kind = keys[k].kind;
		col->by_bytes = key_by_bytes(keys[k].kind);
		col->exact = key_exact(keys[k].kind);
		col->nulls_first = keys[k].nulls_first;
		col->flip = keys[k].descending ? ~UINT64_C(0) : 0;
		for (int word = 0; word < key_words(keys[k].kind); word++)
		{
			col->normkey[word].kind = keys[k].kind + word;
			col->normkey[word].flip = col->flip;
			/* an abbreviation has had its turn */
			if (keys[k].kind != KEY_ABBREVIATED)
				col->makers[word] = key_maker_create(cxt, &keys[k], col->normkey[word].kind);
		}
	}
	return tb;
}

SortSupport
tie_comparator(TieBreak *tb, TieColumn *col)
{
	if (col->ssup == NULL)
		col->ssup = abbreviated_support(tb->cxt, &tb->keys[col - tb->cols], false);
	return col->ssup;
}

/* By bytes, direction folded in. */
static inline int
compare_strings(const TieColumn *col, Datum a, Datum b)
{
	KeyString	x = string_of(col->kind, a);
	KeyString	y = string_of(col->kind, b);
	int			cmp = memcmp(x.p, y.p, Min(x.len, y.len));

	if (cmp == 0)
		cmp = (x.len > y.len) - (x.len < y.len);
	return col->flip != 0 ? -cmp : cmp;
}

static inline int
compare_images(const TieColumn *col, Datum a, Datum b)
{
	bool		inexact;

	for (int word = 0; word < key_words(col->kind); word++)
	{
		uint64		x = normkey_of_value(&col->normkey[word], col->makers[word], a, &inexact);
		uint64		y = normkey_of_value(&col->normkey[word], col->makers[word], b, &inexact);

		if (x != y)
			return x < y ? -1 : 1;
	}
	return 0;
}

static int
compare_values(TieBreak *tb, TieColumn *col, Datum a, bool anull, Datum b, bool bnull)
{
	if (anull || bnull)
		return anull == bnull ? 0 : anull == col->nulls_first ? -1 : 1;
	if (col->exact)
		return compare_images(col, a, b);
	if (col->by_bytes && !string_is_toasted(col->kind, a) && !string_is_toasted(col->kind, b))
		return compare_strings(col, a, b);
	return tie_compare(tie_comparator(tb, col), a, b);
}

static inline int
compare_from(TieBreak *tb, int from, MinimalTuple a, MinimalTuple b)
{
	/* values that are compared by their bytes may be long */
	CHECK_FOR_INTERRUPTS();
	for (int k = from; k < tb->nkeys; k++)
	{
		TieColumn  *col = &tb->cols[k];
		bool		anull;
		bool		bnull;
		Datum		x = tie_value(tb, col, a, &anull);
		Datum		y = tie_value(tb, col, b, &bnull);
		int			cmp = compare_values(tb, col, x, anull, y, bnull);

		if (cmp != 0)
			return cmp;
	}
	return 0;
}

int
tiebreak_compare(TieBreak *tb, MinimalTuple a, MinimalTuple b)
{
	return compare_from(tb, 0, a, b);
}

static inline int
compare_slot_from(TieBreak *tb, int from, TupleTableSlot *slot, MinimalTuple b)
{
	CHECK_FOR_INTERRUPTS();
	for (int k = from; k < tb->nkeys; k++)
	{
		TieColumn  *col = &tb->cols[k];
		bool		anull;
		bool		bnull;
		Datum		x = slot_getattr(slot, col->attno, &anull);
		Datum		y = tie_value(tb, col, b, &bnull);
		int			cmp = compare_values(tb, col, x, anull, y, bnull);

		if (cmp != 0)
			return cmp;
	}
	return 0;
}

int
tiebreak_compare_slot(TieBreak *tb, TupleTableSlot *slot, MinimalTuple b)
{
	return compare_slot_from(tb, 0, slot, b);
}

int
tiebreak_compare_slot_behind(TieBreak *tb, TupleTableSlot *slot, MinimalTuple b)
{
	return compare_slot_from(tb, 1, slot, b);
}

int
tiebreak_compare_first(TieBreak *tb, Datum a, Datum b)
{
	CHECK_FOR_INTERRUPTS();
	return compare_values(tb, &tb->cols[0], a, false, b, false);
}

Datum
tiebreak_first_value(const TieBreak *tb, MinimalTuple row, bool *isnull)
{
	return tie_value(tb, &tb->cols[0], row, isnull);
}

int
tie_compare_rows(TieBreak *tb, int from, uint32 a, uint32 b)
{
	int			cmp = compare_from(tb, from, tie_row(tb, a), tie_row(tb, b));

	return cmp != 0 ? cmp : (a > b) - (a < b);
}

void
tiebreak_sort(TieBreak *tb, const Arena *arena, uint32 *rids, size_t n)
{
	SortRec64  *recs;
	bool		in_passes = n > TIE_INSERTION_MAX;

	tb->arena = arena;
	for (size_t i = 0; n > 2 && !in_passes && i < n; i++)
		in_passes = tie_has_long_string(tb, 0, rids[i]);
	if (in_passes)
	{
		bulk_reserve(tb->owner, &tb->recs, n * sizeof(SortRec64), 0);
		recs = tb->recs.ptr;
		for (size_t i = 0; i < n; i++)
			recs[i].rid = rids[i];
		tie_multikey(tb, recs, n);
		for (size_t i = 0; i < n; i++)
			rids[i] = recs[i].rid;
		return;
	}
	for (size_t i = 1; i < n; i++)
	{
		uint32		rid = rids[i];
		size_t		j = i;

		for (; j > 0 && tie_compare_rows(tb, 0, rids[j - 1], rid) > 0; j--)
			rids[j] = rids[j - 1];
		rids[j] = rid;
	}
}

void
tiebreak_release(TieBreak *tb)
{
	if (tb->recs.mapped)
		bulk_free(tb->owner, &tb->recs);
	if (tb->scratch.mapped)
		bulk_free(tb->owner, &tb->scratch);
}
