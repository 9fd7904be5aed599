/*
 * recost.c
 *	  Gathers that do not pay at our costs become serial plans.
 *
 * PostgreSQL decides for a Gather at what a Sort costs.  A merge join in workers, above all,
 * sorts its whole inner side in each of them: that takes all processors for the same thing,
 * which pays while sorts are dear, as an inner side that does not fit in memory is dear
 * only once.  Ours cost a tenth, so that of what workers save less is left than they take.
 * Gathers with our sorts are therefore weighed once more when sorts are replaced: what one
 * process would take for all that is below, and what each of the participants takes, as many
 * at a time as there are processors.  If workers do not save a tenth the Gather is left without:
 * then the leader runs everything below it alone, as it does where no worker can be
 * launched.  The same goes for what is to be sorted by all together; of the sort of an ORDER BY
 * ordered.c has decided, but not of other sorts below it.
 *
 * Below a Gather are nodes that share rows, for there is a parallel scan below them, and nodes
 * that each participant runs as a whole.  The plan's own costs are of one participant: a
 * node's less its children's is its own.  If rows are shared, that is as many times as much
 * for all of them as PostgreSQL has divided them by.  It divides no page of a scan: those
 * are asked of the catalog.  All that sorts cost is as sort_cost.c has it.
 *
 * Who says that workers cost nothing to start (parallel_setup_cost = 0) has them.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_class.h"
#include "executor/gpusort_executor.h"
#include "miscadmin.h"
#include "optimizer/optimizer.h"
#include "parallel/parallel.h"
#include "parallel/sort_cost.h"
#include "parser/parsetree.h"
#include "planner/planner_internal.h"
#include "sort/sort_internal.h"
#include "utils/lsyscache.h"
#include "utils/spccache.h"
#include "utils/syscache.h"

/* What is weighed. */
typedef struct Scales
{
	List	   *rtable;
	int			workers;
	double		participants;
	double		cluster;			/* so many wait for a processor that one has */
	bool		ours;			/* there is a sort of ours */
} Scales;

/* A plan below a Gather. */
typedef struct Weight
{
	Cost		serial;			/* of one process */
	Cost		share;			/* of each participant */
	bool		shared;			/* they share its rows */
	double		rows;			/* of all of them, or of each */
} Weight;

static Weight recost(Scales *scales, const Plan *plan, bool by_page);

/* Costs of which each participant has its part. */
static void
add_shared(const Scales *scales, Weight *sum, Cost all)
{
	sum->serial += all;
	sum->share += all / scales->participants;
}

static void
add_whole(Weight *sum, Cost each)
{
	sum->serial += each;
	sum->share += each;
}

static void
add_child(Weight *sum, const Weight *child)
{
	sum->serial += child->serial;
	sum->share += child->share;
	sum->shared |= child->shared;
}

/* A plan's children: outer and inner, or those of nodes that have others. */
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

/* A cost of the planner's for one participant, as one of all. */
static Cost
of_all(const Scales *scales, const Weight *node, Cost of_one)
{
	return node->shared ? of_one * shares_of(scales->workers) : of_one;
}

/* Pages of a table, as they were last counted. */
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

/* by_page: a sort of ours takes its rows off their pages */
static void
recost_scan(const Scales *scales, const SeqScan *scan, bool by_page, Weight *sum)
{
	const Plan *plan = (const Plan *) scan;
	const RangeTblEntry *rte = rt_fetch(((const Scan *) scan)->scanrelid, scales->rtable);
	double		pages = pages_of(rte->relid);
	double		page_cost;
	Cost		read;
	Cost		rows;

	get_tablespace_page_costs(get_rel_tablespace(rte->relid), NULL, &page_cost);
	read = Min(pages * page_cost, plan->total_cost);
	rows = of_all(scales, sum, plan->total_cost - read);
	if (by_page && plan->qual == NIL)
		rows = Max(0, rows - sum->rows * cpu_tuple_cost * (1 - PAGES_ROW_PART));
	if (pages > effective_cache_size)
	{
		/* from one disk, once */
		sum->serial += read;
		sum->share += read / scales->cluster;
	}
	else
	{
		sum->serial += read * PAGES_READ_PART;
		sum->share += read * PAGES_NEW_PART / (sum->shared ? scales->participants : 1);
	}
	if (sum->shared)
		add_shared(scales, sum, rows);
	else
		add_whole(sum, rows);
}

/* What a sort of so many rows like the plan's is to be. */
static void
sort_facts(const Plan *plan, double rows, const KeyColumn *keys, int nkeys, SortCostFacts *facts)
{
	memset(facts, 0, sizeof(*facts));
	facts->rows = rows;
	facts->row_bytes = MAXALIGN(SizeofMinimalTupleHeader) + MAXALIGN(plan->plan_width);
	facts->keys = keys;
	facts->nkeys = nkeys;
}

static Cost
spent(const SortCost *cost)
{
	return cost_of_us(cost->sort_us + cost->rows_us);
}

static void
recost_sort(const Scales *scales, const CustomScan *sort, Weight *sum)
{
	SortCostFacts facts;
	SortCost	cost;
	int			nkeys;
	const KeyColumn *keys = gpusort_plan_keys(sort, &nkeys);

	sort_facts(&sort->scan.plan, sum->rows, keys, nkeys, &facts);
	sort_cost_serial(&facts, &cost);
	sum->serial += spent(&cost);
	if (sum->shared)
		facts.rows /= scales->participants;
	sort_cost_participant(&facts, (int) scales->participants, &cost);
	sum->share += spent(&cost);
}

/* Of a join that shares one side's rows only: what it takes for rows that come in, and for those that it gives. */
static void
recost_half_join(const Scales *scales, const Plan *join, Cost own, const Weight *outer, const Weight *inner,
				Weight *sum)
{
	Cost		out = Min(own, join->plan_rows * cpu_tuple_cost);
	double		outer_rows = Max(1, outer->rows);
	double		both = outer_rows + inner->rows;
	Cost		in = (own - out) * both / (outer_rows / shares_of(scales->workers) + inner->rows);

	add_shared(scales, sum, of_all(scales, sum, out));
	add_shared(scales, sum, in * outer_rows / both);
	add_whole(sum, in * inner->rows / both);
}

static Weight
recost(Scales *scales, const Plan *plan, bool by_page)
{
	Weight		sum = {.shared = plan->parallel_aware};
	Weight		sides[2] = {{0}};
	bool		sort = gpusort_plan_is(plan);
	Cost		own = plan->total_cost;
	List	   *children = plan_children(plan);
	ListCell   *lc;

	check_stack_depth();
	foreach(lc, children)
	{
		const Plan *child = lfirst(lc);
		Weight		weight = recost(scales, child, sort || (by_page && IsA(plan, Append)));

		own -= child->total_cost;
		if (foreach_current_index(lc) < lengthof(sides))
			sides[foreach_current_index(lc)] = weight;
		/* a child that nobody shares is somebody's */
		if (IsA(plan, Append) && plan->parallel_aware)
			add_shared(scales, &sum, weight.serial);
		else
			add_child(&sum, &weight);
	}
	list_free(children);
	own = Max(0, own);
	sum.rows = of_all(scales, &sum, plan->plan_rows);

	if (sort)
	{
		scales->ours = true;
		recost_sort(scales, (const CustomScan *) plan, &sum);
	}
	else if (IsA(plan, SeqScan))
		recost_scan(scales, (const SeqScan *) plan, by_page, &sum);
	else if (!sum.shared)
		add_whole(&sum, own);
	else if ((IsA(plan, MergeJoin) || IsA(plan, HashJoin)) && !sides[1].shared)
		recost_half_join(scales, plan, own, &sides[0], &sides[1], &sum);
	else
		add_shared(scales, &sum, of_all(scales, &sum, own));
	return sum;
}

/* So many participants, of which so many run at once. */
static void
scales_init(Scales *scales, List *rtable, int workers, bool leader)
{
	memset(scales, 0, sizeof(*scales));
	scales->rtable = rtable;
	scales->workers = workers;
	scales->participants = workers + (leader ? 1 : 0);
	scales->cluster = scales->participants / sort_abreast(scales->participants);
}

bool
workers_pay(List *rtable, const Plan *gather, int workers)
{
	Scales		scales;
	Weight		weight;
	Cost		spend = cost_of_setup(workers);

	if (parallel_setup_cost == 0 || workers == 0)
		return true;
	scales_init(&scales, rtable, workers, parallel_leader_participation);
	weight = recost(&scales, gather->lefttree, false);
	spend += weight.share * scales.cluster + gather->plan_rows * parallel_tuple_cost;
	return !scales.ours || spend <= WORKERS_MOST * weight.serial;
}

bool
sort_workers_pay(List *rtable, const Plan *partial, int workers, const KeyColumn *keys, int nkeys,
				 bool decided)
{
	bool		leader = parallel_leader_participation;
	Scales		scales;
	Weight		weight;
	SortCostFacts facts;
	SortCost	serial;
	SortCost	many;

	if (parallel_setup_cost == 0 || workers == 0)
		return true;
	scales_init(&scales, rtable, workers, leader && workers < EXCHANGE_TWO_LEVEL_WORKERS);
	weight = recost(&scales, partial, true);
	if (decided && !scales.ours)
		return true;
	sort_facts(partial, weight.rows, keys, nkeys, &facts);
	sort_cost_serial(&facts, &serial);
	sort_cost_parallel(&facts, workers, leader, &many);
	return cost_of_setup(workers) + weight.share * scales.cluster + spent(&many) <=
		WORKERS_MOST * (weight.serial + spent(&serial));
}

/* ------------------------------------------------------------------------
 * A plan that several processes were to share becomes one process's.
 *
 * A scan that is parallel-aware is like any other as long as it has no shared memory, which only a
 * Gather gives it; so it only loses the name.  A hash join whose table is to be built by all is
 * left as it is: its table's size was planned for their memory.
 * ------------------------------------------------------------------------
 */

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

/* Returns whether the plan's rows were to be shared. */
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
