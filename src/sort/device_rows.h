/*
 * device_rows.h
 *	  Record mode's two halves: up (device_rows.c) and down (device_rows_down.c).
 */
#ifndef GPUSORT_DEVICE_ROWS_H
#define GPUSORT_DEVICE_ROWS_H

#include "device/client.h"
#include "key/device_layout.h"
#include "sort/device_sort.h"

/* A sort whose rows are on the device. */
typedef struct DeviceRows
{
	DeviceJob  *job;
	DeviceJobSpec spec;
	RouteFacts	facts;
	RouteDecision decision;
	DeviceLayout layout;

	/* the chunk being filled */
	char	   *chunk;			/* NULL: none yet */
	uint32		chunk_rows;		/* in it so far */
	uint32		max_chunk_rows;
	uint32		words_at;
	uint32		rows_at;
	char	   *next;			/* the row to come goes here */
	char	   *end;

	double		expected;		/* rows that may come, so far */
	uint64		rows;			/* all so far */
	uint64		units;			/* of 8 bytes, all so far */
	uint64		sum;			/* row_sum() of all so far */

	/* on the way back */
	bool		holding;		/* a chunk is being read */
	uint64		given;			/* rows of chunks before it */
	uint32		holding_rows;
} DeviceRows;

/* Sends what has not been sent. */
extern void device_rows_post(DeviceRows *dev);

/* The rows went with the device: the sort is lost. */
extern void device_rows_lost(Sorter *sorter);

#endif							/* GPUSORT_DEVICE_ROWS_H */
