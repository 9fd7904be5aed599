/*
 * cpu_abi.c
 *	  The GPU library's contract on the CPU: a fake device for tests.
 *
 * It has "devices" with some memory, and does in the caller's thread what a GPU would
 * do beside it: so everything above gpusort_abi.h (jobs, chunks, budgets,
 * faults) can be tested on any machine.  It is not meant to be fast.
 *
 * Its clock shows what was told of copies and sorts, and not what they take here: so what is
 * concluded from it does not depend on the machine.
 *
 * To be strict where a GPU would be silent, device memory is filled with garbage
 * when it is returned, copies and sorts check that they stay inside a block, and
 * nothing is done before somebody has asked about it (cpu_abi_stream.c).
 *
 * Environment: GPUSORT_CPU_ABI_DEVICES (default 1), GPUSORT_CPU_ABI_MEMORY (MB per
 * device, default 1024), GPUSORT_CPU_ABI_LOST (the number of a device of which no
 * context can be made), GPUSORT_CPU_ABI_WASTE (percent that blocks take beyond
 * their size until device_trim, as kept blocks of the GPU library do),
 * GPUSORT_CPU_ABI_CRASH_SORT, _CRASH_GATHER, _CRASH_CONTEXT and _ABORT_SORT (the number of a device whose
 * driver crashes there),
 * GPUSORT_CPU_ABI_JOB_TIMES and GPUSORT_CPU_ABI_RADIX_TIMES (how many times longer a job
 * takes to hand over, and gpu_radix to sort, as told),
 * GPUSORT_CPU_ABI_COPY_TIMES and GPUSORT_CPU_ABI_SORT_TIMES (how many times longer than told
 * copies and sorts take, by the device's clock),
 * GPUSORT_CPU_ABI_OTHERS (MB of each device that other programs have taken; no context
 * can be made where they leave less than CONTEXT_MB), GPUSORT_CPU_ABI_COMPILES (its code is
 * not there yet: it is "compiled", said on stderr, and kept where CUDA would keep
 * it), GPUSORT_CPU_ABI_STALE (outputs of an earlier job, cpu_abi_stale.c; freed blocks are then given
 * out again as they are).  GPUSORT_CPU_ABI_FILE names a file
 * of such lines, NAME=VALUE, that is read each time, so that they can be changed.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "costs_h200.h"
#include "cpu_abi.h"

#define GARBAGE			0xA5
#define MAX_DEVICES		64
#define CONTEXT_MB		16

GpusortStatus
cpu_abi_fail(GpusortError *err, GpusortStatus status, const char *file, int line,
			 const char *format,...)
{
	if (err)
	{
		va_list		args;
		const char *slash = strrchr(file, '/');

		memset(err, 0, sizeof(*err));
		err->status = status;
		err->line = line;
		snprintf(err->file, sizeof(err->file), "%s", slash ? slash + 1 : file);
		va_start(args, format);
		vsnprintf(err->message, sizeof(err->message), format, args);
		va_end(args);
	}
	return status;
}

/* As a driver does that follows a wrong address. */
void
cpu_abi_crash(const char *where, int32_t device)
{
	static char *volatile nowhere = NULL;

	if (cpu_abi_setting(where, MAX_DEVICES) == (uint64_t) device)
		*nowhere = 0;
}

uint64_t
cpu_abi_setting(const char *name, uint64_t otherwise)
{
	const char *value = getenv(name);
	const char *path = getenv("GPUSORT_CPU_ABI_FILE");
	FILE	   *file = path ? fopen(path, "r") : NULL;
	uint64_t	found = value ? strtoull(value, NULL, 10) : otherwise;
	size_t		length = strlen(name);
	char		line[200];

	while (file && fgets(line, sizeof(line), file))
	{
		if (strncmp(line, name, length) == 0 && line[length] == '=')
			found = strtoull(line + length + 1, NULL, 10);
	}
	if (file)
		fclose(file);
	return found;
}

/* What other programs leave. */
static uint64_t
left_by_others(void)
{
	uint64_t	total = cpu_abi_setting("GPUSORT_CPU_ABI_MEMORY", 1024);
	uint64_t	others = cpu_abi_setting("GPUSORT_CPU_ABI_OTHERS", 0);

	return others < total ? (total - others) << 20 : 0;
}

static uint64_t
budget_now(const GpusortContext *ctx)
{
	uint64_t	reach = left_by_others();

	return ctx->limit != 0 && ctx->limit < reach ? ctx->limit : reach;
}

/* ------------------------------------------------------------------------
 * Devices, contexts, memory
 * ------------------------------------------------------------------------
 */
static GpusortStatus
devices(GpusortDeviceInfo *out, int32_t max, int32_t *count, GpusortError *err)
{
	int32_t		n = (int32_t) cpu_abi_setting("GPUSORT_CPU_ABI_DEVICES", 1);

	*count = n < MAX_DEVICES ? n : MAX_DEVICES;
	if (*count == 0)
		FAIL(GPUSORT_NO_DEVICE, "no device");
	for (int32_t i = 0; i < *count && i < max; i++)
	{
		memset(&out[i], 0, sizeof(out[i]));
		out[i].index = i;
		out[i].usable = 1;
		snprintf(out[i].name, sizeof(out[i].name), "CPU fake device %d", (int) i);
		out[i].memory_total = cpu_abi_setting("GPUSORT_CPU_ABI_MEMORY", 1024) << 20;
		out[i].memory_free = left_by_others();
	}
	return GPUSORT_OK;
}

/* As a driver does for a device that is newer than the library. */
static void
compile_once(void)
{
	const char *directory = getenv("CUDA_CACHE_PATH");
	const char *size = getenv("CUDA_CACHE_MAXSIZE");
	char		path[1024];
	FILE	   *kept;

	snprintf(path, sizeof(path), "%s/code", directory ? directory : "");
	kept = directory ? fopen(path, "r") : NULL;
	if (!kept)
	{
		fprintf(stderr, "fake device: compiles; keeps at most %s bytes in %s\n", size ? size : "?",
				directory ? directory : "no place");
		kept = directory ? fopen(path, "w") : NULL;
	}
	if (kept)
		fclose(kept);
}

static GpusortStatus
context_create(int32_t device, uint64_t budget, GpusortContext **out, GpusortError *err)
{
	GpusortContext *ctx = calloc(1, sizeof(*ctx));

	*out = NULL;
	if (!ctx)
		FAIL(GPUSORT_NO_MEMORY, "no host memory for a context");
	cpu_abi_crash("GPUSORT_CPU_ABI_CRASH_CONTEXT", device);
	if (cpu_abi_setting("GPUSORT_CPU_ABI_LOST", MAX_DEVICES) == (uint64_t) device)
	{
		free(ctx);
		FAIL(GPUSORT_CUDA_ERROR, "the device is lost");
	}
	if (left_by_others() < (uint64_t) CONTEXT_MB << 20)
	{
		free(ctx);
		FAIL(GPUSORT_NO_MEMORY, "out of memory");
	}
	if (cpu_abi_setting("GPUSORT_CPU_ABI_COMPILES", 0) != 0)
		compile_once();
	pthread_mutex_init(&ctx->lock, NULL);
	ctx->device = device;
	ctx->limit = budget;
	ctx->waste = cpu_abi_setting("GPUSORT_CPU_ABI_WASTE", 0);
	*out = ctx;
	return GPUSORT_OK;
}

/* Takes a block of this size off the list; NULL if there is none. */
static Block *
block_take(Block **list, uint64_t bytes)
{
	for (Block **link = list; *link; link = &(*link)->next)
	{
		if ((*link)->bytes == bytes)
		{
			Block	   *b = *link;

			*link = b->next;
			return b;
		}
	}
	return NULL;
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

/* What the block took of the budget; 0 if there is none at p.  It goes to the other list, if there is one. */
static uint64_t
block_free(Block **list, void *p, Block **to)
{
	for (Block **link = list; *link; link = &(*link)->next)
	{
		if ((*link)->p == p)
		{
			Block	   *b = *link;
			uint64_t	taken = b->taken;

			*link = b->next;
			if (to)
			{
				b->next = *to;
				*to = b;
				return taken;
			}
			free(b->p);
			free(b);
			return taken;
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
		block_free(&ctx->blocks, ctx->blocks->p, NULL);
	while (ctx->freed)
		block_free(&ctx->freed, ctx->freed->p, NULL);
	while (ctx->host)
		block_free(&ctx->host, ctx->host->p, NULL);
	free(ctx);
}

static int
keeps_freed(void)
{
	return cpu_abi_setting("GPUSORT_CPU_ABI_STALE", 0) != 0;
}

static GpusortStatus
device_alloc(GpusortContext *ctx, uint64_t bytes, void **out, GpusortError *err)
{
	uint64_t	taken = bytes + bytes * ctx->waste / 100;
	uint64_t	budget = budget_now(ctx);
	Block	   *again;
	GpusortStatus status;

	*out = NULL;
	while (bytes >= cpu_abi_setting("GPUSORT_CPU_ABI_STUCK_KB", UINT64_MAX >> 10) << 10)
		usleep(1000);
	if (taken > budget || ctx->used > budget - taken)
		FAIL(GPUSORT_NO_MEMORY, "%llu bytes are over the device memory budget",
			 (unsigned long long) taken);
	pthread_mutex_lock(&ctx->lock);
	again = keeps_freed() ? block_take(&ctx->freed, bytes) : NULL;
	if (again)
	{
		again->next = ctx->blocks;
		ctx->blocks = again;
		*out = again->p;
		status = GPUSORT_OK;
	}
	else
		status = block_alloc(&ctx->blocks, bytes, out, err);
	pthread_mutex_unlock(&ctx->lock);
	if (status == GPUSORT_OK)
	{
		ctx->blocks->taken = taken;
		ctx->used += taken;
		ctx->kept -= taken < ctx->kept ? taken : ctx->kept;
		if (!again)
			memset(*out, GARBAGE, bytes < 1 << 20 ? bytes : 1 << 20);
	}
	return status;
}

static void
device_free(GpusortContext *ctx, void *p)
{
	uint64_t	taken;

	pthread_mutex_lock(&ctx->lock);
	taken = block_free(&ctx->blocks, p, keeps_freed() ? &ctx->freed : NULL);
	pthread_mutex_unlock(&ctx->lock);
	ctx->used -= taken;
	ctx->kept += taken;
	ctx->waste = cpu_abi_setting("GPUSORT_CPU_ABI_WASTE", 0);
}

static void
device_trim(GpusortContext *ctx)
{
	ctx->waste = 0;
	ctx->kept = 0;
}

static void
device_memory(GpusortContext *ctx, int32_t look, GpusortMemory *out)
{
	(void) look;
	out->budget = budget_now(ctx);
	out->used = ctx->used;
	out->kept = ctx->kept;
}

static GpusortStatus
host_alloc(GpusortContext *ctx, uint64_t bytes, void **out, GpusortError *err)
{
	return block_alloc(&ctx->host, bytes, out, err);
}

static void
host_free(GpusortContext *ctx, void *p)
{
	block_free(&ctx->host, p, NULL);
}

static GpusortStatus
host_register(GpusortContext *ctx, void *p, uint64_t bytes, GpusortError *err)
{
	/* not to be written to: some of it may still be read that an earlier process made */
	(void) ctx;
	(void) p;
	(void) bytes;
	(void) err;
	return GPUSORT_OK;
}

static void
host_unregister(GpusortContext *ctx, void *p)
{
	(void) ctx;
	(void) p;
}

int
cpu_abi_in_block(const GpusortContext *ctx, const void *p, uint64_t bytes)
{
	pthread_mutex_t *lock = (pthread_mutex_t *) &ctx->lock;
	int			found = 0;

	pthread_mutex_lock(lock);
	for (const Block *b = ctx->blocks; b && !found; b = b->next)
		found = (const char *) p >= b->p &&
			(uint64_t) ((const char *) p - b->p) <= b->bytes &&
			bytes <= b->bytes - (uint64_t) ((const char *) p - b->p);
	pthread_mutex_unlock(lock);
	return found;
}

/* The library's, so that who chooses does as with a GPU. */
static void
costs(const GpusortContext *ctx, GpusortCosts *out)
{
	(void) ctx;
	*out = gpusort_costs_h200;
	out->job_us *= (double) cpu_abi_setting("GPUSORT_CPU_ABI_JOB_TIMES", 1);
	for (size_t k = 0; k < sizeof(out->radix) / sizeof(double); k++)
		(&out->radix[0][0][0])[k] *= (double) cpu_abi_setting("GPUSORT_CPU_ABI_RADIX_TIMES", 1);
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
	device_memory,
	host_alloc,
	host_free,
	host_register,
	host_unregister,
	cpu_abi_stream_create,
	cpu_abi_stream_destroy,
	cpu_abi_stream_poll,
	cpu_abi_stream_wait,
	cpu_abi_event_create,
	cpu_abi_event_destroy,
	cpu_abi_event_record,
	cpu_abi_event_poll,
	cpu_abi_event_wait,
	cpu_abi_stream_after,
	cpu_abi_event_elapsed,
	cpu_abi_copy_in,
	cpu_abi_copy_out,
	cpu_abi_copy_within,
	cpu_abi_algorithm,
	costs,
	cpu_abi_sort_scratch,
	cpu_abi_queue_sort,
	cpu_abi_gather_scratch,
	cpu_abi_wait_gather_plan,
	cpu_abi_queue_gather
};

__attribute__((visibility("default")))
const GpusortCudaApi *
gpusort_cuda_api(uint32_t abi_version)
{
	return abi_version == GPUSORT_ABI_VERSION ? &api : NULL;
}
