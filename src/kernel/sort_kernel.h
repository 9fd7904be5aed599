/*
 * sort_kernel.h
 *	  The contract between the CPU's sort kernels and their callers.
 *
 * A kernel sorts n fixed-width records.  A record is an unsigned key (the
 * normalized key of the SQL sort key) and a 32-bit row id (rid) that travels
 * with it.  Kernels include no header of PostgreSQL, allocate nothing and raise
 * no error, so that benches and unit tests build them as plain C.
 *
 * Record formats (arrays of structures, so that a scatter writes one stream per
 * digit):
 *
 *	SORT_REC_PACKED	  uint64: key in the bits [begin_bit, end_bit), rid in
 *					  the bits below begin_bit.  Bits above end_bit are zero.
 *					  With begin_bit = 32 and end_bit = 64 it is a record of
 *					  32-bit key and 32-bit rid.  A rid of fewer bits leaves
 *					  more bits to the key, so that most SQL keys need no wider
 *					  record.
 *	SORT_REC_64		  SortRec64: 64-bit key, bits [begin_bit, end_bit) order.
 *	SORT_REC_128	  SortRec128: 128-bit key as (hi, lo), bit 0 is lo's lowest.
 *
 * All kernels are stable: records with equal keys keep their input order.  With
 * rids_ascending the rids of the input ascend strictly; order by (key, rid) is
 * then the stable order, and a kernel may compare packed records as numbers.
 * If only keys are wanted, packed records have no rid (begin_bit = 0), and
 * equal keys are equal records.
 *
 * Memory: the caller owns the records and the scratch.
 *
 * Threads: run() uses the members of problem->team and returns when all are
 * done.
 */
#ifndef GPUSORT_SORT_KERNEL_H
#define GPUSORT_SORT_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Format of a problem's records. */
typedef enum SortRecFormat
{
	SORT_REC_PACKED,
	SORT_REC_64,
	SORT_REC_128
} SortRecFormat;

/* A record of the format SORT_REC_64. */
typedef struct SortRec64
{
	uint64_t	key;
	uint32_t	rid;
	uint32_t	pad;			/* undefined; may be copied */
} SortRec64;

/* A record of the format SORT_REC_128. */
typedef struct SortRec128
{
	uint64_t	hi;
	uint64_t	lo;
	uint32_t	rid;
	uint32_t	pad;			/* undefined; may be copied */
} SortRec128;

/* Result of run(). */
typedef enum SortStatus
{
	SORT_OK,
	SORT_STOPPED,				/* interrupted() was true; records are lost */
	SORT_NOT_APPLICABLE			/* not sorted, and left unchanged */
} SortStatus;

struct SortTeam;				/* team.h */

/* The input of a kernel. */
typedef struct SortProblem
{
	SortRecFormat format;
	void	   *recs;			/* n records, 64-byte aligned */
	void	   *scratch;		/* scratch_bytes(problem), 64-byte aligned */
	size_t		n;				/* number of records */
	int			begin_bit;		/* key bits [begin_bit, end_bit) order */
	int			end_bit;
	bool		rids_ascending; /* rids ascend strictly */

	/*
	 * Order of the input, if order_known: numbers of keys that are smaller
	 * (descents) and larger (ascents) than their predecessor.
	 */
	bool		order_known;
	size_t		descents;
	size_t		ascents;

	/* members that help; NULL: the caller alone */
	struct SortTeam *team;

	/*
	 * Asks whether to stop; may be NULL.  The caller's thread calls it at
	 * least once per 2^18 records of work.  True: the kernel returns
	 * SORT_STOPPED as soon as its team is idle.  Without a team it may also
	 * leave by longjmp, as kernels hold no resource.
	 */
	bool		(*interrupted) (void *arg);
	void	   *interrupted_arg;

	/* output: the sorted records, recs or an address inside scratch */
	void	   *result;
} SortProblem;

/* The functions of an algorithm on the CPU. */
typedef struct SortKernel
{
	/* Can it sort the problem?  If not, *why is set to a static reason. */
	bool		(*applies) (const SortProblem *problem, const char **why);

	/* Bytes of scratch that the problem needs, a multiple of 64. */
	size_t		(*scratch_bytes) (const SortProblem *problem);

	/* Sorts the problem and sets problem->result. */
	SortStatus	(*run) (SortProblem *problem);
} SortKernel;

/* Kernels, each in the file of its name. */
extern const SortKernel cpu_radix_kernel;
extern const SortKernel cpu_merge_kernel;
extern const SortKernel cpu_counting_kernel;
extern const SortKernel presorted_kernel;

/* presorted merges an input with fewer descents as ascending runs ... */
#define PRESORTED_MAX_RUNS		4

/* ... and otherwise requires at least this number of records per descent. */
#define PRESORTED_PER_DESCENT	16

/* Bytes of a record. */
static inline size_t
sort_rec_size(SortRecFormat format)
{
	return format == SORT_REC_PACKED ? sizeof(uint64_t) :
		format == SORT_REC_64 ? sizeof(SortRec64) : sizeof(SortRec128);
}

/* Any record's key. */
typedef unsigned __int128 SortKey;

/* Sets record i.  rid_bits is begin_bit of packed records; other formats ignore it. */
static inline void
sort_rec_set(void *recs, SortRecFormat format, int rid_bits, size_t i, SortKey key, uint32_t rid)
{
	SortRec64  *rec64 = (SortRec64 *) recs + i;
	SortRec128 *rec128 = (SortRec128 *) recs + i;

	switch (format)
	{
		case SORT_REC_PACKED:
			((uint64_t *) recs)[i] = (uint64_t) key << rid_bits | rid;
			break;
		case SORT_REC_64:
			rec64->key = (uint64_t) key;
			rec64->rid = rid;
			rec64->pad = 0;
			break;
		case SORT_REC_128:
			rec128->hi = (uint64_t) (key >> 64);
			rec128->lo = (uint64_t) key;
			rec128->rid = rid;
			rec128->pad = 0;
			break;
	}
}

/* Returns the key and sets *rid of record i; the inverse of sort_rec_set(). */
static inline SortKey
sort_rec_get(const void *recs, SortRecFormat format, int rid_bits, size_t i, uint32_t *rid)
{
	switch (format)
	{
		case SORT_REC_PACKED:
			*rid = (uint32_t) (((const uint64_t *) recs)[i] & ((UINT64_C(1) << rid_bits) - 1));
			return ((const uint64_t *) recs)[i] >> rid_bits;
		case SORT_REC_64:
			*rid = ((const SortRec64 *) recs)[i].rid;
			return ((const SortRec64 *) recs)[i].key;
		case SORT_REC_128:
			break;
	}
	*rid = ((const SortRec128 *) recs)[i].rid;
	return (SortKey) ((const SortRec128 *) recs)[i].hi << 64 | ((const SortRec128 *) recs)[i].lo;
}

#endif							/* GPUSORT_SORT_KERNEL_H */
