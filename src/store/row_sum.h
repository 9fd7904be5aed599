/*
 * row_sum.h
 *	  Checksum of a row that goes to a device, and the sum of its content.
 *
 * A row that goes to a device carries a checksum of all its bytes in the padding of its
 * MinimalTuple, which PostgreSQL does not read.  The checksum depends on a secret of the job
 * (secret.h).  A row whose length lies within its buffer and whose checksum is right is one that this
 * job sent: its header, its NULLs and the lengths of its columns can be relied upon.
 *
 * The sum of a row's content is a sum of its words, each multiplied by an odd number
 * of its place: a word and a cycle.  It leaves out what may differ between two reads of
 * the same row: the bits for visibility in its header, the bytes after its end.  So sums
 * over many rows tell whether they are the same rows, in whatever order.  The last step is not
 * linear in the words: otherwise the rows 1, 2, 3 had the sum of 2, 2, 2.
 */
#ifndef GPUSORT_ROW_SUM_H
#define GPUSORT_ROW_SUM_H

#include "postgres.h"

#include "access/htup_details.h"
#include "store/secret.h"

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
	return sum ^ sum >> 32;
}

/* The checksum, in the padding, of a row whose content has this sum. */
static inline uint32
row_checksum(const char *row, uint64 sum, const JobSecret *secret)
{
	uint64		word;

	memcpy(&word, row + sizeof(uint64), sizeof(uint64));
	return (uint32) (job_secret_mix(secret, sum + word * ROW_SUM_STEP) >> 32);
}

/* Gives a row its checksum; returns the sum of its content. */
static inline uint64
row_set_checksum(char *row, const JobSecret *secret)
{
	uint64		sum = row_sum(row, ((MinimalTuple) row)->t_len);
	uint32		checksum = row_checksum(row, sum, secret);

	StaticAssertStmt(offsetof(MinimalTupleData, mt_padding) == sizeof(uint32) &&
					 MINIMAL_TUPLE_PADDING >= sizeof(uint32),
					 "a checksum has no place in a MinimalTuple");
	memcpy(row + sizeof(uint32), &checksum, sizeof(uint32));
	return sum;
}

/* Is there a row of the secret's job, in so many bytes?  Then *sum is the sum of its content. */
static inline bool
row_is_whole(const char *row, Size bytes, const JobSecret *secret, uint64 *sum)
{
	uint32		len;
	uint32		checksum;

	if (unlikely(bytes < ROW_SUM_HEADER))
		return false;
	len = ((const MinimalTupleData *) row)->t_len;
	if (unlikely(len < ROW_SUM_HEADER || MAXALIGN(len) > bytes))
		return false;
	*sum = row_sum(row, len);
	memcpy(&checksum, row + sizeof(uint32), sizeof(uint32));
	return likely(checksum == row_checksum(row, *sum, secret));
}

#endif							/* GPUSORT_ROW_SUM_H */
