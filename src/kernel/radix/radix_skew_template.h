/*
 * radix_skew_template.h
 *	  Sorts records whose leading bits are skewed, by one member, for one
 *	  record format.  Included after radix_template.h, whose definitions it
 *	  uses.
 *
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
