/*
 * expression.h
 *	  Expressions that are evaluated at another place, earlier, or more often than PostgreSQL's plan would.
 */
#ifndef GPUSORT_EXPRESSION_H
#define GPUSORT_EXPRESSION_H

#include "postgres.h"

#include "nodes/execnodes.h"
#include "nodes/nodeFuncs.h"

/* Has the expression a function for which refused() is true, or a part that is not known? */
extern bool expr_has_refused(Node *expr, check_function_callback refused);

/* Has it a value that another plan node computes?  Parallel workers are not sent it. */
extern bool expr_has_exec_param(Node *expr);

/* May an evaluation raise an error, or have effects? */
extern bool expr_is_loud(Node *expr);

/* May the expression be evaluated now?  It is not loud, and its parameters have values. */
extern bool expr_is_quiet(Node *expr, ExprContext *econtext);

/*
 * expression_tree_mutator: a copy of an expression whose Vars refer to a target list, with the list's expressions in
 * the place of the Vars.  targetlist: a List of TargetEntrys.
 */
extern Node *expr_expand_vars(Node *expr, void *targetlist);

#endif							/* GPUSORT_EXPRESSION_H */
