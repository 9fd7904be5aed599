/*
 * addresses.c
 *	  Keys that are network addresses: inet and cidr.
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
#include "compat.h"
#include "key/type/bytes.h"
#include "key/type/traits.h"
#include "miscadmin.h"
#include "utils/inet.h"

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
inet_image(const struct StageColumn *col, KeyMaker maker, Datum value, bool *inexact)
{
	void	   *copy;
	const inet_struct *a = address_open(value, &copy);
	uint64		image;

	if (likely(a->family == PGSQL_AF_INET))
		image = ipv4_rank((uint32) (bytes_word((const char *) a->ipaddr, 4) >> 32), a->bits);
	else
	{
		image = ipv6_net(a, 0);
		if (image == 0)
			image = IPV6_FIRST;
		else if (unlikely(image <= IPV6_FIRST + 1))
		{
			image = IPV6_FIRST + 1;
			*inexact = true;
		}
	}
	address_close(copy);
	return image;
}

uint64
inet_low_image(const struct StageColumn *col, KeyMaker maker, Datum value, bool *inexact)
{
	void	   *copy;
	const inet_struct *a = address_open(value, &copy);
	uint64		image = 0;

	if (unlikely(a->family != PGSQL_AF_INET))
	{
		image = ipv6_net(a, 8);
		if (a->bits < 128)
			*inexact = true;
	}
	address_close(copy);
	return image;
}
