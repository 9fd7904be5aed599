/*
 * planner_internal.h
 *	  Declarations that files of the planner room share.
 *
 * PostgreSQL's costs are in units of page reads and operators; our cost models
 * predict times.  OPERATOR_US converts them.  It follows from PostgreSQL's estimate
 * of a quicksort and the time of that sort.
 */
#ifndef GPUSORT_PLANNER_PLANNER_INTERNAL_H
#define GPUSORT_PLANNER_PLANNER_INTERNAL_H

#include "postgres.h"

#include "access/htup_details.h"
#include "key/key.h"
#include "nodes/extensible.h"
#include "nodes/makefuncs.h"
#include "nodes/pathnodes.h"
#include "nodes/plannodes.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "parallel/parallel.h"
#include "sort/sort.h"
#include "utils/lsyscache.h"

/* Microseconds of one cpu_operator_cost. */
#define OPERATOR_US		0.00625

/* A parallel plan must take at most this share of the serial plan's time. */
#define WORKERS_MOST		0.9

/*
 * Cost of starting and ending workers, including their waits for each other, in units
 * of parallel_setup_cost: a fixed part, and a part for each worker.
 */
#define SETUP_ANY			4
#define SETUP_WORKER		1

/* Shares of a scan's cost that remain if we read it by page and it is in memory. */
#define PAGES_ROW_PART	0.4		/* of cpu_tuple_cost */
#define PAGES_READ_PART	0.2		/* of seq_page_cost */

/*
 * Share of cpu_tuple_cost that we save for each tuple of a scan with a condition, also
 * for tuples that do not satisfy it.
 */
#define PAGES_TUPLE_SAVES	0.2

/* Share of seq_page_cost for pages that a worker has not mapped yet. */
#define PAGES_NEW_PART	0.6

static inline Cost
cost_of_us(double us)
{
	return us / OPERATOR_US * cpu_operator_cost;
}

static inline Cost
cost_of_setup(int workers)
{
	return parallel_setup_cost * (SETUP_ANY + workers * SETUP_WORKER);
}

/* The number by which PostgreSQL divides a partial plan's rows. */
static inline double
shares_of(int workers)
{
	return workers + (parallel_leader_participation ? Max(0, 1.0 - 0.3 * workers) : 0);
}

/* Average size of a stored row of this width. */
static inline double
stored_row_bytes(int width)
{
	return MAXALIGN(SizeofMinimalTupleHeader) + MAXALIGN(width);
}

static inline bool
type_is_varlena(Oid type)
{
	return get_typlen(type) < 0;
}

/* Can values of these columns be made of their normalized keys?  As keys_only_possible(). */
static inline bool
keys_are_decodable(const KeyColumn *keys, int nkeys)
{
	int			bits = 0;

	for (int k = 0; k < nkeys; k++)
	{
		if (!key_traits[keys[k].kind].decodable)
			return false;
		/* one bit tells NULL */
		bits += key_traits[keys[k].kind].wide ? 65 : 33;
	}
	return bits <= 128;
}

/* Processes per CPU. */
static inline double
oversubscription_of(double participants)
{
	return participants / sort_abreast(participants);
}

/*
 * A CustomScan that returns its input rows, with the costs, rows, parameters and child
 * of the node "like".  The entries of input refer to the child's output.
 */
static inline CustomScan *
plan_scan_of_input(const Plan *like, List *input)
{
	CustomScan *cscan = makeNode(CustomScan);
	List	   *tlist = NIL;
	ListCell   *lc;

	cscan->scan.plan = *like;
	cscan->scan.plan.type = T_CustomScan;

	foreach(lc, input)
	{
		TargetEntry *tle = flatCopyTargetEntry(lfirst_node(TargetEntry, lc));

		tle->expr = (Expr *) makeVarFromTargetEntry(INDEX_VAR, tle);
		tlist = lappend(tlist, tle);
	}
	cscan->scan.plan.targetlist = tlist;
	cscan->custom_scan_tlist = input;
	return cscan;
}

/* ------------------------------------------------------------------------
 * Corrections of the costs of PostgreSQL's paths
 * ------------------------------------------------------------------------
 */

/* What our models add to a path's costs; negative: what they subtract. */
typedef struct CostChange
{
	Cost		startup;
	Cost		total;
} CostChange;

static inline void
add_change(CostChange *change, Cost startup, Cost total)
{
	change->startup += startup;
	change->total += total;
}

/*
 * A node's own cost is its path's cost minus the input's cost.  If the own cost is below
 * startup and total, adds the difference to the change.
 */
static inline void
raise_own_cost(CostChange *change, const Path *path, Cost input_startup, Cost input_total,
			   Cost startup, Cost total)
{
	add_change(change, Max(0, startup - (path->startup_cost - input_startup)),
			   Max(0, total - (path->total_cost - input_total)));
}

/* ------------------------------------------------------------------------
 * JIT compilation at PostgreSQL's costs (jit_costs.c)
 * ------------------------------------------------------------------------
 */

/* The rises that apply_change() added to the paths of a statement. */
typedef struct CostRises CostRises;

/*
 * Begins to note the rises of a statement.  Returns NULL if JIT is off.  Sets *outer to
 * the rises of the statement that is being planned already, which cost_rises_end()
 * restores, also after an ERROR.
 */
extern CostRises *cost_rises_begin(CostRises **outer);
extern void cost_rises_end(CostRises *outer);

/* Adds a change to a path's costs, and notes it if it is a rise. */
extern void apply_change(Path *path, const CostChange *change);

/*
 * Applies the thresholds of JIT compilation again, to the plan's cost less its rises.
 * Call it before nodes are replaced.  The rises may be NULL.
 */
extern void jit_by_own_costs(PlannedStmt *stmt, CostRises *rises);

/* ------------------------------------------------------------------------
 * Sort paths at our costs (sort_path.c)
 * ------------------------------------------------------------------------
 */

/* The path below a projection, or the path itself. */
extern const Path *path_below_projection(const Path *path);

/* Is this path a Gather or Gather Merge? */
extern bool path_gathers(const Path *path);

/* Is there no LIMIT, or a constant one, which becomes the sort's bound? */
extern bool limit_is_known(const Query *query);

/*
 * Fills the facts of a sort of the path's rows, without a bound.  False if we cannot
 * sort by one of the pathkeys.
 */
extern bool sort_path_facts(PlannerInfo *root, const Path *input, List *pathkeys, SortCostFacts *facts);

/* A Sort path in one process. */
extern Path *sort_path_serial(PlannerInfo *root, RelOptInfo *rel, Path *input, List *pathkeys,
							  const SortCostFacts *facts);

/*
 * A Gather Merge of a Sort of the partial path, if it saves a tenth of the serial Sort
 * path's time; otherwise NULL.  serial may be NULL.  facts has the rows of all
 * participants.
 */
extern Path *sort_path_parallel(PlannerInfo *root, RelOptInfo *rel, Path *partial, const Path *serial,
								List *pathkeys, const SortCostFacts *facts);

/*
 * A Sort of a partial path in each process of a parallel plan; NULL if we cannot sort it.
 * groups: expected rows of each process without duplicates, if these are dropped; otherwise 0.
 */
extern Path *sort_path_partial(PlannerInfo *root, RelOptInfo *rel, Path *partial, List *pathkeys, double groups);

/*
 * The cheaper of the serial and the parallel Sort path of input, a path of input_rel,
 * without a LIMIT.  Its cost is reduced by the part of a scan's cost that our sort saves.
 * groups: rows without duplicates, if the sort will drop them; otherwise 0.  NULL if we cannot
 * sort it.
 */
extern Path *sort_path_cheapest(PlannerInfo *root, RelOptInfo *rel, RelOptInfo *input_rel, Path *input,
								List *pathkeys, double groups);

/* ------------------------------------------------------------------------
 * Parallel plans (recost.c)
 * ------------------------------------------------------------------------
 */

/*
 * Changes a partial plan from below a Gather with this number of workers into a serial
 * plan.  False if that is impossible; then the plan is unchanged.
 */
extern bool plan_make_serial(Plan *plan, int workers);

/*
 * Re-costs the plan below a Gather or Gather Merge: are its workers faster than the
 * serial plan?  True if the plan has no GpuSort, because then PostgreSQL's choice holds.
 */
extern bool workers_pay(List *rtable, const Plan *gather, int workers);

/*
 * Re-costs a parallel sort of a partial plan: is it faster than the serial sort?
 * groups: expected rows without duplicates, if these are dropped; otherwise 0.
 * decided: sort_path.c has chosen the parallel sort; then it stays unless a GpuSort below it
 * changes the costs.
 */
extern bool sort_workers_pay(List *rtable, const Plan *partial, int workers, const KeyColumn *keys,
							 int nkeys, double groups, bool decided);

/*
 * Returns a GpuSort Window for a WindowAgg whose child returns sorted rows and whose
 * functions only number them; otherwise the WindowAgg itself.
 */
extern Plan *replace_window(WindowAgg *window);

/*
 * Puts a Sort below an Agg whose aggregates sort by themselves, or gives the Sort there more
 * keys.  Call it before the Agg's child is replaced.
 */
extern void sort_below_aggregate(Agg *agg);

/* A GpuSort Aggregate in place of an Agg above a GpuSort; otherwise the Agg itself. */
extern Plan *replace_aggregate(Agg *agg);

/* Does a Gather or Gather Merge return its input rows unchanged? */
extern bool plan_returns_input(const Plan *gather);

/* The output column of a GpuSort that has this column of its input; 0: none. */
extern AttrNumber sort_output_column(const CustomScan *sort, AttrNumber attno);

/* Can a GpuSort Join join in this way? */
static inline bool
merge_join_has_node(JoinType jointype)
{
	return jointype == JOIN_INNER || jointype == JOIN_LEFT || jointype == JOIN_SEMI || jointype == JOIN_ANTI;
}

/*
 * A GpuSort Join in place of a Merge Join above a GpuSort; otherwise the Merge Join
 * itself.  rewind: the join may be rescanned.
 */
extern Plan *replace_merge_join(MergeJoin *join, bool rewind);

/*
 * Lets the GpuSort below a Unique or Group node drop the rows that the node would drop, if
 * the node's columns are the leading ones of the sort.  Returns the sort if it takes the
 * node's place, otherwise the node.
 */
extern Plan *replace_unique(Plan *plan);

/*
 * Removes the Unique node in each worker below a Unique above a Gather Merge.  Call it before
 * the Sort below is replaced.
 */
extern void drop_partial_unique(const Unique *unique);

/* The greatest possible number of different values of the expression; HUGE_VAL: no limit known. */
extern double most_values(Node *expr);

/* ------------------------------------------------------------------------
 * Cost model of hash tables, and of the nodes that take sorted rows instead (hash_cost.c)
 *
 * Times are in microseconds, for one process, without the inputs' own cost.
 * ------------------------------------------------------------------------
 */

/* Rows that are grouped. */
typedef struct GroupFacts
{
	double		rows;
	double		groups;
	double		row_bytes;		/* average size of a stored row */

	/*
	 * Average size of a group in the hash table, with its share of the
	 * buckets.
	 */
	double		entry_bytes;
	double		memory;			/* bytes that the hash table may have */
	int			keys;			/* columns that are grouped by */
	int			varlena_keys;	/* of these, columns of variable length */
	bool		aggregates;		/* groups have transition values */
	bool		setop;			/* rows of two inputs are counted, as INTERSECT and EXCEPT do */
} GroupFacts;

/* Cost of a grouping or a hash join. */
typedef struct GroupCost
{
	double		first_us;		/* until the first group, or until the table is built */
	double		all_us;
} GroupCost;

/* Grouping by a hash table, without the transition functions. */
extern void hash_group_cost(const GroupFacts *facts, GroupCost *cost);

/*
 * Grouping by comparing neighbours of sorted rows, without the transition functions.
 * Includes the additional time of a sort for rows with equal keys.
 */
extern void sorted_group_cost(const GroupFacts *facts, GroupCost *cost);

/* The same by a GpuSort Aggregate above a GpuSort. */
extern void aggregate_node_cost(const GroupFacts *facts, GroupCost *cost);

/* Rows that are joined by equality. */
typedef struct JoinFacts
{
	double		outer_rows;
	double		inner_rows;		/* rows that this process reads */
	double		table_rows;		/* rows in the hash table, from all processes */
	double		outer_bytes;	/* average size of a stored row */
	double		inner_bytes;

	/* average size of a row in the hash table, with its share of the buckets */
	double		table_row_bytes;
	double		memory;			/* bytes that the hash table may have */
	int			keys;
	int			varlena_keys;
	bool		node;			/* merged by a GpuSort Join */
} JoinFacts;

/* A hash join, without the cost of its output rows. */
extern void hash_join_cost(const JoinFacts *facts, GroupCost *cost);

/*
 * How far the table of a hash join exceeds the CPU's inner caches: from 0 (it lies in them)
 * to 1.
 */
extern double hash_join_exceeds_cache(const JoinFacts *facts);

/*
 * Time of a merge join that reads these rows of sorted inputs, without the cost of its
 * output rows.  inner_again inner rows are read again, for outer rows with equal keys.
 */
extern double merge_join_us(const JoinFacts *facts, double outer_read, double inner_read, double inner_again);

#endif							/* GPUSORT_PLANNER_PLANNER_INTERNAL_H */
