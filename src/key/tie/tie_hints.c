/*
 * tie_hints.c
 *	  Strings of collations with rules, put nearly in order before they are compared.
 *
 * strcoll() is asked by PostgreSQL for every comparison, because some versions of the C
 * library had strxfrm() disagree with it.  Where it is only a hint it may: strings are
 * sorted by the first bytes of what strxfrm() makes of their next few characters, by
 * radix, and then each is compared with its neighbour: as soon as both have been fetched,
 * if hints tell them apart.  If all are in order, that was one comparison a row instead of
 * twenty, each of which is two cache misses; if not, those out of place are
 * (tie_repair.c).  strcoll() alone decides.  ICU's hints are made of single characters'
 * places (tie_letters.c).
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
#include "mb/pg_wchar.h"

/* So many bytes of a string are transformed, into at most so many. */
#define HINT_FROM		12
#define HINT_ROOM		256

/* Fewer strings are compared at once, and those that have had so many hints. */
#define HINTS_MIN_ROWS	64
#define HINTS_MAX		16

/* To learn an order of letters takes as long as some thousand comparisons. */
#define LETTERS_MIN_ROWS	4096

/* So many strings are looked at first: most must be of letters whose places tell. */
#define LETTERS_SAMPLE	256

/* More than so many that hints do not tell apart are better abbreviated. */
#define COMPARED_MAX	4096

struct TieHints
{
	locale_t	locale;			/* of the C library's; or 0 */
	bool		by_letters;
	TieLetters *letters;		/* NULL until needed */
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

/* Looks whether the column is one of strings in a collation that has hints. */
static TieHints *
find_hints(TieBreak *tb, TieColumn *col)
{
	const KeyColumn *key = &tb->keys[col - tb->cols];
	int16		len = TupleDescAttr(tb->desc, col->attno - 1)->attlen;
	TieHints   *hints = MemoryContextAllocZero(tb->cxt, sizeof(TieHints));
	char	   *name;

	hints->callback.func = free_locale;
	hints->callback.arg = hints;
	MemoryContextRegisterResetCallback(tb->cxt, &hints->callback);
	if (key->kind != KEY_COMPARED || !key_sorts_strings(key, &hints->kind) ||
		(hints->kind == KEY_NAME ? len != NAMEDATALEN : len != -1))
		return hints;
	hints->by_letters = collation_by_letters(key->collation);
	name = collation_libc_locale(key->collation);
	if (name == NULL)
		return hints;
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

	if (hints->letters != NULL)
		return tie_letters_hint(hints->letters, s.p + at, s.len - at);
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

		CHECK_FOR_INTERRUPTS();
		tie_prefetch_value(recs, i, n);
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

/*
 * Orders strings that have had so many hints, the last one for what begins before this
 * byte.  False if they are not at hand, or hints tell too little.
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
	if (!find_common(hints, recs, n, &common, &equal))
		return false;
	if (equal)
		return true;
	if (common < behind)
	{
		/* the next hints would be the same: it is not letters in which they differ */
		if (hints->letters != NULL && n > COMPARED_MAX)
			return false;
		tie_compare_sort(tb, col, recs, n);
		return true;
	}
	for (size_t i = 0; i < n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		tie_prefetch_value(recs, i, n);
		recs[i].key = col->flip ^ hint_of(hints, string_of(hints->kind, (Datum) recs[i].key), common);
	}
	tie_order_words(tb, col, recs, n, tie_comparator(tb, col));
	for (size_t i = 1; i <= n; i++)
	{
		if (i < n && recs[i].pad == TIE_SAME_WORD)
			continue;
		if (i - start > 1 &&
			!order_strings(tb, col, recs + start, i - start, nhints + 1, common + 1))
			return false;
		start = i;
	}
	return true;
}

/*
 * Are most strings of letters that have places of their own, and do these put a sample
 * of them in order?
 */
static bool
letters_tell(TieBreak *tb, TieColumn *col, const SortRec64 *recs, size_t n)
{
	SortRec64	sample[LETTERS_SAMPLE];
	SortSupport ssup = tie_comparator(tb, col);
	int			others = 0;
	int			wrong = 0;

	for (size_t i = 0; i < LETTERS_SAMPLE; i++)
	{
		KeyString	s;

		sample[i] = recs[n / LETTERS_SAMPLE * i];
		if (string_is_toasted(col->hints->kind, (Datum) sample[i].key))
			return false;
		s = string_of(col->hints->kind, (Datum) sample[i].key);
		others += s.len > 0 && (uint8) s.p[0] >= 0xE0;
	}
	if (others > LETTERS_SAMPLE / 8 || !order_strings(tb, col, sample, LETTERS_SAMPLE, 0, 0))
		return false;
	for (int i = 1; i < LETTERS_SAMPLE; i++)
		wrong += tie_compare(ssup, (Datum) sample[i - 1].key, (Datum) sample[i].key) > 0;
	return wrong <= LETTERS_SAMPLE / 32;
}

bool
tie_hints(TieBreak *tb, TieColumn *col, SortRec64 *recs, size_t n)
{
	TieHints   *hints;

	if (n < HINTS_MIN_ROWS)
		return false;
	if (col->hints == NULL)
		col->hints = find_hints(tb, col);
	hints = col->hints;
	if (hints->by_letters)
	{
		if (n < LETTERS_MIN_ROWS)
			return false;
		if (hints->letters == NULL)
			hints->letters = tie_letters_create(tb->cxt, tie_comparator(tb, col), hints->kind);
		if (!letters_tell(tb, col, recs, n))
			return false;
	}
	else if (hints->locale == (locale_t) 0)
		return false;
	return order_strings(tb, col, recs, n, 0, 0);
}
