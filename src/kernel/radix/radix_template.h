/*
 * radix_template.h
 *	  Sorting of a part, or a small input, by one member, for one record format;
 *	  included once per format.
 *
 * The includer defines
 *		RADIX(name)			name of a function of this format
 *		REC					record type
 *		REC_WINDOW, REC_LESS, REC_DIFFER	as in rec.h
 */

/*
 * Stable insertion sort: what tiny inputs deserve.
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
 * Histograms of the plan's digits, in one read.  The number of digits is a
 * constant in each call, so that the inner loops unroll.
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

/* One pass: every record to its digit's next place. */
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

/*
 * The records of src are in order on the bits from low_bit upwards: moves them
 * to dst (or leaves them, dst == src) and puts those in order whose upper bits
 * are equal.  Few are, so one predictable comparison per record is the price.
 * A run in which a record would have to move far is sorted by its lower bits
 * instead, which keeps the worst case linear.  tmp is free at the same indexes,
 * and may be src if that is not dst.
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

			/* Put the record back and sort the whole run. */
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
 * Counts the plan's digits in work->hist; constant[p] says of which all records
 * have one value.  Returns how many digits are not constant, -1 if stopped.
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

/* The pass of the plan's digit p, which has been counted.  False if stopped. */
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
 * Do so many records share one value of the leading digit that sorting on all
 * bits is cheaper?  With few key bits a fifth is enough; else it takes half, and
 * not because most have one key, for that key is parted from the others soon.
 */
static bool
RADIX(skewed) (const RadixWork *work, const REC *recs, size_t n, int high_bit,
			   const uint32_t *counts, size_t ncounts)
{
	REC			candidate = recs[0];
	int			votes = 0;
	int			same = 0;
	uint32_t	largest = 0;

	if (n < RADIX_SKEW_MIN)
		return false;
	for (size_t d = 0; d < ncounts; d++)
		if (counts[d] > largest)
			largest = counts[d];
	if (largest <= n / 5)
		return false;
	if (high_bit - work->begin_bit <= RADIX_MAX_DIGITS * RADIX_FAR_BITS)
		return true;
	if (largest <= n / 2)
		return false;

	/* The majority of a sample, if it has one (Boyer and Moore). */
	for (int i = 0; i < RADIX_SAMPLE; i++)
	{
		REC			r = recs[n / RADIX_SAMPLE * i];

		if (votes == 0)
			candidate = r;
		votes += REC_LESS(r, candidate, &work->mask) || REC_LESS(candidate, r, &work->mask) ? -1 : 1;
		if (votes < 0)
		{
			candidate = r;
			votes = 1;
		}
	}
	for (int i = 0; i < RADIX_SAMPLE; i++)
	{
		REC			r = recs[n / RADIX_SAMPLE * i];

		same += !REC_LESS(r, candidate, &work->mask) && !REC_LESS(candidate, r, &work->mask);
	}
	return same <= RADIX_SAMPLE / 2;
}

/*
 * Sorts n records on all key bits below high_bit, least significant digit first:
 * the answer to skew, for its time does not depend on the keys.  Arguments as
 * leaf()'s.
 */
static bool
RADIX(all_bits) (Member *m, RadixWork *work, REC *src, REC *dst, REC *tmp,
				 size_t n, int high_bit)
{
	REC		   *cur = src;
	REC		   *other = dst == NULL || dst == src ? tmp : dst;
	DigitPlan	plan;

	for (int low_bit = work->begin_bit; low_bit < high_bit; low_bit += plan.nbits)
	{
		bool		constant[RADIX_MAX_DIGITS];

		plan_digits(&plan, low_bit, high_bit, digit_bits(n, sizeof(REC)));
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
		work->result = cur;
	else if (cur != dst)
		memcpy(dst, cur, n * sizeof(REC));
	return true;
}

/*
 * Sorts n records on the key bits below high_bit, least significant digit
 * first, into dst.  dst may be src; tmp is other room, or src if that is not
 * dst.  dst may be NULL: then the result is left in src or tmp, whichever comes
 * cheaper, and work->result says where.
 *
 * Only as many leading bits are sorted as tell n evenly spread keys apart, with
 * a few to spare; finish() sees to the rest.
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

	/* Find leading bits in which the records differ. */
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
		RADIX(skewed) (work, src, n, high_bit, work->hist[plan.ndigits - 1],
					   plan.mask[plan.ndigits - 1] + 1))
		return RADIX(all_bits) (m, work, src, dst, tmp, n, high_bit);

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
