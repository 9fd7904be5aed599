/*
 * threads.h
 *	  Threads and processors of a sort.
 */
#ifndef GPUSORT_SORT_THREADS_H
#define GPUSORT_SORT_THREADS_H

#include "postgres.h"

#include "kernel/sort_kernel.h"
#include "kernel/team.h"

/* How many of the processes run at once, for cost estimates: at least two if there are two. */
extern double sort_abreast(double processes);

/*
 * Maximal number of threads, the backend itself included, for each of participants
 * processes (0 and 1: a single process) that sort together.
 */
extern int	sort_threads_most(int participants);

/* Requests the shared memory; called by _PG_init(). */
extern void sort_threads_init(void);

/*
 * The thread team for a sort of n records by one of participants processes; NULL: the
 * backend sorts alone.  The threads count against gpusort.max_threads until
 * sort_threads_ended() or sort_threads_release().
 */
extern SortTeam *sort_threads(size_t n, int participants);

extern void sort_threads_release(void);

/*
 * SortProblem.interrupted, with the team as its argument.  Without a team it processes
 * interrupts.  With a team it returns true on a cancel or termination, which
 * sort_threads_ended() raises when the threads have stopped.
 */
extern bool sort_threads_interrupted(void *team);

/* Releases the threads after a kernel; raises an error unless the status is SORT_OK. */
extern void sort_threads_ended(SortStatus status, const char *algorithm);

#endif							/* GPUSORT_SORT_THREADS_H */
