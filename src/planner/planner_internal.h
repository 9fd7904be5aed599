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
#include "cost/cost.h"
#include "key/key.h"
#include "nodes/extensible.h"
#include "nodes/makefuncs.h"
#include "nodes/pathnodes.h"
#include "nodes/plannodes.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "parallel/parallel.h"
#include "sort/sort.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"

/* Microseconds of one cpu_operator_cost. */
#define OPERATOR_US		0.00625

/* A cpu_operator_cost of 0 gives no scale: then costs are converted with this one. */
#define OPERATOR_COST_LEAST	1e-6

/* A parallel plan must take at most this share of the serial plan's time. */
#define WORKERS_MOST		0.9

/*
 * Time to start and end workers, including their waits for each other, in units of
 * parallel_setup_cost: a fixed part, and a part for each worker.
 */
#define SETUP_ANY			4
#define SETUP_WORKER		1

static inline double
us_of_cost(Cost cost)
{
	return cost / Max(cpu_operator_cost, OPERATOR_COST_LEAST) * OPERATOR_US;
}

/* Predicted time to start and end workers. */
static inline double
setup_us(int workers)
{
	return us_of_cost(parallel_setup_cost * (SETUP_ANY + workers * SETUP_WORKER));
}

/* The number by which PostgreSQL divides a partial plan's rows. */
static inline double
shares_of(int workers)
{
	return workers + (parallel_leader_participation ? Max(0, 1.0 - 0.3 * workers) : 0);
}

/*
 * A partial path has the cost and the rows of one share.  Times this factor they are those of each CPU: of all shares,
 * divided by the participants that run at a time.  bound: exchange_participants()'s.
 */
static inline double
shares_on_cpus(int workers, double bound)
{
	return shares_of(workers) / sort_abreast(exchange_participants(workers, bound));
}

/* Average size of a stored row of this width. */
static inline double
stored_row_bytes(int width)
{
	return MAXALIGN(SizeofMinimalTupleHeader) + MAXALIGN(width);
}

/* A process's temporary files may be this many times larger than predicted: its share may be, and the rows. */
#define TEMP_FILE_MARGIN	4

/* May a process be expected to write this much to temporary files? */
static inline bool
temp_files_allowed(double bytes)
{
	return temp_file_limit < 0 || bytes * TEMP_FILE_MARGIN < temp_file_limit * 1024.0;
}

static inline bool
type_is_varlena(Oid type)
{
	return get_typlen(type) < 0;
}

/* Does a path have this target?  A path that takes another's place does. */
static inline bool
path_has_target(const Path *path, const PathTarget *target)
{
	return equal(path->pathtarget->exprs, target->exprs);
}

/* ------------------------------------------------------------------------
 * Costs of our paths
 *
 * A path of ours competes with a path of PostgreSQL that does the same work, its peer.  It
 * costs what the peer costs above their input, times its predicted time divided by the
 * peer's.  So it costs more than its input, and less than the peer if it is faster.
 * docs/design/cost-model.md has the rule.
 * ------------------------------------------------------------------------
 */

typedef struct Peer
{
	Cost		own;			/* its cost without that of its input */
	double		us;				/* its predicted time without that of its input */
	bool		sort;			/* it is PostgreSQL's Sort, and what stands on it */
} Peer;

/* Cost of a part of our path that takes this time; a peer that is free makes ours free. */
static inline Cost
peer_cost(const Peer *peer, double us)
{
	return peer->us > 0 ? peer->own * us / peer->us : 0;
}

/* A peer whose times have the costs that OPERATOR_US gives them. */
static inline Peer
time_peer(void)
{
	return (Peer) {.own = 1,.us = us_of_cost(1)};
}

/*
 * The factor by which the prediction for our path must be better than that for its peer.
 * relids: the relations whose rows are its input; may be NULL.
 */
extern double offer_margin(PlannerInfo *root, Relids relids);

/* ------------------------------------------------------------------------
 * Sort paths (sort_path.c)
 * ------------------------------------------------------------------------
 */

/* The path below a projection, or the path itself. */
extern const Path *path_below_projection(const Path *path);

/* Adds our paths for an ORDER BY. */
extern void offer_sorts(PlannerInfo *root, RelOptInfo *input_rel, RelOptInfo *rel);

/* Are a LIMIT's count, and its offset if there is one, constants? */
static inline bool
limit_is_constant(const Node *count, const Node *offset)
{
	return IsA(count, Const) && (offset == NULL || IsA(offset, Const));
}

/*
 * Fills the facts of a sort of the path's rows, without a bound.  False if we cannot
 * sort by one of the pathkeys, or if equal rows would not all be neighbours: a hash table
 * finds other groups.  any_order: rows with equal keys may come in any order, so the sort may carry
 * columns.
 */
extern bool sort_path_facts(PlannerInfo *root, const Path *input, List *pathkeys, bool any_order,
							SortCostFacts *facts);

/*
 * Adds the columns that are no sort keys to keys[n], if the sort then needs no rows; returns the new n.  columns:
 * of the sort's rows, which KeyColumn.attno counts; keys[] has room for all.
 */
extern int	carry_columns(List *columns, KeyColumn *keys, int n);

/* The column of the path that a Sort of it has as this key; NULL: the key is computed for the sort. */
extern const Expr *sorted_column(const PathKey *pathkey, const Path *path);

/* A sort of ours that a path may stand on.  The caller sets the first five fields. */
typedef struct SortOffer
{
	List	   *pathkeys;
	double		groups;			/* rows without duplicates, if the sort will drop
								 * them; otherwise 0 */
	double		bound;			/* rows that a LIMIT wants; 0: all */
	int			participants;	/* processes that make such a sort each, on their CPU;
								 * 0, 1: one, which may use a GPU */
	bool		any_order;		/* rows with equal keys may come in any order */

	Path	   *input;			/* partial if the sort is parallel */
	bool		parallel;
	bool		keys_only;		/* SortCostFacts.keys_only */
	double		input_us;		/* predicted time to read the input, with starting workers */
	double		own_us;			/* predicted time of the sort until the wanted rows are returned */
	double		serial_us;		/* the same, in one process */
	SortCost	time;			/* predicted time until all rows are returned */
} SortOffer;

/*
 * Finds our fastest sort of the input: in one process, or in parallel if input_rel, which may
 * be NULL, has partial paths and workers save a tenth.  False if we cannot sort it.
 */
extern bool find_sort(PlannerInfo *root, RelOptInfo *rel, RelOptInfo *input_rel, Path *input, SortOffer *offer);

/* The same for the parallel sort of a partial path; false, too, if its participants would not exchange their rows. */
extern bool find_sort_in_workers(PlannerInfo *root, Path *partial, SortOffer *offer);

/* Takes SortCost.cached_us off the times of a sort, to compare it with a hash table. */
extern void count_cached_runs(SortOffer *offer);

/*
 * May the sort write its runs?  A hash table, which it may replace, may need no file, and should not become an error.
 */
extern bool sort_files_allowed(const SortOffer *offer);

/* The path of the sort: a Sort, or a Gather Merge of Sorts. */
extern Path *sort_offer_path(PlannerInfo *root, RelOptInfo *rel, const SortOffer *offer, const Peer *peer);

/*
 * If the path reads this table in the order of an index, or sorts such rows further by an Incremental Sort: the cost
 * that our sort of the table must not reach.  That is the cost of the index scan and half of the Incremental Sort's,
 * because GpuSort Incremental, which takes its place, is faster.  0: another path, or a query whose first rows alone
 * may be read while PostgreSQL compares its paths by the costs of all rows.
 */
extern Cost index_order_cost(const PlannerInfo *root, const Path *path, const RelOptInfo *table);

/* Does the sort with its input cost less?  name: what stands above, for messages. */
extern bool sort_costs_less(const SortOffer *offer, Cost index_cost, const char *name);

/*
 * Will the participants of a Gather Merge hand over their rows in sorted blocks?  input: the cost
 * of the partial plan below its sorts; rows: the Gather Merge's number of rows; bound: rows that
 * a LIMIT wants; 0: all; infinite: not known.
 */
extern bool exchange_pays(Cost input, double rows, int workers, double bound);

/*
 * May a Gather of ours be the input of a node of this relation, above input_rel, whose cheapest
 * path is input?
 */
extern bool gather_is_possible(PlannerInfo *root, const RelOptInfo *rel, const RelOptInfo *input_rel,
							   const Path *input);

/* ------------------------------------------------------------------------
 * Paths above our sorts
 * ------------------------------------------------------------------------
 */

/* Adds our paths for DISTINCT, GROUP BY, UNION or windows (grouping.c). */
extern void offer_grouping(PlannerInfo *root, UpperRelationKind kind, RelOptInfo *input_rel, RelOptInfo *rel,
						   void *extra);

/* Adds our merge join of two relations (joins.c). */
extern void offer_join(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *outerrel, RelOptInfo *innerrel,
					   JoinType jointype, JoinPathExtraData *extra);

/* ------------------------------------------------------------------------
 * Partial groups in the participants of a parallel plan (partial_groups.c)
 * ------------------------------------------------------------------------
 */

typedef struct PartialGroups
{
	RelOptInfo *rel;			/* PostgreSQL's relation of partial groups */
	Path	   *input;			/* a partial path */
	int			participants;
	SortCostFacts share;		/* the sort of a participant's rows */
	double		groups;			/* expected in each participant */
	double		sent;			/* of all participants */

	/* predicted times */
	double		input_us;		/* to read the input, with starting workers */
	double		sort_us;		/* each participant's sort */
	double		cached_us;		/* SortCost.cached_us of it */
	bool		needs_disk;		/* SortCost.needs_disk of it */
	double		group_us;		/* each participant's groups */
	SortCost	merge;			/* of the partial groups */
	double		final_us;		/* to combine them */
	bool		divided;		/* they are combined in all processes, not in the leader */
	double		divided_us;		/* predicted time of that; infinite: not possible */
} PartialGroups;

/* Predicted time to group this number of sorted rows, with the transition functions. */
extern double grouping_us(GroupFacts facts, double rows, double groups, const AggClauseCosts *costs);

/* Predicted time of a hash table in each participant.  facts: of all rows and groups; costs: of the aggregates. */
extern double hash_in_workers_us(GroupFacts facts, const Path *input, const AggClauseCosts *costs);

/*
 * Predicts the times of partial groups of a partial path's rows.  groups: the grouping of all
 * rows; any_order: SortOffer's.  False if they are not possible.
 */
extern bool find_partial_groups(PlannerInfo *root, RelOptInfo *rel, const GroupPathExtraData *extra,
								const GroupFacts *groups, Path *input, bool any_order, PartialGroups *offer);

/* Predicted time to merge and combine the partial groups in the leader. */
static inline double
gathered_us(const PartialGroups *offer)
{
	return offer->merge.sort_us + offer->merge.rows_us + offer->final_us;
}

/* Predicted time to combine the partial groups. */
static inline double
combining_us(const PartialGroups *offer)
{
	return offer->divided ? offer->divided_us : gathered_us(offer);
}

/* Number of the query's transition values of type internal, which workers serialize. */
extern int	internal_states(const PlannerInfo *root);

/* May a participant with more rows than the mean write runs? */
extern bool partial_sorts_may_spill(const PartialGroups *offer);

/* The path of all steps.  peer: of the participants' sorts and groups; combines: of what follows. */
extern Path *partial_groups_path(PlannerInfo *root, RelOptInfo *rel, const GroupPathExtraData *extra,
								 const PartialGroups *offer, List *clause, double groups, const Peer *peer,
								 const Peer *combines);

/* ------------------------------------------------------------------------
 * Replacements in finished plans
 * ------------------------------------------------------------------------
 */

/* Replaces nodes of a finished plan.  scroll: it may be read backwards (replace.c). */
extern void replace_plans(PlannedStmt *stmt, bool scroll);

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
extern double most_values(const Node *expr);

#endif							/* GPUSORT_PLANNER_PLANNER_INTERNAL_H */
