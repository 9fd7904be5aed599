/*
 * device_sort.h
 *	  The sorter's device half.
 */
#ifndef GPUSORT_DEVICE_SORT_H
#define GPUSORT_DEVICE_SORT_H

#include "node/page_scan.h"
#include "node/sorter.h"

/*
 * device_keys.c: sorts the staged rows' keys on the device into sorter->rids, if
 * the route goes there and gets through.  False: the CPU has to; facts->device
 * tells why, and facts and decision are as the CPU's route wants to find them.
 * In a sort that is nothing but keys, sorts these into sorter->keys.
 */
extern bool device_keys_sort(Sorter *sorter, const KeyLayout *layout, uint64 key_range);

/*
 * A GPU algorithm that was forced but did not sort: the decision that the CPU
 * made without it says so.
 */
extern void device_note_unforced(RouteFacts *facts, RouteDecision *decision);

/*
 * device_rows.c: record mode.
 *
 * device_rows_after: the host's bytes from which it is worth asking.
 * device_rows_begin: moves all rows to the device; false if that is not to be.
 * device_rows_put: the next row; false if it has to be put into the host's memory
 * (whatever was on the device is a run by then).
 * device_rows_put_page: that of a page's rows, as many as it returns.
 * device_rows_seal: the device's part becomes a run; true if the sort is lost.
 * device_rows_perform: all rows are in; the state is then SORTER_STREAM, or the
 * sort has runs to merge.
 * device_rows_next: the next row in state SORTER_STREAM, valid until the next call.
 * device_rows_given: rows given out so far.
 */
extern Size device_rows_after(const Sorter *sorter);
extern bool device_rows_begin(Sorter *sorter);
extern bool device_rows_put(Sorter *sorter, TupleTableSlot *slot);
extern int	device_rows_put_page(Sorter *sorter, PageScan *scan);
extern bool device_rows_seal(Sorter *sorter);
extern void device_rows_perform(Sorter *sorter);
extern MinimalTuple device_rows_next(Sorter *sorter);
extern uint64 device_rows_given(const Sorter *sorter);
extern void device_rows_end(Sorter *sorter);

/* The device failed this sort: logged, counted, not tried again. */
extern void device_note_failure(Sorter *sorter, const char *why);

#endif							/* GPUSORT_DEVICE_SORT_H */
