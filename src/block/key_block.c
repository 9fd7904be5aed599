/*
 * key_block.c
 *	  Blocks of keys without rows: written, merged again, and made into rows.
 *
 * If the rows of a parallel sort consist of their sort keys, the participants sort keys alone,
 * as a serial sort does (SortSpec.keys_only), and send keys alone.  A row of one int8 column
 * takes 8 bytes of a block instead of 36.  Keys in blocks have the layout of all rows.  The
 * leader makes each row of its key when the row has been merged, so the nodes above read
 * MinimalTuples as from other parallel sorts.
 *
 * Memory: the leader has the rows of a batch of the merge.
 *
 * On error: see exchange.c.
 */
#include "postgres.h"

#include "block/block_internal.h"
#include "key/key.h"
#include "store/store.h"

void
key_block_layout(const SortSpec *spec, const CommonKeyRange *common_range, KeyLayout *layout)
{
	KeyBuffer  *keybuf = palloc0(sizeof(KeyBuffer));

	/* the key buffer holds no rows */
	keybuf_init(keybuf, spec->keys, spec->nkeys, true);
	key_layout(layout, keybuf, common_range->ranges);
	Assert(!sends_keys(spec) || (layout->exact && layout->total_bits <= 128));
	pfree(keybuf);
}

bool
block_keys_wide(const SortSpec *spec, const CommonKeyRange *common_range)
{
	KeyLayout	layout;

	key_block_layout(spec, common_range, &layout);
	return block_key_bits(&layout) > 64;
}

/* Completes a block that has n keys of this size; false if n is 0. */
static bool
end_block(RowBlock *block, uint32 n, Size key_bytes)
{
	block->n = n;
	block->bytes = block->keys_at = block->places_at = 0;
	block->whole = 0;
	block->size = offsetof(RowBlock, rows) + n * key_bytes;
	return n > 0;
}

bool
key_block_fill(KeyTaker *taker, Size key_bytes, RowBlock *block)
{
	return end_block(block, key_taker_take(taker, block->rows, ROW_BLOCK_ROOM), key_bytes);
}

bool
key_block_refill(MergeTree *merge, RowBlock *block)
{
	Size		key_bytes = merge->wide ? sizeof(uint128) : sizeof(uint64);
	uint32		room = ROW_BLOCK_ROOM / key_bytes;
	uint32		n = 0;
	uint32		count;
	const char *items;

	while (n < room && (items = merge_tree_skip(merge, room - n, &count, NULL)) != NULL)
	{
		const char *key = items + MERGE_KEY_AT;

		for (uint32 i = 0; i < count; i++, key += merge->item_bytes)
		{
			if (merge->wide)
				memcpy(block->rows + (n + i) * sizeof(uint128), key, sizeof(uint128));
			else
				memcpy(block->rows + (n + i) * sizeof(uint64), key, sizeof(uint64));
		}
		n += count;
	}
	return end_block(block, n, key_bytes);
}

/* ------------------------------------------------------------------------
 * Decoding keys
 * ------------------------------------------------------------------------
 */

KeyDecoder *
key_decoder_create(const SortSpec *spec, const CommonKeyRange *common_range, uint32 batch)
{
	KeyDecoder *decoder = palloc0(sizeof(KeyDecoder));

	keybuf_init(&decoder->keybuf, spec->keys, spec->nkeys, true);
	key_block_layout(spec, common_range, &decoder->layout);
	decoder->wide = decoder->layout.total_bits > 64;
	decoder->batch = batch;
	decoder->values = palloc(batch * spec->nkeys * sizeof(Datum));
	decoder->isnull = palloc(batch * spec->nkeys * sizeof(bool));
	decoder->words = palloc(batch * sizeof(uint64));
	return decoder;
}

void
key_decoder_run(KeyDecoder *decoder, const char *keys, Size distance, uint32 n)
{
	Assert(n <= decoder->batch);
	if (!decoder->wide)
	{
		for (uint32 i = 0; i < n; i++)
			memcpy(&decoder->words[i], keys + i * distance, sizeof(uint64));
		decode_words(&decoder->keybuf, &decoder->layout, decoder->words, n, decoder->batch, decoder->values,
					 decoder->isnull);
		return;
	}
	for (uint32 i = 0; i < n; i++)
	{
		uint128		key;

		memcpy(&key, keys + i * distance, sizeof(key));
		decode_key128(&decoder->keybuf, &decoder->layout, key, decoder->batch, &decoder->values[i],
					  &decoder->isnull[i]);
	}
}

/* ------------------------------------------------------------------------
 * Making rows
 * ------------------------------------------------------------------------
 */

/* Makes the rows of merged keys, a batch at a time. */
typedef struct RowMaker
{
	KeyDecoder *decoder;
	RowWriter  *writer;
	char	   *rows;			/* the rows of a batch */
	char	   *blank;			/* a row without NULLs, whose values are set later */
	Size		blank_bytes;
	Size		value_at[KEY_MAX_COLUMNS];	/* offsets of the key columns' values in it */
	Datum	   *row_values;		/* of one row */
	bool	   *row_isnull;
} RowMaker;

/* Do the decoded keys have a NULL? */
static bool
has_nulls(const KeyDecoder *decoder, uint32 n)
{
	for (int c = 0; c < decoder->keybuf.ncols; c++)
	{
		if (memchr(&decoder->isnull[c * decoder->batch], true, n) != NULL)
			return true;
	}
	return false;
}

#define SET_VALUES(type, from_datum) \
	do { \
		for (uint32 i = 0; i < n; i++, to += bytes) \
			*(type *) to = from_datum(values[i]); \
	} while (0)

/* Makes n rows without NULLs. */
static void
fill_blanks(const RowMaker *maker, const MergeTree *tree, char *items, uint32 n)
{
	/* stores could change the fields of the maker, for all that the compiler knows */
	const Size	bytes = maker->blank_bytes;
	const Size	item_bytes = tree->item_bytes;
	const char *blank = maker->blank;
	const KeyDecoder *decoder = maker->decoder;
	char	   *row = maker->rows;

	for (uint32 i = 0; i < n; i++, row += bytes, items += item_bytes)
	{
		row_copy(row, blank, bytes);
		memcpy(items, &row, sizeof(MinimalTuple));
	}
	for (int c = 0; c < decoder->keybuf.ncols; c++)
	{
		const Datum *values = &decoder->values[c * tree->batch];
		char	   *to = maker->rows + maker->value_at[c];

		switch (maker->writer->cols[decoder->keybuf.cols[c].att].kind)
		{
			case WRITER_1:
				SET_VALUES(char, DatumGetChar);
				break;
			case WRITER_2:
				SET_VALUES(int16, DatumGetInt16);
				break;
			case WRITER_4:
				SET_VALUES(int32, DatumGetInt32);
				break;
			default:
				SET_VALUES(int64, DatumGetInt64);
		}
	}
}

/* MergeTree.make_rows */
static void
make_rows(MergeTree *tree, char *items, uint32 n)
{
	RowMaker   *maker = tree->make_rows_arg;
	KeyDecoder *decoder = maker->decoder;
	char	   *row = maker->rows;

	key_decoder_run(decoder, items + MERGE_KEY_AT, tree->item_bytes, n);
	if (likely(!has_nulls(decoder, n)))
	{
		fill_blanks(maker, tree, items, n);
		return;
	}
	for (uint32 i = 0; i < n; i++)
	{
		for (int c = 0; c < decoder->keybuf.ncols; c++)
		{
			int			att = decoder->keybuf.cols[c].att;

			maker->row_values[att] = decoder->values[c * tree->batch + i];
			maker->row_isnull[att] = decoder->isnull[c * tree->batch + i];
		}
		memcpy(items + i * tree->item_bytes, &row, sizeof(MinimalTuple));
		row += row_writer_write(maker->writer, maker->row_values, maker->row_isnull, row);
	}
}

/* Makes the row without NULLs. */
static void
make_blank(RowMaker *maker, TupleDesc desc)
{
	Size		at = MAXALIGN(SizeofMinimalTupleHeader);
	Size	   *att_at = palloc(desc->natts * sizeof(Size));

	maker->blank = palloc0(row_writer_room(maker->writer, maker->row_values, maker->row_isnull));
	maker->blank_bytes = row_writer_write(maker->writer, maker->row_values, maker->row_isnull, maker->blank);
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		at = att_align_nominal(at, att->attalign);
		att_at[i] = at;
		at += att->attlen;
	}
	for (int c = 0; c < maker->decoder->keybuf.ncols; c++)
		maker->value_at[c] = att_at[maker->decoder->keybuf.cols[c].att];
	pfree(att_at);
}

void
key_block_make_rows(MergeTree *merge, const SortSpec *spec, const CommonKeyRange *common_range)
{
	RowMaker   *maker = palloc0(sizeof(RowMaker));
	int			natts = spec->desc->natts;

	maker->decoder = key_decoder_create(spec, common_range, merge->batch);
	maker->writer = row_writer_create(spec->desc);
	maker->row_values = palloc0(natts * sizeof(Datum));
	maker->row_isnull = palloc0(natts * sizeof(bool));
	/* decodable types are passed by value */
	Assert(maker->writer->nvarying == 0);
	make_blank(maker, spec->desc);
	maker->rows = palloc(merge->batch * row_writer_room(maker->writer, maker->row_values, maker->row_isnull));
	merge->make_rows = make_rows;
	merge->make_rows_arg = maker;
}
