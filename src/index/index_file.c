/*
 * index_file.c
 *	  The file of a new index: logs and writes its pages in batches.
 *
 * Pages bypass shared buffers.  PAGE_BATCH pages are logged by one WAL record, and neighbours
 * are written by one system call.  A call for each page would take several times as long as
 * copying the page.  The functions of smgr.h write single pages before PostgreSQL 17, so the
 * segments of the file are opened here by their paths.
 *
 * Space: a file that one process writes in the order of its blocks gets its space in advance,
 * in large pieces.  The system would otherwise look for space, or reserve some, for each page.
 * Unused space is released when the file is closed, also after an ERROR: the index of a
 * failed CREATE INDEX CONCURRENTLY stays.  Small files are not worth it, and
 * a system that cannot do it, or has not enough space, is not asked again.
 *
 * Sync: every page is in the WAL, so the file need not be on disk at commit, but at the end
 * of the next checkpoint.  If no checkpoint has begun since the first page, the file is
 * registered for the next one.  Otherwise it is flushed here, because recovery may begin
 * behind the first pages.  PostgreSQL does the same from 17 on.
 *
 * Segments: PostgreSQL takes a segment that is not full for the end of a relation.  So a
 * segment must be complete before the next one begins (pages.c).
 *
 * A server may have another storage manager than md.c, or one that encrypts or compresses
 * pages.  Pages of such an index must not bypass it.  index_file_is_plain() finds out by
 * writing a page through smgr.h and reading it from the file.
 *
 * Memory policy: none but the handles.
 *
 * Errors: the memory context closes the segments.
 */
#include "postgres.h"

#include <fcntl.h>

#include "access/xlog.h"
#include "catalog/storage.h"
#include "compat.h"
#include "index/index_internal.h"
#include "storage/bufpage.h"
#include "storage/fd.h"
#include "storage/proc.h"
#include "storage/smgr.h"

/* Space is allocated in pieces of this number of blocks, behind the first piece. */
#define SPACE_BLOCKS	((BlockNumber) (8 * 1024 * 1024 / BLCKSZ))

struct IndexFile
{
	Relation	index;
	char	   *path;			/* of the first segment; the index may be gone after an ERROR */
	XLogRecPtr	redo;			/* where recovery began before the first page */
	int			segment;		/* number of the open segment; -1: none */
	File		file;			/* the open segment */
	bool		in_advance;		/* space is allocated in advance */
	BlockNumber space;			/* blocks that have space; 0: not asked yet */
	MemoryContextCallback callback;
};

static void
close_segment(IndexFile *file)
{
	if (file->segment >= 0)
		FileClose(file->file);
	file->segment = -1;
}

/* Opens a segment; creates any but the first if create is set.  False, with errno, if it cannot. */
static bool
open_segment(IndexFile *file, int segment, bool create)
{
	char		path[MAXPGPATH];

	close_segment(file);
	if (segment > 0)
		snprintf(path, sizeof(path), "%s.%d", file->path, segment);
	else
		strlcpy(path, file->path, sizeof(path));
	file->file = PathNameOpenFile(path, O_RDWR | PG_BINARY | (create && segment > 0 ? O_CREAT : 0));
	if (file->file < 0)
		return false;
	file->segment = segment;
	return true;
}

/* Releases unused space, which only the last segment has, and closes the file.  Raises no ERROR. */
static void
close_index_file(void *arg)
{
	IndexFile  *file = arg;
	int			last = file->space == 0 ? -1 : (int) ((file->space - 1) / RELSEG_SIZE);

	if (last >= 0 && (file->segment == last || open_segment(file, last, false)))
	{
		off_t		size = FileSize(file->file);

		if (size >= 0)
			(void) FileTruncate(file->file, size, WAIT_EVENT_DATA_FILE_TRUNCATE);
	}
	file->space = 0;
	close_segment(file);
}

IndexFile *
index_file_open(Relation index, bool alone)
{
	IndexFile  *file = palloc0(sizeof(IndexFile));

	file->index = index;
	file->path = compat_relation_path(index);
	file->redo = GetRedoRecPtr();
	file->segment = -1;
	file->in_advance = alone;
	file->callback.func = close_index_file;
	file->callback.arg = file;
	MemoryContextRegisterResetCallback(CurrentMemoryContext, &file->callback);
	return file;
}

bool
index_file_is_plain(Relation index)
{
	IndexFile  *file;
	char	   *written;
	char	   *read;
	bool		plain;

	/* md.c is the only storage manager of PostgreSQL; servers that have more number it 0 */
	if (RelationGetSmgr(index)->smgr_which != 0)
		return false;
	file = index_file_open(index, false);
	written = compat_pages_alloc(1);
	read = compat_pages_alloc(1);
	PageInit((Page) written, BLCKSZ, 0);
	memset(written + SizeOfPageHeaderData, 0x5A, BLCKSZ - SizeOfPageHeaderData);
	compat_page_set_checksum((Page) written, 0);
	smgrextend(RelationGetSmgr(index), MAIN_FORKNUM, 0, written, true);
	plain = open_segment(file, 0, false) &&
		FileRead(file->file, read, BLCKSZ, 0, WAIT_EVENT_DATA_FILE_READ) == BLCKSZ &&
		memcmp(written, read, BLCKSZ) == 0 &&
		FileTruncate(file->file, 0, WAIT_EVENT_DATA_FILE_TRUNCATE) == 0;
	close_index_file(file);
	if (!plain)
		RelationTruncate(index, 0);
	return plain;
}

void
index_file_close(IndexFile *file)
{
	close_index_file(file);
}

/*
 * Allocates space for the blocks behind the end of the open segment's file, whose last
 * blocks were just written.
 */
static void
allocate_space(IndexFile *file, BlockNumber end)
{
#ifdef FALLOC_FL_KEEP_SIZE
	BlockNumber first = Max(end, file->space);
	BlockNumber until = Min(first + SPACE_BLOCKS, (first / RELSEG_SIZE + 1) * (BlockNumber) RELSEG_SIZE);

	/* the next write opens the next segment, and behind its first blocks there is space again */
	if (first / RELSEG_SIZE != (BlockNumber) file->segment)
		return;
	if (fallocate(FileGetRawDesc(file->file), FALLOC_FL_KEEP_SIZE, (off_t) (first % RELSEG_SIZE) * BLCKSZ,
				  (off_t) (until - first) * BLCKSZ) == 0)
		file->space = until;
	else
		file->in_advance = false;
#endif
}

/*
 * Writes consecutive blocks of a segment.  The system may write a part of them, as it does
 * when the disk becomes full: the next call then tells why.
 */
static void
write_run(IndexFile *file, BlockNumber first, int n, char *pages)
{
	off_t		at = (off_t) (first % RELSEG_SIZE) * BLCKSZ;
	int			bytes = n * BLCKSZ;

	if (file->segment != (int) (first / RELSEG_SIZE) && !open_segment(file, first / RELSEG_SIZE, true))
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not open file \"%s\" of block %u: %m", file->path, first)));
	while (bytes > 0)
	{
		ssize_t		written = FileWrite(file->file, pages, bytes, at, WAIT_EVENT_DATA_FILE_EXTEND);

		if (written <= 0)
		{
			/* if a write sets no errno, the disk is full */
			if (written == 0)
				errno = ENOSPC;
			ereport(ERROR,
					(errcode_for_file_access(),
					 errmsg("could not extend file \"%s\": %m", FilePathName(file->file)),
					 errhint("Check free disk space.")));
		}
		pages += written;
		at += written;
		bytes -= written;
	}
	if (file->in_advance && first + n >= Max(file->space, SPACE_BLOCKS))
		allocate_space(file, first + n);
}

void
index_file_write(IndexFile *file, bool wal, int n, const BlockNumber *blocks, char *pages, bool skip_new)
{
	BlockNumber logged[PAGE_BATCH];
	char	   *logged_pages[PAGE_BATCH];
	int			nlogged = 0;

	Assert(n <= PAGE_BATCH);
	for (int i = 0; i < n; i++)
	{
		if (PageIsNew((Page) (pages + (Size) i * BLCKSZ)))
			continue;
		logged[nlogged] = blocks[i];
		logged_pages[nlogged++] = pages + (Size) i * BLCKSZ;
	}
	if (wal && nlogged > 0)
	{
		log_newpages(&compat_locator(file->index), MAIN_FORKNUM, nlogged, logged, logged_pages, true);
		XLogSetAsyncXactLSN(PageGetLSN((Page) logged_pages[nlogged - 1]));
	}
	for (int i = 0; i < nlogged; i++)
		compat_page_set_checksum((Page) logged_pages[i], logged[i]);
	for (int first = 0, next; first < n; first = next)
	{
		char	   *page = pages + (Size) first * BLCKSZ;

		next = first + 1;
		if (skip_new && PageIsNew((Page) page))
			continue;
		while (next < n && blocks[next] == blocks[next - 1] + 1 && blocks[next] % RELSEG_SIZE != 0 &&
			   !(skip_new && PageIsNew((Page) (pages + (Size) next * BLCKSZ))))
			next++;
		write_run(file, blocks[first], next - first, page);
	}
}

void
index_file_sync(IndexFile *file, bool wal, BlockNumber nblocks)
{
	bool		registered = false;

	if (!wal)
	{
		/*
		 * An unlogged index must be on disk after a shutdown.  A logged one of
		 * wal_level = minimal is flushed at commit.
		 */
		if (file->index->rd_rel->relpersistence == RELPERSISTENCE_UNLOGGED &&
			!compat_register_sync(file->index, nblocks))
			smgrimmedsync(RelationGetSmgr(file->index), MAIN_FORKNUM);
		return;
	}
	/* no checkpoint begins between the comparison and the registration */
	Assert((MyProc->delayChkptFlags & DELAY_CHKPT_START) == 0);
	MyProc->delayChkptFlags |= DELAY_CHKPT_START;
	if (file->redo == GetRedoRecPtr())
		registered = compat_register_sync(file->index, nblocks);
	MyProc->delayChkptFlags &= ~DELAY_CHKPT_START;
	if (!registered)
		smgrimmedsync(RelationGetSmgr(file->index), MAIN_FORKNUM);
}
