/*
 * keytype.c
 *	  Key kinds of SQL types; normalized keys of arrays, ranges and rows.
 *
 * The table is looked up by the ordering operator's family and input type, not by
 * the column's type.  A domain, or a type that uses another type's operators
 * (regclass uses those of oid), then needs no entry.  A column sorted by a foreign
 * operator class is not mistaken for the default order.  An operator that is not in
 * the table is sorted by the abbreviated key or the comparator of its operator class.
 *
 * An array, range, multirange or row gets the normalized key of its first part: the
 * first element, the lower bound or the first column.  PostgreSQL compares these
 * first, and continues only if they are equal.  The key is never exact.  Empty
 * arrays and ranges sort before all other values, then come ranges without a lower
 * bound.  A NULL part sorts last.
 *
 * The type of the first part is known when the first value arrives.  All values of
 * a column have the same part type, except rows of anonymous types and columns of
 * type anyarray.  PostgreSQL raises an ERROR when it compares two values whose parts
 * differ in type, and may raise one when they differ in collation.  Only the sort
 * decides which values are compared, so such a value gets key_unplaced() here.
 *
 * Memory policy: the state of a key maker lives as long as the sort's node.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/nbtree.h"
#include "access/transam.h"
#include "access/tupmacs.h"
#include "catalog/dependency.h"
#include "catalog/pg_type.h"
#include "commands/extension.h"
#include "compat.h"
#include "key/key_internal.h"
#include "key/key_string.h"
#include "mb/pg_wchar.h"
#include "utils/array.h"
#include "utils/multirangetypes.h"
#include "utils/rangetypes.h"
#include "utils/typcache.h"

/* PostgreSQL's headers do not name the operator families of all types. */
#define FAMILY_TEXT		1994
#define FAMILY_BPCHAR	426

typedef struct KeyType
{
	Oid			opfamily;		/* from pg_opfamily.dat */
	Oid			type;
	KeyKind		kind;
} KeyType;

static const KeyType key_types[] = {
	{1976, INT4OID, KEY_INT4},
	{1976, INT8OID, KEY_INT8},
	{1976, INT2OID, KEY_INT2},
	{1970, FLOAT8OID, KEY_FLOAT8},
	{1970, FLOAT4OID, KEY_FLOAT4},
	{434, TIMESTAMPTZOID, KEY_INT8},
	{434, TIMESTAMPOID, KEY_INT8},
	{434, DATEOID, KEY_INT4},
	{1996, TIMEOID, KEY_INT8},
	{2099, MONEYOID, KEY_INT8},
	{1989, OIDOID, KEY_UINT4},
	{424, BOOLOID, KEY_UINT8},
	{429, CHAROID, KEY_UINT8},
	{FAMILY_TEXT, TEXTOID, KEY_TEXT},
	{FAMILY_TEXT, NAMEOID, KEY_NAME},
	{FAMILY_BPCHAR, BPCHAROID, KEY_BPCHAR},
	{428, BYTEAOID, KEY_BYTEA},
	{1988, NUMERICOID, KEY_NUMERIC},
	{2968, UUIDOID, KEY_UUID},
	{1982, INTERVALOID, KEY_INTERVAL},
	{3522, ANYENUMOID, KEY_ENUM},
	{1974, INETOID, KEY_INET},
	{2000, TIMETZOID, KEY_TIMETZ},
	{1984, MACADDROID, KEY_MACADDR},
	{3371, MACADDR8OID, KEY_MACADDR8},
	{423, BITOID, KEY_BITS},
	{2002, VARBITOID, KEY_BITS},
	{2789, TIDOID, KEY_TID},
	{5067, XID8OID, KEY_UINT64},
	{3253, PG_LSNOID, KEY_UINT64},
	{397, ANYARRAYOID, KEY_ARRAY},
	{3901, ANYRANGEOID, KEY_RANGE},
	{4199, ANYMULTIRANGEOID, KEY_MULTIRANGE},
	{2994, RECORDOID, KEY_RECORD},
	{2095, TEXTOID, KEY_TEXT},	/* text_pattern_ops */
	{2097, BPCHAROID, KEY_BPCHAR},	/* bpchar_pattern_ops */
};

/* Chooses the kind of a column of strings by its collation. */
static bool
choose_string_kind(KeyColumn *key, Oid opfamily, const char **why)
{
	if (opfamily != FAMILY_TEXT && opfamily != FAMILY_BPCHAR)
		return true;
	if (!OidIsValid(key->collation))
	{
		*why = "its collation is not known";
		return false;
	}

	/*
	 * ICU takes longer to abbreviate a string than to compare each string
	 * once
	 */
	if (!collation_by_bytes(key->collation))
		key->kind = key_sorts_by_letters(key) ? KEY_COMPARED : abbreviated_kind(key);
	return true;
}

static const KeyType *
find_type(Oid opfamily, Oid type)
{
	for (int i = 0; i < (int) lengthof(key_types); i++)
	{
		if (key_types[i].opfamily == opfamily && key_types[i].type == type)
			return &key_types[i];
	}
	return NULL;
}

bool
key_type_lookup(KeyColumn *key, Oid type, const char **why)
{
	Oid			opfamily;
	Oid			opcintype;
	const KeyType *found;

	if (!compat_ordering_op(key->sortop, &opfamily, &opcintype, &key->descending))
	{
		*why = "the operator is not a btree ordering operator";
		return false;
	}
	found = find_type(opfamily, opcintype);
	if (found != NULL)
	{
		key->kind = found->kind;
		return choose_string_kind(key, opfamily, why);
	}

	/*
	 * PostgreSQL would report a missing function only when it compares two
	 * values
	 */
	if (!OidIsValid(get_opfamily_proc(opfamily, opcintype, opcintype, BTORDER_PROC)) &&
		!OidIsValid(get_opfamily_proc(opfamily, opcintype, opcintype, BTSORTSUPPORT_PROC)))
	{
		*why = "the operator class has no comparison function";
		return false;
	}
	key->kind = abbreviated_kind(key);
	return true;
}

bool
key_sorts_strings(const KeyColumn *key, KeyKind *kind)
{
	Oid			opfamily;
	Oid			opcintype;
	bool		descending;
	const KeyType *found;

	if (!OidIsValid(key->collation) ||
		!compat_ordering_op(key->sortop, &opfamily, &opcintype, &descending) ||
		(opfamily != FAMILY_TEXT && opfamily != FAMILY_BPCHAR))
		return false;
	found = find_type(opfamily, opcintype);
	if (found != NULL)
		*kind = found->kind;
	return found != NULL;
}

bool
key_sorts_by_letters(const KeyColumn *key)
{
	KeyKind		kind;
	Oid			opfamily;
	Oid			type;
	bool		descending;
	char	   *extension;

	if (GetDatabaseEncoding() != PG_UTF8)
		return false;
	if (key_sorts_strings(key, &kind))
		return true;
	/* PostgreSQL's own types are of no extension: most columns need no catalog scan */
	if (!compat_ordering_op(key->sortop, &opfamily, &type, &descending) || type < FirstNormalObjectId ||
		lookup_type_cache(type, TYPECACHE_BTREE_OPFAMILY)->btree_opf != opfamily)
		return false;
	extension = get_extension_name(getExtensionOfObject(TypeRelationId, type));
	return extension != NULL && strcmp(extension, "citext") == 0;
}

bool
key_orders_by_equality(const KeyColumn *key)
{
	KeyKind		kind;

	return !OidIsValid(key->collation) || get_collation_isdeterministic(key->collation) ||
		key_sorts_strings(key, &kind);
}

/* ------------------------------------------------------------------------
 * Arrays, ranges, multiranges and rows
 * ------------------------------------------------------------------------
 */

#define NORMKEY_EMPTY		UINT64CONST(0)
#define NORMKEY_UNBOUND		UINT64CONST(1)
#define NORMKEY_FIRST		UINT64CONST(2)	/* least normalized key of a part */
#define NORMKEY_NULL		(PG_UINT64_MAX - 1)
#define NORMKEY_UNPLACED	PG_UINT64_MAX

#define TYPE_NO_COLUMN		VOIDOID /* part type of rows without columns */

typedef struct FirstPart
{
	MemoryContext cxt;
	Oid			collation;		/* of the column; for rows: of the first part */

	/* type of the first value's part; 0: not known yet */
	Oid			type;
	bool		has_normkey;	/* parts of this type have normalized keys */
	KeyBufferColumn col;		/* describes the part for normkey_of_value() */
	KeyMaker	maker;			/* key maker of col */
	TypeCacheEntry *entry;		/* of the array's elements or the range */
	TupleDesc	desc;			/* rows: descriptor of the last row's type */

	/* Rows: first column that is not dropped, from 0; -1: none. */
	int			att;

	/* rows: att has the first value's type and collation */
	bool		alike;
} FirstPart;

/* The part type is unknown until the first value arrives. */
static FirstPart *
first_part_create(MemoryContext cxt, Oid collation)
{
	FirstPart  *part = MemoryContextAllocZero(cxt, sizeof(FirstPart));

	part->cxt = cxt;
	part->collation = collation;
	return part;
}

/*
 * A key maker points to catalog caches and functions of this process.  It is kept
 * apart from the key buffer, which other processes may read.
 */
KeyMaker
key_maker_create(MemoryContext cxt, const KeyColumn *key, KeyKind kind)
{
	KeyMaker	maker = NO_KEY_MAKER;

	if (kind == KEY_ABBREVIATED)
		maker.ssup = abbreviated_support(cxt, key, true);
	else if (kind == KEY_ENUM)
		maker.enum_order = enum_order_create(cxt);
	else if (key_traits[kind].nested)
		maker.first_part = first_part_create(cxt, key->collation);
	return maker;
}

uint64
key_maker_part_type(KeyKind kind, KeyMaker maker)
{
	const FirstPart *part = maker.first_part;

	if (!key_traits[kind].nested || !OidIsValid(part->type))
		return 0;
	return (uint64) part->type << 32 | part->collation;
}

/* Sets the part type, and finds out whether its values have normalized keys. */
static void
set_part_type(FirstPart *part, Oid type, Oid collation, Oid cmp_proc)
{
	TypeCacheEntry *entry = lookup_type_cache(type, TYPECACHE_LT_OPR | TYPECACHE_CMP_PROC);
	KeyColumn	key = {.attno = 1,.sortop = entry->lt_opr,.collation = collation};
	const char *why;

	part->type = type;
	part->has_normkey = false;
	if (!OidIsValid(key.sortop) || (OidIsValid(cmp_proc) && cmp_proc != entry->cmp_proc) ||
		!key_type_lookup(&key, type, &why))
		return;

	/*
	 * the comparator of the whole value is slower than abbreviating its first
	 * part
	 */
	if (key.kind == KEY_COMPARED)
		key.kind = abbreviated_kind(&key);
	if (key.kind == KEY_COMPARED || key_traits[key.kind].nested || key.descending)
		return;
	part->col.kind = key.kind;
	part->maker = key_maker_create(part->cxt, &key, key.kind);
	part->has_normkey = true;
}

static uint64
part_normkey(const FirstPart *part, Datum value)
{
	bool		inexact;
	uint64		normkey;

	if (!part->has_normkey)
		return NORMKEY_FIRST;
	normkey = normkey_of_value(&part->col, part->maker, value, &inexact);
	if (unlikely(key_normkey_unplaced(&part->col, normkey)))
		return NORMKEY_UNPLACED;
	return NORMKEY_FIRST + (key_traits[part->col.kind].wide ? normkey >> 1 : normkey);
}

static inline struct varlena *
open_value(Datum value)
{
	CHECK_FOR_INTERRUPTS();
	return pg_detoast_datum((struct varlena *) DatumGetPointer(value));
}

static inline void
close_value(Datum value, struct varlena *opened)
{
	if ((Pointer) opened != DatumGetPointer(value))
		pfree(opened);
}

uint64
array_normkey(const KeyBufferColumn *col, KeyMaker maker, Datum value, bool *inexact)
{
	FirstPart  *part = maker.first_part;
	struct varlena *opened = open_value(value);
	ArrayType  *array = (ArrayType *) opened;
	uint64		normkey;

	*inexact = true;
	if (unlikely(!OidIsValid(part->type)))
	{
		set_part_type(part, ARR_ELEMTYPE(array), part->collation, InvalidOid);
		part->entry = lookup_type_cache(part->type, 0);
	}
	if (unlikely(part->type != ARR_ELEMTYPE(array)))
		normkey = NORMKEY_UNPLACED;
	else if (ArrayGetNItems(ARR_NDIM(array), ARR_DIMS(array)) == 0)
		normkey = NORMKEY_EMPTY;
	else if (ARR_HASNULL(array) && (*ARR_NULLBITMAP(array) & 1) == 0)
		normkey = NORMKEY_NULL;
	else
		normkey = part_normkey(part, fetch_att(ARR_DATA_PTR(array), part->entry->typbyval,
											   part->entry->typlen));
	close_value(value, opened);
	return normkey;
}

static void
set_range_type(FirstPart *part, TypeCacheEntry *range)
{
	part->entry = range;
	set_part_type(part, range->rngelemtype->type_id, range->rng_collation,
				  range->rng_cmp_proc_finfo.fn_oid);
}

static uint64
bound_normkey(const FirstPart *part, const RangeBound *lower)
{
	return lower->infinite ? NORMKEY_UNBOUND : part_normkey(part, lower->val);
}

uint64
range_normkey(const KeyBufferColumn *col, KeyMaker maker, Datum value, bool *inexact)
{
	FirstPart  *part = maker.first_part;
	struct varlena *opened = open_value(value);
	RangeType  *range = (RangeType *) opened;
	RangeBound	lower;
	RangeBound	upper;
	bool		empty;
	uint64		normkey;

	*inexact = true;
	if (unlikely(!OidIsValid(part->type)))
		set_range_type(part, lookup_type_cache(RangeTypeGetOid(range), TYPECACHE_RANGE_INFO));
	range_deserialize(part->entry, range, &lower, &upper, &empty);
	normkey = empty ? NORMKEY_EMPTY : bound_normkey(part, &lower);
	close_value(value, opened);
	return normkey;
}

uint64
multirange_normkey(const KeyBufferColumn *col, KeyMaker maker, Datum value, bool *inexact)
{
	FirstPart  *part = maker.first_part;
	struct varlena *opened = open_value(value);
	MultirangeType *ranges = (MultirangeType *) opened;
	RangeBound	lower;
	RangeBound	upper;
	uint64		normkey = NORMKEY_EMPTY;

	*inexact = true;
	if (unlikely(!OidIsValid(part->type)))
		set_range_type(part, lookup_type_cache(MultirangeTypeGetOid(ranges),
											   TYPECACHE_MULTIRANGE_INFO)->rngtype);
	if (!MultirangeIsEmpty(ranges))
	{
		multirange_get_bounds(part->entry, ranges, 0, &lower, &upper);
		normkey = bound_normkey(part, &lower);
	}
	close_value(value, opened);
	return normkey;
}

/* The row's type is not that of the last row.  An unknown type counts as one of no columns. */
static void
set_row_type(FirstPart *part, Oid type, int32 typmod)
{
	TupleDesc	desc = lookup_rowtype_tupdesc_noerror(type, typmod, true);
	MemoryContext old;
	Oid			part_type = TYPE_NO_COLUMN;
	Oid			collation = InvalidOid;

	if (part->desc != NULL)
		FreeTupleDesc(part->desc);
	part->desc = NULL;
	part->alike = false;
	if (desc == NULL)
		return;
	old = MemoryContextSwitchTo(part->cxt);
	part->desc = CreateTupleDescCopy(desc);
	MemoryContextSwitchTo(old);
	ReleaseTupleDesc(desc);

	part->att = 0;
	while (part->att < part->desc->natts && TupleDescAttr(part->desc, part->att)->attisdropped)
		part->att++;
	if (part->att == part->desc->natts)
		part->att = -1;
	else
	{
		part_type = TupleDescAttr(part->desc, part->att)->atttypid;
		collation = TupleDescAttr(part->desc, part->att)->attcollation;
	}
	if (!OidIsValid(part->type))
	{
		if (part->att >= 0)
			set_part_type(part, part_type, collation, InvalidOid);
		part->type = part_type;
		part->collation = collation;
	}
	part->alike = (part->type == part_type && part->collation == collation);
}

uint64
record_normkey(const KeyBufferColumn *col, KeyMaker maker, Datum value, bool *inexact)
{
	FirstPart  *part = maker.first_part;
	struct varlena *opened = open_value(value);
	HeapTupleHeader row = (HeapTupleHeader) opened;
	Oid			type = HeapTupleHeaderGetTypeId(row);
	int32		typmod = HeapTupleHeaderGetTypMod(row);
	uint64		normkey = NORMKEY_FIRST;

	*inexact = true;
	if (unlikely(part->desc == NULL || part->desc->tdtypeid != type || part->desc->tdtypmod != typmod))
		set_row_type(part, type, typmod);
	if (unlikely(!part->alike))
		normkey = NORMKEY_UNPLACED;
	else if (part->att >= 0)
	{
		HeapTupleData tuple;
		bool		isnull;
		Datum		first;

		tuple.t_len = HeapTupleHeaderGetDatumLength(row);
		ItemPointerSetInvalid(&tuple.t_self);
		tuple.t_tableOid = InvalidOid;
		tuple.t_data = row;
		first = heap_getattr(&tuple, part->att + 1, part->desc, &isnull);
		normkey = isnull ? NORMKEY_NULL : part_normkey(part, first);
	}
	close_value(value, opened);
	return normkey;
}
