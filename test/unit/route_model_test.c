/*
 * route_model_test.c
 *	  Tests the cost model of the CPU, the estimate from a sample of keys, and the synthetic inputs.
 */
#define _GNU_SOURCE
#include <math.h>
#include <stdlib.h>

#include "route_test.h"

/* Predictions are positive and grow with the records and the bits; few have none. */
static void
test_predictions(void)
{
	for (int bits = 1; bits <= 128; bits++)
	{
		double		prev = 0;

		for (size_t n = ROUTE_TINY_ROWS; n < (size_t) 1 << 29; n += 1 + n / 7)
		{
			RouteFacts	facts = facts_of(n, bits);
			double		us = cpu_predict_us(&sort_algorithms[ALGORITHM_CPU_RADIX], &facts);

			CHECK(us > prev);
			CHECK(us < n);		/* 1 us a record is absurd */
			CHECK(cpu_predict_us(&sort_algorithms[ALGORITHM_CPU_COUNTING], &facts) == us);
			CHECK(cpu_predict_us(&sort_algorithms[ALGORITHM_PRESORTED], &facts) == 0);
			prev = us;
		}
	}
	for (size_t n = 0; n < ROUTE_TINY_ROWS; n++)
	{
		RouteFacts	facts = facts_of(n, 32);

		CHECK(cpu_predict_us(&sort_algorithms[ALGORITHM_CPU_RADIX], &facts) == 0);
	}
}

/* A prediction at a sample point is the point's value; between widths it is between theirs. */
static void
test_sample_points(void)
{
	static const struct
	{
		int			bits;
		double		ns;
	}			widths[] = {
		{4, 0.876}, {8, 0.876}, {12, (0.876 + 1.57) / 2}, {16, 1.57}, {24, 2.32}, {28, (2.32 + 2.3) / 2}, {32, 2.3},
		{64, 2.89}, {128, 4.42}
	};

	for (size_t i = 0; i < sizeof(widths) / sizeof(widths[0]); i++)
	{
		RouteFacts	facts = facts_of(1 << 15, widths[i].bits);

		CHECK(fabs(cpu_predict_us(&sort_algorithms[ALGORITHM_CPU_RADIX], &facts) -
				   ((1 << 15) * widths[i].ns + 30) / 1000) < 1e-9);
	}
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
	test_predictions();
	test_sample_points();
	test_sample();
	test_scattered();
}
