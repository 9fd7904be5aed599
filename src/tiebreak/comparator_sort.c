/*
 * comparator_sort.c
 *	  Sorts the values of one column: by words, by comparator, by abbreviated key.
 *
 * A comparison may take a microsecond, so the merge sort makes few of them:
 *
 *	- Presorted input takes n - 1 comparisons.  tie_presorted() stops at the first
 *	  value out of order.
 *	- A merge sort makes fewer comparisons than a quicksort.
 *	- Rows of a merge of runs are in order within their run.  So the merge sort divides
 *	  them between two runs; n rows of one run take n - 1 comparisons.
 *	- Every record notes in its pad whether it equals the record before it.  A merge
 *	  compares the first records of two groups of equal records and moves whole
 *	  groups, so k different values take about n log2 k comparisons.  The ranks follow
 *	  from the pads without a comparison.
 *
 * The records contain the values, so a comparison reads no row.  A value passed by
 * reference is a cache miss all the same.  The sort goes depth first, so that the
 * lower levels of the merge find their values in the cache, and the merge prefetches
 * values.
 *
 * Most comparators copy a value with a short header, or detoast a value, at each
 * comparison.  So the values of a block are copied once, in the format that the
 * comparator needs, into a buffer that fits the cache.
 *
 * Memory policy: the buffer for copies takes BLOCK_BYTES at most, less for few
 * records, and is kept for the next sort.  Other scratch memory is that of the
 * TieBreak.
 */
#include "postgres.h"

#include "access/detoast.h"
#include "compat.h"
#include "key/key.h"
#include "tiebreak/tiebreak_internal.h"

/* Up to these numbers records are sorted by insertion: by words, by comparator. */
#define WORDS_INSERTION_MAX	32
#define MERGE_FIRST_RUN		6

/* Records of a block, bytes of its copied values, average and largest size of one copy. */
#define BLOCK_ROWS			2048
#define BLOCK_BYTES			((Size) 512 * 1024)
#define BLOCK_ROW_BYTES		(BLOCK_BYTES / BLOCK_ROWS)
#define COPIED_MAX			(BLOCK_BYTES / 16)

/* With fewer values copies do not pay. */
#define COPIED_MIN_ROWS		32

/* The fix-up pass sorts at most one in this number of values. */
#define FIX_UP_PART			8

/* Pads during the fix-up pass; any other pad is the index of a record. */
#define OUT_OF_PLACE		PG_UINT32_MAX
#define NONE				(PG_UINT32_MAX - 1)

/* With fewer values abbreviated keys do not pay. */
#define ABBREVIATED_MIN_ROWS	64

/* State of a merge sort. */
typedef struct MergeSort
{
	SortSupport ssup;
	bool		prefetch;		/* true: values may not be in the cache */
	bool		chunks_sorted;	/* records of one chunk of the arena are probably in order */

	/* buffer for the values of a block; NULL: values are not copied */
	char	   *copies;
	char	   *copies_end;		/* end of the buffer */
} MergeSort;

/* ---- Sort by words ---- */

/* The kernel's callback for interrupts. */
static bool
check_for_interrupts(void *arg)
{
	CHECK_FOR_INTERRUPTS();
	return false;
}

void
tie_sort_words(TieBreak *tb, SortRec64 *recs, size_t n)
{
	/* the kernel needs records that begin at a cache line */
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
	problem.interrupted = check_for_interrupts;
	scratch = tie_scratch(tb, cpu_radix_kernel.scratch_bytes(&problem) + (aligned ? 0 : size));
	problem.recs = recs;
	if (!aligned)
	{
		problem.recs = memcpy(scratch, recs, n * sizeof(SortRec64));
		scratch += size;
	}
	problem.scratch = scratch;
	if (cpu_radix_kernel.run(&problem) != SORT_OK)
		elog(ERROR, "could not sort rows with equal keys by their next words");
	if (problem.result != recs)
		memcpy(recs, problem.result, n * sizeof(SortRec64));
}

void
tie_presort_words(TieBreak *tb, TieColumn *col, SortRec64 *recs, size_t n, SortSupport ssup)
{
	uint64		prev;
	bool		unique = false; /* no other record has the word of this record */

	tie_sort_words(tb, recs, n);
	prev = ~recs[0].key;
	for (size_t i = 0; i < n; i++)
	{
		uint64		word = recs[i].key;
		bool		isnull;

		CHECK_FOR_INTERRUPTS();
		if (i + TIE_PREFETCH < n)
			tie_prefetch(tb, recs[i + TIE_PREFETCH].rid);
		recs[i].key = (uint64) tie_value(tb, col, tie_row(tb, recs[i].rid), &isnull);
		recs[i].pad = TIE_SAME_WORD;
		if (word != prev)
		{
			bool		before_unique = unique;

			unique = i + 1 == n || recs[i + 1].key != word;
			recs[i].pad = TIE_NEW_WORD;

			/*
			 * both records have their final place, and their values are in
			 * the cache
			 */
			if (ssup != NULL && unique && before_unique &&
				tie_compare(ssup, (Datum) recs[i - 1].key, (Datum) recs[i].key) < 0)
				recs[i].pad = TIE_GREATER;
		}
		prev = word;
	}
}

void
tie_restore_order(TieBreak *tb, TieColumn *col, SortRec64 *recs, size_t n)
{
	size_t		ascending = 1;

	while (ascending < n && recs[ascending - 1].rid < recs[ascending].rid)
		ascending++;
	if (ascending == n)
		return;
	for (size_t i = 0; i < n; i++)
		recs[i].key = recs[i].rid;
	tie_presort_words(tb, col, recs, n, NULL);
}

/* ---- Merge sort by the comparator ---- */

static inline int
compare_records(SortSupport ssup, const SortRec64 *a, const SortRec64 *b)
{
	return tie_compare(ssup, (Datum) a->key, (Datum) b->key);
}

static void
reverse(SortRec64 *recs, size_t n)
{
	for (size_t i = 0; i < n / 2; i++)
	{
		SortRec64	rec = recs[i];

		recs[i] = recs[n - 1 - i];
		recs[n - 1 - i] = rec;
	}
}

/* Reverses the order of the groups of equal records.  The pads are set. */
static void
reverse_groups(SortRec64 *recs, size_t n)
{
	size_t		start = 0;

	reverse(recs, n);
	for (size_t i = 0; i < n; i++)
	{
		/* reverse() has made the first record of a group its last one */
		if (recs[i].pad == TIE_EQUAL)
			continue;
		reverse(recs + start, i + 1 - start);
		start = i + 1;
	}
}

bool
tie_presorted(SortSupport ssup, SortRec64 *recs, size_t n)
{
	int			direction = 0;	/* direction of the last two different values */

	recs[0].pad = TIE_GREATER;
	for (size_t i = 1; i < n; i++)
	{
		int			cmp;

		tie_prefetch_value(recs, i, n);
		cmp = compare_records(ssup, &recs[i - 1], &recs[i]);
		recs[i].pad = cmp == 0 ? TIE_EQUAL : TIE_GREATER;
		if (cmp == 0)
			continue;
		cmp = cmp < 0 ? 1 : -1;
		if (direction == -cmp)
		{
			for (size_t j = 0; j <= i; j++)
				recs[j].pad = TIE_SAME_WORD;
			return false;
		}
		direction = cmp;
	}
	if (direction < 0)
		reverse_groups(recs, n);
	return true;
}

static void
insertion_sort(SortSupport ssup, SortRec64 *recs, size_t n)
{
	recs[0].pad = TIE_GREATER;
	for (size_t i = 1; i < n; i++)
	{
		SortRec64	rec = recs[i];
		size_t		j = i;
		int			cmp = 1;

		while (j > 0 && (cmp = compare_records(ssup, &recs[j - 1], &rec)) > 0)
		{
			/* move the whole group */
			do
			{
				recs[j] = recs[j - 1];
				j--;
			} while (recs[j].pad == TIE_EQUAL);
		}
		rec.pad = cmp == 0 ? TIE_EQUAL : TIE_GREATER;
		recs[j] = rec;
	}
}

/* Prefetches the value of the record TIE_PREFETCH ahead. */
static inline void
prefetch_ahead(const MergeSort *sort, const SortRec64 *rec, const SortRec64 *end)
{
	if (sort->prefetch && end - rec > TIE_PREFETCH)
	{
		const char *p = (const char *) DatumGetPointer((Datum) rec[TIE_PREFETCH].key);

		__builtin_prefetch(p);
		__builtin_prefetch(p + 64);
	}
}

/* Moves a group of equal records to *out; returns the next record. */
static inline const SortRec64 *
move_group(const MergeSort *sort, const SortRec64 *rec, const SortRec64 *end, SortRec64 **out)
{
	do
	{
		prefetch_ahead(sort, rec, end);
		*(*out)++ = *rec++;
	} while (rec < end && rec->pad == TIE_EQUAL);
	return rec;
}

/* Merges the sorted ranges a[0 .. na) and a[na .. n) into out; stable. */
static void
merge_runs(const MergeSort *sort, const SortRec64 *a, size_t na, size_t n, SortRec64 *out)
{
	const SortRec64 *b = a + na;
	const SortRec64 *a_end = b;
	const SortRec64 *b_end = a + n;
	int			cmp = compare_records(sort->ssup, a_end - 1, b);

	if (cmp <= 0)
	{
		memcpy(out, a, n * sizeof(SortRec64));
		if (cmp == 0)
			out[na].pad = TIE_EQUAL;
		return;
	}
	while (a < a_end && b < b_end)
	{
		cmp = compare_records(sort->ssup, a, b);
		if (cmp <= 0)
			a = move_group(sort, a, a_end, &out);
		if (cmp >= 0)
		{
			SortRec64  *first = out;

			b = move_group(sort, b, b_end, &out);
			if (cmp == 0)
				first->pad = TIE_EQUAL;
		}
	}
	memcpy(out, a, (a_end - a) * sizeof(SortRec64));
	memcpy(out + (a_end - a), b, (b_end - b) * sizeof(SortRec64));
}

static void sort_piece(const MergeSort *sort, SortRec64 *recs, SortRec64 *other, size_t n, bool swapped);

/* Are a record and a later one of the same chunk? */
static inline bool
same_chunk(const SortRec64 *a, const SortRec64 *b)
{
	return (a->rid ^ b->rid) >> ARENA_CHUNK_SHIFT == 0;
}

/* Where to divide n records of several chunks: the first record of a chunk, near the middle. */
static size_t
divide_by_chunk(const SortRec64 *recs, size_t n)
{
	size_t		from = n / 2;
	size_t		to = n / 2;

	while (from > 0 && same_chunk(&recs[from - 1], &recs[from]))
		from--;
	while (to < n && same_chunk(&recs[to - 1], &recs[to]))
		to++;
	return from > 0 && (to == n || n / 2 - from <= to - n / 2) ? from : to;
}

/* Sorts n records into recs, or into other if swapped; depth first. */
static void
sort_range(const MergeSort *sort, SortRec64 *recs, SortRec64 *other, size_t n, bool swapped)
{
	bool		one_chunk = sort->chunks_sorted && same_chunk(&recs[0], &recs[n - 1]);
	bool		sorted = one_chunk && tie_presorted(sort->ssup, recs, n);
	size_t		half;

	if (sorted || n <= MERGE_FIRST_RUN)
	{
		if (!sorted)
			insertion_sort(sort->ssup, recs, n);
		if (swapped)
			memcpy(other, recs, n * sizeof(SortRec64));
		return;
	}
	half = sort->chunks_sorted && !one_chunk ? divide_by_chunk(recs, n) : n / 2;
	sort_piece(sort, recs, other, half, !swapped);
	sort_piece(sort, recs + half, other + half, n - half, !swapped);
	if (swapped)
		merge_runs(sort, recs, half, n, other);
	else
		merge_runs(sort, other, half, n, recs);
}

/*
 * Returns the value in the format that the comparator needs: the value itself, or a
 * copy at *next.  The pointer to the value is stored before the copy.  Without room
 * for a copy the value itself is returned.
 */
static uint64
copy_value(const MergeSort *sort, uint64 value, char **next)
{
	struct varlena *original = (struct varlena *) DatumGetPointer((Datum) value);
	struct varlena *plain = original;
	char	   *copy = *next + sizeof(uint64);
	bool		is_short = VARATT_IS_SHORT(original) && !VARATT_IS_EXTERNAL(original);
	Size		size;

	if (VARATT_IS_4B_U(original))
		return value;
	size = is_short ? VARSIZE_SHORT(original) - VARHDRSZ_SHORT + VARHDRSZ :
		toast_raw_datum_size((Datum) value);
	if (size > COPIED_MAX || MAXALIGN(size) + sizeof(uint64) > sort->copies_end - *next)
		return value;
	if (is_short)
	{
		SET_VARSIZE(copy, size);
		memcpy(VARDATA(copy), VARDATA_SHORT(original), size - VARHDRSZ);
	}
	else
	{
		CHECK_FOR_INTERRUPTS();
		plain = detoast_attr(original);
		memcpy(copy, plain, size);
		pfree(plain);
	}
	*(uint64 *) *next = value;
	*next = copy + MAXALIGN(size);
	return (uint64) PointerGetDatum(copy);
}

/* sort_range() of a block with copied values. */
static void
sort_block(const MergeSort *sort, SortRec64 *recs, SortRec64 *other, size_t n, bool swapped)
{
	MergeSort	block = *sort;
	SortRec64  *sorted = swapped ? other : recs;
	char	   *next = sort->copies;

	for (size_t i = 0; i < n; i++)
	{
		tie_prefetch_value(recs, i, n);
		recs[i].key = copy_value(sort, recs[i].key, &next);
	}
	block.prefetch = false;
	block.copies = NULL;
	sort_range(&block, recs, other, n, swapped);
	for (size_t i = 0; i < n; i++)
	{
		uint64	   *copy = (uint64 *) DatumGetPointer((Datum) sorted[i].key);

		if ((char *) copy > sort->copies && (char *) copy < next)
			sorted[i].key = copy[-1];
	}
}

/* Sorts a block with copied values if copies pay. */
static void
sort_piece(const MergeSort *sort, SortRec64 *recs, SortRec64 *other, size_t n, bool swapped)
{
	if (sort->copies != NULL && n <= BLOCK_ROWS && n >= COPIED_MIN_ROWS)
		sort_block(sort, recs, other, n, swapped);
	else
		sort_range(sort, recs, other, n, swapped);
}

void
tie_comparator_sort(TieBreak *tb, TieColumn *col, SortRec64 *recs, size_t n)
{
	Form_pg_attribute attr = TupleDescAttr(tb->desc, col->key.attno - 1);
	MergeSort	sort = {tie_comparator(tb, col)};

	sort.prefetch = !attr->attbyval;
	sort.chunks_sorted = tb->arena->chunks_sorted;
	if (attr->attlen == -1 && n >= COPIED_MIN_ROWS)
	{
		Size		size = Min(n, BLOCK_ROWS) * BLOCK_ROW_BYTES;

		bulk_reserve(tb->owner, &tb->copies, size, 0);
		sort.copies = tb->copies.ptr;
		sort.copies_end = sort.copies + size;
	}
	sort_piece(&sort, recs, tie_scratch(tb, n * sizeof(SortRec64)), n, false);
	recs[0].pad = TIE_NEW_WORD;
}

bool
tie_rank(SortSupport ssup, SortRec64 *recs, size_t n, bool ordered)
{
	uint32		rank = 0;

	recs[0].pad = 0;
	for (size_t i = 1; i < n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (recs[i].pad == TIE_GREATER)
			rank++;
		else if (recs[i].pad != TIE_EQUAL)
		{
			int			cmp = compare_records(ssup, &recs[i - 1], &recs[i]);

			/* comparators may contradict themselves */
			if (!ordered && (cmp > 0 || (cmp == 0 && recs[i - 1].rid > recs[i].rid)))
				return false;
			rank += cmp != 0;
		}
		if (i + TIE_PREFETCH < n && recs[i + TIE_PREFETCH].pad < TIE_GREATER)
			tie_prefetch_value(recs, i, n);
		recs[i].pad = rank;
	}
	for (size_t i = 0; i < n; i++)
		recs[i].key = recs[i].pad;
	return true;
}

/* ---- Fix-up pass ----
 *
 * Presorted strings (collated.c) may be slightly out of order.  The pass goes through
 * the records and keeps an ascending sequence.  A record that is smaller than the
 * last of the sequence is taken out together with that last one.  So the remaining
 * records are in order, and at most two are taken out for each that was out of
 * place.  The records taken out are sorted by the comparator and merged back.
 *
 * Equal values are out of place, too, if they are not in the order of their rids.
 */

/* Marks records to take out with OUT_OF_PLACE; false if there are more than limit. */
static bool
find_misplaced(SortSupport ssup, SortRec64 *recs, size_t n, size_t limit, size_t *found)
{
	/* last record of the sequence; its pad is the previous one */
	uint32		top = 0;
	uint32		before;

	*found = 0;
	recs[0].pad = NONE;
	for (size_t i = 1; i < n; i++)
	{
		int			cmp;

		CHECK_FOR_INTERRUPTS();
		tie_prefetch_value(recs, i, n);
		cmp = top == NONE ? -1 : compare_records(ssup, &recs[top], &recs[i]);
		if (cmp < 0 || (cmp == 0 && recs[top].rid < recs[i].rid))
		{
			recs[i].pad = top;
			top = i;
			continue;
		}
		if (*found + 2 > limit)
			return false;
		*found += 2;
		before = recs[top].pad;
		recs[i].pad = recs[top].pad = OUT_OF_PLACE;
		top = before;
	}
	return true;
}

bool
tie_fix_up(TieBreak *tb, TieColumn *col, SortRec64 *recs, size_t n)
{
	SortSupport ssup = tie_comparator(tb, col);
	size_t		limit = n / FIX_UP_PART;
	size_t		misplaced;
	size_t		in_order = 0;
	SortRec64  *taken_out = tie_scratch(tb, limit * sizeof(SortRec64));
	SortRec64  *out = taken_out;

	/* pads are indexes of records; none is out of place if the comparator contradicts itself */
	if (n >= NONE || !find_misplaced(ssup, recs, n, limit, &misplaced) || misplaced == 0)
		return false;
	for (size_t i = 0; i < n; i++)
	{
		if (recs[i].pad == OUT_OF_PLACE)
			*out++ = recs[i];
		else
			recs[in_order++] = recs[i];
	}
	/* the functions called here use the scratch memory, too */
	out = recs + in_order;
	memcpy(out, taken_out, misplaced * sizeof(SortRec64));
	tie_restore_order(tb, col, out, misplaced);
	tie_comparator_sort(tb, col, out, misplaced);
	taken_out = tie_scratch(tb, misplaced * sizeof(SortRec64));
	memcpy(taken_out, out, misplaced * sizeof(SortRec64));

	/* merge from the end, where there is room */
	while (misplaced > 0)
	{
		SortRec64  *a = &recs[in_order - 1];
		SortRec64  *b = &taken_out[misplaced - 1];
		int			cmp = in_order == 0 ? -1 : compare_records(ssup, a, b);

		if (cmp > 0 || (cmp == 0 && a->rid > b->rid))
		{
			recs[in_order + misplaced - 1] = *a;
			in_order--;
		}
		else
		{
			recs[in_order + misplaced - 1] = *b;
			misplaced--;
		}
	}
	for (size_t i = 0; i < n; i++)
		recs[i].pad = TIE_NEW_WORD;
	return true;
}

/* ---- Sort by abbreviated keys ----
 *
 * Where a collation does not allow presorting, as for Chinese, each value is abbreviated
 * once, as tuplesort.c does, and only values with equal abbreviated keys are compared.
 */

bool
tie_rank_abbreviated(TieBreak *tb, TieColumn *col, SortRec64 *recs, size_t n)
{
	SortSupport ssup = tie_comparator(tb, col);
	size_t		start = 0;
	uint32		rank = 0;
	bool		inexact;

	/*
	 * values of kind KEY_ABBREVIATED have been compared by their abbreviated
	 * keys already
	 */
	if (col->key.kind != KEY_COMPARED || n < ABBREVIATED_MIN_ROWS)
		return false;
	if (!col->abbreviation_known)
	{
		col->normkey[0].kind = abbreviated_kind(&col->key);
		col->makers[0] = key_maker_create(tb->cxt, &col->key, col->normkey[0].kind);
		col->abbreviation_known = true;
	}
	if (col->normkey[0].kind != KEY_ABBREVIATED)
		return false;
	for (size_t i = 0; i < n; i++)
	{
		tie_prefetch_value(recs, i, n);
		recs[i].key = normkey_of_value(&col->normkey[0], col->makers[0], (Datum) recs[i].key, &inexact);
	}
	tie_presort_words(tb, col, recs, n, NULL);
	for (size_t i = 1; i <= n; i++)
	{
		size_t		len = i - start;

		if (i < n && recs[i].pad == TIE_SAME_WORD)
			continue;
		if (len > 1)
		{
			tie_comparator_sort(tb, col, recs + start, len);
			(void) tie_rank(ssup, recs + start, len, true);
		}
		else
			recs[start].key = 0;
		for (size_t j = start; j < i; j++)
			recs[j].key += rank;
		rank = (uint32) recs[i - 1].key + 1;
		start = i;
	}
	return true;
}
