/*
 * sort_kernel.h
 *	  The contract between the sort kernels and everybody who calls them.
 *
 * A kernel orders n fixed-width records.  A record is an unsigned key (an
 * normalized key of the SQL sort key) and a 32-bit rid that travels
 * with it.  Kernels know nothing of PostgreSQL: they include no server header,
 * allocate nothing, raise nothing, and build into the bench and the unit tests
 * as plain C.
 *
 * Record layouts (array of structures, so that a scatter writes one stream per
 * digit):
 *
 *	SORT_REC_PACKED	  uint64: key in the bits [begin_bit, end_bit), rid in the
 *					  bits below begin_bit.  Bits above end_bit are zero.  The
 *					  (32-bit key, 32-bit rid) record is begin_bit = 32, end_bit =
 *					  64; a key of up to 64 - rid bits packs the same way, which
 *					  is why most SQL keys never need a wider record.
 *	SORT_REC_64		  SortRec64: 64-bit key, bits [begin_bit, end_bit) order.
 *	SORT_REC_128	  SortRec128: 128-bit key as (hi, lo), bit 0 is lo's lowest.
 *
 * All kernels are stable: records with equal keys keep their input order.  When
 * rids_ascending is set, the rids of the input ascend strictly, so "key, then
 * rid" is the stable order and a kernel may compare them as one number.  Where
 * keys are all that is wanted, packed records have no rid (begin_bit = 0): equal
 * keys are then equal records.
 */
#ifndef GPUSORT_SORT_KERNEL_H
#define GPUSORT_SORT_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum SortRecFormat
{
	SORT_REC_PACKED,
	SORT_REC_64,
	SORT_REC_128
} SortRecFormat;

typedef struct SortRec64
{
	uint64_t	key;
	uint32_t	rid;
	uint32_t	pad;			/* unspecified; carried along or not */
} SortRec64;

typedef struct SortRec128
{
	uint64_t	hi;
	uint64_t	lo;
	uint32_t	rid;
	uint32_t	pad;			/* unspecified; carried along or not */
} SortRec128;

typedef enum SortStatus
{
	SORT_OK,
	SORT_STOPPED,				/* interrupted() said so; records are lost */
	SORT_NOT_APPLICABLE			/* this kernel cannot sort this problem; untouched */
} SortStatus;

struct SortTeam;				/* team.h */

/* The input of a kernel.  A job of the GPU service (service/protocol.h) is something else. */
typedef struct SortProblem
{
	/* what to sort */
	SortRecFormat format;
	void	   *recs;			/* n records, 64-byte aligned */
	void	   *scratch;		/* the kernel's scratch_bytes(problem), 64-byte aligned */
	size_t		n;
	int			begin_bit;		/* key bits that order: [begin_bit, end_bit) */
	int			end_bit;
	bool		rids_ascending; /* see above */

	/*
	 * What the caller has counted over neighbours, if order_known: how many keys
	 * are smaller (descents) and larger (ascents) than the key before.
	 */
	bool		order_known;
	size_t		descents;
	size_t		ascents;

	/* who helps: NULL is the caller's thread alone */
	struct SortTeam *team;

	/*
	 * Polled by the caller's own thread at least once per 2^18 records of
	 * work (may be NULL).  True means stop: the kernel returns SORT_STOPPED
	 * as soon as its team is quiescent.  With team == NULL it may also leave
	 * by longjmp: kernels hold nothing that would leak.
	 */
	bool		(*interrupted) (void *arg);
	void	   *interrupted_arg;

	/* out: where the sorted records lie, recs or inside scratch */
	void	   *result;
} SortProblem;

/* What runs an algorithm on the CPU; algorithm.h describes it. */
typedef struct SortKernel
{
	/* Can it sort this problem?  If not, *why says so in a few words. */
	bool		(*applies) (const SortProblem *problem, const char **why);

	/* Bytes of scratch this problem needs, a multiple of 64. */
	size_t		(*scratch_bytes) (const SortProblem *problem);

	SortStatus	(*run) (SortProblem *problem);

	/*
	 * Memory traffic model: bytes that a problem larger than the caches moves
	 * between them and memory, per record.  A store to a line that is not
	 * cached counts twice, as the line is read first.
	 */
	double		(*bytes_per_record) (const SortProblem *problem);
} SortKernel;

/* Each in the file of its name. */
extern const SortKernel cpu_radix_kernel;
extern const SortKernel cpu_merge_kernel;
extern const SortKernel cpu_counting_kernel;
extern const SortKernel presorted_kernel;

static inline size_t
sort_rec_size(SortRecFormat format)
{
	return format == SORT_REC_PACKED ? sizeof(uint64_t) :
		format == SORT_REC_64 ? sizeof(SortRec64) : sizeof(SortRec128);
}

#endif							/* GPUSORT_SORT_KERNEL_H */
