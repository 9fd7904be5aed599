/*
 * radix_template.h
 *	  Sorts a part, or a small input, by one member, for one record format;
 *	  included once per format.
 *
 * The includer defines
 *		RADIX(name)			name of a function of this format
 *		REC					record type
 *		REC_WINDOW, REC_LESS, REC_DIFFER	as in rec.h
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
