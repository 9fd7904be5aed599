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
#include "lib/qunique.h"
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
	SET_DISC,
	SET_CONT_FLOAT8,
	SET_CONT_INTERVAL,
	SET_MODE
} SetFunction;

typedef struct SetAggregate
{
	Oid			aggregate;
	SetFunction function;
	bool		multi;			/* the fractions are an array */
} SetAggregate;

static const SetAggregate set_aggregates[] =
{
	{F_PERCENTILE_DISC_FLOAT8_ANYELEMENT, SET_DISC, false},
	{F_PERCENTILE_DISC__FLOAT8_ANYELEMENT, SET_DISC, true},
	{F_PERCENTILE_CONT_FLOAT8_FLOAT8, SET_CONT_FLOAT8, false},
	{F_PERCENTILE_CONT__FLOAT8_FLOAT8, SET_CONT_FLOAT8, true},
	{F_PERCENTILE_CONT_FLOAT8_INTERVAL, SET_CONT_INTERVAL, false},
	{F_PERCENTILE_CONT__FLOAT8_INTERVAL, SET_CONT_INTERVAL, true},
	{F_MODE, SET_MODE, false}
};

/* A call of an ordered-set aggregate. */
typedef struct SetCall
{
	int			aggno;
	const SetAggregate *aggregate;
	Expr	   *fraction_expr;
	ExprState  *fraction;		/* NULL for mode() */
	ExprState  *argument;		/* of the sort column; NULL: the column itself */
	Oid			type;			/* type of a value of the result */

	/* evaluated for the current group, in the memory of the output row */
	Datum		param;
	bool		param_isnull;
	int			nfractions;
	Datum	   *fractions;
	bool	   *isnull;
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
	bool		by_position;	/* one of the calls is not mode() */
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

	WantedValue *wanted;		/* by position, in the memory of the output row */
	int			nwanted;
	int			next_wanted;	/* the first wanted value that was not found yet */
	int64		position;		/* of the next value, if count is final */

	/* of mode() */
	const GroupColumn *first_equal; /* NULL: there is none */
	int64		run;			/* equal values up to the last one */
	int64		mode_run;		/* number of values equal to mode_value */
	bool		run_is_mode;	/* the last value is equal to mode_value */
	Datum		mode_value;		/* a copy */
};

/* The aggregate's properties; NULL: it is no such aggregate. */
static const SetAggregate *
set_aggregate(Oid aggregate)
{
	for (int i = 0; i < lengthof(set_aggregates); i++)
	{
		if (set_aggregates[i].aggregate == aggregate)
			return &set_aggregates[i];
	}
	return NULL;
}

bool
ordered_set_is_known(const Aggref *aggref)
{
	return set_aggregate(aggref->aggfnoid) != NULL;
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
ordered_set_create(AggState *agg, AttrNumber attno, TupleDesc desc, const GroupColumn *first_equal)
{
	OrderedSet *set = palloc0(sizeof(OrderedSet));
	Form_pg_attribute att = TupleDescAttr(desc, attno - 1);
	Var		   *column = makeVar(1, 1, att->atttypid, att->atttypmod, att->attcollation, 0);

	set->first_equal = first_equal;
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
		call->aggregate = set_aggregate(aggref->aggfnoid);
		call->type = call->aggregate->multi ? get_element_type(aggref->aggtype) : aggref->aggtype;
		if (!IsA(argument, Var))
			call->argument = ExecInitExpr(argument, NULL);
		if (call->aggregate->function != SET_MODE)
		{
			call->fraction = linitial(peragg->aggdirectargs);
			call->fraction_expr = linitial(aggref->aggdirectargs);
			set->by_position = true;
		}
	}
	set->row = ExecInitNullTupleSlot(agg->ss.ps.state, desc, &TTSOpsVirtual);
	set->store_slot = ExecInitExtraTupleSlot(agg->ss.ps.state, ExecTypeFromExprList(list_make1(column)),
											 &TTSOpsMinimalTuple);
	set->cxt = AllocSetContextCreate(CurrentMemoryContext, "GpuSort ordered set", ALLOCSET_DEFAULT_SIZES);
	return set;
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
	MemoryContextReset(set->cxt);
	set->values = NULL;
	set->capacity = 0;
	set->bytes = 0;
}

void
ordered_set_end(OrderedSet *set)
{
	if (set->store != NULL)
		tuplestore_end(set->store);
	set->store = NULL;
}

void
ordered_set_begin_group(OrderedSet *set, bool keep, bool stable)
{
	ordered_set_end(set);
	/* a small array of elements passed by value serves the next group as well */
	if (!set->typbyval || set->capacity * sizeof(Datum) > 64 * 1024)
		forget_values(set);
	set->keep = keep && set->by_position;
	set->stable = stable;
	set->count = 0;
	set->counted = false;
	set->nwanted = set->next_wanted = 0;
	set->position = 0;
	set->run = set->mode_run = 0;
	set->run_is_mode = false;
}

/* ------------------------------------------------------------------------
 * Taking values
 * ------------------------------------------------------------------------
 */

static Datum
copy_set_value(const OrderedSet *set, Datum value, MemoryContext cxt)
{
	MemoryContext old = MemoryContextSwitchTo(cxt);

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
	MemoryContext old = MemoryContextSwitchTo(GetMemoryChunkContext(set));

	set->store = tuplestore_begin_heap(false, false, 64);
	MemoryContextSwitchTo(old);
	for (int64 i = 0; i < set->count; i++)
	{
		CHECK_FOR_INTERRUPTS();
		store_value(set, set->values[i]);
	}
	forget_values(set);
}

/* Makes room for another value; false if the array would exceed work_mem. */
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
	if (set->store == NULL &&
		unlikely(set->count == set->capacity || set->bytes > (Size) work_mem * 1024) && !make_room(set))
		move_to_store(set);
	if (set->store != NULL)
	{
		store_value(set, value);
		return;
	}
	if (!set->typbyval && !set->stable)
	{
		value = copy_set_value(set, value, set->cxt);
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
	if (!set->typbyval && DatumGetPointer(set->mode_value) != NULL)
		pfree(DatumGetPointer(set->mode_value));
	/* of equal values the first one, as mode_final() */
	set->mode_value = copy_set_value(set, set->first_equal->value, GetMemoryChunkContext(set));
}

/* The next wanted position that was not found yet; -1: none. */
static inline int64
next_position(const OrderedSet *set)
{
	return set->next_wanted < set->nwanted ? set->wanted[set->next_wanted].position : -1;
}

void
ordered_set_add(OrderedSet *set, Datum value, bool changed)
{
	if (set->first_equal != NULL)
		count_for_mode(set, changed);
	if (set->keep)
		keep_value(set, value);
	if (!set->counted)
		set->count++;
	else if (set->position++ == next_position(set))
		set->wanted[set->next_wanted++].value = copy_set_value(set, value, set->cxt);
}

int64
ordered_set_skips(const OrderedSet *set)
{
	int64		next = next_position(set);

	return next < 0 ? -1 : next - set->position;
}

void
ordered_set_skipped(OrderedSet *set, int64 values)
{
	set->position += values;
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

/* Evaluates the fractions of a call. */
static void
read_fractions(SetCall *call, ExprContext *econtext)
{
	call->param = ExecEvalExpr(call->fraction, econtext, &call->param_isnull);
	call->nfractions = call->param_isnull ? 0 : 1;
	call->fractions = &call->param;
	call->isnull = &call->param_isnull;
	if (call->param_isnull || !call->aggregate->multi)
		return;
	deconstruct_array(DatumGetArrayTypeP(call->param), FLOAT8OID, sizeof(float8), true, TYPALIGN_DOUBLE,
					  &call->fractions, &call->isnull, &call->nfractions);
}

/* An invalid fraction raises its error later, when the result is asked for. */
static void
add_positions(OrderedSet *set, const SetCall *call)
{
	for (int i = 0; i < call->nfractions; i++)
	{
		double		fraction = DatumGetFloat8(call->fractions[i]);
		int64		first;
		int64		second;
		double		proportion;

		if (call->isnull[i] || !fraction_is_valid(fraction))
			continue;
		fraction_positions(call->aggregate->function, fraction, set->count, &first, &second, &proportion);
		set->wanted[set->nwanted++].position = first;
		if (second != first)
			set->wanted[set->nwanted++].position = second;
	}
}

static int
compare_positions(const void *a, const void *b)
{
	int64		x = ((const WantedValue *) a)->position;
	int64		y = ((const WantedValue *) b)->position;

	return x < y ? -1 : x > y;
}

void
ordered_set_find_wanted(OrderedSet *set, int64 count, ExprContext *econtext)
{
	MemoryContext old = MemoryContextSwitchTo(econtext->ecxt_per_tuple_memory);
	int			fractions = 0;

	set->count = count;
	set->counted = true;
	for (int i = 0; i < set->ncalls; i++)
	{
		if (set->calls[i].fraction != NULL)
			read_fractions(&set->calls[i], econtext);
		fractions += set->calls[i].nfractions;
	}
	set->nwanted = 0;
	set->wanted = palloc(Max(1, 2 * fractions) * sizeof(WantedValue));
	for (int i = 0; i < set->ncalls && count > 0; i++)
		add_positions(set, &set->calls[i]);
	qsort(set->wanted, set->nwanted, sizeof(WantedValue), compare_positions);
	set->nwanted = qunique(set->wanted, set->nwanted, sizeof(WantedValue), compare_positions);
	MemoryContextSwitchTo(old);
}

void
ordered_set_take_kept(OrderedSet *set, ExprContext *econtext)
{
	int64		at = 0;

	ordered_set_find_wanted(set, set->count, econtext);
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
		wanted->value = copy_set_value(set, slot_getattr(set->store_slot, 1, &isnull), set->cxt);
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

	fraction_positions(call->aggregate->function, fraction, set->count, &first, &second, &proportion);
	value = wanted_value(set, call, first, econtext);
	if (second == first)
		return value;
	return interpolate(call->aggregate->function, value, wanted_value(set, call, second, econtext), proportion);
}

static Datum
array_result(OrderedSet *set, const SetCall *call, ExprContext *econtext)
{
	ArrayType  *array = DatumGetArrayTypeP(call->param);
	Datum	   *values = palloc(Max(1, call->nfractions) * sizeof(Datum));
	int16		typlen;
	bool		typbyval;
	char		typalign;

	if (call->nfractions == 0)
		return PointerGetDatum(construct_empty_array(call->type));
	for (int i = 0; i < call->nfractions; i++)
	{
		if (!call->isnull[i])
			check_fraction(DatumGetFloat8(call->fractions[i]));
	}
	for (int i = 0; i < call->nfractions; i++)
	{
		if (!call->isnull[i])
			values[i] = fraction_result(set, call, DatumGetFloat8(call->fractions[i]), econtext);
	}
	get_typlenbyvalalign(call->type, &typlen, &typbyval, &typalign);
	return PointerGetDatum(construct_md_array(values, call->isnull, ARR_NDIM(array), ARR_DIMS(array),
											  ARR_LBOUND(array), call->type, typlen, typbyval, typalign));
}

Datum
ordered_set_result(OrderedSet *set, int aggno, ExprContext *econtext, bool *isnull)
{
	const SetCall *call = set->calls;
	bool		mode;

	while (call->aggno != aggno)
		call++;
	mode = call->fraction == NULL;
	*isnull = !mode && call->param_isnull;
	if (*isnull)
		return (Datum) 0;
	/* without values one fraction is checked all the same */
	if (!mode && !call->aggregate->multi)
		check_fraction(DatumGetFloat8(call->param));
	*isnull = set->count == 0;
	if (*isnull)
		return (Datum) 0;
	if (mode)
		return argument_value(set, call, set->mode_value, econtext);
	if (call->aggregate->multi)
		return array_result(set, call, econtext);
	return fraction_result(set, call, DatumGetFloat8(call->param), econtext);
}
