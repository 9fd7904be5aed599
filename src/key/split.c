/*
 * split.c
 *	  Staged keys split by range: a sample, splitters, and one pass over the keys.
 *
 * As Chen's slices are joined to buckets that a multiprocessor can hold, a sorted
 * sample's values are joined to parts that a device can hold.  A value that makes up
 * half a part or more is a part of its own, in which nothing is left to sort: no number
 * of splitters would make such a part smaller.
 *
 * How large each part comes out is only known at the end, so that parts are made of
 * blocks, taken from one region as they are needed: the keys are packed and compared
 * with the splitters once.
 *
 * A key's leading bits tell nearly always which part it is in, so that a table of them is asked
 * first.  On a Zen 5, 8M keys: of 32 bits, in 11 and 64 parts, 3.8 and 3.3 ns each, where a
 * search among the splitters takes 6.4 and 8.7; of 64 bits 5.0 and 6.4 (7.8 and 9.8), of 128
 * bits 7.5 and 8.3 (11 and 15).
 *
 * Memory policy: the region has room for all rows, and a block for each part besides;
 * what is not used of it is not touched.
 */
#include "postgres.h"

#include "common/pg_prng.h"
#include "key/key.h"
#include "miscadmin.h"

/* Keys of the sample: so many for each part, but not fewer nor more than these. */
#define SAMPLE_PER_PART		512
#define SAMPLE_MIN			4096
#define SAMPLE_MAX			32768

/* Keys that are packed, and compared, at a time. */
#define SPLIT_BATCH			512

/* Batches between two looks at interrupts. */
#define INTERRUPT_BATCHES	256

/* Cells of equal width into which leading bits divide the keys, */
#define SPLIT_CELL_BITS		12
#define SPLIT_CELLS			(1 << SPLIT_CELL_BITS)

/* and splitters in one of them up to which that is quicker than a search among all. */
#define SPLIT_CELL_MOST		2

typedef struct SplitCells
{
	int			shift;			/* a key's cell, or the last, is what is left of it */
	int			most;			/* splitters in one cell */
	uint8		part[SPLIT_CELLS];	/* of the cell's least key */
} SplitCells;

/* Where a part's next row goes. */
typedef struct PartEnd
{
	char	   *keys;
	uint32	   *rids;
	size_t		left;			/* rows that its block has room for */
} PartEnd;

static int
compare_keys(const void *a, const void *b)
{
	const Key128 x = *(const Key128 *) a;
	const Key128 y = *(const Key128 *) b;

	return (x > y) - (x < y);
}

/* A sorted sample; places are random, for inputs may have a period. */
static void
sample_keys(const KeyBuffer *keybuf, const KeyLayout *layout, Key128 *sample, size_t n)
{
	pg_prng_state state;

	pg_prng_seed(&state, 0);
	for (size_t i = 0; i < n; i++)
		sample[i] = pack_key(keybuf, layout, (size_t) pg_prng_uint64_range(&state, 0, keybuf->n - 1));
	qsort(sample, n, sizeof(Key128), compare_keys);
}

/* Another part, from that key on; false if there are too many. */
static bool
add_part(KeySplit *split, Key128 low)
{
	if (split->nparts == KEY_SPLIT_MAX)
		return false;
	memset(&split->parts[split->nparts], 0, sizeof(KeyPart));
	split->low[split->nparts++] = low;
	return true;
}

/* Ranges of which each has that share of the sample; false if they are too many. */
static bool
choose_ranges(KeySplit *split, const Key128 *sample, size_t n, double share)
{
	Key128		most = split->key_width == 128 ? ~(Key128) 0 : ((Key128) 1 << split->key_width) - 1;
	size_t		filled = 0;

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
	bool		fits;

	split->nparts = 0;
	split->key_width = key_width;
	split->rids = !keybuf->keys_only;
	if (parts > KEY_SPLIT_MAX)
		return false;
	sample = palloc(n * sizeof(Key128));
	sample_keys(keybuf, layout, sample, n);
	fits = choose_ranges(split, sample, n, n / parts);
	pfree(sample);
	return fits;
}

bool
key_split_sorts(const KeySplit *split)
{
	for (int p = 0; p < split->nparts; p++)
	{
		if (!split->parts[p].constant)
			return true;
	}
	return false;
}

Size
key_split_bytes(KeySplit *split, size_t n, size_t block_rows)
{
	Size		row = split->key_width / 8 + (split->rids ? sizeof(uint32) : 0);

	split->block_rows = block_rows;
	split->block_bytes = TYPEALIGN(64, block_rows * row);
	return (n / block_rows + 1 + split->nparts) * split->block_bytes;
}

static KeySpan
block_at(const KeySplit *split, uint32 block)
{
	char	   *start = (char *) split->blocks.ptr + (Size) block * split->block_bytes;
	KeySpan		span = {split->block_rows, start, NULL};

	if (split->rids)
		span.rids = (uint32 *) (start + split->block_rows * (split->key_width / 8));
	return span;
}

/* The part gets the next block. */
static pg_noinline void
next_block(KeySplit *split, KeyPart *part, PartEnd *end, uint32 *used)
{
	KeySpan		span;

	if (part->nblocks == part->capacity)
	{
		part->capacity = Max(16, 2 * part->capacity);
		part->blocks = part->blocks == NULL ? palloc(part->capacity * sizeof(uint32)) :
			repalloc(part->blocks, part->capacity * sizeof(uint32));
	}
	part->blocks[part->nblocks++] = *used;
	span = block_at(split, (*used)++);
	end->keys = span.keys;
	end->rids = span.rids;
	end->left = span.n;
}

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
		/* one at its very beginning is counted, too: it does no harm */
		cells->part[c] = (uint8) before;
		cells->most = Max(cells->most, p - before);
	}
}

/*
 * Puts a batch's keys into their parts, without a branch: by their cells and the splitters in
 * there, or if these are many by steps comparisons with splitters each.  Splitters are filled
 * up to a power of two with the largest key.
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
	uint32		used = 0;

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
		split->parts[p].n = split->parts[p].nblocks * split->block_rows - ends[p].left;
}

KeySpan
key_split_span(const KeySplit *split, int part, size_t at)
{
	const KeyPart *of = &split->parts[part];
	size_t		skip = at % split->block_rows;
	KeySpan		span = block_at(split, of->blocks[at / split->block_rows]);

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
		if (split->parts[p].blocks != NULL)
			pfree(split->parts[p].blocks);
		split->parts[p].blocks = NULL;
	}
	bulk_free(owner, &split->blocks);
}
