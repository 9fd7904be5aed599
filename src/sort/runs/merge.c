/*
 * merge.c
 *	  Sorted runs read as one, by sorting a part of each.
 *
 * Of every run some rows lie in memory: its window.  A round takes from all windows
 * the rows up to a bound, the smallest of the windows' last rows (of runs that go on
 * behind them), and lets a kernel sort them: no row that is still on disk could go
 * before any of these.  Then windows are filled up again.  Why not a tree of losers:
 * of fifty runs it took six comparisons a row that nobody can predict, and a key made
 * through a slot, 45 ns on a Zen 4; a round in the cache takes a third of that, its
 * keys made by the column as those of pages are.
 *
 * Where rows are so long that a buffer holds hardly more than one, a round would compare rows of
 * all runs for the sake of a few.  A window then is one row, and a tree of losers finds the
 * next one.
 *
 * Memory policy: windows and words come from the sort's own arrays, within work_mem.  The longest
 * row of each run counts as well, because all runs may come to theirs at the same time.  About as
 * many runs as tuplesort.c would merge are merged at once, also if that takes more than work_mem:
 * with fewer, long rows would be written more often than by a Sort.  An ERROR leaves all that to
 * the sort's memory and resource owner.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "port/pg_bitutils.h"
#include "sort/runs/merge_state.h"
#include "utils/memutils.h"

#define MERGE_MIN_FAN_IN		6
#define MERGE_MAX_FAN_IN		500

/* Memory of each run that tuplesort.c merges: 32 blocks to read, two for its tapes. */
#define STOCK_RUN_MEMORY		(34 * (Size) BLCKSZ)

/*
 * The last merge takes as many runs as merges before it, where tuplesort.c often takes fewer; who reads it
 * may hold so many copies of a row beside it.
 */
#define READER_ROWS				2

/* Rows in a window, as a power of two. */
#define WINDOW_MIN_SHIFT		4
#define WINDOW_MAX_SHIFT		10

/* Bytes a word takes of a kernel's scratch, about. */
#define WORD_SCRATCH			12

/* How rows are read, by their average length. */
typedef struct MergeWindow
{
	int			shift;			/* rows in a window, as a power of two */
	Size		headroom;		/* bytes of rows that a reader has before it reads on */
} MergeWindow;

/* A window's rows are about the headroom, which is a part of an extent. */
static MergeWindow
choose_window(const SortEnv *env, const SpillFile *file, SpillRun *const *runs, int nruns)
{
	MergeWindow window = {WINDOW_MIN_SHIFT, file->extent / 4};
	uint64		bytes = 0;
	uint64		rows = 0;
	uint64		row;

	for (int r = 0; r < nruns; r++)
	{
		bytes += runs[r]->bytes;
		rows += runs[r]->rows;
	}
	/* of a source's run rows are not known */
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

int
merge_fan_in(const SortEnv *env, const KeyLayout *layout, const SpillFile *file,
			 SpillRun *const *runs, int nruns)
{
	MergeWindow window = choose_window(env, file, runs, nruns);
	Size		rows = (key_size(layout) + sizeof(uint32) + sizeof(uint64) + WORD_SCRATCH) << window.shift;
	Size	   *memory = palloc(nruns * sizeof(Size));
	int			least = (int) Min(env->limit / STOCK_RUN_MEMORY, MERGE_MAX_FAN_IN) - READER_ROWS;
	Size		taken = 0;
	int			n = 0;

	for (int r = 0; r < nruns; r++)
		memory[r] = rows + run_reader_memory(file, runs[r], window.headroom);
	/* whichever runs are merged at once */
	qsort(memory, nruns, sizeof(Size), compare_larger_first);
	while (n < nruns && taken + memory[n] <= env->limit)
		taken += memory[n++];
	pfree(memory);
	return Max(MERGE_MIN_FAN_IN, Min(Max(n, least), MERGE_MAX_FAN_IN));
}

/* What finds keys in stored rows. */
static RowPage *
create_page(const SortEnv *env, const Stage *stage)
{
	RowPage    *page = palloc0(sizeof(RowPage));
	int			natts = env->spec.desc->natts;
	AttrNumber *atts = palloc(natts * sizeof(AttrNumber));

	for (int att = 0; att < natts; att++)
		atts[att] = att;
	page_keys_init(&page->keys, stage, env->spec.desc, atts);
	page->nkeys = stage->ncols;
	page->key_walk = tuple_walk_create(env->spec.desc, page->keys.att, stage->ncols, false);
	pfree(atts);
	return page;
}

void
merge_begin(Merge *merge, SortEnv *env, Stage *stage, const KeyLayout *layout, SpillFile *file,
			SpillRun **runs, int nruns)
{
	MergeState *state = palloc0(sizeof(MergeState));
	MergeWindow window = choose_window(env, file, runs, nruns);
	Size		bufs = 0;
	Size		rows;
	char	   *p;

	memset(merge, 0, sizeof(*merge));
	merge->state = state;
	state->env = env;
	state->stage = stage;
	state->layout = layout;
	state->wide = key_size(layout) > sizeof(uint64);
	state->shift = window.shift;
	state->id_bits = state->shift + (nruns == 1 ? 0 : 1 + pg_leftmost_one_pos32(nruns - 1));
	state->nruns = nruns;
	state->runs = palloc0(nruns * sizeof(MergeRun));
	state->bufs = palloc0(nruns * sizeof(char *));
	state->pieces = palloc((nruns + 1) * sizeof(uint32));
	state->losers = window.shift == 0 ? palloc(nruns * sizeof(int)) : NULL;
	state->page = create_page(env, stage);
	state->cxt = CurrentMemoryContext;

	rows = (Size) nruns << state->shift;
	state->words_size = TYPEALIGN(64, rows * sizeof(uint64));
	bulk_reserve(env->bulk, &env->recs, state->words_size + rows * WORD_SCRATCH, 0);
	for (int r = 0; r < nruns; r++)
		bufs += TYPEALIGN(64, run_reader_buffer_size(file, runs[r], window.headroom));
	bulk_reserve(env->bulk, &env->scratch, TYPEALIGN(64, rows * (key_size(layout) + sizeof(uint32))) + bufs, 0);
	p = env->scratch.ptr;
	state->keys = p;
	p += rows * key_size(layout);
	state->offsets = (uint32 *) p;
	p = (char *) env->scratch.ptr + TYPEALIGN(64, rows * (key_size(layout) + sizeof(uint32)));
	for (int r = 0; r < nruns; r++)
	{
		merge->sources = merge->sources || runs[r]->source != NULL;
		run_reader_open(&state->runs[r].reader, file, runs[r], p, window.headroom, env->bulk);
		p += TYPEALIGN(64, run_reader_buffer_size(file, runs[r], window.headroom));
	}

	stage_freeze(stage);
	stage_reserve(stage, env->bulk, MaxHeapTuplesPerPage);
	sort_env_note_memory(env, file->extent + stage->bytes);
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
	if (state->page->key_walk != NULL)
		tuple_walk_free(state->page->key_walk);
	pfree(state->page);
	if (state->losers != NULL)
		pfree(state->losers);
	pfree(state->pieces);
	pfree(state->bufs);
	pfree(state->runs);
	pfree(state);
	merge->state = NULL;
}

/* ------------------------------------------------------------------------
 * Windows
 * ------------------------------------------------------------------------
 */
/* Stages a row's keys by way of a slot. */
static void
stage_by_slot(MergeState *state, MinimalTuple row)
{
	TupleTableSlot *slot = sort_env_slot(state->env);

	row_to_slot(slot, row);
	slot_getsomeattrs(slot, state->stage->last_att);
	stage_row(state->stage, &state->env->keys, slot->tts_values, slot->tts_isnull, 0);
	ExecClearTuple(slot);
}

/* Makes the keys of rows [id, id + n) of a window. */
static void
make_keys(MergeState *state, uint32 id, uint32 n)
{
	Stage	   *stage = state->stage;
	RowPage    *page = state->page;

	while (n > 0)
	{
		stage_reset(stage);
		page->n = 0;
		while (page->n < Min(n, MaxHeapTuplesPerPage))
		{
			MinimalTuple row = row_at(state, id + page->n);

			/* a page's tuples are not that long */
			if (page->key_walk == NULL || row->t_len + MINIMAL_TUPLE_OFFSET > PG_UINT16_MAX)
				break;
			page->tuples[page->n] = (HeapTupleHeader) ((char *) row - MINIMAL_TUPLE_OFFSET);
			page->lens[page->n] = row->t_len + MINIMAL_TUPLE_OFFSET;
			page->n++;
		}
		if (page->n > 0)
		{
			row_page_stage(page, 0, stage, &state->env->keys, 0);
			stage->n = page->n;
		}
		else
			stage_by_slot(state, row_at(state, id));
		pack_keys(stage, state->layout, 64, 0, stage->n,
				  (char *) state->keys + id * key_size(state->layout));
		id += stage->n;
		n -= stage->n;
	}
}

/* The rows that were taken leave run r's window, others come in; false if those are lost. */
static bool
refill(MergeState *state, int r)
{
	MergeRun   *run = &state->runs[r];
	RunReader  *reader = &run->reader;
	Size		width = key_size(state->layout);
	uint32		first = (uint32) r << state->shift;
	uint32	   *offsets = state->offsets + first;
	char	   *keys = (char *) state->keys + first * width;
	uint32		left = run->n - run->taken;
	Size		moved;

	if (reader->run == NULL || (run->n > 0 && run->taken == 0))
		return true;
	moved = reader->pos = left > 0 ? (Size) offsets[run->taken] << 3 : run->end;
	run_reader_fill(reader);
	if (unlikely(run_reader_lost(reader)))
		return false;
	moved -= reader->pos;
	run->end -= moved;
	state->bufs[r] = reader->buf;
	for (uint32 i = 0; i < left; i++)
		offsets[i] = offsets[run->taken + i] - (uint32) (moved >> 3);
	memmove(keys, keys + run->taken * width, left * width);
	run->n = left;
	run->taken = 0;

	while (run->n >> state->shift == 0)
	{
		Size		size = run_reader_row_size(reader, run->end);

		if (size == 0)
			break;
		offsets[run->n++] = (uint32) (run->end >> 3);
		run->end += size;
	}
	/* a single run is in order as it is */
	if (state->nruns > 1)
		make_keys(state, first + left, run->n - left);
	run->more = run_reader_more(reader, run->end);
	if (run->n == 0)
		run_reader_close(reader);
	return true;
}

/* ------------------------------------------------------------------------
 * Rounds
 * ------------------------------------------------------------------------
 */

/* The row behind which other windows' rows may be on disk; false: none are. */
static bool
find_bound(const MergeState *state, uint32 *bound)
{
	bool		found = false;

	for (int r = 0; r < state->nruns; r++)
	{
		const MergeRun *run = &state->runs[r];
		uint32		last = ((uint32) r << state->shift) + run->n - 1;

		if (run->n > 0 && run->more && (!found || compare_rows(state, last, *bound) < 0))
		{
			*bound = last;
			found = true;
		}
	}
	return found;
}

/* How many of n keys from id on, which ascend, are smaller, or not larger; without a branch. */
static pg_attribute_always_inline uint32
count_keys(const MergeState *state, bool wide, uint32 id, uint32 n, Key128 key, bool not_larger)
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

/* How many rows of window r do not go behind the bound. */
static uint32
count_up_to(const MergeState *state, int r, uint32 bound)
{
	uint32		first = (uint32) r << state->shift;
	int			bound_run = (int) (bound >> state->shift);
	uint32		n = state->runs[r].n;
	Key128		key = key_at(state, bound);
	uint32		from;
	uint32		to;

	if (r == bound_run)
		return n;
	from = state->wide ? count_keys(state, true, first, n, key, false) :
		count_keys(state, false, first, n, key, false);
	/* of equal rows, a later run's wait for those that the bound's still has */
	if (from == n || key_at(state, first + from) != key || (state->layout->exact && r > bound_run))
		return from;
	to = state->wide ? count_keys(state, true, first, n, key, true) :
		count_keys(state, false, first, n, key, true);
	if (state->layout->exact)
		return to;
	while (from < to)
	{
		uint32		mid = from + (to - from) / 2;
		int			cmp = compare_rows(state, first + mid, bound);

		if (cmp < 0 || (cmp == 0 && r < bound_run))
			from = mid + 1;
		else
			to = mid;
	}
	return from;
}

/* Decides which rows are in this round; returns how many. */
static size_t
take_rows(MergeState *state)
{
	size_t		n = 0;
	uint32		bound = 0;
	bool		bounded = find_bound(state, &bound);

	for (int r = 0; r < state->nruns; r++)
	{
		MergeRun   *run = &state->runs[r];

		run->taken = !bounded ? run->n : run->n == 0 ? 0 : count_up_to(state, r, bound);
		n += run->taken;
	}
	return n;
}

/* ------------------------------------------------------------------------
 * Long rows: a tree of losers
 * ------------------------------------------------------------------------
 */

/* Does run a's row come before run b's?  Runs that have ended come last. */
static bool
comes_first(const MergeState *state, int a, int b)
{
	int			cmp;

	if (state->runs[a].n == 0 || state->runs[b].n == 0)
		return state->runs[b].n == 0;
	cmp = compare_rows(state, a, b);
	return cmp < 0 || (cmp == 0 && a < b);
}

/*
 * Run r plays against the losers on its way to the root, losers[0], which is the winner.  While the
 * tree is built, who comes first to a node waits there for the other.
 */
static void
play(MergeState *state, int r)
{
	int			winner = r;

	for (int at = (r + state->nruns) / 2; at > 0; at /= 2)
	{
		int			loser = state->losers[at];

		if (loser < 0)
		{
			state->losers[at] = winner;
			return;
		}
		if (comes_first(state, loser, winner))
		{
			state->losers[at] = winner;
			winner = loser;
		}
	}
	state->losers[0] = winner;
}

/* The next row comes to hand; returns how many there are, 0 or 1. */
static size_t
next_long_row(Merge *merge)
{
	MergeState *state = merge->state;
	int			first = state->begun ? state->losers[0] : 0;
	int			last = state->begun ? first : state->nruns - 1;

	if (!state->begun)
		memset(state->losers, -1, state->nruns * sizeof(int));
	else
		state->runs[first].taken = state->runs[first].n;
	for (int r = first; r <= last && !merge->lost; r++)
		merge->lost = !refill(state, r);
	if (merge->lost)
		return 0;
	for (int r = first; r <= last; r++)
		play(state, r);
	state->begun = true;
	return state->runs[state->losers[0]].n;
}

/* ------------------------------------------------------------------------
 * The next rows
 * ------------------------------------------------------------------------
 */
static bool
next_rows(Merge *merge)
{
	MergeState *state = merge->state;
	uint64	   *words = state->env->recs.ptr;
	uint64		id_mask = (UINT64CONST(1) << state->id_bits) - 1;

	merge->next = 0;
	if (state->losers != NULL)
	{
		merge->n = next_long_row(merge);
		if (merge->n == 0)
			return false;
		words[0] = (uint64) row_at(state, state->losers[0]);
		merge->rows = words;
		return true;
	}
	for (int r = 0; r < state->nruns; r++)
		merge->lost = merge->lost || !refill(state, r);
	merge->n = merge->lost ? 0 : take_rows(state);
	if (merge->n == 0)
		return false;

	if (state->nruns == 1)
	{
		for (size_t i = 0; i < merge->n; i++)
			words[i] = i;
	}
	else
		words = merge_order_words(state, merge->n);
	for (size_t i = 0; i < merge->n; i++)
		words[i] = (uint64) row_at(state, (uint32) (words[i] & id_mask));
	merge->rows = words;
	return true;
}

bool
merge_round(Merge *merge)
{
	MemoryContext old = MemoryContextSwitchTo(merge->state->cxt);
	bool		more;

	CHECK_FOR_INTERRUPTS();
	more = next_rows(merge);
	MemoryContextSwitchTo(old);
	return more;
}
