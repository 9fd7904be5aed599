/*
 * page_keys.c
 *	  Sort keys taken from heap tuples where they lie.
 *
 * One loop per column and kind, over all tuples of a page: what differs between
 * kinds is decided once per page, and a key costs a load, an image, two
 * comparisons for the range and a store.
 */
#include "postgres.h"

#include "access/tupmacs.h"
#include "key/page_keys.h"

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

#define STAGE_LOOP(kind, type) \
	for (int i = 0; i < count; i++) \
	{ \
		type image = (type) key_image_at(kind, flip, data[i] + offset); \
		min = Min(min, image); \
		max = Max(max, image); \
		images[i] = image; \
	}

#define STAGE_NARROW(kind) \
	case kind: \
		STAGE_LOOP(kind, uint32); \
		break

#define STAGE_WIDE(kind) \
	case kind: \
		STAGE_LOOP(kind, uint64); \
		break

static void
stage_narrow(StageColumn *col, size_t at, int offset, const char *const *data, int count)
{
	uint32	   *images = (uint32 *) col->images + at;
	uint32		flip = (uint32) col->flip;
	uint32		min = PG_UINT32_MAX;
	uint32		max = 0;

	switch (col->kind)
	{
			STAGE_NARROW(KEY_INT4);
			STAGE_NARROW(KEY_FLOAT4);
			STAGE_NARROW(KEY_INT2);
			STAGE_NARROW(KEY_UINT4);
			STAGE_NARROW(KEY_UINT8);
		case KEY_INT8:
		case KEY_FLOAT8:
			pg_unreachable();
	}
	key_range_add(&col->range, min);
	key_range_add(&col->range, max);
}

static void
stage_wide(StageColumn *col, size_t at, int offset, const char *const *data, int count)
{
	uint64	   *images = (uint64 *) col->images + at;
	uint64		flip = col->flip;
	uint64		min = PG_UINT64_MAX;
	uint64		max = 0;

	switch (col->kind)
	{
			STAGE_WIDE(KEY_INT8);
			STAGE_WIDE(KEY_FLOAT8);
		default:
			pg_unreachable();
	}
	key_range_add(&col->range, min);
	key_range_add(&col->range, max);
}

void
page_keys_stage(const PageKeys *keys, Stage *stage, size_t at, const char *const *data,
				int count)
{
	if (count == 0)
		return;
	for (int c = 0; c < stage->ncols; c++)
	{
		StageColumn *col = &stage->cols[c];

		if (col->nulls != NULL)
			memset(col->nulls + at, 0, count);
		if (col->wide)
			stage_wide(col, at, keys->offset[c], data, count);
		else
			stage_narrow(col, at, keys->offset[c], data, count);
	}
}

void
page_keys_stage_values(const PageKeys *keys, Stage *stage, size_t i, const Datum *values,
					   const bool *isnull)
{
	for (int c = 0; c < stage->ncols; c++)
	{
		StageColumn *col = &stage->cols[c];

		if (col->nulls != NULL)
			col->nulls[i] = 0;
		stage_image(stage, col, i, values[keys->att[c]], isnull[keys->att[c]]);
	}
}
