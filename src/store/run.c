/*
 * run.c
 *	  Sorted runs in temporary files.
 *
 * All runs of a sort share one space.  It is written and read by the extent, from
 * 8 kB to 64 kB depending on work_mem, straight between the file and the caller's
 * buffer.  An extent that has been read is used again, so merging needs hardly
 * more disk than the rows take.
 *
 * The space is files of 1 GB, as a BufFile's: a large sort is spread over the
 * temporary tablespaces, and counted in pg_stat_database.temp_files, as a Sort is.
 *
 * Why not logtape.c over BufFile, which do the same by the block: every 8 kB went
 * through two more buffers and a system call of its own.  Spilling 10M rows of 96
 * bytes with work_mem = 64 MB took 1.7 s of user and 0.9 s of system time then,
 * and takes 1.2 s and 0.4 s so.  Extents of 256 kB were no faster than of 64 kB.
 *
 * The files are the server's: OpenTemporaryFile() puts each into the next of the
 * temporary tablespaces, temp_file_limit and log_temp_files hold, and they go with
 * the resource owner on ERROR and are swept after a crash.  Reads and writes count
 * in EXPLAIN (BUFFERS).
 *
 * Memory policy: lists of files and extent numbers only, in the memory context in
 * which the sort began to spill.
 */
#include "postgres.h"

#include "commands/tablespace.h"
#include "compat.h"
#include "executor/instrument.h"
#include "miscadmin.h"
#include "portability/instr_time.h"
#include "storage/bufmgr.h"
#include "store/run.h"
#include "utils/memutils.h"

#define EXTENT_MAX		((Size) 64 * 1024)
#define SEGMENT_SIZE	((Size) 1024 * 1024 * 1024)

/* For a sort that may use so many bytes of memory. */
static Size
extent_size(Size memory)
{
	Size		extent = EXTENT_MAX;

	/* some eighty runs should be merged at once, for what does not fit is written twice */
	while (extent > BLCKSZ && extent * 128 > memory)
		extent /= 2;
	return extent;
}

SpillFile *
spill_open(Size memory)
{
	SpillFile  *file = palloc0(sizeof(SpillFile));

	PrepareTempTablespaces();
	file->resowner = CurrentResourceOwner;
	file->extent = extent_size(memory);
	file->segment_extents = SEGMENT_SIZE / file->extent;
	return file;
}

static void
add_segment(SpillFile *file)
{
	ResourceOwner old = CurrentResourceOwner;
	Size		size = (file->nsegments + 1) * sizeof(File);

	/* once a gigabyte: the list need not grow in larger steps */
	file->segments = file->segments == NULL ?
		MemoryContextAlloc(GetMemoryChunkContext(file), size) : repalloc(file->segments, size);
	/* rows may come in a subtransaction of the one that the sort began in */
	CurrentResourceOwner = file->resowner;
	file->segments[file->nsegments] = OpenTemporaryFile(false);
	CurrentResourceOwner = old;
	file->nsegments++;
}

/* Where an extent lies in its segment. */
static off_t
extent_offset(const SpillFile *file, uint32 extent)
{
	return (off_t) (extent % file->segment_extents) * file->extent;
}

void
spill_close(SpillFile *file)
{
	for (uint32 i = 0; i < file->nsegments; i++)
		FileClose(file->segments[i]);
	if (file->segments != NULL)
		pfree(file->segments);
	if (file->free != NULL)
		pfree(file->free);
	pfree(file);
}

/* Appends to a growing list of extent numbers. */
static void
extent_list_add(uint32 **list, uint32 *n, uint32 *capacity, uint32 extent)
{
	if (*n == *capacity)
	{
		uint32		grown = Max(16, *capacity * 2);

		if (*list == NULL)
			*list = palloc(grown * sizeof(uint32));
		else
			*list = repalloc_huge(*list, (Size) grown * sizeof(uint32));
		*capacity = grown;
	}
	(*list)[(*n)++] = extent;
}

void
spill_write(SpillFile *file, SpillRun *run, const char *data, Size size)
{
	uint32		extent = file->nfree > 0 ? file->free[--file->nfree] : file->nextents++;
	File		segment;
	instr_time	start;
	instr_time	end;

	Assert(size <= file->extent);
	CHECK_FOR_INTERRUPTS();
	if (extent / file->segment_extents == file->nsegments)
		add_segment(file);
	segment = file->segments[extent / file->segment_extents];
	if (track_io_timing)
		INSTR_TIME_SET_CURRENT(start);
	if (FileWrite(segment, unconstify(char *, data), size,
				  extent_offset(file, extent), WAIT_EVENT_BUFFILE_WRITE) != size)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not write to file \"%s\": %m", FilePathName(segment))));
	if (track_io_timing)
	{
		INSTR_TIME_SET_CURRENT(end);
		INSTR_TIME_ACCUM_DIFF(pgBufferUsage.temp_blk_write_time, end, start);
	}
	pgBufferUsage.temp_blks_written += (size + BLCKSZ - 1) / BLCKSZ;

	extent_list_add(&run->extents, &run->nextents, &run->capacity, extent);
	run->bytes += size;
}

Size
spill_read(SpillFile *file, const SpillRun *run, uint32 i, char *buf)
{
	Size		size = i + 1 < run->nextents ? file->extent :
		run->bytes - (uint64) i * file->extent;
	File		segment = file->segments[run->extents[i] / file->segment_extents];
	instr_time	start;
	instr_time	end;
	int			got;

	Assert(i < run->nextents);
	CHECK_FOR_INTERRUPTS();
	if (track_io_timing)
		INSTR_TIME_SET_CURRENT(start);
	got = FileRead(segment, buf, size, extent_offset(file, run->extents[i]),
				   WAIT_EVENT_BUFFILE_READ);
	if (got < 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not read file \"%s\": %m", FilePathName(segment))));
	if (got != size)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("could not read file \"%s\": read only %d of %zu bytes",
						FilePathName(segment), got, size)));
	if (track_io_timing)
	{
		INSTR_TIME_SET_CURRENT(end);
		INSTR_TIME_ACCUM_DIFF(pgBufferUsage.temp_blk_read_time, end, start);
	}
	pgBufferUsage.temp_blks_read += (size + BLCKSZ - 1) / BLCKSZ;
	return size;
}

/* The run's i-th extent will not be read again. */
static void
spill_release(SpillFile *file, const SpillRun *run, uint32 i)
{
	extent_list_add(&file->free, &file->nfree, &file->free_capacity, run->extents[i]);
}

/* Takes the run's last extent off it, into buf. */
static void
spill_take_back(SpillFile *file, SpillRun *run, char *buf)
{
	run->bytes -= spill_read(file, run, run->nextents - 1, buf);
	spill_release(file, run, run->nextents - 1);
	run->nextents--;
}

/* ------------------------------------------------------------------------
 * Sorted runs in a temporary file.
 *
 * Memory policy: a writer has one extent; a reader's buffer is given by the merge, and replaced
 * only for a row that does not fit it, for as long as that row is the next one.  An ERROR leaves
 * buffers to their memory context and the file to its resource owner.
 * ------------------------------------------------------------------------
 */

/* A row longer than this many extents gets a buffer of its own while it is read. */
#define LONG_ROW_EXTENTS	4

void
run_writer_open(RunWriter *writer, SpillFile *file)
{
	writer->file = file;
	writer->run = palloc0(sizeof(SpillRun));
	writer->buf = palloc(file->extent);
	writer->used = 0;
	writer->rows = 0;
	writer->longest = 0;
}

void
run_writer_reopen(RunWriter *writer, SpillFile *file, SpillRun *run)
{
	writer->file = file;
	writer->run = run;
	writer->buf = palloc(file->extent);
	writer->used = run->bytes % file->extent;
	writer->rows = run->rows;
	writer->longest = run->longest;
	/* all extents but the last are full */
	if (writer->used > 0)
		spill_take_back(file, run, writer->buf);
}

void
run_writer_bytes(RunWriter *writer, const void *data, Size size)
{
	const char *from = data;

	while (size > 0)
	{
		Size		part = Min(size, writer->file->extent - writer->used);

		memcpy(writer->buf + writer->used, from, part);
		writer->used += part;
		from += part;
		size -= part;
		if (writer->used == writer->file->extent)
		{
			spill_write(writer->file, writer->run, writer->buf, writer->used);
			writer->used = 0;
		}
	}
}

SpillRun *
run_writer_close(RunWriter *writer)
{
	if (writer->used > 0)
		spill_write(writer->file, writer->run, writer->buf, writer->used);
	pfree(writer->buf);
	writer->run->rows = writer->rows;
	writer->run->longest = writer->longest;
	return writer->run;
}

SpillRun *
run_of_source(RunSource *source, uint64 bytes)
{
	SpillRun   *run = palloc0(sizeof(SpillRun));

	run->source = source;
	run->bytes = bytes;
	return run;
}

static inline bool
row_is_long(const SpillFile *file, Size size)
{
	return size > LONG_ROW_EXTENTS * file->extent;
}

Size
run_reader_buffer_size(const SpillFile *file, const SpillRun *run, Size headroom)
{
	Size		before = row_is_long(file, run->longest) ? headroom : Max(headroom, run->longest);

	return before + file->extent;
}

Size
run_reader_memory(const SpillFile *file, const SpillRun *run, Size headroom)
{
	return run_reader_buffer_size(file, run, headroom) +
		(row_is_long(file, run->longest) ? run->longest + file->extent : 0);
}

void
run_reader_open(RunReader *reader, SpillFile *file, SpillRun *run, char *buf, Size headroom,
				BulkOwner *owner)
{
	reader->file = file;
	reader->run = run;
	reader->buf = reader->given_buf = buf;
	reader->buf_size = reader->given_size = run_reader_buffer_size(file, run, headroom);
	reader->owner = owner;
	memset(&reader->own, 0, sizeof(reader->own));
	reader->headroom = headroom;
	reader->pos = reader->len = 0;
	reader->next_extent = 0;
}

/* The run's next bytes, an extent of them at most. */
static Size
read_next(RunReader *reader, char *to)
{
	Size		size;

	if (reader->run->source != NULL)
		return reader->run->source->read(reader->run->source, to, reader->file->extent);
	size = spill_read(reader->file, reader->run, reader->next_extent, to);
	spill_release(reader->file, reader->run, reader->next_extent);
	reader->next_extent++;
	return size;
}

/* What the buffer still holds moves to another one, which becomes the reader's; its own is freed. */
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

/* The size of the row at pos, of which the buffer may have a part; 0 if not even its length is there. */
static inline Size
next_row_size(const RunReader *reader)
{
	return reader->len - reader->pos < sizeof(uint64) ? 0 :
		MAXALIGN(((MinimalTuple) (reader->buf + reader->pos))->t_len);
}

/*
 * The row that the reader's own buffer was made for has been passed: frees the buffer, unless
 * the next row needs about as much.
 */
static void
release_own_buffer(RunReader *reader)
{
	Size		left = reader->len - reader->pos;
	Size		need = Max(next_row_size(reader), left) + reader->file->extent;

	if (left <= reader->given_size && (need <= reader->given_size || need < reader->buf_size / 2))
		use_buffer(reader, reader->given_buf, reader->given_size);
}

/* Makes room for an extent behind what the buffer still holds. */
static void
make_room(RunReader *reader)
{
	Size		left = reader->len - reader->pos;
	Size		need = Max(next_row_size(reader), left) + reader->file->extent;

	if (left + reader->file->extent > reader->buf_size)
	{
		BulkBuf		own = {0};

		/* a smaller one of its own goes first if what it holds is little, not to have both */
		if (has_own_buffer(reader) && left <= reader->given_size)
			use_buffer(reader, reader->given_buf, reader->given_size);
		bulk_reserve(reader->owner, &own, need, 0);
		use_buffer(reader, own.ptr, need);
		reader->own = own;
		return;
	}
	if (reader->pos > 0)
		memmove(reader->buf, reader->buf + reader->pos, left);
	reader->pos = 0;
	reader->len = left;
}

void
run_reader_fill(RunReader *reader)
{
	if (unlikely(has_own_buffer(reader)))
		release_own_buffer(reader);
	for (;;)
	{
		Size		left = reader->len - reader->pos;
		bool		whole = run_reader_row_size(reader, reader->pos) > 0;

		if (!run_reader_more(reader, reader->len))
		{
			if (left > 0 && !whole && !run_reader_failed(reader))
				ereport(ERROR,
						(errcode(ERRCODE_DATA_CORRUPTED),
						 errmsg("unexpected end of a sort's temporary file")));
			return;
		}
		if (whole && left > reader->headroom)
			return;

		make_room(reader);
		reader->len += read_next(reader, reader->buf + reader->len);
	}
}

void
run_reader_close(RunReader *reader)
{
	bulk_free(reader->owner, &reader->own);
	if (reader->run->extents != NULL)
		pfree(reader->run->extents);
	if (reader->run->source != NULL)
		reader->run->source->end(reader->run->source);
	pfree(reader->run);
	reader->run = NULL;
	reader->buf = NULL;
}

void
run_cursor_write_row(RunWriter *writer, MinimalTuple row)
{
	uint64		size = MAXALIGN(row->t_len);

	run_writer_row(writer, row);
	run_writer_bytes(writer, &size, sizeof(size));
}

void
run_cursor_open(RunCursor *cursor, SpillFile *file, SpillRun *run)
{
	memset(cursor, 0, sizeof(RunCursor));
	cursor->file = file;
	cursor->run = run;
	cursor->buf = palloc(file->extent);
	cursor->buffered = PG_UINT32_MAX;
}

/* Reads size bytes at a position of the run. */
static void
run_cursor_read(RunCursor *cursor, uint64 pos, void *to, Size size)
{
	Size		extent_size = cursor->file->extent;

	if (pos + size > cursor->run->bytes)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("unexpected end of a sort's temporary file")));
	while (size > 0)
	{
		uint32		extent = pos / extent_size;
		Size		offset = pos % extent_size;
		Size		part = Min(size, extent_size - offset);

		if (extent != cursor->buffered)
		{
			cursor->buffered = PG_UINT32_MAX;
			spill_read(cursor->file, cursor->run, extent, cursor->buf);
			cursor->buffered = extent;
		}
		memcpy(to, cursor->buf + offset, part);
		to = (char *) to + part;
		pos += part;
		size -= part;
	}
}

/* Reads the row at pos and steps over it; NULL at the end. */
static MinimalTuple
run_cursor_read_row(RunCursor *cursor)
{
	uint32		len;
	Size		size;

	if (cursor->pos == cursor->run->bytes)
		return NULL;
	run_cursor_read(cursor, cursor->pos, &len, sizeof(len));
	size = MAXALIGN(len);
	if (size > cursor->row_size)
	{
		if (cursor->row != NULL)
			pfree(cursor->row);
		cursor->row = NULL;
		cursor->row_size = 0;
		cursor->row = palloc_extended(Max(size, 1024), MCXT_ALLOC_HUGE);
		cursor->row_size = Max(size, 1024);
	}
	run_cursor_read(cursor, cursor->pos, cursor->row, size);
	cursor->pos += size + sizeof(uint64);
	return cursor->row;
}

/* Steps back over one row; false if there is none. */
static bool
run_cursor_step_back(RunCursor *cursor)
{
	uint64		size;

	if (cursor->pos == 0)
		return false;
	run_cursor_read(cursor, cursor->pos - sizeof(size), &size, sizeof(size));
	cursor->pos -= size + sizeof(size);
	return true;
}

/*
 * The next row in either direction, with a Sort's manners at the ends: going
 * back from beyond the last row gives the last row, otherwise the one before
 * the row last given.
 */
MinimalTuple
run_cursor_next(RunCursor *cursor, bool forward)
{
	if (forward)
	{
		MinimalTuple row = run_cursor_read_row(cursor);

		cursor->eof = (row == NULL);
		return row;
	}

	if (cursor->eof)
		cursor->eof = false;
	else if (!run_cursor_step_back(cursor))
		return NULL;
	if (!run_cursor_step_back(cursor))
		return NULL;
	return run_cursor_read_row(cursor);
}

void
run_cursor_rewind(RunCursor *cursor)
{
	cursor->pos = cursor->mark_pos = 0;
	cursor->eof = cursor->mark_eof = false;
}

void
run_cursor_mark(RunCursor *cursor)
{
	cursor->mark_pos = cursor->pos;
	cursor->mark_eof = cursor->eof;
}

void
run_cursor_restore(RunCursor *cursor)
{
	cursor->pos = cursor->mark_pos;
	cursor->eof = cursor->mark_eof;
}
