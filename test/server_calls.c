/*
 * set_clock.c
 *	  Preloaded into a server, sets its clock back by an hour from the moment on when the file
 *	  that SET_CLOCK_FILE names is there.  Clocks that nobody sets are left alone.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define BACK_S	3600

static int
is_set_back(void)
{
	const char *file = getenv("SET_CLOCK_FILE");

	return file && access(file, F_OK) == 0;
}

int
gettimeofday(struct timeval *restrict time, void *restrict zone)
{
	static int	(*real) (struct timeval *restrict, void *restrict);
	int			result;

	if (!real)
		real = (int (*) (struct timeval *restrict, void *restrict)) dlsym(RTLD_NEXT, "gettimeofday");
	result = real(time, zone);
	if (is_set_back())
		time->tv_sec -= BACK_S;
	return result;
}

int
clock_gettime(clockid_t id, struct timespec *time)
{
	static int	(*real) (clockid_t, struct timespec *);
	int			result;

	if (!real)
		real = (int (*) (clockid_t, struct timespec *)) dlsym(RTLD_NEXT, "clock_gettime");
	result = real(id, time);
	if (id == CLOCK_REALTIME && is_set_back())
		time->tv_sec -= BACK_S;
	return result;
}
