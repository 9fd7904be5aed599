/*
 * enums.c
 *	  Keys that are of enum types.
 *
 * The image is the catalog's number for the place of a value among its type's.  All
 * are read when the first value comes.  Other sessions may add values to the type while
 * a sort is under way, and the catalog may then number all anew, in the same order: a
 * value that was not there at first gets the image of the one before it, inexactly, so
 * that what was numbered before stays.  A value that the catalog does not have has no image:
 * PostgreSQL looks for values in the catalog only where it compares two.
 *
 * Memory policy: the numbers live as long as the sort's node.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_enum.h"
#include "key/type/enums.h"
#include "key/stage.h"
#include "utils/catcache.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

typedef struct EnumPlace
{
	Oid			value;
	float4		order;
	uint32		image;
	bool		inexact;
} EnumPlace;

struct EnumOrder
{
	MemoryContext cxt;
	int			n;
	EnumPlace  *places;			/* by value */
};

EnumOrder *
enum_order_create(MemoryContext cxt)
{
	EnumOrder  *order = MemoryContextAllocZero(cxt, sizeof(EnumOrder));

	order->cxt = cxt;
	return order;
}

static const EnumPlace *
find_place(const EnumOrder *order, Oid value)
{
	int			from = 0;
	int			to = order->n;

	while (from < to)
	{
		int			mid = (from + to) / 2;

		if (order->places[mid].value == value)
			return &order->places[mid];
		if (order->places[mid].value < value)
			from = mid + 1;
		else
			to = mid;
	}
	return NULL;
}

static int
by_order(const void *a, const void *b)
{
	float4		x = ((const EnumPlace *) a)->order;
	float4		y = ((const EnumPlace *) b)->order;

	return (x > y) - (x < y);
}

static int
by_value(const void *a, const void *b)
{
	Oid			x = ((const EnumPlace *) a)->value;
	Oid			y = ((const EnumPlace *) b)->value;

	return (x > y) - (x < y);
}

/* Reads the values of the type that this one is of, if the catalog has it. */
static void
learn_type(EnumOrder *order, Oid value)
{
	HeapTuple	tuple = SearchSysCache1(ENUMOID, ObjectIdGetDatum(value));
	Oid			type;
	CatCList   *list;
	EnumPlace  *places;
	const EnumPlace *before = NULL;
	int			n;

	if (!HeapTupleIsValid(tuple))
		return;
	type = ((Form_pg_enum) GETSTRUCT(tuple))->enumtypid;
	ReleaseSysCache(tuple);

	list = SearchSysCacheList1(ENUMTYPOIDNAME, ObjectIdGetDatum(type));
	n = list->n_members;
	places = MemoryContextAlloc(order->cxt, Max(n, 1) * sizeof(EnumPlace));
	for (int i = 0; i < n; i++)
	{
		Form_pg_enum member = (Form_pg_enum) GETSTRUCT(&list->members[i]->tuple);

		places[i].value = member->oid;
		places[i].order = member->enumsortorder;
	}
	ReleaseCatCacheList(list);

	qsort(places, n, sizeof(EnumPlace), by_order);
	for (int i = 0; i < n; i++)
	{
		const EnumPlace *known = find_place(order, places[i].value);

		if (known != NULL)
		{
			places[i].image = known->image;
			places[i].inexact = known->inexact;
		}
		else
		{
			places[i].inexact = (order->n > 0);
			places[i].image = order->n == 0 ? image_float4(places[i].order) :
				before == NULL ? 0 : before->image;
		}
		before = &places[i];
	}
	qsort(places, n, sizeof(EnumPlace), by_value);
	if (order->places != NULL)
		pfree(order->places);
	order->places = places;
	order->n = n;
}

uint32
enum_image(const StageColumn *col, KeyMaker maker, Datum value, bool *inexact)
{
	EnumOrder  *order = maker.enum_order;
	const EnumPlace *place = find_place(order, DatumGetObjectId(value));

	if (unlikely(place == NULL))
	{
		learn_type(order, DatumGetObjectId(value));
		place = find_place(order, DatumGetObjectId(value));
		if (place == NULL)
		{
			*inexact = true;
			return (uint32) key_unplaced(KEY_ENUM);
		}
	}
	if (unlikely(place->inexact))
		*inexact = true;
	return place->image;
}
