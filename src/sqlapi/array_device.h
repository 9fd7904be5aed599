/*
 * array_device.h
 *	  gpusort_array()'s sorts on a GPU.
 */
#ifndef GPUSORT_ARRAY_DEVICE_H
#define GPUSORT_ARRAY_DEVICE_H

#include "postgres.h"

#include "catalog/pg_type.h"
#include "key/type/image.h"
#include "route/router.h"

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
array_image_at(const char *data, Oid type, size_t i)
{
	switch (type)
	{
		case INT2OID:
			return image_int32(((const int16 *) data)[i]);
		case INT4OID:
			return image_int32(((const int32 *) data)[i]);
		case INT8OID:
			return image_int64(((const int64 *) data)[i]);
		case FLOAT4OID:
			return image_float4(((const float4 *) data)[i]);
		default:
			Assert(type == FLOAT8OID);
			return image_float8(((const float8 *) data)[i]);
	}
}

/*
 * Adds to the facts how a GPU would get the values, for the algorithm asked for or,
 * if that is NULL, any.
 */
extern void array_device_facts(const ArrayValues *values, const Algorithm *asked,
							   RouteFacts *facts);

/*
 * Sorts the values with the GPU's algorithm of the decision, and writes them at
 * out.  NULL, or why it was not possible; then out is undefined.
 */
extern const char *array_device_sort(const ArrayValues *values, RouteFacts *facts,
									 const RouteDecision *decision, char *out);

#endif							/* GPUSORT_ARRAY_DEVICE_H */
