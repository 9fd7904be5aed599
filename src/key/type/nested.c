/*
 * nested.c
 *	  Keys that are of types made of others: arrays, ranges, multiranges and rows.
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
 */
#include "postgres.h"

#include "access/detoast.h"
#include "access/htup_details.h"
#include "access/tupmacs.h"
#include "catalog/pg_type.h"
#include "key/stage.h"
#include "key/type/abbreviated.h"
#include "key/type/key_maker.h"
#include "key/type/nested.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/multirangetypes.h"
#include "utils/rangetypes.h"
#include "utils/typcache.h"

#define IMAGE_EMPTY		UINT64CONST(0)
#define IMAGE_UNBOUND	UINT64CONST(1)
#define IMAGE_FIRST		UINT64CONST(2)	/* of those that parts have */
#define IMAGE_NULL		(PG_UINT64_MAX - 1)
#define IMAGE_UNPLACED	PG_UINT64_MAX

#define TYPE_NO_COLUMN	VOIDOID	/* the parts' type if rows have no column */

struct FirstPart
{
	MemoryContext cxt;
	Oid			collation;		/* the sort's */
	Oid			type;			/* of the first value's part; 0: not known yet */
	bool		has_image;
	StageColumn image;
	KeyMaker	maker;			/* of its */
	TypeCacheEntry *entry;		/* of an array's elements; of the range */
	TupleDesc	desc;			/* of rows: the last one's */
	int			att;			/* their first column, from 0; -1: none */
	bool		alike;			/* it has the first value's type and collation */
};

FirstPart *
first_part_create(MemoryContext cxt, Oid collation)
{
	FirstPart  *part = MemoryContextAllocZero(cxt, sizeof(FirstPart));

	part->cxt = cxt;
	part->collation = collation;
	return part;
}

uint64
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
	part->has_image = false;
	if (!OidIsValid(key.sortop) || (OidIsValid(cmp_proc) && cmp_proc != entry->cmp_proc) ||
		!key_type_lookup(&key, type, &why))
		return;
	/* the comparator of the whole takes longer than that of a part */
	if (key.kind == KEY_COMPARED)
		key.kind = abbreviated_kind(&key);
	if (key.kind == KEY_COMPARED || key_nested(key.kind) || key.descending)
		return;
	part->image.kind = key.kind;
	part->maker = key_maker_create(part->cxt, &key, key.kind);
	part->has_image = true;
}

static uint64
part_image(const FirstPart *part, Datum value)
{
	bool		inexact;
	uint64		image;

	if (!part->has_image)
		return IMAGE_FIRST;
	image = key_image(&part->image, part->maker, value, &inexact);
	if (unlikely(key_image_unplaced(&part->image, image)))
		return IMAGE_UNPLACED;
	return IMAGE_FIRST + (key_wide(part->image.kind) ? image >> 1 : image);
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
array_image(const StageColumn *col, KeyMaker maker, Datum value, bool *inexact)
{
	FirstPart  *part = maker.first_part;
	struct varlena *opened = open_value(value);
	ArrayType  *array = (ArrayType *) opened;
	uint64		image;

	*inexact = true;
	if (unlikely(!OidIsValid(part->type)))
	{
		learn_part(part, ARR_ELEMTYPE(array), part->collation, InvalidOid);
		part->entry = lookup_type_cache(part->type, 0);
	}
	if (unlikely(part->type != ARR_ELEMTYPE(array)))
		image = IMAGE_UNPLACED;
	else if (ArrayGetNItems(ARR_NDIM(array), ARR_DIMS(array)) == 0)
		image = IMAGE_EMPTY;
	else if (ARR_HASNULL(array) && (*ARR_NULLBITMAP(array) & 1) == 0)
		image = IMAGE_NULL;
	else
		image = part_image(part, fetch_att(ARR_DATA_PTR(array), part->entry->typbyval,
										   part->entry->typlen));
	close_value(value, opened);
	return image;
}

static void
learn_range(FirstPart *part, TypeCacheEntry *range)
{
	part->entry = range;
	learn_part(part, range->rngelemtype->type_id, range->rng_collation,
			   range->rng_cmp_proc_finfo.fn_oid);
}

static uint64
bound_image(const FirstPart *part, const RangeBound *lower)
{
	return lower->infinite ? IMAGE_UNBOUND : part_image(part, lower->val);
}

uint64
range_image(const StageColumn *col, KeyMaker maker, Datum value, bool *inexact)
{
	FirstPart  *part = maker.first_part;
	struct varlena *opened = open_value(value);
	RangeType  *range = (RangeType *) opened;
	RangeBound	lower;
	RangeBound	upper;
	bool		empty;
	uint64		image;

	*inexact = true;
	if (unlikely(!OidIsValid(part->type)))
		learn_range(part, lookup_type_cache(RangeTypeGetOid(range), TYPECACHE_RANGE_INFO));
	range_deserialize(part->entry, range, &lower, &upper, &empty);
	image = empty ? IMAGE_EMPTY : bound_image(part, &lower);
	close_value(value, opened);
	return image;
}

uint64
multirange_image(const StageColumn *col, KeyMaker maker, Datum value, bool *inexact)
{
	FirstPart  *part = maker.first_part;
	struct varlena *opened = open_value(value);
	MultirangeType *ranges = (MultirangeType *) opened;
	RangeBound	lower;
	RangeBound	upper;
	uint64		image = IMAGE_EMPTY;

	*inexact = true;
	if (unlikely(!OidIsValid(part->type)))
		learn_range(part, lookup_type_cache(MultirangeTypeGetOid(ranges),
											TYPECACHE_MULTIRANGE_INFO)->rngtype);
	if (!MultirangeIsEmpty(ranges))
	{
		multirange_get_bounds(part->entry, ranges, 0, &lower, &upper);
		image = bound_image(part, &lower);
	}
	close_value(value, opened);
	return image;
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
record_image(const StageColumn *col, KeyMaker maker, Datum value, bool *inexact)
{
	FirstPart  *part = maker.first_part;
	struct varlena *opened = open_value(value);
	HeapTupleHeader row = (HeapTupleHeader) opened;
	Oid			type = HeapTupleHeaderGetTypeId(row);
	int32		typmod = HeapTupleHeaderGetTypMod(row);
	uint64		image = IMAGE_FIRST;

	*inexact = true;
	if (unlikely(part->desc == NULL || part->desc->tdtypeid != type || part->desc->tdtypmod != typmod))
		learn_row(part, type, typmod);
	if (unlikely(!part->alike))
		image = IMAGE_UNPLACED;
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
		image = isnull ? IMAGE_NULL : part_image(part, first);
	}
	close_value(value, opened);
	return image;
}
