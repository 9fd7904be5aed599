/*
 * text_file.h
 *	  Small text files in the data directory that are written whole.
 */
#ifndef GPUSORT_TEXT_FILE_H
#define GPUSORT_TEXT_FILE_H

#include "postgres.h"

/*
 * Replaces a file's content: a reader sees the old or the new one.  If it is to be durable, a crash of the
 * machine loses neither, and the disk is waited for.  Otherwise such a crash may leave an empty
 * file.  What goes wrong is reported at elevel; false, if that lets us go on.
 */
extern bool gpusort_write_text(const char *file, const char *text, Size len, bool durable, int elevel);

/* For the server's start, when nobody writes: removes files that processes did not live to finish. */
extern void gpusort_remove_unfinished_text(void);

/*
 * The first max - 1 bytes of a file's content, palloc'd; NULL if there is no file, or it
 * cannot be read, which is reported at elevel.
 */
extern char *gpusort_read_text(const char *file, Size max, int elevel);

#endif							/* GPUSORT_TEXT_FILE_H */
