/*
 * traits.h
 *	  Images of fixed-width types that are passed by reference.
 *
 * Each is made of the bytes where a value lies, which is aligned as its type asks for.
 *
 *	uuid, macaddr	their bytes, as memcmp() compares them.
 *	tid				block, then line.
 *	timetz			the moment in UTC; of equal ones the zone.
 *	interval		one number of microseconds, a month being 30 days and a day 24 hours,
 *					of which 73 bits count.  The cut is where most have nothing above it:
 *					the upper word is 0 for what 64 bits with a sign hold.  Infinity
 *					(from PostgreSQL 17 on) is the largest number in each part.
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
 * What there is to know about each kind of key, in one table.
 *
 * A kind is a way to make an unsigned image of a value.  Each has one row here,
 * from which the enum and the switches over it are made; with a constant kind
 * nothing of a switch remains, so that loops over rows call no function that is
 * not inline.
 *
 * VALUE rows: types passed by value; REF rows: fixed-width types passed by
 * reference, whose image is made of the bytes at a pointer; COMPUTED rows: whatever
 * takes a function, variable-length types above all.
 *
 *	kind		its name; stored in plans, so: append only
 *	image		uint32 or uint64
 *	type		VALUE: as it lies in a tuple
 *	from_datum	VALUE: a Datum's value
 *	make		the image: VALUE: make(value); REF: make(const char *place);
 *				COMPUTED: make(const StageColumn *col, KeyMaker maker, Datum value,
 *				bool *inexact).  It does not know of DESC.
 *	words		stage columns that one SQL column takes: 2 for images of 128 bits.
 *				The kind of the second is the next one, whose own number is 0.
 *	exact		COMPUTED: false if make() may ever say that an image is not
 *	back		VALUE: the Datum that has this image, or key_not_decodable
 *
 * An image of VALUE and REF rows is exact: equal images are equal values (two of
 * 128 bits: where both words are equal).  One of COMPUTED rows may be inexact: it says
 * "before" and "after" truly, but "equal" only as far as it goes; make() then sets
 * *inexact (of two words the one that cannot tell does).  What stands behind an inexact image must not decide anything.
 *
 * make() raises no ERROR that only a comparison of two values would raise.  A value that has no
 * normalized key beside the other values gets key_unplaced(): a column that has one such value is
 * ordered by its comparator alone (key_range_unplaced()).
 * ------------------------------------------------------------------------
 */

/*        kind        image   type    from_datum      make          back */
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
 * What images of a column are made with, by its kind; most need nothing.  It is that of the
 * process that makes them: key_maker.h.
 */
typedef union KeyMaker
{
	struct SortSupportData *ssup;	/* KEY_ABBREVIATED */
	struct EnumOrder *enum_order;	/* KEY_ENUM */
	struct FirstPart *first_part;	/* of what key_nested() is true */
} KeyMaker;

/* Of kinds that need nothing. */
#define NO_KEY_MAKER	((KeyMaker) {NULL})

/* strings.c: strings whose order is that of their bytes */
extern uint64 string_normkey(const struct KeyBufferColumn *col, KeyMaker maker, Datum value, bool *inexact);

/* abbreviated.c: what the type's own abbreviation makes of a value, and nothing */
extern uint64 abbreviated_normkey(const struct KeyBufferColumn *col, KeyMaker maker, Datum value, bool *inexact);

/* numerics.c: two words */
extern uint64 numeric_normkey(const struct KeyBufferColumn *col, KeyMaker maker, Datum value, bool *inexact);
extern uint64 numeric_low_normkey(const struct KeyBufferColumn *col, KeyMaker maker, Datum value, bool *inexact);

/* addresses.c: two words */
extern uint64 inet_normkey(const struct KeyBufferColumn *col, KeyMaker maker, Datum value, bool *inexact);
extern uint64 inet_low_normkey(const struct KeyBufferColumn *col, KeyMaker maker, Datum value, bool *inexact);

/* bitstrings.c, enums.c */
extern uint64 bits_normkey(const struct KeyBufferColumn *col, KeyMaker maker, Datum value, bool *inexact);
extern uint32 enum_normkey(const struct KeyBufferColumn *col, KeyMaker maker, Datum value, bool *inexact);

/* nested.c: never exact */
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

/* Are its images those of bytes.h? */
static inline bool
key_by_bytes(KeyKind kind)
{
	return kind >= KEY_TEXT && kind <= KEY_BYTEA;
}

/* Are its images those of the values' first parts? */
static inline bool
key_nested(KeyKind kind)
{
	return kind >= KEY_ARRAY && kind <= KEY_RECORD;
}

/* May a value of this kind have no normalized key beside the others of its column? */
static inline bool
key_may_be_unplaced(KeyKind kind)
{
	return key_nested(kind) || kind == KEY_ENUM;
}

/* Does an image take longer than to compare two values, or tell nothing? */
static inline bool
key_needs_comparator(KeyKind kind)
{
	return kind == KEY_ABBREVIATED || kind == KEY_COMPARED;
}

/* Are its images made by a function, by row? */
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

/* Does an image take 8 bytes, or else 4? */
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

/* The normalized key of a value that has none, direction not folded in: no other value has it. */
static inline uint64
key_unplaced(KeyKind kind)
{
	return key_wide(kind) ? PG_UINT64_MAX : PG_UINT32_MAX;
}

/* Stage columns of one SQL column. */
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

/* Are its images exact, whatever the values? */
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
 * Back from the image
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
	/* signed, as fetch_att() would: datums are also compared as words */
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

/* A float's value is not known from its image: -0 and NaNs. */
static inline Datum
key_not_decodable(uint64 normkey)
{
	pg_unreachable();
}

/* Is a column's value known from its image? */
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
