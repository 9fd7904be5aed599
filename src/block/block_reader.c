/*
 * block_reader.c
 *	  The rows of one stream of blocks, one after the other.
 *
 * Rows are read where they lie in their block.  Keys without rows are decoded a batch at a time.  So are the keys of
 * rows, if a merge join skips rows by an integer: rows that are skipped are not touched.
 *
 * Memory: a batch of decoded keys.
 */
#include "postgres.h"

#include "block/block_internal.h"
#include "store/store.h"

/* Keys that are decoded at a time. */
#define READER_BATCH	128

struct BlockReader
{
	BlockSource *source;		/* NULL: there are no rows */
	KeyDecoder *decoder;		/* NULL: keys cannot be decoded */
	MergeRows	rows;			/* of the current block */
	uint32		next;			/* the next row in it */
	uint32		decoded_from;	/* the decoded keys of the block */
	uint32		decoded_to;
	Size		key_bytes;
};

BlockReader *
block_reader_create(const SortSpec *spec, const CommonKeyRange *common_range, BlockSource *source)
{
	BlockReader *reader = palloc0(sizeof(BlockReader));
	KeyLayout	layout;

	reader->source = source;
	if (source == NULL)
		return reader;
	key_block_layout(spec, common_range, &layout);
	reader->key_bytes = block_key_bits(&layout) / 8;
	block_source_begin(source, spec, reader->key_bytes > sizeof(uint64));
	if (keys_only_possible(NULL, spec->keys, spec->nkeys) && layout.exact)
		reader->decoder = key_decoder_create(spec, common_range, READER_BATCH);
	return reader;
}

/* Goes to the next block, if the current one has no row left; false at the end. */
static pg_noinline bool
enter_next_block(BlockReader *reader)
{
	reader->next = reader->rows.n = reader->decoded_from = reader->decoded_to = 0;
	return reader->source != NULL && reader->source->base.next(&reader->source->base, &reader->rows);
}

static pg_noinline void
decode_from_next(BlockReader *reader)
{
	uint32		n = Min(READER_BATCH, reader->rows.n - reader->next);

	key_decoder_run(reader->decoder, (const char *) reader->rows.keys + reader->next * reader->key_bytes,
					reader->key_bytes, n);
	reader->decoded_from = reader->next;
	reader->decoded_to = reader->next + n;
}

bool
block_reader_next(BlockReader *reader, TupleTableSlot *slot)
{
	if (unlikely(reader->next == reader->rows.n) && !enter_next_block(reader))
		return false;
	if (reader->rows.places != NULL)
	{
		row_to_slot(slot, (MinimalTuple) unconstify(char *, reader->rows.base +
													(Size) reader->rows.places[reader->next] * sizeof(uint64)));
		reader->next++;
		return true;
	}
	if (unlikely(reader->next == reader->decoded_to))
		decode_from_next(reader);
	for (int c = 0; c < reader->decoder->keybuf.ncols; c++)
	{
		int			att = reader->decoder->keybuf.cols[c].att;
		uint32		i = c * READER_BATCH + reader->next - reader->decoded_from;

		slot->tts_values[att] = reader->decoder->values[i];
		slot->tts_isnull[att] = reader->decoder->isnull[i];
	}
	slot->tts_flags &= ~TTS_FLAG_EMPTY;
	slot->tts_nvalid = slot->tts_tupleDescriptor->natts;
	reader->next++;
	return true;
}

void
block_reader_skip_below(BlockReader *reader, int64 value, int bytes)
{
	if (reader->decoder == NULL)
		return;
	for (;;)
	{
		const Datum *values;
		const bool *isnull;
		uint32		n;
		uint32		i;

		if (reader->next == reader->rows.n && !enter_next_block(reader))
			return;
		if (reader->next < reader->decoded_from || reader->next >= reader->decoded_to)
			decode_from_next(reader);
		values = &reader->decoder->values[reader->next - reader->decoded_from];
		isnull = &reader->decoder->isnull[reader->next - reader->decoded_from];
		n = reader->decoded_to - reader->next;
		/* rows with a NULL are behind the others */
		for (i = 0; i < n && !isnull[i] && integer_of_datum(values[i], bytes) < value; i++)
			;
		reader->next += i;
		if (i < n)
			return;
	}
}
