/*
 * run.c
 *	  Sorted runs in temporary files.
 *
 * Runs live on the server's logical tapes: all runs of a sort share one BufFile,
 * whose blocks are used again as soon as they have been read, so a sort needs
 * little more disk than its rows take.  temp_file_limit and log_temp_files hold
 * because BufFile does, and the files go with the resource owner: on ERROR, on
 * abort, and (the postmaster sweeps them) after a crash.
 *
 * Memory policy: a tape being written needs one block; a reader's buffer is
 * given by the merge, and replaced only for a row that does not fit it.
 */
#include "postgres.h"

#include "store/run.h"
#include "utils/memutils.h"

static void
tape_read_exact(LogicalTape *tape, void *ptr, Size size)
{
	if (LogicalTapeRead(tape, ptr, size) != size)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("unexpected end of a sort's temporary file")));
}

void
run_write_row(LogicalTape *tape, MinimalTuple row)
{
	LogicalTapeWrite(tape, row, MAXALIGN(row->t_len));
}

void
run_write_end(LogicalTape *tape)
{
	LogicalTapeRewindForRead(tape, BLCKSZ);
}

void
run_reader_open(RunReader *reader, LogicalTape *tape, char *buf, Size buf_size)
{
	reader->tape = tape;
	reader->buf_size = buf_size;
	reader->buf = buf;
	reader->own_buf = false;
	reader->pos = reader->len = 0;
	reader->at_end = false;
}

/* Moves what is left to the front and fills the rest of the buffer. */
static void
run_reader_fill(RunReader *reader)
{
	Size		left = reader->len - reader->pos;

	if (left > 0)
		memmove(reader->buf, reader->buf + reader->pos, left);
	reader->pos = 0;
	reader->len = left;
	if (!reader->at_end)
	{
		Size		want = reader->buf_size - left;
		Size		got = LogicalTapeRead(reader->tape, reader->buf + left, want);

		reader->len += got;
		reader->at_end = (got < want);
	}
}

MinimalTuple
run_reader_next(RunReader *reader)
{
	MinimalTuple row;
	Size		size;

	if (reader->len - reader->pos < sizeof(uint32))
	{
		run_reader_fill(reader);
		if (reader->len == 0)
			return NULL;
	}
	row = (MinimalTuple) (reader->buf + reader->pos);
	size = MAXALIGN(row->t_len);
	if (unlikely(size > reader->len - reader->pos))
	{
		if (size > reader->buf_size)
		{
			/* a row larger than the buffer */
			char	   *buf = palloc_extended(size, MCXT_ALLOC_HUGE);

			memcpy(buf, row, reader->len - reader->pos);
			if (reader->own_buf)
				pfree(reader->buf);
			reader->buf = buf;
			reader->own_buf = true;
			reader->buf_size = size;
			reader->len -= reader->pos;
			reader->pos = 0;
		}
		run_reader_fill(reader);
		if (size > reader->len)
			ereport(ERROR,
					(errcode(ERRCODE_DATA_CORRUPTED),
					 errmsg("unexpected end of a sort's temporary file")));
		row = (MinimalTuple) reader->buf;
	}
	reader->pos += size;
	return row;
}

void
run_reader_close(RunReader *reader)
{
	if (reader->own_buf)
		pfree(reader->buf);
	reader->buf = NULL;
	LogicalTapeClose(reader->tape);
	reader->tape = NULL;
}

void
result_tape_write(LogicalTape *tape, MinimalTuple row)
{
	uint64		size = MAXALIGN(row->t_len);

	LogicalTapeWrite(tape, row, size);
	LogicalTapeWrite(tape, &size, sizeof(size));
}

void
result_tape_open(ResultTape *result, LogicalTape *tape)
{
	uint32		end_mark = 0;

	/* a tape read beyond its end would lose its position */
	LogicalTapeWrite(tape, &end_mark, sizeof(end_mark));
	LogicalTapeFreeze(tape, NULL);
	memset(result, 0, sizeof(ResultTape));
	result->tape = tape;
	result_tape_mark(result);
}

static void
result_tape_backspace(ResultTape *result, Size size)
{
	if (LogicalTapeBackspace(result->tape, size) != size)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("unexpected start of a sort's temporary file")));
}

/* Steps back over one row; false if there is none. */
static bool
result_tape_step_back(ResultTape *result)
{
	uint64		size;

	if (LogicalTapeBackspace(result->tape, sizeof(size)) != sizeof(size))
		return false;
	tape_read_exact(result->tape, &size, sizeof(size));
	result_tape_backspace(result, size + sizeof(size));
	return true;
}

/* Reads the row at the tape's position; NULL at the end mark. */
static MinimalTuple
result_tape_read(ResultTape *result)
{
	uint32		len;
	uint64		size;

	tape_read_exact(result->tape, &len, sizeof(len));
	if (len == 0)
		return NULL;
	size = MAXALIGN(len);
	if (size > result->row_size)
	{
		if (result->row != NULL)
			pfree(result->row);
		result->row = NULL;
		result->row_size = 0;
		result->row = palloc_extended(Max(size, 1024), MCXT_ALLOC_HUGE);
		result->row_size = Max(size, 1024);
	}
	result->row->t_len = len;
	tape_read_exact(result->tape, (char *) result->row + sizeof(len), size - sizeof(len));
	tape_read_exact(result->tape, &size, sizeof(size));
	return result->row;
}

/*
 * The next row in either direction, with a Sort's manners at the ends: going
 * back from beyond the last row gives the last row, otherwise the one before
 * the row last given.
 */
MinimalTuple
result_tape_next(ResultTape *result, bool forward)
{
	if (forward)
	{
		MinimalTuple row = result->eof ? NULL : result_tape_read(result);

		result->eof = (row == NULL);
		return row;
	}

	if (result->eof)
	{
		result_tape_backspace(result, sizeof(uint32));	/* the end mark */
		result->eof = false;
		if (!result_tape_step_back(result))
			return NULL;
	}
	else
	{
		if (!result_tape_step_back(result))
			return NULL;
		if (!result_tape_step_back(result))
			return NULL;
	}
	return result_tape_read(result);
}

void
result_tape_rewind(ResultTape *result)
{
	LogicalTapeRewindForRead(result->tape, 0);
	result->eof = false;
}

void
result_tape_mark(ResultTape *result)
{
	LogicalTapeTell(result->tape, &result->mark_block, &result->mark_offset);
	result->mark_eof = result->eof;
}

void
result_tape_restore(ResultTape *result)
{
	LogicalTapeSeek(result->tape, result->mark_block, result->mark_offset);
	result->eof = result->mark_eof;
}
