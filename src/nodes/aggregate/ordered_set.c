/*
 * ordered_set.c
 *	  percentile_cont(), percentile_disc() and mode() of values that come in order.
 *
 * PostgreSQL's ordered-set aggregates put their input into a sort of their own.  Here the
 * rows come sorted, so the functions only need the values at some positions in a group:
 *
 * - If the number of values is known before they come, because the group is the whole
 *	 result of a sort, the caller passes the values at the wanted positions only.
 * - Otherwise the values of the group are kept in an array, or in a tuplestore if the
 *	 array exceeds work_mem.  They are in order, so a tuplestore is read once, forward.
 * - mode() counts equal neighbours and keeps one value.
 *
 * All calls of a node have one sort column.  Their arguments may be casts of this column
 * that keep its order; a cast is evaluated for the wanted values only.
 *
 * Results, NULLs and errors are those of PostgreSQL's functions (orderedsetaggs.c).
 *
 * Memory policy: the values of one group in a context of their own; results in the memory
 * of the output row.
 */
#include "postgres.h"

#include <math.h>

#include "catalog/pg_aggregate.h"
#include "catalog/pg_type.h"
#include "compat.h"
#include "executor/executor.h"
#include "executor/nodeAgg.h"
#include "expression.h"
#include "miscadmin.h"
#include "nodes/aggregate/aggregate.h"
#include "nodes/aggregate/ordered_set.h"
#include "nodes/makefuncs.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

typedef enum SetFunction
{
	SET_NONE,
	SET_DISC,
	SET_CONT_FLOAT8,
	SET_CONT_INTERVAL,
	SET_MODE
} SetFunction;

/* A call of an ordered-set aggregate. */
typedef struct SetCall
{
	int			aggno;
	SetFunction function;
	bool		multi;			/* the fractions are an array */
	Expr	   *fraction_expr;
	ExprState  *fraction;		/* NULL for mode() */
	ExprState  *argument;		/* of the sort column; NULL: the column itself */
	Oid			type;			/* type of a value of the result */

	/* evaluated for the current group */
	Datum		param;
	bool		param_isnull;
} SetCall;

/* A value that a call needs. */
typedef struct WantedValue
{
	int64		position;		/* among the group's values, from 0 */
	Datum		value;
} WantedValue;

struct OrderedSet
{
	int			ncalls;
	SetCall    *calls;
	bool		mode;			/* one is mode() */
	bool		by_position;	/* one is not */
	AttrNumber	attno;			/* the sort column */
	int16		typlen;
	bool		typbyval;
	TupleTableSlot *row;		/* row whose sort column is set, for arguments */

	MemoryContext cxt;			/* memory of a group's values */
	int64		count;			/* the group's values that are not NULL */
	bool		counted;		/* count is final */
	bool		keep;			/* values are kept */
	bool		stable;			/* values passed by reference stay where they are */
	Datum	   *values;			/* kept values, or NULL */
	int64		capacity;
	Size		bytes;			/* of the kept values */
	Tuplestorestate *store;		/* kept values if they exceed work_mem; or NULL */
	TupleTableSlot *store_slot;

	WantedValue *wanted;		/* by position */
	int			nwanted;
	int			wanted_capacity;

	const GroupColumn *first_equal; /* has the first of these values */
	int64		run;			/* equal values up to the last one */
	int64		mode_run;		/* number of values equal to mode_value */
	bool		run_is_mode;	/* the last value is equal to mode_value */
	Datum		mode_value;
	Size		mode_room;		/* bytes allocated for mode_value */
};

static SetFunction
set_function(Oid aggregate, bool *multi)
{
	*multi = false;
	switch (aggregate)
	{
		case F_PERCENTILE_DISC__FLOAT8_ANYELEMENT:
			*multi = true;
			pg_fallthrough;
		case F_PERCENTILE_DISC_FLOAT8_ANYELEMENT:
			return SET_DISC;
		case F_PERCENTILE_CONT__FLOAT8_FLOAT8:
			*multi = true;
			pg_fallthrough;
		case F_PERCENTILE_CONT_FLOAT8_FLOAT8:
			return SET_CONT_FLOAT8;
		case F_PERCENTILE_CONT__FLOAT8_INTERVAL:
			*multi = true;
			pg_fallthrough;
		case F_PERCENTILE_CONT_FLOAT8_INTERVAL:
			return SET_CONT_INTERVAL;
		case F_MODE:
			return SET_MODE;
		default:
			return SET_NONE;
	}
}

bool
ordered_set_is_known(const Aggref *aggref)
{
	bool		multi;

	return set_function(aggref->aggfnoid, &multi) != SET_NONE;
}

Expr *
ordered_set_column(const Aggref *aggref)
{
	Expr	   *expr = linitial_node(TargetEntry, aggref->args)->expr;
	FuncExpr   *func = (FuncExpr *) expr;

	if (!IsA(expr, FuncExpr))
		return expr;
	/* casts for which a <= b means cast(a) <= cast(b), and which raise no error */
	switch (func->funcid)
	{
		case F_FLOAT8_INT8:
			/* different values become equal, which mode() counts together */
			return aggref->aggfnoid == F_MODE ? expr : linitial(func->args);
		case F_FLOAT8_INT2:
		case F_FLOAT8_INT4:
		case F_FLOAT8_FLOAT4:
			return linitial(func->args);
		default:
			return expr;
	}
}

OrderedSet *
ordered_set_create(AggState *agg, AttrNumber attno, TupleDesc desc)
{
	OrderedSet *set = palloc0(sizeof(OrderedSet));
	Form_pg_attribute att = TupleDescAttr(desc, attno - 1);

	set->attno = attno;
	set->typlen = att->attlen;
	set->typbyval = att->attbyval;
	set->calls = palloc0(agg->numaggs * sizeof(SetCall));
	for (int i = 0; i < agg->numaggs; i++)
	{
		AggStatePerAgg peragg = &agg->peragg[i];
		Aggref	   *aggref = peragg->aggref;
		SetCall    *call = &set->calls[set->ncalls];
		Expr	   *argument;

		if (aggref->aggkind != AGGKIND_ORDERED_SET)
			continue;
		set->ncalls++;
		argument = linitial_node(TargetEntry, aggref->args)->expr;
		call->aggno = i;
		call->function = set_function(aggref->aggfnoid, &call->multi);
		call->type = call->multi ? get_element_type(aggref->aggtype) : aggref->aggtype;
		if (!IsA(argument, Var))
			call->argument = ExecInitExpr(argument, NULL);
		if (call->function == SET_MODE)
			set->mode = true;
		else
		{
			call->fraction = linitial(peragg->aggdirectargs);
			call->fraction_expr = linitial(aggref->aggdirectargs);
			set->by_position = true;
		}
	}
	set->row = MakeSingleTupleTableSlot(desc, &TTSOpsVirtual);
	memset(set->row->tts_isnull, true, desc->natts * sizeof(bool));
	ExecStoreVirtualTuple(set->row);
	set->cxt = AllocSetContextCreate(CurrentMemoryContext, "GpuSort ordered set", ALLOCSET_DEFAULT_SIZES);
	return set;
}

bool
ordered_set_has_mode(const OrderedSet *set)
{
	return set->mode;
}

void
ordered_set_compared(OrderedSet *set, const GroupColumn *column)
{
	set->first_equal = column;
}

bool
ordered_set_needs_positions(const OrderedSet *set, ExprContext *econtext)
{
	for (int i = 0; i < set->ncalls; i++)
	{
		if (!expr_is_quiet((Node *) set->calls[i].fraction_expr, econtext))
			return false;
	}
	return set->by_position;
}

static void
forget_values(OrderedSet *set)
{
	if (set->store != NULL)
		tuplestore_end(set->store);
	set->store = NULL;
	if (set->capacity > 0 || set->mode_room > 0 || set->bytes > 0 || set->nwanted > 0)
		MemoryContextReset(set->cxt);
	set->values = NULL;
	set->wanted = NULL;
	set->capacity = set->nwanted = set->wanted_capacity = 0;
	set->mode_room = set->bytes = 0;
}

void
ordered_set_end(OrderedSet *set)
{
	forget_values(set);
	ExecDropSingleTupleTableSlot(set->row);
	if (set->store_slot != NULL)
		ExecDropSingleTupleTableSlot(set->store_slot);
}

void
ordered_set_begin_group(OrderedSet *set, bool keep, bool stable)
{
	/* a small array of elements passed by value serves the next group as well */
	if (!set->typbyval || set->store != NULL || set->mode || set->capacity * sizeof(Datum) > 64 * 1024)
		forget_values(set);
	set->nwanted = 0;
	set->keep = keep && set->by_position;
	set->stable = stable;
	set->count = 0;
	set->counted = false;
	set->bytes = 0;
	set->run = set->mode_run = 0;
	set->run_is_mode = false;
}

/* ------------------------------------------------------------------------
 * Taking values
 * ------------------------------------------------------------------------
 */

/* Copies a value to the group's memory. */
static Datum
copy_to_set(OrderedSet *set, Datum value)
{
	MemoryContext old = MemoryContextSwitchTo(set->cxt);

	value = datumCopy(value, set->typbyval, set->typlen);
	MemoryContextSwitchTo(old);
	return value;
}

/* Appends a value to the tuplestore. */
static void
store_value(OrderedSet *set, Datum value)
{
	bool		isnull = false;

	tuplestore_putvalues(set->store, set->store_slot->tts_tupleDescriptor, &value, &isnull);
}

/* The array exceeds work_mem: moves its values to a tuplestore, which writes them to disk. */
static void
move_to_store(OrderedSet *set)
{
	MemoryContext old;
	Datum	   *values = set->values;

	if (set->store_slot == NULL)
	{
		Form_pg_attribute att = TupleDescAttr(set->row->tts_tupleDescriptor, set->attno - 1);
		Var		   *column = makeVar(1, 1, att->atttypid, att->atttypmod, att->attcollation, 0);

		old = MemoryContextSwitchTo(GetMemoryChunkContext(set));
		set->store_slot = MakeSingleTupleTableSlot(ExecTypeFromExprList(list_make1(column)), &TTSOpsMinimalTuple);
		MemoryContextSwitchTo(old);
	}
	old = MemoryContextSwitchTo(GetMemoryChunkContext(set));
	set->store = tuplestore_begin_heap(false, false, 64);
	MemoryContextSwitchTo(old);
	for (int64 i = 0; i < set->count; i++)
	{
		CHECK_FOR_INTERRUPTS();
		store_value(set, values[i]);
	}
	MemoryContextReset(set->cxt);
	set->values = NULL;
	set->wanted = NULL;
	set->capacity = set->nwanted = set->wanted_capacity = 0;
	set->mode_room = set->bytes = 0;
}

/* Makes room for another value; false if the values are in a tuplestore now. */
static bool
make_room(OrderedSet *set)
{
	int64		capacity = set->capacity == 0 ? 64 : set->capacity * 2;

	if (capacity * sizeof(Datum) + set->bytes > (Size) work_mem * 1024)
		return false;
	set->values = set->values == NULL ?
		MemoryContextAlloc(set->cxt, capacity * sizeof(Datum)) :
		repalloc_huge(set->values, capacity * sizeof(Datum));
	set->capacity = capacity;
	return true;
}

static void
keep_value(OrderedSet *set, Datum value)
{
	if (set->store != NULL)
	{
		store_value(set, value);
		return;
	}
	if (unlikely(set->count == set->capacity || set->bytes > (Size) work_mem * 1024) && !make_room(set))
	{
		Datum		mode_value = set->mode_value;

		/* the mode's value lies in the memory that is released */
		if (set->mode_run > 0 && !set->typbyval)
			mode_value = datumCopy(mode_value, false, set->typlen);
		move_to_store(set);
		if (set->mode_run > 0)
			set->mode_value = copy_to_set(set, mode_value);
		store_value(set, value);
		return;
	}
	if (!set->typbyval && !set->stable)
	{
		value = copy_to_set(set, value);
		set->bytes += datumGetSize(value, false, set->typlen);
	}
	set->values[set->count] = value;
}

/* Counts a value for mode().  changed: it differs from the one before. */
static void
count_for_mode(OrderedSet *set, bool changed)
{
	if (changed || set->run == 0)
	{
		set->run = 0;
		set->run_is_mode = false;
	}
	set->run++;
	if (set->run <= set->mode_run)
		return;
	set->mode_run = set->run;
	if (set->run_is_mode)
		return;
	set->run_is_mode = true;
	if (!set->typbyval && set->mode_room > 0)
		pfree(DatumGetPointer(set->mode_value));
	/* of equal values the first one, as mode_final() */
	set->mode_value = copy_to_set(set, set->first_equal->value);
	set->mode_room = 1;
}

void
ordered_set_add(OrderedSet *set, Datum value, bool changed)
{
	if (set->mode)
		count_for_mode(set, changed);
	if (set->keep)
		keep_value(set, value);
	if (!set->counted)
		set->count++;
}

int64
ordered_set_count(const OrderedSet *set)
{
	return set->count;
}

/* ------------------------------------------------------------------------
 * Positions
 * ------------------------------------------------------------------------
 */

static bool
fraction_is_valid(double fraction)
{
	return fraction >= 0 && fraction <= 1;
}

static void
check_fraction(double fraction)
{
	if (!fraction_is_valid(fraction))
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("percentile value %g is not between 0 and 1", fraction)));
}

/* The positions, from 0, between whose values a fraction lies, and how far it lies from the first. */
static void
fraction_positions(SetFunction function, double fraction, int64 count, int64 *first, int64 *second,
				   double *proportion)
{
	*proportion = 0;
	if (function == SET_DISC)
		*first = *second = Max(1, (int64) ceil(fraction * count)) - 1;
	else
	{
		*first = (int64) floor(fraction * (count - 1));
		*second = (int64) ceil(fraction * (count - 1));
		*proportion = fraction * (count - 1) - *first;
	}
}

/* The fractions of a call in an array; the caller's memory context has it. */
static int
call_fractions(const SetCall *call, ArrayType **array, Datum **fractions, bool **isnull)
{
	int16		typlen;
	bool		typbyval;
	char		typalign;
	int			n;

	*array = DatumGetArrayTypeP(call->param);
	get_typlenbyvalalign(FLOAT8OID, &typlen, &typbyval, &typalign);
	deconstruct_array(*array, FLOAT8OID, typlen, typbyval, typalign, fractions, isnull, &n);
	return n;
}

static void
add_position(OrderedSet *set, int64 position)
{
	if (set->nwanted == set->wanted_capacity)
	{
		int			capacity = Max(8, set->wanted_capacity * 2);

		set->wanted = set->wanted == NULL ? MemoryContextAlloc(set->cxt, capacity * sizeof(WantedValue)) :
			repalloc(set->wanted, capacity * sizeof(WantedValue));
		set->wanted_capacity = capacity;
	}
	set->wanted[set->nwanted++].position = position;
}

/* An invalid fraction raises its error later, when the result is asked for. */
static void
add_fraction_positions(OrderedSet *set, SetFunction function, double fraction)
{
	int64		first;
	int64		second;
	double		proportion;

	if (!fraction_is_valid(fraction))
		return;
	fraction_positions(function, fraction, set->count, &first, &second, &proportion);
	add_position(set, first);
	if (second != first)
		add_position(set, second);
}

static int
compare_positions(const void *a, const void *b)
{
	int64		x = ((const WantedValue *) a)->position;
	int64		y = ((const WantedValue *) b)->position;

	return x < y ? -1 : x > y;
}

static void
add_call_positions(OrderedSet *set, SetCall *call, ExprContext *econtext)
{
	ArrayType  *array;
	Datum	   *fractions;
	bool	   *isnull;
	int			n;

	call->param = ExecEvalExpr(call->fraction, econtext, &call->param_isnull);
	if (call->param_isnull || set->count == 0)
		return;
	if (!call->multi)
	{
		add_fraction_positions(set, call->function, DatumGetFloat8(call->param));
		return;
	}
	n = call_fractions(call, &array, &fractions, &isnull);
	for (int i = 0; i < n; i++)
	{
		if (!isnull[i])
			add_fraction_positions(set, call->function, DatumGetFloat8(fractions[i]));
	}
}

void
ordered_set_find_wanted(OrderedSet *set, int64 count, ExprContext *econtext)
{
	MemoryContext old = MemoryContextSwitchTo(econtext->ecxt_per_tuple_memory);
	int			n = 0;

	set->count = count;
	set->counted = true;
	set->nwanted = 0;
	for (int i = 0; i < set->ncalls; i++)
	{
		if (set->calls[i].function != SET_MODE)
			add_call_positions(set, &set->calls[i], econtext);
	}
	qsort(set->wanted, set->nwanted, sizeof(WantedValue), compare_positions);
	for (int i = 0; i < set->nwanted; i++)
	{
		if (n == 0 || set->wanted[n - 1].position != set->wanted[i].position)
			set->wanted[n++] = set->wanted[i];
	}
	set->nwanted = n;
	MemoryContextSwitchTo(old);
}

int
ordered_set_nwanted(const OrderedSet *set)
{
	return set->nwanted;
}

int64
ordered_set_wanted_position(const OrderedSet *set, int i)
{
	return set->wanted[i].position;
}

void
ordered_set_set_wanted(OrderedSet *set, int i, Datum value)
{
	set->wanted[i].value = copy_to_set(set, value);
}

void
ordered_set_take_kept(OrderedSet *set)
{
	int64		at = 0;

	for (int i = 0; i < set->nwanted; i++)
	{
		WantedValue *wanted = &set->wanted[i];
		bool		isnull;

		if (set->store == NULL)
		{
			wanted->value = set->values[wanted->position];
			continue;
		}
		if (!tuplestore_skiptuples(set->store, wanted->position - at, true) ||
			!tuplestore_gettupleslot(set->store, true, true, set->store_slot))
			elog(ERROR, "gpusort: a value of an ordered set is missing");
		at = wanted->position + 1;
		wanted->value = copy_to_set(set, slot_getattr(set->store_slot, 1, &isnull));
	}
}

/* ------------------------------------------------------------------------
 * Results
 * ------------------------------------------------------------------------
 */

/* A value of the sort column as the call's argument. */
static Datum
argument_value(OrderedSet *set, const SetCall *call, Datum value, ExprContext *econtext)
{
	TupleTableSlot *outer = econtext->ecxt_outertuple;
	bool		isnull;

	if (call->argument == NULL)
		return value;
	set->row->tts_values[set->attno - 1] = value;
	set->row->tts_isnull[set->attno - 1] = false;
	econtext->ecxt_outertuple = set->row;
	value = ExecEvalExpr(call->argument, econtext, &isnull);
	econtext->ecxt_outertuple = outer;
	return value;
}

static Datum
wanted_value(OrderedSet *set, const SetCall *call, int64 position, ExprContext *econtext)
{
	WantedValue key = {.position = position};
	WantedValue *found = bsearch(&key, set->wanted, set->nwanted, sizeof(WantedValue), compare_positions);

	return argument_value(set, call, found->value, econtext);
}

/* The value between two values. */
static Datum
interpolate(SetFunction function, Datum first, Datum second, double proportion)
{
	Datum		difference;

	if (function == SET_CONT_FLOAT8)
	{
		double		low = DatumGetFloat8(first);
		double		high = DatumGetFloat8(second);

		return Float8GetDatum(low + proportion * (high - low));
	}
	difference = DirectFunctionCall2(interval_mi, second, first);
	difference = DirectFunctionCall2(interval_mul, difference, Float8GetDatum(proportion));
	return DirectFunctionCall2(interval_pl, difference, first);
}

static Datum
fraction_result(OrderedSet *set, const SetCall *call, double fraction, ExprContext *econtext)
{
	int64		first;
	int64		second;
	double		proportion;
	Datum		value;

	fraction_positions(call->function, fraction, set->count, &first, &second, &proportion);
	value = wanted_value(set, call, first, econtext);
	if (second == first)
		return value;
	return interpolate(call->function, value, wanted_value(set, call, second, econtext), proportion);
}

static Datum
array_result(OrderedSet *set, const SetCall *call, ExprContext *econtext)
{
	ArrayType  *array;
	Datum	   *values;
	bool	   *isnull;
	int			n = call_fractions(call, &array, &values, &isnull);
	int16		typlen;
	bool		typbyval;
	char		typalign;

	if (n == 0)
		return PointerGetDatum(construct_empty_array(call->type));
	for (int i = 0; i < n; i++)
	{
		if (!isnull[i])
			check_fraction(DatumGetFloat8(values[i]));
	}
	for (int i = 0; i < n; i++)
	{
		if (!isnull[i])
			values[i] = fraction_result(set, call, DatumGetFloat8(values[i]), econtext);
	}
	get_typlenbyvalalign(call->type, &typlen, &typbyval, &typalign);
	return PointerGetDatum(construct_md_array(values, isnull, ARR_NDIM(array), ARR_DIMS(array),
											  ARR_LBOUND(array), call->type, typlen, typbyval, typalign));
}

Datum
ordered_set_result(OrderedSet *set, int aggno, ExprContext *econtext, bool *isnull)
{
	const SetCall *call = set->calls;

	while (call->aggno != aggno)
		call++;
	*isnull = call->function != SET_MODE && call->param_isnull;
	if (*isnull)
		return (Datum) 0;
	/* without values one fraction is checked all the same */
	if (call->function != SET_MODE && !call->multi)
		check_fraction(DatumGetFloat8(call->param));
	*isnull = set->count == 0;
	if (*isnull)
		return (Datum) 0;
	if (call->function == SET_MODE)
		return argument_value(set, call, set->mode_value, econtext);
	if (call->multi)
		return array_result(set, call, econtext);
	return fraction_result(set, call, DatumGetFloat8(call->param), econtext);
}
