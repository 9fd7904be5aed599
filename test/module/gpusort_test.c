/*
 * gpusort_test.c
 *	  A planner hook that returns a cached plan, for t/server/other_hooks.pl,
 *	  a relation hook that counts its calls, for t/index/index_neighbours.pl,
 *	  invalid heap scans, for t/cpu/heap_page.pl, and a function whose result
 *	  is not extended by its sign, for t/server/aggregates.pl.
 *
 * gpusort_test.keep_plan = on stands for an extension with a plan cache: the
 * hook keeps the last plan, and returns it again when a statement of the same
 * text is planned.
 */
#include "postgres.h"

#include "access/table.h"
#include "access/tableam.h"
#include "compat.h"
#include "fmgr.h"
#include "scan/heap_page.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

PG_MODULE_MAGIC;

extern PGDLLEXPORT void _PG_init(void);

static bool keep_plan = false;
static char *kept_text = NULL;
static PlannedStmt *kept_plan = NULL;
static planner_hook_type prev_planner_hook = NULL;
static COMPAT_RELATION_HOOK_TYPE prev_relation_hook = NULL;
static int64 relation_hook_calls = 0;

PG_FUNCTION_INFO_V1(relation_calls);

static PlannedStmt *
keeping_planner(COMPAT_PLANNER_PARAMS)
{
	PlannedStmt *stmt;
	MemoryContext old;

	if (keep_plan && kept_text != NULL && strcmp(kept_text, query_string) == 0)
	{
		ereport(NOTICE, (errmsg("the hook returns the cached plan")));
		return kept_plan;
	}
	stmt = prev_planner_hook != NULL ? prev_planner_hook(COMPAT_PLANNER_ARGS) :
		standard_planner(COMPAT_PLANNER_ARGS);
	if (!keep_plan)
		return stmt;
	/* never freed: a test's session plans a few statements */
	old = MemoryContextSwitchTo(TopMemoryContext);
	kept_text = pstrdup(query_string);
	kept_plan = copyObject(stmt);
	MemoryContextSwitchTo(old);
	return kept_plan;
}

/* Stands for an extension that changes what the planner knows of a relation. */
static void
counting_relation_hook(COMPAT_RELATION_PARAMS)
{
	relation_hook_calls++;
	if (prev_relation_hook != NULL)
		prev_relation_hook(COMPAT_RELATION_ARGS);
}

/* Calls of the relation hook since the last call of this function. */
Datum
relation_calls(PG_FUNCTION_ARGS)
{
	int64		calls = relation_hook_calls;

	relation_hook_calls = 0;
	PG_RETURN_INT64(calls);
}

/* zero_extended(int4): the argument, as a Datum whose upper half is 0 even if the argument is negative. */
PG_FUNCTION_INFO_V1(zero_extended);
Datum
zero_extended(PG_FUNCTION_ARGS)
{
	PG_RETURN_UINT32((uint32) PG_GETARG_INT32(0));
}

void
_PG_init(void)
{
	DefineCustomBoolVariable("gpusort_test.keep_plan", "Returns the last plan of the same text.", NULL,
							 &keep_plan, false, PGC_USERSET, 0, NULL, NULL, NULL);
	prev_planner_hook = planner_hook;
	planner_hook = keeping_planner;
	prev_relation_hook = COMPAT_RELATION_HOOK;
	COMPAT_RELATION_HOOK = counting_relation_hook;
}

/*
 * Changes the state of a heap scan that stands at the first row of a page, as
 * what says.
 */
static void
forge(HeapScanDesc heap, const char *what)
{
	if (strcmp(what, "too many rows") == 0)
		heap->rs_ntuples = MaxHeapTuplesPerPage + 1;
	else if (strcmp(what, "no row left") == 0)
		heap->rs_cindex = heap->rs_ntuples;
	else if (strcmp(what, "behind the last row") == 0)
		heap->rs_cindex = heap->rs_ntuples + 5;
	else if (strcmp(what, "before the first row") == 0)
		heap->rs_cindex = -1;
	else if (strcmp(what, "at another row") == 0)
		heap->rs_cindex++;
	else if (strcmp(what, "offset 0") == 0)
		heap->rs_vistuples[3] = InvalidOffsetNumber;
	else if (strcmp(what, "an offset twice") == 0)
		heap->rs_vistuples[3] = heap->rs_vistuples[2];
	else if (strcmp(what, "offset behind the page's last") == 0)
		heap->rs_vistuples[heap->rs_ntuples - 1] = MaxHeapTuplesPerPage;
	else if (strcmp(what, "a line pointer without a row") == 0)
		heap->rs_vistuples[3]--;
	else if (strcmp(what, "another page") == 0)
		heap->rs_cblock++;
	else if (strcmp(what, "no page") == 0)
		heap->rs_cbuf = InvalidBuffer;
	else if (strcmp(what, "another kind of scan") == 0)
		heap->rs_base.rs_flags &= ~SO_TYPE_SEQSCAN;
	else if (strcmp(what, "row by row") == 0)
		heap->rs_base.rs_flags &= ~SO_ALLOW_PAGEMODE;
	else if (strcmp(what, "scan keys") == 0)
		heap->rs_base.rs_nkeys = 1;
	else if (strcmp(what, "nothing") != 0)
		elog(ERROR, "unknown: %s", what);
}

/*
 * forged_page(regclass, text): scans the table to the first row of its first
 * page, forges the scan's state, and returns how many rows heap_page_take()
 * takes of the page: 0 if it refuses the state.
 */
PG_FUNCTION_INFO_V1(forged_page);
Datum
forged_page(PG_FUNCTION_ARGS)
{
	Relation	rel = table_open(PG_GETARG_OID(0), AccessShareLock);
	TupleTableSlot *slot = table_slot_create(rel, NULL);
#if PG_VERSION_NUM >= 190000
	TableScanDesc scan = table_beginscan(rel, GetActiveSnapshot(), 0, NULL, SO_NONE);
#else
	TableScanDesc scan = table_beginscan(rel, GetActiveSnapshot(), 0, NULL);
#endif
	HeapScanDesc heap = (HeapScanDesc) scan;
	HeapScanDescData saved;
	HeapTupleHeader tuples[MaxHeapTuplesPerPage];
	uint16		lens[MaxHeapTuplesPerPage];
	OffsetNumber offsets[MaxHeapTuplesPerPage];
	int			n;

	if (!table_scan_getnextslot(scan, ForwardScanDirection, slot))
		elog(ERROR, "the table is empty");
	saved = *heap;
	forge(heap, text_to_cstring(PG_GETARG_TEXT_PP(1)));
	n = heap_page_take(heap, tuples, lens, offsets);
	*heap = saved;

	ExecDropSingleTupleTableSlot(slot);
	table_endscan(scan);
	table_close(rel, AccessShareLock);
	PG_RETURN_INT32(n);
}
