/*
 * row_delta.h
 *	  Delta coding of sorted rows: each row is stored as its difference to the row before.
 *
 * A row begins with its length, a uint32 in the machine's byte order, and is padded to a
 * multiple of 8 bytes.  Bytes that are equal to those of the row before, at the same
 * offset, are not stored.  Only the first DELTA_HEAD bytes of a row are coded.
 *
 * A record has, in this order:
 *
 *		a mask, one byte for each word of 8 bytes: bit i is set if byte i is stored
 *		the stored bytes
 *
 * The length is stored apart, because the decoder needs it to find the stored bytes.  If it
 * differs from the length of the row before, the four lowest bits of the first mask byte
 * are set, and the length follows this byte.  Otherwise these bits are clear.
 *
 * The bytes of a row from DELTA_HEAD on follow its record as they are.  The caller writes
 * and reads them.
 */
#ifndef GPUSORT_ROW_DELTA_H
#define GPUSORT_ROW_DELTA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of a row that are coded at most. */
#define DELTA_HEAD			256

/* Least bytes of the memory for a head. */
#define DELTA_HEAD_MIN		128

/* Bytes of the longest record: a length, a mask, and all bytes but the length. */
#define DELTA_RECORD_MAX	(4 + DELTA_HEAD / 8 + DELTA_HEAD)

/* Bytes after the input, and after the output, that may be read and overwritten. */
#define DELTA_SLACK			64

/* The shortest row. */
#define DELTA_ROW_MIN		16

/*
 * A mask of a row's first bytes that are not coded: the decoder returns other bytes there.
 * Bit i stands for byte i.  Bytes 0 to 3, the length, are always coded.
 */
typedef uint64_t DeltaIgnored;

/* Why the decoder stopped. */
typedef enum DeltaStop
{
	DELTA_INPUT,				/* the input ends before the end of a record */
	DELTA_ROOM,					/* the next row does not fit the output */
	DELTA_LONG,					/* the last row's bytes after its head follow */
	DELTA_CORRUPT				/* a length is impossible */
} DeltaStop;

/*
 * Input and output of the decoder.  The row before has its coded bytes in head:
 * DELTA_HEAD bytes, or the length of the longest row rounded up to 64, but at least
 * DELTA_HEAD_MIN.  Before the first row they are 0.
 */
typedef struct DeltaDecoder
{
	char	   *head;
	const char *in;				/* next byte of the input */
	const char *in_end;
	char	   *out;			/* end of the rows */
	char	   *out_end;
	size_t		longest;		/* no row is longer, padded */
	size_t		need;			/* padded length of the row that does not fit (DELTA_ROOM) */
} DeltaDecoder;

/* Functions of an instruction set. */
typedef struct DeltaOps
{
	/*
	 * Writes the records of up to n rows to out, which has room for n records
	 * of DELTA_RECORD_MAX bytes and DELTA_SLACK; returns the number of rows.
	 * It ends with the first row that is longer than DELTA_HEAD.  *end: the
	 * end of the records.  head is that of the row before, see DeltaDecoder.
	 */
	size_t		(*encode) (char *head, const char *const *rows, size_t n, DeltaIgnored ignored, char *out,
						   char **end);

	/* Decodes rows until it must stop. */
	DeltaStop	(*decode) (DeltaDecoder *decoder);
} DeltaOps;

/* The functions for the level of vector instructions in use (isa.h). */
extern const DeltaOps *delta_ops(void);

/* Does the processor have instructions with which coding costs less than copying? */
extern bool delta_is_fast(void);

extern const DeltaOps delta_ops_portable;
#ifdef __x86_64__
extern const DeltaOps delta_ops_avx512;
#endif

/* ---- For the implementations ---- */

#define DELTA_LENGTH_BITS	((uint64_t) 0x0f)

static inline uint32_t
delta_length(const char *row)
{
	uint32_t	len;

	__builtin_memcpy(&len, row, sizeof(len));
	return len;
}

static inline size_t
delta_padded(uint32_t len)
{
	return ((size_t) len + 7) & ~(size_t) 7;
}

/* Words of a row's head. */
static inline size_t
delta_words(uint32_t len)
{
	return len > DELTA_HEAD ? DELTA_HEAD / 8 : ((size_t) len + 7) / 8;
}

/* Is the record at "in" whole?  len is the length of the row before.  Reads no byte from in_end on. */
extern bool delta_record_is_whole(const char *in, const char *in_end, uint32_t len);

#endif							/* GPUSORT_ROW_DELTA_H */
