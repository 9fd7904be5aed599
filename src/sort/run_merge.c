/*
 * run_merge.c
 *	  K-way merge of sorted runs.
 *
 * Each run has a window: some of its rows in memory.  A round takes rows from all windows
 * up to a bound and sorts them with a kernel.  The bound is the smallest of the windows'
 * last rows, of runs that have more rows on disk: no row on disk can sort before it.
 * Then the windows are refilled.  A loser tree needs log2(k) unpredictable comparisons
 * for each row, and keys made row by row.  A round works in the cache, and makes keys
 * column by column, as for heap pages.
 *
 * A round sorts packed records.  The upper bits have the key less the smallest key of the
 * round.  A round spans a small part of the key range, so most keys fit.  The lower bits
 * have the run and the row of its window.  Equal rows come out in this order, so the
 * merge is stable.  If packed records are equal but do not decide, their rows are resolved
 * as ties.
 *
 * If rows are so long that a buffer holds hardly more than one row, a round would compare
 * rows of all runs to return a few.  Then a window is one row, and a merge tree finds the
 * next row.  The tree also takes over the windows if keys do not decide and the comparator
 * is called for more than COMPARED_MAX rows of a round to find its bound.  That is so if runs
 * follow each other, or if values are few: a round then takes the rows of one run.
 *
 * A sort with distinct columns drops a row that is equal to the row before, which may be
 * the last row of the round before.
 *
 * The more runs are merged, the smaller are the reads and windows.  Reading in small
 * pieces costs less than writing rows twice.
 *
 * Memory policy: windows and packed records lie in env->scratch and env->recs, within
 * work_mem.  Inexact keys of a round may all be equal, so ties count for each row.  The
 * longest row of each run counts, because all runs may reach their longest row at the
 * same time.  At least as many runs as tuplesort.c would merge are merged at once, less
 * READER_ROWS, even beyond work_mem: with fewer runs, long rows would be written more
 * often than by a Sort.  After an ERROR the sort's memory context and resource owner
 * release everything.
 */
#include "postgres.h"

#include "kernel/algorithm.h"
#include "miscadmin.h"
#include "port/pg_bitutils.h"
#include "sort/distinct.h"
#include "sort/external_sort.h"
#include "sort/merge.h"
#include "sort/merge_tree_next.h"
#include "sort/row_page.h"
#include "sort/sort_env.h"
#include "sort/threads.h"
#include "utils/memutils.h"

#define MERGE_MIN_FAN_IN		6
#define MERGE_MAX_FAN_IN		500

StaticAssertDecl(MERGE_MAX_FAN_IN < ARENA_MAX_CHUNKS, "each run of a merge needs a chunk of row ids");

/* Memory of each run that tuplesort.c merges: a read buffer of 32 blocks, and 2 blocks. */
#define TUPLESORT_RUN_MEMORY	(34 * (Size) BLCKSZ)

/* Runs less than tuplesort.c merges: the reader may hold this many copies of a row. */
#define READER_ROWS				2

/* Smallest reads, and smallest and largest headroom. */
#define PIECE_MIN				((Size) BLCKSZ / 2)
#define HEADROOM_MIN			(PIECE_MIN / 2)
#define HEADROOM_MAX			((Size) 16 * 1024)

/* Limits of a window's rows, as powers of two. */
#define WINDOW_MIN_SHIFT		4
#define WINDOW_MAX_SHIFT		10

/* Bytes that are prefetched before the rows of a window are found there. */
#define WINDOW_PREFETCH			512

/*
 * A window is filled after this number of further runs have been read.  A processor waits
 * for rows that have been decoded just before.
 */
#define FILL_DELAY				2

/* Approximate scratch of a kernel for each packed record, in bytes. */
#define RECORD_SCRATCH			12

/* Comparisons for each row of a round above which a merge tree replaces the rounds. */
#define COMPARED_MAX			1

/* Memory of each tied row while ties are resolved (tiebreak/multikey.c). */
#define TIE_MEMORY				(2 * sizeof(SortRec64))

/* Below this number of records a comparison sort is faster than the radix sort. */
#define RADIX_MIN_RECORDS		4096

/* A run and its window: rows rids[r << shift] to rids[(r << shift) + n - 1]. */
typedef struct MergeRun
{
	MergeSource source;			/* of the merge tree */
	MergeState *state;
	RunReader	reader;
	uint32		n;				/* rows in the window */
	uint32		taken;			/* rows of the window that this round or the tree takes */
	Size		end;			/* bytes of the window's rows */
	bool		more;			/* the run has rows after the window */
	bool		full;			/* the window needs no rows in this round */
} MergeRun;

/*
 * The id of a row in a window is the number of the run, shifted left by shift, plus the
 * index in the window.  Its row id tells where it lies: the windows are addressed like an
 * arena that has a chunk for each run.
 */
struct MergeState
{
	SortEnv    *env;
	KeyBuffer  *keybuf;
	const KeyLayout *layout;
	bool		wide;			/* keys have 128 bits, otherwise 64 */
	int			shift;			/* rows of a window, as a power of two */
	int			id_bits;		/* bits of an id */
	int			nruns;
	MergeRun   *runs;
	Arena	   *windows;		/* base[r]: first row of run r's window */
	void	   *keys;			/* by id: key of each row in a window */
	uint32	   *rids;			/* by id: row id */

	/* bytes for packed records in env->recs; scratch follows them */
	Size		records_size;
	size_t		compared;		/* comparator calls to find the bound of this round */
	MergeTree  *tree;			/* of the runs; NULL: rounds */
	uint32		tree_row;		/* row id of the row that the tree found */
	bool		failed;			/* rows of a run are lost */
	RowPage    *page;			/* working memory of make_keys() */

	/* of a sort with distinct columns */
	DistinctTest test;
	uint64	   *same;			/* set of positions, see mark_same_keys() */
	bool		compare;		/* rows of the set must be compared */
	bool		have_last;		/* a row was returned */
	bool		have_last_key;	/* last_key is its key */
	Key128		last_key;
	bool		keep_row;		/* last_row is kept */
	KeptRow		last_row;		/* the row that was returned last */
	MemoryContext cxt;
};

/* How rows are read, by their average length. */
typedef struct MergeWindow
{
	int			shift;			/* rows of a window, as a power of two */
	Size		piece;			/* bytes of a read */

	/* bytes of rows that a reader keeps available */
	Size		headroom;
} MergeWindow;

static void create_tree(MergeState *state);

/* ------------------------------------------------------------------------
 * Beginning and ending a merge
 * ------------------------------------------------------------------------
 */

/* Chooses a window of about headroom bytes of rows. */
static MergeWindow
choose_window(const SortEnv *env, SpillRun *const *runs, int nruns, Size piece, Size headroom)
{
	MergeWindow window = {WINDOW_MIN_SHIFT, piece, headroom};
	uint64		bytes = 0;
	uint64		rows = 0;
	uint64		row;

	for (int r = 0; r < nruns; r++)
	{
		bytes += Max(runs[r]->row_bytes, runs[r]->bytes);
		rows += runs[r]->rows;
	}
	/* the number of rows of a source is not known */
	row = bytes / Max(rows > 0 ? rows : env->progress.now->rows_in, 1);
	if (2 * row > window.headroom)
	{
		window.shift = 0;
		window.headroom = 0;
		return window;
	}
	while (window.shift < WINDOW_MAX_SHIFT && ((uint64) 2 << window.shift) * row <= window.headroom)
		window.shift++;
	return window;
}

static inline Size
key_size(const KeyLayout *layout)
{
	return layout->total_bits > 64 ? sizeof(Key128) : sizeof(uint64);
}

static int
compare_larger_first(const void *a, const void *b)
{
	Size		x = *(const Size *) a;
	Size		y = *(const Size *) b;

	return (x < y) - (x > y);
}

/* How many of the runs can be merged at once, read in this way. */
static int
fan_in_of(const SortEnv *env, const KeyLayout *layout, SpillRun *const *runs, int nruns, MergeWindow window)
{
	Size		rows = (key_size(layout) + sizeof(uint32) + sizeof(uint64) + RECORD_SCRATCH +
						(layout->exact ? 0 : TIE_MEMORY)) << window.shift;
	Size	   *memory = palloc(nruns * sizeof(Size));
	int			least = (int) Min(env->limit / TUPLESORT_RUN_MEMORY, MERGE_MAX_FAN_IN) - READER_ROWS;
	Size		taken = 0;
	int			n = 0;

	for (int r = 0; r < nruns; r++)
		memory[r] = rows + run_reader_memory(runs[r], window.piece, window.headroom);
	/* the largest first, because any of the runs may be merged at once */
	qsort(memory, nruns, sizeof(Size), compare_larger_first);
	while (n < nruns && taken + memory[n] <= env->limit)
		taken += memory[n++];
	pfree(memory);
	return Max(MERGE_MIN_FAN_IN, Min(Max(n, least), MERGE_MAX_FAN_IN));
}

int
merge_fan_in(const SortEnv *env, const KeyLayout *layout, const SpillFile *file,
			 SpillRun *const *runs, int nruns, bool last)
{
	Size		piece = last ? PIECE_MIN : file->extent;
	Size		headroom = last ? HEADROOM_MIN : Min(piece, HEADROOM_MAX);

	return fan_in_of(env, layout, runs, nruns, choose_window(env, runs, nruns, piece, headroom));
}

/*
 * Chooses the largest windows with which all runs fit the memory.  A round takes about
 * as many rows of a run as its headroom has.  So headroom is reduced last.
 */
static MergeWindow
choose_reads(const SortEnv *env, const KeyLayout *layout, const SpillFile *file, SpillRun *const *runs,
			 int nruns)
{
	Size		piece = file->extent;
	Size		headroom = Min(piece, HEADROOM_MAX);
	MergeWindow window;

	for (;;)
	{
		window = choose_window(env, runs, nruns, piece, headroom);
		if (headroom == HEADROOM_MIN || fan_in_of(env, layout, runs, nruns, window) >= nruns)
			return window;
		piece = Max(piece / 2, PIECE_MIN);
		headroom = headroom > piece || piece == PIECE_MIN ? headroom / 2 : headroom;
	}
}

void
merge_begin(Merge *merge, SortEnv *env, KeyBuffer *keybuf, const KeyLayout *layout, SpillFile *file,
			SpillRun **runs, int nruns)
{
	MergeState *state = palloc0(sizeof(MergeState));
	MergeWindow window = choose_reads(env, layout, file, runs, nruns);
	Size		bufs = 0;
	Size		rows;
	char	   *p;

	memset(merge, 0, sizeof(*merge));
	merge->state = state;
	state->env = env;
	state->keybuf = keybuf;
	state->layout = layout;
	state->wide = key_size(layout) > sizeof(uint64);
	state->shift = window.shift;
	state->id_bits = state->shift + (nruns == 1 ? 0 : 1 + pg_leftmost_one_pos32(nruns - 1));
	state->nruns = nruns;
	state->runs = palloc0(nruns * sizeof(MergeRun));
	state->windows = &merge->windows;
	state->windows->base = palloc0((nruns + 1) * sizeof(char *));
	state->page = palloc0(sizeof(RowPage));
	row_page_init_stored(state->page, env->spec.desc, keybuf);
	state->cxt = CurrentMemoryContext;

	rows = (Size) nruns << state->shift;
	if (env->drop_duplicates)
	{
		state->test = distinct_test(env->distinct_cols, layout, Min(layout->total_bits, 128));
		state->keep_row = !state->test.exact || layout->total_bits > 64 - state->id_bits;
		state->same = palloc(position_set_bytes(rows));
	}
	state->records_size = TYPEALIGN(64, rows * sizeof(uint64));
	bulk_reserve(env->bulk, &env->recs, state->records_size + rows * RECORD_SCRATCH, 0);
	for (int r = 0; r < nruns; r++)
		bufs += TYPEALIGN(64, run_reader_buffer_size(runs[r], window.piece, window.headroom));
	bulk_reserve(env->bulk, &env->scratch, TYPEALIGN(64, rows * (key_size(layout) + sizeof(uint32))) + bufs, 0);
	p = env->scratch.ptr;
	state->keys = p;
	p += rows * key_size(layout);
	state->rids = (uint32 *) p;
	p = (char *) env->scratch.ptr + TYPEALIGN(64, rows * (key_size(layout) + sizeof(uint32)));
	for (int r = 0; r < nruns; r++)
	{
		merge->sources = merge->sources || runs[r]->source != NULL;
		run_reader_open(&state->runs[r].reader, file, runs[r], p, window.piece, window.headroom, env->bulk);
		p += TYPEALIGN(64, run_reader_buffer_size(runs[r], window.piece, window.headroom));
	}

	if (window.shift == 0)
		create_tree(state);

	keybuf_freeze(keybuf);
	keybuf_reserve(keybuf, env->bulk, MaxHeapTuplesPerPage);
	sort_env_note_memory(env, file->write + keybuf->bytes);
}

void
merge_end(Merge *merge)
{
	MergeState *state = merge->state;

	for (int r = 0; r < state->nruns; r++)
	{
		if (state->runs[r].reader.run != NULL)
			run_reader_close(&state->runs[r].reader);
	}
	row_page_free_stored(state->page);
	if (state->tree != NULL)
		merge_tree_free(state->tree);
	if (state->same != NULL)
		pfree(state->same);
	kept_row_free(&state->last_row);
	pfree(state->windows->base);
	pfree(state->runs);
	pfree(state);
	merge->state = NULL;
}

/* ------------------------------------------------------------------------
 * Windows
 * ------------------------------------------------------------------------
 */
static inline MinimalTuple
row_of_id(const MergeState *state, uint32 id)
{
	return (MinimalTuple) arena_at(state->windows, state->rids[id]);
}

static inline Key128
key_of_id(const MergeState *state, uint32 id)
{
	return state->wide ? ((const Key128 *) state->keys)[id] : ((const uint64 *) state->keys)[id];
}

/* Compares two rows by key and value; 0: equal, whatever their input order. */
static inline int
compare_ids(MergeState *state, uint32 a, uint32 b)
{
	Key128		x = key_of_id(state, a);
	Key128		y = key_of_id(state, b);

	if (x != y)
		return x < y ? -1 : 1;
	if (state->layout->exact)
		return 0;
	state->compared++;
	return tiebreak_compare(state->env->tiebreak, row_of_id(state, a), row_of_id(state, b));
}

/* Makes the keys of rows [id, id + n) of a window. */
static void
make_keys(MergeState *state, uint32 id, uint32 n)
{
	KeyBuffer  *keybuf = state->keybuf;
	RowPage    *page = state->page;

	if (state->layout->total_bits == 0)
	{
		memset((char *) state->keys + id * key_size(state->layout), 0, n * key_size(state->layout));
		return;
	}
	while (n > 0)
	{
		keybuf_reset(keybuf);
		page->n = 0;
		while (page->n < n && row_page_put_stored(page, row_of_id(state, id + page->n)))
			;
		keybuf_stored_page(keybuf, &state->env->keys, sort_env_slot(state->env), page, row_of_id(state, id));
		pack_keys(keybuf, state->layout, 64, 0, keybuf->n,
				  (char *) state->keys + id * key_size(state->layout));
		id += keybuf->n;
		n -= keybuf->n;
	}
}

/*
 * Removes the taken rows from run r's window, and reads on if its buffer has few rows.
 * False if rows are lost.
 */
static bool
advance_window(MergeState *state, int r)
{
	MergeRun   *run = &state->runs[r];
	RunReader  *reader = &run->reader;
	Size		width = key_size(state->layout);
	uint32		first = (uint32) r << state->shift;
	uint32	   *rids = state->rids + first;
	char	   *keys = (char *) state->keys + first * width;
	uint32		left = run->n - run->taken;
	Size		passed;			/* bytes of the rows that were taken */

	run->full = reader->run == NULL || (run->n > 0 && run->taken == 0);
	if (run->full)
		return true;
	passed = left > 0 ? (Size) (rids[run->taken] % ARENA_CHUNK_UNITS) << ARENA_UNIT_SHIFT : run->end;
	reader->pos += passed;
	run_reader_fill(reader);
	if (unlikely(run_reader_failed(reader)))
		return false;
	run->end -= passed;
	state->windows->base[r] = reader->buf + reader->pos;
	for (uint32 i = 0; i < left; i++)
		rids[i] = rids[run->taken + i] - (uint32) (passed >> ARENA_UNIT_SHIFT);
	memmove(keys, keys + run->taken * width, left * width);
	run->n = left;
	run->taken = 0;
	return true;
}

/* Fills run r's window with the rows of its buffer. */
static void
fill_window(MergeState *state, int r)
{
	MergeRun   *run = &state->runs[r];
	RunReader  *reader = &run->reader;
	uint32		first = (uint32) r << state->shift;
	uint32	   *rids = state->rids + first;
	uint32		left = run->n;

	if (run->full)
		return;
	while (run->n >> state->shift == 0 && run->end < ARENA_CHUNK_SIZE)
	{
		Size		size = run_reader_row_size(reader, reader->pos + run->end);

		if (size == 0)
			break;
		/* the length of a row tells where the next one is, so the CPU cannot look ahead */
		__builtin_prefetch(reader->buf + reader->pos + run->end + WINDOW_PREFETCH);
		rids[run->n++] = (uint32) r << ARENA_CHUNK_SHIFT | (uint32) (run->end >> ARENA_UNIT_SHIFT);
		run->end += size;
	}
	/* a single run needs no keys, but to find duplicates */
	if (state->nruns > 1 || state->env->drop_duplicates)
		make_keys(state, first + left, run->n - left);
	run->more = run_reader_more(reader, reader->pos + run->end);
	if (run->n == 0)
		run_reader_close(reader);
}

/* Refills the windows of all runs.  False if rows are lost. */
static bool
refill_windows(MergeState *state)
{
	for (int r = 0; r < state->nruns + FILL_DELAY; r++)
	{
		if (r + 1 < state->nruns)
			run_reader_prefetch(&state->runs[r + 1].reader);
		if (r < state->nruns && !advance_window(state, r))
			return false;
		if (r >= FILL_DELAY)
			fill_window(state, r - FILL_DELAY);
	}
	return true;
}

/* ------------------------------------------------------------------------
 * Rounds
 * ------------------------------------------------------------------------
 */

/* Finds the last row of this round.  False if no run has more rows on disk. */
static bool
find_bound(MergeState *state, uint32 *bound)
{
	bool		found = false;

	for (int r = 0; r < state->nruns; r++)
	{
		const MergeRun *run = &state->runs[r];
		uint32		last = ((uint32) r << state->shift) + run->n - 1;

		if (run->n > 0 && run->more && (!found || compare_ids(state, last, *bound) < 0))
		{
			*bound = last;
			found = true;
		}
	}
	return found;
}

/* Counts the keys below key, or not above it, among n ascending keys; without a branch. */
static pg_attribute_always_inline uint32
count_window_keys(const MergeState *state, bool wide, uint32 id, uint32 n, Key128 key, bool not_larger)
{
	uint32		from = id;

	while (n > 0)
	{
		uint32		half = (n + 1) / 2;
		Key128		mid = wide ? ((const Key128 *) state->keys)[from + half - 1] :
			((const uint64 *) state->keys)[from + half - 1];

		from += (not_larger ? mid <= key : mid < key) ? half : 0;
		n -= half;
	}
	return from - id;
}

/* Counts the rows of window r that do not sort behind the bound. */
static uint32
count_up_to(MergeState *state, int r, uint32 bound)
{
	uint32		first = (uint32) r << state->shift;
	int			bound_run = (int) (bound >> state->shift);
	uint32		n = state->runs[r].n;
	Key128		key = key_of_id(state, bound);
	uint32		from;
	uint32		to;

	if (r == bound_run)
		return n;
	from = state->wide ? count_window_keys(state, true, first, n, key, false) :
		count_window_keys(state, false, first, n, key, false);

	/*
	 * the bound's run may have more equal rows, which come before those of
	 * later runs
	 */
	if (from == n || key_of_id(state, first + from) != key || (state->layout->exact && r > bound_run))
		return from;
	to = state->wide ? count_window_keys(state, true, first, n, key, true) :
		count_window_keys(state, false, first, n, key, true);
	if (state->layout->exact)
		return to;
	while (from < to)
	{
		uint32		mid = from + (to - from) / 2;
		int			cmp = compare_ids(state, first + mid, bound);

		if (cmp < 0 || (cmp == 0 && r < bound_run))
			from = mid + 1;
		else
			to = mid;
	}
	return from;
}

/* Chooses the rows of this round; returns their number. */
static size_t
choose_rows(MergeState *state)
{
	size_t		n = 0;
	uint32		bound = 0;
	bool		bounded;

	state->compared = 0;
	bounded = find_bound(state, &bound);
	for (int r = 0; r < state->nruns; r++)
	{
		MergeRun   *run = &state->runs[r];

		run->taken = !bounded ? run->n : run->n == 0 ? 0 : count_up_to(state, r, bound);
		n += run->taken;
	}
	return n;
}

/* ------------------------------------------------------------------------
 * Duplicates, in a sort with distinct columns
 * ------------------------------------------------------------------------
 */

/*
 * Marks the rows of this round whose key, in the distinct columns, is that of the row
 * before.  A sorted record has its row's id in the lowest bits.  A single run has no
 * records, and its ids are the row's positions.
 */
static void
mark_same_keys(MergeState *state, const uint64 *records, size_t n)
{
	uint64		id_mask = (UINT64CONST(1) << state->id_bits) - 1;
	Key128		mask = distinct_mask(state->test.cut);
	Key128		prev = state->last_key;

	memset(state->same, 0, position_set_bytes(n));
	for (size_t i = 0; i < n; i++)
	{
		Key128		key = key_of_id(state, records != NULL ? (uint32) (records[i] & id_mask) : (uint32) i);

		if (((key ^ prev) & mask) == 0)
			position_set_add(state->same, i);
		prev = key;
	}
	state->compare = !state->test.exact;
	if (state->have_last && !state->have_last_key)
		position_set_add(state->same, 0);
	state->last_key = prev;
	state->have_last_key = true;
}

/*
 * The same for records whose keys are cut off.  The rows of equal records are not yet in
 * order, so their keys are not known by position.
 */
static void
mark_same_records(MergeState *state, const uint64 *records, size_t n)
{
	/* rows of different records may still be equal in the leading columns */
	bool		all = state->test.cut > 0;

	memset(state->same, all ? 0xff : 0, position_set_bytes(n));
	for (size_t i = 1; i < n && !all; i++)
	{
		if ((records[i] ^ records[i - 1]) >> state->id_bits == 0)
			position_set_add(state->same, i);
	}
	state->compare = true;
	position_set_add(state->same, 0);
	state->have_last_key = false;
}

/* Is the first row of this round equal to the last one of the round before? */
static bool
first_is_duplicate(const MergeState *state, const uint32 *rids)
{
	SortEnv    *env = state->env;

	if (!state->have_last || !position_set_has(state->same, 0))
		return false;
	return !state->keep_row ||
		tiebreak_equal(env->tiebreak, env->spec.distinct, (MinimalTuple) state->last_row.row,
					   (MinimalTuple) arena_at(state->windows, rids[0]));
}

/* Drops the duplicates of n rows in order.  Returns the number of remaining rows. */
static size_t
drop_equal_neighbours(MergeState *state, uint32 *rids, size_t n)
{
	bool		first = first_is_duplicate(state, rids);
	size_t		kept = distinct_rids(state->env, state->windows, rids, n, state->same, !state->compare);

	if (first)
		memmove(rids, rids + 1, --kept * sizeof(uint32));
	/* a copy, because the windows move */
	if (state->keep_row && kept > 0)
		kept_row_set(&state->last_row, state->cxt, (MinimalTuple) arena_at(state->windows, rids[kept - 1]));
	state->have_last = true;
	state->env->report.dropped_in_merges += n - kept;
	return kept;
}

/* ------------------------------------------------------------------------
 * Sorting a round
 * ------------------------------------------------------------------------
 */

/* Makes the packed records of a round.  base is subtracted from keys, then cut bits go. */
static pg_attribute_always_inline void
make_records(const MergeState *state, bool wide, Key128 base, int cut, SortProblem *problem)
{
	uint64		prev = 0;
	uint64	   *record = problem->recs;

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
			*record++ = value << state->id_bits | id;
		}
	}
}

/* The smallest key of this round; *bits: the width of the key range. */
static Key128
find_round_range(const MergeState *state, int *bits)
{
	Key128		min = ~(Key128) 0;
	Key128		max = 0;

	for (int r = 0; r < state->nruns; r++)
	{
		uint32		first = (uint32) r << state->shift;

		if (state->runs[r].taken == 0)
			continue;
		min = Min(min, key_of_id(state, first));
		max = Max(max, key_of_id(state, first + state->runs[r].taken - 1));
	}
	max -= min;
	*bits = (uint64) (max >> 64) != 0 ? 65 + pg_leftmost_one_pos64((uint64) (max >> 64)) :
		(uint64) max != 0 ? 1 + pg_leftmost_one_pos64((uint64) max) : 0;
	return min;
}

/* Sorts the records; returns the sorted records. */
static uint64 *
sort_records(MergeState *state, SortProblem *problem)
{
	SortEnv    *env = state->env;
	const SortKernel *kernel =
		sort_algorithms[problem->n < RADIX_MIN_RECORDS ? ALGORITHM_CPU_MERGE : ALGORITHM_CPU_RADIX].kernel;

	problem->result = problem->recs;
	if (problem->descents == 0)
		return problem->result;
	bulk_reserve(env->bulk, &env->recs, state->records_size + kernel->scratch_bytes(problem),
				 state->records_size);
	problem->recs = env->recs.ptr;
	problem->scratch = (char *) env->recs.ptr + state->records_size;
	if (kernel->run(problem) != SORT_OK)
		elog(ERROR, "kernel cannot sort the rows of a merge");
	return problem->result;
}

/*
 * Replaces the n sorted records by their row ids, in place.  ties: equal records do not
 * decide.
 */
static uint32 *
extract_row_ids(MergeState *state, uint64 *records, size_t n, bool ties)
{
	uint64		id_mask = (UINT64CONST(1) << state->id_bits) - 1;
	uint32	   *rids = (uint32 *) records;
	uint64		prev = records[0];
	TieGroups	groups;

	if (!ties)
	{
		for (size_t i = 0; i < n; i++)
			rids[i] = state->rids[records[i] & id_mask];
		return rids;
	}
	tie_groups_begin(&groups, state->env->tiebreak, state->windows, rids);
	rids[0] = state->rids[prev & id_mask];
	for (size_t i = 1; i < n; i++)
	{
		uint64		record = records[i];

		rids[i] = state->rids[record & id_mask];
		if ((record ^ prev) >> state->id_bits == 0)
			tie_groups_equal(&groups, i);
		prev = record;
	}
	state->env->report.ties += tie_groups_end(&groups);
	return rids;
}

/* Sorts the n rows of this round; returns their row ids. */
static uint32 *
sort_round(MergeState *state, size_t n)
{
	SortProblem problem = {0};
	Key128		base;
	uint64	   *records;
	int			bits;
	int			cut;

	base = find_round_range(state, &bits);
	cut = Max(0, bits - (64 - state->id_bits));
	problem.n = n;
	problem.format = SORT_REC_PACKED;
	problem.recs = state->env->recs.ptr;
	problem.begin_bit = state->id_bits;
	problem.end_bit = state->id_bits + bits - cut;
	problem.rids_ascending = true;
	problem.order_known = true;
	if (state->wide)
		make_records(state, true, base, cut, &problem);
	else
		make_records(state, false, base, cut, &problem);
	records = sort_records(state, &problem);
	if (state->env->drop_duplicates && cut == 0)
		mark_same_keys(state, records, n);
	else if (state->env->drop_duplicates)
		mark_same_records(state, records, n);
	return extract_row_ids(state, records, n, cut > 0 || !state->layout->exact);
}

/* ------------------------------------------------------------------------
 * The merge tree
 * ------------------------------------------------------------------------
 */

/* Gets the next row of a run. */
static bool
next_row_of_run(MergeSource *source, MergeRows *rows)
{
	static const RowPlace first = 0;
	MergeRun   *run = (MergeRun *) source;
	MergeState *state = run->state;
	int			r = run - state->runs;
	uint32		id;

	if (run->taken == run->n)
	{
		state->failed = state->failed || !advance_window(state, r);
		if (state->failed)
			return false;
		fill_window(state, r);
		if (run->n == 0)
			return false;
	}
	id = ((uint32) r << state->shift) + run->taken++;
	rows->base = (const char *) row_of_id(state, id);
	rows->places = &first;
	rows->keys = (const char *) state->keys + id * key_size(state->layout);
	rows->n = 1;
	return true;
}

/* Creates the tree, which begins with the rows that are in the windows. */
static void
create_tree(MergeState *state)
{
	MergeSource **sources = palloc(state->nruns * sizeof(MergeSource *));
	SortSpec	spec = state->env->spec;

	for (int r = 0; r < state->nruns; r++)
	{
		state->runs[r].source.next = next_row_of_run;
		state->runs[r].state = state;
		state->runs[r].taken = 0;
		sources[r] = &state->runs[r].source;
	}
	/* runs are in input order, and so are the TIDs of equal rows */
	spec.ties_by_tid = false;
	if (!state->env->drop_duplicates)
		spec.distinct = 0;
	state->tree = merge_tree_create(sources, state->nruns, 1, &spec, state->layout, state->env->tiebreak);
	pfree(sources);
}

/* Finds the next row by the merge tree; returns the number of rows, 0 or 1. */
static size_t
next_tree_row(Merge *merge)
{
	MergeState *state = merge->state;
	MinimalTuple row = merge_tree_next(state->tree);

	merge->failed = state->failed;
	state->env->report.dropped_in_merges += state->tree->dropped;
	state->tree->dropped = 0;
	if (merge->failed || row == NULL)
		return 0;

	/* the arena's last chunk is the row */
	state->windows->base[state->nruns] = (char *) row;
	state->tree_row = (uint32) state->nruns << ARENA_CHUNK_SHIFT;
	merge->rids = &state->tree_row;
	return 1;
}

/* ------------------------------------------------------------------------
 * The next round
 * ------------------------------------------------------------------------
 */

/* Puts the rows of a round in order; returns their row ids.  NULL: there are none. */
static uint32 *
order_round(Merge *merge)
{
	MergeState *state = merge->state;

	merge->failed = merge->failed || !refill_windows(state);
	merge->n = merge->failed ? 0 : choose_rows(state);
	if (merge->n == 0)
		return NULL;
	/* the tree does not know the last row that was returned, nor that it has no duplicates */
	if (state->compared > COMPARED_MAX * merge->n && !state->have_last)
	{
		create_tree(state);
		return NULL;
	}
	if (state->nruns > 1)
		return sort_round(state, merge->n);
	if (state->env->drop_duplicates)
		mark_same_keys(state, NULL, merge->n);
	return state->rids;
}

static bool
next_round(Merge *merge)
{
	MergeState *state = merge->state;

	merge->next = 0;
	merge->n = 0;
	while (state->tree == NULL && merge->n == 0)
	{
		uint32	   *rids = order_round(merge);

		if (rids == NULL)
			break;
		merge->rids = rids;
		if (state->env->drop_duplicates)
			merge->n = drop_equal_neighbours(state, rids, merge->n);
		CHECK_FOR_INTERRUPTS();
	}
	if (state->tree != NULL)
		merge->n = next_tree_row(merge);
	return merge->n > 0;
}

bool
merge_round(Merge *merge)
{
	MemoryContext old = MemoryContextSwitchTo(merge->state->cxt);
	bool		more;

	CHECK_FOR_INTERRUPTS();
	more = next_round(merge);
	MemoryContextSwitchTo(old);
	return more;
}
