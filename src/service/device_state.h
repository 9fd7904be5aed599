/*
 * device_state.h
 *	  State and measured speed of the GPUs and the CPU, for the cost models.
 *
 * It includes no header, because the cost models do not know the server.
 */
#ifndef GPUSORT_SERVICE_DEVICE_STATE_H
#define GPUSORT_SERVICE_DEVICE_STATE_H

/* State of the GPUs when a sort begins. */
typedef enum DeviceState
{
	DEVICE_STATE_NONE,			/* no device, or no service */
	DEVICE_STATE_OFF,			/* gpusort.device = off */
	DEVICE_STATE_FORBIDDEN,		/* gpusort.device_allowed = off */
	DEVICE_STATE_BUSY,			/* no slot or chunk is free */
	DEVICE_STATE_FULL,			/* the job does not fit into the memory budget */
	DEVICE_STATE_FAILED,		/* the device failed for this sort */
	DEVICE_STATE_IDLE,			/* released; a sort that asks brings it back */
	DEVICE_STATE_READY
} DeviceState;

/* Sorts of 2^14, 2^17 and 2^20 rows are measured. */
#define DEVICE_MEASURED_SIZES	3
#define DEVICE_MEASURED_FIRST	14
#define DEVICE_MEASURED_STEP	3

/* The algorithm of these sorts.  A library without it is not measured. */
#define DEVICE_MEASURED_ALGORITHM	ALGORITHM_GPU_BUCKET

/* Each time is the least of several measurements; 0: not measured. */
typedef struct DeviceMeasured
{
	double		up_ns;			/* per byte of a copy to the device */
	double		down_ns;		/* per byte of a copy to the host */

	/* a complete job of few keys, by the host's clock */
	double		launch_us;

	/* keys of 32, 64 and 128 bits, with row ids */
	double		sort_us[3][DEVICE_MEASURED_SIZES];
} DeviceMeasured;

/* A sort on the CPU is measured with this number of random keys of 64 bits. */
#define CPU_MEASURED_LOG2_ROWS	17

typedef struct CpuMeasured
{
	/* version; odd: being written */
	unsigned	times;
	double		sort_us;
} CpuMeasured;

#endif							/* GPUSORT_SERVICE_DEVICE_STATE_H */
