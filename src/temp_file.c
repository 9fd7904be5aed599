/*
 * temp_file.c
 *	  Reads and writes of temporary files.
 */
#include "postgres.h"

#include "executor/instrument.h"
#include "miscadmin.h"
#include "portability/instr_time.h"
#include "storage/bufmgr.h"
#include "temp_file.h"
#include "utils/wait_event.h"

static inline void
start_timing(instr_time *start)
{
	if (track_io_timing)
		INSTR_TIME_SET_CURRENT(*start);
	else
		INSTR_TIME_SET_ZERO(*start);
}

static inline void
add_time(instr_time *total, instr_time start)
{
	instr_time	end;

	if (!track_io_timing)
		return;
	INSTR_TIME_SET_CURRENT(end);
	INSTR_TIME_ACCUM_DIFF(*total, end, start);
}

void
temp_file_write(File file, const void *data, Size bytes, off_t at)
{
	instr_time	start;

	CHECK_FOR_INTERRUPTS();
	start_timing(&start);
	if (FileWrite(file, unconstify(void *, data), bytes, at, WAIT_EVENT_BUFFILE_WRITE) != bytes)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not write to file \"%s\": %m", FilePathName(file))));
	add_time(&pgBufferUsage.temp_blk_write_time, start);
	pgBufferUsage.temp_blks_written += (bytes + BLCKSZ - 1) / BLCKSZ;
}

Size
temp_file_read(File file, void *to, Size bytes, off_t at)
{
	instr_time	start;
	ssize_t		got;

	CHECK_FOR_INTERRUPTS();
	start_timing(&start);
	got = FileRead(file, to, bytes, at, WAIT_EVENT_BUFFILE_READ);
	if (got < 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not read file \"%s\": %m", FilePathName(file))));
	add_time(&pgBufferUsage.temp_blk_read_time, start);
	/* a block that is read in pieces counts once */
	pgBufferUsage.temp_blks_read += (at + got + BLCKSZ - 1) / BLCKSZ - (at + BLCKSZ - 1) / BLCKSZ;
	return got;
}
