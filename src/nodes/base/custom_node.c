/*
 * custom_node.c
 *	  What all plan nodes have in common: their plan, their state, and lines of EXPLAIN.
 */
#include "postgres.h"

#include "compat.h"
#include "nodes/base/custom_node.h"
#include "nodes/makefuncs.h"
#include "parser/parsetree.h"
#include "utils/ruleutils.h"

CustomScan *
custom_plan_make(const Plan *like, Plan *child, List *input, const NodeType *type)
{
	CustomScan *cscan = makeNode(CustomScan);
	List	   *tlist = NIL;
	ListCell   *lc;

	cscan->scan.plan = *like;
	cscan->scan.plan.type = T_CustomScan;
	cscan->scan.plan.lefttree = child;
	compat_count_disabled(cscan);
	cscan->methods = &type->scan;
	cscan->custom_scan_tlist = input;
	if (input == NIL)
		return cscan;
	foreach(lc, input)
	{
		TargetEntry *tle = flatCopyTargetEntry(lfirst_node(TargetEntry, lc));

		tle->expr = (Expr *) makeVarFromTargetEntry(INDEX_VAR, tle);
		tlist = lappend(tlist, tle);
	}
	cscan->scan.plan.targetlist = tlist;
	return cscan;
}

Node *
custom_state_make(const NodeType *type)
{
	CustomScanState *css = (CustomScanState *) palloc0(type->state_size);

	NodeSetTag(css, T_CustomScanState);
	css->methods = &type->exec;
	return (Node *) css;
}

Node *
custom_create_state(CustomScan *cscan)
{
	return custom_state_make((const NodeType *) cscan->methods);
}

TupleTableSlot *
custom_exec(CustomScanState *css)
{
	return css->ss.ps.ExecProcNodeReal(&css->ss.ps);
}

void
explain_columns(const CustomScanState *css, const char *property, const AttrNumber *columns, int n,
				List *ancestors, ExplainState *es)
{
	const Plan *plan = css->ss.ps.plan;
	List	   *context = set_deparse_context_plan(es->deparse_cxt, unconstify(Plan *, plan), ancestors);
	bool		prefix = compat_explain_tables(es) > 1 || es->verbose;
	List	   *names = NIL;

	for (int i = 0; i < n; i++)
	{
		TargetEntry *tle = get_tle_by_resno(outerPlan(plan)->targetlist, columns[i]);

		if (tle == NULL)
			elog(ERROR, "no tlist entry for column %d", columns[i]);
		names = lappend(names, deparse_expression((Node *) makeVarFromTargetEntry(OUTER_VAR, tle), context, prefix,
												  true));
	}
	if (names != NIL)
		ExplainPropertyList(property, names, es);
}

void
explain_condition(const CustomScanState *css, const char *property, List *condition, List *ancestors, ExplainState *es)
{
	List	   *context = set_deparse_context_plan(es->deparse_cxt, css->ss.ps.plan, ancestors);
	bool		prefix = compat_explain_tables(es) > 1 || es->verbose;

	if (condition != NIL)
		ExplainPropertyText(property, deparse_expression((Node *) make_ands_explicit(condition), context, prefix,
														 false), es);
}
