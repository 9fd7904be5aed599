/*
 * page_keys.h
 *	  Keys read from heap tuples in place.
 *
 * A column that only fixed-width columns precede has the same offset in all tuples
 * without NULLs up to it.  Its keys are read without deforming the tuple.
 */
#ifndef GPUSORT_KEY_PAGE_KEYS_H
#define GPUSORT_KEY_PAGE_KEYS_H

#include "postgres.h"

#include "access/htup_details.h"
#include "key/key_buffer.h"

/* Where the columns of a key buffer lie in heap tuples. */
typedef struct PageKeys
{
	TupleWalk  *walk;			/* finds the columns; NULL: no page can have such tuples */
	int			ncols;
	bool		fixed;			/* the columns have fixed offsets */
	AttrNumber	att[KEY_MAX_COLUMNS];	/* attribute of the tuple, from 0 */
	int			offset[KEY_MAX_COLUMNS];	/* from the tuple's data, if fixed */
	int			byval_len[KEY_MAX_COLUMNS]; /* of types by value; else 0 */
} PageKeys;

/*
 * atts[] maps the columns of the sort's input to attributes of desc, both from 0.  Allocates
 * the walk in the current memory context.
 */
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
	return keys->fixed && tuple_walk_plain(keys->walk, tuple);
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
#define COMPUTED_NORMKEY_AT(kind, normkey, make, words) \
		case kind: return (normkey) (make(col, maker, datum_at(p, byval_len), inexact) ^ flip);
			KEY_KINDS(VALUE_NORMKEY_AT, REF_NORMKEY_AT, COMPUTED_NORMKEY_AT)
	}
	pg_unreachable();
}

#endif							/* GPUSORT_KEY_PAGE_KEYS_H */
