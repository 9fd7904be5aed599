/*
 * sort_limit.c
 *	  The number of rows that the LIMIT above a sort wants.
 */
#include "postgres.h"

#include "executor/executor.h"
#include "nodes/base/sort_limit.h"

/* Invalid values count as no LIMIT; the Limit node reports the error. */
size_t
sort_node_bound(ExprContext *econtext, ExprState *limit_count, ExprState *limit_offset)
{
	int64		count;
	int64		offset = 0;
	Datum		value;
	bool		isnull;

	if (limit_count == NULL)
		return 0;
	value = ExecEvalExprSwitchContext(limit_count, econtext, &isnull);
	if (isnull)
		return 0;
	count = DatumGetInt64(value);
	if (limit_offset != NULL)
	{
		value = ExecEvalExprSwitchContext(limit_offset, econtext, &isnull);
		offset = isnull ? 0 : DatumGetInt64(value);
	}
	if (count < 0 || offset < 0 || count > PG_INT32_MAX || offset > PG_INT32_MAX)
		return 0;
	/* for LIMIT 0 one row, because 0 would mean all rows */
	return Max(1, (size_t) (count + offset));
}
