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
normkey_uuid(const char *p)
{
	return bytes_load(p);
}

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
normkey_macaddr8(const char *p)
{
	return bytes_load(p);
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
 *	exact		COMPUTED: false if make() may set *inexact
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
	COMPUTED(KEY_TEXT,   uint64, string_normkey, 1, false) \
	COMPUTED(KEY_BPCHAR, uint64, string_normkey, 1, false) \
	COMPUTED(KEY_NAME,   uint64, string_normkey, 1, false) \
	COMPUTED(KEY_BYTEA,  uint64, string_normkey, 1, false) \
	COMPUTED(KEY_ABBREVIATED, uint64, abbreviated_normkey, 1, false) \
	COMPUTED(KEY_COMPARED, uint32, compared_normkey, 1, false) \
	VALUE(KEY_UINT64, uint64, uint64, DatumGetUInt64, normkey_uint64, datum_of_uint64) \
	REF(KEY_UUID,          uint64, normkey_uuid, 2) \
	REF(KEY_UUID_LOW,      uint64, normkey_uuid_low, 0) \
	REF(KEY_MACADDR,       uint64, normkey_macaddr, 1) \
	REF(KEY_MACADDR8,      uint64, normkey_macaddr8, 1) \
	REF(KEY_TID,           uint64, normkey_tid, 1) \
	REF(KEY_TIMETZ,        uint64, normkey_timetz, 2) \
	REF(KEY_TIMETZ_ZONE,   uint32, normkey_timetz_zone, 0) \
	REF(KEY_INTERVAL,      uint32, normkey_interval, 2) \
	REF(KEY_INTERVAL_LOW,  uint64, normkey_interval_low, 0) \
	COMPUTED(KEY_NUMERIC,     uint64, numeric_normkey, 2, false) \
	COMPUTED(KEY_NUMERIC_LOW, uint64, numeric_low_normkey, 0, false) \
	COMPUTED(KEY_INET,        uint64, inet_normkey, 2, false) \
	COMPUTED(KEY_INET_LOW,    uint64, inet_low_normkey, 0, false) \
	COMPUTED(KEY_BITS,        uint64, bits_normkey, 1, false) \
	COMPUTED(KEY_ENUM,        uint32, enum_normkey, 1, false) \
	COMPUTED(KEY_ARRAY,      uint64, array_normkey, 1, false) \
	COMPUTED(KEY_RANGE,      uint64, range_normkey, 1, false) \
	COMPUTED(KEY_MULTIRANGE, uint64, multirange_normkey, 1, false) \
	COMPUTED(KEY_RECORD,     uint64, record_normkey, 1, false)

#define VALUE_ENUM(kind, normkey, type, from_datum, make, back)	kind,
#define REF_ENUM(kind, normkey, make, words)	kind,
#define COMPUTED_ENUM(kind, normkey, make, words, exact)	kind,
typedef enum KeyKind
{
	KEY_KINDS(VALUE_ENUM, REF_ENUM, COMPUTED_ENUM)
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
	struct FirstPart *first_part;	/* key_nested() kinds */
} KeyMaker;

/* For kinds that need no state. */
#define NO_KEY_MAKER	((KeyMaker) {NULL})

/* strings.c */
extern uint64 string_normkey(const struct KeyBufferColumn *col, KeyMaker maker, Datum value, bool *inexact);
extern uint64 abbreviated_normkey(const struct KeyBufferColumn *col, KeyMaker maker, Datum value, bool *inexact);

/* numerics.c */
/* numerics.c: two words */
extern uint64 numeric_normkey(const struct KeyBufferColumn *col, KeyMaker maker, Datum value, bool *inexact);
extern uint64 numeric_low_normkey(const struct KeyBufferColumn *col, KeyMaker maker, Datum value, bool *inexact);

/* scalars.c */
extern uint64 inet_normkey(const struct KeyBufferColumn *col, KeyMaker maker, Datum value, bool *inexact);
extern uint64 inet_low_normkey(const struct KeyBufferColumn *col, KeyMaker maker, Datum value, bool *inexact);
extern uint64 bits_normkey(const struct KeyBufferColumn *col, KeyMaker maker, Datum value, bool *inexact);
extern uint32 enum_normkey(const struct KeyBufferColumn *col, KeyMaker maker, Datum value, bool *inexact);

/* keytype.c */
extern uint64 array_normkey(const struct KeyBufferColumn *col, KeyMaker maker, Datum value, bool *inexact);
extern uint64 range_normkey(const struct KeyBufferColumn *col, KeyMaker maker, Datum value, bool *inexact);
extern uint64 multirange_normkey(const struct KeyBufferColumn *col, KeyMaker maker, Datum value, bool *inexact);
extern uint64 record_normkey(const struct KeyBufferColumn *col, KeyMaker maker, Datum value, bool *inexact);

static inline uint32
compared_normkey(const struct KeyBufferColumn *col, KeyMaker maker, Datum value, bool *inexact)
{
	*inexact = true;
	return 0;
}

/* Is the normalized key made of a string's bytes (bytes.h)? */
static inline bool
key_by_bytes(KeyKind kind)
{
	return kind >= KEY_TEXT && kind <= KEY_BYTEA;
}

/* Is the normalized key that of the value's first part (keytype.c)? */
static inline bool
key_nested(KeyKind kind)
{
	return kind >= KEY_ARRAY && kind <= KEY_RECORD;
}

/* May make() return key_unplaced() for this kind? */
static inline bool
key_may_be_unplaced(KeyKind kind)
{
	return key_nested(kind) || kind == KEY_ENUM;
}

/* Does the normalized key cost more than a comparison, or tell nothing? */
static inline bool
key_needs_comparator(KeyKind kind)
{
	return kind == KEY_ABBREVIATED || kind == KEY_COMPARED;
}

/* Does a function make the normalized key? */
static inline bool
key_computed(KeyKind kind)
{
	switch (kind)
	{
#define VALUE_COMPUTED(kind, normkey, type, from_datum, make, back)	case kind: return false;
#define REF_COMPUTED(kind, normkey, make, words)	case kind: return false;
#define COMPUTED_COMPUTED(kind, normkey, make, words, exact)	case kind: return true;
			KEY_KINDS(VALUE_COMPUTED, REF_COMPUTED, COMPUTED_COMPUTED)
	}
	pg_unreachable();
}

/* Has the normalized key 8 bytes (otherwise 4)? */
static inline bool
key_wide(KeyKind kind)
{
	switch (kind)
	{
#define VALUE_WIDE(kind, normkey, type, from_datum, make, back) \
		case kind: return sizeof(normkey) == sizeof(uint64);
#define REF_WIDE(kind, normkey, make, words) \
		case kind: return sizeof(normkey) == sizeof(uint64);
#define COMPUTED_WIDE(kind, normkey, make, words, exact) \
		case kind: return sizeof(normkey) == sizeof(uint64);
			KEY_KINDS(VALUE_WIDE, REF_WIDE, COMPUTED_WIDE)
	}
	pg_unreachable();
}

/* Marks a value without a normalized key, direction not applied.  No other value has it. */
static inline uint64
key_unplaced(KeyKind kind)
{
	return key_wide(kind) ? PG_UINT64_MAX : PG_UINT32_MAX;
}

/* Columns of the key buffer for one SQL column. */
static inline int
key_words(KeyKind kind)
{
	switch (kind)
	{
#define VALUE_WORDS(kind, normkey, type, from_datum, make, back)	case kind: return 1;
#define REF_WORDS(kind, normkey, make, words)	case kind: return words;
#define COMPUTED_WORDS(kind, normkey, make, words, exact)	case kind: return words;
			KEY_KINDS(VALUE_WORDS, REF_WORDS, COMPUTED_WORDS)
	}
	pg_unreachable();
}

/* Are the normalized keys of all values exact? */
static inline bool
key_exact(KeyKind kind)
{
	switch (kind)
	{
#define VALUE_EXACT(kind, normkey, type, from_datum, make, back)	case kind: return true;
#define REF_EXACT(kind, normkey, make, words)	case kind: return true;
#define COMPUTED_EXACT(kind, normkey, make, words, exact)	case kind: return exact;
			KEY_KINDS(VALUE_EXACT, REF_EXACT, COMPUTED_EXACT)
	}
	pg_unreachable();
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

/* Can a column's value be restored from its normalized key? */
static inline bool
key_decodable(KeyKind kind)
{
	switch (kind)
	{
#define VALUE_DECODABLE(kind, normkey, type, from_datum, make, back) \
		case kind: return back != key_not_decodable;
#define REF_DECODABLE(kind, normkey, make, words)	case kind: return false;
#define COMPUTED_DECODABLE(kind, normkey, make, words, exact)	case kind: return false;
			KEY_KINDS(VALUE_DECODABLE, REF_DECODABLE, COMPUTED_DECODABLE)
	}
	pg_unreachable();
}

#endif							/* GPUSORT_KEY_TYPE_TRAITS_H */
