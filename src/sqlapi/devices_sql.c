/*
 * devices_sql.c
 *	  gpusort_devices() and gpusort_device_stat: the GPUs in use, and what sorts have of them.
 */
#include "postgres.h"

#include "catalog/pg_authid.h"
#include "device/clock.h"
#include "device/service/service.h"
#include "device/service/staging.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "settings.h"
#include "sqlapi/sqlapi.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/tuplestore.h"

PG_FUNCTION_INFO_V1(gpusort_devices);

/* The view's; the function has the first 13. */
#define DEVICES_COLS	14

typedef struct DeviceUse
{
	int			jobs;			/* slots that are not free */
	int			chunks;
	int			waiting;
	int			device_jobs[DEVICE_MAX];
	uint64		device_bytes[DEVICE_MAX];
} DeviceUse;

static void
count_use(DeviceUse *use)
{
	memset(use, 0, sizeof(*use));
	LWLockAcquire(device_shared->lock, LW_SHARED);
	use->waiting = device_shared->nwaiting;
	for (int i = 0; i < DEVICE_SLOTS; i++)
	{
		DeviceSlot *slot = &device_shared->slots[i];

		if (device_slot_state(pg_atomic_read_u32(&slot->state)) == DEVICE_SLOT_FREE)
			continue;
		use->jobs++;
		use->chunks += slot->nchunks;
		use->device_jobs[slot->device] += device_slot_is_current(slot) && !slot->feeds;
		use->device_bytes[slot->device] += device_slot_memory(slot);
	}
	LWLockRelease(device_shared->lock);
}

static const char *
service_state(DeviceServiceState state)
{
	switch (state)
	{
		case DEVICE_SERVICE_DOWN:
			return "down";
		case DEVICE_SERVICE_STARTING:
			return "starting";
		case DEVICE_SERVICE_READY:
			return "ready";
		case DEVICE_SERVICE_LEAVING:
			return "leaving";
		case DEVICE_SERVICE_IDLE:
			return "idle";
		case DEVICE_SERVICE_OFF:
			return "off";
		case DEVICE_SERVICE_NONE:
			return "none";
	}
	return "unknown";
}

/* Why there is no service; the words that EXPLAIN's reader will look up. */
static const char *
no_service_state(void)
{
	if (strcmp(gpusort_device, "off") == 0 || gpusort_staging_memory == 0)
		return "off";
	if (!device_driver_present() && !gpusort_device_library_set())
		return "none: no driver";
	if (!device_library_present())
		return "none: no device library";
	if (device_service_lacks_worker())
		return "none: no background worker is free (max_worker_processes)";
	return "none: gpusort is not in shared_preload_libraries";
}

/* When is a device looked for again? */
static const char *
retry_words(void)
{
	uint64		now = device_now_us();

	if (device_shared->retry_us == 0)
		return "";
	if (device_shared->retry_us <= now)
		return "; tried again when a sort asks";
	return psprintf("; tried again when a sort asks in " INT64_FORMAT " s or later",
					(int64) ((device_shared->retry_us - now + 999999) / 1000000));
}

const char *
gpusort_device_words(void)
{
	DeviceServiceState state;
	const char *detail = "";

	if (device_shared == NULL)
		return no_service_state();
	state = (DeviceServiceState) pg_atomic_read_u32(&device_shared->state);
	if (state == DEVICE_SERVICE_READY || device_shared->why_not[0] == '\0')
		return service_state(state);
	/* names of files are for those who may see gpusort.device_library */
	if (device_shared->why_detail[0] != '\0' && has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_SETTINGS))
		detail = psprintf(": %.*s", (int) sizeof(device_shared->why_detail) - 1, device_shared->why_detail);
	return psprintf("%s: %.*s%s%s", service_state(state),
					(int) sizeof(device_shared->why_not) - 1, device_shared->why_not, detail,
					state == DEVICE_SERVICE_NONE ? retry_words() : "");
}

Datum
gpusort_devices(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	Datum		values[DEVICES_COLS] = {0};
	bool		nulls[DEVICES_COLS];
	DeviceServiceState state;
	DeviceUse	use;

	InitMaterializedSRF(fcinfo, 0);
	memset(nulls, true, sizeof(nulls));
	if (device_shared == NULL)
	{
		values[2] = CStringGetTextDatum(gpusort_device_words());
		nulls[2] = false;
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
		return (Datum) 0;
	}

	state = (DeviceServiceState) pg_atomic_read_u32(&device_shared->state);
	count_use(&use);
	values[2] = CStringGetTextDatum(gpusort_device_words());
	values[7] = Int32GetDatum(DEVICE_SLOTS - use.jobs);
	values[8] = Int64GetDatum((int64) (device_shared->staging_chunks * device_shared->chunk_size));
	values[9] = Int64GetDatum((int64) ((device_shared->staging_chunks - use.chunks) *
									   device_shared->chunk_size));
	values[10] = Int32GetDatum((int32) pg_atomic_read_u32(&device_shared->process_pid));
	values[11] = Int32GetDatum((int32) pg_atomic_read_u32(&device_shared->restarts));
	values[12] = Int32GetDatum(use.waiting);
	nulls[2] = nulls[7] = nulls[8] = nulls[9] = nulls[11] = nulls[12] = false;
	nulls[10] = pg_atomic_read_u32(&device_shared->process_pid) == 0;
	if (state != DEVICE_SERVICE_READY && state != DEVICE_SERVICE_LEAVING)
	{
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
		return (Datum) 0;
	}
	nulls[0] = nulls[1] = nulls[3] = nulls[4] = nulls[5] = nulls[6] = nulls[13] = false;
	for (int d = 0; d < device_shared->ndevices; d++)
	{
		const DeviceEntry *entry = &device_shared->devices[d];

		values[0] = Int32GetDatum(entry->index);
		values[1] = CStringGetTextDatum(entry->name);
		values[3] = Int64GetDatum((int64) entry->memory_total);
		values[4] = Int64GetDatum((int64) entry->budget);
		values[5] = Int64GetDatum((int64) use.device_bytes[d]);
		values[6] = Int32GetDatum(use.device_jobs[d]);
		values[13] = Int64GetDatum((int64) entry->kept);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}
