/*
 * collated.c
 *	  Ties of strings under collations with rules.
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
#include "key/key_internal.h"
#include "mb/pg_wchar.h"
#include "tiebreak/tie_hash.h"
#include "tiebreak/tiebreak_internal.h"

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

static TieLetters *tie_letters_create(MemoryContext cxt, SortSupport ssup, KeyKind kind);
static uint64 tie_letters_hint(TieLetters *letters, const char *p, size_t len);

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

/* ------------------------------------------------------------------------
 * Hints for strings of which only the comparator knows how letters sort.
 *
 * ICU compares two strings that part early in a few nanoseconds, and takes ten times
 * that to make a key of one.  So its order of single characters is learnt by comparing
 * them, those of ASCII at first and others when they are met, and the next few characters
 * of each string, by their places in it, are the string's hint (tie_hints.c).  Characters
 * that differ in case or accents alone share a place, for what comes behind them counts
 * more than that.  What this leaves out (contractions, ignored characters, numbers by
 * value) makes hints that are wrong, which the comparator tells.
 *
 * A place is a byte: ASCII has the even ones, what sorts between two of it the odd one
 * between.  Characters of three bytes and more have the last.
 *
 * Memory policy: a byte for each character of two bytes, as long as the sort's node.
 * ------------------------------------------------------------------------
 */

#define LETTERS_ASCII		128
#define LETTERS				2048	/* what two bytes of UTF-8 make */
#define PLACE_UNKNOWN		0
#define PLACE_LAST			255

struct TieLetters
{
	SortSupport ssup;
	KeyKind		kind;			/* how strings lie */
	int			n;				/* different places of ASCII */
	uint8		first[LETTERS_ASCII];	/* a character of each */
	uint8		places[LETTERS];
};

/* A string of a few bytes as a value. */
typedef union LetterString
{
	char		varlena[VARHDRSZ + 8];
	NameData	name;
	int32		align;
} LetterString;

static Datum
make_string(KeyKind kind, LetterString *s, const char *p, int len, char behind)
{
	memset(s, 0, sizeof(*s));
	if (kind == KEY_NAME)
	{
		memcpy(s->name.data, p, len);
		s->name.data[len] = behind;
	}
	else
	{
		memcpy(VARDATA(s->varlena), p, len);
		VARDATA(s->varlena)[len] = behind;
		SET_VARSIZE(s->varlena, VARHDRSZ + len + 1);
	}
	return PointerGetDatum(s);
}

/* How a character with one behind it sorts to another with one. */
static int
compare_letters(const TieLetters *letters, const char *a, int alen, char abehind,
				const char *b, int blen, char bbehind)
{
	LetterString x;
	LetterString y;

	return letters->ssup->comparator(make_string(letters->kind, &x, a, alen, abehind),
									 make_string(letters->kind, &y, b, blen, bbehind),
									 letters->ssup);
}

/* < 0, > 0, and 0 if what is behind them counts more. */
static int
compare_places(const TieLetters *letters, const char *a, int alen, const char *b, int blen)
{
	int			ab = compare_letters(letters, a, alen, 'a', b, blen, 'b');
	int			ba = compare_letters(letters, a, alen, 'b', b, blen, 'a');

	return ab < 0 && ba > 0 ? 0 : ab;
}

/* The place of a character among those of ASCII. */
static uint8
find_place(TieLetters *letters, const char *p, int len)
{
	int			from = 0;
	int			to = letters->n;

	while (from < to)
	{
		int			mid = (from + to) / 2;
		int			cmp = compare_places(letters, p, len, (char *) &letters->first[mid], 1);

		if (cmp == 0)
			return 2 * mid + 2;
		if (cmp > 0)
			from = mid + 1;
		else
			to = mid;
	}
	/* nothing sorts before a string's end, but the first may be odd all the same */
	return 2 * from + 1;
}

static TieLetters *
tie_letters_create(MemoryContext cxt, SortSupport ssup, KeyKind kind)
{
	TieLetters *letters = MemoryContextAllocZero(cxt, sizeof(TieLetters));

	letters->ssup = ssup;
	letters->kind = kind;
	/* the places of those so far, and the new one's among them */
	for (int c = 1; c < LETTERS_ASCII; c++)
	{
		char		letter = (char) c;
		int			place = find_place(letters, &letter, 1);

		if (place % 2 == 0)
			continue;
		place /= 2;
		memmove(letters->first + place + 1, letters->first + place, letters->n - place);
		letters->first[place] = c;
		letters->n++;
	}
	return letters;
}

static inline uint8
place_of(TieLetters *letters, const char *p, int len, int letter)
{
	if (unlikely(letters->places[letter] == PLACE_UNKNOWN))
		letters->places[letter] = find_place(letters, p, len);
	return letters->places[letter];
}

/*
 * tie_letters.c: hints that comparisons of single characters make, by their places.
 */
static uint64
tie_letters_hint(TieLetters *letters, const char *p, size_t len)
{
	const char *end = p + len;
	uint64		hint = 0;

	for (int shift = 56; shift >= 0 && p < end; shift -= 8)
	{
		uint8		c = (uint8) *p;
		uint8		place = PLACE_LAST;
		int			bytes = 1;

		if (likely(c < 0x80))
			place = place_of(letters, p, 1, c);
		else if (c < 0xE0 && end - p >= 2)
		{
			bytes = 2;
			place = place_of(letters, p, 2, (c & 0x1F) << 6 | ((uint8) p[1] & 0x3F));
		}
		else
			bytes = c < 0xF0 ? 3 : 4;
		hint |= (uint64) place << shift;
		p += bytes;
	}
	return hint;
}

/* ------------------------------------------------------------------------
 * Values that come again and again, compared once each.
 *
 * Where only a comparator knows the order, ten million rows with a thousand different
 * values would ask it two hundred million times.  Values whose bytes are the same are
 * equal to every comparator, so a hash table finds the different ones, these alone are
 * sorted, and each row's word is its value's rank; words are sorted by radix then.
 * Values that are equal although their bytes differ get the same rank.
 *
 * It gives up as soon as there are too many different values for that to pay; the
 * first few thousand tell mostly.  It also gives up after more probes than a table at
 * most half full takes: the hash has a key that is drawn for each dictionary, and the
 * limit bounds the time even if the key is known.
 *
 * Memory policy: at most TABLE_MAX entries, palloc'd for as long as it takes.
 * ------------------------------------------------------------------------
 */

#define TABLE_MAX			((uint32) 1 << 16)

/* One in so many rows may have a value of its own; at first more do. */
#define DIFFERENT_PART		16
#define DIFFERENT_AT_FIRST	4096

/* A row takes at most this many probes on the average; the first rows may take more. */
#define PROBES_PER_ROW		8
#define PROBES_AT_FIRST		1024

/* Dictionaries of this many rows report their probes to the log, for tests. */
#define REPORTED_ROWS		1024

/* Fewer rows are compared as quickly. */
#define DICTIONARY_MIN_ROWS	64

typedef struct Entry
{
	uint64		hash;			/* 0: none */
	const char *bytes;
	uint32		len;
	uint32		number;			/* in order of appearance */
} Entry;

typedef struct Dictionary
{
	TieHashKey	key;
	Entry	   *entries;
	uint32		mask;
	uint64		probes;
	SortRec64  *values;			/* the different ones: key the Datum, rid the number */
	uint32		n;
} Dictionary;

/* A value's bytes, its header included: what is toasted equals nothing that is not. */
static inline const char *
value_bytes(Form_pg_attribute attr, const SortRec64 *rec, uint32 *len)
{
	const char *p = (const char *) DatumGetPointer((Datum) rec->key);

	if (attr->attbyval)
	{
		*len = sizeof(rec->key);
		return (const char *) &rec->key;
	}
	*len = attr->attlen > 0 ? attr->attlen : attr->attlen == -1 ? VARSIZE_ANY(p) : strlen(p);
	return p;
}

/*
 * The number of a value; PG_UINT32_MAX if there are too many different ones, or if it is
 * not found within so many probes of all values together.
 */
static uint32
number_of(Dictionary *dict, uint64 value, const char *p, uint32 len, uint32 most,
		  uint64 most_probes)
{
	uint64		hash = tie_hash(&dict->key, p, len);
	Entry	   *entry;

	for (uint32 i = tie_hash_place(hash, dict->mask);; i = (i + 1) & dict->mask)
	{
		entry = &dict->entries[i];
		if (unlikely(++dict->probes > most_probes))
			return PG_UINT32_MAX;
		if (entry->hash == 0)
			break;
		if (entry->hash == hash && entry->len == len && memcmp(entry->bytes, p, len) == 0)
			return entry->number;
	}
	if (dict->n == most)
		return PG_UINT32_MAX;
	entry->hash = hash;
	entry->bytes = p;
	entry->len = len;
	entry->number = dict->n;
	dict->values[dict->n].key = value;
	dict->values[dict->n].rid = dict->n;
	return dict->n++;
}

/* The different values' ranks, by their numbers. */
static uint32 *
rank_values(Dictionary *dict, TieBreak *tb, TieColumn *col)
{
	SortRec64  *scratch = palloc(dict->n * sizeof(SortRec64));
	uint32	   *ranks = palloc(dict->n * sizeof(uint32));

	tie_merge_sort(tb, col, dict->values, scratch, dict->n);
	(void) tie_rank(tie_comparator(tb, col), dict->values, dict->n, true);
	for (uint32 i = 0; i < dict->n; i++)
		ranks[dict->values[i].rid] = (uint32) dict->values[i].key;
	pfree(scratch);
	return ranks;
}

/* Each record's number into its pad; false if there are too many different values. */
static bool
number_values(Dictionary *dict, Form_pg_attribute attr, SortRec64 *recs, size_t n, uint32 most)
{
	uint32		first = Min(most, DIFFERENT_AT_FIRST);

	for (size_t i = 0; i < n; i++)
	{
		uint32		len;
		const char *p;

		CHECK_FOR_INTERRUPTS();
		if (!attr->attbyval && i + TIE_PREFETCH < n)
			__builtin_prefetch(DatumGetPointer((Datum) recs[i + TIE_PREFETCH].key));
		p = value_bytes(attr, &recs[i], &len);
		recs[i].pad = number_of(dict, recs[i].key, p, len,
								Min(most, first + i / DIFFERENT_PART),
								PROBES_AT_FIRST + (uint64) i * PROBES_PER_ROW);
		if (recs[i].pad == PG_UINT32_MAX)
		{
			for (size_t j = 0; j <= i; j++)
				recs[j].pad = TIE_SAME_WORD;
			return false;
		}
	}
	return true;
}

bool
tie_dictionary(TieBreak *tb, TieColumn *col, SortRec64 *recs, size_t n)
{
	Form_pg_attribute attr = TupleDescAttr(tb->desc, col->attno - 1);
	Dictionary	dict = {0};
	uint32		most = Min(n / DIFFERENT_PART, TABLE_MAX / 2);
	uint32		size = 2;
	bool		few;

	if (n < DICTIONARY_MIN_ROWS)
		return false;
	while (size < 2 * most)
		size *= 2;
	dict.key = tie_hash_key(&pg_global_prng_state);
	dict.mask = size - 1;
	dict.entries = palloc0(size * sizeof(Entry));
	dict.values = palloc(most * sizeof(SortRec64));
	few = number_values(&dict, attr, recs, n, most);
	if (n >= REPORTED_ROWS)
		ereport(DEBUG1,
				(errmsg_internal("gpusort: dictionary of %u values of %zu rows %s after " UINT64_FORMAT " probes",
								 dict.n, n, few ? "complete" : "given up", dict.probes)));
	if (few)
	{
		uint32	   *ranks = rank_values(&dict, tb, col);

		for (size_t i = 0; i < n; i++)
			recs[i].key = ranks[recs[i].pad];
		pfree(ranks);
	}
	pfree(dict.values);
	pfree(dict.entries);
	return few;
}
