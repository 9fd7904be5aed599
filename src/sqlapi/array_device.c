/*
 * array_device.c
 *	  gpusort_array()'s sorts on a GPU.
 *
 * A job as any sort's: keys go up in chunks, narrowed to the range of the array's
 * images, with the elements' positions as rids; the rids come back and the elements are
 * gathered.  The algorithms that sort keys only send no rids: an integer is made from
 * its key again.  A float could not be (-0, NaN).  What comes back is checked as in any
 * sort (sort/device/keys/device_check.c): places are the array's, each once; keys ascend and have the
 * sum of those that were sent.
 *
 * On error: the job is closed with the function's memory context.
 */
#include "postgres.h"

#include "device/client/failure_log.h"
#include "device/client/key_chunks.h"
#include "miscadmin.h"
#include "route/gpu_model.h"
#include "sort/device/device_learn.h"
#include "sort/device/keys/device_check.h"
#include "sqlapi/array_device.h"
#include "stat.h"

/* Is no value there twice?  The range is known and fits gpu_hp1. */
static bool
all_distinct(const ArrayValues *values, uint64 range)
{
	uint8	   *seen = palloc_extended(range / 8 + 1, MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	bool		distinct = true;

	for (size_t i = 0; i < values->n && distinct; i++)
	{
		uint64		v = array_image_at(values->data, values->type, i) - values->min;

		if (i % (1 << 18) == 0)
			CHECK_FOR_INTERRUPTS();
		distinct = (seen[v / 8] & (1 << (v % 8))) == 0;
		seen[v / 8] |= (uint8) (1 << (v % 8));
	}
	pfree(seen);
	return distinct;
}

void
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
		/* whether keys are distinct is a question where nothing else is against it */
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
			uint64		key = array_image_at(values->data, values->type, start + i) - values->min;

			if (spec->key_width == 32)
				((uint32 *) chunk.keys)[i] = (uint32) key;
			else
				((uint64 *) chunk.keys)[i] = key;
			if (chunk.rids != NULL)
				chunk.rids[i] = (uint32) (start + i);
		}
		if (spec->want_keys)
			check->sum += device_check_sum(&check->secret, chunk.keys, spec->key_width, chunk.rows);
		key_chunk_post(job, spec, &chunk);
		CHECK_FOR_INTERRUPTS();
	}
	device_job_sort(job);
	return !job->lost;
}

static void
put_integer(const ArrayValues *values, uint64 key, char *out, size_t i)
{
	uint64		image = key + values->min;

	if (values->type == INT8OID)
		((uint64 *) out)[i] = image ^ (UINT64CONST(1) << 63);
	else if (values->type == INT4OID)
		((uint32 *) out)[i] = (uint32) image ^ 0x80000000U;
	else
		((int16 *) out)[i] = (int16) (int32) ((uint32) image ^ 0x80000000U);
}

/* Is it a place in the array, and the first time that it comes? */
static inline bool
is_new_place(const ArrayValues *values, uint8 *seen, uint32 rid)
{
	uint8		bit = (uint8) (1 << (rid % 8));

	if (rid >= values->n || (seen[rid / 8] & bit) != 0)
		return false;
	seen[rid / 8] |= bit;
	return true;
}

/* Writes a chunk's values from the place at on; false if a rid is none of ours. */
static bool
take_chunk(const ArrayValues *values, const DeviceJobSpec *spec, const KeyChunk *chunk,
		   size_t at, uint8 *seen, char *out)
{
	const uint32 *rids = chunk->rids;

	for (uint32 i = 0; i < chunk->rows; i++)
	{
		if (rids == NULL)
			put_integer(values, spec->key_width == 32 ? ((const uint32 *) chunk->keys)[i] :
						((const uint64 *) chunk->keys)[i], out, at + i);
		else if (!is_new_place(values, seen, rids[i]))
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

	while (key_chunk_next_down(job, spec, values->n - done, &chunk))
	{
		if ((spec->want_keys && !device_check_keys(check, chunk.keys, spec->key_width, chunk.rows,
												   done + chunk.rows == values->n)) ||
			!take_chunk(values, spec, &chunk, done, seen, out))
		{
			device_job_lose(job, "the device sent what is not the array's");
			return;
		}
		done += chunk.rows;
		device_job_release(job);
		CHECK_FOR_INTERRUPTS();
	}
}

const char *
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
						  facts->forced != NULL ? DEVICE_FORCED_PATIENCE_US :
						  decision->cpu_us - decision->predicted_us, &facts->device);
	if (job == NULL)
	{
		(void) gpu_fits(decision->algorithm, facts, &why);
		return why;
	}
	if (send_values(values, job, &spec, &check))
		receive_values(values, job, &spec, &check, out);
	if (!job->lost)
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
