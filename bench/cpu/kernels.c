/*
 * kernels.c
 *	  Benchmark of the sort kernels and of other implementations; needs no
 *	  server.
 *
 * Prints a line per (algorithm, key width, n, distribution, threads): the median
 * over the repetitions of the nanoseconds per element of the sort alone.  The
 * output of every repetition is checked outside the timed part.  Each repetition
 * of a small input gets new keys, because a branch predictor learns a small
 * input.
 *
 * On a machine with other work, --least reports the least time instead of the
 * median, and --cpu-time measures processor time instead of elapsed time.  For
 * one thread on the CPU both clocks measure the same on a quiet machine.  All
 * buffers are in huge pages if the system grants them, and touched before the
 * first repetition.
 */
#include "bench_algorithm.h"
#include "distributions.h"
#include "../../src/kernel/team.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define MAX_REPETITIONS 2000

/* Up to this number of records, every repetition has its own input. */
#define FRESH_INPUT_MAX 65536

static int	repetitions;		/* 0: chosen by the number of records */
static bool declared_width;
static bool least;
static bool cpu_time;
static bool csv = true;
static bool failed;

double
bench_now(void)
{
	struct timespec t;

	clock_gettime(cpu_time ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

/*
 * The kernels of sort_algorithms[].  As in a server they get the order of
 * neighbours, and, unless --declared-width was given, the number of leading key
 * bits that do not vary.
 */
static SortProblem
kernel_problem(const BenchCase *c)
{
	SortProblem problem;

	memset(&problem, 0, sizeof(problem));
	problem.format = c->shape.format;
	problem.recs = c->recs;
	problem.scratch = c->work;
	problem.n = c->shape.n;
	problem.begin_bit = c->shape.begin_bit;
	problem.end_bit = declared_width ? c->shape.end_bit : c->facts.end_bit;

	/*
	 * At least one bit: kernels must find out themselves that all keys are
	 * equal.
	 */
	if (problem.end_bit == problem.begin_bit)
		problem.end_bit++;
	problem.rids_ascending = c->shape.rids_ascending;
	problem.order_known = true;
	problem.descents = c->facts.descents;
	problem.ascents = c->facts.ascents;
	problem.team = c->team;
	return problem;
}

static const char *
kernel_refuses(const Algorithm *algorithm, const BenchCase *c)
{
	SortProblem problem = kernel_problem(c);
	const char *why;

	if (!algorithm_takes(algorithm, c->shape.format))
		return "does not take records of this format";
	return algorithm->kernel->applies(&problem, &why) ? NULL : why;
}

static double
kernel_run(const SortKernel *kernel, BenchCase *c, const void **output)
{
	SortProblem problem = kernel_problem(c);
	double		start;
	double		seconds;

	memcpy(c->recs, c->input, c->shape.n * sort_rec_size(c->shape.format));
	start = bench_now();
	if (kernel->run(&problem) != SORT_OK)
		return -1;
	seconds = bench_now() - start;
	*output = problem.result;
	return seconds;
}

/*
 * Memory
 */
typedef struct Buffer
{
	void	   *data;
	size_t		size;
} Buffer;

static void
buffer_reserve(Buffer *b, size_t size)
{
	if (size <= b->size)
		return;
	if (b->data != NULL)
		munmap(b->data, b->size);
	size = (size + ((size_t) 1 << 21) - 1) & ~(((size_t) 1 << 21) - 1);
	b->data = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (b->data == MAP_FAILED)
	{
		fprintf(stderr, "kernels: out of memory (%zu bytes)\n", size);
		exit(1);
	}
	madvise(b->data, size, MADV_HUGEPAGE);
	memset(b->data, 0, size);
	b->size = size;
}

static int
compare_doubles(const void *a, const void *b)
{
	double		x = *(const double *) a;
	double		y = *(const double *) b;

	return (x > y) - (x < y);
}

/* Sorts about 2^26 records in all, in at least 3 repetitions. */
static int
repetitions_for(size_t n)
{
	size_t		r = ((size_t) 1 << 26) / (n + 1);

	if (repetitions > 0)
		return repetitions;
	return r < 3 ? 3 : r > MAX_REPETITIONS ? MAX_REPETITIONS : (int) r;
}

static void
report(const char *name, const BenchCase *c, int rid_bits, const char *distribution,
	   double seconds, const char *verdict)
{
	double		ns = c->shape.n > 0 ? seconds * 1e9 / c->shape.n : seconds * 1e9;

	if (csv && seconds >= 0)
		printf("%s,%d,%d,%zu,%s,%d,%.3f,%s\n", name, c->key_bits, rid_bits, c->shape.n,
			   distribution, c->threads, ns, verdict);
	else if (csv)
		printf("%s,%d,%d,%zu,%s,%d,,%s\n", name, c->key_bits, rid_bits, c->shape.n,
			   distribution, c->threads, verdict);
	else if (seconds >= 0)
		printf("%-16s %3d-bit key %2d-bit rid %10zu %-14s %d thread%s %9.3f ns %9.1f M/s  verified: %s\n",
			   name, c->key_bits, rid_bits, c->shape.n, distribution, c->threads,
			   c->threads == 1 ? " " : "s", ns, 1e3 / ns, verdict);
	else
		printf("%-16s %3d-bit key %2d-bit rid %10zu %-14s %d thread%s %s\n",
			   name, c->key_bits, rid_bits, c->shape.n, distribution, c->threads,
			   c->threads == 1 ? " " : "s", verdict);
	fflush(stdout);
}

/* Measures one case.  Either algorithm or peer is NULL. */
static void
measure(const Algorithm *algorithm, const BenchAlgorithm *peer, BenchCase *c,
		const char *distribution, Buffer *work)
{
	const char *name = algorithm ? algorithm->name : peer->name;
	CaseCheck	check = algorithm ? CASE_STABLE : peer->check;
	int			rid_bits = algorithm ? 32 : peer->rid_bits;
	const char *why = algorithm ? kernel_refuses(algorithm, c) : peer->refuses(c);
	const char *verdict = "yes";
	int			n = repetitions_for(c->shape.n);
	double		seconds[MAX_REPETITIONS];
	uint64_t	checksum;
	SortProblem problem = kernel_problem(c);

	if (why != NULL)
	{
		report(name, c, rid_bits, distribution, -1, why);
		return;
	}
	buffer_reserve(work, algorithm ? algorithm->kernel->scratch_bytes(&problem) : peer->work_bytes(c));
	c->work = work->data;
	checksum = case_checksum(&c->shape, c->input, check);
	for (int i = 0; i < n; i++)
	{
		const void *output = NULL;

		if (i > 0 && c->shape.n <= FRESH_INPUT_MAX)
		{
			case_fill(&c->shape, distribution, i, (void *) c->input);
			checksum = case_checksum(&c->shape, c->input, check);
			c->facts = case_facts(&c->shape, c->input);
		}
		seconds[i] = algorithm ? kernel_run(algorithm->kernel, c, &output) : peer->run(c, &output);
		if (seconds[i] < 0)
			verdict = "no: it failed";
		else if (case_first_fault(&c->shape, output, check) != c->shape.n)
			verdict = "no: wrong order";
		else if (case_checksum(&c->shape, output, check) != checksum)
			verdict = "no: records lost or changed";
		if (verdict[0] == 'n')
		{
			failed = true;
			n = i + 1;
			break;
		}
	}
	qsort(seconds, n, sizeof(double), compare_doubles);
	report(name, c, rid_bits, distribution, seconds[least ? 0 : n / 2], verdict);
}

static void
measure_by_name(const char *name, BenchCase *c, const char *distribution, Buffer *work)
{
	const Algorithm *algorithm = algorithm_by_name(name);

	if (algorithm != NULL && !algorithm_on_gpu(algorithm))
	{
		measure(algorithm, NULL, c, distribution, work);
		return;
	}
	for (const BenchAlgorithm *const *p = bench_peers; *p != NULL; p++)
		if (strcmp((*p)->name, name) == 0)
		{
			measure(NULL, *p, c, distribution, work);
			return;
		}
	for (const BenchAlgorithm *const *p = bench_gpu_algorithms; *p != NULL; p++)
		if (strcmp((*p)->name, name) == 0)
		{
			measure(NULL, *p, c, distribution, work);
			return;
		}
	if (strncmp(name, "gpu_", 4) == 0)
	{
		report(name, c, 32, distribution, -1, "absent: built without CUDA");
		return;
	}
	fprintf(stderr, "kernels: unknown algorithm \"%s\"\n", name);
	exit(2);
}

/*
 * The command line
 */

/* Splits a list at commas; "entropy1..5" becomes five items. */
static int
split(const char *list, char items[][64], int max)
{
	int			n = 0;

	while (*list != '\0')
	{
		size_t		len = strcspn(list, ",");
		int			from;
		int			to;

		if (len >= 64 || n >= max - 5)
		{
			fprintf(stderr, "kernels: list too long: %s\n", list);
			exit(2);
		}
		memcpy(items[n], list, len);
		items[n][len] = '\0';
		if (sscanf(items[n], "entropy%d..%d", &from, &to) == 2 && from >= 1 && to <= 5)
			for (int i = from; i <= to; i++)
				sprintf(items[n++], "entropy%d", i);
		else
			n++;
		list += len + (list[len] == ',');
	}
	return n;
}

static long
number(const char *s, long min, long max)
{
	char	   *end;
	long		v = strtol(s, &end, 10);

	if (*s == '\0' || *end != '\0' || v < min || v > max)
	{
		fprintf(stderr, "kernels: \"%s\" is not a number from %ld to %ld\n", s, min, max);
		exit(2);
	}
	return v;
}

static void
usage(FILE *to)
{
	fprintf(to,
			"usage: kernels [--algorithms LIST] [--key-bits 32,64,128] [--n LIST]\n"
			"               [--distributions LIST] [--threads LIST] [--repetitions N] [--least] [--cpu-time]\n"
			"               [--declared-width] [--format csv|text]\n"
			"algorithms:   ");
	FOR_EACH_ALGORITHM(a)
	{
		if (!algorithm_on_gpu(a))
			fprintf(to, " %s", a->name);
	}
	for (const BenchAlgorithm *const *p = bench_peers; *p != NULL; p++)
		fprintf(to, " %s", (*p)->name);
	for (const BenchAlgorithm *const *p = bench_gpu_algorithms; *p != NULL; p++)
		fprintf(to, " %s", (*p)->name);
	fprintf(to, "\ndistributions:");
	for (const char *const *d = distribution_names; *d != NULL; d++)
		fprintf(to, " %s", *d);
	fprintf(to, "\n");
}

#define MAX_ITEMS 64

int
main(int argc, char **argv)
{
	static const struct option options[] = {
		{"algorithms", required_argument, NULL, 'a'},
		{"key-bits", required_argument, NULL, 'k'},
		{"n", required_argument, NULL, 'n'},
		{"distributions", required_argument, NULL, 'd'},
		{"threads", required_argument, NULL, 't'},
		{"repetitions", required_argument, NULL, 'r'},
		{"least", no_argument, NULL, 'l'},
		{"cpu-time", no_argument, NULL, 'c'},
		{"declared-width", no_argument, NULL, 'w'},
		{"format", required_argument, NULL, 'f'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0}
	};
	static char algorithms[MAX_ITEMS][64];
	static char widths[MAX_ITEMS][64];
	static char sizes[MAX_ITEMS][64];
	static char distributions[MAX_ITEMS][64];
	static char threads[MAX_ITEMS][64];
	int			nalgorithms = split("cpu_radix,std_sort,vqsort", algorithms, MAX_ITEMS);
	int			nwidths = split("32,64,128", widths, MAX_ITEMS);
	int			nsizes = split("16384,1048576", sizes, MAX_ITEMS);
	int			ndistributions = split("uniform", distributions, MAX_ITEMS);
	int			nthreads = split("1", threads, MAX_ITEMS);
	Buffer		input = {NULL, 0};
	Buffer		recs = {NULL, 0};
	Buffer		work = {NULL, 0};
	int			opt;

	while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1)
		switch (opt)
		{
			case 'a':
				nalgorithms = split(optarg, algorithms, MAX_ITEMS);
				break;
			case 'k':
				nwidths = split(optarg, widths, MAX_ITEMS);
				break;
			case 'n':
				nsizes = split(optarg, sizes, MAX_ITEMS);
				break;
			case 'd':
				ndistributions = split(optarg, distributions, MAX_ITEMS);
				break;
			case 't':
				nthreads = split(optarg, threads, MAX_ITEMS);
				break;
			case 'r':
				repetitions = (int) number(optarg, 1, MAX_REPETITIONS);
				break;
			case 'l':
				least = true;
				break;
			case 'c':
				cpu_time = true;
				break;
			case 'w':
				declared_width = true;
				break;
			case 'f':
				if (strcmp(optarg, "csv") != 0 && strcmp(optarg, "text") != 0)
				{
					fprintf(stderr, "kernels: the formats are csv and text\n");
					return 2;
				}
				csv = optarg[0] == 'c';
				break;
			case 'h':
				usage(stdout);
				return 0;
			default:
				usage(stderr);
				return 2;
		}
	if (optind < argc)
	{
		usage(stderr);
		return 2;
	}

	if (csv)
		printf("algorithm,key_bits,rid_bits,n,distribution,threads,ns_per_element,verified\n");
	for (int w = 0; w < nwidths; w++)
		for (int s = 0; s < nsizes; s++)
			for (int d = 0; d < ndistributions; d++)
			{
				BenchCase	c;
				int			bits = (int) number(widths[w], 32, 128);
				size_t		bytes;

				memset(&c, 0, sizeof(c));
				c.key_bits = bits;
				if (bits != 32 && bits != 64 && bits != 128)
				{
					fprintf(stderr, "kernels: keys have 32, 64 or 128 bits\n");
					return 2;
				}
				c.shape.format = bits == 32 ? SORT_REC_PACKED :
					bits == 64 ? SORT_REC_64 : SORT_REC_128;
				c.shape.n = number(sizes[s], 0, UINT32_MAX);
				c.shape.begin_bit = bits == 32 ? 32 : 0;
				c.shape.end_bit = bits == 32 ? 64 : bits;
				c.shape.rids_ascending = true;
				bytes = c.shape.n * sort_rec_size(c.shape.format) + 64;
				buffer_reserve(&input, bytes);
				buffer_reserve(&recs, bytes);
				if (case_fill(&c.shape, distributions[d], 1, input.data) != 0)
				{
					fprintf(stderr, "kernels: unknown distribution \"%s\"\n", distributions[d]);
					return 2;
				}
				c.input = input.data;
				c.facts = case_facts(&c.shape, c.input);
				c.recs = recs.data;
				for (int t = 0; t < nthreads; t++)
				{
					c.threads = (int) number(threads[t], 1, SORT_TEAM_MAX);
					c.team = c.threads > 1 ? sort_thread_team_create(c.threads) : NULL;
					if (c.threads > 1 && c.team == NULL)
					{
						fprintf(stderr, "kernels: cannot start %d threads\n", c.threads);
						return 1;
					}
					for (int a = 0; a < nalgorithms; a++)
						measure_by_name(algorithms[a], &c, distributions[d], &work);
					if (c.team != NULL)
						sort_thread_team_destroy(c.team);
				}
			}
	return failed ? 1 : 0;
}
