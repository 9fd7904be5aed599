/*
 * ordered_set.h
 *	  Ordered-set aggregates of values in order.
 */
#ifndef GPUSORT_NODES_AGGREGATE_ORDERED_SET_H
#define GPUSORT_NODES_AGGREGATE_ORDERED_SET_H

#include "postgres.h"

#include "nodes/base/group_column.h"
#include "nodes/execnodes.h"

typedef struct OrderedSet OrderedSet;

/*
 * Prepares the ordered-set aggregates of an Agg, which have the same sort column, column
 * attno of rows of desc.  first_equal: this column with the first of the values that are equal
 * to the last one; NULL: no aggregate is mode().
 */
extern OrderedSet *ordered_set_create(AggState *agg, AttrNumber attno, TupleDesc desc,
									  const GroupColumn *first_equal);
extern void ordered_set_end(OrderedSet *set);

/*
 * Does another aggregate need values by their position?  And may its fractions be evaluated
 * before the rows are read?
 */
extern bool ordered_set_needs_positions(const OrderedSet *set, ExprContext *econtext);

/*
 * Begins a group.  keep: all values are added, and kept until the positions are known.  stable:
 * a value passed by reference stays where it is until the group's results are made.
 */
extern void ordered_set_begin_group(OrderedSet *set, bool keep, bool stable);

/* Takes the next value, which is not NULL.  changed: it differs from the one before. */
extern void ordered_set_add(OrderedSet *set, Datum value, bool changed);

/*
 * Evaluates the fractions, and finds the positions of the values that they need in a group.  count:
 * number of the group's values that are not NULL; the caller adds these values next.
 */
extern void ordered_set_find_wanted(OrderedSet *set, int64 count, ExprContext *econtext);

/* The number of values before the next one that is needed; -1: no more are. */
extern int64 ordered_set_skips(const OrderedSet *set);

/* Some of these are not added. */
extern void ordered_set_skipped(OrderedSet *set, int64 values);

/* All values were kept: evaluates the fractions, and takes the values that they need. */
extern void ordered_set_take_kept(OrderedSet *set, ExprContext *econtext);

/* The result of aggregate aggno of the AggState. */
extern Datum ordered_set_result(OrderedSet *set, int aggno, ExprContext *econtext, bool *isnull);

#endif							/* GPUSORT_NODES_AGGREGATE_ORDERED_SET_H */
