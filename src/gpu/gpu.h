/*
 * gpu.h
 *	  Sorts on a GPU, for the rooms above.
 */
#ifndef GPUSORT_GPU_GPU_H
#define GPUSORT_GPU_GPU_H

#include "postgres.h"

#include "access/htup_details.h"
#include "compat.h"
#include "key/key.h"
#include "service/protocol.h"
#include "service/service.h"
#include "sort/sort_internal.h"
#include "storage/spin.h"
#include "store/row.h"
#include "store/run.h"
#include "tiebreak/tiebreak.h"

/* A sort that was told to go to the device waits for room there at most so long. */
#define DEVICE_FORCED_PATIENCE_US	1e7

/*
 * device_route_keys: for n rows with keys like the staged ones, whose keys (and
 * rids) would travel in this layout and width.  device_route_rows: the same for
 * the rows themselves.  Both set *facts; if true *decision is a GPU's algorithm, and
 * device_route_job tells the device process of it.  facts->device and
 * facts->gpu.why_not say why not.
 */
extern bool device_route_keys(const SortEnv *env, const KeyBuffer *keybuf, const KeyLayout *layout,
							  int key_width, uint64 key_range, size_t n, RouteFacts *facts,
							  RouteDecision *decision);
extern bool device_route_rows(const SortEnv *env, const Batch *batch, const KeyLayout *layout,
							  int key_width, double rows, RouteFacts *facts,
							  RouteDecision *decision);

/*
 * The same where nothing is known but how many rows are expected, and that a device shall have them:
 * false if it has no algorithm for them, or another is set.
 */
extern bool device_route_producer(const SortEnv *env, const KeyBuffer *keybuf, const KeyLayout *layout,
							  int key_width, double rows, RouteFacts *facts,
							  RouteDecision *decision);
extern void device_route_job(const RouteFacts *facts, const RouteDecision *decision,
							 DeviceJobSpec *spec);

/* The job has been opened, or has grown: for others to see. */
extern void device_show_job(SortEnv *env, const RouteDecision *decision, const DeviceJobSpec *spec);

/* What a job's device did, with so many rows, for EXPLAIN; its first chunk is here. */
extern void device_report_part(SortEnv *env, const DeviceJob *job, uint64 rows);

/* How many the staged rows and those after them will be. */
extern double device_rows_expected(const SortEnv *env, const KeyBuffer *keybuf);

/* Do the staged keys look as if they were in order already? */
extern bool device_keys_ordered(const KeyBuffer *keybuf, const KeyLayout *layout);

/* The device failed this sort: logged, counted, not tried again. */
extern void device_note_failure(SortEnv *env, const Algorithm *algorithm, const char *why);

/* ------------------------------------------------------------------------
 * Key mode: keys and rids go to a device, rids come back in order.
 * ------------------------------------------------------------------------
 */

/* Where the run of equal keys that is not settled yet begins, and its key. */
typedef struct TieRun
{
	size_t		start;
	Key128		key;
} TieRun;

/* Keys that come back: device_check.c. */
typedef struct KeyCheck
{
	JobSecret	secret;			/* of this sort; set before a job is opened */
	uint64		sum;			/* of those that are still to come */
	Key128		last;			/* that came */
} KeyCheck;

/* A batch whose keys are on the device. */
typedef struct OffloadJob
{
	SortEnv    *env;
	Batch	   *batch;
	DeviceJob  *job;			/* NULL in parts */
	DeviceJobSpec spec;
	RouteFacts	facts;
	RouteDecision decision;
	DeviceLayout layout;		/* its ranges are only set where keys travel early */
	size_t		sent;			/* staged rows whose keys are up */
	size_t		per_chunk;
	KeyCheck	keys;
	struct DeviceParts *parts;	/* the jobs, if there are several (device_parts.c); NULL */
	bool		at_once;		/* all were there when the job was opened */

	/* on the way back; device_check.c */
	bool		failed;			/* what is still to come cannot be had, */
	char		why[128];		/* for this reason */
	BulkBuf		pending;		/* a bit for each rid that is still to come */
	uint32		max_rid;
	bool		keep;			/* chunks add up; otherwise each replaces the one
								 * before */
	size_t		down_per_chunk; /* rows */
	size_t		received;		/* rows */
	size_t		returned;			/* of them, in chunks that were replaced */
	uint64		ties;			/* rows in settled runs of equal keys */
	TieRun		run;
} DeviceKeys;


extern void device_keys_end(DeviceKeys *dk);

/* The result cannot be had from the device. */
extern void device_keys_fail(DeviceKeys *dk, const char *why);

/* What a job of this sort did, for EXPLAIN; its first chunk is here. */
extern void device_keys_report(DeviceKeys *dk, const DeviceJob *job);

/* ------------------------------------------------------------------------
 * Which rows a sort had given out when its device was lost.
 * ------------------------------------------------------------------------
 */

typedef struct ReturnedRows
{
	MemoryContext cxt;
	uint64		before;			/* rows that go before the last ones: */
	uint64		before_sum;		/* their row_sum()s */
	uint64	   *last;			/* row_sum()s of those, equal by their keys */
	size_t		nlast;
	size_t		room;
	SpillFile  *file;			/* more of them, when there are too many; NULL */
	SpillRun	run;			/* in the file */
	bool		more;			/* the next chunk begins with more of these */

	/* when they are looked for: last has each sum once, in order */
	uint64	   *counts;			/* rows with this sum that have not come again, */
	uint64		left;			/* all together */
} ReturnedRows;

/* The rows that one chunk of the result has given. */
typedef struct ReturnedChunk
{
	const char *rows;
	size_t		n;
	uint64		before;			/* rows of the chunks before it, */
	uint64		before_sum;		/* and their sum */
} ReturnedChunk;

/* Begins with none, in the current memory context. */
extern ReturnedRows *returned_rows_create(void);
extern void returned_rows_reset(ReturnedRows *returned);

/*
 * The chunk has been given, and the next begins with a row equal to its last; or it is the
 * last of which rows were given.
 */
extern void returned_rows_note(ReturnedRows *returned, TieBreak *tiebreak, const ReturnedChunk *chunk, bool more);

/* ... with a row that is not. */
extern void returned_rows_apart(ReturnedRows *returned);

/* All that were given, with this sum, and no row to come is equal to one of them. */
extern void returned_rows_whole(ReturnedRows *returned, uint64 rows, uint64 sum);

/* The rows come once more, in order: */
extern void returned_rows_begin(ReturnedRows *returned);

/* was this one given?  An ERROR if what was given cannot be made to fit. */
extern bool returned_rows_was(ReturnedRows *returned, MinimalTuple row);

/* Are there any to come, in what follows? */
static inline bool
returned_rows_left(const ReturnedRows *returned)
{
	return returned->before > 0 || returned->left > 0;
}

/* ------------------------------------------------------------------------
 * Record mode of many workers: all send their rows into one job, the leader reads them.
 * ------------------------------------------------------------------------
 */

/* What the leader tells the workers of its job, in the Gather's shared memory, which is this query's alone. */
typedef struct DeviceProducer
{
	bool		on;				/* there is one; the rest is set */
	DeviceJobName job;
	DeviceJobSpec spec;
	JobSecret	secret;			/* of all participants' rows */
	double		row_bytes;		/* expected */

	/* what strings' images are relative to; the first with rows says it */
	slock_t		lock;
	bool		has_common;
	BytesPrefix prefixes[KEY_MAX_COLUMNS];
} DeviceProducer;

/* What a participant has sent; the leader adds them up. */
typedef struct DeviceSent
{
	uint64		rows;
	uint64		units;			/* of 8 bytes */
	uint64		sum;			/* of row_sum() */
	uint64		bytes;			/* that crossed the bus */
} DeviceSent;

/*
 * The leader opens a job for so many rows and tells *feed, or sets feed->on to false if it is not
 * to be: the sink gives out what feeders, the participants, send.  given is where it is
 * noted which rows were given out.
 */
extern Sink *producer_lead(SortEnv *env, Batch *batch, double rows, double row_bytes,
							  int participants, ReturnedRows *returned, DeviceProducer *producer);

/*
 * The leader, while rows come in: gives the job more room if it wants some; false if the
 * rows are lost.
 */
extern bool producer_serve(Sink *sink);

/* All rows are there, these. */
extern void producer_collect(Sink *sink, const DeviceSent *sent_to_device);

/*
 * A participant's sink; lead is the leader's other one, NULL in a worker.  Its result has no rows: they
 * are on the device, when it is finished.
 */
extern Sink *producer_join(SortEnv *env, Batch *batch, DeviceProducer *producer, Sink *lead);
extern void producer_sent(const Sink *sink, DeviceSent *sent_to_device);

/* ------------------------------------------------------------------------
 * What a device says is checked before it is used.
 * ------------------------------------------------------------------------
 */

/* What the batch, its result and checking its rids take; and is there memory for that? */
extern Size device_check_bytes(const SortEnv *env, const Batch *batch);
extern bool device_check_fits(const SortEnv *env, const Batch *batch);

/* All rows are staged: their rids are those that may come. */
extern void device_check_begin(DeviceKeys *dk);

/*
 * Rids that came: is each that of a row, and the first time?  If not, none of them
 * counts as having come.
 */
extern bool device_check_rids(DeviceKeys *dk, const uint32 *rids, size_t n);

/* The sum of n keys, whatever their order. */
extern uint64 device_check_sum(const JobSecret *secret, const char *keys, int width, size_t n);

/*
 * Keys that came: do they ascend, and from the last that came before?  The last of all
 * must also complete the sum of those that were sent.
 */
extern bool device_check_keys(KeyCheck *check, const char *keys, int width, size_t n, bool last);

/*
 * The device failed when so many rows had been returned by their rids, and the CPU has sorted them
 * all: are they its first rows?  An ERROR if not.
 */
extern void device_check_returned(const DeviceKeys *dk, const Sorted *sorted, size_t returned);

/* Registers the GPU with the sort engine (SortOffload), when the library is loaded. */
extern void gpu_init(void);

#endif							/* GPUSORT_GPU_GPU_H */
