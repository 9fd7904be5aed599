/*
 * emulation.h
 *	  What tests can ask of the emulated device, and see of it.
 */
#ifndef GPUSORT_EMULATION_H
#define GPUSORT_EMULATION_H

#include "cuda_runtime.h"

#define EMULATED_FILL	0xa5	/* what memory holds that nobody should rely on */

struct Emulation
{
	/* the device, for contexts made from now on; there are two of the kind */
	int			arch;			/* 90 */
	int			multiprocessors;

	/* the call that fails, counted down from here; 0: none */
	int			fail_in;
	cudaError_t fail_with;

	/* set when that many launches have been asked for, counted from the start */
	int32_t    *stop;
	uint64_t	stop_at;

	/* kernels, copies and fills are only checked; what kernels would have told the host */
	bool		dry;
	uint32_t	words[64];

	/* what is there and not given back */
	int			device_blocks;
	int			host_blocks;
	int			registered;
	int			streams;
	int			events;

	uint64_t	calls;			/* that could fail */
	uint64_t	launches;
};

extern Emulation emulation;

/* A call to the runtime that may be told to fail. */
extern cudaError_t emulation_call(void);

/* Remembers an error for cudaGetLastError(). */
extern cudaError_t emulation_told(cudaError_t error);

/* Shared memory that a block may have on the device. */
extern size_t emulation_most_shared();

/* Scratch of a prefix sum over n numbers, on the current device. */
extern size_t emulation_scan_bytes(uint64_t n);

/* In dry runs: the fill or copy must lie in here. */
extern void emulation_bounds(const void *from, uint64_t bytes);

#endif							/* GPUSORT_EMULATION_H */
