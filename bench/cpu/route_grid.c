/*
 * route_grid.c
 *	  The router's choice among CPU kernels against measured times.
 *
 * Sorts every cell of a grid (records x key bits x input order) with every
 * applicable kernel, and prints the predicted and the measured time.  The figure
 * of merit of a cell is chosen/best: the measured time of the kernel that the
 * router chose, divided by the least measured time.  The exit status is 1 if a
 * cell is above the bound (1.25), and 2 if a kernel sorted wrongly, which is
 * checked after every repetition.
 *
 * This is a benchmark and no test: times on a busy machine can miss the bound without
 * a fault of the code.
 * test/unit/route_test.c tests that the router follows its model; this program
 * compares the model with the machine.
 *
 * Usage: route_grid [options]
 *	--log2-rows A-B		powers of two				(default 7-22)
 *	--step S			every S-th power of two		(default 1)
 *	--key-bits LIST		(default 8,12,16,20,24,32,48,64,96,128)
 *	--orders LIST		(default all)
 *	--threads T			(default 1)
 *	--bound X			(default 1.25)
 *	--grain-us X		ignore smaller differences (default 0.2)
 *	--format csv|worst	every cell, or only a summary and the worst cells
 *	--portable			kernels without vector instructions
 *
 * A time is the least of several repetitions.  Below 32768 records a cell has
 * many inputs, sorted one after the other, because one input is too short for
 * the clock and would be learned by the branch predictor.  Each input is routed
 * separately; "chosen: some" means that the choices differ.
 */
#define _GNU_SOURCE
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "kernel/isa.h"
#include "kernel/team.h"
#include "route_inputs.h"

#define MAX_LIST	32
#define MAX_CELLS	8192
#define WORST		16
#define MEASURE_RECORDS	32768
#define MAX_COPIES	(MEASURE_RECORDS / 2)
#define SEED		42

typedef struct Cell
{
	int			log2_rows;
	int			key_bits;
	SampleOrder order;
	const Algorithm *chosen;
	const Algorithm *best;
	double		chosen_us;
	double		best_us;
	double		predicted_us;	/* of the chosen */
	double		ratio;
} Cell;

typedef struct Options
{
	int			log2_min;
	int			log2_max;
	int			step;
	int			key_bits[MAX_LIST];
	int			nkey_bits;
	SampleOrder orders[MAX_LIST];
	int			norders;
	double		bound;
	double		grain_us;
	int			threads;
	bool		csv;
} Options;

static Cell cells[MAX_CELLS];
static int	ncells;

static void
die(const char *what, const char *arg)
{
	fprintf(stderr, "route_grid: %s%s%s\n", what, arg ? ": " : "", arg ? arg : "");
	exit(3);
}

/* Allocates memory in huge pages, if the system grants them, and touches it. */
static void *
map_memory(size_t size)
{
	size_t		align = (size_t) 2 << 20;
	void	   *p = aligned_alloc(align, (size + align - 1) & ~(align - 1));

	if (p == NULL)
		die("out of memory", NULL);
	madvise(p, size, MADV_HUGEPAGE);
	memset(p, 1, size);
	return p;
}

/* The inputs of a cell; a cell of small inputs has many. */
typedef struct Inputs
{
	size_t		n;
	int			key_bits;
	SampleOrder order;
	int			copies;
	RouteFacts	facts[MAX_COPIES];
	const Algorithm *chosen[MAX_COPIES];
	const Algorithm *all_chosen;	/* by every copy, or NULL */
	char	   *recs;
	size_t		stride;			/* bytes from one copy to the next */
	char	   *scratch;
	size_t		scratch_size;
	int			threads;
	SortTeam   *team;
} Inputs;

static Inputs inputs;

/* Processor time, which excludes other processes; elapsed time with several threads. */
static double
now_us(void)
{
	struct timespec ts;

	clock_gettime(inputs.team ? CLOCK_MONOTONIC : CLOCK_THREAD_CPUTIME_ID, &ts);
	return ts.tv_sec * 1e6 + ts.tv_nsec / 1e3;
}

static void
fill_inputs(void)
{
	for (int c = 0; c < inputs.copies; c++)
		sample_fill(inputs.recs + c * inputs.stride, inputs.n, inputs.key_bits,
					inputs.order, SEED + c, &inputs.facts[c]);
}

static void
decide_inputs(void)
{
	for (int c = 0; c < inputs.copies; c++)
	{
		RouteDecision decision;

		inputs.facts[c].threads = inputs.threads;
		gpusort_route_sample(&inputs.facts[c], inputs.recs + c * inputs.stride);
		gpusort_route_decide(&inputs.facts[c], &decision);
		inputs.chosen[c] = decision.algorithm;
		if (c == 0)
			inputs.all_chosen = decision.algorithm;
		else if (inputs.all_chosen != decision.algorithm)
			inputs.all_chosen = NULL;
	}
}

/*
 * Sorts all inputs once; returns microseconds per input.  With algorithm NULL each
 * input is sorted by the algorithm that was chosen for it.  Negative if the
 * algorithm refuses an input.
 */
static double
measure(const Algorithm *algorithm)
{
	static SortProblem problems[MAX_COPIES];
	double		us;

	fill_inputs();
	for (int c = 0; c < inputs.copies; c++)
	{
		const char *why;

		gpusort_route_problem(&inputs.facts[c], &problems[c]);
		problems[c].recs = inputs.recs + c * inputs.stride;
		problems[c].scratch = inputs.scratch;
		problems[c].team = inputs.team;
		if (algorithm != NULL && !algorithm->kernel->applies(&problems[c], &why))
			return -1;
	}

	us = now_us();
	for (int c = 0; c < inputs.copies; c++)
	{
		const Algorithm *a = algorithm ? algorithm : inputs.chosen[c];

		if (a->kernel->run(&problems[c]) != SORT_OK)
			die("a kernel failed", a->name);
	}
	us = (now_us() - us) / inputs.copies;

	/* the last input's: results may lie in the scratch, which all share */
	if (!sample_verify(problems[inputs.copies - 1].result, inputs.n, inputs.key_bits,
					   inputs.order, SEED + inputs.copies - 1))
	{
		fprintf(stderr, "route_grid: %s sorted wrongly: %zu rows, %d bits, %s\n",
				algorithm ? algorithm->name : "the choice", inputs.n, inputs.key_bits,
				sample_order_names[inputs.order]);
		exit(2);
	}
	return us;
}

static void
run_cell(const Options *opt, int log2_rows, int key_bits, SampleOrder order,
		 char *recs, char *scratch, size_t scratch_size)
{
	double		measured[ALGORITHM_COUNT];
	int			reps = log2_rows < 16 ? 9 : log2_rows < 22 ? 5 : log2_rows < 25 ? 3 : 2;
	Cell	   *cell = &cells[ncells];

	if (ncells == MAX_CELLS)
		die("too many cells", NULL);
	inputs.n = (size_t) 1 << log2_rows;
	inputs.key_bits = key_bits;
	inputs.order = order;
	inputs.copies = inputs.n < MEASURE_RECORDS ? MEASURE_RECORDS / inputs.n : 1;
	inputs.recs = recs;
	inputs.stride = (inputs.n * sort_rec_size(sample_format(key_bits)) + 63) & ~(size_t) 63;
	inputs.scratch = scratch;
	inputs.scratch_size = scratch_size;
	fill_inputs();
	decide_inputs();

	cell->log2_rows = log2_rows;
	cell->key_bits = key_bits;
	cell->order = order;
	cell->chosen = inputs.all_chosen;
	cell->best = NULL;
	cell->chosen_us = INFINITY;
	cell->predicted_us = cpu_predict_us(inputs.chosen[0], &inputs.facts[0]);
	for (int i = 0; i < ALGORITHM_COUNT; i++)
		measured[i] = algorithm_on_gpu(&sort_algorithms[i]) ? -1 : INFINITY;

	/* kernels alternate, so that other work slows all of them alike */
	for (int rep = 0; rep < reps; rep++)
	{
		for (int i = 0; i < ALGORITHM_COUNT; i++)
			if (measured[i] >= 0)
				measured[i] = fmin(measured[i], measure(&sort_algorithms[i]));
		if (cell->chosen == NULL)
			cell->chosen_us = fmin(cell->chosen_us, measure(NULL));
	}

	for (int i = 0; i < ALGORITHM_COUNT; i++)
	{
		if (measured[i] < 0)
			continue;
		if (cell->best == NULL || measured[i] < cell->best_us)
		{
			cell->best = &sort_algorithms[i];
			cell->best_us = measured[i];
		}
		if (&sort_algorithms[i] == cell->chosen)
			cell->chosen_us = measured[i];
	}
	if (cell->best == NULL)
		die("no kernel takes all inputs of a cell", NULL);
	cell->ratio = cell->chosen_us / cell->best_us;
	if (cell->ratio < 1.02 || cell->chosen_us - cell->best_us < opt->grain_us)
		cell->ratio = 1;
	ncells++;

	if (!opt->csv)
		return;
	for (int i = 0; i < ALGORITHM_COUNT; i++)
	{
		const Algorithm *a = &sort_algorithms[i];
		double		us = cpu_predict_us(a, &inputs.facts[0]);

		if (measured[i] < 0)
			continue;
		printf("%d,%d,%s,%s,%.3f,%.3f,%.2f,%s,%.3f\n", log2_rows, key_bits,
			   sample_order_names[order], a->name, us, measured[i], us / measured[i],
			   cell->chosen == NULL ? "some" : a == cell->chosen ? "yes" : "no", cell->ratio);
	}
	fflush(stdout);
}

static int
cell_cmp(const void *a, const void *b)
{
	double		ra = ((const Cell *) a)->ratio;
	double		rb = ((const Cell *) b)->ratio;

	return ra < rb ? 1 : ra > rb ? -1 : 0;
}

static int
summary(const Options *opt)
{
	int			above = 0;
	double		log_sum = 0;
	double		err_sum = 0;
	int			nerr = 0;

	qsort(cells, ncells, sizeof(Cell), cell_cmp);
	for (int i = 0; i < ncells; i++)
	{
		above += cells[i].ratio > opt->bound;
		log_sum += log(cells[i].ratio);
		if (cells[i].chosen_us >= 1 && cells[i].predicted_us > 0)
		{
			err_sum += fabs(log(cells[i].predicted_us / cells[i].chosen_us));
			nerr++;
		}
	}
	fprintf(stderr, "%d cells; chosen/best: mean %.3f, worst %.3f, %d above %.2f; "
			"predicted and measured time of the chosen, from 1 us on, differ by a factor of %.2f on average\n",
			ncells, exp(log_sum / ncells), cells[0].ratio, above, opt->bound,
			exp(err_sum / (nerr ? nerr : 1)));
	fprintf(stderr, "worst cells: ratio, rows, key bits, order: chosen us (predicted), best us\n");
	for (int i = 0; i < WORST && i < ncells && cells[i].ratio > 1; i++)
		fprintf(stderr, "  %.2f  2^%-2d %3d %-10s %s %.1f (%.1f), %s %.1f\n",
				cells[i].ratio, cells[i].log2_rows, cells[i].key_bits,
				sample_order_names[cells[i].order],
				cells[i].chosen ? cells[i].chosen->name : "several", cells[i].chosen_us, cells[i].predicted_us,
				cells[i].best->name, cells[i].best_us);
	return above > 0;
}

static void
parse_options(Options *opt, int argc, char **argv)
{
	static const int default_bits[] = {8, 12, 16, 20, 24, 32, 48, 64, 96, 128};

	memset(opt, 0, sizeof(*opt));
	opt->log2_min = 7;
	opt->log2_max = 22;
	opt->step = 1;
	opt->bound = 1.25;
	opt->threads = 1;
	opt->grain_us = 0.2;
	opt->csv = true;
	for (int i = 1; i < argc; i++)
	{
		const char *name = argv[i];
		char	   *value;
		char	   *item;

		if (strcmp(name, "--portable") == 0)
		{
			sort_isa_force(SORT_ISA_PORTABLE);
			continue;
		}
		if (++i == argc)
			die("unknown option, or its value is missing", name);
		value = argv[i];
		if (strcmp(name, "--log2-rows") == 0)
		{
			if (sscanf(value, "%d-%d", &opt->log2_min, &opt->log2_max) != 2 ||
				opt->log2_min < 1 || opt->log2_max > 28 || opt->log2_min > opt->log2_max)
				die("--log2-rows wants A-B within 1-28", value);
		}
		else if (strcmp(name, "--step") == 0)
			opt->step = atoi(value) > 0 ? atoi(value) : 1;
		else if (strcmp(name, "--threads") == 0)
			opt->threads = atoi(value) > 1 ? atoi(value) : 1;
		else if (strcmp(name, "--bound") == 0)
			opt->bound = atof(value);
		else if (strcmp(name, "--grain-us") == 0)
			opt->grain_us = atof(value);
		else if (strcmp(name, "--format") == 0)
			opt->csv = strcmp(value, "csv") == 0;
		else if (strcmp(name, "--key-bits") == 0)
		{
			for (item = strtok(value, ","); item != NULL; item = strtok(NULL, ","))
			{
				if (atoi(item) < 1 || atoi(item) > 128 || opt->nkey_bits == MAX_LIST)
					die("bad --key-bits", item);
				opt->key_bits[opt->nkey_bits++] = atoi(item);
			}
		}
		else if (strcmp(name, "--orders") == 0)
		{
			for (item = strtok(value, ","); item != NULL; item = strtok(NULL, ","))
			{
				int			o = 0;

				while (o < SAMPLE_ORDERS && strcmp(item, sample_order_names[o]) != 0)
					o++;
				if (o == SAMPLE_ORDERS || opt->norders == MAX_LIST)
					die("bad --orders", item);
				opt->orders[opt->norders++] = (SampleOrder) o;
			}
		}
		else
			die("unknown option", name);
	}
	if (opt->nkey_bits == 0)
	{
		opt->nkey_bits = (int) (sizeof(default_bits) / sizeof(default_bits[0]));
		memcpy(opt->key_bits, default_bits, sizeof(default_bits));
	}
	if (opt->norders == 0)
	{
		for (opt->norders = 0; opt->norders < SAMPLE_ORDERS; opt->norders++)
			opt->orders[opt->norders] = (SampleOrder) opt->norders;
	}
}

int
main(int argc, char **argv)
{
	Options		opt;
	size_t		rec_size = 0;
	size_t		size;
	char	   *recs;
	char	   *scratch;

	parse_options(&opt, argc, argv);

	for (int b = 0; b < opt.nkey_bits; b++)
	{
		size_t		s = sort_rec_size(sample_format(opt.key_bits[b]));

		rec_size = s > rec_size ? s : rec_size;
	}
	size = (rec_size << opt.log2_max) + MEASURE_RECORDS * 4 * rec_size;
	recs = map_memory(size);
	/* what a kernel needs beyond one copy of the records stays below this */
	scratch = map_memory(size + (64 << 20));

	inputs.threads = opt.threads;
	if (opt.threads > 1)
	{
		inputs.team = sort_thread_team_create(opt.threads);
		if (inputs.team == NULL)
			die("no team", NULL);
	}

	if (opt.csv)
		printf("log2_rows,key_bits,order,algorithm,predicted_us,measured_us,"
			   "predicted_by_measured,chosen,chosen_by_best\n");
	for (int b = 0; b < opt.nkey_bits; b++)
		for (int o = 0; o < opt.norders; o++)
			for (int l = opt.log2_min; l <= opt.log2_max; l += opt.step)
				run_cell(&opt, l, opt.key_bits[b], opt.orders[o], recs, scratch,
						 size + (64 << 20));
	return summary(&opt);
}
