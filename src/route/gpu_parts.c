/*
 * gpu_parts.c
 *	  What a sort takes whose keys go to devices in parts.
 *
 * Splitting keys by their range is the host's work, a few nanoseconds each, and each part
 * is handed over by itself.  In return several devices share the sorting and the way
 * back.  They do not share the way there: one thread of the host fills the chunks, and
 * it is slower than one bus.
 *
 * So from the host's memory several devices are only quicker than one where a device takes
 * longer for a key, sorted and back, than the host for splitting: with an H200 on PCIe 5 it
 * is 0.2 ns against part_ns, at any number of rows.  (Chen's several GPUs pay from 24M
 * elements on because their keys need not be split by the host.)  What parts are
 * for is keys that no device has room for.
 */
#include "route/gpu_parts.h"

#include "route/gpu_model.h"

/*
 * Of a key of 32, 64 and 128 bits, with its rid: looked up among the splitters and written to its
 * part, 3.8, 5.7 and 8 ns by the measurement in key/key_split.c; into memory that is touched for
 * the first time, 0.09 a byte; and copied from there, about 0.1 a byte.
 */
static double
part_ns(const RouteFacts *facts)
{
	return facts->gpu.key_width == 32 ? 5.5 : facts->gpu.key_width == 64 ? 7.5 : 12;
}

double
gpu_parts_us(const Algorithm *algorithm, const RouteFacts *facts, int parts, int devices)
{
	int			sharing = parts < devices ? parts : devices < 1 ? 1 : devices;
	GpuTerms	terms;

	gpu_predict_terms(algorithm, facts, &terms);
	return facts->n * part_ns(facts) / 1000 + terms.us[GPU_TERM_HAND_OVER] * parts + terms.us[GPU_TERM_UP] +
		(terms.us[GPU_TERM_SORT] + terms.us[GPU_TERM_DOWN]) / sharing + terms.us[GPU_TERM_HOST];
}
