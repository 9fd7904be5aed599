/*
 * run.h
 *	  Sorted runs: rows in temporary files, or read from a source.
 *
 * A run is a sequence of MinimalTuples in sort order, each padded to 8 bytes.  Keys are
 * not stored: the merge makes them from the rows.  In a coded run each row is stored as
 * its difference to the row before (kernel/row_delta.h).
 */
#ifndef GPUSORT_SORT_RUN_H
#define GPUSORT_SORT_RUN_H

#include "postgres.h"

#include "access/htup_details.h"
#include "compat.h"
#include "kernel/row_delta.h"
#include "lib/ilist.h"
#include "storage/fd.h"
#include "store/store.h"
#include "utils/resowner.h"

/* The temporary files of a sort, divided into extents. */
typedef struct SpillFile
{
	File	   *segments;		/* temporary files of at most 1 GB */
	uint32		nsegments;
	uint32		segment_extents;	/* extents of a segment */
	ResourceOwner resowner;		/* owner of all segments */
	Size		extent;			/* bytes of an extent, a multiple of BLCKSZ */
	Size		write;			/* bytes of a writer's buffer, some extents */
	uint32		nextents;		/* extents of all segments, free ones included */
	uint32	   *free;			/* extents that can be written again */
	uint32		nfree;
	uint32		free_capacity;	/* entries of free */

	/* coded rows: the last one written, and the bytes that are not coded */
	char		head[DELTA_HEAD];
	DeltaIgnored ignored;
} SpillFile;

struct RunSource;

/* A run: bytes in extents of a spill file, or bytes that a source delivers. */
typedef struct SpillRun
{
	uint64		bytes;			/* in the file, or from the source */
	uint64		row_bytes;		/* bytes of all rows, not coded; 0: bytes */
	uint64		rows;			/* number of rows; 0: unknown */
	Size		longest;		/* bytes of the longest row; 0: unknown */
	bool		coded;
	struct RunSource *source;	/* delivers the bytes; NULL: extents */

	/* extent numbers, in order; all but the last are full */
	uint32	   *extents;
	uint32		nextents;
	uint32		capacity;		/* entries of extents */
} SpillRun;

/*
 * Creates a spill file in the current memory context.  The first segment is created on
 * the first write; all segments belong to the current resource owner.  memory is the
 * memory limit of the sort, which determines the extent size.
 */
extern SpillFile *spill_open(Size memory);
extern void spill_close(SpillFile *file);

/* Appends bytes to a run of full extents. */
extern void spill_write(SpillFile *file, SpillRun *run, const char *data, Size size);

/* Reads the run's i-th extent into buf; returns its length. */
extern Size spill_read(SpillFile *file, const SpillRun *run, uint32 i, char *buf);

/* Reads the run's last extent into buf and removes it from the run. */
extern void spill_take_back(SpillFile *file, SpillRun *run, char *buf);

/*
 * Reads the next piece of a run in the file: at most size bytes, of one extent, from *next
 * on.  Advances *next and returns the number of bytes.  An extent that has been read is
 * free for writing.
 */
extern Size spill_read_piece(SpillFile *file, const SpillRun *run, uint64 *next, char *to, Size size);

/* Delivers a sorted run that is not in a spill file, for example rows on a GPU. */
typedef struct RunSource
{
	/*
	 * Reads the next bytes, at most size; on failure returns 0, sets failed
	 * and clears more.
	 */
	Size		(*read) (struct RunSource *source, char *to, Size size);

	/* Ends the source and frees its memory, also before its end was read. */
	void		(*end) (struct RunSource *source);

	bool		more;			/* bytes remain */
	bool		failed;			/* the remaining bytes cannot be read */
	dlist_node	node;			/* in the owner's list; end() unlinks it */
} RunSource;

/*
 * Writes one run through a buffer of file->write bytes and, for coded rows, a record.
 * Only one run of a file can be written at a time.
 */
typedef struct RunWriter
{
	SpillFile  *file;
	SpillRun   *run;
	char	   *buf;
	Size		used;			/* bytes in buf */
} RunWriter;

extern void run_writer_open(RunWriter *writer, SpillFile *file, bool coded);

/* Continues to write at the end of the file's last run, which has been closed and not read. */
extern void run_writer_reopen(RunWriter *writer, SpillFile *file, SpillRun *run);

/* Writes bytes to a run that is not coded. */
extern void run_writer_bytes(RunWriter *writer, const void *data, Size size);

/* Writes n rows to a coded run. */
extern void run_writer_coded_rows(RunWriter *writer, const char *const *rows, size_t n);

/* Room for a block that the caller writes in place: this number of bytes. */
#define RUN_BLOCK_ROOM		1088

extern char *run_writer_room(RunWriter *writer);

/* Ends the block at end, which has this number of rows. */
extern void run_writer_block(RunWriter *writer, const char *end, size_t rows);

/* Writes the last bytes.  The caller owns the returned run. */
extern SpillRun *run_writer_close(RunWriter *writer);

/* Frees the run's memory. */
extern void run_free(SpillRun *run);

/* Raises the error that the bytes of a run are not those that were written. */
pg_noreturn extern void run_is_corrupt(void);

/*
 * Reads a run forward in pieces.  A piece is an extent, or an extent divided by a power
 * of two.  An extent is free for writing once it has been read.  The bytes pos .. len of
 * the buffer stay in place until run_reader_fill().
 *
 * For a row that does not fit the caller's buffer the reader allocates a larger one, and
 * frees it when the row has been passed.
 *
 * The caller's buffer for a coded run begins with the head of the row before and with
 * bytes of the file of the file.  run_reader_fill() decodes rows from there.
 */
typedef struct RunReader
{
	SpillFile  *file;
	SpillRun   *run;
	char	   *buf;			/* caller_buf or own.ptr */
	Size		buf_size;
	char	   *caller_buf;		/* the caller's buffer for rows */
	Size		caller_size;	/* its size */
	BulkOwner  *owner;
	BulkBuf		own;			/* reader's buffer for a long row, or empty */
	Size		piece;			/* bytes of a read at most */
	Size		headroom;		/* run_reader_fill() provides more than this */
	Size		pos;			/* offset in buf of the first row in use */
	Size		len;			/* bytes in buf */
	uint64		next;			/* offset in the run of the next byte to read */

	/* of a coded run */
	char	   *head;			/* the first bytes of the row decoded last */
	char	   *input;			/* bytes of the file */
	Size		input_pos;		/* offset in input of the next record */
	Size		input_len;		/* bytes in input */
} RunReader;

/*
 * Size of the caller's buffer: one piece, and the headroom or the longest row
 * (unless long); more for a coded run.
 */
extern Size run_reader_buffer_size(const SpillRun *run, Size piece, Size headroom);

/* Memory that reading a run takes at most: the caller's buffer and one for a long row. */
extern Size run_reader_memory(const SpillRun *run, Size piece, Size headroom);

extern void run_reader_open(RunReader *reader, SpillFile *file, SpillRun *run, char *buf,
							Size piece, Size headroom, BulkOwner *owner);

/*
 * Reads on until the buffer has a whole row and more than headroom bytes from pos on, or
 * the run ends.  The bytes before pos are dropped; pos, buf and len may change.
 */
extern void run_reader_fill(RunReader *reader);

/* Prefetches what the next run_reader_fill() will decode. */
static inline void
run_reader_prefetch(const RunReader *reader)
{
	if (reader->input_pos < reader->input_len && reader->len - reader->pos <= 2 * reader->headroom)
	{
		for (int line = 0; line < 8; line++)
			__builtin_prefetch(reader->input + reader->input_pos + 64 * line);
	}
}

/* Frees the run and ends its source. */
extern void run_reader_close(RunReader *reader);

/* Size of the row at an offset in the buffer; 0 if the buffer does not have all of it. */
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

/* Does the run have bytes from this offset in the buffer on? */
static inline bool
run_reader_more(const RunReader *reader, Size at)
{
	return at < reader->len || reader->input_pos < reader->input_len ||
		(reader->run->source != NULL ? reader->run->source->more :
		 reader->next < reader->run->bytes);
}

/* Did the run's source fail?  Then the rows in the buffer must not be used either. */
static inline bool
run_reader_failed(const RunReader *reader)
{
	return reader->run->source != NULL && reader->run->source->failed;
}

/* Reads a run at any place. */
typedef struct RunCursor
{
	SpillFile  *file;
	SpillRun   *run;
	char	   *buf;			/* one extent */
	uint32		buffered;		/* the extent in buf; PG_UINT32_MAX: none */
} RunCursor;

/* Reads size bytes at an offset of the run. */
extern void run_cursor_read(RunCursor *cursor, uint64 pos, void *to, Size size);
extern void run_cursor_open(RunCursor *cursor, SpillFile *file, SpillRun *run);

#endif							/* GPUSORT_SORT_RUN_H */
