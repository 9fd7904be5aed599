/*
 * enums.h
 *	  Keys that are of enum types.
 */
#ifndef GPUSORT_ENUMS_H
#define GPUSORT_ENUMS_H

#include "postgres.h"

typedef struct EnumOrder EnumOrder;

/* What is known of a sort's type: nothing, until the first value comes. */
extern EnumOrder *enum_order_create(MemoryContext cxt);

#endif							/* GPUSORT_ENUMS_H */
