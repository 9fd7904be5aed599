/*
 * device_scan.cuh
 *	  The prefix sums of CUB that cuda/ calls.  The size of their scratch
 *	  memory depends on the current device, as CUB's does.
 */
#ifndef GPUSORT_EMULATED_DEVICE_SCAN_CUH
#define GPUSORT_EMULATED_DEVICE_SCAN_CUH

#include "emulation.h"

namespace cub
{
	struct DeviceScan
	{
		template <class In, class Out> static cudaError_t
		ExclusiveSum(void *scratch, size_t &bytes, In in, Out out, uint64_t n,
					 cudaStream_t = NULL)
		{
			return scan(scratch, bytes, n, [&]
						{
							std::remove_reference_t<decltype(out[0])> sum = 0;

							for (uint64_t i = 0; i < n; i++)
							{
								auto		v = in[i];

								out[i] = sum;
								sum += v;
							}
						});
		}

		template <class In, class Out, class Op, class First> static cudaError_t
		InclusiveScanInit(void *scratch, size_t &bytes, In in, Out out, Op op, First first,
						  uint64_t n, cudaStream_t = NULL)
		{
			return scan(scratch, bytes, n, [&]
						{
							for (uint64_t i = 0; i < n; i++)
								out[i] = first = op(first, in[i]);
						});
		}

	private:
		static cudaError_t scan(void *scratch, size_t &bytes, uint64_t n,
								const std::function<void()> &sum)
		{
			size_t		wanted = emulation_scan_bytes(n);
			cudaError_t error;

			if (!scratch)
			{
				bytes = wanted;
				return cudaSuccess;
			}
			error = bytes < wanted ? cudaErrorInvalidValue : emulation_call();
			if (error == cudaSuccess && !emulation.dry)
			{
				memset(scratch, 0xa5, wanted);
				sum();
			}
			return error;
		}
	};
}

#endif							/* GPUSORT_EMULATED_DEVICE_SCAN_CUH */
