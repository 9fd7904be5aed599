/*
 * stage.h
 *	  Sort keys as they come in: one array of images per key column.
 *
 * An image of 128 bits takes two columns of the stage, one beside the other; both
 * are NULL where the value is.
 *
 * While rows arrive nothing is known of the keys' ranges, so the images are
 * staged by column at their natural width (4 or 8 bytes), beside the rows' rids,
 * and each column's smallest and largest image and whether it has a NULL are
 * noted.  When all rows are there, pack.c folds the columns into one key of just
 * the bits that these ranges need.
 */
#ifndef GPUSORT_STAGE_H
#define GPUSORT_STAGE_H

#include "postgres.h"

#include "key/arrival.h"
#include "key/type/bytes.h"
#include "key/type/image.h"
#include "key/type/keytype.h"
#include "port/pg_bitutils.h"
#include "store/bulk.h"

/*
 * Columns are staged until they have this many bits: what lies beyond could
 * only matter if narrowing saved a third of them; a comparison settles it then.
 */
#define STAGE_MAX_BITS		192
#define STAGE_MAX_COLUMNS	12

/* What is known of a column's images. */
typedef struct KeyRange
{
	uint64		min;			/* min > max: no value that is not NULL */
	uint64		max;
	bool		has_null;
	bool		inexact;		/* equal ones may be of different values */
	int			skip;			/* of ranges united: bytes of the prefix that they are behind */
	uint64		set;			/* of images made by a function: bits set in any ... */
	uint64		common;			/* ... and in all */
	uint64		parts;			/* key_maker_parts() of the process that made them; 0: any */
} KeyRange;

typedef struct StageColumn
{
	KeyKind		kind;
	int			att;			/* column of the input row, from 0 */
	bool		wide;			/* 8-byte images, otherwise 4 */
	bool		nulls_first;
	bool		called;			/* its images are made by a function */
	bool		by_bytes;		/* ... and stand behind the prefix */
	uint64		flip;			/* all ones for a descending column */
	BytesPrefix prefix;
	KeyRange	range;
	void	   *images;			/* uint32 or uint64, one per row */
	uint8	   *nulls;			/* 1 where NULL; NULL until the first one */
	BulkBuf		images_buf;
	BulkBuf		nulls_buf;
} StageColumn;

typedef struct Stage
{
	int			ncols;
	bool		complete;		/* every key column is staged */
	bool		exact;			/* ... and no image is ever inexact */
	int			last_att;		/* attributes of the input row that are needed */
	int			row_bytes;		/* staged bytes per row */
	size_t		n;
	size_t		capacity;
	Size		bytes;			/* of all arrays, at their capacity */
	Arrival		arrival;		/* the order in which the n rows came */
	bool		keys_only;		/* rows are their keys, and have no rids */
	uint32	   *rids;			/* NULL if keys_only */
	BulkBuf		rids_buf;
	StageColumn cols[STAGE_MAX_COLUMNS];
} Stage;

/* What the one who writes a stage brings along; who reads it needs none of this. */
typedef struct StageWriter
{
	BulkOwner  *owner;			/* of the stage's arrays */
	KeyMaker	makers[STAGE_MAX_COLUMNS];	/* of its images */
} StageWriter;

/* Sets up a zeroed stage for the leading key columns. */
extern void stage_init(Stage *stage, const KeyColumn *keys, int nkeys, bool keys_only);

/* A writer of this stage, and of any of the same keys; what it makes images with is cxt's. */
extern void stage_writer_init(StageWriter *writer, MemoryContext cxt, BulkOwner *owner, const Stage *stage,
							  const KeyColumn *keys);

/* Rows of another sort will come. */
extern void stage_begin(Stage *stage);

/* Room for at least n rows in all. */
extern void stage_reserve(Stage *stage, BulkOwner *owner, size_t n);

/*
 * The same, and for some of those that will follow: as many as came so far, or up
 * to eight times as many if that many are expected, but most at the most.
 */
extern void stage_grow(Stage *stage, BulkOwner *owner, size_t n, size_t expected, size_t most);

/* Some rows stay, in their order: forgets the ranges, */
extern void stage_keep_begin(Stage *stage);

/* then row i becomes row to <= i, */
extern void stage_keep(Stage *stage, size_t i, size_t to, uint32 rid);

/* and in the end n are left. */
extern void stage_keep_end(Stage *stage, size_t n);

/* Forgets the rows and the ranges, keeps the memory; the same sort goes on. */
extern void stage_reset(Stage *stage);

/*
 * From here on the sort's images are compared with some that are not in the stage, so
 * that prefixes must stay: strings without them get the smallest or largest image.
 */
extern void stage_freeze(Stage *stage);

/* Unites the staged rows' ranges with those of the sort's earlier rows. */
extern void stage_unite_ranges(const Stage *stage, KeyRange *ranges);

/* Rows [0, n) were staged, but not counted, and are not needed any more. */
extern void stage_forget(Stage *stage, size_t n);

/* Gives the memory back; ranges stay. */
extern void stage_free(Stage *stage, BulkOwner *owner);

/* Row i's column is NULL; its first NULL allocates the flags. */
extern void stage_null(Stage *stage, BulkOwner *owner, StageColumn *col, size_t i);

static inline void
key_range_init(KeyRange *range)
{
	range->min = PG_UINT64_MAX;
	range->max = 0;
	range->has_null = false;
	range->inexact = false;
	range->skip = 0;
	range->set = 0;
	range->common = PG_UINT64_MAX;
	range->parts = 0;
}

static inline void
key_range_add(KeyRange *range, uint64 image)
{
	if (image < range->min)
		range->min = image;
	if (image > range->max)
		range->max = image;
}

static inline void
key_range_add_bits(KeyRange *range, uint64 image)
{
	range->set |= image;
	range->common &= image;
}

/*
 * Nothing is known of the images: in either direction they are key_range_unplaced(), and every
 * image lies within the range.
 */
static inline void
key_range_give_up(KeyRange *range)
{
	range->min = 0;
	range->max = PG_UINT64_MAX;
	range->inexact = true;
	range->set = PG_UINT64_MAX;
	range->common = 0;
}

static inline void
key_range_union(KeyRange *range, const KeyRange *other)
{
	range->min = Min(range->min, other->min);
	range->max = Max(range->max, other->max);
	range->has_null |= other->has_null;
	range->inexact |= other->inexact;
	range->set |= other->set;
	range->common &= other->common;
	if (unlikely(other->parts != 0 && range->parts != other->parts))
	{
		if (range->parts != 0)
			key_range_give_up(range);
		range->parts = other->parts;
	}
}

/* Does this image, direction folded in, say that its value has none? */
static inline bool
key_image_unplaced(const StageColumn *col, uint64 image)
{
	return key_may_be_unplaced(col->kind) &&
		image == (key_wide(col->kind) ? PG_UINT64_MAX ^ col->flip : (uint32) (PG_UINT32_MAX ^ col->flip));
}

/* Has a value of the range no normalized key?  Then none of the column's decides anything. */
static inline bool
key_range_unplaced(const StageColumn *col, const KeyRange *range)
{
	return key_may_be_unplaced(col->kind) && range->min <= range->max &&
		(col->flip != 0 ? range->min == 0 : range->max >= key_unplaced(col->kind));
}

/* Row i's staged image; of no meaning for a NULL. */
static inline uint64
stage_image_at(const StageColumn *col, size_t i)
{
	return col->wide ? ((const uint64 *) col->images)[i] : ((const uint32 *) col->images)[i];
}

/*
 * A datum's image, direction folded in, made with the column's maker.  Sets *inexact if it
 * is that (traits.h), and leaves it alone otherwise.
 */
static inline uint64
key_image(const StageColumn *col, KeyMaker maker, Datum datum, bool *inexact)
{
	switch (col->kind)
	{
#define VALUE_IMAGE(kind, image, type, from_datum, make, back) \
		case kind: return (image) (make(from_datum(datum)) ^ col->flip);
#define PLACE_IMAGE(kind, image, make, words) \
		case kind: return (image) (make((const char *) DatumGetPointer(datum)) ^ col->flip);
#define CALL_IMAGE(kind, image, make, words, exact) \
		case kind: return (image) (make(col, maker, datum, inexact) ^ col->flip);
		KEY_KINDS(VALUE_IMAGE, PLACE_IMAGE, CALL_IMAGE)
	}
	pg_unreachable();
}

/*
 * *cmp is < 0, 0 or > 0 as staged row i goes before, with or after row j; false if images
 * do not tell.
 */
extern bool stage_compare(const Stage *stage, size_t i, size_t j, int *cmp);

/* Bits that the rids of its rows take; there are some. */
static inline int
stage_rid_bits(const Stage *stage)
{
	uint32		last = stage->rids[stage->n - 1];

	return last == 0 ? 0 : 1 + pg_leftmost_one_pos32(last);
}

/* The next n rows have been staged. */
static inline void
stage_count(Stage *stage, size_t n)
{
	stage->n += n;
	if (unlikely(stage->arrival.ways != 0) && stage->n - stage->arrival.seen >= ARRIVAL_ROWS)
		arrival_look(stage);
}

/* A value's image for row i, where a function makes it. */
extern uint64 stage_called(Stage *stage, KeyMaker maker, StageColumn *col, size_t i, Datum value);

/* Stages a column of row i that is not NULL. */
static inline void
stage_value(Stage *stage, KeyMaker maker, StageColumn *col, size_t i, Datum value)
{
	uint64		image;

	if (col->called)
		image = stage_called(stage, maker, col, i, value);
	else
		image = key_image(col, NO_KEY_MAKER, value, NULL);
	key_range_add(&col->range, image);
	if (col->wide)
		((uint64 *) col->images)[i] = image;
	else
		((uint32 *) col->images)[i] = (uint32) image;
}

/* Stages one row's keys.  The caller has made sure of room. */
static inline void
stage_row(Stage *stage, const StageWriter *writer, const Datum *values, const bool *isnull, uint32 rid)
{
	size_t		i = stage->n;

	Assert(i < stage->capacity);
	for (int c = 0; c < stage->ncols; c++)
	{
		StageColumn *col = &stage->cols[c];

		if (unlikely(isnull[col->att]))
			stage_null(stage, writer->owner, col, i);
		else
			stage_value(stage, writer->makers[c], col, i, values[col->att]);
	}
	if (stage->rids != NULL)
		stage->rids[i] = rid;
	stage_count(stage, 1);
}

#endif							/* GPUSORT_STAGE_H */
