/*
 * advance.h
 *	  Advancing transition values, for loops over rows.
 *
 * Transitions of count(), sum(), avg(), min() and max() of common types are done in place.  Others
 * are called directly, without an expression's interpreter.
 */
#ifndef GPUSORT_NODES_TRANSITION_ADVANCE_H
#define GPUSORT_NODES_TRANSITION_ADVANCE_H

#include "postgres.h"

#include "executor/executor.h"
#include "key/key.h"
#include "nodes/transition/transition.h"
#include "utils/float.h"

/*
 * Advances a transition by a row, whose column att is deformed, and which is the outer tuple of agg->tmpcontext if
 * transition_init() said so.
 */
static pg_attribute_always_inline void
transition_advance(AggState *agg, Transition *t, const TupleTableSlot *row)
{
	Datum		value = 0;
	int64		integer;

	if (t->kind == TRANSITION_CALL)
	{
		transition_call(agg, t, row);
		return;
	}
	if (t->kind == TRANSITION_COUNT_ROWS)
	{
		t->count++;
		return;
	}
	if (likely(t->att != 0))
	{
		if (row->tts_isnull[t->att - 1])
			return;
		value = row->tts_values[t->att - 1];
	}
	else
	{
		bool		isnull;

		value = ExecEvalExprSwitchContext(t->args[0], agg->tmpcontext, &isnull);
		if (isnull)
			return;
	}
	switch (t->kind)
	{
		case TRANSITION_COUNT_VALUES:
			t->count++;
			break;
		case TRANSITION_ADD_INT4:
			t->sum += DatumGetInt32(value);
			break;
		case TRANSITION_ADD_INT8:
			t->sum += DatumGetInt64(value);
			break;
		case TRANSITION_AVG_INT4:
			t->count++;
			t->sum += DatumGetInt32(value);
			break;
		case TRANSITION_ADD_FLOAT8:
			t->fsum = t->unset ? DatumGetFloat8(value) : float8_pl(t->fsum, DatumGetFloat8(value));
			break;
		case TRANSITION_MOST_INT:
			integer = integer_of_datum(value, t->bytes);
			if (t->unset || integer > (int64) t->value)
				t->value = (Datum) integer;
			break;
		case TRANSITION_LEAST_INT:
			integer = integer_of_datum(value, t->bytes);
			if (t->unset || integer < (int64) t->value)
				t->value = (Datum) integer;
			break;
		default:
			break;
	}
	t->isnull = t->unset = false;
}

#endif							/* GPUSORT_NODES_TRANSITION_ADVANCE_H */
