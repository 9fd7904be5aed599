/*
 * rerun.c
 *	  Can a plan be run again with the same rows in the same order?
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
 */
#include "postgres.h"

#include "access/heapam.h"
#include "catalog/pg_am.h"
#include "compat.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/base/rerun.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "utils/rel.h"

/* Upper limit of a hash table's memory for a row, besides its columns. */
#define HASH_ROW_OVERHEAD	128

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
		if (!plan_can_rerun(append->appendplans[i], shared))
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
			return plan_can_rerun(((SubqueryScanState *) ps)->subplan, shared);
		case T_Append:
			return append_can_rerun((AppendState *) ps, shared);
		default:
			return false;
	}
}

bool
plan_can_rerun(PlanState *ps, bool shared)
{
	if (ps == NULL)
		return true;
	check_stack_depth();
	return (shared || !ps->plan->parallel_aware) &&
		expr_can_rerun(ps->plan->targetlist) && expr_can_rerun(ps->plan->qual) &&
		node_can_rerun(ps, shared) &&
		plan_can_rerun(outerPlanState(ps), shared) && plan_can_rerun(innerPlanState(ps), shared);
}
