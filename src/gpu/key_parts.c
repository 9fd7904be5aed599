/*
 * key_parts.c
 *	  Key mode in parts: keys that exceed one job or one GPU.
 *
 * The buffered keys are split by key range: all keys of a part are greater than those of the
 * previous part, equal keys are in one part, and within a part the keys keep their order.  Each
 * part is a job of its own, on any device that has room, and the results follow each other;
 * nothing is merged.  While the result of one part is received, the next parts are sent and
 * sorted.  A part whose keys are all equal needs no sort.
 *
 * The ranges come from a sorted sample, as Chen et al. join slices to buckets of a
 * size that a multiprocessor can hold.  Splitters cannot divide the rows of one key.  If
 * these make up half a part or more, they become a part of their own.
 *
 * The size of a part is known only at the end.  Parts therefore consist of blocks, which
 * are taken from one region as needed, so keys are packed and compared with splitters
 * only once.
 *
 * The leading bits of a key usually determine its part.  A table of these bits is
 * looked up first, and comparisons with splitters follow only within one cell.
 *
 * Deadlock: a sort that holds a job never waits for room.  It takes the room that is free for
 * its next part, and otherwise tries again after the next chunk.  If the part that is read next
 * has no job, no later part has one either.  Then the sort waits, in all as long as the CPU would
 * need, or for gpusort.device_patience if a GPU is forced.
 *
 * Memory policy: the region of blocks has room for all rows and one more block per part.  Its
 * unused memory is never touched.  The split keys take at most what was counted for sorting the
 * batch on the CPU.  A sort that would exceed work_mem with them and the bitmap of check.c is not
 * split.
 *
 * On error: as with a single job.  The key buffer is kept to the end; if a part fails or finds
 * no room, the CPU sorts the whole batch.
 */
#include "postgres.h"

#include "common/pg_prng.h"
#include "cost/cost.h"
#include "gpu/job.h"
#include "gpu/key_mode.h"
#include "kernel/algorithm.h"
#include "miscadmin.h"
#include "nodes/pg_list.h"
#include "service/service.h"
#include "settings.h"
#include "sort/sort_internal.h"

/*
 * The expected rows of a part fill this share of its job, as the part may be larger.  Without
 * parentheses: rows * PART_FILL is computed in integers.
 */
#define PART_FILL			7 / 8

/* Parts of fewer rows do not pay. */
#define PART_MIN_ROWS		16384

/* Open jobs of one sort, per device. */
#define PARTS_AHEAD			2

/* Number of keys in the sample: per part, and its limits. */
#define SAMPLE_PER_PART		512
#define SAMPLE_MIN			4096
#define SAMPLE_MAX			32768

/* Keys that are packed and compared in one batch. */
#define SPLIT_BATCH			512

/* Batches between two checks for interrupts. */
#define INTERRUPT_BATCHES	256

/* The leading bits divide the keys into this number of cells of equal width. */
#define SPLIT_CELL_BITS		12
#define SPLIT_CELLS			(1 << SPLIT_CELL_BITS)

/* With more splitters than this in a cell, a binary search among all splitters is faster. */
#define SPLIT_CELL_MOST		2

/* The table of a key's leading bits. */
typedef struct SplitCells
{
	/*
	 * The cell of a key is key >> shift; the last cell also has all larger
	 * keys.
	 */
	int			shift;
	int			most;			/* maximal number of splitters in a cell */
	uint8		part[SPLIT_CELLS];	/* part of the cell's least key */
} SplitCells;

/* Where the next row of a part is written. */
typedef struct PartEnd
{
	char	   *keys;
	uint32	   *rids;
	size_t		left;			/* rows that the current block has room for */
} PartEnd;

#define KEY_SPLIT_MAX	128		/* maximal number of parts */

typedef struct KeyPart
{
	size_t		n;				/* rows */
	bool		constant;		/* all keys are equal */

	/* Block numbers, in order.  All blocks but the last are full. */
	List	   *blocks;
	DeviceJob  *job;			/* open job; NULL: none */
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
	Size		bytes;			/* of all blocks */
	BulkBuf		blocks;			/* memory of all blocks */
} KeySplit;

/* Consecutive keys of a block, and their rids (NULL if there are none). */
typedef struct KeySpan
{
	size_t		n;
	char	   *keys;
	uint32	   *rids;
} KeySpan;

/* A sort in parts. */
typedef struct DeviceParts
{
	KeySplit	split;
	/* job that was opened before the keys were split; NULL: a part has it */
	DeviceJob  *spare;
	uint64		spare_rows;		/* capacity of spare */
	int			ndevices;		/* devices that this backend may use */
	int			open;			/* open jobs */
	int			next_to_send;	/* parts before it are sent, or need not be */
	int			current;		/* the part whose result is read */
	uint64		patient_until_us;	/* parts wait for room until then */
} DeviceParts;

/* ------------------------------------------------------------------------
 * The split: sample, splitters, one pass over the keys
 * ------------------------------------------------------------------------
 */

static int
compare_key128(const void *a, const void *b)
{
	const Key128 x = *(const Key128 *) a;
	const Key128 y = *(const Key128 *) b;

	return (x > y) - (x < y);
}

/* Adds a part that begins with this key.  Returns false if there are too many parts. */
static bool
add_part(KeySplit *split, Key128 low)
{
	if (split->nparts == KEY_SPLIT_MAX)
		return false;
	memset(&split->parts[split->nparts], 0, sizeof(KeyPart));
	split->low[split->nparts++] = low;
	return true;
}

/* Divides the sample into ranges of "share" keys each.  False if there are too many parts. */
static bool
choose_ranges(KeySplit *split, const Key128 *sample, size_t n, double share)
{
	Key128		most = split->key_width == 128 ? ~(Key128) 0 : ((Key128) 1 << split->key_width) - 1;
	size_t		filled = 0;		/* keys of the sample in the last part */

	(void) add_part(split, 0);
	for (size_t i = 0, next; i < n; i = next)
	{
		Key128		key = sample[i];

		for (next = i + 1; next < n && sample[next] == key; next++)
			;
		if (next - i > share / 2)
		{
			if (split->low[split->nparts - 1] != key && !add_part(split, key))
				return false;
			split->parts[split->nparts - 1].constant = true;
			if (key != most && !add_part(split, key + 1))
				return false;
			filled = 0;
			continue;
		}
		if (filled > 0 && filled + (next - i) > share)
		{
			if (!add_part(split, key))
				return false;
			filled = 0;
		}
		filled += next - i;
	}
	return true;
}

/*
 * Chooses the ranges of parts of about part_rows rows, from a sample of the keys.  The rows
 * of a key that make up half a part or more become a part of their own.  False if there
 * would be more than KEY_SPLIT_MAX parts, or if none needs a sort.
 */
static bool
key_split_plan(KeySplit *split, const KeyBuffer *keybuf, const KeyLayout *layout, int key_width,
			   size_t part_rows)
{
	double		parts = (double) keybuf->n / part_rows;
	size_t		n = (size_t) Min(Max(parts * SAMPLE_PER_PART, SAMPLE_MIN), SAMPLE_MAX);
	Key128	   *sample;
	pg_prng_state state;
	bool		fits;
	bool		sorts = false;

	split->nparts = 0;
	split->key_width = key_width;
	split->rids = !keybuf->keys_only;
	if (parts > KEY_SPLIT_MAX)
		return false;
	sample = palloc(n * sizeof(Key128));
	/* positions are random, because the input may be periodic */
	pg_prng_seed(&state, 0);
	for (size_t i = 0; i < n; i++)
		sample[i] = pack_key(keybuf, layout, (size_t) pg_prng_uint64_range(&state, 0, keybuf->n - 1));
	qsort(sample, n, sizeof(Key128), compare_key128);
	fits = choose_ranges(split, sample, n, n / parts);
	pfree(sample);
	for (int p = 0; p < split->nparts; p++)
		sorts |= !split->parts[p].constant;
	return fits && sorts;
}

/* All rows of a block. */
static KeySpan
block_at(const KeySplit *split, int block)
{
	char	   *start = (char *) split->blocks.ptr + (Size) block * split->block_bytes;
	KeySpan		span = {split->block_rows, start, NULL};

	if (split->rids)
		span.rids = (uint32 *) (start + split->block_rows * (split->key_width / 8));
	return span;
}

/* Adds a block to the part; *used is the number of blocks in use. */
static pg_noinline void
next_block(KeySplit *split, KeyPart *part, PartEnd *end, int *used)
{
	KeySpan		span = block_at(split, *used);

	part->blocks = lappend_int(part->blocks, (*used)++);
	end->keys = span.keys;
	end->rids = span.rids;
	end->left = span.n;
}

/* Fills the table of leading bits from the parts' ranges. */
static void
fill_cells(SplitCells *cells, const KeySplit *split, const KeyLayout *layout)
{
	int			bits = Min(layout->total_bits, split->key_width);
	int			p = 0;

	cells->shift = Max(bits - SPLIT_CELL_BITS, 0);
	cells->most = 0;
	for (int c = 0; c < SPLIT_CELLS; c++)
	{
		int			before = p;

		while (p + 1 < split->nparts &&
			   (c == SPLIT_CELLS - 1 || split->low[p + 1] < (Key128) (c + 1) << cells->shift))
			p++;

		/* a splitter that equals the cell's least key is counted: one comparison more */
		cells->part[c] = (uint8) before;
		cells->most = Max(cells->most, p - before);
	}
}

/*
 * Writes the keys of a batch to their parts, without branches per key.  A key's cell, and
 * comparisons with the splitters in the cell, tell its part.  If a cell has too many
 * splitters, a binary search in "steps" comparisons finds the part; splitters[] is padded
 * to a power of two with the largest key.
 */
#define SPLIT_KEYS(key_t, splitters) \
	do { \
		const key_t *k = (const key_t *) keys; \
		uint8		part_of[SPLIT_BATCH]; \
		for (size_t i = 0; i < count && cells.most <= SPLIT_CELL_MOST; i++) \
		{ \
			int			p = cells.part[Min((size_t) (k[i] >> cells.shift), SPLIT_CELLS - 1)]; \
			for (int s = 0; s < cells.most; s++) \
				p += k[i] >= (splitters)[p]; \
			part_of[i] = (uint8) Min(p, last); \
		} \
		for (size_t i = 0; i < count && cells.most > SPLIT_CELL_MOST; i++) \
		{ \
			int			p = 0; \
			for (int step = 1 << steps >> 1; step > 0; step >>= 1) \
				p += k[i] >= (splitters)[p + step - 1] ? step : 0; \
			part_of[i] = (uint8) Min(p, last); \
		} \
		for (size_t i = 0; i < count; i++) \
		{ \
			PartEnd    *end = &ends[part_of[i]]; \
			if (unlikely(end->left == 0)) \
				next_block(split, &split->parts[part_of[i]], end, &used); \
			*(key_t *) end->keys = k[i]; \
			end->keys += sizeof(key_t); \
			if (rids != NULL) \
				*end->rids++ = rids[i]; \
			end->left--; \
		} \
	} while (0)

/* Splits the buffered keys.  Block numbers are allocated in the current memory context. */
static void
key_split_run(KeySplit *split, BulkOwner *owner, const KeyBuffer *keybuf, const KeyLayout *layout)
{
	PartEnd		ends[KEY_SPLIT_MAX] = {0};
	Key128		wide[KEY_SPLIT_MAX];
	uint64		narrow[KEY_SPLIT_MAX];
	SplitCells	cells;
	char		keys[SPLIT_BATCH * sizeof(Key128)] pg_attribute_aligned(16);
	int			last = split->nparts - 1;
	int			steps = 0;
	int			used = 0;

	while (1 << steps < split->nparts)
		steps++;
	fill_cells(&cells, split, layout);
	for (int p = 0; p < KEY_SPLIT_MAX; p++)
	{
		wide[p] = p < last ? split->low[p + 1] : ~(Key128) 0;
		narrow[p] = p < last ? (uint64) split->low[p + 1] : PG_UINT64_MAX;
	}
	bulk_reserve(owner, &split->blocks, split->bytes, 0);
	for (size_t start = 0; start < keybuf->n; start += SPLIT_BATCH)
	{
		size_t		count = Min(SPLIT_BATCH, keybuf->n - start);
		const uint32 *rids = split->rids ? keybuf->rids + start : NULL;

		if (start % (SPLIT_BATCH * INTERRUPT_BATCHES) == 0)
			CHECK_FOR_INTERRUPTS();
		pack_keys(keybuf, layout, split->key_width, start, count, keys);
		if (split->key_width == 32)
			SPLIT_KEYS(uint32, narrow);
		else if (split->key_width == 64)
			SPLIT_KEYS(uint64, narrow);
		else
			SPLIT_KEYS(Key128, wide);
	}
	for (int p = 0; p < split->nparts; p++)
		split->parts[p].n = list_length(split->parts[p].blocks) * split->block_rows - ends[p].left;
}

/* The rows of the part that follow each other in memory from row "at" on. */
static KeySpan
key_split_span(const KeySplit *split, int part, size_t at)
{
	const KeyPart *of = &split->parts[part];
	size_t		skip = at % split->block_rows;
	KeySpan		span = block_at(split, list_nth_int(of->blocks, at / split->block_rows));

	Assert(at < of->n);
	span.n = Min(split->block_rows - skip, of->n - at);
	span.keys += skip * (split->key_width / 8);
	if (span.rids != NULL)
		span.rids += skip;
	return span;
}

/* ------------------------------------------------------------------------
 * Room and gain
 * ------------------------------------------------------------------------
 */

/* Rows that a job of this many bytes has room for. */
static uint64
rows_of_bytes(const DeviceKeys *dk, uint64 bytes)
{
	uint64		empty = gpusort_keys_bytes(device_costs(), 0, dk->facts.gpu.key_width);
	uint64		row = gpusort_keys_bytes(device_costs(), 1, dk->facts.gpu.key_width) - empty;

	return bytes > empty ? (bytes - empty) / row : 0;
}

/* Rows of each job, so that two jobs fit at once, unless each would become very small. */
static uint64
rows_of_job(const DeviceKeys *dk, uint64 bytes)
{
	uint64		one = rows_of_bytes(dk, bytes);
	uint64		two = rows_of_bytes(dk, bytes / 2);

	return two >= one / 4 ? two : one;
}

/* Sets the size of blocks.  Does work_mem hold the split keys beside the batch, the check and the result? */
static bool
split_fits_memory(const DeviceKeys *dk, KeySplit *split)
{
	size_t		n = dk->batch->keybuf.n;
	Size		row = split->key_width / 8 + (split->rids ? sizeof(uint32) : 0);

	/* several blocks per part, none larger than a chunk */
	split->block_rows = Min(Max(n / ((size_t) split->nparts * 8), 1024), key_chunk_rows(&dk->spec));
	split->block_bytes = TYPEALIGN(64, split->block_rows * row);
	split->bytes = (n / split->block_rows + 1 + split->nparts) * split->block_bytes;
	return device_check_bytes(dk->env, dk->batch) + split->bytes <= dk->env->limit;
}

/* Opens a job for a part; NULL, and dk->facts.device, if there is no room. */
static DeviceJob *
open_part_of_keys(DeviceKeys *dk, uint64 rows, double patience_us)
{
	DeviceJobSpec spec = dk->spec;
	DeviceJob  *job;

	spec.max_rows = rows;
	job = device_job_open(dk->env->cxt, &spec, patience_us, &dk->facts.device);
	if (job != NULL)
	{
		dk->parts->open++;
		device_show_job(dk->env, job, &dk->decision, &spec);
	}
	return job;
}

bool
device_parts_begin(DeviceKeys *dk, double patience_us)
{
	SortEnv    *env = dk->env;
	const KeyBuffer *keybuf = &dk->batch->keybuf;
	DeviceParts *parts = MemoryContextAllocZero(env->cxt, sizeof(DeviceParts));
	DeviceAvailability availability;
	uint64		rows;
	uint64		part_rows;

	device_availability(&availability);
	rows = rows_of_job(dk, availability.largest_job);
	part_rows = rows * PART_FILL;
	dk->parts = parts;
	parts->ndevices = availability.devices;
	parts->patient_until_us = device_now_us() +
		(uint64) (dk->facts.forced != NULL ? DEVICE_FORCED_PATIENCE_US : dk->decision.cpu_us);
	/* parts have a known number of rows: the result has duplicates */
	dk->spec.drop = false;
	dk->spec.want_keys = env->spec.keys_only || env->spec.gpu_verified || !dk->layout.exact;
	dk->keys.cut = 0;
	if (part_rows >= PART_MIN_ROWS && part_rows < keybuf->n &&
		(dk->facts.forced != NULL || gpu_parts_us(dk->decision.algorithm, &dk->facts, (int) (keybuf->n / part_rows) + 1,
												  parts->ndevices) < dk->decision.cpu_us) &&
		key_split_plan(&parts->split, keybuf, &dk->layout, dk->spec.key_width, part_rows) &&
		split_fits_memory(dk, &parts->split))
	{
		parts->spare = open_part_of_keys(dk, rows, patience_us);
		parts->spare_rows = rows;
	}
	if (parts->spare != NULL)
	{
		dk->decision.predicted_us = gpu_parts_us(dk->decision.algorithm, &dk->facts, parts->split.nparts,
												 parts->ndevices);
		return true;
	}
	dk->parts = NULL;
	pfree(parts);
	return false;
}

/* ------------------------------------------------------------------------
 * Up
 * ------------------------------------------------------------------------
 */

/* Closes a job and sets the pointer to it to NULL. */
static void
close_part_job(DeviceKeys *dk, DeviceJob **job, bool wait)
{
	device_close_job(dk->env, *job, wait);
	*job = NULL;
	dk->parts->open--;
}

/* Sends a part to its job, and starts the sort.  A failure is noticed when the result is read. */
static void
send_part(DeviceKeys *dk, int p)
{
	KeySplit   *split = &dk->parts->split;
	DeviceJob  *job = split->parts[p].job;
	int			width = dk->spec.key_width / 8;

	for (size_t at = 0; at < split->parts[p].n;)
	{
		KeySpan		span = key_split_span(split, p, at);
		KeyChunk	chunk;

		CHECK_FOR_INTERRUPTS();
		if (!key_chunk_next_up(job, span.n, &chunk))
			return;
		memcpy(chunk.keys, span.keys, span.n * width);
		if (chunk.rids != NULL)
			memcpy(chunk.rids, span.rids, span.n * sizeof(uint32));
		key_chunk_post(job, &chunk);
		at += span.n;
	}
	device_job_sort(job);
}

/* Assigns a job to the part: the spare one, or a new one.  False if there is no room. */
static bool
assign_job(DeviceKeys *dk, int p)
{
	DeviceParts *parts = dk->parts;
	KeyPart    *part = &parts->split.parts[p];
	double		patience_us = 0;

	/* a part that is not read yet can be sent later */
	if (p == parts->current)
		patience_us = Max(0, (double) parts->patient_until_us - (double) device_now_us());
	if (parts->spare != NULL && part->n > parts->spare_rows)
		close_part_job(dk, &parts->spare, false);
	part->job = parts->spare != NULL ? parts->spare : open_part_of_keys(dk, part->n, patience_us);
	parts->spare = NULL;
	return part->job != NULL;
}

/* Sends the next parts while there is room.  The sort fails if there is none for the part that is read. */
static void
send_next_parts(DeviceKeys *dk)
{
	DeviceParts *parts = dk->parts;

	for (; parts->next_to_send < parts->split.nparts; parts->next_to_send++)
	{
		const KeyPart *part = &parts->split.parts[parts->next_to_send];

		if (part->constant || part->n == 0)
			continue;
		if (parts->open >= PARTS_AHEAD * parts->ndevices && parts->spare == NULL)
			return;
		if (!assign_job(dk, parts->next_to_send))
		{
			dk->failed = dk->no_room = parts->next_to_send == parts->current;
			return;
		}
		send_part(dk, parts->next_to_send);
	}
}

void
device_parts_send(DeviceKeys *dk)
{
	DeviceParts *parts = dk->parts;
	KeySplit   *split = &parts->split;
	MemoryContext old = MemoryContextSwitchTo(dk->env->cxt);
	uint64		start = device_now_us();

	key_split_run(split, dk->env->bulk, &dk->batch->keybuf, &dk->layout);
	MemoryContextSwitchTo(old);
	ereport(DEBUG1,
			(errmsg_internal("gpusort: %zu keys were split into %d parts in %.1f ms", dk->batch->keybuf.n,
							 split->nparts, (device_now_us() - start) / 1000.0)));
	for (int p = 0; dk->spec.want_keys && p < split->nparts; p++)
	{
		for (size_t at = 0; at < split->parts[p].n;)
		{
			KeySpan		span = key_split_span(split, p, at);

			dk->keys.sum += device_check_sum(&dk->keys, span.keys, device_pair_rids(dk->env, span.rids),
											 dk->spec.key_width, span.n);
			at += span.n;
		}
	}
	send_next_parts(dk);
}

/* ------------------------------------------------------------------------
 * Down
 * ------------------------------------------------------------------------
 */

bool
device_parts_next(DeviceKeys *dk, KeyChunk *chunk)
{
	DeviceParts *parts = dk->parts;
	KeyPart    *part = &parts->split.parts[parts->current];

	while (dk->received - dk->job_first == part->n)
	{
		dk->job = NULL;
		/* the next part may need this part's memory */
		if (part->job != NULL)
			close_part_job(dk, &part->job, parts->next_to_send == parts->current + 1 &&
						   parts->next_to_send < parts->split.nparts);
		dk->job_first += part->n;
		if (++parts->current == parts->split.nparts)
		{
			dk->env->report.parts += parts->current;
			return false;
		}
		part = &parts->split.parts[parts->current];
	}
	send_next_parts(dk);
	if (dk->failed)
		return false;
	dk->job = part->job;
	if (part->constant)
	{
		KeySpan		span = key_split_span(&parts->split, parts->current, dk->received - dk->job_first);

		*chunk = (KeyChunk) {.rows = (uint32) span.n,.keys = span.keys,.rids = span.rids};
	}
	return true;
}

Size
device_parts_bytes(const DeviceKeys *dk)
{
	return dk->parts == NULL ? 0 : dk->parts->split.blocks.requested;
}

void
device_parts_end(DeviceKeys *dk)
{
	DeviceParts *parts = dk->parts;

	dk->job = NULL;
	for (int p = 0; p < parts->split.nparts; p++)
	{
		KeyPart    *part = &parts->split.parts[p];

		if (part->job != NULL)
			close_part_job(dk, &part->job, false);
		list_free(part->blocks);
	}
	if (parts->spare != NULL)
		close_part_job(dk, &parts->spare, false);
	bulk_free(dk->env->bulk, &parts->split.blocks);
	pfree(parts);
	dk->parts = NULL;
}
