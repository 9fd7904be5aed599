/*
 * expression.c
 *	  Expressions that are evaluated at another place, earlier, or more often than PostgreSQL's plan would.
 *
 * Nobody may notice that, so what an expression consists of must be known.
 */
#include "postgres.h"

#include "access/transam.h"
#include "catalog/pg_proc.h"
#include "expression.h"
#include "nodes/nodeFuncs.h"
#include "parser/parsetree.h"
#include "utils/lsyscache.h"
#include "utils/typcache.h"

/* expression_tree_walker; context points to the refusal */
static bool
has_refused(Node *expr, void *context)
{
	check_function_callback refused = *(check_function_callback *) context;

	if (expr == NULL)
		return false;
	switch (nodeTag(expr))
	{
		case T_MinMaxExpr:
			if (refused(lookup_type_cache(((MinMaxExpr *) expr)->minmaxtype, TYPECACHE_CMP_PROC)->cmp_proc, NULL))
				return true;
			break;
		case T_Var:
		case T_Const:
		case T_Param:
		case T_List:
		case T_TargetEntry:
		case T_RelabelType:
		case T_FuncExpr:
		case T_OpExpr:
		case T_DistinctExpr:
		case T_NullIfExpr:
		case T_ScalarArrayOpExpr:
		case T_BoolExpr:
		case T_NullTest:
		case T_BooleanTest:
		case T_CoalesceExpr:
		case T_CaseExpr:
		case T_CaseWhen:
		case T_CaseTestExpr:
			break;
		default:
			return true;
	}
	return check_functions_in_node(expr, refused, NULL) || expression_tree_walker(expr, has_refused, context);
}

bool
expr_has_refused(Node *expr, check_function_callback refused)
{
	return has_refused(expr, &refused);
}

/* Only of built-in functions that are leakproof it is known that they raise no error. */
static bool
function_is_loud(Oid function, void *context)
{
	return function >= FirstGenbkiObjectId || !get_func_leakproof(function) ||
		func_volatile(function) == PROVOLATILE_VOLATILE;
}

bool
expr_is_loud(Node *expr)
{
	return expr_has_refused(expr, function_is_loud);
}

/* expression_tree_walker; context is the ExprContext */
static bool
has_exec_param(Node *expr, void *context)
{
	const ExprContext *econtext = context;

	if (expr == NULL)
		return false;
	if (IsA(expr, Param))
		return ((Param *) expr)->paramkind == PARAM_EXEC &&
			(econtext == NULL || econtext->ecxt_param_exec_vals[((Param *) expr)->paramid].execPlan != NULL);
	return expression_tree_walker(expr, has_exec_param, context);
}

bool
expr_has_exec_param(Node *expr)
{
	return has_exec_param(expr, NULL);
}

bool
expr_is_quiet(Node *expr, ExprContext *econtext)
{
	/* not the value of a subquery that has not run yet */
	return !expr_is_loud(expr) && !has_exec_param(expr, econtext);
}

Node *
expr_expand_vars(Node *expr, void *targetlist)
{
	if (expr == NULL)
		return NULL;
	if (IsA(expr, Var))
		return copyObject((Node *) get_tle_by_resno(targetlist, ((const Var *) expr)->varattno)->expr);
	return expression_tree_mutator(expr, expr_expand_vars, targetlist);
}
