/*
 * queue.h
 *	  Who waits for a device.
 */
#ifndef GPUSORT_QUEUE_H
#define GPUSORT_QUEUE_H

#include "device/admission/room.h"

/* For a backend that ends: it no longer waits. */
extern void device_leave_queue(void);

/* The service is gone or there is another one: everybody who waits looks again. */
extern void device_wake_queue(void);

/* A slot has become free: the first who waits looks again.  For any process. */
extern void device_wake_first(void);

/* A job that has lasted so long is taken to stay. */
extern double queue_staying_us(void);

/* ------------------------------------------------------------------------
 * For admission.c, under the lock
 * ------------------------------------------------------------------------
 */

/*
 * Is it worth waiting, behind all who do?  forced: if there will ever be room it is.  If not,
 * *expected_us says why, if it is not 0.
 */
extern bool queue_worth_waiting(const Request *request, double patience_us, bool forced,
								double *expected_us);

/* This backend's way through it: how many are ahead is its place. */
extern void queue_enter(const Request *request);
extern int	queue_place(void);
extern void queue_leave(int place);

/* Wakes those from a place on for whom there is room. */
extern void queue_wake_from(int place);

/* Does this backend wait?  And as what?  Without the lock. */
extern bool queue_waiting(void);
extern uint32 queue_wait_event(void);

#endif							/* GPUSORT_QUEUE_H */
