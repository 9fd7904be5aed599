/*
 * device_feed.h
 *	  Record mode of many workers: all send their rows into one job, the leader reads them.
 */
#ifndef GPUSORT_DEVICE_FEED_H
#define GPUSORT_DEVICE_FEED_H

#include "device/protocol.h"
#include "sort/device/rows/given_rows.h"
#include "sort/sink/sink.h"
#include "storage/spin.h"
#include "store/secret.h"

/* What the leader tells the workers of its job, in the Gather's shared memory, which is this query's alone. */
typedef struct DeviceFeed
{
	bool		on;				/* there is one; the rest is set */
	DeviceJobName job;
	DeviceJobSpec spec;
	JobSecret	secret;			/* of all participants' rows */
	double		row_bytes;		/* expected */

	/* what strings' images are relative to; the first with rows says it */
	slock_t		lock;
	bool		framed;
	BytesPrefix prefixes[STAGE_MAX_COLUMNS];
} DeviceFeed;

/* What a participant has sent; the leader adds them up. */
typedef struct DeviceFed
{
	uint64		rows;
	uint64		units;			/* of 8 bytes */
	uint64		sum;			/* of row_sum() */
	uint64		bytes;			/* that crossed the bus */
} DeviceFed;

/*
 * The leader opens a job for so many rows and tells *feed, or sets feed->on to false if it is not
 * to be: the sink gives out what feeders, the participants, send.  given is where it is
 * noted which rows were given out.
 */
extern Sink *device_feed_lead(SortEnv *env, Batch *batch, double rows, double row_bytes,
							  int participants, GivenRows *given, DeviceFeed *feed);

/*
 * The leader, while rows come in: gives the job more room if it wants some; false if the
 * rows are lost.
 */
extern bool device_feed_attend(Sink *sink);

/* All rows are there, these. */
extern void device_feed_collect(Sink *sink, const DeviceFed *fed);

/*
 * A participant's sink; lead is the leader's other one, NULL in a worker.  Its result has no rows: they
 * are on the device, when it is finished.
 */
extern Sink *device_feed_join(SortEnv *env, Batch *batch, DeviceFeed *feed, Sink *lead);
extern void device_feed_sent(const Sink *sink, DeviceFed *fed);

#endif							/* GPUSORT_DEVICE_FEED_H */
