/*
 * transition.h
 *	  Transition values of aggregates.
 *
 * A node that contains an AggState computes its aggregates by these functions.  For each group it
 * begins the transitions, advances them by each row (advance.h), and asks for final values: at the
 * end of the group, or after any row if the final functions only read.
 */
#ifndef GPUSORT_NODES_TRANSITION_TRANSITION_H
#define GPUSORT_NODES_TRANSITION_TRANSITION_H

#include "postgres.h"

#include "executor/nodeAgg.h"

typedef enum TransitionKind
{
	TRANSITION_COUNT_ROWS,
	TRANSITION_COUNT_VALUES,
	TRANSITION_ADD_INT4,		/* int8 sum of int4 */
	TRANSITION_ADD_INT8,		/* int8 sum of partial numbers of rows, or of partial sums of int4 */
	TRANSITION_AVG_INT4,		/* number and sum, in an array of two int8 */
	TRANSITION_ADD_FLOAT8,
	TRANSITION_MOST_INT,		/* greatest, least of integers, dates and times */
	TRANSITION_LEAST_INT,
	TRANSITION_CALL,			/* calls the transition function */

	/* the node takes the values itself */
	TRANSITION_ORDERED_SET,
	TRANSITION_NONE				/* another one passes on the same values */
} TransitionKind;

/* A transition value and how a row changes it. */
typedef struct Transition
{
	TransitionKind kind;
	AggStatePerTrans trans;
	AttrNumber	att;			/* column of the only argument; 0: see args */
	int			bytes;			/* of the transition value */
	int			nargs;
	ExprState **args;
	ExprState  *filter;			/* NULL: none */
	int			distinct;		/* order columns that form the value; 0: not DISTINCT */

	/* the current group's state */
	bool		taken;			/* the row's DISTINCT value was taken before */
	bool		isnull;			/* of value */
	bool		unset;			/* value is not set yet */
	int64		count;
	int64		sum;
	float8		fsum;
	Datum		value;
} Transition;

/*
 * Prepares a transition of the AggState, whose expressions read the outer tuple of agg->tmpcontext.  False: there is
 * no such expression or function, and the tmpcontext is not used.
 */
extern bool transition_init(AggState *agg, Transition *t, AggStatePerTrans trans);

/* Begins a new group, whose memory the caller has reset. */
extern void transition_begin(const AggState *agg, Transition *t);

/* Advances a transition of kind TRANSITION_CALL, as advance_transition_function() of nodeAgg.c does. */
extern void transition_call(AggState *agg, Transition *t, const TupleTableSlot *row);

/*
 * The value of aggregate aggno, of all rows that were taken; of a partial aggregate its transition value, serialized if
 * its type is internal.  Memory comes from the current context.
 */
extern Datum transition_result(AggState *agg, int aggno, Transition *t, bool *isnull);

#endif							/* GPUSORT_NODES_TRANSITION_TRANSITION_H */
