/*
 * page_keys.c
 *	  Sort keys taken from heap tuples where they lie.
 *
 * One loop per column and kind, over all tuples of a page: what differs between
 * kinds is decided once per page, and a key costs a load, an image, two
 * comparisons for the range and a store.
 */
#include "postgres.h"

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
