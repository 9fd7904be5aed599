/*
 * spillfile.c
 *	  The temporary files of a sort, in extents that are used again.
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
#include "store/spillfile.h"
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

void
spill_release(SpillFile *file, const SpillRun *run, uint32 i)
{
	extent_list_add(&file->free, &file->nfree, &file->free_capacity, run->extents[i]);
}

void
spill_take_back(SpillFile *file, SpillRun *run, char *buf)
{
	run->bytes -= spill_read(file, run, run->nextents - 1, buf);
	spill_release(file, run, run->nextents - 1);
	run->nextents--;
}
