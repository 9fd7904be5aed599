/*
 * late_calls.c
 *	  Preloaded into a server by test/fuzz/queries --late: delays random calls
 *	  that synchronize processes, so that rare interleavings occur.
 *
 * The environment's LATE_CALLS is the number of delayed calls per 1,000.  A
 * delay takes up to 3 ms, one in ten up to 60 ms.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define SHORT_NS	3000000
#define LONG_NS		60000000

/*
 * Delays the caller with the probability that LATE_CALLS says.  Signal handlers
 * call kill(), so this calls only async-signal-safe functions after a process's
 * first call.
 */
static void
perhaps_wait(void)
{
	static uint64_t state;
	static pid_t of;
	static int	rate;
	struct timespec time;
	int			error = errno;

	if (of != getpid())
	{
		const char *text = getenv("LATE_CALLS");

		of = getpid();
		rate = text != NULL ? atoi(text) : 0;
		clock_gettime(CLOCK_MONOTONIC, &time);
		state = ((uint64_t) time.tv_nsec << 32 | (uint64_t) of) * 2 + 1;
	}
	state = state * 6364136223846793005u + 1442695040888963407u;
	if ((state >> 33) % 1000 < (uint64_t) rate)
	{
		time.tv_sec = 0;
		time.tv_nsec = (state >> 20) % ((state >> 48) % 10 == 0 ? LONG_NS : SHORT_NS);
		nanosleep(&time, NULL);
	}
	errno = error;
}

/* Defines a function that delays the caller before and after the C library's. */
#define LATE(type, name, parameters, arguments) \
	type name parameters \
	{ \
		static type (*real) parameters; \
		type		result; \
		if (real == NULL) \
			real = (type (*) parameters) dlsym(RTLD_NEXT, #name); \
		perhaps_wait(); \
		result = real arguments; \
		perhaps_wait(); \
		return result; \
	}

LATE(int, kill, (pid_t pid, int sig), (pid, sig))
LATE(int, epoll_wait, (int fd, struct epoll_event *events, int n, int ms), (fd, events, n, ms))
LATE(int, sem_post, (sem_t *sem), (sem))
LATE(int, sem_wait, (sem_t *sem), (sem))
LATE(int, munmap, (void *at, size_t size), (at, size))
LATE(ssize_t, pwrite64, (int fd, const void *from, size_t size, off64_t at), (fd, from, size, at))
