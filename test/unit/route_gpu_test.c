/*
 * route_gpu_test.c
 *	  Tests the router with a GPU: the algorithm, the crossover between CPU and
 *	  GPU, the reasons, and whether row mode is used.
 */
#define _GNU_SOURCE
#include <math.h>
#include <stdlib.h>

#include "route_test.h"

/* The algorithm that is chosen, of the GPU's and of the CPU's. */
static void
test_gpu_choice(void)
{
	static const struct
	{
		size_t		n;
		int			key_bits;
		uint64_t	range;
		bool		rids;
		GpusortDistribution key_distribution;
		const char *want;
	}			cases[] = {
		{1 << 24, 32, 0, true, GPUSORT_KEYS_UNIFORM, "gpu_bucket"},
		{1 << 24, 64, 0, true, GPUSORT_KEYS_UNIFORM, "gpu_bucket"},
		{1 << 24, 128, 0, true, GPUSORT_KEYS_UNIFORM, "gpu_bucket"},
		{50000000, 33, 0, true, GPUSORT_KEYS_UNIFORM, "gpu_bucket"},
		/* skewed keys: radix sort does not depend on them */
		{1 << 24, 32, 0, true, GPUSORT_KEYS_SKEWED, "gpu_radix"},
		{1 << 24, 128, 0, true, GPUSORT_KEYS_SKEWED, "gpu_bucket"},
		/* few skewed keys: sample sort does not depend on them either */
		{1 << 18, 32, 0, true, GPUSORT_KEYS_SKEWED, "gpu_bucket"},
		{400000, 32, 0, true, GPUSORT_KEYS_SKEWED, "gpu_radix"},
		{1 << 18, 64, 0, true, GPUSORT_KEYS_SKEWED, "gpu_bucket"},
		/* few distinct values */
		{1 << 24, 8, 200, true, GPUSORT_KEYS_UNIFORM, "gpu_counting"},
		{1 << 24, 16, 60000, true, GPUSORT_KEYS_UNIFORM, "gpu_counting"},
		{1 << 24, 16, 60000, false, GPUSORT_KEYS_UNIFORM, "gpu_counting"},
		{1 << 26, 20, 1 << 20, false, GPUSORT_KEYS_UNIFORM, "gpu_counting"},
		{1 << 26, 26, 1 << 26, false, GPUSORT_KEYS_UNIFORM, "gpu_bucket"},
		{1 << 24, 24, 1 << 24, true, GPUSORT_KEYS_UNIFORM, "gpu_bucket"},
		/* small inputs are sorted by the CPU */
		{1000, 32, 0, true, GPUSORT_KEYS_UNIFORM, "cpu_radix"},
		{200, 7, 100, true, GPUSORT_KEYS_UNIFORM, "cpu_radix"},
		{20000, 64, 0, true, GPUSORT_KEYS_UNIFORM, "cpu_radix"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		RouteFacts	facts = facts_of(cases[i].n, cases[i].key_bits);
		const char *got;

		set_gpu(&facts, cases[i].key_bits);
		facts.key_range = cases[i].range;
		facts.gpu.keys_only = !cases[i].rids;
		facts.gpu.keys_back = !cases[i].rids;
		facts.gpu.key_distribution = cases[i].key_distribution;
		got = chosen(&facts);
		/* any CPU kernel will do */
		if (strncmp(cases[i].want, "cpu", 3) == 0 ? strncmp(got, "cpu", 3) != 0 :
			strcmp(got, cases[i].want) != 0)
		{
			failures++;
			fprintf(stderr, "GPU choice %zu: %s is not %s\n", i, got, cases[i].want);
		}
		facts.gpu.algorithms = 1u << ALGORITHM_GPU_RADIX;
		CHECK(strncmp(chosen(&facts), "cpu", 3) == 0 || strcmp(chosen(&facts), "gpu_radix") == 0);
		facts.gpu.algorithms = 0;
		CHECK(strncmp(chosen(&facts), "cpu", 3) == 0);
	}
}

/* There is one crossover: the CPU below some size, the GPU from there on. */
static void
test_gpu_crossover(void)
{
	for (int bits = 8; bits <= 128; bits += 8)
	{
		size_t		crossover = 0;

		for (size_t n = 64; n <= (size_t) 1 << 28; n += n / 8)
		{
			RouteFacts	facts = facts_of(n, bits);
			RouteDecision decision;
			bool		on_gpu;

			set_gpu(&facts, bits);
			gpusort_route_decide(&facts, &decision);
			on_gpu = algorithm_on_gpu(decision.algorithm);
			CHECK(!on_gpu || decision.cpu_us > gpusort_costs_h200.job_us);
			if (on_gpu && crossover == 0)
				crossover = n;
			CHECK(on_gpu == (crossover != 0));

			/* a device that is not ready is not chosen */
			for (int d = DEVICE_STATE_NONE; d < DEVICE_STATE_READY; d++)
			{
				facts.device = (DeviceState) d;
				CHECK(strncmp(chosen(&facts), "cpu", 3) == 0);
			}
			facts.device = DEVICE_STATE_READY;
			facts.order_known = true;
			facts.ascents = n - 1;
			CHECK_STR(chosen(&facts), "presorted");
		}
		CHECK(crossover > 20000 && crossover < 1000000);
	}
}

/* An algorithm that cannot sort an input is not chosen; the reason is given. */
static void
test_gpu_fits(void)
{
	for (int round = 0; round < 20000; round++)
	{
		RouteFacts	facts = facts_of(1 + (next_random() >> (36 + next_random() % 28)),
									 1 + next_random() % 128);
		RoutePrediction p[ALGORITHM_COUNT];

		set_gpu(&facts, facts.end_bit - facts.begin_bit);
		facts.key_range = next_random() % 4 ? 1 + (next_random() >> (next_random() % 64)) : 0;
		facts.gpu.keys_only = next_random() % 2;
		facts.gpu.distinct = next_random() % 2;
		gpusort_route_predict(&facts, p);
		for (int i = 0; i < ALGORITHM_COUNT; i++)
		{
			const Algorithm *algorithm = p[i].algorithm;

			if (!algorithm_on_gpu(algorithm) || p[i].why_not != NULL)
				continue;
			CHECK(!algorithm->only_forced);
			CHECK(p[i].us > gpusort_costs_h200.job_us);
			CHECK(facts.gpu.keys_only || algorithm->stable);
			if (algorithm->by_value)
				CHECK(facts.key_range != 0 ? facts.key_range <= 65536 + 16 * facts.n + 16 :
					  facts.gpu.key_bits < 32);
			if (algorithm->id == ALGORITHM_GPU_HP1)
				CHECK(facts.gpu.distinct);
			/* larger counters outgrow the cache; gpu_hp1's bitmap does not */
			if (i == 0 && algorithm->id != ALGORITHM_GPU_HP1)
				CHECK(!algorithm->by_value || facts.key_range <= 1 << 25);
		}
	}
}

static void
test_gpu_reasons(void)
{
	static const struct
	{
		DeviceState device;
		const char *why;
	}			states[] = {
		{DEVICE_STATE_NONE, "there is no device"},
		{DEVICE_STATE_OFF, "gpusort.device is off"},
		{DEVICE_STATE_BUSY, "too many sorts are using the device"},
		{DEVICE_STATE_FULL, "it does not fit the device memory"},
		{DEVICE_STATE_FAILED, "the device failed"},
		{DEVICE_STATE_IDLE, "the device was idle, and is not back yet"},
	};
	RouteFacts	facts = facts_of(10000000, 32);
	RouteDecision decision;
	char		reason[ROUTE_REASON_SIZE];

	set_gpu(&facts, 32);
	gpusort_route_decide(&facts, &decision);
	CHECK_STR(gpusort_route_reason(&facts, &decision, reason),
			  "gpu bucket: 32-bit keys, 10000000 rows, device ready");
	facts.forced = &sort_algorithms[ALGORITHM_GPU_MERGE];
	gpusort_route_decide(&facts, &decision);
	CHECK_STR(decision.algorithm->name, "gpu_merge");
	CHECK(decision.forced_why_not == NULL && decision.predicted_us > 0);
	facts.forced = &sort_algorithms[ALGORITHM_GPU_HP];
	gpusort_route_decide(&facts, &decision);
	CHECK_STR(decision.algorithm->name, "gpu_bucket");
	CHECK_STR(decision.forced_why_not, "it sorts keys only");
	/* an algorithm that auto never chooses runs if set, without prediction */
	facts.gpu.keys_only = true;
	facts.key_range = 1000000;
	gpusort_route_decide(&facts, &decision);
	CHECK_STR(decision.algorithm->name, "gpu_hp");
	CHECK(decision.forced_why_not == NULL && decision.predicted_us == 0);
	facts.key_range = 0;
	facts.gpu.keys_only = false;
	facts.gpu.algorithms = 1u << ALGORITHM_GPU_RADIX;
	facts.forced = &sort_algorithms[ALGORITHM_GPU_BUCKET];
	gpusort_route_decide(&facts, &decision);
	CHECK_STR(decision.forced_why_not, "the device has no such algorithm");
	facts.gpu.key_width = 0;
	facts.gpu.why_not = "it is raining";
	gpusort_route_decide(&facts, &decision);
	CHECK_STR(decision.forced_why_not, "it is raining");
	for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++)
	{
		facts.device = states[i].device;
		gpusort_route_decide(&facts, &decision);
		CHECK_STR(decision.forced_why_not, states[i].why);
		CHECK(strncmp(decision.algorithm->name, "cpu", 3) == 0);
	}
}

/* Costs and limits come from the device, not from built-in constants. */
static void
test_gpu_costs(void)
{
	RouteFacts	facts = facts_of(1 << 24, 32);
	GpusortCosts costs = gpusort_costs_h200;
	RouteDecision before;
	RouteDecision decision;

	set_gpu(&facts, 32);
	facts.gpu.costs = &costs;
	gpusort_route_decide(&facts, &before);
	costs.job_us += 1000;
	gpusort_route_decide(&facts, &decision);
	CHECK(fabs(decision.predicted_us - before.predicted_us - 1000) < 1);
	for (int k = 0; k < GPUSORT_COST_POINTS; k++)
		costs.merge[0][k] = 1;
	CHECK_STR(chosen(&facts), "gpu_merge");
	costs.job_us = 1e9;
	CHECK(strncmp(chosen(&facts), "cpu", 3) == 0);

	costs = gpusort_costs_h200;
	facts.key_range = 1 << 20;
	facts.forced = &sort_algorithms[ALGORITHM_GPU_COUNTING];
	CHECK_STR(chosen(&facts), "gpu_counting");
	costs.values_per_key = 1;
	facts.n = 100000;
	gpusort_route_decide(&facts, &decision);
	CHECK_STR(decision.forced_why_not, "the keys' range is too large for so few rows");
	CHECK(gpusort_keys_bytes(&costs, 1000, 64) == 36000 + (UINT64_C(8) << 20));
}

/* Row mode: the predicted gain, and when it is used. */
static void
test_gpu_rows(void)
{
	GpuRowsFacts rows = {.rows = 50e6,.rows_here = 1e6,.row_bytes = 32,.key_cost = 16,
		.memory = 8e9,.cpu_sort_us = 275e3,.gpu_sort_us = 20e3
	};
	double		gain = gpu_rows_gain_us(&rows);

	/*
	 * bench/results/queries-h200.md: 731 ms in memory, 7343 where the CPU
	 * spills
	 */
	CHECK(gain > 500e3 && gain < 1000e3);
	rows.memory = 4e6;
	CHECK(gpu_rows_gain_us(&rows) > gain + 1000e3);
	/* few long rows, all on the host: copying them costs more than it saves */
	rows.rows = rows.rows_here = 4000;
	rows.row_bytes = 8192;
	rows.memory = 8e9;
	rows.cpu_sort_us = 20;
	rows.gpu_sort_us = 400;
	CHECK(gpu_rows_gain_us(&rows) < 0);
	/* it pays if many more rows are expected */
	rows.rows = 4e6;
	CHECK(gpu_rows_gain_us(&rows) > 0);
	/* a slower sort on the GPU makes the gain smaller */
	gain = gpu_rows_gain_us(&rows);
	rows.gpu_sort_us += 1000;
	CHECK(fabs(gain - gpu_rows_gain_us(&rows) - 1000) < 1);

	/* ties cost a comparison a row, and the same memory as on the CPU */
	rows = (GpuRowsFacts)
	{
		.rows = 10e6,.rows_here = 3e5,.row_bytes = 112,.key_cost = 20,
			.memory = 8e9,.cpu_sort_us = 100e3,.gpu_sort_us = 10e3
	};
	gain = gpu_rows_gain_us(&rows);
	rows.repeated = 1;
	CHECK(gpu_rows_gain_us(&rows) == gain);
	rows.repeated = 0;
	rows.resolver = true;
	CHECK(gpu_rows_gain_us(&rows) < gain && gpu_rows_gain_us(&rows) > gain - 100e3);
	rows.repeated = 1;
	CHECK(gpu_rows_gain_us(&rows) < 100e3);

	/* slow bus: copying 10 GB of long rows both ways does not pay */
	rows = (GpuRowsFacts)
	{
		.rows = 20e6,.rows_here = 1e5,.row_bytes = 500,.key_cost = 16,
			.memory = 16e9,.cpu_sort_us = 150e3,.gpu_sort_us = 20e3
	};
	CHECK(gpu_rows_gain_us(&rows) > 500e3);
	rows.up_ns = rows.down_ns = gpusort_costs_h200.copy_ns;
	CHECK(gpu_rows_gain_us(&rows) > 500e3);
	rows.up_ns = rows.down_ns = 1 / 6.3;
	CHECK(gpu_rows_gain_us(&rows) < 0);
	/* it pays if the CPU would spill them to disk */
	rows.memory = 1e9;
	CHECK(gpu_rows_gain_us(&rows) > 0);
	/* ... and they fit the device memory, so that nothing is spilled */
	rows.device_bytes = 12e9;
	rows.device_memory = 24e9;
	CHECK(gpu_rows_gain_us(&rows) > 0);
	gain = gpu_rows_gain_us(&rows);
	/* half of the rows fit the device: the other half is a run on disk */
	rows.device_memory = 6e9;
	CHECK(gpu_rows_gain_us(&rows) < gain);
	/* two such devices hold all rows: the only cost is a merge */
	rows.all_memory = 12e9;
	CHECK(gpu_rows_gain_us(&rows) > gain - 20e6 * 0.02 && gpu_rows_gain_us(&rows) < gain);
	/* a device for a tenth of the rows does not pay on a slow bus */
	rows.device_memory = rows.all_memory = 1.2e9;
	CHECK(gpu_rows_gain_us(&rows) < 0);
	/* it does on a fast bus: the sort is faster, too */
	rows.up_ns = rows.down_ns = gpusort_costs_h200.copy_ns;
	CHECK(gpu_rows_gain_us(&rows) > 0);
	/* the host holds all rows: parts would only return to its memory */
	rows.memory = 16e9;
	rows.device_memory = rows.all_memory = 6e9;
	CHECK(gpu_rows_gain_us(&rows) < 0);
	/* several devices hold all: a merge pays for long rows, not for short */
	rows.all_memory = 12e9;
	CHECK(gpu_rows_gain_us(&rows) > 0);
	rows = (GpuRowsFacts)
	{
		.rows = 200e6,.rows_here = 1e6,.row_bytes = 32,.key_cost = 16,
			.memory = 16e9,.device_bytes = 15e9,.device_memory = 8e9,.all_memory = 16e9
	};
	CHECK(gpu_rows_gain_us(&rows) < 0);
	rows.memory = 1e9;
	CHECK(gpu_rows_gain_us(&rows) > 0);
}

/* Keys in parts: their cost, and when several devices are faster than one. */
static void
test_gpu_parts(void)
{
	const Algorithm *radix = &sort_algorithms[ALGORITHM_GPU_RADIX];
	GpusortCosts slow = gpusort_costs_h200;

	for (size_t n = 1 << 16; n <= (size_t) 1 << 30; n *= 4)
	{
		RouteFacts	facts = facts_of(n, 64);
		double		whole;

		set_gpu(&facts, 64);
		whole = gpu_predict_us(radix, &facts);
		/* parts cost 2 to 10 ns a key, and a job each */
		CHECK(gpu_parts_us(radix, &facts, 10, 1) > whole + n * 0.002 + 9 * slow.job_us);
		CHECK(gpu_parts_us(radix, &facts, 10, 1) < whole + n * 0.01 + 10 * slow.job_us);
		CHECK(gpu_parts_us(radix, &facts, 10, 4) < gpu_parts_us(radix, &facts, 10, 2));
		CHECK(gpu_parts_us(radix, &facts, 1, 4) == gpu_parts_us(radix, &facts, 1, 1));
		/* one fast device is faster than several at any number of rows */
		for (int devices = 2; devices <= 8; devices *= 2)
			CHECK(gpu_parts_us(radix, &facts, devices, devices) > whole);
	}
	/* slow devices: several are faster, from one crossover on */
	for (size_t k = 0; k < sizeof(slow.radix) / sizeof(double); k++)
		(&slow.radix[0][0][0])[k] *= 600;
	for (int devices = 2; devices <= 8; devices *= 2)
	{
		bool		worth = false;

		for (size_t n = 1 << 10; n <= (size_t) 1 << 30; n *= 2)
		{
			RouteFacts	facts = facts_of(n, 64);
			bool		now;

			set_gpu(&facts, 64);
			facts.gpu.costs = &slow;
			now = gpu_parts_us(radix, &facts, devices, devices) < gpu_predict_us(radix, &facts);
			CHECK(now || !worth);
			worth = now;
		}
		CHECK(worth);
	}
}

void
route_gpu_tests(void)
{
	test_gpu_choice();
	test_gpu_crossover();
	test_gpu_fits();
	test_gpu_reasons();
	test_gpu_costs();
	test_gpu_rows();
	test_gpu_parts();
}
