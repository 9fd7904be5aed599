/*
 * device_sort.h
 *	  The sorter's device half.
 */
#ifndef GPUSORT_DEVICE_SORT_H
#define GPUSORT_DEVICE_SORT_H

#include "device/protocol.h"
#include "node/page_scan.h"
#include "sort/sorter.h"

/* A sort that was told to go to the device waits for room there at most so long. */
#define DEVICE_FORCED_PATIENCE_US	1e7
#define DEVICE_TEST_PATIENCE_US		1e12	/* when a test orders it */

/*
 * device_route.c: does it pay?
 *
 * device_route_keys: for n rows with keys like the staged ones, whose keys (and
 * rids) would travel in this layout and width.  device_route_rows: the same for
 * the rows themselves.  Both set *facts; if true *decision is a GPU's algorithm, and
 * device_route_job tells the device process of it.  facts->device and
 * facts->gpu.why_not say why not.
 */
extern bool device_route_keys(const Sorter *sorter, const KeyLayout *layout, int key_width,
							  uint64 key_range, size_t n, RouteFacts *facts,
							  RouteDecision *decision);
extern bool device_route_rows(const Sorter *sorter, const KeyLayout *layout, int key_width,
							  double rows, RouteFacts *facts, RouteDecision *decision);
extern void device_route_job(const RouteFacts *facts, const RouteDecision *decision,
							 DeviceJobSpec *spec);

/* How many the staged rows and those after them will be. */
extern double device_rows_expected(const Sorter *sorter);

/* Do the staged keys look as if they were in order already? */
extern bool device_keys_ordered(const Stage *stage, const KeyLayout *layout);

/* The device failed this sort: logged, counted, not tried again. */
extern void device_note_failure(Sorter *sorter, const Algorithm *algorithm, const char *why);

/*
 * device_keys.c, device_keys_down.c: key mode.
 *
 * device_keys_after: staged rows from which device_keys_stream() wants to be called.
 * device_keys_stream: sends staged keys while rows come in; sets sorter->send_at to when
 * to call it again.
 * device_keys_sort: sorts the staged rows' keys on the device into sorter->rids (or
 * sorter->keys), if the route goes there and gets through.  False: the CPU has to;
 * report.facts tells why.
 * device_keys_more: sorter->n rows were read, and sorter->device_keys is set: gets
 * more; false if there are none.
 */
extern size_t device_keys_after(const Sorter *sorter);
extern void device_keys_stream(Sorter *sorter);
extern bool device_keys_sort(Sorter *sorter, const KeyLayout *layout, uint64 key_range);
extern bool device_keys_more(Sorter *sorter);
extern void device_keys_end(Sorter *sorter);

/*
 * device_rows.c, device_rows_down.c: record mode.
 *
 * device_rows_after: the host's bytes from which it is worth asking.
 * device_rows_begin: moves all rows to the device; false if that is not to be.
 * device_rows_put: the next row; false if it has to be put into the host's memory
 * (whatever was on the device is a run by then, or there, too).
 * device_rows_put_page: that of a page's rows, as many as it returns.
 * device_rows_seal: the device's part becomes a run, or rows in memory; true if the sort
 * is lost.
 * device_rows_perform: all rows are in; the state is then SORTER_STREAM, or the
 * sort has runs to merge or rows in memory to sort.
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

#endif							/* GPUSORT_DEVICE_SORT_H */
