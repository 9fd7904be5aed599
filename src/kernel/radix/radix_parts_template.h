/*
 * radix_parts_template.h
 *	  Divides records into parts by the leading digit, by a team, and sorts a
 *	  problem; for one record format.  Included after radix_template.h, whose
 *	  definitions it uses and removes.
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

/*
 * Sorts n records by the key bits below high_bit.  The team divides them into
 * parts, from src to other: by the leading digit, or, if that is skewed and
 * may_split, by splitters.  Each part is then sorted by one member, a large
 * part by the team.  The result is in other if into_other, else in src.  False
 * if stopped.
 */
static bool
RADIX(team_sort) (Member *m, RadixWork *work, REC *src, REC *other, bool into_other,
				  size_t n, int high_bit, bool may_split)
{
	uint32_t   *mine = work->shared_hist + (size_t) m->rank * RADIX_MAX_PARTS;
	size_t		first = member_slice(m, n, m->rank);
	size_t		last = member_slice(m, n, m->rank + 1);
	uint32_t	start[RADIX_MAX_PARTS + 1];
	uint32_t	offset[RADIX_MAX_PARTS];
	SplitDigit	split;
	bool		by_split;
	KeyMask		differ;
	size_t		big;
	int			bits;
	int			low_bit = high_bit;
	unsigned	nparts;

	bits = radix_part_bits(m->problem->team, n, sizeof(REC));
	by_split = may_split && high_bit > work->begin_bit && RADIX(is_skewed) (work, src, n, high_bit, bits);
	if (by_split)
	{
		RADIX(find_split) (work, src, n, high_bit, &split);
		nparts = split.classes;
		memset(mine, 0, nparts * sizeof(uint32_t));
		for (size_t i = first; i < last; i += MEMBER_POLL)
		{
			if (member_stopped(m))
				break;
			RADIX(count_split) (work, src + i, last - i < MEMBER_POLL ? last - i : MEMBER_POLL, &split,
								work->classes + (i - first), mine);
		}
		if (!member_barrier(m))
			return false;
	}

	/* count the leading digit; if few of its bits vary, count a lower one */
	while (!by_split)
	{
		if (bits > high_bit - work->begin_bit)
			bits = high_bit - work->begin_bit;
		low_bit = high_bit - bits;
		nparts = 1u << bits;
		memset(mine, 0, nparts * sizeof(uint32_t));
		memset(&differ, 0, sizeof(differ));
		for (size_t i = first; i < last; i += MEMBER_POLL)
		{
			if (member_stopped(m))
				break;
			RADIX(count_part) (src + i, last - i < MEMBER_POLL ? last - i : MEMBER_POLL,
							   src[0], low_bit, nparts - 1, mine, &differ);
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
		{
			/* all keys are equal */
			if (into_other)
				memcpy(other + first, src + first, (last - first) * sizeof(REC));
			return member_barrier(m);
		}
		if (top_bit(&differ) >= high_bit - RADIX_WASTED_BITS)
			break;
		high_bit = top_bit(&differ);
		if (!member_barrier(m))
			return false;
	}

	/* the start of each part, and of this member's share in it */
	for (unsigned d = 0, sum = 0; d < nparts; d++)
	{
		start[d] = sum;
		for (int r = 0; r < m->size; r++)
		{
			if (r == m->rank)
				offset[d] = sum;
			sum += work->shared_hist[(size_t) r * RADIX_MAX_PARTS + d];
		}
	}
	start[nparts] = (uint32_t) n;
	if (m->rank == 0)
		m->shared->next_task = 0;

	for (size_t i = first; i < last; i += MEMBER_POLL)
	{
		if (member_stopped(m))
			break;
		if (by_split)
			RADIX(scatter_split) (src + i, last - i < MEMBER_POLL ? last - i : MEMBER_POLL, other,
								  work->classes + (i - first), offset);
		else
			RADIX(scatter) (src + i, last - i < MEMBER_POLL ? last - i : MEMBER_POLL, other,
							low_bit, nparts - 1, offset);
	}
	if (!member_barrier(m))
		return false;

	/* small parts; a free member takes the next one */
	big = m->size > 1 ? n / m->size / 4 : radix_big_part(sizeof(REC));
	if (big < radix_big_part(sizeof(REC)))
		big = radix_big_part(sizeof(REC));
	for (;;)
	{
		unsigned	d = m->size == 1 ? m->shared->next_task++ :
			__atomic_fetch_add(&m->shared->next_task, 1, __ATOMIC_RELAXED);
		size_t		len;
		REC		   *from;
		REC		   *to;
		REC		   *tmp;

		if (d >= nparts)
			break;
		len = start[d + 1] - start[d];
		if (len == 0 || len > big)
			continue;
		from = other + start[d];
		to = into_other ? from : src + start[d];
		tmp = len * sizeof(REC) <= work->tmp_bytes ? (REC *) work->tmp : src + start[d];
		if (tmp == to)
			tmp = from;
		if (by_split ? !RADIX(class) (m, work, from, to, tmp, len, split_below(&split, d)) :
			!RADIX(leaf) (m, work, from, to, tmp, len, low_bit))
			break;
	}
	if (!member_barrier(m))
		return false;
	for (unsigned d = 0; d < nparts; d++)
	{
		size_t		len = start[d + 1] - start[d];

		if (len > big &&
			!RADIX(team_sort) (m, work, other + start[d], src + start[d], !into_other,
							   len, by_split ? split_below(&split, d) : low_bit,
							   !by_split || d % 2 == 1 || len <= n / 2))
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

#undef RADIX
#undef REC
#undef REC_WINDOW
#undef REC_LESS
#undef REC_DIFFER
#undef REC_SPLIT_WORD
