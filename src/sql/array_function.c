/*
 * array_function.c
 *	  gpusort_array(anyarray, algorithm): sorts an array with one algorithm.
 *
 * The elements become (key, rid) records, where rid is the element's position.  The
 * kernel sorts the records, and the original elements are gathered in that order.
 * Values are not decoded from keys, because a normalized key does not distinguish -0
 * from +0, or two NaNs.
 *
 * Keys are narrowed: the smallest normalized key is subtracted, and only the bits of
 * the largest difference are significant.  Records are packed into 8 bytes if key and
 * rid fit; only wide ranges of 8-byte types need 16 bytes.
 *
 * Memory: the records and the kernel's scratch live in the function's memory context,
 * 16 to 48 bytes per element.  work_mem does not apply, as it does not to the array.
 *
 * GPU algorithms sort through the device service.  If an algorithm that the user named
 * cannot sort the array, that is an error; if auto chose it, the CPU sorts.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "compat.h"
#include "cost/cost.h"
#include "cost/store.h"
#include "fmgr.h"
#include "gpu/gpu.h"
#include "key/key.h"
#include "miscadmin.h"
#include "monitor/stat.h"
#include "service/service.h"
#include "sql/sql_functions.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

SQL_FUNCTION(gpusort_array);

/* The values of the array, without NULLs */
typedef struct ArrayValues
{
	const char *data;
	Oid			type;			/* INT2OID, INT4OID, INT8OID, FLOAT4OID, FLOAT8OID */
	int16		width;			/* bytes per value */
	size_t		n;
	uint64		min;			/* smallest normalized key */
} ArrayValues;

/* Range and presortedness of the normalized keys, found by one pass */
typedef struct NormkeySummary
{
	uint64		min;
	uint64		max;
	size_t		descents;
	size_t		ascents;
	uint64		last;			/* normalized key of the previous element */
} NormkeySummary;

/* Elements between two checks for interrupts */
#define ARRAY_CHUNK		((size_t) 1 << 18)

/* The normalized key of element i */
static inline uint64
array_normkey_at(const char *data, Oid type, size_t i)
{
	static const KeyBufferColumn ascending;

#define ELEMENT_NORMKEY(kind, type) \
	normkey_at(&ascending, NO_KEY_MAKER, kind, 0, data + i * sizeof(type), sizeof(type), NULL)
	switch (type)
	{
		case INT2OID:
			return ELEMENT_NORMKEY(KEY_INT2, int16);
		case INT4OID:
			return ELEMENT_NORMKEY(KEY_INT4, int32);
		case INT8OID:
			return ELEMENT_NORMKEY(KEY_INT8, int64);
		case FLOAT4OID:
			return ELEMENT_NORMKEY(KEY_FLOAT4, float4);
		default:
			Assert(type == FLOAT8OID);
			return ELEMENT_NORMKEY(KEY_FLOAT8, float8);
	}
}

/* ------------------------------------------------------------------------
 * Sorting on a GPU
 *
 * Narrowed keys go to the device in chunks, with the elements' positions as rids.  The
 * sorted rids come back, and the elements are gathered.  An algorithm for keys only
 * needs no rids, because an integer can be decoded from its key; a float cannot (-0,
 * NaN).  The result is checked as for other sorts (gpu/): each rid occurs once, keys
 * ascend, and their checksum is that of the keys sent.
 *
 * After an ERROR the job is closed with the function's memory context.
 * ------------------------------------------------------------------------
 */

/* Are all values distinct?  The key range fits gpu_hp1. */
static bool
all_distinct(const ArrayValues *values, uint64 range)
{
	uint8	   *seen = palloc_extended(range / 8 + 1, MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	bool		distinct = true;

	for (size_t i = 0; i < values->n && distinct; i++)
	{
		uint64		v = array_normkey_at(values->data, values->type, i) - values->min;

		if (i % (1 << 18) == 0)
			CHECK_FOR_INTERRUPTS();
		distinct = (seen[v / 8] & (1 << (v % 8))) == 0;
		seen[v / 8] |= (uint8) (1 << (v % 8));
	}
	pfree(seen);
	return distinct;
}

/* Sets the GPU's facts, for the algorithm that the user named, or for any if NULL. */
static void
array_device_facts(const ArrayValues *values, const Algorithm *asked, RouteFacts *facts)
{
	int			bits = facts->end_bit - facts->begin_bit;
	bool		floats = values->type == FLOAT4OID || values->type == FLOAT8OID;
	bool		keys_only = asked != NULL && asked->keys_only;
	const char *why;

	facts->device = asked != NULL && algorithm_on_gpu(asked) ?
		device_bring_back(DEVICE_FORCED_PATIENCE_US) : device_state();
	if (facts->device != DEVICE_STATE_READY)
		return;
	if (keys_only && floats)
	{
		facts->gpu.why_not = "it sorts keys only, and a float cannot be made from its key";
		return;
	}
	facts->gpu.key_width = bits <= 32 ? 32 : 64;
	facts->gpu.key_bits = bits;
	facts->gpu.keys_only = keys_only;
	facts->gpu.keys_back = keys_only;
	facts->gpu.algorithms = device_algorithms();
	device_learn_facts(facts, NULL, NULL);
	if (keys_only)
	{
		/* all_distinct() reads all values, so it is called only if it decides */
		facts->gpu.distinct = true;
		if (gpu_fits(asked, facts, &why))
			facts->gpu.distinct = asked->distinct &&
				all_distinct(values, facts->key_range);
	}
}

static bool
send_values(const ArrayValues *values, DeviceJob *job, const DeviceJobSpec *spec, KeyCheck *check)
{
	size_t		per_chunk = key_chunk_rows(spec);

	for (size_t start = 0; start < values->n; start += per_chunk)
	{
		KeyChunk	chunk;

		if (!key_chunk_next_up(job, spec, Min(per_chunk, values->n - start), &chunk))
			return false;
		for (uint32 i = 0; i < chunk.rows; i++)
		{
			uint64		key = array_normkey_at(values->data, values->type, start + i) - values->min;

			if (spec->key_width == 32)
				((uint32 *) chunk.keys)[i] = (uint32) key;
			else
				((uint64 *) chunk.keys)[i] = key;
			if (chunk.rids != NULL)
				chunk.rids[i] = (uint32) (start + i);
		}
		if (spec->want_keys)
			check->sum += device_check_sum(check, chunk.keys, NULL, spec->key_width, chunk.rows);
		key_chunk_post(job, spec, &chunk);
		CHECK_FOR_INTERRUPTS();
	}
	device_job_sort(job);
	return !job->failed;
}

static void
put_integer(const ArrayValues *values, uint64 key, char *out, size_t i)
{
	uint64		normkey = key + values->min;

	if (values->type == INT8OID)
		((uint64 *) out)[i] = normkey ^ (UINT64CONST(1) << 63);
	else if (values->type == INT4OID)
		((uint32 *) out)[i] = (uint32) normkey ^ 0x80000000U;
	else
		((int16 *) out)[i] = (int16) (int32) ((uint32) normkey ^ 0x80000000U);
}

/* Is this rid valid and seen for the first time? */
static inline bool
is_new_rid(const ArrayValues *values, uint8 *seen, uint32 rid)
{
	uint8		bit = (uint8) (1 << (rid % 8));

	if (rid >= values->n || (seen[rid / 8] & bit) != 0)
		return false;
	seen[rid / 8] |= bit;
	return true;
}

/* Writes a chunk's values from position at; false if a rid is invalid or repeats. */
static bool
take_array_chunk(const ArrayValues *values, const DeviceJobSpec *spec, const KeyChunk *chunk,
		   size_t at, uint8 *seen, char *out)
{
	const uint32 *rids = chunk->rids;

	for (uint32 i = 0; i < chunk->rows; i++)
	{
		if (rids == NULL)
			put_integer(values, spec->key_width == 32 ? ((const uint32 *) chunk->keys)[i] :
						((const uint64 *) chunk->keys)[i], out, at + i);
		else if (!is_new_rid(values, seen, rids[i]))
			return false;
		else if (values->width == sizeof(int64))
			((int64 *) out)[at + i] = ((const int64 *) values->data)[rids[i]];
		else if (values->width == sizeof(int32))
			((int32 *) out)[at + i] = ((const int32 *) values->data)[rids[i]];
		else
			((int16 *) out)[at + i] = ((const int16 *) values->data)[rids[i]];
	}
	return true;
}

static void
receive_values(const ArrayValues *values, DeviceJob *job, const DeviceJobSpec *spec,
			   KeyCheck *check, char *out)
{
	size_t		done = 0;
	KeyChunk	chunk;
	uint8	   *seen = spec->keys_only ? NULL :
		palloc_extended(values->n / 8 + 1, MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);

	while (key_chunk_next_down(job, spec, values->n, done, &chunk))
	{
		if ((spec->want_keys && !device_check_keys(check, chunk.keys, NULL, spec->key_width, chunk.rows,
												   done + chunk.rows == values->n)) ||
			!take_array_chunk(values, spec, &chunk, done, seen, out))
		{
			device_job_fail(job, "the device returned keys or rows that are not the array's");
			return;
		}
		done += chunk.rows;
		device_job_release(job);
		CHECK_FOR_INTERRUPTS();
	}
}

/*
 * Sorts the values by the decision's GPU algorithm and writes them to out.  Returns NULL,
 * or the reason why it failed; out is undefined then.
 */
static const char *
array_device_sort(const ArrayValues *values, RouteFacts *facts,
				  const RouteDecision *decision, char *out)
{
	DeviceJobSpec spec = {0};
	KeyCheck	check = {0};
	DeviceJob  *job;
	const char *why = NULL;

	spec.mode = DEVICE_KEYS;
	spec.max_rows = values->n;
	device_route_job(facts, decision, &spec);
	if (!job_secret_make(&check.secret))
		return "the server has no random numbers";
	job = device_job_open(CurrentMemoryContext, &spec, device_job_bytes(&spec), DEVICE_JOB_CHUNKS,
						  facts->forced != NULL ? DEVICE_FORCED_PATIENCE_US : 0, &facts->device);
	if (job == NULL)
	{
		(void) gpu_fits(decision->algorithm, facts, &why);
		return why;
	}
	if (send_values(values, job, &spec, &check))
		receive_values(values, job, &spec, &check, out);
	if (!job->failed)
		device_learn_job(job, facts, algorithm_by_name(job->times.algorithm), true);
	else
	{
		why = pstrdup(job->why);
		device_log_failure(why);
		gpusort_stat_fallback(decision->algorithm);
	}
	device_job_close(job);
	return why;
}

/* ------------------------------------------------------------------------
 * Sorting on the CPU, and the SQL function
 * ------------------------------------------------------------------------
 */

/* Runs stmt with a constant type t, so that array_normkey_at() is inlined without its switch. */
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
summarize_as(const char *data, Oid type, size_t from, size_t to, NormkeySummary *sum)
{
	uint64		last = from == 0 ? array_normkey_at(data, type, 0) : sum->last;
	uint64		min = from == 0 ? last : sum->min;
	uint64		max = from == 0 ? last : sum->max;
	size_t		descents = 0;
	size_t		ascents = 0;

	for (size_t i = from; i < to; i++)
	{
		uint64		normkey = array_normkey_at(data, type, i);

		min = Min(min, normkey);
		max = Max(max, normkey);
		descents += normkey < last;
		ascents += normkey > last;
		last = normkey;
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
		recs[i] = (array_normkey_at(data, type, i) - min) << shift | i;
}

static pg_attribute_always_inline void
widen_as(const char *data, Oid type, size_t from, size_t to, uint64 min,
		 SortRec64 *recs)
{
	for (size_t i = from; i < to; i++)
	{
		recs[i].key = array_normkey_at(data, type, i) - min;
		recs[i].rid = (uint32) i;
		recs[i].pad = 0;
	}
}

/* Writes the elements [from, to) of the result. */
static void
gather_elements(const char *data, int16 width, const SortProblem *problem, size_t from, size_t to,
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

/* Callback of kernels.  An error leaves the kernel by longjmp, which kernels allow. */
static bool
array_interrupted(void *arg)
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
fill_facts(size_t n, const NormkeySummary *sum, RouteFacts *facts)
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
 * Sorts on a GPU if the user named a GPU algorithm, or named none and the router chooses
 * one.  False: the CPU must sort.
 */
static bool
sort_array_on_device(const ArrayValues *values, const RouteFacts *cpu_facts,
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

/* Chooses the CPU algorithm: the one that the user named, or the router's choice. */
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
	NormkeySummary sum = {0};
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
	device_learn_cpu_facts(&facts);
	if (sort_array_on_device(&values, &facts, asked, out))
		return;

	gpusort_route_problem(&facts, &problem);
	problem.interrupted = array_interrupted;
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
		gather_elements(data, width, &problem, i, Min(n, i + ARRAY_CHUNK), out);
	}
}

/* The element type, or a domain's base type; an error if it cannot be sorted. */
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
 * The result is ascending and stable, with NULL elements last, and has the input's lower
 * bound.
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
	 * NULL elements occupy no space in the array.  The values are contiguous before and
	 * after the sort; only the null bitmap changes.
	 */
	result = (ArrayType *) palloc(VARSIZE(array));
	memcpy(result, array, VARSIZE(array));
	if (ARR_HASNULL(array))
	{
		/* set bits are values, which come first now */
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
