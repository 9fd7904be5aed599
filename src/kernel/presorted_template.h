/*
 * presorted_template.h
 *	  Body of presorted for one record format; included once per format
 *	  (formats_template.h).
 */

/* Reverses records [from, to). */
static void
PRESORTED(reverse_range) (REC *recs, size_t from, size_t to)
{
	while (from + 1 < to)
	{
		REC			r = recs[from];

		recs[from++] = recs[--to];
		recs[to] = r;
	}
}

/*
 * Reverses descending input.  Groups of equal keys are reversed again, so that
 * they keep their order.  False if stopped.
 */
static bool
PRESORTED(reverse) (Member *m, const KeyMask *mask)
{
	REC		   *recs = m->problem->recs;
	size_t		n = m->problem->n;

	for (size_t i = 0; i < n / 2; i += MEMBER_POLL)
	{
		size_t		stop = n / 2 - i < MEMBER_POLL ? n / 2 : i + MEMBER_POLL;

		if (member_stopped(m))
			return false;
		for (size_t j = i; j < stop; j++)
		{
			REC			r = recs[j];

			recs[j] = recs[n - 1 - j];
			recs[n - 1 - j] = r;
		}
	}
	for (size_t i = 1, start = 0; i <= n; i++)
	{
		if (i % MEMBER_POLL == 0 && member_stopped(m))
			return false;
		if (i == n || REC_LESS(recs[i - 1], recs[i], mask))
		{
			if (i - start > 1)
				PRESORTED(reverse_range) (recs, start, i);
			start = i;
		}
	}
	m->problem->result = recs;
	return true;
}

/* Merges two adjacent runs to out; of equal keys those of a come first. */
static bool
PRESORTED(merge) (Member *m, const KeyMask *mask, const REC *a, const REC *a_end,
				  const REC *b, const REC *b_end, REC *out)
{
	while (a < a_end && b < b_end)
	{
		/* neither run ends within this number of steps */
		size_t		steps = a_end - a < b_end - b ? a_end - a : b_end - b;

		if (steps > MEMBER_POLL)
			steps = MEMBER_POLL;
		if (member_stopped(m))
			return false;
		for (; steps > 0; steps--)
		{
			bool		from_b = REC_LESS(*b, *a, mask);
			const REC  *take = from_b ? b : a;

			*out++ = *take;
			b += from_b;
			a += !from_b;
		}
	}
	memcpy(out, a, (a_end - a) * sizeof(REC));
	memcpy(out + (a_end - a), b, (b_end - b) * sizeof(REC));
	return true;
}

/* Merges neighbouring ascending runs, level by level.  False if stopped. */
static bool
PRESORTED(merge_runs) (Member *m, const KeyMask *mask)
{
	size_t		n = m->problem->n;
	REC		   *src = m->problem->recs;
	REC		   *dst = m->problem->scratch;
	size_t		start[PRESORTED_MAX_RUNS + 2];
	int			nruns = 0;

	start[nruns++] = 0;
	for (size_t i = 1; i < n; i++)
	{
		if (i % MEMBER_POLL == 0 && member_stopped(m))
			return false;
		if (unlikely(REC_LESS(src[i], src[i - 1], mask)))
			start[nruns++] = i;
	}
	start[nruns] = n;
	while (nruns > 1)
	{
		REC		   *t = src;
		int			left = 0;

		for (int r = 0; r < nruns; r += 2)
		{
			size_t		from = start[r];
			size_t		mid = r + 1 < nruns ? start[r + 1] : n;
			size_t		to = r + 2 < nruns ? start[r + 2] : n;

			if (!PRESORTED(merge) (m, mask, src + from, src + mid, src + mid, src + to, dst + from))
				return false;
			start[left++] = from;
		}
		nruns = left;
		src = dst;
		dst = t;
	}
	m->problem->result = src;
	return true;
}

/*
 * Second part of the drop-merge sort: sorts the records out of place, which the bitmap marks,
 * and merges them and the backbone, in the scratch, into recs.
 */
static SortStatus
PRESORTED(merge_drops) (Member *m, const KeyMask *mask, const uint64_t *out, size_t nbackbone, size_t ndrops)
{
	SortProblem *problem = m->problem;
	size_t		n = problem->n;
	REC		   *recs = problem->recs;
	const REC  *backbone = problem->scratch;
	REC		   *drops = (REC *) ((char *) out + presorted_bitmap_bytes(n));
	SortProblem dropped = *problem;
	size_t		d = 0;
	SortStatus	status;

	(void) mask;				/* not every REC_BEFORE needs it */
	for (size_t word = 0; word < (n + 63) / 64; word++)
		for (uint64_t bits = out[word]; bits != 0; bits &= bits - 1)
			drops[d++] = recs[word * 64 + __builtin_ctzll(bits)];
	dropped.recs = drops;
	dropped.scratch = (char *) drops + align64(presorted_max_drops(n) * sizeof(REC));
	dropped.n = ndrops;
	dropped.team = NULL;
	status = cpu_radix_kernel.run(&dropped);
	if (status != SORT_OK)
		return status;
	drops = dropped.result;

	d = 0;
	for (size_t i = 0, s = 0; i < n; i++)
	{
		if (i % MEMBER_POLL == 0 && member_stopped(m))
			return SORT_STOPPED;
		if (d < ndrops && (s == nbackbone || REC_BEFORE(drops[d], backbone[s], mask)))
			recs[i] = drops[d++];
		else
			recs[i] = backbone[s++];
	}
	problem->result = recs;
	return SORT_OK;
}

/*
 * Drop-merge sort.  Divides the input into the backbone, an ascending sequence,
 * in the scratch, and the records out of place; sorts the latter and merges
 * both into recs.  Returns SORT_NOT_APPLICABLE, with recs unchanged, if too
 * many are out of place.
 *
 * A bitmap marks the records out of place, so that they are read in input
 * order, whatever the order in which they were found.
 */
static SortStatus
PRESORTED(drop_merge) (Member *m, const KeyMask *mask)
{
	SortProblem *problem = m->problem;
	size_t		n = problem->n;
	size_t		max_drops = presorted_max_drops(n);
	REC		   *recs = problem->recs;
	REC		   *backbone = problem->scratch;
	uint64_t   *out = (uint64_t *) ((char *) problem->scratch + align64(n * sizeof(REC)));
	size_t		nbackbone = 0;
	size_t		top = 0;		/* index in recs of backbone[nbackbone - 1] */
	size_t		ndrops = 0;
	size_t		in_a_row = 0;
	size_t		check_after = PRESORTED_IN_A_ROW;

	memset(out, 0, presorted_bitmap_bytes(n));
	for (size_t i = 0, poll = 0; i < n; i++)
	{
		REC			r = recs[i];

		if (i >= poll)
		{
			if (member_stopped(m))
				return SORT_STOPPED;
			poll = i + MEMBER_POLL;
		}
		if (likely(nbackbone == 0 || !REC_LESS(r, backbone[nbackbone - 1], mask)))
		{
			backbone[nbackbone++] = r;
			top = i;
			in_a_row = 0;
			continue;
		}
		if (ndrops >= max_drops)
			return SORT_NOT_APPLICABLE;
		ndrops++;
		if (nbackbone == 1 || !REC_LESS(r, backbone[nbackbone - 2], mask))
		{
			/* the backbone's last record is out of place, not this one */
			bit_set(out, top);
			backbone[nbackbone - 1] = r;
			top = i;
			in_a_row = 0;
			continue;
		}
		bit_set(out, i);
		if (in_a_row++ == 0)
			check_after = PRESORTED_IN_A_ROW;
		if (in_a_row < check_after)
			continue;

		/*
		 * check_after records in a row were dropped.  If at most check_after
		 * records at the backbone's end are greater than the first dropped one,
		 * these records of the backbone are dropped instead.
		 */
		if (nbackbone > check_after && REC_LESS(recs[i + 1 - check_after], backbone[nbackbone - 1 - check_after], mask))
		{
			check_after *= 2;
			continue;
		}
		ndrops -= in_a_row;
		for (; in_a_row > 1; in_a_row--)
			bit_clear(out, i--);
		bit_clear(out, i);
		in_a_row = 0;
		r = recs[i];
		while (nbackbone > 0 && REC_LESS(r, backbone[nbackbone - 1], mask))
		{
			if (ndrops >= max_drops)
				return SORT_NOT_APPLICABLE;
			ndrops++;
			bit_set(out, top);
			nbackbone--;
			while (top > 0 && bit_is_set(out, top))
				top--;
		}
		backbone[nbackbone++] = r;
		top = i;
	}

	return PRESORTED(merge_drops) (m, mask, out, nbackbone, ndrops);
}

/* Sorts by the case that descents and ascents tell. */
static SortStatus
PRESORTED(sort) (Member *m, const KeyMask *mask)
{
	SortProblem *problem = m->problem;

	if (problem->descents == 0)
	{
		problem->result = problem->recs;
		return SORT_OK;
	}
	if (problem->ascents == 0)
		return PRESORTED(reverse) (m, mask) ? SORT_OK : SORT_STOPPED;
	if (problem->descents < PRESORTED_MAX_RUNS)
		return PRESORTED(merge_runs) (m, mask) ? SORT_OK : SORT_STOPPED;
	return PRESORTED(drop_merge) (m, mask);
}
