/*
 * router.c
 *	  Chooses between the best CPU kernel and the GPU, by predicted times.
 *
 * cpu_model.c chooses the CPU kernel and predicts its time, gpu_model.c predicts every
 * GPU algorithm that can sort the input.  Presorted input and input below
 * ROUTE_TINY_ROWS have no prediction, and stay on the CPU.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cost/cost_internal.h"
#include "kernel/team.h"

void
gpusort_route_problem(const RouteFacts *facts, SortProblem *problem)
{
	memset(problem, 0, sizeof(*problem));
	problem->format = facts->format;
	problem->n = facts->n;
	problem->begin_bit = facts->begin_bit;
	problem->end_bit = facts->end_bit;
	problem->rids_ascending = true;
	problem->order_known = facts->order_known;
	problem->descents = facts->descents;
	problem->ascents = facts->ascents;
}

/* Why the algorithm cannot sort the input, a short reason; NULL: it can. */
static const char *
why_not(const Algorithm *algorithm, const RouteFacts *facts, const SortProblem *problem)
{
	const char *why = NULL;

	if (algorithm_on_gpu(algorithm))
		(void) gpu_fits(algorithm, facts, &why);
	else
		(void) algorithm->kernel->applies(problem, &why);
	return why;
}

/* The predicted time of an algorithm, with the correction factors; 0: not modelled. */
static double
predict_us(const Algorithm *algorithm, const RouteFacts *facts)
{
	if (algorithm_on_gpu(algorithm))
		return algorithm->only_forced ? 0 : gpu_predict_us(algorithm, facts);
	return cpu_predict_us(algorithm, facts) * (facts->cpu_factor > 0 ? facts->cpu_factor : 1);
}

void
gpusort_route_decide(const RouteFacts *facts, RouteDecision *decision)
{
	const Algorithm *gpu;

	memset(decision, 0, sizeof(*decision));
	if (facts->forced != NULL)
	{
		SortProblem problem;

		gpusort_route_problem(facts, &problem);
		decision->forced_why_not = why_not(facts->forced, facts, &problem);
		if (decision->forced_why_not == NULL)
		{
			decision->algorithm = facts->forced;
			decision->predicted_us = predict_us(facts->forced, facts);
			return;
		}
	}
	decision->algorithm = cpu_choose(facts);
	decision->predicted_us = decision->cpu_us = predict_us(decision->algorithm, facts);
	gpu = gpu_choose(facts, &decision->predicted_us);
	if (gpu != NULL)
		decision->algorithm = gpu;
}

/* Inserts a prediction by time; algorithms that cannot be chosen come last. */
static void
insert_prediction(RoutePrediction *out, int n, const RoutePrediction *p)
{
	int			i;

	for (i = n; i > 0; i--)
	{
		if (p->why_not != NULL || (out[i - 1].why_not == NULL && out[i - 1].us <= p->us))
			break;
		out[i] = out[i - 1];
	}
	out[i] = *p;
}

void
gpusort_route_predict(const RouteFacts *facts, RoutePrediction out[ALGORITHM_COUNT])
{
	const Algorithm *cpu = cpu_choose(facts);
	SortTeam	team = {.size = facts->threads};
	SortProblem problem;
	int			n = 0;

	/* scratch_bytes() reads only the size of the team */
	gpusort_route_problem(facts, &problem);
	problem.team = facts->threads > 1 ? &team : NULL;
	FOR_EACH_ALGORITHM(a)
	{
		RoutePrediction p = {.algorithm = a,.why_not = why_not(a, facts, &problem)};

		if (p.why_not == NULL && a->only_forced)
			p.why_not = "it is never the fastest and runs only if it is set";
		else if (p.why_not == NULL && !algorithm_on_gpu(a) && a != cpu)
			p.why_not = "another CPU algorithm suits such input better";
		if (p.why_not == NULL)
		{
			p.us = predict_us(a, facts);
			p.scratch = algorithm_on_gpu(a) ? gpusort_keys_bytes(facts->gpu.costs, facts->n, facts->gpu.key_width) :
				a->kernel->scratch_bytes(&problem);
		}
		insert_prediction(out, n++, &p);
	}
}

/* Appends to the reason, truncating. */
static void
append(char *buf, const char *fmt,...)
{
	size_t		len = strlen(buf);
	va_list		args;

	va_start(args, fmt);
	vsnprintf(buf + len, ROUTE_REASON_SIZE - len, fmt, args);
	va_end(args);
}

char *
gpusort_route_reason(const RouteFacts *facts, const RouteDecision *decision,
					 char *buf)
{
	static const char *const device_words[] = {
		[DEVICE_STATE_NONE] = "no device",
		[DEVICE_STATE_OFF] = "device off",
		[DEVICE_STATE_FORBIDDEN] = "device not allowed",
		[DEVICE_STATE_BUSY] = "device busy",
		[DEVICE_STATE_FULL] = "device memory full",
		[DEVICE_STATE_FAILED] = "device failed",
		[DEVICE_STATE_IDLE] = "device idle",
		[DEVICE_STATE_READY] = "device ready"
	};
	int			bits = algorithm_on_gpu(decision->algorithm) ? facts->gpu.key_bits :
		facts->end_bit - facts->begin_bit;

	buf[0] = '\0';
	append(buf, "%s: %d-bit keys%s, %zu rows", decision->algorithm->display, bits,
		   facts->inexact ? " (prefix)" : "", facts->n);
	if (facts->order_known && facts->n > 1)
	{
		if (facts->descents == 0)
			append(buf, facts->ascents == 0 ? ", all equal" : ", in order");
		else if (facts->ascents == 0)
			append(buf, ", reversed");
	}
	if (facts->bound != 0)
		append(buf, ", first %zu wanted", facts->bound);
	append(buf, ", %s", device_words[facts->device]);
	if (facts->forced != NULL)
	{
		if (decision->forced_why_not == NULL)
			append(buf, ", as set");
		else
			append(buf, ", not %s: %s", facts->forced->display, decision->forced_why_not);
	}
	return buf;
}
