/*
 * page_source.c
 *	  Puts the child's rows into a sorter: by slot, or by heap page.
 *
 * Most large sorts read a sequential scan of a table.  Fetching a row through
 * the scan node, the table access method and a slot takes as long as sorting
 * it.  But a heap scan collects the visible tuples of a page when it enters the
 * page, and keeps the page pinned until it leaves it.  So the child is asked,
 * in the ordinary way, for the first row of every page only.  The other rows
 * are taken from the page, and the scan's position is moved behind them.
 * Where the scan's internals are not as expected (heap_page.h), rows come one
 * by one.
 *
 * The rest of the server sees an ordinary scan: the child opens, advances and
 * ends its scan itself, checks for interrupts and conflicts, and synchronizes
 * with other scans; its rows are counted for EXPLAIN and for the table's
 * statistics.  Only the child's time in EXPLAIN is smaller, because the time
 * for the rows of a page counts as the sort's.
 *
 * There are two kinds of such scans.  A page scan has rows that are tuples of
 * the table or some of their columns (page_scan.c).  A computed scan has rows
 * with expressions (computed_scan.c).
 *
 * The scans may be below an Append, as those of partitions are: an Append runs
 * one child after the other and tells which one is current.
 *
 * On error: nothing is held that the child does not hold.
 */
#include "postgres.h"

#include "access/heapam.h"
#include "compat.h"
#include "executor/executor.h"
#include "scan/scan_internal.h"

/* Rows or pages between two checks of whether the sort is still wanted. */
#define ROWS_PER_STOP_CHECK	256

/* Rows that a scan returns in slots before its pages are read: making a page scan takes as long. */
#define ROWS_BEFORE_PAGES	4

void
page_source_init(PageSource *source, PlanState *plan)
{
	memset(source, 0, sizeof(*source));
	source->plan = plan;
	source->possible = IsA(plan, SeqScanState) || IsA(plan, AppendState);
}

/* Returns the plan node that returned the last row: the current child of Appends. */
static PlanState *
current_scan_plan(PlanState *ps)
{
	while (IsA(ps, AppendState))
	{
		AppendState *append = (AppendState *) ps;

		/* with asynchronous children, as_whichplan is not the child of the last row */
		if (append->as_nasyncplans > 0 || append->as_whichplan < 0)
			return ps;
		ps = append->appendplans[append->as_whichplan];
	}
	return ps;
}

/* Counts rows for the Appends above their scan, through which they did not pass. */
static void
count_appended(PlanState *ps, int rows)
{
	while (IsA(ps, AppendState))
	{
		if (ps->instrument != NULL)
			InstrUpdateTupleCount(ps->instrument, rows);
		ps = ((AppendState *) ps)->appendplans[((AppendState *) ps)->as_whichplan];
	}
}

/*
 * The child has just returned a row: takes that row and those after it on its
 * page, which are valid until the child is asked for its next row, the first of
 * the next page.  NULL if the row must be taken from its slot.  keybuf has the
 * sort's key columns.
 */
static RowPage *
page_source_take(PageSource *source, const KeyBuffer *keybuf)
{
	PlanState  *scan_plan = current_scan_plan(source->plan);

	if (unlikely(scan_plan != source->scan_plan))
	{
		page_source_end(source);
		source->scan_plan = scan_plan;
	}
	if (unlikely(!source->examined))
	{
		MemoryContext old;

		if (++source->single_rows < ROWS_BEFORE_PAGES)
			return NULL;
		old = MemoryContextSwitchTo(scan_plan->state->es_query_cxt);
		source->scan = page_scan_create(scan_plan, keybuf);
		if (source->scan == NULL)
			source->computed = computed_scan_create(scan_plan, keybuf);
		source->examined = true;
		MemoryContextSwitchTo(old);
	}
	if (source->computed != NULL)
		computed_scan_take(source->computed);
	if (source->scan == NULL || !page_scan_take(source->scan))
		return NULL;
	count_appended(source->plan, source->scan->page.n - 1);
	if (source->key_filter.role != KEY_FILTER_NONE)
		key_filter_page(&source->key_filter, &source->scan->page, source->scan->offsets);
	page_scan_measure(source->scan);
	return &source->scan->page;
}

/*
 * Puts the next rows that are computed from the current heap page into the sorter.  False
 * if there are none: ask the child.  Otherwise *kept tells whether the sort has failed.
 */
static inline bool
page_source_put_computed(PageSource *source, Sorter *sorter, bool *kept)
{
	ComputedScan *scan = source->computed;
	TupleTableSlot *single;
	int			rows;

	if (scan == NULL || scan->next >= scan->n)
		return false;
	rows = computed_scan_rows(scan, &single);
	count_appended(source->plan, rows);
	if (source->key_filter.role != KEY_FILTER_NONE)
	{
		key_filter_page(&source->key_filter, &scan->page, NULL);
		if (single != NULL && !key_filter_slot(&source->key_filter, single))
			single = NULL;
	}
	*kept = scan->page.n == 0 || sorter_put_page(sorter, &scan->page);
	if (single != NULL)
		*kept = *kept && sorter_put_page_row(sorter, single);
	return true;
}

void
page_source_end(PageSource *source)
{
	if (source->scan != NULL)
		page_scan_end(source->scan);
	if (source->computed != NULL)
		computed_scan_end(source->computed);
	source->scan_plan = NULL;
	source->single_rows = 0;
	source->examined = false;
	source->scan = NULL;
	source->computed = NULL;
}

/* Lets the rows of the table's last pages give a bounded sort a cutoff, if these pages may be read. */
static void
take_early_cutoff(PageSource *source, Sorter *sorter, size_t bound)
{
	PlanState  *ps = early_cutoff_scan(source->plan);

	if (ps == NULL)
		return;
	if (source->scan_plan != ps || source->scan == NULL)
	{
		MemoryContext old;

		page_source_end(source);
		old = MemoryContextSwitchTo(ps->state->es_query_cxt);
		source->scan = page_scan_create(ps, sorter->keybuf);
		MemoryContextSwitchTo(old);
		if (source->scan == NULL)
			return;
		source->scan_plan = ps;
		source->examined = true;
	}
	early_cutoff_take(source->scan, sorter, bound);
}

bool
page_source_has_rows(PageSource *source)
{
	if (!source->asked)
		source->first = ExecProcNode(source->plan);
	source->asked = true;
	return !TupIsNull(source->first);
}

/* Asks the child for its next row, unless it has returned it already. */
static inline TupleTableSlot *
next_of_child(PageSource *source)
{
	if (likely(!source->asked))
		return ExecProcNode(source->plan);
	source->asked = false;
	return source->first;
}

void
page_source_take_rows(PageSource *source, Sorter *sorter, pg_atomic_uint32 *stop)
{
	KeyFilterUse *filter = &source->key_filter;
	size_t		bound = sorter->early_bound;

	/* rows of a page that an earlier run of the child has not read */
	if (source->computed != NULL)
		source->computed->n = source->computed->next = 0;
	if (bound > 0 && source->possible)
		take_early_cutoff(source, sorter, bound);
	if (filter->role != KEY_FILTER_NONE)
		key_filter_begin(filter);
	for (uint64 asked = 0;;)
	{
		TupleTableSlot *slot;
		RowPage    *page;
		bool		kept;

		if (page_source_put_computed(source, sorter, &kept))
		{
			if (unlikely(!kept))
				break;
			continue;
		}
		if (++asked % ROWS_PER_STOP_CHECK == 0 && stop != NULL && pg_atomic_read_u32(stop) != 0)
			break;
		slot = next_of_child(source);
		if (TupIsNull(slot))
		{
			key_filter_end(filter);
			break;
		}
		page = !source->possible ? NULL : page_source_take(source, sorter->keybuf);
		if (page != NULL)
			kept = page->n == 0 || sorter_put_page(sorter, page);
		else if (filter->role == KEY_FILTER_NONE || key_filter_slot(filter, slot))
			kept = sorter_put(sorter, slot);
		else
			kept = true;
		if (unlikely(!kept))
			break;
	}
}
