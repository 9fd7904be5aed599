/*
 * page_keys.c
 *	  Keys read from heap tuples in place.
 *
 * There is one loop per column and key kind over all tuples of a page, so the kind is
 * decided once per page.
 */
#include "postgres.h"

#include "key/key_row.h"
#include "key/key_string.h"
#include "key/page_keys.h"

void
page_keys_init(PageKeys *keys, const KeyBuffer *keybuf, TupleDesc desc, const AttrNumber *atts)
{
	const TupleWalk *walk;

	keys->ncols = keybuf->ncols;
	for (int c = 0; c < keys->ncols; c++)
	{
		Form_pg_attribute attr;

		keys->att[c] = atts[keybuf->cols[c].att];
		attr = TupleDescAttr(desc, keys->att[c]);
		keys->byval_len[c] = attr->attbyval ? attr->attlen : 0;
	}
	walk = keys->walk = tuple_walk_create(desc, keys->att, keys->ncols, false);
	keys->fixed = walk != NULL && walk->nsteps > 0;
	for (int c = 0; keys->fixed && c < keys->ncols; c++)
	{
		const WalkColumn *col = &walk->cols[keys->att[c]];
		int			first_len = walk->steps[0].len;

		/*
		 * Behind columns of fixed width there may be a varlena, if its offset
		 * is aligned: then all its formats begin there.
		 */
		keys->offset[c] = col->step == 0 ? col->offset : first_len;
		keys->fixed = col->step == 0 ||
			(col->step == 1 && first_len > 0 && (first_len & col->align) == 0);
	}
}

/* Writes a column of rows [at, at + count). */
#define COLUMN_LOOP(kind, normkey_t, ...) \
		case kind: \
		{ \
			normkey_t    *normkeys = (normkey_t *) col->normkeys + at; \
			const normkey_t flip = (normkey_t) col->flip; \
			normkey_t		min = (normkey_t) PG_UINT64_MAX; \
			normkey_t		max = 0; \
			for (int i = 0; i < count; i++) \
			{ \
				normkey_t		normkey = (normkey_t) \
					normkey_at(col, NO_KEY_MAKER, kind, flip, data[i] + offset, 0, NULL); \
				min = Min(min, normkey); \
				max = Max(max, normkey); \
				normkeys[i] = normkey; \
			} \
			key_range_add(&col->range, min); \
			key_range_add(&col->range, max); \
			break; \
		}
#define COLUMN_COMPUTED(kind, normkey, make, words) \
		case kind: keybuf_column_computed(keybuf, maker, col, kind, at, offset, byval_len, data, count); break;

/*
 * Writes strings that are not toasted and have the prefix, up to count.  Returns their
 * number.
 */
static pg_attribute_always_inline int
string_keys(KeyBufferColumn *col, KeyKind kind, size_t at, int offset, const char *const *data, int count)
{
	uint64	   *normkeys = (uint64 *) col->normkeys + at;
	const BytesPrefix *prefix = &col->prefix;
	const uint64 flip = col->flip;
	KeyRange	seen;
	int			i = 0;

	if (unlikely(prefix->len < 0))
		return 0;
	key_range_init(&seen);
	for (; i < count; i++)
	{
		Datum		value = PointerGetDatum(data[i] + offset);
		bool		inexact = false;
		uint64		normkey;

		if (unlikely(string_is_toasted(kind, value)))
			break;
		normkey = string_normkey_behind(kind, prefix, string_of(kind, value), &inexact);
		/* the string may lack the prefix */
		if (prefix->len != 0 && unlikely(normkey == 0 || normkey == PG_UINT64_MAX))
			break;
		normkey ^= flip;
		seen.inexact |= inexact;
		key_range_add(&seen, normkey);
		key_range_add_bits(&seen, normkey);
		normkeys[i] = normkey;
	}
	key_range_union(&col->range, &seen);
	return i;
}

/* COLUMN_LOOP for computed kinds. */
static pg_attribute_always_inline void
keybuf_column_computed(KeyBuffer *keybuf, KeyMaker maker, KeyBufferColumn *col, KeyKind kind, size_t at, int offset,
					   int byval_len, const char *const *data, int count)
{
	KeyRange	seen;

	if (key_traits[kind].by_bytes)
	{
		for (int i = 0; i < count; i++)
		{
			i += string_keys(col, kind, at + i, offset, data + i, count - i);
			/* this string may set or shorten the prefix, which changes the range */
			if (i < count)
				keybuf_value(keybuf, maker, col, at + i, datum_at(data[i] + offset, byval_len));
		}
		return;
	}
	key_range_init(&seen);
	for (int i = 0; i < count; i++)
	{
		uint64		normkey = normkey_at(col, maker, kind, col->flip, data[i] + offset, byval_len,
										 &seen.inexact);

		key_range_add(&seen, normkey);
		key_range_add_bits(&seen, normkey);
		if (key_traits[kind].wide)
			((uint64 *) col->normkeys)[at + i] = normkey;
		else
			((uint32 *) col->normkeys)[at + i] = (uint32) normkey;
	}
	key_range_union(&col->range, &seen);
}

static void
keybuf_column(KeyBuffer *keybuf, KeyMaker maker, KeyBufferColumn *col, size_t at, int offset, int byval_len,
			  const char *const *data, int count)
{
	switch (col->kind)
	{
			KEY_KINDS(COLUMN_LOOP, COLUMN_LOOP, COLUMN_COMPUTED)
	}
}

void
page_keys_to_buffer(const PageKeys *keys, KeyBuffer *keybuf, const KeyWriter *writer, size_t at,
					const char *const *data, int count)
{
	if (count == 0)
		return;
	for (int c = 0; c < keybuf->ncols; c++)
	{
		KeyBufferColumn *col = &keybuf->cols[c];

		if (col->nulls != NULL)
			memset(col->nulls + at, 0, count);
		keybuf_column(keybuf, writer->makers[c], col, at, keys->offset[c], keys->byval_len[c], data,
					  count);
	}
}

void
page_keys_column_to_buffer(const PageKeys *keys, KeyBuffer *keybuf, const KeyWriter *writer, int c,
						   size_t at, const char *const *where, int count)
{
	KeyBufferColumn *col = &keybuf->cols[c];
	int			done = 0;

	if (col->nulls != NULL)
		memset(col->nulls + at, 0, count);
	for (int i = 0; i <= count; i++)
	{
		if (i < count && likely(where[i] != NULL))
			continue;
		if (i > done)
			keybuf_column(keybuf, writer->makers[c], col, at + done, 0, keys->byval_len[c], where + done,
						  i - done);
		if (i < count)
			keybuf_null(keybuf, writer->owner, col, at + i);
		done = i + 1;
	}
}

#define SELECT_LOOP(kind, normkey_t, ...) \
		case kind: \
			for (int i = first; i < n; i++) \
			{ \
				bool		inexact; \
				left[nleft] = i; \
				nleft += where[i] == NULL || \
					normkey_at(col, maker, kind, (normkey_t) col->flip, where[i], byval_len, &inexact) <= normkey; \
			} \
			break;

int
page_keys_select(const PageKeys *keys, const KeyBuffer *keybuf, const KeyWriter *writer,
				 uint64 normkey, const char *const *where, int first, int n, uint16 *left)
{
	const KeyBufferColumn *col = &keybuf->cols[0];
	const KeyMaker maker = writer->makers[0];
	const int	byval_len = keys->byval_len[0];
	int			nleft = 0;

	switch (col->kind)
	{
			KEY_KINDS(SELECT_LOOP, SELECT_LOOP, SELECT_LOOP)
	}
	return nleft;
}
