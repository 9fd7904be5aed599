/*
 * sort_feedback.c
 *	  Feeds correction factors into a sort's facts, and its times back.
 *
 * The device process reports the times of copies and of the sort (DeviceJobTimes).
 * The hand-over has no clock of its own.  It is the time until the first chunk of
 * the result, minus the time in which this backend filled chunks, minus the sort
 * and the copy back, minus the copies to the device that did not overlap with
 * filling.  Their number is unknown, so the hand-over has a lower and an upper
 * limit.
 */
#include "postgres.h"

#include <time.h>

#include "cost/sort_feedback.h"
#include "service/service.h"

bool
device_learn_who(int device, LearnDevice *who)
{
	const DeviceEntry *entry = &device_shared->devices[device];
	uint32		generation = pg_atomic_read_u32(&device_shared->generation);
	uint32		state = pg_atomic_read_u32(&device_shared->state);

	pg_read_barrier();
	who->number = entry->index;
	memcpy(who->name, entry->name, sizeof(who->name));
	who->name[sizeof(who->name) - 1] = '\0';
	who->memory = entry->memory_total;
	who->costs = &entry->costs;
	who->measured = &entry->measured;
	who->measurements = &entry->measurements;
	pg_read_barrier();
	return device < device_shared->ndevices && who->memory != 0 &&
		(state == DEVICE_SERVICE_READY || state == DEVICE_SERVICE_IDLE) &&
		pg_atomic_read_u32(&device_shared->state) == state &&
		pg_atomic_read_u32(&device_shared->generation) == generation;
}

void
device_learn_facts(RouteFacts *facts, double *memory, double *all_memory)
{
	DeviceAvailability availability;
	LearnDevice who;

	device_availability(&availability);
	facts->gpu.costs = &device_shared->devices[availability.device].costs;
	facts->gpu.factors = device_learn_who(availability.device, &who) ?
		gpusort_learn_factors(&who, availability.others) : NULL;
	if (memory != NULL)
		*memory = (double) availability.memory;
	if (all_memory != NULL)
		*all_memory = (double) availability.all_memory;
}

void
device_learn_job(const DeviceJob *job, const RouteFacts *facts, const Algorithm *algorithm,
				 bool at_once)
{
	const DeviceJobTimes *observed = &job->times;
	GpuJobTimes times = {0};
	RouteFacts	done = *facts;
	LearnDevice who;

	if (job->slot == NULL || algorithm == NULL || !device_learn_who(job->slot->device, &who))
		return;
	done.n = job->rows_up;
	done.gpu.costs = who.costs;
	times.up_bytes = observed->up_bytes;
	times.up_us = observed->up_us;
	times.down_bytes = observed->down_bytes;
	times.down_us = observed->down_us;
	times.sort_us = observed->sort_us;
	times.others = device_others(job->slot->device);
	if (at_once && observed->up_bytes > 0)
	{
		double		most_us = job->first_us - job->fill_us - observed->sort_us - observed->down_us;
		double		up_us = observed->up_us * (double) job->bytes_up / observed->up_bytes;

		times.hand_over_us = Max(most_us - up_us, 0);
		times.hand_over_most_us = job->posted == 1 ? times.hand_over_us : Max(most_us, 0);
	}
	gpusort_learn_job(&who, algorithm, &done, &times);
}

bool
device_learned_cpu(CpuLearned *learned)
{
	return device_shared != NULL && gpusort_cpu_learned(&device_shared->cpu, learned);
}

void
device_learn_cpu_facts(RouteFacts *facts)
{
	CpuLearned	learned;

	if (facts->n >= CPU_LEARN_ROWS && device_learned_cpu(&learned))
		facts->cpu_factor = cpu_learn_factor(&learned, facts, (int64) time(NULL));
}

void
device_learn_cpu_sort(const RouteFacts *facts, const Algorithm *algorithm, double took_us)
{
	if (facts->n >= CPU_LEARN_ROWS && took_us > 0 && device_shared != NULL)
		gpusort_cpu_sorted(&device_shared->cpu, algorithm, facts, took_us);
}

void
device_learn_cpu_forget(void)
{
	if (device_shared != NULL)
		gpusort_cpu_forget(&device_shared->cpu);
}
