/*
 * gpu_internal.h
 *	  Sorts on a GPU: what the modules of this room share.
 */
#ifndef GPUSORT_GPU_GPU_INTERNAL_H
#define GPUSORT_GPU_GPU_INTERNAL_H

#include "gpu/gpu.h"
#include "key/key.h"
#include "service/service.h"
#include "sort/sort_internal.h"
#include "store/store.h"

/* ------------------------------------------------------------------------
 * Device layouts: keys that leave before all rows are known
 *
 * A column gets the bits of its type, and a number for NULL if a NULL has been seen or
 * if that needs no further bit.
 *
 * device_layout_choose() is for rows of one process.  Columns whose normalized keys have
 * been exact so far are assumed to stay exact.  The key ends with the first column that is
 * not; then ties are resolved when the rows come back.  A row that breaks an assumption (a
 * NULL, an inexact normalized key, a string without the common prefix) does not fit the
 * layout, and ends the device's part of the sort.
 *
 * device_layout_for_any() is for rows of several processes.  Nothing is assumed: the key
 * ends with the first column whose kind may be inexact.
 *
 * device_layout_guess() is for keys without rows.  What holds for the rows so far is
 * assumed to hold for all: exactness, constant second words, prefixes.  If a later row
 * breaks an assumption (device_layout_holds()), the keys are sent again when all rows are
 * known.
 * ------------------------------------------------------------------------
 */

typedef struct DeviceLayout
{
	KeyLayout	layout;
	KeyRange	ranges[KEY_MAX_COLUMNS];	/* ranges that the layout is for */
	int			prefix_len[KEY_MAX_COLUMNS];	/* of strings */
	int			key_width;		/* bits of a key in transit: 32, 64 or 128 */
} DeviceLayout;

/* False if the key is empty or longer than 128 bits.  key_width is at least least_width. */
extern bool device_layout_choose(DeviceLayout *dl, const KeyBuffer *keybuf, int least_width);

/*
 * For rows of several processes, before the first row.  There is a number for NULL if
 * 128 bits have room for it.  Strings keep the key buffer's prefixes.  False if the key is
 * longer than 128 bits, or if a column is not the same in all processes
 * (KeyTraits.same_in_processes).
 */
extern bool device_layout_for_any(DeviceLayout *dl, const KeyBuffer *keybuf, int least_width);

/* For keys without rows, when many rows are buffered.  False as device_layout_choose(). */
extern bool device_layout_guess(DeviceLayout *dl, const KeyBuffer *keybuf);

/* Do all buffered rows fit the layout? */
extern bool device_layout_holds(const DeviceLayout *dl, const KeyBuffer *keybuf);

/*
 * Widens ranges[] by the layout's ranges.  ranges[] are relative to the key buffer's
 * current prefixes, which may be shorter than the layout's.
 */
extern void device_layout_unite_ranges(const DeviceLayout *dl, const KeyBuffer *keybuf, KeyRange *ranges);

/* Is the string's normalized key relative to the prefix that the layout is for? */
static inline bool
device_row_prefix(const DeviceLayout *dl, const KeyBufferColumn *col, int c, Datum value, uint64 normkey)
{
	if (unlikely(col->prefix.len != dl->prefix_len[c]))
		return false;

	/* the least and the greatest key may be of a string without the prefix */
	return likely(normkey != 0 && normkey != PG_UINT64_MAX) || col->prefix.frozen ||
		string_has_prefix(col, value);
}

/* A value's number in the key; false if the value does not fit the layout. */
static inline bool
device_row_part(const DeviceLayout *dl, const KeyBufferColumn *col, int c, KeyMaker maker, Datum value,
				uint64 *part)
{
	bool		inexact = false;
	uint64		normkey = normkey_of_value(col, maker, value, &inexact);

	if (col->by_bytes && !device_row_prefix(dl, col, c, value, normkey))
		return false;
	*part = normkey - (uint64) dl->layout.cols[c].base;
	return likely((!inexact || dl->ranges[c].inexact) &&
				  normkey >= dl->ranges[c].min && normkey <= dl->ranges[c].max);
}

/* Key of one row; false if the row does not fit the layout. */
static inline bool
device_row_key(const DeviceLayout *dl, const KeyBuffer *keybuf, const KeyWriter *writer,
			   const Datum *values, const bool *isnull, Key128 *key)
{
	Key128		acc = 0;
	uint64		part;

	for (int c = 0; c < dl->layout.ncols; c++)
	{
		const KeyBufferColumn *col = &keybuf->cols[c];
		const LayoutColumn *lc = &dl->layout.cols[c];

		if (unlikely(isnull[col->att]))
		{
			if (!dl->ranges[c].has_null)
				return false;
			acc = (acc << lc->bits) | lc->null_value;
		}
		else if (device_row_part(dl, col, c, writer->makers[c], values[col->att], &part))
			acc = (acc << lc->bits) | ((Key128) part + lc->add);
		else
			return false;
	}
	*key = acc;
	return true;
}

/* device_row_key() for keys of up to 64 bits. */
static inline bool
device_row_key64(const DeviceLayout *dl, const KeyBuffer *keybuf, const KeyWriter *writer,
				 const Datum *values, const bool *isnull, uint64 *key)
{
	uint64		acc = 0;

	for (int c = 0; c < dl->layout.ncols; c++)
	{
		const KeyBufferColumn *col = &keybuf->cols[c];
		const LayoutColumn *lc = &dl->layout.cols[c];
		uint64		v;

		if (unlikely(isnull[col->att]))
		{
			if (!dl->ranges[c].has_null)
				return false;
			v = (uint64) lc->null_value;
		}
		else if (device_row_part(dl, col, c, writer->makers[c], values[col->att], &v))
			v += lc->add;
		else
			return false;
		/* if a column has 64 bits, no other column has any */
		acc = lc->bits == 64 ? v : (acc << lc->bits) | v;
	}
	*key = acc;
	return true;
}

/*
 * A key's part of a checksum.  It must not be linear in the key: otherwise keys 1, 2, 3 and
 * 2, 2, 2 would have the same checksum.
 */
static inline uint64
key_hash(const JobSecret *secret, uint64 key)
{
	uint64		hash = job_secret_mix(secret, key);

	return hash ^ hash >> 32;
}

static inline uint64
key_hash128(const JobSecret *secret, Key128 key)
{
	uint64		hash = job_secret_mix(secret, (uint64) key) + (uint64) (key >> 64) * secret->high_factor;

	return hash ^ hash >> 32;
}

/* Key i of an array of keys. */
static inline Key128
device_key_at(const char *keys, int width, size_t i)
{
	if (width == 32)
		return ((const uint32 *) keys)[i];
	if (width == 64)
		return ((const uint64 *) keys)[i];
	return ((const Key128 *) keys)[i];
}

/* ------------------------------------------------------------------------
 * gpu_route.c: whether a sort uses a GPU, and what EXPLAIN shows of it
 * ------------------------------------------------------------------------
 */

/*
 * Is a GPU the best choice?  Both functions set *facts.  If true, *decision has the GPU's
 * algorithm; otherwise facts->device and facts->gpu.why_not are the reason.
 *
 * device_route_keys: for the keys (and rids) of n rows in this layout and width; the key
 * buffer has some or all of the rows.  key_range is the number of possible keys, 0 if it is
 * not known.  device_route_rows: for whole rows.
 */
extern bool device_route_keys(const SortEnv *env, const KeyBuffer *keybuf, const KeyLayout *layout,
							  int key_width, uint64 key_range, size_t n, RouteFacts *facts,
							  RouteDecision *decision);
extern bool device_route_rows(const SortEnv *env, const Batch *batch, const KeyLayout *layout,
							  int key_width, double rows, RouteFacts *facts,
							  RouteDecision *decision);

/*
 * Chooses the GPU's algorithm for the rows of a parallel sort, before the first one comes.
 * The caller has already decided for the GPU.  False if there is no suitable algorithm.
 */
extern bool device_route_producer(const SortEnv *env, const KeyBuffer *keybuf, const KeyLayout *layout,
								  int key_width, double rows, RouteFacts *facts,
								  RouteDecision *decision);

/* Expected number of rows of the sort, without those that have left the key buffer. */
extern double device_rows_expected(const SortEnv *env, const KeyBuffer *keybuf);

/* Do the buffered keys look presorted, ascending or descending? */
extern bool device_keys_ordered(const KeyBuffer *keybuf, const KeyLayout *layout);

/* Updates the progress view after the job was opened, or has grown. */
extern void device_show_job(SortEnv *env, const RouteDecision *decision, const DeviceJobSpec *spec);

/* A job that has sorted, for device_report_job(). */
typedef struct DeviceJobReport
{
	const DeviceJob *job;		/* its first chunk has come back */
	const RouteFacts *facts;
	const RouteDecision *decision;
	uint64		rows;			/* of the sort or part that the report shows */
	int			key_bits;
	bool		at_once;		/* all rows were known when the job was opened */
} DeviceJobReport;

/* Reports a job for EXPLAIN, and teaches the cost model. */
extern void device_report_job(SortEnv *env, const DeviceJobReport *done);

/* Adds a part of this number of rows to the report of the job's device. */
extern void device_report_part(SortEnv *env, const DeviceJob *job, uint64 rows);

/* Logs and counts a failure of the device.  This sort does not try a device again. */
extern void device_note_failure(SortEnv *env, const Algorithm *algorithm, const char *why);

/* ------------------------------------------------------------------------
 * keys.c: key mode.  Keys and rids go to a device, rids come back in order.
 * ------------------------------------------------------------------------
 */

/* A batch whose keys are on the device.  To the sort engine it is an OffloadJob. */
typedef struct OffloadJob
{
	SortEnv    *env;
	Batch	   *batch;
	DeviceJob  *job;			/* NULL if parts is set */
	DeviceJobSpec spec;
	RouteFacts	facts;
	RouteDecision decision;
	DeviceLayout layout;		/* has ranges only if keys are sent ahead */
	size_t		sent;			/* rows of the key buffer whose keys were sent */
	size_t		per_chunk;		/* rows of a chunk on the way up */
	KeyCheck	keys;
	struct DeviceParts *parts;	/* several jobs (key_parts.c); NULL: one */
	bool		at_once;		/* all rows were known when the job was opened */

	/* on the way down */
	bool		failed;			/* no more of the result can be read */
	char		why[128];		/* reason of the failure */
	BulkBuf		pending;		/* bitmap: rids that have not come back yet */
	uint32		max_rid;		/* greatest rid that was sent */
	SortRecFormat format;		/* of the result's keys, in a sort without rows */
	int			rid_bits;		/* ... as SORT_REC_PACKED */
	bool		keep;			/* a chunk is appended to those before it */
	size_t		down_per_chunk; /* rows of a chunk on the way down */
	size_t		received;		/* rows that came back */
	size_t		replaced;		/* rows of chunks that were not kept */
	Key128		last_key;		/* of the last row that came back */
	TieGroups	groups;			/* of rows with equal keys */
} DeviceKeys;

/* The rids that are checked together with their keys; NULL: keys are checked alone. */
static inline const uint32 *
device_pair_rids(const SortEnv *env, const uint32 *rids)
{
	return env->spec.gpu_verified ? rids : NULL;
}

/* Marks the result as not available. */
static inline void
device_keys_fail(DeviceKeys *dk, const char *why)
{
	if (!dk->failed)
		strlcpy(dk->why, why, sizeof(dk->why));
	dk->failed = true;
	if (dk->job != NULL)
		device_job_fail(dk->job, why);
}

/* Reports one job of the sort. */
extern void device_keys_report(DeviceKeys *dk, const DeviceJob *job);

/* ------------------------------------------------------------------------
 * key_parts.c: keys that exceed one job or one GPU
 * ------------------------------------------------------------------------
 */

/* Number of parts, if several GPUs are faster than one; otherwise 0. */
extern int	device_parts_quicker(const DeviceKeys *dk);

/*
 * Opens the first job for keys that are sorted in parts: in at least at_least parts, and in
 * more if a device has no room for parts of that size.  False if there is no room, or no
 * gain over the CPU.
 */
extern bool device_parts_begin(DeviceKeys *dk, int at_least, double patience_us);

/* Splits the keys and sends the first parts. */
extern void device_parts_send(DeviceKeys *dk);

/*
 * The next chunk of the result, valid until device_parts_release().  False at the end, and
 * if dk->failed is set.
 */
extern bool device_parts_next(DeviceKeys *dk, KeyChunk *chunk);
extern void device_parts_release(DeviceKeys *dk);

/* Closes all jobs, frees the split keys, and sets dk->parts to NULL. */
extern void device_parts_end(DeviceKeys *dk);

/* ------------------------------------------------------------------------
 * check.c: checks of rids that a device returns
 * ------------------------------------------------------------------------
 */

/* Bytes of the batch, its result and the bitmap of rids. */
extern Size device_check_bytes(const SortEnv *env, const Batch *batch);

/* Do these bytes fit the sort's memory limit? */
extern bool device_check_fits(const SortEnv *env, const Batch *batch);

/* Sets the bitmap to the rids of all buffered rows. */
extern void device_check_begin(DeviceKeys *dk);

/*
 * Checks n rids that came back: each must be that of a row, and come for the first time.
 * If false, the bitmap is as before the call.
 */
extern bool device_check_rids(DeviceKeys *dk, const uint32 *rids, size_t n);

/*
 * After the device failed and the CPU has sorted all rows: an ERROR if its first rows are
 * not the ones that had been returned.
 */
extern void device_check_returned(DeviceKeys *dk, const Sorted *sorted, size_t returned);

/* ------------------------------------------------------------------------
 * Row mode: rows go to a device and come back in order.
 * ------------------------------------------------------------------------
 */

#define ROW_NOT_FROM_INPUT	"a row of the result is not a row of the input"
#define ROWS_NOT_THE_INPUT	"the result's rows are not the input's"

/* A sort, or a part of one, whose rows are on the device. */
typedef struct DeviceRows
{
	/* A part that is read as a run.  It must be the first member. */
	RunSource	source;
	RowStream	stream;
	const char *copy;			/* next byte to copy */
	Size		copy_left;		/* bytes to copy from there on */

	/* number of rows copied, the current one included, if ties are resolved */
	uint64		copied;
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
	bool		sort_started;	/* no more rows are sent */
	bool		failed;			/* the rows are lost, and the failure is reported */

	/* device memory that env->progress shows for this job */
	uint64		shown;
	bool		is_producer;	/* it fills the job of another process */

	/* the chunk that is filled */
	char	   *chunk;			/* NULL: none yet */
	uint32		chunk_rows;
	uint32		max_chunk_rows;
	uint32		words_at;		/* offset of the rows' places in the chunk */
	uint32		rows_at;		/* offset of the rows */
	char	   *next;			/* where the next row is written */
	char	   *end;

	double		expected;		/* expected number of rows; 0: unknown */
	uint64		rows;			/* rows that were sent */
	uint64		units;			/* their length in units of 8 bytes */

	/*
	 * Unit from which places are counted: a producer's first unit of the
	 * chunk, otherwise 0.
	 */
	uint64		base;
	uint64		sum;			/* sum of row_sum() */
	JobSecret	secret;			/* for the rows' checksums */
	bool		marked;			/* rows have marks */
	KeyCheck	keys;			/* of the groups, if duplicates are dropped */

	/* the chunk that is read */
	bool		held;			/* there is such a chunk */
	uint32		held_rows;
	const char *held_data;		/* its first row */
	uint64		returned;		/* rows of the chunks before it */
	uint64		returned_sum;	/* sum of row_sum() of these rows */
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

/* Sets spec's max_rows and max_row_bytes for n rows of row_bytes bytes. */
extern void device_rows_set_room(DeviceJobSpec *spec, double n, double row_bytes);

/* Divides chunks among keys, places and rows. */
extern void device_rows_layout_chunk(DeviceRows *dev, double row_bytes);

/* Opens the job with room for these rows; false, and *why, if there is no room. */
extern bool device_rows_open_job(DeviceRows *dev, double rows, double row_bytes, DeviceState *why);

/* The room to ask for when n rows have come, in rows. */
extern double device_rows_ahead(const DeviceRows *dev, double n, double row_bytes);

/* Starts a new chunk with room for a row of size bytes. */
extern SinkAnswer device_rows_start_chunk(DeviceRows *dev, Size size);

/* Grows a job that is full, so that it has room for a row of size bytes. */
extern SinkAnswer device_rows_grow(DeviceRows *dev, Size size);

/* Sends the chunk that is being filled. */
extern void device_rows_post(DeviceRows *dev);

/* All rows are sent: starts the sort, and does not wait for it. */
extern void device_rows_start_sort(DeviceRows *dev);

/* Marks the rows as lost, and reports the failure of the device. */
extern void device_rows_fail(DeviceRows *dev);

/* Updates the progress view: device memory of the job, or none. */
extern void device_rows_show(DeviceRows *dev);
extern void device_rows_show_none(DeviceRows *dev);

/*
 * Does dev->returned_rows note single rows?  If keys are inexact, or duplicates are dropped:
 * only their number and sum.
 */
static inline bool
device_rows_notes_returned(const DeviceRows *dev)
{
	return dev->returned_rows != NULL && dev->layout.layout.exact && !dev->spec.drop;
}

/* Rows of the job's result; known when its first chunk is here. */
static inline uint64
device_rows_down(const DeviceRows *dev)
{
	return dev->spec.drop ? dev->job->rows_down : dev->rows;
}

/* The job is to be opened, and its spec is set: prepares the checks of the rows.  False: no secret. */
extern bool device_rows_prepare_checks(DeviceRows *dev);

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

/* Closes the job and frees *dev. */
extern void device_rows_end(DeviceRows *dev);

/* The same; waits until the job's resources are free. */
extern void device_rows_return(DeviceRows *dev);

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

/* The result that reads the rows from the device; starts the sort. */
extern SortResult *result_device_rows_begin(StreamResult *result, SortEnv *env, DeviceRows *dev);

/* A result without rows, because another process returns them, or because the device failed. */
extern SortResult *result_device_rows_none(StreamResult *result, SortEnv *env, bool failed);

/* rows.c: the sink of row mode.  SortOffload.begin_rows() and rows_after. */

/* Bytes of rows at which a sort first considers row mode. */
#define DEVICE_ROWS_AFTER		((Size) 32 * 1024 * 1024)

extern Sink *device_rows_begin(SortEnv *env, Batch *batch, bool *allowed);

/* For producer.c: a sink for a job that is open, and the methods that take rows. */
extern Sink *sink_device_rows_create(SortEnv *env, Batch *batch, DeviceRows *dev);
extern SinkAnswer sink_device_rows_put_slot(Sink *sink, TupleTableSlot *slot);
extern SinkAnswer sink_device_rows_put_page(Sink *sink, RowPage *page, int *done);

/* ------------------------------------------------------------------------
 * Keys split by range
 *
 * A sort that does not fit a device is split into parts.  All keys of a part are greater
 * than those of the previous part, and equal keys are in one part.  Within a part the
 * keys keep their order.  Sorting the parts one by one sorts the whole.
 * ------------------------------------------------------------------------
 */

#define KEY_SPLIT_MAX	128		/* maximal number of parts */

typedef struct KeyPart
{
	size_t		n;				/* rows */
	bool		constant;		/* all keys are equal */

	/* Block numbers, in order.  All blocks but the last are full. */
	uint32	   *blocks;
	uint32		nblocks;
	uint32		capacity;		/* of blocks[] */
} KeyPart;

typedef struct KeySplit
{
	int			nparts;
	KeyPart		parts[KEY_SPLIT_MAX];
	Key128		low[KEY_SPLIT_MAX]; /* least key of each part's range */
	int			key_width;		/* of pack_keys(): 32, 64 or 128 */
	bool		rids;			/* blocks have rids behind the keys */
	size_t		block_rows;
	Size		block_bytes;
	BulkBuf		blocks;			/* memory of all blocks */
} KeySplit;

/* Consecutive keys of a block, and their rids (NULL if there are none). */
typedef struct KeySpan
{
	size_t		n;
	char	   *keys;
	uint32	   *rids;
} KeySpan;

/*
 * Chooses the ranges of parts of about part_rows rows, from a sample of the keys.  The rows
 * of a key that make up half a part or more become a part of their own.  False if there
 * would be more than KEY_SPLIT_MAX parts.
 */
extern bool key_split_plan(KeySplit *split, const KeyBuffer *keybuf, const KeyLayout *layout,
						   int key_width, size_t part_rows);

/* Does any part need sorting? */
extern bool key_split_sorts(const KeySplit *split);

/* Sets the size of blocks to block_rows rows.  Returns the bytes of the blocks for n keys. */
extern Size key_split_bytes(KeySplit *split, size_t n, size_t block_rows);

/* Splits the buffered keys.  Block numbers are allocated in the current memory context. */
extern void key_split_run(KeySplit *split, BulkOwner *owner, const KeyBuffer *keybuf,
						  const KeyLayout *layout);

/* The rows of the part that follow each other in memory from row "at" on. */
extern KeySpan key_split_span(const KeySplit *split, int part, size_t at);

extern void key_split_free(KeySplit *split, BulkOwner *owner);

#endif							/* GPUSORT_GPU_GPU_INTERNAL_H */
