/*
 * key_run.c
 *	  Runs of keys without rows: writing and reading.
 *
 * A batch is sorted by keys whose layout follows from the ranges of its own rows.  The run
 * stores these keys, so that nothing is decoded.  The layout of the merge follows from the
 * ranges of all rows and is known only when all runs are written.  A column's number in the
 * merge's layout is its number in the run plus a constant, except for NULLs.  Usually the
 * columns also lie at the same bits, and one addition translates a key.
 *
 * Presorted input that continues a run begins a new section, because its layout differs.
 *
 * Memory policy: see run.c.  A reader uses the buffer of its caller.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "sort/key_run.h"

/* Stands where a block has its width. */
#define SECTION_MARK	((uint8) 0xff)

/* The head of a section, behind its mark. */
typedef struct SectionHead
{
	Key128		first;			/* the first key */
	int			total_bits;
	int			ncols;
	LayoutColumn cols[KEY_RUN_COLUMNS];
} SectionHead;

/* Bytes of a section's mark and head. */
#define SECTION_SIZE	(1 + sizeof(SectionHead))

/* Bytes of the largest block or head. */
#define BLOCK_MAX		KEY_DELTA_MAX(sizeof(Key128))

StaticAssertDecl(RUN_BLOCK_ROOM >= BLOCK_MAX + KEY_DELTA_SLACK, "a writer's buffer has no room for a block");
StaticAssertDecl(SECTION_SIZE <= BLOCK_MAX, "a reader's buffer has no room for the head of a section");

/* ---- Writing ---- */

void
key_run_writer_begin(KeyRunWriter *keys, RunWriter *writer, const KeyLayout *layout, SortRecFormat format)
{
	Assert(format == SORT_REC_128 || (format == SORT_REC_PACKED && layout->total_bits <= 64));
	keys->writer = writer;
	keys->format = format;
	keys->layout = layout;
	keys->wide = layout->total_bits > 64;
	keys->begun = false;
	keys->last = 0;
}

/* Writes the head of the section, whose first key is known. */
static void
begin_section(KeyRunWriter *keys, Key128 first)
{
	const KeyLayout *layout = keys->layout;
	char	   *out = run_writer_room(keys->writer);
	SectionHead head = {.first = first, .total_bits = layout->total_bits, .ncols = layout->ncols};

	Assert(layout->ncols <= KEY_RUN_COLUMNS);
	memcpy(head.cols, layout->cols, layout->ncols * sizeof(LayoutColumn));
	*out = (char) SECTION_MARK;
	memcpy(out + 1, &head, sizeof(head));
	run_writer_block(keys->writer, out + SECTION_SIZE, 0);
	keys->begun = true;
	keys->last = first;
}

static void
put_wide(KeyRunWriter *keys, const SortRec128 *recs, size_t n)
{
	SortKey		block[KEY_DELTA_BLOCK];

	for (size_t k = 0; k < n; k++)
		block[k] = (SortKey) recs[k].hi << 64 | recs[k].lo;
	run_writer_block(keys->writer, key_delta_encode128(keys->last, block, n, run_writer_room(keys->writer)), n);
	keys->last = block[n - 1];
}

static void
put_narrow(KeyRunWriter *keys, const uint64 *words, size_t n)
{
	run_writer_block(keys->writer, key_delta_encode64((uint64) keys->last, words, n, run_writer_room(keys->writer)),
					 n);
	keys->last = words[n - 1];
}

/* Writes records with more room than their keys need. */
static void
put_narrowed(KeyRunWriter *keys, const SortRec128 *recs, size_t n)
{
	uint64		words[KEY_DELTA_BLOCK];

	for (size_t k = 0; k < n; k++)
		words[k] = recs[k].lo;
	put_narrow(keys, words, n);
}

void
key_run_writer_put(KeyRunWriter *keys, const void *recs, size_t n)
{
	if (n > 0 && !keys->begun)
	{
		uint32		rid;

		begin_section(keys, sort_rec_get(recs, keys->format, 0, 0, &rid));
	}
	for (size_t i = 0; i < n; i += KEY_DELTA_BLOCK)
	{
		size_t		count = Min(KEY_DELTA_BLOCK, n - i);

		if (keys->format == SORT_REC_PACKED)
			put_narrow(keys, (const uint64 *) recs + i, count);
		else if (keys->wide)
			put_wide(keys, (const SortRec128 *) recs + i, count);
		else
			put_narrowed(keys, (const SortRec128 *) recs + i, count);
	}
}

/* ---- Translating keys ---- */

static inline Key128
low_bits(int bits)
{
	return ((Key128) 1 << bits) - 1;
}

/*
 * Sums wrap around: a section that a GPU has sorted may have room for more values than the layout,
 * but its values fit.
 */
void
key_translation_begin(KeyTranslation *t, const LayoutColumn *cols, const KeyLayout *layout)
{
	int			from = 0;
	int			to = 0;
	bool		moved = false;

	t->nmoves = 0;
	t->add = 0;
	for (int c = layout->ncols - 1; c >= 0; c--)
	{
		const LayoutColumn *old = &cols[c];
		const LayoutColumn *new = &layout->cols[c];
		KeyMove    *move = &t->moves[t->nmoves];
		Key128		add;

		/* a column without bits has one value, or only NULLs */
		if (old->nulls && old->bits == 0)
			t->add += new->null_value << to;
		else
		{
			add = (Key128) old->base - new->base + new->add - old->add;
			t->add += add << to;
			if (old->bits > 0)
			{
				move->from = from;
				move->to = to;
				move->mask = low_bits(old->bits);
				move->nulls = old->nulls;
				move->null_from = old->null_value;
				move->null_to = (new->null_value - add) << to;
				moved |= from != to || (old->nulls && move->null_from << to != move->null_to);
				t->nmoves++;
			}
		}
		from += old->bits;
		to += new->bits;
	}
	if (!moved)
		t->nmoves = 0;
}

/* Translates n keys. */
#define TRANSLATE(key_t, t, keys, n) \
	do { \
		const key_t add = (key_t) (t)->add; \
		key_t		moved[KEY_DELTA_BLOCK]; \
		if ((t)->nmoves == 0) \
		{ \
			for (size_t i = 0; i < (n); i++) \
				(keys)[i] += add; \
			break; \
		} \
		for (size_t i = 0; i < (n); i++) \
			moved[i] = add; \
		for (int m = 0; m < (t)->nmoves; m++) \
		{ \
			const KeyMove *move = &(t)->moves[m]; \
			const key_t mask = (key_t) move->mask; \
			const key_t null_from = (key_t) move->null_from; \
			const key_t null_to = (key_t) move->null_to; \
			const int	from = move->from; \
			const int	to = move->to; \
			if (move->nulls) \
			{ \
				for (size_t i = 0; i < (n); i++) \
				{ \
					key_t		number = (keys)[i] >> from & mask; \
					moved[i] += number == null_from ? null_to : number << to; \
				} \
			} \
			else \
			{ \
				for (size_t i = 0; i < (n); i++) \
					moved[i] += ((keys)[i] >> from & mask) << to; \
			} \
		} \
		memcpy(keys, moved, (n) * sizeof(key_t)); \
	} while (0)

void
key_translate64(const KeyTranslation *t, uint64 *keys, size_t n)
{
	TRANSLATE(uint64, t, keys, n);
}

void
key_translate128(const KeyTranslation *t, SortKey *keys, size_t n)
{
	TRANSLATE(SortKey, t, keys, n);
}

/* ---- Reading ---- */

Size
key_run_buffer_size(Size piece)
{
	return TYPEALIGN(64, BLOCK_MAX + piece + KEY_DELTA_SLACK);
}

void
key_run_reader_open(KeyRunReader *reader, SpillFile *file, SpillRun *run, const KeyLayout *layout, char *buf,
					Size piece)
{
	memset(reader, 0, sizeof(*reader));
	reader->file = file;
	reader->run = run;
	reader->layout = layout;
	reader->buf = buf;
	reader->piece = piece;
	reader->left = run->rows;
}

/* Makes the buffer contain need bytes from pos on.  False if the run ends before. */
static inline bool
reserve(KeyRunReader *reader, Size need)
{
	while (unlikely(reader->len - reader->pos < need))
	{
		Size		left = reader->len - reader->pos;

		if (reader->next == reader->run->bytes)
			return false;
		memmove(reader->buf, reader->buf + reader->pos, left);
		reader->pos = 0;
		reader->len = left + spill_read_piece(reader->file, reader->run, &reader->next, reader->buf + left,
											reader->piece);
	}
	return true;
}

/* Reads the head of a section, which is at pos. */
static void
read_section(KeyRunReader *reader)
{
	SectionHead head;
	int			bits = 0;

	if (!reserve(reader, SECTION_SIZE))
		run_is_corrupt();
	memcpy(&head, reader->buf + reader->pos + 1, sizeof(head));
	reader->pos += SECTION_SIZE;
	if (head.ncols != reader->layout->ncols)
		run_is_corrupt();
	for (int c = 0; c < head.ncols; c++)
	{
		if (head.cols[c].bits < 0 || head.cols[c].bits > 65)
			run_is_corrupt();
		bits += head.cols[c].bits;
	}
	if (head.total_bits != bits || bits > 128)
		run_is_corrupt();
	key_translation_begin(&reader->translation, head.cols, reader->layout);
	reader->wide = head.total_bits > 64;
	reader->last = head.first;
}

/* Decodes the block at pos, whose keys are to be returned in 128 bits; returns their number. */
static size_t
decode_wide(KeyRunReader *reader, SortKey *keys)
{
	const char *in = reader->buf + reader->pos;
	size_t		n;

	if (reader->wide)
		n = key_delta_decode128(reader->last, in, keys);
	else
	{
		uint64		words[KEY_DELTA_BLOCK];

		n = key_delta_decode64((uint64) reader->last, in, words);
		for (size_t i = 0; i < n; i++)
			keys[i] = words[i];
	}
	reader->last = keys[n - 1];
	key_translate128(&reader->translation, keys, n);
	return n;
}

/* The same for 64 bits. */
static void
decode_narrow(KeyRunReader *reader, uint64 *keys)
{
	size_t		n;

	if (unlikely(reader->wide))
	{
		SortKey		wide[KEY_DELTA_BLOCK];

		n = decode_wide(reader, wide);
		for (size_t i = 0; i < n; i++)
			keys[i] = (uint64) wide[i];
		return;
	}
	n = key_delta_decode64((uint64) reader->last, reader->buf + reader->pos, keys);
	reader->last = keys[n - 1];
	key_translate64(&reader->translation, keys, n);
}

size_t
key_run_read(KeyRunReader *reader, void *keys)
{
	Size		size;
	size_t		n;

	if (reader->left == 0)
		return 0;
	if (!reserve(reader, KEY_DELTA_HEAD))
		run_is_corrupt();
	if ((uint8) reader->buf[reader->pos] == SECTION_MARK)
	{
		read_section(reader);
		if (!reserve(reader, KEY_DELTA_HEAD))
			run_is_corrupt();
	}
	size = key_delta_size(reader->buf + reader->pos, reader->wide ? sizeof(Key128) : sizeof(uint64));
	n = key_delta_count(reader->buf + reader->pos);
	if (size == 0 || n > reader->left || !reserve(reader, size))
		run_is_corrupt();
	if (reader->layout->total_bits > 64)
		(void) decode_wide(reader, keys);
	else
		decode_narrow(reader, keys);
	reader->pos += size;
	reader->left -= n;
	return n;
}
