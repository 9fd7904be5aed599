/*
 * radix_template.h
 *	  Body of cpu_radix for one record format; included once per format.
 *
 * The includer defines
 *		RADIX(name)			name of a function of this format
 *		REC					record type
 *		REC_LESS(a, b, m)	is key a < key b, under the key mask m
 *		REC_DIGIT(r, shift)	the 8 key bits of r from bit shift upwards
 *		REC_BITS			width of the key field
 */

/* Stable insertion sort: what tiny inputs deserve. */
static void
RADIX(insertion) (REC *recs, size_t n, const RadixMask *mask)
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

static SortStatus
RADIX(sort) (SortJob *job, const RadixMask *mask)
{
	REC		   *src = job->recs;
	REC		   *dst = job->scratch;
	size_t		n = job->n;
	uint32_t	hist[REC_BITS / RADIX_BITS][RADIX_SIZE];
	int			npasses;

	if (n <= RADIX_TINY)
	{
		RADIX(insertion) (src, n, mask);
		job->result = src;
		return SORT_OK;
	}

	/* The histograms of all digits, in one read. */
	npasses = (job->end_bit - job->begin_bit + RADIX_BITS - 1) / RADIX_BITS;
	memset(hist, 0, sizeof(hist[0]) * npasses);
	for (size_t i = 0; i < n;)
	{
		size_t		stop = n - i < RADIX_POLL ? n : i + RADIX_POLL;

		if (radix_interrupted(job))
			return SORT_STOPPED;
		for (; i < stop; i++)
		{
			REC			r = src[i];

			for (int p = 0; p < npasses; p++)
				hist[p][REC_DIGIT(r, job->begin_bit + p * RADIX_BITS, mask)]++;
		}
	}

	for (int p = 0; p < npasses; p++)
	{
		int			shift = job->begin_bit + p * RADIX_BITS;
		uint32_t   *offset = hist[p];
		uint32_t	sum = 0;
		REC		   *t;

		/* A digit that is the same in every record orders nothing. */
		if (offset[REC_DIGIT(src[0], shift, mask)] == n)
			continue;

		for (int d = 0; d < RADIX_SIZE; d++)
		{
			uint32_t	count = offset[d];

			offset[d] = sum;
			sum += count;
		}
		for (size_t i = 0; i < n;)
		{
			size_t		stop = n - i < RADIX_POLL ? n : i + RADIX_POLL;

			if (radix_interrupted(job))
				return SORT_STOPPED;
			for (; i < stop; i++)
			{
				REC			r = src[i];

				dst[offset[REC_DIGIT(r, shift, mask)]++] = r;
			}
		}
		t = src;
		src = dst;
		dst = t;
	}
	job->result = src;
	return SORT_OK;
}

#undef RADIX
#undef REC
#undef REC_LESS
#undef REC_DIGIT
#undef REC_BITS
