/*
 * keytype.c
 *	  Which SQL types can be sort keys, and how a column of each is encoded.
 *
 * The table goes by the ordering operator's family and input type, not by the
 * column's type: a domain, or a type that merely sorts through another one's
 * operators (regclass through oid's), then works by itself, and a column sorted
 * by somebody else's operator class is never mistaken for the default order.  What is
 * not in the table sorts by the operator class's own abbreviation or comparator.
 */
#include "postgres.h"

#include "access/detoast.h"
#include "access/htup_details.h"
#include "access/nbtree.h"
#include "access/tupmacs.h"
#include "catalog/pg_type.h"
#include "compat.h"
#include "key/key.h"
#include "key/key_internal.h"
#include "key/type/keytype.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/multirangetypes.h"
#include "utils/rangetypes.h"
#include "utils/typcache.h"

/* OIDs of pg_opfamily.dat, not all of which the headers name. */
#define FAMILY_ARRAY			397
#define FAMILY_BIT				423
#define FAMILY_BOOL				424
#define FAMILY_BPCHAR			426
#define FAMILY_BYTEA			428
#define FAMILY_CHAR				429
#define FAMILY_DATETIME			434
#define FAMILY_FLOAT			1970
#define FAMILY_NETWORK			1974
#define FAMILY_INTEGER			1976
#define FAMILY_INTERVAL			1982
#define FAMILY_MACADDR			1984
#define FAMILY_NUMERIC			1988
#define FAMILY_OID				1989
#define FAMILY_TEXT				1994
#define FAMILY_TIME				1996
#define FAMILY_TIMETZ			2000
#define FAMILY_VARBIT			2002
#define FAMILY_TEXT_PATTERN		2095
#define FAMILY_BPCHAR_PATTERN	2097
#define FAMILY_MONEY			2099
#define FAMILY_TID				2789
#define FAMILY_UUID				2968
#define FAMILY_RECORD			2994
#define FAMILY_PG_LSN			3253
#define FAMILY_MACADDR8			3371
#define FAMILY_ENUM				3522
#define FAMILY_RANGE			3901
#define FAMILY_MULTIRANGE		4199
#define FAMILY_XID8				5067

typedef struct KeyType
{
	Oid			opfamily;
	Oid			type;
	KeyKind		kind;
} KeyType;

static const KeyType key_types[] = {
	{FAMILY_INTEGER, INT4OID, KEY_INT4},
	{FAMILY_INTEGER, INT8OID, KEY_INT8},
	{FAMILY_INTEGER, INT2OID, KEY_INT2},
	{FAMILY_FLOAT, FLOAT8OID, KEY_FLOAT8},
	{FAMILY_FLOAT, FLOAT4OID, KEY_FLOAT4},
	{FAMILY_DATETIME, TIMESTAMPTZOID, KEY_INT8},
	{FAMILY_DATETIME, TIMESTAMPOID, KEY_INT8},
	{FAMILY_DATETIME, DATEOID, KEY_INT4},
	{FAMILY_TIME, TIMEOID, KEY_INT8},
	{FAMILY_MONEY, MONEYOID, KEY_INT8},
	{FAMILY_OID, OIDOID, KEY_UINT4},
	{FAMILY_BOOL, BOOLOID, KEY_UINT8},
	{FAMILY_CHAR, CHAROID, KEY_UINT8},
	{FAMILY_TEXT, TEXTOID, KEY_TEXT},
	{FAMILY_TEXT, NAMEOID, KEY_NAME},
	{FAMILY_BPCHAR, BPCHAROID, KEY_BPCHAR},
	{FAMILY_BYTEA, BYTEAOID, KEY_BYTEA},
	{FAMILY_NUMERIC, NUMERICOID, KEY_NUMERIC},
	{FAMILY_UUID, UUIDOID, KEY_UUID},
	{FAMILY_INTERVAL, INTERVALOID, KEY_INTERVAL},
	{FAMILY_ENUM, ANYENUMOID, KEY_ENUM},
	{FAMILY_NETWORK, INETOID, KEY_INET},
	{FAMILY_TIMETZ, TIMETZOID, KEY_TIMETZ},
	{FAMILY_MACADDR, MACADDROID, KEY_MACADDR},
	{FAMILY_MACADDR8, MACADDR8OID, KEY_MACADDR8},
	{FAMILY_BIT, BITOID, KEY_BITS},
	{FAMILY_VARBIT, VARBITOID, KEY_BITS},
	{FAMILY_TID, TIDOID, KEY_TID},
	{FAMILY_XID8, XID8OID, KEY_UINT64},
	{FAMILY_PG_LSN, PG_LSNOID, KEY_UINT64},
	{FAMILY_ARRAY, ANYARRAYOID, KEY_ARRAY},
	{FAMILY_RANGE, ANYRANGEOID, KEY_RANGE},
	{FAMILY_MULTIRANGE, ANYMULTIRANGEOID, KEY_MULTIRANGE},
	{FAMILY_RECORD, RECORDOID, KEY_RECORD},
	{FAMILY_TEXT_PATTERN, TEXTOID, KEY_TEXT},
	{FAMILY_BPCHAR_PATTERN, BPCHAROID, KEY_BPCHAR},
};

static FirstPart *first_part_create(MemoryContext cxt, Oid collation);
static uint64 first_part_kind(const FirstPart *part);

/* The order of strings is their collation's. */
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
	/* to abbreviate strings takes ICU longer than to compare each once (tie_hints.c) */
	if (!collation_by_bytes(key->collation))
		key->kind = collation_by_letters(key->collation) ? KEY_COMPARED : abbreviated_kind(key);
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
	/* such a class fails only where a value is compared, which an EXPLAIN never does */
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

/* ------------------------------------------------------------------------
 * What a column's images are made with.
 *
 * A comparator with its abbreviation, an enum's order, what is known of first parts: all of
 * this points to catalogs' caches and functions of this process, so that it is kept apart
 * from the images, which others may read.
 * ------------------------------------------------------------------------
 */

KeyMaker
key_maker_create(MemoryContext cxt, const KeyColumn *key, KeyKind kind)
{
	KeyMaker	maker = NO_KEY_MAKER;

	if (kind == KEY_ABBREVIATED)
		maker.ssup = abbreviated_support(cxt, key, true);
	else if (kind == KEY_ENUM)
		maker.enum_order = enum_order_create(cxt);
	else if (key_nested(kind))
		maker.first_part = first_part_create(cxt, key->collation);
	return maker;
}

uint64
key_maker_part_type(KeyKind kind, KeyMaker maker)
{
	return key_nested(kind) ? first_part_kind(maker.first_part) : 0;
}

/* ------------------------------------------------------------------------
 * Keys that are of types made of others: arrays, ranges, multiranges and rows.
 *
 * PostgreSQL compares the first elements, the lower bounds, the first columns, and goes on
 * only where these are equal.  So the image of the first part, which its own type makes,
 * tells most values apart; it is never exact.  Beside it there are an array or range
 * that is empty, before all others, a range without a lower bound, which comes next, and
 * a part that is NULL, behind all others.
 *
 * The parts' type is known when the first value comes.  It is the same in all of a column,
 * but for rows of no named type, and what has no type but anyarray.  PostgreSQL raises an ERROR
 * where it compares two values whose parts differ in type, and may raise one where they differ in
 * collation.  Whether two are ever compared is the sort's affair: such a value has no normalized
 * key here (key_unplaced()).
 *
 * Memory policy: what is known lives as long as the sort's node.
 * ------------------------------------------------------------------------
 */

#define NORMKEY_EMPTY		UINT64CONST(0)
#define NORMKEY_UNBOUND	UINT64CONST(1)
#define NORMKEY_FIRST		UINT64CONST(2)	/* of those that parts have */
#define NORMKEY_NULL		(PG_UINT64_MAX - 1)
#define NORMKEY_UNPLACED	PG_UINT64_MAX

#define TYPE_NO_COLUMN	VOIDOID	/* the parts' type if rows have no column */

struct FirstPart
{
	MemoryContext cxt;
	Oid			collation;		/* the sort's */
	Oid			type;			/* of the first value's part; 0: not known yet */
	bool		has_normkey;
	KeyBufferColumn normkey;
	KeyMaker	maker;			/* of its */
	TypeCacheEntry *entry;		/* of an array's elements; of the range */
	TupleDesc	desc;			/* of rows: the last one's */
	int			att;			/* their first column, from 0; -1: none */
	bool		alike;			/* it has the first value's type and collation */
};

/* What is known of a column's first parts: nothing, until the first value comes. */
static FirstPart *
first_part_create(MemoryContext cxt, Oid collation)
{
	FirstPart  *part = MemoryContextAllocZero(cxt, sizeof(FirstPart));

	part->cxt = cxt;
	part->collation = collation;
	return part;
}

/* Type and collation of the first parts as one number; 0: no value has come yet. */
static uint64
first_part_kind(const FirstPart *part)
{
	return (uint64) part->type << 32 | (OidIsValid(part->type) ? part->collation : 0);
}

/* How parts of this type are compared, and whether there are images for that. */
static void
learn_part(FirstPart *part, Oid type, Oid collation, Oid cmp_proc)
{
	TypeCacheEntry *entry = lookup_type_cache(type, TYPECACHE_LT_OPR | TYPECACHE_CMP_PROC);
	KeyColumn	key = {.attno = 1,.sortop = entry->lt_opr,.collation = collation};
	const char *why;

	part->type = type;
	part->has_normkey = false;
	if (!OidIsValid(key.sortop) || (OidIsValid(cmp_proc) && cmp_proc != entry->cmp_proc) ||
		!key_type_lookup(&key, type, &why))
		return;
	/* the comparator of the whole takes longer than that of a part */
	if (key.kind == KEY_COMPARED)
		key.kind = abbreviated_kind(&key);
	if (key.kind == KEY_COMPARED || key_nested(key.kind) || key.descending)
		return;
	part->normkey.kind = key.kind;
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
	normkey = normkey_of_value(&part->normkey, part->maker, value, &inexact);
	if (unlikely(key_normkey_unplaced(&part->normkey, normkey)))
		return NORMKEY_UNPLACED;
	return NORMKEY_FIRST + (key_wide(part->normkey.kind) ? normkey >> 1 : normkey);
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
		learn_part(part, ARR_ELEMTYPE(array), part->collation, InvalidOid);
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
learn_range(FirstPart *part, TypeCacheEntry *range)
{
	part->entry = range;
	learn_part(part, range->rngelemtype->type_id, range->rng_collation,
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
		learn_range(part, lookup_type_cache(RangeTypeGetOid(range), TYPECACHE_RANGE_INFO));
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
		learn_range(part, lookup_type_cache(MultirangeTypeGetOid(ranges),
											TYPECACHE_MULTIRANGE_INFO)->rngtype);
	if (!MultirangeIsEmpty(ranges))
	{
		multirange_get_bounds(part->entry, ranges, 0, &lower, &upper);
		normkey = bound_normkey(part, &lower);
	}
	close_value(value, opened);
	return normkey;
}

/* Rows of another type than the last one.  A type that is not known has no columns. */
static void
learn_row(FirstPart *part, Oid type, int32 typmod)
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
			learn_part(part, part_type, collation, InvalidOid);
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
		learn_row(part, type, typmod);
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
