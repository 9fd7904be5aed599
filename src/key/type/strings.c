/*
 * strings.c
 *	  Keys that are strings of bytes: text, varchar, char(n), name, bytea.
 *
 * For collations that compare by bytes (collation.c), and for bytea.  The image of
 * bytes.h, and the prefix that goes with it: the first string of a sort is its first
 * prefix, and whoever has less in common with it shortens it.  'customer#1234' so
 * does not spend its key on 'customer#'.
 *
 * Shortening it late means touching all images.  From SHORTEN_LATE rows on it is
 * shortened to its half at least, so that this happens six times at the most.
 *
 * A toasted value is fetched as far as its image goes, and no further; a char(n)
 * wholly, for its trailing blanks do not count.
 */
#include "postgres.h"

#include "access/detoast.h"
#include "fmgr.h"
#include "key/type/strings.h"
#include "miscadmin.h"

#define SHORTEN_LATE	4096

/* A value's bytes, as many as matter behind a prefix; and what to free, or NULL. */
static KeyString
string_open(KeyKind kind, Datum value, int prefix_len, void **copy)
{
	struct varlena *whole = (struct varlena *) DatumGetPointer(value);

	*copy = NULL;
	if (unlikely(string_is_toasted(kind, value)))
	{
		CHECK_FOR_INTERRUPTS();
		*copy = kind == KEY_BPCHAR ? detoast_attr(whole) :
			detoast_attr_slice(whole, 0, Max(prefix_len, BYTES_PREFIX_MAX) + BYTES_WORD + 1);
		value = PointerGetDatum(*copy);
	}
	return string_of(kind, value);
}

static inline uint64
image_of(const StageColumn *col, KeyString s, bool *inexact)
{
	/* a zero of its own at the end is no end */
	if (col->kind == KEY_BYTEA && s.len > 0 && s.p[s.len - 1] == '\0')
		*inexact = true;
	return bytes_image(&col->prefix, s.p, s.len, inexact);
}

uint64
string_image(const StageColumn *col, KeyMaker maker, Datum value, bool *inexact)
{
	void	   *copy;
	KeyString	s = string_open(col->kind, value, col->prefix.len, &copy);
	uint64		image = image_of(col, s, inexact);

	if (unlikely(copy != NULL))
		pfree(copy);
	return image;
}

bool
string_has_prefix(const StageColumn *col, Datum value)
{
	const BytesPrefix *prefix = &col->prefix;
	size_t		len = Max(prefix->len, 0);
	void	   *copy;
	KeyString	s = string_open(col->kind, value, prefix->len, &copy);
	bool		has = s.len >= len && memcmp(s.p, prefix->bytes, len) == 0;

	if (copy != NULL)
		pfree(copy);
	return has;
}

/* DESC images are complements, and so are their bytes. */
static inline uint64
shift_image(const StageColumn *col, int from, int to, uint64 image)
{
	return bytes_shift(&col->prefix, from, to, image ^ col->flip) ^ col->flip;
}

void
string_shift_range(const StageColumn *col, int from, int to, KeyRange *range)
{
	if (from == to || range->min > range->max)
		return;
	/* each bit of an image is one of the old image, or the prefix's */
	range->inexact |= bytes_shift_loses(from, to, col->flip != 0 ? ~range->common : range->set);
	range->min = shift_image(col, from, to, range->min);
	range->max = shift_image(col, from, to, range->max);
	range->set = shift_image(col, from, to, range->set);
	range->common = shift_image(col, from, to, range->common);
}

void
string_give_up_prefix(const StageColumn *col, KeyRange *range, BytesPrefix *prefix)
{
	bool		before = range->min == 0;
	bool		behind = range->max == PG_UINT64_MAX;

	if (!prefix->frozen || prefix->len == 0 || !(before || behind))
		return;
	string_shift_range(col, prefix->len, 0, range);
	range->min = before ? 0 : range->min;
	range->max = behind ? PG_UINT64_MAX : range->max;
	range->inexact = true;
	range->set = PG_UINT64_MAX;
	range->common = 0;
	prefix->len = 0;
}

static void
shorten_prefix(StageColumn *col, size_t rows, int len)
{
	uint64	   *images = col->images;
	int			from = col->prefix.len;

	if (rows > SHORTEN_LATE)
		len = Min(len, from / 2);
	for (size_t i = 0; i < rows; i++)
		images[i] = shift_image(col, from, len, images[i]);
	string_shift_range(col, from, len, &col->range);
	col->prefix.len = len;
}

uint64
string_stage(Stage *stage, StageColumn *col, size_t i, Datum value, bool *inexact)
{
	BytesPrefix *prefix = &col->prefix;
	void	   *copy;
	KeyString	s = string_open(col->kind, value, prefix->len, &copy);
	uint64		image;

	if (prefix->len < 0)
	{
		prefix->len = Min(s.len, BYTES_PREFIX_MAX);
		memcpy(prefix->bytes, s.p, prefix->len);
	}
	else if (!prefix->frozen)
	{
		int			common = bytes_common(s.p, s.len, (const char *) prefix->bytes, prefix->len);

		if (common < prefix->len)
			shorten_prefix(col, i, common);
	}
	*inexact = false;
	image = image_of(col, s, inexact);
	if (copy != NULL)
		pfree(copy);
	return image ^ col->flip;
}
