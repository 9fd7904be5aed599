/*
 * multikey.c
 *	  Resolves ties: sorts rows with equal keys by multikey (MSD) passes.
 *
 * Comparing rows takes about n log n comparisons with two cache misses each.  A
 * pass instead reads every row once, prefetched, takes the next word of its key (eight
 * bytes of a string, or a word of a column's normalized key), and sorts records of
 * word and rid by radix.  Rows with equal words form a group, which is sorted by the
 * next word of the column or the first word of the next column.  Where only the
 * comparator orders the values, the records contain the values, which are sorted and
 * replaced by their ranks (comparator_sort.c, collated.c).
 *
 * Strings with long common prefixes are not read word by word.  A prefix pass draws a
 * random pivot from the group and reads each string up to its first difference from
 * the pivot.  Strings before the pivot ascend with the length of the prefix that they
 * share with it, strings after it descend.  So that length is the upper half of the
 * word; the lower half is the next few bytes.  Shared bytes are not read again.
 *
 * A sample of the group decides between the two kinds of pass.  Word passes are
 * chosen only if they distinguish many rows, and a random pivot divides a group as in
 * quicksort.  So the expected number of passes per row is O(log n) for any strings,
 * and all passes together read each distinguishing byte about once.
 *
 * The rids ascend at first and every sort is stable, so equal rows keep their order.
 * Of the groups that a pass leaves, the longest is handled by iteration and the
 * other ones by recursion, whose depth is at most log n then.
 *
 * Up to TIE_INSERTION_MAX rows are compared directly, unless they have long strings.
 *
 * Memory policy: passes take 16 bytes a row and as much scratch memory from the sort's
 * own memory, which tiebreak_release() frees.
 */
#include "postgres.h"

#include "common/pg_prng.h"
#include "tiebreak/tiebreak_internal.h"

/* Bytes of a bytea in a word.  A bytea may have zeros, so the last byte counts its bytes. */
#define COUNTED_BYTES		(BYTES_WORD - 1)

/* Rows with a string of this length or more are sorted in passes, however few they are. */
#define LONG_STRING			1024

/* Bytes of a string, and of a bytea, in the word of a prefix pass. */
#define PREFIX_PASS_BYTES	4
#define PREFIX_PASS_COUNTED	(PREFIX_PASS_BYTES - 1)
#define PREFIX_PASS_BITS	(8 * PREFIX_PASS_BYTES)

/* Up to this number of rows a prefix pass is not replaced by a word pass. */
#define WORDS_MIN_ROWS		32

/* Strings in the sample that decides the kind of pass. */
#define SAMPLE_SIZE			16

/* Rows of a group that are prefetched when it is queued. */
#define TIE_QUEUE_PREFETCH	4

/* Sorts of this many rows report their passes to the log, for tests. */
#define REPORTED_ROWS		1024

/* A position in the keys of rows. */
typedef struct KeyPosition
{
	int			k;				/* column */

	/* byte of a string, or word of a normalized key */
	size_t		at;
	bool		compared;		/* only the comparator orders the values */
	bool		sample;			/* sample the group for a long common prefix */
} KeyPosition;

/* The words of a pass. */
typedef struct Pass
{
	size_t		nulls;			/* rows with a NULL */
	bool		inexact;		/* some normalized key is inexact */
	bool		same;			/* all words are equal */
	bool		unplaced;		/* some value is toasted or has no key */

	/* prefix pass: code of strings equal to the pivot; otherwise 0 */
	uint32		pivot;
} Pass;

/* Rows that are equal before a position. */
typedef struct TieGroup
{
	SortRec64  *recs;
	size_t		n;
	KeyPosition pos;
} TieGroup;

static void sort_group(TieBreak *tb, TieGroup group);

static KeyPosition
position_of_column(const TieBreak *tb, int k)
{
	KeyPosition pos = {k, 0, false, k == 0};

	if (k < tb->nkeys)
		pos.compared = key_traits[tb->cols[k].key.kind].needs_comparator;
	return pos;
}

/* The position after the words at this one.  more: the values may differ after the word. */
static KeyPosition
position_after(const TieBreak *tb, KeyPosition pos, const Pass *pass, bool more)
{
	const TieColumn *col = &tb->cols[pos.k];

	if (!more)
		return position_of_column(tb, pos.k + 1);
	if (!col->by_bytes)
	{
		pos.at++;
		pos.compared = pass->inexact;
	}
	else
	{
		pos.at += col->key.kind == KEY_BYTEA ? COUNTED_BYTES : BYTES_WORD;
		pos.sample = true;
	}
	return pos;
}

/* The column's string in a row; false if it is NULL or toasted. */
static inline bool
read_string(const TieBreak *tb, const TieColumn *col, uint32 rid, KeyString *s)
{
	bool		isnull;
	Datum		value = tie_value(tb, col, tie_row(tb, rid), &isnull);

	if (isnull || string_is_toasted(col->key.kind, value))
		return false;
	*s = string_of(col->key.kind, value);
	return true;
}

/* The word at a byte of a string, in the direction of the column. */
static inline uint64
string_word(const TieColumn *col, KeyString s, size_t at)
{
	size_t		left = s.len > at ? s.len - at : 0;
	uint64		word = bytes_word(s.p + Min(at, s.len), left);

	if (col->key.kind == KEY_BYTEA)
		word = (word & ~UINT64CONST(0xff)) | Min(left, BYTES_WORD);
	return word ^ col->flip;
}

/* The word of a value; the value itself if only the comparator orders it. */
static inline uint64
value_word(const TieColumn *col, KeyPosition pos, Datum value, bool *inexact)
{
	if (pos.compared)
		return (uint64) value;
	if (col->by_bytes)
		return string_word(col, string_of(col->key.kind, value), pos.at);
	return normkey_of_value(&col->normkey[pos.at], col->makers[pos.at], value, inexact);
}

/* May values with this word differ after it? */
static inline bool
word_has_more(const TieColumn *col, const Pass *pass, KeyPosition pos, uint64 word)
{
	if (pos.compared)
		return false;
	if (!col->by_bytes)
		return pos.at + 1 < (size_t) key_traits[col->key.kind].words || pass->inexact;

	/*
	 * the word of a string that ends here ends with zero, that of a bytea
	 * counts its bytes
	 */
	word = (word ^ col->flip) & 0xff;
	return col->key.kind == KEY_BYTEA ? word > COUNTED_BYTES : word != 0;
}

/* Makes the words of the records. */
static void
make_group_words(TieBreak *tb, SortRec64 *recs, size_t n, KeyPosition pos, Pass *pass)
{
	const TieColumn *col = &tb->cols[pos.k];
	uint64		differ = 0;

	memset(pass, 0, sizeof(*pass));
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
			pass->nulls++;
			continue;
		}
		if (col->by_bytes && !pos.compared && string_is_toasted(col->key.kind, value))
		{
			pass->unplaced = true;
			return;
		}
		recs[i].key = value_word(col, pos, value, &pass->inexact);
		if (key_traits[col->key.kind].may_be_unplaced && !pos.compared &&
			unlikely(key_normkey_unplaced(&col->normkey[0], recs[i].key)))
		{
			pass->unplaced = true;
			return;
		}
		differ |= recs[i].key ^ recs[0].key;
	}
	pass->same = (differ == 0);
}

/*
 * Draws a pivot and decides whether a prefix pass is better than a word pass.  It is
 * if most strings of a sample have the pivot's next word and continue after it.  The
 * pivot is random, so that no choice of strings makes passes distinguish few of them.
 */
static bool
sample_shares_word(const TieBreak *tb, const SortRec64 *recs, size_t n, KeyPosition pos, size_t *pivot)
{
	const TieColumn *col = &tb->cols[pos.k];
	size_t		size = Max(Min(n / 4, SAMPLE_SIZE), 2);
	size_t		step = n / size;
	size_t		may_differ = size / 4;
	uint64		first = 0;
	size_t		at;

	at = *pivot = ((uint64) pg_prng_uint32(&pg_global_prng_state) * n) >> 32;
	/* the next pass reads all rows of a small group */
	for (size_t i = 0; n <= WORDS_MIN_ROWS && i < n; i++)
		tie_prefetch(tb, recs[i].rid);
	for (size_t i = 0; i < size; i++)
	{
		KeyString	s;
		size_t		left;
		uint64		word;

		if (!read_string(tb, col, recs[at].rid, &s))
			return false;
		at = at + step < n ? at + step : at + step - n;
		left = s.len - Min(pos.at, s.len);
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

/* Length of the prefix shared with the pivot, from the position on. */
static inline uint32
shared_prefix(const TieColumn *col, const Pass *pass, uint64 word)
{
	uint32		code = (word ^ col->flip) >> PREFIX_PASS_BITS;

	return code < pass->pivot ? code : code > pass->pivot ? 2 * pass->pivot - code : pass->pivot - 1;
}

/* The word of a string in a prefix pass, in the direction of the column. */
static inline uint64
prefix_word(const TieColumn *col, const Pass *pass, KeyString s, KeyString pivot, size_t at,
			uint32 *shared)
{
	size_t		common = at + bytes_common_long(s.p + at, s.len - at, pivot.p + at, pivot.len - at);
	size_t		left = s.len - common;
	uint64		word = bytes_word(s.p + common, left) >> (64 - PREFIX_PASS_BITS);
	uint64		code = common - at;

	*shared = code;
	if (common == pivot.len)
		code = left == 0 ? pass->pivot : 2 * (uint64) pass->pivot - code;
	else if (left > 0 && (uint8) s.p[common] > (uint8) pivot.p[common])
		code = 2 * (uint64) pass->pivot - code;
	if (col->key.kind == KEY_BYTEA)
		word = (word & ~UINT64CONST(0xff)) | Min(left, PREFIX_PASS_BYTES);
	return (code << PREFIX_PASS_BITS | word) ^ col->flip;
}

/*
 * Makes the words of the records for a prefix pass.  Returns false if there are NULLs
 * or toasted values.  If most strings differ from the pivot within a word, a word
 * pass is better: then moves the position behind the prefix that all strings share
 * and returns false.
 */
static bool
make_prefix_words(TieBreak *tb, SortRec64 *recs, size_t n, size_t at, KeyPosition *pos, Pass *pass)
{
	const TieColumn *col = &tb->cols[pos->k];
	KeyString	pivot;
	uint64		differ = 0;
	uint32		least = PG_UINT32_MAX;

	/* rows that differ within a word after the least shared prefix */
	size_t		within = 0;
	size_t		bytes = 0;

	memset(pass, 0, sizeof(*pass));
	if (!read_string(tb, col, recs[at].rid, &pivot))
		return false;
	pass->pivot = pivot.len - pos->at + 1;
	for (size_t i = 0; i < n; i++)
	{
		KeyString	s;
		uint32		shared;

		CHECK_FOR_INTERRUPTS();
		if (i + TIE_PREFETCH < n)
			tie_prefetch(tb, recs[i + TIE_PREFETCH].rid);
		if (!read_string(tb, col, recs[i].rid, &s))
			return false;
		recs[i].key = prefix_word(col, pass, s, pivot, pos->at, &shared);
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
	pass->same = (differ == 0);
	if (pass->same || n <= WORDS_MIN_ROWS || within < n - n / 4)
		return true;
	pos->at += least;
	return false;
}

/* The position after a word of a prefix pass. */
static KeyPosition
position_after_prefix(const TieBreak *tb, KeyPosition pos, const Pass *pass, uint64 word)
{
	const TieColumn *col = &tb->cols[pos.k];
	uint32		last = (word ^ col->flip) & 0xff;

	/* strings equal to the pivot, and strings that end in the word */
	if ((word ^ col->flip) >> PREFIX_PASS_BITS == pass->pivot ||
		(col->key.kind == KEY_BYTEA ? last <= PREFIX_PASS_COUNTED : last == 0))
		return position_of_column(tb, pos.k + 1);
	pos.at += shared_prefix(col, pass, word);
	pos.at += col->key.kind == KEY_BYTEA ? PREFIX_PASS_COUNTED : PREFIX_PASS_BYTES;
	pos.sample = true;
	return pos;
}

/* Sorts records by their values with the comparator and replaces the values by their ranks. */
static void
rank_by_comparator(TieBreak *tb, TieColumn *col, SortRec64 *recs, size_t n)
{
	SortSupport ssup = tie_comparator(tb, col);

	if (tie_presorted(ssup, recs, n))
	{
		(void) tie_rank(ssup, recs, n, true);
		return;
	}
	if (tie_rank_dictionary(tb, col, recs, n))
	{
		tie_sort_words(tb, recs, n);
		return;
	}
	if (tie_presort_collated(tb, col, recs, n))
	{
		if (tie_rank(ssup, recs, n, false))
			return;
		if (tie_fix_up(tb, col, recs, n))
		{
			(void) tie_rank(ssup, recs, n, true);
			return;
		}
	}
	tie_restore_order(tb, col, recs, n);
	if (tie_rank_abbreviated(tb, col, recs, n))
		return;
	tie_comparator_sort(tb, col, recs, n);
	(void) tie_rank(ssup, recs, n, true);
}

/*
 * Moves the NULLs, whose pad is set, to their end; stable.  Returns the index of the
 * first value.
 */
static size_t
part_nulls(TieBreak *tb, SortRec64 *recs, size_t n, size_t nulls, bool nulls_first)
{
	SortRec64  *moved = tie_scratch(tb, n * sizeof(SortRec64));
	size_t		null_at = nulls_first ? 0 : n - nulls;
	size_t		value_at = nulls_first ? nulls : 0;
	size_t		begin = value_at;

	for (size_t i = 0; i < n; i++)
		moved[recs[i].pad != 0 ? null_at++ : value_at++] = recs[i];
	memcpy(recs, moved, n * sizeof(SortRec64));
	return begin;
}

/*
 * Must the rows be sorted in passes because of long strings in columns >= from?  Two
 * rows are compared just once.
 */
static bool
has_long_strings(const TieBreak *tb, const SortRec64 *recs, size_t n, int from)
{
	for (size_t i = 0; n > 2 && i < n; i++)
	{
		if (likely(tie_row(tb, recs[i].rid)->t_len < LONG_STRING))
			continue;
		for (int k = from; k < tb->nkeys; k++)
		{
			KeyString	s;

			if (tb->cols[k].by_bytes && read_string(tb, &tb->cols[k], recs[i].rid, &s) && s.len >= LONG_STRING)
				return true;
		}
	}
	return false;
}

/* Sorts a few rows by comparing them from column k on. */
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
	if (tb->on_equal != NULL)
		tie_find_equal(tb, k, recs, n);
}

/*
 * Sorts the groups of equal words, except the longest one, which is returned; its n
 * is 0 if none.
 */
static TieGroup
sort_groups(TieBreak *tb, TieGroup group, const Pass *pass)
{
	const TieColumn *col = &tb->cols[group.pos.k];
	SortRec64  *recs = group.recs;
	TieGroup	longest = {NULL, 0};
	size_t		start = 0;

	for (size_t i = 1; i <= group.n; i++)
	{
		TieGroup	part;

		if (i < group.n && recs[i].key == recs[i - 1].key)
			continue;
		part.recs = recs + start;
		part.n = i - start;
		start = i;
		if (part.n == 1)
			continue;
		if (pass->pivot != 0)
			part.pos = position_after_prefix(tb, group.pos, pass, part.recs[0].key);
		else
			part.pos = position_after(tb, group.pos, pass,
									  word_has_more(col, pass, group.pos, part.recs[0].key));
		if (part.n > longest.n)
		{
			TieGroup	swap = longest;

			longest = part;
			part = swap;
		}
		if (part.n > 1)
			sort_group(tb, part);
	}
	return longest;
}

/* Sorts a group. */
static void
sort_group(TieBreak *tb, TieGroup group)
{
	while (group.pos.k < tb->nkeys && group.n > 1)
	{
		TieColumn  *col = &tb->cols[group.pos.k];
		Pass		pass;
		size_t		pivot;

		if (group.n <= TIE_INSERTION_MAX && !has_long_strings(tb, group.recs, group.n, group.pos.k))
		{
			insert_rows(tb, group.pos.k, group.recs, group.n);
			return;
		}
		CHECK_FOR_INTERRUPTS();
		if (group.pos.sample && col->by_bytes && !group.pos.compared)
		{
			group.pos.sample = false;
			if (sample_shares_word(tb, group.recs, group.n, group.pos, &pivot) &&
				make_prefix_words(tb, group.recs, group.n, pivot, &group.pos, &pass))
			{
				if (pass.same)
					group.pos = position_of_column(tb, group.pos.k + 1);
				else
				{
					tie_sort_words(tb, group.recs, group.n);
					group = sort_groups(tb, group, &pass);
				}
				continue;
			}
		}
		make_group_words(tb, group.recs, group.n, group.pos, &pass);
		if (pass.unplaced)
		{
			group.pos.compared = true;
			continue;
		}
		if (pass.nulls == group.n)
			group.pos = position_of_column(tb, group.pos.k + 1);
		else if (pass.nulls > 0)
		{
			size_t		begin = part_nulls(tb, group.recs, group.n, pass.nulls, col->key.nulls_first);
			TieGroup	nulls = group;

			nulls.n = pass.nulls;
			nulls.recs = group.recs + (begin > 0 ? 0 : group.n - pass.nulls);
			nulls.pos = position_of_column(tb, group.pos.k + 1);
			sort_group(tb, nulls);
			group.recs += begin;
			group.n -= pass.nulls;
		}
		else if (group.pos.compared)
		{
			rank_by_comparator(tb, col, group.recs, group.n);
			group = sort_groups(tb, group, &pass);
		}
		else if (pass.same)
			group.pos = position_after(tb, group.pos, &pass,
									   word_has_more(col, &pass, group.pos, group.recs[0].key));
		else
		{
			tie_sort_words(tb, group.recs, group.n);
			group = sort_groups(tb, group, &pass);
		}
	}
	if (tb->on_equal != NULL && group.n > 1)
		tie_find_equal(tb, tb->nkeys, group.recs, group.n);
}

/* Sorts n records with rids of rows of equal keys. */
static void
sort_in_passes(TieBreak *tb, SortRec64 *recs, size_t n)
{
	TieGroup	group = {recs, n, position_of_column(tb, 0)};

	tb->passed_rows = tb->passed_bytes = 0;
	sort_group(tb, group);
	if (n >= REPORTED_ROWS)
		ereport(DEBUG1,
				(errmsg_internal("gpusort: %zu tied rows took part in passes " UINT64_FORMAT " times, "
								 UINT64_FORMAT " bytes of shared prefixes were read",
								 n, tb->passed_rows, tb->passed_bytes)));
}

/*
 * Have all rows the bytes of the first one?  The rows of a DISTINCT often do, for they have no
 * other columns, and one look at each takes the place of a pass for each column.  In other
 * groups the first or second row differs.
 */
static bool
rows_have_same_bytes(const TieBreak *tb, const uint32 *rids, size_t n)
{
	for (size_t i = 1; i < n; i++)
	{
		if (i + TIE_PREFETCH < n)
			tie_prefetch(tb, rids[i + TIE_PREFETCH]);
		CHECK_FOR_INTERRUPTS();
		if (!tie_same_bytes(tie_row(tb, rids[0]), tie_row(tb, rids[i])))
			return false;
	}
	return true;
}

/* Sorts n rows of the arena, which have equal keys and ascending rids; stable. */
static void
sort_rows(TieBreak *tb, const Arena *arena, uint32 *rids, size_t n)
{
	SortRec64	few[TIE_INSERTION_MAX];
	SortRec64  *recs = few;

	tb->arena = arena;
	if (tb->on_equal == NULL && rows_have_same_bytes(tb, rids, n))
		return;
	if (n > TIE_INSERTION_MAX)
	{
		bulk_reserve(tb->owner, &tb->recs, n * sizeof(SortRec64), 0);
		recs = tb->recs.ptr;
	}
	for (size_t i = 0; i < n; i++)
		recs[i].rid = rids[i];
	if (n > TIE_INSERTION_MAX || has_long_strings(tb, recs, n, 0))
		sort_in_passes(tb, recs, n);
	else
		insert_rows(tb, 0, recs, n);
	for (size_t i = 0; i < n; i++)
		rids[i] = recs[i].rid;
}

/* ---- Groups of rows with equal keys ---- */

static void
sort_queued_groups(TieGroups *groups)
{
	CHECK_FOR_INTERRUPTS();
	for (int i = 0; i < groups->nqueued; i++)
	{
		const TieRows *group = &groups->queue[i];

		sort_rows(groups->tb, groups->arena, groups->rids + group->start, group->end - group->start);
	}
	groups->nqueued = 0;
}

void
tie_groups_close(TieGroups *groups)
{
	TieRows		group = groups->last;

	for (size_t i = group.start; i < Min(group.end, group.start + TIE_QUEUE_PREFETCH); i++)
		__builtin_prefetch(arena_at(groups->arena, groups->rids[i]));
	groups->rows += group.end - group.start;
	groups->queue[groups->nqueued++] = group;
	if (groups->nqueued == TIE_QUEUE_SIZE)
		sort_queued_groups(groups);
}

void
tie_groups_begin(TieGroups *groups, TieBreak *tb, const Arena *arena, uint32 *rids)
{
	groups->tb = tb;
	groups->arena = arena;
	groups->rids = rids;
	groups->last.start = groups->last.end = 0;
	groups->rows = 0;
	groups->nqueued = 0;
}

uint64
tie_groups_end(TieGroups *groups)
{
	if (groups->last.end > 0)
		tie_groups_close(groups);
	groups->last.end = 0;
	sort_queued_groups(groups);
	return groups->rows;
}
