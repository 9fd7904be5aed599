/*
 * process_crash.c
 *	  Crashes of the device process are counted against the device whose call was running.
 *
 * A driver that crashes takes the process with it, and the next process would run into the same
 * crash.  A handler of the signals that a crash raises counts it as a failure of the device
 * (DeviceShared.failures), so that a device that crashes again and again is left out
 * (process.c), and lets the signal end the process as it would have without the handler.
 *
 * A signal that another process sends is no crash, and SIGKILL is never one.
 *
 * The device is that of the call of the thread that crashed.  For the loop it is at_device; for a thread
 * of the driver's own, that of the call that was begun last, if no other is known.
 */
#include "postgres.h"

#include <signal.h>
#include <unistd.h>

#include "device/process/process_job.h"

static const int crash_signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS};

/* Of the call of this thread, by CUDA's number; -1: none */
static __thread int thread_device = -1;

void
process_crash_blames(int device)
{
	thread_device = device;
}

static void
handle_crash(int signo, siginfo_t *info, void *context)
{
	int			device = thread_device;

	(void) context;
	if (device < 0)
		device = device_shared->at_device;
	if (device < 0)
		device = process_calls_last_device();
	/* sent by the kernel, or by abort() */
	if (device >= 0 && (info->si_code > 0 || info->si_pid == getpid()))
	{
		device_shared->failures[device]++;
		/* for the supervisor, which counts the reason */
		device_shared->at_device = device;
	}
	/* it is pending until this handler, which is not called again, returns */
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

void
process_crash_unblock(sigset_t *set)
{
	for (int i = 0; i < (int) lengthof(crash_signals); i++)
		sigdelset(set, crash_signals[i]);
}
