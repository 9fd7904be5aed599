/*
 * row_mode.h
 *	  Row mode: rows go to a device and come back in order.
 */
#ifndef GPUSORT_GPU_ROW_MODE_H
#define GPUSORT_GPU_ROW_MODE_H

#include "gpu/device_layout.h"
#include "gpu/gpu.h"

#define ROW_NOT_FROM_INPUT	"a row of the result is not a row of the input"
#define ROWS_NOT_THE_INPUT	"the result's rows are not the input's"

/* A sort, or a part of one, whose rows are on the device. */
typedef struct DeviceRows
{
	/* A part that is read as a run.  It must be the first member. */
	RunSource	source;
	RowStream	stream;
	struct
	{
		const char *next;		/* next byte to copy */
		Size		left;		/* bytes to copy from there on */

		uint64		rows;			/* rows copied, these included */
	}			copy;
	int			merged;			/* parts that are merged as runs; 0: none */
	dlist_node	part;			/* link in DeviceRowsSink.closed */

	SortEnv    *env;
	Batch	   *batch;			/* without rows; only its arrays are used */
	DeviceJob  *job;
	DeviceJobSpec spec;
	RouteFacts	facts;
	RouteDecision decision;
	DeviceLayout layout;
	bool		full;			/* the job cannot grow */
	bool		failed;			/* the rows are lost, and the failure is reported */
	bool		is_producer;	/* it fills the job of another process */

	/* the chunk that is filled */
	struct
	{
		char	   *chunk;		/* NULL: none yet */
		uint32		rows;
		uint32		max_rows;
		uint32		words_at;	/* offset of the rows' places in the chunk */
		uint32		rows_at;	/* offset of the rows */
		char	   *next;		/* where the next row is written */
		char	   *end;
	}			up;

	uint64		most_rows;		/* the job never has room for more */
	double		expected;		/* expected number of rows; 0: unknown */
	DeviceSent	sent;			/* key_sum and bytes are set by producer_sent() only */

	/*
	 * Unit from which places are counted: a producer's first unit of the
	 * chunk, otherwise 0.
	 */
	uint64		base;
	bool		marked;			/* rows have marks */
	KeyCheck	keys;			/* of the groups, if duplicates are dropped; the rows' secret */

	/* the chunk that is read */
	struct
	{
		bool		held;		/* there is such a chunk */
		uint32		rows;
		const char *data;		/* its first row */
		uint64		returned;	/* rows of the chunks before it */
		uint64		returned_sum;	/* sum of row_sum() of these rows */
	}			down;
	struct TieResolver *resolver;	/* NULL: none, or not yet */
	struct ReturnedRows *returned_rows; /* notes returned rows; or NULL */
} DeviceRows;

/* A sink that writes rows into a job's chunks. */
typedef struct DeviceRowsSink
{
	Sink		base;
	DeviceRows *dev;			/* the part that takes rows; NULL: none */
	dlist_head	closed;			/* parts without room, in input order */
	int			nclosed;
} DeviceRowsSink;

/*
 * row_job.c: a job of row mode, its chunks up and down.
 *
 * The job's device memory follows the rows that come.  It grows by DEVICE_ROWS_STEP bytes at
 * first, then doubles.  An estimate of the rows limits the growth, with a margin.
 */
#define DEVICE_ROWS_STEP		((Size) 8 * 1024 * 1024)
#define DEVICE_ROWS_MARGIN		1.25

/* Divides chunks among keys, places and rows, and sets what is checked of these. */
extern void device_rows_prepare(DeviceRows *dev, double row_bytes);

/* Opens the job with room for these rows; false, and *why, if there is no room. */
extern bool device_rows_open_job(DeviceRows *dev, double rows, double row_bytes, double patience_us,
								 DeviceState *why);

/* The room to ask for when n rows have come, in rows. */
extern double device_rows_ahead(const DeviceRows *dev, double n, double row_bytes);

/* Starts a new chunk with room for a row of size bytes. */
extern SinkAnswer device_rows_start_chunk(DeviceRows *dev, Size size);

/*
 * Grows the job for "ahead" rows, or for fewer, but at least for n of these bytes.  False if
 * there is no room, or the device failed.
 */
extern bool device_rows_grow_job(DeviceRows *dev, double n, uint64 bytes, double ahead);

/* Grows a job that is full, so that it has room for a row of size bytes. */
extern SinkAnswer device_rows_grow(DeviceRows *dev, Size size);

/* Sends the chunk that is being filled. */
extern void device_rows_post(DeviceRows *dev);

/* All rows are sent: starts the sort, unless it has started, and does not wait for it. */
extern void device_rows_start_sort(DeviceRows *dev);

/* Marks the rows as lost, and reports why the device failed.  NULL: the job has failed already. */
extern void device_rows_fail(DeviceRows *dev, const char *why);

/*
 * Does dev->returned_rows note single rows?  If keys are inexact, or duplicates are dropped:
 * only their number and sum.
 */
static inline bool
device_rows_notes_returned(const DeviceRows *dev)
{
	return dev->returned_rows != NULL && dev->layout.layout.exact && !dev->spec.drop;
}

/*
 * The next chunk of the result becomes the stream's.  False at the end, and if the device
 * failed.
 */
extern bool device_rows_next_chunk(DeviceRows *dev, RowStream *stream);

/* Fails the job, because the chunk has a row that was not sent to it. */
extern void device_rows_wrong_row(DeviceRows *dev, const RowStream *stream);

/* row_ties.c: resolves ties among rows that come back in key order. */

/* The next row, valid until the next call; NULL at the end, and if the device failed. */
extern MinimalTuple resolver_next(DeviceRows *dev, RowStream *stream);

/* Number of rows that were read but not returned when the device failed; *sum of row_sum(). */
extern uint64 resolver_unreturned(const DeviceRows *dev, uint64 *sum);

extern void resolver_end(DeviceRows *dev);

/* row_result.c: rows on their way back. */

/* Closes the job, if there is one, and frees *dev.  With wait, waits until the job's resources are free. */
extern void device_rows_end(DeviceRows *dev, bool wait);

/*
 * Three ways to bring the sorted rows back before the sort's result is read: into a run on
 * disk; into the batch, as if they came from the child now; or as a run that the merge
 * reads from the device.  device_rows_to_run() and device_rows_to_memory() block until the
 * GPU has finished.
 */
extern void device_rows_to_run(DeviceRows *dev, Runs *runs);
extern void device_rows_to_memory(DeviceRows *dev);
extern void device_rows_to_source(DeviceRows *dev, Runs *runs);

/* Is device_rows_to_memory() possible: no runs before these rows, and enough memory? */
extern bool device_rows_fit_memory(const DeviceRows *dev, const Runs *runs);

/*
 * The result that reads the rows from the device; starts the sort.  Without dev it has no rows,
 * because another process returns them.
 */
extern SortResult *result_device_rows_begin(StreamResult *result, SortEnv *env, DeviceRows *dev);

/* rows.c: the sink of row mode.  SortOffload.begin_rows() and rows_after. */

/* Bytes of rows at which a sort first considers row mode. */
#define DEVICE_ROWS_AFTER		((Size) 32 * 1024 * 1024)

extern Sink *device_rows_begin(SortEnv *env, Batch *batch, bool *allowed);

/* For producer.c: a sink for a job that is open, and the methods that take rows. */
extern Sink *sink_device_rows_create(SortEnv *env, Batch *batch, DeviceRows *dev);
extern SinkAnswer sink_device_rows_put_slot(Sink *sink, TupleTableSlot *slot);
extern SinkAnswer sink_device_rows_put_page(Sink *sink, RowPage *page, int *done);

#endif							/* GPUSORT_GPU_ROW_MODE_H */
