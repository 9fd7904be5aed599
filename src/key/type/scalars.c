/*
 * scalars.c
 *	  Normalized keys of network addresses, bit strings and enums.
 *
 * PostgreSQL compares the bits that both networks have, then the networks' lengths,
 * then the hosts.  So networks sort as the nodes of a binary tree do when each comes
 * before what is below it, and the addresses written with a network's length come with
 * their network.  For IPv4 the image is the number of addresses that come before,
 * which takes 38 bits and is exact: a network with h bits of host has 2^h addresses of
 * its own, and with what is below it (h + 1) * 2^h.
 *
 * IPv6 networks are two words of 64 bits.  The first stands above all of IPv4: the few
 * networks that begin with too many zeros for that, but not 64, share one image.
 * Host bits and lengths are left to the comparator, so only addresses with all 128 bits
 * of network are exact.
 */
#include "postgres.h"

#include <sys/socket.h>

#include "access/detoast.h"
#include "access/htup_details.h"
#include "catalog/pg_enum.h"
#include "compat.h"
#include "key/key.h"
#include "key/key_internal.h"
#include "key/type/bytes.h"
#include "key/type/traits.h"
#include "miscadmin.h"
#include "utils/catcache.h"
#include "utils/inet.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

#define IPV6_FIRST	(UINT64CONST(1) << 38)	/* the first word of ::, and above IPv4 */

/* A value, and what to free, or NULL. */
static inline const inet_struct *
address_open(Datum value, void **copy)
{
	const char *p = (const char *) DatumGetPointer(value);

	*copy = NULL;
	if (unlikely(VARATT_IS_EXTERNAL(p) || VARATT_IS_4B_C(p)))
	{
		CHECK_FOR_INTERRUPTS();
		p = *copy = detoast_attr((struct varlena *) p);
	}
	return (const inet_struct *) VARDATA_ANY(p);
}

static inline void
address_close(void *copy)
{
	if (unlikely(copy != NULL))
		pfree(copy);
}

static inline uint64
ipv4_rank(uint32 address, int bits)
{
	uint32		host_mask = bits == 0 ? PG_UINT32_MAX : bits >= 32 ? 0 : PG_UINT32_MAX >> bits;
	uint32		net = address & ~host_mask;
	/* the addresses of the networks above this one */
	uint64		rank = (UINT64CONST(1) << 33) - (UINT64CONST(1) << (33 - bits));

	/* and of those to the left: (k + 1) * 2^k for each bit k, by the bits of k */
	rank += net;
	rank += (uint64) (net & 0xAAAAAAAA);
	rank += (uint64) (net & 0xCCCCCCCC) << 1;
	rank += (uint64) (net & 0xF0F0F0F0) << 2;
	rank += (uint64) (net & 0xFF00FF00) << 3;
	rank += (uint64) (net & 0xFFFF0000) << 4;
	return rank + (address & host_mask);
}

/* 64 bits of an IPv6 address from a byte on, less what is not the network's. */
static inline uint64
ipv6_net(const inet_struct *a, int byte)
{
	int			bits = a->bits - 8 * byte;
	uint64		word;

	if (bits <= 0)
		return 0;
	word = bytes_load((const char *) a->ipaddr + byte);
	return bits >= 64 ? word : word & ~(PG_UINT64_MAX >> bits);
}

uint64
inet_normkey(const struct KeyBufferColumn *col, KeyMaker maker, Datum value, bool *inexact)
{
	void	   *copy;
	const inet_struct *a = address_open(value, &copy);
	uint64		normkey;

	if (likely(a->family == PGSQL_AF_INET))
		normkey = ipv4_rank((uint32) (bytes_word((const char *) a->ipaddr, 4) >> 32), a->bits);
	else
	{
		normkey = ipv6_net(a, 0);
		if (normkey == 0)
			normkey = IPV6_FIRST;
		else if (unlikely(normkey <= IPV6_FIRST + 1))
		{
			normkey = IPV6_FIRST + 1;
			*inexact = true;
		}
	}
	address_close(copy);
	return normkey;
}

uint64
inet_low_normkey(const struct KeyBufferColumn *col, KeyMaker maker, Datum value, bool *inexact)
{
	void	   *copy;
	const inet_struct *a = address_open(value, &copy);
	uint64		normkey = 0;

	if (unlikely(a->family != PGSQL_AF_INET))
	{
		normkey = ipv6_net(a, 8);
		if (a->bits < 128)
			*inexact = true;
	}
	address_close(copy);
	return normkey;
}

/* ------------------------------------------------------------------------
 * Keys that are strings of bits: bit and varbit.
 *
 * PostgreSQL compares them by their bytes, then by their number of bits.  The image is
 * seven bytes, zeros behind the end, and the number of bits, which is exact for as many
 * as these hold.
 * ------------------------------------------------------------------------
 */

#define NORMKEY_BITS	56

uint64
bits_normkey(const struct KeyBufferColumn *col, KeyMaker maker, Datum value, bool *inexact)
{
	struct varlena *p = (struct varlena *) DatumGetPointer(value);
	void	   *copy = NULL;
	uint64		normkey;
	int32		bits;

	if (unlikely(VARATT_IS_EXTERNAL(p) || VARATT_IS_4B_C(p)))
	{
		CHECK_FOR_INTERRUPTS();
		p = copy = detoast_attr_slice(p, 0, sizeof(bits) + BYTES_WORD);
	}
	memcpy(&bits, VARDATA_ANY(p), sizeof(bits));
	normkey = bytes_word(VARDATA_ANY(p) + sizeof(bits), VARSIZE_ANY_EXHDR(p) - sizeof(bits));
	if (bits > NORMKEY_BITS)
		*inexact = true;
	if (unlikely(copy != NULL))
		pfree(copy);
	return (normkey & ~UINT64CONST(0xff)) | (uint64) Min(bits, NORMKEY_BITS + 1);
}

/* ------------------------------------------------------------------------
 * Keys that are of enum types.
 *
 * The image is the catalog's number for the position of a value among its type's.  All
 * are read when the first value comes.  Other sessions may add values to the type while
 * a sort is under way, and the catalog may then number all anew, in the same order: a
 * value that was not there at first gets the image of the one before it, inexactly, so
 * that what was numbered before stays.  A value that the catalog does not have has no image:
 * PostgreSQL looks for values in the catalog only where it compares two.
 *
 * Memory policy: the numbers live as long as the sort's node.
 * ------------------------------------------------------------------------
 */

typedef struct EnumPosition
{
	Oid			value;
	float4		order;
	uint32		normkey;
	bool		inexact;
} EnumPosition;

struct EnumOrder
{
	MemoryContext cxt;
	int			n;
	EnumPosition  *positions;			/* by value */
};

EnumOrder *
enum_order_create(MemoryContext cxt)
{
	EnumOrder  *order = MemoryContextAllocZero(cxt, sizeof(EnumOrder));

	order->cxt = cxt;
	return order;
}

static const EnumPosition *
enum_find(const EnumOrder *order, Oid value)
{
	int			from = 0;
	int			to = order->n;

	while (from < to)
	{
		int			mid = (from + to) / 2;

		if (order->positions[mid].value == value)
			return &order->positions[mid];
		if (order->positions[mid].value < value)
			from = mid + 1;
		else
			to = mid;
	}
	return NULL;
}

static int
compare_sortorders(const void *a, const void *b)
{
	float4		x = ((const EnumPosition *) a)->order;
	float4		y = ((const EnumPosition *) b)->order;

	return (x > y) - (x < y);
}

static int
compare_oids(const void *a, const void *b)
{
	Oid			x = ((const EnumPosition *) a)->value;
	Oid			y = ((const EnumPosition *) b)->value;

	return (x > y) - (x < y);
}

/* Reads the values of the type that this one is of, if the catalog has it. */
static void
enum_load(EnumOrder *order, Oid value)
{
	HeapTuple	tuple = SearchSysCache1(ENUMOID, ObjectIdGetDatum(value));
	Oid			type;
	CatCList   *list;
	EnumPosition  *positions;
	const EnumPosition *before = NULL;
	int			n;

	if (!HeapTupleIsValid(tuple))
		return;
	type = ((Form_pg_enum) GETSTRUCT(tuple))->enumtypid;
	ReleaseSysCache(tuple);

	list = SearchSysCacheList1(ENUMTYPOIDNAME, ObjectIdGetDatum(type));
	n = list->n_members;
	positions = MemoryContextAlloc(order->cxt, Max(n, 1) * sizeof(EnumPosition));
	for (int i = 0; i < n; i++)
	{
		Form_pg_enum member = (Form_pg_enum) GETSTRUCT(&list->members[i]->tuple);

		positions[i].value = member->oid;
		positions[i].order = member->enumsortorder;
	}
	ReleaseCatCacheList(list);

	qsort(positions, n, sizeof(EnumPosition), compare_sortorders);
	for (int i = 0; i < n; i++)
	{
		const EnumPosition *known = enum_find(order, positions[i].value);

		if (known != NULL)
		{
			positions[i].normkey = known->normkey;
			positions[i].inexact = known->inexact;
		}
		else
		{
			positions[i].inexact = (order->n > 0);
			positions[i].normkey = order->n == 0 ? normkey_float4(positions[i].order) :
				before == NULL ? 0 : before->normkey;
		}
		before = &positions[i];
	}
	qsort(positions, n, sizeof(EnumPosition), compare_oids);
	if (order->positions != NULL)
		pfree(order->positions);
	order->positions = positions;
	order->n = n;
}

uint32
enum_normkey(const KeyBufferColumn *col, KeyMaker maker, Datum value, bool *inexact)
{
	EnumOrder  *order = maker.enum_order;
	const EnumPosition *position = enum_find(order, DatumGetObjectId(value));

	if (unlikely(position == NULL))
	{
		enum_load(order, DatumGetObjectId(value));
		position = enum_find(order, DatumGetObjectId(value));
		if (position == NULL)
		{
			*inexact = true;
			return (uint32) key_unplaced(KEY_ENUM);
		}
	}
	if (unlikely(position->inexact))
		*inexact = true;
	return position->normkey;
}
