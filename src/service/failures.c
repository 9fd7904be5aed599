/*
 * failures.c
 *	  Failures of devices: counts by device and reason, and the server's log.
 *
 * The counts since the server's start or gpusort_stat_reset() are in shared memory, under
 * a lock of their own.  The device process takes no lock, so it does not count: a backend
 * counts the failure of its job, and the supervisor the failure of a process.
 *
 * A device may fail many sorts for the same reason.  The log gets one line for the
 * reason, not one for each sort.  Shared memory has hashes of the reasons that were
 * logged.  The text is hashed without its digits, because numbers of bytes differ from
 * sort to sort.  The device process's generation is hashed, too, because the failures of
 * a new process are worth a new line.  A reason that continues is logged again after a
 * minute, with the number of sorts that failed meanwhile.
 *
 * On error: nothing here fails.  If there are more reasons than entries, the oldest one
 * is replaced.
 */
#include "postgres.h"

#include <ctype.h>

#include "common/hashfn.h"
#include "service/service_internal.h"
#include "shared_memory.h"
#include "utils/timestamp.h"

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
device_failures_count(int device, const char *reason)
{
	TimestampTz now = GetCurrentTimestamp();
	char		text[DEVICE_FAILURE_SIZE];
	DeviceFailureCount *place;

	if (counts == NULL)
		return;
	strlcpy(text, reason[0] == '\0' ? "no reason was reported" : reason, sizeof(text));
	LWLockAcquire(counts_lock, LW_EXCLUSIVE);
	place = &counts[0];
	for (int i = 0; i < DEVICE_FAILURES; i++)
	{
		DeviceFailureCount *count = &counts[i];

		if (count->failures > 0 && count->device == device && is_same_reason(count->reason, text))
		{
			place = count;
			break;
		}
		/* otherwise the oldest entry, or an empty one, whose time is 0 */
		if (count->last < place->last)
			place = count;
	}
	if (place->device != device || !is_same_reason(place->reason, text))
		place->failures = 0;
	place->device = device;
	place->failures++;
	place->last = now;
	strlcpy(place->reason, text, sizeof(place->reason));
	LWLockRelease(counts_lock);
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

/* ------------------------------------------------------------------------
 * The server's log
 * ------------------------------------------------------------------------
 */

/* A reason that continues is logged again after this time. */
#define REPEAT_AFTER_US		(UINT64CONST(60) * 1000 * 1000)

static uint32
hash_reason(const char *why)
{
	uint32		hash = pg_atomic_read_u32(&device_shared->generation);

	for (; *why != '\0'; why++)
	{
		if (!isdigit((unsigned char) *why))
			hash = hash_combine(hash, (uint32) (unsigned char) *why);
	}
	/* 0 is an empty entry */
	return Max(hash, 1);
}

/*
 * Counts a failure for this reason.  True if it must be logged now: *repeated is then the
 * number of failures since it was last logged.
 */
static bool
is_to_be_logged(uint32 reason, uint32 *repeated)
{
	uint64		now = device_now_us();
	DeviceFailure *place = &device_shared->logged[0];
	bool		due;

	LWLockAcquire(device_lock, LW_EXCLUSIVE);
	for (int i = 0; i < DEVICE_LOGGED; i++)
	{
		DeviceFailure *f = &device_shared->logged[i];

		if (f->reason == reason)
		{
			place = f;
			break;
		}
		if (f->logged_us < place->logged_us)
			place = f;
	}
	*repeated = place->reason == reason ? place->repeated : 0;
	due = place->reason != reason || now - place->logged_us >= REPEAT_AFTER_US;
	if (due)
	{
		place->reason = reason;
		place->logged_us = now;
		place->repeated = 0;
	}
	else
		place->repeated++;
	LWLockRelease(device_lock);
	return due;
}

void
device_log_failure(const char *why)
{
	uint32		repeated;

	if (!is_to_be_logged(hash_reason(why), &repeated))
	{
		ereport(DEBUG1,
				(errmsg_internal("a sort continues without the GPU: %s", why)));
		return;
	}
	ereport(LOG,
			(errmsg("a sort continues without the GPU: %s", why),
			 repeated == 0 ? 0 :
			 errdetail_plural("%u other sort failed for this reason since it was last logged.",
							  "%u other sorts failed for this reason since it was last logged.",
							  repeated, repeated)));
}
