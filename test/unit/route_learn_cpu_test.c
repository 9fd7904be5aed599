/*
 * route_learn_cpu_test.c
 *	  Tests the correction factor of the CPU's cost model: bounds, outliers,
 *	  load that comes and goes, and the text form.
 *
 * route_learn_test.c tests the choices that are made with it.
 */
#include <math.h>

#include "route_test.h"

static const Algorithm *const radix = &sort_algorithms[ALGORITHM_CPU_RADIX];

/* Reports n sorts, one a second, that take "times" the predicted time. */
static int64_t
sorts(Factor *cpu, const RouteFacts *facts, double times, int n, int64_t now)
{
	double		us = cpu_predict_us(radix, facts);

	for (int i = 0; i < n; i++)
		cpu_learn_sort(cpu, radix, facts, us * times, ++now);
	return now;
}

static bool
is_about(double got, double want)
{
	return fabs(log(got / want)) < 0.02;
}

static void
test_learning(void)
{
	RouteFacts	facts = facts_of(1 << 20, 32);
	RouteFacts	wide = facts_of(CPU_LEARN_ROWS, 128);
	RouteFacts	fewer = facts_of(CPU_LEARN_ROWS - 1, 32);
	RouteFacts	measured = facts_of((size_t) 1 << CPU_MEASURED_LOG2_ROWS, 64);
	Factor		cpu = {0};
	int64_t		now;

	/* without any sort the factor is 1 */
	CHECK(cpu_learn_factor(&cpu, 5) == 1);
	/* a single sort moves the factor by a part only; many sorts of any size and width move it */
	now = sorts(&cpu, &facts, 30, 1, 0);
	CHECK(cpu_learn_factor(&cpu, now) < 1.25);
	now = sorts(&cpu, &facts, 2.5, 60, now);
	CHECK(cpu.jobs == 61 && is_about(cpu_learn_factor(&cpu, now), 2.5));
	now = sorts(&cpu, &wide, 1.5, 40, now);
	CHECK(is_about(cpu_learn_factor(&cpu, now), 1.5));

	/* small sorts, other kernels and GPU sorts do not change the factor */
	cpu.jobs = 0;
	now = sorts(&cpu, &fewer, 9, 1, now);
	cpu_learn_sort(&cpu, &sort_algorithms[ALGORITHM_PRESORTED], &facts, 1e6, now);
	cpu_learn_sort(&cpu, &sort_algorithms[ALGORITHM_CPU_COUNTING], &facts, 1e6, now);
	cpu_learn_sort(&cpu, &sort_algorithms[ALGORITHM_GPU_BUCKET], &facts, 1e6, now);
	cpu_learn_sort(&cpu, radix, &facts, NAN, now);
	cpu_learn_sort(&cpu, radix, &facts, 0, now);
	cpu_learn_sort(&cpu, radix, &facts, -1, now);
	CHECK(cpu.jobs == 0);

	/* a measurement initializes the factor, unless it failed */
	memset(&cpu, 0, sizeof(cpu));
	cpu_learn_measured(&cpu, 0);
	CHECK(!factor_is_known(&cpu));
	cpu_learn_measured(&cpu, 3 * cpu_predict_us(radix, &measured));
	CHECK(cpu.jobs == 0 && is_about(cpu_learn_factor(&cpu, 0), 3));
}

/* Outliers, load, and recovery after the load. */
static void
test_load(void)
{
	RouteFacts	facts = facts_of(1 << 20, 64);
	Factor		cpu = {0};
	int64_t		now;
	double		before;

	now = sorts(&cpu, &facts, 1, 40, 1000);
	CHECK(is_about(cpu_learn_factor(&cpu, now), 1));
	/* a delayed sort moves the factor a little; one in ten, a little more */
	now = sorts(&cpu, &facts, 1000, 1, now);
	CHECK(cpu_learn_factor(&cpu, now) < 1.06);
	for (int i = 0; i < 20; i++)
	{
		now = sorts(&cpu, &facts, 1, 9, now);
		now = sorts(&cpu, &facts, 1000, 1, now);
	}
	CHECK(cpu_learn_factor(&cpu, now) < 1.1);
	/* also after a pause without sorts */
	before = cpu_learn_factor(&cpu, now);
	now = sorts(&cpu, &facts, 1000, 1, now + 86400);
	CHECK(cpu_learn_factor(&cpu, now) < before * 1.06);

	/* two sorts a CPU: seen after some sorts, forgotten after a minute */
	now = sorts(&cpu, &facts, 1, 40, now);
	now = sorts(&cpu, &facts, 2, 40, now);
	CHECK(is_about(cpu_learn_factor(&cpu, now), 2));
	CHECK(is_about(cpu_learn_factor(&cpu, now + 60), sqrt(2)));
	CHECK(cpu_learn_factor(&cpu, now + 600) < 1.01);
	/* five sorts, a minute apart, show that the load is gone */
	for (int i = 0; i < 5; i++)
		now = sorts(&cpu, &facts, 1, 1, now + 60);
	CHECK(cpu_learn_factor(&cpu, now) < 1.1);
	/* a few sorts a minute keep the factor from fading */
	for (int i = 0; i < 40; i++)
		now = sorts(&cpu, &facts, 2, 1, now + 15);
	CHECK(is_about(cpu_learn_factor(&cpu, now), 2));

	/* the factor stays within its bounds */
	now = sorts(&cpu, &facts, 1e30, 1000, now);
	CHECK(is_about(cpu_learn_factor(&cpu, now), FACTOR_MAX));
	now = sorts(&cpu, &facts, 1e-30, 1000, now);
	CHECK(is_about(cpu_learn_factor(&cpu, now), FACTOR_MIN));
}

/* The factor does not change the choice of a kernel. */
static void
test_choice(void)
{
	for (int bits = 8; bits <= 128; bits *= 2)
	{
		for (size_t n = 100; n < (size_t) 1 << 26; n *= 3)
		{
			RouteFacts	facts = facts_of(n, bits);
			RouteDecision model;
			RouteDecision learned;
			RoutePrediction predictions[ALGORITHM_COUNT];

			gpusort_route_decide(&facts, &model);
			facts.cpu_factor = 3;
			gpusort_route_decide(&facts, &learned);
			CHECK(learned.algorithm == model.algorithm);
			CHECK(fabs(learned.predicted_us - 3 * model.predicted_us) <= 1e-9 * learned.predicted_us);
			CHECK(learned.cpu_us == learned.predicted_us);
			gpusort_route_predict(&facts, predictions);
			CHECK(predictions[0].algorithm == learned.algorithm && predictions[0].us == learned.predicted_us);
		}
	}
}

void
route_learn_cpu_tests(void)
{
	test_learning();
	test_load();
	test_choice();
}
