/*
 * exec.c
 *	  The executor node "Custom Scan (GpuSort Join)": a merge join above a GpuSort.
 *
 * Both children return rows ordered by the keys of the join.  The algorithm is that of
 * nodeMergejoin.c: rows of the side with the lesser key are skipped, and each outer row
 * meets the group of inner rows that have its key.  Inner, left, semi and anti joins, whose
 * keys are columns of the children, are joined in this way.  The node differs from
 * nodeMergejoin.c in five ways:
 *
 * - Keys are read from the rows and compared directly, without an expression's interpreter.
 *	 Integers are compared without a call.
 * - The child need not mark and restore.  If the inner rows are an array in memory, a group
 *	 is read again from its position in the array.  Otherwise the group's rows are stored.  So
 *	 a sort with runs on disk merges them while it returns rows, and needs neither a final
 *	 run nor a Materialize node.
 * - If few rows of a side have a match, by the planner's estimate, the other side is sorted first, and this side's
 *	 sort drops rows without a match before it stores them (sorted_input_filter()).  The inner side is not sorted
 *	 first if there is no outer row, or if the volatile functions of both sides could tell.
 * - Inner rows before the outer row are skipped many at a time: keys in an array by a search, rows of a GpuSort Shared
 *	 by their keys.  A search among rows in memory would wait for memory at each step.
 * - A group is not stored if one inner row decides: the inner side is unique, or the join is
 *	 a semi or anti join, and there is no join condition besides the keys.
 *
 * Memory policy: one group of inner rows, in memory up to work_mem, then in a tuplestore;
 * the key of the group; the filter of the keys, at most a quarter of work_mem.
 */
#include "postgres.h"

#include "access/nbtree.h"
#include "compat.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/base/custom_node.h"
#include "nodes/base/group_compare.h"
#include "nodes/base/rerun.h"
#include "nodes/join/join.h"
#include "nodes/sort/sort_node.h"
#include "store/store.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/sortsupport.h"
#include "utils/tuplestore.h"

/* After this number of inner rows before the outer row, the next ones are searched, if they are an array. */
#define SKIP_AFTER	16

/* One key of the join: a column of each side. */
typedef struct JoinKey
{
	MergeKey	merge;
	int			outer_bytes;	/* size of the integers; 0: other types */
	int			inner_bytes;
	SortSupportData ssup;		/* compares other types */
} JoinKey;

/* Inner rows with equal keys. */
typedef struct InnerGroup
{
	bool		valid;			/* there is a group */
	GroupColumns *key;			/* by outer columns */
	int64		key_int;		/* the key, if it is one integer */

	/* no array: the child's current row is behind the group */
	bool		whole;

	/* an array: the position of the first row */
	size_t		first;

	/* no array: rows, as MinimalTuples in memory, then in the tuplestore */
	char	   *rows;
	Size		used;			/* bytes of rows */
	Size		room;			/* bytes allocated */
	Size		next;			/* offset of the next row to read */
	Tuplestorestate *more;		/* NULL until needed */
	int64		stored;			/* all rows of the group so far */
	int64		read;			/* rows that were read for the current outer
								 * row */
	int64		more_rows;		/* rows in the tuplestore */
} InnerGroup;

typedef struct MergedJoin
{
	CustomScanState css;
	const MergeJoin *join;		/* the replaced node */
	int			nkeys;
	JoinKey    *keys;
	ExprState  *condition;		/* join condition besides the keys; NULL: none */
	ExprState  *filter;			/* the node's qual; NULL: none */
	bool		one_match;		/* an outer row is joined with one inner row */
	bool		one_decides;	/* the first row of a group decides */
	bool		fills;			/* outer rows without a match are returned */
	bool		inner_first;	/* the inner side is sorted first: it tells which outer rows have a match */
	bool		same_types;		/* both sides' keys have the same types */
	bool		evaluates;		/* the context for a row's expressions is used */
	AttrNumber	last_outer;		/* greatest column number of the keys */
	AttrNumber	last_inner;

	/* the current rows */
	TupleTableSlot *outer;
	TupleTableSlot *inner;		/* the child's row; NULL: if begun, there are
								 * no more, otherwise none was read */
	int64		outer_int;		/* the key, if it is one integer */
	int64		inner_int;
	bool		in_group;		/* the outer row meets rows of a group */
	bool		matched;		/* the outer row had a match */
	double		unmatched_pairs;	/* pairs that failed the condition */

	/* the last group */
	InnerGroup	group;
	bool		begun;			/* a row of the inner side was read */
	uint32		skip_after;		/* inner rows before the outer row that are read until the next ones are skipped */
	ArrayResult *array;			/* the inner rows; NULL: no array */
	RowWriter  *writer;			/* writes rows of the group; NULL until needed */
	TupleTableSlot *stored;		/* a row of the group */
	TupleTableSlot *nulls;		/* in place of an inner row; NULL: not needed */
} MergedJoin;

/* ------------------------------------------------------------------------
 * Keys
 * ------------------------------------------------------------------------
 */

/* Is a key of the row, which is an outer or an inner one, NULL?  The slot is deformed. */
static pg_attribute_always_inline bool
key_is_null(const MergedJoin *node, const TupleTableSlot *row, bool outer)
{
	for (int i = 0; i < node->nkeys; i++)
	{
		const MergeKey *key = &node->keys[i].merge;

		if (row->tts_isnull[(outer ? key->outer : key->inner) - 1])
			return true;
	}
	return false;
}

/* Compares the outer row with an inner row.  Neither has a NULL; both slots are deformed. */
static int
compare_keys(MergedJoin *node)
{
	MemoryContext old = MemoryContextSwitchTo(node->css.ss.ps.ps_ExprContext->ecxt_per_tuple_memory);
	int			order = 0;

	for (int i = 0; i < node->nkeys && order == 0; i++)
	{
		JoinKey    *key = &node->keys[i];
		Datum		outer = node->outer->tts_values[key->merge.outer - 1];
		Datum		inner = node->inner->tts_values[key->merge.inner - 1];

		if (likely(key->outer_bytes > 0))
		{
			int64		a = integer_of_datum(outer, key->outer_bytes);
			int64		b = integer_of_datum(inner, key->inner_bytes);

			order = (a > b) - (a < b);
			if (key->merge.reverse)
				order = -order;
		}
		else
			order = ApplySortComparator(outer, false, inner, false, &key->ssup);
	}
	MemoryContextSwitchTo(old);
	return order;
}

/* one_int: there is one key, of integers, in ascending order. */
static pg_attribute_always_inline int
compare_rows(MergedJoin *node, bool one_int)
{
	if (one_int)
		return (node->outer_int > node->inner_int) - (node->outer_int < node->inner_int);
	return compare_keys(node);
}

/* Has the outer row the key of the last group? */
static pg_attribute_always_inline bool
meets_last_group(MergedJoin *node, bool one_int)
{
	if (!node->group.valid)
		return false;
	if (one_int)
		return node->outer_int == node->group.key_int;
	return group_columns_first_difference(node->group.key, node->nkeys, node->outer) == node->nkeys;
}

/*
 * Has the inner row, which is not before the group, the key of the group?  Without a
 * comparison by order where both sides have the same types: that takes long for texts.
 */
static pg_attribute_always_inline bool
inner_meets_group(MergedJoin *node, bool one_int)
{
	if (one_int || !node->same_types)
		return compare_rows(node, one_int) == 0;
	for (int i = 0; i < node->nkeys; i++)
	{
		const GroupColumn *column = &node->group.key->columns[i];
		Datum		value = node->inner->tts_values[node->keys[i].merge.inner - 1];

		if (column->typbyval && group_column_same_bits(column, value))
			continue;
		if ((column->typbyval && column->bytes_decide) || !group_column_compare(node->group.key, i, value))
			return false;
	}
	return true;
}

/* ------------------------------------------------------------------------
 * Rows of a group that are stored
 * ------------------------------------------------------------------------
 */

static void
group_clear(InnerGroup *group)
{
	group->valid = group->whole = false;
	group->used = group->next = 0;
	group->stored = group->read = 0;
	if (group->more_rows > 0)
	{
		tuplestore_clear(group->more);
		group->more_rows = 0;
	}
}

/* Room for this many bytes more; NULL if the group would exceed work_mem. */
static char *
group_room(InnerGroup *group, Size size, MemoryContext cxt)
{
	if (unlikely(size > group->room - group->used))
	{
		Size		room = Max(2 * group->room, group->used + size);

		if (group->more_rows > 0 || room > work_mem * (Size) 1024)
			return NULL;
		room = Max(room, 1024);
		group->rows = group->rows == NULL ? MemoryContextAllocHuge(cxt, room) : repalloc_huge(group->rows, room);
		group->room = room;
	}
	return group->more_rows > 0 ? NULL : group->rows + group->used;
}

/* Adds the inner row to the group. */
static void
group_add(MergedJoin *node)
{
	InnerGroup *group = &node->group;
	TupleTableSlot *row = node->inner;
	MinimalTuple tuple = slot_minimal_tuple(row);
	MemoryContext cxt = node->css.ss.ps.state->es_query_cxt;
	char	   *to;

	if (likely(tuple != NULL))
	{
		to = group_room(group, MAXALIGN(tuple->t_len), cxt);
		if (likely(to != NULL))
		{
			memcpy(to, tuple, tuple->t_len);
			group->used += MAXALIGN(tuple->t_len);
		}
	}
	else
	{
		slot_getallattrs(row);
		to = group_room(group, row_writer_room(node->writer, row->tts_values, row->tts_isnull), cxt);
		if (likely(to != NULL))
			group->used += row_writer_write(node->writer, row->tts_values, row->tts_isnull, to);
	}
	if (unlikely(to == NULL))
	{
		if (group->more == NULL)
		{
			MemoryContext old = MemoryContextSwitchTo(cxt);

			group->more = tuplestore_begin_heap(false, false, work_mem);
			MemoryContextSwitchTo(old);
		}
		tuplestore_puttupleslot(group->more, row);
		group->more_rows++;
	}
	group->stored++;
	group->read++;
}

/* The next stored row; there is one. */
static TupleTableSlot *
group_read(MergedJoin *node)
{
	InnerGroup *group = &node->group;

	group->read++;
	if (group->next < group->used)
	{
		MinimalTuple row = (MinimalTuple) (group->rows + group->next);

		row_to_slot(node->stored, row);
		group->next += MAXALIGN(row->t_len);
	}
	else if (!tuplestore_gettupleslot(group->more, true, false, node->stored))
		elog(ERROR, "gpusort: a stored row of a merge join is missing");
	return node->stored;
}

/* ------------------------------------------------------------------------
 * Reading rows
 * ------------------------------------------------------------------------
 */

/* Reads the next outer row; false at the end. */
static pg_attribute_always_inline bool
read_outer(MergedJoin *node, bool one_int)
{
	TupleTableSlot *row = ExecProcNode(outerPlanState(node));

	if (unlikely(TupIsNull(row)))
		return false;
	slot_getsomeattrs(row, node->last_outer);
	node->outer = row;
	if (one_int)
		node->outer_int = integer_of_datum(row->tts_values[node->last_outer - 1], node->keys[0].outer_bytes);
	return true;
}

/* Reads the next inner row that has no NULL in a key; false at the end. */
static pg_attribute_always_inline bool
read_inner(MergedJoin *node, bool one_int)
{
	TupleTableSlot *row;

	for (;;)
	{
		row = ExecProcNode(innerPlanState(node));
		if (unlikely(TupIsNull(row)))
		{
			node->inner = NULL;
			return false;
		}
		slot_getsomeattrs(row, node->last_inner);
		if (likely(!(one_int ? row->tts_isnull[node->last_inner - 1] : key_is_null(node, row, false))))
			break;
	}
	node->inner = row;
	if (one_int)
		node->inner_int = integer_of_datum(row->tts_values[node->last_inner - 1], node->keys[0].inner_bytes);
	return true;
}

/* Reads the first inner row, and finds out where the inner rows are. */
static pg_noinline void
begin_inner(MergedJoin *node, bool one_int)
{
	MemoryContext old;

	(void) read_inner(node, one_int);
	old = MemoryContextSwitchTo(node->css.ss.ps.state->es_query_cxt);
	node->begun = true;
	node->array = sorted_input_array(innerPlanState(node));
	node->skip_after = sorted_input_skips_cheaply(innerPlanState(node)) ? 1 : SKIP_AFTER;
	if (node->array == NULL && node->writer == NULL)
		node->writer = row_writer_create(ExecGetResultType(innerPlanState(node)));
	MemoryContextSwitchTo(old);
}

/* The inner row is the first one with the outer row's key. */
static pg_attribute_always_inline void
begin_inner_group(MergedJoin *node, bool one_int)
{
	if (node->one_decides)
		return;
	if (one_int)
		node->group.key_int = node->outer_int;
	else
		group_columns_keep(node->group.key, node->outer, 0);
	if (node->array != NULL)
		node->group.first = node->array->pos - 1;
	else
	{
		group_clear(&node->group);
		group_add(node);
	}
	node->group.valid = true;
}

/* The first row of the last group, for one more outer row. */
static TupleTableSlot *
first_of_group_again(MergedJoin *node, bool one_int)
{
	InnerGroup *group = &node->group;

	if (node->array == NULL)
	{
		group->next = 0;
		group->read = 0;
		if (group->more_rows > 0)
			tuplestore_rescan(group->more);
		return group_read(node);
	}
	node->array->pos = group->first;
	node->array->eof = false;
	(void) read_inner(node, one_int);
	return node->inner;
}

/*
 * Reads the next outer row and returns the first inner row with its key; NULL if there is
 * none.  *ended: no outer row follows that matters.
 */
static pg_attribute_always_inline TupleTableSlot *
next_outer(MergedJoin *node, bool one_int, bool *ended)
{
	uint32		skipped = 0;

	/* without outer rows PostgreSQL reads no inner row */
	if (unlikely(!node->begun) && node->inner_first && sorted_input_has_rows(outerPlanState(node)))
		begin_inner(node, one_int);
	if (!read_outer(node, one_int))
	{
		*ended = true;
		return NULL;
	}
	if (unlikely(one_int ? node->outer->tts_isnull[node->last_outer - 1] : key_is_null(node, node->outer, true)))
		return NULL;
	if (meets_last_group(node, one_int))
		return first_of_group_again(node, one_int);
	if (unlikely(!node->begun))
		begin_inner(node, one_int);
	for (;;)
	{
		int			order;

		if (unlikely(node->inner == NULL))
		{
			*ended = !node->fills;
			return NULL;
		}
		order = compare_rows(node, one_int);
		if (order < 0)
			return NULL;
		if (order == 0)
		{
			begin_inner_group(node, one_int);
			return node->inner;
		}
		if (one_int && ++skipped % node->skip_after == 0)
			sorted_input_skip_below(innerPlanState(node), node->last_inner, node->keys[0].inner_bytes, node->outer_int);
		(void) read_inner(node, one_int);
	}
}

/* The next inner row with the outer row's key; NULL if there is none. */
static pg_attribute_always_inline TupleTableSlot *
next_inner(MergedJoin *node, bool one_int)
{
	if (node->array == NULL)
	{
		if (node->group.read < node->group.stored)
			return group_read(node);
		if (node->group.whole)
			return NULL;
	}
	if (!read_inner(node, one_int) || !inner_meets_group(node, one_int))
	{
		node->group.whole = true;
		return NULL;
	}
	if (node->array == NULL)
		group_add(node);
	return node->inner;
}

/* ------------------------------------------------------------------------
 * Returning rows
 * ------------------------------------------------------------------------
 */

/* The joined row; NULL if it fails the node's qual. */
static pg_attribute_always_inline TupleTableSlot *
joined_row(MergedJoin *node, TupleTableSlot *inner)
{
	ExprContext *econtext = node->css.ss.ps.ps_ExprContext;

	econtext->ecxt_outertuple = node->outer;
	econtext->ecxt_innertuple = inner;
	if (node->filter != NULL && !ExecQual(node->filter, econtext))
	{
		InstrCountFiltered1(node, 1);
		return NULL;
	}
	return ExecProject(node->css.ss.ps.ps_ProjInfo);
}

/* Does the pair fulfil the join condition? */
static pg_attribute_always_inline bool
condition_holds(MergedJoin *node, TupleTableSlot *inner)
{
	ExprContext *econtext = node->css.ss.ps.ps_ExprContext;

	if (likely(node->condition == NULL))
		return true;
	econtext->ecxt_outertuple = node->outer;
	econtext->ecxt_innertuple = inner;
	if (ExecQual(node->condition, econtext))
		return true;
	node->unmatched_pairs++;
	return false;
}

static pg_attribute_always_inline TupleTableSlot *
join_exec_as(PlanState *pstate, bool one_int)
{
	MergedJoin *node = (MergedJoin *) pstate;
	bool		ended = false;

	for (;;)
	{
		TupleTableSlot *inner;
		TupleTableSlot *row;

		CHECK_FOR_INTERRUPTS();
		if (node->evaluates)
			ResetExprContext(pstate->ps_ExprContext);
		if (node->in_group)
			inner = next_inner(node, one_int);
		else
		{
			node->matched = false;
			inner = next_outer(node, one_int, &ended);
			if (unlikely(ended))
				return ExecClearTuple(pstate->ps_ResultTupleSlot);
		}
		node->in_group = inner != NULL;
		if (inner != NULL)
		{
			if (!condition_holds(node, inner))
				continue;
			node->matched = true;
			node->in_group = !node->one_match;
			if (node->join->join.jointype == JOIN_ANTI)
				continue;
			row = joined_row(node, inner);
		}
		else if (node->fills && !node->matched)
			row = joined_row(node, node->nulls);
		else
			continue;
		if (likely(row != NULL))
			return row;
	}
}

static TupleTableSlot *
join_exec(PlanState *pstate)
{
	return join_exec_as(pstate, false);
}

static TupleTableSlot *
join_exec_int(PlanState *pstate)
{
	return join_exec_as(pstate, true);
}

/* ------------------------------------------------------------------------
 * Begin, end, rescan
 * ------------------------------------------------------------------------
 */

/* Does this function compare integers of these sizes?  So it does with dates and times. */
static bool
compares_integers(Oid proc, int *outer_bytes, int *inner_bytes)
{
	static const struct
	{
		Oid			proc;
		int			outer_bytes;
		int			inner_bytes;
	}			known[] = {
		{F_BTINT2CMP, 2, 2}, {F_BTINT24CMP, 2, 4}, {F_BTINT28CMP, 2, 8},
		{F_BTINT42CMP, 4, 2}, {F_BTINT4CMP, 4, 4}, {F_BTINT48CMP, 4, 8},
		{F_BTINT82CMP, 8, 2}, {F_BTINT84CMP, 8, 4}, {F_BTINT8CMP, 8, 8},
		{F_DATE_CMP, 4, 4}, {F_TIME_CMP, 8, 8},
		{F_TIMESTAMP_CMP, 8, 8}, {F_TIMESTAMPTZ_CMP, 8, 8}
	};

	for (int i = 0; i < lengthof(known); i++)
	{
		if (known[i].proc == proc)
		{
			*outer_bytes = known[i].outer_bytes;
			*inner_bytes = known[i].inner_bytes;
			return true;
		}
	}
	return false;
}

/* Finds out how a key is compared, as nodeMergejoin.c does. */
static void
prepare_comparator(JoinKey *key)
{
	const MergeKey *merge = &key->merge;
	Oid			order = get_opfamily_proc(merge->opfamily, merge->outer_type, merge->inner_type, BTORDER_PROC);
	Oid			support;

	if (!OidIsValid(order))
		elog(ERROR, "missing support function %d(%u,%u) in opfamily %u", BTORDER_PROC, merge->outer_type,
			 merge->inner_type, merge->opfamily);
	if (compares_integers(order, &key->outer_bytes, &key->inner_bytes))
		return;
	key->ssup.ssup_cxt = CurrentMemoryContext;
	key->ssup.ssup_collation = merge->collation;
	key->ssup.ssup_reverse = merge->reverse;
	support = get_opfamily_proc(merge->opfamily, merge->outer_type, merge->inner_type, BTSORTSUPPORT_PROC);
	if (OidIsValid(support))
		OidFunctionCall1(support, PointerGetDatum(&key->ssup));
	if (key->ssup.comparator == NULL)
		PrepareSortSupportComparisonShim(order, &key->ssup);
}

/* Prepares the keys, and the comparison of an outer row with the last group. */
static void
init_keys(MergedJoin *node)
{
	node->same_types = true;
	node->nkeys = list_length(node->join->mergeclauses);
	node->keys = palloc0(node->nkeys * sizeof(JoinKey));
	node->group.key = group_columns_create(&node->css, node->nkeys);
	for (int i = 0; i < node->nkeys; i++)
	{
		JoinKey    *key = &node->keys[i];
		Oid			equality;

		(void) merge_key_read(node->join, i, &key->merge);
		prepare_comparator(key);
		node->evaluates |= key->outer_bytes == 0;
		node->same_types &= key->merge.outer_type == key->merge.inner_type;
		equality = get_opfamily_member(key->merge.opfamily, key->merge.outer_type, key->merge.outer_type,
									   BTEqualStrategyNumber);
		if (!OidIsValid(equality))
			elog(ERROR, "missing equality operator of type %u in operator family %u", key->merge.outer_type,
				 key->merge.opfamily);
		group_columns_add(node->group.key, key->merge.outer, equality, key->merge.collation);
		node->last_outer = Max(node->last_outer, key->merge.outer);
		node->last_inner = Max(node->last_inner, key->merge.inner);
	}
}

/* Are the entries of a target list columns of the children? */
static bool
only_columns(List *tlist)
{
	ListCell   *lc;

	foreach(lc, tlist)
	{
		if (!IsA(lfirst_node(TargetEntry, lc)->expr, Var))
			return false;
	}
	return true;
}

/*
 * Lets the sort of one side drop rows that have no match, where that saves most.  Inner rows without a match
 * are never returned.
 */
static void
begin_filter(MergedJoin *node)
{
	const JoinKey *key = &node->keys[0];
	MergeSide	outer = {outerPlanState(node), key->merge.outer, key->outer_bytes};
	MergeSide	inner = {innerPlanState(node), key->merge.inner, key->inner_bytes};
	double		joined = node->css.ss.ps.plan->plan_rows;
	double		saves_outer = 0;
	double		saves_inner;

	if (key->outer_bytes == 0)
		return;
	if (!node->fills)
		saves_outer = sorted_input_filter_saves(&inner, &outer, joined);
	/* in other joins than inner ones, the joined rows do not tell how many inner rows have a match */
	if (node->join->join.jointype != JOIN_INNER)
		joined = Max(joined, outer.ps->plan->plan_rows);
	saves_inner = sorted_input_filter_saves(&outer, &inner, joined);
	/* PostgreSQL evaluates volatile functions for the outer rows first */
	node->inner_first = saves_outer > saves_inner &&
		(plan_can_rerun(outerPlanState(outer.ps), true) || plan_can_rerun(outerPlanState(inner.ps), true));
	if (node->inner_first)
		sorted_input_filter(&inner, &outer);
	else if (saves_inner > 0)
		sorted_input_filter(&outer, &inner);
}

/* Builds the projection again, because the kinds of the children's slots are known now. */
static void
init_projection(MergedJoin *node)
{
	PlanState  *ps = &node->css.ss.ps;

	/* a stored row, or NULLs, may take the place of the child's row */
	ps->inneropsset = true;
	ps->inneropsfixed = false;
	ps->resultopsset = ps->resultopsfixed = true;
	ps->resultops = &TTSOpsVirtual;
	ExecAssignProjectionInfo(ps, NULL);
}

static void
join_begin(CustomScanState *css, EState *estate, int eflags)
{
	MergedJoin *node = (MergedJoin *) css;
	CustomScan *cscan = (CustomScan *) css->ss.ps.plan;
	const Join *join;
	TupleDesc	inner;

	outerPlanState(css) = ExecInitNode(outerPlan(cscan), estate, eflags);
	innerPlanState(css) = ExecInitNode(innerPlan(cscan), estate, eflags);
	inner = ExecGetResultType(innerPlanState(css));

	node->join = linitial_node(MergeJoin, cscan->custom_private);
	join = &node->join->join;
	node->fills = join->jointype == JOIN_LEFT || join->jointype == JOIN_ANTI;
	node->one_match = join->inner_unique || join->jointype == JOIN_SEMI || join->jointype == JOIN_ANTI;
	node->one_decides = node->one_match && join->joinqual == NIL;
	init_projection(node);
	node->condition = ExecInitQual(join->joinqual, &css->ss.ps);
	node->filter = css->ss.ps.qual;
	node->evaluates = node->condition != NULL || node->filter != NULL || !only_columns(cscan->scan.plan.targetlist);
	init_keys(node);
	if ((eflags & EXEC_FLAG_EXPLAIN_ONLY) == 0)
		begin_filter(node);
	node->stored = ExecInitExtraTupleSlot(estate, inner, &TTSOpsMinimalTuple);
	if (node->fills)
		node->nulls = ExecInitNullTupleSlot(estate, inner, &TTSOpsVirtual);
	css->ss.ps.ExecProcNode = node->nkeys == 1 && node->keys[0].outer_bytes > 0 && !node->keys[0].merge.reverse ?
		join_exec_int : join_exec;
}

static void
join_end(CustomScanState *css)
{
	MergedJoin *node = (MergedJoin *) css;

	ExecClearTuple(node->stored);
	if (node->group.more != NULL)
		tuplestore_end(node->group.more);
	ExecEndNode(outerPlanState(css));
	ExecEndNode(innerPlanState(css));
}

static void
join_rescan(CustomScanState *css)
{
	MergedJoin *node = (MergedJoin *) css;

	ExecClearTuple(css->ss.ps.ps_ResultTupleSlot);
	ExecClearTuple(node->stored);
	group_clear(&node->group);
	node->outer = node->inner = NULL;
	node->in_group = node->matched = node->begun = false;
	if (outerPlanState(css)->chgParam == NULL)
		ExecReScan(outerPlanState(css));
	if (innerPlanState(css)->chgParam == NULL)
		ExecReScan(innerPlanState(css));
}

/* Names of the types that merge_join_has_node() lets through. */
static const char *const join_type_names[] = {
	[JOIN_INNER] = "Inner",
	[JOIN_LEFT] = "Left",
	[JOIN_SEMI] = "Semi",
	[JOIN_ANTI] = "Anti"
};

static void
join_explain(CustomScanState *css, List *ancestors, ExplainState *es)
{
	MergedJoin *node = (MergedJoin *) css;

	ExplainPropertyText("Join Type", join_type_names[node->join->join.jointype], es);
	if (es->verbose)
		ExplainPropertyBool("Inner Unique", node->join->join.inner_unique, es);
	explain_condition(css, "Merge Cond", node->join->mergeclauses, ancestors, es);
	explain_condition(css, "Join Filter", node->join->join.joinqual, ancestors, es);
	if (es->analyze && node->unmatched_pairs > 0)
		ExplainPropertyFloat("Rows Removed by Join Filter", NULL,
							 node->unmatched_pairs / css->ss.ps.instrument->nloops, 0, es);
}

const NodeType join_node = {
	.scan = {.CustomName = "GpuSort Join",.CreateCustomScanState = custom_create_state},
	.exec = {
		.CustomName = "GpuSort Join",
		.BeginCustomScan = join_begin,
		.ExecCustomScan = custom_exec,
		.EndCustomScan = join_end,
		.ReScanCustomScan = join_rescan,
		.ExplainCustomScan = join_explain
	},
	.state_size = sizeof(MergedJoin)
};
