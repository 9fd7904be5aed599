/*
 * counting_template.h
 *	  Body of cpu_counting for one record format; included once per format
 *	  (formats_template.h).
 */

/*
 * Counts, sums, places.  Each member counts the values of its slice in a table
 * of its own.  It then adds up the counts of its share of the values over all
 * tables, turns them into places, and moves its slice.  Returns false if the
 * team was stopped.
 */
static bool
COUNTING(sort) (Member *m, uint32_t *tables, uint32_t *totals)
{
	SortProblem *problem = m->problem;
	const REC  *src = problem->recs;
	REC		   *dst = problem->scratch;
	size_t		first = member_slice(m, problem->n, m->rank);
	size_t		last = member_slice(m, problem->n, m->rank + 1);
	int			shift = problem->begin_bit;
	size_t		range = counting_range(problem);
	uint32_t	mask = (uint32_t) (range - 1);
	uint32_t   *mine = tables + m->rank * range;
	size_t		from = member_share(m, range, m->rank);
	size_t		to = member_share(m, range, m->rank + 1);
	uint32_t	sum = 0;

	memset(mine, 0, range * sizeof(uint32_t));
	for (size_t i = first; i < last;)
	{
		size_t		stop = last - i < MEMBER_POLL ? last : i + MEMBER_POLL;

		if (member_stopped(m))
			break;
		for (; i < stop; i++)
			mine[REC_WINDOW(src[i], shift) & mask]++;
	}
	if (!member_barrier(m))
		return false;

	if (m->size > 1)
	{
		for (size_t v = from; v < to; v++)
			for (int r = 0; r < m->size; r++)
				sum += tables[r * range + v];
		totals[m->rank] = sum;
		if (!member_barrier(m))
			return false;
		sum = 0;
		for (int r = 0; r < m->rank; r++)
			sum += totals[r];
	}
	for (size_t v = from; v < to; v++)
		for (int r = 0; r < m->size; r++)
		{
			uint32_t	count = tables[r * range + v];

			tables[r * range + v] = sum;
			sum += count;
		}
	if (!member_barrier(m))
		return false;

	for (size_t i = first; i < last;)
	{
		size_t		stop = last - i < MEMBER_POLL ? last : i + MEMBER_POLL;

		if (member_stopped(m))
			break;
		for (; i + 4 <= stop; i += 4)
		{
			REC			a = src[i];
			REC			b = src[i + 1];
			REC			c = src[i + 2];
			REC			d = src[i + 3];

			dst[mine[REC_WINDOW(a, shift) & mask]++] = a;
			dst[mine[REC_WINDOW(b, shift) & mask]++] = b;
			dst[mine[REC_WINDOW(c, shift) & mask]++] = c;
			dst[mine[REC_WINDOW(d, shift) & mask]++] = d;
		}
		for (; i < stop; i++)
		{
			REC			a = src[i];

			dst[mine[REC_WINDOW(a, shift) & mask]++] = a;
		}
	}
	return member_barrier(m);
}
