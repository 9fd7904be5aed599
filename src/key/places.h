/*
 * places.h
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
#ifndef GPUSORT_PLACES_H
#define GPUSORT_PLACES_H

#include "postgres.h"

#include "datatype/timestamp.h"
#include "key/type/bytes.h"
#include "key/type/image.h"
#include "storage/itemptr.h"
#include "utils/date.h"

static inline uint64
place_uuid(const char *p)
{
	return bytes_load(p);
}

static inline uint64
place_uuid_low(const char *p)
{
	return bytes_load(p + 8);
}

static inline uint64
place_macaddr(const char *p)
{
	return bytes_word(p, 6) >> 16;
}

static inline uint64
place_macaddr8(const char *p)
{
	return bytes_load(p);
}

static inline uint64
place_tid(const char *p)
{
	ItemPointer tid = (ItemPointer) p;

	return (uint64) ItemPointerGetBlockNumberNoCheck(tid) << 16 | ItemPointerGetOffsetNumberNoCheck(tid);
}

static inline uint64
place_timetz(const char *p)
{
	const TimeTzADT *t = (const TimeTzADT *) p;

	return image_int64(t->time + t->zone * USECS_PER_SEC);
}

static inline uint32
place_timetz_zone(const char *p)
{
	return image_int32(((const TimeTzADT *) p)->zone);
}

static inline int128
interval_number(const char *p)
{
	const Interval *i = (const Interval *) p;

	return (int128) (i->month * INT64CONST(30) + i->day) * USECS_PER_DAY + i->time;
}

static inline uint32
place_interval(const char *p)
{
	return image_int32((int32) ((interval_number(p) + ((int128) 1 << 63)) >> 64));
}

static inline uint64
place_interval_low(const char *p)
{
	return image_int64((int64) interval_number(p));
}

#endif							/* GPUSORT_PLACES_H */
