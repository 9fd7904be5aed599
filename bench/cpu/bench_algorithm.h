/*
 * bench_algorithm.h
 *	  How an algorithm takes part in bench/kernels.
 *
 * The benchmark fills an input (case_fill), and for each repetition calls the
 * algorithm's run(), which prepares the input in whatever layout it wants, times
 * the sort alone, and writes the sorted records in the case's layout to output.
 * The benchmark then checks output.  Only what run() itself measures counts.
 *
 * A family of algorithms is a NULL-terminated array of pointers; the families
 * that bench/kernels knows are declared at the end.
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
	CaseFacts	facts;			/* known to every algorithm for nothing */
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

	/* NULL if it can run this case here, else why not, in a few words. */
	const char *(*refuses) (const BenchCase *c);

	/* Bytes wanted in c->work, on the host (0 if run() cares for itself). */
	size_t		(*work_bytes) (const BenchCase *c);

	/*
	 * Sorts once.  Returns the seconds that count, or a negative number if it
	 * failed; *output is set to the sorted records, in the case's layout, in
	 * host memory that lasts until the next call.  An algorithm without rids
	 * writes any rid.
	 */
	double		(*run) (BenchCase *c, const void **output);
} BenchAlgorithm;

/* Seconds since some moment, for differences. */
extern double bench_now(void);

/* bench/cpu/kernels.c: a CPU algorithm of sort_algorithms[] under its name */
/* bench/cpu/peers.cc: std_sort, vqsort, qsort */
extern const BenchAlgorithm *const bench_peers[];

/*
 * bench/gpu/gpu_algorithms.cu, compiled by nvcc; without it gpu_absent.c, whose list
 * is empty.  Every name that begins with gpu_ and is not in the list is printed
 * as absent.
 */
extern const BenchAlgorithm *const bench_gpu_algorithms[];

#ifdef __cplusplus
}
#endif
#endif							/* GPUSORT_BENCH_ALGORITHM_H */
