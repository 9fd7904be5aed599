/*
 * device_functions.c
 *	  gpusort_devices(), gpusort_device_stat and gpusort_device_failures: state, use
 *	  and failures of the GPUs.
 */
#include "postgres.h"

#include "catalog/pg_authid.h"
#include "compat.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "service/service.h"
#include "settings.h"
#include "sql/sql_functions.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

SQL_FUNCTION(gpusort_devices);
SQL_FUNCTION(gpusort_device_stat_get);
SQL_FUNCTION(gpusort_device_failures_get);

/* Columns of the view; gpusort_devices() has the columns before COL_MEMORY_KEPT. */
enum
{
	COL_DEVICE, COL_NAME, COL_STATE, COL_MEMORY_TOTAL, COL_MEMORY_BUDGET, COL_MEMORY_USED, COL_JOBS,
	COL_FREE_JOBS, COL_STAGING_TOTAL, COL_STAGING_FREE, COL_PID, COL_RESTARTS, COL_WAITING, COL_MEMORY_KEPT,
	COL_JOBS_DONE, COL_JOBS_FAILED, COL_BUSY_SECONDS, COL_BYTES_UP, COL_BYTES_DOWN,
	COL_COUNT
};

static const char *const service_states[] = {
	[DEVICE_SERVICE_DOWN] = "down",
	[DEVICE_SERVICE_STARTING] = "starting",
	[DEVICE_SERVICE_READY] = "ready",
	[DEVICE_SERVICE_LEAVING] = "leaving",
	[DEVICE_SERVICE_IDLE] = "idle",
	[DEVICE_SERVICE_OFF] = "off",
	[DEVICE_SERVICE_NONE] = "none"
};

/* When does the service look for a device again? */
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
		return device_service_why_none();
	state = (DeviceServiceState) pg_atomic_read_u32(&device_shared->state);
	if (state == DEVICE_SERVICE_READY || device_shared->absence.why_not[0] == '\0')
		return service_states[state];
	/* file names only for roles that may see gpusort.device_library */
	if (device_shared->absence.detail[0] != '\0' && has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_SETTINGS))
		detail = psprintf(": %.*s", (int) sizeof(device_shared->absence.detail) - 1, device_shared->absence.detail);
	return psprintf("%s: %.*s%s%s", service_states[state],
					(int) sizeof(device_shared->absence.why_not) - 1, device_shared->absence.why_not, detail,
					state == DEVICE_SERVICE_NONE ? retry_words() : "");
}

/* Fills the columns of the service, which do not depend on the device. */
static void
fill_service(Datum *values, bool *nulls, const DeviceUse *use)
{
	values[COL_STATE] = CStringGetTextDatum(gpusort_device_words());
	values[COL_FREE_JOBS] = Int32GetDatum(DEVICE_SLOTS - use->jobs);
	values[COL_STAGING_TOTAL] = Int64GetDatum((int64) (device_shared->staging_chunks * device_shared->chunk_size));
	values[COL_STAGING_FREE] = Int64GetDatum((int64) ((device_shared->staging_chunks - use->chunks) *
													  device_shared->chunk_size));
	values[COL_PID] = Int32GetDatum((int32) pg_atomic_read_u32(&device_shared->process.pid));
	values[COL_RESTARTS] = Int32GetDatum((int32) pg_atomic_read_u32(&device_shared->process.restarts));
	values[COL_WAITING] = Int32GetDatum(use->waiting);
	nulls[COL_STATE] = nulls[COL_FREE_JOBS] = nulls[COL_STAGING_TOTAL] = nulls[COL_STAGING_FREE] = false;
	nulls[COL_RESTARTS] = nulls[COL_WAITING] = false;
	nulls[COL_PID] = pg_atomic_read_u32(&device_shared->process.pid) == 0;
}

/* Fills the columns of an open device, by its index in the list. */
static void
fill_device(Datum *values, bool *nulls, const DeviceUse *use, int d)
{
	const DeviceEntry *entry = &device_shared->devices[d];

	values[COL_DEVICE] = Int32GetDatum(entry->index);
	values[COL_NAME] = CStringGetTextDatum(entry->name);
	values[COL_MEMORY_TOTAL] = Int64GetDatum((int64) entry->memory_total);
	values[COL_MEMORY_BUDGET] = Int64GetDatum((int64) entry->budget);
	values[COL_MEMORY_USED] = Int64GetDatum((int64) use->device_bytes[d]);
	values[COL_JOBS] = Int32GetDatum(use->device_jobs[d]);
	values[COL_MEMORY_KEPT] = Int64GetDatum((int64) entry->kept);
	nulls[COL_DEVICE] = nulls[COL_NAME] = nulls[COL_MEMORY_TOTAL] = nulls[COL_MEMORY_BUDGET] = false;
	nulls[COL_MEMORY_USED] = nulls[COL_JOBS] = nulls[COL_MEMORY_KEPT] = false;
}

/* Fills the counters of a device, by CUDA's number. */
static void
fill_counters(Datum *values, bool *nulls, int number)
{
	DeviceCounters *counters = &device_shared->counters[number];

	values[COL_DEVICE] = Int32GetDatum(number);
	values[COL_NAME] = CStringGetTextDatum(counters->name);
	values[COL_JOBS_DONE] = Int64GetDatum((int64) pg_atomic_read_u64(&counters->done));
	values[COL_JOBS_FAILED] = Int64GetDatum((int64) pg_atomic_read_u64(&counters->failed));
	values[COL_BUSY_SECONDS] = Float8GetDatum((double) pg_atomic_read_u64(&counters->busy_us) / 1e6);
	values[COL_BYTES_UP] = Int64GetDatum((int64) pg_atomic_read_u64(&counters->bytes_up));
	values[COL_BYTES_DOWN] = Int64GetDatum((int64) pg_atomic_read_u64(&counters->bytes_down));
	nulls[COL_DEVICE] = nulls[COL_NAME] = nulls[COL_JOBS_DONE] = nulls[COL_JOBS_FAILED] = false;
	nulls[COL_BUSY_SECONDS] = nulls[COL_BYTES_UP] = nulls[COL_BYTES_DOWN] = false;
}

static bool
devices_are_open(void)
{
	uint32		state = pg_atomic_read_u32(&device_shared->state);

	return state == DEVICE_SERVICE_READY || state == DEVICE_SERVICE_LEAVING;
}

static void
put_row(ReturnSetInfo *rsinfo, Datum *values, bool *nulls)
{
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

/* Older SQL versions of this function declare fewer columns: the first of these. */
Datum
gpusort_devices(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	Datum		values[COL_COUNT] = {0};
	bool		nulls[COL_COUNT];
	DeviceUse	use;

	InitMaterializedSRF(fcinfo, 0);
	memset(nulls, true, sizeof(nulls));
	if (device_shared == NULL)
	{
		values[COL_STATE] = CStringGetTextDatum(gpusort_device_words());
		nulls[COL_STATE] = false;
		put_row(rsinfo, values, nulls);
		return (Datum) 0;
	}

	device_use_read(&use);
	fill_service(values, nulls, &use);
	if (!devices_are_open())
		put_row(rsinfo, values, nulls);
	else
	{
		for (int d = 0; d < device_shared->ndevices; d++)
		{
			fill_device(values, nulls, &use, d);
			put_row(rsinfo, values, nulls);
		}
	}
	return (Datum) 0;
}

/*
 * gpusort_device_stat_get(): the columns of gpusort_devices() and the counters, for each
 * device that was opened since the server's start.  The memory of a device that is not
 * open is NULL.
 */
Datum
gpusort_device_stat_get(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	Datum		values[COL_COUNT] = {0};
	bool		nulls[COL_COUNT];
	DeviceUse	use;
	int			rows = 0;

	if (device_shared == NULL)
		return gpusort_devices(fcinfo);
	InitMaterializedSRF(fcinfo, 0);
	device_use_read(&use);
	for (int number = 0; number < DEVICE_MAX; number++)
	{
		if (device_shared->counters[number].name[0] == '\0')
			continue;
		memset(nulls, true, sizeof(nulls));
		fill_service(values, nulls, &use);
		fill_counters(values, nulls, number);
		for (int d = 0; d < device_shared->ndevices && devices_are_open(); d++)
		{
			if (device_shared->devices[d].index == number)
				fill_device(values, nulls, &use, d);
		}
		put_row(rsinfo, values, nulls);
		rows++;
	}
	if (rows == 0)
	{
		memset(nulls, true, sizeof(nulls));
		fill_service(values, nulls, &use);
		put_row(rsinfo, values, nulls);
	}
	return (Datum) 0;
}

/* gpusort_device_failures_get(OUT device int, OUT reason text, OUT failures bigint, OUT last_failure timestamptz) */
Datum
gpusort_device_failures_get(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	DeviceFailureCount *all = palloc(DEVICE_FAILURES * sizeof(DeviceFailureCount));
	int			n = device_failures_read(all);

	InitMaterializedSRF(fcinfo, 0);
	for (int i = 0; i < n; i++)
	{
		Datum		values[4];
		bool		nulls[4] = {all[i].device < 0, false, false, false};

		values[0] = Int32GetDatum(all[i].device);
		values[1] = CStringGetTextDatum(all[i].reason);
		values[2] = Int64GetDatum((int64) all[i].failures);
		values[3] = TimestampTzGetDatum(all[i].last);
		put_row(rsinfo, values, nulls);
	}
	return (Datum) 0;
}
