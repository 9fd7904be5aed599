/*
 * row_mark.h
 *	  What a row carries through a device: the secret of its job, a mark and a checksum.
 */
#ifndef GPUSORT_STORE_ROW_MARK_H
#define GPUSORT_STORE_ROW_MARK_H

#include "postgres.h"

#include "access/htup_details.h"
#include "port/atomics.h"

/* ---- Secret of a device job ----
 *
 * GPU memory and chunks of the staging pool are reused without being cleared, so they
 * may contain rows and keys of other sessions with their checksums.  So checksums of
 * rows and sums of keys depend on a secret of the job: a row or key of another job
 * passes the check with a probability of 2^-32.
 *
 * Only the backends that fill and read the job know the secret.  Neither the device
 * nor the memory shared with the service has it.
 */

typedef struct JobSecret
{
	uint64		offset;
	uint64		factor;			/* odd */
	uint64		high_factor;	/* odd; for the upper 64 bits of a key */
} JobSecret;

/* Draws a secret; false if the server has no random numbers. */
static inline bool
job_secret_make(JobSecret *secret)
{
	if (!pg_strong_random(secret, sizeof(*secret)))
		return false;
	secret->factor |= 1;
	secret->high_factor |= 1;
	return true;
}

/* Mixes a value with the secret.  The upper half depends on all bits of both. */
static inline uint64
job_secret_mix(const JobSecret *secret, uint64 value)
{
	return (value + secret->offset) * secret->factor;
}

/* ---- Mark of a row: a hash of its key ----
 *
 * Rows that a GPU has sorted return without their keys.  Two bytes of the padding of a
 * MinimalTuple have a 16-bit hash of the key, the mark.  Rows with different marks have
 * different keys; of neighbours with different keys one in 65,536 has the same mark.  Rows
 * whose duplicates the GPU has dropped return with their keys, which must have their marks.
 *
 * The checksum covers the mark, so the mark is set first.
 */

#define ROW_MARK_LOW	UINT64CONST(0x9E3779B97F4A7C15)
#define ROW_MARK_HIGH	UINT64CONST(0xC2B2AE3D27D4EB4F)

/* Offset of the mark in a row. */
#define ROW_MARK_AT		((Size) 8)

/* Sets the mark of a row whose key has up to 128 bits. */
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

/* ---- Checksum of a row that goes to a device, and sum of its content ----
 *
 * A row that goes to a device has a checksum of all its bytes in the padding of its
 * MinimalTuple, which PostgreSQL does not read.  The checksum depends on the job's
 * secret.  A row that fits its buffer and has the right checksum was sent by this
 * job: its header, its NULLs and the lengths of its columns can be trusted.
 *
 * The sum of the content multiplies each word by an odd number that depends on the
 * word's index and adds the products.  It leaves out what may differ between two
 * reads of the same row: visibility bits of the header and bytes after the end.  So
 * sums over many rows tell whether two sets of rows are the same, in any order.  The
 * last step is not linear in the words: otherwise the rows 1, 2, 3 would have the
 * same sum as 2, 2, 2.
 */

#define ROW_SUM_STEP	UINT64CONST(0x9E3779B97F4A7C16)
#define ROW_SUM_FIRST	UINT64CONST(0xD6E8FEB86659FD93)

/* Bytes of the header: length, padding, number of columns, flags. */
#define ROW_SUM_HEADER	((Size) 16)

/* The sum of a row's content: its length and columns.  len is at least ROW_SUM_HEADER. */
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
		/* the memory of the row ends at a word boundary, its content does not */
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

/* The checksum of a row whose content has this sum. */
static inline uint32
row_checksum(const char *row, uint64 sum, const JobSecret *secret)
{
	uint64		word;

	memcpy(&word, row + sizeof(uint64), sizeof(uint64));
	return (uint32) (job_secret_mix(secret, sum + word * ROW_SUM_STEP) >> 32);
}

/* Sets the checksum of a row; returns the sum of its content. */
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

/*
 * Do the bytes contain a whole row of the job with this secret?  *sum is then the sum
 * of its content.
 */
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

#endif							/* GPUSORT_STORE_ROW_MARK_H */
