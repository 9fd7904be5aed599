/*
 * key_internal.h
 *	  What the files of key/ share: toasted values, collations, prefixes, positions of enums.
 */
#ifndef GPUSORT_KEY_KEY_INTERNAL_H
#define GPUSORT_KEY_KEY_INTERNAL_H

#include "access/detoast.h"
#include "compat.h"
#include "key/key_buffer.h"
#include "miscadmin.h"

/* A varlena, detoasted if need be.  *copy is to be freed by varlena_close(), or NULL. */
static inline const char *
varlena_open(Datum value, void **copy)
{
	struct varlena *p = (struct varlena *) DatumGetPointer(value);

	*copy = NULL;
	if (unlikely(VARATT_IS_EXTERNAL(p) || VARATT_IS_4B_C(p)))
	{
		CHECK_FOR_INTERRUPTS();
		p = *copy = detoast_attr(p);
	}
	return (const char *) p;
}

static inline void
varlena_close(void *copy)
{
	if (unlikely(copy != NULL))
		pfree(copy);
}

/* Does the collation compare strings by their bytes? */
extern bool collation_by_bytes(Oid collation);

/*
 * Handles the column's first string, or a row i whose string may lack the prefix: sets
 * or shortens the prefix and shifts the normalized keys of rows [0, i).  Returns the
 * normalized key of row i.
 */
extern uint64 string_key_begin(KeyBuffer *keybuf, KeyBufferColumn *col, size_t i, Datum value, bool *inexact);

/*
 * Gives up a frozen prefix if the range may have strings without it.  Such strings sort
 * anywhere before or behind the strings that have the prefix.
 */
extern void string_give_up_prefix(const KeyBufferColumn *col, KeyRange *range, BytesPrefix *prefix);

/* The positions of an enum's values, which are read when the first value arrives. */
extern struct EnumOrder *enum_order_create(MemoryContext cxt);

#endif							/* GPUSORT_KEY_KEY_INTERNAL_H */
