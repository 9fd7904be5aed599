/*
 * key_buffer.c
 *	  Sort keys of the rows of a batch: one array of normalized keys per column.
 *
 * Memory policy: arrays grow from a few rows with what came.  An estimate of what
 * will come only makes the steps longer, for it may be wrong by any factor.  The
 * flags of NULLs exist only in columns that have met one; those of rows not
 * staged yet are clear, and only those of rows that were are ever cleared.
 */
#include "postgres.h"

#include "key/key.h"
#include "key/key_internal.h"

#define STAGE_FIRST_ROWS	64

static void arrival_begin(struct Stage *stage);

static void
add_column(Stage *stage, const KeyColumn *key, KeyKind kind)
{
	StageColumn *col = &stage->cols[stage->ncols++];

	col->kind = kind;
	col->att = key->attno - 1;
	col->wide = key_wide(kind);
	col->called = key_called(kind);
	col->by_bytes = key_by_bytes(kind);
	col->nulls_first = key->nulls_first;
	col->flip = key->descending ? ~UINT64_C(0) : 0;
	key_range_init(&col->range);
	stage->row_bytes += col->wide ? sizeof(uint64) : sizeof(uint32);
}

void
stage_init(Stage *stage, const KeyColumn *keys, int nkeys, bool keys_only)
{
	int			bits = 0;
	bool		exact = true;

	stage->keys_only = keys_only;
	stage->row_bytes = keys_only ? 0 : sizeof(uint32);

	for (int k = 0; k < nkeys; k++)
		stage->last_att = Max(stage->last_att, keys[k].attno);

	for (int k = 0; k < nkeys; k++)
	{
		for (int word = 0; word < key_words(keys[k].kind); word++)
		{
			KeyKind		kind = keys[k].kind + word;

			if (bits >= STAGE_MAX_BITS || stage->ncols == STAGE_MAX_COLUMNS)
				return;
			add_column(stage, &keys[k], kind);
			bits += key_wide(kind) ? 64 : 32;
			exact &= key_exact(kind);
		}
	}
	stage->complete = true;
	stage->exact = exact;
}

void
stage_writer_init(StageWriter *writer, MemoryContext cxt, BulkOwner *owner, const Stage *stage,
				  const KeyColumn *keys)
{
	int			c = 0;

	writer->owner = owner;
	for (int k = 0; c < stage->ncols; k++)
	{
		for (int word = 0; word < key_words(keys[k].kind) && c < stage->ncols; word++, c++)
			writer->makers[c] = key_maker_create(cxt, &keys[k], stage->cols[c].kind);
	}
}

void
stage_reserve(Stage *stage, BulkOwner *owner, size_t n)
{
	if (n <= stage->capacity)
		return;

	stage->bytes = n * stage->row_bytes;
	for (int c = 0; c < stage->ncols; c++)
	{
		StageColumn *col = &stage->cols[c];
		Size		width = col->wide ? sizeof(uint64) : sizeof(uint32);

		bulk_reserve(owner, &col->images_buf, n * width, stage->n * width);
		col->images = col->images_buf.ptr;
		if (col->nulls != NULL)
		{
			bulk_reserve(owner, &col->nulls_buf, n, stage->n);
			col->nulls = col->nulls_buf.ptr;
			memset(col->nulls + stage->n, 0, n - stage->n);
			stage->bytes += n;
		}
	}
	if (!stage->keys_only)
	{
		bulk_reserve(owner, &stage->rids_buf, n * sizeof(uint32),
					 stage->n * sizeof(uint32));
		stage->rids = stage->rids_buf.ptr;
	}
	stage->capacity = n;
}

void
stage_grow(Stage *stage, BulkOwner *owner, size_t n, size_t expected, size_t most)
{
	size_t		grown = Max(2 * stage->capacity, STAGE_FIRST_ROWS);

	if (expected > grown)
		grown = Min(expected, Max(8 * stage->capacity, STAGE_FIRST_ROWS));
	stage_reserve(stage, owner, Max(n, Min(grown, most)));
}

void
stage_null(Stage *stage, BulkOwner *owner, StageColumn *col, size_t i)
{
	if (col->nulls == NULL)
	{
		bulk_reserve(owner, &col->nulls_buf, stage->capacity, 0);
		col->nulls = col->nulls_buf.ptr;
		memset(col->nulls, 0, stage->capacity);
		stage->bytes += stage->capacity;
	}
	col->nulls[i] = 1;
	col->range.has_null = true;
	/* a defined value, so that packing need not ask before it reads */
	if (col->wide)
		((uint64 *) col->images)[i] = 0;
	else
		((uint32 *) col->images)[i] = 0;
}

uint64
stage_called(Stage *stage, KeyMaker maker, StageColumn *col, size_t i, Datum value)
{
	bool		inexact = false;
	uint64		image = key_image(col, maker, value, &inexact);

	/* the first string, or an image that one without the prefix gets */
	if (col->by_bytes && col->prefix.len != 0 &&
		(col->prefix.len < 0 || image == 0 || image == PG_UINT64_MAX))
		image = string_stage(stage, col, i, value, &inexact);
	col->range.inexact |= inexact;
	key_range_add_bits(&col->range, image);
	return image;
}

void
stage_begin(Stage *stage)
{
	for (int c = 0; c < stage->ncols; c++)
	{
		stage->cols[c].prefix.len = -1;
		stage->cols[c].prefix.frozen = false;
	}
	stage_reset(stage);
}

void
stage_freeze(Stage *stage)
{
	for (int c = 0; c < stage->ncols; c++)
	{
		BytesPrefix *prefix = &stage->cols[c].prefix;

		prefix->len = Max(prefix->len, 0);
		prefix->frozen = true;
	}
}

void
stage_unite_ranges(const Stage *stage, KeyRange *ranges)
{
	for (int c = 0; c < stage->ncols; c++)
	{
		const StageColumn *col = &stage->cols[c];

		if (col->by_bytes && ranges[c].min <= ranges[c].max)
			string_shift_range(col, ranges[c].skip, col->prefix.len, &ranges[c]);
		key_range_union(&ranges[c], &col->range);
		ranges[c].skip = col->prefix.len;
	}
}

void
stage_reset(Stage *stage)
{
	stage_forget(stage, stage->n);
	stage->n = 0;
	arrival_begin(stage);
	for (int c = 0; c < stage->ncols; c++)
		key_range_init(&stage->cols[c].range);
}

/*
 * *cmp is < 0, 0 or > 0 as staged row i goes before, with or after row j; false if images
 * do not tell.
 */
static bool
stage_compare(const Stage *stage, size_t i, size_t j, int *cmp)
{
	for (int c = 0; c < stage->ncols; c++)
	{
		const StageColumn *col = &stage->cols[c];
		bool		null_i = col->nulls != NULL && col->nulls[i];
		bool		null_j = col->nulls != NULL && col->nulls[j];
		uint64		a = stage_image_at(col, i);
		uint64		b = stage_image_at(col, j);

		if (null_i != null_j)
		{
			*cmp = null_i == col->nulls_first ? -1 : 1;
			return true;
		}
		if (!null_i && unlikely(key_range_unplaced(col, &col->range)))
			return false;
		/* a NULL's images are equal, too */
		if (a != b)
		{
			*cmp = a < b ? -1 : 1;
			return true;
		}
		if (col->range.inexact && !null_i)
			return false;
	}
	*cmp = 0;
	return stage->complete;
}

void
stage_keep_begin(Stage *stage)
{
	/* what is true of all rows is true of those that stay */
	arrival_look(stage);
	for (int c = 0; c < stage->ncols; c++)
	{
		KeyRange   *range = &stage->cols[c].range;
		bool		inexact = range->inexact;

		/* whose images are is not known any more */
		key_range_init(range);
		range->inexact = inexact;
	}
}

void
stage_keep(Stage *stage, size_t i, size_t to, uint32 rid)
{
	for (int c = 0; c < stage->ncols; c++)
	{
		StageColumn *col = &stage->cols[c];
		bool		null = col->nulls != NULL && col->nulls[i];

		if (col->nulls != NULL)
			col->nulls[to] = null;
		if (col->wide)
			((uint64 *) col->images)[to] = ((uint64 *) col->images)[i];
		else
			((uint32 *) col->images)[to] = ((uint32 *) col->images)[i];
		if (null)
			col->range.has_null = true;
		else
		{
			key_range_add(&col->range, stage_image_at(col, to));
			key_range_add_bits(&col->range, stage_image_at(col, to));
		}
	}
	stage->rids[to] = rid;
}

void
stage_keep_end(Stage *stage, size_t n)
{
	for (int c = 0; c < stage->ncols; c++)
	{
		if (stage->cols[c].nulls != NULL)
			memset(stage->cols[c].nulls + n, 0, stage->n - n);
	}
	stage->n = n;
	stage->arrival.seen = n;
}

void
stage_forget(Stage *stage, size_t n)
{
	for (int c = 0; c < stage->ncols; c++)
	{
		if (stage->cols[c].nulls != NULL)
			memset(stage->cols[c].nulls, 0, n);
	}
}

void
stage_free(Stage *stage, BulkOwner *owner)
{
	for (int c = 0; c < stage->ncols; c++)
	{
		StageColumn *col = &stage->cols[c];

		bulk_free(owner, &col->images_buf);
		bulk_free(owner, &col->nulls_buf);
		col->images = NULL;
		col->nulls = NULL;
	}
	bulk_free(owner, &stage->rids_buf);
	stage->rids = NULL;
	stage->capacity = 0;
	stage->bytes = 0;
	stage->n = 0;
	arrival_begin(stage);
}

/* ------------------------------------------------------------------------
 * The order in which a stage's rows came: noticed while they do.
 *
 * Timestamps and serial numbers grow, and tables are often read in the order in which
 * they were filled.  As long as rows come in order, or each before the last, their
 * images are compared while they are in the cache; the first row that does not fit
 * ends that, and an input without order costs a test a page.  What has been found is
 * said of rows, not of images, and so holds when a prefix of strings shrinks and
 * images change.
 *
 * Columns decide one after the other, as in the keys that pack.c makes; where all
 * images are equal, but some value may not be, nothing is known.  A row that equals
 * the one before is in order, but not in reverse, because equal rows keep their order.
 * ------------------------------------------------------------------------
 */

/* No rows yet. */
static void
arrival_begin(Stage *stage)
{
	stage->arrival.ways = stage->ncols > 0 ? ARRIVAL_UP | ARRIVAL_DOWN : 0;
	stage->arrival.varied = false;
	stage->arrival.seen = 0;
}

/* Row i, of which its first column does not tell all. */
static void
look_at_row(Stage *stage, size_t i)
{
	Arrival    *arrival = &stage->arrival;
	int			cmp;

	if (!stage_compare(stage, i, i - 1, &cmp))
		arrival->ways = 0;
	else if (cmp == 0)
		arrival->ways &= ARRIVAL_UP;
	else
	{
		arrival->ways &= cmp > 0 ? ARRIVAL_UP : ARRIVAL_DOWN;
		arrival->varied = true;
	}
}

/* How many of rows [from, n) have a smaller, and how many an equal image than the row before. */
#define COUNT_STEPS(image_t) \
	do { \
		const image_t *images = col->images; \
		for (size_t i = from; i < stage->n; i++) \
		{ \
			smaller += images[i] < images[i - 1]; \
			equal += images[i] == images[i - 1]; \
		} \
	} while (0)

void
arrival_look(Stage *stage)
{
	Arrival    *arrival = &stage->arrival;
	const StageColumn *col = &stage->cols[0];
	size_t		from = Max(arrival->seen, 1);
	size_t		smaller = 0;
	size_t		equal = 0;

	arrival->seen = stage->n;
	if (from >= stage->n || arrival->ways == 0)
		return;
	if (unlikely(key_range_unplaced(col, &col->range)))
	{
		arrival->ways = 0;
		return;
	}
	if (col->wide)
		COUNT_STEPS(uint64);
	else
		COUNT_STEPS(uint32);
	if (col->nulls == NULL && equal == 0)
	{
		if (smaller > 0)
			arrival->ways &= ~ARRIVAL_UP;
		if (smaller < stage->n - from)
			arrival->ways &= ~ARRIVAL_DOWN;
		arrival->varied = true;
		return;
	}
	for (size_t i = from; i < stage->n && arrival->ways != 0; i++)
		look_at_row(stage, i);
}

/* ------------------------------------------------------------------------
 * Sort keys taken from heap tuples where they lie.
 *
 * One loop per column and kind, over all tuples of a page: what differs between
 * kinds is decided once per page, and a key costs a load, an image, two
 * comparisons for the range and a store.
 * ------------------------------------------------------------------------
 */

void
page_keys_init(PageKeys *keys, const Stage *stage, TupleDesc desc, const AttrNumber *atts)
{
	int			offset = 0;

	keys->last_att = 0;
	keys->fixed = true;
	for (int c = 0; c < stage->ncols; c++)
	{
		keys->att[c] = atts[stage->cols[c].att];
		keys->offset[c] = 0;
		keys->byval_len[c] = TupleDescAttr(desc, keys->att[c])->attbyval ?
			TupleDescAttr(desc, keys->att[c])->attlen : 0;
		keys->last_att = Max(keys->last_att, keys->att[c] + 1);
	}

	for (int att = 0; att < keys->last_att; att++)
	{
		Form_pg_attribute attr = TupleDescAttr(desc, att);

		/* a dropped column is NULL in newer tuples, and a value in older ones */
		if (attr->attlen <= 0)
		{
			keys->fixed = false;
			return;
		}
		offset = att_align_nominal(offset, attr->attalign);
		for (int c = 0; c < stage->ncols; c++)
		{
			if (keys->att[c] == att)
				keys->offset[c] = offset;
		}
		offset += attr->attlen;
	}
}

/* A column of count rows, each at its data, as rows from at on. */
#define STAGE_LOOP(kind, image_t) \
		case kind: \
		{ \
			image_t    *images = (image_t *) col->images + at; \
			const image_t flip = (image_t) col->flip; \
			image_t		min = (image_t) PG_UINT64_MAX; \
			image_t		max = 0; \
			for (int i = 0; i < count; i++) \
			{ \
				image_t		image = (image_t) \
					key_image_at(col, NO_KEY_MAKER, kind, flip, data[i] + offset, 0, NULL); \
				min = Min(min, image); \
				max = Max(max, image); \
				images[i] = image; \
			} \
			key_range_add(&col->range, min); \
			key_range_add(&col->range, max); \
			break; \
		}
#define STAGE_VALUES(kind, image, type, from_datum, make, back)	STAGE_LOOP(kind, image)
#define STAGE_PLACES(kind, image, make, words)	STAGE_LOOP(kind, image)
#define STAGE_CALLS(kind, image, make, words, exact) \
		case kind: stage_calls(stage, maker, col, kind, at, offset, byval_len, data, count); break;

/* A column whose images are made by a function. */
static pg_attribute_always_inline void
stage_calls(Stage *stage, KeyMaker maker, StageColumn *col, KeyKind kind, size_t at, int offset,
			int byval_len, const char *const *data, int count)
{
	KeyRange	seen;

	if (key_by_bytes(kind))
	{
		/* each may shorten the prefix, and so change what is known of those before it */
		for (int i = 0; i < count; i++)
			stage_value(stage, maker, col, at + i, page_datum(data[i] + offset, byval_len));
		return;
	}
	key_range_init(&seen);
	for (int i = 0; i < count; i++)
	{
		uint64		image = key_image_at(col, maker, kind, col->flip, data[i] + offset, byval_len,
										 &seen.inexact);

		key_range_add(&seen, image);
		key_range_add_bits(&seen, image);
		if (key_wide(kind))
			((uint64 *) col->images)[at + i] = image;
		else
			((uint32 *) col->images)[at + i] = (uint32) image;
	}
	key_range_union(&col->range, &seen);
}

static void
stage_column(Stage *stage, KeyMaker maker, StageColumn *col, size_t at, int offset, int byval_len,
			 const char *const *data, int count)
{
	switch (col->kind)
	{
		KEY_KINDS(STAGE_VALUES, STAGE_PLACES, STAGE_CALLS)
	}
}

void
page_keys_stage(const PageKeys *keys, Stage *stage, const StageWriter *writer, size_t at,
				const char *const *data, int count)
{
	if (count == 0)
		return;
	for (int c = 0; c < stage->ncols; c++)
	{
		StageColumn *col = &stage->cols[c];

		if (col->nulls != NULL)
			memset(col->nulls + at, 0, count);
		stage_column(stage, writer->makers[c], col, at, keys->offset[c], keys->byval_len[c], data,
					 count);
	}
}

void
page_keys_stage_column(const PageKeys *keys, Stage *stage, const StageWriter *writer, int c,
					   size_t at, const char *const *where, int count)
{
	StageColumn *col = &stage->cols[c];
	int			done = 0;

	if (col->nulls != NULL)
		memset(col->nulls + at, 0, count);
	for (int i = 0; i <= count; i++)
	{
		if (i < count && likely(where[i] != NULL))
			continue;
		if (i > done)
			stage_column(stage, writer->makers[c], col, at + done, 0, keys->byval_len[c], where + done,
						 i - done);
		if (i < count)
			stage_null(stage, writer->owner, col, at + i);
		done = i + 1;
	}
}

#define LEFT_LOOP(kind, image_t) \
		case kind: \
			for (int i = first; i < n; i++) \
			{ \
				bool		inexact; \
				left[nleft] = i; \
				nleft += where[i] == NULL || \
					key_image_at(col, maker, kind, (image_t) col->flip, where[i], byval_len, &inexact) <= image; \
			} \
			break;
#define LEFT_VALUES(kind, image, type, from_datum, make, back)	LEFT_LOOP(kind, image)
#define LEFT_PLACES(kind, image, make, words)	LEFT_LOOP(kind, image)
#define LEFT_CALLS(kind, image, make, words, exact)	LEFT_LOOP(kind, image)

int
page_keys_not_behind(const PageKeys *keys, const Stage *stage, const StageWriter *writer,
					 uint64 image, const char *const *where, int first, int n, uint16 *left)
{
	const StageColumn *col = &stage->cols[0];
	const KeyMaker maker = writer->makers[0];
	const int	byval_len = keys->byval_len[0];
	int			nleft = 0;

	switch (col->kind)
	{
		KEY_KINDS(LEFT_VALUES, LEFT_PLACES, LEFT_CALLS)
	}
	return nleft;
}
