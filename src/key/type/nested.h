/*
 * nested.h
 *	  Keys that are of types made of others: arrays, ranges, multiranges and rows.
 */
#ifndef GPUSORT_NESTED_H
#define GPUSORT_NESTED_H

#include "postgres.h"

typedef struct FirstPart FirstPart;

/* What is known of a column's first parts: nothing, until the first value comes. */
extern FirstPart *first_part_create(MemoryContext cxt, Oid collation);

/* Type and collation of the first parts as one number; 0: no value has come yet. */
extern uint64 first_part_kind(const FirstPart *part);

#endif							/* GPUSORT_NESTED_H */
