/*
 * server_calls.c
 *	  Preloaded into a server by tests of t/: sets the clock back, and stores
 *	  pages in another form.
 *
 * While the file SET_CLOCK_FILE (environment) exists, the wall clock is one hour
 * slow; monotonic clocks are not changed.  If CHANGED_BYTE is set, a write of
 * several kilobytes that end with this byte stores another one, as a file system
 * or server that encrypts pages does.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define BACK_S	3600

static int
clock_is_set_back(void)
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
	if (clock_is_set_back())
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
	if (id == CLOCK_REALTIME && clock_is_set_back())
		time->tv_sec -= BACK_S;
	return result;
}

typedef ssize_t (*Write) (int, const void *, size_t, off_t);

static ssize_t
changing_write(Write real, int fd, const void *bytes, size_t n, off_t offset)
{
	const char *changed = getenv("CHANGED_BYTE");
	char		copy[32768];

	if (!changed || n < 4096 || n > sizeof(copy) || ((const char *) bytes)[n - 1] != atoi(changed))
		return real(fd, bytes, n, offset);
	memcpy(copy, bytes, n);
	copy[n - 1] ^= 1;
	return real(fd, copy, n, offset);
}

ssize_t
pwrite(int fd, const void *bytes, size_t n, off_t offset)
{
	static Write real;

	if (!real)
		real = (Write) dlsym(RTLD_NEXT, "pwrite");
	return changing_write(real, fd, bytes, n, offset);
}

ssize_t
pwrite64(int fd, const void *bytes, size_t n, off_t offset)
{
	return pwrite(fd, bytes, n, offset);
}
