/*
 * fault.c
 *	  Fault injection for tests (gpusort.device_fault).
 *
 * A fault happens at a point of a job (FaultPlace) and is of a kind.  The backend and the
 * device process call a function of this file at each point.
 */
#include "postgres.h"

#include <signal.h>
#include <unistd.h>

#include "access/htup_details.h"
#include "service/process_internal.h"
#include "settings.h"
#include "utils/wait_event.h"

/* Patience of a sort that waits without a limit. */
#define PATIENT_US		1e12

/* Time for which a finished job is kept. */
#define LINGER_US		300000

typedef enum FaultKind
{
	FAULT_NONE,
	FAULT_MEMORY,
	FAULT_ERROR,
	FAULT_KILL,
	FAULT_HANG,					/* the job stops as if it had no more work */
	FAULT_STALL,				/* the job stops as if the device made no progress */
	FAULT_FREEZE,				/* the process or the backend is stuck in a call */
	FAULT_CORRUPT,
	FAULT_PATIENT				/* no fault: wait without a limit */
} FaultKind;

static const struct
{
	FaultPlace	place;
	FaultKind	kind;
}			faults[] = {
	[DEVICE_FAULT_MEMORY_START] = {FAULT_START, FAULT_MEMORY},
	[DEVICE_FAULT_MEMORY_SORT] = {FAULT_SORT, FAULT_MEMORY},
	[DEVICE_FAULT_ERROR_UP] = {FAULT_UP, FAULT_ERROR},
	[DEVICE_FAULT_ERROR_SORT] = {FAULT_SORT, FAULT_ERROR},
	[DEVICE_FAULT_ERROR_DOWN] = {FAULT_DOWN, FAULT_ERROR},
	[DEVICE_FAULT_KILL_UP] = {FAULT_UP, FAULT_KILL},
	[DEVICE_FAULT_KILL_SORT] = {FAULT_SORT, FAULT_KILL},
	[DEVICE_FAULT_KILL_DOWN] = {FAULT_DOWN, FAULT_KILL},
	[DEVICE_FAULT_HANG_UP] = {FAULT_UP, FAULT_HANG},
	[DEVICE_FAULT_HANG_SORT] = {FAULT_SORT, FAULT_HANG},
	[DEVICE_FAULT_HANG_DOWN] = {FAULT_DOWN, FAULT_HANG},
	[DEVICE_FAULT_STALL] = {FAULT_SORT, FAULT_STALL},
	[DEVICE_FAULT_FREEZE] = {FAULT_SORT, FAULT_FREEZE},
	[DEVICE_FAULT_CORRUPT] = {FAULT_DOWN, FAULT_CORRUPT},
	[DEVICE_FAULT_CORRUPT_SIZE] = {FAULT_DOWN, FAULT_CORRUPT},
	[DEVICE_FAULT_CORRUPT_BIT] = {FAULT_DOWN, FAULT_CORRUPT},
	[DEVICE_FAULT_CORRUPT_PLACE] = {FAULT_DOWN, FAULT_CORRUPT},
	[DEVICE_FAULT_CORRUPT_COUNT] = {FAULT_DOWN, FAULT_CORRUPT},
	[DEVICE_FAULT_CORRUPT_LATE] = {FAULT_DOWN, FAULT_CORRUPT},
	[DEVICE_FAULT_PATIENT] = {FAULT_ADMISSION, FAULT_PATIENT},
	[DEVICE_FAULT_LINGER] = {FAULT_CLOSE, FAULT_PATIENT},
	[DEVICE_FAULT_HOLD_LOCK] = {FAULT_ADMISSION, FAULT_FREEZE},
	[DEVICE_FAULT_LATE_LEADER] = {FAULT_NOWHERE, FAULT_NONE},
	[DEVICE_FAULT_IMPATIENT] = {FAULT_NOWHERE, FAULT_NONE}
};

DeviceFault
fault_ordered(void)
{
	return (DeviceFault) gpusort_device_fault;
}

static FaultKind
kind_at(DeviceFault fault, FaultPlace place)
{
	return faults[fault].place == place ? faults[fault].kind : FAULT_NONE;
}

static FaultKind
fault_kind(const DeviceSlot *slot, FaultPlace place)
{
	return kind_at(slot->spec.fault, place);
}

double
fault_patience_us(double patience_us)
{
	return faults[fault_ordered()].kind == FAULT_PATIENT ? PATIENT_US : patience_us;
}

void
fault_admission(DeviceFault fault, uint32 wait_event)
{
	if (kind_at(fault, FAULT_ADMISSION) != FAULT_FREEZE)
		return;
	pgstat_report_wait_start(wait_event);
	for (;;)
		pg_usleep(1000000L);
}

GpusortStatus
fault_error(const DeviceSlot *slot, FaultPlace place, GpusortError *err)
{
	FaultKind	kind = fault_kind(slot, place);

	if (kind != FAULT_MEMORY && kind != FAULT_ERROR)
		return GPUSORT_OK;
	err->status = kind == FAULT_MEMORY ? GPUSORT_NO_MEMORY : GPUSORT_CUDA_ERROR;
	strlcpy(err->message, "fault injected by gpusort.device_fault", sizeof(err->message));
	return err->status;
}

bool
fault_will_stop(const DeviceSlot *slot, FaultPlace place)
{
	FaultKind	kind = fault_kind(slot, place);

	return kind == FAULT_KILL || kind == FAULT_HANG || kind == FAULT_STALL || kind == FAULT_FREEZE;
}

bool
fault_stops(const DeviceSlot *slot, ProcessJob *job, FaultPlace place)
{
	FaultKind	kind = fault_kind(slot, place);

	if (kind == FAULT_KILL)
		kill(getpid(), SIGKILL);
	if (kind == FAULT_STALL || kind == FAULT_FREEZE)
	{
		device_shared->patience_ms = DEVICE_TEST_PATIENCE_MS;
		device_wake_supervisor();	/* it reads patience_ms */
		while (kind == FAULT_FREEZE)
			pause();
	}
	if (kind != FAULT_HANG && kind != FAULT_STALL)
		return false;
	job->phase = JOB_HANGS;
	return true;
}

bool
fault_stalls(const DeviceSlot *slot)
{
	return slot->spec.fault == DEVICE_FAULT_STALL;
}

int
fault_device_patience_ms(const DeviceSlot *slot)
{
	return slot->spec.fault == DEVICE_FAULT_IMPATIENT ? DEVICE_TEST_PATIENCE_MS : device_shared->patience_ms;
}

bool
fault_lingers(const DeviceSlot *slot, const ProcessJob *job)
{
	return fault_kind(slot, FAULT_CLOSE) != FAULT_NONE &&
		(job->waiting_since == 0 || device_now_us() - job->waiting_since < LINGER_US);
}

/* Changes a key or a row id of a chunk. */
static void
corrupt_keys(const DeviceSlot *slot, uint32 counter)
{
	DeviceFault fault = slot->spec.fault;
	const DeviceChunkDesc *desc = &slot->down[counter % slot->nchunks];
	char	   *keys = device_chunk(slot, counter);
	uint32	   *rids = (uint32 *) (keys + desc->words_at);
	Size		width = slot->spec.key_width / 8;

	if (slot->spec.keys_only && fault == DEVICE_FAULT_CORRUPT_LATE)
		memcpy(keys + width, keys, width);
	else if (slot->spec.keys_only)
		keys[fault == DEVICE_FAULT_CORRUPT_BIT ? width - 1 : 0] ^=
			fault == DEVICE_FAULT_CORRUPT_BIT ? 0x80 : 1;
	else if (fault == DEVICE_FAULT_CORRUPT_LATE)
		rids[0] = 0;			/* the first row of the input */
	else if (fault == DEVICE_FAULT_CORRUPT_BIT)
		rids[0] ^= 0x80000000;
	else
		rids[0] = rids[desc->rows - 1];
}

/* Changes a row of a chunk, or replaces it with the first row of the first chunk. */
static void
corrupt_row(const DeviceSlot *slot, uint32 counter)
{
	static char first[64];
	char	   *row = device_chunk(slot, counter);

	switch (slot->spec.fault)
	{
		case DEVICE_FAULT_CORRUPT_LATE:
			if (counter == 0)
				memcpy(first, row, sizeof(first));
			else if (memcmp(first, row, sizeof(uint32)) == 0)
				memcpy(row, first, Min(sizeof(first), *(uint32 *) row));
			break;
		case DEVICE_FAULT_CORRUPT_BIT:
			((MinimalTuple) row)->t_hoff ^= 0x80;
			break;
		case DEVICE_FAULT_CORRUPT_SIZE:
			((MinimalTuple) row)->t_len = PG_UINT32_MAX;
			break;
		default:
			row[16] ^= 1;		/* past its header */
			break;
	}
}

void
fault_corrupt(DeviceSlot *slot, uint32 counter)
{
	DeviceFault fault = slot->spec.fault;
	DeviceChunkDesc *desc = &slot->down[counter % slot->nchunks];
	bool		late = fault == DEVICE_FAULT_CORRUPT_LATE;

	if (fault_kind(slot, FAULT_DOWN) != FAULT_CORRUPT)
		return;
	if (slot->spec.mode == DEVICE_ROWS && late && counter == 0)
		corrupt_row(slot, counter);
	if (counter != (late ? 1 : 0))
		return;
	if (fault == DEVICE_FAULT_CORRUPT_PLACE)
	{
		desc->words_at = (uint32) device_shared->chunk_size - sizeof(uint32);
		desc->rows_at = (uint32) device_shared->chunk_size + MAXIMUM_ALIGNOF;
	}
	else if (fault == DEVICE_FAULT_CORRUPT_COUNT)
		desc->rows++;
	else if (slot->spec.mode == DEVICE_KEYS)
		corrupt_keys(slot, counter);
	else
		corrupt_row(slot, counter);
}
