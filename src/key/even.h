/*
 * even.h
 *	  float8 keys spread evenly over fewer bits than their images have.
 *
 * The leading bits of a float say its sign and magnitude, and most values of a column
 * have one of very few: of 10M rows by a random value from -500,000 to 500,000 a twentieth
 * have the same 37 leading bits as another.  The distance from the value that comes first,
 * in as many steps as there are numbers, uses all bits alike: few are tied, and a radix
 * sort's digits have as many rows each.
 *
 * Rounding never turns two values round, so a number is before another only where its
 * value is; values that have the same are for the tie-break.  A sample tells whether that is
 * better than the images' leading bits: where values are of all magnitudes it is not.
 */
#ifndef GPUSORT_EVEN_H
#define GPUSORT_EVEN_H

#include "postgres.h"

#include "key/stage.h"

typedef struct EvenScale
{
	uint64		flip;			/* the column's */
	double		from;			/* the value that comes first */
	double		steps;			/* to a unit, less than 0 if values descend; 0: not in use */
} EvenScale;

struct KeyLayout;

/*
 * A layout of the stage's own ranges, whose keys have more than so many bits, with the
 * float8 that would be cut spread over what is left of them, and nothing behind it.  False
 * if that is no gain, or nothing of the kind.  For pack_words() alone.
 */
extern bool even_layout(struct KeyLayout *even, const struct KeyLayout *layout,
						const Stage *stage, int bits);

/* The numbers of rows [start, start + count); 0 for NULLs. */
extern void even_numbers(const EvenScale *scale, const StageColumn *col, size_t start, int count,
						 uint64 *numbers);

#endif							/* GPUSORT_EVEN_H */
