/*
 * temp_file.h
 *	  Reads and writes of temporary files.
 *
 * EXPLAIN (BUFFERS) and pg_stat_statements count them and, with track_io_timing, their time.
 */
#ifndef GPUSORT_TEMP_FILE_H
#define GPUSORT_TEMP_FILE_H

#include "postgres.h"

#include "storage/fd.h"

/* Writes these bytes at an offset. */
extern void temp_file_write(File file, const void *data, Size bytes, off_t at);

/* Reads at most this number of bytes from an offset on; returns how many, less only at the end of the file. */
extern Size temp_file_read(File file, void *to, Size bytes, off_t at);

#endif							/* GPUSORT_TEMP_FILE_H */
