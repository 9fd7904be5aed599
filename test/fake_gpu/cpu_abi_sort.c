/*
 * cpu_abi_sort.c
 *	  The fake device's sorts and gathers: see cpu_abi.c.
 *
 * All algorithms run the same byte-wise LSD radix sort over an index, which is
 * stable.  Equal keys are dropped, and rows copied, one by one.
 */
#include <string.h>

#include "costs_h200.h"
#include "cpu_abi.h"
#include "value/value_limits.h"

/* ------------------------------------------------------------------------
 * Sorts
 * ------------------------------------------------------------------------
 */
/*
 * The GPU library's list of algorithms.  They differ here only in the problems
 * that they accept, so that tests can check the choice between them.
 */
#define ALL_KEYS	(GPUSORT_KEYS_32 | GPUSORT_KEYS_64 | GPUSORT_KEYS_128)
#define HP_KEYS		(GPUSORT_KEYS_32 | GPUSORT_KEYS_64)

static const GpusortAlgorithm algorithms[] = {
	{"gpu_radix", ALL_KEYS, 1, 1},
	{"gpu_merge", ALL_KEYS, 1, 1},
	{"gpu_bucket", ALL_KEYS, 1, 1},
	{"gpu_counting", ALL_KEYS, 1, 1},
	{"gpu_onehot", ALL_KEYS, 1, 1},
	{"gpu_hp", HP_KEYS, 0, 0},
	{"gpu_hp1", HP_KEYS, 0, 0},
	{"gpu_hp0", HP_KEYS, 0, 0}
};

/*
 * Indexes in algorithms[]: from BY_VALUE on they index by value, from
 * FROM_VALUES on they make keys from values.
 */
#define BY_VALUE	3
#define ONEHOT		4
#define FROM_VALUES	5
#define DISTINCT	6

/*
 * Why the algorithm cannot sort the problem; NULL if it can.  The conditions
 * are those of the GPU library.
 */
static const char *
why_not(int32_t algorithm, const GpusortProblem *problem)
{
	int			bits = problem->end_bit - problem->begin_bit;
	uint64_t	range = bits < 32 ? UINT64_C(1) << bits : 0;
	unsigned	width = problem->key_width == 32 ? GPUSORT_KEYS_32 :
		problem->key_width == 64 ? GPUSORT_KEYS_64 : GPUSORT_KEYS_128;

	if (cpu_abi_setting("GPUSORT_CPU_ABI_LACKS", UINT64_MAX) == (uint64_t) algorithm)
		return "the device cannot run it";
	if ((algorithms[algorithm].key_widths & width) == 0)
		return "it does not take keys of this width";
	if ((problem->output & GPUSORT_OUT_RIDS) && !algorithms[algorithm].rids)
		return "it sorts keys only";
	if (algorithm < BY_VALUE)
		return NULL;
	if (problem->facts & GPUSORT_FACT_KEY_RANGE)
		range = problem->key_max.hi == 0 && problem->key_min.hi == 0 ?
			problem->key_max.lo - problem->key_min.lo + 1 : 0;
	if (range == 0 || range > UINT32_MAX)
		return "the keys' range is unknown or too large";
	if (range > GPUSORT_VALUES_ALWAYS && range / GPUSORT_VALUES_PER_KEY > problem->n)
		return "the keys' range is too large for so few rows";
	if (algorithm == ONEHOT && (problem->n > GPUSORT_ONEHOT_KEYS ||
								range * ((problem->n + 31) / 32 + 1) > GPUSORT_ONEHOT_WORDS))
		return "rows times values are too many";
	if (algorithm >= FROM_VALUES && bits != problem->key_width)
		return "it makes keys from their values: all their bits must order";
	if (algorithm == DISTINCT && !(problem->facts & GPUSORT_FACT_DISTINCT_KEYS))
		return "the keys are not known to be distinct";
	return NULL;
}

#define ALGORITHMS	((int32_t) (sizeof(algorithms) / sizeof(algorithms[0])))

const GpusortAlgorithm *
cpu_abi_algorithm(int32_t index)
{
	return index >= 0 && index < ALGORITHMS ? &algorithms[index] : NULL;
}

double
cpu_abi_sort_us(int32_t algorithm, const GpusortProblem *problem)
{
	const GpusortCosts *costs = &gpusort_costs_h200;
	int			w = problem->key_width == 32 ? 0 : problem->key_width == 64 ? 1 : 2;
	const double *curves[] = {
		costs->radix[GPUSORT_KEYS_UNIFORM][w], costs->merge[w], costs->bucket[GPUSORT_KEYS_UNIFORM][w]
	};

	return gpusort_cost_at(algorithm < BY_VALUE ? curves[algorithm] : costs->counting_rids[2], (double) problem->n);
}

static unsigned __int128
join(GpusortKey128 key)
{
	return ((unsigned __int128) key.hi << 64) | key.lo;
}

/* Checks the fields of the problem, without looking at its arrays. */
static GpusortStatus
check_words(const GpusortProblem *problem, GpusortError *err)
{
	int			bits = problem->end_bit - problem->begin_bit;

	if (problem->begin_bit < 0 || bits <= 0 || problem->end_bit > problem->key_width)
		FAIL(GPUSORT_BAD_CALL, "key bits [%d, %d) of %d", (int) problem->begin_bit,
			 (int) problem->end_bit, (int) problem->key_width);
	if ((problem->facts & GPUSORT_FACT_KEY_RANGE) &&
		(join(problem->key_min) > join(problem->key_max) ||
		 (bits < 128 && join(problem->key_max) >> bits != 0)))
		FAIL(GPUSORT_BAD_CALL, "the key range is none of %d bits", bits);
	return GPUSORT_OK;
}

static uint64_t
sort_bytes(const GpusortProblem *problem)
{
	return 2 * problem->n * sizeof(uint32_t) + 256;
}

GpusortStatus
cpu_abi_sort_scratch(GpusortContext *ctx, int32_t algorithm, const GpusortProblem *problem,
					 uint64_t *bytes, const char **why, GpusortError *err)
{
	GpusortStatus status;

	(void) ctx;
	*bytes = sort_bytes(problem);
	*why = NULL;
	if (!cpu_abi_algorithm(algorithm))
		FAIL(GPUSORT_BAD_CALL, "there is no algorithm %d", (int) algorithm);
	status = check_words(problem, err);
	if (status != GPUSORT_OK)
		return status;
	*why = why_not(algorithm, problem);
	if (*why)
		FAIL(GPUSORT_UNSUPPORTED, "%s: %s", algorithms[algorithm].name, *why);
	return GPUSORT_OK;
}

static unsigned __int128
key_at(const GpusortProblem *problem, uint64_t i)
{
	if (problem->key_width == 32)
		return ((const uint32_t *) problem->keys)[i];
	if (problem->key_width == 64)
		return ((const uint64_t *) problem->keys)[i];
	return join(((const GpusortKey128 *) problem->keys)[i]);
}

/* The bits [begin_bit, end_bit) of a key. */
static unsigned __int128
order_bits(const GpusortProblem *problem, uint64_t i)
{
	int			above = 128 - problem->end_bit;

	return key_at(problem, i) << above >> above >> problem->begin_bit;
}

/* The digit of a key from bit on: eight bits, or fewer before end_bit. */
static unsigned
digit(const GpusortProblem *problem, uint32_t i, int bit)
{
	int			bits = problem->end_bit - bit < 8 ? problem->end_bit - bit : 8;

	return (unsigned) (key_at(problem, i) >> bit) & ((1u << bits) - 1);
}

static GpusortStatus
check_arrays(const GpusortContext *ctx, const GpusortProblem *problem, GpusortError *err)
{
	uint64_t	key_bytes = problem->n * (uint64_t) (problem->key_width / 8);
	uint64_t	rid_bytes = problem->n * sizeof(uint32_t);

	if (!cpu_abi_in_block(ctx, problem->keys, key_bytes) ||
		(problem->rids && !cpu_abi_in_block(ctx, problem->rids, rid_bytes)) ||
		((problem->output & GPUSORT_OUT_KEYS) && !cpu_abi_in_block(ctx, problem->keys_out, key_bytes)) ||
		((problem->output & GPUSORT_OUT_RIDS) && !cpu_abi_in_block(ctx, problem->rids_out, rid_bytes)) ||
		!cpu_abi_in_block(ctx, problem->scratch, sort_bytes(problem)) ||
		problem->scratch_bytes < sort_bytes(problem))
		FAIL(GPUSORT_BAD_CALL, "an array of the problem is not device memory");
	return GPUSORT_OK;
}

GpusortStatus
cpu_abi_sort_run(GpusortStream *stream, int32_t algorithm, const GpusortProblem *problem,
				 GpusortResult *result, GpusortError *err)
{
	uint32_t   *order = problem->scratch;
	uint32_t   *other = order + problem->n;
	int			passes = 0;
	int			nothing = cpu_abi_writes_nothing();
	GpusortStatus status = check_words(problem, err);

	if (status == GPUSORT_OK)
		status = check_arrays(stream->ctx, problem, err);
	if (status != GPUSORT_OK)
		return status;
	if (why_not(algorithm, problem))
		FAIL(GPUSORT_UNSUPPORTED, "%s: %s", algorithms[algorithm].name, why_not(algorithm, problem));
	if (problem->facts & GPUSORT_FACT_KEY_RANGE)
	{
		for (uint64_t i = 0; i < problem->n; i++)
		{
			if (order_bits(problem, i) < join(problem->key_min) || order_bits(problem, i) > join(problem->key_max))
				FAIL(GPUSORT_BAD_CALL, "a key lies outside of the reported range");
		}
	}
	for (uint64_t i = 0; i < problem->n; i++)
		order[i] = (uint32_t) i;
	for (int bit = problem->begin_bit; bit < problem->end_bit; bit += 8, passes++)
	{
		uint64_t	start[257] = {0};
		uint32_t   *swap = order;

		if (problem->cancel && *problem->cancel)
			FAIL(GPUSORT_STOPPED, "the sort was cancelled");
		for (uint64_t i = 0; i < problem->n; i++)
			start[digit(problem, order[i], bit) + 1]++;
		for (int d = 0; d < 256; d++)
			start[d + 1] += start[d];
		for (uint64_t i = 0; i < problem->n; i++)
			other[start[digit(problem, order[i], bit)]++] = order[i];
		order = other;
		other = swap;
	}
	for (uint64_t i = 0; i < problem->n; i++)
	{
		uint64_t	width = problem->key_width / 8;

		/* without rids the host cannot notice keys of another job */
		if ((problem->output & GPUSORT_OUT_KEYS) &&
			((problem->output & GPUSORT_OUT_RIDS) || !nothing))
			memcpy((char *) problem->keys_out + i * width,
				   (const char *) problem->keys + order[i] * width, width);
		if (problem->output & GPUSORT_OUT_RIDS)
			problem->rids_out[i] = problem->rids ? problem->rids[order[i]] : order[i];
	}
	cpu_abi_sorted(problem);
	if (result)
	{
		memset(result, 0, sizeof(*result));
		result->stable = 1;
		result->passes = passes;
	}
	return GPUSORT_OK;
}

/* ------------------------------------------------------------------------
 * Groups
 * ------------------------------------------------------------------------
 */
GpusortStatus
cpu_abi_groups_scratch(GpusortContext *ctx, const GpusortGroups *problem, uint64_t *bytes,
					   GpusortError *err)
{
	(void) ctx;
	(void) err;
	*bytes = problem->n * sizeof(uint32_t) + 256;
	return GPUSORT_OK;
}

GpusortStatus
cpu_abi_groups_run(GpusortStream *stream, const GpusortGroups *problem, uint64_t *groups,
				   GpusortError *err)
{
	GpusortProblem keys = {0};
	uint64_t	width = (uint64_t) problem->key_width / 8;
	uint64_t	n = 0;
	int			nothing = cpu_abi_writes_nothing();

	*groups = 0;
	keys.keys = problem->keys;
	keys.key_width = problem->key_width;
	keys.begin_bit = problem->begin_bit;
	keys.end_bit = problem->end_bit;
	if (check_words(&keys, err) != GPUSORT_OK)
		return GPUSORT_BAD_CALL;
	if (!cpu_abi_in_block(stream->ctx, problem->keys, problem->n * width) ||
		!cpu_abi_in_block(stream->ctx, problem->keys_out, problem->n * width) ||
		!cpu_abi_in_block(stream->ctx, problem->ends, problem->n * sizeof(uint32_t)) ||
		(problem->rids && (!cpu_abi_in_block(stream->ctx, problem->rids, problem->n * sizeof(uint32_t)) ||
						   !cpu_abi_in_block(stream->ctx, problem->rids_out, problem->n * sizeof(uint32_t)))) ||
		!cpu_abi_in_block(stream->ctx, problem->scratch, problem->n * sizeof(uint32_t) + 256))
		FAIL(GPUSORT_BAD_CALL, "an array of the groups is not device memory");
	if (problem->cancel && *problem->cancel)
		FAIL(GPUSORT_STOPPED, "the sort was cancelled");
	for (uint64_t i = 0; i < problem->n; i++)
	{
		if (i == 0 || order_bits(&keys, i) != order_bits(&keys, i - 1))
		{
			if (!nothing)
			{
				memcpy((char *) problem->keys_out + n * width, (const char *) problem->keys + i * width, width);
				if (problem->rids)
					problem->rids_out[n] = problem->rids[i];
			}
			n++;
		}
		if (!nothing)
			problem->ends[n - 1] = (uint32_t) i + 1;
	}
	*groups = n;
	return GPUSORT_OK;
}

/* ------------------------------------------------------------------------
 * Rows
 * ------------------------------------------------------------------------
 */
GpusortStatus
cpu_abi_gather_scratch(GpusortContext *ctx, const GpusortGather *gather, uint64_t *bytes,
					   GpusortError *err)
{
	(void) ctx;
	(void) gather;
	(void) err;
	*bytes = 256;
	return GPUSORT_OK;
}

static uint32_t
units_of(const GpusortGather *gather, uint32_t row)
{
	return gather->row_units ? gather->row_units[row] :
		gather->row_offset[row + 1] - gather->row_offset[row];
}

GpusortStatus
cpu_abi_gather_plan(GpusortStream *stream, const GpusortGather *gather, uint32_t *chunks,
					GpusortError *err)
{
	uint64_t	at = 0;
	uint64_t	chunk_start = 0;	/* first unit of the chunk, with the overhead */
	uint32_t	c = 0;

	if (!cpu_abi_in_block(stream->ctx, gather->rows, gather->rows_units * 8) ||
		!cpu_abi_in_block(stream->ctx, gather->out_offset, (gather->n + 1) * sizeof(uint64_t)) ||
		!cpu_abi_in_block(stream->ctx, gather->order, gather->n * sizeof(uint32_t)) ||
		!cpu_abi_in_block(stream->ctx, gather->row_offset,
						  (gather->n + (gather->row_units ? 0 : 1)) * sizeof(uint32_t)))
		FAIL(GPUSORT_BAD_CALL, "an array of the rows is not device memory");
	gather->chunk_row[0] = 0;
	for (uint64_t i = 0; i < gather->n; i++)
	{
		uint32_t	units = units_of(gather, gather->order[i]);

		if (units + gather->overhead_units > gather->chunk_units ||
			(uint64_t) gather->row_offset[gather->order[i]] + units > gather->rows_units)
			FAIL(GPUSORT_UNSUPPORTED, "a row is longer than a chunk, or than the rows");
		if (at + units + (i + 1) * gather->overhead_units - chunk_start > gather->chunk_units)
		{
			if (++c >= gather->max_chunks)
				FAIL(GPUSORT_UNSUPPORTED, "the rows make too many chunks");
			gather->chunk_row[c] = (uint32_t) i;
			chunk_start = at + i * gather->overhead_units;
		}
		gather->out_offset[i] = at;
		at += units;
	}
	gather->out_offset[gather->n] = at;
	gather->chunk_row[++c] = (uint32_t) gather->n;
	*chunks = c;
	return GPUSORT_OK;
}

GpusortStatus
cpu_abi_gather_rows(GpusortStream *stream, const GpusortGather *gather, uint64_t first,
					uint64_t last, void *dst, GpusortError *err)
{
	uint64_t	base = gather->out_offset[first];
	int			nothing = cpu_abi_writes_nothing();

	if (last > gather->n || first > last ||
		!cpu_abi_in_block(stream->ctx, dst, (gather->out_offset[last] - base) * 8))
		FAIL(GPUSORT_BAD_CALL, "rows would be written outside of device memory");
	for (uint64_t i = first; i < last && !nothing; i++)
	{
		uint32_t	row = gather->order[i];

		memcpy((char *) dst + (gather->out_offset[i] - base) * 8,
			   (const char *) gather->rows + (uint64_t) gather->row_offset[row] * 8,
			   (uint64_t) units_of(gather, row) * 8);
	}
	cpu_abi_gathered(gather, first, last, dst);
	return GPUSORT_OK;
}
