/*
 * process_measure.c
 *	  Measures the speed of GPUs and of the CPU, for the cost models.
 *
 * The built-in costs were measured on one kind of GPU, bus and processor.  So the
 * process measures each device that it has opened, and the CPU as a step of the
 * first device (gpusort.device_learn).  A step takes some milliseconds.  It starts only
 * while there is no job, and larger sorts are skipped if smaller ones take long: a sort
 * waits at most for one step.  The library's costs apply until all steps are done.
 *
 * Memory policy: a step has device memory only while it runs, at most 1 / MEMORY_SHARE
 * of what jobs may take.  The pinned host memory (20 MB) stays from the first step to
 * the last.  The CPU's sort uses it, too.
 *
 * On error: if device memory is short, the step measures nothing.  After a CUDA error
 * the process ends, as for a job.
 */
#include "postgres.h"

#include "common/pg_prng.h"
#include "kernel/algorithm.h"
#include "service/process_internal.h"
#include "settings.h"

#define HOST_BYTES		((uint64) 16 << 20) /* host memory of keys */
#define HOST_RIDS_BYTES	((uint64) 4 << 20)	/* host memory of row ids, behind it */
#define COPY_LEAST		((uint64) 1 << 20)	/* shorter copies are not measured */
#define COPY_ROWS		((uint64) 1 << 18)	/* keys of 64 bits that are copied without a sort */
#define LAUNCH_ROWS		1024	/* rows of a sort of few keys */
#define REPEATS			4		/* the least of this number of times counts */

/* What takes longer is measured twice only, and larger sorts are skipped. */
#define LONG_US			20000

/* A step takes at most 1 / MEMORY_SHARE of the free budget. */
#define MEMORY_SHARE	8

/* Rows of a measured sort on the CPU. */
#define CPU_ROWS		((size_t) 1 << CPU_MEASURED_LOG2_ROWS)

/* Events before and behind the copy of the keys, the sort, and the copy of the row ids. */
#define MEASURE_EVENTS	4

typedef enum MeasureStep
{
	MEASURE_BEGIN,
	MEASURE_LAUNCH,
	MEASURE_SORT,				/* + width * DEVICE_MEASURED_SIZES + size */
	MEASURE_COPIES = MEASURE_SORT + 3 * DEVICE_MEASURED_SIZES,
	MEASURE_CPU,
	MEASURE_END
} MeasureStep;

/* The measurement of a device. */
typedef struct Measuring
{
	int			step;			/* MeasureStep, or between two of them */
	GpusortStream *stream;
	GpusortEvent *events[MEASURE_EVENTS];	/* the last is NULL: begin() has not succeeded */
	char	   *host;
	double		smaller_us;		/* a complete job of the previous size */
	uint64		copied;			/* bytes of the copy that measured.up_ns is from */
	DeviceMeasured measured;
} Measuring;

/* Least times of a complete job: by the host's clock, and of its parts by the device's clock. */
typedef struct JobTimes
{
	double		all_us;
	double		up_us;
	double		sort_us;
	double		down_us;
} JobTimes;

static Measuring measurings[DEVICE_MAX];

/* The ABI's index of the measured algorithm, which most sorts use; -1: none. */
static int
measured_algorithm(void)
{
	return device_algorithm(sort_algorithms[DEVICE_MEASURED_ALGORITHM].name);
}

/* Allocates device memory for a step, unless it is more than a step may have. */
static GpusortStatus
allocate_block(int device, uint64 bytes, char **block, GpusortError *err)
{
	GpusortMemory memory;

	cuda->device_memory(device_contexts[device], 1, &memory);
	if (memory.budget < memory.used || bytes > (memory.budget - memory.used) / MEMORY_SHARE)
		return GPUSORT_NO_MEMORY;
	return cuda->device_alloc(device_contexts[device], bytes, (void **) block, err);
}

static void
keep_least(double *least, double us)
{
	*least = *least == 0 ? us : Min(*least, us);
}

/* The first step: creates stream and events, and fills host memory with random keys. */
static GpusortStatus
begin(int device, Measuring *m, GpusortError *err)
{
	GpusortContext *context = device_contexts[device];
	pg_prng_state state;

	TRY(cuda->host_alloc(context, HOST_BYTES + HOST_RIDS_BYTES, (void **) &m->host, err));
	TRY(cuda->stream_create(context, &m->stream, err));
	for (int e = 0; e < MEASURE_EVENTS; e++)
		TRY(cuda->event_create(context, &m->events[e], err));
	pg_prng_seed(&state, 0);
	for (uint64 i = 0; i < HOST_BYTES / sizeof(uint64); i++)
		((uint64 *) m->host)[i] = pg_prng_uint64(&state);
	return GPUSORT_OK;
}

/* Frees what begin() has created. */
static void
end(int device, Measuring *m)
{
	for (int e = 0; e < MEASURE_EVENTS && m->events[e] != NULL; e++)
		cuda->event_destroy(m->events[e]);
	if (m->stream != NULL)
		cuda->stream_destroy(m->stream);
	if (m->host != NULL)
		cuda->host_free(device_contexts[device], m->host);
	cuda->device_trim(device_contexts[device]);
	memset(m->events, 0, sizeof(m->events));
	m->stream = NULL;
	m->host = NULL;
}

/* Times a complete job: keys up, sort unless algorithm is -1, row ids down. */
static GpusortStatus
time_job(Measuring *m, int algorithm, const GpusortProblem *problem, JobTimes *least, GpusortError *err)
{
	uint64		start = device_now_us();
	double		us;

	TRY(cuda->event_record(m->events[0], m->stream, err));
	TRY(cuda->copy_in(m->stream, (void *) problem->keys, m->host, problem->n * (problem->key_width / 8), err));
	TRY(cuda->event_record(m->events[1], m->stream, err));
	if (algorithm >= 0)
		TRY(cuda->sort_run(m->stream, algorithm, problem, NULL, err));
	TRY(cuda->event_record(m->events[2], m->stream, err));
	TRY(cuda->copy_out(m->stream, m->host + HOST_BYTES, problem->rids_out, problem->n * sizeof(uint32), err));
	TRY(cuda->event_record(m->events[3], m->stream, err));
	TRY(cuda->stream_wait(m->stream, err));
	keep_least(&least->all_us, (double) (device_now_us() - start));
	TRY(cuda->event_elapsed(m->events[0], m->events[1], &us, err));
	keep_least(&least->up_us, us);
	TRY(cuda->event_elapsed(m->events[1], m->events[2], &us, err));
	keep_least(&least->sort_us, us);
	TRY(cuda->event_elapsed(m->events[2], m->events[3], &us, err));
	keep_least(&least->down_us, us);
	return GPUSORT_OK;
}

/* Measures jobs of this many rows, as time_job().  The largest one measures the copies, too. */
static GpusortStatus
measure_job(int device, Measuring *m, int algorithm, int key_width, uint64 rows, JobTimes *least,
			GpusortError *err)
{
	/* multiples of 256, the alignment that the library needs */
	uint64		key_bytes = rows * (key_width / 8);
	uint64		rid_bytes = rows * sizeof(uint32);
	GpusortProblem problem;
	GpusortStatus status = GPUSORT_OK;
	const char *why;
	char	   *block;

	memset(least, 0, sizeof(*least));
	memset(&problem, 0, sizeof(problem));
	problem.n = rows;
	problem.key_width = problem.end_bit = key_width;
	problem.output = GPUSORT_OUT_RIDS;
	if (algorithm >= 0)
		TRY(cuda->sort_scratch(device_contexts[device], algorithm, &problem, &problem.scratch_bytes, &why, err));
	TRY(allocate_block(device, key_bytes + rid_bytes + problem.scratch_bytes, &block, err));
	problem.keys = block;
	problem.rids_out = (uint32 *) (block + key_bytes);
	problem.scratch = block + key_bytes + rid_bytes;
	for (int i = 0; i < REPEATS && status == GPUSORT_OK && (i < 2 || least->all_us < LONG_US); i++)
		status = time_job(m, algorithm, &problem, least, err);
	cuda->device_free(device_contexts[device], block);
	if (status == GPUSORT_OK && key_bytes >= COPY_LEAST && key_bytes > m->copied)
	{
		m->copied = key_bytes;
		m->measured.up_ns = least->up_us * 1000 / (double) key_bytes;
		m->measured.down_ns = least->down_us * 1000 / (double) rid_bytes;
	}
	return status;
}

/* Measures a sort of this size, unless the next smaller one failed or took long. */
static GpusortStatus
measure_size(int device, Measuring *m, int width, int size, GpusortError *err)
{
	JobTimes	least;

	if (size > 0 && (m->measured.sort_us[width][size - 1] == 0 || m->smaller_us > LONG_US))
		return GPUSORT_OK;
	TRY(measure_job(device, m, measured_algorithm(), 32 << width,
						 UINT64CONST(1) << (DEVICE_MEASURED_FIRST + DEVICE_MEASURED_STEP * size), &least, err));
	m->smaller_us = least.all_us;
	m->measured.sort_us[width][size] = least.sort_us;
	return GPUSORT_OK;
}

/* Publishes a measurement.  Its version is odd meanwhile, and stays odd if the process dies here. */
static void
publish(volatile void *to, const void *measured, Size size, volatile uint32 *version)
{
	*version |= 1;
	pg_memory_barrier();
	memcpy((void *) to, measured, size);
	pg_memory_barrier();
	/* unique: another device may have had this entry */
	*version = (device_shared->measurements += 2);
}

/* Measures a radix sort on the CPU.  Its keys are the first words of the host memory. */
static void
measure_cpu(Measuring *m)
{
	const SortKernel *radix = sort_algorithms[ALGORITHM_CPU_RADIX].kernel;
	const uint64 *words = (const uint64 *) m->host;
	char	   *room = m->host + CPU_ROWS * sizeof(uint64);
	double		least_us = 0;
	SortProblem problem;

	memset(&problem, 0, sizeof(problem));
	problem.format = SORT_REC_64;
	problem.n = CPU_ROWS;
	problem.end_bit = 64;
	problem.rids_ascending = true;
	problem.recs = (void *) TYPEALIGN(64, room);
	problem.scratch = (char *) problem.recs + CPU_ROWS * sizeof(SortRec64);
	Assert((char *) problem.scratch + radix->scratch_bytes(&problem) <= m->host + HOST_BYTES + HOST_RIDS_BYTES);
	for (int i = 0; i < REPEATS; i++)
	{
		uint64		start;

		for (size_t row = 0; row < CPU_ROWS; row++)
			sort_rec_set(problem.recs, SORT_REC_64, 0, row, words[row], (uint32) row);
		start = device_now_us();
		if (radix->run(&problem) != SORT_OK)
			return;
		keep_least(&least_us, (double) (device_now_us() - start));
	}
	publish(&device_shared->cpu.sort_us, &least_us, sizeof(least_us), &device_shared->cpu.times);
}

/* Does the step that m->step names. */
static GpusortStatus
take_step(int device, Measuring *m, GpusortError *err)
{
	int			sort = m->step - MEASURE_SORT;
	GpusortStatus status;
	JobTimes	least;

	switch (m->step)
	{
		case MEASURE_BEGIN:
			return begin(device, m, err);
		case MEASURE_LAUNCH:
			status = measure_job(device, m, measured_algorithm(), 64, LAUNCH_ROWS, &least, err);
			m->measured.launch_us = least.all_us;
			return status;
		case MEASURE_COPIES:
			/* a GPU may lack the algorithm, and its bus is measured all the same */
			return m->copied > 0 ? GPUSORT_OK : measure_job(device, m, -1, 64, COPY_ROWS, &least, err);
		case MEASURE_CPU:
			if (device == 0)
				measure_cpu(m);
			return GPUSORT_OK;
		default:
			return measure_size(device, m, sort / DEVICE_MEASURED_SIZES, sort % DEVICE_MEASURED_SIZES, err);
	}
}

bool
device_measure_step(int device)
{
	Measuring  *m = &measurings[device];
	DeviceEntry *entry = &device_shared->devices[device];
	GpusortError err;
	GpusortStatus status;

	/* a thread's call may have the lock */
	if (m->step == MEASURE_END || (m->step == MEASURE_BEGIN && !device_shared->settings.learn) ||
		measured_algorithm() < 0 || !process_memory_trylock(device))
		return false;
	memset(&err, 0, sizeof(err));
	device_shared->life.at_device = entry->index;
	status = take_step(device, m, &err);
	if (gpusort_is_broken(status))
		device_process_fails(&err);
	device_shared->life.at_device = -1;
	/* without stream and events the costs are learned from jobs only */
	m->step = m->events[MEASURE_EVENTS - 1] == NULL ? MEASURE_END : m->step + 1;
	if (m->step == MEASURE_END)
	{
		end(device, m);
		publish(&entry->measured, &m->measured, sizeof(m->measured), &entry->measurements);
	}
	process_memory_unlock(device);
	return true;
}
