/*
 * row_copy.h
 *	  Copies of bytes, padding and varlenas into rows.
 */
#ifndef GPUSORT_STORE_ROW_COPY_H
#define GPUSORT_STORE_ROW_COPY_H

#include "postgres.h"

#include "access/htup_details.h"
#include "compat.h"
#include "port/atomics.h"

/* More bytes than this are copied by memcpy(). */
#define COPY_INLINE_MAX		256

/* Copies len bytes; reads and writes no byte after them. */
static inline void
copy_bytes(char *to, const char *from, Size len)
{
	if (likely(len >= 16 && len <= COPY_INLINE_MAX))
	{
		for (Size at = 0; at < len - 16; at += 16)
		{
			memcpy(to + at, from + at, 16);
			/* keeps the compiler from making the loop a call of memcpy() */
			pg_compiler_barrier();
		}
		memcpy(to + len - 16, from + len - 16, 16);
	}
	else if (len >= 16)
		memcpy(to, from, len);
	else if (len >= 8)
	{
		memcpy(to, from, 8);
		memcpy(to + len - 8, from + len - 8, 8);
	}
	else if (len >= 4)
	{
		memcpy(to, from, 4);
		memcpy(to + len - 4, from + len - 4, 4);
	}
	else
	{
		for (Size at = 0; at < len; at++)
			to[at] = from[at];
	}
}

/*
 * Returns the next address with this alignment (less one).  Zeroes the padding before it,
 * and possibly more: 8 bytes from to on.
 */
static inline char *
copy_align(char *to, uint8 align)
{
	memset(to, 0, sizeof(uint64));
	return (char *) (((uintptr_t) to + align) & ~(uintptr_t) align);
}

/*
 * Copies a varlena that is not expanded into a row, in the format of heap_fill_tuple();
 * returns the end of the copy.
 */
static inline char *
copy_varlena(char *to, const char *from, uint8 align, bool packable, uint16 *infomask)
{
	Size		size;

	*infomask |= HEAP_HASVARWIDTH;
	if (VARATT_IS_1B_E(from))
	{
		*infomask |= HEAP_HASEXTERNAL;
		size = VARSIZE_EXTERNAL(from);
	}
	else if (VARATT_IS_1B(from))
		size = VARSIZE_1B(from);
	else if (packable && VARATT_CAN_MAKE_SHORT(from))
	{
		size = VARATT_CONVERTED_SHORT_SIZE(from);
		/* avoids a compiler warning about varlenas shorter than their header */
		if (size < VARHDRSZ_SHORT)
			pg_unreachable();
		SET_VARSIZE_SHORT(to, size);
		copy_bytes(to + VARHDRSZ_SHORT, from + VARHDRSZ, size - VARHDRSZ_SHORT);
		return to + size;
	}
	else
	{
		to = copy_align(to, align);
		size = VARSIZE(from);
	}
	copy_bytes(to, from, size);
	return to + size;
}

#endif							/* GPUSORT_STORE_ROW_COPY_H */
