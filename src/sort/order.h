/*
 * order.h
 *	  A batch in order: pack, route, run a kernel or ask the device, break ties.
 */
#ifndef GPUSORT_ORDER_H
#define GPUSORT_ORDER_H

#include "postgres.h"

#include "key/pack.h"
#include "sort/batch.h"
#include "sort/sort_env.h"

/* What came of it; in env->recs or env->scratch. */
typedef struct Sorted
{
	size_t		n;
	const uint32 *rids;			/* NULL where keys are all there is: then */
	const void *keys;			/* these, SORT_REC_PACKED without rids or SORT_REC_128 */
	SortRecFormat format;
	KeyLayout	layout;
} Sorted;

struct DeviceKeys;

/*
 * Sorts the batch's rows.  early is a device's job that some of their keys were sent
 * to, or NULL, and is not the caller's any more.
 *
 * may_stream: the result is read forward from its beginning, and the batch left as
 * it is until then.  Then a job may be returned, and what is sorted is only the
 * result's beginning: result_device_keys_begin() makes it whole.
 */
extern struct DeviceKeys *order_batch(SortEnv *env, Batch *batch, struct DeviceKeys *early,
									  bool may_stream, Sorted *sorted);

/* order_batch()'s outcome as a result; keys are given up when they are not needed. */
extern SortResult *order_result(SortEnv *env, Batch *batch, struct DeviceKeys *early,
							bool may_stream, ResultSpace *space);

#endif							/* GPUSORT_ORDER_H */
