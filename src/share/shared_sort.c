/*
 * shared_sort.c
 *	  Shared sort: each process of a parallel query gets all rows of a partial plan in order.
 *
 * The inner side of a merge join in workers is needed as a whole by every process.  In place of a sort of all
 * rows in each of them, the processes sort together:
 *
 *	take	Each process takes and sorts its share of the rows.
 *	write	Each process writes its sorted rows, with their keys, to a file of blocks (block_writer.c), and the first
 *			key of each block to an index.
 *	merge	The indexes divide the keys into ranges of about equal size.  A process takes a range, merges its rows of
 *			all files, and writes them to a file of its own, until no range is left.
 *	read	Each process reads the files of the ranges one after the other.
 *
 * So a row is sorted and merged once, and each process only reads all rows in order.
 *
 * Groups need all rows of a key in one process, whichever that is.  Then the rows are divided: a process returns the
 * rows of the ranges that it takes, while it merges them, and nothing is written twice.  The phases merge and read are
 * one, without a barrier, and the process has its rows in order.
 *
 * Between two phases the processes meet at a barrier of PostgreSQL, as those of a Parallel Hash do: it waits only for
 * processes that have begun.  A process that begins late takes part in the rest.  A process waits before it has
 * returned a row, for processes that return none meanwhile, so no process waits for one that waits for it.
 *
 * Files, and not shared memory, pass the rows: /dev/shm may be small, and the rows may exceed memory.  What was just
 * written is read from the operating system's cache.
 *
 * Memory policy: a block for each file of a merge, and 40 bytes of the indexes for each block of all rows.
 *
 * On error: the files are deleted with the query's shared memory, after all processes have left it.
 */
#include "postgres.h"

#include <fcntl.h>

#include "compat.h"
#include "miscadmin.h"
#include "share/share.h"
#include "temp_file.h"
#include "utils/memutils.h"

/* Ranges for each process, so that those which are done early take more. */
#define RANGES_PER_PROCESS	4

/* Fewer blocks of rows are not worth the files of another range. */
#define RANGE_LEAST_BLOCKS	4

/* Entries of an index that are written or read at once. */
#define INDEX_PIECE	((Size) 16384)

/* Phases of the barrier. */
typedef enum SharedSortPhase
{
	SHARED_SORT_TAKE,
	SHARED_SORT_WRITE,
	SHARED_SORT_MERGE,
	SHARED_SORT_READ
} SharedSortPhase;

/* An entry of an index: a block that begins with a row. */
typedef struct IndexEntry
{
	uint128		key;			/* of the block's first row */
	off_t		at;				/* where the block lies in its file */
} IndexEntry;

/* The indexes of all processes, and what they have in common. */
typedef struct SharedRun
{
	SharedSort *shared;
	const SortSpec *spec;
	CommonKeyRange *common_range;
	bool		wide;			/* keys have 128 bits, otherwise 64 */
	IndexEntry **entries;		/* by process; NULL: it has no rows */
	uint128    *keys;			/* of all entries, in order */
	Size		nkeys;
	int			nranges;
} SharedRun;

/* ------------------------------------------------------------------------
 * Shared memory
 * ------------------------------------------------------------------------
 */

static inline int
range_count(const SharedSort *shared)
{
	return RANGES_PER_PROCESS * shared->nslots;
}

Size
shared_sort_size(int workers, Size word_bytes)
{
	Size		slots = add_size(offsetof(SharedSort, slots), mul_size(workers + 1, sizeof(SharedSortSlot)));

	return add_size(MAXALIGN(slots), word_bytes);
}

static void
begin_execution(SharedSort *shared)
{
	BarrierInit(&shared->barrier, 0);
	pg_atomic_init_u32(&shared->next_range, 0);
	pg_atomic_init_u32(&shared->words_incomplete, 0);
	memset(shared->slots, 0, shared->nslots * sizeof(SharedSortSlot));
	memset(shared_sort_words(shared), 0, shared->word_bytes);
}

void
shared_sort_init(SharedSort *shared, int workers, Size word_bytes, dsm_segment *segment)
{
	shared->nslots = workers + 1;
	shared->word_bytes = word_bytes;
	shared->segment = dsm_segment_handle(segment);
	SharedFileSetInit(&shared->files, segment);
	begin_execution(shared);
}

void
shared_sort_reset(SharedSort *shared)
{
	SharedFileSetDeleteAll(&shared->files);
	begin_execution(shared);
}

void
shared_sort_attach(SharedSort *shared)
{
	SharedFileSetAttach(&shared->files, dsm_find_mapping(shared->segment));
}

/* ------------------------------------------------------------------------
 * Files
 * ------------------------------------------------------------------------
 */

/* Kinds of files.  The second part of a file's name is a process, or a range. */
#define FILE_ROWS	"rows"
#define FILE_INDEX	"index"
#define FILE_RANGE	"range"

static File
file_create(SharedSort *shared, const char *kind, int number)
{
	char		name[32];

	snprintf(name, sizeof(name), "%s%d", kind, number);
	return FileSetCreate(&shared->files.fs, name);
}

/* may_miss: returns 0 if there is no such file. */
static File
file_open(SharedSort *shared, const char *kind, int number, bool may_miss)
{
	char		name[32];
	File		file;

	snprintf(name, sizeof(name), "%s%d", kind, number);
	file = FileSetOpen(&shared->files.fs, name, O_RDONLY);
	if (file <= 0 && !may_miss)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("temporary file \"%s\" of a shared sort is missing", name)));
	return Max(file, 0);
}

pg_noreturn static void
file_is_short(File file)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("file \"%s\" of a shared sort is too short", FilePathName(file))));
}

/* Room for a block, in the current memory context. */
static RowBlock *
block_alloc(void)
{
	return (RowBlock *) TYPEALIGN(ROW_BLOCK_KEY_ALIGN, palloc(ROW_BLOCK_SIZE + ROW_BLOCK_KEY_ALIGN));
}

/* Reads the block at *at of a file, and moves *at behind it; false at the end. */
static bool
block_read(File file, RowBlock *block, off_t *at)
{
	Size		n = temp_file_read(file, block, ROW_BLOCK_SIZE, *at);

	if (n == 0)
		return false;
	if (n < offsetof(RowBlock, rows) || n < block->size)
		file_is_short(file);
	*at += block->size;
	return true;
}

/* Key i of a block, in the layout of all rows. */
static inline uint128
block_key(const RowBlock *block, bool wide, uint32 i)
{
	const char *keys = block->rows + block->keys_at;
	uint128		key;
	uint64		word;

	if (wide)
	{
		memcpy(&key, keys + i * sizeof(key), sizeof(key));
		return key;
	}
	memcpy(&word, keys + i * sizeof(word), sizeof(word));
	return word;
}

/* ------------------------------------------------------------------------
 * Write
 * ------------------------------------------------------------------------
 */

/* Writes this process's rows and their index. */
static void
write_own_rows(SharedRun *run, SortResult *own)
{
	int			me = shared_sort_me();
	File		file = file_create(run->shared, FILE_ROWS, me);
	BlockWriter *writer = block_writer_create(run->spec, run->common_range, own, NULL);
	RowBlock   *block = block_alloc();
	off_t		at = 0;
	Size		room = 1024;
	Size		n = 0;
	IndexEntry *entries = MemoryContextAllocHuge(CurrentMemoryContext, room * sizeof(IndexEntry));

	while (block_writer_fill(writer, block))
	{
		CHECK_FOR_INTERRUPTS();
		/* the further pieces of a long row have no key */
		if (block->n > 0)
		{
			if (n == room)
			{
				room *= 2;
				entries = repalloc_huge(entries, room * sizeof(IndexEntry));
			}
			memset(&entries[n], 0, sizeof(IndexEntry));
			entries[n].key = block_key(block, run->wide, 0);
			entries[n++].at = at;
		}
		temp_file_write(file, block, block->size, at);
		at += block->size;
	}
	FileClose(file);
	file = file_create(run->shared, FILE_INDEX, me);
	for (Size i = 0; i < n; i += INDEX_PIECE)
		temp_file_write(file, entries + i, Min(INDEX_PIECE, n - i) * sizeof(IndexEntry), i * sizeof(IndexEntry));
	FileClose(file);
	run->shared->slots[me].blocks = n;
}

/* ------------------------------------------------------------------------
 * Merge
 * ------------------------------------------------------------------------
 */

/* The rows of one file whose keys lie in a range. */
typedef struct FileSource
{
	BlockSource base;
	File		file;
	off_t		at;				/* of the next block */
	RowBlock   *block;
	uint128		first;			/* least key */
	uint128		end;			/* first key behind the range, if it has_end */
	bool		has_end;
	bool		begun;			/* a row of the range was found */
	bool		ended;			/* all rows that follow are behind the range */
} FileSource;

/* The first row of the block whose key is not below this one; block->n: none. */
static uint32
first_from(const RowBlock *block, bool wide, uint128 key)
{
	uint32		low = 0;
	uint32		high = block->n;

	while (low < high)
	{
		uint32		middle = (low + high) / 2;

		if (block_key(block, wide, middle) < key)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Leaves out the block's rows before row first. */
static void
block_skip(RowBlock *block, bool wide, uint32 first)
{
	block->n -= first;
	block->keys_at += first * (wide ? sizeof(uint128) : sizeof(uint64));
	block->places_at += first * sizeof(RowPlace);
}

static RowBlock *
file_source_next(BlockSource *base)
{
	FileSource *source = (FileSource *) base;
	RowBlock   *block = source->block;

	while (!source->ended && block_read(source->file, block, &source->at))
	{
		/* a piece of a long row belongs to the row */
		if (block->n == 0)
		{
			if (source->begun)
				return block;
			continue;
		}
		if (source->has_end && block_key(block, base->wide, block->n - 1) >= source->end)
		{
			block->n = first_from(block, base->wide, source->end);
			source->ended = true;
		}
		if (!source->begun)
			block_skip(block, base->wide, first_from(block, base->wide, source->first));
		if (block->n == 0)
			continue;
		source->begun = true;
		return block;
	}
	return NULL;
}

/* Where the rows of a process from this key on begin: the last entry with a lesser key, or the first one. */
static const IndexEntry *
first_entry(const IndexEntry *entries, Size n, uint128 key)
{
	Size		low = 0;
	Size		high = n;

	while (low < high)
	{
		Size		middle = (low + high) / 2;

		if (entries[middle].key < key)
			low = middle + 1;
		else
			high = middle;
	}
	return &entries[low > 0 ? low - 1 : 0];
}

/* The merge of a range. */
typedef struct RangeMerge
{
	BlockSource **sources;		/* FileSources */
	int			n;
	BlockWriter *writer;		/* NULL: no range is open */
} RangeMerge;

/*
 * Begins to merge a range, whose keys begin with first, in the current memory context.  end: NULL: the range has no
 * end.
 */
static void
range_open(const SharedRun *run, uint128 first, const uint128 *end, RangeMerge *merge)
{
	SharedSort *shared = run->shared;

	merge->sources = palloc(shared->nslots * sizeof(BlockSource *));
	merge->n = 0;
	for (int p = 0; p < shared->nslots; p++)
	{
		FileSource *source;
		const IndexEntry *entry;

		if (shared->slots[p].blocks == 0)
			continue;
		source = palloc0(sizeof(FileSource));
		entry = first_entry(run->entries[p], shared->slots[p].blocks, first);
		source->base.next_block = file_source_next;
		source->file = file_open(shared, FILE_ROWS, p, false);
		source->at = entry->at;
		source->block = block_alloc();
		source->first = first;
		source->has_end = end != NULL;
		source->end = end != NULL ? *end : 0;
		merge->sources[merge->n++] = &source->base;
	}
	merge->writer = block_writer_create(run->spec, run->common_range, NULL,
										block_merge_create(run->spec, run->common_range, merge->sources, merge->n));
}

static void
range_close(RangeMerge *merge)
{
	if (merge->writer == NULL)
		return;
	for (int i = 0; i < merge->n; i++)
		FileClose(((FileSource *) merge->sources[i])->file);
	merge->writer = NULL;
}

/* Merges the range of this number, and writes it to its file. */
static void
write_range(SharedRun *run, int range, RangeMerge *merge)
{
	RowBlock   *block = block_alloc();
	File		file = 0;
	off_t		at = 0;

	while (block_writer_fill(merge->writer, block))
	{
		CHECK_FOR_INTERRUPTS();
		if (file == 0)
			file = file_create(run->shared, FILE_RANGE, range);
		temp_file_write(file, block, block->size, at);
		at += block->size;
	}
	if (file > 0)
		FileClose(file);
	range_close(merge);
}

static int
compare_index_keys(const void *a, const void *b)
{
	const uint128 *x = a;
	const uint128 *y = b;

	return (*x > *y) - (*x < *y);
}

/*
 * Reads the indexes of all processes, and divides the keys in them into ranges.  Every process finds the same ranges.
 */
static void
find_ranges(SharedRun *run)
{
	SharedSort *shared = run->shared;
	Size		total = 0;
	uint128    *keys;
	Size		n = 0;

	for (int p = 0; p < shared->nslots; p++)
		total += shared->slots[p].blocks;
	keys = MemoryContextAllocHuge(CurrentMemoryContext, Max(total, 1) * sizeof(uint128));
	run->entries = palloc0(shared->nslots * sizeof(IndexEntry *));
	for (int p = 0; p < shared->nslots; p++)
	{
		Size		blocks = shared->slots[p].blocks;
		File		file;

		if (blocks == 0)
			continue;
		run->entries[p] = MemoryContextAllocHuge(CurrentMemoryContext, blocks * sizeof(IndexEntry));
		file = file_open(shared, FILE_INDEX, p, false);
		for (Size i = 0; i < blocks; i += INDEX_PIECE)
		{
			Size		bytes = Min(INDEX_PIECE, blocks - i) * sizeof(IndexEntry);

			if (temp_file_read(file, run->entries[p] + i, bytes, i * sizeof(IndexEntry)) != bytes)
				file_is_short(file);
		}
		FileClose(file);
		for (Size i = 0; i < blocks; i++)
			keys[n++] = run->entries[p][i].key;
	}
	qsort(keys, n, sizeof(uint128), compare_index_keys);
	run->keys = keys;
	run->nkeys = n;
	run->nranges = (int) Min(range_count(shared), (n + RANGE_LEAST_BLOCKS - 1) / RANGE_LEAST_BLOCKS);
}

/* Takes the next range, and begins to merge it in the current memory context; -1: none is left. */
static int
next_range(const SharedRun *run, RangeMerge *merge)
{
	int			range = (int) pg_atomic_fetch_add_u32(&run->shared->next_range, 1);
	const uint128 *keys = run->keys;

	if (range >= run->nranges)
		return -1;
	range_open(run, range == 0 ? 0 : keys[run->nkeys * range / run->nranges],
			   range + 1 < run->nranges ? &keys[run->nkeys * (range + 1) / run->nranges] : NULL, merge);
	return range;
}

/* Merges ranges to files until none is left. */
static void
merge_ranges(SharedRun *run)
{
	MemoryContext cxt;
	MemoryContext old;
	RangeMerge	merge;
	int			range;

	find_ranges(run);
	cxt = AllocSetContextCreate(CurrentMemoryContext, "GpuSort range", ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(cxt);
	while ((range = next_range(run, &merge)) >= 0)
	{
		write_range(run, range, &merge);
		MemoryContextReset(cxt);
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(cxt);
}

/* ------------------------------------------------------------------------
 * The phases
 * ------------------------------------------------------------------------
 */

bool
shared_sort_begin(SharedSort *shared)
{
	return BarrierAttach(&shared->barrier) == SHARED_SORT_TAKE;
}

/* Fills what is known of all rows, after they were taken. */
static void
find_common_range(SharedRun *run, SharedSort *shared, const SortSpec *spec)
{
	const CommonKeyRange **ranges = palloc(shared->nslots * sizeof(CommonKeyRange *));
	int			n = 0;

	for (int p = 0; p < shared->nslots; p++)
	{
		if (shared->slots[p].has_rows)
			ranges[n++] = &shared->slots[p].range;
	}
	run->shared = shared;
	run->spec = spec;
	run->common_range = common_key_range(ranges, n, spec->keys, spec->nkeys);
	run->wide = block_keys_wide(spec, run->common_range);
}

static void
next_phase(SharedSort *shared)
{
	(void) BarrierArriveAndWait(&shared->barrier, compat_wait_event("GpuSortExchange"));
}

void
shared_sort_run(SharedSort *shared, const SortSpec *spec, SortResult *own, const CommonKeyRange *range, bool divided)
{
	/* a process that begins late takes part from this phase on */
	const SharedSortPhase phase = (SharedSortPhase) BarrierPhase(&shared->barrier);
	SharedSortSlot *slot = &shared->slots[shared_sort_me()];
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "GpuSort shared sort", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(cxt);
	SharedRun	run = {0};

	if (phase == SHARED_SORT_TAKE)
	{
		if (own != NULL)
		{
			slot->range = *range;
			slot->has_rows = true;
		}
		next_phase(shared);
	}
	find_common_range(&run, shared, spec);
	if (phase <= SHARED_SORT_WRITE)
	{
		if (own != NULL)
			write_own_rows(&run, own);
		next_phase(shared);
	}
	if (phase <= SHARED_SORT_MERGE && !divided)
	{
		merge_ranges(&run);
		next_phase(shared);
	}
	(void) BarrierDetach(&shared->barrier);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(cxt);
}

/* ------------------------------------------------------------------------
 * Read
 * ------------------------------------------------------------------------
 */

/* A stream of rows. */
typedef struct SharedStream
{
	BlockSource base;
	SharedRun	run;
	RowBlock   *block;

	/* all rows: the files of all ranges */
	int			range;			/* of the file, or the next one */
	File		file;			/* 0: none is open */
	off_t		at;				/* of the next block in it */

	/* divided rows: the range that this process merges */
	RangeMerge	merge;
	MemoryContext cxt;			/* memory of the merge */
} SharedStream;

static void
close_range_file(SharedStream *stream)
{
	if (stream->file > 0)
		FileClose(stream->file);
	stream->file = 0;
}

/* BlockSource.next_block of all rows. */
static RowBlock *
next_block_of_all(BlockSource *base)
{
	SharedStream *stream = (SharedStream *) base;

	for (; stream->range < range_count(stream->run.shared); stream->range++)
	{
		if (stream->file == 0)
		{
			stream->file = file_open(stream->run.shared, FILE_RANGE, stream->range, true);
			stream->at = 0;
		}
		if (stream->file == 0)
			continue;
		if (block_read(stream->file, stream->block, &stream->at))
			return stream->block;
		close_range_file(stream);
	}
	return NULL;
}

/* BlockSource.next_block of divided rows. */
static RowBlock *
next_divided_block(BlockSource *base)
{
	SharedStream *stream = (SharedStream *) base;

	for (;;)
	{
		MemoryContext old;
		int			range;

		CHECK_FOR_INTERRUPTS();
		if (stream->merge.writer != NULL && block_writer_fill(stream->merge.writer, stream->block))
			return stream->block;
		range_close(&stream->merge);
		MemoryContextReset(stream->cxt);
		old = MemoryContextSwitchTo(stream->cxt);
		range = next_range(&stream->run, &stream->merge);
		MemoryContextSwitchTo(old);
		if (range < 0)
			return NULL;
	}
}

BlockSource *
shared_sort_open(SharedSort *shared, const SortSpec *spec, bool divided, BlockReader **reader)
{
	SharedStream *stream = palloc0(sizeof(SharedStream));

	stream->base.next_block = divided ? next_divided_block : next_block_of_all;
	stream->block = block_alloc();
	find_common_range(&stream->run, shared, spec);
	if (divided)
	{
		find_ranges(&stream->run);
		stream->cxt = AllocSetContextCreate(CurrentMemoryContext, "GpuSort range", ALLOCSET_DEFAULT_SIZES);
	}
	*reader = block_reader_create(spec, stream->run.common_range, &stream->base);
	return &stream->base;
}

void
shared_sort_close(BlockSource *base)
{
	SharedStream *stream = (SharedStream *) base;

	close_range_file(stream);
	range_close(&stream->merge);
}
