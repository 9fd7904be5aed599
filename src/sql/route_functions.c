/*
 * route_functions.c
 *	  SQL functions of the router, the cost models and the correction factors.
 */
#include "postgres.h"

#include <math.h>
#include <time.h>

#include "catalog/pg_type.h"
#include "compat.h"
#include "cost/cost.h"
#include "cost/store.h"
#include "funcapi.h"
#include "lib/stringinfo.h"
#include "service/service.h"
#include "sql/sql_functions.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/float.h"
#include "utils/tuplestore.h"

SQL_FUNCTION(gpusort_algorithms);
SQL_FUNCTION(gpusort_route);
SQL_FUNCTION(gpusort_calibrate);

const Algorithm *
gpusort_algorithm_from_name(const char *name)
{
	StringInfoData known;

	if (pg_strcasecmp(name, "auto") == 0)
		return NULL;
	FOR_EACH_ALGORITHM(a)
	{
		if (pg_strcasecmp(name, a->name) == 0)
			return a;
	}

	initStringInfo(&known);
	FOR_EACH_ALGORITHM(a)
		appendStringInfo(&known, ", %s", a->name);
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("unknown sort algorithm: \"%s\"", name),
			 errhint("Available algorithms: auto%s.", known.data)));
}

static ArrayType *
key_bits_array(unsigned formats)
{
	Datum		bits[3];
	int			n = 0;

	for (int format = SORT_REC_PACKED; format <= SORT_REC_128; format++)
	{
		if (formats & (1u << format))
			bits[n++] = Int32GetDatum(32 << format);
	}
	return construct_array(bits, n, INT4OID, sizeof(int32), true, TYPALIGN_INT);
}

/*
 * gpusort_algorithms(OUT algorithm text, OUT runs_on text, OUT key_bits int[],
 *					  OUT stable bool, OUT needs text, OUT paper text)
 */
Datum
gpusort_algorithms(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;

	InitMaterializedSRF(fcinfo, 0);
	FOR_EACH_ALGORITHM(a)
	{
		Datum		values[6];
		bool		nulls[6] = {false};

		values[0] = CStringGetTextDatum(a->name);
		values[1] = CStringGetTextDatum(algorithm_on_gpu(a) ? "gpu" : "cpu");
		values[2] = PointerGetDatum(key_bits_array(a->formats));
		values[3] = BoolGetDatum(a->stable);
		values[4] = CStringGetTextDatum(a->needs);
		values[5] = CStringGetTextDatum(a->paper);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}

/* Sets the facts' presortedness from the name of an input order. */
static void
set_input_order(RouteFacts *facts, const char *order)
{
	static const struct
	{
		const char *name;
		int			descents;	/* percent of neighbours that descend */
		int			differ;		/* percent of neighbours that are not equal */
	}			orders[] = {
		{"random", 50, 100}, {"sorted", 0, 100}, {"reversed", 100, 100}, {"nearly_sorted", 1, 100}, {"flat", 0, 0}
	};
	size_t		steps = facts->n > 0 ? facts->n - 1 : 0;

	for (int i = 0; i < lengthof(orders); i++)
	{
		if (strcmp(order, orders[i].name) != 0)
			continue;
		facts->order_known = true;
		facts->descents = steps * orders[i].descents / 100;
		facts->ascents = steps * orders[i].differ / 100 - facts->descents;
		return;
	}
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("unknown input order: \"%s\"", order),
			 errhint("Input orders are random, sorted, nearly_sorted, reversed and flat.")));
}

/* Sets the GPU's facts for one job, if a device has enough memory. */
static void
set_gpu(RouteFacts *facts, int key_bits)
{
	DeviceAvailability availability;

	facts->device = device_state();
	/* an idle service starts again on demand */
	if (facts->device == DEVICE_STATE_IDLE && device_shared->nalgorithms > 0)
		facts->device = DEVICE_STATE_READY;
	if (facts->device != DEVICE_STATE_READY)
		return;
	facts->gpu.key_width = device_key_width(key_bits);
	device_availability(&availability);
	if (availability.devices > 0 &&
		availability.largest_job < gpusort_keys_bytes(device_costs(), facts->n, facts->gpu.key_width))
	{
		facts->device = DEVICE_STATE_FULL;
		return;
	}
	facts->gpu.key_bits = key_bits;
	facts->gpu.algorithms = device_algorithms();
	device_learn_facts(facts, NULL, NULL);
}

/* Why an algorithm cannot sort the input; without a device, the service's reason. */
static const char *
why_not_words(const RouteFacts *facts, const RoutePrediction *p)
{
	const char *words;

	if (facts->device != DEVICE_STATE_NONE || !algorithm_on_gpu(p->algorithm))
		return p->why_not;
	words = gpusort_device_words();
	return psprintf("%s: %s", p->why_not,
					strncmp(words, "none: ", 6) == 0 ? words + 6 : words);
}

/* The terms of a GPU's prediction and its correction. */
static const char *
terms_words(const RouteFacts *facts, const RoutePrediction *p)
{
	RouteFacts	uncorrected = *facts;
	double		us[GPU_TERMS];

	uncorrected.gpu.factors = NULL;
	gpu_predict_terms(p->algorithm, facts, us);
	return psprintf("hand-over %.2f ms, up %.2f, sort %.2f, down %.2f, host %.2f: "
					"%.2f times the library's costs, by %llu jobs",
					us[GPU_TERM_HAND_OVER] / 1000, us[GPU_TERM_UP] / 1000, us[GPU_TERM_SORT] / 1000,
					us[GPU_TERM_DOWN] / 1000, us[GPU_TERM_HOST] / 1000,
					p->us / gpu_predict_us(p->algorithm, &uncorrected),
					(unsigned long long) facts->gpu.factors->jobs);
}

/* The terms of a prediction and its correction; NULL: the model is not corrected. */
static const char *
prediction_words(const RouteFacts *facts, const RoutePrediction *p)
{
	if (p->us == 0)
		return NULL;
	if (algorithm_on_gpu(p->algorithm))
		return facts->gpu.factors == NULL ? NULL : terms_words(facts, p);
	if (facts->cpu_factor == 0)
		return NULL;
	return psprintf("%.2f times the model's %.2f ms, by %u sorts", facts->cpu_factor,
					p->us / facts->cpu_factor / 1000, facts->cpu_sorts);
}

/* The reason for or against the algorithm, and the terms of its prediction; or NULL. */
static const char *
reason_of(const RouteFacts *facts, const RoutePrediction *p, const RouteDecision *decision)
{
	const char *reason = NULL;
	const char *terms = prediction_words(facts, p);

	if (p->algorithm == decision->algorithm)
		reason = gpusort_route_reason(facts, decision, palloc(ROUTE_REASON_SIZE));
	else if (p->why_not != NULL)
		reason = why_not_words(facts, p);
	return reason != NULL && terms != NULL ? psprintf("%s; %s", reason, terms) :
		reason != NULL ? reason : terms;
}

/*
 * gpusort_route(rows bigint, key_bits int, key_range numeric DEFAULT NULL,
 *				 input_order text DEFAULT NULL, threads int DEFAULT 1,
 *				 OUT algorithm text, OUT chosen bool, OUT predicted_ms float8,
 *				 OUT scratch_bytes bigint, OUT reason text)
 *
 * One row for each algorithm: the chosen one first, the others by predicted time.  An
 * algorithm that cannot be chosen comes last, with a NULL time and the reason.  The time is
 * also NULL for tiny and presorted input on the CPU.  A GPU algorithm's time contains the
 * transfers; its scratch_bytes are device memory.  If a correction factor applies, the
 * reason contains the terms of the time.
 */
Datum
gpusort_route(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	RouteFacts	facts = {0};
	RouteDecision decision;
	RoutePrediction predictions[ALGORITHM_COUNT];
	int64		rows;
	int			key_bits;

	if (PG_ARGISNULL(0) || PG_ARGISNULL(1) || PG_ARGISNULL(4))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("rows, key_bits and threads must not be null")));
	rows = PG_GETARG_INT64(0);
	key_bits = PG_GETARG_INT32(1);
	facts.threads = PG_GETARG_INT32(4);
	if (rows < 0 || rows > PG_UINT32_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("rows must be between 0 and %u", PG_UINT32_MAX)));
	if (key_bits < 1 || key_bits > 128)
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("key_bits must be between 1 and 128")));
	if (facts.threads < 1)
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("threads must be at least 1")));

	facts.n = rows;
	if (!PG_ARGISNULL(2))
	{
		double		range = DatumGetFloat8(DirectFunctionCall1(numeric_float8_no_overflow,
															   PG_GETARG_DATUM(2)));

		if (!(range >= 1))
			ereport(ERROR,
					(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
					 errmsg("key_range must be at least 1"),
					 errdetail("It is the largest key minus the smallest, plus one.")));
		/* keys are narrowed to their range before they are sorted */
		key_bits = Min(key_bits, Max(1, (int) ceil(log2(Min(range, ldexp(1, 128))))));
		facts.key_range = range >= ldexp(1, 64) ? PG_UINT64_MAX : (uint64) range;
	}
	facts.format = key_bits <= 32 ? SORT_REC_PACKED :
		key_bits <= 64 ? SORT_REC_64 : SORT_REC_128;
	facts.begin_bit = facts.format == SORT_REC_PACKED ? 32 : 0;
	facts.end_bit = facts.begin_bit + key_bits;
	set_gpu(&facts, key_bits);
	if (!PG_ARGISNULL(3))
		set_input_order(&facts, text_to_cstring(PG_GETARG_TEXT_PP(3)));

	device_learn_cpu_facts(&facts);
	gpusort_route_decide(&facts, &decision);
	gpusort_route_predict(&facts, predictions);

	InitMaterializedSRF(fcinfo, 0);

	for (int i = 0; i < ALGORITHM_COUNT; i++)
	{
		const RoutePrediction *p = &predictions[i];
		const char *reason = reason_of(&facts, p, &decision);
		Datum		values[5];
		bool		nulls[5] = {false, false, p->us == 0, p->why_not != NULL, reason == NULL};

		values[0] = CStringGetTextDatum(p->algorithm->name);
		values[1] = BoolGetDatum(p->algorithm == decision.algorithm);
		values[2] = Float8GetDatum(p->us / 1000);
		values[3] = Int64GetDatum((int64) p->scratch);
		if (reason != NULL)
			values[4] = CStringGetTextDatum(reason);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}

/* ------------------------------------------------------------------------
 * Cost models of the GPUs
 * ------------------------------------------------------------------------
 */

SQL_FUNCTION(gpusort_device_model);

/* log2_rows < 0 and a measured NaN become NULL. */
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
put_device(ReturnSetInfo *rsinfo, int number, const GpuLearned *learned)
{
	static const char *const part_names[GPU_PART_SORT] = {"hand_over", "up", "down"};
	GpuFactors	factors;

	gpu_learn_factors(learned, 1, (int64) time(NULL), &factors);
	for (int p = 0; p < GPU_PARTS; p++)
	{
		const Factor *part = &learned->part[p];
		int			sort = p - GPU_PART_SORT;

		put_part(rsinfo, number, sort < 0 ? part_names[p] : psprintf("sort_%d", 32 << sort / FACTOR_SIZES),
				 sort < 0 ? -1 : DEVICE_MEASURED_FIRST + DEVICE_MEASURED_STEP * (sort % FACTOR_SIZES),
				 part->is_measured ? exp(part->measured) : get_float8_nan(),
				 exp(factors.log[p]), part->jobs);
	}
	put_part(rsinfo, number, "load", -1, get_float8_nan(), factors.busy, learned->load_jobs);
}

Datum
gpusort_device_model(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	GpuLearned	learned;

	InitMaterializedSRF(fcinfo, 0);
	if (device_shared == NULL)
		return (Datum) 0;
	for (int d = 0; d < device_shared->ndevices; d++)
	{
		int			number = gpusort_learned(d, &learned);

		if (number >= 0)
			put_device(rsinfo, number, &learned);
	}
	return (Datum) 0;
}

/*
 * gpusort_calibrate() of version 1.0 measured constants of the cost models.  It stays for those
 * who use it, and returns no rows.
 */
Datum
gpusort_calibrate(PG_FUNCTION_ARGS)
{
	InitMaterializedSRF(fcinfo, 0);
	return (Datum) 0;
}
