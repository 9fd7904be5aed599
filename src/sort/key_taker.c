/*
 * key_taker.c
 *	  Takes the keys of a sort of keys without rows, in another layout.
 *
 * The keys of a result have the layout of its own rows.  Several participants of a parallel sort
 * need one layout for all of their rows.  It is known when all rows are there.  The taker
 * translates the keys to it, mostly by one addition.
 */
#include "postgres.h"

#include "sort/key_run.h"
#include "sort/key_taker.h"

struct KeyTaker
{
	SortResult *result;
	SortRecFormat format;		/* of the result's records */
	bool		wide;			/* keys that are taken have 128 bits, otherwise 64 */
	KeyTranslation translation;
	const char *recs;			/* records that are not taken yet */
	size_t		nrecs;
};

KeyTaker *
key_taker_create(SortResult *result, const KeyLayout *layout)
{
	const KeyReader *reader = &((const KeysResult *) result)->reader;
	KeyTaker   *taker = palloc0(sizeof(KeyTaker));

	/* a result without rows has no layout */
	Assert(result->methods->take_keys != NULL && reader->layout.ncols > 0 && !reader->rids);
	key_translation_begin(&taker->translation, reader->layout.cols, layout);
	taker->result = result;
	taker->format = reader->format;
	taker->wide = layout->total_bits > 64;
	return taker;
}

/* Takes n of the records, at most KEY_DELTA_BLOCK. */
static void
take_block(KeyTaker *taker, void *to, size_t n)
{
	SortKey		keys[KEY_DELTA_BLOCK];
	uint32		rid;

	if (taker->format == SORT_REC_PACKED && !taker->wide)
	{
		memcpy(to, taker->recs, n * sizeof(uint64));
		key_translate64(&taker->translation, to, n);
		return;
	}
	for (size_t i = 0; i < n; i++)
		keys[i] = sort_rec_get(taker->recs, taker->format, 0, i, &rid);
	key_translate128(&taker->translation, keys, n);
	if (taker->wide)
		memcpy(to, keys, n * sizeof(SortKey));
	else
	{
		for (size_t i = 0; i < n; i++)
			((uint64 *) to)[i] = (uint64) keys[i];
	}
}

size_t
key_taker_take(KeyTaker *taker, void *keys, Size bytes)
{
	Size		key_bytes = taker->wide ? sizeof(Key128) : sizeof(uint64);
	size_t		n = bytes / key_bytes;
	size_t		taken = 0;

	while (taken < n)
	{
		size_t		count;

		if (taker->nrecs == 0)
		{
			const void *recs;

			taker->nrecs = taker->result->methods->take_keys(taker->result, &recs);
			if (taker->nrecs == 0)
				break;
			taker->recs = recs;
		}
		count = Min(KEY_DELTA_BLOCK, Min(taker->nrecs, n - taken));
		take_block(taker, (char *) keys + taken * key_bytes, count);
		taker->recs += count * sort_rec_size(taker->format);
		taker->nrecs -= count;
		taken += count;
	}
	return taken;
}
