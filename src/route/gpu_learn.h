/*
 * gpu_learn.h
 *	  What jobs have taught of a device: how much longer its parts of a job take than
 *	  the library says.
 *
 * The library's costs (GpusortCosts) come from one kind of GPU on one kind of bus.  On
 * another each part of a job has a factor of its own: handing it over and back, the
 * bytes there, the bytes back, and the sort, by key width and number of rows.  A factor
 * begins with what the device process has measured, if it has, and every job moves it
 * (factor.h).
 *
 * Pure functions of what they are given, the time included.
 */
#ifndef GPUSORT_GPU_LEARN_H
#define GPUSORT_GPU_LEARN_H

#include "device/measured.h"
#include "route/factor.h"
#include "route/router.h"

/* Handing a job over takes at least this much of what the library says. */
#define GPU_LEAST_HAND_OVER	0.3

#define GPU_SORT_SIZES		FACTOR_SIZES

/* The parts of a job that have factors. */
typedef enum GpuPart
{
	GPU_PART_HAND_OVER,
	GPU_PART_UP,
	GPU_PART_DOWN,
	GPU_PART_SORT,				/* + width * GPU_SORT_SIZES + size */
	GPU_PARTS = GPU_PART_SORT + 3 * GPU_SORT_SIZES
} GpuPart;

typedef struct GpuLearned
{
	Factor		part[GPU_PARTS];
	double		load;			/* by how much each other job that is under way makes one
								 * longer: 1 is twice as long */
	uint32_t	load_jobs;
	uint64_t	jobs;			/* that taught anything */
} GpuLearned;

/* What a decision goes by (RouteGpu.factors). */
typedef struct GpuFactors
{
	double		log[GPU_PARTS];
	double		busy;			/* copies and sorts take so many times longer, now */
	uint64_t	jobs;
} GpuFactors;

/* A job's predicted time by part, in microseconds; us_library without factors. */
typedef enum GpuTerm
{
	GPU_TERM_HAND_OVER,
	GPU_TERM_UP,
	GPU_TERM_SORT,
	GPU_TERM_DOWN,
	GPU_TERM_HOST,				/* rids to and from staging: no device's matter */
	GPU_TERMS
} GpuTerm;

typedef struct GpuTerms
{
	double		us[GPU_TERMS];
	double		library_us[GPU_TERMS];
} GpuTerms;

/*
 * What a job took; 0: it does not tell.  Of a job of several chunks handing over is known
 * to lie between two times, as it is not known which copies were waited for.
 */
typedef struct GpuJobTimes
{
	double		hand_over_us;	/* at least, */
	double		hand_over_most_us;	/* and at most */
	double		up_bytes;		/* of a copy, by the device's clock */
	double		up_us;
	double		down_bytes;
	double		down_us;
	double		sort_us;
	double		others;			/* jobs that were under way on the device */
} GpuJobTimes;

/* Nothing is known. */
extern void gpu_learn_begin(GpuLearned *learned);

/* The device was measured: the beginning of what jobs will move, or an equal voice. */
extern void gpu_learn_measured(GpuLearned *learned, const GpusortCosts *costs,
							   const DeviceMeasured *measured);

/* A job of facts->n rows, for facts->gpu.costs, was done by this algorithm. */
extern void gpu_learn_job(GpuLearned *learned, const Algorithm *algorithm,
						  const RouteFacts *facts, const GpuJobTimes *times, int64_t now);

/* What decisions shall go by now, with so many other jobs under way. */
extern void gpu_learn_factors(const GpuLearned *learned, double others, int64_t now,
							  GpuFactors *factors);

/* The logarithm of a sort's factor; NULL: 0. */
extern double gpu_sort_factor(const GpuFactors *factors, int key_width, double rows);

/* Whose it is, in a file. */
#define GPU_LEARN_NAME		64

typedef struct GpuLearnedOf
{
	int			number;
	uint64_t	memory;
	char		name[GPU_LEARN_NAME];
} GpuLearnedOf;

/* A device's name as it is kept: no longer, and one line, whatever else is in it. */
extern void gpu_learn_name(const char *name, char kept[GPU_LEARN_NAME]);

/* As a line of text, and back; false if it is none.  *text is moved behind it. */
#define GPU_LEARN_OF_SIZE	(GPU_LEARN_NAME + 64)

extern size_t gpu_learn_format_of(const GpuLearnedOf *of, char text[GPU_LEARN_OF_SIZE]);
extern bool gpu_learn_parse_of(const char **text, GpuLearnedOf *of);

/*
 * As text, a line for each part, and back; false if it is none, or not one that could
 * have been learned.  *text is moved behind it.
 */
#define GPU_LEARN_TEXT_SIZE		2048

extern size_t gpu_learn_format(const GpuLearned *learned, char text[GPU_LEARN_TEXT_SIZE]);
extern bool gpu_learn_parse(const char **text, GpuLearned *learned);

/* A part's name, for users. */
extern const char *gpu_part_name(GpuPart part);

#endif							/* GPUSORT_GPU_LEARN_H */
