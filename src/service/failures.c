/*
 * failures.c
 *	  Failures of devices by device and reason, for administrators.
 *
 * They lie in shared memory since the server's start, or gpusort_stat_reset(), under a lock of their own that
 * is held for a microsecond.  The device process does not write them, since it takes no lock: a
 * backend counts what its job was lost for, the supervisor what a process ended for.
 */
#include "postgres.h"

#include <ctype.h>

#include "service/service.h"
#include "shared_memory.h"
#include "storage/lwlock.h"
#include "utils/timestamp.h"

typedef struct FailuresShared
{
	LWLock	   *lock;
	DeviceFailureCount counts[DEVICE_FAILURES];
} FailuresShared;

static FailuresShared *shared = NULL;

static Size
failures_size(void)
{
	return sizeof(FailuresShared);
}

static void
failures_start(void *memory, bool found)
{
	shared = memory;
	if (found)
		return;
	memset(shared, 0, sizeof(*shared));
	shared->lock = &GetNamedLWLockTranche("gpusort_device_failures")->lock;
}

void
device_failures_init(void)
{
	static const SharedMemory wanted = {"gpusort_device_failures", failures_size, failures_start, true};

	gpusort_shared_memory(&wanted);
}

/* Are they the same, but for numbers? */
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
device_failures_count(int device, const char *reason)
{
	TimestampTz now = GetCurrentTimestamp();
	char		its[DEVICE_FAILURE_SIZE];
	DeviceFailureCount *place;

	if (shared == NULL)
		return;
	strlcpy(its, reason[0] == '\0' ? "no reason was told" : reason, sizeof(its));
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	place = &shared->counts[0];
	for (int i = 0; i < DEVICE_FAILURES; i++)
	{
		DeviceFailureCount *count = &shared->counts[i];

		if (count->failures > 0 && count->device == device && is_same_reason(count->reason, its))
		{
			place = count;
			break;
		}
		/* an empty place is older than any other */
		if (count->last < place->last)
			place = count;
	}
	if (place->failures == 0 || place->device != device || !is_same_reason(place->reason, its))
		place->failures = 0;
	place->device = device;
	place->failures++;
	place->last = now;
	strlcpy(place->reason, its, sizeof(place->reason));
	LWLockRelease(shared->lock);
}

int
device_failures_read(DeviceFailureCount *all)
{
	int			n = 0;

	if (shared == NULL)
		return 0;
	LWLockAcquire(shared->lock, LW_SHARED);
	for (int i = 0; i < DEVICE_FAILURES; i++)
	{
		if (shared->counts[i].failures > 0)
			all[n++] = shared->counts[i];
	}
	LWLockRelease(shared->lock);
	return n;
}

void
device_failures_reset(void)
{
	if (shared == NULL)
		return;
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	memset(shared->counts, 0, sizeof(shared->counts));
	LWLockRelease(shared->lock);
}
