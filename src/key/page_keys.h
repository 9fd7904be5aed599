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
#include "key/stage.h"

/* Where the staged columns lie. */
typedef struct PageKeys
{
	int			last_att;		/* the tuple's columns up to the last of them */
	bool		fixed;			/* they lie at fixed places */
	AttrNumber	att[STAGE_MAX_COLUMNS]; /* in the tuple, from 0 */
	int			offset[STAGE_MAX_COLUMNS];	/* from its data, if fixed */
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
extern void page_keys_stage(const PageKeys *keys, Stage *stage, size_t at,
							const char *const *data, int count);

/* Stages one row's keys, from the tuple's columns, as row i. */
extern void page_keys_stage_values(const PageKeys *keys, Stage *stage, size_t i,
								   const Datum *values, const bool *isnull);

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

/* key_image() of the value that lies at p. */
static inline uint64
key_image_at(KeyKind kind, uint64 flip, const char *p)
{
	switch (kind)
	{
		case KEY_INT4:
			return (uint32) (image_int32(*(const int32 *) p) ^ flip);
		case KEY_INT8:
			return image_int64(*(const int64 *) p) ^ flip;
		case KEY_FLOAT8:
			return image_float8(*(const float8 *) p) ^ flip;
		case KEY_FLOAT4:
			return (uint32) (image_float4(*(const float4 *) p) ^ flip);
		case KEY_INT2:
			return (uint32) (image_int32(*(const int16 *) p) ^ flip);
		case KEY_UINT4:
			return (uint32) (*(const uint32 *) p ^ flip);
		case KEY_UINT8:
			return (uint32) (*(const uint8 *) p ^ flip);
	}
	pg_unreachable();
}

#endif							/* GPUSORT_PAGE_KEYS_H */
