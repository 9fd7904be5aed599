/*
 * sql_functions.h
 *	  Shared declarations of the SQL functions.
 */
#ifndef GPUSORT_SQL_SQL_FUNCTIONS_H
#define GPUSORT_SQL_SQL_FUNCTIONS_H

#include "postgres.h"

#include "kernel/algorithm.h"

/*
 * Looks up an algorithm by name, ignoring case; NULL for "auto".  Raises an error for an
 * unknown name.
 */
extern const Algorithm *gpusort_algorithm_from_name(const char *name);

/* The state of the device service as text, with the reason if there is no service. */
extern const char *gpusort_device_words(void);

#endif							/* GPUSORT_SQL_SQL_FUNCTIONS_H */
