/*
 * cpu_abi.c
 *	  The GPU library's contract on the CPU: a stand-in for tests.
 *
 * It has one "device" with some memory, and does at once, in the caller's
 * thread, what a GPU would do later: so everything above gpusort_abi.h (jobs,
 * chunks, budgets, faults) can be tested on any machine.  It is not meant to be
 * fast; the sort is a plain byte-wise radix sort over an index.
 *
 * To be strict where a GPU would be silent, device memory is filled with garbage
 * when it is given out, copies and sorts check that they stay inside a block, and
 * an event is done only when it has been asked about once before.
 *
 * Environment: GPUSORT_CPU_ABI_DEVICES (default 1), GPUSORT_CPU_ABI_MEMORY (MB per
 * device, default 1024).
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "gpusort_abi.h"

#define GARBAGE			0xA5
#define MAX_DEVICES		8

typedef struct Block
{
	struct Block *next;
	char	   *p;
	uint64_t	bytes;
} Block;

struct GpusortContext
{
	int32_t		device;
	uint64_t	budget;
	uint64_t	used;
	Block	   *blocks;
	Block	   *host;
};

struct GpusortStream
{
	GpusortContext *ctx;
};

struct GpusortEvent
{
	double		time_us;
	int			asked;
};

static GpusortStatus
fail(GpusortError *err, GpusortStatus status, int line, const char *format,...)
{
	if (err)
	{
		va_list		args;

		memset(err, 0, sizeof(*err));
		err->status = status;
		err->line = line;
		snprintf(err->file, sizeof(err->file), "cpu_abi.c");
		va_start(args, format);
		vsnprintf(err->message, sizeof(err->message), format, args);
		va_end(args);
	}
	return status;
}

#define FAIL(status, ...) return fail(err, (status), __LINE__, __VA_ARGS__)

static uint64_t
setting(const char *name, uint64_t otherwise)
{
	const char *value = getenv(name);

	return value ? strtoull(value, NULL, 10) : otherwise;
}

static double
now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

/* ------------------------------------------------------------------------
 * Devices, contexts, memory
 * ------------------------------------------------------------------------
 */
static GpusortStatus
devices(GpusortDeviceInfo *out, int32_t max, int32_t *count, GpusortError *err)
{
	int32_t		n = (int32_t) setting("GPUSORT_CPU_ABI_DEVICES", 1);

	*count = n < MAX_DEVICES ? n : MAX_DEVICES;
	if (*count == 0)
		FAIL(GPUSORT_NO_DEVICE, "no device");
	for (int32_t i = 0; i < *count && i < max; i++)
	{
		memset(&out[i], 0, sizeof(out[i]));
		out[i].index = i;
		out[i].usable = 1;
		snprintf(out[i].name, sizeof(out[i].name), "CPU stand-in %d", (int) i);
		out[i].memory_total = setting("GPUSORT_CPU_ABI_MEMORY", 1024) << 20;
		out[i].memory_free = out[i].memory_total;
	}
	return GPUSORT_OK;
}

static GpusortStatus
context_create(int32_t device, uint64_t budget, GpusortContext **out, GpusortError *err)
{
	GpusortContext *ctx = calloc(1, sizeof(*ctx));

	*out = NULL;
	if (!ctx)
		FAIL(GPUSORT_NO_MEMORY, "no host memory for a context");
	ctx->device = device;
	ctx->budget = budget ? budget : setting("GPUSORT_CPU_ABI_MEMORY", 1024) << 20;
	*out = ctx;
	return GPUSORT_OK;
}

static GpusortStatus
block_alloc(Block **list, uint64_t bytes, void **out, GpusortError *err)
{
	Block	   *b = calloc(1, sizeof(*b));

	*out = NULL;
	if (!b || posix_memalign((void **) &b->p, 256, bytes ? bytes : 1) != 0)
	{
		free(b);
		FAIL(GPUSORT_NO_MEMORY, "no host memory");
	}
	b->bytes = bytes;
	b->next = *list;
	*list = b;
	*out = b->p;
	return GPUSORT_OK;
}

/* The bytes of the block; 0 if there is none at p. */
static uint64_t
block_free(Block **list, void *p)
{
	for (Block **link = list; *link; link = &(*link)->next)
	{
		if ((*link)->p == p)
		{
			Block	   *b = *link;
			uint64_t	bytes = b->bytes;

			*link = b->next;
			free(b->p);
			free(b);
			return bytes;
		}
	}
	return 0;
}

static void
context_destroy(GpusortContext *ctx)
{
	if (!ctx)
		return;
	while (ctx->blocks)
		block_free(&ctx->blocks, ctx->blocks->p);
	while (ctx->host)
		block_free(&ctx->host, ctx->host->p);
	free(ctx);
}

static GpusortStatus
device_alloc(GpusortContext *ctx, uint64_t bytes, void **out, GpusortError *err)
{
	GpusortStatus status;

	*out = NULL;
	if (bytes > ctx->budget || ctx->used > ctx->budget - bytes)
		FAIL(GPUSORT_NO_MEMORY, "%llu bytes are over the device memory budget",
			 (unsigned long long) bytes);
	status = block_alloc(&ctx->blocks, bytes, out, err);
	if (status == GPUSORT_OK)
	{
		ctx->used += bytes;
		memset(*out, GARBAGE, bytes < 1 << 20 ? bytes : 1 << 20);
	}
	return status;
}

static void
device_free(GpusortContext *ctx, void *p)
{
	ctx->used -= block_free(&ctx->blocks, p);
}

static void
device_trim(GpusortContext *ctx)
{
	(void) ctx;
}

static uint64_t
device_available(const GpusortContext *ctx)
{
	return ctx->budget - ctx->used;
}

static GpusortStatus
host_alloc(GpusortContext *ctx, uint64_t bytes, void **out, GpusortError *err)
{
	return block_alloc(&ctx->host, bytes, out, err);
}

static void
host_free(GpusortContext *ctx, void *p)
{
	block_free(&ctx->host, p);
}

static GpusortStatus
host_register(GpusortContext *ctx, void *p, uint64_t bytes, GpusortError *err)
{
	(void) ctx;
	(void) err;
	memset(p, GARBAGE, bytes);
	return GPUSORT_OK;
}

static void
host_unregister(GpusortContext *ctx, void *p)
{
	(void) ctx;
	(void) p;
}

/* Do these bytes lie in one block of device memory? */
static int
in_block(const GpusortContext *ctx, const void *p, uint64_t bytes)
{
	for (const Block *b = ctx->blocks; b; b = b->next)
	{
		if ((const char *) p >= b->p &&
			(uint64_t) ((const char *) p - b->p) <= b->bytes &&
			bytes <= b->bytes - (uint64_t) ((const char *) p - b->p))
			return 1;
	}
	return 0;
}

/* ------------------------------------------------------------------------
 * Streams, events, copies
 * ------------------------------------------------------------------------
 */
static GpusortStatus
stream_create(GpusortContext *ctx, GpusortStream **out, GpusortError *err)
{
	*out = calloc(1, sizeof(**out));
	if (!*out)
		FAIL(GPUSORT_NO_MEMORY, "no host memory");
	(*out)->ctx = ctx;
	return GPUSORT_OK;
}

static void
stream_destroy(GpusortStream *stream)
{
	free(stream);
}

static GpusortStatus
stream_done(GpusortStream *stream, GpusortError *err)
{
	(void) stream;
	(void) err;
	return GPUSORT_OK;
}

static GpusortStatus
event_create(GpusortContext *ctx, GpusortEvent **out, GpusortError *err)
{
	(void) ctx;
	*out = calloc(1, sizeof(**out));
	if (!*out)
		FAIL(GPUSORT_NO_MEMORY, "no host memory");
	(*out)->asked = 1;
	return GPUSORT_OK;
}

static void
event_destroy(GpusortEvent *event)
{
	free(event);
}

static GpusortStatus
event_record(GpusortEvent *event, GpusortStream *stream, GpusortError *err)
{
	(void) stream;
	(void) err;
	event->time_us = now_us();
	event->asked = 0;
	return GPUSORT_OK;
}

static GpusortStatus
event_poll(GpusortEvent *event, GpusortError *err)
{
	(void) err;
	if (event->asked)
		return GPUSORT_OK;
	event->asked = 1;
	return GPUSORT_NOT_READY;
}

static GpusortStatus
event_wait(GpusortEvent *event, GpusortError *err)
{
	(void) err;
	event->asked = 1;
	return GPUSORT_OK;
}

static GpusortStatus
stream_after(GpusortStream *stream, GpusortEvent *event, GpusortError *err)
{
	(void) stream;
	(void) event;
	(void) err;
	return GPUSORT_OK;
}

static GpusortStatus
event_elapsed(GpusortEvent *from, GpusortEvent *to, double *us, GpusortError *err)
{
	(void) err;
	*us = to->time_us - from->time_us;
	return GPUSORT_OK;
}

static GpusortStatus
copy_in(GpusortStream *stream, void *device_dst, const void *host_src, uint64_t bytes,
		GpusortError *err)
{
	if (!in_block(stream->ctx, device_dst, bytes))
		FAIL(GPUSORT_CUDA_ERROR, "copy outside of device memory");
	memcpy(device_dst, host_src, bytes);
	return GPUSORT_OK;
}

static GpusortStatus
copy_out(GpusortStream *stream, void *host_dst, const void *device_src, uint64_t bytes,
		 GpusortError *err)
{
	if (!in_block(stream->ctx, device_src, bytes))
		FAIL(GPUSORT_CUDA_ERROR, "copy outside of device memory");
	memcpy(host_dst, device_src, bytes);
	return GPUSORT_OK;
}

/* ------------------------------------------------------------------------
 * Sorts
 * ------------------------------------------------------------------------
 */
static const GpusortAlgorithm algorithms[] = {
	{"gpu_radix", "", "a stand-in on the CPU", GPUSORT_KEYS_32 | GPUSORT_KEYS_64 | GPUSORT_KEYS_128, 1, 1},
	{"gpu_merge", "", "a stand-in on the CPU", GPUSORT_KEYS_32 | GPUSORT_KEYS_64, 1, 1}
};

#define ALGORITHMS	((int32_t) (sizeof(algorithms) / sizeof(algorithms[0])))

static const GpusortAlgorithm *
algorithm_info(int32_t index)
{
	return index >= 0 && index < ALGORITHMS ? &algorithms[index] : NULL;
}

static uint64_t
sort_bytes(const GpusortJob *job)
{
	return 2 * job->n * sizeof(uint32_t) + 256;
}

static GpusortStatus
sort_scratch(GpusortContext *ctx, int32_t algorithm, const GpusortJob *job,
			 uint64_t *bytes, const char **why, GpusortError *err)
{
	uint32_t	width = job->key_bits == 32 ? GPUSORT_KEYS_32 :
		job->key_bits == 64 ? GPUSORT_KEYS_64 : GPUSORT_KEYS_128;

	(void) ctx;
	*bytes = sort_bytes(job);
	*why = NULL;
	if (!algorithm_info(algorithm))
		FAIL(GPUSORT_BAD_CALL, "there is no algorithm %d", (int) algorithm);
	if ((algorithms[algorithm].key_widths & width) == 0)
	{
		*why = "it does not take keys of this width";
		FAIL(GPUSORT_UNSUPPORTED, "%s: %s", algorithms[algorithm].name, *why);
	}
	return GPUSORT_OK;
}

/* Eight bits of a key from bit on, as far as they are below end_bit. */
static unsigned
digit(const GpusortJob *job, uint32_t i, int bit)
{
	unsigned	__int128 key;
	int			bits = job->end_bit - bit < 8 ? job->end_bit - bit : 8;

	if (job->key_bits == 32)
		key = ((const uint32_t *) job->keys)[i];
	else if (job->key_bits == 64)
		key = ((const uint64_t *) job->keys)[i];
	else
	{
		const GpusortKey128 *k = (const GpusortKey128 *) job->keys + i;

		key = ((unsigned __int128) k->hi << 64) | k->lo;
	}
	return (unsigned) (key >> bit) & ((1u << bits) - 1);
}

static GpusortStatus
check_arrays(const GpusortContext *ctx, const GpusortJob *job, GpusortError *err)
{
	uint64_t	key_bytes = job->n * (uint64_t) (job->key_bits / 8);
	uint64_t	rid_bytes = job->n * sizeof(uint32_t);

	if (!in_block(ctx, job->keys, key_bytes) ||
		(job->rids && !in_block(ctx, job->rids, rid_bytes)) ||
		((job->output & GPUSORT_OUT_KEYS) && !in_block(ctx, job->keys_out, key_bytes)) ||
		((job->output & GPUSORT_OUT_RIDS) && !in_block(ctx, job->rids_out, rid_bytes)) ||
		!in_block(ctx, job->scratch, sort_bytes(job)) ||
		job->scratch_bytes < sort_bytes(job))
		FAIL(GPUSORT_BAD_CALL, "an array of the job is not device memory");
	if (job->begin_bit < 0 || job->begin_bit >= job->end_bit || job->end_bit > job->key_bits)
		FAIL(GPUSORT_BAD_CALL, "key bits [%d, %d) of %d", (int) job->begin_bit,
			 (int) job->end_bit, (int) job->key_bits);
	return GPUSORT_OK;
}

static GpusortStatus
sort_run(GpusortStream *stream, int32_t algorithm, const GpusortJob *job,
		 GpusortResult *result, GpusortError *err)
{
	uint32_t   *order = job->scratch;
	uint32_t   *other = order + job->n;
	int			passes = 0;
	GpusortStatus status = check_arrays(stream->ctx, job, err);

	(void) algorithm;
	if (status != GPUSORT_OK)
		return status;
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
		uint64_t	width = job->key_bits / 8;

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
static GpusortStatus
gather_scratch(GpusortContext *ctx, const GpusortGather *job, uint64_t *bytes,
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

static GpusortStatus
gather_plan(GpusortStream *stream, const GpusortGather *job, uint32_t *chunks,
			GpusortError *err)
{
	uint64_t	at = 0;
	uint64_t	chunk_start = 0;
	uint32_t	c = 0;

	if (!in_block(stream->ctx, job->rows, job->rows_units * 8) ||
		!in_block(stream->ctx, job->out_offset, (job->n + 1) * sizeof(uint64_t)) ||
		!in_block(stream->ctx, job->order, job->n * sizeof(uint32_t)) ||
		!in_block(stream->ctx, job->row_offset,
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

static GpusortStatus
gather_rows(GpusortStream *stream, const GpusortGather *job, uint64_t first,
			uint64_t last, void *dst, GpusortError *err)
{
	uint64_t	base = job->out_offset[first];

	if (last > job->n || first > last ||
		!in_block(stream->ctx, dst, (job->out_offset[last] - base) * 8))
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

static const GpusortCudaApi api = {
	GPUSORT_ABI_VERSION,
	sizeof(GpusortCudaApi),
	devices,
	context_create,
	context_destroy,
	device_alloc,
	device_free,
	device_trim,
	device_available,
	host_alloc,
	host_free,
	host_register,
	host_unregister,
	stream_create,
	stream_destroy,
	stream_done,
	stream_done,
	event_create,
	event_destroy,
	event_record,
	event_poll,
	event_wait,
	stream_after,
	event_elapsed,
	copy_in,
	copy_out,
	algorithm_info,
	sort_scratch,
	sort_run,
	gather_scratch,
	gather_plan,
	gather_rows
};

const GpusortCudaApi *
gpusort_cuda_api(uint32_t abi_version)
{
	return abi_version == GPUSORT_ABI_VERSION ? &api : NULL;
}
