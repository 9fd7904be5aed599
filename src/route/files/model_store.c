/*
 * model_store.c
 *	  Keeps the model's measured constants over restarts.
 *
 * The router and the model know no server, and only see what route_model points to.
 *
 * They lie in a small text file, gpusort.model, in the data directory.  A file
 * and not a table, because the constants belong to the machine and not to a
 * database: every database's sorts use the same ones, a backend reads them
 * without a transaction or a catalog lookup (also a parallel worker, also on a
 * standby), and they can be written on a standby, which may be a different
 * machine.  For the same reason the file names the processor it was measured
 * on: a data directory that moved to another one goes back to the built-in
 * constants until gpusort_calibrate() runs there.
 *
 * Readers notice a new file by its inode and modification time.  A file that cannot be read or
 * understood is logged and ignored: a sort must not fail for want of a prediction.
 * It is logged once for each version of the file, not by each process that looks
 * at it: which was logged stands in shared memory.  A session that loaded the library by
 * itself has none, and says so where only those who look for it read it (DEBUG1).
 */
#include "postgres.h"

#include <sys/stat.h>

#include "common/hashfn.h"
#include "port/atomics.h"
#include "route/files/model_store.h"
#include "route/files/text_file.h"
#include "shared_memory.h"

#define MODEL_FILE		"gpusort.model"

/* Sorts of fewer records than this do not look for a new file. */
#define REFRESH_MIN_ROWS	65536

/* The version of the file that was looked at last; zeroes: there was none. */
static struct
{
	bool		looked;
	ino_t		inode;
	struct timespec mtime;
}			seen;

static RouteModel stored;

/* A hash of the version that was logged last; NULL without shared memory. */
static pg_atomic_uint64 *logged = NULL;

static Size
logged_size(void)
{
	return sizeof(*logged);
}

static void
start_logged(void *memory, bool found)
{
	logged = memory;
	if (found)
		return;
	pg_atomic_init_u64(logged, 0);
	gpusort_remove_unfinished_text();
}

void
gpusort_model_store_init(void)
{
	static const SharedMemory wanted = {"gpusort_model", logged_size, start_logged};

	gpusort_shared_memory(&wanted);
}

/* Of the file that was seen; never 0. */
static uint64
file_version(void)
{
	uint64		parts[3] = {seen.inode, seen.mtime.tv_sec, seen.mtime.tv_nsec};

	return hash_bytes_extended((unsigned char *) parts, sizeof(parts), 0) | 1;
}

/* The level at which to say something of the version that was seen: once for all. */
static int
log_level(void)
{
	uint64		version = file_version();

	return logged != NULL && pg_atomic_exchange_u64(logged, version) != version ? LOG : DEBUG1;
}

static bool
read_model(RouteModel *model)
{
	int			level = log_level();
	char	   *text = gpusort_read_text(MODEL_FILE, MODEL_TEXT_SIZE, level);
	ModelTextStatus status;

	if (text == NULL)
		return false;
	status = model_parse(text, model);
	pfree(text);
	switch (status)
	{
		case MODEL_TEXT_OK:
			return true;
		case MODEL_TEXT_OTHER_MACHINE:
			ereport(level,
					(errmsg("gpusort ignores constants that were measured on another machine"),
					 errhint("Run gpusort_calibrate() to measure this one.")));
			return false;
		case MODEL_TEXT_BAD:
			break;
	}
	ereport(level,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("gpusort cannot use file \"%s\"", MODEL_FILE),
			 errhint("Run gpusort_calibrate() to write it anew.")));
	return false;
}

void
gpusort_model_refresh(size_t n)
{
	struct stat st;

	if (n < REFRESH_MIN_ROWS && seen.looked)
		return;

	if (stat(MODEL_FILE, &st) != 0)
		memset(&st, 0, sizeof(st));
	if (st.st_ino == seen.inode &&
		st.st_mtim.tv_sec == seen.mtime.tv_sec &&
		st.st_mtim.tv_nsec == seen.mtime.tv_nsec)
	{
		seen.looked = true;
		return;
	}
	seen.looked = true;
	seen.inode = st.st_ino;
	seen.mtime = st.st_mtim;

	route_model = st.st_ino != 0 && read_model(&stored) ?
		&stored : &route_model_builtin;
}

uint64
gpusort_model_version(void)
{
	gpusort_model_refresh(0);
	return file_version();
}

void
gpusort_model_store(const RouteModel *model)
{
	char		text[MODEL_TEXT_SIZE];
	size_t		len = model_format(model, text);

	(void) gpusort_write_text(MODEL_FILE, text, len, true, ERROR);
}
