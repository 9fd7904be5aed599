/*
 * array_function.c
 *	  gpusort_array(anyarray, algorithm): sorts an array with one algorithm.
 *
 * The elements become normalized keys, and these become (key, rid) records, where rid is
 * the element's position.  The kernel sorts the records, and the original elements are
 * gathered in that order.  Values are not decoded from keys, because a normalized key does
 * not distinguish -0 from +0, or two NaNs.
 *
 * Keys are narrowed: the smallest one is subtracted, and only the bits of the largest
 * difference are significant.  Records take the place of the keys, 8 bytes each, if key
 * and rid fit; only wide ranges of 8-byte types need 16 bytes.
 *
 * Memory: the records and the kernel's scratch live in the function's memory context,
 * 16 to 56 bytes per element.  work_mem does not apply, as it does not to the array.
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
#include "port/pg_bitutils.h"
#include "service/service.h"
#include "sql/sql_functions.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

SQL_FUNCTION(gpusort_array);

/* The values of the array, without NULLs */
typedef struct ArraySort
{
	const char *data;
	char	   *out;			/* the sorted values */
	Oid			type;			/* INT2OID, INT4OID, INT8OID, FLOAT4OID, FLOAT8OID */
	int16		width;			/* bytes per value */
	size_t		n;
	uint64	   *keys;			/* normalized keys */
	uint64		min;			/* the smallest one */
} ArraySort;

/* Elements between two checks for interrupts */
#define ARRAY_CHUNK		((size_t) 1 << 18)

static void *
alloc_aligned(size_t size)
{
	char	   *p = MemoryContextAllocHuge(CurrentMemoryContext, size + 64);

	return (void *) TYPEALIGN(64, p);
}

/* The narrowed key of element i */
static inline uint64
key_at(const ArraySort *sort, size_t i)
{
	return sort->keys[i] - sort->min;
}

/* Writes element rid at this position of the result. */
static inline void
put_element(const ArraySort *sort, size_t at, uint32 rid)
{
	switch (sort->width)
	{
		case 2:
			((int16 *) sort->out)[at] = ((const int16 *) sort->data)[rid];
			break;
		case 4:
			((int32 *) sort->out)[at] = ((const int32 *) sort->data)[rid];
			break;
		default:
			((int64 *) sort->out)[at] = ((const int64 *) sort->data)[rid];
			break;
	}
}

/* Writes the integer of a narrowed key at this position of the result. */
static inline void
put_integer(const ArraySort *sort, size_t at, uint64 key)
{
	uint64		normkey = key + sort->min;

	if (sort->type == INT8OID)
		((uint64 *) sort->out)[at] = normkey ^ (UINT64CONST(1) << 63);
	else if (sort->type == INT4OID)
		((uint32 *) sort->out)[at] = (uint32) normkey ^ 0x80000000U;
	else
		((int16 *) sort->out)[at] = (int16) (int32) ((uint32) normkey ^ 0x80000000U);
}

static void
cannot_sort(const RouteFacts *facts, const char *why)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("algorithm \"%s\" cannot sort this array", facts->forced->name),
			 errdetail("The array has %zu elements and %d significant key bits: %s.",
					   facts->n, facts->end_bit - facts->begin_bit, why),
			 errhint("Use \"auto\" to have an algorithm chosen.")));
}

/* Chooses an algorithm; an error if the one that the user named cannot sort the array. */
static void
decide(const RouteFacts *facts, RouteDecision *decision)
{
	gpusort_route_decide(facts, decision);
	if (decision->forced_why_not != NULL)
		cannot_sort(facts, decision->forced_why_not);
}

/* ------------------------------------------------------------------------
 * Keys
 * ------------------------------------------------------------------------
 */

/* Makes the normalized keys of the elements [from, to). */
static void
make_array_keys(const ArraySort *sort, size_t from, size_t to)
{
	static const KeyBufferColumn ascending;

#define MAKE_KEYS(kind, type) \
	for (size_t i = from; i < to; i++) \
		sort->keys[i] = normkey_at(&ascending, NO_KEY_MAKER, kind, 0, sort->data + i * sizeof(type), \
								   sizeof(type), NULL)
	switch (sort->type)
	{
		case INT2OID:
			MAKE_KEYS(KEY_INT2, int16);
			break;
		case INT4OID:
			MAKE_KEYS(KEY_INT4, int32);
			break;
		case INT8OID:
			MAKE_KEYS(KEY_INT8, int64);
			break;
		case FLOAT4OID:
			MAKE_KEYS(KEY_FLOAT4, float4);
			break;
		default:
			Assert(sort->type == FLOAT8OID);
			MAKE_KEYS(KEY_FLOAT8, float8);
			break;
	}
}

/* Makes all keys, and the facts that do not depend on the records. */
static void
normalize(ArraySort *sort, RouteFacts *facts)
{
	int			rid_bits = pg_leftmost_one_pos64(sort->n - 1) + 1;
	uint64		min = PG_UINT64_MAX;
	uint64		max = 0;
	int			key_bits;

	memset(facts, 0, sizeof(*facts));
	sort->keys = alloc_aligned(sort->n * sizeof(uint64));
	for (size_t from = 0; from < sort->n; from += ARRAY_CHUNK)
	{
		size_t		to = Min(sort->n, from + ARRAY_CHUNK);
		uint64		last;

		CHECK_FOR_INTERRUPTS();
		make_array_keys(sort, from, to);
		last = sort->keys[from > 0 ? from - 1 : 0];
		for (size_t i = from; i < to; i++)
		{
			uint64		key = sort->keys[i];

			min = Min(min, key);
			max = Max(max, key);
			facts->descents += key < last;
			facts->ascents += key > last;
			last = key;
		}
	}
	sort->min = min;
	key_bits = pg_leftmost_one_pos64((max - min) | 1) + 1;
	facts->n = sort->n;
	facts->format = key_bits + rid_bits <= 64 ? SORT_REC_PACKED : SORT_REC_64;
	facts->begin_bit = facts->format != SORT_REC_PACKED ? 0 : key_bits <= 32 ? 32 : rid_bits;
	facts->end_bit = facts->begin_bit + key_bits;
	facts->key_range = max - min == PG_UINT64_MAX ? PG_UINT64_MAX : max - min + 1;
	facts->order_known = true;
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

static uint8 *
make_bitmap(uint64 bits)
{
	return palloc_extended(bits / 8 + 1, MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
}

/* Sets a bit; false if it was set. */
static inline bool
is_first(uint8 *bitmap, uint64 bit)
{
	uint8		mask = (uint8) (1 << (bit % 8));
	bool		first = (bitmap[bit / 8] & mask) == 0;

	bitmap[bit / 8] |= mask;
	return first;
}

/* Are all values distinct?  The key range fits gpu_hp1. */
static bool
all_distinct(const ArraySort *sort, uint64 range)
{
	uint8	   *seen = make_bitmap(range);
	bool		distinct = true;

	for (size_t i = 0; i < sort->n && distinct; i++)
	{
		if (i % ARRAY_CHUNK == 0)
			CHECK_FOR_INTERRUPTS();
		distinct = is_first(seen, key_at(sort, i));
	}
	pfree(seen);
	return distinct;
}

/* Sets the GPU's facts. */
static void
array_device_facts(const ArraySort *sort, RouteFacts *facts)
{
	const Algorithm *asked = facts->forced;
	bool		floats = sort->type == FLOAT4OID || sort->type == FLOAT8OID;
	bool		keys_only = asked != NULL && asked->keys_only;
	const char *why;

	facts->device = asked != NULL ? device_bring_back(DEVICE_FORCED_PATIENCE_US) : device_state();
	if (facts->device != DEVICE_STATE_READY)
		return;
	if (keys_only && floats)
	{
		facts->gpu.why_not = "it sorts keys only, and a float cannot be made from its key";
		return;
	}
	facts->gpu.key_bits = facts->end_bit - facts->begin_bit;
	facts->gpu.key_width = facts->gpu.key_bits <= 32 ? 32 : 64;
	facts->gpu.keys_only = keys_only;
	facts->gpu.keys_back = keys_only;
	facts->gpu.algorithms = device_algorithms();
	device_learn_facts(facts, NULL, NULL);
	/* all_distinct() reads all keys, so it is called only if it decides */
	facts->gpu.distinct = keys_only;
	if (keys_only && gpu_fits(asked, facts, &why))
		facts->gpu.distinct = asked->distinct && all_distinct(sort, facts->key_range);
}

static bool
send_keys(const ArraySort *sort, DeviceJob *job, const DeviceJobSpec *spec, KeyCheck *check)
{
	size_t		per_chunk = key_chunk_rows(spec);

	for (size_t start = 0; start < sort->n; start += per_chunk)
	{
		KeyChunk	chunk;

		if (!key_chunk_next_up(job, Min(per_chunk, sort->n - start), &chunk))
			return false;
		for (uint32 i = 0; i < chunk.rows; i++)
		{
			if (spec->key_width == 32)
				((uint32 *) chunk.keys)[i] = (uint32) key_at(sort, start + i);
			else
				((uint64 *) chunk.keys)[i] = key_at(sort, start + i);
			if (chunk.rids != NULL)
				chunk.rids[i] = (uint32) (start + i);
		}
		if (spec->want_keys)
			check->sum += device_check_sum(check, chunk.keys, NULL, spec->key_width, chunk.rows);
		key_chunk_post(job, &chunk);
		CHECK_FOR_INTERRUPTS();
	}
	device_job_sort(job);
	return !job->failed;
}

/* Writes a chunk's values from position at; false if a rid is invalid or repeats. */
static bool
put_chunk(const ArraySort *sort, const DeviceJobSpec *spec, const KeyChunk *chunk, size_t at, uint8 *seen)
{
	for (uint32 i = 0; i < chunk->rows; i++)
	{
		/* the device can write to the chunk: what is checked must be what is used */
		uint32		rid = chunk->rids != NULL ? chunk->rids[i] : 0;

		if (chunk->rids == NULL)
			put_integer(sort, at + i, spec->key_width == 32 ? ((const uint32 *) chunk->keys)[i] :
						((const uint64 *) chunk->keys)[i]);
		else if (rid >= sort->n || !is_first(seen, rid))
			return false;
		else
			put_element(sort, at + i, rid);
	}
	return true;
}

static void
receive_values(const ArraySort *sort, DeviceJob *job, const DeviceJobSpec *spec, KeyCheck *check)
{
	size_t		done = 0;
	KeyChunk	chunk;
	uint8	   *seen = spec->keys_only ? NULL : make_bitmap(sort->n);

	while (key_chunk_next_down(job, &chunk))
	{
		if ((spec->want_keys && !device_check_keys(check, chunk.keys, NULL, spec->key_width, chunk.rows,
												   done + chunk.rows == sort->n)) ||
			!put_chunk(sort, spec, &chunk, done, seen))
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
 * Sorts the values by the decision's GPU algorithm.  Returns NULL, or the reason why it
 * failed; sort->out is undefined then.
 */
static const char *
run_device_job(const ArraySort *sort, RouteFacts *facts, const RouteDecision *decision)
{
	DeviceJobSpec spec = {0};
	KeyCheck	check = {0};
	DeviceJob  *job;
	const char *why = NULL;

	spec.mode = DEVICE_KEYS;
	spec.max_rows = sort->n;
	device_route_job(facts, decision, &spec);
	if (!job_secret_make(&check.secret))
		return "the server has no random numbers";
	job = device_job_open(CurrentMemoryContext, &spec, facts->forced != NULL ? DEVICE_FORCED_PATIENCE_US : 0,
						  &facts->device);
	if (job == NULL)
	{
		(void) gpu_fits(decision->algorithm, facts, &why);
		return why;
	}
	if (send_keys(sort, job, &spec, &check))
		receive_values(sort, job, &spec, &check);
	if (!job->failed)
		device_learn_job(job, facts, algorithm_by_name(job->times.algorithm), true);
	else
	{
		why = pstrdup(job->why);
		gpusort_stat_fallback(decision->algorithm);
	}
	device_job_close(job);
	return why;
}

/*
 * Sorts on a GPU if the user named a GPU algorithm, or named none and the router chooses
 * one.  False: the CPU must sort.
 */
static bool
sort_on_device(const ArraySort *sort, RouteFacts facts)
{
	RouteDecision decision;
	const char *why;

	if (facts.forced != NULL && !algorithm_on_gpu(facts.forced))
		return false;
	array_device_facts(sort, &facts);
	decide(&facts, &decision);
	if (!algorithm_on_gpu(decision.algorithm))
		return false;
	why = run_device_job(sort, &facts, &decision);
	if (why != NULL && facts.forced != NULL)
		cannot_sort(&facts, why);
	return why == NULL;
}

/* ------------------------------------------------------------------------
 * Sorting on the CPU, and the SQL function
 * ------------------------------------------------------------------------
 */

/* Callback of kernels.  An error leaves the kernel by longjmp, which kernels allow. */
static bool
array_interrupted(void *arg)
{
	CHECK_FOR_INTERRUPTS();
	return false;
}

/* Makes the records of the keys; packed records take their place. */
static void *
make_array_records(const ArraySort *sort, const RouteFacts *facts)
{
	SortRec64  *recs;

	if (facts->format == SORT_REC_PACKED)
	{
		for (size_t i = 0; i < sort->n; i++)
			sort->keys[i] = key_at(sort, i) << facts->begin_bit | i;
		return sort->keys;
	}
	recs = alloc_aligned(sort->n * sizeof(SortRec64));
	for (size_t i = 0; i < sort->n; i++)
		sort_rec_set(recs, SORT_REC_64, 0, i, key_at(sort, i), (uint32) i);
	return recs;
}

static void
sort_values(ArraySort *sort, const Algorithm *asked)
{
	RouteFacts	facts;
	RouteDecision decision;
	SortProblem problem;
	const SortKernel *kernel;

	normalize(sort, &facts);
	facts.forced = asked;
	device_learn_cpu_facts(&facts);
	if (sort_on_device(sort, facts))
		return;

	gpusort_route_problem(&facts, &problem);
	problem.interrupted = array_interrupted;
	problem.recs = make_array_records(sort, &facts);
	if (asked == NULL)
		gpusort_route_sample(&facts, problem.recs);
	decide(&facts, &decision);
	kernel = decision.algorithm->kernel;
	problem.scratch = alloc_aligned(kernel->scratch_bytes(&problem));
	if (kernel->run(&problem) != SORT_OK)
		elog(ERROR, "algorithm \"%s\" refused a problem that it had accepted", decision.algorithm->name);

	for (size_t i = 0; i < sort->n; i++)
	{
		uint32		rid;

		if (i % ARRAY_CHUNK == 0)
			CHECK_FOR_INTERRUPTS();
		(void) sort_rec_get(problem.result, facts.format, facts.begin_bit, i, &rid);
		put_element(sort, i, rid);
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
	{
		ArraySort	sort = {ARR_DATA_PTR(array), ARR_DATA_PTR(result), base, get_typlen(base), nvalues};

		sort_values(&sort, asked);
	}

	PG_FREE_IF_COPY(array, 0);
	PG_RETURN_ARRAYTYPE_P(result);
}
