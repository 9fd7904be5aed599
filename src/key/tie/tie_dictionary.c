/*
 * tie_dictionary.c
 *	  Values that come again and again, compared once each.
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
 */
#include "postgres.h"

#include "compat.h"
#include "key/tie/tie_hash.h"
#include "key/tie/tie_rows.h"

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
