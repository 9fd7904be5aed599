/*
 * sorted_input.c
 *	  Sorted rows for the nodes above a GpuSort.
 *
 * Each function asks the result of the sort (ResultMethods), if the node below is a serial
 * GpuSort that has sorted.  A parallel GpuSort gives rows that it has merged ahead.  Of other
 * nodes a function answers that the node must be asked row by row.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "nodes/shared/shared.h"
#include "nodes/sort/sort_state.h"
#include "sort/sort.h"
#include "store/store.h"
#include "utils/lsyscache.h"

/* First step of a search for a key. */
#define SKIP_STEP	16

/* The node, if it is a serial GpuSort that has sorted and returns all rows of its result; otherwise NULL. */
static GpuSortState *
sorted_node(PlanState *ps)
{
	GpuSortState *node = (GpuSortState *) ps;

	if (!IsA(ps, CustomScanState) || node->css.methods != &sort_node.exec || node->result == NULL ||
		node->result->duplicates)
		return NULL;
	return node;
}

/* The node, if it is a parallel GpuSort that merges its streams and returns their rows; otherwise NULL. */
static ParallelSortState *
merging_node(PlanState *ps)
{
	ParallelSortState *node = (ParallelSortState *) ps;

	if (!IsA(ps, CustomScanState) || node->css.methods != &parallel_sort_node.exec ||
		node->phase != PARALLEL_SORT_MERGE || node->filters || node->resumes || ps->ps_ProjInfo != NULL)
		return NULL;
	return node;
}

bool
sorted_input_count(PlanState *ps, uint64 *rows)
{
	GpuSortState *node = sorted_node(ps);

	if (node == NULL || node->sort.distinct > 0 || node->bound > 0)
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

/* The node, if it is a GpuSort Shared; otherwise NULL. */
static SharedSortState *
shared_node(const PlanState *ps)
{
	SharedSortState *node = (SharedSortState *) unconstify(PlanState *, ps);

	return IsA(ps, CustomScanState) && node->css.methods == &shared_sort_node.exec ? node : NULL;
}

/*
 * sorted_input_skip_below() for keys in an array, by steps that double and then halve.  A row ahead with a NULL is
 * behind the value: rows with a NULL that come first were read.
 */
static void
skip_keys_below(PlanState *ps, AttrNumber attno, int bytes, int64 value)
{
	TupleTableSlot *slot = ps->ps_ResultTupleSlot;
	bool		all;
	uint64		ahead = sorted_input_ahead(ps, &all);
	uint64		before = 0;
	bool		grows = true;

	for (uint64 step = SKIP_STEP; step > 0; step = grows ? 2 * step : step / 2)
	{
		bool		is_before = false;

		if (step <= ahead - before)
		{
			sorted_input_peek(ps, before + step - 1, slot);
			slot_getsomeattrs(slot, attno);
			is_before = !slot->tts_isnull[attno - 1] &&
				integer_of_datum(slot->tts_values[attno - 1], bytes) < value;
		}
		if (is_before)
			before += step;
		else
			grows = false;
	}
	(void) sorted_input_skip(ps, before);
}

void
sorted_input_skip_below(PlanState *ps, AttrNumber attno, int bytes, int64 value)
{
	SharedSortState *shared = shared_node(ps);
	ArrayResult *array;

	if (shared != NULL)
		block_reader_skip_below(shared->reader, value, bytes);
	else if ((array = sorted_input_array(ps)) != NULL && array->base.methods->kind == RESULT_KEYS)
		skip_keys_below(ps, attno, bytes, value);
}

bool
sorted_input_skips_cheaply(const PlanState *ps)
{
	return shared_node(ps) != NULL;
}

/* sorted_input_skip_values() of a parallel sort.  Only the last row of a batch may have a NULL. */
static uint64
skip_merged_values(ParallelSortState *node, AttrNumber attno, uint64 *nulls)
{
	MergeTree  *merge = node->merge;
	uint64		rows = 0;
	MinimalTuple last;
	uint32		n;

	while (merge_tree_skip(merge, merge->batch, &n, &last) != NULL)
	{
		CHECK_FOR_INTERRUPTS();
		row_to_slot(node->row_slot, last);
		*nulls += slot_attisnull(node->row_slot, attno);
		rows += n;
	}
	return rows;
}

uint64
sorted_input_skip_values(PlanState *ps, AttrNumber attno, uint64 *nulls)
{
	ParallelSortState *parallel = merging_node(ps);
	GpuSortState *node = sorted_node(ps);
	bool		all;
	uint64		rows;

	*nulls = 0;
	if (parallel != NULL && parallel->sort.distinct == 1 && parallel->sort.keys[0].attno == attno)
		return skip_merged_values(parallel, attno, nulls);
	if (node == NULL || node->sort.distinct != 1 || node->sort.keys[0].attno != attno)
		return 0;
	rows = sorted_input_ahead(ps, &all);
	if (rows == 0)
		return 0;
	sorted_input_peek(ps, rows - 1, ps->ps_ResultTupleSlot);
	*nulls = slot_attisnull(ps->ps_ResultTupleSlot, attno);
	return sorted_input_skip(ps, rows);
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

bool
sorted_input_take(PlanState *ps, TakenRows *taken)
{
	GpuSortState *node = sorted_node(ps);
	ParallelSortState *parallel = merging_node(ps);

	CHECK_FOR_INTERRUPTS();
	taken->next = taken->n = 0;
	if (parallel != NULL)
	{
		MergeTree  *merge = parallel->merge;
		int			n = (int) Min(RESULT_TAKE, (merge->end - merge->next) / merge->item_bytes);

		if (taken->compares)
			merge_tree_equal(merge, n, taken->equal);
		while (taken->n < n)
			taken->rows[taken->n++] = merge_tree_next(merge);
		return n > 0;
	}
	taken->more = node != NULL && node->result->methods->take != NULL;
	if (taken->more)
		taken->n = node->result->methods->take(node->result, taken->rows, taken->equal);
	return taken->n > 0;
}

/* The sort of a GpuSort, serial or parallel; NULL: another node. */
static const SortPlan *
sort_plan_of(const PlanState *ps)
{
	const CustomExecMethods *methods = IsA(ps, CustomScanState) ? ((const CustomScanState *) ps)->methods : NULL;

	if (methods == &sort_node.exec)
		return &((const GpuSortState *) ps)->sort;
	return methods == &parallel_sort_node.exec ? &((const ParallelSortState *) ps)->sort : NULL;
}

bool
sorted_input_groups(PlanState *ps)
{
	const SortPlan *sort = sort_plan_of(ps);

	for (int i = 0; sort != NULL && i < sort->nkeys; i++)
	{
		if (!key_orders_by_equality(&sort->keys[i]))
			return false;
	}
	return sort != NULL;
}

bool
sorted_input_compares(PlanState *ps, const GroupColumns *columns)
{
	const SortPlan *sort = sort_plan_of(ps);

	if (sort == NULL)
		return false;
	for (int i = 0; i < columns->n; i++)
	{
		const GroupColumn *column = &columns->columns[i];
		const KeyColumn *key = &sort->keys[i];

		if (i == sort->nkeys || key->attno != column->attno || key->collation != column->collation ||
			!key_orders_by_equality(key) ||
			get_opcode(get_equality_op_for_ordering_op(key->sortop, NULL)) != column->equal.fn_oid)
			return false;
	}
	if (((CustomScanState *) ps)->methods == &sort_node.exec)
		((GpuSortState *) ps)->spec.compares = true;
	else
		((ParallelSortState *) ps)->compares = true;
	return true;
}

/* The side's sort, if it is a serial GpuSort by the key; otherwise NULL. */
static GpuSortState *
merge_side_sort(const MergeSide *side)
{
	GpuSortState *node = (GpuSortState *) side->ps;

	if (!IsA(side->ps, CustomScanState) || node->css.methods != &sort_node.exec ||
		node->sort.keys[0].attno != side->attno)
		return NULL;
	return node;
}

/* The rows that the side's sort takes, if its first key is the key.  NULL: another node. */
static PageSource *
merge_side_pages(const MergeSide *side)
{
	GpuSortState *node = merge_side_sort(side);
	SharedSortState *shared = shared_node(side->ps);

	if (node != NULL)
		return &node->pages;
	return shared != NULL && shared->sort.keys[0].attno == side->attno ? &shared->pages : NULL;
}

double
sorted_input_filter_saves(const MergeSide *adds, const MergeSide *drops, double matched)
{
	GpuSortState *sort = merge_side_sort(drops);
	double		added = adds->ps->plan->plan_rows;
	double		rows = drops->ps->plan->plan_rows;

	/* a sort that keeps its rows for a rescan would keep rows that match an earlier other side */
	if (sort == NULL || merge_side_pages(adds) == NULL || sort->spec.random_access || sort->sort.limit_count != NULL ||
		sort->sort.limit_offset != NULL || !key_filter_possible(added, (Size) work_mem * 1024 / 4))
		return 0;
	/* a dropped row saves more than ten times what the filter takes for a row of either side */
	if (rows - matched < (rows + added) / 4)
		return 0;
	/* a sort of keys takes half as long as one of rows */
	return sort->spec.keys_only ? (rows - matched) / 2 : rows - matched;
}

/* Gives the side's sort its part in a filter. */
static void
set_filter_use(const MergeSide *side, KeyFilterRole role, KeyFilter *filter)
{
	merge_side_pages(side)->key_filter =
		(KeyFilterUse) {.role = role,.filter = filter,.attno = side->attno,.bytes = side->bytes};
}

void
sorted_input_filter(const MergeSide *adds, const MergeSide *drops)
{
	KeyFilter  *filter = key_filter_create(adds->ps->plan->plan_rows);

	set_filter_use(adds, KEY_FILTER_ADDS, filter);
	set_filter_use(drops, KEY_FILTER_DROPS, filter);
}

bool
sorted_input_has_rows(PlanState *ps)
{
	GpuSortState *node = (GpuSortState *) ps;

	/* as ExecProcNode() does */
	if (ps->chgParam != NULL)
		ExecReScan(ps);
	/* a sort that was asked for a row had none */
	return node->result == NULL && page_source_has_rows(&node->pages);
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
