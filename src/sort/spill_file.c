/*
 * spill_file.c
 *	  The temporary file of a sort's runs.
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
 * Memory policy: lists of segments and extents, in the memory context in which the file
 * was created.
 */
#include "postgres.h"

#include "commands/tablespace.h"
#include "miscadmin.h"
#include "sort/run.h"
#include "temp_file.h"
#include "utils/memutils.h"

#define EXTENT_MAX		((Size) 64 * 1024)
#define WRITE_MAX		((Size) 256 * 1024)
#define SEGMENT_SIZE	((Size) 1024 * 1024 * 1024)

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
	/* the current resource owner may belong to a subtransaction */
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
	uint32		segment = extent / file->segment_extents;

	if (segment == file->nsegments)
		add_segment(file);
	temp_file_write(file->segments[segment], data, size, extent_offset(file, extent));
}

void
spill_write(SpillFile *file, SpillRun *run, const char *data, Size size)
{
	while (size > 0)
	{
		uint32		first = file->nfree > 0 ? file->free[--file->nfree] : file->nextents++;
		Size		len = Min(size, file->extent);

		extent_list_add(&run->extents, &run->nextents, &run->capacity, first);
		/* at the file's end, extents are adjacent */
		while (len < size && first + len / file->extent == file->nextents &&
			   file->nextents % file->segment_extents != 0)
		{
			extent_list_add(&run->extents, &run->nextents, &run->capacity, file->nextents++);
			len += Min(size - len, file->extent);
		}
		write_extents(file, first, data, len);
		run->bytes += len;
		data += len;
		size -= len;
	}
}

/* Reads size bytes of an extent, from an offset in it. */
static void
read_extent(SpillFile *file, uint32 extent, Size offset, char *buf, Size size)
{
	File		segment = file->segments[extent / file->segment_extents];
	Size		got = temp_file_read(segment, buf, size, extent_offset(file, extent) + offset);

	if (got != size)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("could not read file \"%s\": read only %zu of %zu bytes",
						FilePathName(segment), got, size)));
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

void
spill_take_back(SpillFile *file, SpillRun *run, char *buf)
{
	run->bytes -= spill_read(file, run, run->nextents - 1, buf);
	spill_release(file, run, run->nextents - 1);
	run->nextents--;
}

Size
spill_read_piece(SpillFile *file, const SpillRun *run, uint64 *next, char *to, Size size)
{
	uint32		i = *next / file->extent;
	Size		offset = *next % file->extent;

	size = Min(size, Min(file->extent - offset, run->bytes - *next));
	read_extent(file, run->extents[i], offset, to, size);
	*next += size;
	if (*next == run->bytes || *next % file->extent == 0)
		spill_release(file, run, i);
	return size;
}
