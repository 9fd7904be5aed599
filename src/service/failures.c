/*
 * failures.c
 *	  Failures of devices: counts by device and reason, and the server's log.
 *
 * The counts since the server's start or gpusort_stat_reset() are in shared memory, under
 * a lock of their own.  The device process takes no lock, so it does not count: a backend
 * counts the failure of its job, and the supervisor the failure of a process.
 *
 * A device may fail many sorts for the same reason.  The log gets one line for the
 * reason, not one for each sort.  A reason that continues is logged again after a minute,
 * with the number of sorts that failed meanwhile, and at once after a new device process
 * has started.
 *
 * On error: nothing here fails.  If there are more reasons than entries, the oldest one
 * is replaced.
 */
#include "postgres.h"

#include <ctype.h>

#include "service/service_internal.h"
#include "shared_memory.h"
#include "utils/timestamp.h"

/* A reason that continues is logged again after this time. */
#define REPEAT_AFTER_MS		60000

/* DEVICE_FAILURES counts; NULL without shared memory. */
static DeviceFailureCount *counts = NULL;
static LWLock *counts_lock = NULL;

void
device_failures_init(void)
{
	static const SharedPart part = {
		.memory = (void **) &counts,
		.size = DEVICE_FAILURES * sizeof(DeviceFailureCount),
		.lock = &counts_lock,
		.lock_name = "gpusort_device_failures"
	};

	shared_memory_add(&part);
}

/* Do the texts differ at most in their digits? */
static bool
is_same_reason(const char *a, const char *b)
{
	for (;;)
	{
		while (isdigit((unsigned char) *a))
			a++;
		while (isdigit((unsigned char) *b))
			b++;
		if (*a != *b)
			return false;
		if (*a == '\0')
			return true;
		a++;
		b++;
	}
}

void
device_failures_count(int device, const char *reason, bool of_sort)
{
	uint32		generation = pg_atomic_read_u32(&device_shared->generation);
	TimestampTz now = GetCurrentTimestamp();
	char		text[DEVICE_FAILURE_SIZE];
	DeviceFailureCount *place = &counts[0];
	bool		known = false;
	uint64		repeated;
	bool		due;

	strlcpy(text, reason[0] == '\0' ? "no reason was reported" : reason, sizeof(text));
	LWLockAcquire(counts_lock, LW_EXCLUSIVE);
	for (int i = 0; i < DEVICE_FAILURES && !known; i++)
	{
		DeviceFailureCount *count = &counts[i];

		known = count->failures > 0 && count->device == device && is_same_reason(count->reason, text);
		/* otherwise the oldest entry, or an empty one, whose time is 0 */
		if (known || count->last < place->last)
			place = count;
	}
	if (!known)
		memset(place, 0, sizeof(*place));
	place->device = device;
	place->failures++;
	place->last = now;
	strlcpy(place->reason, text, sizeof(place->reason));
	repeated = place->not_logged;
	due = of_sort && (place->logged_generation != generation ||
					  TimestampDifferenceExceeds(place->logged, now, REPEAT_AFTER_MS));
	place->not_logged += of_sort;
	if (due)
	{
		place->not_logged = 0;
		place->logged = now;
		place->logged_generation = generation;
	}
	LWLockRelease(counts_lock);

	if (of_sort)
		ereport(due ? LOG : DEBUG1,
				(errmsg("a sort continues without the GPU: %s", reason),
				 !due || repeated == 0 ? 0 :
				 errdetail_plural("%llu other sort failed for this reason since it was last logged.",
								  "%llu other sorts failed for this reason since it was last logged.",
								  (unsigned long) repeated, (unsigned long long) repeated)));
}

int
device_failures_read(DeviceFailureCount *all)
{
	int			n = 0;

	if (counts == NULL)
		return 0;
	LWLockAcquire(counts_lock, LW_SHARED);
	for (int i = 0; i < DEVICE_FAILURES; i++)
	{
		if (counts[i].failures > 0)
			all[n++] = counts[i];
	}
	LWLockRelease(counts_lock);
	return n;
}

void
device_failures_reset(void)
{
	if (counts == NULL)
		return;
	LWLockAcquire(counts_lock, LW_EXCLUSIVE);
	memset(counts, 0, DEVICE_FAILURES * sizeof(DeviceFailureCount));
	LWLockRelease(counts_lock);
}
