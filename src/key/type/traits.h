/*
 * traits.h
 *	  Table of key kinds: how the normalized key of each SQL type is made.
 *
 * A kind is a way to make an unsigned normalized key of a value.  KEY_KINDS() has
 * one row for each kind.  The enum and all switches over it are generated from
 * this table.  With a constant kind the compiler removes the switch, so loops over
 * rows call only inline functions.
 *
 * Normalized keys of fixed-width types passed by reference are made from the bytes
 * of the value, which are aligned as the type requires:
 *
 *	uuid, macaddr	the bytes, as memcmp() compares them
 *	tid				block number, then offset
 *	timetz			the moment in UTC, then the zone
 *	interval		microseconds, with a month of 30 days and a day of 24 hours.
 *					73 bits are significant.  The upper word is 0 for values that
 *					fit a signed 64-bit number.  An infinity (PostgreSQL 17) has
 *					the largest number in each field.
 */
#ifndef GPUSORT_KEY_TYPE_TRAITS_H
#define GPUSORT_KEY_TYPE_TRAITS_H

#include "postgres.h"

#include "datatype/timestamp.h"
#include "key/type/bytes.h"
#include "key/type/normkey.h"
#include "storage/itemptr.h"
#include "utils/date.h"

static inline uint64
normkey_uuid_low(const char *p)
{
	return bytes_load(p + 8);
}

static inline uint64
normkey_macaddr(const char *p)
{
	return bytes_word(p, 6) >> 16;
}

static inline uint64
normkey_tid(const char *p)
{
	ItemPointer tid = (ItemPointer) p;

	return (uint64) ItemPointerGetBlockNumberNoCheck(tid) << 16 | ItemPointerGetOffsetNumberNoCheck(tid);
}

static inline uint64
normkey_timetz(const char *p)
{
	const TimeTzADT *t = (const TimeTzADT *) p;

	return normkey_int64(t->time + t->zone * USECS_PER_SEC);
}

static inline uint32
normkey_timetz_zone(const char *p)
{
	return normkey_int32(((const TimeTzADT *) p)->zone);
}

static inline int128
interval_number(const char *p)
{
	const Interval *i = (const Interval *) p;

	return (int128) (i->month * INT64CONST(30) + i->day) * USECS_PER_DAY + i->time;
}

static inline uint32
normkey_interval(const char *p)
{
	return normkey_int32((int32) ((interval_number(p) + ((int128) 1 << 63)) >> 64));
}

static inline uint64
normkey_interval_low(const char *p)
{
	return normkey_int64((int64) interval_number(p));
}

/* ------------------------------------------------------------------------
 * The table
 *
 * VALUE rows are types passed by value.  REF rows are fixed-width types passed by
 * reference.  COMPUTED rows need a function call per value; most of them are
 * variable-length types.
 *
 *	kind		name; its number is stored in plans, so new kinds are appended
 *	normkey		type of the normalized key: uint32 or uint64
 *	type		VALUE: C type of the value in a tuple
 *	from_datum	VALUE: converts a Datum to that type
 *	make		makes the normalized key of an ascending column:
 *				VALUE: make(value); REF: make(const char *value);
 *				COMPUTED: make(const KeyBufferColumn *col, KeyMaker maker,
 *				Datum value, bool *inexact)
 *	words		columns of the key buffer that one SQL column takes: 2 for a
 *				normalized key of 128 bits.  The second column has the next kind,
 *				whose own number of words is 0.
 *	back		VALUE: converts the normalized key to a Datum, or
 *				key_not_decodable
 *
 * Normalized keys of VALUE and REF rows are exact: equal normalized keys (both
 * words for 128 bits) mean equal values.  A COMPUTED normalized key may be
 * inexact: unequal keys order the values, equal keys do not mean equal values.
 * make() then sets *inexact; for two words it is set for the word that lost
 * information.  A column behind an inexact normalized key must not decide.
 *
 * make() raises no ERROR that only a comparison of two values would raise.  A
 * value that has no normalized key gets key_unplaced().  A column that has such a
 * value is ordered by its comparator alone (key_range_unplaced()).
 * ------------------------------------------------------------------------
 */

/*        kind       normkey  type    from_datum      make          back */
#define KEY_KINDS(VALUE, REF, COMPUTED) \
	VALUE(KEY_UINT8,  uint32, uint8,  DatumGetUInt8,  normkey_uint32, datum_of_uint8) \
	VALUE(KEY_INT2,   uint32, int16,  DatumGetInt16,  normkey_int32,  datum_of_int2) \
	VALUE(KEY_INT4,   uint32, int32,  DatumGetInt32,  normkey_int32,  datum_of_int4) \
	VALUE(KEY_UINT4,  uint32, uint32, DatumGetUInt32, normkey_uint32, datum_of_uint4) \
	VALUE(KEY_FLOAT4, uint32, float4, DatumGetFloat4, normkey_float4, key_not_decodable) \
	VALUE(KEY_INT8,   uint64, int64,  DatumGetInt64,  normkey_int64,  datum_of_int8) \
	VALUE(KEY_FLOAT8, uint64, float8, DatumGetFloat8, normkey_float8, key_not_decodable) \
	COMPUTED(KEY_TEXT,   uint64, string_normkey, 1) \
	COMPUTED(KEY_BPCHAR, uint64, string_normkey, 1) \
	COMPUTED(KEY_NAME,   uint64, string_normkey, 1) \
	COMPUTED(KEY_BYTEA,  uint64, string_normkey, 1) \
	COMPUTED(KEY_ABBREVIATED, uint64, abbreviated_normkey, 1) \
	COMPUTED(KEY_COMPARED, uint32, compared_normkey, 1) \
	VALUE(KEY_UINT64, uint64, uint64, DatumGetUInt64, normkey_uint64, datum_of_uint64) \
	REF(KEY_UUID,          uint64, bytes_load, 2) \
	REF(KEY_UUID_LOW,      uint64, normkey_uuid_low, 0) \
	REF(KEY_MACADDR,       uint64, normkey_macaddr, 1) \
	REF(KEY_MACADDR8,      uint64, bytes_load, 1) \
	REF(KEY_TID,           uint64, normkey_tid, 1) \
	REF(KEY_TIMETZ,        uint64, normkey_timetz, 2) \
	REF(KEY_TIMETZ_ZONE,   uint32, normkey_timetz_zone, 0) \
	REF(KEY_INTERVAL,      uint32, normkey_interval, 2) \
	REF(KEY_INTERVAL_LOW,  uint64, normkey_interval_low, 0) \
	COMPUTED(KEY_NUMERIC,     uint64, numeric_normkey, 2) \
	COMPUTED(KEY_NUMERIC_LOW, uint64, numeric_low_normkey, 0) \
	COMPUTED(KEY_INET,        uint64, inet_normkey, 2) \
	COMPUTED(KEY_INET_LOW,    uint64, inet_low_normkey, 0) \
	COMPUTED(KEY_BITS,        uint64, bits_normkey, 1) \
	COMPUTED(KEY_ENUM,        uint32, enum_normkey, 1) \
	COMPUTED(KEY_ARRAY,      uint64, array_normkey, 1) \
	COMPUTED(KEY_RANGE,      uint64, range_normkey, 1) \
	COMPUTED(KEY_MULTIRANGE, uint64, multirange_normkey, 1) \
	COMPUTED(KEY_RECORD,     uint64, record_normkey, 1)

#define KIND_NAME(kind, ...)	kind,
typedef enum KeyKind
{
	KEY_KINDS(KIND_NAME, KIND_NAME, KIND_NAME)
} KeyKind;

struct KeyBufferColumn;

/*
 * State that make() needs, by the column's kind.  It belongs to the process that
 * makes the normalized keys, see key_maker_create().
 */
typedef union KeyMaker
{
	struct SortSupportData *ssup;	/* KEY_ABBREVIATED */
	struct EnumOrder *enum_order;	/* KEY_ENUM */
	struct FirstPart *first_part;	/* nested kinds */
} KeyMaker;

/* For kinds that need no state. */
#define NO_KEY_MAKER	((KeyMaker) {NULL})

/* make() of a COMPUTED row. */
typedef uint64 MakeNormkey(const struct KeyBufferColumn *col, KeyMaker maker, Datum value, bool *inexact);

/* strings.c */
extern MakeNormkey string_normkey, abbreviated_normkey;

/* numerics.c: two words */
extern MakeNormkey numeric_normkey, numeric_low_normkey;

/* scalars.c */
extern MakeNormkey inet_normkey, inet_low_normkey, bits_normkey, enum_normkey;

/* keytype.c */
extern MakeNormkey array_normkey, range_normkey, multirange_normkey, record_normkey;

static inline uint32
compared_normkey(const struct KeyBufferColumn *col, KeyMaker maker, Datum value, bool *inexact)
{
	*inexact = true;
	return 0;
}

/* ------------------------------------------------------------------------
 * Decoding
 * ------------------------------------------------------------------------
 */
static inline Datum
datum_of_uint8(uint64 normkey)
{
	return CharGetDatum((char) (uint8) normkey);
}

static inline Datum
datum_of_int2(uint64 normkey)
{
	return Int16GetDatum((int16) (int32) ((uint32) normkey ^ NORMKEY_SIGN32));
}

static inline Datum
datum_of_int4(uint64 normkey)
{
	return Int32GetDatum((int32) ((uint32) normkey ^ NORMKEY_SIGN32));
}

static inline Datum
datum_of_uint4(uint64 normkey)
{
	/* signed as in fetch_att(), because Datums are also compared as words */
	return Int32GetDatum((int32) (uint32) normkey);
}

static inline Datum
datum_of_int8(uint64 normkey)
{
	return Int64GetDatum((int64) (normkey ^ NORMKEY_SIGN64));
}

static inline Datum
datum_of_uint64(uint64 normkey)
{
	return UInt64GetDatum(normkey);
}

/* Floats are not decodable: -0 and NaNs lose their bits. */
static inline Datum
key_not_decodable(uint64 normkey)
{
	pg_unreachable();
}

/* ------------------------------------------------------------------------
 * The table, as data
 * ------------------------------------------------------------------------
 */

/* What is known of a kind. */
typedef struct KeyTraits
{
	int8		words;			/* columns of the key buffer for one SQL column */
	bool		wide;			/* the normalized key has 8 bytes, otherwise 4 */
	bool		computed;		/* a function makes the normalized key, which may be inexact */
	bool		decodable;		/* a value can be restored from its key */
	bool		by_bytes;		/* made of a string's bytes (bytes.h) */
	bool		nested;			/* the key of the value's first part (keytype.c) */
	bool		may_be_unplaced;	/* make() may return key_unplaced() */

	/* the normalized key costs more than a comparison, or tells nothing */
	bool		needs_comparator;

	/* all processes make the same normalized keys, with enough detail */
	bool		same_in_processes;
} KeyTraits;

/* A constant of each file, so that a constant kind needs no load. */
static const KeyTraits key_traits[] = {
#define KIND_BY_BYTES(kind)	((kind) >= KEY_TEXT && (kind) <= KEY_BYTEA)
#define KIND_NESTED(kind)	((kind) >= KEY_ARRAY && (kind) <= KEY_RECORD)
#define VALUE_TRAITS(kind, normkey, type, from_datum, make, back) \
	[kind] = {.words = 1, .wide = sizeof(normkey) == sizeof(uint64), \
		.decodable = back != key_not_decodable, .same_in_processes = true},
#define REF_TRAITS(kind, normkey, make, number) \
	[kind] = {.words = number, .wide = sizeof(normkey) == sizeof(uint64), .same_in_processes = true},
#define COMPUTED_TRAITS(kind, normkey, make, number) \
	[kind] = {.words = number, .wide = sizeof(normkey) == sizeof(uint64), .computed = true, \
		.by_bytes = KIND_BY_BYTES(kind), .nested = KIND_NESTED(kind), \
		.may_be_unplaced = KIND_NESTED(kind) || (kind) == KEY_ENUM, \
		.needs_comparator = (kind) == KEY_ABBREVIATED || (kind) == KEY_COMPARED, \
		.same_in_processes = KIND_BY_BYTES(kind) || ((kind) >= KEY_NUMERIC && (kind) <= KEY_BITS)},
	KEY_KINDS(VALUE_TRAITS, REF_TRAITS, COMPUTED_TRAITS)
};

/* Marks a value without a normalized key, direction not applied.  No other value has it. */
static inline uint64
key_unplaced(KeyKind kind)
{
	return key_traits[kind].wide ? PG_UINT64_MAX : PG_UINT32_MAX;
}

#endif							/* GPUSORT_KEY_TYPE_TRAITS_H */
