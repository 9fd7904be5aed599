/*
 * state.h
 *	  What a sort is told of the device, as the router and EXPLAIN have it.
 *
 * It includes nothing, so that the router, which knows no server, can have it.
 */
#ifndef GPUSORT_STATE_H
#define GPUSORT_STATE_H

/* What is known of the GPU when the sort begins. */
typedef enum DeviceState
{
	DEVICE_STATE_NONE,			/* no device, or no service */
	DEVICE_STATE_OFF,			/* gpusort.device = off */
	DEVICE_STATE_FORBIDDEN,		/* gpusort.device_allowed = off */
	DEVICE_STATE_BUSY,			/* its queue is full */
	DEVICE_STATE_FULL,			/* the job does not fit the memory budget */
	DEVICE_STATE_FAILED,		/* it was tried for this sort and failed */
	DEVICE_STATE_IDLE,			/* it was given back; it can be had again */
	DEVICE_STATE_READY
} DeviceState;

#endif							/* GPUSORT_STATE_H */
