/*
 * failure_log.c
 *	  Which failures of devices are news for the server's log.
 *
 * A device that is full, or that has ended, fails many sorts for one reason; the log gets
 * a line for the reason, not for each sort.  What has been logged is remembered in
 * shared memory: the reason's words without their numbers (bytes differ from sort to
 * sort), and the device process's generation, because what the next one runs into is
 * news again.  A reason that stays is repeated after a while, with the number of sorts
 * that it met since.  gpusort_stat counts every one of them.
 *
 * On error: nothing here fails; of more reasons at a time than there are places, the
 * oldest is forgotten.
 */
#include "postgres.h"

#include <ctype.h>

#include "common/hashfn.h"
#include "device/client/failure_log.h"
#include "device/clock.h"

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
	/* 0 is an empty place */
	return Max(hash, 1);
}

/* Is it news?  *others is how many sorts it met since it was logged. */
static bool
is_news(uint32 reason, uint32 *others)
{
	uint64		now = device_now_us();
	DeviceFailure *place = &device_shared->logged[0];
	bool		news;

	LWLockAcquire(device_shared->lock, LW_EXCLUSIVE);
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
	*others = place->reason == reason ? place->others : 0;
	news = place->reason != reason || now - place->logged_us >= REPEAT_AFTER_US;
	if (news)
	{
		place->reason = reason;
		place->logged_us = now;
		place->others = 0;
	}
	else
		place->others++;
	LWLockRelease(device_shared->lock);
	return news;
}

void
device_log_failure(const char *why)
{
	uint32		others;

	if (!is_news(hash_reason(why), &others))
	{
		ereport(DEBUG1,
				(errmsg_internal("a sort goes on without the GPU: %s", why)));
		return;
	}
	ereport(LOG,
			(errmsg("a sort goes on without the GPU: %s", why),
			 others == 0 ? 0 :
			 errdetail_plural("So did %u other sort since the last such line.",
							  "So did %u other sorts since the last such line.",
							  others, others)));
}
