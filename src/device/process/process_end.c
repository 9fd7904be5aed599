/*
 * process_end.c
 *	  How the device process ends: there is nothing to serve with, a device failed, or one hangs.
 *
 * The reason stands in shared memory, where the supervisor finds it to be logged.  Beside
 * process.c, as what the loop calls ends the process, too.
 */
#include "postgres.h"

#include <unistd.h>

#include "device/service/service.h"

/* The supervisor looks at what has changed. */
void
device_wake_supervisor(void)
{
	Latch	   *supervisor = device_shared->supervisor;

	if (supervisor != NULL)
		SetLatch(supervisor);
}

void
device_process_notes(int device, const char *format,...)
{
	uint32		n = pg_atomic_read_u32(&device_shared->notes);
	va_list		args;

	va_start(args, format);
	device_shared->note[n % DEVICE_NOTES].device = device;
	vsnprintf(device_shared->note[n % DEVICE_NOTES].text, DEVICE_NOTE_SIZE, format, args);
	va_end(args);
	pg_write_barrier();
	pg_atomic_write_u32(&device_shared->notes, n + 1);
	device_wake_supervisor();
}

void
device_process_gives_up(int code, const char *what, const char *detail)
{
	if (code == DEVICE_EXIT_NOTHING)
	{
		strlcpy(device_shared->why_not, what, sizeof(device_shared->why_not));
		strlcpy(device_shared->why_detail, detail, sizeof(device_shared->why_detail));
	}
	else
		snprintf(device_shared->why_not, sizeof(device_shared->why_not), "%s%s%s",
				 what, detail[0] ? ": " : "", detail);
	_exit(code);
}

void
device_process_fails(const char *format,...)
{
	va_list		args;

	va_start(args, format);
	vsnprintf(device_shared->why_not, sizeof(device_shared->why_not), format, args);
	va_end(args);
	if (device_shared->at_device >= 0)
		device_shared->failures[device_shared->at_device]++;
	_exit(1);
}

/*
 * With work under way on a device that does not answer, the end of a process may
 * take for ever: the backends must not wait for it.
 */
void
device_process_hangs(int device, int patience_ms)
{
	snprintf(device_shared->why_not, sizeof(device_shared->why_not),
			 "device %d has made no progress with a sort for %d s", device_shared->devices[device].index,
			 patience_ms / 1000);
	device_shared->at_device = device_shared->devices[device].index;
	pg_write_barrier();
	device_shared->hangs = 1;
	device_wake_supervisor();
	for (;;)
		pause();
}
