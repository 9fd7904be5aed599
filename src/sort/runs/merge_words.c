/*
 * merge_words.c
 *	  The rows of one round of a merge are sorted.
 *
 * The record of a round is a word: above, the row's key less the smallest one, of
 * which a round spans a small part only, so that there is room for most keys; below,
 * where the row lies: run and place in its window, in which order equal rows come out,
 * so that the merge is stable.  Rows whose words do not tell are merged by comparison:
 * those of one run are in order already.
 */
#include "postgres.h"

#include "kernel/algorithm.h"
#include "port/pg_bitutils.h"
#include "sort/runs/merge_state.h"

/* Of fewer words than this a comparison sort is faster. */
#define RADIX_MIN_WORDS			4096

/* The rows' words.  base and cut: what is taken off their keys, below and in bits. */
static pg_attribute_always_inline void
make_words(const MergeState *state, bool wide, Key128 base, int cut, uint64 *words, SortProblem *problem)
{
	uint64		prev = 0;
	uint64	   *word = words;

	for (int r = 0; r < state->nruns; r++)
	{
		uint32		first = (uint32) r << state->shift;

		for (uint32 id = first; id < first + state->runs[r].taken; id++)
		{
			uint64		value = wide ? (uint64) ((((const Key128 *) state->keys)[id] - base) >> cut) :
				(((const uint64 *) state->keys)[id] - (uint64) base) >> cut;

			problem->descents += value < prev;
			problem->ascents += value > prev;
			prev = value;
			*word++ = value << state->id_bits | id;
		}
	}
}

/* The smallest key of this round, and the bits that the others span. */
static Key128
find_range(const MergeState *state, int *bits)
{
	Key128		min = ~(Key128) 0;
	Key128		max = 0;

	for (int r = 0; r < state->nruns; r++)
	{
		uint32		first = (uint32) r << state->shift;

		if (state->runs[r].taken == 0)
			continue;
		min = Min(min, key_at(state, first));
		max = Max(max, key_at(state, first + state->runs[r].taken - 1));
	}
	max -= min;
	*bits = (uint64) (max >> 64) != 0 ? 65 + pg_leftmost_one_pos64((uint64) (max >> 64)) :
		(uint64) max != 0 ? 1 + pg_leftmost_one_pos64((uint64) max) : 0;
	return min;
}

/* Sorts the words; returns where they lie then. */
static uint64 *
sort_words(MergeState *state, SortProblem *problem)
{
	SortEnv    *env = state->env;
	const SortKernel *kernel =
		sort_algorithms[problem->n < RADIX_MIN_WORDS ? ALGORITHM_CPU_MERGE : ALGORITHM_CPU_RADIX].kernel;

	problem->result = problem->recs;
	if (problem->descents == 0)
		return problem->result;
	bulk_reserve(env->bulk, &env->recs, state->words_size + kernel->scratch_bytes(problem),
				 state->words_size);
	problem->recs = env->recs.ptr;
	problem->scratch = (char *) env->recs.ptr + state->words_size;
	if (kernel->run(problem) != SORT_OK)
		elog(ERROR, "rows of runs cannot be sorted");
	return problem->result;
}

/* Merges two sequences of words in the order of their rows; the first's go first among equals. */
static void
merge_pair(const MergeState *state, const uint64 *a, const uint64 *a_end, const uint64 *b,
		   const uint64 *b_end, uint64 *to)
{
	uint64		id_mask = (UINT64CONST(1) << state->id_bits) - 1;

	while (a < a_end && b < b_end)
	{
		bool		second = compare_rows(state, (uint32) (*a & id_mask), (uint32) (*b & id_mask)) > 0;

		*to++ = second ? *b++ : *a++;
	}
	memcpy(to, a, (a_end - a) * sizeof(uint64));
	memcpy(to + (a_end - a), b, (b_end - b) * sizeof(uint64));
}

/* Puts n rows into order whose words tell no difference; space has room for as many. */
static void
settle_ties(MergeState *state, uint64 *words, uint64 *space, size_t n)
{
	uint64		run_mask = ((UINT64CONST(1) << state->id_bits) - 1) >> state->shift << state->shift;
	uint32	   *pieces = state->pieces;
	int			npieces = 0;
	uint64	   *from = words;
	uint64	   *to = space;

	for (size_t i = 0; i < n; i++)
	{
		if (i == 0 || ((words[i] ^ words[i - 1]) & run_mask) != 0)
			pieces[npieces++] = (uint32) i;
	}
	while (npieces > 1)
	{
		int			merged = 0;
		uint64	   *swap = from;

		pieces[npieces] = (uint32) n;
		for (int i = 0; i < npieces; i += 2)
		{
			uint32		mid = pieces[i + 1];
			uint32		end = pieces[Min(i + 2, npieces)];

			merge_pair(state, from + pieces[i], from + mid, from + mid, from + end, to + pieces[i]);
			pieces[merged++] = pieces[i];
		}
		npieces = merged;
		from = to;
		to = swap;
	}
	if (from != words)
		memcpy(words, from, n * sizeof(uint64));
	state->env->report.ties += n;
}

static void
settle_all_ties(MergeState *state, uint64 *words, uint64 *space, size_t n)
{
	size_t		start = 0;

	for (size_t i = 1; i <= n; i++)
	{
		if (i < n && (words[i] ^ words[start]) >> state->id_bits == 0)
			continue;
		if (i - start > 1)
			settle_ties(state, words + start, space, i - start);
		start = i;
	}
}

uint64 *
merge_order_words(MergeState *state, size_t n)
{
	SortProblem problem = {0};
	uint64	   *words;
	Key128		base;
	int			bits;
	int			cut;

	base = find_range(state, &bits);
	cut = Max(0, bits - (64 - state->id_bits));
	problem.n = n;
	problem.format = SORT_REC_PACKED;
	problem.recs = state->env->recs.ptr;
	problem.begin_bit = state->id_bits;
	problem.end_bit = state->id_bits + bits - cut;
	problem.rids_ascending = true;
	problem.order_known = true;
	if (state->wide)
		make_words(state, true, base, cut, problem.recs, &problem);
	else
		make_words(state, false, base, cut, problem.recs, &problem);
	words = sort_words(state, &problem);
	if (cut > 0 || !state->layout->exact)
		settle_all_ties(state, words,
						words != problem.recs ? problem.recs : (uint64 *) ((char *) problem.recs + state->words_size),
						problem.n);
	return words;
}
