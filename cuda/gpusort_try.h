/*
 * gpusort_try.h
 *	  TRY(): propagates a failed status.  For the library and for its callers.
 *
 * The macro is not part of gpusort_abi.h, because its short name could collide
 * with a name of a file that includes the contract.
 */
#ifndef GPUSORT_TRY_H
#define GPUSORT_TRY_H

#include "gpusort_abi.h"

/* Returns the call's status from the function unless it is GPUSORT_OK. */
#define TRY(call) \
	do { \
		GpusortStatus try_status_ = (call); \
		if (try_status_ != GPUSORT_OK) \
			return try_status_; \
	} while (0)

#endif							/* GPUSORT_TRY_H */
