/*
 * row_program.c
 *	  Computes the target list of a scan without the executor's interpreter.
 *
 * For each row the interpreter stores the tuple in a slot, deforms all columns up to the
 * last one used, and executes a step for each column, constant and function.  Where the
 * target list consists of columns, constants and function calls, a program reads the
 * columns from the tuple and calls the functions.  It calls the same
 * functions in the same order, so that volatile functions and errors stay the same.
 *
 * A column, a constant or a result is stored where it is needed: in the row's values, or in
 * the arguments of a call.  Constants are there from the beginning.
 *
 * Memory policy: a program lies in the memory context in which it is created.  Functions
 * allocate in the current one.
 */
#include "postgres.h"

#include "compat.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "pgstat.h"
#include "scan/scan_internal.h"
#include "store/store.h"

/* Where a value is stored. */
typedef struct ProgramTarget
{
	Datum	   *value;
	bool	   *isnull;
} ProgramTarget;

/* Calls a function, whose arguments are stored. */
typedef struct ProgramCall
{
	FunctionCallInfo fcinfo;
	PGFunction	function;
	bool		strict;
	int			nargs;
	ProgramTarget to;
} ProgramCall;

struct RowProgram
{
	Index		relid;			/* the scan's relation in Vars */
	TupleDesc	desc;
	ColumnReader *reader;		/* stores the columns */
	int			ncolumns;
	ReaderColumn *columns;
	int			ncalls;
	ProgramCall *calls;			/* arguments of a call come before it */
	Datum	   *values;			/* of the row */
	bool	   *isnull;
};

/* ------------------------------------------------------------------------
 * Creating a program
 * ------------------------------------------------------------------------
 */

static bool compile(RowProgram *program, Expr *expr, ProgramTarget to);

static bool
compile_call(RowProgram *program, Expr *expr, Oid function, Oid collation, List *args, ProgramTarget to)
{
	ProgramCall call = {.nargs = list_length(args),.to = to};
	FmgrInfo   *flinfo = palloc0(sizeof(FmgrInfo));
	ListCell   *lc;

	fmgr_info(function, flinfo);
	fmgr_info_set_expr((Node *) expr, flinfo);
	/* the interpreter counts such calls for the statistics */
	if (flinfo->fn_retset || pgstat_track_functions > flinfo->fn_stats)
		return false;
	call.function = flinfo->fn_addr;
	call.strict = flinfo->fn_strict;
	call.fcinfo = palloc0(SizeForFunctionCallInfo(call.nargs));
	InitFunctionCallInfoData(*call.fcinfo, flinfo, call.nargs, collation, NULL, NULL);
	foreach(lc, args)
	{
		NullableDatum *arg = &call.fcinfo->args[foreach_current_index(lc)];

		if (!compile(program, lfirst(lc), (ProgramTarget) {&arg->value, &arg->isnull}))
			return false;
	}
	program->calls[program->ncalls++] = call;
	return true;
}

static bool
compile_var(RowProgram *program, const Var *var, ProgramTarget to)
{
	ReaderColumn *column = &program->columns[program->ncolumns++];

	if (var->varno != program->relid || var->varattno <= 0 || var->varattno > program->desc->natts)
		return false;
	column->att = var->varattno - 1;
	column->value = to.value;
	column->isnull = to.isnull;
	return true;
}

/* Compiles an expression whose value is stored in a target; false if it is of another kind. */
static bool
compile(RowProgram *program, Expr *expr, ProgramTarget to)
{
	check_stack_depth();
	/* a binary-coercible type or another collation: the same bytes */
	while (IsA(expr, RelabelType))
		expr = ((RelabelType *) expr)->arg;
	switch (nodeTag(expr))
	{
		case T_Var:
			return compile_var(program, (const Var *) expr, to);
		case T_Const:
			*to.value = ((const Const *) expr)->constvalue;
			*to.isnull = ((const Const *) expr)->constisnull;
			return true;
		case T_FuncExpr:
			{
				const FuncExpr *func = (const FuncExpr *) expr;

				return compile_call(program, expr, func->funcid, func->inputcollid, func->args, to);
			}
		case T_OpExpr:
			{
				const OpExpr *op = (const OpExpr *) expr;

				return OidIsValid(op->opfuncid) &&
					compile_call(program, expr, op->opfuncid, op->inputcollid, op->args, to);
			}
		default:
			return false;
	}
}

/* expression_tree_walker: counts nodes. */
static bool
count_nodes(Node *node, void *context)
{
	if (node == NULL)
		return false;
	++*(int *) context;
	return expression_tree_walker(node, count_nodes, context);
}

RowProgram *
row_program_create(const Scan *plan, TupleDesc desc)
{
	RowProgram *program = palloc0(sizeof(RowProgram));
	List	   *targets = plan->plan.targetlist;
	int			natts = list_length(targets);
	int			nodes = 1;
	ListCell   *lc;

	(void) count_nodes((Node *) targets, &nodes);
	program->relid = plan->scanrelid;
	program->desc = desc;
	program->columns = palloc(nodes * sizeof(ReaderColumn));
	program->calls = palloc(nodes * sizeof(ProgramCall));
	program->values = palloc0(Max(1, natts) * sizeof(Datum));
	program->isnull = palloc0(Max(1, natts) * sizeof(bool));
	foreach(lc, targets)
	{
		int			att = foreach_current_index(lc);

		if (!compile(program, lfirst_node(TargetEntry, lc)->expr,
					 (ProgramTarget) {&program->values[att], &program->isnull[att]}))
			return NULL;
	}
	program->reader = column_reader_create(desc, program->columns, program->ncolumns);
	return program->reader != NULL ? program : NULL;
}

/* ------------------------------------------------------------------------
 * Running it
 * ------------------------------------------------------------------------
 */

static inline bool
has_null_argument(const ProgramCall *call)
{
	for (int i = 0; i < call->nargs; i++)
	{
		if (unlikely(call->fcinfo->args[i].isnull))
			return true;
	}
	return false;
}

void
row_program_run(RowProgram *program, const HeapTupleHeaderData *tuple, Size len,
				const Datum **values, const bool **isnull)
{
	column_reader_read(program->reader, tuple, len);
	for (int i = 0; i < program->ncalls; i++)
	{
		const ProgramCall *call = &program->calls[i];

		if (call->strict && has_null_argument(call))
		{
			*call->to.value = (Datum) 0;
			*call->to.isnull = true;
			continue;
		}
		call->fcinfo->isnull = false;
		*call->to.value = call->function(call->fcinfo);
		*call->to.isnull = call->fcinfo->isnull;
	}
	*values = program->values;
	*isnull = program->isnull;
}
