/*
 * radix_template.h
 *	  The radix sort of one record format; included once per format (formats_template.h).
 *
 * First the sort of a part, or of a small input, by one member; then that of records whose
 * leading bits are skewed; then a team's sort of a whole problem, which is divided into parts by
 * the leading digit.
 */

/*
 * Stable insertion sort, for tiny inputs.
 */
static void
RADIX(insertion) (REC *recs, size_t n, const KeyMask *mask)
{
	for (size_t i = 1; i < n; i++)
	{
		REC			r = recs[i];
		size_t		j = i;

		while (j > 0 && REC_LESS(r, recs[j - 1], mask))
		{
			recs[j] = recs[j - 1];
			j--;
		}
		recs[j] = r;
	}
}

/*
 * Counts the plan's digits in one reading.  ndigits is a constant in each call,
 * so that the inner loop is unrolled.
 */
static inline __attribute__((always_inline)) void
RADIX(count_digits) (const REC *src, size_t n, const DigitPlan *plan,
					 uint32_t (*hist)[RADIX_MAX_SIZE], int ndigits)
{
	int			low = plan->low_bit;

	for (size_t i = 0; i < n; i++)
	{
		uint64_t	w = REC_WINDOW(src[i], low);

		for (int p = 0; p < ndigits; p++)
			hist[p][(w >> plan->shift[p]) & plan->mask[p]]++;
	}
}

/* The same for any number of digits. */
static void
RADIX(count) (const REC *src, size_t n, const DigitPlan *plan,
			  uint32_t (*hist)[RADIX_MAX_SIZE])
{
	switch (plan->ndigits)
	{
		case 1:
			RADIX(count_digits) (src, n, plan, hist, 1);
			break;
		case 2:
			RADIX(count_digits) (src, n, plan, hist, 2);
			break;
		case 3:
			RADIX(count_digits) (src, n, plan, hist, 3);
			break;
		default:
			RADIX(count_digits) (src, n, plan, hist, plan->ndigits);
			break;
	}
}

/* One pass: moves every record to its digit's next place. */
static void
RADIX(scatter) (const REC *restrict src, size_t n, REC *restrict dst,
				int shift, uint32_t mask, uint32_t *restrict offset)
{
	size_t		i = 0;

	for (; i + 4 <= n; i += 4)
	{
		REC			a = src[i];
		REC			b = src[i + 1];
		REC			c = src[i + 2];
		REC			d = src[i + 3];

		dst[offset[REC_WINDOW(a, shift) & mask]++] = a;
		dst[offset[REC_WINDOW(b, shift) & mask]++] = b;
		dst[offset[REC_WINDOW(c, shift) & mask]++] = c;
		dst[offset[REC_WINDOW(d, shift) & mask]++] = d;
	}
	for (; i < n; i++)
	{
		REC			a = src[i];

		dst[offset[REC_WINDOW(a, shift) & mask]++] = a;
	}
}

static bool RADIX(leaf) (Member *m, RadixWork *work, REC *src, REC *dst, REC *tmp,
						 size_t n, int high_bit);
static bool RADIX(skewed) (Member *m, RadixWork *work, REC *src, REC *dst, REC *tmp,
						   size_t n, int high_bit);

/*
 * Completes a sort by the bits from low_bit upwards: moves the records of src
 * to dst (or leaves them, dst == src) and orders those with equal upper bits by
 * insertion.  Few records have, so that this costs one predictable comparison
 * per record.  A run in which a record would move far is sorted by its lower
 * bits instead, which keeps the time linear.  tmp has room at the same indexes,
 * and may be src if that is not dst.  False if stopped.
 */
static bool
RADIX(finish) (Member *m, RadixWork *work, const REC *src, REC *dst, REC *tmp,
			   size_t n, int low_bit, int high_bit)
{
	const KeyMask *mask = &work->mask;
	uint64_t	window_mask = mask_below(high_bit - low_bit);

	dst[0] = src[0];
	for (size_t i = 1; i < n; i++)
	{
		REC			r = src[i];
		size_t		j = i;

		if (unlikely(i % MEMBER_POLL == 0) && member_stopped(m))
			return false;
		if (likely(!REC_LESS(r, dst[i - 1], mask)))
		{
			dst[i] = r;
			continue;
		}

		do
		{
			dst[j] = dst[j - 1];
			j--;
		} while (j > 0 && i - j < RADIX_FINISH_MOVES && REC_LESS(r, dst[j - 1], mask));
		dst[j] = r;
		if (unlikely(i - j == RADIX_FINISH_MOVES))
		{
			uint64_t	w = REC_WINDOW(r, low_bit) & window_mask;
			size_t		end = i + 1;

			/* put the record back, and sort the whole run */
			memmove(&dst[j], &dst[j + 1], (i - j) * sizeof(REC));
			dst[i] = r;
			while (j > 0 && (REC_WINDOW(dst[j - 1], low_bit) & window_mask) == w)
				j--;
			for (; end < n && (REC_WINDOW(src[end], low_bit) & window_mask) == w; end++)
				dst[end] = src[end];
			if (!RADIX(leaf) (m, work, dst + j, dst + j, tmp + j, end - j, low_bit))
				return false;
			i = end - 1;
		}
	}
	return true;
}

/*
 * Counts the plan's digits in work->hist.  constant[p]: all records have the
 * same digit p.  Returns the number of digits that are not constant; -1 if
 * stopped.
 */
static int
RADIX(count_plan) (Member *m, RadixWork *work, const REC *src, size_t n,
				   const DigitPlan *plan, bool *constant)
{
	int			passes = 0;

	for (int p = 0; p < plan->ndigits; p++)
		memset(work->hist[p], 0, (plan->mask[p] + 1) * sizeof(uint32_t));
	for (size_t i = 0; i < n; i += MEMBER_POLL)
	{
		if (member_stopped(m))
			return -1;
		RADIX(count) (src + i, n - i < MEMBER_POLL ? n - i : MEMBER_POLL, plan, work->hist);
	}
	for (int p = 0; p < plan->ndigits; p++)
	{
		unsigned	d = (REC_WINDOW(src[0], plan->low_bit) >> plan->shift[p]) & plan->mask[p];

		constant[p] = work->hist[p][d] == n;
		passes += !constant[p];
	}
	return passes;
}

/* The pass by the plan's digit p, which has been counted.  False if stopped. */
static bool
RADIX(pass) (Member *m, RadixWork *work, const REC *src, REC *dst, size_t n,
			 const DigitPlan *plan, int p)
{
	prefix_sum(work->hist[p], plan->mask[p] + 1);
	for (size_t i = 0; i < n; i += MEMBER_POLL)
	{
		if (i > 0 && member_stopped(m))
			return false;
		RADIX(scatter) (src + i, n - i < MEMBER_POLL ? n - i : MEMBER_POLL, dst,
						plan->low_bit + plan->shift[p], plan->mask[p], work->hist[p]);
	}
	return true;
}

/*
 * Are the leading digit's counts skewed?  Then leading bits distinguish fewer
 * keys than their number suggests.
 */
static bool
RADIX(leading_bits_skewed) (size_t n, const uint32_t *counts, size_t ncounts)
{
	uint64_t	squares = 0;

	if (n < RADIX_SKEWED_MIN)
		return false;
	for (size_t d = 0; d < ncounts; d++)
		squares += (uint64_t) counts[d] * counts[d];
	return squares / n > RADIX_SKEWED * (n / ncounts + 1);
}

/*
 * Draws a sample of RADIX_SAMPLE records.  A word has the key bits below
 * high_bit, at most 64, at the top; the words are sorted.  Returns the lowest
 * of those bits.
 */
static int
RADIX(sample) (const RadixWork *work, const REC *recs, size_t n, int high_bit, uint64_t *sample)
{
	int			low = high_bit - 64 > work->begin_bit ? high_bit - 64 : work->begin_bit;

	for (int i = 0; i < RADIX_SAMPLE; i++)
	{
		uint64_t	w = REC_WINDOW(recs[n / RADIX_SAMPLE * i], low) << (64 - (high_bit - low));
		int			j = i;

		for (; j > 0 && sample[j - 1] > w; j--)
			sample[j] = sample[j - 1];
		sample[j] = w;
	}
	return low;
}

/*
 * The lowest of the leading bits that distinguish most of n records, estimated
 * from a sample: the average number of leading bits in which its neighbours
 * differ, in proportion to log2 of the number of records.  *equal: number of
 * neighbours that do not differ.
 */
static int
RADIX(distinguishing_bit) (const RadixWork *work, const REC *recs, size_t n, int high_bit, int *equal)
{
	uint64_t	sample[RADIX_SAMPLE];
	int			bits = 0;
	int			pairs = 0;
	int			low = RADIX(sample) (work, recs, n, high_bit, sample);

	for (int i = 1; i < RADIX_SAMPLE; i++)
	{
		if (sample[i] == sample[i - 1])
			continue;
		bits += 1 + __builtin_clzll(sample[i] ^ sample[i - 1]);
		pairs++;
	}
	*equal = RADIX_SAMPLE - 1 - pairs;
	if (pairs == 0)
		return high_bit;
	bits = bits * (ceil_log2(n) + RADIX_SLACK_BITS) / (pairs * RADIX_SAMPLE_BITS);
	return high_bit - bits > low ? high_bit - bits : low;
}

/*
 * Sorts n records by the key bits [low_bit, high_bit), least significant digit
 * first, in as many readings as necessary, and by the lower bits by finish().
 * Arguments as those of leaf().  False if stopped.
 */
static bool
RADIX(many_bits) (Member *m, RadixWork *work, REC *src, REC *dst, REC *tmp,
				  size_t n, int low_bit, int high_bit)
{
	REC		   *cur = src;
	REC		   *other = dst == NULL || dst == src ? tmp : dst;
	DigitPlan	plan;

	for (int bit = low_bit; bit < high_bit; bit += plan.nbits)
	{
		bool		constant[RADIX_MAX_DIGITS];

		plan_digits(&plan, bit, high_bit, digit_bits(n, sizeof(REC)));
		if (RADIX(count_plan) (m, work, cur, n, &plan, constant) < 0)
			return false;
		for (int p = 0; p < plan.ndigits; p++)
		{
			REC		   *t = cur;

			if (constant[p])
				continue;
			if (!RADIX(pass) (m, work, cur, other, n, &plan, p))
				return false;
			cur = other;
			other = t;
		}
	}
	if (dst == NULL)
		work->result = dst = cur;
	if (low_bit > work->begin_bit)
		return RADIX(finish) (m, work, cur, dst, cur != dst ? cur : other,
							  n, low_bit, high_bit);
	if (cur != dst)
		memcpy(dst, cur, n * sizeof(REC));
	return true;
}

/*
 * Sorts n records by the key bits below high_bit, least significant digit
 * first, into dst.  dst may be src; tmp is other room, or src if that is not
 * dst.  dst may be NULL: the result is then in src or tmp, whichever is faster,
 * and work->result is set.  False if stopped.
 *
 * Passes sort only the leading bits that distinguish n uniform keys, and
 * RADIX_SLACK_BITS more; finish() orders records with equal leading bits.
 */
static bool
RADIX(leaf) (Member *m, RadixWork *work, REC *src, REC *dst, REC *tmp,
			 size_t n, int high_bit)
{
	DigitPlan	plan;
	int			passes;
	bool		constant[RADIX_MAX_DIGITS];
	REC		   *cur = src;

	if (n <= RADIX_TINY || high_bit <= work->begin_bit)
	{
		if (dst == NULL)
			work->result = dst = src;
		if (dst != src)
			memcpy(dst, src, n * sizeof(REC));
		if (high_bit > work->begin_bit)
			RADIX(insertion) (dst, n, &work->mask);
		return true;
	}

	/* choose leading bits in which the records differ */
	do
	{
		plan_leading(&plan, n, sizeof(REC), work->begin_bit, high_bit);
		passes = RADIX(count_plan) (m, work, src, n, &plan, constant);
		if (passes < 0)
			return false;
		high_bit = plan.low_bit;
	} while (passes == 0 && high_bit > work->begin_bit);
	high_bit = plan.low_bit + plan.nbits;

	if (plan.low_bit > work->begin_bit &&
		RADIX(leading_bits_skewed) (n, work->hist[plan.ndigits - 1], plan.mask[plan.ndigits - 1] + 1))
	{
		int			equal;
		int			low_bit = RADIX(distinguishing_bit) (work, src, n, high_bit, &equal);

		if (low_bit < plan.low_bit)
		{
			if (work->classes == NULL || high_bit - low_bit <= radix_digit_bits_max(sizeof(REC), equal))
				return RADIX(many_bits) (m, work, src, dst, tmp, n, low_bit, high_bit);
			if (dst == NULL)
				work->result = dst = src;
			return RADIX(skewed) (m, work, src, dst, tmp, n, high_bit);
		}
	}

	if (dst == NULL)
		work->result = dst = passes % 2 == 0 ? src : tmp;
	if (dst != src && tmp == dst)
		tmp = src;

	for (int p = 0, left = passes; p < plan.ndigits; p++)
	{
		REC		   *to;

		if (constant[p])
			continue;
		if (cur == dst)
			to = tmp;
		else if (cur == tmp || left % 2 == 1)
			to = dst;
		else
			to = tmp;
		if (!RADIX(pass) (m, work, cur, to, n, &plan, p))
			return false;
		cur = to;
		left--;
	}

	if (plan.low_bit > work->begin_bit)
		return RADIX(finish) (m, work, cur, dst, cur != dst ? cur : tmp,
							  n, plan.low_bit, high_bit);
	if (cur != dst)
		memcpy(dst, cur, n * sizeof(REC));
	return true;
}

/* ------------------------------------------------------------------------
 * Records whose leading bits are skewed, by one member
 * ------------------------------------------------------------------------
 */

/*
 * REC_SPLIT_WORD(r, low_bit) is the word that is classified, before it is
 * shifted by split.right and split.left.
 */
#define REC_SPLIT_WORD(r, low_bit) \
	(sizeof(REC) > sizeof(SortRec64) ? REC_WINDOW(r, low_bit) : REC_WINDOW(r, 0))

/* Chooses splitters from a sample of n records, n > RADIX_SMALL. */
static void
RADIX(find_split) (RadixWork *work, const REC *src, size_t n, int high_bit, SplitDigit *split)
{
	int			low_bit = high_bit - 64 > work->begin_bit ? high_bit - 64 : work->begin_bit;
	int			left = 64 - (high_bit - low_bit);
	int			count = SPLIT_SAMPLE;
	uint32_t	random = (uint32_t) n;
	size_t		stride;

	while (count > MERGE_PAD_WORDS && (size_t) count * 8 > n)
		count /= 2;
	/*
	 * a random record of each stride, so that patterns in the input do not
	 * matter
	 */
	stride = n / count;
	for (int i = 0; i < count; i++)
	{
		random = random * 1664525 + 1013904223;
		work->words[0][i] = REC_WINDOW(src[stride * i + ((uint64_t) random * stride >> 32)], low_bit) << left;
	}
	split->high_bit = high_bit;
	split->low_bit = low_bit;
	split->left = left;
	split->right = sizeof(REC) > sizeof(SortRec64) ? 0 : low_bit;
	split_make(split, work->merge->sort_chunk(work->words[0], count, work->words[0], work->words[1]), count);
}

/* Classifies records; adds the number of each class to hist. */
static void
RADIX(count_split) (const RadixWork *work, const REC *src, size_t n, const SplitDigit *split,
					uint8_t *restrict classes, uint32_t *restrict hist)
{
	uint32_t	counts[4][SPLIT_MAX_CLASSES];

	/*
	 * four tables, because successive additions to one counter wait for each
	 * other
	 */
	memset(counts, 0, sizeof(counts));
	for (size_t i = 0; i < n; i += RADIX_SPLIT_BATCH)
	{
		uint64_t	words[RADIX_SPLIT_BATCH];
		uint8_t		last[RADIX_SPLIT_BATCH];
		size_t		batch = n - i < RADIX_SPLIT_BATCH ? n - i : RADIX_SPLIT_BATCH;

		for (size_t j = 0; j < batch; j++)
			words[j] = REC_SPLIT_WORD(src[i + j], split->low_bit);
		if (batch == RADIX_SPLIT_BATCH)
			work->split_classes(split, words, RADIX_SPLIT_BATCH, classes + i);
		else
		{
			memset(words + batch, 0, (RADIX_SPLIT_BATCH - batch) * sizeof(uint64_t));
			work->split_classes(split, words, RADIX_SPLIT_BATCH, last);
			memcpy(classes + i, last, batch);
		}
		for (size_t j = 0; j < batch; j++)
			counts[j % 4][classes[i + j]]++;
	}
	for (unsigned c = 0; c < split->classes; c++)
		hist[c] += counts[0][c] + counts[1][c] + counts[2][c] + counts[3][c];
}

/* Moves records to the places of their classes. */
static void
RADIX(scatter_split) (const REC *restrict src, size_t n, REC *restrict dst,
					  const uint8_t *restrict classes, uint32_t *restrict offset)
{
	for (size_t i = 0; i < n; i++)
		dst[offset[classes[i]]++] = src[i];
}

/*
 * Sorts up to RADIX_SMALL records by the key bits below high_bit.  Networks
 * sort words of the highest bits that differ and the record's index; finish()
 * orders records with equal words.  Packed records that compare as words are
 * sorted as they are.  Arguments as those of leaf(), dst not NULL.  False if
 * stopped.
 */
static bool
RADIX(small) (Member *m, RadixWork *work, REC *src, REC *dst, REC *tmp, size_t n, int high_bit)
{
	int			index_bits = ceil_log2(n);
	uint64_t   *words = work->words[0];
	REC		   *out = dst != src ? dst : tmp;
	KeyMask		differ = {0, 0};
	size_t		padded = (n + MERGE_PAD_WORDS - 1) / MERGE_PAD_WORDS * MERGE_PAD_WORDS;
	int			low_bit;
	uint64_t	mask;

	if (work->direct)
	{
		memcpy(words, src, n * sizeof(uint64_t));
		for (size_t i = n; i < padded; i++)
			words[i] = UINT64_MAX;
		memcpy(dst, work->merge->sort_chunk(words, padded, words, work->words[1]), n * sizeof(uint64_t));
		return true;
	}
	for (size_t i = 1; i < n; i++)
		REC_DIFFER(differ, src[i], src[0]);
	differ.hi &= work->mask.hi & mask_below(high_bit - 64);
	differ.lo &= work->mask.lo & mask_below(high_bit);
	if (differ.hi == 0 && differ.lo == 0)
	{
		if (dst != src)
			memcpy(dst, src, n * sizeof(REC));
		return true;
	}
	high_bit = top_bit(&differ);
	low_bit = high_bit - (64 - index_bits);
	if (low_bit < work->begin_bit)
		low_bit = work->begin_bit;
	mask = mask_below(high_bit - low_bit);
	for (size_t i = 0; i < n; i++)
		words[i] = (REC_WINDOW(src[i], low_bit) & mask) << index_bits | i;
	for (size_t i = n; i < padded; i++)
		words[i] = UINT64_MAX;
	words = work->merge->sort_chunk(words, padded, words, work->words[1]);
	mask = mask_below(index_bits);
	for (size_t i = 0; i < n; i++)
		out[i] = src[words[i] & mask];
	if (low_bit > work->begin_bit)
		return RADIX(finish) (m, work, out, dst, out != dst ? out : src, n, low_bit, high_bit);
	if (out != dst)
		memcpy(dst, out, n * sizeof(REC));
	return true;
}

/*
 * Would parts by nbits leading bits be skewed?  The bits start with the first
 * one in which a sample differs.
 */
static bool
RADIX(is_skewed) (const RadixWork *work, const REC *src, size_t n, int high_bit, int nbits)
{
	uint64_t	sample[RADIX_SAMPLE];
	uint64_t	differ;
	int			alike = 0;
	int			shift;

	RADIX(sample) (work, src, n, high_bit, sample);
	differ = sample[0] ^ sample[RADIX_SAMPLE - 1];
	if (differ == 0)
		return false;
	shift = 64 - __builtin_clzll(differ) - nbits;
	if (shift < 0)
		shift = 0;
	for (int i = 1, run = 0; i < RADIX_SAMPLE; i++)
	{
		run = (sample[i] ^ sample[i - 1]) >> shift == 0 ? run + 1 : 0;
		alike += run;
	}
	return alike > RADIX_SKEWED_PAIRS;
}

/*
 * Sorts a class of n records by the key bits below high_bit.  Arguments as
 * those of leaf(), dst not NULL.  False if stopped.
 */
static bool
RADIX(class) (Member *m, RadixWork *work, REC *src, REC *dst, REC *tmp, size_t n, int high_bit)
{
	if (n > RADIX_TINY && n <= RADIX_SMALL && high_bit > work->begin_bit)
		return RADIX(small) (m, work, src, dst, tmp, n, high_bit);
	if (n > RADIX_SMALL && high_bit > work->begin_bit &&
		RADIX(is_skewed) (work, src, n, high_bit, RADIX_MAX_BITS))
		return RADIX(skewed) (m, work, src, dst, tmp, n, high_bit);
	return RADIX(leaf) (m, work, src, dst, tmp, n, high_bit);
}

/*
 * Sorts n records with skewed leading bits by the key bits below high_bit:
 * divides them by splitters and sorts each class.  A class that still has most
 * of the records is sorted by all its bits, so that the time remains linear for
 * any sample.  Arguments as those of leaf(), dst not NULL.  False if stopped.
 */
static bool
RADIX(skewed) (Member *m, RadixWork *work, REC *src, REC *dst, REC *tmp, size_t n, int high_bit)
{
	SplitDigit	split;
	uint32_t	start[SPLIT_MAX_CLASSES + 1];
	uint32_t	offset[SPLIT_MAX_CLASSES];
	REC		   *room = tmp == src ? dst : tmp;
	size_t		polled = 0;

	RADIX(find_split) (work, src, n, high_bit, &split);
	memset(start, 0, sizeof(start));
	for (size_t i = 0; i < n; i += MEMBER_POLL)
	{
		if (member_stopped(m))
			return false;
		RADIX(count_split) (work, src + i, n - i < MEMBER_POLL ? n - i : MEMBER_POLL, &split,
							work->classes + i, start);
	}
	prefix_sum(start, split.classes + 1);
	memcpy(offset, start, sizeof(offset));
	for (size_t i = 0; i < n; i += MEMBER_POLL)
	{
		if (member_stopped(m))
			return false;
		RADIX(scatter_split) (src + i, n - i < MEMBER_POLL ? n - i : MEMBER_POLL, room,
							  work->classes + i, offset);
	}
	for (unsigned c = 0; c < split.classes; c++)
	{
		size_t		at = start[c];
		size_t		len = start[c + 1] - at;
		REC		   *from = room + at;
		REC		   *to = dst + at;
		REC		   *other = from != to ? from : src + at;
		int			high = split_below(&split, c);

		if (len == 0)
			continue;
		if (at - polled >= MEMBER_POLL)
		{
			polled = at;
			if (member_stopped(m))
				return false;
		}
		if (c % 2 == 0 && len > n / 2)
		{
			if (!RADIX(many_bits) (m, work, from, to, other, len, work->begin_bit, high))
				return false;
		}
		else if (!RADIX(class) (m, work, from, to, other, len, high))
			return false;
	}
	return true;
}

/* ------------------------------------------------------------------------
 * A problem: parts by the leading digit, by a team
 * ------------------------------------------------------------------------
 */

/*
 * Counts the leading digit; adds to differ the bits in which records differ
 * from like.
 */
static void
RADIX(count_part) (const REC *src, size_t n, REC like, int shift, uint32_t mask,
				   uint32_t *hist, KeyMask *differ)
{
	KeyMask		d = *differ;

	for (size_t i = 0; i < n; i++)
	{
		REC			r = src[i];

		hist[REC_WINDOW(r, shift) & mask]++;
		REC_DIFFER(d, r, like);
	}
	*differ = d;
}

/* A division of records into parts, by splitters or by a digit. */
typedef struct RADIX(Division)
{
	bool		by_split;
	SplitDigit	split;			/* if by_split */
	int			low_bit;		/* otherwise: of the digit */
	unsigned	nparts;			/* 0: all keys are equal */
	uint32_t	start[RADIX_MAX_PARTS + 1]; /* of the parts */
	uint32_t	offset[RADIX_MAX_PARTS];	/* where this member's records of a part go */
} RADIX(Division);

/* Bits below which all keys of a part are to be sorted. */
static inline int
RADIX(part_high_bit) (const RADIX(Division) *div, unsigned part)
{
	return div->by_split ? split_below(&div->split, part) : div->low_bit;
}

/* Counts this member's share, records first to last, by splitters.  False if stopped. */
static bool
RADIX(count_by_split) (Member *m, RadixWork *work, const REC *src, size_t n, size_t first, size_t last,
					   int high_bit, RADIX(Division) *div, uint32_t *mine)
{
	RADIX(find_split) (work, src, n, high_bit, &div->split);
	div->nparts = div->split.classes;
	memset(mine, 0, div->nparts * sizeof(uint32_t));
	for (size_t i = first; i < last; i += MEMBER_POLL)
	{
		if (member_stopped(m))
			break;
		RADIX(count_split) (work, src + i, last - i < MEMBER_POLL ? last - i : MEMBER_POLL, &div->split,
							work->classes + (i - first), mine);
	}
	return member_barrier(m);
}

/*
 * Counts this member's share by the leading digit, the "bits" bits below high_bit; if few of
 * these bits vary, by a lower one.  False if stopped.
 */
static bool
RADIX(count_by_digit) (Member *m, RadixWork *work, const REC *src, size_t first, size_t last,
					   int bits, int high_bit, RADIX(Division) *div, uint32_t *mine)
{
	KeyMask		differ;

	for (;;)
	{
		if (bits > high_bit - work->begin_bit)
			bits = high_bit - work->begin_bit;
		div->low_bit = high_bit - bits;
		div->nparts = 1u << bits;
		memset(mine, 0, div->nparts * sizeof(uint32_t));
		memset(&differ, 0, sizeof(differ));
		for (size_t i = first; i < last; i += MEMBER_POLL)
		{
			if (member_stopped(m))
				break;
			RADIX(count_part) (src + i, last - i < MEMBER_POLL ? last - i : MEMBER_POLL,
							   src[0], div->low_bit, div->nparts - 1, mine, &differ);
		}
		work->shared_differ[m->rank] = differ;
		if (!member_barrier(m))
			return false;
		for (int r = 0; r < m->size; r++)
		{
			differ.hi |= work->shared_differ[r].hi;
			differ.lo |= work->shared_differ[r].lo;
		}
		differ.hi &= work->mask.hi & mask_below(high_bit - 64);
		differ.lo &= work->mask.lo & mask_below(high_bit);
		if (differ.hi == 0 && differ.lo == 0)
			div->nparts = 0;
		if (div->nparts == 0 || top_bit(&differ) >= high_bit - RADIX_WASTED_BITS)
			return true;
		high_bit = top_bit(&differ);
		if (!member_barrier(m))
			return false;
	}
}

/*
 * The team divides n records into parts, from src to other: by the leading digit below
 * high_bit, or, if that is skewed and may_split, by splitters.  False if stopped.
 */
static bool
RADIX(divide) (Member *m, RadixWork *work, const REC *src, REC *other, size_t n, int high_bit,
			   bool may_split, RADIX(Division) *div)
{
	uint32_t   *mine = work->shared_hist + (size_t) m->rank * RADIX_MAX_PARTS;
	size_t		first = member_slice(m, n, m->rank);
	size_t		last = member_slice(m, n, m->rank + 1);
	int			bits = radix_part_bits(m->problem->team, n, sizeof(REC));

	div->by_split = may_split && high_bit > work->begin_bit && RADIX(is_skewed) (work, src, n, high_bit, bits);
	if (div->by_split ? !RADIX(count_by_split) (m, work, src, n, first, last, high_bit, div, mine) :
		!RADIX(count_by_digit) (m, work, src, first, last, bits, high_bit, div, mine))
		return false;
	if (div->nparts == 0)
		return true;

	/* the start of each part, and of this member's share in it */
	for (unsigned d = 0, sum = 0; d < div->nparts; d++)
	{
		div->start[d] = sum;
		for (int r = 0; r < m->size; r++)
		{
			if (r == m->rank)
				div->offset[d] = sum;
			sum += work->shared_hist[(size_t) r * RADIX_MAX_PARTS + d];
		}
	}
	div->start[div->nparts] = (uint32_t) n;
	if (m->rank == 0)
		m->shared->next_task = 0;

	for (size_t i = first; i < last; i += MEMBER_POLL)
	{
		if (member_stopped(m))
			break;
		if (div->by_split)
			RADIX(scatter_split) (src + i, last - i < MEMBER_POLL ? last - i : MEMBER_POLL, other,
								  work->classes + (i - first), div->offset);
		else
			RADIX(scatter) (src + i, last - i < MEMBER_POLL ? last - i : MEMBER_POLL, other,
							div->low_bit, div->nparts - 1, div->offset);
	}
	return member_barrier(m);
}

/*
 * Sorts n records by the key bits below high_bit.  The team divides them into parts.  Each part
 * is then sorted by one member, a large part by the team.  The result is in other if
 * into_other, else in src.  may_split: see divide().  False if stopped.
 */
static bool
RADIX(team_sort) (Member *m, RadixWork *work, REC *src, REC *other, bool into_other,
				  size_t n, int high_bit, bool may_split)
{
	RADIX(Division) div;
	size_t		first = member_slice(m, n, m->rank);
	size_t		big;

	if (!RADIX(divide) (m, work, src, other, n, high_bit, may_split, &div))
		return false;
	if (div.nparts == 0)
	{
		if (into_other)
			memcpy(other + first, src + first, (member_slice(m, n, m->rank + 1) - first) * sizeof(REC));
		return member_barrier(m);
	}

	/* small parts; a free member takes the next one */
	big = m->size > 1 ? n / m->size / 4 : radix_big_part(sizeof(REC));
	if (big < radix_big_part(sizeof(REC)))
		big = radix_big_part(sizeof(REC));
	for (;;)
	{
		unsigned	d = m->size == 1 ? m->shared->next_task++ :
			__atomic_fetch_add(&m->shared->next_task, 1, __ATOMIC_RELAXED);
		size_t		len;
		int			high;
		REC		   *from;
		REC		   *to;
		REC		   *tmp;

		if (d >= div.nparts)
			break;
		len = div.start[d + 1] - div.start[d];
		if (len == 0 || len > big)
			continue;
		from = other + div.start[d];
		to = into_other ? from : src + div.start[d];
		tmp = len * sizeof(REC) <= work->tmp_bytes ? (REC *) work->tmp : src + div.start[d];
		if (tmp == to)
			tmp = from;
		high = RADIX(part_high_bit) (&div, d);
		if (div.by_split ? !RADIX(class) (m, work, from, to, tmp, len, high) :
			!RADIX(leaf) (m, work, from, to, tmp, len, high))
			break;
	}
	if (!member_barrier(m))
		return false;
	for (unsigned d = 0; d < div.nparts; d++)
	{
		size_t		len = div.start[d + 1] - div.start[d];

		if (len > big &&
			!RADIX(team_sort) (m, work, other + div.start[d], src + div.start[d], !into_other,
							   len, RADIX(part_high_bit) (&div, d), !div.by_split || d % 2 == 1 || len <= n / 2))
			return false;
	}
	return true;
}

/* Sorts a problem in this format.  False if stopped. */
static bool
RADIX(sort) (Member *m, RadixWork *work)
{
	SortProblem *problem = m->problem;
	REC		   *recs = problem->recs;
	REC		   *other = problem->scratch;

	if (radix_in_parts(problem))
	{
		work->result = other;
		return RADIX(team_sort) (m, work, recs, other, true, problem->n, problem->end_bit, true);
	}
	if (m->rank > 0)
		return true;
	return RADIX(leaf) (m, work, recs, NULL, other, problem->n, problem->end_bit);
}
