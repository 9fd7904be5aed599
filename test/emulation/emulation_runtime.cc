/*
 * emulation_runtime.cc
 *	  The emulated CUDA runtime without launches: memory, streams, events.
 *
 * Every call finishes its work before it returns, so streams are always idle.
 * Resources that are not freed are counted, and tests can make any call fail
 * (emulation.h).
 */
#include <stdlib.h>

#include <set>

#include "emulation.h"

static int	current_device;
static cudaError_t last_error;
static std::set<void *> device_blocks;
static std::set<void *> host_blocks;
static std::set<void *> registered;

cudaError_t
emulation_error(cudaError_t error)
{
	if (error != cudaSuccess)
		last_error = error;
	return error;
}

cudaError_t
emulation_call(void)
{
	emulation.calls++;
	return emulation_error(emulation.fail_in > 0 && --emulation.fail_in == 0 ? emulation.fail_with
				: cudaSuccess);
}

const char *
cudaGetErrorString(cudaError_t error)
{
	static char text[40];

	snprintf(text, sizeof(text), "emulated error %d", (int) error);
	return text;
}

cudaError_t
cudaGetLastError(void)
{
	cudaError_t error = last_error;

	last_error = cudaSuccess;
	return error;
}

cudaError_t
cudaGetDeviceCount(int *count)
{
	*count = 2;
	return emulation_call();
}

cudaError_t
cudaGetDeviceProperties(cudaDeviceProp *prop, int device)
{
	memset(prop, 0, sizeof(*prop));
	snprintf(prop->name, sizeof(prop->name), "emulated device %d", device);
	prop->totalGlobalMem = (size_t) 64 << 30;
	prop->l2CacheSize = 50 << 20;
	prop->major = emulation.arch / 10;
	prop->minor = emulation.arch % 10;
	prop->multiProcessorCount = emulation.multiprocessors;
	prop->asyncEngineCount = 2;
	prop->sharedMemPerBlockOptin = emulation_most_shared();
	return device < 0 || device > 1 ? emulation_error(cudaErrorInvalidDevice) : emulation_call();
}

cudaError_t
cudaDriverGetVersion(int *version)
{
	*version = 13000;
	return cudaSuccess;
}

cudaError_t
cudaRuntimeGetVersion(int *version)
{
	*version = 13000;
	return cudaSuccess;
}

cudaError_t
cudaSetDevice(int device)
{
	if (device < 0 || device > 1)
		return emulation_error(cudaErrorInvalidDevice);
	current_device = device;
	return emulation_call();
}

cudaError_t
cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes)
{
	*free_bytes = (size_t) 60 << 30;
	*total_bytes = (size_t) 64 << 30;
	return emulation_call();
}

/* Allocates and counts memory of one kind; fills it with EMULATED_FILL. */
static cudaError_t
take(void **p, size_t bytes, size_t align, std::set<void *> &blocks, int &count)
{
	cudaError_t error = emulation_call();

	*p = NULL;
	if (error != cudaSuccess)
		return error;
	if (posix_memalign(p, align, bytes) != 0)
		return emulation_error(cudaErrorMemoryAllocation);
	memset(*p, EMULATED_FILL, bytes);
	blocks.insert(*p);
	count++;
	return cudaSuccess;
}

static cudaError_t
give_back(void *p, std::set<void *> &blocks, int &count)
{
	if (blocks.erase(p) == 0)
		return emulation_error(cudaErrorInvalidValue);
	count--;
	free(p);
	return cudaSuccess;
}

cudaError_t
cudaMalloc(void **p, size_t bytes)
{
	return take(p, bytes, 256, device_blocks, emulation.device_blocks);
}

cudaError_t
cudaFree(void *p)
{
	return give_back(p, device_blocks, emulation.device_blocks);
}

cudaError_t
cudaMallocHost(void **p, size_t bytes)
{
	return take(p, bytes, 64, host_blocks, emulation.host_blocks);
}

cudaError_t
cudaFreeHost(void *p)
{
	return give_back(p, host_blocks, emulation.host_blocks);
}

cudaError_t
cudaHostRegister(void *p, size_t, unsigned)
{
	cudaError_t error = emulation_call();

	if (error == cudaSuccess && !registered.insert(p).second)
		error = emulation_error(cudaErrorInvalidValue);
	emulation.registered += error == cudaSuccess;
	return error;
}

cudaError_t
cudaHostUnregister(void *p)
{
	if (registered.erase(p) == 0)
		return emulation_error(cudaErrorInvalidValue);
	emulation.registered--;
	return cudaSuccess;
}

struct EmulatedStream
{
	int			device;
};

struct EmulatedEvent
{
	int			device;
};

/* Creates and counts a stream or an event of the current device. */
template <class T> static cudaError_t
create(T **thing, int &count)
{
	cudaError_t error = emulation_call();

	if (error == cudaSuccess)
	{
		*thing = new T{current_device};
		count++;
	}
	return error;
}

template <class T> static cudaError_t
destroy(T *thing, int &count)
{
	count--;
	delete thing;
	return cudaSuccess;
}

cudaError_t
cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned)
{
	return create(stream, emulation.streams);
}

cudaError_t
cudaStreamDestroy(cudaStream_t stream)
{
	return destroy(stream, emulation.streams);
}

/*
 * A dry run executes no kernel that writes the readback words: they are set
 * here.
 */
cudaError_t
cudaStreamQuery(cudaStream_t)
{
	if (emulation.dry)
		for (void *p : host_blocks)
		{
			memcpy(p, emulation.words, sizeof(emulation.words));
			*(uint32_t *) p = INT32_MAX;
		}
	return emulation_call();
}

cudaError_t
cudaStreamSynchronize(cudaStream_t)
{
	return emulation_call();
}

cudaError_t
cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned)
{
	return emulation_call();
}

cudaError_t
cudaEventCreate(cudaEvent_t *event)
{
	return create(event, emulation.events);
}

cudaError_t
cudaEventDestroy(cudaEvent_t event)
{
	return destroy(event, emulation.events);
}

cudaError_t
cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
	return event->device != stream->device ? emulation_error(cudaErrorInvalidValue) : emulation_call();
}

cudaError_t
cudaEventQuery(cudaEvent_t)
{
	return emulation_call();
}

cudaError_t
cudaEventSynchronize(cudaEvent_t)
{
	return emulation_call();
}

cudaError_t
cudaEventElapsedTime(float *ms, cudaEvent_t, cudaEvent_t)
{
	*ms = 0;
	return emulation_call();
}

static const char *dry_from;
static uint64_t dry_bytes;

void
emulation_bounds(const void *from, uint64_t bytes)
{
	dry_from = (const char *) from;
	dry_bytes = bytes;
}

/* Dry run: true if the bytes lie in the memory that emulation_bounds() set. */
static bool
within(const void *p, size_t bytes)
{
	const char *at = (const char *) p;

	return at >= dry_from && bytes <= dry_bytes &&
		(uint64_t) (at - dry_from) <= dry_bytes - bytes;
}

cudaError_t
cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind, cudaStream_t)
{
	cudaError_t error = emulation_call();

	if (error == cudaSuccess && !emulation.dry && bytes > 0)
		memcpy(to, from, bytes);
	return error;
}

cudaError_t
cudaMemsetAsync(void *p, int value, size_t bytes, cudaStream_t)
{
	cudaError_t error = emulation_call();

	if (error == cudaSuccess && emulation.dry && !within(p, bytes))
		return emulation_error(cudaErrorInvalidValue);
	if (error == cudaSuccess && !emulation.dry)
		memset(p, value, bytes);
	return error;
}

/* Grows with the tiles and differs between devices, as CUB's does. */
size_t
emulation_scan_bytes(uint64_t n)
{
	return (n / 2048 + 33) * (current_device == 0 ? 32 : 16);
}
