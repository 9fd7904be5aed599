/*
 * settle.h
 *	  Rows that come back in the order of their keys, put into that of their values.
 */
#ifndef GPUSORT_SETTLE_H
#define GPUSORT_SETTLE_H

#include "sort/device/rows/device_rows.h"

/* The next row, valid until the next call; NULL at the end, or if the rows are lost. */
extern MinimalTuple settled_next(DeviceRows *dev, RowStream *stream);

/* Rows are lost: how many of those that were read have not been given, and their row_sum(). */
extern uint64 settled_waiting(const DeviceRows *dev, uint64 *sum);

extern void settled_end(DeviceRows *dev);

#endif							/* GPUSORT_SETTLE_H */
