/*
 * compat.h
 *	  Everything that depends on the server's version: PostgreSQL 15 to 19.
 */
#ifndef GPUSORT_COMPAT_H
#define GPUSORT_COMPAT_H

#include "postgres.h"

#if PG_VERSION_NUM < 150000
#error "gpusort needs PostgreSQL 15 or later"
#endif

/* The insides of varlena have a header of their own from 16 on. */
#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif

/* Before 18 the attribute came after the declaration; this place does for both. */
#if PG_VERSION_NUM < 180000
#define pg_noreturn pg_attribute_noreturn()
#endif

/* 19 does not take a comment's word for it. */
#ifndef pg_fallthrough
#define pg_fallthrough __attribute__((fallthrough))
#endif

/* 19 has its own type of signal handlers and casts the system's two. */
#if PG_VERSION_NUM < 190000
#define PG_SIG_DFL SIG_DFL
#define PG_SIG_IGN SIG_IGN
#endif

#include "commands/explain.h"
#if PG_VERSION_NUM >= 180000
#include "commands/explain_format.h"
#include "commands/explain_state.h"
#endif

/* Relations in the query; where columns must be qualified, there are several. */
static inline int
compat_explain_tables(const ExplainState *es)
{
#if PG_VERSION_NUM >= 180000
	return es->rtable_size;		/* less the one that stands for GROUP BY */
#else
	return list_length(es->rtable);
#endif
}

/*
 * From 18 on EXPLAIN calls a node disabled if it counts more disabled nodes than
 * its children, which for a CustomScan it expects in custom_plans.  Our child is
 * not there, since it would be copied twice with every copy of the plan: a node
 * that only has the child's count is.
 */
#include "nodes/plannodes.h"
static inline void
compat_count_disabled(CustomScan *cscan)
{
#if PG_VERSION_NUM >= 180000
	int			disabled = outerPlan(cscan)->disabled_nodes;

	if (disabled > 0)
	{
		Result	   *count = makeNode(Result);

		count->plan.disabled_nodes = disabled;
		cscan->custom_plans = list_make1(count);
	}
#endif
}

/* Nodes of a path that settings are against: up to 17 they are told by their cost. */
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

/* From 19 on an extension may be against Gathers of a relation. */
static inline bool
compat_gather_allowed(const RelOptInfo *rel)
{
#if PG_VERSION_NUM >= 190000
	return (rel->pgs_mask & PGS_GATHER) != 0;
#else
	return true;
#endif
}

/* The planner is told of EXPLAIN from 19 on. */
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

/* Whether a plan is run once only is no longer told from 18 on. */
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
 * A plan node's clock: is it running, and what does it say (all loops together,
 * after InstrEndLoop)?  19 wraps the measurement in the node's record of it.
 */
#include "nodes/execnodes.h"
static inline bool
compat_node_timed(const PlanState *ps)
{
#if PG_VERSION_NUM >= 190000
	return ps->instrument != NULL && ps->instrument->instr.need_timer;
#else
	return ps->instrument != NULL && ps->instrument->need_timer;
#endif
}

static inline double
compat_node_total_ms(const PlanState *ps)
{
#if PG_VERSION_NUM >= 190000
	return INSTR_TIME_GET_MILLISEC(ps->instrument->instr.total);
#else
	return ps->instrument->total * 1000.0;
#endif
}

/* Slots have flags from 19 on. */
static inline void
compat_init_scan_slot(EState *estate, ScanState *ss, TupleDesc desc, const TupleTableSlotOps *ops)
{
#if PG_VERSION_NUM >= 190000
	ExecInitScanTupleSlot(estate, ss, desc, ops, 0);
#else
	ExecInitScanTupleSlot(estate, ss, desc, ops);
#endif
}

/* What tells the direction of an ordering operator became a CompareType in 18. */
#include "utils/lsyscache.h"
#if PG_VERSION_NUM >= 180000
#include "access/cmptype.h"
#else
#include "access/stratnum.h"
#endif

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

/* How a heap scan keeps its page's rows: the same in all versions that we have tested. */
#define COMPAT_HEAP_PAGES	(PG_VERSION_NUM < 200000)

/* A scan of a whole table as the executor begins it; from 19 on it is told what may come of it. */
#include "access/tableam.h"
static inline TableScanDesc
compat_beginscan(Relation rel, Snapshot snapshot)
{
#if PG_VERSION_NUM >= 190000
	return table_beginscan(rel, snapshot, 0, NULL, SO_NONE);
#else
	return table_beginscan(rel, snapshot, 0, NULL);
#endif
}

/* PostgreSQL's own provider of collations came in 17; no provider before has its letter. */
#include "catalog/pg_collation.h"
#if PG_VERSION_NUM >= 170000
#define COMPAT_COLLPROVIDER_BUILTIN		COLLPROVIDER_BUILTIN
#else
#define COMPAT_COLLPROVIDER_BUILTIN		'b'
#endif

/* Rows of a table that a scan gave out, for the table's statistics. */
#include "pgstat.h"
#include "utils/rel.h"
static inline void
compat_count_heap_rows(Relation rel, int64 rows)
{
	if (!pgstat_should_count_relation(rel))
		return;
#if PG_VERSION_NUM >= 160000
	rel->pgstat_info->counts.tuples_returned += rows;
#else
	rel->pgstat_info->t_counts.t_tuples_returned += rows;
#endif
}

/* What a check hook returns in *extra; NULL if there is no memory. */
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

/* Extensions name their wait events from 17 on. */
#include "utils/wait_event.h"
static inline uint32
compat_wait_event(const char *name)
{
#if PG_VERSION_NUM >= 170000
	return WaitEventExtensionNew(name);
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

/* From 18 on whoever copies a slot's row may want bytes before it. */
#if PG_VERSION_NUM >= 180000
#define COMPAT_COPY_EXTRA_PARAM	, Size extra
#define COMPAT_COPY_EXTRA_ARG	, extra
#define COMPAT_COPY_EXTRA		extra
#else
#define COMPAT_COPY_EXTRA_PARAM
#define COMPAT_COPY_EXTRA_ARG
#define COMPAT_COPY_EXTRA		((Size) 0)
#endif

#endif							/* GPUSORT_COMPAT_H */
