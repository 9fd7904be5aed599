/*
 * gpu_choices.c
 *	  The router's choice among GPU algorithms against recorded times; needs no GPU.
 *
 * Reads times of gpu_sweep.  Each line of the CSV is a cell: keys of one width,
 * number and distribution.  The router gets the sample that it would take of these
 * keys, and chooses by the costs of an H200.  The program compares the recorded
 * times of the chosen algorithm, of the fastest one of gpusort, and of the faster
 * of CUB's two.  Presorted keys count too, although key mode leaves them on the
 * CPU.
 *
 * usage: gpu_choices [CSV]			default bench/results/gpu-h200-sweep.csv
 *		  gpu_choices --spread [N]	how samples of distributions.c's keys are
 *									classified, for N seeds; the classification was
 *									not tuned on these keys
 *
 * Prints a table by width, and each cell whose choice is below 0.95 times CUB.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../cuda/costs_h200.h"
#include "../cpu/distributions.h"
#include "gpu_keys.h"
#include "cost/cost_internal.h"

#define ENOUGH	0.95

static const char *const spread_names[GPUSORT_DISTRIBUTIONS] = {
	"uniform", "frequent", "skewed", "clustered", "long prefix"
};

/* Columns of the CSV that have times. */
enum
{
	CUB_RADIX, CUB_MERGE, RADIX, BUCKET, MERGE,
				TIMES
};

static const AlgorithmId time_of[TIMES] = {
	[RADIX] = ALGORITHM_GPU_RADIX,[BUCKET] = ALGORITHM_GPU_BUCKET,[MERGE] = ALGORITHM_GPU_MERGE
};

typedef struct Cell
{
	int			key_bits;
	uint64_t	n;
	char		distribution[32];
	double		us[TIMES];		/* 0: not measured */
} Cell;

typedef struct Totals
{
	int			cells;
	int			below;			/* chosen, below ENOUGH of CUB's */
	int			best_below;		/* ... the best of ours is */
	int			not_best;		/* chosen takes more than 1 / ENOUGH of the
								 * best's */
	double		log_ratio;
} Totals;

static bool
parse(char *line, Cell *cell)
{
	char	   *fields[3 + TIMES];

	for (int i = 0; i < 3 + TIMES; i++)
	{
		fields[i] = strsep(&line, ",\n");
		if (fields[i] == NULL)
			return false;
	}
	cell->key_bits = atoi(fields[0]);
	cell->n = strtoull(fields[1], NULL, 10);
	snprintf(cell->distribution, sizeof(cell->distribution), "%s", fields[2]);
	for (int i = 0; i < TIMES; i++)
		cell->us[i] = atof(fields[3 + i]);
	return cell->key_bits > 0;
}

/* The bits of a key that a sample has. */
static uint64_t
sampled(SweepKey key, int bits)
{
	return bits == 32 ? (uint32_t) key : (uint64_t) (key >> (bits - 64));
}

/* The keys of a cell of the sweep. */
typedef struct CellKeys
{
	const Cell *cell;
	int			d;				/* number of the distribution */
} CellKeys;

static void
cell_pair(void *arg, size_t i, uint64_t pair[2])
{
	const CellKeys *keys = arg;
	int			bits = keys->cell->key_bits;

	for (int k = 0; k < 2; k++)
		pair[k] = sampled(sweep_key(keys->d, bits, i + k, keys->cell->n), bits);
}

static GpusortDistribution
spread_of(const Cell *cell)
{
	GpuSampleSeen seen;
	int			d = 0;

	while (d < SWEEP_DISTRIBUTIONS && strcmp(cell->distribution, distribution_name(d)) != 0)
		d++;
	if (d == SWEEP_DISTRIBUTIONS)
	{
		fprintf(stderr, "gpu_choices: no distribution %s\n", cell->distribution);
		exit(2);
	}
	gpu_sample_keys(cell->n, cell_pair, &(CellKeys) {cell, d}, &seen);
	return seen.key_distribution;
}

/* The column of the algorithm that the router chooses. */
static int
choice(const Cell *cell, GpusortDistribution key_distribution)
{
	RouteFacts	facts = {0};
	const Algorithm *chosen;
	double		us = HUGE_VAL;
	int			t = RADIX;

	facts.n = cell->n;
	facts.device = DEVICE_STATE_READY;
	facts.gpu.key_width = facts.gpu.key_bits = cell->key_bits;
	facts.gpu.key_distribution = key_distribution;
	facts.gpu.costs = &gpusort_costs_h200;
	for (int i = RADIX; i < TIMES; i++)
	{
		if (cell->us[i] > 0)
			facts.gpu.algorithms |= 1u << time_of[i];
	}
	chosen = gpu_choose(&facts, &us);
	while (time_of[t] != chosen->id)
		t++;
	return t;
}

static double
least(const double *us, int from, int to)
{
	double		found = HUGE_VAL;

	for (int i = from; i < to; i++)
	{
		if (us[i] > 0 && us[i] < found)
			found = us[i];
	}
	return found;
}

static void
judge(const Cell *cell, Totals *totals)
{
	GpusortDistribution key_distribution = spread_of(cell);
	int			chosen = choice(cell, key_distribution);
	double		cub = least(cell->us, CUB_RADIX, RADIX);
	double		best = least(cell->us, RADIX, TIMES);

	totals->cells++;
	totals->log_ratio += log(cub / cell->us[chosen]);
	totals->best_below += cub / best < ENOUGH;
	totals->not_best += best / cell->us[chosen] < ENOUGH;
	if (cub / cell->us[chosen] >= ENOUGH)
		return;
	totals->below++;
	printf("%3d bits, 2^%.0f %s (%s): %s %.2f, best of ours %.2f\n", cell->key_bits, log2((double) cell->n),
		   cell->distribution, spread_names[key_distribution], sort_algorithms[time_of[chosen]].name,
		   cub / cell->us[chosen], cub / best);
}

static int
choices(const char *name)
{
	FILE	   *file = fopen(name, "r");
	Totals		totals[3] = {{0}};
	char		line[1024];

	if (file == NULL)
	{
		perror(name);
		return 2;
	}
	while (fgets(line, sizeof(line), file) != NULL)
	{
		Cell		cell;

		if (line[0] != '#' && parse(line, &cell))
			judge(&cell, &totals[cell.key_bits / 64]);
	}
	fclose(file);
	printf("\nbits  cells  below %.2f  best of ours below  5 %% behind ours  times CUB\n", ENOUGH);
	for (int w = 0; w < 3; w++)
	{
		if (totals[w].cells > 0)
			printf("%4d  %5d  %10d  %18d  %15d  %9.2f\n", 32 << w, totals[w].cells, totals[w].below,
				   totals[w].best_below, totals[w].not_best, exp(totals[w].log_ratio / totals[w].cells));
	}
	return 0;
}

/* ------------------------------------------------------------------------
 * Other distributions
 * ------------------------------------------------------------------------
 */

/* Most keys of an input. */
#define MOST_KEYS	(UINT64_C(1) << 20)

typedef struct Taken
{
	uint64_t	keys[MOST_KEYS];	/* their leading 64 bits */
	int			key_bits;
} Taken;

static void
take(void *arg, size_t i, DistKey key)
{
	Taken	   *taken = arg;

	taken->keys[i] = taken->key_bits == 128 ? key.hi : key.lo;
}

static void
taken_pair(void *arg, size_t i, uint64_t pair[2])
{
	memcpy(pair, &((Taken *) arg)->keys[i], 2 * sizeof(uint64_t));
}

static int
distributions(int seeds)
{
	for (int bits = 32; bits <= 128; bits *= 2)
	{
		for (const char *const *name = distribution_names; *name != NULL; name++)
		{
			int			found[GPUSORT_DISTRIBUTIONS] = {0};

			for (int seed = 1; seed <= seeds; seed++)
			{
				static Taken taken;
				uint64_t	n = MOST_KEYS >> (6 - seed % 7);
				GpuSampleSeen seen;

				taken.key_bits = bits;
				distribution_generate(*name, bits, n, seed, take, &taken);
				gpu_sample_keys(n, taken_pair, &taken, &seen);
				found[seen.key_distribution]++;
			}
			printf("%3d bits, %s:", bits, *name);
			for (int s = 0; s < GPUSORT_DISTRIBUTIONS; s++)
			{
				if (found[s] > 0)
					printf(" %s %d", spread_names[s], found[s]);
			}
			putchar('\n');
		}
	}
	return 0;
}

int
main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "--spread") == 0)
		return distributions(argc > 2 ? atoi(argv[2]) : 35);
	return choices(argc > 1 ? argv[1] : "bench/results/gpu-h200-sweep.csv");
}
