/*
 * router.c
 *	  Chooses the sort algorithm with the least predicted time.
 *
 * The router predicts every algorithm that can sort the input within its memory:
 * CPU kernels by cpu_model.c, GPU algorithms by gpu_model.c.  A sorted input and
 * an input below ROUTE_TINY_ROWS skip the prediction, because it would cost more
 * than a wrong choice.
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

/* Fills the problem for SortKernel.applies(), which reads only the size of *team. */
static void
describe_problem(const RouteFacts *facts, SortProblem *problem, SortTeam *team)
{
	gpusort_route_problem(facts, problem);
	team->size = facts->threads;
	if (team->size > 1)
		problem->team = team;
}

/* cpu_radix uses an insertion sort below this; it always beats cpu_merge there. */
#define MERGE_MIN_ROWS		24

/*
 * Can this algorithm sort the input, a CPU algorithm within the memory?  Sets the bytes that it
 * needs, or a short reason.
 */
static bool
fits(const Algorithm *algorithm, const RouteFacts *facts, const SortProblem *problem, RoutePrediction *p)
{
	const SortKernel *kernel = algorithm->kernel;
	size_t		scratch;

	*p = (RoutePrediction) {.algorithm = algorithm,.us = -1};
	if (algorithm_on_gpu(algorithm))
	{
		if (gpu_fits(algorithm, facts, &p->why_not))
			p->scratch = gpusort_keys_bytes(facts->gpu.costs, facts->n, facts->gpu.key_width);
		return p->why_not == NULL;
	}
	if (!algorithm_takes(algorithm, problem->format))
		p->why_not = "it does not take keys of this width";
	else if (kernel->applies(problem, &p->why_not))
	{
		scratch = kernel->scratch_bytes(problem);
		if (facts->memory == 0 || scratch <= facts->memory)
			p->scratch = scratch;
		else
			p->why_not = "its scratch space does not fit the memory";
	}
	return p->why_not == NULL;
}

/* The predicted time of an algorithm that fits, with the CPU's correction factor. */
static double
predict_us(const Algorithm *algorithm, const RouteFacts *facts)
{
	if (algorithm_on_gpu(algorithm))
		return gpu_predict_us(algorithm, facts);
	return model_predict_us(algorithm, facts) * (facts->cpu_factor > 0 ? facts->cpu_factor : 1);
}

/*
 * The choice for a sorted or tiny input, without a prediction; otherwise NULL.
 * For few records only cpu_radix and cpu_merge compete.
 */
static const Algorithm *
obvious_choice(const RouteFacts *facts, const SortProblem *problem)
{
	AlgorithmId obvious = ALGORITHM_CPU_RADIX;
	RoutePrediction p;

	if (facts->order_known && facts->descents == 0)
		obvious = ALGORITHM_PRESORTED;
	else if (facts->n >= ROUTE_TINY_ROWS)
		return NULL;
	else if (facts->n >= MERGE_MIN_ROWS)
	{
		int			sample_point = facts->n < 64 ? 0 : 1;
		const RouteModel *m = route_model;

		if (m->curve[MODEL_RADIX + facts->format][sample_point] >=
			m->curve[MODEL_MERGE + facts->format][sample_point] * model_merge_times())
			obvious = ALGORITHM_CPU_MERGE;
	}
	return fits(&sort_algorithms[obvious], facts, problem, &p) ? p.algorithm : NULL;
}

/* The fastest CPU algorithm; NULL if none fits the memory.  Sets *us, 0 if not modelled. */
static const Algorithm *
choose_cpu(const RouteFacts *facts, const SortProblem *problem, double *us)
{
	const Algorithm *best = obvious_choice(facts, problem);
	RoutePrediction p;

	*us = 0;
	if (best != NULL)
		return best;
	FOR_EACH_ALGORITHM(a)
	{
		double		a_us;

		if (algorithm_on_gpu(a) || !fits(a, facts, problem, &p))
			continue;
		a_us = predict_us(a, facts);
		if (best == NULL || a_us < *us)
		{
			best = a;
			*us = a_us;
		}
	}
	return best;
}

/* Decides for the forced algorithm, or sets decision->forced_why_not. */
static bool
decide_forced(const RouteFacts *facts, const SortProblem *problem, RouteDecision *decision)
{
	const Algorithm *forced = facts->forced;
	RoutePrediction p;

	if (!fits(forced, facts, problem, &p))
	{
		decision->forced_why_not = p.why_not;
		return false;
	}
	decision->algorithm = forced;
	if (algorithm_on_gpu(forced) ? !forced->only_forced : facts->n >= ROUTE_TINY_ROWS)
		decision->predicted_us = predict_us(forced, facts);
	return true;
}

void
gpusort_route_decide(const RouteFacts *facts, RouteDecision *decision)
{
	SortProblem problem;
	SortTeam	team;
	const Algorithm *gpu;

	memset(decision, 0, sizeof(*decision));
	describe_problem(facts, &problem, &team);
	if (facts->forced != NULL && decide_forced(facts, &problem, decision))
		return;

	decision->algorithm = choose_cpu(facts, &problem, &decision->predicted_us);
	decision->cpu_us = decision->predicted_us;
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
		if (p->us < 0 || (out[i - 1].us >= 0 && out[i - 1].us <= p->us))
			break;
		out[i] = out[i - 1];
	}
	out[i] = *p;
}

void
gpusort_route_predict(const RouteFacts *facts, RoutePrediction out[ALGORITHM_COUNT])
{
	SortProblem problem;
	SortTeam	team;
	int			n = 0;

	describe_problem(facts, &problem, &team);
	FOR_EACH_ALGORITHM(a)
	{
		RoutePrediction p;

		if (fits(a, facts, &problem, &p) && !a->only_forced)
			p.us = predict_us(a, facts);
		else if (p.why_not == NULL)
		{
			p.why_not = "it is never the fastest and runs only if it is set";
			p.scratch = 0;
		}
		insert_prediction(out, n++, &p);
	}
}

void
gpusort_route_display_name(const char *name, char *buf, size_t size)
{
	size_t		i;

	for (i = 0; name[i] != '\0' && i + 1 < size; i++)
		buf[i] = name[i] == '_' ? ' ' : name[i];
	buf[i] = '\0';
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
	if (decision->algorithm == NULL)
		append(buf, "none");
	else
		gpusort_route_display_name(decision->algorithm->name, buf, ROUTE_REASON_SIZE);
	append(buf, ": %d-bit keys%s, %zu rows", bits,
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
		{
			append(buf, ", not ");
			gpusort_route_display_name(facts->forced->name, buf + strlen(buf),
									   ROUTE_REASON_SIZE - strlen(buf));
			append(buf, ": %s", decision->forced_why_not);
		}
	}
	return buf;
}
