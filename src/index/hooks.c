/*
 * hooks.c
 *	  Replaces btbuild() by index_build_sorted(), on an unmodified server.
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
 * hook makes the planner return 0 workers.
 *
 * On error: the utility hook restores the setting.
 */
#include "postgres.h"

#include "access/amapi.h"
#include "access/nbtree.h"
#include "access/parallel.h"
#include "access/table.h"
#include "access/transam.h"
#include "commands/defrem.h"
#include "compat.h"
#include "index/index_build.h"
#include "miscadmin.h"
#include "monitor/index_stat.h"
#include "nodes/parsenodes.h"
#include "portability/instr_time.h"
#include "settings.h"
#include "storage/bufmgr.h"
#include "tcop/utility.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/relcache.h"

#define ROUTE_STOCK		"stock"

/* An index's routine with our ambuild, and the original routine. */
typedef struct ReplacedRoutine
{
	IndexAmRoutine ours;		/* must be first: rd_indam points to it */
	const IndexAmRoutine *original;
} ReplacedRoutine;

static COMPAT_RELATION_HOOK_TYPE prev_relation_hook = NULL;
static ProcessUtility_hook_type prev_utility_hook = NULL;

/* Has the utility hook raised max_parallel_maintenance_workers from 0 to 1? */
static bool workers_raised = false;

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
	compat_set_index_routine(index, &replaced->ours);
}

/* Restores the original routine, unless another extension has replaced ours. */
static void
restore_routine(Relation index)
{
	ReplacedRoutine *replaced = (ReplacedRoutine *) index->rd_indam;

	if (index->rd_indam->ambuild != build_index)
		return;
	compat_set_index_routine(index, replaced->original);
	pfree(replaced);
}

/*
 * Replaces the routine of the index that is about to be built.  The hook gets the table
 * only, but the statement has the index open.  Other open indexes of the table keep our
 * routine until they are built or their relcache entries are rebuilt.
 */
static void
replace_routines(Oid table)
{
	Relation	heap;

	/* as IsCatalogRelationOid(), and the tables of information_schema */
	if (table < FirstNormalObjectId)
		return;
	heap = table_open(table, NoLock);

	/*
	 * An empty table's index is a metapage.  For a small table the search for
	 * the index takes longer than a faster build saves.
	 */
	if (RelationGetNumberOfBlocks(heap) >= Max(1, gpusort_index_builds_min_size))
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
	table_close(heap, NoLock);
}

/*
 * The planner's relation hook.  A call by plan_create_index_workers() has a query without
 * a join tree, unlike planning of a statement; a call by plan_cluster_use_sort() differs
 * in inh.
 */
static void
index_relation_hook(COMPAT_RELATION_PARAMS)
{
	if (prev_relation_hook != NULL)
		prev_relation_hook(COMPAT_RELATION_ARGS);
	if (root->parse->jointree != NULL || !COMPAT_RELATION_INH || !OidIsValid(COMPAT_RELATION_OID))
		return;
	if (workers_raised)
		rel->rel_parallel_workers = 0;
	if (builds_wanted())
		replace_routines(COMPAT_RELATION_OID);
}

/* ------------------------------------------------------------------------
 * The build
 * ------------------------------------------------------------------------
 */

static const char *
route_name(IndexBuildRoute route)
{
	switch (route)
	{
		case INDEX_ROUTE_NONE:
			break;
		case INDEX_ROUTE_COMPACT:
			return "compact";
		case INDEX_ROUTE_TUPLES:
			return "tuples";
	}
	return ROUTE_STOCK;
}

static uint64
elapsed_us(instr_time start)
{
	instr_time	now;

	INSTR_TIME_SET_CURRENT(now);
	INSTR_TIME_SUBTRACT(now, start);
	return INSTR_TIME_GET_MICROSEC(now);
}

/* Reports and counts a build by gpusort. */
static void
count_build(Relation index, const IndexBuildCounters *built, uint64 us)
{
	const char *route = route_name(built->route);
	IndexStatCount count = {
		.builds = 1,
		.rows = (uint64) built->rows,
		.pages = (uint64) built->pages,
		.workers = (uint64) built->workers,
		.spills = built->runs > 0,
		.spilled_bytes = (uint64) built->spilled_bytes,
		.us = us,
		.scan_us = (uint64) (built->scan_ms * 1000),
		.sort_us = (uint64) (built->sort_ms * 1000),
		.load_us = (uint64) (built->load_ms * 1000)
	};

	index_stat_add(route, NULL, &count);
	ereport(DEBUG1,
			(errmsg_internal("gpusort built index \"%s\": route %s%s, %d workers, %.0f rows, " INT64_FORMAT " pages, "
							 INT64_FORMAT " runs, " INT64_FORMAT " kB of memory; "
							 "scan %.1f ms, sort %.1f ms, load %.1f ms",
							 RelationGetRelationName(index), route, built->page_scan ? " by pages" : "",
							 built->workers, built->rows, built->pages, built->runs, built->memory / 1024,
							 built->scan_ms, built->sort_ms, built->load_ms)));
}

/* Builds by btbuild(), after it has reported and counted that. */
static IndexBuildResult *
build_stock(Relation heap, Relation index, IndexInfo *info, const char *reason)
{
	IndexStatCount begun = {.builds = 1};
	IndexStatCount done = {0};
	IndexBuildResult *result;
	instr_time	start;

	ereport(DEBUG1,
			(errmsg_internal("gpusort left index \"%s\" to PostgreSQL: %s",
							 RelationGetRelationName(index), reason)));

	/*
	 * counted before the build, which may end with an error, for example of a
	 * violation of uniqueness
	 */
	index_stat_add(ROUTE_STOCK, reason, &begun);
	INSTR_TIME_SET_CURRENT(start);
	result = btbuild(heap, index, info);
	done.rows = (uint64) result->index_tuples;
	done.pages = RelationGetNumberOfBlocks(index);
	done.us = elapsed_us(start);
	index_stat_add(ROUTE_STOCK, reason, &done);
	return result;
}

/* Our ambuild: arguments and result are those of btbuild(). */
static IndexBuildResult *
build_index(Relation heap, Relation index, IndexInfo *info)
{
	IndexBuildResult *result;
	const char *reason = NULL;
	instr_time	start;

	restore_routine(index);
	if (!builds_wanted())
		return btbuild(heap, index, info);
	INSTR_TIME_SET_CURRENT(start);
	result = index_build_sorted(heap, index, info, &reason);
	if (result == NULL)
		return build_stock(heap, index, info, reason != NULL ? reason : "unknown");
	count_build(index, index_build_counters(), elapsed_us(start));
	return result;
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
		workers_raised = raised_outside;
		/* an event trigger may have set it */
		if (max_parallel_maintenance_workers == 1)
			max_parallel_maintenance_workers = 0;
	}
	PG_END_TRY();
}

void
index_hooks_init(void)
{
	index_stat_init();
	prev_relation_hook = COMPAT_RELATION_HOOK;
	COMPAT_RELATION_HOOK = index_relation_hook;
	prev_utility_hook = ProcessUtility_hook;
	ProcessUtility_hook = index_utility_hook;
}
