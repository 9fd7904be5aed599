/*
 * row_mark.h
 *	  A row that tells whether its key may be that of the next.
 *
 * Rows that were sorted elsewhere come back without their keys.  What is left of a MinimalTuple's
 * padding beside the checksum (row_sum.h) has 16 bits of a hash of the key: rows whose
 * marks differ have other keys, and of neighbours with the same mark one in 65,536 has, too.
 *
 * A mark is made before the row's checksum, which covers it.
 */
#ifndef GPUSORT_ROW_MARK_H
#define GPUSORT_ROW_MARK_H

#include "postgres.h"

#include "access/htup_details.h"

#define ROW_MARK_LOW	UINT64CONST(0x9E3779B97F4A7C15)
#define ROW_MARK_HIGH	UINT64CONST(0xC2B2AE3D27D4EB4F)

/* Where it lies in a row. */
#define ROW_MARK_AT		((Size) 8)

/* Marks a row with its key, of up to 128 bits. */
static inline void
row_set_mark(char *row, uint64 high, uint64 low)
{
	uint16		mark = (uint16) ((high * ROW_MARK_HIGH + (low ^ low >> 32) * ROW_MARK_LOW) >> 48);

	StaticAssertStmt(ROW_MARK_AT + sizeof(uint16) <= offsetof(MinimalTupleData, t_infomask2) &&
					 ROW_MARK_AT >= offsetof(MinimalTupleData, mt_padding) + sizeof(uint32),
					 "a mark has no place in a MinimalTuple");
	memcpy(row + ROW_MARK_AT, &mark, sizeof(mark));
}

static inline uint16
row_mark(const char *row)
{
	uint16		mark;

	memcpy(&mark, row + ROW_MARK_AT, sizeof(mark));
	return mark;
}

#endif							/* GPUSORT_ROW_MARK_H */
