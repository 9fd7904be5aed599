/*
 * sort_internal.h
 *	  The modules of the sort engine, for its own files and for the GPU path.
 */
#ifndef GPUSORT_SORT_SORT_INTERNAL_H
#define GPUSORT_SORT_SORT_INTERNAL_H

#include "sort/batch_put.h"
#include "sort/distinct.h"
#include "sort/external_sort.h"
#include "sort/memory_result.h"
#include "sort/memory_sort.h"
#include "sort/offload.h"
#include "sort/run_write.h"
#include "sort/sink.h"
#include "sort/sort.h"
#include "sort/sort_env.h"
#include "sort/verify.h"

#endif							/* GPUSORT_SORT_SORT_INTERNAL_H */
