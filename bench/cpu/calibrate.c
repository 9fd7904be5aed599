/*
 * calibrate.c
 *	  Measures the constants of the CPU model on this machine.
 *
 * Every kernel sorts synthetic inputs of each record format at the sample points of
 * its curve.  The value is the minimum of several repetitions, because disturbances
 * only add time.  Repetitions stop after a fixed time, so calibration takes seconds.
 *
 * Sample points that exceed the workspace are not measured.  There the curve follows
 * the built-in one, scaled to meet the last measured value.
 */
#include <math.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "calibrate.h"
#include "kernel/team.h"

/* Least time and least number of repetitions of one measurement. */
#define MEASURE_US		1500.0
#define MEASURE_REPS	5
#define MEASURE_REPS_LARGE	2	/* from 2^21 records on */

/*
 * Small inputs are sorted in batches of this many records, because of the clock's
 * resolution.  No input repeats, because branch predictors would learn it.
 */
#define MEASURE_RECORDS	4096

#define SEED			1

/* Below this, 1 % of the records is so few that the input consists of a few runs. */
#define NEARLY_MIN_ROWS	1024

/* The key width at which each record format is measured. */
static const int format_bits[] = {
	[SORT_REC_PACKED] = 32,
	[SORT_REC_64] = 64,
	[SORT_REC_128] = 128
};

/* Marks a curve's value that was not measured. */
#define UNMEASURED		(-1.0)

const char *const model_curve_names[MODEL_CURVES] = {
	"radix_packed", "radix_64", "radix_128",
	"radix_8_bits", "radix_12_bits", "radix_16_bits",
	"radix_24_bits",
	"counting_8_bits", "counting_12_bits", "counting_16_bits",
	"counting_20_bits", "counting_24_bits",
	"merge_packed", "merge_64", "merge_128",
	"reversed_packed", "reversed_64", "reversed_128",
	"runs_packed", "runs_64", "runs_128",
	"nearly_packed", "nearly_64", "nearly_128"
};

/* State of a calibration. */
typedef struct Calibration
{
	char	   *recs;
	char	   *scratch;
	size_t		room;			/* bytes of recs */
	size_t		scratch_room;	/* bytes of scratch; larger, because of tables */
	SortTeam   *team;			/* set only while measure_team() runs */
	SortStatus	status;			/* SORT_OK until a kernel fails */
} Calibration;

/* Processor time for one thread, which excludes other processes; wall clock for a team. */
static double
now_us(const Calibration *cal)
{
	struct timespec ts;

	clock_gettime(cal->team ? CLOCK_MONOTONIC : CLOCK_THREAD_CPUTIME_ID, &ts);
	return ts.tv_sec * 1e6 + ts.tv_nsec / 1e3;
}

/* Fills a synthetic input and its problem; false if the algorithm cannot sort it. */
static bool
fill_problem(const Calibration *cal, const Algorithm *algorithm, size_t n, int key_bits,
			 SampleOrder order, uint64_t seed, void *recs, SortProblem *problem)
{
	RouteFacts	facts;
	const char *why;

	sample_fill(recs, n, key_bits, order, seed, &facts);
	gpusort_route_problem(&facts, problem);
	problem->recs = recs;
	problem->scratch = cal->scratch;
	problem->team = cal->team;
	return algorithm_takes(algorithm, problem->format) &&
		algorithm->kernel->applies(problem, &why) &&
		algorithm->kernel->scratch_bytes(problem) <= cal->scratch_room;
}

/*
 * Nanoseconds per record of an algorithm.  UNMEASURED if it cannot sort the input,
 * the workspace is too small, or a kernel failed.
 */
static double
measure_kernel(Calibration *cal, AlgorithmId id, size_t n, int key_bits,
			   SampleOrder order)
{
	const Algorithm *algorithm = &sort_algorithms[id];
	size_t		stride = (n * sort_rec_size(sample_format(key_bits)) + 63) & ~(size_t) 63;
	size_t		copies = n < MEASURE_RECORDS ? MEASURE_RECORDS / n : 1;
	int			min_reps = n < ((size_t) 1 << 21) ? MEASURE_REPS : MEASURE_REPS_LARGE;
	double		total = 0;
	double		best = 0;
	SortProblem problems[MEASURE_RECORDS >> MODEL_POINT_FIRST];

	if (stride * copies > cal->room)
		return UNMEASURED;

	for (int rep = 0; rep < min_reps || total < MEASURE_US; rep++)
	{
		double		us;

		if (cal->status != SORT_OK)
			return UNMEASURED;

		for (size_t c = 0; c < copies; c++)
			if (!fill_problem(cal, algorithm, n, key_bits, order, SEED + rep * copies + c,
							  cal->recs + c * stride, &problems[c]))
				return UNMEASURED;
		us = now_us(cal);
		for (size_t c = 0; c < copies && cal->status == SORT_OK; c++)
			cal->status = algorithm->kernel->run(&problems[c]);
		us = now_us(cal) - us;
		total += us;
		if (rep == 0 || us < best)
			best = us;
	}
	return best * 1000 / (n * copies);
}

/* Measures all curves at one sample point. */
static void
calibrate_point(Calibration *cal, RouteModel *model, int sample_point)
{
	const size_t n = (size_t) 1 << model_point_log2(sample_point);

#define MEASURE(c, id, bits, order) \
	(model->curve[c][sample_point] = measure_kernel(cal, id, n, bits, order))
	for (int format = 0; format <= SORT_REC_128; format++)
	{
		int			bits = format_bits[format];

		MEASURE(MODEL_RADIX + format, ALGORITHM_CPU_RADIX, bits, SAMPLE_RANDOM);
		/* the model multiplies the curve by model_merge_times() */
		if (MEASURE(MODEL_MERGE + format, ALGORITHM_CPU_MERGE, bits, SAMPLE_RANDOM) != UNMEASURED)
			model->curve[MODEL_MERGE + format][sample_point] /= model_merge_times();
		MEASURE(MODEL_REVERSED + format, ALGORITHM_PRESORTED, bits, SAMPLE_REVERSED);
		MEASURE(MODEL_RUNS + format, ALGORITHM_PRESORTED, bits, SAMPLE_RUNS);
		if (n >= NEARLY_MIN_ROWS)
			MEASURE(MODEL_NEARLY + format, ALGORITHM_PRESORTED, bits, SAMPLE_DISPLACED);
	}
	MEASURE(MODEL_RADIX_8, ALGORITHM_CPU_RADIX, 8, SAMPLE_RANDOM);
	MEASURE(MODEL_RADIX_12, ALGORITHM_CPU_RADIX, 12, SAMPLE_RANDOM);
	MEASURE(MODEL_RADIX_16, ALGORITHM_CPU_RADIX, 16, SAMPLE_RANDOM);
	MEASURE(MODEL_RADIX_24, ALGORITHM_CPU_RADIX, 24, SAMPLE_RANDOM);
	MEASURE(MODEL_COUNTING_8, ALGORITHM_CPU_COUNTING, 8, SAMPLE_RANDOM);
	MEASURE(MODEL_COUNTING_12, ALGORITHM_CPU_COUNTING, 12, SAMPLE_RANDOM);
	MEASURE(MODEL_COUNTING_16, ALGORITHM_CPU_COUNTING, 16, SAMPLE_RANDOM);
	MEASURE(MODEL_COUNTING_20, ALGORITHM_CPU_COUNTING, 20, SAMPLE_RANDOM);
	MEASURE(MODEL_COUNTING_24, ALGORITHM_CPU_COUNTING, 24, SAMPLE_RANDOM);
#undef MEASURE
}

/*
 * Measures MODEL_CELL_NS, from a table with several cells per record, and subtracts
 * it from the counting curves.  Measures MODEL_CHAIN_NS, from long runs of equal keys.
 */
static void
separate_cells(Calibration *cal, RouteModel *model)
{
	const size_t n = (size_t) 1 << 14;
	double		small = measure_kernel(cal, ALGORITHM_CPU_COUNTING, n, 8, SAMPLE_RANDOM);
	double		large = measure_kernel(cal, ALGORITHM_CPU_COUNTING, n, 16, SAMPLE_RANDOM);
	double		ordered = measure_kernel(cal, ALGORITHM_CPU_COUNTING, n << 3, 8, SAMPLE_SCATTERED);
	double		shuffled = measure_kernel(cal, ALGORITHM_CPU_COUNTING, n << 3, 8, SAMPLE_RANDOM);

	if (small >= 0 && large >= 0)
		model->scalar[MODEL_CELL_NS] = fmax(0, (large - small) * n / ((1 << 16) - (1 << 8)));
	if (ordered >= 0 && shuffled >= 0)
		model->scalar[MODEL_CHAIN_NS] = fmax(0, ordered - shuffled);

	for (int bits = 8; bits <= 24; bits += 4)
	{
		double	   *curve = model->curve[MODEL_COUNTING_8 + (bits - 8) / 4];

		for (int k = 0; k < MODEL_POINTS; k++)
			if (curve[k] != UNMEASURED)
				curve[k] = fmax(0, curve[k] - ldexp(model->scalar[MODEL_CELL_NS], bits - model_point_log2(k)));
	}
}

/*
 * Measures MODEL_DROP_NS, from inputs with 1 % and 5 % of the records out of place,
 * and subtracts it from the curves.
 */
static void
separate_drops(Calibration *cal, RouteModel *model)
{
	const size_t n = (size_t) 1 << 17;
	double		few = measure_kernel(cal, ALGORITHM_PRESORTED, n, 32, SAMPLE_DISPLACED);
	double		many = measure_kernel(cal, ALGORITHM_PRESORTED, n, 32, SAMPLE_SCATTERED);

	if (few >= 0 && many >= 0)
		model->scalar[MODEL_DROP_NS] = fmax(0, (many - few) / (0.05 - 0.01));

	for (int format = 0; format <= SORT_REC_128; format++)
	{
		double	   *curve = model->curve[MODEL_NEARLY + format];

		for (int k = 0; k < MODEL_POINTS; k++)
			if (curve[k] != UNMEASURED)
				curve[k] = fmax(0, curve[k] - 0.01 * model->scalar[MODEL_DROP_NS]);
	}
}

/* Measures MODEL_TEAM_SHARE with a team of two. */
static void
measure_team(const Calibration *cal, RouteModel *model)
{
	const size_t n = (size_t) 1 << 20;
	Calibration team_cal = *cal;
	double		serial;
	double		together;

	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		return;
	team_cal.team = sort_thread_team_create(1);
	if (team_cal.team == NULL)
		return;
	serial = measure_kernel(&team_cal, ALGORITHM_CPU_RADIX, n, 32, SAMPLE_RANDOM);
	sort_thread_team_destroy(team_cal.team);
	team_cal.team = sort_thread_team_create(2);
	if (team_cal.team == NULL)
		return;
	together = measure_kernel(&team_cal, ALGORITHM_CPU_RADIX, n, 32, SAMPLE_RANDOM);
	sort_thread_team_destroy(team_cal.team);
	if (serial > 0 && together >= 0)
		model->scalar[MODEL_TEAM_SHARE] = fmin(1, fmax(0, 2 * (1 - together / serial)));
}

/*
 * Fills in the sample points that were not measured.  Above the measured ones the
 * built-in curve continues, scaled to meet the last measured value.  The scale is
 * bounded, because small values may differ by any factor.  Below the measured ones,
 * where a kernel does not apply, the first value is repeated.
 */
static void
extrapolate(RouteModel *model)
{
	for (int c = 0; c < MODEL_CURVES; c++)
	{
		const double *builtin = route_model_builtin.curve[c];
		double	   *curve = model->curve[c];
		double		scale = 1;
		int			first = 0;

		while (first < MODEL_POINTS && curve[first] == UNMEASURED)
			first++;
		for (int k = 0; k < MODEL_POINTS; k++)
		{
			if (first == MODEL_POINTS)
				curve[k] = builtin[k];
			else if (k < first)
				curve[k] = curve[first];
			else if (curve[k] == UNMEASURED)
				curve[k] = builtin[k] * scale;
			else if (builtin[k] > 0)
				scale = fmax(0.5, fmin(2, curve[k] / builtin[k]));
		}
	}
}

SortStatus
model_calibrate(RouteModel *model, void *workspace, size_t size)
{
	Calibration cal = {0};
	RouteModel	measured = route_model_builtin;

	cal.room = size / 8 * 3 & ~(size_t) 63;
	cal.scratch_room = size - cal.room;
	cal.recs = workspace;
	cal.scratch = cal.recs + cal.room;
	cal.status = SORT_OK;

	/* huge pages, as for sorts; memset(), because the first touch is no kernel's time */
#ifdef MADV_HUGEPAGE
	{
		const uintptr_t page = (uintptr_t) sysconf(_SC_PAGESIZE);
		uintptr_t	start = ((uintptr_t) workspace + page - 1) & ~(page - 1);
		uintptr_t	end = ((uintptr_t) workspace + size) & ~(page - 1);

		if (end > start)
			(void) madvise((void *) start, end - start, MADV_HUGEPAGE);
	}
#endif
	memset(workspace, 0, size);

	for (int c = 0; c < MODEL_CURVES; c++)
		for (int k = 0; k < MODEL_POINTS; k++)
			measured.curve[c][k] = UNMEASURED;
	for (int k = 0; k < MODEL_POINTS; k++)
		calibrate_point(&cal, &measured, k);
	separate_cells(&cal, &measured);
	separate_drops(&cal, &measured);
	measure_team(&cal, &measured);
	if (cal.status != SORT_OK)
		return cal.status;

	extrapolate(&measured);
	*model = measured;
	return SORT_OK;
}

/* ------------------------------------------------------------------------
 * Synthetic inputs
 * ------------------------------------------------------------------------
 */

const char *const sample_order_names[SAMPLE_ORDERS] = {
	"random", "unique", "repeated", "sorted", "reversed", "swapped",
	"displaced", "scattered", "runs", "flat"
};

/* Bits of the row ids of packed records. */
#define SAMPLE_RID_BITS		32

/* One step of splitmix64. */
static inline uint64_t
mix(uint64_t x)
{
	x += UINT64_C(0x9E3779B97F4A7C15);
	x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
	return x ^ (x >> 31);
}

/* Parameters of one input's keys. */
typedef struct Shape
{
	size_t		n;				/* records */
	int			key_bits;
	SampleOrder order;
	uint64_t	seed;
	SortKey		step;			/* distance of equidistant keys: 2^96 / n */
	int			perm_bits;		/* width of the permutation: 2^perm_bits >= n */
} Shape;

static Shape
make_shape(size_t n, int key_bits, SampleOrder order, uint64_t seed)
{
	Shape		shape = {n, key_bits, order, mix(seed), 0, 2};

	if (n > 0)
		shape.step = ((SortKey) 1 << 96) / n;
	while (((size_t) 1 << shape.perm_bits) < n)
		shape.perm_bits += 2;
	return shape;
}

/* The i-th random key. */
static inline SortKey
random_key(const Shape *s, uint64_t i)
{
	uint64_t	hi = mix(s->seed + 2 * i);

	if (s->key_bits <= 64)
		return hi >> (64 - s->key_bits);
	return ((SortKey) hi << 64 | mix(s->seed + 2 * i + 1)) >> (128 - s->key_bits);
}

/* The i-th of n ascending equidistant keys. */
static inline SortKey
ascending_key(const Shape *s, uint64_t i)
{
	SortKey		key = i * s->step;	/* a fraction of 96 bits */

	return s->key_bits <= 96 ? key >> (96 - s->key_bits) : key << (s->key_bits - 96);
}

/* A permutation of 0 .. n-1: a Feistel network, repeated until the value is below n. */
static inline uint64_t
permuted(const Shape *s, uint64_t i)
{
	int			half = s->perm_bits / 2;
	uint64_t	mask = ((uint64_t) 1 << half) - 1;

	do
	{
		for (int round = 0; round < 3; round++)
		{
			uint64_t	left = i >> half;
			uint64_t	right = i & mask;

			i = right << half | (left ^ (mix(s->seed + right + ((uint64_t) round << 32)) & mask));
		}
	} while (i >= s->n);
	return i;
}

/* Key i of the input. */
static SortKey
input_key(const Shape *s, uint64_t i)
{
	switch (s->order)
	{
		case SAMPLE_RANDOM:
		case SAMPLE_ORDERS:
			break;
		case SAMPLE_UNIQUE:
			return ascending_key(s, permuted(s, i));
		case SAMPLE_REPEATED:
			return random_key(s, mix(s->seed + i) % 100 + ((uint64_t) 1 << 40));
		case SAMPLE_SORTED:
			return ascending_key(s, i);
		case SAMPLE_REVERSED:
			return ascending_key(s, s->n - 1 - i);
		case SAMPLE_SWAPPED:
			/* pairs (2k, 2k + 1): one in 50 is swapped */
			if (mix(s->seed + i / 2) % 50 == 0 && (i | 1) < s->n)
				return ascending_key(s, i ^ 1);
			return ascending_key(s, i);
		case SAMPLE_DISPLACED:
			if (mix(s->seed + i) % 100 == 0)
				return random_key(s, i);
			return ascending_key(s, i);
		case SAMPLE_SCATTERED:
			if (mix(s->seed + i) % 20 == 0)
				return random_key(s, i);
			return ascending_key(s, i);
		case SAMPLE_RUNS:
			return ascending_key(s, i < s->n / 2 ? 2 * i : 2 * (i - s->n / 2));
		case SAMPLE_FLAT:
			return random_key(s, 0);
	}
	return random_key(s, i);
}

SortRecFormat
sample_format(int key_bits)
{
	return key_bits <= 32 ? SORT_REC_PACKED :
		key_bits <= 64 ? SORT_REC_64 : SORT_REC_128;
}

void
sample_fill(void *recs, size_t n, int key_bits, SampleOrder order,
			uint64_t seed, RouteFacts *facts)
{
	SortKey		prev = 0;
	SortKey		min = ~(SortKey) 0;
	SortKey		max = 0;
	Shape		shape = make_shape(n, key_bits, order, seed);

	memset(facts, 0, sizeof(*facts));
	facts->n = n;
	facts->format = sample_format(key_bits);
	facts->begin_bit = facts->format == SORT_REC_PACKED ? SAMPLE_RID_BITS : 0;
	facts->end_bit = facts->begin_bit + key_bits;
	facts->order_known = true;
	facts->threads = 1;

	for (size_t i = 0; i < n; i++)
	{
		SortKey		key = input_key(&shape, i);

		if (i > 0)
		{
			facts->descents += key < prev;
			facts->ascents += key > prev;
		}
		prev = key;
		min = key < min ? key : min;
		max = key > max ? key : max;

		sort_rec_set(recs, facts->format, SAMPLE_RID_BITS, i, key, (uint32_t) i);
	}
	if (n > 0)
		facts->key_range = max - min >= UINT64_MAX ? UINT64_MAX :
			(uint64_t) (max - min) + 1;
}

bool
sample_verify(const void *recs, size_t n, int key_bits, SampleOrder order,
			  uint64_t seed)
{
	SortRecFormat format = sample_format(key_bits);
	SortKey		prev = 0;
	uint32_t	prev_rid = 0;
	Shape		shape = make_shape(n, key_bits, order, seed);

	for (size_t i = 0; i < n; i++)
	{
		uint32_t	rid;
		SortKey		key = sort_rec_get(recs, format, SAMPLE_RID_BITS, i, &rid);

		if (rid >= n || key != input_key(&shape, rid))
			return false;
		if (i > 0 && (key < prev || (key == prev && rid <= prev_rid)))
			return false;
		prev = key;
		prev_rid = rid;
	}
	return true;
}
