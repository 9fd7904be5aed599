/*
 * tie_rounds.c
 *	  Many rows with equal keys, ordered by the next words of their keys.
 *
 * Comparing rows costs two cache misses a comparison, and n log n of them.  Here each
 * round fetches every row once, ahead of its turn, takes the next word of its key (the
 * next eight bytes of a string, the image of a column), and sorts records of word and
 * rid by radix.  Rows whose words are equal go into a round of their own, with the
 * word behind that one, or the next column's first.  All columns take part alike: one
 * of fixed width behind a text is one round.  Where nothing but a comparator tells,
 * the round's words are the values, and become their ranks (tie_dictionary.c, tie_hints.c,
 * tie_abbreviated.c, tie_merge.c).
 *
 * What rows have in common is not gone through word by word: where a round's words
 * are all the same, the next begins behind the longest common prefix, and strings found
 * equal as a whole are done with.  So there is one round more only where rows part.
 *
 * The records' rids ascend at first and every sort is stable, so equal rows end in
 * their order.  Of the runs that a round leaves, the longest is gone on with in place
 * and the others by recursion, which is no deeper than log n then.
 */
#include "postgres.h"

#include "key/tie/tie_rows.h"

/* Records up to this number are sorted by insertion. */
#define WORDS_INSERTION_MAX	32

/* A string of bytes that may have zeros takes words of so many, and their number. */
#define COUNTED_BYTES		(BYTES_WORD - 1)

/* A place in the rows' keys. */
typedef struct Place
{
	int			k;				/* the column */
	size_t		at;				/* a string's byte, otherwise the image's word */
	bool		compared;		/* only the comparator knows */
	bool		skip;			/* what is common may be long */
} Place;

/* What a round's words are like. */
typedef struct Round
{
	size_t		nulls;
	bool		inexact;		/* some image is */
	bool		same;			/* all words are */
	bool		unplaced;		/* there are none: some value is not in its row, or has no image */
} Round;

static Place
place_of_column(const TieBreak *tb, int k)
{
	Place		place = {k, 0, false, k == 0};

	if (k < tb->nkeys)
		place.compared = key_dear(tb->cols[k].kind);
	return place;
}

/* The place behind the words of this one, which has more of its column or not. */
static Place
place_behind(const TieBreak *tb, Place place, const Round *round, bool more)
{
	const TieColumn *col = &tb->cols[place.k];

	if (!more)
		return place_of_column(tb, place.k + 1);
	if (!col->by_bytes)
	{
		place.at++;
		place.compared = round->inexact;
	}
	else
	{
		place.at += col->kind == KEY_BYTEA ? COUNTED_BYTES : BYTES_WORD;
		place.skip = true;
	}
	return place;
}

/* The next word of a string, direction folded in. */
static inline uint64
string_word(const TieColumn *col, KeyString s, size_t at)
{
	size_t		left = s.len > at ? s.len - at : 0;
	uint64		word = bytes_word(s.p + Min(at, s.len), left);

	if (col->kind == KEY_BYTEA)
		word = (word & ~UINT64CONST(0xff)) | Min(left, BYTES_WORD);
	return word ^ col->flip;
}

/* A value's word, or the value where there is none. */
static inline uint64
value_word(const TieColumn *col, Place place, Datum value, bool *inexact)
{
	if (place.compared)
		return (uint64) value;
	if (col->by_bytes)
		return string_word(col, string_of(col->kind, value), place.at);
	return key_image(&col->image[place.at], col->makers[place.at], value, inexact);
}

/* May values with this word differ in what is behind it? */
static inline bool
word_has_more(const TieColumn *col, const Round *round, Place place, uint64 word)
{
	if (place.compared)
		return false;
	if (!col->by_bytes)
		return place.at + 1 < (size_t) key_words(col->kind) || round->inexact;
	/* a string that has ended ends with a zero, or has few bytes */
	word = (word ^ col->flip) & 0xff;
	return col->kind == KEY_BYTEA ? word > COUNTED_BYTES : word != 0;
}

/* Makes the records' words. */
static void
make_words(TieBreak *tb, SortRec64 *recs, size_t n, Place place, Round *round)
{
	const TieColumn *col = &tb->cols[place.k];
	uint64		differ = 0;

	memset(round, 0, sizeof(*round));
	for (size_t i = 0; i < n; i++)
	{
		Datum		value;
		bool		isnull;

		CHECK_FOR_INTERRUPTS();
		if (i + TIE_PREFETCH < n)
			tie_prefetch(tb, recs[i + TIE_PREFETCH].rid);
		value = tie_value(tb, col, tie_row(tb, recs[i].rid), &isnull);
		recs[i].pad = isnull;
		if (isnull)
		{
			recs[i].key = 0;
			round->nulls++;
			continue;
		}
		if (col->by_bytes && !place.compared && string_is_toasted(col->kind, value))
		{
			round->unplaced = true;
			return;
		}
		recs[i].key = value_word(col, place, value, &round->inexact);
		if (key_may_be_unplaced(col->kind) && !place.compared &&
			unlikely(key_image_unplaced(&col->image[0], recs[i].key)))
		{
			round->unplaced = true;
			return;
		}
		differ |= recs[i].key ^ recs[0].key;
	}
	round->same = (differ == 0);
}

/*
 * Moves the place behind what all strings have in common, to the next column if that
 * is all of them.  It stays where there are NULLs or toasted values.
 */
static void
skip_common(TieBreak *tb, const SortRec64 *recs, size_t n, Place *place)
{
	const TieColumn *col = &tb->cols[place->k];
	KeyString	first = {NULL, 0};
	size_t		common = 0;
	bool		equal = true;

	place->skip = false;
	for (size_t i = 0; i < n; i++)
	{
		KeyString	s;
		Datum		value;
		bool		isnull;

		CHECK_FOR_INTERRUPTS();
		if (i + TIE_PREFETCH < n)
			tie_prefetch(tb, recs[i + TIE_PREFETCH].rid);
		value = tie_value(tb, col, tie_row(tb, recs[i].rid), &isnull);
		if (isnull || string_is_toasted(col->kind, value))
			return;
		s = string_of(col->kind, value);
		if (i == 0)
		{
			first = s;
			common = s.len;
			continue;
		}
		equal &= (s.len == first.len);
		common = bytes_common(s.p, s.len, first.p, common);
		if (common <= place->at)
			return;
	}
	if (equal && common == first.len)
		*place = place_of_column(tb, place->k + 1);
	else
		place->at = common;
}

static bool
check_interrupts(void *arg)
{
	CHECK_FOR_INTERRUPTS();
	return false;
}

/* Scratch memory of a round. */
static void *
round_scratch(TieBreak *tb, Size size)
{
	bulk_reserve(tb->owner, &tb->scratch, size, 0);
	return tb->scratch.ptr;
}

void
tie_sort_words(TieBreak *tb, SortRec64 *recs, size_t n)
{
	/* records must begin at a cache line, which a run's need not */
	bool		aligned = ((uintptr_t) recs % 64 == 0);
	Size		size = TYPEALIGN(64, n * sizeof(SortRec64));
	char	   *scratch;
	SortProblem problem = {0};

	if (n <= WORDS_INSERTION_MAX)
	{
		for (size_t i = 1; i < n; i++)
		{
			SortRec64	rec = recs[i];
			size_t		j = i;

			for (; j > 0 && recs[j - 1].key > rec.key; j--)
				recs[j] = recs[j - 1];
			recs[j] = rec;
		}
		return;
	}
	problem.format = SORT_REC_64;
	problem.n = n;
	problem.end_bit = 64;
	problem.rids_ascending = true;
	problem.interrupted = check_interrupts;
	scratch = round_scratch(tb, cpu_radix_kernel.scratch_bytes(&problem) + (aligned ? 0 : size));
	problem.recs = recs;
	if (!aligned)
	{
		problem.recs = memcpy(scratch, recs, n * sizeof(SortRec64));
		scratch += size;
	}
	problem.scratch = scratch;
	if (cpu_radix_kernel.run(&problem) != SORT_OK)
		elog(ERROR, "rows with equal keys cannot be sorted by their next words");
	if (problem.result != recs)
		memcpy(recs, problem.result, n * sizeof(SortRec64));
}

void
tie_compare_sort(TieBreak *tb, TieColumn *col, SortRec64 *recs, size_t n)
{
	tie_merge_sort(tb, col, recs, round_scratch(tb, n * sizeof(SortRec64)), n);
}

/* Records with values by the comparator; their words are then its ranks. */
static void
rank_by_comparator(TieBreak *tb, TieColumn *col, SortRec64 *recs, size_t n)
{
	SortSupport ssup = tie_comparator(tb, col);

	if (tie_presorted(ssup, recs, n))
	{
		(void) tie_rank(ssup, recs, n, true);
		return;
	}
	if (tie_dictionary(tb, col, recs, n))
	{
		tie_sort_words(tb, recs, n);
		return;
	}
	if (tie_hints(tb, col, recs, n))
	{
		if (tie_rank(ssup, recs, n, false))
			return;
		if (tie_repair(tb, col, recs, round_scratch(tb, n * sizeof(SortRec64)), n))
		{
			(void) tie_rank(ssup, recs, n, true);
			return;
		}
	}
	if (tie_abbreviated(tb, col, recs, n))
		return;
	tie_compare_sort(tb, col, recs, n);
	(void) tie_rank(ssup, recs, n, true);
}

/* NULLs, whose pad is set, to their end, in their order; returns where the values begin. */
static size_t
part_nulls(TieBreak *tb, SortRec64 *recs, size_t n, size_t nulls, bool nulls_first)
{
	SortRec64  *moved = round_scratch(tb, n * sizeof(SortRec64));
	size_t		null_at = nulls_first ? 0 : n - nulls;
	size_t		value_at = nulls_first ? nulls : 0;
	size_t		begin = value_at;

	for (size_t i = 0; i < n; i++)
		moved[recs[i].pad != 0 ? null_at++ : value_at++] = recs[i];
	memcpy(recs, moved, n * sizeof(SortRec64));
	return begin;
}

static void
insert_rows(TieBreak *tb, int k, SortRec64 *recs, size_t n)
{
	for (size_t i = 1; i < n; i++)
	{
		SortRec64	rec = recs[i];
		size_t		j = i;

		for (; j > 0 && tie_compare_rows(tb, k, recs[j - 1].rid, rec.rid) > 0; j--)
			recs[j] = recs[j - 1];
		recs[j] = rec;
	}
}

/* A run of rows that a round has left equal. */
typedef struct Run
{
	SortRec64  *recs;
	size_t		n;
	Place		place;
} Run;

static void order_run(TieBreak *tb, Run run);

/*
 * Orders the runs of equal words, all but the longest, which is returned (its n is 0
 * if there is none).
 */
static Run
order_runs(TieBreak *tb, Run run, const Round *round)
{
	const TieColumn *col = &tb->cols[run.place.k];
	SortRec64  *recs = run.recs;
	Run			longest = {NULL, 0};
	size_t		start = 0;

	for (size_t i = 1; i <= run.n; i++)
	{
		Run			part;

		if (i < run.n && recs[i].key == recs[i - 1].key)
			continue;
		part.recs = recs + start;
		part.n = i - start;
		start = i;
		if (part.n == 1)
			continue;
		part.place = place_behind(tb, run.place, round,
								  word_has_more(col, round, run.place, part.recs[0].key));
		if (part.n > longest.n)
		{
			Run			swap = longest;

			longest = part;
			part = swap;
		}
		if (part.n > 1)
			order_run(tb, part);
	}
	return longest;
}

/* Orders a run whose rows are equal before its place. */
static void
order_run(TieBreak *tb, Run run)
{
	while (run.place.k < tb->nkeys && run.n > 1)
	{
		TieColumn  *col = &tb->cols[run.place.k];
		Round		round;

		if (run.n <= TIE_INSERTION_MAX)
		{
			insert_rows(tb, run.place.k, run.recs, run.n);
			return;
		}
		CHECK_FOR_INTERRUPTS();
		if (run.place.skip && col->by_bytes && !run.place.compared)
		{
			skip_common(tb, run.recs, run.n, &run.place);
			if (run.place.k == tb->nkeys || &tb->cols[run.place.k] != col)
				continue;
		}
		make_words(tb, run.recs, run.n, run.place, &round);
		if (round.unplaced)
		{
			run.place.compared = true;
			continue;
		}
		if (round.nulls == run.n)
			run.place = place_of_column(tb, run.place.k + 1);
		else if (round.nulls > 0)
		{
			size_t		begin = part_nulls(tb, run.recs, run.n, round.nulls, col->nulls_first);
			Run			nulls = run;

			nulls.n = round.nulls;
			nulls.recs = run.recs + (begin > 0 ? 0 : run.n - round.nulls);
			nulls.place = place_of_column(tb, run.place.k + 1);
			order_run(tb, nulls);
			run.recs += begin;
			run.n -= round.nulls;
		}
		else if (run.place.compared)
		{
			rank_by_comparator(tb, col, run.recs, run.n);
			run = order_runs(tb, run, &round);
		}
		else if (round.same)
			run.place = place_behind(tb, run.place, &round,
									 word_has_more(col, &round, run.place, run.recs[0].key));
		else
		{
			tie_sort_words(tb, run.recs, run.n);
			run = order_runs(tb, run, &round);
		}
	}
}

void
tie_rounds(TieBreak *tb, SortRec64 *recs, size_t n)
{
	Run			run = {recs, n, place_of_column(tb, 0)};

	order_run(tb, run);
}
