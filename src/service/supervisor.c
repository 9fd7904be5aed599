/*
 * supervisor.c
 *	  The supervisor: a background worker that keeps a device process running.
 *
 * The supervisor starts the device process and waits for its end.  When the process
 * ends, the supervisor raises the generation, which tells backends that their jobs have
 * failed.  It frees the slots that backends have closed, and starts the next process at a
 * time that depends on how the last one ended:
 *
 *	error, crash	After a pause.  The pause doubles, up to five minutes, while
 *					processes end without having finished a job.
 *	no library		Never; the supervisor ends.
 *	no device		When a sort asks, after a pause that doubles up to five minutes.
 *	idle			When a sort asks.
 *
 * The server's value of gpusort.device decides which devices a process opens.  When a
 * reload changes it, the process finishes its jobs and ends.
 *
 * A process that hangs is killed.  It reports itself that a device makes no progress
 * (process_job.c).  If it is stuck in a call, its heartbeat does not change.  The driver
 * may delay the end of a killed process for a long time, so the supervisor gives its
 * jobs up at once.  But the next process starts only after the end, because the staging
 * pool belongs to one process at a time.  This also holds for a new supervisor: it
 * waits for the end of the device process that the last one started.
 *
 * The keeper (keeper.c) stands between the supervisor and the device process.
 *
 * On error: if the supervisor ends for any reason, it kills the device process first; if it
 * cannot, the keeper does.  The postmaster restarts the supervisor.
 */
#include "postgres.h"

#include <signal.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <unistd.h>

#include "compat.h"
#include "library.h"
#include "libpq/pqsignal.h"
#include "miscadmin.h"
#include "monitor/stat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "service/process_internal.h"
#include "settings.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/pg_shmem.h"
#include "storage/proc.h"
#include "utils/guc.h"
#include "utils/ps_status.h"

#ifdef __linux__
#include <sys/prctl.h>
#endif

/* Shortest and longest pause before the next process. */
#define PAUSE_MS				1000
#define PAUSE_MAX_MS			300000

/* Time to wait for a process to end, after SIGTERM and again after SIGKILL. */
#define STOP_PATIENCE_MS		2000

/* A process hangs if its heartbeat has not changed in this number of checks. */
#define HEARTBEAT_CHECKS			20

/* The device process. */
static uint32 last_heartbeat;	/* at the last check */
static uint64 last_check;		/* device_now_us() */
static int	silent_checks;		/* checks without a change of the heartbeat */
static uint64 opened_mask;		/* gpusort.device when the process was started */

/* The next start. */
static bool when_asked = false; /* wait until a sort asks */
static int	pause_ms = 0;		/* until retry_us, after a failure; 0: none */

/* The last reason for finding no device that was logged. */
static char logged[sizeof(device_shared->absence.why_not)];

/* Messages of device processes, by number: the next one, and the first of two processes. */
static uint32 notes_seen = 0;
static uint32 notes_before = 0; /* of the previous process */
static uint32 notes_now = 0;	/* of the current process */

static bool lacks_worker = false;	/* no background worker was free */

extern PGDLLEXPORT void gpusort_device_supervisor(Datum arg);

/* A child has ended: wakes the main loop. */
static void
handle_sigchld(SIGNAL_ARGS)
{
	int			save_errno = errno;

	SetLatch(MyLatch);
	errno = save_errno;
}

/*
 * Signal handler of the device process, for a stop and for the death of its parent.  If
 * the process has become the postmaster's child, its exit code must not look like a
 * crash.
 */
static void
handle_stop(SIGNAL_ARGS)
{
	_exit(0);
}

/*
 * Runs in the forked child.  Removes everything that makes it a background worker.
 *
 * The attachment to the small System V shared memory segment is the lock of the
 * data directory.  The child detaches from it, because the driver may delay its end
 * for a long time, and the next server need not wait: the device process does not
 * write to the data directory.
 */
static void
become_device_process(void)
{
	pid_t		parent = MyProcPid; /* still the keeper's PID */

	MyProcPid = getpid();
	MyProc = NULL;
	on_exit_reset();
	pqsignal(SIGTERM, handle_stop);
	pqsignal(SIGQUIT, handle_stop);
#ifdef __linux__
	prctl(PR_SET_PDEATHSIG, SIGTERM);
#endif
	if (getppid() != parent)
		_exit(0);
	if (shared_memory_type == SHMEM_TYPE_MMAP && UsedShmemSegAddr != NULL)
		(void) shmdt(UsedShmemSegAddr);
	pqsignal(SIGCHLD, PG_SIG_DFL);
	/* the keeper ignores all other signals, and its child inherits that */
	init_ps_display("gpusort device process");
	device_process_main();
}

/* Starts a device process.  False if it could not be started. */
static bool
start_device_process(void)
{
	pg_atomic_write_u32(&device_shared->state, DEVICE_SERVICE_STARTING);
	device_shared->life.hangs = 0;
	device_shared->life.at_device = -1;
	device_shared->settings.timeout_ms = gpusort_device_timeout;
	silent_checks = 0;
	opened_mask = gpusort_device_mask;
	device_shared->process.has_finished = false;
	device_shared->leave = false;
	last_check = device_now_us();
	device_shared->retry_us = last_check + (uint64) PAUSE_MS * 1000;
	notes_before = notes_now;
	notes_now = notes_seen;
	fflush(stdout);
	fflush(stderr);
	if (!keeper_start(become_device_process))
	{
		ereport(LOG, (errmsg("could not fork the gpusort device process: %m")));
		pg_atomic_write_u32(&device_shared->state, DEVICE_SERVICE_DOWN);
		return false;
	}
	pg_atomic_write_u32(&device_shared->process.pid, (uint32) device_process);
	device_shared->process.pool_pid = device_process;
	return true;
}

/* Was the process that has not ended, or has just ended, given up because it hung? */
static bool
is_given_up(void)
{
	return pg_atomic_read_u32(&device_shared->process.pid) == 0;
}

/*
 * Fails all jobs of a process that has ended or is given up, and frees its closed slots, unless
 * it was given up before.  state is that of the service, unless gpusort.device = off.
 */
static void
end_generation(DeviceServiceState state)
{
	uint32		generation;

	if (is_given_up())
		return;
	pg_atomic_write_u32(&device_shared->process.pid, 0);
	pg_atomic_write_u32(&device_shared->state, gpusort_device_mask == 0 ? DEVICE_SERVICE_OFF : state);
	generation = pg_atomic_fetch_add_u32(&device_shared->generation, 1);
	for (int i = 0; i < DEVICE_SLOTS; i++)
	{
		DeviceSlot *slot = &device_shared->slots[i];
		uint32		word = pg_atomic_read_u32(&slot->state);
		uint32		closing = device_slot_word(generation, DEVICE_SLOT_CLOSING);

		if (device_slot_state(word) == DEVICE_SLOT_OPEN)
			SetLatch(slot->owner.latch);
		else if (word == closing)
			(void) pg_atomic_compare_exchange_u32(&slot->state, &closing, 0);
	}
}

/* Waits up to ms for the process to end.  Has it ended? */
static bool
await_end(int ms)
{
	int			status;

	for (; ms > 0; ms -= 10)
	{
		if (keeper_process_ended(&status))
		{
			device_shared->process.pool_pid = 0;
			return true;
		}
		pg_usleep(10 * 1000L);
	}
	return false;
}

/* Exit callback: ends the device process first. */
static void
stop_device_process(int code, Datum arg)
{
	if (device_process == 0)
		return;
	keeper_signal(SIGTERM);
	if (!await_end(STOP_PATIENCE_MS))
	{
		keeper_signal(SIGKILL);
		(void) await_end(STOP_PATIENCE_MS);
	}
	end_generation(DEVICE_SERVICE_DOWN);
}

/*
 * Logs the messages of the device process.  A message that the previous process wrote,
 * too, is logged at DEBUG1: a process that is restarted again and again repeats it.
 */
static void
log_notes(void)
{
	uint32		written = pg_atomic_read_u32(&device_shared->log.written);

	pg_read_barrier();
	if (written - notes_seen > DEVICE_NOTES)
		notes_seen = written - DEVICE_NOTES;
	while (notes_seen != written)
	{
		const DeviceNote *notes = device_shared->log.notes;
		const DeviceNote *note = &notes[notes_seen++ % DEVICE_NOTES];
		bool		news = true;

		for (uint32 i = notes_before; i != notes_now; i++)
			news &= written - i > DEVICE_NOTES ||
				strncmp(notes[i % DEVICE_NOTES].text, note->text, DEVICE_NOTE_SIZE) != 0;
		ereport(news ? LOG : DEBUG1,
				(errmsg_internal("%.*s", DEVICE_NOTE_SIZE - 1, note->text)));
		if (note->device >= 0)
			device_failures_count(note->device, note->text, false);
	}
}

/*
 * Does the process hang?  Counts checks, not time, so that a machine that was suspended
 * does not count as a hang.  *check_ms is the time until the next check.
 */
static bool
device_process_hung(int *check_ms)
{
	uint32		heartbeat = pg_atomic_read_u32(&device_shared->life.heartbeat);
	uint64		now = device_now_us();

	/* + 1: the process may have stopped right after a check */
	*check_ms = device_shared->settings.timeout_ms / (HEARTBEAT_CHECKS + 1);
	if (heartbeat != last_heartbeat)
		silent_checks = 0;
	else if (now - last_check >= (uint64) *check_ms * 1000)
		silent_checks++;
	else
		return device_shared->life.hangs;
	last_heartbeat = heartbeat;
	last_check = now;
	return silent_checks >= HEARTBEAT_CHECKS || device_shared->life.hangs;
}

/* Kills a process that hangs, and gives up its jobs without waiting for its end. */
static void
give_up_device_process(void)
{
	int			device = device_shared->life.at_device;

	if (!device_shared->life.hangs)
		device_set_absence("a call of the driver has not returned for %d s",
						   device_shared->settings.timeout_ms / 1000);
	keeper_signal(SIGKILL);
	device_failures_count(device, device_shared->absence.why_not, false);
	if (device >= 0 && device < DEVICE_MAX)
		device_shared->failures[device]++;
	end_generation(DEVICE_SERVICE_DOWN);
	ereport(LOG,
			(errmsg("gpusort device process (PID %d) hangs and is killed", (int) device_process),
			 errdetail("%s", device_shared->absence.why_not)));
}

/* Logs the devices that the next process will leave out. */
static void
log_failing_devices(void)
{
	static bool reported[DEVICE_MAX];

	for (int d = 0; d < DEVICE_MAX; d++)
	{
		bool		failing = device_shared->failures[d] >= DEVICE_MAX_FAILURES;

		if (failing && !reported[d])
			ereport(LOG,
					(errmsg("gpusort: device %d failed %d times in a row", d, DEVICE_MAX_FAILURES),
					 errdetail("It is not used while there are other devices."),
					 errhint("Restart the server to use it again.")));
		reported[d] = failing;
	}
}

/* Publishes the server's settings, at the start and after a reload, and acts on changes. */
static void
publish_settings(void)
{
	device_shared->settings.idle_blocks_s = gpusort_device_idle_blocks;
	device_shared->settings.idle_context_s = gpusort_device_idle_context;
	device_shared->settings.learn = gpusort_device_learn;
	if (device_process != 0)
	{
		device_shared->leave = gpusort_device_mask != opened_mask;
		device_wake_process();
	}
	else if (gpusort_device_mask == 0)
		pg_atomic_write_u32(&device_shared->state, DEVICE_SERVICE_OFF);
	else if (pg_atomic_read_u32(&device_shared->state) == DEVICE_SERVICE_OFF)
	{
		device_set_absence("%s", "");
		pg_atomic_write_u32(&device_shared->state, DEVICE_SERVICE_IDLE);
		when_asked = true;
	}
}

/* Sets the pause before the next start, which doubles from one end of this kind to the next. */
static void
double_pause(bool wait_until_asked)
{
	pause_ms = wait_until_asked != when_asked ? PAUSE_MS : Min(Max(2 * pause_ms, PAUSE_MS), PAUSE_MAX_MS);
	device_shared->retry_us = device_now_us() + (uint64) pause_ms * 1000;
	when_asked = wait_until_asked;
}

/* The process has released the devices and ended. */
static void
process_left(void)
{
	pause_ms = 0;
	device_shared->retry_us = 0;
	/* start at once if the setting has changed, to open the new devices */
	when_asked = gpusort_device_mask == opened_mask || gpusort_device_mask == 0;
	device_set_absence("%s", "");
	end_generation(DEVICE_SERVICE_IDLE);
	logged[0] = '\0';
}

/* The process has found no device that it could open. */
static void
process_found_none(void)
{
	/* once for each reason, not at each retry */
	if (strcmp(logged, device_shared->absence.why_not) != 0)
		ereport(LOG,
				(errmsg("gpusort found no GPU to sort on: %s", device_shared->absence.why_not),
				 errdetail("The service tries again when a sort asks for a GPU.")));
	strlcpy(logged, device_shared->absence.why_not, sizeof(logged));
	double_pause(true);
	end_generation(DEVICE_SERVICE_NONE);
}

/* Logs an end by an error; status as of waitpid(). */
static void
log_failure(int status)
{
	int			signo = WIFSIGNALED(status) ? WTERMSIG(status) : 0;

	if (signo != 0 && !is_given_up())
		device_set_absence("the device process was terminated by signal %d: %s", signo, pg_strsignal(signo));
	if (signo != 0)
		ereport(LOG,
				(errmsg("gpusort device process (PID %d) was terminated by signal %d: %s",
						device_shared->process.pool_pid, signo, pg_strsignal(signo)),
				 errdetail("Sorts continue without it.")));
	else
		ereport(LOG,
				(errmsg("gpusort device process (PID %d) exited with exit code %d",
						device_shared->process.pool_pid, WEXITSTATUS(status)),
				 device_shared->absence.why_not[0] == '\0' ? 0 :
				 errdetail("%s%s%s", device_shared->absence.why_not, device_shared->absence.detail[0] ? ": " : "",
						   device_shared->absence.detail)));
	logged[0] = '\0';
}

/* The process has ended by an error. */
static void
process_failed(void)
{
	end_generation(DEVICE_SERVICE_DOWN);
	log_failing_devices();
	if (!device_shared->process.has_finished)
		double_pause(false);
	else
	{
		/* the pause began with the process */
		pause_ms = PAUSE_MS;
		when_asked = false;
	}
}

/* Handles the end of the process. */
static void
process_ended(int status)
{
	int			code = WIFEXITED(status) && !is_given_up() ? WEXITSTATUS(status) : -1;

	log_notes();
	if (code != DEVICE_EXIT_IDLE && code != DEVICE_EXIT_LATER)
		log_failure(status);
	if (code != DEVICE_EXIT_IDLE && !is_given_up())
		/* SIGKILL comes from outside and is not the fault of a device */
		device_failures_count(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL ? -1 :
							  device_shared->life.at_device, device_shared->absence.why_not, false);
	device_shared->process.pool_pid = 0;
	switch (code)
	{
		case DEVICE_EXIT_IDLE:
			process_left();
			break;
		case DEVICE_EXIT_LATER:
			process_found_none();
			break;
		case DEVICE_EXIT_NOTHING:
			device_shared->retry_us = 0;
			device_shared->supervisor = NULL;
			end_generation(DEVICE_SERVICE_NONE);
			/* the postmaster does not restart a worker that exits with 0 */
			proc_exit(0);
		default:
			process_failed();
			break;
	}
}

/*
 * Is the device process of the last supervisor still running?  Its keeper or process 1
 * waits for it.  It belongs to the same user, so kill(pid, 0) is allowed.
 */
static bool
previous_is_running(void)
{
	int			pid = device_process == 0 ? device_shared->process.pool_pid : 0;

	if (pid == 0 || kill(pid, 0) == 0)
		return pid != 0;
	device_shared->process.pool_pid = 0;
	device_set_absence("%s", "");
	return false;
}

/* Is it time to start the next process? */
static bool
start_is_due(void)
{
	return device_process == 0 && !previous_is_running() && gpusort_device_mask != 0 &&
		(!when_asked || pg_atomic_read_u32(&device_shared->asked) != 0) &&
		device_now_us() >= device_shared->retry_us;
}

void
gpusort_device_supervisor(Datum arg)
{
	uint32		wait_event = compat_wait_event("GpuSortSupervisor");

	pqsignal(SIGTERM, SignalHandlerForShutdownRequest);
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGCHLD, handle_sigchld);
	pqsignal(SIGINT, PG_SIG_IGN);
	BackgroundWorkerUnblockSignals();
	/* connect to no database, only to be shown in pg_stat_activity */
	BackgroundWorkerInitializeConnection(NULL, NULL, 0);
	before_shmem_exit(stop_device_process, (Datum) 0);
	device_shared->supervisor = MyLatch;
	device_shared->retry_us = 0;
	if (previous_is_running())
		device_set_absence("the last device process (PID %d) has not ended yet",
						   device_shared->process.pool_pid);
	publish_settings();

	while (!ShutdownRequestPending)
	{
		int			status;
		int			timeout;

		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
			publish_settings();
		}
		CHECK_FOR_INTERRUPTS();
		log_notes();
		if (keeper_process_ended(&status))
			process_ended(status);
		if (start_is_due())
		{
			if (pause_ms > 0 && !when_asked)
				pg_atomic_fetch_add_u32(&device_shared->process.restarts, 1);
			if (!start_device_process())
				double_pause(false);
			pg_atomic_write_u32(&device_shared->asked, 0);
		}
		timeout = when_asked ? PAUSE_MS : PAUSE_MS / 4;
		if (device_process != 0 && device_process_hung(&timeout) && !is_given_up())
			give_up_device_process();
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 timeout, wait_event);
		ResetLatch(MyLatch);
	}
	proc_exit(1);
}

/* Part of gpusort_stat_reset(). */
static void
reset_counters(void)
{
	for (int d = 0; d < DEVICE_MAX; d++)
	{
		DeviceCounters *counters = &device_shared->counters[d];

		pg_atomic_write_u64(&counters->busy_us, 0);
		pg_atomic_write_u64(&counters->done, 0);
		pg_atomic_write_u64(&counters->failed, 0);
		pg_atomic_write_u64(&counters->bytes_up, 0);
		pg_atomic_write_u64(&counters->bytes_down, 0);
	}
	device_failures_reset();
}

bool
device_service_init(void)
{
	BackgroundWorker worker;

	if (!process_shared_preload_libraries_in_progress || device_service_lacks() != NULL)
		return false;
	memset(&worker, 0, sizeof(worker));
	snprintf(worker.bgw_name, BGW_MAXLEN, "gpusort device supervisor");
	snprintf(worker.bgw_type, BGW_MAXLEN, "gpusort device supervisor");
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	/* no backend can sort earlier */
	worker.bgw_start_time = BgWorkerStart_ConsistentState;
	worker.bgw_restart_time = 5;
	strlcpy(worker.bgw_library_name, gpusort_library_name(sizeof(worker.bgw_library_name)),
			sizeof(worker.bgw_library_name));
	snprintf(worker.bgw_function_name, BGW_MAXLEN, "gpusort_device_supervisor");
	RegisterBackgroundWorker(&worker);
	/* without a worker the shared memory is of no use */
	lacks_worker = !compat_worker_is_registered(worker.bgw_name);
	if (lacks_worker)
	{
		ereport(LOG,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("gpusort cannot use GPUs, because no background worker is free"),
				 errhint("Consider increasing the configuration parameter \"max_worker_processes\".")));
		return false;
	}
	device_shared_init();
	device_failures_init();
	gpusort_stat_reset_too = reset_counters;
	return true;
}

/* Why there is no service.  docs/troubleshooting.md lists these texts. */
const char *
device_service_why_none(void)
{
	const char *lacks = device_service_lacks();

	if (lacks != NULL)
		return lacks;
	if (lacks_worker)
		return "none: no background worker is free (max_worker_processes)";
	return "none: gpusort is not in shared_preload_libraries";
}
