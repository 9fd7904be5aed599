/*
 * gpu.h
 *	  Sorts on a GPU: what other rooms use.
 */
#ifndef GPUSORT_GPU_GPU_H
#define GPUSORT_GPU_GPU_H

#include "postgres.h"

#include "access/htup_details.h"
#include "compat.h"
#include "key/key.h"
#include "service/service.h"
#include "sort/sort_internal.h"
#include "storage/spin.h"
#include "store/store.h"

/* Longest wait for the service or for room on a device if gpusort.algorithm forces a GPU algorithm. */
#define DEVICE_FORCED_PATIENCE_US	(gpusort_device_patience * 1000.0)

/* Registers the GPU with the sort engine (SortOffload), when the library is loaded. */
extern void gpu_init(void);

/* Sets the fields of *spec that follow from the router's facts and decision. */
extern void device_route_job(const RouteFacts *facts, const RouteDecision *decision,
							 DeviceJobSpec *spec);

/* ------------------------------------------------------------------------
 * Checks of keys that a device returns
 * ------------------------------------------------------------------------
 */

typedef struct KeyCheck
{
	JobSecret	secret;			/* of this sort; set before a job is opened */
	int			cut;			/* lowest bits of the keys that do not count */
	uint64		sum;			/* checksum of the keys still to come back */
	Key128		last;			/* the last key that came back */
	uint32		last_rid;		/* ... and its rid, if rids are checked */
	uint64		rows;			/* rows of the groups that came back */
} KeyCheck;

/*
 * The checksum of n keys of width bits, or, if rids are not NULL, of n pairs of a key and a
 * rid.  It does not depend on their order.
 */
extern uint64 device_check_sum(const KeyCheck *check, const char *keys, const uint32 *rids, int width, size_t n);

/*
 * Checks n keys that came back: they must ascend, also from the keys before them.  With
 * last, they must complete the checksum of the keys that were sent.  With rids, pairs are
 * checked in this way: the rids of equal keys must ascend.
 */
extern bool device_check_keys(KeyCheck *check, const char *keys, const uint32 *rids, int width, size_t n,
							  bool last);

/*
 * Checks n keys that came back from a device that drops duplicates, and the ends of their
 * groups: the keys must ascend strictly, also from the keys before them.  With last, the
 * groups must have this number of rows, and the checksum of the keys that were sent.
 */
extern bool device_check_groups(KeyCheck *check, const char *keys, const uint32 *ends, int width, size_t n,
								bool last, uint64 rows);

/* ------------------------------------------------------------------------
 * Row mode of a parallel sort: producers send their rows into one job, the leader reads them
 * ------------------------------------------------------------------------
 */

/* The leader's job, for the participants.  Lies in the shared memory of this query. */
typedef struct DeviceProducer
{
	/* a job is open; if not, the other fields are not set */
	bool		on;
	DeviceJobName job;
	DeviceJobSpec spec;
	JobSecret	secret;			/* for the checksums of all participants' rows */
	double		row_bytes;		/* expected bytes per row */
	volatile bool given_up;		/* a participant cannot send its rows */

	/*
	 * common prefixes of strings; the first participant that has rows sets
	 * them
	 */
	slock_t		lock;
	bool		has_common;
	BytesPrefix prefixes[KEY_MAX_COLUMNS];
} DeviceProducer;

/* What one participant has sent.  The leader adds up these of all participants. */
typedef struct DeviceSent
{
	uint64		rows;
	uint64		units;			/* length of the rows in units of 8 bytes */
	uint64		sum;			/* sum of row_sum() */
	uint64		key_sum;		/* checksum of the keys, if duplicates are dropped */
	uint64		bytes;			/* that crossed the bus */
	bool		inexact;		/* a key is inexact */
} DeviceSent;

/*
 * The leader opens a job for the expected rows and describes it in *producer.  row_bytes is
 * their expected length.  The sink's result returns the rows that participants send;
 * "returned" notes which have been returned.  NULL, and producer->on is false, if there is
 * no room on a device, or no suitable algorithm.
 */
extern Sink *producer_lead(SortEnv *env, Batch *batch, double rows, double row_bytes,
						   int participants, ReturnedRows *returned, DeviceProducer *producer);

/*
 * The leader grows the job if participants ask for room.  Called periodically with the sink of
 * producer_lead() while rows come in, also as DeviceJob.serve().  False if the device failed.
 */
extern bool producer_serve(void *lead);

/* Tells the leader's sink what all participants together have sent. */
extern void producer_collect(Sink *sink, const DeviceSent *sent_to_device);

/*
 * A participant's sink.  lead is the sink of producer_lead() in the leader, NULL in a
 * worker.  Its result has no rows: when the sink is finished, they are on the device.
 */
extern Sink *producer_join(SortEnv *env, Batch *batch, DeviceProducer *producer, Sink *lead);

/* What this participant has sent, when its sink is finished. */
extern void producer_sent(const Sink *sink, DeviceSent *sent_to_device);

#endif							/* GPUSORT_GPU_GPU_H */
