/*
 * run_merge.c
 *	  K-way merge of sorted runs of rows.
 *
 * A window has some rows of a run, found by their row ids, and their keys.  merge_rounds.c
 * chooses the rows of a round.
 *
 * A round sorts packed records.  The upper bits have the key less the smallest key of the
 * round.  A round spans a small part of the key range, so most keys fit.  The lower bits
 * have the run and the row of its window.  Equal rows come out in this order, so the
 * merge is stable.  If packed records are equal but do not decide, their rows are resolved
 * as ties.  Rows of one run are in order already.
 *
 * If rows are so long that a buffer holds hardly more than one row, a round would compare
 * rows of all runs to return a few.  Then a window is one row, and a merge tree finds the
 * next row.  The tree also takes over the windows if keys do not decide and the comparator
 * is called more than COMPARED_MAX times a row to choose a round.  That is so if runs
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

#include "miscadmin.h"
#include "port/pg_bitutils.h"
#include "sort/distinct.h"
#include "sort/external_sort.h"
#include "sort/merge_rounds.h"
#include "sort/merge_tree_next.h"
#include "sort/row_page.h"
#include "sort/threads.h"
#include "utils/memutils.h"

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

/* A run.  Its window has rows rids[r << shift] to rids[(r << shift) + n - 1]. */
typedef struct MergeRun
{
	MergeSource source;			/* of the merge tree */
	struct MergeState *state;
	RunReader	reader;
	Size		end;			/* bytes of the window's rows */
	bool		full;			/* the window needs no rows in this round */
} MergeRun;

/*
 * The id of a row in a window is the number of the run, shifted left by shift, plus the
 * index in the window.  Its row id tells where it lies: the windows are addressed like an
 * arena that has a chunk for each run.
 */
typedef struct MergeState
{
	MergeRounds rounds;			/* first, for compare_window_rows() */
	KeyBuffer  *keybuf;
	int			shift;			/* rows of a window, as a power of two */
	int			id_bits;		/* bits of an id */
	MergeRun   *runs;
	Arena	   *windows;		/* base[r]: first row of run r's window */
	uint32	   *rids;			/* by id: row id */
	size_t		compared;		/* comparator calls to choose the rows of this round */
	MergeTree  *tree;			/* of the runs; NULL: rounds */
	uint32		tree_row;		/* row id of the row that the tree found */
	bool		failed;			/* rows of a run are lost */
	RowPage    *page;			/* working memory of make_keys() */

	/* of a sort with distinct columns */
	DistinctTest test;
	uint64	   *same;			/* set of positions, see mark_same_keys() */
	bool		have_last;		/* a row was returned */
	bool		have_last_key;	/* last_key is its key */
	Key128		last_key;
	bool		keep_row;		/* last_row is kept */
	KeptRow		last_row;		/* the row that was returned last */
} MergeState;

/* How rows are read, by their average length. */
typedef struct RowReads
{
	int			shift;			/* rows of a window, as a power of two */
	Size		piece;			/* bytes of a read */

	/* bytes of rows that a reader keeps available */
	Size		headroom;
} RowReads;

static void create_tree(MergeState *state);
static int	compare_window_rows(MergeRounds *rounds, uint32 a, uint32 b);

/* ------------------------------------------------------------------------
 * Beginning and ending a merge
 * ------------------------------------------------------------------------
 */

/* Chooses a window of about headroom bytes of rows. */
static RowReads
choose_window(const SortEnv *env, SpillRun *const *some, int n, Size piece, Size headroom)
{
	RowReads	window = {WINDOW_MIN_SHIFT, piece, headroom};
	uint64		bytes = 0;
	uint64		rows = 0;
	uint64		row;

	for (int r = 0; r < n; r++)
	{
		bytes += Max(some[r]->row_bytes, some[r]->bytes);
		rows += some[r]->rows;
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

static int
compare_larger_first(const void *a, const void *b)
{
	Size		x = *(const Size *) a;
	Size		y = *(const Size *) b;

	return (x < y) - (x > y);
}

/* How many of these runs can be merged at once, read in this way. */
static int
fan_in_of(const Runs *runs, SpillRun *const *some, int nruns, RowReads window)
{
	const SortEnv *env = runs->env;
	Size		rows = (rounds_key_size(&runs->layout) + sizeof(uint32) + sizeof(uint64) + RECORD_SCRATCH +
						(runs->layout.exact ? 0 : TIE_MEMORY)) << window.shift;
	Size	   *memory = palloc(nruns * sizeof(Size));
	int			least = (int) Min(env->limit / TUPLESORT_RUN_MEMORY, MERGE_MAX_FAN_IN) - READER_ROWS;
	Size		taken = 0;
	int			n = 0;

	for (int r = 0; r < nruns; r++)
		memory[r] = rows + run_reader_memory(some[r], window.piece, window.headroom);
	/* the largest first, because any of the runs may be merged at once */
	qsort(memory, nruns, sizeof(Size), compare_larger_first);
	while (n < nruns && taken + memory[n] <= env->limit)
		taken += memory[n++];
	pfree(memory);
	return Max(MERGE_MIN_FAN_IN, Min(Max(n, least), MERGE_MAX_FAN_IN));
}

int
merge_fan_in(const Runs *runs, bool last)
{
	Size		piece = last ? PIECE_MIN : runs->file->extent;
	Size		headroom = last ? HEADROOM_MIN : Min(piece, HEADROOM_MAX);

	return fan_in_of(runs, runs->runs, runs->n, choose_window(runs->env, runs->runs, runs->n, piece, headroom));
}

/*
 * Chooses the largest windows with which all these runs fit the memory.  A round takes
 * about as many rows of a run as its headroom has.  So headroom is reduced last.
 */
static RowReads
choose_reads(const Runs *runs, SpillRun *const *some, int n)
{
	Size		piece = runs->file->extent;
	Size		headroom = Min(piece, HEADROOM_MAX);
	RowReads	window;

	for (;;)
	{
		window = choose_window(runs->env, some, n, piece, headroom);
		if (headroom == HEADROOM_MIN || fan_in_of(runs, some, n, window) >= n)
			return window;
		piece = Max(piece / 2, PIECE_MIN);
		headroom = headroom > piece || piece == PIECE_MIN ? headroom / 2 : headroom;
	}
}

void
merge_begin(Merge *merge, Runs *runs, SpillRun **some, int n)
{
	SortEnv    *env = runs->env;
	KeyBuffer  *keybuf = runs->keybuf;
	const KeyLayout *layout = &runs->layout;
	MergeState *state = palloc0(sizeof(MergeState));
	RowReads	reads = choose_reads(runs, some, n);
	Size		rows = (Size) n << reads.shift;
	Size		rids_size = TYPEALIGN(64, rows * sizeof(uint32));
	Size		bufs = 0;
	char	   *buf;

	memset(merge, 0, sizeof(*merge));
	merge->rows.array.base.env = env;
	merge->state = state;
	state->rounds.env = env;
	state->rounds.layout = layout;
	state->rounds.nruns = n;
	state->rounds.window = 1 << reads.shift;
	state->rounds.compare_rows = compare_window_rows;
	state->keybuf = keybuf;
	state->shift = reads.shift;
	state->id_bits = state->shift + (n == 1 ? 0 : 1 + pg_leftmost_one_pos32(n - 1));
	state->runs = palloc0(n * sizeof(MergeRun));
	state->windows = &merge->rows.arena;
	state->windows->base = palloc0((n + 1) * sizeof(char *));
	state->windows->chunks_sorted = true;
	state->page = palloc0(sizeof(RowPage));
	row_page_init_stored(state->page, env->spec.desc, keybuf);
	if (env->drop_duplicates)
	{
		state->test = distinct_test(env->distinct_cols, layout, Min(layout->total_bits, 128));
		state->keep_row = !state->test.exact || layout->total_bits > 64 - state->id_bits;
		state->same = palloc(position_set_bytes(rows));
	}
	for (int r = 0; r < n; r++)
		bufs += TYPEALIGN(64, run_reader_buffer_size(some[r], reads.piece, reads.headroom));
	state->rids = rounds_begin(&state->rounds, sizeof(uint64), RECORD_SCRATCH, rids_size + bufs);
	buf = (char *) state->rids + rids_size;
	for (int r = 0; r < n; r++)
	{
		merge->sources = merge->sources || some[r]->source != NULL;
		run_reader_open(&state->runs[r].reader, runs->file, some[r], buf, reads.piece, reads.headroom, env->bulk);
		buf += TYPEALIGN(64, run_reader_buffer_size(some[r], reads.piece, reads.headroom));
	}

	if (reads.shift == 0)
		create_tree(state);

	keybuf_freeze(keybuf);
	keybuf_reserve(keybuf, env->bulk, MaxHeapTuplesPerPage);
	sort_env_note_memory(env, runs->file->write + keybuf->bytes);
}

void
merge_end(Merge *merge)
{
	MergeState *state = merge->state;

	for (int r = 0; r < state->rounds.nruns; r++)
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
	pfree(state->rounds.windows);
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

/* Compares two rows with equal keys by value; 0: equal, whatever their input order. */
static int
compare_window_rows(MergeRounds *rounds, uint32 a, uint32 b)
{
	MergeState *state = (MergeState *) rounds;

	state->compared++;
	return tiebreak_compare(rounds->env->tiebreak, row_of_id(state, a), row_of_id(state, b));
}

/* Makes the keys of rows [id, id + n) of a window. */
static void
make_keys(MergeState *state, uint32 id, uint32 n)
{
	SortEnv    *env = state->rounds.env;
	const KeyLayout *layout = state->rounds.layout;
	KeyBuffer  *keybuf = state->keybuf;
	RowPage    *page = state->page;

	if (layout->total_bits == 0)
	{
		memset(rounds_key_address(&state->rounds, id), 0, n * rounds_key_size(layout));
		return;
	}
	while (n > 0)
	{
		keybuf_reset(keybuf);
		page->n = 0;
		while (page->n < n && row_page_put_stored(page, row_of_id(state, id + page->n)))
			;
		keybuf_stored_page(keybuf, &env->keys, sort_env_slot(env), page, row_of_id(state, id));
		pack_keys(keybuf, layout, 64, 0, keybuf->n, rounds_key_address(&state->rounds, id));
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
	RunWindow  *window = &state->rounds.windows[r];
	RunReader  *reader = &run->reader;
	uint32	   *rids = state->rids + window->first;
	uint32		left = window->n - window->taken;
	Size		passed;			/* bytes of the rows that were taken */

	run->full = reader->run == NULL || (window->n > 0 && window->taken == 0);
	if (run->full)
		return true;
	passed = left > 0 ? (Size) (rids[window->taken] % ARENA_CHUNK_UNITS) << ARENA_UNIT_SHIFT : run->end;
	reader->pos += passed;
	run_reader_fill(reader);
	if (unlikely(run_reader_failed(reader)))
		return false;
	run->end -= passed;
	state->windows->base[r] = reader->buf + reader->pos;
	for (uint32 i = 0; i < left; i++)
		rids[i] = rids[window->taken + i] - (uint32) (passed >> ARENA_UNIT_SHIFT);
	memmove(rounds_key_address(&state->rounds, window->first),
			rounds_key_address(&state->rounds, window->first + window->taken),
			left * rounds_key_size(state->rounds.layout));
	window->n = left;
	window->taken = 0;
	return true;
}

/* Fills run r's window with the rows of its buffer. */
static void
fill_window(MergeState *state, int r)
{
	MergeRun   *run = &state->runs[r];
	RunWindow  *window = &state->rounds.windows[r];
	RunReader  *reader = &run->reader;
	uint32	   *rids = state->rids + window->first;
	uint32		left = window->n;

	if (run->full)
		return;
	while (window->n >> state->shift == 0 && run->end < ARENA_CHUNK_SIZE)
	{
		Size		size = run_reader_row_size(reader, reader->pos + run->end);

		if (size == 0)
			break;
		/* the length of a row tells where the next one is, so the CPU cannot look ahead */
		__builtin_prefetch(reader->buf + reader->pos + run->end + WINDOW_PREFETCH);
		rids[window->n++] = (uint32) r << ARENA_CHUNK_SHIFT | (uint32) (run->end >> ARENA_UNIT_SHIFT);
		run->end += size;
	}
	/* a single run needs no keys, but to find duplicates */
	if (state->rounds.nruns > 1 || state->rounds.env->drop_duplicates)
		make_keys(state, window->first + left, window->n - left);
	window->more = run_reader_more(reader, reader->pos + run->end);
	if (window->n == 0)
		run_reader_close(reader);
}

/* Refills the windows of all runs.  False if rows are lost. */
static bool
refill_windows(MergeState *state)
{
	int			nruns = state->rounds.nruns;

	for (int r = 0; r < nruns + FILL_DELAY; r++)
	{
		if (r + 1 < nruns)
			run_reader_prefetch(&state->runs[r + 1].reader);
		if (r < nruns && !advance_window(state, r))
			return false;
		if (r >= FILL_DELAY)
			fill_window(state, r - FILL_DELAY);
	}
	return true;
}

/* ------------------------------------------------------------------------
 * Duplicates, in a sort with distinct columns
 * ------------------------------------------------------------------------
 */

/*
 * Marks the rows of this round whose key, in the distinct columns, is that of the row
 * before.  A sorted record has its row's id in the lowest bits.  Without records, the rows
 * are those from id first on.
 */
static void
mark_same_keys(MergeState *state, const uint64 *records, uint32 first, size_t n)
{
	uint64		id_mask = (UINT64CONST(1) << state->id_bits) - 1;
	Key128		mask = distinct_mask(state->test.cut);
	Key128		prev = state->last_key;

	memset(state->same, 0, position_set_bytes(n));
	for (size_t i = 0; i < n; i++)
	{
		Key128		key = rounds_key(&state->rounds, records != NULL ? (uint32) (records[i] & id_mask) : first + i);

		if (((key ^ prev) & mask) == 0)
			position_set_add(state->same, i);
		prev = key;
	}
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
	position_set_add(state->same, 0);
	state->have_last_key = false;
}

/* Drops the duplicates of n rows in order.  Returns the number of remaining rows. */
static size_t
drop_equal_neighbours(MergeState *state, uint32 *rids, size_t n)
{
	SortEnv    *env = state->rounds.env;
	bool		first = state->have_last && position_set_has(state->same, 0) &&
		(!state->keep_row ||
		 tiebreak_equal(env->tiebreak, env->spec.distinct, (MinimalTuple) state->last_row.row,
						(MinimalTuple) arena_at(state->windows, rids[0])));
	size_t		kept = distinct_rids(env, state->windows, rids, n, state->same,
										  state->have_last_key && state->test.exact);

	if (first)
		memmove(rids, rids + 1, --kept * sizeof(uint32));
	/* a copy, because the windows move */
	if (state->keep_row && kept > 0)
		kept_row_set(&state->last_row, state->rounds.cxt, (MinimalTuple) arena_at(state->windows, rids[kept - 1]));
	state->have_last = true;
	env->report.dropped_in_merges += n - kept;
	return kept;
}

/* ------------------------------------------------------------------------
 * Sorting a round
 * ------------------------------------------------------------------------
 */

/* Makes the packed records of a round.  base is subtracted from keys, then cut bits go. */
static pg_attribute_always_inline void
make_records(const MergeRounds *rounds, bool wide, Key128 base, int cut, SortProblem *problem)
{
	const void *keys = rounds->keys;
	uint64	   *record = problem->recs;
	size_t		descents = 0;
	size_t		ascents = 0;
	uint64		prev = 0;

	for (int r = 0; r < rounds->nruns; r++)
	{
		uint32		id = rounds->windows[r].first;
		uint32		end = id + rounds->windows[r].taken;

		for (; id < end; id++)
		{
			Key128		key = key_of_width(keys, wide, id) - base;
			uint64		value = wide ? (uint64) (key >> cut) : (uint64) key >> cut;

			descents += value < prev;
			ascents += value > prev;
			prev = value;
			*record++ = value << problem->begin_bit | id;
		}
	}
	problem->descents = descents;
	problem->ascents = ascents;
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
	tie_groups_begin(&groups, state->rounds.env->tiebreak, state->windows, rids);
	rids[0] = state->rids[prev & id_mask];
	for (size_t i = 1; i < n; i++)
	{
		uint64		record = records[i];

		rids[i] = state->rids[record & id_mask];
		if ((record ^ prev) >> state->id_bits == 0)
			tie_groups_equal(&groups, i);
		prev = record;
	}
	state->rounds.env->report.ties += tie_groups_end(&groups);
	return rids;
}

/* Sorts the n rows of this round; returns their row ids. */
static uint32 *
sort_round(MergeState *state, size_t n)
{
	SortEnv    *env = state->rounds.env;
	int			bits;
	Key128		base = rounds_range(&state->rounds, &bits);
	int			cut = Max(0, bits - (64 - state->id_bits));
	SortProblem problem = {
		.n = n,
		.format = SORT_REC_PACKED,
		.recs = env->recs.ptr,
		.begin_bit = state->id_bits,
		.end_bit = state->id_bits + bits - cut
	};
	uint64	   *records;

	if (state->rounds.wide)
		make_records(&state->rounds, true, base, cut, &problem);
	else
		make_records(&state->rounds, false, base, cut, &problem);
	records = rounds_sort(&state->rounds, &problem);
	if (env->drop_duplicates && cut == 0)
		mark_same_keys(state, records, 0, n);
	else if (env->drop_duplicates)
		mark_same_records(state, records, n);
	return extract_row_ids(state, records, n, cut > 0 || !state->rounds.layout->exact);
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
	RunWindow  *window = &state->rounds.windows[r];
	uint32		id;

	if (window->taken == window->n)
	{
		state->failed = state->failed || !advance_window(state, r);
		if (state->failed)
			return false;
		fill_window(state, r);
		if (window->n == 0)
			return false;
	}
	id = window->first + window->taken++;
	rows->base = (const char *) row_of_id(state, id);
	rows->places = &first;
	rows->keys = rounds_key_address(&state->rounds, id);
	rows->n = 1;
	return true;
}

/* Creates the tree, which begins with the rows that are in the windows. */
static void
create_tree(MergeState *state)
{
	MergeRounds *rounds = &state->rounds;
	MergeSource **sources = palloc(rounds->nruns * sizeof(MergeSource *));
	SortSpec	spec = rounds->env->spec;

	for (int r = 0; r < rounds->nruns; r++)
	{
		state->runs[r].source.next = next_row_of_run;
		state->runs[r].state = state;
		rounds->windows[r].taken = 0;
		sources[r] = &state->runs[r].source;
	}
	/* runs are in input order, and so are the TIDs of equal rows */
	spec.ties_by_tid = false;
	if (!rounds->env->drop_duplicates)
		spec.distinct = 0;
	state->tree = merge_tree_create(sources, rounds->nruns, 1, &spec, rounds->layout, rounds->env->tiebreak);
	pfree(sources);
}

/* Finds the next row by the merge tree; returns its row id, and sets *n to 1.  NULL, and 0: there is none. */
static uint32 *
next_tree_row(MergeState *state, size_t *n)
{
	MinimalTuple row = merge_tree_next(state->tree);

	state->rounds.env->report.dropped_in_merges += state->tree->dropped;
	state->tree->dropped = 0;
	*n = 0;
	if (state->failed || row == NULL)
		return NULL;

	/* the arena's last chunk is the row */
	*n = 1;
	state->windows->base[state->rounds.nruns] = (char *) row;
	state->tree_row = (uint32) state->rounds.nruns << ARENA_CHUNK_SHIFT;
	return &state->tree_row;
}

/* ------------------------------------------------------------------------
 * The next round
 * ------------------------------------------------------------------------
 */

/* Puts the rows of a round in order; returns their row ids, *n of them.  NULL: there are none, or a tree is created. */
static uint32 *
order_round(MergeState *state, size_t *n)
{
	uint32		first;

	state->compared = 0;
	state->failed = !refill_windows(state);
	*n = state->failed ? 0 : rounds_choose(&state->rounds);
	if (*n == 0)
		return NULL;
	/* the tree does not know the last row that was returned, nor that it has no duplicates */
	if (state->compared > COMPARED_MAX * *n && !state->have_last)
	{
		create_tree(state);
		return NULL;
	}
	if (state->rounds.sources > 1)
		return sort_round(state, *n);
	first = state->rounds.windows[state->rounds.source].first;
	if (state->rounds.env->drop_duplicates)
		mark_same_keys(state, NULL, first, *n);
	return state->rids + first;
}

bool
merge_round(Merge *merge)
{
	MergeState *state = merge->state;
	MemoryContext old = MemoryContextSwitchTo(state->rounds.cxt);
	uint32	   *rids = NULL;
	size_t		n = 0;

	CHECK_FOR_INTERRUPTS();
	while (state->tree == NULL && !state->failed && n == 0)
	{
		rids = order_round(state, &n);
		if (rids == NULL)
			break;
		if (state->rounds.env->drop_duplicates)
			n = drop_equal_neighbours(state, rids, n);
		CHECK_FOR_INTERRUPTS();
	}
	if (state->tree != NULL)
		rids = next_tree_row(state, &n);
	merge->rows.rids = rids;
	merge->rows.array.pos = 0;
	merge->rows.array.n = n;
	merge->rows.array.base.failed = state->failed;
	MemoryContextSwitchTo(old);
	return n > 0;
}
