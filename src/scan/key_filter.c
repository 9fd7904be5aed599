/*
 * key_filter.c
 *	  Drops rows of a merge join that have no match, before they are sorted.
 *
 * The filter is a Bloom filter of words of 64 bits: a value sets four bits of one word, so that
 * a test reads one word.  The rows of a page are tested together: first their words are prefetched.  A filter of
 * 8 to 16 bits for each value passes 0.5 to 3 % of the values that were not added.
 *
 * A row with a NULL has no match.  A filter that drops few rows is given up (KEY_FILTER_TRIAL).  The rows and
 * their order alone decide which rows are dropped.  So a sort that is repeated after a GPU's failure takes the
 * same rows again.
 *
 * Memory policy: one array, allocated once.  Processes that sort one side together have another array in shared memory,
 * so that all processes look up keys in the same cache lines.
 * Source: F. Putze, P. Sanders, J. Singler, "Cache-, Hash- and Space-Efficient Bloom Filters" (2007), blocked filters.
 */
#include "postgres.h"

#include "access/tupmacs.h"
#include "port/atomics.h"
#include "port/pg_bitutils.h"
#include "scan/key_filter.h"
#include "store/store.h"
#include "utils/memutils.h"

/* Bits for each value, before the number of words is rounded up to a power of two. */
#define KEY_FILTER_VALUE_BITS	8

/* The fewest words. */
#define KEY_FILTER_WORDS	64

/* After this number of rows, a filter that dropped less than an eighth is given up. */
#define KEY_FILTER_TRIAL	8192
#define KEY_FILTER_DROPS_LEAST	8

struct KeyFilter
{
	bool		complete;		/* all values were added */
	int			shift;			/* of a hash value, to get the number of a word */
	Size		bytes;
	uint64	   *own;			/* of the values that this process has added */
	uint64	   *words;			/* own, or those of all processes */
};

/* Base-2 logarithm of the number of words for this number of values; 64: no memory has them. */
static int
words_log(double values)
{
	double		words = Max(values * KEY_FILTER_VALUE_BITS / 64, KEY_FILTER_WORDS);

	return words > MaxAllocHugeSize / sizeof(uint64) ? 64 : pg_ceil_log2_64((uint64) words);
}

bool
key_filter_possible(double values, Size memory)
{
	int			log = words_log(values);

	return log < 64 && log <= pg_leftmost_one_pos64(Max(memory / sizeof(uint64), 1));
}

KeyFilter *
key_filter_create(double values)
{
	KeyFilter  *filter = palloc0(sizeof(KeyFilter));
	int			log = words_log(values);

	filter->shift = 64 - log;
	filter->bytes = (Size) sizeof(uint64) << log;
	filter->own = MemoryContextAllocHuge(CurrentMemoryContext, filter->bytes);
	return filter;
}

Size
key_filter_bytes(const KeyFilter *filter)
{
	return filter->bytes;
}

void
key_filter_publish(const KeyFilter *filter, uint64 *shared)
{
	for (Size i = 0; i < filter->bytes / sizeof(uint64); i++)
	{
		if (filter->own[i] != 0)
			(void) pg_atomic_fetch_or_u64((pg_atomic_uint64 *) &shared[i], filter->own[i]);
	}
}

void
key_filter_adopt(KeyFilter *filter, uint64 *shared)
{
	filter->words = shared;
	filter->complete = shared != NULL;
}

void
key_filter_begin(KeyFilterUse *use)
{
	use->tested = use->dropped = 0;
	if (use->role == KEY_FILTER_ADDS)
	{
		use->filter->complete = false;
		use->filter->words = use->filter->own;
		memset(use->filter->own, 0, use->filter->bytes);
	}
}

void
key_filter_end(KeyFilterUse *use)
{
	if (use->role == KEY_FILTER_ADDS)
		use->filter->complete = true;
}

/* Mixes all bits of the value into the upper and the lower bits. */
static inline uint64
hash_integer(int64 value)
{
	uint64		h = (uint64) value * UINT64CONST(0x9E3779B97F4A7C15);

	h ^= h >> 32;
	return h * UINT64CONST(0xD6E8FEB86659FD93);
}

/* The word of a hash value. */
static inline uint64 *
filter_word(const KeyFilter *filter, uint64 hash)
{
	return &filter->words[hash >> filter->shift];
}

/* The four bits of a hash value in its word. */
static inline uint64
filter_bits(uint64 hash)
{
	return UINT64CONST(1) << (hash & 63) | UINT64CONST(1) << (hash >> 6 & 63) |
		UINT64CONST(1) << (hash >> 12 & 63) | UINT64CONST(1) << (hash >> 18 & 63);
}

static inline void
add_hash(KeyFilter *filter, uint64 hash)
{
	*filter_word(filter, hash) |= filter_bits(hash);
}

/* Was a value with this hash value added? */
static inline bool
has_hash(const KeyFilter *filter, uint64 hash)
{
	uint64		bits = filter_bits(hash);

	return (*filter_word(filter, hash) & bits) == bits;
}

/* Does the sort drop rows, and has the filter dropped enough so far? */
static inline bool
drops_rows(const KeyFilterUse *use)
{
	return use->role == KEY_FILTER_DROPS && use->filter->complete &&
		(use->tested < KEY_FILTER_TRIAL || use->dropped >= use->tested / KEY_FILTER_DROPS_LEAST);
}

void
key_filter_page(KeyFilterUse *use, RowPage *page, OffsetNumber *offsets)
{
	KeyFilter  *filter = use->filter;
	PageKeyPointers where;
	uint64		hashes[MaxHeapTuplesPerPage];
	uint16		rows[MaxHeapTuplesPerPage];
	int			n = 0;
	int			kept = 0;

	if (use->role != KEY_FILTER_ADDS && !drops_rows(use))
		return;
	row_page_find_keys(page, 0, where);
	for (int i = 0; i < page->n; i++)
	{
		if (unlikely(where[0][i] == NULL))
			continue;
		hashes[n] = hash_integer(integer_of_datum(fetch_att(where[0][i], true, use->bytes), use->bytes));
		__builtin_prefetch(filter_word(filter, hashes[n]));
		rows[n++] = i;
	}
	if (use->role == KEY_FILTER_ADDS)
	{
		for (int i = 0; i < n; i++)
			add_hash(filter, hashes[i]);
		return;
	}
	for (int i = 0; i < n; i++)
	{
		int			row = rows[i];

		page->tuples[kept] = page->tuples[row];
		page->lens[kept] = page->lens[row];
		if (offsets != NULL)
			offsets[kept] = offsets[row];
		kept += has_hash(filter, hashes[i]);
	}
	use->tested += page->n;
	use->dropped += page->n - kept;
	page->n = kept;
}

bool
key_filter_slot(KeyFilterUse *use, TupleTableSlot *slot)
{
	bool		isnull;
	bool		passes;
	Datum		value;
	uint64		hash;

	if (use->role != KEY_FILTER_ADDS && !drops_rows(use))
		return true;
	value = slot_getattr(slot, use->attno, &isnull);
	hash = hash_integer(integer_of_datum(value, use->bytes));
	if (use->role == KEY_FILTER_ADDS)
	{
		if (!isnull)
			add_hash(use->filter, hash);
		return true;
	}
	passes = !isnull && has_hash(use->filter, hash);
	use->tested++;
	use->dropped += !passes;
	return passes;
}
