/*
 * route_test.c
 *	  Tests the router's choices on the CPU: tables of facts, and properties
 *	  over random facts.
 *
 * The models are invented, so that no test depends on a machine's
 * measurements.  bench/cpu/route_grid.c compares the constants with measured
 * times.
 */
#define _GNU_SOURCE
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/isa.h"
#include "route_test.h"

int			failures;

uint64_t
next_random(void)
{
	static uint64_t x = 88172645463325252;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return x;
}

RouteFacts
facts_of(size_t n, int key_bits)
{
	RouteFacts	facts = {0};

	facts.n = n;
	facts.format = sample_format(key_bits);
	facts.begin_bit = facts.format == SORT_REC_PACKED ? 32 : 0;
	facts.end_bit = facts.begin_bit + key_bits;
	return facts;
}

void
set_gpu(RouteFacts *facts, int key_bits)
{
	facts->device = DEVICE_STATE_READY;
	facts->gpu.key_width = key_bits <= 32 ? 32 : key_bits <= 64 ? 64 : 128;
	facts->gpu.key_bits = key_bits;
	facts->gpu.algorithms = ~0u;
	facts->gpu.costs = &gpusort_costs_h200;
}

void
set_curve(RouteModel *model, int curve, double ns)
{
	for (int k = 0; k < MODEL_POINTS; k++)
		model->curve[curve][k] = ns;
}

RouteModel
flat_model(void)
{
	RouteModel	model;

	for (int c = 0; c < MODEL_CURVES; c++)
		set_curve(&model, c, 10);
	model.scalar[MODEL_CELL_NS] = 10;
	model.scalar[MODEL_CHAIN_NS] = 0;
	model.scalar[MODEL_DROP_NS] = 0;
	model.scalar[MODEL_TEAM_SHARE] = 0.8;
	return model;
}

const char *
chosen(const RouteFacts *facts)
{
	RouteDecision decision;

	gpusort_route_decide(facts, &decision);
	return decision.algorithm ? decision.algorithm->name : "none";
}

/* The kernel with the cheapest curve is chosen, where it applies. */
static void
test_choice(void)
{
	static const struct
	{
		int			curve;		/* the cheap one of the model's curves */
		size_t		n;
		int			key_bits;
		int			order;		/* 0 unknown, -1 descending, else 1 + descents */
		const char *want;
	}			cases[] = {
		{MODEL_RADIX, 1000, 16, 0, "cpu_radix"},
		{MODEL_RADIX, 1000000, 32, 0, "cpu_radix"},
		{MODEL_RADIX, 1000000, 64, 0, "cpu_radix"},
		{MODEL_RADIX, 1000000, 128, 0, "cpu_radix"},
		{MODEL_MERGE, 1000, 32, 0, "cpu_merge"},
		{MODEL_MERGE, 1000000, 64, 0, "cpu_merge"},
		{MODEL_MERGE, 1000000, 128, 0, "cpu_merge"},
		{MODEL_COUNTING_8, 1000000, 8, 0, "cpu_counting"},
		{MODEL_COUNTING_8, 1000000, 64, 0, "cpu_merge"},	/* key too wide to count */
		/* presorted input needs no sort, whatever the constants */
		{MODEL_RADIX, 1000000, 32, 1, "presorted"},
		{MODEL_REVERSED, 1000000, 64, -1, "presorted"},
		{MODEL_REVERSED, 1000000, 64, 0, "cpu_merge"},	/* order unknown */
		{MODEL_RUNS, 1000000, 128, 2, "presorted"},
		{MODEL_NEARLY, 1000000, 128, 2000, "presorted"},
		{MODEL_RUNS, 1000000, 128, 2000, "cpu_merge"},
		{MODEL_NEARLY, 1000000, 32, 200000, "cpu_merge"},	/* too much disorder */
		/* tiny inputs have no curve */
		{MODEL_MERGE, 0, 32, 0, "cpu_radix"},
		{MODEL_MERGE, 1, 32, 0, "cpu_radix"},
		{MODEL_MERGE, 20, 64, 0, "cpu_radix"},
		{MODEL_MERGE, 40, 64, 0, "cpu_merge"},
		{MODEL_RADIX, 40, 64, 0, "cpu_radix"},
		{MODEL_COUNTING_8, ROUTE_TINY_ROWS - 1, 8, 0, "cpu_merge"},
		{MODEL_COUNTING_8, ROUTE_TINY_ROWS, 8, 0, "cpu_counting"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		RouteFacts	facts = facts_of(cases[i].n, cases[i].key_bits);
		RouteModel	model = flat_model();

		set_curve(&model, MODEL_MERGE + facts.format, 0.9); /* 9 without vector instructions */
		set_curve(&model, cases[i].curve == MODEL_COUNTING_8 ? MODEL_COUNTING_8 :
				  cases[i].curve + facts.format, 0.001);
		if (cases[i].curve == MODEL_RADIX)
			set_curve(&model, MODEL_RADIX_16, 0.001);
		model.scalar[MODEL_CELL_NS] = 0.001;
		route_model = &model;
		facts.order_known = cases[i].order != 0;
		if (cases[i].order < 0)
			facts.descents = cases[i].n - 1;
		else if (cases[i].order > 0)
		{
			facts.descents = cases[i].order - 1;
			facts.ascents = cases[i].n - 1 - facts.descents;
		}
		if (strcmp(chosen(&facts), cases[i].want) != 0)
		{
			failures++;
			fprintf(stderr, "choice %zu: %s is not %s\n", i, chosen(&facts), cases[i].want);
		}
		route_model = &route_model_builtin;
	}
}

/* Without vector instructions cpu_merge is never the fastest. */
static void
test_portable(void)
{
	sort_isa_force(SORT_ISA_PORTABLE);
	for (int bits = 32; bits <= 128; bits *= 2)
	{
		for (size_t n = 2; n < (size_t) 1 << 27; n += n / 2)
		{
			RouteFacts	facts = facts_of(n, bits);

			CHECK_STR(chosen(&facts), "cpu_radix");
		}
	}
	sort_isa_force(sort_isa_best());
}

/* The decision has the least prediction, for random facts and constants. */
static void
test_properties(void)
{
	for (int round = 0; round < 100000; round++)
	{
		RouteModel	model;
		RouteFacts	facts = facts_of(next_random() >> (next_random() % 45 + 19),
									 1 + next_random() % 128);
		RouteFacts	before;
		RouteDecision decision;
		RoutePrediction p[ALGORITHM_COUNT];
		char		reason[ROUTE_REASON_SIZE];
		double		decision_us = -1;

		for (int c = 0; c < MODEL_CURVES; c++)
			for (int k = 0; k < MODEL_POINTS; k++)
				model.curve[c][k] = (double) (next_random() % 1000) / 10;
		model.scalar[MODEL_CELL_NS] = (double) (next_random() % 100) / 10;
		model.scalar[MODEL_CHAIN_NS] = (double) (next_random() % 100) / 10;
		model.scalar[MODEL_DROP_NS] = (double) (next_random() % 100) / 10;
		model.scalar[MODEL_TEAM_SHARE] = (double) (next_random() % 100) / 100;
		route_model = &model;
		if (next_random() % 2)
		{
			facts.order_known = true;
			facts.ascents = facts.n > 1 ? next_random() % facts.n : 0;
			facts.descents = next_random() % 3 == 0 || facts.n < 2 ? 0 :
				facts.n - 1 - facts.ascents;
		}
		if (next_random() % 2)
			facts.memory = 1 + (next_random() >> (next_random() % 64));
		if (next_random() % 4 == 0)
			facts.forced = &sort_algorithms[next_random() % ALGORITHM_COUNT];
		if (next_random() % 2)
			set_gpu(&facts, facts.end_bit - facts.begin_bit);
		if (next_random() % 2)
			facts.key_range = 1 + (next_random() >> (next_random() % 64));
		facts.gpu.keys_only = next_random() % 2;
		facts.gpu.key_distribution = (GpusortDistribution) (next_random() % GPUSORT_DISTRIBUTIONS);
		facts.gpu.distinct = next_random() % 2;
		facts.gpu.algorithms &= next_random() | next_random();
		facts.inexact = next_random() % 2;
		facts.threads = 1 + next_random() % 4;
		before = facts;

		gpusort_route_decide(&facts, &decision);
		gpusort_route_predict(&facts, p);
		CHECK(memcmp(&before, &facts, sizeof(facts)) == 0);

		for (int i = 0; i < ALGORITHM_COUNT; i++)
		{
			CHECK((p[i].us < 0) == (p[i].why_not != NULL));
			CHECK(facts.memory == 0 || p[i].scratch <= facts.memory ||
				  algorithm_on_gpu(p[i].algorithm));
			if (i > 0)
				CHECK(p[i - 1].us < 0 ? p[i].us < 0 : p[i].us < 0 || p[i - 1].us <= p[i].us);
			if (decision.algorithm == p[i].algorithm)
			{
				CHECK(p[i].us >= 0 || decision.algorithm->only_forced);
				CHECK(decision.predicted_us == 0 || p[i].us == decision.predicted_us);
				decision_us = p[i].us;
			}
		}
		/* auto chooses something only if a CPU kernel can run, too */
		if (facts.forced == NULL)
			CHECK(decision.algorithm == NULL || !decision.algorithm->only_forced);
		if (facts.forced == NULL)
			CHECK((decision.algorithm == NULL) ==
				  (decision.cpu_us == 0 && decision.predicted_us == 0 && decision_us < 0));
		if (facts.forced != NULL && decision.forced_why_not == NULL)
			CHECK(decision.algorithm == facts.forced);
		else if (decision.algorithm != NULL && facts.n >= ROUTE_TINY_ROWS)
			CHECK(decision_us == p[0].us);
		if (algorithm_on_gpu(decision.algorithm) && facts.forced == NULL)
			CHECK(decision.predicted_us < decision.cpu_us);
		if (facts.forced == NULL)
			CHECK(decision.forced_why_not == NULL);
		gpusort_route_reason(&facts, &decision, reason);
		CHECK(strlen(reason) > 0 && strlen(reason) < ROUTE_REASON_SIZE);
	}
	route_model = &route_model_builtin;
}

static void
test_forced(void)
{
	RouteFacts	facts = facts_of(10000000, 32);
	RouteDecision decision;
	char		reason[ROUTE_REASON_SIZE];

	facts.forced = &sort_algorithms[ALGORITHM_CPU_MERGE];
	gpusort_route_decide(&facts, &decision);
	CHECK_STR(decision.algorithm->name, "cpu_merge");
	CHECK_STR(gpusort_route_reason(&facts, &decision, reason),
			  "cpu merge: 32-bit keys, 10000000 rows, no device, as set");

	/* also for tiny inputs, and for an algorithm that auto never chooses */
	facts.n = 10;
	CHECK_STR(chosen(&facts), "cpu_merge");

	facts = facts_of(1000, 64);
	facts.forced = &sort_algorithms[ALGORITHM_CPU_COUNTING];
	gpusort_route_decide(&facts, &decision);
	CHECK(decision.algorithm != NULL && strcmp(decision.algorithm->name, "cpu_counting") != 0);
	CHECK(decision.forced_why_not != NULL);
	gpusort_route_reason(&facts, &decision, reason);
	CHECK(strstr(reason, ", not cpu counting: ") != NULL);
	CHECK(strstr(reason, decision.forced_why_not) != NULL);
}

static void
test_memory(void)
{
	RouteFacts	facts = facts_of(1000000, 32);
	RouteDecision decision;
	char		reason[ROUTE_REASON_SIZE];

	facts.memory = 1;
	facts.order_known = true;
	facts.ascents = facts.descents = facts.n / 2;
	gpusort_route_decide(&facts, &decision);
	CHECK(decision.algorithm == NULL);
	CHECK_STR(gpusort_route_reason(&facts, &decision, reason),
			  "none: 32-bit keys, 1000000 rows, no device");

	facts.memory = (size_t) 1 << 30;
	CHECK(strcmp(chosen(&facts), "none") != 0);
}

static void
test_reason(void)
{
	static const struct
	{
		DeviceState device;
		bool		inexact;
		size_t		bound;
		int			order;
		const char *want;
	}			cases[] = {
		{DEVICE_STATE_NONE, false, 0, 0, "cpu radix: 32-bit keys, 20 rows, no device"},
		{DEVICE_STATE_OFF, false, 0, 0, "cpu radix: 32-bit keys, 20 rows, device off"},
		{DEVICE_STATE_BUSY, true, 0, 0, "cpu radix: 32-bit keys (prefix), 20 rows, device busy"},
		{DEVICE_STATE_FULL, false, 10, 0, "cpu radix: 32-bit keys, 20 rows, first 10 wanted, device memory full"},
		{DEVICE_STATE_FAILED, false, 0, 1, "presorted: 32-bit keys, 20 rows, in order, device failed"},
		{DEVICE_STATE_READY, false, 0, -1, "cpu radix: 32-bit keys, 20 rows, reversed, device ready"},
		{DEVICE_STATE_NONE, false, 0, 2, "presorted: 32-bit keys, 20 rows, all equal, no device"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		RouteFacts	facts = facts_of(20, 32);
		RouteDecision decision;
		char		reason[ROUTE_REASON_SIZE];

		facts.device = cases[i].device;
		facts.inexact = cases[i].inexact;
		facts.bound = cases[i].bound;
		facts.order_known = cases[i].order != 0;
		facts.ascents = cases[i].order == 1 ? 19 : 0;
		facts.descents = cases[i].order == -1 ? 19 : 0;
		gpusort_route_decide(&facts, &decision);
		CHECK_STR(gpusort_route_reason(&facts, &decision, reason), cases[i].want);
	}
}

/* Threads shorten only the terms that can be divided. */
static void
test_team(void)
{
	RouteModel	model = flat_model();
	RouteFacts	facts = facts_of(1 << 20, 16);
	const Algorithm *radix = &sort_algorithms[ALGORITHM_CPU_RADIX];
	const Algorithm *counting = &sort_algorithms[ALGORITHM_CPU_COUNTING];
	const Algorithm *presorted = &sort_algorithms[ALGORITHM_PRESORTED];
	double		serial;

	route_model = &model;
	serial = model_predict_us(radix, &facts);
	facts.threads = 2;
	CHECK(fabs(model_predict_us(radix, &facts) / serial - 0.6) < 0.001);
	facts.n = 1000;				/* too few records for threads */
	facts.threads = 1;
	serial = model_predict_us(radix, &facts);
	facts.threads = 2;
	CHECK(model_predict_us(radix, &facts) == serial);

	facts = facts_of(1 << 20, 20);	/* a table per thread: too many counters */
	facts.order_known = true;
	facts.descents = facts.n - 1;
	serial = model_predict_us(counting, &facts);
	facts.threads = 2;
	CHECK(model_predict_us(counting, &facts) == serial);
	CHECK(model_predict_us(presorted, &facts) * 1000 / facts.n > 9.9);
	route_model = &route_model_builtin;
}

int
main(void)
{
	test_team();
	test_choice();
	test_portable();
	test_properties();
	test_forced();
	test_memory();
	test_reason();
	route_gpu_tests();
	route_distribution_tests();
	route_learn_tests();
	route_learn_cpu_tests();
	route_model_tests();
	if (failures > 0)
		fprintf(stderr, "%d checks failed\n", failures);
	return failures > 0;
}
