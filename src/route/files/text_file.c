/*
 * text_file.c
 *	  Small text files in the data directory that are written whole.
 */
#include "postgres.h"

#include <fcntl.h>
#include <unistd.h>

#include "miscadmin.h"
#include "route/files/text_file.h"
#include "storage/fd.h"

/* A file that is written takes a name with the process's number and this at its end. */
#define UNFINISHED		".tmp"

static bool
write_failed(const char *path, const char *done, int elevel)
{
	int			save_errno = errno;

	unlink(path);
	errno = save_errno;
	ereport(elevel,
			(errcode_for_file_access(),
			 errmsg("could not %s file \"%s\": %m", done, path)));
	return false;
}

bool
gpusort_write_text(const char *file, const char *text, Size len, bool durable, int elevel)
{
	char		path[MAXPGPATH];
	int			fd;

	snprintf(path, sizeof(path), "%s.%d" UNFINISHED, file, MyProcPid);
	fd = OpenTransientFile(path, O_WRONLY | O_CREAT | O_TRUNC | PG_BINARY);
	if (fd < 0)
		return write_failed(path, "create", elevel);

	errno = 0;
	if (write(fd, text, len) != (ssize_t) len || (durable && pg_fsync(fd) != 0))
	{
		if (errno == 0)
			errno = ENOSPC;
		CloseTransientFile(fd);
		return write_failed(path, "write", elevel);
	}
	if (CloseTransientFile(fd) != 0)
		return write_failed(path, "close", elevel);
	if (!durable)
		return rename(path, file) == 0 || write_failed(path, "rename", elevel);
	/* it says what it cannot do */
	if (durable_rename(path, file, Min(elevel, WARNING)) == 0)
		return true;
	unlink(path);
	if (elevel >= ERROR)
		ereport(elevel,
				(errcode(ERRCODE_IO_ERROR),
				 errmsg("could not write file \"%s\"", file)));
	return false;
}

void
gpusort_remove_unfinished_text(void)
{
	DIR		   *dir = AllocateDir(".");
	struct dirent *entry;

	while ((entry = ReadDirExtended(dir, ".", LOG)) != NULL)
	{
		const char *name = entry->d_name;
		size_t		length = strlen(name);

		if (strncmp(name, "gpusort.", 8) == 0 && length > strlen(UNFINISHED) &&
			strcmp(name + length - strlen(UNFINISHED), UNFINISHED) == 0 && unlink(name) != 0)
			ereport(LOG,
					(errcode_for_file_access(),
					 errmsg("could not remove file \"%s\": %m", name)));
	}
	FreeDir(dir);
}

char *
gpusort_read_text(const char *file, Size max, int elevel)
{
	FILE	   *in = AllocateFile(file, "r");
	char	   *text;
	Size		len;

	if (in == NULL)
	{
		if (errno != ENOENT)
			ereport(elevel,
					(errcode_for_file_access(),
					 errmsg("could not open file \"%s\": %m", file)));
		return NULL;
	}
	text = palloc(max);
	len = fread(text, 1, max - 1, in);
	text[len] = '\0';
	FreeFile(in);
	return text;
}
