/*
 * gpusort_try.h
 *	  A status handed on, on both sides of gpusort_abi.h.
 *
 * Not in the contract, which has no use for a name as short.
 */
#ifndef GPUSORT_TRY_H
#define GPUSORT_TRY_H

#include "gpusort_abi.h"

/* Leaves the function with any other status than GPUSORT_OK. */
#define TRY(call) \
	do { \
		GpusortStatus try_status_ = (call); \
		if (try_status_ != GPUSORT_OK) \
			return try_status_; \
	} while (0)

#endif							/* GPUSORT_TRY_H */
