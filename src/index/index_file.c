/*
 * index_file.c
 *	  The file of a new index: logs and writes its pages in batches.
 *
 * Pages bypass shared buffers.  PAGE_BATCH pages are logged by one WAL record, and neighbours
 * are written by one system call.  A call for each page would take several times as long as
 * copying the page.  The functions of smgr.h write single pages before PostgreSQL 17, so the
 * segments of the file are opened here by their paths.
 *
 * Sync: every page is in the WAL, so the file need not be on disk at commit, but at the end
 * of the next checkpoint.  If no checkpoint has begun since the first page, the file is
 * registered for the next one.  Otherwise it is flushed here, because recovery may begin
 * behind the first pages.  PostgreSQL does the same from 17 on.
 *
 * Segments: PostgreSQL takes a segment that is not full for the end of a relation.  So a
 * segment must be complete before the next one begins (pages.c).
 *
 * Memory policy: none but the handles.
 *
 * Errors: the memory context closes the segments.
 */
#include "postgres.h"

#include <fcntl.h>

#include "access/xlog.h"
#include "compat.h"
#include "index/index_internal.h"
#include "storage/bufpage.h"
#include "storage/fd.h"
#include "storage/proc.h"
#include "storage/smgr.h"

struct IndexFile
{
	Relation	index;
	XLogRecPtr	redo;			/* where recovery began before the first page */
	int			segment;		/* number of the open segment; -1: none */
	File		file;			/* the open segment */
	MemoryContextCallback callback;
};

static void
close_segment(void *arg)
{
	IndexFile  *file = arg;

	if (file->segment >= 0)
		FileClose(file->file);
	file->segment = -1;
}

IndexFile *
index_file_open(Relation index)
{
	IndexFile  *file = palloc0(sizeof(IndexFile));

	file->index = index;
	file->redo = GetRedoRecPtr();
	file->segment = -1;
	file->callback.func = close_segment;
	file->callback.arg = file;
	MemoryContextRegisterResetCallback(CurrentMemoryContext, &file->callback);
	return file;
}

void
index_file_close(IndexFile *file)
{
	close_segment(file);
}

/* Opens a segment; creates any but the first. */
static void
open_segment(IndexFile *file, int segment)
{
	char	   *path = compat_relation_path(file->index);

	close_segment(file);
	if (segment > 0)
		path = psprintf("%s.%d", path, segment);
	file->file = PathNameOpenFile(path, O_RDWR | PG_BINARY | (segment > 0 ? O_CREAT : 0));
	if (file->file < 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not open file \"%s\": %m", path)));
	file->segment = segment;
	pfree(path);
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

	if (file->segment != (int) (first / RELSEG_SIZE))
		open_segment(file, first / RELSEG_SIZE);
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
		compat_log_newpages(file->index, nlogged, logged, logged_pages);
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
