/*
 * grouping.h
 *	  What the files of groupings share: DISTINCT, GROUP BY, UNION and windows above our sorts.
 */
#ifndef GPUSORT_PLANNER_GROUPING_H
#define GPUSORT_PLANNER_GROUPING_H

#include "postgres.h"

#include "planner/planner_internal.h"

/* A grouping of a query. */
typedef struct Grouping
{
	PlannerInfo *root;
	RelOptInfo *input_rel;		/* NULL for a set operation */
	RelOptInfo *rel;
	const char *name;			/* for messages */
	Path	   *input;			/* whose rows are grouped */
	const Path *path;			/* PostgreSQL's cheapest path, the peer */
	double		groups;			/* the least number that is expected */
	double		most_groups;	/* PostgreSQL's estimate */
	double		possible_groups;	/* the same of independent columns, at most the possible number */
	List	   *tlist;			/* that the grouping's clause refers to */
	int			transitions;	/* transition values of a group */
	AggClauseCosts costs;		/* of the aggregates */
	double		margin;
	bool		quiet;			/* GroupFacts.quiet */
} Grouping;

/* ------------------------------------------------------------------------
 * Numbers of groups, the peer, and the comparison with it (grouping_peer.c)
 * ------------------------------------------------------------------------
 */

/*
 * The number of groups that the hash cost model assumes, at most PostgreSQL's estimate.
 *
 * For v % n PostgreSQL estimates as many values as v has.  For several columns it
 * multiplies the numbers of values, as if the columns were independent.  If they depend
 * on each other, there are far fewer groups, for which a hash table is faster.  So this
 * function takes the number of values of the column with most values, a lower bound.
 * *possible: PostgreSQL's estimate, or the number for independent columns where PostgreSQL limits its estimate to a
 * tenth of a table's rows; at most the possible number; may be NULL.
 */
extern double groups_at_least(PlannerInfo *root, List *clause, List *tlist, double rows, double estimate,
								double *possible);

/* Is the target's column of this number one of the clause's columns? */
extern bool is_group_column(List *clause, const PathTarget *target, int column);

/* Sets the facts about the key columns: those of a clause that refers to the target. */
extern void count_keys(List *clause, const PathTarget *target, GroupFacts *facts);

/* Fills the facts of a grouping of the input's rows, except those about keys. */
extern void group_facts(const Grouping *grouping, GroupFacts *facts);

/* The path that a sort, or a node above a sort or hash table, reads; NULL for other nodes. */
extern const Path *path_input(const Path *path);

/* Predicted time of the transition functions. */
extern double transition_us(const Grouping *grouping);

/*
 * Predicted time to group the input's rows by each of the rollups: by a hash table; by
 * comparing neighbours, where the Agg node sorts the rows for all but the first rollup
 * itself, with PostgreSQL's sort; or all rows as one group.
 */
extern double sets_us(const Grouping *grouping, List *rollups);

/*
 * Time that our sort of the path's rows, which takes sort_us, saves by reading a table by page; negative: that it needs
 * to take them from another node.  Rows of a partial path are those of all participants, on the CPUs that they have.
 */
extern double reading_saves_us(const Path *path, double sort_us);

/* Finds our sort below the grouping.  replaces: it would take the place of a Sort of PostgreSQL's plan. */
extern bool find_sort_below(const Grouping *grouping, bool replaces, SortOffer *sort);

/* Finds our sort below the grouping, and its peer. */
extern bool find_sort_and_peer(const Grouping *grouping, SortOffer *sort, Peer *peer);

/*
 * Is a path of ours faster than the peer, by the margin?  own_us: its time above its input.  If
 * it is, the margin is in the peer's cost, too.
 */
extern bool is_faster(const Grouping *grouping, double our_input_us, double own_us, double their_input_us, Peer *peer);

/*
 * Is our sort below the grouping faster than the peer?  group_us: predicted time of the
 * grouping above our sort.
 */
extern bool sort_is_faster(const Grouping *grouping, const SortOffer *sort, double group_us, Peer *peer);

/*
 * If the possible number of groups is greater than the least one: is our sort faster by the margin in the geometric
 * mean of both?  most_group_us: group_us for the possible number.
 */
extern bool sort_is_faster_in_mean(const Grouping *grouping, const SortOffer *sort, double group_us,
								   double most_group_us, const Peer *peer);

/* Finds our sort below the grouping, if it is faster than the peer. */
extern bool find_faster_sort(const Grouping *grouping, SortOffer *sort, double group_us, Peer *peer);

/* Adds a path whose costs are set. */
extern void add_grouping_path(const Grouping *grouping, Path *path);

/* Adds a path that returns rows while it reads its input, with the cost of its input and of this time. */
extern void add_above(const Grouping *grouping, Path *path, const Path *input, const Peer *peer, double group_us);

/* Adds groups above our sort.  group_us: predicted time of the grouping. */
extern void add_sorted_groups(const Grouping *grouping, List *having, const SortOffer *sort, double group_us,
							  const Peer *peer);

/* Adds a Unique of these leading columns; replace_unique() lets our sort take its place. */
extern void add_unique_path(const Grouping *grouping, const SortOffer *sort, int columns, const Peer *peer);

/* ------------------------------------------------------------------------
 * In workers (grouping_workers.c)
 * ------------------------------------------------------------------------
 */

/* DISTINCT: our parallel sort, in place of PostgreSQL's hash table in each worker. */
extern void offer_unique_in_workers(const Grouping *grouping, List *pathkeys, int columns);

/*
 * Partial groups in workers, if they save a tenth of the time of the path that groups all rows
 * in the leader, above our sort.  group_us: the time of the grouping in that path.  True if a
 * path was added.
 */
extern bool offer_partial_groups(const Grouping *grouping, const GroupPathExtraData *extra, GroupFacts facts,
								 double group_us, const SortOffer *sort, Peer peer);

/*
 * In place of PostgreSQL's partial groups in each worker: our sort, whose rows the leader groups; in place of hash
 * tables also partial groups of sorted rows.
 */
extern void offer_sorts_for_groups_in_workers(const Grouping *grouping, const GroupPathExtraData *extra,
											  bool any_order);

/* ------------------------------------------------------------------------
 * GROUPING SETS (grouping_sets.c)
 * ------------------------------------------------------------------------
 */

/*
 * GROUPING SETS, ROLLUP and CUBE: the sets that are leading columns of one order, above our
 * sort.  The other sets are hashed, or sorted by the Agg node, as in PostgreSQL's path.
 */
extern void offer_sets(Grouping *grouping, const GroupPathExtraData *extra);

#endif							/* GPUSORT_PLANNER_GROUPING_H */
