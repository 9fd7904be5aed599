/*
 * run.c
 *	  Sorted runs: rows in temporary files, or read from a source.
 *
 * All runs of a sort share one spill file.  It is divided into extents of 8 kB to
 * 64 kB, depending on the memory limit.  Bytes are transferred directly between the
 * file and the buffer of a writer or reader.  A writer writes several adjacent extents
 * at once.  A reader reads an extent, or less when many runs are merged.  Extents that
 * have been read are written again, so a merge needs little more disk space than the
 * rows take.  logtape.c does the same per block, but each block passes two more
 * buffers and takes a system call of its own.
 *
 * The spill file consists of segments of 1 GB, as a BufFile does.  The server
 * manages them: OpenTemporaryFile() spreads them over the temporary tablespaces,
 * temp_file_limit and log_temp_files apply, pg_stat_database counts them, and
 * EXPLAIN (BUFFERS) counts reads and writes.  The resource owner closes them on
 * ERROR, and the server removes them after a crash.
 *
 * Memory policy: the spill file has lists of segments and extents only, in the
 * memory context in which it was created.  A writer has a buffer of one extent, or of
 * 1/32 of the memory limit.  A reader uses the buffer of its caller, and a larger one
 * of its own while a row that does not fit is the next one.  An ERROR leaves buffers
 * to their memory context.
 */
#include "postgres.h"

#include "commands/tablespace.h"
#include "compat.h"
#include "executor/instrument.h"
#include "miscadmin.h"
#include "portability/instr_time.h"
#include "sort/run.h"
#include "storage/bufmgr.h"
#include "utils/memutils.h"

#define EXTENT_MAX		((Size) 64 * 1024)
#define WRITE_MAX		((Size) 256 * 1024)
#define SEGMENT_SIZE	((Size) 1024 * 1024 * 1024)

/* For longer rows, in pieces, the reader allocates a buffer while it reads them. */
#define LONG_ROW_PIECES	4

/* ---- Spill file ---- */

/* Size of an extent for a sort with this memory limit. */
static Size
extent_size(Size memory)
{
	Size		extent = EXTENT_MAX;

	/* a merge of about 80 runs, read by whole extents, should fit the memory */
	while (extent > BLCKSZ && extent * 128 > memory)
		extent /= 2;
	return extent;
}

/*
 * Size of a writer's buffer.  The kernel takes a file's memory in pieces as large as
 * the writes, and large pieces cost less.
 */
static Size
write_size(Size memory, Size extent)
{
	Size		size = WRITE_MAX;

	while (size > extent && size * 32 > memory)
		size /= 2;
	return size;
}

SpillFile *
spill_open(Size memory)
{
	SpillFile  *file = palloc0(sizeof(SpillFile));

	PrepareTempTablespaces();
	file->resowner = CurrentResourceOwner;
	file->extent = extent_size(memory);
	file->write = write_size(memory, file->extent);
	file->segment_extents = SEGMENT_SIZE / file->extent;
	return file;
}

static void
add_segment(SpillFile *file)
{
	ResourceOwner old = CurrentResourceOwner;
	Size		size = (file->nsegments + 1) * sizeof(File);

	/* a segment has 1 GB: growing the list by one entry is cheap */
	file->segments = file->segments == NULL ?
		MemoryContextAlloc(GetMemoryChunkContext(file), size) : repalloc(file->segments, size);
	/* the current resource owner may be that of a subtransaction */
	CurrentResourceOwner = file->resowner;
	file->segments[file->nsegments] = OpenTemporaryFile(false);
	CurrentResourceOwner = old;
	file->nsegments++;
}

/* Offset of an extent in its segment. */
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

/* Writes adjacent extents of one segment, from extent on. */
static void
write_extents(SpillFile *file, uint32 extent, const char *data, Size size)
{
	File		segment;
	instr_time	start;
	instr_time	end;

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
}

void
spill_write(SpillFile *file, SpillRun *run, const char *data, Size size)
{
	while (size > 0)
	{
		uint32		first = file->nfree > 0 ? file->free[--file->nfree] : file->nextents++;
		Size		part = Min(size, file->extent);

		extent_list_add(&run->extents, &run->nextents, &run->capacity, first);
		/* at the file's end, extents are adjacent */
		while (part < size && first + part / file->extent == file->nextents &&
			   file->nextents % file->segment_extents != 0)
		{
			extent_list_add(&run->extents, &run->nextents, &run->capacity, file->nextents++);
			part += Min(size - part, file->extent);
		}
		write_extents(file, first, data, part);
		run->bytes += part;
		data += part;
		size -= part;
	}
}

/* Reads size bytes of an extent, from an offset in it. */
static void
read_extent(SpillFile *file, uint32 extent, Size offset, char *buf, Size size)
{
	File		segment = file->segments[extent / file->segment_extents];
	instr_time	start;
	instr_time	end;
	int			got;

	CHECK_FOR_INTERRUPTS();
	if (track_io_timing)
		INSTR_TIME_SET_CURRENT(start);
	got = FileRead(segment, buf, size, extent_offset(file, extent) + offset, WAIT_EVENT_BUFFILE_READ);
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
	/* a block that is read in pieces counts once */
	pgBufferUsage.temp_blks_read += (offset + size + BLCKSZ - 1) / BLCKSZ - (offset + BLCKSZ - 1) / BLCKSZ;
}

Size
spill_read(SpillFile *file, const SpillRun *run, uint32 i, char *buf)
{
	Size		size = Min(file->extent, run->bytes - (uint64) i * file->extent);

	Assert(i < run->nextents);
	read_extent(file, run->extents[i], 0, buf, size);
	return size;
}

/* Frees the run's i-th extent for writing. */
static void
spill_release(SpillFile *file, const SpillRun *run, uint32 i)
{
	extent_list_add(&file->free, &file->nfree, &file->free_capacity, run->extents[i]);
}

/* Reads the run's last extent into buf and removes it from the run. */
static void
spill_take_back(SpillFile *file, SpillRun *run, char *buf)
{
	run->bytes -= spill_read(file, run, run->nextents - 1, buf);
	spill_release(file, run, run->nextents - 1);
	run->nextents--;
}

/* ---- Writing runs ---- */

void
run_writer_open(RunWriter *writer, SpillFile *file)
{
	writer->file = file;
	writer->run = palloc0(sizeof(SpillRun));
	writer->buf = palloc(file->write);
	writer->used = 0;
	writer->rows = 0;
	writer->longest = 0;
}

void
run_writer_reopen(RunWriter *writer, SpillFile *file, SpillRun *run)
{
	writer->file = file;
	writer->run = run;
	writer->buf = palloc(file->write);
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
		Size		part = Min(size, writer->file->write - writer->used);

		memcpy(writer->buf + writer->used, from, part);
		writer->used += part;
		from += part;
		size -= part;
		if (writer->used == writer->file->write)
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

/* ---- Reading runs ---- */

static inline bool
row_is_long(Size piece, Size size)
{
	return size > LONG_ROW_PIECES * piece;
}

Size
run_reader_buffer_size(const SpillRun *run, Size piece, Size headroom)
{
	Size		before = row_is_long(piece, run->longest) ? headroom : Max(headroom, run->longest);

	return before + piece;
}

Size
run_reader_memory(const SpillRun *run, Size piece, Size headroom)
{
	return run_reader_buffer_size(run, piece, headroom) +
		(row_is_long(piece, run->longest) ? run->longest + piece : 0);
}

void
run_reader_open(RunReader *reader, SpillFile *file, SpillRun *run, char *buf, Size piece, Size headroom,
				BulkOwner *owner)
{
	reader->file = file;
	reader->run = run;
	reader->buf = reader->caller_buf = buf;
	reader->buf_size = reader->caller_size = run_reader_buffer_size(run, piece, headroom);
	reader->owner = owner;
	memset(&reader->own, 0, sizeof(reader->own));
	reader->piece = piece;
	reader->headroom = headroom;
	reader->pos = reader->len = 0;
	reader->next = 0;
}

/* Reads the next piece of the run. */
static Size
read_next(RunReader *reader, char *to)
{
	SpillRun   *run = reader->run;
	Size		extent = reader->file->extent;
	uint32		i = reader->next / extent;
	Size		offset = reader->next % extent;
	Size		size = Min(reader->piece, Min(extent - offset, run->bytes - reader->next));

	if (run->source != NULL)
		return run->source->read(run->source, to, reader->piece);
	read_extent(reader->file, run->extents[i], offset, to, size);
	reader->next += size;
	if (reader->next == run->bytes || reader->next % extent == 0)
		spill_release(reader->file, run, i);
	return size;
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

/* Makes room for one piece after the bytes pos .. len. */
static void
reserve_piece(RunReader *reader)
{
	Size		left = reader->len - reader->pos;
	Size		need = Max(next_row_size(reader), left) + reader->piece;

	if (left + reader->piece > reader->buf_size)
	{
		BulkBuf		own = {0};

		/*
		 * if the bytes fit the caller's buffer, free the own one before
		 * allocating a larger one
		 */
		if (has_own_buffer(reader) && left <= reader->caller_size)
			use_buffer(reader, reader->caller_buf, reader->caller_size);
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

		reserve_piece(reader);
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

/* ---- Reading a result in both directions ---- */

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

/* Reads size bytes at an offset of the run. */
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

/* Reads the row at pos and moves behind it; NULL at the end. */
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

/* Moves back by one row; false at the first row. */
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
 * Returns the next row in a direction, as tuplesort_gettupleslot() does: backward from
 * beyond the last row it is the last row, otherwise the row before the one returned last.
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
