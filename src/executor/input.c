/*
 * input.c
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
 * the table or some of their columns; the sorter takes a page's rows at once.
 * A computed scan has rows with expressions; they are computed one by one, by
 * the scan's own compiled condition and target list in the scan's expression
 * context.  Both evaluate the scan's condition for one tuple before they look
 * at the next, as the scan does, so that volatile functions and errors come in
 * the same order.
 *
 * The scans may be below an Append, as those of partitions are: an Append runs
 * one child after the other and tells which one is current.
 *
 * A bounded sort may read the last pages of the table before the scan begins.
 * Where a table grows in the order of the key, the last wanted row by a
 * descending key is there, and a sort that knew only earlier rows would store
 * each row for a while.  The rows of these pages give the sort an early
 * threshold, and come again with the scan.
 *
 * On error: nothing is held that the child does not hold.
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/htup_details.h"
#include "catalog/pg_statistic.h"
#include "compat.h"
#include "executor/execPartition.h"
#include "executor/executor.h"
#include "executor/executor_internal.h"
#include "executor/heap_page.h"
#include "miscadmin.h"
#include "monitor/stat.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "pgstat.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

/* Rows or pages between two checks of whether the sort is still wanted. */
#define ROWS_PER_STOP_CHECK	256

/* Rows that a scan returns in slots before its pages are read: small scans are not worth it. */
#define ROWS_BEFORE_PAGES	64

/*
 * An early threshold may read one of this number of pages of a table without
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

/* A scan whose rows are columns of its tuples. */
typedef struct PageScan
{
	RowPage		page;			/* rows of the current page */
	SeqScanState *child;

	/* table column (from 0) of each column of the row */
	AttrNumber *atts;
	TupleTableSlot *tuple_slot; /* a tuple of the table */
	TupleTableSlot *row_slot;	/* child's row; tuple_slot for whole tuples */
	BlockNumber block;			/* number of the current page */
	OffsetNumber offsets[MaxHeapTuplesPerPage]; /* line pointers of its rows */
} PageScan;

/* Memory for the rows that are computed from one heap page. */
#define COMPUTED_BYTES		((Size) 64 * 1024)

/* A scan whose rows are computed from its tuples. */
typedef struct ComputedScan
{
	RowPage		page;			/* computed rows */
	SeqScanState *child;
	MemoryContext cxt;			/* has all of this */
	TupleTableSlot *slot;		/* the tuple that a row is computed from */
	RowProgram *program;		/* computes rows; NULL: the child's projection
								 * does */
	char	   *memory;			/* of the page's rows; NULL: rows come in
								 * slots only */
	RowWriter  *writer;			/* writes them */
	TupleTableSlot *row_slot;	/* returns one of them */

	/* tuples of the current heap page */
	BlockNumber block;
	int			n;
	int			next;			/* the next tuple to compute a row from */
	HeapTupleHeader tuples[MaxHeapTuplesPerPage];
	uint16		lens[MaxHeapTuplesPerPage];
	OffsetNumber offsets[MaxHeapTuplesPerPage];
	PageAhead	ahead;
} ComputedScan;

/* Is this a sequential scan of a heap, outside of EvalPlanQual? */
static bool
is_heap_scan(PlanState *ps)
{
	return IsA(ps, SeqScanState) && ps->state->es_epq_active == NULL &&
		((SeqScanState *) ps)->ss.ss_currentRelation->rd_tableam == GetHeapamTableAmRoutine();
}

/* ------------------------------------------------------------------------
 * Page scans
 * ------------------------------------------------------------------------
 */

/* Finds the table columns of the child's row; false if the row has expressions. */
static bool
map_columns(const SeqScanState *child, AttrNumber *atts)
{
	Scan	   *plan = (Scan *) child->ss.ps.plan;
	int			natts = RelationGetDescr(child->ss.ss_currentRelation)->natts;
	int			i = 0;
	ListCell   *lc;

	foreach(lc, plan->plan.targetlist)
	{
		Var		   *var = (Var *) lfirst_node(TargetEntry, lc)->expr;

		/* a binary-coercible type or another collation: the same bytes */
		while (IsA(var, RelabelType))
			var = (Var *) ((RelabelType *) var)->arg;
		if (!IsA(var, Var) || var->varno != plan->scanrelid || var->varattno <= 0 ||
			var->varattno > natts)
			return false;
		atts[i++] = var->varattno - 1;
	}
	return true;
}

/* Stores a tuple of the current page in a slot. */
static void
heap_tuple_to_slot(TupleTableSlot *slot, const SeqScanState *child, BlockNumber block,
				   OffsetNumber offset, HeapTupleHeader header, uint16 len)
{
	HeapTuple	tuple = &((HeapTupleTableSlot *) slot)->tupdata;

	tuple->t_len = len;
	tuple->t_data = header;
	tuple->t_tableOid = RelationGetRelid(child->ss.ss_currentRelation);
	/* conditions may refer to ctid */
	ItemPointerSet(&tuple->t_self, block, offset);
	ExecStoreHeapTuple(tuple, slot, false);
}

static void
page_tuple_to_slot(PageScan *scan, int i)
{
	heap_tuple_to_slot(scan->tuple_slot, scan->child, scan->block, scan->offsets[i],
					   scan->page.tuples[i], scan->page.lens[i]);
}

/* RowPage.row: returns row i as the child would. */
static TupleTableSlot *
page_row(RowPage *page, int i)
{
	PageScan   *scan = (PageScan *) page;
	TupleTableSlot *row = scan->row_slot;
	TupleTableSlot *tuple = scan->tuple_slot;

	page_tuple_to_slot(scan, i);
	if (page->whole)
		return row;
	slot_getallattrs(tuple);
	ExecClearTuple(row);
	for (int att = 0; att < row->tts_tupleDescriptor->natts; att++)
	{
		row->tts_values[att] = tuple->tts_values[scan->atts[att]];
		row->tts_isnull[att] = tuple->tts_isnull[scan->atts[att]];
	}
	return ExecStoreVirtualTuple(row);
}

/* Creates a page scan; NULL if the plan is not a heap scan that returns columns. */
static PageScan *
page_scan_create(PlanState *ps, const KeyBuffer *keybuf)
{
	SeqScanState *child = (SeqScanState *) ps;
	TupleDesc	desc;
	PageScan   *scan;

	if (!is_heap_scan(ps))
		return NULL;

	desc = RelationGetDescr(child->ss.ss_currentRelation);
	scan = palloc0(sizeof(PageScan));
	scan->child = child;
	scan->page.row = page_row;
	scan->page.whole = (ps->ps_ProjInfo == NULL);
	scan->atts = palloc(Max(1, list_length(ps->plan->targetlist)) * sizeof(AttrNumber));
	if (map_columns(child, scan->atts))
	{
		page_keys_init(&scan->page.keys, keybuf, desc, scan->atts);
		scan->page.nkeys = keybuf->ncols;
		scan->page.key_walk = tuple_walk_create(desc, scan->page.keys.att, keybuf->ncols, false);
	}
	if (scan->page.key_walk == NULL)
	{
		pfree(scan->atts);
		pfree(scan);
		return NULL;
	}
	if (!scan->page.whole)
		scan->page.pick = row_pick_create(desc, ExecGetResultType(ps), scan->atts);
	scan->tuple_slot = MakeSingleTupleTableSlot(desc, &TTSOpsHeapTuple);
	scan->row_slot = scan->page.whole ? scan->tuple_slot :
		MakeSingleTupleTableSlot(ExecGetResultType(ps), &TTSOpsVirtual);
	return scan;
}

/*
 * Removes the rows from the first one that do not satisfy the scan's condition.
 * Returns how many were removed.
 */
static int
filter_page(PageScan *scan, int first)
{
	PlanState  *ps = &scan->child->ss.ps;
	ExprContext *econtext = ps->ps_ExprContext;
	int			n = scan->page.n;
	int			kept = first;

	econtext->ecxt_scantuple = scan->tuple_slot;
	for (int i = first; i < n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		ResetExprContext(econtext);
		page_tuple_to_slot(scan, i);
		if (!ExecQual(ps->qual, econtext))
			continue;
		scan->page.tuples[kept] = scan->page.tuples[i];
		scan->page.lens[kept] = scan->page.lens[i];
		scan->offsets[kept] = scan->offsets[i];
		kept++;
	}
	ExecClearTuple(scan->tuple_slot);
	scan->page.n = kept;
	return n - kept;
}

/* Sets whether the page's rows can be copied without a slot, and the bytes that they need. */
static void
measure_page(PageScan *scan)
{
	scan->page.direct = scan->page.whole || scan->page.pick != NULL;
	scan->page.bytes = 0;
	for (int i = 0; i < scan->page.n && scan->page.direct; i++)
		scan->page.bytes += row_page_room(&scan->page, i);
}

/* Takes the rows of the scan's page, from the one that the scan returned last. */
static bool
page_scan_take(PageScan *scan)
{
	HeapScanDesc heap = (HeapScanDesc) scan->child->ss.ss_currentScanDesc;
	Relation	rel = scan->child->ss.ss_currentRelation;
	int			n = heap_page_take(heap, scan->page.tuples, scan->page.lens, scan->offsets);

	if (n == 0)
		return false;
	scan->block = ItemPointerGetBlockNumber(&scan->child->ss.ss_ScanTupleSlot->tts_tid);
	scan->page.n = n;
	if (scan->child->ss.ps.qual != NULL)
	{
		/* the child has checked the first row */
		int			removed = filter_page(scan, 1);

		InstrCountFiltered1(&scan->child->ss.ps, removed);
	}
	measure_page(scan);
	heap_page_prefetch_next(heap, rel, scan->page.n, &scan->page.ahead);

	/* the scan has counted the first row */
	compat_count_heap_rows(rel, n - 1);
	if (scan->child->ss.ps.instrument != NULL)
		InstrUpdateTupleCount(scan->child->ss.ps.instrument, scan->page.n - 1);
	return true;
}

static void
page_scan_end(PageScan *scan)
{
	if (!scan->page.whole)
		ExecDropSingleTupleTableSlot(scan->row_slot);
	if (scan->page.pick != NULL)
		row_pick_free(scan->page.pick);
	tuple_walk_free(scan->page.key_walk);
	ExecDropSingleTupleTableSlot(scan->tuple_slot);
	pfree(scan->atts);
	pfree(scan);
}

/* ------------------------------------------------------------------------
 * Computed scans
 * ------------------------------------------------------------------------
 */

/* RowPage.row: returns row i as the child would. */
static TupleTableSlot *
computed_row(RowPage *page, int i)
{
	TupleTableSlot *slot = ((ComputedScan *) page)->row_slot;

	row_to_slot(slot, (MinimalTuple) ((char *) page->tuples[i] + MINIMAL_TUPLE_OFFSET));
	return slot;
}

/* Creates a computed scan; NULL if the plan is not a heap scan with a projection. */
static ComputedScan *
computed_scan_create(PlanState *ps, const KeyBuffer *keybuf)
{
	SeqScanState *child = (SeqScanState *) ps;
	TupleDesc	desc = ExecGetResultType(ps);
	MemoryContext cxt;
	MemoryContext old;
	ComputedScan *scan;

	if (ps->ps_ProjInfo == NULL || !is_heap_scan(ps))
		return NULL;
	cxt = AllocSetContextCreate(CurrentMemoryContext, "GpuSort computed scan", ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(cxt);
	scan = palloc0(sizeof(ComputedScan));
	scan->child = child;
	scan->cxt = cxt;
	scan->slot = MakeSingleTupleTableSlot(RelationGetDescr(child->ss.ss_currentRelation),
										  &TTSOpsHeapTuple);
	scan->program = row_program_create((const Scan *) ps->plan, RelationGetDescr(child->ss.ss_currentRelation));
	scan->page.row = computed_row;
	row_page_init_stored(&scan->page, desc, keybuf);
	if (scan->page.key_walk != NULL)
	{
		scan->memory = palloc(COMPUTED_BYTES);
		scan->writer = row_writer_create(desc);
		scan->row_slot = MakeSingleTupleTableSlot(desc, &TTSOpsMinimalTuple);
	}
	MemoryContextSwitchTo(old);
	return scan;
}

/* Takes the tuples that follow the scan's last row on its page. */
static void
computed_scan_take(ComputedScan *scan)
{
	SeqScanState *child = scan->child;

	scan->n = heap_page_take((HeapScanDesc) child->ss.ss_currentScanDesc, scan->tuples,
							 scan->lens, scan->offsets);
	scan->next = 1;
	if (scan->n == 0)
		return;
	scan->block = ItemPointerGetBlockNumber(&child->ss.ss_ScanTupleSlot->tts_tid);
	heap_page_prefetch_next((HeapScanDesc) child->ss.ss_currentScanDesc,
							child->ss.ss_currentRelation, scan->n, &scan->ahead);
	compat_count_heap_rows(child->ss.ss_currentRelation, scan->n - 1);
}

/* ResetExprContext() without a call if nothing was allocated. */
static inline void
reset_row_memory(ExprContext *econtext)
{
	MemoryContext cxt = econtext->ecxt_per_tuple_memory;

	if (unlikely(!cxt->isReset || cxt->firstchild != NULL))
		MemoryContextReset(cxt);
}

/* Does tuple i satisfy the scan's condition? */
static bool
computed_scan_accepts(ComputedScan *scan, int i)
{
	PlanState  *ps = &scan->child->ss.ps;

	heap_tuple_to_slot(scan->slot, scan->child, scan->block, scan->offsets[i], scan->tuples[i], scan->lens[i]);
	ps->ps_ExprContext->ecxt_scantuple = scan->slot;
	return ps->qual == NULL || ExecQual(ps->qual, ps->ps_ExprContext);
}

/*
 * Computes the page's next row, whose columns are in the arrays until the next call.  False
 * if there is none.
 */
static pg_attribute_always_inline bool
computed_scan_next(ComputedScan *scan, const Datum **values, const bool **isnull)
{
	PlanState  *ps = &scan->child->ss.ps;
	ExprContext *econtext = ps->ps_ExprContext;

	while (scan->next < scan->n)
	{
		int			i = scan->next++;

		CHECK_FOR_INTERRUPTS();
		reset_row_memory(econtext);
		page_ahead_ask(&scan->ahead, i);
		if ((scan->program == NULL || ps->qual != NULL) && !computed_scan_accepts(scan, i))
		{
			InstrCountFiltered1(ps, 1);
			continue;
		}
		if (scan->program != NULL)
		{
			MemoryContext old = MemoryContextSwitchTo(econtext->ecxt_per_tuple_memory);

			row_program_run(scan->program, scan->tuples[i], scan->lens[i], values, isnull);
			MemoryContextSwitchTo(old);
		}
		else
		{
			const TupleTableSlot *row = ExecProject(ps->ps_ProjInfo);

			*values = row->tts_values;
			*isnull = row->tts_isnull;
		}
		return true;
	}
	return false;
}

/* Returns the computed row in the child's slot. */
static TupleTableSlot *
computed_scan_slot(ComputedScan *scan, const Datum *values, const bool *isnull)
{
	TupleTableSlot *slot = scan->child->ss.ps.ps_ProjInfo->pi_state.resultslot;
	int			natts = slot->tts_tupleDescriptor->natts;

	if (values == slot->tts_values)
		return slot;
	ExecClearTuple(slot);
	memcpy(slot->tts_values, values, natts * sizeof(Datum));
	memcpy(slot->tts_isnull, isnull, natts * sizeof(bool));
	return ExecStoreVirtualTuple(slot);
}

/*
 * Computes the next rows of the current heap page, which become rows of scan->page.  Stops
 * at a row that has no place there; *single is this row, valid until the next call, or
 * NULL.  Returns the number of rows.
 */
static int
computed_scan_rows(ComputedScan *scan, TupleTableSlot **single)
{
	RowPage    *page = &scan->page;
	char	   *at = scan->memory;
	const Datum *values;
	const bool *isnull;
	int			rows = 0;

	*single = NULL;
	page->n = 0;
	while (computed_scan_next(scan, &values, &isnull))
	{
		Size		size = 0;

		rows++;
		if (likely(scan->memory != NULL))
			size = row_writer_try(scan->writer, values, isnull, at, scan->memory + COMPUTED_BYTES - at);
		if (unlikely(size == 0 || !row_page_put_stored(page, (MinimalTuple) at)))
		{
			*single = computed_scan_slot(scan, values, isnull);
			break;
		}
		at += size;
	}
	page->bytes = at - scan->memory;
	if (scan->child->ss.ps.instrument != NULL)
		InstrUpdateTupleCount(scan->child->ss.ps.instrument, rows);
	return rows;
}

static void
computed_scan_end(ComputedScan *scan)
{
	ExecDropSingleTupleTableSlot(scan->slot);
	if (scan->row_slot != NULL)
		ExecDropSingleTupleTableSlot(scan->row_slot);
	MemoryContextDelete(scan->cxt);
}

/* ------------------------------------------------------------------------
 * The child's scans, below Appends or not
 * ------------------------------------------------------------------------
 */

void
page_source_init(PageSource *source, PlanState *plan)
{
	memset(source, 0, sizeof(*source));
	source->plan = plan;
	source->possible = IsA(plan, SeqScanState) || IsA(plan, AppendState);
}

/* The child begins, or begins again: drops rows of a page that an earlier run has not read. */
static void
page_source_begin(PageSource *source)
{
	if (source->computed != NULL)
		source->computed->n = source->computed->next = 0;
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
 * sort's key columns; a new scan is created in cxt.
 */
static RowPage *
page_source_take(PageSource *source, const KeyBuffer *keybuf, MemoryContext cxt)
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
		old = MemoryContextSwitchTo(cxt);
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
	page_source_init(source, source->plan);
}

/* ------------------------------------------------------------------------
 * Early thresholds of bounded sorts
 * ------------------------------------------------------------------------
 */

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
 * The number of pages that an early threshold may read, of a table of this size.  0: the
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

/*
 * Takes the rows of a page of the table that are visible and satisfy the
 * condition.  The page is pinned.
 */
static void
take_early_page(PageScan *scan, Buffer buffer, BlockNumber block)
{
	Relation	rel = scan->child->ss.ss_currentRelation;
	Snapshot	snapshot = scan->child->ss.ps.state->es_snapshot;
	Page		page = BufferGetPage(buffer);
	OffsetNumber max;
	int			n = 0;

	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	max = PageGetMaxOffsetNumber(page);
	for (OffsetNumber offset = FirstOffsetNumber; offset <= max; offset++)
	{
		ItemId		item = PageGetItemId(page, offset);
		HeapTupleData tuple;

		if (!ItemIdIsNormal(item))
			continue;
		tuple.t_data = (HeapTupleHeader) PageGetItem(page, item);
		tuple.t_len = ItemIdGetLength(item);
		tuple.t_tableOid = RelationGetRelid(rel);
		ItemPointerSet(&tuple.t_self, block, offset);
		if (!HeapTupleSatisfiesVisibility(&tuple, snapshot, buffer))
			continue;
		scan->page.tuples[n] = tuple.t_data;
		scan->page.lens[n] = tuple.t_len;
		scan->offsets[n++] = offset;
	}
	/* the pin keeps the tuples where they are */
	LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
	scan->block = block;
	scan->page.n = n;
	scan->page.ahead.page = NULL;
	scan->page.ahead.step = 0;
	if (scan->child->ss.ps.qual != NULL)
		(void) filter_page(scan, 0);
	measure_page(scan);
}

/*
 * Gives a bounded sort that has no rows yet a threshold from the last pages of
 * the table: the wanted number of rows is there, or before them in sort order.
 * Without effect where the table is small for the number of rows.
 */
static void
take_early_threshold(Sorter *sorter, size_t bound, PageSource *pages, MemoryContext cxt)
{
	const KeyBuffer *keybuf = sorter->keybuf;
	PlanState  *ps = last_scan_plan(pages->plan);
	MemoryContext old;
	PageScan   *scan;
	BlockNumber blocks;
	BlockNumber allowed;
	BlockNumber read = 0;
	BlockNumber empty = 0;
	size_t		rows = 0;

	if (ps == NULL || !is_heap_scan(ps) ||
		contain_subplans((Node *) ps->plan->qual) || contain_volatile_functions((Node *) ps->plan->qual))
		return;
	blocks = RelationGetNumberOfBlocks(((SeqScanState *) ps)->ss.ss_currentRelation);
	if (blocks < EARLY_PAGES_ORDERED)
		return;
	if (pages->scan_plan != ps || pages->scan == NULL)
	{
		page_source_end(pages);
		old = MemoryContextSwitchTo(cxt);
		pages->scan = page_scan_create(ps, keybuf);
		MemoryContextSwitchTo(old);
		if (pages->scan == NULL)
			return;
		pages->scan_plan = ps;
		pages->examined = true;
	}
	scan = pages->scan;
	allowed = early_pages(scan, keybuf, blocks);
	while (rows < bound && read < allowed && empty <= EARLY_EMPTY_PAGES && read + empty < blocks)
	{
		BlockNumber block = blocks - 1 - empty - read;
		Buffer		buffer;
		bool		taken;

		CHECK_FOR_INTERRUPTS();
		buffer = ReadBuffer(scan->child->ss.ss_currentRelation, block);
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
	sorter_early_threshold(sorter, (int) read);
}

/* ------------------------------------------------------------------------
 * Entry points for nodes that sort
 * ------------------------------------------------------------------------
 */

void
sort_node_take_rows(Sorter *sorter, PlanState *outer, PageSource *pages, pg_atomic_uint32 *stop)
{
	MemoryContext cxt = outer->state->es_query_cxt;
	size_t		bound = sorter->early_bound;

	page_source_begin(pages);
	if (bound > 0 && pages->possible)
		take_early_threshold(sorter, bound, pages, cxt);
	for (uint64 asked = 0;;)
	{
		TupleTableSlot *slot;
		RowPage    *page;
		bool		kept;

		if (page_source_put_computed(pages, sorter, &kept))
		{
			if (unlikely(!kept))
				break;
			continue;
		}
		if (++asked % ROWS_PER_STOP_CHECK == 0 && stop != NULL && pg_atomic_read_u32(stop) != 0)
			break;
		slot = ExecProcNode(outer);
		if (TupIsNull(slot))
			break;
		page = !pages->possible ? NULL : page_source_take(pages, sorter->keybuf, cxt);
		if (page != NULL)
			kept = sorter_put_page(sorter, page);
		else
			kept = sorter_put(sorter, slot);
		if (unlikely(!kept))
			break;
	}
}

/* Invalid values count as no LIMIT; the Limit node reports the error. */
size_t
sort_node_bound(ExprContext *econtext, ExprState *limit_count, ExprState *limit_offset)
{
	int64		count;
	int64		offset = 0;
	Datum		value;
	bool		isnull;

	if (limit_count == NULL)
		return 0;
	value = ExecEvalExprSwitchContext(limit_count, econtext, &isnull);
	if (isnull)
		return 0;
	count = DatumGetInt64(value);
	if (limit_offset != NULL)
	{
		value = ExecEvalExprSwitchContext(limit_offset, econtext, &isnull);
		offset = isnull ? 0 : DatumGetInt64(value);
	}
	if (count < 0 || offset < 0 || count > PG_INT32_MAX || offset > PG_INT32_MAX)
		return 0;
	/* for LIMIT 0 one row, because 0 would mean all rows */
	return Max(1, (size_t) (count + offset));
}

void
sort_node_count(const SortReport *report)
{
	SortCount	count = {0};

	if (report->sorted)
	{
		count.algorithm = report->decision.algorithm;
		/* a device failure was counted when it happened */
		if (report->decision.forced_why_not != NULL && !report->device_failed)
			count.passed_over = report->facts.forced;
	}
	count.rows = report->rows;
	count.spilled = report->runs > 0;
	count.bytes = count.spilled ? report->disk_bytes : report->memory_peak;
	count.timed = report->timed;
	if (count.timed)
	{
		count.ingest_us = INSTR_TIME_GET_MICROSEC(report->ingest_time);
		count.spill_us = INSTR_TIME_GET_MICROSEC(report->spill_time);
		count.sort_us = INSTR_TIME_GET_MICROSEC(report->sort_time) - count.spill_us;
		count.predicted_us = report->predicted_us;
		count.measured_us = INSTR_TIME_GET_MICROSEC(report->predicted_time);
	}
	gpusort_stat_count(&count);
}
