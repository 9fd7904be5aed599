/*
 * group_column.c
 *	  Columns that divide ordered rows into groups.
 *
 * Partitions and peer groups of window functions, and the groups of a sort by presorted
 * columns, end where a column's value differs from that of the row before.  DISTINCT wants
 * the first row of each group.
 *
 * Values with the same bytes are equal in every btree operator class.  For types whose
 * operator class says so (support function "equalimage") values with other bytes differ.
 * The values of other types are compared by the equality operator.
 */
#include "postgres.h"

#include "access/nbtree.h"
#include "catalog/pg_type.h"
#include "compat.h"
#include "executor/executor_internal.h"
#include "fmgr.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/typcache.h"

/*
 * Does the operator class of the operator say that values are equal only if their bytes
 * are?  The class of bpchar says so although it ignores trailing blanks; it is excluded.
 */
static bool
bytes_decide_equality(Oid equality, Oid collation, Oid type)
{
	TypeCacheEntry *typentry = lookup_type_cache(type, TYPECACHE_BTREE_OPFAMILY | TYPECACHE_EQ_OPR);
	Oid			proc;

	if (typentry->eq_opr != equality || typentry->btree_opintype == BPCHAROID)
		return false;
	proc = get_opfamily_proc(typentry->btree_opf, typentry->btree_opintype, typentry->btree_opintype,
							 BTEQUALIMAGE_PROC);
	return OidIsValid(proc) &&
		DatumGetBool(OidFunctionCall1Coll(proc, collation, ObjectIdGetDatum(typentry->btree_opintype)));
}

void
group_column_init(GroupColumn *column, AttrNumber attno, Oid equality, Oid collation, TupleDesc desc)
{
	Form_pg_attribute att = TupleDescAttr(desc, attno - 1);

	memset(column, 0, sizeof(*column));
	column->attno = attno;
	column->typlen = att->attlen;
	column->typbyval = att->attbyval;
	column->collation = collation;
	column->bytes_decide = bytes_decide_equality(equality, collation, att->atttypid);
	fmgr_info(get_opcode(equality), &column->equal);
}

static inline bool
is_plain_varlena(const void *value)
{
	return !VARATT_IS_EXTERNAL(value) && !VARATT_IS_4B_C(value);
}

/*
 * Does the value, which is passed by reference, have the bytes of the kept one?  If not,
 * *known says whether the values are known to differ.
 */
static inline bool
same_value_bytes(const GroupColumn *column, Datum value, bool *known)
{
	const char *a = DatumGetPointer(column->value);
	const char *b = DatumGetPointer(value);

	*known = column->bytes_decide;
	if (column->typlen > 0)
		return memcmp(a, b, column->typlen) == 0;
	if (column->typlen == -1 && is_plain_varlena(a) && is_plain_varlena(b))
		return VARSIZE_ANY_EXHDR(a) == VARSIZE_ANY_EXHDR(b) &&
			memcmp(VARDATA_ANY(a), VARDATA_ANY(b), VARSIZE_ANY_EXHDR(a)) == 0;
	*known = false;
	return false;
}

bool
group_column_compare(GroupColumn *column, Datum value, MemoryContext scratch)
{
	bool		known = column->bytes_decide;
	bool		equal;
	MemoryContext old;

	if (!column->typbyval && same_value_bytes(column, value, &known))
		return true;
	if (known)
		return false;
	old = MemoryContextSwitchTo(scratch);
	equal = DatumGetBool(FunctionCall2Coll(&column->equal, column->collation, column->value, value));
	MemoryContextSwitchTo(old);
	MemoryContextReset(scratch);
	return equal;
}

void
group_column_keep_by_reference(GroupColumn *column, Datum value, MemoryContext cxt)
{
	const void *from = DatumGetPointer(value);
	void	   *flat = NULL;
	Size		size;

	/* an out-of-line value may be an expanded object, whose owner may free it */
	if (column->typlen == -1 && VARATT_IS_EXTERNAL(from))
		from = flat = PG_DETOAST_DATUM_COPY(value);
	size = datumGetSize(PointerGetDatum(from), false, column->typlen);
	if (size > column->room)
	{
		if (column->copy != NULL)
			pfree(column->copy);
		column->copy = NULL;
		column->room = 0;
		column->copy = MemoryContextAlloc(cxt, size + size / 2);
		column->room = size + size / 2;
	}
	memcpy(column->copy, from, size);
	column->value = PointerGetDatum(column->copy);
	if (flat != NULL)
		pfree(flat);
}

/* ------------------------------------------------------------------------
 * Dropping duplicates
 * ------------------------------------------------------------------------
 */

DistinctFilter *
distinct_filter_create(TupleDesc desc, const KeyColumn *keys, int distinct)
{
	DistinctFilter *filter = palloc0(offsetof(DistinctFilter, columns) + distinct * sizeof(GroupColumn));

	filter->cxt = CurrentMemoryContext;
	filter->scratch = AllocSetContextCreate(CurrentMemoryContext, "GpuSort duplicates", ALLOCSET_SMALL_SIZES);
	filter->ncolumns = distinct;
	for (int i = 0; i < distinct; i++)
	{
		Oid			equality = get_equality_op_for_ordering_op(keys[i].sortop, NULL);

		if (!OidIsValid(equality))
			elog(ERROR, "missing equality operator for ordering operator %u", keys[i].sortop);
		group_column_init(&filter->columns[i], keys[i].attno, equality, keys[i].collation, desc);
		filter->last_attno = Max(filter->last_attno, keys[i].attno);
	}
	return filter;
}

void
distinct_filter_reset(DistinctFilter *filter)
{
	filter->begun = false;
	filter->dropped = 0;
}

bool
distinct_filter_pass(DistinctFilter *filter, TupleTableSlot *row)
{
	slot_getsomeattrs(row, filter->last_attno);
	if (filter->begun &&
		group_columns_first_difference(filter->columns, filter->ncolumns, row, filter->scratch) == filter->ncolumns)
	{
		filter->dropped++;
		return false;
	}
	for (int i = 0; i < filter->ncolumns; i++)
		group_column_keep(&filter->columns[i], row, filter->cxt);
	filter->begun = true;
	return true;
}
