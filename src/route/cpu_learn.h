/*
 * cpu_learn.h
 *	  What sorts on the CPU have taught of it: how many times longer its kernels take
 *	  than the model says.
 *
 * The model's constants are of one kind of processor, or of an hour in which nothing else
 * went on (gpusort_calibrate()).  Here is what sorts take on this one, now: a factor
 * (factor.h) for each format of records, which is what keys of a width are sorted as, and
 * some sizes; between formats of which something is known and others the nearest holds.
 *
 * Time is the clock's.  What is decided by it, a GPU or not, is a question of when the rows
 * are there: with more sorts than processors a kernel waits for its turn, and each second
 * that it needs is two by the clock, while the GPU's part of a job waits for none.  The
 * processor's own time, and a term for the load beside it, would come to the same with
 * more to go wrong: load averages know of no cgroup's share, none knows of hyperthreads or
 * of the memory's bandwidth, and all are in the clock.  Load passes, so that what sorts have
 * said beyond the measured fades within minutes without any (CPU_FADE_SECONDS).  Small sorts
 * mostly end before the processor is taken from them, large ones do not, and so the sizes
 * differ under load.
 *
 * One factor for all kernels and teams of any size, that of the format and rows: a choice
 * between kernels is by the model, and no factor that only one of them has learned comes in
 * between.  Those teach that move every record, whatever its place: not what takes an input
 * as it lies.
 */
#ifndef GPUSORT_CPU_LEARN_H
#define GPUSORT_CPU_LEARN_H

#include "device/measured.h"
#include "route/factor.h"
#include "route/router.h"

/*
 * Sorts of fewer records neither teach nor ask: none of them is a GPU's, and they would feel the
 * cost.
 */
#define CPU_LEARN_ROWS		8192

#define CPU_FADE_SECONDS	60.0

typedef struct CpuLearned
{
	Factor		sizes[3][FACTOR_SIZES]; /* by SortRecFormat */
	uint64_t	sorts;			/* that taught anything */
} CpuLearned;

/* Nothing is known. */
extern void cpu_learn_begin(CpuLearned *learned);

/* The processor was measured; the model in use is what it is compared with. */
extern void cpu_learn_measured(CpuLearned *learned, const CpuMeasured *measured);

/* A kernel has sorted facts->n records, in so many microseconds by the clock. */
extern void cpu_learn_sort(CpuLearned *learned, const Algorithm *algorithm, const RouteFacts *facts,
						   double took_us, int64_t now);

/* RouteFacts.cpu_factor for these facts: their format and rows are looked at. */
extern double cpu_learn_factor(const CpuLearned *learned, const RouteFacts *facts, int64_t now);

/*
 * As text, a line for each factor, and back; false if it is none, or not one that could
 * have been learned.  *text is moved behind it.
 */
#define CPU_LEARN_TEXT_SIZE		1536

extern size_t cpu_learn_format(const CpuLearned *learned, char text[CPU_LEARN_TEXT_SIZE]);
extern bool cpu_learn_parse(const char **text, CpuLearned *learned);

#endif							/* GPUSORT_CPU_LEARN_H */
