/*
 * kernel_test.c
 *	  Unit test of every sort kernel of the registry.
 *
 * Records lie between sentinels; each result is checked for order, stability
 * and completeness (a checksum over the records).  Arguments are names of
 * kernels; without any it tests all kernels.  It prints a line per kernel; exit
 * status 1 if a check failed.  Fixed cases are followed by random ones:
 * GPUSORT_SEED repeats them, GPUSORT_CASES sets their number.
 */
#include "../../src/kernel/radix/radix_split.h"
#include "kernel_case.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static uint64_t seed;			/* seed of the random cases */
static int	ndistributions = 0;	/* length of distribution_names */

/* Key bits to try: whole words, and ranges that start and end inside a digit. */
static const struct
{
	SortRecFormat format;
	int			begin_bit;
	int			end_bit;
}			shapes[] = {
	{SORT_REC_PACKED, 32, 64},
	{SORT_REC_PACKED, 24, 64},
	{SORT_REC_PACKED, 27, 40},
	{SORT_REC_PACKED, 32, 41},
	{SORT_REC_PACKED, 0, 64},	/* keys alone, no rids */
	{SORT_REC_PACKED, 0, 8},
	{SORT_REC_64, 0, 64},
	{SORT_REC_64, 5, 50},
	{SORT_REC_64, 40, 64},
	{SORT_REC_64, 3, 14},
	{SORT_REC_128, 0, 128},
	{SORT_REC_128, 64, 128},
	{SORT_REC_128, 3, 61},
	{SORT_REC_128, 59, 71},
	{SORT_REC_128, 17, 115}
};

#define NSHAPES		((int) (sizeof(shapes) / sizeof(shapes[0])))

static SortCase
shape_case(int shape, size_t n, bool rids_ascending)
{
	SortCase	c;

	c.format = shapes[shape].format;
	c.begin_bit = shapes[shape].begin_bit;
	c.end_bit = shapes[shape].end_bit;
	c.n = n;
	c.rids_ascending = rids_ascending;
	return c;
}

/*
 * All sizes up to max.  Small sizes are combined with every distribution and
 * format, larger sizes with every distribution and one format in turn, the
 * largest with a third of the distributions in turn.
 */
static void
test_small_sizes(const Algorithm *algorithm, size_t max)
{
	for (size_t n = 0; n <= max; n++)
	{
		int			step = n <= 1100 ? 1 : 3;

		for (int d = (int) (n + n / 3) % step; d < ndistributions; d += step)
			for (int turn = n <= 512 ? 0 : (n + d) % 3; turn < 3; turn += n <= 512 ? 1 : 3)
			{
				/*
				 * one shape of each third of the list, so mostly of each
				 * format
				 */
				int			shape = (int) ((n + d) % 5) + 5 * turn;
				SortCase	c = shape_case(shape, n, (n + d) % 3 != 0);

				run_case(algorithm, &c, distribution_names[d]);
			}
	}
}

/*
 * Sizes next to powers of two, where buffers, tiles and parts end.  For the
 * largest, a distribution is tested with one of the three sizes.
 */
static void
test_boundaries(const Algorithm *algorithm, int from, int to)
{
	for (int e = from; e <= to; e++)
		for (int off = -1; off <= 1; off++)
		{
			int			step = e < 18 ? 1 : 3;

			for (int d = (e + off) % step; d < ndistributions; d += step)
			{
				int			shape = (e * 3 + off + d * 5) % NSHAPES;
				SortCase	c = shape_case(shape, ((size_t) 1 << e) + off, (d + e) % 3 != 0);

				run_case(algorithm, &c, distribution_names[d]);
			}
		}
}

/* Every shape with every distribution, at one odd size. */
static void
test_shapes(const Algorithm *algorithm, size_t n)
{
	for (int shape = 0; shape < NSHAPES; shape++)
		for (int d = 0; d < ndistributions; d++)
			for (int ascending = 0; ascending < 2; ascending++)
			{
				SortCase	c = shape_case(shape, n, ascending);

				run_case(algorithm, &c, distribution_names[d]);
			}
}

/* splitmix64 */
static uint64_t
random_below(uint64_t *state, uint64_t limit)
{
	uint64_t	z = (*state += UINT64_C(0x9e3779b97f4a7c15));

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return (z ^ (z >> 31)) % limit;
}

/* Tests parts that are large enough for a digit of sampled splitters. */
static void
test_frequent_keys(const Algorithm *algorithm)
{
	static const int wide[] = {0, 1, 4, 6, 7, 10, 14};

	for (int s = 0; s < 7; s++)
	{
		SortCase	c = shape_case(wide[s], ((size_t) 1 << 19) + 77, s % 2);

		run_case(algorithm, &c, "clustered");
		run_case(algorithm, &c, "entropy3");
		run_case(algorithm, &c, "entropy5");
	}
}

static int
compare_words(const void *a, const void *b)
{
	uint64_t	x = *(const uint64_t *) a;
	uint64_t	y = *(const uint64_t *) b;

	return (x > y) - (x < y);
}

/*
 * Classes ascend with the keys, a frequent key has a class of its own, and
 * the keys of a class share as many leading bits as the split reports.  With
 * all instruction sets.
 */
static void
test_split_digit(void)
{
	uint64_t	state = seed;

	for (int turn = 0; turn < 3000; turn++)
	{
		int			high_bit = turn % 8 == 0 ? 64 : 1 + (int) random_below(&state, 64);
		int			low_bit = turn % 8 == 0 ? 0 : (int) random_below(&state, high_bit);
		int			left = 64 - (high_bit - low_bit);
		int			values = 1 + (int) random_below(&state, 400);
		uint64_t	value[400];
		uint64_t	words[SPLIT_SAMPLE];	/* a sample: shifted left, sorted */
		uint8_t		classes[SPLIT_SAMPLE];
		SplitDigit	s;

		for (int i = 0; i < values; i++)
			value[i] = i == 0 ? UINT64_MAX : random_below(&state, UINT64_MAX) >> random_below(&state, 64);
		for (int i = 0; i < SPLIT_SAMPLE; i++)
			words[i] = (turn % 2 ? value[random_below(&state, values)] :
						random_below(&state, UINT64_MAX) >> random_below(&state, 64)) << left;
		qsort(words, SPLIT_SAMPLE, sizeof(words[0]), compare_words);
		s.high_bit = high_bit;
		s.low_bit = low_bit;
		s.right = low_bit;
		s.left = left;
		split_make(&s, words, turn % 3 ? SPLIT_SAMPLE : 64);
		for (int i = 0; i < SPLIT_SAMPLE; i++)
			words[i] = words[i] >> left << low_bit;
		sort_isa_force((SortIsa) random_below(&state, sort_isa_best() + 1));
		split_classes() (&s, words, SPLIT_SAMPLE, classes);
		for (int i = 0, run = 0; i < SPLIT_SAMPLE; i++)
		{
			bool		same = i > 0 && words[i] == words[i - 1];
			int			below = split_below(&s, classes[i]);

			run = same ? run + 1 : 1;
			if (classes[i] >= s.classes || below < low_bit || below > high_bit ||
				(i > 0 && classes[i] < classes[i - 1]) || (same && classes[i] != classes[i - 1]) ||
				(i > 0 && !same && classes[i] == classes[i - 1] && classes[i] % 2 == 1) ||
				(i > 0 && classes[i] == classes[i - 1] && below < 64 && (words[i] ^ words[i - 1]) >> below != 0) ||
				(turn % 3 && run > SPLIT_SAMPLE / SPLIT_MAX_FREQUENT && classes[i] % 2 == 0))
			{
				fprintf(stderr, "FAILED: the digit of keys sampled of bits %d to %d, turn %d\n",
						low_bit, high_bit, turn);
				nfailures++;
				sort_isa_force(sort_isa_best());
				return;
			}
		}
	}
	sort_isa_force(sort_isa_best());
}

/* Cases of random size, key bits, distribution and number of threads. */
static void
test_random(const Algorithm *algorithm, int cases)
{
	uint64_t	state = seed;

	for (int i = 0; i < cases; i++)
	{
		int			magnitude = 1 + (int) random_below(&state, 18);
		int			size = 1 + (int) random_below(&state, 6);
		SortCase	c;
		int			bits;

		/* prefer sizes that use several threads */
		if (size > 1 && random_below(&state, 2))
			magnitude = 17;
		c.n = random_below(&state, (uint64_t) 1 << magnitude) + (magnitude == 17 ? 65536 : 0);
		c.format = (SortRecFormat) random_below(&state, 3);
		c.rids_ascending = random_below(&state, 4) != 0;
		bits = c.format == SORT_REC_128 ? 128 : 64;
		c.begin_bit = random_below(&state, 2) ? 0 : (int) random_below(&state, bits);
		/* a packed record has its rid below the key, or no rid */
		if (c.format == SORT_REC_PACKED && c.begin_bit > 0)
			c.begin_bit = c.rids_ascending ? 18 + (int) random_below(&state, 15) : 32;
		c.end_bit = random_below(&state, 2) ? bits :
			c.begin_bit + 1 + (int) random_below(&state, bits - c.begin_bit);
		team = size > 1 ? sort_thread_team_create(size) : NULL;
		sort_isa_force((SortIsa) random_below(&state, sort_isa_best() + 1));
		run_case(algorithm, &c, distribution_names[random_below(&state, ndistributions)]);
		if (team != NULL)
			sort_thread_team_destroy(team);
		team = NULL;
	}
	sort_isa_force(sort_isa_best());
}

static bool
stop_at_zero(void *arg)
{
	int		   *left = arg;

	return (*left)-- <= 0;
}

/*
 * A kernel that is stopped at its first, second, ... poll returns the status
 * and writes only into its buffers.
 */
static void
test_interrupt(const Algorithm *algorithm, int stride)
{
	static const int wide_and_narrow[] = {0, 6, 10, 3, 9, 13};

	for (int s = 0; s < 6; s++)
	{
		SortCase	c = shape_case(wide_and_narrow[s], ((size_t) 1 << 20) + 77, true);
		size_t		bytes = c.n * sort_rec_size(c.format);
		void	   *input;

		if (!algorithm_takes(algorithm, c.format))
			continue;
		input = malloc(bytes);
		if (input == NULL)
		{
			fprintf(stderr, "out of memory\n");
			exit(1);
		}
		case_fill(&c, "smallrange", 1, input);
		for (int polls = 0; polls < 200; polls += polls < 6 ? 1 : stride)
		{
			SortProblem problem;
			const char *why;
			int			left = polls;
			SortStatus	status;

			area_make(&recs, bytes);
			memcpy(area_data(&recs), input, bytes);
			memset(&problem, 0, sizeof(problem));
			problem.format = c.format;
			problem.recs = area_data(&recs);
			problem.n = c.n;
			problem.begin_bit = c.begin_bit;
			problem.end_bit = c.end_bit;
			problem.rids_ascending = true;
			problem.team = team;
			problem.interrupted = stop_at_zero;
			problem.interrupted_arg = &left;
			if (!algorithm->kernel->applies(&problem, &why))
				break;
			ncases++;
			area_make(&scratch, algorithm->kernel->scratch_bytes(&problem));
			problem.scratch = area_data(&scratch);
			status = algorithm->kernel->run(&problem);
			if (left < 0 && status != SORT_STOPPED)
				fail(algorithm->name, &c, "smallrange", "did not stop when told to");
			if (left >= 0 && status != SORT_OK)
				fail(algorithm->name, &c, "smallrange", "stopped without being told to");
			if (polls == 0 && status == SORT_OK)
				fail(algorithm->name, &c, "smallrange", "never asked whether to stop");
			if (!area_intact(&recs) || !area_intact(&scratch))
				fail(algorithm->name, &c, "smallrange", "wrote beyond its buffers");
		}
		free(input);
	}
}

/*
 * The team of threads: every rank runs once per run, barriers separate phases,
 * and all threads but the caller's block every signal.
 */
typedef struct TeamTest
{
	SortTeam   *team;
	int			runs[SORT_TEAM_MAX];
	int			phases[SORT_TEAM_MAX];
	bool		wrong;
} TeamTest;

static void
team_body(void *arg, int rank)
{
	TeamTest   *t = arg;
	sigset_t	blocked;

	t->runs[rank]++;
	pthread_sigmask(SIG_SETMASK, NULL, &blocked);
	if (rank > 0 && !(sigismember(&blocked, SIGINT) && sigismember(&blocked, SIGUSR1) &&
					  sigismember(&blocked, SIGALRM) && sigismember(&blocked, SIGTERM)))
		t->wrong = true;
	for (int phase = 1; phase <= 20; phase++)
	{
		t->phases[rank] = phase;
		sort_team_barrier(t->team);
		for (int r = 0; r < t->team->size; r++)
			if (t->phases[r] != phase)
				t->wrong = true;
		sort_team_barrier(t->team);
	}
}

static void
test_team(void)
{
	for (int size = 1; size <= 5; size++)
	{
		TeamTest	t = {.team = sort_thread_team_create(size)};

		if (t.team == NULL || t.team->size != size)
		{
			fprintf(stderr, "FAILED: no team of %d\n", size);
			nfailures++;
			continue;
		}
		for (int run = 0; run < 50; run++)
			sort_team_run(t.team, team_body, &t);
		for (int r = 0; r < size; r++)
			t.wrong |= t.runs[r] != 50;
		if (t.wrong)
		{
			fprintf(stderr, "FAILED: a team of %d lost a rank, a barrier or a signal mask\n", size);
			nfailures++;
		}
		sort_thread_team_destroy(t.team);
	}
	if (sort_thread_team_create(0) != NULL || sort_thread_team_create(SORT_TEAM_MAX + 1) != NULL)
	{
		fprintf(stderr, "FAILED: a team of impossible size\n");
		nfailures++;
	}
}

static void
test_registry(void)
{
	FOR_EACH_ALGORITHM(a)
	{
		if (a->name == NULL || algorithm_by_name(a->name) != a || &sort_algorithms[a->id] != a ||
			a->formats == 0 || a->needs == NULL || a->paper == NULL ||
			(a->distinct && !a->by_value) || a->stable == a->keys_only ||
			algorithm_on_gpu(a) != (strncmp(a->name, "gpu_", 4) == 0))
		{
			fprintf(stderr, "FAILED: the description of algorithm %d\n", (int) (a - sort_algorithms));
			nfailures++;
		}
	}
	if (algorithm_by_name("no_such_algorithm") != NULL)
	{
		fprintf(stderr, "FAILED: an unknown name gives an algorithm\n");
		nfailures++;
	}
}

int
main(int argc, char **argv)
{
	const char *seed_given = getenv("GPUSORT_SEED");
	const char *cases_wanted = getenv("GPUSORT_CASES");

	/* fewer sizes and all shapes: for a quick run, and for sanitizers */
	const char *quick_wanted = getenv("GPUSORT_QUICK");
	bool		quick = quick_wanted && *quick_wanted;

	seed = seed_given && *seed_given ? strtoull(seed_given, NULL, 10) : (uint64_t) time(NULL);
	while (distribution_names[ndistributions] != NULL)
		ndistributions++;
	test_registry();
	test_team();
	test_split_digit();
	FOR_EACH_ALGORITHM(algorithm)
	{
		unsigned long cases = ncases;
		unsigned long failures = nfailures;
		bool		wanted = argc < 2;

		if (algorithm_on_gpu(algorithm))
			continue;

		for (int a = 1; a < argc; a++)
			wanted |= strcmp(argv[a], algorithm->name) == 0;
		if (!wanted)
			continue;
		test_small_sizes(algorithm, quick ? 300 : 4100);
		test_shapes(algorithm, quick ? 7001 : 70001);
		test_frequent_keys(algorithm);
		test_boundaries(algorithm, quick ? 9 : 13, quick ? 17 : 20);
		test_interrupt(algorithm, quick ? 97 : 13);

		/* Kernels that depend on it run with each instruction set. */
		if (algorithm->id == ALGORITHM_CPU_MERGE || algorithm->id == ALGORITHM_CPU_RADIX)
		{
			for (int isa = SORT_ISA_PORTABLE; isa < (int) sort_isa_best(); isa++)
			{
				sort_isa_force(isa);
				test_small_sizes(algorithm, quick ? 300 : 1100);
				test_shapes(algorithm, quick ? 7001 : 70001);
				test_frequent_keys(algorithm);
			}
			sort_isa_force(sort_isa_best());
		}

		for (int size = 2; size <= 5; size += 3)
		{
			team = sort_thread_team_create(size);
			test_small_sizes(algorithm, quick ? 20 : 200);
			test_shapes(algorithm, 70001);
			test_frequent_keys(algorithm);
			test_boundaries(algorithm, 16, quick ? 17 : 19);
			test_interrupt(algorithm, quick ? 97 : 13);
			sort_thread_team_destroy(team);
			team = NULL;
		}
		test_random(algorithm, cases_wanted && *cases_wanted ? atoi(cases_wanted) : 250);
		printf("%-14s %lu cases, %lu failures\n", algorithm->name,
			   ncases - cases, nfailures - failures);
	}
	if (nfailures > 0)
		printf("seed of the random cases: %llu\n", (unsigned long long) seed);
	return nfailures == 0 ? 0 : 1;
}
