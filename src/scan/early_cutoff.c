/*
 * early_cutoff.c
 *	  Gives a bounded sort a cutoff from the last pages of the table, before its scan begins.
 *
 * Where a table grows in the order of the key, the last wanted row by a descending key is
 * on its last pages, and a sort that knew only earlier rows would store each row for a
 * while.  The rows of these pages give the sort an early cutoff, and come again with
 * the scan.  The scan's condition is evaluated for them, too; so it has only functions for
 * which nobody notices that (expr_is_quiet()).
 *
 * On error: the pin belongs to the resource owner.
 */
#include "postgres.h"

#include "access/heapam.h"
#include "catalog/pg_statistic.h"
#include "executor/execPartition.h"
#include "expression.h"
#include "miscadmin.h"
#include "scan/heap_page.h"
#include "scan/scan_internal.h"
#include "storage/bufmgr.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

/*
 * An early cutoff may read one of this number of pages of a table without
 * statistics.  More pages are read if the statistics say that the last rows
 * sort first, and none if they say something else.
 */
#define EARLY_PAGES			128
#define EARLY_PAGES_ORDERED	16

/* Pages after which the number of rows on the pages before them is estimated. */
#define EARLY_LOOK_PAGES	8

/*
 * Pages without rows at the table's end that do not count: PostgreSQL 16 and
 * later extend a table by up to 64 pages at once.
 */
#define EARLY_EMPTY_PAGES	128

/* A column whose correlation with the table's order is at least this one is in order. */
#define EARLY_CORRELATION	0.5

/* Returns the scan that comes last: the child, or the last one below Appends; NULL: not known. */
static PlanState *
last_scan_plan(PlanState *ps)
{
	while (IsA(ps, AppendState))
	{
		AppendState *append = (AppendState *) ps;

		/* a scan may be left out when the Append begins */
		if (append->as_nplans == 0 || append->as_nasyncplans > 0 ||
			(append->as_prune_state != NULL && append->as_prune_state->do_exec_prune))
			return NULL;
		ps = append->appendplans[append->as_nplans - 1];
	}
	return ps;
}

/*
 * The number of pages that an early cutoff may read, of a table of this size.  0: the
 * statistics say that the last rows of the table do not sort first by the first key.
 */
static BlockNumber
early_pages(const PageScan *scan, const KeyBuffer *keybuf, BlockNumber blocks)
{
	HeapTuple	stats = SearchSysCache3(STATRELATTINH,
										ObjectIdGetDatum(RelationGetRelid(scan->child->ss.ss_currentRelation)),
										Int16GetDatum(scan->page.keys.att[0] + 1), BoolGetDatum(false));
	AttStatsSlot slot;
	BlockNumber pages = blocks / EARLY_PAGES;

	if (!HeapTupleIsValid(stats))
		return pages;
	if (get_attstatsslot(&slot, stats, STATISTIC_KIND_CORRELATION, InvalidOid, ATTSTATSSLOT_NUMBERS))
	{
		float4		correlation = slot.nnumbers == 1 ? slot.numbers[0] : 0;

		if (keybuf->cols[0].flip == 0)
			correlation = -correlation;
		pages = correlation >= EARLY_CORRELATION ? blocks / EARLY_PAGES_ORDERED : 0;
		free_attstatsslot(&slot);
	}
	ReleaseSysCache(stats);
	return pages;
}

/* HeapTupleTaker: takes the tuple if the scan's snapshot sees it. */
static bool
take_visible(void *reader, HeapTuple tuple, Buffer buffer)
{
	PageScan   *scan = reader;
	int			n = scan->page.n;

	if (!HeapTupleSatisfiesVisibility(tuple, scan->child->ss.ps.state->es_snapshot, buffer))
		return true;
	scan->page.tuples[n] = tuple->t_data;
	scan->page.lens[n] = tuple->t_len;
	scan->offsets[n] = ItemPointerGetOffsetNumber(&tuple->t_self);
	scan->page.n++;
	return true;
}

/*
 * Takes the rows of a page of the table that are visible and satisfy the
 * condition.  The page is pinned.
 */
static void
take_early_page(PageScan *scan, Buffer buffer, BlockNumber block)
{
	scan->block = block;
	scan->page.n = 0;
	scan->page.ahead.page = NULL;
	scan->page.ahead.step = 0;
	(void) heap_page_read(scan->child->ss.ss_currentRelation, buffer, true, take_visible, scan);
	if (scan->child->ss.ps.qual != NULL)
		(void) page_scan_filter(scan, 0);
	page_scan_measure(scan);
}

PlanState *
early_cutoff_scan(PlanState *plan)
{
	PlanState  *ps = last_scan_plan(plan);

	if (ps == NULL || !is_heap_scan(ps) || !expr_is_quiet((Node *) ps->plan->qual, ps->ps_ExprContext) ||
		RelationGetNumberOfBlocks(((SeqScanState *) ps)->ss.ss_currentRelation) < EARLY_PAGES_ORDERED)
		return NULL;
	return ps;
}

void
early_cutoff_take(PageScan *scan, Sorter *sorter, size_t bound)
{
	Relation	rel = scan->child->ss.ss_currentRelation;
	BlockNumber blocks = RelationGetNumberOfBlocks(rel);
	BlockNumber allowed = early_pages(scan, sorter->keybuf, blocks);
	BlockNumber read = 0;
	BlockNumber empty = 0;
	size_t		rows = 0;

	while (rows < bound && read < allowed && empty <= EARLY_EMPTY_PAGES && read + empty < blocks)
	{
		BlockNumber block = blocks - 1 - empty - read;
		Buffer		buffer;
		bool		taken;

		CHECK_FOR_INTERRUPTS();
		buffer = ReadBuffer(rel, block);
		take_early_page(scan, buffer, block);
		rows += scan->page.n;
		taken = scan->page.n == 0 || sorter_put_early(sorter, &scan->page);
		ReleaseBuffer(buffer);
		if (!taken)
			break;
		if (rows == 0)
		{
			empty++;
			continue;
		}
		read++;
		/* the pages before probably have as many rows as these pages */
		if (read >= EARLY_LOOK_PAGES && (uint64) rows * allowed < (uint64) bound * read)
			break;
	}
	sorter_early_cutoff(sorter, (int) read);
}
