/*
 * device_state.h
 *	  What the cost models know of a GPU.
 *
 * It includes nothing, so that the router, which knows no server, can have it.
 */
#ifndef GPUSORT_SERVICE_DEVICE_STATE_H
#define GPUSORT_SERVICE_DEVICE_STATE_H

/* Sorts are measured of 2^14, 2^17 and 2^20 rows. */
#define DEVICE_MEASURED_SIZES	3
#define DEVICE_MEASURED_FIRST	14
#define DEVICE_MEASURED_STEP	3

/* Every time is the least of some; 0: not measured. */
typedef struct DeviceMeasured
{
	double		up_ns;			/* per byte, of a large copy from pinned memory */
	double		down_ns;		/* ... and to it */
	double		up_small_ns;	/* ... of 1 MB */
	double		down_small_ns;
	double		launch_us;		/* a job of few keys, as far as the process sees it */
	int			algorithm;		/* AlgorithmId of the sorts */
	double		sort_us[3][DEVICE_MEASURED_SIZES];	/* 32, 64, 128-bit keys, with rids */
} DeviceMeasured;

/* cpu_radix sorts so many rows with keys of all the bits that they have room for, by SortRecFormat. */
#define CPU_MEASURED_LOG2_ROWS	17
#define CPU_MEASURED_FORMATS	3

/* Of those bits the first, and the one after the last: the packed format has a rid below. */
static inline int
cpu_measured_begin_bit(int format)
{
	return format == 0 ? 32 : 0;
}

static inline int
cpu_measured_end_bit(int format)
{
	return format == 2 ? 128 : 64;
}

typedef struct CpuMeasured
{
	unsigned	times;			/* counts how often, times two; odd while it is written */
	double		sort_us[CPU_MEASURED_FORMATS];	/* 32, 64, 128-bit keys, with rids; as above */
} CpuMeasured;

/* ------------------------------------------------------------------------
 * What a sort is told of the device, as the router and EXPLAIN have it.
 *
 * It includes nothing, so that the router, which knows no server, can have it.
 * ------------------------------------------------------------------------
 */

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

#endif							/* GPUSORT_SERVICE_DEVICE_STATE_H */
