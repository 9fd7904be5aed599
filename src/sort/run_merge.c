/*
 * run_merge.c
 *	  K-way merge of sorted runs.
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

#include "kernel/algorithm.h"
#include "miscadmin.h"
#include "port/pg_bitutils.h"
#include "sort/run_merge.h"
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

static uint64 *merge_order_words(MergeState *state, size_t n);

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
create_page(const SortEnv *env, const KeyBuffer *keybuf)
{
	RowPage    *page = palloc0(sizeof(RowPage));
	int			natts = env->spec.desc->natts;
	AttrNumber *atts = palloc(natts * sizeof(AttrNumber));

	for (int att = 0; att < natts; att++)
		atts[att] = att;
	page_keys_init(&page->keys, keybuf, env->spec.desc, atts);
	page->nkeys = keybuf->ncols;
	page->key_walk = tuple_walk_create(env->spec.desc, page->keys.att, keybuf->ncols, false);
	pfree(atts);
	return page;
}

void
merge_begin(Merge *merge, SortEnv *env, KeyBuffer *keybuf, const KeyLayout *layout, SpillFile *file,
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
	state->keybuf = keybuf;
	state->layout = layout;
	state->wide = key_size(layout) > sizeof(uint64);
	state->shift = window.shift;
	state->id_bits = state->shift + (nruns == 1 ? 0 : 1 + pg_leftmost_one_pos32(nruns - 1));
	state->nruns = nruns;
	state->runs = palloc0(nruns * sizeof(MergeRun));
	state->bufs = palloc0(nruns * sizeof(char *));
	state->pieces = palloc((nruns + 1) * sizeof(uint32));
	state->losers = window.shift == 0 ? palloc(nruns * sizeof(int)) : NULL;
	state->page = create_page(env, keybuf);
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

	keybuf_freeze(keybuf);
	keybuf_reserve(keybuf, env->bulk, MaxHeapTuplesPerPage);
	sort_env_note_memory(env, file->extent + keybuf->bytes);
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
keybuf_by_slot(MergeState *state, MinimalTuple row)
{
	TupleTableSlot *slot = sort_env_slot(state->env);

	row_to_slot(slot, row);
	slot_getsomeattrs(slot, state->keybuf->last_att);
	keybuf_row(state->keybuf, &state->env->keys, slot->tts_values, slot->tts_isnull, 0);
	ExecClearTuple(slot);
}

/* Makes the keys of rows [id, id + n) of a window. */
static void
make_keys(MergeState *state, uint32 id, uint32 n)
{
	KeyBuffer  *keybuf = state->keybuf;
	RowPage    *page = state->page;

	while (n > 0)
	{
		keybuf_reset(keybuf);
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
			row_page_keys_to_buffer(page, 0, keybuf, &state->env->keys, 0);
			keybuf->n = page->n;
		}
		else
			keybuf_by_slot(state, row_at(state, id));
		pack_keys(keybuf, state->layout, 64, 0, keybuf->n,
				  (char *) state->keys + id * key_size(state->layout));
		id += keybuf->n;
		n -= keybuf->n;
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
	if (unlikely(run_reader_failed(reader)))
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
	for (int r = first; r <= last && !merge->failed; r++)
		merge->failed = !refill(state, r);
	if (merge->failed)
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
		merge->failed = merge->failed || !refill(state, r);
	merge->n = merge->failed ? 0 : take_rows(state);
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

/* ------------------------------------------------------------------------
 * The rows of one round of a merge are sorted.
 *
 * The record of a round is a word: above, the row's key less the smallest one, of
 * which a round spans a small part only, so that there is room for most keys; below,
 * where the row lies: run and place in its window, in which order equal rows come out,
 * so that the merge is stable.  Rows whose words do not tell are merged by comparison:
 * those of one run are in order already.
 * ------------------------------------------------------------------------
 */

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
resolve_ties(MergeState *state, uint64 *words, uint64 *space, size_t n)
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
resolve_all_ties(MergeState *state, uint64 *words, uint64 *space, size_t n)
{
	size_t		start = 0;

	for (size_t i = 1; i <= n; i++)
	{
		if (i < n && (words[i] ^ words[start]) >> state->id_bits == 0)
			continue;
		if (i - start > 1)
			resolve_ties(state, words + start, space, i - start);
		start = i;
	}
}

/* merge_words.c: puts the rows that this round took, n, in order; returns their words. */
static uint64 *
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
		resolve_all_ties(state, words,
						words != problem.recs ? problem.recs : (uint64 *) ((char *) problem.recs + state->words_size),
						problem.n);
	return words;
}
