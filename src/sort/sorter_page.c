/*
 * sorter_page.c
 *	  A page of rows into a sort at once.
 *
 * What sorter_put() does row by row, with one check of memory for all rows of a
 * page, their keys staged column by column, and rows copied from the page to
 * where they stay.  A page that may fill the memory, and whatever else is not
 * the ordinary case, goes in row by row.
 */
#include "postgres.h"

#include "sort/device_sort.h"
#include "sort/limit.h"
#include "sort/sorter.h"
#include "sort/sorter_page.h"

/* So many rows, already staged, are in. */
static void
count_staged(Sorter *sorter, int rows)
{
	sorter->stage.n += rows;
	sorter->report.rows += rows;
	if (unlikely(sorter->stage.n >= sorter->send_at))
		device_keys_stream(sorter);
}

/* Rows in the host's memory: false if they might not fit. */
static bool
put_rows(Sorter *sorter, PageScan *scan)
{
	Stage	   *stage = &sorter->stage;
	Arena	   *arena = &sorter->arena;

	if (sorter_taken(sorter) + scan->bytes + scan->n * sorter->sort_cost >
		sorter->put_limit || !arena_has_rids(arena, scan->bytes))
		return false;
	if (stage->n + scan->n > stage->capacity && !sorter_stage_room(sorter, scan->n))
		return false;
	page_scan_stage(scan, stage, stage->n);
	for (int i = 0; i < scan->n; i++)
	{
		(void) arena_reserve(arena, page_scan_room(scan, i));
		stage->rids[stage->n + i] = arena_take(arena, page_scan_write(scan, i, arena->next));
	}
	count_staged(sorter, scan->n);
	return true;
}

/* Nothing but keys: false if they do not fit. */
static bool
put_keys(Sorter *sorter, PageScan *scan)
{
	Stage	   *stage = &sorter->stage;

	if (sorter_taken(sorter) + scan->n * sorter->sort_cost > sorter->limit)
		return false;
	if (stage->n + scan->n > stage->capacity && !sorter_stage_room(sorter, scan->n))
		return false;
	page_scan_stage(scan, stage, stage->n);
	count_staged(sorter, scan->n);
	return true;
}

/* A bounded sort that has its threshold: most rows go no further. */
static void
put_below_threshold(Sorter *sorter, PageScan *scan)
{
	for (int i = 0; i < scan->n; i++)
	{
		if (page_keys_fixed(&scan->keys, scan->tuples[i]) &&
			limit_rejects_at(sorter, &scan->keys, page_scan_data(scan, i)))
			sorter->report.rows++;
		else
			sorter_put(sorter, page_scan_row(scan, i));
	}
}

void
sorter_put_page(Sorter *sorter, PageScan *scan)
{
	int			done = 0;

	sorter->report.page_rows += scan->n;
	if (sorter->spec.keys_only)
	{
		if (put_keys(sorter, scan))
			return;
	}
	else if (sorter->have_threshold)
	{
		put_below_threshold(sorter, scan);
		return;
	}
	else if (scan->direct && sorter->bound == 0)
	{
		if (sorter->device_rows != NULL)
		{
			done = device_rows_put_page(sorter, scan);
			sorter->report.rows += done;
		}
		else if (put_rows(sorter, scan))
			return;
	}
	for (int i = done; i < scan->n && !sorter->lost; i++)
		sorter_put(sorter, page_scan_row(scan, i));
}
