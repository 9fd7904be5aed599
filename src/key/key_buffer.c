/*
 * key_buffer.c
 *	  Key buffer: one array of normalized keys per key column.
 *
 * Rows come from an executor slot one by one (key_row.h), or from heap pages
 * (page_keys.c).
 *
 * The key buffer also notices presorted input, because tables are often read in the
 * order in which they were filled.  As long as all rows ascend or descend, normalized
 * keys are compared while they are in the cache.  The first row that fits neither order
 * ends this, so unordered input costs one test per page.  The order found is one of
 * rows, so it stays valid when normalized keys are shifted.  Columns are compared one
 * after the other.  If all normalized keys are equal and one of them is inexact, the
 * order is unknown.  Equal rows are ascending, but not descending, because equal rows
 * must keep their order.
 *
 * Memory policy: arrays start small and double.  An estimate of the number of rows only
 * makes the steps larger, because it may be wrong by any factor.  A column has NULL
 * flags only if it has had a NULL.  The flags of rows that have not been written are
 * clear; resetting clears only the flags of written rows.
 */
#include "postgres.h"

#include "key/key_internal.h"
#include "key/key_string.h"

#define KEYBUF_FIRST_ROWS	64

static void
add_column(KeyBuffer *keybuf, const KeyColumn *key, KeyKind kind)
{
	KeyBufferColumn *col = &keybuf->cols[keybuf->ncols++];

	col->kind = kind;
	col->att = key->attno - 1;
	col->wide = key_traits[kind].wide;
	col->computed = key_traits[kind].computed;
	col->by_bytes = key_traits[kind].by_bytes;
	col->nulls_first = key->nulls_first;
	col->flip = key->descending ? ~UINT64_C(0) : 0;
	key_range_init(&col->range);
	keybuf->row_bytes += col->wide ? sizeof(uint64) : sizeof(uint32);
}

void
keybuf_init(KeyBuffer *keybuf, const KeyColumn *keys, int nkeys, bool keys_only)
{
	int			bits = 0;
	bool		exact = true;

	keybuf->keys_only = keys_only;
	keybuf->row_bytes = keys_only ? 0 : sizeof(uint32);

	for (int k = 0; k < nkeys; k++)
		keybuf->last_att = Max(keybuf->last_att, keys[k].attno);

	for (int k = 0; k < nkeys; k++)
	{
		for (int word = 0; word < key_traits[keys[k].kind].words; word++)
		{
			KeyKind		kind = keys[k].kind + word;

			if (bits >= KEYBUF_MAX_BITS || keybuf->ncols == KEY_MAX_COLUMNS)
				return;
			add_column(keybuf, &keys[k], kind);
			bits += key_traits[kind].wide ? 64 : 32;
			exact &= !key_traits[kind].computed;
		}
	}
	keybuf->complete = true;
	keybuf->exact = exact;
}

void
keybuf_writer_init(KeyWriter *writer, MemoryContext cxt, BulkOwner *owner, const KeyBuffer *keybuf,
				   const KeyColumn *keys)
{
	int			c = 0;

	writer->owner = owner;
	for (int k = 0; c < keybuf->ncols; k++)
	{
		for (int word = 0; word < key_traits[keys[k].kind].words && c < keybuf->ncols; word++, c++)
			writer->makers[c] = key_maker_create(cxt, &keys[k], keybuf->cols[c].kind);
	}
}

/* Any order is possible for no rows. */
static void
input_order_begin(KeyBuffer *keybuf)
{
	keybuf->input_order.possible = keybuf->ncols > 0 ? INPUT_ASCENDING | INPUT_DESCENDING : 0;
	keybuf->input_order.varied = false;
	keybuf->input_order.seen = 0;
}

void
keybuf_reserve(KeyBuffer *keybuf, BulkOwner *owner, size_t n)
{
	if (n <= keybuf->capacity)
		return;

	keybuf->bytes = n * keybuf->row_bytes;
	for (int c = 0; c < keybuf->ncols; c++)
	{
		KeyBufferColumn *col = &keybuf->cols[c];
		Size		width = col->wide ? sizeof(uint64) : sizeof(uint32);

		bulk_reserve(owner, &col->normkeys_buf, n * width, keybuf->n * width);
		col->normkeys = col->normkeys_buf.ptr;
		if (col->nulls != NULL)
		{
			bulk_reserve(owner, &col->nulls_buf, n, keybuf->n);
			col->nulls = col->nulls_buf.ptr;
			memset(col->nulls + keybuf->n, 0, n - keybuf->n);
			keybuf->bytes += n;
		}
	}
	if (!keybuf->keys_only)
	{
		bulk_reserve(owner, &keybuf->rids_buf, n * sizeof(uint32),
					 keybuf->n * sizeof(uint32));
		keybuf->rids = keybuf->rids_buf.ptr;
	}
	keybuf->capacity = n;
}

void
keybuf_grow(KeyBuffer *keybuf, BulkOwner *owner, size_t n, size_t expected, size_t most)
{
	size_t		grown = Max(2 * keybuf->capacity, KEYBUF_FIRST_ROWS);

	if (expected > grown)
		grown = Min(expected, Max(8 * keybuf->capacity, KEYBUF_FIRST_ROWS));
	keybuf_reserve(keybuf, owner, Max(n, Min(grown, most)));
}

void
keybuf_null(KeyBuffer *keybuf, BulkOwner *owner, KeyBufferColumn *col, size_t i)
{
	if (col->nulls == NULL)
	{
		bulk_reserve(owner, &col->nulls_buf, keybuf->capacity, 0);
		col->nulls = col->nulls_buf.ptr;
		memset(col->nulls, 0, keybuf->capacity);
		keybuf->bytes += keybuf->capacity;
	}
	col->nulls[i] = 1;
	col->range.has_null = true;

	/*
	 * set it, because packing reads the normalized key before it looks at the
	 * flag
	 */
	keybuf_store(col, i, 0);
}

uint64
keybuf_computed(KeyBuffer *keybuf, KeyMaker maker, KeyBufferColumn *col, size_t i, Datum value)
{
	bool		inexact = false;
	uint64		normkey = normkey_of_value(col, maker, value, &inexact);

	/* the first string, or one that may lack the prefix */
	if (col->by_bytes && col->prefix.len != 0 &&
		(col->prefix.len < 0 || normkey == 0 || normkey == PG_UINT64_MAX))
		normkey = string_key_begin(keybuf, col, i, value, &inexact);
	col->range.inexact |= inexact;
	key_range_add_bits(&col->range, normkey);
	return normkey;
}

void
keybuf_begin(KeyBuffer *keybuf)
{
	for (int c = 0; c < keybuf->ncols; c++)
	{
		keybuf->cols[c].prefix.len = -1;
		keybuf->cols[c].prefix.frozen = false;
	}
	keybuf_reset(keybuf);
}

void
keybuf_freeze(KeyBuffer *keybuf)
{
	for (int c = 0; c < keybuf->ncols; c++)
	{
		BytesPrefix *prefix = &keybuf->cols[c].prefix;

		prefix->len = Max(prefix->len, 0);
		prefix->frozen = true;
	}
}

void
keybuf_unite_ranges(const KeyBuffer *keybuf, KeyRange *ranges)
{
	for (int c = 0; c < keybuf->ncols; c++)
	{
		const KeyBufferColumn *col = &keybuf->cols[c];

		if (col->by_bytes && ranges[c].min <= ranges[c].max)
			string_shift_range(col, ranges[c].skip, col->prefix.len, &ranges[c]);
		key_range_union(&ranges[c], &col->range);
		ranges[c].skip = col->prefix.len;
	}
}

void
keybuf_reset(KeyBuffer *keybuf)
{
	keybuf_forget(keybuf, keybuf->n);
	keybuf->n = 0;
	input_order_begin(keybuf);
	for (int c = 0; c < keybuf->ncols; c++)
		key_range_init(&keybuf->cols[c].range);
}

void
keybuf_keep_begin(KeyBuffer *keybuf)
{
	/* an order of all rows is also the order of the kept rows */
	input_order_check(keybuf);
	for (int c = 0; c < keybuf->ncols; c++)
	{
		KeyRange   *range = &keybuf->cols[c].range;
		bool		inexact = range->inexact;

		/* which rows are inexact is not recorded */
		key_range_init(range);
		range->inexact = inexact;
	}
}

void
keybuf_keep(KeyBuffer *keybuf, size_t i, size_t to, uint32 rid)
{
	for (int c = 0; c < keybuf->ncols; c++)
	{
		KeyBufferColumn *col = &keybuf->cols[c];
		bool		null = col->nulls != NULL && col->nulls[i];
		uint64		normkey = keybuf_normkey_at(col, i);

		if (col->nulls != NULL)
			col->nulls[to] = null;
		keybuf_store(col, to, normkey);
		if (null)
			col->range.has_null = true;
		else
		{
			key_range_add(&col->range, normkey);
			key_range_add_bits(&col->range, normkey);
		}
	}
	keybuf->rids[to] = rid;
}

void
keybuf_keep_end(KeyBuffer *keybuf, size_t n)
{
	for (int c = 0; c < keybuf->ncols; c++)
	{
		if (keybuf->cols[c].nulls != NULL)
			memset(keybuf->cols[c].nulls + n, 0, keybuf->n - n);
	}
	keybuf->n = n;
	keybuf->input_order.seen = n;
}

void
keybuf_forget(KeyBuffer *keybuf, size_t n)
{
	for (int c = 0; c < keybuf->ncols; c++)
	{
		if (keybuf->cols[c].nulls != NULL)
			memset(keybuf->cols[c].nulls, 0, n);
	}
}

void
keybuf_free(KeyBuffer *keybuf, BulkOwner *owner)
{
	for (int c = 0; c < keybuf->ncols; c++)
	{
		KeyBufferColumn *col = &keybuf->cols[c];

		bulk_free(owner, &col->normkeys_buf);
		bulk_free(owner, &col->nulls_buf);
		col->normkeys = NULL;
		col->nulls = NULL;
	}
	bulk_free(owner, &keybuf->rids_buf);
	keybuf->rids = NULL;
	keybuf->capacity = 0;
	keybuf->bytes = 0;
	keybuf->n = 0;
	input_order_begin(keybuf);
}

/* ------------------------------------------------------------------------
 * Presorted input
 * ------------------------------------------------------------------------
 */

/* Compares row i with its predecessor by all columns. */
static void
check_row_order(KeyBuffer *keybuf, size_t i)
{
	InputOrder *input_order = &keybuf->input_order;
	bool		known = keybuf->complete;	/* if all normalized keys are equal, the rows are */

	for (int c = 0; c < keybuf->ncols; c++)
	{
		const KeyBufferColumn *col = &keybuf->cols[c];
		bool		null = col->nulls != NULL && col->nulls[i];
		bool		null_before = col->nulls != NULL && col->nulls[i - 1];
		uint64		normkey = keybuf_normkey_at(col, i);
		uint64		before = keybuf_normkey_at(col, i - 1);

		if (!null && !null_before && unlikely(key_range_unplaced(col, &col->range)))
		{
			known = false;
			break;
		}
		/* the normalized keys of two NULLs are both 0 */
		if (null != null_before || normkey != before)
		{
			bool		behind = null != null_before ? null != col->nulls_first : normkey > before;

			input_order->possible &= behind ? INPUT_ASCENDING : INPUT_DESCENDING;
			input_order->varied = true;
			return;
		}
		if (col->range.inexact && !null)
		{
			known = false;
			break;
		}
	}
	input_order->possible &= known ? INPUT_ASCENDING : 0;
}

/* Counts the rows of [from, n) with a smaller and an equal key compared to the previous row. */
#define COUNT_STEPS(normkey_t) \
	do { \
		const normkey_t *normkeys = col->normkeys; \
		for (size_t i = from; i < keybuf->n; i++) \
		{ \
			smaller += normkeys[i] < normkeys[i - 1]; \
			equal += normkeys[i] == normkeys[i - 1]; \
		} \
	} while (0)

void
input_order_check(KeyBuffer *keybuf)
{
	InputOrder *input_order = &keybuf->input_order;
	const KeyBufferColumn *col = &keybuf->cols[0];
	size_t		from = Max(input_order->seen, 1);
	size_t		smaller = 0;
	size_t		equal = 0;

	input_order->seen = keybuf->n;
	if (from >= keybuf->n || input_order->possible == 0)
		return;
	if (unlikely(key_range_unplaced(col, &col->range)))
	{
		input_order->possible = 0;
		return;
	}
	if (col->wide)
		COUNT_STEPS(uint64);
	else
		COUNT_STEPS(uint32);
	if (col->nulls == NULL && equal == 0)
	{
		if (smaller > 0)
			input_order->possible &= ~INPUT_ASCENDING;
		if (smaller < keybuf->n - from)
			input_order->possible &= ~INPUT_DESCENDING;
		input_order->varied = true;
		return;
	}
	for (size_t i = from; i < keybuf->n && input_order->possible != 0; i++)
		check_row_order(keybuf, i);
}

/* ------------------------------------------------------------------------
 * Common key range
 * ------------------------------------------------------------------------
 */

void
common_range_of_keys(CommonKeyRange *common_range, const KeyBuffer *keybuf)
{
	for (int c = 0; c < keybuf->ncols; c++)
	{
		const KeyBufferColumn *col = &keybuf->cols[c];

		common_range->prefixes[c] = col->prefix;
		if (col->by_bytes && common_range->ranges[c].min <= common_range->ranges[c].max)
			string_give_up_prefix(col, &common_range->ranges[c], &common_range->prefixes[c]);
		/* in each process other values may have no normalized key */
		if (key_range_unplaced(col, &common_range->ranges[c]))
			key_range_give_up(&common_range->ranges[c]);
	}
}
