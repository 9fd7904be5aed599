/*
 * tiebreak.c
 *	  Resolves ties: compares rows by the values of their sort columns.
 *
 * A truncated or inexact normalized key orders rows correctly when keys differ, but
 * equal keys do not mean equal rows.  Rows with equal keys are compared by all sort
 * columns: by normalized keys where these are exact, by bytes where the values order
 * as their bytes do, otherwise by the SortSupport comparators of a stock Sort.  Equal
 * rows keep the order of their rids, which is the input order.
 *
 * Memory policy: comparators are looked up on first use, for most sorts need none.  An
 * ERROR in a comparator passes through: nothing here has to be released.
 */
#include "postgres.h"

#include "key/key.h"
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
	tb->nkeys = nkeys;
	for (int k = 0; k < nkeys; k++)
	{
		TieColumn  *col = &tb->cols[k];

		col->key = keys[k];
		col->by_bytes = key_traits[keys[k].kind].by_bytes;
		col->exact = !key_traits[keys[k].kind].computed;
		col->flip = keys[k].descending ? ~UINT64_C(0) : 0;
		for (int word = 0; word < key_traits[keys[k].kind].words; word++)
		{
			col->normkey[word].kind = keys[k].kind + word;
			col->normkey[word].flip = col->flip;
			/* abbreviated keys have been compared already */
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
		col->ssup = abbreviated_support(tb->cxt, &col->key, false);
	return col->ssup;
}

/* Compares two strings by their bytes, in the direction of the column. */
static inline int
compare_strings(const TieColumn *col, Datum a, Datum b)
{
	KeyString	x = string_of(col->key.kind, a);
	KeyString	y = string_of(col->key.kind, b);
	int			cmp = memcmp(x.p, y.p, Min(x.len, y.len));

	if (cmp == 0)
		cmp = (x.len > y.len) - (x.len < y.len);
	return col->flip != 0 ? -cmp : cmp;
}

/* Compares two values by their exact normalized keys. */
static inline int
compare_normkeys(const TieColumn *col, Datum a, Datum b)
{
	bool		inexact;

	for (int word = 0; word < key_traits[col->key.kind].words; word++)
	{
		uint64		x = normkey_of_value(&col->normkey[word], col->makers[word], a, &inexact);
		uint64		y = normkey_of_value(&col->normkey[word], col->makers[word], b, &inexact);

		if (x != y)
			return x < y ? -1 : 1;
	}
	return 0;
}

static int
compare_column_values(TieBreak *tb, TieColumn *col, Datum a, bool anull, Datum b, bool bnull)
{
	if (anull || bnull)
		return anull == bnull ? 0 : anull == col->key.nulls_first ? -1 : 1;
	if (col->exact)
		return compare_normkeys(col, a, b);
	if (col->by_bytes && !string_is_toasted(col->key.kind, a) && !string_is_toasted(col->key.kind, b))
		return compare_strings(col, a, b);
	return tie_compare(tie_comparator(tb, col), a, b);
}

/* Compares two rows by columns [from, to). */
static pg_attribute_always_inline int
compare_columns(TieBreak *tb, int from, int to, MinimalTuple a, MinimalTuple b)
{
	/* comparing long values by their bytes takes time */
	CHECK_FOR_INTERRUPTS();
	for (int k = from; k < to; k++)
	{
		TieColumn  *col = &tb->cols[k];
		bool		anull;
		bool		bnull;
		Datum		x = tie_value(tb, col, a, &anull);
		Datum		y = tie_value(tb, col, b, &bnull);
		int			cmp = compare_column_values(tb, col, x, anull, y, bnull);

		if (cmp != 0)
			return cmp;
	}
	return 0;
}

int
tiebreak_compare(TieBreak *tb, MinimalTuple a, MinimalTuple b)
{
	return compare_columns(tb, 0, tb->nkeys, a, b);
}

void
tiebreak_on_equal(TieBreak *tb, EqualRows on_equal, void *arg)
{
	tb->on_equal = on_equal;
	tb->on_equal_arg = arg;
	tb->calls_left = EQUAL_ROWS_MAX;
}

void
tie_find_equal(TieBreak *tb, int from, const SortRec64 *recs, size_t n)
{
	MinimalTuple live = NULL;	/* the last row that is not dead */
	bool		called = false; /* for the rows equal to it */

	for (size_t i = 0; i < n; i++)
	{
		MinimalTuple row = tie_row(tb, recs[i].rid);

		if ((row->t_infomask2 & ROW_DEAD) != 0)
			continue;
		if (live == NULL || compare_columns(tb, from, tb->nkeys, live, row) != 0)
			called = false;
		else if (!called)
		{
			tb->on_equal(tb->on_equal_arg, live, row);
			if (--tb->calls_left == 0)
				tb->on_equal = NULL;
			if (from == tb->nkeys || tb->on_equal == NULL)
				return;
			called = true;
		}
		live = row;
	}
}

bool
tiebreak_equal(TieBreak *tb, int ncols, MinimalTuple a, MinimalTuple b)
{
	/* comparing long rows takes time */
	CHECK_FOR_INTERRUPTS();
	return tie_same_bytes(a, b) || compare_columns(tb, 0, ncols, a, b) == 0;
}

int
tiebreak_compare_slot(TieBreak *tb, TupleTableSlot *slot, MinimalTuple b)
{
	CHECK_FOR_INTERRUPTS();
	for (int k = 0; k < tb->nkeys; k++)
	{
		TieColumn  *col = &tb->cols[k];
		bool		anull;
		bool		bnull;
		Datum		x = slot_getattr(slot, col->key.attno, &anull);
		Datum		y = tie_value(tb, col, b, &bnull);
		int			cmp = compare_column_values(tb, col, x, anull, y, bnull);

		if (cmp != 0)
			return cmp;
	}
	return 0;
}

int
tiebreak_compare_first(TieBreak *tb, Datum a, Datum b)
{
	CHECK_FOR_INTERRUPTS();
	return compare_column_values(tb, &tb->cols[0], a, false, b, false);
}

Datum
tiebreak_first_value(const TieBreak *tb, MinimalTuple row)
{
	bool		isnull;

	return tie_value(tb, &tb->cols[0], row, &isnull);
}

int
tie_compare_rows(TieBreak *tb, int from, uint32 a, uint32 b)
{
	int			cmp = compare_columns(tb, from, tb->nkeys, tie_row(tb, a), tie_row(tb, b));

	return cmp != 0 ? cmp : (a > b) - (a < b);
}

void
tiebreak_release(TieBreak *tb)
{
	if (tb->recs.mapped)
		bulk_free(tb->owner, &tb->recs);
	if (tb->scratch.mapped)
		bulk_free(tb->owner, &tb->scratch);
}
