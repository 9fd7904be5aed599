/*
 * collated.c
 *	  Sorts strings under collations with rules, and repeated values, with few comparisons.
 *
 * Presorting.  PostgreSQL calls strcoll() for each comparison, because strxfrm() of
 * some C libraries disagrees with it.  Here strxfrm() only presorts: strings are
 * sorted by radix by the first bytes of the strxfrm key of their next few characters
 * (truncated strxfrm key).  Then each string is compared with its neighbour by the
 * comparator, which alone decides.  If all are in order, that takes one comparison a
 * row; otherwise a fix-up pass follows (comparator_sort.c).  The transformed characters
 * begin after the prefix that all strings share.  Strings with equal keys are presorted
 * again by the characters after their own common prefix.
 *
 * ICU compares two strings faster than it makes a key of one, and citext has no keys.
 * So their strings are presorted by primary weights.  The order of single characters is
 * learnt by comparing them: ASCII first, other characters when they occur.  Characters
 * that differ in case or accents only have the same primary weight.  Contractions,
 * ignored characters and numeric order make weights that are wrong, which the comparison
 * of neighbours detects.  Strings of citext and of collations that are not deterministic
 * may be equal though their bytes differ, even if their weights do.  So neighbours that
 * are equal must be in the order of their rids, too.
 *
 * Dictionary.  Values with the same bytes are equal to any comparator.  A hash table
 * finds the distinct values, only these are sorted, and each row's value is replaced
 * by its rank.  Distinct values that compare equal have the same rank.  The
 * dictionary gives up as soon as there are too many distinct values, or after more
 * probes than a table at most half full takes.  The hash has a random key, and the limit
 * of probes bounds the time even if the key is known.
 *
 * Memory policy: the state of a collation and a byte for each character of up to two
 * bytes live as long as the sort's node.  A dictionary has at most TABLE_MAX entries and
 * is freed before tie_rank_dictionary() returns.
 */
#include "postgres.h"

#include <locale.h>

#include "compat.h"
#include "key/key.h"
#include "mb/pg_wchar.h"
#include "tiebreak/tie_hash.h"
#include "tiebreak/tiebreak_internal.h"

/* Bytes of a string that are transformed, and room for its strxfrm key. */
#define XFRM_SOURCE		12
#define XFRM_ROOM		256

/* With fewer strings, or after this number of presorts, strings are compared directly. */
#define PRESORT_MIN_ROWS	64
#define PRESORT_MAX		16

/*
 * Learning primary weights takes as long as some thousand comparisons.  So this number
 * of strings, of all calls together, comes first.  After each further such number a
 * sample decides again whether primary weights presort well.
 */
#define WEIGHTS_MIN_ROWS	4096

/* Most strings in the sample. */
#define WEIGHTS_SAMPLE	256

/* Larger groups that primary weights do not distinguish are sorted by abbreviated keys. */
#define COMPARED_MAX	4096

/* Characters of ASCII, and of up to two bytes of UTF-8. */
#define ASCII_CHARS		128
#define WEIGHTED_CHARS	2048

/* A weight that is not learnt yet, and that of all characters of three or four bytes. */
#define WEIGHT_UNKNOWN	0
#define WEIGHT_LAST		255

/* Most entries of the table of a dictionary. */
#define TABLE_MAX			((uint32) 1 << 16)

/* At most one in this number of rows may have a distinct value; among the first rows more. */
#define DISTINCT_PART		16
#define DISTINCT_AT_FIRST	4096

/* Probes that a row takes at most on average; the first rows may take more. */
#define PROBES_PER_ROW		8
#define PROBES_AT_FIRST		1024

/* Dictionaries of this many rows report their probes to the log, for tests. */
#define REPORTED_ROWS		1024

/* With fewer rows a dictionary does not pay. */
#define DICTIONARY_MIN_ROWS	64

/*
 * Primary weights of characters.  A weight is a byte.  The characters of ASCII have
 * the even weights, and a character that sorts between two of them has the odd weight
 * between.
 */
typedef struct PrimaryWeights
{
	SortSupport ssup;
	KeyKind		kind;			/* format of the strings */
	int			nascii;			/* distinct weights of ASCII */
	uint8		ascii[ASCII_CHARS]; /* one per weight, ascending */
	uint8		weights[WEIGHTED_CHARS];	/* by code point */
} PrimaryWeights;

/* A value of a string of a few bytes. */
typedef union ShortString
{
	char		varlena[VARHDRSZ + 8];
	NameData	name;
	int32		align;
} ShortString;

struct TieCollation
{
	locale_t	locale;			/* of a libc collation; otherwise 0 */
	bool		by_weights;		/* primary weights may presort strings */
	PrimaryWeights *weights;	/* NULL until needed */
	bool		sample_sorted;	/* weights presorted the last sample well */
	size_t		rows_since;		/* strings since that sample */
	KeyKind		kind;			/* format of the strings */
	MemoryContextCallback callback; /* frees locale */
};

/* An entry of a dictionary's hash table. */
typedef struct Entry
{
	uint64		hash;			/* 0: empty */
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
	SortRec64  *values;			/* distinct values: key: Datum; rid: number */
	uint32		n;				/* distinct values */
} Dictionary;

/* ---- Primary weights ---- */

/* Makes a value of a character and the character after it. */
static Datum
make_short_string(KeyKind kind, ShortString *s, const char *p, int len, char after)
{
	memset(s, 0, sizeof(*s));
	if (kind == KEY_NAME)
	{
		memcpy(s->name.data, p, len);
		s->name.data[len] = after;
	}
	else
	{
		memcpy(VARDATA(s->varlena), p, len);
		VARDATA(s->varlena)[len] = after;
		SET_VARSIZE(s->varlena, VARHDRSZ + len + 1);
	}
	return PointerGetDatum(s);
}

/* Compares two characters, each followed by another one. */
static int
compare_chars(const PrimaryWeights *w, const char *a, int alen, char aafter,
			  const char *b, int blen, char bafter)
{
	ShortString x;
	ShortString y;

	return w->ssup->comparator(make_short_string(w->kind, &x, a, alen, aafter),
							   make_short_string(w->kind, &y, b, blen, bafter),
							   w->ssup);
}

/* Compares the primary weights of two characters: 0 if the characters after them decide. */
static int
compare_primary(const PrimaryWeights *w, const char *a, int alen, const char *b, int blen)
{
	int			ab = compare_chars(w, a, alen, 'a', b, blen, 'b');
	int			ba = compare_chars(w, a, alen, 'b', b, blen, 'a');

	return ab < 0 && ba > 0 ? 0 : ab;
}

/* Finds the weight of a character among those of ASCII. */
static uint8
find_weight(PrimaryWeights *w, const char *p, int len)
{
	int			from = 0;
	int			to = w->nascii;

	while (from < to)
	{
		int			mid = (from + to) / 2;
		int			cmp = compare_primary(w, p, len, (char *) &w->ascii[mid], 1);

		if (cmp == 0)
			return 2 * mid + 2;
		if (cmp > 0)
			from = mid + 1;
		else
			to = mid;
	}
	/* between two characters, or before the first one */
	return 2 * from + 1;
}

static PrimaryWeights *
weights_create(MemoryContext cxt, SortSupport ssup, KeyKind kind)
{
	PrimaryWeights *w = MemoryContextAllocZero(cxt, sizeof(PrimaryWeights));

	w->ssup = ssup;
	w->kind = kind;
	/* insert each character that has a weight of its own */
	for (int c = 1; c < ASCII_CHARS; c++)
	{
		char		ascii = (char) c;
		int			weight = find_weight(w, &ascii, 1);

		if (weight % 2 == 0)
			continue;
		weight /= 2;
		memmove(w->ascii + weight + 1, w->ascii + weight, w->nascii - weight);
		w->ascii[weight] = c;
		w->nascii++;
	}
	return w;
}

static inline uint8
weight_of(PrimaryWeights *w, const char *p, int len, int code)
{
	if (unlikely(w->weights[code] == WEIGHT_UNKNOWN))
		w->weights[code] = find_weight(w, p, len);
	return w->weights[code];
}

/* The weights of the first eight characters of a string. */
static uint64
weights_key(PrimaryWeights *w, const char *p, size_t len)
{
	const char *end = p + len;
	uint64		key = 0;

	for (int shift = 56; shift >= 0 && p < end; shift -= 8)
	{
		uint8		c = (uint8) *p;
		uint8		weight = WEIGHT_LAST;
		int			bytes = 1;

		if (likely(c < 0x80))
			weight = weight_of(w, p, 1, c);
		else if (c < 0xE0 && end - p >= 2)
		{
			bytes = 2;
			weight = weight_of(w, p, 2, (c & 0x1F) << 6 | ((uint8) p[1] & 0x3F));
		}
		else
			bytes = c < 0xF0 ? 3 : 4;
		key |= (uint64) weight << shift;
		p += bytes;
	}
	return key;
}

/* ---- Presorting strings ---- */

static void
free_locale(void *arg)
{
	TieCollation *collation = arg;

	if (collation->locale != (locale_t) 0)
		freelocale(collation->locale);
}

/* Finds how strings of the column's collation can be presorted, if at all. */
static TieCollation *
find_collation(TieBreak *tb, TieColumn *col)
{
	const KeyColumn *key = &tb->keys[col - tb->cols];
	int16		len = TupleDescAttr(tb->desc, col->attno - 1)->attlen;
	TieCollation *collation = MemoryContextAllocZero(tb->cxt, sizeof(TieCollation));
	bool		strings;
	char	   *name;

	collation->callback.func = free_locale;
	collation->callback.arg = collation;
	MemoryContextRegisterResetCallback(tb->cxt, &collation->callback);
	collation->kind = KEY_TEXT; /* citext's format */
	strings = key_sorts_strings(key, &collation->kind);
	if (key->kind != KEY_COMPARED || (collation->kind == KEY_NAME ? len != NAMEDATALEN : len != -1))
		return collation;
	collation->by_weights = key_sorts_by_letters(key);
	name = strings ? collation_libc_locale(key->collation) : NULL;
	if (name == NULL)
		return collation;
	collation->locale = newlocale(LC_COLLATE_MASK | LC_CTYPE_MASK, name, (locale_t) 0);
	pfree(name);
	return collation;
}

/* The key that presorts a string, of its characters from a byte on. */
static inline uint64
presort_key(const TieCollation *collation, KeyString s, size_t at)
{
	char		from[XFRM_SOURCE + 1];
	char		to[XFRM_ROOM];
	size_t		len = Min(s.len - at, XFRM_SOURCE);

	if (collation->weights != NULL)
		return weights_key(collation->weights, s.p + at, s.len - at);
	memcpy(from, s.p + at, len);
	from[len] = '\0';
	len = strxfrm_l(to, from, sizeof(to), collation->locale);
	return len >= sizeof(to) ? PG_UINT64_MAX : bytes_word(to, len);
}

/*
 * Length of the prefix that all strings share, up to the begin of a character.
 * *equal: all strings are equal.  Returns false if a string is toasted.
 */
static bool
find_common(const TieCollation *collation, const SortRec64 *recs, size_t n, size_t *common, bool *equal)
{
	KeyString	first = {NULL, 0};

	*equal = true;
	for (size_t i = 0; i < n; i++)
	{
		KeyString	s;

		CHECK_FOR_INTERRUPTS();
		tie_prefetch_value(recs, i, n);
		if (string_is_toasted(collation->kind, (Datum) recs[i].key))
			return false;
		s = string_of(collation->kind, (Datum) recs[i].key);
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
 * Presorts strings after npresorts earlier presorts, the last one by characters that
 * begin before byte behind.  Returns false if a string is toasted or the keys do not
 * distinguish enough strings.
 */
static bool
presort_strings(TieBreak *tb, TieColumn *col, SortRec64 *recs, size_t n, int npresorts, size_t behind)
{
	const TieCollation *collation = col->collation;
	size_t		common;
	size_t		start = 0;
	bool		equal;

	if (n < PRESORT_MIN_ROWS || npresorts == PRESORT_MAX)
	{
		tie_comparator_sort(tb, col, recs, n);
		return true;
	}
	if (!find_common(collation, recs, n, &common, &equal))
		return false;
	if (equal)
		return true;
	if (common < behind)
	{
		/*
		 * the next keys would be equal again: the strings differ in what the
		 * keys leave out
		 */
		if (collation->weights != NULL && n > COMPARED_MAX)
			return false;
		tie_comparator_sort(tb, col, recs, n);
		return true;
	}
	for (size_t i = 0; i < n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		tie_prefetch_value(recs, i, n);
		recs[i].key = col->flip ^ presort_key(collation, string_of(collation->kind, (Datum) recs[i].key), common);
	}
	tie_presort_words(tb, col, recs, n, tie_comparator(tb, col));
	for (size_t i = 1; i <= n; i++)
	{
		if (i < n && recs[i].pad == TIE_SAME_WORD)
			continue;
		if (i - start > 1 &&
			!presort_strings(tb, col, recs + start, i - start, npresorts + 1, common + 1))
			return false;
		start = i;
	}
	return true;
}

/* Do most strings of a sample have characters with weights, and do these presort them well? */
static bool
weights_presort_well(TieBreak *tb, TieColumn *col, const SortRec64 *recs, size_t n)
{
	SortRec64	sample[WEIGHTS_SAMPLE];
	size_t		nsample = Min(n, WEIGHTS_SAMPLE);
	SortSupport ssup = tie_comparator(tb, col);
	size_t		unweighted = 0;
	size_t		wrong = 0;

	for (size_t i = 0; i < nsample; i++)
	{
		KeyString	s;

		sample[i] = recs[n / nsample * i];
		if (string_is_toasted(col->collation->kind, (Datum) sample[i].key))
			return false;
		s = string_of(col->collation->kind, (Datum) sample[i].key);
		unweighted += s.len > 0 && (uint8) s.p[0] >= 0xE0;
	}
	if (unweighted > nsample / 8 || !presort_strings(tb, col, sample, nsample, 0, 0))
		return false;
	for (size_t i = 1; i < nsample; i++)
		wrong += tie_compare(ssup, (Datum) sample[i - 1].key, (Datum) sample[i].key) > 0;
	return wrong <= nsample / 32;
}

bool
tie_presort_collated(TieBreak *tb, TieColumn *col, SortRec64 *recs, size_t n)
{
	TieCollation *collation;

	if (n < PRESORT_MIN_ROWS)
		return false;
	if (col->collation == NULL)
		col->collation = find_collation(tb, col);
	collation = col->collation;
	if (collation->by_weights)
	{
		collation->rows_since += n;
		if (collation->rows_since >= WEIGHTS_MIN_ROWS)
		{
			if (collation->weights == NULL)
				collation->weights = weights_create(tb->cxt, tie_comparator(tb, col), collation->kind);
			collation->sample_sorted = weights_presort_well(tb, col, recs, n);
			collation->rows_since = 0;
			ereport(DEBUG1,
					(errmsg_internal("gpusort: primary weights presort a group of %zu strings %s", n,
									 collation->sample_sorted ? "well" : "badly")));
		}
		if (!collation->sample_sorted)
			return false;
	}
	else if (collation->locale == (locale_t) 0)
		return false;
	return presort_strings(tb, col, recs, n, 0, 0);
}

/* ---- Dictionary of values ---- */

/* The bytes of a value, with its header: a toasted value differs from any that is not. */
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
 * The number of a value, which is added if it is new.  PG_UINT32_MAX if there would
 * be more than max_values values, or if all values together take more than max_probes
 * probes.
 */
static uint32
number_of(Dictionary *dict, uint64 value, const char *p, uint32 len,
		  uint32 max_values, uint64 max_probes)
{
	uint64		hash = tie_hash(&dict->key, p, len);
	Entry	   *entry;

	for (uint32 i = tie_hash_place(hash, dict->mask);; i = (i + 1) & dict->mask)
	{
		entry = &dict->entries[i];
		if (unlikely(++dict->probes > max_probes))
			return PG_UINT32_MAX;
		if (entry->hash == 0)
			break;
		if (entry->hash == hash && entry->len == len && memcmp(entry->bytes, p, len) == 0)
			return entry->number;
	}
	if (dict->n == max_values)
		return PG_UINT32_MAX;
	entry->hash = hash;
	entry->bytes = p;
	entry->len = len;
	entry->number = dict->n;
	dict->values[dict->n].key = value;
	dict->values[dict->n].rid = dict->n;
	return dict->n++;
}

/* The ranks of the distinct values, by number. */
static uint32 *
rank_values(Dictionary *dict, TieBreak *tb, TieColumn *col)
{
	uint32	   *ranks = palloc(dict->n * sizeof(uint32));

	tie_comparator_sort(tb, col, dict->values, dict->n);
	(void) tie_rank(tie_comparator(tb, col), dict->values, dict->n, true);
	for (uint32 i = 0; i < dict->n; i++)
		ranks[dict->values[i].rid] = (uint32) dict->values[i].key;
	return ranks;
}

/* Stores the number of each record's value in its pad; false if there are too many values. */
static bool
number_values(Dictionary *dict, TieBreak *tb, const TieColumn *col, SortRec64 *recs, size_t n, uint32 max_values)
{
	Form_pg_attribute attr = TupleDescAttr(tb->desc, col->attno - 1);
	uint32		first = Min(max_values, DISTINCT_AT_FIRST);

	for (size_t i = 0; i < n; i++)
	{
		uint32		len;
		const char *p;

		CHECK_FOR_INTERRUPTS();
		if (!attr->attbyval && i + TIE_PREFETCH < n)
			__builtin_prefetch(DatumGetPointer((Datum) recs[i + TIE_PREFETCH].key));
		p = value_bytes(attr, &recs[i], &len);
		recs[i].pad = number_of(dict, recs[i].key, p, len,
								Min(max_values, first + i / DISTINCT_PART),
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
tie_rank_dictionary(TieBreak *tb, TieColumn *col, SortRec64 *recs, size_t n)
{
	Dictionary	dict = {0};
	uint32		max_values = Min(n / DISTINCT_PART, TABLE_MAX / 2);
	uint32		size = 2;
	bool		few;

	if (n < DICTIONARY_MIN_ROWS)
		return false;
	while (size < 2 * max_values)
		size *= 2;
	dict.key = tie_hash_key(&pg_global_prng_state);
	dict.mask = size - 1;
	dict.entries = palloc0(size * sizeof(Entry));
	dict.values = palloc(max_values * sizeof(SortRec64));
	few = number_values(&dict, tb, col, recs, n, max_values);
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
