/*
 * kernel_case.c
 *	  One case of a kernel's test: places records between sentinels, sorts, and
 *	  checks the result.
 */
#include "kernel_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SENTINEL_BYTES	128
#define SENTINEL		0xa5

/* The address sanitizer reports reads of sentinels and bytes behind them. */
#define POISONED_AFTER	4096

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#define POISON(p, size)		__asan_poison_memory_region(p, size)
#define UNPOISON(p, size)	__asan_unpoison_memory_region(p, size)
#else
#define POISON(p, size)		((void) (p), (void) (size))
#define UNPOISON(p, size)	((void) (p), (void) (size))
#endif

Area		recs;
Area		scratch;
SortTeam   *team;
unsigned long ncases;
unsigned long nfailures;

void
fail(const char *kernel, const SortCase *c, const char *distribution, const char *what)
{
	nfailures++;
	if (nfailures <= 20)
		fprintf(stderr, "FAILED %s (SortIsa %d, %d threads): format %d, n %zu, bits [%d, %d), %s, rids %s: %s\n",
				kernel, (int) sort_isa(), sort_team_size(team), (int) c->format, c->n,
				c->begin_bit, c->end_bit, distribution,
				c->rids_ascending ? "ascending" : "scrambled", what);
}

static void
area_unpoison(Area *a)
{
	UNPOISON(a->base, SENTINEL_BYTES);
	UNPOISON(a->base + SENTINEL_BYTES + a->size, SENTINEL_BYTES + POISONED_AFTER);
}

void
area_make(Area *a, size_t size)
{
	size_t		around = 2 * SENTINEL_BYTES + POISONED_AFTER;

	if (a->base != NULL)
		area_unpoison(a);
	if (size + around > a->room)
	{
		free(a->base);
		a->room = 2 * (size + around);
		if (posix_memalign((void **) &a->base, 64, a->room) != 0)
		{
			fprintf(stderr, "out of memory\n");
			exit(1);
		}
	}
	a->size = size;
	memset(a->base, SENTINEL, SENTINEL_BYTES);
	memset(a->base + SENTINEL_BYTES + size, SENTINEL, SENTINEL_BYTES);
	POISON(a->base, SENTINEL_BYTES);
	POISON(a->base + SENTINEL_BYTES + size, SENTINEL_BYTES + POISONED_AFTER);
}

void *
area_data(const Area *a)
{
	return a->base + SENTINEL_BYTES;
}

bool
area_intact(Area *a)
{
	area_unpoison(a);
	for (size_t i = 0; i < SENTINEL_BYTES; i++)
		if (a->base[i] != SENTINEL ||
			a->base[SENTINEL_BYTES + a->size + i] != SENTINEL)
			return false;
	return true;
}

void
run_case(const Algorithm *algorithm, const SortCase *c, const char *distribution)
{
	SortProblem problem;
	uint64_t	checksum;
	const char *why = NULL;
	CaseFacts	facts;
	SortStatus	status;
	CaseCheck	check = c->format == SORT_REC_PACKED && c->begin_bit == 0 ? CASE_KEYS : CASE_STABLE;

	if (!algorithm_takes(algorithm, c->format))
		return;

	area_make(&recs, c->n * sort_rec_size(c->format));
	if (case_fill(c, distribution, c->n * 31 + c->begin_bit, area_data(&recs)) != 0)
	{
		fprintf(stderr, "unknown distribution %s\n", distribution);
		exit(1);
	}
	memset(&problem, 0, sizeof(problem));
	problem.format = c->format;
	problem.recs = area_data(&recs);
	problem.n = c->n;
	problem.begin_bit = c->begin_bit;
	problem.end_bit = c->end_bit;
	problem.rids_ascending = c->rids_ascending;
	problem.team = team;
	facts = case_facts(c, problem.recs);
	problem.order_known = true;
	problem.descents = facts.descents;
	problem.ascents = facts.ascents;

	if (algorithm->kernel->applies(&problem, &why))
	{
		ncases++;
		checksum = case_checksum(c, problem.recs, check);
		area_make(&scratch, algorithm->kernel->scratch_bytes(&problem));
		if (scratch.size % 64 != 0)
			fail(algorithm->name, c, distribution, "scratch_bytes is not a multiple of 64");
		problem.scratch = area_data(&scratch);

		status = algorithm->kernel->run(&problem);
		if (status != SORT_OK)
			fail(algorithm->name, c, distribution, "run did not return SORT_OK");
		else if (problem.result != problem.recs &&
				 ((unsigned char *) problem.result < (unsigned char *) problem.scratch ||
				  (unsigned char *) problem.result + recs.size > (unsigned char *) problem.scratch + scratch.size))
			fail(algorithm->name, c, distribution, "result lies in neither buffer");
		else if (case_first_fault(c, problem.result, check) != c->n)
			fail(algorithm->name, c, distribution, "wrong order");
		else if (case_checksum(c, problem.result, check) != checksum)
			fail(algorithm->name, c, distribution, "records lost or changed");
		if (!area_intact(&recs))
			fail(algorithm->name, c, distribution, "wrote beyond the records");
		if (!area_intact(&scratch))
			fail(algorithm->name, c, distribution, "wrote beyond the scratch");
	}
	else if (why == NULL || why[0] == '\0')
		fail(algorithm->name, c, distribution, "refused without a reason");
}
