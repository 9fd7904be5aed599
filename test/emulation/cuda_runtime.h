/*
 * cuda_runtime.h
 *	  The part of CUDA that cuda/ needs, so that a C++ compiler builds it and
 *	  it runs on the CPU.
 *
 * It replaces the toolkit's header of that name.  Threads of a block are
 * fibers (emulation.cc); a barrier or an exchange within a warp switches to
 * the next fiber.  Blocks run one after the other, in an order that changes
 * from launch to launch.
 *
 * The emulation finds wrong results, accesses outside of device or shared
 * memory (under the address sanitizer), barriers that not all threads reach,
 * most missing barriers, and launches that every device refuses.  It finds no
 * races between blocks that run at the same time, and measures no times.
 */
#ifndef GPUSORT_EMULATED_CUDA_RUNTIME_H
#define GPUSORT_EMULATED_CUDA_RUNTIME_H

#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <functional>
#include <type_traits>
#include <utility>
#include <vector>

/* ------------------------------------------------------------------------
 * The language
 * ------------------------------------------------------------------------
 */
#define __global__
#define __device__
#define __host__
#define __shared__				static	/* blocks run one by one */
#define __launch_bounds__(...)
#define __forceinline__			inline
#define __noinline__				/* the C++ library uses the name in attributes */
#define __align__(n)			__attribute__((aligned(n)))

struct uint3
{
	uint32_t	x,
				y,
				z;
};

struct dim3
{
	uint32_t	x,
				y,
				z;

	dim3(uint32_t a = 1, uint32_t b = 1, uint32_t c = 1)
		: x(a), y(b), z(c)
	{
	}
};

struct alignas(16) uint4
{
	uint32_t	x,
				y,
				z,
				w;
};

static inline uint4
make_uint4(uint32_t x, uint32_t y, uint32_t z, uint32_t w)
{
	return uint4{x, y, z, w};
}

extern uint3 threadIdx;
extern uint3 blockIdx;
extern dim3 blockDim;
extern dim3 gridDim;

/* ------------------------------------------------------------------------
 * Between threads
 * ------------------------------------------------------------------------
 */
enum EmulatedMeeting
{
	MEET_WARP, MEET_SHUFFLE, MEET_VOTE, MEET_MATCH, MEET_BLOCK, MEET_BLOCK_OR, MEET_BLOCK_COUNT
};

/* Waits for all lanes of the warp; returns the value of each lane. */
extern const uint64_t *emulation_meet_warp(EmulatedMeeting what, uint64_t value);

/* Waits for all threads of the block; returns how many passed true. */
extern int emulation_meet_block(EmulatedMeeting what, bool value);

extern void *emulation_dynamic_shared(void);

static inline void
__syncthreads()
{
	(void) emulation_meet_block(MEET_BLOCK, false);
}

static inline int
__syncthreads_or(int v)
{
	return emulation_meet_block(MEET_BLOCK_OR, v != 0) != 0;
}

static inline int
__syncthreads_count(int v)
{
	return emulation_meet_block(MEET_BLOCK_COUNT, v != 0);
}

static inline void
__syncwarp()
{
	(void) emulation_meet_warp(MEET_WARP, 0);
}

static inline uint32_t
__ballot_sync(uint32_t, bool v)
{
	const uint64_t *lanes = emulation_meet_warp(MEET_VOTE, v);
	uint32_t	all = 0;

	for (int i = 0; i < 32; i++)
		all |= (uint32_t) lanes[i] << i;
	return all;
}

static inline int
__all_sync(uint32_t mask, bool v)
{
	return __ballot_sync(mask, v) == mask;
}

static inline uint32_t
__match_any_sync(uint32_t, uint32_t v)
{
	const uint64_t *lanes = emulation_meet_warp(MEET_MATCH, v);
	uint32_t	all = 0;

	for (int i = 0; i < 32; i++)
		all |= (uint32_t) (lanes[i] == v) << i;
	return all;
}

template <class T> static inline T
__shfl_sync(uint32_t, T v, int lane)
{
	return (T) emulation_meet_warp(MEET_SHUFFLE, (uint64_t) v)[lane & 31];
}

template <class T> static inline T
__shfl_xor_sync(uint32_t, T v, int lanes)
{
	return (T) emulation_meet_warp(MEET_SHUFFLE, (uint64_t) v)[(threadIdx.x ^ lanes) & 31];
}

template <class T> static inline T
__shfl_up_sync(uint32_t, T v, uint32_t distance)
{
	uint32_t	lane = threadIdx.x & 31;
	const uint64_t *lanes = emulation_meet_warp(MEET_SHUFFLE, (uint64_t) v);

	return (T) lanes[lane >= distance ? lane - distance : lane];
}

static inline void
__threadfence()
{
}

static inline void
__threadfence_system()
{
}

/* ------------------------------------------------------------------------
 * Arithmetic
 * ------------------------------------------------------------------------
 */
using std::max;
using std::min;

static inline int
__clz(uint32_t v)
{
	return v ? __builtin_clz(v) : 32;
}

static inline int
__clzll(uint64_t v)
{
	return v ? __builtin_clzll(v) : 64;
}

static inline int
__ffs(uint32_t v)
{
	return __builtin_ffs((int) v);
}

static inline int
__popc(uint32_t v)
{
	return __builtin_popcount(v);
}

static inline uint32_t
__umulhi(uint32_t a, uint32_t b)
{
	return (uint32_t) ((uint64_t) a * b >> 32);
}

static inline uint32_t
__vmaxu2(uint32_t a, uint32_t b)
{
	return max(a & 0xffff, b & 0xffff) | max(a >> 16, b >> 16) << 16;
}

/* The conversion saturates, as the device's does. */
static inline uint32_t
__float2uint_rz(float v)
{
	return !(v > 0) ? 0 : v >= 4294967296.0f ? UINT32_MAX : (uint32_t) v;
}

template <class T> static inline T
__ldcg(const T *p)
{
	return *p;
}

/* No atomics needed: fibers switch only where they synchronize. */
#define EMULATED_ATOMIC(name, result) \
	template <class T> static inline T \
	name(T *p, std::common_type_t<T> v) \
	{ \
		T			old = *p; \
		*p = result; \
		return old; \
	}
EMULATED_ATOMIC(atomicAdd, old + v)
EMULATED_ATOMIC(atomicSub, old - v)
EMULATED_ATOMIC(atomicOr, old | v)
EMULATED_ATOMIC(atomicMin, min(old, v))
EMULATED_ATOMIC(atomicMax, max(old, v))
EMULATED_ATOMIC(atomicExch, v)
#undef EMULATED_ATOMIC

/* ------------------------------------------------------------------------
 * The runtime
 * ------------------------------------------------------------------------
 */
enum cudaError_t
{
	cudaSuccess = 0,
	cudaErrorInvalidValue = 1,
	cudaErrorMemoryAllocation = 2,
	cudaErrorStubLibrary = 34,
	cudaErrorInsufficientDriver = 35,
	cudaErrorDevicesUnavailable = 46,
	cudaErrorNoDevice = 100,
	cudaErrorInvalidDevice = 101,
	cudaErrorNoKernelImageForDevice = 209,
	cudaErrorNotReady = 600,
	cudaErrorIllegalAddress = 700,
	cudaErrorSystemNotReady = 802,
	cudaErrorSystemDriverMismatch = 803
};

struct cudaDeviceProp
{
	char		name[256];
	int			pciDomainID,
				pciBusID,
				pciDeviceID;
	size_t		totalGlobalMem;
	int			l2CacheSize;
	int			major,
				minor;
	int			multiProcessorCount;
	int			asyncEngineCount;
	size_t		sharedMemPerBlockOptin;
};

typedef struct EmulatedStream *cudaStream_t;
typedef struct EmulatedEvent *cudaEvent_t;

enum cudaMemcpyKind
{
	cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice
};

enum cudaFuncAttribute
{
	cudaFuncAttributeMaxDynamicSharedMemorySize
};

#define cudaHostRegisterPortable	1
#define cudaStreamNonBlocking		1

extern const char *cudaGetErrorString(cudaError_t error);
extern cudaError_t cudaGetLastError(void);
extern cudaError_t cudaGetDeviceCount(int *count);
extern cudaError_t cudaGetDeviceProperties(cudaDeviceProp *prop, int device);
extern cudaError_t cudaDriverGetVersion(int *version);
extern cudaError_t cudaRuntimeGetVersion(int *version);
extern cudaError_t cudaSetDevice(int device);
extern cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes);
extern cudaError_t cudaMalloc(void **p, size_t bytes);
extern cudaError_t cudaFree(void *p);
extern cudaError_t cudaMallocHost(void **p, size_t bytes);
extern cudaError_t cudaFreeHost(void *p);
extern cudaError_t cudaHostRegister(void *p, size_t bytes, unsigned flags);
extern cudaError_t cudaHostUnregister(void *p);
extern cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags);
extern cudaError_t cudaStreamDestroy(cudaStream_t stream);
extern cudaError_t cudaStreamQuery(cudaStream_t stream);
extern cudaError_t cudaStreamSynchronize(cudaStream_t stream);
extern cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags);
extern cudaError_t cudaEventCreate(cudaEvent_t *event);
extern cudaError_t cudaEventDestroy(cudaEvent_t event);
extern cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
extern cudaError_t cudaEventQuery(cudaEvent_t event);
extern cudaError_t cudaEventSynchronize(cudaEvent_t event);
extern cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to);
extern cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes,
								   cudaMemcpyKind kind, cudaStream_t stream);
extern cudaError_t cudaMemsetAsync(void *p, int value, size_t bytes, cudaStream_t stream);
extern cudaError_t cudaFuncSetAttribute(const void *kernel, cudaFuncAttribute attribute,
										int value);

/* Checks the launch and counts it; runs body for every thread unless dry. */
extern cudaError_t emulation_launch(const void *kernel, dim3 blocks, dim3 threads,
									size_t shared_bytes, const std::function<void()> &body);

template <class... Params, size_t... I> static void
emulation_apply(void (*kernel) (Params...), void **args, std::index_sequence<I...>)
{
	kernel(*static_cast<std::remove_const_t<Params> *>(args[I])...);
}

template <class... Params> static cudaError_t
cudaLaunchKernel(void (*kernel) (Params...), dim3 blocks, dim3 threads, void **args,
				 size_t shared_bytes, cudaStream_t)
{
	return emulation_launch((const void *) kernel, blocks, threads, shared_bytes, [&]
							{
								emulation_apply(kernel, args,
												std::index_sequence_for<Params...>());
							});
}

#endif							/* GPUSORT_EMULATED_CUDA_RUNTIME_H */
