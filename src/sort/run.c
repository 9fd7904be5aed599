/*
 * run.c
 *	  Sorted runs: rows in temporary files, or read from a source.
 *
 * Rows of a coded run are stored as differences to the row before.  That halves the bytes
 * of rows with short columns, because headers, upper bytes of numbers and leading key
 * columns repeat.  On processors with the right instructions, coding and decoding a row
 * takes less time than copying the saved bytes to the file's memory and back.
 *
 * Memory policy: a writer has a buffer of one extent, or of 1/32 of the memory limit, and
 * room for a coded row or a block of keys.  A reader uses the buffer of its caller, and a
 * larger one of its own while a row that does not fit is the next one.  An ERROR leaves
 * buffers to their memory context.
 */
#include "postgres.h"

#include "sort/run.h"

/* For longer rows, in pieces, the reader allocates a buffer while it reads them. */
#define LONG_ROW_PIECES	4

/* Least room for rows that are decoded at a time. */
#define DECODED_MIN		((Size) 512)

/* ---- Writing runs ---- */

/* Bytes that coding a row may write from a position in a writer's buffer on. */
#define RECORD_ROOM		(DELTA_RECORD_MAX + DELTA_SLACK)

StaticAssertDecl(RUN_BLOCK_ROOM >= RECORD_ROOM, "a writer's buffer has no room for a record");

static void
open_writer(RunWriter *writer, SpillFile *file, SpillRun *run)
{
	writer->file = file;
	writer->run = run;
	writer->buf = palloc(file->write + RUN_BLOCK_ROOM);
	writer->used = 0;
}

void
run_writer_open(RunWriter *writer, SpillFile *file, bool coded)
{
	SpillRun   *run = palloc0(sizeof(SpillRun));

	run->coded = coded;
	open_writer(writer, file, run);
	memset(file->head, 0, sizeof(file->head));
}

void
run_writer_reopen(RunWriter *writer, SpillFile *file, SpillRun *run)
{
	open_writer(writer, file, run);
	writer->used = run->bytes % file->extent;
	/* all extents but the last are full */
	if (writer->used > 0)
		spill_take_back(file, run, writer->buf);
}

/* Writes the buffer's first file->write bytes, if it has them. */
static inline void
write_full_buffer(RunWriter *writer)
{
	Size		write = writer->file->write;

	if (writer->used < write)
		return;
	spill_write(writer->file, writer->run, writer->buf, write);
	writer->used -= write;
	if (writer->used > 0)
		memcpy(writer->buf, writer->buf + write, writer->used);
}

void
run_writer_bytes(RunWriter *writer, const void *data, Size size)
{
	const char *from = data;

	write_full_buffer(writer);
	while (size > 0)
	{
		Size		len = Min(size, writer->file->write - writer->used);

		memcpy(writer->buf + writer->used, from, len);
		writer->used += len;
		from += len;
		size -= len;
		write_full_buffer(writer);
	}
}

void
run_writer_coded_rows(RunWriter *writer, const char *const *rows, size_t n)
{
	SpillFile  *file = writer->file;
	SpillRun   *run = writer->run;
	const DeltaOps *delta = delta_ops();

	for (size_t i = 0; i < n; i++)
	{
		Size		size = MAXALIGN(((const MinimalTupleData *) rows[i])->t_len);

		run->row_bytes += size;
		run->longest = Max(run->longest, size);
	}
	run->rows += n;
	while (n > 0)
	{
		char	   *to = writer->buf + writer->used;
		size_t		room = (file->write + RECORD_ROOM - writer->used - DELTA_SLACK) / DELTA_RECORD_MAX;
		size_t		done = delta->encode(file->head, rows, Min(n, room), file->ignored, to, &to);
		const char *last = rows[done - 1];
		Size		size = MAXALIGN(((const MinimalTupleData *) last)->t_len);

		writer->used = to - writer->buf;
		if (size > DELTA_HEAD)
			run_writer_bytes(writer, last + DELTA_HEAD, size - DELTA_HEAD);
		else
			write_full_buffer(writer);
		rows += done;
		n -= done;
	}
}

char *
run_writer_room(RunWriter *writer)
{
	Assert(writer->used < writer->file->write);
	return writer->buf + writer->used;
}

void
run_writer_block(RunWriter *writer, const char *end, size_t rows)
{
	writer->used = end - writer->buf;
	Assert(writer->used <= writer->file->write + RUN_BLOCK_ROOM);
	writer->run->rows += rows;
	write_full_buffer(writer);
}

SpillRun *
run_writer_close(RunWriter *writer)
{
	write_full_buffer(writer);
	if (writer->used > 0)
		spill_write(writer->file, writer->run, writer->buf, writer->used);
	pfree(writer->buf);
	return writer->run;
}

/* ---- Reading runs ---- */

void
run_is_corrupt(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("unexpected end of a sort's temporary file")));
}

static inline bool
row_is_long(Size piece, Size size)
{
	return size > LONG_ROW_PIECES * piece;
}

/* Bytes for the rows that a reader decodes at a time, in addition to the headroom. */
static inline Size
decoded_size(Size headroom)
{
	return Max(headroom / 2, DECODED_MIN) + DELTA_SLACK;
}

/* Bytes of a coded run's buffer for the head of a row. */
static inline Size
delta_head_size(const SpillRun *run)
{
	return Min(DELTA_HEAD, Max(DELTA_HEAD_MIN, TYPEALIGN(64, run->longest)));
}

/* Bytes of a coded run's buffer for a piece of the file and a part of a record. */
static inline Size
input_size(Size piece)
{
	return TYPEALIGN(64, piece + DELTA_RECORD_MAX + DELTA_SLACK);
}

/* Bytes of the caller's buffer for rows. */
static Size
rows_size(const SpillRun *run, Size piece, Size headroom)
{
	Size		before = row_is_long(piece, run->longest) ? headroom : Max(headroom, run->longest);

	return before + (run->coded ? decoded_size(headroom) : piece);
}

Size
run_reader_buffer_size(const SpillRun *run, Size piece, Size headroom)
{
	return rows_size(run, piece, headroom) + (run->coded ? delta_head_size(run) + input_size(piece) : 0);
}

Size
run_reader_memory(const SpillRun *run, Size piece, Size headroom)
{
	Size		memory = run_reader_buffer_size(run, piece, headroom);

	if (row_is_long(piece, run->longest))
		memory += run->longest + (run->coded ? decoded_size(headroom) : piece);
	return memory;
}

void
run_reader_open(RunReader *reader, SpillFile *file, SpillRun *run, char *buf, Size piece, Size headroom,
				BulkOwner *owner)
{
	memset(reader, 0, sizeof(RunReader));
	reader->file = file;
	reader->run = run;
	if (run->coded)
	{
		reader->head = buf;
		memset(reader->head, 0, delta_head_size(run));
		reader->input = buf + delta_head_size(run);
		buf = reader->input + input_size(piece);
	}
	reader->buf = reader->caller_buf = buf;
	reader->buf_size = reader->caller_size = rows_size(run, piece, headroom);
	reader->owner = owner;
	reader->piece = piece;
	reader->headroom = headroom;
}

void
run_free(SpillRun *run)
{
	if (run->extents != NULL)
		pfree(run->extents);
	pfree(run);
}

/* Reads the next piece of the run. */
static Size
read_next(RunReader *reader, char *to)
{
	SpillRun   *run = reader->run;

	if (run->source != NULL)
		return run->source->read(run->source, to, reader->piece);
	return spill_read_piece(reader->file, run, &reader->next, to, reader->piece);
}

/* Moves the bytes pos .. len to another buffer and frees the reader's own one. */
static void
use_buffer(RunReader *reader, char *buf, Size size)
{
	memcpy(buf, reader->buf + reader->pos, reader->len - reader->pos);
	bulk_free(reader->owner, &reader->own);
	reader->buf = buf;
	reader->buf_size = size;
	reader->len -= reader->pos;
	reader->pos = 0;
}

static inline bool
has_own_buffer(const RunReader *reader)
{
	return reader->own.ptr != NULL;
}

/* Size of the row at pos, whole or not; 0 if the buffer does not have its length. */
static inline Size
next_row_size(const RunReader *reader)
{
	return reader->len - reader->pos < sizeof(uint64) ? 0 :
		MAXALIGN(((MinimalTuple) (reader->buf + reader->pos))->t_len);
}

/*
 * Frees the reader's own buffer after the long row has been passed, unless the next
 * row needs a buffer of about the same size.
 */
static void
release_own_buffer(RunReader *reader)
{
	Size		left = reader->len - reader->pos;
	Size		need = Max(next_row_size(reader), left) + reader->piece;

	if (left <= reader->caller_size && (need <= reader->caller_size || need < reader->buf_size / 2))
		use_buffer(reader, reader->caller_buf, reader->caller_size);
}

/*
 * Moves the bytes pos .. len to the begin of a buffer of at least need bytes: the current
 * one, or a new one of size bytes.
 */
static void
reserve_buffer(RunReader *reader, Size need, Size size)
{
	Size		left = reader->len - reader->pos;

	if (need > reader->buf_size)
	{
		BulkBuf		own = {0};

		/*
		 * if the bytes fit the caller's buffer, free the own one before
		 * allocating a larger one
		 */
		if (has_own_buffer(reader) && left <= reader->caller_size)
			use_buffer(reader, reader->caller_buf, reader->caller_size);
		bulk_reserve(reader->owner, &own, size, 0);
		use_buffer(reader, own.ptr, size);
		reader->own = own;
		return;
	}
	if (reader->pos > 0)
		memmove(reader->buf, reader->buf + reader->pos, left);
	reader->pos = 0;
	reader->len = left;
}

/* ---- Decoding rows ---- */

/* Reads the next piece of a coded run behind those that are not decoded.  False at the end of the run. */
static bool
read_input(RunReader *reader)
{
	Size		left = reader->input_len - reader->input_pos;

	Assert(left <= DELTA_RECORD_MAX);
	if (reader->next == reader->run->bytes)
		return false;
	memmove(reader->input, reader->input + reader->input_pos, left);
	reader->input_pos = 0;
	reader->input_len = left;
	reader->input_len += read_next(reader, reader->input + left);
	return true;
}

/* Makes the buffer contain need bytes after the bytes pos .. len, which move to its begin. */
static void
reserve_decoded(RunReader *reader, Size need)
{
	Size		left = reader->len - reader->pos;

	need += left + DELTA_SLACK;
	if (has_own_buffer(reader) && need <= reader->caller_size)
		use_buffer(reader, reader->caller_buf, reader->caller_size);
	else
		reserve_buffer(reader, need, need);
}

/* Copies the bytes of a row that follow its head. */
static void
copy_row_end(RunReader *reader, Size size)
{
	while (size > 0)
	{
		Size		len = Min(size, reader->input_len - reader->input_pos);

		memcpy(reader->buf + reader->len, reader->input + reader->input_pos, len);
		reader->len += len;
		reader->input_pos += len;
		size -= len;
		if (size > 0 && !read_input(reader))
			run_is_corrupt();
	}
}

/* Decodes rows until the buffer is full, or a piece must be read and there is headroom. */
static void
fill_decoded(RunReader *reader)
{
	const DeltaOps *delta = delta_ops();
	Size		need = 0;

	for (;;)
	{
		DeltaDecoder decoder;
		DeltaStop	stop;

		reserve_decoded(reader, need);
		decoder.head = reader->head;
		decoder.in = reader->input + reader->input_pos;
		decoder.in_end = reader->input + reader->input_len;
		decoder.out = reader->buf + reader->len;
		decoder.out_end = reader->buf + reader->buf_size - DELTA_SLACK;
		decoder.longest = reader->run->longest;
		stop = delta->decode(&decoder);
		reader->input_pos = decoder.in - reader->input;
		reader->len = decoder.out - reader->buf;
		need = 0;
		switch (stop)
		{
			case DELTA_INPUT:
				if (reader->len - reader->pos > reader->headroom)
					return;
				if (!read_input(reader))
				{
					if (reader->input_pos < reader->input_len)
						run_is_corrupt();
					return;
				}
				break;
			case DELTA_ROOM:
				if (reader->len - reader->pos > reader->headroom)
					return;
				need = decoder.need;
				break;
			case DELTA_LONG:
				copy_row_end(reader, MAXALIGN(((MinimalTuple) (reader->buf + reader->len - DELTA_HEAD))->t_len) -
							 DELTA_HEAD);
				break;
			case DELTA_CORRUPT:
				run_is_corrupt();
		}
	}
}

/* ---- Filling the buffer ---- */

void
run_reader_fill(RunReader *reader)
{
	if (reader->run->coded)
	{
		if (reader->len - reader->pos <= reader->headroom)
			fill_decoded(reader);
		return;
	}
	if (unlikely(has_own_buffer(reader)))
		release_own_buffer(reader);
	for (;;)
	{
		Size		left = reader->len - reader->pos;
		bool		whole = run_reader_row_size(reader, reader->pos) > 0;

		if (!run_reader_more(reader, reader->len))
		{
			if (left > 0 && !whole && !run_reader_failed(reader))
				run_is_corrupt();
			return;
		}
		if (whole && left > reader->headroom)
			return;

		reserve_buffer(reader, left + reader->piece, Max(next_row_size(reader), left) + reader->piece);
		reader->len += read_next(reader, reader->buf + reader->len);
	}
}

void
run_reader_close(RunReader *reader)
{
	bulk_free(reader->owner, &reader->own);
	if (reader->run->source != NULL)
		reader->run->source->end(reader->run->source);
	run_free(reader->run);
	reader->run = NULL;
	reader->buf = NULL;
}

/* ---- Reading at any place ---- */

void
run_cursor_open(RunCursor *cursor, SpillFile *file, SpillRun *run)
{
	memset(cursor, 0, sizeof(RunCursor));
	cursor->file = file;
	cursor->run = run;
	cursor->buf = palloc(file->extent);
	cursor->buffered = PG_UINT32_MAX;
}

void
run_cursor_read(RunCursor *cursor, uint64 pos, void *to, Size size)
{
	Size		extent_size = cursor->file->extent;

	if (pos + size > cursor->run->bytes)
		run_is_corrupt();
	while (size > 0)
	{
		uint32		extent = pos / extent_size;
		Size		offset = pos % extent_size;
		Size		len = Min(size, extent_size - offset);

		if (extent != cursor->buffered)
		{
			cursor->buffered = PG_UINT32_MAX;
			spill_read(cursor->file, cursor->run, extent, cursor->buf);
			cursor->buffered = extent;
		}
		memcpy(to, cursor->buf + offset, len);
		to = (char *) to + len;
		pos += len;
		size -= len;
	}
}
