/*
 * key.h
 *	  Normalized keys: key buffer, key layouts, packing, decoding.
 *
 * A sort collects the normalized keys of its rows in a key buffer, one array per key
 * column.  While rows arrive, the ranges of the columns are not known.  When all rows
 * are there, pack.c folds the columns into one narrow key that has only the bits that
 * these ranges need.  Streams of several processes use a CommonKeyRange.
 */
#ifndef GPUSORT_KEY_KEY_H
#define GPUSORT_KEY_KEY_H

#include "postgres.h"

#include "access/attnum.h"
#include "access/htup_details.h"
#include "access/tupmacs.h"
#include "compat.h"
#include "kernel/sort_kernel.h"
#include "key/type/bytes.h"
#include "key/type/normkey.h"
#include "key/type/traits.h"
#include "port/pg_bitutils.h"
#include "store/store.h"

struct KeyBuffer;

/* ------------------------------------------------------------------------
 * Key columns: the SQL types that can be sort keys, and the key kind of each
 * ------------------------------------------------------------------------
 */

/* One column of the ORDER BY. */
typedef struct KeyColumn
{
	AttrNumber	attno;			/* column of the sort's input, from 1 */
	Oid			sortop;			/* ordering operator */
	Oid			collation;
	bool		nulls_first;
	bool		descending;
	KeyKind		kind;
} KeyColumn;

/*
 * Sets the kind and direction of key, whose ordering operator and collation are
 * set.  Returns false and a reason in *why if the operator is not a btree ordering
 * operator, has no comparison function, or lacks a collation.
 */
extern bool key_type_lookup(KeyColumn *key, Oid type, const char **why);

/*
 * Does the column sort strings by a collation?  If so, *kind is the kind of the
 * operator's type, which tells how its strings are stored.
 */
extern bool key_sorts_strings(const KeyColumn *key, KeyKind *kind);

/* ------------------------------------------------------------------------
 * The input's order
 * ------------------------------------------------------------------------
 */

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

/* ------------------------------------------------------------------------
 * Key buffer
 *
 * A normalized key of 128 bits takes two adjacent columns of the key buffer.  Both are
 * NULL if the value is NULL.
 * ------------------------------------------------------------------------
 */

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
#define COMPUTED_NORMKEY(kind, normkey, make, words, exact) \
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

/* Counts n rows that have been written. */
static inline void
keybuf_count(KeyBuffer *keybuf, size_t n)
{
	keybuf->n += n;
	if (unlikely(keybuf->input_order.possible != 0) && keybuf->n - keybuf->input_order.seen >= INPUT_ORDER_ROWS)
		input_order_check(keybuf);
}

/* Normalized key of row i's value, of a computed kind. */
extern uint64 keybuf_computed(KeyBuffer *keybuf, KeyMaker maker, KeyBufferColumn *col, size_t i, Datum value);

/* Writes a value that is not NULL for row i. */
static inline void
keybuf_value(KeyBuffer *keybuf, KeyMaker maker, KeyBufferColumn *col, size_t i, Datum value)
{
	uint64		normkey;

	if (col->computed)
		normkey = keybuf_computed(keybuf, maker, col, i, value);
	else
		normkey = normkey_of_value(col, NO_KEY_MAKER, value, NULL);
	key_range_add(&col->range, normkey);
	keybuf_store(col, i, normkey);
}

/* Appends one row.  The key buffer has room for it. */
static inline void
keybuf_row(KeyBuffer *keybuf, const KeyWriter *writer, const Datum *values, const bool *isnull, uint32 rid)
{
	size_t		i = keybuf->n;

	Assert(i < keybuf->capacity);
	for (int c = 0; c < keybuf->ncols; c++)
	{
		KeyBufferColumn *col = &keybuf->cols[c];

		if (unlikely(isnull[col->att]))
			keybuf_null(keybuf, writer->owner, col, i);
		else
			keybuf_value(keybuf, writer->makers[c], col, i, values[col->att]);
	}
	if (keybuf->rids != NULL)
		keybuf->rids[i] = rid;
	keybuf_count(keybuf, 1);
}

/* ------------------------------------------------------------------------
 * Key makers
 * ------------------------------------------------------------------------
 */

/* Makes the key maker of a column, or of its second word, in cxt. */
extern KeyMaker key_maker_create(MemoryContext cxt, const KeyColumn *key, KeyKind kind);

/*
 * Type and collation of the first parts that the key maker has seen (nested
 * kinds).  Normalized keys of two processes compare only if these are the same.  0: no
 * value has been seen, or the kind has no parts.
 */
extern uint64 key_maker_part_type(KeyKind kind, KeyMaker maker);

/* KEY_ABBREVIATED if the column's sort support has abbreviated keys, else KEY_COMPARED. */
extern KeyKind abbreviated_kind(const KeyColumn *key);

/* Sort support of a column in cxt, with abbreviated keys if abbreviate. */
extern struct SortSupportData *abbreviated_support(MemoryContext cxt, const KeyColumn *key, bool abbreviate);

/* ------------------------------------------------------------------------
 * Strings: text, varchar, char(n), name, bytea
 * ------------------------------------------------------------------------
 */

/* The bytes of a string value. */
typedef struct KeyString
{
	const char *p;
	size_t		len;
} KeyString;

/* Is the value compressed or stored out of line? */
static inline bool
string_is_toasted(KeyKind kind, Datum value)
{
	const char *p = (const char *) DatumGetPointer(value);

	return kind != KEY_NAME && (VARATT_IS_EXTERNAL(p) || VARATT_IS_4B_C(p));
}

/* The bytes of a value that is not toasted, without the trailing blanks of char(n). */
static inline KeyString
string_of(KeyKind kind, Datum value)
{
	const char *p = (const char *) DatumGetPointer(value);
	KeyString	s;

	if (kind == KEY_NAME)
	{
		s.p = p;
		s.len = strnlen(p, NAMEDATALEN);
		return s;
	}
	s.p = VARDATA_ANY(p);
	s.len = VARSIZE_ANY_EXHDR(p);
	if (kind == KEY_BPCHAR)
	{
		while (s.len > 0 && s.p[s.len - 1] == ' ')
			s.len--;
	}
	return s;
}

/* The normalized key of a string of a column with this prefix; direction not applied. */
static inline uint64
string_normkey_behind(KeyKind kind, const BytesPrefix *prefix, KeyString s, bool *inexact)
{
	/* the string's zero byte looks like padding */
	if (kind == KEY_BYTEA && s.len > 0 && s.p[s.len - 1] == '\0')
		*inexact = true;
	return bytes_normkey(prefix, s.p, s.len, inexact);
}

/* Does the value begin with its column's prefix? */
extern bool string_has_prefix(const KeyBufferColumn *col, Datum value);

/* Converts a range behind a prefix of from bytes to one behind a prefix of to bytes. */
extern void string_shift_range(const KeyBufferColumn *col, int from, int to, KeyRange *range);

/*
 * Does the order of strings mostly follow an order of characters, and are strings equal
 * only if their bytes are?
 */
extern bool collation_by_letters(Oid collation);

/* Name of the C library's locale of this collation, palloc'd; NULL for other providers. */
extern char *collation_libc_locale(Oid collation);

/* ------------------------------------------------------------------------
 * Keys read from heap tuples in place
 *
 * A column that only fixed-width columns precede has the same offset in all tuples
 * without NULLs up to it.  Its keys are read without deforming the tuple.
 * ------------------------------------------------------------------------
 */

/* Where the columns of a key buffer lie in heap tuples. */
typedef struct PageKeys
{
	/* leading attributes of the tuple that are needed */
	int			last_att;
	bool		fixed;			/* the columns have fixed offsets */
	AttrNumber	att[KEY_MAX_COLUMNS];	/* attribute of the tuple, from 0 */
	int			offset[KEY_MAX_COLUMNS];	/* from the tuple's data, if fixed */
	int			byval_len[KEY_MAX_COLUMNS]; /* of types by value; else 0 */
} PageKeys;

/* atts[] maps the columns of the sort's input to attributes of desc, both from 0. */
extern void page_keys_init(PageKeys *keys, const KeyBuffer *keybuf, TupleDesc desc,
						   const AttrNumber *atts);

/*
 * Writes the keys of count tuples as rows [at, at + count).  data[] points to the data
 * of each tuple.  page_keys_fixed() is true for all tuples.  The key buffer has room for
 * the rows; they are not counted.
 */
extern void page_keys_to_buffer(const PageKeys *keys, KeyBuffer *keybuf, const KeyWriter *writer, size_t at,
								const char *const *data, int count);

/*
 * Writes column c of rows [at, at + count).  where[] points to each value; NULL is an
 * SQL NULL.
 */
extern void page_keys_column_to_buffer(const PageKeys *keys, KeyBuffer *keybuf, const KeyWriter *writer, int c,
									   size_t at, const char *const *where, int count);

/*
 * Selects the rows of [first, n) whose first column may sort before or with a value that
 * has this normalized key.  NULLs are always selected.  where[] points to each value, as
 * above.  Writes the row numbers to left[], and returns how many there are.
 */
extern int	page_keys_select(const PageKeys *keys, const KeyBuffer *keybuf, const KeyWriter *writer,
							 uint64 normkey, const char *const *where, int first, int n, uint16 *left);

/* Do the keys of this tuple have fixed offsets? */
static inline bool
page_keys_fixed(const PageKeys *keys, const HeapTupleHeaderData *tuple)
{
	if (!keys->fixed || HeapTupleHeaderGetNatts(tuple) < keys->last_att)
		return false;
	if (likely((tuple->t_infomask & HEAP_HASNULL) == 0))
		return true;
	for (int att = 0; att < keys->last_att; att++)
	{
		if (att_isnull(att, tuple->t_bits))
			return false;
	}
	return true;
}

/* The Datum of the value at p. */
static inline Datum
page_datum(const char *p, int byval_len)
{
	return byval_len == 0 ? PointerGetDatum(p) : fetch_att(p, true, byval_len);
}

/* normkey_of_value() of the value at p; kind is the column's and may be a constant. */
static pg_attribute_always_inline uint64
normkey_at(const KeyBufferColumn *col, KeyMaker maker, KeyKind kind, uint64 flip, const char *p,
		   int byval_len, bool *inexact)
{
	switch (kind)
	{
#define VALUE_NORMKEY_AT(kind, normkey, type, from_datum, make, back) \
		case kind: return (normkey) (make(*(const type *) p) ^ flip);
#define REF_NORMKEY_AT(kind, normkey, make, words) \
		case kind: return (normkey) (make(p) ^ flip);
#define COMPUTED_NORMKEY_AT(kind, normkey, make, words, exact) \
		case kind: return (normkey) (make(col, maker, page_datum(p, byval_len), inexact) ^ flip);
			KEY_KINDS(VALUE_NORMKEY_AT, REF_NORMKEY_AT, COMPUTED_NORMKEY_AT)
	}
	pg_unreachable();
}

/* ------------------------------------------------------------------------
 * Key layouts and packing
 * ------------------------------------------------------------------------
 */

#ifndef HAVE_INT128
#error "gpusort needs a compiler with 128-bit integers"
#endif

/* PostgreSQL's type, because palloc aligns only to 8 bytes */
typedef uint128 Key128;

/* A linear scale for float8 (pack.c). */
typedef struct LinearScale
{
	uint64		flip;			/* that of the column */
	double		from;			/* the value that sorts first */

	/* numbers per unit, negative if descending; 0: no scale */
	double		steps;
} LinearScale;

/* Maps the bytes of strings to their ranks (pack.c). */
typedef struct ByteDictionary ByteDictionary;

/* A column's place in the packed key. */
typedef struct LayoutColumn
{
	BitCompaction compaction;	/* applied first if its mask is not 0 */
	const ByteDictionary *byte_dictionary;	/* or applied first, if not NULL */
	LinearScale quantized;		/* or applied first, if steps is not 0 */

	/* The column's number is the normalized key - base + add. */
	uint64		base;
	uint64		add;			/* 1: NULLs first, as number 0; otherwise 0 */
	Key128		null_value;		/* the number of NULLs */
	bool		nulls;			/* the column may have NULLs */
	int			bits;			/* 0 to 65 */
} LayoutColumn;

/* A packed key has the numbers of its columns side by side, the first one uppermost. */
typedef struct KeyLayout
{
	/* leading columns of the key buffer, to the first inexact one */
	int			ncols;
	int			total_bits;
	bool		may_be_exact;	/* exact if no bit is cut off */

	/* equal keys mean rows that are equal in the ORDER BY */
	bool		exact;
	LayoutColumn cols[KEY_MAX_COLUMNS];
} KeyLayout;

/*
 * Neighbours of an array of packed keys that descend and ascend.  No descents: the input
 * is sorted.  No ascents: it is reversed, except that equal keys are in input order.
 */
typedef struct KeyOrder
{
	size_t		descents;
	size_t		ascents;
} KeyOrder;

/* Makes the narrowest layout for columns whose normalized keys lie in ranges[]. */
extern void key_layout(KeyLayout *layout, const KeyBuffer *keybuf, const KeyRange *ranges);

/* Memory for the dictionaries of a layout's columns; NULL until needed. */
typedef struct ByteDictionaries
{
	ByteDictionary *cols[KEY_MAX_COLUMNS];
} ByteDictionaries;

/*
 * Makes a layout of the key buffer's own ranges narrower by per-byte dictionaries, if it
 * has more bits than this.  Looks at all normalized keys.  Dictionaries are allocated in
 * cxt and kept in *made.  The layout is valid until *made is used for another one.
 */
extern void key_layout_narrow(KeyLayout *layout, const KeyBuffer *keybuf, ByteDictionaries *made,
							  MemoryContext cxt, int bits);

/*
 * Number of values of the packed key, as closely as ranges tell; 0 if it has 64 bits or
 * more.  The layout is one of the key buffer's own ranges.
 */
extern uint64 key_layout_range(const KeyBuffer *keybuf, const KeyLayout *layout);

/*
 * Layout for packed records whose keys have this number of bits, fewer than layout's.
 * layout must be for the key buffer's own ranges.  The first column that does not fit
 * is quantized, and later columns are dropped.  Returns false if that column is no
 * float8, or if the scale does not pay.
 */
extern bool quantized_layout(KeyLayout *quantized, const KeyLayout *layout, const KeyBuffer *keybuf, int bits);

/* The key buffer's own ranges, for key_layout(). */
extern void keybuf_ranges(const KeyBuffer *keybuf, KeyRange *ranges);

/*
 * Writes all rows as records.  SORT_REC_PACKED has the rid in the lowest rid_bits, above it
 * the key's uppermost key_bits (key_bits + rid_bits <= 64).  SORT_REC_64 is for a layout of
 * up to 64 bits; SORT_REC_128 has the key's uppermost 128 bits.
 */
extern void pack_records(const KeyBuffer *keybuf, const KeyLayout *layout, SortRecFormat format,
						 int key_bits, int rid_bits, void *recs, KeyOrder *order);

/*
 * Writes the keys of rows [start, start + count), without rids: uint32, uint64 or Key128
 * for a key_width of 32, 64 or 128, right-aligned.  Of a longer key, the uppermost 128
 * bits are written.
 */
extern void pack_keys(const KeyBuffer *keybuf, const KeyLayout *layout, int key_width,
					  size_t start, size_t count, void *keys);

/* Row i's key as pack_keys() writes it for a key_width of 128. */
extern Key128 pack_key(const KeyBuffer *keybuf, const KeyLayout *layout, size_t i);

/* Key of one row from its values, left-aligned in 128 bits.  Keys of one layout compare. */
extern Key128 pack_row(const KeyBuffer *keybuf, const KeyWriter *writer, const KeyLayout *layout,
					   const Datum *values, const bool *isnull);

/* ------------------------------------------------------------------------
 * Decoding
 * ------------------------------------------------------------------------
 */

/*
 * Decodes count keys that are right-aligned in words.  Column c of key i goes to
 * values[c * stride + i] and isnull[c * stride + i].
 */
extern void decode_words(const KeyBuffer *keybuf, const KeyLayout *layout, const uint64 *words,
						 int count, int stride, Datum *values, bool *isnull);

/* Decodes a key of 128 bits.  Column c goes to values[c * stride] and isnull[c * stride]. */
extern void decode_key128(const KeyBuffer *keybuf, const KeyLayout *layout, Key128 key,
						  int stride, Datum *values, bool *isnull);

/* ------------------------------------------------------------------------
 * Common key range
 *
 * Normalized keys of two sorts of the same columns do not compare, because strings
 * follow different prefixes (bytes.h).  A common key range is made from the ranges and
 * prefixes of both sorts.  Each sort then makes its keys again, relative to it.
 *
 * Plain data without pointers, because it passes between processes.
 * ------------------------------------------------------------------------
 */

typedef struct CommonKeyRange
{
	KeyRange	ranges[KEY_MAX_COLUMNS];
	BytesPrefix prefixes[KEY_MAX_COLUMNS];	/* of string columns */
} CommonKeyRange;

/* Completes a sort's own ranges, which common_range has, by its key buffer's prefixes. */
extern void common_range_of_keys(CommonKeyRange *common_range, const KeyBuffer *keybuf);

#endif							/* GPUSORT_KEY_KEY_H */
