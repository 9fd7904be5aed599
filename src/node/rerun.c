/*
 * rerun.c
 *	  Can a plan be run again with the same rows in the same order?
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
 */
#include "postgres.h"

#include "access/heapam.h"
#include "catalog/pg_am.h"
#include "miscadmin.h"
#include "node/rerun.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "utils/rel.h"

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
