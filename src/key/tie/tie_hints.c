/*
 * tie_hints.c
 *	  Strings of the C library's collations, put nearly in order before they are compared.
 *
 * strcoll() is asked by PostgreSQL for every comparison, because some versions of the C
 * library had strxfrm() disagree with it.  Where it is only a hint it may: strings are
 * sorted by the first bytes of what strxfrm() makes of their next few characters, by
 * radix, and then each is compared with its neighbour.  If all are in order, that was
 * one comparison a row instead of twenty, each of which is two cache misses; if not, they
 * are sorted by comparison after all.  strcoll() alone decides.
 *
 * The characters that are transformed begin behind what all strings have in common, and
 * strings with equal hints are ordered in the same way by what is behind what those have
 * in common, so that they are told apart by their hints wherever they part.
 */
#include "postgres.h"

#include <locale.h>

#include "compat.h"
#include "key/type/collation.h"
#include "key/tie/tie_rows.h"
#include "miscadmin.h"

/* So many bytes of a string are transformed, into at most so many. */
#define HINT_FROM		12
#define HINT_ROOM		256

/* Fewer strings are compared at once, and those that have had so many hints. */
#define HINTS_MIN_ROWS	64
#define HINTS_MAX		16

struct TieHints
{
	locale_t	locale;			/* 0: there are none */
	KeyKind		kind;			/* how the strings lie */
	MemoryContextCallback callback;
};

static void
free_locale(void *arg)
{
	TieHints   *hints = arg;

	if (hints->locale != (locale_t) 0)
		freelocale(hints->locale);
}

/* Looks whether the column is one of strings in a collation of the C library's. */
static TieHints *
find_hints(TieBreak *tb, TieColumn *col)
{
	const KeyColumn *key = &tb->keys[col - tb->cols];
	int16		len = TupleDescAttr(tb->desc, col->attno - 1)->attlen;
	TieHints   *hints = MemoryContextAllocZero(tb->cxt, sizeof(TieHints));
	char	   *name = NULL;

	hints->callback.func = free_locale;
	hints->callback.arg = hints;
	MemoryContextRegisterResetCallback(tb->cxt, &hints->callback);
	if (key->kind == KEY_COMPARED && key_sorts_strings(key))
		name = collation_libc_locale(key->collation);
	if (name == NULL || (len != -1 && len != NAMEDATALEN))
		return hints;
	hints->kind = len == -1 ? KEY_TEXT : KEY_NAME;
	hints->locale = newlocale(LC_COLLATE_MASK | LC_CTYPE_MASK, name, (locale_t) 0);
	pfree(name);
	return hints;
}

/* The hint of a string's rest. */
static inline uint64
hint_of(const TieHints *hints, KeyString s, size_t at)
{
	char		from[HINT_FROM + 1];
	char		to[HINT_ROOM];
	size_t		len = Min(s.len - at, HINT_FROM);

	memcpy(from, s.p + at, len);
	from[len] = '\0';
	len = strxfrm_l(to, from, sizeof(to), hints->locale);
	return len >= sizeof(to) ? PG_UINT64_MAX : bytes_word(to, len);
}

/*
 * Bytes that all strings have in common, up to a character's beginning.  False if they
 * are not at hand; *equal if they are the same as a whole.
 */
static bool
find_common(const TieHints *hints, const SortRec64 *recs, size_t n, size_t *common, bool *equal)
{
	KeyString	first = {NULL, 0};

	*equal = true;
	for (size_t i = 0; i < n; i++)
	{
		KeyString	s;

		if (i + TIE_PREFETCH < n)
			__builtin_prefetch(DatumGetPointer((Datum) recs[i + TIE_PREFETCH].key));
		if (string_is_toasted(hints->kind, (Datum) recs[i].key))
			return false;
		s = string_of(hints->kind, (Datum) recs[i].key);
		if (i == 0)
		{
			first = s;
			*common = s.len;
			continue;
		}
		*equal &= s.len == first.len;
		*common = bytes_common(s.p, s.len, first.p, *common);
	}
	*equal &= *common == first.len;
	while (*common > 0 && *common < first.len && (first.p[*common] & 0xC0) == 0x80)
		(*common)--;
	return true;
}

/* The records have hints: sorts them, and gives them their values again. */
static void
sort_hints(TieBreak *tb, TieColumn *col, SortRec64 *recs, size_t n)
{
	uint64		prev;

	tie_sort_words(tb, recs, n);
	prev = ~recs[0].key;
	for (size_t i = 0; i < n; i++)
	{
		uint64		hint = recs[i].key;
		bool		isnull;

		if (i + TIE_PREFETCH < n)
			tie_prefetch(tb, recs[i + TIE_PREFETCH].rid);
		recs[i].key = (uint64) tie_value(tb, col, tie_row(tb, recs[i].rid), &isnull);
		/* does it begin a group? */
		recs[i].pad = hint != prev;
		prev = hint;
	}
}

/*
 * Orders strings that have had so many hints, the last one for what begins before this
 * byte.  False if they are not at hand.
 */
static bool
order_strings(TieBreak *tb, TieColumn *col, SortRec64 *recs, size_t n, int nhints, size_t behind)
{
	const TieHints *hints = col->hints;
	size_t		common;
	size_t		start = 0;
	bool		equal;

	if (n < HINTS_MIN_ROWS || nhints == HINTS_MAX)
	{
		tie_compare_sort(tb, col, recs, n);
		return true;
	}
	CHECK_FOR_INTERRUPTS();
	if (!find_common(hints, recs, n, &common, &equal))
		return false;
	if (equal)
		return true;
	if (common < behind)
	{
		/* the next hints would be the same: it is not letters in which they differ */
		tie_compare_sort(tb, col, recs, n);
		return true;
	}
	for (size_t i = 0; i < n; i++)
	{
		if (i + TIE_PREFETCH < n)
			__builtin_prefetch(DatumGetPointer((Datum) recs[i + TIE_PREFETCH].key));
		recs[i].key = col->flip ^ hint_of(hints, string_of(hints->kind, (Datum) recs[i].key), common);
	}
	sort_hints(tb, col, recs, n);
	for (size_t i = 1; i <= n; i++)
	{
		if (i < n && recs[i].pad == 0)
			continue;
		if (i - start > 1 &&
			!order_strings(tb, col, recs + start, i - start, nhints + 1, common + 1))
			return false;
		start = i;
	}
	return true;
}

bool
tie_hints(TieBreak *tb, TieColumn *col, SortRec64 *recs, size_t n)
{
	if (n < HINTS_MIN_ROWS)
		return false;
	if (col->hints == NULL)
		col->hints = find_hints(tb, col);
	return col->hints->locale != (locale_t) 0 && order_strings(tb, col, recs, n, 0, 0);
}
