/*
 * sort_only.h
 *	  Columns that a statement sorts by and does not return.
 */
#ifndef GPUSORT_SORT_ONLY_H
#define GPUSORT_SORT_ONLY_H

#include "postgres.h"

#include "nodes/plannodes.h"

/* Sorts have been replaced: the one on top is left without columns that it has twice. */
extern void plan_leave_out_twins(PlannedStmt *stmt);

#endif							/* GPUSORT_SORT_ONLY_H */
