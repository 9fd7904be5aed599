/*
 * route_test.h
 *	  Shared by the router's tests: checks that count failures, invented facts.
 */
#ifndef ROUTE_TEST_H
#define ROUTE_TEST_H

#include <stdio.h>
#include <string.h>

#include "../../bench/cpu/route_inputs.h"
#include "../../cuda/costs_h200.h"

extern int	failures;

#define MAX_MESSAGES	30

#define CHECK(cond) \
	do { \
		if (!(cond) && failures++ < MAX_MESSAGES) \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond); \
	} while (0)

#define CHECK_STR(got, want) \
	do { \
		if (strcmp(got, want) != 0 && failures++ < MAX_MESSAGES) \
			fprintf(stderr, "%s:%d: \"%s\" is not \"%s\"\n", __FILE__, __LINE__, \
					got, want); \
	} while (0)

/* route_gpu_test.c */
extern void route_gpu_tests(void);

/* route_distribution_test.c */
extern void route_distribution_tests(void);

/* route_learn_test.c */
extern void route_learn_tests(void);

/* route_learn_cpu_test.c */
extern void route_learn_cpu_tests(void);

/* route_model_test.c */
extern void route_model_tests(void);

/* A pseudo-random number; every run has the same sequence. */
extern uint64_t next_random(void);

extern RouteFacts facts_of(size_t n, int key_bits);

/* Adds a GPU to the facts that is ready and has all algorithms. */
extern void set_gpu(RouteFacts *facts, int key_bits);

/* The name of the chosen kernel. */
extern const char *chosen(const RouteFacts *facts);

#endif							/* ROUTE_TEST_H */
