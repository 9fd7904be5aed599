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

bool
gpusort_write_text(const char *file, const char *text, Size len, int elevel)
{
	char		path[MAXPGPATH];
	int			fd;

	snprintf(path, sizeof(path), "%s.%d.tmp", file, MyProcPid);
	fd = OpenTransientFile(path, O_WRONLY | O_CREAT | O_TRUNC | PG_BINARY);
	if (fd < 0)
	{
		ereport(elevel,
				(errcode_for_file_access(),
				 errmsg("could not create file \"%s\": %m", path)));
		return false;
	}

	errno = 0;
	if (write(fd, text, len) != (ssize_t) len || pg_fsync(fd) != 0)
	{
		int			save_errno = errno ? errno : ENOSPC;

		CloseTransientFile(fd);
		unlink(path);
		errno = save_errno;
		ereport(elevel,
				(errcode_for_file_access(),
				 errmsg("could not write file \"%s\": %m", path)));
		return false;
	}
	if (CloseTransientFile(fd) != 0)
	{
		ereport(elevel,
				(errcode_for_file_access(),
				 errmsg("could not close file \"%s\": %m", path)));
		return false;
	}
	return durable_rename(path, file, elevel) == 0;
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
