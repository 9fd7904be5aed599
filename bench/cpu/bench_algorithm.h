/*
 * bench_algorithm.h
 *	  Interface of an algorithm in bench/kernels.
 *
 * The benchmark fills an input (case_fill) and calls the algorithm's run() for
 * each repetition.  run() converts the input to its own layout, measures the
 * time of the sort alone, and writes the sorted records to output in the case's
 * layout.  The benchmark checks the output and reports the time that run()
 * returned.
 *
 * A family of algorithms is a NULL-terminated array of pointers.  bench/kernels
 * has the families that are declared at the end of this file.
 */
#ifndef GPUSORT_BENCH_ALGORITHM_H
#define GPUSORT_BENCH_ALGORITHM_H

#include "cases.h"

#ifdef __cplusplus
extern "C"
{
#endif

struct SortTeam;

typedef struct BenchCase
{
	SortCase	shape;			/* format, n, bits; rids ascend from 0 */
	CaseFacts	facts;			/* computed outside the timed part */
	int			key_bits;		/* 32, 64 or 128: the format packed, 64, 128 */
	int			threads;
	struct SortTeam *team;		/* that many threads; NULL for 1 */
	const void *input;			/* the case's records; not to be changed */
	void	   *recs;			/* room for a copy of input, in huge pages */
	void	   *work;			/* work_bytes() bytes in huge pages, touched */
} BenchCase;

typedef struct BenchAlgorithm
{
	const char *name;
	int			rid_bits;		/* 32, or 0 if it sorts keys alone */
	CaseCheck	check;			/* what its output must satisfy */

	/*
	 * NULL if the algorithm can run this case on this machine, else the
	 * reason.
	 */
	const char *(*refuses) (const BenchCase *c);

	/* Bytes of c->work, in host memory; 0 if run() allocates its own. */
	size_t		(*work_bytes) (const BenchCase *c);

	/*
	 * Sorts once.  Returns the seconds of the sort, or a negative number if
	 * it failed.  Sets *output to the sorted records, in the case's layout,
	 * in host memory that stays valid until the next call.  An algorithm
	 * without rids writes arbitrary rids.
	 */
	double		(*run) (BenchCase *c, const void **output);
} BenchAlgorithm;

/* Seconds since an arbitrary moment. */
extern double bench_now(void);

/*
 * bench/cpu/peers.cc: std_sort, vqsort, qsort.  The CPU algorithms of
 * sort_algorithms[] are run by bench/cpu/kernels.c itself.
 */
extern const BenchAlgorithm *const bench_peers[];

/*
 * bench/gpu/gpu_algorithms.cu, compiled by nvcc, or gpu_absent.c, whose list is
 * empty.  Every name that begins with gpu_ and is not in the list is printed as
 * absent.
 */
extern const BenchAlgorithm *const bench_gpu_algorithms[];

#ifdef __cplusplus
}
#endif
#endif							/* GPUSORT_BENCH_ALGORITHM_H */
