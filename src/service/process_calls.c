/*
 * process_calls.c
 *	  Driver calls in threads, and how the device process ends.
 *
 * Most of a job's work is queued on its stream and polled later.  Three calls are
 * different: the start and the growth of a job allocate device memory, and the start of
 * a sort waits for its first kernels, because their outcome decides how the library
 * goes on.  In the main loop such a call would delay all other jobs, also those of
 * other devices.  So a thread makes the call, and the loop polls for its end.
 *
 * During a call the thread owns the job: the loop does not touch its slot and stream.
 * A lock for each device protects the memory, streams and events of its context.  The
 * loop only tries to take it, and repeats its work later if the lock is taken.
 *
 * Each slot has a thread, which is started for its first call and stays.  Threads block
 * all signals except those of a crash.  If a thread cannot be started, the loop makes the
 * call.
 *
 * On error: the loop evaluates the status and error of a call.  When the process ends,
 * the reason is in shared memory, and the supervisor logs it.  A signal handler counts
 * a crash as a failure of the device whose call was running, and then lets the signal
 * end the process.  So a device whose driver crashes again and again is not used any
 * more.
 */
#include "postgres.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "service/process_internal.h"

/* ------------------------------------------------------------------------
 * Messages, and the end of the process
 * ------------------------------------------------------------------------
 */

void
device_process_log(int device, const char *format,...)
{
	uint32		n = pg_atomic_read_u32(&device_shared->log.written);
	va_list		args;

	va_start(args, format);
	device_shared->log.notes[n % DEVICE_NOTES].device = device;
	vsnprintf(device_shared->log.notes[n % DEVICE_NOTES].text, DEVICE_NOTE_SIZE, format, args);
	va_end(args);
	pg_write_barrier();
	pg_atomic_write_u32(&device_shared->log.written, n + 1);
	device_wake_supervisor();
}

void
device_process_gives_up(int code, const char *what, const char *detail)
{
	bool		hide = code == DEVICE_EXIT_NOTHING;

	device_set_absence("%s%s%s", what, detail[0] && !hide ? ": " : "", hide ? "" : detail);
	if (hide)
		strlcpy(device_shared->absence.detail, detail, sizeof(device_shared->absence.detail));
	_exit(code);
}

void
device_process_fails(const GpusortError *err)
{
	int			device = device_shared->life.at_device;

	device_set_absence("CUDA error on device %d: %s (%s:%d)", device, err->message, err->file, (int) err->line);
	device_shared->failures[device]++;
	_exit(1);
}

/*
 * A process with work under way on a device that does not answer may never end.  The
 * supervisor gives up its jobs, so that backends do not wait for its end.
 */
void
device_process_hangs(int device, int timeout_ms)
{
	device_set_absence("device %d has made no progress with a sort for %d s",
					   device_shared->devices[device].index, timeout_ms / 1000);
	device_shared->life.at_device = device_shared->devices[device].index;
	pg_write_barrier();
	device_shared->life.hangs = 1;
	device_wake_supervisor();
	for (;;)
		pause();
}

/* ------------------------------------------------------------------------
 * Calls in threads
 * ------------------------------------------------------------------------
 */

static const int crash_signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS};

/* A slot's thread, if it has been started, waits for the next call of the slot's job. */
static struct
{
	bool		started;
	sem_t		call;
}			threads[DEVICE_SLOTS];

static pthread_mutex_t memory_locks[DEVICE_MAX];

/* Device of this thread's call, by CUDA's number; -1: no call. */
static __thread int thread_device = -1;

/* Makes the call of the job in a slot. */
static void
make_call(int slot_no)
{
	ProcessJob *job = &process_jobs[slot_no];

	job->call.since = device_now_us();
	thread_device = device_shared->devices[device_shared->slots[slot_no].device].index;
	job->call.status = job->call.what(&device_shared->slots[slot_no], job, &job->call.error);
	thread_device = -1;
	pg_write_barrier();
	pg_atomic_write_u32(&job->call.over, 1);
}

/* Main function of a slot's thread. */
static void *
call_thread(void *arg)
{
	for (;;)
	{
		if (sem_wait(&threads[(intptr_t) arg].call) == 0)
			make_call((int) (intptr_t) arg);
	}
	return NULL;
}

/* Starts the slot's thread unless it runs; false if that is not possible. */
static bool
start_thread(int slot_no)
{
	pthread_t	thread;
	sigset_t	blocked;
	sigset_t	old;

	if (threads[slot_no].started)
		return true;
	/* a blocked signal of a crash would not reach its handler */
	sigfillset(&blocked);
	for (int i = 0; i < (int) lengthof(crash_signals); i++)
		sigdelset(&blocked, crash_signals[i]);
	pthread_sigmask(SIG_SETMASK, &blocked, &old);
	if (sem_init(&threads[slot_no].call, 0, 0) == 0 &&
		pthread_create(&thread, NULL, call_thread, (void *) (intptr_t) slot_no) == 0)
	{
		pthread_detach(thread);
		threads[slot_no].started = true;
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return threads[slot_no].started;
}

void
job_call(int slot_no, JobCall call)
{
	ProcessJob *job = &process_jobs[slot_no];

	job->call.what = call;
	job->call.since = 0;
	memset(&job->call.error, 0, sizeof(job->call.error));
	pg_atomic_write_u32(&job->call.over, 0);
	if (start_thread(slot_no))
		sem_post(&threads[slot_no].call);
	else
		make_call(slot_no);
}

bool
job_call_over(const ProcessJob *job)
{
	if (pg_atomic_read_u32((pg_atomic_uint32 *) &job->call.over) == 0)
		return false;
	pg_read_barrier();
	return true;
}

void
job_call_lock(ProcessJob *job, int device)
{
	job->call.since = 0;
	pthread_mutex_lock(&memory_locks[device]);
	job->call.since = device_now_us();
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

/* ------------------------------------------------------------------------
 * Crashes
 * ------------------------------------------------------------------------
 */

/* CUDA's number of the device of the most recently started call; -1: no call is under way. */
static int
last_call_device(void)
{
	uint64		last = 0;
	int			device = -1;

	for (int i = 0; i < DEVICE_SLOTS; i++)
	{
		const ProcessJob *job = &process_jobs[i];

		if (job->call.what == NULL || job->call.since <= last || job_call_over(job))
			continue;
		last = job->call.since;
		device = device_shared->devices[device_shared->slots[i].device].index;
	}
	return device;
}

/*
 * Counts the crash as a failure of a device: the device of the crashed thread's call; in
 * the loop, at_device; in a thread of the driver, the device of the most recent call.
 */
static void
handle_crash(int signo, siginfo_t * info, void *context)
{
	int			device = thread_device;

	(void) context;
	if (device < 0)
		device = device_shared->life.at_device;
	if (device < 0)
		device = last_call_device();

	/* a signal that another process has sent is not a crash */
	if (device >= 0 && (info->si_code > 0 || info->si_pid == getpid()))
	{
		device_shared->failures[device]++;
		/* the supervisor counts the reason for this device */
		device_shared->life.at_device = device;
	}

	/* ends the process when this handler returns: SA_RESETHAND has removed it */
	raise(signo);
}

void
process_calls_init(void)
{
	struct sigaction action;

	for (int d = 0; d < DEVICE_MAX; d++)
		pthread_mutex_init(&memory_locks[d], NULL);
	memset(&action, 0, sizeof(action));
	action.sa_sigaction = handle_crash;
	action.sa_flags = SA_SIGINFO | SA_RESETHAND;
	sigfillset(&action.sa_mask);
	for (int i = 0; i < (int) lengthof(crash_signals); i++)
		(void) sigaction(crash_signals[i], &action, NULL);
}
