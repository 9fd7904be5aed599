/*
 * key_layout.h
 *	  Key layouts, packing and decoding.
 */
#ifndef GPUSORT_KEY_KEY_LAYOUT_H
#define GPUSORT_KEY_KEY_LAYOUT_H

#include "postgres.h"

#include "kernel/sort_kernel.h"
#include "key/key_buffer.h"

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

/*
 * Decodes count keys that are right-aligned in words.  Column c of key i goes to
 * values[c * stride + i] and isnull[c * stride + i].
 */
extern void decode_words(const KeyBuffer *keybuf, const KeyLayout *layout, const uint64 *words,
						 int count, int stride, Datum *values, bool *isnull);

/* Decodes a key of 128 bits.  Column c goes to values[c * stride] and isnull[c * stride]. */
extern void decode_key128(const KeyBuffer *keybuf, const KeyLayout *layout, Key128 key,
						  int stride, Datum *values, bool *isnull);

#endif							/* GPUSORT_KEY_KEY_LAYOUT_H */
