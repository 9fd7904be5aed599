/*
 * service.c
 *	  The supervisor: a background worker that keeps a device process running.
 *
 * It forks the device process and waits.  When the process ends, however it
 * ends, the generation is raised, which is how backends see that their jobs are
 * lost, the slots that they have closed meanwhile are freed, everybody waiting is
 * woken, and after a pause the next process starts.  The pause doubles while
 * processes die without having finished a job.  A process that finds nothing to serve with (no library,
 * no driver, no device) says so by its exit code: then there is no next.
 *
 * If the supervisor dies, the kernel kills the device process with it.
 */
#include "postgres.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#include "compat.h"
#include "device/service.h"
#include "device/staging.h"
#include "libpq/pqsignal.h"
#include "miscadmin.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "utils/ps_status.h"
#include "utils/timestamp.h"

#define RESTART_PAUSE_MS		1000
#define RESTART_PAUSE_MAX_MS	60000

/* What the supervisor waits for a process to end by itself. */
#define STOP_PATIENCE_MS		2000

extern PGDLLEXPORT void device_supervisor_main(Datum arg);

static void
handle_sigchld(SIGNAL_ARGS)
{
	int			save_errno = errno;

	SetLatch(MyLatch);
	errno = save_errno;
}

/* In the forked child: nothing of the worker's identity may stay. */
static void
become_device_process(pid_t supervisor)
{
#ifdef __linux__
	prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
	if (getppid() != supervisor)
		_exit(1);
	MyProcPid = getpid();
	MyProc = NULL;
	on_exit_reset();
	pqsignal(SIGTERM, PG_SIG_DFL);
	pqsignal(SIGQUIT, PG_SIG_DFL);
	pqsignal(SIGCHLD, PG_SIG_DFL);
	pqsignal(SIGHUP, PG_SIG_IGN);
	pqsignal(SIGINT, PG_SIG_IGN);
	pqsignal(SIGUSR1, PG_SIG_IGN);
	pqsignal(SIGUSR2, PG_SIG_IGN);
	pqsignal(SIGURG, PG_SIG_IGN);
	set_ps_display("device process");
	device_process_main();
}

static pid_t
start_device_process(void)
{
	pid_t		supervisor = getpid();
	pid_t		pid;

	pg_atomic_write_u32(&device_shared->state, DEVICE_SERVICE_STARTING);
	fflush(stdout);
	fflush(stderr);
	pid = fork();
	if (pid == 0)
		become_device_process(supervisor);
	if (pid < 0)
	{
		ereport(LOG, (errmsg("could not fork the gpusort device process: %m")));
		pg_atomic_write_u32(&device_shared->state, DEVICE_SERVICE_DOWN);
		return 0;
	}
	pg_atomic_write_u32(&device_shared->process_pid, (uint32) pid);
	return pid;
}

/* The process is gone: its jobs are lost, its slots free. */
static void
bury_device_process(bool nothing_to_serve)
{
	uint32		generation;

	pg_atomic_write_u32(&device_shared->process_pid, 0);
	pg_atomic_write_u32(&device_shared->state,
						nothing_to_serve ? DEVICE_SERVICE_NONE : DEVICE_SERVICE_DOWN);
	generation = pg_atomic_fetch_add_u32(&device_shared->generation, 1);
	for (int i = 0; i < DEVICE_SLOTS; i++)
	{
		DeviceSlot *slot = &device_shared->slots[i];
		uint32		word = pg_atomic_read_u32(&slot->state);
		uint32		closing = device_slot_word(generation, DEVICE_SLOT_CLOSING);

		if (device_slot_state(word) == DEVICE_SLOT_OPEN)
			SetLatch(slot->latch);
		else if (word == closing)
			(void) pg_atomic_compare_exchange_u32(&slot->state, &closing, 0);
	}
}

static void
stop_device_process(pid_t pid)
{
	int			status;

	kill(pid, SIGTERM);
	for (int ms = 0; ms < STOP_PATIENCE_MS; ms += 10)
	{
		if (waitpid(pid, &status, WNOHANG) != 0)
			return;
		pg_usleep(10 * 1000L);
	}
	kill(pid, SIGKILL);
	(void) waitpid(pid, &status, 0);
}

static void
log_end(pid_t pid, int status)
{
	if (WIFSIGNALED(status))
		ereport(LOG,
				(errmsg("gpusort device process (PID %d) was terminated by signal %d: %s",
						(int) pid, WTERMSIG(status), pg_strsignal(WTERMSIG(status))),
				 errdetail("Sorts go on without it.")));
	else
		ereport(LOG,
				(errmsg("gpusort device process (PID %d) exited with exit code %d",
						(int) pid, WEXITSTATUS(status)),
				 errdetail("%s", device_shared->why_not)));
}

void
device_supervisor_main(Datum arg)
{
	pid_t		child = 0;
	int			pause = RESTART_PAUSE_MS;
	TimestampTz started = 0;
	uint32		finished = 0;	/* jobs, when the process was started */

	pqsignal(SIGTERM, SignalHandlerForShutdownRequest);
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGCHLD, handle_sigchld);
	BackgroundWorkerUnblockSignals();

	while (!ShutdownRequestPending)
	{
		int			status;
		long		timeout = -1;

		if (child != 0 && waitpid(child, &status, WNOHANG) == child)
		{
			bool		nothing = WIFEXITED(status) &&
				WEXITSTATUS(status) == DEVICE_EXIT_NOTHING;

			log_end(child, status);
			bury_device_process(nothing);
			child = 0;
			if (nothing)
				proc_exit(0);	/* and no other is started */
			pause = pg_atomic_read_u32(&device_shared->finished) != finished ?
				RESTART_PAUSE_MS : Min(pause * 2, RESTART_PAUSE_MAX_MS);
		}
		if (child == 0)
		{
			if (started == 0 ||
				TimestampDifferenceExceeds(started, GetCurrentTimestamp(), pause))
			{
				if (started != 0)
					pg_atomic_fetch_add_u32(&device_shared->restarts, 1);
				started = GetCurrentTimestamp();
				finished = pg_atomic_read_u32(&device_shared->finished);
				child = start_device_process();
			}
			if (child == 0)
				timeout = pause / 4;
		}
		(void) WaitLatch(MyLatch,
						 WL_LATCH_SET | WL_EXIT_ON_PM_DEATH | (timeout > 0 ? WL_TIMEOUT : 0),
						 timeout, compat_wait_event("GpuSortSupervisor"));
		ResetLatch(MyLatch);
		if (ConfigReloadPending)
			ConfigReloadPending = false;
	}

	if (child != 0)
	{
		stop_device_process(child);
		bury_device_process(false);
	}
	proc_exit(1);
}

void
device_service_init(void)
{
	BackgroundWorker worker;

	if (!device_staging_init())
		return;
	memset(&worker, 0, sizeof(worker));
	snprintf(worker.bgw_name, BGW_MAXLEN, "gpusort device supervisor");
	snprintf(worker.bgw_type, BGW_MAXLEN, "gpusort device supervisor");
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS;
	worker.bgw_start_time = BgWorkerStart_PostmasterStart;
	worker.bgw_restart_time = 5;
	snprintf(worker.bgw_library_name, BGW_MAXLEN, "gpusort");
	snprintf(worker.bgw_function_name, BGW_MAXLEN, "device_supervisor_main");
	RegisterBackgroundWorker(&worker);
}
