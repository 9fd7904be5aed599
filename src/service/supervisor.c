/*
 * supervisor.c
 *	  The supervisor of the device process, and the staging pool in shared memory.
 *
 * Memory policy: a machine without a GPU must not pay for one.  With
 * gpusort.device = auto nothing at all is reserved unless a driver is there, nor
 * ever where the library that drives GPUs was not installed, and without an own
 * value of gpusort.staging_memory the pool is STAGING_DEFAULT_MB.  The pool is cut into
 * chunks of equal size: large ones (4 MB cross PCIe in 75 us, far above the cost of
 * asking for it), but small enough that a small pool still serves several jobs.  Its
 * pages are touched, and pinned, by the device process alone.
 */
#include "postgres.h"

#include <signal.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../cuda/costs_h200.h"
#include "compat.h"
#include "libpq/pqsignal.h"
#include "miscadmin.h"
#include "monitor/stat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "service/protocol.h"
#include "service/service.h"
#include "service/service_internal.h"
#include "settings.h"
#include "shared_memory.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/pg_shmem.h"
#include "storage/proc.h"
#include "utils/guc.h"
#include "utils/ps_status.h"

#define STAGING_DEFAULT_MB	256
#define STAGING_MAX_CHUNK	((Size) 4 * 1024 * 1024)
#define STAGING_MIN_CHUNK	((Size) 64 * 1024)
#define STAGING_CHUNKS		64	/* aimed at */
#define STAGING_ALIGN		((Size) 2 * 1024 * 1024)

/* What a device process takes to start, until one has told. */
#define START_US			500000

DeviceShared *device_shared = NULL;
char	   *device_staging = NULL;

bool
device_driver_present(void)
{
	static const char *const signs[] = {
		"/dev/nvidiactl", "/dev/nvidia0", "/proc/driver/nvidia/version", "/dev/dxg"
	};

	for (int i = 0; i < (int) lengthof(signs); i++)
	{
		if (access(signs[i], F_OK) == 0)
			return true;
	}
	return false;
}

void
device_library_path(char *path, size_t size)
{
	const char *name = gpusort_device_library;
	const char *suffix = "";

	if (strlen(name) < strlen(DLSUFFIX) ||
		strcmp(name + strlen(name) - strlen(DLSUFFIX), DLSUFFIX) != 0)
		suffix = DLSUFFIX;
	if (strncmp(name, "$libdir", 7) == 0)
		snprintf(path, size, "%s%s%s", pkglib_path, name + 7, suffix);
	else
		snprintf(path, size, "%s%s", name, suffix);
}

bool
device_library_present(void)
{
	char		path[MAXPGPATH];

	device_library_path(path, sizeof(path));
	return access(path, R_OK) == 0;
}

static Size
staging_bytes(void)
{
	int			mb = gpusort_staging_memory < 0 ? STAGING_DEFAULT_MB : gpusort_staging_memory;

	return (Size) mb * 1024 * 1024;
}

static Size
staging_chunk_size(void)
{
	Size		size = staging_bytes() / STAGING_CHUNKS;

	size = Max(STAGING_MIN_CHUNK, Min(size, STAGING_MAX_CHUNK));
	return size & ~(STAGING_MIN_CHUNK - 1);
}

static Size
shared_size(void)
{
	return sizeof(DeviceShared);
}

static void
start_shared(void *memory, bool found)
{
	device_shared = memory;
	if (!found)
	{
		memset(device_shared, 0, sizeof(DeviceShared));
		device_shared->lock = &GetNamedLWLockTranche("gpusort_device")->lock;
		device_shared->chunk_size = staging_chunk_size();
		device_shared->start_us = START_US;
		device_shared->staging_chunks = (int) (staging_bytes() / staging_chunk_size());
		Assert(device_shared->staging_chunks <= DEVICE_MAX_CHUNKS);
		pg_atomic_init_u32(&device_shared->generation, 0);
		pg_atomic_init_u32(&device_shared->state, DEVICE_SERVICE_DOWN);
		pg_atomic_init_u32(&device_shared->process_pid, 0);
		pg_atomic_init_u32(&device_shared->restarts, 0);
		pg_atomic_init_u32(&device_shared->finished, 0);
		pg_atomic_init_u32(&device_shared->heartbeat, 0);
		pg_atomic_init_u32(&device_shared->sleeping, 0);
		pg_atomic_init_u32(&device_shared->asked, 0);
		pg_atomic_init_u32(&device_shared->measure_asked, 0);
		pg_atomic_init_u32(&device_shared->notes, 0);
		if (sem_init(&device_shared->wake, 1, 0) != 0)
			elog(FATAL, "could not create a semaphore: %m");
		for (int i = 0; i < DEVICE_MAX; i++)
		{
			DeviceCounters *counters = &device_shared->counters[i];

			device_shared->devices[i].costs = gpusort_costs_h200;
			pg_atomic_init_u64(&counters->busy_us, 0);
			pg_atomic_init_u64(&counters->done, 0);
			pg_atomic_init_u64(&counters->failed, 0);
			pg_atomic_init_u64(&counters->bytes_up, 0);
			pg_atomic_init_u64(&counters->bytes_down, 0);
		}
		for (int i = 0; i < DEVICE_SLOTS; i++)
		{
			DeviceSlot *slot = &device_shared->slots[i];

			pg_atomic_init_u32(&slot->state, device_slot_word(0, DEVICE_SLOT_FREE));
			pg_atomic_init_u32(&slot->posted, 0);
			pg_atomic_init_u32(&slot->read, 0);
			pg_atomic_init_u32(&slot->command, DEVICE_LOAD);
			pg_atomic_init_u32(&slot->taken, 0);
			pg_atomic_init_u32(&slot->made, 0);
			pg_atomic_init_u32(&slot->growths, 0);
			pg_atomic_init_u32(&slot->grown, 0);
			pg_atomic_init_u32(&slot->status, DEVICE_LOADING);
		}
	}
}

static Size
pool_size(void)
{
	return staging_bytes() + STAGING_ALIGN;
}

static void
start_pool(void *memory, bool found)
{
	device_staging = (char *) TYPEALIGN(STAGING_ALIGN, memory);
}

/* Called while libraries are preloaded: is a service wanted, and are its parts there? */
static bool
device_staging_wanted(void)
{
	if (!process_shared_preload_libraries_in_progress ||
		gpusort_staging_memory == 0 ||
		strcmp(gpusort_device, "off") == 0)
		return false;
	if (strcmp(gpusort_device, "auto") == 0 && !gpusort_device_library_set() &&
		!device_driver_present())
		return false;
	return device_library_present();
}

/* Then: requests its shared memory. */
static void
device_staging_init(void)
{
	static const SharedMemory shared = {"gpusort_device", shared_size, start_shared, true};
	static const SharedMemory pool = {"gpusort_staging", pool_size, start_pool};

	gpusort_shared_memory(&shared);
	gpusort_shared_memory(&pool);
}

/* ------------------------------------------------------------------------
 * The supervisor: a background worker that keeps a device process running.
 *
 * It starts the device process and waits.  When the process ends, however it
 * ends, the generation is raised, which is how backends see that their jobs are
 * lost, the slots that they have closed meanwhile are freed, everybody waiting is
 * woken, and after a pause the next process starts.  The pause doubles, to ten
 * minutes at last, while processes die without having finished a job: with a device
 * that always hangs, each process costs some sorts two minutes.  A process that finds no library
 * says so by its exit code: then there is no next.  One that finds no device, or none that
 * can be opened, is followed by another when a sort asks, after a pause of its own; one
 * that was idle and gave everything back (process_idle.c), without a pause.
 *
 * The server's own gpusort.device decides what a process opens.  When a reload changes
 * it, the process is to let its jobs end, and to end.
 *
 * A process that hangs is ended.  It says itself when a device does not get on with
 * its work (process_job.c); when it is stuck in a call, its heartbeat stands still.
 * Its end may then take long, because the driver first has to get rid of what is
 * under way, so jobs are given up at once; but there is no next process, and with it
 * nobody who is given a chunk of the pool, before this one is gone.
 *
 * Between the supervisor and the device process there is the keeper (keeper.c), which waits for
 * the device process when the supervisor cannot.  If the supervisor ends, the keeper kills
 * the device process.  A supervisor that comes after one that ended starts no device process before the
 * last one is gone: the pool is only one process's.
 * ------------------------------------------------------------------------
 */

#ifdef __linux__
#include <sys/prctl.h>
#endif

#define RESTART_PAUSE_MS		1000
#define RESTART_PAUSE_MAX_MS	600000

/* Between two looks for a device where there was none, if sorts ask. */
#define RETRY_PAUSE_MS			1000
#define RETRY_PAUSE_MAX_MS		300000

/* What the supervisor waits for a process to end by itself, and when killed. */
#define STOP_PATIENCE_MS		2000

/* Looks at a process's heartbeat, all without a change, within the time that it may be silent. */
#define HEARTBEAT_LOOKS			20

/* The process, as the supervisor knows it. */
static pid_t child = 0;			/* that has not ended, as far as we know; 0: none */
static pid_t before_us = 0;		/* likewise, the last supervisor's */
static bool child_given_up = false; /* its jobs are lost already */
static uint32 last_heartbeat;
static uint64 last_look;		/* device_now_us() */
static int	silent_looks;
static uint64 opened_mask;		/* gpusort.device, when it was started */

/* When the next is started. */
static bool when_asked = false; /* only if a sort asks for it */
static uint64 pause_from = 0;	/* the last start, or end; 0: none to wait from */
static int	error_pause = RESTART_PAUSE_MS;	/* after a process that ended with an error */
static int	retry_pause = 0;	/* ... that found no device */
static char logged[sizeof(device_shared->why_not)]; /* why, as logged */

/* Notes of the process that have been seen, and what the process before and this one noted. */
static uint32 notes_seen = 0;
static char notes_before[DEVICE_NOTES][DEVICE_NOTE_SIZE];
static char notes_now[DEVICE_NOTES][DEVICE_NOTE_SIZE];
static int	nnotes_before = 0;
static int	nnotes_now = 0;

static bool lacks_worker = false;

void		(*device_supervisor_saves) (bool at_once) = NULL;

extern PGDLLEXPORT void device_supervisor_main(Datum arg);

static void
handle_sigchld(SIGNAL_ARGS)
{
	int			save_errno = errno;

	SetLatch(MyLatch);
	errno = save_errno;
}

/*
 * In the device process: a stop, and what the kernel sends if its parent dies.  If that
 * makes it the postmaster's child, its exit code must not look like a crash.
 */
static void
handle_stop(SIGNAL_ARGS)
{
	_exit(0);
}

/*
 * In the forked child: nothing of the worker's identity may stay.
 *
 * Nor its hold on the data directory, which is the attachment to a small segment of
 * System V shared memory where the large one is of another kind.  The driver may take
 * long to end this process, which touches no file of the directory: the next
 * server need not wait for it.
 */
static void
become_device_process(void)
{
	pid_t		parent = MyProcPid; /* still the keeper's */

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
	pqsignal(SIGHUP, PG_SIG_IGN);
	pqsignal(SIGINT, PG_SIG_IGN);
	pqsignal(SIGUSR1, PG_SIG_IGN);
	pqsignal(SIGUSR2, PG_SIG_IGN);
	pqsignal(SIGURG, PG_SIG_IGN);
	init_ps_display("gpusort device process");
	device_process_main();
}

static pid_t
start_device_process(void)
{
	pid_t		pid;

	pg_atomic_write_u32(&device_shared->state, DEVICE_SERVICE_STARTING);
	device_shared->hangs = 0;
	device_shared->at_device = -1;
	device_shared->patience_ms = DEVICE_PATIENCE_MS;
	child_given_up = false;
	silent_looks = 0;
	opened_mask = gpusort_device_mask;
	device_shared->leave = false;
	last_look = device_now_us();
	memcpy(notes_before, notes_now, sizeof(notes_before));
	nnotes_before = nnotes_now;
	nnotes_now = 0;
	fflush(stdout);
	fflush(stderr);
	pid = keeper_start(become_device_process);
	if (pid == 0)
	{
		ereport(LOG, (errmsg("could not fork the gpusort device process: %m")));
		pg_atomic_write_u32(&device_shared->state, DEVICE_SERVICE_DOWN);
		return 0;
	}
	pg_atomic_write_u32(&device_shared->process_pid, (uint32) pid);
	device_shared->pool_pid = pid;
	return pid;
}

/* The process is gone, or given up: its jobs are lost, its slots free. */
static void
bury_device_process(DeviceServiceState state)
{
	uint32		generation;

	pg_atomic_write_u32(&device_shared->process_pid, 0);
	pg_atomic_write_u32(&device_shared->state, state);
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
	device_wake_queue();
}

/* Waits so long for the process to end; did it? */
static bool
await_end(int ms)
{
	int			status;

	for (; ms > 0; ms -= 10)
	{
		if (keeper_process_ended(&status))
		{
			child = 0;
			device_shared->pool_pid = 0;
			return true;
		}
		pg_usleep(10 * 1000L);
	}
	return false;
}

/* The supervisor ends, whatever the reason: the device process goes first. */
static void
stop_device_process(int code, Datum arg)
{
	if (device_supervisor_saves != NULL)
		device_supervisor_saves(true);
	if (child == 0)
		return;
	keeper_signal(SIGTERM);
	if (!await_end(STOP_PATIENCE_MS))
	{
		keeper_signal(SIGKILL);
		(void) await_end(STOP_PATIENCE_MS);
	}
	if (!child_given_up)
		bury_device_process(DEVICE_SERVICE_DOWN);
}

/*
 * What the device process has to say.  A process that is started again and again would say the
 * same each time: what the one before said, too, is no news.
 */
static void
log_notes(void)
{
	uint32		written = pg_atomic_read_u32(&device_shared->notes);

	pg_read_barrier();
	if (written - notes_seen > DEVICE_NOTES)
		notes_seen = written - DEVICE_NOTES;
	while (notes_seen != written)
	{
		const DeviceNote *note = &device_shared->note[notes_seen++ % DEVICE_NOTES];
		bool		news = true;

		for (int i = 0; i < nnotes_before; i++)
			news &= strncmp(notes_before[i], note->text, DEVICE_NOTE_SIZE) != 0;
		if (nnotes_now < DEVICE_NOTES)
			strlcpy(notes_now[nnotes_now++], note->text, DEVICE_NOTE_SIZE);
		ereport(news ? LOG : DEBUG1,
				(errmsg_internal("%.*s", DEVICE_NOTE_SIZE - 1, note->text)));
		if (note->device >= 0)
			device_failures_count(note->device, note->text);
	}
}

static void
log_end(pid_t pid, int status)
{
	bool		exited = WIFEXITED(status);

	if (WIFSIGNALED(status))
	{
		if (!child_given_up)
			snprintf(device_shared->why_not, sizeof(device_shared->why_not),
					 "the device process was terminated by signal %d: %s",
					 WTERMSIG(status), pg_strsignal(WTERMSIG(status)));
		ereport(LOG,
				(errmsg("gpusort device process (PID %d) was terminated by signal %d: %s",
						(int) pid, WTERMSIG(status), pg_strsignal(WTERMSIG(status))),
				 errdetail("Sorts go on without it.")));
	}
	else if (exited && WEXITSTATUS(status) == DEVICE_EXIT_IDLE)
		ereport(DEBUG1,
				(errmsg_internal("gpusort device process (PID %d) has given the GPUs back", (int) pid)));
	else if (exited && WEXITSTATUS(status) == DEVICE_EXIT_LATER)
	{
		/* once, not each time that it is tried */
		if (strcmp(logged, device_shared->why_not) != 0)
			ereport(LOG,
					(errmsg("gpusort found no GPU to sort on: %s", device_shared->why_not),
					 errdetail("It is looked for again when a sort asks.")));
		strlcpy(logged, device_shared->why_not, sizeof(logged));
		return;
	}
	else
		ereport(LOG,
				(errmsg("gpusort device process (PID %d) exited with exit code %d",
						(int) pid, WEXITSTATUS(status)),
				 device_shared->why_not[0] == '\0' ? 0 :
				 errdetail("%s%s%s", device_shared->why_not, device_shared->why_detail[0] ? ": " : "",
						   device_shared->why_detail)));
	logged[0] = '\0';
}

/*
 * Does the process hang?  Looks are counted, not time, so that a machine that was
 * stopped for a while is no reason.  *look_ms is when to look again.
 */
static bool
device_process_hung(int *look_ms)
{
	uint32		heartbeat = pg_atomic_read_u32(&device_shared->heartbeat);
	uint64		now = device_now_us();

	/* the process may have become silent right after the look before the first */
	*look_ms = device_shared->patience_ms / (HEARTBEAT_LOOKS + 1);
	if (heartbeat != last_heartbeat)
		silent_looks = 0;
	else if (now - last_look >= (uint64) *look_ms * 1000)
		silent_looks++;
	else
		return device_shared->hangs;
	last_heartbeat = heartbeat;
	last_look = now;
	return silent_looks >= HEARTBEAT_LOOKS || device_shared->hangs;
}

/* A process that hangs: no job waits for its end. */
static void
give_up_device_process(void)
{
	int			device = device_shared->at_device;

	if (!device_shared->hangs)
		snprintf(device_shared->why_not, sizeof(device_shared->why_not),
				 "a call of the driver has not returned for %d s", device_shared->patience_ms / 1000);
	keeper_signal(SIGKILL);
	device_failures_count(device, device_shared->why_not);
	if (device >= 0 && device < DEVICE_MAX)
		device_shared->failures[device]++;
	child_given_up = true;
	bury_device_process(DEVICE_SERVICE_DOWN);
	ereport(LOG,
			(errmsg("gpusort device process (PID %d) hangs and is killed", (int) child),
			 errdetail("%s", device_shared->why_not)));
}

/* Devices that the next process will leave out are worth a word. */
static void
log_failing_devices(void)
{
	static bool told[DEVICE_MAX];

	for (int d = 0; d < DEVICE_MAX; d++)
	{
		bool		failing = device_shared->failures[d] >= DEVICE_MAX_FAILURES;

		if (failing && !told[d])
			ereport(LOG,
					(errmsg("gpusort: device %d failed %d times in a row", d, DEVICE_MAX_FAILURES),
					 errdetail("It is left out if there are other devices."),
					 errhint("Restart the server to have it tried again.")));
		told[d] = failing;
	}
}

/* What the others need to know of the settings, at the start and after a reload. */
static void
tell_settings(void)
{
	device_shared->idle_blocks_s = gpusort_device_idle_blocks;
	device_shared->idle_context_s = gpusort_device_idle_context;
	device_shared->learn = gpusort_device_learn;
	if (child != 0)
	{
		device_shared->leave = gpusort_device_mask != opened_mask;
		device_wake_process();
	}
	else if (gpusort_device_mask == 0)
		pg_atomic_write_u32(&device_shared->state, DEVICE_SERVICE_OFF);
	else if (pg_atomic_read_u32(&device_shared->state) == DEVICE_SERVICE_OFF)
	{
		device_shared->why_not[0] = '\0';
		device_shared->why_detail[0] = '\0';
		pg_atomic_write_u32(&device_shared->state, DEVICE_SERVICE_IDLE);
		when_asked = true;
	}
}

/* It has given everything back. */
static void
process_left(void)
{
	retry_pause = 0;
	pause_from = 0;
	/* who changes the devices wants to see the others */
	when_asked = gpusort_device_mask == opened_mask || gpusort_device_mask == 0;
	device_shared->why_not[0] = '\0';
	device_shared->why_detail[0] = '\0';
	bury_device_process(gpusort_device_mask == 0 ? DEVICE_SERVICE_OFF : DEVICE_SERVICE_IDLE);
}

/* It has found no device that it could open. */
static void
process_found_none(void)
{
	retry_pause = Min(Max(2 * retry_pause, RETRY_PAUSE_MS), RETRY_PAUSE_MAX_MS);
	pause_from = device_now_us();
	when_asked = true;
	device_shared->retry_us = device_now_us() + (uint64) retry_pause * 1000;
	bury_device_process(gpusort_device_mask == 0 ? DEVICE_SERVICE_OFF : DEVICE_SERVICE_NONE);
}

/* The process has ended; finished: jobs, when it was started. */
static void
process_ended(int status, uint32 finished)
{
	int			code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;

	log_notes();
	log_end(child, status);
	if (code != DEVICE_EXIT_IDLE && !child_given_up)
		/* SIGKILL says nothing of the device whose step it met */
		device_failures_count(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL ? -1 : device_shared->at_device,
							  device_shared->why_not);
	child = 0;
	device_shared->pool_pid = 0;
	if (code == DEVICE_EXIT_IDLE && !child_given_up)
		process_left();
	else if (code == DEVICE_EXIT_LATER && !child_given_up)
		process_found_none();
	else
	{
		if (code == DEVICE_EXIT_NOTHING)
		{
			device_shared->retry_us = 0;
			device_shared->supervisor = NULL;
		}
		if (!child_given_up)
			bury_device_process(code == DEVICE_EXIT_NOTHING ? DEVICE_SERVICE_NONE :
								gpusort_device_mask == 0 ? DEVICE_SERVICE_OFF : DEVICE_SERVICE_DOWN);
		if (code == DEVICE_EXIT_NOTHING)
			proc_exit(0);		/* and no other is started */
		log_failing_devices();
		when_asked = false;
		retry_pause = 0;
		if (pg_atomic_read_u32(&device_shared->finished) != finished)
			error_pause = RESTART_PAUSE_MS;	/* from its start */
		else
		{
			error_pause = Min(error_pause * 2, RESTART_PAUSE_MAX_MS);
			pause_from = device_now_us();
		}
	}
}

/*
 * Is the device process there that the last supervisor has left?  Its keeper waits for it; if that
 * is gone, too, process 1 does.  It belongs to the server's user, as we do.
 */
static bool
last_remains(void)
{
	if (before_us != 0 && kill(before_us, 0) != 0)
	{
		before_us = 0;
		device_shared->why_not[0] = '\0';
		device_shared->why_detail[0] = '\0';
	}
	return before_us != 0;
}

/* Is it time for the next? */
static bool
start_is_due(void)
{
	int			wait_ms = when_asked ? retry_pause : error_pause;

	if (child != 0 || last_remains() || gpusort_device_mask == 0 ||
		(when_asked && pg_atomic_read_u32(&device_shared->asked) == 0))
		return false;
	return pause_from == 0 || device_now_us() - pause_from >= (uint64) wait_ms * 1000;
}

void
device_supervisor_main(Datum arg)
{
	bool		first = true;
	uint32		finished = 0;	/* jobs, when the process was started */
	uint32		wait_event = compat_wait_event("GpuSortSupervisor");

	pqsignal(SIGTERM, SignalHandlerForShutdownRequest);
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGCHLD, handle_sigchld);
	pqsignal(SIGINT, PG_SIG_IGN);
	BackgroundWorkerUnblockSignals();
	/* to no database, but so that pg_stat_activity has it */
	BackgroundWorkerInitializeConnection(NULL, NULL, 0);
	before_shmem_exit(stop_device_process, (Datum) 0);
	device_shared->supervisor = MyLatch;
	before_us = device_shared->pool_pid;
	if (last_remains())
		snprintf(device_shared->why_not, sizeof(device_shared->why_not),
				 "the last device process (PID %d) has not ended yet", (int) before_us);
	tell_settings();

	while (!ShutdownRequestPending)
	{
		int			status;
		int			timeout;

		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
			tell_settings();
		}
		CHECK_FOR_INTERRUPTS();
		log_notes();
		if (keeper_process_ended(&status))
			process_ended(status, finished);
		if (start_is_due())
		{
			if (!first && !when_asked)
				pg_atomic_fetch_add_u32(&device_shared->restarts, 1);
			first = false;
			pause_from = device_now_us();
			finished = pg_atomic_read_u32(&device_shared->finished);
			child = start_device_process();
			pg_atomic_write_u32(&device_shared->asked, 0);
		}
		if (device_supervisor_saves != NULL)
			device_supervisor_saves(false);
		timeout = child == 0 && when_asked ? RETRY_PAUSE_MS : error_pause / 4;
		if (child != 0 && device_process_hung(&timeout) && !child_given_up)
			give_up_device_process();
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 timeout, wait_event);
		ResetLatch(MyLatch);
	}
	proc_exit(1);
}

/* gpusort_stat_reset() */
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
	LWLockAcquire(device_shared->lock, LW_EXCLUSIVE);
	device_shared->waited = device_shared->waited_us = 0;
	LWLockRelease(device_shared->lock);
	device_failures_reset();
}

bool
device_service_init(void)
{
	BackgroundWorker worker;

	if (!process_shared_preload_libraries_in_progress || !device_staging_wanted())
		return false;
	memset(&worker, 0, sizeof(worker));
	snprintf(worker.bgw_name, BGW_MAXLEN, "gpusort device supervisor");
	snprintf(worker.bgw_type, BGW_MAXLEN, "gpusort device supervisor");
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	/* before that nobody can sort */
	worker.bgw_start_time = BgWorkerStart_ConsistentState;
	worker.bgw_restart_time = 5;
	snprintf(worker.bgw_library_name, BGW_MAXLEN, "gpusort");
	snprintf(worker.bgw_function_name, BGW_MAXLEN, "device_supervisor_main");
	RegisterBackgroundWorker(&worker);
	/* where there is no room for it, nothing of the service is of use */
	lacks_worker = !compat_worker_is_registered(worker.bgw_name);
	if (lacks_worker)
	{
		ereport(LOG,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("gpusort does without GPUs, because no background worker is free"),
				 errhint("Consider increasing the configuration parameter \"max_worker_processes\".")));
		return false;
	}
	device_staging_init();
	device_failures_init();
	gpusort_stat_reset_too = reset_counters;
	return true;
}

bool
device_service_lacks_worker(void)
{
	return lacks_worker;
}
