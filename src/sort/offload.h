/*
 * offload.h
 *	  Offloading: the interface to devices.
 *
 * src/gpu implements it and registers it when the library is loaded, so that the engine
 * includes nothing of the GPU.  After a failure the sort continues on the CPU: keys are
 * still in the batch; rows come again from the child (sorter_begin_again()).
 */
#ifndef GPUSORT_SORT_OFFLOAD_H
#define GPUSORT_SORT_OFFLOAD_H

#include "postgres.h"

#include "service/device_state.h"
#include "sort/sink.h"

/* Why a sort was not offloaded. */
typedef struct OffloadRefusal
{
	DeviceState device;
	const char *why_not;
} OffloadRefusal;

typedef struct SortOffload
{
	/* State of the devices, for RouteFacts. */
	DeviceState (*state) (void);

	/* Buffered bytes at which begin_rows() is first tried if a device is ready. */
	Size		rows_after;

	/*
	 * Copies the rows of the batch to a device; the sink takes the following
	 * rows there. NULL: not now.  *allowed becomes false if the caller should
	 * not try again.
	 */
	Sink	   *(*begin_rows) (SortEnv *env, Batch *batch, bool *allowed);

	/*
	 * As order_batch(), with the layout of the keys.  Called if a device is
	 * ready or idle.  False, and *refusal, if the sort stays on the host.
	 */
	bool		(*sort_keys) (SortEnv *env, Batch *batch, const KeyLayout *layout, Sorted *sorted,
							  OffloadRefusal *refusal);
} SortOffload;

/* The implementation, which src/gpu sets before the first sort. */
extern const SortOffload *sort_offload;

#endif							/* GPUSORT_SORT_OFFLOAD_H */
