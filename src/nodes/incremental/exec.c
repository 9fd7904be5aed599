/*
 * exec.c
 *	  The executor node "Custom Scan (GpuSort Incremental)".
 *
 * The child returns its rows in the order of the first sort columns, the prefix.  So the
 * rows of one prefix, a group, can be sorted by the other columns and returned before the
 * next group is read.
 *
 * Small groups are sorted together in a batch (GroupBatch), which begins and ends at
 * little cost.  A batch has BATCH_ROWS rows, or the rows that a LIMIT wants, and then
 * ends with the current group.  It is small, as in nodeIncrementalSort.c, because the
 * reader may stop at any row.
 *
 * A large group is sorted by a sorter, with all that a sort of its rows can use: radix
 * sorts of normalized keys, a bound, runs on disk, keys on a GPU.  If the last group of a
 * batch turns out to be large, the groups before it are returned, its rows move to the
 * sorter, and the sorter takes the rest of the group.  The group behind a large one goes
 * to the sorter at once.
 *
 * With distinct columns the node stands for the Unique node above, too, and compares each
 * row with the one that it returned before.
 *
 * As with nodeIncrementalSort.c, rows are returned once and forward, and a rescan reads
 * the child again.  Rows do not move to a GPU, because the child could not return the
 * rows of one group again.
 *
 * Memory policy: a batch takes at most half of work_mem, since its rows may move to the
 * sorter.  The sorter takes work_mem.  The row behind a batch stays in its slot until the
 * batch has been returned.
 */
#include "postgres.h"

#include "compat.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/base/custom_node.h"
#include "nodes/base/distinct_filter.h"
#include "nodes/base/explain_sort.h"
#include "nodes/base/group_compare.h"
#include "nodes/base/pause.h"
#include "nodes/base/plan_format.h"
#include "nodes/base/sort_count.h"
#include "nodes/incremental/incremental.h"
#include "scan/scan.h"
#include "settings.h"
#include "utils/memutils.h"

/* With this number of rows a batch ends when its current group ends. */
#define BATCH_ROWS			32

/* Most rows of a batch. */
#define GROUP_BATCH_ROWS	256

/* A group with more rows is large. */
#define SMALL_GROUP_ROWS	(GROUP_BATCH_ROWS - BATCH_ROWS)

/*
 * Rows of several small groups share an arena and an array of row ids, since a sorter would
 * spend more time on beginning and ending than on their few rows.
 */
typedef struct GroupBatch
{
	MemoryContext cxt;
	BulkOwner  *bulk;
	RowWriter  *writer;
	TieBreak   *tiebreak;
	Arena		arena;
	MemoryResult result;
	TieGroups	groups;
	size_t		last;			/* first row of the last group */
	size_t		n;				/* rows */
	uint32		rids[GROUP_BATCH_ROWS];
	bool		begins[GROUP_BATCH_ROWS];	/* the row is the first of its
											 * group; by index */
} GroupBatch;

/* What EXPLAIN shows of the sorts of batches, or of groups. */
typedef struct SortGroups
{
	int64		n;				/* sorts */
	uint64		algorithms[2];	/* bit sets of algorithm ids: of full sorts,
								 * and of bounded sorts */
	int64		memory_kb;		/* sum of the sorts in memory */
	int64		memory_peak_kb;
	int64		disk_kb;		/* sum of the sorts that wrote runs */
	int64		disk_peak_kb;
} SortGroups;

typedef struct IncrementalState
{
	CustomScanState css;
	SortPlan	sort;
	DistinctFilter *filter;		/* drops duplicates; NULL without distinct
								 * columns */
	GroupColumns *prefix;		/* leading sort columns by which the child's
								 * rows are ordered, of the current group */
	AttrNumber	last_key_attno; /* greatest column number of the sort columns */

	IndexSource *source;		/* the child's rows */

	/* the current execution */
	bool		begun;
	size_t		bound;			/* rows wanted; 0: all */
	uint64		returned;		/* rows returned */
	TupleTableSlot *ahead;		/* the child's next row, which is not taken
								 * yet; NULL: none */
	bool		divided;		/* the batch's last group is large, and the
								 * child may have more rows of it */
	bool		after_large;	/* the last group was large */
	double		last_rows;		/* rows of the last large group */
	SortResult *result;			/* rows being returned; NULL: none */

	GroupBatch *batch;			/* rows of small groups; NULL until needed */
	Sorter	   *sorter;			/* sorts a large group; NULL until needed */
	bool		sorter_begun;	/* the sorter has rows */
	SortReport	batch_report;	/* of all batches that are not counted yet */
	SortGroups	batches;
	SortGroups	groups;
} IncrementalState;

/* ------------------------------------------------------------------------
 * Batches of small groups
 *
 * The rows of a group are rows with equal keys, namely the prefix, so a tiebreak sorts each
 * group by the other columns.  A group of one row is stored and returned, and its sort
 * columns are not read.
 * ------------------------------------------------------------------------
 */

/* Forgets the rows; keeps the memory of a small batch. */
static void
group_batch_reset(GroupBatch *batch)
{
	if (unlikely(batch->arena.nowned > 1))
		arena_free(&batch->arena, batch->bulk);
	else
		arena_reset(&batch->arena, batch->bulk);
	batch->n = batch->last = 0;
	tie_groups_begin(&batch->groups, batch->tiebreak, &batch->arena, batch->rids);
}

/* Creates an empty batch.  keys order the rows of a group. */
static GroupBatch *
group_batch_create(MemoryContext within, TupleDesc desc, const KeyColumn *keys, int nkeys)
{
	MemoryContext cxt = AllocSetContextCreate(within, "GpuSort groups", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(cxt);
	GroupBatch *batch = palloc0(sizeof(GroupBatch));

	batch->cxt = cxt;
	batch->bulk = bulk_owner_create(cxt, NULL);
	batch->writer = row_writer_create(desc);
	batch->tiebreak = tiebreak_create(cxt, batch->bulk, desc, keys, nkeys);
	MemoryContextSwitchTo(old);
	group_batch_reset(batch);
	return batch;
}

/* Takes a row.  new_group: it is the first of its group.  The batch has less than GROUP_BATCH_ROWS. */
static inline void
group_batch_put(GroupBatch *batch, TupleTableSlot *slot, bool new_group)
{
	size_t		n = batch->n;

	Assert(n < GROUP_BATCH_ROWS);
	if (unlikely(!row_store(batch->writer, &batch->arena, batch->bulk, slot, &batch->rids[n])))
		elog(ERROR, "rows of a group batch do not fit its arena");
	batch->begins[n] = new_group;
	if (new_group)
		batch->last = n;
	else
		tie_groups_equal(&batch->groups, n);
	batch->n++;
}

/* gpusort.verify: raises an error unless rows of a group are in order, equal rows as they came. */
static void
verify_groups(const GroupBatch *batch, size_t n)
{
	for (size_t i = 1; i < n; i++)
	{
		uint32		a = batch->rids[i - 1];
		uint32		b = batch->rids[i];
		int			cmp;

		if (batch->begins[i])
			continue;
		cmp = tiebreak_compare(batch->tiebreak, (MinimalTuple) arena_at(&batch->arena, a),
							   (MinimalTuple) arena_at(&batch->arena, b));
		if (cmp > 0 || (cmp == 0 && a >= b))
			ereport(ERROR,
					(errcode(ERRCODE_INTERNAL_ERROR),
					 errmsg("gpusort: rows of a group are out of order")));
	}
}

/*
 * Sorts each group.  Returns a result of kind RESULT_ROWS with all rows, or without those
 * of the last group, which stay as they came.
 */
static SortResult *
group_batch_sort(GroupBatch *batch, bool last_too)
{
	size_t		n = last_too ? batch->n : batch->last;

	/* a group of one row is not among the groups */
	if (!last_too && batch->groups.last.start == batch->last)
		batch->groups.last.end = 0;
	(void) tie_groups_end(&batch->groups);
	if (gpusort_verify)
		verify_groups(batch, n);
	return result_rows_begin(&batch->result, NULL, &batch->arena, batch->rids, n);
}

/* ------------------------------------------------------------------------
 * Prefix of the current group
 * ------------------------------------------------------------------------
 */

/* Begins a group with the row's prefix. */
static void
keep_prefix(IncrementalState *node, TupleTableSlot *row)
{
	slot_getsomeattrs(row, node->prefix->last_attno);
	group_columns_keep(node->prefix, row, 0);
}

/* Does the row belong to the current group?  The last prefix column changes most often. */
static pg_attribute_always_inline bool
in_group(IncrementalState *node, TupleTableSlot *row)
{
	GroupColumns *prefix = node->prefix;

	slot_getsomeattrs(row, prefix->last_attno);
	for (int i = prefix->n - 1; i >= 0; i--)
	{
		if (!group_column_equals(prefix, i, row))
			return false;
	}
	return true;
}

/* ------------------------------------------------------------------------
 * Counting
 * ------------------------------------------------------------------------
 */

static inline void
count_space(SortGroups *groups, Size memory_bytes, bool spilled, int64 disk_bytes)
{
	int64		kb = spilled ? disk_bytes / 1024 : (int64) ((memory_bytes + 1023) / 1024);
	int64	   *sum = spilled ? &groups->disk_kb : &groups->memory_kb;
	int64	   *peak = spilled ? &groups->disk_peak_kb : &groups->memory_peak_kb;

	groups->n++;
	*sum += kb;
	*peak = Max(*peak, kb);
}

static void
count_group(IncrementalState *node)
{
	const SortReport *report = node->sorter->report;

	count_space(&node->groups, report->memory_peak, report->runs > 0, (int64) report->disk_bytes);
	if (report->sorted)
		node->groups.algorithms[report->bounded] |= UINT64CONST(1) << report->decision.algorithm->id;
	sort_node_count(report);
}

static inline void
count_batch(IncrementalState *node, size_t rows)
{
	Size		bytes = arena_used(&node->batch->arena);

	count_space(&node->batches, bytes, false, 0);
	node->batch_report.rows += rows;
	node->batch_report.memory_peak = Max(node->batch_report.memory_peak, bytes);
}

/* Counts the batches of an execution as one sort, because counting each would take too long. */
static void
count_batches(IncrementalState *node)
{
	if (node->batch_report.rows == 0)
		return;
	sort_node_count(&node->batch_report);
	memset(&node->batch_report, 0, sizeof(node->batch_report));
}

/* ------------------------------------------------------------------------
 * Sorting
 * ------------------------------------------------------------------------
 */

/* Number of rows that the Limit above still wants; 0: all. */
static inline size_t
rows_wanted(const IncrementalState *node)
{
	return node->bound == 0 ? 0 : node->bound - node->returned;
}

/* Begins to sort a large group. */
static void
begin_large(IncrementalState *node)
{
	if (node->sorter == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(node->css.ss.ps.state->es_query_cxt);
		SortSpec	spec = {0};

		spec.desc = ExecGetResultType(outerPlanState(node));
		spec.keys = node->sort.keys + node->prefix->n;
		spec.nkeys = node->sort.nkeys - node->prefix->n;
		spec.node = node->css.ss.ps.plan->plan_node_id;
		spec.timing = compat_node_timed(&node->css.ss.ps);
		node->sorter = sorter_create(&spec);
		MemoryContextSwitchTo(old);
	}
	sorter_begin(node->sorter, &(SortBegin) {.bound = rows_wanted(node),.rows_expected = node->last_rows});
	node->sorter_begun = true;
}

static inline void
put_large(IncrementalState *node, TupleTableSlot *row)
{
	if (unlikely(!sorter_put(node->sorter, row)))
		elog(ERROR, "an incremental sort lost rows on a device");
}

/* Takes the remaining rows of the current group, whose first rows the sorter has, and sorts. */
static void
sort_large(IncrementalState *node, uint64 rows)
{
	TupleTableSlot *row = node->ahead;

	for (; row != NULL; row = index_source_next(node->source))
	{
		/* all sort columns at once */
		slot_getsomeattrs(row, node->last_key_attno);
		if (!in_group(node, row))
			break;
		put_large(node, row);
		rows++;
	}
	node->ahead = row;
	node->after_large = rows > SMALL_GROUP_ROWS;
	node->last_rows = (double) rows;
	node->result = sorter_perform(node->sorter, device_may_pause());
	if (node->result == NULL)
		elog(ERROR, "an incremental sort lost rows on a device");
	count_group(node);
}

/* The batch's last group is large: moves its rows to the sorter. */
static void
move_large(IncrementalState *node)
{
	TupleTableSlot *slot = node->css.ss.ps.ps_ResultTupleSlot;
	size_t		n = node->batch->n;
	size_t		first = node->batch->last;

	begin_large(node);
	for (size_t i = first; i < n; i++)
	{
		row_to_slot(slot, (MinimalTuple) arena_at(&node->batch->arena, node->batch->rids[i]));
		put_large(node, slot);
	}
	ExecClearTuple(slot);
	group_batch_reset(node->batch);
	node->divided = false;
	sort_large(node, n - first);
}

/* Takes rows until a group ends behind enough rows, or until a group is large; then sorts. */
static void
sort_batch(IncrementalState *node)
{
	size_t		wanted = rows_wanted(node);
	size_t		enough = wanted > 0 ? Min(wanted, BATCH_ROWS) : BATCH_ROWS;
	Size		most = (Size) work_mem * 1024 / 2;
	TupleTableSlot *row = node->ahead;
	GroupBatch *batch;
	bool		new_group = true;

	if (node->batch == NULL)
		node->batch = group_batch_create(node->css.ss.ps.state->es_query_cxt, ExecGetResultType(outerPlanState(node)),
										 node->sort.keys + node->prefix->n, node->sort.nkeys - node->prefix->n);
	batch = node->batch;
	for (; row != NULL; row = index_source_next(node->source))
	{
		size_t		n = batch->n;

		new_group = n == 0 || !in_group(node, row);
		if (new_group)
		{
			if (n >= enough || arena_used(&batch->arena) > most)
				break;
			keep_prefix(node, row);
		}
		else if (n - batch->last >= SMALL_GROUP_ROWS || arena_used(&batch->arena) > most)
			break;
		group_batch_put(batch, row, new_group);
	}
	node->ahead = row;
	node->divided = row != NULL && !new_group;
	if (node->divided && batch->last == 0)
	{
		move_large(node);
		return;
	}
	node->result = group_batch_sort(batch, !node->divided);
	count_batch(node, node->divided ? batch->last : batch->n);
}

/* ------------------------------------------------------------------------
 * Returning rows
 * ------------------------------------------------------------------------
 */

/* Ends the result and forgets its rows.  Rows of a divided batch stay. */
static void
end_result(IncrementalState *node)
{
	ExecClearTuple(node->css.ss.ps.ps_ResultTupleSlot);
	node->result = NULL;
	if (node->sorter_begun)
	{
		sorter_end(node->sorter);
		node->sorter_begun = false;
	}
	else if (node->batch != NULL && !node->divided)
		group_batch_reset(node->batch);
}

/* Sorts the next rows; false if there are none. */
static bool
next_result(IncrementalState *node)
{
	if (node->divided)
	{
		move_large(node);
		return true;
	}
	if (!node->begun)
	{
		node->begun = true;
		node->bound = sort_plan_bound(&node->sort, &node->css);
		node->ahead = index_source_next(node->source);
	}
	if (node->ahead == NULL || (node->bound > 0 && node->returned >= node->bound))
		return false;
	if (!node->after_large)
	{
		sort_batch(node);
		return true;
	}
	/* the row "ahead" begins a group */
	keep_prefix(node, node->ahead);
	begin_large(node);
	sort_large(node, 0);
	return true;
}

static TupleTableSlot *
incremental_exec(PlanState *pstate)
{
	IncrementalState *node = (IncrementalState *) pstate;
	TupleTableSlot *slot = pstate->ps_ResultTupleSlot;

	CHECK_FOR_INTERRUPTS();
	for (;;)
	{
		SortResult *result = node->result;

		if (likely(result != NULL))
		{
			if (likely(result->methods->kind == RESULT_ROWS ? result_next(result, RESULT_ROWS, true, slot) :
					   result_next(result, RESULT_PLAIN, true, slot)))
			{
				node->returned++;
				return slot;
			}
			end_result(node);
		}
		if (!next_result(node))
			return ExecClearTuple(slot);
	}
}

/* incremental_exec() with distinct columns: the next row that is no duplicate */
static TupleTableSlot *
incremental_exec_distinct(PlanState *pstate)
{
	DistinctFilter *filter = ((IncrementalState *) pstate)->filter;
	TupleTableSlot *slot;

	do
	{
		slot = incremental_exec(pstate);
	} while (!TupIsNull(slot) && !distinct_filter_pass(filter, slot));
	return slot;
}

/* ------------------------------------------------------------------------
 * Life of the node
 * ------------------------------------------------------------------------
 */

static void
incremental_begin(CustomScanState *css, EState *estate, int eflags)
{
	IncrementalState *node = (IncrementalState *) css;
	CustomScan *cscan = (CustomScan *) css->ss.ps.plan;
	int			nprefix;

	Assert((eflags & (EXEC_FLAG_BACKWARD | EXEC_FLAG_MARK)) == 0);
	sort_plan_read(&node->sort, css);
	nprefix = linitial_int((const List *) llast(cscan->custom_private));
	outerPlanState(css) = ExecInitNode(outerPlan(cscan), estate, eflags);
	node->prefix = group_columns_create(css, nprefix);
	group_columns_add_keys(node->prefix, node->sort.keys, nprefix);
	for (int i = 0; i < node->sort.nkeys; i++)
		node->last_key_attno = Max(node->last_key_attno, node->sort.keys[i].attno);
	node->source = index_source_create(outerPlanState(css));

	Assert(css->ss.ps.ps_ProjInfo == NULL);
	ExecInitResultSlot(&css->ss.ps, &TTSOpsMinimalTuple);
	css->ss.ps.ExecProcNode = incremental_exec;
	if (node->sort.distinct > 0)
	{
		node->filter = distinct_filter_create(css, &node->sort);
		css->ss.ps.ExecProcNode = incremental_exec_distinct;
	}
}

static void
incremental_end(CustomScanState *css)
{
	IncrementalState *node = (IncrementalState *) css;

	end_result(node);
	count_batches(node);
	if (node->batch != NULL)
		MemoryContextDelete(node->batch->cxt);
	if (node->sorter != NULL)
		sorter_destroy(node->sorter);
	index_source_end(node->source);
	ExecEndNode(outerPlanState(css));
}

static void
incremental_rescan(CustomScanState *css)
{
	IncrementalState *node = (IncrementalState *) css;
	PlanState  *outer = outerPlanState(css);

	node->divided = false;
	end_result(node);
	count_batches(node);
	node->begun = node->after_large = false;
	node->ahead = NULL;
	node->returned = 0;
	if (node->filter != NULL)
		distinct_filter_reset(node->filter);
	index_source_rescan(node->source);
	if (outer->chgParam == NULL)
		ExecReScan(outer);
}

/* ------------------------------------------------------------------------
 * EXPLAIN: what Incremental Sort shows
 * ------------------------------------------------------------------------
 */

/* Names of the algorithms that sorted groups, as a list. */
static List *
group_methods(const SortGroups *groups)
{
	List	   *methods = NIL;

	for (int bounded = 0; bounded < 2; bounded++)
	{
		for (int id = 0; id < ALGORITHM_COUNT; id++)
		{
			if ((groups->algorithms[bounded] >> id & 1) == 0)
				continue;
			methods = lappend(methods, psprintf("%s%s", bounded ? "top-N " : "", sort_algorithms[id].display));
		}
	}
	return methods;
}

static void
explain_group_space(const char *group, const char *type, int64 average, int64 peak, ExplainState *es)
{
	if (peak == 0)
		return;
	if (es->format == EXPLAIN_FORMAT_TEXT)
	{
		appendStringInfo(es->str, "  Average %s: " INT64_FORMAT "kB  Peak %s: " INT64_FORMAT "kB", type, average,
						 type, peak);
		return;
	}
	ExplainOpenGroup("Sort Space", group, true, es);
	ExplainPropertyInteger("Average Sort Space Used", "kB", average, es);
	ExplainPropertyInteger("Peak Sort Space Used", "kB", peak, es);
	ExplainCloseGroup("Sort Space", group, true, es);
}

static void
explain_groups(const SortGroups *groups, const char *group, List *methods, ExplainState *es)
{
	ListCell   *lc;

	if (groups->n == 0)
		return;
	if (es->format == EXPLAIN_FORMAT_TEXT)
	{
		appendStringInfoSpaces(es->str, es->indent * 2);
		appendStringInfo(es->str, "%s: " INT64_FORMAT "  Sort Method%s: ", group, groups->n,
						 list_length(methods) > 1 ? "s" : "");
		foreach(lc, methods)
			appendStringInfo(es->str, "%s%s", foreach_current_index(lc) > 0 ? ", " : "", (char *) lfirst(lc));
	}
	else
	{
		ExplainOpenGroup("Incremental Sort Groups", group, true, es);
		ExplainPropertyInteger("Group Count", NULL, groups->n, es);
		ExplainPropertyList("Sort Methods Used", methods, es);
	}
	explain_group_space("Sort Space Memory", "Memory", groups->memory_kb / groups->n, groups->memory_peak_kb, es);
	explain_group_space("Sort Space Disk", "Disk", groups->disk_kb / groups->n, groups->disk_peak_kb, es);
	if (es->format == EXPLAIN_FORMAT_TEXT)
		appendStringInfoChar(es->str, '\n');
	else
		ExplainCloseGroup("Incremental Sort Groups", group, true, es);
}

static void
incremental_explain(CustomScanState *css, List *ancestors, ExplainState *es)
{
	IncrementalState *node = (IncrementalState *) css;

	explain_keys(css, &node->sort, node->prefix->n, ancestors, es);
	if (!es->analyze)
		return;
	explain_groups(&node->batches, "Full-sort Groups", list_make1(pstrdup("multikey")), es);
	explain_groups(&node->groups, "Pre-sorted Groups", group_methods(&node->groups), es);
	if (node->filter != NULL)
		explain_dropped("", 0, 0, 0, node->filter, es);
}

const NodeType incremental_node = {
	.scan = {.CustomName = "GpuSort Incremental",.CreateCustomScanState = custom_create_state},
	.exec = {
		.CustomName = "GpuSort Incremental",
		.BeginCustomScan = incremental_begin,
		.ExecCustomScan = custom_exec,
		.EndCustomScan = incremental_end,
		.ReScanCustomScan = incremental_rescan,
		.ExplainCustomScan = incremental_explain
	},
	.state_size = sizeof(IncrementalState)
};
