/*
 * hooks.c
 *	  Replaces btbuild() by index_build_sorted(), and CLUSTER's sort, on an unmodified server.
 *
 * Before the server builds an index, index_build() asks the planner for the number of
 * workers, and the planner calls the relation hook with the index open.  The hook sets the
 * IndexAmRoutine of the index's relcache entry to a copy whose ambuild is build_index().
 * The server then calls build_index() instead of btbuild().
 *
 * A changed entry may outlive its statement, for example after an ERROR.  So build_index()
 * first restores the original routine, and tests the settings again.  The copy lies in
 * rd_indexcxt and is freed with the entry, or when the routine is restored.
 *
 * With max_parallel_maintenance_workers = 0 the server does not ask the planner.  For
 * statements that may build indexes a utility hook then sets it to 1, and the relation
 * hook makes the planner return 0 workers.  Event triggers run within such a statement.
 * The function manager's hook gives them the value that the session has set.
 *
 * CLUSTER asks the planner whether to sort, which calls the relation hook, too, for the
 * table.  The hook sets the table access method of the relcache entry to a copy whose
 * relation_copy_for_cluster is copy_heap(), which first restores the original.
 *
 * On error: the utility hook restores the setting.
 */
#include "postgres.h"

#include "access/amapi.h"
#include "access/heapam.h"
#include "access/nbtree.h"
#include "access/parallel.h"
#include "access/table.h"
#include "access/transam.h"
#include "catalog/pg_type.h"
#include "commands/defrem.h"
#include "compat.h"
#include "fmgr.h"
#include "index/index_internal.h"
#include "kernel/algorithm.h"
#include "miscadmin.h"
#include "monitor/stat.h"
#include "nodes/parsenodes.h"
#include "settings.h"
#include "storage/bufmgr.h"
#include "tcop/utility.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/relcache.h"

#define ROUTE_STOCK		"stock"
#define ROUTE_CLUSTER	"cluster"

/* An index's routine with our ambuild, and the original routine. */
typedef struct ReplacedRoutine
{
	IndexAmRoutine ours;		/* must be first: rd_indam points to it */
	const IndexAmRoutine *original;
} ReplacedRoutine;

static COMPAT_RELATION_HOOK_TYPE prev_relation_hook = NULL;
static ProcessUtility_hook_type prev_utility_hook = NULL;
static needs_fmgr_hook_type prev_needs_fmgr_hook = NULL;
static fmgr_hook_type prev_fmgr_hook = NULL;

/* Has the utility hook raised max_parallel_maintenance_workers from 0 to 1? */
static bool workers_raised = false;

/* The heap access method's routine, with our function. */
static TableAmRoutine heap_routine;

static void copy_heap(COMPAT_COPY_HEAP_PARAMS);
static IndexBuildResult *build_index(Relation heap, Relation index, IndexInfo *info);

static bool
builds_wanted(void)
{
	return gpusort_enable && gpusort_index_builds && IsUnderPostmaster && !IsParallelWorker() &&
		MyBackendType != B_AUTOVAC_WORKER;
}

/* ------------------------------------------------------------------------
 * The index's routine
 * ------------------------------------------------------------------------
 */

/* Sets the ambuild of an index that is about to be built. */
static void
replace_routine(Relation index)
{
	ReplacedRoutine *replaced;

	if (index->rd_indam == NULL || index->rd_indam->ambuild != btbuild)
		return;
	replaced = MemoryContextAlloc(index->rd_indexcxt, sizeof(ReplacedRoutine));
	replaced->ours = *index->rd_indam;
	replaced->ours.ambuild = build_index;
	replaced->original = index->rd_indam;
	index->rd_indam = &replaced->ours;
}

/* Restores the original routine, unless another extension has replaced ours. */
static void
restore_routine(Relation index)
{
	ReplacedRoutine *replaced = (ReplacedRoutine *) index->rd_indam;

	if (index->rd_indam->ambuild != build_index)
		return;
	/* up to 18 the pointer is not const */
	index->rd_indam = unconstify(IndexAmRoutine *, replaced->original);
	pfree(replaced);
}

/* Restores a heap's routine; it may still be ours after a CLUSTER that was cancelled. */
static void
restore_heap_routine(Relation heap)
{
	if (heap->rd_tableam == &heap_routine)
		heap->rd_tableam = GetHeapamTableAmRoutine();
}

/*
 * Replaces the routine of the index that is about to be built.  The hook gets the table
 * only, but the statement has the index open.  Other open indexes of the table keep our
 * routine until they are built or their relcache entries are rebuilt.
 */
static void
replace_routines(Relation heap)
{
	List	   *indexes = RelationGetIndexList(heap);
	ListCell   *lc;

	foreach(lc, indexes)
	{
		Relation	index = RelationIdGetRelation(lfirst_oid(lc));

		if (!RelationIsValid(index))
			continue;
		/* one reference is that of this function */
		if (index->rd_refcnt > 1)
			replace_routine(index);
		RelationClose(index);
	}
	list_free(indexes);
}

/*
 * Replaces the routine of a heap that CLUSTER is about to copy, and has open.  To
 * plan_cluster_use_sort(), an index that rel does not list is none that can be scanned.
 */
static void
replace_heap_routine(Relation heap, RelOptInfo *rel)
{
	if (heap->rd_tableam != GetHeapamTableAmRoutine())
		return;
	heap_routine = *heap->rd_tableam;
	heap_routine.relation_copy_for_cluster = copy_heap;
	heap->rd_tableam = &heap_routine;
	if (cluster_prefers_sort(heap))
		rel->indexlist = NIL;
}

/*
 * The planner's relation hook.  A call by plan_create_index_workers() or by
 * plan_cluster_use_sort() has a query without a join tree, unlike planning of a statement;
 * they differ in inh.
 */
static void
index_relation_hook(COMPAT_RELATION_PARAMS)
{
	Relation	heap;

	if (prev_relation_hook != NULL)
		prev_relation_hook(COMPAT_RELATION_ARGS);
	if (root->parse->jointree != NULL || !OidIsValid(COMPAT_RELATION_OID))
		return;
	if (COMPAT_RELATION_INH && workers_raised)
		rel->rel_parallel_workers = 0;
	/* as IsCatalogRelationOid(), and the tables of information_schema */
	if (!builds_wanted() || COMPAT_RELATION_OID < FirstNormalObjectId)
		return;
	heap = table_open(COMPAT_RELATION_OID, NoLock);
	restore_heap_routine(heap);

	/*
	 * An empty table's index is a metapage.  For a small table the search for
	 * the index takes longer than a faster build saves.
	 */
	if (RelationGetNumberOfBlocks(heap) >= Max(1, gpusort_index_builds_min_size))
	{
		if (COMPAT_RELATION_INH)
			replace_routines(heap);
		else
			replace_heap_routine(heap, rel);
	}
	table_close(heap, NoLock);
}

/* ------------------------------------------------------------------------
 * The build
 * ------------------------------------------------------------------------
 */

/*
 * Reports and counts a build or a sort of a table by gpusort.  what: the begin of the line for
 * the log; loading: the phase after the sort.
 */
static void
count_done(const char *route, const char *what, const IndexBuildCounters *done, const char *loading, instr_time start)
{
	IndexStatCount count = {
		.builds = 1,
		.rows = (uint64) done->rows,
		.pages = (uint64) done->pages,
		.workers = (uint64) done->workers,
		.gpu_builds = done->device_batches > 0,
		.spills = done->runs > 0,
		.spilled_bytes = (uint64) done->spilled_bytes,
		.us = (uint64) (index_elapsed_ms(&start) * 1000),
		.scan_us = (uint64) (done->scan_ms * 1000),
		.sort_us = (uint64) (done->sort_ms * 1000),
		.load_us = (uint64) (done->load_ms * 1000)
	};

	index_stat_add(route, NULL, &count);
	ereport(DEBUG1,
			(errmsg_internal("gpusort %s%s%s%s, %.0f rows, " INT64_FORMAT " pages, "
							 INT64_FORMAT " runs, " INT64_FORMAT " kB of memory; "
							 "scan %.1f ms, sort %.1f ms, %s %.1f ms",
							 what, done->sorted ? ", sorted by " : "",
							 done->sorted ? sort_algorithms[done->algorithm].display : "",
							 done->sorted && done->device_failed ? " after a GPU failed" : "", done->rows, done->pages,
							 done->runs, done->memory / 1024,
							 done->scan_ms, done->sort_ms, loading, done->load_ms)));
}

/* Reports and counts that PostgreSQL begins a build, which may end with an error. */
static void
count_stock(const char *what, Relation rel, const char *reason)
{
	IndexStatCount begun = {.builds = 1};

	ereport(DEBUG1,
			(errmsg_internal("gpusort left %s \"%s\" to PostgreSQL: %s", what, RelationGetRelationName(rel), reason)));
	index_stat_add(ROUTE_STOCK, reason, &begun);
}

static void
count_stock_end(const char *reason, double rows, BlockNumber pages, instr_time start)
{
	IndexStatCount done = {
		.rows = (uint64) rows,
		.pages = pages,
		.us = (uint64) (index_elapsed_ms(&start) * 1000)
	};

	index_stat_add(ROUTE_STOCK, reason, &done);
}

/* Builds by btbuild(). */
static IndexBuildResult *
build_stock(Relation heap, Relation index, IndexInfo *info, const char *reason)
{
	IndexBuildResult *result;
	instr_time	start;

	count_stock("index", index, reason);
	INSTR_TIME_SET_CURRENT(start);
	result = btbuild(heap, index, info);
	count_stock_end(reason, result->index_tuples, RelationGetNumberOfBlocks(index), start);
	return result;
}

/* Our ambuild: arguments and result are those of btbuild(). */
static IndexBuildResult *
build_index(Relation heap, Relation index, IndexInfo *info)
{
	IndexBuildResult *result;
	IndexBuildCounters counters;
	const char *route;
	const char *reason = NULL;
	instr_time	start;

	restore_routine(index);
	if (!builds_wanted())
		return btbuild(heap, index, info);
	INSTR_TIME_SET_CURRENT(start);
	result = index_build_sorted(heap, index, info, &counters, &reason);
	if (result == NULL)
		return build_stock(heap, index, info, reason);
	route = counters.compact ? "compact" : "tuples";
	count_done(route, psprintf("built index \"%s\": route %s%s, %d workers", RelationGetRelationName(index), route,
							   counters.page_scan ? " by pages" : "", counters.workers),
			   &counters, "load", start);
	return result;
}

/* ------------------------------------------------------------------------
 * CLUSTER
 * ------------------------------------------------------------------------
 */

/* Our relation_copy_for_cluster: arguments are those of the heap access method's. */
static void
copy_heap(COMPAT_COPY_HEAP_PARAMS)
{
	ClusterCopy copy = {
		.old_heap = old_heap,
		.new_heap = new_heap,
		.index = index,
		.oldest_xmin = oldest_xmin,
		.xid_cutoff = *xid_cutoff,
		.multi_cutoff = *multi_cutoff,
		.num_tuples = num_tuples,
		.tups_vacuumed = tups_vacuumed,
		.tups_recently_dead = tups_recently_dead
	};
	const char *reason = NULL;
	IndexBuildCounters done;
	instr_time	start;

	restore_heap_routine(old_heap);
	INSTR_TIME_SET_CURRENT(start);
	if (use_sort && index != NULL && COMPAT_COPY_HEAP_LOCKED && builds_wanted())
	{
		if (cluster_copy_sorted(&copy, &done, &reason))
		{
			count_done(ROUTE_CLUSTER, psprintf("sorted table \"%s\"", RelationGetRelationName(old_heap)), &done,
					   "write", start);
			return;
		}
		count_stock("sort of table", old_heap, reason);
	}
	old_heap->rd_tableam->relation_copy_for_cluster(COMPAT_COPY_HEAP_ARGS);
	if (reason != NULL)
		count_stock_end(reason, *num_tuples, RelationGetNumberOfBlocks(new_heap), start);
}

/* ------------------------------------------------------------------------
 * Statements
 * ------------------------------------------------------------------------
 */

static bool
is_vacuum_full(const VacuumStmt *stmt)
{
	ListCell   *lc;
	bool		full = false;

	if (!stmt->is_vacuumcmd)
		return false;
	foreach(lc, stmt->options)
	{
		DefElem    *option = lfirst(lc);

		if (strcmp(option->defname, "full") == 0)
			full = defGetBoolean(option);
	}
	return full;
}

/*
 * May the statement build indexes of tables with rows?  For statements within functions,
 * procedures, extension scripts and CREATE SCHEMA the hook is called separately.
 */
static bool
may_build_indexes(Node *stmt)
{
	switch (nodeTag(stmt))
	{
		case T_IndexStmt:
		case T_ReindexStmt:
		case T_AlterTableStmt:
		case T_RefreshMatViewStmt:
		case COMPAT_T_CLUSTER:
			return true;
		case T_VacuumStmt:
			return is_vacuum_full((VacuumStmt *) stmt);
		default:
			return false;
	}
}

static void
run_utility(PlannedStmt *pstmt, const char *query, bool read_only, ProcessUtilityContext context,
			ParamListInfo params, QueryEnvironment *env, DestReceiver *dest, QueryCompletion *qc)
{
	if (prev_utility_hook != NULL)
		prev_utility_hook(pstmt, query, read_only, context, params, env, dest, qc);
	else
		standard_ProcessUtility(pstmt, query, read_only, context, params, env, dest, qc);
}

/*
 * Changes the variable of the setting directly.  SET LOCAL would be undone by a statement
 * that commits before its end, such as CREATE INDEX CONCURRENTLY.
 */
static void
index_utility_hook(PlannedStmt *pstmt, const char *query, bool read_only, ProcessUtilityContext context,
				   ParamListInfo params, QueryEnvironment *env, DestReceiver *dest, QueryCompletion *qc)
{
	bool		raised_outside = workers_raised;

	if (max_parallel_maintenance_workers != 0 || !builds_wanted() || !may_build_indexes(pstmt->utilityStmt))
	{
		run_utility(pstmt, query, read_only, context, params, env, dest, qc);
		return;
	}
	max_parallel_maintenance_workers = 1;
	workers_raised = true;
	PG_TRY();
	{
		run_utility(pstmt, query, read_only, context, params, env, dest, qc);
	}
	PG_FINALLY();
	{
		/* an event trigger may have set it */
		if (workers_raised && max_parallel_maintenance_workers == 1)
			max_parallel_maintenance_workers = 0;
		workers_raised = raised_outside;
	}
	PG_END_TRY();
}

/* A function that the function manager's hook watches. */
typedef struct WatchedFunction
{
	bool		lowered;		/* the raised setting is 0 while the function runs */
	Datum		prev_arg;		/* of the hook before ours */
} WatchedFunction;

static bool
index_needs_fmgr_hook(Oid function)
{
	return (prev_needs_fmgr_hook != NULL && prev_needs_fmgr_hook(function)) ||
		(workers_raised && get_func_rettype(function) == EVENT_TRIGGEROID);
}

/* Is called for functions with SECURITY DEFINER or SET, too; these may as well see the session's value. */
static void
index_fmgr_hook(FmgrHookEventType event, FmgrInfo *function, Datum *arg)
{
	WatchedFunction *watched = (WatchedFunction *) DatumGetPointer(*arg);

	if (watched == NULL)
	{
		watched = MemoryContextAllocZero(function->fn_mcxt, sizeof(WatchedFunction));
		*arg = PointerGetDatum(watched);
	}
	if (prev_fmgr_hook != NULL)
		prev_fmgr_hook(event, function, &watched->prev_arg);
	if (event == FHET_START)
	{
		watched->lowered = workers_raised && max_parallel_maintenance_workers == 1;
		if (watched->lowered)
		{
			max_parallel_maintenance_workers = 0;
			workers_raised = false;
		}
	}
	else if (watched->lowered)
	{
		watched->lowered = false;
		/* a value that the function has set stays */
		workers_raised = max_parallel_maintenance_workers == 0;
		if (workers_raised)
			max_parallel_maintenance_workers = 1;
	}
}

void
index_hooks_init(void)
{
	prev_relation_hook = COMPAT_RELATION_HOOK;
	COMPAT_RELATION_HOOK = index_relation_hook;
	prev_utility_hook = ProcessUtility_hook;
	ProcessUtility_hook = index_utility_hook;
	prev_needs_fmgr_hook = needs_fmgr_hook;
	needs_fmgr_hook = index_needs_fmgr_hook;
	prev_fmgr_hook = fmgr_hook;
	fmgr_hook = index_fmgr_hook;
}
