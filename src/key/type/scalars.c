/*
 * scalars.c
 *	  Normalized keys of network addresses, bit strings and enums.
 *
 * inet and cidr: PostgreSQL compares the common network bits, then the network
 * lengths, then the host bits.  Networks therefore sort as the nodes of a binary tree
 * in preorder, and each address sorts within its network.  The normalized key of an
 * IPv4 value is the number of values that sort before it.  It has 38 bits and is
 * exact: a network with h host bits has 2^h addresses of its own, and (h + 1) * 2^h
 * together with all networks below it.
 *
 * An IPv6 value takes two words, the 128 bits of its network.  The first word lies
 * above all IPv4 keys.  Networks whose first word would be too small for that, but not
 * 0, share one inexact key.  Host bits and lengths are not in the key, so only
 * addresses with 128 network bits are exact.
 *
 * bit and varbit: PostgreSQL compares the bytes, then the number of bits.  The
 * normalized key is seven bytes, padded with zeros, and the number of bits.  It is
 * exact for strings of up to 56 bits.
 *
 * Enums: the normalized key is the value's sort position in the catalog.  The positions
 * of a type are read when the first value arrives.  Other sessions may add values
 * meanwhile, and the catalog may then renumber all values, in the same order.  A value
 * that was added later gets the inexact key of its predecessor, so older keys stay
 * valid.  A value that the catalog does not have gets key_unplaced(), because
 * PostgreSQL looks up a value only when it compares two values.
 *
 * Memory policy: an enum's positions live as long as the sort's node.
 */
#include "postgres.h"

#include <sys/socket.h>

#include "access/htup_details.h"
#include "catalog/pg_enum.h"
#include "compat.h"
#include "key/key_internal.h"
#include "utils/builtins.h"
#include "utils/catcache.h"
#include "utils/inet.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

/* First word of ::, above all IPv4 keys. */
#define IPV6_FIRST	(UINT64CONST(1) << 38)

/* ------------------------------------------------------------------------
 * inet and cidr
 * ------------------------------------------------------------------------
 */

static inline uint64
ipv4_rank(uint32 address, int bits)
{
	uint32		host_mask = bits == 0 ? PG_UINT32_MAX : bits >= 32 ? 0 : PG_UINT32_MAX >> bits;
	uint32		net = address & ~host_mask;

	/* the addresses of the networks that contain this network */
	uint64		rank = (UINT64CONST(1) << 33) - (UINT64CONST(1) << (33 - bits));

	/*
	 * the subtrees to the left: (k + 1) * 2^k for each bit k, added by the
	 * bits of k
	 */
	rank += net;
	rank += (uint64) (net & 0xAAAAAAAA);
	rank += (uint64) (net & 0xCCCCCCCC) << 1;
	rank += (uint64) (net & 0xF0F0F0F0) << 2;
	rank += (uint64) (net & 0xFF00FF00) << 3;
	rank += (uint64) (net & 0xFFFF0000) << 4;
	return rank + (address & host_mask);
}

/* 64 bits of an IPv6 address, from a byte on, with the host bits cleared. */
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
	const char *p = varlena_open(value, &copy);
	const inet_struct *a = (const inet_struct *) VARDATA_ANY(p);
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
	varlena_close(copy);
	return normkey;
}

uint64
inet_low_normkey(const struct KeyBufferColumn *col, KeyMaker maker, Datum value, bool *inexact)
{
	void	   *copy;
	const char *p = varlena_open(value, &copy);
	const inet_struct *a = (const inet_struct *) VARDATA_ANY(p);
	uint64		normkey = 0;

	if (unlikely(a->family != PGSQL_AF_INET))
	{
		normkey = ipv6_net(a, 8);
		if (a->bits < 128)
			*inexact = true;
	}
	varlena_close(copy);
	return normkey;
}

/* ------------------------------------------------------------------------
 * bit and varbit
 * ------------------------------------------------------------------------
 */

#define NORMKEY_BITS	56		/* bits of the string in its normalized key */

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
	varlena_close(copy);
	return (normkey & ~UINT64CONST(0xff)) | (uint64) Min(bits, NORMKEY_BITS + 1);
}

/* ------------------------------------------------------------------------
 * Enums
 * ------------------------------------------------------------------------
 */

/* Sort position of one value. */
typedef struct EnumPosition
{
	Oid			value;			/* first, for oid_cmp() */
	float4		order;			/* pg_enum.enumsortorder */
	uint32		normkey;
	bool		inexact;
} EnumPosition;

typedef struct EnumOrder
{
	MemoryContext cxt;
	int			n;
	EnumPosition *positions;	/* n positions, sorted by value */
} EnumOrder;

EnumOrder *
enum_order_create(MemoryContext cxt)
{
	EnumOrder  *order = MemoryContextAllocZero(cxt, sizeof(EnumOrder));

	order->cxt = cxt;
	return order;
}

static int
compare_sortorders(const void *a, const void *b)
{
	float4		x = ((const EnumPosition *) a)->order;
	float4		y = ((const EnumPosition *) b)->order;

	return (x > y) - (x < y);
}

static const EnumPosition *
enum_find(const EnumOrder *order, Oid value)
{
	EnumPosition wanted = {.value = value};

	return order->n == 0 ? NULL :
		bsearch(&wanted, order->positions, order->n, sizeof(EnumPosition), oid_cmp);
}

/* Reads the positions of all values of this value's type.  Ignores an unknown value. */
static void
enum_load(EnumOrder *order, Oid value)
{
	HeapTuple	tuple = SearchSysCache1(ENUMOID, ObjectIdGetDatum(value));
	Oid			type;
	CatCList   *list;
	EnumPosition *positions;
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
	qsort(positions, n, sizeof(EnumPosition), oid_cmp);
	if (order->positions != NULL)
		pfree(order->positions);
	order->positions = positions;
	order->n = n;
}

uint64
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
			return key_unplaced(KEY_ENUM);
		}
	}
	if (unlikely(position->inexact))
		*inexact = true;
	return position->normkey;
}
