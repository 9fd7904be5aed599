/*
 * plan_format.c
 *	  A GpuSort node in a finished plan, and whether a plan can be run again.
 *
 * Plans are copied, written and read: custom_private is lists of numbers, one for
 * each property of a key column, with an element per column; custom_exprs, which is
 * walked and fixed up with the plan, has the Limit's two expressions.
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/parallel.h"
#include "catalog/pg_am.h"
#include "compat.h"
#include "executor/executor.h"
#include "executor/gpusort_executor.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "nodes/pg_list.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "utils/rel.h"

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
 * A sort whose rows were lost with a device starts over from its child, and goes on
 * behind the rows that it has given out.  That is right only if the child's second
 * run gives what its first gave, ties included, although other sessions may have
 * written, vacuumed and analyzed in between, and this one may have changed settings
 * (set_config() above the sort).  Nodes are allowed by name; all others are taken
 * for not repeatable.  Both runs have one snapshot, so the rows are the same; what
 * there is to say of their order:
 *
 * - Sequential scan of a heap: by line pointer.  A visible tuple keeps its own, new
 *	 ones and pruning do not matter, and the locks held keep the file from being
 *	 rewritten or truncated.  A synchronized scan keeps its starting block.
 * - B-tree scan of a heap: by key and then by place, of the equal ones too.  A visible
 *	 row keeps its entry; insertions, page splits, deduplication and deletions leave
 *	 the order of the others alone.
 * - Hash, GiST, SP-GiST and unknown access methods: no.  Where an entry lies depends
 *	 on splits, and what is below a split moves.
 * - Bitmap heap scan: no, whatever the index.  A page of which the bitmap knows the
 *	 rows gives them by the line pointers that their HOT chains begin with, a lossy
 *	 page by their own; which pages are lossy depends on how many entries others have
 *	 added.
 * - Other table access methods and foreign scans: no, nothing is known of them.
 * - Function scan: if it is not evaluated anew; its rows lie in a tuplestore, which
 *	 is read again.  With parameters that change it is evaluated anew, and by workers,
 *	 who are others in the second run.
 * - CTE and worktable scans, sampled scans, Sorts, Memoize, parallel nodes: no; some
 *	 could be, but little is gained.
 * - Hash join: by outer row and then by the order in the hash table, which either is
 *	 used again or, if it had several batches, built again from the same rows.  Where
 *	 several batches are expected common values are set apart by the statistics, which
 *	 may have changed: not then.  How a table is divided depends on work_mem and
 *	 hash_mem_multiplier, so these must be those of the first run.
 *
 * Where workers share the rows no order is asked for, and a node may be parallel-aware: which of
 * them has a row changes, which rows there are does not.
 *
 * Expressions must be immutable: a stable function may depend on settings.
 * ------------------------------------------------------------------------
 */

/* More than a hash table takes for a row beside its columns. */
#define HASH_ROW_OVERHEAD	128

static bool can_rerun(PlanState *ps, bool shared);

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

/* Sure to be planned with one batch, or not to look at the statistics? */
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

/* What is particular to the node's kind; its children come after. */
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

/* ------------------------------------------------------------------------
 * Runs of the executor that stop before their plan's end, and may never go on.
 *
 * A cursor, a portal that a client reads some rows at a time, a loop over a query in
 * PL/pgSQL, a SQL function that returns row by row: they run a plan for a number of
 * rows, and go on when somebody asks for more, after an hour or not at all.  A sort that
 * streams its result from the device would keep device memory, a slot and chunks of the
 * pool for as long, and nobody could have them back: a backend that waits for its
 * client can be asked for nothing, and rows that only the device has cannot be taken
 * from it.
 *
 * So in such a run a sort's whole result is brought to the host before its first row
 * is given out, into work_mem or else to disk, as the stock Sort would have it; then
 * its job is over.  That the run is of this kind shows in the number of rows it
 * is asked for.  A failure of the device, too, is over by then: between two fetches
 * settings may change with which the plan's second run would not be as its first.
 *
 * A query that is run to its end streams.  If its client stops reading, or what
 * stands above the sort is slow, it holds what it has; others reckon with that
 * (admission.c).
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

	/* a worker's leader stops it for good */
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
