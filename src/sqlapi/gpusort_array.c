/*
 * gpusort_array.c
 *	  gpusort_array(anyarray, algorithm): sorts an array with one algorithm.
 *
 * The array's elements become (key, rid) records, rid being the element's
 * position; the kernel sorts the records and the original elements are gathered
 * in that order.  The originals, because an image forgets what the order
 * ignores: -0 and +0, or two NaNs, stay what they were, in their input order.
 *
 * Keys are narrowed like the node's: the smallest image is subtracted and only
 * the bits that the largest needs order.  Records are packed into 8 bytes when
 * key and rid fit, which leaves the 16-byte ones to wide ranges of 8-byte types.
 *
 * Memory: the records and the kernel's scratch live in the function's memory
 * context until it ends, 16 to 48 bytes per element; work_mem does not apply,
 * as it does not to the array itself.
 *
 * A GPU's algorithm sorts the array through the device service (array_device.c).
 * If it was asked for by name and cannot, that is an error, as with any other; if it
 * was auto's choice, the CPU does it.
 */
#include "postgres.h"

#include "compat.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "route/files/model_store.h"
#include "route/router.h"
#include "sort/device/device_learn.h"
#include "sqlapi/array_device.h"
#include "sqlapi/sqlapi.h"

PG_FUNCTION_INFO_V1(gpusort_array);

/* What one pass over the elements finds out before records are made. */
typedef struct ImageSummary
{
	uint64		min;
	uint64		max;
	size_t		descents;
	size_t		ascents;
	uint64		last;			/* image of the last element so far */
} ImageSummary;

/* Elements between two looks at interrupts. */
#define ARRAY_CHUNK		((size_t) 1 << 18)

/*
 * One loop per type: inlined with a constant type, the switch above vanishes.
 */
#define FOR_TYPE(type, stmt) \
	switch (type) \
	{ \
		case INT2OID: { const Oid t = INT2OID; stmt; break; } \
		case INT4OID: { const Oid t = INT4OID; stmt; break; } \
		case INT8OID: { const Oid t = INT8OID; stmt; break; } \
		case FLOAT4OID: { const Oid t = FLOAT4OID; stmt; break; } \
		default: { const Oid t = FLOAT8OID; stmt; break; } \
	}

static pg_attribute_always_inline void
summarize_as(const char *data, Oid type, size_t from, size_t to, ImageSummary *sum)
{
	uint64		last = from == 0 ? array_image_at(data, type, 0) : sum->last;
	uint64		min = from == 0 ? last : sum->min;
	uint64		max = from == 0 ? last : sum->max;
	size_t		descents = 0;
	size_t		ascents = 0;

	for (size_t i = from; i < to; i++)
	{
		uint64		image = array_image_at(data, type, i);

		min = Min(min, image);
		max = Max(max, image);
		descents += image < last;
		ascents += image > last;
		last = image;
	}
	sum->min = min;
	sum->max = max;
	sum->descents += descents;
	sum->ascents += ascents;
	sum->last = last;
}

static pg_attribute_always_inline void
pack_as(const char *data, Oid type, size_t from, size_t to, uint64 min, int shift,
		uint64 *recs)
{
	for (size_t i = from; i < to; i++)
		recs[i] = (array_image_at(data, type, i) - min) << shift | i;
}

static pg_attribute_always_inline void
widen_as(const char *data, Oid type, size_t from, size_t to, uint64 min,
		 SortRec64 *recs)
{
	for (size_t i = from; i < to; i++)
	{
		recs[i].key = array_image_at(data, type, i) - min;
		recs[i].rid = (uint32) i;
		recs[i].pad = 0;
	}
}

/* Writes the elements [from, to) of the result. */
static void
gather(const char *data, int16 width, const SortProblem *problem, size_t from, size_t to,
	   char *out)
{
	const uint64 rid_mask = problem->begin_bit < 64 ? (UINT64CONST(1) << problem->begin_bit) - 1 : 0;

	for (size_t i = from; i < to; i++)
	{
		uint32		rid = problem->format == SORT_REC_PACKED ?
			(uint32) (((uint64 *) problem->result)[i] & rid_mask) :
			((SortRec64 *) problem->result)[i].rid;

		switch (width)
		{
			case 2:
				((int16 *) out)[i] = ((const int16 *) data)[rid];
				break;
			case 4:
				((int32 *) out)[i] = ((const int32 *) data)[rid];
				break;
			default:
				((int64 *) out)[i] = ((const int64 *) data)[rid];
				break;
		}
	}
}

/* Bits that hold v; at least 1. */
static inline int
bits_for(uint64 v)
{
	return v > 1 ? 64 - __builtin_clzll(v) : 1;
}

/* The kernels' callback: an error leaves by longjmp, as it may. */
static bool
check_interrupts(void *arg)
{
	CHECK_FOR_INTERRUPTS();
	return false;
}

static void *
alloc_records(size_t size)
{
	char	   *p = MemoryContextAllocHuge(CurrentMemoryContext, size + 64);

	return (void *) TYPEALIGN(64, p);
}

static void
cannot_sort(const RouteFacts *facts, const Algorithm *asked, const char *why)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("algorithm \"%s\" cannot sort this array", asked->name),
			 errdetail("The array has %zu elements and %d significant key bits: %s.",
					   facts->n, facts->end_bit - facts->begin_bit, why),
			 errhint("Use \"auto\" to have an algorithm chosen.")));
}

/* The facts that do not depend on the records. */
static void
fill_facts(size_t n, const ImageSummary *sum, RouteFacts *facts)
{
	int			rid_bits = bits_for(n - 1);
	int			key_bits = bits_for(sum->max - sum->min);

	memset(facts, 0, sizeof(*facts));
	facts->n = n;
	facts->rids_ascending = true;
	if (key_bits + rid_bits <= 64)
	{
		facts->format = SORT_REC_PACKED;
		facts->begin_bit = key_bits <= 32 ? 32 : rid_bits;
	}
	else
		facts->format = SORT_REC_64;
	facts->end_bit = facts->begin_bit + key_bits;
	facts->key_range = sum->max - sum->min == PG_UINT64_MAX ?
		PG_UINT64_MAX : sum->max - sum->min + 1;
	facts->order_known = true;
	facts->descents = sum->descents;
	facts->ascents = sum->ascents;
}

/*
 * On a GPU, if the algorithm asked for is one's, or if none was and the router
 * takes one.  False: the CPU has to.
 */
static bool
sort_on_device(const ArrayValues *values, const RouteFacts *cpu_facts,
			   const Algorithm *asked, char *out)
{
	RouteFacts	facts = *cpu_facts;
	RouteDecision decision;
	const char *why;

	if (asked != NULL && !algorithm_on_gpu(asked))
		return false;
	facts.forced = asked;
	array_device_facts(values, asked, &facts);
	gpusort_route_decide(&facts, &decision);
	if (decision.forced_why_not != NULL)
		cannot_sort(&facts, asked, decision.forced_why_not);
	if (!algorithm_on_gpu(decision.algorithm))
		return false;
	why = array_device_sort(values, &facts, &decision, out);
	if (why != NULL && asked != NULL)
		cannot_sort(&facts, asked, why);
	return why == NULL;
}

/* Chooses for these records, on the CPU: the one asked for, or auto's choice. */
static const Algorithm *
choose_algorithm(RouteFacts *facts, const void *recs, const Algorithm *asked)
{
	RouteDecision decision;

	if (asked != NULL)
		facts->forced = asked;
	else
		gpusort_route_sample(facts, recs);
	gpusort_route_decide(facts, &decision);
	if (decision.forced_why_not != NULL)
		cannot_sort(facts, asked, decision.forced_why_not);
	return decision.algorithm;
}

/*
 * Sorts the n elements at data and writes them, in order, at out.
 */
static void
sort_elements(const char *data, Oid type, int16 width, size_t n,
			  const Algorithm *asked, char *out)
{
	ArrayValues values = {data, type, width, n, 0};
	ImageSummary sum = {0};
	RouteFacts	facts;
	SortProblem problem;
	const Algorithm *algorithm;

	for (size_t i = 0; i < n; i += ARRAY_CHUNK)
	{
		CHECK_FOR_INTERRUPTS();
		FOR_TYPE(type, summarize_as(data, t, i, Min(n, i + ARRAY_CHUNK), &sum));
	}
	values.min = sum.min;
	fill_facts(n, &sum, &facts);
	gpusort_model_refresh(n);
	device_learn_cpu_facts(&facts);
	if (sort_on_device(&values, &facts, asked, out))
		return;

	gpusort_route_problem(&facts, &problem);
	problem.interrupted = check_interrupts;
	problem.recs = alloc_records(n * sort_rec_size(facts.format));
	for (size_t i = 0; i < n; i += ARRAY_CHUNK)
	{
		size_t		end = Min(n, i + ARRAY_CHUNK);

		CHECK_FOR_INTERRUPTS();
		if (facts.format == SORT_REC_PACKED)
			FOR_TYPE(type, pack_as(data, t, i, end, sum.min, facts.begin_bit, problem.recs))
		else
			FOR_TYPE(type, widen_as(data, t, i, end, sum.min, problem.recs));
	}

	algorithm = choose_algorithm(&facts, problem.recs, asked);
	problem.scratch = alloc_records(algorithm->kernel->scratch_bytes(&problem));
	if (algorithm->kernel->run(&problem) != SORT_OK)
		elog(ERROR, "algorithm \"%s\" refused a problem that it had accepted",
			 algorithm->name);

	for (size_t i = 0; i < n; i += ARRAY_CHUNK)
	{
		CHECK_FOR_INTERRUPTS();
		gather(data, width, &problem, i, Min(n, i + ARRAY_CHUNK), out);
	}
}

/* The element type's own or, for a domain, base type, if it can be sorted. */
static Oid
sortable_base_type(Oid elemtype)
{
	Oid			base = getBaseType(elemtype);

	switch (base)
	{
		case INT2OID:
		case INT4OID:
		case INT8OID:
		case FLOAT4OID:
		case FLOAT8OID:
			return base;
	}
	ereport(ERROR,
			(errcode(ERRCODE_DATATYPE_MISMATCH),
			 errmsg("gpusort_array cannot sort elements of type %s",
					format_type_be(elemtype)),
			 errdetail("Elements must be smallint, integer, bigint, real or double precision.")));
}

/*
 * gpusort_array(anyarray, algorithm text DEFAULT 'auto') RETURNS anyarray
 *
 * Ascending, NULL elements last, stable, with the input's lower bound.
 */
Datum
gpusort_array(PG_FUNCTION_ARGS)
{
	ArrayType  *array = PG_GETARG_ARRAYTYPE_P(0);
	const Algorithm *asked = gpusort_algorithm_from_name(text_to_cstring(PG_GETARG_TEXT_PP(1)));
	Oid			base = sortable_base_type(ARR_ELEMTYPE(array));
	int16		width = get_typlen(base);
	uint32		n = ArrayGetNItems(ARR_NDIM(array), ARR_DIMS(array));
	size_t		nvalues = n;
	ArrayType  *result;

	if (ARR_NDIM(array) > 1)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("gpusort_array cannot sort a multidimensional array"),
				 errdetail("The array has %d dimensions.", ARR_NDIM(array))));

	/*
	 * NULL elements take no room: the values lie contiguously before and after
	 * the sort, and only the bitmap tells where the NULLs are.
	 */
	result = (ArrayType *) palloc(VARSIZE(array));
	memcpy(result, array, VARSIZE(array));
	if (ARR_HASNULL(array))
	{
		/* Set bits are values; they come first now. */
		uint8	   *bitmap = ARR_NULLBITMAP(result);

		nvalues = 0;
		for (uint32 i = 0; i < n; i++)
			nvalues += (bitmap[i / 8] >> (i % 8)) & 1;
		memset(bitmap, 0, (n + 7) / 8);
		memset(bitmap, 0xFF, nvalues / 8);
		if (nvalues % 8 != 0)
			bitmap[nvalues / 8] = (1 << (nvalues % 8)) - 1;
	}
	if (nvalues > 1)
		sort_elements(ARR_DATA_PTR(array), base, width, nvalues, asked,
					  ARR_DATA_PTR(result));

	PG_FREE_IF_COPY(array, 0);
	PG_RETURN_ARRAYTYPE_P(result);
}
