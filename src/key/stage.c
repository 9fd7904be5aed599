/*
 * stage.c
 *	  Sort keys as they come in: memory of the staged columns.
 *
 * Memory policy: arrays grow from a few rows with what came.  An estimate of what
 * will come only makes the steps longer, for it may be wrong by any factor.  The
 * flags of NULLs exist only in columns that have met one; those of rows not
 * staged yet are clear, and only those of rows that were are ever cleared.
 */
#include "postgres.h"

#include "key/type/key_maker.h"
#include "key/type/strings.h"

#define STAGE_FIRST_ROWS	64

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

bool
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
