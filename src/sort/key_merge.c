/*
 * key_merge.c
 *	  K-way merge of runs of keys without rows.
 *
 * As in run_merge.c, each run has a window, some of its keys in memory, and a round takes
 * the keys of all windows up to a bound: the smallest of the windows' last keys, of runs
 * that have more keys on disk.  The keys of a round are sorted by a kernel.  Equal keys
 * are equal rows, so their order does not matter, and a key needs neither a row id nor the
 * number of its run.
 *
 * Keys of up to 64 bits are words.  They are sorted less the smallest key of the round, so
 * that the leading bits distinguish them.
 *
 * Memory policy: windows and buffers lie in env->scratch, the keys of a round and the
 * kernel's scratch in env->recs, within work_mem.  The more runs are merged, the smaller are
 * windows and reads.
 */
#include "postgres.h"

#include "kernel/algorithm.h"
#include "miscadmin.h"
#include "sort/key_run.h"
#include "sort/sort_internal.h"

#define FAN_IN_MIN		6
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

/* Below this number of records a comparison sort is faster than the radix sort. */
#define RADIX_MIN_RECORDS	4096

/* A run and its window. */
typedef struct KeyMergeRun
{
	KeyRunReader reader;
	uint32		first;			/* the window's first key that was not taken */
	uint32		n;				/* keys in the window from there on */
	uint32		taken;			/* keys that this round takes */
	bool		more;			/* the run has keys after the window */
} KeyMergeRun;

struct KeyMerge
{
	SortEnv    *env;
	const KeyLayout *layout;
	bool		wide;			/* keys have 128 bits, otherwise 64 */
	int			nruns;
	KeyMergeRun *runs;
	uint32		window;			/* keys of a window */
	void	   *keys;			/* windows of all runs */
	Size		recs_size;		/* bytes for the records of a round in
								 * env->recs; scratch follows them */
	MemoryContext cxt;

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
static inline Size
merge_key_size(const KeyLayout *layout)
{
	return layout->total_bits > 64 ? sizeof(Key128) : sizeof(uint64);
}

static inline SortRecFormat
format_of(const KeyLayout *layout)
{
	return layout->total_bits > 64 ? SORT_REC_128 : SORT_REC_PACKED;
}

/* Memory of each run. */
static Size
run_memory(const KeyLayout *layout, KeyReads reads)
{
	/* records, scratch of about the same size, and a byte for each */
	Size		records = 2 * sort_rec_size(format_of(layout)) + 1;

	return reads.window * (merge_key_size(layout) + records) + key_run_buffer_size(reads.piece) + sizeof(KeyMergeRun);
}

int
key_merge_fan_in(const SortEnv *env, const KeyLayout *layout, const SpillFile *file, bool last)
{
	KeyReads	reads = {WINDOW_MIN, READ_MIN};

	if (!last)
	{
		reads.window = WINDOW_GOOD;
		reads.piece = file->extent;
	}
	return (int) Max(FAN_IN_MIN, Min(env->limit / run_memory(layout, reads), FAN_IN_MAX));
}

/*
 * Chooses the largest windows and reads with which all runs fit the memory.  A round takes
 * about a window of each run, so windows are reduced last.
 */
static KeyReads
choose_key_reads(const SortEnv *env, const KeyLayout *layout, const SpillFile *file, int nruns)
{
	KeyReads	reads = {WINDOW_MAX, file->extent};

	while (reads.window > WINDOW_MIN && (size_t) reads.window * nruns > ROUND_KEYS)
		reads.window /= 2;
	while (nruns * run_memory(layout, reads) + file->write > env->limit)
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

/* The kernel that sorts the records of a round, which come from this number of runs. */
static const SortKernel *
choose_kernel(size_t n, int sources)
{
	/* it merges few ascending sequences */
	if (sources <= PRESORTED_MAX_RUNS)
		return &presorted_kernel;
	return sort_algorithms[n < RADIX_MIN_RECORDS ? ALGORITHM_CPU_MERGE : ALGORITHM_CPU_RADIX].kernel;
}

KeyMerge *
key_merge_begin(SortEnv *env, const KeyLayout *layout, SpillFile *file, SpillRun **runs, int nruns)
{
	KeyMerge   *merge = palloc0(sizeof(KeyMerge));
	KeyReads	reads = choose_key_reads(env, layout, file, nruns);
	size_t		n = (size_t) nruns * reads.window;
	Size		keys_size = TYPEALIGN(64, n * merge_key_size(layout));
	Size		buf_size = key_run_buffer_size(reads.piece);
	char	   *buf;

	merge->env = env;
	merge->cxt = CurrentMemoryContext;
	merge->layout = layout;
	merge->wide = layout->total_bits > 64;
	merge->nruns = nruns;
	merge->window = reads.window;
	merge->runs = palloc0(nruns * sizeof(KeyMergeRun));
	if (env->drop_duplicates)
		merge->distinct_mask = distinct_mask(distinct_test(env->distinct_cols, layout, layout->total_bits).cut);
	merge->recs_size = TYPEALIGN(64, n * sort_rec_size(format_of(layout)));
	bulk_reserve(env->bulk, &env->recs, 2 * merge->recs_size + n, 0);
	bulk_reserve(env->bulk, &env->scratch, keys_size + nruns * buf_size, 0);
	merge->keys = env->scratch.ptr;
	buf = (char *) env->scratch.ptr + keys_size;
	for (int r = 0; r < nruns; r++)
	{
		merge->runs[r].more = true;
		key_run_reader_open(&merge->runs[r].reader, file, runs[r], layout, buf, reads.piece);
		buf += buf_size;
	}
	sort_env_note_memory(env, file->write);
	return merge;
}

void
key_merge_end(KeyMerge *merge)
{
	for (int r = 0; r < merge->nruns; r++)
	{
		if (merge->runs[r].reader.run != NULL)
			run_free(merge->runs[r].reader.run);
	}
	pfree(merge->runs);
	pfree(merge);
}

/* ------------------------------------------------------------------------
 * Windows
 * ------------------------------------------------------------------------
 */

/* Address of a key in run r's window. */
static inline void *
key_address(const KeyMerge *merge, int r, uint32 i)
{
	return (char *) merge->keys + ((size_t) r * merge->window + i) * (merge->wide ? sizeof(Key128) : sizeof(uint64));
}

static inline Key128
key_at(const KeyMerge *merge, int r, uint32 i)
{
	return merge->wide ? *(const Key128 *) key_address(merge, r, i) : *(const uint64 *) key_address(merge, r, i);
}

/* Removes the taken keys of run r's window, and fills it. */
static void
refill_window(KeyMerge *merge, int r)
{
	KeyMergeRun *run = &merge->runs[r];

	run->first += run->taken;
	run->n -= run->taken;
	if (!run->more || run->n + KEY_DELTA_BLOCK > merge->window)
		return;
	if (run->first > 0)
	{
		memmove(key_address(merge, r, 0), key_address(merge, r, run->first), run->n * merge_key_size(merge->layout));
		run->first = 0;
	}
	while (run->n + KEY_DELTA_BLOCK <= merge->window && run->more)
	{
		run->n += key_run_read(&run->reader, key_address(merge, r, run->n));
		run->more = run->reader.left > 0;
	}
}

/* Finds the last key of this round.  False if no run has more keys on disk. */
static bool
find_last_key(const KeyMerge *merge, Key128 *bound)
{
	bool		found = false;

	for (int r = 0; r < merge->nruns; r++)
	{
		const KeyMergeRun *run = &merge->runs[r];

		if (run->more)
		{
			Key128		last = key_at(merge, r, run->first + run->n - 1);

			if (!found || last < *bound)
				*bound = last;
			found = true;
		}
	}
	return found;
}

/* Counts the keys that are not above bound among n ascending keys; without a branch. */
#define COUNT_UP_TO(key_t, keys, n, bound) \
	do { \
		const key_t *from = (keys); \
		const key_t limit = (key_t) (bound); \
		uint32		left = (n); \
		while (left > 0) \
		{ \
			uint32		half = (left + 1) / 2; \
			from += from[half - 1] <= limit ? half : 0; \
			left -= half; \
		} \
		return from - (keys); \
	} while (0)

static uint32
count_words(const uint64 *keys, uint32 n, Key128 bound)
{
	COUNT_UP_TO(uint64, keys, n, bound);
}

static uint32
count_wide(const Key128 *keys, uint32 n, Key128 bound)
{
	COUNT_UP_TO(Key128, keys, n, bound);
}

/*
 * Chooses the keys of this round.  Returns their number, the number of runs that have
 * some, and the smallest key.
 */
static size_t
choose_keys(KeyMerge *merge, int *sources, Key128 *least)
{
	size_t		n = 0;
	Key128		bound = 0;
	bool		bounded = find_last_key(merge, &bound);

	*sources = 0;
	*least = ~(Key128) 0;
	for (int r = 0; r < merge->nruns; r++)
	{
		KeyMergeRun *run = &merge->runs[r];
		Key128		first;

		run->taken = 0;
		if (run->n == 0)
			continue;
		first = key_at(merge, r, run->first);
		if (bounded && first > bound)
			continue;
		run->taken = !bounded ? run->n :
			merge->wide ? count_wide(key_address(merge, r, run->first), run->n, bound) :
			count_words(key_address(merge, r, run->first), run->n, bound);
		*least = Min(*least, first);
		n += run->taken;
		(*sources)++;
	}
	return n;
}

/* ------------------------------------------------------------------------
 * Sorting a round
 * ------------------------------------------------------------------------
 */

/* Copies the keys of this round, less base, to the records.  Returns the largest one. */
static Key128
make_key_records(const KeyMerge *merge, Key128 base)
{
	uint64	   *word = merge->env->recs.ptr;
	SortRec128 *rec = merge->env->recs.ptr;
	Key128		largest = 0;

	for (int r = 0; r < merge->nruns; r++)
	{
		const KeyMergeRun *run = &merge->runs[r];

		if (run->taken == 0)
			continue;
		largest = Max(largest, key_at(merge, r, run->first + run->taken - 1) - base);
		if (merge->wide)
		{
			const Key128 *keys = key_address(merge, r, run->first);

			for (uint32 i = 0; i < run->taken; i++, rec++)
			{
				Key128		key = keys[i] - base;

				rec->hi = (uint64) (key >> 64);
				rec->lo = (uint64) key;
				rec->rid = rec->pad = 0;
			}
		}
		else
		{
			const uint64 *keys = key_address(merge, r, run->first);

			for (uint32 i = 0; i < run->taken; i++)
				word[i] = keys[i] - (uint64) base;
			word += run->taken;
		}
	}
	return largest;
}

/* Adds base to n sorted records. */
static void
add_base(const KeyMerge *merge, void *recs, size_t n, Key128 base)
{
	if (merge->wide)
	{
		SortRec128 *rec = recs;

		for (size_t i = 0; i < n; i++)
		{
			Key128		key = ((Key128) rec[i].hi << 64 | rec[i].lo) + base;

			rec[i].hi = (uint64) (key >> 64);
			rec[i].lo = (uint64) key;
		}
	}
	else
	{
		uint64	   *word = recs;

		for (size_t i = 0; i < n; i++)
			word[i] += (uint64) base;
	}
}

static int
bits_of_key(Key128 key)
{
	uint64		hi = (uint64) (key >> 64);

	return hi != 0 ? 65 + pg_leftmost_one_pos64(hi) : (uint64) key != 0 ? 1 + pg_leftmost_one_pos64((uint64) key) : 0;
}

/* Sorts the n keys of this round, which come from this number of runs; returns their records. */
static void *
sort_keys(KeyMerge *merge, size_t n, int sources, Key128 least)
{
	SortEnv    *env = merge->env;
	SortProblem problem = {0};
	const SortKernel *kernel = choose_kernel(n, sources);

	if (sources == 1)
	{
		(void) make_key_records(merge, 0);
		return env->recs.ptr;
	}
	problem.n = n;
	problem.format = format_of(merge->layout);
	problem.end_bit = bits_of_key(make_key_records(merge, least));
	problem.rids_ascending = true;
	problem.order_known = true;
	/* at most this number of descents */
	problem.descents = sources - 1;
	problem.ascents = n;
	bulk_reserve(env->bulk, &env->recs, merge->recs_size + kernel->scratch_bytes(&problem), merge->recs_size);
	problem.recs = env->recs.ptr;
	problem.scratch = (char *) env->recs.ptr + merge->recs_size;
	if (kernel->run(&problem) != SORT_OK)
		elog(ERROR, "kernel cannot sort the keys of a merge");
	add_base(merge, problem.result, n, least);
	return problem.result;
}

/* Drops the duplicates of n sorted records, and of the last key.  *recs: the first remaining record. */
static size_t
drop_same_keys(KeyMerge *merge, void **recs, size_t n)
{
	SortEnv    *env = merge->env;
	SortRecFormat format = format_of(merge->layout);
	size_t		kept = distinct_keys(env, merge->layout, format, *recs, n);
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
	MemoryContext old = MemoryContextSwitchTo(merge->cxt);
	size_t		n;

	do
	{
		int			sources;
		Key128		least;
		void	   *sorted;

		CHECK_FOR_INTERRUPTS();
		for (int r = 0; r < merge->nruns; r++)
			refill_window(merge, r);
		n = choose_keys(merge, &sources, &least);
		if (n == 0)
			break;
		sorted = sort_keys(merge, n, sources, least);
		if (merge->env->drop_duplicates)
			n = drop_same_keys(merge, &sorted, n);
		*recs = sorted;
	} while (n == 0);
	MemoryContextSwitchTo(old);
	return n;
}
