/*
 * key_reader.h
 *	  KeyReader: decodes sorted keys of a sort of keys without rows.
 */
#ifndef GPUSORT_SORT_KEY_READER_H
#define GPUSORT_SORT_KEY_READER_H

#include "postgres.h"

#include "executor/tuptable.h"
#include "key/key.h"
#include "sort/run.h"

/* Keys decoded at a time. */
#define KEY_READER_ROWS		256

typedef struct DecodedKeys
{
	Datum		values[KEY_MAX_COLUMNS][KEY_READER_ROWS];
	bool		isnull[KEY_MAX_COLUMNS][KEY_READER_ROWS];
	uint32		rids[KEY_READER_ROWS];	/* if the keys have row ids */
} DecodedKeys;

typedef struct KeyReader
{
	DecodedKeys *decoded;		/* has keys [start, start + count) */
	size_t		start;
	size_t		count;
	const KeyBuffer *keybuf;
	const void *keys;			/* the sorted keys, from the key first on */
	size_t		first;
	RunCursor  *cursor;			/* reads the keys from disk to block; NULL: they are in memory */
	void	   *block;			/* KEY_READER_ROWS records */
	SortRecFormat format;		/* _PACKED or _128; with rids also _64 */
	bool		rids;			/* the records have row ids */
	int			rid_bits;		/* of SORT_REC_PACKED */
	KeyLayout	layout;
} KeyReader;

/* Can rows of this type be decoded from their sort keys?  desc NULL: can these columns? */
extern bool keys_only_possible(TupleDesc desc, const KeyColumn *keys, int nkeys);

/* Decodes a block of the n keys that includes key i. */
extern void key_reader_decode(KeyReader *reader, size_t i, size_t n);

/* Is key i decoded? */
static inline bool
key_reader_has(const KeyReader *reader, size_t i)
{
	return i - reader->start < reader->count;
}

/* The columns of key i, which is decoded. */
static inline void
key_reader_row(const KeyReader *reader, size_t i, Datum *values, bool *isnull)
{
	size_t		at = i - reader->start;

	for (int c = 0; c < reader->keybuf->ncols; c++)
	{
		int			att = reader->keybuf->cols[c].att;

		values[att] = reader->decoded->values[c][at];
		isnull[att] = reader->decoded->isnull[c][at];
	}
}

/* Makes the slot a virtual row, whose values the caller sets. */
static inline void
values_slot_begin(TupleTableSlot *slot)
{
	/* the reader may have materialized the slot */
	if (unlikely(TTS_SHOULDFREE(slot)))
		ExecClearTuple(slot);
	slot->tts_nvalid = slot->tts_tupleDescriptor->natts;
	slot->tts_flags &= ~TTS_FLAG_EMPTY;
}

static inline void
key_reader_to_slot(const KeyReader *reader, size_t i, TupleTableSlot *slot)
{
	values_slot_begin(slot);
	key_reader_row(reader, i, slot->tts_values, slot->tts_isnull);
}

#endif							/* GPUSORT_SORT_KEY_READER_H */
