/*
 * row_sum.h
 *	  A row that knows whether it is whole.
 *
 * Rows that are out of our hands (on a device) come back with a checksum of all their bytes
 * in the padding of a MinimalTuple, which nobody else looks at.  A row whose length
 * lies within its buffer and whose checksum is right is one that was sealed: its
 * header, its NULLs and the lengths of its columns can be relied upon.
 *
 * The sum of a row's content is a sum of its words, each multiplied by an odd number
 * of its place: a word and a cycle.  It leaves out what may differ between two reads of
 * the same row: the bits for visibility in its header, the bytes after its end.  So sums
 * over many rows tell whether they are the same rows, in whatever order.
 */
#ifndef GPUSORT_ROW_SUM_H
#define GPUSORT_ROW_SUM_H

#include "postgres.h"

#include "access/htup_details.h"

#define ROW_SUM_STEP	UINT64CONST(0x9E3779B97F4A7C16)
#define ROW_SUM_FIRST	UINT64CONST(0xD6E8FEB86659FD93)

/* The header's words: the length, then padding, the number of columns and flags. */
#define ROW_SUM_HEADER	((Size) 16)

/* The sum of a row's length and columns; len is at least ROW_SUM_HEADER. */
static inline uint64
row_sum(const char *row, Size len)
{
	uint64		factor = ROW_SUM_FIRST;
	uint64		sum = len * factor;
	Size		at = ROW_SUM_HEADER;
	uint64		word;

	for (; at + sizeof(uint64) <= len; at += sizeof(uint64))
	{
		memcpy(&word, row + at, sizeof(uint64));
		factor += ROW_SUM_STEP;
		sum += word * factor;
	}
	if (at < len)
	{
		/* the row's memory ends at a whole word, what it holds does not */
		memcpy(&word, row + at, sizeof(uint64));
#ifdef WORDS_BIGENDIAN
		word &= ~(PG_UINT64_MAX >> 8 * (len - at));
#else
		word &= PG_UINT64_MAX >> 8 * (at + sizeof(uint64) - len);
#endif
		sum += word * (factor + ROW_SUM_STEP);
	}
	return sum;
}

/* What stands in the padding of a row with this sum. */
static inline uint32
row_seal_of(const char *row, uint64 sum)
{
	uint64		word;

	memcpy(&word, row + sizeof(uint64), sizeof(uint64));
	return (uint32) ((sum + word * ROW_SUM_STEP) >> 32);
}

/* Seals a row; returns its sum. */
static inline uint64
row_seal(char *row)
{
	uint64		sum = row_sum(row, ((MinimalTuple) row)->t_len);
	uint32		seal = row_seal_of(row, sum);

	StaticAssertStmt(offsetof(MinimalTupleData, mt_padding) == sizeof(uint32) &&
					 MINIMAL_TUPLE_PADDING >= sizeof(uint32),
					 "a seal has no place in a MinimalTuple");
	memcpy(row + sizeof(uint32), &seal, sizeof(uint32));
	return sum;
}

/* Is there a row that was sealed, in so many bytes?  Then *sum is its sum. */
static inline bool
row_is_whole(const char *row, Size bytes, uint64 *sum)
{
	uint32		len;
	uint32		seal;

	if (unlikely(bytes < ROW_SUM_HEADER))
		return false;
	len = ((const MinimalTupleData *) row)->t_len;
	if (unlikely(len < ROW_SUM_HEADER || MAXALIGN(len) > bytes))
		return false;
	*sum = row_sum(row, len);
	memcpy(&seal, row + sizeof(uint32), sizeof(uint32));
	return likely(seal == row_seal_of(row, *sum));
}

#endif							/* GPUSORT_ROW_SUM_H */
