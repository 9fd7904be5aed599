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
		[0] = {8.3, 0.63, 0.5, 0.4, 0.54, 0.6, 0.7, 0.7},
		[1] = {6.9, 0.93, 0.5, 0.5, 0.6, 0.7, 0.8, 0.8},
		[2] = {5.5, 2.3, 2.1, 1.9, 1.9, 2, 2, 2},
		[3] = {0.1, 1.77, 1.48, 1.4, 1.44, 1.53, 4.1, 4.6},
		[4] = {0.1, 2.07, 1.9, 1.75, 1.78, 2.8, 4.3, 4.9},
		[5] = {0.1, 2.16, 1.94, 1.87, 2.16, 3.65, 6.1, 7.3},
	}
};
