/*
 * key_merge.c
 *	  K-way merge of runs of keys without rows.
 *
 * The keys of a round (merge_rounds.c) are sorted by a kernel.  Equal keys are equal rows,
 * so their order does not matter, and a key needs neither a row id nor the number of its
 * run.
 *
 * Keys of up to 64 bits are words.  They are sorted less the smallest key of the round, so
 * that the leading bits distinguish them.
 *
 * Memory policy: windows and buffers lie in env->scratch, the keys of a round and the
 * kernel's scratch in env->recs, within work_mem.  The more runs are merged, the smaller are
 * windows and reads.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "sort/distinct.h"
#include "sort/external_sort.h"
#include "sort/key_run.h"
#include "sort/merge_rounds.h"

#define FAN_IN_MAX		4096

/* Keys of a window.  A round needs more than a block of each run that has more keys. */
#define WINDOW_MIN		(2 * KEY_DELTA_BLOCK)
#define WINDOW_MAX		8192

/* Keys of all windows that are enough for a round: they and the kernel's scratch fit the L2 cache. */
#define ROUND_KEYS		((size_t) 32768)

/* Bytes of a read. */
#define READ_MIN		((Size) BLCKSZ / 4)

/* Reads of this size cost little; smaller ones are made only if windows are small, too. */
#define READ_GOOD		((Size) BLCKSZ / 2)
#define WINDOW_GOOD		(4 * KEY_DELTA_BLOCK)

struct KeyMerge
{
	MergeRounds rounds;
	KeyRunReader *readers;		/* of the runs */

	/* of a sort with distinct columns */
	Key128		distinct_mask;
	bool		have_last;		/* a key was returned */
	Key128		last;			/* the last one */
};

/* How runs are read. */
typedef struct KeyReads
{
	uint32		window;			/* keys of a window */
	Size		piece;			/* bytes of a read */
} KeyReads;

/* ------------------------------------------------------------------------
 * Beginning and ending a merge
 * ------------------------------------------------------------------------
 */

/* Memory of each run. */
static Size
run_memory(const KeyLayout *layout, KeyReads reads)
{
	/* records, scratch of about the same size, and a byte for each */
	Size		records = 2 * sort_rec_size(merged_key_format(layout)) + 1;

	return reads.window * (rounds_key_size(layout) + records) + key_run_buffer_size(reads.piece) +
		sizeof(KeyRunReader) + sizeof(RunWindow);
}

int
key_merge_fan_in(const Runs *runs, bool last)
{
	KeyReads	reads = {WINDOW_MIN, READ_MIN};

	if (!last)
	{
		reads.window = WINDOW_GOOD;
		reads.piece = runs->file->extent;
	}
	return (int) Max(MERGE_MIN_FAN_IN, Min(runs->env->limit / run_memory(&runs->layout, reads), FAN_IN_MAX));
}

/*
 * Chooses the largest windows and reads with which all runs fit the memory.  A round takes
 * about a window of each run, so windows are reduced last.
 */
static KeyReads
choose_key_reads(const Runs *runs, int n)
{
	KeyReads	reads = {WINDOW_MAX, runs->file->extent};

	while (reads.window > WINDOW_MIN && (size_t) reads.window * n > ROUND_KEYS)
		reads.window /= 2;
	while (n * run_memory(&runs->layout, reads) + runs->file->write > runs->env->limit)
	{
		if (reads.piece > READ_GOOD)
			reads.piece /= 2;
		else if (reads.window > WINDOW_GOOD)
			reads.window /= 2;
		else if (reads.piece > READ_MIN)
			reads.piece /= 2;
		else if (reads.window > WINDOW_MIN)
			reads.window /= 2;
		else
			break;
	}
	return reads;
}

KeyMerge *
key_merge_begin(const Runs *runs, SpillRun **some, int n)
{
	SortEnv    *env = runs->env;
	const KeyLayout *layout = &runs->layout;
	KeyMerge   *merge = palloc0(sizeof(KeyMerge));
	KeyReads	reads = choose_key_reads(runs, n);
	Size		record = sort_rec_size(merged_key_format(layout));
	Size		buf_size = key_run_buffer_size(reads.piece);
	char	   *buf;

	merge->rounds.env = env;
	merge->rounds.layout = layout;
	merge->rounds.nruns = n;
	merge->rounds.window = reads.window;
	merge->readers = palloc0(n * sizeof(KeyRunReader));
	if (env->drop_duplicates)
		merge->distinct_mask = distinct_mask(distinct_test(env->distinct_cols, layout, layout->total_bits).cut);
	buf = rounds_begin(&merge->rounds, record, record + 1, n * buf_size);
	for (int r = 0; r < n; r++)
	{
		merge->rounds.windows[r].more = true;
		key_run_reader_open(&merge->readers[r], runs->file, some[r], layout, buf + r * buf_size, reads.piece);
	}
	sort_env_note_memory(env, runs->file->write);
	return merge;
}

void
key_merge_end(KeyMerge *merge)
{
	for (int r = 0; r < merge->rounds.nruns; r++)
		run_free(merge->readers[r].run);
	pfree(merge->readers);
	pfree(merge->rounds.windows);
	pfree(merge);
}

/* Removes the taken keys of run r's window, and fills it. */
static void
refill_window(KeyMerge *merge, int r)
{
	MergeRounds *rounds = &merge->rounds;
	RunWindow  *window = &rounds->windows[r];
	uint32		begin = r * rounds->window;

	window->first += window->taken;
	window->n -= window->taken;
	if (!window->more || window->n + KEY_DELTA_BLOCK > rounds->window)
		return;
	if (window->first > begin)
	{
		memmove(rounds_key_address(rounds, begin), rounds_key_address(rounds, window->first),
				window->n * rounds_key_size(rounds->layout));
		window->first = begin;
	}
	while (window->n + KEY_DELTA_BLOCK <= rounds->window && window->more)
	{
		window->n += key_run_read(&merge->readers[r], rounds_key_address(rounds, begin + window->n));
		window->more = merge->readers[r].left > 0;
	}
}

/* ------------------------------------------------------------------------
 * Sorting a round
 * ------------------------------------------------------------------------
 */

/* Copies the keys of this round, less base, to the records. */
static pg_attribute_always_inline void
make_key_records(const MergeRounds *rounds, bool wide, Key128 base)
{
	SortRecFormat format = wide ? SORT_REC_128 : SORT_REC_PACKED;
	void	   *recs = rounds->env->recs.ptr;
	size_t		n = 0;

	for (int r = 0; r < rounds->nruns; r++)
	{
		uint32		taken = rounds->windows[r].taken;
		const void *keys = rounds_key_address(rounds, rounds->windows[r].first);

		for (uint32 i = 0; i < taken; i++)
			sort_rec_set(recs, format, 0, n + i, key_of_width(keys, wide, i) - base, 0);
		n += taken;
	}
}

/* Adds base to n sorted records. */
static pg_attribute_always_inline void
add_base(void *recs, bool wide, size_t n, Key128 base)
{
	SortRecFormat format = wide ? SORT_REC_128 : SORT_REC_PACKED;
	uint32		rid;

	for (size_t i = 0; i < n; i++)
		sort_rec_set(recs, format, 0, i, sort_rec_get(recs, format, 0, i, &rid) + base, 0);
}

/* Sorts the n keys of this round; returns their records. */
static pg_attribute_always_inline void *
sort_keys(MergeRounds *rounds, bool wide, size_t n)
{
	/* at most this number of descents */
	SortProblem problem = {.n = n, .format = merged_key_format(rounds->layout),
		.descents = rounds->sources - 1, .ascents = n};
	Key128		base = rounds_range(rounds, &problem.end_bit);
	void	   *recs;

	if (rounds->sources == 1)
		base = 0;
	make_key_records(rounds, wide, base);
	recs = rounds_sort(rounds, &problem);
	if (base != 0)
		add_base(recs, wide, n, base);
	return recs;
}

/* Drops the duplicates of n sorted records, and of the last key.  *recs: the first remaining record. */
static size_t
drop_same_keys(KeyMerge *merge, void **recs, size_t n)
{
	SortEnv    *env = merge->rounds.env;
	const KeyLayout *layout = merge->rounds.layout;
	SortRecFormat format = merged_key_format(layout);
	size_t		kept = distinct_keys(env, layout, format, *recs, n);
	uint32		rid;
	Key128		first = sort_rec_get(*recs, format, 0, 0, &rid);
	Key128		last = sort_rec_get(*recs, format, 0, kept - 1, &rid);

	if (merge->have_last && ((first ^ merge->last) & merge->distinct_mask) == 0)
	{
		*recs = (char *) *recs + sort_rec_size(format);
		kept--;
	}
	merge->have_last = true;
	merge->last = last;
	env->report.dropped_in_merges += n - kept;
	return kept;
}

size_t
key_merge_next(KeyMerge *merge, const void **recs)
{
	MergeRounds *rounds = &merge->rounds;
	MemoryContext old = MemoryContextSwitchTo(rounds->cxt);
	size_t		n;

	do
	{
		void	   *sorted;

		CHECK_FOR_INTERRUPTS();
		for (int r = 0; r < rounds->nruns; r++)
			refill_window(merge, r);
		n = rounds_choose(rounds);
		if (n == 0)
			break;
		sorted = rounds->wide ? sort_keys(rounds, true, n) : sort_keys(rounds, false, n);
		if (rounds->env->drop_duplicates)
			n = drop_same_keys(merge, &sorted, n);
		*recs = sorted;
	} while (n == 0);
	MemoryContextSwitchTo(old);
	return n;
}
