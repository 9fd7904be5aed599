/*
 * place_map.cuh
 *	  Keys of a bucket, or 32 bits of them, to 32-bit places (block_sort.cuh).
 */
#ifndef GPUSORT_PLACE_MAP_CUH
#define GPUSORT_PLACE_MAP_CUH

#include <stdint.h>

/* A range of places' source that is too coarse to spread a bucket. */
#define COARSE_RANGE			(1u << 12)

/* Narrower ranges have many equal keys, which only rids distribute over the bins. */
#define NARROW_RANGE			(1u << 16)

/* The stretching stops a little short of 2^32, more than floats are wrong by. */
#define PLACE_RANGE			4290000000.0f

/* How the 32 bits x of a bucket's keys become places. */
struct PlaceMap
{
	uint32_t	lo;				/* of x */
	uint32_t	width;			/* places per value of x */
	uint32_t	rid_lo;
	uint32_t	rid_scale;		/* shifted rid to place within the width */
	int			rid_shift;
	bool		coarse;			/* x is no good, the keys themselves are needed */

	__device__ __forceinline__ uint32_t operator() (uint32_t x, uint32_t rid) const
	{
		return (x - lo) * width + __umulhi((rid - rid_lo) << rid_shift, rid_scale);
	}
};

__device__ __forceinline__ PlaceMap
make_place_map(uint32_t lo, uint32_t hi)
{
	PlaceMap	map;
	float		width = PLACE_RANGE / ((float) (hi - lo) + 1.0f);

	map.lo = lo;
	map.width = max(1u, __float2uint_rz(min(width, 2147483000.0f)));
	map.rid_lo = 0;
	map.rid_scale = 0;
	map.rid_shift = 0;
	map.coarse = hi - lo < COARSE_RANGE;
	return map;
}

/* Fills the width with rids between rid_lo and rid_hi. */
__device__ __forceinline__ void
spread_rids(PlaceMap *map, uint32_t rid_lo, uint32_t rid_hi)
{
	uint32_t	top;

	map->rid_lo = rid_lo;
	map->rid_shift = __clz((rid_hi - rid_lo) | 1);
	top = (rid_hi - rid_lo) << map->rid_shift;
	map->rid_scale = top == 0 || map->width == 1 ? 0 :
		__float2uint_rz((float) map->width *
						(PLACE_RANGE / ((float) top + 1.0f)) * 0.999f);
}

#endif							/* GPUSORT_PLACE_MAP_CUH */
