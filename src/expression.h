/*
 * expression.h
 *	  Expressions that are evaluated earlier, or more often, than PostgreSQL's plan would.
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

#endif							/* GPUSORT_EXPRESSION_H */
