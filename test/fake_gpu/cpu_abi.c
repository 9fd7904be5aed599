/*
 * cpu_abi.c
 *	  The GPU library's contract on the CPU: a fake device for tests.
 *
 * It has "devices" with some memory, and does a GPU's work in the caller's
 * thread.  So the code above gpusort_abi.h (jobs, chunks, budgets, faults) can
 * be tested on any machine.  It is not meant to be fast.
 *
 * The device clock advances by the times that the cost model predicts for
 * copies and sorts.  So learned figures do not depend on the machine.
 *
 * The fake device is stricter than a GPU.  It fills device memory with garbage
 * when it is freed, checks that copies and sorts stay inside a block, and
 * delays queued work until the caller polls for it (cpu_abi_stream.c).
 *
 * Settings, environment variables whose names begin with GPUSORT_CPU_ABI_:
 *
 *		DEVICES			number of devices (default 1)
 *		MEMORY			MB of each device (default 1024)
 *		LACKS			number of an algorithm that no device can run
 *		LOST			number of a device on which context_create() fails
 *		WASTE			percent that blocks take beyond their size until
 *						device_trim(), as the GPU library's kept blocks do
 *		CRASH_SORT, CRASH_GATHER, CRASH_CONTEXT, ABORT_SORT
 *						number of a device whose driver crashes in this call
 *		STUCK_ROWS, STUCK_KB, STUCK_OPEN
 *						sorts of at least this number of rows, allocations of at
 *						least this size, context_create() on the device of this
 *						number block until the setting is changed
 *		JOB_TIMES		factor on the reported cost of a job's hand-over
 *		COPY_TIMES, SORT_TIMES
 *						factors on the device clock's times of copies and sorts
 *		OTHERS			MB of each device that other programs use; a context
 *						needs CONTEXT_MB of the remaining memory
 *		COMPILES		each process "compiles" its code: it writes a line to
 *						stderr and a file where CUDA's cache would be
 *		STALE			outputs of earlier jobs (cpu_abi_stale.c); freed blocks
 *						are reused without being cleared
 *		WRAPS			path of a GPU library that replaces the fake device;
 *						faults.c adds its faults to it
 *		FILE			a file of lines NAME=VALUE that override these
 *						variables; it is read at each use, so that a test can
 *						change settings of a running process
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "costs_h200.h"
#include "cpu_abi.h"
#include "faults.h"

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

/* Crashes as a driver that follows a wrong address. */
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

/* Bytes of a device that other programs do not use. */
static uint64_t
memory_without_others(void)
{
	uint64_t	total = cpu_abi_setting("GPUSORT_CPU_ABI_MEMORY", 1024);
	uint64_t	others = cpu_abi_setting("GPUSORT_CPU_ABI_OTHERS", 0);

	return others < total ? (total - others) << 20 : 0;
}

static uint64_t
budget_now(const GpusortContext *ctx)
{
	uint64_t	memory = memory_without_others();

	return ctx->limit != 0 && ctx->limit < memory ? ctx->limit : memory;
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
		out[i].memory_free = memory_without_others();
	}
	return GPUSORT_OK;
}

/* Imitates a driver that compiles code for a device newer than the library. */
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
	while (cpu_abi_setting("GPUSORT_CPU_ABI_STUCK_OPEN", MAX_DEVICES) == (uint64_t) device)
		usleep(1000);
	if (cpu_abi_setting("GPUSORT_CPU_ABI_LOST", MAX_DEVICES) == (uint64_t) device)
	{
		free(ctx);
		FAIL(GPUSORT_CUDA_ERROR, "the device is lost");
	}
	if (memory_without_others() < (uint64_t) CONTEXT_MB << 20)
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

/* Removes a block of this size from the list; NULL if there is none. */
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

/*
 * Removes the block at p from the list and frees it, or moves it to the list
 * "to" unless that is NULL.  Returns the bytes of the budget that the block
 * took; 0 if no block begins at p.
 */
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
	Block	   *reused;
	GpusortStatus status;

	*out = NULL;
	while (bytes >= cpu_abi_setting("GPUSORT_CPU_ABI_STUCK_KB", UINT64_MAX >> 10) << 10)
		usleep(1000);
	if (taken > budget || ctx->used > budget - taken)
		FAIL(GPUSORT_NO_MEMORY, "%llu bytes are over the device memory budget",
			 (unsigned long long) taken);
	pthread_mutex_lock(&ctx->lock);
	reused = keeps_freed() ? block_take(&ctx->freed, bytes) : NULL;
	if (reused)
	{
		reused->next = ctx->blocks;
		ctx->blocks = reused;
		*out = reused->p;
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
		if (!reused)
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
	/* does not fill the memory: it may hold data that is still to be read */
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

/* The GPU library's costs, so that the router chooses as with a GPU. */
static void
costs(const GpusortContext *ctx, GpusortCosts *out)
{
	(void) ctx;
	*out = gpusort_costs_h200;
	out->job_us *= (double) cpu_abi_setting("GPUSORT_CPU_ABI_JOB_TIMES", 1);
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
	cpu_abi_groups_scratch,
	cpu_abi_wait_groups,
	cpu_abi_gather_scratch,
	cpu_abi_wait_gather_plan,
	cpu_abi_queue_gather
};

__attribute__((visibility("default")))
const GpusortCudaApi *
gpusort_cuda_api(uint32_t abi_version)
{
	return abi_version == GPUSORT_ABI_VERSION ? cpu_abi_with_faults(&api) : NULL;
}
