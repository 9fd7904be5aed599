/*
 * collation.h
 *	  Does a collation compare strings by their bytes?
 */
#ifndef GPUSORT_COLLATION_H
#define GPUSORT_COLLATION_H

#include "postgres.h"

extern bool collation_by_bytes(Oid collation);

#endif							/* GPUSORT_COLLATION_H */
