/*
 * transition.c
 *	  Transition values of aggregates, of the AggState that a node contains.
 *
 * ExecInitAgg() has prepared the transition and final functions, their initial values and memory
 * contexts.  A function that asks for its aggregate's context gets the AggState.
 *
 * Memory policy: transition values lie in the AggState's current aggregate context, which the node
 * resets with each group.
 */
#include "postgres.h"

#include "catalog/pg_aggregate.h"
#include "compat.h"
#include "executor/executor.h"
#include "nodes/transition/transition.h"
#include "utils/array.h"
#include "utils/datum.h"
#include "utils/expandeddatum.h"
#include "utils/fmgroids.h"
#include "utils/memutils.h"

/*
 * PostgreSQL's aggregates whose transitions are done in place.  Their initial values are known;
 * an aggregate of a user with the same transition function may have another one.
 */
static const struct
{
	Oid			aggregate;
	TransitionKind kind;
	TransitionKind combines;	/* the kind in which partial values are combined */
}			in_place[] =
{
	{F_COUNT_, TRANSITION_COUNT_ROWS, TRANSITION_ADD_INT8},
	{F_COUNT_ANY, TRANSITION_COUNT_VALUES, TRANSITION_ADD_INT8},
	{F_SUM_INT4, TRANSITION_ADD_INT4, TRANSITION_ADD_INT8},
	{F_AVG_INT4, TRANSITION_AVG_INT4, TRANSITION_CALL},
	{F_SUM_FLOAT8, TRANSITION_ADD_FLOAT8, TRANSITION_ADD_FLOAT8},
	{F_MAX_INT2, TRANSITION_MOST_INT, TRANSITION_MOST_INT},
	{F_MAX_INT4, TRANSITION_MOST_INT, TRANSITION_MOST_INT},
	{F_MAX_INT8, TRANSITION_MOST_INT, TRANSITION_MOST_INT},
	{F_MAX_DATE, TRANSITION_MOST_INT, TRANSITION_MOST_INT},
	{F_MAX_TIMESTAMP, TRANSITION_MOST_INT, TRANSITION_MOST_INT},
	{F_MAX_TIMESTAMPTZ, TRANSITION_MOST_INT, TRANSITION_MOST_INT},
	{F_MIN_INT2, TRANSITION_LEAST_INT, TRANSITION_LEAST_INT},
	{F_MIN_INT4, TRANSITION_LEAST_INT, TRANSITION_LEAST_INT},
	{F_MIN_INT8, TRANSITION_LEAST_INT, TRANSITION_LEAST_INT},
	{F_MIN_DATE, TRANSITION_LEAST_INT, TRANSITION_LEAST_INT},
	{F_MIN_TIMESTAMP, TRANSITION_LEAST_INT, TRANSITION_LEAST_INT},
	{F_MIN_TIMESTAMPTZ, TRANSITION_LEAST_INT, TRANSITION_LEAST_INT},
};

/* The number and the sum of avg(int4), as numeric.c lays them out. */
static int64 *
avg_state(Datum value)
{
	return (int64 *) ARR_DATA_PTR(DatumGetArrayTypeP(value));
}

static TransitionKind
transition_kind(const AggStatePerTransData *trans)
{
	for (int i = 0; i < lengthof(in_place); i++)
	{
		TransitionKind kind = in_place[i].kind;
		const Const *arg;

		if (in_place[i].aggregate != trans->aggref->aggfnoid)
			continue;
		if ((kind == TRANSITION_MOST_INT || kind == TRANSITION_LEAST_INT) && !trans->transtypeByVal)
			return TRANSITION_CALL;
		if (DO_AGGSPLIT_COMBINE(trans->aggref->aggsplit))
			return in_place[i].combines;
		if (kind != TRANSITION_COUNT_VALUES)
			return kind;
		arg = (const Const *) linitial_node(TargetEntry, trans->aggref->args)->expr;
		return IsA(arg, Const) && !arg->constisnull ? TRANSITION_COUNT_ROWS : TRANSITION_COUNT_VALUES;
	}
	return TRANSITION_CALL;
}

/* Copies a value to the memory of the group. */
static Datum
copy_to_group(const AggState *agg, const Transition *t, Datum value)
{
	MemoryContext old = MemoryContextSwitchTo(agg->curaggcontext->ecxt_per_tuple_memory);

	value = datumCopy(value, t->trans->transtypeByVal, t->trans->transtypeLen);
	MemoryContextSwitchTo(old);
	return value;
}

bool
transition_init(AggState *agg, Transition *t, AggStatePerTrans trans)
{
	Aggref	   *aggref = trans->aggref;
	bool		evaluates;

	t->trans = trans;
	t->bytes = trans->transtypeLen;
	t->nargs = trans->numTransInputs;
	if (aggref->aggfilter != NULL)
		t->filter = ExecInitQual(list_make1(aggref->aggfilter), &agg->ss.ps);
	t->kind = aggref->aggkind == AGGKIND_ORDERED_SET ? TRANSITION_ORDERED_SET : transition_kind(trans);
	evaluates = t->kind == TRANSITION_CALL || t->filter != NULL;
	if (t->kind == TRANSITION_ORDERED_SET)
		return evaluates;
	if (t->nargs == 1)
	{
		Expr	   *arg = linitial_node(TargetEntry, aggref->args)->expr;

		if (IsA(arg, Var))
			t->att = ((Var *) arg)->varattno;
	}
	if (t->att != 0 || t->kind == TRANSITION_COUNT_ROWS)
		return evaluates;
	t->args = palloc(t->nargs * sizeof(ExprState *));
	for (int i = 0; i < t->nargs; i++)
		t->args[i] = ExecInitExpr(list_nth_node(TargetEntry, aggref->args, i)->expr, &agg->ss.ps);
	return true;
}

void
transition_begin(const AggState *agg, Transition *t)
{
	const AggStatePerTransData *trans = t->trans;

	t->taken = false;
	t->isnull = t->unset = trans->initValueIsNull;
	t->count = t->sum = 0;
	t->value = (Datum) 0;
	if (t->kind == TRANSITION_CALL && !t->isnull)
		t->value = copy_to_group(agg, t, trans->initValue);
}

/* The transition value of the rows that were taken. */
static Datum
transition_value(const AggState *agg, Transition *t)
{
	switch (t->kind)
	{
		case TRANSITION_COUNT_ROWS:
		case TRANSITION_COUNT_VALUES:
			return Int64GetDatum(t->count);
		case TRANSITION_ADD_INT4:
		case TRANSITION_ADD_INT8:
			return Int64GetDatum(t->sum);
		case TRANSITION_AVG_INT4:
			if (t->value == (Datum) 0)
				t->value = copy_to_group(agg, t, t->trans->initValue);
			avg_state(t->value)[0] = t->count;
			avg_state(t->value)[1] = t->sum;
			return t->value;
		case TRANSITION_ADD_FLOAT8:
			return Float8GetDatum(t->fsum);
		default:
			return t->value;
	}
}

/*
 * Deserializes the partial value that is the function's argument, as the steps of
 * ExecBuildAggTrans() do.  False: the function is not called for it.
 */
static bool
deserialize_argument(AggState *agg, AggStatePerTrans trans)
{
	FunctionCallInfo fcinfo = trans->deserialfn_fcinfo;
	NullableDatum *arg = &trans->transfn_fcinfo->args[1];

	if (arg->isnull && trans->deserialfn.fn_strict)
		return false;
	fcinfo->args[0] = *arg;
	fcinfo->args[1].value = PointerGetDatum(NULL);
	fcinfo->args[1].isnull = false;
	fcinfo->isnull = false;
	agg->curpertrans = trans;
	arg->value = FunctionCallInvoke(fcinfo);
	arg->isnull = fcinfo->isnull;
	return true;
}

/* Sets the arguments of a row, but the first one.  False: a strict function is not called for them. */
static bool
set_arguments(AggState *agg, Transition *t, const TupleTableSlot *row)
{
	AggStatePerTrans trans = t->trans;
	FunctionCallInfo fcinfo = trans->transfn_fcinfo;

	if (t->att != 0)
	{
		fcinfo->args[1].value = row->tts_values[t->att - 1];
		fcinfo->args[1].isnull = row->tts_isnull[t->att - 1];
	}
	else
	{
		for (int i = 0; i < t->nargs; i++)
			fcinfo->args[i + 1].value = ExecEvalExpr(t->args[i], agg->tmpcontext, &fcinfo->args[i + 1].isnull);
	}
	if (OidIsValid(trans->deserialfn_oid) && !deserialize_argument(agg, trans))
		return false;
	for (int i = 1; i <= t->nargs && trans->transfn.fn_strict; i++)
	{
		if (fcinfo->args[i].isnull)
			return false;
	}
	return true;
}

void
transition_call(AggState *agg, Transition *t, const TupleTableSlot *row)
{
	AggStatePerTrans trans = t->trans;
	FunctionCallInfo fcinfo = trans->transfn_fcinfo;
	MemoryContext old = MemoryContextSwitchTo(agg->tmpcontext->ecxt_per_tuple_memory);
	bool		strict = trans->transfn.fn_strict;
	bool		call = set_arguments(agg, t, row);
	Datum		value;

	if (call && strict && t->unset)
	{
		t->value = copy_to_group(agg, t, fcinfo->args[1].value);
		t->isnull = t->unset = call = false;
	}
	if (!call || (strict && t->isnull))
	{
		MemoryContextSwitchTo(old);
		return;
	}
	agg->curpertrans = trans;
	fcinfo->args[0].value = t->value;
	fcinfo->args[0].isnull = t->isnull;
	fcinfo->isnull = false;
	value = FunctionCallInvoke(fcinfo);
	agg->curpertrans = NULL;

	/* a value that an expanded object in the group's memory holds stays there */
	if (!trans->transtypeByVal && DatumGetPointer(value) != DatumGetPointer(t->value))
	{
		MemoryContext group = agg->curaggcontext->ecxt_per_tuple_memory;

		if (fcinfo->isnull)
			value = (Datum) 0;
		else if (!DatumIsReadWriteExpandedObject(value, false, trans->transtypeLen) ||
				 MemoryContextGetParent(DatumGetEOHP(value)->eoh_context) != group)
			value = copy_to_group(agg, t, value);
		if (!t->isnull)
		{
			if (DatumIsReadWriteExpandedObject(t->value, false, trans->transtypeLen))
				DeleteExpandedObject(t->value);
			else
				pfree(DatumGetPointer(t->value));
		}
	}
	t->value = value;
	t->isnull = fcinfo->isnull;
	t->unset = false;
	MemoryContextSwitchTo(old);
}

/* The partial value of a group, as finalize_partialaggregate() returns it. */
static Datum
partial_value(const Transition *t, Datum value, bool *isnull)
{
	AggStatePerTrans trans = t->trans;
	FunctionCallInfo fcinfo = trans->serialfn_fcinfo;

	*isnull = t->isnull;
	if (!OidIsValid(trans->serialfn_oid))
		return value;
	if (t->isnull && trans->serialfn.fn_strict)
		return (Datum) 0;
	fcinfo->args[0].value = value;
	fcinfo->args[0].isnull = t->isnull;
	fcinfo->isnull = false;
	value = FunctionCallInvoke(fcinfo);
	*isnull = fcinfo->isnull;
	return value;
}

/* Calls the final function for a transition value, as finalize_aggregate() does. */
static Datum
final_value(AggState *agg, AggStatePerAgg peragg, const Transition *t, Datum value, bool *isnull)
{
	LOCAL_FCINFO(fcinfo, FUNC_MAX_ARGS);

	InitFunctionCallInfoData(*fcinfo, &peragg->finalfn, peragg->numFinalArgs, t->trans->aggCollation,
							 (Node *) agg, NULL);
	fcinfo->args[0].value = value;
	fcinfo->args[0].isnull = t->isnull;
	for (int arg = 1; arg < peragg->numFinalArgs; arg++)
	{
		fcinfo->args[arg].value = (Datum) 0;
		fcinfo->args[arg].isnull = true;
	}
	if (fcinfo->flinfo->fn_strict && (t->isnull || peragg->numFinalArgs > 1))
	{
		*isnull = true;
		return (Datum) 0;
	}
	agg->curperagg = peragg;
	value = FunctionCallInvoke(fcinfo);
	*isnull = fcinfo->isnull;
	agg->curperagg = NULL;
	return value;
}

Datum
transition_result(AggState *agg, int aggno, Transition *t, bool *isnull)
{
	AggStatePerAgg peragg = &agg->peragg[aggno];
	Datum		value = MakeExpandedObjectReadOnly(transition_value(agg, t), t->isnull, t->trans->transtypeLen);

	*isnull = t->isnull;
	if (DO_AGGSPLIT_SKIPFINAL(agg->aggsplit))
		value = partial_value(t, value, isnull);
	else if (OidIsValid(peragg->finalfn_oid))
		value = final_value(agg, peragg, t, value, isnull);
	return value;
}
