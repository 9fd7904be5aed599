/*
 * cpu_abi_sort.c
 *	  The stand-in's sorts and gathers: see cpu_abi.c.
 *
 * A byte-wise radix sort over an index (LSD, stable), whatever the algorithm's
 * name; rows are copied one by one.
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
 * The library's list.  All of them sort alike here; what differs is which jobs they
 * take, so that whoever chooses among them can be tested.
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

/* The first of those that index by value, and those that make keys from values. */
#define BY_VALUE	3
#define ONEHOT		4
#define FROM_VALUES	5
#define DISTINCT	6

/* NULL if the algorithm takes the job; the conditions are the library's. */
static const char *
why_not(int32_t algorithm, const GpusortJob *job)
{
	int			bits = job->end_bit - job->begin_bit;
	uint64_t	range = bits < 32 ? UINT64_C(1) << bits : 0;
	unsigned	width = job->key_width == 32 ? GPUSORT_KEYS_32 :
		job->key_width == 64 ? GPUSORT_KEYS_64 : GPUSORT_KEYS_128;

	if ((algorithms[algorithm].key_widths & width) == 0)
		return "it does not take keys of this width";
	if ((job->output & GPUSORT_OUT_RIDS) && !algorithms[algorithm].rids)
		return "it sorts keys only";
	if (algorithm < BY_VALUE)
		return NULL;
	if (job->facts & GPUSORT_FACT_KEY_RANGE)
		range = job->key_max.hi == 0 && job->key_min.hi == 0 ?
			job->key_max.lo - job->key_min.lo + 1 : 0;
	if (range == 0 || range > UINT32_MAX)
		return "the keys' range is unknown or too large";
	if (range > GPUSORT_VALUES_ALWAYS && range / GPUSORT_VALUES_PER_KEY > job->n)
		return "the keys' range is too large for so few rows";
	if (algorithm == ONEHOT && (job->n > GPUSORT_ONEHOT_KEYS ||
								range * ((job->n + 31) / 32 + 1) > GPUSORT_ONEHOT_WORDS))
		return "rows times values are too many";
	if (algorithm >= FROM_VALUES && bits != job->key_width)
		return "it makes keys from their values: all their bits must order";
	if (algorithm == DISTINCT && !(job->facts & GPUSORT_FACT_DISTINCT_KEYS))
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
cpu_abi_sort_us(int32_t algorithm, const GpusortJob *job)
{
	const GpusortCosts *costs = &gpusort_costs_h200;
	int			w = job->key_width == 32 ? 0 : job->key_width == 64 ? 1 : 2;
	const double *curves[] = {costs->radix[w], costs->merge[w], costs->bucket[w]};

	return gpusort_cost_at(algorithm < BY_VALUE ? curves[algorithm] : costs->counting_rids[2], (double) job->n);
}

static unsigned __int128
join(GpusortKey128 key)
{
	return ((unsigned __int128) key.hi << 64) | key.lo;
}

/* The job's own words, whatever the arrays hold. */
static GpusortStatus
check_words(const GpusortJob *job, GpusortError *err)
{
	int			bits = job->end_bit - job->begin_bit;

	if (job->begin_bit < 0 || bits <= 0 || job->end_bit > job->key_width)
		FAIL(GPUSORT_BAD_CALL, "key bits [%d, %d) of %d", (int) job->begin_bit,
			 (int) job->end_bit, (int) job->key_width);
	if ((job->facts & GPUSORT_FACT_KEY_RANGE) &&
		(join(job->key_min) > join(job->key_max) ||
		 (bits < 128 && join(job->key_max) >> bits != 0)))
		FAIL(GPUSORT_BAD_CALL, "the key range is none of %d bits", bits);
	return GPUSORT_OK;
}

static uint64_t
sort_bytes(const GpusortJob *job)
{
	return 2 * job->n * sizeof(uint32_t) + 256;
}

GpusortStatus
cpu_abi_sort_scratch(GpusortContext *ctx, int32_t algorithm, const GpusortJob *job,
			 uint64_t *bytes, const char **why, GpusortError *err)
{
	GpusortStatus status;

	(void) ctx;
	*bytes = sort_bytes(job);
	*why = NULL;
	if (!cpu_abi_algorithm(algorithm))
		FAIL(GPUSORT_BAD_CALL, "there is no algorithm %d", (int) algorithm);
	status = check_words(job, err);
	if (status != GPUSORT_OK)
		return status;
	*why = why_not(algorithm, job);
	if (*why)
		FAIL(GPUSORT_UNSUPPORTED, "%s: %s", algorithms[algorithm].name, *why);
	return GPUSORT_OK;
}

static unsigned __int128
key_at(const GpusortJob *job, uint64_t i)
{
	if (job->key_width == 32)
		return ((const uint32_t *) job->keys)[i];
	if (job->key_width == 64)
		return ((const uint64_t *) job->keys)[i];
	return join(((const GpusortKey128 *) job->keys)[i]);
}

/* The bits of a key that order. */
static unsigned __int128
order_bits(const GpusortJob *job, uint64_t i)
{
	int			above = 128 - job->end_bit;

	return key_at(job, i) << above >> above >> job->begin_bit;
}

/* Eight bits of a key from bit on, as far as they are below end_bit. */
static unsigned
digit(const GpusortJob *job, uint32_t i, int bit)
{
	int			bits = job->end_bit - bit < 8 ? job->end_bit - bit : 8;

	return (unsigned) (key_at(job, i) >> bit) & ((1u << bits) - 1);
}

static GpusortStatus
check_arrays(const GpusortContext *ctx, const GpusortJob *job, GpusortError *err)
{
	uint64_t	key_bytes = job->n * (uint64_t) (job->key_width / 8);
	uint64_t	rid_bytes = job->n * sizeof(uint32_t);

	if (!cpu_abi_in_block(ctx, job->keys, key_bytes) ||
		(job->rids && !cpu_abi_in_block(ctx, job->rids, rid_bytes)) ||
		((job->output & GPUSORT_OUT_KEYS) && !cpu_abi_in_block(ctx, job->keys_out, key_bytes)) ||
		((job->output & GPUSORT_OUT_RIDS) && !cpu_abi_in_block(ctx, job->rids_out, rid_bytes)) ||
		!cpu_abi_in_block(ctx, job->scratch, sort_bytes(job)) ||
		job->scratch_bytes < sort_bytes(job))
		FAIL(GPUSORT_BAD_CALL, "an array of the job is not device memory");
	return GPUSORT_OK;
}

GpusortStatus
cpu_abi_sort_run(GpusortStream *stream, int32_t algorithm, const GpusortJob *job,
		 GpusortResult *result, GpusortError *err)
{
	uint32_t   *order = job->scratch;
	uint32_t   *other = order + job->n;
	int			passes = 0;
	GpusortStatus status = check_words(job, err);

	if (status == GPUSORT_OK)
		status = check_arrays(stream->ctx, job, err);
	if (status != GPUSORT_OK)
		return status;
	if (why_not(algorithm, job))
		FAIL(GPUSORT_UNSUPPORTED, "%s: %s", algorithms[algorithm].name, why_not(algorithm, job));
	if (job->facts & GPUSORT_FACT_KEY_RANGE)
	{
		for (uint64_t i = 0; i < job->n; i++)
		{
			if (order_bits(job, i) < join(job->key_min) || order_bits(job, i) > join(job->key_max))
				FAIL(GPUSORT_BAD_CALL, "a key is not within the range that was told");
		}
	}
	for (uint64_t i = 0; i < job->n; i++)
		order[i] = (uint32_t) i;
	for (int bit = job->begin_bit; bit < job->end_bit; bit += 8, passes++)
	{
		uint64_t	start[257] = {0};
		uint32_t   *swap = order;

		if (job->cancel && *job->cancel)
			FAIL(GPUSORT_STOPPED, "the sort was cancelled");
		for (uint64_t i = 0; i < job->n; i++)
			start[digit(job, order[i], bit) + 1]++;
		for (int d = 0; d < 256; d++)
			start[d + 1] += start[d];
		for (uint64_t i = 0; i < job->n; i++)
			other[start[digit(job, order[i], bit)]++] = order[i];
		order = other;
		other = swap;
	}
	for (uint64_t i = 0; i < job->n; i++)
	{
		uint64_t	width = job->key_width / 8;

		if (job->output & GPUSORT_OUT_KEYS)
			memcpy((char *) job->keys_out + i * width,
				   (const char *) job->keys + order[i] * width, width);
		if (job->output & GPUSORT_OUT_RIDS)
			job->rids_out[i] = job->rids ? job->rids[order[i]] : order[i];
	}
	if (result)
	{
		memset(result, 0, sizeof(*result));
		result->stable = 1;
		result->passes = passes;
	}
	return GPUSORT_OK;
}

/* ------------------------------------------------------------------------
 * Rows
 * ------------------------------------------------------------------------
 */
GpusortStatus
cpu_abi_gather_scratch(GpusortContext *ctx, const GpusortGather *job, uint64_t *bytes,
			   GpusortError *err)
{
	(void) ctx;
	(void) job;
	(void) err;
	*bytes = 256;
	return GPUSORT_OK;
}

static uint32_t
units_of(const GpusortGather *job, uint32_t row)
{
	return job->row_units ? job->row_units[row] :
		job->row_offset[row + 1] - job->row_offset[row];
}

GpusortStatus
cpu_abi_gather_plan(GpusortStream *stream, const GpusortGather *job, uint32_t *chunks,
			GpusortError *err)
{
	uint64_t	at = 0;
	uint64_t	chunk_start = 0;
	uint32_t	c = 0;

	if (!cpu_abi_in_block(stream->ctx, job->rows, job->rows_units * 8) ||
		!cpu_abi_in_block(stream->ctx, job->out_offset, (job->n + 1) * sizeof(uint64_t)) ||
		!cpu_abi_in_block(stream->ctx, job->order, job->n * sizeof(uint32_t)) ||
		!cpu_abi_in_block(stream->ctx, job->row_offset,
				  (job->n + (job->row_units ? 0 : 1)) * sizeof(uint32_t)))
		FAIL(GPUSORT_BAD_CALL, "an array of the rows is not device memory");
	job->chunk_row[0] = 0;
	for (uint64_t i = 0; i < job->n; i++)
	{
		uint32_t	units = units_of(job, job->order[i]);

		if (units > job->chunk_units ||
			(uint64_t) job->row_offset[job->order[i]] + units > job->rows_units)
			FAIL(GPUSORT_UNSUPPORTED, "a row is longer than a chunk, or than the rows");
		if (at + units - chunk_start > job->chunk_units)
		{
			if (++c >= job->max_chunks)
				FAIL(GPUSORT_UNSUPPORTED, "the rows make too many chunks");
			job->chunk_row[c] = (uint32_t) i;
			chunk_start = at;
		}
		job->out_offset[i] = at;
		at += units;
	}
	job->out_offset[job->n] = at;
	job->chunk_row[++c] = (uint32_t) job->n;
	*chunks = c;
	return GPUSORT_OK;
}

GpusortStatus
cpu_abi_gather_rows(GpusortStream *stream, const GpusortGather *job, uint64_t first,
			uint64_t last, void *dst, GpusortError *err)
{
	uint64_t	base = job->out_offset[first];

	if (last > job->n || first > last ||
		!cpu_abi_in_block(stream->ctx, dst, (job->out_offset[last] - base) * 8))
		FAIL(GPUSORT_BAD_CALL, "rows would be written outside of device memory");
	for (uint64_t i = first; i < last; i++)
	{
		uint32_t	row = job->order[i];

		memcpy((char *) dst + (job->out_offset[i] - base) * 8,
			   (const char *) job->rows + (uint64_t) job->row_offset[row] * 8,
			   (uint64_t) units_of(job, row) * 8);
	}
	return GPUSORT_OK;
}
