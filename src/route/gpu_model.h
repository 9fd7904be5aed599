/*
 * gpu_model.h
 *	  The GPU's algorithms as the router sees them: which can sort an input, and
 *	  how long that will take, transfers included.
 */
#ifndef GPUSORT_GPU_MODEL_H
#define GPUSORT_GPU_MODEL_H

#include "route/gpu_learn.h"

/* Can this GPU's algorithm sort this?  If not, *why says so in a few words. */
extern bool gpu_fits(const Algorithm *algorithm, const RouteFacts *facts, const char **why);

/* Predicted microseconds of one that is not only forced: keys (and rids) there, sorted, and back. */
extern double gpu_predict_us(const Algorithm *algorithm, const RouteFacts *facts);
extern void gpu_predict_terms(const Algorithm *algorithm, const RouteFacts *facts, GpuTerms *terms);

/* ... of the sort alone, as the library says: HUGE_VAL for one that is only forced. */
extern double gpu_sort_us(AlgorithmId id, const RouteFacts *facts);

/*
 * The one that takes least, if that is less than *us; sets *us.  NULL if none is,
 * or none can.
 */
extern const Algorithm *gpu_choose(const RouteFacts *facts, double *us);

/* What is known when a sort could move its rows to a GPU. */
typedef struct GpuRowsFacts
{
	double		rows;			/* expected in all */
	double		rows_here;		/* of them in the host's memory already */
	double		row_bytes;
	double		key_cost;		/* bytes per row that the CPU's sort takes besides */
	double		memory;			/* bytes it may take */
	bool		ordered;		/* the rows so far are in order, or in reverse */
	bool		settled;		/* keys do not tell all rows apart; equal ones are settled, there and here */
	double		repeated;		/* part of the rows of whose keys there are many each */
	double		cpu_sort_us;	/* predicted for the keys alone */
	double		gpu_sort_us;	/* there, transfers included */
	double		up_ns;			/* per byte of rows on the bus, as things are; 0: as on the */
	double		down_ns;		/* machine that the model's other constants are from */
	double		device_bytes;	/* of a device's memory that they would take */
	double		device_memory;	/* ... and that they can have; 0: enough */
	double		all_memory;		/* ... of all devices */
} GpuRowsFacts;

/* Predicted nanoseconds of a byte on the bus, there and back. */
extern void gpu_copy_ns(const RouteFacts *facts, double *up_ns, double *down_ns);

/*
 * Predicted microseconds that are won by moving the rows to a GPU and having them
 * back in order; negative: lost.
 */
extern double gpu_rows_gain_us(const GpuRowsFacts *facts);

#endif							/* GPUSORT_GPU_MODEL_H */
