/*
 * sql_functions.h
 *	  What the SQL functions share.
 */
#ifndef GPUSORT_SQL_SQL_FUNCTIONS_H
#define GPUSORT_SQL_SQL_FUNCTIONS_H

#include "postgres.h"

#include "catalog/pg_type.h"
#include "cost/cost.h"
#include "kernel/algorithm.h"
#include "key/type/normkey.h"
#include "nodes/execnodes.h"

/*
 * The algorithm that a user names, in any case; NULL for "auto".  An unknown name
 * is an error that lists the known ones.
 */
extern const Algorithm *gpusort_algorithm_from_name(const char *name);

/* The state of the device service, with the reason where there is none. */
extern const char *gpusort_device_words(void);

/* ------------------------------------------------------------------------
 * What is known of GPUs, as SQL functions.
 * ------------------------------------------------------------------------
 */

/* ------------------------------------------------------------------------
 * gpusort_array()'s sorts on a GPU.
 * ------------------------------------------------------------------------
 */

/* What is to be sorted: n values of a type of this width, images from min on. */
typedef struct ArrayValues
{
	const char *data;
	Oid			type;			/* INT2OID, INT4OID, INT8OID, FLOAT4OID, FLOAT8OID */
	int16		width;
	size_t		n;
	uint64		min;			/* the least image */
} ArrayValues;

/* Element i's image. */
static inline uint64
array_normkey_at(const char *data, Oid type, size_t i)
{
	switch (type)
	{
		case INT2OID:
			return normkey_int32(((const int16 *) data)[i]);
		case INT4OID:
			return normkey_int32(((const int32 *) data)[i]);
		case INT8OID:
			return normkey_int64(((const int64 *) data)[i]);
		case FLOAT4OID:
			return normkey_float4(((const float4 *) data)[i]);
		default:
			Assert(type == FLOAT8OID);
			return normkey_float8(((const float8 *) data)[i]);
	}
}

#endif							/* GPUSORT_SQL_SQL_FUNCTIONS_H */
