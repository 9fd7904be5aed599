/*
 * buffer.cuh
 *	  Cuts a problem's scratch memory into arrays.
 *
 * The same code runs twice: with base NULL it only adds up, so that the size
 * query and the run cannot disagree.
 */
#ifndef GPUSORT_BUFFER_CUH
#define GPUSORT_BUFFER_CUH

#include <stddef.h>
#include <stdint.h>

#define GPUSORT_ALIGN	256			/* bytes; of every array */

struct ScratchCutter
{
	char	   *base;
	uint64_t	used;

	explicit ScratchCutter(void *memory)
		: base(static_cast<char *>(memory)), used(0)
	{
	}

	/* Room for n elements; NULL while only adding up. */
	template <class T> T *take(uint64_t n)
	{
		T		   *p = base ? reinterpret_cast<T *>(base + used) : NULL;

		used += (n * sizeof(T) + GPUSORT_ALIGN - 1) / GPUSORT_ALIGN * GPUSORT_ALIGN;
		return p;
	}
};

#endif							/* GPUSORT_BUFFER_CUH */
