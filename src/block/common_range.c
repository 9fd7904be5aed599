/*
 * common_range.c
 *	  The range that contains the keys of several processes.
 *
 * Keys are packed as distances from the least key, and strings behind their common prefix.  So keys of several
 * processes compare only if all of them pack their keys for one range.
 *
 * Memory: the range is allocated in the current memory context.
 */
#include "postgres.h"

#include "block/block.h"
#include "key/key.h"

static inline bool
has_values(const KeyRange *range)
{
	return range->min <= range->max;
}

/* Shortens the prefixes of two string columns to their common prefix. */
static void
unite_prefixes(const KeyBufferColumn *like, KeyRange *a, BytesPrefix *ap,
			   KeyRange *b, const BytesPrefix *bp)
{
	KeyBufferColumn col = *like;
	int			common = (int) bytes_common((const char *) ap->bytes, ap->len,
											(const char *) bp->bytes, bp->len);

	col.prefix = *ap;
	string_shift_range(&col, ap->len, common, a);
	col.prefix = *bp;
	string_shift_range(&col, bp->len, common, b);
	ap->len = common;
}

/* Widens a common key range by another one.  keybuf tells the columns of both. */
static void
common_range_unite(CommonKeyRange *common_range, const CommonKeyRange *other, const KeyBuffer *keybuf)
{
	for (int c = 0; c < keybuf->ncols; c++)
	{
		const KeyBufferColumn *col = &keybuf->cols[c];
		KeyRange	range = other->ranges[c];

		if (col->by_bytes && has_values(&range))
		{
			if (has_values(&common_range->ranges[c]))
				unite_prefixes(col, &common_range->ranges[c], &common_range->prefixes[c],
							   &range, &other->prefixes[c]);
			else
				common_range->prefixes[c] = other->prefixes[c];
		}
		key_range_union(&common_range->ranges[c], &range);
	}
}

CommonKeyRange *
common_key_range(const CommonKeyRange **ranges, int n, const KeyColumn *keys, int nkeys)
{
	CommonKeyRange *common_range = palloc0(sizeof(CommonKeyRange));
	KeyBuffer  *keybuf = palloc0(sizeof(KeyBuffer));

	/* holds no rows: it only has the kinds of the key columns */
	keybuf_init(keybuf, keys, nkeys, true);
	for (int c = 0; c < KEY_MAX_COLUMNS; c++)
		key_range_init(&common_range->ranges[c]);
	for (int i = 0; i < n; i++)
		common_range_unite(common_range, ranges[i], keybuf);
	pfree(keybuf);
	return common_range;
}
