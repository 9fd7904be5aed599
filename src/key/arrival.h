/*
 * arrival.h
 *	  The order in which a stage's rows came: noticed while they do.
 */
#ifndef GPUSORT_ARRIVAL_H
#define GPUSORT_ARRIVAL_H

#include "postgres.h"

struct Stage;

/* Rows that came one by one are looked at together, so many at a time. */
#define ARRIVAL_ROWS	64

/* Ways in which all rows that were seen came. */
#define ARRIVAL_UP		1		/* none goes before the one that came before it */
#define ARRIVAL_DOWN	2		/* each does */

typedef struct Arrival
{
	uint8		ways;			/* that are possible still */
	bool		varied;			/* not all rows are equal */
	size_t		seen;			/* rows */
} Arrival;

/* No rows yet. */
extern void arrival_begin(struct Stage *stage);

/* Looks at the rows that were not seen yet. */
extern void arrival_look(struct Stage *stage);

#endif							/* GPUSORT_ARRIVAL_H */
