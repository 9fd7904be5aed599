/*
 * measured.h
 *	  What the device process measures of a device, and of the processor, as the router
 *	  has it.
 *
 * It includes nothing, so that the router, which knows no server, can have it.
 */
#ifndef GPUSORT_MEASURED_H
#define GPUSORT_MEASURED_H

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

/* cpu_radix sorts so many rows with keys of all the bits that they have room for. */
#define CPU_MEASURED_LOG2_ROWS	17

typedef struct CpuMeasured
{
	unsigned	times;			/* counts how often, times two; odd while it is written */
	double		sort_us[3];		/* 32, 64, 128-bit keys, with rids; as above */
} CpuMeasured;

#endif							/* GPUSORT_MEASURED_H */
