/*
 * threads.h
 *	  The backend's team of sorting threads.
 */
#ifndef GPUSORT_THREADS_H
#define GPUSORT_THREADS_H

#include "kernel/sort_kernel.h"
#include "kernel/team.h"

/* How many of so many processes run at once, as costs have it: two processors at least. */
extern double sort_abreast(double processes);

/*
 * Threads that each of so many participants (0: the only one) may have: all together no
 * more than the machine has processors, and the server may have worker processes.
 */
extern int	sort_threads_most(int participants);

/* For _PG_init: what all backends share. */
extern void sort_threads_init(void);

/*
 * The team for a sort of n records, which is one of so many at the same time (0: the
 * only one); NULL: the backend alone.  Its threads count among those that may run until
 * sort_threads_ended(), or sort_threads_release() if there is no such sort.
 */
extern SortTeam *sort_threads(size_t n, int participants);

extern void sort_threads_release(void);

/*
 * SortProblem.interrupted for a problem whose team is given as its argument.  The
 * backend alone raises what is pending at once; while threads run, a cancel or
 * termination is answered with true, and raised by the caller afterwards.
 */
extern bool sort_threads_interrupted(void *team);

/* Raises what it was that a kernel did not end with SORT_OK for. */
extern void sort_threads_ended(SortStatus status, const char *algorithm);

#endif							/* GPUSORT_THREADS_H */
