/*
 * hash_cost.h
 *	  Cost model of hash tables, and of the nodes that take sorted rows instead.
 *
 * Times are in microseconds, for one process, without the inputs' own cost.
 */
#ifndef GPUSORT_PLANNER_HASH_COST_H
#define GPUSORT_PLANNER_HASH_COST_H

#include "postgres.h"

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
} JoinFacts;

/* A hash join, without the cost of its output rows. */
extern void hash_join_cost(const JoinFacts *facts, GroupCost *cost);

/*
 * How far the table of a hash join exceeds the CPU's inner caches: from 0 (it lies in them)
 * to 1.
 */
extern double hash_join_exceeds_cache(const JoinFacts *facts);

/* Time of a merge join that reads these rows of sorted inputs, without the cost of its output rows. */
extern double merge_join_us(const JoinFacts *facts, double outer_read, double inner_read);

#endif							/* GPUSORT_PLANNER_HASH_COST_H */
