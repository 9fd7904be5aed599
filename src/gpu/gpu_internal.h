/*
 * gpu_internal.h
 *	  What the GPU modules share.
 */
#ifndef GPUSORT_GPU_GPU_INTERNAL_H
#define GPUSORT_GPU_GPU_INTERNAL_H

#include "gpu/gpu.h"
#include "key/key.h"
#include "service/service.h"
#include "sort/sort_internal.h"
#include "store/row.h"

/*
 * Would several devices at a time be quicker than one?  Of how many parts; 0: no.  Of
 * keys that have been routed to a device.
 */
extern int	device_parts_quicker(const DeviceKeys *dk);

/*
 * Opens the first job for keys that go in parts: so many at least, and as many as make them
 * fit.  False if there is no room for it, or no gain.
 */
extern bool device_parts_begin(DeviceKeys *dk, int parts, double patience_us);

/* Splits the keys, and sends the first of them. */
extern void device_parts_send(DeviceKeys *dk);

/*
 * The next chunk of the result, of whichever part, until device_parts_release(); false at the
 * end, or if it cannot be had, and then dk->lost holds.
 */
extern bool device_parts_next(DeviceKeys *dk, KeyChunk *chunk);
extern void device_parts_release(DeviceKeys *dk);

extern void device_parts_end(DeviceKeys *dk);

/* ------------------------------------------------------------------------
 * Record mode: the rows themselves go to a device, and come back in order.
 *
 * Up: sink_device_rows.c, into chunks of device_rows.c.  Down: result_device_rows.c, where keys
 * do not tell all rows apart by way of settle.c.  More than one job: device_rows_parts.c.
 * ------------------------------------------------------------------------
 */

/* What a row may be found to be. */
#define ROW_NOT_FROM_INPUT	"a row of the result is none of the input's"

/* A sort whose rows are on the device. */
typedef struct DeviceRows
{
	RunSource	source;			/* a part as a run: read from stream's chunk, */
	RowStream	stream;
	const char *copy;			/* whose bytes from here on */
	Size		copy_left;		/* are still to be copied, */
	uint64		copied;			/* after so many rows, where they are settled */
	int			merged;			/* parts that are read side by side; 0: it is not a run */
	dlist_node	part;			/* DeviceRowsSink.closed */

	SortEnv    *env;
	Batch	   *batch;			/* empty: it only lends its arrays */
	DeviceJob  *job;
	DeviceJobSpec spec;
	RouteFacts	facts;
	RouteDecision decision;
	DeviceLayout layout;
	bool		full;			/* there is no room for more */
	bool		asked;			/* for the sort */
	bool		failed;			/* with its rows; noted */
	uint64		shown;			/* of the device's memory, in env->progress */
	bool		producers_of;			/* others' rows are in the job, too (device_feed.c) */

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
	uint64		base;			/* from where rows' places are counted */
	uint64		sum;			/* row_sum() of all so far */
	JobSecret	secret;			/* of the job's rows */

	/* on the way back */
	bool		holding;		/* a chunk is being read */
	uint64		returned;			/* rows of chunks before it */
	uint32		holding_rows;
	const char *held;			/* the chunk's rows, if given_rows is set */
	uint64		held_sum;		/* of all rows before them */
	struct TieResolver *resolver;	/* where keys do not tell all rows apart; NULL: not yet */
	struct ReturnedRows *returned_rows;	/* what would be wanted to go on if it is lost; NULL */
} DeviceRows;

/* Rows that come are written to the job's chunks. */
typedef struct DeviceRowsSink
{
	Sink		base;
	DeviceRows *dev;			/* NULL: handed on, or there is none */
	dlist_head	closed;			/* parts before it, in order: sorted, or about to be */
	int			nclosed;
} DeviceRowsSink;

/*
 * What a job has of the device follows what has come: at first so many bytes more, or
 * as many again, and so on.  An estimate only makes that less, with some room
 * beyond it, as it may be a bit off.
 */
#define DEVICE_ROWS_STEP		((Size) 8 * 1024 * 1024)
#define DEVICE_ROWS_MARGIN		1.25

/* The room that n rows make the job ask for: spec's max_rows and max_row_bytes. */
extern void device_rows_room_for(DeviceJobSpec *spec, double n, double row_bytes);

/* Where a chunk's parts are. */
extern void device_rows_divide_chunk(DeviceRows *dev, double row_bytes);

/* sink_device_rows.c: a sink for the job, and its methods that take rows. */
extern Sink *sink_device_rows_create(SortEnv *env, Batch *batch, DeviceRows *dev);
extern SinkAnswer sink_device_rows_put_slot(Sink *sink, TupleTableSlot *slot);
extern SinkAnswer sink_device_rows_put_page(Sink *sink, RowPage *page, int *done);

/* The job has been opened, or has grown: for others to see. */
extern void device_rows_show(DeviceRows *dev);

/* Sends what has not been sent. */
extern void device_rows_post(DeviceRows *dev);

/* No more rows come: asks for the sort, and does not wait for it. */
extern void device_rows_ask(DeviceRows *dev);

/* The rows went with the device. */
extern void device_rows_fail(DeviceRows *dev);

extern void device_rows_end(DeviceRows *dev);
extern void device_rows_return(DeviceRows *dev);	/* as device_job_return() */

/*
 * result_device_rows.c, for settle.c: makes the next chunk the one that is read, false at the end or if
 * the job is lost; the next row of a chunk that has one to be given as it comes, NULL if it is lost.
 */
extern bool device_rows_next_chunk(DeviceRows *dev, RowStream *stream);
extern MinimalTuple device_rows_read(DeviceRows *dev, RowStream *stream);

/*
 * Waiting for the sort: the rows become a run, or the batch's, as if
 * they came in now; or a run that is read from the device.  Not waiting: would they fit
 * memory, so that there need not be a run?
 */
extern void device_rows_to_run(DeviceRows *dev, Runs *runs);
extern void device_rows_to_memory(DeviceRows *dev);
extern void device_rows_stay(DeviceRows *dev, Runs *runs);
extern bool device_rows_fit_memory(const DeviceRows *dev, const Runs *runs);

/* ------------------------------------------------------------------------
 * Rows that come back in the order of their keys, put into that of their values.
 * ------------------------------------------------------------------------
 */

/* The next row, valid until the next call; NULL at the end, or if the rows are lost. */
extern MinimalTuple resolver_next(DeviceRows *dev, RowStream *stream);

/* Rows are lost: how many of those that were read have not been given, and their row_sum(). */
extern uint64 resolver_waiting(const DeviceRows *dev, uint64 *sum);

extern void resolver_end(DeviceRows *dev);

/* A result whose rest comes from the job of key mode. */
extern void result_device_keys_begin(SortResult *result, DeviceKeys *dk);

/* The result of row mode: the job has been told to sort. */
extern SortResult *result_device_rows_begin(StreamResult *result, SortEnv *env, struct DeviceRows *dev);

/* A result without rows: another process returns them, or the device failed. */
extern SortResult *result_device_rows_none(StreamResult *result, SortEnv *env, bool failed);

/* How row mode begins, for the offload interface. */
extern Sink *device_rows_begin(SortEnv *env, Batch *batch, bool *allowed);
extern Size device_rows_after(const SortEnv *env);

#endif							/* GPUSORT_GPU_GPU_INTERNAL_H */
