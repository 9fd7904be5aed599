/*
 * pack.c
 *	  Key layouts; packing key columns into one narrow key, and decoding it.
 *
 * Radix sorting costs by the byte, so a key gets only the bits that the data needs.
 * A column whose normalized keys span [min, max] becomes the number normkey - min, in
 * as many bits as max - min has.  NULLs get one more number, below or above all others,
 * which costs a bit only if it crosses a power of two.  The numbers of the columns are
 * placed side by side, the first uppermost, so keys order as the ORDER BY does.
 *
 * Normalized keys of strings have eight bits per byte, of which letters need five and
 * digits four.  Bit compaction removes the bits that are equal in all of them.
 *
 * Packing proceeds column by column through batches that fit the L1 cache.  Each inner
 * loop is a shift and a subtraction over one array, and vectorizes.  The same loop
 * counts ascents and descents, so sorted, reversed and constant inputs are noticed
 * without another pass.
 *
 * After Satish et al. 2010, section 7 (partial keys with record ids).
 */
#include "postgres.h"

#include <math.h>

#include "key/key.h"
#include "miscadmin.h"
#include "port/pg_bitutils.h"

#define BATCH	1024

/* Fewer rows are sorted faster than their normalized keys are examined. */
#define NARROW_MIN_ROWS	1024

static int
bit_length(Key128 v)
{
	uint64		hi = (uint64) (v >> 64);

	if (hi != 0)
		return 65 + pg_leftmost_one_pos64(hi);
	return (uint64) v == 0 ? 0 : 1 + pg_leftmost_one_pos64((uint64) v);
}

/* ------------------------------------------------------------------------
 * Per-byte dictionaries
 *
 * At each byte position of the normalized keys only some of the 256 byte values occur:
 * 10 digits, or 16 hexadecimal digits.  The rank of a byte among these values is a digit
 * of a number in mixed radix, which orders as the strings do.  Eight hexadecimal digits
 * take 32 bits, where bit compaction needs 48.  A dictionary costs eight lookups per row
 * to build and eight to use, so it serves keys that do not fit otherwise.
 * ------------------------------------------------------------------------
 */

#define DICTIONARY_SAMPLE	1024	/* keys for a first estimate */

struct ByteDictionary
{
	/* [byte position, 0: least significant][byte] */
	uint64		digit[BYTES_WORD][256];
};

static inline uint64
byte_dictionary_code(const ByteDictionary *byte_dictionary, uint64 normkey)
{
	uint64		number = 0;

	for (int i = 0; i < BYTES_WORD; i++)
		number += byte_dictionary->digit[i][(normkey >> (8 * i)) & 0xff];
	return number;
}

/* Which values occur at each byte of the normalized keys. */
typedef struct BytesSeen
{
	bool		byte[BYTES_WORD][256];
} BytesSeen;

/* Looks at every step-th normalized key. */
static void
mark_bytes(BytesSeen *seen, const KeyBufferColumn *col, size_t n, size_t step)
{
	const uint64 *normkeys = col->normkeys;
	const uint8 *nulls = col->range.has_null ? col->nulls : NULL;

	memset(seen, 0, sizeof(*seen));
	for (size_t i = 0; i < n; i += step)
	{
		uint64		normkey = normkeys[i];

		if (nulls != NULL && nulls[i])
			continue;
		for (int b = 0; b < BYTES_WORD; b++)
			seen->byte[b][(normkey >> (8 * b)) & 0xff] = true;
	}
}

/* Number of distinct dictionary codes less one; PG_UINT64_MAX if 64 bits do not hold them. */
static uint64
largest_code(const BytesSeen *seen)
{
	uint64		numbers = 1;

	for (int b = 0; b < BYTES_WORD; b++)
	{
		int			count = 0;

		for (int i = 0; i < 256; i++)
			count += seen->byte[b][i];
		if (numbers > PG_UINT64_MAX / Max(count, 1))
			return PG_UINT64_MAX;
		numbers *= Max(count, 1);
	}
	return numbers - 1;
}

/*
 * Makes the dictionary of a column's n normalized keys.  Returns false if its codes
 * would take as many bits as this, or more.
 */
static bool
byte_dictionary_make(ByteDictionary *byte_dictionary, const KeyBufferColumn *col, size_t n, int bits)
{
	uint64		limit = bits > 64 ? PG_UINT64_MAX : UINT64CONST(1) << (bits - 1);
	uint64		weight = 1;
	BytesSeen	seen;

	Assert(bits > 0 && col->wide);
	if (n > 16 * DICTIONARY_SAMPLE)
	{
		mark_bytes(&seen, col, n, n / DICTIONARY_SAMPLE);
		if (largest_code(&seen) >= limit)
			return false;
	}
	mark_bytes(&seen, col, n, 1);
	if (largest_code(&seen) >= limit)
		return false;
	for (int b = 0; b < BYTES_WORD; b++)
	{
		uint64		rank = 0;

		for (int i = 0; i < 256; i++)
		{
			byte_dictionary->digit[b][i] = rank * weight;
			rank += seen.byte[b][i];
		}
		weight *= Max(rank, 1);
	}
	return true;
}

/* ------------------------------------------------------------------------
 * Key layouts
 * ------------------------------------------------------------------------
 */

void
keybuf_ranges(const KeyBuffer *keybuf, KeyRange *ranges)
{
	for (int c = 0; c < keybuf->ncols; c++)
		ranges[c] = keybuf->cols[c].range;
}

/* The normalized key after bit compaction or the per-byte dictionary. */
static inline uint64
narrowed(const LayoutColumn *lc, uint64 normkey)
{
	if (lc->byte_dictionary != NULL)
		return byte_dictionary_code(lc->byte_dictionary, normkey);
	return lc->compaction.mask != 0 ? bit_compact(&lc->compaction, normkey) : normkey;
}

/* Uses bit compaction if it makes the column narrower. */
static void
layout_compaction(LayoutColumn *lc, const KeyRange *r)
{
	bit_compaction_init(&lc->compaction, r->set & ~r->common);
	if (bit_length(narrowed(lc, r->max) - narrowed(lc, r->min)) >= bit_length(r->max - r->min))
		lc->compaction.mask = 0;
}

/* Sets the column's bits in the key, for normalized keys in this range. */
static void
layout_column(KeyLayout *layout, LayoutColumn *lc, const KeyBufferColumn *col, const KeyRange *r)
{
	Key128		largest;

	lc->base = 0;
	lc->add = 0;
	lc->null_value = 0;
	lc->nulls = r->has_null;
	lc->bits = 0;
	if (r->min > r->max)
		return;					/* no values, or only NULLs */

	lc->base = narrowed(lc, r->min);
	largest = narrowed(lc, r->max) - lc->base;
	if (r->has_null)
	{
		largest += 1;
		if (col->nulls_first)
			lc->add = 1;
		else
			lc->null_value = largest;
	}
	lc->bits = bit_length(largest);
	layout->total_bits += lc->bits;
}

void
key_layout(KeyLayout *layout, const KeyBuffer *keybuf, const KeyRange *ranges)
{
	bool		inexact = false;

	layout->ncols = 0;
	layout->total_bits = 0;
	/* columns behind the first inexact column must not decide */
	for (int c = 0; c < keybuf->ncols && !inexact; c++)
	{
		LayoutColumn *lc = &layout->cols[c];

		lc->compaction.mask = 0;
		lc->byte_dictionary = NULL;
		lc->quantized.steps = 0;
		if (keybuf->cols[c].computed && ranges[c].min <= ranges[c].max)
			layout_compaction(lc, &ranges[c]);
		layout_column(layout, lc, &keybuf->cols[c], &ranges[c]);
		inexact = ranges[c].inexact;
		if (unlikely(key_range_unplaced(&keybuf->cols[c], &ranges[c])))
		{
			/* the comparator decides, also between NULL and values */
			layout->total_bits -= lc->bits;
			lc->bits = 0;
			inexact = true;
		}
		layout->ncols++;
	}
	layout->may_be_exact = keybuf->complete && !inexact;
	layout->exact = layout->may_be_exact && layout->total_bits <= 128;
}

void
key_layout_narrow(KeyLayout *layout, const KeyBuffer *keybuf, ByteDictionaries *made, MemoryContext cxt,
				  int bits)
{
	if (layout->total_bits <= bits || keybuf->n < NARROW_MIN_ROWS)
		return;
	for (int c = 0; c < layout->ncols; c++)
	{
		LayoutColumn *lc = &layout->cols[c];
		const KeyBufferColumn *col = &keybuf->cols[c];

		if (!col->by_bytes || lc->bits == 0)
			continue;
		if (made->cols[c] == NULL)
			made->cols[c] = MemoryContextAlloc(cxt, sizeof(ByteDictionary));
		if (!byte_dictionary_make(made->cols[c], col, keybuf->n, lc->bits))
			continue;
		lc->byte_dictionary = made->cols[c];
		layout->total_bits -= lc->bits;
		layout_column(layout, lc, col, &col->range);
	}
	layout->exact = layout->may_be_exact && layout->total_bits <= 128;
}

uint64
key_layout_range(const KeyBuffer *keybuf, const KeyLayout *layout)
{
	for (int c = 0; c < layout->ncols; c++)
	{
		const KeyRange *r = &keybuf->cols[c].range;

		if (layout->cols[c].bits == 0)
			continue;
		if (layout->cols[c].bits == layout->total_bits && layout->total_bits < 64)
			return narrowed(&layout->cols[c], r->max) - layout->cols[c].base + 1 + r->has_null;
		break;
	}
	return layout->total_bits < 64 ? UINT64CONST(1) << layout->total_bits : 0;
}

/* ------------------------------------------------------------------------
 * Linear quantization of float8
 *
 * The leading bits of a float8 are its sign and exponent, which are the same for most
 * values of a column.  Cut to fewer bits, many normalized keys would be equal.  A linear
 * scale divides the distance from the first to the last value into equal steps, one for
 * each number of the bits at hand, so few values tie and radix digits are used equally.
 *
 * Rounding keeps the order: a number is less than another only if its value is.  Equal
 * numbers are resolved as ties.  A sample decides whether the scale separates more
 * values than the leading bits do; it does not if values have all magnitudes.
 * ------------------------------------------------------------------------
 */

/* Fewer rows have hardly any ties; fewer bits separate too few values. */
#define QUANTIZE_MIN_ROWS	65536
#define QUANTIZE_MIN_BITS	24

/* This sample, with each value in one of 2^16 buckets, decides whether a scale pays. */
#define SAMPLE_SIZE		256
#define BUCKET_BITS		16

/* Numbers reserved for NULLs and rounding. */
#define QUANTIZE_SPARE		8

typedef struct Buckets
{
	uint64		used[(1 << BUCKET_BITS) / 64];
	int			shared;			/* values whose bucket was in use */
} Buckets;

/* Inverse of normkey_float8(). */
static inline double
value_of(uint64 normkey)
{
	/* all ones if the value was positive */
	uint64		positive = (uint64) ((int64) normkey >> 63);
	uint64		bits = normkey ^ (~positive | NORMKEY_SIGN64);
	double		value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

static inline uint64
quantize(const LinearScale *scale, uint64 normkey)
{
	return (uint64) (int64) ((value_of(normkey ^ scale->flip) - scale->from) * scale->steps);
}

/* Numbers of rows [start, start + count); 0 for NULLs. */
static void
quantize_column(const LinearScale *scale, const KeyBufferColumn *col, size_t start, int count,
				uint64 *numbers)
{
	const uint64 *normkeys = (const uint64 *) col->normkeys + start;

	if (col->nulls != NULL)
	{
		const uint8 *nulls = col->nulls + start;

		for (int i = 0; i < count; i++)
			numbers[i] = nulls[i] ? 0 : quantize(scale, normkeys[i]);
	}
	else
	{
		for (int i = 0; i < count; i++)
			numbers[i] = quantize(scale, normkeys[i]);
	}
}

static void
put_in_bucket(Buckets *buckets, uint64 bucket)
{
	uint64	   *word = &buckets->used[bucket / 64];
	uint64		bit = UINT64CONST(1) << (bucket % 64);

	buckets->shared += (*word & bit) != 0;
	*word |= bit;
}

/* Do the scale's numbers separate more values than the same number of leading bits? */
static bool
scale_pays(const LinearScale *scale, const KeyBufferColumn *col, size_t n, int bits)
{
	int			normkey_bits = 1 + pg_leftmost_one_pos64(col->range.max - col->range.min);
	Buckets		by_normkey = {0};
	Buckets		by_number = {0};

	for (size_t i = 0; i < SAMPLE_SIZE; i++)
	{
		size_t		row = i * (n / SAMPLE_SIZE);
		uint64		normkey = ((const uint64 *) col->normkeys)[row];

		if (col->nulls != NULL && col->nulls[row])
			continue;
		put_in_bucket(&by_normkey, (normkey - col->range.min) >> (normkey_bits - BUCKET_BITS));
		put_in_bucket(&by_number, quantize(scale, normkey) >> (bits - BUCKET_BITS));
	}
	return by_number.shared + SAMPLE_SIZE / 16 < by_normkey.shared;
}

/* Makes a scale of this many bits for the column's n values.  False if it does not pay. */
static bool
make_scale(LinearScale *scale, const KeyBufferColumn *col, size_t n, int bits)
{
	double		last = value_of(col->range.max ^ col->flip);

	scale->flip = col->flip;
	scale->from = value_of(col->range.min ^ col->flip);
	scale->steps = ((UINT64CONST(1) << bits) - QUANTIZE_SPARE) / (last - scale->from);

	/*
	 * infinities and NaNs are at the ends of the range; the difference may
	 * overflow
	 */
	return isfinite(last - scale->from) && isfinite(scale->steps) && scale_pays(scale, col, n, bits);
}

bool
quantized_layout(KeyLayout *quantized, const KeyLayout *layout, const KeyBuffer *keybuf, int bits)
{
	int			room = bits;
	int			c = 0;
	LayoutColumn *lc;

	if (keybuf->n < QUANTIZE_MIN_ROWS)
		return false;
	while (c < layout->ncols && layout->cols[c].bits <= room)
		room -= layout->cols[c++].bits;
	if (c == layout->ncols || keybuf->cols[c].kind != KEY_FLOAT8 || room < QUANTIZE_MIN_BITS)
		return false;

	*quantized = *layout;
	lc = &quantized->cols[c];
	if (!make_scale(&lc->quantized, &keybuf->cols[c], keybuf->n, room))
		return false;
	lc->base = 0;
	lc->bits = room;
	if (lc->null_value != 0)
		lc->null_value = (UINT64CONST(1) << room) - 1;
	quantized->ncols = c + 1;
	quantized->total_bits = bits;
	quantized->may_be_exact = quantized->exact = false;
	return true;
}

/* ------------------------------------------------------------------------
 * Packing
 * ------------------------------------------------------------------------
 */

/* Do the buffered rows have NULLs?  The range may be wider than the rows. */
static inline bool
column_has_nulls(const KeyBufferColumn *col)
{
	return col->range.has_null && col->nulls != NULL;
}

/*
 * Normalized keys of rows [start, start + count), after bit compaction, dictionary or
 * quantization.  Returns the column's array if none is used, otherwise buf.
 */
static const void *
batch_normkeys(const KeyBufferColumn *col, const LayoutColumn *lc, size_t start, int count,
			   uint64 *buf)
{
	if (lc->byte_dictionary != NULL)
	{
		const uint64 *normkeys = (const uint64 *) col->normkeys + start;

		for (int i = 0; i < count; i++)
			buf[i] = byte_dictionary_code(lc->byte_dictionary, normkeys[i]);
	}
	else if (lc->quantized.steps != 0)
		quantize_column(&lc->quantized, col, start, count, buf);
	else if (lc->compaction.mask == 0)
		return (const char *) col->normkeys + start * (col->wide ? sizeof(uint64) : sizeof(uint32));
	else if (col->wide)
	{
		const uint64 *normkeys = (const uint64 *) col->normkeys + start;

		for (int i = 0; i < count; i++)
			buf[i] = bit_compact(&lc->compaction, normkeys[i]);
	}
	else
	{
		const uint32 *normkeys = (const uint32 *) col->normkeys + start;

		for (int i = 0; i < count; i++)
			((uint32 *) buf)[i] = (uint32) bit_compact(&lc->compaction, normkeys[i]);
	}
	return buf;
}

/* acc = acc << keep | uppermost keep bits of the number, for one column of a batch. */
#define FOLD_COLUMN(normkey_t) \
	do { \
		const normkey_t *normkeys = batch; \
		const uint64 base = lc->base - lc->add; \
		if (column_has_nulls(col)) \
		{ \
			const uint8 *nulls = col->nulls + start; \
			const uint64 null_value = (uint64) lc->null_value; \
			for (int i = 0; i < count; i++) \
			{ \
				uint64		v = nulls[i] ? null_value : normkeys[i] - base; \
				acc[i] = (acc[i] << keep) | (v >> cut); \
			} \
		} \
		else \
		{ \
			for (int i = 0; i < count; i++) \
				acc[i] = (acc[i] << keep) | ((normkeys[i] - base) >> cut); \
		} \
	} while (0)

/* FOLD_COLUMN for a column of 64 or 65 bits, which needs 128-bit arithmetic. */
static void
fold_full_column(const KeyBufferColumn *col, const LayoutColumn *lc, const uint64 *normkeys,
				 size_t start, int count, int keep, int cut, uint64 *acc)
{
	for (int i = 0; i < count; i++)
	{
		Key128		v = (Key128) (normkeys[i] - lc->base) + lc->add;

		if (column_has_nulls(col) && col->nulls[start + i])
			v = lc->null_value;
		acc[i] = (uint64) ((Key128) acc[i] << keep | v >> cut);
	}
}

/* Uppermost key_bits (<= 64) of the keys of rows [start, start + count), right-aligned. */
static void
fold64(const KeyBuffer *keybuf, const KeyLayout *layout, int key_bits,
	   size_t start, int count, uint64 *acc)
{
	uint64		buf[BATCH];
	int			room = key_bits;

	Assert(count <= BATCH);
	memset(acc, 0, count * sizeof(uint64));
	for (int c = 0; c < layout->ncols && room > 0; c++)
	{
		const KeyBufferColumn *col = &keybuf->cols[c];
		const LayoutColumn *lc = &layout->cols[c];
		int			keep = Min(lc->bits, room);
		int			cut = lc->bits - keep;
		const void *batch;

		if (keep == 0)
			continue;
		batch = batch_normkeys(col, lc, start, count, buf);
		if (lc->bits >= 64)
			fold_full_column(col, lc, batch, start, count, keep, cut, acc);
		else if (col->wide)
			FOLD_COLUMN(uint64);
		else
			FOLD_COLUMN(uint32);
		room -= keep;
	}
}

/*
 * Uppermost 128 bits of the keys of rows [start, start + count), left-aligned.
 * total_bits is above 64.
 */
static void
fold128(const KeyBuffer *keybuf, const KeyLayout *layout, size_t start, int count, Key128 *acc)
{
	uint64		buf[BATCH];
	int			room = 128;

	Assert(count <= BATCH);
	memset(acc, 0, count * sizeof(Key128));
	for (int c = 0; c < layout->ncols; c++)
	{
		const KeyBufferColumn *col = &keybuf->cols[c];
		const LayoutColumn *lc = &layout->cols[c];
		bool		cut = lc->bits > room;
		int			shift = cut ? lc->bits - room : room - lc->bits;
		const void *batch;

		if (lc->bits == 0)
			continue;
		batch = batch_normkeys(col, lc, start, count, buf);
		for (int i = 0; i < count; i++)
		{
			uint64		normkey = col->wide ? ((const uint64 *) batch)[i] :
				((const uint32 *) batch)[i];
			Key128		v = (Key128) (normkey - lc->base) + lc->add;

			if (column_has_nulls(col) && col->nulls[start + i])
				v = lc->null_value;
			acc[i] |= cut ? v >> shift : v << shift;
		}
		room -= lc->bits;
		if (room <= 0)
			break;
	}
}

/* pack_records() as SORT_REC_PACKED. */
static void
pack_words(const KeyBuffer *keybuf, const KeyLayout *layout,
		   int key_bits, int rid_bits, uint64 *words, KeyOrder *order)
{
	uint64		acc[BATCH];
	uint64		prev = 0;
	size_t		descents = 0;
	size_t		ascents = 0;

	Assert(key_bits + rid_bits <= 64 && key_bits <= layout->total_bits);
	for (size_t start = 0; start < keybuf->n; start += BATCH)
	{
		int			count = Min(BATCH, keybuf->n - start);

		CHECK_FOR_INTERRUPTS();
		fold64(keybuf, layout, key_bits, start, count, acc);

		if (start == 0)
			prev = acc[0];
		descents += (acc[0] < prev);
		ascents += (acc[0] > prev);
		for (int i = 1; i < count; i++)
		{
			descents += (acc[i] < acc[i - 1]);
			ascents += (acc[i] > acc[i - 1]);
		}
		prev = acc[count - 1];

		if (keybuf->rids == NULL)
			memcpy(words + start, acc, count * sizeof(uint64));
		else
		{
			const uint32 *rids = keybuf->rids + start;

			for (int i = 0; i < count; i++)
				words[start + i] = (acc[i] << rid_bits) | rids[i];
		}
	}
	order->descents = descents;
	order->ascents = ascents;
}

/* pack_records() as SORT_REC_64 or SORT_REC_128. */
static void
pack_wide(const KeyBuffer *keybuf, const KeyLayout *layout,
		  SortRecFormat format, void *recs, KeyOrder *order)
{
	Key128		prev = 0;
	uint64		acc64[BATCH];
	Key128		acc[BATCH];

	order->descents = order->ascents = 0;
	for (size_t start = 0; start < keybuf->n; start += BATCH)
	{
		int			count = Min(BATCH, keybuf->n - start);

		CHECK_FOR_INTERRUPTS();
		if (layout->total_bits <= 64)
		{
			fold64(keybuf, layout, layout->total_bits, start, count, acc64);
			for (int i = 0; i < count; i++)
				acc[i] = acc64[i];
		}
		else
		{
			/* right-align */
			int			drop = 128 - Min(layout->total_bits, 128);

			fold128(keybuf, layout, start, count, acc);
			for (int i = 0; i < count; i++)
				acc[i] >>= drop;
		}

		if (start == 0)
			prev = acc[0];
		for (int i = 0; i < count; i++)
		{
			order->descents += (acc[i] < prev);
			order->ascents += (acc[i] > prev);
			prev = acc[i];
			if (format == SORT_REC_64)
			{
				SortRec64  *r = (SortRec64 *) recs + start + i;

				r->key = (uint64) acc[i];
				r->rid = keybuf->rids == NULL ? 0 : keybuf->rids[start + i];
				r->pad = 0;
			}
			else
			{
				SortRec128 *r = (SortRec128 *) recs + start + i;

				r->hi = (uint64) (acc[i] >> 64);
				r->lo = (uint64) acc[i];
				r->rid = keybuf->rids == NULL ? 0 : keybuf->rids[start + i];
				r->pad = 0;
			}
		}
	}
}

void
pack_records(const KeyBuffer *keybuf, const KeyLayout *layout, SortRecFormat format,
			 int key_bits, int rid_bits, void *recs, KeyOrder *order)
{
	if (format == SORT_REC_PACKED)
		pack_words(keybuf, layout, key_bits, rid_bits, recs, order);
	else
		pack_wide(keybuf, layout, format, recs, order);
}

void
pack_keys(const KeyBuffer *keybuf, const KeyLayout *layout, int key_width,
		  size_t start, size_t count, void *keys)
{
	uint64		acc64[BATCH];
	int			drop = 128 - Min(layout->total_bits, 128);

	for (size_t done = 0; done < count; done += BATCH)
	{
		int			batch = Min(BATCH, count - done);

		if (layout->total_bits > 64)
		{
			/* keys is 16-byte aligned for this width */
			Key128	   *out = (Key128 *) keys + done;

			fold128(keybuf, layout, start + done, batch, out);
			for (int i = 0; i < batch; i++)
				out[i] >>= drop;
		}
		else if (key_width == 64)
			fold64(keybuf, layout, layout->total_bits, start + done, batch,
				   (uint64 *) keys + done);
		else
		{
			uint32	   *out = (uint32 *) keys + done;

			fold64(keybuf, layout, layout->total_bits, start + done, batch, acc64);
			for (int i = 0; i < batch; i++)
				out[i] = (uint32) acc64[i];
		}
	}
}

Key128
pack_key(const KeyBuffer *keybuf, const KeyLayout *layout, size_t i)
{
	uint64		key64;
	Key128		key;

	if (layout->total_bits > 64)
	{
		pack_keys(keybuf, layout, 128, i, 1, &key);
		return key;
	}
	pack_keys(keybuf, layout, 64, i, 1, &key64);
	return key64;
}

Key128
pack_row(const KeyBuffer *keybuf, const KeyWriter *writer, const KeyLayout *layout,
		 const Datum *values, const bool *isnull)
{
	Key128		key = 0;
	bool		inexact;		/* ignored: the layout allows for it */
	int			room = 128;

	for (int c = 0; c < layout->ncols && room > 0; c++)
	{
		const KeyBufferColumn *col = &keybuf->cols[c];
		const LayoutColumn *lc = &layout->cols[c];
		Key128		v;

		if (lc->bits == 0)
			continue;
		if (isnull[col->att])
			v = lc->null_value;
		else
			v = (Key128) (narrowed(lc, normkey_of_value(col, writer->makers[c], values[col->att],
														&inexact)) - lc->base) +
				lc->add;
		if (lc->bits > room)
			key |= v >> (lc->bits - room);
		else
			key |= v << (room - lc->bits);
		room -= lc->bits;
	}
	return key;
}

/* ------------------------------------------------------------------------
 * Decoding, for sorts whose rows consist of their keys
 * ------------------------------------------------------------------------
 */

/* The Datum of a normalized key, of a decodable kind. */
static inline Datum
key_datum(KeyKind kind, uint64 flip, uint64 bits)
{
	switch (kind)
	{
#define VALUE_DATUM(kind, normkey, type, from_datum, make, back)	case kind: return back(bits ^ flip);
#define NO_DATUM(kind, ...)	case kind: break;
			KEY_KINDS(VALUE_DATUM, NO_DATUM, NO_DATUM)
	}
	pg_unreachable();
}

/* The Datum of a column's number in the packed key. */
static inline Datum
decode_value(const KeyBufferColumn *col, const LayoutColumn *lc, Key128 value, bool *isnull)
{
	*isnull = lc->nulls && (lc->bits == 0 || value == lc->null_value);
	if (*isnull)
		return (Datum) 0;
	return key_datum(col->kind, col->flip, (uint64) value - lc->add + lc->base);
}

#define DECODE_LOOP(kind, normkey, type, from_datum, make, back) \
		case kind: \
			for (int i = 0; i < count; i++) \
				values[i] = back((((words[i] >> shift) & mask) + base) ^ flip); \
			break;
#define NO_DECODE_LOOP(kind, ...) \
		case kind: pg_unreachable();

/* Decodes a column whose lowest bit is at shift.  The caller handles NULLs. */
static void
decode_column(const KeyBufferColumn *col, const LayoutColumn *lc, int shift,
			  const uint64 *words, int count, Datum *values)
{
	const uint64 mask = lc->bits < 64 ? (UINT64CONST(1) << lc->bits) - 1 : PG_UINT64_MAX;
	const uint64 base = lc->base - lc->add;
	const uint64 flip = col->flip;

	switch (col->kind)
	{
			KEY_KINDS(DECODE_LOOP, NO_DECODE_LOOP, NO_DECODE_LOOP)
	}
}

void
decode_words(const KeyBuffer *keybuf, const KeyLayout *layout, const uint64 *words, int count,
			 int stride, Datum *values, bool *isnull)
{
	int			shift = 0;

	for (int c = layout->ncols - 1; c >= 0; c--)
	{
		const KeyBufferColumn *col = &keybuf->cols[c];
		const LayoutColumn *lc = &layout->cols[c];

		if (lc->bits == 0)
		{
			/* the key has no bit for a constant column, and shift may be 64 */
			Datum		value = decode_value(col, lc, 0, isnull + c * stride);

			for (int i = 0; i < count; i++)
			{
				values[c * stride + i] = value;
				isnull[c * stride + i] = isnull[c * stride];
			}
			continue;
		}
		decode_column(col, lc, shift, words, count, values + c * stride);
		if (!lc->nulls)
			memset(isnull + c * stride, 0, count * sizeof(bool));
		else
		{
			for (int i = 0; i < count; i++)
				(void) decode_value(col, lc,
									lc->bits < 64 ? (words[i] >> shift) & ((UINT64CONST(1) << lc->bits) - 1) :
									words[i], &isnull[c * stride + i]);
		}
		shift += lc->bits;
	}
}

void
decode_key128(const KeyBuffer *keybuf, const KeyLayout *layout, Key128 key, int stride,
			  Datum *values, bool *isnull)
{
	for (int c = layout->ncols - 1; c >= 0; c--)
	{
		const KeyBufferColumn *col = &keybuf->cols[c];
		const LayoutColumn *lc = &layout->cols[c];
		Key128		value = key & (((Key128) 1 << lc->bits) - 1);

		key >>= lc->bits;
		values[c * stride] = decode_value(col, lc, value, &isnull[c * stride]);
	}
}
