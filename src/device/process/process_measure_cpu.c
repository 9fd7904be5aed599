/*
 * process_measure_cpu.c
 *	  The device process measures the processor: what it sorts itself.
 *
 * Whether a GPU is quicker is as much a question of what the CPU takes, and the router's
 * model knows one kind of processor.  Three sorts, some times each, take some 10 ms (30 on a
 * processor three times slower), in steps of their own like those of process_measure.c.
 *
 * Memory policy: it works in host memory that the caller has for the time of measuring.
 */
#include "postgres.h"

#include "device/clock.h"
#include "device/process/process_job.h"
#include "kernel/algorithm.h"

#define REPEATS		4
#define ROWS		((size_t) 1 << CPU_MEASURED_LOG2_ROWS)

/* Records of the words at random; kernels leave them in any order. */
static void
fill(void *recs, SortRecFormat format, const uint64 *words)
{
	for (size_t i = 0; i < ROWS; i++)
	{
		switch (format)
		{
			case SORT_REC_PACKED:
				((uint64 *) recs)[i] = (words[i] & ~(uint64) PG_UINT32_MAX) | i;
				break;
			case SORT_REC_64:
				((SortRec64 *) recs)[i] = (SortRec64) {words[i], (uint32) i, 0};
				break;
			case SORT_REC_128:
				((SortRec128 *) recs)[i] = (SortRec128) {words[i], words[ROWS + i], (uint32) i, 0};
				break;
		}
	}
}

double
device_measure_cpu(int width, const uint64 *words, char *room, uint64 size)
{
	const SortKernel *radix = sort_algorithms[ALGORITHM_CPU_RADIX].kernel;
	SortRecFormat format = (SortRecFormat) width;
	SortProblem problem;
	double		least = 0;

	memset(&problem, 0, sizeof(problem));
	problem.format = format;
	problem.n = ROWS;
	problem.begin_bit = cpu_measured_begin_bit(format);
	problem.end_bit = cpu_measured_end_bit(format);
	problem.rids_ascending = true;
	problem.recs = (void *) TYPEALIGN(64, room);
	problem.scratch = (char *) problem.recs + TYPEALIGN(64, ROWS * sort_rec_size(format));
	if ((char *) problem.scratch + radix->scratch_bytes(&problem) > room + size)
		return 0;
	for (int i = 0; i < REPEATS; i++)
	{
		uint64		start;
		double		us;

		fill(problem.recs, format, words);
		start = device_now_us();
		if (radix->run(&problem) != SORT_OK)
			return 0;
		us = (double) (device_now_us() - start);
		least = i == 0 ? us : Min(least, us);
	}
	return least;
}
