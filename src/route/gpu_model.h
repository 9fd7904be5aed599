/*
 * gpu_model.h
 *	  The GPU's algorithms as the router sees them: which can sort an input, and
 *	  how long that will take, transfers included.
 */
#ifndef GPUSORT_GPU_MODEL_H
#define GPUSORT_GPU_MODEL_H

#include "route/router.h"

/* Constants measured at 2^10, 2^12, ... 2^28 rows. */
#define GPU_KNOTS			10
#define GPU_KNOT_FIRST		10
#define GPU_KNOT_STEP		2

/* Ranges of keys alone for which gpu_counting was measured. */
#define GPU_RANGES			4

typedef struct GpuModel
{
	/* microseconds of a sort of uniform keys with rids, by key width 32, 64, 128 */
	double		radix[3][GPU_KNOTS];
	double		merge[3][GPU_KNOTS];
	double		bucket[3][GPU_KNOTS];

	/* gpu_counting: keys of up to 8, 16 and more bits with rids; keys alone */
	double		counting_rids[3][GPU_KNOTS];
	int			range_log2[GPU_RANGES];
	double		counting_keys[GPU_RANGES][GPU_KNOTS];
	double		beyond_ns;		/* ... per key, where the range outgrows the last */

	double		radix_fixed[3]; /* share of gpu_radix's time that no pass takes */
	double		bucket_skew;	/* how many times longer gpu_bucket takes over */
	double		radix_skew;		/* uneven keys, and gpu_radix */
	double		count_width[3]; /* counted keys of 64 and 128 bits, times those of 32 */
	double		hp1[GPU_KNOTS];

	/* the way there and back */
	double		job_us;			/* opening, latches, first launches */
	double		copy_ns;		/* per byte */
	double		host_ns;		/* per row: rids copied to and from staging */

	/* rows in the host's memory, in nanoseconds: see gpu_rows_gain_us() */
	double		fault_ns;		/* per byte of memory touched for the first time */
	double		miss_ns;		/* per row given back from a random place */
	double		spill_ns;		/* per byte written to a run and merged */
	double		move_ns;		/* per byte moved from there to staging */
} GpuModel;

extern const GpuModel gpu_model_builtin;

/* Can this GPU's algorithm sort this?  If not, *why says so in a few words. */
extern bool gpu_fits(const Algorithm *algorithm, const RouteFacts *facts, const char **why);

/* Predicted microseconds of one that is not only forced: keys (and rids) there, sorted, and back. */
extern double gpu_predict_us(const Algorithm *algorithm, const RouteFacts *facts);

/*
 * The one that takes least, if that is less than *us; sets *us.  NULL if none is,
 * or none can.
 */
extern const Algorithm *gpu_choose(const RouteFacts *facts, double *us);

/* Device memory that keys and rids take, roughly; *not* that of rows. */
extern uint64_t gpu_keys_bytes(uint64_t n, int key_width);

/*
 * Are the keys of which this is a sample so unevenly spread that partitioning
 * them by value goes wrong at first?  Sorts the sample.
 */
extern bool gpu_keys_skewed(uint64_t *sample, size_t n);

/* What is known when a sort could move its rows to a GPU. */
typedef struct GpuRowsFacts
{
	double		rows;			/* expected in all */
	double		rows_here;		/* of them in the host's memory already */
	double		row_bytes;
	double		key_cost;		/* bytes per row that the CPU's sort takes besides */
	double		memory;			/* bytes it may take */
	bool		ordered;		/* the rows so far are in order, or in reverse */
	double		cpu_sort_us;	/* predicted for the keys alone */
	double		gpu_sort_us;	/* there, transfers included */
} GpuRowsFacts;

/*
 * Predicted microseconds that are won by moving the rows to a GPU and having them
 * back in order; negative: lost.
 */
extern double gpu_rows_gain_us(const GpuRowsFacts *facts);

#endif							/* GPUSORT_GPU_MODEL_H */
