/*
 * route_model_test.c
 *	  Tests the cost model: curves, constants, their measurement, and the estimates from samples of keys.
 */
#define _GNU_SOURCE
#include <math.h>
#include <stdlib.h>

#include "route_test.h"

static void
test_curve(void)
{
	double		curve[MODEL_POINTS];
	double		prev = 0;

	for (int k = 0; k < MODEL_POINTS; k++)
		curve[k] = 1 + k * k;
	for (int k = 0; k < MODEL_POINTS; k++)
		CHECK(model_curve_at(curve, (size_t) 1 << model_point_log2(k)) == curve[k]);
	CHECK(model_curve_at(curve, 0) == curve[0]);
	CHECK(model_curve_at(curve, 1) == curve[0]);
	CHECK(model_curve_at(curve, SIZE_MAX) == curve[MODEL_POINTS - 1]);

	/* a curve of ascending points ascends everywhere between them */
	for (size_t n = 33; n < (size_t) 1 << 26; n += 1 + n / 7)
	{
		double		v = model_curve_at(curve, n);

		CHECK(v > prev);
		prev = v;
	}
}

/* Built-in costs are positive and grow with the number of records. */
static void
test_builtin(void)
{
	FOR_EACH_ALGORITHM(a)
	{
		for (int bits = 1; bits <= 128; bits++)
		{
			double		prev = 0;

			for (size_t n = 128; n <= (size_t) 1 << 28; n *= 2)
			{
				RouteFacts	facts = facts_of(n, bits);
				RouteDecision decision;

				facts.order_known = true;
				facts.descents = n - 1;
				facts.forced = a;
				gpusort_route_decide(&facts, &decision);
				if (decision.forced_why_not != NULL)
					continue;
				CHECK(decision.predicted_us > prev);
				CHECK(decision.predicted_us < n);	/* 1 us a record is absurd */
				prev = decision.predicted_us;
			}
		}
	}
}

/* The estimate of distinct keys is close for few values, unknown for many. */
static void
test_distinct(void)
{
	static const size_t counts[] = {1, 2, 10, 100, 300};
	const size_t n = 100000;
	uint64_t   *recs = aligned_alloc(64, n * sizeof(uint64_t));
	RouteFacts	facts;

	for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++)
	{
		facts = facts_of(n, 20);
		for (size_t i = 0; i < n; i++)
			recs[i] = (next_random() % counts[c] * 3001) << 32 | i;
		gpusort_route_sample(&facts, recs);
		CHECK(facts.distinct >= counts[c] * 0.7 && facts.distinct <= counts[c] * 1.5);
	}

	/* uniform keys, tiny inputs and wide keys: unknown */
	for (size_t i = 0; i < n; i++)
		recs[i] = next_random() % (1 << 20) << 32 | i;
	facts = facts_of(n, 20);
	gpusort_route_sample(&facts, recs);
	CHECK(facts.distinct == 0);
	memset(recs, 0, n * sizeof(uint64_t));
	facts = facts_of(1000, 20);
	gpusort_route_sample(&facts, recs);
	CHECK(facts.distinct == 0);
	facts = facts_of(n, 32);
	gpusort_route_sample(&facts, recs);
	CHECK(facts.distinct == 0);
	free(recs);
}

/* Several sorted runs are told apart from nearly sorted input. */
static void
test_scattered(void)
{
	static const size_t runs[] = {20, 256, 1000, 4000};
	const size_t n = 100000;
	uint64_t   *recs = aligned_alloc(64, n * sizeof(uint64_t));
	RouteDecision decision;
	RouteFacts	facts;

	for (size_t r = 0; r < sizeof(runs) / sizeof(runs[0]); r++)
	{
		facts = facts_of(n, 28);
		for (size_t i = 0; i < n; i++)
			recs[i] = (i % runs[r] << 12 | next_random() % 4096) << 32 | i;
		facts.order_known = true;
		facts.descents = n / runs[r];
		facts.ascents = n - 1 - facts.descents;
		gpusort_route_sample(&facts, recs);
		CHECK(facts.scattered);
		gpusort_route_decide(&facts, &decision);
		CHECK(decision.algorithm->id != ALGORITHM_PRESORTED);
	}

	/* one record in ten, or in a hundred, out of place: nearly sorted */
	for (size_t part = 10; part <= 100; part *= 10)
	{
		for (size_t i = 0; i < n; i++)
			recs[i] = (i % part == 0 ? next_random() % n : i) << 32 | i;
		facts = facts_of(n, 28);
		facts.order_known = true;
		facts.descents = n / 20;
		facts.ascents = n - 1 - facts.descents;
		gpusort_route_sample(&facts, recs);
		CHECK(!facts.scattered);
	}
	free(recs);
}

static void
test_calibrate(void)
{
	size_t		size = (size_t) 1 << 18;
	void	   *workspace = aligned_alloc(64, size);
	RouteModel	model;

	/* with a small workspace, large sizes keep the built-in costs */
	CHECK(model_calibrate(&model, workspace, size) == SORT_OK);
	for (int c = 0; c < MODEL_CURVES; c++)
		for (int k = 0; k < MODEL_POINTS; k++)
			CHECK(model.curve[c][k] >= 0 && model.curve[c][k] <= 1e6);
	free(workspace);
}

/* Sample inputs have the named order; sample_verify() finds wrong results. */
static void
test_sample(void)
{
	static const int widths[] = {1, 7, 8, 32, 33, 64, 65, 127, 128};
	const size_t n = 1000;
	void	   *recs = aligned_alloc(64, 24 * 1024);
	SortRec64  *r = recs;
	SortRec64	t;
	RouteFacts	facts;

	for (size_t w = 0; w < sizeof(widths) / sizeof(widths[0]); w++)
	{
		for (int order = 0; order < SAMPLE_ORDERS; order++)
		{
			sample_fill(recs, n, widths[w], (SampleOrder) order, 5, &facts);
			CHECK(facts.end_bit - facts.begin_bit == widths[w]);
			CHECK(facts.ascents + facts.descents < n);
			if (order == SAMPLE_SORTED)
				CHECK(facts.descents == 0);
			if (order == SAMPLE_REVERSED)
				CHECK(facts.ascents == 0);
			if (order == SAMPLE_UNIQUE && widths[w] >= 32)
				CHECK(facts.ascents + facts.descents == n - 1);
			if (order == SAMPLE_RUNS && widths[w] >= 32)
				CHECK(facts.descents == 1 && facts.ascents == n - 2);
			if (order == SAMPLE_FLAT)
				CHECK(facts.ascents == 0 && facts.descents == 0 && facts.key_range == 1);
			if (order == SAMPLE_RANDOM && widths[w] >= 32)
				CHECK(facts.descents > n / 3 && facts.ascents > n / 3);
			if (order == SAMPLE_SCATTERED && widths[w] >= 32)
				CHECK(facts.descents > n / 100 && facts.descents < n / 12);
			if ((order == SAMPLE_SWAPPED || order == SAMPLE_DISPLACED) && widths[w] >= 32)
				CHECK(facts.descents > 0 && facts.descents < n / 20);
		}
	}

	sample_fill(recs, n, 64, SAMPLE_SORTED, 5, &facts);
	CHECK(sample_verify(recs, n, 64, SAMPLE_SORTED, 5));
	t = r[10];
	r[10] = r[11];
	CHECK(!sample_verify(recs, n, 64, SAMPLE_SORTED, 5));	/* a record twice */
	r[11] = t;
	CHECK(!sample_verify(recs, n, 64, SAMPLE_SORTED, 5));	/* two records swapped */
	r[11] = r[10];
	r[10] = t;
	r[10].rid = 12;
	CHECK(!sample_verify(recs, n, 64, SAMPLE_SORTED, 5));	/* the rid of another
															 * record */

	sample_fill(recs, n, 64, SAMPLE_FLAT, 5, &facts);
	CHECK(sample_verify(recs, n, 64, SAMPLE_FLAT, 5));
	t = r[10];
	r[10] = r[11];
	r[11] = t;
	CHECK(!sample_verify(recs, n, 64, SAMPLE_FLAT, 5)); /* not stable */
	free(recs);
}

void
route_model_tests(void)
{
	test_curve();
	test_builtin();
	test_sample();
	test_distinct();
	test_scattered();
	test_calibrate();
}
