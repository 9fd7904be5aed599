/*
 * key_frame.c
 *	  What images of a sort's key columns are relative to, and where they lie.
 */
#include "postgres.h"

#include "key/key_frame.h"
#include "key/type/strings.h"

void
key_frame_init(KeyFrame *frame)
{
	memset(frame, 0, sizeof(*frame));
	for (int c = 0; c < STAGE_MAX_COLUMNS; c++)
		key_range_init(&frame->ranges[c]);
}

static inline bool
has_values(const KeyRange *range)
{
	return range->min <= range->max;
}

void
key_frame_of_stage(KeyFrame *frame, const Stage *stage)
{
	for (int c = 0; c < stage->ncols; c++)
	{
		const StageColumn *col = &stage->cols[c];

		frame->prefixes[c] = col->prefix;
		if (col->by_bytes && has_values(&frame->ranges[c]))
			string_give_up_prefix(col, &frame->ranges[c], &frame->prefixes[c]);
		/* which values have no image depends on which came first, and so on the process */
		if (key_range_unplaced(col, &frame->ranges[c]))
			key_range_give_up(&frame->ranges[c]);
	}
}

/* Two columns of strings: both behind the prefix that they have in common. */
static void
unite_prefixes(const StageColumn *like, KeyRange *a, BytesPrefix *ap,
			   KeyRange *b, const BytesPrefix *bp)
{
	StageColumn col = *like;
	int			common = (int) bytes_common((const char *) ap->bytes, ap->len,
											(const char *) bp->bytes, bp->len);

	col.prefix = *ap;
	string_shift_range(&col, ap->len, common, a);
	col.prefix = *bp;
	string_shift_range(&col, bp->len, common, b);
	ap->len = common;
}

void
key_frame_unite(KeyFrame *frame, const KeyFrame *other, const Stage *stage)
{
	for (int c = 0; c < stage->ncols; c++)
	{
		const StageColumn *col = &stage->cols[c];
		KeyRange	range = other->ranges[c];

		if (col->by_bytes && has_values(&range))
		{
			if (has_values(&frame->ranges[c]))
				unite_prefixes(col, &frame->ranges[c], &frame->prefixes[c],
							   &range, &other->prefixes[c]);
			else
				frame->prefixes[c] = other->prefixes[c];
		}
		key_range_union(&frame->ranges[c], &range);
	}
}

void
key_frame_apply(const KeyFrame *frame, Stage *stage)
{
	for (int c = 0; c < stage->ncols; c++)
	{
		if (stage->cols[c].by_bytes && has_values(&frame->ranges[c]))
			stage->cols[c].prefix = frame->prefixes[c];
	}
	stage_freeze(stage);
}

bool
key_frame_holds(const KeyFrame *frame, const Stage *stage)
{
	for (int c = 0; c < stage->ncols; c++)
	{
		const KeyRange *have = &stage->cols[c].range;
		const KeyRange *told = &frame->ranges[c];

		if (has_values(have) &&
			(have->min < told->min || have->max > told->max ||
			 (have->inexact && !told->inexact) ||
			 (stage->cols[c].called &&
			  ((have->set & ~told->set) != 0 || (told->common & ~have->common) != 0))))
			return false;
		if (have->has_null && !told->has_null)
			return false;
	}
	return true;
}
