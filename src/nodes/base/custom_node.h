/*
 * custom_node.h
 *	  What all plan nodes have in common: their plan, their state, and lines of EXPLAIN.
 */
#ifndef GPUSORT_NODES_BASE_CUSTOM_NODE_H
#define GPUSORT_NODES_BASE_CUSTOM_NODE_H

#include "postgres.h"

#include "commands/explain.h"
#include "nodes/execnodes.h"
#include "nodes/extensible.h"

/* A plan node of ours. */
typedef struct NodeType
{
	CustomScanMethods scan;		/* is registered, and identifies the node in a plan */
	CustomExecMethods exec;
	Size		state_size;		/* of a struct that begins with a CustomScanState */
} NodeType;

static inline bool
custom_plan_is(const Plan *plan, const NodeType *type)
{
	return IsA(plan, CustomScan) && ((const CustomScan *) plan)->methods == &type->scan;
}

/*
 * A CustomScan above this child, with the target list, qual, costs, rows, parameters and inner child
 * of the node that it replaces.  input: NIL, or it returns its input rows, whose entries refer to the
 * child's output.
 */
extern CustomScan *custom_plan_make(const Plan *like, Plan *child, List *input, const NodeType *type);

extern Node *custom_state_make(const NodeType *type);

/* CreateCustomScanState of nodes that have one kind of state. */
extern Node *custom_create_state(CustomScan *cscan);

/* ExecCustomScan of all nodes: calls the function that the executor calls without it. */
extern TupleTableSlot *custom_exec(CustomScanState *css);

/* Shows n columns of the child as a property, unless there are none. */
extern void explain_columns(const CustomScanState *css, const char *property, const AttrNumber *columns, int n,
							List *ancestors, ExplainState *es);

/* Shows a list of ANDs as a property, unless it is empty. */
extern void explain_condition(const CustomScanState *css, const char *property, List *condition, List *ancestors,
							  ExplainState *es);

#endif							/* GPUSORT_NODES_BASE_CUSTOM_NODE_H */
