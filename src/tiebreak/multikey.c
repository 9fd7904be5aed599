/*
 * multikey.c
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
 * Strings that share long prefixes are not read word by word.  A prefix pass reads each
 * string of a run once, up to the byte in which it differs from a pivot, a string of the
 * run drawn at random.  Strings that sort before the pivot ascend with the length of the
 * prefix that they share with it, strings behind it descend, so that length is the leading
 * half of the pass's words; the next few bytes are the other half.  What strings share
 * with the pivot is not read again.
 *
 * A sample of the run decides between the two kinds of pass.  Words are chosen only if
 * they tell many rows apart, and a random pivot parts a run as one of quicksort does.
 * So each row is expected to take part in O(log n) passes, whatever the strings are, and
 * all passes together read each byte that tells rows apart about once.
 *
 * The records' rids ascend at first and every sort is stable, so equal rows end in
 * their order.  Of the runs that a round leaves, the longest is gone on with in place
 * and the others by recursion, which is no deeper than log n then.
 */
#include "postgres.h"

#include "common/pg_prng.h"
#include "tiebreak/tiebreak_internal.h"

/* Records up to this number are sorted by insertion. */
#define WORDS_INSERTION_MAX	32

/* A string of bytes that may have zeros takes words of so many, and their number. */
#define COUNTED_BYTES		(BYTES_WORD - 1)

/* The bytes in a prefix pass's word, and the likewise fewer of strings that may have zeros. */
#define PREFIX_PASS_BYTES	4
#define PREFIX_PASS_COUNTED	(PREFIX_PASS_BYTES - 1)
#define PREFIX_PASS_BITS	(8 * PREFIX_PASS_BYTES)

/* So few rows are not fetched again for longer words. */
#define WORDS_MIN_ROWS		32

/* The strings that are sampled to choose the kind of the next pass. */
#define SAMPLE_SIZE			16

/* Runs from this size on report their passes to the log, for tests. */
#define REPORTED_ROWS		1024

/* A place in the rows' keys. */
typedef struct Place
{
	int			k;				/* the column */
	size_t		at;				/* a string's byte, otherwise the image's word */
	bool		compared;		/* only the comparator knows */
	bool		sample;			/* strings may share a long prefix: sample the run first */
} Place;

/* What a round's words are like. */
typedef struct Round
{
	size_t		nulls;
	bool		inexact;		/* some image is */
	bool		same;			/* all words are */
	bool		unplaced;		/* there are none: some value is not in its row, or has no image */
	uint32		pivot;			/* of a prefix pass: the code of the pivot's equals; otherwise 0 */
} Round;

static Place
place_of_column(const TieBreak *tb, int k)
{
	Place		place = {k, 0, false, k == 0};

	if (k < tb->nkeys)
		place.compared = key_needs_comparator(tb->cols[k].kind);
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
		place.sample = true;
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
	return normkey_of_value(&col->normkey[place.at], col->makers[place.at], value, inexact);
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
	tb->passed_rows += n;
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
			unlikely(key_normkey_unplaced(&col->normkey[0], recs[i].key)))
		{
			round->unplaced = true;
			return;
		}
		differ |= recs[i].key ^ recs[0].key;
	}
	round->same = (differ == 0);
}

/*
 * Draws a pivot and decides whether a prefix pass is better than one by words: most of a
 * sample share the pivot's next word and go on behind it.  The pivot is random, for
 * otherwise strings could be chosen so that passes tell few of them apart.
 */
static bool
sample_shares_word(const TieBreak *tb, const SortRec64 *recs, size_t n, Place place, size_t *pivot)
{
	const TieColumn *col = &tb->cols[place.k];
	size_t		size = Max(Min(n / 4, SAMPLE_SIZE), 2);
	size_t		step = n / size;
	size_t		may_differ = size / 4;
	uint64		first = 0;
	size_t		at;

	at = *pivot = ((uint64) pg_prng_uint32(&pg_global_prng_state) * n) >> 32;
	/* all rows of a small run: the pass that follows finds them at hand */
	for (size_t i = 0; n <= WORDS_MIN_ROWS && i < n; i++)
		tie_prefetch(tb, recs[i].rid);
	for (size_t i = 0; i < size; i++)
	{
		KeyString	s;
		size_t		left;
		uint64		word;

		if (!tie_string(tb, col, recs[at].rid, &s))
			return false;
		at = at + step < n ? at + step : at + step - n;
		left = s.len - Min(place.at, s.len);
		word = bytes_word(s.p + s.len - left, left);
		if (i == 0)
			first = word;
		if (left > BYTES_WORD && word == first)
			continue;
		if (i == 0 || may_differ-- == 0)
			return false;
	}
	return true;
}

/* The length of the prefix that a record's string shares with the pivot, behind the place. */
static inline uint32
shared_prefix(const TieColumn *col, const Round *round, uint64 word)
{
	uint32		code = (word ^ col->flip) >> PREFIX_PASS_BITS;

	return code < round->pivot ? code : code > round->pivot ? 2 * round->pivot - code : round->pivot - 1;
}

/* A string's word in a prefix pass, direction folded in. */
static inline uint64
prefix_word(const TieColumn *col, const Round *round, KeyString s, KeyString pivot, size_t at,
			uint32 *shared)
{
	size_t		common = at + bytes_common_long(s.p + at, s.len - at, pivot.p + at, pivot.len - at);
	size_t		left = s.len - common;
	uint64		word = bytes_word(s.p + common, left) >> (64 - PREFIX_PASS_BITS);
	uint64		code = common - at;

	*shared = code;
	if (common == pivot.len)
		code = left == 0 ? round->pivot : 2 * (uint64) round->pivot - code;
	else if (left > 0 && (uint8) s.p[common] > (uint8) pivot.p[common])
		code = 2 * (uint64) round->pivot - code;
	if (col->kind == KEY_BYTEA)
		word = (word & ~UINT64CONST(0xff)) | Min(left, PREFIX_PASS_BYTES);
	return (code << PREFIX_PASS_BITS | word) ^ col->flip;
}

/*
 * Makes the records' words of a prefix pass.  Where most strings part from the pivot
 * within a word, that word tells more: then only the place moves behind the prefix that
 * all share, and the answer is false, as it is if there are NULLs or toasted values.
 */
static bool
make_prefix_words(TieBreak *tb, SortRec64 *recs, size_t n, size_t at, Place *place, Round *round)
{
	const TieColumn *col = &tb->cols[place->k];
	KeyString	pivot;
	uint64		differ = 0;
	uint32		least = PG_UINT32_MAX;
	size_t		within = 0;		/* rows that part within a word; those before a new least are left out */
	size_t		bytes = 0;

	memset(round, 0, sizeof(*round));
	if (!tie_string(tb, col, recs[at].rid, &pivot))
		return false;
	round->pivot = pivot.len - place->at + 1;
	for (size_t i = 0; i < n; i++)
	{
		KeyString	s;
		uint32		shared;

		CHECK_FOR_INTERRUPTS();
		if (i + TIE_PREFETCH < n)
			tie_prefetch(tb, recs[i + TIE_PREFETCH].rid);
		if (!tie_string(tb, col, recs[i].rid, &s))
			return false;
		recs[i].key = prefix_word(col, round, s, pivot, place->at, &shared);
		differ |= recs[i].key ^ recs[0].key;
		if (shared < least)
		{
			least = shared;
			within = 0;
		}
		within += shared - least < BYTES_WORD;
		bytes += shared;
	}
	tb->passed_rows += n;
	tb->passed_bytes += bytes;
	round->same = (differ == 0);
	if (round->same || n <= WORDS_MIN_ROWS || within < n - n / 4)
		return true;
	place->at += least;
	return false;
}

/* The place behind a word of a prefix pass. */
static Place
place_behind_prefix(const TieBreak *tb, Place place, const Round *round, uint64 word)
{
	const TieColumn *col = &tb->cols[place.k];
	uint32		last = (word ^ col->flip) & 0xff;

	/* the pivot's equals, and other strings that have ended */
	if ((word ^ col->flip) >> PREFIX_PASS_BITS == round->pivot ||
		(col->kind == KEY_BYTEA ? last <= PREFIX_PASS_COUNTED : last == 0))
		return place_of_column(tb, place.k + 1);
	place.at += shared_prefix(col, round, word);
	place.at += col->kind == KEY_BYTEA ? PREFIX_PASS_COUNTED : PREFIX_PASS_BYTES;
	place.sample = true;
	return place;
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

/* Two rows are compared once, however long they are. */
static bool
has_long_strings(const TieBreak *tb, const SortRec64 *recs, size_t n, int from)
{
	for (size_t i = 0; n > 2 && i < n; i++)
	{
		if (tie_has_long_string(tb, from, recs[i].rid))
			return true;
	}
	return false;
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
		if (round->pivot != 0)
			part.place = place_behind_prefix(tb, run.place, round, part.recs[0].key);
		else
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
		size_t		pivot;

		if (run.n <= TIE_INSERTION_MAX && !has_long_strings(tb, run.recs, run.n, run.place.k))
		{
			insert_rows(tb, run.place.k, run.recs, run.n);
			return;
		}
		CHECK_FOR_INTERRUPTS();
		if (run.place.sample && col->by_bytes && !run.place.compared)
		{
			run.place.sample = false;
			if (sample_shares_word(tb, run.recs, run.n, run.place, &pivot) &&
				make_prefix_words(tb, run.recs, run.n, pivot, &run.place, &round))
			{
				if (round.same)
					run.place = place_of_column(tb, run.place.k + 1);
				else
				{
					tie_sort_words(tb, run.recs, run.n);
					run = order_runs(tb, run, &round);
				}
				continue;
			}
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
tie_multikey(TieBreak *tb, SortRec64 *recs, size_t n)
{
	Run			run = {recs, n, place_of_column(tb, 0)};

	tb->passed_rows = tb->passed_bytes = 0;
	order_run(tb, run);
	if (n >= REPORTED_ROWS)
		ereport(DEBUG1,
				(errmsg_internal("gpusort: %zu tied rows took part in passes " UINT64_FORMAT " times, "
								 UINT64_FORMAT " bytes of shared prefixes were read",
								 n, tb->passed_rows, tb->passed_bytes)));
}
