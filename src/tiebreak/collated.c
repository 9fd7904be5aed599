/*
 * collated.c
 *	  Sorts strings under collations with rules, and repeated values, with few comparisons.
 *
 * Presorting.  Strings are sorted by radix by a word of their next few characters.  Then
 * each string is compared with its neighbour by the comparator, which alone decides.  If
 * all are in order, that takes one comparison a row; otherwise a fix-up pass follows
 * (comparator_sort.c).  The characters of the words begin after the prefix that all
 * strings share.  Strings with equal words are presorted again by the characters after
 * their own common prefix.
 *
 * The words are primary weights of characters, because ICU and the C library make a key
 * of a string more slowly than they compare two strings, and citext has no keys.  The
 * order of single characters is learnt by comparing them: ASCII first, then the
 * characters of samples of the strings.  Characters that differ in case or accents only
 * have the same primary weight.  Contractions and numeric order make weights that are
 * wrong, which the comparison of neighbours detects.  Strings of citext and of
 * collations that are not deterministic may be equal though their bytes differ, even if
 * their weights do.  So neighbours that are equal must be in the order of their rids,
 * too.
 *
 * If weights presort a sample badly, the words of a collation of the C library are the
 * first bytes of the strxfrm key of a few characters (truncated strxfrm key).  PostgreSQL
 * calls strcoll() for each comparison, because strxfrm() of some C libraries disagrees
 * with it.  Here strxfrm() only presorts.
 *
 * Dictionary.  Values with the same bytes are equal to any comparator.  A hash table
 * finds the distinct values, only these are sorted, and each row's value is replaced
 * by its rank.  Distinct values that compare equal have the same rank.  The
 * dictionary gives up as soon as there are too many distinct values, or after more
 * probes than a table at most half full takes.  The hash has a random key, and the limit
 * of probes bounds the time even if the key is known.
 *
 * Memory policy: the state of a collation and a byte for each code point that may be
 * learnt (13 kB) live as long as the sort's node.  A dictionary has at most TABLE_MAX
 * entries and is freed before tie_rank_dictionary() returns.
 */
#include "postgres.h"

#include <locale.h>

#include "common/hashfn.h"
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
 * of strings, of all calls together, comes first; half of it where the strings have
 * strxfrm keys, and a quarter where they have no keys, because weights save more there.
 * After each further such number a sample decides again whether primary weights presort
 * well; if they do not, after twice as many strings as before.
 */
#define WEIGHTS_MIN_ROWS	4096

/* Most strings in the sample, and bytes of each that teach characters. */
#define WEIGHTS_SAMPLE	256
#define TAUGHT_BYTES	256

/* Primary weights may fail to distinguish one in this number of strings. */
#define COMPARED_PART	8

/* Characters of ASCII, and those before the ideographs and syllables of East Asia. */
#define ASCII_CHARS		0x80
#define WEIGHTED_CHARS	0x3400

/*
 * Weights of characters without a place: WEIGHT_UNKNOWN until the character occurs,
 * WEIGHT_IGNORED if the collation has no primary weight for the character, which words
 * leave out, and WEIGHT_LAST if the character has not been learnt.
 */
#define WEIGHT_UNKNOWN	0
#define WEIGHT_IGNORED	254
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
 * Primary weights of characters.  A weight is a byte: the place among the characters that
 * have been learnt, from 1 on.
 */
typedef struct PrimaryWeights
{
	SortSupport ssup;
	KeyKind		kind;			/* format of the strings */
	int			nlearnt;
	uint16		learnt[WEIGHT_IGNORED - 1]; /* code points, one per weight, ascending */
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
	bool		use_weights;	/* weights presorted the last sample well */
	bool		only_compared;	/* citext: the strings have no keys */
	size_t		rows_since;		/* strings since that sample */
	size_t		next_sample;	/* that number at the next one */

	/* of a presort: least strings of a group, and strings that weights may fail to distinguish */
	size_t		min_rows;
	size_t		compared_left;
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
make_short_string(KeyKind kind, ShortString *s, int code, char after)
{
	char	   *p = kind == KEY_NAME ? s->name.data : VARDATA(s->varlena);
	size_t		len;

	memset(s, 0, sizeof(*s));
	unicode_to_utf8(code, (unsigned char *) p);
	len = strlen(p);
	p[len] = after;
	if (kind != KEY_NAME)
		SET_VARSIZE(s->varlena, VARHDRSZ + len + 1);
	return PointerGetDatum(s);
}

/* Compares two characters, each followed by another one. */
static int
compare_chars(const PrimaryWeights *w, int a, char after_a, int b, char after_b)
{
	ShortString x;
	ShortString y;

	return w->ssup->comparator(make_short_string(w->kind, &x, a, after_a),
							   make_short_string(w->kind, &y, b, after_b),
							   w->ssup);
}

/* Compares the primary weights of two characters: 0 if the characters after them decide. */
static int
compare_primary(const PrimaryWeights *w, int a, int b)
{
	int			ab = compare_chars(w, a, 'a', b, 'b');

	return ab < 0 && compare_chars(w, a, 'b', b, 'a') > 0 ? 0 : ab;
}

/* Has the character no primary weight, as punctuation in many locales of the C library? */
static bool
is_ignored(const PrimaryWeights *w, int code)
{
	return compare_chars(w, code, 'z', 'y', 'a') > 0 && compare_chars(w, code, 'a', 'b', 'z') < 0;
}

/*
 * Finds a character's weight: WEIGHT_IGNORED, or the weight of a learnt character that is
 * equal.  If no learnt character is equal, sets *equal to false and returns the number of
 * smaller learnt characters.
 */
static int
find_weight(const PrimaryWeights *w, int code, bool *equal)
{
	int			from = 0;
	int			to = w->nlearnt;

	*equal = is_ignored(w, code);
	if (*equal)
		return WEIGHT_IGNORED;
	while (from < to)
	{
		int			mid = (from + to) / 2;
		int			cmp = compare_primary(w, code, w->learnt[mid]);

		if (cmp == 0)
		{
			*equal = true;
			return mid + 1;
		}
		if (cmp > 0)
			from = mid + 1;
		else
			to = mid;
	}
	return from;
}

/* Learns a character's weight; those of the characters after it become larger. */
static void
learn_character(PrimaryWeights *w, int code)
{
	bool		equal;
	int			weight;

	if (w->nlearnt == (int) lengthof(w->learnt) ||
		(w->weights[code] != WEIGHT_UNKNOWN && w->weights[code] != WEIGHT_LAST))
		return;
	weight = find_weight(w, code, &equal);
	if (!equal)
	{
		memmove(&w->learnt[weight + 1], &w->learnt[weight], (w->nlearnt - weight) * sizeof(uint16));
		w->learnt[weight] = code;
		w->nlearnt++;
		for (int other = 0; other < WEIGHTED_CHARS; other++)
			w->weights[other] += w->weights[other] > weight && w->weights[other] < WEIGHT_IGNORED;
		weight++;
	}
	w->weights[code] = weight;
}

static PrimaryWeights *
weights_create(MemoryContext cxt, SortSupport ssup, KeyKind kind)
{
	PrimaryWeights *w = MemoryContextAllocZero(cxt, sizeof(PrimaryWeights));

	w->ssup = ssup;
	w->kind = kind;
	for (int code = 1; code < ASCII_CHARS; code++)
		learn_character(w, code);
	return w;
}

/*
 * Reads a character of UTF-8; returns its code point, or -1 if it cannot be learnt.  Calls
 * of pg_utf_mblen() and utf8_to_unicode() for each letter make sorts 5 to 12 % slower.
 */
static int
next_character(const char **p, const char *end)
{
	const uint8 *c = (const uint8 *) *p;
	int			code = c[0];
	int			bytes = 1;

	if (code >= 0x80)
	{
		bytes = code < 0xE0 ? 2 : code < 0xF0 ? 3 : 4;
		if (bytes == 4 || end - *p < bytes)
			code = -1;
		else if (bytes == 2)
			code = (c[0] & 0x1F) << 6 | (c[1] & 0x3F);
		else
			code = (c[0] & 0x0F) << 12 | (c[1] & 0x3F) << 6 | (c[2] & 0x3F);
	}
	*p += bytes;
	return code < WEIGHTED_CHARS ? code : -1;
}

/* Learns the characters of a string. */
static void
learn_characters(PrimaryWeights *w, KeyString s)
{
	const char *p = s.p;
	const char *end = s.p + Min(s.len, TAUGHT_BYTES);

	while (p < end)
	{
		int			code = next_character(&p, end);

		if (code >= 0)
			learn_character(w, code);
	}
}

/* A character that was in no sample has the weight of an equal one, if there is any. */
static uint8
weight_of(PrimaryWeights *w, int code)
{
	bool		equal = false;
	int			weight = WEIGHT_LAST;

	if (code < 0)
		return WEIGHT_LAST;
	if (w->weights[code] == WEIGHT_UNKNOWN)
	{
		if (w->nlearnt < (int) lengthof(w->learnt))
			weight = find_weight(w, code, &equal);
		w->weights[code] = equal ? weight : WEIGHT_LAST;
	}
	return w->weights[code];
}

/* The weights of a string's first eight characters that are not ignored. */
static uint64
weights_key(PrimaryWeights *w, const char *p, size_t len)
{
	const char *end = p + len;
	uint64		key = 0;
	int			shift = 56;

	if (len >= sizeof(key))
	{
		bool		simple = true;	/* ASCII, and none is ignored */

		for (int i = 0; i < (int) sizeof(key); i++)
		{
			uint8		c = (uint8) p[i];
			uint8		weight = w->weights[c];

			simple &= c < ASCII_CHARS && weight != WEIGHT_IGNORED;
			key = key << 8 | weight;
		}
		if (simple)
			return key;
		key = 0;
	}
	while (shift >= 0 && p < end)
	{
		uint8		c = (uint8) *p;
		uint8		weight;

		if (likely(c < ASCII_CHARS))
		{
			weight = w->weights[c];
			p++;
		}
		else
			weight = weight_of(w, next_character(&p, end));
		if (weight == WEIGHT_IGNORED)
			continue;
		key |= (uint64) weight << shift;
		shift -= 8;
	}
	return key;
}

/* ---- Presorting strings ---- */

static void
free_locale(void *arg)
{
	freelocale((locale_t) arg);
}

/* Finds how strings of the column's collation can be presorted, if at all. */
static TieCollation *
find_collation(TieBreak *tb, TieColumn *col)
{
	const KeyColumn *key = &col->key;
	int16		len = TupleDescAttr(tb->desc, col->key.attno - 1)->attlen;
	TieCollation *collation = MemoryContextAllocZero(tb->cxt, sizeof(TieCollation));
	bool		strings;
	char	   *name;

	collation->kind = KEY_TEXT; /* citext's format */
	strings = key_sorts_strings(key, &collation->kind);
	if (key->kind != KEY_COMPARED || (collation->kind == KEY_NAME ? len != NAMEDATALEN : len != -1))
		return collation;
	collation->by_weights = key_sorts_by_letters(key);
	name = strings ? collation_libc_locale(key->collation) : NULL;
	collation->only_compared = !strings;
	collation->next_sample = WEIGHTS_MIN_ROWS / (collation->only_compared ? 4 : name != NULL ? 2 : 1);
	if (name == NULL)
		return collation;
	collation->locale = newlocale(LC_COLLATE_MASK | LC_CTYPE_MASK, name, (locale_t) 0);
	pfree(name);
	if (collation->locale != (locale_t) 0)
	{
		collation->callback.func = free_locale;
		collation->callback.arg = collation->locale;
		MemoryContextRegisterResetCallback(tb->cxt, &collation->callback);
	}
	return collation;
}

/* The key that presorts a string, of its characters from a byte on. */
static inline uint64
presort_key(const TieCollation *collation, KeyString s, size_t at)
{
	char		from[XFRM_SOURCE + 1];
	char		to[XFRM_ROOM];
	size_t		len = Min(s.len - at, XFRM_SOURCE);

	if (collation->use_weights)
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
	TieCollation *collation = col->collation;
	size_t		common = 0;
	size_t		start = 0;
	bool		equal;

	if (n < collation->min_rows || npresorts == PRESORT_MAX)
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
		if (n > collation->compared_left)
			return false;
		collation->compared_left -= n;
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

/* Learns the characters of a sample.  Do their weights presort it well? */
static bool
weights_presort_well(TieBreak *tb, TieColumn *col, const SortRec64 *recs, size_t n)
{
	SortRec64	sample[WEIGHTS_SAMPLE];
	size_t		nsample = Min(n, WEIGHTS_SAMPLE);
	TieCollation *collation = col->collation;
	SortSupport ssup = tie_comparator(tb, col);
	size_t		wrong = 0;

	for (size_t i = 0; i < nsample; i++)
	{
		/* of each piece of equal length a string at a random place: rows of a table may alternate */
		sample[i] = recs[n * i / nsample + murmurhash32(i) % (n / nsample)];
		if (string_is_toasted(collation->kind, (Datum) sample[i].key))
			return false;
		CHECK_FOR_INTERRUPTS();
		learn_characters(collation->weights, string_of(collation->kind, (Datum) sample[i].key));
	}
	/* a group of few strings stands for a larger one */
	collation->min_rows = 2;
	collation->compared_left = nsample / COMPARED_PART;
	if (!presort_strings(tb, col, sample, nsample, 0, 0))
		return false;
	for (size_t i = 1; i < nsample; i++)
		wrong += tie_compare(ssup, (Datum) sample[i - 1].key, (Datum) sample[i].key) > 0;
	return wrong <= nsample / 32;
}

/* Counts n strings more; decides from time to time whether weights are used. */
static void
sample_weights(TieBreak *tb, TieColumn *col, const SortRec64 *recs, size_t n)
{
	TieCollation *collation = col->collation;

	collation->rows_since += n;
	if (collation->rows_since < collation->next_sample)
		return;
	if (collation->weights == NULL)
		collation->weights = weights_create(tb->cxt, tie_comparator(tb, col), collation->kind);
	/* the sample is presorted by weights */
	collation->use_weights = true;
	collation->use_weights = weights_presort_well(tb, col, recs, n);
	collation->rows_since = 0;
	collation->next_sample = collation->use_weights ? WEIGHTS_MIN_ROWS : 2 * collation->next_sample;
	ereport(DEBUG1,
			(errmsg_internal("gpusort: primary weights presort a group of %zu strings %s", n,
							 collation->use_weights ? "well" : "badly")));
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
		sample_weights(tb, col, recs, n);
	collation->min_rows = PRESORT_MIN_ROWS;
	if (collation->use_weights)
	{
		/* without keys comparing a group is still less work than comparing all strings */
		collation->compared_left = collation->only_compared ? n : n / COMPARED_PART;
		if (presort_strings(tb, col, recs, n, 0, 0))
			return true;
		collation->use_weights = false;
	}
	collation->compared_left = n;
	return collation->locale != (locale_t) 0 && presort_strings(tb, col, recs, n, 0, 0);
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
	Form_pg_attribute attr = TupleDescAttr(tb->desc, col->key.attno - 1);
	uint32		first = Min(max_values, DISTINCT_AT_FIRST);

	for (size_t i = 0; i < n; i++)
	{
		uint32		len;
		const char *p;

		CHECK_FOR_INTERRUPTS();
		if (!attr->attbyval)
			tie_prefetch_value(recs, i, n);
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
