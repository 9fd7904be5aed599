/*
 * keeper.c
 *	  The keeper: a process between the supervisor and the device process.
 *
 * The postmaster restarts the whole server when a child that it does not know ends with
 * an exit code other than 0 or 1.  Every orphan becomes a child of process 1, and in a
 * container that may be the postmaster.  The device process may end by SIGKILL long after
 * its supervisor, so it must never become an orphan.
 *
 * The supervisor forks the keeper, and the keeper forks the device process.  The keeper
 * detaches from shared memory.  It has its own session, so that signals to the
 * supervisor's process group do not reach it, ignores the signals of a shutdown, and
 * inherits the orphans below it (PR_SET_CHILD_SUBREAPER).  It waits for the end of the
 * device process without a limit, sends the status to the supervisor, and exits with 0.
 *
 * A socket connects the supervisor and the keeper.  The supervisor sends signal numbers,
 * and the keeper sends these signals to the device process.  The keeper's child keeps its
 * PID until the keeper has waited for it, so a signal cannot reach another process.
 * When the supervisor ends, the keeper reads end-of-file, ends the device process and
 * waits for its end.
 *
 * If the keeper is killed, the supervisor inherits the device process and kills it.  If
 * both are killed, the kernel sends SIGTERM to the device process (PR_SET_PDEATHSIG), and
 * it exits with 0.
 *
 * On error: keeper_start() reports a process that cannot be started by errno.
 */
#include "postgres.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "compat.h"
#include "libpq/pqsignal.h"
#include "miscadmin.h"
#include "service/service_internal.h"
#include "storage/dsm.h"
#include "storage/ipc.h"
#include "storage/pg_shmem.h"
#include "utils/ps_status.h"

#ifdef __linux__
#include <sys/prctl.h>
#endif

/* The keeper's end of the socket, after it has closed all other files. */
#define KEEPER_SOCKET	3

/* Time for the device process to end after SIGTERM. */
#define KEEPER_GRACE_SECONDS	5

pid_t		device_process = 0;

static int	keeper_socket = -1; /* the supervisor's end of the socket; -1: none */

/* ------------------------------------------------------------------------
 * In the keeper
 * ------------------------------------------------------------------------
 */

/* Does nothing: the signal only has to interrupt pselect(). */
static void
keeper_sigchld(SIGNAL_ARGS)
{
}

/*
 * Sends a message to the supervisor: first the process's PID, or -errno if there is no
 * process; later its status.
 */
static void
send_word(int word)
{
	/* fails if the supervisor has ended; SIGPIPE is ignored */
	(void) send(KEEPER_SOCKET, &word, sizeof(word), 0);
}

/* Closes all files of the server, so that the keeper holds no file, pipe or directory. */
static void
close_files(int socket)
{
	struct rlimit limit;
	int			files = 65536;
	int			null = open("/dev/null", O_RDWR);

	/* move the socket behind the first four files, then replace those */
	socket = fcntl(socket, F_DUPFD, KEEPER_SOCKET + 1);
	for (int fd = 0; fd < KEEPER_SOCKET; fd++)
		(void) dup2(null, fd);
	(void) dup2(socket, KEEPER_SOCKET);
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < (rlim_t) files)
		files = (int) limit.rlim_cur;
	for (int fd = KEEPER_SOCKET + 1; fd < files; fd++)
		(void) close(fd);
	/* a failure is harmless: the keeper uses no file */
	if (chdir("/") != 0)
		return;
}

/*
 * Forwards signals until the device process has ended.  waiting is the signal mask while
 * the keeper waits.
 *
 * When the supervisor has ended, the device process gets SIGTERM, on which it exits with
 * 0, and SIGKILL if it has not ended KEEPER_GRACE_SECONDS later.  The keeper may be
 * killed, too, before it has waited for the device process.  Then process 1 waits for it.
 * If process 1 is the postmaster, it would take an end by SIGKILL for a backend's crash.
 */
pg_noreturn static void
keeper_loop(const sigset_t *waiting)
{
	const struct timespec grace = {KEEPER_GRACE_SECONDS, 0};
	bool		supervised = true;
	bool		killed = false;

	for (;;)
	{
		fd_set		set;
		int			status;
		pid_t		pid;
		int			ready;

		while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		{
			if (pid == device_process)
			{
				send_word(status);
				_exit(0);
			}
		}
		FD_ZERO(&set);
		if (supervised)
			FD_SET(KEEPER_SOCKET, &set);
		ready = pselect(KEEPER_SOCKET + 1, &set, NULL, NULL, supervised || killed ? NULL : &grace, waiting);
		if (ready == 0)
		{
			killed = true;
			(void) kill(device_process, SIGKILL);
		}
		else if (ready > 0)
		{
			unsigned char signo;
			ssize_t		n = recv(KEEPER_SOCKET, &signo, 1, MSG_DONTWAIT);

			if (n == 1)
				(void) kill(device_process, signo);
			else if (n == 0)
			{
				supervised = false;
				(void) kill(device_process, SIGTERM);
			}
		}
	}
}

/* The keeper.  Forks the device process, which calls run(). */
pg_noreturn static void
keeper_main(int socket, void (*run) (void))
{
	static const int ignored[] = {SIGTERM, SIGINT, SIGQUIT, SIGHUP, SIGPIPE, SIGALRM, SIGUSR1, SIGUSR2, SIGURG};
	sigset_t	blocked;
	sigset_t	waiting;
	int			error;

	/* signal handlers compare MyProcPid with getpid() */
	MyProcPid = getpid();
	on_exit_reset();
	(void) setsid();
#ifdef __linux__
	(void) prctl(PR_SET_CHILD_SUBREAPER, 1);
#endif
	/* from here on SIGCHLD arrives only within pselect() */
	sigfillset(&blocked);
	(void) sigprocmask(SIG_SETMASK, &blocked, NULL);
	for (int i = 0; i < (int) lengthof(ignored); i++)
		pqsignal(ignored[i], PG_SIG_IGN);
	pqsignal(SIGCHLD, keeper_sigchld);

	device_process = fork();
	error = errno;
	if (device_process == 0)
	{
		(void) close(socket);
		run();
		_exit(1);
	}
	init_ps_display("gpusort device keeper");
	dsm_detach_all();
	PGSharedMemoryDetach();
	close_files(socket);
	send_word(device_process < 0 ? -error : device_process);
	if (device_process < 0)
		_exit(0);
	sigemptyset(&waiting);
	keeper_loop(&waiting);
}

/* ------------------------------------------------------------------------
 * In the supervisor
 * ------------------------------------------------------------------------
 */

/* Reads the keeper's next message.  False: there is none; *end: there will be none. */
static bool
receive(int *word, int flags, bool *end)
{
	ssize_t		n;

	do
		n = recv(keeper_socket, word, sizeof(*word), flags);
	while (n < 0 && errno == EINTR);
	*end = n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK);
	return n == (ssize_t) sizeof(*word);
}

static void
close_socket(void)
{
	if (keeper_socket >= 0)
		(void) close(keeper_socket);
	keeper_socket = -1;
}

bool
keeper_start(void (*run) (void))
{
	int			sockets[2];
	pid_t		keeper;
	int			word;
	bool		end;

	Assert(device_process == 0);
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) != 0)
		return false;
#ifdef __linux__
	/* inherit a device process whose keeper was killed */
	(void) prctl(PR_SET_CHILD_SUBREAPER, 1);
#endif
	keeper = fork();
	if (keeper == 0)
	{
		(void) close(sockets[0]);
		keeper_main(sockets[1], run);
	}
	(void) close(sockets[1]);
	keeper_socket = sockets[0];
	/* the keeper sends the PID at once */
	if (keeper < 0 || !receive(&word, 0, &end))
		word = keeper < 0 ? -errno : -ECHILD;
	if (word < 0)
	{
		close_socket();
		errno = -word;
		return false;
	}
	device_process = word;
	return true;
}

void
keeper_signal(int signo)
{
	unsigned char byte = (unsigned char) signo;

	if (keeper_socket >= 0)
		(void) send(keeper_socket, &byte, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
	else if (device_process != 0)
		(void) kill(device_process, signo);
}

bool
keeper_process_ended(int *status)
{
	bool		ended = false;
	bool		end;
	pid_t		pid;
	int			child_status;

	if (keeper_socket >= 0 && receive(status, MSG_DONTWAIT, &end))
		ended = true;
	else if (keeper_socket >= 0 && end)
	{
		/* the keeper was killed */
		close_socket();
		(void) kill(device_process, SIGKILL);
	}
	/* reap the keeper and orphans */
	while ((pid = waitpid(-1, &child_status, WNOHANG)) > 0)
	{
		if (pid != device_process)
			continue;
		ended = true;
		*status = child_status;
	}
	/* without PR_SET_CHILD_SUBREAPER the status is unknown */
	if (!ended && device_process != 0 && keeper_socket < 0 && kill(device_process, 0) != 0 && errno == ESRCH)
	{
		ended = true;
		*status = 0;
	}
	if (ended)
	{
		close_socket();
		device_process = 0;
	}
	return ended;
}
