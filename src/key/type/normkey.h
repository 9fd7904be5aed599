/*
 * normkey.h
 *	  Order-preserving normalized keys of fixed-width types passed by value.
 *
 * normkey(a) < normkey(b), as unsigned integers, if and only if a sorts before b
 * in the type's default btree order.  normkey(a) = normkey(b) if and only if a
 * and b are equal in that order.  A descending column uses the complement.
 *
 *	integers	the sign bit is flipped, so that negative values come first
 *	floats		a positive value gets its sign bit set, a negative value is
 *				complemented (IEEE 754 orders like sign-magnitude integers).
 *				Before that -0 becomes +0, and each NaN becomes the one quiet NaN,
 *				which sorts above +infinity as in PostgreSQL.
 *	unsigned	bool, "char", oid, xid8 and pg_lsn are used as they are
 *
 * Plain C without PostgreSQL headers, because the unit tests and the callers of
 * the kernels include it.
 */
#ifndef GPUSORT_KEY_TYPE_NORMKEY_H
#define GPUSORT_KEY_TYPE_NORMKEY_H

#include <stdint.h>
#include <string.h>

#define NORMKEY_SIGN32	UINT32_C(0x80000000)
#define NORMKEY_SIGN64	UINT64_C(0x8000000000000000)

static inline uint32_t
normkey_uint32(uint32_t v)
{
	return v;
}

static inline uint32_t
normkey_int32(int32_t v)
{
	return (uint32_t) v ^ NORMKEY_SIGN32;
}

static inline uint64_t
normkey_uint64(uint64_t v)
{
	return v;
}

static inline uint64_t
normkey_int64(int64_t v)
{
	return (uint64_t) v ^ NORMKEY_SIGN64;
}

static inline uint32_t
normkey_float4(float v)
{
	uint32_t	b;

	if (v != v)
		return UINT32_C(0xFFC00000);	/* positive quiet NaN, sign bit set */
	v += 0.0f;					/* -0 becomes +0 */
	memcpy(&b, &v, sizeof(b));
	return b ^ ((uint32_t) ((int32_t) b >> 31) | NORMKEY_SIGN32);
}

static inline uint64_t
normkey_float8(double v)
{
	uint64_t	b;

	if (v != v)
		return UINT64_C(0xFFF8000000000000);
	v += 0.0;
	memcpy(&b, &v, sizeof(b));
	return b ^ ((uint64_t) ((int64_t) b >> 63) | NORMKEY_SIGN64);
}

#endif							/* GPUSORT_KEY_TYPE_NORMKEY_H */
