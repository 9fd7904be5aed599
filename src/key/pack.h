/*
 * pack.h
 *	  Staged columns folded into one narrow key.
 */
#ifndef GPUSORT_PACK_H
#define GPUSORT_PACK_H

#include "postgres.h"

#include "kernel/sort_kernel.h"
#include "key/even.h"
#include "key/stage.h"

#ifndef HAVE_INT128
#error "gpusort needs a compiler with 128-bit integers"
#endif

/* PostgreSQL's type, for palloc aligns to 8 bytes only */
typedef uint128 Key128;

/* Where a column's values stand in the key. */
typedef struct LayoutColumn
{
	BitSqueeze	squeeze;		/* of its images first, if it has a mask, */
	const struct Alphabets *alphabets;	/* or these; the sort's */
	EvenScale	even;			/* or this */
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
	LayoutColumn cols[STAGE_MAX_COLUMNS];
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
extern void key_layout(KeyLayout *layout, const Stage *stage, const KeyRange *ranges);

/* Memory for alphabets of a layout's columns; NULL until needed. */
typedef struct KeyAlphabets
{
	struct Alphabets *cols[STAGE_MAX_COLUMNS];
} KeyAlphabets;

/*
 * If a layout of the stage's own ranges has more bits than this: makes it narrower, as
 * far as a look at all images allows.  For packing; the next layout that is made with this
 * memory, of which there is more in cxt, ends it.
 */
extern void key_layout_narrow(KeyLayout *layout, const Stage *stage, KeyAlphabets *made,
							  MemoryContext cxt, int bits);

/*
 * The key's number of values if it has less than 64 bits, as closely as it can be
 * told, for a layout of the stage's own ranges; otherwise 0.
 */
extern uint64 key_layout_range(const Stage *stage, const KeyLayout *layout);

/* The stage's own ranges, as key_layout() wants them. */
extern void key_stage_ranges(const Stage *stage, KeyRange *ranges);

/*
 * Writes the stage's rows as records.
 *
 * pack_words: SORT_REC_PACKED with the rid in the lowest rid_bits and above it
 * the key's uppermost key_bits (key_bits + rid_bits <= 64).
 * pack_wide: SORT_REC_64 (total_bits <= 64) or SORT_REC_128 with the key's
 * uppermost 128 bits.
 */
extern void pack_words(const Stage *stage, const KeyLayout *layout,
					   int key_bits, int rid_bits, uint64 *words, KeyOrder *order);
extern void pack_wide(const Stage *stage, const KeyLayout *layout,
					  SortRecFormat format, void *recs, KeyOrder *order);

/*
 * The keys alone of rows [start, start + count): uint32, uint64 or Key128 for a
 * key_width of 32, 64 or 128, right-aligned.  Of a layout with more than 128 bits
 * the uppermost 128.
 */
extern void pack_keys(const Stage *stage, const KeyLayout *layout, int key_width,
					  size_t start, size_t count, void *keys);

/* Row i's key, as it would be in 128 bits. */
extern Key128 pack_key(const Stage *stage, const KeyLayout *layout, size_t i);

/*
 * One row's key from its values, left-aligned in 128 bits: keys of one layout
 * compare as numbers.
 */
extern Key128 pack_row(const Stage *stage, const StageWriter *writer, const KeyLayout *layout,
					   const Datum *values, const bool *isnull);

#endif							/* GPUSORT_PACK_H */
