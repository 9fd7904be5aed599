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
 * Threads are started when they are needed, and stay.  They block all signals except
 * those of a crash.  If no thread can be started, the loop makes the call.
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
	if (code == DEVICE_EXIT_NOTHING)
	{
		strlcpy(device_shared->absence.why_not, what, sizeof(device_shared->absence.why_not));
		strlcpy(device_shared->absence.detail, detail, sizeof(device_shared->absence.detail));
	}
	else
		snprintf(device_shared->absence.why_not, sizeof(device_shared->absence.why_not), "%s%s%s",
				 what, detail[0] ? ": " : "", detail);
	_exit(code);
}

void
device_process_fails(const char *format,...)
{
	va_list		args;

	va_start(args, format);
	vsnprintf(device_shared->absence.why_not, sizeof(device_shared->absence.why_not), format, args);
	va_end(args);
	if (device_shared->life.at_device >= 0)
		device_shared->failures[device_shared->life.at_device]++;
	_exit(1);
}

/*
 * A process with work under way on a device that does not answer may never end.  The
 * supervisor gives up its jobs, so that backends do not wait for its end.
 */
void
device_process_hangs(int device, int timeout_ms)
{
	snprintf(device_shared->absence.why_not, sizeof(device_shared->absence.why_not),
			 "device %d has made no progress with a sort for %d s", device_shared->devices[device].index,
			 timeout_ms / 1000);
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

/* Maximal number of threads.  More calls wait for a thread. */
#define CALL_THREADS		16

static const int crash_signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS};

/* Slots whose calls wait for a thread, in order: a ring. */
static int	waiting[DEVICE_SLOTS];
static int	first_waiting = 0;
static int	nwaiting = 0;

static int	nthreads = 0;
static int	nidle = 0;

/* Protects the variables above. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work = PTHREAD_COND_INITIALIZER;

static const DeviceApi *call_api;
static ProcessJob *call_jobs;

static pthread_mutex_t memory_locks[DEVICE_MAX];

/* Device of this thread's call, by CUDA's number; -1: no call. */
static __thread int thread_device = -1;

/* Makes the call of the job in a slot. */
static void
make_call(int slot_no)
{
	ProcessJob *job = &call_jobs[slot_no];

	job->call.since = device_now_us();
	thread_device = device_shared->devices[device_shared->slots[slot_no].device].index;
	job->call.status = job->call.what(call_api, &device_shared->slots[slot_no], job, &job->call.error);
	thread_device = -1;
	pg_write_barrier();
	pg_atomic_write_u32(&job->call.over, 1);
}

/* Main function of a thread: makes one waiting call after the other. */
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

/* Starts a thread; false if that is not possible. */
static bool
start_thread(void)
{
	pthread_t	thread;
	sigset_t	blocked;
	sigset_t	old;
	bool		started;

	/* a blocked signal of a crash would not reach its handler */
	sigfillset(&blocked);
	for (int i = 0; i < (int) lengthof(crash_signals); i++)
		sigdelset(&blocked, crash_signals[i]);
	pthread_sigmask(SIG_SETMASK, &blocked, &old);
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

	job->call.what = call;
	job->call.since = 0;
	job->call.error.message[0] = job->call.error.file[0] = '\0';
	job->call.error.line = 0;
	pg_atomic_write_u32(&job->call.over, 0);
	pthread_mutex_lock(&lock);
	waiting[(first_waiting + nwaiting++) % DEVICE_SLOTS] = slot_no;
	if (nwaiting > nidle && nthreads < CALL_THREADS && start_thread())
		nthreads++;
	/* without a thread the loop makes the call */
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
		const ProcessJob *job = &call_jobs[i];

		if (job->call.what == NULL || job->call.since <= last ||
			pg_atomic_read_u32((pg_atomic_uint32 *) &job->call.over) != 0)
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
process_crash_init(void)
{
	struct sigaction action;

	memset(&action, 0, sizeof(action));
	action.sa_sigaction = handle_crash;
	action.sa_flags = SA_SIGINFO | SA_RESETHAND;
	sigfillset(&action.sa_mask);
	for (int i = 0; i < (int) lengthof(crash_signals); i++)
		(void) sigaction(crash_signals[i], &action, NULL);
}
