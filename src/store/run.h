/*
 * run.h
 *	  Sorted runs in temporary files.
 */
#ifndef GPUSORT_STORE_RUN_H
#define GPUSORT_STORE_RUN_H

#include "postgres.h"

#include "access/htup_details.h"
#include "lib/ilist.h"
#include "storage/fd.h"
#include "store/memory.h"
#include "utils/resowner.h"

typedef struct SpillFile
{
	File	   *segments;
	uint32		nsegments;
	uint32		segment_extents;	/* extents of each */
	ResourceOwner resowner;		/* of all segments */
	Size		extent;			/* bytes, a multiple of BLCKSZ */
	uint32		nextents;		/* the size of all segments */
	uint32	   *free;			/* extents to use again */
	uint32		nfree;
	uint32		free_capacity;
} SpillFile;

struct RunSource;

/* A sequence of bytes in extents, or one that is not here yet. */
typedef struct SpillRun
{
	uint64		bytes;
	uint64		rows;			/* 0: not known, likewise the longest */
	Size		longest;		/* bytes of its longest row */
	struct RunSource *source;	/* where it comes from (run.h); NULL: extents */
	uint32	   *extents;
	uint32		nextents;
	uint32		capacity;
} SpillRun;

/*
 * Begins with no file yet, for a sort that may use so many bytes of memory; in the
 * current memory context and, all files that come, in the current resource owner.
 */
extern SpillFile *spill_open(Size memory);
extern void spill_close(SpillFile *file);

/* Appends size <= extent bytes to a run as an extent of its own. */
extern void spill_write(SpillFile *file, SpillRun *run, const char *data, Size size);

/* Reads the run's i-th extent into buf; returns its length. */
extern Size spill_read(SpillFile *file, const SpillRun *run, uint32 i, char *buf);

/* ------------------------------------------------------------------------
 * Sorted runs in a temporary file.
 *
 * A run is a sequence of MinimalTuples, each padded to 8 bytes; its key is not
 * stored, for it is cheap to make again from a row that is being read anyway.
 *
 * A run may also lie elsewhere, in order, and come as it is read.
 * ------------------------------------------------------------------------
 */

/* A run's source that is not the file.  Whoever makes one says what it is. */
typedef struct RunSource
{
	/* Up to size bytes that come next; 0 if they are lost: then more is false, and lost holds. */
	Size		(*read) (struct RunSource *source, char *to, Size size);

	/* Gives it up, read to the end or not, and its memory. */
	void		(*end) (struct RunSource *source);

	bool		more;
	bool		failed;
	dlist_node	node;			/* its owner's, who ends those that nobody has ended; taken off by end */
} RunSource;

/* A run that is the source's so many bytes. */
extern SpillRun *run_of_source(RunSource *source, uint64 bytes);

/* Writes one run through a buffer of one extent. */
typedef struct RunWriter
{
	SpillFile  *file;
	SpillRun   *run;
	char	   *buf;
	Size		used;
	uint64		rows;			/* of the run */
	Size		longest;		/* bytes of its longest row */
} RunWriter;

extern void run_writer_open(RunWriter *writer, SpillFile *file);

/* More will be written to the end of a run that has been closed, but not been read. */
extern void run_writer_reopen(RunWriter *writer, SpillFile *file, SpillRun *run);

extern void run_writer_bytes(RunWriter *writer, const void *data, Size size);

/* Ends the run, which is then the caller's. */
extern SpillRun *run_writer_close(RunWriter *writer);

static inline void
run_writer_row(RunWriter *writer, MinimalTuple row)
{
	Size		size = MAXALIGN(row->t_len);

	writer->rows++;
	writer->longest = Max(writer->longest, size);
	if (likely(size < writer->file->extent - writer->used))
	{
		memcpy(writer->buf + writer->used, row, size);
		writer->used += size;
	}
	else
		run_writer_bytes(writer, row, size);
}

/*
 * Reads a run forward, an extent at a time, giving each back once it is read.  What is
 * in the buffer, from pos to len, is the reader's owner's until run_reader_fill().
 *
 * A row that is too long for the buffer is read into one of its own, which is freed when
 * the row has been passed.
 */
typedef struct RunReader
{
	SpillFile  *file;
	SpillRun   *run;
	char	   *buf;			/* the caller's buffer, or own */
	Size		buf_size;
	char	   *given_buf;		/* the caller's buffer */
	Size		given_size;
	BulkOwner  *owner;
	BulkBuf		own;			/* for a long row */
	Size		headroom;
	Size		pos;			/* the first row that is still needed, from buf */
	Size		len;			/* bytes in buf */
	uint32		next_extent;
} RunReader;

/*
 * Bytes of the buffer for a run: an extent, and before it the headroom or the longest row, unless that
 * is very long.
 */
extern Size run_reader_buffer_size(const SpillFile *file, const SpillRun *run, Size headroom);

/* Bytes that reading a run takes at most: the buffer, and one of its own for a very long row. */
extern Size run_reader_memory(const SpillFile *file, const SpillRun *run, Size headroom);

extern void run_reader_open(RunReader *reader, SpillFile *file, SpillRun *run, char *buf,
							Size headroom, BulkOwner *owner);

/*
 * What lies before pos is not needed any more.  Makes sure that, unless the run ends,
 * more than headroom bytes follow, and a whole row: may move them and change pos, buf
 * and len.
 */
extern void run_reader_fill(RunReader *reader);

/* Frees the run, and ends its source. */
extern void run_reader_close(RunReader *reader);

/* The size of the row that begins at a place in the buffer; 0 if it does not end there. */
static inline Size
run_reader_row_size(const RunReader *reader, Size at)
{
	Size		left = reader->len - at;
	Size		size;

	if (left < sizeof(uint64))
		return 0;
	size = MAXALIGN(((MinimalTuple) (reader->buf + at))->t_len);
	return size <= left ? size : 0;
}

/* Is there anything behind that place? */
static inline bool
run_reader_more(const RunReader *reader, Size at)
{
	return at < reader->len ||
		(reader->run->source != NULL ? reader->run->source->more :
		 reader->next_extent < reader->run->nextents);
}

/* Are the rows that should follow lost?  Then what is in the buffer may not be used, either. */
static inline bool
run_reader_failed(const RunReader *reader)
{
	return reader->run->source != NULL && reader->run->source->failed;
}

/*
 * The sorted result as one run that can be read both ways: each row is followed
 * by its padded length, 8 bytes.
 */
typedef struct RunCursor
{
	SpillFile  *file;
	SpillRun   *run;
	char	   *buf;			/* one extent */
	uint32		buffered;		/* which */
	uint64		pos;			/* next byte to read */
	bool		eof;
	uint64		mark_pos;
	bool		mark_eof;
	MinimalTuple row;			/* the row last read, palloc'd */
	Size		row_size;
} RunCursor;

extern void run_cursor_write_row(RunWriter *writer, MinimalTuple row);
extern void run_cursor_open(RunCursor *cursor, SpillFile *file, SpillRun *run);
extern MinimalTuple run_cursor_next(RunCursor *cursor, bool forward);
extern void run_cursor_rewind(RunCursor *cursor);
extern void run_cursor_mark(RunCursor *cursor);
extern void run_cursor_restore(RunCursor *cursor);

#endif							/* GPUSORT_STORE_RUN_H */
