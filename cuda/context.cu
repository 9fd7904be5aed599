/*
 * context.cu
 *	  Errors, devices, contexts, and the memory that contexts own.
 *
 * Memory policy: cudaMalloc and cudaFree synchronize the device and take longer
 * than a small sort.  A context therefore keeps freed blocks and reuses a block
 * for a request of about its size.  Used and kept blocks together stay within
 * the context's budget.  Other programs share the device's memory, so that the
 * budget is computed from the free memory before each new block.
 *
 * Errors: a function that fails releases what it has allocated.
 *
 * Threads: one thread at a time calls these functions for a context.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "context.cuh"

/* Bytes left to other programs by a context without a limit. */
#define RESERVE_BYTES		(UINT64_C(512) << 20)

/*
 * Block sizes are multiples of this number of bytes, so that requests of
 * similar size can reuse a block.
 */
#define BLOCK_BYTES			(UINT64_C(1) << 20)

/* A kept block is reused if at most 1/2^WASTE_SHIFT of it remains unused. */
#define WASTE_SHIFT			2

/* The file name without its directory. */
static const char *
base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* sort_internal.cuh documents gpusort_fail() and gpusort_fail_cuda(). */
GpusortStatus
gpusort_fail(GpusortError *err, GpusortStatus status, const char *file, int line,
			 const char *format,...)
{
	if (err)
	{
		va_list		args;

		memset(err, 0, sizeof(*err));
		err->status = status;
		err->line = line;
		snprintf(err->file, sizeof(err->file), "%s", base_name(file));
		va_start(args, format);
		vsnprintf(err->message, sizeof(err->message), format, args);
		va_end(args);
	}
	return status;
}

GpusortStatus
gpusort_fail_cuda(GpusortError *err, cudaError_t error, const char *what,
				  const char *file, int line)
{
	GpusortStatus status = GPUSORT_CUDA_ERROR;

	(void) cudaGetLastError();
	if (error == cudaErrorMemoryAllocation)
		status = GPUSORT_NO_MEMORY;
	else if (error == cudaErrorNoDevice || error == cudaErrorInsufficientDriver ||
			 error == cudaErrorStubLibrary || error == cudaErrorSystemNotReady ||
			 error == cudaErrorSystemDriverMismatch ||
			 error == cudaErrorDevicesUnavailable ||
			 error == cudaErrorInvalidDevice ||
			 error == cudaErrorNoKernelImageForDevice)
		status = GPUSORT_NO_DEVICE;
	gpusort_fail(err, status, file, line, "%s: %s", what, cudaGetErrorString(error));
	if (err)
		err->cuda_error = error;
	return status;
}

/* ------------------------------------------------------------------------
 * Devices
 * ------------------------------------------------------------------------
 */
static void
describe_device(int index, GpusortDeviceInfo *info)
{
	cudaDeviceProp prop;
	cudaError_t error = cudaGetDeviceProperties(&prop, index);

	memset(info, 0, sizeof(*info));
	info->index = index;
	if (error != cudaSuccess)
	{
		(void) cudaGetLastError();
		snprintf(info->why_not, sizeof(info->why_not), "%s",
				 cudaGetErrorString(error));
		return;
	}
	snprintf(info->name, sizeof(info->name), "%.63s", prop.name);
	snprintf(info->pci_bus_id, sizeof(info->pci_bus_id), "%04x:%02x:%02x.0",
			 prop.pciDomainID, prop.pciBusID, prop.pciDeviceID);
	info->memory_total = prop.totalGlobalMem;
	info->l2_bytes = prop.l2CacheSize;
	info->compute_major = prop.major;
	info->compute_minor = prop.minor;
	info->multiprocessors = prop.multiProcessorCount;
	info->copy_engines = prop.asyncEngineCount;
	(void) cudaDriverGetVersion(&info->driver_version);
	(void) cudaRuntimeGetVersion(&info->runtime_version);
	if (prop.major * 10 + prop.minor < GPUSORT_MIN_ARCH)
		snprintf(info->why_not, sizeof(info->why_not),
				 "compute capability %d.%d is too old", prop.major, prop.minor);
	else
		info->usable = 1;
}

/* gpusort_abi.h documents the functions whose names start with gpusort_. */
GpusortStatus
gpusort_devices(GpusortDeviceInfo *out, int32_t max, int32_t *count, GpusortError *err)
{
	int			n = 0;

	*count = 0;
	CUDA_TRY(cudaGetDeviceCount(&n));
	if (n == 0)
		FAIL(GPUSORT_NO_DEVICE, "no CUDA device");
	for (int i = 0; i < n && i < max; i++)
		describe_device(i, &out[i]);
	*count = n;
	return GPUSORT_OK;
}

/* ------------------------------------------------------------------------
 * Contexts
 * ------------------------------------------------------------------------
 */
GpusortStatus
gpusort_enter(const GpusortContext *ctx, GpusortError *err)
{
	CUDA_TRY(cudaSetDevice(ctx->traits.device));
	return GPUSORT_OK;
}

/*
 * Computes the budget: free memory of the device plus the context's own blocks,
 * limited by the caller's limit or, without one, by the reserve.
 */
static GpusortStatus
read_budget(GpusortContext *ctx, GpusortError *err)
{
	size_t		free_bytes,
				total_bytes;
	uint64_t	reach;

	CUDA_TRY(cudaMemGetInfo(&free_bytes, &total_bytes));
	reach = free_bytes + ctx->held;
	if (ctx->limit != 0)
		ctx->budget = reach < ctx->limit ? reach : ctx->limit;
	else
		ctx->budget = reach > 2 * RESERVE_BYTES ? reach - RESERVE_BYTES : reach / 2;
	return GPUSORT_OK;
}

/* Makes the device current, reads its traits, and computes the first budget. */
static GpusortStatus
read_traits(GpusortContext *ctx, int device, uint64_t budget, GpusortError *err)
{
	cudaDeviceProp prop;

	CUDA_TRY(cudaSetDevice(device));
	CUDA_TRY(cudaGetDeviceProperties(&prop, device));
	if (prop.major * 10 + prop.minor < GPUSORT_MIN_ARCH)
		FAIL(GPUSORT_NO_DEVICE, "compute capability %d.%d is too old",
			 prop.major, prop.minor);
	ctx->traits.device = device;
	ctx->traits.arch = prop.major * 10 + prop.minor;
	ctx->traits.multiprocessors = prop.multiProcessorCount;
	ctx->traits.max_shared = (int) prop.sharedMemPerBlockOptin;
	ctx->traits.l2_bytes = prop.l2CacheSize;
	ctx->limit = budget;
	return read_budget(ctx, err);
}

GpusortStatus
gpusort_context_create(int32_t device, uint64_t memory_budget, GpusortContext **out,
					   GpusortError *err)
{
	GpusortContext *ctx = (GpusortContext *) calloc(1, sizeof(*ctx));
	GpusortStatus status;

	*out = NULL;
	if (!ctx)
		FAIL(GPUSORT_NO_MEMORY, "no host memory for a context");
	status = read_traits(ctx, device, memory_budget, err);
	if (status != GPUSORT_OK)
	{
		free(ctx);
		return status;
	}
	*out = ctx;
	return GPUSORT_OK;
}

/* Allocates an empty list element. */
static GpusortStatus
make_owned(Owned **thing, GpusortError *err)
{
	*thing = (Owned *) calloc(1, sizeof(**thing));
	if (!*thing)
		FAIL(GPUSORT_NO_MEMORY, "no host memory");
	return GPUSORT_OK;
}

/* Adds an element to the head of a list. */
static void
push(Owned **list, Owned *thing)
{
	thing->prev = NULL;
	thing->next = *list;
	if (*list)
		(*list)->prev = thing;
	*list = thing;
}

/* Removes an element from a list; does not free it. */
static void
unlink_owned(Owned **list, Owned *thing)
{
	if (thing->prev)
		thing->prev->next = thing->next;
	else
		*list = thing->next;
	if (thing->next)
		thing->next->prev = thing->prev;
}

/* The element of that address, or NULL. */
static Owned *
find_owned(Owned *list, const void *p)
{
	while (list && list->p != p)
		list = list->next;
	return list;
}

/*
 * Completes an element after the CUDA call that allocated or pinned its memory:
 * adds it to the list, or frees it if the call failed with error.
 */
static GpusortStatus
keep_owned(Owned **list, Owned *thing, uint64_t bytes, cudaError_t error,
		   const char *call, GpusortError *err)
{
	if (error != cudaSuccess)
	{
		free(thing);
		return gpusort_fail_cuda(err, error, call, __FILE__, __LINE__);
	}
	thing->bytes = bytes;
	push(list, thing);
	return GPUSORT_OK;
}

void
gpusort_context_destroy(GpusortContext *ctx)
{
	if (!ctx)
		return;
	(void) cudaSetDevice(ctx->traits.device);

	/*
	 * After a CUDA error these calls fail, which is harmless: the driver has
	 * freed the device memory with its own context.
	 */
	while (ctx->streams)
		gpusort_stream_destroy(ctx->streams);
	while (ctx->events)
		gpusort_event_destroy(ctx->events);
	while (ctx->used)
		gpusort_device_free(ctx, ctx->used->p);
	gpusort_device_trim(ctx);
	while (ctx->host)
		gpusort_host_free(ctx, ctx->host->p);
	while (ctx->registered)
		gpusort_host_unregister(ctx, ctx->registered->p);
	(void) cudaGetLastError();
	free(ctx);
}

/* ------------------------------------------------------------------------
 * Device memory
 * ------------------------------------------------------------------------
 */
static void
release_block(GpusortContext *ctx, Owned *block)
{
	(void) cudaFree(block->p);
	unlink_owned(&ctx->kept, block);
	ctx->held -= block->bytes;
	free(block);
}

void
gpusort_device_trim(GpusortContext *ctx)
{
	while (ctx->kept)
		release_block(ctx, ctx->kept);
}

/* If the query fails, reports the budget of the last query. */
void
gpusort_device_memory(GpusortContext *ctx, int32_t look, GpusortMemory *out)
{
	if (look && gpusort_enter(ctx, NULL) == GPUSORT_OK)
		(void) read_budget(ctx, NULL);
	out->budget = ctx->budget;
	out->used = 0;
	for (const Owned *b = ctx->used; b; b = b->next)
		out->used += b->bytes;
	out->kept = ctx->held - out->used;
}

/*
 * The smallest kept block that may be reused for a request of bytes; or NULL.
 */
static Owned *
best_kept(GpusortContext *ctx, uint64_t bytes)
{
	Owned	   *best = NULL;

	for (Owned *b = ctx->kept; b; b = b->next)
		if (b->bytes >= bytes && b->bytes - bytes <= b->bytes >> WASTE_SHIFT &&
			(!best || b->bytes < best->bytes))
			best = b;
	return best;
}

GpusortStatus
gpusort_device_alloc(GpusortContext *ctx, uint64_t bytes, void **out,
					 GpusortError *err)
{
	Owned	   *block;
	cudaError_t error;

	*out = NULL;
	TRY(gpusort_enter(ctx, err));
	if (bytes <= UINT64_MAX / 2)	/* rounding up cannot overflow */
		bytes = bytes == 0 ? BLOCK_BYTES : div_up(bytes, BLOCK_BYTES) * BLOCK_BYTES;
	if ((block = best_kept(ctx, bytes)) != NULL)
	{
		unlink_owned(&ctx->kept, block);
		push(&ctx->used, block);
		*out = block->p;
		return GPUSORT_OK;
	}
	TRY(read_budget(ctx, err));
	while (ctx->kept && bytes <= ctx->budget && ctx->held > ctx->budget - bytes)
		release_block(ctx, ctx->kept);
	if (bytes > ctx->budget || ctx->held > ctx->budget - bytes)
		FAIL(GPUSORT_NO_MEMORY, "%llu bytes are over the device memory budget",
			 (unsigned long long) bytes);
	TRY(make_owned(&block, err));
	error = cudaMalloc(&block->p, bytes);
	if (error == cudaErrorMemoryAllocation && ctx->kept)
	{
		(void) cudaGetLastError();
		gpusort_device_trim(ctx);
		error = cudaMalloc(&block->p, bytes);
	}
	TRY(keep_owned(&ctx->used, block, bytes, error, "cudaMalloc", err));
	ctx->held += bytes;
	*out = block->p;
	return GPUSORT_OK;
}

void
gpusort_device_free(GpusortContext *ctx, void *p)
{
	Owned	   *block = find_owned(ctx->used, p);

	if (!block)
		return;
	unlink_owned(&ctx->used, block);
	push(&ctx->kept, block);
}

/* ------------------------------------------------------------------------
 * Host memory
 * ------------------------------------------------------------------------
 */
GpusortStatus
gpusort_host_alloc(GpusortContext *ctx, uint64_t bytes, void **out, GpusortError *err)
{
	Owned	   *block;
	cudaError_t error;

	*out = NULL;
	TRY(gpusort_enter(ctx, err));
	TRY(make_owned(&block, err));
	error = cudaMallocHost(&block->p, bytes);
	TRY(keep_owned(&ctx->host, block, bytes, error, "cudaMallocHost", err));
	*out = block->p;
	return GPUSORT_OK;
}

void
gpusort_host_free(GpusortContext *ctx, void *p)
{
	Owned	   *block = find_owned(ctx->host, p);

	if (!block)
		return;
	(void) cudaFreeHost(p);
	unlink_owned(&ctx->host, block);
	free(block);
}

GpusortStatus
gpusort_host_register(GpusortContext *ctx, void *p, uint64_t bytes, GpusortError *err)
{
	Owned	   *block;
	cudaError_t error;

	TRY(gpusort_enter(ctx, err));
	TRY(make_owned(&block, err));
	block->p = p;
	/* portable: contexts of all devices copy from the same pinned memory */
	error = cudaHostRegister(p, bytes, cudaHostRegisterPortable);
	return keep_owned(&ctx->registered, block, bytes, error, "cudaHostRegister", err);
}

void
gpusort_host_unregister(GpusortContext *ctx, void *p)
{
	Owned	   *block = find_owned(ctx->registered, p);

	if (!block)
		return;
	(void) cudaHostUnregister(p);
	unlink_owned(&ctx->registered, block);
	free(block);
}
