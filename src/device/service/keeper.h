/*
 * keeper.h
 *	  The keeper: a process between the supervisor and the device process.
 *
 * All functions are the supervisor's.
 */
#ifndef GPUSORT_KEEPER_H
#define GPUSORT_KEEPER_H

#include "postgres.h"

/*
 * Starts a keeper, and in a child of the keeper run(), which never returns.  The child's PID;
 * 0 if there is no such process: errno says why.
 */
extern pid_t keeper_start(void (*run) (void));

/* The device process gets this signal.  It is not waited for. */
extern void keeper_signal(int signo);

/*
 * Has the device process ended?  True once for each process, with its status as waitpid()
 * has it.
 */
extern bool keeper_process_ended(int *status);

#endif							/* GPUSORT_KEEPER_H */
