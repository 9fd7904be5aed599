/*
 * block_merge_template.h
 *	  A merge of two nodes' rows, for one width of keys.
 *
 * Included once for each width, with MERGE_KEY, the keys' type, and MERGE(name), what
 * names are made of.
 *
 * Neither runs out of rows in as many steps as the one has that has less: in these
 * steps nothing is asked but which key is less, and the answer is used as a number.  A step
 * waits for little but the one before, which says where it is to look; so they are made
 * in two halves by turns, which wait at the same time.
 */
typedef struct MERGE(Item)
{
	MinimalTuple row;
	MERGE_KEY	key;
} MERGE(Item);

/* The stream's next rows, so many as it has ahead now. */
static void
MERGE(take)(MergeNode *stream)
{
	const MERGE_KEY *keys = (const MERGE_KEY *) stream->block_keys;
	MERGE(Item) *items = (MERGE(Item) *) stream->space;

	StaticAssertStmt(offsetof(MERGE(Item), key) == MERGE_KEY_AT, "a key is not where it is looked for");
	for (uint32 i = 0; i < stream->n; i++)
	{
		items[i].row = (MinimalTuple) (stream->base + stream->places[i] * sizeof(uint64));
		items[i].key = keys[i];
	}
	stream->block_keys = (const char *) (keys + stream->n);
}

/* Does b come before a? */
static pg_attribute_always_inline bool
MERGE(b_first)(BlockMerge *merge, const MERGE(Item) *a, const MERGE(Item) *b, bool exact)
{
	if (!exact && unlikely(a->key == b->key))
		return tiebreak_compare(merge->tiebreak, b->row, a->row) < 0;
	return b->key < a->key;
}

/* Of the first n of both so many are a's. */
static pg_attribute_always_inline uint32
MERGE(split)(BlockMerge *merge, const MERGE(Item) *a, const MERGE(Item) *b, uint32 n, bool exact)
{
	uint32		least = 0;
	uint32		most = n;

	while (least < most)
	{
		uint32		of_a = (least + most) / 2;

		if (MERGE(b_first) (merge, &a[of_a], &b[n - 1 - of_a], exact))
			most = of_a;
		else
			least = of_a + 1;
	}
	return least;
}

/* The next one. */
static pg_attribute_always_inline void
MERGE(step)(BlockMerge *merge, const MERGE(Item) **a, const MERGE(Item) **b, MERGE(Item) *to,
			bool exact)
{
	uintptr_t	b_first = MERGE(b_first) (merge, *a, *b, exact);

	*to = *(const MERGE(Item) *) ((uintptr_t) *a ^ (((uintptr_t) *a ^ (uintptr_t) *b) & -b_first));
	*b += b_first;
	*a += 1 - b_first;
}

/* n of a and b, who have as many. */
static pg_attribute_always_inline void
MERGE(steps)(BlockMerge *merge, MergeNode *a_node, MergeNode *b_node, MERGE(Item) *to, uint32 n,
			 bool exact)
{
	const MERGE(Item) *a = (const MERGE(Item) *) a_node->items;
	const MERGE(Item) *b = (const MERGE(Item) *) b_node->items;
	uint32		half = n >= MERGE_MIN_HALVES ? n / 2 : 0;
	uint32		of_a = MERGE(split) (merge, a, b, half, exact);
	const MERGE(Item) *half_a = a + of_a;
	const MERGE(Item) *half_b = b + (half - of_a);

	for (uint32 i = 0; i < half; i++)
	{
		MERGE(step) (merge, &a, &b, &to[i], exact);
		MERGE(step) (merge, &half_a, &half_b, &to[half + i], exact);
	}
	for (uint32 i = 2 * half; i < n; i++)
		MERGE(step) (merge, &half_a, &half_b, &to[i], exact);
	of_a = half_a - (const MERGE(Item) *) a_node->items;
	a_node->items = (const char *) half_a;
	a_node->n -= of_a;
	b_node->items = (const char *) half_b;
	b_node->n -= n - of_a;
}

/* The node's next rows: until it is full, or one of those below has to be asked for more. */
static void
MERGE(merge)(BlockMerge *merge, MergeNode *node)
{
	MergeNode  *a = node->a;
	MergeNode  *b = node->b;
	MERGE(Item) *items = (MERGE(Item) *) node->space;
	uint32		n = 0;
	uint32		steps;

	while ((steps = Min(Min(a->n, b->n), MERGE_BATCH - n)) > 0)
	{
		if (merge->exact)
			MERGE(steps) (merge, a, b, items + n, steps, true);
		else
			MERGE(steps) (merge, a, b, items + n, steps, false);
		n += steps;
	}
	node->items = node->space;
	node->n = n;
	if (n > 0)
		return;

	/* one has ended: the other's rows are this node's */
	if (a->n == 0)
		a = b;
	node->items = a->items;
	node->n = a->n;
	a->n = 0;
}

#undef MERGE_KEY
#undef MERGE
