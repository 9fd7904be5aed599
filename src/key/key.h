/*
 * key.h
 *	  Normalized keys: the key buffer, packing and layouts.
 */
#ifndef GPUSORT_KEY_KEY_H
#define GPUSORT_KEY_KEY_H

#include "postgres.h"

#include "access/htup_details.h"
#include "access/tupmacs.h"
#include "compat.h"
#include "kernel/sort_kernel.h"
#include "key/type/bytes.h"
#include "key/type/normkey.h"
#include "key/type/keytype.h"
#include "port/pg_bitutils.h"
#include "store/memory.h"

struct KeyBuffer;

/* Rows that came one by one are looked at together, so many at a time. */
#define INPUT_ORDER_ROWS	64

/* Ways in which all rows that were seen came. */
#define INPUT_ASCENDING		1		/* none goes before the one that came before it */
#define INPUT_DESCENDING	2		/* each does */

typedef struct InputOrder
{
	uint8		possible;			/* that are possible still */
	bool		varied;			/* not all rows are equal */
	size_t		seen;			/* rows */
} InputOrder;

/* Looks at the rows that were not seen yet. */
extern void input_order_check(struct KeyBuffer *keybuf);

/* ------------------------------------------------------------------------
 * Sort keys as they come in: one array of images per key column.
 *
 * An image of 128 bits takes two columns of the stage, one beside the other; both
 * are NULL where the value is.
 *
 * While rows arrive nothing is known of the keys' ranges, so the images are
 * staged by column at their natural width (4 or 8 bytes), beside the rows' rids,
 * and each column's smallest and largest image and whether it has a NULL are
 * noted.  When all rows are there, pack.c folds the columns into one key of just
 * the bits that these ranges need.
 * ------------------------------------------------------------------------
 */

/*
 * Columns are staged until they have this many bits: what lies beyond could
 * only matter if narrowing saved a third of them; a comparison settles it then.
 */
#define KEYBUF_MAX_BITS		192
#define KEY_MAX_COLUMNS	12

/* What is known of a column's images. */
typedef struct KeyRange
{
	uint64		min;			/* min > max: no value that is not NULL */
	uint64		max;
	bool		has_null;
	bool		inexact;		/* equal ones may be of different values */
	int			skip;			/* of ranges united: bytes of the prefix that they are behind */
	uint64		set;			/* of images made by a function: bits set in any ... */
	uint64		common;			/* ... and in all */
	uint64		part_type;			/* key_maker_part_type() of the process that made them; 0: any */
} KeyRange;

typedef struct KeyBufferColumn
{
	KeyKind		kind;
	int			att;			/* column of the input row, from 0 */
	bool		wide;			/* 8-byte images, otherwise 4 */
	bool		nulls_first;
	bool		computed;			/* its images are made by a function */
	bool		by_bytes;		/* ... and stand behind the prefix */
	uint64		flip;			/* all ones for a descending column */
	BytesPrefix prefix;
	KeyRange	range;
	void	   *normkeys;			/* uint32 or uint64, one per row */
	uint8	   *nulls;			/* 1 where NULL; NULL until the first one */
	BulkBuf		normkeys_buf;
	BulkBuf		nulls_buf;
} KeyBufferColumn;

typedef struct KeyBuffer
{
	int			ncols;
	bool		complete;		/* every key column is staged */
	bool		exact;			/* ... and no image is ever inexact */
	int			last_att;		/* attributes of the input row that are needed */
	int			row_bytes;		/* staged bytes per row */
	size_t		n;
	size_t		capacity;
	Size		bytes;			/* of all arrays, at their capacity */
	InputOrder		input_order;		/* the order in which the n rows came */
	bool		keys_only;		/* rows are their keys, and have no rids */
	uint32	   *rids;			/* NULL if keys_only */
	BulkBuf		rids_buf;
	KeyBufferColumn cols[KEY_MAX_COLUMNS];
} KeyBuffer;

/* What the one who writes a stage brings along; who reads it needs none of this. */
typedef struct KeyWriter
{
	BulkOwner  *owner;			/* of the stage's arrays */
	KeyMaker	makers[KEY_MAX_COLUMNS];	/* of its images */
} KeyWriter;

/* Sets up a zeroed stage for the leading key columns. */
extern void keybuf_init(KeyBuffer *keybuf, const KeyColumn *keys, int nkeys, bool keys_only);

/* A writer of this stage, and of any of the same keys; what it makes images with is cxt's. */
extern void keybuf_writer_init(KeyWriter *writer, MemoryContext cxt, BulkOwner *owner, const KeyBuffer *keybuf,
							  const KeyColumn *keys);

/* Rows of another sort will come. */
extern void keybuf_begin(KeyBuffer *keybuf);

/* Room for at least n rows in all. */
extern void keybuf_reserve(KeyBuffer *keybuf, BulkOwner *owner, size_t n);

/*
 * The same, and for some of those that will follow: as many as came so far, or up
 * to eight times as many if that many are expected, but most at the most.
 */
extern void keybuf_grow(KeyBuffer *keybuf, BulkOwner *owner, size_t n, size_t expected, size_t most);

/* Some rows stay, in their order: forgets the ranges, */
extern void keybuf_keep_begin(KeyBuffer *keybuf);

/* then row i becomes row to <= i, */
extern void keybuf_keep(KeyBuffer *keybuf, size_t i, size_t to, uint32 rid);

/* and in the end n are left. */
extern void keybuf_keep_end(KeyBuffer *keybuf, size_t n);

/* Forgets the rows and the ranges, keeps the memory; the same sort goes on. */
extern void keybuf_reset(KeyBuffer *keybuf);

/*
 * From here on the sort's images are compared with some that are not in the stage, so
 * that prefixes must stay: strings without them get the smallest or largest image.
 */
extern void keybuf_freeze(KeyBuffer *keybuf);

/* Unites the staged rows' ranges with those of the sort's earlier rows. */
extern void keybuf_unite_ranges(const KeyBuffer *keybuf, KeyRange *ranges);

/* Rows [0, n) were staged, but not counted, and are not needed any more. */
extern void keybuf_forget(KeyBuffer *keybuf, size_t n);

/* Gives the memory back; ranges stay. */
extern void keybuf_free(KeyBuffer *keybuf, BulkOwner *owner);

/* Row i's column is NULL; its first NULL allocates the flags. */
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

/*
 * Nothing is known of the images: in either direction they are key_range_unplaced(), and every
 * image lies within the range.
 */
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

/* Does this image, direction folded in, say that its value has none? */
static inline bool
key_normkey_unplaced(const KeyBufferColumn *col, uint64 normkey)
{
	return key_may_be_unplaced(col->kind) &&
		normkey == (key_wide(col->kind) ? PG_UINT64_MAX ^ col->flip : (uint32) (PG_UINT32_MAX ^ col->flip));
}

/* Has a value of the range no normalized key?  Then none of the column's decides anything. */
static inline bool
key_range_unplaced(const KeyBufferColumn *col, const KeyRange *range)
{
	return key_may_be_unplaced(col->kind) && range->min <= range->max &&
		(col->flip != 0 ? range->min == 0 : range->max >= key_unplaced(col->kind));
}

/* Row i's staged image; of no meaning for a NULL. */
static inline uint64
keybuf_normkey_at(const KeyBufferColumn *col, size_t i)
{
	return col->wide ? ((const uint64 *) col->normkeys)[i] : ((const uint32 *) col->normkeys)[i];
}

/*
 * A datum's image, direction folded in, made with the column's maker.  Sets *inexact if it
 * is that (traits.h), and leaves it alone otherwise.
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

/* Bits that the rids of its rows take; there are some. */
static inline int
keybuf_rid_bits(const KeyBuffer *keybuf)
{
	uint32		last = keybuf->rids[keybuf->n - 1];

	return last == 0 ? 0 : 1 + pg_leftmost_one_pos32(last);
}

/* The next n rows have been staged. */
static inline void
keybuf_count(KeyBuffer *keybuf, size_t n)
{
	keybuf->n += n;
	if (unlikely(keybuf->input_order.possible != 0) && keybuf->n - keybuf->input_order.seen >= INPUT_ORDER_ROWS)
		input_order_check(keybuf);
}

/* A value's image for row i, where a function makes it. */
extern uint64 keybuf_computed(KeyBuffer *keybuf, KeyMaker maker, KeyBufferColumn *col, size_t i, Datum value);

/* Stages a column of row i that is not NULL. */
static inline void
keybuf_value(KeyBuffer *keybuf, KeyMaker maker, KeyBufferColumn *col, size_t i, Datum value)
{
	uint64		normkey;

	if (col->computed)
		normkey = keybuf_computed(keybuf, maker, col, i, value);
	else
		normkey = normkey_of_value(col, NO_KEY_MAKER, value, NULL);
	key_range_add(&col->range, normkey);
	if (col->wide)
		((uint64 *) col->normkeys)[i] = normkey;
	else
		((uint32 *) col->normkeys)[i] = (uint32) normkey;
}

/* Stages one row's keys.  The caller has made sure of room. */
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
 * Keys that are strings of bytes: text, varchar, char(n), name, bytea.
 * ------------------------------------------------------------------------
 */

/* Where a value's bytes lie. */
typedef struct KeyString
{
	const char *p;
	size_t		len;
} KeyString;

/* Is this value stored elsewhere, or compressed? */
static inline bool
string_is_toasted(KeyKind kind, Datum value)
{
	const char *p = (const char *) DatumGetPointer(value);

	return kind != KEY_NAME && (VARATT_IS_EXTERNAL(p) || VARATT_IS_4B_C(p));
}

/* The bytes of a value that is not. */
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

/* Has the value its column's prefix, which is not longer than BYTES_PREFIX_MAX? */
extern bool string_has_prefix(const KeyBufferColumn *col, Datum value);

/*
 * Row i's value has not the prefix of its column, or may not have: shortens the
 * prefix and moves the images of rows [0, i).  The row's image is returned.
 */
extern uint64 string_key_begin(KeyBuffer *keybuf, KeyBufferColumn *col, size_t i, Datum value, bool *inexact);

/* What is known of a column behind a prefix of from bytes, for one of to bytes. */
extern void string_shift_range(const KeyBufferColumn *col, int from, int to, KeyRange *range);

/*
 * A frozen prefix is given up, if there may be strings without it: they are anywhere before or
 * behind those that have it.
 */
extern void string_give_up_prefix(const KeyBufferColumn *col, KeyRange *range, BytesPrefix *prefix);

/* ------------------------------------------------------------------------
 * Images of strings by the ranks of their bytes.
 *
 * A byte of an image has 256 values, but at each place only so many occur: ten
 * digits, sixteen of a hexadecimal number, some sixty letters and digits.  The rank
 * among those that do, place by place, is a digit of a number in mixed radix, whose
 * order is the strings': 32 bits for eight hexadecimal digits, where leaving out
 * bits that all have in common comes to 48.  Making it takes eight look-ups a row,
 * and finding out what occurs eight more, so it is for keys that do not fit otherwise.
 * ------------------------------------------------------------------------
 */

typedef struct ByteDictionary
{
	uint64		digit[BYTES_WORD][256]; /* of the image's bytes, the lowest first */
} ByteDictionary;

/*
 * The alphabets of a column's n images.  False if numbers made by them would take as
 * many bits as this, or more.
 */
extern bool byte_dictionary_make(ByteDictionary *byte_dictionary, const KeyBufferColumn *col, size_t n, int bits);

static inline uint64
byte_dictionary_code(const ByteDictionary *byte_dictionary, uint64 normkey)
{
	uint64		number = 0;

	for (int i = 0; i < BYTES_WORD; i++)
		number += byte_dictionary->digit[i][(normkey >> (8 * i)) & 0xff];
	return number;
}

/* ------------------------------------------------------------------------
 * Sort keys taken from heap tuples where they lie.
 *
 * A fixed-width column that only fixed-width columns precede lies at the same
 * place in every tuple that has no NULL up to it.  Its image is one load away;
 * nothing is deformed.
 * ------------------------------------------------------------------------
 */

/* Where the staged columns lie. */
typedef struct PageKeys
{
	int			last_att;		/* the tuple's columns up to the last of them */
	bool		fixed;			/* they lie at fixed places */
	AttrNumber	att[KEY_MAX_COLUMNS]; /* in the tuple, from 0 */
	int			offset[KEY_MAX_COLUMNS];	/* from its data, if fixed */
	int			byval_len[KEY_MAX_COLUMNS];	/* of types passed by value, or 0 */
} PageKeys;

/*
 * atts[] maps the columns that the stage knows to those of tuples of desc, both
 * from 0.
 */
extern void page_keys_init(PageKeys *keys, const KeyBuffer *keybuf, TupleDesc desc,
						   const AttrNumber *atts);

/*
 * Stages the keys of count tuples, each at its data, as rows [at, at + count).
 * The stage has room for them; they are not counted.  For tuples of which
 * page_keys_fixed() is true.
 */
extern void page_keys_to_buffer(const PageKeys *keys, KeyBuffer *keybuf, const KeyWriter *writer, size_t at,
							const char *const *data, int count);

/*
 * Stages column c of count rows from place at on, each value where it lies; NULL
 * is one.
 */
extern void page_keys_column_to_buffer(const PageKeys *keys, KeyBuffer *keybuf, const KeyWriter *writer, int c,
								   size_t at, const char *const *where, int count);

/*
 * Which of the first column's values, those of rows [first, n), do not sort behind one
 * that has this image, as far as images tell; a NULL is always one of them.  Writes their
 * numbers to left, and returns how many there are.
 */
extern int	page_keys_select(const PageKeys *keys, const KeyBuffer *keybuf, const KeyWriter *writer,
								 uint64 normkey, const char *const *where, int first, int n, uint16 *left);

/* Do this tuple's keys lie at fixed places? */
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

/* The value that lies at p. */
static inline Datum
page_datum(const char *p, int byval_len)
{
	return byval_len == 0 ? PointerGetDatum(p) : fetch_att(p, true, byval_len);
}

/* key_image() of the value that lies at p. */
static inline uint64
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
 * float8 keys spread evenly over fewer bits than their images have.
 *
 * The leading bits of a float say its sign and magnitude, and most values of a column
 * have one of very few: of 10M rows by a random value from -500,000 to 500,000 a twentieth
 * have the same 37 leading bits as another.  The distance from the value that comes first,
 * in as many steps as there are numbers, uses all bits alike: few are tied, and a radix
 * sort's digits have as many rows each.
 *
 * Rounding never turns two values round, so a number is before another only where its
 * value is; values that have the same are for the tie-break.  A sample tells whether that is
 * better than the images' leading bits: where values are of all magnitudes it is not.
 * ------------------------------------------------------------------------
 */

typedef struct LinearScale
{
	uint64		flip;			/* the column's */
	double		from;			/* the value that comes first */
	double		steps;			/* to a unit, less than 0 if values descend; 0: not in use */
} LinearScale;

struct KeyLayout;

/*
 * A layout of the stage's own ranges, whose keys have more than so many bits, with the
 * float8 that would be cut spread over what is left of them, and nothing behind it.  False
 * if that is no gain, or nothing of the kind.  For pack_words() alone.
 */
extern bool quantized_layout(struct KeyLayout *quantized, const struct KeyLayout *layout,
						const KeyBuffer *keybuf, int bits);

/* ------------------------------------------------------------------------
 * Staged columns folded into one narrow key.
 * ------------------------------------------------------------------------
 */

#ifndef HAVE_INT128
#error "gpusort needs a compiler with 128-bit integers"
#endif

/* PostgreSQL's type, for palloc aligns to 8 bytes only */
typedef uint128 Key128;

/* Where a column's values stand in the key. */
typedef struct LayoutColumn
{
	BitCompaction	compaction;		/* of its images first, if it has a mask, */
	const struct ByteDictionary *byte_dictionary;	/* or these; the sort's */
	LinearScale	quantized;			/* or this */
	uint64		base;			/* a value is image - base + add */
	uint64		add;			/* 1 if NULLs come first, at 0 */
	Key128		null_value;
	int			bits;			/* up to 65 */
} LayoutColumn;

/* The key: the columns' values side by side, the first column uppermost. */
typedef struct KeyLayout
{
	int			ncols;			/* of the stage's, up to the first inexact one */
	int			total_bits;
	bool		may_be_exact;	/* if no bit is cut off */
	bool		exact;			/* equal keys are equal rows in the ORDER BY */
	LayoutColumn cols[KEY_MAX_COLUMNS];
} KeyLayout;

/*
 * The neighbours' order in an array of packed keys: no descents is a sorted
 * input, no ascents a reversed one (with equal keys in input order still).
 */
typedef struct KeyOrder
{
	size_t		descents;
	size_t		ascents;
} KeyOrder;

/* The narrowest layout for columns of the stage whose images lie in ranges[]. */
extern void key_layout(KeyLayout *layout, const KeyBuffer *keybuf, const KeyRange *ranges);

/* Memory for alphabets of a layout's columns; NULL until needed. */
typedef struct ByteDictionaries
{
	struct ByteDictionary *cols[KEY_MAX_COLUMNS];
} ByteDictionaries;

/*
 * If a layout of the stage's own ranges has more bits than this: makes it narrower, as
 * far as a look at all images allows.  For packing; the next layout that is made with this
 * memory, of which there is more in cxt, ends it.
 */
extern void key_layout_narrow(KeyLayout *layout, const KeyBuffer *keybuf, ByteDictionaries *made,
							  MemoryContext cxt, int bits);

/*
 * The key's number of values if it has less than 64 bits, as closely as it can be
 * told, for a layout of the stage's own ranges; otherwise 0.
 */
extern uint64 key_layout_range(const KeyBuffer *keybuf, const KeyLayout *layout);

/* The stage's own ranges, as key_layout() wants them. */
extern void keybuf_ranges(const KeyBuffer *keybuf, KeyRange *ranges);

/*
 * Writes the stage's rows as records.
 *
 * pack_words: SORT_REC_PACKED with the rid in the lowest rid_bits and above it
 * the key's uppermost key_bits (key_bits + rid_bits <= 64).
 * pack_wide: SORT_REC_64 (total_bits <= 64) or SORT_REC_128 with the key's
 * uppermost 128 bits.
 */
extern void pack_words(const KeyBuffer *keybuf, const KeyLayout *layout,
					   int key_bits, int rid_bits, uint64 *words, KeyOrder *order);
extern void pack_wide(const KeyBuffer *keybuf, const KeyLayout *layout,
					  SortRecFormat format, void *recs, KeyOrder *order);

/*
 * The keys alone of rows [start, start + count): uint32, uint64 or Key128 for a
 * key_width of 32, 64 or 128, right-aligned.  Of a layout with more than 128 bits
 * the uppermost 128.
 */
extern void pack_keys(const KeyBuffer *keybuf, const KeyLayout *layout, int key_width,
					  size_t start, size_t count, void *keys);

/* Row i's key, as it would be in 128 bits. */
extern Key128 pack_key(const KeyBuffer *keybuf, const KeyLayout *layout, size_t i);

/*
 * One row's key from its values, left-aligned in 128 bits: keys of one layout
 * compare as numbers.
 */
extern Key128 pack_row(const KeyBuffer *keybuf, const KeyWriter *writer, const KeyLayout *layout,
					   const Datum *values, const bool *isnull);

/* ------------------------------------------------------------------------
 * A packed key back into its columns.
 * ------------------------------------------------------------------------
 */

/* The datum of a decodable kind that key_image() made this image of. */
static inline Datum
key_datum(KeyKind kind, uint64 flip, uint64 bits)
{
	switch (kind)
	{
#define VALUE_DATUM(kind, normkey, type, from_datum, make, back)	case kind: return back(bits ^ flip);
#define NO_DATUM(kind, ...)	case kind: break;
		KEY_KINDS(VALUE_DATUM, NO_DATUM, NO_DATUM)
	}
	pg_unreachable();
}

/* One column's value out of the key's lowest bits, where the column stands. */
static inline Datum
decode_value(const KeyBufferColumn *col, const LayoutColumn *lc, Key128 value, bool *isnull)
{
	*isnull = col->range.has_null && (lc->bits == 0 || value == lc->null_value);
	if (*isnull)
		return (Datum) 0;
	return key_datum(col->kind, col->flip, (uint64) value - lc->add + lc->base);
}

/*
 * The columns of count keys that are right-aligned in words: column c of key i
 * goes to values[c * stride + i] and isnull[c * stride + i].
 */
extern void decode_words(const KeyBuffer *keybuf, const KeyLayout *layout, const uint64 *words,
						 int count, int stride, Datum *values, bool *isnull);

/* All columns of a key of 128 bits: column c goes to values[c * stride]. */
extern void decode_key128(const KeyBuffer *keybuf, const KeyLayout *layout, Key128 key,
						  int stride, Datum *values, bool *isnull);

/* ------------------------------------------------------------------------
 * What images of a sort's key columns are relative to, and where they lie.
 *
 * Two sorts of the same columns have images that do not compare: strings are taken
 * behind a prefix that those of one sort have in common (bytes.h).  A frame for both is
 * made of their own; keys of rows are then made in it once more.
 *
 * Plain data without pointers, for it passes between processes.
 * ------------------------------------------------------------------------
 */

typedef struct CommonKeyRange
{
	KeyRange	ranges[KEY_MAX_COLUMNS];
	BytesPrefix prefixes[KEY_MAX_COLUMNS];	/* of columns of strings */
} CommonKeyRange;

/* Of no rows. */
extern void common_range_init(CommonKeyRange *common_range);

/* A sort's: its ranges are in the frame, its prefixes come from the stage. */
extern void common_range_of_keys(CommonKeyRange *common_range, const KeyBuffer *keybuf);

/* Widens a frame for another's rows; the stage has the columns of both. */
extern void common_range_unite(CommonKeyRange *common_range, const CommonKeyRange *other, const KeyBuffer *keybuf);

/* A new stage's images are to be in this frame. */
extern void common_range_apply(const CommonKeyRange *common_range, KeyBuffer *keybuf);

/* Has every staged row's image been reckoned with? */
extern bool common_range_holds(const CommonKeyRange *common_range, const KeyBuffer *keybuf);

/* ------------------------------------------------------------------------
 * Keys that travel before all rows are known.
 *
 * A column then gets the bits of its type, and a place for NULL where one has been
 * seen or where it costs nothing.  (key/pack.h has the layout of known ranges.)
 *
 * Rows go by device_layout_choose().  Where all images so far are all of their values it is
 * hoped that they stay so.  Otherwise the key ends with the first column of which one is not, and
 * rows with equal keys are settled as they come back (sort/device/rows/settle.c).  What was
 * not reckoned with has no place, be it a NULL, an image that is not exact, or a string
 * without the prefix that all had: it ends the device's part of the sort.
 *
 * By device_layout_for_any() go rows of several processes, of which none is known.  Nothing is hoped of
 * them: the key ends with the first column whose images may be inexact.
 *
 * Keys alone go by device_layout_guess(), of any kind: of what has been seen it is guessed that
 * it stays so: that images are exact, second words all the same, and strings' prefix.  Where a
 * later row is otherwise (device_layout_holds()) they are sent again when all are known, which
 * costs the bus some milliseconds and nothing else.
 * ------------------------------------------------------------------------
 */

typedef struct DeviceLayout
{
	KeyLayout	layout;
	KeyRange	ranges[KEY_MAX_COLUMNS];	/* that it was made for */
	int			prefix_len[KEY_MAX_COLUMNS];	/* of strings, likewise */
	int			key_width;		/* 32, 64, 128: in which it travels */
} DeviceLayout;

/* May rows of such columns go by device_layout_choose() at all?  Not if the first tells nothing. */
static inline bool
device_layout_possible(const KeyBuffer *keybuf)
{
	return keybuf->cols[0].kind != KEY_COMPARED;
}

/* Are a column's images the same whoever makes them, and do they tell much of the values? */
static inline bool
device_layout_shared(KeyKind kind)
{
	return key_exact(kind) || key_by_bytes(kind) || (kind >= KEY_NUMERIC && kind <= KEY_BITS);
}

/* False if 128 bits do not hold the key, or there is nothing in it.  least_width is a key_width. */
extern bool device_layout_choose(DeviceLayout *dl, const KeyBuffer *keybuf, int least_width);

/*
 * For rows of which none is known, also in other processes: there is a place for a NULL if 128
 * bits have room for that.  Strings' prefixes are what the stage has, and stay.  False, too, if a column of
 * the key is not one for several processes.
 */
extern bool device_layout_for_any(DeviceLayout *dl, const KeyBuffer *keybuf, int least_width);

/*
 * For keys alone, of rows of which many are staged.  False if 128 bits do not hold the key, or
 * there would be nothing in it; not exact if an image is not.
 */
extern bool device_layout_guess(DeviceLayout *dl, const KeyBuffer *keybuf);

/* Has every staged row a place in it, or is there one that was not reckoned with? */
extern bool device_layout_holds(const DeviceLayout *dl, const KeyBuffer *keybuf);

/*
 * Makes ranges, of rows that the stage's prefixes hold for, those of the layout's rows, too: the stage
 * may have shorter ones by now.
 */
extern void device_layout_unite_ranges(const DeviceLayout *dl, const KeyBuffer *keybuf, KeyRange *ranges);

/* The narrowest key_width for so many bits. */
static inline int
device_key_width(int total_bits)
{
	return total_bits <= 32 ? 32 : total_bits <= 64 ? 64 : 128;
}

/* Has a string a place behind its column's prefix? */
static inline bool
device_row_prefix(const DeviceLayout *dl, const KeyBufferColumn *col, int c, Datum value, uint64 normkey)
{
	if (unlikely(col->prefix.len != dl->prefix_len[c]))
		return false;
	/* images that one without the prefix gets; where it stays that is its place */
	return likely(normkey != 0 && normkey != PG_UINT64_MAX) || col->prefix.frozen ||
		string_has_prefix(col, value);
}

/* A value's part of the key, its image made by the writer; false if it has no place. */
static inline bool
device_row_part(const DeviceLayout *dl, const KeyBufferColumn *col, int c, KeyMaker maker, Datum value,
				uint64 *part)
{
	bool		inexact = false;
	uint64		normkey = normkey_of_value(col, maker, value, &inexact);

	if (col->by_bytes && !device_row_prefix(dl, col, c, value, normkey))
		return false;
	*part = normkey - (uint64) dl->layout.cols[c].base;
	return likely((!inexact || dl->ranges[c].inexact) &&
				  normkey >= dl->ranges[c].min && normkey <= dl->ranges[c].max);
}

/* One row's key; false if it has no place in the layout. */
static inline bool
device_row_key(const DeviceLayout *dl, const KeyBuffer *keybuf, const KeyWriter *writer,
			   const Datum *values, const bool *isnull, Key128 *key)
{
	Key128		acc = 0;
	uint64		part;

	for (int c = 0; c < dl->layout.ncols; c++)
	{
		const KeyBufferColumn *col = &keybuf->cols[c];
		const LayoutColumn *lc = &dl->layout.cols[c];

		if (unlikely(isnull[col->att]))
		{
			if (!dl->ranges[c].has_null)
				return false;
			acc = (acc << lc->bits) | lc->null_value;
		}
		else if (device_row_part(dl, col, c, writer->makers[c], values[col->att], &part))
			acc = (acc << lc->bits) | ((Key128) part + lc->add);
		else
			return false;
	}
	*key = acc;
	return true;
}

/* The same where 64 bits hold the key. */
static inline bool
device_row_key64(const DeviceLayout *dl, const KeyBuffer *keybuf, const KeyWriter *writer,
				 const Datum *values, const bool *isnull, uint64 *key)
{
	uint64		acc = 0;

	for (int c = 0; c < dl->layout.ncols; c++)
	{
		const KeyBufferColumn *col = &keybuf->cols[c];
		const LayoutColumn *lc = &dl->layout.cols[c];
		uint64		v;

		if (unlikely(isnull[col->att]))
		{
			if (!dl->ranges[c].has_null)
				return false;
			v = (uint64) lc->null_value;
		}
		else if (device_row_part(dl, col, c, writer->makers[c], values[col->att], &v))
			v += lc->add;
		else
			return false;
		/* a column of 64 bits is the only one with any */
		acc = lc->bits == 64 ? v : (acc << lc->bits) | v;
	}
	*key = acc;
	return true;
}

/* The i-th of an array of keys. */
static inline Key128
device_key_at(const char *keys, int width, size_t i)
{
	if (width == 32)
		return ((const uint32 *) keys)[i];
	if (width == 64)
		return ((const uint64 *) keys)[i];
	return ((const Key128 *) keys)[i];
}

/* ------------------------------------------------------------------------
 * Staged keys split by range, for sorts that take them part by part.
 *
 * Part after part, sorted, they make the sorted whole: no key of a part is less than one
 * of the part before, and equal keys are in one.  Within a part they stay in the order
 * in which they were staged.
 * ------------------------------------------------------------------------
 */

#define KEY_SPLIT_MAX	128		/* parts */

typedef struct KeyPart
{
	size_t		n;				/* rows */
	bool		constant;			/* its keys are all equal */
	uint32	   *blocks;			/* where they lie, in order; all but the last are full */
	uint32		nblocks;
	uint32		capacity;		/* of that array */
} KeyPart;

typedef struct KeySplit
{
	int			nparts;
	KeyPart		parts[KEY_SPLIT_MAX];
	Key128		low[KEY_SPLIT_MAX]; /* the least key that a part may have */
	int			key_width;		/* 32, 64, 128: of keys as pack_keys() makes them */
	bool		rids;			/* each with the rid that belongs to it */
	size_t		block_rows;
	Size		block_bytes;
	BulkBuf		blocks;
} KeySplit;

/* Keys of a block, or of what is left of it from some row on, and their rids. */
typedef struct KeySpan
{
	size_t		n;
	char	   *keys;
	uint32	   *rids;
} KeySpan;

/*
 * Chooses ranges from a sample of the keys so that parts have part_rows about, and no
 * more but by chance or where keys are equal; a key that many have is a part of its
 * own.  False if that makes too many parts.
 */
extern bool key_split_plan(KeySplit *split, const KeyBuffer *keybuf, const KeyLayout *layout,
						   int key_width, size_t part_rows);

/* Is there a part in which anything is left to be sorted? */
extern bool key_split_sorts(const KeySplit *split);

/* Bytes that splitting n keys takes, in blocks of up to block_rows. */
extern Size key_split_bytes(KeySplit *split, size_t n, size_t block_rows);

/* Splits the stage's keys.  The arrays are of the current memory context. */
extern void key_split_run(KeySplit *split, BulkOwner *owner, const KeyBuffer *keybuf,
						  const KeyLayout *layout);

/* The rows of a part from number at on, as far as they lie together. */
extern KeySpan key_split_span(const KeySplit *split, int part, size_t at);

extern void key_split_free(KeySplit *split, BulkOwner *owner);

#endif							/* GPUSORT_KEY_KEY_H */
