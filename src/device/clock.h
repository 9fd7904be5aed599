/*
 * clock.h
 *	  The clock that all processes share.
 */
#ifndef GPUSORT_CLOCK_H
#define GPUSORT_CLOCK_H

#include "postgres.h"

#include "portability/instr_time.h"

/* Monotonic, in microseconds. */
static inline uint64
device_now_us(void)
{
	instr_time	now;

	INSTR_TIME_SET_CURRENT(now);
	return INSTR_TIME_GET_MICROSEC(now);
}

#endif							/* GPUSORT_CLOCK_H */
