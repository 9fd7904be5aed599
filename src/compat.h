/*
 * compat.h
 *	  Differences between the server's versions: PostgreSQL 15 to 19.
 */
#ifndef GPUSORT_COMPAT_H
#define GPUSORT_COMPAT_H

#include "postgres.h"

#if PG_VERSION_NUM < 150000
#error "gpusort needs PostgreSQL 15 or later"
#endif

/* 16 moves the varlena macros to a header of their own. */
#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif

/* PG_FUNCTION_INFO_V1 of 15 does not export the function. */
#include "fmgr.h"
#define SQL_FUNCTION(name) \
extern PGDLLEXPORT Datum name(PG_FUNCTION_ARGS); \
PG_FUNCTION_INFO_V1(name)

/* 18 introduces pg_noreturn, which stands before the declaration. */
#if PG_VERSION_NUM < 180000
#define pg_noreturn pg_attribute_noreturn()
#endif

/* 19 requires an attribute instead of a fall-through comment. */
#ifndef pg_fallthrough
#define pg_fallthrough __attribute__((fallthrough))
#endif

/* 19 has its own type of signal handlers and these casts. */
#if PG_VERSION_NUM < 190000
#define PG_SIG_DFL SIG_DFL
#define PG_SIG_IGN SIG_IGN
#endif

#include "commands/explain.h"
#if PG_VERSION_NUM >= 180000
#include "commands/explain_format.h"
#include "commands/explain_state.h"
#endif

/* Number of range table entries; EXPLAIN qualifies columns if there are several. */
static inline int
compat_explain_tables(const ExplainState *es)
{
#if PG_VERSION_NUM >= 180000
	return es->rtable_size;		/* without the entry for GROUP BY */
#else
	return list_length(es->rtable);
#endif
}

/*
 * From 18 on EXPLAIN shows a node as disabled if its disabled_nodes exceeds that of its
 * children.  It looks for a CustomScan's children in custom_plans, but ours are in lefttree
 * and righttree only, because copyObject() would copy them twice.  So the count is corrected.
 */
#include "nodes/plannodes.h"
static inline void
compat_count_disabled(CustomScan *cscan)
{
#if PG_VERSION_NUM >= 180000
	int			disabled = outerPlan(cscan)->disabled_nodes +
		(innerPlan(cscan) != NULL ? innerPlan(cscan)->disabled_nodes : 0);

	if (disabled > 0)
	{
		Result	   *count = makeNode(Result);

		count->plan.disabled_nodes = disabled;
		cscan->custom_plans = list_make1(count);
	}
#endif
}

/* A node that is added above a plan is as disabled as the plan. */
static inline void
compat_copy_disabled(Plan *plan, const Plan *child)
{
#if PG_VERSION_NUM >= 180000
	plan->disabled_nodes = child->disabled_nodes;
#endif
}

/* Number of a path's nodes that enable_ settings disable; up to 17 their cost shows it. */
#include "nodes/pathnodes.h"
static inline int
compat_disabled_nodes(const Path *path)
{
#if PG_VERSION_NUM >= 180000
	return path->disabled_nodes;
#else
	return 0;
#endif
}

/* Does a window end, or pass rows on, when a run condition is false?  From 17 on the path has the conditions. */
static inline bool
compat_has_run_condition(const WindowAggPath *path)
{
#if PG_VERSION_NUM >= 170000
	return path->runCondition != NIL;
#else
	return path->winclause->runCondition != NIL;
#endif
}

/* The ordering operator of a pathkey for a type; 18 has a CompareType in pathkeys. */
#include "utils/lsyscache.h"
static inline Oid
compat_pathkey_operator(const PathKey *pathkey, Oid type)
{
#if PG_VERSION_NUM >= 180000
	return get_opfamily_member_for_cmptype(pathkey->pk_opfamily, type, type, pathkey->pk_cmptype);
#else
	return get_opfamily_member(pathkey->pk_opfamily, type, type, pathkey->pk_strategy);
#endif
}

/* Is key i of a merge join in descending order?  18 replaces the strategy by a flag. */
#include "access/stratnum.h"
static inline bool
compat_merge_key_reversed(const MergeJoin *join, int i)
{
#if PG_VERSION_NUM >= 180000
	return join->mergeReversals[i];
#else
	return join->mergeStrategies[i] == BTGreaterStrategyNumber;
#endif
}

/* From 16 on clauses without redundant columns. */
#if PG_VERSION_NUM >= 160000
#define compat_group_clause(root)		((root)->processed_groupClause)
#define compat_distinct_clause(root)	((root)->processed_distinctClause)
#else
#define compat_group_clause(root)		((root)->parse->groupClause)
#define compat_distinct_clause(root)	((root)->parse->distinctClause)
#endif

/* 19 renames the path of a Unique node. */
#include "optimizer/pathnode.h"
#if PG_VERSION_NUM >= 190000
#define COMPAT_IS_UNIQUE_PATH(path)		IsA(path, UniquePath)
#define compat_unique_input(path)		(((const UniquePath *) (path))->subpath)
#define compat_create_unique_path(...)	((Path *) create_unique_path(__VA_ARGS__))
#else
#define COMPAT_IS_UNIQUE_PATH(path)		IsA(path, UpperUniquePath)
#define compat_unique_input(path)		(((const UpperUniquePath *) (path))->subpath)
#define compat_create_unique_path(...)	((Path *) create_upper_unique_path(__VA_ARGS__))
#endif

/* 18 adds the length of the outer path's presorted prefix to merge joins. */
#if PG_VERSION_NUM >= 180000
#define COMPAT_PRESORTED_ARG	, 0
#else
#define COMPAT_PRESORTED_ARG
#endif

/*
 * A merge join of paths in order, and the rows that it is estimated to read of each: it
 * ends with the last row of either.
 */
#include "optimizer/cost.h"
static inline Path *
compat_create_mergejoin_path(PlannerInfo *root, RelOptInfo *joinrel, JoinType jointype,
							 JoinPathExtraData *extra, Path *outer, Path *inner,
							 List *pathkeys, List *clauses, double *outer_rows, double *inner_rows)
{
	JoinCostWorkspace workspace;

	initial_cost_mergejoin(root, &workspace, jointype, clauses, outer, inner, NIL, NIL COMPAT_PRESORTED_ARG, extra);
	*outer_rows = workspace.outer_rows;
	*inner_rows = workspace.inner_rows;
	return (Path *) create_mergejoin_path(root, joinrel, jointype, &workspace, extra, outer, inner,
										  extra->restrictlist, pathkeys, NULL, clauses, NIL, NIL COMPAT_PRESORTED_ARG);
}

/* 19 parses IGNORE NULLS for every window function; the function may reject it when it runs. */
static inline bool
compat_ignores_nulls(const WindowFunc *func)
{
#if PG_VERSION_NUM >= 190000
	return func->ignore_nulls != 0;
#else
	return false;
#endif
}

/*
 * From 18 on EXPLAIN prints the window's name, and takes it from the WindowAgg: it cannot
 * print a WindowFunc that another node evaluates.
 */
#include "nodes/makefuncs.h"
static inline Expr *
compat_window_func_to_print(WindowFunc *func)
{
#if PG_VERSION_NUM >= 180000
	return (Expr *) makeFuncExpr(func->winfnoid, func->wintype, NIL, InvalidOid, InvalidOid, COERCE_EXPLICIT_CALL);
#else
	return (Expr *) func;
#endif
}

/* From 19 on an extension may forbid a Gather of a relation. */
static inline bool
compat_gather_allowed(const RelOptInfo *rel)
{
#if PG_VERSION_NUM >= 190000
	return (rel->pgs_mask & PGS_GATHER) != 0;
#else
	return true;
#endif
}

/* Or a merge join, also of one order of two relations. */
static inline bool
compat_mergejoin_allowed(const JoinPathExtraData *extra)
{
#if PG_VERSION_NUM >= 190000
	return (extra->pgs_mask & PGS_MERGEJOIN_PLAIN) != 0;
#else
	return true;
#endif
}

/* 19 passes the ExplainState to the planner. */
#include "optimizer/planner.h"
#if PG_VERSION_NUM >= 190000
#define COMPAT_PLANNER_PARAMS \
	Query *parse, const char *query_string, int cursorOptions, \
	ParamListInfo boundParams, ExplainState *es
#define COMPAT_PLANNER_ARGS		parse, query_string, cursorOptions, boundParams, es
#else
#define COMPAT_PLANNER_PARAMS \
	Query *parse, const char *query_string, int cursorOptions, \
	ParamListInfo boundParams
#define COMPAT_PLANNER_ARGS		parse, query_string, cursorOptions, boundParams
#endif

/* 18 removes the parameter execute_once. */
#include "executor/executor.h"
#if PG_VERSION_NUM >= 180000
#define COMPAT_RUN_PARAMS	QueryDesc *queryDesc, ScanDirection direction, uint64 count
#define COMPAT_RUN_ARGS		queryDesc, direction, count
#define COMPAT_RUN_ONCE		false
#else
#define COMPAT_RUN_PARAMS \
	QueryDesc *queryDesc, ScanDirection direction, uint64 count, bool execute_once
#define COMPAT_RUN_ARGS		queryDesc, direction, count, execute_once
#define COMPAT_RUN_ONCE		execute_once
#endif

/*
 * A plan node's timer: is it on, and the total of all loops, after InstrEndLoop().  19
 * nests the measurement in another struct.
 */
#include "nodes/execnodes.h"
#if PG_VERSION_NUM >= 190000
#define compat_node_timed(ps)		((ps)->instrument != NULL && (ps)->instrument->instr.need_timer)
#define compat_node_total_ms(ps)	INSTR_TIME_GET_MILLISEC((ps)->instrument->instr.total)
#else
#define compat_node_timed(ps)		((ps)->instrument != NULL && (ps)->instrument->need_timer)
#define compat_node_total_ms(ps)	((ps)->instrument->total * 1000.0)
#endif

/* 19 adds flags to slots. */
static inline void
compat_init_scan_slot(EState *estate, ScanState *ss, TupleDesc desc, const TupleTableSlotOps *ops)
{
#if PG_VERSION_NUM >= 190000
	ExecInitScanTupleSlot(estate, ss, desc, ops, 0);
#else
	ExecInitScanTupleSlot(estate, ss, desc, ops);
#endif
}

/* 18 reports the direction of an ordering operator as a CompareType. */
static inline bool
compat_ordering_op(Oid op, Oid *opfamily, Oid *opcintype, bool *reverse)
{
#if PG_VERSION_NUM >= 180000
	CompareType cmptype;

	if (!get_ordering_op_properties(op, opfamily, opcintype, &cmptype))
		return false;
	*reverse = (cmptype == COMPARE_GT);
#else
	int16		strategy;

	if (!get_ordering_op_properties(op, opfamily, opcintype, &strategy))
		return false;
	*reverse = (strategy == BTGreaterStrategyNumber);
#endif
	return true;
}

/* The layout of a heap scan's page data is known for these versions. */
#define COMPAT_HEAP_PAGES	(PG_VERSION_NUM < 200000)

/* heap_hot_search_buffer() and heap_page_prune_opt() are known for these versions. */
#define COMPAT_INDEX_HEAP	(PG_VERSION_NUM < 190000)

/* 16 renames what identifies a relation's file, and a relation's counters, without their t_. */
#include "pgstat.h"
#include "utils/rel.h"
#if PG_VERSION_NUM >= 160000
#define compat_locator(rel)				((rel)->rd_locator)
#define compat_counter(rel, counter)	((rel)->pgstat_info->counts.counter)
#else
#define compat_locator(rel)				((rel)->rd_node)
#define compat_counter(rel, counter)	((rel)->pgstat_info->t_counts.t_##counter)
#endif

/* 17 adds the builtin collation provider; no older provider has its letter. */
#include "catalog/pg_collation.h"
#if PG_VERSION_NUM >= 170000
#define COMPAT_COLLPROVIDER_BUILTIN		COLLPROVIDER_BUILTIN
#else
#define COMPAT_COLLPROVIDER_BUILTIN		'b'
#endif

/* Counts rows that a scan returned, for the table's statistics. */
static inline void
compat_count_heap_rows(Relation rel, int64 rows)
{
	if (pgstat_should_count_relation(rel))
		compat_counter(rel, tuples_returned) += rows;
}

/* Allocates a check hook's *extra; NULL if out of memory. */
#include "utils/guc.h"
static inline void *
compat_guc_malloc(size_t size)
{
#if PG_VERSION_NUM >= 160000
	return guc_malloc(LOG, size);
#else
	return malloc(size);
#endif
}

/* 17 lets extensions name wait events. */
#include "utils/wait_event.h"
static inline uint32
compat_wait_event(const char *name)
{
#if PG_VERSION_NUM >= 170000
	/* the last event of this file: looking it up takes a lock */
	static const char *last = NULL;
	static uint32 event;

	if (last != name)
		event = WaitEventExtensionNew(name);
	last = name;
	return event;
#else
	return PG_WAIT_EXTENSION;
#endif
}

/* Has a background worker of this name been registered, while libraries are preloaded? */
#include "postmaster/bgworker_internals.h"
static inline bool
compat_worker_is_registered(const char *name)
{
#if PG_VERSION_NUM >= 180000
	dlist_iter	at;

	dlist_foreach(at, &BackgroundWorkerList)
	{
		if (strcmp(dlist_container(RegisteredBgWorker, rw_lnode, at.cur)->rw_worker.bgw_name, name) == 0)
			return true;
	}
#else
	slist_iter	at;

	slist_foreach(at, &BackgroundWorkerList)
	{
		if (strcmp(slist_container(RegisteredBgWorker, rw_lnode, at.cur)->rw_worker.bgw_name, name) == 0)
			return true;
	}
#endif
	return false;
}

/* 18 adds a parameter to slot callbacks: extra bytes before a copied row. */
#if PG_VERSION_NUM >= 180000
#define COMPAT_COPY_EXTRA_PARAM	, Size extra
#define COMPAT_COPY_EXTRA_ARG	, extra
#define COMPAT_COPY_EXTRA		extra
#else
#define COMPAT_COPY_EXTRA_PARAM
#define COMPAT_COPY_EXTRA_ARG
#define COMPAT_COPY_EXTRA		((Size) 0)
#endif

/* Writing the pages of a new index. */
#include "access/nbtree.h"
#include "access/xloginsert.h"
#include "storage/smgr.h"
#include "storage/sync.h"

/* Sets the checksum of a page that is about to be written; 19 renames it. */
#include "storage/bufpage.h"
#if PG_VERSION_NUM >= 190000
#define compat_page_set_checksum(page, block)	PageSetChecksum(page, block)
#else
#define compat_page_set_checksum(page, block)	PageSetChecksumInplace(page, block)
#endif

/* The path of the first segment of a relation's file, palloc'ed. */
static inline char *
compat_relation_path(Relation rel)
{
#if PG_VERSION_NUM >= 180000
	return pstrdup(relpathbackend(rel->rd_locator, rel->rd_backend, MAIN_FORKNUM).str);
#else
	return relpathbackend(compat_locator(rel), rel->rd_backend, MAIN_FORKNUM);
#endif
}

/*
 * Lets the next checkpoint flush a relation's file of this number of blocks.  False if the
 * request could not be sent.  17 has a function for it.
 */
static inline bool
compat_register_sync(Relation rel, BlockNumber nblocks)
{
#if PG_VERSION_NUM >= 170000
	smgrregistersync(RelationGetSmgr(rel), MAIN_FORKNUM);
#else
	for (BlockNumber segment = 0; segment * (BlockNumber) RELSEG_SIZE < nblocks; segment++)
	{
		FileTag		tag;

		memset(&tag, 0, sizeof(tag));
		tag.handler = SYNC_HANDLER_MD;
		tag.forknum = MAIN_FORKNUM;
#if PG_VERSION_NUM >= 160000
		tag.rlocator = rel->rd_locator;
#else
		tag.rnode = rel->rd_node;
#endif
		tag.segno = segment;
		if (!RegisterSyncRequest(&tag, SYNC_REQUEST, false))
			return false;
	}
#endif
	return true;
}

/* Memory of n pages, aligned as direct I/O requires it; not pfree'd. */
static inline char *
compat_pages_alloc(int n)
{
#if PG_VERSION_NUM >= 160000
	return palloc_aligned((Size) n * BLCKSZ, PG_IO_ALIGN_SIZE, 0);
#else
	return (char *) TYPEALIGN(BLCKSZ, palloc((Size) (n + 1) * BLCKSZ));
#endif
}

/* Largest tuple of a btree page; 18 removes the parameter of the macro. */
#if PG_VERSION_NUM >= 180000
#define compat_btree_max_item(page)		BTMaxItemSize
#else
#define compat_btree_max_item(page)		BTMaxItemSize(page)
#endif

/*
 * The planner's hook of a relation's data, with the relation (InvalidOid: none) and whether
 * its children are included.  19 calls it for relations of every kind.
 */
#include "nodes/parsenodes.h"
#include "optimizer/plancat.h"
#if PG_VERSION_NUM >= 190000
#define COMPAT_RELATION_HOOK		build_simple_rel_hook
#define COMPAT_RELATION_HOOK_TYPE	build_simple_rel_hook_type
#define COMPAT_RELATION_PARAMS		PlannerInfo *root, RelOptInfo *rel, RangeTblEntry *rte
#define COMPAT_RELATION_ARGS		root, rel, rte
#define COMPAT_RELATION_OID			(rte->rtekind == RTE_RELATION ? rte->relid : InvalidOid)
#define COMPAT_RELATION_INH			(rte->inh)
#else
#define COMPAT_RELATION_HOOK		get_relation_info_hook
#define COMPAT_RELATION_HOOK_TYPE	get_relation_info_hook_type
#define COMPAT_RELATION_PARAMS		PlannerInfo *root, Oid relation, bool inh, RelOptInfo *rel
#define COMPAT_RELATION_ARGS		root, relation, inh, rel
#define COMPAT_RELATION_OID			(relation)
#define COMPAT_RELATION_INH			(inh)
#endif

/* 19 has REPACK, and parses CLUSTER into its statement. */
#if PG_VERSION_NUM >= 190000
#define COMPAT_T_CLUSTER	T_RepackStmt
#else
#define COMPAT_T_CLUSTER	T_ClusterStmt
#endif

/*
 * Parameters and arguments of a table access method's relation_copy_for_cluster().  19 adds
 * a snapshot, for REPACK CONCURRENTLY, which does not lock the table.
 */
#if PG_VERSION_NUM >= 190000
#define COMPAT_COPY_SNAPSHOT_PARAM	, Snapshot snapshot
#define COMPAT_COPY_SNAPSHOT_ARG	, snapshot
#define COMPAT_COPY_HEAP_LOCKED		(snapshot == NULL)
#else
#define COMPAT_COPY_SNAPSHOT_PARAM
#define COMPAT_COPY_SNAPSHOT_ARG
#define COMPAT_COPY_HEAP_LOCKED		true
#endif
#define COMPAT_COPY_HEAP_PARAMS \
	Relation old_heap, Relation new_heap, Relation index, bool use_sort, \
	TransactionId oldest_xmin COMPAT_COPY_SNAPSHOT_PARAM, TransactionId *xid_cutoff, \
	MultiXactId *multi_cutoff, double *num_tuples, double *tups_vacuumed, \
	double *tups_recently_dead
#define COMPAT_COPY_HEAP_ARGS \
	old_heap, new_heap, index, use_sort, oldest_xmin COMPAT_COPY_SNAPSHOT_ARG, xid_cutoff, \
	multi_cutoff, num_tuples, tups_vacuumed, tups_recently_dead

/* 19 renames the progress of CLUSTER. */
#include "commands/progress.h"
#if PG_VERSION_NUM >= 190000
#define PROGRESS_CLUSTER_PHASE					PROGRESS_REPACK_PHASE
#define PROGRESS_CLUSTER_PHASE_SEQ_SCAN_HEAP	PROGRESS_REPACK_PHASE_SEQ_SCAN_HEAP
#define PROGRESS_CLUSTER_PHASE_SORT_TUPLES		PROGRESS_REPACK_PHASE_SORT_TUPLES
#define PROGRESS_CLUSTER_PHASE_WRITE_NEW_HEAP	PROGRESS_REPACK_PHASE_WRITE_NEW_HEAP
#define PROGRESS_CLUSTER_TOTAL_HEAP_BLKS		PROGRESS_REPACK_TOTAL_HEAP_BLKS
#define PROGRESS_CLUSTER_HEAP_BLKS_SCANNED		PROGRESS_REPACK_HEAP_BLKS_SCANNED
#define PROGRESS_CLUSTER_HEAP_TUPLES_SCANNED	PROGRESS_REPACK_HEAP_TUPLES_SCANNED
#define PROGRESS_CLUSTER_HEAP_TUPLES_WRITTEN	PROGRESS_REPACK_HEAP_TUPLES_INSERTED
#endif

#endif							/* GPUSORT_COMPAT_H */
