/*
 * sorted_input.c
 *	  Sorted rows for the nodes above a GpuSort.
 *
 * Each function asks the result of the sort (ResultMethods), if the node below is a serial
 * GpuSort that has sorted.  Of other nodes it answers that the node must be asked row by row.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "nodes/sort/sort_state.h"
#include "sort/sort.h"

/* The node, if it is a serial GpuSort that has sorted and returns all rows of its result; otherwise NULL. */
static GpuSortState *
sorted_node(PlanState *ps)
{
	GpuSortState *node = (GpuSortState *) ps;

	if (!IsA(ps, CustomScanState) || node->css.methods != &gpusort_exec_methods || !node->sort_done ||
		node->result->duplicates)
		return NULL;
	return node;
}

bool
sorted_input_count(PlanState *ps, uint64 *rows)
{
	GpuSortState *node = sorted_node(ps);

	if (node == NULL || node->distinct > 0 || node->bound > 0)
		return false;
	*rows = node->sorter->report->rows;
	return true;
}

uint64
sorted_input_skip(PlanState *ps, uint64 rows)
{
	GpuSortState *node = sorted_node(ps);

	if (node == NULL || node->result->methods->skip == NULL)
		return 0;
	return node->result->methods->skip(node->result, rows);
}

uint64
sorted_input_ahead(PlanState *ps, bool *all)
{
	GpuSortState *node = sorted_node(ps);

	*all = false;
	if (node == NULL || node->result->methods->ahead == NULL)
		return 0;
	return node->result->methods->ahead(node->result, all);
}

void
sorted_input_peek(PlanState *ps, uint64 i, TupleTableSlot *slot)
{
	SortResult *result = ((GpuSortState *) ps)->result;

	result->methods->peek(result, i, slot);
}

int
sorted_input_take(PlanState *ps, MinimalTuple *rows, bool *more)
{
	GpuSortState *node = sorted_node(ps);

	CHECK_FOR_INTERRUPTS();
	*more = node != NULL && node->result->methods->take != NULL;
	return *more ? node->result->methods->take(node->result, rows) : 0;
}

bool
sorted_input_stays(PlanState *ps)
{
	GpuSortState *node = sorted_node(ps);

	return node != NULL && node->result->methods->kind == RESULT_ROWS;
}

ArrayResult *
sorted_input_array(PlanState *ps)
{
	GpuSortState *node = sorted_node(ps);
	bool		all = true;

	if (node == NULL ||
		(node->result->methods->kind != RESULT_ROWS && node->result->methods->kind != RESULT_KEYS))
		return NULL;
	/* an array of merged keys has those of a round */
	if (node->result->methods->ahead != NULL)
		(void) node->result->methods->ahead(node->result, &all);
	return all ? (ArrayResult *) node->result : NULL;
}
