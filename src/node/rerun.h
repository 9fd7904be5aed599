/*
 * rerun.h
 *	  Can a plan be run again with the same rows in the same order?
 */
#ifndef GPUSORT_RERUN_H
#define GPUSORT_RERUN_H

#include "postgres.h"

#include "nodes/plannodes.h"

extern bool plan_can_rerun(Plan *plan);

#endif							/* GPUSORT_RERUN_H */
