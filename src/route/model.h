/*
 * model.h
 *	  How long a kernel will take: the router's model and its constants.
 *
 * The constants are cost curves: nanoseconds per record at input sizes of 2^5,
 * 2^7, ... 2^27 records, linear in between over the logarithm of the size.  A
 * curve holds what the papers write as operations plus bytes over bandwidth,
 * and its course is the memory hierarchy: it climbs where an input leaves a
 * cache.  model.c says which curves a kernel's time is made of.
 */
#ifndef GPUSORT_MODEL_H
#define GPUSORT_MODEL_H

#include "route/router.h"

#define MODEL_KNOTS			12
#define MODEL_KNOT_FIRST	5

/* No record costs more than this; a guard for stored constants. */
#define MODEL_MAX_NS		1e6

/* "+ format": one curve for each SortRecFormat. */
typedef enum ModelCurve
{
	MODEL_RADIX = 0,			/* cpu_radix + format, keys wider than n needs */
	MODEL_RADIX_8 = 3,			/* ... packed records of 8 key bits */
	MODEL_RADIX_12 = 4,			/* ... of 12 */
	MODEL_RADIX_16 = 5,			/* ... of 16 */
	MODEL_RADIX_24 = 6,			/* ... of 24 */
	MODEL_COUNTING_8 = 7,		/* cpu_counting, packed records of 8 key bits, */
	MODEL_COUNTING_12 = 8,		/* without what its table costs by its size */
	MODEL_COUNTING_16 = 9,
	MODEL_COUNTING_20 = 10,
	MODEL_COUNTING_24 = 11,
	MODEL_MERGE = 12,			/* cpu_merge + format */
	MODEL_REVERSED = 15,		/* presorted + format: descending */
	MODEL_RUNS = 18,			/* ... a few runs, for each pass over them */
	MODEL_NEARLY = 21,			/* ... records out of place, without those */
	MODEL_CURVES = 24
} ModelCurve;

/* Constants that are no curves. */
typedef enum ModelScalar
{
	MODEL_CELL_NS,				/* cpu_counting, for each cell of its table */
	MODEL_CHAIN_NS,				/* cpu_radix and cpu_counting, for each record of an
								 * input nearly in order */
	MODEL_DROP_NS,				/* presorted, for each record out of place */
	MODEL_TEAM_SHARE,			/* of a kernel's time that a team divides, 0 .. 1 */
	MODEL_SCALARS
} ModelScalar;

typedef struct RouteModel
{
	double		curve[MODEL_CURVES][MODEL_KNOTS];
	double		scalar[MODEL_SCALARS];
} RouteModel;

extern const char *const model_scalar_names[MODEL_SCALARS];
extern const char *const model_curve_names[MODEL_CURVES];

/* The constants in use, at first the built-in ones. */
extern const RouteModel *route_model;
extern const RouteModel route_model_builtin;

/* The binary logarithm of a knot's number of records. */
static inline int
model_knot_log2(int knot)
{
	return MODEL_KNOT_FIRST + 2 * knot;
}

/* A curve's value at n records. */
extern double model_curve_at(const double *curve, size_t n);

/* Predicted microseconds of a CPU algorithm that applies to these facts. */
extern double model_predict_us(const RouteModel *model, const Algorithm *algorithm,
							   const RouteFacts *facts);

/*
 * The constants as text, with the machine that they belong to.  model_format
 * returns the length.  model_parse changes *model only if it returns OK.
 */
#define MODEL_TEXT_SIZE		8192

typedef enum ModelTextStatus
{
	MODEL_TEXT_OK,
	MODEL_TEXT_BAD,				/* not such a text, or of another version */
	MODEL_TEXT_OTHER_MACHINE
} ModelTextStatus;

extern size_t model_format(const RouteModel *model, char text[MODEL_TEXT_SIZE]);
extern ModelTextStatus model_parse(const char *text, RouteModel *model);

/*
 * Measures this machine (calibrate.c).  workspace is 64-byte aligned; inputs
 * grow until they fill it, and what is larger is scaled from the built-in
 * curves.  interrupted() as in SortProblem.
 */
extern SortStatus model_calibrate(RouteModel *model, void *workspace, size_t size,
								  bool (*interrupted) (void *), void *arg);

#endif							/* GPUSORT_MODEL_H */
