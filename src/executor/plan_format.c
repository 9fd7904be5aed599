/*
 * plan_format.c
 *	  A GpuSort node in a finished plan, and whether a plan can be run again.
 *
 * Plan trees are copied, written and read.  So custom_private has lists of
 * numbers: a list for each property of a key column, with an element for each
 * column; then the number of distinct columns and of their values, and the length of a GpuSort
 * Incremental's prefix.  custom_exprs has the two expressions of the Limit above,
 * because PostgreSQL walks and fixes up these expressions with the plan.
 *
 * After a device failure a sort runs its child again, if the child can be run
 * again.  Executor runs that may stop before the end of their plan are
 * recognized, because a sort must not hold a device meanwhile.
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/parallel.h"
#include "catalog/pg_am.h"
#include "compat.h"
#include "executor/executor.h"
#include "executor/executor_internal.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "nodes/pg_list.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "utils/rel.h"

/* The lists of a key column's properties in custom_private. */
typedef enum PlanList
{
	PLAN_ATTNO,
	PLAN_SORTOP,
	PLAN_COLLATION,
	PLAN_NULLS_FIRST,
	PLAN_DESCENDING,
	PLAN_KIND,
	PLAN_LISTS
} PlanList;

bool
gpusort_plan_is(const Plan *plan)
{
	return IsA(plan, CustomScan) && ((const CustomScan *) plan)->methods == &gpusort_scan_methods;
}

bool
incremental_plan_is(const Plan *plan)
{
	return IsA(plan, CustomScan) && ((const CustomScan *) plan)->methods == &incremental_scan_methods;
}

bool
plan_above_partial_sorts(const CustomScan *cscan)
{
	const Plan *gather = outerPlan(cscan);

	return IsA(gather, Gather) && IsA(outerPlan(gather), CustomScan) &&
		((const CustomScan *) outerPlan(gather))->methods == &partial_sort_scan_methods;
}

void
gpusort_plan_fill(CustomScan *cscan, const KeyColumn *keys, int nkeys, Limit *limit)
{
	List	   *lists[PLAN_LISTS] = {NIL};

	for (int i = 0; i < nkeys; i++)
	{
		lists[PLAN_ATTNO] = lappend_int(lists[PLAN_ATTNO], keys[i].attno);
		lists[PLAN_SORTOP] = lappend_oid(lists[PLAN_SORTOP], keys[i].sortop);
		lists[PLAN_COLLATION] = lappend_oid(lists[PLAN_COLLATION], keys[i].collation);
		lists[PLAN_NULLS_FIRST] = lappend_int(lists[PLAN_NULLS_FIRST], keys[i].nulls_first);
		lists[PLAN_DESCENDING] = lappend_int(lists[PLAN_DESCENDING], keys[i].descending);
		lists[PLAN_KIND] = lappend_int(lists[PLAN_KIND], keys[i].kind);
	}
	cscan->custom_private = NIL;
	for (int i = 0; i < PLAN_LISTS; i++)
		cscan->custom_private = lappend(cscan->custom_private, lists[i]);
	cscan->custom_private = lappend(cscan->custom_private, list_make2_int(0, 0));
	if (limit != NULL)
		cscan->custom_exprs = list_make2(limit->limitCount, limit->limitOffset);
}

KeyColumn *
gpusort_plan_keys(const CustomScan *cscan, int *nkeys)
{
	List	   *lists[PLAN_LISTS];
	KeyColumn  *keys;

	for (int i = 0; i < PLAN_LISTS; i++)
		lists[i] = list_nth(cscan->custom_private, i);
	*nkeys = list_length(lists[0]);
	keys = palloc(*nkeys * sizeof(KeyColumn));
	for (int i = 0; i < *nkeys; i++)
	{
		keys[i].attno = list_nth_int(lists[PLAN_ATTNO], i);
		keys[i].sortop = list_nth_oid(lists[PLAN_SORTOP], i);
		keys[i].collation = list_nth_oid(lists[PLAN_COLLATION], i);
		keys[i].nulls_first = list_nth_int(lists[PLAN_NULLS_FIRST], i);
		keys[i].descending = list_nth_int(lists[PLAN_DESCENDING], i);
		keys[i].kind = (KeyKind) list_nth_int(lists[PLAN_KIND], i);
	}
	return keys;
}

void
incremental_plan_fill(CustomScan *cscan, const KeyColumn *keys, int nkeys, int nprefix, Limit *limit)
{
	gpusort_plan_fill(cscan, keys, nkeys, limit);
	cscan->custom_private = lappend(cscan->custom_private, list_make1_int(nprefix));
}

int
incremental_plan_prefix(const CustomScan *cscan)
{
	return linitial_int((List *) list_nth(cscan->custom_private, PLAN_LISTS + 1));
}

void
gpusort_plan_set_distinct(CustomScan *cscan, int distinct, double groups)
{
	List	   *list = list_nth(cscan->custom_private, PLAN_LISTS);

	/* rows that differ in fewer columns differ in these, too */
	if (linitial_int(list) > 0 && linitial_int(list) <= distinct)
		return;
	linitial_int(list) = distinct;
	lsecond_int(list) = (int) Min(groups, PG_INT32_MAX);
}

int
gpusort_plan_distinct(const CustomScan *cscan)
{
	return linitial_int((List *) list_nth(cscan->custom_private, PLAN_LISTS));
}

double
gpusort_plan_groups(const CustomScan *cscan)
{
	return lsecond_int((List *) list_nth(cscan->custom_private, PLAN_LISTS));
}

void
gpusort_plan_move_key(CustomScan *cscan, AttrNumber from, AttrNumber to)
{
	ListCell   *lc;

	foreach(lc, (List *) list_nth(cscan->custom_private, PLAN_ATTNO))
	{
		if (lfirst_int(lc) == from)
			lfirst_int(lc) = to;
	}
}

void
gpusort_plan_limit(const CustomScan *cscan, PlanState *parent, ExprState **count, ExprState **offset)
{
	*count = *offset = NULL;
	if (cscan->custom_exprs == NIL)
		return;
	*count = ExecInitExpr(linitial(cscan->custom_exprs), parent);
	*offset = ExecInitExpr(lsecond(cscan->custom_exprs), parent);
}

/* ------------------------------------------------------------------------
 * Can a plan be run again with the same rows in the same order?
 *
 * If a device fails, the sort runs its child again and skips the rows that it
 * has returned.  That is right only if the second run returns the rows of the
 * first in the same order, ties included, although other sessions may have
 * written, vacuumed and analyzed in between, and this session may have changed
 * settings (set_config() above the sort).  Node types that are not listed in
 * node_can_rerun() count as not repeatable.  Both runs have the same snapshot
 * and therefore the same rows.  Their order:
 *
 * - Sequential scan of a heap: by line pointer.  A visible tuple keeps its line
 *	 pointer through inserts and pruning, and the locks held prevent that the
 *	 table is rewritten or truncated.  A synchronized scan keeps its start block.
 * - B-tree scan of a heap: by key and TID.  A visible row keeps its index entry;
 *	 insertions, page splits, deduplication and deletions do not change the order
 *	 of the other entries.
 * - Hash, GiST, SP-GiST and unknown access methods: not repeatable, because page
 *	 splits move entries.
 * - Bitmap heap scan: not repeatable.  An exact page returns rows by the line
 *	 pointers of their HOT chains' roots, a lossy page by the rows' own.  Which
 *	 pages are lossy depends on the number of entries of other transactions.
 * - Other table access methods and foreign scans: not repeatable, their order is
 *	 unknown.
 * - Function scan: repeatable if the tuplestore with its rows is read again.
 *	 With changed parameters or in new workers the function is evaluated again.
 * - CTE and worktable scans, sampled scans, Sort, Memoize, parallel-aware nodes:
 *	 treated as not repeatable, because little would be gained.
 * - Hash join: by outer row, then by the order in the hash table.  The table is
 *	 kept or, if it had several batches, built again from the same rows.  If
 *	 several batches are expected, the most common values by the statistics are
 *	 kept apart, and the statistics may have changed: not repeatable then.  The
 *	 number of batches depends on work_mem and hash_mem_multiplier, so the second
 *	 run must have the values of the first.
 *
 * In a plan shared by workers the order does not matter, and nodes may be
 * parallel-aware: which worker gets a row may change, but the set of rows does
 * not.
 *
 * Expressions must be immutable, because stable functions may depend on settings.
 * ------------------------------------------------------------------------
 */

/* Upper limit of a hash table's memory for a row, besides its columns. */
#define HASH_ROW_OVERHEAD	128

static bool can_rerun(PlanState *ps, bool shared);

/* Is the expression, or list of expressions, immutable? */
static bool
expr_can_rerun(void *expr)
{
	return expr == NULL ||
		(!contain_mutable_functions((Node *) expr) && !contain_subplans((Node *) expr));
}

static bool
heap_can_rerun(ScanState *scan)
{
	return scan->ss_currentRelation->rd_tableam == GetHeapamTableAmRoutine();
}

static bool
index_can_rerun(ScanState *scan, Relation index, List *qual)
{
	return heap_can_rerun(scan) && index != NULL && index->rd_rel->relam == BTREE_AM_OID &&
		expr_can_rerun(qual);
}

/* Is it certain that the join has one batch, or that it does not use statistics? */
static bool
hash_can_rerun(Hash *hash)
{
	return !OidIsValid(hash->skewTable) ||
		hash->plan.plan_rows * (hash->plan.plan_width + HASH_ROW_OVERHEAD) <
		get_hash_memory_limit() / 2.0;
}

static bool
append_can_rerun(AppendState *append, bool shared)
{
	for (int i = 0; i < append->as_nplans; i++)
	{
		if (!can_rerun(append->appendplans[i], shared))
			return false;
	}
	return true;
}

/* Checks a node without its target list, quals and children. */
static bool
node_can_rerun(PlanState *ps, bool shared)
{
	Plan	   *plan = ps->plan;

	switch (nodeTag(plan))
	{
		case T_Material:
			return true;
		case T_Hash:
			return hash_can_rerun((Hash *) plan) && expr_can_rerun(((Hash *) plan)->hashkeys);
		case T_SeqScan:
			return heap_can_rerun((ScanState *) ps);
		case T_Result:
			return expr_can_rerun(((Result *) plan)->resconstantqual);
		case T_IndexScan:
			return index_can_rerun((ScanState *) ps, ((IndexScanState *) ps)->iss_RelationDesc,
								   ((IndexScan *) plan)->indexqual);
		case T_IndexOnlyScan:
			return index_can_rerun((ScanState *) ps, ((IndexOnlyScanState *) ps)->ioss_RelationDesc,
								   ((IndexOnlyScan *) plan)->indexqual);
		case T_FunctionScan:
			return (!shared && bms_is_empty(plan->extParam)) ||
				expr_can_rerun(((FunctionScan *) plan)->functions);
		case T_ValuesScan:
			return expr_can_rerun(((ValuesScan *) plan)->values_lists);
		case T_NestLoop:
			return expr_can_rerun(((NestLoop *) plan)->join.joinqual);
		case T_MergeJoin:
			return expr_can_rerun(((MergeJoin *) plan)->join.joinqual) &&
				expr_can_rerun(((MergeJoin *) plan)->mergeclauses);
		case T_HashJoin:
			return expr_can_rerun(((HashJoin *) plan)->join.joinqual) &&
				expr_can_rerun(((HashJoin *) plan)->hashclauses);
		case T_SubqueryScan:
			return can_rerun(((SubqueryScanState *) ps)->subplan, shared);
		case T_Append:
			return append_can_rerun((AppendState *) ps, shared);
		default:
			return false;
	}
}

static bool
can_rerun(PlanState *ps, bool shared)
{
	if (ps == NULL)
		return true;
	check_stack_depth();
	return (shared || !ps->plan->parallel_aware) &&
		expr_can_rerun(ps->plan->targetlist) && expr_can_rerun(ps->plan->qual) &&
		node_can_rerun(ps, shared) &&
		can_rerun(outerPlanState(ps), shared) && can_rerun(innerPlanState(ps), shared);
}

bool
plan_can_rerun(PlanState *ps)
{
	return can_rerun(ps, false);
}

bool
plan_can_rerun_shared(PlanState *ps)
{
	return can_rerun(ps, true);
}

bool
sort_cannot_rerun(void *arg)
{
	return false;
}

/* ------------------------------------------------------------------------
 * Executor runs that may stop before the end of their plan
 *
 * Cursors, portals that a client reads in pieces, loops over a query in PL/pgSQL
 * and SQL functions that return row by row run a plan for a number of rows, and
 * continue when more rows are asked for, perhaps never.  A sort that streams its
 * result from a device would hold device memory, a job slot and chunks of the
 * staging pool meanwhile, and nothing could reclaim them: a backend that waits
 * for its client cannot be interrupted for this.
 *
 * So in such a run a sort copies its whole result from the device before it
 * returns the first row, into work_mem or to disk, and ends its job.  The hook
 * recognizes such runs by their row count.  A device failure is also noticed
 * before the first row: between two fetches settings may change, and then the
 * child's second run could differ from its first.
 *
 * A query that runs to its end streams.  It keeps the device while its client
 * stops reading; admission accounts for that (service/admission.c).
 * ------------------------------------------------------------------------
 */

static ExecutorRun_hook_type prev_executor_run = NULL;

static bool may_pause = false;

bool
device_may_pause(void)
{
	return may_pause;
}

static void
pause_executor_run(COMPAT_RUN_PARAMS)
{
	bool		outer = may_pause;

	/* a worker that stops early does not continue */
	may_pause = count != 0 && !COMPAT_RUN_ONCE && !IsParallelWorker();
	PG_TRY();
	{
		if (prev_executor_run)
			prev_executor_run(COMPAT_RUN_ARGS);
		else
			standard_ExecutorRun(COMPAT_RUN_ARGS);
	}
	PG_FINALLY();
	{
		may_pause = outer;
	}
	PG_END_TRY();
}

void
device_pause_init(void)
{
	prev_executor_run = ExecutorRun_hook;
	ExecutorRun_hook = pause_executor_run;
}
