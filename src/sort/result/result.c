/*
 * result.c
 *	  Methods of results that have little to do.
 */
#include "postgres.h"

#include "sort/result/result.h"

void
result_once(SortResult *result)
{
	elog(ERROR, "gpusort: this sort's result can be read only once, forward");
}

void
result_holds_nothing(SortResult *result)
{
}
