/*
 * state.h
 *	  What a sort is told of the device, as the router and EXPLAIN have it.
 *
 * It includes nothing, so that the router, which knows no server, can have it.
 */
#ifndef GPUSORT_STATE_H
#define GPUSORT_STATE_H

/* What is known of the GPU when the sort begins. */
typedef enum RouteDevice
{
	ROUTE_DEVICE_NONE,			/* no device, or no service */
	ROUTE_DEVICE_OFF,			/* gpusort.device = off */
	ROUTE_DEVICE_BUSY,			/* its queue is full */
	ROUTE_DEVICE_FULL,			/* the job does not fit the memory budget */
	ROUTE_DEVICE_FAILED,		/* it was tried for this sort and failed */
	ROUTE_DEVICE_IDLE,			/* it was given back; it can be had again */
	ROUTE_DEVICE_READY
} RouteDevice;

#endif							/* GPUSORT_STATE_H */
