/*
 * key_split.c
 *	  Splits buffered keys by range: sample, splitters, one pass over the keys.
 *
 * The ranges come from a sorted sample, as Chen et al. join slices to buckets of a
 * size that a multiprocessor can hold.  Splitters cannot divide the rows of one key.  If
 * these make up half a part or more, they become a part of their own, which needs no sort.
 *
 * The size of a part is known only at the end.  Parts therefore consist of blocks, which
 * are taken from one region as needed, so keys are packed and compared with splitters
 * only once.
 *
 * The leading bits of a key usually determine its part.  A table of these bits is
 * looked up first, and comparisons with splitters follow only within one cell.
 *
 * Memory policy: the region has room for all rows and one more block per part.  Its
 * unused memory is never touched.
 */
#include "postgres.h"

#include "common/pg_prng.h"
#include "gpu/key_split.h"
#include "key/key.h"
#include "miscadmin.h"

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

bool
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

Size
key_split_bytes(KeySplit *split, size_t n, size_t block_rows)
{
	Size		row = split->key_width / 8 + (split->rids ? sizeof(uint32) : 0);

	split->block_rows = block_rows;
	split->block_bytes = TYPEALIGN(64, block_rows * row);
	return (n / block_rows + 1 + split->nparts) * split->block_bytes;
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

void
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
	bulk_reserve(owner, &split->blocks, key_split_bytes(split, keybuf->n, split->block_rows), 0);
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

KeySpan
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

void
key_split_free(KeySplit *split, BulkOwner *owner)
{
	for (int p = 0; p < split->nparts; p++)
	{
		list_free(split->parts[p].blocks);
		split->parts[p].blocks = NIL;
	}
	bulk_free(owner, &split->blocks);
}
