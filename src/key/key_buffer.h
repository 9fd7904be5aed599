/*
 * key_buffer.h
 *	  Key buffer: the normalized keys of a sort's rows, and the order of the input.
 *
 * A normalized key of 128 bits takes two adjacent columns of the key buffer.  Both are
 * NULL if the value is NULL.
 */
#ifndef GPUSORT_KEY_KEY_BUFFER_H
#define GPUSORT_KEY_KEY_BUFFER_H

#include "postgres.h"

#include "key/key_column.h"
#include "key/type/bytes.h"
#include "key/type/normkey.h"
#include "port/pg_bitutils.h"
#include "store/store.h"

struct KeyBuffer;

/* Number of rows that are checked together when rows arrive one by one. */
#define INPUT_ORDER_ROWS	64

/* Orders that the input may have. */
#define INPUT_ASCENDING		1	/* no row sorts before its predecessor */
#define INPUT_DESCENDING	2	/* each row sorts before its predecessor */

typedef struct InputOrder
{
	uint8		possible;		/* orders that the checked rows still allow */
	bool		varied;			/* the checked rows are not all equal */
	size_t		seen;			/* number of rows checked */
} InputOrder;

/* Checks the rows that have not been checked yet. */
extern void input_order_check(struct KeyBuffer *keybuf);

/*
 * Key columns are buffered until they have this many bits.  A packed key has at most
 * 128 bits, so further columns would matter only if packing saved a third of the bits.
 * Comparators order rows that tie in the buffered columns.
 */
#define KEYBUF_MAX_BITS		192
#define KEY_MAX_COLUMNS		12

/* Range of a column's normalized keys, direction applied. */
typedef struct KeyRange
{
	uint64		min;			/* min > max: no value, or only NULLs */
	uint64		max;
	bool		has_null;
	bool		inexact;		/* equal normalized keys, different values */

	/* united ranges of strings: length of their prefix */
	int			skip;
	uint64		set;			/* computed kinds: bits set in any key */
	uint64		common;			/* computed kinds: bits set in all keys */
	uint64		part_type;		/* key_maker_part_type(); 0: any */
} KeyRange;

typedef struct KeyBufferColumn
{
	KeyKind		kind;
	int			att;			/* column of the input row, from 0 */
	bool		wide;			/* normalized keys have 8 bytes, otherwise 4 */
	bool		nulls_first;
	bool		computed;		/* a function makes the normalized keys */
	bool		by_bytes;		/* strings behind a common prefix (bytes.h) */
	uint64		flip;			/* all ones if descending, otherwise 0 */
	BytesPrefix prefix;
	KeyRange	range;
	void	   *normkeys;		/* array of uint32 or uint64, one per row */
	uint8	   *nulls;			/* 1: NULL; no array until the first NULL */
	BulkBuf		normkeys_buf;
	BulkBuf		nulls_buf;
} KeyBufferColumn;

typedef struct KeyBuffer
{
	int			ncols;
	bool		complete;		/* all key columns are buffered */

	/* complete, and no normalized key is ever inexact */
	bool		exact;

	/* leading attributes of the input row that are needed */
	int			last_att;
	int			row_bytes;		/* buffered bytes per row */
	size_t		n;				/* rows */
	size_t		capacity;		/* rows that the arrays have room for */
	Size		bytes;			/* of all arrays, at their capacity */
	InputOrder	input_order;	/* order in which the n rows came */
	bool		keys_only;		/* rows consist of their keys and have no rids */
	uint32	   *rids;			/* NULL if keys_only */
	BulkBuf		rids_buf;
	KeyBufferColumn cols[KEY_MAX_COLUMNS];
} KeyBuffer;

/* What a process needs to write to a key buffer.  Readers do not need it. */
typedef struct KeyWriter
{
	BulkOwner  *owner;			/* owner of the key buffer's arrays */
	KeyMaker	makers[KEY_MAX_COLUMNS];	/* key maker of each column */
} KeyWriter;

/*
 * Makes the keys of two sorts comparable.
 *
 * Normalized keys of two sorts of the same columns do not compare, because strings
 * follow different prefixes (bytes.h).  A common key range is made from the ranges and
 * prefixes of both sorts.  Each sort then makes its keys again, relative to it.
 *
 * Plain data without pointers, because it passes between processes.
 */
typedef struct CommonKeyRange
{
	KeyRange	ranges[KEY_MAX_COLUMNS];
	BytesPrefix prefixes[KEY_MAX_COLUMNS];	/* of string columns */
} CommonKeyRange;

/* Completes a sort's own ranges, which common_range has, by its key buffer's prefixes. */
extern void common_range_of_keys(CommonKeyRange *common_range, const KeyBuffer *keybuf);

/* Sets up a zeroed key buffer for the leading key columns. */
extern void keybuf_init(KeyBuffer *keybuf, const KeyColumn *keys, int nkeys, bool keys_only);

/*
 * Sets up a writer for this key buffer, or for another one of the same keys.  The key
 * makers live in cxt.
 */
extern void keybuf_writer_init(KeyWriter *writer, MemoryContext cxt, BulkOwner *owner, const KeyBuffer *keybuf,
							   const KeyColumn *keys);

/* Begins another sort: forgets rows, ranges and prefixes. */
extern void keybuf_begin(KeyBuffer *keybuf);

/* Makes room for at least n rows in all. */
extern void keybuf_reserve(KeyBuffer *keybuf, BulkOwner *owner, size_t n);

/*
 * Makes room for at least n rows, and for more: doubles the capacity, or multiplies it
 * by up to 8 if that many rows are expected.  That reserve does not exceed most rows.
 */
extern void keybuf_grow(KeyBuffer *keybuf, BulkOwner *owner, size_t n, size_t expected, size_t most);

/*
 * Keeps some rows, in their order.  keybuf_keep_begin() forgets the ranges,
 * keybuf_keep() moves row i to row to <= i, keybuf_keep_end() sets the number of rows.
 */
extern void keybuf_keep_begin(KeyBuffer *keybuf);
extern void keybuf_keep(KeyBuffer *keybuf, size_t i, size_t to, uint32 rid);
extern void keybuf_keep_end(KeyBuffer *keybuf, size_t n);

/* Forgets the rows and the ranges, keeps prefixes and memory.  The same sort continues. */
extern void keybuf_reset(KeyBuffer *keybuf);

/*
 * Fixes the prefixes, because normalized keys outside the key buffer depend on them.
 * Strings without the prefix get the smallest or largest normalized key.
 */
extern void keybuf_freeze(KeyBuffer *keybuf);

/* Unites ranges[], those of the sort's earlier rows, with those of the buffered rows. */
extern void keybuf_unite_ranges(const KeyBuffer *keybuf, KeyRange *ranges);

/* Drops rows [0, n), which were written, but not counted. */
extern void keybuf_forget(KeyBuffer *keybuf, size_t n);

/* Frees the memory.  The ranges stay valid. */
extern void keybuf_free(KeyBuffer *keybuf, BulkOwner *owner);

/* Writes a NULL for row i.  A column's first NULL allocates the array of NULL flags. */
extern void keybuf_null(KeyBuffer *keybuf, BulkOwner *owner, KeyBufferColumn *col, size_t i);

static inline void
key_range_init(KeyRange *range)
{
	range->min = PG_UINT64_MAX;
	range->max = 0;
	range->has_null = false;
	range->inexact = false;
	range->skip = 0;
	range->set = 0;
	range->common = PG_UINT64_MAX;
	range->part_type = 0;
}

static inline void
key_range_add(KeyRange *range, uint64 normkey)
{
	if (normkey < range->min)
		range->min = normkey;
	if (normkey > range->max)
		range->max = normkey;
}

static inline void
key_range_add_bits(KeyRange *range, uint64 normkey)
{
	range->set |= normkey;
	range->common &= normkey;
}

/* Widens the range to all normalized keys of a column that must use its comparator. */
static inline void
key_range_give_up(KeyRange *range)
{
	range->min = 0;
	range->max = PG_UINT64_MAX;
	range->inexact = true;
	range->set = PG_UINT64_MAX;
	range->common = 0;
}

static inline void
key_range_union(KeyRange *range, const KeyRange *other)
{
	range->min = Min(range->min, other->min);
	range->max = Max(range->max, other->max);
	range->has_null |= other->has_null;
	range->inexact |= other->inexact;
	range->set |= other->set;
	range->common &= other->common;
	if (unlikely(other->part_type != 0 && range->part_type != other->part_type))
	{
		if (range->part_type != 0)
			key_range_give_up(range);
		range->part_type = other->part_type;
	}
}

/* Is this normalized key, direction applied, that of a value without one? */
static inline bool
key_normkey_unplaced(const KeyBufferColumn *col, uint64 normkey)
{
	return key_traits[col->kind].may_be_unplaced &&
		normkey == (key_traits[col->kind].wide ? PG_UINT64_MAX ^ col->flip : (uint32) (PG_UINT32_MAX ^ col->flip));
}

/* Does the range have a value without a normalized key?  Then only the comparator decides. */
static inline bool
key_range_unplaced(const KeyBufferColumn *col, const KeyRange *range)
{
	return key_traits[col->kind].may_be_unplaced && range->min <= range->max &&
		(col->flip != 0 ? range->min == 0 : range->max >= key_unplaced(col->kind));
}

/* Row i's normalized key; meaningless for a NULL. */
static inline uint64
keybuf_normkey_at(const KeyBufferColumn *col, size_t i)
{
	return col->wide ? ((const uint64 *) col->normkeys)[i] : ((const uint32 *) col->normkeys)[i];
}

static inline void
keybuf_store(KeyBufferColumn *col, size_t i, uint64 normkey)
{
	if (col->wide)
		((uint64 *) col->normkeys)[i] = normkey;
	else
		((uint32 *) col->normkeys)[i] = (uint32) normkey;
}

/*
 * Normalized key of a Datum, direction applied.  Sets *inexact if it is inexact
 * (traits.h), and otherwise leaves it alone.
 */
static inline uint64
normkey_of_value(const KeyBufferColumn *col, KeyMaker maker, Datum datum, bool *inexact)
{
	switch (col->kind)
	{
#define VALUE_NORMKEY(kind, normkey, type, from_datum, make, back) \
		case kind: return (normkey) (make(from_datum(datum)) ^ col->flip);
#define REF_NORMKEY(kind, normkey, make, words) \
		case kind: return (normkey) (make((const char *) DatumGetPointer(datum)) ^ col->flip);
#define COMPUTED_NORMKEY(kind, normkey, make, words) \
		case kind: return (normkey) (make(col, maker, datum, inexact) ^ col->flip);
			KEY_KINDS(VALUE_NORMKEY, REF_NORMKEY, COMPUTED_NORMKEY)
	}
	pg_unreachable();
}

/* Number of bits that the rids need.  There is at least one row, and rids ascend. */
static inline int
keybuf_rid_bits(const KeyBuffer *keybuf)
{
	uint32		last = keybuf->rids[keybuf->n - 1];

	return last == 0 ? 0 : 1 + pg_leftmost_one_pos32(last);
}

/* Normalized key of row i's value, of a computed kind. */
extern uint64 keybuf_computed(KeyBuffer *keybuf, KeyMaker maker, KeyBufferColumn *col, size_t i, Datum value);

#endif							/* GPUSORT_KEY_KEY_BUFFER_H */
