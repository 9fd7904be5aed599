/*
 * stage.c
 *	  Sort keys as they come in: memory of the staged columns.
 *
 * Memory policy: arrays double, from a few rows; the flags of NULLs exist only
 * in columns that have met one.
 */
#include "postgres.h"

#include "key/stage.h"

#define STAGE_FIRST_ROWS	64

static void
add_column(Stage *stage, const KeyColumn *key, KeyKind kind)
{
	StageColumn *col = &stage->cols[stage->ncols++];

	col->kind = kind;
	col->att = key->attno - 1;
	col->wide = key_wide(kind);
	col->nulls_first = key->nulls_first;
	col->flip = key->descending ? ~UINT64_C(0) : 0;
	key_range_init(&col->range);
	stage->row_bytes += col->wide ? sizeof(uint64) : sizeof(uint32);
}

void
stage_init(Stage *stage, BulkOwner *owner, const KeyColumn *keys, int nkeys,
		   bool has_rids)
{
	int			bits = 0;
	bool		exact = true;

	stage->owner = owner;
	stage->has_rids = has_rids;
	stage->row_bytes = has_rids ? sizeof(uint32) : 0;

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
stage_reserve(Stage *stage, size_t n)
{
	size_t		capacity = Max(STAGE_FIRST_ROWS, stage->capacity);

	if (n <= stage->capacity)
		return;
	while (capacity < n)
		capacity *= 2;

	for (int c = 0; c < stage->ncols; c++)
	{
		StageColumn *col = &stage->cols[c];
		Size		width = col->wide ? sizeof(uint64) : sizeof(uint32);

		bulk_reserve(stage->owner, &col->images_buf, capacity * width, stage->n * width);
		col->images = col->images_buf.ptr;
		if (col->nulls != NULL)
		{
			bulk_reserve(stage->owner, &col->nulls_buf, capacity, stage->n);
			col->nulls = col->nulls_buf.ptr;
			memset(col->nulls + stage->n, 0, capacity - stage->n);
		}
	}
	if (stage->has_rids)
	{
		bulk_reserve(stage->owner, &stage->rids_buf, capacity * sizeof(uint32),
					 stage->n * sizeof(uint32));
		stage->rids = stage->rids_buf.ptr;
	}
	stage->capacity = capacity;
}

void
stage_null(Stage *stage, StageColumn *col, size_t i)
{
	if (col->nulls == NULL)
	{
		bulk_reserve(stage->owner, &col->nulls_buf, stage->capacity, 0);
		col->nulls = col->nulls_buf.ptr;
		memset(col->nulls, 0, stage->capacity);
	}
	col->nulls[i] = 1;
	col->range.has_null = true;
	/* a defined value, so that packing need not ask before it reads */
	if (col->wide)
		((uint64 *) col->images)[i] = 0;
	else
		((uint32 *) col->images)[i] = 0;
}

void
stage_reset(Stage *stage)
{
	stage->n = 0;
	for (int c = 0; c < stage->ncols; c++)
	{
		StageColumn *col = &stage->cols[c];

		key_range_init(&col->range);
		if (col->nulls != NULL)
			memset(col->nulls, 0, stage->capacity);
	}
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
stage_free(Stage *stage)
{
	for (int c = 0; c < stage->ncols; c++)
	{
		StageColumn *col = &stage->cols[c];

		bulk_free(stage->owner, &col->images_buf);
		bulk_free(stage->owner, &col->nulls_buf);
		col->images = NULL;
		col->nulls = NULL;
	}
	bulk_free(stage->owner, &stage->rids_buf);
	stage->rids = NULL;
	stage->capacity = 0;
	stage->n = 0;
}
