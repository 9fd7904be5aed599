/*
 * route_test.c
 *	  Tests the router's choices on the CPU: tables of facts, and properties
 *	  over random facts.
 *
 * bench/cpu/route_grid.c compares the choices and the predictions with measured
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

const char *
chosen(const RouteFacts *facts)
{
	RouteDecision decision;

	gpusort_route_decide(facts, &decision);
	return decision.algorithm->name;
}

/* The rule for CPU kernels. */
static void
test_choice(void)
{
	static const struct
	{
		size_t		n;
		int			key_bits;
		int			order;		/* 0 unknown, -1 descending, else 1 + descents */
		const char *want;
	}			cases[] = {
		{1000, 16, 0, "cpu_radix"},
		{1000000, 32, 0, "cpu_radix"},
		{1000000, 64, 0, "cpu_radix"},
		{1000000, 128, 0, "cpu_radix"},
		{1000000, 8, 0, "cpu_counting"},
		{1000000, 12, 0, "cpu_counting"},
		{1000000, 13, 0, "cpu_radix"},	/* the table of counts is too large ... */
		{4096, 12, 0, "cpu_counting"},
		{4095, 12, 0, "cpu_radix"}, /* ... also for few records */
		{1000000, 8, 20, "cpu_counting"},
		{1000000, 32, 1, "presorted"},
		{1000000, 8, 1, "presorted"},
		{1000000, 64, -1, "presorted"},
		{1000000, 128, 2, "presorted"},
		{1000000, 128, 2000, "presorted"},
		{1000000, 32, 62501, "presorted"},
		{1000000, 32, 62502, "cpu_radix"},	/* too much disorder */
		{1000000, 32, 200000, "cpu_radix"},
		{511, 32, 0, "cpu_merge"},
		{512, 32, 0, "cpu_radix"},
		{200, 64, 0, "cpu_radix"},
		{200, 128, 0, "cpu_radix"},
		/* tiny inputs */
		{0, 32, 0, "cpu_radix"},
		{1, 32, 0, "cpu_radix"},
		{23, 32, 0, "cpu_radix"},
		{24, 32, 0, "cpu_merge"},
		{40, 64, 0, "cpu_radix"},
		{40, 32, 1, "presorted"},
		{40, 32, -1, "cpu_merge"},
		{40, 32, 3, "cpu_merge"},
		{ROUTE_TINY_ROWS - 1, 4, 0, "cpu_merge"},
		{ROUTE_TINY_ROWS, 4, 0, "cpu_counting"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		RouteFacts	facts = facts_of(cases[i].n, cases[i].key_bits);
		const char *want = cases[i].want;

		if (sort_isa() == SORT_ISA_PORTABLE && strcmp(want, "cpu_merge") == 0)
			want = "cpu_radix";
		facts.order_known = cases[i].order != 0;
		if (cases[i].order < 0)
			facts.descents = cases[i].n - 1;
		else if (cases[i].order > 0)
		{
			facts.descents = cases[i].order - 1;
			facts.ascents = cases[i].n - 1 - facts.descents;
		}
		if (strcmp(chosen(&facts), want) != 0)
		{
			failures++;
			fprintf(stderr, "choice %zu: %s is not %s\n", i, chosen(&facts), want);
		}
		/* runs that overlap are not nearly in order */
		facts.scattered = true;
		CHECK(cases[i].order <= 4 || strcmp(chosen(&facts), "presorted") != 0);
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

/* The decision and the predictions agree, for random facts. */
static void
test_properties(void)
{
	for (int round = 0; round < 100000; round++)
	{
		RouteFacts	facts = facts_of(next_random() >> (next_random() % 45 + 19),
									 1 + next_random() % 128);
		RouteFacts	before;
		RouteDecision decision;
		RoutePrediction p[ALGORITHM_COUNT];
		char		reason[ROUTE_REASON_SIZE];
		int			on_cpu = 0;

		if (next_random() % 2)
		{
			facts.order_known = true;
			facts.ascents = facts.n > 1 ? next_random() % facts.n : 0;
			facts.descents = next_random() % 3 == 0 || facts.n < 2 ? 0 :
				facts.n - 1 - facts.ascents;
		}
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
			CHECK(p[i].why_not == NULL || (p[i].us == 0 && p[i].scratch == 0));
			if (i > 0)
				CHECK(p[i].why_not != NULL || (p[i - 1].why_not == NULL && p[i - 1].us <= p[i].us));
			on_cpu += p[i].why_not == NULL && !algorithm_on_gpu(p[i].algorithm);
			if (decision.algorithm == p[i].algorithm && p[i].why_not == NULL)
				CHECK(p[i].us == decision.predicted_us);
		}
		/* one CPU kernel can be chosen, if any can run */
		CHECK(on_cpu == 1 || facts.n > UINT32_MAX);
		if (facts.forced != NULL && decision.forced_why_not == NULL)
			CHECK(decision.algorithm == facts.forced);
		else if (facts.n <= UINT32_MAX)
			CHECK(decision.algorithm == p[0].algorithm && !decision.algorithm->only_forced);
		if (algorithm_on_gpu(decision.algorithm) && facts.forced == NULL)
			CHECK(decision.predicted_us < decision.cpu_us);
		if (facts.forced == NULL)
			CHECK(decision.forced_why_not == NULL);
		gpusort_route_reason(&facts, &decision, reason);
		CHECK(strlen(reason) > 0 && strlen(reason) < ROUTE_REASON_SIZE);
	}
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

/* Threads shorten the part of the time that they share. */
static void
test_team(void)
{
	RouteFacts	facts = facts_of(1 << 20, 16);
	const Algorithm *radix = &sort_algorithms[ALGORITHM_CPU_RADIX];
	double		serial = cpu_predict_us(radix, &facts);

	facts.threads = 2;
	CHECK(fabs(cpu_predict_us(radix, &facts) / serial - 0.575) < 0.001);
	/* nearly in order: one process, and a small team, but not a large one */
	facts = facts_of(1 << 20, 32);
	facts.order_known = true;
	facts.descents = 1000;
	facts.ascents = facts.n - 1001;
	CHECK_STR(chosen(&facts), "presorted");
	facts.threads = 3;
	CHECK_STR(chosen(&facts), "presorted");
	facts.threads = 4;
	CHECK_STR(chosen(&facts), "cpu_radix");
	facts.n = 50000;
	facts.ascents = facts.n - 1001;
	CHECK_STR(chosen(&facts), "presorted");
	facts = facts_of(1000, 16); /* too few records for threads */
	serial = cpu_predict_us(radix, &facts);
	facts.threads = 2;
	CHECK(cpu_predict_us(radix, &facts) == serial);
}

int
main(void)
{
	test_team();
	test_choice();
	test_portable();
	test_properties();
	test_forced();
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
