/*
 * even.c
 *	  float8 keys spread evenly over fewer bits than their images have.
 */
#include "postgres.h"

#include <math.h>

#include "key/even.h"
#include "key/pack.h"
#include "port/pg_bitutils.h"

/* Fewer rows have hardly any ties; a smaller share of a word tells too little. */
#define EVEN_MIN_ROWS	65536
#define EVEN_MIN_BITS	24

/* So many values, each at one of 2^16 places, tell whether it pays. */
#define SAMPLE_SIZE		256
#define PLACE_BITS		16

/* Of the numbers, these are left to NULLs and to rounding. */
#define EVEN_SPARE		8

typedef struct Places
{
	uint64		seen[(1 << PLACE_BITS) / 64];
	int			shared;			/* values at a place that had one */
} Places;

/* The value of image_float8(). */
static inline double
value_of(uint64 image)
{
	/* it was positive if the uppermost bit is set */
	uint64		positive = (uint64) ((int64) image >> 63);
	uint64		bits = image ^ (~positive | IMAGE_SIGN64);
	double		value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

static inline uint64
even_number(const EvenScale *scale, uint64 image)
{
	return (uint64) (int64) ((value_of(image ^ scale->flip) - scale->from) * scale->steps);
}

void
even_numbers(const EvenScale *scale, const StageColumn *col, size_t start, int count,
			 uint64 *numbers)
{
	const uint64 *images = (const uint64 *) col->images + start;

	if (col->nulls != NULL)
	{
		const uint8 *nulls = col->nulls + start;

		for (int i = 0; i < count; i++)
			numbers[i] = nulls[i] ? 0 : even_number(scale, images[i]);
	}
	else
	{
		for (int i = 0; i < count; i++)
			numbers[i] = even_number(scale, images[i]);
	}
}

static void
put_at(Places *places, uint64 place)
{
	uint64	   *word = &places->seen[place / 64];
	uint64		bit = UINT64CONST(1) << (place % 64);

	places->shared += (*word & bit) != 0;
	*word |= bit;
}

/* Does the scale, whose numbers have so many bits, tell values apart that images do not? */
static bool
scale_pays(const EvenScale *scale, const StageColumn *col, size_t n, int bits)
{
	int			image_bits = 1 + pg_leftmost_one_pos64(col->range.max - col->range.min);
	Places		by_image = {0};
	Places		by_number = {0};

	for (size_t i = 0; i < SAMPLE_SIZE; i++)
	{
		size_t		row = i * (n / SAMPLE_SIZE);
		uint64		image = ((const uint64 *) col->images)[row];

		if (col->nulls != NULL && col->nulls[row])
			continue;
		put_at(&by_image, (image - col->range.min) >> (image_bits - PLACE_BITS));
		put_at(&by_number, even_number(scale, image) >> (bits - PLACE_BITS));
	}
	return by_number.shared + SAMPLE_SIZE / 16 < by_image.shared;
}

/* A scale of so many bits for the column's n images, if it pays. */
static bool
make_scale(EvenScale *scale, const StageColumn *col, size_t n, int bits)
{
	double		last = value_of(col->range.max ^ col->flip);

	scale->flip = col->flip;
	scale->from = value_of(col->range.min ^ col->flip);
	scale->steps = ((UINT64CONST(1) << bits) - EVEN_SPARE) / (last - scale->from);
	/* infinities and NaNs are at an end of the range; a difference may be too large or small */
	return isfinite(last - scale->from) && isfinite(scale->steps) && scale_pays(scale, col, n, bits);
}

bool
even_layout(KeyLayout *even, const KeyLayout *layout, const Stage *stage, int bits)
{
	int			room = bits;
	int			c = 0;
	LayoutColumn *lc;

	if (stage->n < EVEN_MIN_ROWS)
		return false;
	while (c < layout->ncols && layout->cols[c].bits <= room)
		room -= layout->cols[c++].bits;
	if (c == layout->ncols || stage->cols[c].kind != KEY_FLOAT8 || room < EVEN_MIN_BITS)
		return false;

	*even = *layout;
	lc = &even->cols[c];
	if (!make_scale(&lc->even, &stage->cols[c], stage->n, room))
		return false;
	lc->base = 0;
	lc->bits = room;
	if (lc->null_value != 0)
		lc->null_value = (UINT64CONST(1) << room) - 1;
	even->ncols = c + 1;
	even->total_bits = bits;
	even->may_be_exact = even->exact = false;
	return true;
}
