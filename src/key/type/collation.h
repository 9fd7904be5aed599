/*
 * collation.h
 *	  How a collation compares strings.
 */
#ifndef GPUSORT_COLLATION_H
#define GPUSORT_COLLATION_H

#include "postgres.h"

extern bool collation_by_bytes(Oid collation);

/*
 * Does its order of strings follow one of single characters, by and large, and are only
 * strings of the same bytes equal in it?
 */
extern bool collation_by_letters(Oid collation);

/* The name of the C library's locale that it is, palloc'd; NULL if it is none. */
extern char *collation_libc_locale(Oid collation);

#endif							/* GPUSORT_COLLATION_H */
