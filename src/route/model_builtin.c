/*
 * model_builtin.c
 *	  The model's constants for a machine that was not calibrated.
 *
 * Measured by "bench/route_grid --calibrate --constants" on an AMD EPYC of the
 * Zen 5 generation (1 MB L2, 32 MB L3, AVX-512), one core.  Nanoseconds; see
 * model.h for the knots.
 */
#include "route/model.h"

const RouteModel route_model_builtin = {
	.curve = {
		[0] = {5.1, 3.7, 3.2, 3.2, 5.5, 6.5, 6, 6.5},
		[1] = {5.8, 4.9, 4.3, 3.9, 7.9, 8.8, 9, 10},
		[2] = {7.2, 6.3, 5.2, 5.1, 10, 11.3, 12, 13},
		[3] = {3.9, 2.6, 1, 1, 1.4, 1.7, 2.1, 2.4},
		[4] = {5.1, 3.8, 1.9, 2.2, 2.5, 3, 2.9, 3.3},
		[5] = {5.1, 3.7, 3, 3.3, 4.6, 5.6, 4.4, 5.3},
	}
};
