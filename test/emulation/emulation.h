/*
 * emulation.h
 *	  The emulated device's interface for tests: its properties, faults to
 *	  inject, and counters of resources and calls.
 */
#ifndef GPUSORT_EMULATION_H
#define GPUSORT_EMULATION_H

#include "cuda_runtime.h"

#define EMULATED_FILL	0xa5	/* bytes of memory that is not initialized */

struct Emulation
{
	/* properties of both devices, for contexts that are created later */
	int			arch;			/* 90: sm_90 */
	int			multiprocessors;

	/* the call with this number fails with this error, counted down; 0: none */
	int			fail_in;
	cudaError_t fail_with;

	/* *stop is set to 1 at the launch with number stop_at */
	int32_t    *stop;
	uint64_t	stop_at;

	/*
	 * Dry run: launches, copies and fills are checked and not executed; words is
	 * copied to the host as the kernels' readback.
	 */
	bool		dry;
	uint32_t	words[64];

	/* resources that are not freed */
	int			device_blocks;
	int			host_blocks;
	int			registered;
	int			streams;
	int			events;

	uint64_t	calls;			/* calls that fail_in counts */
	uint64_t	launches;
};

extern Emulation emulation;

/* Counts a call to the runtime; returns the error to inject, or success. */
extern cudaError_t emulation_call(void);

/* Remembers an error for cudaGetLastError(), and returns it. */
extern cudaError_t emulation_error(cudaError_t error);

/* The most shared memory of a block on the device, in bytes. */
extern size_t emulation_most_shared();

/* Bytes of scratch memory of a prefix sum over n numbers. */
extern size_t emulation_scan_bytes(uint64_t n);

/* Dry run: sets the memory in which fills and copies must lie. */
extern void emulation_bounds(const void *from, uint64_t bytes);

#endif							/* GPUSORT_EMULATION_H */
