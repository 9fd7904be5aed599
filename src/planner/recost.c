/*
 * recost.c
 *	  Re-costs parallel plans that contain our sorts.
 *
 * PostgreSQL decides for a Gather by the costs of its own Sort.  Our sorts are faster,
 * so workers save less, for example in a parallel merge join, where each worker sorts
 * the whole inner side.  When sorts are replaced, the plan below each Gather with our
 * sorts is therefore re-costed, for one process and for all participants, including
 * oversubscription of the CPUs.  If the workers do not save a tenth, the Gather gets
 * no workers: the leader runs the plan alone, as if none could be launched.  Parallel
 * sorts are re-costed in the same way, except the sort of an ORDER BY, which sort_path.c
 * has decided.
 *
 * Below a Gather the participants share the rows of nodes that have a parallel scan below
 * them.  Each participant runs all other nodes as a whole.  The plan's costs are those of
 * one participant, and a node's own cost is its cost minus the costs of its children.  For
 * a shared node, the cost of all participants is the node's own cost times the number by
 * which PostgreSQL divided the rows.  PostgreSQL does not divide the pages of a scan;
 * their number comes from the catalog.  The costs of sorts are those of
 * parallel/sort_cost.c.
 *
 * With parallel_setup_cost = 0 all workers stay.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_class.h"
#include "executor/gpusort_executor.h"
#include "miscadmin.h"
#include "optimizer/optimizer.h"
#include "parallel/parallel.h"
#include "parser/parsetree.h"
#include "planner/planner_internal.h"
#include "utils/lsyscache.h"
#include "utils/spccache.h"
#include "utils/syscache.h"

/* Parameters and result flags of one re-costing. */
typedef struct Recost
{
	List	   *rtable;
	int			workers;
	double		participants;	/* workers, and the leader if it takes part */
	double		oversubscription;	/* participants per CPU */
	bool		has_gpusort;	/* the plan contains a GpuSort */
} Recost;

/* Costs of a plan below a Gather. */
typedef struct PlanCost
{
	Cost		serial;			/* cost if one process runs the plan */
	Cost		share;			/* cost of each participant */
	bool		shared;			/* participants share the rows */
	double		rows;			/* of all participants together if shared */
} PlanCost;

static PlanCost recost(Recost *rc, const Plan *plan, bool by_page);

/* Adds a cost that the participants share. */
static void
add_shared(const Recost *rc, PlanCost *sum, Cost all)
{
	sum->serial += all;
	sum->share += all / rc->participants;
}

/* Adds a cost that each participant has in full. */
static void
add_whole(PlanCost *sum, Cost each)
{
	sum->serial += each;
	sum->share += each;
}

static void
add_child(PlanCost *sum, const PlanCost *child)
{
	sum->serial += child->serial;
	sum->share += child->share;
	sum->shared |= child->shared;
}

/* A plan's children, as a new list. */
static List *
plan_children(const Plan *plan)
{
	List	   *children = NIL;

	if (IsA(plan, Append))
		return list_copy(((const Append *) plan)->appendplans);
	if (IsA(plan, MergeAppend))
		return list_copy(((const MergeAppend *) plan)->mergeplans);
	if (IsA(plan, SubqueryScan))
		return list_make1(((const SubqueryScan *) plan)->subplan);
	if (plan->lefttree != NULL)
		children = lappend(children, plan->lefttree);
	if (plan->righttree != NULL)
		children = lappend(children, plan->righttree);
	return children;
}

/* The planner's cost or rows for one participant, scaled to all participants. */
static Cost
scale_to_all(const Recost *rc, const PlanCost *node, Cost of_one)
{
	return node->shared ? of_one * shares_of(rc->workers) : of_one;
}

/* Pages of a table, by the last VACUUM or ANALYZE. */
static double
pages_of(Oid relid)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	double		pages;

	if (!HeapTupleIsValid(tuple))
		return 0;
	pages = (double) (BlockNumber) ((Form_pg_class) GETSTRUCT(tuple))->relpages;
	ReleaseSysCache(tuple);
	return pages;
}

/* Adds the cost of a table scan.  by_page: a GpuSort above reads the table by page. */
static void
recost_scan(const Recost *rc, const SeqScan *scan, bool by_page, PlanCost *sum)
{
	const Plan *plan = (const Plan *) scan;
	const RangeTblEntry *rte = rt_fetch(((const Scan *) scan)->scanrelid, rc->rtable);
	double		pages = pages_of(rte->relid);
	double		page_cost;
	Cost		read;
	Cost		rows;

	get_tablespace_page_costs(get_rel_tablespace(rte->relid), NULL, &page_cost);
	read = Min(pages * page_cost, plan->total_cost);
	rows = scale_to_all(rc, sum, plan->total_cost - read);
	if (by_page && plan->qual == NIL)
		rows = Max(0, rows - sum->rows * cpu_tuple_cost * (1 - PAGES_ROW_PART));
	if (pages > effective_cache_size)
	{
		/* the pages come from one disk, once for all participants */
		sum->serial += read;
		sum->share += read / rc->oversubscription;
	}
	else
	{
		sum->serial += read * PAGES_READ_PART;
		sum->share += read * PAGES_NEW_PART / (sum->shared ? rc->participants : 1);
	}
	if (sum->shared)
		add_shared(rc, sum, rows);
	else
		add_whole(sum, rows);
}

/* Are the plan's rows their keys? */
static bool
plan_has_only_keys(const Plan *plan, const KeyColumn *keys, int nkeys)
{
	Bitmapset  *columns = NULL;
	bool		all = keys_are_decodable(keys, nkeys);

	for (int k = 0; k < nkeys; k++)
		columns = bms_add_member(columns, keys[k].attno);
	all = all && bms_num_members(columns) == list_length(plan->targetlist);
	bms_free(columns);
	return all;
}

/* Fills the facts of a sort of this number of the plan's rows. */
static void
sort_facts(const Plan *plan, double rows, const KeyColumn *keys, int nkeys, SortCostFacts *facts)
{
	memset(facts, 0, sizeof(*facts));
	facts->rows = rows;
	facts->row_bytes = stored_row_bytes(plan->plan_width);
	facts->keys_only = plan_has_only_keys(plan, keys, nkeys);
	facts->keys = keys;
	facts->nkeys = nkeys;
}

static Cost
total_sort_cost(const SortCost *cost)
{
	return cost_of_us(cost->sort_us + cost->rows_us);
}

/* Adds the cost of a GpuSort. */
static void
recost_sort(const Recost *rc, const CustomScan *sort, PlanCost *sum)
{
	SortCostFacts facts;
	SortCost	cost;
	int			nkeys;
	const KeyColumn *keys = gpusort_plan_keys(sort, &nkeys);

	/* a sort that drops duplicates returns fewer rows than it sorts */
	sort_facts(&sort->scan.plan, scale_to_all(rc, sum, outerPlan(sort)->plan_rows), keys, nkeys, &facts);
	if (gpusort_plan_distinct(sort) > 0)
		facts.groups = gpusort_plan_groups(sort);
	sort_cost_serial(&facts, &cost);
	sum->serial += total_sort_cost(&cost);
	if (sum->shared)
		facts.rows /= rc->participants;
	sort_cost_participant(&facts, (int) rc->participants, &cost);
	sum->share += total_sort_cost(&cost);
}

/*
 * Adds the own cost of a join of a shared outer side and an inner side that each
 * participant reads as a whole.  The cost is divided among returned rows, outer rows and
 * inner rows.
 */
static void
recost_half_join(const Recost *rc, const Plan *join, Cost own, const PlanCost *outer, const PlanCost *inner,
				 PlanCost *sum)
{
	Cost		out = Min(own, join->plan_rows * cpu_tuple_cost);
	double		outer_rows = Max(1, outer->rows);
	double		both = outer_rows + inner->rows;
	Cost		in = (own - out) * both / (outer_rows / shares_of(rc->workers) + inner->rows);

	add_shared(rc, sum, scale_to_all(rc, sum, out));
	add_shared(rc, sum, in * outer_rows / both);
	add_whole(sum, in * inner->rows / both);
}

/* The cost of a plan.  by_page: a GpuSort above may read its table by page. */
static PlanCost
recost(Recost *rc, const Plan *plan, bool by_page)
{
	PlanCost	sum = {.shared = plan->parallel_aware};
	PlanCost	sides[2] = {{0}};
	bool		sort = gpusort_plan_is(plan);
	Cost		own = plan->total_cost;
	List	   *children = plan_children(plan);
	ListCell   *lc;

	check_stack_depth();
	foreach(lc, children)
	{
		const Plan *child = lfirst(lc);
		PlanCost	cost = recost(rc, child, sort || (by_page && IsA(plan, Append)));

		own -= child->total_cost;
		if (foreach_current_index(lc) < lengthof(sides))
			sides[foreach_current_index(lc)] = cost;

		/* a child of a parallel Append that is not shared is run by one participant */
		if (IsA(plan, Append) && plan->parallel_aware)
			add_shared(rc, &sum, cost.serial);
		else
			add_child(&sum, &cost);
	}
	list_free(children);
	own = Max(0, own);
	sum.rows = scale_to_all(rc, &sum, plan->plan_rows);

	if (sort)
	{
		rc->has_gpusort = true;
		recost_sort(rc, (const CustomScan *) plan, &sum);
	}
	else if (IsA(plan, SeqScan))
		recost_scan(rc, (const SeqScan *) plan, by_page, &sum);
	else if (!sum.shared)
		add_whole(&sum, own);
	else if ((IsA(plan, MergeJoin) || join_plan_is(plan) || IsA(plan, HashJoin)) && !sides[1].shared)
		recost_half_join(rc, plan, own, &sides[0], &sides[1], &sum);
	else
		add_shared(rc, &sum, scale_to_all(rc, &sum, own));
	return sum;
}

static void
recost_init(Recost *rc, List *rtable, int workers, bool leader)
{
	memset(rc, 0, sizeof(*rc));
	rc->rtable = rtable;
	rc->workers = workers;
	rc->participants = workers + (leader ? 1 : 0);
	rc->oversubscription = oversubscription_of(rc->participants);
}

bool
workers_pay(List *rtable, const Plan *gather, int workers)
{
	Recost		rc;
	PlanCost	cost;
	Cost		spend = cost_of_setup(workers);

	if (parallel_setup_cost == 0 || workers == 0)
		return true;
	recost_init(&rc, rtable, workers, parallel_leader_participation);
	cost = recost(&rc, gather->lefttree, false);
	spend += cost.share * rc.oversubscription + gather->plan_rows * parallel_tuple_cost;
	return !rc.has_gpusort || spend <= WORKERS_MOST * cost.serial;
}

bool
sort_workers_pay(List *rtable, const Plan *partial, int workers, const KeyColumn *keys, int nkeys,
				 double groups, bool decided)
{
	bool		leader = parallel_leader_participation;
	Recost		rc;
	PlanCost	cost;
	SortCostFacts facts;
	SortCost	serial;
	SortCost	many;

	if (parallel_setup_cost == 0 || workers == 0)
		return true;
	recost_init(&rc, rtable, workers, leader && workers < EXCHANGE_TWO_LEVEL_WORKERS);
	cost = recost(&rc, partial, true);
	if (decided && !rc.has_gpusort)
		return true;
	sort_facts(partial, cost.rows, keys, nkeys, &facts);
	facts.groups = groups;
	sort_cost_serial(&facts, &serial);
	sort_cost_parallel(&facts, workers, leader, &many);
	return cost_of_setup(workers) + cost.share * rc.oversubscription + total_sort_cost(&many) <=
		WORKERS_MOST * (cost.serial + total_sort_cost(&serial));
}

bool
plan_returns_input(const Plan *gather)
{
	ListCell   *lc;
	ListCell   *below;

	if (list_length(gather->targetlist) != list_length(gather->lefttree->targetlist))
		return false;
	forboth(lc, gather->targetlist, below, gather->lefttree->targetlist)
	{
		TargetEntry *tle = lfirst_node(TargetEntry, lc);
		Var		   *var = (Var *) tle->expr;

		if (IsA(var, Const) && equal(var, lfirst_node(TargetEntry, below)->expr))
			continue;
		if (!IsA(var, Var) || var->varno != OUTER_VAR || var->varattno != tle->resno)
			return false;
	}
	return true;
}

/* ------------------------------------------------------------------------
 * Serial plans
 *
 * A parallel-aware scan or Append without shared memory runs like a serial one, so only
 * the flag is cleared.  A plan with a parallel hash join stays parallel: the size of its
 * table was planned for the memory of all participants.
 * ------------------------------------------------------------------------
 */

/* Can plan_make_serial() change this plan? */
static bool
can_be_serial(const Plan *plan)
{
	List	   *children = plan_children(plan);
	bool		can = true;
	ListCell   *lc;

	check_stack_depth();
	if (plan->parallel_aware)
	{
		switch (nodeTag(plan))
		{
			case T_SeqScan:
			case T_IndexScan:
			case T_IndexOnlyScan:
			case T_BitmapHeapScan:
			case T_Append:
				break;
			default:
				can = false;
		}
	}
	foreach(lc, children)
		can = can && can_be_serial(lfirst(lc));
	list_free(children);
	return can;
}

/* Clears the flags and corrects the rows.  Returns whether the rows were shared. */
static bool
make_serial(Plan *plan, double shares)
{
	List	   *children = plan_children(plan);
	bool		shared = plan->parallel_aware;
	ListCell   *lc;

	plan->parallel_aware = false;
	foreach(lc, children)
		shared |= make_serial(lfirst(lc), shares);
	list_free(children);
	if (shared)
		plan->plan_rows = clamp_row_est(plan->plan_rows * shares);
	return shared;
}

bool
plan_make_serial(Plan *plan, int workers)
{
	if (!can_be_serial(plan))
		return false;
	(void) make_serial(plan, shares_of(workers));
	return true;
}
