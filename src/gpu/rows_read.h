/*
 * rows_read.h
 *	  Reads the rows that a job returns, for loops over rows.
 */
#ifndef GPUSORT_GPU_ROWS_READ_H
#define GPUSORT_GPU_ROWS_READ_H

#include "gpu/row_mode.h"

/* The next row of the chunk, checked; NULL if it is wrong, and then the device failed. */
static inline MinimalTuple
device_rows_read(DeviceRows *dev, RowStream *stream)
{
	MinimalTuple row = row_stream_next(stream);

	if (unlikely(row == NULL))
		device_rows_wrong_row(dev, stream);
	return row;
}

#endif							/* GPUSORT_GPU_ROWS_READ_H */
