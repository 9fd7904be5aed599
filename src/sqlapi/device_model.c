/*
 * device_model.c
 *	  What is known of GPUs, as SQL functions: gpusort_device_model(), and
 *	  gpusort_calibrate()'s part of them.
 */
#include "postgres.h"

#include <math.h>
#include <time.h>

#include "device/admission/admission.h"
#include "device/admission/queue.h"
#include "device/clock.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "route/gpu_model.h"
#include "settings.h"
#include "sort/device/device_learn.h"
#include "sqlapi/device_model.h"
#include "storage/latch.h"
#include "utils/builtins.h"
#include "utils/float.h"
#include "utils/tuplestore.h"

PG_FUNCTION_INFO_V1(gpusort_device_model);

/* What gpusort_calibrate() waits for the devices, and between two looks. */
#define CALIBRATE_PATIENCE_US	10e6
#define CALIBRATE_LOOK_MS		10

/* log2_rows < 0, and a measured that is no number, are NULL. */
static void
put_part(ReturnSetInfo *rsinfo, int device, const char *part, int log2_rows, double measured,
		 double factor, uint32 jobs)
{
	Datum		values[6];
	bool		nulls[6] = {false, false, log2_rows < 0, isnan(measured), false, false};

	values[0] = Int32GetDatum(device);
	values[1] = CStringGetTextDatum(part);
	values[2] = Int32GetDatum(log2_rows);
	values[3] = Float8GetDatum(measured);
	values[4] = Float8GetDatum(factor);
	values[5] = Int64GetDatum(jobs);
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

static void
put_device(ReturnSetInfo *rsinfo, const LearnDevice *who)
{
	GpuLearned	learned;
	GpuFactors	factors;

	gpusort_learned(who, &learned);
	gpu_learn_factors(&learned, 1, (int64) time(NULL), &factors);
	for (int p = 0; p < GPU_PARTS; p++)
	{
		const Factor *part = &learned.part[p];

		put_part(rsinfo, who->number, gpu_part_name((GpuPart) p),
				 p < GPU_PART_SORT ? -1 : DEVICE_MEASURED_FIRST +
				 DEVICE_MEASURED_STEP * ((p - GPU_PART_SORT) % GPU_SORT_SIZES),
				 part->is_measured ? exp(part->measured) : get_float8_nan(),
				 exp(factors.log[p]), part->jobs);
	}
	put_part(rsinfo, who->number, "load", -1, get_float8_nan(), factors.busy, learned.load_jobs);
}

Datum
gpusort_device_model(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	LearnDevice who;

	InitMaterializedSRF(fcinfo, 0);
	if (device_shared == NULL)
		return (Datum) 0;
	for (int d = 0; d < device_shared->ndevices; d++)
	{
		if (device_learn_who(d, &who))
			put_device(rsinfo, &who);
	}
	return (Datum) 0;
}

/* Has it been measured since? */
static bool
is_measured(int device, uint32 before)
{
	uint32		now = device_shared->devices[device].measurements;

	return now % 2 == 0 && now > before;
}

static void
put_measured(ReturnSetInfo *rsinfo, const LearnDevice *who)
{
	DeviceMeasured measured = *(const DeviceMeasured *) who->measured;
	const GpusortCosts *costs = who->costs;

#define PUT(name, log2_rows, library, value) \
	do { \
		if ((value) > 0) \
			gpusort_put_constant(rsinfo, psprintf("gpu%d_%s", who->number, name), log2_rows, library, value); \
	} while (0)

	PUT("up", -1, costs->copy_ns, measured.up_ns);
	PUT("down", -1, costs->copy_ns, measured.down_ns);
	PUT("up_1MB", -1, costs->copy_ns, measured.up_small_ns);
	PUT("down_1MB", -1, costs->copy_ns, measured.down_small_ns);
	PUT("launches", -1, costs->job_us * 1000, measured.launch_us * 1000);
	for (int w = 0; w < 3; w++)
	{
		for (int size = 0; size < DEVICE_MEASURED_SIZES; size++)
		{
			int			log2_rows = DEVICE_MEASURED_FIRST + DEVICE_MEASURED_STEP * size;
			RouteFacts	facts = {.n = (size_t) 1 << log2_rows};

			facts.gpu.key_width = facts.gpu.key_bits = 32 << w;
			facts.gpu.costs = costs;
			PUT(gpu_part_name((GpuPart) (GPU_PART_SORT + w * GPU_SORT_SIZES)), log2_rows,
				gpu_sort_us((AlgorithmId) measured.algorithm, &facts) * 1000 / facts.n,
				measured.sort_us[w][size] * 1000 / facts.n);
		}
	}
#undef PUT
}

void
gpusort_calibrate_devices(ReturnSetInfo *rsinfo)
{
	uint64		start = device_now_us();
	uint32		before;

	if (device_bring_back(CALIBRATE_PATIENCE_US) != DEVICE_STATE_READY)
		return;
	before = device_shared->measurements;
	pg_atomic_fetch_add_u32(&device_shared->measure_asked, 1);
	device_wake_process();
	for (int d = 0; d < device_shared->ndevices; d++)
	{
		LearnDevice who;

		while (!is_measured(d, before) && (double) (device_now_us() - start) < CALIBRATE_PATIENCE_US)
		{
			(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
							 CALIBRATE_LOOK_MS, queue_wait_event());
			ResetLatch(MyLatch);
			CHECK_FOR_INTERRUPTS();
		}
		if (!device_learn_who(d, &who))
			continue;
		if (!is_measured(d, before))
		{
			ereport(WARNING,
					(errmsg("device %d was busy and has not been measured", who.number)));
			continue;
		}
		gpusort_learn_forget(&who);
		put_measured(rsinfo, &who);
	}
}
