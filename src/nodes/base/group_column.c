/*
 * group_column.c
 *	  Columns that divide ordered rows into groups.
 *
 * Partitions and peer groups of window functions, and the groups of a sort by presorted
 * columns, end where a column's value differs from that of the row before.  DISTINCT wants
 * the first row of each group.
 *
 * Values with the same bytes are equal in every btree operator class.  Values with other
 * bytes differ if the equality function is one of those that compare bytes.  Other values
 * are compared by their equality function.  What an operator class says of itself (support
 * function "equalimage") is not trusted: that of bpchar, which ignores trailing blanks, says
 * so wrongly.
 *
 * The bits of a Datum beyond the type's length are not compared.  They extend the value's sign, or are 0 if LLVM's
 * code has deformed the tuple, in PostgreSQL's releases before November 2025 (15.15, 16.11, 17.7, 18.1).
 */
#include "postgres.h"

#include "compat.h"
#include "executor/executor.h"
#include "nodes/base/group_column.h"
#include "utils/datum.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

/* Does the equality operator compare bytes? */
static bool
bytes_decide_equality(Oid equality, Oid collation)
{
	switch (get_opcode(equality))
	{
		case F_BOOLEQ:
		case F_CHAREQ:
		case F_INT2EQ:
		case F_INT4EQ:
		case F_INT8EQ:
		case F_OIDEQ:
		case F_DATE_EQ:
		case F_TIME_EQ:
		case F_TIMESTAMP_EQ:
		case F_TIMESTAMPTZ_EQ:
		case F_CASH_EQ:
		case F_PG_LSN_EQ:
		case F_ENUM_EQ:
		case F_UUID_EQ:
		case F_MACADDR_EQ:
		case F_BYTEAEQ:
			return true;
		case F_TEXTEQ:
			return OidIsValid(collation) && get_collation_isdeterministic(collation);
		default:
			return false;
	}
}

GroupColumns *
group_columns_create(const CustomScanState *css, int most)
{
	GroupColumns *columns = palloc0(offsetof(GroupColumns, columns) + most * sizeof(GroupColumn));

	columns->cxt = css->ss.ps.state->es_query_cxt;
	columns->scratch = css->ss.ps.ps_ExprContext->ecxt_per_tuple_memory;
	columns->desc = ExecGetResultType(outerPlanState(css));
	return columns;
}

void
group_column_init(GroupColumn *column, TupleDesc desc, AttrNumber attno)
{
	Form_pg_attribute att = TupleDescAttr(desc, attno - 1);

	column->attno = attno;
	column->typlen = att->attlen;
	column->typbyval = att->attbyval;
	column->bits = PG_UINT64_MAX;
	if (att->attbyval && att->attlen < sizeof(uint64))
		column->bits = (UINT64CONST(1) << (8 * att->attlen)) - 1;
}

void
group_columns_add(GroupColumns *columns, AttrNumber attno, Oid equality, Oid collation)
{
	GroupColumn *column = &columns->columns[columns->n++];

	columns->last_attno = Max(columns->last_attno, attno);
	group_column_init(column, columns->desc, attno);
	column->collation = collation;
	column->bytes_decide = bytes_decide_equality(equality, collation);
	fmgr_info(get_opcode(equality), &column->equal);
}

void
group_columns_add_keys(GroupColumns *columns, const KeyColumn *keys, int nkeys)
{
	for (int i = 0; i < nkeys; i++)
	{
		Oid			equality = get_equality_op_for_ordering_op(keys[i].sortop, NULL);

		if (!OidIsValid(equality))
			elog(ERROR, "missing equality operator for ordering operator %u", keys[i].sortop);
		group_columns_add(columns, keys[i].attno, equality, keys[i].collation);
	}
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
group_column_compare(GroupColumns *columns, int i, Datum value)
{
	GroupColumn *column = &columns->columns[i];
	bool		known = column->bytes_decide;
	bool		equal;
	MemoryContext old;

	if (!column->typbyval && same_value_bytes(column, value, &known))
		return true;
	if (known)
		return false;
	old = MemoryContextSwitchTo(columns->scratch);
	equal = DatumGetBool(FunctionCall2Coll(&column->equal, column->collation, column->value, value));
	MemoryContextSwitchTo(old);
	MemoryContextReset(columns->scratch);
	return equal;
}

void
group_column_keep_by_reference(GroupColumn *column, Datum value, MemoryContext cxt)
{
	const void *from = DatumGetPointer(value);
	void	   *flat = NULL;
	Size		size;

	/* an expanded object's owner may free it; a value to be compared is fetched once */
	if (column->typlen == -1 && VARATT_IS_EXTERNAL(from) &&
		(VARATT_IS_EXTERNAL_EXPANDED(from) || OidIsValid(column->equal.fn_oid)))
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
