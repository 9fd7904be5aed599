/*
 * unique.c
 *	  Violations of uniqueness: PostgreSQL's error for two rows with equal keys.
 *
 * Memory policy: allocates in the caller's memory context, which ends with the build.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "index/index_internal.h"
#include "miscadmin.h"
#include "utils/tuplesort.h"

/* The argument of check_equal_rows(). */
typedef struct UniqueIndex
{
	Relation	heap;
	Relation	index;
	const IndexInfo *info;
} UniqueIndex;

void
index_raise_violation(Relation heap, Relation index, const IndexInfo *info, IndexTuple a, IndexTuple b)
{
	Tuplesortstate *sort = tuplesort_begin_index_btree(heap, index, true, info->ii_NullsNotDistinct, work_mem, NULL,
													   TUPLESORT_NONE);
	IndexTuple	tuples[] = {a, b};

	ereport(DEBUG1,
			(errmsg_internal("gpusort found equal keys of unique index \"%s\"", RelationGetRelationName(index))));
	for (int i = 0; i < (int) lengthof(tuples); i++)
	{
		Datum		values[INDEX_MAX_KEYS];
		bool		isnull[INDEX_MAX_KEYS];

		index_deform_tuple(tuples[i], RelationGetDescr(index), values, isnull);
		tuplesort_putindextuplevalues(sort, index, &tuples[i]->t_tid, values, isnull);
	}
	tuplesort_performsort(sort);
	tuplesort_end(sort);
}

static IndexTuple
form_index_tuple(Relation index, MinimalTuple row)
{
	HeapTupleData tuple;
	IndexTuple	itup;
	Datum		values[INDEX_MAX_KEYS];
	bool		isnull[INDEX_MAX_KEYS];

	tuple.t_len = row->t_len + MINIMAL_TUPLE_OFFSET;
	tuple.t_data = (HeapTupleHeader) ((char *) row - MINIMAL_TUPLE_OFFSET);
	heap_deform_tuple(&tuple, RelationGetDescr(index), values, isnull);
	itup = index_form_tuple(RelationGetDescr(index), values, isnull);
	row_get_tid(row, &itup->t_tid);
	return itup;
}

/* EqualRows */
static void
check_equal_rows(void *arg, MinimalTuple a, MinimalTuple b)
{
	const UniqueIndex *unique = arg;

	if (unique->info->ii_NullsNotDistinct ||
		!index_row_has_null_key(a, IndexRelationGetNumberOfKeyAttributes(unique->index)))
		index_raise_violation(unique->heap, unique->index, unique->info, form_index_tuple(unique->index, a),
							  form_index_tuple(unique->index, b));
}

void
index_check_unique(SortSpec *spec, Relation heap, Relation index, const IndexInfo *info)
{
	UniqueIndex *unique;

	if (!info->ii_Unique)
		return;
	unique = palloc(sizeof(UniqueIndex));
	unique->heap = heap;
	unique->index = index;
	unique->info = info;
	spec->on_equal = check_equal_rows;
	spec->on_equal_arg = unique;
}
