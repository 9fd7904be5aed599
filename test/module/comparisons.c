/*
 * comparisons.c
 *	  A btree comparator for text that counts its calls, for
 *	  t/cpu/key_comparisons.pl.
 */
#include "postgres.h"

#include "compat.h"
#include "fmgr.h"
#include "utils/builtins.h"

static int64 comparisons = 0;

/* Upper and lower case of ASCII are equal. */
static int
compare_counted(FunctionCallInfo fcinfo)
{
	/* as most types' comparators do: a copy with a four-byte header */
	text	   *a = PG_GETARG_TEXT_P(0);
	text	   *b = PG_GETARG_TEXT_P(1);
	Size		a_len = VARSIZE(a) - VARHDRSZ;
	Size		b_len = VARSIZE(b) - VARHDRSZ;
	int			cmp = pg_strncasecmp(VARDATA(a), VARDATA(b), Min(a_len, b_len));

	comparisons++;
	PG_FREE_IF_COPY(a, 0);
	PG_FREE_IF_COPY(b, 1);
	return cmp != 0 ? cmp : (a_len > b_len) - (a_len < b_len);
}

PG_FUNCTION_INFO_V1(counted_compare);
Datum
counted_compare(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT32(compare_counted(fcinfo));
}

PG_FUNCTION_INFO_V1(counted_less);
Datum
counted_less(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(compare_counted(fcinfo) < 0);
}

PG_FUNCTION_INFO_V1(counted_equal);
Datum
counted_equal(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(compare_counted(fcinfo) == 0);
}

PG_FUNCTION_INFO_V1(counted_greater);
Datum
counted_greater(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(compare_counted(fcinfo) > 0);
}

/* counted_comparisons(): comparisons since the last call of this function. */
PG_FUNCTION_INFO_V1(counted_comparisons);
Datum
counted_comparisons(PG_FUNCTION_ARGS)
{
	int64		n = comparisons;

	comparisons = 0;
	PG_RETURN_INT64(n);
}
