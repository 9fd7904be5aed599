/*
 * process_calls.c
 *	  Calls that wait for a device are made beside the loop, by threads.
 *
 * Most of what a job does is asked of its stream and looked at later.  Not so its begin
 * and its growth (device memory may have to be got), and the start of its sort: the library
 * decides by the first kernels' outcome how to go on, and where the rows' chunks are cut is
 * needed on the host.  In the loop such a call would hold all other jobs, also those on
 * other devices, for as long as what is before it on its device takes.  So the job is
 * given to a thread, and the loop goes on with the others; it looks for the call's end as
 * for that of any work under way.
 *
 * While a call is under way the job is the thread's: the loop leaves its slot and its
 * stream alone.  A context's memory, streams and events have a lock for each device, for which
 * the loop never waits: what it would give back it gives back a little later.
 *
 * Threads are started as they are needed, and stay.  They block all signals but those of a crash.  Where none
 * can be started the call is made in the loop.
 *
 * On error: status and error are the call's; what they mean is the loop's to say.
 */
#include "postgres.h"

#include <pthread.h>
#include <signal.h>

#include "device/clock.h"
#include "device/process/process_job.h"

/* Calls that are made at a time; others wait for one to end. */
#define CALL_THREADS		16

/* Calls that nobody has begun with, in the order in which they came: a ring. */
static int	waiting[DEVICE_SLOTS];
static int	first_waiting = 0;
static int	nwaiting = 0;

static int	nthreads = 0;
static int	nidle = 0;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;	/* of all these */
static pthread_cond_t work = PTHREAD_COND_INITIALIZER;

static const DeviceApi *call_api;
static ProcessJob *call_jobs;

static pthread_mutex_t memory_locks[DEVICE_MAX];

static void
make_call(int slot_no)
{
	ProcessJob *job = &call_jobs[slot_no];

	job->call_since = device_now_us();
	process_crash_blames(device_shared->devices[device_shared->slots[slot_no].device].index);
	job->call_status = job->call(call_api, &device_shared->slots[slot_no], job, &job->call_error);
	process_crash_blames(-1);
	pg_write_barrier();
	pg_atomic_write_u32(&job->call_over, 1);
}

static void *
call_thread(void *arg)
{
	for (;;)
	{
		int			slot_no;

		pthread_mutex_lock(&lock);
		nidle++;
		while (nwaiting == 0)
			pthread_cond_wait(&work, &lock);
		nidle--;
		slot_no = waiting[first_waiting];
		first_waiting = (first_waiting + 1) % DEVICE_SLOTS;
		nwaiting--;
		pthread_mutex_unlock(&lock);
		make_call(slot_no);
	}
	return NULL;
}

/* Another thread; false if there is none. */
static bool
start_thread(void)
{
	pthread_t	thread;
	sigset_t	all;
	sigset_t	old;
	bool		started;

	sigfillset(&all);
	process_crash_unblock(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	started = pthread_create(&thread, NULL, call_thread, NULL) == 0;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (started)
		pthread_detach(thread);
	return started;
}

void
process_calls_init(const DeviceApi *api, ProcessJob *jobs)
{
	call_api = api;
	call_jobs = jobs;
	for (int d = 0; d < DEVICE_MAX; d++)
		pthread_mutex_init(&memory_locks[d], NULL);
}

void
job_call(int slot_no, JobCall call)
{
	ProcessJob *job = &call_jobs[slot_no];
	bool		here;

	job->call = call;
	job->call_since = 0;
	job->call_error.message[0] = job->call_error.file[0] = '\0';
	job->call_error.line = 0;
	pg_atomic_write_u32(&job->call_over, 0);
	pthread_mutex_lock(&lock);
	waiting[(first_waiting + nwaiting++) % DEVICE_SLOTS] = slot_no;
	if (nwaiting > nidle && nthreads < CALL_THREADS && start_thread())
		nthreads++;
	here = nthreads == 0;
	if (here)
		nwaiting = 0;
	else
		pthread_cond_signal(&work);
	pthread_mutex_unlock(&lock);
	if (here)
		make_call(slot_no);
}

bool
job_call_over(const ProcessJob *job)
{
	if (pg_atomic_read_u32((pg_atomic_uint32 *) &job->call_over) == 0)
		return false;
	pg_read_barrier();
	return true;
}

int
process_calls_last_device(void)
{
	uint64		last = 0;
	int			device = -1;

	for (int i = 0; i < DEVICE_SLOTS; i++)
	{
		const ProcessJob *job = &call_jobs[i];

		if (job->call == NULL || job->call_since <= last ||
			pg_atomic_read_u32((pg_atomic_uint32 *) &job->call_over) != 0)
			continue;
		last = job->call_since;
		device = device_shared->devices[device_shared->slots[i].device].index;
	}
	return device;
}

void
job_call_lock(ProcessJob *job, int device)
{
	job->call_since = 0;
	pthread_mutex_lock(&memory_locks[device]);
	job->call_since = device_now_us();
}

bool
process_memory_trylock(int device)
{
	return pthread_mutex_trylock(&memory_locks[device]) == 0;
}

void
process_memory_unlock(int device)
{
	pthread_mutex_unlock(&memory_locks[device]);
}
