/*
 * process_measure.c
 *	  Measures the speed of GPUs and of the CPU, for the cost models.
 *
 * The library's costs are those of one kind of GPU on one kind of bus, and the cost
 * model of the CPU is that of one kind of processor.  So each device is measured once a
 * process has opened it (gpusort.device_learn).  A measurement consists of steps of some
 * milliseconds.  A step starts only while there is no job, and only if the previous step of
 * its kind predicts a short time.  So a sort waits at most for one step.  The library's
 * costs apply until all steps are done.
 *
 * The CPU is measured with a sort, as a step of the first device.
 *
 * Memory policy: a step has device memory only while it runs, at most 1 / MEMORY_SHARE
 * of what jobs may take.  The pinned host memory (20 MB) stays from the first step to
 * the last.  The CPU's sort uses it, too.
 *
 * On error: if device memory is short, the remaining steps are skipped.  After a CUDA
 * error the process ends, as for a job.
 */
#include "postgres.h"

#include "common/pg_prng.h"
#include "kernel/algorithm.h"
#include "service/process_internal.h"
#include "settings.h"

#define COPY_SMALL		((uint64) 1 << 20)	/* bytes of a small copy */
#define COPY_LARGE		((uint64) 64 << 20) /* bytes of a large copy */
#define HOST_BYTES		((uint64) 16 << 20) /* host memory of keys */
#define HOST_RIDS_BYTES	((uint64) 4 << 20)	/* host memory of row ids, behind it */
#define LAUNCH_ROWS		1024	/* rows of a sort of few keys */
#define REPEATS			4		/* the least of this number of times counts */

/* A step that takes longer is repeated less, and larger sorts are skipped. */
#define LONG_US			20000

/* A step takes at most 1 / MEMORY_SHARE of the free budget. */
#define MEMORY_SHARE	8

/* Rows of a measured sort on the CPU. */
#define CPU_ROWS		((size_t) 1 << CPU_MEASURED_LOG2_ROWS)

typedef enum MeasureStep
{
	MEASURE_BEGIN,
	MEASURE_LAUNCH,
	MEASURE_COPY_SMALL,
	MEASURE_COPY_LARGE,
	MEASURE_SORT,				/* + width * DEVICE_MEASURED_SIZES + size */
	MEASURE_CPU = MEASURE_SORT + 3 * DEVICE_MEASURED_SIZES,
	MEASURE_END
} MeasureStep;

/* The measurement of a device. */
typedef struct Measuring
{
	int			step;			/* MeasureStep, or between two of them */
	GpusortStream *stream;
	GpusortEvent *from;
	GpusortEvent *to;
	char	   *host;
	DeviceMeasured measured;
	double		cpu_sort_us;
} Measuring;

/* Device memory of a measured sort. */
typedef struct SortRoom
{
	char	   *keys;
	uint32	   *rids;
	char	   *scratch;
} SortRoom;

static Measuring measurings[DEVICE_MAX];

/* The ABI's index of the algorithm that most sorts use, or 0 if the library lacks it. */
static int
measured_algorithm(void)
{
	for (int i = 0; i < device_shared->nalgorithms; i++)
	{
		if (strcmp(device_shared->algorithms[i].name, sort_algorithms[ALGORITHM_GPU_BUCKET].name) == 0)
			return i;
	}
	return 0;
}

/* May a step have this much device memory? */
static bool
is_affordable(const DeviceApi *api, int device, uint64 bytes)
{
	GpusortMemory memory;

	api->cuda->device_memory(api->contexts[device], 1, &memory);
	return memory.budget > memory.used && bytes <= (memory.budget - memory.used) / MEMORY_SHARE;
}

/* The first step: creates stream and events, and fills host memory with random keys. */
static GpusortStatus
begin(const DeviceApi *api, int device, Measuring *m, GpusortError *err)
{
	const GpusortCudaApi *cuda = api->cuda;
	GpusortContext *context = api->contexts[device];
	pg_prng_state state;

	memset(&m->measured, 0, sizeof(m->measured));
	m->cpu_sort_us = 0;
	TRY(cuda->host_alloc(context, HOST_BYTES + HOST_RIDS_BYTES, (void **) &m->host, err));
	TRY(cuda->stream_create(context, &m->stream, err));
	TRY(cuda->event_create(context, &m->from, err));
	TRY(cuda->event_create(context, &m->to, err));
	pg_prng_seed(&state, 0);
	for (uint64 i = 0; i < HOST_BYTES / sizeof(uint64); i++)
		((uint64 *) m->host)[i] = pg_prng_uint64(&state);
	return GPUSORT_OK;
}

/* Frees what begin() has created. */
static void
end(const DeviceApi *api, int device, Measuring *m)
{
	const GpusortCudaApi *cuda = api->cuda;

	if (m->from != NULL)
		cuda->event_destroy(m->from);
	if (m->to != NULL)
		cuda->event_destroy(m->to);
	if (m->stream != NULL)
		cuda->stream_destroy(m->stream);
	if (m->host != NULL)
		cuda->host_free(api->contexts[device], m->host);
	cuda->device_trim(api->contexts[device]);
	m->from = m->to = NULL;
	m->stream = NULL;
	m->host = NULL;
}

/* Sets *us to the time, by the device's clock, of a copy in pieces of HOST_BYTES. */
static GpusortStatus
time_copy(const DeviceApi *api, Measuring *m, char *there, bool up, uint64 bytes, double *us,
		  GpusortError *err)
{
	const GpusortCudaApi *cuda = api->cuda;

	TRY(cuda->event_record(m->from, m->stream, err));
	for (uint64 at = 0; at < bytes; at += HOST_BYTES)
	{
		uint64		piece = Min(HOST_BYTES, bytes - at);

		if (up)
			TRY(cuda->copy_in(m->stream, there + at, m->host, piece, err));
		else
			TRY(cuda->copy_out(m->stream, m->host, there + at, piece, err));
	}
	TRY(cuda->event_record(m->to, m->stream, err));
	TRY(cuda->stream_wait(m->stream, err));
	return cuda->event_elapsed(m->from, m->to, us, err);
}

/* Measures copies in both directions: least times, in nanoseconds per byte. */
static GpusortStatus
measure_copies(const DeviceApi *api, int device, Measuring *m, uint64 bytes, double *up_ns,
			   double *down_ns, GpusortError *err)
{
	const GpusortCudaApi *cuda = api->cuda;
	GpusortContext *context = api->contexts[device];
	GpusortStatus status = GPUSORT_OK;
	double		least[2] = {0, 0};
	char	   *there;

	if (!is_affordable(api, device, bytes))
		return GPUSORT_OK;
	TRY(cuda->device_alloc(context, bytes, (void **) &there, err));
	for (int i = 0; i < 2 * REPEATS && status == GPUSORT_OK; i++)
	{
		double		us = 0;
		double	   *best = &least[i % 2];

		status = time_copy(api, m, there, i % 2 == 0, bytes, &us, err);
		if (status == GPUSORT_OK)
			*best = *best == 0 ? us : Min(*best, us);
		/* a slow copy is measured only once in each direction */
		if (i % 2 != 0 && us > LONG_US)
			break;
	}
	cuda->device_free(context, there);
	*up_ns = least[0] * 1000 / (double) bytes;
	*down_ns = least[1] * 1000 / (double) bytes;
	return status;
}

/* Allocates device memory for a sort.  The caller frees it, also after an error. */
static GpusortStatus
get_room(const DeviceApi *api, int device, GpusortProblem *problem, SortRoom *room, GpusortError *err)
{
	const GpusortCudaApi *cuda = api->cuda;
	GpusortContext *context = api->contexts[device];
	const char *why;

	TRY(cuda->sort_scratch(context, measured_algorithm(), problem, &problem->scratch_bytes, &why, err));
	if (!is_affordable(api, device, problem->n * (problem->key_width / 8 + sizeof(uint32)) + problem->scratch_bytes))
		return GPUSORT_NO_MEMORY;
	TRY(cuda->device_alloc(context, problem->n * (problem->key_width / 8), (void **) &room->keys, err));
	TRY(cuda->device_alloc(context, problem->n * sizeof(uint32), (void **) &room->rids, err));
	TRY(cuda->device_alloc(context, problem->scratch_bytes, (void **) &room->scratch, err));
	problem->keys = room->keys;
	problem->rids_out = room->rids;
	problem->scratch = room->scratch;
	return GPUSORT_OK;
}

/* Frees what get_room() has allocated. */
static void
free_room(const DeviceApi *api, int device, const SortRoom *room)
{
	void	   *mine[] = {room->keys, room->rids, room->scratch};

	for (int i = 0; i < (int) lengthof(mine); i++)
	{
		if (mine[i] != NULL)
			api->cuda->device_free(api->contexts[device], mine[i]);
	}
}

/*
 * Times a complete job (keys up, sort, row ids down) by the host's clock, and its sort
 * by the device's clock.
 */
static GpusortStatus
time_sort(const DeviceApi *api, Measuring *m, const GpusortProblem *problem, const SortRoom *room,
		  double *all_us, double *sort_us, GpusortError *err)
{
	const GpusortCudaApi *cuda = api->cuda;
	uint64		start = device_now_us();

	TRY(cuda->copy_in(m->stream, room->keys, m->host, problem->n * (problem->key_width / 8), err));
	TRY(cuda->event_record(m->from, m->stream, err));
	TRY(cuda->sort_run(m->stream, measured_algorithm(), problem, NULL, err));
	TRY(cuda->event_record(m->to, m->stream, err));
	TRY(cuda->copy_out(m->stream, m->host + HOST_BYTES, room->rids, problem->n * sizeof(uint32), err));
	TRY(cuda->stream_wait(m->stream, err));
	*all_us = (double) (device_now_us() - start);
	return cuda->event_elapsed(m->from, m->to, sort_us, err);
}

/* Measures a radix sort on the CPU.  Its keys are the first words of the host memory. */
static void
measure_cpu(Measuring *m)
{
	const SortKernel *radix = sort_algorithms[ALGORITHM_CPU_RADIX].kernel;
	const uint64 *words = (const uint64 *) m->host;
	char	   *room = m->host + CPU_ROWS * sizeof(uint64);
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
		double		us;

		for (size_t row = 0; row < CPU_ROWS; row++)
			sort_rec_set(problem.recs, SORT_REC_64, 0, row, words[row], (uint32) row);
		start = device_now_us();
		if (radix->run(&problem) != SORT_OK)
			return;
		us = (double) (device_now_us() - start);
		m->cpu_sort_us = i == 0 ? us : Min(m->cpu_sort_us, us);
	}
}

/* Measures a sort: least times of a complete job and of its sort. */
static GpusortStatus
measure_sort(const DeviceApi *api, int device, Measuring *m, int key_width, uint64 rows,
			 double *least_all_us, double *least_sort_us, GpusortError *err)
{
	GpusortProblem problem;
	SortRoom	room = {NULL, NULL, NULL};
	GpusortStatus status;

	memset(&problem, 0, sizeof(problem));
	problem.n = rows;
	problem.key_width = problem.end_bit = key_width;
	problem.output = GPUSORT_OUT_RIDS;
	status = get_room(api, device, &problem, &room, err);
	*least_all_us = *least_sort_us = 0;
	for (int i = 0; i < REPEATS && status == GPUSORT_OK; i++)
	{
		double		all_us;
		double		sort_us;

		status = time_sort(api, m, &problem, &room, &all_us, &sort_us, err);
		if (status != GPUSORT_OK)
			break;
		*least_all_us = i == 0 ? all_us : Min(*least_all_us, all_us);
		*least_sort_us = i == 0 ? sort_us : Min(*least_sort_us, sort_us);
		/* a slow sort is measured only twice */
		if (all_us > LONG_US && i > 0)
			break;
	}
	free_room(api, device, &room);
	return status == GPUSORT_NO_MEMORY || status == GPUSORT_UNSUPPORTED ? GPUSORT_OK : status;
}

/* Measures a sort of this size, unless the next smaller one failed or took long. */
static GpusortStatus
measure_size(const DeviceApi *api, int device, Measuring *m, int width, int size, GpusortError *err)
{
	static double smaller_us;	/* complete job of the previous size */

	if (size > 0 && (m->measured.sort_us[width][size - 1] == 0 || smaller_us > LONG_US))
		return GPUSORT_OK;
	return measure_sort(api, device, m, 32 << width,
						UINT64CONST(1) << (DEVICE_MEASURED_FIRST + DEVICE_MEASURED_STEP * size),
						&smaller_us, &m->measured.sort_us[width][size], err);
}

/* Does the step that m->step names. */
static GpusortStatus
take_step(const DeviceApi *api, int device, Measuring *m, GpusortError *err)
{
	DeviceMeasured *to = &m->measured;
	double		unused;

	switch (m->step)
	{
		case MEASURE_BEGIN:
			TRY(begin(api, device, m, err));
			to->algorithm = algorithm_by_name(device_shared->algorithms[measured_algorithm()].name)->id;
			return GPUSORT_OK;
		case MEASURE_LAUNCH:
			return measure_sort(api, device, m, 64, LAUNCH_ROWS, &to->launch_us, &unused, err);
		case MEASURE_COPY_SMALL:
			return measure_copies(api, device, m, COPY_SMALL, &to->up_small_ns, &to->down_small_ns, err);
		case MEASURE_COPY_LARGE:
			return measure_copies(api, device, m, COPY_LARGE, &to->up_ns, &to->down_ns, err);
		case MEASURE_CPU:
			if (device == 0)
				measure_cpu(m);
			return GPUSORT_OK;
		default:
			return measure_size(api, device, m, (m->step - MEASURE_SORT) / DEVICE_MEASURED_SIZES,
								(m->step - MEASURE_SORT) % DEVICE_MEASURED_SIZES, err);
	}
}

/* Publishes a measurement; CpuMeasured.times is odd meanwhile. */
static void
publish_cpu(double sort_us)
{
	volatile CpuMeasured *cpu = &device_shared->cpu;

	/* it is odd already if a process died here */
	cpu->times |= 1;
	pg_memory_barrier();
	cpu->sort_us = sort_us;
	pg_memory_barrier();
	cpu->times++;
}

/* Publishes a measurement; DeviceEntry.measurements is odd meanwhile. */
static void
publish(int device, const DeviceMeasured *measured)
{
	DeviceEntry *entry = &device_shared->devices[device];

	entry->measurements++;
	pg_memory_barrier();
	entry->measured = *measured;
	pg_memory_barrier();

	/* a version is unique among all devices, as another one may have had this entry */
	entry->measurements = (device_shared->measurements += 2);
}

bool
device_measure_step(const DeviceApi *api, int device)
{
	Measuring  *m = &measurings[device];
	GpusortError err;
	GpusortStatus status;

	if (m->step == MEASURE_END || (m->step == MEASURE_BEGIN && !device_shared->settings.learn) ||
		algorithm_by_name(device_shared->algorithms[measured_algorithm()].name) == NULL)
		return false;

	/* a thread's call may have the lock */
	if (!process_memory_trylock(device))
		return false;
	memset(&err, 0, sizeof(err));
	device_shared->life.at_device = device_shared->devices[device].index;
	status = take_step(api, device, m, &err);
	if (gpusort_is_broken(status))
		device_process_fails("CUDA error on device %d: %s (%s:%d)", device_shared->life.at_device,
							 err.message, err.file, (int) err.line);
	device_shared->life.at_device = -1;
	/* if memory is short, the costs are learned from jobs only */
	m->step = status == GPUSORT_OK ? m->step + 1 : MEASURE_END;
	if (m->step == MEASURE_END)
	{
		end(api, device, m);
		if (m->cpu_sort_us > 0)
			publish_cpu(m->cpu_sort_us);
		publish(device, &m->measured);
	}
	process_memory_unlock(device);
	return true;
}
