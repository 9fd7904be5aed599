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

/* A row of the view. */
typedef struct DeviceRow
{
	Datum		values[COL_COUNT];
	bool		nulls[COL_COUNT];
} DeviceRow;

static inline void
put(DeviceRow *row, int column, Datum value)
{
	row->values[column] = value;
	row->nulls[column] = false;
}

/* Begins a row with the columns of the service, which do not depend on the device. */
static void
begin_row(DeviceRow *row, const DeviceUse *use)
{
	uint32		pid;

	memset(row->values, 0, sizeof(row->values));
	memset(row->nulls, true, sizeof(row->nulls));
	put(row, COL_STATE, CStringGetTextDatum(gpusort_device_words()));
	if (device_shared == NULL)
		return;
	put(row, COL_FREE_JOBS, Int32GetDatum(DEVICE_SLOTS - use->jobs));
	put(row, COL_STAGING_TOTAL, Int64GetDatum((int64) (device_shared->staging_chunks * device_shared->chunk_size)));
	put(row, COL_STAGING_FREE, Int64GetDatum((int64) ((device_shared->staging_chunks - use->chunks) *
													  device_shared->chunk_size)));
	pid = pg_atomic_read_u32(&device_shared->process.pid);
	if (pid != 0)
		put(row, COL_PID, Int32GetDatum((int32) pid));
	put(row, COL_RESTARTS, Int32GetDatum((int32) pg_atomic_read_u32(&device_shared->process.restarts)));
	put(row, COL_WAITING, Int32GetDatum(use->waiting));
}

/* Fills the columns of an open device, by its index in the list. */
static void
put_open_device(DeviceRow *row, const DeviceUse *use, int d)
{
	const DeviceEntry *entry = &device_shared->devices[d];

	put(row, COL_DEVICE, Int32GetDatum(entry->index));
	put(row, COL_NAME, CStringGetTextDatum(entry->name));
	put(row, COL_MEMORY_TOTAL, Int64GetDatum((int64) entry->memory_total));
	put(row, COL_MEMORY_BUDGET, Int64GetDatum((int64) entry->budget));
	put(row, COL_MEMORY_USED, Int64GetDatum((int64) use->device_bytes[d]));
	put(row, COL_JOBS, Int32GetDatum(use->device_jobs[d]));
	put(row, COL_MEMORY_KEPT, Int64GetDatum((int64) entry->kept));
}

/* Fills the counters of a device, by CUDA's number. */
static void
put_counters(DeviceRow *row, int number)
{
	DeviceCounters *counters = &device_shared->counters[number];

	put(row, COL_DEVICE, Int32GetDatum(number));
	put(row, COL_NAME, CStringGetTextDatum(counters->name));
	put(row, COL_JOBS_DONE, Int64GetDatum((int64) pg_atomic_read_u64(&counters->done)));
	put(row, COL_JOBS_FAILED, Int64GetDatum((int64) pg_atomic_read_u64(&counters->failed)));
	put(row, COL_BUSY_SECONDS, Float8GetDatum((double) pg_atomic_read_u64(&counters->busy_us) / 1e6));
	put(row, COL_BYTES_UP, Int64GetDatum((int64) pg_atomic_read_u64(&counters->bytes_up)));
	put(row, COL_BYTES_DOWN, Int64GetDatum((int64) pg_atomic_read_u64(&counters->bytes_down)));
}

/* The index in the list of the open device of this number; -1: it is not open. */
static int
open_device(int number)
{
	uint32		state = pg_atomic_read_u32(&device_shared->state);

	if (state != DEVICE_SERVICE_READY && state != DEVICE_SERVICE_LEAVING)
		return -1;
	for (int d = 0; d < device_shared->ndevices; d++)
	{
		if (device_shared->devices[d].index == number)
			return d;
	}
	return -1;
}

static void
put_row(ReturnSetInfo *rsinfo, DeviceRow *row)
{
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, row->values, row->nulls);
}

/*
 * Returns a row for each open device, or for each device that was opened since the server's
 * start, with its counters; a row without a device if there is none.
 */
static Datum
list_devices(FunctionCallInfo fcinfo, bool counted)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	DeviceUse	use = {0};
	DeviceRow	row;
	int			rows = 0;

	InitMaterializedSRF(fcinfo, 0);
	if (device_shared != NULL)
		device_use_read(&use);
	for (int number = 0; number < DEVICE_MAX && device_shared != NULL; number++)
	{
		int			d = open_device(number);

		if (counted ? device_shared->counters[number].name[0] == '\0' : d < 0)
			continue;
		begin_row(&row, &use);
		if (counted)
			put_counters(&row, number);
		if (d >= 0)
			put_open_device(&row, &use, d);
		put_row(rsinfo, &row);
		rows++;
	}
	if (rows == 0)
	{
		begin_row(&row, &use);
		put_row(rsinfo, &row);
	}
	return (Datum) 0;
}

/* Older SQL versions of this function declare fewer columns: the first of these. */
Datum
gpusort_devices(PG_FUNCTION_ARGS)
{
	return list_devices(fcinfo, false);
}

/* The columns of gpusort_devices(), whose memory is NULL if a device is not open, and the counters. */
Datum
gpusort_device_stat_get(PG_FUNCTION_ARGS)
{
	return list_devices(fcinfo, true);
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
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}
