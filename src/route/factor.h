/*
 * factor.h
 *	  How many times longer something takes than a model says: measured once, and told
 *	  again by everything that is done.
 *
 * Robust and bounded: a factor is a logarithm; one job moves it by no more than a share of
 * what that job would have it be, and what a job says counts up to a limit, upwards a
 * lower one, so that a job that was held up does little.  A factor that keeps jobs away can
 * not be put right by any, so that what jobs have said beyond the measured fades while
 * none comes.  What has faded comes back with the next job, unless that says that it was right.
 *
 * Pure functions of what they are given, the time included.
 */
#ifndef GPUSORT_FACTOR_H
#define GPUSORT_FACTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Nothing takes less or more than this many times what a model says. */
#define FACTOR_MAX			128.0
#define FACTOR_MIN			0.125

/* Sizes for which sorts have factors: 2^14, 2^17, ... rows, straight in between. */
#define FACTOR_SIZES		4

typedef struct Factor
{
	double		log;			/* its logarithm */
	double		measured;		/* what was measured, if is_measured */
	bool		is_measured;
	uint32_t	jobs;			/* that moved it */
	int64_t		seen;			/* when the last of them did, in seconds */
} Factor;

/* How a kind of factor is learned. */
typedef struct FactorRule
{
	double		first_share;	/* by which the first job moves it, */
	double		least_share;	/* and all others in the end */
	double		off_above;		/* it counts as if it had taken no more than so many times the expected, */
	double		off_below;		/* and no less */
	double		fade_s;			/* what jobs have said beyond the measured is half as much after
								 * so many seconds without one */
} FactorRule;

static inline bool
factor_is_known(const Factor *factor)
{
	return factor->is_measured || factor->jobs > 0;
}

/* It was measured: the beginning of what jobs will move, or an equal voice. */
extern void factor_measured(Factor *factor, double log_measured);

/* What it is now. */
extern double factor_now(const Factor *factor, int64_t now, const FactorRule *rule);

/* A job says that it is this; known: something was known of it before. */
extern void factor_learn(Factor *factor, bool known, double log_told, int64_t now,
						 const FactorRule *rule);

/*
 * A factor for each size.  factor_sizes_now: that at some number of rows; of a size of which
 * nothing is known it is that of the nearest, or unknown if there is none.  factor_sizes_learn:
 * a job of so many rows says that it is this; unknown is NULL if not even that is known.
 */
extern double factor_sizes_now(const Factor *sizes, double rows, double unknown, int64_t now,
							   const FactorRule *rule);
extern void factor_sizes_learn(Factor *sizes, double rows, const double *unknown, double log_told,
							   int64_t now, const FactorRule *rule);

/* The size nearest to this one of which something is known; -1: none. */
extern int	factor_known_size(const Factor *sizes, int size);

/* A number of rows among the sizes: *first, and how far beyond it. */
extern double factor_size_of(double rows, int *first);

/*
 * As a line of text, and back: false if it is none, or not one that could have been learned.
 * *text is moved behind it.  factor_parse_line: likewise for n numbers within bounds.
 */
extern size_t factor_format(const Factor *factor, const char *name, char *text, size_t size);
extern bool factor_parse(const char **text, const char *name, Factor *factor);
extern bool factor_parse_line(const char **text, const char *name, int n,
							  const double (*bounds)[2], double *values);

/* The greatest number of jobs, and of seconds, in a text. */
#define FACTOR_TEXT_MOST	1e15

#endif							/* GPUSORT_FACTOR_H */
