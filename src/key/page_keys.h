/*
 * page_keys.h
 *	  Sort keys taken from heap tuples where they lie.
 *
 * A fixed-width column that only fixed-width columns precede lies at the same
 * place in every tuple that has no NULL up to it.  Its image is one load away;
 * nothing is deformed.
 */
#ifndef GPUSORT_PAGE_KEYS_H
#define GPUSORT_PAGE_KEYS_H

#include "postgres.h"

#include "access/htup_details.h"
#include "access/tupmacs.h"
#include "key/stage.h"

/* Where the staged columns lie. */
typedef struct PageKeys
{
	int			last_att;		/* the tuple's columns up to the last of them */
	bool		fixed;			/* they lie at fixed places */
	AttrNumber	att[STAGE_MAX_COLUMNS]; /* in the tuple, from 0 */
	int			offset[STAGE_MAX_COLUMNS];	/* from its data, if fixed */
	int			byval_len[STAGE_MAX_COLUMNS];	/* of types passed by value, or 0 */
} PageKeys;

/*
 * atts[] maps the columns that the stage knows to those of tuples of desc, both
 * from 0.
 */
extern void page_keys_init(PageKeys *keys, const Stage *stage, TupleDesc desc,
						   const AttrNumber *atts);

/*
 * Stages the keys of count tuples, each at its data, as rows [at, at + count).
 * The stage has room for them; they are not counted.  For tuples of which
 * page_keys_fixed() is true.
 */
extern void page_keys_stage(const PageKeys *keys, Stage *stage, const StageWriter *writer, size_t at,
							const char *const *data, int count);

/*
 * Stages column c of count rows from place at on, each value where it lies; NULL
 * is one.
 */
extern void page_keys_stage_column(const PageKeys *keys, Stage *stage, const StageWriter *writer, int c,
								   size_t at, const char *const *where, int count);

/*
 * Which of the first column's values, those of rows [first, n), do not sort behind one
 * that has this image, as far as images tell; a NULL is always one of them.  Writes their
 * numbers to left, and returns how many there are.
 */
extern int	page_keys_not_behind(const PageKeys *keys, const Stage *stage, const StageWriter *writer,
								 uint64 image, const char *const *where, int first, int n, uint16 *left);

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
key_image_at(const StageColumn *col, KeyMaker maker, KeyKind kind, uint64 flip, const char *p,
			 int byval_len, bool *inexact)
{
	switch (kind)
	{
#define VALUE_IMAGE_AT(kind, image, type, from_datum, make, back) \
		case kind: return (image) (make(*(const type *) p) ^ flip);
#define PLACE_IMAGE_AT(kind, image, make, words) \
		case kind: return (image) (make(p) ^ flip);
#define CALL_IMAGE_AT(kind, image, make, words, exact) \
		case kind: return (image) (make(col, maker, page_datum(p, byval_len), inexact) ^ flip);
		KEY_KINDS(VALUE_IMAGE_AT, PLACE_IMAGE_AT, CALL_IMAGE_AT)
	}
	pg_unreachable();
}

#endif							/* GPUSORT_PAGE_KEYS_H */
