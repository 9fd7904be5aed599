/*
 * faults.h
 *	  Faults of a GPU that a test orders for a session.
 */
#ifndef GPUSORT_FAULTS_H
#define GPUSORT_FAULTS_H

#include "gpusort_abi.h"

/* The library with the faults that sessions order.  Returns api itself if no session can order any. */
extern const GpusortCudaApi *cpu_abi_with_faults(const GpusortCudaApi *api);

#endif							/* GPUSORT_FAULTS_H */
