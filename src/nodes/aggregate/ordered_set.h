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
 * attno of rows of desc.
 */
extern OrderedSet *ordered_set_create(AggState *agg, AttrNumber attno, TupleDesc desc);
extern void ordered_set_end(OrderedSet *set);

/* Is an aggregate mode()?  The column has the first of the values that are equal to the last one. */
extern bool ordered_set_has_mode(const OrderedSet *set);
extern void ordered_set_compared(OrderedSet *set, const GroupColumn *column);

/*
 * Does another aggregate need values by their position?  And may its fractions be evaluated
 * before the rows are read?
 */
extern bool ordered_set_has_places(const OrderedSet *set, ExprContext *econtext);

/*
 * Begins a group.  keep: all values are put, and kept until the places are known.  stable:
 * a value passed by reference stays where it is until the group's results are made.
 */
extern void ordered_set_begin_group(OrderedSet *set, bool keep, bool stable);

/* Takes the next value, which is not NULL.  changed: it differs from the one before. */
extern void ordered_set_put(OrderedSet *set, Datum value, bool changed);

/* The group's values that were put, or its count if that was known before. */
extern int64 ordered_set_count(const OrderedSet *set);

/*
 * The group has count values that are not NULL: evaluates the fractions, and determines the
 * places of the values that they need, in ascending order.
 */
extern void ordered_set_want(OrderedSet *set, int64 count, ExprContext *econtext);
extern int	ordered_set_wanted(const OrderedSet *set);
extern int64 ordered_set_place(const OrderedSet *set, int i);

/* The value at wanted place i. */
extern void ordered_set_give(OrderedSet *set, int i, Datum value);

/* Takes all wanted values from the kept values. */
extern void ordered_set_read(OrderedSet *set);

/* The result of aggregate aggno of the AggState. */
extern Datum ordered_set_result(OrderedSet *set, int aggno, ExprContext *econtext, bool *isnull);

#endif							/* GPUSORT_NODES_AGGREGATE_ORDERED_SET_H */
