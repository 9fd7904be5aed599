/*
 * key_reader.h
 *	  Sorted keys that are the rows, decoded as they are read.
 */
#ifndef GPUSORT_KEY_READER_H
#define GPUSORT_KEY_READER_H

#include "postgres.h"

#include "executor/tuptable.h"
#include "key/pack.h"

/* Keys decoded at a time. */
#define KEY_READER_ROWS		256

typedef struct DecodedKeys
{
	Datum		values[STAGE_MAX_COLUMNS][KEY_READER_ROWS];
	bool		isnull[STAGE_MAX_COLUMNS][KEY_READER_ROWS];
} DecodedKeys;

typedef struct KeyReader
{
	DecodedKeys *decoded;		/* keys [start, start + count) */
	size_t		start;
	size_t		count;
	const Stage *stage;
	const void *keys;
	SortRecFormat format;		/* SORT_REC_PACKED (without rids) or SORT_REC_128 */
	KeyLayout	layout;
} KeyReader;

struct SortEnv;
struct Sorted;

/* Can rows of this kind be made of their sort keys? */
extern bool keys_only_possible(TupleDesc desc, const KeyColumn *keys, int nkeys);

extern void key_reader_begin(KeyReader *reader, struct SortEnv *env, const Stage *stage,
							 const struct Sorted *sorted);

/* Decodes some of n keys, among them the i-th. */
extern void key_reader_decode(KeyReader *reader, size_t i, size_t n);

/* Is the i-th decoded? */
static inline bool
key_reader_has(const KeyReader *reader, size_t i)
{
	return i - reader->start < reader->count;
}

/* The columns of the i-th, which is. */
static inline void
key_reader_row(const KeyReader *reader, size_t i, Datum *values, bool *isnull)
{
	size_t		at = i - reader->start;

	for (int c = 0; c < reader->stage->ncols; c++)
	{
		int			att = reader->stage->cols[c].att;

		values[att] = reader->decoded->values[c][at];
		isnull[att] = reader->decoded->isnull[c][at];
	}
}

static inline void
key_reader_to_slot(const KeyReader *reader, size_t i, TupleTableSlot *slot)
{
	/* somebody may have materialised the row before */
	if (unlikely(TTS_SHOULDFREE(slot)))
		ExecClearTuple(slot);
	key_reader_row(reader, i, slot->tts_values, slot->tts_isnull);
	slot->tts_nvalid = slot->tts_tupleDescriptor->natts;
	slot->tts_flags &= ~TTS_FLAG_EMPTY;
}

#endif							/* GPUSORT_KEY_READER_H */
